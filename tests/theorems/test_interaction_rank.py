"""The interaction-rank paper: one test for each numbered statement, or a line that says why not.

Numbers are those of "Exploiting structure in offline multi-agent RL: the benefits of low
interaction rank"; proofs of what is tighter here are in docs/theory/interaction-rank.md.

Not tested: Lemmas 13 and 14 are quoted from elsewhere (guarantees of least squares and maximum
likelihood with unspecified constants); Theorem 1 (lower bound for general functions) is the case
K = W + 1 of the tight factor.
"""

from itertools import product
from math import factorial

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.core.precision import double_precision
from equipoise.core.simplex import chi_squared_step
from equipoise.offline import decomposition, parameters, theory
from equipoise.offline._critics import MonteCarloCritic, TermRewards
from equipoise.solvers.no_regret import Dynamics, ExactCritic

SEEDS = st.integers(0, 10**6)


def distributions(rng, sizes, x=()):
    return [rng.dirichlet(np.ones(size), size=x) for size in sizes]


def random_rank(rng, sizes, rank, x=2):
    """A table (x, *sizes) of the given interaction rank."""
    parts = decomposition.decompose(rng.normal(size=(x, *sizes)), ["uniform"] * len(sizes))
    return parts.reconstruct(rank)


def mean_square(table, measures, x_measure):
    """E[f^2] over x and all inputs."""
    weight = np.asarray(x_measure).reshape(-1, *[1] * len(measures))
    for j, measure in enumerate(measures):
        shape = [1] * (len(measures) + 1)
        shape[0], shape[j + 1] = measure.shape
        weight = weight * measure.reshape(shape)
    return float((weight * table**2).sum())


def tilted(rng, measure, ratio):
    """Distributions whose density ratio to `measure` is at most `ratio`."""
    weights = rng.dirichlet(np.full(measure.shape[-1], 0.3), size=measure.shape[:-1])
    # Towards the measure itself until the ratio is within bounds.
    largest = (weights / measure).max(-1, keepdims=True)
    share = np.where(largest > ratio, (ratio - 1) / np.maximum(largest - 1, 1e-12), 1.0)
    return share * weights + (1 - share) * measure


@hypothesis.given(SEEDS, st.integers(1, 4))
def test_lemma_3_the_standardised_decomposition(seed, inputs):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, inputs)
    table, measures = rng.normal(size=(2, *sizes)), distributions(rng, sizes, (2,))
    parts = decomposition.decompose(table, measures)
    assert np.abs(parts.reconstruct() - table).max() < 1e-12
    for subset, term in parts.terms.items():
        for place, j in enumerate(subset):
            moved = np.moveaxis(term, place + 1, -1)
            shape = (2, *[1] * (len(subset) - 1), sizes[j])
            assert np.abs((moved * measures[j].reshape(shape)).sum(-1)).max() < 1e-12
    squares = sum(parts.mean_squares().values())
    total = decomposition.decompose(table**2, measures).terms[()]
    np.testing.assert_allclose(squares, total, atol=1e-12)


@hypothesis.given(SEEDS, st.integers(1, 3))
def test_definition_2_terms_from_the_rank_on_vanish(seed, rank):
    rng = np.random.default_rng(seed)
    table = random_rank(rng, (3, 2, 3), rank)
    parts = decomposition.decompose(table, distributions(rng, (3, 2, 3), (2,)))
    assert parts.rank() == rank == decomposition.interaction_rank(table, x_axes=1)


@pytest.mark.parametrize("order", [1, 2])
def test_relation_to_taylor_series(order):
    """An expansion of order K has rank K + 1; what is left of a function falls as size^(K + 1)."""

    def best(size, taylor):
        grid = np.stack(np.meshgrid(*[size * np.array([-1.0, 0.0, 1.0])] * 3, indexing="ij"))
        inner = np.tensordot([0.7, -1.3, 0.9], grid, 1)[None]
        table = np.exp(inner)
        if taylor:
            table = sum(inner**k / factorial(k) for k in range(order + 1))
        parts = decomposition.decompose(table, ["uniform"] * 3)
        return [np.abs(table - parts.reconstruct(rank)).max() for rank in (order, order + 1)]

    lower, exact = best(0.5, taylor=True)
    assert exact < 1e-12 < 0.1 < lower
    errors = [best(size, taylor=False)[1] for size in (0.02, 0.01)]
    assert errors[0] / errors[1] == pytest.approx(2 ** (order + 1), rel=0.05)


