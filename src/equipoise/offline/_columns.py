"""Columns of users' tables: text files and data frames, separators, numbers as people write them.

Entries are numbers if all entries of a column are, and words otherwise. Some words stand for
missing entries, which are NaN in columns of numbers and None in columns of words.
"""

import csv
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.core.extras import import_extra
from equipoise.core.files import SEPARATOR, refuse_devices

#: Spellings of a missing entry, in lower case.
MISSING = ("", "na", "n/a", "<na>", "nan", "nat", "null", "none")
#: In a column of words, this word is an ordinary value if at least this fraction of rows has it.
WORD, OFTEN = "none", 0.05
#: Units that may accompany rewards.
UNITS = "$€£¥%"
#: Numbers with at most this many different values are categories.
CATEGORIES = 12
#: Largest whole number below which floats are exact.
EXACT = 2**53
#: Names that look like numbers: 007 and 1E2.
_NAME, _WHOLE = re.compile(r"0\d+|\d+[eE]\d+"), re.compile(r"[-+]?\d+")


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
        return {n: _exact(arrow.column(n)) for n in arrow.column_names}, path.name, ",", ""
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


def _exact(column: Any) -> np.ndarray:
    """A column of a Parquet file; whole numbers with missing entries do not become floats."""
    if column.null_count and "int" in str(column.type):
        return np.array(column.to_pylist(), object)
    return column.to_numpy()


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
                first = stream.readline()
                named = SEPARATOR.match(first.rstrip())
                first = stream.readline() if named else first
                mark = named[1] if named else max(",;\t|", key=first.count)
                return list(csv.reader(chain([first], stream), delimiter=mark)), mark, note
            except UnicodeDecodeError:
                continue
    found = "bytes of another encoding"
    raise InputError("log", f"text in UTF-8 in {path}", found, "save it as UTF-8")


def number_of(word: str | None, mark: str, units: str, grouped: bool = False) -> float:
    """Parse a number as people write it, optionally with a unit. Missing entries are not numbers.

    `mark` is the decimal mark. If it is a comma, a point separates thousands where entries may be
    `grouped`, and is a decimal mark as well elsewhere. Amounts, which have units, may be negative
    in brackets.

    >>> number_of("$1,234.50", ".", UNITS), number_of("1.234,5", ",", "")
    (1234.5, 1234.5)
    >>> number_of("(0.12)", ".", UNITS), number_of("($1,200)", ".", UNITS)
    (-0.12, -1200.0)
    >>> number_of("1.234", ",", "", grouped=True), number_of("1.234", ",", "")
    (1234.0, 1.234)
    """
    if word is None:
        return np.nan
    if units and (inside := re.fullmatch(rf"([{units}]?)\s*\(([^-+()]+)\)\s*([{units}]?)", word)):
        return -number_of("".join(map(str.strip, inside.groups())), mark, units, grouped)
    try:
        if grouped and "." in word:
            raise ValueError(word)
        return float(word)
    except ValueError:
        group = "." if mark == "," else ","
        unit = rf"(?:\s?[{units}])?\s?" if units else ""
        whole = rf"\d+|[1-9]\d{{0,2}}(?:[{group}]\d{{3}})+"
        found = re.fullmatch(rf"([-+]?){unit}([-+]?)({whole})([{mark}]\d+)?{unit}", word)
        if found is None or (found[1] and found[2]):
            raise
        digits = found[3].replace(group, "") + (found[4] or "").replace(",", ".")
        return float(found[1] + found[2] + digits)


def is_grouped(words: Sequence[str | None], shown: bool, group: str = ".") -> bool | None:
    """Whether points, or commas, separate thousands in a column; None if that cannot be told.

    `shown` says whether some column of the table shows the other one as its decimal mark.

    >>> is_grouped(["1.234", "987"], False), is_grouped(["1.234", "0.5"], True)
    (True, False)
    >>> is_grouped(["1.234", "2.345"], False)
    """
    marked = [word for word in words if word is not None and group in word]
    mark = "," if group == "." else "."
    form = rf"[-+({UNITS}\s]*[1-9]\d{{0,2}}([{group}]\d{{3}})+([{mark}]\d+)?[{UNITS}\s]*\)?"
    if not marked or not all(re.fullmatch(form, word) for word in marked):
        return False
    whole = [w.strip("-+()") for w in words if w is not None and group not in w]
    whole = [word for word in whole if word.isdecimal()]
    if shown or any(word.count(group) > 1 or mark in word for word in marked):
        return True
    if group == "," and any(mark in w for w in words if w is not None):
        return True
    return max(map(len, whole)) <= 3 if whole else None


