"""Optional libraries, imported only where they are needed."""

from importlib import import_module
from types import ModuleType


class MissingExtra(ImportError):
    """An optional library is not installed; the message says how to install it."""


def import_extra(module: str, library: str, extra: str) -> ModuleType:
    """Return a module of an optional library; if it is missing, raise an error with the fix.

    >>> import_extra("json", "JSON", "json").dumps(None)
    'null'
    >>> try:
    ...     import_extra("no_such_module", "Missing", "missing")
    ... except MissingExtra as error:
    ...     print(error)
    Missing is not installed; in the clone of equipoise, run: pip install '.[missing]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{library} is not installed; in the clone of equipoise, run: pip install '.[{extra}]'"
        ) from error
