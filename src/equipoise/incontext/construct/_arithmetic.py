"""Arithmetic as layers: division, logarithms, and the projection onto the truncated simplex.

Division does not need the paper's Assumption 4.1. It uses a piecewise-linear start and Newton
steps. A ReLU network interpolates `1 / z` on `[low, high]` with N pieces. With knots in geometric
progression every piece has the same largest relative error `e`, and scaling by `2 / (2 + e)`
balances it over both signs, so that `|1 - z rho|` is at most `e / (2 + e)`. A Newton step
`rho <- rho (2 - z rho)` squares this residual. Attention heads compute the products.

The projection is exact because it is piecewise linear. With `w = v - floor` it is
`floor + relu(w - theta)`, where `theta` is the maximum over k of
`(sum of the k largest w - (1 - A floor)) / k`: each of these is the threshold for k active actions,
and a wrong k makes it smaller. The network therefore sorts (a comparator is one ReLU), forms A
linear combinations, and takes their maximum. The paper replaces this step by a smooth surrogate;
see `equipoise.incontext.construct.surrogate_step`.

A softmax of a linear map of `x` is never `x`, but a softmax of `log x` is. One more layer
interpolates `log x` on `[0, 1]`. What counts is the error of `exp`, so that knots at `(k / N)^2`
serve best: a piece of width h at x has the error `h^2 / (8 x)`, which is `1 / (2 N^2)` on all of
them.
"""

from dataclasses import dataclass
from math import ceil, log, log2
from typing import ClassVar

import numpy as np

from equipoise.incontext.construct._blocks import Blueprint, Unit

#: Newton steps are taken until the residual is below this, which is below double precision.
EXACT = 1e-17


@dataclass(frozen=True)
class Reciprocal:
    """An approximation of `1 / z` on `[low, high]` by `units` linear pieces and Newton steps.

    **Example**

    >>> start = Reciprocal(low=0.05, high=1.5, units=1)
    >>> round(start.start_residual, 3), start.exact_steps()
    (0.778, 8)
    >>> exact = Reciprocal(low=0.05, high=1.5, units=1, newton_steps=8)
    >>> abs(float(exact(0.4)) - 2.5) < 1e-14
    True
    """

    #: Lower end of the interval.
    low: float
    #: Upper end of the interval.
    high: float
    #: Number of linear pieces.
    units: int = 1
    #: Number of Newton steps after the linear pieces.
    newton_steps: int = 0

    @property
    def knots(self) -> np.ndarray:
        """Endpoints of the pieces, in geometric progression."""
        return np.geomspace(self.low, self.high, self.units + 1)

    @property
    def start_residual(self) -> float:
        """Largest `|1 - z rho|` of the piecewise-linear start."""
        excess = self._excess()
        return excess / (2.0 + excess)

    @property
    def residual(self) -> float:
        """Largest `|1 - z rho|` after the Newton steps, in exact arithmetic."""
        return self.start_residual ** (2.0**self.newton_steps)

    def exact_steps(self) -> int:
        """Number of Newton steps after which the residual is below rounding error."""
        return max(0, ceil(log2(log(EXACT) / log(self.start_residual))))

    def __call__(self, z: float | np.ndarray) -> np.ndarray:
        """Return the approximation, computed in the same way as by the layers."""
        z = np.asarray(z, float)
        offset, slope, kinks = self._pieces()
        rho = offset + slope * z + sum(jump * np.maximum(z - knot, 0.0) for knot, jump in kinks)
        for _ in range(self.newton_steps):
            rho = rho + rho * (1.0 - z * rho)
        return rho

    def add_to(self, plan: Blueprint) -> None:
        """Add layers for `rho += 1 / (z + beta)` and `z += beta`.

        The layers read the coordinates `one`, `z` and `beta`, all of them positive. `scratch` is
        zero before and after.
        """
        layout = plan.layout
        one, z, beta, rho = (layout[name][0] for name in ("one", "z", "beta", "rho"))
        offset, slope, kinks = self._pieces()
        plan.mlp(
            f"z += beta; rho = {self.units} linear pieces of 1 / z",
            Unit(one, offset * rho),
            Unit(z + beta, slope * rho),
            *(Unit(z + beta - knot * one, jump * rho) for knot, jump in kinks),
            Unit(beta, z),
        )
        scratch = layout["scratch"]
        for step in range(1, self.newton_steps + 1):
            plan.own(f"Newton {step}: scratch = z rho", plan.product("z", "rho", "scratch"))
            plan.own(
                f"Newton {step}: rho += rho (1 - scratch)",
                plan.product("rho", layout["one"] - scratch, "rho"),
                plan.clear("scratch"),
            )

    def _excess(self) -> float:
        """Return the largest relative error of a chord of `1 / z`; chords lie above the curve."""
        root = (self.high / self.low) ** (0.5 / self.units)
        return (root + 1.0 / root) ** 2 / 4.0 - 1.0

    def _pieces(self) -> tuple[float, float, list[tuple[float, float]]]:
        """Return offset and slope of the first piece, and (knot, change of slope) of the others."""
        knots = self.knots
        scale = 2.0 / (2.0 + self._excess())
        slopes = -scale / (knots[:-1] * knots[1:])
        offset = scale / knots[0] - slopes[0] * knots[0]
        kinks = list(zip(knots[1:-1].tolist(), np.diff(slopes).tolist(), strict=True))
        return float(offset), float(slopes[0]), kinks


