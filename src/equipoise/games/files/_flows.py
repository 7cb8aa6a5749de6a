"""Link flows, tolls and lists of links in tables and files, in our format and others."""

import csv
import os
import re
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.files import write_text
from equipoise.games._flow_policy import FlowPolicy
from equipoise.games._network import NetworkGame
from equipoise.games._network_tables import node_names
from equipoise.games._road_columns import (
    HEADS,
    LINK_COLUMNS,
    LINK_NAMES,
    TAILS,
    has_commas,
    may_be_thousands,
    table_columns,
    text_of,
    with_points,
)
from equipoise.games.files._tntp import number_in

_ENDS = {"tails": TAILS, "heads": HEADS, "links": LINK_NAMES}
_TOLLS = {"tolls": LINK_COLUMNS["tolls"]}
_VOLUMES = ("flow", "volume", "flows", "volumes", "v", "pce_tot", "pce_ab")


@named_arguments
def flows_of_table(
    game: NetworkGame, table: Any, *, flow: str | None = None, links: Any = None
) -> FlowPolicy:
    """Read link flows from a table with columns tail, head and flow (or from, to, volume).

    Args:
        game: The network.
        table: A data frame, or a mapping from column names to columns. Links may be in any order.
            Links without a row carry no flow; a warning reports them.
        flow: The column of flows, if it has another name. `"car"` also stands for AequilibraE's two
            columns `car_ab` and `car_ba`, one for each direction of a link.
        links: A second table with columns link, tail and head. Give it if `table` identifies links
            by name (link, link_id, edge_id or id) without their end nodes.

    Other column names are recognised too: a_node, b_node, PCE_AB, PCE_BA and PCE_tot of
    AequilibraE; edge_id, edge_from and edge_to of SUMO.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("braess-network", shortcut=False)
    >>> table = {"from": [1, 0, 2, 0], "to": [3, 2, 3, 1], "volume": [3, 3, 3, 3]}
    >>> float(eq.certify(game, eq.games.flows_of_table(game, table)).relative_gap)
    0.0
    >>> roads = {"edge_id": ["a", "b", "c", "d"], "from": [0, 0, 1, 2], "to": [1, 2, 3, 3]}
    >>> counts = {"edge_id": ["d", "c", "b", "a"], "edge_entered": [2, 4, 2, 4]}
    >>> eq.games.flows_of_table(game, counts, flow="edge_entered", links=roads).flows.tolist()
    [4.0, 2.0, 4.0, 2.0]
    """
    found = _flow_columns(table, flow, links)
    tails, heads = (_node_numbers(game, found[name]) for name in ("tails", "heads"))
    flows = np.asarray(checks.as_float_array("table", found["flows"]))
    for column in (heads, flows):
        checks.check_shape("table", column, tails.shape, "columns of one length")
    if "back" in found:
        own, given = game.tails * game.nodes + game.heads, tails * game.nodes + heads
        back = np.nan_to_num(np.asarray(checks.as_float_array("table", found["back"])))
        checks.check_shape("table", back, tails.shape, "columns of one length")
        turned = heads * game.nodes + tails
        # One-way links have no value in the other direction, which may not exist.
        one = (np.nan_to_num(flows) != 0.0) | np.isin(given, own)
        two = (back != 0.0) | (np.isin(turned, own) & ~np.isin(turned, given))
        flows = np.append(flows[one], back[two])
        ends = (np.asarray(found["tails"]), np.asarray(found["heads"]))
        found["tails"] = np.append(ends[0][one], ends[1][two])
        found["heads"] = np.append(ends[1][one], ends[0][two])
    rows = _links_of_rows(game, found)
    result = np.zeros(game.links)
    result[rows] = flows
    if missing := game.links - len(rows):
        link = int(np.argmin(np.isin(np.arange(game.links), rows)))
        told = f"{missing} of {game.links} links are not in the table and carry no flow, such as "
        warnings.warn(told + f"the one {_where(game, link)}", stacklevel=3)
    return FlowPolicy(result)


