"""Certificates of flows, whoever made them, and what they refuse."""

import dataclasses
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from network_samples import all_paths, city, two_roads

import equipoise as eq
from equipoise.certificates import _split
from equipoise.core import kernels


def brute_force_gap(game, flows):
    """(T - S) / T over all paths that there are."""
    costs = game.costs(flows)[0]
    least = [
        min(costs[path].sum() for path in all_paths(game, o, d))
        for o, d in zip(game.origins, game.destinations, strict=True)
    ]
    total = costs @ flows
    return (total - game.demand @ least) / total


class TestLinkFlows:
    def test_the_gap_is_that_of_all_paths(self):
        game = city(rows=3, columns=3, zones=4)
        flows = game.best(game.costs(np.zeros(game.links)))[0]
        certificate = eq.certify(game, flows)
        assert certificate.relative_gap == pytest.approx(brute_force_gap(game, flows), rel=1e-12)
        assert certificate.relative_gap_upper >= certificate.relative_gap
        assert certificate.exact
        average = certificate.relative_gap * certificate.total_cost / game.demand.sum()
        assert certificate.average_excess == pytest.approx(average, rel=1e-12)
        assert certificate.largest_excess >= certificate.average_excess
        assert certificate.worst_path[0] == certificate.better_path[0]
        assert certificate.worst_path[-1] == certificate.better_path[-1]

    def test_the_gap_bounds_the_potential(self):
        game = city()
        least = eq.solve(game, tolerance=1e-12).stats["potential"]
        flows = game.best(game.costs(np.zeros(game.links)))[0]
        for _ in range(5):
            certificate = eq.certify(game, flows)
            gap = certificate.total_cost - certificate.least_cost
            assert game.potential(flows) - least <= gap * (1 + 1e-12)
            flows = 0.5 * flows + 0.5 * game.best(game.costs(flows))[0]

    def test_a_table_in_any_order(self):
        game = eq.games.load("braess-network")
        rows = [1, 4, 0, 3, 2]
        flows = eq.solve(game).policy.flows
        table = {"tail": game.tails[rows], "head": game.heads[rows], "flow": flows[rows]}
        assert eq.certify(game, table) == eq.certify(game, flows)

    @pytest.mark.parametrize(
        ("flows", "complaint"),
        [
            ([3.0, 3.0, 3.0, 3.0], "flows: expected flows of 5 links, found shape"),
            ([4.0, 2.0, 2.0, 4.1, 2.0], "a net flow of"),
            ([4.0, 2.0, 2.0, np.nan, 2.0], "finite"),
            ([4.0, 4.0, 4.0, 4.0, -2.0], "flows >= 0"),
            ([5.0, 2.0, 3.0, 4.0, 2.0], "a net flow of"),
            (np.ones((2, 5)), "flows of 1 classes"),
        ],
    )
    def test_flows_that_do_not_carry_the_demand(self, flows, complaint):
        with pytest.raises(ValueError, match=complaint):
            eq.certify(eq.games.load("braess-network"), flows)

    def test_trips_that_end_elsewhere(self):
        """Nodes balance, but the trips of two origins have swapped their destinations."""
        game = eq.NetworkGame(
            [0, 1, 0, 1], [2, 3, 3, 2], [0, 1], [2, 3], [1.0, 1.0], free_flow=[1, 1, 1, 1], b=0.0
        )
        assert eq.certify(game, [1.0, 1.0, 0.0, 0.0]).relative_gap == 0.0
        with pytest.raises(ValueError, match="too few travellers on links that trips need"):
            eq.certify(game, [0.0, 0.0, 1.0, 1.0])

    def test_flows_that_lose_travellers_on_balanced_trips(self):
        """Trips both ways: every node balances whatever part of them is carried."""
        game = eq.games.load("grid-city", rows=4, columns=4, zones=6)
        both = [np.concatenate(pair) for pair in (
            (game.origins, game.destinations), (game.destinations, game.origins),
            (game.demand, game.demand),
        )]  # fmt: skip
        more = {"classes": np.zeros(len(both[0]), int)}
        game = game.replace(origins=both[0], destinations=both[1], demand=both[2], **more)
        flows = eq.solve(game).policy.flows
        assert eq.certify(game, flows).relative_gap_upper < 1e-9
        for share in (0.97, 0.9999):
            with pytest.raises(ValueError, match="too few travellers on links that trips need"):
                eq.certify(game, share * flows)
        # Less than the 1e-6 that published flows may be off: it counts in the bound.
        slightly = eq.certify(game, (1 - 1e-7) * flows)
        assert slightly.relative_gap < -5e-8
        assert slightly.gap_rounding > 9e-8 * slightly.total_cost
        assert slightly.max_upper > 0.0

    @pytest.mark.parametrize("seed", range(12))
    def test_splits_against_a_linear_program(self, seed):
        """Paths that carry all trips use no less beyond link flows than those of the program."""
        rng, game = np.random.default_rng(seed), random_network(seed)
        ends = zip(game.origins, game.destinations, strict=True)
        columns = [all_paths(game, o, d) for o, d in ends]
        flows = np.zeros(game.links)
        for paths, demand in zip(columns, game.demand, strict=True):
            paths = paths if seed % 2 else sorted(paths, key=len)[:1]
            for path, share in zip(paths, rng.dirichlet(np.full(len(paths), 0.3)), strict=True):
                flows[path] += share * demand
        least = _least_beyond(game, columns, flows)
        certificate = eq.certify(game, flows)
        total = float(certificate.total_cost)
        gap, beyond = total - float(certificate.least_cost), float(certificate.gap_rounding)
        assert least <= 1e-9 * total
        assert beyond <= 0.02 * gap + 1e-9 * total
        ends = certificate.worst_path[[0, -1]].tolist()
        k = int(certificate.worst_pair)
        assert ends == [game.origins[k], game.destinations[k]]
        assert certificate.better_path[[0, -1]].tolist() == ends
        # The same flows with other trips, whose sums at every node are the same.
        other = game.replace(demand=_swapped(game))
        least = _least_beyond(other, columns, flows)
        if least > 1e-6 * total:
            try:
                certificate = eq.certify(other, flows)
            except ValueError as error:
                refused = str(error)
                assert "too few travellers" in refused
            else:
                assert float(certificate.gap_rounding) >= least - 1e-9 * total

    def test_flows_in_circles_cost_what_they_cost(self):
        """Traffic that goes around in circles carries nobody, and counts as excess."""
        game = eq.NetworkGame(
            [0, 1, 2, 1], [1, 2, 1, 3], [0], [3], [2.0], free_flow=[1, 1, 1, 1], b=0.0
        )
        certificate = eq.certify(game, [2.0, 0.5, 0.5, 2.0])
        assert certificate.relative_gap == pytest.approx(0.2)
        assert certificate.relative_gap_upper == pytest.approx(0.2)

    def test_without_numba(self, monkeypatch):
        source = kernels._source

        def python(name, seconds):
            return (None if seconds > 0 else partial(kernels.interpret, source(name))), "Python"

        monkeypatch.setattr(_split, "is_installed", lambda: False)
        monkeypatch.setattr(_split, "choose", python)
        game = eq.games.load("braess-network")
        assert eq.certify(game, [4.0, 2.0, 2.0, 4.0, 2.0]).relative_gap_upper < 1e-12
        monkeypatch.setattr(_split, "_SECONDS", 1e-6)
        with pytest.raises(ValueError, match="flows: expected Numba, to split this many flows"):
            eq.certify(game, [4.0, 2.0, 2.0, 4.0, 2.0])

    def test_costs_that_overflow_are_told(self):
        game = eq.NetworkGame([0, 0], [1, 1], [0], [1], [1e6], free_flow=[1, 2], power=60, b=1)
        with pytest.raises(ValueError, match="one that overflows on the link from 0 to 1"):
            eq.certify(game, [5e5, 5e5])

    def test_an_optimum_needs_marginal_costs_that_increase(self):
        game = eq.NetworkGame(
            [0, 0], [1, 1], [0], [1], [10.0], cost=lambda v: 1 + 1 / (1 + jnp.exp(-4 * (v - 5)))
        )
        assert eq.solve(game).status.ok
        with pytest.raises(ValueError, match="increasing marginal costs, for an optimum"):
            eq.solve(game, concept="optimum")

    @pytest.mark.parametrize(
        "costs",
        [
            # Five travellers are cheaper than nine on the first road: slopes do not show the jump.
            {"cost": lambda v: jnp.stack([jnp.where(v[0] > 5.0, 2.0, 1.0), 3.0 + 0.0 * v[1]])},
            {"cost": lambda v: 1 + v, "derivative": lambda v: 0.0 * v},
            {"cost": lambda v: 1 + v, "derivative": lambda v: 2.0 + 0.0 * v},
        ],
    )
    def test_an_optimum_needs_slopes_of_the_total_cost(self, costs):
        game = eq.NetworkGame([0, 0], [1, 1], [0], [1], [9.0], **costs)
        for call in (
            lambda: eq.solve(game, concept="optimum"),
            lambda: eq.certify(game, [9.0, 0.0], concept="optimum"),
            lambda: eq.networks.first_best_tolls(game),
        ):
            with pytest.raises(ValueError, match=r"derivative: expected the derivative of `cost`"):
                call()

    def test_published_flows_may_be_a_little_off(self):
        game = eq.games.load("braess-network")
        flows = np.array([4.0, 2.0, 2.0, 4.0, 2.0])
        assert eq.certify(game, flows + 1e-8).relative_gap < 1e-6


