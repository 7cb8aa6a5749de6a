"""Checks of the parameters of named games."""

from typing import Any

from equipoise.core.checks import check_count, check_memory, check_range
from equipoise.core.errors import InputError

#: Largest whole number up to which float64 counts exactly.
_LARGEST_COUNT = 2**53


def check_parameter(
    name: str, value: Any, default: Any, low: float | None = None, high: float | None = None
) -> Any:
    """Refuse a parameter whose type differs from its default, or that is out of range.

    Whole numbers are returned as int if the default is one: 1e5 counts as a whole number.

    >>> check_parameter("discount", "0.9", 0.75)
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: discount: expected a number like 0.75, found '0.9'
    """
    found = repr(value)[:60] if isinstance(value, str | bool | float) else type(value).__name__
    if isinstance(default, bool | str):
        words = "true or false" if isinstance(default, bool) else f"a string like {default!r}"
        if not isinstance(value, type(default)):
            raise InputError(name, words, found)
        return value
    if isinstance(default, tuple):
        if not isinstance(value, list | tuple):
            raise InputError(name, f"a list of numbers like {default}", found)
        return tuple(check_parameter(name, item, default[0]) for item in value)
    # NumPy scalars are accepted too.
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise InputError(name, f"a number like {default}", found)
    if isinstance(value, int) and abs(value) > 10**300:
        raise InputError(name, f"a number like {default}", "one beyond 10^300")
    if not isinstance(default, int):
        if low is not None and high is not None:
            check_range(name, value, low, high)
        return float(value)
    if not float(value).is_integer():
        raise InputError(name, f"a whole number like {default}", found)
    count = check_count(name, int(value), 1 if low is None else int(low))
    most = _LARGEST_COUNT if high is None else int(high)
    if count > most:
        raise InputError(name, f"a whole number <= {most:,}", f"{count:.3g}", "use fewer")
    return count


def check_positive(name: str, value: float, what: str = "number") -> None:
    """Refuse a parameter that is not positive."""
    if not value > 0:
        raise InputError(name, f"a positive {what}", value)


def check_table(name: str, *sizes: float) -> None:
    """Refuse a parameter that makes a table of these sizes too large for memory."""
    # The table, plus the memory needed to build it.
    check_memory(name, (32, *sizes), "the table of the game", f"reduce {name}")
