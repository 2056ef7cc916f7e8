// All layers of a map from one pass over pixels that lie on the device: for each pixel all realisations are
// made, classified and added up in registers. Compiled for one problem: P features, K components of C classes
// (OWNERS: the class of each component, in ascending order), SHARPNESS one over the temperature where a class
// has several components, COMMON whether all classes have one covariance, REAL numbers, IN the type of the input,
// PX pixels a thread. class_densities.py has the formulas.
//
// The record of a component: for each row i of the whitening matrix -shift[i], W[i][0] … W[i][i]; then the
// constants in the order of the enumeration; then the coefficients of the tail; then, with COMMON, the squared
// distances of its mean from all means. Padded to fours.

#define TRIANGLE (P * (P + 1) / 2 + P)
#define TERMS (P % 2 ? 1 : P / 2)
enum { LOG_WEIGHT, SLOPE, INVERSE_DOF, HALF_DOF, CONSTANT, GROWTH, PULL, FIXED, GROWING, CONSTANTS };
#define RECORD ((TRIANGLE + CONSTANTS + TERMS + (COMMON ? K : 0) + 3) / 4 * 4)
#define LARGEST REAL(1e15)

#if SINGLE
struct __align__(16) Four { float v[4]; };
__device__ inline float inverse(float x) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r * (2.0f - x * r);  // one step of Newton: exact to rounding
}
__device__ inline float exponential(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x * 1.4426950408889634f));
    return r;
}
__device__ inline float log_one_plus(float u) {
    // artanh below 1, where the relative error counts; the logarithm itself above.
    float s = u * inverse(u + 2.0f), s2 = s * s;
    float y = 2.0f / 15;
    y = fmaf(y, s2, 2.0f / 13);
    y = fmaf(y, s2, 2.0f / 11);
    y = fmaf(y, s2, 2.0f / 9);
    y = fmaf(y, s2, 2.0f / 7);
    y = fmaf(y, s2, 2.0f / 5);
    y = fmaf(y, s2, 2.0f / 3);
    y = fmaf(y, s2, 2.0f);
    return u < 1.0f ? s * y : __log2f(1.0f + u) * 0.6931471805599453f;
}
#else
struct __align__(16) Four { double v[4]; };
__device__ inline double inverse(double x) { return 1.0 / x; }
__device__ inline double exponential(double x) { return exp(x); }
__device__ inline double log_one_plus(double u) { return log1p(u); }
#endif

// Squared distance of PX pixels to one component.
__device__ inline void distance(const REAL *stream, const REAL (&x)[PX][P], REAL (&q)[PX]) {
    const Four *fours = reinterpret_cast<const Four *>(stream);
    Four now;
    int t = 0;
#pragma unroll
    for (int i = 0; i < P; i++) {
        REAL z[PX];
#pragma unroll
        for (int j = -1; j <= i; j++) {
            if (t % 4 == 0) now = fours[t / 4];
            REAL w = now.v[t % 4];
            t++;
#pragma unroll
            for (int a = 0; a < PX; a++) z[a] = j < 0 ? w : z[a] + w * x[a][j < 0 ? 0 : j];
        }
#pragma unroll
        for (int a = 0; a < PX; a++) q[a] = i == 0 ? z[a] * z[a] : q[a] + z[a] * z[a];
    }
}

struct Totals {
    REAL probability[C], typicality[K], inner, model;
    int votes[C];
};

// Log odds of the classes from log joints of their components, and the share of each component in its class.
__device__ inline void log_odds_of_classes(const REAL (&joint)[K], REAL (&odds)[C], REAL (&share)[K]) {
#if C == K
#pragma unroll
    for (int k = 0; k < K; k++) odds[k] = joint[k], share[k] = 1;
#else
    constexpr int owner[K] = OWNERS;
    REAL top[C], sum[C];
#pragma unroll
    for (int k = 0; k < K; k++) {
        bool first = k == 0 || owner[k] != owner[k > 0 ? k - 1 : 0];
        top[owner[k]] = first ? joint[k] : max(top[owner[k]], joint[k]);
        if (first) sum[owner[k]] = 0;
    }
#pragma unroll
    for (int k = 0; k < K; k++) sum[owner[k]] += share[k] = exponential(joint[k] - top[owner[k]]);
#pragma unroll
    for (int k = 0; k < K; k++) share[k] *= inverse(sum[owner[k]]);
#pragma unroll
    for (int c = 0; c < C; c++) odds[c] = (top[c] + log_one_plus(sum[c] - 1)) * REAL(SHARPNESS);
#endif
}

