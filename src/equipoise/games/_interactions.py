"""Rewards as sums of interaction terms of a few agents each (low interaction rank).

The reward of agent i is a sum of terms. A term of order k belongs to agent `scope[0]` and
depends on the moves of the agents `scope[0], ..., scope[k-1]`. A reward whose terms have order K
at most has interaction rank K (Definition 2 of the interaction-rank paper, with the agent's own
move as x). No array here is as large as the joint space of moves.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.machine import cores
from equipoise.core.values import Value, frozen, is_jax, read_only, read_only_integers, static

#: Largest number of entries of a table over the joint space.
DENSE_LIMIT = 50_000_000
#: Largest number of products of occupancies held in memory at once.
_CHUNK = 4_000_000
#: Largest number of entries of a merged reward table, unless a single term has more.
_MERGED = 4096
#: Largest total number of entries of merged tables held at once.
_HELD = 32_000_000
#: Samples per block. Not a power of two: columns would then share cache lines.
_BLOCK = 16_400


class Interactions(Value):
    """Rewards of N agents as a sum of terms of any order.

    A *move* of an agent is its action. With local states it combines state and action in one
    number, `state * actions + action`. A *situation* is a context. With several steps it combines
    context and step, `context * horizon + step`. Agents with fewer moves than others are padded;
    entries at moves that an agent does not have are never read.

    - `scopes[k]`: (terms, k) whole numbers, the agents of each term of order k. The term belongs to
      the reward of the first agent.
    - `tables[k]`: (situations, terms, moves, ..., moves) with k axes of moves, in the order of
      the scope.

    Terms are sorted by the agents they belong to.

    **Example**

    Two agents: the first wants to match the second, the second prefers action 1.

    >>> import numpy as np, equipoise as eq
    >>> terms = eq.games.Interactions(
    ...     scopes={1: [[1]], 2: [[0, 1]]},
    ...     tables={1: [[[0.0, 1.0]]], 2: [[[[1.0, 0.0], [0.0, 1.0]]]]},
    ...     agents=2,
    ... )
    >>> terms.rank, terms.moves, terms.situations
    (2, 2, 1)
    >>> terms.rewards([0, 0], [[0, 0], [0, 1]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> terms.expected([[[0.5, 0.5], [0.25, 0.75]]]).tolist()
    [[[0.25, 0.75], [0.0, 1.0]]]
    """

    #: Agents of the terms of each order.
    scopes: dict[int, np.ndarray]
    #: Values of the terms of each order.
    tables: dict[int, Any]
    agents: int = static()

    def __init__(self, scopes: Mapping[int, Any], tables: Mapping[int, Any], agents: int):
        agents = checks.check_count("agents", agents)
        if not scopes or set(scopes) != set(tables):
            raise InputError(
                "tables",
                "the same orders as scopes, at least one",
                f"{sorted(tables)} and {sorted(scopes)}",
            )
        self._set(scopes={}, tables={}, agents=agents)
        for order in sorted(scopes):
            order = checks.check_count("scopes", order)
            scope = as_scope(f"scopes[{order}]", order, scopes[order], agents)
            table = read_only(f"tables[{order}]", tables[order])
            if table.ndim != order + 2 or 0 in table.shape or len(set(table.shape[2:])) != 1:
                raise InputError(
                    f"tables[{order}]",
                    f"shape (situations, terms, moves, ..., moves) with {order} equal axes "
                    "of moves",
                    tuple(table.shape),
                )
            if table.shape[1] != len(scope):
                raise ValueError(
                    f"tables[{order}]: expected {len(scope)} terms, like scopes[{order}], "
                    f"found {table.shape[1]}"
                )
            checks.check_finite(f"tables[{order}]", table)
            if (np.diff(scope[:, 0]) < 0).any():
                sort = np.argsort(scope[:, 0], kind="stable")
                scope, table = frozen((scope[sort], table[:, sort]))
            self.scopes[order], self.tables[order] = scope, table
        sizes = {(table.shape[0], table.shape[-1]) for table in self.tables.values()}
        if len(sizes) != 1:
            raise InputError("tables", "the same (situations, moves) in every order", sorted(sizes))

    @property
    def situations(self) -> int:
        """Number of situations: contexts, or contexts times steps."""
        return self._any_table.shape[0]

    @property
    def moves(self) -> int:
        """Largest number of moves of any agent."""
        return self._any_table.shape[-1]

    @property
    def _any_table(self) -> Any:
        return next(iter(self.tables.values()))

    @property
    def rank(self) -> int:
        """Largest order of a non-zero term: an upper bound on the interaction rank.

        The decomposition into terms is not unique; in standardised form the bound is tight.
        """
        checks.check_known("tables", self.tables)
        return max((k for k, table in self.tables.items() if np.any(table)), default=1)

    @property
    def terms(self) -> int:
        """Number of terms of all orders."""
        return sum(len(scope) for scope in self.scopes.values())

    def rewards(self, situations: Any, moves: Any, *, dtype: Any = np.float64) -> np.ndarray:
        """(samples, agents): rewards of moves (samples, agents) in situations (samples,)."""
        situations, moves = np.asarray(situations), np.asarray(moves)
        checks.check_shape("moves", moves, (len(situations), self.agents), "(samples, agents)")
        for name, values, count in (
            ("situations", situations, self.situations),
            ("moves", moves, self.moves),
        ):
            if values.dtype.kind not in "iu":
                raise InputError(name, "whole numbers", f"dtype {values.dtype}")
            if values.size and (values.min() < 0 or values.max() >= count):
                raise InputError(
                    name, f"numbers from 0 to {count - 1}", f"{values.min()} to {values.max()}"
                )
        return joint_rewards(self, situations, moves, dtype)

    def expected(self, occupancies: Any) -> Any:
        """Expected reward of each agent for each of its moves when the others move independently.

        `occupancies` (..., situations, agents, moves) holds the probability of each agent's moves.
        Returns an array of the same shape: `E[r_i | u_i]` over the others' moves. The cost is
        proportional to the size of the terms. Leading axes are batch axes. JAX arrays return JAX
        arrays, and the function may be traced.
        """
        if is_jax(occupancies):
            return _expected_jax(self, occupancies)
        given = np.asarray(occupancies, np.float64)
        shape = (self.situations, self.agents, self.moves)
        if given.shape[-3:] != shape:
            raise InputError(
                "occupancies",
                f"shape (..., situations, agents, moves) = (..., {', '.join(map(str, shape))})",
                given.shape,
            )
        return _expected_numpy(self, given.reshape(-1, *shape)).reshape(given.shape)

    def to_dense(self) -> np.ndarray:
        """(situations, agents, moves, ..., moves): rewards of all joint moves. Needs few agents.

        **Example**

        >>> import equipoise as eq
        >>> game = eq.games.families.polymatrix(agents=3, actions=2).sample(key=0)
        >>> dense = game.interactions.to_dense()
        >>> dense.shape, eq.games.Interactions.from_dense(dense).rank
        ((1, 3, 2, 2, 2), 3)
        """
        shape = (self.situations, self.agents, *[self.moves] * self.agents)
        entries = float(self.situations * self.agents) * float(self.moves) ** self.agents
        if entries > DENSE_LIMIT:
            raise InputError(
                "interactions", f"at most {DENSE_LIMIT} entries of a joint table", f"{entries:.3g}"
            )
        dense = np.zeros(shape)
        everybody = list(range(self.agents))
        for order, scopes in self.scopes.items():
            for m, scope in enumerate(scopes):
                dense[:, scope[0]] += _spread(self, order, m, everybody)
        return dense

    @classmethod
    def from_dense(cls, rewards: Any) -> "Interactions":
        """Build terms of full order from a table (situations, agents, moves, ..., moves)."""
        rewards = read_only("rewards", rewards)
        checks.check_ndim("rewards", rewards, 3, "(situations, agents, moves...)")
        agents = rewards.shape[1]
        if rewards.ndim != agents + 2:
            raise InputError(
                "rewards",
                f"one axis of moves for each of {agents} agents",
                f"shape {rewards.shape}",
            )
        scopes = np.array([[i, *(j for j in range(agents) if j != i)] for i in range(agents)])
        own_first = [rewards[:, i].transpose(0, *(scopes[i] + 1)) for i in range(agents)]
        return cls({agents: scopes}, {agents: frozen(np.stack(own_first, 1))}, agents)


def as_scope(name: str, order: int, scope: Any, agents: int) -> np.ndarray:
    """(terms, order): check and return the agents of each term."""
    array = np.asarray(scope)
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != order:
        raise InputError(
            name,
            f"whole numbers of shape (terms, {order})",
            f"{array.dtype} of shape {array.shape}",
        )
    if not len(array):
        raise InputError(name, "at least one term", "none")
    if array.min() < 0 or array.max() >= agents:
        raise InputError(name, f"agents from 0 to {agents - 1}", f"{array.min()} to {array.max()}")
    repeated = (np.diff(np.sort(array, 1)) == 0).any(1)
    if repeated.any():
        row = int(np.argmax(repeated))
        raise InputError(name, "different agents in a term", f"{array[row].tolist()} at [{row}]")
    return read_only_integers(name, scope, np.int32)


def _expected_numpy(terms: Interactions, occupancies: np.ndarray) -> np.ndarray:
    """Compute `expected` in NumPy, (batch, situations, agents, moves) -> the same shape."""
    batch, situations, agents, moves = occupancies.shape
    result = np.zeros((situations, agents * moves, batch))
    # Put the batch last and contiguous: one matrix product then handles all of it.
    chances = np.ascontiguousarray(np.moveaxis(occupancies, 0, -1))
    for order, scopes in terms.scopes.items():
        starts = np.searchsorted(scopes[:, 0], np.arange(agents + 1))
        for c in range(situations):
            table = np.asarray(terms.tables[order][c], np.float64)
            own = result[c].reshape(agents, moves, batch)
            if order == 1:
                np.add.at(own, scopes[:, 0], table[..., None])
            elif order == 2:  # one block matrix: the tables as laid out in memory
                from scipy.sparse import bsr_array  # takes as long to load as NumPy

                blocks = bsr_array((table, scopes[:, 1], starts), shape=(agents * moves,) * 2)
                result[c] += blocks @ chances[c].reshape(-1, batch)
            else:
                _add_groups(own, table, scopes, starts, chances[c])
    return np.moveaxis(result, -1, 0).reshape(occupancies.shape)


def _add_groups(
    own: np.ndarray, table: np.ndarray, scopes: np.ndarray, starts: Any, chances: np.ndarray
) -> None:
    """Add terms of larger groups: one matrix product per agent, or per part of its terms."""
    agents, moves, batch = chances.shape
    step = max(1, _CHUNK // (moves ** (scopes.shape[1] - 1) * batch))
    for i in range(agents):
        for start in range(starts[i], starts[i + 1], step):
            part = slice(start, min(start + step, starts[i + 1]))
            others = _products(chances, scopes[part, 1:]).reshape(-1, batch)
            own[i] += table[part].swapaxes(0, 1).reshape(moves, -1) @ others


def _products(chances: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(agents, moves, batch), (terms, k-1) -> (terms, moves^(k-1), batch): joint probabilities."""
    joint = chances[others[:, 0]]
    for column in others.T[1:]:
        following = chances[column]
        joint = joint[:, :, None] * following[:, None]
        joint = joint.reshape(len(joint), -1, joint.shape[-1])
    return joint


def _expected_jax(terms: Interactions, occupancies: Any) -> Any:
    import jax.numpy as jnp

    result = jnp.zeros_like(occupancies)
    for order, scopes in terms.scopes.items():
        values = jnp.asarray(terms.tables[order], occupancies.dtype)
        values = jnp.broadcast_to(values, (*occupancies.shape[:-3], *values.shape))
        for position in range(order - 1, 0, -1):
            chances = occupancies[..., scopes[:, position], :]
            shape = (*chances.shape[:-1], *[1] * (position), chances.shape[-1])
            values = (values * chances.reshape(shape)).sum(-1)
        result = result.at[..., scopes[:, 0], :].add(values)
    return result


#: One merged table: the agents whose moves index it (its owner first).
Lookup = tuple[tuple[int, ...], np.ndarray]


def joint_rewards(
    terms: Interactions, situations: np.ndarray, moves: np.ndarray, dtype: Any
) -> np.ndarray:
    """(samples, agents): rewards of joint moves that have already been checked.

    Merging small tables makes this fast. A sum of ten pair terms takes ten lookups per sample.
    The terms of one agent are merged into tables over the moves of several agents, as many as fit
    into the nearest cache, which leaves two or three lookups. Samples are processed in blocks,
    agent by agent, so that the data read and written stays in cache too.
    """
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
            list(pool.map(fill, range(workers)))  # `list` re-raises exceptions of the workers
    return rewards


def _groups(
    terms: Interactions, samples: int, dtype: np.dtype
) -> Iterator[tuple[slice, list[list[Lookup]]]]:
    """Yield owners with their lookups, as many at a time as memory should hold."""
    entries = max(terms.moves, min(_MERGED, 4 * samples) // terms.situations)
    first, held, lookups = 0, 0, []
    starts = {
        k: np.searchsorted(s[:, 0], np.arange(terms.agents + 1)) for k, s in terms.scopes.items()
    }
    for owner in range(terms.agents):
        lookups.append(_merge(terms, owner, starts, entries, dtype))
        held += sum(table.size for _, table in lookups[-1])
        if held > _HELD or owner == terms.agents - 1:
            yield slice(first, owner + 1), lookups
            first, held, lookups = owner + 1, 0, []


def _merge(
    terms: Interactions, owner: int, starts: dict[int, np.ndarray], entries: int, dtype: np.dtype
) -> list[Lookup]:
    """Merge the terms of one agent greedily, in their order."""
    moves, merged = terms.moves, []
    agents, members = [owner], []

    def finish() -> None:
        total = np.zeros((terms.situations, *[moves] * len(agents)))
        for order, m in members:
            total += _spread(terms, order, m, agents)
        merged.append((tuple(agents), total.reshape(-1).astype(dtype)))

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
    if members:
        finish()
    return merged


def _spread(terms: Interactions, order: int, m: int, agents: list[int]) -> np.ndarray:
    """Return a table with one axis per agent of `agents`, of length one outside its scope."""
    places = [agents.index(j) for j in terms.scopes[order][m].tolist()]
    table = np.asarray(terms.tables[order])[:, m].transpose(0, *(1 + np.argsort(places)))
    view = [terms.moves if k in places else 1 for k in range(len(agents))]
    return table.reshape(terms.situations, *view)


class _Space:
    """Work space of one thread, allocated once; it processes its blocks agent by agent."""

    def __init__(
        self, terms: Interactions, lookups: list[list[Lookup]], samples: int, dtype: np.dtype
    ):
        largest = max((table.size for own in lookups for _, table in own), default=1)
        self.kind = np.int16 if largest <= np.iinfo(np.int16).max else np.int64
        self.lookups, self.width = lookups, self.kind(terms.moves)
        self.columns = np.empty((terms.agents, samples), self.kind)
        self.found = np.empty((len(lookups), samples), dtype)
        self.index, self.one = np.empty(samples, self.kind), np.empty(samples, dtype)

    def rewards(self, situations: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """(samples, owners): rewards of one block, as a view that the next block overwrites."""
        count = len(moves)
        columns, found = self.columns[:, :count], self.found[:, :count]
        index, one = self.index[:count], self.one[:count]
        columns[:] = moves.T
        found[:] = 0.0
        start = situations.astype(self.kind) * self.width
        for own, reward in zip(self.lookups, found, strict=True):
            for agents, table in own:
                np.add(start, columns[agents[0]], out=index)
                for agent in agents[1:]:
                    np.multiply(index, self.width, out=index)
                    np.add(index, columns[agent], out=index)
                # All indices are within bounds; clip mode is only the fastest code path.
                np.take(table, index, out=one, mode="clip")
                reward += one
        return found.T
