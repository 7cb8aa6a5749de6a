"""`learn`: the pieces it is made of, its refusals, and what Ctrl-C leaves."""

import signal
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.certificates import solution_from_plain
from equipoise.core import InputError
from equipoise.core.results import amount
from equipoise.offline import _discrete, _own_play
from equipoise.offline import _learn as module

#: Few iterations, alike in all tests: one compiled program.
QUICK = {"iterations": 30}


@pytest.fixture(scope="module")
def game():
    return eq.games.families.polymatrix(3, 2, scale=0.3).sample(key=0)


@pytest.fixture(scope="module")
def log(game):
    return eq.offline.collect(game, "uniform", samples=400, key=1)


def own_play(log):
    return eq.offline.estimate_behaviour(log) if log.behaviour is None else log.behaviour


@pytest.fixture(scope="module")
def advice(log):
    return eq.advise(log, **QUICK)


def assert_same(found, expected):
    """Equal to the last bit: policies, certificates, words and everything that was counted."""
    assert str(found.status) == str(expected.status)
    assert found.certificate == expected.certificate
    one, other = found.to_plain(), expected.to_plain()
    for name in ("policy", "value", "stats"):
        np.testing.assert_equal(one[name], other[name])


def test_what_is_learned_holds_in_the_game(game, log, advice):
    structure = eq.offline.discover(log)
    assert advice.structure == structure
    assert structure.chosen == 2
    assert "<- chosen" in str(structure)
    assert advice.status.ok
    assert not advice.solved  # nothing is proven about the game
    assert np.isinf(advice.certificate.upper).all()
    model = eq.offline.fit(log, 2, neighbours=structure.neighbours)
    assert advice.certificate.gains == pytest.approx(eq.certify(model.game, advice.policy).gains)
    stats = advice.stats
    np.testing.assert_allclose(stats["strength_total"], model.interactions.total, rtol=1e-9)
    strongest = model.interactions.strongest(1)[0]
    assert (stats["interactions"][0]["reward_of"], *stats["interactions"][0]["with"]) == (
        strongest[0],
        *strongest[1],
    )
    np.testing.assert_array_equal(stats["coverage"]["covered"], np.ones(3))
    low, high = advice.interval
    true = eq.certify(game, advice.policy)
    assert low <= true.max_gain <= high == advice.bound
    assert (true.gains <= stats["gains_at_most"]).all()
    assert f"no agent gains more than {amount(advice.bound, upwards=True)}" in advice.status.message
    low, high = stats["own_interval"]
    own = eq.certify(game, eq.offline.estimate_behaviour(log)).max_gain
    assert low <= own <= high
    assert true.max_gain < own / 2
    near = np.abs(stats["expected"] - true.value) < 4 * stats["expected_error"]
    assert near.all()
    for agent, action in np.ndindex(3, game.actions[0]):
        policies = np.array(advice.policy.policies)
        policies[..., agent, :] = np.eye(policies.shape[-1])[action]
        gain = eq.certify(game, eq.Mixture(policies)).value[agent] - true.value[agent]
        found = {name: array[agent, action] for name, array in stats["deviations"].items()}
        assert found["lower"] <= gain <= found["upper"]
        assert found["lower"] < found["gain"] < found["upper"] <= stats["gains_at_most"][agent]


def test_a_path_is_read_and_a_solution_is_plain(log, advice, tmp_path):
    log.write(tmp_path / "log.npz")
    again = eq.advise(tmp_path / "log.npz", **QUICK)
    assert_same(again, advice)
    assert_same(solution_from_plain(advice.to_plain()), advice)


def test_a_class_that_another_one_beats_is_refused(log):
    given = eq.advise(log, rank=1, **QUICK)
    assert given.status.name == "refused"
    assert "own action leaves" in given.status.message
    assert "the class does not fit" in given.status.message
    assert len(given.policy) == 1
    forced = eq.advise(log, rank=1, force=True, **QUICK)
    assert forced.status.caution
    assert len(forced.policy) == 1
    noise = eq.offline.Log(None, log.actions, np.random.default_rng(0).normal(size=(400, 3)))
    assert eq.advise(noise, rank=2, **QUICK).status.name == "nothing learned"


