"""Simulators: what they play, and PettingZoo's parallel environments both ways."""

from contextlib import contextmanager

import numpy as np
import pytest
from aggregative.crowd_games import city
from support import peer

import equipoise as eq
from equipoise.aggregative import Simulator, Spec, from_pettingzoo, learn, to_pettingzoo
from equipoise.core import InputError
from equipoise.runs.engines import Local, Pool


def play(env, episodes, agents):
    """States and rewards of some episodes in which everybody does the same."""
    states, rewards = [], []
    for k in range(episodes):
        states.append(env.reset())
        for _ in range(env.spec.horizon):
            state, earned = env.step(np.full(agents, k % 3))
            states.append(state)
            rewards.append(earned)
    return states, np.array(rewards)


def test_episodes_are_functions_of_the_key_and_their_number():
    game = city(4, 3, 3, counts=[5] * 4)
    first, again, other = (Simulator(game, key, noise=0.2) for key in (1, 1, 2))
    states, rewards = play(first, 4, 20)
    same = play(again, 4, 20)
    assert same[0] == states
    np.testing.assert_array_equal(same[1], rewards)
    assert play(other, 4, 20)[0] != states
    again.seek(2)
    later = play(again, 2, 20)
    assert later[0][0] == states[8]


def test_simulated_states_and_rewards_are_those_of_the_game():
    game = city(2, 2, 2, seed=3, counts=[6, 4])
    env = Simulator(game, 0, start=1)
    actions = np.repeat([0, 1, 2], [3, 3, 4])
    plays = np.array([[3, 3, 0], [0, 0, 4]])
    x = game.scale * np.einsum("ta,tad->d", plays, game.influence)
    found = np.zeros(2)
    for _ in range(400):
        assert env.reset() == 1
        state, rewards = env.step(actions)
        found[state] += 1
    np.testing.assert_allclose(rewards[:3], game.rewards(0, 1, x)[0, 0])
    np.testing.assert_allclose(rewards[6:], game.rewards(0, 1, x)[1, 2])
    np.testing.assert_allclose(found / 400, game.transitions(0, 1, x), atol=0.09)
    assert env.spec.starts == (1,)


@pytest.mark.parametrize("name", ["two-roads", "parallel-roads", "beauty-contest"])
def test_a_one_shot_game_is_simulated_in_one_step(name):
    game = eq.games.load(name, agents=60)
    env = Simulator(game, 0)
    actions = np.arange(60) % game.actions[0]
    exact = eq.certify(game, actions)
    assert env.reset() == 0
    state, rewards = env.step(actions)
    assert state == 0
    np.testing.assert_allclose(rewards, exact.value, atol=1e-12)
    for rewards in ("known", "unknown"):
        run = learn(Simulator(game, 0), 10, rewards=rewards)
        assert run.policy.actions.ndim == 1
        assert eq.certify(game, run.policy).max_gain <= run.bound + 1e-12
        assert run.confidence == 0.95
        assert run.judged(game).policy.agents == 60


def test_noise_is_of_its_size():
    game = city(1, 1, 1, counts=[5000])
    env = Simulator(game, 0, noise=0.3)
    env.reset()
    _, rewards = env.step(np.zeros(5000, int))
    assert rewards.std() == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 9}, "start: expected a state from 0 to 2"),
        ({"start": [0.5, 0.1, 0.1]}, "start: expected probabilities"),
        ({"noise": -0.1}, "noise: expected a number"),
        ({"key": -1}, "key: expected a whole number"),
    ],
)
def test_wrong_simulators_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Simulator(city(2, 3, 2), **options)


def test_wrong_steps_are_named():
    env = Simulator(city(4, 3, 2), 0)
    with pytest.raises(ValueError, match="expected reset"):
        env.step(np.zeros(4, int))
    env.reset()
    with pytest.raises(ValueError, match="actions: expected shape"):
        env.step(np.zeros(3, int))
    with pytest.raises(ValueError, match="actions: expected whole numbers from 0 to 2"):
        env.step(np.full(4, 3))
    with pytest.raises(ValueError, match="game: expected an AggregativeGame or AggregativeMarkov"):
        Simulator(eq.games.load("rock-paper-scissors"))


def test_a_spec_is_checked_as_a_game_is():
    with pytest.raises(ValueError, match="starts: expected states from 0 to 1"):
        Spec([[[1.0], [0.0]]], 2, 2, 0.1, 0.1, starts=[2])
    with pytest.raises(ValueError, match="influence"):
        Spec([1.0, 0.0], 2, 2, 0.1, 0.1)
    spec = Spec.of(city(2, 2, 2, counts=[3, 4]))
    apart = spec.one_by_one()
    assert apart.types == apart.agents == 7
    x = np.array([[0.3]])
    np.testing.assert_allclose(apart.rewards(0, 0, x)[0, 2:4], spec.rewards(0, 0, x)[0])
    assert spec.unrewarded().reward is None


