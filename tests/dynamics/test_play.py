"""The driver: keys, batches, records, ranges, regret, noise, and what it refuses."""

import inspect
import threading
import time

import jax
import numpy as np
import pytest

from equipoise import dynamics, games
from equipoise.certificates import certify
from equipoise.dynamics import OMD, Bernoulli, BestResponder, Exact, Fixed, Gaussian, MarkovOMD
from equipoise.dynamics import _engine as tiles

FAMILY = games.families.uniform(actions=3)
SMALL = FAMILY.sample(6, key=0)


def test_any_batch_shape_is_kept():
    batch = games.MatrixGame(np.asarray(SMALL.payoff).reshape(2, 3, 3, 3))
    folded = dynamics.play(batch, OMD(), OMD(), rounds=50, key=1, record=[10])
    flat = dynamics.play(SMALL, OMD(), OMD(), rounds=50, key=1, record=[10])
    assert folded.last[0].shape == (2, 3, 3)
    assert folded.curve.shape == (2, 2, 3)
    assert folded.regret is not None
    assert folded.regret.shape == (2, 2, 3, 2)
    np.testing.assert_array_equal(folded.last[1].reshape(6, 3), flat.last[1])


def test_players_may_have_different_numbers_of_actions():
    batch = games.families.uniform(actions=(2, 4)).sample(3, key=0)
    trace = dynamics.play(batch, OMD(), dynamics.EXP3IX(), rounds=50, key=1)
    assert trace.last[0].shape == (3, 2)
    assert trace.average[1].shape == (3, 4)
    assert np.isfinite(trace.curve).all()


def test_seeds_are_one_more_axis_and_differ():
    trace = dynamics.play(SMALL, OMD(), OMD(), rounds=50, key=1, seeds=4)
    assert trace.last[0].shape == (6, 4, 3)
    assert trace.curve.shape == (1, 6, 4)
    assert len(np.unique(trace.last[0][0, :, 0])) == 4
    fewer = dynamics.play(SMALL, OMD(), OMD(), rounds=50, key=1, seeds=2)
    np.testing.assert_array_equal(fewer.last[0], trace.last[0][:, :2])
    keys = dynamics.game_keys(1, (6,), seeds=4)
    again = dynamics.play(SMALL, OMD(), OMD(), rounds=50, key=keys[:, 3])
    np.testing.assert_array_equal(again.last[0], trace.last[0][:, 3])


def test_tiles_do_not_show(monkeypatch):
    """A batch that is cut into many tiles, on many threads, plays as one that is not."""
    batch = FAMILY.sample(200, key=3)
    whole = dynamics.play(batch, OMD(), OMD(), rounds=120, key=1)
    monkeypatch.setattr(tiles, "LARGEST", 16)
    cut = dynamics.play(batch, OMD(), OMD(), rounds=120, key=1)
    np.testing.assert_array_equal(whole.last[0], cut.last[0])
    np.testing.assert_array_equal(whole.average[1], cut.average[1])
    np.testing.assert_array_equal(whole.regret, cut.regret)


def test_the_key_matters_and_so_does_the_game():
    first = dynamics.play(SMALL, OMD(), OMD(), rounds=50, key=1)
    second = dynamics.play(SMALL, OMD(), OMD(), rounds=50, key=2)
    assert (first.last[0] != second.last[0]).any()
    same = games.MatrixGame(np.stack([SMALL.payoff[0]] * 2))
    twins = dynamics.play(same, OMD(), OMD(), rounds=50, key=1)
    assert (twins.last[0][0] != twins.last[0][1]).any()


def test_records_are_the_policies_of_shorter_runs():
    long = dynamics.play(SMALL, OMD(), OMD(), rounds=100, key=1, record=(10, 40))
    assert long.recorded.rounds.tolist() == [10, 40, 100]
    for i, rounds in enumerate((10, 40)):
        short = dynamics.play(SMALL, OMD(), OMD(), rounds=rounds, key=1)
        np.testing.assert_array_equal(long.recorded.last[0][i], short.last[0])
        np.testing.assert_array_equal(long.recorded.average[1][i], short.average[1])
        np.testing.assert_array_equal(long.regret[i], short.regret[-1])


