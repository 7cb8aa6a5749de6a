"""Very many agents who meet in an aggregate: roads, a bar, a market, common goods."""

from functools import partial
from typing import Any

from equipoise.games.catalogue._entry import Entry, check_number, check_table, check_whole, named

#: The most agents of a crowd: float64 counts them exactly.
MOST_AGENTS = 2**53


def shared_out(agents: int, types: int) -> list[int]:
    """How many agents of each type there are, as even as can be.

    >>> shared_out(10, 3)
    [4, 3, 3]
    """
    if agents < types:
        raise ValueError(f"agents: expected one of each of the {types} types, found {agents}")
    return [agents // types + (t < agents % types) for t in range(types)]


def check_agents(agents: Any, types: Any = 1, *sizes: int) -> tuple[int, int]:
    """Numbers of agents and types that memory has room for, with `sizes` for each type."""
    agents = check_whole("agents", agents, at_most=MOST_AGENTS)
    types = check_whole("types", types)
    check_table("types", types, *sizes)
    return agents, types


# Rewards are functions of this module with their numbers filled in, which can be sent to other
# processes. Each takes one aggregate, or one for each agent and action.


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


def _two_roads(
    agents: int = 10_000,
    motorway: float = 0.1,
    jam: float = 0.6,
    town: float = 0.3,
    crowd: float = 0.2,
) -> dict[str, Any]:
    import numpy as np

    agents, _ = check_agents(agents)
    motorway, jam, town, crowd = (
        check_number(name, value, 0.0, 0.5 if name in ("motorway", "town") else 1.0)
        for name, value in (("motorway", motorway), ("jam", jam), ("town", town), ("crowd", crowd))
    )
    worst = max(motorway + jam, town + crowd, 1.0)
    free = -np.array([[motorway, town + crowd]]) / worst
    slope = -np.array([[jam, -crowd]]) / worst
    return {
        "influence": np.array([[[1.0], [0.0]]]),
        "reward": partial(_affine, free, slope),
        "lipschitz": float(np.abs(slope).max()),
        "counts": [agents],
        "labels": named("motorway, town", types="drivers"),
    }


def _parallel_roads(agents: int = 10_000, roads: int = 3, types: int = 4) -> dict[str, Any]:
    import numpy as np

    roads = check_whole("roads", roads, 2)
    check_table("roads", roads, roads)
    agents, types = check_agents(agents, types, roads, roads)
    number = np.arange(roads)
    length = 0.1 + 0.3 * number / roads
    jam = 0.6 - 0.4 * number / roads
    # The hurried suffer more from every minute; each lives nearer to some roads than to others.
    hurry = 0.6 + 0.4 * (np.arange(types) + 1) / types
    detour = 0.1 * np.cos(np.arange(types)[:, None] + 2.0 * number)
    slopes = np.zeros((types, roads, roads))
    slopes[:, number, number] = -hurry[:, None] * jam
    base = -hurry[:, None] * (length + np.abs(detour))
    return {
        "influence": np.broadcast_to(np.eye(roads), (types, roads, roads)).copy(),
        "reward": partial(_by_road, base, 1.0, slopes),
        "lipschitz": float(np.abs(slopes).sum(-1).max()),
        "counts": shared_out(agents, types),
        "labels": {"actions": [[f"road {road + 1}" for road in range(roads)]]},
    }


def _braess(agents: int = 10_000, bridge: bool = True) -> dict[str, Any]:
    import numpy as np

    agents, _ = check_agents(agents)
    # Routes: over the north, over the south, and north then bridge then south.
    narrow = np.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
    fixed = np.array([[0.45, 0.45, 0.0]])
    if not bridge:
        narrow, fixed = narrow[:, :2], fixed[:, :2]
    return {
        "influence": narrow,
        "reward": partial(_by_road, -fixed, -0.4, narrow),
        "lipschitz": 0.8 if bridge else 0.4,
        "counts": [agents],
        "labels": named("north, south, bridge" if bridge else "north, south", types="drivers"),
    }


def _el_farol(agents: int = 10_000, capacity: float = 0.6, types: int = 1) -> dict[str, Any]:
    import numpy as np

    agents, types = check_agents(agents, types)
    capacity = check_number("capacity", capacity, 0.0, 1.0)
    # Types differ in how full they like the bar to be.
    taste = capacity + (0.2 * (np.arange(types) - (types - 1) / 2) / types)[:, None]
    going = np.array([[0.0, 1.0]])
    return {
        "influence": np.broadcast_to([[0.0], [1.0]], (types, 2, 1)).copy(),
        "reward": partial(_crowded, 0.9 * going, taste),
        "lipschitz": 0.9,
        "counts": shared_out(agents, types),
        "labels": named("stay at home, go"),
    }


def _cournot(
    agents: int = 1_000, levels: int = 11, demand: float = 1.0, cost: float = 0.2
) -> dict[str, Any]:
    import numpy as np

    levels = check_whole("levels", levels, 2)
    check_table("levels", levels)
    agents, _ = check_agents(agents)
    demand = check_number("demand", demand, 0.0, 1.0)
    cost = check_number("cost", cost, 0.0, 1.0)
    output = np.linspace(0.0, 1.0, levels)[None]
    return {
        "influence": output[..., None].copy(),
        "reward": partial(_crowded, output, demand - cost),
        "lipschitz": 1.0,
        "counts": [agents],
        "labels": {"actions": [[f"output {level:g}" for level in output[0]]], "types": ["firms"]},
    }


def _public_good(agents: int = 10_000, gain: float = 0.9, cost: float = 0.3) -> dict[str, Any]:
    import numpy as np

    agents, _ = check_agents(agents)
    gain, cost = check_number("gain", gain, 0.0, 1.0), check_number("cost", cost, 0.0, 1.0)
    joining = np.array([[0.0, 1.0]])
    return {
        "influence": joining[..., None].copy(),
        "reward": partial(_joined, joining, gain, cost),
        "lipschitz": gain,
        "counts": [agents],
        "labels": named("stay out, join"),
    }


def _beauty_contest(agents: int = 1_000, levels: int = 21, factor: float = 0.67) -> dict[str, Any]:
    import numpy as np

    levels = check_whole("levels", levels, 2)
    check_table("levels", levels)
    agents, _ = check_agents(agents)
    factor = check_number("factor", factor, 0.0, 1.0)
    guess = np.linspace(0.0, 1.0, levels)[None]
    return {
        "influence": guess[..., None].copy(),
        "reward": partial(_guessed, guess, factor),
        "lipschitz": factor,
        "counts": [agents],
        "labels": {"actions": [[f"guess {level:g}" for level in guess[0]]]},
    }


GAMES = (
    Entry(
        name="two-roads",
        title="Two roads into town",
        kind="aggregative",
        source=(
            "A. C. Pigou, The Economics of Welfare, Macmillan, 1920; J. G. Wardrop, Some "
            "theoretical aspects of road traffic research, Proceedings of the Institution of "
            "Civil Engineers 1 (1952)"
        ),
        build=_two_roads,
        notes=(
            "The motorway takes `motorway` + `jam` x when a share x is on it, the road through "
            "town `town` + `crowd` (1 - x). In equilibrium both take equally long: "
            "x = (`town` + `crowd` - `motorway`) / (`jam` + `crowd`), a half by default."
        ),
    ),
    Entry(
        name="parallel-roads",
        title="Parallel roads and drivers of several kinds",
        kind="aggregative",
        source=(
            "R. W. Rosenthal, A class of games possessing pure-strategy Nash equilibria, "
            "International Journal of Game Theory 2 (1973)"
        ),
        build=_parallel_roads,
        notes=(
            "One coordinate of the aggregate for each of the `roads`: its share of the traffic. "
            "Long roads jam less; the `types` differ in hurry and in where they live."
        ),
    ),
    Entry(
        name="braess",
        title="Braess's network: a bridge that slows everybody",
        kind="aggregative",
        source=(
            "D. Braess, Über ein Paradoxon aus der Verkehrsplanung, Unternehmensforschung 12 (1968)"
        ),
        build=_braess,
        notes=(
            "Two narrow links whose time grows with their traffic, two wide ones. With the "
            "`bridge` all take both narrow links, in time 0.8; without it they split in half, in "
            "time 0.65."
        ),
    ),
    Entry(
        name="el-farol",
        title="The bar at El Farol",
        kind="aggregative",
        source=(
            "W. B. Arthur, Inductive reasoning and bounded rationality, American Economic Review "
            "84 (1994)"
        ),
        build=_el_farol,
        notes=(
            "Going is nicer than staying at home while less than a share `capacity` goes. In "
            "equilibrium just that share goes; with several `types` those who like it full go "
            "first."
        ),
    ),
    Entry(
        name="cournot",
        title="Cournot's market of many firms",
        kind="aggregative",
        source=(
            "A. A. Cournot, Recherches sur les principes mathématiques de la théorie des "
            "richesses, Hachette, 1838"
        ),
        build=_cournot,
        notes=(
            "The price is `demand` minus the mean output. With many firms it falls to their "
            "`cost`: the mean output is `demand` - `cost`."
        ),
    ),
    Entry(
        name="public-good",
        title="A common good that pays when many join",
        kind="aggregative",
        source=(
            "A. Sen, Isolation, assurance and the social rate of discount, Quarterly Journal of "
            "Economics 81 (1967)"
        ),
        build=_public_good,
        notes=(
            "Who joins pays `cost` and gets `gain` times the share that joins. Nobody, everybody, "
            "and a share of `cost` / `gain` are equilibria; everybody is best."
        ),
    ),
    Entry(
        name="beauty-contest",
        title="Guess a part of the mean",
        kind="aggregative",
        source=(
            "H. Moulin, Game Theory for the Social Sciences, New York University Press, 1982; "
            "R. Nagel, Unraveling in guessing games, American Economic Review 85 (1995)"
        ),
        build=_beauty_contest,
        notes="Whoever is near `factor` times the mean guess does well: all guess zero.",
    ),
)
