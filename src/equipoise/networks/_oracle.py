"""Equilibria from a best-response oracle alone: mixtures of the actions that it has returned.

Simplicial decomposition (von Hohenbalken 1977; Larsson and Patriksson 1992): the oracle adds the
cheapest action of each population, and mass moves from expensive actions to the cheapest until
they cost the same, by false position on the cost of the move. The method needs no derivatives, and
costs may depend on all resources. It also solves networks if Numba is not installed.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.errors import named_arguments
from equipoise.core.results import Solution, finish
from equipoise.core.text import named
from equipoise.games import FlowPolicy, NetworkGame, OracleGame

#: Sweeps over the populations between two calls of the oracle.
_SWEEPS = 6
#: Evaluations of the costs for one move of mass.
_TRIALS = 6
#: Rounds without progress after which rounding is assumed to be the obstacle.
_PATIENCE = 40


class Mixtures:
    """The known actions of each population, and the mass on each."""

    def __init__(self, first: np.ndarray, sizes: np.ndarray, price: Callable[[Any, int], Any]):
        self.actions = [[row] for row in first]
        self.weights = [np.ones(1) for _ in first]
        self.sizes, self.price = sizes, price
        self.use = first.sum(0)

    def gather(self) -> np.ndarray:
        """(populations, resources): the use of each resource by each population."""
        parts = zip(self.weights, self.actions, strict=True)
        return np.stack([w @ np.stack(own) for w, own in parts])

    def extend(self, best: np.ndarray, price: Callable[[int], np.ndarray]) -> float:
        """Add actions cheaper than the known ones; return the largest excess of an agent."""
        worst = 0.0
        for k, row in enumerate(best):
            costs = price(k)
            known = np.stack(self.actions[k]) @ costs
            least = min(float(row @ costs), float(known.min()))
            used = known[self.weights[k] > 0.0]
            worst = max(worst, (float(used.max()) - least) / self.sizes[k])
            if row @ costs < known.min() * (1 - 1e-15) and not any(
                (row == old).all() for old in self.actions[k]
            ):
                kept = [i for i in range(len(known)) if self.weights[k][i] > 0.0]
                self.actions[k] = [self.actions[k][i] for i in kept] + [row]
                self.weights[k] = np.append(self.weights[k][kept], 0.0)
        return worst

    def sweep(self) -> None:
        """Move mass of every population towards its cheapest action."""
        self.use = self.gather().sum(0)
        for k, actions in enumerate(self.actions):
            if len(actions) == 1:
                continue
            table, weights = np.stack(actions), self.weights[k]
            best = int(np.argmin(table @ self.price(self.use, k)))
            for i in np.flatnonzero(weights > 0.0):
                if i == best:
                    continue
                move = table[best] - table[i]
                step = self._step(k, move, float(weights[i]))
                weights[i] = weights[i] - step
                weights[best] += step
                self.use = self.use + step * move

    def _step(self, k: int, move: np.ndarray, most: float) -> float:
        """Size of a move: until both actions cost the same, or all the mass (Illinois method)."""
        low, high = 0.0, most
        below = float(self.price(self.use, k) @ move)
        if below >= 0.0:
            return 0.0
        above = float(self.price(self.use + most * move, k) @ move)
        if above <= 0.0:
            return most
        side = 0
        step = low
        for _ in range(_TRIALS):
            step = low + (high - low) * below / (below - above)
            found = float(self.price(self.use + step * move, k) @ move)
            if found < 0.0:
                low, below = step, found
                above = 0.5 * above if side < 0 else above
                side = -1
            else:
                high, above = step, found
                below = 0.5 * below if side > 0 else below
                side = 1
        return step


def _run(
    mixtures: Mixtures,
    ask: Callable[[np.ndarray], tuple[np.ndarray, Callable[[int], np.ndarray], float]],
    tolerance: float,
    time_limit: float,
    progress: Any,
) -> tuple[str, int]:
    """Iterate until no agent's excess is above the tolerance; return the ending and rounds."""
    begun, rounds, stalled, least = time.perf_counter(), 0, 0, np.inf
    try:
        while True:
            best, price, mean = ask(mixtures.gather().sum(0))
            excess = mixtures.extend(best, price)
            rounds += 1
            if progress is not None:
                told = {"iteration": rounds, "excess": excess}
                progress(told | {"seconds": time.perf_counter() - begun})
            stalled = 0 if excess < 0.9 * least else stalled + 1
            least = min(least, excess)
            if excess <= 0.9 * tolerance * mean:
                return "solved", rounds
            if stalled >= _PATIENCE:
                return "stalled", rounds
            if time.perf_counter() - begun > time_limit:
                return "out of time", rounds
            for _ in range(_SWEEPS):
                mixtures.sweep()
    except KeyboardInterrupt:
        return "interrupted", rounds


