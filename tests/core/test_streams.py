"""The stream of every game: uniform, and independent of its neighbours in every direction."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from equipoise.core import streams

GAMES, ROUNDS = 512, 512


@pytest.fixture(scope="module")
def numbers() -> np.ndarray:
    """(rounds, purposes, games)"""
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(3), i))(jnp.arange(GAMES))
    words = jnp.asarray(streams.game_words(keys))
    draw = jax.jit(lambda t: jnp.stack([streams.uniform(words, t, p) for p in range(4)]))
    return np.stack([np.asarray(draw(jnp.int32(t))) for t in range(1, ROUNDS + 1)]).astype(float)


def test_numbers_are_uniform(numbers):
    counts, _ = np.histogram(numbers, bins=1024, range=(0, 1))
    assert stats.chisquare(counts).pvalue > 1e-4
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0


def test_every_game_alone_is_uniform(numbers):
    """Means over the rounds of each game behave as means of independent uniforms."""
    z = (numbers.mean((0, 1)) - 0.5) * np.sqrt(12 * ROUNDS * 4)
    assert stats.kstest(z, "norm").pvalue > 1e-4


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["rounds", "purposes", "games"])
@pytest.mark.parametrize("lag", [1, 2, 3])
def test_neighbours_are_independent(numbers, axis, lag):
    """Pairs fall uniformly into the cells of a square, along every axis."""
    first = np.moveaxis(numbers, axis, 0)[:-lag].ravel()
    second = np.moveaxis(numbers, axis, 0)[lag:].ravel()
    counts, _, _ = np.histogram2d(first, second, bins=32, range=[(0, 1), (0, 1)])
    assert stats.chisquare(counts.ravel()).pvalue > 1e-4


def test_low_bits_are_as_good_as_high_ones(numbers):
    low = np.mod(numbers * 2.0**24, 256).astype(int)
    counts = np.bincount(low.ravel(), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_every_bit_of_a_key_flips_half_of_the_word():
    """Avalanche: a changed bit of the key, or the next round, changes each bit half the time."""
    rng = np.random.default_rng(0)
    keys = jnp.asarray(rng.integers(0, 2**32, (2, 4096), dtype=np.uint32))
    before = np.asarray(streams.words(keys, 5, 0))
    for word in range(2):
        for bit in range(32):
            after = streams.words(keys.at[word].set(keys[word] ^ jnp.uint32(1 << bit)), 5, 0)
            flips = np.unpackbits((before ^ np.asarray(after))[:, None].view(np.uint8), axis=1)
            assert np.abs(flips.mean(0) - 0.5).max() < 0.06


def test_a_number_depends_on_its_own_game_alone():
    keys = jnp.asarray(np.random.default_rng(0).integers(0, 2**32, (2, 8), dtype=np.uint32))
    whole = streams.words(keys, 9, 1)
    assert streams.words(keys[:, 3:4], 9, 1).tolist() == [int(whole[3])]


def test_mixing_is_a_bijection():
    words = np.random.default_rng(1).integers(0, 2**32, 100_000, dtype=np.uint32)
    words = np.unique(words)
    assert len(np.unique(np.asarray(streams.mix(jnp.asarray(words))))) == len(words)


def test_normal_numbers_are_finite_and_symmetric_at_both_ends(monkeypatch):
    """The uniform of the largest word plus half a step would round to 1 in float32."""
    ends = jnp.array([0, 2**32 - 1, 2**31 - 1, 2**31], jnp.uint32)
    monkeypatch.setattr(streams, "words", lambda *_: ends)
    found = np.asarray(streams.normal(jnp.zeros((2, 4), jnp.uint32), 1, streams.REWARD))
    np.testing.assert_allclose(found, stats.norm.ppf((np.asarray(ends >> 8) + 0.5) / 2**24), 1e-4)
    np.testing.assert_array_equal(found[::2], -found[1::2])
