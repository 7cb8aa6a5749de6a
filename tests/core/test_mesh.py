"""Four devices in one process, and two processes with two each, find what one device finds."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from equipoise.core import InputError, devices

WORK = Path(__file__).with_name("mesh_work.py")
SOURCE = Path(__file__).parents[2] / "src"


def start(folder, count, *arguments):
    """`mesh_work.py` with so many devices in its process."""
    variables = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={count}"}
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, str(WORK), str(folder), *map(str, arguments)],
        env={**os.environ, **variables, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
        stderr=subprocess.PIPE,
    )


def finished(process):
    _, said = process.communicate(timeout=500)
    assert process.returncode == 0, said.decode()[-3000:]


def agree(folder, name):
    """Bit-equal to one device, except for training: gradients are added in another order."""
    one, found = (np.load(folder / f"{file}.npz") for file in ("1", name))
    for part in found.files:
        if part.startswith("weights"):
            np.testing.assert_allclose(found[part], one[part], atol=2e-5, err_msg=part)
        else:
            np.testing.assert_array_equal(found[part], one[part], err_msg=part)


def test_four_devices_play_and_train_what_one_does(tmp_path):
    finished(start(tmp_path, 4, "play,train"))
    agree(tmp_path, "4")


@pytest.mark.soak
def test_four_devices_find_what_one_finds(tmp_path):
    """Also training that goes on with one device after it was interrupted on four."""
    finished(start(tmp_path, 4, "self-play,in-context,critics,solve,resume,train-mixed,train-any"))
    agree(tmp_path, "4")


@pytest.mark.soak
def test_two_processes_find_what_one_device_finds(tmp_path):
    parts = "self-play,in-context,critics,solve,train"
    finished(start(tmp_path, 4, parts))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    both = [start(tmp_path, 2, parts, port, number) for number in (0, 1)]
    for process in both:
        finished(process)
    for number in (0, 1):
        agree(tmp_path, f"process-{number}")


def test_devices_that_are_not_there_are_refused():
    for wrong in (0, jax.local_device_count() + 1):
        with pytest.raises(InputError, match="the number of devices"), devices.using(wrong):
            pass
