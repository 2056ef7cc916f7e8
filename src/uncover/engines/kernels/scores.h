/* From points to class probabilities: of a block, and of samples averaged over realisations.

In single precision, and recomputed in double where that is not enough. The formulas are those of
uncover.bayes.class_densities. */

#ifndef SCORES_H
#define SCORES_H

#include "vectors.h"

/* Points scored together: their scores stay in the nearest cache. */
enum { BLOCK = 128 };
/* Bytes of points, so that they and the class model they meet stay in the cache next to the processor. */
enum { NEAR = 16384 };
/* Probabilities whose error in single precision may exceed this, by a bound that is twice the largest error that was
   found, are recomputed in double precision; so many together. */
#define TOLERANCE R(2e-5)
enum { FEW = 8 };

/* Scores with room for n points of p features; p is even, and n a multiple of LINE. */
#define RESERVE_SCORES(room, type, scores, features, points, densities, of_classes) \
    do { \
        int64_t C_ = (densities).dof.shape[1], K_ = (of_classes).first.data ? (of_classes).first.shape[0] - 1 : C_; \
        (scores).p = features, (scores).n = (scores).stride = points; \
        (scores).components = C_, (scores).classes = K_; \
        (scores).x = RESERVE(room, type, (features) * (points)), (scores).q = RESERVE(room, type, C_ * (points)); \
        (scores).v = RESERVE(room, type, C_ * (points)), (scores).t = RESERVE(room, type, K_ * (points)); \
        (scores).e = RESERVE(room, type, K_ * (points)), (scores).s = RESERVE(room, type, points); \
        (scores).r = (of_classes).first.data ? RESERVE(room, type, C_ * (points)) : NULL; \
    } while (0)

/* Values less the common centre (two numbers a feature: what the first loses is in the second).

With coefficients (3, feature) the values are at the top of the atmosphere, and become those of the surface. */
static void centre_points(const REAL *raw, const REAL *coefficients, const REAL *centre, const Scores *given) {
    const Scores scores = *given, *s = &scores;
    for (int64_t j = 0; j < s->p; j++) {
        const REAL *from = raw + j * s->stride;
        REAL c = centre[j], low = centre[s->p + j], *x = s->x + j * s->stride;
        if (coefficients) {
            const REAL *of_feature = coefficients + j;
            for (int64_t b = 0; b < s->n; b += LANES) {
                V surface = surface_reflectance(load(from + b), of_feature[0], of_feature[s->p], of_feature[2 * s->p]);
                store(x + b, (surface - c) - low);
            }
        } else {
            for (int64_t b = 0; b < s->n; b += LANES) store(x + b, (load(from + b) - c) - low);
        }
    }
}

/* Add the squares of `count` rows of Wx - shift, from row i on, for `m` vectors of points: each number that is loaded
   is used several times. */
INLINE void add_rows(const int count, const int m, const REAL *x, int64_t stride, int64_t p, const REAL *W,
                     const REAL *shift, int64_t i, V *total) {
    V z[4][2], at[2];
    const REAL *rows = W + i * p;
#pragma GCC unroll 4
    for (int r = 0; r < count; r++)
        for (int h = 0; h < m; h++) z[r][h] = full(-shift[i + r]);
    for (int64_t j = 0; j < i; j++) {
        for (int h = 0; h < m; h++) at[h] = load(x + j * stride + h * LANES);
#pragma GCC unroll 4
        for (int r = 0; r < count; r++)
            for (int h = 0; h < m; h++) z[r][h] = madd(full(rows[r * p + j]), at[h], z[r][h]);
    }
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) {
        for (int h = 0; h < m; h++) at[h] = load(x + (i + k) * stride + h * LANES);
#pragma GCC unroll 4
        for (int r = k; r < count; r++)
            for (int h = 0; h < m; h++) z[r][h] = madd(full(rows[r * p + i + k]), at[h], z[r][h]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < count; r++)
        for (int h = 0; h < m; h++) total[h] = madd(z[r][h], z[r][h], total[h]);
}

