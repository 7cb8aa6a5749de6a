"""Models of numeric contexts and local states: fits, Algorithm 2 with a class F, and policies."""

import numpy as np
import pytest

import equipoise as eq

SMALL = {"iterations": 30, "simulations": 600, "step": 2.0, "strength": 0.01}


@pytest.fixture
def market(rng):
    """Three sellers who all read a forecast; what one earns falls with what the others sell."""
    heat, sell = rng.uniform(-1, 1, (1_500, 1)), rng.integers(0, 2, (1_500, 3))
    earned = sell * (heat - 0.3 * (sell.sum(1, keepdims=True) - sell))
    return eq.offline.Log(None, sell, earned, covariates=heat)


def test_rewards_of_the_class_are_recovered(market):
    model = eq.offline.fit(market, rank=2, degree=1)
    np.testing.assert_allclose(model.explained, 1.0, atol=1e-6)
    alone = eq.offline.fit(market, rank=1, degree=1)
    assert (alone.explained < 0.95).all()
    assert model.transitions is None
    assert "rank=2" in repr(model)


def test_the_behaviour_policy_is_that_of_the_log(rng):
    heat = rng.uniform(-1, 1, (20_000, 1))
    chance = 1.0 / (1.0 + np.exp(-2.0 * heat))
    sell = (rng.random((20_000, 2)) < chance).astype(int)
    log = eq.offline.Log(None, sell, sell * heat, covariates=heat)
    policy = eq.offline.solve(eq.offline.fit(log), **SMALL | {"iterations": 1}).policy
    points = np.array([[-0.8], [0.0], [0.8]])
    wanted = 1.0 / (1.0 + np.exp(-2.0 * points))
    np.testing.assert_allclose(policy(points, iterate=0)[:, :, 1], wanted.repeat(2, 1), atol=0.03)


def test_policies_follow_the_numeric_context(market):
    solution = eq.offline.solve(eq.offline.fit(market, degree=1), **SMALL, degree=1)
    policy = solution.policy
    assert len(policy) == 30
    # Selling earns heat - .3 for each other seller: never at -.5, always at 1.
    found = policy([[-0.5], [1.0]], iterate=29)
    assert (found[0, :, 1] < 0.05).all()
    assert (found[1, :, 1] > 0.95).all()
    np.testing.assert_allclose(policy([[0.2]])[12], policy([[0.2]], iterate=12), atol=1e-12)
    mixed = policy([[0.2], [0.4]], iterate=[3, 20])
    np.testing.assert_allclose(mixed[1], policy([[0.4]], iterate=20)[0], atol=1e-12)
    assert np.isinf(solution.certificate.max_upper)
    assert not solution.solved
    assert "30 iterates" in str(solution)
    assert solution.to_plain()["policy"]["kind"] == "numeric"


def as_mixture(policy, game):
    """The policy of counted states as a table, at an irrelevant covariate."""
    tables = []
    for h in range(game.horizon):
        by_state = [
            policy([[0.0]], np.full((1, game.agents), s), h)[:, 0] for s in range(max(game.states))
        ]
        tables.append(np.stack(by_state, 2))  # iterates, agents, states, actions
    return eq.games.Mixture(np.stack(tables, 1)[:, None])


@pytest.fixture(scope="module")
def markov():
    """A Markov game, and its log with a number that matters for nothing."""
    family = eq.games.families.polymatrix(agents=3, actions=2, states=2, horizon=2)
    game = family.sample(key=3)
    log = eq.offline.collect(game, "uniform", samples=2_000, key=1)
    noise = np.repeat(np.random.default_rng(0).uniform(-1, 1, 2_000), 2)[:, None]
    named = {name: getattr(log, name) for name in ("states", "next_states", "steps", "episodes")}
    numeric = eq.offline.Log(None, log.actions, log.rewards, **named, covariates=noise)
    return game, numeric


def test_a_markov_game_with_counted_states_is_learned(markov):
    game, log = markov
    model = eq.offline.fit(log, degree=1)
    assert model.transitions is not None
    assert model.transitions.kind == "table"
    options = SMALL | {"strength": 0.001, "step": 6.0}
    solution = eq.offline.solve(model, **options, degree=1, units=4)
    before = eq.certify(game, game.uniform_policy())
    after = eq.certify(game, as_mixture(solution.policy, game))
    assert after.max_gain < before.max_gain / 2
    # Values and gains in the model are those of the game, up to the errors of fit and simulation.
    np.testing.assert_allclose(solution.value, after.value, atol=0.04)
    np.testing.assert_allclose(solution.certificate.gains, after.gains, atol=0.02)


