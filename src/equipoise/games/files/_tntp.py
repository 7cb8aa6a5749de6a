"""Road networks in TNTP files, as the collection Transportation Networks for Research has them."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.files import read_bytes, write_text
from equipoise.games._flow_policy import FlowPolicy
from equipoise.games._network import FLOW_COLUMNS, NetworkGame, table_columns

_COLUMNS = 10
#: Metadata that count.
_WHOLE = ("FIRST THRU NODE", "NUMBER OF LINKS")
_TOTAL = "TOTAL OD FLOW"
_FLOWS = {"tails": ("from", "tail", "init_node"), "heads": ("to", "head", "term_node")}
_FLOWS |= {"flows": (*FLOW_COLUMNS, "v")}


def read_tntp(
    network: str | os.PathLike[str],
    trips: str | os.PathLike[str],
    *,
    toll_factor: float = 0.0,
    distance_factor: float = 0.0,
    **options: Any,
) -> NetworkGame:
    """A game from the two TNTP files of a network and its trips.

    Nodes keep their numbers, links their order. The factors are those that the network's
    description gives to tolls and lengths in the cost; zero for most. `options` are other
    arguments of `NetworkGame`.

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
    most = 100_000 + 10 * len(rows)
    if (table[:, :2] > most).any():
        expected = f"nodes with numbers of at most {most:,} for {len(rows):,} links"
        raise ValueError(f"{network}: expected {expected}, found {table[:, :2].max():g}")
    if (zone := max(max(origins), max(destinations))) > most:
        raise ValueError(f"{trips}: expected zones of at most {most:,}, found {zone:g}")
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
    """The lines of a file that say something, with their numbers."""
    text = read_bytes(path).decode("utf-8-sig", errors="replace")
    lines = ((i, line.strip()) for i, line in enumerate(text.splitlines(), 1))
    return [(i, line) for i, line in lines if line and not line.startswith("~")]


def _network_rows(path: Path) -> tuple[list[list[float]], dict[str, int]]:
    """Rows of links, and whole numbers of the metadata by their names."""
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
        rows.append([_number(path, i, word) for word in words[: _COLUMNS - 1]])
    if not rows:
        raise ValueError(f"{path}: expected links, found none")
    if told.get("NUMBER OF LINKS", len(rows)) != len(rows):
        expected = f"the {told['NUMBER OF LINKS']} links that the metadata tell of"
        raise ValueError(f"{path}: expected {expected}, found {len(rows)}")
    return rows, told


def _metadata(path: Path, line: int, text: str) -> tuple[str, float]:
    """The name of a line of metadata and its number; NaN for names whose number is of no use."""
    name, _, rest = text.partition(">")
    name, words = name.strip("< ").upper(), re.split(r"[;~\s]+", rest.strip())
    known = name in _WHOLE or name == _TOTAL
    return name, _number(path, line, words[0]) if known else np.nan


def _number(path: Path, line: int, word: str) -> float:
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
            demand.append(_number(path, i, found[2]))
    if not demand:
        raise ValueError(f"{path}: expected trips, found none")
    if abs(sum(demand) - total) > 0.01 * abs(total):  # never where there is no total
        expected = f"trips that add up to the {total:g} that the metadata tell of"
        raise ValueError(f"{path}: expected {expected}, found {sum(demand):g}")
    return origins, destinations, demand


def flows_of_table(game: NetworkGame, table: Any) -> FlowPolicy:
    """Link flows of a table with columns tail, head and flow (or from, to, volume), in any order.

    `table` is a data frame, or a mapping of columns by name; links may stand in any order.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("braess-network", shortcut=False)
    >>> table = {"from": [1, 0, 2, 0], "to": [3, 2, 3, 1], "volume": [3, 3, 3, 3]}
    >>> float(eq.certify(game, eq.games.flows_of_table(game, table)).relative_gap)
    0.0
    """
    needed = ("tails", "heads", "flows")
    found = table_columns("table", table, _FLOWS, needed)
    tails, heads, flows = (np.asarray(found[name], np.float64) for name in needed)
    size = game.nodes
    if not (np.isfinite(tails) & np.isfinite(heads)).all():
        raise InputError("table", "numbers of nodes", "none in some row")
    own, given = game.tails * size + game.heads, tails * size + heads
    # Parallel links take their rows in order.
    order, theirs = np.argsort(own, kind="stable"), np.argsort(given, kind="stable")
    if len(given) != len(own):
        raise InputError("table", f"a row for each of {len(own)} links", f"{len(given)} rows")
    wrong = own[order] != given[theirs]
    if wrong.any():
        k = theirs[int(np.argmax(wrong))]
        raise InputError("table", "the links of the game", f"one from {tails[k]:g} to {heads[k]:g}")
    result = np.empty(len(own))
    result[order] = flows[theirs]
    return FlowPolicy(result)


def read_flows(path: str | os.PathLike[str], game: NetworkGame) -> FlowPolicy:
    """Link flows of a TNTP file, whatever the order of its columns and rows.

    **Example**

    >>> import tempfile, pathlib, equipoise as eq
    >>> game = eq.games.load("braess-network")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "flow.tntp")
    ...     eq.games.write_flows(path, game, eq.solve(game).policy)
    ...     eq.games.read_flows(path, game).flows.round(9).tolist()
    [4.0, 2.0, 2.0, 4.0, 2.0]
    """
    path = Path(path)
    lines = [(i, re.split(r"[\s;:,]+", line.strip(" ;\t"))) for i, line in _lines(path)]
    lines = [(i, words) for i, words in lines if not words[0].startswith("<")]
    if not lines:
        raise ValueError(f"{path}: expected flows, found nothing")
    names = ["from", "to", "volume", "cost"]
    if re.search("[a-z]", lines[0][1][0], re.I):
        names = [word.lower() for word in lines.pop(0)[1]]
    if not lines:
        raise ValueError(f"{path}: expected flows, found a header only")
    rows = [(i, [_number(path, i, word) for word in words]) for i, words in lines]
    for i, row in rows:
        if len(row) < min(len(names), 3):
            raise ValueError(f"{path}: line {i}: expected {', '.join(names)}; found {row}")
    width = min(len(names), *(len(row) for _, row in rows))
    table = np.array([row[:width] for _, row in rows])
    try:
        return flows_of_table(game, dict(zip(names, table.T, strict=False)))
    except InputError as error:
        raise ValueError(f"{path}: {error.about('flows')}") from error


def write_flows(path: str | os.PathLike[str], game: NetworkGame, policy: Any) -> None:
    """Write link flows and their costs to a TNTP file: From, To, Volume, Cost.

    **Example**

    >>> import tempfile, pathlib, equipoise as eq
    >>> game = eq.games.load("braess-network")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "flow.tntp")
    ...     eq.games.write_flows(path, game, [4.0, 2.0, 2.0, 4.0, 2.0])
    ...     path.read_text().splitlines()[:2]
    ['From\\tTo\\tVolume\\tCost', '0\\t1\\t4.0\\t40.0']
    """
    policy = policy if isinstance(policy, FlowPolicy) else FlowPolicy(policy)
    flows = policy.total
    if flows.shape != (game.links,):
        raise InputError("policy", f"flows of {game.links} links", f"shape {flows.shape}")
    rows = zip(game.tails, game.heads, flows.tolist(), game.times(flows).tolist(), strict=True)
    text = "".join(f"{tail}\t{head}\t{flow!r}\t{cost!r}\n" for tail, head, flow, cost in rows)
    write_text(path, "From\tTo\tVolume\tCost\n" + text)
