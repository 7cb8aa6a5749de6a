"""Rewards as a sum of interaction terms, each of a few agents: what low interaction rank means.

The reward of agent i is a sum of terms. A term of order k belongs to agent `scope[0]`, and
depends on the moves of the agents `scope[0], ..., scope[k-1]`. A reward whose terms have at most
order K has interaction rank K (Definition 2 of the interaction-rank paper, with the agent's own
move as x). Nothing here is ever as large as the joint space of moves.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import bsr_array

from equipoise.core import checks
from equipoise.games._lookups import joint_rewards

#: The largest number of entries of a table over the joint space.
DENSE_LIMIT = 50_000_000
#: How many numbers of products of occupancies are held at once.
_CHUNK = 4_000_000


class Interactions(eqx.Module):
    """Rewards of N agents, as terms of any order.

    A *move* of an agent is its action, or, where it has local states, state and action as one
    number, `state * actions + action`. A *situation* is a context, or, where there are steps,
    context and step as one number, `context * horizon + step`. Agents with fewer moves than
    others are padded; entries at moves that an agent does not have are never read.

    - `scopes[k]`: (terms, k) whole numbers, the agents of each term of order k; the first one
      is whose reward it is.
    - `tables[k]`: (situations, terms, moves, ..., moves) with k axes of moves, in the order of
      the scope.

    Terms are kept in the order of the agents they belong to.

    **Example**

    Two agents; the first likes to match, the second likes action 1.

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

    scopes: dict[int, np.ndarray]
    tables: dict[int, Any]
    agents: int = eqx.field(static=True)

    def __init__(self, scopes: Mapping[int, Any], tables: Mapping[int, Any], agents: int):
        self.agents = checks.check_count("agents", agents)
        if not scopes or set(scopes) != set(tables):
            raise ValueError(
                "tables: expected the same orders as scopes, at least one; "
                f"found {sorted(tables)} and {sorted(scopes)}"
            )
        self.scopes, self.tables = {}, {}
        for order in sorted(scopes):
            scope = _as_scope(order, scopes[order], self.agents)
            table = checks.as_float_array(f"tables[{order}]", tables[order], copy=False)
            if table.ndim != order + 2 or 0 in table.shape or len(set(table.shape[2:])) != 1:
                raise ValueError(
                    f"tables[{order}]: expected shape (situations, terms, moves, ..., moves) with "
                    f"{order} equal axes of moves, found {tuple(table.shape)}"
                )
            if table.shape[1] != len(scope):
                raise ValueError(
                    f"tables[{order}]: expected {len(scope)} terms, as scopes[{order}] has, "
                    f"found {table.shape[1]}"
                )
            checks.check_finite(f"tables[{order}]", table)
            if (np.diff(scope[:, 0]) < 0).any():
                sort = np.argsort(scope[:, 0], kind="stable")
                scope, table = scope[sort], table[:, sort]
            self.scopes[order], self.tables[order] = scope, table
        sizes = {(table.shape[0], table.shape[-1]) for table in self.tables.values()}
        if len(sizes) != 1:
            raise ValueError(
                "tables: expected the same (situations, moves) in every order, "
                f"found {sorted(sizes)}"
            )

    @property
    def situations(self) -> int:
        """Number of situations: contexts, or contexts times steps."""
        return self._any_table.shape[0]

    @property
    def moves(self) -> int:
        """Number of moves, of the agent that has most."""
        return self._any_table.shape[-1]

    @property
    def _any_table(self) -> Any:
        return next(iter(self.tables.values()))

    @property
    def rank(self) -> int:
        """The largest order of a term that is not zero: an upper bound of the interaction rank.

        The terms of a sum are not unique; in standardised form the bound is tight.
        """
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
                raise ValueError(f"{name}: expected whole numbers, found dtype {values.dtype}")
            if values.size and (values.min() < 0 or values.max() >= count):
                raise ValueError(
                    f"{name}: expected numbers from 0 to {count - 1}, "
                    f"found {values.min()} to {values.max()}"
                )
        return joint_rewards(self, situations, moves, dtype)

    def expected(self, occupancies: Any) -> Any:
        """Expected rewards of each own move, when the others move independently.

        `occupancies` (..., situations, agents, moves): the chance of each move of each agent.
        Returns the same shape: `E[r_i | u_i]` over the others' moves. The cost is that of the
        terms. Leading axes are batch axes. JAX arrays in, JAX arrays out; this may be traced.
        """
        if isinstance(occupancies, jax.Array):
            return _expected_jax(self, occupancies)
        given = np.asarray(occupancies, np.float64)
        shape = (self.situations, self.agents, self.moves)
        if given.shape[-3:] != shape:
            raise ValueError(
                f"occupancies: expected shape (..., situations, agents, moves) = (..., "
                f"{', '.join(map(str, shape))}), found {given.shape}"
            )
        return _expected_numpy(self, given.reshape(-1, *shape)).reshape(given.shape)

    def to_dense(self) -> np.ndarray:
        """(situations, agents, moves, ..., moves): rewards of all joint moves; for few agents.

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
            raise ValueError(
                f"interactions: expected at most {DENSE_LIMIT} entries of a joint table, "
                f"found {entries:.3g}"
            )
        dense = np.zeros(shape)
        for order, scopes in self.scopes.items():
            for m, scope in enumerate(scopes):
                sorted_table = np.asarray(self.tables[order])[:, m].transpose(
                    0, *(np.argsort(scope) + 1)
                )
                view = [self.moves if j in scope else 1 for j in range(self.agents)]
                dense[:, scope[0]] += sorted_table.reshape(self.situations, *view)
        return dense

    @classmethod
    def from_dense(cls, rewards: Any) -> "Interactions":
        """Terms of the full order from (situations, agents, moves, ..., moves)."""
        rewards = checks.as_float_array("rewards", rewards, copy=False)
        checks.check_ndim("rewards", rewards, 3, "(situations, agents, moves...)")
        agents = rewards.shape[1]
        if rewards.ndim != agents + 2:
            raise ValueError(
                f"rewards: expected one axis of moves for each of {agents} agents, "
                f"found shape {rewards.shape}"
            )
        scopes = np.array([[i, *(j for j in range(agents) if j != i)] for i in range(agents)])
        own_first = [rewards[:, i].transpose(0, *(scopes[i] + 1)) for i in range(agents)]
        return cls({agents: scopes}, {agents: np.stack(own_first, 1)}, agents)


def _as_scope(order: Any, scope: Any, agents: int) -> np.ndarray:
    order = checks.check_count("scopes", order)
    array = np.asarray(scope)
    name = f"scopes[{order}]"
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != order:
        raise ValueError(
            f"{name}: expected whole numbers of shape (terms, {order}), "
            f"found {array.dtype} of shape {array.shape}"
        )
    if not len(array):
        raise ValueError(f"{name}: expected at least one term, found none")
    if array.min() < 0 or array.max() >= agents:
        raise ValueError(
            f"{name}: expected agents from 0 to {agents - 1}, found {array.min()} to {array.max()}"
        )
    ordered = np.sort(array, 1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]).any(1)
    if repeated.any():
        where = int(np.argmax(repeated))
        raise ValueError(f"{name}: expected distinct agents, found {array[where]} at [{where}]")
    return array.astype(np.int32)


def _expected_numpy(terms: Interactions, occupancies: np.ndarray) -> np.ndarray:
    """(batch, situations, agents, moves) -> the same."""
    batch, situations, agents, moves = occupancies.shape
    result = np.zeros((situations, agents * moves, batch))
    # The batch last and contiguous: a matrix product then takes all of it at once.
    chances = np.ascontiguousarray(np.moveaxis(occupancies, 0, -1))
    for order, scopes in terms.scopes.items():
        starts = np.searchsorted(scopes[:, 0], np.arange(agents + 1))
        add = _add_alone if order == 1 else _add_pairs if order == 2 else _add_groups
        for c in range(situations):
            table = np.asarray(terms.tables[order][c], np.float64)
            add(result[c], table, scopes, starts, chances[c])
    return np.moveaxis(result, -1, 0).reshape(occupancies.shape)


def _add_alone(
    result: np.ndarray, table: np.ndarray, scopes: np.ndarray, starts: Any, chances: np.ndarray
) -> None:
    """Terms of one agent, whatever the others do."""
    np.add.at(result.reshape(chances.shape), scopes[:, 0], table[..., None])


def _add_pairs(
    result: np.ndarray, table: np.ndarray, scopes: np.ndarray, starts: Any, chances: np.ndarray
) -> None:
    """Terms of pairs: one matrix of blocks, which are the tables as they lie in memory."""
    size = len(result)
    blocks = bsr_array((table, scopes[:, 1], starts), shape=(size, size))
    result += blocks @ chances.reshape(size, -1)


def _add_groups(
    result: np.ndarray, table: np.ndarray, scopes: np.ndarray, starts: Any, chances: np.ndarray
) -> None:
    """Terms of larger groups: one matrix product for each agent, or part of its terms."""
    agents, moves, batch = chances.shape
    own = result.reshape(chances.shape)
    step = max(1, _CHUNK // (moves ** (scopes.shape[1] - 1) * batch))
    for i in range(agents):
        for start in range(starts[i], starts[i + 1], step):
            part = slice(start, min(start + step, starts[i + 1]))
            others = _products(chances, scopes[part, 1:]).reshape(-1, batch)
            own[i] += table[part].swapaxes(0, 1).reshape(moves, -1) @ others


def _products(chances: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(agents, moves, batch), (terms, k-1) -> (terms, moves^(k-1), batch): joint chances."""
    joint = chances[others[:, 0]]
    for column in others.T[1:]:
        following = chances[column]
        joint = joint[:, :, None] * following[:, None]
        joint = joint.reshape(len(joint), -1, joint.shape[-1])
    return joint


def _expected_jax(terms: Interactions, occupancies: jax.Array) -> jax.Array:
    result = jnp.zeros_like(occupancies)
    for order, scopes in terms.scopes.items():
        values = jnp.asarray(terms.tables[order], occupancies.dtype)
        for position in range(order - 1, 0, -1):
            chances = occupancies[..., scopes[:, position], :]
            shape = (*chances.shape[:-1], *[1] * (position), chances.shape[-1])
            values = (values * chances.reshape(shape)).sum(-1)
        result = result.at[..., scopes[:, 0], :].add(values)
    return result
