// Members of the recommended classifier and what they say together, pixel by pixel, in single precision. Compiled for
// one pool: P features, K classes; `conclude` for M members, of which member m has VIEWS[m] views that begin at row
// FIRST[m], at most V, and E draws of the exponents. Rows of pixels: log joints are (view, class, pixel).
// models/pool.py and measurement/pool_prediction.py have the formulas; pool.h the same for a processor.

#define LEAST_LOG -12.0f
#define PIXELS \
    const long first = long(blockIdx.x) * blockDim.x + threadIdx.x, step = long(gridDim.x) * blockDim.x; \
    for (long i = first; i < n; i += step)

// Odds less the largest as probabilities; returns the logarithm of what they were divided by. Where no class is
// possible, all are alike.
template <typename T> __device__ inline T normalise(const T (&odds)[K], T (&p)[K], T &top) {
    T sum = 0;
    top = odds[0];
    for (int k = 1; k < K; k++) top = max(top, odds[k]);
    for (int k = 0; k < K; k++) sum += p[k] = exp(odds[k] - top);
    for (int k = 0; k < K; k++) p[k] /= sum;
    return log(sum);
}

// The most probable class, and the sum of the others: near 1 what is left keeps its digits.
template <typename T> __device__ inline int largest_of(const T (&p)[K], T &rest) {
    int best = 0;
    for (int k = 1; k < K; k++)
        if (p[k] > p[best]) best = k;
    rest = 0;
    for (int k = 0; k < K; k++) rest += k == best ? T(0) : p[k];
    return best;
}

template <typename T> __device__ inline T entropy_of(const T (&p)[K]) {
    const T least = sizeof(T) == 4 ? T(1e-37) : T(1e-300);
    T rest, total = 0;
    int best = largest_of(p, rest);
    for (int k = 0; k < K; k++) total -= k != best && p[k] > least ? p[k] * log(p[k]) : T(0);
    return total - (1 - rest) * log1p(-rest);
}

// 1 - sum p^2.
template <typename T> __device__ inline T spread_of(const T (&p)[K]) {
    T rest;
    int best = largest_of(p, rest);
    T total = rest * (2 - rest);
    for (int k = 0; k < K; k++) total -= k == best ? T(0) : p[k] * p[k];
    return total;
}

template <typename T> __device__ inline T below(T information, T entropy) {
    return entropy > 0 ? -entropy * expm1(-information / entropy) : T(0);
}

template <typename T> __device__ inline T share_of(T part, T whole) {
    return whole > 0 ? min(max(part / whole, T(0)), T(1)) : T(0);
}

__device__ inline double psi(double x) {
    double found = 0;
    for (; x < 10; x += 1) found -= 1 / x;
    double r = 1 / (x * x);
    return found + log(x) - 0.5 / x - r * (1 / 12.0 - r * (1 / 120.0 - r * (1 / 252.0 - r * (1 / 240.0 - r / 132.0))));
}

// How many of some sorted numbers are below x, or (with `right`) not above it.
__device__ inline int count_below(const float *sorted, int count, float x, bool right) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        bool goes_on = right ? sorted[middle] <= x : sorted[middle] < x;
        if (goes_on) low = middle + 1;
        else high = middle;
    }
    return low;
}

template <typename S, typename T> __device__ inline void load(const S *rows, long n, long i, T (&to)[K]) {
    for (int k = 0; k < K; k++) to[k] = rows[k * n + i];
}

__device__ inline void make_possible(double (&joint)[K]) {
    bool possible = false;
    for (int k = 0; k < K; k++) possible = possible || fabs(joint[k]) <= 3e38;
    for (int k = 0; k < K; k++) joint[k] = possible ? max(joint[k], -3e38) : 0.0;
}

