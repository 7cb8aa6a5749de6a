"""What runs certify, in one table: of which concept, in the game or only in a fitted model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.core import Certificate
from equipoise.report._folders import RunFolder
from equipoise.report._page import Report
from equipoise.report._tables import (
    certificate_table,
    format_value,
    player_names,
    rounding_note,
    state_table,
)
from equipoise.runs import Record, Table

#: Concepts by their short names, as `equipoise.certify` takes them.
_CONCEPTS = {"nash": "Nash", "cce": "coarse correlated", "ce": "correlated"}
#: Certificates of more players, and states of more than these, are summed up.
_PLAYERS, _STATES = 20, 40
_EXACT = {True: "exact", False: "not exact"}
_IN_MODEL = "in the fitted model"
_COLUMNS = (
    "run", "concept", "games", "max gain", "worst", "interval", "NashConv", "exploitability", "how",
)  # fmt: skip
_MEANING = (
    "How much any player could still gain by leaving the policy alone: the max gain is the ε of "
    "an ε-equilibrium of the concept that is named; of a batch of games, the mean and the worst."
)
#: What is said only where there is such a row.
_MEANINGS = {
    "Nash": (
        "Nash: everybody plays independently. The NashConv is the sum of all gains, the "
        "exploitability that sum by the number of players."
    ),
    "coarse correlated": (
        "Coarse correlated: the policy is a mixture, drawn for all players at once, and whoever "
        "leaves it decides so before anything is drawn. A gain can then be negative."
    ),
    "correlated": (
        "Correlated: the policy is a mixture, drawn for all players at once, and whoever leaves "
        "it has been told its own part."
    ),
    _IN_MODEL: (
        "In the fitted model: an estimate. The gains are those in a model fitted to a log, not in "
        "the game itself, which is not known. A policy looks better in the model that it was "
        "learned in than it is: the interval is that in models of resampled logs."
    ),
}


def certificate_of(record: Record) -> Certificate:
    """The certificate that a record keeps: its gains and values, and how they were found.

    **Example**

    >>> import numpy as np
    >>> from equipoise.report import certificate_of
    >>> from equipoise.runs import Record
    >>> said = {"method": "enumeration", "exact": True, "concept": "cce"}
    >>> arrays = {"gains": np.array([0.0, 0.5]), "certified_value": np.zeros(2)}
    >>> certificate = certificate_of(Record("log", {}, said, arrays))
    >>> float(certificate.max_gain), certificate.concept
    (0.5, 'cce')
    """
    return Certificate(
        gains=record.arrays["gains"],
        value=record.arrays["certified_value"],
        method=record.scalars["method"],
        exact=record.scalars["exact"],
        state_gains=record.arrays.get("state_gains"),
        concept=record.scalars.get("concept", "nash"),
    )


def concept_of(certificate: Certificate) -> str:
    """What a certificate is one of, in words.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.report import concept_of
    >>> concept_of(eq.solve(eq.games.load("matching-pennies")).certificate)
    'Nash equilibrium'
    """
    return f"{_CONCEPTS[certificate.concept]} equilibrium"


def add_certificates(page: Report, runs: Sequence[RunFolder]) -> None:
    """Add the section of certificates, if any of the runs has one."""
    rows = [row for run in runs for row in certificate_rows(run)]
    if not rows:
        return
    said = ", ".join(row["concept"] for row in rows).split(", ")
    page.section("Certificates")
    page.text(" ".join([_MEANING, *(text for name, text in _MEANINGS.items() if name in said)]))
    columns = _columns(rows)
    told = [row | {"how": f"{_EXACT[row['exact']]}: {row['how']}"} for row in rows]
    page.table(Table(columns, [tuple(row.get(c) for c in columns) for row in told]), digits=3)


def add_certificate(page: Report, record: Record) -> None:
    """Add the certificate of one record in full, where it is not of very many players."""
    if not {"gains", "certified_value"} <= set(record.arrays):
        return
    certificate = certificate_of(record)
    one = certificate.gains.ndim == 1
    if one and certificate.players > _PLAYERS:
        return
    names = player_names(certificate.players)
    if one and certificate.state_gains is not None and len(certificate.state_gains) <= _STATES:
        page.table(state_table(certificate, names), caption="Value and gain in every state.")
    page.table(certificate_table(certificate, names))
    if note := rounding_note(certificate):
        page.text(note)


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns that say something: a table of all of them is wider than many a screen.

    >>> _columns([{"games": 1, "interval": None}])
    ['run', 'concept', 'max gain', 'NashConv', 'exploitability', 'how']
    """
    left_out = []
    if not any(row.get("interval") for row in rows):
        left_out.append("interval")
    if all(row["games"] == 1 for row in rows):
        left_out += ["games", "worst"]
    return [name for name in _COLUMNS if name not in left_out]


