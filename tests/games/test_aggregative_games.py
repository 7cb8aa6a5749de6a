"""What aggregative games accept, refuse and work out."""

import numpy as np
import pytest

import equipoise as eq

ROADS = [[[1.0], [0.0]]]


def constant(x):
    return np.zeros((1, 2)) + 0.0 * x[..., 0]


def stay(h, s, x):
    return np.eye(2)[s] + 0.0 * x[..., :1]


def test_shapes_and_scales():
    game = eq.AggregativeGame(ROADS, constant, 1.0, counts=[7])
    assert (game.agents, game.players, game.types, game.actions, game.dimensions) == (
        7,
        7,
        1,
        (2,),
        1,
    )
    assert game.scale == game.delta == pytest.approx(1 / 7)
    assert [edge.tolist() for edge in game.box] == [[0.0], [1.0]]
    total = eq.AggregativeGame(ROADS, constant, 1.0, counts=[7], scale=1.0)
    assert [edge.tolist() for edge in total.box] == [[0.0], [7.0]]
    assert total.delta == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"influence": [1.0, 0.0]}, "influence: expected 3 axes"),
        ({"influence": [[[np.nan], [0.0]]]}, "influence: expected finite numbers, found nan at"),
        ({"reward": 3.0}, "reward: expected a function of x, found float"),
        ({"reward": lambda x: np.zeros(3)}, r"reward: expected shape \(1, 2\)"),
        ({"reward": lambda x: np.full((1, 2), np.inf)}, "reward: expected finite numbers"),
        ({"reward": lambda x: np.full((1, 2), 3.0)}, r"reward: expected numbers in \[-1, 1\]"),
        ({"counts": [0]}, r"counts: expected whole numbers from 1 to 2\^53, found 0"),
        ({"counts": [1.5]}, r"counts: expected whole numbers from 1 to 2\^53, found 1.5"),
        ({"counts": [1, 2]}, r"counts: expected shape \(1,\)"),
        ({"scale": 0.0}, "scale: expected a number in"),
        ({"lipschitz": -1.0}, "lipschitz: expected a number in"),
        ({"bounds": (1.0, 0.0)}, "bounds: expected"),
    ],
)
def test_wrong_normal_forms_are_refused(arguments, message):
    fine = {"influence": ROADS, "reward": constant, "lipschitz": 1.0, "counts": [10]}
    with pytest.raises(ValueError, match=message):
        eq.AggregativeGame(**{**fine, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 0}, "horizon: expected a whole number >= 1"),
        ({"states": 0}, "states: expected a whole number >= 1"),
        ({"influence": np.zeros((3, 3, 1, 2, 1))}, "influence: expected shape"),
        ({"reward": None}, "reward: expected a function of"),
        ({"transition": None}, "transition: expected a function of"),
        ({"transition": lambda h, s, x: np.ones(2)}, "transition: expected probabilities that sum"),
        ({"transition": lambda h, s, x: np.ones(3) / 3}, r"transition: expected shape \(2,\)"),
        ({"reward": lambda h, s, x: np.full((1, 2), 2.0 * h)}, r"reward\(1, 0, x\): expected num"),
    ],
)
def test_wrong_markov_games_are_refused(arguments, message):
    fine = {
        "influence": ROADS,
        "reward": lambda h, s, x: constant(x),
        "transition": stay,
        "horizon": 2,
        "states": 2,
        "counts": [10],
    }
    with pytest.raises(ValueError, match=message):
        eq.AggregativeMarkovGame(**{**fine, **arguments})


def test_how_functions_may_be_called_is_found_out():
    base = np.array([[0.1, 0.2], [0.3, 0.4]])
    every = eq.AggregativeGame([[[1.0], [0.0]]] * 2, lambda x: base * x[..., 0], 1.0)
    single = eq.AggregativeGame([[[1.0], [0.0]]] * 2, lambda x: base * x[0], 1.0)
    picky = eq.AggregativeGame([[[1.0], [0.0]]] * 2, lambda x: base * float(x[0]), 1.0)

    def careful(x):
        assert x.shape == (1,)
        return base * x[0]

    careful = eq.AggregativeGame([[[1.0], [0.0]]] * 2, careful, 1.0)
    assert every.field.elementwise
    assert not any(game.field.elementwise for game in (single, picky, careful))
    points = np.array([[0.2], [0.7]])
    np.testing.assert_array_equal(every.rewards(points), single.rewards(points))
    own = np.array([[[0.2], [0.7]], [[0.2], [0.1]]])
    np.testing.assert_array_equal(every.own_rewards(own), single.own_rewards(own))


@pytest.mark.parametrize("edge", [0.05, 0.3, 0.5, 0.95])
def test_a_threshold_for_any_of_many_points_is_found_out(edge):
    """Called with many points at once, this reward would add .4 to all as one crosses the edge."""
    base = np.array([[0.1, 0.2]])
    town = eq.AggregativeGame(
        [[[1.0], [0.0]]], lambda x: base + 0.4 * bool(np.any(x > edge)), 1e3, counts=[10]
    )
    above = np.arange(11) / 10 > edge
    np.testing.assert_array_equal(
        town.rewards(np.arange(11)[:, None] / 10)[:, 0], base + 0.4 * above[:, None]
    )


