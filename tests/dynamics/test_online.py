"""A learner in a user's own program: what it plays, what it refuses, and that it can be saved."""

import inspect
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise import dynamics
from equipoise.core.arrays import read_npz, write_npz
from equipoise.dynamics import Bandit, Spec

Online = eq.Online
REWARDS = [0.9, 0.1, 0.4, 0.7, 0.2, 0.6]


def play(online, rewards=REWARDS):
    """Actions that were asked for."""
    actions = []
    for reward in rewards:
        actions.append(online.ask())
        online.tell(reward)
    return actions


@pytest.mark.parametrize("learner", [dynamics.OMD(), dynamics.EXP3IX()])
def test_it_learns_what_the_learner_learns(learner):
    online = Online(learner, actions=3, reward_range=(0, 1), key=3)
    state = learner.init(Spec(3))
    for t, reward in enumerate(REWARDS, 1):
        np.testing.assert_allclose(online.policy, learner.policy(state), atol=1e-6)
        action = online.ask()
        assert online.ask() == action  # asking again changes nothing
        online.tell(reward)
        state = learner.update(state, Bandit(t, action, reward))
    np.testing.assert_allclose(online.policies, learner.policy(state), atol=1e-5)
    assert online.rounds == len(REWARDS)
    assert abs(online.policy.sum() - 1.0) < 1e-15


def test_keys_decide():
    one, same, other = (Online(dynamics.Uniform(), actions=5, key=key) for key in (1, 1, 2))
    rewards = [0.5] * 40
    first = play(one, rewards)
    assert first == play(same, rewards) != play(other, rewards)
    counts = np.bincount(play(Online(dynamics.Uniform(), actions=4), [0.0] * 400), minlength=4)
    assert counts.min() > 60


def test_it_finds_the_best_arm_whatever_the_scale():
    for scale, ends in ((1.0, (0, 1)), (1000.0, None)):
        online = Online(dynamics.EXP3IX(), actions=3, reward_range=ends, key=0)
        for _ in range(400):
            online.tell(scale * [0.2, 0.5, 0.9][online.ask()])
        assert online.policy.argmax() == 2


def test_a_range_is_learned_while_playing():
    online = Online(dynamics.OMD(), actions=2, key=0)
    assert online.reward_range is None
    for reward, ends in ((3.0, (3.0, 3.0)), (-1.0, (-1.0, 3.0)), (7.0, (-1.0, 7.0))):
        online.ask()
        online.tell(reward)
        assert online.reward_range == ends
        assert np.isfinite(online.policy).all()


def test_actions_may_be_drawn_by_the_program():
    asked = Online(dynamics.OMD(), actions=3, reward_range=(0, 1), key=3)
    told = Online(dynamics.OMD(), actions=3, reward_range=(0, 1), key=4)
    for action, reward in zip(play(asked), REWARDS, strict=True):
        told.tell(reward, action=action)
    np.testing.assert_array_equal(asked.policy, told.policy)


def test_markov_games_and_full_information():
    online = Online(dynamics.MarkovOMD(), actions=2, states=3, discount=0.9, state=1, key=0)
    assert online.state == 1
    for then in (2, 0, 0, 1):
        online.ask()
        online.tell(0.3 * then, next_state=then)
        assert online.state == then
    assert online.policies.shape == (3, 2)
    informed = Online(dynamics.RegretMatchingPlus(), actions=2, reward_range=(0, 4), key=0)
    informed.ask()
    informed.tell([1.0, 3.0])
    assert informed.policy.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"learner": "omd"}, "learner: expected a Learner or Players, found str"),
        ({"learner": dynamics.BestResponder()}, "learner: expected a learner that sees"),
        ({"actions": None}, "actions: expected a whole number >= 1, found None"),
        ({"actions": 2.5}, "actions: expected a whole number"),
        ({"reward_range": (1, 0)}, "reward_range: expected"),
        ({"states": 3}, "states: expected None for OMD, a learner of matrix games; found 3"),
        ({"learner": dynamics.MarkovOMD()}, "states: expected a number for MarkovOMD"),
        ({"seat": "left"}, "seat: expected 'row' or 'column'"),
    ],
)
def test_what_cannot_be_is_refused(arguments, complaint):
    arguments = {"learner": dynamics.OMD(), "actions": 3, **arguments}
    with pytest.raises(ValueError, match=complaint):
        # As a user calls it: without the checks of annotations, which come first in tests.
        inspect.unwrap(Online.__init__)(object.__new__(Online), **arguments)


