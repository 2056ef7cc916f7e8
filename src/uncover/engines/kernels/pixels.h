/* Pixels of a map: calibrated, taken from planes, put back and counted, as uncover.raster.pixel_kernels says. */

#ifndef PIXELS_H
#define PIXELS_H

#include "common.h"

/* Do the same for all types of whole numbers, and all types, that an array may have; T is the type. */
#define CASE(letter, type, statement) \
    case KIND(letter, sizeof(type)): { \
        typedef type T; \
        statement; \
        break; \
    }
#define WHOLE_NUMBERS(statement) \
    CASE('u', uint8_t, statement) \
    CASE('u', uint16_t, statement) \
    CASE('u', uint32_t, statement) \
    CASE('u', uint64_t, statement) \
    CASE('i', int8_t, statement) \
    CASE('i', int16_t, statement) \
    CASE('i', int32_t, statement) \
    CASE('i', int64_t, statement)

typedef struct {
    Array planes, where, out;
} GatherArguments;

typedef struct {
    Array values;
    double step;
    int64_t nothing;
    Array where, row, out;
} PutArguments;

typedef struct {
    Array best, typicality, disagreement, margin;
    double limits[3];
    Array bits, codes, where, classes, quality;
} MarkArguments;

#ifdef SINGLE
#define ROUND(number) __builtin_rintf(number)
#else
#define ROUND(number) __builtin_rint(number)
#endif

/* Numbers (band, place) as whole steps, NaN as `nothing`, to their places in planes (band, pixel).

`row` is room for the steps of one band. */
int EXPORT(put_steps)(const PutArguments *a) {
    int64_t n = a->where.shape[0];
    const int64_t *restrict where = a->where.data;
    uint16_t *restrict row = a->row.data;
    REAL step = R(a->step);
    int32_t nothing = (int32_t)a->nothing;
    for (int64_t j = 0; j < a->values.shape[0]; j++) {
        const REAL *restrict values = ROW(REAL, a->values, j);
        uint16_t *restrict out = ROW(uint16_t, a->out, j);
        for (int64_t i = 0; i < n; i++) {
            REAL number = ROUND(values[i] / step);
            row[i] = (uint16_t)(number == number ? (int32_t)number : nothing);
        }
        for (int64_t i = 0; i < n; i++) out[where[i]] = row[i];
    }
    return 0;
}

/* Code of the class, and the bits of what lies beyond the limits of the three, at each pixel's place. */
int EXPORT(mark)(const MarkArguments *a) {
    const int64_t *where = a->where.data;
    const uint8_t *codes = a->codes.data, *best = a->best.data;
    const REAL *typicality = a->typicality.data, *margin = a->margin.data;
    const double *disagreement = a->disagreement.data;
    const uint16_t *bits = a->bits.data;
    uint16_t *quality = a->quality.data;
    REAL untypical = R(a->limits[0]), close = R(a->limits[2]);
    for (int64_t i = 0; i < a->where.shape[0]; i++) {
        int64_t place = where[i];
        ((uint8_t *)a->classes.data)[place] = codes[best[i]];
        if (!(typicality[i] >= untypical)) quality[place] |= bits[0];
        if (disagreement[i] > a->limits[1]) quality[place] |= bits[1];
        if (margin[i] < close) quality[place] |= bits[2];
    }
    return 0;
}

#ifndef SINGLE

/* Pixels of planes (band, pixel) by their place: (band, place). */
int EXPORT(gather)(const GatherArguments *a) {
    const int64_t *restrict where = a->where.data;
    int64_t n = a->where.shape[0];
#define GATHER(bytes, type) \
    case bytes: \
        for (int64_t j = 0; j < a->planes.shape[0]; j++) { \
            const type *restrict from = ROW(type, a->planes, j); \
            type *restrict to = ROW(type, a->out, j); \
            for (int64_t i = 0; i < n; i++) to[i] = from[where[i]]; \
        } \
        break;
    switch (a->planes.kind & 255) {
        GATHER(1, uint8_t) GATHER(2, uint16_t) GATHER(4, uint32_t) GATHER(8, uint64_t)
        default: return 2;
    }
#undef GATHER
    return 0;
}

