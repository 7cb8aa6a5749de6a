"""Tolls and capacities, and derivatives of the equilibrium against finite differences."""

import time
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from network_samples import PUBLISHED, city, published, two_roads

import equipoise as eq
from equipoise.networks import _design

TIGHT = {"tolerance": 1e-13}


class TestSensitivity:
    @pytest.mark.parametrize("argument", ["fixed", "tolls", "capacities", "demand"])
    def test_against_central_differences(self, argument):
        game = city(rows=4, columns=4, zones=6, trips=4000.0).replace(fixed=0.1, tolls=0.1)
        field = "capacity" if argument == "capacities" else argument
        base = getattr(game, field)
        direction = np.random.default_rng(1).normal(size=len(base)) * base
        solution = eq.solve(game, **TIGHT)
        found = eq.networks.sensitivity(game, solution).flows(**{argument: direction})
        step = 1e-5
        ends = [
            eq.solve(game.replace(**{field: base + s * direction}), start=solution, **TIGHT)
            for s in (step, -step)
        ]
        expected = (ends[0].policy.flows - ends[1].policy.flows) / (2 * step)
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())

    def test_the_gradient_is_the_adjoint(self):
        game = city(rows=4, columns=4, zones=6, trips=4000.0)
        answer = eq.networks.sensitivity(game, eq.solve(game, **TIGHT))
        rng = np.random.default_rng(2)
        weights, change = rng.normal(size=(2, game.links))
        assert answer.gradient(weights) @ change == pytest.approx(
            weights @ answer.flows(fixed=change), rel=1e-8
        )

    def test_the_total_cost_by_toll_and_by_capacity(self):
        game = city(rows=4, columns=4, zones=6, trips=4000.0)
        solution = eq.solve(game, **TIGHT)
        answer = eq.networks.sensitivity(game, solution)
        by_toll, by_capacity = answer.of_total_cost(), answer.of_capacities()
        link, step = int(np.argmax(solution.policy.flows)), 1e-4
        for field, found in (("fixed", by_toll), ("capacity", by_capacity)):
            base = getattr(game, field) + (0.01 if field == "fixed" else 0.0)
            moved = []
            for sign in (1, -1):
                value = base.copy()
                value[link] += sign * step
                near = game.replace(**{field: value})
                end = eq.solve(near, start=solution, **TIGHT)
                cost = end.stats["total_cost"] - near.fixed @ end.policy.flows
                moved.append(cost)
            slope = (moved[0] - moved[1]) / (2 * step)
            tolerance = 0.02 if field == "fixed" else 1e-4  # the first is taken elsewhere
            assert found[link] == pytest.approx(slope, rel=tolerance)

    def test_what_has_no_derivative(self):
        flat = two_roads(free_flow=1.0, rise=0.0)
        policy = eq.FlowPolicy([1.0, 2.0], [1.0, 2.0], [0, 0], [0, 1], [0, 1, 2])
        with pytest.raises(ValueError, match="flows that change smoothly"):
            eq.networks.sensitivity(flat, policy).flows(fixed=[1.0, 0.0])
        with pytest.raises(ValueError, match="solution: expected path flows"):
            eq.networks.sensitivity(flat, eq.FlowPolicy([1.0, 2.0]))
        with pytest.raises(ValueError, match="solution: expected a solution or FlowPolicy"):
            eq.networks.sensitivity(flat, [1.0, 2.0])
        with pytest.raises(ValueError, match=r"fixed: expected shape \(2,\)"):
            eq.networks.sensitivity(two_roads(), eq.solve(two_roads())).flows(fixed=[1.0])

    def test_what_is_no_equilibrium(self):
        game = eq.games.load("braess-network")
        with pytest.raises(ValueError, match="solution: expected an equilibrium to"):
            eq.networks.sensitivity(game, eq.solve(game, concept="optimum"))
        with pytest.raises(ValueError, match="flows: expected flows on 24 links"):
            eq.networks.sensitivity(city(rows=3, columns=3, zones=3), eq.solve(game))

    @pytest.mark.parametrize("unit", [1e-6, 1e6])
    def test_differences_of_functions_in_any_unit(self, unit):
        """Costs 1 + v and 2 + v^2 in NumPy, with flows counted in units."""
        game = eq.NetworkGame(
            [0, 0], [1, 1], [0], [1], [3.0 * unit],
            cost=lambda v: np.array([1.0, 2.0]) + (v / unit) ** np.array([1, 2]),
        )  # fmt: skip
        answer = eq.networks.sensitivity(game, eq.solve(game, tolerance=1e-12))
        second = (np.sqrt(9.0) - 1.0) / 2.0  # 1 + 3 - v = 2 + v^2
        moved = unit / (1.0 + 2.0 * second)
        np.testing.assert_allclose(answer.flows(tolls=[1.0, 0.0]), [-moved, moved], rtol=1e-5)


