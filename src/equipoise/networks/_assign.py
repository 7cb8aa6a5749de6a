"""Gradient projection on the paths of all populations.

One pass finds the shortest path of every population at fixed costs and adds those that are new
(Dafermos and Sparrow 1969; Jayakrishnan et al. 1994); sweeps over the populations then move flow
from dear paths to the cheapest one of each, by a Newton step on the two paths alone, and costs
follow at once. What differs from print: there is no step size, and paths that carry nothing are
dropped every few passes. Where this is slow, each pass begins with a Newton step on all used paths
together (`_newton`). Newton steps pause, twice as long each time, when the excess has grown: sweeps
alone converge from anywhere.

Costs that are functions of the user's are replaced by lines in each pass, and the step to the
solution of that linear problem is shortened where the costs along it say so.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.core.kernels import choose
from equipoise.games import FlowPolicy, NetworkGame
from equipoise.networks._newton import newton_step
from equipoise.networks._paths import Paths

#: Sweeps over the populations between two searches for new paths.
_SWEEPS = 10
#: A sweep ends a pass when the largest excess is this part of the one at the beginning.
_ENOUGH = 0.01
#: Passes between two times that unused paths are dropped.
_DROP = 2
#: Newton steps begin after so many passes, once the excess is this part of a mean trip. They pause
#: after one that multiplies it by so much.
_FIRST, _NEAR, _WORSE = 20, 5e-4, 4.0
#: About what a node of a tree, and a population in a sweep, take compiled, in seconds.
_NODE, _PAIR = 1e-7, 5e-7
#: Passes without progress after which rounding is taken to be in the way: so many where the
#: excess is below this part of a mean trip, and ten times as many elsewhere.
_PATIENCE, _FLOOR = 40, 1e-11

Progress = Callable[[dict[str, Any]], None]


def _kernel(name: str, seconds: float) -> Any:
    """A kernel as machine code, or as Python while little is asked of it."""
    return choose(name, seconds)[0]


class Costs:
    """The numbers that the kernels compute costs with: those of the game, or tangents to them."""

    def __init__(self, game: NetworkGame, concept: str):
        self.game, self.concept = game, concept
        #: Slopes are those at flows that are larger by this: a link that nobody uses may have none.
        self.ahead = 1e-3 * float(game.demand.mean())
        self.exact = game.cost is None
        self.extra = game.tolls / game.values_of_time[:, None]
        if concept == "optimum":
            self.extra = np.zeros_like(self.extra)
        self.free, self.rise = game.free_flow + game.fixed, game.rise
        self.capacity = np.where(game.capacity > 0.0, game.capacity, 1.0)
        self.power = game.power
        if concept == "optimum":
            self.rise = self.rise * (1.0 + self.power)
        if not self.exact:
            self.capacity, self.power = np.ones(game.links), np.ones(game.links)

    def at(self, flows: np.ndarray) -> np.ndarray:
        """(links,): what all classes feel alike."""
        if self.concept == "optimum":
            return self.game.marginal_costs(flows)[0]
        return self.game.times(flows)

    def tangent(self, flows: np.ndarray) -> None:
        """Replace functions by lines through their values at these flows."""
        if self.exact:
            return
        flows = np.maximum(flows, 0.0)
        value, further = self.at(flows), flows + self.ahead
        if self.concept == "optimum":
            step = 1e-4 * np.maximum(further, 1.0)
            slope = (self.at(further + step) - self.at(further)) / step
        else:
            slope = self.game.slopes(further)
        self.rise = np.maximum(slope, 0.0)
        self.free = value - self.rise * flows

    def of_kernels(self, flows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(links,) twice: costs and slopes as the kernels compute them, perhaps of lines."""
        part = np.maximum(flows, 0.0) / self.capacity
        grows = (self.rise > 0.0) & (self.power > 0.0)
        power = np.where(grows, self.power, 1.0)
        with np.errstate(divide="ignore"):
            slope = self.rise * power * part ** (power - 1.0) / self.capacity
        slope = np.where(grows & np.isfinite(slope), slope, 0.0)
        return self.free + self.rise * np.where(grows, part**power, 1.0), slope

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """What the kernels take."""
        return self.free, self.rise, self.capacity, self.power, self.extra


