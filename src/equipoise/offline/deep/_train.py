"""Least squares for all agents of all trials in one compiled program, each stopped by its own.

Training goes on in rounds: an epoch, or a single step where patience is counted in steps. After
every round the rows held out are predicted; the weights that did best are kept.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from equipoise.offline.deep._networks import TermNetworks
from equipoise.offline.deep._rows import Data, Rows, over_agents
from equipoise.offline.deep._spec import Critic


class Learner(eqx.Module):
    """Where the critic of one agent stands; axes (trials, agents) come before those named."""

    #: The numbers of a `TermNetworks`; everything else is None.
    weights: Any
    moments: Any
    best: Any
    #: Held-out loss of `best`, and the round it is of.
    loss: Float[Array, "*axes"]
    best_round: Int[Array, "*axes"]
    #: Rounds since then, and rounds in all.
    stale: Int[Array, "*axes"]
    round: Int[Array, "*axes"]


def start(networks: TermNetworks) -> Learner:
    """Before the first round; `networks` has axes (trials, agents)."""
    weights, _ = eqx.partition(networks, eqx.is_inexact_array)
    shape = networks.weights[0].shape[:2]

    moments = _first_moments(weights)
    # Every leaf has a buffer of its own, as all of them are donated to `advance`.
    weights, best = jax.tree.map(jnp.copy, weights), jax.tree.map(jnp.copy, weights)
    zeros = [jnp.zeros(shape, jnp.int32) for _ in range(3)]
    return Learner(weights, moments, best, jnp.full(shape, jnp.inf), *zeros)


@eqx.filter_jit
def _first_moments(weights: Any) -> Any:
    return jax.vmap(jax.vmap(optax.adam(0.0).init))(weights)


def rounds_in_all(critic: Critic, data: Data) -> int:
    """After how many rounds training ends at the latest."""
    steps = steps_per_epoch(critic, int(data.trained))
    return critic.epochs * (steps if critic.patience_unit == "steps" else 1)


def steps_per_epoch(critic: Critic, rows: int) -> int:
    """Whole batches in an epoch, but at least one."""
    return max(1, rows // critic.batch)


class Rule(eqx.Module):
    """How training goes on and when it ends; numbers, so that one program serves many."""

    learning_rate: Float[Array, ""]
    patience: Int[Array, ""]
    #: Rounds that are not to be exceeded.
    until: Int[Array, ""]
    batch: int = eqx.field(static=True)
    by_step: bool = eqx.field(static=True)

    @classmethod
    def of(cls, critic: Critic, until: int) -> "Rule":
        """That of a critic."""
        return cls(
            jnp.float32(critic.learning_rate),
            jnp.int32(critic.patience),
            jnp.int32(until),
            critic.batch,
            critic.patience_unit == "steps",
        )


@eqx.filter_jit(donate="all-except-first")
def advance(
    given: tuple[Any, Data, jax.Array, Rule],
    learners: Learner,
    vectorised: bool,
) -> Learner:
    """Go on until every learner has stopped or made so many rounds; the old learners are used up.

    Given are what the weights are put into (`TermNetworks` of each agent without numbers), the
    rows, the key that shuffles them, and the rule.
    """
    frame, data, key, rule = given
    trials = data.rewards.shape[0]
    keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(trials))
    rewards = jnp.moveaxis(data.rewards, 2, 1)  # trials, agents, rows

    def one(own: Any, trial: Any, frame: Any) -> Learner:
        learner, targets = own
        rows, trial_key = trial
        return _advance_one(
            learner, frame, rows, targets, data.trained, data.total, trial_key, rule
        )

    mapped = over_agents(one, vectorised)
    return mapped((learners, rewards), (data.rows, keys), frame)


def _advance_one(
    learner: Learner,
    frame: Any,
    rows: Rows,
    targets: Float[Array, "rows"],
    trained: Array,
    total: Array,
    key: jax.Array,
    rule: Rule,
) -> Learner:
    capacity = targets.shape[0]
    batch, by_step = min(rule.batch, capacity), rule.by_step
    epoch_steps = jnp.maximum(trained // rule.batch, 1)

    def error(weights: Any, index: Array, counted: Array) -> Array:
        network = eqx.combine(weights, frame)
        wrong = network(rows.take(index)) - targets[index]
        return jnp.where(counted, wrong**2, 0.0).sum()

    def step(number: Array, carry: Any, order: Array) -> Any:
        weights, moments = carry
        index = jax.lax.dynamic_slice(order, (number * batch,), (batch,))
        counted = number * batch + jnp.arange(batch) < trained
        gradient = jax.grad(lambda w: error(w, index, counted) / counted.sum())(weights)
        updates, moments = optax.adam(rule.learning_rate).update(gradient, moments, weights)
        return eqx.apply_updates(weights, updates), moments

    def held_out(weights: Any) -> Array:
        def block(number: Array, sum_so_far: Array) -> Array:
            index = trained + number * batch + jnp.arange(batch)
            safe = jnp.minimum(index, capacity - 1)
            return sum_so_far + error(weights, safe, index < total)

        blocks = (total - trained + batch - 1) // batch
        return jax.lax.fori_loop(0, blocks, block, jnp.zeros(())) / (total - trained)

    def one_round(state: Learner) -> Learner:
        epoch = state.round // epoch_steps if by_step else state.round
        order = _shuffled(jax.random.fold_in(key, epoch), trained, capacity)
        carry = (state.weights, state.moments)
        if by_step:
            weights, moments = step(state.round % epoch_steps, carry, order)
        else:  # as many steps for everybody: nothing to hold back side by side
            weights, moments = jax.lax.fori_loop(
                0, epoch_steps, lambda n, c: step(n, c, order), carry
            )
        loss = held_out(weights)
        better = loss < state.loss
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), weights, state.best)
        after = state.round + 1
        return Learner(
            weights,
            moments,
            best,
            jnp.where(better, loss, state.loss),
            jnp.where(better, after, state.best_round),
            jnp.where(better, 0, state.stale + 1),
            after,
        )

    def goes_on(state: Learner) -> Array:
        return (state.round < rule.until) & (state.stale < rule.patience)

    return jax.lax.while_loop(goes_on, one_round, learner)


def _shuffled(key: jax.Array, trained: Array, capacity: int) -> Int[Array, "capacity"]:
    """A random order of the training rows; all others come after them."""
    chance = jax.random.uniform(key, (capacity,))
    return jnp.argsort(jnp.where(jnp.arange(capacity) < trained, chance, 2.0)).astype(jnp.int32)
