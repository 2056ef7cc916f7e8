/* Vectors of the width that the processor has, and functions of them: exponential and logarithm as series.

A vector holds one point in each lane. */

#ifndef VECTORS_H
#define VECTORS_H

#include "common.h"

#if defined(__AVX512F__)
#define WIDTH 64
#define PREFIX _mm512
#elif defined(__AVX2__)
#define WIDTH 32
#define PREFIX _mm256
#else
#define WIDTH 16
#define PREFIX _mm
#endif
#define LANES ((int64_t)(WIDTH / sizeof(REAL)))

typedef REAL V __attribute__((vector_size(WIDTH)));
typedef REAL InMemory __attribute__((vector_size(WIDTH), aligned(sizeof(REAL)), may_alias));
#ifdef SINGLE
typedef uint32_t U __attribute__((vector_size(WIDTH)));
#else
typedef uint64_t U __attribute__((vector_size(WIDTH)));
#endif

INLINE V load(const REAL *from) { return *(const InMemory *)from; }
INLINE void store(REAL *to, V value) { *(InMemory *)to = value; }
INLINE V full(REAL number) { return (V){0} + number; }
/* Lanes of one value where the mask is set, of another elsewhere. */
INLINE V choose(U mask, V then, V otherwise) { return (V)((mask & (U)then) | (~mask & (U)otherwise)); }

/* a*b + c with one rounding where the processor can; lesser and larger: b where a is not a number. */
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#define MM__(prefix, operation, type) prefix##_##operation##_##type
#define MM_(prefix, operation, type) MM__(prefix, operation, type)
#ifdef SINGLE
#define MM(operation) MM_(PREFIX, operation, ps)
#else
#define MM(operation) MM_(PREFIX, operation, pd)
#endif
INLINE V lesser(V a, V b) { return (V)MM(min)(a, b); }
INLINE V larger(V a, V b) { return (V)MM(max)(a, b); }
INLINE V square_root(V x) { return (V)MM(sqrt)(x); }
#if defined(__FMA__)
#define FUSES 1
INLINE V madd(V a, V b, V c) { return (V)MM(fmadd)(a, b, c); }
#else
INLINE V madd(V a, V b, V c) { return a * b + c; }
#endif
#else
INLINE V lesser(V a, V b) { return choose((U)(a < b), a, b); }
INLINE V larger(V a, V b) { return choose((U)(a > b), a, b); }
#if defined(__aarch64__)
#include <arm_neon.h>
#define FUSES 1
#ifdef SINGLE
INLINE V madd(V a, V b, V c) { return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
INLINE V square_root(V x) { return (V)vsqrtq_f32((float32x4_t)x); }
#else
INLINE V madd(V a, V b, V c) { return (V)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b); }
INLINE V square_root(V x) { return (V)vsqrtq_f64((float64x2_t)x); }
#endif
#else
INLINE V madd(V a, V b, V c) { return a * b + c; }
INLINE V square_root(V x) {
    for (int i = 0; i < LANES; i++) x[i] = R(sqrt(x[i]));
    return x;
}
#endif
#endif

/* The same of numbers in double precision. */
#ifdef FUSES
#define fused(a, b, c) __builtin_fma(a, b, c)
#else
#define fused(a, b, c) ((a) * (b) + (c))
#endif

/* c - a*b */
INLINE V less_product(V c, V a, V b) { return madd(-a, b, c); }

/* Tell whether the mask is set in one of the lanes. */
INLINE int any(U mask) {
    uint64_t words[WIDTH / 8], found = 0;
    memcpy(words, &mask, WIDTH);
    for (int i = 0; i < WIDTH / 8; i++) found |= words[i];
    return found != 0;
}

/* Sum of all lanes: of halves, then of halves of these. */
INLINE REAL sum_of(V value) {
    REAL lanes[WIDTH / sizeof(REAL)];
    memcpy(lanes, &value, WIDTH);
    for (int64_t half = LANES / 2; half > 0; half /= 2)
        for (int64_t i = 0; i < half; i++) lanes[i] += lanes[i + half];
    return lanes[0];
}

/* Polynomial by Horner's rule, the highest coefficient first. */
#define POLYNOMIAL(x, coefficients) horner(x, coefficients, (int)(sizeof(coefficients) / sizeof(*coefficients)))
INLINE V horner(V x, const REAL *coefficients, const int count) {
    V y = full(coefficients[0]);
#pragma GCC unroll 16
    for (int i = 1; i < count; i++) y = madd(y, x, full(coefficients[i]));
    return y;
}

/* log 2 in two numbers, the first with zeros at the end so that a product with a whole number is exact; bits of the
   fraction, bias of the exponent, bits of the root of one half; the number whose last bit counts ones, times 1.5. */
