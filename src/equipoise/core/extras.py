"""Optional libraries, which are imported where they are needed."""

from importlib import import_module
from types import ModuleType


def import_extra(module: str, library: str, extra: str) -> ModuleType:
    """A module of an optional library; where it is missing, an error that says what to install.

    >>> import_extra("json", "JSON", "json").dumps(None)
    'null'
    >>> import_extra("no_such_module", "Missing", "missing")
    Traceback (most recent call last):
    ImportError: Missing is not installed; install it with: pip install 'equipoise[missing]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{library} is not installed; install it with: pip install 'equipoise[{extra}]'"
        ) from error
