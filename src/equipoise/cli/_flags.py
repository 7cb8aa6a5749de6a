"""What several commands take: the kinds of flags, the common options, and their checks."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from equipoise.cli._errors import CommandError


def optional(metavar: str) -> object:
    """A flag that may be left out; what happens then is in its help, and is not "None"."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


def read_whole(text: str) -> int:
    """A whole number, also as 1e5 or 100_000.

    >>> read_whole("1e5"), read_whole("100_000")
    (100000, 100000)
    """
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        if (number := float(text)).is_integer():
            return int(number)
    raise ValueError(f"expected a whole number, found {text!r}")


def read_number(text: str) -> float:
    """A number.

    >>> read_number("1e-3")
    0.001
    """
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"expected a number, found {text!r}") from None


def read_by(read: Callable[[str], Any], metavar: str) -> object:
    """How tyro reads one word, instead of trying all parts of a union and telling of each."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: read(words[0]),
        is_instance=lambda value: isinstance(value, int | float | str),
        str_from_instance=lambda value: [str(value)],
    )


def one_of(words: Mapping[str, Any] | Sequence[str]) -> object:
    """A choice among words, or among what they stand for; tyro's own would offer "None", too."""
    values = words if isinstance(words, Mapping) else {word: word for word in words}
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"{{{','.join(values)}}}",
        instance_from_str=lambda given: values[given[0]],
        is_instance=lambda value: value in values.values(),
        str_from_instance=lambda value: [str(value)],
        choices=tuple(values),
    )


#: How many; 1e5 is 100,000.
Count = Annotated[int, read_by(read_whole, "INT")]
#: The same, and a number, that may be left out.
Int = Annotated[int | None, read_by(read_whole, "INT"), optional("INT")]
Float = Annotated[float | None, read_by(read_number, "FLOAT"), optional("FLOAT")]
#: A file to be written.
File = Annotated[Path | None, optional("FILE")]
#: A run folder to be written; commands choose a new one in runs/ where it is not given.
Folder = Annotated[Path | None, optional("FOLDER")]
#: A game, in a file or by name.
Game = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME")]
#: Settings such as size=10, any number of them.
Settings = Annotated[
    tuple[str, ...],
    tyro.conf.arg(metavar="NAME=VALUE", help_behavior_hint="(repeatable)"),
    tyro.conf.UseAppendAction,
]


@dataclass(frozen=True)
class Common:
    """What every command takes."""

    #: Print one JSON document instead of tables.
    json: bool = False
    #: Read options from this TOML file; those on the command line go before them.
    config: File = None
    #: Print all options as such a file, and do nothing else.
    print_config: bool = False


#: The field of a command that holds them, and its default.
CommonOptions = tyro.conf.OmitArgPrefixes[Common]
COMMON = Common()


def make_folder_of(file: Path) -> Path:
    """Create the folder that a file is to be written into, where there is none; returns the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     make_folder_of(Path(place, "new", "policy.json")).parent.is_dir()
    True
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ValueError(
            f"{file}: expected a name in a folder, found a file where the folder would be"
        ) from error
    return file


def check_page(flag: str, file: Path | None) -> None:
    """Refuse a name for a page that no browser would open as one.

    >>> check_page("--report", Path("page.txt"))
    Traceback (most recent call last):
    ...
    equipoise.cli._errors.CommandError: --report: expected a name that ends in .html, found page.txt
    """
    if file is not None and file.suffix.lower() not in (".html", ".htm"):
        raise CommandError(f"{flag}: expected a name that ends in .html, found {file}")


def check_seed(seed: int) -> None:
    """Refuse what is no seed.

    >>> check_seed(-1)
    Traceback (most recent call last):
    ...
    equipoise.cli._errors.CommandError: --seed: expected a number in [0, 2**32), found -1
    """
    if not 0 <= seed < 2**32:
        raise CommandError(f"--seed: expected a number in [0, 2**32), found {seed}")


def check_counts(at_least: int = 1, **counts: float | None) -> None:
    """Refuse numbers that are no counts; those that were not given are None.

    >>> check_counts(opponent_games=0)
    Traceback (most recent call last):
    ...
    equipoise.cli._errors.CommandError: --opponent-games: expected a whole number in [1, 2^31),
    found 0
    """
    for name, count in counts.items():
        if count is None:
            continue
        if not (at_least <= count < 2**31 and count == int(count)):
            raise CommandError(
                f"--{name.replace('_', '-')}: expected a whole number in [{at_least}, 2^31), "
                f"found {count:g}"
            )


def check_only_with_states(states: int | None, **values: float | None) -> None:
    """Refuse what only Markov games have where there are no states.

    >>> check_only_with_states(None, discount=0.5)
    Traceback (most recent call last):
    ...
    equipoise.cli._errors.CommandError: --discount: expected --states with it, since matrix games
    have none; found 0.5 alone
    """
    for name, value in values.items():
        if value is not None and states is None:
            raise CommandError(
                f"--{name}: expected --states with it, since matrix games have none; "
                f"found {value:g} alone"
            )
