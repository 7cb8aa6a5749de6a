"""What the catalogue knows about a game, and small words to write it down with."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

#: An exact number where one is known, else the nearest float.
Number = Fraction | float
#: The probabilities of one player's actions.
Strategy = tuple[Number, ...]
#: A strategy for each state.
StationaryStrategy = tuple[Strategy, ...]


@dataclass(frozen=True)
class Entry:
    """A named game: where it comes from, what it is worth, and how to build it.

    `value` and `equilibrium` are those of the game with its default parameters. The value is
    that to the first player of a zero-sum game, a number, or one for each state of a Markov
    game; it is None for general-sum games and where no closed form is known. The equilibrium is
    one of possibly many: a strategy for each player, or one for each player and state.

    **Example**

    >>> import equipoise as eq
    >>> entry = eq.games.describe("kuhn-poker")
    >>> entry.kind, entry.value
    ('matrix', Fraction(-1, 18))
    >>> eq.games.describe("mendelsohn").parameters
    {'numbers': 5}
    """

    #: The word `load` takes.
    name: str
    title: str
    #: A word of `equipoise.games.kinds.KINDS`.
    kind: str
    #: Where the game, or its solution, was published.
    source: str
    #: Parameters of the game -> arguments of the constructor of its kind.
    build: Callable[..., dict[str, Any]] = field(repr=False, compare=False)
    value: Number | tuple[Number, ...] | None = None
    equilibrium: tuple[Strategy | StationaryStrategy, ...] | None = None
    notes: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the game and their defaults."""
        return {p.name: p.default for p in inspect.signature(self.build).parameters.values()}


def matrix(
    rows: Sequence[Sequence[Number | int]], *actions: str, players: str = ""
) -> Callable[[], dict[str, Any]]:
    """A builder of one fixed matrix game; `actions` and `players` are names in one text each."""
    payoff = [[float(entry) for entry in row] for row in rows]
    return lambda: {"payoff": payoff, "labels": named(*actions, players=players)}


def bimatrix(
    cells: Sequence[Sequence[tuple[Number | int, Number | int]]], *actions: str, players: str = ""
) -> Callable[[], dict[str, Any]]:
    """A builder of one fixed two-player game, from the pairs of payoffs in its cells."""
    payoffs = [[[float(cell[player]) for cell in row] for row in cells] for player in (0, 1)]
    return lambda: {"payoffs": payoffs, "labels": named(*actions, players=players)}


def named(*actions: str, players: str = "", states: str = "", types: str = "") -> dict[str, Any]:
    """Labels from texts with commas; one text of actions is that of all players.

    >>> named("heads, tails", players="Rose, Colin")
    {'actions': [['heads', 'tails']], 'players': ['Rose', 'Colin']}
    """
    found: dict[str, Any] = {"actions": [text.split(", ") for text in actions]} if actions else {}
    lists = {"players": players, "states": states, "types": types}
    return found | {name: text.split(", ") for name, text in lists.items() if text}


def mix(*probabilities: str) -> Strategy:
    """A strategy from fractions in words.

    >>> mix("1/3", "2/3")
    (Fraction(1, 3), Fraction(2, 3))
    """
    return tuple(Fraction(p) for p in probabilities)


def uniform(actions: int) -> Strategy:
    """The strategy that plays every action alike."""
    return (Fraction(1, actions),) * actions


def pure(action: int, actions: int) -> Strategy:
    """The strategy that plays one action, counted from zero."""
    return tuple(Fraction(int(a == action)) for a in range(actions))


def check_parameter(name: str, value: Any, default: Any) -> Any:
    """Refuse a parameter of another kind than its default: a word for a number, a number for True.

    Returns it; a whole number such as 1e5 as an int where the default is one.

    >>> check_parameter("discount", "0.9", 0.75)
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: discount: expected a number like 0.75, found '0.9'
    """
    from equipoise.core.errors import InputError

    found = repr(value)[:60] if isinstance(value, str | bool | float) else type(value).__name__
    if isinstance(default, bool | str):
        words = "true or false" if isinstance(default, bool) else f"a word like {default!r}"
        if not isinstance(value, type(default)):
            raise InputError(name, words, found)
        return value
    many = isinstance(default, tuple)
    if many and not isinstance(value, list | tuple):
        raise InputError(name, f"a list of numbers like {default}", found)
    numbers: Any = value if many else (value,)
    for number in numbers:
        # NumPy's numbers are such too.
        if isinstance(number, bool | str) or not hasattr(number, "__float__"):
            raise InputError(name, f"a number like {default}", found)
        if isinstance(number, int) and abs(number) > 10**300:
            raise InputError(name, f"a number like {default}", "one beyond 10^300")
    if isinstance(default, int) and not float(value).is_integer():
        raise InputError(name, f"a whole number like {default}", found)
    return int(value) if isinstance(default, int) else value


def check_whole(name: str, value: Any, at_least: int = 1, at_most: int | None = None) -> int:
    """Refuse a parameter that is not a whole number of at least `at_least`."""
    from equipoise.core.checks import check_count  # imports JAX: only once a game is built
    from equipoise.core.errors import InputError

    count = check_count(name, value, at_least)
    if at_most is not None and count > at_most:
        raise InputError(name, f"a whole number <= {at_most:,}", f"{count:.3g}", "use fewer")
    return count


def check_number(name: str, value: Any, low: float, high: float) -> float:
    """Refuse a parameter outside [low, high]."""
    from equipoise.core.checks import check_range

    check_range(name, value, low, high)
    return float(value)


def check_table(name: str, *sizes: float) -> None:
    """Refuse a parameter that makes a table of numbers of these sizes too large for memory."""
    from equipoise.core.checks import check_memory

    # The table, and what is needed to make it.
    check_memory(name, (32, *sizes), "the table of the game", f"reduce {name}")
