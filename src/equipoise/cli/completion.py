"""`equipoise completion`: the script by which a shell completes verbs, flags, choices and names."""

import contextlib
import functools
import io
import operator
import re
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import tyro

from equipoise.cli._errors import CommandError
from equipoise.cli._main import VERBS
from equipoise.cli._parsing import command_kind

Shell = Literal["bash", "zsh", "fish"]


@dataclass(frozen=True)
class Completion:
    """Print a script that completes commands in a shell.

    Verbs, flags and their choices are completed, and the names of games, players, papers, figures,
    critics and shells; what else stands in the place of a name is a file.

    Examples:
      equipoise completion bash > ~/.local/share/bash-completion/completions/equipoise
      equipoise completion zsh > ~/.zfunc/_equipoise
      equipoise completion fish > ~/.config/fish/completions/equipoise.fish
    """

    #: Which shell.
    shell: Annotated[Shell, tyro.conf.Positional, tyro.conf.arg(metavar="{bash,zsh,fish}")]

    def execute(self) -> int:
        """Print the script that tyro makes of all commands, with the names in it."""
        kinds = [
            Annotated[command_kind(verb), tyro.conf.subcommand(verb, description=summary)]
            for verb, summary in VERBS.items()
        ]
        commands: Any = functools.reduce(operator.or_, kinds)
        made = io.StringIO()
        try:
            with contextlib.redirect_stdout(made):
                tyro.cli(
                    commands,
                    prog="equipoise",
                    args=["--tyro-print-completion", self.shell],
                    config=(tyro.conf.FlagCreatePairsOff,),
                )
        except SystemExit as end:  # which is how tyro ends after printing
            sys.stdout.write(_with_names(made.getvalue(), _names(), _values()))
            return int(end.code or 0)
        except AssertionError as error:
            raise CommandError(
                f"SHELL: expected one that this version of tyro knows, found {self.shell}; "
                "a newer tyro knows more: pip install -U tyro"
            ) from error
        return 0


def _names() -> dict[str, list[str]]:
    """Verb -> what its first argument may be.

    >>> _names()["learn"]
    ['demand-response', 'epidemic', 'bus-or-car']
    """
    import equipoise as eq
    from equipoise.cli.reproduce import PAPERS

    kinds = {name: eq.games.describe(name).kind for name in eq.games.names()}
    return {
        "games": list(kinds),
        "certify": list(kinds),
        "solve": [name for name, kind in kinds.items() if kind != "continuous"],
        "learn": [name for name, kind in kinds.items() if kind == "aggregative-markov"],
        "evaluate": eq.incontext.shipped(),
        "reproduce": list(PAPERS),
        "completion": list(get_args(Shell)),
    }


def _values() -> dict[str, dict[str, list[str]]]:
    """Verb -> flag -> names that it takes, of which the parser knows nothing.

    >>> _values()["offline"]["--critic"][0]
    'linear'
    """
    import equipoise as eq
    from equipoise.cli._offline_continuous import LINEAR
    from equipoise.papers import FIGURES

    return {
        "reproduce": {"--figure": list(dict.fromkeys(figure.name for figure in FIGURES))},
        "offline": {"--critic": [LINEAR, *eq.offline.deep.ARCHITECTURES]},
        "pretrain": {"--start": eq.incontext.shipped()},
    }


#: What tyro's scripts hold in every shell: the commands as a Python dict, and how they end.
_COMMANDS = re.compile(r"^COMPLETION_SPEC = \{.*\}$", re.MULTILINE)
_END = """
    for completion in completions:
        print(completion)
"""

#: tyro knows no names in the place of a verb's argument, but verbs below verbs: a name becomes one,
#: that takes the same flags. In single quotes, since fish has the whole in double ones.
_MORE = """
for verb, names in {names!r}.items():
    command = COMPLETION_SPEC['subcommands'][verb]
    below = {{'description': 'of equipoise ' + verb, 'options': command['options']}}
    command['subcommands'] = {{name: below for name in names}}
for verb, flags in {values!r}.items():
    for option in COMPLETION_SPEC['subcommands'][verb]['options']:
        for flag in set(option['flags']) & set(flags):
            option.update(type='choice', choices=flags[flag])
"""
#: Files where nothing else is known; and a description of several lines is one completion, too.
_OTHER_END = """
    for completion in completions or ['__TYRO_COMPLETE_FILES__']:
        print(' '.join(completion.splitlines()))
"""


def _with_names(
    script: str, names: dict[str, list[str]], values: dict[str, dict[str, list[str]]]
) -> str:
    """A script of tyro's that completes these names too, and files where nothing else is known.

    >>> script = "COMPLETION_SPEC = {}\\n" + _END
    >>> print(_with_names(script, {"solve": ["oneill"]}, {}).splitlines()[1])
    for verb, names in {'solve': ['oneill']}.items():
    """
    found = _COMMANDS.search(script)
    if found is None or script.count(_END) != 1:
        raise CommandError(
            f"SHELL: expected a script as tyro 1.0 makes it, found another, of tyro "
            f"{tyro.__version__}; pip install tyro==1.0.16 has the one that is known"
        )
    start, end = script[: found.end()], script[found.end() :]
    # In bash, the word before may have been glued to this one, as if a colon had parted them.
    end = end.replace('compgen -f -- "$cur"', 'compgen -f -- "${COMP_WORDS[COMP_CWORD]}"')
    return start + _MORE.format(names=names, values=values) + end.replace(_END, _OTHER_END)
