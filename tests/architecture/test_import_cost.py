"""What is imported is what is needed: heavy libraries load on first use.

These are counts of modules, not seconds, so that they do not depend on how busy the machine is.
"""

import ast
import json
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from equipoise.cli import VERBS, _inputs
from equipoise.dynamics import LEARNERS, NOISES
from equipoise.games import families

#: Libraries that take longer to import than NumPy does.
HEAVY = ("jax", "equinox", "jaxtyping", "numba", "matplotlib", "jinja2", "scipy")
#: Modules that `import equipoise` loads beyond those of a bare interpreter, and those that the help
#: of a verb loads.
MODULES, HELP = 40, 140

#: Packages whose modules solve, certify, print and save, and those of their modules that import a
#: heavy library at once. All others import one where they call it.
SOLVING = ("core", "certificates", "solvers", "pure", "aggregative", "networks", "runs", "cli")
AT_ONCE = {
    *("core/kernels/_numba", "core/schedules", "core/simplex", "core/steps", "core/streams"),
    *("core/values", "core/zerosum/_pivot", "pure/_matrix", "solvers/_entropy"),
    "solvers/no_regret",
}
SOURCE = Path(__file__).parents[2] / "src" / "equipoise"

SCRIPT = """
import contextlib, io, json, sys
before = set(sys.modules)
with contextlib.redirect_stdout(io.StringIO()):
    {}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def imported(code: str) -> set[str]:
    """Return the modules that some code loads in a new process."""
    command = [sys.executable, "-c", SCRIPT.format("\n    ".join(code.splitlines()))]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_import_is_light():
    loaded = imported("import equipoise")
    assert "equipoise" in loaded
    assert not {*HEAVY, "numpy"} & loaded
    assert len(loaded) <= MODULES, sorted(loaded)


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_computes_nothing(verb):
    loaded = imported(f"from equipoise.cli import main\nmain([{verb!r}, '--help'])")
    assert not {*HEAVY, "numpy", "rich"} & loaded
    assert len(loaded) <= HELP, sorted(loaded)


#: What solves, certifies, prints and saves a game of each kind.
TASKS = {
    "matrix": "game = eq.MatrixGame([[1, -1], [-1, 1]])",
    "normal-form": "game = eq.games.load('chicken')",
    "markov": "game = eq.games.load('hide-or-run')",
    "aggregative": (
        "free, jam = np.array([[-0.2, -0.5]]), np.array([[-0.6, 0.0]])\n"
        "roads = [[[1.0], [0.0]]]\n"
        "game = eq.AggregativeGame(roads, lambda x: free + jam * x[..., 0], 0.6, counts=[10])"
    ),
    "network": "game = eq.games.load('braess-network')",
}


@pytest.mark.parametrize("kind", TASKS)
def test_known_games_are_solved_without_jax_and_optimisers(kind):
    loaded = imported(
        "import equipoise as eq, numpy as np\n"
        f"{TASKS[kind]}\n"
        "solution = eq.solve(game)\n"
        "assert solution.solved, solution\n"
        "eq.certify(game, solution.policy)\n"
        "print(game, solution)\n"
        "import os, tempfile\n"
        "with tempfile.TemporaryDirectory() as place:\n"
        "        path = os.path.join(place, 'solution.json')\n"
        "        eq.save(solution, path)\n"
        "        assert eq.read(path) == solution"
    )
    assert "equipoise" in loaded
    wrong = {"jax", "equinox", "scipy.optimize", "numba", "matplotlib", "rich", "tyro"} & loaded
    assert not wrong


def imports_at_once(file: Path) -> set[str]:
    """Return the libraries that a module imports at its top level."""
    libraries = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            libraries |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            libraries.add(node.module.split(".")[0])
    return libraries


def test_few_modules_import_a_heavy_library_at_once():
    files = (file for package in SOLVING for file in (SOURCE / package).rglob("*.py"))
    found = {
        file.relative_to(SOURCE).with_suffix("").as_posix()
        for file in files
        if {*HEAVY} & imports_at_once(file)
    }
    assert found <= AT_ONCE, found - AT_ONCE


def test_names_that_verbs_repeat_are_those_of_the_tables():
    assert set(typing.get_args(_inputs.Noise)) == set(NOISES)
    assert set(typing.get_args(_inputs.MixedKind)) == set(families.KINDS)
    assert set(_inputs.LEARNERS) == set(LEARNERS)
