"""The aggregative paper: its bounds as printed, those proven here, and what games do.

Numbers of the paper's theorems are those of "Provably efficient reinforcement learning for large
aggregative Markov games"; lemmas A and B are in docs/theory/aggregative.md.
"""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from aggregative.crowd_games import city, crowd

import equipoise as eq
from equipoise.aggregative import theory


@hypothesis.given(
    st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 2), st.sampled_from([0.4, 0.15])
)
def test_lemma_a(seed, agents, d, spacing):
    """Every game, every n: solved as promised, without a relaxed tolerance."""
    game = crowd(agents, d, seed=seed)
    solution = eq.solve(game, objective="welfare", spacing=spacing, slack="lemma")
    side = solution.stats["spacing"]
    gap = theory.selection_gap(
        lipschitz=game.lipschitz, spacing=side, delta=game.delta, dimensions=d
    )
    assert solution.stats["relaxed"] == 1
    assert solution.certificate.max_gain <= gap + 1e-12
    assert side <= spacing + 1e-12
    any_nash = eq.solve(game)
    least = theory.normal_form_gap(
        lipschitz=game.lipschitz, spacing=game.delta / 4, delta=game.delta, dimensions=d
    )
    assert any_nash.certificate.max_gain <= least + 1e-12


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("method", ["backward", "state-wise"])
def test_lemma_b_covers_both_algorithms(d, method):
    """Theorems 3.1 and 4.1 with the rewards' tolerance alone."""
    for seed in range(3):
        game = city(50, states=3, horizon=4, d=d, seed=seed)
        solution = eq.solve(game, objective="welfare", spacing=0.1, method=method, slack="lemma")
        gap = theory.markov_gap(
            lipschitz=game.lipschitz,
            transition_lipschitz=game.transition_lipschitz,
            spacing=solution.stats["spacing"],
            delta=game.delta,
            dimensions=d,
            horizon=4,
        )
        assert solution.certificate.max_gain <= gap


def test_ours_are_below_the_printed_bounds():
    for agents in (100, 1000, 10_000):
        given = {
            "lipschitz": 0.5,
            "transition_lipschitz": 1.0,
            "spacing": 0.05,
            "delta": 1 / agents,
            "horizon": 10,
        }
        ours = theory.markov_gap(**given, dimensions=1)
        statewise = theory.printed_statewise_gap(**given, agents=agents, actions=3)
        backward = theory.printed_gap(**given, agents=agents, actions=3)
        assert ours < statewise < backward


def test_what_algorithm_2_printed_would_do():
    """Its gap is within its bound, which is vacuous: rewards sum to at most H."""
    game = city(100, states=5, horizon=5)
    printed = eq.solve(game, objective="welfare", spacing=0.05, slack="printed", rounding="sample")
    bound = theory.printed_gap(
        lipschitz=0.5,
        transition_lipschitz=game.transition_lipschitz,
        spacing=0.05,
        delta=game.delta,
        agents=100,
        actions=3,
        horizon=5,
    )
    assert printed.certificate.max_gain <= bound
    assert bound > 5


@pytest.mark.parametrize("seed", range(4))
def test_theorem_4_2_corrected(seed):
    """Selection from section 6: no policy of stage equilibria found is better, but for the loss."""
    game = city(40, states=3, horizon=3, seed=seed)
    welfare = np.random.default_rng(seed).random((40, 3))
    best = eq.solve(game, objective="welfare", welfare=welfare, spacing=0.05, slack="lemma")
    loss = theory.welfare_loss(
        transition_lipschitz=game.transition_lipschitz,
        spacing=0.05,
        delta=game.delta,
        dimensions=1,
        horizon=3,
        agents=40,
        spread=float(np.ptp(welfare)),
    )
    others = [{}, {"objective": "welfare", "welfare": welfare, "sense": "min", "spacing": 0.02}]
    for options in others:
        other = eq.solve(game, **options)
        worth = _welfare(game, other.policy.per_agent(), welfare)
        assert (best.stats["welfare"] >= worth - loss - 1e-12).all()


