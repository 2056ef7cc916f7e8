/* All that a map says of its pixels: sums over realisations, and what follows from their averages.

The formulas are those of uncover.bayes.budget and uncover.bayes.second_order. */

#ifndef SUMMARIES_H
#define SUMMARIES_H

#include "typicality.h"

/* Entropies -sum p log p = log sum exp(t) - sum p t. */
static void find_entropy(const Scores *given, REAL *inner) {
    const Scores scores = *given, *s = &scores;
    for (int64_t b = 0; b < s->n; b += LANES) {
        V h = log_one_plus(R(1) / load(s->s + b) - R(1));
        for (int64_t k = 0; k < s->classes; k++)
            h = less_product(h, load(s->e + k * s->stride + b), load(s->t + k * s->stride + b));
        store(inner + b, h);
    }
}

/* q/nu of a component. */
INLINE V scaled_distance(const Densities *d, int64_t w, int64_t c, int64_t b, const Scores *s) {
    REAL largest = *ROW(REAL, d->largest, 0);
    return lesser(load(s->q + c * s->stride + b), full(largest)) * *AT(REAL, d->inverse_dof, w, c);
}

/* KL_kl + KL_lk of two classes of one covariance, as in second_order.pair_information. */
INLINE V of_pair(const Densities *d, int64_t w, int64_t k, int64_t other, int64_t b, const Scores *s) {
    const REAL *one = AT(REAL, d->variance, w, k), *two = AT(REAL, d->variance, w, other);
    REAL apart = AT(REAL, d->between, w, k)[other];
    V first = scaled_distance(d, w, k, b, s), second = scaled_distance(d, w, other, b, s);
    V S = first * (R(1) / one[2]), t = second * (R(1) / two[2]), difference = S - t;
    V gram = less_product(R(0.5) * apart * (S + t), R(0.25) * difference, difference);
    gram = larger(gram - R(0.25) * apart * apart, full(0));
    V moved = madd(gram - first, full(one[2]), t) / (R(1) + first) +
              madd(gram - second, full(two[2]), S) / (R(1) + second);
    return madd(moved, full(R(0.5) * one[1]), full(one[0] + two[0]));
}

/* a + b*v - c*u/(1 + u), with u = q/nu and v = log(1 + u). */
INLINE V variance_of_component(const Densities *d, int64_t w, int64_t c, int64_t b, const Scores *s) {
    const REAL *of = AT(REAL, d->variance, w, c);
    V u = scaled_distance(d, w, c, b, s), v = load(s->v + c * s->stride + b);
    return less_product(madd(full(of[1]), v, full(of[0])), full(of[2]), u / (R(1) + u));
}

/* Variance of the log odds of a class: sum r^2 v / T^2 over its components, to first order. */
INLINE V variance_of_class(const Densities *d, int64_t w, const Components *of, int64_t k, int64_t b,
                           const Scores *s) {
    if (of->first.data == NULL) return variance_of_component(d, w, k, b, s);
    V total = full(0);
    for (int64_t c = first_of(of)[k]; c < first_of(of)[k + 1]; c++) {
        V share = load(s->r + c * s->stride + b);
        total = madd(share * share, variance_of_component(d, w, c, b, s), total);
    }
    return total * (sharpness_of(of) * sharpness_of(of));
}

/* Twice the information about the class that is due to the model: sum v p(1-p), v the variance of the log odds. */
INLINE V twice_information(const Densities *d, int64_t w, const Components *of, int64_t b, const Scores *s) {
    int64_t pairs = d->between.shape[1];
    V information = full(0);
    for (int64_t k = 0; k < s->classes; k++) {
        V p = load(s->e + k * s->stride + b);
        if (pairs == 0) information = madd(variance_of_class(d, w, of, k, b, s), p * (R(1) - p), information);
        for (int64_t other = 0; other < k && pairs > 0; other++)
            information = madd(of_pair(d, w, k, other, b, s), p * load(s->e + other * s->stride + b), information);
    }
    return information;
}

/* Add H (1 - e^(-I/H)) with I the information and H the entropy. */
static void add_model_part(const Densities *d, int64_t w, const Components *of, const Scores *given,
                           const REAL *inner, REAL *model) {
    const Densities densities = *d;
    const Scores scores = *given, *s = &scores;
    for (int64_t b = 0; b < s->n; b += LANES) {
        V information = R(0.5) * twice_information(&densities, w, of, b, s), h = larger(load(inner + b), full(R(1e-30)));
        store(model + b, madd(h, R(1) - exponential(-information / h), load(model + b)));
    }
}

