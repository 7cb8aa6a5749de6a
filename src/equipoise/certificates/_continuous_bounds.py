"""Gains where a function of the user computes rewards: bounds by dividing the interval.

On an interval whose ends have been tried, a reward of slope at most L, or of second derivative at
least -K, exceeds the values at the ends by no more than

    Lipschitz:  (f(l) + f(r)) / 2 + L (r - l) / 2
    curvature:  max over t in [l, r] of the chord plus K (t - l)(r - t) / 2

(the first is the bound of Piyavskii and Shubert). Intervals whose bound is above the best value
found, by more than the tolerance, are halved, those of all agents at once. What remains is an upper
bound within a known distance of a deviation that was tried.
"""

from dataclasses import dataclass

import numpy as np

from equipoise.core.results import Certificate
from equipoise.games import ContinuousGame, ContinuousPolicy, RewardFunction

#: The upper bound comes at least this near, times the size of rewards, to a deviation found.
TOLERANCE = 1e-9
#: Intervals of the first division.
_GRID = 128
#: Rewards of single deviations that are evaluated at most, for each agent and context.
MOST_TRIALS = 20_000
#: Joint supports of stochastic policies that are enumerated at most.
MOST_PROFILES = 4_096
#: Halvings of the brackets around the best point of the grid, where nothing is known.
_REFINEMENTS = 40


def certify_function(
    game: ContinuousGame, reward: RewardFunction, policy: ContinuousPolicy
) -> Certificate:
    """Bounds on the gains of every agent, expected over contexts.

    Upper bounds where the slope or the curvature of own rewards is bounded, and otherwise lower
    bounds, the gains of the best deviations that were found.
    """
    profiles, chances = _profiles(policy)
    value = np.zeros(game.policy_shape)
    best, slack = np.zeros(game.policy_shape), 0.0
    for context in range(game.contexts):
        trial = _Trial(reward, context, profiles[context], chances[context])
        value[context] = trial.value()
        if reward.lipschitz is None and reward.curvature is None:
            best[context] = np.maximum(_search(trial), value[context])
        else:
            found, bound = _divide(trial, reward)
            best[context] = np.maximum(bound, value[context])
            slack = max(slack, float((bound - found).max()))
    contexts = game.context_probabilities
    return Certificate(
        gains=contexts @ (best - value),
        value=contexts @ value,
        method=_method(reward, slack),
        exact=False,
    )


def _method(reward: RewardFunction, slack: float) -> str:
    if reward.lipschitz is None and reward.curvature is None:
        return (
            f"lower bounds: the best deviations found on a grid of {_GRID + 1} actions and near "
            "its best; neither slope nor curvature of rewards is known"
        )
    known = "slope" if reward.curvature is None else "curvature"
    return (
        f"upper bounds from the stated {known} of rewards, within {slack:.1e} of deviations that "
        "were found"
    )