def _links_of_rows(game: NetworkGame, found: dict[str, Any]) -> np.ndarray:
    """(rows,): the link in each row of a table; parallel links are matched with rows in order."""
    tails, heads = (_node_numbers(game, found[name]) for name in ("tails", "heads"))
    own, given = game.tails * game.nodes + game.heads, tails * game.nodes + heads
    given = np.where((tails < 0) | (heads < 0), -1, given)
    order, theirs = np.argsort(own, kind="stable"), np.argsort(given, kind="stable")
    first = np.searchsorted(given[theirs], given[theirs])
    place = np.searchsorted(own[order], given[theirs]) + np.arange(len(given)) - first
    known = place < len(own)
    known[known] = own[order[place[known]]] == given[theirs[known]]
    if not known.all():
        k = theirs[int(np.argmin(known))]
        more = " too many" if given[k] in own else ""
        where = f"from {found['tails'][k]} to {found['heads'][k]}"
        raise InputError("table", "the links of the game", f"one{more} {where}")
    rows = np.empty(len(given), np.int64)
    rows[theirs] = order[place]
    there = np.zeros(len(own), bool)
    there[rows] = True
    partly = ~there & np.isin(own, given)
    if partly.any():
        link = int(np.argmax(partly))
        count = int((own == own[link]).sum())
        expected = f"a row for each of the {count} links {_where(game, link)}"
        raise InputError("table", expected, "fewer")
    return rows


def _where(game: NetworkGame, link: int) -> str:
    tail, head = int(game.tails[link]), int(game.heads[link])
    return f"from {game.labels.state(tail)} to {game.labels.state(head)}"


def _flow_columns(table: Any, flow: str | None, links: Any) -> dict[str, Any]:
    """Return tails, heads, flows and, if present, reverse flows of a table's rows."""
    names = _VOLUMES if flow is None else (flow.strip().lower(),)
    one, two = "pce" if flow is None else names[0], {}
    known = {"flows": names, "ab": (f"{one}_ab",), "ba": (f"{one}_ba",)}
    found = table_columns("table", table, _ENDS | known, ())
    if flow is None:
        _check_one(table)
    if "ab" in found and "ba" in found and (flow is None or "flows" not in found):
        two = {"flows": found["ab"], "back": found["ba"]}
    found |= two
    if "flows" not in found:
        table_columns("table", table, known, ("flows",))
    return _with_ends(found, table, links)


def _check_one(table: Any) -> None:
    """Refuse a table with several columns of flows that differ."""
    columns = {name: (name,) for name in _VOLUMES[:4]}
    found = table_columns("table", table, columns, ())
    values = list(found.values())
    if any(not np.array_equal(values[0], other) for other in values):
        hint = "name the column of flows: flow=, or --flow"
        raise InputError("table", "one column of flows", " and ".join(found), hint)


def _with_ends(found: dict[str, Any], table: Any, links: Any) -> dict[str, Any]:
    """Add the end nodes of named links, which the table `links` has, to the columns found."""
    if "tails" in found and "heads" in found:
        return found
    if "links" not in found:
        table_columns("table", table, _ENDS, ("tails", "heads"))
    if links is None:
        hint = "give a second table with the ends of each link: links=, or --ends"
        raise InputError("table", "columns tail and head", "only names of links", hint)
    named = table_columns("links", links, _ENDS, ("links", "tails", "heads"))
    place = {name: k for k, name in enumerate(node_names(named["links"]))}
    if len(place) < len(named["links"]):
        raise InputError("links", "a row for each link", "two rows with the same name")
    rows = [place.get(name, -1) for name in node_names(found["links"])]
    if -1 in rows:
        missing = np.asarray(found["links"])[rows.index(-1)]
        raise InputError("links", "all links of the table", f"no link named {missing}")
    return found | {name: np.asarray(named[name])[rows] for name in ("tails", "heads")}


def _node_numbers(game: NetworkGame, column: Any) -> np.ndarray:
    """Return the game's numbers of a table's nodes; -1 for unknown nodes."""
    names = game.labels.states
    if names is not None:
        place = {name: k for k, name in enumerate(names)}
        return np.array([place.get(name, -1) for name in node_names(column)], np.int64)
    try:
        numbers = np.asarray(np.asarray(column).tolist(), np.float64)
    except (ValueError, TypeError) as error:
        found = str(error).rpartition(": ")[2][:60]
        raise InputError("table", "numbers of nodes", found) from None
    if not np.isfinite(numbers).all():
        raise InputError("table", "numbers of nodes", "an empty cell")
    here = (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < game.nodes)
    return np.where(here, numbers, -1).astype(np.int64)


