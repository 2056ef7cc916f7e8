"""SIMD vectors as values of numba: what the registers of a processor hold, and nothing in memory.

Loops over arrays go through memory between one loop and the next; a sum that should stay in a register for a
whole matrix product has to be a value. ``Vector`` is such a value, of as many numbers as fill a line of the
cache: 16 in single, 8 in double precision. Numbers meet vectors of their own type only, so that nothing is
promoted by accident.
"""

import operator

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, overload, register_model

# A multiply and an add may become one instruction. Nothing else is allowed: sums in another order would
# cancel the corrections that log1p and the split means consist of.
_FLAGS = ("contract", "nsz")
FASTMATH = set(_FLAGS)
OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": FASTMATH}
# For what must be part of its caller, lest vectors go through memory; Python does not call it.
INNER = {
    "error_model": "numpy",
    "fastmath": FASTMATH,
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
LINE = 64  # bytes
_MINUS_SINGLE = np.float32(-1.0)
_ALIGNED = 4  # whatever the array, so much is certain


class Vector(types.Type):
    """As many numbers of one floating-point type as fill a line of the cache."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.count = LINE * 8 // dtype.bitwidth
        super().__init__(name=f"Vector({dtype})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        element = dmm.lookup(fe_type.dtype).get_value_type()
        super().__init__(dmm, fe_type, ir.VectorType(element, fe_type.count))


def simd_width(array):
    """Number of array elements in a vector."""
    raise NotImplementedError


@overload(simd_width, jit_options=INNER)
def _simd_width(array):
    count = Vector(array.dtype).count
    return lambda array: count


def is_single(x):
    """Tell whether a numba type is a number or vector in single precision."""
    return getattr(x, "dtype", x) == types.float32


# ---- arrays without owners -----------------------------------------------------------------------------


@intrinsic
def borrowed(typing_context, value):
    """An array, or a tuple of arrays, that is not counted: for arguments, which the caller keeps alive.

    Counting who holds an array is an atomic operation, and waits for other threads that hold the same.
    """

    def lend(context, builder, kind, given):
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, given)
            array.meminfo = cgutils.get_null_value(array.meminfo.type)
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            parts = zip(kind.types, cgutils.unpack_tuple(builder, given), strict=True)
            return context.make_tuple(builder, kind, [lend(context, builder, *part) for part in parts])
        return given

    def generate(context, builder, signature, arguments):
        return lend(context, builder, value, arguments[0])

    return value(value), generate


# ---- between memory and vectors --------------------------------------------------------------------------


def _address(context, builder, array_type, array, index):
    found = context.make_array(array_type)(context, builder, array)
    numbers = cgutils.unpack_tuple(builder, index)
    return cgutils.get_item_pointer(context, builder, array_type, found, numbers)


@intrinsic
def load(typing_context, array, index):
    """Load a vector from an array, whose last axis is contiguous, from an index on."""
    lanes = Vector(array.dtype)

    def generate(context, builder, signature, arguments):
        place = _address(context, builder, array, arguments[0], arguments[1])
        vector = context.get_value_type(lanes)
        return builder.load(builder.bitcast(place, vector.as_pointer()), align=_ALIGNED)

    return lanes(array, index), generate


@intrinsic
def store(typing_context, array, index, value):
    """Write a vector to an array, whose last axis is contiguous, from an index on."""
    if value != Vector(array.dtype):
        raise TypingError(f"{value} does not go into an array of {array.dtype}")

    def generate(context, builder, signature, arguments):
        place = _address(context, builder, array, arguments[0], arguments[1])
        vector = context.get_value_type(value)
        builder.store(arguments[2], builder.bitcast(place, vector.as_pointer()), align=_ALIGNED)

    return types.void(array, index, value), generate


@intrinsic
def prefetch(typing_context, array, index):
    """Prefetch an array element; may point past the end."""

    def generate(context, builder, signature, arguments):
        place = _address(context, builder, array, arguments[0], arguments[1])
        flag, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        touch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # For reading, into the second level of the cache, of data.
        builder.call(touch, [builder.bitcast(place, byte), *(flag(code) for code in (0, 2, 1))])

    return types.void(array, index), generate


@intrinsic
def number(typing_context, array, index):
    """One number of an array; an index is never negative, which need not be checked."""

    def generate(context, builder, signature, arguments):
        return builder.load(_address(context, builder, array, arguments[0], arguments[1]))

    return array.dtype(array, index), generate


@intrinsic
def transpose(typing_context, source, index, target, place):
    """Transpose a square of numbers: rows of the first axis of the source become columns of the target.

    The square has as many rows and columns as a vector of 32 bytes has numbers. The source is indexed
    (row, ..., column), the target (row, column).
    """
    kind = source.dtype
    size = 256 // kind.bitwidth

    def generate(context, builder, signature, arguments):
        vector = ir.VectorType(context.get_value_type(kind), size)
        read = _rows(context, builder, source, arguments[0], arguments[1], vector, size)
        write = _rows(context, builder, target, arguments[2], arguments[3], vector, size)
        rows = [builder.load(each, align=_ALIGNED) for each in read]
        for row, each in zip(_turned(builder, rows, size), write, strict=True):
            builder.store(row, each, align=_ALIGNED)

    return types.void(source, index, target, place), generate


def _rows(context, builder, array_type, array, index, vector, size):
    """Addresses of so many rows of an array, one after the other along its first axis."""
    first, *rest = cgutils.unpack_tuple(builder, index)
    made = context.make_array(array_type)(context, builder, array)
    found = []
    for i in range(size):
        numbers = [builder.add(first, ir.Constant(first.type, i)), *rest]
        place = cgutils.get_item_pointer(context, builder, array_type, made, numbers)
        found.append(builder.bitcast(place, vector.as_pointer()))
    return found


def _turned(builder, rows, size):
    """Transpose a square: exchange single numbers between neighbouring rows, then pairs, then fours."""
    indices = ir.VectorType(ir.IntType(32), size)
    step = 1
    while step < size:
        after = list(rows)
        for i in (i for i in range(size) if not i & step):
            for half in (0, step):
                mask = [(j & ~step | half) + (size if j & step else 0) for j in range(size)]
                after[i + half] = builder.shuffle_vector(rows[i], rows[i + step], ir.Constant(indices, mask))
        rows, step = after, 2 * step
    return rows


# ---- arithmetic ----------------------------------------------------------------------------------------


def _common(a, b):
    """The vector type of two operands together, or None where neither is a vector."""
    lanes = [each for each in (a, b) if isinstance(each, Vector)]
    if not lanes:
        return None
    if any(getattr(each, "dtype", each) != lanes[0].dtype for each in (a, b)):
        raise TypingError(f"{a} and {b} do not go together: vectors and numbers need the same type")
    return lanes[0]


def _spread(context, builder, value, given, lanes):
    """An operand as a vector: a number in every lane."""
    if isinstance(given, Vector):
        return value
    vector = context.get_value_type(lanes)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    nowhere = ir.Constant(ir.VectorType(ir.IntType(32), lanes.count), [0] * lanes.count)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), nowhere)


def _binary(emit):
    """An operation on vectors, by what it emits for two of them."""

    @intrinsic
    def operation(typing_context, a, b):
        lanes = _common(a, b)

        def generate(context, builder, signature, arguments):
            pair = zip(arguments, signature.args, strict=True)
            return emit(builder, *(_spread(context, builder, value, given, lanes) for value, given in pair))

        return lanes(a, b), generate

    return operation


def _arithmetic(symbol, instruction):
    perform = _binary(lambda builder, a, b: getattr(builder, instruction)(a, b, flags=_FLAGS))

    @overload(symbol, jit_options=INNER)
    def _of_lanes(a, b):
        if _common(a, b) is not None:
            return lambda a, b: perform(a, b)
        return None


for _symbol, _instruction in (
    (operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"), (operator.truediv, "fdiv"),
    (operator.iadd, "fadd"),
):  # fmt: skip
    _arithmetic(_symbol, _instruction)


@overload(operator.neg, jit_options=INNER)
def _negative(a):
    if isinstance(a, Vector):
        minus = -1.0 if a.dtype.bitwidth == 64 else _MINUS_SINGLE
        return lambda a: a * minus
    return None


_less = _binary(lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))
_more = _binary(lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


def lesser(a, b):
    """The smaller of two numbers or vectors; b where a is not a number."""
    raise NotImplementedError


def larger(a, b):
    """The larger of two numbers or vectors; b where a is not a number."""
    raise NotImplementedError


@overload(lesser, jit_options=INNER)
def _lesser(a, b):
    return (lambda a, b: a if a < b else b) if _common(a, b) is None else (lambda a, b: _less(a, b))


@overload(larger, jit_options=INNER)
def _larger(a, b):
    return (lambda a, b: a if a > b else b) if _common(a, b) is None else (lambda a, b: _more(a, b))


@intrinsic
def below(typing_context, lanes, limit, then, otherwise):
    """Select lanes of one value where others are below a limit, and of another value elsewhere."""

    def generate(context, builder, signature, arguments):
        bound = _spread(context, builder, arguments[1], limit, lanes)
        return builder.select(builder.fcmp_ordered("<", arguments[0], bound), arguments[2], arguments[3])

    return lanes(lanes, limit, then, otherwise), generate


@intrinsic
def any_above(typing_context, lanes, limit):
    """Tell whether one of the lanes is above a limit, or not a number."""

    def generate(context, builder, signature, arguments):
        bound = _spread(context, builder, arguments[1], limit, lanes)
        above = builder.fcmp_unordered(">", arguments[0], bound)
        bits = builder.bitcast(above, ir.IntType(lanes.count))
        return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    return types.boolean(lanes, limit), generate


@intrinsic
def full(typing_context, value):
    """Vector of one number in all lanes."""
    lanes = Vector(value)

    def generate(context, builder, signature, arguments):
        return _spread(context, builder, arguments[0], value, lanes)

    return lanes(value), generate


@intrinsic
def sum_of(typing_context, lanes):
    """Sum of all lanes, of halves, then of halves of these."""

    def generate(context, builder, signature, arguments):
        value, count = arguments[0], lanes.count
        while count > 1:
            count //= 2
            kind = ir.VectorType(ir.IntType(32), count)
            low, high = (
                builder.shuffle_vector(value, value, ir.Constant(kind, list(range(start, start + count))))
                for start in (0, count)
            )
            value = builder.fadd(low, high)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return lanes.dtype(lanes), generate
