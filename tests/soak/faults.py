"""Plant faults in kernels and certificates; each must make some test fail.

Every fault is one replaced piece of source text in a copy of the tree. A fault that no test notices
is a gap in the tests, and so is one whose text is no longer there.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Fault(NamedTuple):
    """What is replaced, by what, and which tests should notice."""

    file: str
    text: str
    instead: str
    tests: str


#: To be extended whenever a kernel or a certificate is written.
FAULTS: list[Fault] = []


def survives(fault: Fault) -> str | None:
    """Why a fault was not noticed; None when a test failed."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name)
        for part in ("src", "tests", "docs", "benchmarks", "examples"):
            shutil.copytree(ROOT / part, tree / part)
        for part in ("pyproject.toml", "README.md", "mkdocs.yml", "Makefile"):
            shutil.copy(ROOT / part, tree / part)
        file = tree / fault.file
        source = file.read_text()
        if source.count(fault.text) < 1:
            return f"{fault.file} does not contain {fault.text!r}"
        file.write_text(source.replace(fault.text, fault.instead, 1))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        done = subprocess.run(
            [*command, *fault.tests.split()], cwd=tree, env=environment, capture_output=True
        )
        # 1: some test failed. Anything else (no test, a broken import) proves nothing.
        return None if done.returncode == 1 else f"pytest ended with {done.returncode}"


def main(cases: int, seed: int) -> dict[str, object]:
    """Plant every fault once."""
    failures = 0
    for fault in FAULTS:
        why = survives(fault)
        failures += why is not None
        print(
            json.dumps({"fault": fault._asdict(), "noticed": why is None, "why": why}), flush=True
        )
    return {"failures": failures + (not FAULTS), "faults": len(FAULTS)}
