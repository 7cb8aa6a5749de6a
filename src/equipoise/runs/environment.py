"""The environment of a run: versions, machine, command line and running times."""

import os
import platform
import sys
import time
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from equipoise.core.files import write_text
from equipoise.core.machine import cores
from equipoise.core.plain import dumps, expect, read_json

_PACKAGES = (
    "equipoise",
    "numpy",
    "scipy",
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "numba",
    "matplotlib",
)


def describe_environment() -> dict[str, Any]:
    """Return the versions of packages, the machine and the command line, without importing JAX.

    >>> sorted(describe_environment())
    ['command', 'folder', 'machine', 'python', 'versions']
    """
    return {
        "command": [*_program(), *sys.argv[1:]],
        "folder": os.getcwd(),
        "python": platform.python_version(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
        "machine": {
            "system": platform.platform(),
            "architecture": platform.machine(),
            "cores": cores(),
        },
    }


def _program() -> list[str]:
    """Return the program that was called: the name of a script, or Python with a module."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if name == "__main__.py" and spec is not None:
        return ["python", "-m", spec.name.removesuffix(".__main__")]
    return [name] if name else []


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


class EnvironmentFile:
    """The file `environment.json`, with one entry per session of the run and its seconds.

    A process that only reads a finished run is not a session: with `finished`, the file is not
    written.
    """

    def __init__(self, path: Path, *, finished: bool = False):
        self._path = path
        self._finished = finished
        self._sessions = read_sessions(path) if path.exists() else []
        self._session: dict[str, Any] = {}
        self._clock = time.monotonic()
        if not finished:
            self._session = {"started": _ago(0.0), "seconds": 0.0, **describe_environment()}
            self._sessions.append(self._session)
            self.save()

    @property
    def seconds(self) -> float:
        """Total seconds of all sessions."""
        if not self._finished:
            self._session["seconds"] = round(time.monotonic() - self._clock, 3)
        return sum(session["seconds"] for session in self._sessions)

    def begin_earlier(self, seconds: float) -> None:
        """Add the seconds of work that this session did before the file existed."""
        self._clock -= seconds
        self._session["started"] = _ago(time.monotonic() - self._clock)

    def note(self, **facts: Any) -> None:
        """Add facts to this session."""
        self._session.update(facts)

    def save(self) -> None:
        """Write the file, unless an earlier session finished the run."""
        if self._finished:
            return
        total = round(self.seconds, 3)
        text = dumps({"seconds": total, "sessions": self._sessions}, "environment", indent=2)
        write_text(self._path, text + "\n")


def read_sessions(path: Path) -> list[dict[str, Any]]:
    """Read the sessions of an `environment.json`, each with its seconds; refuse other content."""
    where = f"{path}: sessions"
    sessions = expect(where, read_json(path, "sessions")["sessions"], list, "a list")
    for session in sessions:
        expect(where, session, dict, "objects")
        expect(f"{where}: seconds", session.get("seconds"), int | float, "a number")
    return sessions


def _ago(seconds: float) -> str:
    """Return the date and time a number of seconds ago."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="seconds")
