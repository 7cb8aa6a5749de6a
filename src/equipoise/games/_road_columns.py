"""Tables of links and trips: the names of their columns, units, and `.csv` files."""

import csv
import io
import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.files import SEPARATOR, read_bytes

#: Accepted column names: first ours, then those of other software.
TAILS = ("tail", "init_node", "from", "from_node", "a_node", "edge_from", "from_node_id")
HEADS = ("head", "term_node", "to", "to_node", "b_node", "edge_to", "to_node_id")
LINK_NAMES = ("link", "link_id", "edge_id", "edge", "id")
LINK_COLUMNS = {
    "tails": (*TAILS, "from_id", "start_node", "node_a", "u", "source"),
    "heads": (*HEADS, "to_id", "end_node", "node_b", "v", "target"),
    "free_flow": (
        *("free_flow", "free_flow_time", "free_flow_travel_time", "free_flow_cost", "fft"),
        *("fftt", "t0", "vdf_fftt", "travel_time", "time"),
    ),
    "capacity": ("capacity", "cap", "link_capacity", "max_flow"),
    "b": ("b", "alpha", "bpr_b", "bpr_alpha", "vdf_alpha"),
    "rise": ("rise",),
    "power": ("power", "beta", "bpr_power", "bpr_beta", "vdf_beta"),
    "fixed": ("fixed", "fixed_cost"),
    "tolls": ("toll", "tolls"),
}
TRIP_COLUMNS = {
    "origins": (
        "origin",
        "from",
        "orig",
        "o",
        "origin_id",
        "origin_zone",
        "from_zone",
        "o_zone_id",
    ),
    "destinations": (
        *("destination", "to", "dest", "d", "destination_id", "destination_zone", "to_zone"),
        "d_zone_id",
    ),
    "demand": ("demand", "trips", "volume", "flow", "travellers", "vehicles"),
    "classes": ("class", "user_class"),
}
_UNUSED = """id link edge key index fid gid ogcfid objectid osmid parentlinkid name street
streetname road roadname ref description comment notes label geometry geometryid geom thegeom shape
shapelength wkt coordinates length distance lanes numlanes width rowwidth grade speed freespeed
freeflowspeed maxspeed speedlimit speedkph type roadtype roadclass facilitytype functionalclass
highway fclass priority spreadtype function modes alloweduses allow disallow oneway reversed area
areatype estwidth landuse jurisdiction bridge tunnel access junction service bikefacility
pedfacility parking flow flows volume volumes count counts observed observedflow aadt source target
u v from to"""
#: Columns that cannot change the game, also with "link" or "edge" before them. Those that are
#: accepted names as well are unused only if the table has another column for the same thing.
UNUSED_LINK_COLUMNS = frozenset(_UNUSED.split())
UNUSED_TRIP_COLUMNS = frozenset(
    ("id", "key", "index", "name", "originname", "destinationname", "distance")
) | {"from", "to", "flow", "volume"}
#: Columns that say that a row is not one link in one direction.
_DIRECTIONS = frozenset(("direction", "directed", "dirflag", "dir"))
#: Units of columns that are not used.
_LENGTHS = re.compile(r"[(\[{].*$|[_ ](km|m|mi|miles|ft|feet|kmh|km/h|kph|mph)$")
#: Columns without a name, as data frames write their index.
_NUMBERED = re.compile("(unnamed)?[0-9]*$")
#: Units that may follow the name of a column; their groups must agree in all columns.
_TIME = re.compile("(s|m|h)(?:in|ins|inutes?|ec|ecs|econds?|r|rs|ours?)?")
_FLOW = re.compile(
    "(?:v|veh|vehs|vehicles?|pcus?|pces?|cars?|trips?|persons?|travell?ers?)?"
    "(?:p(?:er)?)?(?:(h|d)(?:r|rs|ours?|ays?|ay)?)?"
)
_MONEY = re.compile("eur|euros?|usd|dollars?|gbp|pounds?|chf|francs?|cents?|ct|money|cny|jpy|yen")
_UNITS = {
    **dict.fromkeys(("free_flow", "rise", "fixed"), ("a time, such as min", _TIME)),
    **dict.fromkeys(("capacity", "demand"), ("a flow, such as veh/h", _FLOW)),
    "tolls": ("a time, such as min, or of money", _TIME),
}
_NODES = ("tails", "heads", "origins", "destinations")


def table_columns(
    argument: str, table: Any, known: Mapping[str, tuple[str, ...]], needed: tuple[str, ...]
) -> dict[str, Any]:
    """Return the known columns of a table under our names; ignore the others."""
    table, there = _names_of(argument, table)
    there = {name.strip().lower(): column for name, column in there.items()}
    found = {
        ours: np.asarray(table[there[name]])
        for ours, names in known.items()
        for name in [next((n for n in names if n in there), None)]
        if name is not None
    }
    for name in needed:
        if name not in found:
            expected = f"a column {known[name][0]}"
            raise InputError(argument, expected, ", ".join(there) or "none")
    return found


