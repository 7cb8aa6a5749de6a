"""A real Ray cluster of two nodes on the loopback address, one of which is killed."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from equipoise.core import InputError
from equipoise.runs import sweep
from equipoise.runs._sweep import _Task
from equipoise.runs.engines import _LOOPBACK, Ray, _check_answers

pytest.importorskip("ray")

pytestmark = [
    pytest.mark.slow,
    # Ray's own threads and deprecated calls are its business.
    pytest.mark.filterwarnings("ignore"),
]

WORK, SOURCE = Path(__file__).with_name("ray_work.py"), Path(__file__).parents[2] / "src"
NODE = {"num_cpus": 1, "object_store_memory": 100_000_000}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one core each; the second may be killed, and a third comes instead."""
    os.environ |= {**_LOOPBACK, "RAY_USAGE_STATS_ENABLED": "0"}
    import ray
    from ray.cluster_utils import Cluster

    head = {**NODE, "include_dashboard": False}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    nodes.add_node(**NODE)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture
def engine(cluster):
    return Ray(cluster.address)


def test_a_killed_node_loses_no_task(cluster, engine, tmp_path):
    """The task of the killed node, which never ends there, runs again on the other one."""
    victim = list(cluster.worker_nodes)[-1]
    name, there = victim.node_id, tmp_path / "there"

    def task(number):
        import ray

        if ray.get_runtime_context().get_node_id() == name:
            there.touch()
            time.sleep(600.0)
        while not there.exists():  # both nodes have work now
            time.sleep(0.05)
        return number**2

    def kill():
        while not there.exists():
            time.sleep(0.05)
        cluster.remove_node(victim, allow_graceful=False)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    found = list(engine.map(task, range(6)))
    assert sorted(found) == [(i, i**2) for i in range(6)]
    assert not killer.is_alive()
    cluster.add_node(**NODE)


def test_errors_of_tasks_are_raised_as_they_are(engine):
    def task(number):
        raise ValueError(f"number {number}")

    with pytest.raises(ValueError, match="number 3"):
        list(engine.map(task, [3]))


def test_an_address_where_nobody_answers_is_refused():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(InputError, match="which does not respond"):
            _check_answers(f"127.0.0.1:{port}", "127.0.0.1")
        free.listen()
        _check_answers(f"ray://127.0.0.1:{port}", "127.0.0.1")
    _check_answers("auto", "127.0.0.1")


@pytest.mark.parametrize("address", ["nonsense", "", "ray://"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(InputError, match=r"such as 10\.0\.0\.1:6379"), Ray(address).connected():
        pass


def test_tasks_that_could_never_start_are_refused():
    engine = Ray(cpus=3, gpus=1)
    with pytest.raises(InputError, match="cpus: expected at most 2"):
        engine._check_room({"CPU": 2.0})
    with pytest.raises(InputError, match="gpus: expected at most 0"):
        engine._check_room({"CPU": 4.0})
    for wrong in ({"cpus": 0}, {"cpus": -2}, {"gpus": -1}, {"gpus": float("nan")}):
        with pytest.raises(InputError, match=f"{next(iter(wrong))}: expected a number"):
            Ray(**wrong)


@pytest.mark.soak
def test_a_sweep_on_ray_writes_the_bytes_of_one_on_this_machine(engine, tmp_path):
    games = {"game": ["oneill", "kuhn-poker"]}
    here = sweep(tmp_path / "here", "solve", games, page=False)
    there = sweep(tmp_path / "there", "solve", games, on=engine, page=False)
    assert here.done
    assert there.done
    for name in here.states:
        for file in ("config.json", "record.json", "record.npz", "metrics.jsonl"):
            same = (tmp_path / folder / name / file for folder in ("here", "there"))
            first, second = (path.read_bytes() for path in same)
            assert first == second


@pytest.mark.soak
def test_a_stop_reaches_the_commands_of_workers(engine, tmp_path):
    """A run that would take a minute keeps a checkpoint instead."""
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings" / "seed=0.toml").write_text("rounds = 5e6\ngames = 16\n")
    task = _Task(str(tmp_path), str(tmp_path), "play")
    checkpoints = tmp_path / "seed=0" / "checkpoints"
    found = engine.map(task, ["seed=0"], stop=lambda: bool(list(checkpoints.glob("*.npz"))))
    assert [state for _, state in found] in ([], ["stopped"])
    assert not (tmp_path / "seed=0" / "record.json").exists()


@pytest.mark.soak
def test_fits_and_simulators_find_what_one_process_finds(cluster, tmp_path):
    """Files are added up by tasks, and episodes played by actors."""
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(WORK), cluster.address, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
