"""`equipoise games`: list, show and write the named games of the catalogue."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

import equipoise as eq
from equipoise.cli._inputs import check_suffix, find_game, hint, load_named, make_folder_of
from equipoise.cli._objects import is_object
from equipoise.cli._output import print_json, print_pairs, print_table
from equipoise.cli._parsing import COMMON, CommonOptions, Settings
from equipoise.core.errors import InputError

#: Largest number of actions in a payoff table that is shown; policies may have three times more.
_LARGEST = 12
#: Kind of game -> the file formats that can hold it, if more than .npz.
_FORMATS = {"matrix": (".nfg", ".npz", ".csv"), "normal-form": (".nfg", ".npz")}
#: Kind of game -> the attributes that its JSON document contains.
_ARRAYS = {
    "matrix": ("payoff",),
    "normal-form": ("payoffs",),
    "markov": ("reward", "transition", "discount"),
    "aggregative": ("influence", "counts", "scale", "lipschitz"),
    "aggregative-markov": (
        *("influence", "counts", "scale", "horizon", "states"),
        *("lipschitz", "transition_lipschitz"),
    ),
    "contextual": ("agents", "contexts"),
    "decoupled-markov": ("agents", "contexts", "states", "horizon"),
    "continuous": ("agents", "contexts", "states", "horizon", "rank", "noise"),
    "network": (
        *("tails", "heads", "free_flow", "rise", "capacity", "power", "fixed", "tolls"),
        *("origins", "destinations", "demand"),
    ),
    "oracle": ("sizes", "resources"),
}


@dataclass(frozen=True)
class Games:
    """List the named games, show one, or write it to a file.

    A game of your own, MODULE:OBJECT such as mine.py:game, is shown and written too. This runs the
    code of the module.

    Examples:
      equipoise games
      equipoise games colonel-blotto
      equipoise games hide-and-seek --set size=10 --write hide.nfg
      equipoise games mine.py:game --write mine.npz
    """

    ARGUMENTS: ClassVar = {"path": "--write", "game": "--write"}

    #: The game to show: a name, or MODULE:OBJECT such as mine.py:game. Default: list all games.
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")] = None

    # -- output

    #: Write the game to this .nfg, .npz or .csv file. Default: show it instead.
    write: Path | None = None

    # -- game

    #: Set a parameter of the game, such as size=10. Repeat the flag for more.
    set: Settings = ()
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """List the games, show one, or write it."""
        if self.name is None:
            if self.write is not None or self.set:
                raise InputError("name", "the name of a game with --set or --write", "none")
            self._list()
            return 0
        if self.name in eq.games.names():
            game = load_named(self.name, self.set)
        elif is_object(self.name):
            game = find_game(self.name, self.set, "name")
        else:
            raise InputError("name", "a named game", repr(self.name), hint(self.name))
        if self.write is not None:
            kind = game.kind
            if kind.startswith("aggregative"):
                raise InputError(
                    "write",
                    "a game with a table of payoffs",
                    f"{self.name}, of kind {kind}",
                    f'instead, write a .toml file that sets kind = "{self.name}" and '
                    "the parameters",
                )
            check_suffix("write", self.write, *_FORMATS.get(kind, (".npz",)))
            eq.games.write(game, make_folder_of(self.write))
        if self.common.json:
            print_json({**_game_document(self.name, game, self.set), "written": self.write})
        elif self.write is None:
            _print_game(self.name, game, self.set)
        else:
            print(f"Written: {self.write} ({game.describe()})")
        return 0

    def _list(self) -> None:
        """Print all games, one table for each kind, without importing JAX or the games."""
        entries = [eq.games.describe(name) for name in eq.games.names()]
        if self.common.json:
            print_json([_entry_document(entry) for entry in entries])
            return
        for kind in dict.fromkeys(entry.kind for entry in entries):
            own = [entry for entry in entries if entry.kind == kind]
            table = eq.runs.Table(("name", "title"), [(entry.name, entry.title) for entry in own])
            if any(entry.value is not None for entry in own):
                rows = [(entry.name, _exact(entry.value), entry.title) for entry in own]
                table = eq.runs.Table(("name", "value", "title"), rows)
            print_table(table, f"Games of kind {kind}")


def _game_document(name: str, game: Any, changed: Any) -> dict[str, Any]:
    """Return a game as plain data, including its payoffs."""
    document = _entry_document(_entry(name, game))
    if changed:  # the known facts hold for the default parameters only
        document |= {"value": None, "value_exact": None, "equilibrium": None}
    arrays = {key: getattr(game, key) for key in _ARRAYS[game.kind]}
    return {**document, "actions": game.actions, **arrays}


def _print_game(name: str, game: Any, changed: Any) -> None:
    """Print the known facts about a game, and its payoffs if they fit on the screen."""
    entry = _entry(name, game)
    pairs: list[tuple[str, Any]] = [("name", entry.name), ("game", game.describe())]
    pairs += [("source", entry.source)] if entry.source else []
    pairs += [("notes", entry.notes)] if entry.notes else []
    if entry.parameters:
        pairs.append(("parameters", ", ".join(f"{k}={v}" for k, v in entry.parameters.items())))
    if not changed and entry.value is not None:
        pairs.append(("value", _exact(entry.value)))
    print(entry.title)
    print_pairs(pairs)
    payoffs = _payoff_table(game)
    if payoffs is not None:
        print_table(payoffs, title="Payoffs")
    if not changed and entry.equilibrium is not None and max(game.actions) <= 3 * _LARGEST:
        print_table(_equilibrium_table(game, entry.equilibrium), title="An equilibrium")


def _entry(name: str, game: Any) -> Any:
    """Return what is known about a game; of a game of the user's own, only its kind is."""
    if name in eq.games.names():
        return eq.games.describe(name)
    from equipoise.games.catalogue import Entry

    return Entry(name, name, game.kind, "")


