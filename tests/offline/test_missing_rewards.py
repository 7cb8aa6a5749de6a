"""A missing reward is no reward of zero: rows without it are those that a fit would not have."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.offline._bounds import known_moves
from equipoise.offline._combinations import Shown
from equipoise.offline._fit import pair_statistics
from equipoise.offline._interacting import interacting
from equipoise.offline._joint import _kernel_weights, joint_table
from equipoise.offline._own_play import own_play
from equipoise.offline._scores import Residuals

#: The agent of whom rewards are missing.
GAPS = 1


class Frame:
    """Columns that turn into arrays, as those of pandas and polars do."""

    def __init__(self, **columns):
        self.content, self.columns = columns, list(columns)

    def __getitem__(self, name):
        values = np.asarray(self.content[name])
        return type("Column", (), {"to_numpy": lambda self: values})()


@pytest.fixture(scope="module")
def logs():
    """A log without some rewards of an agent, and the log of the other rows."""
    game = eq.games.families.polymatrix(4, 3, scale=0.3).sample(key=20)
    full = eq.offline.collect(game, "uniform", samples=600, key=21)
    recorded = np.ones((600, 4), bool)
    recorded[:, GAPS] = np.random.default_rng(0).random(600) > 0.4
    rewards = np.where(recorded, full.rewards, 0.0)
    log = eq.offline.Log(None, full.actions, rewards, recorded=recorded)
    return log, full.take(recorded[:, GAPS])


def fitted(rank):
    def rewards(log):
        options = {"kind": "table"} if rank == "joint" else {}
        options |= {"ridge": 1e-9} if isinstance(rank, int) else {}
        model = eq.offline.fit(log, rank, **options)
        terms = model.rewards if model.game is None else model.game.interactions
        moves = np.indices((3,) * 4).reshape(4, -1).T
        return terms.rewards(np.zeros(len(moves), int), moves)[:, GAPS]

    return rewards


def strengths(log):
    found = [one for one in interacting(log, [(0, 1, 2, 3)] * 4) if one["reward_of"] == GAPS]
    return [number for one in found for number in (*one["with"], one["strength"])]


def scored(log):
    """Scores of products of the own and one other action, of which every row may have some."""
    data = Residuals(log, eq.offline.fit(log, 1).game.interactions)
    weight = data.left[:, GAPS] * (log.actions[:, GAPS] == 0)
    data.wide, data.first = (log.actions == 1).astype(float), np.ones(log.samples, bool)
    data.owner = np.arange(4)
    return next(iter(data.products(weight, GAPS, 1)))[1][0]


def counted(log):
    shown = Shown(log, [tuple(j for j in range(4) if j != i) for i in range(4)], 3, None)
    pairs = shown._together(shown.where == 0, shown.known)[GAPS]
    return np.concatenate([shown._count((GAPS, 0, 2)).ravel(), pairs.ravel()])


@pytest.mark.parametrize(
    "statistic",
    [
        *map(fitted, (1, 2, 3, "sum", "histogram", "joint")),
        lambda log: joint_table(log)[..., GAPS],
        lambda log: pair_statistics(log)[1][GAPS],
        lambda log: known_moves(log, [np.arange(40)])[0, 0, GAPS, 0],
        lambda log: own_play(log, eq.Verdict("refused", ""), {}).stats["earned"][GAPS],
        strengths,
        scored,
        counted,
    ],
)
def test_an_agent_with_gaps_is_judged_by_the_rows_that_have_its_reward(logs, statistic):
    gaps, rest = (statistic(log) for log in logs)
    assert np.isfinite(gaps).all()
    np.testing.assert_allclose(gaps, rest, rtol=1e-7, atol=1e-9)


def test_kernel_regression_leaves_out_rows_without_a_reward():
    rng = np.random.default_rng(1)
    alike, rewards = np.exp(-np.abs(rng.normal(size=(30, 1)) - rng.normal(size=30))), rng.random(30)
    alike = alike @ alike.T
    gaps = np.where(np.arange(30) < 20, rewards, np.nan)
    found = _kernel_weights(alike, np.stack([rewards, gaps], 1), 0.5)
    np.testing.assert_allclose(found[:, 0], np.linalg.solve(alike + 0.5 * np.eye(30), rewards))
    few = np.linalg.solve(alike[:20, :20] + 0.5 * np.eye(20), rewards[:20])
    np.testing.assert_allclose(found[:, 1], [*few, *[0.0] * 10])


def test_missing_rewards_change_nothing_for_the_others(logs, tmp_path):
    """Their terms are those of the full log, to the last bit, in all formats and in pieces."""
    gaps, whole = logs[0], eq.offline.Log(None, logs[0].actions, np.nan_to_num(logs[0].rewards))
    models = [eq.offline.fit(log, 2, ridge=1.0) for log in (gaps, whole)]
    expected = [model.game.interactions.tables[2] for model in models]
    others = models[0].game.interactions.scopes[2][:, 0] != GAPS
    assert np.array_equal(*(tables[:, others] for tables in expected))
    for name in ("log.npz", "log.parquet"):
        gaps.write(tmp_path / name)
        read = eq.offline.Log.read(tmp_path / name)
        assert np.array_equal(read.recorded, gaps.recorded)
        assert np.array_equal(read.rewards, gaps.rewards, equal_nan=True)
        assert read.fingerprint() == gaps.fingerprint()
        parts = eq.offline.Log.read_chunks(tmp_path / name, rows=100)
        model = eq.offline.fit(parts, 2, ridge=1.0)
        np.testing.assert_allclose(model.game.interactions.tables[2], expected[0], atol=1e-12)
        assert eq.offline.discover(parts, ranks=(1, 2)).chosen == 2
    whole.write(tmp_path / "whole.npz")
    with np.load(tmp_path / "whole.npz") as arrays:
        assert "recorded" not in arrays  # as version 0.2 wrote it


def test_advice_from_a_log_with_gaps_names_what_it_assumes(logs):
    gaps = logs[0]
    advice = eq.advise(gaps, iterations=50)
    assert advice.status.ok
    assert "which rewards are missing does not depend on what they were" in advice.status.message
    mean = gaps.rewards[gaps.recorded[:, GAPS], GAPS].mean()
    assert advice.stats["earned"][GAPS] == pytest.approx(mean)
    assert abs(advice.stats["expected"][GAPS]) < 3.0
    few = eq.advise(gaps, rank="sum", iterations=50, force=True)
    assert np.isfinite(few.bound)


def test_one_blank_cell_hardly_changes_coverage_and_advice():
    """Six shops, 400 weeks, one blank profit: no shop is absent, and no action is rare."""
    rng = np.random.default_rng(0)
    price = rng.integers(0, 3, (400, 6))
    profit = 100.0 * price + 20.0 * np.roll(price, 1, 1) + rng.normal(0, 10, price.shape)
    columns = {}
    for i, shop in enumerate("ABCDEF"):
        columns |= {f"price_{shop}": price[:, i], f"profit_{shop}": profit[:, i].copy()}
    columns["profit_B"][7] = np.nan
    log = eq.offline.Log.read(Frame(**columns), action="price", reward="profit")
    assert log.states is None
    summary = eq.offline.coverage(log)
    assert summary.covered.tolist() == [1.0] * 6
    assert summary.fewest.min() > 100
    assert summary.concentrability.max() < 4.0
    assert "(least: A, 100.0%)" in str(summary)
    assert int((~log.recorded).sum()) == 1


def test_coverage_does_not_count_absent_agents():
    actions, away = np.array([[0, 0], [1, 0], [0, 1], [1, 0]]), np.array([0, 0, 0, 1])
    states = np.stack([np.zeros(4, int), away], 1)
    labels = {"states": ("present", "absent")}
    log = eq.offline.Log(
        *(None, actions, np.ones((4, 2)), states, np.zeros((4, 2), int)),
        states_count=2,
        labels=labels,
    )
    summary = eq.offline.coverage(log)
    assert summary.covered.tolist() == [1.0, 1.0]
    assert summary.fewest.tolist() == [2, 1]
    np.testing.assert_allclose(summary.concentrability, [2.0, 3.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: eq.offline.Log(None, a, a * np.nan), "pass recorded= to say which rewards are"),
        (lambda a: eq.offline.Log(None, a, a, recorded=a + 2), "recorded: expected true or false"),
        (
            lambda a: eq.offline.Log(None, a / 9, a, continuous=True, recorded=a > 0),
            "continuous: expected an action and a reward of every agent at all times",
        ),
        (
            lambda a: eq.advise(eq.offline.Log(None, a, a, recorded=a * 0 + [1, 0])),
            "log: expected a recorded reward of every agent, found none of agent 1",
        ),
        (
            lambda a: eq.offline.fit(eq.offline.Log(None, a, a, recorded=a * 0 + [1, 0])),
            "log: expected a recorded reward of every agent, found none of agent 1",
        ),
        (
            lambda a: eq.offline.fit(
                eq.offline.Log(None, a, a, recorded=a > 0), "joint", kind="mlp"
            ),
            "log: expected a reward of every agent in all rows, for a network",
        ),
        (
            lambda a: eq.offline.Log.read(
                Frame(action_A=["x", "y"], reward_A=[1, 2], action_B=["x", "y"], reward_B=["", ""])
            ),
            r"reward: expected rewards of every agent \(reward\), found none for B",
        ),
    ],
)
def test_what_needs_every_reward_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.tile([[0, 1], [1, 0], [1, 1], [0, 0]], (10, 1)))
