"""Critics: what each own action is worth, on average over what the others do.

`Q_i(c, s_i, a_i)` of line 7 of the paper's Algorithm 1, for all agents, contexts, steps and
states at once. A critic is a pytree, and a traceable function of (policy, key); policies have
the axes (contexts, horizon, agents, states, actions), of which horizon and states have length
one in a contextual game.

`ExactCritic` takes expectations through the other agents' occupancies, at the cost of the terms.
`MonteCarloCritic` is the paper's Algorithm 2, for rewards that are any function of joint moves.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from equipoise.games import ContextualGame, DecoupledMarkovGame, Interactions

#: Pairs are one matrix product for each situation where at least this part of them has a term.
DENSE_SHARE = 0.25

Policy = Float[Array, "contexts horizon agents states actions"]


class Dynamics(eqx.Module):
    """How local states begin and go on; trivial in contextual games."""

    initial: Float[Array | np.ndarray, "contexts agents states"]
    transitions: Float[Array | np.ndarray, "contexts horizon agents states actions next_states"]

    @classmethod
    def of(cls, game: ContextualGame | DecoupledMarkovGame) -> "Dynamics":
        """Those of a game."""
        if isinstance(game, DecoupledMarkovGame):
            return cls(np.asarray(game.initial), np.asarray(game.transitions))
        return cls.stateless(game.contexts, game.agents, max(game.actions))

    @classmethod
    def stateless(cls, contexts: int, agents: int, actions: int) -> "Dynamics":
        """One state, one step."""
        shape = (contexts, 1, agents, 1, actions, 1)
        return cls(np.ones((contexts, agents, 1)), np.ones(shape))

    def occupancies(self, policy: Policy) -> Policy:
        """Chances of state and action of each agent, step by step."""
        here = jnp.asarray(self.initial, policy.dtype)
        found = []
        for h in range(policy.shape[1]):
            joint = here[..., None] * policy[:, h]
            found.append(joint)
            kernel = jnp.asarray(self.transitions[:, h], policy.dtype)
            here = jnp.einsum("cnsa,cnsat->cnt", joint, kernel)
        return jnp.stack(found, 1)

    def backward(self, rewards: Policy, policy: Policy) -> Policy:
        """Q-functions from expected rewards of own moves (Lemma 11)."""
        following = jnp.zeros_like(policy[:, 0, :, :, 0])
        found = []
        for h in reversed(range(policy.shape[1])):
            kernel = jnp.asarray(self.transitions[:, h], policy.dtype)
            q = rewards[:, h] + jnp.einsum("cnsat,cnt->cnsa", kernel, following)
            following = (q * policy[:, h]).sum(-1)
            found.append(q)
        return jnp.stack(found[::-1], 1)


class Critic(eqx.Module):
    """A way to compute or estimate all agents' Q-functions."""

    @abstractmethod
    def __call__(self, policy: Policy, key: jax.Array) -> Policy:
        """The Q-functions of a product policy."""


class ExactCritic(Critic):
    """Expected rewards through the others' occupancies, then one backward pass per agent."""

    dynamics: Dynamics
    terms: Interactions | None
    #: (situations, agents * moves, agents * moves) where pairs are dense, and own terms.
    pairs: Float[Array | np.ndarray, "situations rows columns"] | None
    own: Float[Array | np.ndarray, "situations agents moves"] | None

    @classmethod
    def of(cls, game: ContextualGame | DecoupledMarkovGame) -> "ExactCritic":
        """The critic of a game with interaction terms."""
        terms = game.interactions
        pairs = len(terms.scopes.get(2, ()))
        if pairs < DENSE_SHARE * terms.agents * (terms.agents - 1) or pairs == 0:
            return cls(Dynamics.of(game), terms, None, None)
        matrix, own = dense_pairs(terms)
        rest = {k: v for k, v in terms.scopes.items() if k > 2}
        others = (
            Interactions(rest, {k: terms.tables[k] for k in rest}, terms.agents) if rest else None
        )
        return cls(Dynamics.of(game), others, matrix, own)

    def __call__(self, policy: Policy, key: jax.Array) -> Policy:
        """The Q-functions of a product policy; the key is not used."""
        return self.dynamics.backward(self.rewards(policy), policy)

    def rewards(self, policy: Policy) -> Policy:
        """E[r_i | s_i, a_i] in every step."""
        contexts, horizon, agents, states, actions = policy.shape
        occupied = self.dynamics.occupancies(policy)
        flat = occupied.reshape(contexts * horizon, agents, states * actions)
        total = jnp.zeros_like(flat)
        if self.terms is not None:
            total = total + self.terms.expected(flat)
        if self.pairs is not None:
            product = jnp.einsum(
                "cij,cj->ci", jnp.asarray(self.pairs, flat.dtype), flat.reshape(len(flat), -1)
            )
            total = total + jnp.asarray(self.own, flat.dtype) + product.reshape(flat.shape)
        return total.reshape(policy.shape)