def shows_mark(columns: Sequence[np.ndarray], mark: str) -> bool:
    """Whether some entry of a table has a comma, or a point, as its decimal mark."""
    group = "." if mark == "," else ","
    decimal = re.compile(rf"[-+($€£¥]*\d[\d{group}]*[{mark}]\d+\s?[{UNITS}]?\)?")
    return any(
        isinstance(word, str) and decimal.fullmatch(word.strip()) is not None
        for column in columns
        for word in column.tolist()
    )


def words_of(
    values: np.ndarray, missing: Sequence[str] | None = None, names: bool = False
) -> tuple[list[str | None], bool]:
    """Entries as words (missing: None), and whether a spelling of missing entries may be a word.

    The spelling "none" is a word in a column of words if it is frequent. In a column of `names`, a
    spelling of missing entries is a name if it is half as frequent as the others are (median).
    """
    if values.dtype.kind in "mM":
        away, values = np.isnat(values), np.datetime_as_string(values).astype(object)
        values[away] = None
    nothing = ("NoneType", "NAType", "NaTType")  # the last two come from pandas
    words = [
        None if type(x).__name__ in nothing or x != x else str(x).strip() for x in values.tolist()
    ]
    gone = {w.strip().lower() for w in (MISSING if missing is None else missing)}
    count = Counter(word for word in words if word is not None)
    if names and missing is None:
        usual = np.median([n for word, n in count.items() if word.lower() not in gone] or [0])
        gone -= {word.lower() for word, n in count.items() if word and 0 < usual <= 2 * n}
    often = sum(n for word, n in count.items() if word.lower() == WORD) >= OFTEN * len(words)
    plain = [None if w is None or w.lower() in gone else w for w in words]
    if missing is None and often and WORD in gone:
        other = gone - {WORD}
        return [None if w is None or w.lower() in other else w for w in words], True
    return plain, False


def as_column(
    values: np.ndarray,
    missing: Sequence[str] | None = None,
    mark: str = ".",
    units: str = "",
    grouped: bool = False,
    names: bool = False,
    as_text: bool = False,
) -> np.ndarray:
    """Convert to numbers (missing: NaN) if all entries are numbers, else words (missing: None).

    With `as_text`, all entries are words.

    >>> as_column(np.array(["1.5", "NA", "2"], object)).tolist()
    [1.5, nan, 2.0]
    >>> as_column(np.array([" a", "", "2", "None"], object)).tolist()
    ['a', None, '2', 'None']
    >>> as_column(np.array([" a", "", "2", "None"], object), ["None"]).tolist()
    ['a', '', '2', None]
    >>> as_column(np.array(["DE", "NA", "DE", "NA"], object), names=True).tolist()
    ['DE', 'NA', 'DE', 'NA']
    """
    if as_text:
        return np.array(words_of(values, missing, names)[0], object)
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)
    words, frequent = words_of(values, missing, names)
    try:
        plain = [None if frequent and w is not None and w.lower() == WORD else w for w in words]
        return np.array([number_of(word, mark, units, grouped) for word in plain])
    except ValueError:
        return np.array(words, object)


def identifier(values: np.ndarray, missing: Sequence[str] | None = None) -> str | None:
    """A word in a column that is a name although it looks like a number; None if there is none.

    As numbers, 007 and 7 would be the same, and so would 1E2 and 100, or two whole numbers beyond
    2^53. Zeros before a single digit, as in 07, belong to a number where there are many numbers
    and none is written in two ways.

    >>> identifier(np.array(["7", "007"], object)), identifier(np.array(["0.7", "7"], object))
    ('007', None)
    >>> hours = np.array([f"{hour:02}" for hour in range(24)], object)
    >>> identifier(hours), identifier(hours[:2])
    (None, '00')
    >>> identifier(np.array([2**60, 5]))
    '1152921504606846976'
    """
    words = _different(values, missing)
    found = [word for word in words if _NAME.fullmatch(word) or _is_beyond(word)]
    if all(len(word) == 2 for word in found) and len(words) > CATEGORIES:
        numbers = {int(word) for word in words if word.isdecimal()}
        return None if len(numbers) == len(words) else next(iter(found), None)
    return next(iter(found), None)


def beyond(values: np.ndarray, missing: Sequence[str] | None = None) -> str | None:
    """A whole number in a column that floats do not tell from its neighbours, or None."""
    return next(filter(_is_beyond, _different(values, missing)), None)


