"""Eight float64 numbers as one value in compiled code, for which LLVM emits vector instructions.

Numba has no such type, and LLVM's own vectorisation fails on these kernels: it cannot know that
arrays do not overlap, and it vectorises across the wrong loop. With `Lanes` a kernel says what
it wants: arithmetic, comparisons and selection act on eight numbers at once. On a machine whose
vectors are shorter, LLVM splits them.
"""

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

#: Numbers in a value.
WIDTH = 8
#: The number of each lane.
LANES = np.arange(float(WIDTH))

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_VECTOR = {
    "float64": ir.VectorType(ir.DoubleType(), WIDTH),
    "bool": ir.VectorType(ir.IntType(1), WIDTH),
}
_FLAGS = ("contract", "nsz")


class Lanes(types.Type):
    """Numba's type of eight numbers, or of eight truth values."""

    def __init__(self, kind: str):
        self.kind = kind
        super().__init__(name=f"Lanes({kind})")


NUMBERS, TRUTHS = Lanes("float64"), Lanes("bool")


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes):
        super().__init__(manager, lanes, _VECTOR[lanes.kind])


def _define(function: Any, argument: Lanes, result: Lanes, build: Callable[..., Any]) -> None:
    """Let `function` of two values be the instruction that `build` emits."""

    @type_callable(function)
    def type_(context: Any) -> Any:
        return lambda a, b: result if a == argument and b == argument else None

    @lower_builtin(function, argument, argument)
    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return build(builder, *args)


_define(operator.add, NUMBERS, NUMBERS, lambda b, x, y: b.fadd(x, y, flags=_FLAGS))
_define(operator.sub, NUMBERS, NUMBERS, lambda b, x, y: b.fsub(x, y, flags=_FLAGS))
_define(operator.mul, NUMBERS, NUMBERS, lambda b, x, y: b.fmul(x, y, flags=_FLAGS))
_define(operator.truediv, NUMBERS, NUMBERS, lambda b, x, y: b.fdiv(x, y, flags=_FLAGS))
_define(operator.lt, NUMBERS, TRUTHS, lambda b, x, y: b.fcmp_ordered("<", x, y))
_define(operator.eq, NUMBERS, TRUTHS, lambda b, x, y: b.fcmp_ordered("==", x, y))
_define(operator.and_, TRUTHS, TRUTHS, lambda b, x, y: b.and_(x, y))


def _instruction(function: Any) -> Any:
    return intrinsic(inspect.unwrap(function))  # tests wrap functions to check their types


@_instruction
def where(typing: Any, mask: Any, a: Any, b: Any) -> Any:
    """`a` where the mask is true, else `b`."""
    return NUMBERS(mask, a, b), lambda context, builder, signature, args: builder.select(*args)


@_instruction
def full(typing: Any, number: Any) -> Any:
    """The same number eight times."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        one = _insert(builder, ir.Constant(_VECTOR["float64"], ir.Undefined), args[0], 0)
        return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_INT32, WIDTH), None))

    return NUMBERS(types.float64), build


@_instruction
def load(typing: Any, array: Any, start: Any) -> Any:
    """`array[start : start + 8]`."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _address(context, builder, signature, args, args[1])
        return builder.load(builder.bitcast(at, _VECTOR["float64"].as_pointer()), align=8)

    return NUMBERS(array, types.intp), build


@_instruction
def store(typing: Any, array: Any, start: Any, value: Any) -> Any:
    """`array[start : start + 8] = value`."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _address(context, builder, signature, args, args[1])
        builder.store(args[2], builder.bitcast(at, _VECTOR["float64"].as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), build


@_instruction
def gather(typing: Any, array: Any, start: Any, step: Any, lanes: Any) -> Any:
    """`array[start + l * step]` for each lane l of the first `lanes`, whose last fills the rest."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, offset = ir.Constant(_VECTOR["float64"], ir.Undefined), ir.Constant(_INT64, 0)
        for lane in range(WIDTH):
            at = _address(context, builder, signature, args, builder.add(args[1], offset))
            value = _insert(builder, value, builder.load(at), lane)
            more = builder.icmp_signed("<", ir.Constant(_INT64, lane + 1), args[3])
            offset = builder.select(more, builder.add(offset, args[2]), offset)
        return value

    return NUMBERS(array, types.intp, types.intp, types.intp), build


@_instruction
def take(typing: Any, array: Any, start: Any, index: Any) -> Any:
    """`array[start + index[l] + l]` for each lane l; the index is in whole float64 numbers."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = ir.Constant(_VECTOR["float64"], ir.Undefined)
        for lane, at in enumerate(_addresses(context, builder, signature, args)):
            value = _insert(builder, value, builder.load(at), lane)
        return value

    return NUMBERS(array, types.intp, index), build


@_instruction
def put(typing: Any, array: Any, start: Any, index: Any, value: Any) -> Any:
    """`array[start + index[l] + l] = value[l]` for each lane l."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for lane, at in enumerate(_addresses(context, builder, signature, args)):
            builder.store(builder.extract_element(args[3], ir.Constant(_INT32, lane)), at)
        return context.get_dummy_value()

    return types.void(array, types.intp, index, value), build


@_instruction
def some(typing: Any, mask: Any) -> Any:
    """Whether any of eight truth values is true."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(WIDTH))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(WIDTH), 0))

    return types.boolean(mask), build


def _reduction(name: str, *start: float) -> Any:
    @_instruction
    def reduce(typing: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.call(
                builder.module.declare_intrinsic(
                    f"llvm.vector.reduce.{name}.v{WIDTH}f64",
                    (),
                    ir.FunctionType(
                        ir.DoubleType(), [ir.DoubleType() for _ in start] + [_VECTOR["float64"]]
                    ),
                ),
                [*(ir.Constant(ir.DoubleType(), number) for number in start), *args],
                fastmath=("nnan", "nsz", "reassoc"),
            )

        return types.float64(value), build

    return reduce


#: The largest and the smallest of eight numbers, and their sum.
largest, smallest, total = _reduction("fmax"), _reduction("fmin"), _reduction("fadd", 0.0)


def _insert(builder: Any, vector: Any, number: Any, lane: int) -> Any:
    return builder.insert_element(vector, number, ir.Constant(_INT32, lane))


def _address(context: Any, builder: Any, signature: Any, args: Any, index: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [index])


def _addresses(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """The address in each lane of `array[start + index[l] + l]`."""
    index = builder.fptosi(args[2], ir.VectorType(_INT64, WIDTH))
    for lane in range(WIDTH):
        offset = builder.extract_element(index, ir.Constant(_INT32, lane))
        offset = builder.add(builder.add(offset, args[1]), ir.Constant(_INT64, lane))
        yield _address(context, builder, signature, args, offset)
