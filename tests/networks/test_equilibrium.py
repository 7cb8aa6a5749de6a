"""Equilibria and optima of networks against textbook values, published flows and brute force."""

import jax.numpy as jnp
import numpy as np
import pytest
from network_samples import PUBLISHED, TNTP, all_paths, city, published, two_roads
from scipy.optimize import minimize

import equipoise as eq


class TestByHand:
    def test_braess(self):
        game = eq.games.load("braess-network")
        solution = eq.solve(game, tolerance=1e-13)
        assert solution.status.ok
        np.testing.assert_allclose(solution.policy.flows, [4, 2, 2, 4, 2], atol=1e-9)
        assert abs(solution.value - 92) < 1e-9
        best = eq.solve(game, concept="optimum")
        np.testing.assert_allclose(best.policy.flows, [3, 3, 3, 3, 0], atol=1e-7)

    def test_pigou(self):
        """A constant road and one whose cost is its share of traffic: PoA 4/3."""
        game = eq.NetworkGame(
            [0, 0], [1, 1], [0], [1], [1.0], free_flow=[1.0, 0.0], rise=[0.0, 1.0], power=1.0
        )
        np.testing.assert_allclose(eq.solve(game).policy.flows, [0, 1], atol=1e-9)
        best = eq.solve(game, concept="optimum")
        np.testing.assert_allclose(best.policy.flows, [0.5, 0.5], atol=1e-9)
        assert abs(best.stats["total_cost"] - 0.75) < 1e-12

    def test_a_toll_moves_as_many_as_it_should(self):
        # 1 + v = 2 + (3 - v) + toll: v = 2 + toll / 2 on the first.
        for toll in (0.0, 0.5):
            flows = eq.solve(two_roads(tolls=[0.0, toll])).policy.flows
            np.testing.assert_allclose(flows, [2 + toll / 2, 1 - toll / 2], atol=1e-9)

    def test_classes_that_value_time_differently(self):
        """The toll drives off those who value time less, and only them."""
        game = eq.NetworkGame(
            [0, 0], [1, 1], [0, 0], [1, 1], [1.0, 1.0], classes=[0, 1],
            values_of_time=[1.0, 10.0], free_flow=[1.0, 2.0], rise=1.0, power=1.0, tolls=[1.5, 0.0],
        )  # fmt: skip
        solution = eq.solve(game)
        assert solution.status.ok
        # Rich: 1 + v + .15 = 2 + (2 - v) at v = 1.425 > 1: all of them, and some of the poor:
        # poor: 1 + v + 1.5 = 2 + 2 - v at v = .75 < 1. So the rich take the tolled road alone.
        np.testing.assert_allclose(solution.policy.flows, [[0, 1], [1, 0]], atol=1e-9)
        with pytest.raises(ValueError, match=r"flows: expected shape \(2, 2\)"):
            eq.certify(game, solution.policy.total)
        again = eq.certify(game, solution.policy.flows)
        assert again.relative_gap_upper < 1e-10

    def test_zones_are_not_passed_through(self):
        # The short way from 0 to 2 leads through zone 1.
        links = ([0, 1, 0, 3], [1, 2, 3, 2])
        costs = {"free_flow": [1.0, 1.0, 5.0, 5.0], "b": 0.0}
        through = eq.NetworkGame(*links, [0], [2], [1.0], **costs)
        around = eq.NetworkGame(*links, [0], [2], [1.0], **costs, first_through=3)
        assert eq.solve(through).policy.flows.tolist() == [1, 1, 0, 0]
        solution = eq.solve(around)
        assert solution.policy.flows.tolist() == [0, 0, 1, 1]
        with pytest.raises(ValueError, match="no flow through zones, found 1 through zone 1"):
            eq.certify(around, [1.0, 1.0, 0.0, 0.0])
        paths = eq.FlowPolicy([1.0, 1.0, 0.0, 0.0], [1.0], [0], [0, 1], [0, 2])
        with pytest.raises(ValueError, match="not pass through a zone"):
            eq.certify(around, paths)

    def test_demand_that_falls_with_the_cost(self):
        """Those who stay at home take a link that costs the inverse of the demand function."""
        roads = two_roads(free_flow=[1.0, 2.0])

        def cost(v):
            # At cost u, 20 exp(-u / 5) travel: the last of them would pay 5 log(20 / number).
            return np.append(1.0 + np.arange(2) + v[:2], 5 * np.log(20 / np.maximum(20 - v[2], 1)))

        game = eq.NetworkGame([0, 0, 0], [1, 1, 1], [0], [1], [20.0], cost=cost)
        solution = eq.solve(game)
        assert solution.status.ok
        travel = 20.0 - solution.policy.flows[2]
        alone = eq.solve(roads.replace(demand=[travel]))
        np.testing.assert_allclose(solution.policy.flows[:2], alone.policy.flows, atol=1e-6)
        assert travel == pytest.approx(20 * np.exp(-float(alone.value) / 5), abs=1e-6)

    def test_free_roads(self):
        game = eq.NetworkGame([0, 1], [1, 2], [0], [2], [5.0], free_flow=0.0)
        solution = eq.solve(game)
        assert solution.status.ok
        assert solution.value == 0.0
        assert solution.certificate.relative_gap == 0.0


