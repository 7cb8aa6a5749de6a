"""Gains in games given by payoff tables: matrix games and normal forms.

A best reply is a maximum of a few expected payoffs. Payoffs are normalised first, so that an offset
or a unit of measurement changes nothing, and every expectation is computed a second time with
absolute payoffs: that times the number of operations bounds its rounding; see `core.rounding`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.certificates._interactions import as_terms, certify_contextual, check_concept
from equipoise.core import checks, kernels
from equipoise.core.reductions import largest, smallest
from equipoise.core.results import TableCertificate
from equipoise.core.rounding import EPS, ORDINARY, TINY, WEIGHTS, normalise
from equipoise.games import MatrixGame, Mixture, NormalFormGame

#: Up to this many payoffs the compiled kernel is ahead of NumPy's products.
_COMPILED_UP_TO = 4096


def certify_matrix(game: MatrixGame, policy: Any, concept: str) -> TableCertificate:
    """Gains of both players: the best pure reply to each strategy, minus its value."""
    payoff = np.asarray(game.payoff, np.float64)
    found = _compiled_gains(payoff, policy)
    if found is None:
        if isinstance(policy, Mixture):
            return certify_contextual(as_terms(game), policy, concept)
        found = _matrix_gains(payoff, policy)
    gains, upper, value, rounding = found
    return TableCertificate(
        gains=gains,
        upper=upper,
        value=value,
        method="best pure reply to each strategy",
        concept=check_concept(concept),
        rounding=rounding,
    )


def _compiled_gains(payoff: np.ndarray, policy: Any) -> np.ndarray | None:
    """(4, ..., 2): gains, bounds, values and rounding; None where the general way is needed.

    That is for policies that broadcast, payoffs of unusual size, and whatever is to be refused.
    """
    kernel = kernels.load("matrix_gains")
    strategies = getattr(policy, "strategies", policy)
    if kernel is None or type(strategies) not in (list, tuple) or len(strategies) != 2:
        return None
    (x, y), batch, (rows, columns) = strategies, payoff.shape[:-2], payoff.shape[-2:]
    if not (is_plain(payoff) and is_plain(x) and is_plain(y)):
        return None
    if x.shape != (*batch, rows) or y.shape != (*batch, columns):
        return None
    size = rows * columns
    if size > _COMPILED_UP_TO:
        return None
    games = payoff.size // size
    results = np.empty((4, games, 2))
    left = kernels.over_games(
        kernel, games, 1e-8 + 3e-9 * size,
        payoff.reshape(games, rows, columns), x.reshape(games, rows), y.reshape(games, columns),
        2.0 * EPS * (rows + columns + 2 * WEIGHTS + 8), TINY, ORDINARY[1], results,
    )  # fmt: skip
    return None if left else results.reshape(4, *batch, 2)


def is_plain(array: Any) -> bool:
    """Whether kernels take an array as it is."""
    return type(array) is np.ndarray and array.dtype.char == "d" and array.flags.c_contiguous


def _matrix_gains(payoff: np.ndarray, policy: Any) -> tuple[np.ndarray, ...]:
    """Gains, bounds, values and rounding for any policy and any payoffs."""
    batch, (rows, columns) = payoff.shape[:-2], payoff.shape[-2:]
    x, y = as_profile(policy, [(rows,), (columns,)], ["the row player's", "the column player's"])
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
    # Sizes of what can be reached are computed where they may be far below the largest payoff.
    reach = np.broadcast_to(table.size, gains.shape)
    far = np.minimum(np.abs(best), np.abs(worst)) * 64.0 < table.size
    if np.any(far):
        reach = _reach(payoff, x, y, reach, far)
    slack = 2.0 * step * reach + table.tiny
    last = (*range(1, gains.ndim), 0)  # players were first, so that batches are contiguous
    upper, rounding = (table.restore(part, up=True) for part in (gains + slack, slack))
    return tuple(part.transpose(last) for part in (table.restore(gains), upper, values, rounding))


def _reach(
    payoff: np.ndarray, x: np.ndarray, y: np.ndarray, reach: np.ndarray, far: Any
) -> np.ndarray:
    """(2, ...): the largest expected absolute payoff of a deviation of each player; where it may be
    far below the largest payoff of the game, which stands for it elsewhere."""
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
    """Payoff times strategy: one matrix product when many strategies meet one game."""
    if payoff.ndim == 2:
        return strategy @ payoff.T
    return np.einsum("...ij,...j->...i", payoff, strategy)


def certify_normal_form(game: NormalFormGame, policy: Any, concept: str) -> TableCertificate:
    """Gains of every player against the product of the others' strategies."""
    if isinstance(policy, Mixture):
        return certify_contextual(as_terms(game), policy, concept)
    players = game.players
    profile = as_profile(
        policy,
        [(actions,) for actions in game.actions],
        [f"player {i}'s" for i in range(players)],
    )
    for i, strategy in enumerate(profile):
        if strategy.ndim != 1:
            raise ValueError(f"policy[{i}]: expected one axis, found shape {strategy.shape}")
    step = EPS * (sum(game.actions) + players * WEIGHTS + 8)
    gains, upper, rounding, values = (np.zeros(players) for _ in range(4))
    for i, payoffs in enumerate(np.asarray(game.payoffs, np.float64)):
        table = normalise(payoffs, players)
        own, size = table.scaled, np.abs(table.scaled)
        for j in reversed(range(players)):
            if j != i:
                own = np.tensordot(own, profile[j], axes=(j, 0))
                size = np.tensordot(size, profile[j], axes=(j, 0))
        value, slack = own @ profile[i], step * (size @ profile[i]) + table.tiny
        bound = max((own + step * size).max() - value + slack, own.max() - value)
        values[i] = table.restore_value(value)
        gains[i] = table.restore(own.max() - value)
        upper[i] = table.restore(bound, up=True)
        rounding[i] = table.restore(step * size.max() + slack, up=True)
    return TableCertificate(
        gains=gains,
        upper=upper,
        value=values,
        method="best pure reply to the others' product",
        concept=check_concept(concept),
        rounding=rounding,
    )


