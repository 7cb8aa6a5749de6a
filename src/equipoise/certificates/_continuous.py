"""Gains with continuous actions: best responses on the whole interval, not on a grid.

*Polynomial terms.* Agents choose independently, so the expected reward of an agent is a polynomial
in its own action, whose coefficients are moments of the others' actions. Its maximum on [-1, 1] is
at an endpoint or at a zero of the derivative. If local states depend on own actions alone, the
others' moments in each step do not depend on the agent either, and a dynamic program over its own
states, with one such maximum in each state, gives its best response. Subdividing the interval
bounds each maximum; absolute coefficients bound rounding.

*Functions.* On an interval whose endpoints have been evaluated, a reward of slope at most L, or of
second derivative at least -K, is bounded by

    Lipschitz:  (f(l) + f(r)) / 2 + L (r - l) / 2
    curvature:  max over t in [l, r] of the chord plus K (t - l)(r - t) / 2

(the first is the bound of Piyavskii and Shubert). Intervals whose bound exceeds the best value
found by more than the tolerance are halved, for all agents at once. The result is an upper bound
within a known distance of a deviation that was evaluated.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core import polynomials
from equipoise.core.errors import InputError
from equipoise.core.results import SMALLEST, TableCertificate
from equipoise.core.rounding import EPS, WEIGHTS, Normalised, normalise
from equipoise.games import ContinuousGame, ContinuousPolicy, PolynomialTerms, RewardFunction

#: Accuracy of the upper bound relative to the best deviation found, times the range of rewards.
TOLERANCE = 1e-9
#: If that is below this many rounding errors of the rewards, those are accurate enough.
_ROUNDINGS = 64
#: Number of intervals of the first subdivision.
_GRID = 128
#: Maximum number of single deviations that are evaluated, for each agent and context.
MOST_TRIALS = 20_000
#: Maximum number of joint supports of stochastic policies that are enumerated.
MOST_PROFILES = 4_096
#: Number of halvings around the best grid point, without a Lipschitz constant or curvature.
_REFINEMENTS = 40


def certify_continuous(game: ContinuousGame, policy: Any, concept: str) -> TableCertificate:
    """Gains of every agent, averaged over contexts, with the best response in each context.

    In the game of section 6 of the interaction-rank paper the largest gain, times sqrt(N), is the
    metric of its appendix B.
    """
    if concept not in ("auto", "nash"):
        raise InputError("concept", '"nash" for a ContinuousGame', repr(concept))
    if not isinstance(game.terms, PolynomialTerms):
        return _certify_function(game, game.terms, policy)
    terms, frame = _normalised(game.terms)
    if game.transitions is None:
        return _certify_once(game, terms, frame, policy)
    return _certify_steps(game, terms, frame, game.transitions, policy)


def _normalised(terms: PolynomialTerms) -> tuple[PolynomialTerms, Normalised]:
    """Return terms with weights rescaled to ordinary size."""

    groups = (group.weights for group in terms.groups.values())
    weights = [terms.own, *terms.pairs.values(), *groups]
    tables = [np.asarray(table, np.float64) for table in weights]
    ends = [0.0, *(end for table in tables for end in (table.min(), table.max()))]
    frame = normalise(np.array(ends), 1)
    if not isinstance(frame.exponent, int):
        exponent = -frame.exponent
        terms = terms.changed(lambda weights: np.ldexp(weights, exponent))
    return terms, frame


def _sizes(
    terms: PolynomialTerms, points: np.ndarray, chances: np.ndarray, *, constant: bool
) -> np.ndarray:
    """(contexts, agents, states): bounds on expected rewards, with absolute values throughout.

    `constant` says whether the polynomials' constant coefficients count.
    """
    sized = terms.changed(np.abs, np.abs(terms.effects))
    moments = sized.moments(np.abs(points), chances)
    sizes = sized.own_polynomials(moments)
    total = sizes.sum(-1) if constant else sizes[..., 1:].sum(-1)
    reach = sized.effects.sum(-1).max(-1)  # (agents,): bound on the effects
    for (p, q), weights in sized.pairs.items():
        # An agent's own weight is added to a sum over all agents and then subtracted again.
        if p or constant:
            extra = np.einsum("cii,ci->ci", weights, moments[:, :, q]) * reach**p
            total = total + 2.0 * extra[..., None]
    return total


def _operations(terms: PolynomialTerms, support: int) -> int:
    """Number of factors and summands of one coefficient of an own polynomial, and of its value."""
    listed = sum(len(group.scopes) for group in terms.groups.values())
    factors = terms.rank * (WEIGHTS + support * terms.states + terms.highest + 4)
    return terms.agents + listed + factors + 8 * (terms.degree + 2)


def _certify_once(
    game: ContinuousGame, terms: PolynomialTerms, frame: Normalised, policy: ContinuousPolicy
) -> TableCertificate:
    points, chances = (array[:, :, None] for array in policy.support())  # one state
    replies = np.array(terms.own_polynomials(terms.moments(points, chances)))
    constant = replies[..., 0, 0].copy()
    replies[..., 0] = 0.0  # earned whatever the action is
    value = _mean(replies, points, chances)[..., 0]
    best = polynomials.maximum(replies)[0]
    top = polynomials.upper_bound(replies, best)[..., 0] - value
    step = EPS * (_operations(terms, points.shape[-1]) + 2 * WEIGHTS)
    slack = 2.0 * step * _sizes(terms, points, chances, constant=False)[..., 0]
    return _certificate(
        game, frame, value + constant, best[..., 0] - value, top + slack, 2.0 * slack,
        method="best response in every context: the maximum of a polynomial on [-1, 1]",
    )  # fmt: skip


def _certify_steps(
    game: ContinuousGame,
    terms: PolynomialTerms,
    frame: Normalised,
    transitions: np.ndarray,
    policy: ContinuousPolicy,
) -> TableCertificate:
    points, chances = policy.support()  # (contexts, horizon, agents, states, support)
    here, wide = np.array(game.initial), np.array(game.initial)
    rewards, sizes, value = [], [], np.zeros(here.shape[:2])
    for h in range(game.horizon):
        reached = here[..., None] * chances[:, h]
        rewards.append(terms.own_polynomials(terms.moments(points[:, h], reached)))
        value += (here * _mean(rewards[h], points[:, h], chances[:, h])).sum(-1)
        here = _move(transitions, here, points[:, h], chances[:, h])
        widely = wide[..., None] * chances[:, h]
        sizes.append(_sizes(terms, points[:, h], widely, constant=True))
        wide = _move(np.abs(transitions), wide, np.abs(points[:, h]), chances[:, h])
    ahead, size = np.zeros(here.shape), np.zeros(here.shape)
    missed = np.zeros(here.shape[:2])
    for h in reversed(range(game.horizon)):
        later = np.einsum("cnstp,cnt->cnsp", transitions, ahead)
        replies = _sum(rewards[h], later)
        ahead = polynomials.maximum(replies)[0]
        missed += (polynomials.upper_bound(replies, ahead) - ahead).max(-1)
        size = sizes[h] + np.einsum("cnstp,cnt->cns", np.abs(transitions), size)
    best = (np.array(game.initial) * ahead).sum(-1)
    moves = points.shape[-1] * transitions.shape[-1] + 2 * WEIGHTS + 8
    count = _operations(terms, points.shape[-1]) + (terms.rank + 1) * game.horizon * (
        moves + transitions.shape[-2]
    )
    slack = 2.0 * EPS * count * (np.array(game.initial) * size).sum(-1)
    return _certificate(
        game, frame, value, best - value, best - value + missed + slack, 2.0 * slack,
        method="best responses by dynamic programming: maxima of polynomials on [-1, 1]",
    )  # fmt: skip


def _certificate(
    game: ContinuousGame,
    frame: Normalised,
    value: np.ndarray,
    gains: np.ndarray,
    upper: np.ndarray,
    rounding: np.ndarray,
    *,
    method: str,
) -> TableCertificate:
    """Average values, gains and bounds (contexts, agents) over contexts, in the game's units."""
    contexts = game.context_probabilities
    known = np.where(np.isfinite(upper), np.abs(upper), 0.0)
    slack = EPS * (WEIGHTS + game.contexts) * (contexts @ (np.abs(gains) + known)) + frame.tiny
    gains, rounding = contexts @ gains, contexts @ rounding + slack
    upper = np.maximum(np.where(contexts > 0.0, upper.T, 0.0) @ contexts + slack, gains)
    return TableCertificate(
        gains=frame.restore(gains),
        upper=frame.restore(upper, up=True),
        value=frame.restore(contexts @ value),
        method=method,
        rounding=frame.restore(rounding, up=True),
    )


