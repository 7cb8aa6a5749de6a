"""Correlated and coarse correlated equilibria of normal forms, by linear programs.

The unknown is a distribution over the cells of the joint table. Each deviation is one row: "play
b" (coarse correlated) or "play b when a is recommended" (correlated) must not gain on average
(Aumann, 1974; Moulin and Vial, 1978). Small programs are solved whole. Large ones grow:

- *columns*: a cell joins the program when its reduced cost says that it helps. All cells are
  priced in one pass over the payoff table, by one small matrix product for each player;
- *rows*: of the n A^2 rows of a correlated equilibrium only those join that the current answer
  violates;
- the same pass gives a bound on what any equilibrium can attain, for every choice of the duals
  (Lagrange), so that the answer always stands beside a proven bound.

Rows are elastic: all may be violated by one amount, at a price. The program is then feasible from
the first cell on, and the price is raised until that amount vanishes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array

from equipoise.core import checks

CONCEPTS = ("ce", "cce")
OBJECTIVES = ("welfare", "egalitarian", "entropy")

#: Programs with at most this many entries are solved whole.
WHOLE = 150_000
#: Up to this many numbers (cells times rows) the entropy is maximised.
ENTROPY_LIMIT = 40_000_000
#: HiGHS accepts no smaller tolerance.
_FEASIBLE = 1e-10
_PRICES = (1e2, 1e4, 1e6)


@dataclass(frozen=True)
class Correlated:
    """A joint distribution, what it attains, and what no equilibrium exceeds."""

    #: (A_1, ..., A_N): the chance of each joint action.
    joint: np.ndarray
    #: The objective at `joint`; zero where none was asked for.
    objective: float
    #: Upper bound on the objective of every equilibrium.
    bound: float
    #: Largest gain of any deviation.
    gain: float
    #: Rounds of the program, and cells and deviations in the last one.
    rounds: int
    columns: int
    rows: int
    #: "optimal", "time" or "interrupted".
    ended: str


def gains(payoffs: np.ndarray, joint: np.ndarray, concept: str) -> list[np.ndarray]:
    """One array a player: what each deviation gains. (A,) for "cce", (A, A) for "ce".

    >>> dilemma = np.array([[[3.0, 0], [5, 1]], [[3, 5], [0, 1]]])
    >>> [g.tolist() for g in gains(dilemma, np.array([[1.0, 0], [0, 0]]), "cce")]
    [[0.0, 2.0], [0.0, 2.0]]
    """
    found = []
    for i, own in enumerate(payoffs):
        actions = own.shape[i]
        table = np.moveaxis(own, i, 0).reshape(actions, -1)
        chances = np.moveaxis(joint, i, 0).reshape(actions, -1)
        swapped = chances @ table.T
        swapped -= np.diag(swapped)[:, None]
        found.append(swapped if concept == "ce" else swapped.sum(0))
    return found


def largest_gain(payoffs: np.ndarray, joint: np.ndarray, concept: str) -> float:
    """Largest gain of a player: with "ce", a deviation replies to every recommendation."""
    own = gains(payoffs, joint, concept)
    return float(max(g.max(-1).sum() for g in own))


def linear_objective(payoffs: np.ndarray, objective: Any) -> np.ndarray:
    """(A_1, ..., A_N): what each cell is worth, from a name, weights or a table."""
    if isinstance(objective, str):
        if objective != "welfare":
            raise ValueError(
                f"objective: expected one of {list(OBJECTIVES)}, one weight for each player or a "
                f"table of shape {payoffs.shape[1:]}, found {objective!r}"
            )
        return payoffs.sum(0)
    array = checks.as_float_array("objective", objective)
    checks.check_finite("objective", array)
    if array.shape == (len(payoffs),):
        return np.tensordot(array, payoffs, 1)
    if array.shape != payoffs.shape[1:]:
        raise ValueError(
            f"objective: expected one weight for each of {len(payoffs)} players or a table of "
            f"shape {payoffs.shape[1:]}, found shape {array.shape}"
        )
    return array


def correlated(
    payoffs: np.ndarray,
    concept: str,
    objective: Any = None,
    *,
    tolerance: float = 1e-9,
    time_limit: float = np.inf,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Correlated:
    """The best correlated ("ce") or coarse correlated ("cce") equilibrium for an objective.

    `payoffs` is (N, A_1, ..., A_N). `objective` is None (any equilibrium), "welfare" (the sum of
    the values), "egalitarian" (the smallest value), "entropy", one weight for each player, or a
    table of what each cell is worth. `tolerance` is a share of each player's payoff range.

    >>> chicken = np.array([[[6.0, 2], [7, 0]], [[6, 7], [2, 0]]])
    >>> found = correlated(chicken, "ce", "welfare")
    >>> found.joint.round(6).tolist(), round(found.objective, 6)
    ([[0.5, 0.25], [0.25, 0.0]], 10.5)
    """
    if concept not in CONCEPTS:
        raise ValueError(f"concept: expected one of {list(CONCEPTS)}, found {concept!r}")
    payoffs = np.asarray(payoffs, np.float64)
    axes = tuple(range(1, payoffs.ndim))
    low = payoffs.min(axes, keepdims=True)
    spread = payoffs.max(axes, keepdims=True) - low
    spread = np.where(spread > 0, spread, 1.0)
    scaled = (payoffs - low) / spread
    if isinstance(objective, str) and objective == "entropy":
        from equipoise.solvers._entropy import most_entropy

        return most_entropy(scaled, concept, tolerance=tolerance)
    program = _Program(scaled, payoffs, concept, objective)
    deadline = time.monotonic() + time_limit
    return program.run(tolerance, deadline, progress)


class _Program:
    """The part of the linear program that has been generated."""

    def __init__(self, scaled: np.ndarray, payoffs: np.ndarray, concept: str, objective: Any):
        self.payoffs, self.concept = payoffs, concept
        self.shape = scaled.shape[1:]
        self.players = len(scaled)
        #: Own actions first: (A_i, cells of the others).
        self.tables = [
            np.ascontiguousarray(np.moveaxis(own, i, 0)).reshape(own.shape[i], -1)
            for i, own in enumerate(scaled)
        ]
        self.scaled = scaled.reshape(self.players, -1)
        self.egalitarian = isinstance(objective, str) and objective == "egalitarian"
        self.any = objective is None
        if self.any or self.egalitarian:
            worth = np.zeros(self.shape)
        else:
            worth = linear_objective(payoffs, objective)
        #: The objective in units of its own range, so that prices mean the same in every game.
        self.unit = np.ptp(payoffs if self.egalitarian else worth) or 1.0
        self.worth = worth.reshape(-1) / self.unit
        self.values = payoffs.reshape(self.players, -1) / self.unit
        cells, deviations = self.scaled.shape[1], sum(a - 1 for a in self.shape)
        self.whole = cells * deviations <= WHOLE
        self.cells = np.arange(cells) if self.whole else self._first_cells()
        self.known = np.zeros(cells, bool)
        self.known[self.cells] = True
        #: Which deviations are rows: (A_i,) for "cce", (A_i, A_i) for "ce".
        self.active = [self._all_rows(a, self.whole or concept == "cce") for a in self.shape]
        self.grown = 0

    def _all_rows(self, actions: int, active: bool) -> np.ndarray:
        if self.concept == "cce":
            return np.full(actions, active)
        return np.full((actions, actions), active) & ~np.eye(actions, dtype=bool)

    def _first_cells(self) -> np.ndarray:
        """The best cells, and what best replies lead to from them."""
        found = {int(self.worth.argmax()), int(self.scaled.sum(0).argmax())}
        found |= {int(c) for c in self.scaled.min(0).argsort()[-1:]}
        for start in sorted(found):
            profile = list(np.unravel_index(start, self.shape))
            for step in range(8 * self.players):
                i = step % self.players
                profile[i] = int(self._own_column(i, np.array([profile]))[:, 0].argmax())
                found.add(int(np.ravel_multi_index(profile, self.shape)))
        return np.array(sorted(found))

    def _own_column(self, i: int, profiles: np.ndarray) -> np.ndarray:
        """(A_i, cells): what each own action of player i earns against the others' actions."""
        others = [k for k in range(self.players) if k != i]
        if not others:
            return self.tables[i]
        flat = np.ravel_multi_index(
            tuple(profiles[:, k] for k in others), tuple(self.shape[k] for k in others)
        )
        return self.tables[i][:, flat]

    def _deviations(self) -> csr_array:
        """(rows, cells): what each deviation that is a row gains in each cell."""
        profiles = np.stack(np.unravel_index(self.cells, self.shape), 1)
        count, blocks = len(self.cells), []
        entries, rows, columns, first = [], [], [], 0
        for i in range(self.players):
            gain = self._own_column(i, profiles) - self.scaled[i, self.cells]
            number = np.cumsum(self.active[i].reshape(-1)).reshape(self.active[i].shape) - 1
            if self.concept == "cce":
                b, k = np.nonzero(np.broadcast_to(self.active[i][:, None], gain.shape))
                where = number[b]
            else:
                b, k = np.nonzero(self.active[i][profiles[:, i]].T)
                where = number[profiles[k, i], b]
            entries.append(gain[b, k])
            rows.append(where + first)
            columns.append(k)
            first += int(self.active[i].sum())
        del blocks
        return coo_array(
            (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))),
            shape=(first, count),
        ).tocsr()

    def _master(self, price: float) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
        """Chances of the cells, the amount by which rows are violated, and the duals."""
        rows = self._deviations()
        count, cells = rows.shape
        extra = 1 + self.egalitarian
        cost = np.concatenate([-self.worth[self.cells], [price], [-1.0] * self.egalitarian])
        elastic = np.concatenate([-np.ones(count), np.zeros(self.players * self.egalitarian)])
        body = rows
        right = np.zeros(count)
        if self.egalitarian:
            values = self.values[:, self.cells]
            low = float(self.values.mean())
            body = csr_array(np.concatenate([rows.toarray(), low - values])) if (
                count
            ) else csr_array(low - values)
            right = np.zeros(count + self.players)
        parts = [body, elastic[:, None]]
        if self.egalitarian:
            parts.append(np.concatenate([np.zeros(count), np.ones(self.players)])[:, None])
        matrix = _beside(parts)
        equal = csr_array(np.concatenate([np.ones(cells), np.zeros(extra)])[None])
        bounds = np.zeros((cells + extra, 2))
        bounds[:, 1] = np.inf
        if self.egalitarian:
            bounds[-1, 0] = -np.inf
        result = linprog(
            cost,
            A_ub=matrix,
            b_ub=right,
            A_eq=equal,
            b_eq=[1.0],
            bounds=bounds,
            method="highs",
            options={
                "primal_feasibility_tolerance": _FEASIBLE,
                "dual_feasibility_tolerance": _FEASIBLE,
            },
        )
        if result.x is None:
            raise RuntimeError(f"the linear program of {cells} cells failed: {result.message}")
        duals = -np.asarray(result.ineqlin.marginals)
        chances = np.maximum(result.x[:cells], 0.0)
        chances /= chances.sum()
        return chances, float(result.x[cells]), duals[:count], duals[count:]

    def _spread_duals(self, duals: np.ndarray) -> list[np.ndarray]:
        """Duals of rows as arrays over all deviations of each player."""
        found, first = [], 0
        for active in self.active:
            own = np.zeros(active.shape)
            size = int(active.sum())
            own[active] = np.maximum(duals[first : first + size], 0.0)
            found.append(own)
            first += size
        return found

    def _price(self, duals: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
        """What every cell adds to the Lagrangian; its maximum bounds every equilibrium."""
        score = self.worth.reshape(self.shape).copy()
        if self.egalitarian:
            score += np.tensordot(weights, self.values, 1).reshape(self.shape)
        for i, own in enumerate(duals):
            table = self.tables[i]
            if self.concept == "cce":
                change = (own @ table)[None] - own.sum() * table
            else:
                change = own @ table - own.sum(1)[:, None] * table
            rest = [a for k, a in enumerate(self.shape) if k != i]
            score -= np.moveaxis(change.reshape(self.shape[i], *rest), 0, i)
        return score.reshape(-1)

    def _grow_columns(self, score: np.ndarray, level: float, slack: float) -> int:
        """Add the best cell of every action of every player that beats `level`."""
        shaped = np.where(self.known, -np.inf, score).reshape(self.shape)
        found = set()
        for i in range(self.players):
            flat = np.moveaxis(shaped, i, 0).reshape(self.shape[i], -1)
            best = flat.argmax(1)
            rest = tuple(a for k, a in enumerate(self.shape) if k != i)
            others = np.stack(np.unravel_index(best, rest), 1) if rest else np.zeros((1, 0), int)
            better = np.flatnonzero(flat.max(1) > level + slack)
            for a in better:
                profile = np.insert(others[a], i, a)
                found.add(int(np.ravel_multi_index(tuple(profile), self.shape)))
        self.cells = np.concatenate([self.cells, np.array(sorted(found), int)])
        self.known[self.cells] = True
        return len(found)

    def _grow_rows(self, chances: np.ndarray, slack: float) -> tuple[int, float]:
        """Add the deviations that gain more than `slack`; also the largest gain of a row."""
        profiles = np.stack(np.unravel_index(self.cells, self.shape), 1)
        played = chances > 0
        added, worst = 0, 0.0
        for i in range(self.players):
            table = self._own_column(i, profiles[played]) - self.scaled[i, self.cells[played]]
            weighted = table * chances[played]
            if self.concept == "cce":
                worst = max(worst, float(weighted.sum(1).max()))
                continue
            gain = np.zeros((self.shape[i], self.shape[i]))
            np.add.at(gain, profiles[played, i], weighted.T)
            worst = max(worst, float(gain.max(1).sum()))
            new = (gain > slack / self.shape[i]) & (gain == gain.max(1, keepdims=True)) & ~self.active[i]
            self.active[i] |= new
            added += int(new.sum())
        return added, worst

    def run(
        self, tolerance: float, deadline: float, progress: Callable[..., None] | None
    ) -> Correlated:
        """Generate until nothing helps, the time is up, or the user interrupts."""
        prices = [1.0] if self.any else list(_PRICES)
        best: tuple[float, float, np.ndarray, np.ndarray] | None = None
        bound, rounds, ended = np.inf, 0, "optimal"
        try:
            while True:
                rounds += 1
                price = prices[0]
                chances, violated, duals, weights = self._master(price)
                spread = self._spread_duals(duals)
                score = self._price(spread, weights)
                level = float((score[self.cells] * chances).sum())
                bound = min(bound, float(score.max()))
                rows, gain = self._grow_rows(chances, tolerance / 2)
                attained = self._attained(chances)
                if best is None or (gain > tolerance and gain < best[0]) or gain <= tolerance:
                    if best is None or gain <= tolerance or best[0] > tolerance:
                        best = (gain, attained, self.cells, chances)
                if progress is not None:
                    progress({"round": rounds, "cells": len(self.cells), "gain": gain,
                              "objective": attained * self.unit, "bound": bound * self.unit})
                if self.any and gain <= tolerance:
                    break
                columns = self._grow_columns(score, level, 0.1 * tolerance)
                if not rows and not columns:
                    if violated <= tolerance or len(prices) == 1:
                        break
                    prices.pop(0)
                if time.monotonic() > deadline:
                    ended = "time"
                    break
        except KeyboardInterrupt:
            if best is None:
                raise
            ended = "interrupted"
        gain, attained, cells, chances = best
        joint = np.zeros(self.worth.size)
        joint[cells] = chances
        joint = joint.reshape(self.shape)
        return Correlated(
            joint=joint,
            objective=0.0 if self.any else attained * self.unit,
            bound=0.0 if self.any else max(bound, attained) * self.unit,
            gain=largest_gain(self.payoffs, joint, self.concept),
            rounds=rounds,
            columns=len(self.cells),
            rows=sum(int(a.sum()) for a in self.active),
            ended=ended,
        )

    def _attained(self, chances: np.ndarray) -> float:
        if self.egalitarian:
            return float((self.values[:, self.cells] @ chances).min())
        return float(self.worth[self.cells] @ chances)


def _beside(parts: list[Any]) -> csr_array:
    from scipy.sparse import hstack

    return csr_array(hstack([csr_array(part) for part in parts]))
