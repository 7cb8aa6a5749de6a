"""Paths of all populations and their flows, in arrays that the kernels extend."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from equipoise.core.kernels._routes import CEILING, STEEP
from equipoise.core.routes import Graph

__all__ = ["CEILING", "PIECE", "STEEP", "Paths"]

#: Seconds of compiled work between two looks at the clock; Ctrl-C waits as long.
PIECE = 0.25


class Paths:
    """Paths in the order of classes and origins, with spare capacity for more.

    `groups` lists the populations of one class and origin each: class, origin and population
    indices. `order` lists the populations in the order of the arrays, in which the populations of a
    group are contiguous.

    **Example**

    >>> import numpy as np
    >>> from equipoise.core.paths import Paths
    >>> from equipoise.core.routes import Graph
    >>> graph = Graph(np.array([0, 0]), np.array([1, 1]), 2)
    >>> paths = Paths(graph, [(0, 0, np.array([0]))], np.array([1]), np.array([3.0]))
    >>> paths.set(np.array([0, 0]), np.array([1.0, 2.0]), np.array([0, 1]), np.array([0, 1, 2]))
    >>> paths.count, paths.flow.tolist()
    (2, [1.0, 2.0])
    """

    def __init__(
        self,
        graph: Graph,
        groups: Sequence[tuple[int, int, np.ndarray]],
        destinations: np.ndarray,
        demand: np.ndarray,
    ):
        self.graph = graph
        self.order = np.concatenate([pairs for _, _, pairs in groups])
        sizes = [len(pairs) for _, _, pairs in groups]
        self.groups = (
            np.array([origin for _, origin, _ in groups], np.int32),
            np.array([m for m, _, _ in groups], np.int32),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32),
        )
        self.targets = destinations[self.order].astype(np.int32)
        self.classes = np.repeat(self.groups[1], sizes)
        self.demand = np.ascontiguousarray(demand[self.order])
        self.flow = np.zeros(len(graph.tails))
        self.head = np.full(len(self.order), -1, np.int32)
        self.counts = np.zeros(1, np.int32)
        room = 4 * len(self.order) + 64
        self._allocate(room, room * min(40, graph.nodes))

    def _allocate(self, paths: int, links: int) -> None:
        self.following, self.pairs = np.full(paths, -1, np.int32), np.zeros(paths, np.int32)
        self.flows, self.starts = np.zeros(paths), np.zeros(paths + 1, np.int32)
        self.links = np.zeros(links, np.int32)

    @property
    def count(self) -> int:
        """Number of paths."""
        return int(self.counts[0])

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Arrays that the kernels read and write, in their order."""
        lists = (self.head, self.following, self.pairs, self.flows, self.starts, self.links)
        return (self.flow, *lists, self.counts)

    @property
    def network(self) -> tuple[Any, ...]:
        """Links in the kernels' format: ends, links that leave each node, first node."""
        return *self.graph.ends, *self.graph.outgoing, self.graph.first

    def grow(self) -> None:
        """Double the capacity for paths and for their links."""
        old = (self.following, self.pairs, self.flows, self.starts, self.links)
        self._allocate(2 * len(self.flows), 2 * len(self.links))
        new = (self.following, self.pairs, self.flows, self.starts, self.links)
        for before, after in zip(old, new, strict=True):
            after[: len(before)] = before

    def run(
        self,
        kernel: Callable[..., int],
        before: tuple[Any, ...],
        *after: Any,
        seconds: float = 0.0,
        watch: Callable[[], None] | None = None,
    ) -> None:
        """Run a kernel over all groups; if the arrays are full, extend them and continue.

        `seconds` is the approximate time for all groups: between pieces of it, `watch` may raise.
        """
        group, most = 0, len(self.groups[0])
        size = max(1, int(most * PIECE / max(seconds, PIECE)))
        while group < most:
            end = min(group + size, most)
            group = kernel(*before, *self.arrays, group, end, *after)
            if group < end:
                self.grow()
            elif watch is not None and group < most:
                watch()

    def keep(self, kept: np.ndarray) -> None:
        """Remove all paths but these."""
        sizes = np.diff(self.starts[: self.count + 1])[kept]
        spans = np.concatenate([[0], np.cumsum(sizes)])
        place = np.repeat(self.starts[kept] - spans[:-1], sizes) + np.arange(spans[-1])
        self.set(self.pairs[kept].copy(), self.flows[kept].copy(), self.links[place], spans)

    def set(self, pairs: Any, flows: Any, links: Any, starts: Any) -> None:
        """Replace the contents by these paths, with populations in the order of this object."""
        count = len(pairs)
        while len(self.flows) <= count + 1 or len(self.links) < len(links):
            self._allocate(2 * len(self.flows), max(2 * len(self.links), len(links)))
        self.counts[0] = count
        self.pairs[:count], self.flows[:count] = pairs, flows
        self.starts[: count + 1], self.links[: len(links)] = starts, links
        self.head[:] = -1
        # Each path comes before those of its pair that are already listed.
        order = np.argsort(pairs, kind="stable")
        ranked = np.asarray(pairs)[order]
        last = np.append(ranked[1:] != ranked[:-1], True)
        self.following[order] = np.where(last, -1, np.append(order[1:], -1))
        first = np.append(True, ranked[1:] != ranked[:-1])
        self.head[ranked[first]] = order[first]
        self.reload()

    def reload(self) -> None:
        """Recompute link flows from the paths."""
        amounts = np.repeat(self.flows[: self.count], np.diff(self.starts[: self.count + 1]))
        links = self.links[: self.starts[self.count]]
        self.flow[:] = np.bincount(links, amounts, len(self.flow))

    def drop(self) -> None:
        """Remove paths without flow, except the newest of each population, which was just found.

        If there are only a few such paths, nothing is removed.
        """
        kept = self.flows[: self.count] > 0.0
        kept[self.head[self.head >= 0]] = True
        if kept.sum() < 0.8 * self.count:
            self.keep(np.flatnonzero(kept))

    def start_from(self, pairs: Any, flows: Any, links: Any, starts: Any) -> bool:
        """Start with these paths, scaled to the demand; False if a population has none."""
        place = np.empty(len(self.order), np.int64)
        place[self.order] = np.arange(len(self.order))
        own = place[pairs]
        carried = np.bincount(own, flows, len(place))
        if not (carried > 0.0).all():
            return False
        self.set(own, flows * (self.demand / carried)[own], links, starts)
        return True

    def used(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Populations, flows, links and starts of paths with flow, population by population."""
        used = np.flatnonzero(self.flows[: self.count] > 0.0)
        used = used[np.argsort(self.order[self.pairs[used]], kind="stable")]
        sizes = np.diff(self.starts[: self.count + 1])[used]
        spans = np.concatenate([[0], np.cumsum(sizes)])
        links = self.links[np.repeat(self.starts[used] - spans[:-1], sizes) + np.arange(spans[-1])]
        return self.order[self.pairs[used]], self.flows[used], links, spans