def _mean(replies: np.ndarray, points: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """(contexts, agents, states): expected value of the polynomials in own actions."""
    return (polynomials.evaluate(replies[..., None, :], points) * chances).sum(-1)


def _move(
    transitions: np.ndarray, here: np.ndarray, points: np.ndarray, chances: np.ndarray
) -> np.ndarray:
    """(contexts, agents, states): state probabilities after a step."""
    powers = points[..., None] ** np.arange(transitions.shape[-1])
    moments = np.einsum("cns,cnsk,cnskp->cnsp", here, chances, powers)
    return np.einsum("cnsp,cnstp->cnt", moments, transitions)


def _sum(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the sum of polynomials of different lengths."""
    longer, shorter = (first, second) if first.shape[-1] >= second.shape[-1] else (second, first)
    result = np.array(longer)
    result[..., : shorter.shape[-1]] += shorter
    return result


def _certify_function(
    game: ContinuousGame, reward: RewardFunction, policy: ContinuousPolicy
) -> TableCertificate:
    """Gains of every agent, averaged over contexts, for the best deviations found.

    `upper` is proven if the slope or the curvature of own rewards is bounded, and infinite if
    neither is known.
    """
    profiles, chances = _profiles(policy)
    value, slack, found, bound = (np.zeros(game.policy_shape) for _ in range(4))
    for context in range(game.contexts):
        trial = _Trial(reward, context, profiles[context], chances[context])
        value[context], slack[context] = trial.value()
        if reward.lipschitz is None and reward.curvature is None:
            found[context], bound[context] = _search(trial), np.inf
        else:
            found[context], bound[context] = _divide(trial, reward)
    found = np.maximum(found, value)
    size = float(np.maximum(np.abs(found), slack).max())
    tiny = SMALLEST * len(chances[0]) if size > 0.0 else 0.0  # products of chances and rewards
    frame = Normalised(np.zeros(1), np.zeros(()), 0, size, tiny)
    upper = np.maximum(bound, value) - value + slack
    return _certificate(
        game, frame, value, found - value, upper, 2.0 * slack, method=_method(reward)
    )


def _method(reward: RewardFunction) -> str:
    tried = f"the best deviations found on a grid of {_GRID + 1} actions"
    if reward.lipschitz is None and reward.curvature is None:
        return f"{tried} and near its best; no Lipschitz constant or curvature was declared"
    known = "Lipschitz constant" if reward.curvature is None else "curvature"
    return f"{tried} and by halving it; upper bounds from the declared {known} of rewards"


def _profiles(policy: ContinuousPolicy) -> tuple[np.ndarray, np.ndarray]:
    """(contexts, profiles, agents) actions and (contexts, profiles) probabilities of all profiles
    that a policy may play."""
    points, weights = policy.support()
    contexts, agents, support = points.shape
    # Agents who always play one action do not multiply the number of profiles.
    mixed = np.flatnonzero((weights > 0).sum(-1).max(0) > 1)
    count = float(support) ** len(mixed)
    if count > MOST_PROFILES:
        raise InputError(
            "policy",
            f"at most {MOST_PROFILES} joint choices, because the expectation of a reward function "
            "is computed by enumeration",
            f"{support}^{len(mixed)}",
        )
    grid = np.indices((support,) * len(mixed)).reshape(len(mixed), int(count))
    chosen = np.broadcast_to(weights.argmax(-1)[:, :, None], (contexts, agents, grid.shape[1]))
    chosen = np.array(chosen)
    chosen[:, mixed] = grid
    chances = np.take_along_axis(weights, chosen, 2)[:, mixed].prod(1)
    actions = np.take_along_axis(points, chosen, 2)
    return np.swapaxes(actions, 1, 2), chances


@dataclass(frozen=True)
class _Trial:
    """Expected rewards of single deviations in one context, and bounds on their rounding.

    Rewards are taken as the function computes them. Their mean over profiles is rounded in
    proportion to the mean of their sizes, which may be far larger than the mean itself.
    """

    reward: RewardFunction
    context: int
    profiles: np.ndarray
    chances: np.ndarray

    def _mean(self, rewards: np.ndarray) -> np.ndarray:
        """(2, ...): means of rewards (profiles, ...), and bounds on their rounding."""
        unit = EPS * (2 * len(self.chances) + WEIGHTS + 8)
        return np.stack([self.chances @ rewards, unit * (self.chances @ np.abs(rewards))])

    def value(self) -> np.ndarray:
        """(2, agents): rewards without a deviation, and bounds on their rounding."""
        return self._mean(self.reward.rewards(self.profiles, self._contexts(self.profiles)))

    def own(self, agents: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """(2, trials): the reward of each agent if it alone plays that action, and its rounding."""
        result = np.empty((2, len(agents)))
        size = max(1, 2_000_000 // self.profiles.size)
        for start in range(0, len(agents), size):
            part = slice(start, start + size)
            rows = np.arange(len(agents[part]))
            joint = np.repeat(self.profiles[None], len(rows), 0)
            joint[rows, :, agents[part]] = actions[part, None]
            rewards = self.reward.rewards(joint, self._contexts(joint))
            result[:, part] = self._mean(rewards[rows, :, agents[part]].T)
        return result

    def _contexts(self, actions: np.ndarray) -> np.ndarray:
        return np.full(actions.shape[:-1], self.context)

    def on_grid(self) -> tuple[np.ndarray, np.ndarray]:
        """(points,) and (2, agents, points): rewards on the first grid, and their rounding."""
        grid = np.linspace(-1.0, 1.0, _GRID + 1)
        count = self.profiles.shape[1]
        agents = np.repeat(np.arange(count), len(grid))
        return grid, self.own(agents, np.tile(grid, count)).reshape(2, count, -1)


def _divide(trial: _Trial, reward: RewardFunction) -> tuple[np.ndarray, np.ndarray]:
    """(agents,), (agents,): the best reward found, and an upper bound, rounding included."""
    grid, (values, slack) = trial.on_grid()
    _refute(grid, values, slack, reward)
    count = len(values)
    found = values.max(1)
    tolerance = np.maximum(
        TOLERANCE * (found - values.min(1)), _ROUNDINGS * EPS * np.abs(values).max(1)
    )
    agents = np.repeat(np.arange(count), _GRID)
    ends = np.stack([np.tile(grid[:-1], count), np.tile(grid[1:], count)])
    rewards, slack = (np.stack([v[:, :-1].ravel(), v[:, 1:].ravel()]) for v in (values, slack))
    closed = np.array(found)  # bounds of intervals that need no further halving
    spent = values.size
    while True:
        bound = _bound(ends[1] - ends[0], rewards, reward)
        halved = bound > found[agents] + tolerance[agents]
        if spent + halved.sum() > MOST_TRIALS * count:
            halved[:] = False
        np.maximum.at(closed, agents[~halved], (bound + slack.max(0))[~halved])
        if not halved.any():
            return found, closed
        agents, ends, rewards = agents[halved], ends[:, halved], rewards[:, halved]
        slack, middle = slack[:, halved], ends.mean(0)
        value, error = trial.own(agents, middle)
        spent += len(value)
        np.maximum.at(found, agents, value)
        agents = np.tile(agents, 2)
        ends = np.hstack([[ends[0], middle], [middle, ends[1]]])
        rewards = np.hstack([[rewards[0], value], [value, rewards[1]]])
        slack = np.hstack([[slack[0], error], [error, slack[1]]])


def _refute(
    grid: np.ndarray, values: np.ndarray, slack: np.ndarray, reward: RewardFunction
) -> None:
    """Reject a stated bound that rewards on the grid contradict by more than rounding."""
    step = grid[1] - grid[0]
    steepest = float(np.abs(np.diff(values)).max()) / step
    bent = float(-np.diff(values, n=2).min()) / step**2
    rounding = max(1e-9 * float(np.abs(values).max()), 4.0 * float(slack.max()))
    for name, stated, found, slack in (
        ("lipschitz", reward.lipschitz, steepest, rounding / step),
        ("curvature", reward.curvature, bent, rounding / step**2),
    ):
        if stated is not None and found > stated + slack:
            raise InputError(
                name, "a bound that the rewards satisfy", f"{stated:g}, but they reach {found:.6g}"
            )


def _bound(length: np.ndarray, values: np.ndarray, reward: RewardFunction) -> np.ndarray:
    """Bound a reward between two evaluated points, with `values` of shape (2, ...)."""
    low, high = values
    bounds = []
    if reward.lipschitz is not None:
        bounds.append(np.maximum(0.5 * (low + high + reward.lipschitz * length), low))
        bounds[-1] = np.maximum(bounds[-1], high)
    if reward.curvature is not None:
        # The top of the chord plus a parabola, t in [0, 1]: low + (high-low) t + B t (1-t).
        bulge = 0.5 * reward.curvature * length**2
        rise = high - low
        inside = np.divide(rise, bulge, out=np.full_like(bulge, 2.0), where=bulge > np.abs(rise))
        top = 0.25 * bulge * (1.0 + inside) ** 2 + low
        bounds.append(np.where(np.abs(inside) < 1.0, top, np.maximum(low, high)))
    return np.minimum.reduce(bounds)


def _search(trial: _Trial) -> np.ndarray:
    """(agents,): best reward on the grid and, by golden-section search, near its best points."""
    grid, (values, _) = trial.on_grid()
    best = values.argmax(1)
    agents = np.arange(len(values))
    left, right = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, _GRID)]
    ratio = 0.5 * (np.sqrt(5.0) - 1.0)
    found = values.max(1)
    for _ in range(_REFINEMENTS):
        first, second = right - ratio * (right - left), left + ratio * (right - left)
        tried = trial.own(np.concatenate([agents, agents]), np.concatenate([first, second]))[0]
        one, two = tried[: len(agents)], tried[len(agents) :]
        found = np.maximum(found, np.maximum(one, two))
        left, right = np.where(one < two, first, left), np.where(one < two, right, second)
    return found
