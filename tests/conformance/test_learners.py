"""One body, every learner: what any learner must do, whatever its method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equipoise import dynamics, games, testing
from equipoise.core.precision import double_precision
from equipoise.dynamics import Bandit, MarkovBandit, Nothing, Values

MATRIX = {
    "omd": dynamics.OMD(),
    "omd-guide": dynamics.OMD.vanishing(),
    "omd-printed": dynamics.OMD.printed(500),
    "omd-printed-signs": dynamics.OMD.printed_signs(),
    "omd-printed-regulariser": dynamics.OMD.printed_regulariser(),
    "omd-cai": dynamics.OMD.cai_exponents(),
    "omd-gain": dynamics.OMD(loss=dynamics.Gain()),
    "omd-control-variate": dynamics.OMD(estimate=dynamics.ControlVariate()),
    "entropic": dynamics.EntropicOMD(),
    "log-barrier": dynamics.LogBarrierOMD(),
    "exp3-ix": dynamics.EXP3IX(),
    "optimistic": dynamics.OptimisticOMD(),
    "regret-matching": dynamics.RegretMatchingPlus(),
    "fixed": dynamics.Fixed([0.5, 0.2, 0.3]),
    "uniform": dynamics.Uniform(),
    "best-responder": dynamics.BestResponder(),
}
MARKOV = {
    "markov-omd": dynamics.MarkovOMD(),
    "markov-omd-guide": dynamics.MarkovOMD.vanishing(),
    "markov-printed-signs": dynamics.MarkovOMD.printed_signs(),
    "markov-printed-regulariser": dynamics.MarkovOMD.printed_regulariser(),
    "markov-entropic": dynamics.MarkovEntropicOMD(),
    "v-learning": dynamics.VLearning(),
    "uniform": dynamics.Uniform(),
}
EVERY = [pytest.param(one, False, id=n) for n, one in MATRIX.items()]
EVERY += [pytest.param(one, True, id=f"{n} (Markov)") for n, one in MARKOV.items()]

MATRIX_GAMES = games.families.uniform(actions=3).sample(5, key=8)
MARKOV_GAMES = games.families.uniform(actions=3, states=2).sample(5, key=8)


def batch(markov):
    return MARKOV_GAMES if markov else MATRIX_GAMES


def opponent(markov):
    return dynamics.MarkovOMD() if markov else dynamics.OMD()


@pytest.mark.parametrize(("learner", "markov"), EVERY)
def test_it_keeps_what_learners_promise(learner, markov):
    testing.check_learner(learner, states=2 if markov else None, rounds=600)


class Drifting(dynamics.Uniform):
    """Plays something that is no distribution."""

    def policy(self, state):
        return super().policy(state) * 1.01


def test_a_broken_promise_is_named():
    with pytest.raises((AssertionError, ValueError), match="sum"):
        testing.check_learner(Drifting(), rounds=20)


BANDITS = [pytest.param(one, False, id=n) for n, one in MATRIX.items() if one.sees is Bandit]
BANDITS += [pytest.param(one, True, id=n) for n, one in MARKOV.items() if one.sees is MarkovBandit]


@pytest.mark.parametrize(("learner", "markov"), BANDITS)
def test_a_state_depends_on_own_feedback_alone(learner, markov):
    """Replaying a player's own actions and rewards, without any game, gives the same states.

    And the type of feedback has no room for anything else.
    """
    fields = set(learner.sees.__dataclass_fields__)
    own = {"round", "action", "reward"} | ({"state", "next_state"} if markov else set())
    assert fields == own
    part = batch(markov)[0]
    noise = dynamics.Bernoulli()
    options = {"rounds": 100, "key": 6, "noise": noise, "double": True, "history": True}
    history = dynamics.play(part, learner, opponent(markov), **options).history
    spec = dynamics.Spec(3, 2, 0.9) if markov else dynamics.Spec(3)
    with double_precision():
        state = learner.init(spec)
        update = jax.jit(learner.update)
        for t in range(100):
            policy = learner.policy(state)
            policy = policy[history.states[t]] if markov else policy
            np.testing.assert_allclose(policy, history.policies[0][t], atol=1e-9)
            own = (jnp.int32(history.actions[t, 0]), jnp.asarray(history.rewards[t]))
            if markov:
                here, ahead = (jnp.int32(s) for s in history.states[t : t + 2])
                state = update(state, MarkovBandit(jnp.int32(t + 1), here, *own, ahead))
            else:
                state = update(state, Bandit(jnp.int32(t + 1), *own))


@pytest.mark.parametrize(("learner", "markov"), BANDITS)
def test_what_the_opponent_would_have_earned_elsewhere_changes_nothing(learner, markov):
    """Two games that agree on what was played, and nowhere else, leave the same state."""
    fixed = dynamics.Fixed([[1.0, 0, 0]] * 2 if markov else [1.0, 0, 0])
    first = batch(markov)
    if markov:
        reward = np.array(first.reward)
        reward[..., 1:] = 1.0 - reward[..., 1:]
        second = games.MarkovGame(reward, first.transition, first.discount)
    else:
        payoff = np.array(first.payoff)
        payoff[..., 1:] = 1.0 - payoff[..., 1:]
        second = games.MatrixGame(payoff)
    states = [
        dynamics.play(g, learner, fixed, rounds=150, key=2).state.loop.learners[0]
        for g in (first, second)
    ]
    for a, b in zip(*map(jax.tree.leaves, states), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("learner", "markov"), EVERY)
def test_feedback_may_be_plain_numbers_and_is_checked(learner, markov):
    """Python's integers and floats do; rounds count from one, and nothing may be NaN."""
    spec = dynamics.Spec(3, 2, 0.9) if markov else dynamics.Spec(3)
    state = learner.init(spec)
    arguments = {
        Bandit: {"round": 1, "action": 2, "reward": 0.5},
        MarkovBandit: {"round": 1, "state": 0, "action": 2, "reward": 0.5, "next_state": 1},
        Values: {"round": 1, "values": [0.1, 0.5, 0.9], "policy": np.full(3, 1 / 3)},
        Nothing: {"round": 1},
        dynamics.Foresight: {"round": 1, "values": [0.1, 0.5, 0.9]},
    }[learner.sees]
    policy = np.asarray(learner.policy(learner.update(state, learner.sees(**arguments))))
    np.testing.assert_allclose(policy.sum(-1), 1.0, atol=1e-5)
    with pytest.raises(ValueError, match="round: expected a whole number >= 1, found 0"):
        learner.sees(**{**arguments, "round": 0})
    with pytest.raises(ValueError, match="round: expected whole numbers >= 1"):
        learner.sees(**{**arguments, "round": jnp.int32(0)})
    for name in {"reward", "values"} & {*arguments}:
        bad = np.nan if name == "reward" else [0.1, np.nan, 0.9]
        with pytest.raises(ValueError, match=f"{name}: expected finite numbers, found nan"):
            learner.sees(**{**arguments, name: bad})


