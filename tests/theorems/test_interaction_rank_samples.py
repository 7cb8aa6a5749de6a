"""The interaction-rank paper: sample sizes and concentrability.

The other statements are in test_interaction_rank.py and test_coverage_coefficients.py.
"""

from itertools import product

import numpy as np
import pytest

import equipoise as eq
from equipoise.offline import decomposition, parameters, theory

SIZES = {"ratio": 3.0, "horizon": 4, "state_ratio": 2.0}


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_sample_sizes_after_theorems_2_and_3_invert_their_bounds(rank):
    for gap, agents in product((0.01, 0.3), (2, 20)):
        error = 7.0 / theory.printed_samples(gap, agents, rank, ratio=3.0, complexity=7.0)
        assert theory.printed_gap(agents, rank, error, divergence=3.0) == pytest.approx(gap)
        error = 7.0 / theory.printed_samples(gap, agents, rank, complexity=7.0, **SIZES)
        found = theory.printed_markov_gap(
            agents, rank, error, horizon=4, state_ratio=2.0, divergence=3.0
        )
        assert found == pytest.approx(gap)
        # As it is printed after Theorem 3:
        printed = 3.0 ** (3 * rank + 2) * 2.0**rank * 4.0 ** (6 * rank + 2)
        printed *= (2 * agents**2) ** (rank - 1) * 7.0 / gap ** (3 * rank + 2)
        assert theory.printed_samples(gap, agents, rank, complexity=7.0, **SIZES) == pytest.approx(
            printed
        )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_table_1_counts_exponents_of_the_coverage_up_to_a_factor(rank):
    """Table 1 has C^K; the bounds that the paper proves have C^(3K-1) and C^(3K+2)."""
    for power, horizon in ((3 * rank - 1, None), (3 * rank + 2, 4)):
        rows = [
            theory.printed_samples(0.1, 9, rank, ratio=ratio, horizon=horizon)
            for ratio in (5.0, 10.0)
        ]
        assert np.log2(rows[1] / rows[0]) == pytest.approx(power)
        more = theory.printed_samples(0.1, 18, rank, ratio=5.0, horizon=horizon)
        assert np.log2(more / rows[0]) == pytest.approx(2 * (rank - 1))  # polynomial in N


def test_theorem_2_is_vacuous_below_so_many_rows():
    """With rewards in [0, 1], 20 agents, K = 2 and three actions: errors above 5.1e-6."""
    error = theory.printed_error(1.0, agents=20, rank=2, ratio=3.0)
    assert error == pytest.approx(5.1e-6, rel=0.01)
    assert parameters.paper(20, 2, error).strength == pytest.approx(1 / 3)


def unilateral_by_force(policy, behaviour, errors):
    """Largest ratio over own actions of agent 0 and the functions (a_0, ..., a_W) listed."""
    ratios = []
    for f in errors:
        joint = [np.ones(())]
        for chances in (policy, behaviour):
            weight = chances[1]
            for own in chances[2:]:
                weight = np.multiply.outer(weight, own)
            joint.append(weight)
        per_action = (joint[1] * f**2).reshape(len(f), -1).sum(1)
        logged = (joint[2] * f**2).reshape(len(f), -1).sum(1)
        ratios.append(per_action.max() / (behaviour[0] @ logged))
    return max(ratios)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_unilateral_concentrability_is_at_most_the_tight_factor_of_theorem_1(seed, rank):
    rng = np.random.default_rng(seed)
    agents, actions = 4, 3
    policy, behaviour = rng.dirichlet(np.ones(actions), size=(2, agents))
    behaviour = 0.5 * behaviour + 0.5 / actions
    found = theory.unilateral_concentrability(policy, behaviour, rank=rank)
    ratio = (1 / behaviour).max()
    assert (found <= theory.shift_factor(agents - 1, rank, ratio) * (1 + 1e-9)).all()
    errors = []
    for _ in range(20):
        # A function of one own action alone has the largest ratio.
        table = rng.normal(size=(1, *[actions] * (agents - 1)))
        parts = decomposition.decompose(table, ["uniform"] * (agents - 1)).reconstruct(rank)
        errors.append(np.zeros((actions, *parts.shape[1:])))
        errors[-1][behaviour[0].argmin()] = parts[0]
    assert unilateral_by_force(policy, behaviour, errors) <= found[0] * (1 + 1e-9)


