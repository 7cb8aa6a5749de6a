"""Pure near-equilibria of normal forms: feasibility, bounds, brute force, grouping."""

from itertools import product

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from aggregative.crowd_games import crowd

import equipoise as eq
from equipoise.aggregative._cells import near_best, possible, solve_cell, stage_of, tile
from equipoise.aggregative._classes import group_agents


def feasible_cells(game, spacing, factor=1.0):
    """How many cells are feasible at `factor` times the slack of lemma A."""
    stage = stage_of(game)
    centres, half = tile(stage.low, stage.high, spacing)
    side = 2 * half.max()
    rewards = stage.rewards(centres)
    allowed = near_best(rewards, factor * game.lipschitz * side)
    passed = np.flatnonzero(possible(stage, allowed, centres, half))
    cells = [solve_cell(stage, rewards[i], allowed[i], centres[i], half) for i in passed]
    return sum(cell is not None for cell in cells)


@hypothesis.given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 3), st.data())
def test_a_cell_is_always_feasible(seed, agents, d, data):
    spacing = data.draw(st.sampled_from([0.5, 0.3, 0.11]))
    game = crowd(agents, d, seed=seed, slope=data.draw(st.sampled_from([0.1, 0.5])))
    assert feasible_cells(game, spacing) >= 1


def test_the_antisymmetric_bar_needs_just_that_tolerance():
    """Going is liked as much as staying is not; the full slack, and no less, will do."""
    sign = np.array([[-1.0, 1.0]])
    bar = eq.AggregativeGame(
        [[[0.0], [1.0]]], lambda x: sign * (0.5 - x[..., 0]), 1.0, counts=[1000]
    )
    # Four cells: the threshold is on an edge, half a side from the nearest centres.
    assert feasible_cells(bar, 0.25) == 2
    assert feasible_cells(bar, 0.25, factor=0.999) == 0


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("agents", [1, 7, 60])
@pytest.mark.parametrize("seed", range(3))
def test_gaps_are_within_the_bound(d, agents, seed):
    game = crowd(agents, d, seed=seed)
    any_nash = eq.solve(game)
    delta, gamma = game.delta, game.lipschitz
    assert any_nash.status.ok
    assert any_nash.certificate.max_gain <= gamma * (2 * 0.25 * delta + (d + 1) * delta) + 1e-12
    best = eq.solve(game, objective="welfare", spacing=0.2, slack="lemma")
    side = best.stats["spacing"]
    assert best.certificate.max_gain <= gamma * (2 * side + (d + 2) * delta) + 1e-12
    assert best.stats["bound"] == pytest.approx(gamma * (2 * side + (d + 2) * delta))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_no_pure_nash_profile_is_better(d, seed):
    """Brute force over all profiles of a tiny game."""
    game = crowd(5, d, actions=2, seed=seed)
    welfare = np.random.default_rng(seed).random((5, 2))
    profiles = np.array(list(product(range(2), repeat=5)))
    gains = np.array([eq.certify(game, profile).max_gain for profile in profiles])
    worth = np.array([welfare[np.arange(5), profile].mean() for profile in profiles])
    for epsilon in (0.0, 0.05):
        stable = gains <= epsilon + 1e-12
        given = {"welfare": welfare, "spacing": 0.1, "slack": "lemma", "epsilon": epsilon}
        best = eq.solve(game, objective="welfare", **given)
        worst = eq.solve(game, objective="welfare", sense="min", **given)
        loss = d * np.ptp(welfare) / 5  # d agents are decided anew
        if stable.any():
            assert best.stats["welfare"] >= worth[stable].max() - loss - 1e-12
            assert worst.stats["welfare"] <= worth[stable].min() + loss + 1e-12
        assert best.stats["welfare"] >= worst.stats["welfare"] - 2 * loss
        found = (profiles == best.policy.per_agent()).all(1)
        assert gains[found] == pytest.approx(best.certificate.max_gain)
        assert worth[found] == pytest.approx(best.stats["welfare"])


@pytest.mark.parametrize("agents", [25, 101])
@pytest.mark.parametrize("objective", ["regret", "welfare"])
def test_the_last_driver_takes_the_right_road(agents, objective):
    """One fewer than half on the motorway is Nash; the nearest rounding is one more."""
    town = eq.games.load("two-roads", agents=agents)
    solution = eq.solve(town, objective=objective)
    assert solution.certificate.max_gain <= solution.certificate.rounding
    half = agents // 2
    assert solution.policy.plays(1, 2).tolist() == [[half, agents - half]]
    assert solution.stats["aggregate"] == pytest.approx(half / agents)
    profile = np.repeat([0, 1], [half, agents - half])
    assert solution.stats["welfare"] == pytest.approx(eq.certify(town, profile).value.mean())
    assert all(one.gain < 1e-15 for one in eq.aggregative.equilibria(town))


