"""Families of games whose rewards are sums of interaction terms.

Congestion games have rewards within [0, 1]. In all other families, terms are drawn independently
with mean zero and scaled so that an agent's reward has standard deviation `scale` around `centre`
under uniform play, whatever the number of agents. Gains therefore keep the same scale as agents
are added. These rewards are mostly, but not always, within [0, 1].
"""

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.values import Value, frozen, static
from equipoise.games._contextual import ContextualGame, as_noise
from equipoise.games._decoupled import DecoupledMarkovGame
from equipoise.games._interactions import Interactions

MOST_RANK = 30  # tables have two more axes, and NumPy 1 allows 32
Tables = dict[int, np.ndarray]


class AllGroups(Value):
    """A term for every group of agents of some sizes, or for `terms` groups of each size."""

    rank: int = static()
    terms: int | None = static(default=None)
    lowest: int = static(default=1)

    def counts(self, agents: int) -> dict[int, int]:
        """Return the number of terms of each order."""
        most = math.inf if self.terms is None else self.terms
        orders = range(self.lowest, self.rank + 1)
        return {k: agents * int(min(most, math.comb(agents - 1, k - 1))) for k in orders}

    def scopes(self, rng: np.random.Generator, agents: int) -> Tables:
        """Return every group that contains the agent, or `terms` random ones of each order."""
        found: Tables = {}
        for order, terms in self.counts(agents).items():
            count = terms // agents
            many = math.comb(agents - 1, order - 1) > count
            if order == 2 and not many:
                found[2] = _all_pairs(agents)
                continue
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


class Network(Value):
    """Terms of an agent with groups of its neighbours, in a given or a random graph."""

    degree: int = static()
    rank: int = static()
    graph: np.ndarray | None = None

    def counts(self, agents: int) -> dict[int, int]:
        """Return the number of groups of neighbours of the largest size; others are smaller."""
        degrees = [self.degree] if self.graph is None else self.graph.sum(1).tolist()
        groups = max(math.comb(int(d), min(self.rank - 1, int(d))) for d in degrees)
        return {1: agents, self.rank: agents * groups}

    def scopes(self, rng: np.random.Generator, agents: int) -> Tables:
        """Return groups of `rank - 1` neighbours, or all neighbours of an agent with fewer."""
        found: dict[int, list[tuple[int, ...]]] = {1: [(i,) for i in range(agents)]}
        for i in range(agents):
            if self.graph is None:
                # Draw among the other agents: indices from i on are shifted by one.
                drawn = rng.choice(agents - 1, self.degree, replace=False)
                neighbours = np.sort(drawn + (drawn >= i))
            else:
                neighbours = np.flatnonzero(self.graph[i])
            size = min(self.rank - 1, len(neighbours))
            groups = [(i, *map(int, group)) for group in combinations(neighbours, size)]
            if size:
                found.setdefault(size + 1, []).extend(groups)
        return {order: np.array(rows, np.int32) for order, rows in found.items()}


def _independent(
    rng: np.random.Generator, scopes: Tables, situations: int, moves: int, actions: int
) -> Tables:
    """Independent uniform entries of arbitrary scale."""
    return {
        order: rng.uniform(-1.0, 1.0, (situations, len(scope), *[moves] * order))
        for order, scope in scopes.items()
    }


def _zero_sum(
    rng: np.random.Generator, scopes: Tables, situations: int, moves: int, actions: int
) -> Tables:
    """Zero-sum pairs: one agent receives what the other pays."""
    pairs = scopes[2]
    table = rng.uniform(-1.0, 1.0, (situations, len(pairs), moves, moves))
    # Pairs are sorted; sorting finds the pair with the two agents swapped.
    mirrored = np.lexsort((pairs[:, 0], pairs[:, 1]))
    upper = np.flatnonzero(pairs[:, 0] < pairs[:, 1])
    table[:, mirrored[upper]] = -table[:, upper].swapaxes(-1, -2)
    return {2: table}


