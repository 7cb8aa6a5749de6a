"""Actors with local states: networks of the critics' kind learn returns while actors improve.

TD3 for every agent: two networks, targets that follow slowly, the smaller of the two target
values at a smoothed next action. Rewards come from the log, divided by each agent's scale; the
finite horizon ends the sums.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from equipoise.offline.deep import _ascent
from equipoise.offline.deep._actors import ActorNetwork
from equipoise.offline.deep._critics import Critics
from equipoise.offline.deep._mapping import over_agents, side_by_side
from equipoise.offline.deep._methods import TD3BC
from equipoise.offline.deep._rows import Data, Rows, Sizes


class Returns(eqx.Module):
    """Where actors and their twin networks stand; axes (trials, agents)."""

    networks: ActorNetwork
    moments: Any
    actor_targets: ActorNetwork
    #: Pairs of `TermNetworks`.
    twins: tuple[Any, Any]
    twin_moments: tuple[Any, Any]
    twin_targets: tuple[Any, Any]
    #: (trials, agents): what rewards are divided by.
    scale: Float[Array, "trials agents"]
    step: Int[Array, ""]


def start(method: TD3BC, critics: Critics, key: jax.Array) -> Returns:
    """Twins begin as the critics of rewards are; the second a little off, to be another."""
    actors = _ascent.start(method, critics.sizes, critics.trials, key)
    twins = (critics.models, _jitter(critics.models, jax.random.fold_in(key, 1)))
    optimiser = optax.adam(method.critic_learning_rate)
    moments = tuple(
        jax.vmap(jax.vmap(lambda w: optimiser.init(w)))(eqx.filter(t, eqx.is_inexact_array))
        for t in twins
    )
    # Every leaf has a buffer of its own, as all of them are donated to `advance`.
    copy = jax.tree.map(jnp.copy, (actors.networks, twins, twins))
    return Returns(
        actors.networks,
        actors.moments,
        copy[0],
        copy[1],
        (moments[0], moments[1]),
        copy[2],
        jnp.asarray(critics.scale, jnp.float32),
        jnp.int32(0),
    )


def _jitter(models: Any, key: jax.Array) -> Any:
    """Weights that are a tenth of their usual size away."""
    leaves, tree = jax.tree.flatten(models)
    moved = []
    for n, leaf in enumerate(leaves):
        if eqx.is_inexact_array(leaf):
            noise = jax.random.normal(jax.random.fold_in(key, n), leaf.shape)
            leaf = leaf + 0.1 * leaf.std() * noise
        moved.append(leaf)
    return jax.tree.unflatten(tree, moved)


@eqx.filter_jit(donate="all-except-first")
def advance(
    given: tuple[Data, jax.Array, Array, Array], state: Returns, method: TD3BC, sizes: Sizes
) -> Returns:
    """Steps until so many; given are rows, key, alpha, steps."""
    data, key, alpha, until = given

    def one(state: Returns) -> Returns:
        draw, noise = jax.random.split(jax.random.fold_in(key, state.step))
        index = jax.random.randint(draw, (method.batch,), 0, data.total)
        rows, following = (
            jax.tree.map(lambda x: x[:, index], part) for part in (data.rows, _following(data))
        )
        rewards = jnp.moveaxis(data.rewards[:, index], 2, 1) / state.scale[..., None]
        goals = _goals(state, rows, following, rewards, noise, method, sizes)
        twins, moments = _fit_step(state, rows, goals, method)
        state = eqx.tree_at(lambda s: (s.twins, s.twin_moments), state, (twins, moments))
        return jax.lax.cond(
            state.step % method.policy_freq == method.policy_freq - 1,
            lambda s: _actor_step(s, rows, alpha, method, sizes),
            lambda s: eqx.tree_at(lambda t: t.step, s, s.step + 1),
            state,
        )

    dynamic, static = eqx.partition(state, eqx.is_array)

    def body(dynamic: Any) -> Any:
        return eqx.filter(one(eqx.combine(dynamic, static)), eqx.is_array)

    dynamic = jax.lax.while_loop(lambda s: s.step < until, body, dynamic)
    return eqx.combine(dynamic, static)


def _following(data: Data) -> Rows:
    """Where the rows lead; actions are filled in by the targets."""
    return Rows(data.rows.actions, data.rows.contexts, data.rows.steps + 1, data.next_states)


def _act(networks: ActorNetwork, rows: Rows, sizes: Sizes) -> Float[Array, "trials B agents"]:
    """What actors do in the situations of rows."""
    table = _ascent.everywhere(networks, sizes)  # trials, agents, situations
    return jax.vmap(_look_up, (0, 0, None))(table, rows, sizes)


def _look_up(table: Array, rows: Rows, sizes: Sizes) -> Array:
    step = jnp.minimum(rows.steps, sizes.horizon - 1)
    situation = (rows.contexts * sizes.horizon + step)[:, None] * sizes.states + rows.states
    return table[jnp.arange(sizes.agents), situation]


def _goals(
    state: Returns,
    rows: Rows,
    following: Rows,
    rewards: Float[Array, "trials agents B"],
    key: jax.Array,
    method: TD3BC,
    sizes: Sizes,
) -> Float[Array, "trials agents B"]:
    """What the twins should say: the reward, and the smaller of what is said of what follows."""
    actions = _act(state.actor_targets, following, sizes)
    noise = method.policy_noise * jax.random.normal(key, actions.shape)
    noise = jnp.clip(noise, -method.noise_clip, method.noise_clip)
    actions = jnp.clip(actions + noise, -1.0, 1.0)
    step = jnp.minimum(following.steps, sizes.horizon - 1)
    following = Rows(actions, following.contexts, step, following.states)

    def lower(models: Any, rows: Rows, _: Array) -> Array:
        return jnp.minimum(models[0](rows), models[1](rows))

    each = over_agents(lower, side_by_side())
    ahead = each(state.twin_targets, following, jnp.arange(sizes.agents))
    more = (rows.steps < sizes.horizon - 1).astype(ahead.dtype)
    return rewards + method.discount * more[:, None] * ahead


def _fit_step(state: Returns, rows: Rows, goals: Array, method: TD3BC) -> Any:
    """One step of least squares for both twins of every agent."""
    optimiser = optax.adam(method.critic_learning_rate)

    def one(own: Any, rows: Rows, _: Array) -> Any:
        model, moments, goal = own
        weights, rest = eqx.partition(model, eqx.is_inexact_array)

        def error(weights: Any) -> Array:
            return ((eqx.combine(weights, rest)(rows) - goal) ** 2).mean()

        updates, moments = optimiser.update(jax.grad(error)(weights), moments, weights)
        return eqx.combine(eqx.apply_updates(weights, updates), rest), moments

    each = over_agents(one, side_by_side())
    agents = jnp.arange(goals.shape[1])
    moved = [
        each((twin, moments, goals), rows, agents)
        for twin, moments in zip(state.twins, state.twin_moments, strict=True)
    ]
    return tuple(m[0] for m in moved), tuple(m[1] for m in moved)


def _actor_step(state: Returns, rows: Rows, alpha: Array, method: TD3BC, sizes: Sizes) -> Returns:
    """One step of every actor, and of everything that follows slowly."""
    acted = _act(state.networks, rows, sizes)
    looked_at = acted if method.others == "current" else rows.actions
    table = _ascent.everywhere(state.networks, sizes)

    def slope_of(own: Any, trial: Any, agent: Array) -> Array:
        table, model = own
        rows, looked_at = trial

        def objective(table: Array) -> Array:
            mine = _own_actions(table, rows, sizes, agent)
            actions = looked_at.at[:, agent].set(mine)
            values = model(eqx.tree_at(lambda r: r.actions, rows, actions))
            said = values if method.normaliser == "policy" else model(rows)
            normaliser = jnp.maximum(jnp.abs(jax.lax.stop_gradient(said)).mean(), 1e-8)
            pull = ((mine - rows.actions[:, agent]) ** 2).mean()
            return alpha * values.mean() / normaliser - pull

        return jax.grad(objective)(table)

    each = over_agents(slope_of, side_by_side())
    slope = each((table, state.twins[0]), (rows, looked_at), jnp.arange(sizes.agents))
    networks, moments = _ascent.climb(state.networks, state.moments, slope, method, sizes)

    def follow(old: Any, new: Any) -> Any:
        return old + method.tau * (new - old) if eqx.is_inexact_array(old) else old

    return Returns(
        networks,
        moments,
        jax.tree.map(follow, state.actor_targets, networks),
        state.twins,
        state.twin_moments,
        jax.tree.map(follow, state.twin_targets, state.twins),
        state.scale,
        state.step + 1,
    )


def _own_actions(table: Array, rows: Rows, sizes: Sizes, agent: Array) -> Float[Array, "B"]:
    situation = (rows.contexts * sizes.horizon + rows.steps) * sizes.states
    return table[situation + rows.states[:, agent]]
