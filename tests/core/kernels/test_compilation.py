"""Where machine code is kept, and what happens where there is no Numba."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import equipoise
from equipoise.core import kernels

SOURCE = str(Path(equipoise.__file__).parents[1])


def run(code: str, **environment: str) -> str:
    env = os.environ | {"PYTHONPATH": SOURCE} | environment
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_numba_there_is_no_machine_code():
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from equipoise.core import kernels\n"
        "print(kernels.load('solve_games'), kernels.choose('solve_games', 1e-6)[1],\n"
        "      kernels.choose('solve_games', 1.0))"
    )
    assert run(code) == "None Python (None, 'JAX')\n"


def test_without_numba_games_are_solved_by_python_or_jax_and_it_is_said():
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import numpy as np, equipoise as eq\n"
        "from equipoise.core import kernels\n"
        "stay = np.zeros((2, 2, 2, 2)); stay[0, ..., 0] = stay[1, ..., 1] = 1\n"
        "for patience in (0.5, 0.0):\n"
        "    kernels._PATIENCE = patience\n"
        "    solution = eq.solve(eq.MatrixGame([[3, -1], [-2, 1]]))\n"
        "    other = eq.solve(eq.MarkovGame(np.arange(8.0).reshape(2, 2, 2), stay, 0.5))\n"
        "    for s in (solution, other):\n"
        "        print(s.stats['engine'], s.status.ok, s.value.round(6).tolist())"
    )
    expected = "{0} True 0.142857\n{0} True [4.0, 12.0]\n"
    assert run(code) == expected.format("Python") + expected.format("JAX")


def test_the_first_games_on_a_machine_wait_for_no_compilation(tmp_path):
    code = (
        "import sys, numpy as np, equipoise as eq\n"
        "stay = np.zeros((2, 2, 2, 2)); stay[0, ..., 0] = stay[1, ..., 1] = 1\n"
        "solution = eq.solve(eq.MatrixGame([[3, -1], [-2, 1]]))\n"
        "other = eq.solve(eq.MarkovGame(np.arange(8.0).reshape(2, 2, 2), stay, 0.5))\n"
        "for s in (solution, other):\n"
        "    print(s.stats['engine'], s.status.ok, s.value.round(6).tolist())\n"
        "print('numba' in sys.modules)"
    )
    found = run(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert found == "Python True 0.142857\nPython True [4.0, 12.0]\nFalse\n"


@pytest.fixture
def nothing_loaded(monkeypatch):
    """As in a new process; `load` gives the sources."""
    monkeypatch.setattr(kernels, "_loaded", {})
    monkeypatch.setattr(kernels, "_spent", {})
    monkeypatch.setattr(kernels, "load", lambda name: kernels._source(name))


@pytest.mark.parametrize(
    ("kept", "loaded", "seconds"),
    [
        (True, {}, kernels._LOADING),
        (True, {"extend_paths": len}, kernels._ANOTHER),  # Numba is there already
        (False, {"extend_paths": len}, kernels._COMPILING),
    ],
)
def test_machine_code_is_loaded_once_waiting_has_cost_as_much(
    kept, loaded, seconds, nothing_loaded, monkeypatch
):
    monkeypatch.setattr(kernels._compile, "is_kept", lambda name: kept)
    kernels._loaded.update(loaded)
    spent, each = 0.0, seconds / 4
    kernel = kernels._KERNELS["solve_games"]
    while kernels.choose("solve_games", (each - kernels._CALL) / kernel.slowdown)[1] == "Python":
        spent += each
    assert seconds - 2 * each <= spent <= seconds + each
    # Other kinds of games have not waited yet.
    assert kernels.choose("solve_markov", 1e-6)[1] == "Python"


FOLDER = (
    "from equipoise.core.kernels import _compile as c\n"
    "from pathlib import Path\n"
    "c._HERE = Path({here!r})\n"
    "print(c.code_folder())"
)


def test_code_is_kept_in_the_users_folder_and_named_after_the_sources(tmp_path):
    (tmp_path / "kernel.py").write_text("a = 1")
    home = str(tmp_path / "home")
    code, places = (
        FOLDER.format(here=str(tmp_path)),
        {"XDG_CACHE_HOME": home, "NUMBA_CACHE_DIR": ""},
    )
    first = Path(run(code, **places).strip())
    assert first.parent == tmp_path / "home" / "equipoise"
    assert first.is_dir()
    (tmp_path / "kernel.py").write_text("a = 2")
    second = Path(run(code, **places).strip())
    assert second.parent == first.parent
    assert second != first


def test_code_is_kept_beside_the_sources_where_the_users_folder_cannot_be_written(tmp_path):
    (tmp_path / "home").write_text("a file, not a folder")
    code = FOLDER.format(here=str(tmp_path))
    folder = run(code, XDG_CACHE_HOME=str(tmp_path / "home"), NUMBA_CACHE_DIR="").strip()
    assert Path(folder).parent == tmp_path / "__pycache__"


def test_code_is_kept_where_numba_is_told(tmp_path):
    code = FOLDER.format(here=str(tmp_path))
    told = str(tmp_path / "told")
    assert Path(run(code, NUMBA_CACHE_DIR=told).strip()).parent == tmp_path / "told"


def test_code_is_kept_nowhere_if_nothing_can_be_written(tmp_path):
    (tmp_path / "__pycache__").write_text("a file")
    (tmp_path / "home").write_text("a file")
    code = FOLDER.format(here=str(tmp_path))
    blocked = str(tmp_path / "home" / "cache")
    assert run(code, XDG_CACHE_HOME=blocked, HOME=blocked, NUMBA_CACHE_DIR="") == "None\n"


def test_code_is_loaded_by_the_next_process_and_damage_is_mended(tmp_path):
    code = (
        "from equipoise.core import kernels\n"
        "from equipoise.core.kernels import _compile\n"
        "import numpy as np\n"
        "before = _compile.is_kept('matrix_gains')\n"
        "kernel, results = kernels.load('matrix_gains'), np.empty((4, 1, 2))\n"
        "x, y = np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])\n"
        "kernel(np.eye(2)[None], x, y, 0.0, 0.0, 1e140, results, 0, 1)\n"
        "print(before, dict(kernel.stats.cache_hits) != {}, results[0, 0].tolist())"
    )
    told = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert run(code, **told) == "False False [0.0, 0.5]\n"
    assert run(code, **told) == "True True [0.0, 0.5]\n"
    for file in tmp_path.rglob("*.nb[ic]"):
        file.write_bytes(file.read_bytes()[:40])
    assert run(code, **told) == "True False [0.0, 0.5]\n"
    assert run(code, **told) == "True True [0.0, 0.5]\n"


@pytest.mark.parametrize("games", [1, 7, 8, 63, 64, 1000])
def test_threads_share_all_games(games, monkeypatch):
    monkeypatch.setattr(kernels, "cores", lambda: 3)
    seen = np.zeros(games, int)

    def count(array: np.ndarray, first: int, last: int) -> int:
        array[first:last] += 1
        return last - first

    assert kernels.over_games(count, games, 1.0, seen) == games
    np.testing.assert_array_equal(seen, 1)


@pytest.mark.parametrize("bad", [0, 96])
@pytest.mark.parametrize("error", [RuntimeError, IndexError])
def test_an_error_in_a_thread_is_raised(bad, error, monkeypatch):
    monkeypatch.setattr(kernels, "cores", lambda: 2)

    def fail(first: int, last: int) -> int:
        if first <= bad < last:
            raise error("lost")
        return 0

    with pytest.raises(error, match="lost"):
        kernels.over_games(fail, 100, 1.0)
