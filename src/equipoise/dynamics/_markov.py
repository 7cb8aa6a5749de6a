"""Learners of Markov games under bandit feedback: mirror descent at every state and V-learning."""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core import InputError, checks, schedules, steps
from equipoise.core.errors import named_arguments
from equipoise.core.schedules import Constant, NamedArguments, Power, Rates, Schedule
from equipoise.core.steps import once
from equipoise.dynamics import _parts as parts
from equipoise.dynamics._learner import MarkovBandit, PolicyLearner, Spec, check_feedback
from equipoise.dynamics._omd import mirror_step

#: Rates for a vanishing regulariser, as functions of the visits of a state instead of rounds.
VANISHING_MARKOV_RATES = Rates(eta=Power(2.0, 0.75), beta=Power(0.5, 1 / 3), eps=Power(0.5, 0.25))
#: The same with the paper's sign of the regulariser, which pushes away from the uniform policy.
PUSHING_MARKOV_RATES = eqx.tree_at(
    lambda rates: rates.eps, VANISHING_MARKOV_RATES, Power(-0.5, 0.25)
)
#: The default rates, for a moving anchor.
MARKOV_RATES = Rates(eta=Power(25.0, 1.0), beta=Power(0.25, 0.4), eps=Constant(0.25))


class MarkovLoss(eqx.Module, metaclass=NamedArguments):
    """A loss computed from the reward and the value of the next state."""

    @abstractmethod
    def __call__(self, value: Any, target: Any, discount: float) -> jax.Array:
        """Return the loss; `target` is `reward + discount * value of the next state`."""


class Advantage(MarkovLoss):
    """The loss `V(s) - target`, with the value of the state as the baseline.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import Advantage
    >>> float(Advantage()(jnp.array(2.0), jnp.array(1.5), discount=0.5))
    0.5
    """

    def __call__(self, value: Any, target: Any, discount: float) -> jax.Array:
        """Return the shortfall of the target from the value."""
        return value - target


class Shortfall(MarkovLoss):
    """The loss `1 / (1 - discount) - target`, the distance of the target from the largest value.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import Shortfall
    >>> float(Shortfall()(jnp.array(2.0), jnp.array(1.5), discount=0.5))
    0.5
    """

    def __call__(self, value: Any, target: Any, discount: float) -> jax.Array:
        """Return the shortfall."""
        return 1.0 / (1.0 - discount) - target


class MarkovPrintedSign(MarkovLoss):
    """The loss `+target`, as printed in the in-context paper: it minimises the player's reward."""

    def __call__(self, value: Any, target: Any, discount: float) -> jax.Array:
        """The target."""
        return jnp.asarray(target)


class MarkovState(eqx.Module):
    """State of `MarkovOMD`: policy, value and number of visits of every state."""

    #: (states, actions, ...)
    policy: jax.Array
    #: (states, ...): values of this player's own discounted rewards.
    values: jax.Array
    #: (states, ...)
    visits: jax.Array
    #: State of the anchor, (states, ...) each.
    anchor: Any
    discount: float = eqx.field(static=True)