@dataclass(frozen=True)
class Logarithm:
    """An approximation of `log x` on `[0, 1]` by `units` linear pieces, to be read by a softmax.

    The knots are `(k / units)^2`. On the first piece, where `log x` has no bound, the value at 0 is
    `FIRST` below the value at the first knot.

    **Example**

    >>> fine = Logarithm(units=64)
    >>> abs(float(np.exp(fine(0.3))) - 0.3) < fine.residual < 1.3e-4
    True
    """

    #: Number of linear pieces.
    units: int = 64

    #: With this fall, the errors at both ends of the first piece are about equal.
    FIRST: ClassVar[float] = 1.95

    @property
    def knots(self) -> np.ndarray:
        """Endpoints of the pieces."""
        return (np.arange(self.units + 1) / self.units) ** 2

    @property
    def residual(self) -> float:
        """Largest `|exp(l(x)) - x|` on `[0, 1]`, in exact arithmetic: about `1 / (2 units^2)`.

        On a piece of slope s, `x - exp(l(x))` is concave, with its maximum where `exp(l(x))` is
        `1 / s`; it vanishes at all knots but 0, where it is negative.
        """
        values, slopes = self._values(), self._slopes()
        peak = self.knots[:-1] + (-np.log(slopes) - values[:-1]) / slopes
        inside = (peak > self.knots[:-1]) & (peak < self.knots[1:])
        return float(max((peak - 1.0 / slopes)[inside].max(initial=0.0), np.exp(values[0])))

    def bound(self, actions: int) -> float:
        """Upper bound on the Euclidean distance between a policy and its softmax read-out.

        With `exp(l(x_a)) = x_a + d_a`, `|d_a| <= D` and S the sum of all d, the read-out is off by
        `(d_a - x_a S) / (1 + S)`. These sum to 0, and their sizes to at most `2 A D / (1 - A D)`.

        >>> Logarithm(units=64).bound(3) < 6e-4
        True
        """
        total = actions * self.residual
        return 2.0**0.5 * (total / (1.0 - total) if total < 0.5 else 1.0)

    def __call__(self, x: float | np.ndarray) -> np.ndarray:
        """Return the approximation, computed in the same way as by the layer."""
        x = np.asarray(x, float)
        value = self._values()[0] + self._slopes()[0] * x
        for knot, jump in self._kinks():
            value = value + jump * np.maximum(x - knot, 0.0)
        return value

    def add_to(self, plan: Blueprint, numbers: np.ndarray, target: str) -> None:
        """Add a layer for `target += log(numbers)`; the rows `numbers` are not negative."""
        one = plan.layout["one"][0]
        start, slope = self._values()[0], self._slopes()[0]
        units = [Unit(one, start * plan.layout[target].sum(0))]
        for number, row in zip(numbers, plan.layout[target], strict=True):
            for knot, jump in [(0.0, slope), *self._kinks()]:
                # Both matrices take an equal share of a jump, which keeps the norm small.
                share = abs(jump) ** 0.5
                units.append(Unit(share * (number - knot * one), jump / share * row))
        plan.mlp(f"{target} = {self.units} linear pieces of log x for every action", *units)

    def _values(self) -> np.ndarray:
        """Return the values at the knots."""
        exact = np.log(self.knots[1:])
        return np.append(exact[0] - self.FIRST, exact)

    def _slopes(self) -> np.ndarray:
        return np.diff(self._values()) / np.diff(self.knots)

    def _kinks(self) -> list[tuple[float, float]]:
        """Return (knot, change of slope) of the pieces after the first."""
        jumps = np.diff(self._slopes())
        return list(zip(self.knots[1:-1].tolist(), jumps.tolist(), strict=True))


def add_projection(plan: Blueprint, actions: int, target: str, offset: float = 0.0) -> None:
    """Add layers for `target += projection of v - offset`.

    The layers read `v`, `w = v - floor`, `floor` and `one`. They leave the threshold in `w[0]` and
    unspecified values in the rest of `w`.
    """
    layout = plan.layout
    w, v = layout["w"], layout["v"]
    one, floor = layout["one"][0], layout["floor"][0]
    for stage in range(actions if actions > 2 else 1):  # odd-even transposition sort
        first = stage % 2
        pairs = [(w[i], w[i + 1]) for i in range(first, actions - 1, 2)]
        exchanges = [Unit(lower - upper, upper - lower) for upper, lower in pairs]
        plan.mlp(f"sort w: neighbours {first}-{first + 1}, ...", *exchanges)
    sums = np.tril(np.ones((actions, actions))) / np.arange(1, actions + 1)[:, None]
    mass = (one - actions * floor)[None] / np.arange(1, actions + 1)[:, None]
    plan.own(
        "w[k] = (sum of the k largest - mass) / k",
        plan.linear((sums - np.eye(actions)) @ w - mass, w),
    )
    gap = 1
    while gap < actions:
        pairs = range(0, actions - gap, 2 * gap)
        plan.mlp("maximum of pairs", *(Unit(w[i + gap] - w[i], w[i]) for i in pairs))
        gap *= 2
    rows = layout[target]
    plan.mlp(
        f"{target} = floor + relu(v - floor - w[0])",
        *(Unit(v[a] - floor - w[0], rows[a]) for a in range(actions)),
        Unit(floor, rows.sum(0)),
        *([Unit(one, -offset * rows.sum(0))] if offset else []),
    )
