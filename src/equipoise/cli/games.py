"""`equipoise games`: the catalogue of named games."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from equipoise.cli._errors import CommandError, refusing
from equipoise.cli._flags import COMMON, CommonOptions, File, Settings, make_folder_of, optional


@dataclass(frozen=True)
class Games:
    """List the named games, show one, or write it to a file.

    Examples:
      equipoise games
      equipoise games colonel-blotto
      equipoise games hide-and-seek --set size=10 --write hide.nfg
    """

    #: The game to show; all are listed without it.
    name: Annotated[str | None, tyro.conf.Positional, optional("[NAME]")] = None
    #: Write the game to this .nfg, .npz or .csv file.
    write: File = None
    #: Set a parameter of the game; may be repeated.
    set: Settings = ()
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """List or show."""
        from equipoise.cli import _catalogue, _output

        if self.name is None:
            if self.write is not None or self.set:
                raise CommandError("NAME: expected the name of a game to set or to write")
            if self.common.json:
                _output.print_json(_catalogue.list_document())
            else:
                for kind, table in _catalogue.list_tables().items():
                    _output.print_table(table, f"Games of kind {kind}")
            return 0
        return self._run_one(self.name)

    def _run_one(self, name: str) -> int:
        import equipoise as eq
        from equipoise.cli import _catalogue, _inputs, _output

        if name not in eq.games.names():
            raise CommandError(f"NAME: expected a named game, found {name!r}; {_inputs.hint(name)}")
        game = _inputs.load_named(name, self.set)
        if self.write is not None:
            kind = _inputs.kind_of(game)
            _check_format(self.write, name, kind)
            with refusing("--write", path="--write", game="--write"):
                eq.games.write(game, make_folder_of(self.write))
        if self.common.json:
            document = _catalogue.game_document(name, game, changed=bool(self.set))
            _output.print_json({**document, "written": self.write and str(self.write)})
        elif self.write is None:
            _catalogue.print_game(name, game, changed=bool(self.set))
        else:
            print(f"Written: {self.write} ({_inputs.describe(game)})")
        return 0


#: Kind of game -> the formats that can hold it, where not all can.
_FORMATS = {"matrix": (".nfg", ".npz", ".csv"), "normal-form": (".nfg", ".npz")}


def _check_format(file: Path, name: str, kind: str) -> None:
    """Refuse a format that cannot hold a game, and name those that can.

    >>> _check_format(Path("soccer.nfg"), "soccer", "markov")
    Traceback (most recent call last):
    ...
    equipoise.cli._errors.CommandError: --write: expected a name that ends in .npz for soccer, a
    game of kind markov; found soccer.nfg
    """
    if kind.startswith("aggregative"):
        raise CommandError(
            f"--write: expected a game with a table of payoffs, found {name}, of kind {kind}; a "
            f'.toml file that says kind = "{name}" and its parameters is read in its place'
        )
    formats = _FORMATS.get(kind, (".npz",))
    if file.suffix.lower() not in formats:
        raise CommandError(
            f"--write: expected a name that ends in {', '.join(formats)} for {name}, a game of "
            f"kind {kind}; found {file}"
        )