def _names_of(argument: str, table: Any) -> tuple[Any, dict[str, Any]]:
    """Return a table without index, and the names of its columns by their text."""
    if any(name is not None for name in getattr(getattr(table, "index", None), "names", ())):
        table = table.reset_index()  # pandas: an index with a name is a column
    columns = getattr(table, "columns", table)
    if columns is table and not isinstance(table, Mapping):
        expected = "a data frame, a mapping from names to columns, or the name of a .csv file"
        raise InputError(argument, expected, type(table).__name__)
    return table, {str(name): name for name in columns}


def game_columns(links: Any, trips: Any) -> dict[str, Any]:
    """Return the arguments of a game that two tables hold; refuse columns that are not known.

    >>> links = {"from": [1], "to": [2], "Free flow time (min)": [5], "capacity_vph": [9]}
    >>> game_columns(links, {"o": [1], "d": [2], "trips": [3]})["free_flow"].tolist()
    [5]
    """
    units: dict[Any, tuple[str, str]] = {}
    tables = (
        ("links", links, LINK_COLUMNS, UNUSED_LINK_COLUMNS, ("tails", "heads")),
        ("trips", trips, TRIP_COLUMNS, UNUSED_TRIP_COLUMNS, ("origins", "destinations", "demand")),
    )
    found = {}
    for argument, table, known, unused, needed in tables:
        file = isinstance(table, str | os.PathLike)
        try:
            content = read_table(table) if file else table
            found |= _known_columns(argument, content, known, unused, needed, units)
        except InputError as error:
            if not file:
                raise
            raise ValueError(f"{os.fspath(table)}: {error.about(argument)}") from error
    return found


def _known_columns(
    argument: str,
    table: Any,
    known: Mapping[str, tuple[str, ...]],
    unused: frozenset[str],
    needed: tuple[str, ...],
    units: dict[Any, tuple[str, str]],
) -> dict[str, Any]:
    """Return the columns of one table under our names; `units` collects the units seen."""
    table, there = _names_of(argument, table)
    ours = {_plain(name): field for field, names in known.items() for name in names}
    columns: dict[str, list[str]] = {field: [] for field in known}
    others = []
    for name in there:
        field, unit = _field_and_unit(name, ours)
        if field is None:
            others.append(name)
        else:
            columns[field].append(name)
            _check_unit(argument, name, field, unit, units)
    for field in needed:
        if not columns[field]:
            raise InputError(argument, column_in_words(known[field]), ", ".join(there) or "none")
    for name in others:
        plain = _plain(_LENGTHS.sub("", name.lower()))
        if plain in _DIRECTIONS:
            _check_directions(argument, name, np.asarray(table[there[name]]))
        elif not {plain, re.sub("^(link|edge)", "", plain)} & unused and not _NUMBERED.match(plain):
            hint = f"rename or remove it; known are {', '.join(n[0] for n in known.values())}"
            if close := get_close_matches(plain, ours, 1, 0.7):
                hint = f"did you mean {column_in_words(known[ours[close[0]]], '')}?"
            raise InputError(argument, "columns that are known", repr(name), hint)
    found = {}
    for field, names in columns.items():
        names = [name for name in names if _plain(name) not in unused] or names
        content = [_content(argument, name, field, table[there[name]]) for name in names]
        if any(not np.array_equal(content[0], other) for other in content[1:]):
            raise InputError(argument, f"one column {known[field][0]}", " and ".join(names))
        if names:
            found[field] = content[0]
    return found


def _check_directions(argument: str, name: str, column: np.ndarray) -> None:
    """Refuse rows that stand for both directions of a street, or for the opposite one."""
    if column.dtype.kind in "biuf" and not (column == 1).all():
        expected = f"one row for each direction of a street, with 1 in the column {name!r}"
        raise InputError(argument, expected, column[column != 1][0])