def random_network(seed):
    """Six nodes, most links there are, and three origins with two destinations each."""
    rng = np.random.default_rng(seed)
    ends = [(i, j) for i in range(6) for j in range(6) if i != j and rng.random() < 0.6]
    ends += [(i, (i + 1) % 6) for i in range(6) if (i, (i + 1) % 6) not in ends]
    tails, heads = np.array(ends).T
    trips = ([0, 0, 1, 1, 2, 2], [4, 5, 4, 3, 5, 3], rng.uniform(1.0, 5.0, 6))
    return eq.NetworkGame(tails, heads, *trips, free_flow=rng.uniform(1, 3, len(ends)))


def _swapped(game):
    """Demands with the same sums at origins and destinations."""
    least = game.demand[[0, 3, 4]].min()
    return game.demand + 0.9 * least * np.array([-1.0, 1.0, 1.0, -1.0, -1.0, 1.0])


def _least_beyond(game, columns, flows):
    """The least cost of what path flows that carry all trips use beyond link flows."""
    from scipy.optimize import linprog

    paths = [(k, path) for k, own in enumerate(columns) for path in own]
    use = np.zeros((game.links, len(paths)))
    for i, (_, path) in enumerate(paths):
        use[path, i] = 1.0
    carried = np.array([[float(k == own) for own, _ in paths] for k in range(len(columns))])
    found = linprog(
        np.concatenate([np.zeros(len(paths)), game.costs(flows)[0]]),
        A_ub=np.hstack([use, -np.eye(game.links)]),
        b_ub=flows,
        A_eq=np.hstack([carried, np.zeros((len(columns), game.links))]),
        b_eq=game.demand,
    )
    return float(found.fun)