INLINE void distances_of(const int m, const REAL *x, int64_t stride, int64_t p, const REAL *W, const REAL *shift,
                         REAL *q) {
    V total[2] = {full(0), full(0)};
    int64_t i = 0;
    for (; i + 4 <= p; i += 4) add_rows(4, m, x, stride, p, W, shift, i, total);
    if (i < p) add_rows(2, m, x, stride, p, W, shift, i, total);
    for (int h = 0; h < m; h++) store(q + h * LANES, total[h]);
}

/* q = |Wx - shift|^2 of points x (feature, point), W lower triangular; the number of features p is even. */
static void squared_distance(const REAL *x, int64_t stride, int64_t p, int64_t n, const REAL *W, const REAL *shift,
                             REAL *q) {
    int64_t b = 0;
    for (; b + 2 * LANES <= n; b += 2 * LANES) distances_of(2, x + b, stride, p, W, shift, q + b);
    if (b < n) distances_of(1, x + b, stride, p, W, shift, q + b);
}

/* Squared distances of a block to all components. */
static void find_distances(const Densities *d, int64_t w, Scores *s) {
    for (int64_t c = 0; c < s->components; c++)
        squared_distance(s->x, s->stride, s->p, s->n, AT(REAL, d->whitening, w, c), AT(REAL, d->shift, w, c),
                         s->q + c * s->stride);
}

/* log(1 + q/nu) and log joints of the components, which are linear in it. */
INLINE void find_joints(const Densities *d, int64_t w, int64_t b, Scores *s, REAL *joints) {
    REAL largest = *ROW(REAL, d->largest, 0);
    for (int64_t c = 0; c < s->components; c++) {
        V u = lesser(load(s->q + c * s->stride + b), full(largest)) * *AT(REAL, d->inverse_dof, w, c);
        V v = log_one_plus(u);
        store(s->v + c * s->stride + b, v);
        store(joints + c * s->stride + b,
              less_product(full(*AT(REAL, d->log_weight, w, c)), full(*AT(REAL, d->slope, w, c)), v));
    }
}

INLINE REAL sharpness_of(const Components *of) { return R(*ROW(double, of->sharpness, 0)); }
INLINE const int64_t *first_of(const Components *of) { return (const int64_t *)of->first.data; }

/* Sum components into log odds of classes, t = log sum exp / T; their log joints become shares. */
INLINE void sum_components(const Components *of, int64_t b, Scores *s) {
    const int64_t *first = first_of(of), stride = s->stride;
    for (int64_t k = 0; k < s->classes; k++) {
        REAL *r = s->r + b;
        V top = load(r + first[k] * stride), total = full(0);
        for (int64_t c = first[k] + 1; c < first[k + 1]; c++) top = larger(load(r + c * stride), top);
        for (int64_t c = first[k]; c < first[k + 1]; c++) {
            V share = exponential(load(r + c * stride) - top);
            total += share;
            store(r + c * stride, share);
        }
        store(s->t + k * stride + b, (top + log_one_plus(total - R(1))) * sharpness_of(of));
        V inverse = R(1) / total;
        for (int64_t c = first[k]; c < first[k + 1]; c++) store(r + c * stride, load(r + c * stride) * inverse);
    }
}

/* Probabilities from log odds. */
INLINE void normalise(int64_t b, Scores *s) {
    REAL *t = s->t + b, *e = s->e + b;
    int64_t stride = s->stride, K = s->classes;
    V top = load(t), total = full(0);
    for (int64_t k = 1; k < K; k++) top = larger(load(t + k * stride), top);
    for (int64_t k = 0; k < K; k++) {
        V below = load(t + k * stride) - top, odds = exponential(below);
        total += odds;
        store(t + k * stride, below);
        store(e + k * stride, odds);
    }
    V share = R(1) / total;
    store(s->s + b, share);
    for (int64_t k = 0; k < K; k++) store(e + k * stride, load(e + k * stride) * share);
}

