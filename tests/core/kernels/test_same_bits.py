"""Python and machine code give the same bits: an answer does not depend on what was compiled."""

import numpy as np
import pytest

from equipoise.core import kernels

SHAPES = [(19, 3, 3), (1, 3, 3), (2, 10, 7), (9, 12, 17), (1, 20, 30)]


def assert_same(name: str, inputs: tuple, *shapes) -> None:
    """Run a kernel both ways on outputs of these shapes; a pair is a shape and a type."""
    found = []
    games = len(inputs[0])
    for kernel in (kernels.load(name), kernels.choose(name, 0.0)[0]):
        assert kernel is not None
        outputs = [np.zeros(*s) if isinstance(s[0], tuple) else np.zeros(s) for s in shapes]
        found.append((kernel(*inputs, *outputs, 0, games), outputs))
    (left, compiled), (left_too, interpreted) = found
    assert left == left_too
    for ours, theirs in zip(compiled, interpreted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch):
    """`choose` gives the kernels as Python."""
    for name in kernels._KERNELS:
        kernels.load(name)
    monkeypatch.setattr(kernels, "_loaded", {})
    monkeypatch.setattr(kernels, "_spent", {})


def payoffs(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return rng.random(shape) if kind == "uniform" else rng.integers(-2, 3, shape).astype(float)


@pytest.mark.parametrize(("games", "m", "n"), SHAPES)
@pytest.mark.parametrize("kind", ["uniform", "integers"])
def test_matrix_games(games, m, n, kind, rng):
    payoff = payoffs(kind, (games, m, n), rng)
    assert_same(
        "solve_games", (payoff, 0.0, 1e-8),
        (games, m), (games, n), (4, games), ((2, games), np.int32),
    )  # fmt: skip
    x, y = rng.dirichlet(np.ones(m), games), rng.dirichlet(np.ones(n), games)
    numbers = 1e-14, 1e-300, 1e140
    assert_same("matrix_gains", (payoff, x, y, *numbers), (4, games, 2))
    assert_same("matrix_gains", (payoff, x[:1], y[:1], *numbers), (4, games, 2))


@pytest.mark.parametrize(("games", "m", "n"), SHAPES)
@pytest.mark.parametrize("kind", ["uniform", "integers"])
def test_bimatrix_games(games, m, n, kind, rng):
    both = payoffs(kind, (games, 2, m, n), rng)
    x, y = rng.dirichlet(np.ones(m), games), rng.dirichlet(np.ones(n), games)
    assert_same("bimatrix_gains", (both, x, y, 1e-14, 1e-300, 1e140), (4, games, 2))
    start = np.zeros(games, np.int64)
    assert_same(
        "lemke_howson_loop", (both, start, 5000),
        (games, m), (games, n), ((games,), np.int64), (games, 2),
    )  # fmt: skip


@pytest.mark.parametrize(("games", "states", "actions"), [(1, 5, 3), (3, 2, 2), (1, 17, 3)])
@pytest.mark.parametrize("discount", [0.0, 0.9])
def test_markov_games(games, states, actions, discount, rng):
    reward = rng.random((games, states, actions, actions))
    transition = rng.dirichlet(np.ones(states), reward.shape)
    policies = (games, states, actions)
    assert_same(
        "solve_markov", (reward, transition, discount, 0.0, 1e-8, 1e140, 1000),
        policies, policies, (games, states), (games,), ((games, 4), np.int64),
    )  # fmt: skip
    x, y = rng.dirichlet(np.ones(actions), (2, games, states))
    assert_same(
        "markov_gains", (reward, transition, discount, x, y, 200, 1e-300, 1e140),
        (3, games, 2), (3, games, states, 2),
    )  # fmt: skip
