"""The measures of a certificate follow from its gains; statuses say whether all is well."""

import copy
import dataclasses
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import equipoise as eq
from equipoise.certificates import certificate_from_plain
from equipoise.core import (
    AggregativeCertificate,
    Certificate,
    Interval,
    Status,
    TableCertificate,
    Verdict,
)
from equipoise.core.results import describe_gains, finish, status_from_plain


@pytest.fixture
def certificate() -> Certificate:
    gains = np.array([[0.0, 1.0, 3.0], [0.5, 0.25, 0.0]])
    return TableCertificate(gains=gains, upper=gains, value=np.zeros((2, 3)), method="by hand")


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
    batch = TableCertificate(
        gains=state_gains.max(1),
        upper=state_gains.max(1) + 1.0,
        value=np.zeros((2, 3, 2)),
        method="by hand",
        state_gains=state_gains,
        state_upper=state_gains + 1.0,
    )
    one = batch[1]
    assert one.state_gains is not None
    np.testing.assert_array_equal(one.state_gains, state_gains[1])
    np.testing.assert_array_equal(one.gains, [10.0, 11.0])


def test_a_negative_gain_is_left_negative():
    gains = np.array([-0.5, 0.1])
    one = TableCertificate(gains=gains, upper=gains, value=np.zeros(2), method="")
    assert one.nash_conv == pytest.approx(-0.4)
    assert one.max_gain == 0.1


def test_results_cannot_be_altered(certificate):
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.method = "guess"


def crowd_certificate(**parts) -> AggregativeCertificate:
    content = {
        "class_gains": np.array([0.5, 0.0]),
        "class_upper": np.array([0.5, 1e-9]),
        "class_value": np.array([1.0, 2.0]),
        "class_counts": np.array([2, 1]),
        "class_rows": np.array([0, 1]),
        "method": "by hand",
        "rounding": 1e-8,
    }
    return AggregativeCertificate(**content | parts)


@pytest.mark.parametrize(
    "one", [crowd_certificate(), crowd_certificate(class_of=np.array([1, 0, 0]))]
)
def test_certificates_of_crowds_are_data_too(one):
    assert one == dataclasses.replace(one)
    assert one != dataclasses.replace(one, class_upper=np.array([0.5, 1.0]))
    assert one != "another thing"
    assert one[...] == one[()] == one
    with pytest.raises(IndexError, match="0 batch axes"):
        one[0]
    assert one.exact
    assert not dataclasses.replace(one, class_upper=np.array([0.5, 1.0])).exact
    again = certificate_from_plain(one.to_plain())
    assert again == one
    np.testing.assert_array_equal(again.upper, one.upper)


def test_certificates_of_tables_compare_by_content(certificate):
    assert certificate == dataclasses.replace(certificate)
    assert certificate != dataclasses.replace(certificate, gains=certificate.gains + 1)
    assert certificate != dataclasses.replace(certificate, concept="ce")
    assert certificate_from_plain(certificate.to_plain()) == certificate
    with pytest.raises(IndexError, match="1 batch axes"):
        certificate[0, 0]


def test_a_bracket_is_exact_when_its_sides_agree():
    def one(gain: float, upper: float, rounding: float = 0.0) -> bool:
        parts = np.array([gain]), np.array([upper]), np.zeros(1), "by hand"
        return TableCertificate(*parts, rounding=rounding).exact

    assert one(1.0, 1.0 + 0.9e-6)
    assert not one(1.0, 1.0 + 1.1e-6)
    assert not one(0.0, 1e-15)
    assert one(0.0, 1e-15, rounding=2e-15)
    assert not one(0.0, np.inf, rounding=1.0)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"kind": "table"}, "expected the keys .*gains.*found no"),
        ({"kind": "hunch"}, "expected a kind among table, aggregative, network; found 'hunch'"),
        ({"kind": "table", "exact": True}, r"expected keys among .*found \['exact'\]"),
        ({"kind": "table", "gains": "much"}, "certificate.gains: expected numbers"),
        ({"kind": "table", "method": 3}, "certificate.method: expected a string, found 3"),
    ],
)
def test_what_is_no_plain_certificate_is_refused(plain, message):
    with pytest.raises(ValueError, match=message):
        certificate_from_plain(plain)


def test_sides_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match=r"upper: expected .2,., the shape of gains; found .3,."):
        TableCertificate(np.zeros(2), np.zeros(3), np.zeros(2), "by hand")


def test_a_status_has_four_words_and_a_verdict_has_others():
    for word in ("solved", "not solved", "out of time", "interrupted"):
        assert str(Status(word, "why", np.array(True))) == f"{word}: why"
        with pytest.raises(ValueError, match=f"found '{word}'"):
            Verdict(word, "why")
    for word in ("learned", "nothing learned", "refused"):
        assert str(Verdict(word, "why")) == f"{word}: why"
        with pytest.raises(ValueError, match=r"name: expected one of solved, .*found"):
            Status(word, "why", np.array(True))


def test_a_verdict_is_ok_when_a_policy_was_learned_without_caution():
    assert Verdict("learned", "why").ok
    assert not Verdict("learned", "why", caution=True).ok
    assert not Verdict("refused", "why").ok


def test_a_status_is_ok_when_every_game_is():
    assert Status("solved", "all met 1e-9.", np.array([True, True])).ok is True
    assert Status("not solved", "raise the budget.", np.array([True, False])).ok is False


