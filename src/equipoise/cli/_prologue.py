"""The demo's prologue: a game whose value is published, and what a certificate says of policies."""

import time
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.cli._pages import solution_record
from equipoise.report import Report
from equipoise.runs import Record, Run, Table


def play_prologue(config: dict[str, Any], run: Run) -> Record:
    """A game from the literature, solved; and policies that are no equilibrium."""
    entry = eq.games.describe(config["game"])
    if not isinstance(entry.value, Fraction):
        raise ValueError(f"game: expected one with an exact value, found {config['game']!r}")
    game = eq.games.load(config["game"])
    start = time.perf_counter()
    solution = eq.solve(game)
    first = time.perf_counter() - start
    start = time.perf_counter()
    solution = eq.solve(game)
    seconds = time.perf_counter() - start
    uniform = eq.certify(game, [np.full(actions, 1 / actions) for actions in game.actions])
    rows = [("the equilibrium", solution.certificate), ("everything alike", uniform)]
    gains = Table(
        ("both play", "gain of row", "gain of column", "NashConv"),
        [(name, *(float(g) for g in c.gains), float(c.nash_conv)) for name, c in rows],
    )
    record = solution_record("prologue", game, solution, seconds, config)
    facts = {
        "first_seconds": first,
        "title": entry.title,
        "source": entry.source,
        "published": str(entry.value),
        "published_value": float(entry.value),
    }
    return replace(record, scalars={**record.scalars, **facts}, tables={"gains": gains})


def show_prologue(page: Report, record: Record) -> None:
    """The value beside the published one, and two certificates side by side."""
    facts = record.scalars
    error = abs(float(record.arrays["value"]) - facts["published_value"])
    page.text(
        f"{facts['title']}. Both sides must be unpredictable. The published value is "
        f"{facts['published']} ({facts['source']}); the one computed differs from it by "
        f"{error:.1g}.\n\n"
        "A certificate does not ask where a policy comes from: it says what each player could "
        "still gain by leaving it, from the game alone. In an equilibrium that is nothing; of "
        "another policy the same function finds what it is short of one:"
    )
    page.table(record.tables["gains"])
