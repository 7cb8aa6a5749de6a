"""From a solution to a record, and from the record alone to a page of the report."""

from pathlib import Path
from typing import Any

import numpy as np

from equipoise.cli._documents import PLAYERS
from equipoise.cli._inputs import describe, kind_of
from equipoise.core import Solution
from equipoise.report import (
    Report,
    RunFolder,
    certificate_of,
    certificate_table,
    compare,
    figures,
    rounding_note,
    state_table,
)
from equipoise.runs import Record
from equipoise.runs.environment import describe_environment

#: Matrices with more rows or columns than this are not drawn.
_LARGEST = 40


def solution_record(
    name: str, game: Any, solution: Solution, seconds: float, config: Any = None
) -> Record:
    """What a page needs to know of a solution; of a batch only values and gains."""
    certificate = solution.certificate
    kind = "batch" if game.batch_shape else kind_of(game)
    arrays: dict[str, Any] = {
        "gains": certificate.gains,
        "certified_value": certificate.value,
        "value": solution.value,
        "solved": solution.status.solved,
    }
    if certificate.state_gains is not None:
        arrays["state_gains"] = certificate.state_gains
    if not game.batch_shape:
        arrays |= {f"policy_{i}": player for i, player in enumerate(solution.policy)}
        if kind == "matrix":
            arrays["payoff"] = game.payoff
            pairs = zip(PLAYERS, solution.policy, strict=True)
            arrays |= {f"nash/{name}": player for name, player in pairs if len(player) == 3}
    scalars = {
        "kind": kind,
        "game": describe(game),
        "seconds": seconds,
        "method": certificate.method,
        "exact": certificate.exact,
        "concept": certificate.concept,
        "status": str(solution.status),
    }
    return Record(name, config or {}, scalars, arrays)


def write_run_page(folder: Path, *, anew: bool = False) -> Path | None:
    """Write the page about a finished run into its folder, unless it is there; where it is.

    An unfinished run has none: `equipoise report` shows it as far as it is.

    >>> write_run_page(Path("no-run"))
    """
    page = folder / "report.html"
    if not (folder / "record.json").exists():
        return None
    if anew or not page.exists():
        compare([RunFolder.read(folder)]).write(page)
    return page


def solution_page(name: str, game: Any, solution: Solution, seconds: float) -> Report:
    """The whole page of `equipoise solve --report`."""
    record = solution_record(name, game, solution, seconds)
    page = Report(name, f"{describe(game)}, solved and certified.")
    page.section("Solution")
    add_solution(page, record)
    environment = describe_environment()
    return page.reproduce(" ".join(environment["command"]), environment)


def add_solution(page: Report, record: Record) -> None:
    """Add what a record says: figures, the certificate, how it was found."""
    {
        "matrix": _add_matrix,
        "normal-form": _add_policies,
        "markov": _add_markov,
        "batch": _add_batch,
    }[record.scalars["kind"]](page, record)
    note = rounding_note(certificate_of(record))
    if note:
        page.text(note)
    exact = "exact up to rounding" if record.scalars["exact"] else "not exact"
    page.text(
        f"How the certificate was found: {record.scalars['method']}; {exact}. "
        f"What the solver says: {record.scalars['status']}."
    )


def _add_matrix(page: Report, record: Record) -> None:
    certificate = certificate_of(record)
    _add_facts(page, record, {"value to the row player": float(record.arrays["value"])})
    payoff = record.arrays["payoff"]
    if max(payoff.shape) <= _LARGEST:
        page.figure(
            figures.heat_map(
                payoff,
                title="payoff to row",
                xlabel="column",
                ylabel="row",
            ),
            alt=f"Heat map of the {payoff.shape[0]} by {payoff.shape[1]} payoff matrix.",
        )
    _add_policies(page, record)
    _add_triangle(page, record)
    page.table(certificate_table(certificate, PLAYERS), caption="Certificate.")


def _add_triangle(page: Report, record: Record) -> None:
    """Where the equilibrium lies, for players who have three actions."""
    points = {name: record.arrays.get(f"nash/{name}") for name in PLAYERS}
    points = {name: point for name, point in points.items() if point is not None}
    if points:
        told = "; ".join(f"{name} at {np.round(p, 3).tolist()}" for name, p in points.items())
        page.figure(
            figures.simplex_plot(equilibrium=points, title="equilibrium"),
            alt=f"The equilibrium in the triangle of three actions: {told}.",
        )


def _add_policies(page: Report, record: Record) -> None:
    policies = _policies(record)
    if max(policy.size for policy in policies.values()) <= _LARGEST:
        shown = "; ".join(f"{n}: {np.round(p, 3).tolist()}" for n, p in policies.items())
        page.figure(
            figures.policy_bars(policies, title="equilibrium"),
            alt=f"Bars of the probabilities of each action. {shown}.",
        )


def _add_markov(page: Report, record: Record) -> None:
    certificate = certificate_of(record)
    value = record.arrays["value"]
    _add_facts(page, record, {"smallest value of a state": value.min(), "largest": value.max()})
    for name, policy in _policies(record).items():
        if max(policy.shape) <= _LARGEST:
            page.figure(
                figures.heat_map(policy, title=name, xlabel="action", ylabel="state"),
                alt=f"Heat map of the probabilities of the {name} player's actions in every state.",
            )
    if value.size > _LARGEST:
        page.figure(
            figures.histogram(value, title="values", xlabel="value to row", ylabel="states"),
            alt="Histogram of the values of the states to the row player.",
        )
    else:
        page.table(state_table(certificate, PLAYERS), caption="Value and gain in every state.")
    page.table(certificate_table(certificate, PLAYERS), caption="Certificate.")


def _add_batch(page: Report, record: Record) -> None:
    certificate = certificate_of(record)
    count = certificate.nash_conv.size
    facts = {
        "games": count,
        "solved": int(record.arrays["solved"].sum()),
        "games per second": round(count / record.scalars["seconds"]),
    }
    _add_facts(page, record, facts)
    page.figure(
        figures.histogram(record.arrays["value"], title="values", xlabel="value to the row player"),
        alt="Histogram of the values of the games.",
    )
    page.figure(
        figures.histogram(certificate.nash_conv, title="NashConv", xlabel="NashConv", log=True),
        alt=f"Histogram of the certified gaps; the largest is {certificate.nash_conv.max():.2g}.",
    )
    page.table(certificate_table(certificate), caption=f"Certificates of {count:,} games.")


def _add_facts(page: Report, record: Record, facts: dict[str, Any]) -> None:
    worst = float(np.max(certificate_of(record).nash_conv))
    name = "largest NashConv" if record.arrays["gains"].ndim > 1 else "NashConv"
    page.facts({**facts, name: worst, "seconds": record.scalars["seconds"]})


def _policies(record: Record) -> dict[str, np.ndarray]:
    policies = [record.arrays[k] for k in sorted(record.arrays) if k.startswith("policy_")]
    names = PLAYERS if len(policies) == 2 else [f"player {i}" for i in range(len(policies))]
    return dict(zip(names, policies, strict=True))
