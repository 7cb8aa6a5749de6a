"""Ridge least squares in the K-IR class, in closed form from the moments of a log.

All computations use the orthonormal basis of `_moments`. The penalty of a term of order k is
`ridge[k]`, in rows: a term is shrunk by half in a cell with that many rows. By default the
penalties maximise the evidence (MacKay's fixed point, one penalty for each order). They vanish on
data without noise and grow without bound if there is no effect.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_solve, get_lapack_funcs

from equipoise.offline._coverage import normalised
from equipoise.offline._moments import Design, Moments, orthonormal_basis, to_orthonormal

#: Largest number of agents on which the evidence is maximised; all agents use the result.
EVIDENCE_AGENTS = 16
EVIDENCE_STEPS = 8
SMALLEST_RIDGE, LARGEST_RIDGE = 1e-7, 1e7
#: Changes of basis with more columns than this use sparse products.
DENSE_COLUMNS = 256
#: Strengths are estimated without a penalty in cells with at least this many rows per feature.
FREE = 1.5
#: Residuals below this fraction of the variance are rounding errors, not noise.
ROUNDING = 1e-9


@dataclass(frozen=True)
class AgentFit:
    """The fit of one agent: coefficients in the orthonormal basis, for every cell."""

    design: Design
    #: (cells, columns): the constant, then the block of each group.
    coefficients: np.ndarray
    #: (cells,): number of rows of each cell.
    rows: np.ndarray
    #: Standard deviation of the residuals.
    noise: float
    #: (groups,): variance of the log's rewards that each group explains, minus the part that noise
    #: explains by chance; its standard error; and its p-value under no effect. The standard error
    #: is NaN if the fit has no residuals, since the noise is then unknown.
    squares: np.ndarray
    errors: np.ndarray
    p_values: np.ndarray


@dataclass(frozen=True)
class Cells:
    """Moments of an agent's cells in the orthonormal basis, rewards centred by situation."""

    design: Design
    gram: np.ndarray
    target: np.ndarray
    total: np.ndarray
    rows: np.ndarray
    #: (situations,): the mean reward, which was subtracted.
    centre: np.ndarray
    #: First column of each group of the design, and the end.
    starts: np.ndarray
    #: Order of the term that each column belongs to.
    orders: np.ndarray


def bases_of(counts: np.ndarray) -> np.ndarray:
    """(situations, N, moves, moves - 1): bases from counts of moves."""
    return orthonormal_basis(normalised(counts, 1.0 / counts.shape[-1])[0])


def cells_of(moments: Moments, k: int, bases: np.ndarray) -> Cells:
    """Moments of agent number k in the basis of each situation."""
    design, moves, sums = moments.designs[k], moments.moves, moments.sums[k]
    columns = sums.shape[-1] - 1
    gram = np.empty((len(sums), columns, columns))
    target = np.empty((len(sums), columns))
    total = np.empty(len(sums))
    centre = np.empty(moments.contexts)
    for c in range(moments.contexts):
        part = sums[c * moves : (c + 1) * moves]
        rows = part[:, 0, 0].sum()
        centre[c] = mean = part[:, 0, -1].sum() / max(rows, 1.0)
        turn = to_orthonormal(design, bases[c])
        at = slice(c * moves, (c + 1) * moves)
        if columns <= DENSE_COLUMNS:
            dense = turn.toarray()
            gram[at] = dense.T @ part[:, :-1, :-1] @ dense
            target[at] = (part[:, :-1, -1] - mean * part[:, :-1, 0]) @ dense
        else:
            for own, s in zip(range(at.start, at.stop), part, strict=True):
                gram[own] = turn.T @ (turn.T @ s[:-1, :-1]).T
                target[own] = turn.T @ (s[:-1, -1] - mean * s[:-1, 0])
        total[at] = part[:, -1, -1] - 2 * mean * part[:, 0, -1] + mean**2 * part[:, 0, 0]
    starts, rows = design.offsets(moves), sums[:, 0, 0].copy()
    orders = orders_of(design, moves)
    return Cells(design, gram, target, total, rows, centre, starts, orders)


