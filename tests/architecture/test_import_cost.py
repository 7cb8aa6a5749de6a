"""`import equipoise` alone is cheap: heavy libraries load on first use."""

import json
import subprocess
import sys

HEAVY = ["jax", "equinox", "scipy", "matplotlib", "numpy", "numba"]
#: Modules that the import loads beyond those of a bare interpreter; a limit on its cost that does
#: not depend on how busy the machine is.
MODULES = 40

SCRIPT = """
import json, sys
before = set(sys.modules)
import equipoise
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_import_is_light():
    command = [sys.executable, "-c", SCRIPT]
    loaded = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert "equipoise" in loaded
    assert not set(HEAVY) & set(loaded)
    assert len(loaded) <= MODULES, loaded
