"""Games of one's own as a family: what is read, how it is split and scaled, and what is refused."""

import jax
import numpy as np
import pytest

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.games import MarkovGame, MatrixGame, NormalFormGame, families


def tables(count=10, low=-3, high=6, seed=0):
    return np.random.default_rng(seed).integers(low, high, size=(count, 2, 3)).astype(float)


def rows_of(games):
    return {game.tobytes() for game in np.asarray(games)}


def test_games_are_split_once_and_scaled_alike():
    games = tables()
    family = families.of(MatrixGame(games), held_out=0.3)
    low, high = family.reward_range
    assert (low, high) == (games.min(), games.max())
    seen, kept = family.sample(7, key=0).payoff, family.held_out.sample(3, key=0).payoff
    both = np.concatenate([seen, kept])
    assert rows_of(low + (high - low) * both) == rows_of(games)
    assert both.min() == 0.0
    assert both.max() == 1.0
    assert not rows_of(seen) & rows_of(kept)
    again = families.of(MatrixGame(games), held_out=0.3)
    assert rows_of(again.held_out.sample(3, key=1).payoff) == rows_of(kept)
    other = families.of(MatrixGame(games), held_out=0.3, key=1)
    assert rows_of(other.held_out.sample(3, key=1).payoff) != rows_of(kept)


def test_every_game_comes_once_before_any_comes_again():
    family = families.of(MatrixGame(tables(low=0, high=2)), held_out=0.2)
    drawn = family.sample(20, key=5).payoff
    assert family.reward_range == (0.0, 1.0)
    assert sorted(g.tobytes() for g in drawn[:8]) == sorted(g.tobytes() for g in drawn[8:16])
    np.testing.assert_array_equal(drawn[:6], family.sample(6, key=5).payoff)
    single = family.sample(key=5)
    np.testing.assert_array_equal(single.payoff, drawn[0])
    one = np.asarray(jax.jit(lambda key: family.draw(key))(jax.random.key(0)).payoff)
    assert min(abs(one - game).max() for game in drawn) < 1e-6


def test_markov_games_keep_their_transitions():
    games = families.uniform(2, states=3, discount=0.8).sample(6, key=0)
    family = families.of(games)
    assert (family.states, family.discount, family.actions) == (3, 0.8, (2, 2))
    drawn = family.sample(5, key=0)
    assert isinstance(drawn, MarkovGame)
    for reward, moves in zip(drawn.reward, drawn.transition, strict=True):
        match = [i for i in range(6) if (games.reward[i] == reward).all()]
        np.testing.assert_array_equal(games.transition[match[0]], moves)
    one = family.draw(jax.random.key(1))
    np.testing.assert_allclose(np.asarray(one.transition).sum(-1), 1.0, atol=1e-6)


def test_a_folder_and_a_list_are_the_same_family(tmp_path):
    games = tables(6)
    for i, name in enumerate(("a.csv", "b.nfg", "c.npz")):
        eq.games.write(MatrixGame(games[i]), tmp_path / name)
    eq.games.write(MatrixGame(games[3:]), tmp_path / "d.npz")
    (tmp_path / "notes.txt").write_text("not a game")
    folder = families.of(tmp_path)
    listed = families.of([MatrixGame(games[0]), tmp_path / "b.nfg", MatrixGame(games[2:])])
    batch = families.of(MatrixGame(games))
    for other in (listed, batch):
        np.testing.assert_array_equal(folder.sample(9, key=0).payoff, other.sample(9, key=0).payoff)
        assert folder.reward_range == other.reward_range


REFUSED = {
    "one game": (MatrixGame([[1, 0], [0, 1]]).payoff[None], r"at least two games.* found 1"),
    "two sizes": (
        [MatrixGame(np.eye(2)), MatrixGame(np.eye(3))],
        r"2 x 2 .* 3 x 3 .*games\[1\]",
    ),
    "a game of two tables": (
        [NormalFormGame(np.eye(2), np.eye(2))],
        r"zero-sum .* found a NormalFormGame in games\[0\]",
    ),
    "a number": (3, r"a batch of games, .* found int"),
    "nowhere": ("nowhere", r"a folder or a file with games, found nothing at nowhere"),
    "no games": ([], r"at least two games, found none"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_other_games_are_refused(case):
    games, expected = REFUSED[case]
    games = MatrixGame(games) if isinstance(games, np.ndarray) else games
    with pytest.raises(InputError, match=rf"^games: expected .*{expected}"):
        families.of(games)


def test_a_base_of_perturbed_games_can_be_scaled():
    base = MatrixGame([[0.0, 3.0], [2.0, -1.0]])
    with pytest.raises(InputError, match=r"found \[-1, 3\]; scale_rewards=True moves them into it"):
        families.perturbed(base)
    family = families.perturbed(base, 0.0, scale_rewards=True)
    assert family.reward_range == (-1.0, 3.0)
    np.testing.assert_array_equal(family.sample(key=0).payoff, (base.payoff + 1.0) / 4.0)