def evidence(cells: list[Cells], rank: int) -> dict[int, float]:
    """Penalty of each order that maximises the evidence, shared by the given agents."""
    ridge = {k: 1.0 for k in range(2, rank + 1)}
    for _ in range(EVIDENCE_STEPS):
        free, scaled = dict.fromkeys(ridge, 0.0), dict.fromkeys(ridge, 0.0)
        for own in cells:
            penalty = np.broadcast_to(penalties_of(own.orders, ridge), own.target.shape)
            weights, _, determined, variance = _solve(own, penalty)
            for k in ridge:
                free[k] += determined[:, own.orders == k].sum()
                scaled[k] += (weights[:, own.orders == k] ** 2).sum() / variance
        ridge = {
            k: float(np.clip(free[k] / max(scaled[k], 1e-300), SMALLEST_RIDGE, LARGEST_RIDGE))
            if free[k] > 0
            else LARGEST_RIDGE
            for k in ridge
        }
    return ridge


def fit_agent(cells: Cells, ridge: dict[int, float], *, errors: bool = True) -> AgentFit:
    """Fit the coefficients of an agent for given penalties, and estimate their errors."""
    penalty = np.broadcast_to(penalties_of(cells.orders, ridge), cells.target.shape)
    weights, _, _, variance = _solve(cells, penalty)
    groups = len(cells.design.groups)
    squares, spread, p_values = np.full((3, groups), np.nan)
    if errors and groups:
        # Penalties shrink terms to zero, and intervals with them. In cells with enough rows,
        # strengths therefore come from a fit without a penalty.
        enough = cells.rows >= FREE * np.count_nonzero(np.diagonal(cells.gram, 0, 1, 2), 1)
        free = np.where(enough[:, None], SMALLEST_RIDGE, penalty)
        squares, spread, p_values = _strengths(cells, free)
        if variance * cells.rows.sum() <= ROUNDING * cells.total.sum():
            spread = np.full(groups, np.nan)
    weights[:, 0] += np.repeat(cells.centre, len(weights) // len(cells.centre))
    noise = float(np.sqrt(variance))
    return AgentFit(cells.design, weights, cells.rows, noise, squares, spread, p_values)


def orders_of(design: Design, moves: int) -> np.ndarray:
    """(columns,): order of the term that each column belongs to."""
    starts = design.offsets(moves)
    return np.repeat([1, *(1 + len(g) for g in design.groups)], np.diff(starts, prepend=0))


def penalties_of(orders: np.ndarray, ridge: dict[int, float]) -> np.ndarray:
    """(columns,): penalty of each coefficient; almost none on the mean of a cell."""
    return np.array([SMALLEST_RIDGE if k == 1 else ridge[int(k)] for k in orders])


def _solve(cells: Cells, penalty: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return coefficients, inverse factors, degrees of freedom, and the residual mean square.

    `penalty` and the coefficients are (cells, columns). The factor of each cell is R with R'R the
    inverse of its penalised Gram matrix. The degrees of freedom, (cells, columns), say how far the
    log rather than the penalty determines each coefficient; the mean square divides by the number
    of rows minus their sum.
    """
    weights, roots = np.empty_like(cells.target), np.empty_like(cells.gram)
    (trtri,) = get_lapack_funcs(("trtri",), (roots,))
    for at, (gram, target) in enumerate(zip(cells.gram, cells.target, strict=True)):
        factor = _factor(gram, penalty[at])
        weights[at] = _refined(factor, gram, target, penalty[at])
        roots[at] = trtri(factor, lower=1, overwrite_c=1)[0]
    determined = 1.0 - penalty * np.einsum("cqp,cqp->cp", roots, roots)
    # Features that are always zero (moves never made) use no degrees of freedom.
    determined *= np.diagonal(cells.gram, axis1=1, axis2=2) > 0
    total = float(cells.total.sum())
    squares = total - 2 * np.einsum("cp,cp->", weights, cells.target)
    squares += np.einsum("cp,cpq,cq->", weights, cells.gram, weights)
    free = max(float(cells.rows.sum()) - determined.sum(), 1.0)
    return weights, roots, determined, max(float(squares), 1e-14 * max(total, 1e-300)) / free


def _refined(
    factor: np.ndarray, gram: np.ndarray, target: np.ndarray, penalty: np.ndarray
) -> np.ndarray:
    """Solve with one step of iterative refinement, since columns may be nearly collinear."""
    weights = cho_solve((factor, True), target, check_finite=False)
    rest = target - gram @ weights - penalty * weights
    return weights + cho_solve((factor, True), rest, check_finite=False)


def _factor(gram: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor of a penalised Gram matrix; zero above the diagonal."""
    (potrf,) = get_lapack_funcs(("potrf",), (gram,))
    jitter = 0.0
    while True:
        matrix = gram.copy().T  # symmetric, in the order that LAPACK overwrites in place
        matrix[np.diag_indices_from(matrix)] += penalty + jitter
        factor, info = potrf(matrix, lower=1, overwrite_a=1)
        if info == 0:
            return factor
        # Fewer rows than features and almost no penalty: use the smallest penalty that works.
        # Features that are always zero do not count, so that they change nothing.
        seen = max(np.count_nonzero(np.diagonal(gram)), 1)
        jitter = max(10 * jitter, 1e-10 * max(float(np.trace(gram)) / seen, 1.0))


def _strengths(cells: Cells, penalty: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Explained variance of each group, its standard error and its p-value, pooled over cells."""
    from scipy.stats import chi2

    if cells.target.shape[1] == 1:  # every agent has one move: no features
        nothing = np.zeros(len(cells.design.groups))
        return nothing, nothing, nothing + 1.0
    weights, roots, _, variance = _solve(cells, penalty)
    inverses = roots.swapaxes(1, 2) @ roots
    share = cells.rows / max(cells.rows.sum(), 1.0)
    squares, errors, p_values = [], [], []
    for start, end in pairwise(cells.starts):
        block = slice(start, end)
        half = inverses[:, block] * np.sqrt(penalty)[:, None]
        # Covariance of ridge estimates; their bias is ignored.
        unit = inverses[:, block, block] - half @ half.swapaxes(1, 2)
        covariance = variance * unit
        own = weights[:, block]
        squares.append(share @ ((own**2).sum(1) - np.trace(covariance, axis1=1, axis2=2)))
        spread = 4 * np.einsum("cp,cpq,cq->c", own, covariance, own)
        spread += 2 * np.einsum("cpq,cqp->c", covariance, covariance)
        errors.append(np.sqrt(np.maximum(share**2 @ spread, 0.0)))
        seen = cells.rows > 0
        # Leave out the variance, whose inverse overflows if rewards are constant.
        inverse = np.linalg.pinv(unit[seen], rcond=1e-10, hermitian=True)
        wald = np.einsum("cp,cpq,cq->", own[seen], inverse, own[seen])
        wald /= max(variance, np.finfo(np.float64).tiny)
        degrees = np.linalg.matrix_rank(unit[seen], hermitian=True).sum()
        p_values.append(chi2.sf(wald, max(int(degrees), 1)))
    return np.array(squares), np.array(errors), np.array(p_values)


def held_out_errors(
    sums: np.ndarray, design: Design, bases: np.ndarray, ridge: dict[int, float]
) -> np.ndarray:
    """(folds,): held-out mean squared error of the fit to all other folds, from their moments."""
    folds, cells, size, _ = sums.shape
    columns, orders = size - 1, orders_of(design, bases.shape[2])
    penalty = penalties_of(orders, ridge)
    errors = np.zeros(folds)
    for s in range(len(bases)):
        turn = np.eye(size)
        turn[:columns, :columns] = to_orthonormal(design, bases[s]).toarray()
        own = slice(s * (cells // len(bases)), (s + 1) * (cells // len(bases)))
        held = turn.T @ sums[:, own] @ turn
        train = held.sum(0) - held
        rows = train[..., 0, 0].sum(1)
        mean = (train[..., 0, -1].sum(1) / np.maximum(rows, 1.0))[:, None]
        gram = train[..., :columns, :columns].copy()
        gram[..., np.arange(columns), np.arange(columns)] += penalty
        target = train[..., :columns, -1] - mean[..., None] * train[..., :columns, 0]
        weights = _solved(gram, target)
        weights[..., 0] += mean
        full = np.concatenate([weights, np.full((*weights.shape[:-1], 1), -1.0)], -1)
        errors += np.einsum("fcp,fcpq,fcq->f", full, held, full)
    return np.maximum(errors, 0.0) / np.maximum(sums[..., 0, 0].sum(1), 1.0)


def _solved(gram: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Solve with one step of iterative refinement, since columns may be nearly collinear."""
    try:
        weights = np.linalg.solve(gram, target[..., None])
        rest = target[..., None] - gram @ weights
        return (weights + np.linalg.solve(gram, rest))[..., 0]
    except np.linalg.LinAlgError:
        return (np.linalg.pinv(gram, hermitian=True) @ target[..., None])[..., 0]
