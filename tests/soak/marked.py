"""The tests marked `soak`: sizes at which figures of the documentation were measured."""

import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


def main(cases: int, seed: int) -> dict[str, Any]:
    """Run them with pytest; they have fixed keys, so neither cases nor seed change them."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "soak", "--ignore", TESTS / "soak"]
    done = subprocess.run([*command, TESTS], cwd=TESTS.parent, stdout=sys.stderr)
    return {"failures": int(done.returncode != 0)}