class MarkovOMD(PolicyLearner):
    """Mirror descent for Markov games (in-context paper, Algorithm 1), corrected.

    On the `tau`-th visit of state `s`, with all rates taken at `tau`,

        target = r + discount * V(s')
        x(s)  <- argmin_p <p, g> + distance(p, x(s)) * 2 / eta,   p_a >= floor / A
        g      = 1{a} loss / (x_a(s) + beta) + eps * pull(x(s))
        V(s)  <- V(s) + value_step * (target - V(s))

    where `pull` is towards the anchor. By default the anchor follows the play and `eps` does not
    vanish; `MarkovOMD.vanishing()` pulls towards uniform with vanishing `eps`, as in the paper.

    Differences from the paper: the loss (`V(s) - target`; the paper's r is a cost by its formulas,
    `plain`, and a reward by its words, `printed_signs`), the sign of the regulariser, the squared
    distance, and the rates. The paper prints the algorithm for one player; here the `V` of each
    player estimates its own reward. As in the paper, `V` starts at `1 / (2 (1 - discount))`.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=2, states=2).sample(8, key=0)
    >>> learner = eq.dynamics.MarkovOMD()
    >>> trace = eq.dynamics.play(games, learner, learner, rounds=100, key=1)
    >>> trace.last[0].shape
    (8, 2, 2)
    """

    sees: ClassVar[type] = MarkovBandit

    #: Schedules of `eta`, `beta`, `eps` and the floor.
    rates: Rates = MARKOV_RATES
    #: Mirror map, which defines the distance.
    mirror: parts.MirrorMap = parts.Euclidean()
    #: Loss that the policy minimises.
    loss: MarkovLoss = Advantage()
    #: Step size of the value estimates.
    value_step: Schedule = Power(1.0, 0.7)
    #: Policy that the regulariser pulls towards.
    anchor: parts.Anchor = parts.MovingAnchor(Power(1.0, 1.0))

    @classmethod
    def vanishing(cls) -> "MarkovOMD":
        """Return the paper's learner with working rates: the pull towards uniform vanishes.

        >>> float(MarkovOMD.vanishing().rates.eps(16))
        0.25
        """
        return cls(rates=VANISHING_MARKOV_RATES, anchor=parts.UniformAnchor())

    @classmethod
    def printed_constants(cls, rounds: int) -> "MarkovOMD":
        """Return the learner with the paper's rates for a horizon of `rounds` and corrected signs.

        Values follow their targets at the rate `tau^-2/3` (proof of Theorem 4.4).

        >>> round(float(MarkovOMD.printed_constants(1000).value_step(8)), 6)
        0.25
        """
        return cls(
            rates=schedules.paper(rounds),
            value_step=Power(1.0, 2 / 3),
            anchor=parts.UniformAnchor(),
        )

    @classmethod
    def plain(cls) -> "MarkovOMD":
        """Return `vanishing` with the target as a cost, as in the paper's formulas.

        >>> type(MarkovOMD.plain().loss).__name__
        'Shortfall'
        """
        anchor = parts.UniformAnchor()
        return cls(rates=VANISHING_MARKOV_RATES, loss=Shortfall(), anchor=anchor)

    @classmethod
    def printed_regulariser(cls) -> "MarkovOMD":
        """Return `plain` with the paper's sign of the regulariser, which pushes away from uniform.

        >>> float(MarkovOMD.printed_regulariser().rates.eps(1))
        -0.5
        """
        return cls(rates=PUSHING_MARKOV_RATES, loss=Shortfall(), anchor=parts.UniformAnchor())

    @classmethod
    def printed_signs(cls) -> "MarkovOMD":
        """Return the learner with the signs of the paper's words and rates that let it move.

        >>> float(MarkovOMD.printed_signs().rates.eps(1))
        -0.5
        """
        anchor = parts.UniformAnchor()
        return cls(rates=PUSHING_MARKOV_RATES, loss=MarkovPrintedSign(), anchor=anchor)

    def init(self, spec: Spec) -> MarkovState:
        """Return the first state: uniform policies, values in the middle of their range."""
        if spec.states is None:
            raise InputError("spec", "a number of states", "None")
        values = jnp.full(spec.states, 0.5 / (1.0 - spec.discount), jnp.result_type(float))
        visits, anchor = jnp.zeros(spec.states, jnp.int32), self.anchor.init(spec.uniform)
        return MarkovState(spec.uniform, values, visits, anchor, spec.discount)

    def update(self, state: MarkovState, feedback: MarkovBandit) -> MarkovState:
        """Take one step at the visited state."""
        check_feedback(feedback, state.policy.shape[1], state.policy.shape[0])
        here = steps.is_at(feedback.state, state.visits.shape[0])
        tau = once(steps.pick(state.visits, feedback.state) + 1)
        value = once(steps.pick(state.values, feedback.state))
        ahead = steps.pick(state.values, feedback.next_state)
        target = once(feedback.reward + state.discount * ahead)
        policy = once(steps.pick(state.policy, feedback.state))
        anchor = jax.tree.map(lambda leaf: once(steps.pick(leaf, feedback.state)), state.anchor)
        loss = self.loss(value, target, state.discount)
        losses, _ = parts.ImplicitExploration().estimate(
            (), policy, feedback.action, loss, self.rates.beta(tau), tau
        )
        policy = once(mirror_step(self, policy, anchor, losses, tau))
        anchor = self.anchor.update(anchor, policy, tau)
        value = once(value + self.value_step(tau) * (target - value))
        return MarkovState(
            jnp.where(here[:, None], policy, state.policy),
            jnp.where(here, value, state.values),
            state.visits + here,
            jax.tree.map(lambda new, old: jnp.where(here[:, None], new, old), anchor, state.anchor),
            state.discount,
        )


@named_arguments
def MarkovEntropicOMD(epsilon: float = 0.1) -> MarkovOMD:
    """Entropic mirror descent for Markov games, with the rates of Cai et al. (2023, Algorithm 2).

    Exponents `(5, 3, 1, 9) / (9 + epsilon)` for eta, beta, eps and the value step; the entropy
    pulls towards the uniform policy. Their losses are in [0, 1 / (1 - discount)].

    **Example**

    >>> import equipoise as eq
    >>> isinstance(eq.dynamics.MarkovEntropicOMD().mirror, eq.dynamics.Entropic)
    True
    """
    eta, beta, eps, value = (k / (9.0 + epsilon) for k in (5, 3, 1, 9))
    rates = Rates(eta=Power(2.0, eta), beta=Power(1.0, beta), eps=Power(1.0, eps))
    return MarkovOMD(
        rates=rates,
        mirror=parts.Entropic(),
        loss=Shortfall(),
        value_step=Power(1.0, value),
        anchor=parts.UniformAnchor(),
    )


