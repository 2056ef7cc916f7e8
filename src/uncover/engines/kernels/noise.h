/* Pixels whose noise is known: their scores, and their class in many worlds (uncover.bayes.worlds_with_noise).

The densities of a few pixels at a time, which are the lanes of the innermost loops. Blocks are padded, so that a
pixel's result depends neither on its place nor on its neighbours. */

#ifndef NOISE_H
#define NOISE_H

#include "true_values.h"

#ifndef SINGLE

/* Planes (realisation, feature, pixel), or one and coefficients; given covariances (1 or pixel, feature, feature), or
   none; `spread` says that the realisations' spread is noise. */
typedef struct {
    Array planes, coefficients, given;
    int64_t spread;
} NoisyPixels;

static int64_t count_realisations(const NoisyPixels *in) {
    return in->coefficients.shape[0] > 0 ? in->coefficients.shape[0] : in->planes.shape[0];
}

/* Reserve a workspace; realisations are padded to fours. */
static void reserve_noisy(Room *room, const NoisyPixels *in, const Densities *plain, const Components *of,
                          NoisyBlock *work) {
    int64_t p = in->planes.shape[1], even = round_up(p, 2), C = plain->dof.shape[1];
    work->p = p, work->C = C;
    RESERVE_SCORES(room, double, work->scores, even, PIXELS, *plain, *of);
    work->raw = RESERVE(room, double, p * PIXELS), work->x = RESERVE(room, double, even * PIXELS);
    work->f = RESERVE(room, double, round_up(count_realisations(in), 4) * even * PIXELS);
    work->noise = RESERVE(room, double, p * p * PIXELS), work->z = RESERVE(room, double, p * PIXELS);
    work->L = RESERVE(room, double, C * p * p * PIXELS), work->log_det = RESERVE(room, double, C * PIXELS);
    work->far = RESERVE(room, double, C * PIXELS), work->of_components = RESERVE(room, double, C * PIXELS);
    work->p_value = RESERVE(room, double, C * PIXELS), work->inner = RESERVE(room, double, PIXELS);
    work->information = RESERVE(room, double, PIXELS);
}

/* Values of all realisations and their mean; the last pixel fills up. */
static void take_values(const NoisyPixels *in, int64_t start, int64_t m, NoisyBlock *work) {
    int64_t realisations = count_realisations(in), p = work->p, even = work->scores.p, n = in->planes.shape[2];
    int corrected = in->coefficients.shape[0] > 0;
    memset(work->x, 0, (size_t)(even * PIXELS) * sizeof(double));
    for (int64_t r = 0; r < realisations; r++)
        for (int64_t j = 0; j < p; j++) {
            double *raw = work->raw + j * PIXELS, *f = work->f + (r * even + j) * PIXELS, *x = work->x + j * PIXELS;
            if (r == 0 || !corrected) {
                read_numbers(&in->planes, (r * p + j) * n + start, m, 1.0, 0.0, raw);
                for (int64_t b = m; b < PIXELS; b++) raw[b] = raw[m - 1];
            }
            const double *air = corrected ? ROW(double, in->coefficients, r) + j : NULL;
            ALL_PIXELS(b) {
                V value = load(raw + b);
                if (corrected) value = surface_reflectance(value, air[0], air[p], air[2 * p]);
                store(f + b, value);
                store(x + b, load(x + b) + value);
            }
        }
    for (int64_t b = 0; b < p * PIXELS; b += LANES) store(work->x + b, load(work->x + b) * (1.0 / (double)realisations));
}

/* Deviations over the root of R - 1, in the place of the values, and their covariances, sums of f f'. */
static void find_spread(int64_t realisations, NoisyBlock *work) {
    int64_t p = work->p, even = work->scores.p, step = even * PIXELS;
    double share = 1.0 / sqrt((double)realisations - 1.0);
    for (int64_t r = 0; r < realisations; r++)
        for (int64_t b = 0; b < p * PIXELS; b += LANES)
            store(work->f + r * step + b, (load(work->f + r * step + b) - load(work->x + b)) * share);
    for (int64_t i = 0; i < p; i++)
        for (int64_t j = 0; j <= i; j++)
            ALL_PIXELS(b) {
                V sums[4] = {full(0), full(0), full(0), full(0)}; /* there are fours, the last ones may be zero */
                const double *first = work->f + i * PIXELS + b, *second = work->f + j * PIXELS + b;
                for (int64_t r = 0; r < realisations; r += 4)
                    for (int h = 0; h < 4; h++)
                        sums[h] = madd(load(first + (r + h) * step), load(second + (r + h) * step), sums[h]);
                store(CELL(work->noise, i, j), (sums[0] + sums[1]) + (sums[2] + sums[3]));
            }
}