typedef struct {
    Array numbers;
    double scale, offset, nodata, saturated;
    int64_t bit;
    Array out, flags;
} CalibrationArguments;

/* scale*number + offset (row, col) in single precision; NaN and the bit for numbers that are none. */
int EXPORT(calibrate)(const CalibrationArguments *a) {
    float *restrict out = a->out.data;
    uint16_t *restrict flags = a->flags.data, bit = (uint16_t)a->bit;
    double scale = a->scale, offset = a->offset, nodata = a->nodata, saturated = a->saturated;
    int64_t n = a->numbers.shape[0] * a->numbers.shape[1];
#define CALIBRATE \
    const T *restrict numbers = a->numbers.data; \
    for (int64_t i = 0; i < n; i++) { \
        double number = (double)numbers[i]; \
        float value = (float)(number * scale + offset); \
        int is_full = number == saturated; \
        out[i] = is_full | (number == nodata) ? NAN : value; \
        flags[i] |= is_full ? bit : 0; \
    }
    switch (a->numbers.kind) {
        WHOLE_NUMBERS(CALIBRATE)
        CASE('f', float, CALIBRATE)
        CASE('f', double, CALIBRATE)
        default: return 2;
    }
#undef CALIBRATE
    return 0;
}

typedef struct {
    Array planes;
    int64_t nothing, some;
    Array flags;
} CompletionArguments;

/* Set the bits of pixels that have a finite value in no or only in some of the planes (band, pixel). */
int EXPORT(complete)(const CompletionArguments *a) {
    int64_t bands = a->planes.shape[0], n = a->planes.shape[1];
    uint16_t *flags = a->flags.data;
    for (int64_t start = 0; start < n; start += 1024) {
        int32_t missing[1024] = {0};
        int64_t m = least(1024, n - start);
        for (int64_t j = 0; j < bands; j++) {
            const float *plane = ROW(float, a->planes, j) + start;
            for (int64_t i = 0; i < m; i++) missing[i] += !(fabsf(plane[i]) <= 3.402823466e38f);
        }
        for (int64_t i = 0; i < m; i++) {
            int64_t bits = missing[i] == bands ? a->nothing : missing[i] > 0 ? a->some : 0;
            flags[start + i] |= (uint16_t)bits;
        }
    }
    return 0;
}

typedef struct {
    Array areas, best, worlds, weight, where;
} AreaArguments;

static void add_weights(const uint8_t *restrict classes, const double *restrict weight, const int64_t *restrict where,
                        int64_t n, double *restrict areas) {
    for (int64_t i = 0; i < n; i++) areas[classes[i]] += weight[where[i]];
}

/* Add pixels and areas of classes, and their areas in each world, to (2 + world, class). */
int EXPORT(add_areas)(const AreaArguments *a) {
    const int64_t *where = a->where.data;
    const uint8_t *best = a->best.data;
    const double *weight = a->weight.data;
    double *areas = a->areas.data;
    int64_t n = a->where.shape[0], K = a->areas.shape[1];
    for (int64_t i = 0; i < n; i++) areas[best[i]] += 1.0;
    add_weights(best, weight, where, n, areas + K);
    for (int64_t w = 0; w < a->worlds.shape[0]; w++)
        add_weights(ROW(uint8_t, a->worlds, w), weight, where, n, areas + (2 + w) * K);
    return 0;
}

typedef struct {
    Array planes, counts;
} CountArguments;

/* Add how often each number occurs in planes (band, pixel) to (band, number). */
int EXPORT(count)(const CountArguments *a) {
    int64_t n = a->planes.shape[1];
#define COUNT \
    for (int64_t j = 0; j < a->planes.shape[0]; j++) { \
        int64_t *restrict counts = ROW(int64_t, a->counts, j); \
        const T *restrict plane = ROW(T, a->planes, j); \
        for (int64_t i = 0; i < n; i++) counts[plane[i]]++; \
    }
    switch (a->planes.kind) {
        WHOLE_NUMBERS(COUNT)
        default: return 2;
    }
#undef COUNT
    return 0;
}

#endif
#endif
