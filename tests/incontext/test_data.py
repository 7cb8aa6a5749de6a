"""Training data that can be looked at and written down."""

import equinox as eqx
import jax
import numpy as np
import pytest
from sample_players import random_players
from support import peer

import equipoise as eq
from equipoise.core.arrays import read_npz
from equipoise.dynamics import LEARNERS
from equipoise.incontext import _contexts, _train
from equipoise.incontext._step import Trainer

PAPER = eq.incontext.Config.paper
MATRIX = eq.games.families.uniform(actions=(2, 3))
MARKOV = eq.games.families.uniform(actions=2, states=3)


@pytest.fixture(scope="module")
def matrix():
    config = PAPER(rounds=12, batch=8, expert="nash", training_games=None)
    return eq.incontext.dataset(MATRIX, config, games=20, key=0)


@pytest.fixture(scope="module")
def markov():
    config = PAPER(rounds=12, batch=4, expert="omd", learners=("omd", "uniform"))
    return eq.incontext.dataset(MARKOV, config, games=8, key=0)


def test_what_is_written_down_is_what_was_played(matrix):
    for batch in matrix:
        row, column = batch.actions[:, 0], batch.actions[:, 1]
        payoff = np.asarray(batch.games.payoff)[np.arange(len(row))[:, None], row, column]
        np.testing.assert_allclose(batch.rewards[:, 0], payoff, atol=1e-6)
        np.testing.assert_allclose(batch.rewards.sum(1), 1.0, atol=1e-6)
        np.testing.assert_allclose(batch.policies.sum(-1), 1.0, atol=1e-5)
    assert [len(batch.number) for batch in matrix] == [8, 8, 4]


def test_labels_are_equilibria_of_the_games(matrix):
    batch = matrix[1]
    x, y = batch.labels[:, 0, -1, :2].astype(float), batch.labels[:, 1, 0].astype(float)
    policy = (x / x.sum(-1, keepdims=True), y / y.sum(-1, keepdims=True))
    assert eq.certify(batch.games, policy).nash_conv.max() < 1e-5
    np.testing.assert_array_equal(batch.labels[:, 0, :, 2], 0.0)  # the row player has two actions


def test_samples_of_equilibria_have_their_frequencies():
    config = PAPER(rounds=400, batch=4, training_games=1)
    batch = eq.incontext.dataset(MATRIX, config, games=4, key=1)[0]
    nash = eq.solve(batch.games).policy
    assert set(np.unique(batch.labels)) == {0.0, 1.0}
    for seat, policy in enumerate(nash):
        drawn = batch.labels[:, seat].mean((0, 1))[: policy.shape[-1]]
        np.testing.assert_allclose(drawn, policy[0], atol=0.05)


def test_states_follow_one_another_and_experts_see_the_history(markov):
    batch = markov[0]
    assert batch.states is not None
    here, then = batch.states[:, :-1], batch.states[:, 1:]
    games = np.arange(4)[:, None]
    moves = np.asarray(batch.games.transition)
    assert (moves[games, here, batch.actions[:, 0], batch.actions[:, 1], then] > 0).all()
    assert batch.labels.shape == (4, 2, 13, 3, 2)
    np.testing.assert_allclose(batch.labels[:, :, 0], 0.5)  # before the first round: uniform
    # Mirror descent moves at the state that was visited, and nowhere else.
    moved = np.abs(np.diff(batch.labels, axis=2)).max(-1) > 0
    elsewhere = np.arange(3) != here[:, None, :, None]
    assert not (moved & elsewhere).any()
    assert moved.any()


@pytest.mark.parametrize("name", ["omd", "omd-vanishing"])
def test_an_expert_that_plays_the_contexts_labels_them_with_its_own_policies(name):
    config = PAPER(rounds=6, batch=4, expert=name, learners=(name,))
    batch = eq.incontext.dataset(MATRIX, config, games=4, key=0)[0]
    np.testing.assert_allclose(batch.labels[:, :, :-1], batch.policies, atol=1e-6)
    other = "omd" if name == "omd-vanishing" else "omd-vanishing"
    labels = eq.incontext.dataset(MATRIX, PAPER(**vars(config) | {"expert": other}), games=4, key=0)
    assert np.abs(labels[0].labels - batch.labels).max() > 0.01


