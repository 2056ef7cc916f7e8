/* Members of the recommended classifier: kernels and trees. No table of distances or of leaves is
ever made. */

#ifndef MEMBERS_H
#define MEMBERS_H

#include "vectors.h"

enum { KERNEL_POINTS = 64 }; /* points that meet the centres together */

typedef struct {
    Array points, centres, offset, weight, first, sums, squares;
} KernelArguments;

/* Sums over some centres for two vectors of points: each number of a centre is used twice. */
INLINE void sum_kernels(const KernelArguments *a, const REAL *x, const REAL *norm, const REAL *unit, int64_t start,
                        int64_t stop, REAL *sums, REAL *squares) {
    const REAL *centres = a->centres.data, *offset = a->offset.data, *weight = a->weight.data;
    int64_t p = a->points.shape[1];
    V norms[2] = {load(norm), load(norm + LANES)}, units[2] = {load(unit), load(unit + LANES)};
    V sum[2] = {full(0), full(0)}, square[2] = {full(0), full(0)}, distance[2];
    for (int64_t i = start; i < stop; i++) {
        for (int h = 0; h < 2; h++) distance[h] = madd(full(offset[i]), units[h], norms[h]);
        for (int64_t j = 0; j < p; j++)
            for (int h = 0; h < 2; h++)
                distance[h] = madd(full(centres[i * p + j]), load(x + j * KERNEL_POINTS + h * LANES), distance[h]);
        for (int h = 0; h < 2; h++) distance[h] = larger(distance[h], units[h]);
        V both = R(1) / (distance[0] * distance[1]); /* a division takes as long as ten products */
        for (int h = 0; h < 2; h++) {
            V near = both * distance[1 - h], two = near * near, kernel = weight[i] * (two * two * two);
            sum[h] += kernel;
            square[h] = madd(kernel, kernel, square[h]);
        }
    }
    for (int h = 0; h < 2; h++) store(sums + h * LANES, sum[h]), store(squares + h * LANES, square[h]);
}

/* Sums of w*k and of (w*k)^2 over the centres of each class, with kernels k = (1 + |x - c|^2)^-6.

Points are (point, feature), in units of the bandwidth and about the middle of the centres. `centres` (centre, feature)
holds -2c, `offset` 1 + |c|^2, `weight` w; those of class k are first[k] to first[k + 1] - 1. Results are (point, class).
Far out, at |x|^2 > s = 1 + max|c|^2, 1 + |x - c|^2 is divided by |x|^2/s, lest single precision underflow. */
int EXPORT(kernel_sums)(const KernelArguments *a) {
    int64_t n = a->points.shape[0], p = a->points.shape[1], K = a->sums.shape[1];
    const int64_t *first = a->first.data;
    const REAL *points = a->points.data;
    double *sums = a->sums.data, *squares = a->squares.data;
    Room room = {0};
    REAL *x = RESERVE(&room, REAL, p * KERNEL_POINTS), spread = 1;
    REAL norm[KERNEL_POINTS], unit[KERNEL_POINTS], found[KERNEL_POINTS], again[KERNEL_POINTS];
    for (int64_t i = 0; i < a->offset.shape[0]; i++) spread = R(fmax(spread, ((const REAL *)a->offset.data)[i]));
    for (int64_t start = 0; start < n && !room.failed; start += KERNEL_POINTS) {
        int64_t m = least(KERNEL_POINTS, n - start);
        for (int64_t b = 0; b < KERNEL_POINTS; b++) {
            const REAL *point = points + (start + least(b, m - 1)) * p;
            REAL square = 0;
            for (int64_t j = 0; j < p; j++) square += point[j] * point[j];
            unit[b] = R(1) / R(fmax(square / spread, 1));
            norm[b] = square * unit[b];
            for (int64_t j = 0; j < p; j++) x[j * KERNEL_POINTS + b] = point[j] * unit[b];
        }
        for (int64_t k = 0; k < K; k++) {
            for (int64_t b = 0; b < KERNEL_POINTS; b += 2 * LANES)
                sum_kernels(a, x + b, norm + b, unit + b, first[k], first[k + 1], found + b, again + b);
            for (int64_t b = 0; b < m; b++) {
                double three = (double)unit[b] * unit[b] * unit[b], far = three * three;
                sums[(start + b) * K + k] = found[b] * far;
                squares[(start + b) * K + k] = again[b] * far * far;
            }
        }
    }
    return release(&room);
}

#ifndef SINGLE

/* Points that go down a tree together: many at most of its nodes. */
enum { TREE_POINTS = 32768 };

