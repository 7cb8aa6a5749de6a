"""Sums over the rows of a log that least squares needs, gathered in one pass of any length.

For every agent and cell (context, own move) the second moments of (1, features, reward): their
size does not depend on the number of rows, so that logs larger than memory are added piece by
piece, and a model is fitted, cross-validated and its errors estimated without another look.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core.machine import cores
from equipoise.offline._design import Design, raw_features

#: Rows worked on at a time: their features stay in cache.
PIECE = 8192

#: From this many multiplications on, sums are taken in single precision inside a piece. Counts
#: stay exact; sums of rewards are then good to about 1e-6 of their size.
SINGLE_PRECISION_WORK = 2e10


@dataclass
class Moments:
    """Second moments of (1, features, reward) in every cell of some agents, and what they count.

    `sums[k]` belongs to agent `agents[k]`, with shape (cells, columns + 1, columns + 1).
    """

    agents: tuple[int, ...]
    designs: tuple[Design, ...]
    contexts: int
    moves: int
    sums: list[np.ndarray]
    #: (contexts, N, moves): how often each agent made each move.
    counts: np.ndarray

    @classmethod
    def empty(
        cls, designs: Sequence[Design], agents: Sequence[int], count: int, contexts: int, moves: int
    ) -> "Moments":
        """No rows yet; `designs[k]` is the design of agent `agents[k]`, of `count` agents."""
        sizes = [design.columns(moves) + 1 for design in designs]
        sums = [np.zeros((contexts * moves, size, size)) for size in sizes]
        counts = np.zeros((contexts, count, moves), np.int64)
        return cls(tuple(agents), tuple(designs), contexts, moves, sums, counts)

    def add(self, contexts: np.ndarray, moves: np.ndarray, rewards: np.ndarray) -> None:
        """Add rows: contexts (M,), moves (M, N) and rewards (M, N), any numeric types."""
        rows, count = moves.shape
        small = np.uint8 if self.moves <= 256 else np.int32
        by_agent = np.ascontiguousarray(np.asarray(moves).T, dtype=small)
        for j in range(count):
            code = contexts.astype(np.intp) * self.moves + by_agent[j]
            hits = np.bincount(code, minlength=self.contexts * self.moves)
            self.counts[:, j] += hits.reshape(self.contexts, self.moves)
        work = float(rows) * sum(s.shape[-1] ** 2 for s in self.sums)
        dtype = np.float32 if work > SINGLE_PRECISION_WORK else np.float64

        def one(k: int) -> None:
            reward = np.asarray(rewards[:, self.agents[k]], dtype=np.float64)
            add_agent(self, k, contexts, by_agent, reward, dtype)

        # One agent after another where BLAS has enough to do by itself.
        if cores() > 1 and len(self.agents) > 1 and max(s.shape[-1] for s in self.sums) < 128:
            with ThreadPoolExecutor(cores()) as pool:
                list(pool.map(one, range(len(self.agents))))
        else:
            for k in range(len(self.agents)):
                one(k)

    def minus(self, other: "Moments") -> "Moments":
        """What is left when the rows of `other` are taken away."""
        sums = [a - b for a, b in zip(self.sums, other.sums, strict=True)]
        return Moments(
            self.agents,
            self.designs,
            self.contexts,
            self.moves,
            sums,
            self.counts - other.counts,
        )


def add_agent(
    moments: Moments,
    k: int,
    contexts: np.ndarray,
    by_agent: np.ndarray,
    reward: np.ndarray,
    dtype: Any,
) -> None:
    """Add rows to the moments of one agent, sorted by cell inside each piece."""
    design, total = moments.designs[k], moments.sums[k]
    agent, moves = moments.agents[k], moments.moves
    cells = moments.contexts * moves
    piece = max(PIECE, 64 * cells)
    buffer = np.empty((min(piece, len(reward)), total.shape[-1]), dtype)
    buffer[:, 0] = 1.0
    for start in range(0, len(reward), piece):
        rows = slice(start, start + piece)
        # A single context is no reason to widen what is sorted: bytes are sorted by counting.
        cell = by_agent[agent, rows]
        if moments.contexts > 1:
            cell = (contexts[rows] * moves + cell).astype(np.uint16 if cells < 65536 else np.intp)
        order = np.argsort(cell, kind="stable")
        ends = np.cumsum(np.bincount(cell, minlength=cells))
        z = buffer[: len(order)]
        raw_features(design, by_agent[:, rows], moves, z[:, :-1], order)
        z[:, -1] = reward[rows][order]
        first = 0
        for at, end in enumerate(ends):
            if end > first:
                part = z[first:end]
                total[at] += part.T @ part
            first = end
