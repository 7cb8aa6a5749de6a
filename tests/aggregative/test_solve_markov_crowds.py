"""Policies of Markov games: bounds, values, welfare, classes."""

from itertools import product

import numpy as np
import pytest
from aggregative.crowd_games import city

import equipoise as eq
from equipoise.aggregative._cells import near_best


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("agents", [3, 40])
@pytest.mark.parametrize("seed", range(2))
def test_gaps_are_within_the_bound(d, agents, seed):
    game = city(agents, states=3, horizon=4, d=d, seed=seed)
    steps, delta = game.horizon, game.delta
    moving = delta * game.transition_lipschitz * steps * (steps - 1)
    for options in ({}, {"objective": "welfare", "spacing": 0.2, "slack": "lemma"}):
        solution = eq.solve(game, **options)
        side = np.nan_to_num(solution.stats["spacing"])  # best replies need no cells
        stated = solution.tolerance + steps * game.lipschitz * (2 * side + (d + 2) * delta) + moving
        assert solution.status.name in ("solved", "not solved")
        assert solution.status.ok == (solution.certificate.max_upper <= solution.tolerance)
        assert solution.certificate.max_gain <= solution.stats["bound"] <= stated + 1e-12
        assert solution.certificate.gains.min() >= -1e-12


def test_the_bound_where_only_transitions_move():
    """Without rewards, Lemma B leaves what a deviation changes in each of the later steps."""
    rng = np.random.default_rng(0)
    calm, busy = rng.dirichlet(np.ones(2), (2, 5, 2))
    game = eq.AggregativeMarkovGame(
        rng.random((6, 2, 1)),
        lambda h, s, x: np.zeros((6, 2)) + 0.0 * x.sum(-1),
        lambda h, s, x: calm[h, s] + x[..., :1] * (busy[h, s] - calm[h, s]),
        5,
        2,
        lipschitz=0.0,
        transition_lipschitz=2.0,
    )
    low, high = game.bounds
    later = 4 + 3 + 2 + 1
    bound = eq.solve(game).stats["bound"]
    assert bound == pytest.approx(game.delta * 2.0 * (high - low) * later)


@pytest.mark.parametrize(
    "options", [{}, {"objective": "welfare"}, {"objective": "welfare", "sense": "min"}]
)
def test_values_of_the_planner_are_those_of_the_certificate(options):
    for counts in (None, [7, 1, 30, 12]):
        game = city(4 if counts else 25, states=3, horizon=4, counts=counts)
        solution = eq.solve(game, **options)
        np.testing.assert_allclose(solution.value, solution.certificate.mean_value, atol=1e-10)
        np.testing.assert_allclose(solution.certificate.value.mean(-1), solution.value, atol=1e-10)
        assert solution.certificate.state_gains.shape == (3, game.agents)


def test_welfare_is_what_following_the_policy_earns():
    game = city(30, states=3, horizon=4)
    welfare = np.random.default_rng(1).random((4, 3, 30, 3))
    solution = eq.solve(game, objective="welfare", welfare=welfare)
    actions = solution.policy.per_agent()
    expected = np.zeros(3)
    for h in reversed(range(4)):
        now = np.empty(3)
        for s in range(3):
            played = actions[:, h, s]
            x = game.influence[np.arange(30), played].mean(0)
            np.testing.assert_allclose(x, solution.stats["aggregate"][h, s], atol=1e-12)
            now[s] = welfare[h, s, np.arange(30), played].mean()
            now[s] += game.transition(h, s, x) @ expected
        expected = now
    np.testing.assert_allclose(solution.stats["welfare"], expected, atol=1e-12)


def test_what_is_to_come_cancels_from_best_replies(rng):
    """Lemma B: the actions near the best of Q are those near the best of r, for any V."""
    rewards = rng.uniform(-1, 1, (50, 7, 3))
    ahead = rng.uniform(-20, 20, (50, 7, 1))  # depends on the aggregate, not on the action
    for slack in (0.0, 0.1, 0.7):
        np.testing.assert_array_equal(near_best(rewards, slack), near_best(rewards + ahead, slack))


