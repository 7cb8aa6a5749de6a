"""Steps of actors, against fixed critics or against networks that learn returns at the same time.

Without local states the reward is the whole return, and the critics stay as fitted. With local
states, networks of the critics' kind learn returns while the actors improve (`Returns`): TD3 for
every agent, with two networks, slowly updated targets, and the smaller of the two target values at
a smoothed next action. Rewards come from the log and are divided by each agent's scale. The sums
end at the finite horizon.
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

#: Up to this many rows, a CPU evaluates the critics of all agents at once.
_FEW = 4


class Ascent(eqx.Module):
    """State of actors; all arrays except the number of steps have axes (trials, agents)."""

    networks: ActorNetwork
    moments: Any
    step: Int[Array, ""]


class Frozen(eqx.Module):
    """Fixed critics, as fitted."""

    models: Any
    #: (trials, agents): a reward is `scale * output + shift`.
    shift: Float[Array, "trials agents"]
    scale: Float[Array, "trials agents"]
    #: (trials, agents): mean of |Q| over the rows of the log.
    magnitude: Float[Array, "trials agents"]


@eqx.filter_jit
def start(method: TD3BC, sizes: Sizes, trials: int, key: jax.Array) -> Ascent:
    """Random actors."""

    def one(trial: Array, agent: Array) -> tuple[ActorNetwork, Any]:
        own = jax.random.fold_in(jax.random.fold_in(key, trial), agent)
        network: Any = ActorNetwork.create(sizes, method.width, method.depth, own)
        return network, optax.adam(0.0).init(network)  # moments do not depend on the rate

    agents = jnp.zeros(sizes.agents, int) if method.shared_start else jnp.arange(sizes.agents)
    both = jax.vmap(lambda t: jax.vmap(one, (None, 0))(t, agents))(jnp.arange(trials))
    return Ascent(*both, jnp.int32(0))


def freeze(critics: Critics, data: Data) -> Frozen:
    """Put critics on the device, with the mean of |Q| over the log's own actions."""
    shift, scale = (jnp.asarray(x, jnp.float32) for x in (critics.shift, critics.scale))
    return Frozen(critics.models, shift, scale, _magnitudes(critics.models, shift, scale, data))


@eqx.filter_jit
def _magnitudes(models: Any, shift: Array, scale: Array, data: Data) -> Array:
    """(trials, agents): mean of |Q| over all rows."""
    found = predict(models, data.rows) * scale[..., None] + shift[..., None]
    counted = jnp.arange(found.shape[-1]) < data.total
    return jnp.where(counted, jnp.abs(found), 0.0).sum(-1) / data.total


@eqx.filter_jit
def everywhere(networks: ActorNetwork, sizes: Sizes) -> Float[Array, "trials agents situations"]:
    """Actions of all actors in all situations."""
    seen = jnp.asarray(situations(sizes))
    return jax.vmap(jax.vmap(lambda network: network(seen)))(networks)


def climb(networks: Any, moments: Any, slope: Array, method: TD3BC, sizes: Sizes) -> Any:
    """One Adam step along the gradient `slope` (trials, agents, situations) in the actions."""
    seen = jnp.asarray(situations(sizes))

    def update(network: Any, moments: Any, slope: Array) -> Any:
        _, back = jax.vjp(lambda n: n(seen), network)
        (gradient,) = back(-slope)  # optimisers descend
        updates, moments = optax.adam(method.learning_rate).update(gradient, moments)
        return eqx.apply_updates(network, updates), moments

    return jax.vmap(jax.vmap(update))(networks, moments, slope)


@eqx.filter_jit(donate="all-except-first")
def advance(
    given: tuple[Frozen, Data, jax.Array, Array, Array], state: Ascent, method: TD3BC, sizes: Sizes
) -> Ascent:
    """Advance all actors to the given step; `given` is critics, rows, key, alpha, last step."""
    critics, data, key, alpha, until = given

    def one(state: Ascent) -> Ascent:
        draw, policies = jax.random.fold_in(key, state.step), everywhere(state.networks, sizes)
        slope = _slopes(policies, critics, data, draw, alpha, method)
        networks, moments = climb(state.networks, state.moments, slope, method, sizes)
        return Ascent(networks, moments, state.step + 1)

    return jax.lax.while_loop(lambda s: s.step < until, one, state)


