"""One function solves any game of the library that can be solved exactly."""

import inspect
from collections.abc import Callable
from typing import Any, overload

from equipoise.core import checks
from equipoise.core.results import Solution
from equipoise.games import (
    AggregativeGame,
    AggregativeMarkovGame,
    ContextualGame,
    ContinuousGame,
    DecoupledMarkovGame,
    MarkovGame,
    MatrixGame,
    NormalFormGame,
    kinds,
)
from equipoise.solvers._markov import solve_markov
from equipoise.solvers._matrix import solve_matrix


def solve_normal_form(game: NormalFormGame, *, tolerance: float | None = None) -> Solution:
    """Solve a two-player zero-sum game as a matrix game; refuse any other."""
    if not game.is_zero_sum():
        raise ValueError(
            "game: exact solutions exist here for two-player zero-sum games, found "
            f"{game.players} players with general payoffs; `certify` takes any profile of it "
            "(a constant-sum game becomes zero-sum by subtracting half the constant from both)"
        )
    return solve_matrix(game.as_matrix_game(), tolerance=tolerance)


def _aggregative() -> Callable[..., Solution]:
    from equipoise.aggregative import solve_aggregative  # matrix games need not load it

    return solve_aggregative


def _aggregative_markov() -> Callable[..., Solution]:
    from equipoise.aggregative import solve_aggregative_markov

    return solve_aggregative_markov


#: What gives the solver of each kind of game; or, where there is none, what to do instead.
KINDS: dict[str, Callable[[], Callable[..., Solution]] | str] = {
    "matrix": lambda: solve_matrix,
    "normal-form": lambda: solve_normal_form,
    "markov": lambda: solve_markov,
    "aggregative": _aggregative,
    "aggregative-markov": _aggregative_markov,
    "contextual": (
        "log it with `offline.collect` and learn from the log with `offline.solve`, or solve its "
        "`to_normal_form()` where that is a two-player zero-sum game"
    ),
    "decoupled-markov": "log it with `offline.collect` and learn from the log with `offline.solve`",
    "continuous": "log it with `offline.collect` and learn from the log with `offline.solve`",
}


@overload
def solve(game: MatrixGame, *, tolerance: float | None = None) -> Solution: ...
@overload
def solve(game: NormalFormGame, *, tolerance: float | None = None) -> Solution: ...
@overload
def solve(
    game: MarkovGame, *, tolerance: float | None = None, max_sweeps: int = 1000
) -> Solution: ...
@overload
def solve(
    game: AggregativeGame,
    *,
    objective: str = "regret",
    welfare: Any = None,
    loss: Any = None,
    sense: str = "max",
    spacing: float | None = None,
    epsilon: float = 0.0,
    slack: float | str | None = None,
    rounding: str = "vertex",
    key: int = 0,
    tolerance: float | None = None,
) -> Solution: ...
@overload
def solve(
    game: AggregativeMarkovGame,
    *,
    objective: str = "regret",
    welfare: Any = None,
    loss: Any = None,
    sense: str = "max",
    method: str = "backward",
    spacing: float | None = None,
    epsilon: float = 0.0,
    slack: float | str | None = None,
    rounding: str = "vertex",
    key: int = 0,
    tolerance: float | None = None,
) -> Solution: ...
@overload
def solve(game: ContextualGame) -> Solution: ...
@overload
def solve(game: DecoupledMarkovGame) -> Solution: ...
@overload
def solve(game: ContinuousGame) -> Solution: ...


def solve(game: Any, **options: Any) -> Solution:
    """An equilibrium of `game`, with a certificate that does not trust the solver.

    A game is solved when the certificate proves that no player can gain more than `tolerance`, in
    units of reward. Its default is reported as `solution.tolerance`.

    - `MatrixGame`: a Nash equilibrium of every game of the batch. Option `tolerance`, 1e-8 of the
      range of payoffs of each game unless given. See `equipoise.core.zerosum` for the method.
    - `MarkovGame`: stationary equilibrium policies, by Shapley's iteration with safeguarded
      Newton steps. Options `tolerance`, 1e-8 of the range of rewards over one minus the discount
      unless given, and `max_sweeps`.
    - `NormalFormGame`: only two-player zero-sum ones, as matrix games.
    - `AggregativeGame`, `AggregativeMarkovGame`: a pure near-Nash policy of very many agents, any
      or the best for society; `equipoise.aggregative.solve_aggregative` and
      `solve_aggregative_markov` explain the options.
    - Other kinds of games have no solver yet; the error says what to do instead.

    **Example**

    >>> import equipoise as eq
    >>> solution = eq.solve(eq.MatrixGame([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]))
    >>> [round(float(p), 6) for p in solution.policy[0]]
    [0.333333, 0.333333, 0.333333]
    >>> bool(solution.certificate.max_upper <= solution.tolerance), str(solution.status.name)
    (True, 'solved')
    """
    row = KINDS[kinds.kind_of(game)]
    checks.check_concrete("solve", "zero_sum", game)
    if isinstance(row, str):
        raise ValueError(
            f"game: expected a kind of game that has a solver, found a {type(game).__name__}; "
            f"{row}. `certify` takes any policy of it"
        )
    solver = row()
    if options:
        known = list(inspect.signature(solver).parameters)[1:]
        if unknown := sorted(set(options) - set(known)):
            raise ValueError(
                f"options: expected for a {type(game).__name__} some of {known}, found {unknown}"
            )
    return solver(game, **options)