def test_designs_are_for_travellers_who_can_be_divided():
    game = eq.networks.whole_drivers(eq.games.load("braess-network"))
    for call in (
        lambda: eq.networks.best_tolls(game, 1),
        lambda: eq.networks.best_capacities(game, 1.0),
        lambda: eq.networks.first_best_tolls(game),
        lambda: eq.networks.price_of_anarchy(game),
        lambda: eq.networks.sensitivity(game, eq.solve(game)),
    ):
        with pytest.raises(ValueError, match="game: expected travellers who can be divided"):
            call()


def test_a_link_whose_slope_is_infinite_where_it_is_empty():
    """A power below one: marginal costs of an empty link are finite, whatever its slope."""
    game = two_roads(free_flow=[1.0, 9.0], power=0.5)
    optimum = eq.solve(game, concept="optimum")
    assert optimum.status.ok
    assert optimum.policy.flows.tolist() == [3.0, 0.0]
    design = eq.networks.first_best_tolls(game)
    np.testing.assert_allclose(design.game.tolls, [0.5 * np.sqrt(3.0), 0.0])
    assert eq.networks.best_tolls(game, np.int64(1)).total_cost == design.total_cost
    assert eq.networks.best_capacities(game, 1.0).links.tolist() == [0]


class TestTolls:
    def test_first_best_tolls_make_the_optimum_an_equilibrium(self):
        game = city(trips=8000.0)
        design = eq.networks.first_best_tolls(game, tolerance=1e-12)
        assert design.solution.status.ok
        assert design.solution.certificate.relative_gap_upper <= 1e-11
        optimum = eq.solve(game, concept="optimum", tolerance=1e-12)
        assert design.total_cost == pytest.approx(optimum.stats["total_cost"], rel=1e-10)
        assert design.lower_bound <= design.total_cost <= design.after.upper < design.before.lower
        assert design.saved.lower == pytest.approx(1.0, abs=1e-4)
        assert design.saved.upper == 1.0
        again = eq.solve(design.game, tolerance=1e-11)
        np.testing.assert_allclose(again.policy.flows, optimum.policy.flows, rtol=1e-5, atol=1e-3)

    def test_a_value_of_time_changes_the_tolls_and_nothing_else(self):
        game = city(trips=8000.0)
        one, two = (eq.networks.first_best_tolls(game.replace(values_of_time=[w])) for w in (1, 3))
        np.testing.assert_allclose(two.game.tolls, 3 * one.game.tolls, rtol=1e-6, atol=1e-9)
        assert two.total_cost == pytest.approx(one.total_cost, rel=1e-9)

    def test_few_tolls(self):
        game = city(rows=4, columns=4, zones=6, trips=6000.0)
        design = eq.networks.best_tolls(game, links=2)
        assert design.solution.status.ok
        assert 1 <= len(design.links) <= 2
        assert design.lower_bound < design.after.lower <= design.after.upper < design.before.lower
        assert eq.certify(design.game, design.solution.policy).relative_gap_upper < 1e-9
        named = eq.networks.best_tolls(game, links=design.links.tolist())
        assert named.after.upper < named.before.lower
        assert set(named.links) <= set(design.links)

    def test_costs_that_are_functions(self):
        """Costs 1 + v and 2 + v / 5: the optimum needs a toll of 1/2 on the first."""
        game = eq.NetworkGame(
            [0, 0],
            [1, 1],
            [0],
            [1],
            [10.0],
            cost=lambda v: jnp.array([1.0, 2.0]) + jnp.array([1.0, 0.2]) * v,
        )
        design = eq.networks.best_tolls(game, links=1)
        assert design.links.tolist() == [0]
        assert design.game.tolls[0] == pytest.approx(0.5, abs=1e-3)
        assert design.before.lower <= 35.0 <= design.before.upper
        assert design.total_cost == pytest.approx(design.lower_bound, rel=1e-6)

    @pytest.mark.parametrize("limit", [0.0, 0.2])
    def test_time_limits(self, limit):
        game = city(rows=6, columns=6, zones=10, trips=6000.0)
        eq.solve(game)  # compiles what is needed
        for find in (
            lambda: eq.networks.best_tolls(game, links=8, time_limit=limit),
            lambda: eq.networks.best_capacities(game, budget=1000.0, time_limit=limit),
        ):
            begun = time.process_time()
            design = find()
            assert time.process_time() - begun < limit + 2.0
            assert 0.0 <= design.lower_bound <= design.after.lower
            assert design.after.lower <= design.total_cost <= design.after.upper
            assert design.after.lower <= design.before.upper
            certificate = eq.certify(design.game, design.solution.policy)
            assert certificate.relative_gap_upper < 1e-9 or not design.solution.status.ok

    def test_price_of_anarchy(self):
        found = eq.networks.price_of_anarchy(eq.games.load("braess-network"))
        assert found.anarchy.lower <= 92 / 83 <= found.anarchy.upper
        assert found.anarchy.upper - found.anarchy.lower < 1e-5
        assert found.status.ok

    @pytest.mark.parametrize(
        ("links", "complaint"),
        [
            (0, "links: expected a whole number"),
            ([9], "different links from 0 to 4"),
            ([], "links"),
        ],
    )
    def test_wrong_links(self, links, complaint):
        with pytest.raises(ValueError, match=complaint):
            eq.networks.best_tolls(eq.games.load("braess-network"), links=links)

    @pytest.mark.parametrize("name", ["braess", "city", "SiouxFalls"])
    def test_one_toll_for_classes_that_value_time_differently(self, name):
        if name == "braess":
            game = eq.games.load("braess-network")
        else:
            game = city() if name == "city" else published(name)
        both = {n: np.tile(getattr(game, n), 2) for n in ("origins", "destinations")}
        parts = np.concatenate([0.3 * game.demand, 0.7 * game.demand])
        classes = np.repeat([0, 1], len(game.demand))
        mixed = game.replace(
            **both, demand=parts, classes=classes, values_of_time=[1.0, 2.5], labels=None
        )
        design = eq.networks.first_best_tolls(mixed)
        alike = eq.networks.first_best_tolls(game)
        assert design.total_cost == pytest.approx(alike.total_cost, rel=1e-8)
        assert design.solution.certificate.relative_gap_upper < 1e-9
        assert design.after.upper < 0.97 * design.before.lower
        # Others who look for an equilibrium under the tolls find the same total time.
        found = eq.solve(design.game)
        assert found.stats["total_cost"] == pytest.approx(alike.total_cost, rel=1e-5)

    @pytest.mark.parametrize("name", list(PUBLISHED))
    def test_published_networks(self, name):
        design = eq.networks.first_best_tolls(published(name), tolerance=1e-12)
        assert design.solution.status.ok
        assert design.solution.certificate.relative_gap_upper <= 1e-12
        assert design.total_cost == pytest.approx(PUBLISHED[name][2], rel=1e-7)


