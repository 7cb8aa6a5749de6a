"""Correlated and coarse correlated equilibria of normal-form games, by linear programs.

The unknown is a distribution over the cells of the joint table. Each deviation is one row: "play
b" (coarse correlated) or "play b when a is recommended" (correlated) must not gain on average
(Aumann, 1974; Moulin and Vial, 1978). Small programs are solved at once. Large programs are
generated:

- *columns*: a cell joins the program when its reduced cost shows that it helps. All cells are
  priced in one pass over the payoff table, by one small matrix product for each player;
- *rows*: of the n A^2 rows of a correlated equilibrium only those join that the current solution
  violates, the worst one of each recommendation;
- the same pass gives a bound on the objective of every equilibrium, for every choice of the duals
  (Lagrange), so that every solution comes with a proven bound.

Rows are elastic: all may be violated by one amount, at a price. The program is then feasible from
the first cell on, and the price is raised until that amount vanishes; if it does not, because
payoffs nearly tie, rows become strict. If a correlated equilibrium takes too long to find, a Nash
equilibrium, which is also a correlated equilibrium, replaces it, and its cells join the program.

The program has a tolerance of its own, to which a temptation of 1e-8 is none. Cells that no
equilibrium plays are therefore excluded beforehand, by exact comparisons.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from equipoise.core import InputError, checks
from equipoise.solvers import _bimatrix
from equipoise.solvers._nplayer import logit_path, pure_equilibria

CONCEPTS = ("ce", "cce")
OBJECTIVES = ("welfare", "egalitarian", "entropy")

#: Programs with at most this many entries are solved at once.
WHOLE = 150_000
#: Seconds after which a Nash equilibrium is computed to serve as a correlated equilibrium.
PATIENCE = 5.0
#: Maximum number of cells of a Nash equilibrium added, and of pure equilibria to start from.
_SEEDS, _PURE = 4000, 100
#: Price of one unit of violation, for an objective that ranges over one; raised while it pays.
_PRICES = (1e2, 1e4, 1e6, np.inf)
#: Differences of payoffs below this fraction of the largest payoff count as rounding.
_ROUNDING = 1e-14
#: Rows are multiplied for tolerances below this one: HiGHS ignores entries below 1e-9.
_COARSE = 1e-9
#: HiGHS accepts no smaller tolerance; the larger one is for programs that it fails to solve.
_FEASIBLE = (1e-10, 1e-8)
#: The largest weight of an objective.
_HEAVIEST = 1e100


@dataclass(frozen=True)
class Correlated:
    """A joint distribution, its objective, and an upper bound over all equilibria."""

    #: (A_1, ..., A_N): probability of each joint action.
    joint: np.ndarray
    #: The objective at `joint`; zero if no objective was given.
    objective: float
    #: Upper bound on the objective of every equilibrium.
    bound: float
    #: Largest gain of any deviation.
    gain: float
    #: Rounds of the program, and cells and deviations in the last round.
    rounds: int
    columns: int
    rows: int
    #: "optimal", "out of time" or "interrupted".
    ended: str


def gains(payoffs: np.ndarray, joint: np.ndarray, concept: str) -> list[np.ndarray]:
    """Return one array per player: the gain of each deviation. (A,) for "cce", (A, A) for "ce".

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
    """Largest gain of any player; with "ce", a deviation responds to every recommendation."""
    own = gains(payoffs, joint, concept)
    return float(max(g.max(-1).sum() for g in own))


def possible_cells(payoffs: np.ndarray, concept: str) -> np.ndarray:
    """(A_1, ..., A_N) bool: cells that some equilibrium may play.

    A deviation that loses in no cell must not gain in any cell that is played. Each excluded cell
    may show that another deviation loses in no cell. An action that dominates all others, and with
    "ce" any action that is dominated, is found in this way.

    >>> dilemma = np.array([[[1.0, -2], [1 + 1e-7, 0]], [[1, 1 + 1e-7], [-2, 0]]])
    >>> possible_cells(dilemma, "cce").tolist()
    [[False, False], [False, True]]
    """
    possible = np.ones(payoffs.shape[1:], bool)
    count = possible.size + 1
    while np.count_nonzero(possible) < count:
        count = np.count_nonzero(possible)
        for i, payoff in enumerate(payoffs):
            actions, rounding = payoff.shape[i], _ROUNDING * np.abs(payoff).max()
            table = np.moveaxis(payoff, i, 0).reshape(actions, -1)
            rest = np.moveaxis(possible, i, 0)
            mine = rest.reshape(actions, -1)
            for b in range(actions):
                gain = table[b] - table
                harmless = ~np.any(mine & (gain < 0.0), axis=1)
                harmless &= concept == "ce" or harmless.all()
                mine &= ~(harmless[:, None] & (gain > rounding))
            rest[...] = mine.reshape(rest.shape)
    return possible


