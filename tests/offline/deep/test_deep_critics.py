"""Networks of a given rank: their rank, their gradients, their training and its end."""

from dataclasses import replace
from itertools import combinations, product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.core import weights
from equipoise.core.precision import double_precision
from equipoise.offline.deep import Critic, Critics, LinearCritic, fit
from equipoise.offline.deep import _critics as critics_module
from equipoise.offline.deep import _fit as fit_module
from equipoise.offline.deep._networks import all_factors, all_scopes
from equipoise.offline.deep._rows import Rows, Sizes, prepare


def simple_log(samples=200, agents=4, noise=0.3, seed=0, rewards=None):
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1, 1, (samples, agents))
    means = actions * actions.sum(1, keepdims=True) if rewards is None else rewards(actions)
    noisy = means + rng.uniform(-noise, noise, means.shape)
    return eq.offline.Log(np.zeros(samples, int), actions, noisy, continuous=True)


def in_double(critic, sizes, seed=0):
    """Random networks in float64, with axes (1, agents)."""
    networks = fit_module.initial_networks(critic, sizes, 1, jax.random.key(seed))
    with double_precision():
        return jax.tree.map(
            lambda x: jnp.asarray(x, jnp.float64) if eqx.is_inexact_array(x) else x, networks
        )


def rows_of(actions):
    zeros = jnp.zeros(len(actions), jnp.int32)
    return Rows(jnp.asarray(actions), zeros, zeros, jnp.zeros(actions.shape, jnp.int32))


def mixed_differences(model, agents, sets):
    """For each set of agents, the alternating sum over all ways to replace their actions."""
    rng = np.random.default_rng(1)
    one, other = rng.uniform(-1, 1, (2, agents))
    rows, signs, ends = [], [], []
    for changed in sets:
        for choice in product((0, 1), repeat=len(changed)):
            picked = [j for j, c in zip(changed, choice, strict=True) if c]
            actions = one.copy()
            actions[picked] = other[picked]
            rows.append(actions)
            signs.append((-1) ** len(picked))
        ends.append(len(rows))
    with double_precision():
        values = np.asarray(eqx.filter_jit(lambda m, r: m(r))(model, rows_of(np.array(rows))))
    terms = np.split(np.array(signs) * values, ends[:-1])
    return np.array([abs(part.sum()) for part in terms])


@pytest.mark.parametrize(
    ("critic", "rank"),
    [
        (Critic(1, width=32), 1),
        (Critic(2, width=32), 2),
        (Critic(3, width=32, shared=True), 3),
        (Critic("joint", width=64), 5),
    ],
)
def test_a_critic_has_the_rank_it_was_asked_for(critic, rank):
    agents, own = 5, 2
    networks = in_double(critic, Sizes(agents))
    model = jax.tree.map(lambda x: x[0, own], networks)
    others = [j for j in range(agents) if j != own]
    with_own = [(own, *rest) for rest in combinations(others, rank - 1)]
    # Rectified networks are linear in places: one set or another may have nothing to show.
    assert np.median(mixed_differences(model, agents, with_own)) > 1e-4
    # Terms see at most rank agents, oneself among them.
    more = list(combinations(others, rank))
    more += [(own, *rest) for rest in more]
    assert not more or mixed_differences(model, agents, more).max() < 1e-12


def test_kept_terms_are_the_only_interactions():
    critic, sizes = Critic(3, width=32, terms=2), Sizes(6)
    scopes = all_scopes(critic, sizes, jax.random.fold_in(jax.random.key(0), fit_module._SCOPES))
    assert scopes.shape == (6, 2, 3)
    model = jax.tree.map(lambda x: x[0, 1], in_double(critic, sizes))
    kept = {tuple(scope[1:]) for scope in scopes[1].tolist()}
    pairs = list(combinations([0, 2, 3, 4, 5], 2))
    found = mixed_differences(model, 6, [(1, *pair) for pair in pairs])
    assert {pair for pair, size in zip(pairs, found, strict=True) if size > 1e-9} == kept


def test_too_many_terms_are_refused_by_name():
    with pytest.raises(ValueError, match="terms: expected a number of terms to keep"):
        all_scopes(Critic(5), Sizes(60), jax.random.key(0))
    with pytest.raises(ValueError, match="rank: expected at most 3, the number of agents"):
        all_scopes(Critic(4), Sizes(3), jax.random.key(0))
    for critic, agents in ((LinearCritic(2, 10**15), 3), (LinearCritic(10**15), 10**15)):
        with pytest.raises(ValueError, match="rank: expected at most 20000 features"):
            all_factors(critic, Sizes(agents))


