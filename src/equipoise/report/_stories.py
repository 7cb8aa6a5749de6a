"""What is said on the page of a record, by its kind: one row a kind, words for people."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise.runs import Record


@dataclass(frozen=True)
class Story:
    """The title and the lead of a page, paragraphs below its numbers, and captions of tables."""

    title: str = ""
    lead: str = ""
    text: str = ""
    captions: Mapping[str, str] = field(default_factory=dict)
    #: Table -> the column by which its rows are sorted, largest first; others stay in their order.
    sorted_by: Mapping[str, str] = field(default_factory=dict)
    #: The table that the page begins with, before anything else.
    first: str = ""


def story_of(record: Record) -> Story:
    """What is said of a record; nothing of a kind that is not in the table.

    >>> story_of(Record("solution", {}, {"kind": "matrix", "description": "2 x 2"})).lead
    '2 x 2, solved and certified.'
    """
    kind = str(record.scalars.get("kind", record.name))
    if "own_gap" in (record.solution or {}).get("stats", {}):
        kind = "offline"
    return STORIES[kind](record) if kind in STORIES else Story()


def status_of(record: Record) -> str:
    """What a solver or learner says of its answer; nothing where there is none.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("matching-pennies")
    >>> eq.report.status_of(eq.report.record_of(game, eq.solve(game))).split(":")[0]
    'solved'
    """
    status = (record.solution or {}).get("status") or record.scalars.get("status")
    if isinstance(status, Mapping):
        return f"{status.get('name')}: {status.get('message')}"
    return status if isinstance(status, str) else ""


def _solved(record: Record) -> Story:
    scalars, said = record.scalars, status_of(record)
    return Story(
        title=str(scalars.get("game", "")),
        lead=f"{scalars.get('description', record.name)}, solved and certified.",
        text=f"What the solver says: {said}." if said else "",
    )


def _crowd(record: Record, others: str) -> Story:
    story = _solved(record)
    captions = {
        "who_plays_what": "Who plays what.",
        "against_other_equilibria": f"Against other ε-equilibria. {others}",
        "aggregate": "Aggregate in every step and state.",
    }
    return Story(story.title, story.lead, story.text, captions)


_ONE_STEP = (
    "Every equilibrium lies in a feasible cell of the grid of aggregates. One was sought, rounded "
    "to whole agents and certified in every region of such cells. It is stable if best replies "
    "lead back to it after a small push."
)
_MARKOV = "The same game solved for the largest and for the smallest mean reward."


def _offline(record: Record) -> Story:
    solution: Any = record.solution
    stats = solution["stats"]
    sure = "The strongest terms, with 95% intervals."
    if any(one["lower"] is None for one in stats.get("interactions", ())):
        sure = (
            "The strongest terms. Where the fit leaves nothing of the rewards, nothing tells how "
            "sure a term is, and there is no interval."
        )
    told = [f"{status_of(record)}."]
    if stats.get("own_interval"):
        low, high = (f"{x:.3g}" for x in stats["own_interval"])
        told.append(f"By leaving the log's own play, somebody gains {low} to {high}.")
    told += stats.get("warnings", ())
    if solution["policy"]["kind"] == "mixture" and np.shape(solution["policy"]["policies"])[0] > 1:
        told.append(
            "The policy is a mixture: one component is drawn for all agents, and the table shows "
            "how often each agent then plays what. A gain can be negative: correlated play may be "
            "worth more than every fixed deviation. Bounds come from rows that the policies were "
            "not learned from, and take the game to stay as it was logged."
        )
    told += stats.get("notes", ())
    return Story(
        title=record.name,
        lead=f"{stats['samples']:,} samples of {stats['agents']:,} agents: what they should "
        "do, and what anybody could gain by doing something else.",
        text="\n\n".join(told),
        first="advice" if "earned" in stats else "agents",
        captions={
            "advice": "What to play, with probabilities; what was earned in the log, what the "
            "advice is expected to earn, and the most that anybody gains by leaving it.",
            "classes": "Structure: classes of rewards and their held-out errors, as parts of the "
            "variance of rewards; how much each explains of what can be explained.",
            "interactions": f"Who matters to whom. {sure}",
            "agents": "Agents with the largest gains in the fitted model.",
        },
        sorted_by={"agents": "gain in the model"},
    )


def _evaluation(record: Record) -> Story:
    config = record.config
    family = config["family"]
    sizes = " x ".join(str(count) for count in family["actions"])
    states = f", {family['states']} states" if family["states"] else ""
    return Story(
        title="In-context players, evaluated",
        lead=f"{config['players']}: {config['games']:,} games of the family {family['name']} "
        f"({sizes} actions{states}) that training never saw, {config['rounds']:,} rounds each.",
        captions={
            "gap": "Mean NashConv of the last policies.",
            "gap_error": "Standard errors over games.",
            "rounds_to_gap": "Rounds that mirror descent needs for the players' final gap.",
            "opponents": "Opponents. One player meets others, in either seat. A best responder "
            "knows the game and the very policy it meets. Rewards are per round; what is beyond "
            "the value of the game is what the player earned more than either could have secured. "
            "`late` is the last quarter.",
            "distance": "Half the sum of the differences between what the players play and what "
            "mirror descent would play after the same actions and rewards.",
        },
    )


def _designed(record: Record) -> Story:
    return Story(
        title="Incentives",
        lead="Each point is a game of its own, solved and certified; equilibria that missed their "
        "tolerance are left out.",
        text=f"What the search says: {status_of(record)}.",
        captions={"tried": "The best parameters tried."},
    )


#: Kind of a record -> what is said of it.
STORIES: dict[str, Callable[[Record], Story]] = {
    "matrix": _solved,
    "normal-form": _solved,
    "markov": _solved,
    "aggregative": lambda record: _crowd(record, _ONE_STEP),
    "aggregative-markov": lambda record: _crowd(record, _MARKOV),
    "offline": _offline,
    "evaluate": _evaluation,
    "design": _designed,
}

#: Names in records and configs -> words; names that are not here are shown as they are.
WORDS = {
    # Numbers of records.
    "stats.agents": "agents",
    "stats.best_equilibrium": "welfare of the best equilibrium found",
    "stats.best_possible": "objective that no equilibrium exceeds",
    "stats.bound": "largest gain, at most",
    "stats.cells": "cells of the grid of aggregates",
    "stats.classes": "classes of agents who play alike",
    "stats.delta": "most that one agent moves the aggregate",
    "stats.contexts": "contexts",
    "stats.feasible": "cells that can hold an equilibrium",
    "stats.gap.gap": "gap in the fitted model",
    "stats.gap.level": "confidence of the interval of the gap",
    "stats.gap.misfit": "what misfit adds to the interval",
    "stats.structure.copies": "copied rows that were left out",
    "stats.structure.drift": "variance explained by letting rewards drift",
    "stats.structure.floor": "part of the variance of rewards that is noise",
    "stats.iterations": "iterations",
    "stats.lipschitz": "Lipschitz constant of rewards",
    "stats.lipschitz_estimated": "whether it was estimated",
    "stats.method": "found by",
    "stats.objective": "objective",
    "stats.optimum": "welfare of the social optimum found",
    "stats.own_gap": "gap of the log's own play",
    "stats.parameters": "parameters of a critic",
    "stats.pivots": "pivots",
    "stats.plan_seconds": "seconds of planning",
    "stats.planning_bound": "largest gain promised by planning",
    "stats.plans": "times planned",
    "stats.price_of_anarchy": "price of anarchy",
    "stats.price_of_stability": "price of stability",
    "stats.programs": "linear programs solved",
    "stats.rank": "interaction rank",
    "stats.relaxed": "factor that the tolerance had to grow by",
    "stats.sample_bytes": "bytes of samples",
    "stats.samples": "samples",
    "stats.samples_per_parameter": "samples per parameter",
    "stats.seconds": "seconds of solving",
    "stats.spacing": "side of the cells",
    "stats.steps.hoffman_karp": "Hoffman-Karp steps",
    "stats.steps.newton": "Newton steps",
    "stats.sweeps": "sweeps over the states",
    "stats.tolerance": "tolerance of best replies",
    "stats.types": "types of agents",
    "stats.visited_cells": "cells visited",
    "stats.worst_equilibrium": "welfare of the worst equilibrium found",
    "stats.welfare": "welfare",
    # Curves.
    "average_gap": "gap of the average policies",
    "row_regret": "regret of row",
    "column_regret": "regret of column",
    # Settings.
    "env.game fingerprint": "simulator: fingerprint of the game",
    "env.key": "simulator: key",
    "env.noise": "simulator: noise of rewards",
    "env.start": "simulator: probabilities of starting states",
    "game.lipschitz": "game: Lipschitz constant of rewards",
    "game.transition_lipschitz": "game: Lipschitz constant of transitions",
    "game_sha256": "SHA-256 of the game's file",
    "log_sha256": "SHA-256 of the log",
}
#: What names mean in records of ours; in those of others, they may mean anything.
RECORDS = {
    "self-play": {"uniform": "gap of uniform play"},
    "aggregative-learning": {
        "width": "upper minus lower value",
        "bound": "largest gain, at most",
        "confidence": "with probability",
        "regret": "largest gain of an episode's policy, at most",
    },
    "solution": {"bound": "largest gain promised", "value": "value, or mean reward"},
}
#: Beginnings of names that end as they like.
_BEGINNINGS = {
    "stats.stages.": "games solved by ",
    "env.": "simulator: ",
    "game.": "game: ",
}


def in_words(name: str, record: str = "") -> str:
    """What a number, curve or setting is called on a page; `record` is the name of the record.

    >>> in_words("stats.relaxed"), in_words("game.horizon"), in_words("model.layers")
    ('factor that the tolerance had to grow by', 'game: horizon', 'model.layers')
    >>> in_words("width"), in_words("width", "aggregative-learning")
    ('width', 'upper minus lower value')
    """
    known = WORDS | RECORDS.get(record, {})
    if name in known:
        return known[name]
    for beginning, words in _BEGINNINGS.items():
        if name.startswith(beginning):
            return words + name.removeprefix(beginning)
    return name