def linear_objective(payoffs: np.ndarray, objective: Any) -> np.ndarray:
    """(A_1, ..., A_N): value of each cell, from a name, weights or a table."""
    if isinstance(objective, str):
        if objective != "welfare":
            raise ValueError(
                f"objective: expected {', '.join(OBJECTIVES)}, one weight for each player or a "
                f"table of shape {payoffs.shape[1:]}, found {objective!r}"
            )
        return payoffs.sum(0)
    array = checks.as_float_array("objective", objective)
    if not np.abs(array).max(initial=0.0) <= _HEAVIEST:
        raise InputError("objective", f"numbers of at most {_HEAVIEST:g} in size", "larger ones")
    if array.shape == (len(payoffs),):
        return np.tensordot(array, payoffs, 1)
    if array.shape != payoffs.shape[1:]:
        raise InputError(
            "objective",
            f"one weight for each of {len(payoffs)} players or a table of shape "
            f"{payoffs.shape[1:]}",
            f"shape {array.shape}",
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
    """Return the best correlated ("ce") or coarse correlated ("cce") equilibrium for an objective.

    `payoffs` is (N, A_1, ..., A_N). `objective` is None (any equilibrium), "welfare" (the sum of
    the values), "egalitarian" (the smallest value), "entropy", one weight for each player, or a
    table with a value for each cell. `tolerance` is a fraction of each player's payoff range.

    >>> chicken = np.array([[[6.0, 2], [7, 0]], [[6, 7], [2, 0]]])
    >>> found = correlated(chicken, "ce", "welfare")
    >>> found.joint.round(6).tolist(), round(found.objective, 6)
    ([[0.5, 0.25], [0.25, 0.0]], 10.5)
    """
    if concept not in CONCEPTS:
        raise InputError("concept", f"one of {', '.join(CONCEPTS)}", repr(concept))
    payoffs = np.asarray(payoffs, np.float64)
    axes = tuple(range(1, payoffs.ndim))
    low = payoffs.min(axes, keepdims=True)
    spread = payoffs.max(axes, keepdims=True) - low
    spread = np.where(spread > 0, spread, 1.0)
    scaled = (payoffs - low) / spread
    if isinstance(objective, str) and objective == "entropy":
        from equipoise.solvers._entropy import most_entropy

        joint, entropy, bound, rounds, ended = most_entropy(
            scaled, concept, tolerance=tolerance, time_limit=time_limit
        )
        return Correlated(
            joint,
            entropy,
            bound,
            largest_gain(payoffs, joint, concept),
            rounds,
            joint.size,
            sum(a * (a - 1) if concept == "ce" else a for a in joint.shape),
            ended,
        )
    program = _Program(scaled, payoffs, concept, objective, max(_COARSE / tolerance, 1.0))
    return program.run(tolerance, time_limit, progress)


class _Program:
    """The part of the linear program that has been generated."""

    def __init__(
        self,
        scaled: np.ndarray,
        payoffs: np.ndarray,
        concept: str,
        objective: Any,
        factor: float,
    ):
        self.payoffs, self.concept = payoffs, concept
        #: Rows are multiplied by this number.
        self.factor = factor
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
        self.possible = possible_cells(payoffs, concept).reshape(-1)
        self.cells = np.flatnonzero(self.possible) if self.whole else self._first_cells()
        #: Cells that need not be priced.
        self.known = ~self.possible
        self.known[self.cells] = True
        #: Which deviations are rows: (A_i,) for "cce", (A_i, A_i) for "ce".
        self.active = [self._all_rows(a, self.whole or concept == "cce") for a in self.shape]
        #: Methods of HiGHS and their tolerances; the last one that succeeded is tried first.
        self.methods = [("highs", 0), ("highs-ipm", 0), ("highs-ds", 1)]
        #: Seconds allowed for a method before the next one is tried.
        self.patience = 2.0

    def _all_rows(self, actions: int, active: bool) -> np.ndarray:
        if self.concept == "cce":
            return np.full(actions, active)
        return np.full((actions, actions), active) & ~np.eye(actions, dtype=bool)

    def _first_cells(self) -> np.ndarray:
        """Return the best cells, and the cells that best responses lead to from them."""
        found = {int(self.worth.argmax()), int(self.scaled.sum(0).argmax())}
        pure = pure_equilibria(self.scaled.reshape(self.players, *self.shape))
        cells = np.atleast_1d(np.ravel_multi_index(tuple(pure.T), self.shape))
        found |= set(cells[np.argsort(-self.worth[cells], kind="stable")[:_PURE]].tolist())
        found |= {int(c) for c in self.scaled.min(0).argsort()[-1:]}
        for start in sorted(found):
            profile = [int(k) for k in np.unravel_index(start, self.shape)]
            for step in range(8 * self.players):
                i = step % self.players
                profile[i] = int(self._own_column(i, np.array([profile]))[:, 0].argmax())
                found.add(int(np.ravel_multi_index(profile, self.shape)))
        found = np.array(sorted(found))[self.possible[sorted(found)]]
        return found if len(found) else np.flatnonzero(self.possible)[:1]

    def _own_column(self, i: int, profiles: np.ndarray) -> np.ndarray:
        """(A_i, cells): payoff of each own action of player i against the others' actions."""
        others = [k for k in range(self.players) if k != i]
        if not others:
            return self.tables[i]
        flat = np.ravel_multi_index(
            tuple(profiles[:, k] for k in others), tuple(self.shape[k] for k in others)
        )
        return self.tables[i][:, flat]

    def _deviations(self) -> Any:
        """(rows, cells): gain of each deviation that is a row, in each cell."""
        from scipy.sparse import coo_array

        profiles = np.stack(np.unravel_index(self.cells, self.shape), 1)
        count = len(self.cells)
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
        return coo_array(
            (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))),
            shape=(first, count),
        ).tocsr()

    def _master(
        self, price: float, seconds: float
    ) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
        """Probabilities of the cells, the amount by which rows are violated, and the duals.

        At an infinite price, no violation is allowed; if that is impossible with the cells that the
        program has, the amount is infinite.
        """
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, hstack, vstack

        rows, strict = self._deviations() * self.factor, not np.isfinite(price)
        count, cells = (int(n) for n in rows.shape)
        # Unknowns: probabilities, the violation, and with "egalitarian" the smallest value.
        extra = 1 + self.egalitarian
        cost = np.concatenate([-self.worth[self.cells], [0.0], [-1.0] * self.egalitarian])
        cost *= self.factor
        cost[cells] = 0.0 if strict else price
        body: Any = hstack([rows, csr_array(np.repeat([[-1.0, 0.0]], count, 0)[:, :extra])])
        if self.egalitarian:
            values = csr_array(-self.values[:, self.cells])
            body = vstack([body, hstack([values, np.repeat([[0.0, 1.0]], self.players, 0)])])
        bounds = np.zeros((cells + extra, 2))
        bounds[:, 1] = np.inf
        bounds[cells, 1] = 0.0 if strict else np.inf
        bounds[cells + 1 :, 0] = -np.inf
        result: Any = None
        end = time.monotonic() + seconds
        for method, feasible in tuple(self.methods):
            # If a program takes much longer than all before it, another method is tried.
            begun = time.monotonic()
            longest = np.inf if method == self.methods[-1][0] else self.patience
            result = linprog(
                cost,
                A_ub=csr_array(body),
                b_ub=np.zeros(body.shape[0]),
                A_eq=csr_array(np.append(np.ones(cells), np.zeros(extra))[None]),
                b_eq=[1.0],
                bounds=bounds,
                method=method,
                options={
                    "primal_feasibility_tolerance": _FEASIBLE[feasible],
                    "dual_feasibility_tolerance": _FEASIBLE[feasible],
                    "time_limit": max(min(end - begun, longest), 0.1),
                },
            )
            if result.status == 0:
                self.patience = max(self.patience, 10.0 * (time.monotonic() - begun))
                if not feasible:
                    self.methods.sort(key=lambda known: known[0] != method)
                break
        if result.status == 1:
            raise TimeoutError
        if result.status == 2 and strict:
            return np.zeros(cells), np.inf, np.zeros(0), np.zeros(0)
        if result.status != 0:
            raise RuntimeError(f"the linear program of {cells} cells failed: {result.message}")
        duals, violated = -np.asarray(result.ineqlin.marginals), result.x[cells] / self.factor
        chances = np.maximum(result.x[:cells], 0.0)
        chances /= chances.sum()
        return chances, float(violated), duals[:count], duals[count:] / self.factor

    def _spread_duals(self, duals: np.ndarray) -> list[np.ndarray]:
        """Return the duals of rows as arrays over all deviations of each player."""
        found, first = [], 0
        for active in self.active:
            own = np.zeros(active.shape)
            size = int(active.sum())
            own[active] = np.maximum(duals[first : first + size], 0.0)
            found.append(own)
            first += size
        return found

    def _price(self, duals: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
        """Return each cell's term of the Lagrangian; its maximum bounds every equilibrium."""
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
        return np.where(self.possible, score.reshape(-1), -np.inf)

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
        """Add the deviations that gain more than `slack`; return also a row's largest gain."""
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
            # The worst deviation from each recommendation; adding all makes programs slow.
            new = (gain > slack / self.shape[i]) & (gain == gain.max(1, keepdims=True))
            new &= ~self.active[i]
            self.active[i] |= new
            added += int(new.sum())
        return added, worst

    def run(
        self,
        tolerance: float,
        time_limit: float,
        progress: Callable[[dict[str, Any]], None] | None,
    ) -> Correlated:
        """Generate rows and columns until none helps, time is up, or the user interrupts."""
        started = time.monotonic()
        prices = [1.0] if self.any else list(_PRICES)
        best, bound, rounds, ended = _Best(tolerance), np.inf, 0, "optimal"
        # For two players a Nash equilibrium is cheaper to compute than a linear program.
        patience = 0.0 if self.any and self.players == 2 else PATIENCE
        nash = self.whole or (self.concept == "cce" and patience > 0.0)
        try:
            while True:
                rounds += 1
                left = time_limit - (time.monotonic() - started)
                if left < 0:
                    ended = "out of time"
                    break
                late = rounds > 1 and time_limit - left > patience
                if not nash and late and best.gain > tolerance:
                    nash = True
                    self._start_from_nash(best, left)
                    if self.any and best.gain <= tolerance:
                        break
                chances, violated, duals, weights = self._master(prices[0], left)
                if violated == np.inf:
                    if nash:
                        break
                    nash = True
                    self._start_from_nash(best, left)
                    continue
                score = self._price(self._spread_duals(duals), weights)
                level = float(score[self.cells] @ chances)
                bound = min(bound, float(score.max()))
                rows, gain = self._grow_rows(chances, tolerance / 2)
                best.keep(gain, self._attained(chances), self.cells, chances)
                if progress is not None:
                    progress(
                        {
                            "round": rounds,
                            "cells": len(self.cells),
                            "gain": best.gain,
                            "objective": best.attained * self.unit,
                            "bound": bound * self.unit,
                        }
                    )
                if self.any and gain <= tolerance:
                    break
                if not rows + self._grow_columns(score, level, 0.1 * tolerance):
                    if violated <= tolerance or len(prices) == 1:
                        break
                    prices.pop(0)
            left = time_limit - (time.monotonic() - started)
            if best.gain > tolerance and left > 0:
                self._start_from_nash(best, left)
        except TimeoutError:
            ended = "out of time"
        except KeyboardInterrupt:
            ended = "interrupted"
        if not len(best.cells):  # only the initial cell
            best.keep(
                np.inf, self._attained(np.ones(1), self.cells[:1]), self.cells[:1], np.ones(1)
            )
        joint = np.zeros(self.worth.size)
        joint[best.cells] = best.chances
        joint = joint.reshape(self.shape)
        return Correlated(
            joint=joint,
            objective=0.0 if self.any else float(best.attained * self.unit),
            bound=0.0 if self.any else float(max(bound, best.attained) * self.unit),
            gain=largest_gain(self.payoffs, joint, self.concept),
            rounds=rounds,
            columns=len(self.cells),
            rows=sum(int(a.sum()) for a in self.active),
            ended=ended,
        )

    def _start_from_nash(self, best: "_Best", seconds: float) -> None:
        """Keep a Nash equilibrium, and add its cells to the program if they are few."""
        payoffs = self.scaled.reshape(self.players, *self.shape)
        if self.players == 2:
            x, y, _ = _bimatrix.nash(payoffs[None], time_limit=seconds)
            profile = (x[0], y[0])
        else:
            profile = logit_path(payoffs, time_limit=seconds).profile
        joint = reduce(np.multiply.outer, profile)
        if not joint.any():
            return
        gain = largest_gain(payoffs, joint / joint.sum(), self.concept)
        cells = np.flatnonzero(joint > 1e-14)
        chances = joint.reshape(-1)[cells] / joint.reshape(-1)[cells].sum()
        best.keep(gain, self._attained(chances, cells), cells, chances)
        cells = cells[self.possible[cells]]
        if len(cells) <= _SEEDS:
            self.cells = np.union1d(self.cells, cells)
            self.known[self.cells] = True

    def _attained(self, chances: np.ndarray, cells: np.ndarray | None = None) -> float:
        cells = self.cells if cells is None else cells
        if self.egalitarian:
            return float((self.values[:, cells] @ chances).min())
        return float(self.worth[cells] @ chances)


class _Best:
    """The best solution so far: the largest objective of an equilibrium, else the smallest gain."""

    def __init__(self, tolerance: float):
        self.tolerance = tolerance
        self.gain, self.attained = np.inf, -np.inf
        self.cells, self.chances = np.zeros(0, int), np.zeros(0)

    def keep(self, gain: float, attained: float, cells: np.ndarray, chances: np.ndarray) -> None:
        """Keep a solution if it is better."""
        gain = max(gain, 0.0)
        if gain <= self.tolerance and self.gain <= self.tolerance:
            better = attained > self.attained
        else:
            better = gain < self.gain or not len(self.cells)
        if better:
            self.gain, self.attained, self.cells, self.chances = gain, attained, cells, chances
