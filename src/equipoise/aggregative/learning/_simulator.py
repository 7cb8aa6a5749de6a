"""A simulator of a game: the door through which a learner may look at it."""

from typing import Any

import numpy as np

from equipoise.aggregative.learning._spec import Spec
from equipoise.core import checks
from equipoise.games import AggregativeMarkovGame


class Simulator:
    """Plays episodes of a game: `reset()` and `step(actions)`, and a `spec` of what is declared.

    - `key`: where randomness begins. Episode k is a function of the key and k alone, so that a
      learner that was stopped goes on as if it had not been (`seek`).
    - `start`: the state in which episodes begin, or probabilities of the states; all alike
      unless given.
    - `noise`: standard deviation of Gaussian noise in the rewards that are seen.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> env = eq.aggregative.Simulator(eq.games.load("demand-response", agents=100), key=0, start=1)
    >>> env.reset()
    1
    >>> state, rewards = env.step(np.zeros(100, int))
    >>> state in (0, 1, 2), rewards.shape
    (True, (100,))
    """

    #: What a learner is told.
    spec: Spec

    def __init__(
        self,
        game: Any,
        key: int = 0,
        *,
        start: Any = None,
        noise: float = 0.0,
    ):
        if not isinstance(game, AggregativeMarkovGame):
            raise ValueError(
                f"game: expected an AggregativeMarkovGame, found {type(game).__name__}"
            )
        checks.check_range("noise", noise, 0.0, np.inf, high_open=True)
        self._key = checks.check_count("key", key, at_least=0)
        self._start = _as_start(start, game.states)
        self._noise = float(noise)
        # Bound once: looking up attributes of games is slow, and steps are many.
        self._rewards, self._transitions = game.rewards, game.transitions
        self._rows = np.repeat(np.arange(game.types), game.counts)
        starts = np.flatnonzero(self._start > 0)
        self.spec = Spec.of(game, None if len(starts) == game.states else starts.tolist())
        self._episode, self._h, self._state = 0, game.horizon, 0
        self._rng = np.random.default_rng(0)

    @property
    def state(self) -> int:
        """The state the agents are in."""
        return self._state

    @property
    def config(self) -> dict[str, Any]:
        """What tells one simulator from another: a run is not resumed with another."""
        total = 0.0
        for h in range(self.spec.horizon):
            for s in range(self.spec.states):
                low, high = self.spec.box(h, s)
                x = low + 0.37 * (high - low)
                weights = np.cos(np.arange(self.spec.states))
                total += float(self._rewards(h, s, x).sum() + self._transitions(h, s, x) @ weights)
        return {
            "key": self._key,
            "noise": self._noise,
            "start": self._start.tolist(),
            "game fingerprint": round(total, 9),
        }

    def seek(self, episode: int) -> None:
        """Make the next `reset` begin this episode, counted from 0."""
        self._episode = checks.check_count("episode", episode, at_least=0)

    def reset(self) -> int:
        """Begin the next episode; returns its first state."""
        self._rng = np.random.default_rng((self._key, self._episode))
        self._episode += 1
        self._h, self._state = 0, _draw(self._rng, self._start)
        return self._state

    def step(self, actions: Any) -> tuple[int, np.ndarray]:
        """Take (agents,) actions; returns the next state and (agents,) rewards as seen.

        The state after the last step is one that nobody acts in.
        """
        spec, h, s = self.spec, self._h, self._state
        if h >= spec.horizon:
            raise ValueError(f"step: expected reset() after {spec.horizon} steps, found a step")
        actions = np.asarray(actions)
        m = spec.actions
        checks.check_shape("actions", actions, (len(self._rows),), "one for each agent")
        if actions.dtype.kind not in "iu" or actions.min() < 0 or actions.max() >= m:
            raise ValueError(f"actions: expected whole numbers from 0 to {m - 1}")
        cells = self._rows * m + actions
        plays = np.bincount(cells, minlength=spec.types * m).astype(np.float64)
        x = spec.scale * (plays @ spec.influences(h, s).reshape(-1, spec.dimensions))
        rewards = self._rewards(h, s, x).ravel()[cells]
        if self._noise:
            rewards = rewards + self._noise * self._rng.standard_normal(len(cells))
        self._state = _draw(self._rng, self._transitions(h, s, x))
        self._h += 1
        return self._state, rewards


def _as_start(start: Any, states: int) -> np.ndarray:
    """(states,): the chances of first states."""
    if start is None:
        return np.full(states, 1.0 / states)
    if np.ndim(start) == 0:
        state = checks.check_count("start", start, at_least=0)
        if state >= states:
            raise ValueError(f"start: expected a state from 0 to {states - 1}, found {start}")
        return np.eye(states)[state]
    chances = checks.as_float_array("start", start)
    checks.check_shape("start", chances, (states,), "a chance for each state")
    return np.asarray(checks.check_probabilities("start", chances))


def _draw(rng: np.random.Generator, chances: np.ndarray) -> int:
    """One state, by one uniform number."""
    drawn = int(np.searchsorted(np.cumsum(chances), rng.random(), side="right"))
    return min(drawn, len(chances) - 1)