def certificate_rows(run: RunFolder) -> list[dict[str, Any]]:
    """What the record certifies, and what a learner could prove from samples alone.

    >>> from pathlib import Path
    >>> record = Record("x", {}, {"method": "enumeration", "exact": True}, {"gains": [0.0, 0.5]})
    >>> (row,) = certificate_rows(RunFolder(Path("x"), "x", {}, record))
    >>> row["concept"], row["max gain"], row["exploitability"], row["exact"]
    ('Nash', 0.5, 0.25, True)
    """
    if run.record is None:
        return []
    scalars = run.record.scalars
    rows: list[dict[str, Any]] = []
    if run.record.arrays.get("gains", np.zeros(0)).size:
        rows.append(_of_gains(run.record))
    if isinstance(scalars.get("certified"), Mapping):
        rows.append(_of_summary(scalars["certified"]))
    if isinstance(scalars.get("bound"), float) and isinstance(scalars.get("confidence"), float):
        bound = scalars["bound"]
        how = f"proven by samples, with probability {scalars['confidence']:g}"
        rows.append({"concept": "Nash", "max gain": bound, "worst": bound, "how": how})
    return [{"games": 1, "exact": False} | row | {"run": run.label} for row in rows]


def _of_gains(record: Record) -> dict[str, Any]:
    scalars, gains = record.scalars, np.asarray(record.arrays["gains"], float)
    how, exact = str(scalars.get("method", "–")), bool(scalars.get("exact"))
    certificate = Certificate(gains, np.zeros_like(gains), how, exact)
    concept = str(scalars.get("concept", "nash"))
    row: dict[str, Any] = {
        "concept": _CONCEPTS.get(concept, concept),
        "games": certificate.nash_conv.size,
        "max gain": float(np.mean(certificate.max_gain)),
        "worst": float(np.max(certificate.max_gain)),
        "how": how,
        "exact": exact,
    }
    if _IN_MODEL in how or f"gap {_IN_MODEL}" in scalars:
        named = f"{row['concept']}, {_IN_MODEL}"
        return row | {"concept": named, "interval": _interval(scalars), "exact": False}
    if concept == "nash":
        row["NashConv"] = float(np.mean(certificate.nash_conv))
        row["exploitability"] = float(np.mean(certificate.exploitability))
    return row


def _of_summary(found: Mapping[str, Any]) -> dict[str, Any]:
    """A certificate of very many agents, of whom the record keeps the sums alone."""
    concept = str(found.get("concept", "nash"))
    return {
        "concept": _CONCEPTS.get(concept, concept),
        "max gain": found["max_gain"],
        "worst": found["max_gain"],
        "NashConv": found["nash_conv"],
        "exploitability": found["exploitability"],
        "how": found["method"],
        "exact": found["exact"],
    }


def _interval(scalars: Mapping[str, Any]) -> str | None:
    """The interval of a gap over resampled logs with its level; of too few for one, their range."""
    low, high, level = (
        scalars.get(f"gap over resampled logs, {part}") for part in ("lower", "upper", "level")
    )
    if low is None or high is None:
        return None
    ends = f"{format_value(low, 3)} to {format_value(high, 3)}"
    how = f"range of {scalars.get('resampled logs', 'some')}" if level is None else f"{level:.0%}"
    return f"{how}: {ends}"
