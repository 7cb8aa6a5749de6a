"""Format values, certificates and states for tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.html import format_value
from equipoise.core.network_results import certificate_from_plain
from equipoise.core.results import Certificate
from equipoise.core.text import play_in_words as play_in_words
from equipoise.report._folders import RunFolder
from equipoise.runs import Record, Table

#: Certificates of more players than this are summarised.
FEW = 20


def certificate_table(certificate: Certificate, players: Sequence[str] | None = None) -> Table:
    """Table of each player's gain: the gain found, and its proven upper bound.

    For a batch of games, or very many players, the table shows the mean, median and worst. For a
    road network, it shows the measures of transport planning.

    **Example**

    >>> import numpy as np
    >>> from equipoise.certificates import TableCertificate
    >>> from equipoise.report import certificate_table
    >>> gains = np.array([0.0, 0.5])
    >>> certificate = TableCertificate(gains, gains, np.array([1.0, -1.0]), "enumeration")
    >>> for row in certificate_table(certificate, ("row", "column")).rows:
    ...     print(row)
    ('row', 1.0, 0.0, 0.0)
    ('column', -1.0, 0.5, 0.5)
    ('max gain', None, 0.5, 0.5)
    ('NashConv (sum of gains)', None, 0.5, 0.5)
    ('exploitability (NashConv / players)', None, 0.25, 0.25)
    """
    if certificate.kind == "network":
        return _network_table(certificate, players)
    count = certificate.players
    if certificate.gains.ndim > 1:
        rows = [
            (name, *(float(f(x)) for f in (np.mean, np.median, np.max)))
            for name, (x, _) in _measures(certificate).items()
        ]
        most = certificate.max_upper
        proven = (float(f(most)) for f in (np.mean, np.median, np.max))
        return Table(
            ("measure", "mean", "median", "worst"), [*rows, ("max gain, at most", *proven)]
        )
    names = _numbered(count) if players is None else players
    if len(names) != count:
        raise InputError("players", f"{count} names", len(names))
    if count > FEW:
        worst = int(certificate.gains.argmax())
        pair = (certificate.gains, certificate.upper)
        rows = [
            (f"largest, {names[worst]}", float(certificate.max_gain), float(certificate.max_upper)),
            *((f"{f.__name__} agent", *(float(f(x)) for x in pair)) for f in (np.median, np.mean)),
        ]
        if certificate.concept == "nash":
            sums = ("all agents together (NashConv)", *(float(x.sum()) for x in pair))
            rows.append(sums)
        return Table((f"gains of {count:,} agents", "gain", "at most"), rows)
    # The value of a Markov game depends on the state: `state_table` shows it.
    by_state = certificate.state_gains is not None
    values = [None] * count if by_state else [float(v) for v in certificate.value]
    columns = zip(names, values, certificate.gains, certificate.upper, strict=True)
    found = [(name, value, float(gain), float(most)) for name, value, gain, most in columns]
    # Sums of gains measure the distance from Nash equilibria only.
    measures = list(_measures(certificate).items())[: 3 if certificate.concept == "nash" else 1]
    found += [(name, None, *(float(x) for x in pair)) for name, pair in measures]
    if by_state:
        heads = ("player", "gain (worst state)", "at most")
        return Table(heads, [(row[0], *row[2:]) for row in found])
    return Table(("player", "value", "gain", "at most"), found)


def _measures(certificate: Certificate) -> dict[str, tuple[Any, Any]]:
    """Return the measures of the gains found, with their bounds."""
    summed = certificate.upper.sum(-1)
    return {
        "max gain": (certificate.max_gain, certificate.max_upper),
        "NashConv (sum of gains)": (certificate.nash_conv, summed),
        "exploitability (NashConv / players)": (
            certificate.exploitability,
            summed / certificate.players,
        ),
    }


def _network_table(certificate: Any, populations: Sequence[str] | None) -> Table:
    """Measures of transport planning, after the excess costs of the populations if they are few."""
    count, rows = certificate.players, []
    if 1 < count <= FEW:
        names = populations or [f"population {k}" for k in range(count)]
        columns = zip(names, certificate.value, certificate.gains, certificate.upper, strict=True)
        rows = [(name, *map(float, numbers)) for name, *numbers in columns]
    who = "a traveller" if _has_paths(certificate) else "an agent"
    agents = float(certificate.travellers)
    gap = max(float(certificate.total_cost) - float(certificate.least_cost), 0.0)
    bound = (gap + float(certificate.gap_rounding)) / agents
    mean = float(certificate.total_cost) / agents
    # Link flows are split into paths in one of many ways: the excess of the worst path is no bound.
    most = None if int(certificate.split) else float(certificate.max_upper)
    gaps = (certificate.relative_gap, certificate.relative_gap_upper)
    rows += [
        (f"largest gain of {who}", None, float(certificate.largest_excess), most),
        ("average excess cost", mean, certificate.average_excess, bound),
        ("relative gap", None, *gaps),
    ]
    return Table(("measure", "mean cost", "found", "at most"), rows)


def rounding_note(certificate: Certificate) -> str:
    """Return a note if the largest gain exceeds the NashConv; else an empty string.

    **Example**

    >>> import numpy as np
    >>> from equipoise.certificates import TableCertificate
    >>> from equipoise.report import rounding_note
    >>> gains = np.array([3e-16, -1e-16])
    >>> rounding_note(TableCertificate(gains, gains, np.zeros(2), "enumeration"))[:26]
    'The max gain may be larger'
    """
    largest, total = certificate.max_gain, certificate.nash_conv
    if certificate.kind == "network" or not any(
        summary(largest) > summary(total) for summary in (np.mean, np.median, np.max)
    ):
        return ""
    return (
        "The max gain may be larger than the NashConv, the sum of all gains, if another "
        "player's gain is negative by rounding."
    )


def state_table(
    certificate: Certificate,
    players: Sequence[str] | None = None,
    states: Sequence[str] | None = None,
) -> Table:
    """Table of each player's value and gain in every state of one Markov game.

    **Example**

    >>> import numpy as np
    >>> from equipoise.certificates import TableCertificate
    >>> from equipoise.report import state_table
    >>> gains = np.array([[0.0, 0.1], [0.2, 0.0]])
    >>> sides = {"state_gains": gains, "state_upper": gains}
    >>> certificate = TableCertificate(gains.max(0), gains.max(0), np.ones((2, 2)), "m", **sides)
    >>> state_table(certificate).columns
    ('state', 'value to player 0', 'gain of player 0', 'value to player 1', 'gain of player 1')
    """
    if certificate.state_gains is None or certificate.state_gains.ndim != 2:
        raise InputError("certificate", "a certificate of one Markov game", "no gains by state")
    names = _numbered(certificate.players) if players is None else players
    columns = [f"{word} {name}" for name in names for word in ("value to", "gain of")]
    rows = []
    for state, gains in enumerate(certificate.state_gains):
        pairs = zip(certificate.value[state], gains, strict=True)
        name = state if states is None else states[state]
        rows.append((name, *(float(number) for pair in pairs for number in pair)))
    return Table(("state", *columns), rows)


def player_names(count: int, names: Sequence[str] | None = None) -> Sequence[str]:
    """Return the players' names, or default names: row and column if there are two players.

    >>> player_names(2), player_names(3)
    (('row', 'column'), ('player 0', 'player 1', 'player 2'))
    """
    if names is not None:
        return names
    return ("row", "column") if count == 2 else _numbered(count)


def _numbered(count: int) -> tuple[str, ...]:
    word = "agent" if count > FEW else "player"
    return tuple(f"{word} {i}" for i in range(count))


def labels_of(record: Record, which: str, player: int = 0) -> Sequence[str] | None:
    """Return the names of a record's players, states or a player's actions; None if unnamed.

    >>> labels_of(Record("x", scalars={"labels": {"players": ["Ann", "Bob"]}}), "players")
    ['Ann', 'Bob']
    """
    found = record.scalars.get("labels", {}).get(which)
    if found is None or which != "actions":
        return found
    return found[player if len(found) > 1 else 0]


def agents_of(record: Record, agents: Sequence[int]) -> list[str]:
    """Return the names of some agents of a record, or their numbers if they have no names.

    >>> agents_of(Record("x", scalars={"labels": {"players": ["Ann", "Bob"]}}), [1])
    ['Bob']
    """
    names = labels_of(record, "players")
    return [str(i) if names is None else names[i] for i in agents]


#: Concept, as passed to `equipoise.certify` -> its name and meaning.
CONCEPTS = {
    "nash": "Nash: players choose independently",
    "cce": "coarse correlated: a deviating player decides before the draw",
    "ce": "correlated: a deviating player knows its own recommended action",
    "optimum": "optimum: gains at marginal costs, which include the cost to other travellers",
}
#: The same for road networks, in the words of transport planning.
_NETWORK_CONCEPTS = {
    "nash": "user equilibrium: no traveller gains by taking another path",
    "optimum": "system optimum: gains at marginal costs, which include the cost to others",
}
IN_MODEL = "in the fitted model"


def certificate_of(record: Record) -> Certificate:
    """Return the certificate stored in a record.

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
    return certificate_from_plain(found)


