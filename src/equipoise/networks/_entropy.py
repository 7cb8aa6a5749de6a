"""The equilibrium path flows of largest entropy, which are unique.

Many path flows add up to the same link flows. Those of largest entropy treat identical travellers
identically: wherever two routes between the same nodes are used, all populations that could use
either split in the same proportions (Bar-Gera 2006). The flow on a path is its population's demand
times a product of one factor for each link. The factors solve an unconstrained convex program, the
dual, whose gradient is the difference between the link flows and the sum of the path flows (Larsson
et al. 2001). Newton's method with conjugate gradients solves it.
"""

from typing import Any

import numpy as np

from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments
from equipoise.games import FlowPolicy, NetworkGame
from equipoise.networks._newton import incidence

#: Paths within this fraction of a mean trip of the cheapest cost count as cheapest, and links with
#: more than this fraction of the demand count as used.
_NEAR, _USED = 1e-7, 1e-10
#: Largest error in a link's flow, as a fraction of the largest link flow.
_MISSED = 1e-11
#: Largest numbers of Newton steps, of conjugate gradients in each, and of halvings of a step.
_STEPS, _ITERATIONS, _HALVINGS = 200, 500, 40
#: Steps are damped: the curvature of the dual grows by this fraction of the link flows at first, by
#: a tenth of that after a full step, and by ten times that after one that was halved. A path that
#: the link flows leave empty has a factor of zero, and without damping steps towards it explode.
_DAMPING, _LEAST_DAMPING = 1e-3, 1e-14


@named_arguments
def entropy_paths(game: NetworkGame, solution: Any, *, most: int = 200_000) -> FlowPolicy:
    """Distribute the link flows over all cheapest paths with the largest entropy.

    Args:
        game: The network, without whole drivers.
        solution: An equilibrium of the network, or a policy with path flows, accurate to 1e-8 of a
            mean trip.
        most: The largest number of cheapest paths to list. Default: 200,000.

    Unlike the path flows that `solve` returns, these do not depend on how they were found.

    **Example**

    Two crossroads in a row, each with a left and a right branch. The share on a path is the product
    of the shares on its parts.

    >>> import equipoise as eq
    >>> game = eq.NetworkGame(
    ...     [0, 0, 1, 1], [1, 1, 2, 2], [0], [2], [10.0],
    ...     free_flow=[1, 5, 1, 3], rise=1.0, power=1.0,
    ... )
    >>> policy = eq.networks.entropy_paths(game, eq.solve(game, tolerance=1e-12))
    >>> policy.flows.round(6).tolist()
    [7.0, 3.0, 6.0, 4.0]
    >>> [(policy.path(k).tolist(), round(float(policy.path_flows[k]), 6)) for k in range(4)]
    [([1, 3], 1.2), ([0, 3], 2.8), ([1, 2], 1.8), ([0, 2], 4.2)]
    """
    policy = getattr(solution, "policy", solution)
    if not isinstance(policy, FlowPolicy) or policy.path_flows is None:
        raise InputError("solution", "path flows, as `solve` returns", type(policy).__name__)
    if game.atomic:
        raise InputError("game", "travellers who can be divided", "whole drivers")
    checks.check_count("most", most)
    certificate: Any = certify(game, policy)
    mean = float(certificate.total_cost) / float(certificate.travellers)
    if float(certificate.max_upper) > 0.1 * _NEAR * mean:
        expected = "an equilibrium to within 1e-8 of the mean cost of a trip"
        found = f"an excess of {float(certificate.max_upper) / mean:.2g} of it"
        raise InputError("solution", expected, found, "solve with a smaller tolerance")
    pairs, links, starts = _cheapest(game, policy, _NEAR * mean, most)
    flows = _spread(game, policy.total, pairs, incidence(starts, links, game.links))
    return FlowPolicy.of_paths(game, pairs, flows, links, starts)


