"""How far two policies are from equilibrium, in a form that can be differentiated.

Certificates are computed elsewhere, in double precision and by other code; this is a loss. Games
are single; policies may have leading axes (rounds). By the envelope theorem, the gradient of the
value of a best response is that at the responding policy held fixed.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

#: Steps of policy iteration: best responses of small Markov games are found in two or three.
IMPROVEMENTS = 8


def matrix_gap(
    payoff: Float[Array, "rows columns"],
    x: Float[Array, "*rounds rows"],
    y: Float[Array, "*rounds columns"],
) -> Float[Array, "*rounds"]:
    """The duality gap `max_a (A y)_a - min_b (x'A)_b`.

    >>> import jax.numpy as jnp
    >>> pennies = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    >>> float(matrix_gap(pennies, jnp.array([1.0, 0.0]), jnp.array([0.5, 0.5])))
    0.5
    """
    return (y @ payoff.T).max(-1) - (x @ payoff).min(-1)


def markov_gap(
    reward: Float[Array, "states rows columns"],
    transition: Float[Array, "states rows columns states"],
    discount: float,
    x: Float[Array, "*rounds states rows"],
    y: Float[Array, "*rounds states columns"],
) -> Float[Array, "*rounds"]:
    """The duality gap of stationary policies, `max V^{*,y} - min V^{x,*}`, mean over states.

    In units of `1 / (1 - discount)`, so that it is comparable with that of a matrix game.

    >>> import jax.numpy as jnp
    >>> pennies = jnp.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> x, y = jnp.array([[1.0, 0.0]]), jnp.array([[0.5, 0.5]])
    >>> round(float(markov_gap(pennies, jnp.ones((1, 2, 2, 1)), 0.9, x, y)), 5)
    0.5
    """
    best, _ = best_response(
        jnp.einsum("sab,...sb->...sa", reward, y),
        jnp.einsum("sabz,...sb->...saz", transition, y),
        discount,
    )
    worst, _ = best_response(
        -jnp.einsum("sab,...sa->...sb", reward, x),
        jnp.einsum("sabz,...sa->...sbz", transition, x),
        discount,
    )
    return (1.0 - discount) * (best + worst).mean(-1)


def best_response(
    reward: Float[Array, "*rounds states actions"],
    transition: Float[Array, "*rounds states actions states"],
    discount: float,
) -> tuple[Float[Array, "*rounds states"], Float[Array, "*rounds states actions"]]:
    """Value and a deterministic optimal policy of a decision process, by policy iteration.

    The value can be differentiated with respect to rewards and transitions.

    >>> import jax.numpy as jnp
    >>> value, policy = best_response(jnp.array([[0.0, 1.0]]), jnp.ones((1, 2, 1)), 0.5)
    >>> value.tolist(), policy.tolist()
    ([2.0], [[0.0, 1.0]])
    """
    fixed_reward, fixed_transition = jax.lax.stop_gradient((reward, transition))

    def improve(_: Any, policy: Array) -> Array:
        value = evaluate_policy(policy, fixed_reward, fixed_transition, discount)
        action_values = fixed_reward + discount * jnp.einsum(
            "...saz,...z->...sa", fixed_transition, value
        )
        return jax.nn.one_hot(action_values.argmax(-1), reward.shape[-1])

    greedy = jax.nn.one_hot(fixed_reward.argmax(-1), reward.shape[-1])
    policy = jax.lax.fori_loop(0, IMPROVEMENTS, improve, greedy)
    return evaluate_policy(policy, reward, transition, discount), policy


def evaluate_policy(policy: Array, reward: Array, transition: Array, discount: float) -> Array:
    """The value of a policy: `(I - discount P) v = r`, solved by elimination.

    Unrolled over the few states and elementwise over everything else: batches of tiny systems
    are slow in a general solver. The matrix is diagonally dominant, so that no pivoting is needed.
    """
    chosen = jnp.einsum("...sa,...sa->...s", policy, reward)
    matrix = jnp.eye(reward.shape[-2]) - discount * jnp.einsum(
        "...sa,...saz->...sz", policy, transition
    )
    states = range(reward.shape[-2])
    rows: list[Any] = [jnp.append(matrix[..., s, :], chosen[..., s, None], -1) for s in states]
    for s in states:
        rows[s] = rows[s] / rows[s][..., s, None]
        rows = [
            row if other == s else row - row[..., s, None] * rows[s]
            for other, row in enumerate(rows)
        ]
    return jnp.stack([row[..., -1] for row in rows], -1)
