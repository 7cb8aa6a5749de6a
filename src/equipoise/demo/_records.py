"""What an act ends with: a certificate, kept in a record as plain arrays and words."""

from collections.abc import Callable, Mapping
from typing import Any

from equipoise.core import Certificate
from equipoise.runs import Record, Table

#: How an act says what it does next, while it plays.
Tell = Callable[[str], None]

#: Concepts in words, by the names that `equipoise.certify` takes.
_CONCEPTS = {
    "nash": "Nash equilibrium",
    "cce": "coarse correlated equilibrium",
    "ce": "correlated equilibrium",
}


def certified_record(
    name: str,
    config: dict[str, Any],
    certificate: Certificate,
    scalars: Mapping[str, Any],
    arrays: Mapping[str, Any],
    tables: Mapping[str, Table],
) -> Record:
    """A record of what an act found, and of the certificate it ends with."""
    said = {
        "method": certificate.method,
        "exact": certificate.exact,
        "concept": certificate.concept,
    }
    # Of very many agents the values are kept by their mean.
    value = getattr(certificate, "mean_value", certificate.value)
    kept = {"gains": certificate.gains, "certified_value": value}
    return Record(name, config, {**scalars, **said}, {**arrays, **kept}, dict(tables))


def concept_of(certificate: Certificate) -> str:
    """What a certificate is one of, in words.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.demo import concept_of
    >>> concept_of(eq.solve(eq.games.load("matching-pennies")).certificate)
    'Nash equilibrium'
    """
    return _CONCEPTS[certificate.concept]
