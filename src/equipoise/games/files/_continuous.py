"""Games of continuous actions as named arrays: the arguments of `PolynomialTerms` and the game."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.games._continuous import ContinuousGame
from equipoise.games._continuous_terms import PolynomialTerms

#: The array by which such a file is known; all others may be left out.
MARK = "own"

_NAMES = re.compile(
    r"own|effects|context_probabilities|transitions|initial|horizon|noise"
    r"|pairs_\d{1,3}_\d{1,3}|(scopes|powers|weights)_\d{1,3}"
)


def known_names(found: Sequence[str]) -> list[str]:
    """Those names of arrays that such a game may have."""
    return [name for name in found if _NAMES.fullmatch(name)]


def arrays_of(game: ContinuousGame) -> dict[str, Any]:
    """All that a game is made of, by name; a function of the user's is no array."""
    terms = game.terms
    if not isinstance(terms, PolynomialTerms):
        raise ValueError(
            "game: expected polynomial terms, since a file holds arrays; found rewards that are "
            "a function"
        )
    arrays = {"own": terms.own, "effects": terms.effects}
    arrays |= {f"pairs_{p}_{q}": weights for (p, q), weights in terms.pairs.items()}
    for order, group in terms.groups.items():
        arrays |= {f"scopes_{order}": group.scopes, f"powers_{order}": group.powers}
        arrays |= {f"weights_{order}": group.weights}
    arrays |= {"context_probabilities": game.context_probabilities}
    if game.transitions is not None and game.initial is not None:
        arrays |= {"transitions": game.transitions, "initial": game.initial}
    return arrays | {"horizon": np.int64(game.horizon), "noise": np.float64(game.noise)}


def game_of(arrays: dict[str, np.ndarray]) -> ContinuousGame:
    """The game that was written, or one that somebody made by hand."""
    own = arrays["own"]
    if own.ndim not in (2, 3, 4):
        raise ValueError(
            "own: expected shape (agents, powers), (contexts, agents, powers) or (contexts, "
            f"agents, states, powers), found {own.shape}"
        )
    pairs, orders = {}, set()
    for name, array in arrays.items():
        kind, *numbers = name.split("_")
        if kind == "pairs":
            pairs[int(numbers[0]), int(numbers[1])] = array
        elif kind in ("scopes", "powers", "weights"):
            orders.add(int(numbers[0]))
    groups = {order: _group(arrays, order) for order in orders}
    agents = own.shape[0] if own.ndim == 2 else own.shape[1]
    terms = PolynomialTerms(agents, own, pairs, groups, arrays.get("effects"))
    return ContinuousGame(
        terms,
        *(arrays.get(name) for name in ("context_probabilities", "transitions", "initial")),
        horizon=checks.check_count("horizon", _number("horizon", arrays.get("horizon"), 1)),
        noise=_number("noise", arrays.get("noise"), 0.0),
    )


def _group(arrays: dict[str, np.ndarray], order: int) -> tuple[np.ndarray, ...]:
    names = [f"{kind}_{order}" for kind in ("scopes", "powers", "weights")]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ValueError(f"expected {', '.join(names)} together, found no {missing[0]}")
    return tuple(arrays[name] for name in names)


def _number(name: str, array: np.ndarray | None, default: float) -> float:
    if array is None:
        return default
    if array.shape != () or array.dtype.kind not in "fiu":
        raise ValueError(f"{name}: expected one number, found {array!r}")
    return array.item()