def test_the_curve_is_the_certified_gap():
    trace = dynamics.play(SMALL, OMD(), OMD(), rounds=100, key=1, record=(10,))
    np.testing.assert_array_equal(trace.curve[-1], certify(SMALL, trace.last).nash_conv)
    np.testing.assert_array_equal(trace.average_curve[-1], certify(SMALL, trace.average).nash_conv)


@pytest.mark.parametrize("noise", [Exact(), Bernoulli()])
def test_averages_and_regrets_are_those_of_the_history(noise):
    """Brute force over every remembered round; more rounds than one block of the sums."""
    rounds = 700
    trace = dynamics.play(SMALL, OMD(), OMD(), rounds=rounds, key=1, noise=noise, double=True)
    options = {"rounds": rounds, "key": 1, "noise": noise, "double": True, "history": True}
    history = dynamics.play(SMALL, OMD(), OMD(), **options).history
    payoff = np.asarray(SMALL.payoff)
    x, y = history.policies
    np.testing.assert_allclose(trace.average[0], x.mean(1), atol=1e-6)
    a, b = history.actions[..., 0], history.actions[..., 1]
    earned = np.take_along_axis(payoff.reshape(6, 9), a * 3 + b, 1).sum(1)
    row = np.einsum("gab,gtb->ga", payoff, y).max(-1) - earned
    column = earned - np.einsum("gab,gta->gb", payoff, x).min(-1)
    np.testing.assert_allclose(trace.regret[-1], np.stack([row, column], -1), atol=1e-3)
    np.testing.assert_allclose(trace.recorded.reward[-1], earned, atol=1e-3)


def test_float32_sums_lose_nothing_over_many_rounds():
    fixed = Fixed([0.1, 0.2, 0.7])
    trace = dynamics.play(SMALL, fixed, fixed, rounds=200_000, key=0)
    np.testing.assert_allclose(trace.average[0], np.tile([0.1, 0.2, 0.7], (6, 1)), atol=1e-6)


def test_rewards_are_scaled_from_their_range():
    scaled = games.MatrixGame(np.asarray(SMALL.payoff) * 6.0 - 2.0)
    plain = dynamics.play(SMALL, OMD(), OMD(), rounds=300, key=1, double=True)
    wide = dynamics.play(
        scaled, OMD(), OMD(), rounds=300, key=1, double=True, reward_range=(-2.0, 4.0)
    )
    np.testing.assert_allclose(wide.last[0], plain.last[0], atol=1e-9)
    np.testing.assert_allclose(wide.regret, 6.0 * plain.regret, atol=1e-6)
    np.testing.assert_allclose(wide.recorded.reward, 6 * plain.recorded.reward - 600, atol=1e-6)
    np.testing.assert_allclose(wide.curve, 6.0 * plain.curve, atol=1e-8)


def test_actions_follow_the_policy():
    fixed = Fixed([0.5, 0.3, 0.2])
    history = dynamics.play(
        SMALL, fixed, dynamics.Uniform(), rounds=4000, key=0, history=True
    ).history
    rows = np.bincount(history.actions[..., 0].ravel(), minlength=3) / 24_000
    columns = np.bincount(history.actions[..., 1].ravel(), minlength=3) / 24_000
    np.testing.assert_allclose(rows, [0.5, 0.3, 0.2], atol=0.012)
    np.testing.assert_allclose(columns, 1 / 3, atol=0.012)


def test_states_follow_the_transitions():
    game = games.families.uniform(actions=2, states=3).sample(key=0)
    uniform = dynamics.Uniform()
    history = dynamics.play(game, uniform, uniform, rounds=40_000, key=0, history=True).history
    s, (a, b) = history.states[:-1], history.actions.T
    for place in range(3):
        here = (s == place) & (a == 1) & (b == 0)
        found = np.bincount(history.states[1:][here], minlength=3) / here.sum()
        np.testing.assert_allclose(found, game.transition[place, 1, 0], atol=0.03)


@pytest.mark.parametrize(("noise", "spread"), [(Bernoulli(), 0.45), (Gaussian(0.05), 0.05)])
def test_noisy_rewards_are_unbiased(noise, spread):
    """On a game of one action each, with means away from the ends where clipping would bias."""
    means = np.array([0.3, 0.5, 0.7])
    one = games.MatrixGame(means.reshape(3, 1, 1))
    uniform = dynamics.Uniform()
    history = dynamics.play(
        one, uniform, uniform, rounds=20_000, key=0, noise=noise, history=True
    ).history
    error = 4 * spread / np.sqrt(20_000) + 1e-4
    np.testing.assert_allclose(history.rewards.mean(1), means, atol=error * 1.2)
    assert (history.rewards >= 0).all()
    assert (history.rewards <= 1).all()
    np.testing.assert_allclose(history.rewards.std(1), spread, atol=0.06)


