"""Plant one fault in a copy of the tree, and see which test fails.

A fault is found by its formula: the pattern is searched in all files of the packages of its part
and must match exactly one place. A file may therefore be renamed, and a function moved.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
SOURCE = "src/equipoise"
#: Seconds that the tests of one fault may take.
LIMIT = 600
#: Said of tests that all passed.
SOUND = "no test failed"
#: Each part, and the packages of its formulas. The tests that notice its faults are in the folders
#: of the same names.
PACKAGES = {
    "certificates": ("certificates", "core"),
    "solvers": ("solvers", "core"),
    "crowds": ("aggregative", "networks", "games", "certificates"),
    "logs": ("offline",),
    "players": ("dynamics", "incontext"),
    "runs": ("runs", "core", "games"),
}


class Fault(NamedTuple):
    """A fault that some test must notice.

    `pattern` is a regular expression of the formula, in which a blank stands for any white space;
    `replacement` is a template of `re`; `tests` are the tests that notice the fault.
    """

    name: str
    part: str
    #: What is wrong, in words that do not depend on how the code is written.
    wrong: str
    pattern: str
    replacement: str
    tests: tuple[str, ...]


class Outcome(NamedTuple):
    """How tests ended: the first that failed, or why that says nothing; and the seconds."""

    failed: str
    why: str
    seconds: float


def expression(pattern: str) -> re.Pattern[str]:
    """Return the pattern with any white space for each blank."""
    return re.compile(pattern.replace(" ", r"\s*"))


@functools.cache
def _texts(root: Path, package: str) -> dict[Path, str]:
    return {path: path.read_text() for path in sorted((root / SOURCE / package).rglob("*.py"))}


def places(fault: Fault, root: Path = ROOT) -> list[tuple[Path, re.Match[str]]]:
    """Return every place in the packages of the fault's part that its pattern matches."""
    search = expression(fault.pattern).finditer
    packages = PACKAGES[fault.part]
    files = [item for package in packages for item in _texts(root, package).items()]
    return [(path, match) for path, text in files for match in search(text)]


def changed(fault: Fault, root: Path = ROOT) -> tuple[Path, str]:
    """Return the file with the formula and its faulty text; raise unless there is one place."""
    found = places(fault, root)
    if len(found) != 1:
        where = ", ".join(str(path.relative_to(root)) for path, _ in found) or "no file"
        raise ValueError(f"{fault.name}: expected one place for {fault.pattern!r}, found {where}")
    ((path, match),) = found
    text = _texts(root, path.relative_to(root / SOURCE).parts[0])[path]
    return path, text[: match.start()] + match.expand(fault.replacement) + text[match.end() :]


@contextmanager
def copied_tree() -> Iterator[Path]:
    """Copy all that tests read into a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name).resolve()
        for part in ("src", "reproduction", "tests", "docs", "benchmarks", "examples"):
            shutil.copytree(ROOT / part, tree / part)
        for part in ("pyproject.toml", "README.md", "Makefile"):
            shutil.copy(ROOT / part, tree / part)
        yield tree


def run_tests(tree: Path, tests: Iterable[str], limit: float = LIMIT) -> Outcome:
    """Run tests in a copied tree up to the first one that fails."""
    # Compiled programs are kept by their content: a fault never meets those of another.
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "JAX_COMPILATION_CACHE_DIR": str(tree / ".jax"),
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rf", "-p", "no:cacheprovider"]
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [*command, *tests], cwd=tree, env=environment, capture_output=True, text=True,
            timeout=limit,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome("", f"pytest did not end within {limit:.0f} s", limit)
    seconds = round(time.perf_counter() - start, 1)
    if done.returncode == 0:
        return Outcome("", SOUND, seconds)
    failed = re.search(r"^FAILED (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    # 1: some test failed. Anything else (no such test, a broken import, an error before the test)
    # proves nothing.
    if done.returncode == 1 and failed:
        return Outcome(failed[1], "", seconds)
    last = (done.stdout + done.stderr).strip().splitlines()[-1:]
    return Outcome("", f"pytest ended with {done.returncode}: {''.join(last)}", seconds)


def plant(fault: Fault, tree: Path) -> Outcome:
    """Plant a fault in a copied tree, run its tests, and take it out again."""
    try:
        file, text = changed(fault, tree)
    except ValueError as error:
        return Outcome("", str(error), 0.0)
    kept, times = file.read_bytes(), file.stat()
    file.write_text(text)
    try:
        return run_tests(tree, fault.tests)
    finally:
        file.write_bytes(kept)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
