"""Parameters of DR-AC: those of the paper, and practical defaults.

The paper's parameters have the right asymptotic order as the error goes to zero, but are unusable
at practical sizes: for N = 20 agents, K = 2 and an error of 1e-2 they require T = 0.4 iterations.
"""

from dataclasses import dataclass

from equipoise.core import checks
from equipoise.core.errors import named_arguments

__all__ = ["ENOUGH", "TOO_LITTLE", "Parameters", "default", "paper"]

#: Samples per parameter above which the strength need not be raised.
ENOUGH = 4.0
#: Samples per parameter below which it is safer to return the behaviour policy.
TOO_LITTLE = 1.5


@named_arguments
@dataclass(frozen=True)
class Parameters:
    """Parameters of a run of DR-AC.

    **Example**

    >>> from equipoise.offline import parameters
    >>> parameters.Parameters(iterations=200, step=5.0, strength=0.01).iterations
    200
    """

    #: T, the number of iterations and of policies in the mixture.
    iterations: int
    #: eta, the step size of an iteration.
    step: float
    #: lambda, the weight of the penalty for leaving the behaviour policy.
    strength: float


@named_arguments
def paper(
    agents: int, rank: int, error: float, *, horizon: int | None = None, state_ratio: float = 1.0
) -> Parameters:
    """Return the parameters of Theorem 4 (contextual games), or of Theorem 3 if `horizon` is given.

    `error` is the mean squared error of the fitted rewards, or for Theorem 3 the error of the
    model, log(N H |R| |P| / delta) / M. `state_ratio` is C_S of Assumption 4. The number of
    iterations is rounded up and is at least one.

    As in print, all this is for rewards in [0, 1], and nothing is rescaled. For rewards in an
    interval of length L, pass their squared error divided by L squared; then multiply `strength` by
    L and divide `step` by L.

    **Example**

    >>> from equipoise.offline import parameters
    >>> chosen = parameters.paper(agents=20, rank=2, error=1e-4)
    >>> chosen.iterations, round(chosen.strength, 3), chosen.step == chosen.strength
    (3, 0.603, True)
    """
    checks.check_count("agents", agents)
    checks.check_count("rank", rank)
    checks.check_range("error", error, 0.0, float("inf"), low_open=True, high_open=True)
    pairs = 2.0 * agents**2
    if horizon is None:
        strength = (pairs ** (rank - 1) * error) ** (1 / (3 * rank - 1))
        return Parameters(_whole(strength**-2), strength, strength)
    power = 1 / (3 * rank + 2)
    strength = (
        state_ratio ** (rank * power)
        * horizon ** (3 * rank * power)
        * pairs ** ((rank - 1) * power)
        * error**power
    )
    return Parameters(_whole((horizon / strength) ** 2), strength / horizon**2, strength)


@named_arguments
def default(
    reward_scale: float, samples_per_parameter: float = float("inf"), *, horizon: int = 1
) -> Parameters:
    """Return practical default parameters for rewards with the given standard deviation.

    The strength is 0.03 of the standard deviation (0.06 with several steps) if a cell (situation,
    own move) has at least four rows per parameter. With fewer rows it rises in inverse proportion,
    to 2.7 times that value at 1.5 rows. Step sizes scale with the unit of the rewards, so that
    results do not depend on it.

    **Example**

    >>> from equipoise.offline import parameters
    >>> parameters.default(0.25)
    Parameters(iterations=300, step=5.0, strength=0.0075)
    """
    scale = max(float(reward_scale), 1e-12)
    lack = max(1.0, ENOUGH / max(samples_per_parameter, TOO_LITTLE))
    if horizon > 1:
        return Parameters(200, 0.75 / scale, 0.06 * scale * lack)
    return Parameters(300, 1.25 / scale, 0.03 * scale * lack)


def _whole(iterations: float) -> int:
    return max(1, round(iterations))