def assign(
    game: NetworkGame,
    concept: str,
    tolerance: float,
    start: FlowPolicy | None,
    time_limit: float,
    progress: Progress | None = None,
) -> tuple[FlowPolicy, str, dict[str, Any]]:
    """Path flows of an excess of at most `tolerance` mean trips; how it ended; counts."""
    begun = time.perf_counter()
    paths, costs = Paths(game), Costs(game, concept)
    work = _NODE * game.nodes * len(paths.groups[0]) + _PAIR * len(paths.demand)
    about = (*paths.groups, paths.targets, paths.demand, *paths.network)
    sweeps = passes = stalled = steps = 0
    pause, resume = 4, _FIRST
    least, worse, ended = np.inf, np.inf, ""
    try:
        if start is None or not paths.start_from(start):
            costs.tangent(paths.flow)
            paths.run(_kernel("extend_paths", work), (*about, *costs.arrays), 1, np.zeros(3))
        while not ended:
            costs.tangent(paths.flow)
            found = np.zeros(3)
            paths.run(_kernel("extend_paths", work), (*about, *costs.arrays), 0, found)
            passes += 1
            spent = _spent(paths, costs)
            excess = found[1]
            goal = tolerance * spent / float(paths.demand.sum())
            if progress is not None:
                gap = (spent - found[0]) / spent if spent > 0.0 else 0.0
                told = {"iteration": passes, "relative_gap": gap, "excess": excess}
                told |= {"log_gap": float(np.log10(max(gap, 1e-17))), "paths": paths.count}
                progress(told | {"seconds": time.perf_counter() - begun})
            stalled = 0 if excess < 0.9 * least else stalled + 1
            least = min(least, excess)
            if excess <= 0.9 * goal or excess == 0.0:
                ended = "solved"
            elif stalled >= (_PATIENCE if excess < _FLOOR * goal / tolerance else 10 * _PATIENCE):
                ended = "stalled"
            elif time.perf_counter() - begun > time_limit:
                ended = "time"
            else:
                if passes % _DROP == 0:
                    _drop(paths)
                before = None if costs.exact else paths.flows[: paths.count].copy()
                if excess > worse:
                    pause, resume, worse = 2 * pause, passes + pause, np.inf
                together = passes > resume and excess < _NEAR * goal / tolerance
                if together:
                    steps, worse = steps + 1, _WORSE * min(excess, 25.0 * least)
                    newton_step(paths, *costs.of_kernels(paths.flow), _paid(paths, costs))
                enough = _ENOUGH * min(excess, goal)
                shift = _kernel("shift_flows", _SWEEPS * _PAIR * len(paths.demand))
                most = _SWEEPS // 2 if together else _SWEEPS
                sweeps += shift(paths.classes, *costs.arrays, *paths.arrays, most, enough)
                if before is not None:
                    whole = _shorten(paths, costs, before) == 1.0
                    costs.ahead = min(
                        costs.ahead * (0.25 if whole else 4.0), float(paths.demand.max())
                    )
    except KeyboardInterrupt:
        ended = "interrupted"
        if not paths.count or (paths.head < 0).any():
            raise
    method = "gradient projection on paths" + (", Newton steps" if steps else "")
    counts = {"method": method, "passes": passes, "sweeps": sweeps, "newton_steps": steps}
    return paths.policy(), ended, counts


def _paid(paths: Paths, costs: Costs) -> np.ndarray | None:
    """(paths,): what each path costs its class besides what all feel; None for nothing."""
    if not costs.extra.any():
        return None
    sizes = np.diff(paths.starts[: paths.count + 1])
    own = np.repeat(paths.classes[paths.pairs[: paths.count]], sizes)
    links = paths.links[: paths.starts[paths.count]]
    return np.add.reduceat(costs.extra[own, links], paths.starts[: paths.count])


def _spent(paths: Paths, costs: Costs) -> float:
    """Flow times cost over all links and classes."""
    spent, paid = float(paths.flow @ costs.at(paths.flow)), _paid(paths, costs)
    return spent if paid is None else spent + float(paths.flows[: paths.count] @ paid)


def _drop(paths: Paths) -> None:
    """Forget paths without flow, but for the newest of each population, which was just found."""
    count = paths.count
    kept = paths.flows[:count] > 0.0
    kept[paths.head[paths.head >= 0]] = True
    if kept.sum() < 0.8 * count:
        paths.keep(np.flatnonzero(kept))


def _shorten(paths: Paths, costs: Costs, before: np.ndarray) -> float:
    """Go only as far towards the new flows as the potential falls; what part of the way that is."""
    after = paths.flows[: paths.count].copy()
    last = paths.flow.copy()
    paths.flows[: paths.count] = before
    paths.reload()
    first, step = paths.flow.copy(), last - paths.flow
    paid = _paid(paths, costs)
    paid = 0.0 if paid is None else float((after - before) @ paid)

    def slope(part: float) -> float:
        return float(costs.at(np.maximum(first + part * step, 0.0)) @ step) + paid

    low, high = 0.0, 1.0
    # Near the end the slope is all rounding, and the whole step is right.
    noise = 1e-15 * float(costs.at(first) @ (first + 1e3 * np.abs(step)))
    if slope(1.0) > max(noise, 0.5 * abs(slope(0.0))):
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) <= 0.0 else (low, middle)
        high = low if low > 0.0 else high
    paths.flows[: paths.count] = before + high * (after - before)
    paths.reload()
    return high
