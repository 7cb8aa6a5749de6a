"""Finite discounted Markov decision processes: policy evaluation and optimal values.

The code uses NumPy in float64, over any leading batch axes: these are the exact parts of
certificates and solvers, memory-bound or LAPACK-bound at every size, and would not be faster
compiled.

`policy_value` and `best_response_value` return float64 values. `bracket_policy` and
`bracket_best_response` also prove bounds on their errors. Both rest on the *advantage* of an
action over a value V, written so that it is small where V is nearly right:

    A(s, a) = r(s, a) - (1 - gamma) V(s) + gamma sum_t P(t | s, a) (V(t) - V(s))

V is stored as the unevaluated sum of two floats, so that the differences have full relative
precision even where V is a million times a reward. If the advantages of all actions in all states
that can be reached from s are at most c, then no policy is worth more than V(s) + c / (1 - gamma)
there (V + c / (1 - gamma) is a supersolution of the optimality equation on a closed set of states;
Puterman, 1994, Theorem 6.2.2). The same argument bounds the value of one policy from below.

`best_response` and `evaluate_policy` use JAX instead, for losses and for opponents in compiled
play: they are differentiable, and as exact as JAX's precision.
"""

from typing import Any, NamedTuple

import numpy as np

from equipoise.core.reductions import extremes, largest
from equipoise.core.rounding import EPS, TINY
from equipoise.core.shapes import Array, Float

#: Steps of policy iteration in JAX: small games need two or three to find best responses.
IMPROVEMENTS = 8
#: Rounds of policy iteration with accurate advantages, after ordinary policy iteration has ended.
_MOST_ROUNDS = 64


class Bracket(NamedTuple):
    """A value as the sum `value + rest`, with error bounds in each state."""

    value: Float[np.ndarray, "*batch states"]
    rest: Float[np.ndarray, "*batch states"]
    #: The true value is at most this much above the sum.
    above: Float[np.ndarray, "*batch states"]
    #: The value of the policy (the given one, or the best one found) is at most this much below
    #: the sum.
    below: Float[np.ndarray, "*batch states"]
    #: The largest discounted sum of `size` that any policy can reach.
    reach: Float[np.ndarray, "*batch states"]


def policy_value(
    reward: Float[np.ndarray, "*batch states"],
    transition: Float[np.ndarray, "*batch states states"],
    discount: float,
) -> Float[np.ndarray, "*batch states"]:
    """Return the discounted value of a Markov chain with rewards, by one linear solve.

    >>> policy_value(np.ones(1), np.ones((1, 1)), 0.5).tolist()
    [2.0]
    """
    matrix = np.eye(reward.shape[-1]) - discount * transition
    return np.linalg.solve(matrix, reward[..., None])[..., 0]


def best_response_value(
    reward: Float[np.ndarray, "*batch states actions"],
    transition: Float[np.ndarray, "*batch states actions states"],
    discount: float,
) -> Float[np.ndarray, "*batch states"]:
    """Return the optimal value of a Markov decision process, by policy iteration.

    An action replaces the current one only if it is better by more than rounding, so that ties
    cannot make the iteration cycle; it ends when no state of any process can improve.
    `bracket_best_response` continues from there and bounds the remaining error.

    >>> best_response_value(np.array([[0.0, 1.0]]), np.ones((1, 2, 1)), 0.5).tolist()
    [2.0]
    """
    flat_reward, flat_transition = _flat(reward, transition)
    value, _ = _iterate(flat_reward, flat_transition, discount)
    return value.reshape(reward.shape[:-1])


def bracket_policy(
    reward: Float[np.ndarray, "*batch states"],
    transition: Float[np.ndarray, "*batch states states"],
    discount: float,
    size: Float[np.ndarray, "*batch states"],
    operations: int,
) -> Bracket:
    """Return the value of a Markov chain with rewards, and bounds on its error.

    Rewards may have an error of `operations * eps * size`, and each transition a relative error of
    `operations * eps`. Rewards must be of ordinary size; see `core.rounding`.

    >>> bracket = bracket_policy(np.ones(1), np.ones((1, 1)), 0.5, np.ones(1), 1)
    >>> bracket.value.tolist(), bool(0 < bracket.above[0] < 1e-14)
    ([2.0], True)
    """
    shape = np.broadcast_shapes(reward.shape, transition.shape[:-1])
    states = shape[-1]
    reward, size = (np.broadcast_to(a, shape).reshape(-1, states) for a in (reward, size))
    transition = np.broadcast_to(transition, (*shape, states)).reshape(-1, states, states)
    value, rest, difference = _refined(reward, transition, discount, None)
    advantage = _advantage(reward, transition, discount, value, rest, difference)
    reach = transition > 0.0
    error = _errors(size, reach, value, rest, difference, discount, operations)
    off = _discounted(np.abs(advantage) + error, reach, discount)
    far = _discounted(size, reach, discount)
    return Bracket(*(array.reshape(shape) for array in (value, rest, off, off, far)))


