"""A batch iterates over its games; a single game is not something to iterate over."""

import numpy as np
import pytest

import equipoise as eq

PAYOFFS = np.random.default_rng(0).normal(size=(3, 2, 2, 2))


def matrix_games(payoffs):
    return eq.MatrixGame(payoffs)


def markov_games(rewards):
    return eq.MarkovGame(rewards, np.full((*rewards.shape, 2), 0.5), discount=0.5)


@pytest.mark.parametrize("make", [matrix_games, markov_games])
def test_a_batch_iterates_over_its_games(make):
    batch = make(PAYOFFS)
    games = list(batch)
    assert len(games) == len(batch)
    for k, game in enumerate(games):
        assert type(game) is type(batch)
        assert game.batch_shape == batch.batch_shape[1:]
        array = game.payoff if isinstance(game, eq.MatrixGame) else game.reward
        np.testing.assert_array_equal(array, PAYOFFS[k])
    assert sum(1 for _ in batch) == 3  # once more, from the beginning


@pytest.mark.parametrize(
    "game", [matrix_games(PAYOFFS[0, 0]), markov_games(PAYOFFS[0])], ids=["matrix", "markov"]
)
def test_a_single_game_has_neither_length_nor_games(game):
    with pytest.raises(TypeError, match="a single game has no length"):
        len(game)
    with pytest.raises(TypeError, match="a single game has no length"):
        list(game)
