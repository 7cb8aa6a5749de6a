"""Zero-sum matrix games and the gains of policies, as differentiable functions.

The value of a zero-sum game has the derivative x y' with respect to its payoffs (the envelope
theorem: both strategies are optimal, so to first order the value changes only with the payoffs).
The strategies change too. If the equilibrium is unique and non-degenerate, its supports do not
change nearby, and both players' indifference conditions on them form a linear system:

    sum_i x_i A_ij = v  for j in the column player's support,  x_i = 0 off the row player's,
    sum_i x_i = 1,

whose differential gives the derivative of x and v, and likewise that of y. At a degenerate game the
equilibrium is not differentiable. The least-squares solution of the same system then gives one
generalised derivative, and the derivative of the value is still a supergradient.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from equipoise.core.errors import InputError
from equipoise.core.precision import check_not_forked
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


def zero_sum(payoff: Float[Array, "..."]) -> ZeroSum:
    """Return an equilibrium of zero-sum games with payoffs of shape (..., rows, columns).

    Pivots are computed in the precision of `payoff`: the error is about 1e-6 of the payoff range in
    float32, and 1e-14 in float64. Narrower floats and integers are converted to float32. Nothing is
    certified: pass the result to `gains`. The derivative of the value is the outer product of the
    strategies; the derivative of the strategies is exact where the equilibrium is unique and
    non-degenerate. Second derivatives differentiate the same formulas.

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
    check_not_forked()
    return _zero_sum(_numbers("payoff", payoff, 2, "(..., rows, columns)"))


def _numbers(name: str, value: Any, axes: int, meaning: str) -> Array:
    """Convert payoffs or strategies to an array that can be pivoted and differentiated."""
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(name, "an array of numbers", type(value).__name__) from error
    if not jnp.issubdtype(array.dtype, jnp.floating):
        if not jnp.issubdtype(array.dtype, jnp.integer):
            raise InputError(name, "real numbers", f"dtype {array.dtype}")
        array = array.astype(float)
    if array.dtype.itemsize < 4:
        array = array.astype(jnp.float32)
    if array.ndim < axes or 0 in array.shape:
        raise InputError(name, f"shape {meaning} without an empty axis", array.shape)
    return array


@jax.custom_jvp
def _zero_sum(payoff: Float[Array, "..."]) -> ZeroSum:
    *batch, rows, columns = payoff.shape
    games_last = jnp.moveaxis(payoff.reshape(-1, rows, columns), 0, -1)
    low, high = games_last.min((0, 1)), games_last.max((0, 1))
    # Scale by a power of two, from half of the range: the whole range may overflow.
    exponent = jnp.frexp(0.5 * high - 0.5 * low)[1]
    scaled = jnp.ldexp(0.5 * games_last - 0.5 * low[None, None], -exponent[None, None])
    optimum = pivot_to_optimum(scaled, refinements=2)
    half = jnp.ldexp(optimum.value, exponent)
    return ZeroSum(
        optimum.x.T.reshape(*batch, rows),
        optimum.y.T.reshape(*batch, columns),
        (half + (half + low)).reshape(tuple(batch)),
    )


@_zero_sum.defjvp
def _zero_sum_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[ZeroSum, ZeroSum]:
    (payoff,), (change,) = primals, tangents
    point = _zero_sum(payoff)
    x, y, _ = point
    slack = 64 * jnp.finfo(payoff.dtype).eps
    rows_used, columns_used = x > slack, y > slack
    seen_by_columns = jnp.einsum("...ij,...i->...j", change, x)
    seen_by_rows = jnp.einsum("...ij,...j->...i", change, y)
    dx = _moved(jnp.swapaxes(payoff, -1, -2), seen_by_columns, rows_used, columns_used)
    dy = _moved(payoff, seen_by_rows, columns_used, rows_used)
    return point, ZeroSum(dx, dy, (seen_by_rows * x).sum(-1))


