/* Answers of the recommended classifier: calibrated members, and their geometric means by draws of the exponents. */

#ifndef POOL_H
#define POOL_H

#include "vectors.h"

#ifndef SINGLE

/* Points whose answers are computed together, and rows of classes that are calibrated together. */
enum { ANSWERED = 64, ROWS = 64 };
/* Lowest log odds, and the lowest log probability that a member may state. */
#define LOWEST_ODDS -700.0
#define RULED_OUT -12.0

typedef struct {
    Array points, location, whitening;
    int64_t start, stop;
    Array out;
} DistanceArguments;

/* Squared lengths of W z of some vectors of columns z at a time: each number of W is used for all of them. */
enum { ACROSS = 4 };
INLINE void add_squares(const double *whitening, const double *z, int64_t p, double *q) {
    V sum[ACROSS] = {full(0)};
    for (int64_t i = 0; i < p; i++) {
        V along[ACROSS] = {full(0)};
        for (int64_t j = 0; j <= i; j++)
            for (int h = 0; h < ACROSS; h++)
                along[h] = madd(full(whitening[i * p + j]), load(z + j * ANSWERED + h * LANES), along[h]);
        for (int h = 0; h < ACROSS; h++) sum[h] = madd(along[h], along[h], sum[h]);
    }
    for (int h = 0; h < ACROSS; h++) store(q + h * LANES, sum[h]);
}

/* Squared distances |W(x - m)|^2 of some points (point, feature) to Gaussian classes: (class, point). */
int EXPORT(squared_distances)(const DistanceArguments *a) {
    int64_t p = a->points.shape[1], K = a->location.shape[0];
    Room room = {0};
    double *x = RESERVE(&room, double, p * ANSWERED), *z = RESERVE(&room, double, p * ANSWERED), q[ANSWERED];
    for (int64_t start = a->start; start < a->stop && !room.failed; start += ANSWERED) {
        int64_t count = least(ANSWERED, a->stop - start);
        for (int64_t b = 0; b < ANSWERED; b++)
            for (int64_t j = 0; j < p; j++) x[j * ANSWERED + b] = ROW(double, a->points, start + least(b, count - 1))[j];
        for (int64_t k = 0; k < K; k++) {
            const double *location = ROW(double, a->location, k);
            for (int64_t b = 0; b < p * ANSWERED; b += LANES) store(z + b, load(x + b) - location[b / ANSWERED]);
            for (int64_t c = 0; c < ANSWERED; c += ACROSS * LANES)
                add_squares(ROW(double, a->whitening, k), z + c, p, q + c);
            memcpy(ROW(double, a->out, k) + start, q, (size_t)count * sizeof(double));
        }
    }
    return release(&room);
}

typedef struct {
    Array joint;
    double sharpness;
    Array offset, probability, logs, best;
} ViewArguments;

/* Log odds t of rows less the largest of each, and the first class of the largest. Where no class is possible, all
   are alike but for the offset. */
static void find_log_odds(const double *joint, const double *offset, int64_t rows, int64_t K, double sharpness,
                          double *t, uint8_t *best) {
    for (int64_t r = 0; r < rows; r++, joint += K, t += K) {
        int64_t first = 0;
        double highest = joint[0];
        for (int64_t k = 1; k < K; k++) highest = fmax(highest, joint[k]);
        int possible = fabs(highest) <= 1.7976931348623157e308;
        for (int64_t k = 0; k < K; k++) t[k] = (possible ? joint[k] : 0.0) + offset[k];
        for (int64_t k = 1; k < K; k++)
            if (t[k] > t[first]) first = k;
        double top = t[first];
        for (int64_t k = 0; k < K; k++) t[k] = fmax(sharpness * (t[k] - top), LOWEST_ODDS);
        best[r] = (uint8_t)first;
    }
}

