"""Wrong input is told in one line; anything else that goes wrong is a bug and shows itself."""

from collections.abc import Iterator
from contextlib import contextmanager


class CommandError(Exception):
    """Wrong input: what was expected and what was found, in one line."""

    def __init__(self, message: str):
        super().__init__(" ".join(message.split()))


@contextmanager
def refusing() -> Iterator[None]:
    """Turn what the library and the system say about wrong input into a `CommandError`.

    Only the reading, checking and writing of what the user named belongs inside.

    >>> with refusing():
    ...     raise ValueError("payoff: expected finite numbers, found nan at [0, 1]")
    Traceback (most recent call last):
    ...
    equipoise.cli._errors.CommandError: payoff: expected finite numbers, found nan at [0, 1]
    """
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        raise CommandError(f"{where}{error.strerror or error}") from error
    except (ValueError, NotImplementedError) as error:
        raise CommandError(str(error)) from error
