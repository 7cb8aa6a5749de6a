"""The Numba implementation of the kernels: a type for eight numbers, and compilation.

Importing this module imports Numba, which takes a third of a second.
"""

import inspect
import operator
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import numba
from llvmlite import ir
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.typing.templates import signature as make_signature
from numba.extending import (
    lower_builtin,
    models,
    register_jitable,
    register_model,
    type_callable,
)

from equipoise.core.kernels import _lanes
from equipoise.core.kernels._compile import INLINE, KERNELS, PARTS, code_folder
from equipoise.core.kernels._lanes import WIDTH

_INT64, _DOUBLE = ir.IntType(64), ir.DoubleType()
_VECTOR, _MASK = ir.VectorType(_DOUBLE, WIDTH), ir.VectorType(ir.IntType(1), WIDTH)


class Lanes(types.Type):
    """Numba's type for eight numbers, or for eight truth values."""

    def __init__(self, kind: str):
        super().__init__(name=f"Lanes({kind})")


NUMBERS, TRUTHS = Lanes("float64"), Lanes("bool")


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes):
        super().__init__(manager, lanes, _VECTOR if lanes == NUMBERS else _MASK)


def _define(function: Any, result: Any, *arguments: Any) -> Callable[[Any], None]:
    """Implement `function` by the instructions that a builder emits, given pointers for arrays.

    `arguments` are the types of its arguments; None stands for an array of float64.
    """

    def fits(found: tuple[Any, ...]) -> Any:
        lanes = [(kind, given) for kind, given in zip(arguments, found, strict=True)]
        if any(isinstance(kind, Lanes) and kind != given for kind, given in lanes):
            return None
        return make_signature(result, *(kind or given for kind, given in lanes))

    # Numba inspects the number of parameters.
    typer = [
        lambda a: fits((a,)),
        lambda a, b: fits((a, b)),
        lambda a, b, c: fits((a, b, c)),
        lambda a, b, c, d: fits((a, b, c, d)),
    ][len(arguments) - 1]

    def decorate(build: Any) -> None:
        build = inspect.unwrap(build)
        type_callable(function)(lambda context: typer)

        @lower_builtin(function, *(kind or types.Array for kind in arguments))
        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = [
                context.make_array(kind)(context, builder, value).data if wanted is None else value
                for kind, wanted, value in zip(signature.args, arguments, args, strict=True)
            ]
            made = build(builder, *values)
            return context.get_dummy_value() if result == types.void else made

    return decorate


_BOTH = NUMBERS, NUMBERS
_define(operator.add, NUMBERS, *_BOTH)(lambda b, x, y: b.fadd(x, y))
_define(operator.sub, NUMBERS, *_BOTH)(lambda b, x, y: b.fsub(x, y))
_define(operator.mul, NUMBERS, *_BOTH)(lambda b, x, y: b.fmul(x, y))
_define(operator.truediv, NUMBERS, *_BOTH)(lambda b, x, y: b.fdiv(x, y))
_define(operator.lt, TRUTHS, *_BOTH)(lambda b, x, y: b.fcmp_ordered("<", x, y))
_define(operator.eq, TRUTHS, *_BOTH)(lambda b, x, y: b.fcmp_ordered("==", x, y))
_define(operator.and_, TRUTHS, TRUTHS, TRUTHS)(lambda b, x, y: b.and_(x, y))
_define(_lanes.where, NUMBERS, TRUTHS, NUMBERS, NUMBERS)(lambda b, *args: b.select(*args))


def _lane(number: int) -> Any:
    return ir.Constant(ir.IntType(32), number)


def _at(b: Any, array: Any, start: Any) -> Any:
    return b.bitcast(b.gep(array, [start]), _VECTOR.as_pointer())


def _collect(b: Any, pointers: Any) -> Any:
    value = ir.Constant(_VECTOR, ir.Undefined)
    for lane, pointer in enumerate(pointers):
        value = b.insert_element(value, b.load(pointer), _lane(lane))
    return value


def _indexed(b: Any, array: Any, start: Any, index: Any) -> Any:
    index = b.fptosi(index, ir.VectorType(_INT64, WIDTH))
    for lane in range(WIDTH):
        offset = b.add(b.extract_element(index, _lane(lane)), ir.Constant(_INT64, lane))
        yield b.gep(array, [b.add(start, offset)])


@_define(_lanes.full, NUMBERS, types.float64)
def _full(b: Any, number: Any) -> Any:
    one = b.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, _lane(0))
    return b.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), None))


@_define(_lanes.load, NUMBERS, None, types.intp)
def _load(b: Any, array: Any, start: Any) -> Any:
    return b.load(_at(b, array, start), align=8)


