"""Plain regularised policy gradient: numbers, or chances of points, moved by critics directly."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from equipoise.offline._mirror import STEPS
from equipoise.offline.deep._ascent import Frozen
from equipoise.offline.deep._critics import Critics
from equipoise.offline.deep._methods import PolicyGradient
from equipoise.offline.deep._rows import Data, Rows

#: How far from the log's mean action agents begin.
_START = 0.1


class Iterate(eqx.Module):
    """Where policies stand."""

    #: (trials, agents, contexts), of stochastic policies with chances of points behind.
    policies: Float[Array, "..."]
    #: The log's mean actions, or how often it has actions nearest to the points.
    behaviour: Float[Array, "..."]
    #: (trials, agents): standard deviations of rewards.
    spread: Float[Array, "trials agents"]
    step: Int[Array, ""]

    def numbers(self, method: PolicyGradient) -> tuple[np.ndarray, np.ndarray | None]:
        """Points, and their chances where there are any."""
        policies = np.asarray(self.policies, np.float64)
        if method.policy == "deterministic":
            return policies, None
        policies /= policies.sum(-1, keepdims=True)
        return np.broadcast_to(np.linspace(-1.0, 1.0, method.points), policies.shape), policies


def start(method: PolicyGradient, critics: Critics, data: Data, key: jax.Array) -> Iterate:
    """Near the log's mean actions, at random; or at the log's own frequencies."""
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
        # One row that is everywhere: no point without a chance.
        seen = np.einsum("tmnp,tmc->tncp", hit, member) + 1.0 / method.points
        behaviour = seen / seen.sum(-1, keepdims=True)
        first = jnp.asarray(behaviour, jnp.float32)
    return Iterate(first, jnp.asarray(behaviour, jnp.float32), spread, jnp.int32(0))


@eqx.filter_jit
def advance(
    given: tuple[Frozen, Data, jax.Array, Array], state: Iterate, method: PolicyGradient
) -> Iterate:
    """Steps of all agents at once, until so many."""
    critics, _, key, until = given
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
        return model(_rows(actions, jnp.arange(contexts))).sum()

    per_agent = jax.vmap(jax.grad(worth), (0, 0, None, 0))
    agents = jnp.arange(state.policies.shape[1])
    per_trial = jax.vmap(per_agent, (0, 0, 0, None))
    slope = per_trial(state.policies, critics.models, state.policies, agents)
    slope = slope * (critics.scale / state.spread)[..., None]
    pull = 2.0 * method.strength * (state.policies - state.behaviour)
    return jnp.clip(state.policies + method.step * (slope - pull), -1.0, 1.0)


def _move_chances(state: Iterate, critics: Frozen, key: jax.Array, method: PolicyGradient) -> Array:
    """A mirror step on what each point is worth against draws of the others."""
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
        values = model(_rows(tried.reshape(-1, agents), which.reshape(-1)))
        return values.reshape(contexts, points, -1).mean(-1)

    per_agent = jax.vmap(worth, (0, None, 0))
    values = jax.vmap(per_agent, (0, 0, None))(critics.models, drawn, jnp.arange(agents))
    values = values * (critics.scale / state.spread)[..., None, None]
    values = values - (state.behaviour * values).sum(-1, keepdims=True)
    return STEPS["chi-squared"](
        state.policies, values, state.behaviour, step=method.step, strength=method.strength
    )


def _rows(actions: Array, contexts: Array) -> Rows:
    zeros = jnp.zeros(actions.shape[:1], jnp.int32)
    return Rows(actions, contexts.astype(jnp.int32), zeros, jnp.zeros(actions.shape, jnp.int32))