def bracket_best_response(
    reward: Float[np.ndarray, "*batch states actions"],
    transition: Float[np.ndarray, "*batch states actions states"],
    discount: float,
    size: Float[np.ndarray, "*batch states"],
    operations: int,
) -> Bracket:
    """Return the value of a policy found by policy iteration, and bounds over all policies.

    The arguments are those of `bracket_policy`; `size` bounds the absolute rewards of all actions
    of a state.

    >>> process = np.array([[0.0, 1.0]]), np.ones((1, 2, 1))
    >>> bracket = bracket_best_response(*process, 0.5, np.ones(1), 1)
    >>> bracket.value.tolist(), bool(0 < bracket.above[0] < 1e-14)
    ([2.0], True)
    """
    shape = reward.shape[:-1]
    reward, transition = _flat(reward, transition)
    size = size.reshape(-1, shape[-1])
    value, choice = _iterate(reward, transition, discount)
    reach = np.matmul(np.ones(transition.shape[2]), transition) > 0.0
    rest, above, below = (np.zeros_like(value) for _ in range(3))
    going = np.arange(len(value))
    for _ in range(_MOST_ROUNDS):
        some = slice(None) if len(going) == len(value) else going
        r, p, chosen = reward[some], transition[some], choice[some]
        index = (np.arange(len(r))[:, None], np.arange(shape[-1]), chosen)
        v, w, difference = _refined(r[index], p[index], discount, value[some])
        error = _errors(size[some], reach[some], v, w, difference, discount, operations)
        ahead = np.matmul(p, difference[..., None])[..., 0]
        stay = (1.0 - discount) * v + (1.0 - discount) * w
        advantage = r + discount * ahead - stay[..., None]
        here = advantage[index]
        best = largest(advantage)
        value[some], rest[some] = v, w
        above[some] = _discounted(np.maximum(best, 0.0) + error, reach[some], discount)
        below[some] = _discounted(np.abs(here) + error, reach[some], discount)
        better = best > here + 2.0 * error
        if not better.any():
            break
        choice[some] = np.where(better, advantage.argmax(-1), chosen)
        moved = better.any(-1)
        going = going[moved]
    far = _discounted(size, reach, discount)
    return Bracket(*(array.reshape(shape) for array in (value, rest, above, below, far)))


