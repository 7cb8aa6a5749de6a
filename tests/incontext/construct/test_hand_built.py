"""Hand-built networks as players: play, fine-tuning, and what is refused."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.incontext import construct

UNIFORM = eq.games.families.uniform


def test_a_hand_built_pair_plays_as_its_learner_does():
    games = UNIFORM(2).sample(16, key=0)
    built = construct.omd(2, rounds=12)
    episode = eq.play(games, built.players, rounds=12, key=1)
    trace = eq.dynamics.play(games, built.learner, built.learner, rounds=12, key=1)
    for own, learned in zip(episode.last, trace.last, strict=True):
        np.testing.assert_allclose(own, learned, atol=1e-5)
    assert abs(eq.certify(games, episode.last).nash_conv - trace.curve[-1]).max() < 1e-4


def test_fine_tuning_lowers_the_gap():
    family = UNIFORM(2)
    held_out = family.sample(128, key=50)
    # As in the example of `fine_tune`: what is compiled for one serves the other.
    built = construct.omd(2, rounds=4, reciprocal_units=2)
    tuned = construct.fine_tune(built, family, steps=10, batch=16, learning_rate=0.01, key=0)

    def gap(tf):
        episode = eq.play(held_out, tf.players, rounds=4, key=51)
        return eq.certify(held_out, episode.last).nash_conv.mean()

    assert gap(tuned) < 0.8 * gap(built)
    zero = np.asarray(built.model.embed) == 0
    assert (np.asarray(tuned.model.embed)[zero] == 0).all()  # the wiring stays


def test_the_current_state_is_answered_for_as_all_are():
    games = UNIFORM(2, states=2).sample(2, key=3)
    built = construct.omd_markov(2, 2, rounds=15, answer="current")
    assert built.errors(games, key=4).shape == (2, 2, 16)
    assert built.error(games, key=4) < 1e-9
    with pytest.raises(ValueError, match="answer: expected 'all'"):
        _ = built.players


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"actions": 1}, "actions: expected a whole number >= 2, found 1"),
        ({"rounds": 0}, "rounds: expected a whole number >= 1"),
        ({"reciprocal_units": 0}, "reciprocal_units: expected a whole number >= 1"),
        ({"log_units": 1}, "log_units: expected a whole number >= 2"),
        ({"newton_steps": -1}, "newton_steps: expected a whole number >= 0"),
        ({"learner": eq.dynamics.OMD()}, "learner: expected anchor UniformAnchor"),
        ({"learner": eq.dynamics.EntropicOMD()}, "learner: expected mirror Euclidean"),
        ({"learner": eq.dynamics.OMD.printed(10)}, "learner: expected the loss Baseline"),
    ],
)
def test_what_cannot_be_built_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        construct.omd(**{"actions": 2, "rounds": 4} | options)


def test_games_of_another_shape_are_refused():
    built = construct.omd(2, rounds=3)
    with pytest.raises(ValueError, match="games: expected"):
        built.error(UNIFORM(3).sample(2, key=0), key=0)
    with pytest.raises(ValueError, match="rounds: expected at most 3"):
        eq.play(UNIFORM(2).sample(2, key=0), built.players, rounds=4, key=0)
    markov = construct.omd_markov(2, 2, rounds=3, discount=0.5)
    with pytest.raises(ValueError, match="discount"):
        markov.error(UNIFORM(2, states=2, discount=0.9).sample(2, key=0), key=0)


def test_fine_tuning_refuses_games_of_another_shape():
    built = construct.omd(2, rounds=2, reciprocal_units=2)
    for family in (UNIFORM(3), UNIFORM(2, states=2)):
        with pytest.raises(ValueError, match=r"family: expected \(2, 2\) actions and states None"):
            construct.fine_tune(built, family, steps=1, key=0)


def test_rewards_of_any_range_are_scaled():
    """Errors and realisability are those of the same games with rewards in [0, 1]."""
    games, built = UNIFORM(2).sample(3, key=0), construct.omd(2, rounds=3, reciprocal_units=2)
    wide = eq.MatrixGame(4.0 * np.asarray(games.payoff) - 2.0)
    errors = built.errors(wide, key=1, reward_range=(-2.0, 2.0))
    np.testing.assert_allclose(errors, built.errors(games, key=1), atol=1e-9)
    with pytest.raises(ValueError, match="state their range with reward_range"):
        built.error(wide, key=1)
    omd, measure = eq.dynamics.OMD(), eq.incontext.theory.realisability
    known = {"rounds": 3, "key": 2}
    apart = measure(omd, built.players, wide, reward_range=(-2.0, 2.0), **known).total_variation
    same = measure(omd, built.players, games, **known).total_variation
    np.testing.assert_allclose(apart, same, atol=1e-5)
