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


def test_without_numba_there_are_no_kernels():
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from equipoise.core import kernels; print(kernels.load('solve_games'))"
    )
    assert run(code) == "None\n"


def test_without_numba_games_are_solved_by_jax_and_it_is_said():
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import numpy as np, equipoise as eq\n"
        "solution = eq.solve(eq.MatrixGame([[3, -1], [-2, 1]]))\n"
        "stay = np.zeros((2, 2, 2, 2)); stay[0, ..., 0] = stay[1, ..., 1] = 1\n"
        "game = eq.MarkovGame(np.arange(8.0).reshape(2, 2, 2), stay, 0.5)\n"
        "other = eq.solve(game)\n"
        "for s in (solution, other):\n"
        "    print(s.stats['engine'], s.status.ok, s.value.round(6).tolist())"
    )
    assert run(code) == "JAX True 0.142857\nJAX True [4.0, 12.0]\n"


FOLDER = (
    "from equipoise.core.kernels import _compile as c\n"
    "from pathlib import Path\n"
    "import numba\n"
    "numba.config.CACHE_DIR = {configured!r}\n"
    "c._HERE = Path({here!r})\n"
    "print(c._cache_folder())"
)


def test_code_is_kept_beside_the_sources_and_named_after_them(tmp_path):
    (tmp_path / "kernel.py").write_text("a = 1")
    code = FOLDER.format(here=str(tmp_path), configured="")
    first = Path(run(code).strip())
    assert first.parent == tmp_path / "__pycache__"
    assert first.is_dir()
    (tmp_path / "kernel.py").write_text("a = 2")
    second = Path(run(code).strip())
    assert second.parent == first.parent
    assert second != first


def test_code_is_kept_in_the_users_folder_where_the_package_cannot_be_written(tmp_path):
    blocked, home = tmp_path / "package", tmp_path / "home"
    blocked.mkdir()
    (blocked / "__pycache__").write_text("a file, not a folder")
    code = FOLDER.format(here=str(blocked), configured="")
    folder = Path(run(code, XDG_CACHE_HOME=str(home), HOME=str(home)).strip())
    assert home in folder.parents


def test_code_is_kept_where_numba_is_told(tmp_path):
    code = FOLDER.format(here=str(tmp_path), configured=str(tmp_path / "told"))
    assert Path(run(code).strip()).parent == tmp_path / "told"


def test_code_is_kept_nowhere_if_nothing_can_be_written(tmp_path):
    (tmp_path / "__pycache__").write_text("a file")
    (tmp_path / "home").write_text("a file")
    code = FOLDER.format(here=str(tmp_path), configured="")
    blocked = str(tmp_path / "home" / "cache")
    assert run(code, XDG_CACHE_HOME=blocked, HOME=blocked) == "None\n"


@pytest.mark.parametrize("games", [1, 7, 8, 63, 64, 1000])
def test_threads_share_all_games(games, monkeypatch):
    monkeypatch.setattr(kernels, "cores", lambda: 3)
    seen = np.zeros(games, int)

    def count(array: np.ndarray, first: int, last: int) -> int:
        array[first:last] += 1
        return last - first

    assert kernels.over_games(count, games, 1.0, seen) == games
    np.testing.assert_array_equal(seen, 1)


def test_an_error_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr(kernels, "cores", lambda: 2)

    def fail(first: int, last: int) -> int:
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        kernels.over_games(fail, 100, 1.0)
