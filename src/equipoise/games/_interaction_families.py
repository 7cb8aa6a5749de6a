"""Families of games whose rewards are sums of interaction terms.

Except for congestion, whose rewards are within [0, 1], terms are drawn independently with mean
zero and scaled so that an agent's reward has standard deviation `scale` around `centre` under
uniform play, whatever the number of agents: what an agent can gain then stays of one size as
agents are added. Such rewards are mostly, but not surely, within [0, 1].
"""

import math
from typing import Any

import equinox as eqx
import jax
import numpy as np

from equipoise.core import checks
from equipoise.core.randomness import as_key
from equipoise.games._contextual import ContextualGame, as_noise
from equipoise.games._decoupled import DecoupledMarkovGame
from equipoise.games._interaction_patterns import (
    AllGroups,
    Congestion,
    Network,
    Pairs,
    Pattern,
    ZeroSumPairs,
)
from equipoise.games._interactions import Interactions

#: The largest number of entries of all tables of a game that is drawn.
ENTRIES_LIMIT = 500_000_000


class InteractionFamily(eqx.Module):
    """A distribution over games with interaction terms; made by functions of `families`.

    **Example**

    >>> import equipoise as eq
    >>> family = eq.games.families.polymatrix(agents=20, actions=4, contexts=2)
    >>> game = family.sample(key=0)
    >>> game.agents, game.contexts, game.interactions.terms
    (20, 2, 400)
    >>> len(family.sample(3, key=0))
    3
    """

    #: A word that names the family in tables and run folders.
    name: str = eqx.field(static=True)
    agents: int = eqx.field(static=True)
    actions: int = eqx.field(static=True)
    contexts: int = eqx.field(static=True)
    #: Number of local states of each agent; None for contextual games.
    states: int | None = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    pattern: Pattern
    scale: float = eqx.field(static=True)
    centre: float = eqx.field(static=True)
    noise: float = eqx.field(static=True)

    def sample(self, games: int | None = None, *, key: Any) -> Any:
        """Draw one game, or a tuple of `games` of them; game i is the same in either case.

        Unlike games with one table, games of many terms are not put into one batch.
        """
        count = 1 if games is None else checks.check_count("games", games)
        words = np.asarray(jax.random.key_data(as_key(key))).ravel().tolist()
        drawn = tuple(self._draw(np.random.default_rng([*words, i])) for i in range(count))
        return drawn[0] if games is None else drawn

    def _draw(self, rng: np.random.Generator) -> ContextualGame | DecoupledMarkovGame:
        situations = self.contexts * self.horizon
        moves = (self.states or 1) * self.actions
        scopes = self.pattern.scopes(rng, self.agents)
        entries = sum(float(situations * len(s)) * float(moves) ** k for k, s in scopes.items())
        if entries > ENTRIES_LIMIT:
            raise ValueError(
                f"agents, actions, rank: expected tables of at most {ENTRIES_LIMIT} entries "
                f"in all, found {entries:.3g}"
            )
        tables = self.pattern.tables(rng, scopes, situations, self.states or 1, self.actions)
        if not self.pattern.bounded:
            scopes, tables = _scaled(scopes, tables, self.agents, self.scale, self.centre)
        interactions = Interactions(scopes, tables, self.agents)
        if self.states is None:
            return ContextualGame(interactions, noise=self.noise)
        shape = (self.contexts, self.horizon, self.agents, self.states, self.actions, self.states)
        transitions = rng.standard_exponential(shape)
        initial = np.zeros((self.agents, self.states))
        initial[:, 0] = 1.0
        return DecoupledMarkovGame(
            interactions,
            transitions / transitions.sum(-1, keepdims=True),
            initial,
            noise=self.noise,
        )


def _scaled(
    scopes: dict[int, np.ndarray],
    tables: dict[int, np.ndarray],
    agents: int,
    scale: float,
    centre: float,
) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    """Terms whose variances sum to `scale` squared for the mean agent, around `centre`.

    One factor for all agents and contexts, so that what one pays another still receives.
    """
    variances = [
        float(table.var(tuple(range(2, table.ndim))).sum(1).mean()) for table in tables.values()
    ]
    factor = scale / math.sqrt(sum(variances) / agents)
    tables = {order: table * factor for order, table in tables.items()}
    if centre:
        if 1 not in scopes:
            table = next(iter(tables.values()))
            tables[1] = np.zeros((table.shape[0], agents, table.shape[-1]))
            scopes = {1: np.arange(agents)[:, None], **scopes}
        tables[1] = tables[1] + centre
    return scopes, tables