def dense_pairs(terms: Interactions) -> tuple[np.ndarray, np.ndarray]:
    """Pair terms as one matrix per situation, and terms of order one as a table."""
    situations, agents, moves = terms.situations, terms.agents, terms.moves
    own = np.zeros((situations, agents, moves))
    for m, (i,) in enumerate(terms.scopes.get(1, ())):
        own[:, i] += terms.tables[1][:, m]
    matrix = np.zeros((situations, agents, agents, moves, moves))
    scopes = terms.scopes[2]
    np.add.at(matrix, (slice(None), scopes[:, 0], scopes[:, 1]), np.asarray(terms.tables[2]))
    size = agents * moves
    return matrix.swapaxes(2, 3).reshape(situations, size, size), own


class TermRewards(eqx.Module):
    """Rewards of joint moves by looking up the terms: `Interactions.rewards`, traceable."""

    terms: Interactions

    def __call__(self, situations: Int[Array, "B"], moves: Int[Array, "B agents"]) -> Array:
        """(B, agents)."""
        rewards = jnp.zeros(moves.shape)
        for order, scopes in self.terms.scopes.items():
            index = tuple(moves[:, scopes[:, k]] for k in range(order))
            table = jnp.asarray(self.terms.tables[order])
            values = table[(situations[:, None], np.arange(len(scopes))[None], *index)]
            rewards = rewards.at[:, scopes[:, 0]].add(values)
        return rewards


class MonteCarloCritic(Critic):
    """Algorithm 2: simulate in the model, and regress returns on (context, own state and action).

    Others play the current policy throughout. Agent i's state in step h is drawn from the log's
    states, its action from half its behaviour and half its policy; least squares over a table
    is the mean of each cell. Cells without a sample get their agent's mean in that step.

    The prefix up to step h is simulated once for all agents and steps, and not anew for each:
    what is estimated stays unbiased, at a fraction of the cost.
    """

    rewards: Any
    dynamics: Dynamics
    behaviour: Float[Array | np.ndarray, "contexts horizon agents states actions"]
    #: Distribution of logged states, sigma of the paper.
    states: Float[Array | np.ndarray, "contexts horizon agents states"]
    context_probabilities: Float[Array | np.ndarray, "contexts"]
    simulations: int = eqx.field(static=True)

    def __call__(self, policy: Policy, key: jax.Array) -> Policy:
        """Estimated Q-functions."""
        contexts, horizon, agents, _, _ = policy.shape
        start, *keys = jax.random.split(key, horizon + 2)
        context_key, first_key = jax.random.split(start)
        chances = jnp.asarray(self.context_probabilities, policy.dtype)
        context = jax.random.choice(context_key, contexts, (self.simulations,), p=chances)
        state = _draw(first_key, jnp.asarray(self.dynamics.initial, policy.dtype)[context])
        found = []
        for h in range(horizon):
            branch = jax.random.split(keys[h], agents)
            per_agent = jax.vmap(
                lambda i, k, h=h, state=state: self._branch(policy, context, state, h, i, k)
            )
            found.append(jnp.moveaxis(per_agent(jnp.arange(agents), branch), 0, 1))
            state, _ = self._step(policy, context, state, h, jax.random.fold_in(keys[-1], h))
        return jnp.stack(found, 1)

    def _branch(
        self, policy: Policy, context: Array, state: Array, h: int, i: Array, key: jax.Array
    ) -> Array:
        """(contexts, states, actions): agent i's Q-function in step h."""
        contexts, horizon, _, states, actions = policy.shape
        keys = jax.random.split(key, horizon - h + 2)
        logged = jnp.asarray(self.states, policy.dtype)[context, h, i]
        state = state.at[:, i].set(_draw(keys[-1], logged))
        own = state[:, i]
        covering = (policy + jnp.asarray(self.behaviour, policy.dtype))[context, h, i, own] / 2
        action = _draw(keys[-2], covering)
        total = jnp.zeros(len(context), policy.dtype)
        forced: tuple[Array, Array] | None = (i, action)
        for later in range(h, horizon):
            following, reward = self._step(policy, context, state, later, keys[later - h], forced)
            total = total + reward[:, i]
            state, forced = following, None
        cell = (context * states + own) * actions + action
        size = contexts * states * actions
        sums = jax.ops.segment_sum(total, cell, size)
        counts = jax.ops.segment_sum(jnp.ones_like(total), cell, size)
        means = jnp.where(counts > 0, sums / jnp.maximum(counts, 1.0), total.mean())
        return means.reshape(contexts, states, actions)

    def _step(
        self,
        policy: Policy,
        context: Array,
        state: Array,
        h: int,
        key: jax.Array,
        forced: tuple[Array, Array] | None = None,
    ) -> tuple[Array, Array]:
        """Next states and rewards of one joint step, with one agent's action forced or not."""
        act, go = jax.random.split(key)
        everybody = jnp.arange(policy.shape[2])
        action = _draw(act, policy[context[:, None], h, everybody, state])
        if forced is not None:
            action = action.at[:, forced[0]].set(forced[1])
        move = state * policy.shape[-1] + action
        reward = self.rewards(context * policy.shape[1] + h, move)
        kernel = jnp.asarray(self.dynamics.transitions, policy.dtype)
        following = _draw(go, kernel[context[:, None], h, everybody, state, action])
        return following, reward.astype(policy.dtype)


def _draw(key: jax.Array, chances: Array) -> Array:
    """One index for each distribution on the last axis."""
    uniform = jax.random.uniform(key, chances.shape[:-1], chances.dtype)
    below = uniform[..., None] >= jnp.cumsum(chances, -1)[..., :-1]
    return below.sum(-1)