def test_the_same_key_gives_the_same_data_and_another_key_other_data(matrix):
    again = eq.incontext.dataset(MATRIX, matrix.config, games=20, key=0)
    other = eq.incontext.dataset(MATRIX, matrix.config, games=20, key=1)
    np.testing.assert_array_equal(again[2].rewards, matrix[2].rewards)
    assert (other[2].rewards != matrix[2].rewards).any()
    assert (matrix[0].rewards != matrix[1].rewards).any()


def test_a_training_set_has_no_other_games():
    config = PAPER(rounds=2, batch=8, training_games=3)
    data = eq.incontext.dataset(MATRIX, config, games=24, key=0)
    payoffs = np.concatenate([np.asarray(batch.games.payoff) for batch in data])
    assert len(np.unique(payoffs.reshape(24, -1), axis=0)) == 3
    assert set(np.concatenate([batch.number for batch in data])) == {0, 1, 2}


@pytest.fixture
def trained_on(monkeypatch):
    """What training sees from now on: (rewards, actions, policies, labels) of every cycle."""
    seen, data_of = [], Trainer.data

    def watched(self, *arguments):
        data = tables, context, labels, _ = data_of(self, *arguments)
        parts = (
            jax.numpy.moveaxis(tables.reward, -1, 0),
            context.actions,
            context.policies,
            labels,
        )
        jax.debug.callback(lambda *arrays: seen.append([np.asarray(a) for a in arrays]), *parts)
        return data

    monkeypatch.setattr(Trainer, "data", watched)
    # How good the players are does not matter here, and takes a program of its own.
    monkeypatch.setattr(_train, "_evaluate", lambda trainer, config, held_out, state: (state, {}))
    return seen


