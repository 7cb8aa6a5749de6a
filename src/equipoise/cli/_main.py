"""Run a command and return its exit code; list the verbs; report errors."""

import errno
import json
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import Any

from equipoise.core.errors import InputError
from equipoise.core.extras import MissingExtra

#: Verb -> one-line summary. The module of the same name is imported when the verb is used.
VERBS = {
    "solve": "Solve a game and certify the solution.",
    "certify": "Compute how much each player could gain by deviating from a given policy.",
    "toll": "Find tolls on a few links of a road network and certify the resulting flows.",
    "design": "Find tolls or subsidies on actions that lead to the best equilibrium of a crowd.",
    "games": "List the named games, show one, or write it to a file.",
    "play": "Let two learners play random games or your own, and measure NashConv and regret.",
    "duel": "Play a game against a pre-trained player that learns while it plays.",
    "learn": "Learn an equilibrium of very many agents from simulated episodes.",
    "offline": "Learn a near-equilibrium from a log and bound what any agent could gain.",
    "discover": "Choose the reward model that explains a log, and test whether the log suffices.",
    "pretrain": "Train players that learn an unseen game of a family while they play it.",
    "evaluate": "Compare pre-trained players with learners, static policies and opponents.",
    "reproduce": "Reproduce the figures of the papers, as printed and as corrected.",
    "sweep": "Run many settings of one verb and compare the runs on one page.",
    "report": "Compare runs in one HTML file: numbers, certificates, curves and settings.",
    "completion": "Print the script that completes commands in bash, zsh or fish.",
    "studio": "Open the studio, a local web application for games, logs, networks and runs.",
    "demo": "Show the library in three acts, each with a certificate, and write a report.",
}

_USAGE = """\
usage: equipoise VERB [arguments]
       equipoise VERB --help
       equipoise --version [--json]

equipoise computes, learns and certifies equilibria of games.

verbs:
{verbs}

{common}

{code}

exit codes:
  0    success
  1    a tolerance was missed, or the status of a log is not "learned"
  2    wrong usage or wrong input
  3    internal error (a bug)
  130  interrupted by Ctrl-C
"""

_COMMON = (
    "Every verb except completion accepts --json (print JSON), --config FILE (read options from a "
    "TOML file) and --print-config (print the options as such a file)."
)

_CODE = (
    "A game, a family, a learner or a simulator of your own is given as MODULE:OBJECT: an object "
    "in a file (mine.py:game) or module (package.module:make_game), or a function that returns "
    "one. equipoise runs this code with your rights, so name only code that you trust."
)

#: How to report an internal error.
_REPORT = (
    "this is a bug: please report it in the issue tracker of the repository you cloned, with the "
    "output of --traceback and of equipoise --version --json"
)


class Interrupted(Exception):
    """The user pressed Ctrl-C; the message says what was saved and how to resume."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    **Example**

    >>> from equipoise.cli import main
    >>> main(["--version"])
    equipoise 0.2.0
    0
    """
    if arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _on_interrupt)
    words = list(sys.argv[1:] if arguments is None else arguments)
    flags = words[: words.index("--")] if "--" in words else words
    command, as_json = None, "--json" in flags
    try:
        command = _parse(words, as_json)
        if not isinstance(command, int):
            as_json = hasattr(command, "common") and command.common.json  # a config file may set it
            with _warnings_in_one_line(as_json):
                command = command.execute()
        sys.stdout.flush()  # now rather than at exit, so that a closed pipe is noticed here
        return command
    except BrokenPipeError:
        # The reader closed the pipe (`equipoise games | head`): exit quietly, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (Exception, KeyboardInterrupt) as error:
        if "--traceback" in flags:
            traceback.print_exc()
        code, told = _told(error, words[0] if words else "")
        print(_line("error" if as_json or code != 130 else "", told, as_json), file=sys.stderr)
        return code


def _on_interrupt(number: int, frame: Any) -> None:
    """Raise KeyboardInterrupt; wait a moment where a JAX callback would swallow it."""
    while frame is not None:
        if frame.f_code.co_name == "_xla_gc_callback":
            again = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            again.start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _parse(words: list[str], as_json: bool) -> Any:
    """Return the command to execute, or an exit code if there is nothing left to do."""
    if not words:
        sys.stderr.write(_help())
        return 2
    verb, *rest = words
    if verb == "help" and rest and not rest[0].startswith("-"):
        verb, rest = rest[0], ["--help"]
    if verb in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0
    if verb in ("-V", "--version"):
        from equipoise import __version__

        print(_versions() if as_json else f"equipoise {__version__}")
        return 0
    if verb not in VERBS:
        close = get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean {close[0]}?" if close else ""
        raise InputError("VERB", f"one of {', '.join(VERBS)}", repr(verb), hint)
    from equipoise.cli._parsing import parse

    explained = StringIO()
    try:
        with redirect_stderr(explained):
            command = parse(verb, rest)
        return 0 if command is None else command
    except SystemExit as end:  # tyro printed an error message
        if end.code:
            print(_line("error", _unboxed(explained.getvalue()), as_json), file=sys.stderr)
        return int(end.code or 0)


