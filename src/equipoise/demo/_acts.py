"""What an act of the demo is; the prologue, and the act about a log."""

import time
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.report import Report, figures, format_value
from equipoise.runs import Record, Run, Table

_T = TypeVar("_T")
#: Is told the next step of an act.
Tell = Callable[[str], None]


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


class Act(ABC):
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

    #: The name of its run folder, and of its words in `acts.toml`.
    name: ClassVar[str]
    #: What is done one after the other, in words: what the act tells while it is played.
    steps: ClassVar[tuple[str, ...]]

    @abstractmethod
    def config(self, settings: Settings) -> dict[str, Any]:
        """The settings the act depends on."""

    @abstractmethod
    def play(self, config: dict[str, Any], run: Run, tell: Tell) -> Record:
        """The record, from the config, the run to write into, and whom to tell the steps."""

    @abstractmethod
    def outcome(self, record: Record) -> str:
        """What came of it, in a sentence."""

    @abstractmethod
    def show(self, page: Report, record: Record) -> None:
        """Add the record to the page, below its lead."""

    @property
    def heading(self) -> str:
        """The heading of its section on the page."""
        return _words()[self.name]["heading"]

    @property
    def number(self) -> str:
        """The first words of the heading."""
        return self.heading.split(":")[0]

    def code(self, config: dict[str, Any]) -> str:
        """The lines that do it, to be shown and tried; the last prints what is certified."""
        code = _words()[self.name]["code"].format(**config, next=config.get("seed", 0) + 1)
        return f"import equipoise as eq\n{code}"

    def text(self, part: str, record: Record) -> str:
        """The lead of its section, or another part of its words."""
        return _words()[self.name][part].format(**(record.scalars | record.config))


@cache
def _words() -> dict[str, dict[str, str]]:
    return tomllib.loads((Path(__file__).parent / "acts.toml").read_text(encoding="utf-8"))


def timed(call: Callable[[], _T]) -> tuple[_T, float]:
    """The result of a call, and the seconds it took."""
    start = time.perf_counter()
    return call(), time.perf_counter() - start


class Prologue(Act):
    """A game whose value is published, and what a certificate says of policies."""

    name = "prologue"
    steps = ("the first call", "the second call")

    def config(self, settings: Settings) -> dict[str, Any]:
        """The game."""
        return {"game": "colonel-blotto"}

    def play(self, config: dict[str, Any], run: Run, tell: Tell) -> Record:
        """A game from the literature, solved; and policies that are no equilibrium."""
        entry = eq.games.describe(config["game"])
        if not isinstance(entry.value, Fraction):
            raise InputError("game", "one with an exact value", repr(config["game"]))
        game = eq.games.load(config["game"])
        tell(self.steps[0])
        _, first = timed(lambda: eq.solve(game))
        tell(self.steps[1])
        solution, seconds = timed(lambda: eq.solve(game))
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

    def outcome(self, record: Record) -> str:
        """How near the value is to the published one."""
        facts = record.scalars
        error = abs(float((record.solution or {})["value"]) - facts["published_value"])
        return f"The value found differs from the published {facts['published']} by {error:.1g}."

    def show(self, page: Report, record: Record) -> None:
        """Two certificates side by side."""
        page.table(record.tables["gains"])


#: Critics by their names on the page; the first is the one whose policy is certified.
CRITICS: dict[str, Any] = {"pairs (rank 2)": 2, "each agent alone (rank 1)": 1, "joint": "joint"}
BEHAVIOUR = "none: what the log shows"


class LogAct(Act):
    """What many agents did and earned becomes a certified policy."""

    name = "log"
    steps = ("collecting the log", *CRITICS)

    def config(self, settings: Settings) -> dict[str, Any]:
        """The sizes of the game and of the log."""
        return {"agents": 20, "rows": 3000, "seed": settings.seed}

    def play(self, config: dict[str, Any], run: Run, tell: Tell) -> Record:
        """Fit critics of several ranks to one log, learn from each, and certify the answers."""
        tell(self.steps[0])
        family = eq.games.families.polymatrix(config["agents"], 3, 2, scale=0.25)
        game = family.sample(key=config["seed"])
        log = eq.offline.collect(game, "uniform", samples=config["rows"], key=config["seed"] + 1)
        log.write(run.path / "log.npz")  # to be tried with `equipoise offline`
        before = eq.certify(game, game.uniform_policy())
        rows, answers = [], {}
        strength = np.zeros((config["agents"], config["agents"]))
        for name, rank in CRITICS.items():
            tell(name)
            start = time.perf_counter()
            model = eq.offline.fit(log, rank=rank)
            # A wrong critic is followed as far as the right one: that is the comparison.
            answer = eq.offline.solve(model, force=rank != 2)
            seconds = time.perf_counter() - start
            true = eq.certify(game, answer.policy)
            answers[name] = replace(answer, value=true.value, certificate=true)
            rows.append((name, float(true.max_gain), seconds))
            if rank == 2 and model.interactions is not None:
                strength = np.asarray(model.interactions.strength)
        rows.append((BEHAVIOUR, float(before.max_gain), 0.0))
        gains = [gain for _, gain, _ in rows]
        scalars = {
            "game": f"{config['agents']} agents, a log of {config['rows']:,} rows",
            "seconds": rows[0][2],
            "as announced": gains[0] < min(gains[1:]),
        }
        table = Table(("critic", "largest gain in the true game", "seconds"), rows)
        arrays, plain = {"strength": strength}, answers[rows[0][0]].to_plain()
        return Record("log", config, scalars, arrays, {"critics": table}, plain)

    def outcome(self, record: Record) -> str:
        """What could be gained by leaving what each critic advises."""
        gains = {row[0]: format_value(row[1], 2) for row in record.tables["critics"].rows}
        pairs, alone, joint = (gains[name] for name in CRITICS)
        return (
            f"The largest gain left is {pairs} with the critic of pairs, {joint} with the joint "
            f"one and {alone} with the one of each agent alone; in the log's own play it is "
            f"{gains[BEHAVIOUR]}."
        )

    def show(self, page: Report, record: Record) -> None:
        """The critics side by side, and who matters to whom."""
        page.table(record.tables["critics"])
        page.figure(
            figures.interaction_map(record.arrays["strength"]),
            alt="Heat map of how much each agent's action matters to each other agent's reward",
            caption="Who matters to whom, as found in the log.",
        )
        page.text(self.text("end", record))
