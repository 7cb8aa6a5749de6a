"""From critics to policies: the loop around compiled steps of actors."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks
from equipoise.core.precision import single_precision
from equipoise.core.randomness import as_key
from equipoise.offline._log import Log
from equipoise.offline.deep import _ascent, _gradient, _returns
from equipoise.offline.deep._actors import Actors, policy_table
from equipoise.offline.deep._critics import Critics
from equipoise.offline.deep._files import critics_fingerprint, save_actors
from equipoise.offline.deep._fit import as_logs, fingerprint
from equipoise.offline.deep._methods import TD3BC, PolicyGradient
from equipoise.offline.deep._networks import TermNetworks
from equipoise.offline.deep._rows import Data, Sizes, prepare
from equipoise.runs import Record, Run, resumable

_LOOK_SECONDS = 1.0
#: Purposes of the keys that are made of the one given.
_WEIGHTS, _STEPS, _SPLIT = range(3)


def improve(
    critics: Critics,
    log: Log | Sequence[Log],
    method: TD3BC | PolicyGradient | None = None,
    *,
    key: Any,
    run: str | os.PathLike[str] | None = None,
    capacity: int | None = None,
    snapshots: int = 0,
) -> Actors:
    """Improve every agent's policy against its critic, all agents and trials at once.

    Step 3 of Appendix B: each agent ascends what its critic says, near what the log shows. The
    log is that of the critics, or a sequence of them, one for each trial. Critics do not change
    and a step costs one evaluation of them for every context (not for every row of a batch, of
    which it is the exact mean).

    **Local states.** A reward is then not all there is to come. A K-IR reward, decoupled
    transitions and independent policies make up returns of interaction rank K, in pairs of
    state and action; so two networks of the critics' own kind, which begin with their weights,
    learn the return by temporal differences while the actors improve (TD3: the smaller of two
    targets, smoothed and slow). The finite horizon ends the bootstrap. This needs `TD3BC` and
    critics that are networks.

    With `run`, a run folder is written and resumed, as by `fit`. Ctrl-C returns the actors as
    they are. Policies along the way are kept in about so many `snapshots`, evenly spaced on a
    logarithmic scale: `Actors.history`.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("pairwise-continuous", agents=6, noise=0.5)
    >>> log = eq.offline.collect(game, "uniform", samples=400, key=0)
    >>> critics = eq.offline.deep.fit(log, eq.offline.deep.Critic.linear(rank=2), key=1)
    >>> actors = eq.offline.deep.improve(critics, log, eq.offline.deep.TD3BC(steps=800), key=2)
    >>> bool(eq.certify(game, actors.policy).max_gain < 0.1)
    True
    """
    method = TD3BC() if method is None else method
    logs = as_logs(log, critics.trials)
    key = as_key(key)
    snapshots = checks.check_count("snapshots", snapshots, 0)
    _check(critics, logs, method)
    if run is None:
        return _improve(critics, logs, method, key, None, capacity, snapshots)[0]
    config = {
        "method": method,
        "kind": type(method).__name__,
        "critics": critics_fingerprint(critics),
        "logs": [fingerprint(log) for log in logs],
        "key": np.asarray(jax.random.key_data(key)),
        "capacity": capacity,
        "snapshots": snapshots,
    }
    if Path(run, "record.json").exists():
        with Run.open(run, config):
            return Actors.load(run)
    with Run.start(run, config) as folder:
        actors, complete = _improve(critics, logs, method, key, folder, capacity, snapshots)
        if complete:
            save_actors(actors, folder.path)
            arrays = {"points": actors.points}
            folder.finish(Record("actors", folder.config, {"steps": actors.steps}, arrays))
        return actors


def _check(critics: Critics, logs: list[Log], method: Any) -> None:
    if not isinstance(method, TD3BC | PolicyGradient):
        raise ValueError(f"method: expected TD3BC or PolicyGradient, found {type(method).__name__}")
    if Sizes.of(logs[0]) != critics.sizes:
        raise ValueError(
            f"log: expected that of the critics, with {critics.sizes}, found {Sizes.of(logs[0])}"
        )
    if logs[0].states is not None:
        if not isinstance(method, TD3BC):
            raise ValueError("method: expected TD3BC where there are local states, found another")
        if not isinstance(critics.models, TermNetworks):
            raise ValueError("critics: expected networks where there are local states, found none")


def _improve(
    critics: Critics,
    logs: list[Log],
    method: TD3BC | PolicyGradient,
    key: jax.Array,
    run: Run | None,
    capacity: int | None,
    snapshots: int,
) -> tuple[Actors, bool]:
    with single_precision():
        data = prepare(logs, 0.5, False, jax.random.fold_in(key, _SPLIT), capacity)
        climb = _climb(critics, logs[0], data, method, key)
        recorded = np.zeros(0, np.int64)
        if snapshots:
            recorded = np.unique(np.round(np.geomspace(1, climb.steps, snapshots)).astype(np.int64))
        state, history, done = _loop(climb, recorded, run)
        local = logs[0].states is not None

        def table(numbers: Any) -> np.ndarray:
            return policy_table(numbers, critics.sizes, local)

        points, weights = climb.numbers(state)
        past = np.stack([table(h) for h in history]) if snapshots else None
        actors = Actors(
            method,
            critics.sizes,
            table(points),
            None if weights is None else table(weights),
            getattr(state, "networks", None),
            int(state.step),
            recorded[: len(history)],
            past,
        )
        return actors, done


@dataclass(frozen=True)
class _Climb:
    """A way to improve: where it begins, how it goes on, and what is played at a state of it."""

    state: Any
    advance: Callable[[Any, int], Any]
    #: state -> points and chances, (trials, agents, situations, ...).
    numbers: Callable[[Any], tuple[Any, Any]]
    steps: int


def _climb(critics: Critics, log: Log, data: Data, method: Any, key: jax.Array) -> _Climb:
    sizes = critics.sizes
    start_key, steps_key = (jax.random.fold_in(key, n) for n in (_WEIGHTS, _STEPS))
    if isinstance(method, PolicyGradient):
        frozen = freeze(critics, data)
        return _Climb(
            _gradient.start(method, critics, data, start_key),
            lambda state, until: _gradient.advance(
                (frozen, data, steps_key, jnp.int32(until)), state, method
            ),
            lambda state: state.numbers(method),
            method.steps,
        )
    alpha, steps = jnp.float32(method.alpha), method.steps_for(log.samples)
    # What the compiled programs take as arguments is no part of them.
    compiled = replace(method, alpha=0.0, steps=None, epochs=1)

    def numbers(state: Any) -> tuple[Any, None]:
        return _ascent.everywhere(state.networks, sizes), None

    if log.states is not None:
        return _Climb(
            _returns.start(method, critics, start_key),
            lambda state, until: _returns.advance(
                (data, steps_key, alpha, jnp.int32(until)), state, compiled, sizes
            ),
            numbers,
            steps,
        )
    frozen = freeze(critics, data)
    return _Climb(
        _ascent.start(method, sizes, critics.trials, start_key),
        lambda state, until: _ascent.advance(
            (frozen, data, steps_key, alpha, jnp.int32(until)), state, compiled, sizes
        ),
        numbers,
        steps,
    )


def freeze(critics: Critics, data: Data) -> _ascent.Frozen:
    """Critics on the device, with what they say of the log's own actions on average."""
    shift, scale = (jnp.asarray(x, jnp.float32) for x in (critics.shift, critics.scale))
    size = _ascent.magnitudes(critics.models, shift, scale, data)
    return _ascent.Frozen(critics.models, shift, scale, size)


def _loop(climb: _Climb, recorded: np.ndarray, run: Run | None) -> tuple[Any, np.ndarray, bool]:
    """Steps until the last: the state, what recorded steps played, and whether all are done."""
    history = np.zeros((len(recorded), *np.shape(climb.numbers(climb.state)[0])), np.float32)

    def advance(both: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
        state, history = both
        state = jax.block_until_ready(climb.advance(state, until))
        history[recorded == until] = np.asarray(climb.numbers(state)[0])
        return (state, history), {}

    reached = resumable(
        run,
        (climb.state, history),
        advance,
        climb.steps,
        name="improving policies",
        look=_LOOK_SECONDS,
        marks=recorded.tolist(),
    )
    state, history = reached.state
    return state, history[: int((recorded <= reached.step).sum())], not reached.stopped
