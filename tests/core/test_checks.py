"""Errors name the argument, what was expected, what was found, and where."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.core import InputError, checks, kernels


def test_lists_and_integers_become_float64():
    array = checks.as_float_array("payoff", [[1, 2], [3, 4]])
    assert isinstance(array, np.ndarray)
    assert array.dtype == np.float64


def test_jax_arrays_become_numpy_arrays_and_tracers_stay():
    for array in (jnp.ones(3), jnp.ones(3, int), jnp.ones(3, jnp.bfloat16)):
        converted = checks.as_float_array("payoff", array)
        assert isinstance(converted, np.ndarray)
        assert converted.dtype == np.float64
    kept = []

    def trace(value):
        kept.append(checks.as_float_array("payoff", value) is value)
        return value

    jax.jit(trace)(jnp.ones(3))
    assert kept == [True]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([[1, 2], [3]], "rows of different lengths"),
        ([["a", "b"]], "found dtype <U1"),
        ([1 + 2j], "found dtype complex128"),
        ([None], "found dtype object"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(value, found):
    with pytest.raises(ValueError, match=f"^payoff: expected .*{found}"):
        checks.as_float_array("payoff", value)


def test_too_few_or_empty_axes_are_refused():
    checks.check_ndim("payoff", np.zeros((0, 2, 2)), 2, "(..., rows, columns)")
    with pytest.raises(ValueError, match=r"payoff: expected at least 2 axes.*found shape \(3,\)"):
        checks.check_ndim("payoff", np.zeros(3), 2, "(..., rows, columns)")
    with pytest.raises(ValueError, match=r"payoff: expected no empty axis.*found \(2, 0\)"):
        checks.check_ndim("payoff", np.zeros((2, 0)), 2, "(..., rows, columns)")


def test_another_shape_is_refused():
    checks.check_shape("policy", np.zeros((2, 3)), (2, 3), "one row per state")
    with pytest.raises(
        ValueError, match=r"policy: expected shape \(2, 3\), one row per state; found \(3, 2\)"
    ):
        checks.check_shape("policy", np.zeros((3, 2)), (2, 3), "one row per state")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_number_that_is_not_finite_is_named(bad):
    array = np.zeros((2, 3))
    checks.check_finite("reward", array)
    array[1, 0] = array[1, 2] = bad
    with pytest.raises(ValueError, match=rf"reward: .*found {bad} at \[1, 0\]"):
        checks.check_finite("reward", array)


def test_large_arrays_are_checked_entry_by_entry_where_their_sum_says_nothing():
    array = np.full((200, 300), 1e308)  # whose sum is infinite
    checks.check_finite("reward", array)
    array[3, 4], array[5, 6] = np.inf, -np.inf
    with pytest.raises(ValueError, match=r"reward: .*found inf at \[3, 4\]"):
        checks.check_finite("reward", array)
    array[:] = 0.0
    array[7, 8] = np.nan
    with pytest.raises(ValueError, match=r"reward: .*found nan at \[7, 8\]"):
        checks.check_finite("reward", array)


def test_a_large_game_has_a_copy_of_its_payoffs(monkeypatch):
    monkeypatch.setattr(kernels, "cores", lambda: 3)
    payoff = np.random.default_rng(0).random((100_003, 3, 3))
    before = payoff.copy()
    game = eq.MatrixGame(payoff)
    payoff[:] = 0.0
    np.testing.assert_array_equal(game.payoff, before)
    assert not game.payoff.flags.writeable


def test_probabilities_are_checked_row_by_row():
    rows = np.full((2, 2, 4), 0.25)
    checks.check_probabilities("transition", rows)
    short = rows.copy()
    short[1, 0, 3] = 0.0
    with pytest.raises(ValueError, match=r"sum to 1, found a sum of 0.75 at \[1, 0\]"):
        checks.check_probabilities("transition", short)
    negative = rows.copy()
    negative[0, 1, :2] = [-0.25, 0.75]
    with pytest.raises(ValueError, match=r">= 0, found -0.25 at \[0, 1, 0\]"):
        checks.check_probabilities("transition", negative)
    with pytest.raises(ValueError, match="transition: expected finite numbers, found nan"):
        checks.check_probabilities("transition", [np.nan, 1.0])


def test_rounding_in_a_sum_is_forgiven_up_to_the_tolerance():
    rounded = np.array([0.3333333, 0.3333333, 0.3333333])
    checks.check_probabilities("policy", rounded)
    with pytest.raises(ValueError, match="sum to 1"):
        checks.check_probabilities("policy", rounded, tolerance=1e-9)


def test_a_lone_bad_row_needs_no_index():
    with pytest.raises(ValueError, match=r"found a sum of 0.5$"):
        checks.check_probabilities("policy", [0.5, 0.0])


def test_values_inside_a_transformation_are_not_read():
    @jax.jit
    def inside(x):
        checks.check_finite("x", x)
        checks.check_probabilities("x", x)
        return x

    assert checks.is_traced(jnp.ones(2)) is False
    np.testing.assert_array_equal(inside(jnp.full(2, jnp.nan)), [np.nan, np.nan])


def test_intervals_say_which_ends_are_open():
    checks.check_range("discount", 0.0, 0.0, 1.0, high_open=True)
    checks.check_range("mean", 1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"discount: expected a number in \[0.0, 1.0\), found 1.0"):
        checks.check_range("discount", 1.0, 0.0, 1.0, high_open=True)
    with pytest.raises(ValueError, match=r"scale: expected a number in \(0.0, 1.0\], found 0.0"):
        checks.check_range("scale", 0.0, 0.0, 1.0, low_open=True)
    with pytest.raises(ValueError, match="found nan"):
        checks.check_range("scale", float("nan"), 0.0, 1.0)


def test_counts_are_whole_numbers():
    assert checks.check_count("games", 3.0) == 3
    assert checks.check_count("games", np.int64(2)) == 2
    assert checks.check_count("burn_in", 0, at_least=0) == 0
    for bad in [0, -1, 2.5, True, None, "3", float("nan"), float("inf")]:
        with pytest.raises(ValueError, match="games: expected a whole number >= 1"):
            checks.check_count("games", bad)


def test_probabilities_are_returned_with_sums_of_one():
    off = np.array([[0.5, 0.5 + 9e-7], [1 + 5e-7, -5e-7]])
    clean = checks.check_probabilities("policy", off)
    np.testing.assert_allclose(clean.sum(-1), 1.0, atol=1e-15)
    assert clean.min() >= 0
    exact = np.array([0.25, 0.75])
    assert checks.check_probabilities("policy", exact) is exact


def test_an_error_knows_its_argument_and_can_be_copied():
    with pytest.raises(checks.InputError) as caught:
        checks.check_count("rounds", 0)
    error = copy.copy(caught.value)
    assert (error.argument, error.expected, error.found) == ("rounds", "a whole number >= 1", "0")
    assert str(error) == "rounds: expected a whole number >= 1, found 0"
    assert error.about("--rounds") == "--rounds: expected a whole number >= 1, found 0"


def test_traced_values_are_refused_where_their_entries_are_needed():
    game = eq.games.families.polymatrix(agents=2, actions=2).sample(key=0)
    calls = {
        "discount": (lambda x: checks.check_range("discount", x, 0.0, 1.0), 0.5),
        "actions": (lambda x: eq.ContextualGame(game.interactions, actions=x).noise, 2),
        "game": (lambda x: x.to_normal_form().payoffs, game),
        "tables": (lambda x: x.interactions.rank, game),
    }
    for name, (call, argument) in calls.items():
        with pytest.raises(InputError, match=f"^{name}: expected .* a traced value; create it"):
            jax.jit(call)(argument)


def test_booleans_are_no_probabilities():
    game, policy = eq.MatrixGame(np.eye(2)), ([True, False], [0.5, 0.5])
    with pytest.raises(InputError, match=r"policy\[0\]: expected numbers, found booleans"):
        eq.certify(game, policy)
    with pytest.raises(InputError, match="found booleans"):
        eq.games.Profile(policy)


def test_a_refused_normal_form_is_described_in_a_short_line():
    game = eq.games.families.polymatrix(agents=40, actions=2).sample(key=0)
    with pytest.raises(ValueError, match=r"2 x 2 x 2 x 2 x \.\.\. profiles$"):
        game.to_normal_form()


def test_masked_entries_are_no_numbers():
    masked = np.ma.array([[1.0, 2.0]], mask=[[False, True]])
    with pytest.raises(ValueError, match=r"payoff: expected numbers, found a masked entry at"):
        checks.as_float_array("payoff", masked)
    assert checks.as_float_array("payoff", np.ma.array([1.0])).tolist() == [1.0]


def test_whole_numbers_beyond_float64_are_out_of_range():
    with pytest.raises(ValueError, match="found a whole number beyond float64"):
        checks.check_range("tolerance", 10**400, 0.0, np.inf)


def test_errors_are_one_line_of_bounded_length():
    error = InputError("payoff", "numbers >= 0", np.arange(400.0).reshape(20, 20))
    assert "\n" not in str(error)
    assert len(str(InputError("game", "arrays", ["name"] * 10_000))) < 600


def test_an_array_is_not_a_number():
    with pytest.raises(InputError, match="discount: expected a number in"):
        checks.check_range("discount", np.array([0.9]), 0.0, 1.0)
