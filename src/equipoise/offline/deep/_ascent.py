"""Steps of actors: against fixed critics, or against networks that learn returns meanwhile.

Without local states a reward is all there is to come, and the critics stay as they were fitted.
With them, networks of the critics' kind learn returns while the actors improve (`Returns`): TD3
for every agent, with two networks, targets that follow slowly, and the smaller of the two target
values at a smoothed next action. Rewards come from the log, divided by each agent's scale; the
finite horizon ends the sums.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from equipoise.offline.deep._actors import ActorNetwork, situations
from equipoise.offline.deep._critics import Critics, predict
from equipoise.offline.deep._rows import Data, Rows, Sizes, over_agents, side_by_side
from equipoise.offline.deep._spec import TD3BC

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


def start_returns(method: TD3BC, critics: Critics, key: jax.Array) -> Returns:
    """Twins begin as the critics of rewards are; the second a little off, to be another."""
    actors = start(method, critics.sizes, critics.trials, key)
    twins = (critics.models, _jitter(critics.models, jax.random.fold_in(key, 1)))
    optimiser = optax.adam(method.critic_learning_rate)
    moments = tuple(
        jax.vmap(jax.vmap(lambda w: optimiser.init(w)))(eqx.filter(t, eqx.is_inexact_array))
        for t in twins
    )
    # Every leaf has a buffer of its own, as all of them are donated to `advance_returns`.
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
def advance_returns(
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
    table = everywhere(networks, sizes)  # trials, agents, situations
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
    table = everywhere(state.networks, sizes)

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
    networks, moments = climb(state.networks, state.moments, slope, method, sizes)

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
