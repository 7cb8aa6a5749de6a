"""From the words of a command line, and the files they name, to a command ready to be executed."""

import inspect
import io
import sys
from contextlib import redirect_stderr
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

from equipoise.cli._errors import CommandError


def command_kind(verb: str) -> Any:
    """The dataclass of a verb.

    >>> command_kind("solve").__name__
    'Solve'
    """
    return getattr(import_module(f"equipoise.cli.{verb}"), verb.capitalize())


def parse(verb: str, words: list[str]) -> Any:
    """The verb's command, or an exit code if the parsing ended it.

    >>> parse("solve", ["oneill", "--tolerance", "0.1"]).tolerance
    0.1
    """
    from equipoise.cli._config_files import write_config

    kind, path = command_kind(verb), _config_path(words)
    default = None if path is None else _from_file(verb, kind, path)
    command = _from_words(verb, kind, words, default)
    if isinstance(command, int):
        return command
    if hasattr(command, "common") and command.common.print_config:
        if hasattr(command, "resolved"):  # what is not given depends on what is, as on a preset
            command = command.resolved()
        sys.stdout.write(f"# equipoise {verb} --config FILE\n{write_config(command)}")
        return 0
    return command


def _from_words(verb: str, kind: Any, words: list[str], default: Any = None) -> Any:
    """The command, or an exit code if the parser printed what was asked for."""
    import tyro

    # What a file switched on, the command line can switch off: then flags come in pairs.
    more: dict[str, Any] = {"default": default}
    if default is None:
        more = {"config": (tyro.conf.FlagCreatePairsOff,)}
    explained = io.StringIO()
    try:
        with redirect_stderr(explained):
            return tyro.cli(
                kind,
                prog=f"equipoise {verb}",
                description=inspect.cleandoc(kind.__doc__),
                args=words,
                **more,
            )
    except SystemExit as end:  # after --help, or after wrong usage was explained in a box
        if not end.code:
            return 0
        from equipoise.cli._usage import what_is_wrong

        wrong = what_is_wrong(kind, words, default) or _in_a_line(explained.getvalue())
        raise CommandError(f"{wrong}; see 'equipoise {verb} --help'") from end


def _in_a_line(box: str) -> str:
    """What tyro explains in a box with a title, in a line without them.

    >>> box = [
    ...     "╭─ Unrecognized options ──────────╮",
    ...     "│ Unrecognized options: --set     │",
    ...     "│ ─────────────────────────────── │",
    ...     "│ For full helptext, run --help   │",
    ...     "╰─────────────────────────────────╯",
    ... ]
    >>> _in_a_line("\\n".join(box))
    'Unrecognized options: --set'
    """
    told = box.partition("For full helptext")[0].partition("Argument helptext")[0]
    # The frame is of other letters where the stream knows ASCII alone.
    lines = [line.strip("╭╮╰╯│─|+ ") for line in told.splitlines()]
    return " ".join(line for line in lines[1:] if line.strip("-"))


def _config_path(words: list[str]) -> Path | None:
    """The file that `--config` names; it has to be read before the words are understood."""
    found = None
    for word, following in zip_longest(words, words[1:]):
        if word == "--":
            break
        if word == "--config" and following is not None:
            found = Path(following)
        elif word.startswith("--config="):
            found = Path(word.removeprefix("--config="))
    return found


def _from_file(verb: str, kind: Any, path: Path) -> Any:
    """A command with the options of a file; what is required and not there is still missing."""
    import tyro

    from equipoise.cli._config_files import as_words, options, read_config

    if not any(option.path[0] == "common" for option in options(kind)):
        raise CommandError(f"--config: expected a command with options, found {verb}")
    words, missing = as_words(kind, read_config(kind, path))
    try:
        command = _from_words(verb, kind, words)
    except CommandError as error:
        raise CommandError(f"--config: {path}: {error}") from error
    if isinstance(command, int):
        raise CommandError(f"--config: {path}: expected options, found one that asks for help")
    for option in missing:  # past the freezing of a command that nobody else has seen yet
        object.__setattr__(command, option.path[0], tyro.MISSING)
    return command