class TestPathFlows:
    def test_gains_of_populations(self):
        game = two_roads()
        policy = eq.FlowPolicy([1.0, 2.0], [1.0, 2.0], [0, 0], [0, 1], [0, 1, 2])
        certificate = eq.certify(game, policy)
        # Costs 2 and 4: those on the second road lose 2.
        assert certificate.gains.tolist() == [2.0]
        assert certificate.by_paths
        assert certificate.largest_excess == 2.0
        assert certificate.relative_gap == pytest.approx((2 + 8 - 3 * 2) / 10)
        assert certificate.value.tolist() == [10 / 3]
        assert float(certificate.average_excess) == pytest.approx(4 / 3)

    def test_a_path_that_nobody_takes_does_not_count(self):
        policy = eq.FlowPolicy([3.0, 0.0], [3.0, 0.0], [0, 0], [0, 1], [0, 1, 2])
        assert eq.certify(two_roads(rise=0.0), policy).gains.tolist() == [0.0]

    def test_link_flows_of_the_same_paths_agree(self):
        game = city()
        solution = eq.solve(game, tolerance=1e-4)
        by_paths, by_links = solution.certificate, eq.certify(game, solution.policy.flows)
        assert by_paths.relative_gap == pytest.approx(by_links.relative_gap, rel=1e-6)
        assert by_links.largest_excess <= by_paths.largest_excess * (1 + 1e-9)

    def test_plain_form(self):
        certificate = eq.certify(eq.games.load("braess-network"), [6.0, 0.0, 0.0, 6.0, 6.0])
        plain = certificate.to_plain()
        again = eq.certificates.certificate_from_plain(plain)
        assert again == certificate
        assert again.relative_gap == certificate.relative_gap
        assert certificate[()] is certificate
        with pytest.raises(IndexError):
            certificate[0]

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"path_flows": [2.0, 2.0, 3.0]}, "the demand of 6 from 0 to 3, found 7"),
            ({"path_links": [0, 2, 4, 1, 3, 0, 2]}, "path_links: expected a path from 0 to 3"),
            ({"path_links": [0, 4, 3, 3, 1, 0, 2]}, "path_links: expected a path from 0 to 3"),
            ({"path_pairs": [0, 0, 1]}, "path_pairs: expected populations below 1"),
            ({"flows": [5.0, 1.0, 2.0, 4.0, 2.0]}, "the sums of the path flows"),
            ({"path_starts": [0, 3, 5, 6]}, "path_starts: expected increasing numbers from 0 to 7"),
            ({"path_links": [0, 4, 3, 1, 3, 0, 9]}, "path_links: expected links from 0 to 4"),
            ({"path_flows": [7.0, -3.0, 2.0]}, "path_flows: expected numbers >= 0"),
            ({"path_flows": None}, "path_flows: expected all of"),
        ],
    )
    def test_paths_that_are_none(self, changes, complaint):
        game = eq.games.load("braess-network")
        policy = eq.FlowPolicy(
            [4.0, 2.0, 2.0, 4.0, 2.0], [2.0] * 3, [0] * 3, [0, 4, 3, 1, 3, 0, 2], [0, 3, 5, 7]
        )
        assert eq.certify(game, policy).max_gain < 1e-12
        parts = {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy)}
        with pytest.raises(ValueError, match=complaint):
            eq.certify(game, eq.FlowPolicy(**parts | changes))

    @pytest.mark.parametrize("share", [1 - 9e-7, 1 + 9e-7])
    def test_travellers_whom_paths_lack_or_have_too_many(self, share):
        """Paths are scaled to the demand, within the tolerance; of links it counts in the bound."""
        game = two_roads(free_flow=1.0)
        flows = np.full(2, 1.5 * share)
        certificate = eq.certify(game, eq.FlowPolicy(flows, flows, [0, 0], [0, 1], [0, 1, 2]))
        whole = np.full(2, 1.5)
        scaled = eq.certify(game, eq.FlowPolicy(whole, whole, [0, 0], [0, 1], [0, 1, 2]))
        assert certificate.total_cost == pytest.approx(scaled.total_cost, rel=1e-15)
        assert certificate.travellers == pytest.approx(3.0, rel=1e-15)
        assert certificate.max_upper < 1e-13
        by_links = eq.certify(game, np.full(2, 1.5 * (1 - 3e-7)))
        assert by_links.relative_gap_upper >= 3e-7

    def test_link_flows_of_classes_are_sums_of_their_own_paths(self):
        game = eq.NetworkGame(
            [0, 0], [1, 1], [0, 0], [1, 1], [1.0, 1.0], classes=[0, 1], free_flow=1.0, b=0.0
        )
        paths = ([1.0, 1.0], [0, 1], [0, 1], [0, 1, 2])
        assert eq.certify(game, eq.FlowPolicy([[1.0, 0], [0, 1.0]], *paths)).max_gain == 0.0
        with pytest.raises(ValueError, match="the sums of the path flows"):
            eq.certify(game, eq.FlowPolicy([[0, 1.0], [1.0, 0]], *paths))
        with pytest.raises(ValueError, match="flows >= 0, found -1 on the link from 0 to 1"):
            eq.certify(game, [[2.0, -1.0], [0.0, 1.0]])

    def test_rounded_flows_need_more_digits(self):
        game = city()
        flows = eq.solve(game).policy.flows.round(1)
        with pytest.raises(ValueError, match="if these are rounded numbers, give more digits"):
            eq.certify(game, flows)


