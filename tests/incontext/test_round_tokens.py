"""What players write down: everything they may know, and nothing that they may not."""

import jax.numpy as jnp
import numpy as np
import pytest

from equipoise.incontext._tokens import RoundTokens, VocabularyTokens

KINDS = [
    RoundTokens(3),
    RoundTokens(3, 2),
    VocabularyTokens(3, bins=10),
    VocabularyTokens(3, 2, bins=10),
]


def write(tokens, t=1, action=1, reward=0.35, state=1, then=0):
    place = (None, None) if tokens.states is None else (jnp.int32(state), jnp.int32(then))
    return np.asarray(tokens.round(t, jnp.int32(action), reward, *place))


@pytest.mark.parametrize("tokens", KINDS, ids=str)
def test_sizes_are_what_they_say(tokens):
    first = None if tokens.states is None else jnp.int32(0)
    assert write(tokens).shape == (tokens.per_round, tokens.features)
    assert tokens.opening(first).shape[1] == tokens.features
    assert tokens.length(7) == tokens.opening(first).shape[0] + 7 * tokens.per_round


@pytest.mark.parametrize("tokens", KINDS, ids=str)
def test_every_part_of_a_round_is_written(tokens):
    base = write(tokens)
    for change in ({"action": 2}, {"reward": 0.75}, {"t": 5}):
        assert (write(tokens, **change) != base).any(), change
    if tokens.states is not None:
        assert (write(tokens, then=1) != base).any()
        opening = [np.asarray(tokens.opening(jnp.int32(s))) for s in (0, 1)]
        assert (opening[0] != opening[1]).any()


@pytest.mark.parametrize("tokens", KINDS[:2], ids=str)
def test_a_rounds_token_keeps_the_reward_exactly(tokens):
    places = tokens.actions * (tokens.states or 1)
    reward = np.float32(0.123456789)
    assert write(tokens, reward=reward)[0, 1 + places] == reward


def test_the_vocabulary_keeps_the_level_of_a_reward():
    tokens = VocabularyTokens(3, bins=10)
    words = [write(tokens, reward=r)[1, :-3].argmax() for r in (0.0, 0.05, 0.1, 0.999, 1.0)]
    assert words == [4, 4, 5, 13, 13]
    assert write(tokens)[:, :-3].sum(-1).tolist() == [1.0, 1.0]


def test_states_are_told_apart_in_the_vocabulary():
    tokens = VocabularyTokens(3, 4, bins=10)
    words = {int(write(tokens, then=s)[2, :-3].argmax()) for s in range(4)}
    assert words == {14, 15, 16, 17}


@pytest.mark.parametrize("tokens", KINDS, ids=str)
def test_tokens_are_bounded_for_thousands_of_rounds(tokens):
    late = write(tokens, t=5000)
    assert np.isfinite(late).all()
    assert np.abs(late).max() < 3.0
