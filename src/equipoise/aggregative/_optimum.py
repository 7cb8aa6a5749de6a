"""An upper bound on the welfare of every profile, for an aggregate with a few coordinates.

The total reward that agents can earn at an aggregate in a cell is at most the value of a linear
program, which is at most its dual value at any prices of the coordinates:
`sum_t q_t max_a (w_ta - y . f_ta) + y . x + |y| . half`, where `w` bounds the rewards in the cell.
All cells of a level are processed together. Their prices come from a few steps of Newton's method
on the dual with a soft maximum, with a warm start from the parent cell's prices. Suboptimal prices
make a bound looser and never wrong. Cells whose bound does not exceed the best welfare found are
dropped, and the others are halved.
"""

from collections.abc import Callable

import numpy as np

from equipoise.aggregative._cells import Stage, children, tile
from equipoise.aggregative._replies import Replies

#: Limits: rewards evaluated, and cells at once.
_WORK, _CHUNK = 40_000_000, 5_000


def bound_welfare(
    stage: Stage,
    sign: float,
    spacing: float,
    replies: Replies,
    offer: Callable[[np.ndarray], float],
    enough: float,
    effort: float = 1.0,
    small_cells: float = np.inf,
) -> tuple[float, int]:
    """Upper bound on the welfare of every profile, and the number of cells evaluated.

    `offer` takes candidate shares of actions (types, actions) and returns the best welfare found so
    far. The search ends when the bound is at most `enough` above it, when the fraction
    `effort` of the allowed work or `small_cells` cells are done, or when the time of the whole
    search is over.
    """
    one = stage.influence.shape[0] * stage.influence.shape[1]
    most = effort * _WORK // (one * (1 + 4 * stage.dimensions * stage.sampled))
    most = min(most, small_cells)
    centres, half = tile(stage.low, stage.high, spacing)
    duals = Duals(stage, sign)
    prices = np.zeros_like(centres)
    dropped, cells, soft = -np.inf, 0, duals.spread
    limits = np.full(len(centres), np.inf)
    while True:
        cells += len(centres)
        # A softness of a tenth of the variation of rewards in a cell costs next to nothing.
        softest = max(0.1 * duals.variation(centres[:1], half), 1e-9 * duals.spread)
        steps = [soft * 0.4**k for k in range(30) if soft * 0.4**k > softest]
        steps = [each for each in steps for _ in range(2)] + [softest] * 3
        soft, found = 16.0 * softest, np.empty(len(centres))
        shares: tuple[float, np.ndarray | None] = (-np.inf, None)
        for start in range(0, len(centres), _CHUNK):
            part = slice(start, start + _CHUNK)
            found[part], prices[part], best = duals.promises(
                centres[part], half, prices[part], steps
            )
            shares = max(shares, best, key=lambda each: each[0])
            if replies.late:
                return float(max(dropped, limits.max(initial=-np.inf))), cells
        found = np.minimum(found, limits)
        worth = offer(np.asarray(shares[1]))
        replies.tell(cells=cells, bound=float(found.max()), worth=worth)
        kept = found > worth + enough
        dropped = max(dropped, float(found[~kept].max(initial=-np.inf)))
        centres, prices, limits = centres[kept], prices[kept], found[kept]
        parts = 2 ** int((half > 0).sum())
        if not len(centres) or cells + parts * len(centres) > most:
            return float(max(dropped, limits.max(initial=-np.inf), worth)), cells
        centres, half = children(centres, half)
        prices, limits = np.repeat(prices, parts, axis=0), np.repeat(limits, parts)


