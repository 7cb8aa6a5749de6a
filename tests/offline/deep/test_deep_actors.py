"""Actors: their slopes, their end points, and the whole way from a log to a small gap."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.core import weights
from equipoise.core.precision import double_precision
from equipoise.offline.deep import TD3BC, Actors, Critic, PolicyGradient, fit, improve
from equipoise.offline.deep import _ascent as ascent_module
from equipoise.offline.deep import _improve as improve_module
from equipoise.offline.deep._ascent import Frozen, _slopes, freeze
from equipoise.offline.deep._rows import Rows, prepare


@pytest.fixture(scope="module")
def pairwise():
    """A game, a log of it and linear critics of rank 2."""
    game = eq.games.load("pairwise-continuous", agents=6, noise=0.5)
    log = eq.offline.collect(game, "uniform", samples=300, key=0)
    return game, log, fit(log, Critic.linear(2), key=1)


def as_double(tree):
    return jax.tree.map(
        lambda x: jnp.asarray(x, jnp.float64) if eqx.is_inexact_array(x) else x, tree
    )


@pytest.mark.parametrize(("others", "normaliser"), [("current", "policy"), ("data", "data")])
def test_slopes_are_those_of_the_objective_over_the_batch(others, normaliser):
    game = eq.games.load("communities-continuous", agents=4, contexts=2, noise=0.5)
    log = eq.offline.collect(game, "uniform", samples=60, key=0)
    critics = fit(log, Critic.linear(2), key=1)
    method = TD3BC(alpha=3.0, others=others, normaliser=normaliser, batch=16)
    data = prepare([log], 0.5, False, jax.random.key(0))
    frozen: Frozen = freeze(critics, data)
    key = jax.random.key(4)
    policies = np.random.default_rng(0).uniform(-0.5, 0.5, (1, 4, 2))
    with double_precision():
        data, frozen = as_double(data), as_double(frozen)
        index = np.asarray(jax.random.randint(key, (16,), 0, data.total))
        rows = jax.tree.map(lambda x: x[0, index], data.rows)
        own = jax.tree.map(lambda x: x[0, 1], frozen.models)
        context = np.asarray(rows.contexts)
        held = policies[0].T[context] if others == "current" else np.asarray(rows.actions)
        logged = np.asarray(rows.actions)[:, 1]

        @jax.jit
        def values(actions):
            return own(Rows(actions, rows.contexts, rows.steps, rows.states))

        def q(mine):
            actions = held.copy()
            actions[:, 1] = mine[context]
            return np.asarray(values(jnp.asarray(actions)))

        start = policies[0, 1]
        size = np.abs(q(start)).mean() if normaliser == "policy" else float(frozen.magnitude[0, 1])

        def objective(mine):
            return method.alpha * q(mine).mean() / size - ((mine[context] - logged) ** 2).mean()

        step = 1e-6
        expected = [
            (objective(start + step * e) - objective(start - step * e)) / (2 * step)
            for e in np.eye(2)
        ]
        slopes = eqx.filter_jit(_slopes)(
            jnp.asarray(policies), frozen, data, key, jnp.asarray(method.alpha), method
        )
        np.testing.assert_allclose(slopes[0, 1], expected, rtol=1e-5, atol=1e-7)


def test_actors_agree_and_gradients_do_too(pairwise):
    game, log, critics = pairwise
    actors = improve(critics, log, TD3BC(steps=700), key=0, snapshots=5)
    assert eq.certify(game, actors.policy).max_gain < 0.05
    assert actors.recorded[-1] == 700
    np.testing.assert_array_equal(actors.history[-1], actors.points)
    gradient = improve(critics, log, PolicyGradient(), key=0)
    assert eq.certify(game, gradient.policy).max_gain < 0.05
    assert gradient.networks is None


@pytest.mark.parametrize(
    ("change", "missing"),
    [({"kind": "DQN"}, ""), ({"method": {"speed": 1}}, ""), ({"sizes": 3}, ""), ({}, "points")],
)
def test_damaged_actors_are_refused_by_file(pairwise, tmp_path, change, missing):
    _, log, critics = pairwise
    improve(critics, log, PolicyGradient(steps=2), key=0).save(tmp_path)
    arrays = weights.read_arrays(tmp_path / "actors.safetensors")
    described = weights.read_description(tmp_path / "actors.json", ("kind",))
    arrays.pop(missing, None)
    weights.write_weights(tmp_path, "actors", arrays, described | change)
    with pytest.raises(ValueError, match=r"actors\.json: expected"):
        Actors.load(tmp_path)


def test_stochastic_policies_follow_the_strength():
    # Rewards of the own action alone: the best chances have a closed form (no clipping).
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (4000, 2))
    log = eq.offline.Log(np.zeros(4000, int), actions, actions, continuous=True)
    critics = fit(log, Critic.linear(1), key=0)
    method = PolicyGradient("stochastic", strength=2.0, step=1.0, steps=200, points=5)
    policy = improve(critics, log, method, key=1).policy
    spread = actions.std(0)
    grid = np.linspace(-1, 1, 5)
    counts = np.stack([np.bincount(np.rint(2 * a + 2).astype(int), minlength=5) for a in actions.T])
    nu = (counts + 0.2) / (counts + 0.2).sum(1, keepdims=True)
    reward = grid / spread[:, None]
    ratio = 1 + (reward - (nu * reward).sum(1, keepdims=True)) / (2 * method.strength)
    np.testing.assert_allclose(policy.weights[0], nu * ratio, atol=2e-3)


def test_a_stopped_run_goes_on_to_the_same_actors(pairwise, tmp_path, monkeypatch):
    _, log, critics = pairwise
    method = TD3BC(steps=9, width=16)
    whole = improve(critics, log, method, key=3, snapshots=4)
    monkeypatch.setattr("equipoise.runs._loop.CHECKPOINT_SHARE", float("inf"))
    monkeypatch.setattr(improve_module, "_LOOK_SECONDS", 0.0)
    advance, calls = ascent_module.advance, []

    def killed(*arguments):
        calls.append(0)
        if len(calls) == 6:
            raise SystemError("killed")
        return advance(*arguments)

    monkeypatch.setattr(ascent_module, "advance", killed)
    with pytest.raises(SystemError):
        improve(critics, log, method, key=3, snapshots=4, run=tmp_path / "run")
    resumed = improve(critics, log, method, key=3, snapshots=4, run=tmp_path / "run")
    np.testing.assert_array_equal(resumed.points, whole.points)
    np.testing.assert_array_equal(resumed.history, whole.history)
    again = Actors.load(tmp_path / "run")
    assert again.method == method
    np.testing.assert_array_equal(again.points, whole.points)
    for mine, theirs in zip(
        jax.tree.leaves(again.networks), jax.tree.leaves(whole.networks), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_rank_decides_the_gap():
    game = eq.games.load("pairwise-continuous", agents=6, noise=0.5)
    logs = [eq.offline.collect(game, "uniform", samples=400, key=k) for k in range(2)]
    gaps = {}
    network = Critic(2, width=32, depth=1, epochs=60, learning_rate=5e-3)
    for rank, critic in ((1, Critic.linear(1)), (2, network)):
        critics = fit(logs, critic, key=1)
        actors = improve(critics, logs, TD3BC(steps=700), key=2)
        gaps[rank] = [eq.certify(game, policy).max_gain for policy in actors.policies]
    assert np.mean(gaps[2]) < 0.2
    assert np.mean(gaps[1]) > 5 * np.mean(gaps[2]) + 0.2


def test_actors_see_the_context():
    game = eq.games.load("communities-continuous", agents=5, contexts=2, noise=0.2)
    log = eq.offline.collect(game, "uniform", samples=600, key=0)
    actors = improve(fit(log, Critic.linear(2), key=1), log, TD3BC(steps=700), key=2)
    points = actors.policy.points
    assert points.shape == (2, 5)
    assert eq.certify(game, actors.policy).max_gain < 0.1
    # The sides are not those of the other context.
    assert abs(float((points[0] * points[1]).sum())) < 3.5


def test_local_states_are_learned_by_returns():
    game = eq.games.load("stamina-continuous", agents=3, states=2, horizon=3, noise=0.1)
    log = eq.offline.collect(game, "uniform", samples=300, key=0)
    critics = fit(log, Critic(2, width=16, depth=1, epochs=40, learning_rate=3e-3), key=1)
    assert critics.explained.min() > 0.7
    actors = improve(critics, log, TD3BC(steps=600, alpha=10.0, tau=0.02), key=2)
    assert actors.policy.points.shape == (1, 3, 3, 2)
    before = eq.certify(game, game.uniform_policy()).max_gain
    assert eq.certify(game, actors.policy).max_gain < 0.4 * before
    with pytest.raises(ValueError, match="method: expected TD3BC for a log with local states"):
        improve(critics, log, PolicyGradient(), key=0)


def test_wrong_arguments_of_actors_are_named(pairwise):
    _, _, critics = pairwise
    for wrong, name in (
        ({"alpha": -1.0}, "alpha"),
        ({"tau": 2.0}, "tau"),
        ({"normaliser": "none"}, "normaliser"),
        ({"steps": 0}, "steps"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: expected"):
            TD3BC(**wrong)
    with pytest.raises(ValueError, match=r"^points: expected"):
        PolicyGradient(points=1)
    other = eq.offline.Log(None, [[0.0]] * 20, [[0.0]] * 20, continuous=True)
    with pytest.raises(ValueError, match=r"^log: expected the log of the critics"):
        improve(critics, other, key=0)
