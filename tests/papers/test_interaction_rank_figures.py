"""The figures about interaction rank: small runs, and what they must show."""

import numpy as np
import pytest

from equipoise.papers import (
    interaction_rank,
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
