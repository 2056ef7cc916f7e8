/* p-values, without noise and with known noise (uncover.bayes.hotelling).

With noise, coordinates are such that the covariance C of a component's samples is the identity, and their mean noise S
diagonal. The pixels of a block are the lanes of the innermost loops. */

#ifndef TYPICALITY_H
#define TYPICALITY_H

#include "scores.h"

/* Add p-values: e^(-nu v/2) sum_j c_j w^j with w = nu/2 (1 - e^(-v)), for an even number of features. */
static void add_typicality(const REAL *v, int64_t n, REAL dof, const REAL *tail, int64_t terms, REAL *total) {
    REAL half = R(0.5) * dof;
    for (int64_t b = 0; b < n; b += LANES) {
        V log1p_distance = load(v + b);
        V w = lesser(half * one_less_exponential(log1p_distance), full(88)), y = full(tail[terms - 1]);
        for (int64_t j = terms - 2; j >= 0; j--) y = madd(y, w, full(tail[j]));
        store(total + b, madd(exponential(-(half * log1p_distance)), y, load(total + b)));
    }
}

/* Add p-values read from a table over the root of v, for an odd number of features. */
static void add_typicality_by_table(const REAL *v, int64_t n, REAL scale, const REAL *table, int64_t steps,
                                    REAL *total) {
    REAL last = R(steps - 2), place[BLOCK];
    for (int64_t b = 0; b < n; b += LANES)
        store(place + b, lesser(square_root(load(v + b)) * scale, full(last)));
    for (int64_t b = 0; b < n; b++) {
        int32_t left = (int32_t)place[b];
        REAL before = table[left];
        total[b] += before + (place[b] - R(left)) * (table[left + 1] - before);
    }
}

/* Add the p-values of all components in world w; n is at most BLOCK. */
static void add_p_values(const Densities *d, int64_t w, int odd, const Scores *s, REAL *total) {
    for (int64_t c = 0; c < s->components; c++) {
        const REAL *v = s->v + c * s->stride;
        if (odd)
            add_typicality_by_table(v, s->n, *AT(REAL, d->table_scale, w, c), AT(REAL, d->table, w, c),
                                    d->table.shape[2], total + c * s->stride);
        else
            add_typicality(v, s->n, *AT(REAL, d->dof, w, c), AT(REAL, d->tail, w, c), d->tail.shape[2],
                           total + c * s->stride);
    }
}

#ifndef SINGLE

/* As in hotelling.py: standard errors that a variance counts as at least, and 1 - t that counts as none. */
#define FEWEST_ERRORS 2.0
#define SAME_NOISE 1e-6
#define FAR 1e300
/* Relative error of the continued fraction, and its terms at most. */
#define FRACTION_ERROR 1e-15
#define FRACTION_TERMS 20000

enum { PIXELS = 32 }; /* lanes of a block of pixels with known noise */

/* Reference of p-values, as in class_densities_with_noise.ReferenceNumbers. */
typedef struct {
    Array transform, location, own, common, free;
} Reference;

/* Metric and distribution of distances for each component, or for one of them at a time. */
typedef struct {
    double *half, *W; /* (feature, feature, pixel): T*noise, and the noise */
    double *L;        /* (feature, feature, pixel), Cholesky factor of I + (1-t)W, the diagonal inverted */
    double *t;        /* (pixel,) */
    double *sums;     /* (4, pixel): tr 1/M, tr 1/M^2, tr E/M, tr (E/M)^2 */
    double *root;     /* (component or 1, feature, feature, pixel), 1/L */
    double *size, *features, *dof; /* (component or 1, pixel) */
} Tails;

static void reserve_tails(Room *room, int64_t p, int64_t slots, Tails *tails) {
    int64_t square = p * p * PIXELS;
    tails->half = RESERVE(room, double, square), tails->W = RESERVE(room, double, square);
    tails->L = RESERVE(room, double, square), tails->t = RESERVE(room, double, PIXELS);
    tails->sums = RESERVE(room, double, 4 * PIXELS), tails->root = RESERVE(room, double, slots * square);
    tails->size = RESERVE(room, double, slots * PIXELS), tails->features = RESERVE(room, double, slots * PIXELS);
    tails->dof = RESERVE(room, double, slots * PIXELS);
}

/* Lanes from b on of element (i, j) of matrices (feature, feature, pixel). */
#define CELL(matrix, i, j) ((matrix) + ((i) * p + (j)) * PIXELS + b)
#define ALL_PIXELS(b) for (int64_t b = 0; b < PIXELS; b += LANES)

