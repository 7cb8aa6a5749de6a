"""Zero-sum Markov games with SciPy's linear programs at every state, in NumPy."""

import math
from collections.abc import Callable

import numpy as np

#: Solves one matrix game: (value, x, y).
StageSolver = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]
Backup = tuple[np.ndarray, np.ndarray, np.ndarray]


def highs_stage_solver() -> StageSolver:
    """One linear program with HiGHS per stage game, both policies from it."""
    from benchmarks.nash import scipy_highs

    solve = scipy_highs()

    def stage(payoff: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        x, y = solve(payoff)
        return float(x @ payoff @ y), x, y

    return stage


class Game:
    """One game, and the steps both methods are made of."""

    def __init__(
        self, reward: np.ndarray, transition: np.ndarray, discount: float, stage: StageSolver
    ):
        self.reward, self.transition, self.discount = reward, transition, discount
        self.stage = stage

    def backup(self, value: np.ndarray) -> Backup:
        """Values and equilibria of the stage games at `value`."""
        solved = [self.stage(g) for g in self.reward + self.discount * self.transition @ value]
        values, x, y = zip(*solved, strict=True)
        return np.array(values), np.array(x), np.array(y)

    def pair_value(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Value of a policy pair, by one linear solve."""
        weights = x[:, :, None] * y[:, None, :]
        earned = (weights * self.reward).sum((1, 2))
        chain = np.einsum("sab,sabt->st", weights, self.transition, optimize=True)
        return np.linalg.solve(np.eye(len(earned)) - self.discount * chain, earned)

    def shapley(self, tolerance: float, most_sweeps: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Shapley's iteration, and how many times longer it would have taken to finish.

        The last number is one if `most_sweeps` sufficed. Otherwise it follows from the rate:
        in the end the residual shrinks by the discount in every sweep.
        """
        target = tolerance * (1.0 - self.discount) / 2.0
        value, sweeps = np.zeros(len(self.reward)), 0
        while True:
            updated, x, y = self.backup(value)
            residual, value, sweeps = float(np.abs(updated - value).max()), updated, sweeps + 1
            if residual <= target:
                return x, y, 1.0
            if sweeps == most_sweeps:
                left = math.ceil(math.log(target / residual) / math.log(self.discount))
                return x, y, (sweeps + left) / sweeps

    def newton(self, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
        """Pollatschek and Avi-Itzhak's steps, safeguarded as in `markov_numba`."""
        target = tolerance * (1.0 - self.discount) / 2.0
        value = np.zeros(len(self.reward))
        updated, x, y = self.backup(value)
        while (residual := np.abs(updated - value).max()) > target:
            proposal = self.pair_value(x, y)
            solved = self.backup(proposal)
            if np.abs(solved[0] - proposal).max() >= residual:
                proposal = updated
                solved = self.backup(proposal)
            value, (updated, x, y) = proposal, solved
        return x, y
