"""Rates: slopes of curves on logarithmic axes."""

from typing import Any

import numpy as np


def fit_slope(rounds: Any, values: Any, start: float | None = None) -> tuple[float, float]:
    """Fit `values = scale * rounds ** slope` by least squares of logarithms, from `start` on.

    Without `start`, the last decade of rounds is used. Returns (slope, scale); values that are
    not positive are left out.

    **Example**

    >>> import numpy as np
    >>> from equipoise.report.figures import fit_slope
    >>> t = np.arange(1, 1001)
    >>> slope, scale = fit_slope(t, 3 / np.sqrt(t))
    >>> round(slope, 6), round(scale, 6)
    (-0.5, 3.0)
    """
    t, y = np.asarray(rounds, float), np.asarray(values, float)
    if t.ndim != 1 or t.shape != y.shape:
        raise ValueError(f"values: expected one per round, {t.shape}; found {y.shape}")
    used = (t >= (t.max() / 10 if start is None else start)) & (y > 0) & (t > 0)
    if used.sum() < 2:
        raise ValueError(f"values: expected two positive ones to fit, found {used.sum()}")
    slope, offset = np.polyfit(np.log(t[used]), np.log(y[used]), 1)
    return float(slope), float(np.exp(offset))
