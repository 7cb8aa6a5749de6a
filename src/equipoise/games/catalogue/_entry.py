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
    #: "matrix" (two-player zero-sum), "normal-form" (general-sum), "markov", "aggregative",
    #: "aggregative-markov" or "continuous".
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


def matrix(rows: Sequence[Sequence[Number | int]]) -> Callable[[], dict[str, Any]]:
    """A builder of one fixed matrix game."""
    return lambda: {"payoff": [[float(entry) for entry in row] for row in rows]}


def bimatrix(
    cells: Sequence[Sequence[tuple[Number | int, Number | int]]],
) -> Callable[[], dict[str, Any]]:
    """A builder of one fixed two-player game, from the pairs of payoffs in its cells."""
    return lambda: {
        "payoffs": [[[float(cell[player]) for cell in row] for row in cells] for player in (0, 1)]
    }


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


def check_whole(name: str, value: Any, at_least: int = 1) -> int:
    """Refuse a parameter that is not a whole number of at least `at_least`."""
    from equipoise.core.checks import check_count  # imports JAX: only once a game is built

    return check_count(name, value, at_least)
