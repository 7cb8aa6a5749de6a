"""Learners of a user's own: the loop takes policies and refuses everything else in one line."""

import copy
import traceback
from multiprocessing.reduction import ForkingPickler

import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.core import steps

GAMES = eq.games.families.uniform(actions=3).sample(4, key=0)


class Constant(eq.dynamics.Learner):
    """Plays `chosen` in every round, whatever it is."""

    chosen: object
    lifted: bool = True

    def init(self, spec):
        return jnp.zeros(spec.actions)

    def policy(self, state):
        chosen = jnp.asarray(self.chosen)
        if not self.lifted:
            return chosen
        more = state.shape[1:]
        return jnp.broadcast_to(chosen.reshape(-1, *(1,) * len(more)), (*chosen.shape, *more))

    def update(self, state, feedback):
        return state


WRONG = {
    "boolean": ([True, False, False], True, "booleans"),
    "negative": ([1.5, -0.5, 0.0], True, "[1.5, -0.5, 0.0]"),
    "of sum two": ([1.0, 1.0, 0.0], True, "[1.0, 1.0, 0.0]"),
    "of four actions": ([0.25] * 4, True, "found (4, 16)"),
    "not a number": ([np.nan, 0.5, 0.5], True, "[nan, 0.5, 0.5]"),
    "without games": ([0.5, 0.5, 0.0], False, "found (3,); keep the axes"),
}


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("seat", ["row", "column"])
@pytest.mark.parametrize("name", WRONG)
def test_a_policy_that_is_none_is_refused(name, seat, history):
    chosen, lifted, words = WRONG[name]
    both = [Constant(chosen, lifted), eq.dynamics.Uniform()]
    row, column = both if seat == "row" else both[::-1]
    with pytest.raises(eq.core.InputError) as raised:
        eq.dynamics.play(GAMES, row, column, rounds=3, key=0, history=history)
    assert raised.value.argument == seat
    assert words in str(raised.value)
    assert "\n" not in "".join(traceback.format_exception_only(raised.value)).strip()
    assert not any("jax" in str(entry.path).split("/") for entry in raised.traceback)


@pytest.mark.parametrize("chosen", [[0.2, 0.3, 0.5], [0, 1, 0]])
def test_a_policy_is_taken_as_it_is(chosen):
    trace = eq.dynamics.play(GAMES, Constant(chosen), eq.dynamics.Uniform(), rounds=3, key=0)
    np.testing.assert_allclose(trace.last[0], np.broadcast_to(chosen, (4, 3)), atol=1e-6)


class Late(eq.dynamics.Learner):
    """Plays twice in its third round."""

    def init(self, spec):
        return jnp.zeros((1,))

    def policy(self, state):
        return jnp.where(state[0] == 2, 2.0, 1.0) * jnp.full((3, *state.shape[1:]), 1 / 3)

    def update(self, state, feedback):
        return state + 1


def test_a_sum_that_is_wrong_in_one_round_shows_in_the_average():
    with pytest.raises(eq.core.InputError, match="row: expected a learner whose policies"):
        eq.dynamics.play(GAMES, Late(), eq.dynamics.Uniform(), rounds=6, key=0)


@pytest.mark.parametrize("name", [name for name in WRONG if name != "without games"])
def test_online_refuses_the_same_policies(name):
    with pytest.raises(eq.core.InputError, match="learner: expected"):
        eq.Online(Constant(WRONG[name][0]), actions=3)


def test_one_hot_is_a_policy():
    policy = steps.one_hot(jnp.array([2, 0]), 3)
    assert jnp.issubdtype(policy.dtype, jnp.floating)
    assert policy.T.tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


def test_a_player_that_plays_is_copied_and_saved_but_not_pickled():
    online = eq.Online(eq.dynamics.OMD(), actions=3)
    online.tell(0.5, action=online.ask())
    assert copy.deepcopy(online).policy.tolist() == online.policy.tolist()
    with pytest.raises(eq.core.InputError, match=r"online.save\(path\)"):
        ForkingPickler.dumps(online)  # as for another process
