"""The bounds of the theory as functions: the paper's bounds as printed, and corrected ones.

Notation: n `agents` with m `actions`, an aggregate of d `dimensions`, cells of side `spacing`
(alpha), one agent's influence `delta`, Lipschitz constants of rewards and transitions, `horizon`
H. Rewards of one step lie in [-1, 1]. Proofs are in docs/theory/aggregative.md.
"""

import numpy as np

from equipoise.core.errors import named_arguments

__all__ = [
    "learning_certificates",
    "learning_regret",
    "markov_gap",
    "normal_form_gap",
    "printed_gap",
    "printed_regret",
    "printed_statewise_gap",
    "printed_welfare_loss",
    "printed_zeta",
    "selection_gap",
    "welfare_loss",
]


def printed_zeta(agents: float, actions: int, delta: float) -> float:
    """The paper's `zeta = delta sqrt(8 n log(2 m n))`.

    **Example**

    >>> from equipoise.aggregative import theory
    >>> round(theory.printed_zeta(1000, 3, 1e-3), 4)
    0.2638
    """
    return delta * float(np.sqrt(8.0 * agents * np.log(2.0 * actions * agents)))


def normal_form_gap(*, lipschitz: float, spacing: float, delta: float, dimensions: int) -> float:
    """Lemma A: upper bound on any agent's gain with a tolerance of `lipschitz * spacing`.

    **Example**

    >>> from equipoise.aggregative import theory
    >>> round(theory.normal_form_gap(lipschitz=1.0, spacing=0.05, delta=1e-3, dimensions=1), 6)
    0.102
    """
    return lipschitz * (2 * spacing + (dimensions + 1) * delta)


@named_arguments
def selection_gap(
    *, lipschitz: float, spacing: float, delta: float, dimensions: int, epsilon: float = 0.0
) -> float:
    """Lemma A with the tolerance that admits every pure `epsilon`-Nash profile.

    **Example**

    >>> from equipoise.aggregative import theory
    >>> round(theory.selection_gap(lipschitz=1.0, spacing=0.05, delta=1e-3, dimensions=1), 6)
    0.103
    """
    return epsilon + lipschitz * (2 * spacing + (dimensions + 2) * delta)


def markov_gap(
    *,
    lipschitz: float,
    transition_lipschitz: float,
    spacing: float,
    delta: float,
    dimensions: int,
    horizon: int,
) -> float:
    """Lemma B: H times the gap of a step, plus the effect of one agent on the transitions.

    **Example**

    >>> from equipoise.aggregative import theory
    >>> round(theory.markov_gap(lipschitz=0.5, transition_lipschitz=1.0, spacing=0.05,
    ...     delta=1e-4, dimensions=1, horizon=10), 6)
    0.5105
    """
    step = lipschitz * (2 * spacing + (dimensions + 2) * delta)
    return horizon * step + delta * transition_lipschitz * horizon * (horizon - 1)


@named_arguments
def printed_statewise_gap(
    *,
    lipschitz: float,
    transition_lipschitz: float,
    spacing: float,
    delta: float,
    agents: int,
    actions: int,
    horizon: int,
    sampling: float | None = None,
) -> float:
    """Theorem 3.1 as printed; `sampling` is its E. Default: sqrt(n) delta.

    **Example**

    >>> from equipoise.aggregative import theory
    >>> round(theory.printed_statewise_gap(lipschitz=0.5, transition_lipschitz=1.0, spacing=0.05,
    ...     delta=1e-4, agents=10_000, actions=3, horizon=10), 3)
    1.575
    """
    step = _printed_step(spacing, delta, agents, actions, sampling)
    moving = delta * transition_lipschitz * horizon * (horizon - 1) / 2
    return step * lipschitz * horizon + moving


@named_arguments
def printed_gap(
    *,
    lipschitz: float,
    transition_lipschitz: float,
    spacing: float,
    delta: float,
    agents: int,
    actions: int,
    horizon: int,
    sampling: float | None = None,
) -> float:
    """Theorem 4.1 as printed; `sampling` is its E. Default: sqrt(n) delta.

    **Example**

    >>> from equipoise.aggregative import theory
    >>> round(theory.printed_gap(lipschitz=0.5, transition_lipschitz=1.0, spacing=0.05,
    ...     delta=1e-4, agents=10_000, actions=3, horizon=10), 2)
    15.7
    """
    step = _printed_step(spacing, delta, agents, actions, sampling)
    return step * (lipschitz * horizon + transition_lipschitz * horizon * (horizon - 1) / 2)


def _printed_step(
    spacing: float, delta: float, agents: int, actions: int, sampling: float | None
) -> float:
    error = delta * np.sqrt(agents) if sampling is None else sampling
    return float(printed_zeta(agents, actions, delta) + 4 * spacing + 2 * delta + 2 * error)


