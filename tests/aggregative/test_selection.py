"""Which equilibrium is chosen: certified ones only, against enumeration; optima and prices."""

import numpy as np
import pytest
from aggregative.crowd_games import crowd, roads
from soak.crowds import main

import equipoise as eq
from equipoise.aggregative import _planner
from equipoise.aggregative._cells import stage_of
from equipoise.aggregative._map import Equilibrium, _overlap
from equipoise.aggregative._optimum import bound_welfare
from equipoise.aggregative._replies import Replies
from equipoise.aggregative._select import all_plays
from equipoise.aggregative._subroutine import Options


def enumerated(game, tolerance):
    """All profiles of a small game: plays, largest gains, mean and least rewards."""
    stage, rows = stage_of(game), []
    for plays in np.concatenate(list(all_plays(stage))):
        actions = np.concatenate([np.repeat(np.arange(plays.shape[1]), row) for row in plays])
        rewards = game.rewards(stage.aggregate(plays))
        mean = (plays * rewards).sum() / game.agents
        least = rewards[plays > 0].min()
        rows.append((eq.certify(game, actions).max_gain, mean, least))
    gains, mean, least = np.array(rows).T
    return gains <= tolerance, mean, least


@pytest.fixture
def few(monkeypatch):
    """The solver enumerates tiny games only."""
    monkeypatch.setattr(_planner, "PROFILES", Options.profiles)


@pytest.mark.parametrize("counts", [[12, 10, 9], [3, 2, 2]])
@pytest.mark.parametrize("seed", range(100, 104))
def test_choices_against_enumeration(few, counts, seed):
    """Held-out games, too many profiles for the solver's own enumeration and few enough."""
    game = crowd(3, actions=2, seed=seed, counts=counts)
    tolerance = 0.02
    stable, mean, least = enumerated(game, tolerance)
    assert (len(stable) > Options.profiles) == (counts[0] > 3)
    for objective, worth in (("welfare", mean), ("egalitarian", least)):
        for sense, sign in (("max", 1.0), ("min", -1.0)):
            found = eq.solve(game, objective=objective, sense=sense, tolerance=tolerance)
            assert found.status.ok == stable.any()
            if not stable.any():
                continue
            best = sign * (sign * worth[stable]).max()
            assert found.certificate.max_gain <= tolerance
            assert sign * found.stats["objective"] <= sign * best + 1e-12
            # What is proven of those not found holds, and what was found is nearly the best.
            assert sign * found.stats["best_possible"] >= sign * best - 1e-12
            assert found.stats["objective"] == pytest.approx(best, abs=0.01)
    optimum = eq.solve(game, concept="optimum", tolerance=0.05)
    assert optimum.stats["objective"] == pytest.approx(mean.max(), abs=2e-3)
    assert optimum.stats["best_possible"] >= mean.max() - 1e-12
    if stable.any():
        prices = eq.prices(game, tolerance=tolerance)
        assert prices.best is not None
        assert prices.worst is not None
        assert prices.optimum.lower == pytest.approx(mean.max(), abs=2e-3)
        assert prices.worst.upper <= prices.best.lower <= prices.optimum.lower
        worst, best = mean[stable].min(), mean[stable].max()
        assert prices.worst.lower - 1e-12 <= worst <= prices.worst.upper + 1e-12
        assert prices.best.lower - 1e-12 <= best <= prices.best.upper + 1e-12


def with_loads(of_loads):
    """Rewards that are a function of the shares of three actions, the last without a coordinate."""

    def reward(x):
        shape = np.broadcast_shapes(x.shape[:-1], (1, 3))
        loads = [*np.moveaxis(x, -1, 0), 1.0 - x.sum(-1)]
        return of_loads(
            np.stack([np.broadcast_to(load, shape)[..., a] for a, load in enumerate(loads)], -1)
        )

    return reward


def test_random_crowds_against_all_profiles(few):
    """The first few of `make soak PARTS=crowds`."""
    assert main(4)["failures"] == []


