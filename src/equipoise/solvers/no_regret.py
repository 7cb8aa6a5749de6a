"""No-regret learning of all agents of a game with interaction terms.

A critic returns the value of each own action, averaged over the others' play: `Q_i(c, s_i, a_i)`
for all agents, contexts, steps and states at once. `iterate` lets every agent, in every context,
step and local state, take regularised mirror steps on its critic's values. The uniform mixture of
the iterates is an approximate coarse correlated equilibrium of the game that the critic
represents: the game itself in `equipoise.solve`, or a game fitted to a log in `equipoise.offline`,
where the regulariser keeps all agents near the data that the log covers (DR-AC, Algorithm 1).

A critic is a pytree and a traceable function of (policy, key). Policies have the axes (contexts,
horizon, agents, states, actions); horizon and states have length one in a contextual game.

A step (Eq. 2 and 4) maximises `<p, q> - strength R(p, behaviour) - D(p, policy) / step` over the
simplex, in closed form: with chi-squared divergences as in the paper, or with relative entropies or
Euclidean distances (Remark 2). Relative entropies of strength zero are multiplicative weights.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from equipoise.core.precision import double_precision
from equipoise.core.randomness import as_key
from equipoise.core.simplex import chi_squared_step, project
from equipoise.games import ContextualGame, DecoupledMarkovGame, Interactions

__all__ = ["STEPS", "Critic", "Dynamics", "ExactCritic", "iterate"]

#: If at least this fraction of pairs has a term, pairs become one matrix product per situation.
DENSE_SHARE = 0.25

Policy = Float[Array, "contexts horizon agents states actions"]


class Dynamics(eqx.Module):
    """Initial distribution and transitions of local states; trivial in contextual games.

    **Example**

    >>> import jax, equipoise as eq
    >>> from equipoise.solvers.no_regret import Dynamics
    >>> game = eq.games.families.polymatrix(agents=3, actions=2, states=2, horizon=4).sample(key=0)
    >>> Dynamics.of(game).occupancies(jax.numpy.asarray(game.uniform_policy())).shape
    (1, 4, 3, 2, 2)
    """

    #: Distribution of the first states.
    initial: Float[Array | np.ndarray, "contexts agents states"]
    #: Transition probabilities.
    transitions: Float[Array | np.ndarray, "contexts horizon agents states actions next_states"]

    @classmethod
    def of(cls, game: ContextualGame | DecoupledMarkovGame) -> "Dynamics":
        """Return the dynamics of a game."""
        if isinstance(game, DecoupledMarkovGame):
            return cls(np.asarray(game.initial), np.asarray(game.transitions))
        contexts, agents, actions = game.policy_shape
        return cls(np.ones((contexts, agents, 1)), np.ones((contexts, 1, agents, 1, actions, 1)))

    def occupancies(self, policy: Policy) -> Policy:
        """Return each agent's probabilities of state and action, step by step."""
        here = jnp.asarray(self.initial, policy.dtype)
        found = []
        for h in range(policy.shape[1]):
            joint = here[..., None] * policy[:, h]
            found.append(joint)
            kernel = jnp.asarray(self.transitions[:, h], policy.dtype)
            here = jnp.einsum("cnsa,cnsat->cnt", joint, kernel)
        return jnp.stack(found, 1)

    def backward(self, rewards: Policy, policy: Policy) -> Policy:
        """Return Q-functions from expected rewards of own moves (Lemma 11)."""
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
        """Return the Q-functions of a product policy."""


class ExactCritic(Critic):
    """Expected rewards through the others' occupancies, then one backward pass per agent.

    This is the critic update of DR-AC (line 7 of Algorithm 1 of the interaction-rank paper),
    without simulations: Lemma 11 has the backward pass.

    **Example**

    >>> import jax, equipoise as eq
    >>> from equipoise.solvers.no_regret import ExactCritic
    >>> game = eq.games.families.polymatrix(agents=3, actions=2, states=2, horizon=4).sample(key=0)
    >>> ExactCritic.of(game)(jax.numpy.asarray(game.uniform_policy()), jax.random.key(0)).shape
    (1, 4, 3, 2, 2)
    """

    #: Transitions of local states.
    dynamics: Dynamics
    #: `Interactions`, or other rewards with a method `expected`.
    terms: Any
    #: (situations, agents * moves, agents * moves) if pairs are dense; otherwise None.
    pairs: Float[Array | np.ndarray, "situations rows columns"] | None
    #: (situations, agents, moves): own terms if pairs are dense; otherwise None.
    own: Float[Array | np.ndarray, "situations agents moves"] | None

    @classmethod
    def of(cls, game: ContextualGame | DecoupledMarkovGame) -> "ExactCritic":
        """Return the critic of a game with interaction terms."""
        terms = game.interactions
        pairs = len(terms.scopes.get(2, ()))
        if pairs < DENSE_SHARE * terms.agents * (terms.agents - 1) or pairs == 0:
            return cls(Dynamics.of(game), terms, None, None)
        rest = {k: v for k, v in terms.scopes.items() if k > 2}
        tables = {k: terms.tables[k] for k in rest}
        others = Interactions(rest, tables, terms.agents) if rest else None
        return cls(Dynamics.of(game), others, *dense_pairs(terms))

    def __call__(self, policy: Policy, key: jax.Array) -> Policy:
        """Return the Q-functions of a product policy; the key is not used."""
        return self.dynamics.backward(self.rewards(policy), policy)

    def rewards(self, policy: Policy) -> Policy:
        """Return E[r_i | s_i, a_i] in every step."""
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
    """Return pair terms as one matrix per situation, and terms of order one as a table."""
    situations, agents, moves = terms.situations, terms.agents, terms.moves
    own = np.zeros((situations, agents, moves))
    matrix = np.zeros((situations, agents, agents, moves, moves))
    for order, sums in ((1, own), (2, matrix)):
        for m, scope in enumerate(terms.scopes.get(order, ())):
            sums[:, *scope] += terms.tables[order][:, m]
    size = agents * moves
    return matrix.swapaxes(2, 3).reshape(situations, size, size), own