def _moved(payoff: Any, drift: Any, own_used: Any, other_used: Any) -> Any:
    """Return how an equilibrium strategy changes with the payoffs of the other's actions.

    `payoff` is (..., others, own). The other player stays indifferent among the actions it uses.
    """
    *batch, others, own = payoff.shape
    dtype = payoff.dtype
    low, high = payoff.min((-1, -2)), payoff.max((-1, -2))
    scale = jnp.where(high > low, 1.0 / (high - low), 1.0)
    scaled = (payoff - low[..., None, None]) * scale[..., None, None]
    indifferent = jnp.concatenate([scaled, -jnp.ones((*batch, others, 1), dtype)], -1)
    indifferent = indifferent * other_used[..., None]
    each = jnp.broadcast_to(jnp.eye(own, own + 1, dtype=dtype), (*batch, own, own + 1))
    unused = each * ~own_used[..., None]
    summed = jnp.broadcast_to(jnp.ones(own + 1, dtype).at[-1].set(0.0), (*batch, 1, own + 1))
    system = jnp.concatenate([indifferent, unused, summed], -2)
    seen = -drift * other_used * scale[..., None]
    right = jnp.concatenate([seen, jnp.zeros((*batch, own + 1), dtype)], -1)
    inverse = jnp.linalg.pinv(system)
    return jnp.einsum("...ij,...j->...i", inverse, right)[..., :own]


def gains(
    payoff: Float[Array, "..."], x: Float[Array, "..."], y: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Return the gain of each player of zero-sum games by deviating: (..., 2), differentiable.

    The sum over the last axis is the NashConv. `payoff` is (..., rows, columns), `x` is (..., rows)
    and `y` is (..., columns); batch axes broadcast.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise import pure
    >>> pennies = jnp.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> pure.gains(pennies, jnp.array([1.0, 0.0]), jnp.array([0.5, 0.5])).tolist()
    [0.0, 1.0]
    """
    check_not_forked()
    payoff = _numbers("payoff", payoff, 2, "(..., rows, columns)")
    x, y = _numbers("x", x, 1, "(..., rows)"), _numbers("y", y, 1, "(..., columns)")
    if (x.shape[-1], y.shape[-1]) != payoff.shape[-2:]:
        expected = f"strategies of {payoff.shape[-2]} and {payoff.shape[-1]} actions"
        raise InputError("x, y", expected, f"{x.shape[-1]} and {y.shape[-1]}")
    row_values = jnp.einsum("...ij,...j->...i", payoff, y)
    column_values = jnp.einsum("...ij,...i->...j", payoff, x)
    value = jnp.einsum("...i,...i->...", row_values, x)
    both = jnp.broadcast_arrays(row_values.max(-1) - value, value - column_values.min(-1))
    return jnp.stack(both, -1)


def normal_form_gains(
    payoffs: Float[Array, "players *actions"], strategies: Sequence[Float[Array, " _"]]
) -> Float[Array, " players"]:
    """Return each player's gain by deviating in a normal-form game: (players,), differentiable.

    `payoffs[i, a_1, ..., a_N]` is the payoff of player i, who plays `strategies[i]`.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise import pure
    >>> dilemma = jnp.array([[[3.0, 0.0], [5.0, 1.0]], [[3.0, 5.0], [0.0, 1.0]]])
    >>> cooperate = jnp.array([1.0, 0.0])
    >>> pure.normal_form_gains(dilemma, [cooperate, cooperate]).tolist()
    [2.0, 2.0]
    """
    check_not_forked()
    payoffs = _numbers("payoffs", payoffs, 2, "(players, actions...)")
    strategies = [
        _numbers(f"strategies[{i}]", s, 1, "(actions,)") for i, s in enumerate(strategies)
    ]
    shapes = (len(strategies), *(s.shape for s in strategies))
    if shapes != (payoffs.ndim - 1, *((n,) for n in payoffs.shape[1:])) or (
        payoffs.shape[0] != len(strategies)
    ):
        expected = f"one strategy per player, of {payoffs.shape[1:]} actions"
        raise InputError("strategies", expected, f"shapes {shapes[1:]}")
    found = []
    for i, strategy in enumerate(strategies):
        own = payoffs[i]
        for j in reversed(range(len(strategies))):
            if j != i:
                own = jnp.tensordot(own, strategies[j], axes=(j, 0))
        found.append(own.max() - own @ strategy)
    return jnp.stack(found)
