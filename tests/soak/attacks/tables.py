"""Tables of payoffs: bounds, lists, objectives, hard families, files and awkward input, exactly."""

import importlib
import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog

import equipoise as eq
from equipoise.solvers._entropy import deviation_rows
from soak.attacks import drawn
from soak.exact import chances, exact
from soak.tables import table_gains


def _payoffs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """All sizes of float64, sums that cancel, ties up to rounding, units of each player."""
    kind, each = rng.integers(7), (shape[0], *[1] * (len(shape) - 1))
    if kind == 0:
        return rng.normal(size=shape)
    if kind == 1:
        return rng.normal(size=shape) * 10.0 ** rng.uniform(-300, 300, shape)
    if kind == 2:
        return 10.0 ** rng.integers(0, 300) * (1 + rng.integers(-4, 5, shape) * 2.0**-52)
    if kind == 3:
        return rng.choice([0, 1, -1], shape) + rng.normal(size=shape) * 1e-12
    if kind == 4:
        return rng.choice([1e308, -1e308, 0.0], shape) * rng.choice([1.0, 1.7], shape)
    if kind == 5:
        return rng.choice([5e-324, 0, -5e-324, 1e-310, 2e-308], shape)
    return rng.integers(-3, 4, shape) * 10.0 ** rng.integers(-150, 150, each)


def _chances(rng: np.random.Generator, size: int) -> np.ndarray:
    kind = rng.integers(5)
    if kind == 0:
        return np.eye(size)[rng.integers(size)]
    if kind == 1:  # almost never played
        weights = 10.0 ** rng.uniform(-320, 0, size)
        weights[rng.integers(size)] += 1.0
        return weights / weights.sum()
    if kind == 2:  # a sum that is a little off
        return rng.dirichlet(np.ones(size)) * (1 + 9e-7 * rng.uniform(-1, 1))
    return rng.dirichlet(np.full(size, rng.choice([0.01, 1.0])))