def _slopes(
    policies: Float[Array, "trials agents contexts"],
    critics: Frozen,
    data: Data,
    key: jax.Array,
    alpha: Array,
    method: TD3BC,
) -> Float[Array, "trials agents contexts"]:
    """Gradient of each agent's objective in its action in each context.

    It is a mean over a batch of rows, computed by context: with the others' current actions, the
    rows of one context differ only in the log's own action, which enters linearly.
    """
    _, agents, contexts = policies.shape
    index = jax.random.randint(key, (method.batch,), 0, data.total)
    rows = jax.tree.map(lambda x: x[:, index], data.rows)  # trials, batch, ...
    member = jax.nn.one_hot(rows.contexts, contexts)  # trials, batch, contexts
    share = member.mean(1)
    logged = jnp.einsum("tbn,tbc->tnc", rows.actions, member) / method.batch
    pull = 2.0 * (share[:, None] * policies - logged)

    looked_at, weight = rows, jnp.full(rows.contexts.shape, 1.0 / method.batch)
    if method.others == "current" and contexts <= method.batch:
        # One row per context, with the current actions of all agents.
        where = jnp.broadcast_to(jnp.arange(contexts), share.shape)
        looked_at, weight = Rows.without_states(jnp.moveaxis(policies, 1, 2), where), share
    elif method.others == "current":
        acted = jnp.take_along_axis(policies, rows.contexts[:, None], 2)  # trials, agents, batch
        looked_at = eqx.tree_at(lambda r: r.actions, rows, jnp.moveaxis(acted, 1, 2))

    def worth(
        policy: Array, model: Any, rows: Rows, weight: Array, agent: Array
    ) -> tuple[Array, Array]:
        actions = rows.actions.at[:, agent].set(policy[rows.contexts])
        values = model(eqx.tree_at(lambda r: r.actions, rows, actions))
        return (weight * values).sum(), values

    def both(own: Any, trial: Any, agent: Array) -> Any:
        return jax.value_and_grad(worth, has_aux=True)(*own, *trial, agent)

    # With few rows, evaluating all agents at once is fastest, on a CPU too.
    each = over_agents(both, side_by_side() or weight.shape[1] <= _FEW)
    (_, values), slope = each((policies, critics.models), (looked_at, weight), jnp.arange(agents))
    normaliser = critics.magnitude
    if method.normaliser == "policy":
        rewards = values * critics.scale[..., None] + critics.shift[..., None]
        normaliser = (jnp.abs(rewards) * weight[:, None]).sum(-1)
    gain = alpha * critics.scale / jnp.maximum(normaliser, 1e-8)
    return gain[..., None] * slope - pull


class Returns(eqx.Module):
    """State of actors and their twin networks; axes (trials, agents)."""

    networks: ActorNetwork
    moments: Any
    actor_targets: ActorNetwork
    #: Pairs of `TermNetworks`.
    twins: tuple[Any, Any]
    twin_moments: tuple[Any, Any]
    twin_targets: tuple[Any, Any]
    #: (trials, agents): scale that rewards are divided by.
    scale: Float[Array, "trials agents"]
    step: Int[Array, ""]


def start_returns(method: TD3BC, critics: Critics, key: jax.Array) -> Returns:
    """Start both twins from the critics of rewards; perturb the second, so that they differ."""
    actors = start(method, critics.sizes, critics.trials, key)
    twins = (critics.models, _jitter(critics.models, jax.random.fold_in(key, 1)))
    begin = jax.vmap(jax.vmap(lambda weights: optax.adam(0.0).init(weights)))
    first, second = (begin(eqx.filter(twin, eqx.is_inexact_array)) for twin in twins)
    # Every leaf needs its own buffer, since all of them are donated to `advance_returns`.
    targets, twins, slow = jax.tree.map(jnp.copy, (actors.networks, twins, twins))
    return Returns(
        networks=actors.networks,
        moments=actors.moments,
        actor_targets=targets,
        twins=twins,
        twin_moments=(first, second),
        twin_targets=slow,
        scale=jnp.asarray(critics.scale, jnp.float32),
        step=jnp.int32(0),
    )


