"""Eight float64 numbers as one value: what Python runs in place of vector instructions.

LLVM's own vectorisation fails on these kernels: it cannot know that arrays do not overlap, and it
vectorises across the wrong loop. With lanes a kernel states its vector operations explicitly:
arithmetic, comparisons and selection act on eight numbers at once. In Python a value is a NumPy
array of eight; `_numba` replaces each function here by vector instructions, which LLVM splits if
the machine's vectors are shorter.
"""

from typing import Any

import numpy as np

#: Numbers in a value.
WIDTH = 8
#: Index of each lane.
LANES = np.arange(float(WIDTH))

_EACH = np.arange(WIDTH)


def full(number: Any) -> Any:
    """Return the same number eight times."""
    return np.full(WIDTH, number)


def where(mask: Any, a: Any, b: Any) -> Any:
    """Return `a` where the mask is true, else `b`."""
    return np.where(mask, a, b)


def load(array: Any, start: Any) -> Any:
    """Return `array[start : start + 8]`."""
    return array[start : start + WIDTH].copy()


def store(array: Any, start: Any, value: Any) -> None:
    """Set `array[start : start + 8] = value`."""
    array[start : start + WIDTH] = value


def gather(array: Any, start: Any, step: Any, lanes: Any) -> Any:
    """`array[start + l * step]` in each of the first `lanes` lanes l; the last fills the rest."""
    return array[start + step * np.minimum(_EACH, lanes - 1)]


def take(array: Any, start: Any, index: Any) -> Any:
    """`array[start + index[l] + l]` in each lane l; whole floats."""
    return array[start + index.astype(np.int64) + _EACH]


def put(array: Any, start: Any, index: Any, value: Any) -> None:
    """Set `array[start + index[l] + l] = value[l]` for each lane l."""
    array[start + index.astype(np.int64) + _EACH] = value


def some(mask: Any) -> Any:
    """Whether any of eight truth values is true."""
    return mask.any()


def largest(value: Any) -> Any:
    """Return the largest of eight numbers."""
    return value.max()


def smallest(value: Any) -> Any:
    """Return the smallest of eight numbers."""
    return value.min()


def total(value: Any) -> Any:
    """Return the sum of eight numbers, by halves."""
    four = value[:4] + value[4:]
    two = four[:2] + four[2:]
    return two[0] + two[1]
