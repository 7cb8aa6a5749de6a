"""The figure about continuous local states: a small run, and the truth it is judged by."""

from pathlib import Path

import numpy as np
import pytest

import equipoise as eq
from reproduction import continuous_states

FOLDER = Path(__file__).parents[2] / "docs" / "reproduction"
SMALL = continuous_states.Config(
    dynamics=("linear",),
    episodes=(600,),
    cells=(3,),
    logs=1,
    iterations=20,
    simulations=500,
    grid=(31, 4),
    played=4_000,
)


def test_numbers_are_learned_better_than_cells():
    record = continuous_states.run(SMALL)
    rows = {row["method"]: row for row in continuous_states.rows_of(record.tables["gaps"])}
    assert set(rows) == {"own play", "3 true cells", "numbers", "3 cells"}
    assert rows["numbers"]["transitions"] == "linear"
    assert rows["numbers"]["gap"] < rows["own play"]["gap"] / 3
    assert rows["numbers"]["gap"] < min(rows["3 cells"]["gap"], rows["3 true cells"]["gap"])
    # Values on the grid are those of episodes that are played in the true problem.
    for row in rows.values():
        assert abs(row["value"] - row["played"]) < 4 * row["error"] + 0.02
    assert len(continuous_states.plot(record).axes) == 1


def test_the_record_shows_what_the_page_says():
    record = eq.runs.Record.load(FOLDER / "interaction-rank" / "continuous-states")
    rows = continuous_states.rows_of(record.tables["gaps"])

    def mean(dynamics, episodes, method):
        return np.mean(
            [
                row["gap"]
                for row in rows
                if (row["dynamics"], row["episodes"], row["method"]) == (dynamics, episodes, method)
            ]
        )

    for dynamics in continuous_states.DYNAMICS:
        assert mean(dynamics, 4000, "numbers") < mean(dynamics, 0, "9 true cells")
        for episodes in (250, 1000, 4000):
            numbers = mean(dynamics, episodes, "numbers")
            assert 4 * numbers <= min(mean(dynamics, episodes, f"{n} cells") for n in (3, 9))
    chosen = {(row["dynamics"], row["episodes"], row["transitions"]) for row in rows}
    assert {k for d, n, k in chosen if d == "linear" and n} == {"linear", "table"}
    assert ("saturating", 250, "linear") in chosen
    assert {k for d, n, k in chosen if d == "saturating" and n > 250} == {"network", "table"}
    for row in rows:
        assert abs(row["value"] - row["played"]) < 4 * row["error"]


@pytest.mark.parametrize("dynamics", continuous_states.DYNAMICS)
def test_the_grid_converges(dynamics):
    truth = continuous_states.Batteries(dynamics=dynamics)
    found = []
    for cells in (31, 61):
        play = continuous_states._on_cells(truth, cells, 4)
        certificate = eq.certify(truth.on_grid(cells, 4), play)
        found.append((certificate.max_gain, certificate.value))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=0.02)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=0.02)


def test_unknown_dynamics_are_refused():
    with pytest.raises(ValueError, match="dynamics: expected one of"):
        continuous_states.Batteries(dynamics="wild")
