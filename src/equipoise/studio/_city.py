"""The City page: road networks on a map, their tolls, and the equilibria of crowds."""

from typing import Any

import numpy as np

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.report import certificate_table
from equipoise.studio._games import in_code, quoted, whole
from equipoise.studio._matrix import table_of

#: Relative gap and time limit in seconds of a call that follows a slider.
_TOLERANCE, _SECONDS = 1e-8, 5.0
#: Networks with more links are not drawn.
_MOST_LINKS = 5_000
#: Number of games that are kept, with flows for warm starts.
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


def _network(studio: Any, given: Any) -> tuple[Any, str, list[str], Any]:
    """Return the network of a request, its code in Python and in a command, and its key."""
    if not isinstance(given, dict):
        raise InputError("game", "an object", type(given).__name__)
    if "file" in given:
        names = [str(given.get(key)) for key in ("file", "trips") if given.get(key)]
        paths = [studio.folder.file(name, ".tntp", ".csv", ".npz") for name in names]
        words = [studio.folder.shown(name) for name in names]
        if len(paths) == 2:
            made, line = eq.games.read, f"eq.games.read({', '.join(map(quoted, words))})"
        elif paths and paths[0].suffix == ".npz":
            made, line = eq.games.read, f"eq.games.read({quoted(words[0])})"
        else:
            raise InputError("trips", "a second file with the trips", "none")
        key: Any = tuple(
            (name, path.stat().st_mtime_ns) for name, path in zip(names, paths, strict=True)
        )
        game = _remember(studio, key, lambda: made(*paths))
    else:
        key = name = str(given.get("name"))
        game = _remember(studio, key, lambda: eq.games.load(name))
        line, words = f"eq.games.load({quoted(name)})", [name]
    if not isinstance(game, eq.NetworkGame) or game.atomic or game.links > _MOST_LINKS:
        expected = f"a road network with at most {_MOST_LINKS:,} links"
        raise InputError("game", expected, game.describe())
    return game, f"game = {line}", words, key


def _remember(studio: Any, key: Any, make: Any) -> Any:
    kept = studio.kept.setdefault("networks", {})
    if key not in kept:
        while len(kept) >= _KEPT:
            kept.pop(next(iter(kept)))
        kept[key] = make()
    return kept[key]


def _open(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return what the map needs."""
    game, *_ = _network(studio, request.get("game"))
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
    """(nodes, 2): coordinates of the nodes; without a map, a layout computed from the links."""
    if game.positions is not None:
        return game.positions
    # The two smoothest eigenvectors of the graph Laplacian place neighbours near each other.
    links = np.zeros((game.nodes, game.nodes))
    links[game.tails, game.heads] = links[game.heads, game.tails] = 1.0
    used = links.sum(0) > 0
    size = links.sum(0)
    _, vectors = np.linalg.eigh(np.diag(size + ~used) - links)
    smooth = [vectors[:, k] for k in range(game.nodes) if np.ptp(vectors[used, k]) > 1e-9][:2]
    return np.stack([*smooth, np.zeros(game.nodes)][:2], 1)


def _changed(game: Any, request: dict[str, Any]) -> tuple[Any, dict[str, Any], list[str]]:
    """Return the changed network, the changes, and their code in Python."""
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
                if not (link.isascii() and link.isdigit()) or int(link) >= game.links:
                    raise InputError(name, f"links from 0 to {game.links - 1}", repr(link)[:60])
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
    """Return the equilibrium after a change, warm-started from the previous flows."""
    base, line, words, key = _network(studio, request.get("game"))
    game, _, said = _changed(base, request)
    before = studio.kept.setdefault("flows", {})
    options: dict[str, Any] = {"tolerance": _TOLERANCE, "time_limit": _SECONDS}
    solution: Any = eq.solve(game, **options, start=before.get(key))
    before.clear()
    before[key] = solution
    flows = solution.policy.total
    certificate: Any = solution.certificate
    lines = [line, *said]
    lines += [f"solution = eq.solve(game, tolerance={_TOLERANCE:g})", "print(solution.value)"]
    command = ["equipoise", "solve", *words, "--tolerance", f"{_TOLERANCE:g}"]
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
        **in_code(lines, [] if said else command),
    }


def _anarchy(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Compare the equilibrium without tolls with the system optimum."""
    game, line, *_ = _network(studio, request.get("game"))
    game, _, said = _changed(game, {**request, "tolls": None})
    options: dict[str, Any] = {"tolerance": 1e-6, "time_limit": _SECONDS}
    found = eq.networks.price_of_anarchy(game.replace(tolls=0.0), **options)
    price: Any = found.anarchy
    lines = ["prices = eq.prices(game.replace(tolls=0.0), tolerance=1e-6)", "print(prices)"]
    told = {"lower": price.lower, "upper": price.upper, "optimum": found.optimum.upper}
    return {**told, **in_code([line, *said, *lines])}


def _tolls(studio: Any, request: dict[str, Any], tell: Any) -> dict[str, Any]:
    """Search for the best tolls on a few links."""
    game, links, _ = _to_toll(studio, request)
    tell(text="searching for tolls")
    options: dict[str, Any] = {"tolerance": _TOLERANCE, "time_limit": 60.0}
    design = eq.networks.best_tolls(
        game, links=links, **options, progress=lambda told: tell(**told)
    )
    found = {str(link): float(design.game.tolls[link]) for link in design.links}
    return {
        "tolls": found,
        "total_cost": design.total_cost,
        "before": str(design.before),
        "lower_bound": design.lower_bound,
        "saved": str(design.saved),
    }


def _to_toll(studio: Any, request: dict[str, Any]) -> tuple[Any, int, dict[str, str]]:
    """Return the network, the number of links with tolls, and the code of the search."""
    base, line, words, _ = _network(studio, request.get("game"))
    game, _, said = _changed(base, {**request, "tolls": None})
    links = whole(request, "links", 3, 1, game.links)
    lines = [f"design = eq.networks.best_tolls(game, links={links})", "print(design.total_cost)"]
    command = [] if said else ["equipoise", "toll", *words, "--links", str(links)]
    return game, links, in_code([line, *said, *lines], command)


def _crowd(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the equilibria of a crowd, those with the largest welfare first."""
    name, parameters = str(request.get("name")), request.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise InputError("parameters", "numbers by name", type(parameters).__name__)
    game = eq.games.load(name, **parameters)
    if not isinstance(game, eq.AggregativeGame):
        raise InputError("game", "a crowd without states", game.describe())
    found = eq.aggregative.equilibria(game)
    words = "".join(f", {key}={value!r}" for key, value in parameters.items())
    flags = [word for key, value in parameters.items() for word in ("--set", f"{key}={value}")]
    lines = [
        f"game = eq.games.load({quoted(name)}{words})",
        "found = eq.aggregative.equilibria(game)",
        "print([(one.aggregate, one.welfare, one.gain) for one in found])",
    ]
    return {
        "about": game.describe(),
        "status": found.status.message,
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
        **in_code(lines, ["equipoise", "solve", name, *flags, "--objective", "welfare"]),
    }


CALLS = {
    "anarchy": _anarchy,
    "catalogue": _catalogue,
    "crowd": _crowd,
    "open": _open,
    "solve": _solve,
    "toll_code": lambda studio, request: _to_toll(studio, request)[2],
}
JOBS = {"tolls": _tolls}
