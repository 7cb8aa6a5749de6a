"""The acts of the demo: each plays something into a record, and shows the record on the page.

An act for another part of the library is one more function that returns a `Record`, one that
adds it to the page, and one more line in `ACTS`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.cli._crowd_act import play_crowd, show_crowd
from equipoise.cli._incontext_act import play_in_context, show_in_context
from equipoise.cli._learning import play_learning, show_learning
from equipoise.cli._log_act import play_log, show_log
from equipoise.cli._pages import add_solution, certificate_of, solution_record
from equipoise.report import Report
from equipoise.runs import Record, Run, Table


@dataclass(frozen=True)
class Settings:
    """What the user may choose."""

    games: int = 100_000
    seed: int = 0


@dataclass(frozen=True)
class Act:
    """Something to see: how it is played, how it is shown, and the lines of Python that do it."""

    #: The name of its run folder.
    name: str
    heading: str
    #: The settings the act depends on: its config.
    config: Callable[[Settings], dict[str, Any]]
    #: From the config, and the run to checkpoint into, to the record.
    play: Callable[[dict[str, Any], Run], Record]
    #: Adds the record to the page.
    show: Callable[[Report, Record], None]
    #: The lines that do it, to be shown and tried; `solution` is what they end with.
    code: Callable[[dict[str, Any]], str]


def timed_solve(game: Any) -> tuple[eq.Solution, dict[str, float]]:
    """Solve twice: JAX compiles during the first call, so the second is what it costs."""
    start = time.perf_counter()
    eq.solve(game)
    first = time.perf_counter() - start
    start = time.perf_counter()
    solution = eq.solve(game)
    return solution, {"seconds": time.perf_counter() - start, "first_seconds": first}


def _with_scalars(record: Record, **scalars: Any) -> Record:
    return replace(record, scalars={**record.scalars, **scalars})


def play_named(config: dict[str, Any], run: Run) -> Record:
    """A game from the literature, whose value is published."""
    entry = eq.games.describe(config["game"])
    if not isinstance(entry.value, Fraction):
        raise ValueError(f"game: expected one with an exact value, found {config['game']!r}")
    game = eq.games.load(config["game"])
    solution, times = timed_solve(game)
    uniform = eq.certify(game, [np.full(actions, 1 / actions) for actions in game.actions])
    rows = [("equilibrium", solution.certificate), ("uniform", uniform)]
    gains = Table(
        ("policy", "gain of row", "gain of column", "NashConv"),
        [(name, *(float(g) for g in c.gains), float(c.nash_conv)) for name, c in rows],
    )
    record = solution_record("named", game, solution, times["seconds"], config)
    record = replace(record, tables={"gains": gains})
    return _with_scalars(
        record,
        **times,
        title=entry.title,
        source=entry.source,
        published=str(entry.value),
        published_value=float(entry.value),
    )


def show_named(page: Report, record: Record) -> None:
    """The payoffs, the equilibrium, and what the certificate says of a policy that is none."""
    facts = record.scalars
    error = abs(float(record.arrays["value"]) - facts["published_value"])
    page.text(
        f"{facts['title']}. Both sides must be unpredictable: in equilibrium each mixes, so that "
        "nothing the other does gains anything.\n\n"
        f"The published value is {facts['published']} ({facts['source']}); "
        f"the one computed differs from it by {error:.1g}."
    )
    add_solution(page, record)
    page.text(
        "A certificate does not ask where a policy comes from. The same function, given the "
        "policy that plays everything alike, finds what each side could gain against it:"
    )
    page.table(record.tables["gains"])


def play_batch(config: dict[str, Any], run: Run) -> Record:
    """Very many small games at once."""
    games = eq.games.families.uniform(actions=3).sample(config["games"], key=config["seed"])
    solution, times = timed_solve(games)
    record = solution_record("batch", games, solution, times["seconds"], config)
    return _with_scalars(record, **times)


def show_batch(page: Report, record: Record) -> None:
    """Speed, and the worst certificate among all."""
    page.text(
        f"{record.config['games']:,} games of three actions a side with payoffs drawn from "
        "[0, 1], solved in one call. Every one of them has its own certificate: the worst is "
        "known, not guessed. The first call also compiled the solver, and took "
        f"{record.scalars['first_seconds']:.2g} seconds."
    )
    add_solution(page, record)


def play_markov(config: dict[str, Any], run: Run) -> Record:
    """A game with states, in which today's actions decide where tomorrow is played."""
    entry = eq.games.describe(config["game"])
    game = eq.games.load(config["game"])
    solution, times = timed_solve(game)
    record = solution_record("markov", game, solution, times["seconds"], config)
    return _with_scalars(record, **times, title=entry.title, source=entry.source)