def test_slopes_are_estimated():
    steep = np.array([[[0.3, -0.4], [0.0, 0.1]]])
    game = eq.AggregativeGame([[[1.0, 0.0], [0.0, 1.0]]], lambda x: (steep * x).sum(-1), counts=[4])
    assert game.lipschitz_estimated
    assert game.lipschitz == pytest.approx(1.1 * 0.7)
    city = eq.AggregativeMarkovGame(
        ROADS,
        lambda h, s, x: constant(x),
        lambda h, s, x: np.stack([1 - 0.5 * x[..., 0], 0.5 * x[..., 0]], -1),
        2,
        2,
        [5],
    )
    assert city.lipschitz == 0.0
    assert city.transition_lipschitz == pytest.approx(1.1 * 0.5)


def test_policies_are_checked():
    for arguments, message in (
        (([0], [1.0], [0]), "counts: expected whole numbers"),
        (([0], [1, 2], [0]), "counts: expected one for each class"),
        (([0, 1], [1, 1], [0]), "actions: expected"),
        (([0], [0], [0]), "expected counts >= 1"),
    ):
        with pytest.raises(ValueError, match=message):
            eq.games.AggregativePolicy(*arguments)


class TestScenarios:
    """What is known of each, found."""

    @pytest.mark.parametrize(
        ("name", "parameters", "expected"),
        [
            ("two-roads", {}, [0.5]),
            ("two-roads", {"crowd": 0.4}, [0.6]),
            ("el-farol", {}, [0.6]),
            ("el-farol", {"capacity": 0.3}, [0.3]),
            ("braess", {}, [1.0, 1.0]),
            ("braess", {"bridge": False}, [0.5, 0.5]),
            ("cournot", {}, [0.8]),
            ("beauty-contest", {}, [0.0]),
        ],
    )
    def test_equilibria(self, name, parameters, expected):
        solution = eq.solve(eq.games.load(name, **parameters))
        np.testing.assert_allclose(solution.stats["aggregate"], expected, atol=2e-3)
        assert solution.certificate.max_gain < 1e-3

    def test_the_bridge_slows_everybody(self):
        value = [float(eq.solve(eq.games.load("braess", bridge=b)).value) for b in (True, False)]
        assert value == pytest.approx([-0.8, -0.65], abs=1e-3)

    def test_all_should_join(self):
        good = eq.games.load("public-good")
        assert eq.solve(good, objective="welfare").stats["aggregate"] == pytest.approx(1.0)
        least = eq.solve(good, objective="welfare", sense="min", spacing=0.01)
        assert least.stats["welfare"] < 0.02

    def test_used_roads_take_equally_long(self):
        roads = eq.games.load("parallel-roads", types=1)
        solution = eq.solve(roads)
        times = roads.rewards(solution.stats["aggregate"])[0]
        used = solution.policy.plays(1, 3)[0] > 0
        assert np.ptp(times[used]) < 1e-3
        assert times[~used].max(initial=-1.0) <= times[used].min() + 1e-3

    @pytest.mark.parametrize("name", ["demand-response", "epidemic"])
    def test_the_states_matter(self, name):
        solution = eq.solve(eq.games.load(name))
        assert solution.status.ok
        assert np.ptp(solution.stats["aggregate"][0, :, 0]) > 0.1

    def test_buses_are_good_when_many_ride(self):
        city = eq.games.load("bus-or-car", agents=4000)
        best = eq.solve(city, objective="welfare", spacing=0.002)
        worst = eq.solve(city, objective="welfare", sense="min", spacing=0.002)
        # All drive for eight days at 0.3 + 0.3; all ride the largest fleet, 0.05 from a stop.
        assert worst.value == pytest.approx(-8 * 0.6)
        assert best.value[-1] == pytest.approx(-8 * (0.04 + 0.05 + 0.6 / 5))
        assert best.stats["aggregate"][:, :, 0].min() > 0.7
        for solution in (best, worst):
            assert solution.certificate.max_gain <= solution.stats["bound"]
            assert solution.stats["bound"] < 0.05 * float((best.value - worst.value).min())
        estimated = eq.AggregativeMarkovGame(
            city.influence, city.reward, city.transition, city.horizon, city.states, city.counts
        )
        assert city.lipschitz >= estimated.lipschitz / 1.1

    @pytest.mark.parametrize(
        ("name", "parameters", "message"),
        [
            ("bus-or-car", {"wait": 0.9}, "wait: expected a number in"),
            ("two-roads", {"agents": 0}, "agents: expected a whole number"),
            ("two-roads", {"jam": 2.0}, "jam: expected a number in"),
            ("el-farol", {"capacity": -0.5}, "capacity: expected a number in"),
            (
                "parallel-roads",
                {"agents": 2, "types": 3},
                "agents: expected at least one for each of the 3",
            ),
        ],
    )
    def test_parameters_are_checked(self, name, parameters, message):
        with pytest.raises(ValueError, match=message):
            eq.games.load(name, **parameters)
