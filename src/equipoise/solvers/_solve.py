"""One function solves any game of the library that can be solved exactly."""

import inspect
from collections.abc import Callable
from functools import singledispatch
from typing import Any

from equipoise.core.results import Solution
from equipoise.games import (
    AggregativeGame,
    AggregativeMarkovGame,
    ContinuousGame,
    MarkovGame,
    MatrixGame,
    NormalFormGame,
)
from equipoise.solvers._markov import solve_markov
from equipoise.solvers._matrix import solve_matrix


def solve(game: Any, **options: Any) -> Solution:
    """An equilibrium of `game`, with a certificate that does not trust the solver.

    - `MatrixGame`: a Nash equilibrium of every game of the batch. Option `tolerance` (1e-8): the
      largest duality gap allowed; games whose payoffs spread over less than one are held to the
      tolerance times their spread. See `equipoise.core.zerosum` for the method.
    - `MarkovGame`: stationary equilibrium policies, by Shapley's iteration with safeguarded
      Newton steps. Options `tolerance` (1e-8), the largest gain allowed in any state, and
      `max_sweeps`.
    - `NormalFormGame`: only two-player zero-sum ones, as matrix games.
    - `AggregativeGame`, `AggregativeMarkovGame`: a pure near-Nash policy of very many agents, any
      or the best for society; `equipoise.aggregative.solve_aggregative` and
      `solve_aggregative_markov` list the options.

    **Example**

    >>> import equipoise as eq
    >>> solution = eq.solve(eq.MatrixGame([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]))
    >>> [round(float(p), 6) for p in solution.policy[0]]
    [0.333333, 0.333333, 0.333333]
    >>> bool(solution.certificate.nash_conv < 1e-9), solution.status.name
    (True, 'solved')
    """
    return _solve(game, options)


def _call(solver: Callable[..., Solution], game: Any, options: dict[str, Any]) -> Solution:
    """Call the solver of a kind of game; refuse options that it does not have."""
    known = list(inspect.signature(solver).parameters)[1:]
    if unknown := sorted(set(options) - set(known)):
        raise ValueError(
            f"options: expected for a {type(game).__name__} some of {known}, found {unknown}"
        )
    return solver(game, **options)


@singledispatch
def _solve(game: Any, options: dict[str, Any]) -> Solution:
    raise ValueError(f"game: expected a game of this library, found {type(game).__name__}")


@_solve.register
def _solve_matrix(game: MatrixGame, options: dict[str, Any]) -> Solution:
    return _call(solve_matrix, game, options)


@_solve.register
def _solve_markov(game: MarkovGame, options: dict[str, Any]) -> Solution:
    return _call(solve_markov, game, options)


@_solve.register
def _solve_normal_form(game: NormalFormGame, options: dict[str, Any]) -> Solution:
    if not game.is_zero_sum():
        raise ValueError(
            "game: exact solutions exist here for two-player zero-sum games, found "
            f"{game.players} players with general payoffs; `certify` takes any profile of it "
            "(a constant-sum game becomes zero-sum by subtracting half the constant from both)"
        )
    return _call(solve_matrix, game.as_matrix_game(), options)


@_solve.register
def _solve_continuous(game: ContinuousGame, options: dict[str, Any]) -> Solution:
    raise ValueError(
        "game: no exact solver of games with continuous actions exists here, found a "
        "ContinuousGame; `certify` takes any policy of it, and `offline.collect` logs it"
    )


@_solve.register
def _solve_aggregative(game: AggregativeGame, options: dict[str, Any]) -> Solution:
    from equipoise.aggregative import solve_aggregative  # matrix games need not load it

    return _call(solve_aggregative, game, options)


@_solve.register
def _solve_aggregative_markov(game: AggregativeMarkovGame, options: dict[str, Any]) -> Solution:
    from equipoise.aggregative import solve_aggregative_markov

    return _call(solve_aggregative_markov, game, options)
