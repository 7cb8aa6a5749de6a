"""Games as NumPy archives, `.npz`: exact, fast, with whole batches in one file. Never pickled.

The names of the arrays determine what the file holds:

| game | arrays |
|---|---|
| `MatrixGame` | `payoff` |
| `NormalFormGame` | `payoffs`; for a batch also `players` |
| `MarkovGame` | `reward`, `transition`, `discount`; `horizon` if it is finite |
| `ContinuousGame` of polynomial terms | `own`, other arguments of `PolynomialTerms` and the game |
| `ContextualGame` | `agents`, `scopes_K` and `tables_K` of every order K |
| `DecoupledMarkovGame` | the same, plus `transitions` and `initial` |
| `NetworkGame` | `tails`, `heads` and its other arguments that are arrays or numbers |

Labels, if any, are stored as JSON in the text array `labels`.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.arrays import read_npz, write_npz
from equipoise.core.errors import InputError
from equipoise.core.plain import parse_json
from equipoise.core.values import frozen
from equipoise.games._contextual import ContextualGame
from equipoise.games._continuous import ContinuousGame
from equipoise.games._continuous_terms import PolynomialTerms
from equipoise.games._decoupled import DecoupledMarkovGame
from equipoise.games._game import Game
from equipoise.games._interactions import Interactions
from equipoise.games._markov import MarkovGame
from equipoise.games._matrix import MatrixGame
from equipoise.games._network import NetworkGame
from equipoise.games._normal import NormalFormGame

Arrays = dict[str, Any]
#: Largest number of agents of a file that stores nothing per agent.
_FEW = 1_000_000


def write_arrays(game: Game, path: Path) -> None:
    """Write a game or a batch of games to `path`, which ends in `.npz`."""
    arrays = {name: np.asarray(array) for name, array in _TO_ARRAYS[type(game)](game).items()}
    if game.labels:
        arrays["labels"] = np.array(json.dumps(game.labels.to_plain(), ensure_ascii=False))
    write_npz(path, arrays)


def read_arrays(path: Path) -> Game:
    """Read the game or the batch of games in a `.npz` file."""
    arrays: Arrays = frozen(read_npz(path))
    try:
        labels = _labels(arrays.pop("labels")) if "labels" in arrays else None
        for names, (allowed, build) in _FROM_ARRAYS.items():
            if set(names) <= set(arrays) and all(allowed.fullmatch(name) for name in arrays):
                return build(arrays, labels)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    expected = ", or ".join(" and ".join(names) for names in _FROM_ARRAYS)
    raise InputError(str(path), f"arrays named {expected}", sorted(arrays))


def _labels(array: np.ndarray) -> dict[str, Any]:
    if array.shape != () or array.dtype.kind != "U":
        raise InputError("labels", "one text", f"{array.dtype} of {array.shape}")
    labels = parse_json(str(array), "labels")
    if not isinstance(labels, dict):
        raise InputError("labels", "an object", type(labels).__name__)
    return labels


def _number(name: str, array: np.ndarray | None, default: float) -> float:
    if array is None:
        return default
    if array.shape != () or array.dtype.kind not in "fiu":
        raise InputError(name, "one number", f"{array.dtype} of {array.shape}")
    return array.item()


def _arguments(game: Game) -> Arrays:
    return {name: a for name, a in game.to_plain().items() if name not in ("kind", "labels")}


def _normal_arrays(game: Any) -> Arrays:
    # A single game is stored without the number of players; older versions can read it.
    return _arguments(game) if game.batch_shape else {"payoffs": game.payoffs}


def _normal(arrays: Arrays, labels: Any) -> NormalFormGame:
    players = arrays["players"].item() if "players" in arrays else None
    return NormalFormGame(arrays["payoffs"], players=players, labels=labels)


def _markov(arrays: Arrays, labels: Any) -> MarkovGame:
    discount = _number("discount", arrays["discount"], 0.0)
    horizon = arrays["horizon"].item() if "horizon" in arrays else None
    options: dict[str, Any] = {"horizon": horizon, "labels": labels}
    return MarkovGame(arrays["reward"], arrays["transition"], discount, **options)


def _continuous_arrays(game: Any) -> Arrays:
    """Return all parts of a game by name; refuse a user's function, which is not an array."""
    terms = game.terms
    if not isinstance(terms, PolynomialTerms):
        raise InputError("game", "polynomial terms, because files hold arrays", "a reward function")
    arrays = {"own": terms.own, "effects": terms.effects}
    arrays |= {f"pairs_{p}_{q}": weights for (p, q), weights in terms.pairs.items()}
    for order, group in terms.groups.items():
        arrays |= {f"scopes_{order}": group.scopes, f"powers_{order}": group.powers}
        arrays |= {f"weights_{order}": group.weights}
    arrays |= {"context_probabilities": game.context_probabilities}
    if game.transitions is not None and game.initial is not None:
        arrays |= {"transitions": game.transitions, "initial": game.initial}
    return arrays | {"horizon": np.int64(game.horizon), "noise": np.float64(game.noise)}


