"""Logs of known games: play a behaviour policy and write down what happened."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from scipy.special import ndtri

from equipoise.core import checks
from equipoise.core.machine import cores
from equipoise.core.randomness import as_key
from equipoise.games import (
    ContextualGame,
    ContinuousGame,
    ContinuousPolicy,
    DecoupledMarkovGame,
    Mixture,
)
from equipoise.offline._log import Log

#: Logs with more rewards than this are kept in float32.
LARGE = 20_000_000
#: Samples that are drawn from one stream: never a matter of how many are asked for.
_BLOCK = 4096
#: A stream of random numbers for each purpose.
_CONTEXT, _COMPONENT, _ACTION, _NOISE, _STATE = range(5)

#: block, purpose -> the source of its random words.
Streams = Callable[[int, int], np.random.SFC64]


@runtime_checkable
class Simulator(Protocol):
    """A game that can log itself: one with continuous actions, or a simulator of your own.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> class Consensus:
    ...     def simulate(self, behaviour, samples, key):
    ...         actions = np.random.default_rng(key).uniform(-1, 1, (samples, 3))
    ...         rewards = actions * actions.sum(1, keepdims=True)
    ...         return eq.offline.Log(np.zeros(samples, int), actions, rewards, continuous=True)
    >>> isinstance(Consensus(), eq.offline.Simulator)
    True
    >>> eq.offline.collect(Consensus(), samples=100, key=0).continuous
    True
    """

    def simulate(self, behaviour: Any, samples: int, key: Any) -> Log:
        """Play `behaviour` for `samples` samples, and return the log."""
        ...


def collect(game: Any, behaviour: Any = "uniform", samples: int = 10_000, *, key: Any) -> Log:
    """Play a game that is known and log what happened.

    `behaviour` is "uniform", a product policy, or a `games.Mixture` of them. In a
    `ContextualGame` a sample is a row; in a `DecoupledMarkovGame` it is an episode of `horizon`
    rows, so that there are `samples` rows for each step. Rewards have Gaussian noise of the
    game's `noise` (one of 65,536 equally likely quantiles); a log of more than 20 million of
    them is kept in float32.

    In a `ContinuousGame` actions are "uniform" on [-1, 1], or those of a `games.ContinuousPolicy`
    or array; noise is uniform on [-noise, noise], and the log has `continuous=True`. Any other
    game is asked for its own `simulate(behaviour, samples, key)`, which returns a `Log`.

    The same key gives the same rows, whatever the number of samples: a longer log begins with
    the shorter one.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=5, actions=3, contexts=2).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=1000, key=1)
    >>> log.samples, log.agents, log.contexts_count, log.actions.dtype
    (1000, 5, 2, dtype('int8'))
    """
    samples = checks.check_count("samples", samples)
    if isinstance(game, ContextualGame | DecoupledMarkovGame):
        mixture, streams = _as_mixture(game, behaviour), _streams(key)
        known = mixture[0] if len(mixture) == 1 else None
        if isinstance(game, ContextualGame):
            return _play_once(game, mixture, samples, streams, known)
        return _play_episodes(game, mixture, samples, streams, known)
    if isinstance(game, ContinuousGame):
        return _collect_continuous(game, behaviour, samples, _streams(key))
    if isinstance(game, Simulator):
        log = game.simulate(behaviour, samples, key)
        if not isinstance(log, Log):
            raise ValueError(f"game: expected simulate to return a Log, found {type(log).__name__}")
        return log
    raise ValueError(
        "game: expected a ContextualGame, a DecoupledMarkovGame, a ContinuousGame, or a game with "
        f"a method simulate(behaviour, samples, key); found {type(game).__name__}"
    )


def _as_mixture(game: ContextualGame | DecoupledMarkovGame, behaviour: Any) -> Mixture:
    if isinstance(behaviour, str):
        if behaviour != "uniform":
            raise ValueError(
                f'behaviour: expected "uniform", a product policy or a Mixture, found {behaviour!r}'
            )
        return Mixture(game.uniform_policy()[None])
    mixture = behaviour if isinstance(behaviour, Mixture) else None
    if mixture is None:
        policy = checks.as_float_array("behaviour", behaviour, copy=False)
        mixture = Mixture(policy.reshape(1, *policy.shape))
    shape = game.policy_shape
    policies = mixture.policies
    if game.contexts == 1 and mixture.policy_shape == shape[1:]:
        policies = policies[:, None]
    if policies.shape[1:] != shape:
        raise ValueError(
            f"behaviour: expected a product policy of shape {shape}, found {mixture.policy_shape}"
        )
    missing = ~game.action_mask if len(shape) == 3 else ~game.action_mask[:, None]
    if (policies * missing).any():
        where = list(checks.first_index(policies * missing > 0)[1:])
        raise ValueError(
            f"behaviour: expected no chance of actions an agent lacks, found at {where}"
        )
    return Mixture(policies, mixture.weights)


def _streams(key: Any) -> Streams:
    words = np.asarray(jax.random.key_data(as_key(key))).ravel().tolist()
    return lambda block, purpose: np.random.SFC64([*words, block, purpose])


def _blocks(samples: int) -> Iterator[tuple[int, slice]]:
    edges = pairwise([*range(0, samples, _BLOCK), samples])
    return ((number, slice(*edge)) for number, edge in enumerate(edges))


def _in_threads(work: Callable[[int, slice], None], samples: int) -> None:
    """Do the work of every block; NumPy lets go of the interpreter, so threads do help."""
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(lambda block: work(*block), _blocks(samples)))


def _play_once(
    game: ContextualGame, mixture: Mixture, samples: int, streams: Streams, known: Any
) -> Log:
    contexts = np.empty(samples, np.min_scalar_type(-game.contexts))
    actions = np.empty((samples, game.agents), np.min_scalar_type(-max(game.actions)))
    thresholds = _thresholds(mixture.policies)

    def draw(block: int, rows: slice) -> None:
        count = rows.stop - rows.start
        contexts[rows] = _pick(streams(block, _CONTEXT), game.context_probabilities, count)
        component = _pick(streams(block, _COMPONENT), mixture.weights, count)
        u = _words(streams(block, _ACTION), (count, game.agents))
        if thresholds.shape[:2] == (1, 1):
            actions[rows] = _invert(u, iter(np.moveaxis(thresholds[0, 0], -1, 0)), actions.dtype)
        else:
            own = (thresholds[component, contexts[rows], :, k] for k in _choices(thresholds))
            actions[rows] = _invert(u, own, actions.dtype)

    _in_threads(draw, samples)
    return Log(
        contexts,
        actions,
        _noisy_rewards(game, contexts, actions, streams),
        behaviour=known,
        actions_per_agent=game.actions,
        contexts_count=game.contexts,
        labels=game.labels,
    )


def _play_episodes(
    game: DecoupledMarkovGame, mixture: Mixture, samples: int, streams: Streams, known: Any
) -> Log:
    chosen, moved = _thresholds(mixture.policies), _thresholds(game.transitions)
    agents, small = np.arange(game.agents), np.min_scalar_type(-max(game.actions))

    def choose(words: np.ndarray, component: Any, context: Any, h: int, states: Any) -> np.ndarray:
        own = (chosen[component, context, h, agents, states, k] for k in _choices(chosen))
        return _invert(words, own, small)

    def follow(words: np.ndarray, context: Any, h: int, states: Any, actions: Any) -> np.ndarray:
        led = (moved[context, h, agents, states, actions, k] for k in _choices(moved))
        return _invert(words, led, np.min_scalar_type(-max(game.states)))

    tables = _episodes(
        game, samples, streams, mixture.weights, small, max(game.states), choose, follow
    )
    moves = tables["states"].astype(np.int64) * max(game.actions) + tables["actions"]
    situations = tables["contexts"].astype(np.int64) * game.horizon + tables["steps"]
    rewards = _noisy_rewards(game, situations, moves, streams)
    return Log(**tables, rewards=rewards, behaviour=known, actions_per_agent=game.actions)


def _episodes(
    game: Any,
    samples: int,
    streams: Streams,
    weights: np.ndarray,
    dtype: Any,
    states_count: int,
    choose: Callable[..., np.ndarray],
    follow: Callable[..., np.ndarray],
) -> dict[str, Any]:
    """Play episodes, and return the fields of their log but rewards.

    `choose(words, component, context, step, states)` gives the actions, and
    `follow(words, context, step, states, actions)` the next states, all (count, agents).
    """
    agents, horizon = game.agents, game.horizon
    contexts = np.empty(samples, np.min_scalar_type(-game.contexts))
    actions = np.empty((samples, horizon, agents), dtype)
    states = np.empty((samples, horizon + 1, agents), np.min_scalar_type(-states_count))
    begun = _thresholds(np.asarray(game.initial))

    def draw(block: int, rows: slice) -> None:
        count = rows.stop - rows.start
        contexts[rows] = context = _pick(
            streams(block, _CONTEXT), game.context_probabilities, count
        )
        component = _pick(streams(block, _COMPONENT), weights, count)[:, None]
        # One row of numbers for each episode, so that its length decides nothing else.
        u = _words(streams(block, _ACTION), (count, horizon, agents))
        v = _words(streams(block, _STATE), (count, horizon + 1, agents))
        c = context[:, None]
        first = (begun[c, np.arange(agents), k] for k in _choices(begun))
        states[rows, 0] = s = _invert(v[:, 0], first, states.dtype)
        for h in range(horizon):
            actions[rows, h] = a = choose(u[:, h], component, c, h, s)
            states[rows, h + 1] = s = follow(v[:, h + 1], c, h, s, a)

    _in_threads(draw, samples)
    return {
        "contexts": np.repeat(contexts, horizon),
        "actions": actions.reshape(-1, agents),
        "states": np.ascontiguousarray(states[:, :-1]).reshape(-1, agents),
        "next_states": np.ascontiguousarray(states[:, 1:]).reshape(-1, agents),
        "steps": np.tile(np.arange(horizon, dtype=np.min_scalar_type(-horizon)), samples),
        "episodes": np.repeat(np.arange(samples), horizon),
        "contexts_count": game.contexts,
        "states_count": states_count,
        "horizon": horizon,
        "labels": game.labels,
    }


def _noisy_rewards(
    game: ContextualGame | DecoupledMarkovGame,
    situations: np.ndarray,
    moves: np.ndarray,
    streams: Streams,
) -> np.ndarray:
    dtype = np.float32 if moves.size > LARGE else np.float64
    rewards = game.interactions.rewards(situations, moves, dtype=dtype)
    if game.noise:

        def add(block: int, rows: slice) -> None:
            part = rewards[rows]
            part += _normal_table(game.noise).take(_halves(streams(block, _NOISE), part.shape))

        _in_threads(add, len(rewards))
    return rewards


def _thresholds(chances: np.ndarray) -> np.ndarray:
    """(..., outcomes) -> (..., outcomes - 1): outcome k is passed by words beyond threshold k.

    Words have 31 bits. None passes an outcome that is the last possible one, rounding or not,
    and all pass those without a chance that come before the first.
    """
    left = np.cumsum(chances, -1)[..., :-1]
    after = np.cumsum(chances[..., ::-1], -1)[..., ::-1][..., 1:]
    beyond = np.where(after > 0.0, np.round(np.minimum(left, 1.0) * 2.0**31) - 1.0, 2.0**31 - 1.0)
    return beyond.astype(np.int32)


def _choices(thresholds: np.ndarray) -> range:
    return range(thresholds.shape[-1])


def _invert(u: np.ndarray, thresholds: Iterator[np.ndarray], dtype: np.dtype) -> np.ndarray:
    """How many thresholds each word has passed: the outcome it stands for."""
    outcome = np.zeros(u.shape, dtype)
    for threshold in thresholds:
        outcome += u > threshold
    return outcome


def _words(source: np.random.SFC64, shape: tuple[int, ...]) -> np.ndarray:
    """Words of 31 bits. Taken raw: four times as fast as through a generator."""
    count = math.prod(shape)
    raw = source.random_raw(-(-count // 2)).view(np.uint32)[:count]
    return (raw >> np.uint32(1)).view(np.int32).reshape(shape)


def _halves(source: np.random.SFC64, shape: tuple[int, ...]) -> np.ndarray:
    """Words of 16 bits."""
    count = math.prod(shape)
    return source.random_raw(-(-count // 4)).view(np.uint16)[:count].reshape(shape)


@cache
def _normal_table(scale: float) -> np.ndarray:
    """65,536 equally likely values of a Gaussian: its quantiles, of exactly the variance asked."""
    quantiles = ndtri((np.arange(1 << 16) + 0.5) / (1 << 16))
    return (scale * quantiles / quantiles.std()).astype(np.float32)


def _pick(source: np.random.SFC64, chances: np.ndarray, count: int) -> np.ndarray:
    """(count,): independent draws from one distribution."""
    if len(chances) == 1:
        return np.zeros(count, np.int64)
    # The number of thresholds that lie below a word.
    return np.searchsorted(_thresholds(chances), _words(source, (count,)), "left")


def _collect_continuous(
    game: ContinuousGame, behaviour: Any, samples: int, streams: Streams
) -> Log:
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
    if game.transitions is None:
        return _play_points_once(game, policy, samples, streams)
    return _play_points(game, game.transitions, policy, samples, streams)


def _play_points_once(
    game: ContinuousGame, policy: ContinuousPolicy | None, samples: int, streams: Any
) -> Log:
    kind = np.float32 if samples * game.agents > LARGE else np.float64
    contexts = np.empty(samples, np.min_scalar_type(-game.contexts))
    actions = np.empty((samples, game.agents), kind)
    rewards = np.empty((samples, game.agents), kind)
    choose = _chooser(game, policy)

    def draw(block: int, rows: slice) -> None:
        count = rows.stop - rows.start
        context = _pick(streams(block, _CONTEXT), game.context_probabilities, count)
        contexts[rows] = context
        words = _words(streams(block, _ACTION), (count, game.agents))
        actions[rows] = choose(words, (context[:, None],), kind)
        rewards[rows] = game.terms.rewards(actions[rows], context)
        _add_noise(game, rewards[rows], streams(block, _NOISE))

    _in_threads(draw, samples)
    known = {"contexts_count": game.contexts, "labels": game.labels}
    return Log(contexts, actions, rewards, **known, continuous=True)


def _play_points(
    game: ContinuousGame,
    transitions: np.ndarray,
    policy: ContinuousPolicy | None,
    samples: int,
    streams: Streams,
) -> Log:
    horizon = game.horizon
    kind = np.float32 if samples * horizon * game.agents > LARGE else np.float64
    point = _chooser(game, policy)

    def choose(words: np.ndarray, _: Any, context: Any, h: int, states: Any) -> np.ndarray:
        return point(words, (context, h, states), kind)

    def follow(words: np.ndarray, context: Any, _: int, states: Any, actions: Any) -> np.ndarray:
        return _next(transitions, context, states, actions, words)

    count = transitions.shape[2]
    tables = _episodes(game, samples, streams, np.ones(1), kind, count, choose, follow)
    rewards = np.empty(tables["actions"].shape, kind)

    def earn(block: int, episodes: slice) -> None:
        rows = slice(episodes.start * horizon, episodes.stop * horizon)
        known = (tables[name][rows] for name in ("actions", "contexts", "states"))
        rewards[rows] = game.terms.rewards(*known)
        _add_noise(game, rewards[rows], streams(block, _NOISE))

    _in_threads(earn, samples)
    return Log(**tables, rewards=rewards, continuous=True)


def _chooser(game: ContinuousGame, policy: ContinuousPolicy | None) -> Any:
    """words (count, agents) and where they are chosen -> actions (count, agents).

    The place is (context,), or (context, step, states), each of them (count, 1) or broadcastable.
    """
    if policy is None:
        return lambda words, place, kind: _centred(words, kind)
    points, chances = policy.support()
    thresholds = _thresholds(chances)
    agents = np.arange(game.agents)

    def choose(words: np.ndarray, place: tuple, kind: Any) -> np.ndarray:
        # (context, agent) or (context, step, agent, state): agents go before states.
        where = (*place[:-1], agents, place[-1]) if len(place) == 3 else (*place, agents)
        if points.shape[-1] == 1:
            return points[(*where, 0)].astype(kind)
        own = (thresholds[(*where, k)] for k in _choices(thresholds))
        chosen = _invert(words, own, np.dtype(np.int64))
        return points[(*where, chosen)].astype(kind)

    return choose


def _centred(words: np.ndarray, kind: Any) -> np.ndarray:
    """Words of 31 bits as numbers in (-1, 1), the middles of equally long intervals."""
    return (words.astype(kind) + kind(0.5)) * kind(2.0**-30) - kind(1.0)


def _add_noise(game: ContinuousGame, rewards: np.ndarray, source: np.random.SFC64) -> None:
    if game.noise:
        kind = rewards.dtype.type
        rewards += kind(game.noise) * _centred(_words(source, rewards.shape), kind)


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
