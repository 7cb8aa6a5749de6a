"""The demo, in order: a prologue and three acts, one for each structure the library knows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from equipoise.demo import _crowd, _in_context, _log, _prologue
from equipoise.report import Report
from equipoise.runs import Record, Run


@dataclass(frozen=True)
class Settings:
    """What the user may choose.

    **Example**

    >>> from equipoise.demo import ACTS, Settings
    >>> [act.name for act in ACTS if "seed" in act.config(Settings(seed=3))]
    ['in-context', 'log']
    """

    #: How many unseen games the first act plays.
    games: int = 64
    #: Where randomness begins.
    seed: int = 0


@dataclass(frozen=True)
class Act:
    """Something to see: how it is played and shown, and the lines of Python that do it.

    **Example**

    >>> from equipoise.demo import ACTS, Settings
    >>> prologue = ACTS[0]
    >>> print(prologue.code(prologue.config(Settings())))
    import equipoise as eq
    game = eq.games.load("colonel-blotto")
    solution = eq.solve(game)
    print(solution.value, solution.certificate.max_gain)
    """

    #: The name of its run folder.
    name: str
    heading: str
    #: The settings the act depends on: its config.
    config: Callable[[Settings], dict[str, Any]]
    #: What is done one after the other, in words: what the act tells while it is played.
    steps: tuple[str, ...]
    #: From the config, the run to write into, and whom to tell the steps, to the record.
    play: Callable[[dict[str, Any], Run, Callable[[str], None]], Record]
    #: What came of it, in a sentence.
    outcome: Callable[[Record], str]
    #: Adds the record to the page.
    show: Callable[[Report, Record], None]
    #: Three lines after the import; names in braces are those of the config.
    lines: tuple[str, str, str]

    @property
    def number(self) -> str:
        """The first words of the heading."""
        return self.heading.split(":")[0]

    def code(self, config: dict[str, Any]) -> str:
        """The lines that do it, to be shown and tried; the last prints what is certified."""
        numbers = {**config, "next": config.get("seed", 0) + 1}
        lines = [line.format(**numbers) for line in self.lines]
        return "\n".join(["import equipoise as eq", *lines])


ACTS = (
    Act(
        "prologue",
        "Prologue: what a certificate says",
        config=lambda settings: {"game": "colonel-blotto"},
        steps=_prologue.STEPS,
        play=_prologue.play_prologue,
        outcome=_prologue.prologue_outcome,
        show=_prologue.show_prologue,
        lines=(
            'game = eq.games.load("{game}")',
            "solution = eq.solve(game)",
            "print(solution.value, solution.certificate.max_gain)",
        ),
    ),
    Act(
        "in-context",
        "Act one: a player trained once meets games it has never seen",
        config=lambda settings: {"players": "iid3", "games": settings.games, "seed": settings.seed},
        steps=_in_context.STEPS,
        play=_in_context.play_in_context,
        outcome=_in_context.in_context_outcome,
        show=_in_context.show_in_context,
        lines=(
            'games = eq.incontext.family_of("{players}").sample({games}, key={seed})',
            'episode = eq.incontext.play(eq.incontext.load("{players}"), games, rounds=256, '
            "key={next})",
            "print(eq.certify(games, episode.last).nash_conv.mean())",
        ),
    ),
    Act(
        "log",
        "Act two: a log becomes a near-equilibrium",
        config=lambda settings: {"agents": 20, "rows": 3000, "seed": settings.seed},
        steps=_log.STEPS,
        play=_log.play_log,
        outcome=_log.log_outcome,
        show=_log.show_log,
        lines=(
            "game = eq.games.families.polymatrix({agents}, 3, 2, scale=0.25).sample(key={seed})",
            'model = eq.offline.fit(eq.offline.collect(game, "uniform", samples={rows}, '
            "key={next}), rank=2)",
            "print(eq.certify(game, eq.offline.solve(model).policy).max_gain)",
        ),
    ),
    Act(
        "crowd",
        "Act three: the best equilibrium of a city",
        config=lambda settings: {"game": "bus-or-car", "agents": 100_000, "spacing": 0.0005},
        steps=_crowd.STEPS,
        play=_crowd.play_crowd,
        outcome=_crowd.crowd_outcome,
        show=_crowd.show_crowd,
        lines=(
            'city = eq.games.load("{game}", agents={agents:_})',
            'solution = eq.solve(city, objective="welfare", spacing={spacing})',
            "print(solution.certificate.max_gain)",
        ),
    ),
)
