"""Tables of the page about low interaction rank are those of the records."""

from pathlib import Path

from equipoise.papers import rows_of
from equipoise.runs import Record

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


def small(number):
    return f"{number:.1e}".replace("e-0", "e-") if number < 1e-3 else f"{number:.2g}"


def coverage_lines(panel):
    """Lines of the table of rows needed: agents, critic, a column for each C, and the slope."""
    for slope in table("coverage", "slopes", panel=panel):
        cell = {"panel": panel, "agents": slope["agents"], "critic": slope["critic"]}
        needs = [row["rows"] for row in table("coverage", "needs", **cell)]
        shown = ["not reached" if rows is None else short(rows) for rows in needs]
        power = "K = 2" if slope["critic"] == "2-IR" else f"N = {slope['agents']}"
        columns = [slope["agents"], slope["critic"], *shown, f"{slope['slope']:.1f}", power]
        yield "| " + " | ".join(map(str, columns)) + " |"


def estimated_lines():
    """Lines of the table of gaps: the mean over games for each N, noise and number of rows."""
    rows = table("estimated", "gaps")
    cells = dict.fromkeys((row["agents"], row["noise"]) for row in rows)
    for agents, noise in cells:
        most = max(row["samples"] for row in rows)
        for samples in (300, most):
            cell = {"agents": agents, "noise": noise, "samples": samples}
            own = table("estimated", "gaps", **cell)
            means = [
                small(sum(row[name] for row in own) / len(own))
                for name in ("error", "gap", "gap, printed", "bound", "uniform")
            ]
            yield "| " + " | ".join([str(agents), f"{noise:g}", f"{samples:,}", *means]) + " |"


def test_rows_needed_against_the_coverage():
    for panel in ("skew", "actions"):
        lines = list(coverage_lines(panel))
        assert len(lines) == 6
        for line in lines:
            assert line in PAGE


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
    lines = list(estimated_lines())
    assert len(lines) == 20
    for line in lines:
        assert line in PAGE
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


if __name__ == "__main__":  # prints the lines, to be copied
    for panel in ("skew", "actions"):
        print(*coverage_lines(panel), sep="\n")
    print(*estimated_lines(), sep="\n")