/* Covariances that are given. */
static void take_covariances(const Array *given, int64_t start, int64_t m, NoisyBlock *work) {
    int64_t p = work->p;
    for (int64_t b = 0; b < PIXELS; b++) {
        const double *matrix = ROW(double, *given, given->shape[0] == 1 ? 0 : start + least(b, m - 1));
        for (int64_t i = 0; i < p; i++)
            for (int64_t j = 0; j <= i; j++) *CELL(work->noise, i, j) = matrix[i * p + j];
    }
}

/* Values of a block of pixels, less the centre, and their noise. */
static void take_in(const NoisyPixels *in, const Densities *plain, int64_t start, int64_t m, NoisyBlock *work) {
    take_values(in, start, m, work);
    if (in->spread)
        find_spread(count_realisations(in), work);
    else if (in->given.shape[0] > 0)
        take_covariances(&in->given, start, m, work);
    for (int64_t j = 0; j < work->p; j++)
        ALL_PIXELS(b) store(work->x + j * PIXELS + b, load(work->x + j * PIXELS + b) - ROW(double, plain->centre, 0)[j]);
}

/* Lower Cholesky factors of scale + shrink*C for component k, the diagonal inverted; half the log of how the
   determinant grew. No pivot is smaller than without noise, whatever rounding did to C. */
static void factorise(const double *scale, double shrink, const double *pivots, int64_t k, NoisyBlock *work) {
    int64_t p = work->p;
    double *L = work->L + k * p * p * PIXELS;
    ALL_PIXELS(b) {
        V log_det = full(0);
        for (int64_t j = 0; j < p; j++) {
            V inverse = full(0);
            for (int64_t i = j; i < p; i++) {
                V total = madd(full(shrink), load(CELL(work->noise, i, j)), full(scale[i * p + j]));
                for (int64_t m = 0; m < j; m++) total = less_product(total, load(CELL(L, i, m)), load(CELL(L, j, m)));
                if (i == j) {
                    V pivot = larger(total, full(pivots[j]));
                    log_det = madd(full(0.5), log_one_plus((pivot - pivots[j]) * (1.0 / pivots[j])), log_det);
                    inverse = 1.0 / square_root(pivot);
                }
                store(CELL(L, i, j), i == j ? inverse : total * inverse);
            }
        }
        store(work->log_det + k * PIXELS + b, log_det);
    }
}

/* q = |(x - location)/L|^2 of each pixel for component k. */
static void find_noisy_distance(const double *x, const double *location, int64_t k, NoisyBlock *work) {
    int64_t p = work->p;
    const double *L = work->L + k * p * p * PIXELS;
    ALL_PIXELS(b) {
        V q = full(0);
        for (int64_t i = 0; i < p; i++) {
            V z = load(x + i * PIXELS + b) - location[i];
            for (int64_t m = 0; m < i; m++) z = less_product(z, load(CELL(L, i, m)), load(work->z + m * PIXELS + b));
            z *= load(CELL(L, i, i));
            store(work->z + i * PIXELS + b, z);
            q = madd(z, z, q);
        }
        store(work->scores.q + k * PIXELS + b, q);
    }
}

/* log(1 + q/nu), and log odds and probabilities of the classes in world w, with the determinants of the noise. */
static void score_with_noise(const Densities *d, int64_t w, const Components *of, NoisyBlock *work) {
    Scores *s = &work->scores;
    ALL_PIXELS(b) {
        find_joints(d, w, b, s, s->r);
        /* The determinant is added to the log joint, of which the densities without noise know nothing. */
        for (int64_t c = 0; c < s->components; c++)
            store(s->r + c * PIXELS + b, load(s->r + c * PIXELS + b) - load(work->log_det + c * PIXELS + b));
    }
    probabilities_of_joints(of, s);
}

/* Half the information of the class models of each pixel, from distances without noise. */
static void find_model_information(const Densities *plain, const Components *of, NoisyBlock *work) {
    Scores far = work->scores;
    far.q = work->far, far.v = work->p_value; /* overwritten before p-values are read */
    ALL_PIXELS(b) {
        for (int64_t c = 0; c < far.components && plain->between.shape[1] == 0; c++)
            store(far.v + c * PIXELS + b, log_one_plus(scaled_distance(plain, 0, c, b, &far)));
        V information = 0.5 * twice_information(plain, 0, of, b, &far);
        if (plain->between.shape[1] > 0) information *= sharpness_of(of) * sharpness_of(of);
        store(work->information + b, information);
    }
}

