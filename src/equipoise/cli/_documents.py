"""Solutions and certificates, as documents for programs and as tables for people."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.cli._kinds import describe, kind_of
from equipoise.cli._output import print_pairs, print_table
from equipoise.core import Certificate, Solution
from equipoise.report import certificate_table, format_value, rounding_note
from equipoise.runs import Table

#: Longer policies and more states are cut in tables, never in files and JSON.
_ROWS = 20

PLAYERS = ("row", "column")


def certificate_document(certificate: Certificate) -> dict[str, Any]:
    """A certificate as plain data; batch axes lead, as in the arrays.

    `nash_conv` and `exploitability` are words about Nash equilibria, and null of other concepts.
    """
    nash = certificate.concept == "nash"
    return {
        "gains": certificate.gains,
        "max_gain": certificate.max_gain,
        "nash_conv": certificate.nash_conv if nash else None,
        "exploitability": certificate.exploitability if nash else None,
        "value": certificate.value,
        "state_gains": certificate.state_gains,
        "method": certificate.method,
        "exact": certificate.exact,
        "concept": certificate.concept,
    }


def solution_document(name: str, game: Any, solution: Solution, tolerance: float) -> dict[str, Any]:
    """A solution as plain data; `equipoise certify` reads the policy in it."""
    return {
        "game": name,
        "kind": kind_of(game),
        "batch_shape": game.batch_shape,
        "actions": game.actions,
        "tolerance": tolerance,
        "value": solution.value,
        "policy": list(solution.policy),
        "certificate": certificate_document(solution.certificate),
        "status": {
            "name": solution.status.name,
            "message": solution.status.message,
            "solved": solution.status.solved,
        },
        "stats": solution.stats,
    }


def print_certificate(certificate: Certificate, more: Sequence[tuple[str, Any]] = ()) -> None:
    """Print a certificate, each player's gain or a summary of a batch, and more facts below."""
    if certificate.gains.ndim > 1:
        count = certificate.nash_conv.size
        print_table(certificate_table(certificate), title=f"Gains in {count:,} games")
        worst = np.unravel_index(int(certificate.nash_conv.argmax()), certificate.nash_conv.shape)
        place = ", ".join(str(int(i)) for i in worst)
        print_pairs([("worst game", place), *_how(certificate), *_note(certificate), *more])
        return
    names = PLAYERS if certificate.players == 2 else None
    print_table(certificate_table(certificate, names))
    print_pairs([*_how(certificate), *_note(certificate), *more])


def print_solution(name: str, game: Any, solution: Solution, seconds: float) -> None:
    """Print a solution: policies, value and certificate, or a summary of a batch."""
    print(f"{name}: {describe(game)}")
    facts: list[tuple[str, Any]] = []
    if game.batch_shape:
        count, solved = solution.status.solved.size, int(solution.status.solved.sum())
        facts += [("solved", f"{solved:,} of {count:,}")]
        facts += [("games per second", f"{count / seconds:,.0f} (compilation included)")]
    elif kind_of(game) == "markov":
        print_table(_state_policies(solution))
    else:
        print_table(_policies(solution))
        facts += [("value", float(solution.value))]
    facts += [("seconds", seconds), ("status", str(solution.status))]
    print_certificate(solution.certificate, facts)


def _how(certificate: Certificate) -> list[tuple[str, Any]]:
    return [("method", certificate.method), ("exact", certificate.exact)]


def _note(certificate: Certificate) -> list[tuple[str, Any]]:
    note = rounding_note(certificate)
    return [("note", note)] if note else []


def _policies(solution: Solution) -> Table:
    """The probabilities of each player's actions."""
    count = max(len(player) for player in solution.policy)
    rows: list[tuple[Any, ...]] = []
    for action in range(min(count, _ROWS)):
        rows.append((action, *(_entry(player, action) for player in solution.policy)))
    return _note_cut(Table(("action", *PLAYERS), rows), count)


def _entry(probabilities: np.ndarray, action: int) -> float | None:
    return float(probabilities[action]) if action < len(probabilities) else None


def _state_policies(solution: Solution) -> Table:
    """The value and each player's probabilities, state by state."""
    rows: list[tuple[Any, ...]] = []
    for state, value in enumerate(solution.value[:_ROWS]):
        mixed = (format_value(np.asarray(player)[state], 3) for player in solution.policy)
        rows.append((state, float(value), *mixed))
    columns = ("state", "value", *(f"{name} policy" for name in PLAYERS))
    return _note_cut(Table(columns, rows), len(solution.value))


def _note_cut(table: Table, count: int) -> Table:
    if count <= len(table.rows):
        return table
    rest = f"... {count - len(table.rows)} more (--json shows all)"
    return Table(table.columns, [*table.rows, (rest, *[None] * (len(table.columns) - 1))])
