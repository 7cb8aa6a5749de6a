"""Two-player games whose payoff tables follow from a few parameters.

Each function takes checked parameters from `games.toml` and returns the arguments of the game's
class.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.games.catalogue._parameters import check_positive, check_table


def biased_rock_paper_scissors(rock: float, paper: float, scissors: float) -> dict[str, Any]:
    """The parameters are the payoffs of winning with each action."""
    wins = {"rock": rock, "paper": paper, "scissors": scissors}
    for name, win in wins.items():
        check_positive(name, win, "win")
    payoff = [[0, -paper, rock], [paper, 0, -scissors], [-rock, scissors, 0]]
    return {"payoff": payoff, "labels": {"actions": [list(wins)]}}


def constant(rows: int, columns: int, payoff: float) -> dict[str, Any]:
    """All payoffs are equal."""
    check_table("rows", rows, columns)
    return {"payoff": np.full((rows, columns), payoff)}


def diagonal(entries: tuple[float, ...]) -> dict[str, Any]:
    """Payoffs are zero unless both players choose the same action."""
    if not entries or not all(entry > 0 for entry in entries):
        raise InputError("entries", "one or more positive numbers", repr(entries))
    check_table("entries", len(entries), len(entries))
    return {"payoff": np.diag(entries)}


def morra(fingers: int) -> dict[str, Any]:
    """Show some fingers and guess how many the other player shows."""
    check_table("fingers", *[fingers] * 4)
    choices = [(s, g) for s in range(1, fingers + 1) for g in range(1, fingers + 1)]
    shown, guess = np.array(choices, np.float64).T
    right = np.subtract(guess[:, None] == shown, shown[:, None] == guess, dtype=np.float64)
    names = [f"show {s}, guess {g}" for s, g in choices]
    return {"payoff": right * (shown[:, None] + shown), "labels": {"actions": [names]}}


def _numbers(name: str, largest: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the numbers from 1 on that both players may choose, and their labels."""
    check_table(name, largest, largest)
    labels = {"actions": [[f"number {number}" for number in range(1, largest + 1)]]}
    return np.arange(1.0, largest + 1), labels


def mendelsohn(numbers: int) -> dict[str, Any]:
    """A number one larger than the other wins; a number two or more larger loses."""
    choices, labels = _numbers("numbers", numbers)
    above = choices[:, None] - choices
    return {"payoff": np.where(abs(above) < 2, above, -2 * np.sign(above)), "labels": labels}


def silverman(largest: int, threshold: float, penalty: float) -> dict[str, Any]:
    """The larger number wins, unless it is too large."""
    if not threshold > 1:
        raise InputError("threshold", "a number above 1", threshold)
    check_positive("penalty", penalty)
    choices, labels = _numbers("largest", largest)
    mine, other = choices[:, None], choices
    # Gain of the player with the larger number.
    gain = np.where(np.maximum(mine, other) < threshold * np.minimum(mine, other), 1.0, -penalty)
    return {"payoff": np.sign(mine - other) * gain, "labels": labels}


def colonel_blotto(first: int, second: int, fields: int, scoring: str) -> dict[str, Any]:
    """Troops are divided among fields."""
    if scoring not in ("regiments", "fields"):
        raise InputError("scoring", "'regiments' or 'fields'", repr(scoring))
    check_table("fields", fields, *(_ways(troops, fields) for troops in (first, second)))
    names = [[*_allocations(troops, fields)] for troops in (first, second)]
    rows, columns = (np.array(ways, np.float64) for ways in names)
    payoff = np.zeros((len(rows), len(columns)))
    for mine, other in zip(rows.T[:, :, None], columns.T[:, None], strict=True):
        worth = 1 + np.minimum(mine, other) if scoring == "regiments" else 1.0
        payoff += np.sign(mine - other) * worth
    actions = [["-".join(map(str, way)) for way in ways] for ways in names]
    return {"payoff": payoff, "labels": {"actions": actions}}


def _ways(troops: int, fields: int) -> float:
    """Return the number of ways to divide the troops; infinite if it is too large to count."""
    return comb(troops + fields - 1, fields - 1) if max(troops, fields) < 1000 else math.inf


def _allocations(troops: int, fields: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to divide the troops among the fields, in lexicographic order."""
    if fields == 1:
        yield (troops,)
        return
    for here in range(troops + 1):
        for rest in _allocations(troops - here, fields - 1):
            yield here, *rest


def inspection(periods: int, inspections: int) -> dict[str, Any]:
    """The first period: waiting leads to the value of the remaining game."""
    if inspections >= periods:
        raise InputError("inspections", f"fewer than the {periods} periods", inspections)

    def value(left: int) -> float:
        """Return the violator's value from the next period on, with `left` inspections left."""
        reach = sum(comb(periods - 1, i) for i in range(left + 1))
        return float(Fraction(comb(periods - 2, left), reach))

    labels = {
        "players": ["violator", "inspector"],
        "actions": [["wait", "violate"], ["inspect", "do not"]],
    }
    return {"payoff": [[value(inspections - 1), value(inspections)], [-1, 1]], "labels": labels}


def hide_and_seek(size: int) -> dict[str, Any]:
    """One player hides in a cell; the other searches a row or a column."""
    check_table("size", 2 * size, size, size)
    each = np.eye(size)
    payoff = np.concatenate([np.repeat(each, size, 1), np.tile(each, (1, size))])
    lines = [f"{axis} {line}" for axis in ("row", "column") for line in range(1, size + 1)]
    cells = [f"{row}, {column}" for row in range(1, size + 1) for column in range(1, size + 1)]
    labels = {"players": ["seeker", "hider"], "actions": [lines, cells]}
    return {"payoff": payoff, "labels": labels}


def travellers_dilemma(low: int, high: int, bonus: int) -> dict[str, Any]:
    """Both get the lower claim, plus a bonus for the lower claim or minus it for the higher."""
    if high <= low:
        raise ValueError(f"high: expected more than low, which is {low}, found {high}")
    check_table("high", 2, high - low + 1, high - low + 1)
    claims = np.arange(low, high + 1, dtype=np.float64)
    mine, other = claims[:, None], claims
    row = np.minimum(mine, other) + bonus * np.sign(other - mine)
    labels = {"actions": [[f"claim {int(claim)}" for claim in claims]]}
    return {"payoffs": np.stack([row, row.T]), "labels": labels}