/* Probabilities of log joints (point, view, class) plus an offset, over a temperature: means over views (point, class).

`logs` are the logarithms of the probabilities of each view, `best` (point, view) its most probable class. */
int EXPORT(temper)(const ViewArguments *a) {
    int64_t views = a->joint.shape[1], K = a->joint.shape[2], rows = a->joint.shape[0] * views;
    int64_t size = round_up(ROWS * K, 8);
    const double *joint = a->joint.data;
    double *probability = a->probability.data, *logs = a->logs.data;
    Room room = {0};
    double *t = RESERVE(&room, double, size), *e = RESERVE(&room, double, size);
    double *total = RESERVE(&room, double, ROWS), *whole = RESERVE(&room, double, ROWS);
    memset(probability, 0, (size_t)(a->joint.shape[0] * K) * sizeof(double));
    for (int64_t start = 0; start < rows && !room.failed; start += ROWS) {
        int64_t m = least(ROWS, rows - start);
        find_log_odds(joint + start * K, a->offset.data, m, K, a->sharpness, t, (uint8_t *)a->best.data + start);
        for (int64_t b = 0; b < m * K; b += LANES) store(e + b, exponential(load(t + b)));
        for (int64_t r = 0; r < m; r++) {
            double *out = probability + (start + r) / views * K, sum = 0.0;
            for (int64_t k = 0; k < K; k++) sum += e[r * K + k];
            for (int64_t k = 0; k < K; k++) out[k] += e[r * K + k] / sum;
            total[r] = sum - 1.0;
        }
        for (int64_t r = 0; r < m; r += LANES) store(whole + r, log_one_plus(load(total + r)));
        for (int64_t r = 0; r < m; r++)
            for (int64_t k = 0; k < K; k++) logs[(start + r) * K + k] = t[r * K + k] - whole[r];
    }
    for (int64_t i = 0; views > 1 && i < a->joint.shape[0] * K; i++) probability[i] /= (double)views;
    return release(&room);
}

typedef struct {
    Array probability, gate, exponents, log_shares, mean, inner;
} AnswerArguments;

/* Answers by one draw of the exponents, and their entropies, added to their sums. */
static void add_answer(const AnswerArguments *a, const double *b, const double *heard, const double *gate, double *e,
                       double *mean, double *inner) {
    int64_t M = a->gate.shape[0], K = a->log_shares.shape[0];
    const double *log_shares = a->log_shares.data;
    double whole = 0.0;
    for (int64_t m = 0; m < M; m++) whole += b[m];
    for (int64_t c = 0; c < ANSWERED; c += LANES) {
        V local = full(0), top = full(-INFINITY), sum = full(0), along = full(0);
        for (int64_t m = 0; m < M; m++) local = madd(full(b[m]), load(gate + m * ANSWERED + c), local);
        V power = whole / local;
        for (int64_t k = 0; k < K; k++) {
            V odds = full(0);
            for (int64_t m = 0; m < M; m++) odds = madd(full(b[m]), load(heard + (m * K + k) * ANSWERED + c), odds);
            odds = madd(odds, power, full((1.0 - whole) * log_shares[k]));
            store(e + k * ANSWERED + c, odds), top = larger(odds, top);
        }
        for (int64_t k = 0; k < K; k++) {
            V odds = load(e + k * ANSWERED + c) - top, one = exponential(odds);
            store(e + k * ANSWERED + c, one);
            sum += one, along = madd(one, odds, along);
        }
        for (int64_t k = 0; k < K; k++)
            store(mean + k * ANSWERED + c, load(mean + k * ANSWERED + c) + load(e + k * ANSWERED + c) / sum);
        V surprise = logarithm(sum) - along / sum;
        store(inner + c, load(inner + c) + larger(surprise, full(0)));
    }
}