class TestDrivers:
    def gains_by_hand(self, game, policy):
        """Every driver tries every path, with its own car moved there."""
        flows = policy.total
        found = []
        for p in range(policy.paths):
            pair = int(policy.path_pairs[p])
            own = policy.path(p)
            here = game.times(flows)[own].sum()
            best = here
            for path in all_paths(game, game.origins[pair], game.destinations[pair]):
                moved = flows.copy()
                moved[own] -= 1
                moved[path] += 1
                best = min(best, game.times(moved)[path].sum())
            found += [here - best] * int(policy.path_flows[p])
        return np.array(found)

    def test_every_gain_is_exact(self):
        game = eq.networks.whole_drivers(city(rows=3, columns=3, zones=4, trips=60.0))
        flows = game.best(game.costs(np.zeros(game.links)))[0]
        rough = eq.solve(game.replace(atomic=False), time_limit=0.0).policy
        amounts = np.zeros(rough.paths)
        for k in range(len(game.demand)):  # all drivers on the first path of their population
            amounts[np.flatnonzero(rough.path_pairs == k)[0]] = game.demand[k]
        sizes = np.diff(rough.path_starts)
        flows = np.bincount(rough.path_links, np.repeat(amounts, sizes), game.links)
        policy = eq.FlowPolicy(
            flows, amounts, rough.path_pairs, rough.path_links, rough.path_starts
        )
        certificate = eq.certify(game, policy)
        assert certificate.players == game.players == 60
        used = amounts > 0
        spans = np.concatenate([[0], np.cumsum(sizes[used])])
        kept = eq.FlowPolicy(
            flows, amounts[used], rough.path_pairs[used],
            rough.path_links[np.repeat(used, sizes)], spans,
        )  # fmt: skip
        expected = self.gains_by_hand(game, kept)
        assert expected.max() > 0
        np.testing.assert_allclose(certificate.gains, expected, atol=1e-12)
        assert (certificate.upper >= expected).all()

    def test_best_replies_end_where_nobody_gains(self):
        game = eq.networks.whole_drivers(city(trips=3000.0))
        solution = eq.solve(game)
        assert solution.status.ok
        assert solution.certificate.max_gain <= 1e-11
        assert (solution.policy.path_flows % 1 == 0).all()
        carried = np.bincount(solution.policy.path_pairs, solution.policy.path_flows)
        np.testing.assert_array_equal(carried, game.demand)

    def test_few_drivers_against_brute_force(self):
        game = eq.networks.whole_drivers(city(rows=3, columns=3, zones=3, trips=30.0))
        solution = eq.solve(game)
        assert self.gains_by_hand(game, solution.policy).max() <= 1e-12

    def test_costs_that_are_a_function(self):
        """The formula as a function leads to an equilibrium too, and the exact gains agree."""
        game = eq.networks.whole_drivers(city(trips=2000.0))
        own = game.replace(cost=lambda v: game.times(v), derivative=lambda v: game.slopes(v))
        solution = eq.solve(own)
        assert solution.status.ok
        assert solution.certificate.max_gain < 1e-12
        assert eq.certify(game, solution.policy).max_gain < 1e-12
        assert solution.stats["moves"] > 0
        expected = eq.solve(game).stats["total_cost"]
        assert solution.stats["total_cost"] == pytest.approx(expected, rel=1e-3)

    def test_a_function_with_steps(self):
        """A road that is free for two cars, and one that costs 1 for everybody."""
        game = eq.NetworkGame(
            [0, 0], [1, 1], [0], [1], [5.0], atomic=True,
            cost=lambda v: np.array([np.where(v[0] <= 2, 0.0, 2.0 + 1e-3 * v[0]), 1.0]),
        )  # fmt: skip
        solution = eq.solve(game)
        assert solution.status.ok
        assert solution.policy.flows.tolist() == [2, 3]
        assert solution.stats["rounds"] > 0  # though no divided equilibrium was found

    def test_pigou_with_whole_drivers(self):
        """Costs 10 and v with 12 drivers: 9 or 10 on the second, which nobody leaves."""
        game = eq.NetworkGame(
            [0, 0], [1, 1], [0], [1], [12.0], free_flow=[10.0, 0.0], rise=[0.0, 1.0], power=1.0,
            atomic=True,
        )  # fmt: skip
        assert eq.solve(game).policy.flows[1] in (9.0, 10.0)
        for second, gain in ((8, 1.0), (9, 0.0), (10, 0.0), (11, 1.0)):
            flows = [12.0 - second, float(second)]
            policy = eq.FlowPolicy(flows, flows, [0, 0], [0, 1], [0, 1, 2])
            assert eq.certify(game, policy).max_gain == gain

    def test_rounding_keeps_the_total(self):
        game = eq.networks.whole_drivers(city(), drivers=12_345)
        assert game.players == 12_345
        assert (game.demand == np.floor(game.demand)).all()

    def test_tolls_count_in_the_mean_cost(self):
        game = eq.NetworkGame([0], [1], [0], [1], [4.0], free_flow=0.0, tolls=[3.0], atomic=True)
        solution = eq.solve(game)
        assert solution.status.ok
        assert solution.value == 3.0

    def test_the_value_is_that_of_the_final_flows(self):
        game = eq.networks.whole_drivers(city(trips=3000.0))
        solution = eq.solve(game)
        assert solution.stats["moves"] > 0
        mean = game.total_cost(solution.policy.flows) / game.players
        assert float(solution.value) == pytest.approx(mean, rel=1e-12)

    def test_what_is_refused(self):
        game = eq.networks.whole_drivers(eq.games.load("braess-network"))
        circle = eq.NetworkGame(
            [0, 1, 1], [1, 0, 2], [0], [2], [2.0], free_flow=1.0, b=0.0, atomic=True
        )
        twice = eq.FlowPolicy.of_paths(circle, [0], [2.0], [0, 1, 0, 2], [0, 4])
        with pytest.raises(ValueError, match="uses the link from 0 to 1 twice"):
            eq.certify(circle, twice)
        for wrong in (np.inf, np.nan, 2.5, "5"):
            with pytest.raises(ValueError, match="drivers: expected a whole number"):
                eq.networks.whole_drivers(game, drivers=wrong)
        with pytest.raises(ValueError, match="link flows do not say who drives where"):
            eq.certify(game, [4.0, 2.0, 2.0, 4.0, 2.0])
        halves = eq.FlowPolicy([5.5, 0.5, 5.5, 0.5, 0], [5.5, 0.5], [0, 0], [0, 2, 1, 3], [0, 2, 4])
        with pytest.raises(ValueError, match="whole numbers of drivers"):
            eq.certify(game, halves)
        with pytest.raises(ValueError, match="concept"):
            eq.solve(game, concept="optimum")
        with pytest.raises(ValueError, match="drivers: expected a whole number"):
            eq.networks.whole_drivers(game, drivers=0)