def _profiles(policy: ContinuousPolicy) -> tuple[np.ndarray, np.ndarray]:
    """(contexts, profiles, agents) actions and (contexts, profiles) chances of all that a policy
    may play."""
    points, weights = policy.support()
    contexts, agents, support = points.shape
    # Agents who always play one point do not multiply the profiles.
    mixed = np.flatnonzero((weights > 0).sum(-1).max(0) > 1)
    count = float(support) ** len(mixed)
    if count > MOST_PROFILES:
        raise ValueError(
            f"policy: expected at most {MOST_PROFILES} joint choices, over which a reward that is "
            f"a function is averaged one by one; found {support}^{len(mixed)}"
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
    """Expected rewards of single deviations in one context."""

    reward: RewardFunction
    context: int
    profiles: np.ndarray
    chances: np.ndarray

    def value(self) -> np.ndarray:
        """(agents,): without deviation."""
        return self.chances @ self.reward.rewards(self.profiles, self._contexts(self.profiles))

    def own(self, agents: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """(trials,): the reward of each agent if it alone plays that action."""
        result = np.empty(len(agents))
        size = max(1, 2_000_000 // self.profiles.size)
        for start in range(0, len(agents), size):
            part = slice(start, start + size)
            rows = np.arange(len(agents[part]))
            joint = np.repeat(self.profiles[None], len(rows), 0)
            joint[rows, :, agents[part]] = actions[part, None]
            rewards = self.reward.rewards(joint, self._contexts(joint))
            result[part] = rewards[rows, :, agents[part]] @ self.chances
        return result

    def _contexts(self, actions: np.ndarray) -> np.ndarray:
        return np.full(actions.shape[:-1], self.context)

    def on_grid(self) -> tuple[np.ndarray, np.ndarray]:
        """(points,) and (agents, points): rewards on the first grid."""
        grid = np.linspace(-1.0, 1.0, _GRID + 1)
        count = self.profiles.shape[1]
        agents = np.repeat(np.arange(count), len(grid))
        return grid, self.own(agents, np.tile(grid, count)).reshape(count, -1)


def _divide(trial: _Trial, reward: RewardFunction) -> tuple[np.ndarray, np.ndarray]:
    """(agents,), (agents,): the best reward found, and a bound above all."""
    grid, values = trial.on_grid()
    _refute(grid, values, reward)
    count = len(values)
    found = values.max(1)
    tolerance = TOLERANCE * np.maximum(1.0, np.abs(values).max(1))
    agents = np.repeat(np.arange(count), _GRID)
    ends = np.stack([np.tile(grid[:-1], count), np.tile(grid[1:], count)])
    rewards = np.stack([values[:, :-1].ravel(), values[:, 1:].ravel()])
    closed = np.array(found)  # bounds of intervals that were left alone
    spent = values.size
    while True:
        bound = _bound(ends[1] - ends[0], rewards, reward)
        halved = bound > found[agents] + tolerance[agents]
        if spent + halved.sum() > MOST_TRIALS * count:
            halved[:] = False
        np.maximum.at(closed, agents[~halved], bound[~halved])
        if not halved.any():
            return found, closed
        agents, ends, rewards = agents[halved], ends[:, halved], rewards[:, halved]
        middle = ends.mean(0)
        value = trial.own(agents, middle)
        spent += len(value)
        np.maximum.at(found, agents, value)
        agents = np.tile(agents, 2)
        ends = np.hstack([[ends[0], middle], [middle, ends[1]]])
        rewards = np.hstack([[rewards[0], value], [value, rewards[1]]])


def _refute(grid: np.ndarray, values: np.ndarray, reward: RewardFunction) -> None:
    """Refuse a stated bound that rewards on the grid contradict."""
    step = grid[1] - grid[0]
    steepest = float(np.abs(np.diff(values)).max()) / step
    bent = float(-np.diff(values, n=2).min()) / step**2
    rounding = 1e-9 * max(1.0, float(np.abs(values).max()))
    for name, stated, found, slack in (
        ("lipschitz", reward.lipschitz, steepest, rounding / step),
        ("curvature", reward.curvature, bent, rounding / step**2),
    ):
        if stated is not None and found > stated + slack:
            raise ValueError(
                f"{name}: expected a bound that rewards keep, found {stated:g} where they reach "
                f"{found:.6g}"
            )


def _bound(length: np.ndarray, values: np.ndarray, reward: RewardFunction) -> np.ndarray:
    """The most that a reward can be between two points that were tried, with (2, ...) values."""
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
    """(agents,): the best reward on the grid and, by golden sections, near its best points."""
    grid, values = trial.on_grid()
    best = values.argmax(1)
    agents = np.arange(len(values))
    left, right = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, _GRID)]
    ratio = 0.5 * (np.sqrt(5.0) - 1.0)
    found = values.max(1)
    for _ in range(_REFINEMENTS):
        first, second = right - ratio * (right - left), left + ratio * (right - left)
        tried = trial.own(np.concatenate([agents, agents]), np.concatenate([first, second]))
        one, two = tried[: len(agents)], tried[len(agents) :]
        found = np.maximum(found, np.maximum(one, two))
        left, right = np.where(one < two, first, left), np.where(one < two, right, second)
    return found
