"""A zero-sum matrix as comma-separated values: what a spreadsheet gives.

One line for each action of the row player, one number for each action of the column player; no
header. Blank lines and lines that begin with `#` are skipped. Numbers may be fractions (`1/3`).
"""

import numpy as np

from equipoise.games._matrix import MatrixGame
from equipoise.games.files._tokens import format_number, parse_number


def parse_csv(text: str, source: str) -> MatrixGame:
    r"""The game in the text of a `.csv` file; `source` names the file in errors.

    >>> parse_csv("# biased pennies\n2, -1\n-1, 1\n", "text").actions
    (2, 2)
    """
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        rows.append(_parse_row(line, f"{source}: line {number}"))
        if len(rows[-1]) != len(rows[0]):
            raise ValueError(
                f"{source}: line {number}: expected {len(rows[0])} numbers, as in the first row, "
                f"found {len(rows[-1])}"
            )
    if not rows:
        raise ValueError(f"{source}: expected rows of comma-separated numbers, found none")
    return MatrixGame(rows)


def _parse_row(line: str, place: str) -> list[float]:
    row = []
    for column, cell in enumerate(line.split(","), start=1):
        try:
            row.append(parse_number(cell.strip()))
        except ValueError as error:
            raise ValueError(f"{place}, value {column}: {error}") from None
    return row


def format_csv(game: MatrixGame) -> str:
    r"""The text of a `.csv` file; numbers read back exactly.

    >>> import equipoise as eq
    >>> format_csv(eq.MatrixGame([[1, -1], [0.5, 0]]))
    '1,-1\n0.5,0\n'
    """
    rows = np.asarray(game.payoff, np.float64).tolist()
    return "".join(",".join(format_number(value) for value in row) + "\n" for row in rows)
