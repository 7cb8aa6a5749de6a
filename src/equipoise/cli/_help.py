"""Format the help of a verb: its description, then its options in groups, wrapped to the terminal.

The comment `#: ...` above a field of a command is the help of its option. A comment `# -- NAME`
begins a group of options. tyro has no groups within a dataclass, shows None as a choice and as a
default, and does not wrap descriptions, so the help is formatted here.
"""

import inspect
import re
import shutil
import typing
from collections.abc import Iterator
from functools import cache
from itertools import dropwhile, takewhile
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal

#: Widest line of help, in characters.
_WIDEST = 100
#: Most characters of a list of choices behind a flag; longer lists are part of the text.
_LONGEST = 48
#: Words for the types of values.
_TYPES = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH", bool: "{True,False}"}


def wrap(text: str, width: int, first: str = "", rest: str = "") -> str:
    """Fill a paragraph without breaking words, which may be names or commands."""
    from textwrap import fill

    return fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def terminal_width() -> int:
    """Return the number of characters that a line of help may have."""
    return max(min(shutil.get_terminal_size().columns, _WIDEST), 40)


def format_help(verb: str, kind: type, found: list[Any], default: Any) -> str:
    """Return the help of a verb, with the options `found` and the defaults in a command.

    >>> from equipoise.cli._parsing import options
    >>> from equipoise.cli.completion import Completion
    >>> found, default = list(options(Completion)), Completion("zsh")
    >>> format_help("completion", Completion, found, default).splitlines()[0]
    'usage: equipoise completion [{bash,zsh,fish}] [options]'
    """
    from tyro import MISSING  # slow to import, and not needed for the list of verbs

    width = terminal_width()
    groups: dict[str, list[tuple[str, str]]] = {"arguments": [], "options": []}
    usage = f"usage: equipoise {verb}"
    for option in found:
        text, group = comments(kind, option.path)
        value = option.value(default)
        words = _metavar(option, text)
        if option.positional:
            optional = value is not MISSING and not words.startswith("[")
            words, group = f"[{words}]" if optional else words, "arguments"
            usage += f" {words}"
        elif option.hint is bool:
            words = f"{option.flag}, --no-{option.key}" if value is True else option.flag
        else:
            if words.startswith("{") and len(words) > _LONGEST:
                text += f" Choices: {words.strip('{}').replace(',', ', ')}."
                words = "NAME"
            words = f"{option.flag} {words}"
        text = f"{text} (required)" if value is MISSING else _with_default(text, value)
        groups.setdefault(group, []).append((words, text))
    common = "common options" if "common options" in groups else "options"
    groups[common] = [*groups.pop(common), ("-h, --help", "Show this message and exit.")]
    parts = [f"{usage} [options]", *_description(kind, width)]
    for title, rows in groups.items():
        if rows:
            parts.append("\n".join([f"{title}:", *(_row(row, width) for row in rows)]))
    return "\n\n".join(parts) + "\n"


def _description(kind: type, width: int) -> Iterator[str]:
    """Yield the paragraphs of a docstring; those with indented lines keep their lines."""
    for paragraph in inspect.cleandoc(kind.__doc__ or "").split("\n\n"):
        kept = any(line.startswith(" ") for line in paragraph.splitlines())
        yield paragraph if kept else wrap(" ".join(paragraph.split()), width)


def _row(row: tuple[str, str], width: int) -> str:
    """Format an option in two columns; on a narrow terminal, its text is below it."""
    words, text = row
    column = 28 if width >= 80 else 8
    first, above = f"  {words}", ""
    if len(first) > column - 2:
        first, above = "", f"{first}\n"
    return above + wrap(text, width, first.ljust(column), " " * column)


def comments(kind: Any, path: tuple[str, ...]) -> tuple[str, str]:
    """Return the help text of a field, and the name of its group."""
    group = "options"
    for name in path[:-1]:
        kind, group = typing.get_type_hints(kind)[name], f"{name} options"
    lines = _lines(kind)
    place = next(i for i, line in enumerate(lines) if line.startswith(f"    {path[-1]}:"))
    above = list(takewhile(lambda line: line.startswith("    #:"), reversed(lines[:place])))
    for line in lines[:place]:
        if title := re.match(r"    # -- (.+)", line):
            group = f"{title[1]} options"
    return " ".join(line.removeprefix("    #:").strip() for line in reversed(above)), group


@cache
def _lines(kind: type) -> list[str]:
    """Return the source of a class of a module; `inspect.getsource` would parse the whole file."""
    file = Path(inspect.getfile(kind)).read_text(encoding="utf-8")
    rest = dropwhile(lambda line: not line.startswith(f"class {kind.__name__}"), file.splitlines())
    return [next(rest), *takewhile(lambda line: line[:1] in ("", " "), rest)]


def _metavar(option: Any, text: str) -> str:
    """Return the placeholder for the value of an option."""
    if option.metavar is not None:
        return option.metavar
    none = "|None" if "None" in text else ""
    hint, choices = option.hint, typing.get_args(option.hint)
    if isinstance(hint, UnionType) or typing.get_origin(hint) is typing.Union:
        hint = next(choice for choice in choices if choice is not NoneType)
        choices = typing.get_args(hint)
    if typing.get_origin(hint) is Literal:
        return "{" + ",".join(map(str, choices)) + "}" + none
    if typing.get_origin(hint) is tuple:
        return f"[{_TYPES[choices[0]]} ...]"
    return _TYPES[hint] + none


def _with_default(text: str, value: Any) -> str:
    """Add the default to a help text, unless the text itself states it or it is off."""
    if value is None or value is False or value in ((), ""):
        return text
    shown = " ".join(map(str, value)) if isinstance(value, tuple) else value
    return f"{text} (default: {'on' if value is True else shown})"