def test_the_printed_loss_is_half_of_what_holds():
    """For welfare between -1 and 1, apart from what single agents make."""
    printed = theory.printed_welfare_loss(
        transition_lipschitz=1.0, spacing=0.05, horizon=3, largest=1.0, sampling=0.0
    )
    holds = theory.welfare_loss(
        transition_lipschitz=1.0,
        spacing=0.05,
        delta=0.0,
        dimensions=1,
        horizon=3,
        agents=10**12,
        spread=2.0,
    )
    assert holds == pytest.approx(2 * printed, abs=1e-9)


def _welfare(game, actions, welfare):
    """Expected mean welfare from each state, by following the policy."""
    n = len(actions)
    ahead = np.zeros(game.states)
    for h in reversed(range(game.horizon)):
        now = np.empty(game.states)
        for s in range(game.states):
            played = actions[:, h, s]
            x = game.scale * game.influence[np.arange(n), played].sum(0)
            now[s] = welfare[np.arange(n), played].mean() + game.transition(h, s, x) @ ahead
        ahead = now
    return ahead


def test_gaps_shrink_with_the_number_of_agents():
    """The gap of any equilibrium is of the order of one agent's influence."""
    for agents in (30, 300, 3000):
        game = crowd(agents, seed=1)
        assert eq.solve(game).certificate.max_gain <= 2.5 * game.lipschitz * game.delta


#: Gaps measured before with spacing .05 (best welfare, then least regret), n = 1000.
REFERENCE = {
    "el-farol": (0.041, 0.008),
    "cournot": (0.065, 0.004),
    "public-good": (0.076, 0.001),
    "beauty-contest": (0.048, 0.031),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_gaps_of_the_scenarios_are_as_small_as_measured_before(name):
    game = eq.games.load(name, agents=1000)
    best = eq.solve(game, objective="welfare", spacing=0.05, slack="lemma")
    least = eq.solve(game)
    assert best.certificate.max_gain <= REFERENCE[name][0]
    assert least.certificate.max_gain <= REFERENCE[name][1]


@pytest.mark.parametrize(
    ("states", "horizon", "agents", "d", "reference"),
    [(5, 5, 100, 1, (0.120, 0.035)), (20, 10, 1000, 1, (0.180, 0.049))],
)
def test_gaps_of_random_markov_games_are_as_small_as_measured_before(
    states, horizon, agents, d, reference
):
    game = city(agents, states, horizon, d)
    welfare = np.random.default_rng(0).random((agents, 3))
    best = eq.solve(game, objective="welfare", welfare=welfare, spacing=0.05, slack="lemma")
    assert best.certificate.max_gain <= reference[0]
    assert eq.solve(game).certificate.max_gain <= reference[1]


def test_theorem_3_1_the_last_term_is_twice_the_printed_one():
    """Where only the next state matters, one agent moves it by delta, and it is worth two."""
    agents = 20
    game = eq.AggregativeMarkovGame(
        np.tile([[0.0], [1.0]], (agents, 1, 1)),
        lambda h, s, x: np.full((agents, 2), [0.0, -1.0, 1.0][s]) + 0 * x[..., None],
        lambda h, s, x: np.concatenate([0 * x, 1 - x, x], -1),
        horizon=2,
        states=3,
        lipschitz=0.0,
        transition_lipschitz=1.0,
    )
    everyone_stays = np.tile([1.0, 0.0], (agents, 1))
    solution = eq.solve(
        game,
        objective="welfare",
        welfare=everyone_stays,
        spacing=0.1,
        method="state-wise",
        slack="printed",
        rounding="sample",
    )
    gap = solution.certificate.max_gain
    arguments = {
        "lipschitz": 0.0,
        "transition_lipschitz": 1.0,
        "spacing": 0.1,
        "delta": game.delta,
        "horizon": 2,
    }
    printed = theory.printed_statewise_gap(**arguments, agents=agents, actions=2)
    assert gap == pytest.approx(2 * printed)
    assert gap == pytest.approx(theory.markov_gap(**arguments, dimensions=1))
    assert gap <= theory.printed_gap(**arguments, agents=agents, actions=2)
