"""What the page about reproduction refers to is there, and its numbers are those of the records."""

import re
from pathlib import Path

import pytest

from equipoise.runs import Record

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reproduction"
PAGE = (FOLDER / "index.md").read_text()


def table(name, which, **wanted):
    found = Record.load(FOLDER / name).tables[which]
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def test_every_test_that_is_named_exists():
    files = [*(ROOT / "tests").glob("theorems/*.py"), *(ROOT / "tests").glob("aggregative/*.py")]
    known = set(re.findall(r"^def (test_\w+)", "\n".join(f.read_text() for f in files), re.M))
    named = re.findall(r"`(test_\w+)(\.\.\.)?`", PAGE)
    assert len(named) > 40
    for name, more in named:
        assert any(test.startswith(name) if more else test == name for test in known), name


def test_every_theorem_of_a_paper_has_a_row():
    """As they are numbered in print; Theorem 4 of the second paper is the formal second."""
    first, second, third = PAGE.split("\n## ")[1:4]
    for name in ("Figure 1", *(f"Theorem 4.{i}" for i in (1, 2, 3, 4)), "Lemma A.1", "Lemma B.1"):
        assert name in first
    for name in (
        "Theorem 1",
        "Theorems 2 and 4",
        "Theorem 3",
        "Table 1",
        "Figure 2",
        "Figures 3 and 4, Table 2",
    ):
        assert name in second
    for name in ("3.1", "4.1", "4.2", "5.1", "5.2", "C.1", "D.1"):
        assert f"Theorem {name}" in third


@pytest.mark.parametrize(
    ("form", "agents", "gap", "bound"),
    [
        ("printed", 10_000, 0.13, 11),
        ("printed, state-wise", 10_000, 0.025, 1.4),
        ("welfare", 10_000, 0.011, 0.49),
        ("regret", 10_000, 1.2e-6, 0.0058),
        ("regret", 1_000_000, 1.5e-8, 5.8e-5),
    ],
)
def test_numbers_of_planning(form, agents, gap, bound):
    (row,) = table("aggregative/planning", "markov", form=form, agents=agents)
    assert row["gap"] == pytest.approx(gap, rel=0.05)
    assert row["bound"] == pytest.approx(bound, rel=0.05)


@pytest.mark.parametrize(
    ("learner", "gap"), [("omd", 0.0020), ("omd-vanishing", 0.0063), ("omd-printed-signs", 0.42)]
)
def test_numbers_of_learners(learner, gap):
    arrays = Record.load(FOLDER / "in-context/last-iterate").arrays
    assert arrays[f"A=3/{learner}/mean"][-1] == pytest.approx(gap, rel=0.05)


@pytest.mark.parametrize(
    ("family", "player", "gap"),
    [("rho=0.1", "paper", 0.051), ("rho=0.1", "ours", 0.018), ("iid", "ours", 0.050)],
)
def test_numbers_of_players(family, player, gap):
    wanted = {"panel": "A=3", "family": family, "player": player, "x": 256}
    (row,) = table("in-context/1", "gaps", **wanted)
    assert row["gap"] == pytest.approx(gap, abs=6e-4)


@pytest.mark.parametrize(
    ("critic", "recipe", "gaps"),
    [
        ("2-IR-64", "printed", {10: 74}),
        ("joint-2x512", "printed", {10: 24}),
        ("1-IR-128", "printed", {10: 15}),
        ("2-IR-64", "ours", {10: 41, 20: 0.033, 50: 0.0010}),
        ("joint-2x512", "ours", {10: 47, 20: 40, 50: 0.14}),
        ("1-IR-128", "ours", {10: 22, 20: 16, 50: 18}),
        ("2-IR-linear", "ours", {5: 0.0005, 100: 0.0005}),
    ],
)
def test_numbers_of_deep_critics(critic, recipe, gaps):
    rows = table("interaction-rank/2", "summary", critic=critic, recipe=recipe, figure="2")
    found = {row["rows per agent"]: row["max gap"] for row in rows}
    assert {size: found[size] for size in gaps} == pytest.approx(gaps, rel=0.06)


@pytest.mark.parametrize(
    ("size", "gap"), [("1 x 32", 0.086), ("2 x 64", 0.050), ("4 x 128", 0.040)]
)
def test_numbers_of_sizes(size, gap):
    (row,) = table("in-context/1", "gaps", panel="sizes", player=size, x=256)
    assert row["gap"] == pytest.approx(gap, abs=6e-4)


@pytest.mark.parametrize(
    ("figure", "recipe", "kind", "least", "most"),
    [
        ("3", "ours", "1-IR", 16, 22),
        ("3", "ours", "2-IR", 0, 0.44),
        ("3", "ours", "joint", 28, 50),
        ("3", "printed", "1-IR", 17, 25),
        ("3", "printed", "2-IR", 4.4, 64),
        ("3", "printed", "joint", 14, 48),
        ("4", "ours", "1-IR", 0, 0.0045),
        ("4", "ours", "2-IR", 0, 0.0045),
        ("4", "ours", "joint", 0.999, 1.001),
        ("4", "printed", "1-IR", 0, 0.265),
        ("4", "printed", "2-IR", 0, 0.21),
        ("4", "printed", "joint", 0.999, 1.001),
    ],
)
def test_numbers_of_architectures(figure, recipe, kind, least, most):
    rows = table(f"interaction-rank/{figure}", "summary", recipe=recipe)
    gaps = [row["max gap"] for row in rows if row["critic"].startswith(kind)]
    linear = recipe == "ours" and kind == "2-IR"
    assert len(gaps) == (6 if kind == "joint" else 3) + linear
    assert least <= min(gaps)
    assert max(gaps) <= most


def test_numbers_of_printed_critics():
    wanted = {"critic": "2-IR-64", "change": "critics: printed"}
    (row,) = table("interaction-rank/ablations", "summary", **wanted)
    assert row["max gap"] == pytest.approx(75, rel=0.01)


def test_numbers_of_logs():
    rows = table("interaction-rank/discrete", "gaps", panel="samples", critic="2-IR", at=3000.0)
    assert sum(row["gap"] for row in rows) / len(rows) == pytest.approx(0.019, abs=6e-4)
