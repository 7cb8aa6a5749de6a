"""Equilibria of any number of players: pure ones, logit paths, quantal responses."""

import numpy as np
import pytest
from support import peer

from equipoise.solvers._nplayer import Replies, logit_path, nash, polish, pure_equilibria


def gain(payoffs, profile):
    return Replies(np.asarray(payoffs, float)).gain(list(profile))


def random_game(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(2, 5, rng.integers(2, 5))
    return rng.random((len(shape), *shape))


def test_pure_equilibria_are_those_of_gambit():
    gambit = peer("pygambit")
    for seed in range(10):
        payoffs = np.random.default_rng(seed).integers(0, 4, (3, 2, 3, 2))
        game = gambit.StrategicGame.from_arrays(*payoffs)
        theirs = set()
        for profile in gambit.nash.enumpure_solve(game).equilibria:
            chances = [[profile[p][s] for s in game.get_strategies(p)] for p in game.players]
            theirs.add(tuple(int(np.argmax([float(c) for c in own])) for own in chances))
        assert {tuple(p) for p in pure_equilibria(payoffs).tolist()} == theirs


def test_replies_are_expectations():
    payoffs = np.random.default_rng(0).random((3, 2, 3, 4))
    rng = np.random.default_rng(1)
    profile = [rng.dirichlet(np.ones(a)) for a in (2, 3, 4)]
    replies = Replies(payoffs)
    worth, slopes = replies.jacobian(profile)
    assert worth[:2] == pytest.approx(np.einsum("abc,b,c->a", payoffs[0], profile[1], profile[2]))
    assert replies.own(profile) == pytest.approx(worth)
    assert slopes[2:5, 5:] == pytest.approx(np.einsum("abc,a->bc", payoffs[1], profile[0]))
    assert (slopes[2:5, 2:5] == 0).all()


@pytest.mark.parametrize("seed", range(25))
def test_paths_end_in_equilibria(seed):
    payoffs = random_game(seed)
    path = nash(payoffs, time_limit=30)
    assert path.ended == "solved"
    assert gain(payoffs, path.profile) < 1e-10
    assert path.rationality[0] == 0.0


def test_units_of_payoff_do_not_matter():
    payoffs = random_game(3)
    scaled = nash(payoffs * 1e6 - 3e5)
    for ours, theirs in zip(nash(payoffs).profile, scaled.profile, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-8)
    assert scaled.gain < 1e-4  # 1e-10 of the range


def test_quantal_responses_satisfy_their_equations():
    payoffs = random_game(7)
    path = logit_path(payoffs, rationality=3.0)
    assert path.ended == "solved"
    worth = Replies(payoffs).split(Replies(payoffs).own(list(path.profile)))
    for own, chances in zip(worth, path.profile, strict=True):
        logit = np.exp(3.0 * (own - own.max()))
        assert chances == pytest.approx(logit / logit.sum(), abs=1e-9)
    assert path.rationality[-1] == pytest.approx(3.0)


def test_quantal_responses_are_those_of_gambit():
    gambit = peer("pygambit")
    payoffs = np.random.default_rng(5).integers(0, 9, (2, 3, 3)).astype(float)
    game = gambit.StrategicGame.from_arrays(*payoffs)
    theirs = gambit.qre.logit_solve_lambda(game, lam=[0.5])[0].profile
    ours = logit_path(payoffs, rationality=0.5).profile
    for player, chances in zip(game.players, ours, strict=True):
        expected = [float(theirs[player][s]) for s in game.get_strategies(player)]
        assert chances == pytest.approx(expected, abs=1e-6)


def test_the_path_that_turns_back():
    # Around a rationality of 1.06 this path turns and comes back (McKelvey and Palfrey, 1995).
    payoffs = np.array([[[8.0, 4, 0], [4, 5, 4], [0, 4, 8]], [[8, 4, 0], [4, 5, 4], [0, 4, 8]]])
    path = nash(payoffs)
    assert path.ended == "solved"
    assert gain(payoffs, path.profile) < 1e-9


def test_degenerate_games():
    rng = np.random.default_rng(0)
    ties = rng.integers(0, 2, (3, 3, 2, 3)).astype(float)
    twice = np.repeat(rng.random((3, 2, 2, 2)), 2, axis=1)  # each action of the first twice
    flat = np.zeros((3, 2, 2, 2))
    for payoffs in (ties, twice, flat):
        assert gain(payoffs, nash(payoffs, time_limit=20).profile) < 1e-7


def test_polish_refuses_what_is_no_equilibrium():
    dilemma = np.array([[[3.0, 0], [5, 1]], [[3, 5], [0, 1]]])
    profile = [np.array([0.5, 0.5]), np.array([0.5, 0.5])]
    found = polish(Replies(dilemma), profile, np.array([True, True, True, True]))
    assert found is None


def test_polish_ends_at_the_equilibrium_nearby():
    """Each of three may volunteer at a cost of a quarter: in equilibrium half the time."""
    payoffs = np.zeros((3, 2, 2, 2))
    for cell in np.ndindex(2, 2, 2):
        payoffs[:, *cell] = [0.75 if own else float(any(cell)) for own in cell]
    pennies = np.array([[[1.0, -1], [-1, 1]], [[-1, 1], [1, -1]]])  # one step is exact
    for table in (payoffs, pennies):
        for start in ((0.6, 0.45, 0.55), (0.5, 0.5, 0.5)):
            near = [np.array([1.0 - p, p]) for p in start[: len(table)]]
            found = polish(Replies(table), near, np.ones(2 * len(table), bool))
            assert found is not None
            np.testing.assert_allclose(found, 0.5, atol=1e-12)


def test_time_interruption_and_progress():
    payoffs = np.random.default_rng(1).random((3, 12, 12, 12))
    early = logit_path(payoffs, time_limit=0.0)
    assert early.ended == "time"
    assert np.isfinite(early.gain)

    def interrupt(state):
        if state["gain"] < 0.3:
            raise KeyboardInterrupt

    stopped = logit_path(payoffs, progress=interrupt)
    assert stopped.ended == "interrupted"
    assert stopped.gain < 0.3


def test_one_player():
    assert nash(np.array([[1.0, 3.0, 2.0]])).profile[0] == pytest.approx([0, 1, 0], abs=1e-7)
