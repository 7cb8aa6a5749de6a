"""Figures 2 to 4 of the interaction-rank paper: parts, sizes, records."""

import numpy as np
import pytest

from reproduction import interaction_rank_deep as figures
from reproduction.interaction_rank_deep import _groups, critic_of, method_of, recipe_of


def tiny(**changes):
    few = {"agents": 4, "trials": 2, "critics": ("2-IR-linear",), "steps": 200, "snapshots": 4}
    few |= {"architectures": ("2-IR-linear",), "rows_per_agent": (20, 50)}
    return figures.Config.quick(**(few | changes))


def test_figure_2_has_gaps_for_every_size_and_is_not_run_twice(tmp_path, monkeypatch):
    config = tiny(figures=("2",))
    record = figures.run(config, 0, tmp_path)
    summary = record.tables["summary"]
    assert summary.column("rows per agent") == [20, 50]
    assert len(record.tables["gaps"].rows) == 4
    gaps = record.arrays["gap|2|2-IR-linear|ours|50"]
    assert gaps.shape == (len(record.arrays["steps|2|2-IR-linear|ours|50"]), 2)
    # The last of the gaps along the way are those of the policies.
    last = [row[6] for row in record.tables["gaps"].rows[2:]]
    assert record.tables["gaps"].columns[6] == "max gap"
    np.testing.assert_allclose(gaps[-1], last)
    expected = np.std(last, ddof=1) / np.sqrt(2)
    assert summary.column("error")[1] == pytest.approx(expected)
    monkeypatch.setattr(figures, "run_part", lambda *_: pytest.fail("run again"))
    again = figures.run(config, 0, tmp_path)
    np.testing.assert_array_equal(again.arrays["gap|2|2-IR-linear|ours|50"], gaps)


def test_ablations_change_one_thing_at_a_time():
    config = figures.Config.quick()
    ours = recipe_of(config, "2-IR-64", 400)
    for change in figures.ABLATIONS:
        critic, method = recipe_of(config, "2-IR-64", 400, change=change)
        same = (critic == ours[0], method == ours[1])
        assert same == {
            "ours": (True, True),
            "rows: 10 per agent": (True, True),
            "patience: 20 steps": (False, True),
            "critic rate: 1e-4": (False, True),
            "rewards: as they are": (False, True),
            "critics: printed": (False, True),
        }.get(change, (True, False))
    assert critic_of("joint-3x1028", "printed").depth == 3
    assert method_of(config, "printed", 10**6).steps == config.most_steps


def test_trials_are_split_where_weights_are_many():
    config = figures.Config()
    sizes = {name: len(_groups(config, name)[0]) for name in config.architectures}
    assert sizes["2-IR-64"] == 10
    assert sizes["joint-3x2056"] == 5
    assert sizes["2-IR-linear"] == 10
    groups = _groups(config, "joint-3x2056")
    assert [t for group in groups for t in group] == list(range(10))


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="critics: expected some of"):
        figures.Config(critics=("4-IR",))
    with pytest.raises(ValueError, match="critics: expected a network among those of ablations"):
        figures.Config(figures=("ablations",), critics=("2-IR-linear",))
