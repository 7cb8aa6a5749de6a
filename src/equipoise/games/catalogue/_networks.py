"""Road networks, built from a few parameters."""

from functools import partial
from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.games.catalogue._parameters import check_positive, check_table


def braess(travellers: float, shortcut: bool) -> dict[str, Any]:
    """Nodes 0 (start), 1, 2 and 3 (end); the last link is the shortcut from 1 to 2."""
    check_positive("travellers", travellers)
    kept = slice(None, None if shortcut else 4)
    return {
        "tails": [0, 0, 1, 2, 1][kept],
        "heads": [1, 2, 3, 3, 2][kept],
        "free_flow": [0.0, 50.0, 50.0, 0.0, 10.0][kept],
        "rise": [10.0, 1.0, 1.0, 10.0, 1.0][kept],
        "power": 1.0,
        "origins": [0],
        "destinations": [3],
        "demand": [travellers],
        "positions": [[0.0, 0.0], [1.0, 0.6], [1.0, -0.6], [2.0, 0.0]],
        "labels": {"types": ["travellers"]},
    }


def grid_city(rows: int, columns: int, zones: int, trips: float, key: int) -> dict[str, Any]:
    """Two-way streets on a grid; every fourth street is an arterial road, faster and wider."""
    check_positive("trips", trips)
    check_table("rows", rows, columns, 8)
    if rows < 2 or columns < 2:
        raise InputError("rows" if rows < 2 else "columns", "at least 2", min(rows, columns))
    if not 2 <= zones <= rows * columns:
        raise InputError("zones", f"from 2 to {rows * columns}, the number of crossings", zones)
    check_table("zones", zones, zones)
    rng = np.random.default_rng(key)
    node = np.arange(rows * columns).reshape(rows, columns)
    across = (node[:, :-1].ravel(), node[:, 1:].ravel(), np.repeat(np.arange(rows), columns - 1))
    down = (node[:-1].ravel(), node[1:].ravel(), np.tile(np.arange(columns), rows - 1))
    tails, heads, street = (np.concatenate(both) for both in zip(across, down, strict=True))
    tails, heads = np.concatenate([tails, heads]), np.concatenate([heads, tails])
    arterial = np.tile(street % 4 == 0, 2)
    free = np.where(arterial, 1.0, 1.6) * rng.uniform(0.8, 1.2, len(tails))
    where = np.sort(rng.choice(rows * columns, zones, replace=False))
    weight = rng.uniform(0.5, 1.5, (2, zones))
    y, x = np.divmod(where, columns)
    apart = np.hypot(x[:, None] - x, y[:, None] - y)
    demand = weight[0][:, None] * weight[1] * np.exp(-apart / (0.5 * max(rows, columns)))
    np.fill_diagonal(demand, 0.0)
    demand *= trips / demand.sum()
    origins, destinations = np.nonzero(demand)
    # Scale capacities so that a link of mean length carries about its share of mean trips.
    per_link = float((demand * apart).sum()) * 1.3 / len(tails)
    capacity = per_link * np.where(arterial, 2.0, 0.8) * rng.uniform(0.8, 1.2, len(tails))
    return {
        "tails": tails,
        "heads": heads,
        "free_flow": free,
        "capacity": capacity,
        "origins": where[origins],
        "destinations": where[destinations],
        "demand": demand[origins, destinations],
        "positions": np.stack([node.ravel() % columns, -(node.ravel() // columns)], 1).astype(
            float
        ),
        "labels": {"types": ["travellers"]},
    }


def _hourly(base: Any, slope: float, x: Any) -> Any:
    return base + slope * x


def _cheapest_hours(sizes: Any, need: int, windows: Any, costs: Any) -> Any:
    """Return the `need` cheapest hours of each population while it is plugged in."""
    open_costs = np.where(windows, costs, np.inf)
    hours = np.argsort(open_costs, axis=1, kind="stable")[:, :need]
    use = np.zeros(windows.shape)
    np.put_along_axis(use, hours, 1.0, axis=1)
    return use * sizes[:, None]


def charging_schedules(fleets: int, vehicles: float, need: int) -> dict[str, Any]:
    """The resources are the hours of a day; each fleet is plugged in for twelve of them."""
    check_positive("vehicles", vehicles)
    check_table("fleets", fleets, 24)
    hour = np.arange(24)
    arrival = (16 + np.arange(fleets) * 12 // fleets) % 24
    windows = (hour - arrival[:, None]) % 24 < 12
    sizes = np.full(fleets, vehicles / fleets)
    base = 2.0 + np.cos((hour - 19) * 2 * np.pi / 24)
    return {
        "cost": partial(_hourly, base, 24 / (need * vehicles)),
        "best": partial(_cheapest_hours, sizes, need, windows),
        "resources": 24,
        "sizes": sizes,
        "labels": {"players": [f"fleet plugged in at {h}" for h in arrival]},
    }