def certified(seed: int, seconds: float) -> Iterator[str]:
    """Gains of products and of correlated play, against rationals."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        actions = tuple(int(n) for n in rng.integers(1, 5, size=int(rng.integers(1, 5))))
        table, players = _payoffs(rng, (len(actions), *actions)), len(actions)
        game = eq.NormalFormGame(table, players=players)
        concept = str(rng.choice(["nash", "nash", "ce", "cce"]))
        if concept == "nash":
            profile = [_chances(rng, n) for n in actions]
            certificate = eq.certify(game, profile)
            truth = table_gains(table, [chances(np.maximum(own, 0.0)) for own in profile])
        else:
            flat = _chances(rng, int(np.prod(actions)))
            policy = eq.JointPolicy(flat.reshape(actions), players)
            certificate = eq.certify(game, policy, concept=concept)
            joint, truth = chances(flat).reshape(actions), []
            for i, payoff in enumerate(exact(table)):
                own = np.moveaxis(payoff, i, 0).reshape(actions[i], -1)
                rows = np.moveaxis(joint, i, 0).reshape(actions[i], -1)
                value = (own * rows).sum()
                rows = rows if concept == "ce" else rows.sum(0, keepdims=True)
                truth.append(sum(max(own @ row) for row in rows) - value)
        for i, gain in enumerate(truth):
            upper = float(certificate.upper[i])
            if np.isnan(upper) or (np.isfinite(upper) and Fraction(upper) < gain):
                yield f"{concept} of {actions}: a gain of {float(gain)!r}, upper {upper!r}"

    return drawn(seed, seconds, check)


def _solved_exactly(rows: list[list[Fraction]], right: list[Fraction]) -> list[Fraction] | None:
    table = [[*row, value] for row, value in zip(rows, right, strict=True)]
    size = len(table)
    for c in range(size):
        pivot = next((r for r in range(c, size) if table[r][c]), None)
        if pivot is None:
            return None
        table[c], table[pivot] = table[pivot], table[c]
        table[c] = [v / table[c][c] for v in table[c]]
        for r in range(size):
            if r != c and table[r][c]:
                table[r] = [v - table[r][c] * w for v, w in zip(table[r], table[c], strict=True)]
    return [row[-1] for row in table]


def _vertices(payoff: np.ndarray) -> dict[tuple[Fraction, ...], tuple[set[int], set[int]]]:
    """Vertices of {z >= 0, payoff z <= 1} but zero: unused own actions, and tight rows."""
    k, d = payoff.shape
    rows = [[Fraction(int(i == j)) for j in range(d)] for i in range(d)] + payoff.tolist()
    right, found = [Fraction(0)] * d + [Fraction(1)] * k, {}
    for chosen in itertools.combinations(range(d + k), d):
        z = _solved_exactly([rows[s] for s in chosen], [right[s] for s in chosen])
        if z is None or min(z) < 0 or not any(z):
            continue
        values = [sum(a * b for a, b in zip(row, z, strict=True)) for row in rows[d:]]
        if max(values) <= 1:
            tight = {j for j in range(k) if values[j] == 1}
            found[tuple(z)] = ({i for i in range(d) if not z[i]}, tight)
    return found


def extreme(table: np.ndarray) -> set[tuple[tuple[float, ...], tuple[float, ...]]]:
    """All extreme equilibria of two players, by all bases in rationals."""
    a, b = (own - own.min() + 1 for own in exact(table))
    m, n = a.shape
    xs, ys, result = _vertices(b.T), _vertices(a), set()
    for (x, (idle_x, best_y)), (y, (idle_y, best_x)) in itertools.product(xs.items(), ys.items()):
        if idle_x | best_x == set(range(m)) and idle_y | best_y == set(range(n)):
            normal = (tuple(float(v / sum(z)) for v in z) for z in (x, y))
            result.add(tuple(normal))
    return result


def lists(seed: int, seconds: float) -> Iterator[str]:
    """`equilibria` of two players, against all bases; mixtures of subsets are equilibria."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        shape, kind = (2, *(int(n) for n in rng.integers(1, 5, size=2))), rng.integers(5)
        table = rng.integers(0, 3, shape).astype(float)
        if kind == 0:  # repeated actions
            table[:, :, -1], table[:, -1] = table[:, :, 0], table[:, 0]
        elif kind == 1:
            table = table / 4 + rng.integers(-1, 2, shape) * 2.0**-40
        elif kind == 2:
            table *= 2.0 ** rng.integers(-60, 60, shape)
        elif kind == 3:
            table[1] = -table[0]
        game = eq.NormalFormGame(table, players=2)
        found = eq.equilibria(game, time_limit=20.0)
        truth = extreme(table)
        listed = {tuple(tuple(map(float, own)) for own in one.policy) for one in found}
        if found.status.name != "out of time" and truth != listed:
            yield f"{table.tolist()}: {len(truth)} equilibria, {len(listed)} are listed"
        for subset in found.subsets[:3]:
            weights = rng.dirichlet(np.ones(len(subset)), 2)
            pair = [
                sum(w * found[e].policy[i] for w, e in zip(weights[i], subset, strict=True))
                for i in range(2)
            ]
            gains, ranges = eq.certify(game, pair).gains, np.ptp(table, (1, 2))
            if np.any(gains > 1e-9 * np.maximum(ranges, 1e-300)):
                yield f"{table.tolist()}: a mixture of {subset} has gains {gains}"

    return drawn(seed, seconds, check)


