"""Learning from samples, as a whole: what it returns, how it stops, and what it may look at."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from aggregative.crowd_games import city
from support import files_of

import equipoise as eq
from equipoise.aggregative import Simulator, Spec, learn
from equipoise.aggregative.learning._learner import LONGEST
from equipoise.runs import Run


def small(seed=0, types=5):
    return city(types, 3, 3, seed=seed, counts=[50 // types] * types)


class Door:
    """Lets through what a learner may use, and writes down what it asked for."""

    def __init__(self, env, spec):
        self.env, self.spec, self.asked = env, spec, set()

    def __getattribute__(self, name):
        if name in ("reset", "step"):
            object.__getattribute__(self, "asked").add(name)
            return getattr(object.__getattribute__(self, "env"), name)
        if name in ("spec", "asked"):
            return object.__getattribute__(self, name)
        raise AttributeError(name)


@pytest.mark.parametrize("rewards", ["known", "unknown"])
def test_a_learner_sees_no_more_than_the_interface(rewards):
    game = small()
    spec = Spec.of(game)
    door = Door(Simulator(game, 3), spec if rewards == "known" else spec.unrewarded())
    run = learn(door, 30, rewards=rewards)
    assert door.asked == {"reset", "step"}
    assert not any(name == "transition" for name in vars(spec))
    direct = learn(Simulator(game, 3), 30, rewards=rewards)
    np.testing.assert_array_equal(run.policy.actions, direct.policy.actions)
    assert run.width == direct.width


def test_rewards_that_are_unknown_are_not_asked_for():
    game = small()

    def secret(h, s, x):
        raise AssertionError("the learner looked at the rewards")

    env = Simulator(game, 0)
    declared = Spec.of(game)
    object.__setattr__(declared, "reward", secret)
    run = learn(env, 20, spec=declared.unrewarded(), rewards="unknown")
    assert run.episodes == 20


def test_curves_only_improve():
    for options in ({}, {"rewards": "unknown"}, {"objective": "welfare"}):
        run = learn(Simulator(small(), 1), 40, **options)
        for name in ("width", "bound"):
            assert (np.diff(run.curve[name]) <= 0).all(), (options, name)
        assert (np.diff(run.regret) >= 0).all()
        assert run.regret.shape == (40,)
        assert run.curve["planned"].sum() <= run.stats["plans"]


def test_known_rewards_need_no_samples_for_an_equilibrium():
    """Lemma B: the gap is that of planning after one episode as after many."""
    game = small(2)
    planned = float(eq.solve(game).certificate.max_gain)
    for episodes in (1, 20):
        run = learn(Simulator(game, 0), episodes)
        assert eq.certify(game, run.policy).max_gain <= planned + 1e-12
        assert eq.certify(game, run.policy).max_gain <= run.bound


def test_counts_that_double_make_few_plans():
    run = learn(Simulator(small(), 0), 200)
    assert run.stats["plans"] < 60  # a plan for each episode would be 200


def test_welfare_comes_near_that_of_planning():
    for seed in range(2):
        game = small(seed)
        best = eq.solve(game, objective="welfare", spacing=0.05).value.mean()
        run = learn(Simulator(game, seed), 100, objective="welfare")
        exact = eq.certify(game, run.policy)
        assert exact.mean_value.mean() >= best - 0.01
        assert (run.welfare[0] <= exact.mean_value + 1e-9).all()
        assert (exact.mean_value <= run.welfare[1] + 1e-9).all()
        assert exact.max_gain <= run.stats["planning_bound"]


def test_optimism_finds_the_welfare_that_lies_ahead():
    """Everybody is indifferent; only where the aggregate is high does the good state follow."""
    game = eq.AggregativeMarkovGame(
        [[[0.0], [1.0]]],
        lambda h, s, x: np.zeros((1, 2)) + 0.9 * s + 0.0 * x[..., 0],
        lambda h, s, x: np.stack([1 - 0.9 * x[..., 0], 0.9 * x[..., 0]], -1),
        4,
        2,
        [40],
        lipschitz=0.0,
        transition_lipschitz=0.9,
    )
    best = eq.solve(game, objective="welfare", spacing=0.1).value[0]
    env = Simulator(game, 0, start=0)
    run = learn(env, 120, objective="welfare", spacing=0.1, bonus=0.3)
    assert eq.certify(game, run.policy).mean_value[0] >= 0.85 * best
    assert best > 2.0


def test_welfare_and_loss_of_ones_own():
    game = small(3)
    weights = np.random.default_rng(0).random((5, 3))
    more = learn(Simulator(game, 0), 30, objective="welfare", welfare=weights)
    less = learn(Simulator(game, 0), 30, objective="loss", loss=weights)
    low, high = -less.welfare[1], more.welfare[0]
    assert high.mean() > low.mean()
    with pytest.raises(ValueError, match="welfare: expected this option only with objective"):
        learn(Simulator(game, 0), 1, welfare=weights)


def test_each_agent_alone_gives_a_policy_of_the_game():
    game = small(1)
    run = learn(Simulator(game, 0), 40, rewards="unknown", pool=False)
    assert run.policy.classes == 50
    assert eq.certify(game, run.policy).max_gain <= run.bound


def test_two_coordinates_and_influences_that_depend_on_the_state():
    game = city(3, 2, 2, d=2, seed=4, counts=[10] * 3)
    run = learn(Simulator(game, 0), 40, rewards="unknown", spacing=0.2)
    assert eq.certify(game, run.policy).max_gain <= run.bound
    rng = np.random.default_rng(0)
    influence = rng.random((2, 2, 3, 3, 1))
    moving = eq.AggregativeMarkovGame(
        influence,
        lambda h, s, x: 0.3 * np.cos(h + s + influence[h, s, :, :, 0]),
        lambda h, s, x: np.stack([x[..., 0], 1 - x[..., 0]], -1),
        2,
        2,
        [5, 5, 5],
        lipschitz=0.0,
        transition_lipschitz=1.0,
    )
    run = learn(Simulator(moving, 0), 30, objective="welfare")
    assert eq.certify(moving, run.policy).max_gain <= run.bound + 1e-9


def test_history_keeps_what_was_played():
    game = small()
    run = learn(Simulator(game, 0), 60, rewards="unknown", history=True)
    assert [k for k, _, _ in run.history] == sorted(k for k, _, _ in run.history)
    assert run.history[0][0] == 0
    for _, policy, bounds in run.history:
        value = eq.certify(game, policy).class_value.T
        assert (bounds.lower <= value + 1e-9).all()
        assert (value <= bounds.upper + 1e-9).all()


def test_constants_that_are_wrong_are_noticed():
    game = small()
    flat = Spec(game.influence, 3, 3, lipschitz=0.0, transition_lipschitz=0.0, counts=game.counts)
    run = learn(Simulator(game, 0), 60, spec=flat, rewards="unknown")
    assert run.status.caution
    assert not run.status.ok
    assert run.confidence == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rewards": "guessed"}, "rewards: expected 'known' or 'unknown'"),
        ({"form": "new"}, "form: expected"),
        ({"form": "printed", "rewards": "unknown"}, "form: expected known rewards"),
        ({"pool": False, "scouts": 2}, "scouts: expected pool=True"),
        ({"failure": 0.0}, "failure: expected a number"),
        ({"noise": -1.0}, "noise: expected a number"),
        ({"objective": "fame"}, "objective: expected"),
        ({"history": True, "run": "here"}, "history: expected no run folder"),
        ({"spec": 3}, "spec: expected a Spec"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        learn(Simulator(small(), 0), 5, **options)


def test_wrong_environments_are_named():
    game = small()

    class Broken:
        spec = Spec.of(game)

        def reset(self):
            return 0

        def step(self, actions):
            return 7, np.zeros(50)

    with pytest.raises(ValueError, match="env: expected states from 0 to 2, found 7"):
        learn(Broken(), 5)
    with pytest.raises(ValueError, match="env: expected a method reset"):
        learn(object(), 5, spec=Spec.of(game))
    short = Broken()
    short.step = lambda actions: (0, np.zeros(3))
    with pytest.raises(ValueError, match="expected 50 finite rewards"):
        learn(short, 5, rewards="unknown")
    with pytest.raises(ValueError, match="no reward"):
        learn(Broken(), 5, spec=Spec.of(game).unrewarded())


def test_ctrl_c_returns_the_best_so_far(tmp_path):
    class Pressed(Simulator):
        def reset(self):
            if self._episode == 2 * LONGEST + 7:
                os.kill(os.getpid(), signal.SIGINT)
            return super().reset()

    game = small()
    run = learn(Pressed(game, 0), 10**6, rewards="unknown", run=tmp_path / "run")
    assert 2 * LONGEST <= run.episodes < 10**6
    assert run.status.name == "interrupted"
    with Run.open(tmp_path / "run") as folder:  # no more is lost than one part of the run
        assert folder.step == run.episodes // LONGEST * LONGEST
    assert eq.certify(game, run.policy).max_gain <= run.bound


def test_a_time_limit_returns_the_best_so_far_and_the_run_resumes(tmp_path):
    class Slow(Simulator):
        def reset(self):
            if self._episode == 45:
                time.sleep(0.6)  # longer than the time limit, on any machine
            return super().reset()

    game, told = small(), []
    options = {"rewards": "unknown", "noise": 0.1}
    whole = learn(Simulator(game, 0, noise=0.1), 100, progress=told.append, **options)
    assert told[-1]["episodes"] == told[-1]["of"] == 100
    assert told[-1]["bound"] == whole.curve["bound"][-1]
    cut = Slow(game, 0, noise=0.1)
    run = learn(cut, 100, run=tmp_path / "run", time_limit=0.5, **options)
    assert run.episodes <= 46
    assert run.status.name == "out of time"
    assert f"{run.episodes} of 100 episodes were played" in run.status.message
    assert eq.certify(game, run.policy).max_gain <= run.bound
    assert not (tmp_path / "run/record.json").exists()
    again = learn(Simulator(game, 0, noise=0.1), 100, run=tmp_path / "run", **options)
    np.testing.assert_array_equal(again.policy.actions, whole.policy.actions)
    assert again.bound == whole.bound
    for name, values in whole.curve.items():
        np.testing.assert_array_equal(again.curve[name], values)


def test_no_time_at_all_still_gives_a_policy():
    game = small()
    run = learn(Simulator(game, 0), 100, rewards="unknown", time_limit=0)
    assert run.episodes == 0
    assert run.status.name == "out of time"
    assert eq.certify(game, run.policy).max_gain <= run.bound
    with pytest.raises(ValueError, match="time_limit: expected a number"):
        learn(Simulator(game, 0), 1, time_limit=-1)


def bump(x):
    """A bump of width .0008 that samples of slopes miss: the constant is at least 625."""
    share = x[..., 0]
    more = 0.5 * np.maximum(0, 1 - abs(share - 0.30371) / 0.0004)
    return np.stack([0.2 - 0.3 * share + more, 0.1 + 0 * share + more], -1)[..., None, :]


@pytest.mark.parametrize("stages", [False, True])
def test_sampled_constants_prove_nothing(stages):
    road = [[[1.0], [0.0]]]
    if stages:
        game = eq.AggregativeMarkovGame(
            road,
            lambda h, s, x: bump(x),
            lambda h, s, x: np.ones((*np.shape(x)[:-1], 1)),
            1,
            1,
            [1000],
            transition_lipschitz=0,
        )
    else:
        game = eq.AggregativeGame(road, bump, counts=[1000])
    assert game.lipschitz < 1  # the truth is 625
    run = learn(Simulator(game, 0), 5, rewards="unknown")
    assert run.confidence == 0
    assert np.isinf(run.certificate.max_upper)
    assert "constants were sampled, so that nothing is proven" in run.status.message
    stated = Spec.of(game)
    assert not stated.declared
    assert not stated.unrewarded().declared


def test_a_run_killed_before_its_certificate_gets_the_same_record(tmp_path):
    game, whole, killed = small(), tmp_path / "whole", tmp_path / "killed"
    run = learn(Simulator(game, 0), 20, run=whole)
    shutil.copytree(whole, killed)
    run.judged(game, whole)
    learn(Simulator(game, 0), 20, run=killed).judged(game, killed)
    assert (killed / "record.json").read_bytes() == (whole / "record.json").read_bytes()


def test_a_finished_run_is_read_and_another_is_refused(tmp_path):
    game = small()
    first = learn(Simulator(game, 0), 40, run=tmp_path / "run")
    again = learn(Simulator(game, 0), 40, run=tmp_path / "run")
    np.testing.assert_array_equal(first.policy.actions, again.policy.actions)
    np.testing.assert_array_equal(first.curve["bound"], again.curve["bound"])
    assert again.width == first.width
    assert first.status.ok
    assert again.status == first.status
    with pytest.raises(ValueError, match=r"env\.key"):
        learn(Simulator(game, 1), 40, run=tmp_path / "run")
    with pytest.raises(ValueError, match="episodes"):
        learn(Simulator(game, 0), 41, run=tmp_path / "run")


def test_keeping_a_run_does_not_change_it(tmp_path):
    kept = learn(Simulator(small(), 0), 60, rewards="unknown", run=tmp_path / "run")
    plain = learn(Simulator(small(), 0), 60, rewards="unknown")
    np.testing.assert_array_equal(kept.policy.actions, plain.policy.actions)
    np.testing.assert_array_equal(kept.curve["regret"], plain.curve["regret"])


SCRIPT = """
import sys, time
import equipoise as eq
from aggregative.crowd_games import city