def test_a_message_that_is_made_when_it_is_read_is_like_any_other():
    status = eq.solve(eq.MatrixGame([[3, 1], [2, 0]])).status
    copies = copy.deepcopy(status), ForkingPickler.loads(ForkingPickler.dumps(status))
    more = dataclasses.replace(status, message=f"{status.message}; and more")
    assert [str(other) for other in copies] == [str(status)] * 2
    assert copies[0] == copies[1] == status != more
    assert more.message.startswith("no player gains more than ")
    with pytest.raises(AttributeError, match="'Status' object has no attribute 'mesage'"):
        _ = status.mesage


@pytest.mark.parametrize("size", [1e-290, 1e-300, 1e-308])
def test_certificates_of_the_smallest_payoffs_are_exact(size):
    payoff = size * np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
    third = np.full(3, 1 / 3)
    assert eq.certify(eq.MatrixGame(payoff), (third, third)).exact
    pure = [1.0, 0.0, 0.0]
    assert eq.certify(eq.MatrixGame(payoff), (pure, third)).max_upper >= 0.99 * size


def test_the_plain_form_does_not_say_how_long_it_took_or_what_compiled_it():
    solution = eq.solve(eq.MatrixGame([[1.0, 0.0], [0.0, 1.0]]))
    assert {"engine", "seconds"} <= set(solution.stats)
    assert not {"engine", "seconds"} & set(solution.to_plain()["stats"])


HALF = TableCertificate(np.array([0.0, 0.5]), np.array([1e-9, 0.5 + 1e-9]), np.zeros(2), "by hand")


@pytest.mark.parametrize("ended", ["solved", "stuck", "out of time", "interrupted"])
def test_the_certificate_alone_says_whether_a_game_is_solved(ended):
    assert finish(None, HALF, 0.6, ended).status.name == "solved"
    early = ended in ("out of time", "interrupted")
    assert finish(None, HALF, 0.5, ended).status.name == (ended if early else "not solved")


def test_the_advice_fits_what_was_missed():
    def said(tolerance: float, ended: str = "stuck") -> str:
        words = {"advice": "try another start", "bound": "only the bound", "though": "or more"}
        return str(finish(None, HALF, tolerance, ended, **words).status)

    assert said(0.1).endswith(": try another start")
    assert said(0.5).endswith(": only the bound")
    assert said(0.1, "out of time").endswith(": raise `time_limit`")
    assert said(0.6, "out of time").endswith("; or more")


def test_tolerances_of_players_and_of_games(certificate):
    assert finish(None, HALF, np.array([1e-6, 0.6])).solved
    by_player = finish(None, HALF, np.array([0.6, 1e-6]))
    assert (by_player.solved, float(by_player.tolerance)) == (False, 1e-6)
    by_game = finish(None, certificate, np.array([2.0, 0.5]), who="agent")
    assert by_game.solved.tolist() == [False, True]
    assert by_game.status.message.startswith("1 of 2 games met their tolerance; no agent gains")
    unknown = TableCertificate(*[np.full(2, np.nan)] * 3, "none")
    for tolerance in (1.0, np.ones(2)):
        assert finish(None, unknown, tolerance).status.name == "not solved"


def test_typed_fields_survive_files():
    interval = Interval([1.0, 2.0], [1.0, np.inf])
    kept = finish(None, HALF, 0.6, objective=interval, assumes="rewards are smooth", game="any")
    again = eq.certificates.solution_from_plain(kept.to_plain())
    assert (again.objective, again.assumes, again.game) == (interval, "rewards are smooth", None)
    assert again == kept


def test_sentences_never_understate_the_bound(rng):
    for upper in np.append(10.0 ** rng.uniform(-320, 308, 1000), [0.0, 5e-324, 1.0, 0.99999, 1e-9]):
        said = describe_gains(0.0, float(upper)).split("more than ")[1].split(";")[0]
        assert upper <= float(said.replace(",", "")) <= 1.011 * upper + 1e-322
    assert describe_gains(0.25, np.inf).startswith("nothing is proven")
    assert describe_gains(0.25, np.nan).startswith("nothing is proven")


def test_words_of_earlier_files_are_read():
    for word, present in (
        ("within the proven bound", Status("not solved", "why", np.array(False))),
        ("stopped", Status("interrupted", "why", np.array(False))),
        ("finished", Verdict("learned", "why")),
        ("behaviour", Verdict("refused", "why")),
        ("inexact", Verdict("learned", "why", caution=True)),
        ("inconsistent", Verdict("learned", "why", caution=True)),
    ):
        read = status_from_plain({"name": word, "message": "why", "solved": np.array(False)})
        assert read == status_from_plain(read.to_plain()) == present


def test_an_interval_holds_its_ends_and_refuses_others():
    assert Interval(1, np.float64(1.5)) == Interval(1.0, 1.5)
    assert type(Interval(np.float64(1), 2).lower) is float
    assert str(Interval(1.0334, np.inf)) == "1.0334 to inf"
    assert str(Interval(2.0, 2.0 + 1e-12)) == "2"
    several = Interval([1.0, 2.0], [1.5, 2.0])
    assert f"{several:.2f}" == "1.00 to 1.50, 2.00"
    assert several.width.tolist() == [0.5, 0.0]
    assert Interval(-np.inf, -np.inf).width == 0.0
    assert several != Interval([1.0, 2.0], [1.5, 3.0])
    with pytest.raises(eq.core.InputError, match="upper: expected the shape"):
        Interval([1.0, 2.0], 3.0)
    for lower, upper in ((1.0, 0.5), (np.nan, 1.0), (0.0, np.nan), ([0.0, 1.0], [0.0, 0.5])):
        with pytest.raises(eq.core.InputError, match="upper: expected a number >= "):
            Interval(lower, upper)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Interval(0.0, 1.0).lower = 2.0  # pyright: ignore[reportAttributeAccessIssue]