// Values of all views (view, feature, pixel), of realisations (realisation, feature, pixel) or from one by
// coefficients (view, 3, feature); logarithms of what is above the floor, where there is one. With `mean` their mean.
extern "C" __global__ void points(const IN *planes, const long n, const int views, const double *coefficients,
                                  const int mean, const double *floors, float *out) {
    PIXELS
        for (int j = 0; j < P; j++) {
            double total = 0;
            for (int v = 0; v < views; v++) {
                double x = planes[(coefficients ? j : v * long(P) + j) * n + i];
                if (coefficients) {
                    const double *c = coefficients + v * 3 * P + j;
                    x -= c[0];
                    x /= c[P] + c[2 * P] * x;
                }
                total += x;
                if (!mean) out[(v * long(P) + j) * n + i] = floors ? log(max(x, floors[j])) : x;
            }
            total /= views;
            if (mean) out[j * n + i] = floors ? log(max(total, floors[j])) : total;
        }
}

// Points at some of the views, on a scale: (x - scale[0])*scale[1], by feature.
__device__ inline void scaled(const float *points, long n, long i, int view, const double *scale, float (&x)[P]) {
    for (int j = 0; j < P; j++)
        x[j] = float((double(points[(view * long(P) + j) * n + i]) - scale[j]) * scale[P + j]);
}

// Log sums of kernels (1 + |x - c|^2)^-6 of each class, and their relative variances. A centre is -2c, 1 + |c|^2 and
// its weight; `spread` the largest 1 + |c|^2; points far out are brought nearer, lest numbers underflow.
struct __align__(16) Four { float v[4]; };
#define FOURS ((P + 5) / 4)
__device__ inline float inverse(float x) {
#ifdef __CUDA_ARCH__
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#else
    return 1.0f / x;
#endif
}

extern "C" __global__ void __launch_bounds__(128)
    kernel_joints(const float *points, const long n, const int *views, const double *scale, const float *centres,
                  const int *begins, const float spread, const float lift, float *joint, float *variance) {
    __shared__ Four tile[CENTRES * FOURS];
    const int at = blockIdx.y;
    const Four *from = reinterpret_cast<const Four *>(centres);
    const long step = 2 * long(gridDim.x) * blockDim.x;
    for (long begin = 2 * long(blockIdx.x) * blockDim.x; begin < n; begin += step) {
        float x[2][P], norm[2], unit[2];
        for (int a = 0; a < 2; a++) {
            scaled(points, n, min(begin + a * long(blockDim.x) + threadIdx.x, n - 1), views[at], scale, x[a]);
            norm[a] = 0;
            for (int j = 0; j < P; j++) norm[a] += x[a][j] * x[a][j];
            unit[a] = 1 / max(norm[a] / spread, 1.0f);
            norm[a] *= unit[a];
            for (int j = 0; j < P; j++) x[a][j] *= unit[a];
        }
        for (int k = 0; k < K; k++) {
            float sum[2] = {}, squares[2] = {};
            for (int first = begins[k]; first < begins[k + 1]; first += CENTRES) {
                int here = min(CENTRES, begins[k + 1] - first);
                __syncthreads();
                for (int c = threadIdx.x; c < here * FOURS; c += blockDim.x) tile[c] = from[long(first) * FOURS + c];
                __syncthreads();
#pragma unroll 2
                for (int c = 0; c < here; c++) {
                    Four now = {};
                    float d[2] = {norm[0], norm[1]}, weight = 0;
#pragma unroll
                    for (int j = 0; j < P + 2; j++) {
                        if (j % 4 == 0) now = tile[c * FOURS + j / 4];
                        float number = now.v[j % 4];
#pragma unroll
                        for (int a = 0; a < 2; a++)
                            if (j <= P) d[a] += number * (j < P ? x[a][j < P ? j : 0] : unit[a]);
                        weight = number;
                    }
#pragma unroll
                    for (int a = 0; a < 2; a++) {
                        float r = inverse(max(d[a], unit[a])), two = r * r, kernel = weight * two * (two * two);
                        sum[a] += kernel;
                        squares[a] += kernel * kernel;
                    }
                }
            }
            for (int a = 0; a < 2; a++) {
                long i = begin + a * long(blockDim.x) + threadIdx.x;
                if (i >= n) continue;
                joint[(at * long(K) + k) * n + i] = logf(sum[a]) + 6 * logf(unit[a]) - lift;
                float ratio = sum[a] > 0 ? min(squares[a] / sum[a] / sum[a], 1.0f) : 1.0f;
                variance[(at * long(K) + k) * n + i] = ratio;
            }
        }
    }
}

