"""The simplex method on a condensed tableau, for many zero-sum games in lockstep.

A game with payoffs in [1, 2] has the value 1 / z, where z is the optimum of

    max 1'w  subject to  A w <= 1, w >= 0        (the column player's strategy is w / z)
    min 1'u  subject to  A'u >= 1, u >= 0        (the row player's strategy is u / z)

and the slack basis w = 0 is feasible, so there is no first phase. Three choices make this fast
for batches:

- *Condensed (Tucker) tableau.* Only the m x n block of non-basic columns is stored, not the
  identity: a pivot exchanges a row label and a column label, and is a rank-one update.
- *Batch innermost.* Arrays are (rows, columns, games): every operation is elementwise over
  games, and vectorises.
- *Steepest edge.* The entering column maximises cost^2 / (1 + |column|^2). The norms cost one
  more pass over the tableau and save a third of the pivots at 50 x 50, two thirds at 200 x 200.
  Up to 16 x 16 a recurrence that starts from the exact norms (Devex; Harris, 1973) needs about
  as few pivots without that pass.

At the optimum the tableau holds the inverse of the kernel, the square sub-game on the two
supports, so that a few steps of iterative refinement bring the strategies to full double
precision, even after pivots in single precision.

The kernels of `core.kernels` do the same on a CPU. The functions at the end are for what they do
not serve: payoffs that are on an accelerator, and machines without Numba.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from equipoise.core.devices import in_pieces
from equipoise.core.precision import double_precision
from equipoise.core.rounding import ORDINARY

#: Keeps XLA from recomputing a small array inside the pass over the whole tableau.
_materialise = jax.lax.optimization_barrier

#: Pivots allowed, per row plus column, before a game counts as cycling.
PIVOT_LIMIT = 12

#: Up to this many payoffs the column norms are updated by Devex's recurrence, not recomputed.
DEVEX_UP_TO = 256

#: From this many payoffs on, pivots start in single precision and are then refined.
SINGLE_PRECISION_FROM = 400

#: Bytes of the tableaux of games in lockstep. On a CPU they should fit into its cache.
_CPU_BYTES = 2**18
_ACCELERATOR_BYTES = 2**28
#: Games in lockstep on an accelerator. With more games, more of them wait for the last one; with
#: fewer, the device is not fully used. An H200 solves 190 million 3 x 3 games a second with 2**18,
#: 242 million with 2**19 and 217 million with 2**20; about 26 million 10 x 10 games with each.
_LOCKSTEP = 2**19


class _Tableau(NamedTuple):
    """Dictionary of the current basis; games are on the last axis."""

    body: Float[Array, "rows columns games"]
    #: Values of the basic variables.
    right: Float[Array, "rows games"]
    #: Reduced costs of the non-basic variables.
    cost: Float[Array, "columns games"]
    #: Which variable is basic in each row: w_j is j, the slack of row i is columns + i.
    row_label: Int[Array, "rows games"]
    column_label: Int[Array, "columns games"]
    #: Squared norms of the columns, exact or, in small games, Devex's estimates.
    norms: Float[Array, "columns games"]
    active: Bool[Array, " games"]
    pivots: Int[Array, " games"]


class Optimum(NamedTuple):
    """Strategies, their value and their duality gap; games are on the last axis."""

    x: Float[Array, "rows games"]
    y: Float[Array, "columns games"]
    value: Float[Array, " games"]
    gap: Float[Array, " games"]
    #: Largest minus smallest payoff.
    spread: Float[Array, " games"]
    pivots: Int[Array, " games"]
    #: Largest absolute payoff.
    size: Float[Array, " games"]


def _first(mask: Array) -> Array:
    """Index of the first true entry along the first axis (the last index if there is none)."""
    index = jax.lax.broadcasted_iota(jnp.int32, mask.shape, 0)
    return jnp.min(jnp.where(mask, index, mask.shape[0] - 1), 0)


def _pick(mask: Array, values: Array) -> Array:
    """Return the entry of `values` that `mask` marks along the first axis."""
    return jnp.where(mask, values, 0).sum(0, dtype=values.dtype)


def _take(flat: Array, index: Array) -> Array:
    """Return entries of a flat array, without bounds checks, which would double the cost."""
    return _materialise(flat.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False))


def _initial(payoff: Array, perturbation: float) -> _Tableau:
    rows, columns, _ = payoff.shape
    # A generic right-hand side has no ties, hence no cycles; refinement removes its effect.
    steps = (jnp.arange(1, rows + 1, dtype=payoff.dtype) * 0.6180339887498949) % 1.0
    # Everything that the loop carries derives from the payoffs: under `shard_map` it has to vary
    # over the same mesh axes as they do.
    zero = payoff[:1, 0] * 0.0
    none = zero.astype(jnp.int32)
    return _Tableau(
        body=payoff,
        right=(1.0 + perturbation * steps)[:, None] + zero,
        cost=-jnp.ones((columns, 1), payoff.dtype) + zero,
        row_label=jnp.arange(columns, columns + rows, dtype=jnp.int32)[:, None] + none,
        column_label=jnp.arange(columns, dtype=jnp.int32)[:, None] + none,
        norms=1.0 + (payoff * payoff).sum(0),
        active=none[0] == 0,
        pivots=none[0],
    )


def _pivot(t: _Tableau) -> _Tableau:
    """Pivot once in every game that is not yet at its optimum."""
    rows, columns, games = t.body.shape
    precision = float(jnp.finfo(t.body.dtype).eps)
    row_index = jnp.arange(rows, dtype=jnp.int32)[:, None]
    column_index = jnp.arange(columns, dtype=jnp.int32)[:, None]
    game_index = jnp.arange(games, dtype=jnp.int32)[None, :]
    flat = t.body.reshape(-1)

    devex = rows * columns <= DEVEX_UP_TO
    norms = t.norms if devex else 1.0 + (t.body * t.body).sum(0)
    improving = t.cost < -16.0 * precision
    score = _materialise(jnp.where(improving, t.cost * t.cost / norms, 0.0))
    best = score.max(0)
    active = t.active & (best > 0.0)
    entering = _materialise(_first(score == best[None]))
    is_column = column_index == entering[None]
    column = _take(flat, (row_index * columns + entering[None]) * games + game_index)

    eligible = column > 512.0 * precision
    ratio = jnp.where(eligible, t.right / jnp.where(eligible, column, 1.0), jnp.inf)
    ratio = _materialise(ratio)
    leaving = _materialise(_first(ratio == ratio.min(0)[None]))
    is_row = row_index == leaving[None]
    row = _take(flat, (leaving[None] * columns + column_index) * games + game_index)

    inverse = jnp.where(active, 1.0 / _pick(is_row, column), 0.0)
    entering_cost = jnp.where(active, _pick(is_column, t.cost), 0.0)
    step = _pick(is_row, t.right) * inverse
    inverse, entering_cost, step = _materialise((inverse[None], entering_cost[None], step[None]))
    # With these two vectors the exchange of row and column is one rank-one update.
    u = jnp.where(is_row, column - 1.0, column)
    v = jnp.where(is_column, row + 1.0, row) * inverse
    u, v = _materialise((u, v))
    if devex:
        entering_norm = _pick(is_column, norms)[None]
        exchanged = jnp.maximum(entering_norm * inverse * inverse, 1.0)
        norms = jnp.where(is_column, exchanged, jnp.maximum(norms, v * v * entering_norm))
    cost = t.cost - entering_cost * v
    exchange_row, exchange_column = is_row & active[None], is_column & active[None]
    row_label, column_label = _pick(is_row, t.row_label), _pick(is_column, t.column_label)
    return _Tableau(
        body=t.body - u[:, None] * v[None],
        right=t.right - u * step,
        cost=jnp.where(exchange_column, -entering_cost * inverse, cost),
        row_label=jnp.where(exchange_row, column_label[None], t.row_label),
        column_label=jnp.where(exchange_column, row_label[None], t.column_label),
        norms=norms if devex else t.norms,
        active=active,
        pivots=t.pivots + active,
    )


def _refine(payoff: Array, t: _Tableau, w: Array, u: Array) -> tuple[Array, Array]:
    """One step of iterative refinement of both strategies, through the kernel's inverse."""
    rows, columns, games = payoff.shape
    game_index = jnp.arange(games, dtype=jnp.int32)[None, :]
    in_support = t.row_label < columns
    in_kernel = t.column_label >= columns
    support = jnp.where(in_support, t.row_label, 0) * games + game_index
    kernel = jnp.where(in_kernel, t.column_label - columns, 0) * games + game_index
    body = t.body.astype(payoff.dtype)

    row_residual = 1.0 - (payoff * w[None]).sum(1)
    row_residual = jnp.where(in_kernel, row_residual.reshape(-1)[kernel], 0.0)
    w_step = jnp.where(in_support, (body * row_residual[None]).sum(1), 0.0)
    column_residual = 1.0 - (payoff * u[:, None]).sum(0)
    column_residual = jnp.where(in_support, column_residual.reshape(-1)[support], 0.0)
    u_step = jnp.where(in_kernel, (body * column_residual[:, None]).sum(0), 0.0)
    w = w.reshape(-1).at[support].add(w_step).reshape(columns, games)
    u = u.reshape(-1).at[kernel].add(u_step).reshape(rows, games)
    return w, u


