"""Collect logs of known games by playing a behaviour policy."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from scipy.special import ndtri

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.core.machine import cores
from equipoise.core.randomness import as_key
from equipoise.games import ContextualGame, ContinuousGame, DecoupledMarkovGame, Mixture
from equipoise.offline._log import Log

#: Logs with more rewards than this store them in float32.
LARGE = 20_000_000
#: Number of samples drawn from one stream; independent of how many samples are requested.
_BLOCK = 4096
#: A stream of random numbers for each purpose.
_CONTEXT, _COMPONENT, _ACTION, _NOISE, _STATE = range(5)

#: Maps a block and a purpose to their source of random words.
Streams = Callable[[int, int], np.random.SFC64]
#: Index into policies of the place where an action is chosen: (contexts, agents) or (contexts,
#: step, agents, states), which broadcast to (count, agents).
Place = tuple[Any, ...]


@runtime_checkable
class Simulator(Protocol):
    """A game that can produce its own log: a game with continuous actions or your own simulator.

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


@named_arguments
def collect(game: Any, behaviour: Any = "uniform", samples: int = 10_000, *, key: Any) -> Log:
    """Play a known game with a behaviour policy and return the log.

    `behaviour` is "uniform", a product policy, or a `games.Mixture` of product policies. In a
    `ContextualGame` a sample is one row. In a `DecoupledMarkovGame` it is an episode of `horizon`
    rows, so each step has `samples` rows. Rewards have Gaussian noise with the game's standard
    deviation `noise` (one of 65,536 equally likely quantiles). A log of more than 20 million
    rewards stores them in float32.

    In a `ContinuousGame`, `behaviour` is "uniform" on [-1, 1], a `games.ContinuousPolicy` or an
    array of actions. Noise is uniform on [-noise, noise], and the log has `continuous=True`. For
    any other game, its method `simulate(behaviour, samples, key)` is called, which must return a
    `Log`.

    The same key gives the same rows for any number of samples: a longer log begins with the rows
    of a shorter one.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=5, actions=3, contexts=2).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=1000, key=1)
    >>> log.samples, log.agents, log.contexts_count, log.actions.dtype
    (1000, 5, 2, dtype('int8'))
    """
    samples = checks.check_count("samples", samples)
    if isinstance(game, ContextualGame | DecoupledMarkovGame):
        return _collect_discrete(game, _as_mixture(game, behaviour), samples, _streams(key))
    if isinstance(game, ContinuousGame):
        return _collect_continuous(game, behaviour, samples, _streams(key))
    if isinstance(game, Simulator):
        log = game.simulate(behaviour, samples, key)
        if not isinstance(log, Log):
            raise InputError("game", "simulate to return a Log", type(log).__name__)
        return log
    raise InputError(
        "game",
        (
            "a ContextualGame, a DecoupledMarkovGame, a ContinuousGame, or a game with a "
            "method simulate(behaviour, samples, key)"
        ),
        type(game).__name__,
    )


def _as_mixture(game: ContextualGame | DecoupledMarkovGame, behaviour: Any) -> Mixture:
    if isinstance(behaviour, str):
        if behaviour != "uniform":
            expected = '"uniform", a product policy or a Mixture'
            raise InputError("behaviour", expected, repr(behaviour))
        return Mixture(game.uniform_policy()[None])
    mixture, shape = behaviour, game.policy_shape
    if not isinstance(mixture, Mixture):
        mixture = Mixture(checks.as_float_array("behaviour", behaviour, copy=False)[None])
    policies = mixture.policies
    if game.contexts == 1 and mixture.policy_shape == shape[1:]:
        policies = policies[:, None]
    if policies.shape[1:] != shape:
        raise InputError("behaviour", f"a product policy of shape {shape}", mixture.policy_shape)
    missing = ~game.action_mask if len(shape) == 3 else ~game.action_mask[:, None]
    if (policies * missing).any():
        where = list(checks.first_index(policies * missing > 0)[1:])
        raise InputError("behaviour", "no probability on missing actions", f"some at {where}")
    return Mixture(policies, mixture.weights)


def _streams(key: Any) -> Streams:
    words = np.asarray(jax.random.key_data(as_key(key))).ravel().tolist()
    return lambda block, purpose: np.random.SFC64([*words, block, purpose])


def _in_threads(work: Callable[[int, slice], None], samples: int) -> None:
    """Process all blocks in threads, which run in parallel since NumPy releases the GIL."""
    edges = pairwise([*range(0, samples, _BLOCK), samples])
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(lambda block: work(block[0], slice(*block[1])), enumerate(edges)))