def test_loss_is_welfare_turned_around():
    game, loss = crowd(50), np.random.default_rng(0).random((50, 3))
    least = eq.solve(game, objective="loss", loss=loss)
    turned = eq.solve(game, objective="welfare", welfare=loss, sense="min")
    np.testing.assert_array_equal(least.policy.per_agent(), turned.policy.per_agent())


def test_identical_agents_are_grouped():
    kinds = crowd(3, counts=[40, 30, 30])
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(3), kinds.counts))
    each = eq.AggregativeGame(
        kinds.influence[order],
        lambda x: kinds.rewards(x)[order] if x.ndim == 1 else kinds.own_rewards(x)[order],
        kinds.lipschitz,
        elementwise=False,
    )
    groups = group_agents(each)
    assert len(groups.first) == 3
    assert sorted(groups.counts) == [30, 30, 40]
    ours, theirs = eq.solve(each), eq.solve(kinds)
    assert ours.stats["types"] == 3
    np.testing.assert_allclose(ours.stats["aggregate"], theirs.stats["aggregate"], atol=1e-12)
    assert ours.certificate.max_gain == pytest.approx(theirs.certificate.max_gain, abs=1e-12)
    assert ours.policy.per_agent().shape == (100,)


def test_agents_who_only_look_alike_are_told_apart_by_the_certificate():
    """Two agents agree wherever the planner looks, and differ at the equilibrium."""

    def reward(x):
        bump = np.maximum(0.0, 0.05 - abs(x[..., 0] - 0.5))
        return np.array([[0.0, 0.0], [0.0, 0.0]]) + np.array([[0, 0], [0, 1]]) * bump

    game = eq.AggregativeGame([[[0.0], [1.0]]] * 2, reward, 1.0)
    assert len(group_agents(game).first) == 1
    assert eq.certify(game, [1, 0]).value.tolist() == [0.0, 0.0]
    assert eq.certify(game, [0, 1]).value.tolist() == [0.0, 0.05]
    assert eq.certify(game, [0, 0]).gains.tolist() == [0.0, 0.05]


@pytest.mark.parametrize(("slack", "rounding"), [("printed", "sample"), (0.3, "vertex")])
def test_other_slacks_are_worse_here(slack, rounding):
    game = crowd(1000)
    printed = eq.solve(
        game, objective="welfare", spacing=0.05, slack=slack, rounding=rounding, key=1
    )
    ours = eq.solve(game, objective="welfare", spacing=0.05, slack="lemma")
    assert printed.certificate.max_gain > ours.certificate.max_gain
    assert (printed.stats["bound"] is None) == (rounding == "sample")
    again = eq.solve(game, objective="welfare", spacing=0.05, slack=slack, rounding=rounding, key=1)
    np.testing.assert_array_equal(printed.policy.actions, again.policy.actions)


def test_the_printed_tolerance_fails_on_the_bar():
    """No cell is feasible; the smallest slack that works is found, and it is said."""
    bar = eq.games.load("el-farol", agents=1_000_000, capacity=0.55)
    solution = eq.solve(bar, objective="welfare", spacing=0.1, slack="printed")
    assert solution.stats["relaxed"] > 1
    assert "no cell was feasible until" in str(solution.status)
    assert not solution.status.ok


def test_a_wrong_lipschitz_constant_is_noticed():
    """Too small a constant: cells fail, the slack grows, the status says so; replies go on."""
    sign = np.array([[-1.0, 1.0]])
    bar = eq.AggregativeGame(
        [[[0.0], [1.0]]], lambda x: sign * (0.5 - x[..., 0]), 1e-3, counts=[999]
    )
    solution = eq.solve(bar, objective="welfare", spacing=0.25, slack="lemma")
    assert solution.stats["relaxed"] > 1
    assert "give a larger `lipschitz`" in solution.status.message
    honest = eq.solve(bar, objective="welfare")
    assert honest.certificate.max_gain <= honest.certificate.rounding


def test_an_estimated_constant_is_labelled():
    game = crowd(20)
    guessed = eq.AggregativeGame(game.influence, game.rewards, elementwise=False)
    assert guessed.lipschitz_estimated
    assert guessed.lipschitz >= game.lipschitz
    assert "estimated" in eq.solve(guessed).status.message


