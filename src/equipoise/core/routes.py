"""Shortest paths in networks of one-way links: by a Numba kernel, or by SciPy without Numba.

Solvers and certificates share this oracle and nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from equipoise.core.kernels import choose, is_installed, over_games
from equipoise.core.rounding import EPS

__all__ = ["CONSERVED", "Graph"]

#: Fraction of the demand that flows may lose or gain.
CONSERVED = 1e-6
#: Total number of nodes of trees held at once, which take half a second: Ctrl-C waits as long.
_CHUNK = 5_000_000
#: Approximate time per node of a tree, in seconds.
_NODE = 1e-7


@dataclass(frozen=True, eq=False)
class Graph:
    """A directed graph with links from `tails` to `heads`; no path passes through nodes < `first`.

    **Example**

    >>> import numpy as np
    >>> from equipoise.core.routes import Graph
    >>> graph = Graph(np.array([0, 0, 1]), np.array([1, 2, 2]), 3)
    >>> distance, last = graph.trees([1.0, 5.0, 1.0], [0])
    >>> distance.tolist(), graph.path(last[0], 0, 2)
    ([[0.0, 1.0, 2.0]], [0, 2])
    """

    tails: np.ndarray
    heads: np.ndarray
    #: Number of nodes.
    nodes: int
    first: int = 0

    @cached_property
    def outgoing(self) -> tuple[np.ndarray, np.ndarray]:
        """Offsets of each node's links in the second array, which lists links by tail."""
        order = np.argsort(self.tails, kind="stable").astype(np.int32)
        counts = np.bincount(self.tails, minlength=self.nodes)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32), order

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Tails and heads in the kernels' format."""
        return self.tails.astype(np.int32), self.heads.astype(np.int32)

    @property
    def method(self) -> str:
        """Name of the shortest-path method."""
        return "Dijkstra's algorithm" if is_installed() else "SciPy (Numba is not installed)"

    def trees(self, costs: object, origins: object) -> tuple[np.ndarray, np.ndarray]:
        """(origins, nodes): distances, infinite where there is no path, and last links, or -1."""
        costs = np.ascontiguousarray(costs, np.float64)
        origins = np.ascontiguousarray(origins, np.int32)
        work = _NODE * self.nodes
        kernel = choose("shortest_trees", work * len(origins))[0] if is_installed() else None
        if kernel is None:
            return self._scipy_trees(costs, origins)
        distance = np.empty((len(origins), self.nodes))
        last = np.empty((len(origins), self.nodes), np.int32)
        arrays = (origins, costs, *self.outgoing, self.ends[1], self.first, distance, last)
        over_games(kernel, len(origins), work, *arrays)
        return distance, last

    def bounds(self, costs: object, low: object, origins: object) -> tuple[np.ndarray, np.ndarray]:
        """(origins, nodes): costs of paths, and bounds below the cost of every path.

        The true cost of a link is at least `low`, which is not negative. The first array is the sum
        of `costs` along paths that are cheapest up to rounding. No path costs less than the second.

        >>> graph = Graph(np.array([0, 1]), np.array([1, 2]), 3)
        >>> distance, bound = graph.bounds([1.0, 1e-17], [1.0, 1e-17], [0])
        >>> distance.tolist(), bound.tolist()
        ([[0.0, 1.0, 1.0]], [[0.0, 1.0, 1.0]])
        """
        costs = np.ascontiguousarray(costs, np.float64)
        low = np.ascontiguousarray(low, np.float64)
        origins = np.ascontiguousarray(origins, np.int32)
        work = _NODE * self.nodes
        kernel = choose("bounding_trees", work * len(origins))[0] if is_installed() else None
        if kernel is None:
            # Each addition rounds once, upwards at worst, and no path has more links than nodes.
            distance, _ = self._scipy_trees(costs, origins)
            least, _ = self._scipy_trees(low, origins)
            return distance, least * max(1.0 - EPS * self.nodes, 0.0)
        bound = np.empty((len(origins), self.nodes))
        distance = np.empty((len(origins), self.nodes))
        arrays = (origins, costs, low, *self.outgoing, self.ends[1], self.first, bound, distance)
        over_games(kernel, len(origins), work, *arrays)
        return distance, bound

    def chunks(self, origins: np.ndarray) -> Iterator[slice]:
        """Slices of the origins whose trees fit into memory together."""
        size = max(1, _CHUNK // self.nodes)
        return (slice(begin, begin + size) for begin in range(0, len(origins), size))

    def path(self, last: np.ndarray, origin: Any, node: Any) -> list[int]:
        """Return the links of a tree's path from its origin to a node, in order."""
        links = []
        while node != origin:
            links.append(int(last[node]))
            node = int(self.tails[links[-1]])
        return links[::-1]

    def _scipy_trees(self, costs: np.ndarray, origins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Use SciPy; each zone is split into a node that paths leave and one where they end."""
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import dijkstra

        n = self.nodes
        tails = np.where(self.tails < self.first, self.tails + n, self.tails).astype(np.int64)
        # Keep the cheapest of parallel links.
        order = np.lexsort((costs, self.heads, tails))
        keys = tails[order] * n + self.heads[order]
        kept = order[np.concatenate([[True], keys[1:] != keys[:-1]])]
        link_of = csr_matrix((kept + 1, (tails[kept], self.heads[kept])), shape=(2 * n, 2 * n))
        graph = csr_matrix((costs[kept], (tails[kept], self.heads[kept])), shape=(2 * n, 2 * n))
        sources = np.where(origins < self.first, origins + n, origins)
        distance, before = dijkstra(graph, indices=sources, return_predecessors=True)
        last = np.full((len(origins), n), -1, np.int32)
        rows, nodes = np.nonzero(before[:, :n] >= 0)
        links = link_of[before[rows, nodes], nodes]
        last[rows, nodes] = np.asarray(links).ravel() - 1
        distance = np.ascontiguousarray(distance[:, :n])
        distance[np.arange(len(origins)), origins] = 0.0
        last[np.arange(len(origins)), origins] = -1
        return distance, last
