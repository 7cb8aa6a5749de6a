"""Immutable values made of arrays: games and policies.

A `Value` is a JAX pytree whose arrays cannot be modified. It compares with `==` by content, copying
it returns the same object, and it can be sent between processes with `multiprocessing`.
"""

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any, dataclass_transform

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks
from equipoise.core.devices import on_accelerator
from equipoise.core.errors import InputError, check_call
from equipoise.core.precision import double_precision

#: Owners of memory that cannot be modified: a read-only array, bytes, JAX arrays.
_IMMUTABLE = (type(None), bytes, jax.Array)


@dataclass_transform(field_specifiers=(eqx.field,))
class NamedArguments(type(eqx.Module)):
    """Answers a constructor's call that does not fit in one line, with the nearest name."""

    #: What to use for further arguments by position.
    _instead = ""

    if not TYPE_CHECKING:  # a type checker would take every value for one of any type

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Create a value."""
            try:
                return cls._create(*args, **kwargs)
            except TypeError:
                check_call(cls.__init__, cls.__name__, args, kwargs, 1, cls._instead)
                raise

        def _create(cls, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(*args, **kwargs)


@dataclass_transform(field_specifiers=(eqx.field,))
class _WriteOnce(NamedArguments):
    """Creates values without Equinox's bookkeeping, which takes longer than a small game does."""

    if not TYPE_CHECKING:

        def _create(cls, *args: Any, **kwargs: Any) -> Any:
            value: Any = object.__new__(cls)
            value.__init__(*args, **kwargs)
            return value


class Value(eqx.Module, metaclass=_WriteOnce):
    """Base of immutable values; subclasses freeze their arrays with `read_only`.

    A field can be set once, in the constructor.
    """

    # Equinox makes a pytree of every method that is looked up, which takes 20 us.
    __getattribute__ = object.__getattribute__

    def __setattr__(self, name: str, content: Any) -> None:
        if name in self.__dict__ or name not in type(self).__dataclass_fields__:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, content)

    def __eq__(self, other: object) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        return same(self, other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves(self))
        return hash((type(self).__qualname__, shapes))

    def __copy__(self) -> "Value":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Value":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return _restore, (type(self), fields)


def _restore(kind: type[Value], fields: dict[str, Any]) -> Value:
    """Rebuild a value sent from another process; its arrays arrive writeable."""
    value = object.__new__(kind)
    for name, content in fields.items():
        jax.tree.map(_freeze, content)
        object.__setattr__(value, name, content)
    return value


def _freeze(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        leaf.setflags(write=False)
    return leaf


def frozen(tree: Any) -> Any:
    """Make the NumPy arrays of a pytree read-only in place; no other code may hold them.

    >>> frozen({"x": np.zeros(2)})["x"].flags.writeable
    False
    """
    return jax.tree.map(_freeze, tree)


def read_only(name: str, value: Any, *, booleans: bool = True, on_device: bool = False) -> Any:
    """Return `value` as a read-only float64 array; a JAX tracer is returned unchanged.

    With `on_device`, an array on an accelerator stays there.

    The array is copied only if other code could modify it: an array that is read-only already,
    including the memory it views, is shared.

    >>> read_only("payoff", [[1, 2]]).flags.writeable
    False
    """
    if checks.is_traced(value):
        return value
    if on_device and on_accelerator(value):
        if not np.can_cast(value.dtype, np.float64, "same_kind"):
            raise InputError(name, "real numbers", f"dtype {value.dtype}")
        with double_precision():
            return value.astype(jnp.float64)
    array = checks.as_float_array(name, value, copy=False, booleans=booleans)
    fresh = isinstance(value, list | tuple)
    fresh |= isinstance(value, np.ndarray | jax.Array) and value.dtype != array.dtype
    return _freeze(array if fresh else _unshared(array))


def read_only_integers(name: str, value: Any, dtype: Any = np.int64) -> np.ndarray:
    """Return `value` as a read-only array of whole numbers, copied only if it could be modified.

    >>> read_only_integers("rows", [0, 2])
    array([0, 2])
    """
    checks.check_known(name, value, "whole numbers")
    try:
        array = np.asarray(value)
    except ValueError as error:
        found = "rows of different lengths"
        raise InputError(name, "a rectangular array of whole numbers", found) from error
    if array.dtype.kind not in "iu":
        raise InputError(name, "whole numbers", f"dtype {array.dtype}")
    own = array.astype(dtype, copy=False)
    fresh = own is not array or isinstance(value, list | tuple)
    return _freeze(own if fresh else _unshared(own))


def _unshared(array: np.ndarray) -> np.ndarray:
    """Return the array if it cannot change; otherwise a copy that stores repeated entries once."""
    base: Any = array
    while isinstance(base, np.ndarray) and not base.flags.writeable:
        base = base.base
    if isinstance(base, _IMMUTABLE):  # not a memory-mapped file, nor bytes owned elsewhere
        return array
    if 0 in array.shape or all(array.strides):
        return array.copy()  # two cores that touch new memory at once are slower
    once = tuple(slice(None) if stride else slice(0, 1) for stride in array.strides)
    return np.broadcast_to(_freeze(array[once].copy()), array.shape)


def same(first: Any, second: Any) -> bool:
    """Whether two values have the same content: arrays entry by entry, functions by identity.

    >>> same({"x": np.zeros(2)}, {"x": np.zeros(2)}), same((1, np.ones(1)), (1, np.zeros(1)))
    (True, False)
    """
    if first is second:
        return True
    if isinstance(first, np.ndarray | jax.Array) and isinstance(second, np.ndarray | jax.Array):
        return np.array_equal(np.asarray(first), np.asarray(second))
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, partial):
        parts = ("func", "args", "keywords")
        return all(same(getattr(first, part), getattr(second, part)) for part in parts)
    if dataclasses.is_dataclass(first):
        fields = dataclasses.fields(first)
        return all(same(getattr(first, f.name), getattr(second, f.name)) for f in fields)
    return bool(first == second)
