"""Every kind of game is certified, solved and reported.

A new kind needs a row in every table; the first test names the table that lacks it.
"""

import dataclasses
import importlib
import inspect
from functools import cache

import numpy as np
import pytest
from kind_samples import games, plans
from support import refuses

import equipoise as eq
from equipoise import certificates, report
from equipoise.games import kinds
from equipoise.games._policies import POLICIES as POLICY_KINDS

KIND = pytest.mark.parametrize("kind", list(kinds.KINDS))


@KIND
def test_every_part_of_a_row_can_be_imported(kind):
    row = kinds.KINDS[kind]
    assert kinds.class_of(kind).kind == kind
    assert set(row.policies) <= set(POLICY_KINDS)
    for part in ("certify", "solve", "equilibria", "prices", "design"):
        function, where = kinds.part_of(kind, part), getattr(row, part)
        assert (function is None) == (where is None)
        # Certifiers have one public function; all others can be called by themselves.
        if part != "certify" and where is not None:
            module, _, name = where.partition(":")
            assert name in importlib.import_module(module).__all__


@KIND
def test_records_have_a_row(kind):
    assert kind in report.KINDS


def test_parts_of_an_unknown_kind_are_refused():
    refuses(lambda: kinds.part_of("chess", "solve"), "kind")


@KIND
@pytest.mark.parametrize("verb", ["solve", "equilibria", "prices"])
def test_an_unknown_option_is_refused_with_the_function_that_has_none(kind, verb):
    if (place := getattr(kinds.KINDS[kind], verb)) is None:
        refuses(lambda: getattr(eq, verb)(games()[kind]), "game")
        return
    right = kinds.options_of(kind, verb)[-1]
    with pytest.raises(eq.core.InputError) as caught:
        getattr(eq, verb)(games()[kind], **{right + "x": 1})
    assert place.replace(":", ".") in caught.value.expected
    assert caught.value.hint == f"did you mean {right}?"


#: The arguments of `solve`, which mean the same for every kind.
SHARED = list(inspect.signature(eq.solve).parameters)[1:-1]


@KIND
def test_solve_takes_what_a_solver_takes_and_refuses_the_rest(kind):
    game = games()[kind]
    values = {"key": 1, "concept": "nash", "objective": "welfare", "start": 0}
    for name in set(SHARED) - set(kinds.options_of(kind, "solve")):
        with pytest.raises(eq.core.InputError, match=f"found '{name}'"):
            eq.solve(game, **{name: values.get(name, print)})


def test_policies_of_every_kind_are_certified():
    assert list(plans()) == list(kinds.KINDS)
    joint = eq.JointPolicy.of(plans()["normal-form"])
    assert {policy.kind for policy in (*plans().values(), joint)} == set(POLICY_KINDS)
    game, profile = games()["normal-form"], plans()["normal-form"]
    together = eq.certify(game, joint, concept="cce")
    np.testing.assert_allclose(together.gains, eq.certify(game, profile).gains, atol=1e-12)


@KIND
def test_every_kind_is_certified(kind):
    certificate = eq.certify(games()[kind], plans()[kind])
    assert certificate.method
    assert np.isfinite(certificate.max_gain)
    assert certificate.max_gain <= certificate.max_upper
    again = certificates.certificate_from_plain(certificate.to_plain())
    assert again.max_gain == certificate.max_gain


#: Kind of game, and what is asked of it beside its defaults.
CASES = {kind: (kind, {}) for kind in kinds.KINDS} | {
    "correlated": ("normal-form", {"concept": "ce"}),
    "coarse correlated, zero-sum": ("matrix", {"concept": "cce"}),
    "markov, correlated": ("markov", {"concept": "cce"}),
}


@KIND
def test_its_solver_keeps_what_solvers_promise(kind):
    eq.testing.check_solver(eq.solve, games()[kind])


def test_a_solver_that_claims_too_much_is_caught():
    def boast(game):
        return dataclasses.replace(eq.solve(game), policy=eq.Profile([[1.0, 0.0], [1.0, 0.0]]))

    with pytest.raises(AssertionError, match="certificate: that of the policy"):
        eq.testing.check_solver(boast, eq.games.load("matching-pennies"))


@cache
def solved(case):
    kind, options = CASES[case]
    return games()[kind], eq.solve(games()[kind], **options)


@pytest.mark.parametrize("case", list(CASES))
def test_every_kind_is_solved_and_recorded(case):
    game, solution = solved(case)
    assert np.all(solution.status.solved)
    again = eq.certify(game, solution.policy, concept=solution.certificate.concept)
    assert solution.solved is True
    assert np.all(again.upper <= solution.tolerance)
    assert certificates.solution_from_plain(solution.to_plain()) == solution
    record = report.record_of(game, solution, name="a game")
    assert record.scalars["kind"] == game.kind
    assert eq.games.Labels(**record.scalars["labels"]) == game.labels
    page = report.page_of(record).html()
    assert "a game" in page
    assert record.tables, "the answer in a table"
    assert "Answer" in page
    named = {name for names in game.labels.actions or () for name in names}
    assert not named or any(name in page for name in named)


def test_policies_of_every_kind_are_found_by_a_solver():
    assert {solved(case)[1].policy.kind for case in CASES} == set(POLICY_KINDS)


def test_a_general_sum_game_has_a_value_for_each_player():
    game, solution = solved("normal-form")
    assert abs(game.payoffs.sum(0)).max() > 0.0  # not a zero-sum game
    assert solution.value.shape == (game.players,)
    np.testing.assert_allclose(solution.value, solution.certificate.value, atol=1e-12)