// Log shares by trees. A node is 256 times its left child, which the right one follows, plus the feature, and the bits
// of the threshold; a leaf is its own child.
extern "C" __global__ void __launch_bounds__(128)
    tree_joints(const float *points, const long n, const int *views, const double *scale, const int *nodes,
                const int *roots, const int trees, const float *shares, float *joint) {
    __shared__ float values[P * 128];
    const int at = blockIdx.y;
    PIXELS {
        float x[P], total[K] = {};
        scaled(points, n, i, views[at], scale, x);
        for (int j = 0; j < P; j++) values[j * blockDim.x + threadIdx.x] = min(max(x[j], -3.4e38f), 3.4e38f);
        for (int tree = 0; tree < trees; tree++) {
            int node = roots[tree];
            for (;;) {
                int said = nodes[2 * node], child = said >> 8;
                if (child == node) break;
                float threshold = *reinterpret_cast<const float *>(nodes + 2 * node + 1);
                node = child + (values[(said & 255) * blockDim.x + threadIdx.x] > threshold);
            }
            for (int k = 0; k < K; k++) total[k] += shares[node * K + k];
        }
        for (int k = 0; k < K; k++) joint[(at * long(K) + k) * n + i] = logf(total[k] / trees);
    }
}

// Log odds by logistic regression: coefficients (class, feature + 1).
extern "C" __global__ void logistic_joints(const float *points, const long n, const int *views, const double *scale,
                                           const float *coefficients, float *joint) {
    const int at = blockIdx.y;
    PIXELS {
        float x[P];
        scaled(points, n, i, views[at], scale, x);
        for (int k = 0; k < K; k++) {
            const float *of_class = coefficients + k * (P + 1);
            float odds = of_class[P];
            for (int j = 0; j < P; j++) odds += of_class[j] * x[j];
            joint[(at * long(K) + k) * n + i] = odds;
        }
    }
}

// Log joints in all views from those at nodes: weights (view, node).
extern "C" __global__ void spread(const float *joint, const long n, const int nodes, const float *weights,
                                  const int views, float *out) {
    const int k = blockIdx.y;
    PIXELS
        for (int v = 0; v < views; v++) {
            float total = 0;
            for (int r = 0; r < nodes; r++)
                total += weights[v * nodes + r] * max(joint[(r * long(K) + k) * n + i], -1e30f);
            out[(v * long(K) + k) * n + i] = total;
        }
}

// Gate of the members that are heard near training samples: density over the lowest, at most 1, mean over views.
extern "C" __global__ void nearness(const float *joint, const long n, const int views, const float lowest, float *out) {
    PIXELS {
        float total = 0;
        for (int v = 0; v < views; v++) {
            float odds[K], P_[K], top;
            load(joint + v * long(K) * n, n, i, odds);
            float rest = normalise(odds, P_, top);
            total += top > -3e38f ? expf(min(top + rest - lowest, 0.0f)) : 0.0f;
        }
        out[i] = total / views;
    }
}