def _plain(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return re.sub("[^a-z0-9]", "", name.lower())


def column_in_words(names: tuple[str, ...], article: str = "a column ") -> str:
    """Return our name of a column, followed by the others that are accepted."""
    return f"{article}{names[0]}" + (f" (or {', '.join(names[1:])})" if names[1:] else "")


def _field_and_unit(name: str, ours: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the field that a column is named after, and its unit, in brackets or as a suffix.

    >>> ours = {"freeflow": "free_flow", "capacity": "capacity"}
    >>> [_field_and_unit(name, ours) for name in ("Free flow [min]", "capacity_veh_h", "speed")]
    [('free_flow', 'min'), ('capacity', 'vehh'), (None, '')]
    """
    inside = re.fullmatch(r"(.*?)[(\[{](.*)[)\]}]\s*", name)
    if inside:
        unit = "percent" if "%" in inside[2] else _plain(inside[2])
        return ours.get(_plain(inside[1])), unit
    words = re.findall("[a-z0-9]+", name.lower())
    for cut in range(len(words), 0, -1):
        field, unit = ours.get("".join(words[:cut])), "".join(words[cut:])
        if field and (not unit or (field in _UNITS and _UNITS[field][1].fullmatch(unit))):
            return field, unit
    return None, ""


def _check_unit(
    argument: str, name: str, field: str, unit: str, units: dict[Any, tuple[str, str]]
) -> None:
    """Refuse units of another kind, and two different units of one kind."""
    if not unit or field in _NODES:
        return
    if field not in _UNITS:
        raise InputError(argument, f"{field} without a unit", repr(name))
    expected, pattern = _UNITS[field]
    match = pattern.fullmatch(unit)
    if match is None and field == "tolls" and _MONEY.fullmatch(unit):
        return
    if match is None:
        raise InputError(argument, f"{field} in units of {expected}", repr(name))
    if match[1]:
        before, unit_before = units.setdefault(pattern, (name, match[1]))
        if match[1] != unit_before:
            raise InputError(argument, f"the unit of {before!r}", repr(name))


def _content(argument: str, name: str, field: str, column: Any) -> np.ndarray:
    """Return a column; refuse words in a column of numbers."""
    array = np.asarray(column)
    if field in _NODES or array.dtype.kind not in "OU":
        return array
    for row, cell in enumerate(array.tolist(), 1):
        unclear = isinstance(cell, str) and bool(_THOUSANDS.fullmatch(cell))
        if unclear or not _is_number(cell):
            hint = "write it without a separator of thousands" if unclear else ""
            found = f"{str(cell)!r} in row {row}"
            raise InputError(argument, f"numbers in the column {name!r}", found, hint)
    return array.astype(float)


#: Whole numbers with points between thousands, or numbers with three decimals.
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(\.\d{3})+")
#: Numbers with points between thousands and a decimal comma.
_GROUPED = re.compile(r"-?\d{1,3}(\.\d{3})*(,\d*)?")
#: Whole numbers, and those that are names: with zeros before them, an exponent, or 16 digits.
_DIGITS, _ID = re.compile(r"-?\d+([eE]\d+)?"), re.compile(r"0\d+|\d+[eE]\d+|\d{16,}")


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def text_of(path: str | os.PathLike[str]) -> str:
    """Return the text of a table, which is UTF-16 or UTF-8; a line `sep=;` before it is blank."""
    data = read_bytes(path)
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = data.decode(encoding, errors="replace").replace("\r\n", "\n")
    named = SEPARATOR.match(text)
    return text[named.end() :] if named else text


def read_table(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return the columns of a .csv file with a header: numbers, or words if a cell is no number.

    Columns are separated by commas, semicolons or tabs. With semicolons, numbers may have a decimal
    comma; a point then separates thousands.
    """
    text = text_of(path)
    first = text.lstrip().partition("\n")[0]
    mark = max(",;\t", key=first.count)
    try:
        rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark)
            if any(cell.strip() for cell in row)
        ]
    except csv.Error as error:
        raise ValueError(f"{path}: expected columns separated by commas, found {error}") from error
    if len(rows) < 2:
        raise ValueError(f"{path}: expected a header and rows, found {len(rows)} lines")
    header, width = rows[0], len(rows[0])
    for row in rows[1:]:
        if (len(row) != width and any(row[width:])) or len(row) < width:
            expected = f"{width} cells, as in the header"
            raise ValueError(
                f"{path}: expected {expected}, found {len(row)}: {mark.join(row)[:60]}"
            )
    if len(set(header)) < width:
        twice = next(name for name in header if header.count(name) > 1)
        raise ValueError(f"{path}: expected different names of columns, found {twice!r} twice")
    comma = mark == ";" and has_commas(cell for row in rows[1:] for cell in row)
    columns = zip(*(row[:width] for row in rows[1:]), strict=True)
    return {
        name: _as_numbers(column, comma, mark) for name, column in zip(header, columns, strict=True)
    }


def has_commas(cells: Iterable[str]) -> bool:
    """Whether some cell is a number with a decimal comma."""
    return any(re.fullmatch(r"-?[\d.]*\d,\d+", cell) for cell in cells)


def with_points(word: str) -> str:
    """Return a number with a decimal comma with a decimal point.

    >>> [with_points(word) for word in ("1.234,5", "1.234", "0.5", "12")]
    ['1234.5', '1234', '0.5', '12']
    """
    plain = word.replace(".", "") if _GROUPED.fullmatch(word) else word
    return plain.replace(",", ".")


def may_be_thousands(words: Iterable[str]) -> bool:
    """Whether all points in a column may separate thousands."""
    points = [word for word in words if "." in word]
    return bool(points) and all(map(_THOUSANDS.fullmatch, points))


def _as_numbers(words: tuple[str, ...], comma: bool, mark: str) -> np.ndarray:
    """Return words as numbers if all of them are, and no point may separate thousands."""
    if comma:
        words = tuple(map(with_points, words))
    elif mark == ";" and may_be_thousands(words):
        return np.array(words)
    if any(map(_ID.fullmatch, words)) and all(map(_DIGITS.fullmatch, words)):
        return np.array(words)  # names: as numbers, 007 and 7 would be the same
    return np.array(words, float) if all(map(_is_number, words)) else np.array(words)