def test_a_function_of_the_user_chooses():
    good = eq.games.load("public-good", agents=900)
    few = eq.solve(good, objective=lambda plays, x: -float(x[0]))
    assert few.policy.plays(1, 2).tolist() == [[900, 0]]
    assert "no equilibrium has an objective above 0 (0 here)" in few.status.message
    many = eq.solve(good, objective=lambda plays, x: -float(x[0]), sense="min")
    assert many.policy.plays(1, 2).tolist() == [[0, 900]]
    crowded = eq.games.load("public-good", agents=90_000)  # too many profiles to list
    few = eq.solve(crowded, objective=lambda plays, x: -float(x[0]))
    assert few.policy.plays(1, 2).tolist() == [[90_000, 0]]
    assert "nothing is proven" in few.status.message


def waves(seed):
    """Rewards that rise and fall with three coordinates; eleven agents, 4,050 profiles."""
    rng = np.random.default_rng(seed)
    influence, base = rng.uniform(-1, 1, (4, 3, 3)), rng.uniform(-0.5, 0.5, (4, 3))
    slopes = rng.uniform(-1, 1, (4, 3, 3))
    return eq.AggregativeGame(
        influence,
        lambda x: base + np.sin(4.0 * (slopes * x).sum(-1)),
        float(4.0 * np.abs(slopes).sum(-1).max()),
        counts=[1, 4, 4, 2],
        bounds=(-2, 2),
    )


def test_a_lonely_equilibrium_of_a_small_game_is_found():
    """Neither best-reply dynamics nor projections lead to it."""
    solution = eq.solve(waves(73))
    assert solution.status.ok
    assert solution.stats["method"] == "enumeration"
    assert solution.certificate.max_gain <= solution.certificate.rounding


def test_a_small_game_without_an_equilibrium_is_told_so():
    game = waves(15)
    solution, welfare = eq.solve(game), eq.solve(game, objective="welfare")
    stage = stage_of(game)
    gains = np.concatenate([Replies(stage).gains(plays) for plays in all_plays(stage)])
    for found in (solution, welfare):
        assert not found.status.ok
        assert found.certificate.max_gain == pytest.approx(gains.min())
        assert "no profile of this game meets the tolerance" in found.status.message
    assert eq.prices(game).stability is None


def test_the_prices_of_a_public_good():
    """By mean reward: everybody or nobody joins, or a third."""
    prices = eq.prices(eq.games.load("public-good", agents=900))
    assert prices.best is not None
    assert prices.worst is not None
    assert prices.optimum.lower == pytest.approx(0.6, abs=1e-6)
    assert prices.best.lower == pytest.approx(0.6, abs=1e-6)
    assert prices.worst.upper == pytest.approx(0.0, abs=1e-4)
    assert prices.stability is not None
    assert prices.stability.lower == 1.0
    assert prices.stability.upper == pytest.approx(1.0, abs=1e-3)
    assert prices.anarchy is not None
    assert prices.anarchy.lower > 1e3
    assert [solution.solved for solution in prices.solutions.values()] == [True, True]


def test_prices_of_a_welfare_of_ones_own():
    """Everybody should stay away, which is an equilibrium; in the worst one everybody joins."""
    good = eq.games.load("public-good", agents=900)
    prices = eq.prices(good, welfare=[[2.0, 1.0]])
    assert (str(prices.stability), str(prices.anarchy)) == ("1", "2")
    assert prices.status.ok


def test_a_driver_on_three_roads_gains_nothing_to_speak_of():
    solution = eq.solve(roads(300, 3, alike=True), objective="welfare")
    assert solution.status.ok
    assert solution.certificate.max_gain <= solution.tolerance < 0.05
    prices = eq.prices(solution.game)
    anarchy, stability = prices.anarchy, prices.stability
    assert anarchy is not None
    assert stability is not None
    assert anarchy.lower >= stability.lower >= 1.0
    assert anarchy.upper == stability.upper == np.inf  # no Lipschitz constant is declared


def test_declared_bounds_of_rewards_do_not_matter():
    town = eq.games.load("two-roads", agents=1000)
    wide = eq.AggregativeGame(
        town.influence, town.field.function, town.lipschitz, counts=[1000], bounds=(-100, 100)
    )
    worst = eq.solve(wide, objective="welfare", sense="min")
    assert worst.certificate.max_gain <= worst.certificate.rounding
    assert worst.stats["objective"] == pytest.approx(-0.4)
    anarchy = eq.prices(wide).anarchy
    assert anarchy is not None
    assert [anarchy.lower, anarchy.upper] == pytest.approx([0.4 / 0.3875] * 2)