/* Workspace of a block of pixels: measured values, scores, and sums over realisations as they are put out. */
typedef struct {
    double *measured; /* (feature, pixel) */
    REAL *raw;        /* (feature, pixel), the same rounded */
    Scores scores;
    double *few; /* (feature, FEW), values to be recomputed */
    ExactScores exact;
    REAL *probability, *p_value, *inner, *model, *entropy;
} Block;

typedef struct {
    Array planes, scale, offset, coefficients, precise, realisations, worlds;
    Densities densities, exact, typical;
    int64_t apart; /* whether the typical densities are others than the densities */
    Components components;
    int64_t recompute;
    Array probability, typicality, inner, model, best;
} SummaryArguments;

/* Numbers of a contiguous array of any type as numbers of double precision, scaled. */
static void read_numbers(const Array *from, int64_t start, int64_t count, double scale, double offset, double *to) {
#define READ(letter, type) \
    case KIND(letter, sizeof(type)): \
        for (int64_t b = 0; b < count; b++) to[b] = (double)((const type *)from->data)[start + b] * scale + offset; \
        break;
    switch (from->kind) {
        READ('u', uint8_t) READ('u', uint16_t) READ('u', uint32_t) READ('u', uint64_t)
        READ('i', int8_t) READ('i', int16_t) READ('i', int32_t) READ('i', int64_t)
        READ('f', float) READ('f', double)
    }
#undef READ
}

/* A block of planes (realisation, feature, pixel) as physical values, in double precision and rounded.

The last pixel fills the block. */
static void load_planes(const SummaryArguments *a, int64_t r, int64_t start, int64_t m, Block *block) {
    int64_t n = a->planes.shape[2], p = a->planes.shape[1];
    const double *scale = a->scale.data, *offset = a->offset.data;
    for (int64_t j = 0; j < p; j++) {
        double *measured = block->measured + j * BLOCK;
        read_numbers(&a->planes, (r * p + j) * n + start, m, scale[j], offset[j], measured);
        for (int64_t b = m; b < BLOCK; b++) measured[b] = measured[m - 1];
        for (int64_t b = 0; b < BLOCK; b++) block->raw[j * BLOCK + b] = R(measured[b]);
    }
}

/* Recompute some points of a block in double precision, from the measured values. */
static void recompute_few(const SummaryArguments *a, const double *coefficients, int64_t w, const int64_t *chosen,
                          int64_t found, Block *block) {
    Scores *s = &block->scores;
    ExactScores *exact = &block->exact;
    for (int64_t first = 0; first < found; first += FEW) {
        int64_t n = least(FEW, found - first);
        for (int64_t j = 0; j < s->p; j++)
            for (int64_t i = 0; i < FEW; i++)
                block->few[j * FEW + i] = block->measured[j * BLOCK + chosen[first + least(i, n - 1)]];
        DOUBLE(score_exactly)(block->few, coefficients, &a->exact, w, &a->components, exact);
        for (int64_t i = 0; i < n; i++) {
            int64_t b = chosen[first + i];
            s->s[b] = R(exact->s[i]);
            for (int64_t c = 0; c < s->components; c++) {
                s->q[c * BLOCK + b] = R(exact->q[c * FEW + i]);
                s->v[c * BLOCK + b] = R(exact->v[c * FEW + i]);
                if (s->r) s->r[c * BLOCK + b] = R(exact->r[c * FEW + i]);
            }
            for (int64_t k = 0; k < s->classes; k++) {
                s->t[k * BLOCK + b] = R(exact->t[k * FEW + i]);
                s->e[k * BLOCK + b] = R(exact->e[k * FEW + i]);
            }
        }
    }
}

/* log(1 + q/nu) of the densities of typicality, which have the same centre, in the place of the others. */
static void find_typical_distances(const Densities *typical, int64_t w, Scores *s) {
    find_distances(typical, w, s);
    for (int64_t c = 0; c < s->components; c++)
        for (int64_t b = 0; b < s->n; b += LANES)
            store(s->v + c * s->stride + b, log_one_plus(scaled_distance(typical, w, c, b, s)));
}

/* The first class whose log odds are the largest, which are 0. */
static void most_probable(const Scores *s, int64_t m, uint8_t *best) {
    int32_t found[BLOCK] = {0};
    for (int64_t k = s->classes - 1; k > 0; k--)
        for (int64_t b = 0; b < BLOCK; b++) found[b] = s->t[k * BLOCK + b] == 0 ? (int32_t)k : found[b];
    for (int64_t b = 0; b < BLOCK; b++) found[b] = s->t[b] == 0 ? 0 : found[b];
    for (int64_t b = 0; b < m; b++) best[b] = (uint8_t)found[b];
}

