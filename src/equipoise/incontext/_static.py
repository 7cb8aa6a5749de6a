"""Policies that do not adapt: what a player can achieve by memorising a family.

A player that learns in context must beat all of them: uniform play, the equilibrium of the game
the family is centred on, the mean of the equilibria, and the best single pair of policies.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from scipy import sparse
from scipy.optimize import linprog
from scipy.special import softmax

from equipoise.core.errors import named_arguments
from equipoise.core.mdp import evaluate_policy
from equipoise.core.precision import single_precision
from equipoise.games import MarkovGame, MatrixGame
from equipoise.games.families import Family
from equipoise.incontext._contexts import best_responses
from equipoise.solvers import solve

Games = MatrixGame | MarkovGame
Pair = tuple[np.ndarray, np.ndarray]

#: Number of steps and learning rate of gradient descent for Markov games, where no linear program
#: finds the best pair.
STEPS, RATE = 400, 0.05


def static_names(family: Family | None) -> list[str]:
    """Return the names of the pairs that `static_policies` returns.

    >>> static_names(None)
    ['uniform', 'mean Nash', 'best static']
    """
    centred = family is not None and family.base is not None
    return ["uniform", *(["base Nash"] if centred else []), "mean Nash", "best static"]


@named_arguments
def static_policies(sample: Games, family: Family | None = None) -> dict[str, Pair]:
    """Return the pairs of policies, by name, that training on a sample of games could memorise.

    **Example**

    >>> from equipoise.games import families
    >>> family = families.uniform(actions=2)
    >>> sorted(static_policies(family.sample(50, key=0), family))
    ['best static', 'mean Nash', 'uniform']
    """
    states = () if isinstance(sample, MatrixGame) else (sample.states,)
    x, y = (np.full((*states, count), 1.0 / count) for count in sample.actions)
    found = {"uniform": (x, y)}
    if family is not None and family.base is not None:
        x, y = solve(family.base).policy
        found["base Nash"] = (np.asarray(x), np.asarray(y))
    x, y = solve(sample).policy
    found["mean Nash"] = (np.asarray(x).mean(0), np.asarray(y).mean(0))
    found["best static"] = best_static(sample)
    return found


def best_static(sample: Games) -> Pair:
    """Return the single pair of policies with the smallest mean NashConv over a sample of games.

    For matrix games the problem splits into `max_x mean_i min_b (x'A_i)_b` and the same for the
    column player: two linear programs, solved exactly. For Markov games, gradient descent from the
    mean of the equilibria finds a local optimum.

    >>> from equipoise.games import MatrixGame
    >>> games = MatrixGame(np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]]))
    >>> [p.tolist() for p in best_static(games)]
    [[0.5, 0.5], [0.5, 0.5]]
    """
    if isinstance(sample, MatrixGame):
        payoff = np.asarray(sample.payoff)
        return _safest(payoff), _safest(-np.swapaxes(payoff, -1, -2))
    return _descend(sample)


def _safest(payoff: Float[np.ndarray, "games rows columns"]) -> np.ndarray:
    """Return the row strategy with the largest mean, over games, of its worst-case payoff."""
    games, rows, columns = payoff.shape
    # v_i <= (x'A_i)_b for every game i and column b; the mean of the v_i is maximised.
    own = -np.swapaxes(payoff, 1, 2).reshape(games * columns, rows)
    worst = sparse.kron(sparse.identity(games), np.ones((columns, 1)))
    found = linprog(
        np.concatenate([np.zeros(rows), np.full(games, -1.0 / games)]),
        A_ub=sparse.hstack([own, worst]).tocsr(),
        b_ub=np.zeros(games * columns),
        A_eq=np.concatenate([np.ones(rows), np.zeros(games)])[None],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)] * games,
        method="highs",
    )
    if found.x is None:
        raise RuntimeError(f"the linear program of the best static policy failed: {found.message}")
    policy = np.maximum(found.x[:rows], 0.0)
    return policy / policy.sum()


def _descend(sample: MarkovGame) -> Pair:
    x, y = solve(sample).policy
    first = [np.log(np.maximum(np.asarray(p).mean(0), 1e-3)) for p in (x, y)]
    adam = optax.adam(optax.cosine_decay_schedule(RATE, STEPS))

    @jax.jit
    def descend(logits: Any, reward: Array, transition: Array) -> Any:
        def mean_gap(logits: Any) -> Array:
            x, y = (jax.nn.softmax(part, -1) for part in logits)
            one = jax.vmap(lambda r, p: certified_gap(r, p, sample.discount, x, y))
            return one(reward, transition).mean()

        def step(carry: Any, _: None) -> tuple[Any, None]:
            logits, memory, best, lowest = carry
            value, gradient = jax.value_and_grad(mean_gap)(logits)
            better = value < lowest
            best = jax.tree.map(lambda new, old: jnp.where(better, new, old), logits, best)
            change, memory = adam.update(gradient, memory)
            after = optax.apply_updates(logits, change)
            return (after, memory, best, jnp.minimum(value, lowest)), None

        carry = (logits, adam.init(logits), logits, jnp.float32(jnp.inf))
        return jax.lax.scan(step, carry, None, length=STEPS)[0][2]

    with single_precision():
        arrays = (jnp.asarray(a, jnp.float32) for a in (sample.reward, sample.transition))
        best = descend([jnp.asarray(a, jnp.float32) for a in first], *arrays)
    x, y = (softmax(np.asarray(part, np.float64), -1) for part in best)
    return x, y


def certified_gap(
    reward: Float[Array, "states rows columns"],
    transition: Float[Array, "states rows columns states"],
    discount: float,
    x: Float[Array, "states rows"],
    y: Float[Array, "states columns"],
) -> Array:
    """Return the `nash_conv` of certificates for Markov games, in differentiable form.

    It is the sum of both players' gains, each in its worst starting state.
    """
    against = jnp.einsum("sab,sb->sa", reward, y), jnp.einsum("sabz,sb->saz", transition, y)
    value = evaluate_policy(x, *against, discount)
    best, worst = best_responses(reward, transition, discount, x, y)
    return (best - value).max() + (worst + value).max()
