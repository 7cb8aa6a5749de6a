"""Estimate the gap of a policy in a fitted model, split by the support of the log.

Theorem 2 splits the gap in two. Deviations whose chi-squared divergence from the behaviour policy
is at most C are *on support*: the log contains data about their gains. The additional gain of
other deviations is *off support* and rests on the model's extrapolation alone. If the first part is
larger, more data of the same kind would help; if the second is larger, different data are needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.certificates import certify
from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.core.precision import double_precision
from equipoise.core.simplex import project
from equipoise.games import ContextualGame, DecoupledMarkovGame, Mixture
from equipoise.offline._model import Model
from equipoise.solvers.no_regret import Dynamics

#: Number of bisections of the interval of multipliers, which initially spans 14 decades.
BISECTIONS = 60


@dataclass(frozen=True)
class GapEstimate:
    """The largest gain (gap) in a fitted model, split into parts on and off the log's support.

    It is exact in the model but says little about the game: a policy learned in the model looks
    better there than it is. `eq.advise` bounds the largest gain in the game itself.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=4_000, key=1)
    >>> model = eq.offline.fit(log, rank=2)
    >>> estimate = eq.offline.estimate_gap(model, model.behaviour, divergence=0.5)
    >>> round(estimate.on_support + estimate.off_support - estimate.gap, 12)
    0.0
    """

    #: Largest gain of any agent in the model; negative for some correlated mixtures.
    gap: float
    #: Part of that gain due to deviations on the support of the log.
    on_support: float
    #: The remainder, due to deviations off the support.
    off_support: float
    #: (agents,): largest gain over all deviations.
    gains: np.ndarray
    #: (agents,): largest gain over deviations on support.
    on_support_gains: np.ndarray
    #: The constant C: a deviation with expected chi^2 up to C is on support.
    divergence: float

    def to_plain(self) -> dict[str, Any]:
        """Return the fields as numbers and arrays, and the estimate in words as "text"."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"text": str(self)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "GapEstimate":
        """Restore an estimate from the result of `to_plain`."""
        return cls(**{f.name: plain[f.name] for f in fields(cls)})

    def __str__(self) -> str:
        near = f"on support (chi^2 <= {self.divergence:g})"
        split = f"{self.on_support:.4g} by deviations {near} and {self.off_support:.4g} off support"
        if self.on_support < 0:
            split = (
                f"deviations gain only off support; the best one {near} loses "
                f"{-self.on_support:.4g}"
            )
            if self.gap <= 0:
                split = "no deviation gains, on support or off"
        return f"{self.gap:.4g} in the fitted model: {split}"


@named_arguments
def estimate_gap(
    model: Any, policy: Any, *, behaviour: Any = None, divergence: float = 1.0
) -> GapEstimate:
    """Split the CCE gap of a product policy or mixture in a fitted model by the log's support.

    This is the decomposition of Theorems 2 and 3 of the interaction-rank paper: deviations in the
    covered class Pi_i(C), and the off-support bias `subopt_i(C)`. `divergence` is the
    constant C. In Markov games the divergence of a deviation is its mean over steps (Theorem 3 uses
    the maximum).

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=2_000, key=1)
    >>> model = eq.offline.fit(log, rank=2)
    >>> print(eq.offline.estimate_gap(model, model.behaviour))
    0... in the fitted model: ... by deviations on support (chi^2 <= 1) and ... off support
    """
    checks.check_range("divergence", divergence, 0.0, np.inf, low_open=True, high_open=True)
    game: Any = model.game if isinstance(model, Model) else model
    if game is None:
        raise InputError("model", "a model with a game", f"rank {model.rank!r}, which has none")
    if behaviour is None:
        if not isinstance(model, Model):
            raise InputError("behaviour", "a product policy", "none")
        behaviour = model.behaviour
    gains = certify(game, policy).gains
    covered = covered_gains(game, policy, behaviour, divergence)
    covered = np.minimum(covered, gains)  # fewer deviations; larger only by bisection error
    worst = int(np.argmax(gains))
    return GapEstimate(
        gap=float(gains.max()),
        on_support=float(covered[worst]),
        off_support=float(gains[worst] - covered[worst]),
        gains=gains,
        on_support_gains=covered,
        divergence=float(divergence),
    )


