"""Play of frozen players: whom they meet, what is kept, and that games do not touch one another."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from sample_players import random_players

import equipoise as eq
from equipoise import dynamics, incontext
from equipoise.games import families

PLAYERS = random_players()
MARKOV = random_players((2, 3), states=2)
GAMES = families.uniform(3).sample(40, key=5)
#: Everywhere the same, and as in the tests of `evaluate`: programs are compiled for it.
ROUNDS = 20
MARKOV_GAMES = families.uniform((2, 3), states=2).sample(6, key=5)


@pytest.fixture(scope="module")
def episode():
    return incontext.play(GAMES, PLAYERS, rounds=ROUNDS, key=1)


def test_what_is_kept_has_its_shape(episode):
    assert episode.recorded.rounds.tolist() == [1, 2, 4, 8, 16, 20]
    assert episode.recorded.last[0].shape == (6, 40, 3)
    assert episode.curve.shape == (6, 40)
    history = episode.history
    assert history.actions.shape == (40, 20, 2)
    assert history.rewards.shape == (40, 20)
    assert history.policies[1].shape == episode.history.held[1].shape == (40, 20, 3)
    assert history.states is None
    for policy in episode.last:
        assert policy.dtype == np.float64
        np.testing.assert_allclose(policy.sum(-1), 1.0, atol=1e-15)


def test_the_curve_is_certified(episode):
    np.testing.assert_array_equal(eq.certify(GAMES, episode.last).nash_conv, episode.curve[-1])
    mean = episode.mean_curve
    np.testing.assert_allclose(mean.value, episode.curve.mean(1))
    low, high = mean.interval(0.95)
    np.testing.assert_allclose(high - low, 2 * 1.959964 * mean.error, rtol=1e-6)
    assert (mean.error > 0).all()


def test_rewards_and_actions_belong_together(episode):
    a, b = np.moveaxis(episode.history.actions, -1, 0)
    seen = GAMES.payoff[np.arange(40)[:, None], a, b]
    np.testing.assert_allclose(episode.history.rewards, seen, atol=1e-7)
    x, y = episode.history.policies
    mean = np.einsum("gta,gab,gtb->gt", x, GAMES.payoff, y)
    np.testing.assert_allclose(episode.history.expected, mean, atol=1e-6)


def test_a_game_alone_is_as_in_any_batch(episode):
    """To the last bit, wherever in a block it was."""
    keys = dynamics.game_keys(1, (40,))
    for part in (slice(0, 1), slice(7, 8), slice(31, 32), slice(33, 34), slice(3, 40)):
        alone = incontext.play(GAMES[part], PLAYERS, rounds=ROUNDS, key=keys[part])
        for seat in (0, 1):
            np.testing.assert_array_equal(
                alone.recorded.last[seat], episode.recorded.last[seat][:, part]
            )
        np.testing.assert_array_equal(alone.history.rewards, episode.history.rewards[part])


def test_batches_of_any_shape(episode):
    square = eq.MatrixGame(GAMES.payoff.reshape(4, 10, 3, 3))
    shaped = incontext.play(square, PLAYERS, rounds=ROUNDS, key=1)
    assert shaped.curve.shape == (6, 4, 10)
    assert shaped.history.actions.shape == (4, 10, 20, 2)
    np.testing.assert_array_equal(shaped.last[0].reshape(40, 3), episode.last[0])
    single = incontext.play(GAMES[0], PLAYERS, rounds=ROUNDS, key=1)
    assert single.last[0].shape == (3,)
    np.testing.assert_array_equal(single.last[0], episode.last[0][0])
    assert eq.certify(GAMES[0], single.last).nash_conv == pytest.approx(episode.curve[-1, 0])


def test_policies_depend_on_the_history(episode):
    assert (np.ptp(episode.history.held[0], axis=1).max(-1) > 1e-3).all()


def test_exploration_is_played_but_not_given():
    free = incontext.play(GAMES, PLAYERS, rounds=ROUNDS, key=1, exploration=0.4)
    share = np.array([0.4 * min(1.0, (16 / t) ** 0.25) for t in range(1, 21)])[None, :, None]
    for given, played in zip(free.history.held, free.history.policies, strict=True):
        np.testing.assert_allclose(played, (1 - share) * given + share / 3, atol=1e-6)
    none = incontext.play(GAMES, PLAYERS, rounds=ROUNDS, key=1, exploration=0.0)
    np.testing.assert_array_equal(none.history.held[0], none.history.policies[0])


def test_rewards_are_scaled():
    scaled = eq.MatrixGame(10.0 * GAMES.payoff - 5.0)
    usual = incontext.play(GAMES, PLAYERS, rounds=ROUNDS, key=1)
    other = incontext.play(scaled, PLAYERS, rounds=ROUNDS, key=1, reward_range=(-5, 5))
    np.testing.assert_allclose(other.last[0], usual.last[0], atol=1e-4)
    theirs, ours = other.history.expected, usual.history.expected
    np.testing.assert_allclose(theirs, 10 * ours - 5, atol=1e-3)


@pytest.mark.parametrize(
    ("opponent", "seat"),
    [
        (dynamics.RegretMatchingPlus(), "column"),
        (dynamics.Fixed([0.2, 0.3, 0.5]), "column"),
        (dynamics.BestResponder(), "row"),
        (dynamics.BestResponder(), "column"),
    ],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
def test_learners_of_every_kind_can_be_met(opponent, seat):
    games = GAMES[:4]
    own, other = (0, 1) if seat == "row" else (1, 0)
    both = (PLAYERS, opponent) if seat == "row" else (opponent, PLAYERS)
    episode = incontext.play(games, *both, rounds=ROUNDS, key=1)
    if isinstance(opponent, dynamics.Fixed):
        np.testing.assert_allclose(episode.last[other], [[0.2, 0.3, 0.5]] * 4, atol=1e-6)
    elif isinstance(opponent, dynamics.BestResponder):
        gains = eq.certify(games, episode.last).gains
        np.testing.assert_allclose(gains[:, other], 0.0, atol=1e-6)
        assert (gains[:, own] > 0).any()
    else:
        assert (np.ptp(episode.history.held[other], axis=1).max(-1) > 0).all()


def test_learners_at_this_table_are_those_of_dynamics():
    """A learner that plays a fixed policy here learns what it learns there."""
    fixed, games = dynamics.Fixed([1.0, 0.0, 0.0]), GAMES[:8]
    learner = dynamics.OptimisticOMD()
    theirs = dynamics.play(games, fixed, learner, rounds=ROUNDS, key=3, history=True).history
    ours = incontext.play(games, silent(), learner, rounds=ROUNDS, key=3, exploration=0.0)
    np.testing.assert_allclose(ours.history.policies[1], theirs.policies[1], atol=1e-5)
    np.testing.assert_array_equal(ours.history.actions, theirs.actions)


def silent():
    """Players that play their first action, whatever happens."""
    bias = jnp.zeros_like(PLAYERS.models.readout_bias).at[..., 0].set(60.0)
    quiet = eqx.tree_at(
        lambda p: (p.models.readout, p.models.readout_bias),
        PLAYERS,
        (jnp.zeros_like(PLAYERS.models.readout), bias),
    )
    return quiet


def test_other_players_can_be_met():
    again = incontext.play(GAMES[:4], PLAYERS, PLAYERS, rounds=ROUNDS, key=1)
    itself = incontext.play(GAMES[:4], PLAYERS, rounds=ROUNDS, key=1)
    np.testing.assert_allclose(again.last[1], itself.last[1], atol=1e-5)
    other = incontext.play(GAMES[:4], PLAYERS, random_players(key=9), rounds=ROUNDS, key=1)
    assert np.abs(other.last[1] - itself.last[1]).max() > 0.01


def test_players_are_uncoupled():
    """What the column player is does not reach the row player but through rewards."""
    constant = eq.MatrixGame(np.full((4, 3, 3), 0.5))
    one = incontext.play(constant, PLAYERS, rounds=ROUNDS, key=1)
    two = incontext.play(constant, PLAYERS, dynamics.OptimisticOMD(), rounds=ROUNDS, key=1)
    np.testing.assert_allclose(one.last[0], two.last[0], atol=1e-5)


def test_markov_games_have_policies_at_all_states():
    episode = incontext.play(MARKOV_GAMES, MARKOV, rounds=8, key=1)
    assert episode.recorded.last[0].shape == (4, 6, 2, 2)
    assert episode.recorded.last[1].shape == (4, 6, 2, 3)
    assert episode.history.states.shape == (6, 9)
    assert set(np.unique(episode.history.states)) == {0, 1}
    assert eq.certify(MARKOV_GAMES, episode.last).nash_conv.shape == (6,)
    assert (episode.history.states[:, 0] == 0).all()
    keys = dynamics.game_keys(1, (6,))
    alone = incontext.play(MARKOV_GAMES[4:5], MARKOV, rounds=8, key=keys[4:5])
    np.testing.assert_array_equal(alone.recorded.last[1][:, 0], episode.recorded.last[1][:, 4])


@pytest.mark.parametrize("seat", ["row", "column"])
def test_a_best_responder_can_be_met_in_markov_games(seat):
    opponent = dynamics.BestResponder()
    both = (MARKOV, opponent) if seat == "row" else (opponent, MARKOV)
    episode = incontext.play(MARKOV_GAMES, *both, rounds=4, key=1)
    other = 1 if seat == "row" else 0
    gains = eq.certify(MARKOV_GAMES, episode.last).gains
    np.testing.assert_allclose(gains[:, other], 0.0, atol=1e-4)
    assert gains[:, 1 - other].max() > 0.1


def test_distance_is_zero_for_the_learner_itself_and_not_for_others():
    games, omd = GAMES[:8], dynamics.OMD()
    met = incontext.play(games, omd, PLAYERS, rounds=ROUNDS, key=1)
    apart = incontext.distance(met)
    assert apart.shape == (8, 20, 2)
    np.testing.assert_allclose(apart[..., 0], 0.0, atol=1e-5)
    assert apart[..., 1].mean() > 0.05
    assert incontext.distance(met, dynamics.OMD.vanishing())[..., 0].max() > 0.01
    markov = incontext.play(MARKOV_GAMES, MARKOV, dynamics.MarkovOMD(), rounds=10, key=1)
    apart = incontext.distance(markov)
    np.testing.assert_allclose(apart[..., 1], 0.0, atol=1e-5)
    assert apart[..., 0].max() > 0.05


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rounds": 0}, "rounds: expected a whole number"),
        ({"record": (3, 99)}, r"record: expected rounds in \[1, 4\], found 99"),
        ({"column": dynamics.MarkovOMD()}, "column: expected a learner of matrix games"),
        ({"exploration": 2.0}, "exploration: expected a number in"),
        ({"reward_range": (1.0, 0.0)}, "reward_range: expected"),
        ({"reward_range": (0.0, 0.5)}, r"games: expected rewards in \[0.0, 0.5\]"),
        ({"start": 1}, "start: expected 0 in matrix games"),
        ({"column": MARKOV}, "games: expected 2 x 3 actions in 2 states"),
        ({"games": families.uniform(2).sample(3, key=0)}, "games: expected 3 x 3 actions, found 2"),
        ({"row": random_players(seeds=2)}, "players: expected one pair, found 2 seeds"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:24],
)
def test_wrong_arguments_are_refused(change, complaint):
    arguments = {"games": GAMES[:2], "row": PLAYERS, "rounds": 4, "key": 1, **change}
    with pytest.raises(ValueError, match=complaint):
        incontext.play(**arguments)


def test_a_player_is_a_learner_like_any_other(episode):
    """In either seat of `dynamics.play`, with a history or without."""
    plain = dynamics.play(GAMES, PLAYERS, PLAYERS, rounds=ROUNDS, key=1)
    assert plain.state is None
    np.testing.assert_allclose(plain.last[0], episode.last[0], atol=1e-5)
    np.testing.assert_allclose(plain.average[1], episode.average[1], atol=1e-5)
    row, column = PLAYERS.learners()
    mixed = dynamics.play(GAMES, dynamics.OMD(), column, rounds=ROUNDS, key=1)
    met = incontext.play(GAMES, dynamics.OMD(), PLAYERS, rounds=ROUNDS, key=1)
    np.testing.assert_allclose(mixed.last[1], met.last[1], atol=1e-5)
    half = dynamics.play(GAMES, dynamics.OMD(), dynamics.OMD(), rounds=2, key=1)
    with pytest.raises(ValueError, match="state: expected None, since runs of frozen players"):
        dynamics.play(GAMES, row, dynamics.OMD(), rounds=2, state=half.state)


def test_models_of_their_own_sit_together_and_apart():
    """Two models of one shape are stacked; the same play as when each is updated by itself."""
    two = random_players(shared=False)
    x, y = two.learners()
    seats = dynamics.loop.seat(x, y)
    assert seats.stacked
    assert seats.column is None
    together = dynamics.play(GAMES[:4], two, two, rounds=ROUNDS, key=1)
    against = dynamics.play(GAMES[:4], x, Alone(y, y.exploration), rounds=ROUNDS, key=1)
    np.testing.assert_allclose(together.last[1], against.last[1], atol=1e-5)
    shared = dynamics.loop.seat(*PLAYERS.learners())
    assert shared.column is None
    assert not shared.stacked


class Alone(dynamics.ContextLearner):
    """A player under another type, which cannot share a program with its own."""

    player: incontext.Player
    exploration: Any
    fading: bool = True
    sees = dynamics.Bandit

    def init(self, spec):
        return self.player.init(spec)

    def policy(self, state):
        return self.player.policy(state)

    def update(self, state, feedback):
        return self.player.update(state, feedback)

    def within(self, rounds):
        return replace(self, player=self.player.within(rounds))

    def grow(self, state, rounds):
        return self.player.grow(state, rounds)


@pytest.mark.parametrize("option", [{"exploration": 0.1}, {"watching": True}])
def test_options_of_trained_players_are_refused_where_none_plays(option):
    with pytest.raises(ValueError, match="no value, because no trained players play"):
        incontext.play(GAMES, "omd", "exp3-ix", rounds=2, **option)


def test_names_stand_for_learners_and_players():
    by_name = incontext.play(GAMES[:4], "iid3", "omd", rounds=8, key=1)
    by_hand = incontext.play(GAMES[:4], incontext.load("iid3"), dynamics.OMD(), rounds=8, key=1)
    np.testing.assert_array_equal(by_name.last[0], by_hand.last[0])
    np.testing.assert_array_equal(by_name.last[1], by_hand.last[1])
    with pytest.raises(ValueError, match=r"column: expected one of .* did you mean omd"):
        incontext.play(GAMES, "iid3", "omdd", rounds=8)


def test_learners_alone_play_as_in_dynamics():
    ours = incontext.play(GAMES[:4], "omd", rounds=8, key=1)
    theirs = dynamics.play(GAMES[:4], dynamics.OMD(), dynamics.OMD(), rounds=8, key=1)
    assert ours.history is None
    np.testing.assert_array_equal(ours.last[0], theirs.last[0])
