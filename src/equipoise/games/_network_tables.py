"""Tables of links, trips and flows: the numbering of nodes, and populations."""

from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.values import frozen, read_only_integers
from equipoise.games._game import Labels

#: Largest node number.
_MOST = 2**31 - 2
#: Largest node number without renumbering, plus ten per link: arrays have an entry per number.
SPARSE = 100_000


def numbered(found: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a game, with nodes renumbered from 0 where necessary."""
    ends = ("tails", "heads", "origins", "destinations")
    given = [_exact(name, np.asarray(found[name])) for name in ends]
    words = any(array.dtype.kind not in "iuf" for array in given)
    if not words:
        most = max((float(array.max()) for array in given if array.size), default=0.0)
        if not most >= SPARSE + 10 * len(given[0]):
            return found | options
    if any(array.ndim != 1 for array in given):
        raise InputError("links", "columns of nodes", [array.shape for array in given])
    names = [node_names(whole(name, array)) for name, array in zip(ends, given, strict=True)]
    kept, places = np.unique(
        np.concatenate(names if words else [whole("tails", a) for a in given]),
        return_inverse=True,
    )
    cuts = np.cumsum([len(array) for array in given])[:-1]
    found = found | dict(zip(ends, np.split(places, cuts), strict=True))
    if first := options.get("first_through"):
        if words:
            raise InputError("first_through", "no value if nodes have names", first)
        options = options | {"first_through": int((kept < first).sum())}
    labels = options.get("labels") or {}
    labels = labels.to_plain() if isinstance(labels, Labels) else dict(labels)
    return found | options | {"labels": {"states": kept.astype(str).tolist()} | labels}


def _exact(name: str, nodes: np.ndarray) -> np.ndarray:
    """Return nodes in a type that tells large numbers apart; refuse floats that do not."""
    if nodes.dtype.kind == "u" and nodes.size and int(nodes.max()) >= 2**63:
        return nodes.astype(str)
    if nodes.dtype.kind == "f" and (np.abs(nodes) > 2.0**53).any():
        expected = "whole numbers up to 2^53 as floats"
        found = f"{nodes[np.abs(nodes) > 2.0**53][0]:g}"
        raise InputError(name, expected, found, "write nodes as int64 or as text")
    return nodes.astype(np.int64) if nodes.dtype.kind == "u" else nodes


def node_names(values: Any) -> np.ndarray:
    """Return nodes as strings; whole numbers stored as floats get no decimal point.

    >>> node_names([1.0, 2.0]).tolist(), node_names(["a", 7]).tolist()
    (['1', '2'], ['a', '7'])
    """
    array = np.asarray(whole("nodes", values))
    return np.array([str(value).strip() for value in array.tolist()], dtype=str)


def whole(name: str, value: Any) -> Any:
    """Convert whole numbers that a table stores as floats."""
    array = np.asarray(value)
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.floor(array)).all():
        return array.astype(np.int64)
    return value


def nodes_of(name: str, value: Any) -> np.ndarray:
    """Return node numbers as a read-only array; refuse anything else."""
    array = read_only_integers(name, whole(name, value))
    if array.ndim != 1 or not len(array):
        raise InputError(name, "a list of nodes", f"shape {array.shape}")
    if array.min() < 0 or array.max() > _MOST:
        bad = array[(array < 0) | (array > _MOST)][0]
        raise InputError(name, "nodes from 0 to 2^31 - 2", bad)
    return array


def from_matrix(demand: Any) -> tuple[Any, Any, Any, Any]:
    """Return the pairs of a matrix of trips, or of one matrix per class."""
    array = checks.as_float_array("demand", [] if demand is None else demand)
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[1] != array.shape[2]:
        expected = "a square matrix of trips, or `origins` and `destinations`"
        raise InputError("demand", expected, f"shape {array.shape}")
    checks.check_finite("demand", array)
    classes, origins, destinations = np.nonzero(array)
    return origins, destinations, array[classes, origins, destinations], classes


def populations(
    origins: Any, destinations: Any, demand: Any, classes: Any, values: int
) -> tuple[Any, ...]:
    """Check the pairs and keep those with demand; `values` is the number of values of time."""
    origins, destinations = nodes_of("origins", origins), nodes_of("destinations", destinations)
    demand = np.asarray(checks.as_float_array("demand", demand))
    classes = np.zeros(len(origins), np.int64) if classes is None else classes
    classes = read_only_integers("classes", whole("classes", classes))
    for name, array in (("destinations", destinations), ("demand", demand), ("classes", classes)):
        checks.check_shape(name, array, origins.shape, "one for each pair, like origins")
    bad = ~((demand >= 0.0) & np.isfinite(demand))
    if bad.any():
        k = int(np.argmax(bad))
        found = f"{demand[k]:g} from {origins[k]} to {destinations[k]}"
        raise InputError("demand", "finite numbers >= 0", found)
    most = max(len(classes), values)
    if len(classes) and not 0 <= classes.min() <= classes.max() < most:
        bad = classes.min() if classes.min() < 0 else classes.max()
        expected = "whole numbers from 0, fewer than pairs or values_of_time"
        raise InputError("classes", expected, bad)
    kept = (demand > 0.0) & (origins != destinations)
    if not kept.any():
        raise InputError("demand", "at least one positive demand", "none")
    return tuple(frozen(a[kept]) for a in (origins, destinations, demand, classes))
