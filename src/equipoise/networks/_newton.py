"""Newton steps on all used paths at once, which end the slow linear tail of sweeps.

Gradient projection moves flow between two paths at a time, and in a city of many origins the
populations take turns undoing each other's moves. A Newton step moves all of them together. Let Z
be the differences between used paths and the busiest path of each population, e = Z c their excess,
and H the slopes of the costs. Linearising complementarity, h e = 0 (no flow or no excess), gives

    (Z H Z' + diag(max(e, 0) / h)) dh = -e.

The system is singular because path flows are not unique. Conjugate gradients find its solution of
least norm, and the preconditioner chooses the norm: weights that grow as 1 / h change paths with
little flow only slightly, so that few of them would turn negative. Dembo, Eisenstat and Steihaug
(1982) explain why an approximate solution of the system is enough.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.core.paths import Paths

#: Paths with less than this fraction of their population's demand are left to the sweeps.
_USED = 1e-13
#: Relative accuracy of the linear system, and the largest number of iterations.
_ACCURACY, _ITERATIONS = 1e-3, 300


def incidence(starts: Any, links: Any, size: int) -> Any:
    """(paths, size): matrix with a one where a link is on a path."""
    from scipy.sparse import csr_matrix

    return csr_matrix((np.ones(len(links)), links, starts), shape=(len(starts) - 1, size))


def differences(
    pairs: np.ndarray, flows: np.ndarray, starts: Any, links: Any, size: int, used: np.ndarray
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Used paths minus the busiest path of their population, as rows over `size` links.

    Also returns the numbers of these paths, and the number of each population's busiest path.
    """
    order = np.lexsort((-flows, pairs))
    first = np.append(True, pairs[order][1:] != pairs[order][:-1])
    busiest = order[first]
    used = used.copy()
    used[busiest] = False
    others = np.flatnonzero(used)
    table = incidence(starts, links, size)
    rows = table[others] - table[busiest[pairs[others]]]
    rows.eliminate_zeros()
    return rows, others, busiest


def newton_step(
    paths: Paths,
    cost: np.ndarray,
    slope: np.ndarray,
    paid: np.ndarray | None,
    watch: Callable[[], None],
) -> None:
    """Take one step at these link costs and slopes; `paid` is the additional cost of each path.

    `watch` is called in every iteration of the linear system and may raise.
    """
    import scipy.sparse.linalg

    operator: Any = scipy.sparse.linalg.LinearOperator
    count, demand = paths.count, paths.demand
    pairs, flows = paths.pairs[:count], paths.flows[:count]
    links, starts = paths.links[: paths.starts[count]], paths.starts[: count + 1]
    used = flows > _USED * demand[pairs]
    rows, others, busiest = differences(pairs, flows, starts, links, len(cost), used)
    if not len(others):
        return
    own = pairs[others]
    excess = rows @ cost
    if paid is not None:
        excess += paid[others] - paid[busiest[own]]
    damping = np.maximum(excess, 0.0) / flows[others]
    steep = abs(rows) @ slope
    scale = np.where(steep > 0.0, steep, 1.0) * demand[own] / flows[others] + damping
    shape, columns = (len(others), len(others)), rows.T.tocsr()
    system = operator(shape, lambda y: rows @ (slope * (columns @ y)) + damping * y, dtype=float)
    inverse = operator(shape, lambda y: y / scale, dtype=float)
    with np.errstate(all="ignore"):  # a step that is not finite is discarded
        step, _ = scipy.sparse.linalg.cg(
            system,
            -excess,
            rtol=_ACCURACY,
            maxiter=_ITERATIONS,
            M=inverse,
            callback=lambda _: watch(),
        )
    if not np.isfinite(step).all():
        return
    moved = np.maximum(step, -flows[others])
    gone = np.bincount(own, moved, len(demand))
    left = flows[busiest]
    part = np.where(gone > left, left / np.where(gone > left, gone, 1.0), 1.0)
    flows[others] += part[own] * moved
    flows[busiest] = np.maximum(left - part * gone, 0.0)
    paths.reload()
