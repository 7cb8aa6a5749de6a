"""Scouts: a few agents who try what their type does not play, so that it need not be guessed.

Nobody could gain by an action that is known to be worse. Where that is not known, one agent of
the type tries the action, which moves the aggregate by its influence at most. The actions that
might bring the largest gain come first; those that cannot pay are left alone.
"""

from dataclasses import dataclass

import numpy as np

from equipoise.aggregative.learning._spec import Spec


@dataclass(frozen=True)
class Errands:
    """What is worth trying in one step and state, the most promising first."""

    #: (errands,) rows and actions.
    rows: np.ndarray
    actions: np.ndarray
    #: How many of them are run in one visit.
    at_once: int

    def turn(self, visit: int) -> np.ndarray:
        """Indices of the errands of the given visit, counted from 0: each has its turn."""
        if not len(self.rows):
            return np.zeros(0, np.int64)
        return (visit * self.at_once + np.arange(self.at_once)) % len(self.rows)

    def send(self, plays: np.ndarray, visit: int) -> np.ndarray:
        """The plays with scouts in them; agents are taken from what most of their type play."""
        plays = plays.copy()
        for index in self.turn(visit):
            row = self.rows[index]
            source = plays[row].argmax()
            if plays[row, source] > 1:
                plays[row, source] -= 1
                plays[row, self.actions[index]] += 1
        return plays


def find_errands(
    spec: Spec,
    place: tuple[int, int],
    plays: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    most: int | None,
    shift: float,
) -> Errands:
    """Untried actions that might pay, given bounds on the rewards at the planned aggregate.

    `most` is how many scouts there may be at once; without it as many as move the aggregate by no
    more than `shift`, and one at least.
    """
    played = plays > 0
    worst = np.where(played, low, np.inf).min(1, keepdims=True)
    hope = np.where(played, -np.inf, high - worst)
    hope[spec.counts < 2] = -np.inf  # who is alone is needed where it is
    # One agent's own influence makes this much; less is not worth a scout.
    rows, actions = np.nonzero(hope > 2.0 * spec.lipschitz * spec.delta)
    order = np.argsort(-hope[rows, actions], kind="stable")
    if most is None:
        most = max(1, int(shift / spec.delta)) if spec.delta > 0 else len(order)
    return Errands(rows[order], actions[order], min(most, len(order)))