def test_history_changes_nothing():
    plain = dynamics.play(SMALL, OMD(), OMD(), rounds=80, key=1, record=(5, 70))
    kept = dynamics.play(SMALL, OMD(), OMD(), rounds=80, key=1, record=(5, 70), history=True)
    assert plain.history is None
    for which in ("last", "average"):
        for one, other in zip(
            getattr(plain.recorded, which), getattr(kept.recorded, which), strict=True
        ):
            np.testing.assert_allclose(one, other, atol=1e-5)
    np.testing.assert_allclose(plain.regret, kept.regret, atol=1e-4)
    assert kept.history.held[0] is kept.history.policies[0]
    np.testing.assert_allclose(kept.history.policies[0][:, 5], plain.recorded.last[0][0], atol=1e-5)


def test_history_goes_on_from_a_state():
    whole = dynamics.play(SMALL, OMD(), OMD(), rounds=100, key=1, history=True)
    half = dynamics.play(SMALL, OMD(), OMD(), rounds=70, key=1, history=True)
    rest = dynamics.play(SMALL, OMD(), OMD(), rounds=30, state=half.state, history=True)
    np.testing.assert_array_equal(rest.history.actions, whole.history.actions[:, 70:])
    np.testing.assert_allclose(rest.average[0], whole.average[0], atol=1e-6)


def test_mean_rewards_of_the_history_are_those_of_its_policies():
    game = games.families.uniform(actions=(2, 3), states=2).sample(4, key=0)
    fixed = Fixed([[0.2, 0.3, 0.5]] * 2)
    history = dynamics.play(game, MarkovOMD(), fixed, rounds=30, key=0, history=True).history
    x, y = history.policies
    here = game.reward[np.arange(4)[:, None], history.states[:, :-1]]
    mean = np.einsum("gta,gtab,gtb->gt", x, here, y)
    np.testing.assert_allclose(history.expected, mean, atol=1e-6)


@pytest.mark.parametrize("seat", [0, 1])
def test_a_best_responder_of_markov_games_leaves_nothing_to_gain(seat):
    game = games.families.uniform(actions=(2, 3), states=2).sample(4, key=0)
    learners = [MarkovOMD(), MarkovOMD()]
    learners[seat] = BestResponder()
    trace = dynamics.play(game, *learners, rounds=20, key=0)
    gains = certify(game, trace.last).gains
    np.testing.assert_allclose(gains[:, seat], 0.0, atol=1e-5)
    assert gains[:, 1 - seat].max() > 0.1


def test_a_best_responder_earns_what_can_be_earned():
    trace = dynamics.play(SMALL, Fixed([0.2, 0.3, 0.5]), BestResponder(), rounds=500, key=0)
    worst = np.einsum("a,gab->gb", [0.2, 0.3, 0.5], SMALL.payoff).argmin(-1)
    np.testing.assert_array_equal(trace.average[1].argmax(-1), worst)
    assert trace.regret is not None
    # Nothing is left to regret, but for the luck of the row player's draws.
    assert abs(trace.regret[-1, :, 1]).max() < 4 * np.sqrt(500)


def test_float64_is_asked_for_and_given():
    trace = dynamics.play(SMALL, OMD(), OMD(), rounds=20, key=1, double=True)
    assert trace.state.loop.learners[0].policy.dtype == np.float64
    np.testing.assert_allclose(trace.state.loop.learners[0].policy.sum(0), 1.0, atol=1e-14)


def test_a_users_switch_to_float64_changes_nothing():
    expected = dynamics.play(SMALL, OMD(), OMD(), rounds=50, key=1)
    with jax.enable_x64(True):
        found = dynamics.play(SMALL, OMD(), OMD(), rounds=50, key=1)
    np.testing.assert_array_equal(found.last[0], expected.last[0])


