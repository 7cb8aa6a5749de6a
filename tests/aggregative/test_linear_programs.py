"""The structured programs against HiGHS, on instances made to be awkward."""

import numpy as np
import pytest

from equipoise.aggregative._knapsack import EDGE, _by_numpy, solve_knapsack
from equipoise.aggregative._program import Program, solve_dual, solve_general
from equipoise.aggregative._subroutine import round_vertex, sample_vertex
from equipoise.core import kernels
from equipoise.core.kernels._programs import _threshold


def instance(seed, d, types, *, ties=False):
    """A random program; half of the actions are barred, counts differ."""
    rng = np.random.default_rng(seed)
    actions = int(rng.integers(2, 6))
    if ties:
        influence = rng.integers(-3, 4, (types, actions, d)).astype(float)
        weights = rng.integers(-2, 3, (types, actions)).astype(float)
    else:
        influence = rng.random((types, actions, d))
        weights = rng.uniform(-1, 1, (types, actions))
    counts = rng.integers(1, 5, types)
    allowed = rng.random((types, actions)) < 0.6
    allowed[np.arange(types), rng.integers(0, actions, types)] = True
    return weights, influence, counts, allowed, rng


def reach(influence, counts, allowed):
    """The least and the largest sums, by coordinate."""
    low = np.where(allowed[..., None], influence, np.inf).min(1)
    high = np.where(allowed[..., None], influence, -np.inf).max(1)
    return counts @ low, counts @ high


def check_vertex(vertex, program):
    """Feasible, of the value it says, with few types between actions."""
    mass = vertex.mass(program.counts, program.weights.shape[1])
    np.testing.assert_allclose(mass.sum(1), program.counts, rtol=1e-12)
    assert (mass >= 0).all()
    assert (mass[~program.allowed] == 0).all()
    total = np.einsum("ta,tad->d", mass, program.influence)
    size = 1e-9 * program.counts.sum() * np.abs(program.influence).max()
    assert (total >= program.low - size).all()
    assert (total <= program.high + size).all()
    assert vertex.objective == pytest.approx((mass * program.weights).sum(), abs=1e-8)
    assert len(vertex.moved) <= program.dimensions
    return total


@pytest.mark.parametrize("seed", range(300))
def test_one_dimension_is_what_highs_says(seed):
    types = 1 + seed % 25
    weights, influence, counts, allowed, rng = instance(seed, 1, types, ties=seed % 2 == 0)
    least, most = (float(edge[0]) for edge in reach(influence, counts, allowed))
    case = seed % 6
    if case == 0:  # an edge is just reached
        low, high = most, most + 1
    elif case == 1:
        low, high = least - 1, least
    elif case == 2:  # just not
        low, high = most + 0.01, most + 1
    elif case == 3:
        low, high = least - 1, least - 0.01
    elif case == 4:  # a band without width
        low = high = rng.uniform(least, most)
    else:
        low = rng.uniform(least - 1, most)
        high = low + rng.random()
    program = Program(weights, influence, counts, allowed, np.array([low]), np.array([high]))
    vertex = solve_knapsack(weights, influence[..., 0], counts, allowed, low, high)
    theirs = solve_general(program)
    assert (vertex is None) == (theirs is None)
    if vertex is not None:
        check_vertex(vertex, program)
        scale = max(1.0, abs(theirs[0].objective))
        assert abs(vertex.objective - theirs[0].objective) <= 1e-7 * scale


def by_both(weights, influence, counts, allowed, low, high):
    """What the kernel and NumPy fill in and return."""
    for solve in (kernels.load("solve_program"), _by_numpy):
        choice, numbers = np.zeros(len(counts), np.int64), np.zeros(3)
        moved = solve(weights, influence, counts, allowed, low, high, EDGE, choice, numbers)
        yield (moved,) if moved == -2 else (moved, choice.tolist(), numbers.tolist())


@pytest.mark.parametrize("types", [1, 8, 499, 600, 3000])
@pytest.mark.parametrize("kind", ["ties", "uniform", "a few large types", "equal weights"])
def test_one_dimension_has_the_same_bits_with_and_without_numba(types, kind):
    found = set()
    for seed in range(40):
        weights, influence, counts, allowed, rng = instance(seed, 1, types, ties=kind == "ties")
        counts = counts.astype(float)
        if kind == "a few large types":  # no sample says what they do
            counts = rng.pareto(0.5, types) + 0.1
        if kind == "equal weights":
            weights = np.ones_like(weights)
        least, most = (float(edge[0]) for edge in reach(influence, counts, allowed))
        low = rng.uniform(least - 1, most + 1)
        band = low, low + rng.choice([0.0, 1.0])
        kernel, numpy = by_both(weights, influence[..., 0].copy(), counts, allowed, *band)
        assert kernel == numpy
        found.add(min(kernel[0], 0))
    assert 0 in found  # some type was moved in part


