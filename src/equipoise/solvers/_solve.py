"""`solve`, `equilibria` and `prices`: one function each for any game of the library."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.results import Prices, Solution
from equipoise.core.text import named
from equipoise.games import (
    AggregativeGame,
    AggregativeMarkovGame,
    Game,
    JointPolicy,
    MarkovGame,
    MatrixGame,
    NormalFormGame,
    kinds,
)

if TYPE_CHECKING:
    from equipoise.aggregative import Listing
    from equipoise.solvers._general import Equilibria

P = TypeVar("P")
Progress = Callable[[dict[str, Any]], None]


@overload
def solve(
    game: MatrixGame | NormalFormGame | MarkovGame,
    *,
    concept: Literal["ce", "cce"],
    objective: Any = None,
    tolerance: float | None = None,
    time_limit: float | None = None,
    start: Any = None,
    key: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Solution[JointPolicy]: ...
@overload
def solve(
    game: Game[P],
    *,
    concept: str | None = None,
    objective: Any = None,
    tolerance: float | None = None,
    time_limit: float | None = None,
    start: Any = None,
    key: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Solution[P]: ...


@named_arguments
def solve(
    game: Any,
    *,
    concept: str | None = None,
    objective: Any = None,
    tolerance: Any = None,
    time_limit: Any = None,
    start: Any = None,
    key: Any = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Solution[Any]:
    """Return an equilibrium of `game`, with a certificate that is independent of the solver.

    A game is solved when the certificate proves that no player can gain more than `tolerance`, in
    units of reward. `solution.solved` says whether it is (which games are, for a batch), and
    `solution.tolerance` reports the tolerance used.

    - `concept`: "nash" (the default of most kinds), "ce" or "cce", correlated or coarse correlated;
      "logit", quantal response; "optimum", the social optimum of crowds and road networks. The
      default for `ContextualGame` and `DecoupledMarkovGame` is "cce".
    - `objective`: which equilibrium to select. Default: any.
    - `tolerance`: the largest gain allowed, in units of reward, or for road networks as a fraction
      of the mean cost of a trip. Default: a small fraction of the range of rewards.
    - `time_limit`: seconds after which the best policy so far is returned, as it is after Ctrl-C.
    - `start`: where the search begins.
    - `key`: seed of random choices.
    - `progress`: called from time to time with a dictionary of numbers.

    `options`, and what the arguments above mean in detail, are those of the solver of the kind of
    game, which refuses what it cannot use:

    - `MatrixGame`: `equipoise.solvers.solve_matrix`; a batch is solved at once.
    - `NormalFormGame`: `equipoise.solvers.solve_normal_form`.
    - `MarkovGame`: `equipoise.solvers.solve_markov`.
    - `ContextualGame`, `DecoupledMarkovGame`: `equipoise.solvers.solve_interaction`.
    - `ContinuousGame`: `equipoise.solvers.solve_continuous`.
    - `AggregativeGame`, `AggregativeMarkovGame`: `equipoise.aggregative.solve_aggregative`.
    - `NetworkGame`: `equipoise.networks.solve_network`.
    - `OracleGame`: `equipoise.networks.solve_oracle`.

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
    if concept is not None:
        options["concept"] = concept
    if objective is not None:
        options["objective"] = objective
    _add_shared(options, tolerance, time_limit, progress)
    if start is not None:
        options["start"] = start
    if type(key) is not int or key:
        options["key"] = key
    if options:
        kinds.check_options(kind, "solve", options)
    return named(kinds.part_of(kind, "solve")(game, **options), game.about)


def _add_shared(options: dict[str, Any], tolerance: Any, time_limit: Any, progress: Any) -> None:
    """Add the arguments that are not at their defaults to the options."""
    if tolerance is not None:
        options["tolerance"] = tolerance
    if time_limit is not None:
        options["time_limit"] = time_limit
    if progress is not None:
        options["progress"] = progress


@overload
def equilibria(
    game: MatrixGame | NormalFormGame, *, time_limit: float | None = None
) -> "Equilibria": ...
@overload
def equilibria(
    game: AggregativeGame | AggregativeMarkovGame,
    *,
    tolerance: float | None = None,
    **options: Any,
) -> "Listing": ...


@named_arguments
def equilibria(
    game: Any,
    *,
    tolerance: Any = None,
    time_limit: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> Any:
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
    _add_shared(options, tolerance, time_limit, progress)
    return _call("equilibria", game, options)


@named_arguments
def prices(
    game: Any,
    *,
    tolerance: Any = None,
    time_limit: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> Prices:
    """Return the prices of anarchy and stability: what selfishness costs.

    - `AggregativeGame`, `AggregativeMarkovGame`: see `equipoise.aggregative.prices`.
    - `NetworkGame`: see `equipoise.networks.price_of_anarchy`.

    **Example**

    >>> import equipoise as eq
    >>> prices = eq.prices(eq.games.load("two-roads", agents=100))
    >>> round(prices.anarchy.lower, 4), round(prices.stability.lower, 4)
    (1.0322, 1.0322)
    """
    _add_shared(options, tolerance, time_limit, progress)
    return _call("prices", game, options)


def _call(part: str, game: Any, options: dict[str, Any]) -> Any:
    """Call a function of the row of a game's kind with its options."""
    kind = kinds.kind_of(game)
    function = kinds.part_of(kind, part)
    if function is None:
        rows = kinds.KINDS.values()
        able = [row.game.partition(":")[2] for row in rows if getattr(row, part)]
        raise InputError("game", f"one of {', '.join(able)}", type(game).__name__)
    kinds.check_options(kind, part, options)
    return function(game, **options)
