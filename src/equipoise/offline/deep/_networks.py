"""Models of one agent's reward: sums of networks of a few agents each, or polynomials."""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import combinations, pairwise, product
from math import comb, sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Int

from equipoise.core import InputError, checks
from equipoise.offline._log import Log
from equipoise.offline.deep._rows import Rows, Sizes, common_features, local_features
from equipoise.offline.deep._spec import Critic, LinearCritic

#: Largest number of terms of all agents together; more would not fit into memory.
MOST_TERMS = 2_000_000


class RewardModel(eqx.Module):
    """Reward of one agent as a function of rows; `vmap` adds axes of agents and trials."""

    @abstractmethod
    def __call__(self, rows: Rows) -> Float[Array, "B"]:
        """Values of all rows (one batch axis)."""


class TermNetworks(RewardModel):
    """A sum of networks, one for each scope. A scope is a set of agents, the own agent first.

    A stack of them, for all agents and trials, has leading axes before those named.
    """

    scopes: Int[Array, "*axes terms rank"]
    #: (terms or 1, inputs, outputs) for each layer; (terms or 1, 1, outputs).
    weights: tuple[Float[Array, "*axes _ _ _"], ...]
    biases: tuple[Float[Array, "*axes _ 1 _"], ...]
    #: Learned vectors that identify agents, if all terms share their weights.
    embedding: Float[Array, "*axes agents numbers"] | None
    sizes: Sizes = eqx.field(static=True)

    def __call__(self, rows: Rows) -> Float[Array, "B"]:
        """Sum of all terms."""
        return through_layers(self.inputs(rows), self.weights, self.biases)[..., 0].sum(0)

    def inputs(self, rows: Rows) -> Float[Array, "terms B inputs"]:
        """Inputs of each term."""
        local = jnp.moveaxis(local_features(rows, self.sizes), 1, 0)  # agents, B, local
        terms, rank = self.scopes.shape
        seen = local[self.scopes]  # terms, rank, B, local
        seen = jnp.moveaxis(seen, 1, 2).reshape(terms, -1, rank * self.sizes.local)
        parts = [seen]
        if self.embedding is not None:
            names = self.embedding[self.scopes[:, 1:]].reshape(terms, 1, -1)
            parts.append(jnp.broadcast_to(names, (*seen.shape[:2], names.shape[-1])))
        if self.sizes.common:
            common = common_features(rows, self.sizes)
            parts.append(jnp.broadcast_to(common, (terms, *common.shape)))
        return jnp.concatenate(parts, -1) if len(parts) > 1 else seen


def through_layers(inputs: Array, weights: Sequence[Array], biases: Sequence[Array]) -> Array:
    """Apply rectified layers; the last layer is linear."""
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        hidden = inputs if layer == 0 else jax.nn.relu(inputs)
        # Axes (rows, width) and a matrix product even for two inputs are by far the fastest on a
        # CPU, forwards and backwards (measured).
        several = weight.ndim == 3 and len(weight) > 1
        weight = weight if several else weight.reshape(weight.shape[-2:])
        inputs = (jnp.einsum("tbi,tio->tbo", hidden, weight) if several else hidden @ weight) + bias
    return inputs