class Slow(eq.aggregative.Simulator):
    def reset(self):
        time.sleep(float(sys.argv[2]) * (50 if self._episode > 100 else 1))  # it waits to be killed
        return super().reset()

game = city(5, 3, 3, counts=[10] * 5)
env = Slow(game, 4, noise=0.1)
eq.learn(
    env, 200, rewards="unknown", noise=0.1, objective="welfare", run=sys.argv[1]
)
"""


def start(folder, pause):
    paths = os.pathsep.join([p for p in sys.path if p.endswith("tests")])
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(pause)], env=environment
    )


@pytest.mark.slow
def test_killed_and_resumed_is_as_never_stopped(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    unbroken = start(whole, 0.0)
    for target in (30, 90):  # twice, at moments nobody chose exactly
        process = start(broken, 0.01)
        while process.poll() is None:
            files = (broken / "checkpoints").glob("*.npz")
            done = sorted(int(file.stem) for file in files if file.stem.isdigit())
            if done and done[-1] >= target:
                break
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=300) == -signal.SIGKILL
        assert not (broken / "record.json").exists()
    assert start(broken, 0.0).wait(timeout=300) == 0
    assert unbroken.wait(timeout=300) == 0
    assert files_of(broken) == files_of(whole)
    assert json.loads((whole / "record.json").read_text())["scalars"]["bound"] > 0


def test_the_certificate_is_what_samples_prove():
    city = eq.games.load("demand-response", agents=60, horizon=2)
    run = eq.learn(eq.aggregative.Simulator(city, key=0), episodes=30)
    assert run.certificate.max_upper == run.bound
    assert run.certificate.max_gain < 1e-15
    assert eq.certify(city, run.policy).max_gain <= run.certificate.max_upper
    assert run.certificate.value.shape == (3, 60)
    bold = eq.learn(eq.aggregative.Simulator(city, key=0), episodes=5, bonus=0.1)
    assert np.isinf(bold.certificate.max_upper)


@pytest.mark.parametrize("rewards", ["known", "unknown"])
def test_the_side_of_cells_does_not_limit_gains(rewards):
    """At the default spacing, what is chosen for welfare is an equilibrium all the same."""
    city = eq.games.load("bus-or-car", agents=100, horizon=1)
    env = eq.aggregative.Simulator(city, key=1)
    run = eq.learn(env, episodes=30, rewards=rewards, objective="welfare")
    least = eq.solve(city).certificate.max_gain
    assert eq.certify(city, run.policy).max_gain <= least + 4 * city.lipschitz * city.delta