def pivot_to_optimum(
    payoff: Float[Array, "rows columns games"],
    *,
    dtype: jnp.dtype | None = None,
    refinements: int = 0,
    perturbation: float = 0.0,
) -> Optimum:
    """Solve a batch of zero-sum games whose batch axis is the last; traceable.

    Pivots are computed in `dtype` (default: that of `payoff`), everything else in the dtype of
    `payoff`. `refinements` steps of iterative refinement follow. A `perturbation` of the right-hand
    side breaks the ties of degenerate games and needs at least one refinement. The result includes
    its duality gap, which reveals games that cycled or lost precision.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.core.zerosum import pivot_to_optimum
    >>> pennies = jnp.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> optimum = pivot_to_optimum(pennies[..., None])
    >>> optimum.x[:, 0].round(6).tolist(), optimum.y[:, 0].round(6).tolist()
    ([0.5, 0.5], [0.5, 0.5])
    """
    rows, columns, _ = payoff.shape
    low, high = payoff.min((0, 1)), payoff.max((0, 1))
    spread = high - low
    scale = jnp.where(spread > 0, 1.0 / spread, 1.0)
    # Differences of payoffs are compared, so that a large offset costs no digits.
    shifted = payoff - low[None, None]
    scaled = _materialise(1.0 + shifted * scale[None, None])
    limit = PIVOT_LIMIT * (rows + columns)
    start = _initial(scaled.astype(dtype or payoff.dtype), perturbation)
    t = jax.lax.while_loop(lambda t: jnp.any(t.active) & (jnp.max(t.pivots) < limit), _pivot, start)
    labels = jnp.arange(rows + columns, dtype=jnp.int32)[:, None, None]
    w = jnp.where(t.row_label[None] == labels[:columns], t.right[None], 0.0).sum(1)
    u = jnp.where(t.column_label[None] == labels[columns:], t.cost[None], 0.0).sum(1)
    w, u = w.astype(payoff.dtype), u.astype(payoff.dtype)
    for _ in range(refinements):
        w, u = _refine(scaled, t, w, u)
    x, y = jnp.maximum(u, 0.0), jnp.maximum(w, 0.0)
    x, y = x / x.sum(0, keepdims=True), y / y.sum(0, keepdims=True)
    row_values = (shifted * y[None]).sum(1)
    column_values = (shifted * x[:, None]).sum(0)
    return Optimum(
        x=x,
        y=y,
        value=low + (row_values * x).sum(0),
        gap=row_values.max(0) - column_values.min(0),
        spread=spread,
        pivots=t.pivots,
        size=jnp.maximum(-low, high),
    )


