"""Games whose payoffs are very large, very small or far from zero, solved in other units.

Equilibria do not change when a player's payoffs are multiplied by a positive number or shifted.
Such games are therefore solved with payoffs of ordinary size and without their offset, and games
whose players have very different units with payoffs of similar size. The certificate and the
status refer to the policy in the original game.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.reductions import largest, smallest
from equipoise.core.results import SMALLEST, Outcome, Solution, Status
from equipoise.core.rounding import Normalised, normalise
from equipoise.games import MarkovGame, MatrixGame, NormalFormGame
from equipoise.solvers._matrix import ROUNDING, make_status

#: Outcomes of searches that ended early, by what ended them.
OUTCOMES = {"time": Outcome.OUT_OF_TIME, "interrupted": Outcome.INTERRUPTED}
_ADVICE = {
    "time": "raise `time_limit`",
    "interrupted": "this is the best policy found before the interruption",
}
#: Said of an equilibrium if the search for the best one ended early.
BETTER = "; a better one for the objective may exist, up to stats['bound']"
_LARGEST = float(np.finfo(np.float64).max)
#: If players' payoff ranges differ by more than this factor, each gets its own tolerance.
_SIMILAR = 16.0


def in_usual_units(find: Callable[..., Solution]) -> Callable[..., Solution]:
    """Wrap a solver of normal-form or general-sum Markov games so that payoffs have usual size."""

    @wraps(find)
    def solved(game: Any, **options: Any) -> Solution:
        if isinstance(game, MarkovGame):
            stationary = game.horizon is None and options.get("concept", "nash") == "nash"
            if game.zero_sum and (stationary or game.batch_shape):
                return find(game, **options)  # its solver normalises units itself
        elif game.batch_shape and is_plain(game, **options):
            return find(game, **options)  # its kernel normalises units itself
        # Objectives and rationality compare players, who must then share unit and offset.
        common = options.get("objective") is not None or options.get("concept") == "logit"
        payoffs, axes = _payoffs(game)
        table = normalise(payoffs, axes + common)
        if not common:
            table = similar(table, axes)
        if isinstance(table.exponent, int) and not np.any(table.offset):
            return find(game, **options)
        if isinstance(game, MarkovGame):
            more: dict[str, Any] = {"horizon": game.horizon}
            twin: Any = MarkovGame(table.scaled, game.transition, game.discount, **more)
        else:
            twin = NormalFormGame(table.scaled, players=game.players)
        changed = dict(options)
        for name in ("tolerance", "rationality"):
            if options.get(name) is not None:
                checks.check_range(name, options[name], 0.0, np.inf)
        if options.get("tolerance") is not None:
            each = np.ldexp(options["tolerance"], -np.asarray(table.exponent))
            changed["tolerance"] = float(np.clip(each.min(), 1e-300, 1e300))
        if options.get("rationality") is not None:
            changed["rationality"] = float(np.ldexp(options["rationality"], table.exponent))
        return _restored(game, table, common, options, find(twin, **changed))

    return solved


def is_plain(
    game: NormalFormGame,
    concept: str = "nash",
    method: str = "auto",
    objective: Any = None,
    **others: Any,
) -> bool:
    """Whether any Nash equilibrium of two players is acceptable."""
    return game.players == 2 and concept == "nash" and method == "auto" and objective is None


def _payoffs(game: Any) -> tuple[np.ndarray, int]:
    """Return one table per player, and the number of axes of a table."""
    if isinstance(game, MarkovGame):
        rewards = game.rewards()
        return rewards, rewards.ndim - 1
    return np.asarray(game.payoffs, np.float64), game.players


def _restored(
    game: Any, table: Normalised, common: bool, options: dict[str, Any], found: Solution
) -> Solution:
    """Return the policy found in other units, certified in the original game."""
    concept = options.get("concept", "nash")
    certificate = certify(game, found.policy, concept="nash" if concept == "logit" else concept)
    stats = dict(found.stats)
    if common:
        stats |= _objectives(game, table, options.get("objective"), stats)
    if "path_rationality" in stats:
        stats["path_rationality"] = np.ldexp(stats["path_rationality"], -np.max(table.exponent))
    if "truncation" in stats:
        stats["truncation"] = float(np.ldexp(stats["truncation"], np.max(table.exponent)))
    if concept == "logit":
        none = found.tolerance
        return Solution(found.policy, certificate.value, certificate, found.status, none, stats)
    allowed = by_player(game, _default(game, table, found), options.get("tolerance"))
    ended = next((why for why, name in OUTCOMES.items() if found.status.name == name), "stuck")
    advice = more_help(game, concept)
    status = status_of(certificate, allowed, ended, stats.get("method", ""), advice)
    if status.ok and found.status.message.endswith(BETTER):
        status = replace(status, message=status.message + BETTER)
    allowed = one_tolerance(game, allowed, stats)
    return Solution(found.policy, certificate.value, certificate, status, allowed, stats)


def similar(table: Normalised, axes: int) -> Normalised:
    """Return the same payoffs, with each player's multiplied so that ranges are similar."""
    each = np.ptp(table.scaled, tuple(range(-axes, 0)))
    shift = _shift(each)
    if not shift.any():
        return table
    scaled = np.ldexp(table.scaled, shift.reshape(*shift.shape, *[1] * axes))
    offset = np.ldexp(table.offset, shift)
    return table._replace(scaled=scaled, offset=offset, exponent=table.exponent - shift)