/* W = T*C*T' + common, lower triangle, from the lower triangle of C. */
static void whiten(const double *C, const double *T, const double *common, int64_t p, double *half, double *W) {
    ALL_PIXELS(b) {
        for (int64_t i = 0; i < p; i++)
            for (int64_t j = 0; j < p; j++) {
                V total = full(0);
                for (int64_t m = 0; m < p; m++)
                    total = madd(full(T[i * p + m]), load(m < j ? CELL(C, j, m) : CELL(C, m, j)), total);
                store(CELL(half, i, j), total);
            }
        for (int64_t i = 0; i < p; i++)
            for (int64_t j = 0; j <= i; j++) {
                V total = full(common[i * p + j]);
                for (int64_t m = 0; m < p; m++) total = madd(full(T[j * p + m]), load(CELL(half, i, m)), total);
                store(CELL(W, i, j), total);
            }
    }
}

/* Cholesky factor of I + (1-t)W; no pivot is smaller than without noise, whatever rounding did to W. */
static void factorise_metric(const double *W, const double *t, int64_t p, double *L) {
    ALL_PIXELS(b) {
        V rest = 1.0 - load(t + b);
        for (int64_t j = 0; j < p; j++) {
            V inverse = full(0);
            for (int64_t i = j; i < p; i++) {
                V total = load(CELL(W, i, j)) * rest;
                for (int64_t m = 0; m < j; m++) total = less_product(total, load(CELL(L, i, m)), load(CELL(L, j, m)));
                if (i == j) inverse = 1.0 / square_root(1.0 + larger(total, full(0)));
                store(CELL(L, i, j), i == j ? inverse : total * inverse);
            }
        }
    }
}

/* Inverse of a lower triangle whose diagonal is inverted. */
static void invert(const double *L, int64_t p, double *root) {
    ALL_PIXELS(b)
    for (int64_t j = 0; j < p; j++) {
        store(CELL(root, j, j), load(CELL(L, j, j)));
        for (int64_t i = j + 1; i < p; i++) {
            V total = full(0);
            for (int64_t m = j; m < i; m++) total = less_product(total, load(CELL(L, i, m)), load(CELL(root, m, j)));
            store(CELL(root, i, j), total * load(CELL(L, i, i)));
        }
    }
}

/* Traces of 1/M, of E/M with E = tW - S, and of their squares. */
static void add_up(const double *root, const double *W, const double *t, const double *own, int64_t p, double *sums) {
    ALL_PIXELS(b) {
        V share = load(t + b), rest = 1.0 - share, first = full(0), second = first, mean = first, square = first;
        for (int64_t i = 0; i < p; i++)
            for (int64_t j = 0; j <= i; j++) {
                V inverse = full(0);
                for (int64_t m = i; m < p; m++)
                    inverse = madd(load(CELL(root, m, i)), load(CELL(root, m, j)), inverse);
                double one = i == j, times = i == j ? 1.0 : 2.0;
                V ratio = choose((U)(rest < SAME_NOISE), load(CELL(W, i, j)), (one - inverse) / rest); /* W/M */
                V moved = share * ratio, left = moved - own[i] * inverse, right = moved - own[j] * inverse;
                second = madd(times * inverse, inverse, second);
                square = madd(times * left, right, square);
                if (i == j) first += inverse, mean += left;
            }
        store(sums + b, first), store(sums + PIXELS + b, second);
        store(sums + 2 * PIXELS + b, mean), store(sums + 3 * PIXELS + b, square);
    }
}

/* Scale, and degrees of freedom of the F distribution, of each pixel. */
static void find_distribution(double p, double free, const double *sums, double *size, double *features, double *dof) {
    double unbiased = fmax(free - p - 1.0, 0.0) / free, lowest = fmin(FEWEST_ERRORS * sqrt(2.0 / (free * p)), 1.0);
    double root = sqrt((free - p + 1.0) / free), power = fmax(free * p - 0.5, 0.0) / (free * p + 3.5);
    for (int64_t b = 0; b < PIXELS; b++) {
        double first = sums[b], second = sums[PIXELS + b], mean = sums[2 * PIXELS + b] / p;
        double nu = free + root * free * (pow((p + p * p) / (second + first * first), power) - 1.0);
        double left = fmax(1.0 + unbiased * mean, lowest);
        double square = sums[3 * PIXELS + b] / p - mean * mean * free / fmax(free - p, 1e-6);
        double spread = fmax(unbiased * unbiased * square, 0.0) / (left * left);
        double all = nu - p + 1.0, small = fmin(left, 1.0), lost = (1.0 / (small * small) - 1.0) / (free * p);
        dof[b] = fmax(1.0 / (1.0 / all + lost), fmin(all, 1.0));
        size[b] = nu * p * left / all;
        features[b] = fmax(p / (1.0 + spread), 1.0);
    }
}

/* Metric and distribution of distances from component k, of pixels with noise C. */
static void find_tails(const double *C, const Reference *reference, int64_t p, int64_t k, int64_t slot, Tails *tails) {
    const double *noise = ROW(double, reference->own, k);
    double own = 0.0, *root = tails->root + slot * p * p * PIXELS;
    whiten(C, ROW(double, reference->transform, k), ROW(double, reference->common, k), p, tails->half, tails->W);
    for (int64_t i = 0; i < p; i++) own += noise[i];
    for (int64_t b = 0; b < PIXELS; b++) {
        double trace = 0.0;
        for (int64_t i = 0; i < p; i++) trace += *CELL(tails->W, i, i);
        tails->t[b] = own / fmax(trace, fmax(own, 2.2250738585072014e-308));
    }
    factorise_metric(tails->W, tails->t, p, tails->L);
    invert(tails->L, p, root);
    add_up(root, tails->W, tails->t, noise, p, tails->sums);
    int64_t at = slot * PIXELS;
    find_distribution((double)p, *ROW(double, reference->free, k), tails->sums, tails->size + at, tails->features + at,
                      tails->dof + at);
}

