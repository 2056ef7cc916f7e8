// What is said of pixels or samples that lie on the device, in one pass over their realisations: all layers of a map
// (with ALL), or probabilities alone; and p-values of all classes. For each pixel all realisations are made,
// classified and added up in registers. Compiled for one problem: P features, K components of C classes (OWNERS: the
// class of each component, in ascending order), SHARPNESS one over the temperature where a class has several
// components, COMMON whether all classes have one covariance, APART whether p-values are read from other densities,
// REAL numbers, IN the type of the input, PX pixels a thread, ADJACENT whether the features of a pixel lie together,
// NODES worlds from which the others follow. class_densities.py has the formulas.
//
// The record of a component: the constants in the order of the enumeration; with COMMON, the squared distances of its
// mean from all means; then for each row i of the whitening matrix -shift[i], W[i][0] ... W[i][i]. That of its
// p-values: the constants, the coefficients of the tail, and the rows. Each part is padded to fours, and a record to an
// odd number of them: records of several classes, read at once, then lie in different banks of the shared memory.

#define FOURS(count) (((count) + 3) / 4 * 4)
#define ODD(count) ((count) + ((count) / 4 % 2 ? 0 : 4))
#define TRIANGLE (P * (P + 1) / 2 + P)
#define TERMS (P % 2 ? 0 : P / 2)
enum { LOG_WEIGHT, SLOPE, INVERSE_DOF, CONSTANT, GROWTH, PULL, FIXED, GROWING, CONSTANTS };
enum { TAIL_INVERSE_DOF, TAIL_HALF_DOF, TAIL };
#define ROWS FOURS(CONSTANTS + (COMMON ? K : 0))
#define RECORD ODD(ROWS + FOURS(TRIANGLE))
#define TAIL_ROWS FOURS(TAIL + TERMS)
#define TAIL_RECORD ODD(TAIL_ROWS + FOURS(TRIANGLE))
#define TAIL_SHARED (APART ? TAIL_RECORD : ODD(TAIL_ROWS)) // of it, what a map needs
#define LARGEST REAL(1e15)

#if SINGLE
struct __align__(16) Four { float v[4]; };
__device__ inline float inverse(float x) {
#ifdef __CUDA_ARCH__
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); // within one unit of the last place
    return r;
#else
    return 1.0f / x;
#endif
}
__device__ inline float power_of_two(float x) {
#ifdef __CUDA_ARCH__
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#else
    return exp2f(x);
#endif
}
__device__ inline float log_two(float x) { // of 1 or more
#ifdef __CUDA_ARCH__
    float r;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#else
    return log2f(x);
#endif
}
// Logarithms of probabilities are in bits, of which PER_NAT make a nat.
#define PER_NAT 1.4426950408889634f
__device__ inline float power(float x) { return power_of_two(x); }
__device__ inline float log_of_power(float x) { return log_two(x); }
__device__ inline float exponential(float x) { return power_of_two(x * PER_NAT); }
__device__ inline float logarithm(float x) { return log_two(x) * (1 / PER_NAT); }
__device__ inline float log_one_plus(float u) {
    // artanh below 1, where the relative error counts, by the polynomial of least error; the logarithm above.
    float s = u * inverse(u + 2.0f), s2 = s * s, y = 0.26867553f;
    y = fmaf(y, s2, 0.28233955f);
    y = fmaf(y, s2, 0.40007671f);
    y = fmaf(y, s2, 0.66666640f);
    y = fmaf(y, s2, 2.0f);
    return u < 1.0f ? s * y : logarithm(1.0f + u);
}
#else
struct __align__(16) Four { double v[4]; };
__device__ inline double inverse(double x) { return 1.0 / x; }
#define PER_NAT 1.0
__device__ inline double power(double x) { return exp(x); }
__device__ inline double log_of_power(double x) { return log(x); }
__device__ inline double exponential(double x) { return exp(x); }
__device__ inline double logarithm(double x) { return log(x); }
__device__ inline double log_one_plus(double u) { return log1p(u); }
#endif

