"""`import equipoise` alone is cheap: heavy libraries load on first use."""

import json
import subprocess
import sys

HEAVY = ["jax", "equinox", "scipy", "matplotlib", "numpy", "numba"]
SECONDS = 0.5

SCRIPT = f"""
import json, sys, time
start = time.perf_counter()
import equipoise
seconds = time.perf_counter() - start
print(json.dumps([seconds, [name for name in {HEAVY!r} if name in sys.modules]]))
"""


def import_once() -> tuple[float, list[str]]:
    """Seconds and heavy modules of one import in a fresh interpreter."""
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True
    ).stdout
    seconds, heavy = json.loads(out)
    return seconds, heavy


def test_import_is_light_and_quick():
    runs = [import_once() for _ in range(3)]
    assert runs[0][1] == []
    # The best of three: what the import itself needs, whatever else the machine is doing.
    assert min(seconds for seconds, _ in runs) < SECONDS