def _collect_discrete(
    game: ContextualGame | DecoupledMarkovGame, mixture: Mixture, samples: int, streams: Streams
) -> Log:
    chosen, small = _thresholds(mixture.policies), np.min_scalar_type(-max(game.actions))
    single = chosen.shape[:2] == (1, 1)  # then no lookups row by row

    def choose(words: np.ndarray, component: np.ndarray, place: Place) -> np.ndarray:
        where = (0, 0, *place[1:]) if single else (component, *place)
        return _invert(words, chosen, where, small)

    if isinstance(game, ContextualGame):
        tables = _play(game, samples, streams, mixture.weights, small, choose)
        situations, moves = tables["contexts"], tables["actions"]
    else:
        moved, count = _thresholds(game.transitions), max(game.states)

        def follow(words: np.ndarray, place: Place, actions: np.ndarray) -> np.ndarray:
            return _invert(words, moved, (*place, actions), np.min_scalar_type(-count))

        tables = _play(game, samples, streams, mixture.weights, small, choose, follow, count)
        moves = tables["states"].astype(np.int64) * max(game.actions) + tables["actions"]
        situations = tables["contexts"].astype(np.int64) * game.horizon + tables["steps"]
    dtype = np.float32 if moves.size > LARGE else np.float64
    rewards = game.interactions.rewards(situations, moves, dtype=dtype)

    def add(block: int, rows: slice) -> None:
        part = rewards[rows]
        part += _normal_table(game.noise).take(_raw(streams(block, _NOISE), part.shape, np.uint16))

    if game.noise:
        _in_threads(add, len(rewards))
    known = mixture[0] if len(mixture) == 1 else None
    return Log(**tables, rewards=rewards, behaviour=known, actions_per_agent=game.actions)


def _collect_continuous(
    game: ContinuousGame, behaviour: Any, samples: int, streams: Streams
) -> Log:
    """Play "uniform" or a policy of points, and log rows, or episodes if there are local states."""
    if isinstance(behaviour, str) and behaviour != "uniform":
        expected = '"uniform", a ContinuousPolicy or an array of actions'
        raise InputError("behaviour", expected, repr(behaviour))
    kind = np.float32 if samples * game.horizon * game.agents > LARGE else np.float64
    points, thresholds = None, np.zeros(0)
    if not isinstance(behaviour, str):
        points, chances = game.policy(behaviour).support()
        thresholds = _thresholds(chances)

    def choose(words: np.ndarray, _: Any, place: Place) -> np.ndarray:
        if points is None:
            return _centred(words, kind)
        return points[(*place, _invert(words, thresholds, place, np.int64))].astype(kind)

    def follow(words: np.ndarray, place: Place, actions: np.ndarray) -> np.ndarray:
        return _next(game.transitions, place, actions, words)

    local: Any = () if game.transitions is None else (follow, game.states)
    tables = _play(game, samples, streams, np.ones(1), kind, choose, *local)
    rewards = np.empty(tables["actions"].shape, kind)
    names = ("actions", "contexts", "states") if local else ("actions", "contexts")

    def earn(block: int, episodes: slice) -> None:
        rows = slice(episodes.start * game.horizon, episodes.stop * game.horizon)
        part = rewards[rows]
        part[:] = game.terms.rewards(*(tables[name][rows] for name in names))
        if game.noise:
            words = _words(streams(block, _NOISE), part.shape)
            part += kind(game.noise) * _centred(words, kind)

    _in_threads(earn, samples)
    return Log(**tables, rewards=rewards, continuous=True)


