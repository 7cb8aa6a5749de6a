"""Small networks that the tests share, and an assignment by brute force."""

from pathlib import Path

import numpy as np
import pytest

import equipoise as eq

#: Networks for academic use, which are not part of the project.
TNTP = Path(__file__).parents[3] / "shared" / "data" / "tntp"
#: Potential, and total cost at the equilibrium and at the optimum, as published.
PUBLISHED = {
    "SiouxFalls": (4231335.287107440, 7480225.34, 7480225.34 / 1.0397497),
    "Anaheim": (1286032.1710960236, 1419913.85, 1395015.09),
}


def published(name: str) -> eq.NetworkGame:
    """A network of the collection, where it is there."""
    if not TNTP.exists():
        pytest.skip("the TNTP networks are not here")
    return eq.games.read_tntp(TNTP / f"{name}_net.tntp", TNTP / f"{name}_trips.tntp")


def city(**options) -> eq.NetworkGame:
    """A small city of streets."""
    return eq.games.load("grid-city", **{"rows": 5, "columns": 5, "zones": 8} | options)


def two_roads(**options) -> eq.NetworkGame:
    """Two parallel links with costs 1 + v and 2 + v, or others, and 3 travellers."""
    given = {"free_flow": [1.0, 2.0], "rise": 1.0, "power": 1.0} | options
    return eq.NetworkGame([0, 0], [1, 1], [0], [1], [3.0], **given)


def all_paths(game: eq.NetworkGame, origin: int, target: int) -> list[list[int]]:
    """Every simple path, by its links."""
    found, stack = [], [(origin, [], {origin})]
    while stack:
        node, links, seen = stack.pop()
        if node == target:
            found.append(links)
            continue
        if links and node < game.first_through:
            continue
        for link in np.flatnonzero(game.tails == node).tolist():
            to = int(game.heads[link])
            if to not in seen:
                stack.append((to, [*links, link], seen | {to}))
    return found
