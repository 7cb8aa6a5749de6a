"""The bounds of the interaction-rank paper as functions: as printed, and in corrected form.

Notation: `others` is W, the number of inputs other than x (in a game, N - 1 agents); `rank` is K;
`ratio` is C, the largest density ratio of the target to the training distribution, for x and for
every input; `strength` is lambda, the weight of the chi-squared regulariser; `step` is eta. Proofs
are in docs/theory/interaction-rank.md.
"""

from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.offline.parameters import paper

__all__ = [
    "chi_squared",
    "chi_squared_bound",
    "printed_chi_squared_bound",
    "printed_error",
    "printed_gap",
    "printed_markov_gap",
    "printed_samples",
    "printed_shift_factor",
    "regret_bound",
    "shift_factor",
    "state_concentrability",
    "sub_function_error",
    "unilateral_concentrability",
]

#: Largest number of joint actions of the others for which unilateral concentrability is computed.
MOST_JOINT_ACTIONS = 100_000


def printed_shift_factor(others: int, rank: int, ratio: float) -> float:
    """Factor of Theorem 1 on the squared error, `(2W)^(2(K-1)) C^K`: correct but very loose.

    **Example**

    >>> from equipoise.offline import theory
    >>> theory.printed_shift_factor(8, 3, 4.0)
    4194304.0
    """
    _check_shift(others, rank, ratio)
    return float((2.0 * others) ** (2 * (rank - 1)) * ratio**rank)


def shift_factor(others: int, rank: int, ratio: float) -> float:
    """Largest factor by which the squared error of a K-IR function grows when the inputs shift.

    The factor is `C * sum_{k < K} binom(W, k) (C - 1)^k`, where the first C is the shift of x. It
    is attained if each input shifts to an event of probability 1/C. For K = W + 1 it equals
    `C^(W+1)`, the factor of functions without structure.

    **Example**

    >>> from equipoise.offline import theory
    >>> theory.shift_factor(8, 3, 4.0), theory.shift_factor(8, 9, 4.0) == 4.0**9
    (1108.0, True)
    """
    _check_shift(others, rank, ratio)
    return float(ratio * sum(comb(others, k) * (ratio - 1.0) ** k for k in range(rank)))


def sub_function_error(order: int, error: float) -> float:
    """Bound of Lemma 4 on the error of one standardised term, `2^k eps`.

    The terms are orthogonal, so their errors add up to exactly eps, and in fact none exceeds eps.

    **Example**

    >>> from equipoise.offline import theory
    >>> theory.sub_function_error(2, 0.01)
    0.04
    """
    return 2.0**order * error


def chi_squared(policy: Any, behaviour: Any) -> np.ndarray:
    """chi^2(p, nu) over the last axis; infinite if p plays an action that nu never plays.

    **Example**

    >>> from equipoise.offline import theory
    >>> round(float(theory.chi_squared([1.0, 0.0], [0.5, 0.5])), 6)
    1.0
    """
    policy, behaviour = np.asarray(policy, float), np.asarray(behaviour, float)
    positive = behaviour > 0
    weighted = (policy - behaviour) ** 2 / np.where(positive, behaviour, 1.0)
    outside = np.where(policy > 0, np.inf, 0.0)
    return np.where(positive, weighted, outside).sum(-1)


@named_arguments
def printed_chi_squared_bound(iterations: int, strength: float, span: float = 1.0) -> float:
    """Bound of eq. (12): after t steps chi^2 is at most `B (t - 1) / lambda`, which grows with t.

    **Example**

    >>> from equipoise.offline import theory
    >>> round(theory.printed_chi_squared_bound(101, 0.01), 6)
    10000.0
    """
    return span * (iterations - 1) / strength


