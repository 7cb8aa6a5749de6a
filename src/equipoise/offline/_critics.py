"""The two halves of DR-AC: critics, and regularised mirror steps on what they say.

A critic says what each own action is worth, on average over what the others do: `Q_i(c, s_i, a_i)`
of line 7 of the paper's Algorithm 1, for all agents, contexts, steps and states at once. A critic
is a pytree, and a traceable function of (policy, key); policies have the axes (contexts, horizon,
agents, states, actions), of which horizon and states have length one in a contextual game.

`ExactCritic` takes expectations through the other agents' occupancies, at the cost of the terms.
`MonteCarloCritic` is the paper's Algorithm 2, for rewards that are any function of joint moves.

A step (Eq. 2 and 4) maximises `<p, q> - strength R(p, behaviour) - D(p, policy) / step` over the
simplex, in closed form: with chi-squared divergences as in the paper, or with relative entropies or
Euclidean distances (Remark 2).
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from equipoise.core.simplex import chi_squared_step, project
from equipoise.games import ContextualGame, DecoupledMarkovGame, Interactions
from equipoise.offline._aggregate import Aggregate

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
        contexts, agents, actions = game.policy_shape
        return cls(np.ones((contexts, agents, 1)), np.ones((contexts, 1, agents, 1, actions, 1)))

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
    terms: Interactions | Aggregate | None
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
        rest = {k: v for k, v in terms.scopes.items() if k > 2}
        tables = {k: terms.tables[k] for k in rest}
        others = Interactions(rest, tables, terms.agents) if rest else None
        return cls(Dynamics.of(game), others, *dense_pairs(terms))

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
    matrix = np.zeros((situations, agents, agents, moves, moves))
    for order, sums in ((1, own), (2, matrix)):
        for m, scope in enumerate(terms.scopes.get(order, ())):
            sums[:, *scope] += terms.tables[order][:, m]
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
        # Few, large draws: every one of them costs time to compile.
        first, *keys = jax.random.split(key, horizon + 1)
        shape = (self.simulations, 1 + agents * (1 + 2 * horizon))
        common = jax.random.uniform(first, shape, policy.dtype)
        chances = jnp.asarray(self.context_probabilities, policy.dtype)
        context = _draw(common[:, 0], jnp.broadcast_to(chances, (self.simulations, contexts)))
        common = common[:, 1:].reshape(self.simulations, -1, agents)
        state = _draw(common[:, 0], jnp.asarray(self.dynamics.initial, policy.dtype)[context])
        found = []
        for h in range(horizon):
            shape = (agents, self.simulations, 2 + 2 * agents * (horizon - h))
            branches = jax.vmap(
                lambda i, u, h=h, state=state: self._branch(policy, context, state, h, i, u)
            )
            own = branches(jnp.arange(agents), jax.random.uniform(keys[h], shape, policy.dtype))
            found.append(jnp.moveaxis(own, 0, 1))
            uniforms = common[:, 1 + 2 * h : 3 + 2 * h]
            state, _ = self._step(policy, context, state, h, uniforms)
        return jnp.stack(found, 1)

    def _branch(
        self, policy: Policy, context: Array, state: Array, h: int, i: Array, uniforms: Array
    ) -> Array:
        """(contexts, states, actions): agent i's Q-function in step h."""
        contexts, horizon, agents, states, actions = policy.shape
        logged = jnp.asarray(self.states, policy.dtype)[context, h, i]
        own = _draw(uniforms[:, 0], logged)
        covering = (policy + jnp.asarray(self.behaviour, policy.dtype))[context, h, i, own] / 2
        action = _draw(uniforms[:, 1], covering)
        state = state.at[:, i].set(own)
        total = jnp.zeros(len(context), policy.dtype)
        forced: tuple[Array, Array] | None = (i, action)
        later_uniforms = uniforms[:, 2:].reshape(len(context), horizon - h, 2, agents)
        for later in range(h, horizon):
            drawn = later_uniforms[:, later - h]
            state, reward = self._step(policy, context, state, later, drawn, forced)
            total, forced = total + reward[:, i], None
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
        uniforms: Array,
        forced: Any = None,
    ) -> tuple[Array, Array]:
        """Next states and rewards of one joint step, with one agent's action forced or not."""
        everybody = jnp.arange(policy.shape[2])
        action = _draw(uniforms[:, 0], policy[context[:, None], h, everybody, state])
        if forced is not None:
            action = action.at[:, forced[0]].set(forced[1])
        move = state * policy.shape[-1] + action
        reward = self.rewards(context * policy.shape[1] + h, move)
        kernel = jnp.asarray(self.dynamics.transitions, policy.dtype)
        following = _draw(uniforms[:, 1], kernel[context[:, None], h, everybody, state, action])
        return following, reward.astype(policy.dtype)


def _draw(uniform: Array, chances: Array) -> Array:
    """One index for each distribution on the last axis."""
    return (uniform[..., None] >= jnp.cumsum(chances, -1)[..., :-1]).sum(-1)


def entropy_step(policy: Array, q: Array, behaviour: Array, *, step: Any, strength: Any) -> Array:
    """Relative entropies: `p ~ exp((strength log nu + log pi / step + q) / (strength + 1/step))`.

    Actions that the behaviour never plays are never played.

    >>> nu = jnp.array([0.5, 0.5])
    >>> p = entropy_step(nu, jnp.array([1.0, 0.0]), nu, step=1.0, strength=1.0)
    >>> [round(float(x), 4) for x in p]
    [0.6225, 0.3775]
    """
    played = (behaviour > 0) & (policy > 0)
    logs = strength * jnp.log(jnp.where(played, behaviour, 1.0))
    logs = logs + jnp.log(jnp.where(played, policy, 1.0)) / step
    exponent = jnp.where(played, (logs + q) / (strength + 1 / step), -jnp.inf)
    weights = jnp.exp(exponent - exponent.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def euclidean_step(
    policy: Array, q: Array, behaviour: Array, *, step: Any, strength: Any, available: Any = None
) -> Array:
    """Squared Euclidean distances; off the behaviour's support too, where actions are available.

    >>> nu = jnp.array([0.5, 0.5])
    >>> p = euclidean_step(nu, jnp.array([1.0, 0.0]), nu, step=1.0, strength=1.0)
    >>> [round(float(x), 4) for x in p]
    [0.625, 0.375]
    """
    point = (strength * behaviour + policy / step + q / 2) / (strength + 1 / step)
    if available is not None:
        available = jnp.broadcast_to(available, point.shape)
    return project(point, weights=available)


#: Name of a regulariser -> its step.
STEPS: dict[str, Callable[..., Array]] = {
    "chi-squared": chi_squared_step,
    "kl": entropy_step,
    "l2": euclidean_step,
}
