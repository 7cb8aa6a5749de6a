"""Input checks whose errors name the argument, what was expected, what was found, and where.

Every public constructor and function validates its input through this module, so that all
errors of the library have the same form. All of them are `InputError`s, which are `ValueError`s.

For values traced by JAX only the shapes are checked, since their entries cannot be read.
"""

import dataclasses
import functools
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.core import kernels
from equipoise.core.devices import is_traced, on_accelerator
from equipoise.core.errors import InputError
from equipoise.core.machine import memory
from equipoise.core.reductions import total

#: Largest distance of a probability vector's sum from one that is accepted.
PROBABILITY_TOLERANCE = 1e-6
#: Largest discount of a game without a horizon, whose values are up to 2**40 rewards: float64 has
#: 53 bits.
LARGEST_DISCOUNT = 1.0 - 2.0**-40
#: From this many numbers on, a temporary array costs more than a function call.
_LARGE = 10_000


def check_concrete(verb: str, pure: Mapping[str, str], game: Any, *policies: Any) -> None:
    """Reject games and policies inside a JAX transformation, whose entries cannot be read.

    `pure` maps a kind of game to the function of `equipoise.pure` for it, if there is one.
    """
    if "jax" in sys.modules and not all(map(_is_concrete, (game, *policies))):
        found = pure.get(game.kind)
        raise InputError(
            "game",
            "concrete numbers",
            "traced ones",
            f"`{verb}` does not work inside `jax.jit`, `jax.vmap` or `jax.grad`: "
            + (f"use `equipoise.pure.{found}` there" if found else "call it outside of them"),
        )


def _is_concrete(value: Any) -> bool:
    """Whether no leaf is traced; avoids JAX's tree traversal for games and policies."""
    kind = type(value)
    if kind in _CONCRETE:
        return True
    if kind is tuple:
        return all(map(_is_concrete, value))
    if (names := _leaves(kind)) is None:
        return not _has_traced(value)
    leaves = [getattr(value, name) for name in names]  # a generator would take longer
    return all(map(_is_concrete, leaves))


def _has_traced(values: Any) -> bool:
    """Whether a leaf of a pytree is traced, which takes JAX."""
    if "jax" not in sys.modules:
        return False
    import jax

    return any(map(is_traced, jax.tree.leaves(values)))


_CONCRETE = frozenset((np.ndarray, float, int, bool, str, type(None)))


@functools.cache
def _leaves(kind: type) -> tuple[str, ...] | None:
    """Return the names of the fields that JAX sees; None for what is no dataclass."""
    if not dataclasses.is_dataclass(kind):
        return None
    parts: Any = kind
    return tuple(f.name for f in dataclasses.fields(parts) if not f.metadata.get("static"))


def check_known(name: str, values: Any, expected: str = "concrete numbers") -> None:
    """Reject traced values where entries are needed, in an argument or anywhere in a pytree."""
    if _has_traced(values):
        hint = "create it outside `jax.jit`, `jax.vmap` and `jax.grad`"
        raise InputError(name, expected, "a traced value", hint)


def as_float_array(name: str, value: Any, *, copy: bool = True, booleans: bool = True) -> Any:
    """Return `value` as a new float64 NumPy array; a JAX tracer is returned unchanged.

    With `copy` false, the array may share memory. With `booleans` false, booleans are rejected,
    since they are not probabilities.
    """
    if is_traced(value):
        return value
    masked = "numpy.ma" in sys.modules and isinstance(value, np.ma.MaskedArray)  # slow to import
    if masked and np.ma.getmaskarray(value).any():
        where = first_index(np.ma.getmaskarray(value))
        raise InputError(name, "numbers", f"a masked entry{_at(where)}")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(
            name, "a rectangular array of numbers", "rows of different lengths"
        ) from error
    if array.dtype.kind == "b" and not booleans:
        raise InputError(name, "numbers", "booleans")
    if not np.can_cast(array.dtype, np.float64, "same_kind"):
        raise InputError(name, "real numbers", f"dtype {array.dtype}")
    return array.astype(np.float64, copy=copy)