@pytest.mark.parametrize("concept", ["nash", "optimum"])
def test_against_a_convex_program_over_all_paths(concept):
    game = city(rows=3, columns=3, zones=3, trips=300.0)
    paths = [
        (k, path)
        for k in range(len(game.demand))
        for path in all_paths(game, game.origins[k], game.destinations[k])
    ]
    incidence = np.zeros((len(paths), game.links))
    for row, (_, path) in enumerate(paths):
        incidence[row, path] = 1.0
    pairs = np.array([k for k, _ in paths])
    objective = game.total_cost if concept == "optimum" else game.potential

    def slopes(flows):
        return game.marginal_costs(flows)[0] if concept == "optimum" else game.times(flows)

    found = minimize(
        lambda h: objective(h @ incidence),
        game.demand[pairs] / np.bincount(pairs)[pairs],
        jac=lambda h: incidence @ slopes(h @ incidence),
        bounds=[(0, None)] * len(paths),
        constraints={
            "type": "eq",
            "fun": lambda h: np.bincount(pairs, h) - game.demand,
            "jac": lambda h: (np.arange(len(game.demand))[:, None] == pairs).astype(float),
        },
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    solution = eq.solve(game, concept=concept)
    assert solution.status.ok
    value = objective(solution.policy.flows)
    assert value <= found.fun * (1 + 1e-9)
    np.testing.assert_allclose(value, found.fun, rtol=1e-6)


@pytest.mark.parametrize("concept", ["nash", "optimum"])
@pytest.mark.parametrize(("unit", "money"), [(1.0, 1.0), (1e-6, 1e9), (1e6, 1e-3)])
def test_powers_below_one(concept, unit, money):
    """Costs 2 + v and 1 + v^.5, whose slope is infinite at zero: flow moves there all the same."""
    game = eq.NetworkGame(
        [0, 0, 0], [1, 1, 1], [0], [1], [9.0 * unit], rise=money, capacity=unit,
        free_flow=money * np.array([2.0, 1.0, 3.0]), power=[1.0, 0.5, 0.5],
    )  # fmt: skip
    solution = eq.solve(game, concept=concept)
    assert solution.status.ok
    flows = solution.policy.flows
    costs = game.times(flows) if concept == "nash" else game.marginal_costs(flows)[0]
    assert (flows > 0.0).all()
    np.testing.assert_allclose(costs, costs[0], rtol=1e-9)
    np.testing.assert_allclose(flows.sum(), 9.0 * unit, rtol=1e-12)


@pytest.mark.parametrize("atomic", [False, True])
def test_a_power_of_zero_is_a_constant_cost(atomic):
    """Costs v, and 1 + 2 (v / c)^0 = 3, which rounding of the flow does not change."""
    game = eq.NetworkGame(
        [0, 0], [1, 1], [0], [1], [5.0], free_flow=[0.0, 1.0], rise=[1.0, 2.0], power=[1.0, 0.0],
        atomic=atomic,
    )  # fmt: skip
    solution = eq.solve(game)
    assert solution.status.ok
    assert solution.policy.flows[0] == pytest.approx(3.0, abs=1.0 if atomic else 1e-9)
    assert float(solution.certificate.max_upper) < 1e-9
    if not atomic:
        assert eq.certify(game, solution.policy.flows).relative_gap_upper < 1e-12
        assert eq.solve(game, concept="optimum").status.ok


class TestNewton:
    @pytest.mark.parametrize("kind", ["plain", "classes", "functions"])
    def test_ends_the_slow_tail_of_sweeps(self, kind, monkeypatch):
        size, zones = (10, 30) if kind == "classes" else (12, 40)
        game = city(rows=size, columns=size, zones=zones, trips=1e5)
        if kind == "classes":
            half = {"demand": np.tile(0.5 * game.demand, 2), "classes": np.repeat([0, 1], 870)}
            half |= {"origins": np.tile(game.origins, 2)}
            half |= {"destinations": np.tile(game.destinations, 2), "labels": None}
            tolls = 0.2 * game.free_flow
            game = game.replace(**half, values_of_time=[1.0, 3.0], tolls=tolls)
        elif kind == "functions":
            plain = game
            game = game.replace(cost=lambda v: plain.times(v), derivative=lambda v: plain.slopes(v))
        monkeypatch.setattr("equipoise.networks._assign._MORE_SWEEPS", 10)  # the tail is longer
        solution = eq.solve(game, tolerance=1e-11)
        assert solution.status.ok
        assert solution.stats["newton_steps"] > 0
        assert eq.certify(game, solution.policy).relative_gap_upper < 1e-11
        monkeypatch.setattr("equipoise.networks._assign._FIRST", 10**6)
        slow = eq.solve(game, tolerance=1e-11)
        assert slow.stats["newton_steps"] == 0
        assert slow.stats["passes"] > 1.5 * solution.stats["passes"]
        np.testing.assert_allclose(slow.policy.total, solution.policy.total, rtol=1e-6, atol=1e-3)


class TestFunctions:
    """Costs of the user's own give the flows of the formula that they compute."""

    @pytest.mark.parametrize("module", [np, jnp], ids=["numpy", "jax"])
    @pytest.mark.parametrize("concept", ["nash", "optimum"])
    def test_a_function_is_as_good_as_the_formula(self, module, concept):
        game = city(trips=3000.0)

        def cost(v):
            return game.free_flow + game.rise * (module.asarray(v) / game.capacity) ** 4

        def derivative(v):
            return 4 * game.rise * (v / game.capacity) ** 3 / game.capacity

        given = derivative if module is np else None
        own = game.replace(cost=cost, derivative=given)
        solution = eq.solve(own, concept=concept)
        assert solution.status.ok
        expected = eq.solve(game, concept=concept).policy.flows
        np.testing.assert_allclose(solution.policy.flows, expected, rtol=1e-6, atol=1e-5)
        np.testing.assert_allclose(own.potential(expected), game.potential(expected), rtol=1e-12)

    def test_exponential_costs(self):
        game = two_roads(cost=lambda v: np.exp(v) + np.array([0.0, 1.0]))
        solution = eq.solve(game)
        assert solution.status.ok
        flows = solution.policy.flows
        assert abs(np.exp(flows[0]) - np.exp(flows[1]) - 1) < 1e-8

    def test_marginal_costs_need_a_derivative(self):
        game = two_roads(cost=lambda v: np.exp(v))
        with pytest.raises(ValueError, match="derivative: expected a function"):
            eq.solve(game, concept="optimum")

    @pytest.mark.parametrize(
        ("cost", "complaint"),
        [
            (lambda v: 5 - v, "do not decrease"),
            (lambda v: v - 1, "costs >= 0, found -1 on link 0"),
            (lambda v: v.sum() + v, "own flow"),
            (lambda v: v[:1], r"shape \(2,\)"),
            (lambda v: v / 0 if len(v) < 1 else np.full(2, np.nan), "finite"),
            (3.0, "cost: expected a function of flows, found float"),
        ],
    )
    def test_functions_that_are_no_costs_are_refused(self, cost, complaint):
        with pytest.raises(ValueError, match=complaint):
            two_roads(cost=cost)


class TestSolver:
    def test_warm_start(self):
        game = city(trips=20_000.0)
        first = eq.solve(game)
        again = eq.solve(game, start=first)
        assert again.stats["passes"] < first.stats["passes"]
        more = eq.solve(game.replace(demand=game.demand * 1.01), start=first.policy)
        assert more.status.ok
        assert more.stats["passes"] < first.stats["passes"] + 5

    def test_progress_and_time_limit(self):
        told = []
        game = city(trips=20_000.0)
        solution = eq.solve(game, time_limit=0.0, progress=told.append)
        assert solution.status.name == "out of time"
        assert not solution.status.ok
        assert "start=" in solution.status.message
        assert told[0]["iteration"] == 1
        assert told[0]["log_gap"] < 0
        # What was found so far is still feasible, and certified.
        assert eq.certify(game, solution.policy).relative_gap > 1e-10
        eq.solve(game, progress=told.append)
        gaps = [one["log_gap"] for one in told[1:]]
        assert gaps[-1] < -10 < gaps[0]

    def test_ctrl_c_keeps_what_was_found(self):
        def stop(told):
            if told["iteration"] == 3:
                raise KeyboardInterrupt

        solution = eq.solve(city(trips=20_000.0), progress=stop)
        assert solution.status.name == "interrupted"
        assert np.isfinite(solution.certificate.relative_gap)

    def test_unique_flows_are_told(self):
        game = eq.NetworkGame(
            [0, 0, 1], [1, 1, 2], [0], [2], [1.0], free_flow=[1.0, 1.0, 1.0], b=[0.0, 0.0, 0.15]
        )
        assert eq.solve(game).stats["unique"].tolist() == [False, False, True]
        # A link that nobody takes has a slope of zero, and its flow is unique.
        game = eq.NetworkGame([0, 0], [1, 1], [0], [1], [1.0], free_flow=[1.0, 9.0])
        assert eq.solve(game).stats["unique"].tolist() == [True, True]
        # Costs that are flat up to a flow of 1 leave the flows open.
        game = eq.NetworkGame(
            [0, 0], [1, 1], [0], [1], [1.0], cost=lambda v: 1 + np.maximum(v - 1.0, 0.0)
        )
        assert eq.solve(game).stats["unique"].tolist() == [False, False]

    @pytest.mark.parametrize("tolerance", [1e-14, 1e-16])
    def test_tolerances_near_rounding(self, tolerance):
        """The bound includes rounding, so that flows within the tolerance may miss it."""
        for game in (eq.games.load("braess-network"), city()):
            solution = eq.solve(game, tolerance=tolerance)
            assert solution.certificate.relative_gap_upper < 1e-12
            told = (
                "no traveller gains more than" if solution.status.ok else "rounding allows no more"
            )
            assert told in solution.status.message

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            ({"concept": "ce"}, "concept: expected nash or optimum"),
            ({"tolerance": 0.0}, "tolerance"),
            ({"start": 3}, "start: expected a solution"),
            ({"time_limit": -1.0}, "time_limit"),
            (
                {"sweeps": 3},
                "solve.NetworkGame.: expected an option of .*network",
            ),
        ],
    )
    def test_wrong_options(self, options, complaint):
        with pytest.raises(ValueError, match=complaint):
            eq.solve(two_roads(), **options)

    def test_without_numba(self, monkeypatch):
        from equipoise.core import routes

        game = city().replace(first_through=3)
        costs = game.costs(np.zeros(game.links))[0]
        costs[::7] = 0.0
        starts = np.unique(game.origins)
        expected, _ = game.graph.trees(costs, starts)
        monkeypatch.setattr(routes, "is_installed", lambda: False)
        found, tree = game.graph.trees(costs, starts)
        np.testing.assert_allclose(found, expected, rtol=1e-13)
        assert game.graph.method.startswith("SciPy")
        path = game.graph.path(tree[0], starts[0], starts[-1])
        assert abs(costs[path].sum() - expected[0, starts[-1]]) < 1e-12


