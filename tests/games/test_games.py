"""The kinds of games: what they accept, what they refuse and how, batches, pytrees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.games import MarkovGame, MatrixGame, NormalFormGame


def markov_arrays(batch: tuple[int, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    reward = rng.normal(size=(*batch, 3, 2, 4))
    return reward, rng.dirichlet(np.ones(3), size=reward.shape)


class TestMatrixGame:
    def test_lists_integers_and_single_floats_become_float64(self):
        for payoff in ([[1, 2]], np.array([[1, 2]]), np.float32([[1, 2]]), [[True, False]]):
            assert MatrixGame(payoff).payoff.dtype == np.float64

    def test_the_callers_array_is_not_shared(self):
        payoff = np.zeros((2, 2))
        game = MatrixGame(payoff)
        payoff[0, 0] = 7.0
        assert game.payoff[0, 0] == 0.0

    def test_jax_arrays_become_numpy_arrays(self):
        payoff = MatrixGame(jnp.ones((2, 3), int)).payoff
        assert isinstance(payoff, np.ndarray)
        assert payoff.dtype == np.float64

    def test_shape(self):
        game = MatrixGame(np.zeros((5, 7, 2, 3)))
        assert game.actions == (2, 3)
        assert game.batch_shape == (5, 7)
        assert game.players == 2
        assert len(game) == 5

    @pytest.mark.parametrize(
        ("payoff", "message"),
        [
            ([1.0, 2.0], r"payoff: expected at least 2 axes, \(\.\.\., rows, columns\); .* \(2,\)"),
            ([[1.0], [2.0, 3.0]], "payoff: expected a rectangular array"),
            (np.zeros((2, 0)), r"payoff: expected no empty axis .* found \(2, 0\)"),
            (
                [[1.0, 2.0], [np.nan, 4.0]],
                r"payoff: expected finite numbers, found nan at \[1, 0\]",
            ),
            (np.full((3, 1, 1), np.inf), r"payoff: expected finite .*, found inf at \[0, 0, 0\]"),
            ([["a", "b"]], "payoff: expected real numbers, found dtype <U1"),
            ([[1j]], "payoff: expected real numbers, found dtype complex128"),
        ],
    )
    def test_refusals_name_the_argument_and_the_place(self, payoff, message):
        with pytest.raises(ValueError, match=message):
            MatrixGame(payoff)

    def test_indexing_a_batch(self):
        payoff = np.arange(24.0).reshape(4, 2, 3)
        games = MatrixGame(payoff)
        np.testing.assert_array_equal(games[1].payoff, payoff[1])
        np.testing.assert_array_equal(games[-1].payoff, payoff[3])
        np.testing.assert_array_equal(games[1:3].payoff, payoff[1:3])
        np.testing.assert_array_equal(games[[0, 3]].payoff, payoff[[0, 3]])
        np.testing.assert_array_equal(games[payoff[:, 0, 0] > 6].payoff, payoff[2:])
        two = MatrixGame(payoff.reshape(2, 2, 2, 3))
        np.testing.assert_array_equal(two[1, 0].payoff, payoff[2])

    def test_an_index_never_reaches_into_a_game(self):
        with pytest.raises(IndexError, match="the game has 0 batch axes"):
            MatrixGame(np.zeros((2, 2)))[0]
        with pytest.raises(IndexError, match="the game has 1 batch axes"):
            MatrixGame(np.zeros((3, 2, 2)))[0, 1]

    def test_iterating_over_a_batch(self):
        games = MatrixGame(np.arange(12.0).reshape(3, 2, 2))
        assert [game.payoff[0, 0] for game in games] == [0, 4, 8]
        with pytest.raises(TypeError, match="a single game has no length"):
            len(games[0])


class TestMarkovGame:
    def test_shape(self):
        game = MarkovGame(*markov_arrays((6,)), 0.9)
        assert game.states == 3
        assert game.actions == (2, 4)
        assert game.batch_shape == (6,)
        assert game.players == 2
        assert len(game) == 6
        assert game.discount == 0.9

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"reward": np.zeros((2, 4))}, "reward: expected at least 3 axes"),
            ({"reward": np.zeros((4, 2, 4))}, r"transition: expected shape \(4, 2, 4, 4\)"),
            ({"transition": np.zeros((3, 2, 4))}, r"expected shape \(3, 2, 4, 3\), the shape of"),
            ({"discount": 1.0}, r"discount: expected a number in \[0.0, 1.0\), found 1.0"),
            (
                {"discount": np.nextafter(1.0, 0.0)},
                r"discount: expected at most 1 - 2\*\*-40 in a game without a horizon, "
                r"found 0.9999999999999999; with `horizon=`, a discount of up to 1 is allowed",
            ),
            ({"discount": -0.1}, "discount: expected a number in"),
            ({"discount": float("nan")}, "discount: expected a number in"),
        ],
    )
    def test_refusals_name_the_argument(self, change, message):
        reward, transition = markov_arrays()
        arguments = {"reward": reward, "transition": transition, "discount": 0.9, **change}
        with pytest.raises(ValueError, match=message):
            MarkovGame(**arguments)

    def test_refusals_name_the_place(self):
        reward, transition = markov_arrays()
        bad = reward.copy()
        bad[2, 1, 3] = np.nan
        with pytest.raises(ValueError, match=r"reward: .* found nan at \[2, 1, 3\]"):
            MarkovGame(bad, transition, 0.9)
        bad = transition.copy()
        bad[1, 0, 2] *= 2
        with pytest.raises(ValueError, match=r"transition: .* found a sum of 2 at \[1, 0, 2\]"):
            MarkovGame(reward, bad, 0.9)
        bad = transition.copy()
        bad[0, 1, 1] = [1.5, -0.5, 0.0]
        with pytest.raises(ValueError, match=r"found -0.5 at \[0, 1, 1, 1\]"):
            MarkovGame(reward, bad, 0.9)

    def test_indexing_a_batch(self):
        reward, transition = markov_arrays((2, 3))
        games = MarkovGame(reward, transition, 0.5)
        np.testing.assert_array_equal(games[1, 2].reward, reward[1, 2])
        np.testing.assert_array_equal(games[1, 2].transition, transition[1, 2])
        assert games[0].batch_shape == (3,)
        assert games[0].discount == 0.5
        with pytest.raises(IndexError, match="the game has 2 batch axes"):
            games[0, 0, 0]


class TestNormalFormGame:
    def test_shape(self):
        game = NormalFormGame(np.zeros((3, 2, 3, 4)))
        assert game.players == 3
        assert game.actions == (2, 3, 4)
        assert game.batch_shape == ()

    @pytest.mark.parametrize(
        ("payoffs", "message"),
        [
            (np.zeros((2, 3)), r"expected shape \(N, A_1, \.\.\., A_N\) .* found \(2, 3\)"),
            (np.zeros((3, 2, 2)), "one axis per player"),
            (np.zeros((2, 0, 2)), "one axis per player|no empty axis"),
            (np.zeros(3), "payoffs: expected at least 2 axes"),
            ([[[1.0]], [[np.inf]]], r"payoffs: expected finite .* found inf at \[1, 0, 0\]"),
        ],
    )
    def test_refusals_name_the_argument(self, payoffs, message):
        with pytest.raises(ValueError, match=message):
            NormalFormGame(payoffs)

    def test_zero_sum_games_become_matrix_games(self):
        row = np.arange(6.0).reshape(2, 3)
        game = NormalFormGame(np.stack([row, -row]))
        assert game.is_zero_sum()
        np.testing.assert_array_equal(game.as_matrix_game().payoff, row)

    @pytest.mark.parametrize(
        "payoffs",
        [
            np.ones((2, 2, 2)),
            np.array([[[0.1]], [[-0.1 - 1e-17 - 1e-16]]]),
            np.zeros((1, 3)),
            np.zeros((3, 1, 1, 1)),
            np.full((2, 1, 1), 1e308),  # whose sum is not a float
        ],
    )
    def test_other_games_do_not(self, payoffs):
        game = NormalFormGame(payoffs)
        assert not game.is_zero_sum()
        with pytest.raises(ValueError, match="expected a two-player zero-sum game"):
            game.as_matrix_game()


GAMES = {
    "matrix": MatrixGame(np.arange(12.0).reshape(2, 2, 3)),
    "markov": MarkovGame(*markov_arrays((2,)), 0.9),
    "normal-form": NormalFormGame(np.arange(12.0).reshape(2, 2, 3)),
}


@pytest.mark.parametrize("game", GAMES.values(), ids=GAMES)
class TestPytree:
    def test_round_trip(self, game):
        leaves, structure = jax.tree.flatten(game)
        back = jax.tree.unflatten(structure, leaves)
        assert type(back) is type(game)
        assert all(a is b for a, b in zip(jax.tree.leaves(back), leaves, strict=True))
        assert back.actions == game.actions

    def test_games_cannot_be_changed(self, game):
        with pytest.raises((AttributeError, TypeError)):
            game.discount = 0.1

    def test_games_pass_through_compiled_functions(self, game):
        double = jax.jit(lambda g: jax.tree.map(lambda x: 2 * x, g))(game)
        for ours, theirs in zip(jax.tree.leaves(double), jax.tree.leaves(game), strict=True):
            np.testing.assert_allclose(ours, 2 * theirs, rtol=1e-6)


def test_batches_can_be_mapped_over():
    games = MatrixGame(np.arange(12.0).reshape(3, 2, 2))
    totals = jax.vmap(lambda game: game.payoff.sum())(games)
    assert totals.tolist() == [6, 22, 38]


def test_games_can_be_made_inside_compiled_functions():
    @jax.jit
    def value_of_first_cell(payoff):
        return MatrixGame(payoff).payoff[0, 0]

    assert value_of_first_cell(jnp.array([[3.0, 1.0]])) == 3.0


def test_the_discount_is_part_of_the_structure():
    reward, transition = markov_arrays()
    first = jax.tree.structure(MarkovGame(reward, transition, 0.5))
    assert first == jax.tree.structure(MarkovGame(reward, transition, 0.5))
    assert first != jax.tree.structure(MarkovGame(reward, transition, 0.6))


class TestSurface:
    def test_everything_listed_is_there(self):
        for name in eq.games.__all__:
            assert getattr(eq.games, name) is not None
        assert set(eq.games.__all__) <= set(dir(eq.games))

    def test_nothing_else_is(self):
        with pytest.raises(AttributeError, match=r"'equipoise\.games' has no attribute 'solve'"):
            eq.games.solve  # noqa: B018


def test_policies_are_printed_with_their_numbers():
    assert repr(eq.Profile([[1 / 3, 2 / 3], [1.0]])) == "Profile([0.3333, 0.6667], [1.])"
    large = repr(eq.Profile([np.full((500, 4), 0.25), np.full((500, 3), 1 / 3)]))
    assert "0.3333, 0.3333, 0.3333" in large
    assert len(large) < 1000
    assert repr(eq.ContinuousPolicy([0.5])) == "ContinuousPolicy(points=[[0.5]], weights=None)"
