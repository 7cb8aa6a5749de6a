"""One small zero-sum game in exact rational arithmetic: no tolerance, no rounding, no cycles.

Floats are rationals, so the game that was given is solved exactly; only the final strategies are
rounded. It is for the few games whose payoffs range over so many orders of magnitude that
float64 cannot even tell the optimal basis.
"""

from fractions import Fraction

import numpy as np


def solve_with_rationals(payoff: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Strategies of one game, by the simplex method with Bland's rule on exact numbers.

    **Example**

    >>> import numpy as np
    >>> from equipoise.core.zerosum import solve_with_rationals
    >>> x, y = solve_with_rationals(np.array([[2.0, -1.0], [-1.0, 1.0]]))
    >>> x.tolist(), y.tolist()
    ([0.4, 0.6], [0.4, 0.6])
    """
    rows, columns = payoff.shape
    shift = 1 - Fraction(float(payoff.min()))
    body = [[Fraction(float(a)) + shift for a in row] for row in payoff]
    right, cost = [Fraction(1)] * rows, [Fraction(-1)] * columns
    row_label, column_label = list(range(columns, columns + rows)), list(range(columns))
    while True:
        improving = [j for j in range(columns) if cost[j] < 0]
        if not improving:
            break
        entering = min(improving, key=column_label.__getitem__)
        eligible = [i for i in range(rows) if body[i][entering] > 0]
        leaving = min(eligible, key=lambda i: (right[i] / body[i][entering], row_label[i]))
        _exchange(body, right, cost, leaving, entering)
        row_label[leaving], column_label[entering] = column_label[entering], row_label[leaving]
    x, y = [Fraction(0)] * rows, [Fraction(0)] * columns
    for i, label in enumerate(row_label):
        if label < columns:
            y[label] = right[i]
    for j, label in enumerate(column_label):
        if label >= columns:
            x[label - columns] = cost[j]
    return _normalised(x), _normalised(y)


def _exchange(
    body: list[list[Fraction]], right: list[Fraction], cost: list[Fraction], r: int, c: int
) -> None:
    """Make the variable of column `c` basic in row `r`, in place."""
    pivot = body[r][c]
    row = [a / pivot for a in body[r]]
    row[c] = 1 / pivot
    step, price = right[r] / pivot, cost[c]
    for i, line in enumerate(body):
        if i != r and line[c]:
            factor = line[c]
            line[c] = Fraction(0)
            body[i] = [a - factor * b for a, b in zip(line, row, strict=True)]
            right[i] -= factor * step
    cost[c] = Fraction(0)
    cost[:] = [a - price * b for a, b in zip(cost, row, strict=True)]
    body[r], right[r] = row, step


def _normalised(weights: list[Fraction]) -> np.ndarray:
    total = sum(weights)
    return np.array([float(w / total) for w in weights])
