/* Shared by all kernels: arrays as Python passes them, memory, and names of what the library exports.

Each file is compiled for single and for double precision (REAL), and for several instruction sets (LEVEL). Products
and sums are fused where the code says madd or fused, and nowhere else: results have the same bits from every
compiler, and on all processors that fuse. */

#ifndef COMMON_H
#define COMMON_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef SINGLE
typedef float REAL;
#define PRECISION f32
#else
typedef double REAL;
#define PRECISION f64
#endif
#define R(number) ((REAL)(number))

#define INLINE static inline __attribute__((always_inline))
#define JOIN_(name, precision, level) name##_##precision##_##level
#define JOIN(name, precision, level) JOIN_(name, precision, level)
#ifdef _WIN32
#define VISIBLE __declspec(dllexport)
#else
#define VISIBLE __attribute__((visibility("default")))
#endif
/* The kernel of a name in the present precision, for Python; the same between the files of one level. */
#define EXPORT(name) VISIBLE JOIN(name, PRECISION, LEVEL)
#define DOUBLE(name) JOIN(name, f64, LEVEL)

/* A contiguous array of up to four axes; the missing ones have length 1. */
typedef struct {
    void *data;
    int64_t kind; /* KIND(letter, bytes) of NumPy's type */
    int64_t shape[4];
} Array;

#define KIND(letter, bytes) ((letter) << 8 | (bytes))
/* Address of array[i], and of array[i, j]. */
#define ROW(type, array, i) \
    ((type *)(array).data + (i) * (array).shape[1] * (array).shape[2] * (array).shape[3])
#define AT(type, array, i, j) \
    ((type *)(array).data + ((i) * (array).shape[1] + (j)) * (array).shape[2] * (array).shape[3])

/* Class densities of several worlds, as in class_densities.DensityNumbers. */
typedef struct {
    Array centre, whitening, shift, log_weight, slope, dof, inverse_dof, rounding_bound, variance, between, tail,
        table_scale, table, largest;
} Densities;

/* Components of classes, as in class_densities.ComponentNumbers; without data where each class has one. */
typedef struct {
    Array first, sharpness;
} Components;

/* Scores of n points, in rows of `stride` numbers; the densities of the components of a class add up. */
#define SCORES(type) \
    struct { \
        int64_t p, n, stride, components, classes; \
        type *x; /* (feature, point), values less the centre */ \
        type *q; /* (component, point), squared distances */ \
        type *v; /* (component, point), log(1 + q/nu) */ \
        type *r; /* (component, point), share in the class; not there where each class has one component */ \
        type *t; /* (class, point), log odds less the largest */ \
        type *e; /* (class, point), probabilities */ \
        type *s; /* (point,), 1/sum exp(t) */ \
    }
typedef SCORES(REAL) Scores;
#ifdef SINGLE
typedef SCORES(double) ExactScores;
#else
typedef Scores ExactScores;
#endif

/* Squared distances and probabilities of points in double precision; `raw` and what is written share a stride. */
void DOUBLE(score_exactly)(const double *raw, const double *coefficients, const Densities *densities, int64_t world,
                           const Components *components, ExactScores *scores);
/* Add -p log p of each p to `total`; `n` is a multiple of the numbers in a line of the cache. */
void DOUBLE(add_surprise)(const double *p, int64_t n, double *total);

/* ---- memory of one call: reserved piece by piece, released together -------------------------------------- */

#define LINE ((int64_t)(64 / sizeof(REAL))) /* numbers in a line of the cache: rows are multiples of it */

typedef struct {
    void *pieces[64];
    int count, failed;
} Room;

/* Zeros, at the beginning of a line of the cache. */
static inline void *reserve_bytes(Room *room, int64_t bytes) {
    char *piece = room->failed ? NULL : calloc((size_t)bytes + 64, 1);
    if (piece == NULL) {
        room->failed = 1;
        return NULL;
    }
    room->pieces[room->count++] = piece;
    return piece + (64 - (uintptr_t)piece % 64) % 64;
}
#define RESERVE(room, type, count) ((type *)reserve_bytes(room, (int64_t)(count) * (int64_t)sizeof(type)))

/* Say whether there was room for everything, and let go of it. */
static inline int release(Room *room) {
    while (room->count > 0) free(room->pieces[--room->count]);
    return room->failed;
}

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

#endif
