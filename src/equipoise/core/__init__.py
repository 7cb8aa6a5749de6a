"""What every other part stands on: simplex steps, schedules, linear programs, checks, results.

This package imports third-party libraries only.
"""

from equipoise.core.errors import InputError
from equipoise.core.results import (
    AggregativeCertificate,
    Certificate,
    Outcome,
    Solution,
    Status,
    TableCertificate,
)

__all__ = [
    "AggregativeCertificate",
    "Certificate",
    "InputError",
    "Outcome",
    "Solution",
    "Status",
    "TableCertificate",
]
