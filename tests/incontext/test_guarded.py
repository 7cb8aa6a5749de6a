"""Guarded players: a bound on regret that adversaries respect, and a learner that goes on."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.dynamics import Bandit, Spec
from equipoise.incontext._guarded import net_rate

ROUNDS = 20_000


def stubborn(actions=3):
    """Players that always play their first action, whatever they see."""
    config = eq.incontext.Config(rounds=8, layers=1, width=8, hidden=8, heads=1)
    family = eq.games.families.uniform(actions)
    players = eq.incontext.initial_players(family, config, key=0)
    bias = jnp.zeros_like(players.models.readout_bias).at[..., 0].set(20.0)
    players = eqx.tree_at(lambda p: p.models.readout_bias, players, bias)
    return replace(players, exploration=0.0)


def adversaries():
    """Rewards of all actions in every round, given the policy that will be played."""

    def worst(policy, t, memory):  # the likelier an action, the less it earns
        return jnp.argsort(jnp.argsort(-policy)) / (policy.shape[0] - 1.0), memory

    def turning(policy, t, memory):  # the best action changes in the middle
        best = jnp.where(t < ROUNDS // 2, 1, 2)
        return jnp.where(jnp.arange(3) == best, 0.9, 0.1), memory

    def trap(policy, t, memory):  # good until it is trusted
        memory = memory + policy[0]
        return jnp.where(jnp.arange(3) == 0, memory < 400.0, 0.5).astype(float), memory

    return {"worst": worst, "turning": turning, "trap": trap}


@pytest.mark.parametrize("name", adversaries())
def test_regret_is_within_the_bound_against_adversaries(name):
    guarded = eq.incontext.Guarded(stubborn(), rounds=256)
    learner, _ = guarded.learners()
    adversary = adversaries()[name]

    def play(carry, t):
        state, memory, key = carry
        key, draw = jax.random.split(key)
        policy = learner.policy(state)
        rewards, memory = adversary(policy, t, memory)
        action = jax.random.choice(draw, 3, p=policy)
        state = learner.update(state, Bandit(t, action, rewards[action]))
        return (state, memory, key), (rewards, rewards[action], policy)

    @jax.jit
    def run(key):
        first = (learner.init(Spec(3, rounds=256)), jnp.zeros(()), key)
        return jax.lax.scan(play, first, jnp.arange(1, ROUNDS + 1))[1]

    with jax.numpy_rank_promotion("allow"):
        rewards, earned, policies = run(jax.random.key(1))
    assert np.allclose(np.sum(policies, 1), 1.0, atol=1e-4)
    regret = np.cumsum(rewards, 0).max(1) - np.cumsum(earned)
    for t in (256, 1000, 5000, ROUNDS):
        assert regret[t - 1] < guarded.regret_bound(t, 3)
    assert guarded.regret_bound(ROUNDS, 3) < 0.6 * ROUNDS  # it says something


def test_a_hopeless_player_is_relieved_early():
    """Against rewards that punish the first action, the fallback is on duty long before 4,096."""
    learner, _ = eq.incontext.Guarded(stubborn(), rounds=4096).learners()

    @jax.jit
    def run(key):
        def play(carry, t):
            state, key = carry
            key, draw = jax.random.split(key)
            action = jax.random.choice(draw, 3, p=learner.policy(state))
            reward = jnp.where(action == 0, 0.0, 1.0)
            return (learner.update(state, Bandit(t, action, reward)), key), state.relieved

        first = (learner.init(Spec(3, rounds=16)), key)
        (state, _), relieved = jax.lax.scan(play, first, jnp.arange(1, 1501))
        return state, relieved, learner.policy(state)

    with jax.numpy_rank_promotion("allow"):
        state, relieved, policy = run(jax.random.key(0))
    assert bool(state.fresh)
    assert not relieved[0]
    assert float(policy[0]) < 0.05


@pytest.fixture(scope="module")
def games():
    return eq.games.families.uniform(3).sample(32, key=5)


def test_the_fallback_goes_on_where_the_player_stops(games):
    guarded = eq.incontext.Guarded(eq.incontext.load("iid3"), rounds=128)
    trace = eq.dynamics.play(games, guarded, guarded, rounds=8192, key=6, record=[128, 1024, 8192])
    omd = eq.dynamics.OMD()
    alone = eq.dynamics.play(games, omd, omd, rounds=8192, key=6, record=[128, 8192])
    handed, soon, late = trace.curve.mean(1)
    assert handed < 0.6 * alone.curve.mean(1)[0]  # the player is ahead while it is on duty
    assert soon < 1.3 * handed  # what the player reached is not undone by large steps
    assert late < 0.85 * soon
    assert late < alone.curve.mean(1)[1] + 0.01
    assert (trace.regret[-1] < guarded.regret_bound(8192, 3)).all()


def test_play_goes_on_without_the_players_context(games, monkeypatch):
    """After the last round of the player its context is dropped, which changes nothing."""
    players = stubborn()
    readout = jax.random.normal(jax.random.key(0), players.models.readout.shape)
    players = eqx.tree_at(lambda p: p.models.readout, players, readout)
    players = eqx.tree_at(lambda p: p.models.readout_bias, players, replace_fn=jnp.zeros_like)
    guarded = eq.incontext.Guarded(players, rounds=32)
    learner, _ = guarded.learners()
    after, left = learner.without_context(learner.init(Spec(3, rounds=32)))
    assert (learner.context_rounds, after.context_rounds, left.player) == (32, None, None)
    options = {"rounds": 300, "key": 6, "record": [20, 32, 33, 100]}
    dropped = eq.dynamics.play(games, guarded, guarded, **options)
    whole = eq.dynamics.play(games, guarded, guarded, **options, history=True)
    omd = eq.dynamics.OMD()
    mixed = eq.dynamics.play(games, guarded, omd, **options)
    monkeypatch.setattr(type(learner), "context_rounds", None)  # one program for all rounds
    one = eq.dynamics.play(games, guarded, guarded, **options)
    assert len(set(np.round(one.curve.mean(1), 6))) == 5  # policies change from record to record
    for other in (dropped, whole):
        np.testing.assert_allclose(other.curve, one.curve, atol=1e-5)
        np.testing.assert_allclose(other.regret, one.regret, atol=1e-2)
    apart = eq.dynamics.play(games, guarded, omd, **options)
    np.testing.assert_allclose(mixed.curve, apart.curve, atol=1e-5)


def test_guarded_players_play_in_your_own_program():
    guarded = eq.incontext.Guarded(eq.incontext.load("iid3"), rounds=8)
    online = eq.Online(guarded, actions=3, reward_range=(0, 1), key=0)
    for _ in range(300):
        online.tell(1.0 if online.ask() == 2 else 0.0)
    assert online.policy.argmax() == 2


def test_what_cannot_be_guarded_is_refused():
    with pytest.raises(ValueError, match="players: expected players of matrix games"):
        eq.incontext.Guarded(eq.incontext.load("markov3"))
    with pytest.raises(ValueError, match="fallback: expected a learner of matrix games"):
        eq.incontext.Guarded(eq.incontext.load("iid3"), eq.dynamics.OptimisticOMD())
    assert float(net_rate(4, 3)) == pytest.approx(float(net_rate(1, 3)) / 2)
