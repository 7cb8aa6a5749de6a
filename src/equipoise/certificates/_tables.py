"""Gains in games given by payoff tables: matrix games and normal-form games.

A best response is a maximum of a few expected payoffs. Payoffs are normalised first, so that
neither an offset nor the unit of measurement matters. Every expectation is computed a second time
with absolute payoffs; that value times the number of operations bounds the rounding error of the
first (see `core.rounding`).
"""

import math
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from equipoise.certificates._interactions import as_terms, certify_contextual, check_concept
from equipoise.core import checks, kernels
from equipoise.core.devices import in_pieces, on_accelerator
from equipoise.core.errors import InputError
from equipoise.core.precision import double_precision
from equipoise.core.reductions import largest, smallest
from equipoise.core.results import TableCertificate
from equipoise.core.rounding import EPS, ORDINARY, TINY, WEIGHTS, normalise
from equipoise.games import JointPolicy, MatrixGame, Mixture, NormalFormGame, Profile

#: Up to this many payoffs compiled kernels are faster than matrix products: for many policies in
#: one game, and for bimatrix games.
_SHARED_UP_TO, _BIMATRIX_UP_TO = 400, 4096
#: Number of payoffs that an accelerator processes at once: a quarter of a gigabyte, several copies
#: of which are needed.
_MOST_THERE = 2**25


def certify_matrix(game: MatrixGame, policy: Any, concept: str) -> TableCertificate:
    """Return both players' gains: the best pure deviation minus the value of each strategy."""
    found = _gains_there(game.payoff, policy)
    payoff: Any = game.payoff if found else np.asarray(game.payoff, np.float64)
    if found is None:
        found = _compiled_gains(payoff, policy)
    if found is None:
        if isinstance(policy, Mixture):
            return certify_contextual(as_terms(game), policy, concept)
        if isinstance(policy, JointPolicy):
            both = NormalFormGame(np.stack([payoff, -payoff], -3), players=2)
            return _certify_joint(both, policy, concept)
        found = _matrix_gains(payoff, policy)
    gains, upper, value, rounding = found
    return TableCertificate(
        gains=gains,
        upper=upper,
        value=value,
        method="best pure response to each strategy",
        concept=check_concept(concept),
        rounding=rounding,
    )


def _gains_there(payoff: Any, policy: Any) -> list[Any] | None:
    """Compute gains, bounds, values and rounding on the accelerator that holds game and policy."""
    if type(payoff) is np.ndarray:
        return None
    if (found := _device_gains(payoff, policy)) is None:
        return None
    parts, left = found
    if len(left):
        batch, shape = payoff.shape[:-2], payoff.shape[-2:]
        own = [np.asarray(s.reshape(-1, n)[left]) for s, n in zip(policy, shape, strict=True)]
        rest = _matrix_gains(np.asarray(payoff.reshape(-1, *shape)[left]), own)
        with double_precision():
            parts = [
                old.reshape(-1, 2).at[left].set(new).reshape(*batch, 2)
                for old, new in zip(parts, rest, strict=True)
            ]
    return parts


