"""Markov games: zero-sum games of two players (single or batched) and general-sum games."""

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.values import frozen, read_only, static
from equipoise.games._game import BatchedGame, Labels
from equipoise.games._policies import JointPolicy, Mixture, Profile

if TYPE_CHECKING:
    import jax

#: Longest horizon allowed; policies and certificates are computed step by step.
LONGEST = 100_000


class MarkovGame(BatchedGame[Profile]):
    """A stochastic game (Shapley, 1953), zero-sum or general-sum.

    In state `s`, after actions `a` and `b`, the next state is drawn from `transition[s, a, b]`.
    With n players, each has an axis of actions: `transition` is (states, A_1, ..., A_n, states).

    - One reward, `reward[s, a, b]`: a zero-sum game of two players. The first player receives the
      reward and the second pays it. Leading axes are batch axes, the same for both arrays.
    - One reward per player, `reward[i, s, a_1, ..., a_n]`: a single general-sum game.

    Rewards are discounted by `discount` per step. The game has an infinite horizon unless `horizon`
    limits the number of steps; the discount may then be 1, which is the default. Without a horizon
    it is at most 1 - 2**-40, which leaves float64 some digits of the values. `labels` names the
    players, their actions and the states.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> stay = np.zeros((2, 2, 2, 2)); stay[0, ..., 0] = 1; stay[1, ..., 1] = 1
    >>> game = eq.MarkovGame(reward=np.ones((2, 2, 2)), transition=stay, discount=0.5)
    >>> game.states, game.actions
    (2, (2, 2))
    >>> both = eq.MarkovGame(reward=np.ones((2, 2, 2, 2)), transition=stay, horizon=3)
    >>> both.describe()
    'general-sum Markov game, 2 states, 3 steps, 2 x 2'
    """

    kind: ClassVar[str] = "markov"
    #: (..., states, rows, columns), or one such array for each player.
    reward: "np.ndarray | jax.Array"
    transition: "np.ndarray | jax.Array"
    discount: float = static()
    horizon: int | None = static()
    labels: Labels = static()

    def __init__(
        self,
        reward: Any,
        transition: Any,
        discount: float | None = None,
        *,
        horizon: int | None = None,
        labels: Any = None,
    ):
        reward = read_only("reward", reward)
        transition = read_only("transition", transition)
        _check_shapes(reward, transition)
        checks.check_finite("reward", reward)
        transition = checks.check_probabilities("transition", transition)
        horizon = None if horizon is None else checks.check_count("horizon", horizon)
        if horizon is not None and horizon > LONGEST:
            expected = f"at most {LONGEST:,} steps"
            raise InputError("horizon", expected, f"{horizon:g}", "use a discount instead")
        if discount is None and horizon is None:
            raise InputError("discount", "a number in [0, 1) for a game without horizon", None)
        discount = 1.0 if discount is None else discount
        if horizon is None:
            checks.check_discount(discount)
        else:
            checks.check_range("discount", discount, 0.0, 1.0)
        self._set(reward=reward, transition=frozen(transition))
        names = {"players": self.players, "actions": self.actions, "states": self.states}
        labels = Labels.of(labels, **names)
        self._set(discount=float(discount), horizon=horizon, labels=labels)

    @property
    def zero_sum(self) -> bool:
        """Whether the game has a single reward, which the second player pays to the first."""
        return self.reward.ndim < self.transition.ndim

    @property
    def players(self) -> int:
        """Number of players."""
        return 2 if self.zero_sum else self.reward.shape[0]

    @property
    def states(self) -> int:
        """Number of states."""
        return self.transition.shape[-1]

    @property
    def actions(self) -> tuple[int, ...]:
        """Number of actions of each player."""
        return tuple(self.transition.shape[-1 - self.players : -1])

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch; `()` for a single game."""
        return tuple(self.reward.shape[:-3]) if self.zero_sum else ()

    def rewards(self) -> np.ndarray:
        """(players, states, A_1, ..., A_n): one reward table per player, for a single game."""
        reward = np.asarray(self.reward, np.float64)
        return np.stack([reward, 0.0 - reward]) if self.zero_sum else reward

    def check_stationary_zero_sum(self, name: str) -> None:
        """Refuse general-sum games and games with a horizon, for callers that handle neither."""
        if not self.zero_sum or self.horizon is not None:
            expected = "a zero-sum game without horizon"
            raise InputError(name, expected, f"a {self.describe()}", "use `solve` for this game")

    @property
    def _own_axes(self) -> tuple[int, ...]:
        return (self.states,)

    def _checked(self, policy: Any) -> Any:
        """Return strategies by state, or by step and state; in batches, without steps."""
        policy = super()._checked(policy)
        if isinstance(policy, JointPolicy):
            steps = policy.joint.shape[: policy.joint.ndim - self.players - 1]
        elif self.zero_sum and (self.batch_shape or self.horizon is None):
            return policy
        else:
            try:
                steps = np.broadcast_shapes(*(part.shape[:-2] for part in policy))
            except ValueError:
                shapes = [part.shape for part in policy]
                expected = "as many steps for each player"
                raise InputError("policy", expected, f"shapes {shapes}") from None
        if len(steps) > 1:
            axes = "(steps, states, actions...)"
            raise InputError("policy", f"shape {axes}, or without steps", f"axes {steps} too many")
        if self.horizon is not None and steps not in ((), (1,), (self.horizon,)):
            found = math.prod(steps)
            raise InputError("policy", f"{self.horizon} steps, or one for all", found)
        return policy

    def _checked_joint(self, policy: JointPolicy) -> JointPolicy:
        shape = (self.states, *self.actions)
        if policy.actions != self.actions or policy.joint.shape[-len(shape) :] != shape:
            axes = f"(..., {', '.join(map(str, shape))})"
            expected = f"shape (steps, states, actions...) = {axes}, or without steps"
            raise InputError("policy", expected, policy.joint.shape)
        return policy

    def _checked_mixture(self, policy: Mixture) -> Mixture:
        raise InputError("policy", "a Profile or a JointPolicy in a Markov game", "a Mixture")

    def describe(self) -> str:
        """Return a one-line description of the game."""
        kind = "zero-sum" if self.zero_sum else "general-sum"
        text = f"{self._counted(f'{kind} Markov game')}, {self.states} states"
        if self.horizon is not None:
            text += f", {self.horizon} steps"
        if self.horizon is None or self.discount < 1.0:
            text += f", discount {self.discount:g}"
        return f"{text}, {' x '.join(map(str, self.actions))}"

    def __getitem__(self, index: Any) -> "MarkovGame":
        """Return one game of a batch, or a slice of the batch."""
        reward, transition = (self._take(a, index) for a in (self.reward, self.transition))
        options: dict[str, Any] = {"horizon": self.horizon, "labels": self.labels}
        return MarkovGame(reward, transition, self.discount, **options)


def _check_shapes(reward: Any, transition: Any) -> None:
    """Refuse rewards and transitions whose shapes do not fit together."""
    if reward.ndim and reward.ndim == transition.ndim and transition.ndim >= 3:
        shape, players = transition.shape[:-1], transition.ndim - 2
        if reward.shape[1:] == shape and shape[0] == transition.shape[-1]:
            if reward.shape[0] != players:
                raise InputError(
                    "reward",
                    f"one table for each of the {players} players of `transition`",
                    f"{reward.shape[0]} tables",
                )
            return
    checks.check_ndim("reward", reward, 3, "(..., states, rows, columns)")
    checks.check_shape(
        "transition",
        transition,
        (*reward.shape, reward.shape[-3]),
        "the shape of reward followed by the number of states",
    )
