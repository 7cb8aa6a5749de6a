"""Times as people write them, turned into words that sort in the order of time.

Dates, months, quarters, weeks and clock times are recognised in usual formats. A column of words
that look like dates, but that no format reads, is refused, since sorting them as words would mix up
what happened before and after.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from equipoise.core import InputError
from equipoise.offline._columns import natural

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
#: First letters of months, of which some are German.
_MONTH = {name: k for k, name in enumerate(_MONTHS, 1)} | {"mär": 3, "mai": 5, "okt": 10, "dez": 12}
_HOURS = (
    r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?(?:\s*([AaPp])\.?[Mm]\.?)?"
    r"(?:\s*(Z|UTC|GMT|[+-]\d{2}:?\d{2}))?"
)
_CLOCK = rf"(?:[T ,]+{_HOURS})?"
_NAME = r"([^\W\d_]{3,9})\.?"
_NTH = r"(\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"((?:19|20)\d{2})"
_NUMBERS = re.compile(rf"(\d{{1,2}})([/.-])(\d{{1,2}})\2(\d{{4}}|\d{{2}}){_CLOCK}")
#: Formats of dates, and which of the first groups are the year, the month and the day.
_DATES = (
    (re.compile(rf"(\d{{4}})([/.-])(\d{{1,2}})\2(\d{{1,2}}){_CLOCK}"), (1, 3, 4)),
    (re.compile(rf"(\d{{4}})[\s/.-]*{_NAME}[\s/.-]*(\d{{1,2}}){_CLOCK}"), (1, 2, 3)),
    (re.compile(rf"{_NAME}\s*{_NTH},?\s+(\d{{4}}){_CLOCK}"), (3, 1, 2)),
    (re.compile(rf"{_NTH}[.\s/-]*{_NAME}[,\s/'-]*(\d{{4}}|\d{{2}}){_CLOCK}"), (3, 2, 1)),
)
_PART = r"(Q|H|M|W|KW|CW|Wk|Week)"
#: Formats of months, quarters and weeks: which groups are the year, the number and its kind.
_PERIODS = (
    (re.compile(rf"{_YEAR}()\s*[-/. ]\s*(\d{{1,2}})"), (1, 3, 2)),
    (re.compile(rf"{_YEAR}\s*[-/. ]?\s*{_PART}\s*(\d{{1,2}})", re.I), (1, 3, 2)),
    (re.compile(rf"()(\d{{1,2}})[-/. ]{_YEAR}"), (3, 2, 1)),
    (re.compile(rf"{_PART}\.?\s*(\d{{1,2}})[\s/.,'-]*{_YEAR}", re.I), (3, 2, 1)),
    (re.compile(r"(Q)\s*([1-4])[\s/.,'-]+(\d{2})", re.I), (3, 2, 1)),
    (re.compile(rf"([1-4])\s*(Q)\s*[-/.,' ]?\s*{_YEAR}", re.I), (3, 1, 2)),
    (re.compile(rf"{_YEAR}()[\s/.-]*{_NAME}"), (1, 3, 2)),
    (re.compile(rf"(){_NAME}[\s/.,'-]*{_YEAR}"), (3, 2, 1)),
    (re.compile(rf"(){_NAME}[\s/.,'-]+(\d{{2}})"), (3, 2, 1)),
)
_HOUR, _SIX = re.compile(_HOURS), re.compile(r"\d{6}")
#: Largest number of a month, quarter, half or week of a year.
_MOST = {"": 53, "Q": 4, "H": 2, "M": 12}
_DAYS = "mon|tue|wed|thu|fri|sat|sun|mo|di|mi|do|fr|sa|so"
_WEEKDAY = re.compile(rf"(?:{_DAYS})[a-z]*\.?,?\s+(?=\S)", re.I)
_WORDS = """january february march april may june july august september october november december
    januar februar märz mai juni juli oktober dezember janvier février mars avril juin juillet août
    septembre octobre novembre décembre enero febrero marzo abril mayo junio julio agosto septiembre
    octubre noviembre diciembre sept ene abr ago dic monday tuesday wednesday thursday friday
    saturday sunday mon tue tues wed thu thur thurs fri sat sun"""
_SHAPES = re.compile(
    r"\d{1,2}:\d{2}|\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}|\D(19|20)\d{2}(?!\d)|\d{1,2}[/.]\d{2,4}"
    r"|^(w|kw|cw|wk|q)\d{1,2}[-/ ]\d{2}$|\d\s*[ap]\.?m\.?$",
    re.I,
)
#: Numbers of a month with two digits that are more than these may be days.
_FEW_YEARS = 12
_WAY_OUT = "write them as 2023-01-05, or number the times"


class _Read(NamedTuple):
    """What a word says: its kind, whole numbers from the largest unit on, and a clock time."""

    kind: str
    #: Year, month and day; year and number; or the three numbers of a date in their order.
    numbers: tuple[int, ...]
    clock: tuple[str | None, ...] = ()


def as_dates(
    column: str, words: np.ndarray, dayfirst: bool | None = None
) -> tuple[np.ndarray, str]:
    """Write dates as `2023-01-05`, and say how they were read if that is not obvious.

    Other words stay as they are, unless they look like dates. Raises an error if they do, if only
    some words are dates, or if the day cannot be told from the month.

    >>> as_dates("day", np.array(["05/01/2023", "31/01/2023", None], object))[0].tolist()
    ['2023-01-05', '2023-01-31', None]
    >>> as_dates("day", np.array(["Thu, Jan 05 2023", "5-Feb-23"], object))[0].tolist()
    ['2023-01-05', '2023-02-05']
    >>> as_dates("time", np.array(["2023-01-05T9:30 PM", "2023-01-05 10:00"], object))[0].tolist()
    ['2023-01-05 21:30:00', '2023-01-05 10:00:00']
    >>> as_dates("month", np.array(["Jan-23", "Dec-22"], object))[0].tolist()
    ['2023-01', '2022-12']
    """
    known = list(dict.fromkeys(word for word in words.tolist() if word is not None))
    if known and all(map(_SIX.fullmatch, known)):
        return _six_digits(column, words, dayfirst)
    read = {word: _read(word) for word in known}
    kinds = [each.kind for each in read.values() if each is not None]
    if not kinds:
        return words, _told_order(column, known)
    usual = max(dict.fromkeys(kinds), key=kinds.count)
    usual = "date" if usual == "numbers" else usual
    order, note = True, ""
    if numbers := [word for word, each in read.items() if each and each.kind == "numbers"]:
        found = [_NUMBERS.fullmatch(_plain(word)) for word in numbers]
        order = _day_first(column, [match for match in found if match], dayfirst)
        ends = ("day", "month") if order else ("month", "day")
        note = f"{column} is read with the {ends[0]} before the {ends[1]}"
    elif usual == "month":
        note = _told_months(column, read)
    written: dict[str | None, str | None] = {None: None}
    zones = {bool(each.clock[5]) for each in read.values() if each and any(each.clock)}
    for word, each in read.items():
        kind = "" if each is None else each.kind
        fits = kind == usual or (kind == "numbers" and usual == "date")
        written[word] = _written(each, order) if each is not None and fits else None
        if written[word] is None or len(zones) > 1:
            row = words.tolist().index(word)
            expected = f"dates in column {column}"
            if len(zones) > 1:
                expected += " that all have a time zone, or none"
            raise InputError("time", expected, f"{word!r} in row {row}", "" if note else _WAY_OUT)
    if all(text is None or text.endswith(" 00:00:00") for text in written.values()):
        written = {word: text and text[:10] for word, text in written.items()}
    return np.array([written[word] for word in words.tolist()], object), note


def as_joined_dates(
    column: str, numbers: np.ndarray, dayfirst: bool | None = None
) -> tuple[np.ndarray, str]:
    """Write numbers such as 31012023, 310123, 12023 and 1.2023 as dates or months.

    Other numbers stay as they are, and so do 20230131, 230131 and 202301, which are in order.

    >>> as_joined_dates("day", np.array([5012023.0, 31012023.0]))[0].tolist()
    ['2023-01-05', '2023-01-31']
    >>> as_joined_dates("day", np.array([12.2022, 1.2023]))[0].tolist()
    ['2022-12', '2023-01']
    >>> as_joined_dates("day", np.array([20230105.0, 20230131.0]))[0].tolist()
    [20230105.0, 20230131.0]
    """
    known = np.unique(numbers[~np.isnan(numbers)])
    points = len(known) > 0 and bool((known % 1 != 0).all())
    whole = np.round(known * 10_000) if points else known
    least = 100 if len(known) and whole[-1] < 10**6 else 10**4
    if not len(known) or whole[0] < least or whole[-1] >= 10**8 or (whole % 1).any():
        return numbers, ""
    if points and (np.abs(known * 10_000 - whole) > 1e-6).any():
        return numbers, ""
    rest, year = whole // 10_000, whole % 10_000
    low, high = np.minimum(rest // 100, rest % 100), np.maximum(rest // 100, rest % 100)
    days = (low >= 1) & (low <= 12) & (high <= 31)
    months = (rest >= 1) & (rest <= 12)
    # In a range of ordinary numbers, the first digits do not change while the last are years.
    years = ((year >= 1900) & (year < 2100)).all() and len(np.unique(rest)) > 1
    if not years or not (months.all() or (days.all() and not points)):
        if points or whole[-1] >= 10**6:
            return numbers, ""
        words = [None if np.isnan(x) else f"{round(x):06}" for x in numbers.tolist()]
        dates, note = _six_digits(column, np.array(words, object), dayfirst)
        return (numbers, "") if dates.tolist() == words else (dates, note)
    cut = (lambda x: f"{x:06}"[:2] + "/" + f"{x:06}"[2:]) if months.all() else _slashes
    scale = 10_000 if points else 1
    words = [None if np.isnan(x) else cut(round(x * scale)) for x in numbers.tolist()]
    return as_dates(column, np.array(words, object), dayfirst)


def _slashes(number: int | str) -> str:
    digits = f"{number:08}" if isinstance(number, int) else number
    return f"{digits[:2]}/{digits[2:4]}/{digits[4:]}"


def _six_digits(column: str, words: np.ndarray, dayfirst: bool | None) -> tuple[np.ndarray, str]:
    """Write 310123 as a date. Leave 230131 and 202301, which are in order, and what is no date.

    Raises an error if the year may come first or last, and the order of time depends on it.

    >>> _six_digits("day", np.array(["310123", "010223", "310323"], object), True)[0].tolist()
    ['2023-01-31', '2023-02-01', '2023-03-31']
    """
    known = sorted({word for word in words.tolist() if word is not None})
    ends = [len({word[k : k + 2] for word in known}) for k in (0, 4)]

    def dates(year: int, month: int, day: int) -> list[datetime]:
        try:
            parts = [[int(word[k : k + 2]) for k in (year, month, day)] for word in known]
            return [datetime(_century(year), month, day) for year, month, day in parts]
        except ValueError:
            return []

    if all(re.fullmatch(r"(19|20)\d\d(0[1-9]|1[0-2])", word) for word in known):
        return words, ""
    if all(re.fullmatch(r"(0[1-9]|1[0-2])(19|20)\d\d", word) for word in known):
        months = [word and f"{word[:2]}/{word[2:]}" for word in words.tolist()]
        return as_dates(column, np.array(months, object))
    first, last = dates(0, 2, 4), [dates(4, 2, 0), dates(4, 0, 2)]
    # In a range of ordinary numbers, the first digits change less often than the last.
    last = last if len({word[:4] for word in known}) > ends[1] else []
    if any(each != sorted(each) for each in last) and not (ends[0] <= _FEW_YEARS < ends[1]):
        if first and dayfirst is None and not ends[1] <= _FEW_YEARS < ends[0]:
            found = f"{known[0]!r}, whose year may come first or last"
            expected = f"dates in column {column} that show which number is the year"
            raise InputError("time", expected, found, _WAY_OUT)
        slashed = [None if word is None else _slashes(word) for word in words.tolist()]
        return as_dates(column, np.array(slashed, object), dayfirst)
    if first == sorted(first):  # one century, or no dates
        return words, ""
    written = {word: f"{date:%Y-%m-%d}" for word, date in zip(known, first, strict=True)}
    return np.array([written.get(word) for word in words.tolist()], object), ""


def _plain(word: str) -> str:
    """A date without the day of the week before it."""
    return _WEEKDAY.sub("", word, count=1) if _WEEKDAY.match(word) else word


def _read(word: str) -> _Read | None:
    """Read a word in the first format that fits; None if none does."""
    word = _plain(word)
    if found := _NUMBERS.fullmatch(word):
        year = _year(found[4])
        return _Read("numbers", (int(found[1]), int(found[3]), year), found.groups()[4:])
    for form, (year, month, day) in _DATES:
        if (found := form.fullmatch(word)) and (number := _month(found[month])):
            clock = found.groups()[-6:]
            return _Read("date", (_year(found[year]), number, int(found[day])), clock)
    for form, (year, number, part) in _PERIODS:
        if (found := form.fullmatch(word)) and (value := _month(found[number])):
            named = not found[number].isdecimal()
            kind = "month" if named else found[part].upper().strip()
            kind = "W" if kind in ("KW", "CW", "WK", "WEEK") else kind
            if value <= _MOST.get(kind, 53):
                return _Read(kind, (_year(found[year]), value))
    if found := _HOUR.fullmatch(word):
        return _Read("clock", (), found.groups())
    return None


def _month(text: str) -> int:
    """Number of a month, or other number; 0 if the text is neither."""
    return int(text) if text.isdecimal() else _MONTH.get(text.lower()[:3], 0)


def _year(text: str) -> int:
    return int(text) if len(text) == 4 else _century(int(text))


def _written(read: _Read, order: bool) -> str | None:
    """A word that sorts in the order of time; None if there is no such date."""
    if read.kind not in ("numbers", "date", "clock"):
        year, number = read.numbers
        return f"{year}-{read.kind if read.kind != 'month' else ''}{number:02}"
    if read.kind == "clock":
        text = _iso(1970, 1, 1, read.clock)
        return text and text[11:]
    if read.kind == "date":
        year, month, day = read.numbers
        return _iso(year, month, day, read.clock)
    one, two, year = read.numbers
    return _iso(year, two, one, read.clock) if order else _iso(year, one, two, read.clock)


def _told_months(column: str, read: dict[str, _Read | None]) -> str:
    """Say that Jan-23 is a month; refuse columns in which 23 may be the day."""
    short = [word for word in read if re.search(r"\D\d{2}$", word)]
    ends = {int(word[-2:]) for word in short}
    if len(ends) > _FEW_YEARS and min(ends) >= 1 and max(ends) <= 31:
        found = f"{short[0]!r}, whose number may be a day or a year"
        raise InputError("time", f"dates with a year in column {column}", found, _WAY_OUT)
    return f"{column} is read as months of years" if short else ""


def _told_order(column: str, known: Sequence[str]) -> str:
    """Say that words that are no dates are sorted as words; refuse them if they look like dates."""
    shapes = {re.sub(r"\d+", "#", word) for word in known}
    numbers = [re.findall(r"\d+", word) for word in known]
    if len(shapes) == 1 and sum(len(set(each)) > 1 for each in zip(*numbers, strict=True)) <= 1:
        return ""  # such as "round 10": there is one number to sort by
    looks = [word for word in known if _looks(word)]
    if 2 * len(looks) > len(known):
        expected = f"dates in a known format, or numbers, in column {column}"
        raise InputError("time", expected, repr(looks[0]), _WAY_OUT)
    ordered = sorted(known, key=lambda word: (natural(word), word))
    if ordered == list(known):
        return ""
    return f"{column} is sorted as words: {ordered[0]}, {ordered[1]}, ..., {ordered[-1]}"


def _looks(word: str) -> bool:
    """Whether a word looks like a date or a time."""
    tokens = re.findall(r"[^\W\d_]+", word.lower())
    months = any(token in _MONTH or token in _WORDS.split() for token in tokens)
    return months or bool(_SHAPES.search(word))


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


def _iso(year: int, month: int, day: int, clock: tuple[str | None, ...]) -> str | None:
    hour, minute, second = (int(part or 0) for part in clock[:3])
    fraction, half, zone = clock[3:]
    if half:
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    try:
        date = datetime(year, month, day, hour, minute, second)
        if zone and zone[0] in "+-":
            ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
            date += -ahead if zone[0] == "+" else ahead
    except (ValueError, OverflowError):  # no such day
        return None
    if clock[0] is None:
        return date.date().isoformat()
    # Fractions of equal length sort as numbers.
    return date.isoformat(" ") + (f".{fraction:0<9}" if (fraction or "").strip("0") else "")