#ifdef SINGLE
static const REAL LOG_2 = 0.693359375f, LOG_2_REST = -2.12194440054690583e-4f;
enum { FRACTION = 23 };
#define BIAS 127u
#define ROOT_HALF 0x3F3504F3u
static const REAL COUNTS_ONES = 12582912.0f, WHOLE = 8388608.0f, LOWEST = -87.0f;
static const REAL EXPONENTIAL[] = {R(1.0 / 5040), R(1.0 / 720), R(1.0 / 120), R(1.0 / 24), R(1.0 / 6),
                                   R(0.5),        R(1),         R(1)};
static const REAL ARTANH[] = {R(2.0 / 11), R(2.0 / 9), R(2.0 / 7), R(2.0 / 5), R(2.0 / 3), R(2)};
static const REAL FEW_DIGITS = 0.0625f;
#else
static const REAL LOG_2 = 6.93147180369123816490e-01, LOG_2_REST = 1.90821492927058770002e-10;
enum { FRACTION = 52 };
#define BIAS 1023u
#define ROOT_HALF 0x3FE6A09E667F3BCDu
static const REAL COUNTS_ONES = 6755399441055744.0, WHOLE = 4503599627370496.0, LOWEST = -700.0;
static const REAL EXPONENTIAL[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                                   1.0 / 40320,      1.0 / 5040,      1.0 / 720,      1.0 / 120,     1.0 / 24,
                                   1.0 / 6,          0.5,             1.0,            1.0};
static const REAL ARTANH[] = {2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11,
                              2.0 / 9,  2.0 / 7,  2.0 / 5,  2.0 / 3,  2.0};
static const REAL FEW_DIGITS = 0.001;
#endif

/* e^x for x <= 0, by the series of e^r with x = n*log 2 + r; nearly 0 far below. */
INLINE V exponential(V x) {
    x = larger(x, full(LOWEST));
    V shifted = madd(x, full(R(1.4426950408889634)), full(COUNTS_ONES)), n = shifted - COUNTS_ONES;
    V r = less_product(less_product(x, n, full(LOG_2)), n, full(LOG_2_REST));
    V power = (V)(((U)shifted + BIAS) << FRACTION);
    return POLYNOMIAL(r, EXPONENTIAL) * power;
}

/* w = m * 2^n with m from the root of one half to the root of two, for w > 0. */
INLINE V mantissa(V w, V *n) {
    U bits = (U)w, bias = (U){0} + BIAS;
    U exponent = (bits + (bias << FRACTION) - ROOT_HALF) >> FRACTION;
    /* The number 2^FRACTION + exponent as bits, less that: a conversion that all vectors have. */
    *n = (V)(exponent | (U)full(WHOLE)) - (WHOLE + BIAS);
    return (V)(bits - ((exponent - BIAS) << FRACTION));
}

/* log w for normal numbers w > 0, by log m = 2 artanh((m - 1)/(m + 1)). */
INLINE V logarithm(V w) {
    V n, a = mantissa(w, &n) - R(1), s = a / (a + R(2));
    return madd(n, full(LOG_2), madd(n, full(LOG_2_REST), s * POLYNOMIAL(s * s, ARTANH)));
}

/* log(1 + u) for u >= 0, by log m = 2 artanh((m - 1)/(m + 1)); what rounding takes from 1 + u is given back. */
INLINE V log_one_plus(V u) {
    V n, w = u + R(1), a = mantissa(w, &n) - R(1);
#ifdef SINGLE
    V both = R(1) / ((a + R(2)) * w); /* one division for 1/(a + 2) and 1/w */
    V s = a * (w * both), lost = (u - (w - R(1))) * ((a + R(2)) * both);
#else
    V s = a / (a + R(2)), lost = (u - (w - R(1))) / w;
#endif
    V series = madd(n, full(LOG_2_REST), madd(s, POLYNOMIAL(s * s, ARTANH), lost));
    return madd(n, full(LOG_2), series);
}

/* 1 - e^(-x) for x >= 0; a series where x is small, for the difference would cancel. */
INLINE V one_less_exponential(V x) {
    V series = madd(x, full(R(-1.0 / 24)), full(R(1.0 / 6)));
    series = x * less_product(full(1), x, less_product(full(R(0.5)), x, series));
    return choose((U)(x < FEW_DIGITS), series, R(1) - exponential(-x));
}

/* Surface reflectance rho = y/(B + S*y) with y = rho_toa - A; coefficients are A, B and S. */
INLINE V surface_reflectance(V toa, REAL A, REAL B, REAL S) {
    V y = toa - A;
    return y / madd(full(S), y, full(B));
}

typedef struct {
    Array x, out;
} FunctionArguments;

/* e^(-x), log(1 + x) and 1 - e^(-x) of so many numbers that they fill lines of the cache: (function, number). */
int EXPORT(functions)(const FunctionArguments *a) {
    const REAL *x = a->x.data;
    for (int64_t b = 0; b < a->x.shape[0]; b += LANES) {
        store(ROW(REAL, a->out, 0) + b, exponential(-load(x + b)));
        store(ROW(REAL, a->out, 1) + b, log_one_plus(load(x + b)));
        store(ROW(REAL, a->out, 2) + b, one_less_exponential(load(x + b)));
    }
    return 0;
}

#endif
