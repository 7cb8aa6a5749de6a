"""Two-player zero-sum discounted Markov games, one or many at once."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from equipoise.core import checks
from equipoise.core.values import frozen, read_only
from equipoise.games._game import BatchedGame, Labels


class MarkovGame(BatchedGame):
    """A zero-sum stochastic game with discount (Shapley, 1953).

    In state `s`, after actions `a` and `b`, the row player receives `reward[s, a, b]`, the
    column player minus it, and the next state is drawn from `transition[s, a, b]`. Rewards are
    discounted by `discount` per step. Leading axes are batch axes, the same for both arrays;
    the discount is one number for the whole batch. `labels` names the players, their actions and
    the states.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> stay = np.zeros((2, 2, 2, 2)); stay[0, ..., 0] = 1; stay[1, ..., 1] = 1
    >>> game = eq.MarkovGame(reward=np.ones((2, 2, 2)), transition=stay, discount=0.5)
    >>> game.states, game.actions
    (2, (2, 2))
    """

    kind: ClassVar[str] = "markov"
    reward: Float[np.ndarray | jax.Array, "*batch states rows columns"]
    transition: Float[np.ndarray | jax.Array, "*batch states rows columns states"]
    discount: float = eqx.field(static=True)
    labels: Labels = eqx.field(static=True)

    def __init__(self, reward: Any, transition: Any, discount: float, *, labels: Any = None):
        reward = read_only("reward", reward)
        transition = read_only("transition", transition)
        checks.check_ndim("reward", reward, 3, "(..., states, rows, columns)")
        checks.check_shape(
            "transition",
            transition,
            (*reward.shape, reward.shape[-3]),
            "the shape of reward followed by the number of states",
        )
        checks.check_finite("reward", reward)
        transition = checks.check_probabilities("transition", transition)
        checks.check_range("discount", discount, 0.0, 1.0, high_open=True)
        self.reward = reward
        self.transition = frozen(transition)
        self.discount = float(discount)
        states, *actions = reward.shape[-3:]
        self.labels = Labels.of(labels, players=2, actions=actions, states=states)

    @property
    def states(self) -> int:
        """Number of states."""
        return self.reward.shape[-3]

    @property
    def actions(self) -> tuple[int, int]:
        """Number of actions of the row player and of the column player."""
        rows, columns = self.reward.shape[-2:]
        return rows, columns

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch; `()` for a single game."""
        return tuple(self.reward.shape[:-3])

    def describe(self) -> str:
        """The game in a few words."""
        text = f"{self._counted('zero-sum Markov game')}, {self.states} states"
        return f"{text}, discount {self.discount:g}, {' x '.join(map(str, self.actions))}"

    def __getitem__(self, index: Any) -> "MarkovGame":
        """One game of a batch, or a slice of it."""
        reward, transition = (self._take(a, index) for a in (self.reward, self.transition))
        return MarkovGame(reward, transition, self.discount, labels=self.labels)
