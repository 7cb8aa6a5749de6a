r"""Games as text: Gambit's `.nfg`, a matrix as `.csv`, a game of the catalogue as `.toml`.

Gambit's format has two bodies after one prologue:

    NFG 1 R "title" { "Rose" "Colin" } { 2 2 }             numbers of strategies
    NFG 1 R "title" { "Rose" "Colin" }                     or their names,
    { { "Up" "Down" } { "Left" "Right" } } "comment"       and a comment, if any

    1 -1 0 0 0 0 1 -1                                      payoffs of each profile, or

    { { "win" 1, -1 } { "lose" -1, 1 } } 1 2 2 0           outcomes, then one for each profile

Profiles are listed with the first player's strategy varying fastest. Outcome 0 pays zero to all
players. The version letter (R, rational, or D, decimal) has no effect: with either, numbers may be
whole, decimal, or fractions.
"""

import csv
import io
import math
import re
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.core.plain import parse_toml
from equipoise.core.values import frozen
from equipoise.games._game import labels_of
from equipoise.games._matrix import MatrixGame
from equipoise.games._normal import NormalFormGame
from equipoise.games._road_columns import LINK_COLUMNS

#: A payoff table has one axis per player plus one; NumPy 1 allows 32.
PLAYERS_LIMIT = 31
#: Limits on the size of the table that a file may declare, checked before reading on.
STRATEGIES_LIMIT = 1_000_000
PROFILES_LIMIT = 100_000_000
#: Largest table in bytes: this many times the file's length, plus a constant.
_RATIO, _MARGIN = 48, 48_000_000
#: Longer numbers are refused: no software writes them, and parsing them takes time.
NUMBER_LENGTH_LIMIT = 4000

_NUMBER = r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++|/\d++)?"

