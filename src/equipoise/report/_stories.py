"""Texts on the page of a record, by kind of record: one row per kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise.core.results import status_from_plain
from equipoise.runs import Record


@dataclass(frozen=True)
class Story:
    """Title and lead of a page, paragraphs below its numbers, and captions of tables."""

    title: str = ""
    lead: str = ""
    text: str = ""
    captions: Mapping[str, str] = field(default_factory=dict)
    #: Table -> column by which its rows are sorted, largest first. Other tables keep their order.
    sorted_by: Mapping[str, str] = field(default_factory=dict)
    #: The table shown at the top of the page, and the heading above it.
    first: str = ""
    heading: str = "Answer"


def story_of(record: Record) -> Story:
    """Return the texts for a record; empty for a kind that is not in the table.

    >>> story_of(Record("solution", {}, {"kind": "matrix", "description": "2 x 2"})).lead
    '2 x 2, solved and certified.'
    """
    kind = str(record.scalars.get("kind", record.name))
    if {"own_gap", "never_present"} & (record.solution or {}).get("stats", {}).keys():  # of a log
        kind = "offline"
    elif "structure" in record.scalars:
        kind = "discover"
    return STORIES[kind](record) if kind in STORIES else Story()


def status_of(record: Record) -> str:
    """Return the status message of a solver or learner; empty if there is none.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("matching-pennies")
    >>> eq.report.status_of(eq.report.record_of(game, eq.solve(game))).split(":")[0]
    'solved'
    """
    status = (record.solution or {}).get("status") or record.scalars.get("status")
    if isinstance(status, Mapping):
        return str(status_from_plain(status))
    return status if isinstance(status, str) else ""


def _solved(record: Record) -> Story:
    scalars, said = record.scalars, status_of(record)
    return Story(
        title=str(scalars.get("game", "")),
        lead=f"{scalars.get('description', record.name)}, solved and certified.",
        text=f"Solver status: {said}." if said else "",
    )


def _crowd(record: Record, others: str) -> Story:
    story = _solved(record)
    captions = {
        "who_plays_what": "Agents by type and action.",
        "against_other_equilibria": f"Comparison with other ε-equilibria. {others}",
        "aggregate": "Aggregate in each step and state.",
    }
    return Story(story.title, story.lead, story.text, captions)


_ONE_STEP = (
    "Every equilibrium lies in a feasible cell of the grid of aggregates. In every region of such "
    "cells, an equilibrium was sought, rounded to whole agents and certified. It is stable if "
    "best-reply dynamics return to it after a small perturbation."
)
_MARKOV = "The same game, solved for the largest and for the smallest mean reward."


_STRUCTURE = {
    "classes": "Structure: classes of rewards and their held-out errors, as shares of the variance "
    "of rewards, and the share of the explainable variance that each explains.",
    "coverage": "Coverage: how often each agent played each action.",
}


def _discovered(record: Record) -> Story:
    structure = record.scalars["structure"]
    told = [*structure["warnings"], *record.scalars.get("notes", ())]
    if refusal := structure["refusal"]:
        told = [*f"Nothing should be learned from this log: {refusal}.".split("\n"), *told]
    return Story(
        title=record.name,
        lead="Classes of rewards compared on held-out rows, and whether the log suffices to learn.",
        text="\n\n".join(told),
        captions={**_STRUCTURE, "interactions": "Agents whose actions affect an agent's reward."},
        first="classes",
        heading="Structure",
    )


def _offline(record: Record) -> Story:
    solution: Any = record.solution
    stats = solution["stats"]
    sure = "The strongest terms, with 95% intervals."
    if any(one["lower"] is None for one in stats.get("interactions", ())):
        sure = (
            "The strongest terms. If the fit explains the rewards completely, no residuals remain "
            "from which to estimate an interval, and none is shown."
        )
    told = f"{status_of(record)}.".split("\n")
    if stats.get("own_interval"):
        low, high = (f"{x:.3g}" for x in stats["own_interval"])
        told.append(f"By deviating from the logged play, an agent could gain {low} to {high}.")
    told += stats.get("warnings", ())
    if solution["policy"]["kind"] == "mixture" and np.shape(solution["policy"]["policies"])[0] > 1:
        told.append(
            "This advice needs a coordinator, who draws one of the policies listed in policy.csv "
            "for all agents at once. The table shows how often each agent then plays each action. "
            "An agent that draws its actions independently may lose the promised reward. A gain "
            "can be negative: correlated play may be worth more than every fixed deviation."
        )
    told += stats.get("notes", ())
    learned = status_from_plain(solution["status"]).name == "learned"
    what = "what each agent should do" if learned else "what each agent did (this is not advice)"
    first = "advice" if learned else "own play"
    advised, played = "Recommended actions with probabilities", "Frequencies of actions"
    if solution["policy"]["kind"] == "continuous":
        advised, played = "Recommended actions", "Mean actions"
    return Story(
        title=record.name,
        lead=f"{stats['samples']:,} samples of {stats['agents']:,} agents: {what}, and how much it "
        "could gain by deviating.",
        text="\n\n".join(told),
        first=first if "earned" in stats else "agents",
        heading="Advice" if learned else "The log's own play",
        captions={
            "advice": f"{advised}; in all contexts, mean reward in the log, expected reward under "
            "the advice, and the largest gain by deviating from it.",
            "own play": f"The log's own play; this is not advice. {played}; in all contexts, mean "
            "reward in the log and as estimated, and the largest gain by deviating.",
            **_STRUCTURE,
            "interactions": f"Interactions between agents. {sure}",
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
        title="Evaluation of in-context players",
        lead=f"{config['players']}: {config['games']:,} held-out games of the family "
        f"{family['name']} ({sizes} actions{states}), {config['rounds']:,} rounds each.",
        captions={
            "gap": "Mean NashConv of the last policies.",
            "gap_error": "Standard errors over games.",
            "rounds_to_gap": "Rounds that mirror descent needs for the players' final NashConv.",
            "opponents": "Opponents: the player meets others in either seat. A best responder "
            "knows the game and the policy it meets. Rewards are per round. The excess over the "
            "value of the game is what the player earned beyond the amount that either side can "
            "guarantee. `late` is the last quarter of the rounds.",
            "distance": "Half the sum of absolute differences between the players' policies and "
            "those of mirror descent after the same actions and rewards.",
        },
    )


def _designed(record: Record) -> Story:
    return Story(
        title="Incentives",
        lead="Each point is one game, solved and certified. Equilibria that missed their tolerance "
        "are left out.",
        text=f"Search status: {status_of(record)}.",
        captions={"tried": "The best parameters tried."},
    )


#: Kind of a record -> function that returns its texts.
STORIES: dict[str, Callable[[Record], Story]] = {
    "matrix": _solved,
    "normal-form": _solved,
    "markov": _solved,
    "aggregative": lambda record: _crowd(record, _ONE_STEP),
    "aggregative-markov": lambda record: _crowd(record, _MARKOV),
    "offline": _offline,
    "discover": _discovered,
    "evaluate": _evaluation,
    "design": _designed,
}

#: Names in records and configs -> words shown on pages; other names are shown as they are.
WORDS = {
    # Numbers of records.
    "stats.agents": "agents",
    "stats.best_equilibrium": "welfare of the best equilibrium found",
    "stats.best_possible": "upper bound on the objective of any equilibrium",
    "stats.bound": "upper bound on the largest gain",
    "stats.cells": "cells of the grid of aggregates",
    "stats.classes": "classes of agents who play alike",
    "stats.delta": "largest change of the aggregate by one agent",
    "stats.contexts": "contexts",
    "stats.feasible": "cells that can contain an equilibrium",
    "stats.gap.gap": "largest gain in the fitted model",
    "stats.gap.level": "confidence of the interval of the largest gain",
    "stats.gap.misfit": "widening of the interval for misfit",
    "stats.structure.copies": "duplicate rows left out",
    "stats.structure.drift": "variance explained by letting rewards drift",
    "stats.structure.floor": "share of the variance of rewards that is noise",
    "stats.iterations": "iterations",
    "stats.lipschitz": "Lipschitz constant of rewards",
    "stats.lipschitz_estimated": "whether the Lipschitz constant was estimated",
    "stats.method": "method",
    "stats.objective": "objective",
    "stats.optimum": "welfare of the social optimum found",
    "stats.own_gap": "largest gain in the fitted model, logged play",
    "stats.parameters": "parameters per critic",
    "stats.pivots": "pivots",
    "stats.plan_seconds": "planning time (seconds)",
    "stats.planning_bound": "bound on the largest gain from planning",
    "stats.plans": "number of planning rounds",
    "stats.price_of_anarchy": "price of anarchy",
    "stats.price_of_anarchy.lower": "price of anarchy, at least",
    "stats.price_of_anarchy.upper": "price of anarchy, at most",
    "stats.price_of_stability": "price of stability",
    "stats.price_of_stability.lower": "price of stability, at least",
    "stats.price_of_stability.upper": "price of stability, at most",
    "stats.programs": "linear programs solved",
    "stats.rank": "interaction rank",
    "stats.relaxed": "factor by which the tolerance was increased",
    "stats.sample_bytes": "size of the samples (bytes)",
    "stats.samples": "samples",
    "stats.samples_per_parameter": "samples per parameter",
    "stats.seconds": "solving time (seconds)",
    "stats.spacing": "side length of the cells",
    "stats.steps.hoffman_karp": "Hoffman-Karp steps",
    "stats.steps.newton": "Newton steps",
    "stats.sweeps": "sweeps over the states",
    "stats.tolerance": "tolerance of best responses",
    "stats.types": "types of agents",
    "stats.visited_cells": "cells visited",
    "stats.worst_equilibrium": "welfare of the worst equilibrium found",
    "stats.welfare": "welfare",
    # Curves.
    "gap": "NashConv",
    "average_gap": "NashConv of the average policies",
    "omd_gap": "NashConv of mirror descent",
    "row_regret": "regret of the row player",
    "column_regret": "regret of the column player",
    # Settings.
    "env.game fingerprint": "simulator: fingerprint of the game",
    "env.key": "simulator: key",
    "env.noise": "simulator: noise of rewards",
    "env.start": "simulator: distribution of starting states",
    "game.lipschitz": "game: Lipschitz constant of rewards",
    "game.transition_lipschitz": "game: Lipschitz constant of transitions",
    "game_sha256": "SHA-256 of the game's file",
    "log_sha256": "SHA-256 of the log",
}
#: Names with a special meaning in our own kinds of records; elsewhere they may mean anything.
RECORDS = {
    "self-play": {"uniform": "NashConv of uniform play"},
    "aggregative-learning": {
        "width": "upper minus lower value",
        "bound": "upper bound on the largest gain",
        "confidence": "confidence level",
        "regret": "upper bound on the largest gain of an episode's policy",
    },
    "solution": {"bound": "guaranteed bound on the largest gain", "value": "value, or mean reward"},
}
#: Prefixes of names with arbitrary endings.
_BEGINNINGS = {
    "stats.stages.": "games solved by ",
    "env.": "simulator: ",
    "game.": "game: ",
}


def in_words(name: str, record: str = "") -> str:
    """Return the displayed name of a number, curve or setting; `record` names the record.

    >>> in_words("stats.relaxed"), in_words("game.horizon"), in_words("model.layers")
    ('factor by which the tolerance was increased', 'game: horizon', 'model.layers')
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