def has_certificate(record: Record | None) -> bool:
    """Return whether a record has a certificate with content.

    **Example**

    >>> import equipoise as eq
    >>> eq.report.has_certificate(eq.runs.Record("empty"))
    False
    """
    found = None if record is None else (record.solution or {}).get("certificate")
    return found is not None and not np.isnan(np.sum(found.get("gains", 0.0)))


def concept_of(certificate: Certificate) -> str:
    """Return the equilibrium concept of a certificate, in words.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.report import concept_of
    >>> concept_of(eq.solve(eq.games.load("matching-pennies")).certificate)
    'Nash equilibrium'
    """
    name = _name_of(certificate)
    return name if _has_paths(certificate) else f"{name} equilibrium"


def concept_in_words(certificate: Certificate) -> str:
    """Return the concept of a certificate and its meaning.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.report import concept_in_words
    >>> concept_in_words(eq.solve(eq.games.load("braess-network")).certificate)
    'user equilibrium: no traveller gains by taking another path'
    """
    words = _NETWORK_CONCEPTS if _has_paths(certificate) else CONCEPTS
    return words[certificate.concept]


def _has_paths(certificate: Any) -> bool:
    """Return whether a certificate is about paths in a network, not about other resources."""
    return certificate.kind == "network" and len(certificate.worst_path) > 0