/* log of Gamma(a+b)/Gamma(a), by Stirling's series where the difference of logarithms would cancel. */
static double log_gamma_ratio(double a, double b) {
    if (a < 30.0) return lgamma(a + b) - lgamma(a);
    double u = 1.0 / (a + b), v = 1.0 / a, u2 = u * u, v2 = v * v;
    double rest = (u - v) / 12.0 - (u2 * u - v2 * v) / 360.0 + (u2 * u2 * u - v2 * v2 * v) / 1260.0;
    return (a - 0.5) * log1p(b / a) + b * log(a + b) - b + rest;
}

/* I_x(a, b) B(a, b)/(x^a y^b) with y = 1 - x: the even part of DLMF 8.17.22, whose terms do not cancel.

Convergents are ratios of two sums, formed and compared four terms at a time. */
static double continued_fraction(double a, double b, double x, double y) {
    double start = a * y - b * x + 1.0, last_top = 0.0, top = 1.0, last_bottom = 1.0, bottom = a * start / (a + 1.0);
    double before = 0.0, value = 0.0;
    for (int first = 1; first < FRACTION_TERMS; first += 4) {
        for (int n = first; n < first + 4; n++) {
            double inverse = 1.0 / (a + 2 * n - 1.0), next;
            double up = (a + n - 1.0) * inverse * ((a + b + n - 1.0) * inverse) * n * (b - n) * x * x;
            double down =
                n + n * (b - n) * x * inverse + (a + n) * (start + n * (1.0 + y)) / (a + 2 * n + 1.0);
            next = down * top + up * last_top, last_top = top, top = next;
            next = down * bottom + up * last_bottom, last_bottom = bottom, bottom = next;
        }
        double scale = 1.0 / bottom;
        value = top * scale;
        if (fabs(value - before) <= FRACTION_ERROR * fabs(value)) break;
        before = value;
        last_top *= scale, top = value, last_bottom *= scale, bottom = 1.0;
    }
    return value;
}

/* P(features*F > square) for F ~ F(features, dof): I_x(a, b) with x = dof/(dof + square). */
static double f_tail(double square, double features, double dof) {
    if (!(square > 0.0)) return 1.0;
    double a = 0.5 * dof, b = 0.5 * features, x = dof / (dof + square), y = square / (dof + square);
    double log_front = b * log(y) - a * log1p(square / dof) + log_gamma_ratio(a, b) - lgamma(b);
    if (x < (a + 1.0) / (a + b + 2.0)) return log_front > -745.0 ? exp(log_front) * continued_fraction(a, b, x, y) : 0.0;
    return 1.0 - exp(log_front) * continued_fraction(b, a, y, x);
}

typedef struct {
    Array square, features, dof, out;
} TailArguments;

/* The same of arrays of one length. */
int EXPORT(f_tails)(const TailArguments *a) {
    const double *square = a->square.data, *features = a->features.data, *dof = a->dof.data;
    for (int64_t i = 0; i < a->out.shape[0]; i++) ((double *)a->out.data)[i] = f_tail(square[i], features[i], dof[i]);
    return 0;
}

/* p-values of values x (feature, pixel) for component k; z is room for as many numbers. */
static void p_values(const double *x, const Reference *reference, int64_t p, int64_t k, int64_t slot,
                     const Tails *tails, double *z, double *out) {
    const double *T = ROW(double, reference->transform, k), *location = ROW(double, reference->location, k);
    const double *root = tails->root + slot * p * p * PIXELS;
    const double *size = tails->size + slot * PIXELS, *features = tails->features + slot * PIXELS;
    ALL_PIXELS(b) {
        V square = full(0);
        for (int64_t i = 0; i < p; i++) {
            V total = full(0);
            for (int64_t m = 0; m < p; m++)
                total = madd(full(T[i * p + m]), load(x + m * PIXELS + b) - location[m], total);
            store(z + i * PIXELS + b, total);
        }
        for (int64_t i = 0; i < p; i++) {
            V total = full(0);
            for (int64_t m = 0; m <= i; m++) total = madd(load(CELL(root, i, m)), load(z + m * PIXELS + b), total);
            square = madd(total, total, square);
        }
        store(out + b, square);
    }
    for (int64_t b = 0; b < PIXELS; b++)
        out[b] = f_tail(fmin(out[b] / size[b] * features[b], FAR), features[b], tails->dof[slot * PIXELS + b]);
}

#endif
#endif
