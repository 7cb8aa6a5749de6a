"""Very many agents whose aggregate moves a common state: a battery, an epidemic, a bus fleet."""

import math
from functools import partial
from typing import Any

from equipoise.games.catalogue._entry import Entry, check_number, check_table, check_whole, named
from equipoise.games.catalogue.crowds import check_agents, shared_out


def _walk(up: Any, down: Any, state: int, states: int) -> Any:
    """(..., states): one state up, one down, or stay; the ends hold."""
    import numpy as np

    chances = np.zeros((*np.shape(up), states))
    chances[..., min(state + 1, states - 1)] += up
    chances[..., max(state - 1, 0)] += down
    chances[..., state] += 1.0 - up - down
    return chances


def _check_stages(horizon: Any, levels: Any) -> tuple[int, int]:
    horizon, levels = check_whole("horizon", horizon), check_whole("levels", levels, 2)
    check_table("horizon", horizon, levels, levels)
    return horizon, levels


def _numbered(word: str, levels: int) -> list[str]:
    return [f"{word} {level}" for level in range(levels)]


def _demand_response(
    agents: int = 100_000, horizon: int = 8, levels: int = 3, types: int = 3
) -> dict[str, Any]:
    import numpy as np

    agents, types = check_agents(agents, types)
    horizon, levels = _check_stages(horizon, levels)
    use = np.array([0.0, 0.5, 1.0])
    # How much each kind of household wants the electricity, and when of the day.
    eager = 0.45 + 0.35 * (np.arange(types)[:, None] + 1) / types
    comfort = eager * np.sqrt(use)
    return {
        "influence": np.broadcast_to(use[:, None], (types, 3, 1)).copy(),
        "reward": partial(_electricity, comfort, use, horizon, levels),
        "transition": partial(_battery, levels),
        "horizon": horizon,
        "states": levels,
        "counts": shared_out(agents, types),
        "lipschitz": 0.6,
        "transition_lipschitz": 0.7,
        "labels": named("nothing, half, all") | {"states": _numbered("charge", levels)},
    }


def _electricity(comfort: Any, use: Any, horizon: int, levels: int, h: int, s: int, x: Any) -> Any:
    evening = 0.6 + 0.4 * math.sin(math.pi * (h + 1) / (horizon + 1))
    scarce = 1.0 - 0.5 * s / (levels - 1)
    return evening * comfort - use * scarce * (0.2 + 0.6 * x[..., 0])


def _battery(levels: int, h: int, s: int, x: Any) -> Any:
    demand = x[..., 0]
    return _walk(0.7 * (1.0 - demand), 0.7 * demand, s, levels)


def _epidemic(
    agents: int = 100_000, horizon: int = 10, levels: int = 4, danger: float = 0.9
) -> dict[str, Any]:
    import numpy as np

    agents, _ = check_agents(agents)
    horizon, levels = _check_stages(horizon, levels)
    danger = check_number("danger", danger, 0.0, 1.0)
    contacts = np.array([0.0, 0.5, 1.0])
    frailty = np.array([[0.3], [0.6], [1.0]])
    joy = 0.5 * np.sqrt(contacts) * np.array([[1.0], [0.9], [0.8]])
    labels = named("stay at home, meet some, meet all", types="young, middle-aged, old")
    return {
        "influence": np.broadcast_to(contacts[:, None], (3, 3, 1)).copy(),
        "reward": partial(_meeting, joy, danger, frailty, contacts, levels),
        "transition": partial(_infection, levels),
        "horizon": horizon,
        "states": levels,
        "counts": shared_out(agents, 3),
        "lipschitz": 0.8 * danger if danger > 0 else 0.0,
        "transition_lipschitz": 1.6,
        "labels": labels | {"states": _numbered("disease", levels)},
    }


def _meeting(
    joy: Any, danger: float, frailty: Any, contacts: Any, levels: int, h: int, s: int, x: Any
) -> Any:
    return joy - danger * (s / (levels - 1)) * frailty * contacts * (0.2 + 0.8 * x[..., 0])


def _infection(levels: int, h: int, s: int, x: Any) -> Any:
    meeting = x[..., 0]
    return _walk(0.8 * meeting**2, 0.6 * (1.0 - meeting), s, levels)


def _bus_or_car(
    agents: int = 100_000,
    horizon: int = 8,
    levels: int = 3,
    types: int = 4,
    wait: float = 0.6,
    jam: float = 0.3,
) -> dict[str, Any]:
    import numpy as np

    agents, types = check_agents(agents, types)
    horizon, levels = _check_stages(horizon, levels)
    wait, jam = check_number("wait", wait, 0.0, 0.8), check_number("jam", jam, 0.0, 0.7)
    riding = np.array([[1.0, 0.0]])
    # How far from a stop each kind of commuter lives.
    walk = np.linspace(0.0, 0.1, types)[:, None]
    return {
        "influence": np.broadcast_to(riding[..., None], (types, 2, 1)).copy(),
        "reward": partial(_commute, riding, walk, wait, jam, levels),
        "transition": partial(_fleet, levels),
        "horizon": horizon,
        "states": levels,
        "counts": shared_out(agents, types),
        "lipschitz": max(4.0 * wait, jam),
        "transition_lipschitz": 0.5,
        "labels": named("bus, car") | {"states": _numbered("fleet", levels)},
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


GAMES = (
    Entry(
        name="demand-response",
        title="Households and the battery of their grid",
        kind="aggregative-markov",
        source=(
            "A. Mohsenian-Rad and others, Autonomous demand-side management based on "
            "game-theoretic energy consumption scheduling for the future smart grid, IEEE "
            "Transactions on Smart Grid 1 (2010); the battery and the numbers are ours"
        ),
        build=_demand_response,
        notes=(
            "Each of `horizon` steps a household uses nothing, half or all of what it would like. "
            "The price rises with the mean demand, and as the common battery, of `levels` "
            "states, empties, which it does the faster the larger the demand."
        ),
    ),
    Entry(
        name="epidemic",
        title="Keeping one's distance in an epidemic",
        kind="aggregative-markov",
        source=(
            "T. C. Reluga, Game theory of social distancing in response to an epidemic, PLoS "
            "Computational Biology 6 (2010); the numbers are ours"
        ),
        build=_epidemic,
        notes=(
            "The state is how common the disease is, in `levels`. Meeting others is a joy, and a "
            "danger that grows with the disease and with how much everybody meets; the young, "
            "the middle-aged and the old differ in both. Much meeting spreads the disease."
        ),
    ),
    Entry(
        name="bus-or-car",
        title="Bus or car: a service that is the better the more use it",
        kind="aggregative-markov",
        source=(
            "H. Mohring, Optimization and scale economies in urban bus transportation, American "
            "Economic Review 62 (1972); A. Downs, The law of peak-hour expressway congestion, "
            "Traffic Quarterly 16 (1962); the fleet and the numbers are ours"
        ),
        build=_bus_or_car,
        notes=(
            "On each of `horizon` days a commuter rides a bus or drives. The more ride, the more "
            "often buses run and the less the drivers jam the roads; and the likelier the fleet, "
            "of `levels` sizes, is larger tomorrow. That everybody drives is an equilibrium, and "
            "so is that most ride, in which all are better off."
        ),
    ),
)
