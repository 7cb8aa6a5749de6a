"""Gains in games given by payoff tables: matrix games and normal forms.

A best reply is a maximum of a few expected payoffs. Payoffs are normalised first, so that an offset
or a unit of measurement changes nothing, and every expectation is computed a second time with
absolute payoffs: that times the number of operations bounds its rounding; see `core.rounding`.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.certificates._interactions import as_terms, certify_contextual, check_concept
from equipoise.core import checks, kernels
from equipoise.core.errors import InputError
from equipoise.core.precision import double_precision
from equipoise.core.reductions import largest, smallest
from equipoise.core.results import TableCertificate
from equipoise.core.rounding import EPS, ORDINARY, TINY, WEIGHTS, normalise
from equipoise.games import JointPolicy, MatrixGame, Mixture, NormalFormGame, Profile

#: Up to this many payoffs compiled kernels are ahead of products of matrices: for many policies in
#: one game, and for bimatrix games.
_SHARED_UP_TO, _BIMATRIX_UP_TO = 400, 4096


def certify_matrix(game: MatrixGame, policy: Any, concept: str) -> TableCertificate:
    """Gains of both players: the best pure reply to each strategy, minus its value."""
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
        method="best pure reply to each strategy",
        concept=check_concept(concept),
        rounding=rounding,
    )


def _gains_there(payoff: Any, policy: Any) -> list[Any] | None:
    """Gains, bounds, values and rounding on the accelerator that holds game and policy, if any."""
    if type(payoff) is np.ndarray:
        return None
    from equipoise.certificates._device import device_gains

    if (found := device_gains(payoff, policy)) is None:
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
    """(4, ..., 2): gains, bounds, values and rounding; None where the general way is needed.

    That is for batches that broadcast along some of several axes, one large game that many policies
    meet, payoffs of unusual size, and whatever is to be refused.
    """
    strategies = getattr(policy, "strategies", policy)
    if type(strategies) not in (list, tuple) or len(strategies) != 2:
        return None
    (x, y), batch, (rows, columns) = strategies, payoff.shape[:-2], payoff.shape[-2:]
    if not (is_plain(payoff) and is_plain(x) and is_plain(y)):
        return None
    if x.shape[-1:] != (rows,) or y.shape[-1:] != (columns,):
        return None
    size, games = rows * columns, payoff.size // (rows * columns)
    if x.shape[:-1] != batch or y.shape[:-1] != batch:
        counts = {part.size // n for part, n in ((payoff, size), (x, rows), (y, columns))}
        games = max(counts)
        if len(counts - {1}) != 1 or (payoff.ndim == 2 and size > _SHARED_UP_TO):
            return None  # products of matrices are ahead if one large game is met by many policies
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
    if isinstance(policy, JointPolicy):
        return _certify_joint(game, policy, concept)
    players = game.players
    profile = as_profile(
        policy,
        [(actions,) for actions in game.actions],
        [f"player {i}'s" for i in range(players)],
    )
    batch = joint_batch_shape(game.batch_shape, *(strategy.shape[:-1] for strategy in profile))
    step = EPS * (sum(game.actions) + players * WEIGHTS + 8)
    found = _compiled_bimatrix(game, profile, step)
    if found is not None:
        return TableCertificate(
            gains=found[0],
            upper=found[1],
            value=found[2],
            method="best pure reply to the others' product",
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
        method="best pure reply to the others' product",
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
        # One axis for each player who is left, so that strategies of a batch broadcast.
        lifted = strategy.reshape(*strategy.shape[:-1], *[1] * left, 1, strategy.shape[-1])
        own = np.einsum("...k,...k->...", own, lifted)
    return own


def _certify_joint(game: NormalFormGame, policy: JointPolicy, concept: str) -> TableCertificate:
    """Gains over a joint distribution, with ("ce") or without ("cce") hearing the own part."""
    if policy.actions != game.actions:
        raise InputError(
            "policy", f"a joint distribution over {game.actions} actions", policy.actions
        )
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
        # [a, b]: what is earned by playing b whenever a is recommended.
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
        method=f"best reply {heard}",
        concept=concept,
        rounding=rounding.transpose(last),
    )


def _own_first(table: np.ndarray, player: int, players: int) -> np.ndarray:
    """(..., A_1, ..., A_N) -> (..., A_i, cells of the others)."""
    first = table.ndim - players
    moved = np.moveaxis(table, first + player, first)
    return moved.reshape(*moved.shape[: first + 1], -1)


def independent(policy: JointPolicy) -> Profile:
    """The strategies of a joint distribution whose players choose independently."""
    profile = Profile([policy.marginal(i) for i in range(policy.players)])
    away = float(np.abs(JointPolicy.of(profile).joint - policy.joint).max())
    if away > 1e-12:
        raise InputError(
            "concept",
            '"ce" or "cce" for a joint distribution',
            '"nash", which is said of independent players',
            f"this one is {away:.2g} from the product of its marginals",
        )
    return profile


def as_profile(policy: Any, shapes: Sequence[tuple[int, ...]], names: Sequence[str]) -> list[Any]:
    """Check a profile of one array per player and return it as a list of float64 arrays.

    `shapes` are the trailing axes that each player's array must have; leading axes are batch
    axes, broadcast against the game's later. A profile with a player missing is refused: its
    gains would mean nothing.
    """
    expected = f"one array of probabilities per player, {len(shapes)} in all"
    if not isinstance(policy, list | tuple):
        policy = getattr(policy, "strategies", policy)  # a `games.Profile`
    if not isinstance(policy, list | tuple):
        raise InputError("policy", f"{expected}, as a tuple or list", type(policy).__name__)
    if len(policy) != len(shapes):
        raise InputError("policy", expected, len(policy))
    profile = []
    for i, (part, shape, meaning) in enumerate(zip(policy, shapes, names, strict=True)):
        name = f"policy[{i}]"
        if part is None:
            raise InputError(name, f"probabilities of shape {shape}", None)
        array = checks.as_float_array(name, part, copy=False, booleans=False)
        if tuple(array.shape[-len(shape) :]) != shape:
            axes = f"(..., {', '.join(map(str, shape))})"
            found = tuple(array.shape)
            raise InputError(name, f"probabilities of shape {axes}, {meaning}", found)
        profile.append(checks.check_probabilities(name, array))
    return profile


def joint_batch_shape(game_batch: tuple[int, ...], *policy_batches: tuple[int, ...]) -> tuple:
    """The batch shape of game and policies together; refuses what does not broadcast."""
    try:
        return np.broadcast_shapes(game_batch, *policy_batches)
    except ValueError:
        expected = f"batch axes that broadcast with the game's {game_batch}"
        raise InputError("policy", expected, policy_batches) from None
