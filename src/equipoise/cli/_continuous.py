"""Games of continuous actions on the command line: policies in files, and gains of many agents."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.cli._output import print_pairs, print_table
from equipoise.cli._policies import check_suffix, read_json
from equipoise.core import Certificate
from equipoise.core.arrays import read_npz
from equipoise.runs import Record, Table

_FORM = (
    '{"policy": [...]}, a number from -1 to 1 for each agent (and context, step, state), or '
    '{"policy": {"points": ..., "weights": ...}}'
)


def read_policy(path: Path) -> Any:
    """Read points, and the weights of policies that choose by chance, from JSON or `.npz`.

    JSON holds `{"policy": [1.0, -1.0, ...]}`, or `{"policy": {"points": ..., "weights": ...}}`,
    with whatever else beside it; a `.npz` file holds `points` and perhaps `weights`, and so does
    the folder of a run of `equipoise offline --critic`.
    """
    if path.is_dir():
        arrays = Record.load(path).arrays
        if "points" not in arrays:
            raise ValueError(
                f"{path}: expected points, as a run of `equipoise offline --critic` has, "
                f"found {', '.join(sorted(arrays)) or 'nothing'}"
            )
        return eq.games.ContinuousPolicy(arrays["points"], arrays.get("weights"))
    check_suffix(path)
    parts = read_npz(path) if path.suffix.lower() == ".npz" else _read_points(path)
    unknown = sorted(set(parts) - {"points", "weights"})
    if unknown or "points" not in parts:
        raise ValueError(f"{path}: expected points and perhaps weights, found {sorted(parts)}")
    return eq.games.ContinuousPolicy(parts["points"], parts.get("weights"))


def _read_points(path: Path) -> dict[str, Any]:
    policy = read_json(path)
    if isinstance(policy, list):
        return {"points": policy}
    if not isinstance(policy, dict):
        raise ValueError(f"{path}: expected {_FORM}")
    return policy


def print_certificate(certificate: Certificate, more: Sequence[tuple[str, Any]] = ()) -> None:
    """Print what the agent with most to gain, and the median agent, could gain."""
    worst = int(certificate.gains.argmax())
    rows = [
        (f"largest, agent {worst}", float(certificate.max_gain)),
        ("median agent", float(np.median(certificate.gains))),
        ("mean agent", float(certificate.exploitability)),
        ("all agents together (NashConv)", float(certificate.nash_conv)),
    ]
    print_table(Table((f"gains of {certificate.players:,} agents", "gain"), rows))
    facts = [("mean value", float(certificate.value.mean()))]
    print_pairs([*facts, ("method", certificate.method), ("exact", certificate.exact), *more])
