"""Games of very many agents who interact through an aggregate, with or without states.

Rewards and transitions are functions of this module with their numbers bound, so that they can be
sent to other processes. Each takes one aggregate, or one per agent and action.
"""

import math
from functools import partial
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.games.catalogue._parameters import check_table


def _shared_out(agents: int, types: int) -> list[int]:
    """Return the number of agents of each type, as even as possible.

    >>> _shared_out(10, 3)
    [4, 3, 3]
    """
    check_table("types", types)
    if agents < types:
        raise InputError("agents", f"at least one for each of the {types} types", agents)
    return [agents // types + (t < agents % types) for t in range(types)]


def _affine(base: Any, slope: Any, x: Any) -> Any:
    return base + slope * x[..., 0]


def _by_road(base: Any, factor: float, slopes: Any, x: Any) -> Any:
    return base + factor * (slopes * x).sum(-1)


def _crowded(worth: Any, best: Any, x: Any) -> Any:
    return worth * (best - x[..., 0])


def _joined(joining: Any, gain: float, cost: float, x: Any) -> Any:
    return joining * (gain * x[..., 0] - cost)


def _guessed(guess: Any, factor: float, x: Any) -> Any:
    return -abs(guess - factor * x[..., 0])


def two_roads(
    agents: int, motorway: float, jam: float, town: float, crowd: float
) -> dict[str, Any]:
    """The aggregate is the share of agents on the motorway."""
    worst = max(motorway + jam, town + crowd, 1.0)
    free = -np.array([[motorway, town + crowd]]) / worst
    slope = -np.array([[jam, -crowd]]) / worst
    return {
        "influence": [[[1.0], [0.0]]],
        "reward": partial(_affine, free, slope),
        "lipschitz": float(np.abs(slope).max()),
        "counts": [agents],
        "labels": {"actions": [["motorway", "town"]], "types": ["drivers"]},
    }


def parallel_roads(agents: int, roads: int, types: int) -> dict[str, Any]:
    """The aggregate is the share of agents on each road."""
    check_table("roads", roads, roads)
    check_table("types", types, roads, roads)
    counts = _shared_out(agents, types)
    number = np.arange(roads)
    length = 0.1 + 0.3 * number / roads
    jam = 0.6 - 0.4 * number / roads
    # Hurried types suffer more from every minute; each type lives nearer to some roads.
    hurry = 0.6 + 0.4 * (np.arange(types) + 1) / types
    detour = 0.1 * np.cos(np.arange(types)[:, None] + 2.0 * number)
    slopes = np.zeros((types, roads, roads))
    slopes[:, number, number] = -hurry[:, None] * jam
    base = -hurry[:, None] * (length + np.abs(detour))
    return {
        "influence": np.tile(np.eye(roads), (types, 1, 1)),
        "reward": partial(_by_road, base, 1.0, slopes),
        "lipschitz": float(np.abs(slopes).sum(-1).max()),
        "counts": counts,
        "labels": {"actions": [[f"road {road + 1}" for road in range(roads)]]},
    }


def braess(agents: int, bridge: bool) -> dict[str, Any]:
    """The routes are: the north, the south, and north, bridge, south."""
    routes = 3 if bridge else 2
    narrow = np.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])[:, :routes]
    fixed = np.array([[0.45, 0.45, 0.0]])[:, :routes]
    return {
        "influence": narrow,
        "reward": partial(_by_road, -fixed, -0.4, narrow),
        "lipschitz": 0.8 if bridge else 0.4,
        "counts": [agents],
        "labels": {"actions": [["north", "south", "bridge"][:routes]], "types": ["drivers"]},
    }


def el_farol(agents: int, capacity: float, types: int) -> dict[str, Any]:
    """Types differ in how full they like the bar to be."""
    counts = _shared_out(agents, types)
    taste = capacity + (0.2 * (np.arange(types) - (types - 1) / 2) / types)[:, None]
    return {
        "influence": np.tile([[0.0], [1.0]], (types, 1, 1)),
        "reward": partial(_crowded, np.array([[0.0, 0.9]]), taste),
        "lipschitz": 0.9,
        "counts": counts,
        "labels": {"actions": [["stay at home", "go"]]},
    }


def cournot(agents: int, levels: int, demand: float, cost: float) -> dict[str, Any]:
    """The aggregate is the mean output."""
    check_table("levels", levels)
    output = np.linspace(0.0, 1.0, levels)[None]
    return {
        "influence": output[..., None],
        "reward": partial(_crowded, output, demand - cost),
        "lipschitz": 1.0,
        "counts": [agents],
        "labels": {"actions": [[f"output {level:g}" for level in output[0]]], "types": ["firms"]},
    }


def public_good(agents: int, gain: float, cost: float) -> dict[str, Any]:
    """The aggregate is the share of agents who join."""
    joining = np.array([[0.0, 1.0]])
    return {
        "influence": joining[..., None],
        "reward": partial(_joined, joining, gain, cost),
        "lipschitz": gain,
        "counts": [agents],
        "labels": {"actions": [["stay out", "join"]]},
    }