/* Add the scores of pair i to the sums. */
static void add_pair(const SummaryArguments *a, int64_t i, int64_t start, int64_t m, Block *block) {
    Scores *s = &block->scores;
    int64_t p = a->planes.shape[1], chosen[BLOCK], n = a->planes.shape[2];
    int64_t r = ((const int64_t *)a->realisations.data)[i], w = ((const int64_t *)a->worlds.data)[i];
    int corrected = a->coefficients.shape[0] > 0;
    const REAL *coefficients = corrected ? ROW(REAL, a->coefficients, r) : NULL;
    if (i == 0 || !corrected) load_planes(a, corrected ? 0 : r, start, m, block);
    score(block->raw, coefficients, &a->densities, w, &a->components, s);
    if (a->recompute) {
        int64_t found = find_inexact(&a->densities, w, &a->components, s, chosen);
        recompute_few(a, corrected ? ROW(double, a->precise, r) : NULL, w, chosen, found, block);
    }
    for (int64_t b = 0; b < s->classes * BLOCK; b += LANES)
        store(block->probability + b, load(block->probability + b) + load(s->e + b));
    find_entropy(s, block->entropy);
    add_model_part(&a->densities, w, &a->components, s, block->entropy, block->model);
    for (int64_t b = 0; b < BLOCK; b += LANES)
        store(block->inner + b, load(block->inner + b) + load(block->entropy + b));
    most_probable(s, m, (uint8_t *)a->best.data + i * n + start);
    if (a->apart) find_typical_distances(&a->typical, w, s);
    add_p_values(&a->typical, w, (int)(p % 2), s, block->p_value);
}

/* Sums over pairs of realisation and world of all that a map says of its pixels.

`planes` are (realisation, feature, pixel) numbers, physical after scale and offset. `coefficients` (realisation, 3,
feature) are rounded, `precise` not; if there are any, there is one plane a feature, at the top of the atmosphere.
p-values are read from `typical`. Written to: probability (class, pixel), typicality (component, pixel), inner (pixel),
model (pixel), and the most probable class (pair, pixel). */
int EXPORT(summarise)(const SummaryArguments *a) {
    int64_t p = round_up(a->planes.shape[1], 2), n = a->planes.shape[2], pairs = a->worlds.shape[0];
    Room room = {0};
    Block block;
    RESERVE_SCORES(&room, REAL, block.scores, p, BLOCK, a->densities, a->components);
    RESERVE_SCORES(&room, double, block.exact, p, FEW, a->exact, a->components);
    int64_t K = block.scores.classes, C = block.scores.components, rows = K + C + 2;
    block.measured = RESERVE(&room, double, p * BLOCK), block.raw = RESERVE(&room, REAL, p * BLOCK);
    block.few = RESERVE(&room, double, p * FEW), block.entropy = RESERVE(&room, REAL, BLOCK);
    block.probability = RESERVE(&room, REAL, rows * BLOCK);
    if (room.failed) return release(&room);
    block.p_value = block.probability + K * BLOCK;
    block.inner = block.p_value + C * BLOCK, block.model = block.inner + BLOCK;
    for (int64_t start = 0; start < n; start += BLOCK) {
        int64_t m = least(BLOCK, n - start);
        memset(block.probability, 0, (size_t)(rows * BLOCK) * sizeof(REAL));
        for (int64_t i = 0; i < pairs; i++) add_pair(a, i, start, m, &block);
        for (int64_t k = 0; k < K; k++)
            memcpy(ROW(REAL, a->probability, k) + start, block.probability + k * BLOCK, (size_t)m * sizeof(REAL));
        for (int64_t c = 0; c < C; c++)
            memcpy(ROW(REAL, a->typicality, c) + start, block.p_value + c * BLOCK, (size_t)m * sizeof(REAL));
        memcpy((REAL *)a->inner.data + start, block.inner, (size_t)m * sizeof(REAL));
        memcpy((REAL *)a->model.data + start, block.model, (size_t)m * sizeof(REAL));
    }
    return release(&room);
}

/* ---- from averages to the budget ---------------------------------------------------------------------------- */

enum { CONCLUDED = 512 }; /* points concluded together */

typedef struct {
    Array probability, typicality, model, inner, worlds, out, disagreement, best;
} ConclusionArguments;

