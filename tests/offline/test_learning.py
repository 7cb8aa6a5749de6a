"""DR-AC: steps against a solver, critics against each other, gaps against what was measured."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from support import peer

import equipoise as eq
from equipoise.core.precision import double_precision
from equipoise.offline import parameters
from equipoise.offline._gap import covered_gains
from equipoise.offline.theory import chi_squared
from equipoise.solvers.no_regret import STEPS, ExactCritic


def objective(name, p, policy, q, nu, step, strength):
    """What a step maximises."""
    kept = nu > 0
    distance = {
        "chi-squared": lambda a, b: ((a - b)[kept] ** 2 / nu[kept]).sum(),
        "kl": lambda a, b: (a[kept] * np.log(np.maximum(a[kept], 1e-300) / b[kept])).sum(),
        "l2": lambda a, b: ((a - b) ** 2).sum(),
    }[name]
    return p @ q - strength * distance(p, nu) - distance(p, policy) / step


@pytest.mark.parametrize("name", list(STEPS))
@pytest.mark.parametrize("seed", range(4))
def test_a_step_is_the_best_there_is(name, seed):
    rng = np.random.default_rng(seed)
    nu, policy, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5)), rng.normal(size=5)
    step, strength = rng.uniform(0.1, 4), rng.uniform(0.001, 0.5)
    given = (policy, q, nu)
    with double_precision():
        p = np.asarray(STEPS[name](*map(jnp.asarray, given), step=step, strength=strength))
    assert p.sum() == pytest.approx(1.0)
    best = objective(name, p, *given, step, strength)
    found = minimize(
        lambda x: -objective(name, np.maximum(x, 0), *given, step, strength),
        np.full(5, 0.2),
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        bounds=[(1e-12, 1)] * 5,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 300},
    )
    assert best >= -found.fun - 1e-9
    for other in rng.dirichlet(np.ones(5), 50):
        assert best >= objective(name, other, *given, step, strength) - 1e-12


def test_the_chi_squared_step_equals_a_quadratic_program():
    cvxpy = peer("cvxpy")
    rng = np.random.default_rng(0)
    nu, policy, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6)), rng.normal(size=6)
    with double_precision():
        given = map(jnp.asarray, (policy, q, nu))
        p = np.asarray(STEPS["chi-squared"](*given, step=2.0, strength=0.05))
    x = cvxpy.Variable(6, nonneg=True)
    near = cvxpy.sum_squares((x - nu) / np.sqrt(nu)) * 0.05
    near += cvxpy.sum_squares((x - policy) / np.sqrt(nu)) / 2.0
    program = cvxpy.Problem(cvxpy.Maximize(x @ q - near), [cvxpy.sum(x) == 1])
    program.solve(solver="CLARABEL")
    np.testing.assert_allclose(p, x.value, atol=1e-6)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("markov", [False, True])
def test_the_exact_critic_equals_brute_force(rank, markov):
    sizes = {"states": 2, "horizon": 2} if markov else {}
    game = eq.games.families.interaction_rank(3, 2, 2, rank=rank, **sizes).sample(key=0)
    rng = np.random.default_rng(0)
    policy = rng.dirichlet(np.ones(2), size=game.policy_shape[:-1])
    inner = policy if markov else policy[:, None, :, None]
    with double_precision():
        q = np.asarray(ExactCritic.of(game)(jnp.asarray(inner), jax.random.key(0)))
    moves = game.occupancies(policy) if markov else inner
    horizon = moves.shape[1]
    flat = moves.reshape(2 * horizon, 3, -1)
    dense = game.interactions.to_dense()
    rewards = np.stack(
        [
            np.einsum("suvw,sv,sw->su", dense[:, 0], flat[:, 1], flat[:, 2]),
            np.einsum("suvw,su,sw->sv", dense[:, 1], flat[:, 0], flat[:, 2]),
            np.einsum("suvw,su,sv->sw", dense[:, 2], flat[:, 0], flat[:, 1]),
        ],
        1,
    ).reshape(moves.shape)
    last = rewards[:, -1]
    np.testing.assert_allclose(q[:, -1], last, atol=1e-12)
    if markov:
        value = (last * policy[:, -1]).sum(-1)
        before = rewards[:, 0] + np.einsum("cnsat,cnt->cnsa", game.transitions[:, 0], value)
        np.testing.assert_allclose(q[:, 0], before, atol=1e-12)


def test_true_rewards_lead_to_a_small_gap():
    """Polymatrix, lambda .003, eta 3, T 400: below .01 whatever the number of agents."""
    for agents in (5, 20):
        game = eq.games.families.polymatrix(agents, 3, 2).sample(key=0)
        solution = eq.offline.solve(
            game, behaviour="uniform", iterations=400, step=3.0, strength=0.003
        )
        assert eq.certify(game, solution.policy).max_gain < 0.01
        assert solution.status.ok
        assert len(solution.policy) == 400
        np.testing.assert_allclose(solution.policy[0], game.uniform_policy())


@pytest.mark.slow
def test_the_right_rank_beats_the_joint_critic_beats_rank_1():
    game = eq.games.families.polymatrix(20, 3, 2, scale=0.25).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=3000, key=1)
    gaps = {}
    for rank in (1, 2, "joint"):
        model = eq.offline.fit(log, rank)
        solution = eq.offline.solve(model, iterations=200, step=5.0, strength=0.01, simulations=32)
        gaps[rank] = float(eq.certify(game, solution.policy).max_gain)
    assert gaps[2] < 0.06
    assert gaps[1] > 0.2
    assert gaps[2] < gaps["joint"] < gaps[1]
    assert solution.certificate.exact is False
    assert solution.certificate.concept == "cce"


def test_rank_3_rewards_need_rank_3():
    game = eq.games.families.interaction_rank(6, 3, rank=3, scale=0.25).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=6000, key=1)
    gaps = [
        float(eq.certify(game, eq.offline.solve(eq.offline.fit(log, k)).policy).max_gain)
        for k in (2, 3)
    ]
    assert gaps[1] < 0.05
    assert gaps[0] > 2 * gaps[1]


def test_markov_games_are_learned_with_either_critic():
    game = eq.games.families.polymatrix(4, 2, states=2, horizon=2, scale=0.25).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=4000, key=1)
    model = eq.offline.fit(log, 2)
    before = float(eq.certify(game, game.uniform_policy()).max_gain)
    for critic in ("exact", "monte-carlo"):
        solution = eq.offline.solve(model, critic=critic, simulations=200)
        assert eq.certify(game, solution.policy).max_gain < before / 3
        assert solution.policy.policies.shape[1:] == game.policy_shape


@pytest.mark.parametrize("regulariser", ["kl", "l2"])
def test_other_regularisers_learn_too(regulariser):
    game = eq.games.families.polymatrix(5, 3, scale=0.25).sample(key=0)
    before = float(eq.certify(game, game.uniform_policy()).max_gain)
    solution = eq.offline.solve(
        game, behaviour="uniform", regulariser=regulariser, iterations=300, step=2.0,
        strength=0.002,
    )  # fmt: skip
    assert eq.certify(game, solution.policy).max_gain < before / 5


def test_too_little_data_returns_the_behaviour_and_says_so():
    game = eq.games.families.polymatrix(20, 3, 2).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=200, key=1)
    model = eq.offline.fit(log, 2)
    solution = eq.offline.solve(model)
    assert solution.status.name == "refused"
    assert not solution.status.ok
    assert "samples per parameter" in solution.status.message
    np.testing.assert_allclose(solution.policy[0], model.behaviour)
    forced = eq.offline.solve(model, force=True, iterations=10)
    assert forced.status.ok


def test_agents_with_fewer_actions():
    rng = np.random.default_rng(0)
    actions = np.stack([rng.integers(0, 2, 800), rng.integers(0, 3, 800)], 1)
    rewards = np.stack([actions[:, 0] == actions[:, 1], actions[:, 0] != actions[:, 1]], 1)
    log = eq.offline.Log(np.zeros(800, int), actions, rewards.astype(float))
    model = eq.offline.fit(log, 2)
    for regulariser in STEPS:
        solution = eq.offline.solve(model, regulariser=regulariser, iterations=50)
        assert np.all(solution.policy.policies[:, :, 0, 2] == 0)


def test_on_support_gains_are_those_of_the_constrained_best_reply():
    game = eq.games.families.polymatrix(3, 3, 2, scale=0.3).sample(key=0)
    policy = game.uniform_policy()
    nu = np.random.default_rng(0).dirichlet(np.ones(3) * 3, size=(2, 3))
    rewards = game.interactions.expected(policy)
    value = eq.certify(game, policy).value
    for allowed in (0.05, 0.5):
        gains = covered_gains(game, policy, nu, allowed)
        for i in range(3):

            def loss(x, i=i):
                return -0.5 * (x.reshape(2, 3) * rewards[:, i]).sum()

            def room(x, i=i, allowed=allowed):
                return allowed - 0.5 * chi_squared(x.reshape(2, 3), nu[:, i]).sum()

            best = minimize(
                loss, nu[:, i].ravel(), bounds=[(0, 1)] * 6, method="SLSQP",
                constraints=[
                    {"type": "eq", "fun": lambda x: x.reshape(2, 3).sum(1) - 1},
                    {"type": "ineq", "fun": room},
                ],
                options={"ftol": 1e-12, "maxiter": 500},
            )  # fmt: skip
            assert gains[i] == pytest.approx(-best.fun - value[i], abs=1e-5)
    everything = covered_gains(game, policy, nu, 1e4)
    np.testing.assert_allclose(everything, eq.certify(game, policy).gains, atol=1e-6)


def test_a_gap_says_in_words_when_deviations_on_support_lose():
    def words(gap, on):
        gains = np.array([gap])
        return str(eq.offline.GapEstimate(gap, on, gap - on, gains, np.array([on]), 1.0))

    assert words(0.3, 0.1) == (
        "0.3 in the fitted model: 0.1 by deviations on support (chi^2 <= 1) and 0.2 off support"
    )
    assert words(0.0025, -0.1) == (
        "0.0025 in the fitted model: deviations gain only off support; "
        "the best one on support (chi^2 <= 1) loses 0.1"
    )
    assert words(-0.1, -0.2).endswith("no deviation gains, on support or off")


def test_parameters_scale_with_the_unit_of_rewards():
    small, large = parameters.default(0.1), parameters.default(10.0)
    assert small.step * 0.1 == pytest.approx(large.step * 10)
    assert small.strength / 0.1 == pytest.approx(large.strength / 10)
    assert parameters.default(0.1, 2.0).strength == pytest.approx(2 * small.strength)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regulariser": "tv"}, "regulariser: expected one of"),
        ({"critic": "guess"}, "critic: expected"),
        ({"step": 0.0}, "step: expected"),
        ({"strength": -1.0}, "strength: expected"),
        ({"iterations": 0}, "iterations: expected"),
        ({"behaviour": "greedy"}, "behaviour: expected"),
        ({"behaviour": np.ones((2, 2))}, "behaviour: expected shape"),
    ],
)
def test_wrong_options_are_named(options, message):
    game = eq.games.families.polymatrix(3, 2).sample(key=0)
    model = eq.offline.fit(eq.offline.collect(game, "uniform", samples=200, key=1), 2)
    with pytest.raises(ValueError, match=message):
        eq.offline.solve(model, **({"iterations": 2} | options))


def test_a_game_needs_a_behaviour():
    game = eq.games.families.polymatrix(3, 2).sample(key=0)
    with pytest.raises(ValueError, match="behaviour: expected a product policy"):
        eq.offline.solve(game)


@pytest.mark.parametrize("regulariser", ["chi-squared", "kl", "l2"])
def test_the_level_of_rewards_moves_no_policy(regulariser):
    rng = np.random.default_rng(0)
    contexts, actions = np.zeros(300, int), rng.integers(0, 3, (300, 2))
    rewards = rng.random((300, 2))
    logs = [eq.offline.Log(contexts, actions, rewards + level) for level in (0.0, 2.0**20)]
    near, far = (
        eq.offline.solve(eq.offline.fit(log, 1), iterations=50, regulariser=regulariser, step=5.0)
        for log in logs
    )
    assert far.policy.policies[-1] == pytest.approx(near.policy.policies[-1], abs=0.01)
    # Constant rewards leave nothing to learn, and are no reason to fail.
    model = eq.offline.fit(eq.offline.Log(contexts, actions, np.ones((300, 2))), 2)
    constant = eq.offline.solve(model, regulariser=regulariser)
    assert constant.policy.policies[-1] == pytest.approx(model.behaviour, abs=0.2)
    assert constant.certificate.max_gain == pytest.approx(0.0, abs=1e-12)