def _shift(each: np.ndarray) -> np.ndarray:
    """Powers of two that scale payoffs of ranges (..., players), if these differ much."""
    top = each.max(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shift = np.where(each > 0.0, np.frexp(np.minimum(top / each, _LARGEST))[1] - 1, 0)
    return np.where((each < top / _SIMILAR) & (each > 0.0), shift, 0)


def by_player(game: Any, allowed: np.ndarray, tolerance: float | None = None) -> np.ndarray:
    """Return tolerances (..., players): `tolerance`, or `allowed` (...), by the players' ranges.

    If a player's range is much smaller than the largest, its tolerance is the same fraction of its
    range as `allowed` is of the largest one. Zero-sum games have one tolerance for both players.
    """
    if isinstance(game, MatrixGame) or (isinstance(game, MarkovGame) and game.zero_sum):
        return allowed if tolerance is None else np.full(allowed.shape, float(tolerance))
    if tolerance is not None:
        return np.full((*game.batch_shape, game.players), float(tolerance))
    payoffs, axes = _payoffs(game)
    with np.errstate(over="ignore"):
        each = np.minimum(np.ptp(payoffs, tuple(range(-axes, 0))), _LARGEST)
    return by_range(each, allowed)


def status_of(
    certificate: Any,
    allowed: np.ndarray,
    ended: str,
    how: str,
    advice: str,
    *,
    bound: str = ROUNDING,
    who: str = "player",
) -> Status:
    """Return the certificate's status; if it misses the tolerance, say what may help.

    `ended` says what ended the search, `advice` what helps if some gain exceeds its tolerance, and
    `bound` what helps if only a bound does.
    """
    early = OUTCOMES.get(ended)
    advice, bound = (_ADVICE[ended], _ADVICE[ended]) if early else (advice, bound)
    status = make_status(certificate, allowed, how, advice, who, bound)
    return status if status.ok or early is None else replace(status, name=early)


def more_help(game: Any, concept: str) -> str:
    """Return what may help where no equilibrium of a normal form or a Markov game was found."""
    if isinstance(game, MarkovGame) and game.horizon is None:
        return "limit the game by `horizon`"
    if concept != "nash":
        return "linear programs are not more accurate: raise `tolerance`"
    if isinstance(game, MarkovGame) or game.players > 2:
        return 'try `concept="ce"`, a linear program'
    return "try another `start`"


def one_tolerance(game: Any, allowed: np.ndarray, stats: dict[str, Any]) -> np.ndarray:
    """Return one tolerance for each game, the smallest, and put those of all players in `stats`."""
    if allowed.ndim == len(game.batch_shape):
        return allowed
    stats["tolerances"] = allowed
    return np.asarray(smallest(allowed))


def by_range(each: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return tolerances (..., players) for ranges (..., players) and tolerances `allowed` (...)."""
    top = np.expand_dims(largest(each), -1)
    apart = (each < top / _SIMILAR) & (each > 0.0)
    if not apart.any():
        return np.broadcast_to(allowed[..., None], each.shape)
    share = np.where(apart.any(-1, keepdims=True) & (each > 0.0), each, top)
    share = share / np.where(top > 0.0, top, 1.0)
    return np.maximum(allowed[..., None] * share, SMALLEST * (top > 0.0))


def _default(game: Any, table: Normalised, found: Solution) -> np.ndarray:
    """Return the default tolerance, a fraction of the largest range, in the game's units."""
    axes = _payoffs(game)[1]
    each = np.ptp(table.scaled, tuple(range(-axes, 0)))
    top = largest(found.stats["tolerances"]) if "tolerances" in found.stats else found.tolerance
    share = np.asarray(top) / np.maximum(each.max(-1), SMALLEST)
    exponent = np.asarray(table.exponent)
    if exponent.ndim < each.ndim:
        exponent = exponent[..., None]
    with np.errstate(over="ignore", under="ignore"):
        allowed = np.ldexp(share[..., None] * each, exponent).max(-1)
    allowed = np.where(each.max(-1) > 0.0, np.maximum(allowed, SMALLEST), 0.0)
    return np.minimum(allowed, _LARGEST)


def _objectives(
    game: Any, table: Normalised, objective: Any, stats: dict[str, Any]
) -> dict[str, Any]:
    """Convert the objective and its bound, for objectives that are sums of payoffs."""
    if objective is None or (isinstance(objective, str) and objective == "entropy"):
        return {}
    if not isinstance(objective, str) and np.ndim(objective) > 1:
        return {}  # a table, which has units of its own
    weight = (
        {"welfare": game.players, "egalitarian": 1.0}.get(objective)
        if isinstance(objective, str)
        else float(np.sum(objective))
    )
    names = [name for name in ("objective", "bound") if name in stats]
    with np.errstate(over="ignore"):
        return {
            name: np.ldexp(stats[name] + weight * table.offset, table.exponent)[()]
            for name in names
        }
