"""Split link flows into paths, which proves that they carry the demand.

Link flows v carry the trips of all pairs if and only if there are path flows whose link sums x
exceed v nowhere: both balance at every node, so v - x is circulating traffic. Such paths are found
as an equilibrium under prices p x / v, which equal p where the paths use a link exactly as much as
the flows do. The prices p start at the costs of the flows, under which flows near an equilibrium
take cheapest paths already. Whenever the equilibrium is close, p is multiplied by x / v: this is a
proximal method for the dual problem, which looks for prices under which v costs less than cheapest
paths. If such prices exist, the paths do not (Onaga and Kakusho 1971).

The certificate does not trust the split: it sums the paths and charges everything that they use
beyond the link flows, at the costs of the larger of the two flows.
"""

from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.kernels import choose, is_installed
from equipoise.core.paths import Paths
from equipoise.core.routes import CONSERVED
from equipoise.games import NetworkGame

#: The search ends when everything that paths use beyond the flows costs at most this fraction of
#: all travel, or of the excess that is certified in any case.
_ENOUGH, _SHARE = 1e-13, 0.01
#: It continues while paths exceed the flow of a link by more than this fraction of the demand.
_LITTLE = 1e-6
#: Links with less than this fraction of the demand count as empty.
_EMPTY = 1e-13
#: Largest factor by which prices change from one pass to the next.
_CHANGE = 10.0
#: Prices change when the gap under them is this fraction of the distance between the flows.
_NEAR = 0.03
#: Smallest price, as a fraction of the largest price.
_FLOOR = 1e-6
#: Number of gradient-projection sweeps in a pass.
_SWEEPS = 5
#: Maximum number of passes, and approximate maximum time of compiled work in seconds.
_PASSES, _SECONDS = 200, 60.0
#: How many times as long a pass takes without Numba.
_SLOW = 200.0
#: Approximate compiled time per tree node, and per population in a pass, in seconds.
_NODE, _PAIR = 1e-7, 5e-6

Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def split(game: NetworkGame, flows: np.ndarray, costs: np.ndarray, excess: float) -> Columns:
    """Return paths of all populations along link flows.

    `flows` and `costs` have a row for each class, or one for all. `excess` is how much more the
    flows cost than cheapest paths. Populations, flows, links and starts of the paths are in the
    format of a `FlowPolicy`.
    """
    parts = []
    for m, row in enumerate(flows):
        groups = [
            (0, origin, pairs)
            for own, origin, pairs in game.groups()
            if len(flows) == 1 or own == m
        ]
        if groups:
            parts.append(_Search(game, groups, row, costs[m]).run(excess))
    pairs, amounts, links = (np.concatenate([part[i] for part in parts]) for i in range(3))
    sizes = np.concatenate([np.diff(part[3]) for part in parts])
    return pairs, amounts, links, np.concatenate([[0], np.cumsum(sizes)])


def _kernel(name: str, seconds: float) -> Any:
    """Return a kernel as machine code, or as Python for small inputs or without Numba."""
    return choose(name, seconds)[0] or choose(name, 0.0)[0]


class _Search:
    """Path flows of one class and their prices."""

    def __init__(self, game: NetworkGame, groups: Any, flows: np.ndarray, costs: np.ndarray):
        self.game, self.flows, self.costs = game, flows, costs
        self.paths = Paths(game.graph, groups, game.destinations, game.demand)
        self.demand = float(self.paths.demand.sum())
        self.empty = flows <= _EMPTY * self.demand
        largest = float(costs.max())
        self.prices = np.maximum(costs / largest if largest > 0.0 else np.ones_like(costs), 1e-4)
        self.prices[self.empty] = 0.0
        #: A link that the flows leave empty costs more than any path without such a link.
        self.closed = np.where(self.empty, 1e3 * game.nodes, 0.0)
        self.room = np.where(self.empty, 1.0, flows)
        #: A missing traveller counts on a link that costs nothing, too.
        self.weights = np.maximum(costs, float(flows @ costs) / max(float(flows.sum()), 1e-300))

    def run(self, excess: float) -> Columns:
        """Return the paths that exceed the flows least among those that a bounded search finds."""
        paths, links = self.paths, self.game.links
        trees = _NODE * self.game.nodes * len(paths.groups[0])
        work = trees + _PAIR * len(paths.demand)
        slow = 1.0 if is_installed() else _SLOW
        if slow > 1.0 and work * slow > 0.1 * _SECONDS:
            hint = "or give path flows"
            raise InputError("flows", "Numba, to split this many flows into paths", "none", hint)
        about = (*paths.groups, paths.targets, paths.demand, *paths.network)
        power, extra = np.ones(links), np.zeros((1, links))
        enough = max(_ENOUGH * float(self.flows @ self.costs), _SHARE * excess)
        fixed = (self.closed + self.prices, np.zeros(links), self.room, power, extra)
        paths.run(_kernel("extend_paths", work), (*about, *fixed), 1, np.zeros(3), seconds=work)
        best, least = paths.used(), self._over()
        for number in range(int(np.clip(_SECONDS / (work * slow), 10, _PASSES))):
            if least <= enough and self._most() <= _LITTLE * self.demand:
                break
            rising = (self.closed, self.prices, self.room, power, extra)
            found = np.zeros(3)
            paths.run(_kernel("extend_paths", work), (*about, *rising), 0, found, seconds=work)
            self._reprice(found[0])
            if number % 2:
                paths.drop()
            shift = _kernel("shift_flows", _PAIR * len(paths.demand))
            shift(paths.classes, *rising, *paths.arrays, _SWEEPS, 0.0)
            if (over := self._over()) < least:
                best, least = paths.used(), over
        return best

    def _over(self) -> float:
        return float(np.maximum(self.paths.flow - self.flows, 0.0) @ self.weights)

    def _most(self) -> float:
        return float((self.paths.flow - self.flows).max(initial=0.0))

    def _reprice(self, least: float) -> None:
        """Change prices once flows are near their equilibrium; reject flows that prices disprove.

        `least` is the cost of all trips on cheapest paths at the current prices.
        """
        paths = self.paths
        change = np.maximum(paths.flow, 0.0) / self.room
        now = self.closed + self.prices * change
        lacking = least - float(now @ self.flows)
        if lacking > 0.0:
            # Prices above the cost of every trip are capped at that cost.
            starts, end = paths.starts[: paths.count], paths.starts[paths.count]
            trips = np.add.reduceat(now[paths.links[:end]], starts)
            most = max(float(trips.max()), float(now[~self.empty].max(initial=0.0)))
            if lacking > CONSERVED * self.demand * most:
                expected = "flows that carry the demand from each origin to its destinations"
                found = f"at least {lacking / most:.3g} too few travellers on links that trips need"
                raise InputError("flows", expected, found)
        if float(now @ paths.flow) - least <= _NEAR * float(now @ np.abs(paths.flow - self.flows)):
            self.prices *= np.clip(change, 1.0 / _CHANGE, _CHANGE)
            self.prices /= self.prices.max()
            self.prices[~self.empty] = np.maximum(self.prices[~self.empty], _FLOOR)