def brute_force(game, welfare, *, nash=True):
    """The best welfare of a policy that is a Nash equilibrium of every stage, or of any policy."""
    n, (m,), states = game.agents, game.actions, game.states
    ahead_value, ahead_welfare = np.zeros((states, n)), np.zeros(states)
    for h in reversed(range(game.horizon)):
        values, worths = np.empty((states, n)), np.full(states, -np.inf)
        for s in range(states):
            for profile in product(range(m), repeat=n):
                played = np.array(profile)
                x = game.scale * game.influence[np.arange(n), played].sum(0)
                rewards = game.rewards(h, s, x)[np.arange(n), played]
                if nash and not stage_nash(game, h, s, played, rewards):
                    continue
                chances = game.transitions(h, s, x)
                worth = welfare[np.arange(n), played].mean() + chances @ ahead_welfare
                if worth > worths[s]:
                    worths[s] = worth
                    values[s] = rewards + ahead_value.T @ chances
        ahead_value, ahead_welfare = values, worths
    return ahead_welfare


def stage_nash(game, h, s, played, rewards, epsilon=1e-12):
    for i, a in product(range(game.agents), range(game.actions[0])):
        other = played.copy()
        other[i] = a
        x = game.scale * game.influence[np.arange(game.agents), other].sum(0)
        if game.rewards(h, s, x)[i, a] > rewards[i] + epsilon:
            return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_no_policy_of_stage_equilibria_is_better(seed):
    game = city(4, states=2, horizon=2, actions=2, seed=seed)
    welfare = np.random.default_rng(seed).random((4, 2))
    known = brute_force(game, welfare)
    assert np.isfinite(known).all()  # every stage of these games has a pure equilibrium
    side = 0.02
    found = eq.solve(game, objective="welfare", welfare=welfare, spacing=side, slack="lemma")
    steps = game.horizon
    # d agents decided anew in each step, and transitions taken at centres of cells.
    rounding = steps * np.ptp(welfare) / 4
    moving = game.transition_lipschitz * (side + game.delta) * steps * (steps - 1) / 2
    assert (found.stats["welfare"] >= known - rounding - moving * np.ptp(welfare)).all()
    least = eq.solve(
        game, objective="welfare", welfare=welfare, spacing=side, slack="lemma", sense="min"
    )
    assert (found.stats["welfare"] >= least.stats["welfare"] - 1e-12).all()


@pytest.mark.parametrize("seed", range(4))
def test_optimum_and_prices_against_all_policies(seed):
    game = city(4, states=2, horizon=2, actions=2, seed=seed)
    welfare = 1.0 + np.random.default_rng(seed).random((4, 2))
    best = eq.solve(game, objective="welfare", welfare=welfare, tolerance=1e-9)
    optimum = eq.solve(game, concept="optimum", objective="welfare", welfare=welfare)
    known, most = brute_force(game, welfare), brute_force(game, welfare, nash=False)
    assert optimum.status.ok
    np.testing.assert_allclose(optimum.stats["objective"], most, atol=1e-9)
    np.testing.assert_allclose(optimum.stats["best_possible"], most, atol=1e-9)
    assert (best.stats["best_possible"] >= known - 1e-9).all()
    assert (best.stats["objective"] <= best.stats["best_possible"] + 1e-9).all()
    assert (best.stats["objective"] <= most + 1e-9).all()
    prices = eq.prices(game, welfare=welfare)
    anarchy, stability, highest = prices.anarchy, prices.stability, prices.best
    assert anarchy is not None
    assert stability is not None
    assert highest is not None
    np.testing.assert_allclose(prices.optimum.lower, most, atol=1e-9)
    np.testing.assert_allclose([stability.lower, stability.upper], [most / highest.lower] * 2)
    assert (anarchy.upper >= stability.lower).all()
    with pytest.raises(ValueError, match="objective: expected"):
        eq.solve(game, concept="optimum", objective="loss", loss=welfare)
    with pytest.raises(ValueError, match="method: expected 'backward'"):
        eq.solve(game, concept="optimum", method="state-wise")