def test_a_rank_that_cannot_be_judged_is_refused(log, monkeypatch):
    monkeypatch.setattr("equipoise.offline._discover.LARGEST", 2)
    found = eq.advise(log, rank=3, **QUICK)
    assert found.status.name == "refused"
    assert "triples could not be compared" in found.status.message


def few_rows(log):
    return log.take(slice(0, 3)), {}, "3 different rows are fewer than the 4 needed"


def one_action(log):
    still = eq.offline.Log(None, np.zeros_like(log.actions), log.rewards)
    return still, {}, "every agent plays a single action throughout this log"


def in_doubt(log):
    game = eq.games.families.polymatrix(4, 3).sample(key=0)
    few = eq.offline.collect(game, "uniform", samples=30, key=1)
    return few, {}, "collect more rows, or set the rank"


@pytest.mark.parametrize("case", [few_rows, one_action, in_doubt])
def test_a_refusal_is_a_status_and_the_policy_that_of_the_log(log, case):
    given, options, message = case(log)
    found = eq.advise(given, **QUICK, **options)
    assert found.status.name == "refused"
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(found.status.message)
    assert isinstance(found.policy, eq.games.Mixture)
    np.testing.assert_allclose(found.policy[0], own_play(given))
    assert_same(solution_from_plain(found.to_plain()), found)
    if case is not in_doubt:
        np.testing.assert_allclose(found.value, given.rewards.mean(0))
        assert np.isnan(found.certificate.gains).all()


def test_noise_is_not_learned_from_unless_forced(log):
    noise = eq.offline.Log(None, log.actions, np.random.default_rng(0).normal(size=(400, 3)))
    found = eq.advise(noise, **QUICK)
    assert found.status.name == "nothing learned"
    np.testing.assert_allclose(found.policy[0], eq.offline.estimate_behaviour(noise))
    assert eq.advise(noise, force=True, **QUICK).status.caution


def test_agents_with_a_single_action_are_named(log):
    actions = log.actions.copy()
    actions[:, 1] = 0
    found = eq.advise(eq.offline.Log(None, actions, log.rewards), **QUICK)
    assert found.stats["single_action"] == [1]
    assert found.stats["warnings"][0].startswith("agent 1 plays a single action throughout;")


@pytest.mark.parametrize("back", [14, 6, 5, 2])
def test_ctrl_c_keeps_what_was_done(log, advice, tmp_path, monkeypatch, back):
    """Steps choose the class, and five learn; a run goes on to the same bits."""
    advance, seen = _discrete.Discrete.advance, []

    def interrupted(task, results, at, until):
        seen.append(at)
        if at == task.steps - back:
            signal.raise_signal(signal.SIGINT)
        return advance(task, results, at, until)

    monkeypatch.setattr(_discrete.Discrete, "advance", interrupted)
    stopped = eq.advise(log, run=tmp_path / "run", **QUICK)
    assert stopped.status.name == "interrupted"
    assert f"stopped after {seen[-1] + 1} of {seen[-1] + back} steps" in stopped.status.message
    np.testing.assert_array_equal(stopped.policy.policies, own_play(log)[None])
    done = []
    monkeypatch.setattr(_discrete.Discrete, "advance", lambda *a: done.append(a[2]) or advance(*a))
    assert_same(eq.advise(log, run=tmp_path / "run", **QUICK), advice)
    assert done == list(range(seen[-1] + 1, seen[-1] + back))


def test_a_finished_run_is_read_and_not_done_again(log, advice, tmp_path, monkeypatch):
    assert_same(eq.advise(log, run=tmp_path, **QUICK), advice)
    monkeypatch.setattr(module, "learn_discrete", None)
    assert_same(eq.advise(log, run=tmp_path, **QUICK), advice)
    with pytest.raises(ValueError, match="found other values of: iterations"):
        eq.advise(log, run=tmp_path, iterations=31)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"rank": 0}, "rank"),
        ({"rank": 4}, "rank"),
        ({"rank": "two"}, "rank"),
        ({"neighbours": "some"}, "neighbours"),
        ({"neighbours": 3}, "neighbours"),
        ({"critic": "linear"}, "critic"),
        ({"iterations": 0}, "iterations"),
        ({"step": 0.0}, "step"),
        ({"strength": -1.0}, "strength"),
        ({"level": 1.0}, "level"),
    ],
)
def test_wrong_options_name_their_argument(log, options, argument):
    with pytest.raises(InputError) as caught:
        eq.advise(log, **(QUICK | options))
    assert caught.value.argument == argument


