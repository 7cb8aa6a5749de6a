"""From arguments to an exit code: 0 done, 1 tolerance missed, 2 wrong input, 130 interrupted."""

import inspect
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from equipoise.cli._errors import CommandError

#: Verb -> what it does, in a line. The file of the same name is imported when the verb is used.
VERBS = {
    "solve": "Solve a game exactly, and certify the answer.",
    "certify": "Say how much each player could gain by leaving a given policy.",
    "games": "List the named games, show one, or write it to a file.",
    "play": "Let two learners play random games, each seeing only its own actions and rewards.",
    "demo": "Solve, learn and certify games of several kinds, and write a report about it.",
}

_USAGE = """\
usage: equipoise VERB [arguments]
       equipoise VERB --help
       equipoise --version

equipoise computes, learns and certifies equilibria of games.

verbs:
{verbs}

Exit codes: 0 done, 1 a tolerance was missed, 2 wrong input, 130 interrupted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    **Example**

    >>> from equipoise.cli import main
    >>> main(["--version"])
    equipoise 0.1.0
    0
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(arguments)
    except CommandError as error:
        print(f"equipoise: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("equipoise: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has enough (`equipoise games | head`): end as quietly as they.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        sys.stderr.write(_help())
        return 2
    verb, *rest = arguments
    if verb in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0
    if verb in ("-V", "--version"):
        from equipoise import __version__

        print(f"equipoise {__version__}")
        return 0
    if verb not in VERBS:
        raise CommandError(f"VERB: expected one of {', '.join(VERBS)}; found {verb!r}")
    parsed = _parse(verb, rest)
    if isinstance(parsed, int):
        return parsed
    code = parsed.run()
    sys.stdout.flush()
    return code


def _parse(verb: str, arguments: list[str]) -> Any:
    """The verb's dataclass filled from the arguments, or an exit code if that ended it."""
    import tyro

    kind = getattr(import_module(f"equipoise.cli.{verb}"), verb.capitalize())
    try:
        return tyro.cli(
            kind,
            prog=f"equipoise {verb}",
            description=inspect.cleandoc(kind.__doc__),
            args=arguments,
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    except SystemExit as end:  # after --help, or after wrong usage was explained
        return int(end.code or 0)


def _help() -> str:
    width = max(map(len, VERBS))
    return _USAGE.format(verbs="\n".join(f"  {v:{width}}  {text}" for v, text in VERBS.items()))