// Squared distance of N pixels to one component.
template <int N> __device__ inline void distance(const REAL *stream, const REAL (&x)[N][P], REAL (&q)[N]) {
    const Four *fours = reinterpret_cast<const Four *>(stream);
    Four now;
    int t = 0;
#pragma unroll
    for (int i = 0; i < P; i++) {
        REAL z[N];
#pragma unroll
        for (int j = -1; j <= i; j++) {
            if (t % 4 == 0) now = fours[t / 4];
            REAL w = now.v[t % 4];
            t++;
#pragma unroll
            for (int a = 0; a < N; a++) z[a] = j < 0 ? w : z[a] + w * x[a][j < 0 ? 0 : j];
        }
#pragma unroll
        for (int a = 0; a < N; a++) q[a] = i == 0 ? z[a] * z[a] : q[a] + z[a] * z[a];
    }
#pragma unroll
    for (int a = 0; a < N; a++) q[a] = min(q[a], LARGEST);
}

// p-value of a squared distance to one component: a polynomial times an exponential, or a table over the root of v.
__device__ inline REAL p_value(REAL q, const REAL *tail, const float *table, const float *table_scale, int steps) {
    REAL u = q * tail[TAIL_INVERSE_DOF], v = log_one_plus(u);
#if P % 2
    REAL place = min(sqrt(v) * *table_scale, REAL(steps - 2));
    int left = int(place);
    REAL before = table[left];
    return before + (place - left) * (table[left + 1] - before);
#else
    REAL w = min(tail[TAIL_HALF_DOF] * u * inverse(1 + u), REAL(88)), value = tail[TAIL + TERMS - 1];
#pragma unroll
    for (int j = TERMS - 2; j >= 0; j--) value = value * w + tail[TAIL + j];
    return exponential(-tail[TAIL_HALF_DOF] * v) * value;
#endif
}

struct Totals {
    REAL probability[C];
#if ALL
    REAL inner, model, typicality, nearest[K]; // the first two over PER_NAT are in nats
    int component; // of which the p-value is read
#endif
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
            const REAL *a = world + k * RECORD, *b = world + l * RECORD;
            REAL uk = q[k] * a[INVERSE_DOF], ul = q[l] * b[INVERSE_DOF];
            REAL sk = uk * inverse(a[PULL]), sl = ul * inverse(b[PULL]), apart = a[CONSTANTS + l];
            REAL gram = max(REAL(0.5) * apart * (sk + sl) -
                            REAL(0.25) * (apart * apart + (sk - sl) * (sk - sl)), REAL(0));
            REAL moved = (sl + a[PULL] * (gram - uk)) * inverse(1 + uk) +
                         (sk + b[PULL] * (gram - ul)) * inverse(1 + ul);
            total += e[k] * e[l] * (REAL(0.5) * a[GROWTH] * moved + a[CONSTANT] + b[CONSTANT]);
        }
    return total;
}
#endif

// What squared distances q to the components say in one world: log joints in the units that `add` takes, variances of
// their logarithms, and bounds of what single precision does to them.
#define UNIT (C == K ? REAL(PER_NAT) : REAL(1))
struct Scores {
    const REAL *world;
    const REAL (&q)[K];
    REAL u[K], v[K];
    __device__ inline Scores(const REAL *world, const REAL (&q)[K]) : world(world), q(q) {
#pragma unroll
        for (int k = 0; k < K; k++) {
            u[k] = q[k] * world[k * RECORD + INVERSE_DOF];
            v[k] = log_one_plus(u[k]);
        }
    }
    __device__ inline REAL joint(int k) const {
        const REAL *c = world + k * RECORD;
        return (c[LOG_WEIGHT] - c[SLOPE] * v[k]) * UNIT;
    }
    __device__ inline REAL bound(int k) const {
        return world[k * RECORD + FIXED] + world[k * RECORD + GROWING] * q[k];
    }
    __device__ inline REAL variance(int k) const {
        const REAL *c = world + k * RECORD;
        return c[CONSTANT] + c[GROWTH] * v[k] - c[PULL] * (u[k] * inverse(1 + u[k]));
    }
};