def test_what_is_told_is_checked_and_changes_nothing_when_refused():
    online = Online(dynamics.OMD(), actions=3, reward_range=(0, 1), key=0)
    with pytest.raises(ValueError, match="tell: expected a call of `ask` before it"):
        online.tell(0.5)
    action, policy = online.ask(), online.policy
    for reward, complaint in (
        (math.nan, "reward: expected finite numbers, found nan"),
        (math.inf, "reward: expected finite numbers"),
        (
            1.5,
            r"reward: expected a number in \[0.0, 1.0\] \(the declared reward_range\), found 1.5",
        ),
        ("0.5", "reward: expected a number, found '0.5'"),
        (True, "reward: expected a number, found True"),
        (None, "reward: expected a number, found None"),
        ([0.1, 0.2, 0.3], "reward: expected a number"),
    ):
        with pytest.raises(ValueError, match=complaint):
            online.tell(reward)
    with pytest.raises(ValueError, match=r"action: expected a number in \[0, 2\], found 3"):
        online.tell(0.5, action=3)
    with pytest.raises(ValueError, match="next_state: expected None, since the game has no states"):
        online.tell(0.5, next_state=1)
    assert (online.rounds, online.ask()) == (0, action)
    np.testing.assert_array_equal(online.policy, policy)
    for number in (np.float32(0.5), np.int64(1), jnp.float32(0.25), np.array(0.5)):
        online.ask()
        online.tell(number)
    assert online.rounds == 4


@pytest.mark.parametrize(
    "learner",
    [
        dynamics.OMD(),
        dynamics.OMD.vanishing(),
        dynamics.LogBarrierOMD(),
        dynamics.EXP3IX(scale=0.5),
        dynamics.Fixed([0.2, 0.3, 0.5]),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_it_goes_on_after_saving(learner, tmp_path):
    online = Online(learner, actions=3, key=5)
    play(online)
    online.ask()
    online.save(tmp_path / "online.npz")
    again = Online.load(tmp_path / "online.npz")
    assert again.reward_range == online.reward_range
    assert play(again) == play(online)
    np.testing.assert_array_equal(again.policy, online.policy)


class Mine(dynamics.Uniform):
    """A learner that the package does not know."""

    share: float = 0.5


def test_learners_of_ones_own_are_given_again(tmp_path):
    online, path = Online(Mine(), actions=3, key=5), tmp_path / "online.npz"
    play(online)
    online.save(path)
    with pytest.raises(ValueError, match="learner: expected the players or learner that played"):
        Online.load(path)
    with pytest.raises(ValueError, match="learner: expected the one that was saved"):
        Online.load(path, Mine(share=0.25))
    assert play(Online.load(path, Mine())) == play(online)


def test_damaged_files_are_refused(tmp_path):
    online, path = Online(dynamics.OMD(), actions=3, key=5), tmp_path / "online.npz"
    online.save(path)
    arrays = read_npz(path)

    def changed(**changes):
        bad = tmp_path / f"bad{len(list(tmp_path.iterdir()))}.npz"
        write_npz(bad, {**arrays, **changes})
        return bad

    words = str(arrays["online"])
    for bad, complaint in (
        (changed(online=np.array("{")), "expected a valid description"),
        (changed(online=np.arange(3)), "expected a valid description"),
        (changed(online=np.array('{"format": 9}')), "expected format 1"),
        (changed(online=np.array(words.replace('"OMD"', '"os.system"'))), "expected a learner of"),
        (changed(online=np.array(words.replace('"rounds": 0', '"rounds": -1'))), "rounds"),
        (changed(leaf0=np.full(3, np.nan, np.float32)), "expected finite numbers"),
        (changed(leaf0=np.zeros(4, np.float32)), "expected shape"),
        (changed(leaf9=np.zeros(1)), "arrays instead of"),
    ):
        with pytest.raises(ValueError, match=complaint):
            Online.load(bad)
    (tmp_path / "text.npz").write_text("no arrays")
    with pytest.raises(ValueError, match=r"expected an \.npz file"):
        Online.load(tmp_path / "text.npz")


def test_states_of_learners_stay_on_their_own():
    """Two of them share a learner and nothing else."""
    learner = dynamics.OMD()
    one, two = Online(learner, actions=3, key=0), Online(learner, actions=3, key=0)
    play(one)
    np.testing.assert_allclose(two.policy, 1 / 3, atol=1e-7)
    assert eqx.tree_equal(learner, dynamics.OMD())
