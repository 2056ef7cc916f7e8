/* Moments of groups of samples: two passes over a block that stays in the cache, the second centred. REAL is the type
of the samples; sums are in double precision. */

#ifndef MOMENTS_H
#define MOMENTS_H

#include "vectors.h"

typedef struct {
    Array x, groups, weight, count, mean, scatter, residual;
} MomentArguments;

/* Deviations of one group, features first; with weights, `weighted` are others than `d`. */
typedef struct {
    int64_t p, width;
    double *d, *weighted; /* (feature, number) */
    int64_t *edges, *order;
} Deviations;

void DOUBLE(add_products)(const Deviations *deviations, double *scatter, double *residual);

/* Counts and means of the groups. */
static void find_means(const MomentArguments *a) {
    int64_t n = a->x.shape[0], p = a->x.shape[1], groups = a->count.shape[0];
    const int32_t *group = a->groups.data;
    const double *weight = a->weight.shape[0] > 0 ? a->weight.data : NULL;
    const REAL *samples = a->x.data;
    double *count = a->count.data, *means = a->mean.data;
    memset(count, 0, (size_t)groups * sizeof(double));
    memset(means, 0, (size_t)(groups * p) * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        const REAL *restrict x = samples + i * p;
        double w = weight ? weight[i] : 1.0, *restrict mean = means + group[i] * p;
        count[group[i]] += w;
        for (int64_t j = 0; j < p; j++) mean[j] += w * x[j];
    }
    for (int64_t g = 0; g < groups; g++)
        for (int64_t j = 0; j < p && count[g] > 0.0; j++) means[g * p + j] /= count[g];
}

/* Numbers of the samples by group, and where each group begins. */
static void sort_by_group(const MomentArguments *a, Deviations *s) {
    int64_t n = a->x.shape[0], groups = a->count.shape[0];
    const int32_t *group = a->groups.data;
    for (int64_t i = 0; i < n; i++) s->edges[group[i] + 1]++;
    for (int64_t g = 1; g <= groups; g++) s->edges[g] += s->edges[g - 1];
    for (int64_t i = 0; i < n; i++) s->order[s->edges[group[i]]++] = i;
    for (int64_t g = groups; g > 0; g--) s->edges[g] = s->edges[g - 1]; /* each has moved to where the next begins */
    s->edges[0] = 0;
}

/* Samples of group g less their mean, features first, and the same times their weights; zeros fill the lines. */
static void turn_samples(const MomentArguments *a, int64_t g, int64_t start, int64_t n, Deviations *s) {
    const double *weight = a->weight.shape[0] > 0 ? a->weight.data : NULL, *restrict mean = ROW(double, a->mean, g);
    const REAL *restrict samples = a->x.data;
    int64_t p = s->p, width = s->width;
    const int64_t *restrict order = s->order + start;
    double *restrict turned = s->d;
    for (int64_t b = 0; b < n; b++)
        for (int64_t j = 0; j < p; j++) turned[j * width + b] = (double)samples[order[b] * p + j] - mean[j];
    for (int64_t j = 0; j < s->p; j++) {
        double *d = s->d + j * s->width, *weighted = s->weighted + j * s->width;
        for (int64_t b = n; b < s->width; b++) d[b] = weighted[b] = 0.0;
        for (int64_t b = 0; b < n && weight; b++) weighted[b] = weight[s->order[start + b]] * d[b];
    }
}

#ifndef SINGLE
/* Add sums of products to the lower triangle, two rows by two columns at a time, and sums to the rest. */
void DOUBLE(add_products)(const Deviations *s, double *scatter, double *residual) {
    int64_t p = s->p, width = s->width;
    for (int64_t i = 0; i < p; i += 2)
        for (int64_t j = 0; j <= i; j += 2) {
            const double *w = s->weighted + i * width, *d = s->d + j * width;
            V sums[2][2] = {{full(0), full(0)}, {full(0), full(0)}}, alone[2] = {full(0), full(0)};
            for (int64_t b = 0; b < width; b += LANES)
                for (int r = 0; r < 2; r++) {
                    V weighted = load(w + r * width + b);
                    if (j == 0) alone[r] += weighted;
                    for (int c = 0; c < 2; c++) sums[r][c] = madd(weighted, load(d + c * width + b), sums[r][c]);
                }
            for (int r = 0; r < 2 && i + r < p; r++) {
                if (j == 0) residual[i + r] += sum_of(alone[r]);
                for (int c = 0; c < 2 && j + c <= i + r; c++) scatter[(i + r) * p + j + c] += sum_of(sums[r][c]);
            }
        }
}
#endif

/* Take out what rounding left in the mean, and mirror the triangle. */
static void finish_moments(double count, int64_t p, double *scatter, double *residual) {
    for (int64_t i = 0; i < p; i++) residual[i] /= count;
    for (int64_t i = 0; i < p; i++)
        for (int64_t j = 0; j <= i; j++) {
            scatter[i * p + j] -= count * residual[i] * residual[j];
            scatter[j * p + i] = scatter[i * p + j];
        }
}

/* Moments of each group of one block of samples (sample, feature).

`weight` may be empty. The rest is written to: count (group,), mean and residual (group, feature), and scatter (group,
feature, feature). */
int EXPORT(grouped_moments)(const MomentArguments *a) {
    int64_t n = a->x.shape[0], p = a->x.shape[1], groups = a->count.shape[0], even = round_up(p, 2);
    Room room = {0};
    Deviations s = {.p = p, .width = round_up(8192 / p + 1, 8)};
    s.d = RESERVE(&room, double, even * s.width);
    s.weighted = a->weight.shape[0] > 0 ? RESERVE(&room, double, even * s.width) : s.d;
    s.edges = RESERVE(&room, int64_t, groups + 1), s.order = RESERVE(&room, int64_t, n);
    if (room.failed) return release(&room);
    find_means(a);
    sort_by_group(a, &s);
    memset(a->scatter.data, 0, (size_t)(groups * p * p) * sizeof(double));
    memset(a->residual.data, 0, (size_t)(groups * p) * sizeof(double));
    for (int64_t g = 0; g < groups; g++) {
        double *scatter = ROW(double, a->scatter, g), *residual = ROW(double, a->residual, g);
        for (int64_t start = s.edges[g]; start < s.edges[g + 1]; start += s.width) {
            turn_samples(a, g, start, least(s.width, s.edges[g + 1] - start), &s);
            DOUBLE(add_products)(&s, scatter, residual);
        }
        if (((double *)a->count.data)[g] > 0.0) finish_moments(((double *)a->count.data)[g], p, scatter, residual);
    }
    return release(&room);
}

#endif
