"""Gaussian processes as critics: similarities, posteriors, and what `learn` promises with them."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.core import InputError
from equipoise.core.precision import double_precision
from equipoise.offline.deep import Critics, KernelCritic, _kernels, fit

ROWS, AGENTS = 160, 3
SMOOTH = _kernels.Kind(False, "smooth")


def rows_of(rng, count, agents=AGENTS, contexts=2):
    return rng.uniform(-1, 1, (count, agents)), rng.integers(contexts, size=count).astype(np.int32)


def shape_of(rng, orders, others):
    draw = rng.normal(size=(5, max(orders, others)))
    return _kernels.Shape(
        np.float64(-0.3), np.float64(0.2), np.float64(0.4),
        draw[0, :orders], draw[1, :orders], draw[2, :others], np.float64(-2.0),
    )  # fmt: skip


def near(a, b, length):
    return np.exp(-0.5 * ((a[:, None] - b[None]) / np.exp(length)) ** 2)


def by_hand(shape, x, c, z, d, joint):
    """The sum over all sets of other agents, with and without the own agent."""
    others = range(1, x.shape[1])
    own, found = near(x[:, 0], z[:, 0], shape.own_length), 0.0
    for size in range(x.shape[1] if joint else len(shape.with_own)):
        k = 0 if joint else size
        for chosen in combinations(others, size):
            term = np.ones_like(own)
            for j in chosen:
                each = near(x[:, j], z[:, j], shape.other_length)
                term = term * np.exp(shape.relevance[j - 1]) * each
            found = found + (np.exp(shape.without[k]) + np.exp(shape.with_own[k]) * own) * term
    apart = 1 / (1 + np.exp(-shape.context))
    return found * np.where(c[:, None] == d[None], 1.0, apart)


@pytest.mark.parametrize(("orders", "joint"), [(1, False), (2, False), (3, False), (1, True)])
def test_similarities_are_sums_over_sets_of_agents(orders, joint):
    rng = np.random.default_rng(0)
    shape = shape_of(rng, orders, 4)
    (x, c), (z, d) = rows_of(rng, 6, 5), rows_of(rng, 4, 5)
    with double_precision():
        given = jax.tree.map(jnp.asarray, (shape, (x, c), (z, d)))
        found = _kernels.similarity(*given, _kernels.Kind(joint, "smooth"))
    np.testing.assert_allclose(found, by_hand(shape, x, c, z, d, joint), rtol=1e-10)


@pytest.mark.parametrize("centres", [60, 25])
def test_posteriors_are_those_of_regression(centres, monkeypatch):
    monkeypatch.setattr(_kernels, "CENTRES", centres)
    rng = np.random.default_rng(1)
    shape, rows, count = shape_of(rng, 2, AGENTS - 1), rows_of(rng, 60), 60
    rewards = rng.normal(size=count)
    noise = np.exp(shape.noise)
    chosen = np.linspace(0, count - 1, centres).round().astype(int)
    between = by_hand(shape, *rows, *(part[chosen] for part in rows), False)
    inverse = np.linalg.inv(between[chosen] + 1e-8 * between[0, 0] * np.eye(centres))
    among = between @ inverse @ between.T

    def predict(kept, weights):
        """Predict all rows from the kept ones."""
        solved = np.linalg.solve(among[np.ix_(kept, kept)] + noise * np.eye(len(kept)), weights)
        return among[:, kept] @ solved

    posterior = _kernels.Posterior(shape, SMOOTH, rows, rewards)
    every = np.arange(count)
    for row in (0, 7, 59):
        kept = np.delete(every, row)
        left = rewards[row] - predict(kept, rewards[kept])[row]
        assert posterior.residuals[row] == pytest.approx(left, rel=1e-5)
        if centres == count:
            seen = predict(kept, among[kept, row])[row]
            variance = noise + among[row, row] - seen
            assert posterior.surprise[row] == pytest.approx(left**2 / variance, rel=1e-5)
    # Gains of deviations: differences of rows of the log itself.
    mean, covariance = posterior.gains([x[:3] for x in rows], [x[3:6] for x in rows])
    predicted = predict(every, rewards)
    np.testing.assert_allclose(mean, predicted[:3] - predicted[3:6], rtol=1e-5, atol=1e-7)
    change = np.eye(count)[:3] - np.eye(count)[3:6]
    full = by_hand(shape, *rows, *rows, False)
    after = full - among + noise * among @ np.linalg.inv(among + noise * np.eye(count))
    np.testing.assert_allclose(covariance, change @ after @ change.T, rtol=1e-4, atol=1e-6)


def test_the_search_climbs_to_the_noise_of_the_log():
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (300, 2))
    rewards = np.cos(3 * x[:, 0]) * x[:, 1] + 0.1 * rng.normal(size=300)
    log = eq.offline.Log(None, x, np.stack([rewards, x[:, 1]], 1), continuous=True)
    critics = fit(log, KernelCritic(2), key=0)
    noise = np.exp(critics.models.shape.noise[0]) * critics.scale[0] ** 2
    assert noise[0] == pytest.approx(0.01, rel=0.3)
    assert critics.validation[0, 0] == pytest.approx(0.011, rel=0.3)
    assert noise[1] < 1e-3


def pair_game(noise=0.2, contexts=1):
    """Agents who want to be near each other and near a place; in the second context, elsewhere."""

    def reward(a, context=0):
        place = 0.6 - 1.2 * context
        return sum(jnp.cos(2.0 * (a - jnp.roll(a, k))) for k in (1, 2)) - (a - place) ** 2

    return eq.ContinuousGame.from_function(reward, AGENTS, contexts, noise=noise, rank=2)


@pytest.fixture(scope="module")
def pair_log():
    return eq.offline.collect(pair_game(), "uniform", samples=ROWS, key=3)


@pytest.fixture(scope="module")
def advice(pair_log):
    return eq.advise(pair_log)


def test_advice_has_a_bound_that_holds(advice, pair_log):
    assert advice.status.ok
    assert "95% confidence" in advice.status.message
    gap = eq.certify(pair_game(), advice.policy).max_gain
    low, high = advice.interval
    assert gap < 0.1
    assert gap <= high == advice.bound < advice.stats["own_interval"][1]
    assert advice.stats["assumed"] in advice.status.message
    assert 0 <= low <= high
    assert list(advice.stats["explained_by_rank"]) == ["2", "3"]
    assert (advice.stats["gains_at_most"] <= high).all()
    expected = [float(x) for x in advice.stats["expected"]]
    true = np.asarray(eq.certify(pair_game(), advice.policy).value)
    np.testing.assert_allclose(expected, true, atol=0.2)
    np.testing.assert_allclose(advice.stats["earned"], pair_log.rewards.mean(0))


def test_gains_from_own_play_are_averaged_over_the_rows_of_the_log(advice, pair_log):
    """A search on a grid in the game itself; the mean action would gain far less."""
    actions, game = np.asarray(pair_log.actions), pair_game()

    def gains(rows):
        earned, found = np.asarray(game.rewards(rows)), []
        for i in range(AGENTS):
            for action in np.linspace(-1, 1, 41):
                moved = rows.copy()
                moved[:, i] = action
                found.append((np.asarray(game.rewards(moved)) - earned)[:, i].mean())
        return max(found)

    low, high = advice.stats["own_interval"]
    true = gains(actions)
    assert low <= true <= high
    assert advice.stats["own_gap"] == pytest.approx(true, abs=0.05)
    assert gains(actions.mean(0, keepdims=True)) < 0.8 * true


@pytest.mark.parametrize(
    ("rank", "functions"), [(2, "smooth"), (3, "continuous"), ("joint", "smooth")]
)
def test_average_gains_are_those_of_every_pair_of_a_row_and_a_deviation(rank, functions):
    rng, rows, count, tried = np.random.default_rng(0), 30, 2, np.linspace(-0.8, 0.8, 4)
    actions, contexts = rows_of(rng, rows)
    rewards = np.sin(2 * actions) + actions * np.roll(actions, 1, 1)
    log = eq.offline.Log(contexts, actions, rewards, continuous=True)
    critics = fit(log, KernelCritic(rank, functions=functions), key=0)
    means = (np.arange(count)[:, None] == contexts).astype(float)
    means /= means.sum(1, keepdims=True)
    (x, where), rewards = _kernels.standardised(log, 1)
    posterior = _kernels.Posterior(*_kernels._of_agent(critics, 1), (x, where), rewards)
    kept, place = np.repeat(x, 4, 0), np.repeat(where, 4)
    moved = kept.copy()
    moved[:, 0] = np.tile(tried, rows)
    mean, covariance = posterior.gains((moved, place), (kept, place))
    average = np.zeros((count, 4, rows, 4))
    average[:, range(4), :, range(4)] = means
    average = average.reshape(count * 4, -1)
    found = posterior.own_play_gains((x, where), tried, means)
    np.testing.assert_allclose(found[0], average @ mean, atol=1e-10)
    np.testing.assert_allclose(found[1], average @ covariance @ average.T, atol=1e-12)


def test_kinks_are_inside_the_bound():
    """Noise hides the misfit of smooth functions at a kink."""
    rng = np.random.default_rng(100)
    actions = rng.uniform(-1, 1, (300, 2))

    def reward(a):
        return -jnp.abs(a - 0.2 - 0.3 * a[::-1])

    rewards = np.array(jax.vmap(reward)(actions)) + 0.1 * rng.normal(size=(300, 2))
    found = eq.advise(eq.offline.Log(None, actions, rewards, continuous=True))
    assert found.status.ok
    assert found.stats["assumed"] == "continuous"
    game = eq.ContinuousGame.from_function(reward, 2)
    assert eq.certify(game, found.policy).max_gain < found.bound < 0.5


def test_many_contexts_have_advice_without_a_bound(monkeypatch):
    for module in ("_continuous", "deep._kernels"):
        monkeypatch.setattr(f"equipoise.offline.{module}.MOST_CONTEXTS", 2)
    rng = np.random.default_rng(11)
    actions, where = rng.uniform(-1, 1, (90, 1)), np.arange(90) % 3
    rewards = -((actions - 0.2) ** 2) + 0.05 * rng.normal(size=(90, 1))
    found = eq.advise(eq.offline.Log(where, actions, rewards, continuous=True))
    assert found.status.caution
    assert found.bound == np.inf
    assert "not bounded" in found.status.message


def test_weaker_assumptions_are_kept(pair_log):
    found = eq.advise(pair_log, critic=KernelCritic(2, functions="continuous"), force=True)
    assert found.stats["assumed"] == "continuous"
    assert "functions='continuous'" in found.stats["critic"]


def test_levels_are_checked(pair_log):
    for level in (-1.0, 0.0, 1.0, 5.0):
        with pytest.raises(InputError, match="level"):
            eq.advise(pair_log, level=level)


def test_contexts_have_their_own_advice():
    game = pair_game(0.1, contexts=2)
    log = eq.offline.collect(game, "uniform", samples=300, key=4)
    found = eq.advise(log, key=1)
    assert found.status.ok
    assert found.policy.points.shape == (2, AGENTS)
    assert eq.certify(game, found.policy).max_gain <= found.bound


def test_a_wrong_rank_is_refused_and_a_larger_one_found():
    rng = np.random.default_rng(5)
    actions = rng.uniform(-1, 1, (300, 3))
    product = 3.0 * actions.prod(1, keepdims=True)
    rewards = product - actions**2 + 0.1 * rng.normal(size=(300, 3))
    log = eq.offline.Log(None, actions, rewards, continuous=True)
    found = eq.advise(log, critic=KernelCritic(2))
    assert found.status.name == "refused"
    assert "rank 2 leaves" in found.status.message
    assert "use rank 3" in found.status.message
    assert eq.advise(log).stats["critic"].startswith("KernelCritic(rank=3")


def changed(log, actions=None, rewards=None):
    actions = log.actions if actions is None else actions
    rewards = log.rewards if rewards is None else rewards
    return eq.offline.Log(None, actions, rewards, continuous=True)


def test_logs_that_cannot_tell_are_refused(pair_log):
    rewards = np.array(pair_log.rewards)
    rewards[ROWS // 2 :] *= -1
    drifting = eq.advise(changed(pair_log, rewards=rewards))
    assert drifting.status.name in ("refused", "nothing learned")
    rewards = np.array(pair_log.rewards)
    rewards[ROWS // 2 :] += 2.0 * pair_log.actions[ROWS // 2 :]
    drifting = eq.advise(changed(pair_log, rewards=rewards))
    assert drifting.status.name == "refused"
    assert "drift" in drifting.status.message
    hidden = np.random.default_rng(6).uniform(-0.7, 0.7, (ROWS, 1))
    driven = eq.advise(changed(pair_log, actions=0.3 * pair_log.actions + hidden))
    assert driven.status.name == "refused"
    assert "correlated" in driven.status.message
    assert "own play, not advice" in driven.status.message
    noise = np.random.default_rng(7).normal(size=pair_log.rewards.shape)
    nothing = eq.advise(changed(pair_log, rewards=noise))
    assert nothing.status.name == "nothing learned"


def test_copies_of_rows_do_not_count(pair_log):
    thrice = changed(pair_log, *(np.tile(x, (3, 1)) for x in (pair_log.actions, pair_log.rewards)))
    found = eq.advise(thrice)
    assert f"{2 * ROWS} rows are copies of others" in found.stats["warnings"][0]


def test_long_logs_are_thinned(pair_log, monkeypatch):
    monkeypatch.setattr("equipoise.offline._continuous.MOST_ROWS", 100)
    found = eq.advise(pair_log)
    assert "100 of 160 rows were used" in found.stats["warnings"][0]


def test_actions_that_the_log_does_not_show_are_unknown(pair_log):
    narrow = changed(pair_log, actions=0.5 * pair_log.actions)
    warnings = eq.advise(narrow).stats["warnings"]
    assert any("unknown for actions that the log does not show" in text for text in warnings)
    hollow = changed(pair_log, actions=np.sign(pair_log.actions) * (0.5 + pair_log.actions**2 / 2))
    found = eq.advise(hollow, force=True)
    assert "plays none between -0.5" in found.stats["warnings"][-1]
    assert (np.abs(found.policy.points) >= 0.4).all()


def test_critics_are_restored_from_files_and_after_a_stop(pair_log, tmp_path, monkeypatch):
    whole = fit(pair_log, KernelCritic(2), key=0, run=tmp_path / "whole")
    again = Critics.load(tmp_path / "whole")
    at = np.random.default_rng(8).uniform(-1, 1, (5, AGENTS))
    np.testing.assert_array_equal(again(at), whole(at))
    search, calls = _kernels._most_evident, []

    def stopped(*given):
        calls.append(given)
        if len(calls) == 2:
            raise RuntimeError("stopped")
        return search(*given)

    monkeypatch.setattr(_kernels, "_most_evident", stopped)
    with pytest.raises(RuntimeError):
        fit(pair_log, KernelCritic(2), key=0, run=tmp_path / "parts")
    parts = fit(pair_log, KernelCritic(2), key=0, run=tmp_path / "parts")
    np.testing.assert_array_equal(parts(at), whole(at))


def test_the_unit_of_the_data_is_kept(tmp_path):
    """Prices from 2 to 20: the advice and its files are prices too."""
    rng = np.random.default_rng(9)
    price = rng.uniform(2, 20, (ROWS, 2))
    profit = -((price - 5 - 0.3 * price[:, ::-1]) ** 2) / 10 + rng.normal(size=(ROWS, 2))
    lines = ["week,seller,price,profit"]
    for week in range(ROWS):
        lines += [f"{week},{n},{price[week, i]},{profit[week, i]}" for i, n in enumerate("AB")]
    (tmp_path / "sales.csv").write_text("\n".join(lines))
    names = {"agent": "seller", "time": "week", "action": "price", "reward": "profit"}
    log = eq.offline.Log.read(tmp_path / "sales.csv", **names, continuous=True)
    found = eq.advise(log, run=tmp_path / "run")
    assert found.status.ok
    table = [x.split(",") for x in (tmp_path / "run/policy.csv").read_text().splitlines()]
    assert table[0] == ["agent", "context", "action"]
    assert [row[0] for row in table[1:]] == [
        "A",
        "B",
    ]
    assert all(abs(float(row[2]) - 5 / 0.7) < 1.0 for row in table[1:])
    log.write(tmp_path / "log.npz")
    assert eq.offline.Log.read(tmp_path / "log.npz").action_range == log.action_range


def test_wrong_settings_are_named():
    for rank in (0, "all", -2):
        with pytest.raises(InputError, match="rank"):
            KernelCritic(rank)
    log = eq.offline.Log(
        None, np.zeros((40, 1)), np.zeros((40, 1)), states=np.zeros((40, 1), int),
        next_states=np.ones((40, 1), int), steps=np.zeros(40, int), horizon=2, continuous=True,
    )  # fmt: skip
    with pytest.raises(InputError, match="a network for a log with local states"):
        fit(log, KernelCritic(1), key=0)
