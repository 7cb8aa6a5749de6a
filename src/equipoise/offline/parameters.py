"""Parameters of DR-AC: those of the paper, and defaults that work.

The paper's are of the right order as the error goes to zero, and unusable at sizes that occur:
with N = 20 agents, K = 2 and an error of 1e-2 they ask for T = 0.4 iterations.
"""

from dataclasses import dataclass

from equipoise.core import checks

__all__ = ["ENOUGH", "TOO_LITTLE", "Parameters", "default", "paper"]

#: Samples per parameter from which on the strength need not be raised.
ENOUGH = 4.0
#: Samples per parameter below which the behaviour policy is the safer answer.
TOO_LITTLE = 1.5


@dataclass(frozen=True)
class Parameters:
    """What DR-AC runs with.

    **Example**

    >>> from equipoise.offline import parameters
    >>> parameters.Parameters(iterations=200, step=5.0, strength=0.01).iterations
    200
    """

    #: T, the number of iterations and of policies in the mixture.
    iterations: int
    #: eta: how far one iteration goes.
    step: float
    #: lambda: how much staying near the behaviour policy counts.
    strength: float


def paper(
    agents: int, rank: int, error: float, *, horizon: int | None = None, state_ratio: float = 1.0
) -> Parameters:
    """The parameters of Theorem 4 (contextual games), or of Theorem 3 with a `horizon`.

    `error` is the mean squared error of the fitted rewards, for Theorem 3 that of the model,
    log(N H |R| |P| / delta) / M; `state_ratio` is C_S of Assumption 4. The iterations are
    rounded up to at least one.

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


def default(
    reward_scale: float, samples_per_parameter: float = float("inf"), *, horizon: int = 1
) -> Parameters:
    """Parameters that work, for rewards of the given standard deviation.

    The strength is .03 of it (.06 with several steps) once a cell (situation, own move) has four
    rows per parameter, and rises in proportion below, to 2.7 times that at 1.5. Steps are scaled
    so that they mean the same whatever the unit of the rewards.

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