def wrapped(game, parallel, **options):
    return from_pettingzoo(
        parallel,
        game.influence,
        horizon=game.horizon,
        states=game.states,
        lipschitz=game.lipschitz,
        transition_lipschitz=game.transition_lipschitz,
        counts=game.counts,
        **options,
    )


@pytest.mark.filterwarnings("default")  # PettingZoo warns of matters of taste
def test_pettingzoo_accepts_our_environment():
    peer("pettingzoo")
    from pettingzoo.test import parallel_api_test, parallel_seed_test

    game = city(3, 3, 4, counts=[2, 2, 2])
    parallel_api_test(to_pettingzoo(Simulator(game)), num_cycles=40)
    parallel_seed_test(lambda: to_pettingzoo(Simulator(game)), num_cycles=20)


def test_learning_through_pettingzoo():
    peer("pettingzoo")
    game = city(3, 3, 3, seed=1, counts=[5, 5, 5])
    env = wrapped(game, to_pettingzoo(Simulator(game)), key=3)
    run = learn(env, 25, rewards="unknown")
    assert eq.certify(game, run.policy).max_gain <= run.bound
    env.seek(0)
    again = learn(env, 25, rewards="unknown")
    np.testing.assert_array_equal(run.policy.actions, again.policy.actions)


def test_environments_that_do_not_fit_are_named():
    peer("pettingzoo")
    game = city(3, 3, 3, counts=[5, 5, 5])
    parallel = to_pettingzoo(Simulator(game))
    with pytest.raises(ValueError, match="expected 14 possible agents"):
        from_pettingzoo(
            parallel, game.influence, horizon=3, states=3, lipschitz=0.5,
            transition_lipschitz=0.5, counts=[5, 5, 4],
        )  # fmt: skip
    with pytest.raises(ValueError, match="2 discrete actions for agent agent_0"):
        from_pettingzoo(
            parallel, game.influence[:, :2], horizon=3, states=3, lipschitz=0.5,
            transition_lipschitz=0.5, counts=[5, 5, 5],
        )  # fmt: skip
    with pytest.raises(ValueError, match="state: expected a whole number from 0 to 2, found 5"):
        wrapped(game, parallel, state=lambda observations, infos: 5).reset()
    with pytest.raises(ValueError, match="expected a PettingZoo ParallelEnv"):
        wrapped(game, object())
    with pytest.raises(ValueError, match="simulator: expected a Simulator"):
        to_pettingzoo(game)


class Workers(Local):
    """A pool of so many workers, which play in turn and count what they play."""

    def __init__(self, count):
        super().__init__(workers=1)
        self.count, self.played = count, 0

    @contextmanager
    def pool(self, state):
        def run(task, inputs):
            self.played += len(inputs)
            return [task(state, value) for value in inputs]

        yield Pool(self.count, run)


@pytest.mark.parametrize("rewards", ["known", "unknown"])
def test_any_number_of_workers_learn_the_same(rewards):
    """What is played ahead of time for a plan that is replaced is dropped."""
    game = city(3, 3, 2, counts=[20] * 3)
    several = Workers(8)
    found = [
        learn(Simulator(game, key=0, noise=0.1), 60, rewards=rewards, noise=0.1, workers=workers)
        for workers in ("local", several)
    ]
    assert several.played > 60
    assert found[0].bound == found[1].bound
    assert found[0].stats["plans"] == found[1].stats["plans"]
    for name, values in found[0].curve.items():
        np.testing.assert_array_equal(values, found[1].curve[name])
    if rewards == "known":  # no scouts, whose turns are told otherwise
        alone = learn(Simulator(game, key=0, noise=0.1), 60, noise=0.1)
        np.testing.assert_array_equal(alone.curve["bound"], found[0].curve["bound"])


def test_workers_need_a_pool_and_episodes_by_number():
    class Bare:
        spec = Simulator(city(2, 2, 2), 0).spec
        reset = step = staticmethod(lambda *_: 0)

    with pytest.raises(InputError, match="an engine with a pool"):
        learn(Simulator(city(2, 2, 2), 0), 5, workers="slurm")
    with pytest.raises(InputError, match="a method seek"):
        learn(Bare(), 5, workers="local")
