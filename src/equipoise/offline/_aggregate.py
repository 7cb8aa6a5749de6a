"""Rewards that depend on the own action and on an aggregate of the others' actions.

The aggregate is the sum of the others' actions (as ordered numbers), their mean if agents may be
absent (otherwise the mean is equivalent to the sum), or the number of others that play each action.
The El Farol bar, a market price and a congested road are examples: their interaction rank is as
large as the number of agents, while a table of own action by aggregate is small.

Agents play independently, so the distribution of the others' sum is a convolution. Its Fourier
transform is a product over agents. Products that leave out one agent come from cumulative products
from both ends, and one inverse transform gives all distributions at once.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from equipoise.offline._coverage import known_rows
from equipoise.offline._log import Log

#: Maps each kind of aggregate to its name in tables.
KINDS = {
    "sum": "own action by the sum of others'",
    "mean": "own action by the mean of others'",
    "histogram": "own action by others' counts",
}
#: Aggregates with more values than this are not tried.
LARGEST_GRID = 5_000
#: Largest number of values that a batch of distributions holds at once.
_CHUNK = 4_000_000


def name_of(kind: int | str) -> str:
    """Name of a class of rewards in tables.

    >>> name_of(1), name_of("2 sparse"), name_of("sum")
    ('own action', 'pairs, screened', "own action by the sum of others'")
    """
    words = str(kind).split(maxsplit=1)
    known = {"1": "own action", "2": "pairs", "3": "triples", "joint": "joint action", **KINDS}
    more = {"sparse": "screened"}.get(words[-1], words[-1]) if len(words) > 1 else ""
    return known.get(words[0], f"rank {words[0]}") + (f", {more}" if more else "")


#: Number of step variances that smoothing tries, each a quarter of the one before.
_STEPS = 10


class Aggregate(eqx.Module):
    """Rewards of every own move at every aggregate of the others' moves.

    `table` is (situations, agents, moves, cells), with the cells of `grid` in C order; `scores`
    (moves, axes of the grid) is the contribution of each move to the aggregate.
    """

    table: Float[Array | np.ndarray, "situations agents moves cells"]
    scores: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    grid: tuple[int, ...] = eqx.field(static=True)

    @property
    def agents(self) -> int:
        """Number of agents."""
        return self.table.shape[1]

    def chances(self, occupancies: Any) -> Any:
        """(..., situations, agents, cells): distribution of the others' aggregate.

        `occupancies` (..., situations, agents, moves) are probabilities of moves. The result is a
        JAX array if they are one.
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
        """Expected rewards of each own move if the others move independently."""
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
        """(rows, agents): cell of the others' aggregate for each agent."""
        return cells_of(moves, np.array(self.scores), self.grid)

    def rewards(self, situations: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """(rows, agents): rewards of joint moves."""
        everybody = np.arange(self.agents)
        return np.asarray(self.table)[situations[:, None], everybody, moves, self.cells(moves)]


def scores_of(log: Log, kind: str) -> tuple[np.ndarray, tuple[int, ...]]:
    """Contribution of each move to the aggregate, and the grid of its possible values.

    A move in the state "absent" adds nothing. A mean needs the sum and the number present.

    >>> log = Log(None, [[0, 2, 1]], [[0.0, 0.0, 0.0]], actions_per_agent=3)
    >>> scores_of(log, "sum")[0].ravel().tolist(), scores_of(log, "histogram")[1]
    ([0, 1, 2], (3, 3))
    """
    actions = max(log.actions_per_agent)
    sums = (log.agents - 1) * (actions - 1) + 1
    if kind == "sum":
        scores, grid = np.arange(actions)[:, None], (sums,)
    elif kind == "mean":
        scores = np.stack([np.arange(actions), np.ones(actions, int)], 1)
        grid = (sums, log.agents)
    else:
        scores, grid = np.eye(actions, dtype=int)[:, 1:], (log.agents,) * (actions - 1)
    away = np.zeros(((log.states_count - 1) * actions, scores.shape[1]), int)
    return np.concatenate([scores, away]), grid


def aggregate_note(log: Log, kind: str) -> str:
    """Say why an aggregate is not tried; empty if it is."""
    if log.agents < 3:
        return "not tried: an aggregate needs at least three agents"
    if log.states is not None and not log.absences:
        return "not tried: agents have local states"
    actions = max(log.actions_per_agent)
    if (kind == "mean" and not log.absences) or (kind == "histogram" and actions == 2):
        return "not tried: same as the sum"
    if kind == "histogram":
        cells = float(log.agents) ** (actions - 1)
    else:
        cells = float((log.agents - 1) * (actions - 1) + 1)
        cells *= log.agents if kind == "mean" else 1
    if cells > LARGEST_GRID:
        return f"not tried: {cells:.3g} cells, more than {LARGEST_GRID:,}"
    return ""


def cells_of(moves: np.ndarray, scores: np.ndarray, grid: tuple[int, ...]) -> np.ndarray:
    """(rows, agents): cell of the others' aggregate for each agent."""
    found = np.zeros(moves.shape, np.int64)
    for axis, size in enumerate(grid):
        own = scores[moves, axis]
        found = found * size + (own.sum(1, keepdims=True) - own)
    return found


def values_of(kind: str, grid: tuple[int, ...]) -> np.ndarray:
    """(cells,): index, from 0, of the value of the aggregate that each cell represents.

    >>> values_of("mean", (3, 3)).reshape(3, 3).tolist()  # by sum and by how many are there
    [[0, 0, 0], [0, 2, 1], [0, 2, 2]]
    """
    if kind != "mean":
        return np.arange(int(np.prod(grid)))
    sums, count = np.ogrid[: grid[0], : grid[1]]
    mean = np.where(count > 0, sums / np.maximum(count, 1), 0.0) * (grid[1] - 1)
    return np.minimum(mean.round().astype(int), grid[0] - 1).ravel()


def fit_aggregate(
    situations: np.ndarray,
    moves: np.ndarray,
    rewards: np.ndarray,
    shape: tuple[int, int],
    scores: np.ndarray,
    grid: tuple[int, ...],
    kind: str = "sum",
) -> tuple[Aggregate, np.ndarray]:
    """Fit a table of (situation, own move, cell) means; return it and each agent's residual noise.

    `shape` is the number of situations and of moves. Cells of a sum or mean are smoothed
    (`_smoothed`). Those of a histogram are shrunk towards the mean of their situation and own move,
    with a weight (in rows) of the noise variance divided by the variance between cells.
    """
    value, agents = values_of(kind, grid), moves.shape[1]
    cells, rooms = int(value.max()) + 1, shape[0] * shape[1]
    where = value[cells_of(moves, scores, grid)]
    table, noise = np.zeros((rooms, agents, cells)), np.zeros(agents)
    for i in range(agents):
        reward = np.asarray(rewards[:, i], np.float64)
        known = known_rows(reward)
        reward = reward[known]
        if not len(reward):
            continue
        code = ((situations * shape[1] + moves[:, i]) * cells + where[:, i])[known]
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
        if kind != "histogram":
            table[:, i] = _smoothed(count, means, float(noise[i])) + centre
            continue
        between = (count * (means - own) ** 2).sum() - noise[i] * (seen.sum() - (rows > 0).sum())
        between = max(float(between) / max(len(reward), 1), 0.0)
        prior = noise[i] / between if between > 0 else np.inf
        share = np.where(seen, 1.0 / (1.0 + prior / np.maximum(count, 1)), 0.0)
        table[:, i] = own + share * (means - own) + centre
    table = table.reshape(*shape, agents, cells).swapaxes(1, 2)[..., value]
    terms = Aggregate(np.ascontiguousarray(table), tuple(map(tuple, scores.tolist())), grid)
    return terms, np.sqrt(noise)


def _smoothed(count: np.ndarray, means: np.ndarray, noise: float) -> np.ndarray:
    """(rooms, cells): posterior means if values are a random walk along the cells of a room.

    `means` are averages of `count` rows with the variance `noise`. The variance of a step of the
    walk maximises the evidence of all rooms: values are nearly equal to the means if they jump, and
    borrow from their neighbours if they change slowly. They are linear between cells without rows.

    >>> _smoothed(np.array([[1, 0, 1]]), np.array([[0.0, 0.0, 2.0]]), 1e-9).round(3).tolist()
    [[0.0, 1.0, 2.0]]
    """
    seen, (rooms, cells) = count.sum(1) > 0, count.shape
    spread = float((count * means**2).sum() / count.sum())
    if cells < 2 or spread <= 0.0:
        return means
    weight = count / max(noise, 1e-9 * spread)
    weight[~seen, 0] = 1.0
    known = weight * means
    steps = spread * 4.0 ** -np.arange(_STEPS)[:, None]
    link = np.broadcast_to(1.0 / steps, (_STEPS, rooms))
    # Solve (weights + links) values = known, a tridiagonal system for every step and room.
    pivot, right = np.empty((2, cells, _STEPS, rooms))
    for k in range(cells):
        pivot[k] = weight[:, k] + link * (2.0 if 0 < k < cells - 1 else 1.0)
        right[k] = known[:, k]
        if k:
            pivot[k] -= link**2 / pivot[k - 1]
            right[k] += link / pivot[k - 1] * right[k - 1]
    values = right / pivot
    for k in range(cells - 2, -1, -1):
        values[k] += link / pivot[k] * values[k + 1]
    fit = (known.T[:, None] * values).sum(0)
    evidence = fit - np.log(pivot).sum(0) + (cells - 1) * np.log(link)
    return values[:, int(evidence[:, seen].sum(1).argmax())].T
