"""The demo, in order: a prologue and three acts, one for each structure the library knows.

An act plays something into a record, shows the record on the page, and ends with a certificate
and the lines of Python that did it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from equipoise.cli._crowd_act import play_crowd, show_crowd
from equipoise.cli._incontext_act import play_in_context, show_in_context
from equipoise.cli._log_act import play_log, show_log
from equipoise.cli._prologue import play_prologue, show_prologue
from equipoise.report import Report
from equipoise.runs import Record, Run


@dataclass(frozen=True)
class Settings:
    """What the user may choose."""

    games: int = 64
    seed: int = 0


#: The lines of each act after `import equipoise as eq`; names in braces are those of its config.
_LINES = {
    "prologue": (
        'solution = eq.solve(eq.games.load("{game}"))',
        "print(solution.value, solution.certificate.max_gain)",
    ),
    "in-context": (
        'games = eq.incontext.family_of("{players}").sample({games}, key={seed})',
        'players = eq.incontext.load("{players}")',
        "episode = eq.incontext.play(players, games, rounds=256, key={next})",
        "print(eq.certify(games, episode.last).nash_conv.mean())",
    ),
    "log": (
        "game = eq.games.families.polymatrix({agents}, 3, 2, scale=0.25).sample(key={seed})",
        'log = eq.offline.collect(game, "uniform", samples={rows}, key={next})',
        "advice = eq.offline.solve(eq.offline.fit(log, rank=2), log)",
        "print(eq.certify(game, advice.policy).max_gain)",
    ),
    "crowd": (
        'city = eq.games.load("{game}", agents={agents:_})',
        'solution = eq.solve(city, objective="welfare", spacing={spacing})',
        "print(solution.certificate.max_gain)",
    ),
}


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

    def code(self, config: dict[str, Any]) -> str:
        """The lines that do it, to be shown and tried; the last prints what is certified."""
        numbers = {**config, "next": config.get("seed", 0) + 1}
        lines = [line.format(**numbers) for line in _LINES[self.name]]
        return "\n".join(["import equipoise as eq", *lines])


ACTS = (
    Act(
        "prologue",
        "Prologue: what a certificate says",
        config=lambda settings: {"game": "colonel-blotto"},
        play=play_prologue,
        show=show_prologue,
    ),
    Act(
        "in-context",
        "Act one: a player trained once meets games it has never seen",
        config=lambda settings: {"players": "iid3", "games": settings.games, "seed": settings.seed},
        play=play_in_context,
        show=show_in_context,
    ),
    Act(
        "log",
        "Act two: a log becomes a near-equilibrium",
        config=lambda settings: {"agents": 20, "rows": 3000, "seed": settings.seed},
        play=play_log,
        show=show_log,
    ),
    Act(
        "crowd",
        "Act three: the best equilibrium of a city",
        config=lambda settings: {
            "game": "demand-response",
            "agents": 100_000,
            "spacing": 0.001,
            "several": "public-good",
        },
        play=play_crowd,
        show=show_crowd,
    ),
)