def test_gradients_agree_with_finite_differences():
    critic = Critic(3, width=4, shared=True)
    sizes = Sizes(4, contexts=2, horizon=3, states=2)
    model = jax.tree.map(lambda x: x[0, 1], in_double(critic, sizes))
    rng = np.random.default_rng(0)
    with double_precision():
        rows = Rows(
            jnp.asarray(rng.uniform(-1, 1, (6, 4))),
            jnp.asarray(rng.integers(2, size=6)),
            jnp.asarray(rng.integers(3, size=6)),
            jnp.asarray(rng.integers(2, size=(6, 4))),
        )
        weights, frame = eqx.partition(model, eqx.is_inexact_array)

        def loss(weights, actions):
            own = eqx.tree_at(lambda r: r.actions, rows, actions)
            return (eqx.combine(weights, frame)(own) ** 2).sum()

        gradients = jax.jit(jax.grad(loss, argnums=(0, 1)))(weights, rows.actions)
        direction = jax.tree.map(
            lambda x: jnp.asarray(rng.normal(size=x.shape)), (weights, rows.actions)
        )

        @jax.jit
        def moved(step):
            return loss(
                *jax.tree.map(lambda x, d: x + step * d, (weights, rows.actions), direction)
            )

        slope = (moved(1e-6) - moved(-1e-6)) / 2e-6
        products = jax.tree.map(lambda g, d: (g * d).sum(), gradients, direction)
        expected = sum(jax.tree.leaves(products))
        assert abs(slope - expected) < 1e-6 * (1 + abs(expected))


def test_kept_weights_are_those_with_the_smallest_held_out_loss():
    log = simple_log()
    critic = Critic(2, width=8, depth=1, epochs=300, patience=4, learning_rate=1e-2)
    critics = fit(log, critic, key=5)
    assert (critics.rounds < 300).all()
    # Everybody stopped by its own patience.
    assert (critics.rounds - critics.best_round == 4).all()
    assert len(set(critics.rounds[0].tolist())) > 1
    key = jax.random.fold_in(jax.random.key(5), fit_module._SPLIT)
    data = prepare([log], critic.validation, critic.standardise, key)
    held = slice(int(data.trained), int(data.total))
    assert held.stop - held.start == 40
    found = critics(np.asarray(data.rows.actions[0, held]))
    truth = np.asarray(data.rewards[0, held]) * critics.scale[0] + critics.shift[0]
    np.testing.assert_allclose(((found - truth) ** 2).mean(0), critics.validation[0], rtol=1e-4)
    # One epoch more or less is not better: the best round is a minimum along the way.
    for epochs in (int(critics.best_round[0, 0]) - 1, int(critics.best_round[0, 0])):
        if epochs < 1:
            continue
        shorter = fit(log, Critic(**{**vars(critic), "epochs": epochs}), key=5)
        assert shorter.validation[0, 0] >= critics.validation[0, 0] * (1 - 1e-5)


