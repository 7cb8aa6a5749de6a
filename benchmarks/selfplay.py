"""Bandit self-play of 3x3 games by mirror descent, 1,000 rounds, both players.

An item is one game played for 1,000 rounds, so that milliseconds per item are microseconds per
game-round. Accuracy is the mean duality gap of the policies at the end; OpenSpiel's are averages
of other methods, shown for scale. The limit: a round of both players takes about 40 operations
for random numbers and 130 for the rest, all on float32 or 32-bit words, and reads and writes
about 200 bytes of cache. At 22 to 28 G elementwise operations a second that is 6 to 8 ns.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.harness import Answer, Arrays, Case, Contender
from benchmarks.harness.measures import as_policy, matrix_nash_conv

ROUNDS = 1_000
GAMES, QUICK_GAMES = 16_384, 1_024


def draw(games: int) -> Arrays:
    """Payoffs uniform on [0, 1]."""
    return {"payoff": np.random.default_rng(3).random((games, 3, 3), dtype=np.float32)}


def pair(policies: list) -> Answer:
    """Policies of rows and columns, float32 rounding removed."""
    x, y = (np.asarray(p, np.float64) for p in policies)
    return {"x": x / x.sum(-1, keepdims=True), "y": y / y.sum(-1, keepdims=True)}


def ours(vanishing: bool) -> Callable[[Arrays], Callable[[int], Answer]]:
    """The public call, with averages and regrets recorded."""

    def prepare(data: Arrays) -> Callable[[int], Answer]:
        import equipoise as eq

        learner = eq.dynamics.OMD.vanishing() if vanishing else eq.dynamics.OMD()
        games = eq.MatrixGame(data["payoff"].astype(float))

        def run(count: int) -> Answer:
            trace = eq.dynamics.play(games, learner, learner, rounds=ROUNDS, key=0)
            return {"x": trace.last[0], "y": trace.last[1]}

        return run

    return prepare


def jax_plain(data: Arrays) -> Callable[[int], Answer]:
    """Plain `vmap` of `scan`."""
    from benchmarks.peers import selfplay

    play = selfplay.jax_plain(data["payoff"], ROUNDS)
    return lambda count: pair(play())


def numba(data: Arrays) -> Callable[[int], Answer]:
    """A compiled loop."""
    from benchmarks.peers import selfplay

    play = selfplay.numba_loop()
    table = np.array([selfplay.rates(float(t)) for t in range(1, ROUNDS + 1)], np.float32)

    def run(count: int) -> Answer:
        x, y = np.empty((2, count, 3), np.float32)
        play(data["payoff"][:count], ROUNDS, table, x, y)
        return pair([x, y])

    return run


def vectorised(data: Arrays) -> Callable[[int], Answer]:
    """NumPy, all games at once."""
    from benchmarks.peers import selfplay

    def run(count: int) -> Answer:
        return pair(selfplay.numpy_vectorised(data["payoff"], ROUNDS, np.random.default_rng(0)))

    return run


def each(name: str) -> Callable[[Arrays], Callable[[int], Answer]]:
    """A function of one game, called for one after the other."""

    def prepare(data: Arrays) -> Callable[[int], Answer]:
        from benchmarks.peers import selfplay

        play = getattr(selfplay, name)
        rng = (np.random.default_rng(0),) if name == "numpy_loop" else ()

        def run(count: int) -> Answer:
            pairs = [play(data["payoff"][i], ROUNDS, *rng) for i in range(count)]
            return pair([[p[0] for p in pairs], [p[1] for p in pairs]])

        return run

    return prepare


def measure(data: Arrays, answer: Answer) -> float:
    """Mean duality gap."""
    count = len(answer["x"])
    x, y = (as_policy(n, np.asarray(answer[n]), (count, 3)) for n in ("x", "y"))
    return float(matrix_nash_conv(data["payoff"][:count].astype(float), x, y).mean())


def cases(quick: bool) -> list[Case]:
    """One table."""
    games = QUICK_GAMES if quick else GAMES
    batch = {"batched": True, "how": "one batched call", "compiles": True, "timeout": 300.0}
    per_game = "Python call per game"
    return [
        Case(
            name=f"3x3, {games:,} games, {ROUNDS:,} rounds",
            unit="game of 1,000 rounds",
            items=games,
            data=lambda: draw(games),
            measure=measure,
            measured="mean gap",
            contenders=(
                Contender("ours, one core", ours(False), ours=True, **batch),
                Contender("ours, all cores", ours(False), ours=True, cores=None, **batch),
                Contender(
                    "ours, vanishing regulariser, one core", ours(True), ours=True,
                    notes="the algorithm of the rows below", **batch,
                ),
                Contender(
                    "Numba loop", numba, needs=("numba",), how="compiled loop", compiles=True,
                    notes="written here, for 3 actions only",
                ),
                Contender("JAX vmap + scan + categorical", jax_plain, **batch),
                Contender("NumPy, vectorised", vectorised, batched=True, how="one batched call"),
                Contender("NumPy loop", each("numpy_loop"), how=per_game),
                Contender(
                    "OpenSpiel outcome-sampling MCCFR", each("openspiel_mccfr"),
                    needs=("pyspiel",), how=per_game, notes="C++; average policies",
                ),
                Contender(
                    "OpenSpiel regret matching", each("openspiel_regret_matching"),
                    needs=("open_spiel",), how=per_game,
                    notes="Python; full information; average policies",
                ),
            ),
        )
    ]  # fmt: skip