@hypothesis.given(SEEDS, st.integers(1, 3))
def test_lemma_4_and_1_errors_of_sub_functions_add_up(seed, rank):
    """An identity, of which the printed inequalities are loose consequences."""
    rng = np.random.default_rng(seed)
    sizes, x_measure = (3, 2, 4), rng.dirichlet(np.ones(2))
    measures = distributions(rng, sizes, (2,))
    f, g = random_rank(rng, sizes, rank), random_rank(rng, sizes, rank)
    error = mean_square(f - g, measures, x_measure)
    apart = decomposition.decompose(f, measures), decomposition.decompose(g, measures)
    total = 0.0
    for subset, term in apart[0].terms.items():
        difference = decomposition.Decomposition(
            {subset: term - apart[1].terms[subset]}, apart[0].distributions
        )
        own = float(x_measure @ difference.mean_squares()[subset])
        assert own <= theory.sub_function_error(len(subset), error) + 1e-12
        total += own
    assert total == pytest.approx(error, rel=1e-9)


@hypothesis.given(SEEDS, st.integers(1, 4), st.floats(1.1, 6.0))
def test_theorem_1_in_its_tight_form(seed, rank, ratio):
    rng = np.random.default_rng(seed)
    sizes = (3, 3, 2)
    x = rng.dirichlet(np.ones(2))
    measures = distributions(rng, sizes, (2,))
    error = random_rank(rng, sizes, rank)
    shifted = [tilted(rng, measure, ratio) for measure in measures]
    assert all((q / p).max() <= ratio + 1e-9 for p, q in zip(measures, shifted, strict=True))
    grown = mean_square(error, shifted, tilted(rng, x, ratio))
    bound = theory.shift_factor(3, rank, ratio)
    assert grown <= bound * mean_square(error, measures, x) * (1 + 1e-9)
    assert bound <= theory.printed_shift_factor(3, rank, ratio) * (1 + 1e-12)


@pytest.mark.parametrize(("others", "rank", "ratio"), [(8, 3, 4.0), (5, 2, 2.5), (4, 5, 3.0)])
def test_theorem_1_is_attained(others, rank, ratio):
    """Each input moves to an event of probability 1/C; the function is the kernel there."""
    root = np.sqrt(ratio - 1)
    psi = np.array([-1 / root, root])  # orthonormal to 1 under (1 - 1/C, 1/C)
    measure = np.array([1 - 1 / ratio, 1 / ratio])
    table = np.zeros((2,) * others)
    for point in product(range(2), repeat=others):
        values = psi[list(point)] * root  # each term of the kernel at the corner
        sums = np.zeros(rank)
        sums[0] = 1.0
        for value in values:  # elementary symmetric polynomials, up to degree rank - 1
            sums[1:] = sums[1:] + value * sums[:-1]
        table[point] = sums.sum()
    trained = mean_square(table[None], [measure[None]] * others, [1.0])
    target = float(table[(1,) * others] ** 2)
    # The first factor C is the shift of x: the error is all at one x of probability 1/C.
    assert ratio * target / trained == pytest.approx(theory.shift_factor(others, rank, ratio))


@hypothesis.given(SEEDS)
def test_lemma_5_and_6_shifts_and_products(seed):
    rng = np.random.default_rng(seed)
    f, p, q = rng.normal(size=6), *rng.dirichlet(np.ones(6), 2)
    divergence = theory.chi_squared(p, q)
    assert p @ f <= np.sqrt(q @ f**2 * (1 + divergence)) + 1e-12
    rho = rng.dirichlet(np.ones(2))
    ps, qs = rng.dirichlet(np.ones(3), (2, 2)), rng.dirichlet(np.ones(3), (2, 2))
    joint_p = np.einsum("c,ca,cb->cab", rho, *ps).ravel()
    joint_q = np.einsum("c,ca,cb->cab", rho, *qs).ravel()
    factors = 1 + theory.chi_squared(ps, qs)
    assert 1 + theory.chi_squared(joint_p, joint_q) == pytest.approx(rho @ factors.prod(0))


