"""The best equilibrium of a stage for an aim, by branch and bound over cells of the aggregate.

An equilibrium here is a profile of whole agents whose largest gain, each deviation at its own
aggregate, is at most the tolerance; no other profile is returned as one. Lemma A bounds the aim in
a cell. Every action played in an equilibrium in the cell is near the best at its centre, so the
program of the cell with those actions alone has at least the equilibrium's value. The search cuts
the cell with the largest bound into parts, rounds its program to whole agents, and runs best-reply
dynamics from there, which gives candidates. Cells with a bound below the best candidate are never
examined. The bounds of the remaining cells at the end bound every equilibrium that was not found.

Small games are enumerated instead. With `free` set, all actions are allowed everywhere, and the
search is for the social optimum.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, count, product
from math import comb, inf, prod

import numpy as np

from equipoise.aggregative._cells import Stage, children, feasible_cells, solve_cell, tile
from equipoise.aggregative._optimum import bound_welfare
from equipoise.aggregative._replies import Profile, Replies
from equipoise.aggregative._structure import whole_agents
from equipoise.aggregative._subroutine import Options, round_vertex

#: Profiles are enumerated in games with at most this many influences, if that takes at most this
#: many rewards, and until this share of the time is over.
_INFLUENCES, _REWARDS, _SHARE = 2_000, 100_000_000, 0.25
#: Number of rewards in a block of profiles.
_BLOCK = 5_000
#: Number of cells between two looks at the time.
_SLICE = 64
#: Largest number of rewards evaluated to bound cells.
_WORK = 150_000_000
#: One run of best-reply dynamics from a candidate that is no equilibrium per this many programs.
_TRIES = 30

#: A user's objective: from (types, actions) numbers of agents, and the aggregate, to a number.
Objective = Callable[[np.ndarray, np.ndarray], float]


@dataclass(frozen=True)
class Aim:
    """The criterion by which equilibria are compared; larger is better."""

    #: "welfare", "egalitarian" or "custom".
    name: str = "welfare"
    #: 1 to find the best, -1 to find the worst.
    sign: float = 1.0
    function: Objective | None = None
    #: Whether any profile is accepted, equilibrium or not.
    free: bool = False

    def worth(self, stage: Stage, plays: np.ndarray) -> float:
        """Value of a profile at its own aggregate, in the sense of the search."""
        return float(self.worths(stage, plays[None])[0])

    def worths(self, stage: Stage, plays: np.ndarray) -> np.ndarray:
        """(profiles, types, actions) -> (profiles,): the values of many profiles."""
        x = np.stack([stage.aggregate(one) for one in plays])
        if self.function is not None:
            function = self.function
            found = [float(function(one, at)) for one, at in zip(plays, x, strict=True)]
            return self.sign * np.array(found)
        rewards = stage.rewards(x)
        if self.name == "egalitarian":
            return self.sign * np.where(plays > 0, rewards, np.inf).min((1, 2))
        worth = rewards if stage.welfare is None else stage.welfare
        mean = (plays * stage.weighted(worth)).sum((1, 2)) / stage.agents
        return self.sign * (mean + (0.0 if stage.ahead is None else stage.ahead(x)))


@dataclass(frozen=True)
class Cell:
    """A cell of aggregates, and an upper bound on the aim at equilibria in it."""

    centre: np.ndarray
    half: np.ndarray
    rewards: np.ndarray
    allowed: np.ndarray
    promise: float


@dataclass
class Chosen:
    """The best equilibrium found, and a bound on those that were not found."""

    plays: np.ndarray
    gain: float
    worth: float
    #: Upper bound for all equilibria, if the Lipschitz constants hold; infinite if none is proven.
    bound: float
    method: str
    counted: dict[str, int] = field(default_factory=dict)


def choose(
    stage: Stage,
    aim: Aim,
    replies: Replies,
    tolerance: float,
    spacing: float | None,
    programs: int = 400,
    starts: tuple[np.ndarray, ...] = (),
    prove: float = 0.0,
    small_cells: float = 0.0,
    profiles: int = 0,
) -> Chosen:
    """Return the best profile that meets the tolerance, or else the one with the least gain.

    `starts` are initial profiles. Without a spacing no cells are made. `prove` is the effort, from
    0 to 1, to spend on the bound on a social optimum, with up to so many small cells. Up to
    `profiles` profiles are enumerated.
    """
    search = _Search(stage, aim, replies, tolerance, programs)
    if (found := search.enumerate(profiles)) is not None:
        return found
    search.tries += len(starts)
    for plays in starts:
        search.offer(plays, tries=True)
    search.tries = min(search.tries, max(programs // _TRIES, 3))
    bound, feasible, cells, used = np.inf, 0, 0, 0
    if spacing is not None:
        bound, feasible, cells, used = search.branch(spacing, programs)
        if aim.free and prove and small_cells and aim.name == "welfare":
            limits = prove, small_cells
            bound, cells = search.bound_optimum(spacing, bound, cells, tolerance, limits)
    best = search.replies.profile(search.best.plays)
    counted = {"cells": cells, "feasible": feasible, "programs": used}
    counted |= {"candidates": search.offered}
    return Chosen(best.plays, best.gain, search.worth, bound, search.method, counted)


def least_gain(stage: Stage, replies: Replies, profiles: int) -> Profile | None:
    """The profile with the least gain of all; None if there are too many to enumerate."""
    found = _Search(stage, Aim(), replies, -inf, 0).enumerate(profiles)
    return None if found is None else Profile(found.plays, found.gain)


class _Search:
    """Branch and bound with an incumbent."""

    def __init__(self, stage: Stage, aim: Aim, replies: Replies, tolerance: float, programs: int):
        self.stage, self.aim, self.replies = stage, aim, replies
        self.tolerance = np.inf if aim.free else tolerance
        self.best = Profile(np.zeros((0, 0), np.int64), np.inf)
        self.worth, self.method = -np.inf, "cells"
        self.tries, self.offered = max(programs // _TRIES, 3), 0
        self.seen: set[bytes] = set()
        worths = (
            stage.welfare
            if stage.welfare is not None
            else stage.rewards(np.stack([stage.low, (stage.low + stage.high) / 2, stage.high]))
        )
        #: Differences in value that do not matter.
        self.gap = max(1e-5 * float(np.ptp(worths)), 1e-12)
        if stage.welfare is None and np.isfinite(tolerance):
            self.gap = max(self.gap, 0.25 * tolerance)

    def offer(self, plays: np.ndarray, *, tries: bool = False) -> None:
        """Keep a profile if it is better; with `tries`, let agents move to an equilibrium first."""
        key = plays.tobytes()
        if key in self.seen:
            return
        self.seen.add(key)
        self.offered += 1
        if self.aim.free:  # gains do not matter
            self.tries -= 1
            plays = self._climb(plays) if self.tries >= 0 else plays
            self._keep(Profile(plays, 0.0), "cells and local search")
            return
        found, method = self.replies.profile(plays), "cells"
        if found.gain > self.tolerance and tries and self.tries > 0:
            self.tries -= 1
            found, method = self.replies.improve(plays, self.tolerance), "best replies"
        self._keep(found, method)

    def _keep(self, found: Profile, method: str) -> None:
        met = found.gain <= self.tolerance
        if not met and (self.best.gain <= self.tolerance or found.gain >= self.best.gain):
            return
        worth = self.aim.worth(self.stage, found.plays)
        if met and self.best.gain <= self.tolerance and worth <= self.worth:
            return
        self.best, self.worth, self.method = found, worth, method

    def _climb(self, plays: np.ndarray) -> np.ndarray:
        """Move agents as if each were charged for its effect on the others, while the aim improves.

        These charges make a social optimum an equilibrium (Pigou). The fraction of agents that
        moves is the one that helps most (Frank and Wolfe); at the end single agents move.
        """
        stage, aim = self.stage, self.aim
        worth = aim.worth(stage, plays)
        for _ in range(60):
            wanted = self._charged(plays)
            trials = [self.replies.partly(plays, wanted - plays, 0.5**k) for k in range(14)]
            worths = [aim.worth(stage, trial) for trial in trials]
            best = int(np.argmax(worths))
            if worths[best] <= worth + 1e-15 * abs(worth) or self.replies.late:
                break
            plays, worth = trials[best], worths[best]
        return self._single_moves(plays, worth)

    def _charged(self, plays: np.ndarray) -> np.ndarray:
        """The plays if all agents are charged for their effect on the others' welfare."""
        stage, x = self.stage, self.stage.aggregate(plays)
        table = stage.rewards(x[None])[0]
        charge = np.zeros(stage.dimensions)
        if stage.welfare is None and self.aim.name == "welfare":
            slopes = self.replies.slopes(x, table)
            charge = stage.scale * np.einsum("ta,tad->d", plays, slopes)
        worth = table if stage.welfare is None else stage.welfare
        best = (self.aim.sign * (worth + stage.influence @ charge)).argmax(1)
        wanted = np.zeros_like(plays)
        wanted[np.arange(len(plays)), best] = stage.counts
        return wanted

    def _single_moves(self, plays: np.ndarray, worth: float) -> np.ndarray:
        """Move single agents of small games while the aim improves."""
        if plays.size > 64:
            return plays
        step = 4
        while step and not self.replies.late:
            before = worth
            for t, a, b in product(range(len(plays)), *(range(plays.shape[1]),) * 2):
                number = min(step, int(plays[t, a]))
                if a == b or not number:
                    continue
                trial = plays.copy()
                trial[t, a] -= number
                trial[t, b] += number
                if (found := self.aim.worth(self.stage, trial)) > worth:
                    plays, worth = trial, found
            step = step if worth > before else step // 2
        return plays

    def enumerate(self, most: int) -> Chosen | None:
        """Compare all profiles, so that nothing is missed; None if they are too many."""
        replies, number = self.replies, 0
        if not can_enumerate(self.stage, most):
            return None
        deadline = replies.deadline.part(_SHARE)
        for plays in all_plays(self.stage):
            if number and deadline.over():
                self.method = "partial enumeration"
                return None
            gains = np.zeros(len(plays)) if self.aim.free else replies.gains(plays)
            best, met = int(gains.argmin()), np.flatnonzero(gains <= self.tolerance)
            if len(met) and self.aim.function is not None:
                best = met[self.aim.worths(self.stage, plays[met]).argmax()]
            elif len(met):  # of all, because JAX compiles for each number of points
                best = met[self.aim.worths(self.stage, plays)[met].argmax()]
            self._keep(Profile(plays[best], float(gains[best])), "enumeration")
            number += len(plays)
        best = replies.profile(self.best.plays)
        bound = self.worth if self.best.gain <= self.tolerance else -inf
        counted = {"candidates": number}
        return Chosen(best.plays, best.gain, self.worth, bound, "enumeration", counted)

    def branch(self, spacing: float, programs: int) -> tuple[float, int, int, int]:
        """Cut the cell with the largest bound until no cell can contain anything better.

        Near an equilibrium agents earn nearly the best they can, so programs hardly tighten the
        bounds on rewards. With rewards as the aim, only the smallest cells have their program
        solved.
        """
        stage, order = self.stage, count()
        width = float((stage.high - stage.low).max())
        # Programs with mixing bound an optimum; whole agents limit how close equilibria can be.
        finest = max(0.0 if self.aim.free else 0.25 * stage.delta, 1e-10 * width, 1e-300)
        one = stage.influence.shape[0] * stage.influence.shape[1]
        most = _WORK // (one * (1 + 4 * stage.dimensions * stage.sampled))
        tight = stage.welfare is not None or self.aim.free or stage.dimensions == 1
        heap: list[tuple[float, int, Cell]] = []
        feasible, cells, used, left = 0, 0, 0, -np.inf
        todo, limit = tile(stage.low, stage.high, spacing), np.inf
        while True:
            for start in range(0, len(todo[0]), _SLICE):
                if start and self.replies.late:
                    left = max(left, limit)
                    break
                part = todo[0][start : start + _SLICE]
                cells += len(part)
                for cell in self._cells(part, todo[1], limit):
                    feasible += 1
                    if self._beaten(cell.promise):
                        left = max(left, cell.promise)  # better by at most what does not matter
                    else:
                        heapq.heappush(heap, (-cell.promise, next(order), cell))
            todo = (np.zeros((0, stage.dimensions)), stage.high - stage.low)
            over = used >= programs or cells >= most or not heap or self._beaten(-heap[0][0])
            if over or self.replies.late:
                break
            self.replies.tell(cells=cells, gain=self.best.gain)
            cell, limit = heapq.heappop(heap)[2], np.inf
            last = 2.0 * float(cell.half.max()) <= finest
            if tight or last:
                weights = self._weights(cell.rewards, cell)
                vertex = solve_cell(stage, weights, cell.allowed, cell.centre, cell.half)
                used += 1
                if vertex is None:
                    continue
                limit = self._promise(cell, vertex.objective / stage.agents)
                self.offer(round_vertex(vertex, stage.influence, stage.counts), tries=True)
            limit = min(cell.promise, limit)
            if last:
                left = max(left, limit)
            else:
                todo = children(cell.centre[None], cell.half, stage.parts())
        promised = max([left, *(-one[0] for one in heap)])
        met = self.best.gain <= self.tolerance
        return max(promised, self.worth if met else -np.inf), feasible, cells, used

    def bound_optimum(
        self,
        spacing: float,
        bound: float,
        cells: int,
        tolerance: float,
        limits: tuple[float, float],
    ) -> tuple[float, int]:
        """The bound on a social optimum, or a better one from many small cells."""
        enough = max(self.gap, 0.5 * tolerance)
        if bound <= self.worth + enough:
            return bound, cells

        def offer(shares: np.ndarray) -> float:
            self.tries = max(self.tries, 1)
            self.offer(whole_agents(shares, self.stage.counts))
            return self.worth

        stage, sign = self.stage, self.aim.sign
        found, more = bound_welfare(stage, sign, spacing, self.replies, offer, enough, *limits)
        return max(min(bound, found), self.worth), cells + more

    def _beaten(self, promise: float) -> bool:
        """Whether a cell cannot contain anything better than the incumbent."""
        return self.best.gain <= self.tolerance and promise <= self.worth + self.gap

    def _cells(self, centres: np.ndarray, half: np.ndarray, limit: float) -> Iterator[Cell]:
        """The cells that can contain an equilibrium, each with its bound."""
        stage = self.stage
        epsilon = 1e300 if self.aim.free else self.tolerance
        for index, rewards, allowed in feasible_cells(
            stage, centres, half, epsilon, 1.0, stage.delta
        ):
            cell = Cell(centres[index], half, rewards, allowed, np.inf)
            best = np.where(allowed, self._weights(rewards, cell), -np.inf).max(1)
            mean = float(stage.counts @ best / stage.agents)
            promise = min(limit, self._promise(cell, mean))
            yield Cell(cell.centre, half, rewards, allowed, promise)

    def _weights(self, rewards: np.ndarray, cell: Cell) -> np.ndarray:
        """(types, actions): upper bound on the weight of each action anywhere in the cell."""
        if self.stage.welfare is not None and self.aim.name == "welfare":
            return self.aim.sign * self.stage.welfare
        most = self.aim.sign * rewards + self.stage.variation(cell.centre[None], cell.half)[0]
        return self.stage.weighted(most)

    def _promise(self, cell: Cell, mean: float) -> float:
        """Upper bound on the aim in a cell, given the mean of its program."""
        stage, aim = self.stage, self.aim
        if aim.function is not None:
            return np.inf
        if aim.name == "egalitarian":
            weights = np.where(cell.allowed, self._weights(cell.rewards, cell), -np.inf)
            return float(weights.max(1).min() if aim.sign > 0 else weights.max())
        if stage.ahead is None:
            return mean
        ahead = aim.sign * float(stage.ahead(cell.centre[None])[0])
        return mean + ahead + stage.ahead_lipschitz * float(cell.half.max())