// Gate by resemblance: the share of training samples that are stranger, over `strange`, at most 1. `typical` are their
// log densities, `scores` those of each class from first[k] on, of so many views a sample; `bounds` of its shares.
extern "C" __global__ void resemblance(const float *joint, const long n, const int views, const float *typical,
                                       const int count, const float *scores, const int *begins, const float each,
                                       const float *bounds, const int *first_bound, const float strange, float *out) {
    PIXELS {
        float of_all = 0, of_class = 0;
        for (int v = 0; v < views; v++) {
            float odds[K], P_[K], top;
            load(joint + v * long(K) * n, n, i, odds);
            float rest = normalise(odds, P_, top);
            of_all += count_below(typical, count, top + rest, false);
        }
        of_all /= float(views) * count;
        for (int v = 0; v < views && of_all < strange; v++) {
            float odds[K], P_[K], top;
            load(joint + v * long(K) * n, n, i, odds);
            normalise(odds, P_, top);
            for (int k = 0; k < K; k++) {
                int size = begins[k + 1] - begins[k], last = first_bound[k + 1] - first_bound[k] - 1;
                float place = count_below(scores + begins[k], size, odds[k], false) / each;
                int left = min(int(place), last);
                const float *bound = bounds + first_bound[k] + left;
                float surely = left < last ? bound[0] + (place - left) * (bound[1] - bound[0]) : bound[0];
                of_class += P_[k] * surely;
            }
        }
        out[i] = min(max(of_all, of_class / views) / strange, 1.0f);
    }
}

// p-values by the ranks of `scores`, as above, of the sum of two members' log joints: the largest of the classes'
// means over views. Where no sample is stranger, that of the Gaussians counts: `tail` (pixel, class) of those that are
// `chosen`; without it 0 counts, and `flags` are those for which it would matter.
extern "C" __global__ void ranked(const float *one, const int one_views, const float *other, const int other_views,
                                  const long n, const long *chosen, const long count, const float *scores,
                                  const int *begins, const float each, const float *tail, float *out,
                                  unsigned char *flags) {
    const int views = max(one_views, other_views);
    for (long r = long(blockIdx.x) * blockDim.x + threadIdx.x; r < count; r += long(gridDim.x) * blockDim.x) {
        long i = chosen ? chosen[r] : r;
        float most = 0, at_most = 0;
        for (int k = 0; k < K; k++) {
            float total = 0, larger = 0, size = (begins[k + 1] - begins[k]) / each;
            for (int v = 0; v < views; v++) {
                float a = one[((one_views > 1 ? v : 0) * long(K) + k) * n + i];
                float b = other[((other_views > 1 ? v : 0) * long(K) + k) * n + i];
                float place = count_below(scores + begins[k], begins[k + 1] - begins[k], a + b, true) / each;
                float p_value = (place + 1) / (size + 1);
                larger += p_value;
                total += place > 0 ? p_value : tail ? min(p_value, tail[i * K + k]) : 0.0f;
            }
            most = max(most, total / views), at_most = max(at_most, larger / views);
        }
        out[i] = most;
        if (!tail) flags[i] = at_most > most;
    }
}

