"""Whether a certificate meets a tolerance, judged by the measure that solvers are judged by."""

from dataclasses import dataclass
from typing import Any

import numpy as np

#: As tables call them.
_WORDS = {"nash_conv": "NashConv", "max_gain": "largest gain"}


@dataclass(frozen=True)
class Verdict:
    """The measure that was compared, the largest found (in a batch), and what it may be.

    >>> str(Verdict("nash_conv", 0.25, 0.1))
    'missed: the NashConv, 0.25, is above 0.1'
    """

    measure: str
    found: float
    tolerance: float

    @property
    def met(self) -> bool:
        """Whether the tolerance was met."""
        return self.found <= self.tolerance

    def document(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return {
            "measure": self.measure,
            "found": self.found,
            "tolerance": self.tolerance,
            "met": self.met,
        }

    def __str__(self) -> str:
        word, side = ("met", "at most") if self.met else ("missed", "above")
        return f"{word}: the {_WORDS[self.measure]}, {self.found:.4g}, is {side} {self.tolerance:g}"


def judge(kind: str, certificate: Any, tolerance: float) -> Verdict:
    """Judge by the NashConv for matrix games and by the largest gain for others, as `solve` does.

    >>> import equipoise as eq
    >>> pennies = eq.MatrixGame([[1, -1], [-1, 1]])
    >>> certificate = eq.certify(pennies, ([0.5, 0.5], [0.75, 0.25]))
    >>> judge("matrix", certificate, 0.6).met, judge("matrix", certificate, 0.4).met
    (True, False)
    """
    measure = "nash_conv" if kind == "matrix" else "max_gain"
    return Verdict(measure, float(np.max(getattr(certificate, measure))), tolerance)