// Add the scores of one world for one pixel, whose most probable class in it is `best`; returns a bound of the error
// of its probabilities.
template <typename S> __device__ inline REAL add(const S &scores, Totals &total, int &best) {
    constexpr int owner[K] = OWNERS;
    REAL joint[K], share[K], t[C], e[C], top = 0, sum = 0, error = 0;
#pragma unroll
    for (int k = 0; k < K; k++) joint[k] = scores.joint(k);
    log_odds_of_classes(joint, t, share);
    best = 0;
#pragma unroll
    for (int c = 0; c < C; c++) {
        if (C != K) t[c] *= REAL(PER_NAT);
        if (c == 0 || t[c] > top) {
            top = t[c];
            best = c;
        }
    }
#pragma unroll
    for (int c = 0; c < C; c++) {
        t[c] -= top;
        e[c] = power(t[c]);
        sum += e[c];
    }
    REAL part = inverse(sum);
#pragma unroll
    for (int c = 0; c < C; c++) {
        e[c] *= part;
        total.probability[c] += e[c];
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        REAL r = share[k] * REAL(SHARPNESS), both = (e[owner[k]] - e[owner[k]] * e[owner[k]]) * r;
        error += both * scores.bound(k);
    }
#if ALL
    REAL inner = log_of_power(sum), information = 0;
#pragma unroll
    for (int c = 0; c < C; c++) inner -= e[c] * t[c];
#if COMMON
    information = information_of_pairs(scores.world, scores.q, e);
#else
#pragma unroll
    for (int k = 0; k < K; k++) {
        REAL r = share[k] * REAL(SHARPNESS), both = (e[owner[k]] - e[owner[k]] * e[owner[k]]) * r;
        information += both * r * scores.variance(k);
    }
#endif
    total.inner += inner;
    REAL h = max(inner, REAL(SINGLE ? 1e-30 : 1e-300));
    total.model += h * (1 - power(information * REAL(-0.5 * PER_NAT * PER_NAT) * inverse(h)));
#endif
    return error;
}

#if ALL
// The nearest component of a pixel, whose p-value is read.
__device__ inline int nearest_of(const REAL (&q)[K]) {
    REAL least = q[0];
    int found = 0;
#pragma unroll
    for (int k = 1; k < K; k++)
        if (q[k] < least) {
            least = q[k];
            found = k;
        }
    return found;
}

// p-value for component k of a pixel x at squared distances q, by the tails and the rows of tables of a world.
__device__ inline REAL p_value_of(int k, const REAL (&x)[P], const REAL (&q)[K], const REAL *tails, long row,
                                  const float *table, const float *table_scale, int steps) {
    const REAL *tail = tails + k * TAIL_SHARED;
    REAL far[1];
#if APART
    REAL one[1][P];
#pragma unroll
    for (int j = 0; j < P; j++) one[0][j] = x[j];
    distance<1>(tail + TAIL_ROWS, one, far);
#else
    far[0] = q[0];
#pragma unroll
    for (int l = 1; l < K; l++) far[0] = k == l ? q[l] : far[0];
#endif
    return p_value(far[0], tail, table + (row + k) * steps, table_scale + row + k, steps);
}

// Whether another component may have a larger p-value. Its densities are near those of the log joints: by the root of
// the least ratio of their squared lengths, bounds[0], and the distance of their means, bounds[1].
__device__ inline bool other_may_be_nearer(const Totals &total, REAL typicality, const REAL *bounds, const REAL *tails,
                                           const float *table, const float *table_scale, int steps) {
    bool found = false;
#pragma unroll
    for (int k = 0; k < K; k++) {
        REAL root = max(bounds[2 * k] * sqrt(total.nearest[k]) - bounds[2 * k + 1], REAL(0));
        REAL most = p_value(root * root, tails + k * TAIL_RECORD, table + k * steps, table_scale + k, steps);
        found = found || (k != total.component && most > typicality + REAL(1e-5));
    }
    return found;
}

// Probabilities and the budget of one pixel, whose classes in each world are `best`: C + 7 rows of numbers.
__device__ inline void conclude(const Totals &total, int worlds, const unsigned char *best_of_worlds, float *out,
                                long n, long at) {
    REAL share = REAL(1) / worlds, entropy = 0, first = -1, second = -1;
    int best = 0, agree = 0;
#pragma unroll
    for (int c = 0; c < C; c++) {
        REAL p = total.probability[c] * share;
        out[c * n + at] = p;
        if (p > REAL(1e-30)) entropy += p * log_one_plus(inverse(p) - 1);
        if (p > first) {
            second = first;
            first = p;
            best = c;
        } else if (p > second) {
            second = p;
        }
    }
#pragma unroll 8
    for (int r = 0; r < worlds; r++) agree += best_of_worlds[r * n + at] == best;
    REAL measurement = max(entropy - total.inner * (share / REAL(PER_NAT)), REAL(0));
    REAL model = min(total.model * (share / REAL(PER_NAT)), max(entropy - measurement, REAL(0)));
    REAL rows[7] = {entropy, measurement, model, max(entropy - measurement - model, REAL(0)), first - second,
                    total.typicality * share, 1 - agree * share};
#pragma unroll
    for (int row = 0; row < 7; row++) out[(C + row) * n + at] = rows[row];
}
#endif