/* Log odds and probabilities of the classes, from log joints of components in the place of shares. */
static inline void probabilities_of_joints(const Components *of, Scores *s) {
    for (int64_t b = 0; b < s->n; b += LANES) {
        sum_components(of, b, s);
        normalise(b, s);
    }
}

/* log(1 + q/nu), log odds and probabilities in world w, from distances. */
static void probabilities_of_distances(const Densities *d, int64_t w, const Components *of, Scores *s) {
    const Densities densities = *d; /* copies, which writing to arrays cannot change */
    const Components components = *of;
    Scores scores = *s;
    int several = components.first.data != NULL;
    for (int64_t b = 0; b < scores.n; b += LANES) {
        find_joints(&densities, w, b, &scores, several ? scores.r : scores.t);
        if (several) sum_components(&components, b, &scores);
        normalise(b, &scores);
    }
}

/* Distances and probabilities of a block in world w. */
static void score(const REAL *raw, const REAL *coefficients, const Densities *d, int64_t w, const Components *of,
                  Scores *s) {
    centre_points(raw, coefficients, ROW(REAL, d->centre, 0), s);
    find_distances(d, w, s);
    probabilities_of_distances(d, w, of, s);
}

#ifndef SINGLE
void DOUBLE(score_exactly)(const double *raw, const double *coefficients, const Densities *densities, int64_t world,
                           const Components *components, ExactScores *scores) {
    score(raw, coefficients, densities, world, components, scores);
}
#endif

/* ---- what single precision may have wrong ------------------------------------------------------------------- */

/* Bound of the rounding error of the log joint of a component: b[0] + b[1]*q. */
INLINE V bound_of_component(const Densities *d, int64_t w, int64_t c, int64_t b, const Scores *s) {
    const REAL *bound = AT(REAL, d->rounding_bound, w, c);
    return madd(full(bound[1]), load(s->q + c * s->stride + b), full(bound[0]));
}

/* Bound of the rounding error of the log odds of a class: the mean over its components. */
INLINE V bound_of_class(const Densities *d, int64_t w, const Components *of, int64_t k, int64_t b, const Scores *s) {
    if (of->first.data == NULL) return bound_of_component(d, w, k, b, s);
    V total = full(0);
    for (int64_t c = first_of(of)[k]; c < first_of(of)[k + 1]; c++)
        total = madd(load(s->r + c * s->stride + b), bound_of_component(d, w, c, b, s), total);
    return total * sharpness_of(of);
}

/* Find the points whose probabilities in single precision may be off; return their number.

The error of the probabilities is the sum of p(1 - p) times that of the log odds. */
static int64_t find_inexact(const Densities *d, int64_t w, const Components *of, const Scores *given,
                            int64_t *chosen) {
    const Scores scores = *given, *s = &scores;
    REAL error[BLOCK];
    U beyond = {0};
    for (int64_t b = 0; b < s->n; b += LANES) {
        V sum = full(0);
        for (int64_t k = 0; k < s->classes; k++) {
            V p = load(s->e + k * s->stride + b);
            sum = madd(p * (R(1) - p), bound_of_class(d, w, of, k, b, s), sum);
        }
        store(error + b, sum);
        beyond |= (U)(sum > full(TOLERANCE));
    }
    int64_t found = 0;
    if (any(beyond))
        for (int64_t b = 0; b < s->n; b++)
            if (error[b] > TOLERANCE) chosen[found++] = b;
    return found;
}

/* ---- probabilities of samples ------------------------------------------------------------------------------- */

typedef struct {
    Array X, realisations, worlds;
    Densities densities, exact;
    Components components;
    int64_t recompute;
    Array out;
} AverageArguments;

