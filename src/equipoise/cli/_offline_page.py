"""The page of `equipoise offline`, from its record alone."""

from collections.abc import Mapping
from typing import Any

from equipoise.report import Report, figures
from equipoise.runs import Record, Table
from equipoise.runs.environment import describe_environment

#: Maps of more agents than this are drawn for those who matter most.
_LARGEST = 40


def offline_page(record: Record) -> Report:
    """What the log supports, who matters to whom, and what was learned."""
    scalars = record.scalars
    page = Report(
        record.name,
        f"{scalars['samples']:,} samples of {scalars['agents']:,} agents: what they should do, "
        "and how far that is from an equilibrium.",
    )
    page.section("Answer")
    page.facts(
        {
            **_gap(scalars),
            "gap of the log's own play in the fitted model": scalars[
                "gap of the log's own play in the fitted model"
            ],
            "interaction rank": scalars["rank"],
            "samples per parameter": scalars["samples per parameter"],
        }
    )
    page.text(f"{scalars['status']}.\n\nGap: {scalars['gap, in words']}.")
    page.text(
        "A policy looks better in the model that it was learned in than it is: the gap there is "
        "often below the interval, which comes from models of resampled logs and is the answer."
        if scalars["learned"]
        else "The policy is that of the log. The largest of noisy gains is too large in a model, "
        "and more so in models of resampled logs; an interval with a confidence level allows for "
        "that, a range does not."
    )
    page.text(
        "Deviations on support are those whose chi-squared divergence from the log's play is at "
        "most one: about them the log itself speaks. What is off support rests on the model "
        "alone: if it is the larger part, more rows of the same play will not help, other play "
        "would. The policy is a mixture of product policies: one component is drawn for all "
        "agents, `policies` and `weights` in `record.npz`. A gain can be negative: correlated "
        "play may be worth more than every fixed deviation."
    )
    if "ranks" in record.tables:
        page.section("Interaction rank")
        page.text(
            "Held-out error as a part of the variance of rewards. Chosen is the smallest rank "
            "within one standard error of the best."
        )
        page.table(record.tables["ranks"])
    page.section("Who matters to whom")
    _add_map(page, record)
    if record.tables["interactions"].rows:
        page.table(record.tables["interactions"], caption=_caption(record.tables["interactions"]))
    page.section("Agents")
    worst = sorted(record.tables["agents"].rows, key=lambda row: -row[2])[:_LARGEST]
    page.table(
        Table(record.tables["agents"].columns, worst),
        caption="Agents with the largest gains in the fitted model.",
    )
    environment = describe_environment()
    return page.reproduce(" ".join(environment["command"]), environment)


def _gap(scalars: Mapping[str, Any]) -> dict[str, Any]:
    """The interval first, where there is one, and then the gap in the fitted model."""
    low, high = (scalars[f"gap over resampled logs, {end}"] for end in ("lower", "upper"))
    facts: dict[str, Any] = {}
    if low is not None:
        level = scalars["gap over resampled logs, level"]
        name = f"gap, range over {scalars['resampled logs']} resampled logs"
        if level is not None:
            name = f"gap over resampled logs ({level:.0%})"
        facts[name] = f"{low:.4g} to {high:.4g}"
    return facts | {"gap in the fitted model": scalars["gap in the fitted model"]}


def _caption(interactions: Table) -> str:
    if any(row[3] is None for row in interactions.rows):
        return (
            "The strongest terms. Where the fit leaves nothing of the rewards, nothing tells how "
            "sure a term is, and there is no interval."
        )
    return "The strongest terms, with 95% intervals."


def _add_map(page: Report, record: Record) -> None:
    strength: Any = record.arrays["strength_total"]
    if not strength.any():
        page.text("Nobody's actions matter to anybody else: the rewards have rank 1.")
        return
    note = ""
    if len(strength) > _LARGEST:
        note = f" The {_LARGEST} agents who matter most are shown."
    names = [str(i) for i in range(len(strength))]
    page.figure(
        figures.interaction_map(strength, names=names, most=_LARGEST),
        alt="Heat map of how much each agent's actions matter to each agent's reward.",
        caption="Standard deviation of what an agent's action adds to another's reward." + note,
    )
