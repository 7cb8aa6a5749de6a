"""Values that a compiled loop should compute once.

XLA on a CPU fuses cheap operations into every consumer and recomputes them in each. In a loop body
of a hundred small operations that multiplies the work by two or three. A value that also leaves the
loop is not duplicated. Therefore `once` marks a value, and the loop that collects the marked values
returns them. The marks change no result, only the time it takes.

**Example**

>>> import jax.numpy as jnp
>>> with collecting() as marked:
...     y = once(jnp.ones(2)) + 1.0
>>> len(marked), once(3.0)
(1, 3.0)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_MARKED: ContextVar[list[Any] | None] = ContextVar("marked", default=None)


def once(value: T) -> T:
    """Return `value`; inside `collecting`, also request that the loop computes it only once."""
    marked = _MARKED.get()
    if marked is not None:
        marked.append(value)
    return value


@contextmanager
def collecting(active: bool = True) -> Iterator[list[Any]]:
    """Collect values marked with `once` in the block; with `active` false, collect nothing."""
    marked: list[Any] = []
    token = _MARKED.set(marked if active else None)
    try:
        yield marked
    finally:
        _MARKED.reset(token)