/* Geometric means of the members' probabilities (member, class, point) with powers b*gate, the means over draws of b.

`exponents` (draw, member) are b; powers are those of P over the class shares, and add up to what they do without
gates (member, point). `inner` (point,) are mean entropies of the draws' answers. */
int EXPORT(pool_answers)(const AnswerArguments *a) {
    int64_t M = a->probability.shape[0], K = a->probability.shape[1], n = a->probability.shape[2];
    int64_t draws = a->exponents.shape[0];
    Room room = {0};
    double *heard = RESERVE(&room, double, M * K * ANSWERED), *gate = RESERVE(&room, double, M * ANSWERED);
    double *e = RESERVE(&room, double, K * ANSWERED), *mean = RESERVE(&room, double, K * ANSWERED);
    double *inner = RESERVE(&room, double, ANSWERED);
    if (room.failed) return release(&room);
    for (int64_t start = 0; start < n; start += ANSWERED) {
        int64_t count = least(ANSWERED, n - start);
        for (int64_t m = 0; m < M; m++)
            for (int64_t b = 0; b < ANSWERED; b++) {
                int64_t i = start + least(b, count - 1);
                gate[m * ANSWERED + b] = ROW(double, a->gate, m)[i];
                for (int64_t k = 0; k < K; k++) heard[(m * K + k) * ANSWERED + b] = AT(double, a->probability, m, k)[i];
            }
        for (int64_t m = 0; m < M; m++)
            for (int64_t b = 0; b < K * ANSWERED; b += LANES) {
                double *at = heard + m * K * ANSWERED + b;
                V stated = larger(load(at), full(exp(RULED_OUT)));
                store(at, logarithm(stated) * load(gate + m * ANSWERED + b % ANSWERED));
            }
        memset(mean, 0, (size_t)(K * ANSWERED) * sizeof(double)), memset(inner, 0, ANSWERED * sizeof(double));
        for (int64_t d = 0; d < draws; d++)
            add_answer(a, ROW(double, a->exponents, d), heard, gate, e, mean, inner);
        for (int64_t b = 0; b < count; b++) {
            ((double *)a->inner.data)[start + b] = inner[b] / (double)draws;
            for (int64_t k = 0; k < K; k++)
                ROW(double, a->mean, start + b)[k] = mean[k * ANSWERED + b] / (double)draws;
        }
    }
    return release(&room);
}

typedef struct {
    Array logs, power, base, mean, inner;
} PooledViews;

/* Answers in each view, of log probabilities (member, point, view, class) with powers (member, point) and a base
   (class,): their means over views (point, class), and means of their entropies. */
int EXPORT(pool_views)(const PooledViews *a) {
    int64_t M = a->logs.shape[0], n = a->logs.shape[1], views = a->logs.shape[2], K = a->logs.shape[3];
    int64_t size = round_up(views * K, 8);
    const double *base = a->base.data;
    Room room = {0};
    double *t = RESERVE(&room, double, size), *e = RESERVE(&room, double, size);
    double *total = RESERVE(&room, double, round_up(views, 8)), *along = RESERVE(&room, double, views);
    for (int64_t i = 0; i < n && !room.failed; i++) {
        double *mean = ROW(double, a->mean, i), inner = 0.0;
        memset(mean, 0, (size_t)K * sizeof(double));
        for (int64_t b = 0; b < views * K; b++) t[b] = base[b % K];
        for (int64_t m = 0; m < M; m++) {
            double power = ROW(double, a->power, m)[i];
            const double *logs = AT(double, a->logs, m, i);
            for (int64_t b = 0; b < views * K && power != 0.0; b++) t[b] += power * fmax(logs[b], RULED_OUT);
        }
        for (int64_t r = 0; r < views; r++) {
            double top = t[r * K];
            for (int64_t k = 1; k < K; k++) top = fmax(top, t[r * K + k]);
            for (int64_t k = 0; k < K; k++) t[r * K + k] -= top;
        }
        for (int64_t b = 0; b < size; b += LANES) store(e + b, exponential(load(t + b)));
        for (int64_t r = 0; r < views; r++) {
            double sum = 0.0, each = 0.0;
            for (int64_t k = 0; k < K; k++) sum += e[r * K + k], each += e[r * K + k] * t[r * K + k];
            for (int64_t k = 0; k < K; k++) mean[k] += e[r * K + k] / sum;
            total[r] = sum - 1.0, along[r] = each / sum;
        }
        for (int64_t r = 0; r < views; r += LANES) store(total + r, log_one_plus(load(total + r)));
        for (int64_t r = 0; r < views; r++) inner += fmax(total[r] - along[r], 0.0);
        for (int64_t k = 0; k < K; k++) mean[k] /= (double)views;
        ((double *)a->inner.data)[i] = inner / (double)views;
    }
    return release(&room);
}

#endif
#endif
