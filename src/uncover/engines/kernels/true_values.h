/* Points in the place of the true values of pixels whose noise is known (uncover.bayes.class_densities_with_noise).

One pixel after the other, whose points are the lanes of the innermost loops. */

#ifndef TRUE_VALUES_H
#define TRUE_VALUES_H

#include "summaries.h"

#ifndef SINGLE

/* The constants of the reference, in its order and with its names. */
typedef struct {
    double certain, small, unsure, known;
    int64_t fill;
} Constants;

/* Points that stand for a normal vector, as in class_densities_with_noise.Points: z (feature, point). */
typedef struct {
    int64_t n, padded;
    Array first, z;
} Points;

/* Class densities with noise, as in class_densities_with_noise.NoiseNumbers. */
typedef struct {
    Array location, scale, shrink, pivots;
    int64_t same;
    Array truth_scale, truth_shrink, truth_pivots, truth_location, plain_scale;
} NoiseNumbers;

/* Workspace of a block of pixels. */
typedef struct {
    int64_t p, C;
    double *raw, *x;    /* (feature, pixel): values as they came; their mean, less the centre */
    double *f;          /* (realisation, feature, pixel), values, then their deviations */
    double *noise;      /* (feature, feature, pixel), covariances */
    double *z;          /* (feature, pixel), whitened */
    double *L;          /* (component, feature, feature, pixel), factors */
    double *log_det;    /* (component, pixel) */
    double *far;        /* (component, pixel), squared distances without noise */
    Scores scores;
    double *of_components; /* (component, pixel), probabilities */
    double *p_value;       /* (component, pixel) */
    double *inner, *information; /* (pixel,), entropy; of the class models */
    int64_t uncertain[PIXELS];   /* pixels whose class is not certain */
} NoisyBlock;

/* Workspace for the true values of a block of pixels. */
typedef struct {
    int64_t *counts;  /* (component,), points of each */
    double *T, *root; /* (feature, feature): L^-1 S of a component; root of the covariance of its true values */
    double *mean, *whitened, *gradient, *reflection, *image; /* (feature,) */
    int64_t place[PIXELS + 1]; /* where the points of each pixel begin */
    Scores scores;             /* x are the true values of all pixels */
    double *weight;            /* (point,) */
    double *w, *rows, *terms;  /* (point,), of one pixel */
} TruthBlock;

static void reserve_truth(Room *room, int64_t p, const Densities *truth, const Components *of, int64_t padded,
                          TruthBlock *here) {
    int64_t even = round_up(p, 2), points = PIXELS * padded;
    RESERVE_SCORES(room, double, here->scores, even, points, *truth, *of);
    here->counts = RESERVE(room, int64_t, here->scores.components);
    here->T = RESERVE(room, double, p * p), here->root = RESERVE(room, double, p * p);
    here->mean = RESERVE(room, double, 5 * p), here->whitened = here->mean + p, here->gradient = here->mean + 2 * p;
    here->reflection = here->mean + 3 * p, here->image = here->mean + 4 * p;
    here->weight = RESERVE(room, double, points), here->w = RESERVE(room, double, padded);
    here->rows = RESERVE(room, double, padded), here->terms = RESERVE(room, double, padded);
    here->place[0] = 0;
}

/* Points of each component: 2 and more where it is not negligible, by the root of its probability. */
static void share_out(const NoisyBlock *work, int64_t lane, int64_t n, double small, int64_t *counts) {
    const double *probability = work->of_components + lane;
    int64_t best = 0, taken = 0;
    for (int turn = 0; turn < 60; turn++) {
        taken = 0;
        for (int64_t k = 0; k < work->C; k++) taken += probability[k * PIXELS] >= small;
        if (2 * taken <= n) break;
        small *= 2.0;
    }
    double total = 0.0;
    for (int64_t k = 0; k < work->C; k++) {
        if (probability[k * PIXELS] > probability[best * PIXELS]) best = k;
        total += probability[k * PIXELS] >= small ? sqrt(probability[k * PIXELS]) : 0.0;
    }
    int alone = taken == 0 || 2 * taken > n;
    int64_t fewest = least(2, n), left = n - fewest * (alone ? 1 : taken);
    for (int64_t k = 0; k < work->C; k++) {
        double share = alone ? 1.0 : sqrt(probability[k * PIXELS]) / total;
        int mine = alone ? k == best : probability[k * PIXELS] >= small;
        counts[k] = mine ? fewest + (int64_t)floor((double)left * share + 1e-9) : 0;
    }
}

