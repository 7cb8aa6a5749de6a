"""Who meets whom in a game of interaction terms, and in which tables.

A pattern is what one family of such games adds to what all of them share.
"""

import math
from abc import abstractmethod
from itertools import combinations

import equinox as eqx
import numpy as np


class Pattern(eqx.Module):
    """Who meets whom in a game, and in which tables."""

    @property
    def bounded(self) -> bool:
        """Whether rewards are within [0, 1] as they are drawn, and not scaled afterwards."""
        return False

    @abstractmethod
    def scopes(self, rng: np.random.Generator, agents: int) -> dict[int, np.ndarray]:
        """The agents of all terms, by order."""

    @abstractmethod
    def tables(
        self,
        rng: np.random.Generator,
        scopes: dict[int, np.ndarray],
        situations: int,
        states: int,
        actions: int,
    ) -> dict[int, np.ndarray]:
        """The tables of all terms, by order, of any scale."""


class Independent(Pattern):
    """Independent entries in every table, uniform; who meets whom is said by a subclass."""

    def tables(
        self,
        rng: np.random.Generator,
        scopes: dict[int, np.ndarray],
        situations: int,
        states: int,
        actions: int,
    ) -> dict[int, np.ndarray]:
        """Independent uniform entries."""
        moves = states * actions
        return {
            order: rng.uniform(-1.0, 1.0, (situations, len(scope), *[moves] * order))
            for order, scope in scopes.items()
        }


class AllGroups(Independent):
    """A term for every group of agents up to a size, or for some of each size."""

    rank: int
    terms: int | None = None

    def scopes(self, rng: np.random.Generator, agents: int) -> dict[int, np.ndarray]:
        """Every group that holds the agent, or `terms` random ones of each order."""
        found: dict[int, np.ndarray] = {1: np.arange(agents)[:, None]}
        for order in range(2, self.rank + 1):
            many = self.terms is not None and math.comb(agents - 1, order - 1) > self.terms
            count = self.terms if many and self.terms else math.comb(agents - 1, order - 1)
            rows = np.empty((agents, count, order), np.int32)
            for i in range(agents):
                others = np.delete(np.arange(agents, dtype=np.int32), i)
                rows[i, :, 0] = i
                rows[i, :, 1:] = (
                    _random_groups(rng, others, order - 1, count)
                    if many
                    else np.array(list(combinations(others, order - 1)))
                )
            found[order] = rows.reshape(-1, order)
        return found


class Pairs(Independent):
    """A term for every ordered pair of agents, and one for each agent alone."""

    def scopes(self, rng: np.random.Generator, agents: int) -> dict[int, np.ndarray]:
        """All of them."""
        return {1: np.arange(agents)[:, None], 2: all_pairs(agents)}


class Network(Independent):
    """Terms of an agent with groups of its neighbours."""

    degree: int
    rank: int
    #: (agents, agents) of truth values, or None for neighbours drawn at random.
    graph: np.ndarray | None = None

    def scopes(self, rng: np.random.Generator, agents: int) -> dict[int, np.ndarray]:
        """Groups of `rank - 1` neighbours, or all neighbours of an agent that has fewer."""
        found: dict[int, list[tuple[int, ...]]] = {1: [(i,) for i in range(agents)]}
        for i in range(agents):
            if self.graph is None:
                # Drawn among the others: those from i on are one further.
                drawn = rng.choice(agents - 1, self.degree, replace=False)
                neighbours = np.sort(drawn + (drawn >= i))
            else:
                neighbours = np.flatnonzero(self.graph[i])
            size = min(self.rank - 1, len(neighbours))
            groups = [(i, *map(int, group)) for group in combinations(neighbours, size)]
            if size:
                found.setdefault(size + 1, []).extend(groups)
        return {order: np.array(rows, np.int32) for order, rows in found.items()}


class ZeroSumPairs(Pattern):
    """Every two agents play a zero-sum game with each other; nothing else is at stake."""

    def scopes(self, rng: np.random.Generator, agents: int) -> dict[int, np.ndarray]:
        """All ordered pairs."""
        return {2: all_pairs(agents)}

    def tables(
        self,
        rng: np.random.Generator,
        scopes: dict[int, np.ndarray],
        situations: int,
        states: int,
        actions: int,
    ) -> dict[int, np.ndarray]:
        """What one of a pair gets, the other pays."""
        moves, pairs = states * actions, scopes[2]
        table = rng.uniform(-1.0, 1.0, (situations, len(pairs), moves, moves))
        agents = int(pairs.max()) + 1
        place = np.full((agents, agents), -1)
        place[pairs[:, 0], pairs[:, 1]] = np.arange(len(pairs))
        upper = np.flatnonzero(pairs[:, 0] < pairs[:, 1])
        mirrored = place[pairs[upper, 1], pairs[upper, 0]]
        table[:, mirrored] = -table[:, upper].swapaxes(-1, -2)
        return {2: table}


class Congestion(Pattern):
    """Resources that cost more the more agents use them: a polynomial of the load.

    A polynomial of degree d in the number of users is a K-IR reward with K = d + 1. With y other
    users, `cost(1 + y) = sum_k D_k binom(y, k)` where D_k are the forward differences of the
    cost at one user (Newton's series), and `binom(y, k)` counts the groups of k others that all
    use the same resource: a term of order k + 1 each.
    """

    degree: int

    @property
    def bounded(self) -> bool:
        """Yes."""
        return True

    def scopes(self, rng: np.random.Generator, agents: int) -> dict[int, np.ndarray]:
        """All groups of up to `degree` others."""
        return AllGroups(self.degree + 1).scopes(rng, agents)

    def tables(
        self,
        rng: np.random.Generator,
        scopes: dict[int, np.ndarray],
        situations: int,
        states: int,
        actions: int,
    ) -> dict[int, np.ndarray]:
        """Costs of each resource, the same for all its users, by Newton's series."""
        agents, moves = int(scopes[1].max()) + 1, states * actions
        slope = rng.uniform(0.25, 0.5, (situations, actions))
        toll = rng.uniform(0.0, 0.5, (situations, actions))
        load = np.arange(1, self.degree + 2) / agents
        reward = 1.0 - toll[..., None] - slope[..., None] * load**self.degree
        used = np.arange(moves) % actions  # the resource of a move, whatever the state
        found = {}
        for order, scope in scopes.items():
            same = np.ones([moves] * order, bool)
            for axis in range(1, order):
                view = [moves if k == axis else 1 for k in range(order)]
                same &= used.reshape(-1, *[1] * (order - 1)) == used.reshape(view)
            worth = np.diff(reward, order - 1)[..., 0][:, used]
            table = same * worth.reshape(situations, moves, *[1] * (order - 1))
            found[order] = np.broadcast_to(table[:, None], (situations, len(scope), *same.shape))
        return found


def all_pairs(agents: int) -> np.ndarray:
    """(agents * (agents - 1), 2): every ordered pair of different agents."""
    first, second = np.divmod(np.arange(agents * (agents - 1), dtype=np.int32), agents - 1)
    return np.stack([first, second + (second >= first)], 1)


def _random_groups(
    rng: np.random.Generator, others: np.ndarray, size: int, count: int
) -> np.ndarray:
    """(count, size): different groups of others, members in order; fewer than there are."""
    groups: dict[tuple[int, ...], None] = {}
    while len(groups) < count:
        groups[tuple(sorted(rng.choice(others, size, replace=False).tolist()))] = None
    return np.array(list(groups))