def as_profile(policy: Any, shapes: Sequence[tuple[int, ...]], names: Sequence[str]) -> list[Any]:
    """Check a profile of one array per player and return it as a list of float64 arrays.

    `shapes` are the trailing axes that each player's array must have; leading axes are batch
    axes, broadcast against the game's later. A profile with a player missing is refused: its
    gains would mean nothing.
    """
    expectation = f"policy: expected one array of probabilities per player, {len(shapes)} in all"
    if not isinstance(policy, list | tuple):
        policy = getattr(policy, "strategies", policy)  # a `games.Profile`
    if not isinstance(policy, list | tuple):
        raise ValueError(f"{expectation}, as a tuple or list; found {type(policy).__name__}")
    if len(policy) != len(shapes):
        raise ValueError(f"{expectation}; found {len(policy)}")
    profile = []
    for i, (part, shape, meaning) in enumerate(zip(policy, shapes, names, strict=True)):
        name = f"policy[{i}]"
        if part is None:
            raise ValueError(f"{name}: expected probabilities of shape {shape}, found None")
        array = checks.as_float_array(name, part, copy=False)
        if tuple(array.shape[-len(shape) :]) != shape:
            raise ValueError(
                f"{name}: expected probabilities of shape (..., {', '.join(map(str, shape))}), "
                f"{meaning}; found {tuple(array.shape)}"
            )
        profile.append(checks.check_probabilities(name, array))
    return profile


def joint_batch_shape(game_batch: tuple[int, ...], *policy_batches: tuple[int, ...]) -> tuple:
    """The batch shape of game and policies together; refuses what does not broadcast."""
    try:
        return np.broadcast_shapes(game_batch, *policy_batches)
    except ValueError:
        raise ValueError(
            f"policy: expected batch axes that broadcast with the game's {game_batch}; "
            f"found {policy_batches}"
        ) from None
