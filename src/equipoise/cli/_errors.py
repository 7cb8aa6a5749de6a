"""Wrong input is told in one line; anything else that goes wrong is a bug and shows itself."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


class CommandError(Exception):
    """Wrong input: what was expected and what was found, in one line."""

    def __init__(self, message: str):
        super().__init__(" ".join(message.split()))


def asks_for_json(words: Sequence[str]) -> bool:
    """Whether the words of a command line say so.

    >>> asks_for_json(["oneill", "--json"]), asks_for_json(["--", "--json"])
    (True, False)
    """
    return "--json" in words[: words.index("--") if "--" in words else len(words)]


def line_of(kind: str, message: str, as_json: bool) -> str:
    """An error or a warning as a line of its own, for people or for programs.

    >>> line_of("error", "GAME: expected a file", as_json=False)
    'equipoise: error: GAME: expected a file'
    >>> line_of("error", "GAME: expected a file", as_json=True)
    '{"error": "GAME: expected a file"}'
    """
    if as_json:
        return json.dumps({kind: message}, ensure_ascii=False)
    return f"equipoise: {kind}: {message}"


def tell_interrupted(more: str, as_json: bool) -> int:
    """Say on the error stream how far a command came, and return the exit code."""
    message = f"interrupted{more}"
    line = line_of("error", message, as_json) if as_json else f"equipoise: {message}"
    print(line, file=sys.stderr)
    return 130


@contextmanager
def refusing(source: str = "", **typed: str) -> Iterator[None]:
    """Turn what the library and the system say about wrong input into a `CommandError`.

    Only the reading, checking and writing of what the user named belongs inside. `source` is the
    argument that names the file at work; `typed` maps arguments of the library to what the user
    typed in their place. A config that is not that of a run folder is the wrong folder.

    >>> with refusing():
    ...     raise ValueError("payoff: expected finite numbers, found nan at [0, 1]")
    Traceback (most recent call last):
    ...
    equipoise.cli._errors.CommandError: payoff: expected finite numbers, found nan at [0, 1]
    >>> with refusing(path="--write"):
    ...     raise ValueError("path: expected a name that ends in .nfg, found a.txt")
    Traceback (most recent call last):
    ...
    equipoise.cli._errors.CommandError: --write: expected a name that ends in .nfg, found a.txt
    >>> with refusing("--out"):
    ...     raise IsADirectoryError(21, "Is a directory", "a")
    Traceback (most recent call last):
    ...
    equipoise.cli._errors.CommandError: --out: expected a file that can be opened, found a: Is a
    directory
    """
    known = {"config": "--run", **typed}
    try:
        yield
    except OSError as error:
        if error.filename is None:  # one of the library's
            raise CommandError(_renamed(str(error), known, source)) from error
        wanted = f"{source}: expected a file that can be opened, found " if source else ""
        raise CommandError(f"{wanted}{error.filename}: {error.strerror}") from error
    except (ValueError, NotImplementedError) as error:
        raise CommandError(_renamed(str(error), known)) from error


def _renamed(message: str, typed: Mapping[str, str], otherwise: str = "") -> str:
    """A message about an argument of the library, about what was typed in its place.

    >>> _renamed("rounds: expected 1 or more", {"rounds": "--rounds"})
    '--rounds: expected 1 or more'
    """
    name, colon, rest = message.partition(":")
    if colon and name in typed:
        return f"{typed[name]}:{rest}"
    return f"{otherwise}: {message}" if otherwise else message


def flags(*names: str) -> dict[str, str]:
    """Arguments of the library that are flags of the same name, for `refusing`.

    >>> flags("learning_rate")
    {'learning_rate': '--learning-rate'}
    """
    return {name: f"--{name.replace('_', '-')}" for name in names}
