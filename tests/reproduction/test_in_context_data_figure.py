"""The figure of training on data: nested data sets, labels that are actions, and its record."""

import numpy as np
import pytest

from reproduction import in_context_data
from reproduction.in_context import make_key

SMALL = in_context_data.Config.quick(samples=(8, 16), rounds=4, steps=4, batch=4, test_games=4)


def test_data_sets_are_nested_and_have_a_quarter_for_validation():
    few, many = (in_context_data.make_data(SMALL, "policies", n, make_key(0)) for n in (8, 16))
    assert few["actions"].shape == (10, 2, 4)
    for name, array in few.items():
        np.testing.assert_array_equal(array, many[name][:10])


def test_actions_are_drawn_from_the_policies():
    config = in_context_data.Config.quick(rounds=4, batch=64)
    policies, actions = (
        in_context_data.make_data(config, labels, 512, make_key(0))["labels"]
        for labels in in_context_data.LABELS
    )
    assert actions.shape == policies.shape[:-1]
    share = (actions[..., None] == np.arange(3)).mean((0, 1, 2))
    error = 4 * np.sqrt(share * (1 - share) / actions.size)
    assert (abs(share - policies.mean((0, 1, 2))) < error).all()


@pytest.mark.parametrize("spread", [1, 2])
def test_the_slope_is_that_between_two_numbers_of_trajectories(spread):
    arrays = {"x": np.array([16, 64])}
    for labels in in_context_data.LABELS:
        for name in ("gap", "steps", "term"):
            arrays[f"{labels}|{name}"] = np.ones((spread, 2))
        arrays[f"{labels}|tv"] = np.tile([0.4, 0.2], (spread, 1))
    table = in_context_data.summary(arrays)
    assert table.column("slope")[:2] == [None, pytest.approx(-0.5)]
    assert table.column("± of it") == [0.0] * 4
