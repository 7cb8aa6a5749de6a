"""Adam and Muon on the weights of transformers."""

import functools
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import equipoise as eq
from equipoise.incontext._model import random_transformer
from equipoise.incontext._optimiser import make_optimiser


def _models():
    model = random_transformer(
        jax.random.key(0), features=5, outputs=3, layers=1, heads=2, width=8, hidden=16
    )
    return jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, model)


@functools.cache
def _first_step() -> Any:
    config = eq.incontext.Config(
        steps=10, warmup=0, schedule="constant", clip=1e9, optimiser="muon"
    )
    weights = eqx.filter(_models(), eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(weights)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    noise = [jax.random.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)]
    optimiser = make_optimiser(config)
    gradient = jax.tree.unflatten(tree, noise)
    step = jax.jit(lambda g, w: optimiser.update(g, optimiser.init(w), w)[0])
    return step(gradient, weights)


def test_muon_moves_matrices_alike_in_all_directions():
    attention, mlp = _first_step().layers
    query = attention.query[0].reshape(8, 8)
    output = attention.output[0].transpose(1, 0, 2).reshape(8, 8)
    for matrix in (query, output, mlp.first[0], mlp.second[0]):
        values = np.linalg.svd(np.asarray(matrix), compute_uv=False)
        # Newton-Schulz in five steps leaves singular values between about .7 and 1.2 of one.
        assert values.max() < 2.2 * values.min()
        assert np.sqrt(np.mean(matrix**2)) == pytest.approx(0.2 * 5e-3, rel=0.3)


def test_muon_leaves_the_rest_to_adam():
    step = _first_step()
    for change in (step.embed, step.readout, step.layers[1].first_bias):
        # Adam's first step has one size everywhere; an orthogonal one has not.
        sizes = np.abs(np.asarray(change))
        np.testing.assert_allclose(sizes, sizes.max(), rtol=1e-3)
    sizes = np.abs(np.asarray(step.layers[1].first))
    assert sizes.min() < 0.5 * sizes.max()


def test_muon_trains_seeds_and_seats_on_markov_games():
    """All at once, in one program. Rectangular: one model for each seat."""
    family = eq.games.families.uniform(actions=(2, 3), states=2)
    config = eq.incontext.Config(
        rounds=4, layers=1, width=8, hidden=8, steps=4, batch=2, play_ahead=2, warmup=0, held_out=4,
        seeds=2, optimiser="muon",
    )  # fmt: skip
    players = eq.incontext.pretrain(family, config, key=0)
    assert (players.seeds, players.seats) == (2, 2)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(players.models))
    readout = np.asarray(players.models.readout)  # zero before training
    assert (np.abs(readout).max((2, 3)) > 1e-4).all()
    embed = np.asarray(players.models.embed)
    assert np.abs(embed[0] - embed[1]).max() > 0.01
    assert np.abs(embed[:, 0] - embed[:, 1]).max() > 0.01
