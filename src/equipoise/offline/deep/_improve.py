"""Improve policies against critics: the loop around compiled steps of actors."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.core.precision import single_precision
from equipoise.core.randomness import as_key
from equipoise.offline._log import Log
from equipoise.offline.deep import _ascent
from equipoise.offline.deep._actors import Actors, policy_table
from equipoise.offline.deep._ascent import Frozen
from equipoise.offline.deep._critics import Critics
from equipoise.offline.deep._fit import as_logs, in_folder
from equipoise.offline.deep._networks import TermNetworks
from equipoise.offline.deep._rows import Data, Rows, Sizes, prepare
from equipoise.offline.deep._spec import TD3BC, PolicyGradient
from equipoise.runs import Run, resumable
from equipoise.solvers.no_regret import STEPS

_LOOK_SECONDS = 1.0
#: Purposes of the keys that are derived from the given key.
_WEIGHTS, _STEPS, _SPLIT = range(3)


@named_arguments
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

    This is step 3 of Appendix B: each agent maximises its critic's prediction while staying near
    the log. Pass the log that the critics were fitted to, or a sequence of logs, one per trial. The
    critics do not change. A step costs one evaluation of the critics per context (instead of one
    per row of a batch, whose mean it computes exactly).

    **Local states.** The reward is then only a part of the return. A K-IR reward, decoupled
    transitions and independent policies give returns of interaction rank K in pairs of state and
    action. Two networks of the critics' kind, which start from the critics' weights, therefore
    learn the return by temporal differences while the actors improve (TD3: the smaller of two
    smoothed, slowly updated targets). The bootstrap ends at the finite horizon. This needs `TD3BC`
    and critics that are networks.

    With `run`, a run folder is written and resumed, as in `fit`. Ctrl-C returns the current actors.
    `snapshots` is the approximate number of intermediate policies kept in `Actors.history`, evenly
    spaced on a logarithmic scale.

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
    return in_folder(
        run,
        {
            "method": method,
            "kind": type(method).__name__,
            "critics": critics.fingerprint(),
            "capacity": capacity,
            "snapshots": snapshots,
        },
        logs,
        key,
        lambda folder: _improve(critics, logs, method, key, folder, capacity, snapshots),
        Actors,
    )


def _check(critics: Critics, logs: list[Log], method: Any) -> None:
    if not isinstance(method, TD3BC | PolicyGradient):
        raise InputError("method", "TD3BC or PolicyGradient", type(method).__name__)
    if logs[0].numeric:
        hint = "cut the numbers into counted contexts and states"
        raise InputError("log", "contexts and states that are counted", logs[0].numeric, hint)
    if Sizes.of(logs[0]) != critics.sizes:
        raise InputError("log", f"the log of the critics with {critics.sizes}", Sizes.of(logs[0]))
    if logs[0].states is not None:
        if not isinstance(method, TD3BC):
            raise InputError("method", "TD3BC for a log with local states", "another")
        if not isinstance(critics.models, TermNetworks):
            raise InputError("critics", "networks for a log with local states", "none")


def _improve(
    critics: Critics,
    logs: list[Log],
    method: TD3BC | PolicyGradient,
    key: jax.Array,
    run: Run | None,
    capacity: int | None,
    snapshots: int,
) -> tuple[Actors, bool]:
    """Return the actors, and whether they took all their steps."""
    local = logs[0].states is not None
    with single_precision():
        data = prepare(logs, 0.5, False, jax.random.fold_in(key, _SPLIT), capacity)
        start, move, numbers, steps = _climb(critics, logs[0], data, method, key)
        recorded = np.zeros(0, np.int64)
        if snapshots:
            recorded = np.unique(np.round(np.geomspace(1, steps, snapshots)).astype(np.int64))
        blank = np.zeros((len(recorded), *np.shape(numbers(start)[0])), np.float32)

        def advance(both: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
            state, history = both
            state = jax.block_until_ready(move(state, jnp.int32(until)))
            history[recorded == until] = np.asarray(numbers(state)[0])
            return (state, history), {}

        reached = resumable(
            run,
            (start, blank),
            advance,
            steps,
            name="improving policies",
            look=_LOOK_SECONDS,
            marks=recorded.tolist(),
        )
        state, history = reached.state
        recorded = recorded[recorded <= reached.step]
        history = [policy_table(past, critics.sizes, local) for past in history[: len(recorded)]]
        points, weights = numbers(state)
        actors = Actors(
            method,
            critics.sizes,
            policy_table(points, critics.sizes, local),
            None if weights is None else policy_table(weights, critics.sizes, local),
            getattr(state, "networks", None),
            int(state.step),
            recorded,
            np.stack(history) if snapshots else None,
        )
        return actors, not reached.stopped


def _climb(
    critics: Critics, log: Log, data: Data, method: Any, key: jax.Array
) -> tuple[Any, Callable[[Any, Array], Any], Callable[[Any], tuple[Any, Any]], int]:
    """Initial state of a method, how to advance it, its policies at a state, and its step count.

    Policies at a state are points and probabilities, (trials, agents, situations, ...).
    """
    sizes = critics.sizes
    start_key, steps_key = (jax.random.fold_in(key, n) for n in (_WEIGHTS, _STEPS))
    if isinstance(method, PolicyGradient):
        frozen = _ascent.freeze(critics, data)
        return (
            _start_gradient(method, critics, data, start_key),
            lambda state, until: _advance_gradient((frozen, steps_key, until), state, method),
            lambda state: state.numbers(method),
            method.steps,
        )
    alpha, steps = jnp.float32(method.alpha), method.steps_for(log.samples)
    # Arguments of the compiled programs must not be part of their static settings.
    compiled = replace(method, alpha=0.0, steps=None, epochs=1)

    def numbers(state: Any) -> tuple[Any, None]:
        return _ascent.everywhere(state.networks, sizes), None

    given: Any
    advance: Any
    if log.states is not None:
        start = _ascent.start_returns(compiled, critics, start_key)
        given, advance = (data, steps_key, alpha), _ascent.advance_returns
    else:
        start = _ascent.start(compiled, sizes, critics.trials, start_key)
        given = (_ascent.freeze(critics, data), data, steps_key, alpha)
        advance = _ascent.advance

    def move(state: Any, until: Array) -> Any:
        return advance((*given, until), state, compiled, sizes)

    return start, move, numbers, steps


#: Largest distance from the log's mean action at which `PolicyGradient` starts.
_START = 0.1


class Iterate(eqx.Module):
    """Current policies of `PolicyGradient`."""

    #: (trials, agents, contexts); stochastic policies have a last axis of point probabilities.
    policies: Float[Array, "..."]
    #: The log's mean actions, or the frequencies of its actions at their nearest points.
    behaviour: Float[Array, "..."]
    #: (trials, agents): standard deviations of rewards.
    spread: Float[Array, "trials agents"]
    step: Int[Array, ""]

    def numbers(self, method: PolicyGradient) -> tuple[np.ndarray, np.ndarray | None]:
        """Points, and their probabilities for stochastic policies."""
        policies = np.asarray(self.policies, np.float64)
        if method.policy == "deterministic":
            return policies, None
        policies /= policies.sum(-1, keepdims=True)
        return np.broadcast_to(np.linspace(-1.0, 1.0, method.points), policies.shape), policies


def _start_gradient(
    method: PolicyGradient, critics: Critics, data: Data, key: jax.Array
) -> Iterate:
    """Start at random near the log's mean actions, or at the log's frequencies."""
    contexts, total = critics.sizes.contexts, int(data.total)
    actions = np.asarray(data.rows.actions)[:, :total]
    member = np.eye(contexts)[np.asarray(data.rows.contexts)[:, :total]]
    counts = np.maximum(member.sum(1), 1.0)[:, None]
    spread = jnp.maximum(jnp.asarray(np.asarray(data.rewards)[:, :total].std(1)), 1e-8)
    if method.policy == "deterministic":
        behaviour = np.einsum("tmn,tmc->tnc", actions, member) / counts
        noise = jax.random.uniform(key, behaviour.shape, minval=-_START, maxval=_START)
        first = jnp.clip(jnp.asarray(behaviour, jnp.float32) + noise, -1.0, 1.0)
    else:
        nearest = np.rint((actions + 1.0) / 2.0 * (method.points - 1)).astype(int)
        hit = np.eye(method.points, dtype=np.float32)[nearest]
        # Spread one extra row over all points, so that no point has probability zero.
        seen = np.einsum("tmnp,tmc->tncp", hit, member) + 1.0 / method.points
        behaviour = seen / seen.sum(-1, keepdims=True)
        first = jnp.asarray(behaviour, jnp.float32)
    return Iterate(first, jnp.asarray(behaviour, jnp.float32), spread, jnp.int32(0))


@eqx.filter_jit
def _advance_gradient(
    given: tuple[Frozen, jax.Array, Array], state: Iterate, method: PolicyGradient
) -> Iterate:
    """Advance all agents to the given step."""
    critics, key, until = given
    move = _move_numbers if method.policy == "deterministic" else _move_chances

    def one(state: Iterate) -> Iterate:
        policies = move(state, critics, jax.random.fold_in(key, state.step), method)
        return Iterate(policies, state.behaviour, state.spread, state.step + 1)

    return jax.lax.while_loop(lambda s: s.step < until, one, state)


def _move_numbers(state: Iterate, critics: Frozen, key: jax.Array, method: PolicyGradient) -> Array:
    """A gradient step within [-1, 1]."""
    contexts = state.policies.shape[-1]

    def worth(own: Array, model: Any, everybody: Array, agent: Array) -> Array:
        actions = everybody.T.at[:, agent].set(own)
        return model(Rows.without_states(actions, jnp.arange(contexts))).sum()

    per_agent = jax.vmap(jax.grad(worth), (0, 0, None, 0))
    agents = jnp.arange(state.policies.shape[1])
    per_trial = jax.vmap(per_agent, (0, 0, 0, None))
    slope = per_trial(state.policies, critics.models, state.policies, agents)
    slope = slope * (critics.scale / state.spread)[..., None]
    pull = 2.0 * method.strength * (state.policies - state.behaviour)
    return jnp.clip(state.policies + method.step * (slope - pull), -1.0, 1.0)


def _move_chances(state: Iterate, critics: Frozen, key: jax.Array, method: PolicyGradient) -> Array:
    """A mirror step on the value of each point against draws of the others' actions."""
    trials, agents, contexts, points = state.policies.shape
    grid = jnp.linspace(-1.0, 1.0, points)
    shape = (method.samples, trials, agents, contexts)
    drawn = grid[jax.random.categorical(key, jnp.log(state.policies), shape=shape)]
    drawn = jnp.moveaxis(drawn, 0, -1)  # trials, agents, contexts, samples

    def worth(model: Any, everybody: Array, agent: Array) -> Array:
        actions = jnp.moveaxis(everybody, 0, -1)  # contexts, samples, agents
        tried = jnp.broadcast_to(actions[:, None], (contexts, points, *actions.shape[1:]))
        tried = tried.at[..., agent].set(grid[:, None])
        which = jnp.broadcast_to(jnp.arange(contexts)[:, None, None], tried.shape[:-1])
        rows = Rows.without_states(tried.reshape(-1, agents), which.reshape(-1))
        return model(rows).reshape(contexts, points, -1).mean(-1)

    per_agent = jax.vmap(worth, (0, None, 0))
    values = jax.vmap(per_agent, (0, 0, None))(critics.models, drawn, jnp.arange(agents))
    values = values * (critics.scale / state.spread)[..., None, None]
    values = values - (state.behaviour * values).sum(-1, keepdims=True)
    return STEPS["chi-squared"](
        state.policies, values, state.behaviour, step=method.step, strength=method.strength
    )
