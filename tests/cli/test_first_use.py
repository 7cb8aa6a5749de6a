"""What is not needed is not imported, step by step in two new processes."""

import subprocess
import sys

import pytest

BEGIN = """
import sys, equipoise as eq
def without(*names):
    assert not {*names} & {*sys.modules}, {*names} & {*sys.modules}
"""
LISTS = """
for name in eq.games.names():
    eq.games.describe(name).parameters
without('jax', 'equinox', 'numpy', 'scipy')
from equipoise.cli import main
for words in (['--help'], ['--version'], ['solve', '--help'], ['games']):
    assert main(words) == 0
    without('jax', 'equinox', 'scipy', 'matplotlib')
"""
RESULTS = """
import equipoise.report
without('jax', 'matplotlib', 'equipoise.games')
with eq.runs.Run.create(sys.argv[1], {'a': 1}) as run:
    run.log(1, x=0.5)
    run.finish(eq.runs.Record('r', arrays={'x': [1.0]}))
without('jax', 'rich')
import equipoise.cli.play
without('jax')
eq.games.adapters
without('pyspiel', 'pygambit', 'quantecon', 'numba')
eq.solve(eq.MatrixGame([[1, -1], [-1, 1]]))
without('equipoise.aggregative')
"""


@pytest.mark.parametrize("steps", [LISTS, RESULTS], ids=["lists", "results"])
def test_what_is_not_needed_is_not_imported(steps, tmp_path):
    command = [sys.executable, "-c", BEGIN + steps, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