// Probabilities of a member at its temperature, means over views (class, pixel), and log probabilities in the place of
// its log joints. `share`: of the entropy, what knowing its parameters would take away; `kind` says how that is told.
#define GAUSSIAN 0
#define KERNELS 1
#define LOGISTIC 2
#define TREES 3
extern "C" __global__ void calibrate(float *joint, const long n, const int views, const float temperature,
                                     const float *log_shares, const int kind, const int informed, const int *which,
                                     const float *weights, const float *variance, const int *variance_at,
                                     const float samples, const float *points, const double *scale,
                                     const int *points_at, const double *covariances, double *probability, double *share) {
    PIXELS {
        double mean[K] = {}, plain[K] = {}, information = kind == GAUSSIAN ? share[i] : 0.0;
        for (int r = 0; r < informed && kind != GAUSSIAN; r++) {
            double odds[K], known[K], P_[K], top, found = 0;
            load(joint + which[r] * long(K) * n, n, i, odds);
            make_possible(odds);
            normalise(odds, known, top);
            for (int k = 0; k < K; k++) odds[k] = (odds[k] + (temperature - 1) * log_shares[k]) / temperature;
            normalise(odds, P_, top);
            double total = entropy_of(P_), rest;
            const int best = largest_of(P_, rest);
            if (kind == KERNELS) {
                const float *of_view = variance + variance_at[r] * long(K) * n;
                for (int k = 0; k < K; k++)
                    found += of_view[k * n + i] * P_[k] * (k == best ? rest : 1 - P_[k]);
                found = below(0.5 * found / (temperature * temperature), total);
                found = max(found, total - entropy_of(known));
            } else if (kind == TREES) {
                double s = samples * min(temperature, 1.0f) * min(temperature, 1.0f), left = psi(s + 1);
                for (int k = 0; k < K; k++) left -= P_[k] * psi(s * P_[k] + 1);
                found = max(total - left, 0.0);
            } else {
                double x[P + 1], along = 0;
                for (int j = 0; j < P; j++)
                    x[j] = (double(points[(points_at[r] * long(P) + j) * n + i]) - scale[j]) * scale[P + j];
                x[P] = 1;
                for (int k = 0; k < K; k++)
                    for (int l = 0; l <= k; l++) {
                        const double *A = covariances + (k * K + l) * (P + 1) * (P + 1);
                        double covariance = 0;
                        for (int a = 0; a <= P; a++) {
                            double row = 0;
                            for (int b = 0; b <= P; b++) row += A[a * (P + 1) + b] * x[b];
                            covariance += x[a] * row;
                        }
                        along += covariance * (k == l ? P_[k] * (1 - P_[k]) : -2 * P_[k] * P_[l]);
                    }
                found = along;
                found = below(0.5 * found / (temperature * temperature), total);
            }
            information += weights[r] * found;
        }
        for (int v = 0; v < views; v++) {
            double odds[K], P_[K], top;
            float *own = joint + v * long(K) * n;
            load(own, n, i, odds);
            make_possible(odds);
            if (kind == GAUSSIAN) {
                normalise(odds, P_, top);
                for (int k = 0; k < K; k++) plain[k] += P_[k] / views;
            }
            for (int k = 0; k < K; k++) odds[k] = (odds[k] + (temperature - 1) * log_shares[k]) / temperature;
            double rest = normalise(odds, P_, top);
            for (int k = 0; k < K; k++) {
                mean[k] += P_[k] / views;
                own[k * n + i] = odds[k] - top - rest;
            }
        }
        for (int k = 0; k < K; k++) probability[k * n + i] = mean[k];
        share[i] = share_of(information, entropy_of(kind == GAUSSIAN ? plain : mean));
    }
}

#ifdef M
__device__ constexpr int members_views[M] = VIEWS, members_first[M] = FIRST;

// Answers by the draws of the exponents from log probabilities times gates: means, and what is shifted to other class
// shares with the mean entropy of that.
__device__ inline void answer(const float (&heard)[M][K], const float (&gate)[M], const float *exponents,
                              const float *log_shares, const float *shift, float (&mean)[K], float (&moved)[K],
                              float &inner) {
    inner = 0;
    for (int k = 0; k < K; k++) mean[k] = moved[k] = 0;
    for (int e = 0; e < E; e++) {
        float local = 0, whole = 0, odds[K] = {}, P_[K], top;
        for (int m = 0; m < M; m++) {
            float b = exponents[e * M + m];
            whole += b, local += b * gate[m];
            for (int k = 0; k < K; k++) odds[k] += b * heard[m][k];
        }
        for (int k = 0; k < K; k++) odds[k] = odds[k] * (whole / local) + (1 - whole) * log_shares[k];
        normalise(odds, P_, top);
        for (int k = 0; k < K; k++) mean[k] += P_[k] / E;
        if (shift) {
            for (int k = 0; k < K; k++) odds[k] += shift[k];
            normalise(odds, P_, top);
        }
        for (int k = 0; k < K; k++) moved[k] += P_[k] / E;
        inner += entropy_of(P_) / E;
    }
}

template <typename T> __device__ inline void move_by(const float *shift, T (&P_)[K]) {
    T odds[K], top;
    if (!shift) return;
    for (int k = 0; k < K; k++) odds[k] = log(max(P_[k], sizeof(T) == 4 ? T(1e-37) : T(1e-300))) + shift[k];
    normalise(odds, P_, top);
}

