"""Games given by an oracle, and networks where Numba is not installed."""

import numpy as np
import pytest
from network_samples import city

import equipoise as eq


def test_a_network_as_an_oracle():
    game = city(rows=3, columns=3, zones=3, trips=300.0)

    def best(costs):
        return game.best(costs)

    oracle = eq.games.OracleGame(
        lambda x: game.costs(x)[0], best, game.links, sizes=[game.demand.sum()]
    )
    # One population of all travellers, whose actions are all assignments of them.
    solution = eq.solve(oracle, tolerance=1e-3)
    assert solution.status.ok
    expected = eq.solve(game).stats["potential"]
    assert game.potential(solution.policy.flows) == pytest.approx(expected, rel=1e-3)


def test_networks_without_numba(monkeypatch):
    from equipoise.core import routes
    from equipoise.networks import _solve

    game = city(rows=3, columns=3, zones=4, trips=300.0)
    expected = eq.solve(game)
    monkeypatch.setattr(routes, "is_installed", lambda: False)
    monkeypatch.setattr(_solve, "is_installed", lambda: False)
    for concept in ("nash", "optimum"):
        solution = eq.solve(game, concept=concept, tolerance=1e-8)
        assert solution.status.ok
        assert "Numba is not installed" in solution.stats["method"]
        assert "SciPy" in solution.certificate.method
        if concept == "nash":
            flows = solution.policy.flows
            np.testing.assert_allclose(flows, expected.policy.flows, rtol=1e-5, atol=1e-3)


def test_spanning_trees():
    """Three cities to be connected by two of three roads: each of the trees costs the same."""

    def best(costs):
        tree = np.ones(3)
        tree[np.argmax(costs)] = 0.0
        return tree[None] * 30.0

    game = eq.games.OracleGame(lambda x: x, best, 3, sizes=[30.0])
    solution = eq.solve(game)
    assert solution.status.ok
    np.testing.assert_allclose(solution.policy.flows, [[20.0, 20.0, 20.0]], atol=1e-5)


def test_costs_that_depend_on_other_resources():
    """Asymmetric but monotone costs have no potential."""
    matrix = np.array([[2.0, 1.0], [-1.0, 2.0]])
    game = eq.games.OracleGame(
        lambda x: matrix @ x + 1.0, lambda c: np.eye(2)[[np.argmin(c)]], resources=2
    )
    solution = eq.solve(game)
    assert solution.status.ok
    # 2 x + y = -x + 2 y at x + y = 1: y = 3 x.
    np.testing.assert_allclose(solution.policy.flows, [[0.25, 0.75]], atol=1e-7)


def test_charging_fills_the_valley():
    game = eq.games.load("charging-schedules")
    solution = eq.solve(game)
    certificate = eq.certify(game, solution.policy.flows)
    assert certificate.max_upper <= solution.tolerance
    night = certificate.value
    assert (certificate.gains <= 1e-8 * night + 1e-9).all()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"cost": lambda x: x[:1]}, r"cost: expected shape \(2,\)"),
        ({"cost": lambda x: x * np.nan}, "cost: expected finite numbers"),
        ({"best": lambda c: c}, r"best: expected shape \(populations, 2\)"),
        ({"best": 1}, "best: expected a function, found int"),
        ({"sizes": [1.0, 2.0]}, r"sizes: expected shape \(1,\)"),
        ({"sizes": [0.0]}, "sizes: expected positive numbers"),
    ],
)
def test_wrong_oracles(changes, complaint):
    given = {"cost": lambda x: x, "best": lambda c: np.eye(2)[[np.argmin(c)]], "resources": 2}
    game = eq.games.OracleGame(**given)
    with pytest.raises(ValueError, match="flows: expected the use of some mixture of actions"):
        eq.certify(game, [[0.1, 0.1]])
    with pytest.raises(ValueError, match=complaint):
        eq.games.OracleGame(**given | changes)


def test_use_that_no_mixture_has_is_found_at_its_own_costs():
    """Prices drawn at random do not show it: few make the third action the cheapest."""
    actions = np.array([[1.0, 0.0], [0.0, 1000.0], [0.7, 299.99]])
    game = eq.games.OracleGame(
        lambda x: np.array([1000.0, 1.0]), lambda c: actions[[np.argmin(actions @ c)]], 2
    )
    assert eq.certify(game, actions[2:]).max_upper < 1e-11
    with pytest.raises(ValueError, match="flows: expected the use of some mixture of actions"):
        eq.certify(game, actions[2:] * (1 - 1e-5))
    # What is missing within the tolerance counts against the use.
    little = eq.certify(game, actions[2:] * (1 - 5e-7))
    assert little.max_upper > 5e-7 * 999.0


def test_use_that_falls_short_counts_in_the_bound():
    game = eq.games.load("charging-schedules")
    use = eq.solve(game).policy.flows * (1 - 5e-7)
    certificate = eq.certify(game, use)
    assert certificate.relative_gap < -4e-7
    assert certificate.relative_gap_upper > 4e-7
    assert certificate.max_upper > 0.0