def objectives(seed: int, seconds: float) -> Iterator[str]:
    """Best correlated equilibria against the whole program; nearly tied payoffs are solved."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        actions = tuple(int(n) for n in rng.integers(1, 4, size=int(rng.integers(2, 4))))
        shape = (len(actions), *actions)
        table = rng.integers(-1, 3, shape).astype(float)
        if kind := rng.integers(3):
            table += 10.0 ** rng.uniform(-8, -4) * (kind == 1) * rng.integers(-1, 2, shape)
            table = rng.random(shape) if kind == 2 else table
        concept, worth = str(rng.choice(["ce", "cce"])), rng.normal(size=actions)
        solution = eq.solve(
            eq.NormalFormGame(table, players=len(actions)), concept=concept, objective=worth
        )
        about = f"{concept} of {table.tolist()} for {worth.tolist()}"
        if not solution.solved:
            yield f"{about}: {solution.status}"
        rows = deviation_rows(table, concept).reshape(-1, worth.size)
        size = np.abs(rows).max(1, keepdims=True, initial=0.0)
        rows, joint = rows / np.where(size > 0, size, 1.0), np.asarray(solution.policy.joint)
        best = linprog(
            -worth.reshape(-1), rows, np.zeros(len(rows)), np.ones((1, worth.size)), [1.0],
            options={name: 1e-10 for name in _TOLERANCES},
        )  # fmt: skip
        attained, bound = solution.objective.lower, solution.objective.upper
        if abs(float((worth * joint).sum()) - attained) > 1e-9 * np.abs(worth).max():
            yield f"{about}: the objective is {(worth * joint).sum()!r}, not {attained!r}"
        # The program here has a slack of its own, which payoffs that nearly tie multiply.
        if best.status == 0 and kind != 1 and -best.fun > bound + 1e-7:
            yield f"{about}: {-best.fun!r} is attained, above the bound {bound!r}"

    return drawn(seed, seconds, check)


_TOLERANCES = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")


def temptations(seed: int, seconds: float) -> Iterator[str]:
    """Prisoner's dilemmas, whose only correlated equilibrium is to defect."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        more, loss = 10.0 ** rng.uniform(-11, 0), 10.0 ** rng.uniform(0, 7)
        game = eq.NormalFormGame([[[1, -loss], [1 + more, 0]], [[1, 1 + more], [-loss, 0]]])
        concept = str(rng.choice(["ce", "cce"]))
        objective = rng.choice(np.array([None, "welfare", "egalitarian"], object))
        tolerance = [None, 1e-10][int(rng.integers(2))]
        found = eq.solve(game, concept=concept, objective=objective, tolerance=tolerance)
        cooperation = 1.0 - float(np.asarray(found.policy.joint)[1, 1])
        clear = more > 1e-13 * loss  # far from a tie up to rounding
        if (clear and cooperation > 1e-9) or not (found.solved or tolerance):
            yield f"{concept}, {objective}, temptation {more:.3g} of {loss:.3g}: {cooperation:.3g}"

    return drawn(seed, seconds, check)


def _each(players: int, actions: int, reward: Callable[[int, tuple[int, ...]], float]):
    """A table from a function of player and joint action."""
    table = np.zeros((players, *[actions] * players))
    for play in np.ndindex(*table.shape[1:]):
        for i in range(players):
            table[(i, *play)] = reward(i, play)
    return table


def _hard(rng: np.random.Generator) -> dict[str, Callable[[], np.ndarray]]:
    """Families of games of three to seven players that are hard for paths."""
    wheel = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])

    def against(players: int, actions: int, share: float) -> np.ndarray:
        inside = np.full((players, players), share) + np.eye(players) * (1 - share)
        mixed = np.linalg.cholesky(inside + 1e-12 * np.eye(players))
        return np.tensordot(mixed, rng.normal(size=(players, *[actions] * players)), 1)

    def zero_sum() -> np.ndarray:
        table = rng.normal(size=(3, 6, 6, 6))
        return table - table.mean(0)

    def ring(players: int) -> np.ndarray:
        last = players - 1
        return _each(players, 2, lambda i, a: float((a[i] == a[(i + 1) % players]) == (i < last)))

    def auction(i: int, a: tuple[int, ...]) -> float:
        top = max(a)
        return (6.0 / a.count(top) if a[i] == top else 0.0) - a[i]

    return {
        "random, 3 players": lambda: rng.random((3, 6, 6, 6)),
        "random, 5 players": lambda: rng.random((5, *[3] * 5)),
        "covariant, 3 players": lambda: against(3, 6, -0.49),
        "covariant, 5 players": lambda: against(5, 3, -0.245),
        "zero-sum, 3 players": zero_sum,
        "ring of pennies": lambda: ring(7),
        "nearly a ring of pennies": lambda: ring(6) + 0.1 * rng.random((6, *[2] * 6)),
        "rock, paper, scissors of all": lambda: _each(
            4, 3, lambda i, a: float(sum(wheel[a[i], a[j]] for j in range(4) if j != i))
        ),
        "auction": lambda: _each(3, 6, auction),
        "integers": lambda: rng.integers(0, 3, (3, 4, 4, 4)).astype(float),
        "zeros and ones": lambda: rng.integers(0, 2, (4, *[3] * 4)).astype(float),
    }