# Possessive quantifiers keep the time linear for any text. Commas count as white space.
_TOKEN = re.compile(
    rf"""[\s,]*+(?:
        (?P<number>{_NUMBER}(?![^\s,{{}}"]))
      | (?P<open>\{{)
      | (?P<close>\}})
      | (?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+")
      | (?P<word>[^\s,{{}}"]++)
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
#: Names of columns in tables of links.
ROAD_NAMES = frozenset(name for names in LINK_COLUMNS.values() for name in names)
_WHOLE_NUMBER = re.compile(_NUMBER, re.ASCII)


def parse_number(text: str) -> float:
    """Return the float nearest to a decimal such as `-1.5e3` or a fraction such as `1/3`.

    >>> parse_number("1/3") == 1 / 3, parse_number("-.5")
    (True, -0.5)
    """
    if len(text) > NUMBER_LENGTH_LIMIT:
        raise ValueError(f"expected a number of at most {NUMBER_LENGTH_LIMIT} characters")
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ValueError(f"expected a number, found {shorten(text)}")
    numerator, slash, denominator = text.partition("/")
    if not slash:
        value = float(text)
    elif "." in numerator or int(denominator) == 0:
        raise ValueError(
            f"expected a fraction of whole numbers with a non-zero denominator, "
            f"found {shorten(text)}"
        )
    else:
        try:
            value = int(numerator) / int(denominator)
        except OverflowError:
            value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"expected a number that a float can hold, found {shorten(text)}")
    return value


def format_number(value: float) -> str:
    """Return the shortest text that `parse_number` converts back to exactly `value`.

    >>> format_number(3.0), format_number(0.1), format_number(-1e-7)
    ('3', '0.1', '-1e-07')
    """
    return repr(float(value)).removesuffix(".0")


def shorten(text: str, length: int = 40) -> str:
    """Quote `text` for a message, and shorten it if it is long."""
    return repr(text if len(text) <= length else text[:length] + "...")


class Tokens:
    """A tokeniser; `kind` and `value` describe the current token.

    >>> tokens = Tokens('NFG 1 R "title" { 1/3 }', "example")
    >>> tokens.kind, tokens.value
    ('word', 'NFG')
    >>> tokens.advance(); tokens.take_number("a payoff")
    1.0
    >>> tokens.take("text", "a title")
    Traceback (most recent call last):
    ...
    ValueError: example: line 1, column 7: expected a title, found 'R'
    """

    def __init__(self, text: str, source: str):
        self._text = text
        self._source = source
        self._position = 0
        self.length = len(text)
        self.advance()

    def advance(self) -> None:
        """Move to the next token."""
        match = _TOKEN.match(self._text, self._position)
        if match is None or match.lastgroup is None:  # only an open quote matches nothing
            self._start = self._text.index('"', self._position)
            raise self.error("expected a closing quote for the one that opens here")
        self.kind: str = match.lastgroup
        self.value: str = match[self.kind]
        self._start = match.start(self.kind)
        self._position = match.end()

    def take(self, kind: str, meaning: str, values: tuple[str, ...] = ()) -> str:
        """Return the current token and move on; refuse any other kind or value."""
        if self.kind != kind or (values and self.value not in values):
            raise self.error(f"expected {meaning}, found {self.found()}")
        value = self.value
        self.advance()
        return value

    def take_number(self, meaning: str) -> float:
        """Return the current token as a float and move on."""
        if self.kind != "number":
            raise self.error(f"expected {meaning}, found {self.found()}")
        try:
            value = parse_number(self.value)
        except ValueError as error:
            raise self.error(str(error)) from None
        self.advance()
        return value

    def take_whole(self, meaning: str, low: int, high: int) -> int:
        """Return the current token as an int from `low` to `high` and move on."""
        short = self.kind == "number" and len(self.value) <= 20
        if not (short and self.value.isdigit() and low <= int(self.value) <= high):
            raise self.error(
                f"expected {meaning}, a whole number from {low} to {high}, found {self.found()}"
            )
        value = int(self.value)
        self.advance()
        return value

    def found(self) -> str:
        """Describe the current token for a message."""
        return "the end of the file" if self.kind == "end" else shorten(self.value)

    def error(self, message: str) -> ValueError:
        """Return a `ValueError` that names the position of the current token."""
        line = self._text.count("\n", 0, self._start) + 1
        column = self._start - self._text.rfind("\n", 0, self._start)
        return ValueError(f"{self._source}: line {line}, column {column}: {message}")


def parse_nfg(text: str, source: str) -> MatrixGame | NormalFormGame:
    """Parse the text of an `.nfg` file; `source` names the file in errors.

    >>> game = parse_nfg('NFG 1 R "pennies" { "Rose" "Colin" } { 2 2 } 1 -1 -1 1 -1 1 1 -1', "text")
    >>> game.payoff.tolist(), game.labels.players
    ([[1.0, -1.0], [-1.0, 1.0]], ('Rose', 'Colin'))
    """
    tokens = Tokens(text, source)
    tokens.take("word", "the word NFG", ("NFG",))
    tokens.take("number", "version 1 of the format", ("1",))
    tokens.take("word", "the letter R or D", ("R", "D"))
    tokens.take("text", "the title of the game, in quotes")
    tokens.take("open", "{ before the names of the players")
    players = _read_names(tokens)
    if not 1 <= len(players) <= PLAYERS_LIMIT:
        raise tokens.error(
            f"expected the names of 1 to {PLAYERS_LIMIT} players, found {len(players)}"
        )
    tokens.take("close", "a player's name in quotes, or } after the last")
    counts, names = _read_actions(tokens, len(players))
    if tokens.kind == "text":
        tokens.advance()  # the comment
    profiles = math.prod(counts)
    read_body = _read_outcomes if tokens.kind == "open" else _read_payoffs
    flat = read_body(tokens, len(players), profiles)
    if tokens.kind != "end":
        raise tokens.error(f"expected the end of the file, found {tokens.found()}")
    # In Fortran order the first axis varies fastest: players, then the first player's strategies.
    payoffs = frozen(flat).reshape((len(players), *counts), order="F")
    labels = labels_of(players, names)
    if len(players) == 2 and np.array_equal(payoffs[0], -payoffs[1]):
        return MatrixGame(payoffs[0], labels=labels)
    return NormalFormGame(payoffs, players=len(players), labels=labels)


def _read_names(tokens: Tokens) -> list[str]:
    """Read all consecutive quoted texts; remove quotes and escapes."""
    names = []
    while tokens.kind == "text":
        names.append(re.sub(r"\\(.)", r"\1", tokens.value[1:-1], flags=re.DOTALL))
        tokens.advance()
    return names


def _read_actions(tokens: Tokens, players: int) -> tuple[list[int], list[list[str]] | None]:
    """Return each player's number of strategies, and their names if the file has them."""
    tokens.take("open", "{ before the strategies")
    named = tokens.kind == "open"
    counts: list[int] = []
    names: list[list[str]] = []
    for player in range(1, players + 1):
        if not named:
            meaning = f"the number of strategies of player {player}"
            counts.append(tokens.take_whole(meaning, 1, STRATEGIES_LIMIT))
            continue
        tokens.take("open", f"{{ before the strategies of player {player}")
        names.append(_read_names(tokens))
        if not names[-1]:
            raise tokens.error(f"expected the name of a strategy of player {player} in quotes")
        tokens.take("close", f"}} after the strategies of player {player}")
        counts.append(len(names[-1]))
    if math.prod(counts) > PROFILES_LIMIT:
        raise tokens.error(
            f"expected at most {PROFILES_LIMIT} strategy profiles, found {math.prod(counts)}"
        )
    tokens.take("close", f"}} after the strategies of {players} players")
    return counts, names if named else None


def _read_payoffs(tokens: Tokens, players: int, profiles: int) -> np.ndarray:
    needed, values = players * profiles, array("d")
    while len(values) < needed:
        if tokens.kind != "number":
            raise tokens.error(
                f"expected {needed} payoffs ({players} for each of {profiles} profiles), "
                f"found {tokens.found()} after {len(values)}"
            )
        values.append(tokens.take_number("a payoff"))
    return np.frombuffer(values)


def _read_outcomes(tokens: Tokens, players: int, profiles: int) -> np.ndarray:
    outcomes = array("d", [0.0] * players)  # number 0 is the null outcome
    count = 1
    tokens.take("open", "{ before the outcomes")
    while tokens.kind == "open":
        tokens.advance()
        tokens.take("text", f"the name of outcome {count} in quotes")
        meaning = f"{players} payoffs of outcome {count}"
        outcomes.extend([tokens.take_number(meaning) for _ in range(players)])
        tokens.take("close", f"}} after {meaning}")
        count += 1
    tokens.take("close", "an outcome in { }, or } after the last")
    indices = array("q")
    while len(indices) < profiles:
        meaning = f"the outcome of profile {len(indices) + 1} of {profiles}"
        indices.append(tokens.take_whole(meaning, 0, count - 1))
    limit = _RATIO * tokens.length + _MARGIN
    if 8 * players * profiles > limit:
        raise tokens.error(
            f"expected a table of at most {limit:,} bytes for this file length, found {players} "
            f"payoffs for each of {profiles:,} profiles"
        )
    table = np.frombuffer(outcomes).reshape(count, players)
    return table[np.frombuffer(indices, np.int64)].reshape(-1)


def format_nfg(game: MatrixGame | NormalFormGame, title: str, plain: bool = False) -> str:
    r"""Return the text of an `.nfg` file: full payoffs, strategies by name or by number.

    OpenSpiel does not read names of strategies: with `plain` they are left out, and quotes in
    players' names are replaced. Numbers are written so that they are read back exactly.

    >>> import equipoise as eq
    >>> format_nfg(eq.MatrixGame([[1, 0.5]]), "one by two").splitlines()
    ['NFG 1 R "one by two" { "Player 1" "Player 2" } { 1 2 }', '', '1 -1', '0.5 -0.5']
    """
    if isinstance(game, MatrixGame):
        row = np.asarray(game.payoff, np.float64)
        payoffs = np.stack([row, 0.0 - row])  # not -row, which would make zeros negative
    else:
        payoffs = np.asarray(game.payoffs, np.float64)
    labels = game.labels
    count, *actions = payoffs.shape
    players = [f"Player {i}" for i in range(1, count + 1)]
    players = list(players if labels.players is None else labels.players)
    # OpenSpiel ends a title, and a name, at the first quote, escaped or not.
    title = re.sub(r"[^ -~]|[\"\\]", "_", title)
    if plain:
        players = [re.sub(r"[\"\\]", "_", name) for name in players]
    if plain or labels.actions is None:
        strategies = " ".join(map(str, actions))
    else:
        own = [[labels.action(i, a) for a in range(n)] for i, n in enumerate(actions)]
        strategies = " ".join(f"{{ {_quoted(names)} }}" for names in own)
    lines = [f'NFG 1 R "{title}" {{ {_quoted(players)} }} {{ {strategies} }}', ""]
    for profile in payoffs.reshape(count, -1, order="F").T.tolist():
        lines.append(" ".join(format_number(value) for value in profile))
    return "\n".join(lines) + "\n"  # OpenSpiel needs white space after the last number


def _quoted(names: Sequence[str]) -> str:
    return " ".join('"' + re.sub(r'(["\\])', r"\\\1", name) + '"' for name in names)


def parse_csv(text: str, source: str) -> MatrixGame:
    r"""Parse a zero-sum matrix from comma-separated values, as spreadsheets export them.

    There is one line per action of the row player, with one number per action of the column player.
    If the first cell is `\`, or `Rose \ Colin` with the players' names, the first line names the
    columns and the first cell of every other line names its row. Blank lines and lines that begin
    with `#` are skipped. Numbers may be fractions (`1/3`).

    >>> parse_csv("# biased pennies\n2, -1\n-1, 1\n", "text").actions
    (2, 2)
    >>> parse_csv("\\,heads,tails\nheads,1,-1\ntails,-1,1\n", "text").labels.actions
    (('heads', 'tails'),)
    """
    rows: list[list[float]] = []
    names: list[str] = []
    header: list[str] | None = None
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        place = f"{source}: line {number}"
        cells = _cells(line, place)
        if header is None and not rows and "\\" in cells[0]:
            header = cells
            continue
        if header is not None:
            names.append(cells.pop(0))
        rows.append(_parse_row(cells, place))
        width = len(rows[0]) if header is None else len(header) - 1
        if len(rows[-1]) != width:
            raise ValueError(
                f"{place}: expected {width} numbers, as in the first row, found {len(rows[-1])}"
            )
    if not rows:
        raise ValueError(f"{source}: expected rows of comma-separated numbers, found none")
    if header is None:
        return MatrixGame(rows)
    players = header[0].split(" \\ ")
    told = len(players) == 2 and all(players)
    labels = {"players": players if told else None, "actions": [names, header[1:]]}
    try:
        return MatrixGame(rows, labels=labels)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error


def _cells(line: str, place: str) -> list[str]:
    """Split a line into cells; only names may be quoted."""
    if '"' not in line:
        return [cell.strip() for cell in line.split(",")]
    try:
        (cells,) = csv.reader([line], skipinitialspace=True)
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{place}: expected comma-separated values, found {error}") from error
    return [cell.strip() for cell in cells]


def _parse_row(cells: list[str], place: str) -> list[float]:
    row = []
    for column, cell in enumerate(cells, start=1):
        try:
            row.append(parse_number(cell))
        except ValueError as error:
            hint = _hint(cell)
            raise ValueError(f"{place}, value {column}: {error}{hint}") from None
    return row


def _hint(cell: str) -> str:
    """Say what to do about a cell that is not a number of a zero-sum matrix."""
    if ROAD_NAMES & set(cell.lower().split(";")):
        return "; a road network has two files: give the table of its trips as the second"
    if ";" in cell:
        return "; separate numbers by commas, and write decimals with a point"
    if "," in cell:
        return "; for two payoffs in a cell use `NormalFormGame(A, B)` or a .nfg file"
    return ""


def format_csv(game: MatrixGame) -> str:
    r"""Return the text of a `.csv` file; numbers and names are read back exactly.

    >>> import equipoise as eq
    >>> format_csv(eq.MatrixGame([[1, -1], [0.5, 0]]))
    '1,-1\n0.5,0\n'
    """
    values = np.asarray(game.payoff, np.float64).tolist()
    rows = [[format_number(value) for value in row] for row in values]
    labels = game.labels
    if labels:
        columns = [_cell(labels.action(1, a)) for a in range(game.actions[1])]
        rows = [[_cell(labels.action(0, a)), *row] for a, row in enumerate(rows)]
        corner = "\\" if labels.players is None else " \\ ".join(labels.players)
        rows.insert(0, [_cell(corner), *columns])
    return "".join(",".join(row) + "\n" for row in rows)


def _cell(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def parse_game_toml(text: str, source: str) -> Any:
    """Build the game of the catalogue that the text of a `.toml` file describes.

        kind = "two-roads"      # a name that `equipoise games` lists
        agents = 100_000        # its parameters
        labels.actions = [["motorway", "town"]]

    >>> parse_game_toml('kind = "two-roads"\\nagents = 500', "text").agents
    500
    """
    from equipoise.games.catalogue import load  # the catalogue is not needed for other files

    content = parse_toml(text, source)
    kind = content.pop("kind", None)
    if not isinstance(kind, str):
        found = "nothing" if kind is None else repr(kind)[:60]
        raise ValueError(f'{source}: expected kind = "the name of a game", found {found}')
    try:
        return load(kind, **content)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
