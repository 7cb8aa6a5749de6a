"""What tests/core/test_mesh.py runs in processes that have several devices.

python mesh_work.py FOLDER                    four devices, and one of them, in one process
python mesh_work.py FOLDER PORT NUMBER        one of two processes with two devices each
"""

import contextlib
import re
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

import equipoise as eq
from equipoise.core import devices
from equipoise.core.precision import double_precision
from equipoise.incontext import _train
from equipoise.offline import deep

TINY = {"rounds": 6, "layers": 1, "width": 8, "hidden": 8, "steps": 8, "play_ahead": 2}
TINY |= {"warmup": 0, "held_out": 4, "batch": 16}
CONFIGS = {
    "on-policy": TINY,
    "mixed": TINY | {"contexts": "mixed", "learners": ("omd", "uniform")},
    "any": TINY | {"tokens": "adaptive", "relative": True, "noise": ("exact", "bernoulli")},
}


def played() -> dict[str, np.ndarray]:
    """Play of learners, whose games are independent: the same bits everywhere."""
    games = eq.games.families.uniform(actions=3).sample(90, key=0)
    omd = eq.dynamics.OMD()
    return {"play": eq.dynamics.play(games, omd, omd, rounds=50, key=1).last[0]}


def played_on() -> dict[str, np.ndarray]:
    """Play that goes on, play of which every round is kept, and a whole run of it."""
    games = eq.games.families.uniform(actions=3).sample(90, key=0)
    omd, other = eq.dynamics.OMD(), eq.dynamics.EXP3IX()
    trace = eq.dynamics.play(games, omd, other, rounds=50, key=1)
    again = eq.dynamics.play(games, omd, other, rounds=20, state=trace.state)
    history = eq.dynamics.play(games, omd, omd, rounds=20, key=2, history=True)
    record = eq.dynamics.self_play(eq.dynamics.SelfPlay(rounds=200, games=40))
    return {
        "resumed": again.average[1],
        "history": history.history.rewards,
        "self-play": record.arrays["gap"],
    }


def in_context() -> dict[str, np.ndarray]:
    """Play of frozen players."""
    players = eq.incontext.load("iid3")
    games = eq.games.families.uniform(actions=3).sample(70, key=0)
    return {"in-context": eq.play(games, players, rounds=12, key=2).last[0]}


def trained(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Weights of pre-training, whose gradients are sums over devices."""
    family = eq.games.families.uniform(actions=2)
    if name == "any":
        family = eq.games.families.mixture(3, fewest=2)
    config = eq.incontext.Config(**CONFIGS[name])
    players = eq.incontext.pretrain(family, config, key=0, run=folder / name)
    leaves = jax.tree.leaves(players.models)
    return {f"weights {name}": np.concatenate([np.ravel(leaf) for leaf in leaves])}


def resumed(folder: Path, count: int) -> dict[str, np.ndarray]:
    """Training that is interrupted after two cycles on all devices, and goes on with one."""
    whole, cycles = _train.run_cycle, []

    def stopping(*given: Any) -> Any:
        if len(cycles) == 2:
            raise KeyboardInterrupt
        cycles.append(whole(*given))
        return cycles[-1]

    if count > 1:
        _train.run_cycle = stopping
        with contextlib.suppress(KeyboardInterrupt):
            trained(folder, "on-policy")
        _train.run_cycle = whole
        assert list(folder.glob("*/checkpoints/*.npz"))
    with devices.using(1):
        return trained(folder, "on-policy")


def critics() -> dict[str, np.ndarray]:
    """Critics of five agents, which are independent."""
    actions = np.random.default_rng(0).uniform(-1, 1, (200, 5))
    log = eq.offline.Log(np.zeros(200, int), actions, actions**2, continuous=True)
    fitted = deep.fit(log, deep.Critic(1, width=8, epochs=3), key=0)
    return {"critics": np.asarray(fitted.validation)}


def solved(split: bool) -> dict[str, np.ndarray]:
    """Games whose payoffs are split over all devices; a CPU stands in for an accelerator."""
    payoff = np.random.default_rng(0).random((64, 3, 3))
    devices._HOSTS.clear()
    mesh = jax.sharding.Mesh(np.array(jax.devices() if split else jax.devices()[:1]), ("games",))
    with double_precision():
        place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("games"))
        games = jax.make_array_from_callback(payoff.shape, place, lambda index: payoff[index])
        solution = eq.solve(eq.MatrixGame(games))
        if split:
            assert len(solution.policy[0].sharding.device_set) == 4
        found = {"solve": solution.policy[0], "value": solution.value}
        found["gains"] = solution.certificate.gains
        found = {name: _whole(array) for name, array in found.items()}
    devices._HOSTS.add("cpu")
    return found


def _whole(array: Any) -> np.ndarray:
    """An array of which every process has a part."""
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


PARTS = {
    "play": lambda folder, count: played(),
    "self-play": lambda folder, count: played_on(),
    "in-context": lambda folder, count: in_context(),
    "critics": lambda folder, count: critics(),
    "train": lambda folder, count: trained(folder / str(count), "on-policy"),
    "resume": lambda folder, count: resumed(folder / f"{count}-resumed", count),
    "train-mixed": lambda folder, count: trained(folder / str(count), "mixed"),
    "train-any": lambda folder, count: trained(folder / str(count), "any"),
    "solve": lambda folder, count: solved(count > 1),
}


def listens_everywhere(port: int) -> bool:
    """Whether something on this machine (Linux) listens on the port of every address."""
    tables = [Path("/proc/net", name) for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables if table.exists() for line in table.open()]
    return any(
        re.fullmatch(f"0+:{port:04X}", row[1]) is not None and row[3] == "0A" for row in rows
    )


def main() -> None:
    folder, parts, *distributed = sys.argv[1:]
    if distributed:
        port, number = distributed
        # Without a bind address, JAX listens on all addresses of the machine.
        here = f"127.0.0.1:{port}"
        jax.distributed.initialize(here, 2, int(number), coordinator_bind_address=here)
        assert not listens_everywhere(int(port))
        assert (jax.device_count(), jax.local_device_count()) == (4, 2)
        work(Path(folder), parts, 2, f"process-{number}")
        return
    assert jax.device_count() == 4
    for count in (1, 4):
        with devices.using(count):
            work(Path(folder), parts, count, str(count))


def work(folder: Path, parts: str, count: int, name: str) -> None:
    """Do the parts, and keep what was found."""
    found = {}
    for part in parts.split(","):
        begun = time.process_time()
        found |= PARTS[part](folder, count)
        print(f"{name} {part}: {time.process_time() - begun:.1f} s", flush=True)
    np.savez(folder / f"{name}.npz", **found)


if __name__ == "__main__":
    main()