def _family(name: str, pattern: Pattern, least: int, **sizes: Any) -> InteractionFamily:
    """Check what all families have in common."""
    agents = checks.check_count("agents", sizes["agents"], least)
    states = sizes["states"]
    if states is None and sizes["horizon"] != 1:
        raise ValueError(
            f"horizon: expected 1 where there are no states, found {sizes['horizon']!r}"
        )
    scale = float(sizes.get("scale", 1.0))
    checks.check_range("scale", scale, 0.0, np.inf, low_open=True, high_open=True)
    centre = float(sizes.get("centre", 0.0))
    checks.check_range("centre", centre, -np.inf, np.inf, low_open=True, high_open=True)
    return InteractionFamily(
        name=name,
        agents=agents,
        actions=checks.check_count("actions", sizes["actions"]),
        contexts=checks.check_count("contexts", sizes["contexts"]),
        states=None if states is None else checks.check_count("states", states),
        horizon=checks.check_count("horizon", sizes["horizon"]),
        pattern=pattern,
        scale=scale,
        centre=centre,
        noise=as_noise(sizes["noise"]),
    )


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
    """Every two agents meet: rewards are sums over all others (Howson, 1972), rank 2.

    With `states` and `horizon`, Markov games with decoupled transitions, each next-state
    distribution drawn uniformly, all agents starting in state 0.

    **Example**

    >>> import equipoise as eq
    >>> eq.games.families.polymatrix(agents=5, actions=3).sample(key=0).interactions.rank
    2
    >>> eq.games.families.polymatrix(5, 3, states=2, horizon=4).sample(key=0).horizon
    4
    """
    return _family(
        "polymatrix", Pairs(), 2, agents=agents, actions=actions, contexts=contexts,
        states=states, horizon=horizon, scale=scale, centre=centre, noise=noise,
    )  # fmt: skip


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
    """Rewards depend on the neighbours in a network alone (Galeotti and others, 2010).

    Agent i meets the agents j with `graph[i, j]`, or `degree` others drawn at random for each.
    Every group of `rank - 1` neighbours makes a term: 2 is pairwise, `degree + 1` a reward that
    depends on all neighbours jointly. (The paper says that the rank is the degree; a reward of
    the own action and d neighbours has rank d + 1.) Agents with fewer neighbours have one term
    with all of them.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> game = eq.games.families.network(agents=1000, actions=4, degree=10).sample(key=0)
    >>> game.interactions.scopes[2].shape
    (10000, 2)
    >>> ring = np.roll(np.eye(6), 1, 1) + np.roll(np.eye(6), -1, 1)
    >>> eq.games.families.network(6, 2, graph=ring, rank=3).sample(key=0).interactions.rank
    3
    """
    rank = checks.check_count("rank", rank, 2)
    degree = checks.check_count("degree", degree)
    if graph is not None:
        graph = checks.as_float_array("graph", graph) != 0
        checks.check_shape("graph", graph, (agents, agents), "(agents, agents)")
        if np.diagonal(graph).any():
            raise ValueError("graph: expected no agent to be its own neighbour, found one")
    elif degree > agents - 1:
        raise ValueError(f"degree: expected at most {agents - 1} neighbours, found {degree}")
    return _family(
        "network", Network(degree, rank, graph), 2, agents=agents, actions=actions,
        contexts=contexts, states=states, horizon=horizon, scale=scale, centre=centre, noise=noise,
    )  # fmt: skip


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

    With `terms`, every agent has only that many terms of each order from 2 on, with random
    others.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.interaction_rank(agents=6, actions=2, rank=3).sample(key=0)
    >>> {order: len(scope) for order, scope in game.interactions.scopes.items()}
    {1: 6, 2: 30, 3: 60}
    """
    rank = checks.check_count("rank", rank)
    if rank > agents:
        raise ValueError(f"rank: expected at most the number of agents, {agents}, found {rank}")
    terms = None if terms is None else checks.check_count("terms", terms)
    return _family(
        "interaction-rank", AllGroups(rank, terms), 1, agents=agents, actions=actions,
        contexts=contexts, states=states, horizon=horizon, scale=scale, centre=centre, noise=noise,
    )  # fmt: skip


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
    """Every two agents play a zero-sum game: what one gets, the other pays.

    In such games the marginals of a coarse correlated equilibrium are a Nash equilibrium (Cai,
    Candogan, Daskalakis and Papadimitriou, 2016).

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.zero_sum_polymatrix(agents=4, actions=3).sample(key=0)
    >>> bool(abs(game.interactions.rewards([0], [[0, 2, 1, 1]]).sum()) < 1e-12)
    True
    """
    return _family(
        "zero-sum-polymatrix", ZeroSumPairs(), 2, agents=agents, actions=actions,
        contexts=contexts, states=states, horizon=horizon, scale=scale, noise=noise,
    )  # fmt: skip


def congestion(
    agents: int = 20,
    resources: int = 4,
    contexts: int = 1,
    *,
    degree: int = 1,
    noise: float = 0.15,
) -> InteractionFamily:
    """Every agent uses one resource, and suffers from all who use the same (Rosenthal, 1973).

    The reward is `1 - toll - slope * (users / agents) ** degree` of the resource chosen, the
    toll in [0, 1/2] and the slope in [1/4, 1/2], so that it is within [0, 1]. It has rank
    `degree + 1`, written as terms by Newton's series.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.congestion(agents=6, resources=2, degree=2).sample(key=0)
    >>> alone, together = game.interactions.rewards([0, 0], [[0, 1, 1, 1, 1, 1], [0] * 6])[:, 0]
    >>> game.interactions.rank, bool(alone > together)
    (3, True)
    """
    degree = checks.check_count("degree", degree)
    if degree > agents - 1:
        raise ValueError(f"degree: expected at most agents - 1 = {agents - 1}, found {degree}")
    return _family(
        "congestion", Congestion(degree), 2, agents=agents, actions=resources, contexts=contexts,
        states=None, horizon=1, noise=noise,
    )  # fmt: skip
