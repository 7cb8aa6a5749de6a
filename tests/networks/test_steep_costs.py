"""Costs that overflow, and powers below one: what is solved, and what is said where nothing is."""

import math

import numpy as np
import pytest

import equipoise as eq
from equipoise.core.paths import PIECE, Paths
from equipoise.core.routes import Graph


def roads(demand, **options):
    """Two roads between two nodes."""
    return eq.NetworkGame([0, 0], [1, 1], [0], [1], [demand], **options)


@pytest.mark.parametrize("drivers", [False, True])
@pytest.mark.parametrize(
    ("ends", "trip", "link"),
    [
        (([0, 1], [2, 2]), (0, 2), "from 0 to 2"),  # the only road
        (([2, 0], [0, 1]), (0, 1), "from 0 to 1"),  # beside one that nobody uses
    ],
)
def test_a_game_whose_cost_overflows_is_refused_by_the_link(ends, trip, link, drivers):
    for steep in ({"power": 200.0}, {"capacity": 1e-80}):
        game = eq.NetworkGame(
            *ends, trip[:1], trip[1:], [100.0], free_flow=1.0, atomic=drivers, **steep
        )
        complaint = f"game: expected costs that are finite .* overflows on the link {link}"
        with pytest.raises(ValueError, match=complaint):
            eq.solve(game)


def test_costs_that_overflow_at_other_flows():
    """All travellers on the first road would overflow; at the equilibrium costs are small."""
    game = roads(100.0, free_flow=[1.0, 2.0], capacity=[1.0, 60.0], power=[200.0, 4.0])
    solution = eq.solve(game)
    assert solution.solved
    first, second = game.times(solution.policy.flows)
    assert first == pytest.approx(second, rel=1e-9)
    assert first < 5.0
    drivers = eq.solve(game.replace(atomic=True))
    assert drivers.solved
    assert drivers.policy.flows.tolist() == [1.0, 99.0]
    with pytest.raises(ValueError, match="flows: expected flows at which all costs are finite"):
        eq.certify(game, [100.0, 0.0])


def test_a_large_power_next_to_an_empty_road():
    """A step along the tangent, which is flat at zero, leads to a cost of 1e1029."""
    game = roads(1.4, free_flow=1.0, rise=[0.07, 1000.0], capacity=1e-6, power=[10.0, 200.0])
    solution = eq.solve(game)
    assert solution.solved
    first, second = game.times(solution.policy.flows)
    assert first == pytest.approx(second, rel=1e-9)


def balanced(demand, first, second):
    """Logarithm of the smaller flow at which v ** first on one road equals w ** second."""
    low, high = -700.0, math.log(0.5 * demand)
    for _ in range(200):
        x = 0.5 * (low + high)
        more = second * math.log(demand - math.exp(x))
        low, high = (x, high) if first * x < more else (low, x)
    return low


@pytest.mark.parametrize("power", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("other", [0.1, 0.5, 0.9, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("demand", [0.01, 1.0, 100.0])
def test_powers_below_one(power, other, demand):
    game = roads(demand, free_flow=0.0, rise=1.0, power=[power, other])
    solution = eq.solve(game)
    assert solution.solved
    flows = sorted(solution.policy.flows)
    small, large = (power, other) if solution.policy.flows[0] == flows[0] else (other, power)
    assert math.log(flows[0]) == pytest.approx(balanced(demand, small, large), abs=1e-8)
    assert eq.solve(game, concept="optimum").solved


def test_a_flow_below_the_smallest_number_is_told_by_its_power():
    """At the equilibrium the first road has a flow of 1e-1000, and costs 1e-100 as the second."""
    solution = eq.solve(roads(0.01, free_flow=0.0, rise=1.0, power=[0.1, 50.0]))
    assert not solution.solved
    told = solution.status.message
    assert "the power 0.1 of the link from 0 to 1" in told
    assert "use a power of at least 1, or a constant cost" in told


def test_long_passes_look_at_the_clock():
    graph = Graph(np.array([0, 0]), np.array([1, 1]), 2)
    groups = [(0, 0, np.array([k])) for k in range(10)]
    paths, calls = Paths(graph, groups, np.ones(10, int), np.ones(10)), []

    def kernel(*arguments):
        begin, end = arguments[-2:]
        calls.append((begin, end))
        return end

    paths.run(kernel, (), seconds=5 * PIECE)
    assert calls == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]
    calls.clear()
    paths.run(kernel, (), seconds=0.5 * PIECE)
    assert calls == [(0, 10)]

    def late():
        raise TimeoutError

    with pytest.raises(TimeoutError):
        paths.run(kernel, (), seconds=5 * PIECE, watch=late)
    assert calls == [(0, 10), (0, 2)]


def test_a_rise_of_zero_where_the_power_overflows():
    """Costs v ** .5 and 3: nine travellers take the first road, and the others the second."""
    game = roads(1e6, free_flow=[0.0, 3.0], rise=[1.0, 0.0], power=[0.5, 200.0])
    solution = eq.solve(game)
    assert solution.solved
    np.testing.assert_allclose(solution.policy.flows, [9.0, 1e6 - 9.0], rtol=1e-8)
