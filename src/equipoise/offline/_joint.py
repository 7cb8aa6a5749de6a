"""Joint critics: rewards as unstructured functions of all agents' moves, for comparison.

A table has an entry for every joint move. Kernel regression measures the similarity of two joint
moves by the number of agents that move alike. A network takes all moves one-hot. None of them
assumes any structure, so all of them need many rows. Contextual games only.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int
from scipy.linalg import solve

from equipoise.core import InputError, checks
from equipoise.core.precision import single_precision
from equipoise.core.randomness import as_key
from equipoise.games import ContextualGame, Interactions
from equipoise.offline._coverage import behaviour_of, count_actions, over_known, sizes_of
from equipoise.offline._log import Log
from equipoise.offline._model import Model
from equipoise.solvers.no_regret import Critic, Dynamics, Policy

#: A table is used if it has at most this many entries per row of the log.
TABLE_ENTRIES_PER_ROW = 0.5
#: Number of pseudo-rows, at the mean of its context, added to each entry of the table.
TABLE_PRIOR = 1.0
HELD_OUT, BATCH = 0.1, 256
#: Kinds of joint critics.
KINDS = ("table", "kernel", "mlp")
#: Largest number of training rows of kernel regression; the distances tried at which similarity
#: falls by a factor e, relative to the distance of two random joint moves; and the penalties
#: tried, relative to the diagonal.
KERNEL_ROWS = 800
KERNEL_WIDTHS, KERNEL_RIDGES = (0.25, 1.0), (0.03, 0.3, 3.0)


class JointNetwork(eqx.Module):
    """A network with two hidden layers from (situation, joint move) to all agents' rewards."""

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
        """Draw random weights with the usual scale for rectified linear units."""
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
        """Apply the remaining hidden layer to the output of the first."""
        return jax.nn.relu(jax.nn.relu(first) @ self.hidden + self.hidden_bias)

    def __call__(self, situations: Int[Array, "*B"], moves: Int[Array, "*B agents"]) -> Array:
        """(*B, agents): rewards."""
        return self.rest(self.first_layer(situations, moves)) @ self.output + self.output_bias


class SampledCritic(Critic):
    """Expected rewards of a joint network: samples of the others' actions, for every own action.

    Replacing the own action changes the first layer by one row; only the later layers are evaluated
    again.
    """

    network: JointNetwork
    simulations: int = eqx.field(static=True)

    def __call__(self, policy: Policy, key: jax.Array) -> Policy:
        """Estimate expected rewards of every own action from the same draws of the others."""
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
    key: Any = 0,
) -> Model:
    """Fit a table or a network of all moves, and return it as a model."""
    if not isinstance(log, Log):
        raise InputError("log", "a single Log for a joint critic", "pieces")
    if log.states is not None:
        raise InputError("log", "no local states for a joint critic", "some")
    kind, network, game = joint_kind(log, kind, "mlp"), None, None
    moves, per_entry = sizes_of(log)[1], float("nan")
    chances = np.bincount(log.contexts, minlength=log.contexts_count) / log.samples
    if kind == "kernel":
        raise InputError("kind", "'table' or 'mlp' for a model", repr(kind))
    if kind == "table":
        table = np.moveaxis(joint_table(log), -1, 1)
        per_entry = log.samples * log.agents / table.size
        dense = table.reshape(log.contexts_count, log.agents, *[moves] * log.agents)
        terms = Interactions.from_dense(dense)
        game = ContextualGame(terms, chances, log.actions_per_agent, labels=log.labels)
    else:
        settings = {"width": width, "epochs": epochs, "patience": patience}
        for name, value in settings.items():
            checks.check_count(name, value)
        network = _train(log, moves, as_key(key), **settings)
    counts = count_actions(log)
    everybody = range(log.agents)
    return Model(
        game=game,
        rank="joint",
        interactions=None,
        behaviour=behaviour_of(log, counts),
        samples=log.samples,
        samples_per_parameter=per_entry,
        noise=np.full(log.agents, np.nan),
        reward_scale=float(over_known(np.std, log.rewards).max()),
        ridge={},
        neighbours=tuple(tuple(j for j in everybody if j != i) for i in everybody),
        counts=counts,
        context_probabilities=chances,
        rewards=network,
        dynamics=None if game is None else Dynamics.of(game),
    )


def joint_kind(log: Log, kind: str, otherwise: str = "kernel") -> str:
    """Check the kind; for "auto", choose a table if it has few entries per row."""
    if kind not in ("auto", *KINDS):
        raise InputError("kind", f"'auto' or one of {', '.join(KINDS)}", repr(kind))
    entries = float(log.contexts_count) * float(sizes_of(log)[1]) ** log.agents
    few = entries <= TABLE_ENTRIES_PER_ROW * log.samples
    return kind if kind != "auto" else "table" if few else otherwise


def predict_joint(
    train: Log, held: Log, kind: str, key: jax.Array, setting: list[float]
) -> np.ndarray:
    """(held rows, agents): rewards predicted by a joint critic fitted to the training rows.

    `setting` stores the width and the penalty of kernel regression between calls.
    """
    if kind == "table":
        return joint_table(train)[held.contexts, joint_code(held)]
    if kind == "kernel":
        return _predict_kernel(train, held, setting)
    network = fit_joint(train, kind="mlp", key=key).rewards
    inputs = jnp.asarray(held.contexts, jnp.int32), jnp.asarray(held.actions, jnp.int32)
    return np.asarray(network(*inputs))