@pytest.mark.parametrize("concept", ["nash", "optimum"])
def test_travellers_who_are_missing_on_links_that_cost_nothing_are_noticed(concept):
    """Everybody ends at the destination of the others, since two free links are left empty."""
    game = eq.NetworkGame(
        tails=[0, 1, 2, 3, 0, 4, 1, 5],
        heads=[3, 2, 3, 2, 4, 2, 5, 3],
        origins=[0, 1],
        destinations=[2, 3],
        demand=[1.0, 1.0],
        free_flow=[1, 1, 0, 0, 5, 5, 5, 5],
        rise=[0, 0, 100, 100, 0, 0, 0, 0],
        power=1.0,
    )
    with pytest.raises(ValueError, match="at least 2 too few travellers"):
        eq.certify(game, [1.0, 1, 0, 0, 0, 0, 0, 0], concept=concept)


def steep(flows):
    game = eq.NetworkGame(
        [0, 0], [1, 1], [0], [1], [1.0], free_flow=1.0, rise=[1.0, 2.0], capacity=0.5, power=200
    )
    return game, eq.FlowPolicy.of_paths(game, [0, 0], flows, [0, 1], [0, 1, 2])


def test_path_flows_stand_for_the_whole_demand():
    flows = np.array([0.5, 0.5])
    expected = eq.certify(*steep(flows))
    for share in (1 - 9e-7, 1 + 9e-7):
        certificate = eq.certify(*steep(flows * share))
        np.testing.assert_allclose(certificate.gains, expected.gains, rtol=1e-12)
        assert certificate.total_cost == pytest.approx(expected.total_cost, rel=1e-12)
        assert certificate.upper[0] >= 1.0 > certificate.upper[0] - 1e-9


def test_an_optimum_where_the_slope_of_an_empty_link_is_infinite():
    game = eq.NetworkGame([0, 0], [1, 1], [0], [1], [1.0], free_flow=[0, 9], rise=1, power=0.5)
    certificate = eq.certify(game, [1.0, 0.0], concept="optimum")
    assert certificate.max_upper < 1e-12


def test_flows_whose_sums_overflow_are_refused():
    game = eq.NetworkGame([0, 0, 1, 1], [1, 1, 2, 2], [0], [2], [5.0], free_flow=1.0, rise=0.0)
    with pytest.raises(ValueError, match="a net flow of 0"):
        eq.certify(game, np.full(4, 1e308))  # infinite in and out of node 1
