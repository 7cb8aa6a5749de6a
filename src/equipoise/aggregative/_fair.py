"""The equilibrium of a Markov game that is best, or worst, for the worst-off agent.

The least value of any agent is at most every weighted mean of the types' values. For given weights,
the best weighted mean over equilibria is a welfare, which backward induction maximises and bounds.
Kelley's method chooses the weights: those that minimise the largest weighted mean of the policies
found so far. Each round gives a policy, whose least value is exact, and a bound that holds for all
equilibria. The worst equilibrium for the worst-off agent is the worst one for some type, so one
round for each type finds and bounds it.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.aggregative._classes import group_agents
from equipoise.aggregative._planner import Planner
from equipoise.aggregative._subroutine import Options
from equipoise.certificates import certify
from equipoise.games import AggregativeMarkovGame

#: Rounds of Kelley's method, types considered one by one, and types in a program, at most.
_ROUNDS, _TYPES, _MOST = 10, 8, 5_000


def fairest(
    game: AggregativeMarkovGame, options: Options, tolerance: float | None, *, strict: bool = False
) -> tuple[Planner, np.ndarray, np.ndarray]:
    """The plan, the least value of any agent and a bound on it, both by starting state."""
    groups = group_agents(game)
    types = len(groups.first)
    sign = 1.0 if options.maximise else -1.0
    aim = replace(options, objective="welfare")
    best: tuple[tuple[bool, float], Planner, np.ndarray] | None = None
    means: list[np.ndarray] = []
    bound = np.full(game.states, np.inf)
    weights = groups.counts / groups.counts.sum()
    order: list[int] = []
    for k in range(_ROUNDS):
        planner = Planner(game, None, aim, True, tolerance, weights, strict=strict)
        certificate: Any = certify(game, planner.roster.policy())
        least = certificate.class_value.min(1)
        score = (bool(certificate.max_upper <= planner.tolerance), sign * float(least.mean()))
        if best is None or score > best[0]:
            best = score, planner, least
        means.append(planner.by_group.mean(0))
        if not options.maximise:
            if k == 0:
                order = np.argsort(means[0], kind="stable")[:_TYPES].tolist()
            else:  # the bound of one type
                bound = np.minimum(bound, planner.possible[0])
            if k == len(order):
                break
            weights = np.eye(1, types, order[k])[0]
            continue
        bound = np.minimum(bound, planner.possible[0])
        if float((bound - best[2]).mean()) <= 0.25 * planner.tolerance:
            break
        weights, promised = _next_weights(np.array(means))
        if float(bound.mean()) - promised <= 0.25 * planner.tolerance:
            break
    assert best is not None
    _, planner, least = best
    if not options.maximise:
        # Agents of a type earn the same, up to what one of them gains by imitating another.
        apart = game.horizon * (planner.options.tolerance + game.lipschitz * game.delta)
        bound = bound - apart if len(order) == types else np.full(game.states, -np.inf)
    return planner, least, bound


def _next_weights(means: np.ndarray) -> tuple[np.ndarray, float]:
    """The weights that minimise the largest weighted mean of some policies, and that mean.

    >>> weights, promised = _next_weights(np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> weights.round(6).tolist(), round(promised, 6)
    ([0.5, 0.5], 0.5)
    """
    policies, types = means.shape
    if types > _MOST:
        return np.eye(1, types, int(means.max(0).argmin()))[0], -np.inf
    from scipy.optimize import linprog

    result = linprog(
        np.append(np.zeros(types), 1.0),
        A_ub=np.column_stack([means, np.full(policies, -1.0)]),
        b_ub=np.zeros(policies),
        A_eq=np.append(np.ones(types), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, 1)] * types + [(None, None)],
    )
    if result.status != 0:
        return np.eye(1, types, int(means.max(0).argmin()))[0], -np.inf
    weights = np.maximum(result.x[:types], 0.0)
    return weights / weights.sum(), float(result.fun)
