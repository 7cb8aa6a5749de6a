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
