"""Online mirror descent under bandit feedback, in every combination of its parts.

The parts are a mirror map, a loss form, a gradient estimate and an anchor. Each has a file and
knows nothing of the learner, so that any combination is one.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core import schedules
from equipoise.core.schedules import Constant, Power, Rates
from equipoise.dynamics._anchors import Anchor, MovingAnchor, UniformAnchor
from equipoise.dynamics._estimates import Estimate, ImplicitExploration
from equipoise.dynamics._learner import Bandit, Learner, Spec
from equipoise.dynamics._losses import Baseline, LossForm, PlainLoss, PrintedSign, Standardised
from equipoise.dynamics._mirror import Entropic, Euclidean, LogBarrier, MirrorMap

#: Rates for a regulariser that pulls towards the uniform policy and vanishes.
VANISHING_RATES = Rates(eta=Power(2.0, 0.75), beta=Power(0.5, 1 / 3), eps=Power(1.0, 0.25))
#: The default rates, for a moving anchor and standardised losses; found by search.
DEFAULT_RATES = Rates(eta=Power(25.0, 1.0), beta=Power(0.25, 0.4), eps=Constant(0.25), growth=0.5)


class OMDState(eqx.Module):
    """What a mirror-descent learner remembers."""

    policy: jax.Array
    loss: Any
    estimate: Any
    anchor: Any


class OMD(Learner):
    """Regularised online mirror descent on the truncated simplex (in-context paper, Section 4.1).

    In round `t`, after playing `a` and earning `r`, the step is

        x <- argmin_p <p, g> + distance(p, x) * 2 / eta,   p_a >= floor / A
        g = 1{a} loss(r) / (x_a + beta) + eps * (grad(x) - grad(anchor))

    where `grad` is the gradient of the mirror map. The player minimises a loss, not its reward
    as printed; the regulariser pulls towards an anchor, not away from it; the distance is
    squared; the rates let the policy move.

    `OMD.vanishing()` is the paper's algorithm with no more than that put right: the anchor is the
    uniform policy, and `eps` vanishes. The default goes further. Its anchor follows the play, so
    that `eps` need not vanish (a proximal-point method: noise is forgotten at a constant rate
    and leaves no bias), and losses are measured in units of their spread. Its last policy has
    about half the gap. `OMD.printed_constants(T)` and `OMD.printed_signs()` are as printed, one
    error at a time; `OMD.printed(T)` has both.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(64, key=0)
    >>> trace = eq.dynamics.play(games, eq.dynamics.OMD(), eq.dynamics.OMD(), rounds=2000, key=1)
    >>> bool(eq.certify(games, trace.last).nash_conv.mean() < 0.1)
    True
    """

    sees: ClassVar[type] = Bandit

    rates: Rates = DEFAULT_RATES
    mirror: MirrorMap = Euclidean()
    loss: LossForm = Standardised()
    estimate: Estimate = ImplicitExploration()
    anchor: Anchor = MovingAnchor()

    @classmethod
    def vanishing(cls) -> "OMD":
        """A regulariser that pulls towards uniform and vanishes: the paper's, with working rates.

        >>> float(OMD.vanishing().rates.eps(16))
        0.5
        """
        return cls(rates=VANISHING_RATES, loss=Baseline(), anchor=UniformAnchor())

    @classmethod
    def printed_constants(cls, rounds: int) -> "OMD":
        """The paper's rates for a horizon of `rounds`, with signs put right: it stays uniform.

        >>> round(float(OMD.printed_constants(1000).rates.beta(1)), 6)
        0.1
        """
        return cls(rates=schedules.paper(rounds), loss=Baseline(), anchor=UniformAnchor())

    @classmethod
    def printed_signs(cls) -> "OMD":
        """The paper's signs, with rates that let the policy move: it ends worse than uniform.

        >>> float(OMD.printed_signs().rates.eps(1))
        -1.0
        """
        rates = eqx.tree_at(lambda r: r.eps, VANISHING_RATES, Power(-1.0, 0.25))
        return cls(rates=rates, loss=PrintedSign(), anchor=UniformAnchor())

    @classmethod
    def printed(cls, rounds: int) -> "OMD":
        """The algorithm as printed, constants and signs.

        >>> bool(OMD.printed(1000).rates.eps(1) < 0)
        True
        """
        rates = schedules.paper(rounds)
        negated = jax.tree.map(lambda value: -value, rates.eps)
        rates = eqx.tree_at(lambda r: r.eps, rates, negated)
        return cls(rates=rates, loss=PrintedSign(), anchor=UniformAnchor())

    @classmethod
    def cai_exponents(cls) -> "OMD":
        """The exponents of Cai et al. (2023), 5/8, 3/8 and 1/8, with the Euclidean distance.

        >>> float(OMD.cai_exponents().rates.eta.exponent)
        0.625
        """
        return cls(rates=_cai_rates(), loss=PlainLoss(), anchor=UniformAnchor())

    def init(self, spec: Spec) -> OMDState:
        """Uniform play."""
        uniform = jnp.full(spec.actions, 1.0 / spec.actions, jnp.result_type(float))
        return OMDState(
            uniform,
            self.loss.init(),
            self.estimate.init(spec.actions),
            self.anchor.init(uniform),
        )

    def policy(self, state: OMDState) -> jax.Array:
        """The current iterate."""
        return state.policy

    def update(self, state: OMDState, feedback: Bandit) -> OMDState:
        """One mirror-descent step on the estimated losses."""
        t, rates = feedback.round, self.rates
        loss = self.loss.loss(state.loss, feedback.reward)
        gradient, estimate = self.estimate.estimate(
            state.estimate, state.policy, feedback.action, loss, rates.beta(t), t
        )
        actions = state.policy.shape[0]
        pull = self.anchor.pull(state.anchor, state.policy, self.mirror)
        gradient = gradient + rates.strength(t, actions) * pull
        policy = self.mirror.step(
            state.policy, gradient, rates.step(t, actions), rates.floor(t) / actions
        )
        return OMDState(
            policy,
            self.loss.update(state.loss, feedback.reward, t),
            estimate,
            self.anchor.update(state.anchor, policy, t),
        )


def _cai_rates() -> Rates:
    # Their step is eta, not eta / 2.
    return Rates(eta=Power(2.0, 5 / 8), beta=Power(1.0, 3 / 8), eps=Power(1.0, 1 / 8))


def EntropicOMD(rates: Rates | None = None, loss: LossForm | None = None) -> OMD:
    """Entropic mirror descent with the rates of Cai et al. (2023, Algorithm 1).

    `eta = t^-5/8`, `beta = t^-3/8`, `eps = t^-1/8`, the loss `1 - r`.

    **Example**

    >>> import equipoise as eq
    >>> isinstance(eq.dynamics.EntropicOMD().mirror, eq.dynamics.Entropic)
    True
    """
    return OMD(
        rates=rates or _cai_rates(),
        mirror=Entropic(),
        loss=loss or PlainLoss(),
        anchor=UniformAnchor(),
    )


def LogBarrierOMD(rates: Rates | None = None, loss: LossForm | None = None) -> OMD:
    """Mirror descent with the log barrier as distance and regulariser.

    The rates have the exponents of `OMD.vanishing`; steps are longer, since the barrier shortens
    them by the square of the probabilities.

    **Example**

    >>> import equipoise as eq
    >>> isinstance(eq.dynamics.LogBarrierOMD().mirror, eq.dynamics.LogBarrier)
    True
    """
    default = Rates(eta=Power(36.0, 0.75), beta=Power(0.1, 0.4), eps=Power(0.05, 0.25))
    return OMD(
        rates=rates or default,
        mirror=LogBarrier(),
        loss=loss or Baseline(),
        anchor=UniformAnchor(),
    )
