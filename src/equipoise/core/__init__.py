"""Foundations of all other packages: simplex steps, schedules, linear programs, checks, results.

This package imports third-party libraries only. Its names load on first use, so that an error can
be raised without importing NumPy.
"""

from typing import TYPE_CHECKING

from equipoise._lazy import load_on_first_use

if TYPE_CHECKING:
    from equipoise.core.errors import InputError as InputError
    from equipoise.core.results import AggregativeCertificate as AggregativeCertificate
    from equipoise.core.results import Certificate as Certificate
    from equipoise.core.results import Interval as Interval
    from equipoise.core.results import Prices as Prices
    from equipoise.core.results import Solution as Solution
    from equipoise.core.results import Status as Status
    from equipoise.core.results import TableCertificate as TableCertificate
    from equipoise.core.results import Verdict as Verdict

_RESULTS = (
    *("AggregativeCertificate", "Certificate", "Interval", "Prices", "Solution", "Status"),
    *("TableCertificate", "Verdict"),
)
_PUBLIC: dict[str, str | None] = {
    "InputError": "equipoise.core.errors",
    **dict.fromkeys(_RESULTS, "equipoise.core.results"),
}

__all__ = sorted(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = load_on_first_use(__name__, _PUBLIC)
