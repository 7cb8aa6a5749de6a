"""NashConv of 1,000 policy pairs in 100x100 zero-sum games.

Once with one game for all pairs, once with a game for each. Game objects are built before the
clock starts, for everybody; policies are NumPy arrays when it does. The limit is two bare
products in NumPy, which check nothing. Accuracy is the largest error against the same gains
computed in extended precision.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from benchmarks.harness import Answer, Arrays, Case, Contender
from benchmarks.harness.measures import matrix_gains

ACTIONS, PAIRS = 100, 1_000
QUICK_ACTIONS, QUICK_PAIRS = 20, 50

#: Builds a library's game object from a payoff matrix.
Build = Callable[[np.ndarray], Any]
#: NashConv, or the largest gain, of one policy pair in a game object.
Evaluate = Callable[[Any, np.ndarray, np.ndarray], float]


def draw(shared: bool, actions: int, pairs: int) -> Arrays:
    """Payoffs and policies, all uniform."""
    rng = np.random.default_rng(actions)
    shape = (actions, actions) if shared else (pairs, actions, actions)
    x, y = rng.dirichlet(np.ones(actions), (2, pairs))
    return {"payoff": rng.random(shape), "x": x, "y": y}


def ours(data: Arrays) -> Callable[[int], Answer]:
    """The whole public call, policies validated."""
    import equipoise as eq

    game, x, y = eq.MatrixGame(data["payoff"]), data["x"], data["y"]

    def run(count: int) -> Answer:
        return {"nash_conv": eq.certify(game, (x, y)).nash_conv}

    return run


def bare_numpy(data: Arrays) -> Callable[[int], Answer]:
    """Both best replies by the fastest products that NumPy has."""
    payoff, x, y = data["payoff"], data["x"], data["y"]

    def shared(count: int) -> Answer:
        return {"nash_conv": (y @ payoff.T).max(-1) - (x @ payoff).min(-1)}

    def each(count: int) -> Answer:
        # Faster here than a stacked matrix product.
        row_replies = np.einsum("nab,nb->na", payoff, y)
        column_replies = np.einsum("na,nab->nb", x, payoff)
        return {"nash_conv": row_replies.max(-1) - column_replies.min(-1)}

    return shared if payoff.ndim == 2 else each


def pair_by_pair(
    make: Callable[[], tuple[Build, Evaluate]], name: str
) -> Callable[[Arrays], Callable[[int], Answer]]:
    """Prepare a contender from how it builds a game and how it evaluates one pair."""

    def prepare(data: Arrays) -> Callable[[int], Answer]:
        build, evaluate = make()
        payoff, x, y = data["payoff"], data["x"], data["y"]

        @cache
        def game(index: int) -> Any:
            return build(payoff[index] if payoff.ndim == 3 else payoff)

        def run(count: int) -> Answer:
            indices = range(count) if payoff.ndim == 3 else (0,) * count
            return {name: [evaluate(game(j), x[i], y[i]) for i, j in enumerate(indices)]}

        return run

    return prepare


def _turn_based(payoff: np.ndarray) -> Any:
    """OpenSpiel's policies refuse simultaneous games; the turn-based form is equivalent."""
    import pyspiel

    game = pyspiel.convert_to_turn_based(pyspiel.create_matrix_game(payoff, -payoff))
    state = game.new_initial_state()
    row = state.information_state_string()
    return game, row, state.child(0).information_state_string()


def openspiel_cpp() -> tuple[Build, Evaluate]:
    """The compiled NashConv."""
    import pyspiel

    def evaluate(built: Any, x: np.ndarray, y: np.ndarray) -> float:
        game, row, column = built
        return pyspiel.nash_conv(game, {row: list(enumerate(x)), column: list(enumerate(y))})

    return _turn_based, evaluate


def openspiel_python() -> tuple[Build, Evaluate]:
    """The Python NashConv, on a tabular policy that is made once per game."""
    from open_spiel.python import policy as policies
    from open_spiel.python.algorithms import exploitability

    def build(payoff: np.ndarray) -> Any:
        game, row, column = _turn_based(payoff)
        policy = policies.TabularPolicy(game)
        return game, policy, policy.state_lookup[row], policy.state_lookup[column]

    def evaluate(built: Any, x: np.ndarray, y: np.ndarray) -> float:
        game, policy, row, column = built
        policy.action_probability_array[row] = x
        policy.action_probability_array[column] = y
        return float(exploitability.nash_conv(game, policy))  # pyright: ignore[reportArgumentType]

    return build, evaluate


def gambit_max_regret() -> tuple[Build, Evaluate]:
    """The largest gain of a profile."""
    import pygambit.gambit as gambit

    def build(payoff: np.ndarray) -> Any:
        return gambit.StrategicGame.from_arrays(payoff, -payoff)

    def evaluate(game: Any, x: np.ndarray, y: np.ndarray) -> float:
        return game.mixed_strategy_profile([x.tolist(), y.tolist()]).max_regret()

    return build, evaluate


def measure(data: Arrays, answer: Answer) -> float:
    """Largest error of the reported NashConv, or of the reported largest gain."""
    count = len(next(iter(answer.values())))
    payoff = data["payoff"] if data["payoff"].ndim == 2 else data["payoff"][:count]
    gains = matrix_gains(payoff, data["x"][:count], data["y"][:count])
    if "max_gain" in answer:
        return float(np.abs(answer["max_gain"] - gains.max(-1)).max())
    return float(np.abs(answer["nash_conv"] - gains.sum(-1)).max())


def contenders() -> tuple[Contender, ...]:
    """Ours, the limit, and the rest."""
    per_pair = "Python call per pair"
    openspiel = ("pyspiel", "open_spiel")
    return (
        Contender(
            "ours, one core", ours, ours=True, batched=True, how="one batched call",
            compiles=True, notes="policies validated, gains of each player",
        ),
        Contender(
            "ours, all cores", ours, ours=True, batched=True, how="one batched call",
            compiles=True, notes="policies validated, gains of each player", cores=None,
        ),
        Contender(
            "bare NumPy products (the limit)", bare_numpy, batched=True, limit=True,
            how="one batched call", notes="checks nothing, NashConv only",
        ),
        Contender(
            "Gambit max_regret", pair_by_pair(gambit_max_regret, "max_gain"),
            needs=("pygambit",), how=per_pair, notes="largest gain only",
        ),
        Contender(
            "OpenSpiel nash_conv (C++)", pair_by_pair(openspiel_cpp, "nash_conv"),
            needs=openspiel, how=per_pair,
        ),
        Contender(
            "OpenSpiel nash_conv (Python)", pair_by_pair(openspiel_python, "nash_conv"),
            needs=openspiel, how=per_pair,
        ),
    )  # fmt: skip


def cases(quick: bool) -> list[Case]:
    """One game for all pairs, and a game for each."""
    actions, pairs = (QUICK_ACTIONS, QUICK_PAIRS) if quick else (ACTIONS, PAIRS)

    def case(shared: bool) -> Case:
        games = "one game" if shared else "a game each"
        return Case(
            name=f"{pairs:,} policy pairs, {games}, {actions}x{actions}",
            unit="pair",
            items=pairs,
            data=lambda: draw(shared, actions, pairs),
            contenders=contenders(),
            measure=measure,
            measured="max error",
        )

    return [case(shared=True), case(shared=False)]
