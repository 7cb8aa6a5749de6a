"""What travellers do in a network: flows on links, and on paths where they are known."""

from typing import Any, ClassVar, final

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.values import read_only, read_only_integers
from equipoise.games._policy import Policy


@final
class FlowPolicy(Policy):
    """Flows on the links of a network, with the flows on paths that add up to them.

    - `flows`: (links,) in the order of the game's links, or (classes, links).
    - `path_flows`: (paths,) how many travel on each path, where that is known.
    - `path_pairs`: (paths,) the population of the game that travels on it.
    - `path_links`: the links of all paths, one path after the other.
    - `path_starts`: (paths + 1,) where the links of each path begin and end.

    Equilibrium flows on links are unique wherever costs increase; those on paths are not.

    **Example**

    >>> import equipoise as eq
    >>> policy = eq.FlowPolicy([1.0, 1.0, 2.0], [1.0, 2.0], [0, 0], [0, 1, 2], [0, 2, 3])
    >>> policy.paths, policy.path(0).tolist(), policy.total.tolist()
    (2, [0, 1], [1.0, 1.0, 2.0])
    """

    kind: ClassVar[str] = "flows"
    flows: np.ndarray
    path_flows: np.ndarray | None
    path_pairs: np.ndarray | None
    path_links: np.ndarray | None
    path_starts: np.ndarray | None

    def __init__(
        self,
        flows: Any,
        path_flows: Any = None,
        path_pairs: Any = None,
        path_links: Any = None,
        path_starts: Any = None,
    ):
        self.flows = read_only("flows", flows)
        if self.flows.ndim not in (1, 2) or 0 in self.flows.shape:
            found = f"shape {self.flows.shape}"
            raise InputError("flows", "shape (links,) or (classes, links)", found)
        checks.check_finite("flows", self.flows)
        several = (path_flows, path_pairs, path_links, path_starts)
        if all(part is None for part in several):
            self.path_flows = self.path_pairs = self.path_links = self.path_starts = None
            return
        if any(part is None for part in several):
            expected = "all of path_flows, path_pairs, path_links and path_starts, or none"
            raise InputError("path_flows", expected, "some")
        self.path_flows = read_only("path_flows", path_flows)
        self.path_pairs = read_only_integers("path_pairs", path_pairs)
        self.path_links = read_only_integers("path_links", path_links, np.int32)
        self.path_starts = read_only_integers("path_starts", path_starts)
        self._check()

    def _check(self) -> None:
        assert self.path_flows is not None
        assert self.path_pairs is not None
        assert self.path_links is not None
        assert self.path_starts is not None
        count, end = len(self.path_flows), len(self.path_links)
        checks.check_finite("path_flows", self.path_flows)
        if self.path_flows.ndim != 1 or (self.path_flows < 0.0).any():
            raise InputError("path_flows", "numbers >= 0, one for each path", self.path_flows)
        checks.check_shape("path_pairs", self.path_pairs, (count,), "one for each path")
        starts = self.path_starts
        checks.check_shape("path_starts", starts, (count + 1,), "one more than paths")
        if starts[0] != 0 or starts[-1] != end or (np.diff(starts) < 1).any():
            expected = f"numbers that grow from 0 to {end}, the number of links on paths"
            raise InputError("path_starts", expected, starts)
        links = self.flows.shape[-1]
        if count and not 0 <= self.path_links.min() <= self.path_links.max() < links:
            expected = f"links from 0 to {links - 1}"
            found = f"{self.path_links.min()} to {self.path_links.max()}"
            raise InputError("path_links", expected, found)
        if count and self.path_pairs.min() < 0:
            raise InputError("path_pairs", "populations of the game, from 0", self.path_pairs.min())

    @property
    def total(self) -> np.ndarray:
        """(links,): flows of all classes together."""
        return self.flows if self.flows.ndim == 1 else self.flows.sum(0)

    @property
    def paths(self) -> int:
        """Number of paths; none where only link flows are known."""
        return 0 if self.path_flows is None else len(self.path_flows)

    def path(self, number: int) -> np.ndarray:
        """The links of one path, in order."""
        if self.path_links is None or self.path_starts is None:
            raise InputError("number", "a policy with paths", "link flows alone")
        return self.path_links[self.path_starts[number] : self.path_starts[number + 1]]