def check_ndim(name: str, array: Any, at_least: int, meaning: str) -> None:
    """Reject an array with fewer than `at_least` axes, or with an empty one among the last."""
    if array.ndim < at_least:
        raise InputError(name, f"at least {at_least} axes, {meaning}", f"shape {array.shape}")
    if 0 in array.shape[array.ndim - at_least :]:
        raise InputError(name, f"no empty axis among {meaning}", array.shape)


def check_shape(name: str, array: Any, expected: Sequence[int], meaning: str) -> None:
    """Reject an array whose shape is not `expected`."""
    if tuple(array.shape) != tuple(expected):
        raise InputError(name, f"shape {tuple(expected)}, {meaning}", tuple(array.shape))


def first_index(mask: np.ndarray | np.bool_) -> tuple[int, ...]:
    """Return the index of the first true entry of `mask`."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def check_finite(name: str, array: Any) -> None:
    """Reject NaN and infinities; the error names the first."""
    there = on_accelerator(array)
    if is_traced(array) or (there and sys.modules["jax"].numpy.isfinite(array).all()):
        return
    values = np.asarray(array)
    large = values.size > _LARGE and values.flags.c_contiguous
    if large and not kernels.over_games(_doubtful, values.size, 5e-10, values.reshape(-1)):
        return  # found without temporary arrays, on all cores
    fine = np.isfinite(values)
    if not fine.all():
        where = first_index(~fine)
        raise InputError(name, "finite numbers", f"{values[where]}{_at(where)}")


def _doubtful(values: np.ndarray, first: int, last: int) -> int:
    """Whether the sum of a part is not finite: some number is not, or they are very large."""
    with np.errstate(all="ignore"):
        return int(not np.isfinite(values[first:last].sum()))


def check_probabilities(name: str, array: Any, tolerance: float = PROBABILITY_TOLERANCE) -> Any:
    """Reject rows (last axis) that have a negative entry or do not sum to one.

    Returns the rows with errors within the tolerance corrected: no negative entry, and sums of one
    up to rounding. A policy that sums to 0.999999 would otherwise seem to lose a millionth of its
    value, which is not small with large payoffs or long horizons.
    """
    if is_traced(array):
        return array
    values = np.asarray(array)
    sums = total(values)
    if not np.isfinite(sums).all():  # one pass over large tables, not two
        check_finite(name, array)
    lowest = values.min() if values.size else 0.0
    if lowest < -tolerance:
        where = first_index(values < -tolerance)
        raise InputError(name, "probabilities >= 0", f"{values[where]:.6g}{_at(where)}")
    error = np.abs(sums - 1.0)
    if (error > tolerance).any():
        where = first_index(error > tolerance)
        found = f"a sum of {sums[where]:.6g}{_at(where)}"
        raise InputError(name, "probabilities that sum to 1", found)
    if lowest >= 0.0 and not (error > 64 * np.finfo(np.float64).eps).any():
        return values
    values = np.maximum(values, 0.0)
    return values / total(values)[..., None]


def _at(where: tuple[int, ...]) -> str:
    """Return the position in an array as text; empty for a single number."""
    return f" at {list(where)}" if where else ""


def check_range(
    name: str,
    value: Any,
    low: float,
    high: float,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> None:
    """Reject a scalar outside an interval, which is closed unless stated otherwise."""
    if type(value) is float and low < value < high:  # the usual case, checked fast
        return
    left, right = "(" if low_open else "[", ")" if high_open else "]"
    expected = f"a number in {left}{low}, {high}{right}"
    check_known(name, value, expected)
    number = hasattr(value, "__float__") and not np.ndim(value)
    if isinstance(value, bool | str | bytes) or not number:
        raise InputError(name, expected, repr(value)[:60])
    above = value > low if low_open else value >= low
    below = value < high if high_open else value <= high
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise InputError(name, expected, "a whole number beyond float64")
    if not (above and below):
        raise InputError(name, expected, value)


def check_discount(value: Any) -> None:
    """Reject a discount of a game without a horizon that float64 cannot tell from one."""
    check_range("discount", value, 0.0, 1.0, high_open=True)
    if value > LARGEST_DISCOUNT:
        hint = "with `horizon=`, a discount of up to 1 is allowed"
        expected = "at most 1 - 2**-40 in a game without a horizon"
        raise InputError("discount", expected, repr(float(value)), hint)


def check_count(name: str, value: Any, at_least: int = 1) -> int:
    """Return `value` as an int; reject anything but a whole number of at least `at_least`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if isinstance(value, float | np.floating):
        whole = float(value).is_integer()
    if not whole or value < at_least:
        raise InputError(name, f"a whole number >= {at_least}", repr(value))
    return int(value)


