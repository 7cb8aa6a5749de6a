"""The certificate of flows in a network, and certificates of all kinds from their plain form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.results import AggregativeCertificate, Certificate, TableCertificate

__all__ = ["NetworkCertificate", "certificate_from_plain"]


@final
@dataclass(frozen=True, eq=False)
class NetworkCertificate(Certificate):
    """How far flows are from an equilibrium of a network, or from its optimum.

    Where path flows are known, `gains` has one entry for each population: by how much the dearest
    path that it uses exceeds its cheapest one. Link flows do not say who travels where: `gains`
    then has a single entry, the mean excess of all travellers, and `largest_excess` is what some
    travellers lose at least. Bounds for link flows take it that the flows carry the demand. That is
    checked at every node and under several prices of links, including the costs themselves, which
    is necessary and not sufficient; give path flows for a bound without this condition.

    The measures of transport planning: with T = `total_cost`, the sum over links of flow times
    cost, and S = `least_cost`, that of all travellers on cheapest paths at the same costs,

    - `relative_gap` is (T - S) / T, and `relative_gap_upper` adds rounding, by which the gap
      itself can be negative, and the amount by which link flows are seen to miss the demand;
    - `average_excess` is (T - S) by the number of travellers;
    - T - S is also a bound on how far the potential is from its least value; with the concept
      "optimum", whose costs are marginal, on how far the total cost is from the optimum.

    `worst_path` and `better_path` are nodes: the way of those who lose most, and a better one.

    **Example**

    Braess's network with everybody on the shortcut:

    >>> import equipoise as eq
    >>> game = eq.games.load("braess-network")
    >>> certificate = eq.certify(game, [6.0, 0.0, 0.0, 6.0, 6.0])
    >>> round(certificate.relative_gap, 6), round(certificate.average_excess, 6)
    (0.191176, 26.0)
    >>> certificate.worst_path.tolist(), certificate.better_path.tolist()
    ([0, 1, 2], [0, 2])
    """

    kind: ClassVar[str] = "network"
    gains: np.ndarray
    upper: np.ndarray
    value: np.ndarray
    method: str
    #: Sum of flow times cost, and that of everybody on a cheapest path at the same costs.
    total_cost: np.ndarray | float
    least_cost: np.ndarray | float
    #: How much rounding, and demand that link flows miss, can change their difference.
    gap_rounding: np.ndarray | float
    #: How many travel.
    travellers: np.ndarray | float
    largest_excess: np.ndarray | float
    #: The population with the largest excess; -1 where only link flows are known.
    worst_pair: np.ndarray | int
    worst_path: np.ndarray
    better_path: np.ndarray
    concept: str = "nash"
    rounding: np.ndarray | float = 0.0
    state_gains: ClassVar[None] = None  # pyright: ignore[reportIncompatibleVariableOverride]
    state_upper: ClassVar[None] = None  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def relative_gap(self) -> float:
        """(T - S) / T; zero where travelling costs nothing."""
        return self._part(float(self.total_cost) - float(self.least_cost))

    @property
    def relative_gap_upper(self) -> float:
        """Proven bound on the relative gap, rounding included."""
        gap = float(self.total_cost) - float(self.least_cost)
        return max(self._part(gap + float(self.gap_rounding)), 0.0)

    def _part(self, gap: float) -> float:
        return gap / float(self.total_cost) if self.total_cost > 0.0 else 0.0

    @property
    def average_excess(self) -> float:
        """(T - S) by the number of travellers."""
        return (float(self.total_cost) - float(self.least_cost)) / float(self.travellers)

    @property
    def by_paths(self) -> bool:
        """Whether path flows were certified, and not link flows alone."""
        return int(self.worst_pair) >= 0

    def __getitem__(self, index: Any) -> "NetworkCertificate":
        """The certificate itself for `...` and `()`: these are single games."""
        if index is Ellipsis or index == ():
            return self
        raise IndexError(f"index {index!r}: the certificate has 0 batch axes")


#: Kinds of certificates, by the word of their plain form.
_CERTIFICATES = {
    kind.kind: kind for kind in (TableCertificate, AggregativeCertificate, NetworkCertificate)
}


def certificate_from_plain(plain: Mapping[str, Any]) -> Certificate:
    """The certificate that `Certificate.to_plain` described.

    **Example**

    >>> import equipoise as eq
    >>> certificate = eq.certify(eq.MatrixGame([[1, -1], [-1, 1]]), ([1, 0], [1, 0]))
    >>> eq.certificates.certificate_from_plain(certificate.to_plain()) == certificate
    True
    """
    kind = plain.get("kind")
    if kind not in _CERTIFICATES:
        raise InputError("certificate", f"a kind among {', '.join(_CERTIFICATES)}", repr(kind))
    return _CERTIFICATES[kind].from_plain(plain)