#ifndef SINGLE
void DOUBLE(add_surprise)(const double *p, int64_t n, double *total) {
    for (int64_t b = 0; b < n; b += LANES) {
        V number = load(p + b), e, m = mantissa(larger(number, full(1e-300)), &e), s = (m - 1.0) / (m + 1.0);
        V log = madd(e, full(LOG_2), madd(e, full(LOG_2_REST), s * POLYNOMIAL(s * s, ARTANH)));
        store(total + b, less_product(load(total + b), number, log));
    }
}
#endif

/* Total, measurement, model and overlap of points: never negative, and the total together. */
static void split(const ConclusionArguments *a, const double *entropy, int64_t start, int64_t m) {
    int64_t n = a->out.shape[1];
    const REAL *inner = (REAL *)a->inner.data + start, *model = (REAL *)a->model.data + start;
    REAL *out = (REAL *)a->out.data + start;
    for (int64_t b = 0; b < m; b++) {
        REAL total = R(entropy[b] > 0 ? entropy[b] : 0), between = total - inner[b];
        between = between > 0 ? between : 0;
        REAL rest = total - between;
        rest = rest > 0 ? rest : 0;
        REAL part = model[b] < rest ? model[b] : rest, overlap = total - between - part;
        out[b] = total, out[n + b] = between, out[2 * n + b] = part, out[3 * n + b] = overlap > 0 ? overlap : 0;
    }
}

/* The most probable class, the first of equals; its probability less that of the next. */
static void rank(const ConclusionArguments *a, int64_t start, int64_t m, int32_t *number) {
    REAL first[CONCLUDED], second[CONCLUDED];
    for (int64_t b = 0; b < m; b++) first[b] = ROW(REAL, a->probability, 0)[start + b], second[b] = 0, number[b] = 0;
    for (int64_t k = 1; k < a->probability.shape[0]; k++) {
        const REAL *row = ROW(REAL, a->probability, k) + start;
        for (int64_t b = 0; b < m; b++) {
            REAL p = row[b], most = first[b], less = p < most ? p : most;
            second[b] = less > second[b] ? less : second[b];
            number[b] = p > most ? (int32_t)k : number[b];
            first[b] = p > most ? p : most;
        }
    }
    for (int64_t b = 0; b < m; b++) ROW(REAL, a->out, 4)[start + b] = first[b] - second[b];
}

/* How often the class in a world is another than that of the average. */
static void find_disagreement(const ConclusionArguments *a, int64_t start, int64_t m, const int32_t *number) {
    int32_t others[CONCLUDED] = {0};
    int64_t worlds = a->worlds.shape[0];
    for (int64_t w = 0; w < worlds; w++) {
        const uint8_t *row = ROW(uint8_t, a->worlds, w) + start;
        for (int64_t b = 0; b < m; b++) others[b] += row[b] != number[b];
    }
    for (int64_t b = 0; b < m; b++) {
        ((double *)a->disagreement.data)[start + b] = others[b] / (double)worlds;
        ((uint8_t *)a->best.data)[start + b] = (uint8_t)number[b];
    }
}

/* From averages over worlds, classes first, to all that is said of a point.

`worlds` (world, point) has the class in each world. Written to: `out`, whose rows are total, measurement, model,
overlap, margin and typicality; `disagreement` and `best` (point,). */
int EXPORT(conclude)(const ConclusionArguments *a) {
    int64_t n = a->probability.shape[1];
    double p[CONCLUDED] = {0}, entropy[CONCLUDED];
    int32_t number[CONCLUDED];
    for (int64_t start = 0; start < n; start += CONCLUDED) {
        int64_t m = least(CONCLUDED, n - start);
        memset(entropy, 0, sizeof(entropy));
        for (int64_t k = 0; k < a->probability.shape[0]; k++) {
            for (int64_t b = 0; b < m; b++) p[b] = (double)ROW(REAL, a->probability, k)[start + b];
            DOUBLE(add_surprise)(p, round_up(m, 8), entropy);
        }
        split(a, entropy, start, m);
        rank(a, start, m, number);
        find_disagreement(a, start, m, number);
        REAL *typicality = ROW(REAL, a->out, 5) + start;
        memcpy(typicality, ROW(REAL, a->typicality, 0) + start, (size_t)m * sizeof(REAL));
        for (int64_t k = 1; k < a->typicality.shape[0]; k++) {
            const REAL *here = ROW(REAL, a->typicality, k) + start;
            for (int64_t b = 0; b < m; b++) typicality[b] = here[b] > typicality[b] ? here[b] : typicality[b];
        }
    }
    return 0;
}

#endif