def test_the_python_of_the_kernel_is_its_machine_code():
    source = kernels._source("solve_program")
    for types in (5, 600):
        weights, influence, counts, allowed, _ = instance(types, 1, types)
        least, most = (float(edge[0]) for edge in reach(influence, counts, allowed))
        low, found = 0.2 * least + 0.8 * most, []
        for solve in (kernels.load("solve_program"), source):
            choice, numbers = np.zeros(types, np.int64), np.zeros(3)
            arrays = weights, influence[..., 0].copy(), counts.astype(float), allowed
            moved = kernels.interpret(solve, *arrays, low, low, EDGE, choice, numbers)
            found.append((moved, choice.tolist(), numbers.tolist()))
        assert found[0] == found[1]
        assert found[0][0] >= 0


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_more_dimensions_are_what_highs_says(d, seed):
    types = 900 + seed
    weights, influence, counts, allowed, rng = instance(seed, d, types, ties=seed % 4 == 3)
    least, most = reach(influence, counts, allowed)
    middle = least + (most - least) * rng.uniform(0.35, 0.65, d)
    width = 0.01 * (most - least)
    program = Program(weights, influence, counts, allowed, middle - width, middle + width)
    vertex, theirs = solve_dual(program), solve_general(program)
    assert (vertex is None) == (theirs is None)
    assert vertex is not None
    total = check_vertex(vertex, program)
    scale = max(1.0, abs(theirs[0].objective))
    assert abs(vertex.objective - theirs[0].objective) <= 1e-6 * scale
    plays = round_vertex(vertex, influence, counts)
    moved = np.abs(np.einsum("ta,tad->d", plays, influence) - total).max()
    assert (plays.sum(1) == counts).all()
    largest = (influence.max(1) - influence.min(1)).max()
    assert moved <= d / 2 * largest + 1e-9


@pytest.mark.parametrize("d", [2, 3])
def test_bands_out_of_reach_are_infeasible(d):
    weights, influence, counts, allowed, _ = instance(0, d, 900)
    least, most = reach(influence, counts, allowed)
    for low, high in ((most + 0.1, most + 1), (least - 1, least - 0.1)):
        program = Program(weights, influence, counts, allowed, low, high)
        assert solve_dual(program) is None
        assert solve_general(program) is None
    # Every coordinate alone can be reached, all together cannot.
    influence[:] = 0.0
    influence[:, 0, 0], influence[:, 1, 1] = 1.0, 1.0
    allowed[:] = False
    allowed[:, :2] = True
    far = np.zeros(d)
    far[:2] = 0.8 * counts.sum()
    program = Program(weights, influence, counts, allowed, far - 1, far + 1)
    assert solve_dual(program) is None


def test_four_dimensions_take_the_general_path():
    weights, influence, counts, allowed, _ = instance(1, 4, 1100)
    least, most = reach(influence, counts, allowed)
    middle, width = (least + most) / 2, 0.05 * (most - least)
    program = Program(weights, influence, counts, allowed, middle - width, middle + width)
    vertex, theirs = solve_dual(program), solve_general(program)
    check_vertex(vertex, program)
    assert vertex.objective == pytest.approx(theirs[0].objective, rel=1e-6)


def test_selection_is_that_of_sorting(rng):
    for size in (1, 63, 65, 1000):
        slopes = np.round(rng.random(size), 1 if size % 2 else 6)
        rises = rng.random(size) + 0.01
        need = rng.uniform(0, rises.sum())
        order = np.argsort(-slopes, kind="stable")
        index = np.searchsorted(np.cumsum(rises[order]), need)
        expected = slopes[order[min(index, size - 1)]]
        assert _threshold(slopes, rises, size, need) == expected


def test_sampling_keeps_counts_and_draws_from_the_mix(rng):
    influence, counts = np.array([[[0.0], [1.0]]] * 2), np.array([1000, 50])
    vertex = solve_knapsack(
        np.array([[0.0, -1.0], [0.0, -2.0]]), influence[..., 0], counts, np.ones((2, 2), bool),
        300.0, 310.0,
    )  # fmt: skip
    plays = sample_vertex(vertex, counts, 2, rng)
    assert plays.sum(1).tolist() == [1000, 50]
    assert 230 < plays[0, 1] < 370
    assert plays[1].tolist() == [50, 0]
