"""The travel time of Assumption 4.2, against chains by hand and against all policies."""

from itertools import product

import numpy as np
import pytest

import equipoise as eq
from equipoise.incontext import theory

UNIFORM = eq.games.families.uniform


def chain(*rows):
    """A game whose players have one action each, and whose states form this chain."""
    moves = np.array(rows, float)[:, None, None]
    states = len(moves)
    return eq.MarkovGame(np.zeros((states, 1, 1)), moves, discount=0.9)


def test_a_state_that_is_left_with_probability_p_takes_one_over_p_steps():
    times = theory.hitting_times(chain([0.75, 0.25], [0.1, 0.9]))
    assert times == pytest.approx(np.array([[0.0, 4.0], [10.0, 0.0]]))


def test_a_walk_on_a_line_takes_the_square_of_its_length():
    """From one reflecting end of 0..n to the other: n^2 steps; between neighbours 2k + 1."""
    n = 6
    moves = np.zeros((n + 1, n + 1))
    for k in range(1, n):
        moves[k, k - 1] = moves[k, k + 1] = 0.5
    moves[0, 1] = moves[n, n - 1] = 1.0
    times = theory.hitting_times(chain(*moves))
    assert times[0, n] == pytest.approx(n**2)
    assert times[np.arange(n), np.arange(1, n + 1)] == pytest.approx(2 * np.arange(n) + 1)
    assert theory.travel_time(chain(*moves)) == pytest.approx(n**2)


def test_tiny_probabilities_are_not_lost():
    """`1 - 1e-18` is 1 in float64, and still the state is left."""
    times = theory.hitting_times(chain([1.0, 1e-18], [1.0, 0.0]))
    assert times[0, 1] == pytest.approx(1e18)


def test_a_state_that_may_never_be_reached_is_infinitely_far():
    """From 0 the walk ends in 1 or 2 and stays there; from 1 nothing else is ever reached."""
    times = theory.hitting_times(chain([0, 0.5, 0.5], [0, 1, 0], [0, 0, 1]))
    assert (times == np.where(np.eye(3), 0.0, np.inf)).all()
    assert theory.travel_time(chain([0.5, 0.5], [0, 1])) == np.inf


def test_an_action_that_stays_makes_the_worst_time_infinite_but_not_the_uniform_one():
    moves = np.zeros((2, 2, 1, 2))
    moves[0, 0, 0], moves[0, 1, 0], moves[1, :, 0] = [1, 0], [0, 1], [1, 0]
    game = eq.MarkovGame(np.zeros((2, 2, 1)), moves, discount=0.9)
    assert theory.hitting_times(game).tolist() == [[0.0, np.inf], [1.0, 0.0]]
    assert theory.hitting_times(game, play="uniform").tolist() == [[0.0, 2.0], [1.0, 0.0]]


@pytest.mark.parametrize("key", range(4))
def test_no_pair_of_stationary_policies_takes_longer(key):
    """All pairs of pure policies, of which some attain the travel time, and some mixed ones."""
    game = UNIFORM(2, states=3, concentration=0.5).sample(1, key=key)[0]
    moves, rng = np.asarray(game.transition), np.random.default_rng(key)
    found = theory.hitting_times(game)

    def of(row, column):
        joint = np.einsum("sa,sb,sabt->st", row, column, moves)
        return theory.hitting_times(chain(*joint / joint.sum(1, keepdims=True)))

    pure = [np.eye(2)[list(choice)] for choice in product(range(2), repeat=3)]
    largest = np.max([of(row, column) for row, column in product(pure, pure)], axis=0)
    assert found == pytest.approx(largest, rel=1e-9)
    assert theory.travel_time(game) == pytest.approx(largest.max(), rel=1e-9)
    for _ in range(20):
        row, column = rng.dirichlet(np.ones(2), (2, 3))
        assert (of(row, column) <= found * (1 + 1e-9)).all()


def test_every_game_of_a_batch_has_its_own():
    games = UNIFORM(3, states=2).sample(3, key=0)
    times = theory.travel_time(games)
    assert times.shape == (3,)
    assert times.tolist() == [theory.travel_time(games[k]) for k in range(3)]


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="game: expected a MarkovGame"):
        theory.travel_time(np.eye(2))
    with pytest.raises(ValueError, match="play: expected one of"):
        theory.travel_time(chain([0.5, 0.5], [0.5, 0.5]), play="best")
