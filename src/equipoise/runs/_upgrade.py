"""Read solutions in records of version 0.1, in which every command had its own format."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from equipoise.core.results import status_from_plain

#: Version of the plain form of solutions.
SOLUTION_VERSION = 1
_UNKNOWN = "version 0.1 did not record how it ended"
#: Kind of policy -> its arrays. Aggregative games had a prefix, except in records of learning.
_POLICIES = {
    "mixture": ("policies", "weights"),
    "continuous": ("points",),
    "aggregative": ("rows", "counts", "actions"),
}
#: Name in the statistics of a log -> name in old records.
_GAPS = {
    "gap": "gap in the fitted model",
    "on_support": "gap in the fitted model, on support",
    "off_support": "gap in the fitted model, off support",
    "level": "gap over resampled logs, level",
}
_OWN_GAPS = (
    "gap of the log's own play in the fitted model",
    "gap of the log's mean actions in the fitted model",
)


def upgraded(scalars: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    """Return the plain form of the solution in a record of version 0.1, or None without one.

    All parts of a plain form are present. Missing values are NaN, and a missing policy is None. The
    gains of an exact certificate are also its bounds; otherwise the bounds are infinite.

    >>> old = upgraded({"method": "enumeration", "exact": True}, {"gains": np.zeros(2)})
    >>> old["certificate"]["upper"], old["policy"], old["tolerance"]
    (array([0., 0.]), None, nan)
    """
    policy = _policy(arrays)
    certificate = _certificate(scalars, arrays, policy)
    if policy is None and certificate is None:
        return None
    if certificate is None:
        nothing = {"gains": np.full(1, np.nan), "value": np.full(1, np.nan)}
        certificate = {"kind": "table", "method": "not certified", **nothing}
        certificate["upper"] = np.full(1, np.inf)
    return {
        "version": SOLUTION_VERSION,
        "policy": policy,
        "certificate": certificate,
        "status": _status(scalars, arrays),
        "value": arrays.get("value", np.asarray(np.nan)),
        "tolerance": float("nan"),
        "stats": _stats(scalars, arrays),
    }


def _policy(arrays: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    players = [arrays[f"policy_{i}"] for i in range(len(arrays)) if f"policy_{i}" in arrays]
    if players:
        strategies = {str(i): player for i, player in enumerate(players)}
        return {"kind": "profile", "strategies": strategies}
    for kind, parts in _POLICIES.items():
        for prefix in ("", "policy/"):
            if all(prefix + part in arrays for part in parts):
                return {"kind": kind, **{part: arrays[prefix + part] for part in parts}}
    return None


def _certificate(
    scalars: Mapping[str, Any], arrays: Mapping[str, np.ndarray], policy: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Return a certificate by player, or by class of a crowd if only sums were saved."""
    gains, summed = arrays.get("gains"), scalars.get("certified")
    if gains is not None and gains.size and "method" in scalars:
        said, found = scalars, {"kind": "table", "gains": gains, "upper": _bound(scalars, gains)}
        by_state = arrays.get("state_gains")
        if by_state is not None:
            found |= {"state_gains": by_state, "state_upper": _bound(scalars, by_state)}
        unknown = np.full_like(gains if by_state is None else by_state, np.nan, float)
        value = arrays.get("certified_value", arrays.get("value", unknown))
        found["value"] = value if value.shape == unknown.shape else unknown
    elif isinstance(summed, Mapping) and policy is not None and policy["kind"] == "aggregative":
        said, counts, largest = summed, policy["counts"], float(summed["max_gain"])
        # The gains of classes are known only if the sum shows that all gains are equal.
        alike = np.isclose(float(summed["nash_conv"]), largest * counts.sum())
        found = {
            "kind": "aggregative",
            "class_gains": np.full(counts.shape, largest if alike else np.nan),
            "class_upper": _bound(summed, np.full(counts.shape, largest)),
            "class_value": np.full(counts.shape, np.nan),
            "class_counts": counts,
            "class_rows": policy["rows"],
        }
    else:
        return None
    return found | {"method": str(said["method"]), "concept": str(said.get("concept", "nash"))}


def _bound(said: Mapping[str, Any], gains: np.ndarray) -> np.ndarray:
    return gains.copy() if said.get("exact") is True else np.full(gains.shape, np.inf)


def _status(scalars: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    status = scalars.get("status")
    if not isinstance(status, Mapping):
        met = bool(np.all(arrays.get("solved", False)))
        unknown = f"{'solved' if met else 'not solved'}: {_UNKNOWN}"
        name, _, message = str(status or unknown).partition(": ")
        status = {"name": name, "message": message}
    name, message = str(status.get("name")), str(status.get("message", ""))
    met = arrays.get("solved", name == "solved")
    if name not in ("solved", "not solved"):  # these have no tolerance
        met = np.zeros(np.shape(met), bool)
    return status_from_plain({"name": name, "message": message, "solved": met}).to_plain()


def _stats(scalars: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the statistics of the solver; for a log also its size and gaps, for reports."""
    stats = dict(scalars.get("stats", {}))
    stats |= {k.removeprefix("stats/"): v for k, v in arrays.items() if k.startswith("stats/")}
    if "samples" not in scalars or "agents" not in scalars or "learned" not in scalars:
        return stats
    gap = {new: scalars.get(old) for new, old in _GAPS.items()}
    ends = [scalars.get(f"gap over resampled logs, {end}") for end in ("lower", "upper")]
    gap["interval"] = None if None in ends else ends
    text = "not estimated" if gap["gap"] is None else f"{gap['gap']:.4g} in the fitted model"
    gap["text"] = scalars.get("gap, in words", text)
    kept = ("samples", "agents", "contexts", "rank")
    stats |= {name: scalars[name] for name in kept if name in scalars}
    stats |= {name: arrays[name] for name in ("chi_squared", "explained") if name in arrays}
    own = next((scalars[name] for name in _OWN_GAPS if name in scalars), None)
    return stats | {"gap": gap, "own_gap": own}
