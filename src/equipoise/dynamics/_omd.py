"""Learners of matrix games under bandit feedback: mirror descent with any parts, and EXP3-IX."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core import checks, schedules, steps
from equipoise.core.errors import named_arguments
from equipoise.core.schedules import Constant, Power, Rates
from equipoise.core.steps import once
from equipoise.dynamics import _parts as parts
from equipoise.dynamics._learner import Bandit, PolicyLearner, Spec, check_feedback

#: Rates for a regulariser that pulls towards the uniform policy and vanishes.
VANISHING_RATES = Rates(eta=Power(2.0, 0.75), beta=Power(0.5, 1 / 3), eps=Power(1.0, 0.25))
#: The same with the paper's sign of the regulariser, which pushes away from the uniform policy.
PUSHING_RATES = eqx.tree_at(lambda rates: rates.eps, VANISHING_RATES, Power(-1.0, 0.25))
#: Default rates, for a moving anchor and standardised losses. They were found by search.
DEFAULT_RATES = Rates(eta=Power(25.0, 1.0), beta=Power(0.25, 0.4), eps=Constant(0.25), growth=0.5)


class OMDState(eqx.Module):
    """State of a mirror-descent learner."""

    policy: jax.Array
    loss: Any
    estimate: Any
    anchor: Any


class OMD(PolicyLearner):
    """Regularised online mirror descent on the truncated simplex (in-context paper, Section 4.1).

    In round `t`, after playing `a` and earning `r`, the step is

        x <- argmin_p <p, g> + distance(p, x) * 2 / eta,   p_a >= floor / A
        g = 1{a} loss(r) / (x_a + beta) + eps * (grad(x) - grad(anchor))

    where `grad` is the gradient of the mirror map. Differences from the paper: the player minimises
    a loss, not its reward; the regulariser pulls towards an anchor, not away from it; the distance
    is squared; the rates let the policy move.

    `OMD.vanishing()` is the paper's algorithm with only these corrections: the anchor is the
    uniform policy, and `eps` vanishes. The default differs in two more ways. Its anchor follows
    the play, so that `eps` need not vanish (a proximal-point method, which forgets noise at a
    constant rate and has no bias), and losses are measured in units of their spread. Its last
    policy has about half the NashConv.

    The paper's words make x the max player, and its formulas make x the minimiser of the reward r.
    `OMD.printed_regulariser()` follows the formulas: r is the player's cost, and only the sign of
    the regulariser is wrong. `OMD.printed_signs()` follows the words: the player also minimises its
    own reward. `OMD.plain()` is the reading by the formulas with the sign corrected.
    `OMD.printed_constants(T)` has the printed rates; `OMD.printed(T)` has them with the signs of
    the words.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(64, key=0)
    >>> trace = eq.dynamics.play(games, eq.dynamics.OMD(), eq.dynamics.OMD(), rounds=2000, key=1)
    >>> bool(eq.certify(games, trace.last).nash_conv.mean() < 0.1)
    True
    """

    #: Schedules of `eta`, `beta`, `eps` and the floor.
    rates: Rates = DEFAULT_RATES
    #: Mirror map, which defines the distance.
    mirror: parts.MirrorMap = parts.Euclidean()
    #: Loss that rewards are converted to.
    loss: parts.LossForm = parts.Standardised()
    #: Estimate of the losses of all actions from one reward.
    estimate: parts.Estimate = parts.ImplicitExploration()
    #: Policy that the regulariser pulls towards.
    anchor: parts.Anchor = parts.MovingAnchor()

    @classmethod
    def vanishing(cls) -> "OMD":
        """Return the paper's learner with working rates: the pull towards uniform vanishes.

        >>> float(OMD.vanishing().rates.eps(16))
        0.5
        """
        return cls(rates=VANISHING_RATES, loss=parts.Baseline(), anchor=parts.UniformAnchor())

    @classmethod
    def plain(cls) -> "OMD":
        """Return `vanishing` without a baseline: the loss is the cost `1 - r`, as in the paper.

        >>> type(OMD.plain().loss).__name__
        'PlainLoss'
        """
        return cls(rates=VANISHING_RATES, loss=parts.PlainLoss(), anchor=parts.UniformAnchor())

    @classmethod
    def printed_constants(cls, rounds: int) -> "OMD":
        """Return the learner with the paper's rates and corrected signs: it stays uniform.

        >>> round(float(OMD.printed_constants(1000).rates.beta(1)), 6)
        0.1
        """
        return cls(
            rates=schedules.paper(rounds), loss=parts.Baseline(), anchor=parts.UniformAnchor()
        )

    @classmethod
    def printed_regulariser(cls) -> "OMD":
        """Return `plain` with the paper's sign of the regulariser, which pushes away from uniform.

        This is the reading by the paper's formulas, in which r is the cost of the player.

        >>> float(OMD.printed_regulariser().rates.eps(1))
        -1.0
        """
        return cls(rates=PUSHING_RATES, loss=parts.PlainLoss(), anchor=parts.UniformAnchor())

    @classmethod
    def printed_signs(cls) -> "OMD":
        """Return the learner with the signs of the paper's words: it is worse than uniform.

        In this reading r is the reward of the player, which therefore minimises its own reward.

        >>> float(OMD.printed_signs().rates.eps(1))
        -1.0
        """
        return cls(rates=PUSHING_RATES, loss=parts.PrintedSign(), anchor=parts.UniformAnchor())

    @classmethod
    def printed(cls, rounds: int) -> "OMD":
        """Return the algorithm as printed, with its constants and the signs of its words.

        >>> bool(OMD.printed(1000).rates.eps(1) < 0)
        True
        """
        rates = schedules.paper(rounds)
        negated = jax.tree.map(lambda value: -value, rates.eps)
        rates = eqx.tree_at(lambda r: r.eps, rates, negated)
        return cls(rates=rates, loss=parts.PrintedSign(), anchor=parts.UniformAnchor())

    @classmethod
    def cai_exponents(cls) -> "OMD":
        """Return the learner with the exponents of Cai et al. (2023) and the Euclidean distance.

        The exponents are 5/8, 3/8 and 1/8.

        >>> float(OMD.cai_exponents().rates.eta.exponent)
        0.625
        """
        return cls(rates=_cai_rates(), loss=parts.PlainLoss(), anchor=parts.UniformAnchor())

    def init(self, spec: Spec) -> OMDState:
        """Return the first state, with uniform play."""
        estimate, anchor = self.estimate.init(spec.actions), self.anchor.init(spec.uniform)
        return OMDState(spec.uniform, self.loss.init(), estimate, anchor)

    def update(self, state: OMDState, feedback: Bandit) -> OMDState:
        """Take one mirror-descent step on the estimated losses."""
        check_feedback(feedback, state.policy.shape[0])
        t = feedback.round
        loss = self.loss.loss(state.loss, feedback.reward)
        losses, estimate = self.estimate.estimate(
            state.estimate, state.policy, feedback.action, loss, self.rates.beta(t), t
        )
        policy = mirror_step(self, state.policy, state.anchor, losses, t)
        return OMDState(
            policy,
            self.loss.update(state.loss, feedback.reward, t),
            estimate,
            self.anchor.update(state.anchor, policy, t),
        )


def mirror_step(learner: Any, policy: Any, anchor: Any, losses: Any, t: Any) -> jax.Array:
    """Take the step of `OMD` (or of `MarkovOMD` at a state) on estimated losses, in round `t`.

    `anchor` is the state of the learner's anchor.
    """
    rates, actions = learner.rates, policy.shape[0]
    pull = learner.anchor.pull(anchor, policy, learner.mirror)
    gradient = losses + rates.strength(t, actions) * pull
    return learner.mirror.step(policy, gradient, rates.step(t, actions), rates.floor(t) / actions)


def _cai_rates() -> Rates:
    # The step size of Cai et al. is eta, not eta / 2.
    return Rates(eta=Power(2.0, 5 / 8), beta=Power(1.0, 3 / 8), eps=Power(1.0, 1 / 8))


@named_arguments
def EntropicOMD(rates: Rates | None = None, loss: parts.LossForm | None = None) -> OMD:
    """Return entropic mirror descent with the rates of Cai et al. (2023, Algorithm 1).

    `eta = t^-5/8`, `beta = t^-3/8`, `eps = t^-1/8`, the loss `1 - r`.

    **Example**

    >>> import equipoise as eq
    >>> isinstance(eq.dynamics.EntropicOMD().mirror, eq.dynamics.Entropic)
    True
    """
    return OMD(
        rates=rates or _cai_rates(),
        mirror=parts.Entropic(),
        loss=loss or parts.PlainLoss(),
        anchor=parts.UniformAnchor(),
    )


@named_arguments
def LogBarrierOMD(rates: Rates | None = None, loss: parts.LossForm | None = None) -> OMD:
    """Return mirror descent with the log barrier as distance and regulariser.

    The rates have the exponents of `OMD.vanishing`. Step sizes are larger, since the barrier
    multiplies steps by the square of the probabilities.

    **Example**

    >>> import equipoise as eq
    >>> isinstance(eq.dynamics.LogBarrierOMD().mirror, eq.dynamics.LogBarrier)
    True
    """
    default = Rates(eta=Power(36.0, 0.75), beta=Power(0.1, 0.4), eps=Power(0.05, 0.25))
    return OMD(
        rates=rates or default,
        mirror=parts.LogBarrier(),
        loss=loss or parts.Baseline(),
        anchor=parts.UniformAnchor(),
    )


class EXP3IXState(eqx.Module):
    """State of `EXP3IX`: cumulative estimated losses minus the smallest of them, and the policy."""

    losses: jax.Array
    policy: jax.Array


class EXP3IX(PolicyLearner):
    """EXP3 with implicit exploration (Neu, 2015, Algorithm 1), anytime.

    `eta_t = scale * sqrt(2 log(A) / (A t))` and `beta_t = eta_t / 2`; the loss is `1 - r`. In
    self-play the guarantee is for the *average* policy; the last policy cycles.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(64, key=0)
    >>> learner = eq.dynamics.EXP3IX()
    >>> trace = eq.dynamics.play(games, learner, learner, rounds=2000, key=1)
    >>> bool(eq.certify(games, trace.average).nash_conv.mean() < 0.12)
    True
    """

    #: Factor of the step size.
    scale: float = 1.0

    def __check_init__(self) -> None:
        checks.check_range("scale", self.scale, 0.0, float("inf"), low_open=True, high_open=True)

    def init(self, spec: Spec) -> EXP3IXState:
        """Return the first state: no losses, uniform play."""
        zeros = jnp.zeros(spec.actions, jnp.result_type(float))
        return EXP3IXState(zeros, zeros + 1.0 / spec.actions)

    def update(self, state: EXP3IXState, feedback: Bandit) -> EXP3IXState:
        """Add the estimated losses, and compute the policy with the rate of the next round."""
        check_feedback(feedback, state.policy.shape[0])
        beta = self._rate(state, feedback.round) / 2.0
        played = steps.is_at(feedback.action, state.losses.shape[0])
        probability = steps.pick(state.policy, feedback.action)
        estimate = once((1.0 - feedback.reward) / (probability + beta))
        losses = state.losses + jnp.where(played, estimate, 0.0)
        losses = once(losses - steps.smallest(losses))
        weights = once(jnp.exp(-self._rate(state, feedback.round + 1) * losses))
        return EXP3IXState(losses, weights / steps.total(weights))

    def _rate(self, state: EXP3IXState, t: Any) -> jax.Array:
        actions = state.losses.shape[0]
        t = jnp.asarray(t, jnp.result_type(float))
        return self.scale * jnp.sqrt(2.0 * jnp.log(float(actions)) / (actions * t))
