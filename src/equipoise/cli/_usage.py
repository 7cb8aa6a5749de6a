"""What is wrong with the words of a command line: the flag, what it takes, what is there.

The parser decides whether words are accepted; here it is said why they are not.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import tyro

from equipoise.cli._config_files import Option, members, options


def what_is_wrong(kind: type, words: Sequence[str], default: Any = None) -> str | None:
    """The first thing that a command of this kind does not take; None where there is none.

    `default` is the command that a file of options describes, if there is one.

    >>> from equipoise.cli.solve import Solve
    >>> what_is_wrong(Solve, ["oneill", "--tolerance", "abc"])
    "--tolerance: expected a number, found 'abc'"
    >>> what_is_wrong(Solve, ["oneill", "--sett", "a=1"])
    '--sett: expected a flag of this command, found none of that name; did you mean --set?'
    >>> what_is_wrong(Solve, [])
    'GAME: expected an argument, found none'
    """
    known = {f"--{option.key}": option for option in options(kind, about_files=True)}
    if default is not None:  # then what the file switches on can be switched off
        known |= {f"--no-{o.key}": o for o in known.values() if o.kind is bool}
    flags = {flag: option for flag, option in known.items() if not option.positional}
    places = [option for option in known.values() if option.positional]
    loose: list[str] = []
    for word, values, equals in _grouped(words, flags):
        if word is None:
            loose += values
            continue
        option = flags.get(word)
        found = _unknown(word, flags) if option is None else _wrong_values(option, values, equals)
        if found is not None:
            return found
    return _wrong_places(places, loose, default)


def _grouped(
    words: Sequence[str], flags: dict[str, Option]
) -> Iterator[tuple[str | None, list[str], bool]]:
    """Flags with their values, and None with each word that belongs to no flag."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield None, rest, False
            return
        if not _is_flag(word):
            yield None, [word], False
            continue
        flag, equals, value = word.partition("=")
        flag = flag.replace("_", "-")
        option = flags.get(flag)
        values = [value] if equals else []
        if option is not None and not equals and option.kind is not bool:
            several = option.listed and not option.repeated
            while rest and not _is_flag(rest[0]) and (several or not values):
                values.append(rest.pop(0))
        yield flag, values, bool(equals)


def _is_flag(word: str) -> bool:
    """Whether a word is a flag, and no number below zero.

    >>> _is_flag("--json"), _is_flag("-1e-3"), _is_flag("-")
    (True, False, False)
    """
    if not word.startswith("-") or word == "-":
        return False
    try:
        float(word)
    except ValueError:
        return True
    return False


def _unknown(flag: str, flags: dict[str, Option]) -> str:
    close = get_close_matches(flag, flags, n=1)
    more = f"; did you mean {close[0]}?" if close else ""
    return f"{flag}: expected a flag of this command, found none of that name{more}"


def _wrong_values(option: Option, values: list[str], equals: bool) -> str | None:
    if option.kind is bool:
        return f"{option.name}: expected no value, found {values[0]!r}" if equals else None
    if not values and (option.repeated or not option.listed):
        return f"{option.name}: expected {_wanted(option)}, found nothing after it"
    wrong = (_wrong_value(option, value) for value in values)
    return next((f"{option.name}: {found}" for found in wrong if found is not None), None)


def _wrong_places(places: list[Option], loose: list[str], default: Any) -> str | None:
    """What is wrong with the arguments that are no flags."""
    for option in places:
        if option.listed:
            return None
        if not loose:
            there = default is not None and option.value(default) is not tyro.MISSING
            if option.required and not there:
                return f"{option.name}: expected an argument, found none"
            continue
        value = loose.pop(0)
        wrong = _wrong_value(option, value)
        if wrong is not None:
            return f"{option.name}: {wrong}"
    if loose:
        names = " ".join(option.name for option in places) or "flags"
        return f"{loose[0]}: expected {names} alone, found one argument more"
    return None


def _wrong_value(option: Option, text: str) -> str | None:
    """Why one word is not a value of an option; None if it is one."""
    for extra in option.extras:
        if isinstance(extra, tyro.constructors.PrimitiveConstructorSpec) and not extra.choices:
            try:
                extra.instance_from_str([text])
            except ValueError as error:
                return str(error)
            return None
    choices = _choices(option)
    if text in choices or any(_is_a(part, text) for part in _parts(option)):
        return None
    close = get_close_matches(text, choices, n=1)
    more = f"; did you mean {close[0]}?" if close else ""
    return f"expected {_wanted(option)}{',;'[len(choices) > 1]} found {text!r}{more}"


#: What a word has to be that is read as such.
_WANTED: dict[Any, str] = {int: "a whole number", float: "a number", Path: "a path", str: "a word"}


def _wanted(option: Option) -> str:
    """What an option takes, in words.

    >>> from equipoise.cli.play import Play
    >>> [_wanted(option) for option in options(Play)][:2]
    ['one of uniform, gaussian', 'a whole number']
    """
    choices = _choices(option)
    kinds = [_WANTED[part] for part in _parts(option) if part in _WANTED]
    if choices:
        kinds.append(f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0])
    return " or ".join(kinds)


def _parts(option: Option) -> tuple[Any, ...]:
    """The types that a value may have."""
    kinds = members(option.kind) or (option.kind,)
    inner = [get_args(kind)[0] if get_origin(kind) is tuple else kind for kind in kinds]
    return tuple(kind for kind in inner if kind is not type(None))


def _choices(option: Option) -> list[str]:
    """The words that a value may be."""
    words: list[str] = []
    for part in _parts(option):
        if get_origin(part) is Literal:
            words += [str(word) for word in get_args(part)]
        elif part is bool:
            words += ["True", "False"]
    return words


def _is_a(kind: Any, text: str) -> bool:
    if kind in (str, Path):
        return True
    if kind not in (int, float):
        return False
    try:
        kind(text)
    except ValueError:
        return False
    return True
