"""Players of Markov games of any size: names of states and actions and units do not matter."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.core.streams import game_words
from equipoise.dynamics import JointMarkovBandit, MarkovBandit, Spec
from equipoise.dynamics.loop import seat
from equipoise.games import families
from equipoise.incontext import _contexts
from equipoise.incontext._step import draw_variety, play_varied

SIZES = {"tokens": "adaptive", "rounds": 6, "layers": 1, "width": 16, "hidden": 16, "heads": 2}
FAMILY = families.mixture(4, fewest=2, states=5)
ROUNDS = 14


@pytest.fixture(scope="module")
def players():
    """Players with random weights all the way to the policy."""
    made = eq.incontext.initial_players(FAMILY, eq.incontext.Config(**SIZES), key=0)
    readout = jax.random.normal(jax.random.key(1), made.models.readout.shape)
    return eqx.tree_at(lambda p: p.models.readout, made, readout)


def a_history(seed=0):
    """Actions (3), rewards, opponent's actions, and states (4) around the rounds."""
    rng = np.random.default_rng(seed)
    states = np.concatenate([[0], rng.integers(0, 4, ROUNDS)])
    return rng.integers(0, 3, ROUNDS), rng.uniform(size=ROUNDS), rng.integers(0, 4, ROUNDS), states


def policies_after(players, history, watching=False, start=0):
    """(rounds + 1, 4, 3): told this history."""
    actions, rewards, others, states = history
    row, _ = players.learners(watching=watching)
    row = row.fitted(3, 4)
    spec = Spec(3, states=4, discount=0.9, start=start, rounds=ROUNDS)
    update, state = eqx.filter_jit(type(row).update), row.init(spec)
    found = [row.policy(state)]
    for t in range(ROUNDS):
        told = (jnp.int32(t + 1), *map(jnp.int32, (states[t], actions[t])))
        told = (*told, jnp.float32(rewards[t]), jnp.int32(states[t + 1]))
        seen = JointMarkovBandit(*told, jnp.int32(others[t])) if watching else MarkovBandit(*told)
        state = update(row, state, seen)
        found.append(row.policy(state))
    return np.stack(found)


@pytest.fixture(scope="module")
def before(players):
    return policies_after(players, a_history())


class TestInvariance:
    def test_policies_depend_on_the_history(self, before):
        assert np.allclose(before.sum(-1), 1.0, atol=1e-5)
        assert np.abs(before[-1] - before[5]).max() > 0.01
        assert np.ptp(before[0]) == 0.0  # nothing is known, so that everything is alike

    def test_renaming_states_and_their_actions_renames_the_policies(self, players, before):
        actions, rewards, others, states = a_history()
        places, orders = (
            np.array([2, 0, 3, 1]),
            np.array([[1, 0, 2], [2, 1, 0], [0, 2, 1], [1, 2, 0]]),
        )
        renamed = orders[states[:-1], actions], rewards, others, places[states]
        found = policies_after(players, renamed, start=2)
        back = np.stack([found[:, places[s]][:, orders[s]] for s in range(4)], 1)
        np.testing.assert_allclose(back, before, atol=2e-5)

    def test_the_unit_of_rewards_does_not_matter(self, players, before):
        actions, rewards, others, states = a_history()
        found = policies_after(players, (actions, 50.0 * rewards - 7.0, others, states))
        np.testing.assert_allclose(found, before, atol=2e-3)

    def test_whoever_watches_sees_the_opponent(self, players):
        actions, rewards, others, states = a_history()
        one, two = (
            policies_after(players, (actions, rewards, seen, states), watching=True)
            for seen in (others, others * 0)
        )
        assert np.abs(one - two).max() > 1e-3


@pytest.fixture(scope="module")
def varied(players):
    """Games of many sizes, played as in training."""
    config = eq.incontext.Config(**SIZES, noise=("exact", "gaussian"), watched=0.5)
    keys = jax.random.split(jax.random.key(3), 16)
    tables = _contexts.as_tables(jax.vmap(FAMILY.draw)(keys))
    variety = draw_variety(FAMILY, config, keys)
    models = jax.tree.map(lambda a: a[0], players.models)
    who = players.seated(models, jnp.full(16, 0.5), fading=False, watching=True)
    words = game_words(jax.random.split(jax.random.key(4), 16))
    found = eqx.filter_jit(play_varied)(tables, seat(*who), words, 8, variety)
    return models, tables, variety, found