def entropy_step(policy: Array, q: Array, behaviour: Array, *, step: Any, strength: Any) -> Array:
    """Mirror step with relative entropies:
    `p ~ exp((strength log nu + log pi / step + q) / (strength + 1/step))`.

    Actions that the behaviour policy never plays keep probability zero.

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
    """Mirror step with squared Euclidean distances; it may leave the behaviour's support.

    Only available actions receive probability.

    >>> nu = jnp.array([0.5, 0.5])
    >>> p = euclidean_step(nu, jnp.array([1.0, 0.0]), nu, step=1.0, strength=1.0)
    >>> [round(float(x), 4) for x in p]
    [0.625, 0.375]
    """
    point = (strength * behaviour + policy / step + q / 2) / (strength + 1 / step)
    if available is not None:
        available = jnp.broadcast_to(available, point.shape)
    return project(point, weights=available)


#: Step function of each regulariser, by name.
STEPS: dict[str, Callable[..., Array]] = {
    "chi-squared": chi_squared_step,
    "kl": entropy_step,
    "l2": euclidean_step,
}


def iterate(
    critic: Critic,
    behaviour: Any,
    *,
    step: Any,
    iterations: int,
    strength: float = 0.0,
    regulariser: str = "kl",
    start: Any = None,
    available: Any = None,
    key: Any = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take regularised mirror steps of all agents at once.

    With "chi-squared" these are the steps of Eq. (2) and Eq. (4) of the interaction-rank paper, as
    DR-AC (Algorithm 1) takes them.

    Args:
        critic: Value of own actions.
        behaviour: The policy that the regulariser stays near, with all five axes.
        step: Step size, for all agents or as an array (agents, 1, 1).
        iterations: Number of policies to return.
        strength: Weight of the regulariser.
        regulariser: One of `STEPS`.
        start: The first policy. Default: the behaviour.
        available: (agents, actions): with "l2", which actions exist. Default: actions that the
            behaviour plays somewhere. Other regularisers never leave its support.
        key: Random key of the critic.

    Returns all iterates, beginning with `start`; the mean of their Q-functions; and the mean value
    (contexts, horizon, agents, states) of the iterates under their own Q-functions.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.solvers import no_regret
    >>> game = eq.games.families.polymatrix(agents=5, actions=3).sample(key=0)
    >>> uniform = game.uniform_policy()[:, None, :, None, :]
    >>> critic = no_regret.ExactCritic.of(game)
    >>> policies, _, _ = no_regret.iterate(critic, uniform, step=3.0, iterations=200)
    >>> mixture = eq.games.Mixture(policies[..., 0, :, 0, :])
    >>> before, after = (eq.certify(game, p).max_gain for p in (uniform[:, 0, :, 0], mixture))
    >>> bool(after < before / 20)
    True
    """
    with double_precision():
        given = (behaviour, behaviour if start is None else start, step, strength)
        arrays = tuple(jnp.asarray(x, jnp.float64) for x in given)
        mask = None
        if regulariser == "l2":
            given_mask = np.asarray(behaviour).any((0, 1, 3)) if available is None else available
            mask = jnp.asarray(given_mask, jnp.float64)[:, None]
        found = _iterate(critic, (*arrays, mask), as_key(key), iterations, regulariser)
        return tuple(np.asarray(x) for x in found)  # pyright: ignore[reportReturnType]


@eqx.filter_jit
def _iterate(
    critic: Critic, given: tuple[Any, ...], key: jax.Array, iterations: int, regulariser: str
) -> Any:
    behaviour, start, step, strength, available = given
    options = {"step": step, "strength": strength}
    if available is not None:
        options["available"] = available

    def one(carry: Any, t: Any) -> Any:
        policy, q_sum, value_sum = carry
        q = critic(policy, jax.random.fold_in(key, t))
        # A constant common to all actions changes no policy, but would cost digits.
        ahead = q - (behaviour * q).sum(-1, keepdims=True)
        following = STEPS[regulariser](policy, ahead, behaviour, **options)
        return (following, q_sum + q, value_sum + (policy * q).sum(-1)), policy

    begin = (start, jnp.zeros_like(start), jnp.zeros_like(start[..., 0]))
    (_, q, value), policies = jax.lax.scan(one, begin, jnp.arange(iterations))
    return policies, q / iterations, value / iterations