@named_arguments
def solve_oracle(
    game: OracleGame,
    *,
    tolerance: float = 1e-8,
    time_limit: float = 600.0,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Solution:
    """Find an equilibrium of a game given by an oracle: each population's use of each resource.

    Args:
        game: The costs and the oracle.
        tolerance: The largest gain of an agent, as a fraction of the mean cost of an agent.
            Default: 1e-8.
        time_limit: Seconds after which the best result so far is returned. Default: 600.
        progress: Called after each round with `iteration`, `excess` and `seconds`.

    **Example**

    >>> import equipoise as eq
    >>> solution = eq.solve(eq.games.load("charging-schedules"))
    >>> solution.status.ok, solution.policy.flows.shape
    (True, (6, 24))
    """
    checks.check_range("tolerance", tolerance, 0.0, 1.0, low_open=True)
    checks.check_range("time_limit", time_limit, 0.0, np.inf)
    begun = time.perf_counter()
    first = game.replies(game.costs(np.zeros(game.resources)))
    mixtures = Mixtures(first, game.sizes, lambda x, k: game.costs(x))
    agents = float(game.sizes.sum())

    def ask(x: np.ndarray) -> tuple[np.ndarray, Callable[[int], np.ndarray], float]:
        costs = game.costs(x)
        return game.replies(costs), lambda k: costs, abs(float(costs @ x)) / agents

    ended, rounds = _run(mixtures, ask, tolerance, time_limit, progress)
    policy = FlowPolicy(mixtures.gather())
    certificate: Any = certify(game, policy)
    mean = abs(float(certificate.total_cost)) / agents
    stats = {"method": "simplicial decomposition", "rounds": rounds}
    stats |= {"actions": sum(map(len, mixtures.actions))}
    stats["seconds"] = time.perf_counter() - begun
    told = f"tolerance {tolerance:g} of the mean cost of an agent"
    words: dict[str, Any] = {"who": "agent", "told": told, "value": np.asarray(mean)}
    solution = finish(policy, certificate, tolerance * mean, ended, **words, stats=stats, game=game)
    return named(solution, game.about)


def assign_by_oracle(
    game: NetworkGame, concept: str, tolerance: float, time_limit: float, progress: Any
) -> tuple[FlowPolicy, str, dict[str, Any]]:
    """Path flows of a network without Numba, the ending, and counts."""

    def costs_of(x: np.ndarray) -> np.ndarray:
        return game.marginal_costs(x) if concept == "optimum" else game.costs(x)

    groups = game.groups()

    def best(costs: np.ndarray) -> np.ndarray:
        use = np.zeros((len(game.demand), game.links))
        for m, origin, pairs in groups:
            _, last = game.graph.trees(costs[m], [origin])
            for pair in pairs:
                path = game.graph.path(last[0], origin, game.destinations[pair])
                use[pair, path] = game.demand[pair]
        return use

    def ask(x: np.ndarray) -> tuple[np.ndarray, Callable[[int], np.ndarray], float]:
        costs = costs_of(np.maximum(x, 0.0))
        mean = float(costs[0] @ x) / float(game.demand.sum())
        return best(costs), lambda k: costs[game.classes[k]], mean

    def price(x: np.ndarray, k: int) -> np.ndarray:
        return costs_of(np.maximum(x, 0.0))[game.classes[k]]

    first = best(costs_of(np.zeros(game.links)))
    mixtures = Mixtures(first, game.demand, price)
    ended, rounds = _run(mixtures, ask, tolerance, time_limit, progress)
    method = f"simplicial decomposition with shortest paths by {game.graph.method}"
    return _as_paths(game, mixtures), ended, {"method": method, "passes": rounds, "sweeps": 0}


def _as_paths(game: NetworkGame, mixtures: Mixtures) -> FlowPolicy:
    """Convert the mixtures to paths with their links in order."""
    flows, pairs, links, starts = [], [], [], [0]
    for k, actions in enumerate(mixtures.actions):
        for row, weight in zip(actions, mixtures.weights[k], strict=True):
            if weight <= 0.0:
                continue
            onward = {int(game.tails[link]): int(link) for link in np.flatnonzero(row)}
            node = int(game.origins[k])
            while node != game.destinations[k]:
                links.append(onward[node])
                node = int(game.heads[links[-1]])
            flows.append(weight * game.demand[k])
            pairs.append(k)
            starts.append(len(links))
    return FlowPolicy.of_paths(game, pairs, flows, links, starts)