/* p-values by the reference of each component; noise that all pixels share is factorised once. */
static void find_p_values(const Reference *reference, int64_t slots, int fresh, Tails *tails, NoisyBlock *work) {
    for (int64_t k = 0; k < reference->free.shape[0]; k++) {
        int64_t slot = slots > 1 ? k : 0;
        if (fresh) find_tails(work->noise, reference, work->p, k, slot, tails);
        p_values(work->x, reference, work->p, k, slot, tails, work->z, work->p_value + k * PIXELS);
    }
}

typedef struct {
    NoisyPixels in;
    NoiseNumbers numbers;
    Densities plain, truth;
    Components components;
    Reference reference;
    Points points;
    Constants constants;
    Array probability, typicality, inner, measurement, information; /* as in NoisyScores */
} ReadArguments;

/* Probabilities, p-values, entropy and the information of the class models; `fresh`: of other noise. */
static void score_pixels(const ReadArguments *a, int fresh, int64_t slots, Tails *tails, NoisyBlock *work) {
    const NoiseNumbers *numbers = &a->numbers;
    Scores *s = &work->scores;
    for (int64_t k = 0; k < work->C; k++) {
        squared_distance(work->x, PIXELS, s->p, PIXELS, AT(double, a->plain.whitening, 0, k),
                         AT(double, a->plain.shift, 0, k), work->far + k * PIXELS);
        if (fresh || !numbers->same)
            factorise(ROW(double, numbers->scale, k), *ROW(double, numbers->shrink, k),
                      ROW(double, numbers->pivots, k), k, work);
        find_noisy_distance(work->x, ROW(double, numbers->location, k), k, work);
    }
    score_with_noise(&a->plain, 0, &a->components, work);
    for (int64_t k = 0; k < s->classes; k++)
        for (int64_t c = first_of(&a->components)[k]; c < first_of(&a->components)[k + 1]; c++)
            ALL_PIXELS(b)
            store(work->of_components + c * PIXELS + b, load(s->e + k * PIXELS + b) * load(s->r + c * PIXELS + b));
    find_entropy(s, work->inner);
    find_model_information(&a->plain, &a->components, work);
    memset(work->p_value, 0, (size_t)(work->C * PIXELS) * sizeof(double));
    if (a->reference.free.shape[0] > 0)
        find_p_values(&a->reference, slots, fresh, tails, work);
    else
        add_p_values(&a->plain, 0, (int)(work->p % 2), s, work->p_value);
}

/* Write the scores of the pixels, and list those whose class is not certain; return their number. */
static int64_t put_pixels(const ReadArguments *a, int64_t start, int64_t m, NoisyBlock *work) {
    int64_t found = 0;
    for (int64_t k = 0; k < work->scores.classes; k++)
        memcpy(ROW(double, a->probability, k) + start, work->scores.e + k * PIXELS, (size_t)m * sizeof(double));
    for (int64_t c = 0; c < work->C; c++)
        memcpy(ROW(double, a->typicality, c) + start, work->p_value + c * PIXELS, (size_t)m * sizeof(double));
    memcpy((double *)a->information.data + start, work->information, (size_t)m * sizeof(double));
    for (int64_t b = 0; b < m; b++) {
        ((double *)a->inner.data)[start + b] = fmax(work->inner[b], 0.0);
        ((double *)a->measurement.data)[start + b] = 0.0;
        if (work->inner[b] >= a->constants.certain) work->uncertain[found++] = b;
    }
    return found;
}

/* Place true values of the uncertain pixels, score them as if there were no noise, and write what they tell. */
static void ask_true_values(const ReadArguments *a, int64_t start, int64_t found, NoisyBlock *work, TruthBlock *here) {
    const NoiseNumbers *numbers = &a->numbers;
    Scores *s = &here->scores;
    for (int64_t k = 0; k < work->C && !numbers->same; k++)
        factorise(ROW(double, numbers->truth_scale, k), *ROW(double, numbers->truth_shrink, k),
                  ROW(double, numbers->truth_pivots, k), k, work);
    for (int64_t i = 0; i < found; i++)
        here->place[i + 1] = place_true_values(numbers, &a->truth, &a->components, &a->points, &a->constants, work,
                                               work->uncertain[i], here->place[i], here);
    s->n = here->place[found];
    find_distances(&a->truth, 0, s);
    probabilities_of_distances(&a->truth, 0, &a->components, s);
    for (int64_t i = 0; i < found; i++) {
        int64_t b = work->uncertain[i], place = here->place[i];
        ((double *)a->measurement.data)[start + b] =
            information_of_points(work, b, place, here->place[i + 1] - place, here);
    }
}