def _congested(
    rng: np.random.Generator, scopes: Tables, situations: int, moves: int, actions: int
) -> Tables:
    """Costs of each resource, equal for all its users: a polynomial of the load.

    A polynomial of degree d in the number of users is a K-IR reward with K = d + 1. With y other
    users, `cost(1 + y) = sum_k D_k binom(y, k)` where D_k are the forward differences of the
    cost at one user (Newton's series), and `binom(y, k)` counts the groups of k others that all
    use the same resource: a term of order k + 1 each.
    """
    agents, degree = len(scopes[1]), max(scopes) - 1
    slope = rng.uniform(0.25, 0.5, (situations, actions))
    toll = rng.uniform(0.0, 0.5, (situations, actions))
    load = np.arange(1, degree + 2) / agents
    reward = 1.0 - toll[..., None] - slope[..., None] * load**degree
    used = np.arange(moves) % actions  # the resource of a move, in any state
    found = {}
    for order, scope in scopes.items():
        same = np.ones([moves] * order, bool)
        for axis in range(1, order):
            view = [moves if k == axis else 1 for k in range(order)]
            same &= used.reshape(-1, *[1] * (order - 1)) == used.reshape(view)
        worth = np.diff(reward, order - 1)[..., 0][:, used]
        table = frozen(same * worth.reshape(situations, moves, *[1] * (order - 1)))
        found[order] = np.broadcast_to(table[:, None], (situations, len(scope), *same.shape))
    return found


def _all_pairs(agents: int) -> np.ndarray:
    """(agents * (agents - 1), 2): every ordered pair of different agents."""
    first, second = np.divmod(np.arange(agents * (agents - 1), dtype=np.int32), agents - 1)
    return np.stack([first, second + (second >= first)], 1)


def _random_groups(
    rng: np.random.Generator, others: np.ndarray, size: int, count: int
) -> np.ndarray:
    """(count, size): distinct random groups of other agents, members sorted; fewer than exist."""
    groups: dict[tuple[int, ...], None] = {}
    while len(groups) < count:
        groups[tuple(sorted(rng.choice(others, size, replace=False).tolist()))] = None
    return np.array(list(groups))


class InteractionFamily(Value):
    """A distribution over games with interaction terms; built by functions of `families`.

    **Example**

    >>> import equipoise as eq
    >>> family = eq.games.families.polymatrix(agents=20, actions=4, contexts=2)
    >>> game = family.sample(key=0)
    >>> game.agents, game.contexts, game.interactions.terms
    (20, 2, 400)
    """

    #: Name of the family in tables and run folders.
    name: str = static()
    #: Number of agents.
    agents: int = static()
    #: Number of actions of each agent.
    actions: int = static()
    #: Number of contexts.
    contexts: int = static()
    #: Number of local states of each agent; None for contextual games.
    states: int | None = static()
    #: Number of steps; 1 without states.
    horizon: int = static()
    #: The groups of agents that interact.
    groups: AllGroups | Network
    #: Function that draws the tables of the groups.
    tables: Callable[..., Tables] = static()
    #: Standard deviation of rewards under uniform play; None if rewards are drawn within [0, 1].
    scale: float | None = static()
    #: Mean reward under uniform play.
    centre: float = static()
    #: Standard deviation of the noise of logged rewards.
    noise: float = static()

    def sample(self, games: int | None = None, *, key: Any) -> Any:
        """Draw one game, or a tuple of `games` games; game i is the same in either case.

        Games with many terms are not put into one batch, unlike games with a single table.
        """
        import jax

        from equipoise.core.randomness import as_key

        count = 1 if games is None else checks.check_count("games", games)
        words = np.asarray(jax.random.key_data(as_key(key))).ravel().tolist()
        drawn = tuple(self._draw(np.random.default_rng([*words, i])) for i in range(count))
        return drawn[0] if games is None else drawn

    def _draw(self, rng: np.random.Generator) -> ContextualGame | DecoupledMarkovGame:
        situations, moves = self.contexts * self.horizon, (self.states or 1) * self.actions
        advice = "use fewer agents, actions, contexts or steps, or a lower rank"
        for order, terms in self.groups.counts(self.agents).items():
            factors = (8 * 3, situations, terms, *[moves] * order)
            checks.check_memory("agents", factors, f"the tables of order {order}", advice)
        factors = (8 * 3, situations, self.agents, moves, self.states or 1)
        checks.check_memory("agents", factors, "the transitions", advice)
        scopes = self.groups.scopes(rng, self.agents)
        tables = self.tables(rng, scopes, situations, moves, self.actions)
        if self.scale is not None:
            # One factor for all agents and contexts keeps zero-sum pairs zero-sum.
            variances = [table.var(tuple(range(2, table.ndim))) for table in tables.values()]
            total = sum(float(variance.sum(1).mean()) for variance in variances)
            factor = self.scale / math.sqrt(total / self.agents)
            tables = {order: table * factor for order, table in tables.items()}
            if self.centre:
                tables[1] = tables[1] + self.centre
        interactions = Interactions(frozen(scopes), frozen(tables), self.agents)
        if self.states is None:
            return ContextualGame(interactions, noise=self.noise)
        shape = (self.contexts, self.horizon, self.agents, self.states, self.actions, self.states)
        transitions = rng.standard_exponential(shape)
        transitions = frozen(transitions / transitions.sum(-1, keepdims=True))
        initial = np.zeros((self.agents, self.states))
        initial[:, 0] = 1.0
        return DecoupledMarkovGame(interactions, transitions, initial, noise=self.noise)


