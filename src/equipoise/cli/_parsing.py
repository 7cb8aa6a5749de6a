"""From the words of a command line, and the file they name, to a command ready to be executed.

tyro parses the words and explains what is wrong with them. A file of options holds one key for
each flag, without its dashes; its values are the defaults of the words.
"""

import inspect
import json
import sys
import typing
from collections.abc import Iterator
from contextlib import redirect_stderr, suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import tyro

from equipoise.core.errors import InputError

#: A game, in a file or by name.
Game = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME")]
#: The trips of a network in a TNTP file.
Trips = Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[TRIPS]")]
#: Settings such as size=10, any number of them.
Settings = Annotated[
    tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE"), tyro.conf.UseAppendAction
]


@dataclass(frozen=True)
class Common:
    """What every command takes."""

    #: Print one JSON document instead of tables.
    json: bool = False
    #: Show where an error comes from.
    traceback: bool = False
    #: Read options from this TOML file; options on the command line override them.
    config: Path | None = None
    #: Print all options as such a file, and do nothing else.
    print_config: bool = False


#: The field of a command that holds them, and its default.
CommonOptions = tyro.conf.OmitArgPrefixes[Common]
COMMON = Common()

#: Common options that a file does not hold.
_OUTSIDE = ("config", "print-config", "traceback")
_REGISTRY = tyro.constructors.ConstructorRegistry()


@_REGISTRY.primitive_rule
def _whole_numbers(info: Any) -> Any:
    """Whole numbers may be written as 1e5."""
    if info.type is not int:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: read_whole(words[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    )


def read_whole(text: str) -> int:
    """A whole number, also as 1e5 or 100_000.

    >>> read_whole("1e5"), read_whole("100_000")
    (100000, 100000)
    """
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError, OverflowError):
        if float(text).is_integer():
            return int(float(text))
    raise ValueError(f"expected a whole number, found {text!r}")


@dataclass(frozen=True)
class Option:
    """One option of a command: its flag, the fields that lead to its value, and its type."""

    path: tuple[str, ...]
    hint: Any
    positional: bool

    @property
    def key(self) -> str:
        """The name in a file of options."""
        return self.path[-1].replace("_", "-")

    @property
    def flag(self) -> str:
        """The name on the command line.

        >>> from equipoise.cli.solve import Solve
        >>> [option.flag for option in options(Solve)][:2]
        ['GAME', 'TRIPS']
        """
        return self.path[-1].upper() if self.positional else f"--{self.key}"

    def value(self, command: Any) -> Any:
        """What a command has."""
        for name in self.path:
            command = getattr(command, name)
        return command

    def read(self, value: Any, where: Path) -> Any:
        """The value of a file, read as the words of a command line are."""
        listed = typing.get_origin(self.hint) is tuple
        words = [str(word) for word in (value if isinstance(value, list) else [value])]
        with suppress(SystemExit), redirect_stderr(StringIO()):
            if isinstance(value, list) == listed:
                args = ["--", *words] if words else []
                return tyro.cli(self.hint, args=args, registry=_REGISTRY)
        takes = "a list" if listed and not isinstance(value, list) else f"what {self.flag} takes"
        raise InputError(f"--config: {where}: {self.key}", takes, repr(value))


def options(kind: type, path: tuple[str, ...] = ()) -> Iterator[Option]:
    """The options of a command, those of its groups included."""
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint, extras = hints[field.name], ()
        while typing.get_origin(hint) is Annotated:
            hint, *extras = typing.get_args(hint)
        if is_dataclass(hint):
            yield from options(typing.cast(type, hint), (*path, field.name))
        else:
            yield Option((*path, field.name), hint, tyro.conf.Positional in extras)


def command_kind(verb: str) -> Any:
    """The dataclass of a verb.

    >>> command_kind("solve").__name__
    'Solve'
    """
    return getattr(import_module(f"equipoise.cli.{verb}"), verb.capitalize())


