"""Games of interaction terms as named arrays: the arguments of `Interactions` and of the game."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.games._contextual import ContextualGame
from equipoise.games._decoupled import DecoupledMarkovGame
from equipoise.games._interactions import Interactions

#: The array by which such a file is known; `scopes_K` and `tables_K` of some order are beside it.
MARK = "agents"

_ORDERS = re.compile(r"(scopes|tables)_(\d{1,3})")
_NAMES = ("agents", "actions", "states", "transitions", "initial", "context_probabilities", "noise")


def known_names(found: Sequence[str]) -> list[str]:
    """Those names of arrays that such a game may have."""
    return [name for name in found if name in _NAMES or _ORDERS.fullmatch(name)]


def arrays_of(game: ContextualGame | DecoupledMarkovGame) -> dict[str, Any]:
    """All that a game is made of, by name."""
    terms = game.interactions
    arrays: dict[str, Any] = {"agents": np.int64(terms.agents)}
    for order, scope in terms.scopes.items():
        arrays |= {f"scopes_{order}": scope, f"tables_{order}": terms.tables[order]}
    arrays |= {"actions": np.array(game.actions), "noise": np.float64(game.noise)}
    arrays |= {"context_probabilities": game.context_probabilities}
    if isinstance(game, DecoupledMarkovGame):
        arrays |= {"states": np.array(game.states)}
        arrays |= {"transitions": game.transitions, "initial": game.initial}
    return arrays


def game_of(arrays: dict[str, np.ndarray]) -> ContextualGame | DecoupledMarkovGame:
    """The game that was written, or one that somebody made by hand; with states where it moves."""
    parts: dict[str, dict[int, np.ndarray]] = {"scopes": {}, "tables": {}}
    for name, array in arrays.items():
        match = _ORDERS.fullmatch(name)
        if match:
            parts[match[1]][int(match[2])] = array
    agents = checks.check_count("agents", _number("agents", arrays["agents"]))
    terms = Interactions(parts["scopes"], parts["tables"], agents)
    more: dict[str, Any] = {
        "context_probabilities": arrays.get("context_probabilities"),
        "actions": arrays.get("actions"),
        "noise": _number("noise", arrays["noise"]) if "noise" in arrays else 0.0,
    }
    moving = [name for name in ("transitions", "initial", "states") if name in arrays]
    if not moving:
        return ContextualGame(terms, **more)
    if not {"transitions", "initial"} <= set(moving):
        raise ValueError(f"expected transitions and initial together, found {', '.join(moving)}")
    moves = arrays["transitions"], arrays["initial"]
    return DecoupledMarkovGame(terms, *moves, states=arrays.get("states"), **more)


def _number(name: str, array: np.ndarray) -> Any:
    if array.shape != () or array.dtype.kind not in "fiu":
        raise ValueError(f"{name}: expected one number, found {array!r}")
    return array.item()
