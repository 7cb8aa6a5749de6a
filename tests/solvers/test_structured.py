"""Games of many agents with true rewards: pure, zero-sum and coarse correlated equilibria."""

from inspect import unwrap  # a call without the type checks of the tests
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
from support import refuses

import equipoise as eq
from equipoise.solvers import solve_interaction
from equipoise.solvers._structured import _couple, solve_structured

families = eq.games.families


def certified(game, found):
    return float(eq.certify(game, eq.games.Mixture(found.policies, found.weights)).max_gain)


@pytest.mark.parametrize(
    ("game", "method"),
    [
        (families.congestion(agents=30).sample(key=0), "best replies"),
        (families.zero_sum_polymatrix(agents=5, actions=3).sample(key=0), "zero-sum program"),
        (families.polymatrix(agents=5, actions=3).sample(key=0), "no regret and linear programs"),
        (families.polymatrix(agents=4, actions=2, contexts=3).sample(key=2), ""),
        (families.interaction_rank(agents=4, actions=2, rank=3).sample(key=1), ""),
        (families.polymatrix(agents=3, actions=2, states=2, horizon=4).sample(key=0), ""),
        (families.polymatrix(agents=4, actions=3, states=2, horizon=3).sample(key=3), ""),
    ],
)
def test_no_agent_gains(game, method):
    found = solve_structured(game)
    assert found.ended == "solved"
    assert method in found.method
    assert certified(game, found) < 2e-8


def test_best_replies_alone_for_nash():
    game = families.congestion(agents=12, contexts=2).sample(key=1)
    found = solve_structured(game, concept="nash")
    assert len(found.weights) == 1
    assert float(eq.certify(game, found.policies[0]).max_gain) < 1e-12


def test_agents_with_fewer_actions():
    pairs = np.array([[0, 1], [1, 2], [2, 0], [1, 0]])
    tables = np.random.default_rng(0).normal(size=(1, 4, 3, 3))
    game = eq.ContextualGame(eq.games.Interactions({2: pairs}, {2: tables}, 3), actions=[3, 2, 3])
    found = solve_structured(game)
    assert (found.policies[:, :, 1, 2] == 0).all()
    assert certified(game, found) < 2e-8


def test_mixtures_of_contexts_are_coupled():
    first = (np.zeros((2, 1)), np.array([0.25, 0.75]))
    second = (np.ones((3, 1)), np.array([0.5, 0.25, 0.25]))
    policies, weights = _couple([first, second])
    assert policies.shape == (4, 2, 1)
    assert weights == pytest.approx([0.25, 0.25, 0.25, 0.25])


def test_time_and_interruption():
    game = families.polymatrix(agents=6, actions=4).sample(key=5)
    early = solve_structured(game, time_limit=0.0, tolerance=1e-14)
    assert early.ended in ("out of time", "solved")
    assert np.isfinite(certified(game, early))

    def interrupt(state):
        raise KeyboardInterrupt

    game = families.polymatrix(agents=5, actions=3).sample(key=0)
    stopped = solve_structured(game, progress=interrupt)
    assert stopped.ended == "interrupted"
    assert certified(game, stopped) == pytest.approx(stopped.gain, abs=1e-9)


def test_ctrl_c_in_the_program_of_zero_sum_games_keeps_the_best_policy(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(scipy.optimize, "linprog", interrupt)
    game = families.polymatrix(agents=5, actions=3).sample(key=0)
    stopped = solve_structured(game)
    assert stopped.ended == "interrupted"
    assert certified(game, stopped) == pytest.approx(stopped.gain, abs=1e-9)


def test_linear_programs_stop_at_the_time_limit(monkeypatch):
    """Whatever the speed of the machine, the program is asked to stop, and may come back empty."""
    asked = []

    def stopped(*_, options, **__):
        asked.append(options["time_limit"])
        return SimpleNamespace(x=None, status=1)

    monkeypatch.setattr(scipy.optimize, "linprog", stopped)
    game = families.polymatrix(agents=5, actions=3).sample(key=0)
    found = solve_structured(game, concept="nash", time_limit=5.0)
    assert asked
    assert max(asked) <= 5.0
    assert 0.0 < certified(game, found) == pytest.approx(found.gain)


@pytest.mark.parametrize("key", ["a", -1, 0.5])
def test_keys_that_are_no_whole_numbers_are_refused(key):
    game = families.polymatrix(agents=3, actions=2).sample(key=0)
    refuses(lambda: unwrap(solve_interaction)(game, key=key), "key")