@pytest.mark.parametrize("name", list(PUBLISHED))
class TestPublished:
    def test_equilibrium_and_optimum_to_the_last_digit(self, name):
        game = published(name)
        potential, total, best = PUBLISHED[name]
        solution = eq.solve(game, tolerance=1e-12)
        assert solution.status.ok
        assert solution.certificate.relative_gap_upper <= 1e-12
        assert abs(solution.stats["potential"] / potential - 1) < 1e-12
        assert abs(solution.stats["total_cost"] / total - 1) < 1e-8
        optimum = eq.solve(game, concept="optimum", tolerance=1e-12)
        assert optimum.status.ok
        assert optimum.certificate.relative_gap_upper <= 1e-12
        assert abs(optimum.stats["total_cost"] / best - 1) < 1e-7
        given = eq.games.read_flows(TNTP / f"{name}_flow.tntp", game)
        unique = solution.stats["unique"]
        np.testing.assert_allclose(
            solution.policy.flows[unique], given.flows[unique], rtol=1e-6, atol=1e-6
        )

    def test_published_flows_are_certified(self, name):
        game = published(name)
        given = eq.games.read_flows(TNTP / f"{name}_flow.tntp", game)
        certificate = eq.certify(game, given)
        # The bound counts what the flows lack of balance at nodes: 5e-11 of the demand.
        assert certificate.relative_gap_upper < 1e-13
        assert not certificate.by_paths
        assert abs(game.potential(given.flows) / PUBLISHED[name][0] - 1) < 1e-12


@pytest.mark.parametrize("concept", ["nash", "optimum"])
@pytest.mark.parametrize("rise", [[0, 0, 0], [1, 0, 0], [0, 1, 0]])
@pytest.mark.parametrize("power", [1.0, 2.0, 4.0])
def test_travel_that_costs_nothing_is_solved(concept, rise, power):
    """Two parallel roads, then a third one; some path is free at any flow."""
    links = {"tail": [0, 0, 1], "head": [1, 1, 2], "rise": rise, "power": [power] * 3}
    links |= {"free_flow": [0.0] * 3, "capacity": [1.0] * 3}
    trips = {"origin": [0], "destination": [2], "demand": [3]}
    solution = eq.solve(eq.NetworkGame.from_tables(links, trips), concept=concept)
    assert solution.status.ok
    assert solution.certificate.relative_gap_upper == 0.0
    assert solution.certificate.max_upper == 0.0