def show_markov(page: Report, record: Record) -> None:
    """Values of the states, and the largest gain in any of them."""
    gain = float(certificate_of(record).max_gain)
    page.text(
        f"{record.scalars['title']} ({record.scalars['source']}): {record.scalars['game']}. The "
        "certificate solves each player's own decision problem exactly while the other keeps to "
        f"its policy; from no state could anybody gain more than {gain:.1g}."
    )
    add_solution(page, record)


ACTS = (
    Act(
        "named",
        "A game from the literature",
        config=lambda settings: {"game": "colonel-blotto"},
        play=play_named,
        show=show_named,
        code=lambda config: (
            f"""\
import equipoise as eq
solution = eq.solve(eq.games.load("{config["game"]}"))
print(solution.value, solution.certificate.nash_conv)"""
        ),
    ),
    Act(
        "batch",
        "Very many games at once",
        config=lambda settings: {"games": settings.games, "seed": settings.seed},
        play=play_batch,
        show=show_batch,
        code=lambda config: (
            f"""\
import equipoise as eq
games = eq.games.families.uniform(actions=3).sample({config["games"]:_}, key={config["seed"]})
solution = eq.solve(games)
print(solution.certificate.nash_conv.max())"""
        ),
    ),
    Act(
        "markov",
        "A game with states",
        config=lambda settings: {"game": "soccer"},
        play=play_markov,
        show=show_markov,
        code=lambda config: (
            f"""\
import equipoise as eq
solution = eq.solve(eq.games.load("{config["game"]}"))
print(solution.certificate.max_gain)"""
        ),
    ),
    Act(
        "learning",
        "Players who see only their own rewards",
        config=lambda settings: {"games": 256, "seed": settings.seed},
        play=play_learning,
        show=show_learning,
        code=lambda config: (
            f"""\
import equipoise as eq
games = eq.games.families.uniform(actions=3).sample({config["games"]}, key={config["seed"]})
omd = eq.dynamics.OMD()
trace = eq.dynamics.play(games, omd, omd, rounds=10_000, key={config["seed"] + 1})
print(eq.certify(games, trace.last).nash_conv.mean())"""
        ),
    ),
    Act(
        "in-context",
        "A player trained once, for a family of games",
        config=lambda settings: {"players": "iid3", "games": 64, "seed": settings.seed},
        play=play_in_context,
        show=show_in_context,
        code=lambda config: (
            f"""\
import equipoise as eq
players = eq.incontext.load("{config["players"]}")
games = eq.games.families.uniform(actions=3).sample({config["games"]}, key={config["seed"]})
episode = eq.incontext.play(players, games, rounds=256, key={config["seed"] + 1})
print(eq.certify(games, episode.last).nash_conv.mean())"""
        ),
    ),
    Act(
        "log",
        "What a log of many agents tells",
        config=lambda settings: {"agents": 20, "rows": 3000, "seed": settings.seed},
        play=play_log,
        show=show_log,
        code=lambda config: (
            f"""\
import equipoise as eq
family = eq.games.families.polymatrix({config["agents"]}, 3, contexts=2, scale=0.25)
game = family.sample(key={config["seed"]})
log = eq.offline.collect(game, "uniform", samples={config["rows"]}, key={config["seed"] + 1})
solution = eq.offline.solve(eq.offline.fit(log, rank=2), log)
print(eq.certify(game, solution.policy).max_gain)"""
        ),
    ),
    Act(
        "crowd",
        "A hundred thousand agents",
        config=lambda settings: {"game": "demand-response", "agents": 100_000},
        play=play_crowd,
        show=show_crowd,
        code=lambda config: (
            f"""\
import equipoise as eq
town = eq.games.load("{config["game"]}", agents={config["agents"]:_})
solution = eq.solve(town)  # or objective="welfare", for the best for society
print(solution.certificate.max_gain)"""
        ),
    ),
)