def beauty_contest(agents: int, levels: int, factor: float) -> dict[str, Any]:
    """The aggregate is the mean guess."""
    check_table("levels", levels)
    guess = np.linspace(0.0, 1.0, levels)[None]
    return {
        "influence": guess[..., None],
        "reward": partial(_guessed, guess, factor),
        "lipschitz": factor,
        "counts": [agents],
        "labels": {"actions": [[f"guess {level:g}" for level in guess[0]]]},
    }


def _stages(horizon: int, levels: int, word: str, labels: dict[str, Any]) -> dict[str, Any]:
    """Return what games with states have in common; states are levels of `word`."""
    check_table("horizon", horizon, levels, levels)
    states = [f"{word} {level}" for level in range(levels)]
    return {"horizon": horizon, "states": levels, "labels": labels | {"states": states}}


def _walk(up: Any, down: Any, state: int, states: int) -> Any:
    """(..., states): move one state up, one down, or stay; no step leads beyond the ends."""
    chances = np.zeros((*np.shape(up), states))
    chances[..., min(state + 1, states - 1)] += up
    chances[..., max(state - 1, 0)] += down
    chances[..., state] += 1.0 - up - down
    return chances


def demand_response(agents: int, horizon: int, levels: int, types: int) -> dict[str, Any]:
    """The aggregate is the mean demand, the state is the charge of the battery."""
    counts = _shared_out(agents, types)
    stages = _stages(horizon, levels, "charge", {"actions": [["nothing", "half", "all"]]})
    use = np.array([0.0, 0.5, 1.0])
    # How much each type of household wants electricity.
    eager = 0.45 + 0.35 * (np.arange(types)[:, None] + 1) / types
    return stages | {
        "influence": np.tile(use[:, None], (types, 1, 1)),
        "reward": partial(_electricity, eager * np.sqrt(use), use, horizon, levels),
        "transition": partial(_battery, levels),
        "counts": counts,
        "lipschitz": 0.6,
        "transition_lipschitz": 0.7,
    }


def _electricity(comfort: Any, use: Any, horizon: int, levels: int, h: int, s: int, x: Any) -> Any:
    evening = 0.6 + 0.4 * math.sin(math.pi * (h + 1) / (horizon + 1))
    scarce = 1.0 - 0.5 * s / (levels - 1)
    return evening * comfort - use * scarce * (0.2 + 0.6 * x[..., 0])


def _battery(levels: int, h: int, s: int, x: Any) -> Any:
    demand = x[..., 0]
    return _walk(0.7 * (1.0 - demand), 0.7 * demand, s, levels)


def epidemic(agents: int, horizon: int, levels: int, danger: float) -> dict[str, Any]:
    """The aggregate is how much people meet, the state is the prevalence of the disease."""
    labels = {
        "actions": [["stay at home", "meet some", "meet all"]],
        "types": ["young", "middle-aged", "old"],
    }
    contacts = np.array([0.0, 0.5, 1.0])
    frailty = np.array([[0.3], [0.6], [1.0]])
    joy = 0.5 * np.sqrt(contacts) * np.array([[1.0], [0.9], [0.8]])
    return _stages(horizon, levels, "disease", labels) | {
        "influence": np.tile(contacts[:, None], (3, 1, 1)),
        "reward": partial(_meeting, joy, danger, frailty, contacts, levels),
        "transition": partial(_infection, levels),
        "counts": _shared_out(agents, 3),
        "lipschitz": 0.8 * danger,
        "transition_lipschitz": 1.6,
    }


def _meeting(
    joy: Any, danger: float, frailty: Any, contacts: Any, levels: int, h: int, s: int, x: Any
) -> Any:
    return joy - danger * (s / (levels - 1)) * frailty * contacts * (0.2 + 0.8 * x[..., 0])


def _infection(levels: int, h: int, s: int, x: Any) -> Any:
    meeting = x[..., 0]
    return _walk(0.8 * meeting**2, 0.6 * (1.0 - meeting), s, levels)


def bus_or_car(
    agents: int, horizon: int, levels: int, types: int, wait: float, jam: float
) -> dict[str, Any]:
    """The aggregate is the share on the bus, the state is the size of the fleet."""
    counts = _shared_out(agents, types)
    riding = np.array([[1.0, 0.0]])
    # How far from a stop each type of commuter lives.
    walk = np.linspace(0.0, 0.1, types)[:, None]
    return _stages(horizon, levels, "fleet", {"actions": [["bus", "car"]]}) | {
        "influence": np.tile(riding[..., None], (types, 1, 1)),
        "reward": partial(_commute, riding, walk, wait, jam, levels),
        "transition": partial(_fleet, levels),
        "counts": counts,
        "lipschitz": max(4.0 * wait, jam),
        "transition_lipschitz": 0.5,
    }


def _commute(
    riding: Any, walk: Any, wait: float, jam: float, levels: int, h: int, s: int, x: Any
) -> Any:
    riders = x[..., 0]
    frequency = 1.0 + 2.0 * (1.0 + s / (levels - 1)) * riders
    bus = 0.04 + walk + wait / frequency
    return -riding * bus - (1.0 - riding) * (0.3 + jam * (1.0 - riders))


def _fleet(levels: int, h: int, s: int, x: Any) -> Any:
    riders = x[..., 0]
    return _walk(0.5 * riders, 0.5 * (1.0 - riders), s, levels)
