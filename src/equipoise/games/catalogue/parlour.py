"""Games played with fingers and numbers."""

from fractions import Fraction
from typing import Any

from equipoise.games.catalogue._entry import Entry, Strategy, check_table, check_whole, matrix, mix

_FERGUSON = "T. S. Ferguson, Game Theory, second edition, UCLA, 2014, part II"


def _morra(fingers: int = 2) -> dict[str, Any]:
    import numpy as np

    fingers = check_whole("fingers", fingers)
    check_table("fingers", *[fingers] * 4)
    choices = [(s, g) for s in range(1, fingers + 1) for g in range(1, fingers + 1)]
    shown, guess = np.array(choices, np.float64).T
    right = np.subtract(guess[:, None] == shown, shown[:, None] == guess, dtype=np.float64)
    names = [f"show {s}, guess {g}" for s, g in choices]
    return {"payoff": right * (shown[:, None] + shown), "labels": {"actions": [names]}}


def _three_finger_morra() -> dict[str, Any]:
    return _morra(3)


def _mendelsohn(numbers: int = 5) -> dict[str, Any]:
    import numpy as np

    numbers = check_whole("numbers", numbers)
    check_table("numbers", numbers, numbers)
    choices = np.arange(1.0, numbers + 1)
    above = choices[:, None] - choices
    payoff = np.where(abs(above) < 2, above, -2 * np.sign(above))
    return {"payoff": payoff, "labels": _numbered(numbers)}


def _numbered(largest: int) -> dict[str, Any]:
    """Actions that are the numbers from 1 on."""
    return {"actions": [[f"number {number}" for number in range(1, largest + 1)]]}


def _silverman(largest: int = 10, threshold: float = 3.0, penalty: float = 2.0) -> dict[str, Any]:
    import numpy as np

    largest = check_whole("largest", largest)
    check_table("largest", largest, largest)
    if not threshold > 1:
        raise ValueError(f"threshold: expected a number above 1, found {threshold}")
    if not penalty > 0:
        raise ValueError(f"penalty: expected a positive number, found {penalty}")
    choices = np.arange(1.0, largest + 1)
    mine, other = choices[:, None], choices[None, :]
    # What the player of the larger number gains.
    gain = np.where(np.maximum(mine, other) < threshold * np.minimum(mine, other), 1.0, -penalty)
    return {"payoff": np.sign(mine - other) * gain, "labels": _numbered(largest)}


def _spread(weights: dict[int, str], actions: int) -> Strategy:
    """The strategy that plays a few of the actions, counted from zero."""
    return tuple(Fraction(weights.get(action, 0)) for action in range(actions))


_MORRA_2 = mix("0", "3/5", "2/5", "0")
_MORRA_3 = _spread({2: "5/12", 4: "1/3", 6: "1/4"}, 9)
_MENDELSOHN = mix("1/4", "1/2", "1/4", "0", "0")
_SILVERMAN = _spread({0: "1/4", 1: "1/2", 4: "1/4"}, 10)

GAMES = (
    Entry(
        name="odd-or-even",
        title="Odd or even",
        kind="matrix",
        source=f"{_FERGUSON}, chapter 1",
        build=matrix([[-2, 3], [3, -4]], "one, two", players="Odd, Even"),
        value=Fraction(1, 12),
        equilibrium=(mix("7/12", "5/12"), mix("7/12", "5/12")),
        notes=(
            "Each calls one or two. The row player wins the sum when it is odd and loses it when "
            "it is even: a game that looks fair and is not."
        ),
    ),
    Entry(
        name="morra",
        title="Two-finger Morra",
        kind="matrix",
        source="V. Chvátal, Linear Programming, Freeman, 1983, chapter 15",
        build=_morra,
        value=Fraction(0),
        equilibrium=(_MORRA_2, _MORRA_2),
        notes=(
            "Each shows some fingers and guesses how many the other shows; who alone guesses "
            "right wins the number of fingers shown by both. Action f * (s - 1) + g - 1, of f "
            "fingers, shows s and guesses g. There is a segment of equilibrium strategies."
        ),
    ),
    Entry(
        name="three-finger-morra",
        title="Three-finger Morra",
        kind="matrix",
        source=(
            "the game of V. Chvátal, Linear Programming, Freeman, 1983, chapter 15, "
            "with three fingers"
        ),
        build=_three_finger_morra,
        value=Fraction(0),
        equilibrium=(_MORRA_3, _MORRA_3),
        notes="The guesses of the strategy given always make a total of four.",
    ),
    Entry(
        name="mendelsohn",
        title="Mendelsohn's game: one more than you, but not two",
        kind="matrix",
        source=(
            "N. S. Mendelsohn, A psychological game, American Mathematical Monthly 53 (1946); "
            f"{_FERGUSON}, chapter 3"
        ),
        build=_mendelsohn,
        value=Fraction(0),
        equilibrium=(_MENDELSOHN, _MENDELSOHN),
        notes=(
            "Both choose a number from 1 to `numbers`. Exactly one more than the other wins 1, "
            "two or more above it loses 2. From 4 on, the numbers are dominated."
        ),
    ),
    Entry(
        name="silverman",
        title="Silverman's game: larger, but not too much",
        kind="matrix",
        source=(
            "G. A. Heuer and U. Leopold-Wildburger, Balanced Silverman Games on General Discrete "
            "Sets, Springer, 1991"
        ),
        build=_silverman,
        value=Fraction(0),
        equilibrium=(_SILVERMAN, _SILVERMAN),
        notes=(
            "Both choose a number from 1 to `largest`. The larger wins 1, but loses `penalty` when "
            "it is at least `threshold` times the other. Only 1, 2 and 5 are played."
        ),
    ),
)