/* Mean of the true values of component k, and the lower half of their covariance, in the place of its root.

T = S/L by forward substitution, rows at a time; the covariance is (S - T'T)/shrink. */
static void mean_and_covariance(const NoisyBlock *work, int64_t lane, int64_t k, const double *location,
                                const double *scale, double shrink, TruthBlock *here) {
    int64_t p = work->p, b = lane;
    const double *L = work->L + k * p * p * PIXELS;
    double *T = here->T, *V_ = here->root;
    for (int64_t i = 0; i < p; i++) {
        double inverse = *CELL(L, i, i), z = work->x[i * PIXELS + lane] - location[i];
        memcpy(T + i * p, scale + i * p, (size_t)p * sizeof(double));
        for (int64_t m = 0; m < i; m++) {
            double factor = *CELL(L, i, m);
            z -= factor * here->whitened[m];
            for (int64_t j = 0; j < p; j++) T[i * p + j] = fused(-factor, T[m * p + j], T[i * p + j]);
        }
        here->whitened[i] = z * inverse;
        for (int64_t j = 0; j < p; j++) T[i * p + j] *= inverse;
    }
    memcpy(here->mean, location, (size_t)p * sizeof(double));
    memcpy(V_, scale, (size_t)(p * p) * sizeof(double));
    for (int64_t m = 0; m < p; m++)
        for (int64_t i = 0; i < p; i++) {
            double at = T[m * p + i];
            here->mean[i] += at * here->whitened[m];
            for (int64_t j = 0; j < p; j++) V_[i * p + j] = fused(-at, T[m * p + j], V_[i * p + j]);
        }
    for (int64_t i = 0; i < p * p; i++) V_[i] *= 1.0 / shrink;
}

/* Lower triangular root of a covariance that may be singular, zeros above it; `known` as in the reference. */
static void root_in_place(const double *scale, double shrink, double known, int64_t p, double *A) {
    for (int64_t j = 0; j < p; j++) {
        double left = A[j * p + j];
        for (int64_t m = 0; m < j; m++) left -= A[j * p + m] * A[j * p + m];
        double pivot = left > known * scale[j * p + j] / shrink ? sqrt(left) : 0.0;
        double inverse = pivot > 0.0 ? 1.0 / pivot : 0.0;
        A[j * p + j] = pivot;
        for (int64_t i = j + 1; i < p; i++) {
            double rest = A[i * p + j];
            for (int64_t m = 0; m < j; m++) rest -= A[i * p + m] * A[j * p + m];
            A[i * p + j] = rest * inverse;
        }
        for (int64_t i = 0; i < j; i++) A[i * p + j] = 0.0;
    }
}

/* Gradient of the log odds of the class of component k at the mean true value. */
static void find_gradient(const NoisyBlock *work, int64_t lane, int64_t k, const Densities *truth,
                          const Components *of, TruthBlock *here) {
    int64_t p = work->p, even = truth->whitening.shape[2], start = 0, end = 0;
    const double *probability = work->of_components + lane;
    double of_class = 0.0;
    for (int64_t each = 0; each + 1 < of->first.shape[0]; each++)
        if (first_of(of)[each] <= k && k < first_of(of)[each + 1])
            start = first_of(of)[each], end = first_of(of)[each + 1];
    for (int64_t c = start; c < end; c++) of_class += probability[c * PIXELS];
    memset(here->gradient, 0, (size_t)p * sizeof(double));
    for (int64_t c = 0; c < work->C; c++) {
        const double *W = AT(double, truth->whitening, 0, c), *shift = AT(double, truth->shift, 0, c);
        double share = start <= c && c < end ? probability[c * PIXELS] / fmax(of_class, 1e-300) : 0.0, q = 0.0;
        if (fabs(share - probability[c * PIXELS]) < 1e-12) continue;
        for (int64_t i = 0; i < p; i++) {
            double z = -shift[i];
            for (int64_t j = 0; j <= i; j++) z += W[i * even + j] * here->mean[j];
            here->whitened[i] = z;
            q += z * z;
        }
        double dof = *AT(double, truth->dof, 0, c);
        double factor = (share - probability[c * PIXELS]) * (dof + (double)p) / (dof + q);
        for (int64_t i = 0; i < p; i++)
            for (int64_t j = 0; j <= i; j++) here->gradient[j] -= W[i * even + j] * (factor * here->whitened[i]);
    }
}

/* Reflect the root so that its first column is the direction of the gradient. */
static void turn_root(int64_t p, TruthBlock *here) {
    double size = 0.0, *root = here->root, *a = here->reflection;
    for (int64_t j = 0; j < p; j++) {
        a[j] = 0.0;
        for (int64_t i = j; i < p; i++) a[j] += root[i * p + j] * here->gradient[i];
        size += a[j] * a[j];
    }
    double inverse = size > 0.0 ? 1.0 / sqrt(size) : 0.0;
    for (int64_t j = 0; j < p; j++) a[j] *= inverse;
    a[0] += a[0] < 0.0 ? -1.0 : 1.0;
    size = 0.0;
    for (int64_t j = 0; j < p; j++) size += a[j] * a[j];
    for (int64_t i = 0; i < p; i++) {
        double along = 0.0;
        for (int64_t j = 0; j <= i; j++) along += root[i * p + j] * a[j];
        here->image[i] = along * (2.0 / size);
    }
    for (int64_t i = 0; i < p; i++)
        for (int64_t j = 0; j < p; j++) root[i * p + j] -= here->image[i] * a[j];
}