def number_of_profiles(stage: Stage) -> float:
    """Number of profiles, with agents of a type interchangeable."""
    actions, total = stage.influence.shape[1], 1.0
    for number in stage.counts.tolist():
        total *= comb(number + actions - 1, actions - 1)
        if total > 1e9:
            return inf
    return total


def can_enumerate(stage: Stage, most: int) -> bool:
    """Whether there are few enough profiles, and rewards, to compare all profiles."""
    rows, actions, _ = stage.influence.shape
    total = number_of_profiles(stage) if stage.influence.size <= _INFLUENCES else inf
    few = total * rows * actions**2 <= _REWARDS or total <= Options.profiles
    return total <= most and few


def all_plays(stage: Stage) -> Iterator[np.ndarray]:
    """Blocks (profiles, types, actions) of all whole numbers of agents.

    >>> from equipoise.aggregative._cells import stage_of
    >>> import equipoise as eq
    >>> town = eq.games.load("two-roads", agents=2)
    >>> [plays.tolist() for plays in all_plays(stage_of(town))]
    [[[[0, 2]], [[1, 1]], [[2, 0]]]]
    """
    actions = stage.influence.shape[1]

    def rows(number: int) -> np.ndarray:
        """Ways to assign agents to actions, by stars and bars."""
        places = combinations(range(number + actions - 1), actions - 1)
        ends = [(-1, *bars, number + actions - 1) for bars in places]
        return np.diff(np.array(ends, np.int64), axis=1) - 1

    ways = [rows(number) for number in stage.counts.tolist()]
    sizes = tuple(len(way) for way in ways)
    block = max(1, _BLOCK // (len(ways) * actions**2))
    for start in range(0, prod(sizes), block):
        chosen = np.unravel_index(np.arange(start, min(start + block, prod(sizes))), sizes)
        yield np.stack([way[k] for way, k in zip(ways, chosen, strict=True)], 1)