def many_players(seed: int, seconds: float) -> Iterator[str]:
    """Every game of every hard family is solved."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        family = _hard(rng)
        name = str(rng.choice(list(family)))
        table = family[name]()
        game = eq.NormalFormGame(table, players=len(table))
        status = eq.solve(game, time_limit=60.0).status
        if not status.ok:
            yield f"{name}: {status}"

    return drawn(seed, seconds, check)


def best_of_three(seed: int, seconds: float) -> Iterator[str]:
    """The bound on welfare, against all equilibria that Gambit finds."""
    gambit: Any = importlib.import_module("pygambit")

    def check(rng: np.random.Generator) -> Iterator[str]:
        game = eq.NormalFormGame(rng.integers(0, 10, (3, 2, 2, 2)).astype(float), players=3)
        theirs = eq.games.adapters.to_gambit(game)
        found = gambit.nash.enumpoly_solve(theirs, use_strategic=True).equilibria
        each = [eq.certify(game, eq.games.adapters.from_gambit_profile(one)) for one in found]
        worth = [float(c.value.sum()) for c in each if c.max_upper < 1e-6]
        bound = eq.solve(game, objective="welfare").objective.upper
        if max(worth, default=-np.inf) > bound + 1e-6:
            yield f"{game.payoffs.tolist()}: {max(worth)!r} is attained, above {bound!r}"

    yield from drawn(seed, seconds, check)


def units(seed: int, seconds: float) -> Iterator[str]:
    """Gains follow powers of two and permutations; games are solved in any units."""

    def game(table: np.ndarray) -> eq.NormalFormGame:
        return eq.NormalFormGame(table, players=len(table))

    def check(rng: np.random.Generator) -> Iterator[str]:
        actions = tuple(int(n) for n in rng.integers(2, 4, size=int(rng.integers(2, 4))))
        players = len(actions)
        table = rng.normal(size=(players, *actions))
        profile = [rng.dirichlet(np.ones(n)) for n in actions]
        plain, power = eq.certify(game(table), profile), int(rng.integers(-900, 900))
        scaled = game(np.ldexp(table, power))
        again = np.ldexp(np.asarray(eq.certify(scaled, profile).gains), -power)
        if np.abs(again - plain.gains).max() > 1e-12:
            yield f"times 2**{power}: gains {again} for {plain.gains}"
        order, moved = [rng.permutation(n) for n in actions], table
        for i, own in enumerate(order):
            moved = np.take(moved, own, i + 1)
        turned = [p[o] for p, o in zip(profile, order, strict=True)]
        gains = eq.certify(game(moved), turned).gains
        if np.abs(gains - plain.gains).max() > 1e-13 * max(1.0, np.abs(table).max()):
            yield f"permuted: gains {gains} for {plain.gains}"
        each = 10.0 ** rng.integers(-150, 150, (players, *[1] * players))
        apart = (table + 10.0 ** rng.integers(-3, 6)) * each
        solution, ranges = eq.solve(game(apart)), np.ptp(apart.reshape(players, -1), 1)
        wide = np.asarray(solution.certificate.upper) > 1e-6 * ranges + 1e-300
        if not (solution.solved and eq.solve(scaled).solved) or wide.any():
            yield f"in units {each.ravel()}: {solution.status}"

    return drawn(seed, seconds, check)


def files(seed: int, seconds: float) -> Iterator[str]:
    """Games and policies that are written and read back are the same."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        chain = rng.dirichlet(np.ones(2), (2, 2, 3))
        games = [
            (eq.MatrixGame(_payoffs(rng, (2, 3))), "nfg npz csv"),
            (eq.NormalFormGame(_payoffs(rng, (3, 2, 1, 2)), players=3), "nfg npz"),
            (eq.MarkovGame(_payoffs(rng, (2, 2, 3)), chain, 0.9), "npz"),
            (eq.MarkovGame(_payoffs(rng, (2, 2, 2, 3)), chain, horizon=3), "npz"),
            (eq.games.load("pairwise-continuous", agents=4), "npz"),
        ]
        with tempfile.TemporaryDirectory() as folder:
            for game, suffixes in games:
                for suffix in suffixes.split():
                    path = Path(folder, f"game.{suffix}")
                    eq.games.write(game, path)
                    if eq.games.read(path) != game:
                        yield f"{type(game).__name__} as {suffix}"
            game = eq.NormalFormGame(rng.random((2, 3, 3)))
            for solution in (eq.solve(game), eq.solve(game, concept="ce")):
                path = Path(folder, "policy.json")
                eq.write_policy(path, solution.policy)
                if eq.read_policy(path) != solution.policy:
                    yield f"{type(solution.policy).__name__}"
                if eq.certificates.solution_from_plain(solution.to_plain()) != solution:
                    yield f"a solution with {type(solution.policy).__name__}"

    return drawn(seed, seconds, check)


