"""`solve`: one function for any game of the library."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.results import Solution
from equipoise.core.text import named
from equipoise.games import (
    AggregativeGame,
    AggregativeMarkovGame,
    AggregativePolicy,
    ContextualGame,
    ContinuousGame,
    ContinuousPolicy,
    DecoupledMarkovGame,
    FlowPolicy,
    JointPolicy,
    MarkovGame,
    MatrixGame,
    Mixture,
    NetworkGame,
    NormalFormGame,
    OracleGame,
    Profile,
    kinds,
)
from equipoise.solvers._general import TIME_LIMIT, Equilibria, Progress

if TYPE_CHECKING:
    from equipoise.aggregative import Listing

#: Numbers as an array or as nested lists.
Numbers: TypeAlias = np.ndarray | list[Any] | tuple[Any, ...]
#: Which equilibrium of a normal-form game: a name, one weight per player, or a value per cell.
Objective: TypeAlias = Literal["welfare", "egalitarian", "entropy"] | Numbers | None
#: Which equilibrium of an aggregative game: a name, or a function of agent counts and aggregate.
CrowdObjective: TypeAlias = (
    Literal["regret", "welfare", "loss", "egalitarian"] | Callable[[np.ndarray, np.ndarray], Any]
)


@overload
def solve(
    game: MatrixGame,
    *,
    tolerance: float | None = None,
    concept: Literal["nash"] = "nash",
    objective: Objective = None,
    time_limit: float = TIME_LIMIT,
) -> Solution[Profile]: ...
@overload
def solve(
    game: MatrixGame,
    *,
    tolerance: float | None = None,
    concept: Literal["ce", "cce"],
    objective: Objective = None,
    time_limit: float = TIME_LIMIT,
) -> Solution[JointPolicy]: ...
@overload
def solve(
    game: NormalFormGame,
    *,
    concept: Literal["nash", "logit"] = "nash",
    objective: Objective = None,
    method: Literal["auto", "logit"] = "auto",
    start: int = 0,
    rationality: float | None = None,
    tolerance: float | None = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> Solution[Profile]: ...
@overload
def solve(
    game: NormalFormGame,
    *,
    concept: Literal["ce", "cce"],
    objective: Objective = None,
    tolerance: float | None = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> Solution[JointPolicy]: ...
@overload
def solve(
    game: MarkovGame,
    *,
    tolerance: float | None = None,
    max_sweeps: int = 1000,
    concept: Literal["nash"] = "nash",
    objective: Objective = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> Solution[Profile]: ...
@overload
def solve(
    game: MarkovGame,
    *,
    tolerance: float | None = None,
    concept: Literal["ce", "cce"],
    objective: Objective = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> Solution[JointPolicy]: ...
@overload
def solve(
    game: AggregativeGame,
    *,
    concept: Literal["nash", "optimum"] = "nash",
    objective: CrowdObjective = "regret",
    welfare: Numbers | None = None,
    loss: Numbers | None = None,
    sense: Literal["max", "min"] = "max",
    spacing: float | None = None,
    potential: bool | None = None,
    epsilon: float = 0.0,
    slack: float | Literal["lemma", "printed"] | None = None,
    rounding: Literal["vertex", "sample"] = "vertex",
    key: int = 0,
    tolerance: float | None = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> Solution[AggregativePolicy]: ...
@overload
def solve(
    game: AggregativeMarkovGame,
    *,
    concept: Literal["nash", "optimum"] = "nash",
    objective: Literal["regret", "welfare", "loss"] = "regret",
    welfare: Numbers | None = None,
    loss: Numbers | None = None,
    sense: Literal["max", "min"] = "max",
    method: Literal["backward", "state-wise"] = "backward",
    spacing: float | None = None,
    potential: bool | None = None,
    epsilon: float = 0.0,
    slack: float | Literal["lemma", "printed"] | None = None,
    rounding: Literal["vertex", "sample"] = "vertex",
    key: int = 0,
    tolerance: float | None = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> Solution[AggregativePolicy]: ...
@overload
def solve(
    game: ContextualGame | DecoupledMarkovGame,
    *,
    concept: Literal["nash", "cce"] = "cce",
    tolerance: float | None = None,
    time_limit: float = TIME_LIMIT,
    key: int = 0,
    progress: Progress | None = None,
) -> Solution[Mixture]: ...
@overload
def solve(
    game: ContinuousGame,
    *,
    tolerance: float | None = None,
    time_limit: float = TIME_LIMIT,
    key: int = 0,
    progress: Progress | None = None,
) -> Solution[ContinuousPolicy]: ...
@overload
def solve(
    game: NetworkGame,
    *,
    concept: Literal["nash", "optimum"] = "nash",
    tolerance: float = 1e-10,
    start: FlowPolicy | Solution[FlowPolicy] | None = None,
    time_limit: float = 600.0,
    progress: Progress | None = None,
) -> Solution[FlowPolicy]: ...
@overload
def solve(
    game: OracleGame,
    *,
    tolerance: float = 1e-8,
    time_limit: float = 600.0,
    progress: Progress | None = None,
) -> Solution[FlowPolicy]: ...


@named_arguments
def solve(game: Any, **options: Any) -> Solution:
    """Return an equilibrium of `game`, with a certificate that is independent of the solver.

    A game is solved when the certificate proves that no player can gain more than `tolerance`, in
    units of reward. `solution.solved` says whether it is (which games are, for a batch), and
    `solution.tolerance` reports the tolerance used.

    - `MatrixGame`: a Nash equilibrium of every game of the batch. Option `tolerance`; default: 1e-8
      of the payoff range of each game. See `equipoise.core.zerosum` for the method.
    - `MarkovGame`: stationary equilibrium policies of zero-sum games, by Shapley's iteration with
      safeguarded Newton steps. Options `tolerance` (default: 1e-8 of the range of rewards divided
      by one minus the discount) and `max_sweeps`.
      General-sum games, and games with a horizon, take `concept`, `objective` and `time_limit`, as
      normal-form games do; they are solved one stage game at a time.
    - `NormalFormGame`: `concept="nash"`, `"ce"`, `"cce"` or `"logit"`, with an `objective` and a
      `time_limit`; see the how-to guide "Solve a general-sum game". The value has one entry per
      player. A `MatrixGame` accepts the same concepts and objectives.
    - `AggregativeGame`, `AggregativeMarkovGame`: a pure equilibrium of very many agents (any, or
      the best for an objective) or the social optimum; `equipoise.aggregative.solve_aggregative`
      explains the options.
    - `ContextualGame`, `DecoupledMarkovGame`: a pure equilibrium if best-reply dynamics find one,
      otherwise a coarse correlated equilibrium.
    - `ContinuousGame`: a Nash equilibrium, by best-reply dynamics, gradients or a double oracle.
    - `NetworkGame`: equilibrium flows, or with `concept="optimum"` flows of least total cost;
      `equipoise.networks.solve_network` explains the options. `tolerance` is relative.
    - `OracleGame`: the use of each resource by each population; see
      `equipoise.networks.solve_oracle`.

    **Example**

    >>> import equipoise as eq
    >>> solution = eq.solve(eq.MatrixGame([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]))
    >>> [round(float(p), 6) for p in solution.policy[0]]
    [0.333333, 0.333333, 0.333333]
    >>> solution.solved, str(solution.status.name)
    (True, 'solved')
    >>> chicken = eq.NormalFormGame([[[6, 2], [7, 0]], [[6, 7], [2, 0]]])
    >>> best = eq.solve(chicken, concept="ce", objective="welfare")
    >>> best.policy.joint.round(6).tolist(), best.value.round(6).tolist()
    ([[0.5, 0.25], [0.25, 0.0]], [5.25, 5.25])
    """
    kind = kinds.kind_of(game)
    checks.check_concrete("solve", {"matrix": "zero_sum"}, game)
    if options:
        kinds.check_options(kind, "solve", options)
    return named(kinds.part_of(kind, "solve")(game, **options), game.about)


@overload
def equilibria(
    game: MatrixGame | NormalFormGame, *, time_limit: float = TIME_LIMIT
) -> Equilibria: ...
@overload
def equilibria(
    game: AggregativeGame | AggregativeMarkovGame,
    *,
    spacing: float | None = None,
    welfare: Any = None,
    tolerance: float | None = None,
) -> "Listing": ...


@named_arguments
def equilibria(game: Any, **options: Any) -> Any:
    """Return a list of equilibria of a game, each with a certificate.

    - `MatrixGame`, `NormalFormGame`: all extreme Nash equilibria of two players, or all pure ones
      of more; see `equipoise.solvers.list_equilibria`.
    - `AggregativeGame`, `AggregativeMarkovGame`: the equilibria that a search of the whole range of
      aggregates finds; see `equipoise.aggregative.equilibria`.

    **Example**

    >>> import equipoise as eq
    >>> listed = eq.equilibria(eq.games.load("battle-of-the-sexes"))
    >>> [[round(float(p), 4) for p in solution.policy[0]] for solution in listed]
    [[0.0, 1.0], [0.6, 0.4], [1.0, 0.0]]
    >>> len(eq.equilibria(eq.games.load("public-good", agents=900)))
    2
    """
    kind = kinds.kind_of(game)
    find = kinds.part_of(kind, "equilibria")
    if find is None:
        able = [row.game.partition(":")[2] for row in kinds.KINDS.values() if row.equilibria]
        raise InputError("game", f"one of {', '.join(able)}", type(game).__name__)
    kinds.check_options(kind, "equilibria", options)
    return find(game, **options)
