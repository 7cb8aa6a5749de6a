"""`equipoise completion`: the script by which a shell completes verbs, flags and choices."""

import functools
import operator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro

from equipoise.cli._main import VERBS
from equipoise.cli._parsing import command_kind


@dataclass(frozen=True)
class Completion:
    """Print a script that completes commands in a shell.

    Verbs, flags, their choices and files are completed. The script is tyro's.

    Examples:
      equipoise completion bash > ~/.local/share/bash-completion/completions/equipoise
      equipoise completion zsh > ~/.zfunc/_equipoise
      equipoise completion fish > ~/.config/fish/completions/equipoise.fish
    """

    #: Which shell.
    shell: Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional]

    def execute(self) -> int:
        """Print the script that tyro makes of all commands."""
        kinds = [
            Annotated[command_kind(verb), tyro.conf.subcommand(verb, description=summary)]
            for verb, summary in VERBS.items()
        ]
        commands: Any = functools.reduce(operator.or_, kinds)
        try:
            tyro.cli(commands, prog="equipoise", args=["--tyro-print-completion", self.shell])
        except SystemExit as end:  # which is how tyro ends after printing
            if self.shell == "bash":  # files, where tyro knows nothing else
                print("complete -o default -F _tyro_equipoise equipoise")
            return int(end.code or 0)
        return 0
