"""Logs of games with continuous actions: uniform play, or a policy of points.

Random numbers come from the same streams as those of other logs: a stream for each block of
samples and each purpose, so that a longer log begins with the shorter one.
"""

from typing import Any

import numpy as np

from equipoise.games import ContinuousGame, ContinuousPolicy
from equipoise.offline import _collect
from equipoise.offline._log import Log


def collect_continuous(game: ContinuousGame, behaviour: Any, samples: int, key: Any) -> Log:
    """Play "uniform" or a policy of points, and log it; episodes where there are local states."""
    policy = None
    if isinstance(behaviour, str):
        if behaviour != "uniform":
            raise ValueError(
                f'behaviour: expected "uniform", a ContinuousPolicy or an array of actions, '
                f"found {behaviour!r}"
            )
    else:
        policy = game.as_policy(behaviour)
    streams = _collect._streams(key)
    if game.transitions is None:
        return _play_once(game, policy, samples, streams)
    return _play_episodes(game, game.transitions, policy, samples, streams)


def _play_once(
    game: ContinuousGame, policy: ContinuousPolicy | None, samples: int, streams: Any
) -> Log:
    kind = np.float32 if samples * game.agents > _collect.LARGE else np.float64
    contexts = np.empty(samples, np.min_scalar_type(-game.contexts))
    actions = np.empty((samples, game.agents), kind)
    rewards = np.empty((samples, game.agents), kind)
    choose = _chooser(game, policy)

    def draw(block: int, rows: slice) -> None:
        count = rows.stop - rows.start
        context = _collect._pick(
            streams(block, _collect._CONTEXT), game.context_probabilities, count
        )
        contexts[rows] = context
        words = _collect._words(streams(block, _collect._ACTION), (count, game.agents))
        actions[rows] = choose(words, (context[:, None],), kind)
        rewards[rows] = game.terms.rewards(actions[rows], context)
        _add_noise(game, rewards[rows], streams(block, _collect._NOISE))

    _collect._in_threads(draw, samples)
    return Log(contexts, actions, rewards, contexts_count=game.contexts, continuous=True)


def _play_episodes(
    game: ContinuousGame,
    transitions: np.ndarray,
    policy: ContinuousPolicy | None,
    samples: int,
    streams: Any,
) -> Log:
    horizon, agents = game.horizon, np.arange(game.agents)
    kind = np.float32 if samples * horizon * game.agents > _collect.LARGE else np.float64
    contexts = np.empty(samples, np.min_scalar_type(-game.contexts))
    actions = np.empty((samples, horizon, game.agents), kind)
    rewards = np.empty((samples, horizon, game.agents), kind)
    small = np.min_scalar_type(-transitions.shape[2])
    states = np.empty((samples, horizon + 1, game.agents), small)
    begun = _collect._thresholds(np.asarray(game.initial))
    choose = _chooser(game, policy)

    def draw(block: int, rows: slice) -> None:
        count = rows.stop - rows.start
        context = _collect._pick(
            streams(block, _collect._CONTEXT), game.context_probabilities, count
        )
        contexts[rows] = context
        # One row of numbers for each episode, so that its length decides nothing else.
        shape = (count, horizon, game.agents)
        words = _collect._words(streams(block, _collect._ACTION), shape)
        moves = _collect._words(streams(block, _collect._STATE), (count, horizon + 1, game.agents))
        c = context[:, None]
        first = (begun[c, agents, k] for k in _collect._choices(begun))
        s = _collect._invert(moves[:, 0], first, small)
        states[rows, 0] = s
        for h in range(horizon):
            a = choose(words[:, h], (c, h, s), kind)
            rewards[rows, h] = game.terms.rewards(a, context, s)
            s = _next(transitions, c, s, a, moves[:, h + 1]).astype(small)
            actions[rows, h], states[rows, h + 1] = a, s
        _add_noise(game, rewards[rows], streams(block, _collect._NOISE))

    _collect._in_threads(draw, samples)
    return Log(
        np.repeat(contexts, horizon),
        actions.reshape(-1, game.agents),
        rewards.reshape(-1, game.agents),
        np.ascontiguousarray(states[:, :-1]).reshape(-1, game.agents),
        np.ascontiguousarray(states[:, 1:]).reshape(-1, game.agents),
        np.tile(np.arange(horizon, dtype=np.min_scalar_type(-horizon)), samples),
        np.repeat(np.arange(samples), horizon),
        contexts_count=game.contexts,
        states_count=transitions.shape[2],
        horizon=horizon,
        continuous=True,
    )


def _chooser(game: ContinuousGame, policy: ContinuousPolicy | None) -> Any:
    """words (count, agents) and where they are chosen -> actions (count, agents).

    The place is (context,), or (context, step, states), each of them (count, 1) or broadcastable.
    """
    if policy is None:
        return lambda words, place, kind: _centred(words, kind)
    points, chances = policy.support()
    thresholds = _collect._thresholds(chances)
    agents = np.arange(game.agents)

    def choose(words: np.ndarray, place: tuple, kind: Any) -> np.ndarray:
        # (context, agent) or (context, step, agent, state): agents go before states.
        where = (*place[:-1], agents, place[-1]) if len(place) == 3 else (*place, agents)
        if points.shape[-1] == 1:
            return points[(*where, 0)].astype(kind)
        own = (thresholds[(*where, k)] for k in _collect._choices(thresholds))
        chosen = _collect._invert(words, own, np.dtype(np.int64))
        return points[(*where, chosen)].astype(kind)

    return choose


def _centred(words: np.ndarray, kind: Any) -> np.ndarray:
    """Words of 31 bits as numbers in (-1, 1), the middles of equally long intervals."""
    return (words.astype(kind) + kind(0.5)) * kind(2.0**-30) - kind(1.0)


def _add_noise(game: ContinuousGame, rewards: np.ndarray, source: np.random.SFC64) -> None:
    if game.noise:
        kind = rewards.dtype.type
        rewards += kind(game.noise) * _centred(_collect._words(source, rewards.shape), kind)


def _next(
    transitions: np.ndarray,
    contexts: np.ndarray,
    states: np.ndarray,
    actions: np.ndarray,
    words: np.ndarray,
) -> np.ndarray:
    """(count, agents): the states that own actions lead to; chances are polynomials of them."""
    agents = np.arange(states.shape[1])
    left = np.zeros(states.shape)
    moved = np.zeros(states.shape, np.int64)
    share = (words + 0.5) * 2.0**-31
    for k in range(transitions.shape[3] - 1):
        own = transitions[contexts, agents, states, k]  # (count, agents, powers)
        chance = own[..., -1]
        for power in reversed(range(transitions.shape[4] - 1)):
            chance = chance * actions + own[..., power]
        left = left + chance
        moved += share > left
    return moved