def random_layers(
    widths: Sequence[int], key: jax.Array, *networks: int
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Random weights and biases, uniform within one over the square root of the inputs.

    This is the initialisation of PyTorch's linear layers, which the paper's library uses.
    """
    weights, biases = [], []
    for layer, (before, after) in enumerate(pairwise(widths)):
        first, second = jax.random.split(jax.random.fold_in(key, layer))
        limit = 1.0 / sqrt(before)
        weights.append(limit * jax.random.uniform(first, (*networks, before, after), minval=-1.0))
        biases.append(limit * jax.random.uniform(second, (*networks, 1, after), minval=-1.0))
    return tuple(weights), tuple(biases)


def all_scopes(critic: Critic, sizes: Sizes, key: jax.Array) -> np.ndarray:
    """(agents, terms, rank): agents in the scope of each term, the own agent first.

    >>> all_scopes(Critic(rank=2), Sizes(agents=3), jax.random.key(0))[1].tolist()
    [[1, 0], [1, 1], [1, 2]]
    >>> all_scopes(Critic(rank=3), Sizes(agents=4), jax.random.key(0))[1].tolist()
    [[1, 0, 2], [1, 0, 3], [1, 2, 3]]
    """
    agents, everybody = sizes.agents, np.arange(sizes.agents)
    if critic.rank == "joint":
        others = [[j for j in everybody if j != i] for i in everybody]
        return np.array([[[i, *rest]] for i, rest in enumerate(others)], np.int32)
    rank = int(critic.rank)
    if rank > agents:
        raise ValueError(f"rank: expected at most {agents}, the number of agents, found {rank}")
    # Rank 2 has a term for every agent, including the own agent.
    total = agents if rank == 2 else comb(agents - 1, rank - 1)
    kept = total if critic.terms is None else min(critic.terms, total)
    if kept * agents > MOST_TERMS and rank > 2:
        raise ValueError(
            f"terms: expected a number of terms to keep, since rank {rank} and {agents} agents "
            f"give {total} terms per agent; found None"
        )
    words = np.asarray(jax.random.key_data(key)).ravel().tolist()
    scopes = []
    for own in range(agents):
        others = [j for j in range(agents) if j != own or rank == 2]
        sets = set(combinations(others, rank - 1)) if kept == total else set()
        rng = np.random.default_rng([*words, own])
        while len(sets) < kept:
            sets.add(tuple(sorted(rng.choice(others, rank - 1, replace=False).tolist())))
        scopes.append([[own, *rest] for rest in sorted(sets)])
    return np.array(scopes, np.int32)


def make_network(critic: Critic, sizes: Sizes, scopes: Array, key: jax.Array) -> TermNetworks:
    """Create a network with random weights for one agent."""
    terms, rank = scopes.shape
    inputs = rank * sizes.local + sizes.common
    if critic.shared:
        inputs += (rank - 1) * critic.embedding
    widths = [inputs, *[critic.width] * critic.depth, 1]
    weights, biases = random_layers(widths, key, 1 if critic.shared else terms)
    embedding = None
    if critic.shared:
        shape = (sizes.agents, critic.embedding)
        embedding = jax.random.normal(jax.random.fold_in(key, len(widths)), shape)
    return TermNetworks(scopes, weights, biases, embedding, sizes)


#: Largest number of features of one agent.
MOST_FEATURES = 20_000
#: Ridge penalties tried, relative to the mean eigenvalue of the features.
_TRIED = np.logspace(-8, 2, 31)


class Polynomials(RewardModel):
    """A weighted sum of products of Legendre polynomials; see `LinearCritic`.

    A feature is a product of columns of a table: a column of ones, the polynomials of the own
    agent, those of the first other agent, and so on.
    """

    own: Int[Array, "*axes"]
    others: Int[Array, "*axes others"]
    factors: Int[Array, "*axes features rank"]
    coefficients: Float[Array, "*axes situations features"]
    degree: int = eqx.field(static=True)
    sizes: Sizes = eqx.field(static=True)

    def __call__(self, rows: Rows) -> Float[Array, "B"]:
        """Weighted sum, with the coefficients of the context and step of each row."""
        values = features(
            rows.actions, rows.states, self.own, self.others, self.factors, self.degree, self.sizes
        )
        situation = rows.contexts * self.sizes.horizon + rows.steps
        return (values * self.coefficients[situation]).sum(-1)


def features(
    actions: Any, states: Any, own: Any, others: Any, factors: Any, degree: int, sizes: Sizes
) -> Any:
    """(B, features): a NumPy or JAX array, like the actions."""
    xp: Any = np if isinstance(actions, np.ndarray) else jnp
    values = [xp.ones_like(actions), actions]
    for q in range(1, degree):
        values.append(((2 * q + 1) * actions * values[q] - q * values[q - 1]) / (q + 1))
    # (B, agents, states * (degree + 1)): orthonormal under uniform actions in each state.
    local = xp.stack([sqrt(2 * q + 1) * v for q, v in enumerate(values)], -1)
    if sizes.states > 1:
        where = (states[..., None] == xp.arange(sizes.states)[None, None]).astype(local.dtype)
        local = (where[..., :, None] * local[..., None, :]).reshape(*actions.shape, -1)
    rows = local.shape[0]
    parts = [xp.ones((rows, 1), local.dtype), local[:, own]]
    parts.append(local[:, others, 1:].reshape(rows, -1))
    return xp.concatenate(parts, 1)[:, factors].prod(-1)


def all_factors(critic: LinearCritic, sizes: Sizes) -> np.ndarray:
    """(features, rank): columns whose product is each feature; the first feature is constant.

    >>> all_factors(LinearCritic(rank=2, degree=1), Sizes(agents=3)).tolist()
    [[0, 0], [2, 0], [0, 3], [0, 4]]
    """
    rank = min(critic.rank, sizes.agents)
    functions = sizes.states * (critic.degree + 1)
    _check_features(critic, sizes)
    degrees = [q % (critic.degree + 1) for q in range(functions)]
    # The first function of each other agent is left out, since sums of the rest represent it.
    # Without states, so is the first own function, which equals the constant.
    own = range(functions) if sizes.states > 1 else range(1, functions)
    found: list[list[int]] = [[0] * rank]
    for order in range(rank):
        for scope in combinations(range(sizes.agents - 1), order):
            for chosen in product(range(1, functions), repeat=order):
                others = [
                    1 + functions + j * (functions - 1) + q - 1
                    for j, q in zip(scope, chosen, strict=True)
                ]
                used = sum(degrees[q] for q in chosen)
                fill = [0] * (rank - 1 - order)
                if order and used <= critic.degree:
                    found.append([0, *others, *fill])
                found += [
                    [1 + q, *others, *fill] for q in own if used + degrees[q] <= critic.degree
                ]
                if len(found) > MOST_FEATURES:
                    raise _too_many(critic, sizes)
    return np.array(found, np.int32)


def _check_features(critic: LinearCritic, sizes: Sizes) -> None:
    """Refuse too many features before listing any; with states there are more than counted here."""
    count = sizes.states - 1
    for order in range(min(critic.rank, sizes.agents)):
        count += comb(sizes.agents - 1, order) * comb(critic.degree + 1, order + 1)
        if count > MOST_FEATURES:
            raise _too_many(critic, sizes)
        if order >= critic.degree:
            break


def _too_many(critic: LinearCritic, sizes: Sizes) -> InputError:
    found = f"more for rank {critic.rank}, degree {critic.degree} and {sizes.agents} agents"
    return InputError("rank", f"at most {MOST_FEATURES} features", found)


def fit_polynomials(
    log: Log, critic: LinearCritic, sizes: Sizes, trained: np.ndarray, held: np.ndarray
) -> tuple[Polynomials, np.ndarray]:
    """Fit models with an axis of agents, and return their held-out errors (agents,) too.

    The errors belong to a first fit to the rows in `trained`; the models are fitted to all rows.
    """
    factors = all_factors(critic, sizes)
    agents = sizes.agents
    situations = log.situations
    states = np.zeros(log.actions.shape, int) if log.states is None else log.states
    everybody = np.arange(agents)
    others = np.array([[j for j in everybody if j != i] for i in everybody], np.int32)
    errors = np.empty(agents)
    count = sizes.contexts * sizes.horizon
    coefficients = np.zeros((agents, count, len(factors)))
    actions = np.asarray(log.actions, np.float64)
    for i in everybody:
        x = features(actions, states, i, others[i], factors, critic.degree, sizes)
        y = np.asarray(log.rewards[:, i], np.float64)
        first = _solve(x[trained], y[trained], situations[trained], count, critic.ridge)
        predicted = (x[held] * first[situations[held]]).sum(1)
        errors[i] = ((predicted - y[held]) ** 2).mean()
        coefficients[i] = _solve(x, y, situations, count, critic.ridge)
    model = Polynomials(
        jnp.asarray(everybody, jnp.int32),
        jnp.asarray(others),
        jnp.broadcast_to(jnp.asarray(factors), (agents, *factors.shape)),
        jnp.asarray(coefficients, jnp.float32),
        critic.degree,
        sizes,
    )
    return model, errors


def _solve(
    x: np.ndarray, y: np.ndarray, situations: np.ndarray, count: int, ridge: float | None
) -> np.ndarray:
    """(situations, features): coefficients of a ridge regression in each situation."""
    found = np.zeros((count, x.shape[1]))
    for situation in range(count):
        rows = situations == situation
        if rows.any():
            found[situation] = ridge_regression(x[rows], y[rows], ridge)
        else:
            found[situation, 0] = y.mean()
    return found


def ridge_regression(x: np.ndarray, y: np.ndarray, ridge: float | None) -> np.ndarray:
    """Coefficients of a ridge regression whose first column, the constant, is not penalised.

    `ridge` is the penalty relative to the mean squared error. If it is None, the penalty with the
    smallest generalised cross-validation error is used.

    >>> x = np.stack([np.ones(4), np.array([-1.0, 0.0, 1.0, 2.0])], 1)
    >>> ridge_regression(x, x @ np.array([3.0, 2.0]), None).round(3)
    array([3., 2.])
    """
    checks.check_finite("rewards", y)
    centre, mean = x[:, 1:].mean(0), y.mean()
    inputs, rest = x[:, 1:] - centre, y - mean
    rows = len(y)
    if not inputs.shape[1]:
        return np.array([mean])
    s, v, projected = _spectrum(inputs, rest)
    outside = max(float(rest @ rest - projected @ projected), 0.0)
    eigen = s**2 / rows
    tried = _TRIED * max(eigen.mean(), 1e-12) if ridge is None else np.array([ridge])
    kept = eigen / (eigen + np.maximum(tried, 1e-14)[:, None])  # tried, values
    error = (((1.0 - kept) * projected) ** 2).sum(1) + outside
    # The constant uses a degree of freedom too.
    freedom = np.maximum(1.0 - (kept.sum(1) + 1.0) / rows, 1e-6)
    best = kept[np.argmin(error / freedom**2)]
    safe = np.where(s > 1e-12 * max(s.max(), 1e-300), s, np.inf)
    slopes = v @ (best * projected / safe)
    return np.concatenate([[mean - centre @ slopes], slopes])


def _spectrum(inputs: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Singular values, right singular vectors, and the components of `rest` along the left ones.

    Tall inputs use the Gram matrix, which is several times as fast.
    """
    rows, columns = inputs.shape
    if rows < 4 * columns:
        try:
            u, s, vt = np.linalg.svd(inputs, full_matrices=False)
        except np.linalg.LinAlgError:  # divide and conquer fails for some finite matrices
            u, s, vt = scipy.linalg.svd(inputs, full_matrices=False, lapack_driver="gesvd")
        return s, vt.T, u.T @ rest
    values, v = np.linalg.eigh(inputs.T @ inputs)
    s = np.sqrt(np.maximum(values, 0.0))
    # Singular values below the rounding error of the Gram matrix are unreliable.
    s = np.where(s > 1e-7 * max(s[-1], 1e-300), s, 0.0)
    along = (inputs.T @ rest) @ v
    return s, v, np.where(s > 0.0, along / np.where(s > 0.0, s, 1.0), 0.0)
