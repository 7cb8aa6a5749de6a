"""The noise of rewards in the interaction-rank paper: rows of the log follow the noise."""

import numpy as np
import pytest

from reproduction import interaction_rank_deep as deep
from reproduction import interaction_rank_noise as figure

SMALL = figure.Config.quick(
    noises=(0.5, 2.0), agents=4, trials=2, critics=(deep.LINEAR,), steps=200
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noise")
    return folder, figure.run(SMALL, 0, folder)


def test_the_log_has_as_many_rows_as_the_printed_ratio_asks_for(made):
    tables = made[1].tables
    assert tables["summary"].column("noise") == [0.5, 2.0]
    assert tables["summary"].column("rows per agent") == [5, 20]
    assert len(tables["gaps"].rows) == 4


def test_the_noise_is_that_of_the_rewards(made):
    """The held-out error of a critic is the variance of the noise, up to sampling and its own."""
    columns = map(made[1].tables["summary"].column, ("noise", "validation"))
    errors = dict(zip(*columns, strict=True))
    assert errors[2.0] > 4 * errors[0.5]
    np.testing.assert_allclose(errors[2.0], 2.0**2 / 3, rtol=0.5)


def test_finished_parts_are_read(made, monkeypatch):
    monkeypatch.setattr(deep, "run_part", lambda *_: pytest.fail("run again"))
    again = figure.run(SMALL, 0, made[0])
    assert again.tables["summary"].rows == made[1].tables["summary"].rows


def test_a_noise_without_a_whole_number_of_rows_is_refused():
    with pytest.raises(ValueError, match="noises: expected numbers whose product"):
        figure.Config(noises=(0.25,))
