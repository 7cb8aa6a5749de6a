"""Exact Nash equilibria of batches of zero-sum matrix games.

Payoffs are independent and uniform on [0, 1]. Every contender starts from one NumPy array
(games, rows, columns) and ends with both players' policies of every game; a contender that
returned only one player's, or points off the simplex, would be shown as wrong.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.harness import Answer, Arrays, Case, Contender, our_batched
from benchmarks.harness.measures import as_policy, matrix_nash_conv

#: (actions, games) of each case.
SIZES = ((3, 100_000), (10, 10_000), (50, 500), (200, 20))
QUICK_SIZES = ((3, 2_000), (10, 200))

Solver = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def one_by_one(make: Callable[[], Solver]) -> Callable[[Arrays], Callable[[int], Answer]]:
    """Prepare a contender from a function that solves one game."""

    def prepare(data: Arrays) -> Callable[[int], Answer]:
        solve, payoff = make(), data["payoff"]

        def run(count: int) -> Answer:
            pairs = [solve(payoff[i]) for i in range(count)]
            return {"x": [pair[0] for pair in pairs], "y": [pair[1] for pair in pairs]}

        return run

    return prepare


def ours(data: Arrays) -> Callable[[int], Answer]:
    """The whole public call: validation, solution, certificate, NumPy in and out."""
    import equipoise as eq

    payoff = data["payoff"]

    def run(count: int) -> Answer:
        x, y = eq.solve(eq.MatrixGame(payoff[:count])).policy
        return {"x": x, "y": y}

    return run


def ours_kernel(data: Arrays) -> Callable[[int], Answer]:
    """The solver beneath it: no game object, no certificate."""
    from equipoise.core.zerosum import solve_batch

    payoff = data["payoff"]

    def run(count: int) -> Answer:
        solved = solve_batch(payoff[:count])
        return {"x": solved.x, "y": solved.y}

    return run


def quantecon_minmax() -> Solver:
    """The simplex method on the minmax tableau; a compiled function called from Python."""
    from quantecon.optimize import minmax

    def solve(payoff: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return minmax(payoff)[1:]

    return solve


def quantecon_loop(parallel: bool) -> Callable[[Arrays], Callable[[int], Answer]]:
    """The same function called from a compiled loop over the games."""

    def prepare(data: Arrays) -> Callable[[int], Answer]:
        import numba
        from quantecon.optimize import minmax

        @numba.njit(parallel=parallel)
        def loop(payoff, x, y):
            for i in numba.prange(len(payoff)):
                _, x[i], y[i] = minmax(payoff[i])

        payoff = data["payoff"]

        def run(count: int) -> Answer:
            x = np.empty((count, payoff.shape[1]))
            y = np.empty((count, payoff.shape[2]))
            loop(payoff[:count], x, y)
            return {"x": x, "y": y}

        return run

    return prepare


def quantecon_lemke_howson() -> Solver:
    """Complementary pivoting, for general-sum games; payoff arrays are own-action-first."""
    from quantecon.game_theory import NormalFormGame, Player, lemke_howson

    def solve(payoff: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = lemke_howson(NormalFormGame((Player(payoff), Player(-payoff.T))))
        return np.asarray(x), np.asarray(y)

    return solve


def scipy_highs() -> Solver:
    """One linear program with HiGHS; the column player's policy is its dual solution."""
    from scipy.optimize import linprog

    def solve(payoff: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows, columns = payoff.shape
        cost = np.append(np.zeros(rows), -1.0)
        below = np.hstack([-payoff.T, np.ones((columns, 1))])
        total = np.append(np.ones(rows), 0.0)[None]
        bounds = [(0.0, None)] * rows + [(None, None)]
        found = linprog(cost, below, np.zeros(columns), total, [1.0], bounds, method="highs")
        return found.x[:rows], -found.ineqlin.marginals

    return solve


def nashpy_linear_program() -> Solver:
    """Two linear programs, one for each player."""
    import nashpy

    return lambda payoff: nashpy.Game(payoff).linear_program()


def openspiel_lp() -> Solver:
    """Two linear programs with ECOS through cvxpy."""
    import pyspiel
    from open_spiel.python.algorithms import lp_solver

    def solve(payoff: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        game = pyspiel.create_matrix_game(payoff, -payoff)
        x, y, _, _ = lp_solver.solve_zero_sum_matrix_game(game)
        return np.ravel(x), np.ravel(y)

    return solve


def gambit_lp() -> Solver:
    """Gambit's simplex method in floating point."""
    import pygambit.gambit as gambit
    from pygambit.nash import lp_solve

    def solve(payoff: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        game = gambit.StrategicGame.from_arrays(payoff, -payoff)
        found = lp_solve(game, rational=False).equilibrium
        x, y = ([probability for _, probability in found[player]] for player in game.players)
        return np.array(x), np.array(y)

    return solve


def measure(data: Arrays, answer: Answer) -> float:
    """Largest NashConv over the games a contender solved."""
    x, y = np.asarray(answer["x"]), np.asarray(answer["y"])
    payoff = data["payoff"][: len(x)]
    x = as_policy("x", x, payoff.shape[:2])
    y = as_policy("y", y, (len(payoff), payoff.shape[2]))
    return float(matrix_nash_conv(payoff, x, y).max())


def contenders(actions: int) -> tuple[Contender, ...]:
    """Everyone; slow ones do as many games as fit a pass."""
    quantecon = ("quantecon", "numba")
    per_game = "Python call per game"
    return (
        *our_batched(ours),
        Contender(
            "ours, solver alone", ours_kernel, ours=True, batched=True, how="one batched call",
            compiles=True, timeout=300.0,
        ),
        Contender(
            "QuantEcon minmax, compiled loop", quantecon_loop(parallel=False), needs=quantecon,
            how="compiled loop", compiles=True, timeout=300.0,
        ),
        Contender(
            "QuantEcon minmax, compiled loop, all cores", quantecon_loop(parallel=True),
            needs=quantecon, how="compiled parallel loop", compiles=True, timeout=300.0, cores=None,
        ),
        Contender(
            "QuantEcon minmax", one_by_one(quantecon_minmax), needs=quantecon, how=per_game,
            compiles=True, timeout=300.0,
        ),
        Contender(
            "QuantEcon lemke_howson", one_by_one(quantecon_lemke_howson), needs=quantecon,
            how=per_game, compiles=True, timeout=300.0,
            skip="" if actions <= 50 else "run up to 50x50 only",
        ),
        Contender("SciPy linprog (HiGHS)", one_by_one(scipy_highs), needs=("scipy",), how=per_game),
        Contender(
            "nashpy linear_program", one_by_one(nashpy_linear_program), needs=("nashpy",),
            how=per_game,
        ),
        Contender(
            "OpenSpiel lp_solver (ECOS)", one_by_one(openspiel_lp),
            needs=("pyspiel", "cvxpy", "ecos"), how=per_game,
        ),
        Contender(
            "Gambit lp_solve (float)", one_by_one(gambit_lp), needs=("pygambit",), how=per_game,
            notes="game object built in the call", timeout=30.0,
        ),
    )  # fmt: skip


def cases(quick: bool) -> list[Case]:
    """One case per size."""

    def case(actions: int, games: int) -> Case:
        return Case(
            name=f"{actions}x{actions}, {games:,} games",
            unit="game",
            items=games,
            data=lambda: {
                "payoff": np.random.default_rng(actions).random((games, actions, actions))
            },
            contenders=contenders(actions),
            measure=measure,
        )

    return [case(*size) for size in (QUICK_SIZES if quick else SIZES)]
