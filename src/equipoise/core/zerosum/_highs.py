"""One zero-sum game by SciPy's HiGHS: the last resort of the cascade."""

import numpy as np
from scipy.optimize import linprog


def solve_with_highs(payoff: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Strategies of one game from one linear program and its dual.

    The payoffs are brought to [0, 1] first, since HiGHS has absolute tolerances.

    **Example**

    >>> import numpy as np
    >>> from equipoise.core.zerosum import solve_with_highs
    >>> x, y = solve_with_highs(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    >>> x.tolist(), y.tolist()
    ([0.5, 0.5], [0.5, 0.5])
    """
    low, high = payoff.min(), payoff.max()
    scaled = (payoff - low) / (high - low) if high > low else np.zeros_like(payoff)
    return _row_strategy(scaled), _row_strategy(1.0 - scaled.T)


def _row_strategy(payoff: np.ndarray) -> np.ndarray:
    """The strategy that maximises the worst column."""
    rows, columns = payoff.shape
    result = linprog(
        c=np.append(np.zeros(rows), -1.0),
        A_ub=np.hstack([-payoff.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.x is None:
        return np.full(rows, 1.0 / rows)  # HiGHS gave up; the game's gap will say so
    x = np.maximum(result.x[:rows], 0.0)
    return x / x.sum()
