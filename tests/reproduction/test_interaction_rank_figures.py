"""The figures about interaction rank: small runs, and what they must show."""

import numpy as np
import pytest

from reproduction import (
    interaction_rank,
    interaction_rank_coverage,
    interaction_rank_estimated,
    rows_of,
)

SMALL = interaction_rank.Config(
    agents=(3,),
    joint_agents=3,
    actions=2,
    fixed_agents=3,
    markov_agents=3,
    samples=(900,),
    episodes=(300,),
    strengths=(0.01,),
    states=2,
    horizon=2,
    games=1,
    iterations=50,
)


def test_all_panels():
    record = interaction_rank.run(SMALL)
    table = record.tables["gaps"]
    assert set(table.column("panel")) == set(interaction_rank.PANELS)
    assert set(table.column("critic")) == set(interaction_rank.CRITICS)
    gaps = np.array(table.column("gap"))
    assert np.isfinite(gaps).all()
    right = [
        gap
        for gap, panel, critic, at in zip(
            gaps, *map(table.column, ("panel", "critic", "at")), strict=True
        )
        if panel == "samples" and critic in ("2-IR", "behaviour") and at == 900
    ]
    assert right[0] < right[1]
    assert len(interaction_rank.plot(record).axes) == 5


def test_an_unknown_panel_is_refused():
    with pytest.raises(ValueError, match="panels: expected panels among"):
        interaction_rank.run(interaction_rank.Config(panels=("moon",)))


def test_more_rows_are_needed_where_actions_are_rarer():
    config = interaction_rank_coverage.Config.quick(
        panels=("skew",), agents=(3,), skews=(1.0, 8.0), games=4, largest=1 << 14
    )
    record = interaction_rank_coverage.run(config)
    needs = {(row["C"], row["critic"]): row["rows"] for row in rows_of(record.tables["needs"])}
    for critic in ("2-IR", "joint"):
        assert needs[16.0, critic] > 10 * needs[2.0, critic]
    assert min(record.tables["slopes"].column("slope")) > 1
    assert len(interaction_rank_coverage.plot(record).axes) == 1


def test_rows_needed_are_where_the_mean_gap_crosses_the_threshold():
    """None if the largest log is too small: that cell has no part in the slope."""
    config = interaction_rank_coverage.Config(threshold=0.1)
    cell = {"panel": "skew", "agents": 3, "actions": 2, "critic": "joint"}
    gaps = [
        cell | {"C": c, "rows": rows, "gap": gap}
        for c, rows, gap in ((2.0, 8, 0.4), (2.0, 16, 0.025), (4.0, 64, 0.05), (8.0, 32, 0.2))
    ]
    needs = interaction_rank_coverage._needs(config, gaps)
    assert [row["rows"] for row in needs] == [pytest.approx(8 * 2**0.5), 64.0, None]
    (slope,) = interaction_rank_coverage._slopes(needs)
    assert slope["cells"] == 2
    assert slope["slope"] == pytest.approx(np.log2(8 / 2**0.5)) == slope["last slope"]


def test_an_unknown_panel_of_coverage_is_refused():
    with pytest.raises(ValueError, match="panels: expected panels among"):
        interaction_rank_coverage.Config(panels=("moon",))


def test_gaps_fall_with_the_error_of_the_rewards():
    config = interaction_rank_estimated.Config(
        agents=(3, 4), samples=(300, 30_000), games=1, iterations=500
    )
    rows = rows_of(interaction_rank_estimated.run(config).tables["gaps"])
    assert len(rows) == 8
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert second["error"] < first["error"] / 10
        assert second["bound"] < first["bound"]
        assert max(first["gap"], first["gap, printed"]) < first["bound"]
