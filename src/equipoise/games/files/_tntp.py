"""Road networks in TNTP files, the format of Transportation Networks for Research."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core.errors import named_arguments
from equipoise.core.files import read_bytes
from equipoise.games._network import NetworkGame

_COLUMNS = 10
#: Metadata that are used.
_WHOLE = ("FIRST THRU NODE", "NUMBER OF LINKS")
_TOTAL = "TOTAL OD FLOW"


@named_arguments
def read_tntp(
    network: str | os.PathLike[str],
    trips: str | os.PathLike[str],
    *,
    toll_factor: float = 0.0,
    distance_factor: float = 0.0,
    **options: Any,
) -> NetworkGame:
    """Read a game from two TNTP files, a network and its trips.

    Nodes keep their numbers, and links keep their order. The factors weight tolls and lengths in
    the cost, as stated in the network's description; they are zero for most networks. `options` are
    further arguments of `NetworkGame`.

    **Example**

    >>> import tempfile, pathlib, equipoise as eq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     net, trips = (pathlib.Path(folder, name) for name in ("net.tntp", "trips.tntp"))
    ...     _ = net.write_text(
    ...         "<FIRST THRU NODE> 1\\n<END OF METADATA>\\n~ init term ;\\n"
    ...         "1 2 25 6 6 0.15 4 0 0 1 ;\\n1 2 50 9 8 0.15 4 0 0 1 ;\\n"
    ...     )
    ...     _ = trips.write_text("<END OF METADATA>\\nOrigin 1\\n  1 : 3.0;  2 : 40.5;\\n")
    ...     eq.games.read_tntp(net, trips).describe()
    'road network of 2 links between 2 nodes; 40.5 travellers in 1 population'
    """
    rows, told = _network_rows(Path(network))
    origins, destinations, demand = _trips(Path(trips))
    table = np.array(rows)
    more: dict[str, Any] = {"first_through": told.get("FIRST THRU NODE", 0)} | options
    try:
        return NetworkGame(
            table[:, 0],
            table[:, 1],
            origins,
            destinations,
            demand,
            capacity=table[:, 2],
            free_flow=table[:, 4],
            b=table[:, 5],
            power=table[:, 6],
            fixed=distance_factor * table[:, 3],
            tolls=toll_factor * table[:, 8],
            **more,
        )
    except ValueError as error:
        raise ValueError(f"{network}, {trips}: {error}") from error


def _lines(path: Path) -> list[tuple[int, str]]:
    """Return the non-empty lines of a file with their numbers."""
    text = read_bytes(path).decode("utf-8-sig", errors="replace")
    lines = ((i, line.strip()) for i, line in enumerate(text.splitlines(), 1))
    return [(i, line) for i, line in lines if line and not line.startswith("~")]


def _network_rows(path: Path) -> tuple[list[list[float]], dict[str, int]]:
    """Return the rows of links, and the whole numbers of the metadata by name."""
    rows, told = [], {}
    for i, line in _lines(path):
        if line.startswith("<"):
            name, number = _metadata(path, i, line)
            if name in _WHOLE:
                if not number.is_integer():
                    raise ValueError(f"{path}: line {i}: expected a whole number, found {line!r}")
                told[name] = int(number)
            continue
        words = line.rstrip(";").split()
        if len(words) < _COLUMNS - 1:
            expected = (
                "ten numbers: init, term, capacity, length, time, b, power, speed, toll, type"
            )
            raise ValueError(f"{path}: line {i}: expected {expected}; found {line[:60]!r}")
        rows.append([number_in(path, i, word) for word in words[: _COLUMNS - 1]])
    if not rows:
        raise ValueError(f"{path}: expected links, found none")
    if told.get("NUMBER OF LINKS", len(rows)) != len(rows):
        expected = f"the {told['NUMBER OF LINKS']} links that the metadata declare"
        raise ValueError(f"{path}: expected {expected}, found {len(rows)}")
    return rows, told


def _metadata(path: Path, line: int, text: str) -> tuple[str, float]:
    """Return the name and number of a metadata line; NaN for names that are not used."""
    name, _, rest = text.partition(">")
    name, words = name.strip("< ").upper(), re.split(r"[;~\s]+", rest.strip())
    known = name in _WHOLE or name == _TOTAL
    return name, number_in(path, line, words[0]) if known else np.nan


def number_in(path: Path, line: int, word: str) -> float:
    """Parse a number in a line of a file."""
    try:
        return float(word)
    except ValueError:
        found = f"{path}: line {line}: expected a number, found {word[:40]!r}"
        raise ValueError(found) from None


def _trips(path: Path) -> tuple[list[int], list[int], list[float]]:
    origins: list[int] = []
    destinations: list[int] = []
    demand: list[float] = []
    origin, total = None, np.nan
    for i, line in _lines(path):
        if line.startswith("<"):
            name, number = _metadata(path, i, line)
            total = number if name == _TOTAL else total
            continue
        if found := re.fullmatch(r"[Oo]rigin\s+(\d+)\s*;?", line):
            origin = int(found[1])
            continue
        for entry in filter(None, map(str.strip, line.split(";"))):
            found = re.fullmatch(r"(\d+)\s*:\s*(\S+)", entry)
            if found is None or origin is None:
                expected = "`Origin 1`, and then entries `2 : 100.0;`"
                raise ValueError(f"{path}: line {i}: expected {expected}; found {entry[:60]!r}")
            origins.append(origin)
            destinations.append(int(found[1]))
            demand.append(number_in(path, i, found[2]))
    if not demand:
        raise ValueError(f"{path}: expected trips, found none")
    if abs(sum(demand) - total) > 0.01 * abs(total):  # false if there is no total
        expected = f"trips that add up to {total:g}, as the metadata declare"
        raise ValueError(f"{path}: expected {expected}, found {sum(demand):g}")
    return origins, destinations, demand
