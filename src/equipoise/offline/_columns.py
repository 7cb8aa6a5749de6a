"""Columns of users' tables: text files and data frames, separators, numbers as people write them.

Entries are numbers if all entries of a column are, and words otherwise. Some words stand for
missing entries, which are NaN in columns of numbers and None in columns of words.
"""

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.core.extras import import_extra
from equipoise.core.files import refuse_devices

#: Spellings of a missing entry, in lower case.
MISSING = ("", "na", "n/a", "<na>", "nan", "nat", "null", "none")
#: In a column of words, this word is an ordinary value if at least this fraction of rows has it.
WORD, OFTEN = "none", 0.05
#: Units that may accompany rewards.
UNITS = "$€£¥%"


def read_table(source: Any) -> tuple[dict[str, np.ndarray], str, str, str]:
    """Return raw columns by name, the name of the table, the separator of entries, and a note."""
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        names = [str(column) for column in source.columns]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            raise InputError("log", "columns of different names", f"{twice!r} twice")
        try:
            values = [np.asarray(source[column].to_numpy()) for column in source.columns]
        except (AttributeError, TypeError):
            expected = "a data frame whose columns can be turned into arrays"
            hint = "collect or compute it first"
            raise InputError("log", expected, type(source).__name__, hint) from None
        return dict(zip(names, values, strict=True)), "data frame", ",", ""
    path = Path(source)
    refuse_devices(path)
    if path.suffix == ".parquet":
        arrow = import_extra("pyarrow.parquet", "pyarrow", "parquet").read_table(path)
        return {n: arrow.column(n).to_numpy() for n in arrow.column_names}, path.name, ",", ""
    rows, mark, note = _lines(path)
    if len(rows) < 2:
        raise InputError("log", f"a header and rows in {path}", f"{len(rows)} lines")
    head, body = rows[0], [row for row in rows[1:] if row]
    wrong = next((at for at, row in enumerate(body) if len(row) != len(head)), None)
    if wrong is not None:
        found = f"{len(body[wrong])} in row {wrong}"
        raise InputError("log", f"{len(head)} entries in every row of {path}", found)
    names = [name.strip() for name in head]
    # Spreadsheets write empty columns at the right.
    while names and not names[-1] and not any(row[len(names) - 1].strip() for row in body):
        names.pop()
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError("log", f"columns of different names in {path}", f"{twice!r} twice")
    columns = zip(names, zip(*body, strict=True), strict=False)
    return {n: np.array(c, object) for n, c in columns}, path.name, mark, note


def _lines(path: Path) -> tuple[list[list[str]], str, str]:
    """Rows of a CSV file, the separator of entries, and a note if the text is not UTF-8."""
    with open(path, "rb") as stream:
        start = stream.read(4096)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encodings = {"utf-16": "the text is UTF-16"}
    elif b"\0" in start:
        hint = "save it as CSV in UTF-8"
        raise InputError("log", f"text in {path}", "a binary file", hint)
    else:
        encodings = {"utf-8-sig": "", "cp1252": "read as Windows-1252, since it is not UTF-8"}
    for encoding, note in encodings.items():
        with open(path, newline="", encoding=encoding) as stream:
            try:
                mark = max(",;\t|", key=stream.readline().count)
                stream.seek(0)
                return list(csv.reader(stream, delimiter=mark)), mark, note
            except UnicodeDecodeError:
                continue
    found = "bytes of another encoding"
    raise InputError("log", f"text in UTF-8 in {path}", found, "save it as UTF-8")


def number_of(word: str | None, mark: str, units: str) -> float:
    """Parse a number as people write it, optionally with a unit. Missing entries are not numbers.

    If semicolons separate entries, a comma is the decimal point.

    >>> number_of("$1,234.50", ",", UNITS), number_of("1.234,5", ";", "")
    (1234.5, 1234.5)
    """
    if word is None:
        return np.nan
    try:
        return float(word)
    except ValueError:
        point, group = (",", ".") if mark == ";" else (".", ",")
        unit = rf"(?:\s?[{units}])?\s?" if units else ""
        whole = rf"\d+|\d{{1,3}}(?:[{group}]\d{{3}})+"
        found = re.fullmatch(rf"([-+]?){unit}([-+]?)({whole})([{point}]\d+)?{unit}", word)
        if found is None or (found[1] and found[2]):
            raise
        digits = found[3].replace(group, "") + (found[4] or "").replace(",", ".")
        return float(found[1] + found[2] + digits)


