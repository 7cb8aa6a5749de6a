"""Every kind of game is certified, solved and reported.

A new kind needs a row in every table; the first test names the table that lacks it.
"""

import inspect
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from kind_samples import games, plans

import equipoise as eq
from equipoise import certificates, report, solvers
from equipoise.games import kinds
from equipoise.games._policies import POLICIES as POLICY_KINDS

KIND = pytest.mark.parametrize("kind", list(kinds.KINDS))
TABLES = {"certificates": certificates.KINDS, "solvers": solvers.KINDS, "report": report.KINDS}


@KIND
@pytest.mark.parametrize("table", list(TABLES))
def test_every_kind_has_a_row(table, kind):
    assert kind in TABLES[table]


@pytest.mark.parametrize("table", list(TABLES))
def test_no_table_has_a_row_of_another_kind(table):
    assert set(TABLES[table]) <= set(kinds.KINDS)


def test_every_kind_has_an_overload():
    # In another process: the type checks of this suite wrap functions, which loses the overloads.
    program = (
        "import typing, equipoise as eq\n"
        "for verb in (eq.solve, eq.certify):\n"
        "    hints = [*map(typing.get_type_hints, typing.get_overloads(verb))]\n"
        "    assert verb is eq.certify or all(typing.get_args(h['return']) for h in hints)\n"
        "    assert not [h for h in hints if typing.Any in h.values()]\n"
        "    games = (typing.get_args(hint['game']) or (hint['game'],) for hint in hints)\n"
        "    print(*sorted({game.kind for union in games for game in union}))\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.splitlines() == [" ".join(sorted(kinds.KINDS))] * 2, found.stderr


def test_overloads_name_the_options_of_the_solver():
    program = (
        "import inspect, typing, equipoise as eq\n"
        "from equipoise.solvers import KINDS\n"
        "for one in typing.get_overloads(eq.solve):\n"
        "    game = typing.get_type_hints(one)['game']\n"
        "    for cls in typing.get_args(game) or (game,):\n"
        "        known = inspect.signature(KINDS[cls.kind]()).parameters\n"
        "        named = inspect.signature(one).parameters\n"
        "        assert set(named) <= set(known), (cls, set(named) - set(known))\n"
        "        print(cls.kind, *named)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    named: dict[str, set[str]] = {}
    for kind, *options in map(str.split, found.stdout.splitlines()):
        named.setdefault(kind, set()).update(options)
    for kind, maker in solvers.KINDS.items():
        only_of_others = {"method"} if kind == "aggregative" else set()
        assert named[kind] == set(inspect.signature(maker()).parameters) - only_of_others


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