// The pixels as they lie on the device, and how they become values: value j of pixel i in realisation r is
// numbers[i*of_pixel + j*of_feature + r*of_realisation]*scale[j] + offset[j].
struct Source {
    const IN *numbers;
    long of_pixel, of_feature, of_realisation;
    const REAL *features;     // (3, feature): scale, offset, centre
    const REAL *coefficients; // (world, 3, feature), or null: values are corrected in each world
    const int *realisations;  // (world,), or null: there is one
};

#define SOURCE \
    const IN *numbers, const long of_pixel, const long of_feature, const long of_realisation, const REAL *features, \
        const REAL *coefficients, const int *realisations
#define MAKE_SOURCE {numbers, of_pixel, of_feature, of_realisation, features, coefficients, realisations}

__device__ inline void read(const Source &from, long at, long r, REAL (&raw)[P]) {
    const IN *own = from.numbers + at * from.of_pixel + r * from.of_realisation;
#pragma unroll
    for (int j = 0; j < P; j++)
        raw[j] = REAL(own[ADJACENT ? j : j * from.of_feature]) * from.features[j] + from.features[P + j];
}

// Values of a world less the centre; `c` corrects them, or is null.
__device__ inline void correct(const REAL (&raw)[P], const REAL *c, const REAL *centre, REAL (&x)[P]) {
#pragma unroll
    for (int j = 0; j < P; j++) {
        if (c) {
            REAL y = raw[j] - c[j];
            x[j] = y * inverse(c[P + j] + c[2 * P + j] * y) - centre[j];
        } else {
            x[j] = raw[j] - centre[j];
        }
    }
}

// Copy what the worlds from `begin` on need to shared memory: so many numbers of each record.
__device__ inline void copy(const REAL *from, long begin, int here, int stride, int kept, REAL *to) {
    for (int i = threadIdx.x; i < here * kept; i += blockDim.x)
        to[i] = from[(begin + i / kept) * stride + i % kept];
}

// chosen: which pixels, or null for all n of them; count: how many. `held` worlds at a time are in shared memory.
// bounds: (component, 2). out: (class + 7, pixel), or with `samples` probabilities (pixel, class). best: (world, pixel),
// the most probable class in each world. flags: 1 where single precision does not suffice, 2 where the typicality may
// be that of another component.
extern "C" __global__ void __launch_bounds__(THREADS)
    summarise(SOURCE, const long n, const long *chosen, const long count, const REAL *records,
              const REAL *tails, const int worlds, const int held, const float *table, const float *table_scale,
              const int steps, const REAL *bounds, float *out, REAL *samples, unsigned char *best,
              unsigned char *flags, const int looks_again) {
    extern __shared__ __align__(16) unsigned char memory[];
    const Source source = MAKE_SOURCE;
    REAL *shared = reinterpret_cast<REAL *>(memory);
    REAL *shared_tails = shared + held * K * RECORD, *corrections = shared_tails + (ALL ? held * K * TAIL_SHARED : 0);
    const long step = long(gridDim.x) * blockDim.x * PX;
    const bool corrected = source.coefficients != nullptr;
    REAL centre[P];
#pragma unroll
    for (int j = 0; j < P; j++) centre[j] = source.features[2 * P + j];
    bool loaded = false;
    for (long first = long(blockIdx.x) * blockDim.x * PX; first < count; first += step) {
        REAL raw[PX][P];
        Totals totals[PX] = {};
        REAL error[PX] = {};
        long at[PX];
#pragma unroll
        for (int a = 0; a < PX; a++) {
            long i = min(first + a * long(blockDim.x) + threadIdx.x, count - 1);
            at[a] = chosen ? chosen[i] : i;
            if (!source.realisations) read(source, at[a], 0, raw[a]);
#if ALL
#pragma unroll
            for (int k = 0; k < K; k++) totals[a].nearest[k] = LARGEST;
#endif
        }
        for (int begin = 0; begin < worlds; begin += held) {
            int here = min(held, worlds - begin);
            if (held < worlds || !loaded) {
                __syncthreads();
                copy(records, begin, here, K * RECORD, K * RECORD, shared);
#if ALL
                copy(tails, long(begin) * K, here * K, TAIL_RECORD, TAIL_SHARED, shared_tails);
#endif
                if (corrected) copy(source.coefficients, begin, here, 3 * P, 3 * P, corrections);
                __syncthreads();
                loaded = true;
            }
            for (int r = 0; r < here; r++) {
                const REAL *world = shared + r * K * RECORD, *c = corrected ? corrections + r * 3 * P : nullptr;
                REAL x[PX][P], q[PX][K];
#pragma unroll
                for (int a = 0; a < PX; a++) {
                    if (source.realisations) read(source, at[a], source.realisations[begin + r], raw[a]);
                    correct(raw[a], c, centre, x[a]);
                }
#pragma unroll
                for (int k = 0; k < K; k++) {
                    REAL far[PX];
                    distance<PX>(world + k * RECORD + ROWS, x, far);
#pragma unroll
                    for (int a = 0; a < PX; a++) q[a][k] = far[a];
                }
#pragma unroll
                for (int a = 0; a < PX; a++) {
                    int chosen_class;
                    error[a] += add(Scores(world, q[a]), totals[a], chosen_class);
#if ALL
#pragma unroll
                    for (int l = 0; l < K; l++) totals[a].nearest[l] = min(totals[a].nearest[l], q[a][l]);
                    best[long(begin + r) * n + at[a]] = chosen_class;
                    if (begin + r == 0) totals[a].component = nearest_of(q[a]);
                    totals[a].typicality +=
                        p_value_of(totals[a].component, x[a], q[a], shared_tails + r * K * TAIL_SHARED,
                                   long(begin + r) * K, table, table_scale, steps);
#endif
                }
            }
        }
#pragma unroll
        for (int a = 0; a < PX; a++)
            if (first + a * long(blockDim.x) + threadIdx.x < count) {
                int flag = looks_again && !(error[a] < REAL(TOLERANCE) * worlds) ? 1 : 0;
#if ALL
                conclude(totals[a], worlds, best, out, n, at[a]);
                if (other_may_be_nearer(totals[a], totals[a].typicality / worlds, bounds, tails, table, table_scale,
                                        steps))
                    flag |= 2;
#else
#pragma unroll
                for (int c = 0; c < C; c++) samples[at[a] * C + c] = totals[a].probability[c] / worlds;
#endif
                flags[at[a]] = flag;
            }
    }
}

