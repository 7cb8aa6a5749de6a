"""Equilibria of two players: one, all, and zero-sum games in disguise."""

import numpy as np
import pytest
from support import peer

import equipoise as eq
from equipoise.core.kernels import lemke_howson as pivots_of
from equipoise.solvers import _bimatrix
from equipoise.solvers._bimatrix import as_zero_sum, extreme_equilibria, nash

#: 75 equilibria (von Stengel, 1999); the column player's payoffs by column, then row.
A75 = np.array(
    [
        [9504, -660, 19976, -20526, 1776, -8976],
        [-111771, 31680, -130944, 168124, -8514, 52764],
        [397584, -113850, 451176, -586476, 29216, -178761],
        [171204, -45936, 208626, -263076, 14124, -84436],
        [1303104, -453420, 1227336, -1718376, 72336, -461736],
        [737154, -227040, 774576, -1039236, 48081, -300036],
    ]
)
B75 = A75[[4, 5, 2, 3, 0, 1]][:, [4, 5, 2, 3, 0, 1]]


def gain(a, b, x, y):
    return max((a @ y).max() - x @ a @ y, (x @ b).max() - x @ b @ y)


def games(seed, count, shape, ties=False):
    rng = np.random.default_rng(seed)
    size = (count, 2, *shape)
    return rng.integers(0, 3, size).astype(float) if ties else rng.normal(size=size)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (2, 5), (6, 3), (10, 10)])
@pytest.mark.parametrize("ties", [False, True])
def test_every_game_of_a_batch_is_solved_from_every_label(shape, ties):
    payoffs = games(0, 8, shape, ties)
    for start in range(sum(shape)):
        x, y, pivots = nash(payoffs, start)
        for k, both in enumerate(payoffs):
            assert gain(*both, x[k], y[k]) < 1e-10
        assert (pivots >= 1).all()


def test_the_compiled_loop_is_the_same(monkeypatch):
    peer("numba")
    payoffs = games(1, 40, (4, 3))
    compiled = pivots_of.kernels.load("lemke_howson_loop")
    monkeypatch.setattr(pivots_of.kernels, "choose", lambda name, seconds: (compiled, "Numba"))
    fast = pivots_of.lemke_howson(payoffs, 0)
    monkeypatch.setattr(pivots_of.kernels, "choose", lambda name, seconds: (None, "Python"))
    slow = pivots_of.lemke_howson(payoffs, 0)
    for ours, theirs in zip(slow, fast, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-12)


def test_the_path_is_that_of_quantecon():
    theory = peer("quantecon.game_theory")
    payoffs = games(2, 30, (4, 5))
    for start in (0, 6):
        x, y, _ = nash(payoffs, start)
        for k, (a, b) in enumerate(payoffs):
            players = [theory.Player(a), theory.Player(np.ascontiguousarray(b.T))]
            theirs = theory.lemke_howson(theory.NormalFormGame(players), init_pivot=start)
            assert x[k] == pytest.approx(theirs[0], abs=1e-9)
            assert y[k] == pytest.approx(theirs[1], abs=1e-9)


def test_a_long_path_is_given_up_after_a_counted_number_of_pivots():
    """The path from label 0 has 2,601 pivots, the one from label 1 has 64."""
    payoffs = np.random.default_rng(25).random((1, 2, 50, 50))
    assert [int(pivots_of.lemke_howson(payoffs, start)[2][0]) for start in (0, 1)] == [2601, 64]
    x, y, pivots = nash(payoffs)
    assert pivots.tolist() == [1000 + 64]
    assert gain(*payoffs[0], x[0], y[0]) < 1e-10
    for limit in (3600.0, 1e9):  # a limit that suffices decides nothing
        again = nash(payoffs, time_limit=limit)
        assert [a.tobytes() for a in again] == [a.tobytes() for a in (x, y, pivots)]
    early, _, cut = nash(payoffs, time_limit=0.0)
    assert not early.any()
    assert cut[0] <= 100


def test_every_label_gets_all_pivots_in_the_end(monkeypatch):
    monkeypatch.setattr(_bimatrix, "_PIVOTS", 1)
    payoffs = games(6, 20, (6, 7))
    x, y, pivots = nash(payoffs)
    for k, both in enumerate(payoffs):
        assert gain(*both, x[k], y[k]) < 1e-10
    assert (pivots > 1).all()
    paths = list(_bimatrix._paths(6, 7))
    assert [budget for _, budget in paths[:7]] == [1, 2, 1, 1, 2, 4, 1]
    assert paths[-13:] == [(label, 2300) for label in range(13)]


