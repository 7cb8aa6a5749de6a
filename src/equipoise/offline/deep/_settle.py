"""From where actors stopped to where nobody gains: best replies in the mean of several critics.

Gradients lead to the nearest summit of an agent's reward, and not at all where agents chase each
other. Best replies look at the whole range that the log shows. They go on from several starts, in
the mean of critics that began with other weights and held out other rows. Of the places where they
come to rest, the one is taken in which every critic by itself sees little to gain and which is near
the middle of the log, by the sum of the two orders. At the edges of what a log shows, critics see
summits that are not there.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core.precision import single_precision
from equipoise.offline._log import Log
from equipoise.offline.deep._critics import Critics, predict
from equipoise.offline.deep._rows import Rows

#: Actions that an agent tries at once; and rounds in which everybody replies.
_GRID, _ROUNDS = 129, 30
#: Rows of the log that replies begin at, and how far from its mean, as a part of how far they are.
_ROWS, _INWARDS = 12, 0.7
#: How far agents go beyond the actions of the log, as a part of their range.
_BEYOND = 0.05


def settle(critics: Critics, log: Log, starts: np.ndarray, tolerance: float) -> np.ndarray:
    """(contexts, agents): what agents play once nobody gains more than `tolerance` by a reply.

    Replies begin at `starts` (starts, contexts, agents) and at some rows of the log, drawn towards
    its mean. Where they never come to rest, the policy with the smallest gain that they passed
    through.
    """
    low, high = shown(log)
    mean = np.asarray(log.actions, np.float64).mean(0)
    rows = np.linspace(0, log.samples - 1, _ROWS).round().astype(int)
    more = (mean + _INWARDS * (log.actions[rows] - mean))[:, None].repeat(starts.shape[1], 1)
    points = np.clip(np.concatenate([starts, more]), low, high)
    best, rest = np.array(points), np.full(len(points), np.inf)
    for _ in range(_ROUNDS):
        before, gains = np.array(points), np.zeros(points.shape[:2])
        for i in range(log.agents):
            tried, worth = _tried(critics, i, points, low[i], high[i])
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
        worth = _tried(critics, i, best, low[i], high[i])[1]
        alone = np.maximum(alone, worth.max(-1) - worth[..., -1])
    doubt, far = alone.max(2).mean(0), np.abs(best - mean).mean((1, 2))
    places = np.argsort(np.argsort(doubt)) + np.argsort(np.argsort(far))
    return best[np.lexsort([places, np.maximum(rest, tolerance)])[0]]


def _tried(
    critics: Critics, agent: int, points: np.ndarray, low: float, high: float
) -> tuple[np.ndarray, np.ndarray]:
    """(starts, contexts, tried): actions of an agent, its own the last; and their values."""
    joint = np.repeat(points[:, :, None], _GRID + 1, 2)
    joint[:, :, :-1, agent] = np.linspace(low, high, _GRID)
    return joint[..., agent], values(critics, agent, joint)


def shown(log: Log) -> tuple[np.ndarray, np.ndarray]:
    """(agents,): the least and the largest action that the log shows, and a little beyond."""
    low, high = (np.asarray(f(log.actions, 0), np.float64) for f in (np.min, np.max))
    more = _BEYOND * (high - low)
    return np.maximum(low - more, -1.0), np.minimum(high + more, 1.0)


def values(critics: Critics, agent: int, actions: np.ndarray) -> np.ndarray:
    """(trials, starts, contexts, tried): what each trial's critic of an agent predicts.

    `actions` are (starts, contexts, tried, agents).
    """
    where = np.broadcast_to(np.arange(actions.shape[1])[:, None], actions.shape[:-1]).ravel()
    own: Any = jax.tree.map(lambda x: x[:, agent : agent + 1], critics.models)
    with single_precision():
        flat = jnp.asarray(actions.reshape(-1, actions.shape[-1]), jnp.float32)
        rows = Rows.without_states(flat, jnp.asarray(where, jnp.int32))
        repeated = jax.tree.map(lambda x: jnp.repeat(x[None], critics.trials, 0), rows)
        found = np.asarray(predict(own, repeated), np.float64)[:, 0]
    found = found * critics.scale[:, agent, None] + critics.shift[:, agent, None]
    return found.reshape(-1, *actions.shape[:-1])