def _flat(reward: np.ndarray, transition: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    states, actions = reward.shape[-2:]
    return reward.reshape(-1, states, actions), transition.reshape(-1, states, actions, states)


def _iterate(
    reward: np.ndarray, transition: np.ndarray, discount: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values and actions of policies at which policy iteration ends."""
    states, actions = reward.shape[1:]
    scale = np.abs(reward).max((1, 2)) / (1.0 - discount)
    margin = 32 * EPS * scale[:, None]
    choice = reward.argmax(-1)
    value = np.zeros(reward.shape[:2])
    going = np.arange(len(reward))
    while len(going):
        index = (going[:, None], np.arange(states), choice[going])
        value[going] = policy_value(reward[index], transition[index], discount)
        some = slice(None) if len(going) == len(reward) else going
        ahead = np.matmul(
            transition[some].reshape(-1, states * actions, states), value[going, :, None]
        )
        q = reward[some] + discount * ahead.reshape(-1, states, actions)
        current = np.take_along_axis(q, choice[going, :, None], -1)[..., 0]
        better = q.max(-1) > current + margin[going]
        choice[going] = np.where(better, q.argmax(-1), choice[going])
        going = going[better.any(-1)]
    return value, choice


def _refined(
    reward: np.ndarray, transition: np.ndarray, discount: float, value: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the value of chains as a sum of two floats, and the differences between states."""
    if value is None:
        value = policy_value(reward, transition, discount)
    rest = np.zeros_like(value)
    difference = value[:, None, :] - value[:, :, None]
    for _ in range(1 if discount <= 0.99 else 2):
        advantage = _advantage(reward, transition, discount, value, rest, difference)
        value, rest = _two_sum(value, rest + policy_value(advantage, transition, discount))
        difference = _difference(value, rest)
    return value, rest, difference


def _difference(value: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """(games, states, states): the value of each state minus that of each other state."""
    difference = value[:, None, :] - value[:, :, None]
    difference += rest[:, None, :] - rest[:, :, None]
    return difference


def _advantage(reward, transition, discount: float, value, rest, difference) -> np.ndarray:
    """Return what one step of a chain adds to a value; zero for the chain's own value."""
    ahead = np.einsum("gst,gst->gs", transition, difference)
    return reward + discount * ahead - ((1.0 - discount) * value + (1.0 - discount) * rest)


def _two_sum(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum, and its rounding error (Knuth)."""
    total = first + second
    part = total - first
    return total, (first - (total - part)) + (second - part)


def _errors(
    size: np.ndarray,
    reach: np.ndarray,
    value: np.ndarray,
    rest: np.ndarray,
    difference: np.ndarray,
    discount: float,
    operations: int,
) -> np.ndarray:
    """Bounds on the errors of computed advantages in each state, for any action."""
    states = value.shape[-1]
    away = np.abs(difference)
    away *= reach
    away = largest(away) + 2.0 * (np.abs(rest) + EPS * np.abs(value))
    stay = (1.0 - discount) * (np.abs(value) + np.abs(rest))
    terms = (operations + 8) * size + (operations + states + 8) * away + 8 * stay
    # Products with probabilities below 1e-308 underflow, whatever state they lead to.
    most = largest(size)[:, None]
    return EPS * terms + TINY * (1.0 + most) * (most > 0.0)


def _discounted(error: np.ndarray, reach: np.ndarray, discount: float) -> np.ndarray:
    """Return the largest error of any state that can be reached, summed over all future steps."""
    low, high = extremes(error)
    worst = np.empty_like(error)
    worst[:] = high[:, None]
    uneven = np.flatnonzero(high > 4.0 * low)
    if len(uneven):
        here, links = error[uneven], reach[uneven]
        while True:
            further = np.maximum(here, np.where(links, here[:, None, :], 0.0).max(-1))
            if np.array_equal(further, here):
                break
            here = further
        worst[uneven] = here
    return worst / (1.0 - discount) * (1.0 + 8 * EPS)


def best_response(
    reward: Float[Array, "*rounds states actions"],
    transition: Float[Array, "*rounds states actions states"],
    discount: float,
) -> tuple[Float[Array, "*rounds states"], Float[Array, "*rounds states actions"]]:
    """Return the value and a deterministic optimal policy of a decision process.

    Policy iteration finds both. The value is differentiable in rewards and transitions.

    >>> import jax.numpy as jnp
    >>> value, policy = best_response(jnp.array([[0.0, 1.0]]), jnp.ones((1, 2, 1)), 0.5)
    >>> value.tolist(), policy.tolist()
    ([2.0], [[0.0, 1.0]])
    """
    import jax

    fixed_reward, fixed_transition = jax.lax.stop_gradient((reward, transition))

    def improve(_: Any, policy: Array) -> Array:
        value = evaluate_policy(policy, fixed_reward, fixed_transition, discount)
        action_values = fixed_reward + discount * jax.numpy.einsum(
            "...saz,...z->...sa", fixed_transition, value
        )
        return jax.nn.one_hot(action_values.argmax(-1), reward.shape[-1])

    greedy = jax.nn.one_hot(fixed_reward.argmax(-1), reward.shape[-1])
    policy = jax.lax.fori_loop(0, IMPROVEMENTS, improve, greedy)
    return evaluate_policy(policy, reward, transition, discount), policy


def evaluate_policy(policy: Array, reward: Array, transition: Array, discount: float) -> Array:
    """Return the value of a policy: `(I - discount P) v = r`, solved by elimination.

    The elimination is unrolled over the few states and elementwise over everything else: batches of
    tiny systems are slow in a general solver. The matrix is diagonally dominant, so that no
    pivoting is needed.
    """
    import jax.numpy as jnp

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