@pytest.mark.parametrize("most", [3, None])
def test_the_data_are_those_of_training(trained_on, most):
    small = {
        "tokens": "round",
        "layers": 1,
        "width": 8,
        "hidden": 8,
        "held_out": 2,
        "stop_on": "gap",
    }
    config = PAPER(rounds=5, batch=2, steps=4, play_ahead=2, training_games=most, **small)
    eq.incontext.pretrain(MATRIX, config, key=7)
    jax.effects_barrier()
    cycles = trained_on[:2]
    for i, batch in enumerate(eq.incontext.dataset(MATRIX, config, games=8, key=7)):
        rewards, actions, policies, labels = cycles[i // 2]
        np.testing.assert_array_equal(np.float32(batch.games.payoff), rewards[i % 2 :: 2])
        np.testing.assert_array_equal(batch.actions, actions.swapaxes(0, 1)[i % 2 :: 2])
        np.testing.assert_allclose(batch.policies, policies.swapaxes(0, 1)[i % 2 :: 2], atol=1e-6)
        np.testing.assert_array_equal(batch.labels, labels.swapaxes(0, 1)[i % 2 :: 2])


def test_fixed_data_are_drawn_once(trained_on):
    """The n trajectories of the paper's Eq. (1), with their labels: batch * play_ahead of them."""
    small = {"tokens": "round", "layers": 1, "width": 8, "hidden": 8, "held_out": 2}
    config = PAPER(
        rounds=5, batch=2, steps=6, play_ahead=2, **small, stop_on="gap", fixed_data=True
    )
    eq.incontext.pretrain(MATRIX, config, key=7)
    jax.effects_barrier()
    first, *later = trained_on
    assert len(later) == 2
    for cycle in later:
        for before, after in zip(first, cycle, strict=True):
            np.testing.assert_array_equal(before, after)
    data = eq.incontext.dataset(MATRIX, config, games=12, key=7)
    np.testing.assert_array_equal(data[5].actions, first[1].swapaxes(0, 1)[1::2])
    with pytest.raises(ValueError, match=r"fixed_data: expected False .* unless contexts"):
        eq.incontext.Config(fixed_data=True)


def test_exploration_is_a_constant_share_of_each_game_as_in_training():
    sizes = {"layers": 1, "width": 16, "hidden": 16}
    config = eq.incontext.Config(rounds=64, batch=4, play_ahead=1, **sizes)
    players = random_players(actions=3)
    sure = eqx.tree_at(lambda p: p.models.readout, players, 1e4 * players.models.readout)
    family = eq.games.families.uniform(3)
    batch = eq.incontext.dataset(family, config, games=4, key=0, players=sure)[0]
    # The least likely action of players who are sure of another has nothing but its share.
    shares = np.median(3 * batch.policies.min(-1), 1)
    assert 0.0 < shares.min() < shares.max() < 0.2
    np.testing.assert_allclose(shares[:, :16].mean(1), shares[:, 48:].mean(1), rtol=1e-3)
    assert np.ptp(shares[:, -1]) > 0.05


def test_contexts_know_the_learners_that_play_knows():
    for family, kind in ((MATRIX, "matrix"), (MARKOV, "markov")):
        known = {name for name, named in LEARNERS.items() if getattr(named, kind) is not None}
        names = sorted(known - {"best-responder"})
        tables = _contexts.as_tables(family.sample(len(names), key=0))
        words = np.ones((2, len(names)), np.uint32)
        context = jax.eval_shape(
            lambda b, w, n=tuple(names): _contexts.learners_play(b, n, w, rounds=3), tables, words
        )
        assert context.actions.shape == (2, len(names), 3)
        with pytest.raises(ValueError, match=r"learners: expected .*'best-responder'"):
            _contexts.training_learner("best-responder", family.states, 3)


def test_players_play_contexts_of_their_own():
    config = eq.incontext.Config(
        rounds=6, batch=4, layers=1, width=8, hidden=8, contexts="mixed", learners=("omd",)
    )
    family = eq.games.families.uniform(actions=2)
    players = eq.incontext.initial_players(family, config, key=0)
    batch = eq.incontext.dataset(family, config, games=4, key=0, players=players)[0]
    np.testing.assert_allclose(batch.policies[2:], 0.5)  # untrained players play uniformly
    assert np.abs(batch.policies[:2, :, -1] - 0.5).max() > 0.01
    with pytest.raises(ValueError, match=r"players: expected Players \(contexts are 'mixed'\)"):
        eq.incontext.dataset(family, config, games=4, key=0)


def test_exports_hold_everything(matrix, markov, tmp_path):
    matrix.export(tmp_path / "data.npz")
    arrays = read_npz(tmp_path / "data.npz")
    assert arrays["payoff"].shape == (20, 2, 3)
    np.testing.assert_array_equal(arrays["labels"][16:], matrix[2].labels)
    with pytest.raises(ValueError, match=r"path: expected a name that ends in \.npz or \.parquet"):
        matrix.export(tmp_path / "data.csv")
    parquet = peer("pyarrow.parquet")
    markov.export(tmp_path / "data.parquet")
    table = parquet.read_table(tmp_path / "data.parquet").to_pydict()
    assert len(table["round"]) == 8 * 2 * 12
    row = 12 + 4  # the first game, the column player, round 5
    batch = markov[0]
    assert (table["player"][row], table["round"][row]) == (1, 5)
    assert table["reward"][row] == batch.rewards[0, 1, 4]
    here = batch.states[0, 4]
    assert (table["state"][row], table["next_state"][row]) == (here, batch.states[0, 5])
    assert table["label_1"][row] == batch.labels[0, 1, 4, here, 1]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"learners": ("exp3",)}, "learners: expected for matrix games one of"),
        ({"games": 0}, "games: expected"),
    ],
)
def test_what_cannot_be_made_is_refused(changes, complaint):
    config = PAPER(rounds=2, learners=changes.get("learners", ("omd",)))
    with pytest.raises(ValueError, match=complaint):
        eq.incontext.dataset.__wrapped__(MATRIX, config, games=changes.get("games", 4), key=0)