/* Points to be recomputed in double precision: many together, whatever their realisation. */
typedef struct {
    double *raw;   /* (feature, point), what was measured */
    double *total; /* (class, point), sums of probabilities */
    int64_t *chosen; /* (point,), their places in the block */
    ExactScores scores;
} Deferred;

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLES 1
#endif
#endif

#ifdef SHUFFLES
enum { SQUARE = 32 / sizeof(REAL) };
typedef REAL Row __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
/* Exchange numbers between two rows. */
#define EXCHANGE(a, b, first, second) \
    do { \
        Row low_ = __builtin_shufflevector(a, b, first), high_ = __builtin_shufflevector(a, b, second); \
        a = low_, b = high_; \
    } while (0)
#define LIST(...) __VA_ARGS__

/* Transpose a square of numbers: exchange single numbers between neighbouring rows, then pairs, then fours. */
INLINE void transpose(const REAL *from, int64_t step, REAL *to, int64_t width) {
    Row r[SQUARE];
#pragma GCC unroll 8
    for (int i = 0; i < SQUARE; i++) r[i] = *(const Row *)(from + i * step);
#ifdef SINGLE
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2)
        EXCHANGE(r[i], r[i + 1], LIST(0, 8, 2, 10, 4, 12, 6, 14), LIST(1, 9, 3, 11, 5, 13, 7, 15));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        EXCHANGE(r[i + i / 2 * 2], r[i + i / 2 * 2 + 2], LIST(0, 1, 8, 9, 4, 5, 12, 13),
                 LIST(2, 3, 10, 11, 6, 7, 14, 15));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        EXCHANGE(r[i], r[i + 4], LIST(0, 1, 2, 3, 8, 9, 10, 11), LIST(4, 5, 6, 7, 12, 13, 14, 15));
#else
#pragma GCC unroll 2
    for (int i = 0; i < 4; i += 2) EXCHANGE(r[i], r[i + 1], LIST(0, 4, 2, 6), LIST(1, 5, 3, 7));
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) EXCHANGE(r[i], r[i + 2], LIST(0, 1, 4, 5), LIST(2, 3, 6, 7));
#endif
#pragma GCC unroll 8
    for (int i = 0; i < SQUARE; i++) *(Row *)(to + i * width) = r[i];
}
#endif

/* A block of samples (sample, realisation, feature) as (feature, sample); the last one fills it. */
static void features_first(const Array *X, int64_t start, int64_t m, int64_t realisation, REAL *raw, int64_t n) {
    int64_t p = X->shape[2], step = X->shape[1] * p, whole = 0;
    const REAL *from = AT(REAL, *X, start, realisation);
#ifdef SHUFFLES
    whole = p >= SQUARE ? m - m % SQUARE : 0;
    for (int64_t b = 0; b < whole; b += SQUARE) {
        for (int64_t c = b; c < b + SQUARE; c++)
            for (int64_t j = 0; j < p; j += LINE) __builtin_prefetch(from + (m + c) * step + j, 0, 2);
        for (int64_t j = 0; j < p - SQUARE; j += SQUARE) transpose(from + b * step + j, step, raw + j * n + b, n);
        transpose(from + b * step + p - SQUARE, step, raw + (p - SQUARE) * n + b, n);
    }
#endif
    for (int64_t b = whole; b < n; b++)
        for (int64_t j = 0; j < p; j++) raw[j * n + b] = from[least(b, m - 1) * step + j];
}

/* Defer the chosen points; until they are recomputed they count nothing. */
static int64_t defer(const REAL *raw, int64_t found, const int64_t *chosen, Scores *s, Deferred *deferred,
                     int64_t waiting) {
    for (int64_t i = 0; i < found; i++) {
        int64_t b = chosen[i];
        deferred->chosen[waiting + i] = b;
        for (int64_t j = 0; j < s->p; j++) deferred->raw[j * s->stride + waiting + i] = raw[j * s->stride + b];
        for (int64_t k = 0; k < s->classes; k++) s->e[k * s->stride + b] = 0;
    }
    return waiting + found;
}