def _is_beyond(word: str) -> bool:
    return len(word) > 15 and bool(_WHOLE.fullmatch(word)) and abs(int(word)) > EXACT


def _different(values: np.ndarray, missing: Sequence[str] | None) -> list[str]:
    """Different words of a column; none if its type says that it has exact numbers."""
    if values.dtype.kind not in "iuOUT":
        return []
    if values.dtype.kind in "iu" and (np.abs(values.astype(np.float64)) <= EXACT).all():
        return []
    return list(dict.fromkeys(word for word in words_of(values, missing)[0] if word is not None))


def folded(columns: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[str]]:
    """Join spellings that differ in case, white space or invisible characters only, and list them.

    The most frequent spelling is kept.

    >>> folded([np.array(["high", "HIGH", "low", "high", None], object)])
    ([array(['high', 'high', 'low', 'high', None], dtype=object)], ['HIGH as high'])
    """
    count: Counter[str] = Counter()
    for column in columns:
        if column.dtype.kind == "O":
            count.update(word for word in column.tolist() if word is not None)
    kept: dict[str, str] = {}
    for word in sorted(count, key=lambda word: (-count[word], natural(word), word)):
        kept.setdefault(_spelling(word), word)
    name: dict[str | None, str | None] = {word: kept[_spelling(word)] for word in count}
    joined = sorted(f"{word} as {other}" for word, other in name.items() if word != other)
    if not joined:
        return list(columns), []
    name[None] = None
    return [
        np.array([name[word] for word in column.tolist()], object)
        if column.dtype.kind == "O"
        else column
        for column in columns
    ], joined


def _spelling(word: str) -> str:
    """What spellings of a word have in common.

    >>> _spelling("Caf\u00e9 ") == _spelling("cafe\u0301\u200b")
    True
    """
    seen = "".join(c for c in unicodedata.normalize("NFC", word) if unicodedata.category(c) != "Cf")
    return " ".join(seen.casefold().split())


def check_rewards(
    column: str, written: np.ndarray, rewards: np.ndarray, mark: str, grouped: bool
) -> None:
    """Refuse rewards that are words, infinite or in several units; missing ones are allowed."""
    if rewards.dtype.kind == "f":
        _check_units(column, written, rewards)
        if np.isinf(rewards).any():
            row = int(np.isinf(rewards).argmax())
            found = f"{written[row]} in row {row}"
            raise InputError("reward", f"finite numbers in column {column}", found)
        return
    for row, word in enumerate(rewards.tolist()):
        try:
            number_of(word, mark, UNITS, grouped)
        except ValueError:
            hint = "name words that stand for missing entries by missing=, or --missing"
            if mark == "." and re.fullmatch(rf"[-+({UNITS}\s]*\d+,\d+[{UNITS}\s]*\)?", word):
                hint = "pass decimal=',' (--decimal) if the comma is the decimal mark"
            found = f"{word!r} in row {row}"
            raise InputError("reward", f"numbers in column {column}", found, hint) from None


def _check_units(column: str, written: np.ndarray, rewards: np.ndarray) -> None:
    """Refuse a column with percentages and other numbers, or with several currencies."""
    if written.dtype.kind not in "OUT":
        return
    first: dict[str, int] = {}
    for row, (word, number) in enumerate(zip(written.tolist(), rewards.tolist(), strict=True)):
        if number == number:
            unit = next((mark for mark in UNITS if mark in str(word)), "")
            first.setdefault(unit, row)
    if len(first) > 1 and ("%" in first or len(first) > 2 or "" not in first):
        (_, one), (_, other), *_ = first.items()
        found = f"{written[one]!r} in row {one} and {written[other]!r} in row {other}"
        raise InputError("reward", f"numbers of one unit in column {column}", found)


def is_missing(values: np.ndarray) -> np.ndarray:
    none: Any = None
    return np.isnan(values) if values.dtype.kind == "f" else np.equal(values, none)


def as_words(values: np.ndarray) -> list[str]:
    """Convert values to text: whole numbers without a decimal point, others with all digits.

    >>> as_words(np.array([1234567890123459.0, 0.1, 0.1 + 0.2]))
    ['1234567890123459', '0.1', '0.30000000000000004']
    """
    return [_digits(x) if isinstance(x, float) else str(x) for x in values.tolist()]


def _digits(number: float) -> str:
    if number.is_integer() and abs(number) <= EXACT:
        return str(int(number))
    short = f"{number:.15g}"
    return short if float(short) == number else repr(number)


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
