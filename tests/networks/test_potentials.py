"""Bounds that hold for every path, whatever the number of its links, in exact arithmetic."""

import re
from fractions import Fraction

import numpy as np
import pytest
from network_samples import all_paths

import equipoise as eq
from equipoise.core.kernels import _routes
from equipoise.core.routes import Graph

ULP = 2.0**-52


def beside_a_chain(links, **options):
    """A dear direct link, and a chain of one link of cost 1 and many of .6 units in the last place.

    Each sum along the chain rounds upwards, so that the chain seems dearer than it is.
    """
    chain = [0, *range(2, links + 2), 1]
    costs = np.full(links + 2, 0.6 * ULP)
    costs[0], costs[1] = 1.0 + int(0.8 * links) * ULP, 1.0
    tails, heads = [0, *chain[:-1]], [1, *chain[1:]]
    game = eq.NetworkGame(tails, heads, [0], [1], [1.0], fixed=costs, rise=0.0, **options)
    return game, Fraction(costs[0]) - sum(map(Fraction, costs[1:]))


@pytest.mark.parametrize("links", [50, 3000])
def test_a_chain_that_is_cheaper_than_rounding_tells(links):
    game, truth = beside_a_chain(links)
    direct = np.eye(links + 2)[0]
    policy = eq.FlowPolicy.of_paths(game, [0], [1.0], [0], [0, 1])
    for flows in (policy, direct):
        certificate = eq.certify(game, flows)
        assert truth <= Fraction(float(certificate.upper[0])) <= 10 * truth
        assert truth / Fraction(game.fixed[0]) <= Fraction(certificate.relative_gap_upper)
    driver, _ = beside_a_chain(links, atomic=True)
    assert truth <= Fraction(float(eq.certify(driver, policy).class_upper[0])) <= 10 * truth


def test_a_chain_without_numba(monkeypatch):
    monkeypatch.setattr("equipoise.core.routes.is_installed", lambda: False)
    monkeypatch.setattr("equipoise.certificates._drivers.is_installed", lambda: False)
    for atomic in (False, True):
        game, truth = beside_a_chain(300, atomic=atomic)
        policy = eq.FlowPolicy.of_paths(game, [0], [1.0], [0], [0, 1])
        assert truth <= Fraction(float(eq.certify(game, policy).max_upper)) <= 100 * truth


@pytest.mark.parametrize("seed", range(20))
def test_no_path_costs_less_than_its_bound(seed):
    """Costs of very different sizes: the condition on each link holds exactly."""
    rng = np.random.default_rng(seed)
    nodes, links, first = 7, 20, int(rng.integers(0, 3))
    tails, heads = rng.integers(0, nodes, (2, links))
    costs = rng.choice([0.0, 1e-17, ULP, 0.1, 1.0, 1e8], links) * rng.choice([1.0, 0.7], links)
    graph = Graph(tails, heads, nodes, first)
    distance, bound = graph.bounds(costs, costs, np.arange(nodes))
    for origin in range(nodes):
        tight = bound[origin]
        for link, (tail, head) in enumerate(zip(tails, heads, strict=True)):
            if np.isfinite(tight[tail]) and (tail >= first or tail == origin):
                assert Fraction(tight[head]) <= Fraction(tight[tail]) + Fraction(costs[link])
        reached = np.isfinite(tight)
        assert (reached == np.isfinite(distance[origin])).all()
        assert (tight[reached] <= distance[origin][reached]).all()
        np.testing.assert_allclose(tight[reached], distance[origin][reached], rtol=1e-14)


def test_numbers_that_are_no_bounds_are_lowered():
    graph = Graph(np.array([0, 1, 0]), np.array([1, 2, 2]), 3)
    bound = np.array([0.0, 1.5, 9.0])
    _routes.lower(0, np.array([1.0, 2.0, 4.0]), *graph.outgoing, graph.ends[1], 0, bound)
    assert bound.tolist() == [0.0, 1.0, 3.0]


@pytest.mark.parametrize("seed", range(12))
def test_best_responses_of_drivers_that_rounding_hides(seed):
    """Gains of whole drivers in exact arithmetic, where costs differ by units in the last place."""
    rng = np.random.default_rng(seed)
    tails = np.repeat(np.arange(4), 3)
    heads = np.array([rng.choice(np.setdiff1d(np.arange(5), tail)) for tail in tails])
    tails, heads = np.append(tails, np.arange(4)), np.append(heads, np.arange(1, 5))
    fixed = rng.integers(1, 5, len(tails)) + rng.integers(0, 3, len(tails)) * ULP
    rise = rng.choice([0.0, 0.6 * ULP, 3.0], len(tails))
    game = eq.NetworkGame(
        tails, heads, [0], [4], [3.0], fixed=fixed, rise=rise, power=1.0, atomic=True
    )
    paths = all_paths(game, 0, 4)
    chosen = rng.choice(len(paths), 3)
    starts = np.cumsum([0, *(len(paths[k]) for k in chosen)])
    links = np.concatenate([paths[k] for k in chosen])
    policy = eq.FlowPolicy.of_paths(game, [0, 0, 0], np.ones(3), links, starts)
    certificate = eq.certify(game, policy)

    def cost(link, flow):
        return Fraction(fixed[link]) + Fraction(rise[link]) * int(flow)

    for k, upper in zip(chosen, certificate.class_upper, strict=True):
        now = sum(cost(link, policy.flows[link]) for link in paths[k])
        best = min(
            sum(cost(link, policy.flows[link] + (link not in paths[k])) for link in path)
            for path in paths
        )
        assert now - best <= Fraction(upper) <= now - best + Fraction(1, 10**13)


def test_a_subsidy_that_rounding_makes_larger_than_the_cost():
    """.1 + .2 is less than .3 in floating point and more than .3 by its exact value."""
    game = eq.NetworkGame(
        [0, 0], [1, 1], [0], [1], [1.0], free_flow=[0.1, 0.0], b=0.0, fixed=[0.2, 0.0],
        tolls=[-(0.1 + 0.2), 0.0],
    )  # fmt: skip
    truth = -(Fraction(0.1) + Fraction(0.2) - Fraction(0.1 + 0.2))
    assert truth > 0
    policy = eq.FlowPolicy.of_paths(game, [0], [1.0], [1], [0, 1])
    assert eq.certify(game, policy).gains[0] == 0.0
    assert truth <= Fraction(float(eq.certify(game, policy).upper[0])) < Fraction(1, 10**14)


def test_flows_whose_cost_overflows_are_refused_by_their_link():
    game = eq.NetworkGame([0, 1], [1, 2], [0], [2], [10.0], fixed=[1e308, 1.5e308], rise=0.0)
    where = re.escape("flows: expected flows at which all costs are finite, found one that "
                      "overflows on the link from 1 to 2")  # fmt: skip
    policy = eq.FlowPolicy.of_paths(game, [0], [10.0], [0, 1], [0, 2])
    for flows in (policy, [10.0, 10.0]):
        with pytest.raises(ValueError, match=where):
            eq.certify(game, flows)
    with pytest.raises(ValueError, match=where):
        eq.certify(game.replace(atomic=True), policy)
