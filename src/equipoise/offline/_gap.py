"""How far from equilibrium a policy is, told from a log alone, and what limits the answer.

Theorem 2 splits the gap: deviations whose chi-squared divergence from the behaviour policy is at
most C are *on support*, the log says how much they gain; what better ones could add is *off
support*, and only the model's extrapolation speaks about it. Which of the two is larger says
whether more data of the same kind would help, or other data is needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.precision import double_precision
from equipoise.core.randomness import as_key
from equipoise.core.simplex import project
from equipoise.games import ContextualGame, DecoupledMarkovGame, Mixture
from equipoise.offline._fit import fit
from equipoise.offline._log import Log
from equipoise.offline._model import Model
from equipoise.solvers.no_regret import Dynamics

#: Fewer resampled logs than this have a range, but no confidence level.
FEWEST = 20
#: Halvings of the interval of multipliers, which begins ten decades wide.
BISECTIONS = 60


@dataclass(frozen=True)
class GapEstimate:
    """The gap of a policy in a fitted model, and where it lies over resampled logs.

    `gap` is exact in the model and no more than that: a policy that was learned in the model
    looks better there than it is. Where there is an `interval`, it is the answer, and `gap` may
    well lie below it.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=4_000, key=1)
    >>> model = eq.offline.fit(log, rank=2)
    >>> estimate = eq.offline.estimate_gap(model, model.behaviour, divergence=0.5)
    >>> round(estimate.on_support + estimate.off_support - estimate.gap, 12), estimate.interval
    (0.0, None)
    """

    #: The largest gain of any agent in the model; negative for some correlated mixtures.
    gap: float
    #: The part of that gain by deviations on the support of the log, and the rest.
    on_support: float
    off_support: float
    #: (agents,): gains of all deviations, and of those on support.
    gains: np.ndarray
    on_support_gains: np.ndarray
    #: The C up to which a deviation's expected chi^2 counts as on support.
    divergence: float
    #: Interval of the gap over resampled logs; None without bootstrap.
    interval: tuple[float, float] | None = None
    #: Its confidence level; None where resampled logs are too few for one (`FEWEST`), and the
    #: interval is their range.
    level: float | None = None
    #: The gap in each resampled log's model.
    resampled: np.ndarray | None = None

    def to_plain(self) -> dict[str, Any]:
        """Numbers and arrays by the names of the fields, and the estimate in words as "text"."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        interval = None if self.interval is None else list(self.interval)
        return plain | {"interval": interval, "text": str(self)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "GapEstimate":
        """The estimate that `to_plain` described."""
        given: dict[str, Any] = {f.name: plain.get(f.name) for f in fields(cls)}
        if given["interval"] is not None:
            given["interval"] = tuple(given["interval"])
        return cls(**given)

    def __str__(self) -> str:
        near = f"on support (chi^2 <= {self.divergence:g})"
        split = f"{self.on_support:.4g} by deviations {near} and {self.off_support:.4g} off support"
        if self.on_support < 0:
            split = f"all of it off support; the best deviation {near} loses {-self.on_support:.4g}"
            if self.gap <= 0:
                split = "no deviation gains, on support or off"
        text = f"{self.gap:.4g} in the fitted model: {split}"
        if self.interval is None or self.resampled is None:
            return text
        low, high = self.interval
        count = len(self.resampled)
        source = f"range of {count} resampled log{'s' if count > 1 else ''}"
        if self.level is not None:
            source = f"over resampled logs ({self.level:.0%})"
        return f"[{low:.4g}, {high:.4g}] {source}; {text}"


def estimate_gap(
    model: Any,
    policy: Any,
    *,
    log: Log | None = None,
    behaviour: Any = None,
    divergence: float = 1.0,
    bootstrap: int = 0,
    level: float = 0.9,
    learned: bool | None = None,
    key: Any = 0,
) -> GapEstimate:
    """Estimate the CCE gap of a product policy or mixture from a fitted model.

    With `bootstrap` the model is fitted anew, with the same penalties and neighbours, to as many
    resamples of the log's rows. Of a policy that was `learned` in the model (when not said, a
    mixture of several components), the interval holds the gaps of the middle ones: such a policy
    looks better in the model than it is, and resampled models differ from this one as it differs
    from the truth. Any other policy does not, and there the largest of noisy gains is too large
    in the model and more so in resampled ones: the interval is the basic one, which subtracts
    what resampling adds, and of a product it ends at zero, as no gap of a product is negative.
    Fewer than `FEWEST` resampled logs have their range for an interval, and no level.

    In Markov games the divergence of a deviation is its mean over steps (Theorem 3 has the
    largest).

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=2_000, key=1)
    >>> model = eq.offline.fit(log, rank=2)
    >>> estimate = eq.offline.estimate_gap(model, model.behaviour, log=log, bootstrap=10)
    >>> low, high = estimate.interval
    >>> low < high
    True
    """
    checks.check_range("divergence", divergence, 0.0, np.inf, low_open=True, high_open=True)
    checks.check_range("level", level, 0.0, 1.0, low_open=True, high_open=True)
    game: Any = model.game if isinstance(model, Model) else model
    if game is None:
        raise ValueError("model: expected one with a game, found a joint network")
    if behaviour is None:
        if not isinstance(model, Model):
            raise ValueError("behaviour: expected a product policy, found none")
        behaviour = model.behaviour
    gains = certify(game, policy).gains
    covered = covered_gains(game, policy, behaviour, divergence)
    covered = np.minimum(covered, gains)  # a smaller class; equal up to the bisection
    worst = int(np.argmax(gains))
    estimate = GapEstimate(
        gap=float(gains.max()),
        on_support=float(covered[worst]),
        off_support=float(gains[worst] - covered[worst]),
        gains=gains,
        on_support_gains=covered,
        divergence=float(divergence),
    )
    if not bootstrap:
        return estimate
    if not isinstance(model, Model) or log is None:
        raise ValueError("log: expected the log of the model for a bootstrap, found none")
    bootstrap = checks.check_count("bootstrap", bootstrap)
    again = Resampling(model, log, policy, key)
    gaps = np.array([again.gap(number) for number in range(bootstrap)])
    return with_interval(estimate, policy, gaps, level, learned)


def with_interval(
    estimate: GapEstimate,
    policy: Any,
    resampled: np.ndarray,
    level: float = 0.9,
    learned: bool | None = None,
) -> GapEstimate:
    """An estimate with the interval that gaps in the models of resampled logs give it."""
    mixed = isinstance(policy, Mixture) and len(policy) > 1
    if len(resampled) < FEWEST:
        ends = (float(resampled.min()), float(resampled.max()))
        return replace(estimate, interval=ends, level=None, resampled=resampled)
    ends = np.quantile(resampled, [0.5 - level / 2, 0.5 + level / 2])
    if not (mixed if learned is None else learned):
        ends = 2 * estimate.gap - ends[::-1]
        ends = ends if mixed else np.maximum(ends, 0.0)
    interval = (float(ends[0]), float(ends[1]))
    return replace(estimate, interval=interval, level=level, resampled=resampled)


def covered_gains(
    game: ContextualGame | DecoupledMarkovGame, policy: Any, behaviour: Any, divergence: float
) -> np.ndarray:
    """(agents,): the largest gain of a deviation whose expected chi^2 is at most `divergence`.

    The deviation that maximises value less `multiplier * chi^2` is a backward pass with a
    projection in each state; bisection finds the multiplier at which it spends what is allowed.
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
    """(agents,): the best value within the divergence, by bisection over multipliers."""
    scale = jnp.maximum(jnp.abs(rewards).max(), 1e-12) * rewards.shape[1]

    def deviate(multiplier: Any) -> tuple[Any, Any]:
        weight = multiplier[None, :, None, None]
        following = value = spent = jnp.zeros_like(rewards[:, 0, :, :, 0])
        for h in reversed(range(rewards.shape[1])):
            kernel = jnp.asarray(dynamics.transitions[:, h])
            nu = behaviour[:, h]
            q = rewards[:, h] + jnp.einsum("cnsat,cnt->cnsa", kernel, following)
            better = q - (nu * q).sum(-1, keepdims=True)  # the rest moves nobody, and costs digits
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


class Resampling:
    """The gaps of a policy in the models of resampled logs, which are drawn one after the other."""

    def __init__(self, model: Model, log: Log, policy: Any, key: Any):
        if model.rank == "joint":
            raise ValueError("model: expected a K-IR model for a bootstrap, found a joint critic")
        self.model, self.log, self.policy, self.drawn = model, log, policy, 0
        self.rng = np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))))

    def gap(self, number: int) -> float:
        """The gap in the model of resampled log `number`; numbers ascend from call to call."""
        rows = np.zeros(0, np.int64)
        while self.drawn <= number:  # a run that goes on skips those that it has
            rows = self.rng.integers(0, self.log.samples, self.log.samples)
            self.drawn += 1
        again: Any = fit(
            self.log.take(np.sort(rows)),
            self.model.rank,
            neighbours=self.model.neighbours,
            ridge=self.model.ridge,
            intervals=False,
        )
        return float(certify(again.game, self.policy).max_gain)
