"""Product policies near a learned mixture, which agents can follow without coordination.

No-regret learning returns a mixture, and its gap assumes that a mediator draws one component for
all agents. A product policy needs no mediator. Three product policies are tried in a fitted model,
until one is about as good as the mixture: the one in which every agent has its marginal play in the
mixture, and the results of minimising the sum of all gains from there and from the best component.

The minimisation follows the gradient of the Nikaido-Isoda function, the sum over agents of the gain
of the best own action, with Adam on the logits. This function has local minima that are not
equilibria, so a policy is judged by its bound, not by how it was found.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from equipoise.core.precision import double_precision
from equipoise.offline._model import Model
from equipoise.offline._play import averaged
from equipoise.offline._solve import critic_of
from equipoise.solvers.no_regret import ExactCritic

#: Number of gradient steps, and the initial step size.
STEPS, RATE = 400, 0.3
#: Weight of the log's play in the starting policy, since pure policies have no gradient.
MIXED = 0.02


def products(
    model: Model, models: list[Model], policies: np.ndarray, support: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield product policies, each with its counterparts from the models of the parts.

    `policies` are (parts, components, contexts, horizon, agents, states, actions), and `support`
    says which actions may be played.
    """
    dynamics: Any = model.dynamics
    parts = np.stack([averaged(dynamics, own) for own in policies])
    start = averaged(dynamics, policies.reshape(-1, *policies.shape[2:]))
    yield start, parts
    every = policies.reshape(-1, *policies.shape[2:])
    for begin in (start, every[np.argmin(_gains(model, every, support))]):
        found = [_descend(each, begin, support) for each in (model, *models)]
        yield found[0], np.stack(found[1:])


def _gains(model: Model, policies: np.ndarray, support: np.ndarray) -> np.ndarray:
    """(components,): sum of all agents' gains in a model."""
    with double_precision():
        given = (critic_of(model), jnp.asarray(model.context_probabilities), jnp.asarray(support))
        return np.array([_gap(*given, jnp.asarray(policy)) for policy in policies])


def _descend(model: Model, start: np.ndarray, support: np.ndarray) -> np.ndarray:
    """Minimise the sum of all gains in a model from `start`; return the policy reached."""
    nu = model.behaviour.reshape(start.shape)
    begin = np.where(support, (1.0 - MIXED) * start + MIXED * nu, 0.0)
    scale = 1.0 / max(model.reward_scale, 1e-300)
    with double_precision():
        arrays = (jnp.asarray(x) for x in (model.context_probabilities, support, begin, scale))
        return np.asarray(_descended(critic_of(model), *arrays))


@eqx.filter_jit
def _gap(critic: ExactCritic, contexts: Any, support: Any, policy: Any) -> Any:
    """Sum over agents and places of the gain of the best own action."""
    q = critic(policy, jax.random.key(0))
    best = jnp.where(support, q, -jnp.inf).max(-1)
    gains = jnp.where(support.any(-1), best - (policy * q).sum(-1), 0.0)
    occupied = critic.dynamics.occupancies(policy).sum(-1)
    return jnp.einsum("c,chns->", contexts, jax.lax.stop_gradient(occupied) * gains)


@eqx.filter_jit
def _descended(critic: ExactCritic, contexts: Any, support: Any, begin: Any, scale: Any) -> Any:
    adam = optax.adam(optax.cosine_decay_schedule(RATE, STEPS))
    anything = support.any(-1, keepdims=True)

    def policy_of(logits: Any) -> Any:
        return jax.nn.softmax(jnp.where(support | ~anything, logits, -jnp.inf), -1)

    def step(carry: Any, _: Any) -> Any:
        logits, state, best = carry
        gap, slope = jax.value_and_grad(
            lambda given: _gap(critic, contexts, support, policy_of(given)) * scale
        )(logits)
        best = jax.tree.map(
            lambda new, old: jnp.where(gap < best[0], new, old), (gap, logits), best
        )
        change, state = adam.update(slope, state, logits)
        return (logits + change, state, best), None

    logits = jnp.log(jnp.maximum(begin, 1e-9))
    carry = (logits, adam.init(logits), (jnp.array(jnp.inf), logits))
    (*_, best), _ = jax.lax.scan(step, carry, length=STEPS)
    return policy_of(best[1])