def as_column(
    values: np.ndarray, missing: Sequence[str] | None = None, mark: str = ",", units: str = ""
) -> np.ndarray:
    """Convert to numbers (missing: NaN) if all entries are numbers, else words (missing: None).

    >>> as_column(np.array(["1.5", "NA", "2"], object)).tolist()
    [1.5, nan, 2.0]
    >>> as_column(np.array([" a", "", "2", "None"], object)).tolist()
    ['a', None, '2', 'None']
    >>> as_column(np.array([" a", "", "2", "None"], object), ["None"]).tolist()
    ['a', '', '2', None]
    """
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)
    if values.dtype.kind in "mM":
        away, values = np.isnat(values), np.datetime_as_string(values).astype(object)
        values[away] = None
    nothing = ("NoneType", "NAType", "NaTType")  # the last two come from pandas
    words = [None if type(x).__name__ in nothing else str(x).strip() for x in values.tolist()]
    gone = {w.strip().lower() for w in (MISSING if missing is None else missing)}
    plain = [None if w is None or w.lower() in gone else w for w in words]
    try:
        return np.array([number_of(w, mark, units) for w in plain])
    except ValueError:
        often = sum(w is not None and w.lower() == WORD for w in words) >= OFTEN * len(words)
        if missing is None and often:
            gone.discard(WORD)
            plain = [None if w is None or w.lower() in gone else w for w in words]
        return np.array(plain, object)


def check_rewards(column: str, written: np.ndarray, rewards: np.ndarray, mark: str) -> None:
    """Refuse rewards that are words or infinite; missing ones are allowed."""
    if rewards.dtype.kind == "f":
        if np.isinf(rewards).any():
            row = int(np.isinf(rewards).argmax())
            found = f"{written[row]} in row {row}"
            raise InputError("reward", f"finite numbers in column {column}", found)
        return
    for row, word in enumerate(rewards.tolist()):
        try:
            number_of(word, mark, UNITS)
        except ValueError:
            hint = "name words that stand for missing entries by missing=, or --missing"
            found = f"{word!r} in row {row}"
            raise InputError("reward", f"numbers in column {column}", found, hint) from None


def is_missing(values: np.ndarray) -> np.ndarray:
    none: Any = None
    return np.isnan(values) if values.dtype.kind == "f" else np.equal(values, none)


def as_words(values: np.ndarray) -> list[str]:
    """Convert values to text: whole numbers without a decimal point, others with all digits."""
    return [f"{x:.15g}" if isinstance(x, float) else str(x) for x in values.tolist()]


def ordered(values: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Distinct values in order, and the code of each entry; -1 if it is missing."""
    away = is_missing(values)
    if values.dtype.kind == "f":
        found = np.unique(values[~away])
        codes = np.searchsorted(found, values)
    else:
        known = sorted(set(values[~away].tolist()), key=lambda word: (natural(word), word))
        number = {word: code for code, word in enumerate(known)}
        found, codes = (
            np.array(known, object),
            np.array([number.get(x, -1) for x in values.tolist()]),
        )
    return as_words(found), np.where(away, -1, codes)


def natural(word: str) -> list[Any]:
    """Return a key that sorts words with numbers in them in the order of the numbers.

    >>> sorted(["Shop 10", "Shop 9", "-0.5 to 3", "-2.5 to -0.5"], key=natural)
    ['-2.5 to -0.5', '-0.5 to 3', 'Shop 9', 'Shop 10']
    """
    parts: list[Any] = [int(x) if x.isdecimal() else x.lower() for x in re.split(r"(\d+)", word)]
    first = re.match(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?(?![\w.])", word)
    return [0 if first else 1, float(first[0]) if first else 0.0, *parts]
