"""The demo's prologue: a game whose value is published, and what a certificate says of policies."""

import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.report import Report
from equipoise.runs import Record, Run, Table

STEPS = ("the first call", "the second call")


def play_prologue(config: dict[str, Any], run: Run, tell: Callable[[str], None]) -> Record:
    """A game from the literature, solved; and policies that are no equilibrium."""
    entry = eq.games.describe(config["game"])
    if not isinstance(entry.value, Fraction):
        raise InputError("game", "one with an exact value", repr(config["game"]))
    game = eq.games.load(config["game"])

    def solve(step: str) -> tuple[eq.Solution, float]:
        tell(step)
        start = time.perf_counter()
        return eq.solve(game), time.perf_counter() - start

    _, first = solve(STEPS[0])
    solution, seconds = solve(STEPS[1])
    uniform = eq.certify(game, [np.full(actions, 1 / actions) for actions in game.actions])
    rows = [("the equilibrium", solution.certificate), ("everything alike", uniform)]
    gains = Table(
        ("both play", "gain of row", "gain of column", "NashConv"),
        [(name, *(float(g) for g in c.gains), float(c.nash_conv)) for name, c in rows],
    )
    facts = {
        "game": f"{entry.title}, {' x '.join(map(str, game.actions))}",
        "first_seconds": first,
        "seconds": seconds,
        "title": entry.title,
        "source": entry.source,
        "published": str(entry.value),
        "published_value": float(entry.value),
        "as announced": solution.status.ok,
    }
    arrays, plain = {"payoff": game.payoff}, solution.to_plain()
    return Record("prologue", config, facts, arrays, {"gains": gains}, plain)


def prologue_outcome(record: Record) -> str:
    """How near the value is to the published one."""
    facts = record.scalars
    error = abs(float((record.solution or {})["value"]) - facts["published_value"])
    return f"The value found differs from the published {facts['published']} by {error:.1g}."


def show_prologue(page: Report, record: Record) -> None:
    """Where the game is from, and two certificates side by side."""
    facts = record.scalars
    page.text(
        f"{facts['title']} ({facts['source']}). Both sides must be unpredictable.\n\n"
        "A certificate does not ask where a policy comes from: it says what each player could "
        "still gain by leaving it, from the game alone. In an equilibrium that is nothing; of "
        "another policy the same function finds what it is short of one:"
    )
    page.table(record.tables["gains"])
