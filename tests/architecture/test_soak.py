"""`make soak`: its table of parts, and the end of a part that hangs."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from soak.__main__ import PARTS, Worker, run_all


def test_the_table_names_modules_in_order():
    assert list(PARTS) == sorted(PARTS)
    assert all(find_spec(f"soak.{part}") for part in PARTS)
    assert all(0 < row.cases <= row.long and row.minutes > 0 for row in PARTS.values())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    return tmp_path


def test_a_part_that_hangs_is_ended_and_fails(folder):
    (folder / ".cache/soak").mkdir(parents=True)
    worker = Worker("general_sum", 10**9, 0, 600.0)
    assert worker.figures() is None
    worker.until = 0.0
    figures = worker.figures()
    assert worker.process.returncode == -9
    assert "did not end within" in figures["failures"][0]


def test_a_part_that_raises_fails(folder, capsys):
    (folder / "soak").mkdir()
    (folder / "soak/__init__.py").touch()
    (folder / "soak/__main__.py").write_text("raise SystemExit('no such file')")
    assert run_all({"marked": 1}, 0, workers=2, minutes=5.0) == ["marked"]
    assert "ended with an error, see .cache/soak/marked.log" in capsys.readouterr().out


def test_parts_share_the_minutes_of_all(folder, capsys):
    assert run_all({"general_sum": 10**9}, 0, workers=1, minutes=0.0) == ["general_sum"]
    assert "did not end within 0 s" in capsys.readouterr().out