def least_values(game, within):
    """(policies, states): the least value of any agent, of all policies whose stages leave gains
    of at most `within`."""
    stages = []
    for h, s in product(range(game.horizon), range(game.states)):
        kept = []
        for played in product(range(game.actions[0]), repeat=game.agents):
            played = np.array(played)
            x = game.scale * game.influence[np.arange(game.agents), played].sum(0)
            rewards = game.rewards(h, s, x)[np.arange(game.agents), played]
            if stage_nash(game, h, s, played, rewards, within):
                kept.append((rewards, game.transitions(h, s, x)))
        stages.append(kept)
    found = []
    for chosen in product(*stages):
        values = np.zeros((game.states, game.agents))
        for h in reversed(range(game.horizon)):
            now = [chosen[h * game.states + s] for s in range(game.states)]
            values = np.stack([rewards + chances @ values for rewards, chances in now])
        found.append(values.min(1))
    return np.array(found)


@pytest.mark.parametrize("seed", range(6))
def test_the_agent_who_has_least_against_all_policies(seed):
    game = city(3, states=2, horizon=2, actions=2, seed=seed)
    loose = game.lipschitz * (game.dimensions + 1) * game.delta  # what stages may leave
    for sense, sign in (("max", 1.0), ("min", -1.0)):
        found = eq.solve(game, objective="egalitarian", sense=sense, tolerance=0.01)
        known = least_values(game, 0.25 * 0.01 if found.status.ok else loose)
        np.testing.assert_allclose(found.stats["objective"], found.certificate.value.min(1))
        np.testing.assert_allclose(found.stats["welfare"], found.certificate.mean_value)
        best = sign * (sign * known).max(0)
        assert (sign * found.stats["best_possible"] >= sign * best - 1e-9).all()
        mean = (sign * known.mean(1)).max()
        assert sign * found.stats["objective"].mean() <= mean + 1e-9
        assert sign * found.stats["objective"].mean() >= mean - 0.05
    with pytest.raises(ValueError, match="method: expected 'backward'"):
        eq.solve(game, objective="egalitarian", method="state-wise")


@pytest.mark.parametrize("sense", ["max", "min"])
def test_choices_meet_the_tolerance_where_any_equilibrium_does(sense):
    game = eq.games.load("demand-response", agents=1000)
    assert eq.solve(game).status.ok
    assert eq.solve(game, objective="welfare", sense=sense).status.ok


def test_the_fairest_equilibrium_is_not_the_best_for_society():
    """Two towns share a bridge; only one kind of agents gains from the better equilibrium."""
    game = eq.AggregativeMarkovGame(
        [[[1.0], [0.0]], [[0.0], [0.0]]],
        # The first type all go or all stay; going harms the second type, which cannot choose.
        lambda h, s, x: np.stack(
            [
                np.stack([2.0 * x[..., 0] - 0.5, 0.0 * x[..., 0]], -1),
                np.stack([-0.9 * x[..., 0]] * 2, -1),
            ],
            -2,
        ),
        lambda h, s, x: np.broadcast_to([1.0], (*np.shape(x)[:-1], 1)),
        3,
        1,
        [200, 100],
        lipschitz=2.0,
        transition_lipschitz=0.0,
        bounds=(-2.0, 2.0),
    )
    best = eq.solve(game, objective="welfare")
    fair = eq.solve(game, objective="egalitarian")
    assert best.status.ok
    assert fair.status.ok
    assert best.certificate.value.min() == pytest.approx(-1.8)
    assert fair.certificate.value.min() == pytest.approx(0.0)
    assert fair.stats["best_possible"][0] == pytest.approx(0.0, abs=0.01)
    worst = eq.solve(game, objective="egalitarian", sense="min")
    assert worst.stats["objective"][0] == pytest.approx(-1.8)
    assert worst.stats["best_possible"][0] <= -1.8 + 1e-9
    assert "least reward" in fair.status.message


def test_bounds_hold_where_profiles_are_too_many_to_list():
    """Three hundred agents: what is proven of the optimum is above anything that is found."""
    game = city(3, states=2, horizon=2, actions=2, seed=5, counts=[100, 120, 80])
    best, optimum = (eq.solve(game, concept=c, objective="welfare") for c in ("nash", "optimum"))
    assert (optimum.stats["best_possible"] >= optimum.stats["objective"] - 1e-9).all()
    assert (optimum.stats["objective"] >= best.stats["objective"] - 1e-6).all()
    assert (best.stats["best_possible"] >= best.stats["objective"] - 1e-9).all()
    prices = eq.prices(game)
    assert prices.best is not None
    assert prices.worst is not None
    assert (prices.worst.upper <= prices.best.lower + 1e-9).all()


