"""Any bytes in the files of a run folder: read or refused in one line, never a traceback."""

import os
import random
import shutil
import warnings

import numpy as np
import pytest

from equipoise.runs import Record, Run, Table, read_metrics

CASES = int(os.environ.get("EQUIPOISE_MUTATIONS", "60"))
STATE = {"x": np.arange(4.0), "n": 3}


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("originals")
    with Run.create(folder / "stopped", {"steps": 3, "rate": 0.1}) as run:
        for step in (1, 2):
            run.log(step, gap=0.5 / step)
            run.checkpoint(step, STATE)
    solution = {"version": 1, "value": np.ones(2), "stats": {"sweeps": 3}}
    table = Table(("a", "seconds"), [(1, 0.5), ("x", None)])
    with Run.create(folder / "finished", {"steps": 3}) as run:
        run.log(1, gap=0.5)
        scalars = {"gap": float("inf"), "seconds": 1.5}
        run.finish(Record("test", {}, scalars, {"x": [1.0]}, {"t": table}, solution))
    return folder


def mutated(data, chance):
    """A few bytes changed, removed, put in or repeated; or a word of JSON for another."""
    data = bytearray(data or b"{}")
    for _ in range(chance.randint(1, 3)):
        place, kind = chance.randrange(len(data) + 1), chance.random()
        if kind < 0.4 and place < len(data):
            data[place] = chance.randrange(256)
        elif kind < 0.6:
            del data[place : place + chance.randint(1, 30)]
        elif kind < 0.8:
            words = (b"null", b"[]", b"{}", b"true", b"1e999", b"9" * 400, b"[" * 3000, b'"NaN"')
            data[place:place] = chance.choice(words)
        else:
            end = data.find(b",", place)
            new = chance.choice((b": null", b": []", b": {}", b": -1", b': "x"', b": true"))
            colon = data.rfind(b":", 0, place)
            if colon >= 0 and end > colon:
                data[colon:end] = new
    return bytes(data)


def read_all(folder):
    if (folder / "config.json").exists():
        with Run.open(folder) as run:
            run.restore(STATE)
            run.metrics()
    if (folder / "record.json").exists():
        Record.load(folder)
    read_metrics(folder)


@pytest.mark.parametrize("which", ["stopped", "finished"])
def test_every_mutation_is_read_or_refused(originals, tmp_path, which):
    chance, folder = random.Random(which), tmp_path / "run"
    names = [p.relative_to(originals / which) for p in (originals / which).rglob("*.*")]
    names = sorted(name for name in names if (originals / which / name).is_file())
    refused = 0
    for _ in range(CASES):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(originals / which, folder)
        file = folder / chance.choice(names)
        file.write_bytes(mutated(file.read_bytes(), chance))
        with warnings.catch_warnings(action="ignore"):
            try:
                read_all(folder)
            except ValueError as error:
                refused += 1
                assert str(folder) in str(error) or "expected" in str(error)  # noqa: PT017
    assert refused > CASES // 3
