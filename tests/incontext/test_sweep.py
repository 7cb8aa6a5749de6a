"""Several families trained in one program: each as if alone."""

import signal
from dataclasses import replace

import jax
import numpy as np
import pytest

import equipoise as eq
from equipoise.incontext import _sweep
from equipoise.incontext._attention import attend_in_chunks as attend
from equipoise.runs import Run

BASE = eq.games.families.uniform(actions=2).sample(key=0)
NEAR = [eq.games.families.perturbed(BASE, scale) for scale in (0.1, 0.3)]
TINY = eq.incontext.Config(
    rounds=4, layers=1, width=8, hidden=8, steps=4, batch=2, warmup=0, held_out=4
)


def leaves(players):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(players.models)]


def test_each_family_is_trained_as_if_alone_and_together_as_one_after_the_other():
    keys = [jax.random.fold_in(jax.random.key(0), i) for i in range(2)]
    alone = eq.incontext.sweep(NEAR, TINY, key=0)
    trainers = [_sweep._trainer(f, TINY, None, k) for f, k in zip(NEAR, keys, strict=True)]
    # No held-out value chooses among the weights of a single evaluation.
    single = eq.incontext.pretrain(trainers[1].family, TINY, key=keys[1])
    (together,) = _sweep._together([trainers], keys)
    for mine, other in zip(leaves(alone[1]), leaves(single), strict=True):
        np.testing.assert_array_equal(mine, other)
    for one, other in zip(alone, together, strict=True):
        for mine, its in zip(leaves(one), leaves(other), strict=True):
            np.testing.assert_allclose(mine, its, atol=1e-5)
    gap = max(abs(a - b).max() for a, b in zip(leaves(alone[0]), leaves(alone[1]), strict=True))
    assert gap > 1e-3  # other keys, other players


def test_sizes_side_by_side_in_one_program_are_those_of_programs_of_their_own():
    sizes = [TINY, replace(TINY, width=16, hidden=4)]
    alone = eq.incontext.sweep(NEAR, sizes, key=0)
    keys = [jax.random.fold_in(jax.random.key(0), i) for i in range(2)]
    groups = [_sweep._group(NEAR, config, None, keys) for config in sizes]
    together = _sweep._together(groups, keys)
    assert [each.models.embed.shape[-2] for some in alone for each in some] == [8, 8, 16, 16]
    for some, others in zip(alone, together, strict=True):
        for one, other in zip(some, others, strict=True):
            for mine, its in zip(leaves(one), leaves(other), strict=True):
                np.testing.assert_allclose(mine, its, atol=1e-5)
    with pytest.raises(ValueError, match=r"config: expected the same steps in all configs"):
        eq.incontext.sweep(NEAR, [TINY, replace(TINY, steps=8)], key=0)
    with pytest.raises(ValueError, match="config: expected at least one"):
        eq.incontext.sweep(NEAR, [], key=0)


@pytest.mark.parametrize("train", [_sweep._one_by_one, _sweep._together])
def test_a_sweep_that_was_interrupted_goes_on_to_the_same_weights(train, tmp_path, monkeypatch):
    config = replace(TINY, steps=6, play_ahead=2)
    keys = [jax.random.fold_in(jax.random.key(0), i) for i in range(2)]
    step, name = _sweep.step_key, "step_key"
    whole = train([_sweep._group(NEAR, config, None, keys)], keys)

    def interrupted(key, done, config):
        if done == 2:
            monkeypatch.setattr(_sweep, name, step)
            signal.raise_signal(signal.SIGINT)
        return step(key, done, config)

    monkeypatch.setattr(_sweep, name, interrupted)
    with Run.start(tmp_path / "run", {}) as run, pytest.raises(KeyboardInterrupt):
        train([_sweep._group(NEAR, config, None, keys)], keys, run)
    with Run.start(tmp_path / "run", {}) as run:
        assert run.step == 2
        resumed = train([_sweep._group(NEAR, config, None, keys)], keys, run)
    for one, other in zip(whole[0], resumed[0], strict=True):
        for mine, its in zip(leaves(one), leaves(other), strict=True):
            np.testing.assert_array_equal(mine, its)


def test_training_sets_of_several_sizes_are_repeated_to_one():
    keys = [jax.random.key(i) for i in range(2)]
    sizes = (2, 3)
    made = [_sweep._trainer(f, TINY, n, k) for f, n, k in zip(NEAR, sizes, keys, strict=True)]
    equal = _sweep._equal_sets(made)
    for trainer, size in zip(equal, sizes, strict=True):
        games = np.asarray(trainer.games.tables.reward).reshape(-1, 6).T
        _, counts = np.unique(games, axis=0, return_counts=True)
        assert counts.tolist() == [6 // size] * size


def test_families_that_cannot_share_a_program_are_refused():
    other = eq.games.families.uniform(actions=2)
    with pytest.raises(ValueError, match=r"families\[1\]: expected the shape and kind"):
        eq.incontext.sweep([NEAR[0], other], TINY, key=0)
    with pytest.raises(ValueError, match="families: expected at least one"):
        eq.incontext.sweep([], TINY, key=0)
    with pytest.raises(ValueError, match="training_games: expected one number for each"):
        eq.incontext.sweep(NEAR, TINY, key=0, training_games=[5])


@pytest.mark.parametrize(("groups", "length"), [(1, 5), (2, 130), (4, 300)])
def test_attention_in_pieces_is_attention(groups, length, key):
    q, k, v = (
        jax.random.normal(jax.random.fold_in(key, i), shape)
        for i, shape in enumerate(
            [(groups, 4 // groups, length, 8), (groups, length, 8), (groups, length, 8)]
        )
    )
    found = np.asarray(attend(q, k, v, 0.3), float)
    q, k, v = (np.asarray(a, float) for a in (q, k, v))
    score = 0.3 * np.einsum("gnik,gjk->gnij", q, k)
    score = np.where(np.tri(length, dtype=bool), score, -np.inf)
    weight = np.exp(score - score.max(-1, keepdims=True))
    weight /= weight.sum(-1, keepdims=True)
    np.testing.assert_allclose(found, np.einsum("gnij,gjk->gnik", weight, v), atol=1e-5)
