"""What holds for every file: no pickle, and names that occur once."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    file
    for folder in ("src", "reproduction", "tests", "benchmarks", "examples")
    for file in (ROOT / folder).rglob("*.py")
)
UNSAFE = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}


def named(file: Path) -> str:
    return str(file.relative_to(ROOT))


def unsafe_uses(source: str) -> list[str]:
    """Imports of pickle and its kin, and arguments that allow it."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in UNSAFE]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module] if (node.module or "").split(".")[0] in UNSAFE else []
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            safe = isinstance(node.value, ast.Constant) and node.value.value is False
            found += [] if safe else ["allow_pickle"]
    return found


def test_nothing_is_pickled():
    found = {named(file): unsafe_uses(file.read_text()) for file in FILES}
    assert {name: uses for name, uses in found.items() if uses} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import dump",
        "np.load(f, allow_pickle=True)",
        "g(allow_pickle=x)",
    ],
)
def test_a_pickle_is_found(source):
    assert unsafe_uses(source)


def test_test_files_have_different_names():
    """Without packages, pytest imports them by their bare name."""
    places: dict[str, list[str]] = {}
    for file in (ROOT / "tests").rglob("test_*.py"):
        places.setdefault(file.name, []).append(named(file))
    assert [paths for paths in places.values() if len(paths) > 1] == []