def _predict_kernel(train: Log, held: Log, setting: list[float]) -> np.ndarray:
    """Kernel ridge regression. A held-out fifth of the rows chooses width and penalty."""
    rows = np.unique(np.linspace(0, train.samples - 1, KERNEL_ROWS).round().astype(int))
    own, rewards = _hot(train)[rows], np.asarray(train.rewards[rows], np.float64)
    mean = over_known(np.mean, rewards)
    apart = train.agents + 1.0 - own @ own.T
    usual, rewards = max(float(apart.mean()), 1e-12), rewards - mean
    if not setting:
        out = np.arange(len(rows)) % 5 == 0
        found = {}
        for width in KERNEL_WIDTHS:
            alike = np.exp(-apart / (width * usual))
            for ridge in KERNEL_RIDGES:
                weights = _kernel_weights(alike[~out][:, ~out], rewards[~out], ridge)
                left = (rewards[out] - alike[out][:, ~out] @ weights) ** 2
                found[width, ridge] = over_known(np.mean, left).mean()
        setting.extend(min(found, key=lambda one: found[one]))
    width, ridge = setting
    weights = _kernel_weights(np.exp(-apart / (width * usual)), rewards, ridge)
    across = train.agents + 1.0 - _hot(held) @ own.T
    return mean + np.exp(-across / (width * usual)) @ weights


def _kernel_weights(alike: np.ndarray, rewards: np.ndarray, ridge: float) -> np.ndarray:
    """(rows, agents): weights of kernel regression; zero for rows whose reward is not recorded."""
    weights, known = np.zeros(rewards.shape), ~np.isnan(rewards)
    kinds, kind = np.unique(known, axis=1, return_inverse=True)
    for k, rows in enumerate(kinds.T):
        if not rows.any():
            continue
        alone = alike[np.ix_(rows, rows)] + ridge * np.eye(int(rows.sum()))
        at = np.ix_(rows, kind.ravel() == k)
        weights[at] = solve(alone, rewards[at], assume_a="pos", check_finite=False)
    return weights


def _hot(log: Log) -> np.ndarray:
    """(samples, features): contexts and moves, one-hot."""
    count = sizes_of(log)[1]
    hot = (log.actions[:, :, None] == np.arange(count)).reshape(log.samples, -1)
    context = log.contexts[:, None] == np.arange(log.contexts_count)
    return np.concatenate([context, hot], 1).astype(np.float64)


def joint_code(log: Log) -> np.ndarray:
    """(samples,): the number of each row's joint action."""
    places = np.arange(log.agents - 1, -1, -1, dtype=np.int64)
    return log.actions @ sizes_of(log)[1] ** places


def joint_table(log: Log) -> np.ndarray:
    """(contexts, moves^agents, agents): mean rewards, shrunk to the mean of their context."""
    entries = sizes_of(log)[1] ** log.agents
    code, size = log.contexts * np.int64(entries) + joint_code(log), log.contexts_count * entries
    shape = (log.contexts_count, entries, -1)
    known, rewards = np.ones(log.rewards.shape), log.rewards
    if log.recorded is not None:
        known, rewards = log.recorded, np.where(log.recorded, log.rewards, 0.0)
    counts, sums = (
        np.stack([np.bincount(code, weights=own, minlength=size) for own in table.T], -1)
        for table in (known, rewards)
    )
    counts, sums = counts.reshape(shape), sums.reshape(shape)
    means = sums.sum(1, keepdims=True) / np.maximum(counts.sum(1, keepdims=True), 1)
    return (sums + TABLE_PRIOR * means) / (counts + TABLE_PRIOR)


def _train(
    log: Log, moves: int, key: jax.Array, width: int, epochs: int, patience: int
) -> JointNetwork:
    """Least squares by Adam with weight decay; a held-out tenth of the rows stops it early."""
    if log.recorded is not None:
        found = f"{int((~log.recorded).sum()):,} rewards that are not recorded"
        raise InputError("log", "a reward of every agent in all rows, for a network", found)
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
        optimiser = optax.adamw(1e-3, weight_decay=1e-3)
        state = optimiser.init(eqx.filter(network, eqx.is_array))
        batch = min(BATCH, len(used))
        best, best_error, waited = network, np.inf, 0
        for _ in range(epochs):
            rows = rng.permutation(used)[: len(used) // batch * batch].reshape(-1, batch)
            network, state = _epoch(network, state, data, jnp.asarray(rows), optimiser)
            error = float(_error(network, *(x[held] for x in data)))
            waited += 1
            if error < best_error:
                best, best_error, waited = network, error, 0
            if waited >= patience:
                break
        scale, mean = scale.astype("f4"), mean.astype("f4")
        ends = (best.output * scale, best.output_bias * scale + mean)
        return eqx.tree_at(lambda n: (n.output, n.output_bias), best, ends)


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