def check_memory(name: str, factors: Sequence[float], what: str, advice: str) -> None:
    """Reject arrays that would take more than half of this machine's memory, before allocation.

    `factors` multiply to a number of bytes, `what` names the arrays, and `advice` says what to
    change.

    >>> check_memory("agents", (8, 1e9, 1e9), "the weights", "use fewer agents")
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: agents: expected arrays of at most half of this machine's
    memory, found 8e+18 bytes for the weights; use fewer agents
    """
    try:
        size = math.prod(map(float, factors))
    except OverflowError:
        size = math.inf
    if not size <= memory() / 2:
        limit = "arrays of at most half of this machine's memory"
        raise InputError(name, limit, f"{size:.3g} bytes for {what}", advice)


def plain_numbers(name: str, value: Any, depth: int = 8) -> Any:
    """Return numbers of a plain form: an array unchanged, a list checked, indexed parts as list."""
    if isinstance(value, Mapping):
        if sorted(map(str, value)) != sorted(map(str, range(len(value)))):
            raise InputError(name, "parts 0, 1, ...", sorted(map(str, value)))
        return [plain_numbers(f"{name}[{i}]", value[str(i)]) for i in range(len(value))]
    if isinstance(value, list | tuple) and name == "strategies":
        return [plain_numbers(f"{name}[{i}]", part) for i, part in enumerate(value)]
    if isinstance(value, list | tuple):
        _check_numbers(name, value, depth)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(name, "rows of equal length", "different lengths") from error
    if array.dtype.kind not in "fiu":
        raise InputError(name, "numbers", _in_words(array))
    return array


def check_listed(name: str, value: Any) -> None:
    """Reject lists of a file that contain anything but numbers, wherever they are; names may be."""
    parts = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, part in parts:
        where = f"{name}[{key!r}]"
        if isinstance(part, Mapping):
            check_listed(where, part)
        elif isinstance(part, list):
            _check_numbers(where, part, 8)
        elif isinstance(part, bool):
            raise InputError(where, "numbers", repr(str(part)))


def _check_numbers(name: str, value: Sequence[Any], depth: int) -> None:
    """Reject nested lists that contain anything but numbers; True is not a number."""
    for item in value:
        if isinstance(item, list | tuple):
            if not depth:
                raise InputError(name, "an array", "lists nested too deeply")
            _check_numbers(name, item, depth - 1)
        elif isinstance(item, bool) or not isinstance(item, int | float | np.number | np.ndarray):
            raise InputError(name, "numbers", repr(str(item)[:40]))


def _in_words(array: np.ndarray) -> str:
    """Describe the contents of an array without numbers."""
    if array.dtype.kind in "US" and array.size:
        return f"strings, such as {str(array.flat[0])[:40]!r}"
    return {"b": "true and false", "c": "complex numbers"}.get(array.dtype.kind, "no number")