class TestCapacities:
    def test_all_of_the_budget_where_it_helps(self):
        game = city(rows=4, columns=4, zones=6, trips=6000.0)
        budget = 0.2 * game.capacity.sum()
        design = eq.networks.best_capacities(game, budget)
        spent = (design.game.capacity - game.capacity).sum()
        assert spent <= budget * (1 + 1e-9)
        assert design.lower_bound <= design.total_cost <= design.after.upper < design.before.lower
        assert design.saved.lower > 0.5

    def test_two_roads_by_hand(self):
        """Costs 1 + (v / c)^4 twice: the budget is best spent to keep them alike."""
        game = two_roads(free_flow=1.0, capacity=[1.0, 1.0], power=4.0)
        design = eq.networks.best_capacities(game, 1.0)
        # All capacity counts alike: v = 3 over 3 in all.
        assert design.total_cost == pytest.approx(6.0, rel=1e-5)
        assert design.lower_bound == pytest.approx(6.0, rel=1e-4)

    def test_prices_can_forbid_a_link(self):
        game = two_roads(free_flow=1.0, capacity=[1.0, 1.0], power=4.0)
        design = eq.networks.best_capacities(game, 1.0, prices=[np.inf, 1.0])
        assert design.links.tolist() == [1]
        with pytest.raises(ValueError, match="prices: expected positive numbers"):
            eq.networks.best_capacities(game, 1.0, prices=0.0)
        with pytest.raises(ValueError, match=r"prices: expected shape \(2,\), one for each link"):
            eq.networks.best_capacities(game, 1.0, prices=[1.0, 1.0, 1.0])
        with pytest.raises(ValueError, match="budget"):
            eq.networks.best_capacities(game, -1.0)