def _play(
    game: Any,
    samples: int,
    streams: Streams,
    weights: np.ndarray,
    dtype: Any,
    choose: Callable[..., np.ndarray],
    follow: Callable[..., np.ndarray] | None = None,
    states_count: int = 1,
) -> dict[str, Any]:
    """Play rows, or episodes if there are local states; return all fields of a log but rewards.

    `choose(words, component, place)` returns actions and `follow(words, place, actions)` returns
    next states, both (count, agents).
    """
    agents, everybody = game.agents, np.arange(game.agents)
    horizon = 1 if follow is None else game.horizon
    contexts = np.empty(samples, np.min_scalar_type(-game.contexts))
    actions = np.empty((samples, horizon, agents), dtype)
    states = np.empty((samples, horizon + 1, agents), np.min_scalar_type(-states_count))
    begun = None if follow is None else _thresholds(np.asarray(game.initial))

    def draw(block: int, rows: slice) -> None:
        count = rows.stop - rows.start
        contexts[rows] = _pick(streams(block, _CONTEXT), game.context_probabilities, count)
        component = _pick(streams(block, _COMPONENT), weights, count)[:, None]
        c = contexts[rows, None]
        # One row of numbers per episode, so that the horizon does not change other draws.
        u = _words(streams(block, _ACTION), (count, horizon, agents))
        if follow is None or begun is None:
            actions[rows, 0] = choose(u[:, 0], component, (c, everybody))
            return
        v = _words(streams(block, _STATE), (count, horizon + 1, agents))
        states[rows, 0] = s = _invert(v[:, 0], begun, (c, everybody), states.dtype)
        for h in range(horizon):
            place = (c, h, everybody, s)
            actions[rows, h] = a = choose(u[:, h], component, place)
            states[rows, h + 1] = s = follow(v[:, h + 1], place, a)

    _in_threads(draw, samples)
    tables = {
        "contexts": np.repeat(contexts, horizon),
        "actions": actions.reshape(-1, agents),
        "contexts_count": game.contexts,
        "labels": game.labels,
    }
    if follow is None:
        return tables
    return tables | {
        "states": np.ascontiguousarray(states[:, :-1]).reshape(-1, agents),
        "next_states": np.ascontiguousarray(states[:, 1:]).reshape(-1, agents),
        "steps": np.tile(np.arange(horizon, dtype=np.min_scalar_type(-horizon)), samples),
        "episodes": np.repeat(np.arange(samples), horizon),
        "states_count": states_count,
        "horizon": horizon,
    }


def _thresholds(chances: np.ndarray) -> np.ndarray:
    """(..., outcomes) -> (..., outcomes - 1): words above threshold k select an outcome after k.

    Words have 31 bits. Whatever the rounding, no word selects an outcome after the last possible
    one, and no word selects an impossible outcome before the first possible one.
    """
    left = np.cumsum(chances, -1)[..., :-1]
    after = np.cumsum(chances[..., ::-1], -1)[..., ::-1][..., 1:]
    beyond = np.where(after > 0.0, np.round(np.minimum(left, 1.0) * 2.0**31) - 1.0, 2.0**31 - 1.0)
    return beyond.astype(np.int32)


def _invert(words: np.ndarray, thresholds: np.ndarray, where: Place, dtype: Any) -> np.ndarray:
    """Outcome of each word: the number of thresholds at `where` that it exceeds."""
    outcome = np.zeros(words.shape, dtype)
    for k in range(thresholds.shape[-1]):
        outcome += words > thresholds[(*where, k)]
    return outcome


def _raw(source: np.random.SFC64, shape: tuple[int, ...], kind: Any) -> np.ndarray:
    """Raw random bits, four times as fast as through a generator."""
    count, size = math.prod(shape), np.dtype(kind).itemsize
    return source.random_raw(-(-count * size // 8)).view(kind)[:count].reshape(shape)


def _words(source: np.random.SFC64, shape: tuple[int, ...]) -> np.ndarray:
    """Random words of 31 bits."""
    return (_raw(source, shape, np.uint32) >> np.uint32(1)).view(np.int32)


@cache
def _normal_table(scale: float) -> np.ndarray:
    """65,536 equally likely Gaussian quantiles, scaled to the requested standard deviation."""
    quantiles = ndtri((np.arange(1 << 16) + 0.5) / (1 << 16))
    return (scale * quantiles / quantiles.std()).astype(np.float32)


def _pick(source: np.random.SFC64, chances: np.ndarray, count: int) -> np.ndarray:
    """(count,): independent draws from one distribution."""
    if len(chances) == 1:
        return np.zeros(count, np.int64)
    # Count the thresholds below each word.
    return np.searchsorted(_thresholds(chances), _words(source, (count,)), "left")


def _centred(words: np.ndarray, kind: Any) -> np.ndarray:
    """Map words of 31 bits to numbers in (-1, 1): midpoints of equally long intervals."""
    return (words.astype(kind) + kind(0.5)) * kind(2.0**-30) - kind(1.0)


def _next(transitions: Any, place: Place, actions: np.ndarray, words: np.ndarray) -> np.ndarray:
    """(count, agents): next states; their probabilities are polynomials of the own actions."""
    contexts, _, agents, states = place
    left = np.zeros(states.shape)
    moved = np.zeros(states.shape, np.int64)
    share = (words + 0.5) * 2.0**-31
    for k in range(transitions.shape[3] - 1):
        own = np.moveaxis(transitions[contexts, agents, states, k], -1, 0)
        left = left + np.polynomial.polynomial.polyval(actions, own, tensor=False)
        moved += share > left
    return moved