@_define(_lanes.store, types.void, None, types.intp, NUMBERS)
def _store(b: Any, array: Any, start: Any, value: Any) -> None:
    b.store(value, _at(b, array, start), align=8)


@_define(_lanes.gather, NUMBERS, None, types.intp, types.intp, types.intp)
def _gather(b: Any, array: Any, start: Any, step: Any, lanes: Any) -> Any:
    pointers = []
    for lane in range(WIDTH):
        pointers.append(b.gep(array, [start]))
        more = b.icmp_signed("<", ir.Constant(_INT64, lane + 1), lanes)
        start = b.select(more, b.add(start, step), start)
    return _collect(b, pointers)


@_define(_lanes.take, NUMBERS, None, types.intp, NUMBERS)
def _take(b: Any, array: Any, start: Any, index: Any) -> Any:
    return _collect(b, _indexed(b, array, start, index))


@_define(_lanes.put, types.void, None, types.intp, NUMBERS, NUMBERS)
def _put(b: Any, array: Any, start: Any, index: Any, value: Any) -> None:
    for lane, pointer in enumerate(_indexed(b, array, start, index)):
        b.store(b.extract_element(value, _lane(lane)), pointer)


@_define(_lanes.some, types.boolean, TRUTHS)
def _some(b: Any, mask: Any) -> Any:
    bits = ir.IntType(WIDTH)
    return b.icmp_unsigned("!=", b.bitcast(mask, bits), ir.Constant(bits, 0))


def _extreme(name: str) -> Callable[..., Any]:
    def build(b: Any, value: Any) -> Any:
        kind = ir.FunctionType(_DOUBLE, [_VECTOR])
        name_ = f"llvm.vector.reduce.{name}.v{WIDTH}f64"
        function = b.module.declare_intrinsic(name_, (), kind)
        return b.call(function, [value], fastmath=("nnan", "nsz"))

    return build


@_define(_lanes.total, types.float64, NUMBERS)
def _total(b: Any, value: Any) -> Any:
    width = WIDTH
    while width > 1:
        width //= 2
        halves = (
            b.shuffle_vector(value, value, ir.Constant(ir.VectorType(ir.IntType(32), width), lanes))
            for lanes in (list(range(width)), list(range(width, 2 * width)))
        )
        value = b.fadd(*halves)
    return b.extract_element(value, _lane(0))


_define(_lanes.largest, types.float64, NUMBERS)(_extreme("fmax"))
_define(_lanes.smallest, types.float64, NUMBERS)(_extreme("fmin"))


def _type_of(word: str) -> Any:
    """Return the type that a word of a signature stands for."""
    plain = {
        "float": types.float64,
        "index": types.intp,
        "int32s1": types.Array(types.int32, 1, "C"),
        "read_int32s1": types.Array(types.int32, 1, "C", readonly=True),
        "int32s2": types.Array(types.int32, 2, "C"),
        "int64s1": types.Array(types.int64, 1, "C"),
        "int64s2": types.Array(types.int64, 2, "C"),
        "read_int64s1": types.Array(types.int64, 1, "C", readonly=True),
        "read_bools2": types.Array(types.boolean, 2, "C", readonly=True),
    }
    if word in plain:
        return plain[word]
    # Arrays that a kernel only reads may be read-only, as JAX arrays are.
    kind, axes = word[:-1], int(word[-1])
    return types.Array(types.float64, axes, "C", readonly=kind == "read")


class _Locator(_CacheLocator):
    """One folder for all kernels, whose name changes with their sources."""

    def get_cache_path(self) -> Any:
        return str(code_folder())

    def get_source_stamp(self) -> Any:
        return "named after the sources"

    def get_disambiguator(self) -> Any:
        return "kernel"

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> "_Locator":
        return cls()


class _Files(CompileResultCacheImpl):
    _locator_classes: ClassVar[list[Any]] = [_Locator]


class _Cache(FunctionCache):
    """Numba's cache; on a damaged file or a full disk it compiles instead of failing."""

    _impl_class = _Files

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # pickle may raise anything on damaged bytes
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)


_REGISTERED: set[Any] = set()


def machine_code(function: Any) -> Any:
    """Compile a kernel, or load it from its folder."""
    for part in PARTS:
        if part not in _REGISTERED:
            _REGISTERED.add(part)
            register_jitable(error_model="numpy", forceinline=part in INLINE)(part)
    words = KERNELS[function]
    options: Any = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
    kernel: Any = numba.njit(**options)(function)
    if code_folder() is not None:
        kernel._cache = _Cache(function)
    kernel.compile(types.intp(*map(_type_of, words.split())))
    kernel.disable_compile()
    return kernel
