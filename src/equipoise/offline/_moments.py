"""Features of a K-IR reward, and the sums over the rows of a log that least squares needs.

Every term of agent i's reward depends on the context and on its own move, so least squares
separates into one regression for each *cell* (context, own move), in the moves of the others only.
The raw features are a constant, indicators of every move but the last of each neighbour, and
products of those for every group of neighbours that act jointly. Their sums are counts of rows,
which are exact in floating point for any order of the rows.

The regression uses a basis that is orthonormal under the neighbours' empirical distribution and
orthogonal to constants. A ridge penalty then means the same for rare and for frequent moves, and
the fitted terms are standardised (Lemma 3), which makes the decomposition unique.

`Moments` are the second moments of (1, features, reward) of every agent and cell. Their size does
not depend on the number of rows. Logs larger than memory can therefore be added piece by piece, and
a model can be fitted and cross-validated and its errors estimated without another pass.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import scipy.sparse as sparse

from equipoise.core.machine import cores
from equipoise.offline._coverage import count_moves, known_rows

#: Neighbours are looked up jointly in tables of at most this many rows, which stay in cache.
TABLE_ROWS = 1024
#: Number of rows processed at a time, so that their features stay in cache.
PIECE = 8192

#: OpenBLAS uses one thread for products of up to this many multiplications. Designs with more
#: columns than the second number are left to its threads.
SINGLE_THREAD, FEW_COLUMNS = 1 << 18, 64

#: With more multiplications than this, sums within a piece use single precision. Counts stay
#: exact; sums of rewards then have a relative error of about 1e-6.
SINGLE_PRECISION_WORK = 2e10


@dataclass(frozen=True)
class Design:
    """The features of one agent: groups of neighbours, sorted by size and then by number.

    >>> Design.of((1, 4, 5), 3).groups
    ((1,), (4,), (5,), (1, 4), (1, 5), (4, 5))
    """

    #: Groups of neighbours that have a term of their own, ascending within a group.
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, neighbours: Sequence[int], rank: int) -> "Design":
        """All groups of up to `rank - 1` of the neighbours."""
        ordered = sorted(int(j) for j in neighbours)
        sizes = range(1, min(rank, len(ordered) + 1))
        return cls(tuple(group for size in sizes for group in combinations(ordered, size)))

    def columns(self, moves: int) -> int:
        """Number of features, including the constant."""
        return int(self.offsets(moves)[-1])

    def offsets(self, moves: int) -> np.ndarray:
        """First column of each group, and the end."""
        widths = [(moves - 1) ** len(group) for group in self.groups]
        return np.cumsum([1, *widths])


def columns_of(neighbours: int, rank: int, moves: int) -> int:
    """Number of features of `Design.of` for this many neighbours, without creating it.

    >>> columns_of(3, 3, 4) == Design.of((1, 4, 5), 3).columns(4)
    True
    """
    return sum(comb(neighbours, k) * (moves - 1) ** k for k in range(rank))


def raw_features(
    design: Design, moves: np.ndarray, count: int, out: np.ndarray, order: np.ndarray
) -> None:
    """Fill `out[:, 1:]` with the raw features of the rows `order` of (N, rows) moves."""
    column = 1
    for group, multiplied in _lookups(design, count):
        table = _table(count, len(group), multiplied, out.dtype.str)
        code = moves[group[0]].astype(np.uint16 if len(table) <= 65536 else np.intp)
        for j in group[1:]:
            code *= count
            np.add(code, moves[j], out=code, casting="unsafe")
        # A lookup into a separate array without bounds checks takes a fifth of the time of
        # indexing with square brackets.
        rows = np.take(code, order, mode="clip").astype(np.intp)
        found = np.empty((len(rows), table.shape[1]), out.dtype)
        np.take(table, rows, axis=0, out=found, mode="clip")
        out[:, column : column + table.shape[1]] = found
        column += table.shape[1]


@cache
def _table(count: int, size: int, multiplied: bool, dtype: str) -> np.ndarray:
    """Indicators of the digits of every code, multiplied together or side by side."""
    single = np.eye(count, count - 1, dtype=dtype)
    if multiplied:
        return reduce(np.kron, [single] * size)
    digits = np.indices((count,) * size).reshape(size, -1)
    return np.concatenate([single[digit] for digit in digits], 1)


@cache
def _lookups(design: Design, count: int) -> list[tuple[tuple[int, ...], bool]]:
    """Neighbours to look up jointly, and whether to multiply their indicators."""
    singles = [group[0] for group in design.groups if len(group) == 1]
    together = 1
    while together < len(singles) and count ** (together + 1) <= TABLE_ROWS:
        together += 1
    found = [(tuple(singles[k : k + together]), False) for k in range(0, len(singles), together)]
    return found + [(group, True) for group in design.groups if len(group) > 1]


def orthonormal_basis(distribution: np.ndarray) -> np.ndarray:
    """(..., moves, moves - 1): orthonormal functions of a move with mean zero.

    They are the other columns of the reflection that maps the square root of the distribution to a
    unit vector. Functions are zero at moves that never occur, since nothing is known about them.

    >>> basis = orthonormal_basis(np.array([0.5, 0.3, 0.2]))
    >>> np.allclose(basis.T @ (np.array([0.5, 0.3, 0.2])[:, None] * basis), np.eye(2))
    True
    """
    root = np.sqrt(distribution)
    moves = root.shape[-1]
    target = np.zeros(moves)
    target[-1] = 1.0
    normal = root - target
    length = np.sum(normal**2, -1, keepdims=True)
    scale = np.where(length > 1e-30, 2.0 / np.maximum(length, 1e-30), 0.0)
    reflection = np.eye(moves) - scale[..., None] * normal[..., :, None] * normal[..., None, :]
    seen = root > 0
    # The column of an unseen move is a unit vector at that move, so all of it becomes zero.
    inverse = np.where(seen, 1.0 / np.where(seen, root, 1.0), 0.0)
    return inverse[..., :, None] * reflection[..., :, :-1]


def to_orthonormal(design: Design, bases: np.ndarray) -> sparse.csr_array:
    """Matrix T with `features in the basis = raw features @ T`, for bases (N, moves, width).

    A function of one neighbour's move is `b(last) + sum_u 1[u] (b(u) - b(last))`; a product over
    a group expands into products over its subsets, all of which have raw features.
    """
    moves = bases.shape[1]
    starts = dict(zip(design.groups, design.offsets(moves)[:-1], strict=True))
    starts[()] = 0
    rows, columns, values = [np.zeros(1, int)], [np.zeros(1, int)], [np.ones(1)]
    inner, last = bases[:, :-1] - bases[:, -1:], bases[:, -1:]
    for size in sorted({len(group) for group in design.groups}):
        same = [group for group in design.groups if len(group) == size]
        members, first = np.array(same), np.array([starts[group] for group in same])
        for kept in product((False, True), repeat=size):
            block = np.ones((len(same), 1, 1))
            for place, inside in enumerate(kept):
                factor = (inner if inside else last)[members[:, place]]
                block = block[:, :, None, :, None] * factor[:, None, :, None, :]
                high, wide = block.shape[1] * block.shape[2], block.shape[3] * block.shape[4]
                block = block.reshape(len(same), high, wide)
            subset = [starts[tuple(j for j, k in zip(g, kept, strict=True) if k)] for g in same]
            r, c = np.indices(block.shape[1:])
            rows.append((np.array(subset)[:, None, None] + r).ravel())
            columns.append((first[:, None, None] + c).ravel())
            values.append(block.ravel())
    count = design.columns(moves)
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sparse.csr_array(entries, shape=(count, count))


def group_tables(design: Design, coefficients: np.ndarray, bases: np.ndarray) -> list[np.ndarray]:
    """Fitted terms of a cell as tables over the moves of each group, the constant first."""
    moves, width = bases.shape[1:]
    tables = [coefficients[..., 0]]
    starts = design.offsets(moves)
    for group, start in zip(design.groups, starts[:-1], strict=True):
        block = coefficients[..., start : start + width ** len(group)]
        block = block.reshape(*block.shape[:-1], *(width,) * len(group))
        for place, j in enumerate(group):
            axis = block.ndim - len(group) + place
            block = np.moveaxis(np.tensordot(block, bases[j], (axis, 1)), -1, axis)
        tables.append(block)
    return tables


@dataclass
class Moments:
    """Second moments of (1, features, reward) in every cell of some agents, and counts of moves.

    `sums[k]` belongs to agent `agents[k]`, with shape (cells, columns + 1, columns + 1).
    """

    agents: tuple[int, ...]
    designs: tuple[Design, ...]
    contexts: int
    moves: int
    sums: list[np.ndarray]
    #: (contexts, N, moves): number of times each agent made each move.
    counts: np.ndarray

    @classmethod
    def empty(
        cls, designs: Sequence[Design], agents: Sequence[int], count: int, contexts: int, moves: int
    ) -> "Moments":
        """Moments of no rows; `designs[k]` is the design of agent `agents[k]` of `count`."""
        sizes = [design.columns(moves) + 1 for design in designs]
        sums = [np.zeros((contexts * moves, size, size)) for size in sizes]
        counts = np.zeros((contexts, count, moves), np.int64)
        return cls(tuple(agents), tuple(designs), contexts, moves, sums, counts)

    def add(self, contexts: np.ndarray, moves: np.ndarray, rewards: np.ndarray) -> None:
        """Add rows: contexts (M,), moves (M, N) and rewards (M, N), any numeric types.

        Moments of an agent leave out rows whose reward is NaN; counts of moves do not.
        """
        rows = len(moves)
        small = np.uint8 if self.moves <= 256 else np.int32
        by_agent = np.ascontiguousarray(np.asarray(moves).T, dtype=small)
        self.counts += count_moves(contexts, by_agent, self.contexts, self.moves)
        work = float(rows) * sum(s.shape[-1] ** 2 for s in self.sums)
        dtype = np.float32 if work > SINGLE_PRECISION_WORK else np.float64

        def one(k: int) -> None:
            reward = np.asarray(rewards[:, self.agents[k]], dtype=np.float64)
            known = known_rows(reward)
            add_agent(self, k, contexts[known], by_agent[:, known], reward[known], dtype)

        # Large designs: one agent after another, since BLAS uses all cores itself.
        if cores() > 1 and len(self.agents) > 1 and max(s.shape[-1] for s in self.sums) < 128:
            with ThreadPoolExecutor(cores()) as pool:
                list(pool.map(one, range(len(self.agents))))
        else:
            for k in range(len(self.agents)):
                one(k)

    def plus(self, other: "Moments", sign: int = 1) -> "Moments":
        """Add the moments of `other`, or subtract them if the sign is -1."""
        sums = [a + sign * b for a, b in zip(self.sums, other.sums, strict=True)]
        return replace(self, sums=sums, counts=self.counts + sign * other.counts)


def add_agent(
    moments: Moments,
    k: int,
    contexts: np.ndarray,
    by_agent: np.ndarray,
    reward: np.ndarray,
    dtype: Any,
) -> None:
    """Add rows to the moments of one agent, sorted by cell within each piece."""
    design, total = moments.designs[k], moments.sums[k]
    agent, moves = moments.agents[k], moments.moves
    cells = moments.contexts * moves
    piece = max(PIECE, 64 * cells)
    buffer = np.empty((min(piece, len(reward)), total.shape[-1]), dtype)
    buffer[:, 0] = 1.0
    for start in range(0, len(reward), piece):
        rows = slice(start, start + piece)
        # With a single context, keep the narrow type: bytes are sorted by counting.
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
                _add_products(z[first:end], total[at])
            first = end


def _add_products(part: np.ndarray, total: np.ndarray) -> None:
    """Add `part.T @ part`; with few columns, in blocks for which BLAS uses one thread.

    Agents are already distributed over threads, and waking others for a product of few columns
    takes up to forty times as long as the product.
    """
    rows, columns = part.shape
    size = rows if columns > FEW_COLUMNS else SINGLE_THREAD // (columns * (columns + 1))
    for at in range(0, rows, size):
        block = part[at : at + size]
        total += block.T @ block
