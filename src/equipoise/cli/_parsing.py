"""Parse the words of a command line, and its --config file, into a command.

tyro parses the words and explains errors in them. A config file holds one key for each flag,
without its dashes. Its values replace the defaults, and flags on the command line override them.
"""

import re
import sys
import typing
from collections.abc import Iterator
from contextlib import redirect_stderr, suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import tyro

from equipoise.cli._help import comments, format_help
from equipoise.core.errors import InputError

#: A game, given as a file or as a name.
Game = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME")]
#: The TNTP file with the trips of a road network.
Trips = Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[TRIPS]")]
#: Any number of settings such as size=10.
Settings = Annotated[
    tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE"), tyro.conf.UseAppendAction
]


@dataclass(frozen=True)
class Common:
    """Options that every command accepts."""

    #: Print one JSON document instead of tables.
    json: bool = False
    #: Show the Python traceback of an error.
    traceback: bool = False
    #: Read options from this TOML file. Options on the command line override those of the file.
    #: Default: no file.
    config: Path | None = None
    #: Print all options in the format of a --config file, and exit.
    print_config: bool = False


#: Type and default value of the field of a command that holds the common options.
CommonOptions = tyro.conf.OmitArgPrefixes[Common]
COMMON = Common()


#: Common options that a config file cannot set.
_OUTSIDE = ("config", "print-config", "traceback")
_REGISTRY = tyro.constructors.ConstructorRegistry()


@_REGISTRY.primitive_rule
def _whole_numbers(info: Any) -> Any:
    """Accept whole numbers written as 1e5, and the word None if a number is optional."""
    optional = info.type == int | None
    if info.type is not int and not optional:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: (
            None if optional and words[0] == "None" else read_whole(words[0])
        ),
        is_instance=lambda value: isinstance(value, int) or (optional and value is None),
        str_from_instance=lambda value: [str(value)],
    )