#if COMMON
// Twice the second-order information of classes that have one covariance, from pairs of them.
__device__ inline REAL information_of_pairs(const REAL *world, const REAL (&q)[K], const REAL (&e)[C]) {
    REAL total = 0;
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int l = 0; l < k; l++) {
            const REAL *a = world + k * RECORD + TRIANGLE, *b = world + l * RECORD + TRIANGLE;
            REAL uk = q[k] * a[INVERSE_DOF], ul = q[l] * b[INVERSE_DOF];
            REAL sk = uk * inverse(a[PULL]), sl = ul * inverse(b[PULL]), apart = a[CONSTANTS + TERMS + l];
            REAL gram = max(REAL(0.5) * apart * (sk + sl) -
                            REAL(0.25) * (apart * apart + (sk - sl) * (sk - sl)), REAL(0));
            REAL moved = (sl + a[PULL] * (gram - uk)) * inverse(1 + uk) +
                         (sk + b[PULL] * (gram - ul)) * inverse(1 + ul);
            total += e[k] * e[l] * (REAL(0.5) * a[GROWTH] * moved + a[CONSTANT] + b[CONSTANT]);
        }
    return total;
}
#endif

// Add the scores of one world for one pixel, whose most probable class in it is `best`; returns a bound of what
// single precision does to its probabilities.
__device__ inline REAL add(const REAL *world, const REAL (&q)[K], Totals &total, const float *table,
                           const float *table_scale, int steps, int &best) {
    constexpr int owner[K] = OWNERS;
    REAL joint[K], share[K], v[K], t[C], e[C], top, sum = 0, error = 0, inner = 0, information = 0;
#pragma unroll
    for (int k = 0; k < K; k++) {
        const REAL *c = world + k * RECORD + TRIANGLE;
        v[k] = log_one_plus(q[k] * c[INVERSE_DOF]);
        joint[k] = c[LOG_WEIGHT] - c[SLOPE] * v[k];
    }
    log_odds_of_classes(joint, t, share);
    best = 0;
#pragma unroll
    for (int c = 0; c < C; c++)
        if (c == 0 || t[c] > top) {
            top = t[c];
            best = c;
        }
#pragma unroll
    for (int c = 0; c < C; c++) {
        t[c] -= top;
        e[c] = exponential(t[c]);
        sum += e[c];
    }
    REAL part = inverse(sum);
#pragma unroll
    for (int c = 0; c < C; c++) {
        e[c] *= part;
        inner -= e[c] * t[c];
        total.probability[c] += e[c];
        total.votes[c] += c == best;
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        const REAL *c = world + k * RECORD + TRIANGLE;
        REAL r = share[k] * REAL(SHARPNESS), both = e[owner[k]] * (1 - e[owner[k]]);
        error += both * r * (c[FIXED] + c[GROWING] * q[k]);
#if !COMMON
        REAL u = q[k] * c[INVERSE_DOF];
        information += both * r * r * (c[CONSTANT] + c[GROWTH] * v[k] - c[PULL] * (u * inverse(1 + u)));
#endif
#if P % 2
        REAL place = min(sqrt(v[k]) * table_scale[k], REAL(steps - 2));
        int left = int(place);
        REAL before = table[k * steps + left];
        total.typicality[k] += before + (place - left) * (table[k * steps + left + 1] - before);
#else
        REAL w = min(-c[HALF_DOF] * expm1(-v[k]), REAL(88)), value = c[CONSTANTS + TERMS - 1];
#pragma unroll
        for (int j = TERMS - 2; j >= 0; j--) value = value * w + c[CONSTANTS + j];
        total.typicality[k] += exponential(-c[HALF_DOF] * v[k]) * value;
#endif
    }
#if COMMON
    information = information_of_pairs(world, q, e);
#endif
    inner += log_one_plus(sum - 1);
    total.inner += inner;
    REAL h = max(inner, REAL(1e-30));
    total.model += h * (1 - exponential(-REAL(0.5) * information * inverse(h)));
    return error;
}

// Probabilities and the budget of one pixel: C + 7 rows of numbers.
__device__ inline void conclude(const Totals &total, int worlds, float *out, long n, long at) {
    REAL share = REAL(1) / worlds, entropy = 0, first = -1, second = -1, typicality = 0;
    int best = 0;
#pragma unroll
    for (int k = 0; k < K; k++) typicality = max(typicality, total.typicality[k] * share);
#pragma unroll
    for (int c = 0; c < C; c++) {
        REAL p = total.probability[c] * share;
        out[c * n + at] = p;
        if (p > 0) entropy += p * log_one_plus(inverse(p) - 1);
        if (p > first) {
            second = first;
            first = p;
            best = c;
        } else if (p > second) {
            second = p;
        }
    }
    int agree = 0;
#pragma unroll
    for (int c = 0; c < C; c++) agree = c == best ? total.votes[c] : agree;
    REAL measurement = max(entropy - total.inner * share, REAL(0));
    REAL model = min(total.model * share, max(entropy - measurement, REAL(0)));
    REAL rows[7] = {entropy, measurement, model, max(entropy - measurement - model, REAL(0)), first - second,
                    typicality, 1 - agree * share};
#pragma unroll
    for (int row = 0; row < 7; row++) out[(C + row) * n + at] = rows[row];
}

