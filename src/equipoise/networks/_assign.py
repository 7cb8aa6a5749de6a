"""Gradient projection on the paths of all populations.

Each pass finds the shortest path of every population at fixed costs and adds the paths that are new
(Dafermos and Sparrow 1969; Jayakrishnan et al. 1994). Sweeps over the populations then move flow
from expensive paths to the cheapest one, by a Newton step on the two paths alone, and update the
costs at once. Differences from the paper: there is no step size, and paths without flow are dropped
every few passes. Where sweeps are slow, each pass begins with a Newton step on all used paths
together (`_newton`). If such a step increases the excess, Newton steps pause, twice as long each
time: sweeps alone converge from any starting point.

If costs are the user's functions, each pass replaces them by their tangents, and the step to the
solution of that linear problem is shortened where the true costs along it require it.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.certificates import certify
from equipoise.core.errors import InputError
from equipoise.core.kernels import choose
from equipoise.core.paths import CEILING, PIECE, STEEP, Paths
from equipoise.games import FlowPolicy, NetworkGame
from equipoise.networks._newton import newton_step

#: Sweeps over the populations between two searches for new paths; and where all paths together
#: have fewer links than the trees of a search, so that sweeps cost less than searches.
_SWEEPS, _MORE_SWEEPS = 10, 30
#: A sweep ends a pass when the largest excess is this fraction of the initial one.
_ENOUGH = 0.01
#: Number of passes after which unused paths are dropped.
_DROP = 2
#: Newton steps begin after this many passes, once the excess is below this fraction of a mean trip.
#: They pause after a step that multiplies the excess by this factor.
_FIRST, _NEAR, _WORSE = 20, 5e-4, 4.0
#: Approximate seconds per node of a tree, and per population in a sweep, in compiled code.
_NODE, _PAIR = 1e-7, 5e-7
#: Approximate seconds per link of a path in a sweep, in compiled code.
_LINK = 1e-8
#: Approximate number of trials for one step that is bisected.
_TRIALS = 50
#: Passes without progress after which rounding is assumed to be the obstacle: this many if the
#: excess is below this fraction of a mean trip, and ten times as many otherwise.
_PATIENCE, _FLOOR = 40, 1e-11


class LateError(Exception):
    """Raised when the time limit has passed."""


Progress = Callable[[dict[str, Any]], None]


def _kernel(name: str, seconds: float) -> Any:
    """Return a kernel as machine code, or as Python if there is little to compute."""
    return choose(name, seconds)[0]


class Costs:
    """Cost parameters for the kernels: those of the game, or tangents to its costs."""

    def __init__(self, game: NetworkGame, concept: str):
        self.game, self.concept = game, concept
        #: Slopes are taken at flows increased by this much: an unused link may have slope zero.
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
        grows = self.exact & (self.rise > 0.0) & (self.power > 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            most = self.rise * (float(game.demand.sum()) / self.capacity) ** self.power
        bent = (self.power < 1.0) | (self.power > STEEP) | ~(self.free + most < CEILING)
        #: Whether tangents tell little of some costs, which then are bisected.
        self.bent = bool((grows & bent).any())
        if not self.exact:
            self.capacity, self.power = np.ones(game.links), np.ones(game.links)

    def at(self, flows: np.ndarray) -> np.ndarray:
        """(links,): the part of the costs that all classes share, cut where the kernels cut it."""
        with np.errstate(over="ignore"):
            optimum = self.concept == "optimum"
            costs = self.game.marginal_costs(flows)[0] if optimum else self.game.times(flows)
        return np.minimum(costs, CEILING)

    def tangent(self, flows: np.ndarray) -> None:
        """Replace functions by their tangents at these flows."""
        if self.exact:
            return
        flows = np.maximum(flows, 0.0)
        value, further = self.at(flows), flows + self.ahead
        if self.concept == "optimum":
            step = 1e-4 * np.maximum(further, float(self.game.demand.mean()))
            slope = (self.at(further + step) - self.at(further)) / step
        else:
            slope = self.game.slopes(further)
        self.rise = np.maximum(slope, 0.0)
        self.free = value - self.rise * flows

    def of_kernels(self, flows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(links,) twice: costs and slopes as the kernels compute them, perhaps of tangents."""
        part = np.maximum(flows, 0.0) / self.capacity
        grows = (self.rise > 0.0) & (self.power > 0.0)
        power = np.where(grows, self.power, 1.0)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            slope = self.rise * power * part ** (power - 1.0) / self.capacity
            costs = self.free + self.rise * np.where(grows, part**power, 1.0)
        return np.minimum(costs, CEILING), np.where(grows & np.isfinite(slope), slope, 0.0)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arguments of the kernels."""
        return self.free, self.rise, self.capacity, self.power, self.extra


def assign(
    game: NetworkGame,
    concept: str,
    tolerance: float,
    start: FlowPolicy | None,
    time_limit: float,
    progress: Progress | None = None,
) -> tuple[FlowPolicy, str, dict[str, Any]]:
    """Return path flows with an excess of at most `tolerance` mean trips, ending, and counts."""
    begun = time.perf_counter()

    def watch() -> None:
        if time.perf_counter() - begun > time_limit:
            raise LateError

    paths, costs = paths_of(game, start), Costs(game, concept)
    work = _NODE * game.nodes * len(paths.groups[0]) + _PAIR * len(paths.demand)
    about = (*paths.groups, paths.targets, paths.demand, *paths.network)
    sweeps = passes = stalled = steps = 0
    pause, resume = 4, _FIRST
    least, worse, ended = np.inf, np.inf, ""
    try:
        if not paths.count:
            costs.tangent(paths.flow)
            loading = (*about, *costs.arrays), 1, np.zeros(3)
            paths.run(_kernel("extend_paths", work), *loading, seconds=work)
        while not ended:
            costs.tangent(paths.flow)
            found = np.zeros(3)
            searched = (*about, *costs.arrays), 0, found
            paths.run(_kernel("extend_paths", work), *searched, seconds=work, watch=watch)
            passes += 1
            mean = mean_cost(paths, costs)
            excess = found[1]
            goal = tolerance * mean
            if progress is not None:
                gap = 1.0 - found[0] / paths.demand.sum() / mean if mean > 0.0 else 0.0
                told = {"iteration": passes, "relative_gap": gap, "excess": excess}
                told |= {"log_gap": float(np.log10(max(gap, 1e-17))), "paths": paths.count}
                progress(told | {"seconds": time.perf_counter() - begun})
            stalled = 0 if excess < 0.9 * least else stalled + 1
            least = min(least, excess)
            if excess <= 0.9 * goal or excess == 0.0:
                ended = "solved"
            elif stalled >= (_PATIENCE if excess < _FLOOR * goal / tolerance else 10 * _PATIENCE):
                ended = "stalled" if excess < _FLOOR * goal / tolerance else "stuck"
            elif time.perf_counter() - begun > time_limit:
                ended = "out of time"
            else:
                if passes % _DROP == 0:
                    paths.drop()
                before = None if costs.exact else paths.flows[: paths.count].copy()
                if excess > worse:
                    pause, resume, worse = 2 * pause, passes + pause, np.inf
                together = passes > resume and excess < _NEAR * goal / tolerance
                if together:
                    steps, worse = steps + 1, _WORSE * min(excess, 25.0 * least)
                    about_paths = *costs.of_kernels(paths.flow), _paid(paths, costs)
                    newton_step(paths, *about_paths, watch)
                enough = _ENOUGH * min(excess, goal)
                searched = len(paths.groups[0]) * len(game.tails)
                many = _MORE_SWEEPS if paths.starts[paths.count] < searched else _SWEEPS
                most = many // 2 if together else many
                name, trials = ("balance_flows", _TRIALS) if costs.bent else ("shift_flows", 1)
                shift = _kernel(name, most * _PAIR * trials * len(paths.demand))
                size = int(max(1.0, PIECE / (_LINK * trials * paths.starts[paths.count])))
                for first in range(0, most, size):
                    some = min(size, most - first)
                    done = shift(paths.classes, *costs.arrays, *paths.arrays, some, enough)
                    sweeps += done
                    if done < some:
                        break
                    if before is None and first + size < most:
                        watch()
                if before is not None:
                    whole = _shorten(paths, costs, before) == 1.0
                    costs.ahead = min(
                        costs.ahead * (0.25 if whole else 4.0), float(paths.demand.max())
                    )
    except LateError:
        ended = "out of time"
    except KeyboardInterrupt:
        ended = "interrupted"
        if not paths.count or (paths.head < 0).any():
            raise
    method = "gradient projection on paths" + (", Newton steps" if steps else "")
    counts = {"method": method, "passes": passes, "sweeps": sweeps, "newton_steps": steps}
    return FlowPolicy.of_paths(game, *paths.used()), ended, counts


def paths_of(game: NetworkGame, start: FlowPolicy | None) -> Paths:
    """Paths of a game, including those of a policy if it has some for every population."""
    paths = Paths(game.graph, game.groups(), game.destinations, game.demand)
    if start is not None and start.path_flows is not None:
        paths.start_from(start.path_pairs, start.path_flows, start.path_links, start.path_starts)
    return paths


def _paid(paths: Paths, costs: Costs) -> np.ndarray | None:
    """(paths,): cost of each path to its class beyond the shared cost; None if there is none."""
    if not costs.extra.any():
        return None
    sizes = np.diff(paths.starts[: paths.count + 1])
    own = np.repeat(paths.classes[paths.pairs[: paths.count]], sizes)
    links = paths.links[: paths.starts[paths.count]]
    return np.add.reduceat(costs.extra[own, links], paths.starts[: paths.count])


def mean_cost(paths: Paths, costs: Costs) -> float:
    """Mean cost of a trip: the sum of flow times cost over all links and classes, by demand."""
    demand, paid = float(paths.demand.sum()), _paid(paths, costs)
    mean = float((paths.flow / demand) @ costs.at(paths.flow))
    return mean if paid is None else mean + float((paths.flows[: paths.count] / demand) @ paid)


def _shorten(paths: Paths, costs: Costs, before: np.ndarray) -> float:
    """Move towards the new flows only while the potential falls; return the fraction moved."""
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
    # Near the end the slope is dominated by rounding, and the full step is right.
    noise = 1e-15 * float(costs.at(first) @ (first + 1e3 * np.abs(step)))
    if slope(1.0) > max(noise, 0.5 * abs(slope(0.0))):
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) <= 0.0 else (low, middle)
        high = low if low > 0.0 else high
    paths.flows[: paths.count] = before + high * (after - before)
    paths.reload()
    return high


def certified(game: NetworkGame, policy: FlowPolicy, concept: str, ended: str) -> Any:
    """Return the certificate of flows that a solver has found."""
    try:
        return certify(game, policy, concept=concept)
    except InputError as error:  # nobody gave these flows
        hint = "or raise time_limit" if ended in ("out of time", "interrupted") else ""
        expected = "costs that are finite at the flows of an equilibrium"
        hint = "check the capacity and the power of the link" + (f", {hint}" if hint else "")
        raise InputError("game", expected, error.found, hint) from None