def _jitter(models: Any, key: jax.Array) -> Any:
    """Perturb weights by a tenth of their usual size."""
    leaves, tree = jax.tree.flatten(models)
    for n, leaf in enumerate(leaves):
        if eqx.is_inexact_array(leaf):
            noise = jax.random.normal(jax.random.fold_in(key, n), leaf.shape)
            leaves[n] = leaf + 0.1 * leaf.std() * noise
    return jax.tree.unflatten(tree, leaves)


@eqx.filter_jit(donate="all-except-first")
def advance_returns(
    given: tuple[Data, jax.Array, Array, Array], state: Returns, method: TD3BC, sizes: Sizes
) -> Returns:
    """Advance to the given step; `given` is rows, key, alpha, last step."""
    data, key, alpha, until = given

    def one(state: Returns) -> Returns:
        draw, noise = jax.random.split(jax.random.fold_in(key, state.step))
        index = jax.random.randint(draw, (method.batch,), 0, data.total)
        rows = jax.tree.map(lambda x: x[:, index], data.rows)
        rewards = jnp.moveaxis(data.rewards[:, index], 2, 1) / state.scale[..., None]
        goals = rewards + _ahead(state, rows, data.next_states[:, index], noise, method, sizes)
        moved = _fit_step(state, rows, goals, method)
        state = eqx.tree_at(lambda s: (s.twins, s.twin_moments), state, moved)
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


def _places(rows: Rows, sizes: Sizes) -> Int[Array, "*B agents"]:
    """Number of the situation of each agent."""
    return (rows.contexts * sizes.horizon + rows.steps)[..., None] * sizes.states + rows.states


def _act(networks: ActorNetwork, rows: Rows, sizes: Sizes) -> Float[Array, "trials B agents"]:
    """Actions of the actors in the situations of rows."""
    table = jnp.moveaxis(everywhere(networks, sizes), 1, 2)  # trials, situations, agents
    return jnp.take_along_axis(table, _places(rows, sizes), 1)


def _ahead(
    state: Returns, rows: Rows, states: Array, key: jax.Array, method: TD3BC, sizes: Sizes
) -> Float[Array, "trials agents B"]:
    """Smaller of the two target twins' values of the next step, at smoothed next actions."""
    steps = jnp.minimum(rows.steps + 1, sizes.horizon - 1)
    following = Rows(rows.actions, rows.contexts, steps, states)
    actions = _act(state.actor_targets, following, sizes)
    noise = method.policy_noise * jax.random.normal(key, actions.shape)
    noise = jnp.clip(noise, -method.noise_clip, method.noise_clip)
    actions = jnp.clip(actions + noise, -1.0, 1.0)
    following = eqx.tree_at(lambda r: r.actions, following, actions)

    def lower(models: Any, rows: Rows, _: Array) -> Array:
        return jnp.minimum(models[0](rows), models[1](rows))

    each = over_agents(lower, side_by_side())
    ahead = each(state.twin_targets, following, jnp.arange(sizes.agents))
    more = (rows.steps < sizes.horizon - 1).astype(ahead.dtype)
    return method.discount * more[:, None] * ahead


def _fit_step(state: Returns, rows: Rows, goals: Array, method: TD3BC) -> Any:
    """One least-squares step for both twins of every agent."""
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
    """One step of every actor and of all slowly updated targets."""
    current = method.others == "current"
    looked_at = _act(state.networks, rows, sizes) if current else rows.actions
    table = everywhere(state.networks, sizes)

    def slope_of(own: Any, trial: Any, agent: Array) -> Array:
        table, model = own
        rows, looked_at = trial

        def objective(table: Array) -> Array:
            mine = table[_places(rows, sizes)[:, agent]]
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

    targets = jax.tree.map(follow, state.actor_targets, networks)
    slow = jax.tree.map(follow, state.twin_targets, state.twins)
    return Returns(
        *(networks, moments, targets, state.twins, state.twin_moments, slow),
        *(state.scale, state.step + 1),
    )
