"""Games of continuous actions in `.npz` files."""

import jax
import numpy as np
import pytest
from games.continuous_samples import rich_game

import equipoise as eq
from equipoise.games import read, write


@pytest.mark.parametrize("states", [1, 3])
def test_what_is_written_is_read_back_exactly(rng, tmp_path, states):
    game = rich_game(rng, states=states, horizon=1 if states == 1 else 4)
    write(game, tmp_path / "game.npz")
    back = read(tmp_path / "game.npz")
    ours, theirs = (jax.tree.flatten(g) for g in (game, back))
    assert ours[1] == theirs[1]  # horizon, noise and all that is no array
    for mine, other in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_array_equal(mine, other)


def test_a_file_made_by_hand(tmp_path):
    np.savez(tmp_path / "mine.npz", own=[[0.0, 1.0], [0.0, -1.0]], pairs_1_1=np.eye(2)[::-1])
    game = read(tmp_path / "mine.npz")
    assert (game.agents, game.rank, game.horizon, game.noise) == (2, 2, 1, 0.0)
    assert game.rewards(np.array([1.0, 1.0])).tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"own": np.zeros(3)}, r"mine.npz: own: expected shape \(agents, powers\)"),
        ({"own": np.zeros((2, 1)), "pairs_1_1": np.eye(3)}, r"mine.npz: pairs\[\(1, 1\)\]: expect"),
        ({"own": np.zeros((2, 1)), "pairs_99_1": np.eye(2)}, "powers from 0 to 64"),
        ({"own": np.zeros((3, 1)), "scopes_3": [[0, 1, 2]]}, "together, found no powers_3"),
        ({"own": np.zeros((2, 1)), "noise": [1.0, 2.0]}, "noise: expected one number"),
        ({"own": np.zeros((2, 1)), "noise": -1.0}, "noise: expected a number in"),
        ({"own": np.zeros((2, 1)), "other": 1.0}, "mine.npz: expected arrays named payoff.* own"),
        ({"own": np.zeros((2, 1)), "horizon": 2.5}, "horizon: expected a whole number"),
    ],
)
def test_files_that_hold_something_else(tmp_path, arrays, message):
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "mine.npz")


def test_a_function_is_no_array(tmp_path):
    game = eq.ContinuousGame.from_function(lambda a: a, 2)
    with pytest.raises(ValueError, match="game: expected polynomial terms, because files hold"):
        write(game, tmp_path / "game.npz")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match=r"expected a MatrixGame or NormalFormGame for .nfg"):
        write(eq.games.load("square-continuous"), tmp_path / "game.nfg")