def test_the_critic_of_algorithm_2_is_the_exact_one_in_the_mean(markov):
    import jax
    import jax.numpy as jnp

    from equipoise.core.precision import double_precision
    from equipoise.offline import _number_solve
    from equipoise.solvers.no_regret import ExactCritic

    game, log = markov
    model = eq.offline.fit(log, degree=1, transitions="table")
    policy = eq.offline.solve(
        model, behaviour="uniform", iterations=1, simulations=10, degree=1
    ).policy
    with double_precision():
        world = _number_solve.World.of(model)
        until = jnp.zeros(40_000, int)
        found = _number_solve._critic(world, policy, until, jax.random.key(0))
        # The critic's values at both states, from its coefficients.
        local = jnp.eye(2)[:, None].repeat(3, 1)
        scaled = world.scaling.common(jnp.zeros((2, 1))), world.scaling.local(local)
        values = jnp.einsum("snf,hnaf->hnsa", policy.features(*scaled), found)
        uniform = jnp.asarray(game.uniform_policy())
        exact = ExactCritic.of(game)(uniform, jax.random.key(0))[0]
    seen = np.ones(exact.shape, bool)
    seen[0] = game.initial[0, ..., None] > 0.0  # the log shows the first states only
    assert not seen.all()
    np.testing.assert_allclose(np.asarray(values)[seen], np.asarray(exact)[seen], atol=0.04)


def test_refusals(market, rng):
    model = eq.offline.fit(market, degree=1)
    game = eq.games.families.polymatrix(agents=2, actions=2).sample(key=0)
    states = rng.normal(size=(40, 2, 1))
    steps = np.repeat([0, 1], 20)
    rows = (None, rng.integers(0, 2, (40, 2)), np.zeros((40, 2)))
    loose = eq.offline.Log(*rows, states, states, steps)
    smooth = eq.offline.Log(
        None,
        rng.uniform(-1, 1, (40, 2)),
        np.zeros((40, 2)),
        covariates=np.ones((40, 1)),
        continuous=True,
    )
    fit, solve = eq.offline.fit, eq.offline.solve
    for what, call in (
        ("rank: expected 1 or 2 for a log with numeric contexts, found 3", lambda: fit(market, 3)),
        ("neighbours: expected none for a log", lambda: fit(market, neighbours=1)),
        ("degree: expected a whole number", lambda: fit(market, degree=-1)),
        ("degree: expected at most 5,000 polynomials", lambda: fit(market, degree=900)),
        ("ridge: expected 'evidence' or a number", lambda: fit(market, ridge="much")),
        ("log: expected episodes, for numeric local states", lambda: fit(loose)),
        ("log: expected discrete actions, found continuous", lambda: fit(smooth)),
        ("critic: expected 'monte-carlo'", lambda: solve(model, critic="exact")),
        ("divergence: expected no value", lambda: solve(model, divergence=2.0)),
        ("behaviour: expected None", lambda: solve(model, behaviour=np.ones(3))),
        (
            "units: expected no value for a model of tables",
            lambda: solve(game, behaviour="uniform", units=3),
        ),
    ):
        with pytest.raises(ValueError, match=what):
            call()
    short = solve(fit(market.take(slice(0, 30)), degree=2))
    assert short.status.name == "refused"
    assert len(short.policy) == 1
    policy = short.policy
    for what, call in (
        ("covariates: expected values, as in the log; found none", lambda: policy()),
        ("states: expected none, as in the log", lambda: policy([[0.0]], [[0, 0, 0]])),
        (r"covariates: expected shape \(1, 1\)", lambda: policy([[0.0, 1.0]])),
        ("step: expected 0 to 0, found 1", lambda: policy([[0.0]], step=1)),
        ("iterate: expected numbers from 0 to 0", lambda: policy([[0.0]], iterate=4)),
    ):
        with pytest.raises(ValueError, match=what):
            call()
