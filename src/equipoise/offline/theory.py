"""The bounds of the interaction-rank paper as functions: as printed, and in corrected form.

Notation: `others` is W, the number of inputs other than x (in a game, N - 1 agents); `rank` is K;
`ratio` is C, the largest density ratio of the target to the training distribution, for x and for
every input; `strength` is lambda, the weight of the chi-squared regulariser; `step` is eta. Proofs
are in docs/theory/interaction-rank.md.
"""

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
    "printed_gap",
    "printed_markov_gap",
    "printed_shift_factor",
    "regret_bound",
    "shift_factor",
    "sub_function_error",
]


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


def _check_shift(others: int, rank: int, ratio: float) -> None:
    checks.check_count("others", others, 0)
    checks.check_count("rank", rank)
    checks.check_range("ratio", ratio, 1.0, np.inf)
    if rank > others + 1:
        raise InputError("rank", f"at most others + 1 = {others + 1}", rank)