@named_arguments
def printed_regret(
    *,
    lipschitz: float,
    transition_lipschitz: float,
    spacing: float,
    delta: float,
    agents: int,
    actions: int,
    horizon: int,
    states: int,
    cells: int,
    episodes: int,
    failure: float = 0.05,
    sampling: float | None = None,
    spread: float = 1.0,
) -> float:
    """Theorem 5.1 as printed: upper bound on the sum of the gaps of all episodes, known rewards.

    `cells` is the paper's (2W/alpha)^d. The constants of its O(...) and of `iota = log(SAKH/p)` are
    taken as 1. Divided by `episodes` it is the theorem's bound on the gap of the policy returned.
    The theorem is for rewards in [0, 1]; with rewards in an interval of length `spread` they are
    rescaled, and the bound is scaled back. It is vacuous above `episodes * horizon * spread`.

    **Example**

    >>> from equipoise.aggregative import theory
    >>> given = dict(lipschitz=0.5, transition_lipschitz=0.5, spacing=0.05, delta=1e-4, actions=3,
    ...     agents=10_000, horizon=2, states=2, cells=20, spread=2.0)
    >>> mean = lambda k: theory.printed_regret(episodes=k, **given) / k
    >>> round(mean(10**3), 2), round(mean(10**5), 2)                    # vacuous above 4
    (8.79, 1.76)
    """
    planning = printed_gap(
        lipschitz=lipschitz / spread,
        transition_lipschitz=transition_lipschitz,
        spacing=spacing,
        delta=delta,
        agents=agents,
        actions=actions,
        horizon=horizon,
        sampling=sampling,
    )
    cutting = transition_lipschitz * spacing * horizon**2
    log = np.log(states * actions * episodes * horizon / failure)
    visiting = states * np.sqrt(horizon**3 * (episodes * horizon) * log * cells)
    return spread * float(episodes * (planning + cutting) + visiting)


def printed_welfare_loss(
    *, transition_lipschitz: float, spacing: float, horizon: int, largest: float, sampling: float
) -> float:
    """Welfare loss of Theorem 4.2 as printed; the paper's proof has twice the first term.

    **Example**

    >>> from equipoise.aggregative import theory
    >>> round(theory.printed_welfare_loss(transition_lipschitz=1.0, spacing=0.05, horizon=5,
    ...     largest=1.0, sampling=0.0), 6)
    0.5
    """
    moving = spacing * transition_lipschitz * horizon * (horizon - 1) / 2 * largest
    return moving + horizon * sampling


def welfare_loss(
    *,
    transition_lipschitz: float,
    spacing: float,
    delta: float,
    dimensions: int,
    horizon: int,
    agents: int,
    spread: float,
) -> float:
    """Upper bound on the welfare that the plan loses against the best policy of stage equilibria.

    `spread` is the difference between the largest and the smallest welfare of one action; the
    welfare is a mean over agents. Rounding decides d agents in each step. Transitions are taken at
    the centres of cells, which are at most half a side away from the aggregates compared, and d/2
    influences further from the aggregate realised.

    **Example**

    >>> from equipoise.aggregative import theory
    >>> round(theory.welfare_loss(transition_lipschitz=1.0, spacing=0.05, delta=1e-4, dimensions=1,
    ...     horizon=5, agents=10_000, spread=1.0), 6)
    0.501
    """
    rounding = horizon * dimensions * spread / agents
    away = spacing + dimensions * delta / 2
    return rounding + transition_lipschitz * away * spread * horizon * (horizon - 1) / 2


@named_arguments
def learning_certificates(
    *,
    horizon: int,
    states: int,
    cells: int,
    episodes: int,
    transition_lipschitz: float,
    diameter: float,
    failure: float = 0.05,
    spread: float = 2.0,
) -> float:
    """Theorem 2 of learning: upper bound on the sum of the widths of all episodes' policies.

    `diameter` is kappa, the largest distance between aggregates that are counted in one cell.
    `spread` is the length of the interval of rewards.

    **Example**

    >>> from equipoise.aggregative import theory
    >>> given = dict(horizon=3, states=3, cells=20, transition_lipschitz=0.0, diameter=0.05)
    >>> mean = lambda k: theory.learning_certificates(episodes=k, **given) / k
    >>> round(mean(10**8) / mean(10**6), 2)                     # as one over the root of K
    0.11
    """
    log = states * np.log(2.0) + np.log(horizon * states * cells * episodes / failure)
    visits = states * cells + 2.0 * np.sqrt(states * cells * episodes * log)
    near = 2.0 * episodes * transition_lipschitz * diameter
    scale = spread * horizon**2
    return float(6.0 * scale * (visits + near) + 8.0 * scale * np.log(1.0 / failure))


@named_arguments
def learning_regret(
    *,
    planning: float,
    lipschitz: float,
    horizon: int,
    states: int,
    cells: int,
    types: int,
    actions: int,
    agents: int,
    episodes: int,
    diameter: float,
    noise: float = 0.0,
    failure: float = 0.05,
    spread: float = 2.0,
) -> float:
    """Theorem 3 of learning: upper bound on the sum of the gaps of all episodes, unknown rewards.

    `planning` is the bound of Lemma B; `diameter` is kappa, as in `learning_certificates`.

    **Example**

    >>> from equipoise.aggregative import theory
    >>> given = dict(planning=0.1, lipschitz=0.5, horizon=3, states=3, cells=20, types=5,
    ...     actions=3, agents=50, diameter=0.0)
    >>> mean = lambda k: theory.learning_regret(episodes=k, **given) / k
    >>> round(mean(10**6) - 0.1, 3), round(mean(10**7) - 0.1, 4)      # as one over K
    (0.011, 0.0011)
    """
    pairs = states * cells * types * actions
    log = np.log(2.0 * horizon * states * cells * actions * agents * episodes / failure)
    each = planning + 8.0 * horizon * lipschitz * diameter
    once = 2.0 * spread * horizon * (pairs + np.log(1.0 / failure))
    return float(episodes * each + once + 16.0 * noise * horizon * np.sqrt(pairs * episodes * log))
