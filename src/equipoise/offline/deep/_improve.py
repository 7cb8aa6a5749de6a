"""From critics to policies: the loop around compiled steps of actors."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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
from equipoise.runs import Record, Run, interruptible, progress

_LOOK_SECONDS, CHECKPOINT_SECONDS = 1.0, 30.0
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
    they are.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("pairwise-continuous", agents=4, noise=0.1)
    >>> log = eq.offline.collect(game, "uniform", samples=400, key=0)
    >>> critics = eq.offline.deep.fit(log, eq.offline.deep.Critic.linear(rank=2), key=1)
    >>> actors = eq.offline.deep.improve(critics, log, eq.offline.deep.TD3BC(steps=800), key=2)
    >>> bool(eq.certify(game, actors.policy).max_gain < 0.1)
    True
    """
    method = TD3BC() if method is None else method
    logs = as_logs(log, critics.trials)
    key = as_key(key)
    _check(critics, logs, method)
    if run is None:
        return _improve(critics, logs, method, key, None, capacity)[0]
    config = {
        "method": method,
        "kind": type(method).__name__,
        "critics": critics_fingerprint(critics),
        "logs": [fingerprint(log) for log in logs],
        "key": np.asarray(jax.random.key_data(key)),
        "capacity": capacity,
    }
    if Path(run, "record.json").exists():
        with Run.open(run, config):
            return Actors.load(run)
    with Run.start(run, config) as folder:
        actors, complete = _improve(critics, logs, method, key, folder, capacity)
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
) -> tuple[Actors, bool]:
    sizes, local = critics.sizes, logs[0].states is not None
    weights_key, steps_key = (jax.random.fold_in(key, n) for n in (_WEIGHTS, _STEPS))
    with single_precision(), interruptible() as stop:
        data = prepare(logs, 0.5, False, jax.random.fold_in(key, _SPLIT), capacity)
        frozen = freeze(critics, data)
        if isinstance(method, PolicyGradient):
            gradient = _gradient.start(method, critics, data, weights_key)
            shared: tuple[Any, ...] = (frozen, data, steps_key)

            def climb(state: Any, until: int) -> Any:
                return _gradient.advance((*shared, jnp.int32(until)), state, method)

            found = _loop(gradient, climb, method.steps, stop, run)
            points, weights = found.numbers(method)
            table = policy_table(points, sizes, local)
            chances = None if weights is None else policy_table(weights, sizes, local)
            return Actors(method, sizes, table, chances, None, int(found.step)), not stop
        steps = method.steps_for(logs[0].samples)
        alpha = jnp.float32(method.alpha)
        if local:
            state: Any = _returns.start(method, critics, weights_key)

            def advance(state: Any, until: int) -> Any:
                return _returns.advance(
                    (data, steps_key, alpha, jnp.int32(until)), state, method, sizes
                )
        else:
            state = _ascent.start(method, sizes, critics.trials, weights_key)

            def advance(state: Any, until: int) -> Any:
                given = (frozen, data, steps_key, alpha, jnp.int32(until))
                return _ascent.advance(given, state, traced(method), sizes)

        state = _loop(state, advance, steps, stop, run)
        table = policy_table(_ascent.everywhere(state.networks, sizes), sizes, local)
        return Actors(method, sizes, table, None, state.networks, int(state.step)), not stop


def traced(method: TD3BC) -> TD3BC:
    """The method without what the compiled program takes as an argument."""
    from dataclasses import replace

    return replace(method, alpha=0.0, steps=None, epochs=1)


def freeze(critics: Critics, data: Data) -> _ascent.Frozen:
    """Critics on the device, with what they say of the log's own actions on average."""
    shift, scale = (jnp.asarray(x, jnp.float32) for x in (critics.shift, critics.scale))
    size = _ascent.magnitudes(critics.models, shift, scale, data)
    return _ascent.Frozen(critics.models, shift, scale, size)


def _loop(
    state: Any, advance: Callable[[Any, int], Any], last: int, stop: Any, run: Run | None
) -> Any:
    """Steps until the last; looks up about once a second."""
    if run is not None and run.step:
        state = run.restore(state)
    reached, saved, chunk, compiled = int(state.step), time.monotonic(), 1, False
    with progress("improving policies", total=last) as bar:
        bar.advance(reached)
        while reached < last and not stop:
            began = time.monotonic()
            until = min(last, reached + chunk)
            state = jax.block_until_ready(advance(state, until))
            spent = time.monotonic() - began
            bar.advance(until - reached)
            reached = until
            if compiled:
                grown = chunk * _LOOK_SECONDS / max(spent, 1e-3)
                chunk = int(np.clip(grown, 1, 100 * chunk))
            compiled = True
            if run is not None:
                run.log(reached)
                late = time.monotonic() - saved > CHECKPOINT_SECONDS
                if late or stop or reached >= last:
                    run.checkpoint(reached, state)
                    saved = time.monotonic()
    return state