@named_arguments
def chi_squared_bound(
    strength: float, *, variance: float | None = None, span: float = 1.0
) -> float:
    """Upper bound on chi^2 of every policy of decentralised learning, in every iteration.

    The bound is `max_t var_nu(r_t) / (4 lambda^2)`, which is at most `B^2 / (16 lambda^2)` for
    rewards with span B. It is attained if the reward is the same in all iterations, and does not
    depend on the number of iterations.

    **Example**

    >>> from equipoise.offline import theory
    >>> round(theory.chi_squared_bound(0.05), 6)
    25.0
    """
    largest = span**2 / 4 if variance is None else variance
    return largest / (4 * strength**2)


@named_arguments
def regret_bound(
    iterations: int, *, step: float, strength: float, divergence: Any, span: float = 1.0
) -> Any:
    """Regret bound of Lemma 7, with its "loss" read as a reward.

    It bounds `sum_t <r_t, mu - p_t> + lambda sum_{t <= T+1} chi^2(p_t, nu)` for a comparator mu of
    the given `divergence` chi^2(mu, nu), and rewards in [0, B].

    **Example**

    >>> from equipoise.offline import theory
    >>> round(theory.regret_bound(100, step=0.2, strength=0.01, divergence=1.0), 6)
    11.0
    """
    return (iterations * strength + 1 / step) * divergence + step * iterations * span**2 / 4


@named_arguments
def printed_gap(
    agents: int, rank: int, error: float, *, divergence: float = 1.0, off_support: float = 0.0
) -> float:
    """Bound of Theorem 2 up to its constant: `C ((2 N^2)^(K-1) eps)^(1/(3K-1))` + off-support.

    With `divergence` = C_sin, the largest `1 / nu_i(a)`, no policy is off the support, and this is
    the paper's bound under single-agent concentrability (Eq. 3 and the paragraph after it).

    **Example**

    >>> from equipoise.offline import theory
    >>> round(theory.printed_gap(20, 2, 1e-4), 3)
    0.603
    """
    return divergence * paper(agents, rank, error).strength + off_support


@named_arguments
def printed_markov_gap(
    agents: int,
    rank: int,
    error: float,
    *,
    horizon: int,
    state_ratio: float = 1.0,
    divergence: float = 1.0,
    off_support: float = 0.0,
) -> float:
    """Bound of Theorem 3 up to its constant, for `error` = log(N H |R| |P| / delta) / M.

    For K = 1 the transition term of the paper's proof, `H^2 N sqrt(C_S T H eps / lambda)`, exceeds
    this bound; docs/theory/interaction-rank.md proves the bound for `C_S H^8 eps <= 1`.

    **Example**

    >>> from equipoise.offline import theory
    >>> round(theory.printed_markov_gap(20, 2, 1e-8, horizon=4), 2)
    2.61
    """
    chosen = paper(agents, rank, error, horizon=horizon, state_ratio=state_ratio)
    return divergence * horizon * chosen.strength + off_support


@named_arguments
def printed_error(
    gap: float,
    agents: int,
    rank: int,
    *,
    ratio: float = 1.0,
    horizon: int | None = None,
    state_ratio: float = 1.0,
) -> float:
    """Largest error of the model for which Theorem 2, or 3 with a `horizon`, promises a gap.

    This inverts `printed_gap` and `printed_markov_gap` for policies that the log covers: `ratio` is
    C_sin, the largest `1 / nu_i(a)`, and `state_ratio` is C_S. Constants are one, as in print.

    **Example**

    >>> from equipoise.offline import theory
    >>> error = theory.printed_error(0.1, agents=20, rank=2, ratio=3.0)
    >>> round(theory.printed_gap(20, 2, error, divergence=3.0), 6)
    0.1
    """
    checks.check_range("gap", gap, 0.0, np.inf, low_open=True, high_open=True)
    checks.check_count("agents", agents)
    checks.check_count("rank", rank)
    checks.check_range("ratio", ratio, 1.0, np.inf)
    checks.check_range("state_ratio", state_ratio, 1.0, np.inf)
    pairs = (2.0 * agents**2) ** (rank - 1)
    if horizon is None:
        return (gap / ratio) ** (3 * rank - 1) / pairs
    checks.check_count("horizon", horizon)
    scale = state_ratio**rank * float(horizon) ** (6 * rank + 2) * pairs
    return (gap / ratio) ** (3 * rank + 2) / scale


