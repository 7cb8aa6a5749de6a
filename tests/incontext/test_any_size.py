"""Players of any size: what they do depends neither on names of actions nor on units of rewards."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.core.streams import game_words
from equipoise.dynamics import Bandit, JointBandit, Spec
from equipoise.dynamics.loop import seat
from equipoise.games import families
from equipoise.incontext import _contexts
from equipoise.incontext._adaptive import AdaptiveTokens
from equipoise.incontext._players import pick
from equipoise.incontext._step import draw_variety, play_varied, run_cycle
from equipoise.incontext._train import prepare

SIZES = {"tokens": "adaptive", "rounds": 6, "layers": 1, "width": 16, "hidden": 16, "heads": 2}


def small_family(actions):
    """Games of many sizes, of two kinds: each takes its time to compile."""
    return families.mixture(actions, kinds=("uniform", "binary"), fewest=2)


def any_players(key=0):
    """Players with random weights all the way to the policy."""
    family = small_family(6)
    players = eq.incontext.initial_players(family, eq.incontext.Config(**SIZES), key=key)
    readout = jax.random.normal(jax.random.key(key + 1), players.models.readout.shape)
    return eqx.tree_at(lambda p: p.models.readout, players, readout)


def a_history(actions, rounds=12, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, actions, rounds), rng.uniform(size=rounds), rng.integers(0, 5, rounds)


def policies_after(player, actions, history, watching):
    """The policies before every round and after the last, told this history."""
    state = player.init(Spec(actions, rounds=len(history[0])))
    found = [player.policy(state)]
    for t, (action, reward, other) in enumerate(zip(*history, strict=True), 1):
        told = (jnp.int32(t), jnp.int32(action), jnp.float32(reward))
        seen = JointBandit(*told, jnp.int32(other)) if watching else Bandit(*told)
        state = player.update(state, seen)
        found.append(player.policy(state))
    return np.stack(found)


@pytest.fixture(scope="module")
def player():
    row, _ = any_players().learners()
    return row


@pytest.fixture(scope="module")
def before(player):
    return policies_after(player, 4, a_history(4), False)


class TestInvariance:
    def test_policies_depend_on_the_history(self, before):
        assert before.shape == (13, 4)
        assert np.allclose(before.sum(1), 1.0, atol=1e-5)
        assert np.abs(before[-1] - before[5]).max() > 0.01

    @pytest.mark.parametrize("order", [[1, 0, 2, 3], [3, 2, 0, 1]])
    def test_renaming_actions_renames_the_policy(self, player, before, order):
        actions, rewards, others = a_history(4)
        renamed = policies_after(player, 4, (np.argsort(order)[actions], rewards, others), False)
        np.testing.assert_allclose(renamed, before[:, order], atol=2e-5)

    @pytest.mark.parametrize(("scale", "shift"), [(100.0, -30.0), (0.01, 5.0)])
    def test_the_unit_of_rewards_does_not_matter(self, player, before, scale, shift):
        actions, rewards, others = a_history(4)
        other_unit = (actions, scale * rewards + shift, others)
        found = policies_after(player, 4, other_unit, False)
        np.testing.assert_allclose(found, before, atol=2e-3)  # what float32 loses of 5.00 + .01 r

    def test_actions_never_played_are_alike(self, before):
        played = a_history(4)[0]
        for t in range(1, 4):
            new = [a for a in range(4) if a not in played[:t]]
            assert np.ptp(before[t][new]) == 0.0

    def test_whoever_watches_sees_the_opponent(self):
        row, _ = any_players().learners(watching=True)
        assert row.sees is JointBandit
        actions, rewards, others = a_history(3)
        one, two = (
            policies_after(row, 3, (actions, rewards, seen), True) for seen in (others, others * 0)
        )
        assert np.abs(one - two).max() > 1e-3


def test_different_rewards_of_an_action_are_told_apart():
    tokens = AdaptiveTokens(actions=3)
    book, held = tokens.begin(2), jnp.full(2, 0.5)
    rewards = [0.25, 0.75, 0.25, 0.25, 1.0, 0.5, 0.125, 0.0, 0.375, 0.375]
    for t, reward in enumerate(rewards, 1):
        _, book = tokens.note(book, t, jnp.int32(1), reward, held, None)
    np.testing.assert_array_equal(book.tally[1], [3, 1, 1, 1, 1, 1])  # 0.375 came too late
    np.testing.assert_array_equal(book.outcomes[1] + book.first, [0.25, 0.75, 1, 0.5, 0.125, 0])
    assert not book.tally[0].any()


def test_histories_are_written_as_they_were_played():
    """Whole, one round at a time, and on a canvas of more actions: the same tokens."""
    tokens, count = AdaptiveTokens(6), 3
    actions, rewards, others = a_history(count, rounds=20)
    held = np.random.default_rng(1).dirichlet(np.ones(count), 20).astype(np.float32)
    args = (jnp.asarray(actions), jnp.asarray(rewards, jnp.float32))
    whole, slots, seen = tokens.history(
        *args, jnp.asarray(held), jnp.asarray(others), jnp.int32(count), True
    )
    wide = jnp.pad(jnp.asarray(held), ((0, 0), (0, 3)))
    padded, *_ = tokens.history(*args, wide, jnp.asarray(others), jnp.int32(count), True)
    np.testing.assert_array_equal(padded, whole)
    book = eqx.tree_at(lambda b: b.shown, tokens.begin(count), jnp.asarray(True))
    written = [tokens.opening(None, book)]
    for t in range(20):
        told = (jnp.int32(actions[t]), jnp.float32(rewards[t]), jnp.asarray(held[t]))
        token, book = tokens.note(book, jnp.int32(t + 1), *told, jnp.int32(others[t]))
        written.append(token)
        assert ((book.times > 0) == seen[t + 1]).all()
    np.testing.assert_allclose(np.concatenate(written), whole, atol=1e-6)
    np.testing.assert_array_equal(book.slots, slots)


@pytest.fixture(scope="module")
def varied():
    """Games of many sizes, played as in training."""
    players, config = any_players(), eq.incontext.Config(**SIZES, noise=("exact", "gaussian"))
    family, keys = small_family(6), jax.random.split(jax.random.key(3), 16)
    tables = _contexts.as_tables(jax.vmap(family.draw)(keys))
    variety = draw_variety(family, config, keys)
    who = players.seated(
        jax.tree.map(lambda a: a[0], players.models), jnp.full(16, 0.5), fading=False, watching=True
    )
    words = game_words(jax.random.split(jax.random.key(4), 16))
    found = eqx.filter_jit(play_varied)(tables, seat(*who), words, 6, variety)
    return players, tables, variety, found


class TestTrainingPlay:
    def test_nobody_plays_actions_that_do_not_count(self, varied):
        _, _, variety, found = varied
        for actions, counts in zip(found.events.actions, variety.counts, strict=True):
            assert (np.asarray(actions) < np.asarray(counts)).all()
        assert len(np.unique(variety.counts)) > 2

    def test_training_reads_the_policies_that_were_held(self, varied):
        players, _, variety, found = varied
        shown = jnp.broadcast_to(variety.shown, variety.counts.shape)
        context = _contexts.Context.of(found, variety.counts, shown)
        context = _contexts.note_down(players.tokens, context)
        models = jax.tree.map(lambda a: a[0], players.models)
        x, y = _contexts.policies_after(players, models, context)
        np.testing.assert_allclose(np.stack([x, y])[:, :, :-1], context.held, atol=2e-5)

    def test_relative_losses_are_logarithms_of_mean_gaps(self, varied):
        """One mean gap for each round and group: a kind of noise, small or large games."""
        players, tables, variety, found = varied
        shown = jnp.broadcast_to(variety.shown, variety.counts.shape)
        groups = np.asarray(variety.groups)
        assert len(np.unique(groups)) > 2
        context = _contexts.Context.of(found, variety.counts, shown, variety.groups)
        context = _contexts.note_down(players.tokens, context)
        models = jax.tree.map(lambda a: a[0], players.models)
        gaps = np.asarray(
            _contexts.gaps(tables, *_contexts.policies_after(players, models, context))
        )
        means = [np.log(gaps[groups == g].mean(0) + 0.01).mean() for g in groups]
        loss = float(_contexts.gap_loss(players, models, tables, context))
        assert loss == pytest.approx(np.mean(means), abs=1e-4)

    def test_dominated_actions_change_no_gap(self, varied):
        _, tables, variety, found = varied
        x, y = (np.moveaxis(np.asarray(p), -1, 0) for p in found.policies)
        gaps = _contexts.gaps(tables, jnp.asarray(x)[:, None], jnp.asarray(y)[:, None])[:, 0]
        rows, columns = np.asarray(variety.counts)
        for i in range(4):
            game = eq.MatrixGame(np.asarray(tables.reward)[: rows[i], : columns[i], i])
            policy = [x[i][: rows[i]].astype(float), y[i][: columns[i]].astype(float)]
            policy = [p / p.sum() for p in policy]
            assert float(eq.certify(game, policy).nash_conv) == pytest.approx(
                float(gaps[i]), abs=1e-5
            )


def test_one_pair_plays_games_of_unequal_sizes():
    games = families.uniform((2, 5)).sample(4, key=1)
    trace = eq.play(games, any_players(), rounds=6, key=2)
    assert [p.shape for p in trace.last] == [(4, 2), (4, 5)]
    with pytest.raises(ValueError, match="games: expected matrix games with 2 to 6 actions"):
        eq.play(families.uniform(7).sample(4, key=1), any_players(), rounds=6, key=2)


class TestOnline:
    def test_no_range_of_rewards_is_needed(self):
        rng, units = np.random.default_rng(0), ((1.0, 0.0), (256.0, -1e4))
        onlines = [eq.Online(any_players(), actions=4, key=1) for _ in units]
        for reward in rng.integers(0, 8, 10):
            asked = {online.ask() for online in onlines}
            assert len(asked) == 1
            for online, (scale, shift) in zip(onlines, units, strict=True):
                online.tell(scale * reward + shift)
        np.testing.assert_allclose(onlines[0].policy, onlines[1].policy, atol=1e-5)

    def test_whoever_watches_is_told_the_other_action(self, tmp_path):
        row, _ = any_players().learners(watching=True)
        online = eq.Online(row, actions=3, key=1)
        online.ask()
        with pytest.raises(ValueError, match="other: expected the opponent's action"):
            online.tell(0.5)
        with pytest.raises(ValueError, match=r"other: expected a number in \[0, 5\], found 9"):
            online.tell(0.5, other=9)
        online.tell(0.5, other=1)
        online.save(tmp_path / "online.npz")
        again = eq.Online.load(tmp_path / "online.npz", row)
        assert again.ask() == online.ask()
        with pytest.raises(ValueError, match="actions: expected the number of actions"):
            eq.Online(any_players())


class TestFamily:
    def test_every_kind_of_game_has_rewards_between_zero_and_one(self):
        games = families.mixture((4, 3)).sample(300, key=0)
        payoff = np.asarray(games.payoff)
        assert payoff.min() >= 0.0
        assert payoff.max() <= 1.0
        with pytest.raises(ValueError, match="kinds: expected some of"):
            families.mixture(3, kinds="chess")

    def test_cyclic_games_are_rock_paper_scissors(self):
        games = families.mixture(3, kinds="cyclic").sample(200, key=0)
        assert eq.solve(games).policy[0].std(-1).mean() < 0.1  # near uniform, which is no accident
        uniform = families.uniform(3).sample(200, key=0)
        assert eq.solve(uniform).policy[0].std(-1).mean() > 0.3


def test_each_game_is_learned_from_so_many_times():
    family, sizes = small_family(3), SIZES | {"rounds": 4}
    more = {"batch": 2, "play_ahead": 2, "held_out": 4, "warmup": 0, "relative": True}
    config = eq.incontext.Config(**sizes, **more, steps=5, reuse=2)
    assert (config.cycle, config.total_steps) == (4, 8)
    trainer, _ = prepare(family, config, jax.random.key(0))
    _, metrics = run_cycle(trainer, trainer.start(), jax.random.key(1))
    (losses,) = np.asarray(metrics["loss"])
    assert losses.shape == (4,)
    # The same games again, with other weights.
    assert np.abs(losses[2:] - losses[:2]).max() < 0.1
    assert (losses[2:] != losses[:2]).all()


def test_games_played_in_tiles_are_the_same_games(monkeypatch):
    """On a CPU, training plays a few games at a time; the last tile is filled up."""
    from equipoise.incontext import _step

    config = eq.incontext.Config(**SIZES, batch=5, play_ahead=2, held_out=7)
    trainer, held = prepare(families.mixture(3, kinds="uniform"), config, jax.random.key(0))
    readout = jax.random.normal(jax.random.key(2), trainer.players.models.readout.shape)
    trainer = eqx.tree_at(lambda t: t.players.models.readout, trainer, readout)
    models = pick(trainer.players.models, 0)
    unseen = (held.games.tables, held.words, 6, held.games.variety)
    found = []
    for games in (3, 64):
        monkeypatch.setattr(_step, "CPU_GAMES", games)
        data = eqx.filter_jit(lambda: trainer.data(models, jax.random.key(1))[1])
        gaps = eqx.filter_jit(lambda: _step.held_out_gaps.__wrapped__(trainer.players, *unseen))
        found.append((data(), gaps()))
    assert found[0][1].shape == (1, 7)
    assert np.ptp(found[0][0].policies) > 0.5  # they are not all uniform
    for one, other in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_stages_are_part_of_the_run(tmp_path, monkeypatch):
    family = small_family(3)
    config = eq.incontext.Config(
        **SIZES | {"rounds": 4}, steps=4, batch=2, play_ahead=2, warmup=0, held_out=4,
        noise=("exact", "bernoulli"), watched=0.5, evaluate_every=4,
        stages=("rounds=6 steps=2 batch=4 largest=2 noise=gaussian",),
    )  # fmt: skip
    assert config.total_steps == 6
    whole = eq.incontext.pretrain(family, config, key=0, run=tmp_path / "whole")
    from equipoise.incontext import _train

    calls, cycle = [], _train.run_cycle

    def stopping(trainer, learned, key):
        calls.append((trainer.config.rounds, trainer.config.batch))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return cycle(trainer, learned, key)

    monkeypatch.setattr(_train, "run_cycle", stopping)
    with pytest.raises(KeyboardInterrupt):
        eq.incontext.pretrain(family, config, key=0, run=tmp_path / "cut")
    again = eq.incontext.pretrain(family, config, key=0, run=tmp_path / "cut")
    assert (6, 4) in calls
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)
    described = eq.incontext.description(tmp_path / "whole")
    assert eq.incontext.Config.from_plain(described["config"]) == config
    assert eq.incontext.family_of(tmp_path / "whole").rewards.fewest == 2
    assert eq.incontext.load(tmp_path / "whole").any_size


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stages": ("width=3",)}, "stages: expected settings such as rounds=512"),
        ({"stages": ("rounds=many",)}, "stages: expected a number for rounds"),
        ({"noise": ("pink",)}, "noise: expected some of"),
        ({"watched": 0.5}, "watched: expected 0.0"),
        ({"tokens": "adaptive", "contexts": "learners"}, "tokens: expected contexts 'on-policy'"),
    ],
)
def test_what_cannot_be_trained_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        eq.incontext.Config(**changes)
