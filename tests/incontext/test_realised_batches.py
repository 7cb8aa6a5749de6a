"""Distances between players on batches of any shape, and on rewards they can read."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.incontext import theory


def test_distances_do_not_depend_on_the_shape_of_the_batch():
    games = eq.games.families.uniform(2).sample(4, key=0)
    omd, uniform = eq.dynamics.OMD(), eq.dynamics.Uniform()
    flat = theory.realisability(omd, uniform, games, rounds=3, key=1)
    square = eq.MatrixGame(np.asarray(games.payoff).reshape(2, 2, 2, 2))
    same = theory.realisability(omd, uniform, square, rounds=3, key=1)
    assert flat.total_variation.max() > 0.01
    np.testing.assert_array_equal(flat.total_variation, same.total_variation)


def test_rewards_that_players_cannot_read_are_refused():
    games, omd = eq.MatrixGame([[-1.0, 1.0], [1.0, -1.0]]), eq.dynamics.OMD()
    with pytest.raises(ValueError, match=r"games: expected rewards in \[0.0, 1.0\]"):
        theory.realisability(omd, omd, games, rounds=3, key=1)
