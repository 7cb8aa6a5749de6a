"""The paths of all populations and their flows, in arrays that the kernels extend."""

from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.games import FlowPolicy, NetworkGame


class Paths:
    """Paths in the order of classes and origins, with room for more.

    `order` are the game's populations in the order of the arrays; those of a group, one class and
    origin, stand together.
    """

    def __init__(self, game: NetworkGame):
        self.game = game
        groups = game.groups()
        self.order = np.concatenate([pairs for _, _, pairs in groups])
        sizes = [len(pairs) for _, _, pairs in groups]
        self.groups = (
            np.array([origin for _, origin, _ in groups], np.int32),
            np.array([m for m, _, _ in groups], np.int32),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32),
        )
        self.targets = game.destinations[self.order].astype(np.int32)
        self.classes = game.classes[self.order].astype(np.int32)
        self.demand = np.ascontiguousarray(game.demand[self.order])
        self.flow = np.zeros(game.links)
        self.head = np.full(len(self.order), -1, np.int32)
        self.counts = np.zeros(1, np.int32)
        room = 4 * len(self.order) + 64
        self._allocate(room, room * min(40, game.nodes))

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
        """What the kernels read and write, in their order."""
        lists = (self.head, self.following, self.pairs, self.flows, self.starts, self.links)
        return (self.flow, *lists, self.counts)

    @property
    def network(self) -> tuple[Any, ...]:
        """The links as the kernels take them: ends, those that leave each node, first node."""
        tails, heads = self.game.graph.ends
        return tails, heads, *self.game.graph.outgoing, self.game.first_through

    def grow(self) -> None:
        """Twice the room, for paths and for their links."""
        old = (self.following, self.pairs, self.flows, self.starts, self.links)
        self._allocate(2 * len(self.flows), 2 * len(self.links))
        new = (self.following, self.pairs, self.flows, self.starts, self.links)
        for before, after in zip(old, new, strict=True):
            after[: len(before)] = before

    def run(self, kernel: Callable[..., int], before: tuple[Any, ...], *after: Any) -> None:
        """Run a kernel over all groups; where memory is short, there is more and it goes on."""
        group, most = 0, len(self.groups[0])
        while group < most:
            group = kernel(*before, *self.arrays, group, *after)
            if group < most:
                self.grow()

    def keep(self, kept: np.ndarray) -> None:
        """Forget all paths but these."""
        sizes = np.diff(self.starts[: self.count + 1])[kept]
        spans = np.concatenate([[0], np.cumsum(sizes)])
        place = np.repeat(self.starts[kept] - spans[:-1], sizes) + np.arange(spans[-1])
        self.set(self.pairs[kept].copy(), self.flows[kept].copy(), self.links[place], spans)

    def set(self, pairs: Any, flows: Any, links: Any, starts: Any) -> None:
        """Hold these paths, with populations in the order of this object."""
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
        """Link flows, summed anew from the paths."""
        amounts = np.repeat(self.flows[: self.count], np.diff(self.starts[: self.count + 1]))
        links = self.links[: self.starts[self.count]]
        self.flow[:] = np.bincount(links, amounts, self.game.links)

    def start_from(self, policy: FlowPolicy) -> bool:
        """Begin with the paths of a policy, scaled to the demand; False where a pair has none."""
        if policy.path_flows is None or policy.path_pairs is None or policy.path_starts is None:
            return False
        place = np.empty(len(self.order), np.int64)
        place[self.order] = np.arange(len(self.order))
        carried = np.bincount(policy.path_pairs, policy.path_flows, len(self.order))
        if len(carried) != len(self.order) or not (carried > 0.0).all():
            return False
        scale = (self.game.demand / carried)[policy.path_pairs]
        pairs = place[policy.path_pairs]
        self.set(pairs, policy.path_flows * scale, policy.path_links, policy.path_starts)
        return True

    def policy(self) -> FlowPolicy:
        """The flows as a policy of the game: paths that are used, population by population."""
        used = np.flatnonzero(self.flows[: self.count] > 0.0)
        pairs = self.order[self.pairs[used]]
        used = used[np.argsort(pairs, kind="stable")]
        pairs = np.sort(pairs, kind="stable")
        sizes = np.diff(self.starts[: self.count + 1])[used]
        spans = np.concatenate([[0], np.cumsum(sizes)])
        links = self.links[np.repeat(self.starts[used] - spans[:-1], sizes) + np.arange(spans[-1])]
        return policy_of(self.game, pairs, self.flows[used], links, spans)


def policy_of(
    game: NetworkGame, pairs: np.ndarray, flows: np.ndarray, links: np.ndarray, starts: np.ndarray
) -> FlowPolicy:
    """Flows on these paths as a policy of the game."""
    sizes, classes, count = np.diff(starts), len(game.values_of_time), game.links
    key = np.repeat(game.classes[pairs], sizes) * count + links
    total = np.bincount(key, np.repeat(flows, sizes), classes * count)
    total = total.reshape(classes, count) if classes > 1 else total
    return FlowPolicy(total, flows, pairs, links, starts)