// chosen: which pixels, or null for all n of them. The records and coefficients of `held` worlds at a time are
// in shared memory. planes: (feature, pixel), or with `realisations`, the number of each world's realisation,
// (realisation, feature, pixel). best: (world, pixel), the most probable class in each world, or null.
extern "C" __global__ void __launch_bounds__(128)
    summarise(const IN *planes, const long n, const long *chosen, const long count, const REAL *features,
              const REAL *coefficients, const int *realisations, const REAL *records, const int worlds,
              const int held, const float *table, const float *table_scale, const int steps, float *out,
              unsigned char *best, unsigned char *inexact) {
    extern __shared__ __align__(16) unsigned char memory[];
    REAL *shared = reinterpret_cast<REAL *>(memory), *corrections = shared + held * K * RECORD;
    const REAL *scale = features, *offset = features + P, *centre = features + 2 * P, *rest = features + 3 * P;
    const long step = long(gridDim.x) * blockDim.x * PX;
    const bool corrected = coefficients != nullptr;
    bool loaded = false;
    for (long first = long(blockIdx.x) * blockDim.x * PX; first < count; first += step) {
        REAL raw[PX][P];
        Totals totals[PX] = {};
        REAL error[PX] = {};
        long at[PX];
#pragma unroll
        for (int a = 0; a < PX; a++) {
            long i = min(first + a * blockDim.x + threadIdx.x, count - 1);
            at[a] = chosen ? chosen[i] : i;
            if (!realisations)
#pragma unroll
                for (int j = 0; j < P; j++) raw[a][j] = REAL(planes[j * n + at[a]]) * scale[j] + offset[j];
        }
        for (int begin = 0; begin < worlds; begin += held) {
            int here = min(held, worlds - begin);
            if (held < worlds || !loaded) {
                __syncthreads();
                for (int i = threadIdx.x; i < here * K * RECORD; i += blockDim.x)
                    shared[i] = records[long(begin) * K * RECORD + i];
                if (corrected)
                    for (int i = threadIdx.x; i < here * 3 * P; i += blockDim.x)
                        corrections[i] = coefficients[long(begin) * 3 * P + i];
                __syncthreads();
                loaded = true;
            }
            for (int r = 0; r < here; r++) {
                const REAL *world = shared + r * K * RECORD, *c = corrections + r * 3 * P;
                REAL x[PX][P], q[PX][K];
                if (realisations) {
                    const IN *own = planes + long(realisations[begin + r]) * P * n;
#pragma unroll
                    for (int a = 0; a < PX; a++)
#pragma unroll
                        for (int j = 0; j < P; j++) raw[a][j] = REAL(own[j * n + at[a]]) * scale[j] + offset[j];
                }
#pragma unroll
                for (int j = 0; j < P; j++)
#pragma unroll
                    for (int a = 0; a < PX; a++) {
                        REAL y = raw[a][j];
                        if (corrected) {
                            y -= c[j];
                            y *= inverse(c[P + j] + c[2 * P + j] * y);
                        }
                        x[a][j] = (y - centre[j]) - rest[j];
                    }
#pragma unroll
                for (int k = 0; k < K; k++) {
                    REAL far[PX];
                    distance(world + k * RECORD, x, far);
#pragma unroll
                    for (int a = 0; a < PX; a++) q[a][k] = min(far[a], LARGEST);
                }
#pragma unroll
                for (int a = 0; a < PX; a++) {
                    int chosen_class;
                    error[a] += add(world, q[a], totals[a], table + long(begin + r) * K * steps,
                                    table_scale + (begin + r) * K, steps, chosen_class);
                    if (best) best[long(begin + r) * n + at[a]] = chosen_class;
                }
            }
        }
#pragma unroll
        for (int a = 0; a < PX; a++)
            if (first + a * blockDim.x + threadIdx.x < count) {
                conclude(totals[a], worlds, out, n, at[a]);
                if (inexact) inexact[at[a]] = !(error[a] < REAL(TOLERANCE) * worlds);
            }
    }
}
