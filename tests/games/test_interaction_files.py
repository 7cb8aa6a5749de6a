"""Games of interaction terms in `.npz` files."""

import jax
import numpy as np
import pytest

from equipoise.games import Interactions, families, read, write


@pytest.mark.parametrize(
    "family",
    [
        families.polymatrix(4, 3, 2, scale=0.5),
        families.interaction_rank(3, 4, 2),
        families.polymatrix(agents=3, actions=2, contexts=2, states=2, horizon=3),
    ],
)
def test_what_is_written_is_read_back_exactly(tmp_path, family):
    game = family.sample(key=0)
    write(game, tmp_path / "game.npz")
    back = read(tmp_path / "game.npz")
    ours, theirs = (jax.tree.flatten(g) for g in (game, back))
    assert ours[1] == theirs[1]  # actions, noise and all that is no array
    for mine, other in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_array_equal(mine, other)


SCOPE, MATCH = np.array([[0, 1], [1, 0]]), np.broadcast_to(np.eye(2), (1, 2, 2, 2))


def test_a_file_made_by_hand(tmp_path):
    np.savez(tmp_path / "mine.npz", agents=2, scopes_2=SCOPE, tables_2=MATCH)
    game = read(tmp_path / "mine.npz")
    assert (game.agents, game.actions, game.contexts, game.noise) == (2, (2, 2), 1, 0.0)
    assert isinstance(game.interactions, Interactions)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "mine.npz: tables: expected the same orders as scopes, at least one"),
        ({"scopes_2": SCOPE}, r"mine.npz: tables: expected the same orders as scopes"),
        ({"scopes_2": SCOPE, "tables_2": np.eye(2)}, r"mine.npz: tables\[2\]: expected shape"),
        ({"scopes_2": SCOPE, "tables_2": MATCH, "initial": [1.0]}, "transitions and initial"),
        ({"scopes_2": SCOPE, "tables_2": MATCH, "noise": [1.0]}, "noise: expected one number"),
        ({"scopes_2": SCOPE, "tables_2": MATCH, "more": 1}, "mine.npz: expected arrays named"),
    ],
)
def test_files_that_hold_something_else(tmp_path, arrays, message):
    np.savez(tmp_path / "mine.npz", agents=2, **arrays)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "mine.npz")


def test_other_formats_hold_no_interactions(tmp_path):
    game = families.polymatrix(3, 2).sample(key=0)
    with pytest.raises(ValueError, match=r"expected a MatrixGame or NormalFormGame for .nfg"):
        write(game, tmp_path / "game.nfg")