def _family(
    name: str,
    groups: AllGroups | Network,
    tables: Callable[..., Tables] = _independent,
    least: int = 2,
    *,
    agents: int,
    actions: int,
    contexts: int,
    states: int | None = None,
    horizon: int = 1,
    scale: float | None = None,
    centre: float = 0.0,
    noise: float,
) -> InteractionFamily:
    """Check the arguments that all families share."""
    if states is None and horizon != 1:
        raise InputError("horizon", "1 for a game without states", repr(horizon))
    if scale is not None:
        checks.check_range("scale", scale, 0.0, np.inf, low_open=True, high_open=True)
    checks.check_range("centre", centre, -np.inf, np.inf, low_open=True, high_open=True)
    return InteractionFamily(
        name=name,
        agents=checks.check_count("agents", agents, least),
        actions=checks.check_count("actions", actions),
        contexts=checks.check_count("contexts", contexts),
        states=None if states is None else checks.check_count("states", states),
        horizon=checks.check_count("horizon", horizon),
        groups=groups,
        tables=tables,
        scale=None if scale is None else float(scale),
        centre=float(centre),
        noise=as_noise(noise),
    )


def _check_rank(name: str, value: Any, at_least: int = 1) -> int:
    rank = checks.check_count(name, value, at_least)
    if rank > MOST_RANK:
        raise InputError(name, f"at most {MOST_RANK}, because a table has an axis for each", rank)
    return rank


@named_arguments
def polymatrix(
    agents: int = 20,
    actions: int = 4,
    contexts: int = 1,
    *,
    states: int | None = None,
    horizon: int = 1,
    scale: float = 0.1,
    centre: float = 0.5,
    noise: float = 0.15,
) -> InteractionFamily:
    """Every pair of agents interacts: rewards are sums over all others (Howson, 1972), rank 2.

    With `states` and `horizon`, these are Markov games with decoupled transitions. Each next-state
    distribution is drawn uniformly, and all agents start in state 0.

    **Example**

    >>> import equipoise as eq
    >>> eq.games.families.polymatrix(agents=5, actions=3).sample(key=0).interactions.rank
    2
    >>> eq.games.families.polymatrix(5, 3, states=2, horizon=4).sample(key=0).horizon
    4
    """
    return _family(
        "polymatrix", AllGroups(2), agents=agents, actions=actions, contexts=contexts,
        states=states, horizon=horizon, scale=scale, centre=centre, noise=noise,
    )  # fmt: skip


