"""Arrays that live on an accelerator: what is given there is computed there, and stays there.

A JAX array on a CPU is read as a NumPy array, without a copy, since compiled kernels are faster
there than XLA. One on a GPU or a TPU is never fetched: ten million 3 x 3 games are 0.7 GB, which
take longer to travel than to solve.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from equipoise.core.precision import double_precision

#: Platforms whose arrays NumPy reads in place.
_HOSTS = {"cpu"}
#: Slices that one program works off: starting one takes as long as thousands of small games.
_TOGETHER = 16


def on_accelerator(array: Any) -> bool:
    """Whether an array is one of JAX's, concrete, and not on a CPU.

    >>> on_accelerator(np.zeros(3))
    False
    """
    if type(array) is np.ndarray or not isinstance(array, jax.Array):
        return False
    if isinstance(array, jax.core.Tracer):
        return False
    return next(iter(array.devices())).platform not in _HOSTS


def doubles(array: Any) -> AbstractContextManager[None]:
    """A context for arithmetic on an array in float64: that of NumPy needs none."""
    return nullcontext() if type(array) is np.ndarray else double_precision()


def in_pieces(
    function: Callable[..., Any], most: int, arrays: Sequence[Any], *numbers: float, **options: Any
) -> Any:
    """`function(*slices, *numbers, **options)` over slices of the first axis, its results joined.

    The function is compiled, and its options are static. All slices are as long as the largest
    power of two up to `most` and the length of the arrays, and the last one begins early enough for
    that, so that at most two programs are compiled for each size: of one slice, and of many.

    >>> import jax
    >>> twice = jax.jit(lambda x: {"twice": 2 * x})
    >>> in_pieces(twice, 2, [jnp.arange(5.0)])["twice"].tolist()
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    length, first, parts = len(arrays[0]), 0, []
    size = 1 << (min(most, length).bit_length() - 1)
    static = tuple(options.items())
    while first < length:
        count = _TOGETHER if length - first >= _TOGETHER * size else 1
        start = min(first, length - size)
        slices = [
            a if size == length else jax.lax.dynamic_slice_in_dim(a, start, count * size)
            for a in arrays
        ]
        part = _one_by_one(function, count, static, slices, numbers)
        parts.append(jax.tree.map(lambda a, skip=first - start: a[skip:] if skip else a, part))
        first = start + count * size
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *a: jnp.concatenate(a), *parts)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _one_by_one(
    function: Callable[..., Any], count: int, options: Any, arrays: Any, numbers: Any
) -> Any:
    """`function` over so many slices in one program, which starts once."""
    if count == 1:
        return function(*arrays, *numbers, **dict(options))
    arrays = [a.reshape(count, -1, *a.shape[1:]) for a in arrays]
    found = jax.lax.map(lambda part: function(*part, *numbers, **dict(options)), arrays)
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), found)