def _continuous(arrays: Arrays, labels: Any) -> ContinuousGame:
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
    return ContinuousGame(
        PolynomialTerms(agents, own, pairs, groups, arrays.get("effects")),
        *(arrays.get(name) for name in ("context_probabilities", "transitions", "initial")),
        horizon=checks.check_count("horizon", _number("horizon", arrays.get("horizon"), 1)),
        noise=_number("noise", arrays.get("noise"), 0.0),
        labels=labels,
    )


def _group(arrays: Arrays, order: int) -> tuple[np.ndarray, ...]:
    names = [f"{kind}_{order}" for kind in ("scopes", "powers", "weights")]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ValueError(f"expected {', '.join(names)} together, found no {missing[0]}")
    return tuple(arrays[name] for name in names)


def _terms_arrays(game: Any) -> Arrays:
    terms = game.interactions
    arrays: Arrays = {"agents": np.int64(terms.agents)}
    for order, scope in terms.scopes.items():
        arrays |= {f"scopes_{order}": scope, f"tables_{order}": terms.tables[order]}
    arrays |= {"actions": np.array(game.actions), "noise": np.float64(game.noise)}
    arrays |= {"context_probabilities": game.context_probabilities}
    if isinstance(game, DecoupledMarkovGame):
        arrays |= {"states": np.array(game.states)}
        arrays |= {"transitions": game.transitions, "initial": game.initial}
    return arrays


def _terms(arrays: Arrays, labels: Any) -> ContextualGame | DecoupledMarkovGame:
    """Build a game of interaction terms; with local states if there are transitions."""
    parts: dict[str, dict[int, np.ndarray]] = {"scopes": {}, "tables": {}}
    for name, array in arrays.items():
        kind, _, order = name.partition("_")
        if kind in parts:
            parts[kind][int(order)] = array
    agents = checks.check_count("agents", _number("agents", arrays["agents"], 1))
    if agents > max(_FEW, sum(array.size for array in arrays.values())):
        raise InputError("agents", "at most as many as the numbers in the file", agents)
    terms = Interactions(parts["scopes"], parts["tables"], agents)
    more: Arrays = {name: arrays.get(name) for name in ("context_probabilities", "actions")}
    more |= {"noise": _number("noise", arrays.get("noise"), 0.0), "labels": labels}
    moving = [name for name in ("transitions", "initial", "states") if name in arrays]
    if not moving:
        return ContextualGame(terms, **more)
    if not {"transitions", "initial"} <= set(moving):
        raise ValueError(f"expected transitions and initial together, found {', '.join(moving)}")
    moves = arrays["transitions"], arrays["initial"]
    return DecoupledMarkovGame(terms, *moves, states=arrays.get("states"), **more)


_NETWORK = (
    *("tails", "heads", "origins", "destinations", "demand", "free_flow", "rise", "capacity"),
    *("power", "fixed", "tolls", "classes", "values_of_time", "positions"),
)


def _network_arrays(game: Any) -> Arrays:
    if game.cost is not None:
        raise InputError("game", "costs given by numbers, because files hold arrays", "a function")
    return _arguments(game) | {"atomic": int(game.atomic)}


def _network(arrays: Arrays, labels: Any) -> NetworkGame:
    numbers = {
        name: checks.check_count(name, _number(name, arrays.get(name), 0), 0)
        for name in ("first_through", "atomic")
    }
    arrays = {name: array for name, array in arrays.items() if name not in numbers}
    return NetworkGame(
        **arrays,
        first_through=numbers["first_through"],
        atomic=bool(numbers["atomic"]),
        labels=labels,
    )


#: Class of game -> function that returns the contents of its file.
_TO_ARRAYS: dict[type[Game], Callable[[Any], Arrays]] = {
    MatrixGame: _arguments,
    NormalFormGame: _normal_arrays,
    MarkovGame: _arguments,
    ContinuousGame: _continuous_arrays,
    ContextualGame: _terms_arrays,
    DecoupledMarkovGame: _terms_arrays,
    NetworkGame: _network_arrays,
}
#: Kinds of games that `.npz` files hold.
KINDS = tuple(_TO_ARRAYS)

_SHARED = r"context_probabilities|transitions|initial|noise"
#: Required arrays of a file -> optional arrays, and the function that builds the game.
_FROM_ARRAYS: dict[tuple[str, ...], tuple[re.Pattern[str], Callable[[Arrays, Any], Game]]] = {
    ("payoff",): (
        re.compile("payoff"),
        lambda arrays, labels: MatrixGame(arrays["payoff"], labels=labels),
    ),
    ("payoffs",): (
        re.compile("payoffs|players"),
        _normal,
    ),
    ("reward", "transition", "discount"): (
        re.compile("reward|transition|discount|horizon"),
        _markov,
    ),
    ("own",): (
        re.compile(
            rf"own|effects|horizon|{_SHARED}"
            r"|pairs_\d{1,3}_\d{1,3}|(scopes|powers|weights)_\d{1,3}"
        ),
        _continuous,
    ),
    ("agents",): (
        re.compile(rf"agents|actions|states|{_SHARED}|(scopes|tables)_\d{{1,3}}"),
        _terms,
    ),
    ("tails", "heads", "origins", "destinations", "demand"): (
        re.compile("|".join((*_NETWORK, "first_through", "atomic"))),
        _network,
    ),
}