@named_arguments
def printed_samples(
    gap: float,
    agents: int,
    rank: int,
    *,
    ratio: float = 1.0,
    horizon: int | None = None,
    state_ratio: float = 1.0,
    complexity: float = 1.0,
) -> float:
    """Rows that the paper asks for: the sample complexity after Theorem 3, and that of Theorem 2.

    With a `horizon` this is the printed `C_sin^(3K+2) C_S^K H^(6K+2) (2 N^2)^(K-1) complexity /
    gap^(3K+2)`, where `complexity` is `log(N H |R| |P| / delta)`. Without, it is what follows from
    Theorem 2 in the same way, `C_sin^(3K-1) (2 N^2)^(K-1) complexity / gap^(3K-1)`. Table 1 calls
    both `O(C^K)`: exponential in K and not in N.

    **Example**

    >>> from equipoise.offline import theory
    >>> f"{theory.printed_samples(0.1, agents=20, rank=2, ratio=3.0):.2g}"
    '1.9e+10'
    """
    checks.check_range("complexity", complexity, 0.0, np.inf, low_open=True, high_open=True)
    sizes: dict[str, Any] = {"ratio": ratio, "horizon": horizon, "state_ratio": state_ratio}
    return complexity / printed_error(gap, agents, rank, **sizes)


def state_concentrability(initial: Any, transitions: Any, states: Any) -> np.ndarray:
    """C_S of Assumption 4 for each agent: the largest `d_h(s | c) / sigma_h(s | c)` of any policy.

    `initial` (contexts, agents, states) and `transitions` (contexts, horizon, agents, states,
    actions, next states) are those of the game; `states` (contexts, horizon, agents, states) is
    sigma, the distribution of the logged states. An action with transitions of sum zero is not
    available. The numerator is the largest probability with which a policy can reach the state, by
    one backward recursion for each state and step. It is infinite if a policy can reach a state
    that sigma lacks. `equipoise.offline.state_concentrability` estimates it from a log.

    **Example**

    An action leads to a state of which the log has a quarter:

    >>> from equipoise.offline import theory
    >>> initial, logged = [[[1.0, 0.0]]], [[[[1.0, 0.0]], [[0.75, 0.25]]]]
    >>> moves = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]
    >>> theory.state_concentrability(initial, [[[moves], [moves]]], logged).tolist()
    [4.0]
    """
    initial, transitions, states = (
        checks.as_float_array(name, given)
        for name, given in (
            ("initial", initial),
            ("transitions", transitions),
            ("states", states),
        )
    )
    checks.check_ndim(
        "transitions", transitions, 6, "(contexts, horizon, agents, states, actions, next states)"
    )
    contexts, horizon, agents, count = transitions.shape[:4]
    checks.check_shape("initial", initial, (contexts, agents, count), "(contexts, agents, states)")
    shape = (contexts, horizon, agents, count)
    checks.check_shape("states", states, shape, "(contexts, horizon, agents, states)")
    closed = transitions.sum(-1) == 0
    reached = np.empty(shape)
    for h in range(horizon):
        # (contexts, agents, states, targets): chance of being in the target state in step h.
        chance = np.broadcast_to(np.eye(count), (contexts, agents, count, count))
        for k in reversed(range(h)):
            later = np.einsum("cnsat,cntg->cnsag", transitions[:, k], chance)
            chance = np.where(closed[:, k, ..., None], 0.0, later).max(3)
        reached[:, h] = np.einsum("cns,cnsg->cng", initial, chance)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(reached > 0, reached / states, 0.0)
    return ratio.max((0, 1, 3))


