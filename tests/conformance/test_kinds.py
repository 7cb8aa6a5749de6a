"""Every kind of game can be certified, reported and, where there is a solver, solved.

A new kind needs a row in every table; the first test names the table that lacks it.
"""

import subprocess
import sys

import numpy as np
import pytest
from kind_samples import games, plans

import equipoise as eq
from equipoise import certificates, report, solvers
from equipoise.core.results import Solution, Status
from equipoise.games import kinds
from equipoise.games._policies import POLICIES as POLICY_KINDS

KIND = pytest.mark.parametrize("kind", list(kinds.KINDS))
SOLVED = [kind for kind, row in solvers.KINDS.items() if not isinstance(row, str)]
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
        "    hints = map(typing.get_type_hints, typing.get_overloads(verb))\n"
        "    games = (typing.get_args(hint['game']) or (hint['game'],) for hint in hints)\n"
        "    print(*sorted({game.kind for union in games for game in union}))\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.splitlines() == [" ".join(sorted(kinds.KINDS))] * 2, found.stderr


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


@pytest.mark.parametrize("kind", SOLVED)
def test_what_has_a_solver_is_solved_and_recorded(kind):
    # General-sum normal forms have no solver, but zero-sum ones are solved as matrix games.
    game = games()[kind]
    if kind == "normal-form":
        payoff = games()["matrix"].payoff
        game = eq.NormalFormGame([payoff, -payoff])
    solution = eq.solve(game)
    assert np.all(solution.status.solved)
    again = eq.certify(game, solution.policy)
    assert np.all(again.max_upper <= solution.tolerance)
    record = report.record_of(game, solution, name="a game")
    assert record.scalars["kind"] == kind
    assert eq.games.Labels(**record.scalars["labels"]) == game.labels
    assert "a game" in report.page_of(record).html()


@pytest.mark.parametrize("kind", [kind for kind in kinds.KINDS if kind not in SOLVED])
def test_what_has_no_solver_says_what_to_do_and_is_recorded(kind):
    game = games()[kind]
    with pytest.raises(ValueError, match=f"found a {type(game).__name__}; log it with"):
        eq.solve(game)
    certificate = eq.certify(game, plans()[kind])
    found = Solution(
        plans()[kind], certificate.value, certificate, Status("learned", "a test", np.array(True))
    )
    record = report.record_of(game, found, name="a game")
    assert record.scalars["kind"] == kind
    assert record.scalars["agents"] == game.players
    assert "a game" in report.page_of(record).html()