@named_arguments
def read_flows(
    path: str | os.PathLike[str],
    game: NetworkGame,
    *,
    flow: str | None = None,
    links: str | os.PathLike[str] | None = None,
) -> FlowPolicy:
    """Read link flows from a TNTP or CSV file, with columns and rows in any order.

    A header names the columns, as in `flows_of_table`, which also explains `flow` and `links` (here
    another file). Without a header, the columns are those of TNTP files: from, to, volume and cost.
    Columns are separated by commas, semicolons, tabs or blanks.

    **Example**

    >>> import tempfile, pathlib, equipoise as eq
    >>> game = eq.games.load("braess-network")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "flow.tntp")
    ...     eq.games.write_flows(path, game, eq.solve(game).policy)
    ...     eq.games.read_flows(path, game).flows.round(9).tolist()
    [4.0, 2.0, 2.0, 4.0, 2.0]
    """
    one = "pce" if flow is None else flow.strip().lower()
    volumes = {f"{one}_ab", f"{one}_ba", *(_VOLUMES if flow is None else (one,))}
    table, roads = _read_tables(Path(path), volumes, links)
    with _about(path, "flows", links):
        return flows_of_table(game, table, flow=flow, links=roads)


@named_arguments
def read_tolls(
    path: str | os.PathLike[str],
    game: NetworkGame,
    *,
    links: str | os.PathLike[str] | None = None,
) -> np.ndarray:
    """Read the toll of each link from a TNTP or CSV file; links without a row have no toll.

    A header names the columns from, to and toll (or link and toll; `links` is then a file with
    the end nodes of each link, as in `read_flows`). `Design.write` writes such files.

    **Example**

    >>> import tempfile, pathlib, equipoise as eq
    >>> game = eq.games.load("braess-network")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "tolls.csv")
    ...     _ = path.write_text("from,to,toll\\n1,2,9.5\\n")
    ...     eq.games.read_tolls(path, game).tolist()
    [0.0, 0.0, 0.0, 0.0, 9.5]
    """
    table, roads = _read_tables(Path(path), set(LINK_COLUMNS["tolls"]), links)
    tolls = np.zeros(game.links)
    with _about(path, "tolls", links):
        found = table_columns("table", table, _ENDS | _TOLLS, ("tolls",))
        tolls[_links_of_rows(game, _with_ends(found, table, roads))] = found["tolls"]
    return tolls


@named_arguments
def read_links(
    path: str | os.PathLike[str],
    game: NetworkGame,
    *,
    links: str | os.PathLike[str] | None = None,
) -> np.ndarray:
    """Read a list of links from a TNTP or CSV file, and return their numbers in the game.

    A header names the columns from and to (or link; `links` is then a file with the end nodes of
    each link, as in `read_flows`). Other columns are ignored.

    **Example**

    >>> import tempfile, pathlib, equipoise as eq
    >>> game = eq.games.load("braess-network")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "bridges.csv")
    ...     _ = path.write_text("from,to\\n1,2\\n0,1\\n")
    ...     eq.games.read_links(path, game).tolist()
    [4, 0]
    """
    table, roads = _read_tables(Path(path), set(), links)
    with _about(path, "links", links):
        found = table_columns("table", table, _ENDS, ())
        return _links_of_rows(game, _with_ends(found, table, roads))


def _read_tables(path: Path, numbers: set[str], links: Any) -> tuple[dict[str, Any], Any]:
    """Return the columns of a file, with `numbers` as floats, and those of the file `links`."""
    ends = {name for some in _ENDS.values() for name in some}
    table: dict[str, Any] = {
        name: [number_in(path, i, word or "nan") if name in numbers else word for i, word in column]
        for name, column in _columns(path, ends | numbers, numbers).items()
    }
    if links is None:
        return table, None
    roads = _columns(Path(links), ends).items()
    return table, {name: [word for _, word in column] for name, column in roads}


