"""Eight float64 numbers as one value in compiled code, for which LLVM emits vector instructions.

Numba has no such type, and LLVM's own vectorisation fails on these kernels: it cannot know that
arrays do not overlap, and it vectorises across the wrong loop. With `Lanes` a kernel says what
it wants: arithmetic, comparisons and selection act on eight numbers at once. On a machine whose
vectors are shorter, LLVM splits them.
"""

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

_INT64, _DOUBLE = ir.IntType(64), ir.DoubleType()
_VECTOR, _MASK = ir.VectorType(_DOUBLE, WIDTH), ir.VectorType(ir.IntType(1), WIDTH)
_FLAGS = ("contract", "nsz")


class Lanes(types.Type):
    """Numba's type of eight numbers, or of eight truth values."""

    def __init__(self, kind: str):
        super().__init__(name=f"Lanes({kind})")


NUMBERS, TRUTHS = Lanes("float64"), Lanes("bool")


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes):
        super().__init__(manager, lanes, _VECTOR if lanes == NUMBERS else _MASK)


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


def _instruction(build: Callable[..., Any], result: Any, *arguments: Any) -> Any:
    """A function for kernels: `build` emits it, given a builder, pointers for arrays, and values.

    `arguments` are the types of its arguments; None stands for an array of float64.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = [
            context.make_array(kind)(context, builder, value).data if wanted is None else value
            for kind, wanted, value in zip(signature.args, arguments, args, strict=True)
        ]
        made = build(builder, *values)
        return context.get_dummy_value() if result == types.void else made

    def type_(*found: Any) -> Any:
        wanted = [kind or given for kind, given in zip(arguments, found, strict=True)]
        return result(*wanted), emit

    # Numba counts the parameters.
    return intrinsic(
        [
            lambda typing, a: type_(a),
            lambda typing, a, b: type_(a, b),
            lambda typing, a, b, c: type_(a, b, c),
            lambda typing, a, b, c, d: type_(a, b, c, d),
        ][len(arguments) - 1]
    )


def _lane(number: int) -> Any:
    return ir.Constant(ir.IntType(32), number)


def _broadcast(b: Any, number: Any) -> Any:
    one = b.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, _lane(0))
    return b.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), None))


def _at(b: Any, array: Any, start: Any) -> Any:
    return b.bitcast(b.gep(array, [start]), _VECTOR.as_pointer())


def _collect(b: Any, pointers: Any) -> Any:
    value = ir.Constant(_VECTOR, ir.Undefined)
    for lane, pointer in enumerate(pointers):
        value = b.insert_element(value, b.load(pointer), _lane(lane))
    return value


def _strided(b: Any, array: Any, start: Any, step: Any, lanes: Any) -> Any:
    for lane in range(WIDTH):
        yield b.gep(array, [start])
        more = b.icmp_signed("<", ir.Constant(_INT64, lane + 1), lanes)
        start = b.select(more, b.add(start, step), start)


def _indexed(b: Any, array: Any, start: Any, index: Any) -> Any:
    index = b.fptosi(index, ir.VectorType(_INT64, WIDTH))
    for lane in range(WIDTH):
        offset = b.add(b.extract_element(index, _lane(lane)), ir.Constant(_INT64, lane))
        yield b.gep(array, [b.add(start, offset)])


def _scatter(b: Any, array: Any, start: Any, index: Any, value: Any) -> None:
    for lane, pointer in enumerate(_indexed(b, array, start, index)):
        b.store(b.extract_element(value, _lane(lane)), pointer)


def _any(b: Any, mask: Any) -> Any:
    bits = ir.IntType(WIDTH)
    return b.icmp_unsigned("!=", b.bitcast(mask, bits), ir.Constant(bits, 0))


def _reduce(name: str, *start: Any) -> Callable[..., Any]:
    def build(b: Any, value: Any) -> Any:
        kind = ir.FunctionType(_DOUBLE, [_DOUBLE for _ in start] + [_VECTOR])
        name_ = f"llvm.vector.reduce.{name}.v{WIDTH}f64"
        function = b.module.declare_intrinsic(name_, (), kind)
        return b.call(function, [*start, value], fastmath=("nnan", "nsz", "reassoc"))

    return build


#: `where(mask, a, b)`: `a` where the mask is true, else `b`.
where = _instruction(lambda b, *args: b.select(*args), NUMBERS, TRUTHS, NUMBERS, NUMBERS)
#: `full(number)`: the same number eight times.
full = _instruction(_broadcast, NUMBERS, types.float64)
#: `load(array, start)`: `array[start : start + 8]`.
load = _instruction(lambda b, *at: b.load(_at(b, *at), align=8), NUMBERS, None, types.intp)
#: `store(array, start, value)`: `array[start : start + 8] = value`.
store = _instruction(
    lambda b, array, start, value: b.store(value, _at(b, array, start), align=8),
    types.void, None, types.intp, NUMBERS,
)  # fmt: skip
#: `gather(array, start, step, lanes)`: `array[start + l * step]` in each lane l of the first
#: `lanes`, whose last fills the rest.
gather = _instruction(
    lambda b, *at: _collect(b, _strided(b, *at)),
    NUMBERS, None, types.intp, types.intp, types.intp,
)  # fmt: skip
#: `take(array, start, index)`: `array[start + index[l] + l]` in each lane l; whole floats.
take = _instruction(
    lambda b, *at: _collect(b, _indexed(b, *at)), NUMBERS, None, types.intp, NUMBERS
)
#: `put(array, start, index, value)`: `array[start + index[l] + l] = value[l]` for each lane l.
put = _instruction(_scatter, types.void, None, types.intp, NUMBERS, NUMBERS)
#: `some(mask)`: whether any of eight truth values is true.
some = _instruction(_any, types.boolean, TRUTHS)
#: The largest and the smallest of eight numbers, and their sum.
largest = _instruction(_reduce("fmax"), types.float64, NUMBERS)
smallest = _instruction(_reduce("fmin"), types.float64, NUMBERS)
total = _instruction(_reduce("fadd", ir.Constant(_DOUBLE, 0.0)), types.float64, NUMBERS)
