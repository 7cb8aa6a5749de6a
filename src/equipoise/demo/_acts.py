"""The demo, in order: a prologue and three acts, one for each structure the library knows.

The prologue and the act about a log are played here, the others in files of their own.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.demo import _crowd, _in_context
from equipoise.report import Report, figures, format_value
from equipoise.runs import Record, Run, Table


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


_PROLOGUE_STEPS = ("the first call", "the second call")


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

    _, first = solve(_PROLOGUE_STEPS[0])
    solution, seconds = solve(_PROLOGUE_STEPS[1])
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


#: Critics by their names on the page; the first is the one whose policy is certified.
CRITICS: dict[str, Any] = {"pairs (rank 2)": 2, "each agent alone (rank 1)": 1, "joint": "joint"}
BEHAVIOUR = "none: what the log shows"
_LOG_STEPS = ("collecting the log", *CRITICS)


def play_log(config: dict[str, Any], run: Run, tell: Callable[[str], None]) -> Record:
    """Fit critics of several ranks to one log, learn from each, and certify in the true game."""
    tell(_LOG_STEPS[0])
    family = eq.games.families.polymatrix(config["agents"], 3, 2, scale=0.25)
    game = family.sample(key=config["seed"])
    log = eq.offline.collect(game, "uniform", samples=config["rows"], key=config["seed"] + 1)
    log.write(run.path / "log.npz")  # to be tried with `equipoise offline`
    before = eq.certify(game, game.uniform_policy())
    rows, answers, seconds = [], {}, {}
    strength = np.zeros((config["agents"], config["agents"]))
    for name, rank in CRITICS.items():
        tell(name)
        start = time.perf_counter()
        model = eq.offline.fit(log, rank=rank)
        # A wrong critic is followed as far as the right one: that is the comparison.
        answer = eq.offline.solve(model, force=rank != 2)
        seconds[name] = time.perf_counter() - start
        true = eq.certify(game, answer.policy)
        answers[name] = replace(answer, value=true.value, certificate=true)
        rows.append((name, float(true.max_gain), seconds[name]))
        if rank == 2 and model.interactions is not None:
            strength = np.asarray(model.interactions.strength)
    rows.append((BEHAVIOUR, float(before.max_gain), 0.0))
    best, *_ = CRITICS
    gains = [gain for _, gain, _ in rows]
    scalars = {
        "game": f"{config['agents']} agents, a log of {config['rows']:,} rows",
        "seconds": seconds[best],
        "as announced": gains[0] < min(gains[1:]),
    }
    table = Table(("critic", "largest gain in the true game", "seconds"), rows)
    arrays, plain = {"strength": strength}, answers[best].to_plain()
    return Record("log", config, scalars, arrays, {"critics": table}, plain)


def log_outcome(record: Record) -> str:
    """What could be gained by leaving what each critic advises."""
    gains = {row[0]: format_value(row[1], 2) for row in record.tables["critics"].rows}
    pairs, alone, joint = (gains[name] for name in CRITICS)
    return (
        f"The largest gain left is {pairs} with the critic of pairs, {joint} with the joint one "
        f"and {alone} with the one of each agent alone; in the log's own play it is "
        f"{gains[BEHAVIOUR]}."
    )


def show_log(page: Report, record: Record) -> None:
    """The critics side by side, and who matters to whom."""
    agents, rows = record.config["agents"], record.config["rows"]
    page.text(
        f"A log tells what {agents} agents did, at random, and what each earned, in {rows:,} rows. "
        "Nobody can experiment any more. A critic is fitted to the log, and the agents learn "
        "against it without a single new sample. Rewards are sums of terms of two agents each, "
        "and a critic of that form, of interaction rank 2, needs few rows. One of all actions at "
        f"once would have to tell 3^{agents} joint actions apart, and one that ignores the others "
        "is wrong with any number of rows. The game is known here, so that every answer can be "
        "certified:"
    )
    page.table(record.tables["critics"])
    page.figure(
        figures.interaction_map(record.arrays["strength"]),
        alt="Heat map of how much each agent's action matters to each other agent's reward",
        caption="Who matters to whom, as found in the log.",
    )
    page.text(
        "The log is kept: `equipoise offline` given the file `log.npz` of this act's run folder "
        "chooses the rank by held-out error and estimates the gap without knowing the game."
    )


ACTS = (
    Act(
        "prologue",
        "Prologue: what a certificate says",
        config=lambda settings: {"game": "colonel-blotto"},
        steps=_PROLOGUE_STEPS,
        play=play_prologue,
        outcome=prologue_outcome,
        show=show_prologue,
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
        steps=_LOG_STEPS,
        play=play_log,
        outcome=log_outcome,
        show=show_log,
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