/* Scores of pixels with known noise. `plain` and `truth` are densities of the components of classes. p-values are
   those of the components by `reference`; by `plain` where it is empty. */
int EXPORT(read_with_noise)(const ReadArguments *a) {
    int64_t n = a->in.planes.shape[2], p = a->in.planes.shape[1], components = a->reference.free.shape[0];
    int same_noise = !a->in.spread && a->in.given.shape[0] <= 1;
    int64_t slots = same_noise && components > 0 ? components : 1;
    Room room = {0};
    NoisyBlock work;
    TruthBlock here;
    Tails tails;
    reserve_noisy(&room, &a->in, &a->plain, &a->components, &work);
    reserve_truth(&room, p, &a->truth, &a->components, a->points.padded, &here);
    reserve_tails(&room, p, slots, &tails);
    for (int64_t start = 0; start < n && !room.failed; start += PIXELS) {
        int64_t m = least(PIXELS, n - start);
        take_in(&a->in, &a->plain, start, m, &work);
        score_pixels(a, start == 0 || !same_noise, slots, &tails, &work);
        int64_t found = put_pixels(a, start, m, &work);
        if (found > 0) ask_true_values(a, start, found, &work, &here);
    }
    return release(&room);
}

/* ---- classes in many worlds ----------------------------------------------------------------------------------- */

typedef struct {
    NoisyPixels in;
    Array location, scale, shrink, pivots; /* as in worlds_with_noise.WorldNumbers */
    Densities densities;
    Components components;
    Array pairs, best;
} WorldArguments;

/* The class of the highest log odds, the first of equals. */
static void put_best(const Scores *s, int64_t m, uint8_t *best) {
    for (int64_t b = 0; b < m; b++) {
        int64_t first = 0;
        for (int64_t k = 1; k < s->classes; k++)
            if (s->t[k * PIXELS + b] > s->t[first * PIXELS + b]) first = k;
        best[b] = (uint8_t)first;
    }
}

/* Classes of a block in the realisation and world of one pair; `wide` is the root of R - 1. */
static void find_best(const WorldArguments *a, int64_t r, int64_t w, int fresh, double wide, double *moved,
                      NoisyBlock *work) {
    int64_t p = work->p, step = work->scores.p * PIXELS;
    for (int64_t k = 0; k < work->C && fresh; k++)
        factorise(AT(double, a->scale, w, k), *AT(double, a->shrink, w, k), AT(double, a->pivots, w, k), k, work);
    for (int64_t b = 0; b < p * PIXELS; b += LANES) {
        V x = load(work->x + b);
        store(moved + b, a->in.spread ? madd(full(wide), load(work->f + r * step + b), x) : x);
    }
    for (int64_t k = 0; k < work->C; k++) find_noisy_distance(moved, AT(double, a->location, w, k), k, work);
    score_with_noise(&a->densities, w, &a->components, work);
}

/* The most probable class (pair, pixel) of pixels with known noise.

`pairs` are (realisation, world), those of one world one after the other: its densities with the noise of a pixel are
made once. */
int EXPORT(best_in_worlds)(const WorldArguments *a) {
    int64_t n = a->in.planes.shape[2], p = a->in.planes.shape[1];
    Room room = {0};
    NoisyBlock work;
    reserve_noisy(&room, &a->in, &a->densities, &a->components, &work);
    double *moved = RESERVE(&room, double, p * PIXELS), wide = sqrt((double)count_realisations(&a->in) - 1.0);
    for (int64_t start = 0; start < n && !room.failed; start += PIXELS) {
        int64_t m = least(PIXELS, n - start), before = -1;
        take_in(&a->in, &a->densities, start, m, &work);
        for (int64_t i = 0; i < a->pairs.shape[0]; i++) {
            const int64_t *pair = ROW(int64_t, a->pairs, i);
            find_best(a, pair[0], pair[1], pair[1] != before, wide, moved, &work);
            put_best(&work.scores, m, ROW(uint8_t, a->best, i) + start);
            before = pair[1];
        }
    }
    return release(&room);
}

#endif
#endif