#if NODES
// As `summarise`, where one smooth effect makes the worlds of corrected pixels. Records and corrections are those of
// NODES worlds, from which log joints and their variances in all worlds follow by `weights`, (world + 1, node), whose
// last row is their sum; and of the world `check`, where what follows is compared: elsewhere it may be off SAFETY times
// as far. Roundings grow by `growth`.
#define WEIGHTS FOURS(NODES)
#define SAFETY REAL(8)
#define PLACE(a, s, k) (((a * (NODES + 1) + s) * K + k) * blockDim.x + threadIdx.x)
struct Followed {
    REAL joints[K], variances[K];
    const REAL (&bounds)[K];
    __device__ inline REAL joint(int k) const { return joints[k]; }
    __device__ inline REAL bound(int k) const { return bounds[k]; }
    __device__ inline REAL variance(int k) const { return variances[k]; }
};

__device__ inline void weigh(const REAL *weights, const REAL (&nodes)[NODES][K], REAL (&found)[K]) {
    REAL w[WEIGHTS];
#pragma unroll
    for (int s = 0; s < WEIGHTS; s += 4) {
        Four four = *reinterpret_cast<const Four *>(weights + s);
#pragma unroll
        for (int i = 0; i < 4; i++) w[s + i] = four.v[i];
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        found[k] = w[0] * nodes[0][k];
#pragma unroll
        for (int s = 1; s < NODES; s++) found[k] += w[s] * nodes[s][k];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    interpolate(SOURCE, const long n, const REAL *records, const REAL *tails, const REAL *weights, const int worlds,
                const int check, const REAL growth, const float *table, const float *table_scale, const int steps,
                const REAL *bounds, float *out, unsigned char *best, unsigned char *flags) {
    extern __shared__ __align__(16) unsigned char memory[];
    const Source source = MAKE_SOURCE;
    REAL *of_worlds = reinterpret_cast<REAL *>(memory), *shared = of_worlds + (worlds + 1) * WEIGHTS;
    REAL *shared_tails = shared + (NODES + 1) * K * RECORD, *corrections = shared_tails + NODES * K * TAIL_SHARED;
    REAL *joints = corrections + FOURS((NODES + 1) * 3 * P), *variances = joints + PX * (NODES + 1) * K * blockDim.x;
    copy(weights, 0, worlds + 1, WEIGHTS, WEIGHTS, of_worlds);
    copy(records, 0, NODES + 1, K * RECORD, K * RECORD, shared);
    copy(tails, 0, NODES * K, TAIL_RECORD, TAIL_SHARED, shared_tails);
    copy(source.coefficients, 0, NODES + 1, 3 * P, 3 * P, corrections);
    __syncthreads();
    const REAL *sum = of_worlds + worlds * WEIGHTS;
    const long step = long(gridDim.x) * blockDim.x * PX;
    REAL centre[P];
#pragma unroll
    for (int j = 0; j < P; j++) centre[j] = source.features[2 * P + j];
    for (long first = long(blockIdx.x) * blockDim.x * PX; first < n; first += step) {
        REAL bound[PX][K] = {}, error[PX] = {};
        Totals totals[PX] = {};
        long at[PX];
        {
            REAL raw[PX][P], furthest[PX][K] = {};
#pragma unroll
            for (int a = 0; a < PX; a++) {
                at[a] = min(first + a * long(blockDim.x) + threadIdx.x, n - 1);
                read(source, at[a], 0, raw[a]);
#pragma unroll
                for (int k = 0; k < K; k++) totals[a].nearest[k] = LARGEST;
            }
#pragma unroll 1
            for (int s = 0; s <= NODES; s++) {
                const REAL *world = shared + s * K * RECORD;
                REAL x[PX][P], q[PX][K];
#pragma unroll
                for (int a = 0; a < PX; a++) correct(raw[a], corrections + s * 3 * P, centre, x[a]);
#pragma unroll
                for (int k = 0; k < K; k++) {
                    REAL far[PX];
                    distance<PX>(world + k * RECORD + ROWS, x, far);
#pragma unroll
                    for (int a = 0; a < PX; a++) q[a][k] = far[a];
                }
#pragma unroll
                for (int a = 0; a < PX; a++) {
                    Scores scores(world, q[a]);
#pragma unroll
                    for (int k = 0; k < K; k++) {
                        joints[PLACE(a, s, k)] = scores.joint(k);
                        variances[PLACE(a, s, k)] = scores.variance(k);
                        bound[a][k] = max(bound[a][k], scores.bound(k));
                        totals[a].nearest[k] = min(totals[a].nearest[k], q[a][k]);
                        furthest[a][k] = max(furthest[a][k], q[a][k]);
                    }
                    if (s == 0) totals[a].component = nearest_of(q[a]);
                    if (s < NODES)
                        totals[a].typicality +=
                            sum[s] * p_value_of(totals[a].component, x[a], q[a], shared_tails + s * K * TAIL_SHARED,
                                                long(s) * K, table, table_scale, steps);
                }
            }
            // Between nodes a distance may be less than at any of them.
#pragma unroll
            for (int a = 0; a < PX; a++)
#pragma unroll
                for (int k = 0; k < K; k++) {
                    REAL least = totals[a].nearest[k];
                    totals[a].nearest[k] = max(least - (furthest[a][k] - least) * REAL(0.125), REAL(0));
                }
        }
        REAL joint[PX][NODES][K], variance[PX][NODES][K];
#pragma unroll
        for (int a = 0; a < PX; a++) {
            REAL found[K], wrong = 0, top = 0;
#pragma unroll
            for (int s = 0; s < NODES; s++)
#pragma unroll
                for (int k = 0; k < K; k++) {
                    joint[a][s][k] = joints[PLACE(a, s, k)];
                    variance[a][s][k] = variances[PLACE(a, s, k)];
                }
            weigh(of_worlds + check * WEIGHTS, joint[a], found);
#pragma unroll
            for (int k = 0; k < K; k++) {
                REAL exact = joints[PLACE(a, NODES, k)];
                found[k] -= exact;
                if (k == 0 || exact > top) top = exact, wrong = found[k];
            }
            // An error that all log joints share changes nothing.
#pragma unroll
            for (int k = 0; k < K; k++)
                bound[a][k] = growth * bound[a][k] + SAFETY * fabs(found[k] - wrong) / UNIT;
        }
        for (int r = 0; r < worlds; r++)
#pragma unroll
            for (int a = 0; a < PX; a++) {
                int chosen_class;
                Followed followed = {{}, {}, bound[a]};
                weigh(of_worlds + r * WEIGHTS, joint[a], followed.joints);
                weigh(of_worlds + r * WEIGHTS, variance[a], followed.variances);
                error[a] += add(followed, totals[a], chosen_class);
                best[long(r) * n + at[a]] = chosen_class;
            }
#pragma unroll
        for (int a = 0; a < PX; a++)
            if (first + a * long(blockDim.x) + threadIdx.x < n) {
                int flag = !(error[a] < REAL(TOLERANCE) * worlds) ? 1 : 0;
                conclude(totals[a], worlds, best, out, n, at[a]);
                if (other_may_be_nearer(totals[a], totals[a].typicality / worlds, bounds, tails, table, table_scale,
                                        steps))
                    flag |= 2;
                flags[at[a]] = flag;
            }
    }
}
#endif

// p-values of the classes, means over worlds: to `out` (pixel, class), or the largest to `largest` (pixel,).
extern "C" __global__ void __launch_bounds__(THREADS)
    typicality(SOURCE, const long *chosen, const long count, const REAL *tails, const int worlds,
               const int held, const float *table, const float *table_scale, const int steps, REAL *out,
               float *largest) {
    extern __shared__ __align__(16) unsigned char memory[];
    const Source source = MAKE_SOURCE;
    REAL *shared = reinterpret_cast<REAL *>(memory), *corrections = shared + held * K * TAIL_RECORD;
    constexpr int owner[K] = OWNERS;
    const bool corrected = source.coefficients != nullptr;
    const long step = long(gridDim.x) * blockDim.x;
    REAL centre[P];
#pragma unroll
    for (int j = 0; j < P; j++) centre[j] = source.features[2 * P + j];
    for (long first = long(blockIdx.x) * blockDim.x; first < count; first += step) {
        long i = min(first + threadIdx.x, count - 1), at = chosen ? chosen[i] : i;
        REAL raw[P], x[1][P], total[K] = {}, found[C] = {}, most = 0;
        if (!source.realisations) read(source, at, 0, raw);
        for (int begin = 0; begin < worlds; begin += held) {
            int here = min(held, worlds - begin);
            __syncthreads();
            copy(tails, long(begin) * K, here * K, TAIL_RECORD, TAIL_RECORD, shared);
            if (corrected) copy(source.coefficients, begin, here, 3 * P, 3 * P, corrections);
            __syncthreads();
            for (int r = 0; r < here; r++) {
                if (source.realisations) read(source, at, source.realisations[begin + r], raw);
                correct(raw, corrected ? corrections + r * 3 * P : nullptr, centre, x[0]);
#pragma unroll
                for (int k = 0; k < K; k++) {
                    const REAL *tail = shared + (r * K + k) * TAIL_RECORD;
                    long row = long(begin + r) * K + k;
                    REAL far[1];
                    distance<1>(tail + TAIL_ROWS, x, far);
                    total[k] += p_value(far[0], tail, table + row * steps, table_scale + row, steps);
                }
            }
        }
        if (first + threadIdx.x >= count) continue;
#pragma unroll
        for (int k = 0; k < K; k++) found[owner[k]] = max(found[owner[k]], total[k] / worlds);
#pragma unroll
        for (int c = 0; c < C; c++) {
            if (out) out[at * C + c] = found[c];
            most = max(most, found[c]);
        }
        if (largest) largest[at] = most;
    }
}

#if ALL
// Log joints of the classes in each world, (world, class, pixel), whose records lack lifts[w]; and the model part of
// the budget, by how much the worlds count in it: (pixel,).
extern "C" __global__ void __launch_bounds__(THREADS)
    log_joints(SOURCE, const long count, const REAL *records, const int worlds, const int held, const REAL *lifts,
               const REAL *counts, float *out, double *part) {
    extern __shared__ __align__(16) unsigned char memory[];
    const Source source = MAKE_SOURCE;
    REAL *shared = reinterpret_cast<REAL *>(memory);
    const long step = long(gridDim.x) * blockDim.x;
    REAL centre[P];
#pragma unroll
    for (int j = 0; j < P; j++) centre[j] = source.features[2 * P + j];
    for (long first = long(blockIdx.x) * blockDim.x; first < count; first += step) {
        long at = min(first + threadIdx.x, count - 1);
        REAL raw[P], x[1][P], model = 0;
        for (int begin = 0; begin < worlds; begin += held) {
            int here = min(held, worlds - begin);
            __syncthreads();
            copy(records, begin, here, K * RECORD, K * RECORD, shared);
            __syncthreads();
            for (int r = 0; r < here; r++) {
                const REAL *world = shared + r * K * RECORD;
                REAL q[K], joint[K], odds[C], share[K];
                read(source, at, source.realisations ? source.realisations[begin + r] : 0, raw);
                correct(raw, nullptr, centre, x[0]);
#pragma unroll
                for (int k = 0; k < K; k++) {
                    REAL far[1];
                    distance<1>(world + k * RECORD + ROWS, x, far);
                    q[k] = far[0];
                    joint[k] = world[k * RECORD + LOG_WEIGHT] -
                               world[k * RECORD + SLOPE] * log_one_plus(q[k] * world[k * RECORD + INVERSE_DOF]);
                }
                log_odds_of_classes(joint, odds, share);
                if (counts[begin + r] != 0) {
                    Totals one = {};
                    int best;
                    add(Scores(world, q), one, best);
                    model += counts[begin + r] * one.model / REAL(PER_NAT);
                }
                if (first + threadIdx.x < count)
#pragma unroll
                    for (int c = 0; c < C; c++)
                        out[(long(begin + r) * C + c) * count + at] = odds[c] + lifts[begin + r];
            }
        }
        if (first + threadIdx.x < count) part[at] = model;
    }
}
#endif

// Log odds of the classes of one pixel by one draw of their components: log weight, and the rows of the whitening.
#define DRAW_ROWS 4
#define DRAW_RECORD ODD(DRAW_ROWS + FOURS(TRIANGLE))
__device__ inline void odds_of_draw(const REAL *draw, const REAL (&x)[1][P], REAL (&odds)[C]) {
    REAL joint[K], share[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
        REAL far[1];
        distance<1>(draw + k * DRAW_RECORD + DRAW_ROWS, x, far);
        joint[k] = draw[k * DRAW_RECORD] - REAL(0.5) * far[0];
    }
    log_odds_of_classes(joint, odds, share);
#if C == K
#pragma unroll
    for (int k = 0; k < K; k++) odds[k] *= REAL(SHARPNESS);
#endif
}

// Entropy of the class, given what drawn models say of a pixel whose class probabilities are known: (pixel,). The
// draws count by what they say of the pixel in each class; `held` of them at a time are in shared memory.
extern "C" __global__ void __launch_bounds__(THREADS)
    given_draws(SOURCE, const long count, const REAL *records, const int draws, const int held,
                const REAL *probability, REAL *out) {
    extern __shared__ __align__(16) unsigned char memory[];
    const Source source = MAKE_SOURCE;
    REAL *shared = reinterpret_cast<REAL *>(memory);
    const long step = long(gridDim.x) * blockDim.x;
    REAL centre[P];
#pragma unroll
    for (int j = 0; j < P; j++) centre[j] = source.features[2 * P + j];
    for (long first = long(blockIdx.x) * blockDim.x; first < count; first += step) {
        long at = min(first + threadIdx.x, count - 1);
        REAL raw[P], x[1][P], odds[C], top[C], sum[C], entropy = 0;
        read(source, at, 0, raw);
        correct(raw, nullptr, centre, x[0]);
#pragma unroll
        for (int c = 0; c < C; c++) top[c] = -REAL(1e30), sum[c] = 0;
        for (int again = 0; again < 2; again++)
            for (int begin = 0; begin < draws; begin += held) {
                int here = min(held, draws - begin);
                __syncthreads();
                copy(records, begin, here, K * DRAW_RECORD, K * DRAW_RECORD, shared);
                __syncthreads();
                for (int d = 0; d < here; d++) {
                    odds_of_draw(shared + d * K * DRAW_RECORD, x, odds);
                    REAL total = 0;
#pragma unroll
                    for (int c = 0; c < C; c++) {
                        if (!again) {
                            REAL most = max(top[c], odds[c]);
                            sum[c] = sum[c] * exponential(top[c] - most) + exponential(odds[c] - most);
                            top[c] = most;
                        } else {
                            REAL part = probability[at * C + c] * exponential(odds[c] - top[c]) / sum[c];
                            if (part > REAL(1e-300)) entropy -= part * logarithm(part);
                            total += part;
                        }
                    }
                    if (total > REAL(1e-300)) entropy += total * logarithm(total);
                }
            }
        if (first + threadIdx.x < count) out[at] = entropy;
    }
}
