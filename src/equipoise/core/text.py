"""What `print` shows of games, solutions and certificates: a few lines, with names.

A result that a public function returns carries an `About`: what it is about, in words. Policies
list their rows by these names; nothing here depends on the kind of a game.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from textwrap import wrap
from typing import Any, TypeVar

import numpy as np

from equipoise.core.errors import named_arguments
from equipoise.core.html import format_value

#: Most rows below a heading, and most characters of a line.
ROWS, WIDTH = 8, 100

_Result = TypeVar("_Result")


@dataclass(slots=True)  # a frozen one takes microseconds longer to make
class About:
    """The description and the names of a game or a log; its `labels` are `games.Labels`."""

    title: str
    labels: Any = None
    #: Who gains, and what the value of a solution measures.
    who: str = "player"
    measure: str = "value"
    #: Number of entries of a certificate.
    players: int = 0
    batch_shape: tuple[int, ...] = ()
    #: The nodes from which and to which each link of a network leads, and each population travels.
    links: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)
    trips: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)

    def player(self, number: int) -> str:
        """Return a player's name, or its number with the word for it."""
        names = getattr(self.labels, "players", None)
        if names is not None:
            return names[number]
        if self.trips is not None:
            return self.ends(self.trips, number)
        if self.who == "player" and self.players == 2:
            return ("row", "column")[number]
        return f"{self.who} {number}"

    def named(self, kind: str, number: int) -> str:
        """Return the name of a state, type or context, or its number with the word for it."""
        names = getattr(self.labels, f"{kind}s", None)
        return f"{kind} {number}" if names is None else names[number]

    def actions(self, player: int) -> Sequence[str] | None:
        """Return the names of a player's actions, or None."""
        return None if self.labels is None else self.labels.actions_of(player)

    def action(self, player: int, action: int) -> str:
        """Return the name of a player's action, or its number as text."""
        names = self.actions(player)
        return str(action) if names is None else names[action]

    def link(self, number: int) -> str:
        """Return the ends of a link; the number of a resource, which has none."""
        return f"{number}" if self.links is None else self.ends(self.links, number)

    def ends(self, pairs: tuple[np.ndarray, np.ndarray], number: int) -> str:
        """Return the names of the two nodes of a link or a population.

        >>> About("", links=(np.array([0, 4]), np.array([4, 1]))).link(1)
        '4 to 1'
        """
        nodes = getattr(self.labels, "states", None)
        first, last = (int(side[number]) for side in pairs)
        return f"{first} to {last}" if nodes is None else f"{nodes[first]} to {nodes[last]}"


#: Of results that no public function has named, such as those read from files.
NOTHING = About("")


def about(result: Any) -> About:
    """Return what a result is about.

    >>> about(object()).title
    ''
    """
    return getattr(result, "_about", NOTHING)


def named(result: _Result, source: Any) -> _Result:
    """Attach to a result what it is about, which is no part of its content; return it."""
    vars(result)["_about"] = source  # results are frozen, and this is no part of their content
    if (certificate := getattr(result, "certificate", None)) is not None:
        vars(certificate)["_about"] = source
    return result


@named_arguments
def play_in_words(
    chances: Sequence[float] | np.ndarray,
    names: Sequence[str] | None,
    form: str = ".3g",
    least: float = 5e-4,
) -> str:
    """Return the actions of a mixed strategy by name, the most likely first.

    Without names, return the probabilities of all actions. `form` formats probabilities; those
    below `least` are left out.

    **Example**

    >>> from equipoise.report import play_in_words
    >>> play_in_words([0.25, 0.0, 0.75], ("rock", "paper", "scissors"))
    'scissors 0.75, rock 0.25'
    >>> play_in_words([0.25, 0.0, 0.75], None)
    '(0.25, 0, 0.75)'
    """
    chances = np.asarray(chances)
    if names is None:
        return format_value(chances, 3)
    order = np.argsort(-chances, kind="stable")
    return ", ".join(f"{names[a]} {chances[a]:{form}}" for a in order if chances[a] >= least)


def first_rows(rows: Iterable[Sequence[str]], count: int, most: int = ROWS) -> Iterator[str]:
    """Yield the first rows as aligned lines, and how many of `count` are left out.

    >>> list(first_rows([("Ann", "left"), ("Bob", "right")], 4))
    ['  Ann  left', '  Bob  right', '  ... 2 more']
    """
    shown = list(islice(rows, most))
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield cut("  " + "  ".join(cells).rstrip())
    if count > len(shown):
        yield f"  ... {count - len(shown):,} more"


def cut(line: str) -> str:
    """Return a line of at most `WIDTH` characters, which ends with a whole word if words are short.

    >>> len(cut(200 * "x")), cut(90 * "x" + " -0.66666")[88:]
    (100, 'xx ...')
    """
    if len(line) <= WIDTH:
        return line
    end = WIDTH - 4
    word = line.rfind(" ", WIDTH // 2, end + 1)  # half a number would be another number
    return line[: end if word < 0 else word].rstrip() + " ..."


def wrapped(sentence: object) -> list[str]:
    """Return the lines of a sentence, which are indented from the second on.

    >>> [len(line) <= WIDTH for line in wrapped("word " * 30)]
    [True, True]
    """
    return wrap(str(sentence), WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def not_negative(number: Any, rounding: Any) -> float:
    """Return zero for a number that only rounding makes negative.

    >>> not_negative(-1e-16, 1e-15), not_negative(-0.5, 1e-15)
    (0.0, -0.5)
    """
    number = float(number)
    return 0.0 if -float(np.max(rounding)) <= number <= 0.0 else number
