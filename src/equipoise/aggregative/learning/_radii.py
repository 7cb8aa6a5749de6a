"""How far estimates may be off: confidence radii that hold for all episodes together."""

from dataclasses import dataclass

import numpy as np

from equipoise.aggregative.learning._spec import Spec


@dataclass(frozen=True)
class Radii:
    """Radii of the theorem in docs/theory/aggregative-learning.md, times `bonus`.

    With `bonus = 1` all of them hold together with probability `1 - failure` or more; with less
    nothing is proven.

    >>> radii = Radii(log_transition=20.0, log_reward=20.0, states=3, noise=0.0, bonus=1.0)
    >>> float(radii.transition(np.array(100)).round(3)), float(radii.reward(np.array(4)))
    (0.332, 0.0)
    """

    log_transition: float
    log_reward: float
    states: int
    noise: float
    bonus: float

    @classmethod
    def of(
        cls, spec: Spec, cells: int, episodes: int, *, noise: float, bonus: float, failure: float
    ) -> "Radii":
        """Radii for so many cells and episodes."""
        places = spec.horizon * spec.states * cells * episodes
        pairs = 2.0 * places * spec.actions * spec.agents
        # Half of the failure probability each; without noise all of it is the transitions'.
        share = failure / 2 if noise > 0 else failure
        return cls(
            log_transition=float(np.log(places / share)),
            log_reward=float(np.log(pairs / share)),
            states=spec.states,
            noise=float(noise),
            bonus=float(bonus),
        )

    def transition(self, count: np.ndarray) -> np.ndarray:
        """Total variation between the empirical and the mean distribution of next states."""
        log = self.states * np.log(2.0) + self.log_transition
        return self.bonus * np.sqrt(log / (2.0 * count))

    def reward(self, count: np.ndarray) -> np.ndarray:
        """Distance between the mean of `count` rewards seen and the mean of their means."""
        return self.bonus * self.noise * np.sqrt(2.0 * self.log_reward / count)