class Stopped:
    """Press Ctrl-C at the k-th call."""

    def __init__(self, at):
        self.left = at

    def __call__(self, *_):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("search", ["tolls", "capacities"])
def test_ctrl_c_keeps_the_best_design_so_far(search):
    game = city(rows=4, columns=4, zones=6, trips=4000.0)
    if search == "tolls":
        design = eq.networks.best_tolls(game, 3, progress=Stopped(6))
    else:
        design = eq.networks.best_capacities(game, 500.0, progress=Stopped(6))
    assert design.status.name == "interrupted"
    assert design.solution.status.ok
    assert design.lower_bound <= design.after.lower <= design.before.upper


def test_ctrl_c_within_an_assignment_ends_the_whole_search():
    stop = Stopped(0)

    def cost(flows):
        stop()
        return np.array([1.0, 1.5, 2.0]) + flows**2

    game = eq.NetworkGame(
        [0, 0, 0], [1, 1, 1], [0], [1], [3.0], cost=cost, derivative=lambda v: 2 * v
    )
    assert eq.networks.best_tolls(game, 2).status.name == "solved"
    calls = -stop.left
    stop.left = calls // 2
    design = eq.networks.best_tolls(game, 2)
    assert design.status.name == "interrupted"
    assert -stop.left < calls // 4  # what is left is certified, and no more is searched


def test_a_search_that_runs_out_of_time_says_so():
    design = eq.networks.best_tolls(city(rows=4, columns=4, zones=6, trips=4000.0), time_limit=0.0)
    assert design.status.name == "out of time"


@pytest.mark.parametrize("function", ["price_of_anarchy", "first_best_tolls"])
def test_ctrl_c_is_not_swallowed_by_the_first_of_several_assignments(function, monkeypatch):
    game, whole = eq.games.load("grid-city"), eq.networks.solve_network
    stopped = partial(whole, progress=Stopped(3))
    monkeypatch.setattr(_design, "solve_network", stopped)
    with pytest.raises(KeyboardInterrupt):
        getattr(eq.networks, function)(game)


def test_a_toll_that_only_works_above_a_threshold():
    """Pigou's roads, cost v and 1.1: all take the first, and a toll below .1 changes nothing."""
    game = eq.NetworkGame(
        [0, 0], [1, 1], [0], [1], [1.0], free_flow=[0.0, 1.1], rise=[1.0, 0.0], power=1.0
    )
    design = eq.networks.best_tolls(game, links=1)
    assert design.before.lower <= 1.0 <= design.before.upper < 1.0 + 1e-6
    assert design.links.tolist() == [0]
    assert design.total_cost == pytest.approx(0.55**2 + 0.45 * 1.1, rel=1e-6)


def test_the_price_of_anarchy_where_the_optimum_costs_nothing():
    free = {"free_flow": [0.0, 1.0], "rise": 0.0}
    game = eq.NetworkGame([0, 0], [1, 1], [0], [1], [2.0], **free)
    price = eq.networks.price_of_anarchy(game).anarchy
    assert (price.lower, price.upper) == (1.0, 1.0)
    tolled = game.replace(tolls=[3.0, 0.0])  # everybody pays with time instead
    price = eq.networks.price_of_anarchy(tolled).anarchy
    assert (price.lower, price.upper) == (np.inf, np.inf)
