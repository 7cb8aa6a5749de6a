"""What tests share and import by name; fixtures are in conftest.py."""

import importlib
import os
from pathlib import Path
from types import ModuleType

import beartype
import numpy as np
import pytest

#: As a type checker reads annotations: an int is a float, and so is a scalar of NumPy an array,
#: which is what its functions return where an array has no axes left.
check_types = beartype.beartype(
    conf=beartype.BeartypeConf(
        is_pep484_tower=True,
        hint_overrides=beartype.FrozenDict({np.ndarray: np.ndarray | np.generic}),
    )
)


def peer(name: str) -> ModuleType:
    """Import another library to compare with; without it the test is skipped.

    With EQUIPOISE_REQUIRE_PEERS set, as `make test` does, its absence is an error instead: a
    comparison that never runs is not a comparison.
    """
    if os.environ.get("EQUIPOISE_REQUIRE_PEERS"):
        return importlib.import_module(name)
    return pytest.importorskip(name)


def files_of(run: Path) -> dict[str, bytes]:
    """All files of a run folder but its log of starts and stops, which differs from run to run."""
    files = (path for path in sorted(run.rglob("*")) if path.is_file())
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in files
        if path.name != "environment.json"
    }


#: Words that break parsers: they are inserted at random places of text files.
WORDS = (b"NaN", b"1e999", b"9" * 400, b"[" * 3000, b"{" * 3000, b"true", b"null", b"-1", b'"')


def damage(rng: np.random.Generator, data: bytes) -> bytes:
    """Flip, overwrite, cut, repeat or insert some bytes."""
    array = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        at = int(rng.integers(len(array))) if array else 0
        match rng.integers(7):
            case 0 if array:
                array[at] ^= 1 << int(rng.integers(8))
            case 1:
                array[at : at + 1] = bytes([int(rng.integers(256))])
            case 2:
                width = int(rng.integers(1, 9))
                array[at : at + width] = bytes([int(rng.choice([0, 255, 127, 128]))]) * width
            case 3 if rng.random() < 0.3:
                del array[at:]
            case 4:
                piece = array[at : at + int(rng.integers(1, 40))]
                other = int(rng.integers(len(array) + 1))
                array[other : other + len(piece)] = piece
            case 5:
                array[at:at] = WORDS[int(rng.integers(len(WORDS)))]
            case _:
                array[at:at] = rng.bytes(int(rng.integers(1, 4)))
    return bytes(array)
