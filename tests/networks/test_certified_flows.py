"""Certificates of flows, whoever made them, and what they refuse."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from network_samples import all_paths, city, two_roads

import equipoise as eq


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
            ([3.0, 3.0, 3.0, 3.0], "flows: expected those of 5 links, found shape"),
            ([4.0, 2.0, 2.0, 4.1, 2.0], "more out of node"),
            ([4.0, 2.0, 2.0, np.nan, 2.0], "finite"),
            ([4.0, 4.0, 4.0, 4.0, -2.0], "flows >= 0"),
            ([5.0, 2.0, 3.0, 4.0, 2.0], "carry the demand"),
            (np.ones((2, 5)), "those of 1 classes"),
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
        with pytest.raises(ValueError, match="some trips are missing or end elsewhere"):
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
            with pytest.raises(ValueError, match="some trips are missing or end elsewhere"):
                eq.certify(game, share * flows)
        # Less than the 1e-6 that published flows may be off: it counts in the bound.
        slightly = eq.certify(game, (1 - 1e-7) * flows)
        assert slightly.relative_gap_upper > 5e-8
        assert slightly.max_upper > 0.0

    def test_costs_that_overflow_are_told(self):
        game = eq.NetworkGame([0, 0], [1, 1], [0], [1], [1e6], free_flow=[1, 2], power=60, b=1)
        with pytest.raises(ValueError, match="one that overflows on the link from 0 to 1"):
            eq.certify(game, [5e5, 5e5])

    def test_an_optimum_needs_marginal_costs_that_increase(self):
        game = eq.NetworkGame(
            [0, 0], [1, 1], [0], [1], [10.0], cost=lambda v: 1 + 1 / (1 + jnp.exp(-4 * (v - 5)))
        )
        assert eq.solve(game).status.ok
        with pytest.raises(ValueError, match="marginal costs that increase, for an optimum"):
            eq.solve(game, concept="optimum")

    def test_published_flows_may_be_a_little_off(self):
        game = eq.games.load("braess-network")
        flows = np.array([4.0, 2.0, 2.0, 4.0, 2.0])
        assert eq.certify(game, flows + 1e-8).relative_gap < 1e-6


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
            ({"path_starts": [0, 3, 5, 6]}, "path_starts: expected numbers that grow from 0 to 7"),
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
        assert solution.certificate.max_gain == 0.0
        assert eq.certify(game, solution.policy).max_gain == 0.0
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

    def test_what_is_refused(self):
        game = eq.networks.whole_drivers(eq.games.load("braess-network"))
        with pytest.raises(ValueError, match="link flows do not say who drives where"):
            eq.certify(game, [4.0, 2.0, 2.0, 4.0, 2.0])
        halves = eq.FlowPolicy([5.5, 0.5, 5.5, 0.5, 0], [5.5, 0.5], [0, 0], [0, 2, 1, 3], [0, 2, 4])
        with pytest.raises(ValueError, match="whole numbers of drivers"):
            eq.certify(game, halves)
        with pytest.raises(ValueError, match="concept"):
            eq.solve(game, concept="optimum")
        with pytest.raises(ValueError, match="drivers: expected a whole number"):
            eq.networks.whole_drivers(game, drivers=0)
