"""From arguments to an exit code: 0 done, 1 tolerance missed, 2 wrong input, 130 interrupted."""

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from equipoise.cli._errors import CommandError, asks_for_json, line_of, tell_interrupted

#: Verb -> what it does, in a line. The file of the same name is imported when the verb is used.
VERBS = {
    "solve": "Solve a game exactly, and certify the answer.",
    "certify": "Say how much each player could gain by leaving a given policy.",
    "games": "List the named games, show one, or write it to a file.",
    "play": "Let two learners play random games, each seeing only its own actions and rewards.",
    "learn": "Learn an equilibrium of very many agents from simulated episodes.",
    "offline": "Learn a near-equilibrium of many agents from a log, and say what it supports.",
    "pretrain": "Train players that learn an unseen game of a family while they play it.",
    "evaluate": "Compare pre-trained players with learners, static policies and opponents.",
    "reproduce": "Make the figures of the papers again, theirs and ours side by side.",
    "report": "Compare runs in one HTML file: numbers, certificates, curves, pictures, settings.",
    "completion": "Print a script that completes commands in a shell.",
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
Players, actions, states, steps and agents are counted from 0, in tables as in files and JSON.
Exit codes: 0 done, 1 a tolerance was missed, 2 wrong input, 130 interrupted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    **Example**

    >>> from equipoise.cli import main
    >>> main(["--version"])
    equipoise 0.2.0
    0
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    as_json = asks_for_json(arguments)
    try:
        code = command = _dispatch(arguments)
        if not isinstance(command, int):
            # A file of options may ask for it, too.
            as_json = hasattr(command, "common") and command.common.json
            with _warnings_in_one_line(as_json):
                code = command.execute()
        sys.stdout.flush()  # here, and not when Python ends: a closed pipe is found out in time
        return code
    except CommandError as error:
        print(line_of("error", str(error), as_json), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return tell_interrupted("", as_json)
    except BrokenPipeError:
        # Whoever read our output has enough (`equipoise games | head`): end as quietly as they.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _dispatch(arguments: list[str]) -> Any:
    """A command to be executed, or the exit code of what is done already."""
    if not arguments:
        sys.stderr.write(_help())
        return 2
    verb, *rest = arguments
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
        raise CommandError(f"VERB: expected one of {', '.join(VERBS)}; found {verb!r}{_hint(verb)}")
    from equipoise.cli._parsing import parse

    return parse(verb, rest)


def _hint(verb: str) -> str:
    close = get_close_matches(verb, VERBS, n=1)
    return f"; did you mean {close[0]}?" if close else ""


@contextmanager
def _warnings_in_one_line(as_json: bool) -> Iterator[None]:
    """Show what the library warns the user of as errors are shown: one line, no source code."""
    original = warnings.formatwarning

    def in_one_line(message: Any, category: type[Warning], *place: Any, **more: Any) -> str:
        if not issubclass(category, UserWarning):
            return original(message, category, *place, **more)
        return line_of("warning", " ".join(str(message).split()), as_json) + "\n"

    warnings.formatwarning = in_one_line
    try:
        yield
    finally:
        warnings.formatwarning = original


def _help() -> str:
    width = max(map(len, VERBS))
    return _USAGE.format(verbs="\n".join(f"  {v:{width}}  {text}" for v, text in VERBS.items()))
