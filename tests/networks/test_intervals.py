"""Prices and designs hold the truth however little time there was."""

from types import SimpleNamespace

import numpy as np
import pytest
from network_samples import all_paths, city

import equipoise as eq
from equipoise.networks._bounds import cost_of_equilibria

PIGOU = {"free_flow": [0.0, 1.0], "rise": [1.0, 0.0], "power": 1.0}


def pigou(power=1.0, **options):
    """Roads of cost v ** power and 1: all take the first, at a cost of 1."""
    return eq.NetworkGame([0, 0], [1, 1], [0], [1], [1.0], **PIGOU | {"power": power} | options)


def flows_of(game, rng):
    """Random flows on the paths of each population, as a solution without more."""
    pairs, paths, amounts = [], [], []
    for k, ends in enumerate(zip(game.origins, game.destinations, strict=True)):
        some = all_paths(game, *ends)[:5]
        share = rng.dirichlet(np.full(len(some), rng.choice([0.1, 1.0])))
        pairs += [k] * len(some)
        paths += some
        amounts += (share * game.demand[k]).tolist()
    starts = np.cumsum([0, *map(len, paths)])
    policy = eq.FlowPolicy.of_paths(game, pairs, amounts, np.concatenate(paths), starts)
    return SimpleNamespace(policy=policy, certificate=eq.certify(game, policy))


@pytest.mark.parametrize("power", [1.0, 4.0])
@pytest.mark.parametrize("second", np.append(0.0, np.geomspace(1e-12, 1.0, 25)))
def test_flows_at_any_distance_from_pigous_equilibrium(power, second):
    game = pigou(power)
    policy = eq.FlowPolicy.of_paths(game, [0, 0], [1.0 - second, second], [0, 1], [0, 1, 2])
    given = SimpleNamespace(policy=policy, certificate=eq.certify(game, policy))
    bounds = cost_of_equilibria(game, given, 0.0)
    assert bounds.lower <= 1.0 <= bounds.upper
    assert bounds.upper - bounds.lower < 1e-6 + 8.0 * power * second**0.5


@pytest.mark.parametrize("seed", range(8))
def test_flows_at_any_distance_from_an_equilibrium(seed):
    """Tolls, two values of time, links of constant cost, cost functions, powers below one."""
    rng = np.random.default_rng(seed)
    game = city(rows=3, columns=3, zones=4, trips=float(rng.choice([500.0, 4000.0])))
    constant = rng.random(game.links) < (0.2 if seed % 2 else 0.0)
    game = game.replace(rise=np.where(constant, 0.0, game.rise), power=[4.0, 0.5][seed == 4])
    if seed in (2, 3, 6):
        game = game.replace(tolls=rng.random(game.links) * game.free_flow.mean())
    if seed in (5, 6):
        count = len(game.demand)
        game = game.replace(classes=np.arange(count) % 2, values_of_time=[1.0, 3.0], labels=None)
    if seed == 7:
        whole = game
        game = game.replace(cost=lambda v: whole.times(v))
    solution = eq.solve(game, tolerance=1e-11)
    truth = solution.stats["total_cost"]
    narrow = cost_of_equilibria(game, solution, 0.0)
    assert narrow.lower <= truth <= narrow.upper
    if not constant.any():
        assert narrow.upper - narrow.lower < 1e-3 * truth
    for _ in range(4):
        wide = cost_of_equilibria(game, flows_of(game, rng), 0.0)
        assert wide.lower <= truth <= wide.upper


def test_constant_costs_under_tolls_leave_the_total_open():
    """Times 1 and 2, and a toll of 1 on the first: travellers are indifferent, the total is not."""
    game = eq.NetworkGame([0, 0], [1, 1], [0], [1], [1.0], free_flow=[1, 2], b=0, tolls=[1, 0])
    bounds = cost_of_equilibria(game, eq.solve(game), 0.0)
    assert bounds.lower <= 1.0 < 2.0 <= bounds.upper
    assert bounds.upper - bounds.lower < 1.0 + 1e-9


def test_without_time_prices_hold_the_truth_and_say_so():
    game = city(rows=4, columns=4, zones=6, trips=6000.0)
    truth = eq.networks.price_of_anarchy(game)
    assert truth.status.name == "solved"
    assert 1.0 < truth.anarchy.lower <= truth.anarchy.upper < truth.anarchy.lower + 1e-5
    early = eq.networks.price_of_anarchy(game, time_limit=0.0)
    assert early.status.name == "out of time"
    assert early.anarchy.lower <= truth.anarchy.lower <= truth.anarchy.upper <= early.anarchy.upper
    price = eq.networks.price_of_anarchy(pigou()).anarchy
    assert price.lower <= 4.0 / 3.0 <= price.upper < 4.0 / 3.0 + 1e-6


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.5]])
def test_without_time_tolls_hold_the_truth_and_say_so(values):
    game = city(rows=4, columns=4, zones=6, trips=6000.0)
    classes = np.arange(len(game.demand)) % len(values)
    game = game.replace(classes=classes, values_of_time=values, labels=None)
    before = eq.solve(game, tolerance=1e-11).stats["total_cost"]
    searches = (
        lambda: eq.networks.first_best_tolls(game, time_limit=0.0),
        lambda: eq.networks.best_tolls(game, 2, time_limit=0.0),
        lambda: eq.networks.given_tolls(game, game.free_flow, time_limit=0.0),
        lambda: eq.networks.best_capacities(game, 100.0, time_limit=0.0),
    )
    for search in searches:
        design = search()
        assert design.status.name == "out of time"
        assert design.before.lower <= before <= design.before.upper
        after = eq.solve(design.game, tolerance=1e-11).stats["total_cost"]
        assert design.after.lower <= after <= design.after.upper
        least = eq.solve(design.game, concept="optimum", tolerance=1e-11).stats["total_cost"]
        assert design.lower_bound <= least
        saved = (before - after) / (before - least)
        assert design.what == "capacities" or design.saved.lower <= saved <= design.saved.upper
    first = eq.networks.first_best_tolls(game)
    assert first.status.name == "solved"
    assert first.saved.lower > 0.99


def test_a_design_without_a_change_saves_nothing():
    design = eq.networks.best_tolls(city(rows=3, columns=3, zones=4), 1, most=0.0)
    assert not len(design.links)
    assert (design.saved.lower, design.saved.upper) == (0.0, 0.0)
