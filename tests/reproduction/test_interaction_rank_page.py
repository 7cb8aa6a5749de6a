"""Numbers of the page about low interaction rank are those of the records."""

from pathlib import Path

from equipoise.runs import Record
from reproduction import rows_of

FOLDER = Path(__file__).parents[2] / "docs" / "reproduction"
PAGE = (FOLDER / "interaction-rank.md").read_text()
INDEX = (FOLDER / "index.md").read_text()
PROSE = " ".join(PAGE.split())


def table(figure, name, **wanted):
    record = Record.load(FOLDER / "interaction-rank" / figure)
    return [row for row in rows_of(record.tables[name]) if wanted.items() <= row.items()]


def short(number):
    """Two significant digits."""
    return f"{float(f'{number:.1e}'):,.0f}"


def test_slopes():
    found = {}
    for row in table("coverage", "slopes"):
        found.setdefault((row["panel"], row["critic"]), []).append(f"{row['slope']:.1f}")
    few, joint, more, joint_more = (
        "{}, {} and {}".format(*found[panel, critic])
        for panel in ("skew", "actions")
        for critic in ("2-IR", "joint")
    )
    assert f"slopes of {few} with 3, 4 and 5 agents (2-IR), and of {joint} (joint)" in INDEX
    assert f"with the number of actions, {more}, and {joint_more} |" in INDEX
    assert f"2-IR critic, {few}, lie about K = 2" in PROSE
    assert f"joint table, {joint}, grow with N" in PROSE
    assert f"({more}; {joint_more})" in PROSE
    rows = table("coverage", "slopes")
    far = max(abs(row["last slope"] - row["slope"]) for row in rows)
    assert f"differs from the fitted one by up to {far:.1f}." in PROSE


def test_gaps_with_estimated_rewards():
    rows = table("estimated", "gaps")
    assert all(max(row["gap"], row["gap, printed"]) <= row["bound"] for row in rows)
    slopes = {row["in"]: row for row in table("estimated", "slopes", of="gap")}
    powers = [f"{slopes[name]['slope']:.2f}" for name in ("error", "agents")]
    assert "with the power {} of the error and {} of the number of agents".format(*powers) in PROSE
    ratio = min(row["bound"] / row["gap"] for row in rows)
    own = min(row["bound"] / row["gap, printed"] for row in rows)
    assert f"at least {short(ratio)} times the gap with the weak regulariser" in PROSE
    text = f"{short(ratio)} times the gap with a weak regulariser, and {own:.1f} times with its own"
    assert text in INDEX