def run_steps(rewards, nu, step, strength):
    """p^1 = nu, ..., p^{T+1}."""
    with double_precision():
        nu = jnp.asarray(nu)

        def one(p, r):
            return chi_squared_step(p, r, nu, step=step, strength=strength), p

        last, path = jax.lax.scan(one, nu, jnp.asarray(rewards))
        return np.concatenate([path, last[None]])


@pytest.mark.parametrize("seed", range(8))
def test_lemma_7_regret(seed):
    """ "Loss" is a reward; the last line of the proof means D(mu, nu) = chi^2(mu, nu)."""
    rng = np.random.default_rng(seed)
    rewards = rng.random((60, 4)) if seed % 2 else np.tile(rng.random((2, 4)) > 0.5, (30, 1)) * 1.0
    nu = rng.dirichlet(np.ones(4))
    step, strength = rng.uniform(0.05, 3), rng.uniform(0.001, 0.3)
    path = run_steps(rewards, nu, step, strength)
    paid = strength * theory.chi_squared(path, nu).sum()
    for mu in [*np.eye(4), nu, rng.dirichlet(np.ones(4))]:
        regret = (rewards * (mu - path[:-1])).sum() + paid
        bound = theory.regret_bound(
            60, step=step, strength=strength, divergence=theory.chi_squared(mu, nu)
        )
        assert regret <= bound + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_equation_12_chi_squared_does_not_grow(seed):
    rng = np.random.default_rng(seed)
    rewards, nu = rng.random((200, 5)), rng.dirichlet(np.ones(5))
    strength = rng.uniform(0.01, 0.2)
    found = theory.chi_squared(run_steps(rewards, nu, 2.0, strength), nu)
    variance = (rewards**2 @ nu - (rewards @ nu) ** 2).max()
    bound = theory.chi_squared_bound(strength, variance=variance)
    assert found.max() <= bound + 1e-9
    assert bound <= theory.chi_squared_bound(strength)
    printed = [theory.printed_chi_squared_bound(t + 1, strength) for t in range(201)]
    assert (found <= np.array(printed) + 1e-9).all()


def test_the_chi_squared_bound_is_attained():
    """A constant reward, unclipped: p / nu = 1 + (r - E r) / (2 lambda)."""
    nu, reward, strength = np.array([0.2, 0.3, 0.5]), np.array([0.4, 0.5, 0.45]), 0.2
    p = run_steps(np.tile(reward, (4000, 1)), nu, 5.0, strength)[-1]
    expected = nu * (1 + (reward - nu @ reward) / (2 * strength))
    np.testing.assert_allclose(p, expected, atol=1e-10)
    variance = nu @ reward**2 - (nu @ reward) ** 2
    bound = theory.chi_squared_bound(strength, variance=variance)
    assert theory.chi_squared(p, nu) == pytest.approx(bound, rel=1e-8)


@hypothesis.given(SEEDS)
def test_lemma_8_three_points(seed):
    rng = np.random.default_rng(seed)
    nu, *points = rng.dirichlet(np.ones(4), 4)

    def gradient(p):
        return 2 * (p - nu) / nu

    def distance(p, q):
        return ((p - q) ** 2 / nu).sum()

    a, b, c = points
    left = (gradient(a) - gradient(b)) @ (c - a)
    assert left == pytest.approx(distance(c, b) - distance(c, a) - distance(a, b), abs=1e-9)


@pytest.fixture(scope="module")
def markov():
    family = eq.games.families.polymatrix(3, 2, 2, states=2, horizon=3, scale=0.3)
    game, other = family.sample(2, key=0)
    return game, other.transitions


