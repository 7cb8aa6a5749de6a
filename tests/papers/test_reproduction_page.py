"""What the page about reproduction refers to is there, and its numbers are those of the records."""

import math
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


def shown(number, digits=2):
    """A number as the index writes it: to so many digits, without the zero before the point."""
    if number < 1e-3 and digits > 1:
        mantissa, exponent = f"{number:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    places = digits - 1 - math.floor(math.log10(float(f"{number:.{digits - 1}e}")))
    return f"{number:.{max(0, places)}f}".removeprefix("0")


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [
        (74.3, 2, "74"),
        (9.96, 2, "10"),
        (4.43, 2, "4.4"),
        (0.0501, 2, ".050"),
        (0.000477, 1, ".0005"),
        (1.18e-6, 2, "1.2e-6"),
        (0.99999, 4, "1.000"),
    ],
)
def test_how_numbers_are_shown(number, digits, text):
    assert shown(number, digits) == text


def planning(form, agents):
    (row,) = table("aggregative/planning", "markov", form=form, agents=agents)
    return shown(row["gap"]), shown(row["bound"])


def test_numbers_of_planning():
    (gap, bound), (own, proven) = (
        planning("printed, state-wise", 10_000),
        planning("regret", 10_000),
    )
    text = f"at 10,000 agents gap {gap} and bound {bound} as printed; ours {own} and {proven} |"
    assert text in PAGE
    (gap, bound), (own, proven) = planning("printed", 10_000), planning("welfare", 10_000)
    text = (
        f"gap {gap} and bound {bound} as printed; ours, for the best welfare, {own} and {proven} |"
    )
    assert text in PAGE
    few, many = planning("regret", 100)[0], planning("regret", 1_000_000)[0]
    assert f"from {few} at 100 agents to {many} at a million |" in PAGE


def test_numbers_of_learners():
    arrays = Record.load(FOLDER / "in-context/last-iterate").arrays
    names = ("omd", "omd-vanishing", "omd-printed-signs")
    ours, vanishing, printed = (shown(arrays[f"A=3/{name}/mean"][-1]) for name in names)
    assert f"| {vanishing} with corrected signs and rates (slope -.30), {ours} by default" in PAGE
    assert f"| gap {printed} after a million rounds with 3 actions" in PAGE


def player(**wanted):
    (row,) = table("in-context/1", "gaps", x=256, **wanted)
    return shown(row["gap"])


def test_numbers_of_players():
    paper = player(panel="A=3", family="rho=0.1", player="paper")
    near = player(panel="A=3", family="rho=0.1", player="ours")
    independent = player(panel="A=3", family="iid", player="ours")
    assert f"with 3 actions the paper's preset reaches {paper} after 256 rounds" in PAGE
    assert f"| {near} at rho = 0.1, where the best static policy has" in PAGE
    assert f"; {independent} on independent games, where mirror descent has" in PAGE


def test_numbers_of_sizes():
    gaps = [player(panel="sizes", player=size) for size in ("1 x 32", "2 x 64", "4 x 128")]
    assert "1, 2 and 4 layers end at {}, {} and {} |".format(*gaps) in PAGE


def test_numbers_of_deep_critics():
    rows = table("interaction-rank/2", "summary", figure="2")
    gaps = {(row["critic"], row["recipe"], row["rows per agent"]): row["max gap"] for row in rows}

    def three(recipe, size):
        critics = ("2-IR-64", "joint-2x512", "1-IR-128")
        two, joint, one = (shown(gaps[critic, recipe, size]) for critic in critics)
        return f"{two}, {joint} and {one}"

    text = f"printed recipe: {three('printed', 10)}; ours: {three('ours', 10)}."
    assert f"(10 rows for each agent), {text}" in PAGE
    text = f"Ours with 20 rows: {three('ours', 20)}; with 50 rows: {three('ours', 50)}."
    assert text in PAGE
    (linear,) = {
        shown(gap, 1) for (critic, recipe, _), gap in gaps.items() if critic == "2-IR-linear"
    }
    assert f"A 2-IR critic that is linear in polynomials: {linear} at every size |" in PAGE


def test_numbers_of_architectures():
    def gaps(figure, recipe, kind):
        rows = table(f"interaction-rank/{figure}", "summary", recipe=recipe)
        found = {r["critic"]: r["max gap"] for r in rows if r["critic"].startswith(kind)}
        found.pop("2-IR-linear", None)
        assert len(found) == (6 if kind == "joint" else 3)
        return list(found.values())

    def ends(recipe, kind):
        found = gaps("3", recipe, kind)
        return f"{shown(min(found))} to {shown(max(found))}"

    ours, printed = (list(map(shown, gaps("3", recipe, "2-IR"))) for recipe in ("ours", "printed"))
    assert (
        "2-IR critics of three widths {}, {} and {} (printed recipe: {}, {} and {}), ".format(
            *ours, *printed
        )
        + f"joint critics of six sizes {ends('ours', 'joint')} ({ends('printed', 'joint')}), "
        + f"1-IR critics {ends('ours', '1-IR')} ({ends('printed', '1-IR')})."
    ) in PAGE

    few, joint = [], []
    for recipe in ("ours", "printed"):
        few.append(shown(max(gaps("4", recipe, "1-IR") + gaps("4", recipe, "2-IR"))))
        (gap,) = {f"{gap:.3f}" for gap in gaps("4", recipe, "joint")}
        joint.append(gap)
    text = f"rank 1 and 2 at most {few[0]} ({few[1]}), joint critics {joint[0]} ({joint[1]}) |"
    assert text in PAGE


def test_numbers_of_printed_critics():
    wanted = {"critic": "2-IR-64", "change": "critics: printed"}
    (row,) = table("interaction-rank/ablations", "summary", **wanted)
    page = (FOLDER / "interaction-rank-deep.md").read_text()
    assert f"| critics as printed | {row['max gap']:.1f} ± " in page


def test_numbers_of_logs():
    rows = table("interaction-rank/discrete", "gaps", panel="samples", critic="2-IR", at=3000.0)
    mean = sum(row["gap"] for row in rows) / len(rows)
    assert f"20 agents, 3,000 samples: 2-IR {shown(mean)}, joint" in PAGE