def _compiled_gains(payoff: np.ndarray, policy: Any) -> np.ndarray | None:
    """(4, ..., 2): gains, bounds, values and rounding; None where the general method is needed.

    The general method handles batches that broadcast along some of several axes, many policies in
    one large game, payoffs of unusual size, and input that must be rejected.
    """
    if type(policy) is not Profile:
        return None
    (x, y), batch, (rows, columns) = policy.strategies, payoff.shape[:-2], payoff.shape[-2:]
    if not (is_plain(payoff) and is_plain(x) and is_plain(y)):
        return None
    size, games = rows * columns, payoff.size // (rows * columns)
    if x.shape[:-1] != batch or y.shape[:-1] != batch:
        counts = {part.size // n for part, n in ((payoff, size), (x, rows), (y, columns))}
        games = max(counts)
        if len(counts - {1}) != 1 or (payoff.ndim == 2 and size > _SHARED_UP_TO):
            return None  # matrix products are faster for many policies in one large game
        batch = joint_batch_shape(batch, x.shape[:-1], y.shape[:-1])
        if math.prod(batch) != games:
            return None
    seconds = 1e-8 + 1.5e-9 * size
    kernel, _ = kernels.choose("matrix_gains", games * seconds)
    if kernel is None:
        return None
    results = np.empty((4, games, 2))
    left = kernels.over_games(
        kernel, games, seconds,
        payoff.reshape(-1, rows, columns), x.reshape(-1, rows), y.reshape(-1, columns),
        2.0 * EPS * (rows + columns + 2 * WEIGHTS + 8), TINY, ORDINARY[1], results,
    )  # fmt: skip
    return None if left else results.reshape(4, *batch, 2)


def is_plain(array: Any) -> bool:
    """Whether kernels accept an array as it is."""
    return type(array) is np.ndarray and array.dtype.char == "d" and array.flags.c_contiguous


def _matrix_gains(payoff: np.ndarray, policy: Any) -> tuple[np.ndarray, ...]:
    """Compute gains, bounds, values and rounding for any policy and any payoffs."""
    batch, (rows, columns) = payoff.shape[:-2], payoff.shape[-2:]
    x, y = checked(policy)
    batch = joint_batch_shape(batch, x.shape[:-1], y.shape[:-1])
    table = normalise(payoff, 2)
    payoff = table.scaled
    row_values = _times(payoff, y)
    column_values = _times(np.swapaxes(payoff, -1, -2), x)
    value = np.einsum("...i,...i->...", row_values, x)
    best, worst = largest(row_values), smallest(column_values)
    step = EPS * (rows + columns + 2 * WEIGHTS + 8)
    gains, values = np.empty((2, *batch)), np.empty((2, *batch))
    gains[0], gains[1] = best - value, value - worst
    values[0] = table.restore_value(value)
    values[1] = -values[0]
    # The size of reachable payoffs is computed only where it may be far below the largest payoff.
    reach = np.broadcast_to(table.size, gains.shape)
    far = np.minimum(np.abs(best), np.abs(worst)) * 64.0 < table.size
    if np.any(far):
        reach = _reach(payoff, x, y, reach, far)
    slack = 2.0 * step * reach + table.tiny
    last = (*range(1, gains.ndim), 0)  # players came first, so that batches are contiguous
    upper, rounding = (table.restore(part, up=True) for part in (gains + slack, slack))
    return tuple(part.transpose(last) for part in (table.restore(gains), upper, values, rounding))


def _reach(
    payoff: np.ndarray, x: np.ndarray, y: np.ndarray, reach: np.ndarray, far: Any
) -> np.ndarray:
    """(2, ...): the largest expected absolute payoff of a deviation of each player. It is computed
    where it may be far below the game's largest payoff, which replaces it elsewhere."""
    some = payoff.ndim == 3 and x.ndim == y.ndim == 2
    some = some and len(payoff) == len(x) == len(y) == len(far)
    if some:
        payoff, x, y = payoff[far], x[far], y[far]
    sizes = np.abs(payoff)
    rows, columns = _times(sizes, y), _times(np.swapaxes(sizes, -1, -2), x)
    reach = np.array(reach)
    for i, found in enumerate((largest(rows), largest(columns))):
        reach[i, far if some else ...] = found
    return reach


def _times(payoff: np.ndarray, strategy: np.ndarray) -> np.ndarray:
    """Multiply payoff by strategy: one matrix product for many strategies in one game."""
    if payoff.ndim == 2:
        return strategy @ payoff.T
    return np.einsum("...ij,...j->...i", payoff, strategy)


def certify_normal_form(game: NormalFormGame, policy: Any, concept: str) -> TableCertificate:
    """Return every player's gain against the product of the others' strategies."""
    if isinstance(policy, Mixture):
        return certify_contextual(as_terms(game), policy, concept)
    if isinstance(policy, JointPolicy):
        return _certify_joint(game, policy, concept)
    players = game.players
    profile = checked(policy)
    batch = joint_batch_shape(game.batch_shape, *(strategy.shape[:-1] for strategy in profile))
    step = EPS * (sum(game.actions) + players * WEIGHTS + 8)
    found = _compiled_bimatrix(game, profile, step)
    if found is not None:
        return TableCertificate(
            gains=found[0],
            upper=found[1],
            value=found[2],
            method="best pure response to the others' product",
            concept=check_concept(concept),
            rounding=found[3],
        )
    gains, upper, rounding, values = (np.empty((players, *batch)) for _ in range(4))
    payoffs = np.moveaxis(np.asarray(game.payoffs, np.float64), -players - 1, 0)
    for i, own_payoffs in enumerate(payoffs):
        table = normalise(own_payoffs, players)
        own = _against(table.scaled, profile, i)
        size = _against(np.abs(table.scaled), profile, i)
        value = np.einsum("...a,...a->...", own, profile[i])
        slack = step * np.einsum("...a,...a->...", size, profile[i]) + table.tiny
        gain = largest(own) - value
        values[i] = table.restore_value(value)
        gains[i] = table.restore(gain)
        bound = np.maximum(largest(own + step * size) - value + slack, gain)
        upper[i] = table.restore(bound, up=True)
        rounding[i] = table.restore((step + 8 * EPS) * largest(size) + slack, up=True)
    last = (*range(1, gains.ndim), 0)
    return TableCertificate(
        gains=gains.transpose(last),
        upper=upper.transpose(last),
        value=values.transpose(last),
        method="best pure response to the others' product",
        concept=check_concept(concept),
        rounding=rounding.transpose(last),
    )


def _compiled_bimatrix(
    game: NormalFormGame, profile: list[np.ndarray], step: float
) -> np.ndarray | None:
    """(4, ..., 2): gains, bounds, values and rounding of many bimatrix games; None for others."""
    batch, (rows, *others) = game.batch_shape, game.actions
    if game.players != 2 or math.prod(game.actions) > _BIMATRIX_UP_TO:
        return None
    if any(strategy.shape[:-1] != batch for strategy in profile):
        return None
    columns, games = others[0], math.prod(batch)
    seconds = 4e-9 * rows * columns
    kernel, _ = kernels.choose("bimatrix_gains", games * seconds)
    if kernel is None:
        return None
    payoffs = np.ascontiguousarray(game.payoffs, np.float64).reshape(games, 2, rows, columns)
    x, y = (np.ascontiguousarray(s).reshape(games, -1) for s in profile)
    results = np.empty((4, games, 2))
    left = kernels.over_games(
        kernel, games, seconds, payoffs, x, y, step, TINY, ORDINARY[1], results
    )
    return None if left else results.reshape(4, *batch, 2)


def _against(payoff: np.ndarray, profile: list[np.ndarray], player: int) -> np.ndarray:
    """(..., A_i): expected payoffs of own actions when the others play their strategies."""
    first = payoff.ndim - len(profile)
    own = np.moveaxis(payoff, first + player, first)
    others = profile[:player] + profile[player + 1 :]
    for left, strategy in reversed(list(enumerate(others))):
        # One axis for each remaining player, so that strategies of a batch broadcast.
        lifted = strategy.reshape(*strategy.shape[:-1], *[1] * left, 1, strategy.shape[-1])
        own = np.einsum("...k,...k->...", own, lifted)
    return own


def _certify_joint(game: NormalFormGame, policy: JointPolicy, concept: str) -> TableCertificate:
    """Gains over a joint distribution, after ("ce") or before ("cce") the recommendation."""
    if concept == "nash":
        return certify_normal_form(game, independent(policy), concept)
    concept = "ce" if concept == "auto" else check_concept(concept)
    players = game.players
    joint_shape = policy.joint.shape[: policy.joint.ndim - players]
    batch = joint_batch_shape(game.batch_shape, joint_shape)
    step = EPS * (int(np.prod(game.actions)) + WEIGHTS + 8)
    gains, upper, rounding, values = (np.empty((players, *batch)) for _ in range(4))
    payoffs = np.moveaxis(np.asarray(game.payoffs, np.float64), -players - 1, 0)
    for i, own_payoffs in enumerate(payoffs):
        table = normalise(own_payoffs, players)
        own, chances = (_own_first(a, i, players) for a in (table.scaled, policy.joint))
        # [a, b]: reward of playing b whenever a is recommended.
        swapped = np.matmul(chances, np.swapaxes(own, -1, -2))
        size = np.matmul(chances, np.swapaxes(np.abs(own), -1, -2))
        value = np.trace(swapped, axis1=-2, axis2=-1)
        slack = step * np.trace(size, axis1=-2, axis2=-1) + table.tiny
        if concept == "cce":
            swapped, size = swapped.sum(-2, keepdims=True), size.sum(-2, keepdims=True)
        gain = largest(swapped).sum(-1) - value
        bound = np.maximum(largest(swapped + step * size).sum(-1) - value + slack, gain)
        values[i] = table.restore_value(value)
        gains[i], upper[i] = table.restore(gain), table.restore(bound, up=True)
        rounding[i] = table.restore((step + 8 * EPS) * largest(size).sum(-1) + slack, up=True)
    last = (*range(1, gains.ndim), 0)
    heard = "to each recommendation" if concept == "ce" else "before anything is recommended"
    return TableCertificate(
        gains=gains.transpose(last),
        upper=upper.transpose(last),
        value=values.transpose(last),
        method=f"best response {heard}",
        concept=concept,
        rounding=rounding.transpose(last),
    )


def _own_first(table: np.ndarray, player: int, players: int) -> np.ndarray:
    """(..., A_1, ..., A_N) -> (..., A_i, cells of the others)."""
    first = table.ndim - players
    moved = np.moveaxis(table, first + player, first)
    return moved.reshape(*moved.shape[: first + 1], -1)


def independent(policy: JointPolicy) -> Profile:
    """Return the strategies of a joint distribution whose players choose independently."""
    profile = Profile([policy.marginal(i) for i in range(policy.players)])
    away = float(np.abs(JointPolicy.of(profile).joint - policy.joint).max())
    if away > 1e-12:
        raise InputError(
            "concept",
            '"ce" or "cce" for a joint distribution',
            '"nash", which applies to independent players',
            f"this one is {away:.2g} from the product of its marginals",
        )
    return profile


def checked(policy: Iterable[Any]) -> list[Any]:
    """Return the strategies of a profile of the game; those of `Profile.computed` were not checked.

    Strategies that are on an accelerator are moved here.
    """
    arrays = (np.asarray(strategy, np.float64) for strategy in policy)
    return [checks.check_probabilities(f"policy[{i}]", array) for i, array in enumerate(arrays)]


def joint_batch_shape(game_batch: tuple[int, ...], *policy_batches: tuple[int, ...]) -> tuple:
    """Return the joint batch shape of game and policies; reject shapes that do not broadcast."""
    try:
        return np.broadcast_shapes(game_batch, *policy_batches)
    except ValueError:
        expected = f"batch axes that broadcast with the game's {game_batch}"
        raise InputError("policy", expected, policy_batches) from None


def _device_gains(payoff: Any, policy: Any) -> tuple[Any, np.ndarray] | None:
    """(4, ..., 2): gains, bounds, values and rounding; and a mask of games they do not hold for.

    The arithmetic equals that of the host, in float64; only games with payoffs of unusual size,
    or policies that are not probabilities, are moved there. None if payoffs and strategies are
    not on an accelerator, or have different batch shapes.
    """
    if type(policy) is not Profile:
        return None
    (x, y), batch, (rows, columns) = policy.strategies, payoff.shape[:-2], payoff.shape[-2:]
    if not all(map(on_accelerator, (payoff, x, y))):
        return None
    if x.shape != (*batch, rows) or y.shape != (*batch, columns):
        return None
    import jax.numpy as jnp

    if not all(jnp.issubdtype(part.dtype, jnp.floating) for part in (x, y)):
        return None
    with double_precision():
        x, y = (part.astype(jnp.float64) for part in (x, y))
        fine, *found = in_pieces(
            _piece_of_gains(),
            max(1, _MOST_THERE // (rows * columns)),
            [payoff.reshape(-1, rows, columns), x.reshape(-1, rows), y.reshape(-1, columns)],
            2.0 * EPS * (rows + columns + 2 * WEIGHTS + 8),
        )
        left = np.zeros(0, int) if bool(fine.all()) else np.flatnonzero(~np.asarray(fine))
        return [part.reshape(*batch, 2) for part in found], left


@cache
def _piece_of_gains() -> Any:
    """Return a compiled function of payoffs, both strategies and the rounding of a step.

    It returns whether each game qualifies for this method; gains, bounds, values and rounding.
    """
    import jax
    import jax.numpy as jnp

    def gains_of(payoff: Any, x: Any, y: Any, step: Any) -> tuple[Any, ...]:
        games = jnp.moveaxis(payoff, 0, -1)
        x, y = x.T, y.T
        low, high = games.min((0, 1)), games.max((0, 1))
        near = jnp.maximum(jnp.minimum(high, 0.0), low)
        far = jnp.abs(near) > 16.0 * (high - low)
        offset = jnp.where(far, near, 0.0)
        size = jnp.where(far, high - low, jnp.maximum(-low, high))
        games = games - offset[None, None]
        rows, columns = (games * y[None]).sum(1), (games * x[:, None]).sum(0)
        earned = (rows * x).sum(0)
        sizes = jnp.abs(games)
        reach = jnp.stack([(sizes * y[None]).sum(1).max(0), (sizes * x[:, None]).sum(0).max(0)], -1)
        gains = jnp.stack([rows.max(0) - earned, earned - columns.min(0)], -1)
        rounding = step * reach + jnp.where(size > 0.0, TINY * (1.0 + size), 0.0)[:, None]
        value = (earned + offset)[:, None] * jnp.array([[1.0, -1.0]])
        fine = (size >= ORDINARY[0]) & (size <= ORDINARY[1]) | (size == 0.0)
        for strategy in (x, y):
            exact = jnp.abs(strategy.sum(0) - 1.0) < 64 * EPS
            fine &= exact & (strategy.min(0) >= 0.0)
        return fine, gains, gains + rounding, value, rounding

    return jax.jit(gains_of)
