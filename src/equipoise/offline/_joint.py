"""Joint critics: rewards as functions of everybody's moves at once, to compare with.

A table has an entry for every joint move; a network takes everybody's moves, one-hot. Neither
assumes anything, and both need what that costs. Contextual games only.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from equipoise.core import checks
from equipoise.core.precision import single_precision
from equipoise.core.randomness import as_key
from equipoise.games import ContextualGame, Interactions
from equipoise.offline._coverage import behaviour_of, count_actions
from equipoise.offline._critics import Critic, Policy
from equipoise.offline._log import Log
from equipoise.offline._model import Model

#: A table is made where it has at most this many entries for each row of the log.
TABLE_ENTRIES_PER_ROW = 0.5
#: Rows that an entry of the table counts as seen at the mean of its context.
TABLE_PRIOR = 1.0
HELD_OUT = 0.1


class JointNetwork(eqx.Module):
    """A network of two hidden layers from (situation, joint move) to everybody's reward."""

    context: Float[Array, "situations width"]
    moves: Float[Array, "agents moves width"]
    bias: Float[Array, "width"]
    hidden: Float[Array, "width width"]
    hidden_bias: Float[Array, "width"]
    output: Float[Array, "width agents"]
    output_bias: Float[Array, "agents"]

    @classmethod
    def create(
        cls, situations: int, agents: int, moves: int, width: int, key: jax.Array
    ) -> "JointNetwork":
        """Random weights of the usual size for rectified units."""
        keys = jax.random.split(key, 4)
        first = jnp.sqrt(2.0 / (agents + 1))
        return cls(
            jax.random.normal(keys[0], (situations, width)) * first,
            jax.random.normal(keys[1], (agents, moves, width)) * first,
            jnp.zeros(width),
            jax.random.normal(keys[2], (width, width)) * jnp.sqrt(2.0 / width),
            jnp.zeros(width),
            jax.random.normal(keys[3], (width, agents)) * jnp.sqrt(1.0 / width),
            jnp.zeros(agents),
        )

    def first_layer(self, situations: Int[Array, "*B"], moves: Int[Array, "*B agents"]) -> Array:
        """(*B, width) before the first rectification: a sum of rows, since inputs are one-hot."""
        everybody = jnp.arange(moves.shape[-1])
        return self.bias + self.context[situations] + self.moves[everybody, moves].sum(-2)

    def rest(self, first: Float[Array, "*B width"]) -> Float[Array, "*B width"]:
        """From the first layer to the last hidden units."""
        return jax.nn.relu(jax.nn.relu(first) @ self.hidden + self.hidden_bias)

    def __call__(self, situations: Int[Array, "*B"], moves: Int[Array, "*B agents"]) -> Array:
        """(*B, agents) rewards."""
        return self.rest(self.first_layer(situations, moves)) @ self.output + self.output_bias


class SampledCritic(Critic):
    """Expected rewards of a joint network: others' actions drawn, own actions all tried.

    Where the own action is exchanged, the first layer changes by one row: the rest is evaluated
    anew.
    """

    network: JointNetwork
    simulations: int = eqx.field(static=True)

    def __call__(self, policy: Policy, key: jax.Array) -> Policy:
        """Estimates for every own action, from the same draws of the others."""
        contexts, _, agents, _, actions = policy.shape
        flat = policy[:, 0, :, 0].astype(jnp.float32)
        uniforms = jax.random.uniform(key, (self.simulations, *flat.shape[:2]), jnp.float32)
        joint = (uniforms[..., None] >= jnp.cumsum(flat, -1)[..., :-1]).sum(-1)
        situations = jnp.broadcast_to(jnp.arange(contexts), joint.shape[:2])
        base = self.network.first_layer(situations, joint)

        def one(i: Array) -> Array:
            rows = self.network.moves[i]
            without = base - rows[joint[:, :, i]]
            hidden = self.network.rest(without[None] + rows[:, None, None])
            values = hidden @ self.network.output[:, i] + self.network.output_bias[i]
            return values.mean(1)

        found = jax.lax.map(one, jnp.arange(agents))  # (agents, actions, contexts)
        return found.transpose(2, 0, 1)[:, None, :, None, :actions].astype(policy.dtype)


