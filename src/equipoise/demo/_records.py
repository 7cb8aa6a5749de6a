"""What an act ends with: a certificate, kept in a record as plain arrays and words."""

from collections.abc import Callable, Mapping
from typing import Any

from equipoise.core import Certificate
from equipoise.runs import Record, Table

#: How an act says what it does next, while it plays.
Tell = Callable[[str], None]


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