def occupancies(game, transitions, policy):
    with double_precision():
        return np.asarray(Dynamics(game.initial, transitions).occupancies(jnp.asarray(policy)))


def test_lemma_9_and_10_occupancies_under_a_wrong_model(markov):
    game, wrong = markov
    rng = np.random.default_rng(0)
    policy = rng.dirichlet(np.ones(2), size=game.policy_shape[:-1])
    true = occupancies(game, game.transitions, policy)
    found = occupancies(game, wrong, policy)
    rho = game.context_probabilities
    own = np.einsum("c,chnsa->hn", rho, np.abs(true - found))
    joint = [
        np.einsum("hab,hcd,hef->habcdef", *np.moveaxis(d[c], 1, 0))
        for d in (true, found)
        for c in range(2)
    ]
    apart = sum(rho[c] * np.abs(joint[c] - joint[2 + c]).reshape(3, -1).sum(1) for c in range(2))
    assert (apart <= own.sum(1) + 1e-12).all()
    step = np.abs(game.transitions - wrong).sum(-1)
    drift = np.einsum("c,chnsa,chnsa->hn", rho, true, step).cumsum(0)
    assert (own[1:] <= drift[:-1] + 1e-12).all()
    assert np.abs(own[0]).max() < 1e-12


def test_lemma_11_and_12_bellman_and_performance_difference(markov):
    game, _ = markov
    rng = np.random.default_rng(1)
    mu, pi = (rng.dirichlet(np.ones(2), size=game.policy_shape[:-1]) for _ in range(2))
    mu[:, :, 1:] = pi[:, :, 1:]  # agent 0 deviates
    with double_precision():
        q = np.asarray(ExactCritic.of(game)(jnp.asarray(pi), jax.random.key(0)))[:, :, 0]
    values = [eq.certify(game, policy).value[0] for policy in (mu, pi)]
    visited = game.occupancies(mu)[:, :, 0].sum(-1)
    advantage = (q * (mu - pi)[:, :, 0]).sum(-1)
    total = np.einsum("c,chs,chs->", game.context_probabilities, visited, advantage)
    assert values[0] - values[1] == pytest.approx(total, abs=1e-12)


def test_lemma_2_and_algorithm_2_are_unbiased_and_fall_as_one_over_root():
    family = eq.games.families.polymatrix(3, 2, 2, states=2, horizon=2, scale=0.3)
    game = family.sample(key=0)
    rng = np.random.default_rng(2)
    policy = rng.dirichlet(np.ones(2), size=game.policy_shape[:-1])
    nu, states = game.uniform_policy(), np.full(game.policy_shape[:-1], 0.5)
    with double_precision():
        exact = np.asarray(ExactCritic.of(game)(jnp.asarray(policy), jax.random.key(0)))
        errors = {}
        for simulations in (200, 3200):
            critic = MonteCarloCritic(
                TermRewards(game.interactions), Dynamics.of(game), nu, states,
                game.context_probabilities, simulations,
            )  # fmt: skip
            keys = jax.random.split(jax.random.key(1), 40)
            estimate = jax.jit(lambda p, k, critic=critic: critic(p, k))
            found = np.stack([estimate(jnp.asarray(policy), k) for k in keys])
            errors[simulations] = found - exact
    small = errors[200]
    z = small.mean(0) / (small.std(0, ddof=1) / np.sqrt(len(small)))
    # 3 standard errors for all but a few of the 48 cells, as the normal distribution has it.
    assert np.abs(z).mean() < 1.1
    assert (np.abs(z) > 3).sum() <= 3
    ratio = np.sqrt((small**2).mean() / (errors[3200] ** 2).mean())
    assert 3.2 < ratio < 5.0


