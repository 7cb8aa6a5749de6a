"""Path flows of largest entropy: unique, proportional, and on the same link flows."""

import numpy as np
import pytest
from network_samples import city, published, two_roads

import equipoise as eq


def entropy(game, policy):
    flows, share = policy.path_flows, policy.path_flows / game.demand[policy.path_pairs]
    return -float(flows @ np.log(np.where(flows > 0, share, 1.0)))


def by_path(policy):
    return {
        (int(policy.path_pairs[k]), *policy.path(k).tolist()): float(policy.path_flows[k])
        for k in range(policy.paths)
    }


def test_populations_split_in_the_same_proportions():
    """Three populations share two ways from 2 to 3, and each gets its part of both."""
    game = eq.NetworkGame(
        [0, 1, 2, 2, 3], [2, 2, 3, 3, 4], [0, 1, 2], [3, 3, 4], [3.0, 5.0, 2.0],
        free_flow=[1, 1, 1, 5, 1], rise=1.0, power=1.0,
    )  # fmt: skip
    policy = eq.networks.entropy_paths(game, eq.solve(game, tolerance=1e-12))
    np.testing.assert_allclose(policy.flows, [3, 5, 7, 3, 2], atol=1e-8)
    expected = {(0, 0, 2): 2.1, (0, 0, 3): 0.9, (1, 1, 2): 3.5, (1, 1, 3): 1.5}
    expected |= {(2, 2, 4): 1.4, (2, 3, 4): 0.6}
    assert by_path(policy) == pytest.approx(expected, abs=1e-8)


def test_does_not_depend_on_the_path_flows_it_begins_with():
    game = city(rows=7, columns=7, zones=14, trips=20_000.0)
    one = eq.solve(game, tolerance=1e-12)
    start = eq.solve(game.replace(demand=game.demand[::-1].copy()))
    other = eq.solve(game, tolerance=1e-12, start=start)
    found = [by_path(eq.networks.entropy_paths(game, s)) for s in (one, other)]
    assert max(abs(by_path(one.policy).get(p, 0) - f) for p, f in found[0].items()) > 1
    assert found[0] == pytest.approx(found[1], abs=1e-4)
    policy = eq.networks.entropy_paths(game, one)
    assert entropy(game, policy) > entropy(game, one.policy)
    np.testing.assert_allclose(policy.flows, one.policy.flows, atol=1e-6)
    assert eq.certify(game, policy).relative_gap_upper < 1e-10


def test_paths_that_the_link_flows_leave_empty():
    """Cheapest paths of used links, of which some cannot carry anything: their factors are zero."""
    game = city(rows=10, columns=10, zones=6)
    solution = eq.solve(game)
    policy = eq.networks.entropy_paths(game, solution)
    np.testing.assert_allclose(policy.flows, solution.policy.flows, atol=1e-6)
    assert policy.path_flows.min() < 1e-9 * game.demand.min()
    assert entropy(game, policy) > entropy(game, solution.policy)


def test_sioux_falls_and_zones():
    for name, paths in (("SiouxFalls", 770), ("Anaheim", 1634)):
        game = published(name)
        solution = eq.solve(game, tolerance=1e-12)
        policy = eq.networks.entropy_paths(game, solution)
        assert policy.paths == paths
        np.testing.assert_allclose(policy.flows, solution.policy.flows, atol=1e-5)
        assert eq.certify(game, policy).relative_gap_upper < 1e-10


def test_classes_share_links():
    """Without tolls, classes that value time differently are alike."""
    game = eq.NetworkGame(
        [0, 0], [1, 1], [0, 0], [1, 1], [1.0, 2.0], classes=[0, 1], values_of_time=[1.0, 9.0],
        free_flow=[1.0, 2.0], rise=1.0, power=1.0,
    )  # fmt: skip
    policy = eq.networks.entropy_paths(game, eq.solve(game))
    np.testing.assert_allclose(policy.flows, [[2 / 3, 1 / 3], [4 / 3, 2 / 3]], atol=1e-9)


def test_bad_input():
    game = city()
    solution = eq.solve(game)
    with pytest.raises(ValueError, match="solution: expected path flows"):
        eq.networks.entropy_paths(game, eq.FlowPolicy(solution.policy.flows))
    with pytest.raises(ValueError, match="an equilibrium to within 1e-8 of the mean cost"):
        eq.networks.entropy_paths(game, eq.solve(game, tolerance=1e-2))
    with pytest.raises(ValueError, match="as many as there are cheapest paths, found 3"):
        eq.networks.entropy_paths(game, solution, most=3)
    drivers = eq.networks.whole_drivers(two_roads())
    with pytest.raises(ValueError, match="travellers who can be divided"):
        eq.networks.entropy_paths(drivers, eq.solve(drivers))