def _unboxed(text: str) -> str:
    """Turn a boxed message of the parser into one line, without the help that it repeats.

    >>> _unboxed("╭─ Error ─╮\\n│ Missing: GAME │\\n│ ─────── │\\n│ Try\\n│ --help │\\n╰────╯")
    'Missing: GAME; Try --help'
    >>> told = "invalid choice 'up' for argument '--seat'. Expected one of ('row', 'column')."
    >>> _unboxed(f"╭─ Error ─╮\\n│ {told} │")
    "--seat: expected one of row, column; found 'up'"
    """
    lines = [line.strip(" │") for line in text.splitlines() if line[:1] not in ("╭", "╰")]
    parts = re.split(r" ?[─-]{5,} ?", " ".join(" ".join(lines).split()))
    if "╭" not in text:  # a terminal without Unicode: the first part is the title
        parts = parts[1:] or parts
    told = "; ".join(part for part in parts if not part.startswith("Argument helptext:"))
    wrong = r"no type matching (?:\{None\}\|)?(\S+) could .* from \['(.*?)'\]\. Got errors: [^;]*"
    told = re.sub(wrong, r"expected \1, found '\2'", told)
    choice = r"invalid choice ('.*?') for argument '(\S+)'\. Expected one of \((.*?),?\)\.(.*)"
    if not (found := re.fullmatch(choice, told)):
        return told
    given, argument, choices, more = found.groups()
    names = choices.replace("'", "")
    return f"{argument}: expected one of {names}; found {given}{more}"


def _versions() -> str:
    """Return the versions of Python and the packages, and the machine, as JSON for a bug report."""
    from equipoise.runs.environment import describe_environment

    found = describe_environment()
    return json.dumps({name: found[name] for name in ("versions", "python", "machine")}, indent=2)


def _told(error: BaseException, verb: str) -> tuple[int, str]:
    """Return the exit code for an error and the line that reports it."""
    if isinstance(error, KeyboardInterrupt | Interrupted):
        return 130, f"interrupted{error}"
    if isinstance(error, InputError):
        return 2, error.about(_flag_of(error.argument, verb))
    if isinstance(error, MissingExtra):
        return 2, str(error)
    if isinstance(error, OSError):
        # Errors about files name the file. A full disk without a file name concerns the output.
        full = "standard output" if error.errno == errno.ENOSPC else None
        place = error.filename or full
        return 2, f"{place}: {error.strerror}" if place else str(error)
    if isinstance(error, ValueError | NotImplementedError) and _is_ours(error):
        return 2, str(error)
    from equipoise.cli._objects import told_of_user_code

    if (told := told_of_user_code(error)) is not None:
        return 2, told
    return 3, f"internal error: {type(error).__name__}: {error}; {_REPORT}"


def _is_ours(error: BaseException) -> bool:
    """Return whether this package raised the error itself, rather than a library that it called."""
    place = traceback.extract_tb(error.__traceback__)[-1].filename
    return Path(place).is_relative_to(Path(__file__).parents[1])


def _flag_of(argument: str, verb: str) -> str:
    """Return the flag or placeholder that sets an argument of the library."""
    if verb not in VERBS:
        return argument
    from equipoise.cli._parsing import command_kind, options

    kind = command_kind(verb)
    flags = {option.path[-1]: option.flag for option in options(kind)}
    # A config that differs from that of a run folder means that the folder is wrong.
    flags |= {"config": "--run", **getattr(kind, "ARGUMENTS", {})}
    name = re.split(r"[\[.]", argument, maxsplit=1)[0]  # policy of policy[0]
    return flags.get(name, name) + argument[len(name) :]


def _line(kind: str, message: str, as_json: bool) -> str:
    """Format one line for the error stream, as text or as JSON."""
    if as_json:
        return json.dumps({kind: message}, ensure_ascii=False)
    return " ".join(["equipoise:", *([f"{kind}:"] if kind else []), *message.split()])


@contextmanager
def _warnings_in_one_line(as_json: bool) -> Iterator[None]:
    """Show warnings of the library as errors are shown: on one line and without source code."""
    original = warnings.formatwarning

    def in_one_line(message: Any, category: type[Warning], *place: Any, **more: Any) -> str:
        if not issubclass(category, UserWarning):
            return original(message, category, *place, **more)
        return _line("warning", " ".join(str(message).split()), as_json) + "\n"

    warnings.formatwarning = in_one_line
    try:
        yield
    finally:
        warnings.formatwarning = original


def _help() -> str:
    from equipoise.cli._help import terminal_width, wrap

    column, width = max(map(len, VERBS)) + 4, terminal_width()
    rows = [wrap(VERBS[v], width, f"  {v}".ljust(column), " " * column) for v in VERBS]
    told = {"common": wrap(_COMMON, width), "code": wrap(_CODE, width)}
    return _USAGE.format(verbs="\n".join(rows), **told)
