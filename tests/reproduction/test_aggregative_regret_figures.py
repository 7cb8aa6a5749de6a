"""The experiments about Theorem 5.1 and about several coordinates, in small, and their records."""

from pathlib import Path

import numpy as np
import pytest

from equipoise.runs import Record
from reproduction import aggregative_dimensions, aggregative_regret, rows_of

KEPT = Path(__file__).parents[2] / "docs" / "reproduction" / "aggregative"


@pytest.fixture(scope="module")
def regret():
    config = aggregative_regret.Config(
        agents=30, types=2, episodes=12, spacing=0.2, checked_runs=1, checked_episodes=3
    )
    return aggregative_regret.run(config)


def test_sums_are_those_of_the_policies_played(regret):
    marks = regret.arrays["marks"]
    assert marks[0] == 1
    assert marks[-1] == 12
    for form in aggregative_regret.FORMS:
        curves = {m: regret.arrays[f"{form}/{m}"][0] for m in aggregative_regret.MEASURES}
        assert (np.diff(curves["regret"]) >= -1e-12).all()
        assert (np.diff(curves["certificate"]) <= 1e-12).all()
        assert curves["regret"][0] == curves["gap"][0]
        assert (curves["regret"] <= regret.arrays["bound/trivial"][0]).all()
    assert regret.arrays["printed/policies"] == 13  # one for every episode, and one at the end


def test_both_printed_forms_are_checked(regret):
    rows = rows_of(regret.tables["violations"])
    outside = {row["learner"]: row["policies with values outside"] for row in rows}
    assert outside == {"printed": 4, "printed, rewards in [0, 1]": 0}


def test_a_part_that_is_there_is_read(tmp_path):
    config = aggregative_regret.Config(
        agents=10, types=1, episodes=2, spacing=0.5, forms=("printed",), checked_runs=0
    )
    first = aggregative_regret.run(config, folder=tmp_path)
    again = aggregative_regret.run(config, folder=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"printed-0"}
    assert first.tables["results"].rows == again.tables["results"].rows
    np.testing.assert_array_equal(first.arrays["printed/gap"], again.arrays["printed/gap"])


@pytest.fixture(scope="module")
def dimensions():
    config = aggregative_dimensions.Config(
        dimensions=(1, 2),
        spacings=(0.5, 0.5),
        agents=(20,),
        learning_agents=(10, 20),
        most_unknown=(20, 10),
        states=2,
        horizon=2,
        episodes=3,
        seeds=1,
    )
    return aggregative_dimensions.run(config)


def test_gaps_of_every_number_of_coordinates_are_below_their_bounds(dimensions):
    plans = rows_of(dimensions.tables["planning"])
    assert {row["dimensions"] for row in plans} == {1, 2}
    assert all(row["largest gap"] <= row["bound"] for row in plans)
    lessons = rows_of(dimensions.tables["learning"])
    assert all(row["gap"] <= row["bound"] for row in lessons)
    unknown = [row for row in lessons if row["learner"].startswith("unknown")]
    assert [(row["dimensions"], row["agents"]) for row in unknown] == [(1, 10), (1, 20), (2, 10)]


def test_figures_are_drawn(regret, dimensions):
    assert len(aggregative_regret.plot(regret).axes[0].get_lines()) == 9
    axes = aggregative_dimensions.plot(dimensions).axes
    assert [len(one.get_lines()) for one in axes] == [6, 6, 4]


def test_the_kept_record_of_theorem_5_1_meets_what_is_said_of_it():
    """Its bound holds, is not vacuous at the end, and the rescaled form claims nothing false."""
    record = Record.load(KEPT / "regret")
    rows = [row for row in rows_of(record.tables["results"]) if row["episodes"] == 10_000]
    rows = {row["form"]: row for row in rows}
    own = rows["printed-rescaled"]
    assert own["mean gap"] <= own["bound of Theorem 5.1"] < own["largest value"]
    assert own["certificate"] < own["largest value"]
    assert own["policies outside"] == 0 < rows["printed"]["policies outside"]
    for row in rows_of(record.tables["results"]):
        assert row["mean gap"] <= row["bound of Theorem 5.1"]


def test_the_kept_record_of_several_coordinates_is_below_its_bounds():
    record = Record.load(KEPT / "dimensions")
    for name in ("planning", "learning"):
        assert all(row["gap"] <= row["bound"] for row in rows_of(record.tables[name]))
