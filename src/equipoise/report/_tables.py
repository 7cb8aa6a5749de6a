"""Numbers for people: how values, certificates and states are written in tables."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.core import Certificate
from equipoise.core.errors import InputError
from equipoise.runs import Table


def format_value(value: Any, digits: int = 4) -> str:
    """A value as a short text: numbers to some significant digits, booleans as yes and no.

    **Example**

    >>> from equipoise.report import format_value
    >>> [format_value(x) for x in (1 / 7, 100_000, 1.6e-16, 0.0, True, None, "rps")]
    ['0.1429', '100,000', '1.6e-16', '0', 'yes', '–', 'rps']
    """
    if value is None:
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    if isinstance(value, float | np.floating):
        number = float(value)
        if number != 0 and math.isfinite(number) and not 1e-4 <= abs(number) < 1e6:
            return f"{number:.2g}" if abs(number) < 1 else f"{number:.{digits - 1}e}"
        return f"{number:.{digits}g}" if number else "0"
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return "(" + ", ".join(format_value(item, digits) for item in value) + ")"
    return str(value)


def certificate_table(certificate: Certificate, players: Sequence[str] | None = None) -> Table:
    """What each player could gain; for a batch of games the mean, median and worst.

    **Example**

    >>> import numpy as np
    >>> from equipoise.core import Certificate
    >>> from equipoise.report import certificate_table
    >>> certificate = Certificate(np.array([0.0, 0.5]), np.array([1.0, -1.0]), "enumeration", True)
    >>> for row in certificate_table(certificate, ("row", "column")).rows:
    ...     print(row)
    ('row', 1.0, 0.0)
    ('column', -1.0, 0.5)
    ('max gain', None, 0.5)
    ('NashConv (sum of gains)', None, 0.5)
    ('exploitability (NashConv / players)', None, 0.25)
    """
    if certificate.gains.ndim > 1:
        return _batch_table(certificate)
    names = _names(certificate, players)
    # The value of a Markov game depends on the state: `state_table` shows it.
    by_state = certificate.state_gains is not None
    values = [None] * len(names) if by_state else [float(v) for v in certificate.value]
    rows: list[tuple[Any, ...]] = [
        (name, value, float(gain))
        for name, value, gain in zip(names, values, certificate.gains, strict=True)
    ]
    rows += [(name, None, float(measure)) for name, measure in _measures(certificate)]
    gain = "gain (worst state)" if by_state else "gain"
    if by_state:
        return Table(("player", gain), [(row[0], row[2]) for row in rows])
    return Table(("player", "value", gain), rows)


def rounding_note(certificate: Certificate) -> str:
    """A sentence for where the largest gain is shown above the NashConv; empty elsewhere.

    **Example**

    >>> import numpy as np
    >>> from equipoise.core import Certificate
    >>> from equipoise.report import rounding_note
    >>> gains = np.array([3e-16, -1e-16])
    >>> rounding_note(Certificate(gains, np.zeros(2), "enumeration", True))[:26]
    'The max gain may be larger'
    """
    largest, total = certificate.max_gain, certificate.nash_conv
    if all(summary(largest) <= summary(total) for summary in (np.mean, np.median, np.max)):
        return ""
    return (
        "The max gain may be larger than the NashConv, the sum of all gains, where another "
        "player's gain is negative by rounding."
    )


def state_table(certificate: Certificate, players: Sequence[str] | None = None) -> Table:
    """Value and gain of each player in every state of one Markov game.

    **Example**

    >>> import numpy as np
    >>> from equipoise.core import Certificate
    >>> from equipoise.report import state_table
    >>> gains = np.array([[0.0, 0.1], [0.2, 0.0]])
    >>> certificate = Certificate(gains.max(0), np.ones((2, 2)), "policy iteration", True, gains)
    >>> state_table(certificate).columns
    ('state', 'value to player 0', 'gain of player 0', 'value to player 1', 'gain of player 1')
    """
    if certificate.state_gains is None or certificate.state_gains.ndim != 2:
        raise InputError("certificate", "that of one Markov game", "no gains by state")
    names = _names(certificate, players)
    columns = [f"{word} {name}" for name in names for word in ("value to", "gain of")]
    rows = []
    for state, gains in enumerate(certificate.state_gains):
        pairs = zip(certificate.value[state], gains, strict=True)
        rows.append((state, *(float(number) for pair in pairs for number in pair)))
    return Table(("state", *columns), rows)


def _measures(certificate: Certificate) -> list[tuple[str, Any]]:
    return [
        ("max gain", certificate.max_gain),
        ("NashConv (sum of gains)", certificate.nash_conv),
        ("exploitability (NashConv / players)", certificate.exploitability),
    ]


def _batch_table(certificate: Certificate) -> Table:
    rows = [
        (name, float(np.mean(x)), float(np.median(x)), float(np.max(x)))
        for name, x in _measures(certificate)
    ]
    return Table(("measure", "mean", "median", "worst"), rows)


def _names(certificate: Certificate, players: Sequence[str] | None) -> Sequence[str]:
    if players is None:
        return [f"player {i}" for i in range(certificate.players)]
    if len(players) != certificate.players:
        raise InputError("players", f"{certificate.players} names", len(players))
    return players


def player_names(count: int) -> Sequence[str]:
    """The names of players who have none: row and column where there are two.

    >>> player_names(2), player_names(3)
    (('row', 'column'), ('player 0', 'player 1', 'player 2'))
    """
    return ("row", "column") if count == 2 else tuple(f"player {i}" for i in range(count))