MARKOV = games.families.uniform(actions=2, states=2).sample(2, key=0)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"rounds": 0}, "rounds: expected a whole number >= 1, found 0"),
        ({"rounds": 2**31}, "rounds: expected fewer than 2\\^31"),
        ({"record": [11]}, r"record: expected rounds in \[1, 10\], found 11"),
        ({"record": [0]}, "record: expected a whole number"),
        ({"key": None}, "key: expected an int seed"),
        ({"key": dynamics.game_keys(0, (3,))}, "key: expected shape"),
        ({"seeds": 0}, "seeds: expected a whole number"),
        ({"reward_range": (0.4, 0.6)}, "games: expected rewards in"),
        ({"reward_range": (1.0, 0.0)}, "reward_range: expected"),
        ({"row": MarkovOMD()}, "row: expected a learner of matrix games, found MarkovOMD"),
        ({"games": MARKOV}, "row: expected a learner of Markov games, found OMD"),
        ({"column": Fixed([0.5, 0.5])}, "probabilities: expected shape"),
        ({"row": BestResponder(), "column": BestResponder()}, "column: expected a learner"),
        ({"noise": "bernoulli"}, r"noise: expected Exact\(\), .*; found 'bernoulli'"),
        ({"noise": Bernoulli}, "noise: expected .*; found the class Bernoulli"),
        ({"record": "5"}, "record: expected a whole number >= 1, found '5'"),
        ({"record": 2.5}, "record: expected a whole number >= 1, found 2.5"),
        ({"start": 0.5}, "start: expected a whole number >= 0, found 0.5"),
        ({"start": 1}, "start: expected 0 in matrix games"),
    ],
)
def test_wrong_input_is_refused(options, complaint):
    arguments = {"games": SMALL, "row": OMD(), "column": OMD(), "rounds": 10, "key": 0} | options
    batch, row, column = (arguments.pop(name) for name in ("games", "row", "column"))
    # As a user calls it: without the checks of annotations, which come first in tests.
    play = inspect.unwrap(dynamics.play)
    with pytest.raises(ValueError, match=complaint):
        play(batch, row, column, **arguments)


@pytest.mark.parametrize("start", [-1, 2, 99])
@pytest.mark.parametrize("verb", [dynamics.play, dynamics.certified_output])
def test_a_start_that_no_game_has_is_refused(verb, start):
    game = MARKOV if verb is dynamics.play else MARKOV[0]
    learner = MarkovOMD()
    with pytest.raises(ValueError, match="start: expected a"):
        inspect.unwrap(verb)(game, learner, learner, rounds=5, key=0, start=start)


def test_play_begins_at_the_start():
    history = dynamics.play(
        MARKOV[0], MarkovOMD(), MarkovOMD(), rounds=5, key=0, start=1, history=True
    ).history
    assert history.states[0] == 1


@pytest.mark.parametrize("record", [5, np.int64(5), np.array(5), np.array([5]), (5,), iter([5])])
def test_one_round_or_several_are_recorded(record):
    play = inspect.unwrap(dynamics.play)
    trace = play(SMALL, OMD(), OMD(), rounds=10, key=1, record=record)
    assert trace.recorded.rounds.tolist() == [5, 10]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_tile_that_fails_ends_the_others(monkeypatch, error):
    """Tiles that no thread has begun are dropped; the first was prepared before any."""
    monkeypatch.setattr(tiles, "cores", lambda: 2)
    failed, played, prepared = threading.Event(), [], []

    def play(tile, _):
        if tile[0] == 0:
            time.sleep(0.05)
            failed.set()
            raise error
        failed.wait()
        time.sleep(0.4)  # ten more would take seconds
        played.append(int(tile[0]))

    cut = tiles.cut(40, 1)
    with pytest.raises(error):
        tiles.run_tiles(play, cut, lambda tile, _: prepared.append((int(tile[0]), len(played))))
    assert prepared == [(0, 0)]
    assert len(played) < 10


def test_tiles_are_compiled_once(monkeypatch):
    """Two threads that meet a new program do not both compile it."""
    monkeypatch.setattr(tiles, "cores", lambda: 2)
    traced = []

    class Counted(dynamics.Uniform):
        def policy(self, state):
            if isinstance(state, jax.core.Tracer):
                traced.append(threading.get_ident())
            return state

    dynamics.play(FAMILY.sample(64, key=0), Counted(), OMD(), rounds=10, key=0)
    assert set(traced) == {threading.get_ident()}