class TestTrainingPlay:
    def test_nobody_is_or_does_what_does_not_count(self, varied):
        _, _, variety, found = varied
        for actions, counts in zip(found.events.actions, variety.counts, strict=True):
            assert (np.asarray(actions) < np.asarray(counts)).all()
        states = np.rint(5 * np.asarray(variety.states)).astype(int)
        assert (np.asarray(found.events.state) < states).all()
        assert len(np.unique(states)) > 2

    def test_training_reads_the_policies_that_were_held(self, players, varied):
        models, _, variety, found = varied
        shown = jnp.broadcast_to(variety.shown, variety.counts.shape)
        context = _contexts.Context.of(found, variety.counts, shown)
        context = _contexts.note_down(players.tokens, context, 0.9)
        x, y = _contexts.policies_after(players, models, context)
        read = _contexts.visited(np.stack([x, y])[:, :, :-1], np.asarray(context.states))
        np.testing.assert_allclose(read, context.held, atol=2e-5)

    def test_what_is_lacking_changes_no_gap(self, varied):
        """The gap on the canvas is that of the game without the states and actions it lacks."""
        _, tables, variety, found = varied
        x, y = (np.moveaxis(np.asarray(p, float), -1, 0) for p in found.policies)
        gaps = _contexts.gaps(tables, jnp.asarray(x)[:, None], jnp.asarray(y)[:, None])[:, 0]
        gaps = np.asarray(gaps / variety.states)
        reward, moves = np.asarray(tables.reward, float), np.asarray(tables.transition, float)
        for i in range(4):
            (r, c), s = np.asarray(variety.counts)[:, i], round(5 * float(variety.states[i]))
            own = jnp.asarray(reward[:s, :r, :c, i]), jnp.asarray(moves[:s, :r, :c, :s, i])
            game_gap = _contexts.markov_gap(
                *own, 0.9, jnp.asarray(x[i, :s, :r]), jnp.asarray(y[i, :s, :c])
            )
            assert float(game_gap) == pytest.approx(float(gaps[i]), abs=1e-4)


def test_one_pair_plays_and_trains_on_games_of_many_sizes(players, tmp_path):
    config = eq.incontext.Config(
        **SIZES, steps=4, batch=2, play_ahead=1, reuse=2, warmup=0, held_out=4, relative=True,
        noise=("exact", "bernoulli"), evaluate_every=4,
    )  # fmt: skip
    assert config.cycle == 2
    eq.incontext.pretrain(FAMILY, config, key=0, run=tmp_path / "run")
    trained = eq.incontext.load(tmp_path / "run")
    assert trained.any_size
    assert eq.incontext.family_of(tmp_path / "run").states == 5
    games = families.uniform((2, 4), states=3).sample(4, key=1)
    trace = eq.play(games, trained, rounds=6, key=2)
    assert [p.shape for p in trace.last] == [(4, 3, 2), (4, 3, 4)]
    with pytest.raises(ValueError, match="games: expected Markov games of at most 5 states"):
        eq.play(families.uniform(3).sample(4, key=1), players, rounds=6, key=2)


def test_they_play_online(players):
    online = eq.Online(players, actions=3, states=4, discount=0.9, key=1)
    for reward, then in ((3.0, 2), (5.0, 0), (1.0, 2)):
        online.ask()
        online.tell(reward, next_state=then)
    assert online.policies.shape == (4, 3)
    np.testing.assert_array_equal(np.ptp(online.policies[3]), 0.0)  # never visited
    with pytest.raises(ValueError, match="states: expected the number of states"):
        eq.Online(players, actions=3, discount=0.9)
    with pytest.raises(ValueError, match="opponent: expected players of matrix games"):
        eq.incontext.Duel(players, eq.MatrixGame([[1, 0], [0, 1]]))