def test_unilateral_concentrability_of_all_functions_is_a_ratio_of_densities():
    rng = np.random.default_rng(0)
    policy, behaviour = rng.dirichlet(np.ones(3), size=(2, 2, 4))
    found = theory.unilateral_concentrability(policy, behaviour)
    own, others = (1 / behaviour).max(-1), (policy / behaviour).max(-1)
    whole = own * others.prod(-1, keepdims=True) / others
    np.testing.assert_allclose(found, whole.max(0), rtol=1e-8)
    # Rank one: only the own action shifts.
    np.testing.assert_allclose(
        theory.unilateral_concentrability(policy, behaviour, rank=1), own.max(0)
    )
    never = np.array([[0.5, 0.5], [1.0, 0.0]])
    some = np.array([[0.5, 0.5], [0.5, 0.5]])
    assert theory.unilateral_concentrability(some, never).tolist() == [np.inf, np.inf]
    assert theory.unilateral_concentrability(never, never).tolist() == [2.0, 1.0]
    with pytest.raises(ValueError, match="rank: expected at most 2"):
        theory.unilateral_concentrability(some, some, rank=3)


@pytest.mark.parametrize("ratio", [2.0, 4.0])
def test_unilateral_concentrability_exceeds_the_power_of_the_ratio(ratio):
    """The paper has C'_uni <= C_sin^K up to a constant; the factor grows with the agents."""
    found = []
    for agents in (2, 4, 8, 16):
        rare = np.tile([0.0, 1.0], (agents, 1))
        log = np.tile([1 - 1 / ratio, 1 / ratio], (agents, 1))
        (value,) = {round(x, 6) for x in _few(rare, log)}
        assert value == pytest.approx(theory.shift_factor(agents - 1, 2, ratio))
        found.append(value / ratio**2)
    assert found[0] == pytest.approx(1.0)  # for two agents as printed
    assert found[3] > 7.5 * found[0]
    assert np.diff(found).min() > 0


def _few(rare, log):
    """The ratio for functions of rank two: all agents alike, so two are enough."""
    return theory.unilateral_concentrability(rare, log, rank=2)[:2]


def random_process(rng, agents=2, states=3, actions=2, horizon=3):
    transitions = rng.dirichlet(np.ones(states) / 3, size=(1, horizon, agents, states, actions))
    initial = np.zeros((1, agents, states))
    initial[..., 0] = 1.0
    return initial, transitions


def visits(initial, transitions, policy):
    """(horizon, agents, states) for a policy (horizon, agents, states, actions)."""
    here, found = initial[0], []
    for h in range(len(policy)):
        found.append(here)
        here = np.einsum("ns,nsa,nsat->nt", here, policy[h], transitions[0, h])
    return np.array(found)


def test_assumption_4_state_concentrability_is_that_of_the_best_deterministic_policy():
    rng = np.random.default_rng(0)
    initial, transitions = random_process(rng)
    logged = visits(initial, transitions, np.full((3, 2, 3, 2), 0.5))
    best = np.zeros_like(logged)
    for choice in product(range(2), repeat=6):  # actions of the first two steps
        table = np.eye(2)[np.array([*choice, 0, 0, 0]).reshape(3, 1, 3)]
        best = np.maximum(best, visits(initial, transitions, table.repeat(2, 1)))
    # The recursion itself is exact: a state that is never reached counts as zero.
    with np.errstate(invalid="ignore"):
        expected = np.where(best > 0, best / logged, 0.0).max((0, 2))
    found = theory.state_concentrability(initial, transitions, logged[None])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert (found > 1.2).all()


def test_assumption_4_estimates_from_logs_approach_the_exact_value():
    family = eq.games.families.polymatrix(3, 2, 2, states=3, horizon=3, scale=0.3)
    game = family.sample(key=0)
    logged = game.occupancies(game.uniform_policy()).sum(-1)
    exact = theory.state_concentrability(game.initial, game.transitions, logged)
    errors = []
    for samples in (1000, 100_000):
        log = eq.offline.collect(game, "uniform", samples=samples, key=1)
        errors.append(np.abs(eq.offline.state_concentrability(log) - exact).max())
    assert errors[1] < 0.1 < errors[0] < 1.0
    # Theorem 3 can be evaluated with it.
    ratio = float(exact.max())
    sizes = {"horizon": 3, "state_ratio": ratio}
    assert theory.printed_markov_gap(3, 2, 1e-9, **sizes) > theory.printed_markov_gap(
        3, 2, 1e-9, horizon=3
    )


def test_state_concentrability_of_logs_without_steps_is_one():
    game = eq.games.families.polymatrix(agents=3, actions=2).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=100, key=0)
    assert eq.offline.state_concentrability(log).tolist() == [1.0, 1.0, 1.0]
    initial, transitions = random_process(np.random.default_rng(1))
    unseen = np.tile([1.0, 0.0, 0.0], (1, 3, 2, 1))
    assert np.isinf(theory.state_concentrability(initial, transitions, unseen)).all()
    with pytest.raises(ValueError, match="states: expected shape"):
        theory.state_concentrability(initial, transitions, unseen[:, :2])
