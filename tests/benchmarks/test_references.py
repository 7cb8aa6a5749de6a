"""The references: rows are told apart, stored completely, and still answered as they were."""

import numpy as np
import pytest

from benchmarks.references import compare, names, rows, store
from benchmarks.references.perform import perform

STORED = store.read()
#: Rows that take milliseconds, of most kinds.
QUICK = (
    "matrix 3x3, whole numbers",
    "bimatrix 3x3, whole numbers, ce, welfare",
    "3 players 2x2x2, normal, nash",
    "Markov, 3 states, discount 0.9",
    "local states, 3 agents, 2 steps",
    "quadratic, 3 agents, 0",
    "city 0",
    "whole drivers 0",
    "certify three players 0",
    "read: dates",
    "aggregative.markov_gap",
)


@pytest.mark.parametrize(
    ("name", "before", "after", "kind"),
    [
        ("upper", [0.0, 1e-9], [0.0, 1e-9], compare.SAME),
        ("upper", [1e-3], [1e-9], compare.BETTER),
        ("upper", [1e-9], [1e-3], compare.WORSE),
        ("policy", [0.5, 0.5], [0.5 + 1e-9, 0.5 - 1e-9], compare.CLOSE),
        ("policy", [0.5, 0.5], [1.0, 0.0], compare.OTHER),
        ("policy", [0.5, 0.5], [0.5, 0.5, 0.0], compare.OTHER),
        ("value", [np.nan], [np.nan + 1.0], compare.SAME),
        ("status", "solved", "not solved", compare.STATUS),
    ],
)
def test_what_moved_is_named(name, before, after, kind):
    assert compare.compare({name: np.array(before)}, {name: np.array(after)}) == kind


def test_the_most_serious_move_counts():
    before = {"upper": np.array([1e-3]), "status": np.array("solved"), "value": np.array([1.0])}
    after = before | {"status": np.array("not solved"), "upper": np.array([1e-9])}
    assert compare.compare(before, after) == compare.STATUS
    assert compare.compare(before, {"error": "x"}) == compare.BROKEN


def test_rows_are_stored_completely():
    kept = {(s.row.group, s.row.name) for s in STORED}
    assert kept == {(row.group, row.name) for row in rows.drawn()}
    assert not any("error" in s.outputs for s in STORED)
    assert sum(file.stat().st_size for file in store.FOLDER.iterdir()) <= store.LARGEST


@pytest.mark.parametrize("name", QUICK)
def test_a_stored_answer_has_not_moved(name):
    [stored] = [s for s in STORED if s.row.name == name]
    outputs, _ = perform(stored.row)
    assert compare.compare(stored.outputs, outputs) in (compare.SAME, compare.CLOSE)


def test_no_public_name_is_gone():
    assert names.missing() == []


def test_a_name_that_is_gone_is_missed(monkeypatch, tmp_path):
    lines = [*names.lines(), "name solvers.vanished", "parameter solve vanished"]
    (tmp_path / "names.txt").write_text("\n".join(lines))
    monkeypatch.setattr(names, "FILE", tmp_path / "names.txt")
    assert names.missing() == lines[-2:]
    names.write()
    assert sorted(names.missing()) == lines[-2:]
    (tmp_path / "CHANGELOG.md").write_text(
        "| old | new |\n|---|---|\n| `solvers.vanished` | `solve` |\n"
    )
    monkeypatch.setattr(names, "CHANGELOG", tmp_path / "CHANGELOG.md")
    assert names.missing() == lines[-1:]