def fit_joint(
    log: Log | list[Log],
    *,
    kind: str = "auto",
    width: int = 128,
    epochs: int = 200,
    patience: int = 20,
    batch: int = 256,
    learning_rate: float = 1e-3,
    key: Any = 0,
) -> Model:
    """A table or a network of all moves, as a model."""
    if not isinstance(log, Log):
        raise ValueError("log: expected one log for a joint critic, found pieces")
    if log.states is not None:
        raise ValueError("log: expected no local states for a joint critic, found some")
    if kind not in ("auto", "table", "mlp"):
        raise ValueError(f"kind: expected 'auto', 'table' or 'mlp', found {kind!r}")
    moves = max(log.actions_per_agent)
    entries = float(log.contexts_count) * float(moves) ** log.agents
    if kind == "auto":
        kind = "table" if entries <= TABLE_ENTRIES_PER_ROW * log.samples else "mlp"
    if kind == "table":
        game, per_entry = _table_game(log, moves), log.samples / entries
        network = None
    else:
        settings = {
            "epochs": checks.check_count("epochs", epochs),
            "patience": checks.check_count("patience", patience),
            "batch": checks.check_count("batch", batch),
            "learning_rate": learning_rate,
        }
        network = _train(log, moves, checks.check_count("width", width), as_key(key), **settings)
        game, per_entry = None, float("nan")
    counts = count_actions(log)
    contexts = np.bincount(log.contexts, minlength=log.contexts_count) / log.samples
    everybody = range(log.agents)
    return Model(
        game=game,
        rank="joint",
        interactions=None,
        behaviour=behaviour_of(log, counts),
        samples=log.samples,
        samples_per_parameter=per_entry,
        noise=np.full(log.agents, np.nan),
        reward_scale=float(log.rewards.std(0).max()),
        ridge={},
        neighbours=tuple(tuple(j for j in everybody if j != i) for i in everybody),
        counts=counts,
        context_probabilities=contexts,
        rewards=network,
    )


def joint_table(log: Log, moves: int) -> np.ndarray:
    """(contexts, moves^agents, agents): mean rewards, drawn to the mean of their context."""
    code = log.contexts.astype(np.int64)
    for i in range(log.agents):
        code = code * moves + log.actions[:, i]
    size = log.contexts_count * moves**log.agents
    counts = np.bincount(code, minlength=size).reshape(log.contexts_count, -1, 1)
    sums = np.stack(
        [np.bincount(code, weights=log.rewards[:, i], minlength=size) for i in range(log.agents)],
        -1,
    ).reshape(log.contexts_count, -1, log.agents)
    means = sums.sum(1, keepdims=True) / np.maximum(counts.sum(1, keepdims=True), 1)
    return (sums + TABLE_PRIOR * means) / (counts + TABLE_PRIOR)


def _table_game(log: Log, moves: int) -> ContextualGame:
    table = joint_table(log, moves)
    dense = np.moveaxis(table, -1, 1)
    dense = dense.reshape(log.contexts_count, log.agents, *[moves] * log.agents)
    chances = np.bincount(log.contexts, minlength=log.contexts_count) / log.samples
    terms = Interactions.from_dense(dense)
    return ContextualGame(terms, chances, log.actions_per_agent, labels=log.labels)


def _train(
    log: Log,
    moves: int,
    width: int,
    key: jax.Array,
    *,
    epochs: int,
    patience: int,
    batch: int,
    learning_rate: float,
) -> JointNetwork:
    """Least squares by Adam with weight decay, stopped by a tenth of the rows held out."""
    with single_precision():
        start, shuffle = jax.random.split(key)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(shuffle)))
        order = rng.permutation(log.samples)
        held, used = np.split(order, [max(1, int(HELD_OUT * log.samples))])
        mean = log.rewards.mean(0, dtype=np.float64)
        scale = np.maximum(log.rewards.std(0, dtype=np.float64), 1e-12)
        data = (
            jnp.asarray(log.contexts, jnp.int32),
            jnp.asarray(log.actions, jnp.int32),
            jnp.asarray((log.rewards - mean) / scale, jnp.float32),
        )
        network = JointNetwork.create(log.contexts_count, log.agents, moves, width, start)
        optimiser = optax.adamw(learning_rate, weight_decay=1e-3)
        state = optimiser.init(eqx.filter(network, eqx.is_array))
        batch = min(batch, len(used))
        best, best_error, waited = network, np.inf, 0
        for _ in range(epochs):
            rows = rng.permutation(used)[: len(used) // batch * batch].reshape(-1, batch)
            network, state = _epoch(network, state, data, jnp.asarray(rows), optimiser)
            error = float(_error(network, *(x[held] for x in data)))
            best, best_error, waited = (
                (network, error, 0) if error < best_error else (best, best_error, waited + 1)
            )
            if waited >= patience:
                break
        return eqx.tree_at(
            lambda n: (n.output, n.output_bias),
            best,
            (
                best.output * scale.astype("f4"),
                best.output_bias * scale.astype("f4") + mean.astype("f4"),
            ),
        )


def _error(network: JointNetwork, situations: Array, moves: Array, rewards: Array) -> Array:
    return ((network(situations, moves) - rewards) ** 2).mean()


@eqx.filter_jit
def _epoch(network: Any, state: Any, data: Any, rows: Array, optimiser: Any) -> tuple[Any, Any]:
    def one(carry: Any, batch: Array) -> Any:
        network, state = carry
        gradient = jax.grad(_error)(network, *(x[batch] for x in data))
        updates, state = optimiser.update(gradient, state, network)
        return (eqx.apply_updates(network, updates), state), None

    return jax.lax.scan(one, (network, state), rows)[0]
