"""What the in-context paper says of its learners, and what its print gets wrong.

Statistical tests use fixed keys and margins several times wider than what was measured.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equipoise import dynamics, games
from equipoise.certificates import certify
from equipoise.core import schedules
from equipoise.core.precision import double_precision
from equipoise.dynamics import OMD, ImplicitExploration, MarkovOMD, Uniform
from equipoise.dynamics._omd import mirror_step


def self_play(batch, learner, rounds, **options):
    return dynamics.play(batch, learner, learner, rounds=rounds, key=11, **options)


def fresh(actions, count=32, **options):
    return games.families.uniform(actions=actions, **options).sample(count, key=2024)


@pytest.mark.parametrize("beta", [0.0, 0.05, 0.5])
def test_the_expectation_of_the_estimate(beta):
    """E[g_a] = loss_a x_a / (x_a + beta), over the draw of the action."""
    policy, losses = jnp.array([0.6, 0.3, 0.1]), np.array([0.2, 0.9, 0.5])
    expected = np.zeros(3)
    for action in range(3):
        estimate, _ = ImplicitExploration().estimate(
            (), policy, jnp.int32(action), jnp.float32(losses[action]), beta, 1
        )
        expected += float(policy[action]) * np.asarray(estimate)
    np.testing.assert_allclose(expected, losses * policy / (policy + beta), rtol=1e-6)


@pytest.mark.parametrize(("actions", "bound"), [(2, 0.03), (3, 0.05), (5, 0.07), (10, 0.12)])
@pytest.mark.parametrize("learner", [OMD(), OMD.vanishing()], ids=["default", "vanishing"])
def test_the_last_policies_approach_equilibrium(actions, bound, learner):
    trace = self_play(fresh(actions), learner, 10_000)
    assert trace.curve[-1].mean() < bound


@pytest.mark.parametrize("actions", [3, 10])
def test_the_default_is_better_than_a_vanishing_regulariser(actions):
    """The reason for the anchor: at 10,000 rounds the gap is smaller by more than a quarter."""
    batch = fresh(actions, 128)
    anchored = self_play(batch, OMD(), 10_000).curve[-1].mean()
    vanishing = self_play(batch, OMD.vanishing(), 10_000).curve[-1].mean()
    assert anchored < 0.75 * vanishing


def test_the_default_works_for_noisy_and_for_narrow_rewards():
    batch = fresh(3, 128)
    noisy = self_play(batch, OMD(), 10_000, noise=dynamics.Bernoulli())
    assert noisy.curve[-1].mean() < 0.06
    narrow = games.MatrixGame(0.7 + 0.3 * np.asarray(batch.payoff))
    assert self_play(narrow, OMD(), 10_000).curve[-1].mean() < 0.03


def test_more_rounds_help():
    curve = self_play(fresh(3, 128), OMD(), 10_000, record=(100, 1_000)).curve.mean(1)
    assert curve[0] > 1.5 * curve[1]
    assert curve[1] > 1.5 * curve[2]


def test_regret_grows_less_than_linearly():
    trace = self_play(fresh(3, 64), OMD(), 10_000, record=(1_000,))
    mean = trace.regret.mean((1, 2))
    assert mean[1] < 5 * mean[0]


def test_the_printed_constants_stay_uniform():
    """eta = T^-5/3 moves the policy by about T^-2/3 in all."""
    trace = self_play(fresh(3), OMD.printed_constants(10_000), 10_000)
    for policy in trace.last:
        assert np.abs(policy - 1 / 3).max() < 2e-3


def test_the_factor_that_the_proof_bounds_by_one_over_t_tends_to_one():
    rates = schedules.paper(10_000)
    assert (1 - float(rates.eta(1)) * float(rates.eps(1))) ** 10_000 > 0.99


def test_the_papers_formulas_make_x_the_minimiser():
    """Its words call x the max player, but its Nash inequality and its gap hold for minimisers."""
    payoff = np.array([[0.9, 0.8], [0.1, 0.3]])  # the second row is best for a minimiser
    pure = np.eye(2)
    saddles = [
        (i, j)
        for i, j in np.ndindex(2, 2)
        if (pure[i] @ payoff <= payoff[i, j]).all() and (payoff @ pure[j] >= payoff[i, j]).all()
    ]
    gaps = [[(pure[i] @ payoff).max() - (payoff @ pure[j]).min() for j in (0, 1)] for i in (0, 1)]
    assert saddles == [(1, 1)]
    assert np.argwhere(np.array(gaps) == 0.0).tolist() == [[1, 1]]
    maximiser = games.MatrixGame(payoff)
    assert float(certify(maximiser, (pure[0], pure[1])).nash_conv) == 0.0
    assert float(certify(maximiser, (pure[1], pure[1])).nash_conv) > 0.4


@pytest.mark.parametrize(
    ("learner", "grows"), [(OMD.plain(), False), (OMD.printed_regulariser(), True)]
)
def test_the_printed_regulariser_drives_exact_play_away_from_equilibrium(learner, grows):
    """Matching pennies with expected losses, from near the equilibrium: every step moves away.

    A step of length h multiplies the squared distance by `(1 - h eps)^2 + h^2`.
    """
    with double_precision():
        payoff = jnp.eye(2)
        x, y = jnp.array([0.51, 0.49]), jnp.array([0.495, 0.505])
        for t in range(10, 30):
            ahead = mirror_step(learner, x, (), 1.0 - payoff @ y, t)
            other = mirror_step(learner, y, (), x @ payoff, t)
            step, eps = float(learner.rates.step(t, 2)), float(learner.rates.strength(t, 2))
            before, after = (
                jnp.sum((a - 0.5) ** 2 + (b - 0.5) ** 2) for a, b in ((x, y), (ahead, other))
            )
            assert float(after / before) == pytest.approx((1 - step * eps) ** 2 + step**2)
            assert (after > before) == grows
            x, y = ahead, other


def test_with_rewards_as_costs_the_printed_signs_still_learn():
    """The regulariser alone is wrong then, and it vanishes. The record has a million rounds."""
    batch = fresh(3)
    uniform = self_play(batch, Uniform(), 1).curve[-1].mean()
    for learner in (OMD.plain(), OMD.printed_regulariser()):
        assert self_play(batch, learner, 3_000).curve[-1].mean() < 0.5 * uniform


def test_the_printed_signs_end_worse_than_uniform():
    batch = fresh(3, 64)
    uniform = self_play(batch, Uniform(), 1).curve[-1].mean()
    assert self_play(batch, OMD.printed_signs(), 10_000).curve[-1].mean() > uniform + 0.02


def test_the_printed_signs_minimise_the_players_own_reward():
    """On a game with a dominant action for the row player, they end on the dominated one."""
    dominant = games.MatrixGame([[0.9, 0.9], [0.1, 0.1]])
    trace = dynamics.play(dominant, OMD.printed_signs(), Uniform(), rounds=2_000, key=0)
    assert trace.last[0][1] > 0.9
    right = dynamics.play(dominant, OMD(), Uniform(), rounds=2_000, key=0)
    assert right.last[0][0] > 0.9


def test_the_gain_form_locks_in():
    """Plainly negated rewards: whatever is played first gains, and many games end worse."""
    batch = fresh(10, 64)
    gain = OMD(rates=OMD.vanishing().rates, loss=dynamics.Gain(), anchor=dynamics.UniformAnchor())
    locked = self_play(batch, gain, 3_000).curve[-1].mean()
    assert locked > 1.5 * self_play(batch, OMD.vanishing(), 3_000).curve[-1].mean()


def test_an_unsquared_distance_does_not_move():
    """(1 / eta) |x - x_t| has its minimum at x_t as long as eta |g| < 1: a kink holds it there."""
    policy, gradient, eta = np.array([0.5, 0.3, 0.2]), np.array([1.0, -2.0, 0.5]), 0.1
    rng = np.random.default_rng(0)
    others = rng.dirichlet(np.ones(3), 2000)
    objective = others @ gradient + np.linalg.norm(others - policy, axis=1) / eta
    assert objective.min() > policy @ gradient
    with double_precision():
        moved = dynamics.Euclidean().step(jnp.asarray(policy), jnp.asarray(gradient), eta / 2, 0.0)
    squared = np.asarray(moved) @ gradient + np.sum((np.asarray(moved) - policy) ** 2) / eta
    assert squared < policy @ gradient - 1e-3


@pytest.mark.parametrize(
    "learner", [MarkovOMD(), MarkovOMD.vanishing()], ids=["default", "vanishing"]
)
def test_markov_games_are_learnt(learner):
    batch = fresh(3, states=3, discount=0.9)
    assert self_play(batch, learner, 10_000).curve[-1].mean() < 0.6


def test_the_printed_signs_fail_in_markov_games():
    batch = fresh(3, states=3, discount=0.9)
    uniform = self_play(batch, Uniform(), 1).curve[-1].mean()
    assert self_play(batch, MarkovOMD.printed_signs(), 10_000).curve[-1].mean() > uniform


def test_one_state_and_no_future_is_a_matrix_game():
    """Algorithm 1 on a game of one state and discount zero learns that matrix game."""
    batch = fresh(3, 64)
    payoff = np.asarray(batch.payoff)
    single = games.MarkovGame(payoff[:, None], np.ones((64, 1, 3, 3, 1)), 0.0)
    trace = self_play(single, MarkovOMD(), 10_000)
    gaps = certify(batch, (trace.last[0][:, 0], trace.last[1][:, 0])).nash_conv
    assert gaps.mean() < 0.05


def test_the_full_information_reference_converges():
    trace = self_play(fresh(3), dynamics.OptimisticOMD(), 5_000)
    assert trace.curve[-1].mean() < 1e-3


def test_exp3_ix_converges_on_average_and_not_at_the_end():
    trace = self_play(fresh(3, 128), dynamics.EXP3IX(), 10_000)
    average = trace.average_curve[-1].mean()
    assert average < 0.045
    assert trace.curve[-1].mean() > 1.4 * average


def test_log_barrier_and_entropic_learners_improve_on_uniform():
    batch = fresh(3, 64)
    uniform = self_play(batch, Uniform(), 1).curve[-1].mean()
    assert self_play(batch, dynamics.LogBarrierOMD(), 10_000).curve[-1].mean() < 0.5 * uniform
    assert self_play(batch, dynamics.EntropicOMD(), 10_000).curve[-1].mean() < 0.9 * uniform


def test_hyper_parameters_change_what_they_name():
    """A change of any number of a learner changes its play."""
    batch, base = fresh(3, 4), OMD()
    before = self_play(batch, base, 50).last[0]
    leaves, shape = jax.tree.flatten(base)
    for i, leaf in enumerate(leaves):
        changed = list(leaves)
        # Steps of more than one would take a baseline out of the rewards' range.
        changed[i] = 0.9 * leaf if leaf else leaf + 0.3
        learner = jax.tree.unflatten(shape, changed)
        assert (self_play(batch, learner, 50).last[0] != before).any(), f"leaf {i} of {shape}"