def _name_of(certificate: Certificate) -> str:
    return concept_in_words(certificate).partition(":")[0]


def certificate_rows(run: RunFolder) -> list[dict[str, Any]]:
    """Return what the record certifies and what a learner proved from samples.

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
        "concept": _name_of(certificate),
        "games": np.size(certificate.nash_conv),
        "max gain": float(np.mean(certificate.max_gain)),
        "worst": float(np.max(certificate.max_gain)),
        "at most": proven if np.isfinite(proven) else None,
        "how": how,
        "exact": certificate.exact,
    }
    if IN_MODEL in how:
        gap = (record.solution or {}).get("stats", {}).get("gap", {})
        named = f"{row['concept']}, {IN_MODEL}"
        return row | {"concept": named, "interval": _interval(gap), "exact": False}
    if certificate.kind == "network":
        found: Any = certificate
        return row | {"relative gap": found.relative_gap, "average excess": found.average_excess}
    if certificate.concept == "nash":
        row["NashConv"] = float(np.mean(certificate.nash_conv))
        row["exploitability"] = float(np.mean(certificate.exploitability))
    return row


def _interval(gap: Mapping[str, Any]) -> str | None:
    """Format the interval of a gap with its confidence level."""
    if gap.get("interval") is None:
        return None
    low, high = gap["interval"]
    how = "range" if gap.get("level") is None else f"{gap['level']:.0%}"
    return f"{how}: {format_value(low, 3)} to {format_value(high, 3)}"