def _cheapest(
    game: NetworkGame, policy: FlowPolicy, near: float, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All paths of used links within `near` of the cheapest cost, by population."""
    costs = game.costs(policy.flows)
    used = policy.total > _USED * float(game.demand.sum())
    found: list[tuple[int, list[int]]] = []
    for m, origin, group in game.groups():
        (distance,), _ = game.graph.trees(costs[m], [origin])
        with np.errstate(invalid="ignore"):
            excess = distance[game.tails] + costs[m] - distance[game.heads]
        open_to = used & (excess <= near) & (distance[game.tails] < np.inf)
        open_to &= (game.tails >= game.first_through) | (game.tails == origin)
        into: dict[int, list[tuple[int, int, float]]] = {}
        for link in np.flatnonzero(open_to):
            row = (int(link), int(game.tails[link]), max(float(excess[link]), 0.0))
            into.setdefault(int(game.heads[link]), []).append(row)
        for pair in group:
            stack: list[tuple[int, list[int], set[int], float]]
            stack = [(int(game.destinations[pair]), [], set(), near)]
            while stack:
                node, path, passed, left = stack.pop()
                if node == origin:
                    found.append((int(pair), path[::-1]))
                    if len(found) > most:
                        hint = "increase `most`, or use a smaller network"
                        raise InputError("most", "as many as there are cheapest paths", most, hint)
                    continue
                stack += [
                    (tail, [*path, link], passed | {node}, left - more)
                    for link, tail, more in into.get(node, [])
                    if more <= left and tail not in passed
                ]
    found.sort(key=lambda row: row[0])
    starts = np.cumsum([0, *(len(path) for _, path in found)])
    pairs = np.array([pair for pair, _ in found])
    return pairs, np.concatenate([path for _, path in found]).astype(np.int32), starts


def _spread(game: NetworkGame, target: np.ndarray, pairs: np.ndarray, table: Any) -> np.ndarray:
    """Path flows of largest entropy with these link flows; `pairs` is sorted."""
    import scipy.sparse.linalg

    operator: Any = scipy.sparse.linalg.LinearOperator
    cg: Any = scipy.sparse.linalg.cg
    first, demand = np.searchsorted(pairs, np.arange(len(game.demand))), game.demand
    columns, shape = table.T.tocsr(), (game.links, game.links)
    factors, scale = np.zeros(game.links), float(target.max())

    def at(factors: np.ndarray) -> tuple[float, np.ndarray]:
        """Value of the dual, and the path flows."""
        weight = table @ factors
        top = np.maximum.reduceat(weight, first)
        share = np.exp(weight - top[pairs])
        total = np.add.reduceat(share, first)
        dual = float(demand @ (top + np.log(total)) - factors @ target)
        return dual, share * (demand / total)[pairs]

    (value, flows), damping = at(factors), _DAMPING
    for _ in range(_STEPS):
        missed = columns @ flows - target
        if np.abs(missed).max() <= _MISSED * scale:
            return flows

        size = columns @ flows + 1e-12 * scale
        ridge = damping * size

        def curved(
            y: np.ndarray, flows: np.ndarray = flows, ridge: np.ndarray = ridge
        ) -> np.ndarray:
            along = table @ y
            mean = np.add.reduceat(flows * along, first) / demand
            return columns @ (flows * (along - mean[pairs])) + ridge * y

        system = operator(shape, curved, dtype=float)
        inverse = operator(shape, lambda y, size=size: y / size, dtype=float)
        step, _ = cg(system, -missed, rtol=1e-3, maxiter=_ITERATIONS, M=inverse)
        slope, part = float(missed @ step), 1.0
        for _ in range(_HALVINGS):
            tried, new = at(factors + part * step)
            # Near the end the dual is dominated by rounding: a smaller error is progress too.
            better = np.abs(columns @ new - target).max() < 0.5 * np.abs(missed).max()
            if better or tried <= value + 1e-4 * part * slope:
                break
            part *= 0.5
        else:
            damping *= 100.0
            continue
        damping = max(damping * (0.1 if part == 1.0 else 10.0), _LEAST_DAMPING)
        factors, value, flows = factors + part * step, tried, new
    expected = f"link flows that the cheapest paths carry to within {_MISSED:g} of the largest"
    found = f"an error of {np.abs(columns @ flows - target).max() / scale:.2g}"
    raise InputError("solution", expected, found, "solve with a smaller tolerance")
