"""Rewards that depend on the own action and on an aggregate of what the others do.

The aggregate is the sum of the others' actions (numbered in their order), or how many of the
others play each action. El Farol's bar, a market price and a congested road are of this kind:
their interaction rank is as large as the number of agents, while a table of own action by
aggregate is small.

Agents play independently, so that the distribution of the others' sum is a convolution. Its
Fourier transform is a product over agents; products that leave one agent out come from
cumulative products from both ends, and one inverse transform gives all distributions at once.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from equipoise.offline._log import Log

#: Kinds of aggregates -> what they are called in tables.
KINDS = {"sum": "own action by the sum of others'", "histogram": "own action by others' counts"}
#: Aggregates of more values than this are not tried.
LARGEST_GRID = 5_000
#: Numbers that a batch of distributions may hold at once.
_CHUNK = 4_000_000


class Aggregate(eqx.Module):
    """The rewards of every own move at every aggregate of the others' moves.

    `table` is (situations, agents, moves, cells), with the cells of `grid` in C order; `scores`
    (moves, axes of the grid) is what a move adds to the aggregate.
    """

    table: Float[Array | np.ndarray, "situations agents moves cells"]
    scores: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    grid: tuple[int, ...] = eqx.field(static=True)

    @property
    def agents(self) -> int:
        """Number of agents."""
        return self.table.shape[1]

    def chances(self, occupancies: Any) -> Any:
        """(..., situations, agents, cells): how the others' aggregate is distributed.

        `occupancies` (..., situations, agents, moves) are chances of moves; JAX arrays in, JAX
        arrays out.
        """
        xp: Any = jnp if isinstance(occupancies, jax.Array) else np
        axes = [np.arange(size) / size for size in self.grid]
        frequencies = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
        turned = xp.asarray(np.exp(-2j * np.pi * (np.array(self.scores) @ frequencies.T)))
        phases = xp.swapaxes(occupancies @ turned, -2, 0)  # agents first
        one = xp.ones_like(phases[:1])
        before = xp.concatenate([one, xp.cumprod(phases[:-1], 0)])
        after = xp.concatenate([xp.cumprod(phases[:0:-1], 0)[::-1], one])
        others = xp.swapaxes(before * after, -2, 0)
        shaped = others.reshape(*others.shape[:-1], *self.grid)
        found = xp.fft.ifftn(shaped, axes=tuple(range(-len(self.grid), 0))).real
        return xp.maximum(found.reshape(others.shape), 0.0)

    def expected(self, occupancies: Any) -> Any:
        """Expected rewards of each own move, when the others move independently."""
        if isinstance(occupancies, jax.Array):
            return jnp.einsum("...snk,snuk->...snu", self.chances(occupancies), self.table)
        shape = np.shape(occupancies)
        flat = np.reshape(occupancies, (-1, *shape[-3:]))
        size = max(1, _CHUNK // (self.table.shape[0] * self.agents * self.table.shape[-1]))
        parts = [
            np.einsum("bsnk,snuk->bsnu", self.chances(flat[at : at + size]), self.table)
            for at in range(0, len(flat), size)
        ]
        return np.concatenate(parts).reshape(shape)

    def cells(self, moves: np.ndarray) -> np.ndarray:
        """(rows, agents): the cell of the others' aggregate, for each agent."""
        return cells_of(moves, np.array(self.scores), self.grid)

    def rewards(self, situations: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """(rows, agents): the rewards of joint moves."""
        everybody = np.arange(self.agents)
        return np.asarray(self.table)[situations[:, None], everybody, moves, self.cells(moves)]


def scores_of(log: Log, kind: str) -> tuple[np.ndarray, tuple[int, ...]]:
    """What each move adds to the aggregate, and the grid of the values that it can have.

    A move in the state "absent" adds nothing.

    >>> log = Log(None, [[0, 2, 1]], [[0.0, 0.0, 0.0]], actions_per_agent=3)
    >>> scores_of(log, "sum")[0].ravel().tolist(), scores_of(log, "histogram")[1]
    ([0, 1, 2], (3, 3))
    """
    actions = max(log.actions_per_agent)
    if kind == "sum":
        scores, grid = np.arange(actions)[:, None], ((log.agents - 1) * (actions - 1) + 1,)
    else:
        scores, grid = np.eye(actions, dtype=int)[:, 1:], (log.agents,) * (actions - 1)
    away = np.zeros(((log.states_count - 1) * actions, scores.shape[1]), int)
    return np.concatenate([scores, away]), grid


def aggregate_note(log: Log, kind: str) -> str:
    """Why an aggregate is not tried; empty where it is."""
    if log.agents < 3:
        return "not tried: an aggregate takes three agents"
    if log.states is not None and not log.absences:
        return "not tried: agents have local states"
    actions = max(log.actions_per_agent)
    if kind == "histogram" and actions == 2:
        return "not tried: with two actions it is the sum"
    if kind == "histogram":
        cells = float(log.agents) ** (actions - 1)
    else:
        cells = float((log.agents - 1) * (actions - 1) + 1)
    if cells > LARGEST_GRID:
        return f"not tried: {cells:.3g} cells, more than {LARGEST_GRID:,}"
    return ""


def cells_of(moves: np.ndarray, scores: np.ndarray, grid: tuple[int, ...]) -> np.ndarray:
    """(rows, agents): the cell of the others' aggregate, for each agent."""
    found = np.zeros(moves.shape, np.int64)
    for axis, size in enumerate(grid):
        own = scores[moves, axis]
        found = found * size + (own.sum(1, keepdims=True) - own)
    return found


def fit_aggregate(
    situations: np.ndarray,
    moves: np.ndarray,
    rewards: np.ndarray,
    shape: tuple[int, int],
    scores: np.ndarray,
    grid: tuple[int, ...],
) -> tuple[Aggregate, np.ndarray]:
    """Tables of (situation, own move, cell) means, and the noise that they leave of each agent.

    `shape` is the number of situations and of moves. Means are drawn to that of their situation
    and own move, by as many rows as the noise is larger than the variance between cells; between
    values of a sum that were seen, the table is linear.
    """
    cells, agents = int(np.prod(grid)), moves.shape[1]
    rooms = shape[0] * shape[1]
    where = cells_of(moves, scores, grid)
    table, noise = np.zeros((rooms, agents, cells)), np.zeros(agents)
    for i in range(agents):
        room = situations * shape[1] + moves[:, i]
        code, reward = room * cells + where[:, i], np.asarray(rewards[:, i], np.float64)
        centre = reward.mean()
        reward = reward - centre
        count = np.bincount(code, minlength=rooms * cells).reshape(rooms, cells)
        total = np.bincount(code, reward, rooms * cells).reshape(rooms, cells)
        rows = count.sum(1, keepdims=True)
        own = total.sum(1, keepdims=True) / np.maximum(rows, 1)
        means = total / np.maximum(count, 1)
        seen = count > 0
        within = float(((reward - means.ravel()[code]) ** 2).sum())
        free = max(len(reward) - int(seen.sum()), 1)
        noise[i] = within / free
        between = (count * (means - own) ** 2).sum() - noise[i] * (seen.sum() - (rows > 0).sum())
        between = max(float(between) / max(len(reward), 1), 0.0)
        prior = noise[i] / between if between > 0 else np.inf
        share = np.where(seen, 1.0 / (1.0 + prior / np.maximum(count, 1)), 0.0)
        values = own + share * (means - own)
        if len(grid) == 1:
            for room_values, known in zip(values, seen, strict=True):
                at = np.flatnonzero(known)
                if len(at):
                    room_values[:] = np.interp(np.arange(cells), at, room_values[at])
        table[:, i] = values + centre
    table = table.reshape(*shape, agents, cells).swapaxes(1, 2)
    terms = Aggregate(np.ascontiguousarray(table), tuple(map(tuple, scores.tolist())), grid)
    return terms, np.sqrt(noise)