def test_patience_counts_epochs_or_steps():
    log = simple_log(noise=5.0, rewards=lambda a: np.zeros_like(a))
    small = {"rank": 2, "width": 8, "depth": 1, "patience": 3, "epochs": 40}
    by_epoch = fit(log, Critic(**small), key=0)
    by_step = fit(log, Critic(**small, patience_unit="steps"), key=0)
    assert (by_epoch.rounds - by_epoch.best_round).max() == 3
    assert (by_step.rounds - by_step.best_round).max() == 3
    assert by_step.rounds.max() <= 40 * (160 // 64)


def test_side_by_side_and_in_turn_are_the_same(monkeypatch):
    log = simple_log(seed=1)
    critic = Critic(2, width=8, depth=1, epochs=5)
    found = []
    for vectorised in (False, True):
        for module in (fit_module, critics_module):
            monkeypatch.setattr(module, "side_by_side", lambda v=vectorised: v)
        found.append(fit(log, critic, key=1))
    turn, side = found
    np.testing.assert_allclose(turn.validation, side.validation, rtol=1e-5)
    np.testing.assert_array_equal(turn.best_round, side.best_round)


def test_a_stopped_run_goes_on_to_the_same_critics(tmp_path, monkeypatch):
    log = simple_log()
    critic = Critic(2, width=8, depth=1, epochs=12, patience=12)
    whole = fit(log, critic, key=3)
    monkeypatch.setattr("equipoise.runs._loop.CHECKPOINT_SHARE", float("inf"))
    monkeypatch.setattr(fit_module, "_LOOK_SECONDS", 0.0)
    advance, calls = fit_module.advance_learners, []

    def killed(*arguments):
        calls.append(0)
        if len(calls) == 5:
            raise SystemError("killed")
        return advance(*arguments)

    monkeypatch.setattr(fit_module, "advance_learners", killed)
    with pytest.raises(SystemError):
        fit(log, critic, key=3, run=tmp_path / "run")
    resumed = fit(log, critic, key=3, run=tmp_path / "run")
    assert len(calls) == 5 + 12 - 4
    np.testing.assert_array_equal(resumed.validation, whole.validation)
    again = fit(log, critic, key=3, run=tmp_path / "run")
    actions = log.actions[:7]
    np.testing.assert_array_equal(again(actions), whole(actions))
    with pytest.raises(ValueError, match="config"):
        fit(log, critic, key=4, run=tmp_path / "run")


def test_interrupted_training_returns_the_best_so_far(monkeypatch):
    import os
    import signal

    advance = fit_module.advance_learners

    def pressed(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return advance(*arguments)

    monkeypatch.setattr(fit_module, "advance_learners", pressed)
    critics = fit(simple_log(), Critic(2, width=8, depth=1, epochs=50), key=0)
    assert (critics.rounds == 1).all()
    assert np.isfinite(critics.validation).all()


def test_linear_critics_recover_polynomials_exactly(rng):
    agents, samples = 4, 400
    actions = rng.uniform(-1, 1, (samples, agents))
    contexts = rng.integers(2, size=samples)
    states = rng.integers(2, size=(samples, agents))
    effect = actions * (1 + states) + states
    rewards = effect * effect.sum(1, keepdims=True) * (1 + contexts[:, None])
    log = eq.offline.Log(
        contexts, actions, rewards, states, states, np.zeros(samples, int), continuous=True
    )
    critics = fit(log, Critic.linear(2, degree=2), key=0)
    assert critics.unexplained.max() < 1e-5
    fresh = rng.uniform(-1, 1, (5, agents))
    effect = fresh * (1 + states[:5]) + states[:5]
    truth = effect * effect.sum(1, keepdims=True) * 2
    np.testing.assert_allclose(critics(fresh, np.ones(5, int), states[:5]), truth, atol=1e-3)
    lower = fit(log, Critic.linear(1), key=0)
    assert lower.unexplained.min() > 0.05


def test_ridge_is_chosen_by_what_predicts():
    noisy = simple_log(samples=60, agents=6, noise=4.0)
    chosen = fit(noisy, Critic.linear(2), key=0)
    none = fit(noisy, Critic.linear(2, ridge=0.0), key=0)
    truth = noisy.actions * noisy.actions.sum(1, keepdims=True)
    errors = [((c(noisy.actions) - truth) ** 2).mean() for c in (chosen, none)]
    assert errors[0] < 0.7 * errors[1]


@pytest.mark.parametrize("critic", [Critic(2, width=8, depth=1, epochs=2), Critic.linear(2)])
def test_saved_critics_are_read_back(critic, tmp_path):
    log = simple_log()
    critics = fit(log, critic, key=0)
    critics.save(tmp_path)
    again = Critics.load(tmp_path)
    assert again.spec == critics.spec
    np.testing.assert_array_equal(again(log.actions), critics(log.actions))
    (tmp_path / "critics.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="damaged"):
        Critics.load(tmp_path)


@pytest.mark.parametrize("missing", ["models/.own", "rounds", "shift"])
def test_critics_without_an_array_are_refused_by_file(missing, tmp_path):
    critics = fit(simple_log(), Critic.linear(1), key=0)
    critics.save(tmp_path)
    arrays = weights.read_arrays(tmp_path / "critics.safetensors")
    described = weights.read_description(tmp_path / "critics.json", ("kind", "spec", "sizes"))
    del arrays[missing]
    weights.write_weights(tmp_path, "critics", arrays, described)
    with pytest.raises(ValueError, match=r"critics\.json: expected a description with"):
        Critics.load(tmp_path)


def test_critics_of_training_that_diverged_are_read_back(tmp_path):
    critics = fit(simple_log(), Critic.linear(1), key=0)
    infinite = np.full_like(critics.validation, np.inf)
    replace(critics, validation=infinite, unexplained=infinite).save(tmp_path)
    np.testing.assert_array_equal(Critics.load(tmp_path).validation, infinite)


def test_every_trial_has_weights_and_rows_of_its_own():
    logs = [simple_log(seed=seed) for seed in (0, 1)]
    critics = fit(logs, Critic.linear(2), key=0)
    single = [fit(log, Critic.linear(2), key=0) for log in logs]
    actions = logs[0].actions[:5]
    for trial in range(2):
        np.testing.assert_allclose(critics(actions, trial=trial), single[trial](actions), atol=1e-6)
    networks = fit_module.initial_networks(Critic(1, width=4), Sizes(2), 2, jax.random.key(0))
    first = np.asarray(networks.weights[0]).reshape(4, -1)
    assert len(np.unique(first.round(6), axis=0)) == 4


def test_wrong_arguments_are_named():
    log = simple_log(samples=20)
    for wrong, name in (
        ({"width": 0}, "width"),
        ({"validation": 1.0}, "validation"),
        ({"patience_unit": "hours"}, "patience_unit"),
        ({"rank": "all"}, "rank"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: expected"):
            Critic(**wrong)
    with pytest.raises(ValueError, match=r"^capacity: expected at least 20"):
        fit(log, Critic(), key=0, capacity=10)
    with pytest.raises(ValueError, match=r"^log: expected logs of equal size"):
        fit([log, simple_log(samples=30)], Critic(), key=0)
    discrete = eq.offline.Log([0, 0], [[0], [1]], [[0.0], [1.0]])
    with pytest.raises(ValueError, match="continuous"):
        fit(discrete, Critic(), key=0)
    critics = fit(log, Critic.linear(1), key=0)
    with pytest.raises(ValueError, match=r"^actions: expected 4"):
        critics(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"^trial: expected"):
        critics(np.zeros((2, 4)), trial=1)


def test_too_few_rows_to_judge_by_are_refused():
    with pytest.raises(ValueError, match="log: expected at least 20 rows, found 19"):
        fit(simple_log(samples=19), Critic.linear(rank=2), key=0)


def test_constant_rewards_leave_nothing_to_explain():
    log = simple_log(samples=40, noise=0.0, rewards=lambda a: np.full(a.shape, 0.5))
    critics = fit(log, Critic.linear(rank=1), key=0)
    np.testing.assert_array_equal(critics.explained, 0.0)


def test_gains_in_the_fitted_game_are_those_of_the_predictions():
    critics = fit(simple_log(noise=0.1), Critic.linear(rank=2), key=0)
    policy = np.array([0.3, -0.2, 0.9, 0.1])
    grid = np.linspace(-1, 1, 401)
    gains = []
    for agent in range(4):
        deviations = np.repeat(policy[None], len(grid), 0)
        deviations[:, agent] = grid
        gains.append(critics(deviations)[:, agent].max() - critics(policy)[agent])
    found = eq.certify(critics.as_game(), policy)
    np.testing.assert_allclose(found.gains, gains, atol=1e-5)
    assert not found.exact


@pytest.mark.parametrize("critic", [Critic(2, width=8, depth=1, epochs=1), Critic.linear(rank=2)])
def test_the_fitted_game_is_computed_in_the_precision_of_the_actions(critic):
    critics = fit(simple_log(), critic, key=0)
    game, actions = critics.as_game(), np.array([0.3, -0.2, 0.9, 0.1])
    rewards = game.rewards(actions)
    np.testing.assert_allclose(rewards, critics(actions), rtol=0, atol=1e-5)
    # A step that single precision cannot see, and its double.
    once, twice = (game.rewards(actions + k * 1e-9) - rewards for k in (1, 2))
    assert np.abs(once).max() > 1e-10
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-3, atol=1e-14)
    single = jnp.asarray(actions, jnp.float32)
    assert game.rewards(single).dtype == jnp.float32
    with double_precision():
        assert game.rewards(single).dtype == jnp.float32
        assert game.rewards(jnp.asarray(actions)).dtype == jnp.float64


def test_networks_take_numeric_contexts_and_states(rng):
    actions = rng.uniform(-1, 1, (1_500, 2))
    heat, charge = rng.uniform(-1, 1, (1_500, 1)), rng.uniform(-1, 1, (1_500, 2, 1))
    rewards = actions * heat + charge[..., 0] * actions
    log = eq.offline.Log(None, actions, rewards, charge, charge, covariates=heat, continuous=True)
    deep = eq.offline.deep
    spec = deep.Critic(rank=1, width=32, epochs=40, learning_rate=5e-3)
    critics = deep.fit(log, spec, key=0)
    assert (critics.explained > 0.9).all()
    blind = deep.fit(eq.offline.Log(None, actions, rewards, continuous=True), spec, key=0)
    assert (blind.explained < 0.3).all()
    few = critics(actions[:5], states=charge[:5], covariates=heat[:5])
    np.testing.assert_allclose(few, rewards[:5], atol=0.4)
    for what, call in (
        ("covariates: expected values of shape", lambda: critics(actions, states=charge)),
        ("states: expected values of shape", lambda: critics(actions, covariates=heat)),
        ("covariates: expected none", lambda: blind(actions, covariates=heat)),
        ("critics: expected contexts and states that are counted", critics.as_game),
        ("critic: expected networks", lambda: deep.fit(log, deep.LinearCritic(), key=0)),
        ("log: expected contexts and states", lambda: deep.improve(critics, log, key=0)),
    ):
        with pytest.raises(ValueError, match=what):
            call()