@pytest.mark.parametrize("strength", [0.02, 0.005])
def test_theorem_2_regret_bounds_the_gap(strength):
    """With true rewards the gap of the mixture is at most its regret (Lemma 7 over T)."""
    game = eq.games.families.polymatrix(6, 3, 2, scale=0.25).sample(key=3)
    gaps = []
    for iterations in (50, 200, 800):
        solution = eq.offline.solve(
            game, behaviour="uniform", iterations=iterations, step=1.0, strength=strength
        )
        span = 2.0  # of expected rewards, generously
        bound = theory.regret_bound(
            iterations, step=1.0, strength=strength, divergence=2.0, span=span
        )
        gap = float(eq.certify(game, solution.policy).max_gain)
        assert gap <= bound / iterations
        gaps.append(gap)
    assert gaps[2] < gaps[0]


def test_theorem_2_gap_vanishes_with_strength_and_time():
    game = eq.games.families.polymatrix(6, 3, 2, scale=0.25).sample(key=4)
    solution = eq.offline.solve(game, behaviour="uniform", iterations=4000, step=0.5, strength=1e-5)
    assert eq.certify(game, solution.policy).max_gain < 0.003


def test_theorem_2_and_3_printed_rates_and_parameters():
    """The parameters balance the bound: each of its terms is at most a few times the rate."""
    agents, rank, error = 20, 2, 1e-12
    chosen = parameters.paper(agents, rank, error)
    rate = theory.printed_gap(agents, rank, error)
    spread = (2 * chosen.iterations * agents**2 / chosen.strength) ** (rank - 1) * error
    terms = [chosen.strength, 1 / (chosen.step * chosen.iterations), chosen.step / 4]
    terms += [np.sqrt(spread), spread / chosen.strength]
    assert max(terms) <= 4 * rate
    # Unusable at sizes that occur:
    assert parameters.paper(20, 2, 1e-2).strength > 1
    assert parameters.paper(20, 2, 1e-4).iterations <= 3
    assert parameters.paper(20, 2, 1 / 9e8, horizon=4).strength == pytest.approx(1.0, abs=0.6)


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_theorem_3_transition_term_exceeds_the_claim_for_rank_1_alone(rank):
    """Errata: H^2 N sqrt(C_S T H eps / lambda) and H^3 sqrt(C_S eps) against C H lambda.

    For K >= 2 both are below the claim wherever it is below H, the largest possible gap.
    """
    rng = np.random.default_rng(rank)
    ratios = []
    for _ in range(300):
        agents, horizon = int(10 ** rng.uniform(0.7, 5)), int(10 ** rng.uniform(0, 3))
        states, strength = 10 ** rng.uniform(0, 3), 10 ** rng.uniform(-4, 0)
        scale = states**rank * float(horizon) ** (3 * rank) * (2.0 * agents**2) ** (rank - 1)
        error = strength ** (3 * rank + 2) / scale
        sizes = {"horizon": horizon, "state_ratio": states}
        chosen = parameters.paper(agents, rank, error, **sizes)
        assert chosen.strength == pytest.approx(strength)
        ratio = horizon**3 / strength**3
        term = horizon**2 * agents * np.sqrt(states * ratio * error)
        claim = theory.printed_markov_gap(agents, rank, error, **sizes)
        ratios.append(max(term, horizon**3 * np.sqrt(states * error)) / claim)
    assert (max(ratios) > 10) if rank == 1 else (max(ratios) < 1)


