"""Rewards of very many joint moves: few, merged tables instead of many small ones.

A sum of ten pair terms takes ten lookups a sample. The terms of one agent are merged into tables
over the moves of a few agents at once, as many as still fit into the nearest cache, which makes
it two or three lookups; and samples go through in blocks, agent by agent, so that what is read
and written stays in cache too.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.core.machine import cores

if TYPE_CHECKING:
    from equipoise.games._interactions import Interactions

#: Entries of a merged table, at most, unless a single term has more.
_MERGED = 4096
#: Entries of all tables that are held at once.
_HELD = 32_000_000
#: Samples that go through at once; not a power of two, whose columns share lines of the cache.
_BLOCK = 16_400


@dataclass(frozen=True)
class Lookup:
    """One merged table: the agents whose moves index it, the first of them its owner."""

    agents: tuple[int, ...]
    table: np.ndarray


def joint_rewards(
    terms: "Interactions", situations: np.ndarray, moves: np.ndarray, dtype: Any
) -> np.ndarray:
    """(samples, agents): the rewards of joint moves, whose values were checked before."""
    samples = len(moves)
    rewards = np.empty((samples, terms.agents), dtype)
    starts = range(0, samples, _BLOCK)
    workers = max(1, min(cores(), len(starts)))
    for owners, lookups in _groups(terms, samples, np.dtype(dtype)):

        def fill(first: int, owners: slice = owners, lookups: Any = lookups) -> None:
            space = _Space(terms, lookups, min(_BLOCK, samples), np.dtype(dtype))
            for start in starts[first::workers]:
                rows = slice(start, start + _BLOCK)
                rewards[rows, owners] = space.rewards(situations[rows], moves[rows])

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(fill, range(workers)))  # which also raises what one of them raised
    return rewards


def _groups(
    terms: "Interactions", samples: int, dtype: np.dtype
) -> Iterator[tuple[slice, list[list[Lookup]]]]:
    """Owners in turn, with the lookups of each, as many at a time as memory should hold."""
    entries = max(terms.moves, min(_MERGED, 4 * samples) // terms.situations)
    first, held, lookups = 0, 0, []
    starts = {
        k: np.searchsorted(s[:, 0], np.arange(terms.agents + 1)) for k, s in terms.scopes.items()
    }
    for owner in range(terms.agents):
        lookups.append(_merge(terms, owner, starts, entries, dtype))
        held += sum(lookup.table.size for lookup in lookups[-1])
        if held > _HELD or owner == terms.agents - 1:
            yield slice(first, owner + 1), lookups
            first, held, lookups = owner + 1, 0, []


def _merge(
    terms: "Interactions", owner: int, starts: dict[int, np.ndarray], entries: int, dtype: np.dtype
) -> list[Lookup]:
    """The terms of one agent, merged first come, first served."""
    moves, merged = terms.moves, []
    agents, members = [owner], []

    def finish() -> None:
        if members:
            merged.append(Lookup(tuple(agents), _sum_tables(terms, agents, members, dtype)))

    for order, start in starts.items():
        scopes = terms.scopes[order]
        for m in range(start[owner], start[owner + 1]):
            scope = scopes[m].tolist()
            new = [j for j in scope if j not in agents]
            if members and moves ** (len(agents) + len(new)) > entries:
                finish()
                agents, members = [owner], []
                new = [j for j in scope if j != owner]
            agents += new
            members.append((order, m))
    finish()
    return merged


def _sum_tables(
    terms: "Interactions", agents: list[int], members: list[tuple[int, int]], dtype: np.dtype
) -> np.ndarray:
    """(situations * moves^agents,): the sum of some terms, over the moves of `agents`."""
    situations, moves, scopes, tables = terms.situations, terms.moves, terms.scopes, terms.tables
    total = np.zeros((situations, *[moves] * len(agents)))
    for order, m in members:
        places = [agents.index(j) for j in scopes[order][m].tolist()]
        table = tables[order][:, m].transpose(0, *(1 + k for k in np.argsort(places).tolist()))
        view = [moves if k in places else 1 for k in range(len(agents))]
        total += table.reshape(situations, *view)
    return total.reshape(-1).astype(dtype)


class _Space:
    """Where one thread works through its blocks, agent by agent: allocated once."""

    def __init__(
        self, terms: "Interactions", lookups: list[list[Lookup]], samples: int, dtype: np.dtype
    ):
        largest = max((lookup.table.size for own in lookups for lookup in own), default=1)
        self.kind = np.int16 if largest <= np.iinfo(np.int16).max else np.int64
        self.lookups, self.width = lookups, self.kind(terms.moves)
        self.columns = np.empty((terms.agents, samples), self.kind)
        self.found = np.empty((len(lookups), samples), dtype)
        self.index, self.one = np.empty(samples, self.kind), np.empty(samples, dtype)

    def rewards(self, situations: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """(samples, owners): one block; a view that the next block overwrites."""
        count = len(moves)
        columns, found = self.columns[:, :count], self.found[:, :count]
        index, one = self.index[:count], self.one[:count]
        columns[:] = moves.T
        found[:] = 0.0
        start = situations.astype(self.kind) * self.width
        for own, reward in zip(self.lookups, found, strict=True):
            for lookup in own:
                np.add(start, columns[lookup.agents[0]], out=index)
                for agent in lookup.agents[1:]:
                    np.multiply(index, self.width, out=index)
                    np.add(index, columns[agent], out=index)
                # Indices are within bounds: clipping is only what takes the shortest way.
                np.take(lookup.table, index, out=one, mode="clip")
                reward += one
        return found.T