/* Points mean + A z of a component, m of them, from a place on. */
static void place_points(const Points *points, int64_t m, int64_t p, int64_t place, TruthBlock *here) {
    const double *z = (const double *)points->z.data + ((const int64_t *)points->first.data)[m];
    int64_t all = points->z.shape[1];
    for (int64_t i = 0; i < p; i++) {
        double *chi = here->scores.x + i * here->scores.stride + place;
        for (int64_t d = 0; d < m; d++) chi[d] = here->mean[i];
        for (int64_t j = 0; j < p; j++) {
            double a = here->root[i * p + j];
            for (int64_t d = 0; d < m; d++) chi[d] = fused(a, z[j * all + d], chi[d]);
        }
    }
}

/* Place true values of one uncertain pixel, and points without weight after them; return where they end. */
static int64_t place_true_values(const NoiseNumbers *numbers, const Densities *truth, const Components *of,
                                 const Points *points, const Constants *constants, const NoisyBlock *work,
                                 int64_t lane, int64_t place, TruthBlock *here) {
    int64_t p = work->p, at = place;
    double share = fmin(fmax(work->inner[lane] / constants->unsure, 0.25), 1.0), used = 0.0;
    share_out(work, lane, (int64_t)ceil((double)points->n * share), constants->small, here->counts);
    for (int64_t k = 0; k < work->C; k++)
        used += here->counts[k] > 0 ? work->of_components[k * PIXELS + lane] : 0.0;
    for (int64_t k = 0; k < work->C; k++) {
        int64_t m = here->counts[k];
        if (m == 0) continue;
        const double *scale = ROW(double, numbers->plain_scale, k);
        double shrink = *ROW(double, numbers->truth_shrink, k);
        mean_and_covariance(work, lane, k, ROW(double, numbers->truth_location, k), scale, shrink, here);
        root_in_place(scale, shrink, constants->known, p, here->root);
        find_gradient(work, lane, k, truth, of, here);
        turn_root(p, here);
        place_points(points, m, p, at, here);
        for (int64_t d = at; d < at + m; d++)
            here->weight[d] = work->of_components[k * PIXELS + lane] / ((double)m * used);
        at += m;
    }
    int64_t end = place + round_up(at - place, constants->fill);
    for (int64_t d = at; d < end; d++) {
        here->weight[d] = 0.0;
        for (int64_t i = 0; i < p; i++)
            here->scores.x[i * here->scores.stride + d] = here->scores.x[i * here->scores.stride + place];
    }
    return end;
}

/* Sum of -w log w; the terms are kept apart so that they are vectors. n is a multiple of the lanes. */
static double sum_plogp(const double *w, int64_t n, double *terms) {
    double total = 0.0;
    for (int64_t d = 0; d < n; d += LANES) {
        V safe = larger(load(w + d), full(1e-300));
        store(terms + d, safe * log_one_plus(larger(1.0 / safe - 1.0, full(0))));
    }
    for (int64_t d = 0; d < n; d++) total += terms[d];
    return total;
}

/* Information of the n points from `place` on about the class, by the table whose columns are normalised to the
   probabilities of the pixel. */
static double information_of_points(const NoisyBlock *work, int64_t lane, int64_t place, int64_t n, TruthBlock *here) {
    const Scores *s = &here->scores;
    double rest = 0.0, entropy = work->inner[lane];
    memset(here->rows, 0, (size_t)n * sizeof(double));
    for (int64_t k = 0; k < s->classes; k++) {
        const double *at_truth = s->e + k * s->stride + place, *weight = here->weight + place;
        double total = 0.0, probability = work->scores.e[k * PIXELS + lane];
        for (int64_t d = 0; d < n; d++) total += weight[d] * at_truth[d];
        double share = total > 1e-290 ? probability / total : 0.0, even = total > 1e-290 ? 0.0 : probability;
        for (int64_t d = 0; d < n; d++) {
            here->w[d] = weight[d] * (even + share * at_truth[d]);
            here->rows[d] += here->w[d];
        }
        rest += sum_plogp(here->w, n, here->terms);
    }
    rest -= sum_plogp(here->rows, n, here->terms);
    return fmin(fmax(entropy - rest, 0.0), entropy);
}

#endif
#endif