typedef struct {
    Array points, node, threshold, roots, shares, out;
} TreeArguments;

/* Points order[start] to order[stop - 1] have come to a node. */
typedef struct {
    int64_t node;
    int32_t start, stop;
} Group;

/* Move those points of a group that go left to its front, and give their number. No branch is taken for a point. */
static int32_t divide(const float *restrict x, float threshold, int32_t *order, int32_t *restrict moved, int32_t n) {
    int32_t left = 0, right = 0, i = 0;
#ifdef __AVX512F__
    for (; i < n; i += 16) {
        __mmask16 here = (__mmask16)_bzhi_u32(0xffff, (unsigned)(n - i < 16 ? n - i : 16));
        __m512i number = _mm512_maskz_loadu_epi32(here, order + i);
        __m512 value = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), here, number, x, 4);
        __mmask16 goes_right = _mm512_mask_cmp_ps_mask(here, value, _mm512_set1_ps(threshold), _CMP_GT_OQ);
        __mmask16 goes_left = (__mmask16)(here & ~goes_right);
        unsigned l = (unsigned)__builtin_popcount(goes_left), r = (unsigned)__builtin_popcount(goes_right);
        __m512i ahead = _mm512_maskz_compress_epi32(goes_left, number);
        _mm512_mask_storeu_epi32(order + left, (__mmask16)_bzhi_u32(0xffff, l), ahead);
        _mm512_storeu_si512(moved + right, _mm512_maskz_compress_epi32(goes_right, number));
        left += (int32_t)l, right += (int32_t)r;
    }
#endif
    for (; i < n; i++) {
        int32_t b = order[i];
        int goes_right = x[b] > threshold;
        order[left] = b, moved[right] = b;
        left += !goes_right, right += goes_right;
    }
    memcpy(order + left, moved, (size_t)right * sizeof(*moved));
    return left;
}

/* Add what the leaves of one tree say to the sums of m points, whose features are columns of x. */
static void add_leaves(const TreeArguments *a, int64_t root, const float *x, int32_t m, int32_t *order,
                       int32_t *moved, Group *waiting, double *out) {
    const int64_t *node = a->node.data, K = a->out.shape[1];
    const float *threshold = a->threshold.data;
    for (int32_t b = 0; b < m; b++) order[b] = b;
    waiting[0] = (Group){root, 0, m};
    for (int64_t count = 1; count > 0;) {
        Group here = waiting[--count];
        int64_t child = node[here.node] >> 8;
        if (child == here.node) {
            const double *said = ROW(double, a->shares, child);
            for (int32_t i = here.start; i < here.stop; i++)
                for (int64_t k = 0; k < K; k++) out[order[i] * K + k] += said[k];
            continue;
        }
        const float *column = x + (node[here.node] & 255) * m;
        int32_t n = here.stop - here.start;
        int32_t middle = here.start + divide(column, threshold[here.node], order + here.start, moved, n);
        if (middle < here.stop) waiting[count++] = (Group){child + 1, middle, here.stop};
        if (middle > here.start) waiting[count++] = (Group){child, here.start, middle};
    }
}

/* Sums over the trees of what the leaf of each point says.

`node` holds 256 times the number of the left child, which the right one follows, plus the feature; a leaf is its own
left child. Tree by tree, in the order in which NumPy would add them; at each node the points of a block are divided,
so that what it says is read once. */
int EXPORT(sums_of_leaves)(const TreeArguments *a) {
    int64_t n = a->points.shape[0], p = a->points.shape[1], K = a->out.shape[1], size = least(TREE_POINTS, n);
    const float *points = a->points.data;
    double *out = a->out.data;
    Room room = {0};
    float *x = RESERVE(&room, float, size * p);
    int32_t *order = RESERVE(&room, int32_t, size), *moved = RESERVE(&room, int32_t, size + 16);
    Group *waiting = RESERVE(&room, Group, size + 1);
    memset(out, 0, (size_t)(n * K) * sizeof(double));
    for (int64_t begin = 0; begin < n && !room.failed; begin += TREE_POINTS) {
        int64_t m = least(TREE_POINTS, n - begin);
        for (int64_t b = 0; b < m; b++)
            for (int64_t j = 0; j < p; j++) x[j * m + b] = points[(begin + b) * p + j];
        for (int64_t tree = 0; tree < a->roots.shape[0]; tree++)
            add_leaves(a, ((const int64_t *)a->roots.data)[tree], x, (int32_t)m, order, moved, waiting,
                       out + begin * K);
    }
    return release(&room);
}

#endif
#endif