@contextmanager
def _about(path: Any, what: str, links: Any) -> Iterator[None]:
    """Name the file in errors about its table, or the file `links` in errors about that one."""
    try:
        yield
    except InputError as error:
        if error.argument == "links":
            path, what = links, "links"
        raise ValueError(f"{path}: {error.about(what)}") from error


def _columns(path: Path, known: set[str], numbers: Collection[str] = ()) -> dict[str, Any]:
    """Return the known columns of a file by name, with line numbers and words.

    Between semicolons, the columns of `numbers` may have decimal commas.
    """
    text = text_of(path)
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    lines = [(i, line) for i, line in lines if line.strip()[0] not in "~<"]
    if not lines:
        raise ValueError(f"{path}: expected a table of links, found nothing")
    first = lines[0][1]
    marks = [c for c in ",;" if c in first.strip(" ;\t")][:1] or ["\t"] * ("\t" in first) + [""]
    names = ["from", "to", "volume", "cost"]
    try:
        for mark in marks:
            header = [word.lower() for word in _cells(first, mark)]
            if len(known & set(header)) > 1 or set(LINK_NAMES) & set(header):
                names, lines = header, lines[1:]
                break
        else:
            header, mark = [], marks[-1]
            if not any(map(_is_number, _cells(first, mark))):  # a header, but of what?
                told = "expected a header with the columns from and to, or link"
                raise ValueError(f"{path}: {told}; found {first.strip()[:60]!r}")
        rows = [(i, _row(line, mark, header)) for i, line in lines]
    except csv.Error as error:
        raise ValueError(f"{path}: expected columns separated by commas, found {error}") from error
    if not rows:
        raise ValueError(f"{path}: expected a table of links, found a header only")
    width = max((k + 1 for k, name in enumerate(names) if name in known), default=3)
    for (i, row), (_, line) in zip(rows, lines, strict=True):
        if len(row) < width:
            found = f"found {line.strip()[:60]!r}"
            raise ValueError(f"{path}: line {i}: expected {', '.join(names)}; {found}")
    found = {
        name: [(i, row[k]) for i, row in rows]
        for k, name in enumerate(names[:width])
        if name in known
    }
    return found if mark != ";" else found | _with_points(path, found, numbers)


def _with_points(
    path: Path, columns: dict[str, Any], numbers: Collection[str]
) -> dict[str, list[tuple[int, str]]]:
    """Return columns of numbers with decimal points; refuse points that may be for thousands."""
    columns = {name: column for name, column in columns.items() if name in numbers}
    if has_commas(word for column in columns.values() for _, word in column):
        return {
            name: [(i, with_points(word)) for i, word in column] for name, column in columns.items()
        }
    for name, column in columns.items():
        if may_be_thousands([word for _, word in column]):
            i, word = next((i, word) for i, word in column if "." in word)
            found = f"{word!r}; write it without a separator of thousands"
            raise ValueError(
                f"{path}: line {i}: expected a number in the column {name!r}, found {found}"
            )
    return columns


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _row(line: str, mark: str, header: list[str]) -> list[str]:
    """Return the words of a line below a header; none if they cannot be told apart."""
    words = _cells(line, mark)
    if mark == "\t" and ("\t" not in line or len(words) > len(header)):
        mark, words = "", _cells(line, "")
    if mark or not header:
        return words + [""] * (len(header) - len(words)) * (mark == "\t")
    # With blanks as separators, a missing column cannot be identified.
    kept = [k for k, name in enumerate(header) if name]
    row = [""] * len(header)
    for k, word in zip(kept, words, strict=False):
        row[k] = word
    return row if len(words) == len(kept) else []


def _cells(line: str, mark: str) -> list[str]:
    """Split a line into words: at marks or, if there are none, at blanks and colons."""
    if not mark:
        return re.split(r"[\s;:]+", line.strip(" ;\t"))
    if mark != "\t":
        return [word.strip() for word in next(csv.reader([line], delimiter=mark))]
    words = [word.strip(" ;") for word in line.split("\t")]
    while words and not words[-1]:
        words.pop()
    return words


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
