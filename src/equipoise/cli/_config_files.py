"""The options of any command as a TOML file, and back.

A file holds one key for each flag, without its dashes; a command is never told which of its
options came from where. What is read goes through the same parser as the command line.
"""

import dataclasses
import json
import tomllib
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tyro

from equipoise.cli._errors import CommandError, refusing
from equipoise.cli._inputs import check_names

#: Of the common options, those that say where the others are.
_ABOUT_FILES = ("config", "print-config")


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of a command: the flag, and where its value is kept."""

    key: str
    #: The names of the fields that lead to the value.
    path: tuple[str, ...]
    kind: Any
    positional: bool
    #: Given once for each of its values.
    repeated: bool
    required: bool
    #: What the type is annotated with.
    extras: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """What the user knows it by.

        >>> from equipoise.cli.solve import Solve
        >>> [option.name for option in options(Solve)][:2]
        ['GAME', '--tolerance']
        """
        return self.key.upper() if self.positional else f"--{self.key}"

    @property
    def listed(self) -> bool:
        """Whether it takes several values."""
        return any(typing.get_origin(part) is tuple for part in (self.kind, *members(self.kind)))

    def value(self, command: Any) -> Any:
        """What a command has."""
        for name in self.path:
            command = getattr(command, name)
        return command

    def tokens(self, value: Any) -> list[str]:
        """The words that say the same on the command line."""
        if self.positional:
            return [_word(v) for v in (value if isinstance(value, list) else [value])]
        if self.kind is bool and isinstance(value, bool):
            return [f"--{self.key}"] if value else []
        if isinstance(value, list):
            words = [_word(v) for v in value]
            if self.repeated:
                return [f"--{self.key}={word}" for word in words]
            return [f"--{self.key}", *words] if words else []
        return [f"--{self.key}={_word(value)}"]


def options(kind: type, *, about_files: bool = False) -> Iterator[Option]:
    """The options of a command, those of its groups included.

    Those that say where options are, `--config` and `--print-config`, are no options of a file.

    >>> from equipoise.cli.solve import Solve
    >>> [option.key for option in options(Solve)][:3]
    ['game', 'tolerance', 'out']
    """
    for option in _options(kind, ()):
        if about_files or option.path[0] != "common" or option.key not in _ABOUT_FILES:
            yield option


def _options(kind: type, path: tuple[str, ...]) -> Iterator[Option]:
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        bare, extras = _unwrap(hints[field.name])
        if dataclasses.is_dataclass(bare):
            yield from _options(typing.cast(type, bare), (*path, field.name))
            continue
        yield Option(
            field.name.replace("_", "-"),
            (*path, field.name),
            bare,
            positional=tyro.conf.Positional in extras,
            repeated=tyro.conf.UseAppendAction in extras,
            required=field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING,
            extras=extras,
        )


def _unwrap(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without its annotations, and those."""
    extras: tuple[Any, ...] = ()
    while typing.get_origin(hint) is typing.Annotated:
        hint, *more = typing.get_args(hint)
        extras += tuple(more)
    return hint, extras


def write_config(command: Any) -> str:
    """All options of a command, as TOML; those that have no value are left out.

    >>> from equipoise.cli.solve import Solve
    >>> print(write_config(Solve("oneill", tolerance=1e-6, set=("a=1",))), end="")
    game = "oneill"
    tolerance = 1e-06
    set = ["a=1"]
    option = []
    json = false
    """
    lines = []
    for option in options(type(command)):
        value = option.value(command)
        if value is not None:
            lines.append(f"{option.key} = {_toml(value)}\n")
    return "".join(lines)


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
    """The options in a file, by key; refuses keys that the command does not have."""
    with refusing("--config"):
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except ValueError as error:  # no TOML, or no text
            raise ValueError(f"--config: expected TOML in {path}, found {error}") from error
    known = {option.key: option for option in options(kind)}
    check_names(f"--config: {path}", found, known, "options of this command")
    for key, value in found.items():
        _check(path, known[key], value)
    return found


def _check(path: Path, option: Option, value: Any) -> None:
    """Refuse kinds of values that the words of a command line could not tell apart."""
    listed = option.listed
    plain = value if isinstance(value, list) else [value]
    if isinstance(value, list) != listed or not all(isinstance(v, _PLAIN) for v in plain):
        wanted = "a list" if listed else "one value"
        raise CommandError(f"--config: {path}: {option.key}: expected {wanted}, found {value!r}")
    if (option.kind is bool) != isinstance(value, bool) and not _admits_bool(option.kind):
        wanted = "true or false" if option.kind is bool else "a number or a word"
        raise CommandError(f"--config: {path}: {option.key}: expected {wanted}, found {value!r}")


_PLAIN = str | int | float | bool


def _admits_bool(kind: Any) -> bool:
    return bool in members(kind)


def members(kind: Any) -> tuple[Any, ...]:
    """The parts of a union; of anything else there are none.

    >>> members(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    union = isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union
    return typing.get_args(kind) if union else ()


def as_words(kind: type, found: dict[str, Any]) -> tuple[list[str], list[Option]]:
    """The words of a command line that say what a file says, and the options still required."""
    words: list[str] = []
    missing: list[Option] = []
    for option in options(kind):
        if option.key in found:
            words += option.tokens(found[option.key])
        elif option.required:
            missing.append(option)
            words += option.tokens("-" if option.positional else "")
    return words, missing


def _word(value: Any) -> str:
    return str(value)
