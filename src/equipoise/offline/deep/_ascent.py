"""Actors against fixed critics: without local states, a reward is all there is to come."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from equipoise.offline.deep._actors import ActorNetwork, situations
from equipoise.offline.deep._critics import predict
from equipoise.offline.deep._mapping import over_agents, side_by_side
from equipoise.offline.deep._methods import TD3BC
from equipoise.offline.deep._rows import Data, Rows, Sizes

#: Up to so many rows, a CPU computes critics of all agents at once.
_FEW = 4


class Ascent(eqx.Module):
    """Where actors stand; arrays have axes (trials, agents), but for the number of steps."""

    networks: ActorNetwork
    moments: Any
    step: Int[Array, ""]


class Frozen(eqx.Module):
    """Critics as they were fitted."""

    models: Any
    #: (trials, agents): a reward is `scale * output + shift`.
    shift: Float[Array, "trials agents"]
    scale: Float[Array, "trials agents"]
    #: (trials, agents): the mean of |Q| over the rows of the log.
    magnitude: Float[Array, "trials agents"]


def start(method: TD3BC, sizes: Sizes, trials: int, key: jax.Array) -> Ascent:
    """Random actors."""
    networks, moments = _random_actors(
        key, jnp.arange(trials), method.width, method.depth, method.shared_start, sizes
    )
    return Ascent(networks, moments, jnp.int32(0))


@eqx.filter_jit
def _random_actors(
    key: jax.Array, trials: Array, width: int, depth: int, shared: bool, sizes: Sizes
) -> tuple[ActorNetwork, Any]:
    def one(trial: Array, agent: Array) -> tuple[ActorNetwork, Any]:
        own = jax.random.fold_in(jax.random.fold_in(key, trial), agent)
        network: Any = ActorNetwork.create(sizes, width, depth, own)
        return network, optax.adam(0.0).init(network)  # the rate plays no part in moments

    agents = jnp.zeros(sizes.agents, int) if shared else jnp.arange(sizes.agents)
    return jax.vmap(lambda t: jax.vmap(one, (None, 0))(t, agents))(trials)


@eqx.filter_jit
def magnitudes(models: Any, shift: Array, scale: Array, data: Data) -> Array:
    """(trials, agents): mean |Q| over all rows."""
    found = predict(models, data.rows) * scale[..., None] + shift[..., None]
    counted = jnp.arange(found.shape[-1]) < data.total
    return jnp.where(counted, jnp.abs(found), 0.0).sum(-1) / data.total


@eqx.filter_jit
def everywhere(networks: ActorNetwork, sizes: Sizes) -> Float[Array, "trials agents situations"]:
    """What all actors do in all situations."""
    seen = jnp.asarray(situations(sizes))
    return jax.vmap(jax.vmap(lambda network: network(seen)))(networks)


def climb(networks: Any, moments: Any, slope: Array, method: TD3BC, sizes: Sizes) -> Any:
    """One step of Adam up the slope (trials, agents, situations) of what actors do."""
    seen = jnp.asarray(situations(sizes))

    def update(network: Any, moments: Any, slope: Array) -> Any:
        _, back = jax.vjp(lambda n: n(seen), network)
        (gradient,) = back(-slope)  # optimisers descend
        updates, moments = optax.adam(method.learning_rate).update(gradient, moments)
        return eqx.apply_updates(network, updates), moments

    return jax.vmap(jax.vmap(update))(networks, moments, slope)


@eqx.filter_jit(donate="all-except-first")
def advance(
    given: tuple[Frozen, Data, jax.Array, Array, Array],
    state: Ascent,
    method: TD3BC,
    sizes: Sizes,
) -> Ascent:
    """Steps of all actors at once, until so many; given are critics, rows, key, alpha, steps."""
    critics, data, key, alpha, until = given

    def one(state: Ascent) -> Ascent:
        networks, moments, step = state.networks, state.moments, state.step
        draw = jax.random.fold_in(key, step)
        slope = _slopes(everywhere(networks, sizes), critics, data, draw, alpha, method)
        networks, moments = climb(networks, moments, slope, method, sizes)
        return Ascent(networks, moments, step + 1)

    return jax.lax.while_loop(lambda s: s.step < until, one, state)


def _slopes(
    policies: Float[Array, "trials agents contexts"],
    critics: Frozen,
    data: Data,
    key: jax.Array,
    alpha: Array,
    method: TD3BC,
) -> Float[Array, "trials agents contexts"]:
    """How the objective of each agent changes with what it does in each context.

    A mean over a batch of rows, computed by contexts: with the others' current actions the rows
    of one context differ in the log's own action alone, which enters linearly.
    """
    _, agents, contexts = policies.shape
    index = jax.random.randint(key, (method.batch,), 0, data.total)
    rows = jax.tree.map(lambda x: x[:, index], data.rows)  # trials, batch, ...
    member = jax.nn.one_hot(rows.contexts, contexts)  # trials, batch, contexts
    share = member.mean(1)
    logged = jnp.einsum("tbn,tbc->tnc", rows.actions, member) / method.batch
    pull = 2.0 * (share[:, None] * policies - logged)

    if method.others == "current" and contexts <= method.batch:
        looked_at = _of_contexts(policies)
        weight = share
    elif method.others == "current":
        acted = jnp.take_along_axis(policies, rows.contexts[:, None], 2)  # trials, agents, batch
        looked_at = eqx.tree_at(lambda r: r.actions, rows, jnp.moveaxis(acted, 1, 2))
        weight = jnp.full(rows.contexts.shape, 1.0 / method.batch)
    else:
        looked_at = rows
        weight = jnp.full(rows.contexts.shape, 1.0 / method.batch)

    def worth(
        policy: Array, model: Any, rows: Rows, weight: Array, agent: Array
    ) -> tuple[Array, Array]:
        own = policy[rows.contexts]
        actions = rows.actions.at[:, agent].set(own)
        values = model(eqx.tree_at(lambda r: r.actions, rows, actions))
        return (weight * values).sum(), values

    def both(own: Any, trial: Any, agent: Array) -> Any:
        policy, model = own
        rows, weight = trial
        return jax.value_and_grad(worth, has_aux=True)(policy, model, rows, weight, agent)

    # Few rows are best looked at by all agents at once, on a CPU too.
    each = over_agents(both, side_by_side() or weight.shape[1] <= _FEW)
    (_, values), slope = each((policies, critics.models), (looked_at, weight), jnp.arange(agents))
    if method.normaliser == "policy":
        rewards = values * critics.scale[..., None] + critics.shift[..., None]
        normaliser = (jnp.abs(rewards) * weight[:, None]).sum(-1)
    else:
        normaliser = critics.magnitude
    gain = alpha * critics.scale / jnp.maximum(normaliser, 1e-8)
    return gain[..., None] * slope - pull


def _of_contexts(policies: Float[Array, "trials agents contexts"]) -> Rows:
    """A row for every context, in which all do what they currently do."""
    trials, agents, contexts = policies.shape
    zeros = jnp.zeros((trials, contexts), jnp.int32)
    return Rows(
        jnp.moveaxis(policies, 1, 2),
        zeros + jnp.arange(contexts, dtype=jnp.int32),
        zeros,
        jnp.zeros((trials, contexts, agents), jnp.int32),
    )
