"""Move actors to an approximate equilibrium by best responses to the mean of several critics.

Gradients lead to the nearest local maximum of an agent's reward, and do not converge if agents
cycle. Best responses search the whole range of actions that the log shows. They start from several
points and use the mean of critics that differ in their initial weights and held-out rows. Among the
points where they come to rest, we choose one where the critics, each on its own, see small gains
and which is close to the mean of the log: the point with the smallest sum of its two ranks. Near
the edges of the log's actions, critics often predict maxima that do not exist.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core.precision import single_precision
from equipoise.offline._log import Log
from equipoise.offline.deep._critics import Critics, predict
from equipoise.offline.deep._rows import Rows, shown, tried_actions

#: Number of actions that an agent tries, and number of rounds of best responses.
GRID, _ROUNDS = 129, 30
#: Number of rows of the log used as starting points, and the factor that shrinks them to the mean.
_ROWS, _INWARDS = 12, 0.7
#: Largest number of rows over which gains from the log's own play are averaged.
_AVERAGED = 256


def settle(critics: Critics, log: Log, starts: np.ndarray, tolerance: float) -> np.ndarray:
    """(points, contexts, agents): actions at which no best response gains more than `tolerance`.

    Best responses start at `starts` (starts, contexts, agents) and at some rows of the log, shrunk
    towards its mean. If they do not come to rest, the result has the points with the smallest gains
    that they visited. The best points come first, and equal points are listed once.
    """
    low, high = shown(log)
    grids = [tried_actions(log, i, GRID) for i in range(log.agents)]
    mean = np.asarray(log.actions, np.float64).mean(0)
    rows = np.linspace(0, log.samples - 1, _ROWS).round().astype(int)
    more = (mean + _INWARDS * (log.actions[rows] - mean))[:, None].repeat(starts.shape[1], 1)
    points = np.clip(np.concatenate([starts, more]), low, high)
    best, rest = np.array(points), np.full(len(points), np.inf)
    for _ in range(_ROUNDS):
        before, gains = np.array(points), np.zeros(points.shape[:2])
        for i in range(log.agents):
            tried, worth = _tried(critics, i, points, grids[i])
            worth = worth.mean(0)
            ahead = worth.max(-1) - worth[..., -1]
            reply = np.where(ahead > tolerance / 2, worth.argmax(-1), -1)
            gains = np.maximum(gains, ahead)
            points[..., i] = np.take_along_axis(tried, reply[..., None], 2)[..., 0]
        better = gains.max(1) < rest
        best[better], rest[better] = before[better], gains.max(1)[better]
        if (rest <= tolerance).all():
            break
    alone = np.zeros((critics.trials, *best.shape[:2]))
    for i in range(log.agents):
        worth = _tried(critics, i, best, grids[i])[1]
        alone = np.maximum(alone, worth.max(-1) - worth[..., -1])
    doubt, far = alone.max(2).mean(0), np.abs(best - mean).mean((1, 2))
    places = np.argsort(np.argsort(doubt)) + np.argsort(np.argsort(far))
    ordered = best[np.lexsort([places, np.maximum(rest, tolerance)])]
    near = np.abs(ordered[:, None] - ordered).max((2, 3)) < 2.0 / GRID
    return ordered[~np.tril(near, -1).any(1)]


def largest_gain(critics: Critics, log: Log, points: np.ndarray) -> float:
    """Largest gain of an agent at (contexts, agents) points, by an action that the log shows.

    Rewards are the mean of the critics, and contexts have their frequencies in the log.
    """
    weights = np.bincount(log.contexts, minlength=log.contexts_count) / log.samples
    gains = []
    for i in range(log.agents):
        worth = _tried(critics, i, points[None], tried_actions(log, i, GRID))[1].mean(0)[0]
        gains.append(float((worth.max(-1) - worth[:, -1]) @ weights))
    return max(gains)


def own_play_gain(critics: Critics, log: Log) -> float:
    """Largest gain of an agent over the log's own play by one action in each context.

    Rewards are the mean of the critics, averaged over some rows of the log.
    """
    rows = np.linspace(0, log.samples - 1, min(log.samples, _AVERAGED)).round().astype(int)
    contexts, actions = log.contexts[rows], np.asarray(log.actions, np.float64)[rows]
    gains = np.zeros(log.agents)
    for i in range(log.agents):
        joint = np.repeat(actions[None, :, None], GRID + 1, 2)
        joint[:, :, :-1, i] = tried_actions(log, i, GRID)
        worth = values(critics, i, joint, contexts).mean(0)[0]
        for context in np.unique(contexts):
            mean = worth[contexts == context].mean(0)
            gains[i] += max(mean[:-1].max() - mean[-1], 0.0) * np.mean(log.contexts == context)
    return float(gains.max())


def _tried(
    critics: Critics, agent: int, points: np.ndarray, grid: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(starts, contexts, tried): actions of an agent, the current one last; and their values."""
    joint = np.repeat(points[:, :, None], GRID + 1, 2)
    joint[:, :, :-1, agent] = grid
    return joint[..., agent], values(critics, agent, joint)


def values(
    critics: Critics, agent: int, actions: np.ndarray, contexts: np.ndarray | None = None
) -> np.ndarray:
    """(trials, starts, contexts, tried): rewards that each trial's critic of an agent predicts.

    `actions` are (starts, contexts, tried, agents); `contexts` are their numbers (default: all).
    """
    where = np.arange(actions.shape[1]) if contexts is None else contexts
    where = np.broadcast_to(where[:, None], actions.shape[:-1]).ravel()
    own: Any = jax.tree.map(lambda x: x[:, agent : agent + 1], critics.models)
    with single_precision():
        flat = jnp.asarray(actions.reshape(-1, actions.shape[-1]), jnp.float32)
        rows = Rows.without_states(flat, jnp.asarray(where, jnp.int32))
        repeated = jax.tree.map(lambda x: jnp.repeat(x[None], critics.trials, 0), rows)
        found = np.asarray(predict(own, repeated), np.float64)[:, 0]
    found = found * critics.scale[:, agent, None] + critics.shift[:, agent, None]
    return found.reshape(-1, *actions.shape[:-1])