@functools.partial(jax.jit, static_argnames=("single", "refinements", "perturbation"))
def _pivot_piece(payoff: jax.Array, single: bool, refinements: int, perturbation: float) -> Optimum:
    """Solve (games, rows, columns) in lockstep."""
    games, rows, columns = payoff.shape
    # Transpose once, rather than inside every operation that reads the payoffs.
    flat = jax.lax.optimization_barrier(payoff.reshape(games, rows * columns).T)
    optimum = pivot_to_optimum(
        flat.reshape(rows, columns, games),
        dtype=jnp.dtype(jnp.float32) if single else None,
        refinements=refinements,
        perturbation=perturbation,
    )
    return optimum._replace(x=optimum.x.T, y=optimum.y.T)


def solve_stage(payoff: np.ndarray, single: bool, refinements: int, perturbation: float) -> Optimum:
    """Solve a batch on JAX's default device, in pieces that fit into memory."""
    _, rows, columns = payoff.shape
    budget = _CPU_BYTES if jax.default_backend() == "cpu" else _ACCELERATOR_BYTES
    most = max(1, budget // (rows * columns * (4 if single else 8)))
    options = {"single": single, "refinements": refinements, "perturbation": perturbation}
    with double_precision():
        return jax.tree.map(np.asarray, in_pieces(_pivot_piece, most, [payoff], **options))


@functools.partial(jax.jit, static_argnames="single")
def _solve_piece(payoff: jax.Array, absolute: Any, relative: Any, single: bool) -> tuple[Any, ...]:
    """Whether each game met its tolerance, and the fields of `ZeroSum` except the stage."""
    best = _pivot_piece(payoff, single, 2 if single else 0, 0.0)
    ordinary = (best.size >= ORDINARY[0]) & (best.size <= ORDINARY[1]) | (best.size == 0.0)
    allowed = jnp.where(best.spread > 0.0, jnp.maximum(absolute, relative * best.spread), 0.0)
    met = (best.gap <= allowed) & ordinary
    return met, best.x, best.y, best.value, best.gap, best.spread, allowed, best.pivots


def solve_pieces(payoff: jax.Array, absolute: float, relative: float) -> Any:
    """Solve payoffs where they are, in pieces that fit into memory; see `_solve_piece`."""
    _, rows, columns = payoff.shape
    single = rows * columns >= SINGLE_PRECISION_FROM
    most = max(1, _ACCELERATOR_BYTES // (rows * columns * (4 if single else 8)))
    options = (min(most, _LOCKSTEP), [payoff], absolute, relative)
    return in_pieces(_solve_piece, *options, single=single)
