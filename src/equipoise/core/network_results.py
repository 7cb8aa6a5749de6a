"""The certificate of network flows, and reading certificates of all kinds from plain form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.html import format_value
from equipoise.core.results import AggregativeCertificate, Certificate, TableCertificate
from equipoise.core.text import not_negative

__all__ = ["NetworkCertificate", "certificate_from_plain"]


@final
@dataclass(frozen=True, eq=False)
class NetworkCertificate(Certificate):
    """How far flows are from an equilibrium of a network, or from its system optimum.

    Where path flows are known, `gains` has one entry for each population: the excess of the most
    expensive path that it uses over its cheapest path. Link flows do not determine who travels
    where. For them `gains` has a single entry, the mean excess of all travellers, and the flows are
    split into `split` paths that carry all trips. The split proves the bounds: `upper` and
    `relative_gap_upper` include the cost of everything that these paths use beyond the given flows,
    and the cost of travellers whom the path flows omit or count in excess. Link flows can be split
    in many ways; `largest_excess` and the worst path refer to the split that was found.

    The measures of transport planning use T = `total_cost`, the sum over links of flow times cost,
    and S = `least_cost`, the same sum with all travellers on cheapest paths at the same costs:

    - `relative_gap` is (T - S) / T. It can be negative by rounding, or where flows lack travellers.
      `relative_gap_upper` is its positive part plus rounding and the cost of missing travellers.
    - `average_excess` is (T - S) divided by the number of travellers.
    - T - S also bounds the distance of the potential from its minimum. With the concept "optimum",
      whose costs are marginal, it bounds the distance of the total cost from the optimum.

    `worst_pair` is the population that loses most. `worst_path` and `better_path` list the nodes
    of its path and of a cheapest path.

    **Example**

    Braess's network with everybody on the shortcut:

    >>> import equipoise as eq
    >>> game = eq.games.load("braess-network")
    >>> certificate = eq.certify(game, [6.0, 0.0, 0.0, 6.0, 6.0])
    >>> round(certificate.relative_gap, 6), round(certificate.average_excess, 6)
    (0.191176, 26.0)
    >>> certificate.worst_path.tolist(), certificate.better_path.tolist()
    ([0, 1, 2, 3], [0, 2, 3])
    """

    kind: ClassVar[str] = "network"
    gains: np.ndarray
    upper: np.ndarray
    value: np.ndarray
    method: str
    #: Sum over links of flow times cost.
    total_cost: np.ndarray | float
    #: The same sum with all travellers on cheapest paths at these costs.
    least_cost: np.ndarray | float
    #: How much rounding, and travellers missing from the flows, can change the difference of the
    #: two.
    gap_rounding: np.ndarray | float
    #: Number of travellers.
    travellers: np.ndarray | float
    #: Largest excess of a used path over the cheapest path of its population.
    largest_excess: np.ndarray | float
    #: Population with the largest excess.
    worst_pair: np.ndarray | int
    #: Nodes of the most expensive path that the worst population uses.
    worst_path: np.ndarray
    #: Nodes of a cheapest path of the worst population.
    better_path: np.ndarray
    concept: str = "nash"
    rounding: np.ndarray | float = 0.0
    #: Number of paths that the link flows were split into; 0 where path flows were given.
    split: np.ndarray | int = 0
    state_gains: ClassVar[None] = None  # pyright: ignore[reportIncompatibleVariableOverride]
    state_upper: ClassVar[None] = None  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def relative_gap(self) -> float:
        """(T - S) / T; zero where travel costs nothing and could not cost less."""
        return self._part(float(self.total_cost) - float(self.least_cost))

    @property
    def relative_gap_upper(self) -> float:
        """Proven bound on the relative gap, including rounding and missing travellers."""
        gap = max(float(self.total_cost) - float(self.least_cost), 0.0)
        return self._part(gap + float(self.gap_rounding))

    def _in_all(self) -> list[str]:
        found = not_negative(self.relative_gap, self.relative_gap_upper)
        most = format_value(self.relative_gap_upper)
        return [f"relative gap {format_value(found)}, at most {most}"]

    def _part(self, gap: float) -> float:
        total = abs(float(self.total_cost))  # an oracle's costs may be negative
        return gap / total if total > 0.0 else float(np.sign(gap))

    @property
    def average_excess(self) -> float:
        """(T - S) divided by the number of travellers."""
        return (float(self.total_cost) - float(self.least_cost)) / float(self.travellers)

    @property
    def by_paths(self) -> bool:
        """Whether path flows were certified, rather than link flows alone."""
        return int(self.worst_pair) >= 0 and int(self.split) == 0

    def __getitem__(self, index: Any) -> "NetworkCertificate":
        """Return the certificate itself for `...` and `()`; it has no batch axes."""
        if index is Ellipsis or index == ():
            return self
        raise IndexError(f"index {index!r}: the certificate has 0 batch axes")


#: Certificate classes by the name that their plain form carries.
_CERTIFICATES = {
    kind.kind: kind for kind in (TableCertificate, AggregativeCertificate, NetworkCertificate)
}


def certificate_from_plain(plain: Mapping[str, Any]) -> Certificate:
    """Return the certificate that `Certificate.to_plain` described.

    **Example**

    >>> import equipoise as eq
    >>> certificate = eq.certify(eq.MatrixGame([[1, -1], [-1, 1]]), ([1, 0], [1, 0]))
    >>> eq.certificates.certificate_from_plain(certificate.to_plain()) == certificate
    True
    """
    kind = plain.get("kind")
    if kind not in tuple(_CERTIFICATES):
        raise InputError("certificate", f"a kind among {', '.join(_CERTIFICATES)}", repr(kind))
    return _CERTIFICATES[kind].from_plain(plain)
