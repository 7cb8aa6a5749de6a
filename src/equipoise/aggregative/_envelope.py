"""Lipschitz envelopes on a grid of aggregates: the least Lipschitz bound that values allow."""

import numpy as np
from scipy import ndimage

from equipoise.core import checks


def lipschitz_envelope(
    values: np.ndarray, slope: float, spacing: float, *, upper: bool = True
) -> np.ndarray:
    """`min_{x'} v(x') + slope |x - x'|_inf` at every point of a grid, exactly.

    `values` are upper bounds of a function with that slope, on a regular grid with one axis for
    each coordinate; what comes back is the tightest bound they imply together. With
    `upper=False`, lower bounds: `max_{x'} v(x') - slope |x - x'|_inf`.

    A minimum over boxes of radius 1, 2, 4, ... reaches every distance, so the cost is that of the
    grid times the logarithm of its side, not its square.

    **Example**

    >>> import numpy as np
    >>> from equipoise.aggregative import lipschitz_envelope
    >>> lipschitz_envelope(np.array([0.0, 5.0, 5.0, 1.0]), slope=2.0, spacing=0.5).tolist()
    [0.0, 1.0, 2.0, 1.0]
    """
    values = np.asarray(values, np.float64)
    checks.check_range("slope", slope, 0.0, np.inf, high_open=True)
    checks.check_range("spacing", spacing, 0.0, np.inf, low_open=True, high_open=True)
    envelope = values.copy() if upper else -values
    radius, side = 1, max(values.shape, default=1)
    # Boxes of all powers of two up to the side compose to every distance on the grid.
    while radius < 2 * side:
        nearest = ndimage.minimum_filter(envelope, size=2 * radius + 1, mode="nearest")
        envelope = np.minimum(envelope, nearest + slope * spacing * radius)
        radius *= 2
    return envelope if upper else -envelope
