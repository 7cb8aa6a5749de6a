"""What moved between the stored outputs of a row and those of today."""

from collections.abc import Mapping
from typing import Any

import numpy as np

#: From the least to the most serious; all but the first two are reported row by row.
SAME, CLOSE, BETTER, OTHER, WORSE, STATUS, BROKEN = (
    "same bits",
    "within the tolerance",
    "a better bound",
    "another answer",
    "a worse bound",
    "another status",
    "an error",
)
ORDER = (SAME, CLOSE, BETTER, OTHER, WORSE, STATUS, BROKEN)
#: Outputs are close if they differ by at most this share of the largest of them.
TOLERANCE = 1e-6
#: Bounds within this factor and this share of the largest number of a row are the same.
FACTOR, ROUNDING = 2.0, 1e-9


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return how outputs moved, the most serious of all arrays.

    >>> compare({"upper": np.array([0.0])}, {"upper": np.array([1e-3])})
    'a worse bound'
    >>> compare({"value": np.array([1.0])}, {"value": np.array([1.0 + 1e-9])})
    'within the tolerance'
    """
    if "error" in after and "error" not in before:
        return BROKEN
    if before.keys() != after.keys():
        return OTHER
    scale = _scale(before)
    moves = [_move(name, before[name], after[name], scale) for name in before]
    return max(moves, key=ORDER.index, default=SAME)


def _scale(outputs: Mapping[str, Any]) -> float:
    """The largest finite number that a row's value has."""
    value = np.asarray(outputs.get("value", 1.0), np.float64)
    return float(np.abs(value[np.isfinite(value)]).max(initial=0.0))


def _move(name: str, before: Any, after: Any, scale: float) -> str:
    before, after = np.asarray(before), np.asarray(after)
    alike = before.dtype == after.dtype and before.shape == after.shape
    if alike and before.tobytes() == after.tobytes():
        return SAME
    if before.dtype.kind in "US" or after.dtype.kind in "US":
        return SAME if before.tolist() == after.tolist() else STATUS
    if name in ("upper", "gains", "gain"):
        return _bound(name, before.astype(float), after.astype(float), scale)
    if before.shape != after.shape:
        return OTHER
    before, after = before.astype(float), after.astype(float)
    size = np.abs(before[np.isfinite(before)]).max(initial=0.0)
    near = np.isclose(after, before, rtol=TOLERANCE, atol=TOLERANCE * size, equal_nan=True)
    return CLOSE if near.all() else OTHER


def _bound(name: str, before: np.ndarray, after: np.ndarray, scale: float) -> str:
    """Compare the largest bounds; gains that were found are not bounds, and may only be close."""
    old, new = before.max(initial=-np.inf), after.max(initial=-np.inf)
    slack = ROUNDING * scale
    if new > max(FACTOR * old, old) + slack:
        return WORSE if name == "upper" else OTHER
    if old > max(FACTOR * new, new) + slack:
        return BETTER if name == "upper" else OTHER
    return CLOSE
