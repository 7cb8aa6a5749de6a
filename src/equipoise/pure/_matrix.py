"""Zero-sum matrix games and the gains of policies, as differentiable functions.

The value of a zero-sum game has the derivative x y' with respect to its payoffs (the envelope
theorem: both strategies are optimal, so that to first order only the payoffs move it). The
strategies themselves move too. Where the equilibrium is unique and non-degenerate, its supports
stay the same nearby, and both players' conditions of indifference on them are a linear system:

    sum_i x_i A_ij = v  for j in the column player's support,  x_i = 0 off the row player's,
    sum_i x_i = 1,

whose differential gives the derivative of x and v, and likewise that of y. At a degenerate game the
equilibrium is not differentiable; the least-squares solution of the same system is then one
generalised derivative, and that of the value is still a supergradient of it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from equipoise.core.zerosum import pivot_to_optimum


class ZeroSum(NamedTuple):
    """An equilibrium of each zero-sum game: strategies of both players, and the value.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise import pure
    >>> point = pure.zero_sum(jnp.array([[3.0, -1.0], [-2.0, 1.0]]))
    >>> isinstance(point, pure.ZeroSum), [round(float(p), 3) for p in point.x]
    (True, [0.429, 0.571])
    """

    #: (..., rows): the row player's strategy.
    x: Float[Array, "..."]
    #: (..., columns): the column player's strategy.
    y: Float[Array, "..."]
    #: (...): the value to the row player.
    value: Float[Array, "..."]


@jax.custom_jvp
def zero_sum(payoff: Float[Array, "..."]) -> ZeroSum:
    """An equilibrium of zero-sum games with payoffs of shape (..., rows, columns).

    Pivots are made in the precision of `payoff`: about 1e-6 of the payoff range in float32, and
    1e-14 in float64. Nothing is certified: pass the result to `gains`. The derivative of the value
    is the outer product of the strategies; that of the strategies is exact where the equilibrium is
    unique and non-degenerate.

    **Example**

    >>> import jax, jax.numpy as jnp
    >>> from equipoise import pure
    >>> payoff = jnp.array([[3.0, -1.0], [-2.0, 1.0]])
    >>> round(float(pure.zero_sum(payoff).value), 4)
    0.1429
    >>> slope = jax.grad(lambda a: pure.zero_sum(a).value)(payoff)
    >>> [round(float(entry), 4) for entry in slope.ravel()]
    [0.1224, 0.3061, 0.1633, 0.4082]
    """
    *batch, rows, columns = payoff.shape
    games_last = jnp.moveaxis(payoff.reshape(-1, rows, columns), 0, -1)
    low = games_last.min((0, 1))
    optimum = pivot_to_optimum(games_last - low, refinements=2)
    return ZeroSum(
        optimum.x.T.reshape(*batch, rows),
        optimum.y.T.reshape(*batch, columns),
        (optimum.value + low).reshape(tuple(batch)),
    )


@zero_sum.defjvp
def _zero_sum_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[ZeroSum, ZeroSum]:
    (payoff,), (change,) = primals, tangents
    point = zero_sum(payoff)
    x, y, _ = point
    slack = 64 * jnp.finfo(payoff.dtype).eps
    rows_used, columns_used = x > slack, y > slack
    seen_by_columns = jnp.einsum("...ij,...i->...j", change, x)
    seen_by_rows = jnp.einsum("...ij,...j->...i", change, y)
    dx = _moved(jnp.swapaxes(payoff, -1, -2), seen_by_columns, rows_used, columns_used)
    dy = _moved(payoff, seen_by_rows, columns_used, rows_used)
    return point, ZeroSum(dx, dy, (seen_by_rows * x).sum(-1))


def _moved(payoff: Any, drift: Any, own_used: Any, other_used: Any) -> Any:
    """How an equilibrium strategy moves when the payoffs of the other's actions drift.

    `payoff` is (..., others, own). The other player stays indifferent among the actions it uses.
    """
    *batch, others, own = payoff.shape
    dtype = payoff.dtype
    low, high = payoff.min((-1, -2)), payoff.max((-1, -2))
    scale = jnp.where(high > low, 1.0 / (high - low), 1.0)
    scaled = (payoff - low[..., None, None]) * scale[..., None, None]
    indifferent = jnp.concatenate([scaled, -jnp.ones((*batch, others, 1), dtype)], -1)
    indifferent = indifferent * other_used[..., None]
    unused = jnp.eye(own, own + 1, dtype=dtype) * ~own_used[..., None]
    summed = jnp.broadcast_to(jnp.ones(own + 1, dtype).at[-1].set(0.0), (*batch, 1, own + 1))
    system = jnp.concatenate([indifferent, unused, summed], -2)
    seen = -drift * other_used * scale[..., None]
    right = jnp.concatenate([seen, jnp.zeros((*batch, own + 1), dtype)], -1)
    inverse = jax.lax.stop_gradient(jnp.linalg.pinv(system))
    return jnp.einsum("...ij,...j->...i", inverse, right)[..., :own]


def gains(
    payoff: Float[Array, "..."], x: Float[Array, "..."], y: Float[Array, "..."]
) -> Float[Array, "..."]:
    """What each player of zero-sum games could gain by deviating: (..., 2), differentiable.

    The sum over the last axis is the NashConv. `payoff` is (..., rows, columns), `x` is (..., rows)
    and `y` is (..., columns); batch axes broadcast.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise import pure
    >>> pennies = jnp.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> pure.gains(pennies, jnp.array([1.0, 0.0]), jnp.array([0.5, 0.5])).tolist()
    [0.0, 1.0]
    """
    row_values = jnp.einsum("...ij,...j->...i", payoff, y)
    column_values = jnp.einsum("...ij,...i->...j", payoff, x)
    value = (row_values * x).sum(-1)
    both = jnp.broadcast_arrays(row_values.max(-1) - value, value - column_values.min(-1))
    return jnp.stack(both, -1)


def normal_form_gains(
    payoffs: Float[Array, "players *actions"], strategies: Sequence[Float[Array, " _"]]
) -> Float[Array, " players"]:
    """What each player of a normal form could gain by deviating: (players,), differentiable.

    `payoffs[i, a_1, ..., a_N]` goes to player i, who plays `strategies[i]`.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise import pure
    >>> dilemma = jnp.array([[[3.0, 0.0], [5.0, 1.0]], [[3.0, 5.0], [0.0, 1.0]]])
    >>> cooperate = jnp.array([1.0, 0.0])
    >>> pure.normal_form_gains(dilemma, [cooperate, cooperate]).tolist()
    [2.0, 2.0]
    """
    found = []
    for i, strategy in enumerate(strategies):
        own = payoffs[i]
        for j in reversed(range(len(strategies))):
            if j != i:
                own = jnp.tensordot(own, strategies[j], axes=(j, 0))
        found.append(own.max() - own @ strategy)
    return jnp.stack(found)