def test_options_are_checked():
    game = crowd(5)
    for options, message in (
        ({"objective": "fun"}, "objective: expected one of"),
        ({"sense": "up"}, "sense: expected 'max' or 'min'"),
        ({"sense": "min"}, "sense: expected objective='welfare', 'egalitarian' or a function"),
        ({"epsilon": 0.1}, "epsilon: expected objective='welfare' or 'loss', and slack"),
        ({"epsilon": 0.1, "objective": "welfare"}, "epsilon: expected slack='lemma' with epsilon"),
        ({"slack": "lemma", "objective": "egalitarian"}, "objective: expected objective='regret'"),
        ({"concept": "core"}, "concept: expected 'nash' or 'optimum'"),
        ({"concept": "optimum", "objective": "loss", "loss": np.ones((5, 3))}, "objective: expec"),
        ({"time_limit": -1.0}, "time_limit: expected a number in"),
        ({"rounding": "down"}, "rounding: expected"),
        ({"slack": "paper"}, "slack: expected a number, 'lemma' or 'printed'"),
        ({"slack": -1.0}, "slack: expected a number in"),
        ({"tolerance": -1.0}, "tolerance: expected a number in"),
        ({"spacing": 0.0}, "spacing: expected a number in"),
        ({"spacing": 1e-9}, "spacing: expected at most 4,000,000 cells"),
        (
            {"spacing": 1e-9, "objective": "welfare", "slack": "printed"},
            "spacing: expected at most 4,000,000 cells",
        ),
        ({"key": -1}, "key: expected a whole number"),
        (
            {"welfare": np.ones((5, 3))},
            "welfare: expected this option only with objective='welfare'",
        ),
        ({"objective": "welfare", "welfare": np.ones((4, 3))}, r"welfare: expected shape \(5, 3\)"),
        ({"objective": "loss"}, "loss: expected an array"),
    ):
        with pytest.raises(ValueError, match=message):
            eq.solve(game, **options)


def test_a_coordinate_that_nobody_moves_costs_nothing():
    """Cells have no width along it, and are not halved there."""
    game = crowd(200)
    flat = np.concatenate([game.influence, np.full((200, 3, 1), 0.3)], 2)
    wide = eq.AggregativeGame(flat, lambda x: game.field.function(x[..., :1]), game.lipschitz)
    ours, theirs = eq.solve(wide), eq.solve(game)
    assert ours.stats["aggregate"][0] == pytest.approx(theirs.stats["aggregate"][0], abs=1e-2)
    assert ours.stats["cells"] <= 3 * theirs.stats["cells"]
    assert ours.status.ok


def test_nothing_to_choose():
    lonely = eq.AggregativeGame([[[0.5]]], lambda x: np.zeros((1, 1)), 0.0, counts=[3])
    solution = eq.solve(lonely)
    assert solution.certificate.max_gain <= solution.certificate.rounding
    assert solution.stats["aggregate"] == pytest.approx(0.5)


def test_solved_means_that_the_certificate_met_the_tolerance():
    town = eq.games.load("two-roads", agents=1000)
    rewards = np.concatenate([town.rewards(x).ravel() for x in np.linspace(0, 1, 5)[:, None]])
    by_default = eq.solve(town)
    assert by_default.tolerance == pytest.approx(1e-4 * np.ptp(rewards))
    upper = float(by_default.certificate.max_upper)
    for tolerance, name in ((upper, "solved"), (0.99 * upper, "not solved")):
        solution = eq.solve(town, tolerance=tolerance)
        assert solution.tolerance == tolerance
        assert (solution.status.name, solution.status.ok) == (name, name == "solved")
    sampled = eq.solve(town, objective="welfare", rounding="sample", tolerance=0.0)
    assert sampled.status.name == "not solved"


def test_a_study_is_the_solution_the_map_and_both_compared():
    game = eq.games.load("public-good", agents=90)
    found = eq.aggregative.study(game)
    alone = eq.solve(game)
    assert found.solution.certificate == alone.certificate
    assert [one.welfare for one in found.equilibria] == [
        one.welfare for one in eq.aggregative.equilibria(game)
    ]
    assert [one.name for one in found.comparison][:2] == ["this solution", "equilibrium 0"]
    assert found.comparison[0].gain == alone.certificate.max_gain
    city = eq.games.load("demand-response", agents=100)
    study = eq.aggregative.study(city)
    best, worst = (eq.solve(city, objective="welfare", sense=s) for s in ("max", "min"))
    assert [one.value for one in study.comparison[1:]] == [
        np.mean(best.value),
        np.mean(worst.value),
    ]
    assert study.equilibria == ()


@pytest.mark.parametrize("lipschitz", [0.0, 1e3, 1e12])
def test_the_status_follows_the_certificate_whatever_constant_is_declared(lipschitz):
    """Rewards are constant, so nobody gains anything; only the bound depends on the constant."""
    game = eq.AggregativeGame(
        np.ones((1, 2, 1)), lambda x: np.array([[0.1, 0.2]]) + 0 * x[..., :1], lipschitz, counts=[3]
    )
    solution = eq.solve(game)
    certificate = solution.certificate
    assert certificate.max_gain == 0.0
    assert solution.solved == (certificate.max_upper <= solution.tolerance) == (lipschitz < 1e12)
    assert solution.status.name == ("solved" if solution.solved else "not solved")
    assert "the largest gain found is 0 " in solution.status.message
    stated = float(solution.status.message.split("gains more than ")[1].split(";")[0])
    assert certificate.max_upper <= stated <= 1.011 * certificate.max_upper
    assert "theory" not in solution.status.message  # its bound is zero, without rounding
