"""What runs certify, in one table: of which concept, in the game or only in a fitted model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.results import AggregativeCertificate, Certificate, TableCertificate
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
#: Of more players times states than this, only the summary is shown.
_CELLS = 120
_EXACT = {True: "exact", False: "not exact"}
_IN_MODEL = "in the fitted model"
_COLUMNS = (
    "run", "concept", "games", "max gain", "worst", "at most", "interval", "NashConv",
    "exploitability", "how",
)  # fmt: skip
_MEANING = (
    "How much any player could still gain by leaving the policy alone: the max gain is the ε of "
    "an ε-equilibrium of the concept that is named; of a batch of games, the mean and the worst. "
    "It is the gain of a deviation that was found; no deviation gains more than what stands under "
    "“at most”, which is proven, rounding included."
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


#: Kind of certificate -> its class.
_KINDS = {kind.kind: kind for kind in (TableCertificate, AggregativeCertificate)}


def certificate_of(record: Record) -> Certificate:
    """The certificate that a record keeps.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("matching-pennies")
    >>> record = eq.report.record_of(game, eq.solve(game))
    >>> eq.report.certificate_of(record).concept
    'nash'
    """
    found = (record.solution or {}).get("certificate")
    if found is None:
        raise InputError("record", "a solution with its certificate", "none")
    return _KINDS[found["kind"]].from_plain(found)


def has_certificate(record: Record | None) -> bool:
    """Whether a record keeps a certificate that says something."""
    found = None if record is None else (record.solution or {}).get("certificate")
    return found is not None and not np.isnan(np.sum(found.get("gains", 0.0)))


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
    """Add the certificate of one record in full."""
    if not has_certificate(record):
        return
    certificate, labels = certificate_of(record), record.scalars.get("labels", {})
    names = player_names(certificate.players, labels.get("players"))
    states = certificate.state_gains
    if certificate.gains.ndim == 1 and states is not None and states.size <= _CELLS:
        table = state_table(certificate, names, labels.get("states"))
        page.table(table, caption="Value and gain in every state.")
    page.table(certificate_table(certificate, names))
    if note := rounding_note(certificate):
        page.text(note)


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns that say something: a table of all of them is wider than many a screen.

    >>> _columns([{"games": 1, "interval": None}])
    ['run', 'concept', 'max gain', 'at most', 'NashConv', 'exploitability', 'how']
    """
    left_out = []
    if not any(row.get("interval") for row in rows):
        left_out.append("interval")
    if all(row["games"] == 1 for row in rows):
        left_out += ["games", "worst"]
    return [name for name in _COLUMNS if name not in left_out]


def certificate_rows(run: RunFolder) -> list[dict[str, Any]]:
    """What the record certifies, and what a learner could prove from samples alone.

    >>> import equipoise as eq
    >>> from pathlib import Path
    >>> game = eq.games.load("matching-pennies")
    >>> record = eq.report.record_of(game, eq.solve(game))
    >>> (row,) = certificate_rows(RunFolder(Path("x"), "x", {}, record))
    >>> row["concept"], row["games"], row["exact"]
    ('Nash', 1, True)
    """
    if run.record is None:
        return []
    scalars = run.record.scalars
    rows: list[dict[str, Any]] = []
    if has_certificate(run.record):
        rows.append(_row(run.record))
    if isinstance(scalars.get("bound"), float) and isinstance(scalars.get("confidence"), float):
        bound = scalars["bound"]
        how = f"proven by samples, with probability {scalars['confidence']:g}"
        rows.append({"concept": "Nash", "at most": bound, "games": 1, "how": how, "exact": False})
    return [row | {"run": run.label} for row in rows]


def _row(record: Record) -> dict[str, Any]:
    certificate, how = certificate_of(record), certificate_of(record).method
    proven = float(np.max(certificate.max_upper))
    row: dict[str, Any] = {
        "concept": _CONCEPTS.get(certificate.concept, certificate.concept),
        "games": np.size(certificate.nash_conv),
        "max gain": float(np.mean(certificate.max_gain)),
        "worst": float(np.max(certificate.max_gain)),
        "at most": proven if np.isfinite(proven) else None,
        "how": how,
        "exact": certificate.exact,
    }
    if _IN_MODEL in how:
        gap = record.solution["stats"].get("gap", {}) if record.solution else {}
        named = f"{row['concept']}, {_IN_MODEL}"
        return row | {"concept": named, "interval": _interval(gap), "exact": False}
    if certificate.concept == "nash":
        row["NashConv"] = float(np.mean(certificate.nash_conv))
        row["exploitability"] = float(np.mean(certificate.exploitability))
    return row


def _interval(gap: Mapping[str, Any]) -> str | None:
    """The interval of a gap over resampled logs with its level; of too few for one, their range."""
    if gap.get("interval") is None:
        return None
    low, high = gap["interval"]
    count = np.size(gap.get("resampled", ()))
    how = f"range of {count}" if gap.get("level") is None else f"{gap['level']:.0%}"
    return f"{how}: {format_value(low, 3)} to {format_value(high, 3)}"
