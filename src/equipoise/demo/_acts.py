"""The base class of the demo's acts, the prologue, and the act about a log."""

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
#: A callable that receives the next step of an act.
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """Options of the demo that the user may choose.

    **Example**

    >>> from equipoise.demo import ACTS, Settings
    >>> [act.name for act in ACTS if "seed" in act.config(Settings(seed=3))]
    ['in-context', 'log']
    """

    #: Number of unseen games in the first act. Default: 64.
    games: int = 64
    #: Seed of the random numbers. Default: 0.
    seed: int = 0


class Act(ABC):
    """One act: how it is played and shown, and the lines of Python that reproduce it.

    **Example**

    >>> from equipoise.demo import ACTS, Settings
    >>> prologue = ACTS[0]
    >>> print(prologue.code(prologue.config(Settings())))
    import equipoise as eq
    game = eq.games.load("colonel-blotto")
    solution = eq.solve(game)
    print(solution.value, solution.certificate.max_gain)
    """

    #: Name of the act's run folder, and of its texts in `acts.toml`.
    name: ClassVar[str]
    #: The steps of the act in order, in words, as reported while it is played.
    steps: ClassVar[tuple[str, ...]]

    @abstractmethod
    def config(self, settings: Settings) -> dict[str, Any]:
        """The settings on which the act depends."""

    @abstractmethod
    def play(self, config: dict[str, Any], run: Run, tell: Tell) -> Record:
        """Play the act into the run folder and return its record; `tell` receives each step."""

    @abstractmethod
    def outcome(self, record: Record) -> str:
        """Summarise the outcome in a sentence."""

    @abstractmethod
    def show(self, page: Report, record: Record) -> None:
        """Add the record to the page, below the lead of its section."""

    @property
    def heading(self) -> str:
        """The heading of the act's section on the page."""
        return _words()[self.name]["heading"]

    @property
    def number(self) -> str:
        """The first words of the heading."""
        return self.heading.split(":")[0]

    def code(self, config: dict[str, Any]) -> str:
        """The lines of Python that reproduce the act; the last prints the certified number."""
        code = _words()[self.name]["code"].format(**config, next=config.get("seed", 0) + 1)
        return f"import equipoise as eq\n{code}"

    def text(self, part: str, record: Record) -> str:
        """Return the lead of the section, or another of the act's texts."""
        return _words()[self.name][part].format(**(record.scalars | record.config))


@cache
def _words() -> dict[str, dict[str, str]]:
    return tomllib.loads((Path(__file__).parent / "acts.toml").read_text(encoding="utf-8"))


def timed(call: Callable[[], _T]) -> tuple[_T, float]:
    """Return the result of a call, and the seconds it took."""
    start = time.perf_counter()
    return call(), time.perf_counter() - start


class Prologue(Act):
    """A game with a published value, and certificates of two policies."""

    name = "prologue"
    steps = ("the first call", "the second call")

    def config(self, settings: Settings) -> dict[str, Any]:
        """The game."""
        return {"game": "colonel-blotto"}

    def play(self, config: dict[str, Any], run: Run, tell: Tell) -> Record:
        """Solve a game from the literature, and certify a policy that is not an equilibrium."""
        entry = eq.games.describe(config["game"])
        if not isinstance(entry.value, Fraction):
            raise InputError("game", "a game with an exact published value", repr(config["game"]))
        game = eq.games.load(config["game"])
        tell(self.steps[0])
        _, first = timed(lambda: eq.solve(game))
        tell(self.steps[1])
        solution, seconds = timed(lambda: eq.solve(game))
        uniform = eq.certify(game, [np.full(actions, 1 / actions) for actions in game.actions])
        rows = [("the equilibrium", solution.certificate), ("uniform policies", uniform)]
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
        """State the distance between the value found and the published one."""
        facts = record.scalars
        error = abs(float((record.solution or {})["value"]) - facts["published_value"])
        return f"The value found differs from the published {facts['published']} by {error:.1g}."

    def show(self, page: Report, record: Record) -> None:
        """Show the two certificates side by side."""
        page.table(record.tables["gains"])


#: Critics by their names on the page; the policy of the first one is certified.
CRITICS: dict[str, Any] = {"pairs (rank 2)": 2, "each agent alone (rank 1)": 1, "joint": "joint"}
BEHAVIOUR = "none: the play in the log"


class LogAct(Act):
    """A log of many agents' actions and rewards becomes a certified policy."""

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
        log.write(run.path / "log.npz")  # for the reader to try with `equipoise offline`
        before = eq.certify(game, game.uniform_policy())
        rows, answers = [], {}
        strength = np.zeros((config["agents"], config["agents"]))
        for name, rank in CRITICS.items():
            tell(name)
            start = time.perf_counter()
            model = eq.offline.fit(log, rank=rank)
            # The wrong critics are followed as far as the right one, for a fair comparison. The
            # joint one is a network, evaluated on sampled joint actions; 32 are enough.
            answer = eq.offline.solve(model, force=rank != 2, simulations=32)
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
        """State the largest gain that remains with each critic's policy."""
        gains = {row[0]: format_value(row[1], 2) for row in record.tables["critics"].rows}
        pairs, alone, joint = (gains[name] for name in CRITICS)
        return (
            f"The largest gain left is {pairs} with the critic of pairs, {joint} with the joint "
            f"critic and {alone} with the critic that treats each agent alone; the play in the log "
            f"leaves {gains[BEHAVIOUR]}."
        )

    def show(self, page: Report, record: Record) -> None:
        """Show the critics side by side, and the influence of each agent on each other."""
        page.table(record.tables["critics"])
        page.figure(
            figures.interaction_map(record.arrays["strength"]),
            alt="Heat map of how much each agent's action matters to each other agent's reward",
            caption="Influence of each agent on each other agent's reward, as found in the log.",
        )
        page.text(self.text("end", record))
