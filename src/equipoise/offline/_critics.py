"""Monte-Carlo critics: the paper's Algorithm 2, for rewards that are any function of joint moves.

`equipoise.solvers.no_regret` defines the interface of critics and the exact critic.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from equipoise.games import Interactions
from equipoise.solvers.no_regret import Critic, Dynamics, Policy


class TermRewards(eqx.Module):
    """Rewards of joint moves, looked up term by term: a traceable `Interactions.rewards`."""

    terms: Interactions

    def __call__(self, situations: Int[Array, "B"], moves: Int[Array, "B agents"]) -> Array:
        """(B, agents): rewards."""
        rewards = jnp.zeros(moves.shape)
        for order, scopes in self.terms.scopes.items():
            index = tuple(moves[:, scopes[:, k]] for k in range(order))
            table = jnp.asarray(self.terms.tables[order])
            values = table[(situations[:, None], np.arange(len(scopes))[None], *index)]
            rewards = rewards.at[:, scopes[:, 0]].add(values)
        return rewards


class MonteCarloCritic(Critic):
    """Algorithm 2: simulate in the model, and regress returns on (context, own state and action).

    This is Q-function estimation, Appendix C of the interaction-rank paper; Lemma 2 bounds its
    error. `offline.solve(model, critic="monte-carlo")` is DR-AC (Algorithm 1) with this critic.

    The others play the current policy throughout. The state of agent i in step h is drawn from the
    log's states, and its action from an equal mixture of its behaviour and its policy. Least
    squares over a table is the mean of each cell. Cells without a sample get their agent's mean in
    that step.

    The prefix up to step h is simulated once for all agents and steps, instead of once for each.
    The estimates stay unbiased at a fraction of the cost.
    """

    rewards: Any
    dynamics: Dynamics
    behaviour: Float[Array | np.ndarray, "contexts horizon agents states actions"]
    #: Distribution of logged states (sigma in the paper).
    states: Float[Array | np.ndarray, "contexts horizon agents states"]
    context_probabilities: Float[Array | np.ndarray, "contexts"]
    simulations: int = eqx.field(static=True)

    def __call__(self, policy: Policy, key: jax.Array) -> Policy:
        """Estimated Q-functions."""
        contexts, horizon, agents, _, _ = policy.shape
        # A few large draws, since each draw adds compilation time.
        first, *keys = jax.random.split(key, horizon + 1)
        shape = (self.simulations, 1 + agents * (1 + 2 * horizon))
        common = jax.random.uniform(first, shape, policy.dtype)
        chances = jnp.asarray(self.context_probabilities, policy.dtype)
        context = draw(common[:, 0], jnp.broadcast_to(chances, (self.simulations, contexts)))
        common = common[:, 1:].reshape(self.simulations, -1, agents)
        state = draw(common[:, 0], jnp.asarray(self.dynamics.initial, policy.dtype)[context])
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
        """(contexts, states, actions): Q-function of agent i in step h."""
        contexts, horizon, agents, states, actions = policy.shape
        logged = jnp.asarray(self.states, policy.dtype)[context, h, i]
        own = draw(uniforms[:, 0], logged)
        covering = (policy + jnp.asarray(self.behaviour, policy.dtype))[context, h, i, own] / 2
        action = draw(uniforms[:, 1], covering)
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
        """Next states and rewards of one joint step; `forced` fixes one agent's action."""
        everybody = jnp.arange(policy.shape[2])
        action = draw(uniforms[:, 0], policy[context[:, None], h, everybody, state])
        if forced is not None:
            action = action.at[:, forced[0]].set(forced[1])
        move = state * policy.shape[-1] + action
        reward = self.rewards(context * policy.shape[1] + h, move)
        kernel = jnp.asarray(self.dynamics.transitions, policy.dtype)
        following = draw(uniforms[:, 1], kernel[context[:, None], h, everybody, state, action])
        return following, reward.astype(policy.dtype)


def draw(uniform: Array, chances: Array) -> Array:
    """Draw one index from each distribution on the last axis."""
    return (uniform[..., None] >= jnp.cumsum(chances, -1)[..., :-1]).sum(-1)
