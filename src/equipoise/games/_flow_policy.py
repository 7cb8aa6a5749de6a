"""Policies of travellers in a network: link flows, and path flows where they are known."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.html import format_value
from equipoise.core.text import About
from equipoise.core.values import read_only, read_only_integers
from equipoise.games._policy import Policy

if TYPE_CHECKING:
    from equipoise.games._network import NetworkGame


@final
class FlowPolicy(Policy):
    """Link flows of a network and, where known, the path flows that add up to them.

    - `flows`: (links,) in the order of the game's links, or (classes, links).
    - `path_flows`: (paths,) the flow on each path, where known.
    - `path_pairs`: (paths,) the population of the game that travels on each path.
    - `path_links`: the links of all paths, concatenated.
    - `path_starts`: (paths + 1,) the offsets in `path_links` where each path begins and ends.

    Equilibrium link flows are unique where costs are strictly increasing; path flows are not.

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
        flows = read_only("flows", flows)
        if flows.ndim not in (1, 2) or 0 in flows.shape:
            found = f"shape {flows.shape}"
            raise InputError("flows", "shape (links,) or (classes, links)", found)
        checks.check_finite("flows", flows)
        several = (path_flows, path_pairs, path_links, path_starts)
        if all(part is None for part in several):
            self._set(
                flows=flows, path_flows=None, path_pairs=None, path_links=None, path_starts=None
            )
            return
        if any(part is None for part in several):
            expected = "all of path_flows, path_pairs, path_links and path_starts, or none"
            raise InputError("path_flows", expected, "some")
        self._set(
            flows=flows,
            path_flows=read_only("path_flows", path_flows),
            path_pairs=read_only_integers("path_pairs", path_pairs),
            path_links=read_only_integers("path_links", path_links, np.int32),
            path_starts=read_only_integers("path_starts", path_starts),
        )
        self._check()

    @classmethod
    def of_paths(
        cls, game: "NetworkGame", pairs: Any, flows: Any, links: Any, starts: Any
    ) -> "FlowPolicy":
        """Build a policy from path flows; the link flows are their sums.

        **Example**

        >>> import equipoise as eq
        >>> game = eq.games.load("braess-network")
        >>> eq.FlowPolicy.of_paths(game, [0, 0], [4.0, 2.0], [0, 4, 3, 1, 3], [0, 3, 5]).flows
        array([4., 2., 0., 6., 4.])
        """
        pairs, flows, links = np.asarray(pairs), np.asarray(flows), np.asarray(links)
        empty = np.zeros((len(game.values_of_time), game.links))
        policy = cls(empty, flows, pairs, links, starts)
        policy.check_paths(game)
        sizes = np.diff(np.asarray(starts, np.int64))
        key = np.repeat(game.classes[pairs], sizes) * game.links + links
        total = np.bincount(key, np.repeat(flows, sizes), empty.size).reshape(empty.shape)
        return cls(total if len(total) > 1 else total[0], flows, pairs, links, starts)

    def check_paths(self, game: "NetworkGame") -> None:
        """Refuse paths that do not lead from origins to destinations of this game.

        **Example**

        >>> import equipoise as eq
        >>> game = eq.games.load("braess-network")
        >>> eq.FlowPolicy([6.0, 0, 0, 0, 0], [6.0], [0], [0], [0, 1]).check_paths(game)
        Traceback (most recent call last):
        ...
        equipoise.core.errors.InputError: path_links: expected a path from 0 to 3, found nodes 0, 1
        """
        if self.flows.shape[-1] != game.links:
            raise InputError("flows", f"flows on {game.links} links", f"shape {self.flows.shape}")
        if not self.paths:
            return
        pairs, starts = np.asarray(self.path_pairs), np.asarray(self.path_starts)
        links = np.asarray(self.path_links)
        if (most := int(pairs.max())) >= len(game.demand):
            raise InputError("path_pairs", f"populations below {len(game.demand)}", most)
        tails, heads = game.tails[links], game.heads[links]
        wrong = (tails[starts[:-1]] != game.origins[pairs]) | (
            heads[starts[1:] - 1] != game.destinations[pairs]
        )
        broken = np.zeros(len(links), bool)
        broken[1:] = (heads[:-1] != tails[1:]) | (tails[1:] < game.first_through)
        broken[starts[:-1]] = False
        wrong |= np.logical_or.reduceat(broken, starts[:-1])
        if wrong.any():
            path = int(np.argmax(wrong))
            k, (begin, end) = int(pairs[path]), starts[path : path + 2]
            nodes = [int(tails[begin]), *heads[begin:end].tolist()]
            expected = f"a path from {game.origins[k]} to {game.destinations[k]}"
            if game.first_through:
                expected += " that does not pass through a zone"
            raise InputError("path_links", expected, f"nodes {', '.join(map(str, nodes))}")

    def _check(self) -> None:
        assert self.path_flows is not None
        assert self.path_pairs is not None
        assert self.path_links is not None
        assert self.path_starts is not None
        for name, part in (("path_flows", self.path_flows), ("path_links", self.path_links)):
            if part.ndim != 1:
                raise InputError(name, "a list of numbers", f"shape {part.shape}")
        count, end = len(self.path_flows), len(self.path_links)
        checks.check_finite("path_flows", self.path_flows)
        if (self.path_flows < 0.0).any():
            raise InputError("path_flows", "numbers >= 0", f"{self.path_flows.min():g}")
        checks.check_shape("path_pairs", self.path_pairs, (count,), "one for each path")
        starts = self.path_starts
        checks.check_shape("path_starts", starts, (count + 1,), "one more than the number of paths")
        if starts[0] != 0 or starts[-1] != end or (starts[1:] <= starts[:-1]).any():
            expected = f"increasing numbers from 0 to {end}, the number of links on paths"
            raise InputError("path_starts", expected, starts)
        links = self.flows.shape[-1]
        if count and not 0 <= self.path_links.min() <= self.path_links.max() < links:
            expected = f"links from 0 to {links - 1}"
            found = f"{self.path_links.min()} to {self.path_links.max()}"
            raise InputError("path_links", expected, found)
        if count and self.path_pairs.min() < 0:
            raise InputError("path_pairs", "populations of the game, from 0", self.path_pairs.min())

    def in_words(self, about: About) -> tuple[int, Iterator[tuple[str, ...]]]:
        """Return the flow of each link, the largest first."""
        flows = self.total
        order = np.argsort(-flows, kind="stable")
        return len(flows), ((about.link(int(k)), format_value(float(flows[k]), 6)) for k in order)

    @property
    def total(self) -> np.ndarray:
        """(links,): flows summed over classes."""
        return self.flows if self.flows.ndim == 1 else self.flows.sum(0)

    @property
    def paths(self) -> int:
        """Number of paths; 0 if only link flows are known."""
        return 0 if self.path_flows is None else len(self.path_flows)

    def path(self, number: int) -> np.ndarray:
        """Return the links of one path, in order."""
        if self.path_links is None or self.path_starts is None:
            raise InputError("number", "a policy with paths", "link flows only")
        return self.path_links[self.path_starts[number] : self.path_starts[number + 1]]
