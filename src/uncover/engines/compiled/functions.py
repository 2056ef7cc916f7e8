"""Functions of numbers and vectors: exponential and logarithm as series, the inversion of the atmosphere."""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

from uncover.engines.compiled.simd import INNER, Vector, below, is_single, larger

# Of the two types: bits of the fraction, bias of the exponent, and the bits of √½.
_SINGLE = (23, 127, 0x3F3504F3)
_DOUBLE = (52, 1023, 0x3FE6A09E667F3BCD)


def _format(context, x):
    """The type as machine code has it, whole numbers of the same width, and the layout of the bits."""
    value = context.get_value_type(x)
    layout = _SINGLE if is_single(x) else _DOUBLE
    whole = ir.IntType(32 if is_single(x) else 64)
    return value, ir.VectorType(whole, x.count) if isinstance(x, Vector) else whole, layout


def _every(kind, number):
    """A constant, in all lanes."""
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)


@intrinsic
def _power_of_two(typing_context, shifted):
    """2^n, from n plus one and a half times the number whose last bit counts ones."""

    def generate(context, builder, signature, arguments):
        value, whole, (fraction, bias, _) = _format(context, shifted)
        bits = builder.add(builder.bitcast(arguments[0], whole), _every(whole, bias))
        return builder.bitcast(builder.shl(bits, _every(whole, fraction)), value)

    return shifted(shifted), generate


@intrinsic
def _mantissa_and_exponent(typing_context, w):
    """(m, n) with w = m·2^n and m from √½ to √2, for w >= 1."""

    def generate(context, builder, signature, arguments):
        value, whole, (fraction, _, root) = _format(context, w)
        bits = builder.bitcast(arguments[0], whole)
        exponent = builder.lshr(builder.sub(bits, _every(whole, root)), _every(whole, fraction))
        m = builder.bitcast(builder.sub(bits, builder.shl(exponent, _every(whole, fraction))), value)
        # The number 2^fraction + n as bits, less 2^fraction: a conversion that all vectors have.
        offset = _every(value, float(2**fraction))
        n = builder.fsub(
            builder.bitcast(builder.or_(exponent, builder.bitcast(offset, whole)), value), offset
        )
        return context.make_tuple(builder, signature.return_type, (m, n))

    return types.UniTuple(w, 2)(w), generate


def exponential(x):
    """e^x for x <= 0, by the series of e^r with x = n·log 2 + r; 0 far below."""
    raise NotImplementedError


@overload(exponential, jit_options=INNER)
def _exponential(x):
    if is_single(x):

        def single(x):
            f = np.float32
            x = larger(x, f(-87.0))
            shifted = x * f(1.4426950408889634) + f(12582912.0)
            n = shifted - f(12582912.0)
            r = (x - n * f(0.693359375)) - n * f(-2.12194440054690583e-4)
            y = r * f(1 / 5040) + f(1 / 720)
            y = y * r + f(1 / 120)
            y = y * r + f(1 / 24)
            y = y * r + f(1 / 6)
            y = y * r + f(0.5)
            y = y * r + f(1.0)
            y = y * r + f(1.0)
            return y * _power_of_two(shifted)

        return single

    def double(x):
        x = larger(x, -700.0)
        shifted = x * 1.4426950408889634 + 6755399441055744.0
        n = shifted - 6755399441055744.0
        r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
        y = r * (1.0 / 6227020800) + 1.0 / 479001600
        y = y * r + 1.0 / 39916800
        y = y * r + 1.0 / 3628800
        y = y * r + 1.0 / 362880
        y = y * r + 1.0 / 40320
        y = y * r + 1.0 / 5040
        y = y * r + 1.0 / 720
        y = y * r + 1.0 / 120
        y = y * r + 1.0 / 24
        y = y * r + 1.0 / 6
        y = y * r + 0.5
        y = y * r + 1.0
        y = y * r + 1.0
        return y * _power_of_two(shifted)

    return double


@njit(**INNER)
def artanh_series(s2):
    """2·artanh(s)/s from s², in double precision: log m = 2·artanh((m − 1)/(m + 1)), √½ ≤ m ≤ √2."""
    y = s2 * (2.0 / 21) + 2.0 / 19
    y = y * s2 + 2.0 / 17
    y = y * s2 + 2.0 / 15
    y = y * s2 + 2.0 / 13
    y = y * s2 + 2.0 / 11
    y = y * s2 + 2.0 / 9
    y = y * s2 + 2.0 / 7
    y = y * s2 + 2.0 / 5
    y = y * s2 + 2.0 / 3
    return y * s2 + 2.0


def log_one_plus(u):
    """log(1 + u) for u >= 0, by the series of artanh; what rounding takes from 1 + u is given back."""
    raise NotImplementedError


@overload(log_one_plus, jit_options=INNER)
def _log_one_plus(u):
    if is_single(u):

        def single(u):
            f = np.float32
            w = u + f(1.0)
            m, n = _mantissa_and_exponent(w)
            a = m - f(1.0)
            both = f(1.0) / ((a + f(2.0)) * w)  # one division for 1/(a + 2) and 1/w
            s = a * (w * both)
            s2 = s * s
            y = s2 * f(2 / 11) + f(2 / 9)
            y = y * s2 + f(2 / 7)
            y = y * s2 + f(2 / 5)
            y = y * s2 + f(2 / 3)
            y = y * s2 + f(2.0)
            lost = (u - (w - f(1.0))) * ((a + f(2.0)) * both)
            return n * f(0.693359375) + ((s * y + lost) + n * f(-2.12194440054690583e-4))

        return single

    def double(u):
        w = u + 1.0
        m, n = _mantissa_and_exponent(w)
        a = m - 1.0
        s = a / (a + 2.0)
        y = artanh_series(s * s)
        lost = (u - (w - 1.0)) / w
        return n * 6.93147180369123816490e-01 + ((s * y + lost) + n * 1.90821492927058770002e-10)

    return double


def one_less_exponential(x):
    """1 − e^(−x) for x >= 0; a series where x is small, for the difference would cancel."""
    raise NotImplementedError


@overload(one_less_exponential, jit_options=INNER)
def _one_less_exponential(x):
    kind = np.float32 if is_single(x) else np.float64
    limit = kind(0.0625 if is_single(x) else 0.001)
    one, half, sixth, last = kind(1), kind(1 / 2), kind(1 / 6), kind(1 / 24)

    def either(x):
        series = x * (one - x * (half - x * (sixth - x * last)))
        return below(x, limit, series, one - exponential(-x))

    return either


@njit(**INNER)
def surface_reflectance(toa, path, slope, albedo):
    """ρ = y/(B + S·y) with y = ρ_toa − A: numbers or vectors."""
    y = toa - path
    return y / (slope + albedo * y)