def test_the_game_with_75_equilibria():
    assert B75[0, 0] == 72336
    found = extreme_equilibria(A75, B75.T)
    assert found.complete
    assert len(found.x) == len(found.components) == len(found.subsets) == 75
    worst = max(gain(A75, B75.T, x, y) for x, y in zip(found.x, found.y, strict=True))
    assert worst < 1e-9 * np.ptp(A75)


@pytest.mark.parametrize("seed", range(40))
def test_all_equilibria_are_those_of_gambit(seed):
    gambit = peer("pygambit")
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 3 if seed % 2 else 50, (2, *rng.integers(2, 5, 2)))
    game = gambit.StrategicGame.from_arrays(a, b)
    theirs = {
        tuple(float(profile[p][s]) for p in game.players for s in game.get_strategies(p))
        for profile in gambit.nash.enummixed_solve(game, rational=True).equilibria
    }
    found = extreme_equilibria(a, b)
    assert {(*x, *y) for x, y in zip(found.x, found.y, strict=True)} == theirs


def test_components_and_subsets_of_degenerate_games():
    # The row player does not care; against its first action the column player does not either.
    a, b = np.zeros((2, 2)), np.array([[1.0, 1.0], [0.0, 1.0]])
    found = extreme_equilibria(a, b)
    assert len(found.components) == 1
    for subset in found.subsets:
        x, y = found.x[subset].mean(0), found.y[subset].mean(0)
        assert gain(a, b, x, y) < 1e-12
    assert sorted({e for subset in found.subsets for e in subset}) == list(range(len(found.x)))


def test_duplicate_and_dominated_strategies():
    base = np.array([[2.0, 0.0], [0.0, 1.0]])
    a = np.vstack([base, base[:1], base.min(0) - 1])  # row 2 repeats row 0, row 3 is dominated
    b = np.vstack([base.T, base.T[:1], [0.3, 0.3]])
    found = extreme_equilibria(a, b)
    assert (found.x[:, 3] == 0).all()
    assert len(found.components) == 3
    worst = max(gain(a, b, x, y) for x, y in zip(found.x, found.y, strict=True))
    assert worst < 1e-12


def test_decimals_are_taken_as_they_are_written():
    # In binary, 0.1 + 0.2 is not 0.3; written as decimals these are ties.
    a = np.array([[0.3, 0.1], [0.3, 0.1]])
    assert len(extreme_equilibria(a, a).components) == 1


def test_time_is_kept():
    found = extreme_equilibria(*games(3, 1, (12, 12))[0], time_limit=0.05)
    assert not found.complete


class TestZeroSum:
    def test_scaled_and_shifted_games_are_recognised(self):
        rng = np.random.default_rng(4)
        for _ in range(20):
            z = rng.normal(size=(3, 4))
            a = 2.5 * z + rng.normal(size=(1, 4))  # what the other chooses, not the player itself
            b = -0.7 * z + rng.normal(size=(3, 1))
            same = as_zero_sum(a, b)
            assert same is not None
            for x, y in ((np.eye(3)[k], np.eye(4)[j]) for k in range(3) for j in range(4)):
                rows, columns = same @ y, x @ same
                assert (rows - rows.max()) == pytest.approx((a @ y - (a @ y).max()), abs=1e-9)
                ranks = (x @ b).argmax() == columns.argmin()
                assert ranks

    def test_others_are_not(self):
        a, b = games(5, 1, (3, 3))[0]
        assert as_zero_sum(a, b) is None
        assert as_zero_sum(a, a) is None
        assert as_zero_sum(a, np.zeros((3, 3))) is None

    def test_without_interaction_dominant_actions_win(self):
        a = np.array([[1.0, 2.0], [3.0, 4.0]])
        b = np.array([[5.0, 4.0], [3.0, 2.0]])
        same = as_zero_sum(a, b)
        assert same is not None
        assert same.min(1).argmax() == 1  # rows: the second
        assert same.max(0).argmin() == 0  # columns: the first


def test_ctrl_c_keeps_the_equilibria_that_were_found(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_bimatrix, "_exchange", stop)
    game = eq.games.load("battle-of-the-sexes")
    found = eq.equilibria(game)
    assert found.status.name == "interrupted"
    assert len(found) == 2  # the pure ones
    best = eq.solve(game, objective="egalitarian")
    assert best.status.ok
    assert "a better one for the objective may exist" in best.status.message
