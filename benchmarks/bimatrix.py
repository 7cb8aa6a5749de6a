"""Nash equilibria of batches of general-sum bimatrix games, by Lemke and Howson's algorithm.

Payoffs of both players are independent and uniform on [0, 1]. Every contender starts from one NumPy
array (games, 2, rows, columns) and ends with both players' strategies of every game.
"""

import importlib
from collections.abc import Callable

import numpy as np

from benchmarks.harness import Answer, Arrays, Case, Contender, our_batched
from benchmarks.harness.measures import as_policy

#: (actions, games) of each case.
SIZES = ((3, 100_000), (10, 10_000))
QUICK_SIZES = ((3, 2_000), (10, 200))
#: How many times as fast as calls from Python a batch should be, by actions.
GOALS = {3: 10.0, 10: 3.0}


def ours(data: Arrays) -> Callable[[int], Answer]:
    """The whole public call: validation, solution, certificate, NumPy in and out."""
    import equipoise as eq

    payoffs = data["payoffs"]

    def run(count: int) -> Answer:
        x, y = eq.solve(eq.NormalFormGame(payoffs[:count], players=2)).policy
        return {"x": x, "y": y}

    return run


def ours_pivots(data: Arrays) -> Callable[[int], Answer]:
    """The pivots beneath it: no game object, no certificate."""
    from equipoise.core.kernels.lemke_howson import lemke_howson

    payoffs = data["payoffs"]

    def run(count: int) -> Answer:
        x, y, *_ = lemke_howson(payoffs[:count], 0)
        return {"x": x, "y": y}

    return run


def quantecon(data: Arrays) -> Callable[[int], Answer]:
    """`lemke_howson` called from Python, its `NormalFormGame` made in the call."""
    from quantecon.game_theory import NormalFormGame, Player, lemke_howson

    payoffs = data["payoffs"]

    def run(count: int) -> Answer:
        pairs = []
        for a, b in payoffs[:count]:
            game = NormalFormGame((Player(a), Player(np.ascontiguousarray(b.T))))
            pairs.append(lemke_howson(game))
        return {"x": [pair[0] for pair in pairs], "y": [pair[1] for pair in pairs]}

    return run


def quantecon_loop(data: Arrays) -> Callable[[int], Answer]:
    """The functions that `lemke_howson` is made of, called from a compiled loop over the games."""
    import numba

    # `lemke_howson` itself is a function of the package, and hides the module of that name.
    module = importlib.import_module("quantecon.game_theory.lemke_howson")
    initialise, pivot = module._initialize_tableaux, module._lemke_howson_tbl
    strategies = module._get_mixed_actions

    @numba.njit
    def loop(first, second, x, y):
        games, m, n = first.shape
        for g in range(games):
            tableaux = (np.empty((n, m + n + 1)), np.empty((m, m + n + 1)))
            bases = (np.empty(n, np.int_), np.empty(m, np.int_))
            initialise((first[g], second[g]), tableaux, bases)
            pivot(tableaux, bases, 0, 1_000_000)
            x[g], y[g] = strategies(tableaux, bases)

    first = np.ascontiguousarray(data["payoffs"][:, 0])
    second = np.ascontiguousarray(data["payoffs"][:, 1].transpose(0, 2, 1))

    def run(count: int) -> Answer:
        x, y = (np.empty((count, own.shape[1])) for own in (first, second))
        loop(first[:count], second[:count], x, y)
        return {"x": x, "y": y}

    return run


def measure(data: Arrays, answer: Answer) -> float:
    """The largest gain of a player in any game that a contender solved."""
    x, y = np.asarray(answer["x"]), np.asarray(answer["y"])
    payoffs = data["payoffs"][: len(x)]
    x = as_policy("x", x, (len(payoffs), payoffs.shape[2]))
    y = as_policy("y", y, (len(payoffs), payoffs.shape[3]))
    rows = np.einsum("gij,gj->gi", payoffs[:, 0], y)
    columns = np.einsum("gij,gi->gj", payoffs[:, 1], x)
    gains = rows.max(1) - (rows * x).sum(1), columns.max(1) - (columns * y).sum(1)
    return float(np.maximum(*gains).max())


def cases(quick: bool) -> list[Case]:
    """Two cases per size: beside calls from Python, and beside a compiled loop."""
    needs = ("quantecon", "numba")
    ours_alone, ours_together = our_batched(ours)
    called = (
        ours_alone,
        Contender(
            "QuantEcon lemke_howson", quantecon, needs=needs, how="Python call per game",
            compiles=True, notes="game object built in the call", timeout=300.0,
        ),
    )  # fmt: skip
    compiled = (
        ours_alone,
        ours_together,
        Contender(
            "ours, pivots alone", ours_pivots, ours=True, batched=True, how="one batched call",
            compiles=True, timeout=300.0,
        ),
        Contender(
            "QuantEcon lemke_howson, compiled loop", quantecon_loop, needs=needs,
            how="compiled loop", compiles=True, timeout=300.0,
        ),
    )  # fmt: skip

    def case(actions: int, games: int, how: str, contenders: tuple[Contender, ...], goal: float):
        shape = (games, 2, actions, actions)
        return Case(
            name=f"{actions}x{actions}, {games:,} games, {how}",
            unit="game",
            items=games,
            data=lambda: {"payoffs": np.random.default_rng(actions).random(shape)},
            contenders=contenders,
            measure=measure,
            measured="max gain",
            goal=goal,
        )

    found = []
    for actions, games in QUICK_SIZES if quick else SIZES:
        found.append(case(actions, games, "calls from Python", called, GOALS[actions]))
        found.append(case(actions, games, "compiled loop", compiled, 1.0))
    return found