/* Recompute the deferred points in double precision, and add their probabilities. */
static void recompute_deferred(const AverageArguments *a, int64_t w, int64_t waiting, Deferred *deferred) {
    ExactScores *s = &deferred->scores;
    s->n = round_up(waiting, 8);
    for (int64_t j = 0; j < s->p; j++)
        for (int64_t b = waiting; b < s->n; b++)
            deferred->raw[j * s->stride + b] = deferred->raw[j * s->stride + waiting - 1];
    DOUBLE(score_exactly)(deferred->raw, NULL, &a->exact, w, &a->components, s);
    for (int64_t k = 0; k < s->classes; k++)
        for (int64_t i = 0; i < waiting; i++)
            deferred->total[k * s->stride + deferred->chosen[i]] += s->e[k * s->stride + i];
}

/* Sums over the pairs of realisation and world for m samples from `start` on. */
static void sum_over_pairs(const AverageArguments *a, int64_t start, int64_t m, REAL *raw, Scores *s, REAL *total,
                           Deferred *deferred) {
    const int64_t *realisations = a->realisations.data, *worlds = a->worlds.data, pairs = a->worlds.shape[0];
    int64_t waiting = 0, chosen[BLOCK];
    for (int64_t i = 0; i < pairs; i++) {
        features_first(&a->X, start, m, realisations[i], raw, s->stride);
        score(raw, NULL, &a->densities, worlds[i], &a->components, s);
        int64_t found = a->recompute ? find_inexact(&a->densities, worlds[i], &a->components, s, chosen) : 0;
        if (waiting && (worlds[i] != worlds[i - 1] || waiting + found > s->stride)) {
            recompute_deferred(a, worlds[i - 1], waiting, deferred);
            waiting = 0;
        }
        waiting = defer(raw, found, chosen, s, deferred, waiting);
        for (int64_t b = 0; b < s->classes * s->stride; b += LANES) store(total + b, load(total + b) + load(s->e + b));
    }
    if (waiting) recompute_deferred(a, worlds[pairs - 1], waiting, deferred);
}

/* Probabilities of X (sample, realisation, feature), averaged over pairs of realisation and world: (sample, class).

`densities` has the type of X; `exact` is the same in double precision, for recomputing. */
int EXPORT(average_probability)(const AverageArguments *a) {
    int64_t n = a->X.shape[0], p = round_up(a->X.shape[2], 2), width = BLOCK, pairs = a->worlds.shape[0];
    while (width > LINE && width * p * (int64_t)sizeof(REAL) > NEAR) width /= 2;
    width = least(width, round_up(n, LINE));
    Room room = {0};
    Scores s;
    Deferred deferred;
    RESERVE_SCORES(&room, REAL, s, p, width, a->densities, a->components);
    RESERVE_SCORES(&room, double, deferred.scores, p, width, a->exact, a->components);
    int64_t K = s.classes, size = K * width;
    REAL *raw = RESERVE(&room, REAL, p * width), *total = RESERVE(&room, REAL, size), *out = a->out.data;
    deferred.raw = RESERVE(&room, double, p * width);
    deferred.total = RESERVE(&room, double, size);
    deferred.chosen = RESERVE(&room, int64_t, 2 * width);
    if (room.failed) return release(&room);
    double share = 1.0 / (double)pairs;
    for (int64_t start = 0; start < n; start += width) {
        int64_t m = least(width, n - start);
        memset(total, 0, (size_t)size * sizeof(REAL));
        memset(deferred.total, 0, (size_t)size * sizeof(double));
        sum_over_pairs(a, start, m, raw, &s, total, &deferred);
        for (int64_t b = 0; b < m; b++)
            for (int64_t k = 0; k < K; k++)
                out[(start + b) * K + k] = R((total[k * width + b] + deferred.total[k * width + b]) * share);
    }
    return release(&room);
}

#endif