FLOORED = [pytest.param(one, id=n) for n, one in MATRIX.items() if isinstance(one, dynamics.OMD)]


@pytest.mark.parametrize("learner", FLOORED)
@pytest.mark.parametrize("rounds", [5, 200])
def test_the_floor_is_respected(learner, rounds):
    trace = dynamics.play(MATRIX_GAMES, learner, dynamics.OMD(), rounds=rounds, key=0)
    floor = float(learner.rates.floor(rounds)) / 3
    assert trace.last[0].min() >= floor * (1 - 1e-4)


@pytest.mark.parametrize("learner", [dynamics.EntropicOMD(), dynamics.MarkovEntropicOMD()])
def test_the_learners_of_cai_et_al_pull_towards_uniform(learner):
    assert isinstance(learner.anchor, dynamics.UniformAnchor)


PLACES = [
    pytest.param(learner, markov, name, id=f"{name} of {one.id}")
    for one in EVERY
    for learner, markov in [one.values]
    for name in ("action", "state", "next_state")
    if name in learner.sees.__dataclass_fields__
]


@pytest.mark.parametrize(("learner", "markov", "name"), PLACES)
def test_feedback_beyond_the_game_is_refused(learner, markov, name):
    told = {"round": 1, "state": 1, "action": 2, "reward": 0.5, "next_state": 0, name: 7}
    state = learner.init(dynamics.Spec(3, 2, 0.9) if markov else dynamics.Spec(3))
    feedback = learner.sees(**{field: told[field] for field in learner.sees.__dataclass_fields__})
    with pytest.raises(ValueError, match=rf"^{name}: expected .*found 7"):
        learner.update(state, feedback)
