"""`equipoise games`: the catalogue of named games."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from equipoise.cli._errors import CommandError, refusing


@dataclass(frozen=True)
class Games:
    """List the named games, show one, or write it to a file.

    Examples:
      equipoise games
      equipoise games colonel-blotto
      equipoise games hide-and-seek --set size=10 --write hide.nfg
    """

    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")] = None
    """The game to show; all are listed without it."""
    write: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the game to this .nfg, .npz or .csv file."""
    parameters: Annotated[
        tuple[str, ...],
        tyro.conf.arg(name="set", metavar="NAME=VALUE"),
        tyro.conf.UseAppendAction,
    ] = ()
    """Set a parameter of the game; may be repeated."""
    json: bool = False
    """Print as JSON."""

    def run(self) -> int:
        """List or show."""
        from equipoise.cli import _catalogue, _output

        if self.name is None:
            if self.write is not None or self.parameters:
                raise CommandError("NAME: expected the name of a game to set or to write")
            if self.json:
                _output.print_json(_catalogue.list_document())
            else:
                _output.print_table(_catalogue.list_table())
            return 0
        return self._run_one(self.name)

    def _run_one(self, name: str) -> int:
        import equipoise as eq
        from equipoise.cli import _catalogue, _inputs, _output

        if name not in eq.games.names():
            raise CommandError(f"NAME: expected a named game, found {name!r}; {_inputs.hint(name)}")
        game = _inputs.load_named(name, self.parameters)
        if self.write is not None:
            with refusing():
                eq.games.write(game, self.write)
        if self.json:
            _output.print_json(_catalogue.game_document(name, game, changed=bool(self.parameters)))
        elif self.write is None:
            _catalogue.print_game(name, game, changed=bool(self.parameters))
        return 0