@named_arguments
def network(
    agents: int = 100,
    actions: int = 4,
    contexts: int = 1,
    *,
    degree: int = 4,
    graph: Any = None,
    rank: int = 2,
    states: int | None = None,
    horizon: int = 1,
    scale: float = 0.1,
    centre: float = 0.5,
    noise: float = 0.15,
) -> InteractionFamily:
    """Rewards depend only on the neighbours in a network (Galeotti and others, 2010).

    Agent i interacts with the agents j for which `graph[i, j]` is true, or with `degree` random
    others. Every group of `rank - 1` neighbours makes a term: rank 2 is pairwise, and with rank
    `degree + 1` a reward depends on all neighbours jointly. (The paper says that the rank is the
    degree; a reward that depends on the agent's own action and d neighbours has rank d + 1.) Agents
    with fewer neighbours have one term with all of them.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> game = eq.games.families.network(agents=1000, actions=4, degree=10).sample(key=0)
    >>> game.interactions.scopes[2].shape
    (10000, 2)
    >>> ring = np.roll(np.eye(6), 1, 1) + np.roll(np.eye(6), -1, 1)
    >>> eq.games.families.network(6, 2, graph=ring, rank=3).sample(key=0).interactions.rank
    3
    """
    rank = _check_rank("rank", rank, 2)
    degree = checks.check_count("degree", degree)
    if graph is not None:
        graph = checks.as_float_array("graph", graph) != 0
        checks.check_shape("graph", graph, (agents, agents), "(agents, agents)")
        if np.diagonal(graph).any():
            raise InputError("graph", "no agent that is its own neighbour", "one")
    elif degree > agents - 1:
        raise InputError("degree", f"at most {agents - 1} neighbours", degree)
    return _family(
        "network", Network(degree, rank, graph), agents=agents, actions=actions,
        contexts=contexts, states=states, horizon=horizon, scale=scale, centre=centre, noise=noise,
    )  # fmt: skip


@named_arguments
def interaction_rank(
    agents: int = 10,
    actions: int = 3,
    contexts: int = 1,
    *,
    rank: int = 3,
    terms: int | None = None,
    states: int | None = None,
    horizon: int = 1,
    scale: float = 0.1,
    centre: float = 0.5,
    noise: float = 0.15,
) -> InteractionFamily:
    """Random games of interaction rank `rank`: a term for every group of up to that many agents.

    With `terms`, every agent has only that many terms of each order from 2 on, with randomly drawn
    others.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.interaction_rank(agents=6, actions=2, rank=3).sample(key=0)
    >>> {order: len(scope) for order, scope in game.interactions.scopes.items()}
    {1: 6, 2: 30, 3: 60}
    """
    rank = _check_rank("rank", rank)
    if rank > agents:
        raise ValueError(f"rank: expected at most the number of agents, {agents}, found {rank}")
    terms = None if terms is None else checks.check_count("terms", terms)
    return _family(
        "interaction-rank", AllGroups(rank, terms), least=1, agents=agents, actions=actions,
        contexts=contexts, states=states, horizon=horizon, scale=scale, centre=centre, noise=noise,
    )  # fmt: skip


@named_arguments
def zero_sum_polymatrix(
    agents: int = 20,
    actions: int = 4,
    contexts: int = 1,
    *,
    states: int | None = None,
    horizon: int = 1,
    scale: float = 0.1,
    noise: float = 0.15,
) -> InteractionFamily:
    """Every pair of agents plays a zero-sum game.

    In such games the marginals of a coarse correlated equilibrium are a Nash equilibrium (Cai,
    Candogan, Daskalakis and Papadimitriou, 2016).

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.zero_sum_polymatrix(agents=4, actions=3).sample(key=0)
    >>> bool(abs(game.interactions.rewards([0], [[0, 2, 1, 1]]).sum()) < 1e-12)
    True
    """
    return _family(
        "zero-sum-polymatrix", AllGroups(2, lowest=2), _zero_sum, agents=agents, actions=actions,
        contexts=contexts, states=states, horizon=horizon, scale=scale, noise=noise,
    )  # fmt: skip


@named_arguments
def congestion(
    agents: int = 20,
    resources: int = 4,
    contexts: int = 1,
    *,
    degree: int = 1,
    noise: float = 0.15,
) -> InteractionFamily:
    """Every agent uses one resource and pays for the congestion on it (Rosenthal, 1973).

    The reward is `1 - toll - slope * (users / agents) ** degree` of the chosen resource, with the
    toll in [0, 1/2] and the slope in [1/4, 1/2], so that it is within [0, 1]. Its rank is
    `degree + 1`; the terms follow from Newton's series.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.congestion(agents=6, resources=2, degree=2).sample(key=0)
    >>> alone, together = game.interactions.rewards([0, 0], [[0, 1, 1, 1, 1, 1], [0] * 6])[:, 0]
    >>> game.interactions.rank, bool(alone > together)
    (3, True)
    """
    degree = _check_rank("degree", degree)
    if degree > agents - 1:
        raise InputError("degree", f"at most agents - 1 = {agents - 1}", degree)
    return _family(
        "congestion", AllGroups(degree + 1), _congested, agents=agents, actions=resources,
        contexts=contexts, noise=noise,
    )  # fmt: skip
