"""Networks of a given interaction rank: sums of terms, each of which sees a few agents."""

from abc import abstractmethod
from itertools import combinations, pairwise
from math import comb, sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from equipoise.offline.deep._rows import Rows, Sizes, common_features, local_features
from equipoise.offline.deep._spec import Critic

#: More terms than this, of all agents together, are refused: they would not fit anywhere.
MOST_TERMS = 2_000_000


class RewardModel(eqx.Module):
    """The reward of one agent as a function of rows; axes of agents and trials are mapped over."""

    @abstractmethod
    def __call__(self, rows: Rows) -> Float[Array, "B"]:
        """Values of all rows (one batch axis)."""


class TermNetworks(RewardModel):
    """A sum of networks, one for each scope: a set of agents, oneself first.

    Several of them, of all agents and trials, have axes before those named.
    """

    scopes: Int[Array, "*axes terms rank"]
    #: (terms or 1, inputs, outputs) for each layer; (terms or 1, 1, outputs).
    weights: tuple[Float[Array, "*axes _ _ _"], ...]
    biases: tuple[Float[Array, "*axes _ 1 _"], ...]
    #: Who is looked at, in numbers, where all terms share their weights.
    embedding: Float[Array, "*axes agents numbers"] | None
    sizes: Sizes = eqx.field(static=True)

    def __call__(self, rows: Rows) -> Float[Array, "B"]:
        """The sum of all terms."""
        hidden = self.inputs(rows)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = jax.nn.relu(_affine(hidden, weight) + bias)
        ends = _affine(hidden, self.weights[-1]) + self.biases[-1]
        return ends[..., 0].sum(0)

    def inputs(self, rows: Rows) -> Float[Array, "terms B inputs"]:
        """What each term sees."""
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


def _affine(inputs: Array, weight: Array) -> Array:
    # Rows before widths, and a product even where there are two inputs: measured fastest by far
    # on a CPU, forwards and backwards.
    if weight.shape[0] == 1:
        return inputs @ weight[0]
    return jnp.einsum("tbi,tio->tbo", inputs, weight)


def all_scopes(critic: Critic, sizes: Sizes, key: jax.Array) -> np.ndarray:
    """(agents, terms, rank): whom the terms of each agent see, the agent itself first.

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
        raise ValueError(f"rank: expected at most the {agents} agents, found {rank}")
    if rank <= 2:
        scopes = np.stack([np.broadcast_to(everybody[:, None], (agents, agents))] * 2, -1)
        scopes = scopes.copy()
        scopes[..., 1] = everybody
        scopes = scopes[:, :1, :1] if rank == 1 else scopes
        kept = critic.terms
        if kept is None or kept >= scopes.shape[1]:
            return scopes.astype(np.int32)
    total = agents if rank == 2 else comb(agents - 1, rank - 1)
    kept = total if critic.terms is None else min(critic.terms, total)
    if kept * agents > MOST_TERMS:
        raise ValueError(
            f"terms: expected a number of terms to keep, since rank {rank} of {agents} agents has "
            f"{total} for each of them; found None"
        )
    words = np.asarray(jax.random.key_data(key)).ravel().tolist()
    chosen = [_some_sets(agents, rank, i, kept, total, [*words, i]) for i in range(agents)]
    return np.array(chosen, np.int32)


def _some_sets(
    agents: int, rank: int, own: int, kept: int, total: int, seed: list[int]
) -> list[list[int]]:
    """Sets of `rank - 1` others, all of them or a random selection, in their order."""
    others = [j for j in range(agents) if j != own or rank == 2]
    if kept == total:
        return [[own, *rest] for rest in combinations(others, rank - 1)]
    rng = np.random.default_rng(seed)
    found: set[tuple[int, ...]] = set()
    while len(found) < kept:
        found.add(tuple(sorted(rng.choice(others, rank - 1, replace=False).tolist())))
    return [[own, *rest] for rest in sorted(found)]


def make_network(critic: Critic, sizes: Sizes, scopes: Array, key: jax.Array) -> TermNetworks:
    """Random weights for one agent, uniform within one over the root of the inputs.

    The initialisation of PyTorch's linear layers, which the paper's library uses.
    """
    terms, rank = scopes.shape
    inputs = rank * sizes.local + sizes.common
    if critic.shared:
        inputs += (rank - 1) * critic.embedding
    widths = [inputs, *[critic.width] * critic.depth, 1]
    count = 1 if critic.shared else terms
    weights, biases = [], []
    for layer, (before, after) in enumerate(pairwise(widths)):
        first, second = jax.random.split(jax.random.fold_in(key, layer))
        limit = 1.0 / sqrt(before)
        weights.append(limit * jax.random.uniform(first, (count, before, after), minval=-1.0))
        biases.append(limit * jax.random.uniform(second, (count, 1, after), minval=-1.0))
    embedding = None
    if critic.shared:
        shape = (sizes.agents, critic.embedding)
        embedding = jax.random.normal(jax.random.fold_in(key, len(widths)), shape)
    return TermNetworks(scopes, tuple(weights), tuple(biases), embedding, sizes)