class Duals:
    """Dual values of the programs of many cells."""

    def __init__(self, stage: Stage, sign: float):
        self.stage, self.sign = stage, sign
        self.share = stage.counts / stage.agents
        #: (types, actions, d): influences whose mean over agents is the aggregate.
        self.influence = stage.influence * (stage.scale * stage.agents)
        middle = stage.rewards(np.stack([stage.low, (stage.low + stage.high) / 2, stage.high]))
        self.spread = max(float(np.ptp(middle)), 1e-12)
        self.across = np.ptp(self.influence, axis=1).max(0)
        self.most = 100.0 * self.spread / np.maximum(self.across, 1e-300)

    def variation(self, centres: np.ndarray, half: np.ndarray) -> float:
        """Variation of the rewards in a cell."""
        return float(self.stage.variation(centres, half).max())

    def promises(
        self, centres: np.ndarray, half: np.ndarray, prices: np.ndarray, steps: list[float]
    ) -> tuple[np.ndarray, np.ndarray, tuple[float, np.ndarray]]:
        """Bounds, prices, and the largest bound with the shares of actions in its cell."""
        stage = self.stage
        weights = self.sign * (
            stage.rewards(centres) if stage.welfare is None else stage.welfare[None]
        )
        if stage.welfare is None:
            weights = weights + stage.variation(centres, half)
        weights = np.broadcast_to(weights, (len(centres), *stage.influence.shape[:2]))
        if stage.importance is not None:
            weights = weights * stage.importance[None, :, None]
        for soft in steps:
            prices = self._newton(weights, centres, half, prices, soft)
        bound = np.minimum(
            self._dual(weights, centres, half, prices),
            self._dual(weights, centres, half, 0.0 * prices),
        )
        if stage.ahead is not None:
            ahead = self.sign * stage.ahead(centres)
            bound = bound + ahead + stage.ahead_lipschitz * float(half.max())
        top = int(bound.argmax())
        shares = self._soft(weights[top : top + 1], prices[top : top + 1], steps[-1])[1][0]
        return bound, prices, (float(bound[top]), shares)

    def _scores(self, weights: np.ndarray, prices: np.ndarray) -> np.ndarray:
        """(cells, types, actions): weights minus the charges at the prices."""
        return weights - np.einsum("tad,nd->nta", self.influence, prices)

    def _dual(
        self, weights: np.ndarray, centres: np.ndarray, half: np.ndarray, prices: np.ndarray
    ) -> np.ndarray:
        """(cells,): the exact dual values."""
        best = self._scores(weights, prices).max(2) @ self.share
        return best + (prices * centres).sum(1) + np.abs(prices) @ half

    def _soft(
        self, weights: np.ndarray, prices: np.ndarray, soft: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """(cells,) and (cells, types, actions): sums of soft maxima, and shares of actions."""
        scores = self._scores(weights, prices)
        top = scores.max(2, keepdims=True)
        shares = np.exp((scores - top) / soft)
        total = shares.sum(2, keepdims=True)
        values = (top + soft * np.log(total))[:, :, 0] @ self.share
        return values, shares / total

    def _newton(
        self,
        weights: np.ndarray,
        centres: np.ndarray,
        half: np.ndarray,
        prices: np.ndarray,
        soft: float,
    ) -> np.ndarray:
        """Take one step on the dual with soft maxima and edges, shortened until it helps."""
        near = (soft / np.maximum(self.across, 1e-300)) ** 2

        def value(prices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            best, shares = self._soft(weights, prices, soft)
            root = np.sqrt(prices**2 + near)
            return best + (prices * centres).sum(1) + root @ half, shares, root

        least, shares, root = value(prices)
        mean = np.einsum("nta,tad->ntd", shares, self.influence)
        slope = centres - np.einsum("t,ntd->nd", self.share, mean) + half * prices / root
        square = np.einsum(
            "t,nta,tad,tae->nde", self.share, shares, self.influence, self.influence, optimize=True
        )
        curve = (square - np.einsum("t,ntd,nte->nde", self.share, mean, mean)) / soft
        size = np.einsum("ndd->n", square)[:, None] / soft
        flat = half * near / root**3 + 1e-9 * np.maximum(size, 1e-300)
        curve = curve + flat[:, :, None] * np.eye(len(half))
        step = -np.linalg.solve(curve, slope[:, :, None])[:, :, 0]
        # Where nearly all agents play one action the dual is flat, and steps must stay short.
        moved = np.abs(step) @ self.across
        step = step * np.minimum(1.0, 4.0 * soft / np.maximum(moved, 1e-300))[:, None]
        best = prices
        for part in (1.0, 0.3):
            trial = np.clip(prices + part * step, -self.most, self.most)
            found = value(trial)[0]
            best = np.where((found < least)[:, None], trial, best)
            least = np.minimum(found, least)
        return best