def unilateral_concentrability(
    policy: Any, behaviour: Any, *, rank: int | None = None
) -> np.ndarray:
    """C'_uni of each agent in a contextual game, for rewards of an interaction rank.

    The largest ratio of the squared error of a function of this rank under the others' `policy` and
    any own policy, to its squared error under the `behaviour` policy. Without a rank, functions are
    arbitrary, and the ratio is that of densities, C_uni. Both policies have the shape (agents,
    actions) or (contexts, agents, actions). An action that neither plays is not available.

    The paper says that it is at most `C_sin^K`, up to a constant. Its tight bound is
    `shift_factor(N - 1, K, C_sin)`, which also grows with the number of agents.

    **Example**

    >>> import numpy as np
    >>> from equipoise.offline import theory
    >>> rare, log = np.tile([0.0, 1.0], (5, 1)), np.tile([0.75, 0.25], (5, 1))
    >>> theory.unilateral_concentrability(rare, log, rank=2).round(6).tolist()
    [52.0, 52.0, 52.0, 52.0, 52.0]
    >>> theory.shift_factor(4, 2, 4.0), 4.0**2
    (52.0, 16.0)
    """
    policy, behaviour = np.asarray(policy, float), np.asarray(behaviour, float)
    if policy.ndim == 2:
        policy, behaviour = policy[None], np.asarray(behaviour, float)[None]
    checks.check_ndim("policy", policy, 3, "(agents, actions) or (contexts, agents, actions)")
    checks.check_shape("behaviour", behaviour, policy.shape, "the shape of the policy")
    checks.check_probabilities("policy", policy)
    checks.check_probabilities("behaviour", behaviour)
    contexts, agents, actions = policy.shape
    order = agents if rank is None else checks.check_count("rank", rank)
    if order > agents:
        raise InputError("rank", f"at most {agents}, the number of agents", rank)
    if actions ** (agents - 1) > MOST_JOINT_ACTIONS:
        raise InputError(
            "policy",
            f"at most {MOST_JOINT_ACTIONS:,} joint actions of the others",
            f"{actions}^{agents - 1}",
        )
    found = np.empty((contexts, agents))
    for c in range(contexts):
        for i in range(agents):
            others = [j for j in range(agents) if j != i]
            available = (behaviour[c, i] > 0) | (policy[c, i] > 0)
            least = behaviour[c, i, available].min()
            first = 1.0 / least if least > 0 else np.inf
            found[c, i] = first * _largest_ratio(policy[c, others], behaviour[c, others], order)
    return found.max(0)


def _largest_ratio(target: np.ndarray, source: np.ndarray, rank: int) -> float:
    """Largest `E_target f^2 / E_source f^2` over sums of functions of fewer than `rank` inputs."""
    if ((source == 0) & (target > 0)).any():
        return np.inf
    # Features of each input: one, and an orthonormal basis of its functions with mean zero.
    bases = []
    for chance in source:
        shown = np.flatnonzero(chance > 0)
        root = np.sqrt(chance[shown])
        full = np.linalg.qr(np.column_stack([root, np.eye(len(shown))]))[0]
        values = np.zeros((len(chance), len(shown)))
        values[shown] = full[:, : len(shown)] / root[:, None]
        values[shown, 0] = 1.0
        bases.append(values)
    # E_target of products of two features of one input.
    grams = [b.T @ (p[:, None] * b) for b, p in zip(bases, target, strict=True)]
    features: list[tuple[int, ...]] = []
    for order in range(min(rank, len(source) + 1)):
        for scope in combinations(range(len(source)), order):
            sizes = [range(1, bases[j].shape[1]) if j in scope else (0,) for j in range(len(bases))]
            features += product(*sizes)
    table = np.array(features, int).reshape(len(features), len(source))
    gram = np.ones((len(table), len(table)))
    for j, own in enumerate(grams):
        gram *= own[np.ix_(table[:, j], table[:, j])]
    return float(np.linalg.eigvalsh(gram)[-1])


def _check_shift(others: int, rank: int, ratio: float) -> None:
    checks.check_count("others", others, 0)
    checks.check_count("rank", rank)
    checks.check_range("ratio", ratio, 1.0, np.inf)
    if rank > others + 1:
        raise InputError("rank", f"at most others + 1 = {others + 1}", rank)