def awkward_input(seed: int, seconds: float) -> Iterator[str]:
    """Degenerate shapes and types work, or are refused in one line; limits are kept."""
    matrix, normal, rng = eq.MatrixGame, eq.NormalFormGame, np.random.default_rng(seed)
    numbers = [
        np.eye(2, dtype=kind) for kind in (bool, np.int8, np.uint64, np.float16, np.longdouble)
    ]
    numbers += [jnp.eye(2, dtype=jnp.bfloat16), np.zeros((2, 0, 3, 3)), np.zeros((0, 0, 2, 2))]
    numbers += [[[3.0]], [[3.0, 1, 2]], np.zeros((2, 3, 4, 1)), np.zeros((0, 3, 3)), [[1j, 1]]]
    numbers += [np.zeros((0, 3)), [[np.nan, 1]], [[np.inf, 1]], [[10**400, 0], [0, 1]]]
    numbers += [np.array([[1, 2], [3, "a"]], object), [[Fraction(1, 3), 1], [0, 1]]]
    square, cube, wide = rng.random((2, 3, 3)), rng.random((3, 3, 3, 3)), rng.random((2, 30, 30))
    calls: list[Callable[[], Any]] = [lambda n=n: eq.solve(matrix(n)) for n in numbers]
    calls += [
        lambda own=own: eq.certify(matrix(np.eye(2)), (own, [1, 0]))
        for own in ([np.nan, 1], [np.inf, -np.inf], [1j, 1], [1, 1])
    ]
    for tolerance in (float("nan"), -1.0, 0.0, "x"):
        calls.append(lambda t=tolerance: eq.solve(matrix(np.eye(2)), tolerance=t))
    calls += [
        lambda: eq.solve(normal(square), concept="ce", objective=[np.nan, 1]),
        lambda: eq.solve(normal(square), concept="logit", rationality=1e300),
        lambda: eq.solve(normal(cube, players=3), time_limit=float("nan")),
        lambda: eq.equilibria(normal(np.zeros((2, 2, 2, 2)), players=2)),
        lambda: eq.equilibria(normal([[5.0, 5.0, 2.0]])),
        lambda: eq.equilibria(normal(rng.random((2, 14, 14))), time_limit=1.0),
        lambda: eq.solve(normal(rng.random((2, 400, 400))), time_limit=1.0),
        lambda: eq.solve(normal(wide), objective="welfare", time_limit=1.0),
        lambda: eq.solve(normal(rng.random((4, *[10] * 4))), concept="ce", time_limit=1.0),
    ]
    for k, call in enumerate(calls):
        start = time.perf_counter()
        try:
            call()
        except ValueError as error:
            if "\n" in str(error):
                yield f"call {k}: {error}"
        except Exception as error:
            yield f"call {k}: {type(error).__name__}: {error}"
        if time.perf_counter() - start > 20.0:
            yield f"call {k}: {time.perf_counter() - start:.0f} s"
    answers: dict[tuple[str, int], list[Any]] = {}

    def work(where: str, k: int) -> None:
        drawn_now = np.random.default_rng(k)
        answers[where, k] = [
            eq.solve(normal(drawn_now.random((3, 3, 3, 3)), players=3)).value.tolist(),
            eq.solve(matrix(drawn_now.random((50, 5, 5)))).value.tolist(),
        ]

    threads = [threading.Thread(target=work, args=("thread", k)) for k in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(16):
        work("alone", k)
        if answers.get(("thread", k)) != answers["alone", k]:
            yield f"thread {k} has another answer"


ATTACKS = (
    certified,
    lists,
    objectives,
    temptations,
    many_players,
    best_of_three,
    units,
    files,
    awkward_input,
)
