"""Pure policies of many agents: classes of agents who do the same everywhere."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class AggregativePolicy:
    """What every agent plays: one row for each class of agents that play alike.

    Class c is `counts[c]` agents of row (type or agent) `rows[c]` of the game; it plays
    `actions[c]`, one action in a normal-form game, (horizon, states) of them in a Markov game.
    A million agents of a few types fall into a few hundred classes.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> policy = eq.games.AggregativePolicy(rows=[0, 0, 1], counts=[2, 1, 3], actions=[0, 1, 1])
    >>> policy.agents, policy.per_agent().tolist()
    (6, [0, 0, 1, 1, 1, 1])
    >>> policy.plays(types=2, actions=2).tolist()
    [[2, 1], [0, 3]]
    """

    #: (classes,) which row of the game each class belongs to.
    rows: np.ndarray
    #: (classes,) how many agents are in each class.
    counts: np.ndarray
    #: (classes,) or (classes, horizon, states): the action played.
    actions: np.ndarray

    def __init__(self, rows: Any, counts: Any, actions: Any):
        for name, value in (("rows", rows), ("counts", counts), ("actions", actions)):
            array = np.asarray(value)
            if array.dtype.kind not in "iu":
                raise ValueError(f"{name}: expected whole numbers, found dtype {array.dtype}")
            object.__setattr__(self, name, array)
        if self.rows.ndim != 1 or self.counts.shape != self.rows.shape:
            raise ValueError(
                "counts: expected one for each class, as rows; found shapes "
                f"{self.counts.shape} and {self.rows.shape}"
            )
        if self.actions.shape[:1] != self.rows.shape or self.actions.ndim not in (1, 3):
            raise ValueError(
                "actions: expected (classes,) or (classes, horizon, states) with "
                f"{len(self.rows)} classes, found {self.actions.shape}"
            )
        if len(self.rows) and (self.counts.min() < 1 or self.rows.min() < 0):
            raise ValueError("counts, rows: expected counts >= 1 and rows >= 0")

    @property
    def agents(self) -> int:
        """Number of agents."""
        return int(self.counts.sum())

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.rows)

    def per_agent(self) -> np.ndarray:
        """The actions of every agent, row by row of the game; long when there are many."""
        order = np.argsort(self.rows, kind="stable")
        return np.repeat(self.actions[order], self.counts[order], axis=0)

    def plays(self, types: int, actions: int, *stage: int) -> np.ndarray:
        """(types, actions): how many agents of each row play what, in step and state `stage`."""
        played = self.actions[(slice(None), *stage)]
        index = self.rows.astype(np.int64) * actions + played
        counts = np.bincount(index, weights=self.counts, minlength=types * actions)
        return counts.reshape(types, actions).astype(np.int64)
