"""What `print` shows of each kind: a few short lines that name who plays what and the numbers."""

import copy
import re

import numpy as np
import pytest

import equipoise as eq

NAMES = {"players": ["Rose", "Colin"], "actions": [["hide", "seek"], ["left", "right"]]}
PENNIES = eq.MatrixGame([[1, -1], [-1, 1]], labels=NAMES)
CHICKEN = eq.NormalFormGame([[6, 2], [7, 0]], [[6, 7], [2, 0]], labels=NAMES)
ROADS = eq.NetworkGame(
    [0, 0], [1, 1], [0], [1], [20_000.0], free_flow=[10.0, 12.0], capacity=[6000.0, 5000.0]
)
TOWN = eq.AggregativeGame(
    [[1.0], [0.0]],
    lambda x: np.array([-0.2, -0.5]) + np.array([-0.6, 0.0]) * x[..., 0],
    0.6,
    counts=1000,
    labels={"actions": [["motorway", "town"]], "types": ["drivers"]},
)
#: Words and numbers that the text of a game's solution must hold.
SHOWN = {
    "matrix": (PENNIES, ("value: 0", "Rose", "hide 0.5, seek 0.5", "Colin", "left 0.5")),
    "normal form": (CHICKEN, ("Rose", "Colin", "tolerance")),
    "Markov": (
        eq.MarkovGame(
            [[[1.0]], [[0.0]]],
            [[[[0.0, 1.0]]], [[[0.0, 1.0]]]],
            0.5,
            labels={"states": ["on", "off"]},
        ),
        ("value: on 1, off 0", "row", "column"),
    ),
    "crowd": (TOWN, ("1,000 agents", "drivers", "500", "motorway", "town", "mean reward: -0.5")),
    "roads": (ROADS, ("20,000 travellers", "0 to 1", "solved", "mean cost: ")),
    "city": (eq.games.load("grid-city"), ("68 to 58", "... 352 more", "mean cost: 9.813")),
    "many agents": (
        eq.games.families.polymatrix(agents=12, actions=2).sample(key=0),
        ("agent 0", "agent 7", "... 4 more"),
    ),
    "continuous": (
        eq.ContinuousGame.from_function(lambda a: -((a - 0.5) ** 2), agents=2, lipschitz=3.0),
        ("agent 0", "0.5"),
    ),
    "large payoffs": (
        eq.NormalFormGame([[60_000, 20_000], [70_000, 0]], [[60_000, 70_000], [20_000, 0]]),
        ("20,000",),
    ),
    "batch": (
        eq.games.families.uniform(actions=3).sample(1000, key=0),
        ("1,000 zero-sum matrix games", "met their tolerance"),
    ),
}


def checked(text):
    """Return a text of few short lines, without the internals of arrays or objects."""
    lines = text.splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 105
    assert not re.search(r"array\(|dtype|[fi]64\[|<function|object at|-0\b(?!\.)|\de\+0", text), (
        text
    )
    return text


@pytest.mark.parametrize("name", SHOWN)
def test_games_solutions_and_certificates_are_short_and_named(name):
    game, words = SHOWN[name]
    solution = eq.solve(game)
    text = checked(str(solution))
    assert [word for word in words if word not in text] == []
    assert checked(str(game)).startswith(game.describe())
    for certificate in (solution.certificate, eq.certify(game, solution)):
        assert "gains more than" in checked(str(certificate))
    assert len(repr(solution)) < 400


def test_every_link_and_population_has_its_name_and_its_flow():
    text = str(eq.solve(ROADS))
    flows = sorted((float(flow) for flow in eq.solve(ROADS).policy.flows), reverse=True)
    shown = re.findall(r"^  0 to 1 +([\d,.]+)$", text, re.M)
    assert [float(flow.replace(",", "")) for flow in shown] == pytest.approx(flows, rel=1e-4)
    assert "  0 to 1  gain" in str(eq.solve(ROADS).certificate)


def test_drivers_and_link_flows_are_not_called_by_the_names_of_populations():
    drivers = eq.networks.whole_drivers(eq.games.load("braess-network"), 6)
    assert "driver 5" in str(eq.solve(drivers).certificate)
    city = eq.games.load("grid-city")
    assert "\n  all  gain" in str(eq.certify(city, eq.solve(city).policy.flows))


def test_joint_policies_name_the_joint_actions():
    text = checked(str(eq.solve(CHICKEN, concept="ce", objective="welfare")))
    assert [line.split() for line in text.splitlines()[-3:]] == [
        ["hide", "left", "0.5"],
        ["hide", "right", "0.25"],
        ["seek", "left", "0.25"],
    ]


def test_lists_of_equilibria_have_a_line_each():
    listed = eq.equilibria(CHICKEN)
    text = checked(str(listed))
    assert len(re.findall(r"Rose: .*; Colin: .* values \(", text)) == len(listed) == 3
    crowd = eq.aggregative.equilibria(TOWN)
    assert checked(str(crowd)).count("aggregate (") == len(crowd) > 0


def test_advice_names_the_agents():
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 3, (600, 2))
    rewards = np.array([0.0, 0.5, 1.0])[actions] + 0.1 * rng.normal(size=actions.shape)
    labels = {"players": ["Ann", "Bob"], "actions": [["low", "mid", "high"]]}
    advice = eq.advise(eq.offline.Log(None, actions, rewards, labels=labels))
    text = str(advice)
    assert re.search(r"^  Ann +high 1$", text, re.M)
    assert "600 rows of 2 agents" in text
    assert "mean reward: Ann " in text
    assert len(text) < 2000
    assert advice.interval is not None
    assert advice.interval[0] >= 0.0


def test_large_gains_are_written_in_full():
    certificate = eq.certify(ROADS, eq.solve(ROADS, concept="optimum"))
    large = eq.certify(SHOWN["large payoffs"][0], ([1.0, 0.0], [1.0, 0.0]))
    assert "no player gains more than 10,001; the largest gain found is 10,000" in str(large)
    assert not re.search(r"\de\+0", str(certificate) + str(large))


def test_prices_designs_and_learned_policies_are_short():
    braess = eq.games.load("braess-network")
    assert "price of anarchy: 1.10843" in checked(str(eq.prices(braess)))
    tolls = checked(str(eq.networks.first_best_tolls(braess)))
    assert "  0 to 1  30\n" in tolls
    assert "total cost with tolls: 498" in tolls
    charge = eq.aggregative.design(eq.games.load("two-roads", agents=100), {"motorway": (0, 0.4)})
    assert "best motorway: 0.1" in checked(str(charge))
    simulator = eq.aggregative.Simulator(eq.games.load("demand-response", agents=100), key=0)
    learned = checked(str(eq.learn(simulator, episodes=10)))
    assert "10 episodes" in learned


def test_a_copy_keeps_its_names():
    solution = eq.solve(PENNIES)
    assert str(copy.deepcopy(solution)) == str(solution)


def test_a_solution_of_a_file_is_printed_without_names():
    solution = eq.solve(PENNIES)
    again = eq.certificates.solution_from_plain(solution.to_plain())
    assert again == solution
    assert "(0.5, 0.5)" in checked(str(again))
