"""Zero-sum Markov games to a duality gap of 1e-6, discount 0.9.

Rewards are uniform on [0, 1]. Transitions are Dirichlet, in every other game with concentration
1 (each action leads almost everywhere) and else 0.1 (nearly deterministic, so that the future
matters). All contenders stop by a rule that guarantees the gap, save OpenSpiel's, whose only
stopping rule is the change of value in a sweep. Accuracy is the largest gap over the games and
their states, by policy iteration against each policy.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.harness import Answer, Arrays, Case, Contender
from benchmarks.harness.measures import as_policy, markov_duality_gap

DISCOUNT = 0.9
TOLERANCE = 1e-6

#: (states, actions, games) of the cases in which games are solved one at a time.
SIZES = ((5, 3, 20), (20, 5, 10), (100, 10, 2), (200, 10, 2))
QUICK_SIZES = ((5, 3, 2),)
#: (states, actions, games) of the batch.
BATCH = (5, 3, 1_000)
QUICK_BATCH = (5, 3, 20)

#: States above which linear programs in Python are run for a few sweeps and extrapolated.
FEW_STATES = 20
FEW_SWEEPS = 3


def draw(states: int, actions: int, games: int) -> Arrays:
    """Uniform rewards; transitions spread out and concentrated in turn."""
    rng = np.random.default_rng(states)
    shape = (games, states, actions, actions)
    transition = np.empty((*shape, states))
    transition[0::2] = rng.dirichlet(np.ones(states), transition[0::2].shape[:-1])
    transition[1::2] = rng.dirichlet(np.full(states, 0.1), transition[1::2].shape[:-1])
    transition /= transition.sum(-1, keepdims=True)
    return {"reward": rng.random(shape), "transition": transition}


def ours_each(data: Arrays) -> Callable[[int], Answer]:
    """The public call on one game after the other, certificate included."""
    import equipoise as eq

    reward, transition = data["reward"], data["transition"]

    def run(count: int) -> Answer:
        policies = []
        for i in range(count):
            game = eq.MarkovGame(reward[i], transition[i], DISCOUNT)
            policies.append(eq.solve(game, tolerance=TOLERANCE).policy)
        return {"x": [x for x, _ in policies], "y": [y for _, y in policies]}

    return run


def ours_batch(data: Arrays) -> Callable[[int], Answer]:
    """The public call on all games at once, certificate included."""
    import equipoise as eq

    def run(count: int) -> Answer:
        games = eq.MarkovGame(data["reward"], data["transition"], DISCOUNT)
        x, y = eq.solve(games, tolerance=TOLERANCE).policy
        return {"x": x, "y": y}

    return run


def compiled(name: str) -> Callable[[Arrays], Callable[[int], Answer]]:
    """One of the compiled loops over games of `peers.markov_numba`."""

    def prepare(data: Arrays) -> Callable[[int], Answer]:
        from benchmarks.peers import markov_numba

        solve = getattr(markov_numba, name)
        reward, transition = data["reward"], data["transition"]
        _, states, rows, columns = reward.shape

        def run(count: int) -> Answer:
            x = np.empty((count, states, rows))
            y = np.empty((count, states, columns))
            solve(reward[:count], transition[:count], DISCOUNT, TOLERANCE, x, y)
            return {"x": x, "y": y}

        return run

    return prepare


def scipy_newton(data: Arrays) -> Callable[[int], Answer]:
    """Newton steps with linear programs."""
    from benchmarks.peers.markov_scipy import Game, highs_stage_solver

    stage, games = highs_stage_solver(), list(zip(data["reward"], data["transition"], strict=True))

    def run(count: int) -> Answer:
        pairs = [Game(r, p, DISCOUNT, stage).newton(TOLERANCE) for r, p in games[:count]]
        return {"x": [x for x, _ in pairs], "y": [y for _, y in pairs]}

    return run


def scipy_sweeps(data: Arrays) -> Callable[[int], Answer]:
    """Sweeps with linear programs; in large games the first few, and their number."""
    from benchmarks.peers.markov_scipy import Game, highs_stage_solver

    stage, games = highs_stage_solver(), list(zip(data["reward"], data["transition"], strict=True))
    few = data["reward"].shape[1] > FEW_STATES
    most = FEW_SWEEPS if few else 100_000

    def run(count: int) -> Answer:
        done = [Game(r, p, DISCOUNT, stage).shapley(TOLERANCE, most) for r, p in games[:count]]
        if few:
            return {"time_factor": np.mean([factor for _, _, factor in done])}
        return {"x": [x for x, _, _ in done], "y": [y for _, y, _ in done]}

    return run


def openspiel(data: Arrays) -> Callable[[int], Answer]:
    """Value iteration, then policies at its values."""
    from benchmarks.peers import markov_openspiel

    def run(count: int) -> Answer:
        pairs = [
            markov_openspiel.solve(data["reward"][i], data["transition"][i], DISCOUNT, TOLERANCE)
            for i in range(count)
        ]
        return {"x": [x for x, _ in pairs], "y": [y for _, y in pairs]}

    return run


def measure(data: Arrays, answer: Answer) -> float | None:
    """Largest duality gap over games and states."""
    if "x" not in answer:
        return None
    count = len(answer["x"])
    reward, transition = data["reward"][:count], data["transition"][:count]
    x = as_policy("x", np.asarray(answer["x"]), reward.shape[:3])
    y = as_policy("y", np.asarray(answer["y"]), (*reward.shape[:2], reward.shape[3]))
    return max(
        markov_duality_gap(reward[i], transition[i], DISCOUNT, x[i], y[i]) for i in range(count)
    )


def contenders(states: int, batch: bool) -> tuple[Contender, ...]:
    """Everyone; in the batch, those that are fast enough for it."""
    per_game = "Python call per game"
    quantecon = ("quantecon", "numba")
    if batch:
        mine = {"prepare": ours_batch, "batched": True, "how": "one batched call"}
    else:
        mine = {"prepare": ours_each, "how": per_game}
    parallel = Contender(
        "QuantEcon minmax + Newton steps, all cores", compiled("newton_each_parallel"),
        needs=quantecon, how="compiled parallel loop", compiles=True, timeout=300.0, cores=None,
    )  # fmt: skip
    return (
        Contender(
            "ours, one core", ours=True, compiles=True, notes="with certificate", timeout=300.0,
            **mine,
        ),
        Contender(
            "ours, all cores", ours=True, compiles=True, notes="with certificate", timeout=300.0,
            cores=None, **mine,
        ),
        Contender(
            "QuantEcon minmax + Newton steps", compiled("newton_each"), needs=quantecon,
            how="compiled loop", compiles=True, timeout=300.0, notes="loop written here",
        ),
        *([parallel] if batch else []),
        Contender(
            "QuantEcon minmax, sweeps", compiled("shapley_each"), needs=quantecon,
            how="compiled loop", compiles=True, timeout=300.0, notes="loop written here",
        ),
        Contender(
            "SciPy linprog + Newton steps", scipy_newton, needs=("scipy",), how=per_game,
            notes="loop written here",
        ),
        Contender(
            "SciPy linprog, sweeps", scipy_sweeps, needs=("scipy",), how=per_game,
            notes="loop written here"
            + (f", extrapolated from {FEW_SWEEPS} sweeps" if states > FEW_STATES else ""),
        ),
        Contender(
            "OpenSpiel value_iteration", openspiel, needs=("pyspiel", "cvxpy", "ecos"),
            how=per_game, timeout=30.0, notes="policies by lp_solver at its values",
            skip="" if states <= FEW_STATES else f"run up to {FEW_STATES} states only",
        ),
    )  # fmt: skip


def cases(quick: bool) -> list[Case]:
    """Games one at a time in several sizes, then a batch."""

    def case(states: int, actions: int, games: int, batch: bool = False) -> Case:
        number = f"{games:,} games at once" if batch else f"{games} games one by one"
        return Case(
            name=f"S={states} A={actions}, {number}",
            unit="game",
            items=games,
            data=lambda: draw(states, actions, games),
            contenders=contenders(states, batch),
            measure=measure,
            measured="max gap",
        )

    sizes, batch = (QUICK_SIZES, QUICK_BATCH) if quick else (SIZES, BATCH)
    return [*(case(*size) for size in sizes), case(*batch, batch=True)]
