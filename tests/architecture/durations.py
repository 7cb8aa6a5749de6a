"""Seconds and memory of each folder of tests; `tests/conftest.py` registers this with pytest."""

import json
import os
from typing import Any

import pytest

#: Processor seconds that a test should not exceed.
LIMIT = 5.0
#: Names of what a test notes: bytes of its process, and processor seconds of each of its phases.
MEMORY, PROCESSOR = "memory", "processor"
#: Folder of tests -> its figures.
FOLDERS: dict[str, dict[str, Any]] = {}
#: Processor seconds, also of processes that were waited for, at the end of the phase before.
before = 0.0


def pytest_collection_finish() -> None:
    """Begin to count."""
    global before
    before = sum(os.times()[:4])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> None:
    """Note the processor seconds of a phase, with the fixtures that are set up in it."""
    global before
    now = sum(os.times()[:4])
    item.user_properties.append((PROCESSOR, now - before))
    before = now


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the figures of a test to those of its folder."""
    file, _, test = report.nodeid.partition("::")
    folder, _, name = file.rpartition("/")
    figures = {"seconds": 0.0, "processor seconds": 0.0, "megabytes": 0, "tests": 0}
    row = FOLDERS.setdefault(folder, {**figures, "above the limit": {}})
    row["seconds"] += report.duration
    row["tests"] += report.when == "call"
    if report.when == "teardown":
        seconds = sum(value for key, value in report.user_properties if key == PROCESSOR)
        memory = max((value for key, value in report.user_properties if key == MEMORY), default=0)
        row["processor seconds"] += seconds
        row["megabytes"] = max(row["megabytes"], round(memory / 1e6))
        if seconds > LIMIT:
            row["above the limit"][f"{name}::{test}"] = round(seconds, 1)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the figures of all folders, unless this is a worker."""
    if hasattr(session.config, "workerinput") or not FOLDERS:
        return
    for row in FOLDERS.values():
        row.update({name: round(row[name], 1) for name in ("seconds", "processor seconds")})
    place = session.config.rootpath / ".cache" / "durations.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(dict(sorted(FOLDERS.items())), indent=1) + "\n")