@pytest.mark.parametrize("agents", [1000, 20_000])
def test_the_worst_equilibrium_of_a_bistable_game(agents):
    going = np.array([[0.0, 1.0]])
    game = eq.AggregativeGame(
        [[[0.0], [1.0]]],
        lambda x: 0.5 * going * np.tanh(4.0 * (x[..., 0] - 0.45)),
        2.0,
        counts=[agents],
    )
    worst = eq.solve(game, objective="welfare", welfare=[[0.0, 1.0]], sense="min")
    assert worst.stats["aggregate"].tolist() == [0.0]
    assert worst.certificate.max_gain <= worst.certificate.rounding
    assert worst.stats["best_possible"] == pytest.approx(0.0, abs=1e-9)


def test_an_epidemic_is_not_called_solved_at_a_bad_point():
    solution = eq.solve(eq.games.load("epidemic", horizon=4), objective="welfare")
    assert solution.status.ok
    assert solution.certificate.max_upper <= solution.tolerance < 1e-3


def test_nothing_within_the_tolerance_is_not_solved():
    """No pure profile of this game has gain zero; the least gain is returned, and said so."""
    influence = np.array([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
    sign = np.array([-1.0, 1.0])

    def pennies(x):  # the first agent would match the second, who would not be matched
        return np.stack([(2 * x[..., 1, None] - 1) * sign, (1 - 2 * x[..., 0, None]) * sign], -2)

    game = eq.AggregativeGame(influence, pennies, 2.0, scale=1.0, elementwise=False)
    solution = eq.solve(game, objective="welfare", tolerance=1e-6)
    assert not solution.status.ok
    assert "the largest gain found" in solution.status.message
    assert "no profile of this game meets the tolerance" in solution.status.message
    assert eq.prices(game, tolerance=1e-6).anarchy is None


@pytest.mark.parametrize("lipschitz", [None, pytest.param(16.0, marks=pytest.mark.soak)])
@pytest.mark.parametrize("seed", [0, 2])
def test_all_equilibria_of_coordination_are_compared(few, seed, lipschitz):
    """Three actions that are better the more agents play them: two coordinates, sixty agents."""
    rng = np.random.default_rng(seed)
    base, slope = rng.uniform(-0.2, 0.2, 3), rng.uniform(0.3, 0.8, 3)
    reward = with_loads(lambda loads: base + slope * np.clip(loads, 0.0, 1.0) ** 2)
    game = eq.AggregativeGame(np.eye(3)[None, :, :2], reward, lipschitz, counts=[60])
    stable, mean, _ = enumerated(game, tolerance := 1e-4)
    assert stable.sum() == 3
    for sense, best in (("max", mean[stable].max()), ("min", mean[stable].min())):
        found = eq.solve(game, objective="welfare", sense=sense, tolerance=tolerance)
        assert found.status.ok
        assert found.stats["objective"] == pytest.approx(best)
    for action in range(3):  # everybody on any of them is an equilibrium
        own = eq.solve(game, objective=lambda plays, x, a=action: plays[0, a], tolerance=tolerance)
        assert own.stats["objective"] == 60


@pytest.mark.parametrize("lipschitz", [None, 1.0, 4.0])
def test_the_optimum_of_three_actions_is_proven(few, lipschitz):
    """Two coordinates: every profile of sixty agents is listed."""
    base, slope = np.array([0.1, 0.0, -0.1]), np.array([0.9, 0.6, 0.3])
    reward = with_loads(lambda loads: base - slope * loads**2 / 2)
    game = eq.AggregativeGame(np.eye(3)[None, :, :2], reward, lipschitz, counts=[60])
    _, mean, _ = enumerated(game, 1.0)
    found = eq.solve(game, concept="optimum", tolerance=1e-3)
    assert found.status.ok == (lipschitz is not None)
    assert found.status.ok == ("declare `lipschitz`" not in found.status.message)
    assert mean.max() - 1e-9 <= found.stats["best_possible"] <= mean.max() + 1e-3
    assert found.stats["objective"] == pytest.approx(mean.max(), abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_on_optima_hold_for_types_and_coordinates(seed):
    """Bounds of many small cells alone, before anything else is known."""
    game = crowd(3, d=2, actions=3, seed=seed, counts=[3, 2, 2])
    _, mean, _ = enumerated(game, 1.0)
    stage = stage_of(game)
    replies = Replies(stage)
    bound, cells = bound_welfare(stage, 1.0, 0.2, replies, lambda _: float(mean.max()), 0.05)
    assert bound >= mean.max() - 1e-12
    assert cells > 1
    coarse, _ = bound_welfare(stage, 1.0, 0.2, replies, lambda _: float(mean.max()), 10.0)
    assert bound <= coarse + 1e-9


class TestMap:
    @staticmethod
    def town(lipschitz):
        def reward(x):
            share = x[..., 0]
            return np.stack([0.9 * share, 0.3 + 0.3 * share], -1)[..., None, :]

        return eq.AggregativeGame([[[1.0], [0.0]]], reward, lipschitz, counts=[1000])

    @pytest.mark.parametrize("lipschitz", [0.9, 30.0])
    def test_a_loose_constant_loses_nothing(self, lipschitz):
        """The only agent who moves from one half gains 0.0003, which is not within the default."""
        found = eq.aggregative.equilibria(self.town(lipschitz), tolerance=1e-3)
        assert [float(e.aggregate[0]) for e in found] == [1.0, 0.499, 0.0]
        assert [e.stable for e in found] == [True, False, True]
        assert [e.note for e in found] == ["", "", ""]
        found = eq.aggregative.equilibria(self.town(lipschitz))
        assert [float(e.aggregate[0]) for e in found] == [1.0, 0.0]

    def test_overlaps_are_noted(self):
        policy = eq.games.AggregativePolicy([0], [1], [0])
        boxes = [[[0.0, 0.0], [0.5, 0.5]], [[0.4, 0.4], [0.8, 0.8]], [[0.9, 0.9], [1.0, 1.0]]]
        found = [Equilibrium(np.zeros(2), 0.0, 0.0, policy, np.array(box)) for box in boxes]
        notes = [_overlap(found, k) for k in range(3)]
        assert "equilibrium 1" in notes[0]
        assert "equilibrium 0" in notes[1]
        assert notes[2] == ""

    def test_too_many_coordinates_are_refused(self):
        with pytest.raises(ValueError, match="at most 6 coordinates"):
            eq.aggregative.equilibria(eq.games.load("parallel-roads", agents=20, roads=8))
        study = eq.aggregative.study(eq.games.load("parallel-roads", agents=20, roads=8))
        assert study.equilibria == ()


class TestLipschitz:
    @staticmethod
    def game(lipschitz):
        slope = np.array([[-0.8, 0.0]])
        return eq.AggregativeGame(
            [[[1.0], [0.0]]], lambda x: slope * x[..., 0] ** 4, lipschitz, counts=[1000]
        )

    def test_by_action_and_region(self):
        def local(low, high):
            return np.array([[3.2 * float(high[0]) ** 3, 0.0]])

        found = {}
        for name, given in (("one", 3.2), ("action", [[3.2, 0.0]]), ("region", local)):
            game = self.game(given)
            assert game.lipschitz == pytest.approx(3.2)
            assert not game.lipschitz_estimated
            stage = stage_of(game)
            x, half = np.array([[0.2]]), np.array([0.05])
            change = stage.variation(x, half)
            found[name] = np.broadcast_to(change[0], (1, 2))[0]
        assert eq.solve(game, objective="welfare").status.ok
        assert found["one"].tolist() == pytest.approx([0.16, 0.16])
        assert found["action"].tolist() == pytest.approx([0.16, 0.0])
        assert found["region"].tolist() == pytest.approx([0.05 * 3.2 * 0.25**3, 0.0])

    def test_sampled_ones_cover_what_rewards_do(self, rng):
        game = roads(5, 3, seed=2)
        assert game.lipschitz_estimated
        stage = stage_of(game)
        centres = rng.uniform(0.1, 0.4, (20, 2))
        half = np.full(2, 0.02)
        change = stage.variation(centres, half)
        at = stage.rewards(centres)
        for _ in range(20):
            there = stage.rewards(centres + rng.uniform(-0.02, 0.02, (20, 2)))
            assert (np.abs(there - at) <= change + 1e-9).all()
        assert change.max() < 0.5 * 0.02 * game.lipschitz

    def test_wrong_ones_are_refused(self):
        for wrong in ([[1.0, 2.0, 3.0]], [[-1.0, 0.0]], lambda low, high: np.ones(7)):
            with pytest.raises(ValueError, match="lipschitz: expected"):
                self.game(wrong)
