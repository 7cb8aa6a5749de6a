"""Rows on disk: one file of arrays and one list of rows for each group."""

import json
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.references.rows import Row

FOLDER = Path(__file__).parent / "data"
MACHINE = FOLDER / "machine.json"
LIBRARIES = ("jax", "jaxlib", "numba", "numpy", "scipy", "highspy", "equinox", "optax")
#: Most bytes of all files together.
LARGEST = 5_000_000


class Stored(NamedTuple):
    """A row, what came out, and the seconds that it took."""

    row: Row
    outputs: dict[str, Any]
    seconds: float


def machine() -> dict[str, Any]:
    """What decides whether the last bits of an answer are comparable."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [s for s in info.read_text().splitlines() if s.startswith("model name")]
        cpu = names[0].partition(":")[2].strip() if names else cpu
    versions = {name: version(name) for name in LIBRARIES if _installed(name)}
    return {"processor": cpu, "python": platform.python_version(), "versions": versions}


def _installed(name: str) -> bool:
    try:
        version(name)
    except ImportError:
        return False
    return True


def write(rows: list[Stored]) -> None:
    """Store all rows; files of groups that are gone are removed."""
    FOLDER.mkdir(exist_ok=True)
    groups: dict[str, list[Stored]] = {}
    for stored in rows:
        groups.setdefault(stored.row.group, []).append(stored)
    for old in FOLDER.glob("*.npz"):
        old.unlink()
    for group, members in groups.items():
        arrays: dict[str, np.ndarray] = {}
        known: dict[bytes, str] = {}  # arrays that several rows share are stored once
        listed = []
        for number, (row, outputs, seconds) in enumerate(members):
            places: dict[str, dict[str, str]] = {"in": {}, "out": {}}
            for side, values in (("in", row.inputs), ("out", outputs)):
                for name, value in values.items():
                    array = np.asarray(value)
                    digest = array.dtype.str.encode() + repr(array.shape).encode() + array.tobytes()
                    place = known.setdefault(digest, f"{number} {side} {name}")
                    arrays.setdefault(place, array)
                    places[side][name] = place
            options = {"name": row.name, "call": row.call, "options": row.options}
            listed.append(options | {"seconds": round(seconds, 3)} | places)
        np.savez_compressed(
            FOLDER / f"{group}.npz", **{"rows": np.array(json.dumps(listed)), **arrays}
        )
    text = {"day": time.strftime("%Y-%m-%d"), **machine()}
    MACHINE.write_text(json.dumps(text, indent=1) + "\n")
    size = sum(file.stat().st_size for file in FOLDER.iterdir())
    if size > LARGEST:
        raise ValueError(f"the references have {size:,} bytes, more than {LARGEST:,}")


def read() -> list[Stored]:
    """Read all rows, group by group."""
    rows = []
    for file in sorted(FOLDER.glob("*.npz")):
        with np.load(file, allow_pickle=False) as data:
            for listed in json.loads(str(data["rows"])):
                inputs = {name: data[place] for name, place in listed["in"].items()}
                outputs = {name: data[place] for name, place in listed["out"].items()}
                row = Row(file.stem, listed["name"], listed["call"], inputs, listed["options"])
                rows.append(Stored(row, outputs, listed["seconds"]))
    return rows


def same_machine() -> bool:
    """Whether this machine and its libraries are those of the stored rows."""
    stored = json.loads(MACHINE.read_text())
    return {key: stored[key] for key in ("processor", "python", "versions")} == machine()