def test_theorem_3_for_rank_1_holds_up_to_the_root_of_the_horizon_times_the_strength():
    """The terms of our proof, with lambda = C_S^(1/5) H^(3/5) eps^(1/5)."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        horizon, states = 10 ** rng.uniform(0, 3), 10 ** rng.uniform(0, 3)
        strength = 10 ** rng.uniform(-4, 0)
        root = np.sqrt(states * strength**5 / (states * horizon**3))
        terms = [horizon * root, horizon**2 * root, horizon**2 * root / strength]
        assert max(terms) <= horizon * strength * (1 + 1e-9)
        shifted = horizon**3 * root / strength
        assert shifted == pytest.approx((horizon * strength) ** 1.5)


@pytest.mark.parametrize("seed", range(4))
def test_theorem_3_for_rank_1_steps_of_the_proof_in_a_fitted_decision_process(seed):
    """The change of measure, the divergence of iterates, and the expansion of the value."""
    rng = np.random.default_rng(seed)
    horizon, states, actions, rounds = 4, 3, 3, 40
    truth = rng.dirichlet(np.ones(states), size=(horizon, states, actions))
    weight = rng.uniform(0, 0.3)
    fitted = (1 - weight) * truth + weight * rng.dirichlet(np.ones(states), size=truth.shape[:-1])
    rewards = rng.random((horizon, states, actions))
    guess = np.clip(rewards + rng.normal(scale=0.1, size=rewards.shape), 0, 1)
    behaviour = rng.dirichlet(2 * np.ones(actions), size=(horizon, states))
    start = rng.dirichlet(np.ones(states))

    def visits(policy):
        d = [start]
        for h in range(horizon - 1):
            d.append(np.einsum("s,sa,sat->t", d[-1], policy[h], truth[h]))
        return np.array(d)

    def values(policy, transitions, gains):
        """Q and the value of the start."""
        v, q = np.zeros(states), [np.zeros((states, actions))] * horizon
        for h in reversed(range(horizon)):
            q[h] = gains[h] + transitions[h] @ v
            v = (policy[h] * q[h]).sum(-1)
        return np.array(q), start @ v

    logged, strength, step = visits(behaviour), 0.3, 0.5
    distance = np.abs(truth - fitted).sum(-1)
    policy, path = behaviour, []
    with double_precision():
        for _ in range(rounds):
            path.append(policy)
            q, _ = values(policy, fitted, guess)
            arrays = map(jnp.asarray, (policy, q, behaviour))
            policy = np.asarray(chi_squared_step(*arrays, step=step, strength=strength))

    errors = [np.abs(rewards - guess), distance]
    logged_squares = [(logged[..., None] * behaviour * e**2).sum((1, 2)) for e in errors]
    played = theory.chi_squared_bound(strength, span=horizon)
    comparators = [np.eye(actions)[rng.integers(actions, size=(horizon, states))] for _ in range(5)]
    for mu in [*comparators, behaviour, *path[::10]]:
        divergence = (visits(mu) * theory.chi_squared(mu, behaviour)).sum(-1)
        ratio = (visits(mu) / logged).max()
        for error, square in zip(errors, logged_squares, strict=True):
            shifted = (visits(mu)[..., None] * mu * error).sum((1, 2))
            assert (shifted <= np.sqrt(ratio * (1 + divergence) * square)).all()
    assert max(theory.chi_squared(p, behaviour).max() for p in path) <= played + 1e-9
    for mu in comparators:
        (q, value), d = values(path[-1], fitted, guess), visits(mu)
        following = [(path[-1][h] * q[h]).sum(-1) for h in range(1, horizon)] + [np.zeros(states)]
        terms = [
            (d[h] * (q[h] * (mu[h] - path[-1][h])).sum(-1)).sum()
            + np.einsum("s,sa,sat,t->", d[h], mu[h], truth[h] - fitted[h], following[h])
            for h in range(horizon)
        ]
        assert values(mu, truth, guess)[1] - value == pytest.approx(sum(terms), abs=1e-12)


def test_network_games_have_rank_degree_plus_one():
    """The paper has K = degree; a joint function of the own move and d neighbours has d + 1."""
    ring = np.roll(np.eye(5), 1, 1) + np.roll(np.eye(5), -1, 1)
    game = eq.games.families.network(5, 2, graph=ring, rank=3).sample(key=0)
    dense = game.interactions.to_dense()[0, 0]
    assert decomposition.interaction_rank(dense, x_axes=1) == 3


def test_a_mixture_can_have_a_negative_gap():
    """Correlated play may be worth more than every fixed deviation."""
    chicken = np.array([[[6.0, 2.0], [7.0, 0.0]], [[6.0, 7.0], [2.0, 0.0]]])
    game = eq.ContextualGame(eq.games.Interactions.from_dense(chicken[None]))
    light = eq.games.Mixture([[[[1, 0], [0, 1]]], [[[0, 1], [1, 0]]]])
    assert eq.certify(game, light).max_gain < -0.2