def test_labels_reach_the_model_and_the_stats(log, tmp_path):
    labels = {"players": ("Ada", "Bo", "Cy"), "actions": (("low", "high"),)}
    named = eq.offline.Log(None, log.actions, log.rewards, labels=labels)
    for suffix in ("npz", "parquet"):
        named.write(tmp_path / f"log.{suffix}")
        assert eq.offline.Log.read(tmp_path / f"log.{suffix}").labels == named.labels
    assert named.take(slice(0, 5)).labels.player(2) == "Cy"
    assert eq.offline.fit(named, 1).game.labels.action(1, 1) == "high"
    assert eq.advise(named, **QUICK).stats["labels"]["players"] == ["Ada", "Bo", "Cy"]
    with pytest.raises(ValueError, match=r"labels.players: expected 3 names, found 1"):
        eq.offline.Log(None, log.actions, log.rewards, labels={"players": ("Ada",)})
    (tmp_path / "damaged.npz").write_bytes(b"")
    np.savez(tmp_path / "damaged.npz", actions=log.actions, rewards=log.rewards, labels="[1]")
    with pytest.raises(ValueError, match=r"labels: expected names by field, found \[1\]"):
        eq.offline.Log.read(tmp_path / "damaged.npz")


@pytest.fixture(scope="module")
def points():
    """Three agents who want to be where the others are, and above."""
    actions = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    rewards = actions * actions.sum(1, keepdims=True) + actions
    return eq.offline.Log(None, actions, rewards, continuous=True)


def test_continuous_actions_are_learned_by_a_critic(points):
    found = eq.advise(points, critic="linear", iterations=800)
    assert found.status.ok
    assert found.policy.points.round(1).tolist() == [[1.0, 1.0, 1.0]]
    assert found.stats["gap"]["gap"] < 0.05 < found.stats["own_gap"]
    assert (found.stats["explained"] > 0.99).all()
    assert found.certificate.method.endswith("in the fitted model")
    assert np.isinf(found.certificate.upper).all()
    assert_same(solution_from_plain(found.to_plain()), found)


@pytest.mark.parametrize("chase", [False, True])
def test_continuous_actions_are_judged_by_what_can_still_be_gained(chase):
    """Rewards are explained either way; agents who chase each other never come to rest."""
    sign = jnp.array([1.0, -1.0 if chase else 1.0])
    game = eq.ContinuousGame.from_function(
        lambda a: sign * jnp.cos(np.pi * (a[0] - a[1])), 2, noise=0.1
    )
    log = eq.offline.collect(game, "uniform", samples=400, key=0)
    critic = eq.offline.deep.LinearCritic(rank=2, degree=6)
    found = eq.advise(log, critic=critic, iterations=50)
    assert (found.stats["explained"] > 0.9).all()
    if not chase:
        assert found.status.ok
        assert eq.certify(game, found.policy).max_gain < 0.05
        return
    assert found.status.name == "refused"
    assert "do not settle" in found.status.message
    np.testing.assert_allclose(found.policy.points[0], log.actions.mean(0))
    forced = eq.advise(log, critic=critic, iterations=50, force=True)
    assert forced.status.caution


def test_continuous_refusals_and_wrong_options(points):
    few = eq.advise(points.take(slice(0, 9)), critic="linear")
    assert few.status.name == "refused"
    np.testing.assert_allclose(few.policy.points[0], points.actions[:9].mean(0))
    noise = np.random.default_rng(1).normal(size=(200, 3))
    noisy = eq.offline.Log(None, points.actions, noise, continuous=True)
    found = eq.advise(noisy, critic="linear", iterations=2)
    assert found.status.name == "nothing learned"
    np.testing.assert_allclose(found.policy.points[0], points.actions.mean(0))
    for name, value in {
        "rank": 2,
        "neighbours": 1,
        "step": 1.0,
        "critic": "x",
    }.items():
        with pytest.raises(InputError) as caught:
            eq.advise(points, **{name: value})
        assert caught.value.argument == name