def read_whole(text: str) -> int:
    """Read a whole number, which may be written as 1e5 or 100_000.

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
    """One option of a command: the fields that lead to its value, its type and its placeholder."""

    path: tuple[str, ...]
    hint: Any
    positional: bool
    metavar: str | None = None

    @property
    def key(self) -> str:
        """The name in a config file."""
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
        """Return the value of this option in a command."""
        for name in self.path:
            command = getattr(command, name)
        return command

    def read(self, value: Any, where: Path) -> Any:
        """Read a value of a config file in the same way as the words of a command line."""
        listed = typing.get_origin(self.hint) is tuple
        words = [str(word) for word in (value if isinstance(value, list) else [value])]
        with suppress(SystemExit), redirect_stderr(StringIO()):
            if isinstance(value, list) == listed:
                args = ["--", *words] if words else []
                return tyro.cli(self.hint, args=args, registry=_REGISTRY)
        takes = "a list" if listed and not isinstance(value, list) else f"a value for {self.flag}"
        raise InputError(f"--config: {where}: {self.key}", takes, repr(value))


def options(kind: type, path: tuple[str, ...] = ()) -> Iterator[Option]:
    """Yield the options of a command, including those of its groups."""
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint, extras = hints[field.name], ()
        while typing.get_origin(hint) is Annotated:
            hint, *extras = typing.get_args(hint)
            makers = [getattr(extra, "constructor_factory", None) for extra in extras]
            hint = next((make() for make in makers if make is not None), hint)
        if is_dataclass(hint):
            yield from options(typing.cast(type, hint), (*path, field.name))
        else:
            named = [getattr(extra, "metavar", None) for extra in extras]
            metavar = next((name for name in named if name is not None), None)
            positional = tyro.conf.Positional in extras
            yield Option((*path, field.name), hint, positional, metavar)


def command_kind(verb: str) -> Any:
    """Return the dataclass of a verb.

    >>> command_kind("solve").__name__
    'Solve'
    """
    return getattr(import_module(f"equipoise.cli.{verb}"), verb.capitalize())


def parse(verb: str, words: list[str]) -> Any:
    """Return the command of a verb, or None after printing its help or its options.

    Raises SystemExit after tyro printed an error message.

    >>> parse("solve", ["oneill", "--tolerance", "0.1"]).tolerance
    0.1
    """
    kind, path = command_kind(verb), _given("--config", words)
    found = {} if path is None else read_config(kind, Path(path))
    base = None
    if hasattr(kind, "preset"):  # the preset decides the defaults of the other options
        base = kind.starting(_given("--preset", words) or found.get("preset", kind.preset))
    default = _default(kind, found, base)
    if {"-h", "--help"} & set(_flags(words)):
        sys.stdout.write(format_help(verb, kind, list(options(kind)), default))
        return None
    explained = StringIO()
    try:
        with redirect_stderr(explained):
            command, surplus = tyro.cli(
                kind,
                prog=f"equipoise {verb}",
                args=words,
                default=default,
                registry=_REGISTRY,
                return_unknown_args=True,
            )
    except SystemExit as end:
        error: BaseException | None = end
        while error is not None and not isinstance(error, InputError):
            error = error.__context__
        if error is not None:  # the library refused a value: `main` names the flag
            raise error from None
        _check_options(verb, kind, words)
        _check_arguments(verb, kind, explained.getvalue())
        sys.stderr.write(explained.getvalue())
        raise
    if surplus:
        _check_options(verb, kind, words)
        taken = " ".join(option.flag for option in options(kind) if option.positional)
        expected = f"{taken} and options" if taken else "options only"
        found, more = f"{surplus[0]!r} as well", f"see equipoise {verb} --help"
        raise InputError(f"equipoise {verb}", expected, found, more)
    if not hasattr(command, "common") or not command.common.print_config:
        return command
    sys.stdout.write(f"# equipoise {verb} --config FILE\n{write_config(command)}")
    return None


def _check_options(verb: str, kind: type, words: list[str]) -> None:
    """Refuse an unknown option, and suggest the closest one.

    >>> from equipoise.cli.solve import Solve
    >>> _check_options("solve", Solve, ["oneill", "--tollerance", "1e-3"])
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: OPTION: expected an option of equipoise solve, found
    '--tollerance'; did you mean --tolerance?
    """
    found = [option for option in options(kind) if not option.positional]
    known = ["-h", "--help", *(option.flag for option in found)]
    negated = [f"--no-{option.key}" for option in found if option.hint is bool]
    for word in _flags(words):
        given = word.partition("=")[0]
        name = given.replace("_", "-")
        if re.match("--?[a-zA-Z]", name) and name not in known + negated:
            close = get_close_matches(name, negated if name.startswith("--no-") else known, n=1)
            more = f"did you mean {close[0]}?" if close else f"see equipoise {verb} --help"
            raise InputError("OPTION", f"an option of equipoise {verb}", repr(given), more)


def _check_arguments(verb: str, kind: type, explained: str) -> None:
    """Say what is expected for the first required argument that the parser found missing.

    >>> from equipoise.cli.toll import Toll
    >>> _check_arguments("toll", Toll, "Missing from equipoise toll: GAME The road network: ...")
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: GAME: expected a .tntp, .csv or .npz file, a name that
    `equipoise games` lists, or MODULE:OBJECT such as mine.py:city, whose code is run; found none;
    see equipoise toll --help
    """
    missing = re.search(r"Missing from[^:]*:[\s│|]*([A-Z]+)\b", explained)
    for option in options(kind):
        if missing and option.positional and missing[1] in (option.flag, option.metavar):
            first = comments(kind, option.path)[0].partition(". ")[0].rstrip(".")
            expected = first.partition(": ")[2] or first[:1].lower() + first[1:]
            raise InputError(missing[1], expected, "none", f"see equipoise {verb} --help")


def _given(flag: str, words: list[str]) -> str | None:
    """Return the last value of a flag that is needed before the words can be parsed.

    >>> _given("--config", ["a", "--config", "b.toml"]), _given("--config", ["--config=c.toml"])
    ('b.toml', 'c.toml')
    """
    words = _flags(words)
    values = [after for word, after in pairwise(words) if word == flag]
    values += [w.removeprefix(f"{flag}=") for w in words if w.startswith(f"{flag}=")]
    return values[-1] if values else None


def _flags(words: list[str]) -> list[str]:
    """Return the words before "--", after which there are no flags."""
    return words[: words.index("--")] if "--" in words else words


def _default(kind: type, found: dict[str, Any], base: Any = None) -> Any:
    """Return a command with the values of a config file, of a preset (`base`), and its defaults.

    Required values stay missing. The constructor is bypassed, since it would refuse them.
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
    """Return all options of a command as TOML.

    >>> from equipoise.cli.solve import Solve
    >>> print(write_config(Solve("oneill", tolerance=1e-6, set=("a=1",))), end="")
    game = "oneill"
    tolerance = 1e-06
    all = false
    set = ["a=1"]
    option = []
    json = false
    """
    from equipoise.core.plain import to_toml

    values = {o.key: o.value(command) for o in options(type(command)) if o.key not in _OUTSIDE}
    # A None that differs from the default, which a preset may set, has to be written out.
    usual = {f.name.replace("_", "-") for f in fields(command) if f.default is None}
    said = {key: v for key, v in values.items() if v is not None or key not in usual}
    return to_toml(said)


def read_config(kind: type, path: Path) -> dict[str, Any]:
    """Read the options in a config file; refuse unknown keys and wrong values."""
    from equipoise.core.files import read_bytes
    from equipoise.core.plain import parse_toml

    found = parse_toml(read_bytes(path), f"--config: {path}")
    known = {option.key: option for option in options(kind) if option.key not in _OUTSIDE}
    check_names(f"--config: {path}", found, known, "options of this command")
    return {key: known[key].read(value, path) for key, value in found.items()}


def check_names(argument: str, given: Any, known: Any, what: str) -> None:
    """Refuse an unknown name, and suggest the closest known name or list all of them.

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