def parse(verb: str, words: list[str]) -> Any:
    """The verb's command; None where its options were printed as a file instead.

    Raises SystemExit after tyro printed help or what is wrong with the words.

    >>> parse("solve", ["oneill", "--tolerance", "0.1"]).tolerance
    0.1
    """
    kind, path = command_kind(verb), _given("--config", words)
    found = {} if path is None else read_config(kind, Path(path))
    base = None
    if hasattr(kind, "preset"):  # which decides what the other options are by default
        base = kind.starting(_given("--preset", words) or found.get("preset", kind.preset))
    read = partial(
        tyro.cli,
        kind,
        prog=f"equipoise {verb}",
        description=inspect.cleandoc(kind.__doc__),
        args=words,
        default=_default(kind, found, base),
        registry=_REGISTRY,
    )
    try:
        with redirect_stderr(StringIO()):
            command = read()
    except SystemExit as end:
        error: BaseException | None = end
        while error is not None and not isinstance(error, InputError):
            error = error.__context__
        if error is not None:  # a config refused its values: `main` names the flag
            raise error from None
        if not end.code:
            raise
        command = read()  # tyro says what is wrong, in colours where the screen has them
    if not hasattr(command, "common") or not command.common.print_config:
        return command
    sys.stdout.write(f"# equipoise {verb} --config FILE\n{write_config(command)}")
    return None


def _given(flag: str, words: list[str]) -> str | None:
    """The last value of a flag that has to be known before the words are understood.

    >>> _given("--config", ["a", "--config", "b.toml"]), _given("--config", ["--config=c.toml"])
    ('b.toml', 'c.toml')
    """
    words = words[: words.index("--")] if "--" in words else words
    values = [after for word, after in pairwise(words) if word == flag]
    values += [w.removeprefix(f"{flag}=") for w in words if w.startswith(f"{flag}=")]
    return values[-1] if values else None


def _default(kind: type, found: dict[str, Any], base: Any = None) -> Any:
    """A command with the values of a file, those of a base, and its defaults; the rest is missing.

    It is put together past its constructor, which would refuse what is missing.
    """
    command = object.__new__(kind)
    hints = typing.get_type_hints(kind)
    for field in fields(kind):
        value: Any = tyro.MISSING if field.default is MISSING else field.default
        if field.default_factory is not MISSING:
            value = field.default_factory()
        value = getattr(base, field.name, value)
        if is_dataclass(hints[field.name]):
            value = _default(type(value), found, value)
        value = found.get(field.name.replace("_", "-"), value)
        object.__setattr__(command, field.name, value)
    return command


def write_config(command: Any) -> str:
    """All options of a command, as TOML.

    >>> from equipoise.cli.solve import Solve
    >>> print(write_config(Solve("oneill", tolerance=1e-6, set=("a=1",))), end="")
    game = "oneill"
    tolerance = 1e-06
    all = false
    set = ["a=1"]
    option = []
    json = false
    """
    values = {o.key: o.value(command) for o in options(type(command)) if o.key not in _OUTSIDE}
    # What can be None and is not by default, which a preset may decide, has to be said.
    usual = {f.name.replace("_", "-") for f in fields(command) if f.default is None}
    said = {key: v for key, v in values.items() if v is not None or key not in usual}
    return "".join(f"{key} = {_toml(value)}\n" for key, value in said.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    # A JSON string is a TOML string, but for one control character that JSON leaves as it is.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def read_config(kind: type, path: Path) -> dict[str, Any]:
    """The options in a file, by key; refuses keys and values that the command does not take."""
    from equipoise.core.files import read_bytes
    from equipoise.core.plain import parse_toml

    found = parse_toml(read_bytes(path), f"--config: {path}")
    known = {option.key: option for option in options(kind) if option.key not in _OUTSIDE}
    check_names(f"--config: {path}", found, known, "options of this command")
    return {key: known[key].read(value, path) for key, value in found.items()}


def check_names(argument: str, given: Any, known: Any, what: str) -> None:
    """Refuse a name that is not known, and say which was meant, or else which there are.

    >>> check_names("--set", ["sise"], ["size"], "parameters of hide-and-seek")
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: --set: expected parameters of hide-and-seek, found 'sise';
    did you mean size?
    """
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            there = f"there are {', '.join(known) or 'none'}"
            raise InputError(
                argument, what, repr(name), f"did you mean {close[0]}?" if close else there
            )
