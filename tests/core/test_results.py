"""The measures of a certificate follow from its gains; statuses say whether all is well."""

import dataclasses

import numpy as np
import pytest

from equipoise.core import Certificate, Solution, Status


@pytest.fixture
def certificate() -> Certificate:
    gains = np.array([[0.0, 1.0, 3.0], [0.5, 0.25, 0.0]])
    return Certificate(gains=gains, value=np.zeros((2, 3)), method="by hand", exact=True)


def test_measures_by_hand(certificate):
    assert certificate.players == 3
    np.testing.assert_array_equal(certificate.max_gain, [3.0, 0.5])
    np.testing.assert_array_equal(certificate.nash_conv, [4.0, 0.75])
    np.testing.assert_array_equal(certificate.exploitability, [4.0 / 3, 0.25])


def test_one_game_of_a_batch(certificate):
    one = certificate[1]
    np.testing.assert_array_equal(one.gains, [0.5, 0.25, 0.0])
    assert one.max_gain == 0.5
    assert (one.method, one.concept) == ("by hand", "nash")
    assert dataclasses.replace(certificate, concept="ce")[0].concept == "ce"
    assert one.state_gains is None
    assert certificate[:1].nash_conv.shape == (1,)


def test_state_gains_follow_the_batch():
    state_gains = np.arange(12.0).reshape(2, 3, 2)
    batch = Certificate(
        gains=state_gains.max(1),
        value=np.zeros((2, 3, 2)),
        method="by hand",
        exact=True,
        state_gains=state_gains,
    )
    one = batch[1]
    assert one.state_gains is not None
    np.testing.assert_array_equal(one.state_gains, state_gains[1])
    np.testing.assert_array_equal(one.gains, [10.0, 11.0])


def test_a_negative_gain_is_left_negative():
    one = Certificate(gains=np.array([-0.5, 0.1]), value=np.zeros(2), method="", exact=True)
    assert one.nash_conv == pytest.approx(-0.4)
    assert one.max_gain == 0.1


def test_results_cannot_be_altered(certificate):
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.exact = False


def test_a_status_is_ok_when_every_game_is():
    good = Status("solved", "all met 1e-9.", np.array([True, True]))
    assert good.ok is True
    assert str(good) == "solved: all met 1e-9."
    assert Status("inexact", "raise the budget.", np.array([True, False])).ok is False


def test_solutions_do_not_share_their_stats(certificate):
    status = Status("solved", "", np.array(True))
    first, second = (
        Solution(policy=(), value=np.zeros(2), certificate=certificate, status=status)
        for _ in range(2)
    )
    first.stats["iterations"] = 3
    assert second.stats == {}
