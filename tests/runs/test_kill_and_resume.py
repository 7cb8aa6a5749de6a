"""A real process, killed with no warning and resumed, ends with the same bytes."""

import os
import signal
import subprocess
import sys
import time

import pytest
from support import files_of

from equipoise.runs import Run, interruptible, read_metrics

SCRIPT = """
import sys, time
import jax, jax.numpy as jnp
from equipoise.runs import Record, Run, resumable

config = {"steps": 40, "seed": 3}
pause = float(sys.argv[2])

@jax.jit
def step(state):
    key, noise = jax.random.split(state["key"])
    x = state["x"] * 0.9 + jax.random.normal(noise, (3,)).astype(jnp.bfloat16)
    return {"key": key, "x": x, "mean": state["mean"] * 0.99 + x.astype(jnp.float32).mean()}

with Run.start(sys.argv[1], config) as run:
    state = {"key": jax.random.key(3), "x": jnp.zeros(3, jnp.bfloat16), "mean": jnp.asarray(0.0)}

    def advance(state, done, until):
        time.sleep(pause * (20 if done > 25 else 1))  # it waits to be killed
        state = step(state)
        return state, {"mean": state["mean"]}

    state = resumable(run, state, advance, config["steps"], name="walking").state
    means = [row["mean"] for row in run.metrics()]
    run.finish(Record("walk", config, {"mean": state["mean"]}, {"means": means}))
"""


def walk(folder, pause=0.0):
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder), str(pause)])


def rows(folder):
    return len(read_metrics(folder)) if (folder / "metrics.jsonl").exists() else 0


@pytest.mark.slow
def test_killed_and_resumed_is_as_never_stopped(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert walk(whole).wait(timeout=300) == 0
    for target in (7, 20):  # twice, at moments nobody chose exactly
        process = walk(broken, pause=0.05)
        while rows(broken) < target and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=300) == -signal.SIGKILL
        assert not (broken / "record.json").exists()
    assert walk(broken).wait(timeout=300) == 0
    assert files_of(broken) == files_of(whole)
    assert set(files_of(whole)) >= {"config.json", "metrics.jsonl", "record.json", "record.npz"}
    with Run.open(broken) as run:
        assert run.finished


def test_the_first_ctrl_c_asks_and_the_second_raises():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored under nohup
    try:
        first_asks_and_second_raises()
    finally:
        signal.signal(signal.SIGINT, before)


def first_asks_and_second_raises():
    with interruptible() as stop:
        assert not stop
        os.kill(os.getpid(), signal.SIGINT)
        assert stop
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):  # the earlier behaviour is back
        os.kill(os.getpid(), signal.SIGINT)


def test_an_outer_loop_hears_of_ctrl_c_in_an_inner_one():
    with interruptible() as outer:
        with interruptible() as inner:
            os.kill(os.getpid(), signal.SIGINT)
        assert inner
        assert outer