def test_an_interrupted_critic_goes_on(points, tmp_path, monkeypatch):
    fit = eq.offline.deep.fit

    def interrupted(*args, **options):
        signal.raise_signal(signal.SIGINT)
        return fit(*args, **options)

    monkeypatch.setattr(eq.offline.deep, "fit", interrupted)
    given = {"critic": "linear", "iterations": 50, "run": tmp_path}
    stopped = eq.advise(points, **given)
    assert stopped.status.name == "interrupted"
    monkeypatch.setattr(eq.offline.deep, "fit", fit)
    assert eq.advise(points, **given).stats["steps"] == 50


def test_own_points_are_means_where_there_are_rows():
    log = eq.offline.Log(
        None, [[0.5], [-0.5], [1.0]], [[0.0]] * 3, states=[[0], [0], [1]],
        next_states=[[0], [0], [0]], steps=[0, 0, 1], continuous=True,
    )  # fmt: skip
    points = _own_play.own_points(log).points
    assert points.shape == (1, 2, 1, 2)
    everywhere = 1 / 3
    np.testing.assert_allclose(points[0, :, 0], [[0.0, everywhere], [everywhere, 1.0]])


@pytest.mark.parametrize(("share", "outcome"), [(0.03, "refused"), (0.3, "learned")])
def test_advice_to_play_what_never_met_is_not_called_learned(share, outcome):
    """The log of a game of chicken shows no two hawks, and the model expects them to earn a lot."""
    rng = np.random.default_rng(0)
    actions = (rng.random((600, 2)) < share).astype(int)
    earned = np.array([[6.0, 2.0], [7.0, 0.0]])
    mean = np.stack([earned[actions[:, 0], actions[:, 1]], earned[actions[:, 1], actions[:, 0]]], 1)
    rewards = mean + rng.normal(size=(600, 2))
    found = eq.advise(eq.offline.Log(None, actions, rewards))
    assert found.status.name == outcome
    told = "combinations of actions that the log hardly shows" in found.status.message
    assert told == (outcome == "refused")
    if outcome == "refused":
        one, other = found.policy.policies[0, 0]
        assert (earned @ other).max() - one @ earned @ other <= found.bound


@pytest.fixture(scope="module")
def blocks():
    """Shops that open in two pairs, as a table of lines; prices of a pair affect each other."""
    rng = np.random.default_rng(4)
    columns = {"day": [], "shop": [], "price": [], "profit": [], "open": []}
    for day in range(1_200):
        doors = rng.integers(0, 2, 2).astype(bool)
        doors[rng.integers(2)] = True
        price = rng.integers(0, 2, 4)
        who = " and ".join(np.array(["north", "south"])[doors])
        for i in np.flatnonzero(doors.repeat(2)):
            profit = 2.0 * price[i] - price[i ^ 1] + rng.normal(0, 0.2)
            line = (day, ["Ada", "Bo", "Cy", "Di"][i], ("low", "high")[price[i]], profit, who)
            for column, value in zip(columns.values(), line, strict=True):
                column.append(value)
    return {name: np.array(values) for name, values in columns.items()}


class Frame(dict):
    """The least that a data frame has."""

    @property
    def columns(self):
        return list(self)

    def __getitem__(self, name):
        return SimpleNamespace(to_numpy=lambda: super(Frame, self).__getitem__(name))


def test_shops_that_open_together_are_refused_unless_a_context_says_who_is_open(blocks, tmp_path):
    names = {"agent": "shop", "time": "day", "action": "price", "reward": "profit"}
    refused = eq.advise(eq.offline.Log.read(Frame(blocks), **names))
    assert refused.status.name == "refused"
    first = refused.status.message.split("\n")[0]
    assert first.startswith("some agents are absent together, or one instead of the other (6 pairs")
    assert "; add a column that says who is present as a context, use only times at" in first
    log = eq.offline.Log.read(Frame(blocks), **names, context="open")
    found = eq.advise(log, run=tmp_path)
    assert found.status.ok, found.status
    assert found.bound < 0.1
    shown = (tmp_path / "policy.csv").read_text()
    assert "Cy,south,0,present,high,1.0" in shown
    assert "Ada,south," not in shown  # Ada is in the north
    rows = eq.report.tables_of(eq.runs.Record.load(tmp_path))["advice"].rows
    assert ("Ada", "south", "never present") in [row[:3] for row in rows]