// All layers: probability (class, pixel), then total, measurement, model, overlap, margin and disagreement; the most
// probable class in each view (view, pixel). `logs` and `probability` are those of the members, `gates` and `shares`
// (member, pixel), a gate with a place of its own in `gates` or 1 (-1), times `trust`.
extern "C" __global__ void conclude(const float *logs, const double *probability, const float *gates, const int *gate_at,
                                    const float *trust, const double *shares, const long n, const float *exponents,
                                    const float *log_shares, const float *shift, const int worlds, float *out,
                                    unsigned char *best) {
    PIXELS {
        float gate[M], heard[M][K], b[M], mean[K], moved[K], inner, whole = 0, local = 0;
        for (int m = 0; m < M; m++) {
            gate[m] = (gate_at[m] < 0 ? 1.0f : gates[gate_at[m] * n + i]) * trust[m];
            b[m] = 0;
            for (int e = 0; e < E; e++) b[m] += exponents[e * M + m] / E;
            whole += b[m], local += b[m] * gate[m];
            for (int k = 0; k < K; k++)
                heard[m][k] = gate[m] * max(logf(max(float(probability[(m * K + k) * n + i]), 1e-37f)), LEAST_LOG);
        }
        answer(heard, gate, exponents, log_shares, shift, mean, moved, inner);
        float about = max(entropy_of(moved) - inner, 0.0f), measured = 0;
        move_by(shift, mean);
        float left;
        int first = largest_of(mean, left), others = 0;
        float total = entropy_of(mean), second = 0;
        for (int k = 0; k < K; k++) {
            out[k * n + i] = mean[k];
            if (k != first) second = max(second, mean[k]);
        }
        if (V > 1) {
            float of_views[K] = {}, each = 0;
            for (int v = 0; v < V; v++) {
                float odds[K], P_[K], seen[M][K], top, unused;
                bool alike = shift == nullptr;
                int said = -1;
                for (int k = 0; k < K; k++) odds[k] = (1 - whole) * log_shares[k] + (shift ? shift[k] : 0.0f);
                for (int m = 0; m < M; m++) {
                    float row[K], rest, power = local > 0 ? b[m] * gate[m] * whole / local : 0.0f;
                    int view = members_views[m] > 1 ? v : 0;
                    load(logs + (members_first[m] + view) * long(K) * n, n, i, row);
                    int own = largest_of(row, rest);
                    alike = alike && (m == 0 || own == said);
                    said = own;
                    for (int k = 0; k < K; k++) {
                        row[k] = max(row[k], LEAST_LOG);
                        odds[k] += power * row[k], seen[m][k] = gate[m] * row[k];
                    }
                }
                normalise(odds, P_, top);
                for (int k = 0; k < K; k++) of_views[k] += P_[k] / V;
                each += entropy_of(P_) / V;
                if (worlds > 1) {
                    if (!alike) {
                        answer(seen, gate, exponents, log_shares, shift, P_, odds, unused);
                        move_by(shift, P_);
                        said = largest_of(P_, unused);
                    }
                    best[v * n + i] = said, others += said != first;
                }
            }
            measured = share_of(entropy_of(of_views) - each, entropy_of(of_views));
        }
        if (worlds == 1) best[i] = first;
        float own[M], weight[M], sum = 0, errors = 0;
        for (int m = 0; m < M; m++) {
            double P_[K];
            load(probability + m * long(K) * n, n, i, P_);
            move_by(shift, P_);
            own[m] = entropy_of(P_) * shares[m * n + i] / max(spread_of(P_), 1e-300);
            sum += weight[m] = b[m] * gate[m];
        }
        for (int m = 0; m < M; m++)
            for (int l = 0; l < M; l++) errors += weight[m] * weight[l] * min(own[m], own[l]);
        errors *= whole * whole / (sum * sum);
        float known = share_of(about + below(spread_of(mean) * errors, total), total);
        measured = min(measured, 1 - known);
        float rows[6] = {total, total * measured, total * known, total * (1 - known - measured), mean[first] - second,
                         others / float(worlds)};
        for (int row = 0; row < 6; row++) out[(K + row) * n + i] = rows[row];
    }
}
#endif
