"""The compiled solver and gains of Markov games, against NumPy and against exact rationals."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from equipoise.core import kernels
from equipoise.core.mdp import best_response_value, policy_value

SHAPES = [(1, 1, 1), (1, 3, 2), (2, 2, 2), (5, 3, 3), (7, 2, 4), (9, 4, 3), (20, 5, 5), (33, 3, 3)]


def draw(rng: np.random.Generator, games: int, states: int, rows: int, columns: int):
    reward = rng.normal(size=(games, states, rows, columns))
    transition = rng.dirichlet(np.full(states, 0.3), reward.shape)
    return reward, transition / transition.sum(-1, keepdims=True)


def solved(reward, transition, discount: float, tolerance: float = 1e-9, max_sweeps: int = 1000):
    games, states, rows, columns = reward.shape
    x, y = np.empty((games, states, rows)), np.empty((games, states, columns))
    value, allowed = np.empty((games, states)), np.empty(games)
    counts = np.empty((games, 4), np.int64)
    kernel = kernels.load("solve_markov")
    assert kernel is not None
    left = kernel(
        reward, transition, discount, tolerance, 1e-8, 1e140, max_sweeps,
        x, y, value, allowed, counts, 0, games,
    )  # fmt: skip
    assert left == 0
    return x, y, value, counts


def gains(reward, transition, discount: float, x, y):
    games, states, rows, columns = reward.shape
    results, by_state = np.empty((3, games, 2)), np.empty((3, games, states, 2))
    kernel = kernels.load("markov_gains")
    assert kernel is not None
    left = kernel(
        reward, transition, discount, x, y, rows + columns + 198, 1e-300, 1e140,
        results, by_state, 0, games,
    )  # fmt: skip
    assert left == 0
    np.testing.assert_array_equal(results[:2], by_state[:2].max(2))
    np.testing.assert_array_equal(by_state[2, ..., 1], -by_state[2, ..., 0])
    return by_state[0], by_state[1], by_state[2, ..., 0], results[2]


def reference_gains(reward, transition, discount: float, x, y):
    """By NumPy, one player after the other."""
    row_reward = np.einsum("gsab,gsb->gsa", reward, y)
    row_next = np.einsum("gsabt,gsb->gsat", transition, y)
    column_reward = np.einsum("gsab,gsa->gsb", reward, x)
    column_next = np.einsum("gsabt,gsa->gsbt", transition, x)
    value = policy_value(
        np.einsum("gsa,gsa->gs", row_reward, x), np.einsum("gsat,gsa->gst", row_next, x), discount
    )
    best_row = best_response_value(row_reward, row_next, discount)
    best_column = -best_response_value(-column_reward, column_next, discount)
    return np.stack([best_row - value, value - best_column], -1), value


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.95])
def test_policies_cannot_be_exploited(shape, discount, rng):
    reward, transition = draw(rng, 5, *shape)
    x, y, value, counts = solved(reward, transition, discount)
    found, exact = reference_gains(reward, transition, discount, x, y)
    assert found.max() <= 1e-9
    np.testing.assert_allclose(value, exact, atol=1e-9)
    assert (counts[:, 0] >= 1).all()
    assert (counts[:, 3] == 0).all()


def test_sweeps_end_at_their_limit(rng):
    reward, transition = draw(rng, 3, 5, 3, 3)
    _, _, _, counts = solved(reward, transition, 0.9, max_sweeps=2)
    np.testing.assert_array_equal(counts[:, 0], 2)


def test_steps_of_hoffman_and_karp_help_where_newton_fails():
    """The game of van der Wal (1978) on which Newton's steps go round in circles."""
    reward = np.array([[[3.0, 6.0], [2.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]])[None]
    transition = np.zeros((1, 2, 2, 2, 2))
    transition[0, 0, :, :, 1] = 1.0
    transition[0, 0, 0, 0] = transition[0, 0, 1, 1] = [1.0, 0.0]
    transition[0, 0, 0, 1] = [1 / 3, 2 / 3]
    transition[0, 1, :, :, 1] = 1.0
    x, y, value, counts = solved(reward, transition, 0.75)
    found, exact = reference_gains(reward, transition, 0.75, x, y)
    assert found.max() <= 1e-9
    np.testing.assert_allclose(value, exact, atol=1e-9)
    assert counts[0, 2] >= 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("discount", [0.0, 0.6, 0.99])
def test_gains_agree_with_numpy_and_lie_below_their_bounds(shape, discount, rng):
    reward, transition = draw(rng, 4, *shape)
    x = rng.dirichlet(np.ones(shape[1]), (4, shape[0]))
    y = rng.dirichlet(np.full(shape[2], 0.2), (4, shape[0]))
    found, upper, value, rounding = gains(reward, transition, discount, x, y)
    expected, exact = reference_gains(reward, transition, discount, x, y)
    np.testing.assert_allclose(found, expected, atol=1e-11)
    np.testing.assert_allclose(value, exact, atol=1e-11)
    assert (upper >= found).all()
    assert (upper - found <= rounding[:, None]).all()


def exact_value(reward, transition, discount: Fraction) -> list[Fraction]:
    """Value of a chain by elimination in rational arithmetic."""
    states = len(reward)
    rows = [
        [(s == t) - discount * transition[s][t] for t in range(states)] + [reward[s]]
        for s in range(states)
    ]
    for c in range(states):
        rows[c] = [e / rows[c][c] for e in rows[c]]
        for r in range(states):
            if r != c:
                rows[r] = [e - rows[r][c] * f for e, f in zip(rows[r], rows[c], strict=True)]
    return [row[-1] for row in rows]


def exact_gains(reward, transition, discount: float, x, y) -> np.ndarray:
    """Gains in every state by trying all deterministic replies, as fractions."""
    states, rows, columns = reward.shape

    def fractions(array):
        exact = [Fraction(float(e)) for e in array]
        return [e / sum(exact) for e in exact]

    strategies = [[fractions(row) for row in policy] for policy in (x, y)]
    following = {
        (s, a, b): fractions(transition[s, a, b]) for s, a, b in np.ndindex(states, rows, columns)
    }
    gamma = Fraction(discount)

    def value(policy_x, policy_y, sign: int) -> list[Fraction]:
        earned, chain = [], []
        for s in range(states):
            weights = {
                (a, b): policy_x[s][a] * policy_y[s][b]
                for a, b in np.ndindex(rows, columns)
                if policy_x[s][a] * policy_y[s][b]
            }
            earned.append(
                sum(w * sign * Fraction(float(reward[s, a, b])) for (a, b), w in weights.items())
            )
            parts = [[w * p for p in following[s, a, b]] for (a, b), w in weights.items()]
            chain.append([sum(column) for column in zip(*parts, strict=True)])
        return exact_value(earned, chain, gamma)

    own = value(*strategies, 1)
    result = np.empty((states, 2), object)
    for player, actions in ((0, rows), (1, columns)):
        sign = 1 - 2 * player
        best = [sign * v for v in own]
        for choice in itertools.product(range(actions), repeat=states):
            reply = [[Fraction(int(a == c)) for a in range(actions)] for c in choice]
            pair = (reply, strategies[1]) if player == 0 else (strategies[0], reply)
            best = [max(b, v) for b, v in zip(best, value(*pair, sign), strict=True)]
        result[:, player] = [b - sign * v for b, v in zip(best, own, strict=True)]
    return result


@pytest.mark.parametrize("scale", [1.0, 1e100])
@pytest.mark.parametrize("discount", [0.5, 0.99])
@pytest.mark.parametrize("kind", ["random", "equilibrium", "a loud state"])
def test_bounds_hold_in_exact_arithmetic(kind, discount, scale, rng):
    reward, transition = draw(rng, 3, 3, 2, 2)
    if kind == "a loud state":  # which the quiet ones never reach
        reward[:, 2] *= 1e9
        transition[:, :2, :, :, 2] = 0.0
        transition[:, :2] /= transition[:, :2].sum(-1, keepdims=True)
    reward *= scale
    if kind == "equilibrium":
        x, y, *_ = solved(reward, transition, discount, 1e-13 * scale)
    else:
        x, y = rng.dirichlet(np.ones(2), (2, 3, 3))
    found, upper, _, _ = gains(reward, transition, discount, x, y)
    for game in range(3):
        exact = exact_gains(reward[game], transition[game], discount, x[game], y[game])
        assert (exact <= [[Fraction(float(u)) for u in row] for row in upper[game]]).all()
        slack = 1e-9 if discount == 0.99 else 1e-11
        size = np.abs(reward[game]).max((1, 2))
        size[:2] = size[:2].max() if kind == "a loud state" else size.max()
        assert (np.abs((exact - found[game]).astype(float)) <= slack * size[:, None]).all()
        assert (upper[game] - found[game] <= slack * size[:, None]).all()


@pytest.mark.parametrize("offset", [64.0, -512.0])
def test_an_offset_changes_no_gain(offset, rng):
    reward, transition = draw(rng, 3, 4, 3, 2)
    reward = np.round(reward, 3)
    reward = np.round(reward * 2**20) / 2**20  # so that the offset costs no digits
    x, y = rng.dirichlet(np.ones(3), (3, 4)), rng.dirichlet(np.ones(2), (3, 4))
    found, upper, value, _ = gains(reward, transition, 0.9, x, y)
    moved, moved_upper, moved_value, _ = gains(reward + offset, transition, 0.9, x, y)
    np.testing.assert_allclose(moved, found, atol=1e-11)
    np.testing.assert_allclose(moved_upper, upper, atol=1e-11)
    np.testing.assert_allclose(moved_value, value + offset / 0.1, rtol=1e-13)
    x, _, value, _ = solved(reward, transition, 0.9)
    moved_x, _, moved_value, _ = solved(reward + offset, transition, 0.9)
    np.testing.assert_allclose(moved_value, value + offset / 0.1, rtol=1e-12)
    np.testing.assert_allclose(moved_x, x, atol=1e-9)


@pytest.mark.parametrize("strategy", [[0.5, 0.6], [1.5, -0.5], [np.nan, 0.5]])
def test_what_are_no_probabilities_is_left_to_the_checks(strategy, rng):
    reward, transition = draw(rng, 2, 2, 2, 2)
    x, y = np.full((2, 2, 2), 0.5), np.full((2, 2, 2), 0.5)
    y[1, 1] = strategy
    results, by_state = np.empty((3, 2, 2)), np.empty((3, 2, 2, 2))
    arguments = (reward, transition, 0.5, x, y, 200, 1e-300, 1e140, results, by_state, 0, 2)
    assert kernels.load("markov_gains")(*arguments) == 1