class VLearningState(eqx.Module):
    """State of `VLearning`: weighted losses, optimistic values, visits, and the policy."""

    #: (states, actions, ...): weighted averages of estimated losses, in [0, 1] units.
    losses: jax.Array
    policy: jax.Array
    #: (states, ...): values, before they are clipped to the largest possible value.
    values: jax.Array
    visits: jax.Array
    discount: float = eqx.field(static=True)


class VLearning(PolicyLearner):
    """V-learning (Jin, Liu, Wang and Yu, 2021), for discounted games instead of episodes.

    With `H = 1 / (1 - discount)` and on the `t`-th visit of a state, `alpha_t = (H+1) / (H+t)`,

        V <- (1 - alpha_t) V + alpha_t (r + discount * V(s') + bonus_t)
        L <- (1 - alpha_t) L + alpha_t 1{a} loss / (x_a + eta_t)
        x proportional to exp(-scale (eta_t / alpha_t) L)

    where `eta_t = sqrt(H log A / (A t))`, losses are scaled to [0, 1] and
    `bonus_t = bonus * sqrt(H^3 A / t)`. The guarantee is for the output policy, a mixture of
    all policies played, which `certified_output` returns. The last policy has no guarantee.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=2, states=2).sample(8, key=0)
    >>> learner = eq.dynamics.VLearning()
    >>> eq.dynamics.play(games, learner, learner, rounds=100, key=1).last[1].shape
    (8, 2, 2)
    """

    sees: ClassVar[type] = MarkovBandit

    #: Factor of the step size.
    scale: float = 1.0
    #: Factor of the optimistic bonus.
    bonus: float = 0.01

    def __check_init__(self) -> None:
        checks.check_range("scale", self.scale, 0.0, float("inf"), low_open=True, high_open=True)
        checks.check_range("bonus", self.bonus, 0.0, float("inf"), high_open=True)

    def init(self, spec: Spec) -> VLearningState:
        """Return the first state: uniform policies, the largest possible values."""
        if spec.states is None:
            raise InputError("spec", "a number of states", "None")
        values = jnp.full(spec.states, 1.0 / (1.0 - spec.discount), jnp.result_type(float))
        losses, visits = jnp.zeros_like(spec.uniform), jnp.zeros(spec.states, jnp.int32)
        return VLearningState(losses, spec.uniform, values, visits, spec.discount)

    def update(self, state: VLearningState, feedback: MarkovBandit) -> VLearningState:
        """Update the value, the losses and the policy of the visited state."""
        horizon = 1.0 / (1.0 - state.discount)
        actions = state.losses.shape[1]
        check_feedback(feedback, actions, state.losses.shape[0])
        here = steps.is_at(feedback.state, state.visits.shape[0])
        t = once((steps.pick(state.visits, feedback.state) + 1).astype(state.values.dtype))
        alpha = once(mixing_weight(t, state.discount))
        eta = once(jnp.sqrt(horizon * jnp.log(float(actions)) / (actions * t)))
        ahead = jnp.minimum(steps.pick(state.values, feedback.next_state), horizon)
        target = once(feedback.reward + state.discount * ahead)
        bonus = self.bonus * jnp.sqrt(horizon**3 * actions / t)
        value = steps.pick(state.values, feedback.state)
        value = once(value + alpha * (target + bonus - value))
        played = steps.is_at(feedback.action, actions)
        chance = steps.pick(steps.pick(state.policy, feedback.state), feedback.action)
        estimate = once((1.0 - target / horizon) / (chance + eta))
        losses = steps.pick(state.losses, feedback.state)
        losses = once(losses + alpha * (jnp.where(played, estimate, 0.0) - losses))
        rate = self.scale * eta / alpha
        weights = once(jnp.exp(-rate * (losses - steps.smallest(losses))))
        policy = once(weights / steps.total(weights))
        return VLearningState(
            jnp.where(here[:, None], losses, state.losses),
            jnp.where(here[:, None], policy, state.policy),
            jnp.where(here, value, state.values),
            state.visits + here,
            state.discount,
        )


def mixing_weight(t: Any, discount: Any) -> Any:
    """Return V-learning's `alpha_t = (H + 1) / (H + t)` for visit `t`, `H = 1 / (1 - discount)`.

    >>> mixing_weight(1, 0.5)
    1.0
    """
    horizon = 1.0 / (1.0 - discount)
    return (horizon + 1.0) / (horizon + t)
