"""The best equilibrium of a stage for an aim, by branch and bound over cells of the aggregate.

An equilibrium here is a whole profile whose largest gain, each deviation at its own aggregate, is
at most the tolerance: nothing else is returned as one. Lemma A bounds what a cell can hold. Every
action that is played in an equilibrium in the cell is near the best at its centre, so the program
of the cell with those actions alone is worth at least as much as the equilibrium. The cell that
promises the most is cut into parts; its program is rounded to whole agents, who then reply to each
other, which gives candidates. Cells that promise less than the best candidate are never looked
at. What the remaining cells promise at the end bounds every equilibrium that was not found.

Tiny games are enumerated instead. With `free` set, all actions are allowed everywhere: the search
is then for the social optimum.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, count, product
from math import comb

import numpy as np

from equipoise.aggregative._cells import Stage, children, feasible_cells, solve_cell, tile
from equipoise.aggregative._replies import Profile, Replies
from equipoise.aggregative._subroutine import round_vertex

#: Games of no more profiles are enumerated.
PROFILES = 300
#: Rewards looked at to bound what cells can hold, at most.
_WORK = 150_000_000
#: For so many programs, agents reply once to each other from a candidate that is no equilibrium.
_TRIES = 30

#: An objective of the user's: (types, actions) numbers of agents, and the aggregate, to a number.
Objective = Callable[[np.ndarray, np.ndarray], float]


@dataclass(frozen=True)
class Aim:
    """What equilibria are compared by, the larger the better."""

    #: "welfare", "egalitarian" or "custom".
    name: str = "welfare"
    #: 1 to find the best, -1 to find the worst.
    sign: float = 1.0
    function: Objective | None = None
    #: Whether any profile will do, equilibrium or not.
    free: bool = False

    def worth(self, stage: Stage, plays: np.ndarray) -> float:
        """What a profile is worth, at its own aggregate, in the sense of the search."""
        x = stage.aggregate(plays)
        if self.function is not None:
            return self.sign * float(self.function(plays, x))
        rewards = stage.rewards(x[None])[0]
        if self.name == "egalitarian":
            return self.sign * float(np.where(plays > 0, rewards, np.inf).min())
        worth = rewards if stage.welfare is None else stage.welfare
        mean = float((plays * worth).sum() / stage.agents)
        return self.sign * (mean + (0.0 if stage.ahead is None else float(stage.ahead(x[None])[0])))


@dataclass(frozen=True)
class Cell:
    """A part of the aggregates, and what no equilibrium in it is worth more than."""

    centre: np.ndarray
    half: np.ndarray
    rewards: np.ndarray
    allowed: np.ndarray
    promise: float


@dataclass
class Chosen:
    """The best equilibrium found, and what is known of those that were not."""

    plays: np.ndarray
    gain: float
    worth: float
    #: No equilibrium is worth more, if the Lipschitz constants hold; infinite if nothing is proven.
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
) -> Chosen:
    """The best profile whose largest gain is at most the tolerance, or the one of least gain.

    `starts` are profiles to begin with. Without a spacing no cells are made.
    """
    search = _Search(stage, aim, replies, tolerance, programs)
    if _profiles(stage) <= PROFILES and stage.influence.size <= 2_000:
        return search.enumerate()
    for plays in starts:
        search.offer(plays, tries=True)
    bound, feasible, cells, used = np.inf, 0, 0, 0
    if spacing is not None:
        bound, feasible, cells, used = search.branch(spacing, programs)
    best = search.replies.profile(search.best.plays)
    counted = {"cells": cells, "feasible": feasible, "programs": used}
    counted |= {"candidates": search.offered}
    return Chosen(best.plays, best.gain, search.worth, bound, search.method, counted)


class _Search:
    """The incumbent, and how it is bettered."""

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
        #: Differences of worth that do not matter.
        self.gap = max(1e-5 * float(np.ptp(worths)), 1e-12)
        if stage.welfare is None and np.isfinite(tolerance):
            self.gap = max(self.gap, 0.25 * tolerance)

    def offer(self, plays: np.ndarray, *, tries: bool = False) -> None:
        """Take a profile if it is better; with `tries`, let agents reply until it is one."""
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
        """Agents move as if they were charged what they do to the others, while the aim gains.

        Those charges make a social optimum an equilibrium (Pigou). A part of the agents who would
        move does, as large as helps the most (Frank and Wolfe), and in the end single ones.
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
        """What everybody would play at charges for what they do to the others' welfare."""
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
        """The plays after single agents of small games moved, while the aim gains."""
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

    def enumerate(self) -> Chosen:
        """All profiles, so that nothing is missed."""
        number = 0
        for plays in all_plays(self.stage):
            number += 1
            self._keep(self.replies.profile(plays), "enumeration")
        best, met = self.best, self.best.gain <= self.tolerance
        bound = self.worth if met else -np.inf
        return Chosen(
            best.plays, best.gain, self.worth, bound, "enumeration", {"candidates": number}
        )

    def branch(self, spacing: float, programs: int) -> tuple[float, int, int, int]:
        """Cut the most promising cell until none is left that could hold anything better.

        What agents earn near an equilibrium is nearly the best they can, so that programs hardly
        tighten what cells promise of rewards: there, only the smallest cells have theirs solved.
        """
        stage, order = self.stage, count()
        width = float((stage.high - stage.low).max())
        # An optimum is bounded by programs that mix; equilibria are no nearer than agents allow.
        finest = max(0.0 if self.aim.free else 0.25 * stage.delta, 1e-10 * width, 1e-300)
        one = stage.influence.shape[0] * stage.influence.shape[1]
        most = _WORK // (one * (1 + 4 * stage.dimensions * stage.sampled))
        tight = stage.welfare is not None or self.aim.free or stage.dimensions == 1
        heap: list[tuple[float, int, Cell]] = []
        feasible, cells, used, left = 0, 0, 0, -np.inf
        todo, limit = tile(stage.low, stage.high, spacing), np.inf
        while True:
            cells += len(todo[0])
            for cell in self._cells(*todo, limit):
                feasible += 1
                if self._beaten(cell.promise):
                    left = max(left, cell.promise)  # perhaps better by what does not matter
                else:
                    heapq.heappush(heap, (-cell.promise, next(order), cell))
            todo = (np.zeros((0, stage.dimensions)), stage.high - stage.low)
            over = used >= programs or cells >= most or self.replies.late
            if over or not heap or self._beaten(-heap[0][0]):
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

    def _beaten(self, promise: float) -> bool:
        """Whether a cell cannot hold anything better than what was found."""
        return self.best.gain <= self.tolerance and promise <= self.worth + self.gap

    def _cells(self, centres: np.ndarray, half: np.ndarray, limit: float) -> Iterator[Cell]:
        """The cells that can hold an equilibrium, each with its promise."""
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
        """(types, actions): no less than what each action is worth anywhere in the cell."""
        if self.stage.welfare is not None and self.aim.name == "welfare":
            return self.aim.sign * self.stage.welfare
        return self.aim.sign * rewards + self.stage.variation(cell.centre[None], cell.half)[0]

    def _promise(self, cell: Cell, mean: float) -> float:
        """What nothing in a cell is worth more than, given the mean of its program."""
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


def _profiles(stage: Stage) -> float:
    """How many profiles there are, agents of a type being alike."""
    actions, total = stage.influence.shape[1], 1.0
    for number in stage.counts[:64].tolist():
        total *= comb(number + actions - 1, actions - 1)
        if total > PROFILES:
            return np.inf
    return total if len(stage.counts) <= 64 else np.inf


def all_plays(stage: Stage) -> Iterator[np.ndarray]:
    """Every (types, actions) array of whole numbers of agents.

    >>> from equipoise.aggregative._cells import stage_of
    >>> import equipoise as eq
    >>> town = eq.games.load("two-roads", agents=2)
    >>> [plays.tolist() for plays in all_plays(stage_of(town))]
    [[[0, 2]], [[1, 1]], [[2, 0]]]
    """
    actions = stage.influence.shape[1]

    def rows(number: int) -> list[list[int]]:
        """Ways to put agents to actions: bars between stars."""
        places = combinations(range(number + actions - 1), actions - 1)
        ends = ((-1, *bars, number + actions - 1) for bars in places)
        return [(np.diff(edge) - 1).tolist() for edge in ends]

    for ways in product(*(rows(number) for number in stage.counts.tolist())):
        yield np.array(ways, np.int64)