def test_looking_ahead_pays():
    """Algorithm 2 reaches more welfare than Algorithm 1, with equilibria of the same kind."""
    join = np.array([[0.0, 1.0]])
    game = eq.AggregativeMarkovGame(
        join[..., None],
        lambda h, s, x: join * (0.9 * x[..., 0] - 0.3),  # nobody or everybody joins
        lambda h, s, x: np.stack([1 - x[..., 0], x[..., 0]], -1),
        2,
        2,
        [100],
        lipschitz=0.9,
        transition_lipschitz=1.0,
    )
    # Joining costs society a little now, and leads to the state that is worth something.
    welfare = np.zeros((2, 2, 1, 2))
    welfare[:, 1] += 1.0
    welfare[..., 1] -= 0.1
    ahead = eq.solve(game, objective="welfare", welfare=welfare)
    myopic = eq.solve(game, objective="welfare", welfare=welfare, method="state-wise")
    assert ahead.stats["welfare"] == pytest.approx([0.9, 1.9])
    assert myopic.stats["welfare"] == pytest.approx([0.0, 1.0])
    assert myopic.status.ok
    with pytest.raises(ValueError, match="method: expected 'backward' or 'state-wise'"):
        eq.solve(game, method="forward")


def test_classes_are_few_and_the_same_as_explicit_agents():
    kinds = city(3, states=3, horizon=4, counts=[40, 25, 35])
    solution = eq.solve(kinds)
    assert solution.stats["classes"] <= 3 + 3 * 4
    order = np.repeat(np.arange(3), kinds.counts)
    each = eq.AggregativeMarkovGame(
        kinds.influence[order],
        lambda h, s, x: kinds.rewards(h, s, x)[order],
        kinds.transition,
        4,
        3,
        lipschitz=0.5,
        transition_lipschitz=kinds.transition_lipschitz,
    )
    explicit = eq.certify(each, solution.policy.per_agent())
    np.testing.assert_allclose(explicit.gains, solution.certificate.gains, atol=1e-12)
    np.testing.assert_allclose(explicit.value, solution.certificate.value, atol=1e-12)
    grouped = eq.solve(each)
    assert grouped.stats["types"] == 3
    np.testing.assert_allclose(grouped.stats["aggregate"], solution.stats["aggregate"], atol=1e-12)
    assert grouped.certificate.max_gain == pytest.approx(solution.certificate.max_gain, abs=1e-12)


def test_the_printed_tolerance_costs_much():
    game = city(100, states=5, horizon=5)
    printed = eq.solve(game, objective="welfare", spacing=0.05, slack="printed", rounding="sample")
    ours = eq.solve(game, objective="welfare", spacing=0.05, slack="lemma")
    assert printed.certificate.max_gain > 3 * ours.certificate.max_gain


def test_influence_may_depend_on_step_and_state(rng):
    influence = rng.random((3, 2, 10, 3, 1))
    base = rng.uniform(-0.5, 0.5, (10, 3))
    game = eq.AggregativeMarkovGame(
        influence,
        lambda h, s, x: base - 0.4 * x[..., 0],
        lambda h, s, x: np.broadcast_to([0.5, 0.5], (*np.shape(x)[:-1], 2)),
        3,
        2,
        lipschitz=0.4,
        transition_lipschitz=0.0,
    )
    solution = eq.solve(game)
    played = solution.policy.per_agent()[:, 1, 0]
    x = influence[1, 0, np.arange(10), played].mean(0)
    np.testing.assert_allclose(solution.stats["aggregate"][1, 0], x, atol=1e-12)


@pytest.mark.parametrize("name", ["epidemic", "demand-response"])
def test_the_best_for_society_is_no_worse_than_any(name):
    """Step by step, the plan of least regret was among those compared."""
    game = eq.games.load(name, agents=2000, horizon=5)
    best, anyone = eq.solve(game, objective="welfare"), eq.solve(game)
    worst = eq.solve(game, objective="welfare", sense="min")
    assert (best.stats["welfare"] >= anyone.stats["welfare"] - 1e-6).all()
    assert (worst.stats["welfare"] <= anyone.stats["welfare"] + 1e-6).all()
