"""From arguments to an exit code; the table of verbs; what is said of errors."""

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

#: Verb -> what it does, in a line. The file of the same name is imported when the verb is used.
VERBS = {
    "solve": "Solve a game, and certify the answer.",
    "certify": "Say how much each player could gain by leaving a given policy.",
    "toll": "Find tolls on a few links of a road network, and certify the flows they lead to.",
    "games": "List the named games, show one, or write it to a file.",
    "play": "Let two learners play random games, each seeing only its own actions and rewards.",
    "duel": "Play a game against a player that learns it, and you, while it plays.",
    "learn": "Learn an equilibrium of very many agents from simulated episodes.",
    "offline": "Learn a near-equilibrium from a log, and bound what anybody could gain.",
    "discover": "Find out what kind of game a log comes from, and whether the log can tell.",
    "pretrain": "Train players that learn an unseen game of a family while they play it.",
    "evaluate": "Compare pre-trained players with learners, static policies and opponents.",
    "reproduce": "Make the figures of the papers again, theirs and ours side by side.",
    "report": "Compare runs in one HTML file: numbers, certificates, curves, pictures, settings.",
    "completion": "Print a script that completes commands in a shell.",
    "studio": "Open the studio in the browser: games, logs, networks and runs that one can touch.",
    "demo": "Show the library at work in three acts, each with its certificate, and report.",
}

_USAGE = """\
usage: equipoise VERB [arguments]
       equipoise VERB --help
       equipoise --version

equipoise computes, learns and certifies equilibria of games.

verbs:
{verbs}

All but completion take --json, and options from a file with --config; --print-config writes one.
Exit codes: 0 done, 1 a tolerance was missed or nothing was learned, 2 wrong usage or input,
3 internal failure, 130 interrupted.
"""

#: Where an internal failure is reported.
_REPORT = "this is a bug: please report it as CONTRIBUTING.md says, with what --traceback shows"


class Interrupted(Exception):
    """Ctrl-C came; the message says what was kept, and how to go on."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

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
            as_json = hasattr(command, "common") and command.common.json  # a file may ask for it
            with _warnings_in_one_line(as_json):
                command = command.execute()
        sys.stdout.flush()  # here, and not when Python ends: a closed pipe is found out in time
        return command
    except BrokenPipeError:
        # Whoever read our output has enough (`equipoise games | head`): end as quietly as they.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (Exception, KeyboardInterrupt) as error:
        if "--traceback" in flags:
            traceback.print_exc()
        code, told = _told(error, words[0] if words else "")
        print(_line("error" if as_json or code != 130 else "", told, as_json), file=sys.stderr)
        return code


def _on_interrupt(number: int, frame: Any) -> None:
    """Raise KeyboardInterrupt; a little later where a callback of JAX would swallow it."""
    while frame is not None:
        if frame.f_code.co_name == "_xla_gc_callback":
            again = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            again.start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _parse(words: list[str], as_json: bool) -> Any:
    """A command to be executed, or the exit code of what is done already."""
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

        print(f"equipoise {__version__}")
        return 0
    if verb not in VERBS:
        close = get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean {close[0]}?" if close else ""
        raise InputError("VERB", f"one of {', '.join(VERBS)}", repr(verb), hint)
    from equipoise.cli._parsing import parse

    explained = StringIO()
    try:
        with redirect_stderr(explained if as_json else sys.stderr):
            command = parse(verb, rest)
        return 0 if command is None else command
    except SystemExit as end:  # tyro printed help, or what is wrong with the words
        if end.code and as_json:
            print(_line("error", explained.getvalue(), as_json), file=sys.stderr)
        return int(end.code or 0)


def _told(error: BaseException, verb: str) -> tuple[int, str]:
    """The exit code of an error, and its line."""
    if isinstance(error, KeyboardInterrupt | Interrupted):
        return 130, f"interrupted{error}"
    if isinstance(error, InputError):
        return 2, error.about(_flag_of(error.argument, verb))
    if isinstance(error, OSError):
        # Errors of files name the file: a full disk without a name is that of the output.
        full = "standard output" if error.errno == errno.ENOSPC else None
        place = error.filename or full
        return 2, f"{place}: {error.strerror}" if place else str(error)
    if isinstance(error, ValueError | NotImplementedError) and _is_ours(error):
        return 2, str(error)
    return 3, f"internal failure: {type(error).__name__}: {error}; {_REPORT}"


def _is_ours(error: BaseException) -> bool:
    """Whether code of this package raised an error, rather than code that it called."""
    place = traceback.extract_tb(error.__traceback__)[-1].filename
    return Path(place).is_relative_to(Path(__file__).parents[1])


def _flag_of(argument: str, verb: str) -> str:
    """What the user typed in the place of an argument of the library."""
    if verb not in VERBS:
        return argument
    from equipoise.cli._parsing import command_kind, options

    kind = command_kind(verb)
    flags = {option.path[-1]: option.flag for option in options(kind)}
    # A config that is not that of a run folder is the wrong folder.
    flags |= {"config": "--run", **getattr(kind, "ARGUMENTS", {})}
    name = re.split(r"[\[.]", argument, maxsplit=1)[0]  # policy of policy[0]
    return flags.get(name, name) + argument[len(name) :]


def _line(kind: str, message: str, as_json: bool) -> str:
    """A line of its own on the error stream, for people or for programs."""
    if as_json:
        return json.dumps({kind: message}, ensure_ascii=False)
    return " ".join(["equipoise:", *([f"{kind}:"] if kind else []), *message.split()])


@contextmanager
def _warnings_in_one_line(as_json: bool) -> Iterator[None]:
    """Show what the library warns the user of as errors are shown: one line, no source code."""
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
    width = max(map(len, VERBS))
    return _USAGE.format(verbs="\n".join(f"  {v:{width}}  {text}" for v, text in VERBS.items()))
