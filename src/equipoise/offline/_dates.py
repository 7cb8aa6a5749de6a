"""Dates as people write them, turned into words that sort in the order of time."""

import re
from datetime import datetime

import numpy as np

from equipoise.core import InputError

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = r"(?:[T ,]+(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?\s*([AaPp][Mm])?)?"
_NUMBERS = re.compile(rf"(\d{{1,2}})([/.-])(\d{{1,2}})\2(\d{{4}}|\d{{2}}){_CLOCK}")
_ISO = re.compile(rf"(\d{{4}})([/.-])(\d{{1,2}})\2(\d{{1,2}}){_CLOCK}")
_NAME = r"([A-Za-z]{3,9})\.?"
_MONTH_FIRST = re.compile(rf"{_NAME}\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}}){_CLOCK}")
_DAY_FIRST = re.compile(rf"(\d{{1,2}})(?:st|nd|rd|th)?[.\s-]+{_NAME}[,\s-]+(\d{{4}}){_CLOCK}")


def as_dates(
    column: str, words: np.ndarray, dayfirst: bool | None = None
) -> tuple[np.ndarray, str]:
    """Write dates as `2023-01-05`, and say how days and months were told apart.

    Words that are no dates, and dates that are written like this already, stay as they are.
    Raises an error if only some words are dates, or if the day cannot be told from the month.

    >>> as_dates("day", np.array(["05/01/2023", "31/01/2023", None], object))[0].tolist()
    ['2023-01-05', '2023-01-31', None]
    >>> as_dates("day", np.array(["Jan 05 2023", "5 February 2023"], object))[0].tolist()
    ['2023-01-05', '2023-02-05']
    """
    known = [word for word in words.tolist() if word is not None]
    numbers = [found for word in known if (found := _NUMBERS.fullmatch(word))]
    parsed = {word: _parts(word) for word in dict.fromkeys(known)}
    some = bool(numbers) or any(
        parts and not _ISO.fullmatch(word) for word, parts in parsed.items()
    )
    if not some:
        return words, ""
    order, note = True, ""
    if numbers:
        order = _day_first(column, numbers, dayfirst)
        ends = ("day", "month") if order else ("month", "day")
        note = f"{column} is read with the {ends[0]} before the {ends[1]}"
    written: dict[str | None, str | None] = {None: None}
    for word, parts in parsed.items():
        found = _NUMBERS.fullmatch(word)
        if found:
            year = found[4] if len(found[4]) == 4 else str(_century(int(found[4])))
            day, month = (found[1], found[3]) if order else (found[3], found[1])
            parts = (year, month, day, found.groups()[4:])
        written[word] = _iso(*parts) if parts else None
        if written[word] is None:
            row = words.tolist().index(word)
            raise InputError("time", f"dates in column {column}", f"{word!r} in row {row}")
    return np.array([written[word] for word in words.tolist()], object), note


def _parts(word: str) -> tuple[str, str, str, tuple[str | None, ...]] | None:
    """Year, month, day and clock of a date in which they cannot be confused."""
    if found := _ISO.fullmatch(word):
        return found[1], found[3], found[4], found.groups()[4:]
    if found := _MONTH_FIRST.fullmatch(word):
        name, day = found[1], found[2]
    elif found := _DAY_FIRST.fullmatch(word):
        name, day = found[2], found[1]
    else:
        return None
    start = name.lower()[:3]
    month = str(1 + _MONTHS.index(start)) if start in _MONTHS else ""
    return (found[3], month, day, found.groups()[3:]) if month else None


def _day_first(column: str, dates: list[re.Match[str]], dayfirst: bool | None) -> bool:
    """Whether the day is the first number; points mean that it is, slashes and dashes do not."""
    if dayfirst is not None:
        return dayfirst
    first, second = (max(int(date[k]) for date in dates) for k in (1, 3))
    if first > 12 or second > 12:
        return first > 12
    if all(date[2] == "." for date in dates):
        return True
    hint = "pass dayfirst=True or dayfirst=False (--dates)"
    found = f"{dates[0][0]!r}, where either may be the day"
    expected = f"dates in column {column} that show which number is the day"
    raise InputError("time", expected, found, hint)


def _century(year: int) -> int:
    """The year that two digits stand for, as in POSIX.

    >>> _century(68), _century(69)
    (2068, 1969)
    """
    return year + (2000 if year < 69 else 1900)


def _iso(year: str, month: str, day: str, clock: tuple[str | None, ...]) -> str | None:
    hour, minute, second = (int(part or 0) for part in clock[:3])
    if clock[3]:
        hour = hour % 12 + (12 if clock[3].lower() == "pm" else 0)
    try:
        date = datetime(int(year), int(month), int(day), hour, minute, second)
    except ValueError:  # no such day
        return None
    return date.isoformat(" ") if clock[0] else date.date().isoformat()
