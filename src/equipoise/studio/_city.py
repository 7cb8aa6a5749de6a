"""The room of cities: road networks on a map, crowds on a line, tolls and what they lead to."""

from typing import Any

import numpy as np

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.report import certificate_table
from equipoise.studio._matrix import table_of

#: Relative gap and seconds of a call that follows a slider.
_TOLERANCE, _SECONDS = 1e-8, 5.0
#: Networks with more links are not drawn.
_MOST_LINKS = 5_000
#: Games that are kept, with the flows to begin with.
_KEPT = 8


def _catalogue(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    entries = [eq.games.describe(name) for name in eq.games.names()]
    return {
        kind: [
            {
                "name": entry.name,
                "title": entry.title,
                "source": entry.source,
                "parameters": {
                    name: value
                    for name, value in entry.parameters.items()
                    if isinstance(value, int | float) and not isinstance(value, bool)
                },
                "ranges": entry.ranges,
            }
            for entry in entries
            if entry.kind == kind
        ]
        for kind in ("network", "aggregative")
    }


def _network(studio: Any, given: Any) -> tuple[Any, str]:
    """The network that a page describes, and the line of Python that makes it."""
    if not isinstance(given, dict):
        raise InputError("game", "an object", type(given).__name__)
    if "file" in given:
        names = [str(given.get(key)) for key in ("file", "trips") if given.get(key)]
        paths = [studio.folder.file(name, ".tntp", ".npz") for name in names]
        if len(paths) == 2:
            made, line = eq.games.read_tntp, f"eq.games.read_tntp({names[0]!r}, {names[1]!r})"
        elif paths[0].suffix == ".npz":
            made, line = eq.games.read, f"eq.games.read({names[0]!r})"
        else:
            raise InputError("trips", "a second .tntp file, with the trips", "none")
        key: Any = tuple(
            (name, path.stat().st_mtime_ns) for name, path in zip(names, paths, strict=True)
        )
        game = _remember(studio, ("network", key), lambda: made(*paths))
    else:
        name = str(given.get("name"))
        game = _remember(studio, ("network", name), lambda: eq.games.load(name))
        line = f"eq.games.load({name!r})"
    if not isinstance(game, eq.NetworkGame) or game.atomic or game.links > _MOST_LINKS:
        expected = f"a road network with at most {_MOST_LINKS:,} links"
        raise InputError("game", expected, game.describe())
    return game, line


def _remember(studio: Any, key: Any, make: Any) -> Any:
    kept = studio.kept
    if key not in kept:
        while len(kept) >= _KEPT:
            kept.pop(next(iter(kept)))
        kept[key] = make()
    return kept[key]


def _open(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """What the map needs."""
    game, _ = _network(studio, request.get("game"))
    return {
        "about": game.describe(),
        "positions": _positions(game),
        "tails": game.tails,
        "heads": game.heads,
        "capacity": game.capacity,
        "free_flow": game.free_flow,
        "travellers": float(game.demand.sum()),
        "links": game.links,
    }


def _positions(game: Any) -> np.ndarray:
    """(nodes, 2): where nodes lie; without a map, by how links join them."""
    if game.positions is not None:
        return game.positions
    # The two smoothest vectors of the graph's Laplacian put neighbours near each other.
    links = np.zeros((game.nodes, game.nodes))
    links[game.tails, game.heads] = links[game.heads, game.tails] = 1.0
    used = links.sum(0) > 0
    size = links.sum(0)
    _, vectors = np.linalg.eigh(np.diag(size + ~used) - links)
    smooth = [vectors[:, k] for k in range(game.nodes) if np.ptp(vectors[used, k]) > 1e-9][:2]
    return np.stack([*smooth, np.zeros(game.nodes)][:2], 1)


def _changed(game: Any, request: dict[str, Any]) -> tuple[Any, dict[str, Any], list[str]]:
    """The network with what the page changed, the changes, and their lines of Python."""
    factor = _number("demand", request.get("demand", 1.0), 0.01, 100.0)
    changes: dict[str, Any] = {}
    said: list[str] = []
    if factor != 1.0:
        changes["demand"] = game.demand * factor
        said.append(f"game = game.replace(demand={factor:g} * game.demand)")
    for name, argument in (("tolls", "tolls"), ("capacities", "capacity")):
        given = request.get(name) or {}
        if not isinstance(given, dict):
            raise InputError(name, "numbers by link", type(given).__name__)
        if given:
            array = np.array(getattr(game, argument), float)
            for link, value in given.items():
                if not link.isdigit() or int(link) >= game.links:
                    raise InputError(name, f"links from 0 to {game.links - 1}", repr(link))
                array[int(link)] = _number(f"{name}[{link}]", value, 0.0, 1e12)
            changes[argument] = array
            said.append(f"{argument} = game.{argument}.copy()")
            said += [f"{argument}[{link}] = {value}" for link, value in given.items()]
            said.append(f"game = game.replace({argument}={argument})")
    return (game.replace(**changes) if changes else game), changes, said


def _number(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InputError(name, f"a number from {low:g} to {high:g}", repr(value))
    return float(value)


def _solve(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """The equilibrium after a change, from the flows before it."""
    given = request.get("game")
    base, line = _network(studio, given)
    game, _, said = _changed(base, request)
    key = ("flows", id(base))
    options: dict[str, Any] = {"tolerance": _TOLERANCE, "time_limit": _SECONDS}
    solution = eq.solve(game, **options, start=studio.kept.get(key))
    studio.kept[key] = solution
    flows = solution.policy.total
    certificate: Any = solution.certificate
    lines = ["import equipoise as eq", f"game = {line}", *said]
    lines += [f"solution = eq.solve(game, tolerance={_TOLERANCE:g})", "print(solution.value)"]
    words = given if isinstance(given, dict) else {}
    named = " ".join(str(words[key]) for key in ("name", "file", "trips") if words.get(key))
    return {
        "flows": flows,
        "load": flows / np.where(game.capacity > 0, game.capacity, 1.0),
        "tolls": game.tolls,
        "total_cost": solution.stats["total_cost"],
        "mean_cost": float(solution.value),
        "revenue": float(flows @ game.tolls),
        "relative_gap": certificate.relative_gap_upper,
        "max_upper": float(certificate.max_upper),
        "solved": bool(solution.status.ok),
        "status": str(solution.status),
        "seconds": solution.stats["seconds"],
        "certificate": table_of(certificate_table(certificate))
        if certificate.players <= 6
        else None,
        "python": "\n".join(lines),
        "command": "" if said else f"equipoise solve {named} --tolerance {_TOLERANCE:g}",
    }


def _anarchy(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Equilibrium and optimum side by side, without tolls."""
    game, _ = _network(studio, request.get("game"))
    game, _, _ = _changed(game, {**request, "tolls": None})
    options: dict[str, Any] = {"tolerance": 1e-6, "time_limit": _SECONDS}
    found = eq.networks.price_of_anarchy(game.replace(tolls=0.0), **options)
    best = found.optimum.stats["total_cost"]
    return {"ratio": found.ratio, "upper": found.upper, "optimum": best}


def _tolls(studio: Any, request: dict[str, Any], tell: Any) -> dict[str, Any]:
    """The best tolls that a search finds, on a few links or on all."""
    base, line = _network(studio, request.get("game"))
    game, _, said = _changed(base, {**request, "tolls": None})
    links = int(_number("links", request.get("links", 3), 1, game.links))
    tell(text="looking for tolls")
    options: dict[str, Any] = {"tolerance": _TOLERANCE, "time_limit": 60.0}
    design = eq.networks.best_tolls(
        game, links=links, **options, progress=lambda told: tell(**told)
    )
    found = {str(link): float(design.game.tolls[link]) for link in design.links}
    lines = ["import equipoise as eq", f"game = {line}", *said]
    lines += [f"design = eq.networks.best_tolls(game, links={links})", "print(design.total_cost)"]
    return {
        "tolls": found,
        "total_cost": design.total_cost,
        "before": design.before,
        "lower_bound": design.lower_bound,
        "saved": design.saved,
        "python": "\n".join(lines),
    }


def _crowd(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """The map of equilibria of a crowd, the best for society first."""
    name, parameters = str(request.get("name")), request.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise InputError("parameters", "numbers by name", type(parameters).__name__)
    game = eq.games.load(name, **parameters)
    if not isinstance(game, eq.AggregativeGame):
        raise InputError("game", "a crowd that meets once", game.describe())
    found = eq.aggregative.equilibria(game)
    words = "".join(f", {key}={value!r}" for key, value in parameters.items())
    flags = "".join(f" --set {key}={value}" for key, value in parameters.items())
    return {
        "about": game.describe(),
        "equilibria": [
            {
                "aggregate": one.aggregate,
                "welfare": one.welfare,
                "gain": one.gain,
                "stable": one.stable,
                "note": one.note,
            }
            for one in found
        ],
        "python": "\n".join(
            [
                "import equipoise as eq",
                f"game = eq.games.load({name!r}{words})",
                "found = eq.aggregative.equilibria(game)",
                "print([(one.aggregate, one.welfare, one.gain) for one in found])",
            ]
        ),
        "command": f"equipoise solve {name}{flags} --objective welfare",
    }


CALLS = {
    "anarchy": _anarchy,
    "catalogue": _catalogue,
    "crowd": _crowd,
    "open": _open,
    "solve": _solve,
}
JOBS = {"tolls": _tolls}