def covered_gains(
    game: ContextualGame | DecoupledMarkovGame, policy: Any, behaviour: Any, divergence: float
) -> np.ndarray:
    """(agents,): largest gain of a deviation whose expected chi^2 is at most `divergence`.

    A backward pass with a projection in each state finds the deviation that maximises its value
    minus `multiplier * chi^2`. Bisection finds the multiplier at which the expected chi^2 of this
    deviation equals `divergence`.
    """
    markov = isinstance(game, DecoupledMarkovGame)
    mixture = policy if isinstance(policy, Mixture) else Mixture(np.asarray(policy)[None])
    weights, components = mixture.weights, mixture.policies.reshape(-1, *game.policy_shape)
    rewards = np.zeros(game.policy_shape)
    value = np.zeros(game.agents)
    terms = game.interactions
    situations = (terms.situations, terms.agents, terms.moves)
    situation_weights = np.repeat(game.context_probabilities, game.horizon if markov else 1)
    for start in range(0, len(components), 64):
        part, chance = components[start : start + 64], weights[start : start + 64]
        occupied = game.occupancies(part) if markov else part
        flat = occupied.reshape(len(part), *situations)
        expected = terms.expected(flat)
        rewards += np.tensordot(chance, expected, 1).reshape(rewards.shape)
        value += np.einsum("t,s,tsnu,tsnu->n", chance, situation_weights, flat, expected)
    shape = (slice(None), slice(None)) if markov else (slice(None), None, slice(None), None)
    nu = np.asarray(behaviour).reshape(game.policy_shape)
    with double_precision():
        given = (rewards[shape], nu[shape], game.context_probabilities, float(divergence))
        return np.asarray(_covered(Dynamics.of(game), *map(jnp.asarray, given))) - value


@eqx.filter_jit
def _covered(
    dynamics: Dynamics, rewards: Any, behaviour: Any, contexts: Any, divergence: Any
) -> Any:
    """(agents,): best value within the divergence, by bisection over multipliers."""
    scale = jnp.maximum(jnp.abs(rewards).max(), 1e-12) * rewards.shape[1]

    def deviate(multiplier: Any) -> tuple[Any, Any]:
        weight = multiplier[None, :, None, None]
        following = value = spent = jnp.zeros_like(rewards[:, 0, :, :, 0])
        for h in reversed(range(rewards.shape[1])):
            kernel = jnp.asarray(dynamics.transitions[:, h])
            nu = behaviour[:, h]
            q = rewards[:, h] + jnp.einsum("cnsat,cnt->cnsa", kernel, following)
            better = q - (nu * q).sum(-1, keepdims=True)  # constants cost digits
            p = project(nu * (1 + better / (2 * weight)), weights=nu)
            played = jnp.where(nu > 0, nu, 1.0)
            chi = jnp.where(nu > 0, (p - nu) ** 2 / played, 0.0).sum(-1)
            value = (p * (rewards[:, h] + jnp.einsum("cnsat,cnt->cnsa", kernel, value))).sum(-1)
            spent = chi + (p * jnp.einsum("cnsat,cnt->cnsa", kernel, spent)).sum(-1)
            following = (p * q).sum(-1) - weight[..., 0] * chi
        first = jnp.asarray(dynamics.initial)
        total = jnp.einsum("c,cns,cns->n", contexts, first, value)
        used = jnp.einsum("c,cns,cns->n", contexts, first, spent) / rewards.shape[1]
        return total, used

    def halve(_: Any, ends: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = ends
        middle = jnp.sqrt(low * high)
        inside = deviate(middle)[1] <= divergence
        return jnp.where(inside, low, middle), jnp.where(inside, middle, high)

    low = jnp.full(rewards.shape[2], 1e-8 * scale)
    high = jnp.full(rewards.shape[2], 1e6 * scale)
    free, used = deviate(low)
    _, high = jax.lax.fori_loop(0, BISECTIONS, halve, (low, high))
    return jnp.where(used <= divergence, free, deviate(high)[0])