def _entry_document(entry: Any) -> dict[str, Any]:
    names = ("name", "title", "kind", "source", "notes", "parameters")
    return {
        **{name: getattr(entry, name) for name in names},
        "value": _each(entry.value, float),
        "value_exact": _each(entry.value, _exact),
        "equilibrium": _each(entry.equilibrium, float),
    }


def _each(value: Any, read: Any) -> Any:
    """Convert fractions to floats or texts, at any depth of nesting.

    >>> _each((Fraction(1, 3), Fraction(2)), _exact)
    ['1/3', '2']
    """
    if isinstance(value, tuple):
        return [_each(item, read) for item in value]
    return None if value is None else read(value)


def _exact(value: Any) -> str | None:
    """Format fractions and numbers exactly.

    >>> _exact((Fraction(1, 3), 0.5))
    '(1/3, 0.5)'
    """
    if isinstance(value, tuple):
        return "(" + ", ".join(str(_exact(item)) for item in value) + ")"
    if value is None or isinstance(value, Fraction):
        return value if value is None else str(value)
    return eq.report.format_value(value)


def _payoff_table(game: Any) -> "eq.runs.Table | None":
    """Return the payoffs of a small two-player game as a table, state by state if it has states."""
    kind = game.kind
    if kind not in ("matrix", "normal-form", "markov") or len(game.actions) != 2:
        return None
    if game.actions[1] > _LARGEST or game.actions[0] > 3 * _LARGEST:
        return None
    if kind == "markov" and game.states > 4:
        return None
    arrays = {"matrix": "payoff", "normal-form": "payoffs", "markov": "reward"}
    values = getattr(game, arrays[kind]).tolist()
    if kind == "normal-form":
        pairs = [zip(*rows, strict=True) for rows in zip(*values, strict=True)]
        values = [[", ".join(map(eq.report.format_value, pair)) for pair in row] for row in pairs]
    blocks = {f"{_state(game, s)}, ": rows for s, rows in enumerate(values)}
    own, others = ([_action(game, p, a) for a in range(game.actions[p])] for p in (0, 1))
    rows = [
        (where + own[i], *row)
        for where, block in (blocks if kind == "markov" else {"": values}).items()
        for i, row in enumerate(block)
    ]
    return eq.runs.Table(
        (" \\ ".join(eq.report.player_names(2, game.labels.players)), *others), rows
    )


def _action(game: Any, player: int, action: int) -> str:
    """Return the label of an action, or the player's side and the number of the action."""
    name = game.labels.action(player, action)
    return f"{('row', 'column')[player]} {name}" if game.labels.actions is None else name


def _state(game: Any, state: int) -> str:
    return f"state {game.labels.state(state)}"


def _equilibrium_table(game: Any, equilibrium: Any) -> "eq.runs.Table":
    rows, names = [], eq.report.player_names(len(equilibrium), game.labels.players)
    for player, strategy in enumerate(equilibrium):
        by_state = isinstance(strategy[0], tuple)
        for state, probabilities in enumerate(strategy if by_state else (strategy,)):
            name = names[player] + (f", {_state(game, state)}" if by_state else "")
            chances = map(_exact, probabilities)
            if game.labels.actions is not None:
                chances = (f"{game.labels.action(player, a)}: {p}" for a, p in enumerate(chances))
            rows.append((name, ", ".join(map(str, chances))))
    return eq.runs.Table(("", "probabilities of the actions"), rows)
