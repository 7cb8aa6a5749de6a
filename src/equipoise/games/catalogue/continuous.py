"""Many agents whose actions are numbers from -1 to 1."""

from typing import Any

from equipoise.games.catalogue._entry import Entry, check_table, check_whole

_PAPER = (
    "W. Zhan, S. Fujimoto, Z. Zhu, J. D. Lee, D. R. Jiang, Y. Efroni, Exploiting structure in "
    "offline multi-agent RL: the benefits of low interaction rank (2024)"
)


def _pairwise(agents: int = 50, noise: float = 1.0) -> dict[str, Any]:
    import numpy as np

    from equipoise.games._continuous_terms import PolynomialTerms

    agents = check_whole("agents", agents)
    check_table("agents", agents, agents)
    weights = np.full((agents, agents), 1.0 / np.sqrt(agents))
    return {"terms": PolynomialTerms(agents, pairs={(1, 1): weights}), "noise": noise}


def _square(agents: int = 50, noise: float = 1.0) -> dict[str, Any]:
    from equipoise.games._continuous_terms import PolynomialTerms

    return {"terms": PolynomialTerms(check_whole("agents", agents), [0, 0, 1]), "noise": noise}


def _signed(agents: int = 50, noise: float = 1.0) -> dict[str, Any]:
    import numpy as np

    from equipoise.games._continuous_terms import PolynomialTerms

    agents = check_whole("agents", agents)
    check_table("agents", 2, agents, agents)
    weights = np.full((2, agents, agents), 1.0 / np.sqrt(agents))
    weights[1] *= -1.0
    return {"terms": PolynomialTerms(agents, pairs={(1, 1): weights}), "noise": noise}


def _communities(agents: int = 50, contexts: int = 3, noise: float = 1.0) -> dict[str, Any]:
    import numpy as np

    from equipoise.games._continuous_terms import PolynomialTerms

    agents, contexts = check_whole("agents", agents, 2), check_whole("contexts", contexts)
    check_table("agents", agents, agents)
    if contexts > 63 or 2 ** (contexts - 1) >= agents:
        raise ValueError(
            f"contexts: expected so few that 2^(contexts - 1) < {agents}, the number of agents; "
            f"found {contexts}"
        )
    check_table("contexts", contexts, agents, agents)
    # In context c agents are on the side that digit c of their number, in base 2, says.
    sides = 1.0 - 2.0 * ((np.arange(agents) >> np.arange(contexts)[:, None]) & 1)
    weights = sides[:, :, None] * sides[:, None, :] / np.sqrt(agents)
    return {"terms": PolynomialTerms(agents, pairs={(1, 1): weights}), "noise": noise}


def _triple(agents: int = 20, neighbours: int = 4, noise: float = 1.0) -> dict[str, Any]:
    from itertools import combinations

    import numpy as np

    from equipoise.games._continuous_terms import PolynomialTerms

    agents = check_whole("agents", agents, 3)
    neighbours = check_whole("neighbours", neighbours, 2)
    if neighbours >= agents:
        raise ValueError(f"neighbours: expected fewer than the {agents} agents, found {neighbours}")
    check_table("neighbours", 3, agents, neighbours, neighbours)
    ahead = np.array([(0, *pair) for pair in combinations(range(1, neighbours + 1), 2)])
    scopes = (np.arange(agents)[:, None, None] + ahead).reshape(-1, 3) % agents
    weights = np.full(len(scopes), 1.0 / np.sqrt(len(ahead)))
    groups = {3: (scopes, np.ones_like(scopes), weights)}
    return {"terms": PolynomialTerms(agents, groups=groups), "noise": noise}


def _stamina(
    agents: int = 20, states: int = 3, horizon: int = 5, noise: float = 1.0
) -> dict[str, Any]:
    import numpy as np

    from equipoise.games._continuous_terms import PolynomialTerms

    agents, horizon = check_whole("agents", agents, 2), check_whole("horizon", horizon)
    states = check_whole("states", states, 2)
    check_table("agents", agents, agents)
    check_table("states", agents, states, states)
    strength = (np.arange(states) + 1.0) / states
    # An action a is an effort of (1 + a) / 2, which is worth the strength of who makes it.
    effects = strength[:, None] * np.array([0.5, 0.5])
    own = -0.5 * np.array([0.25, 0.5, 0.25])
    pairs = {(1, 1): (1.0 - np.eye(agents)) / np.sqrt(agents)}
    transitions = np.zeros((states, states, 2))
    for s in range(states):
        transitions[s, max(s - 1, 0)] += [0.3, 0.3]
        transitions[s, min(s + 1, states - 1)] += [0.3, -0.3]
        transitions[s, s, 0] += 0.4
    return {
        "terms": PolynomialTerms(agents, own, pairs, effects=effects),
        "transitions": transitions,
        "horizon": horizon,
        "noise": noise,
    }


GAMES = (
    Entry(
        name="pairwise-continuous",
        title="Agreement of many, in pairs",
        kind="continuous",
        source=f"{_PAPER}, section 6",
        build=_pairwise,
        notes=(
            "Agent i receives sum_j a_i a_j / sqrt(N), its own action among the j: interaction "
            "rank 2. All at 1, or all at -1, is an equilibrium. The metric of the paper's "
            "appendix B is sqrt(N) times the largest gain."
        ),
    ),
    Entry(
        name="square-continuous",
        title="Everybody alone",
        kind="continuous",
        source=f"{_PAPER}, appendix B",
        build=_square,
        notes=(
            "Agent i receives a_i^2: interaction rank 1. Any choice of -1 or 1 by each agent is "
            "an equilibrium."
        ),
    ),
    Entry(
        name="signed-continuous",
        title="Agreement today, variety tomorrow",
        kind="continuous",
        source=f"ours, after {_PAPER}, section 6",
        build=_signed,
        notes=(
            "In context 0 agent i receives sum_j a_i a_j / sqrt(N), in context 1 the negative of "
            "it: interaction rank 2. All at 1 (or -1) in the first and all at 0, the only "
            "equilibrium there, in the second."
        ),
    ),
    Entry(
        name="communities-continuous",
        title="Sides that depend on the context",
        kind="continuous",
        source=f"ours, after {_PAPER}, section 6",
        build=_communities,
        notes=(
            "In each context agents are on one of two sides, l_i = 1 or -1, by a digit of their "
            "number in base 2, and agent i receives sum_j l_i l_j a_i a_j / sqrt(N): interaction "
            "rank 2. All at their l_i is an equilibrium."
        ),
    ),
    Entry(
        name="triple-continuous",
        title="Agreement of many, by threes",
        kind="continuous",
        source=f"ours, after {_PAPER}, section 6",
        build=_triple,
        notes=(
            "On a ring, agent i receives the mean, times sqrt of the number of pairs, of a_i a_j "
            "a_k over pairs j < k of the `neighbours` agents after it: interaction rank 3. All at "
            "1 is an equilibrium."
        ),
    ),
    Entry(
        name="stamina-continuous",
        title="Common effort that tires",
        kind="continuous",
        source=(
            f"ours; local states that own actions move, as in {_PAPER}, section 2, with "
            "continuous actions"
        ),
        build=_stamina,
        notes=(
            "An action a is an effort of (1 + a) / 2; effort tires and rest restores, and the "
            "state is how strong an agent is, in `states` levels. Effort costs, and is worth its "
            "strength times the sum of what the others contribute, over sqrt(N)."
        ),
    ),
)
