"""Nash equilibria of two-player games: one by pivoting, all by exact vertex enumeration.

`nash` runs the Lemke-Howson algorithm on a batch and repairs the few games in which it failed
because of rounding, or whose path is long. The lengths of the paths of one game differ by orders of
magnitude, and nothing tells which label starts a short one; paths from other labels are therefore
tried with numbers of pivots that double now and then (Luby, Sinclair and Zuckerman, 1993). These
numbers, and not the clock, decide which equilibrium is returned.

`as_zero_sum` recognises games that are zero-sum up to positive scaling and up
to terms that do not affect the choice of the player who receives them.

`extreme_equilibria` enumerates the vertices of both best-response polytopes in exact integer
arithmetic and pairs those that carry all labels (Mangasarian, 1964; Avis, Rosenberg, Savani and
von Stengel, 2010). Every equilibrium of a degenerate game is a mixture of such pairs: maximal
sets of vertices that are all equilibria with one another are the maximal Nash subsets, and
subsets that share a vertex form a connected component.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from equipoise.core.kernels.lemke_howson import lemke_howson, most_pivots, pivots_within
from equipoise.solvers._nplayer import Replies, polish

#: Number of pivots after which a path is first given up.
_PIVOTS = 1000
#: Relative size of a term that may be rounding when a game is recognised as zero-sum.
_ROUNDING = 1e-12
#: Maximum number of maximal Nash subsets listed.
_SUBSETS = 100_000
#: Maximum number of entries in stored tables of unvisited vertices; about a gigabyte of integers.
_WAITING = 20_000_000


def as_zero_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Return row payoffs of a zero-sum game with the same equilibria; None if there is none.

    Best responses do not change when a player's payoffs are scaled by a positive number, or when a
    term that depends only on the other player's action is added. A game that becomes zero-sum
    that way is strategically zero-sum (Moulin and Vial, 1978). With rows and columns centred,
    this holds if one player's payoffs are a negative multiple of the other's.

    >>> a = np.array([[1.0, -1], [-1, 1]])
    >>> as_zero_sum(a, 7 - 2 * a).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    >>> as_zero_sum(a, a) is None
    True
    """
    centred = [p - p.mean(0) - p.mean(1, keepdims=True) + p.mean() for p in (a, b)]
    size = [float(np.abs(c).max()) for c in centred]
    level = [_ROUNDING * max(float(np.abs(p).max()), 1e-300) for p in (a, b)]
    if size[0] <= level[0] and size[1] <= level[1]:
        ratio = 0.0  # each player has a dominant action, whatever the other does
    elif size[0] <= level[0] or size[1] <= level[1]:
        return None
    else:
        where = np.unravel_index(int(np.abs(centred[1]).argmax()), a.shape)
        ratio = -float(centred[0][where] / centred[1][where])
        if ratio <= 0.0:
            return None
    if np.abs(centred[0] + ratio * centred[1]).max() > level[0] + abs(ratio) * level[1]:
        return None
    if ratio == 0.0:
        # The rows' own value minus the columns' own value has a saddle point at both maxima.
        return a.mean(1, keepdims=True) - b.mean(0)
    total = a + ratio * b
    return a - (total.mean(0) - total.mean())


def nash(
    payoffs: np.ndarray, start: int = 0, tolerance: float = 1e-10, time_limit: float = np.inf
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return one equilibrium of each game: strategies (games, m), (games, n) and pivots (games,).

    `payoffs` (games, 2, m, n) are those of the row and the column player; `start` is the label
    dropped first. Games whose largest gain exceeds `tolerance` times the payoff range are repaired
    within the time limit. If nothing was found for a game, its strategies are zeros. Pivots of all
    paths are counted.

    >>> x, y, _ = nash(np.array([[[[2.0, 0], [0, 1]], [[1.0, 0], [0, 2]]]]), start=0)
    >>> x.tolist(), y.tolist()
    ([[1.0, 0.0]], [[1.0, 0.0]])
    """
    deadline = time.monotonic() + time_limit
    within = pivots_within(time_limit / max(len(payoffs), 1), *payoffs.shape[2:])
    x, y, pivots, spread = lemke_howson(payoffs, start, int(min(_PIVOTS, within)))
    allowed = tolerance * spread.max(1)
    missed = np.flatnonzero(~(_gain(payoffs, x, y) <= allowed))
    if len(missed) and within >= _PIVOTS:
        repair(payoffs, x, y, pivots, missed, start, allowed, deadline)
    return x, y, pivots


def _paths(m: int, n: int) -> Iterator[tuple[int, int]]:
    """Return labels to drop, counted from the first one, and the numbers of pivots allowed.

    Numbers are multiples of Luby's sequence 1, 1, 2, 1, 1, 2, 4, ..., whose first entry is the path
    from the first label. In the end every label gets all pivots.

    >>> list(_paths(2, 2))
    [(1, 1000), (2, 1400), (3, 1000), (0, 1400), (1, 1400), (2, 1400), (3, 1400)]
    """
    labels, most = m + n, most_pivots(m, n)
    turn, size = 1, 1
    for path in range(1, labels):
        turn, size = (turn + 1, 1) if turn & -turn == size else (turn, 2 * size)
        yield path, min(_PIVOTS * size, most)
    for path in range(labels):
        yield path, most


def repair(
    payoffs: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    pivots: np.ndarray,
    games: np.ndarray,
    start: int,
    allowed: np.ndarray,
    deadline: float,
) -> None:
    """Replace the strategies of games in which pivoting failed, and add to their `pivots`.

    Supports are polished by Newton's method, and pivoting is restarted from other labels, until
    the largest gain is within `allowed` (games,); the best result is kept. The search ends early if
    the time left does not suffice for the next path.
    """
    m, n = payoffs.shape[2:]
    best = np.full(len(payoffs), np.inf)

    def keep(found_x: np.ndarray, found_y: np.ndarray) -> np.ndarray:
        """Keep what is better, and return the games that are still to be solved."""
        for g, own_x, own_y in zip(games, found_x, found_y, strict=True):
            for pair in _repaired(payoffs[g], own_x, own_y):
                gain = float(_gain(payoffs[g, None], pair[0][None], pair[1][None])[0])
                if gain < best[g]:
                    best[g], x[g], y[g] = gain, *pair
        return games[~(best[games] <= allowed[games])]

    games = keep(x[games], y[games])
    for step, budget in _paths(m, n):
        left = deadline - time.monotonic()
        if not len(games) or left <= 0.0:
            return
        limit = int(min(budget, pivots_within(left / len(games), m, n)))
        found_x, found_y, more, _ = lemke_howson(payoffs[games], (start + step) % (m + n), limit)
        pivots[games] += more
        games = keep(found_x, found_y)
        if limit < budget:
            return


def _gain(payoffs: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(games,): the largest gain of any player; infinite where there is no strategy."""
    rows = np.einsum("gij,gj->gi", payoffs[:, 0], y)
    columns = np.einsum("gij,gi->gj", payoffs[:, 1], x)
    gain = np.maximum(rows.max(1) - (rows * x).sum(1), columns.max(1) - (columns * y).sum(1))
    return np.where((x.sum(1) > 0) & (y.sum(1) > 0), gain, np.inf)


def _repaired(
    payoffs: np.ndarray, x: np.ndarray, y: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    if not (x.sum() > 0 and y.sum() > 0):
        return
    yield x, y
    found = polish(Replies(payoffs), [x, y], np.concatenate([x, y]) > 1e-9)
    if found is not None:
        yield found[0], found[1]


@dataclass(frozen=True)
class Extreme:
    """The extreme equilibria of a game, and the components that they form."""

    #: (equilibria, m) and (equilibria, n): strategies of both players.
    x: np.ndarray
    y: np.ndarray
    #: Equilibria of each connected component.
    components: list[list[int]]
    #: Equilibria of each maximal Nash subset: every mixture within it is an equilibrium. None if
    #: there are too many to list in time.
    subsets: list[list[int]] | None
    #: What ended the visits of vertices: "solved" if all were visited, "out of time", "memory", or
    #: "interrupted" by Ctrl-C, after which nothing is listed.
    ended: str

    @property
    def complete(self) -> bool:
        """Whether all vertices were visited."""
        return self.ended == "solved"


def extreme_equilibria(a: np.ndarray, b: np.ndarray, time_limit: float = np.inf) -> Extreme:
    """Return all extreme equilibria of one bimatrix game with payoffs (m, n), exactly.

    Payoffs are interpreted as the simplest fractions that round to them, and all arithmetic up to
    the last division uses integers, so that ties and degenerate games need no special treatment.

    >>> found = extreme_equilibria(np.array([[2, 0], [0, 1]]), np.array([[1, 0], [0, 2]]))
    >>> [[float(round(p, 4)) for p in x] for x in found.x]
    [[0.0, 1.0], [0.6667, 0.3333], [1.0, 0.0]]
    """
    deadline = time.monotonic() + time_limit
    m, n = a.shape
    # Labels 0..m-1: an action of the row player is not used, or is a best response.
    try:
        columns, ended = _vertices(np.asarray(b).T, deadline)
        rows, then = _vertices(np.asarray(a), deadline)
    except KeyboardInterrupt:
        return Extreme(np.zeros((0, m)), np.zeros((0, n)), [], [], "interrupted")
    xs = [(_swap(labels, m, n, first=True), point) for labels, point in columns.items()]
    ys = [(_swap(labels, n, m, first=False), point) for labels, point in rows.items()]
    xs, ys = [v for v in xs if any(v[1])], [v for v in ys if any(v[1])]
    full = (1 << (m + n)) - 1
    by_words = m + n <= 63
    masks = np.array([v[0] for v in ys], np.uint64 if by_words else object)
    pairs = []
    for k, (labels, _) in enumerate(xs):
        missing = full & ~labels
        needed = np.uint64(missing) if by_words else missing
        pairs += [(k, int(j)) for j in np.flatnonzero((masks & needed) == needed)]
    points = [(_normal(xs[k][1]), _normal(ys[j][1])) for k, j in pairs]
    order = sorted(range(len(pairs)), key=lambda e: (tuple(points[e][0]), tuple(points[e][1])))
    pairs = [pairs[e] for e in order]
    return Extreme(
        x=np.array([points[e][0] for e in order]).reshape(-1, m),
        y=np.array([points[e][1] for e in order]).reshape(-1, n),
        components=_components(pairs, len(xs), len(ys)),
        subsets=_subsets(pairs, deadline),
        ended=then if ended == "solved" else ended,
    )


def _swap(labels: int, own: int, other: int, *, first: bool) -> int:
    """Renumber labels as the row player does; a polytope puts its own player's actions first."""
    if first:
        return labels
    return (labels >> own) | ((labels & ((1 << own) - 1)) << other)


def _normal(point: list[int]) -> list[float]:
    total = sum(point)
    return [float(Fraction(value, total)) for value in point]


def _simplest(value: float) -> Fraction:
    """Return the intended fraction: a small one, a short decimal, or the binary number itself."""
    found = Fraction(value).limit_denominator(1000)
    if float(found) == value:
        return found
    short = repr(value)
    return Fraction(short) if len(short) < 14 else Fraction(value)


def _vertices(payoff: np.ndarray, deadline: float) -> tuple[dict[int, list[int]], str]:
    """Return the vertices of {z >= 0, payoff z <= 1} for payoffs (k, d) made positive.

    Returns a dictionary from labels to points (integer multiples of the vertices), and "solved" if
    all vertices were visited, or what ended the visits, "out of time" or "memory".

    Label i < d means that z_i is zero; label d + j that row j is tight. The
    search visits the lexicographically feasible bases, which are the vertices of a nearby simple
    polytope: their graph is connected and covers every vertex. Integers stay short because division
    by the last pivot is exact (Edmonds; Bareiss, 1968).
    """
    k, d = payoff.shape
    exact = []
    for row in payoff:
        exact.append([_simplest(float(v)) for v in row])
        if time.monotonic() > deadline:
            return {}, "out of time"
    low = min(min(row) for row in exact)
    table = []
    for row in exact:
        shifted = [v - low + 1 for v in row]
        unit = lcm(*(v.denominator for v in shifted))
        table.append([int(v * unit) for v in shifted] + [unit])
    basis, others = list(range(d, d + k)), list(range(d))
    start = _mask(basis)
    #: Vertices to visit. Each entry has the table, scale, basis and other labels of the vertex from
    #: which it was seen (its neighbours share them), the row and column to exchange, and the
    #: number of such tables.
    seen, stack = {start}, [(table, 1, basis, others, -1, -1, 0)]
    found: dict[int, list[int]] = {}
    while stack:
        table, scale, basis, others, r, c, depth = stack.pop()
        if depth * k * d > _WAITING:
            return found, "memory"
        if time.monotonic() > deadline:
            return found, "out of time"
        if r >= 0:
            table, scale = _exchange(table, scale, r, c)
            basis, others = list(basis), list(others)
            basis[r], others[c] = others[c], basis[r]
        labels, point = _mask(others), [0] * d
        for row, label in zip(table, basis, strict=True):
            if row[d] == 0:
                labels |= 1 << label
            elif label < d:
                point[label] = row[d]
        found[labels] = point
        place = {label: r for r, label in enumerate(basis)}
        column_of = {label: c for c, label in enumerate(others)}
        for c in range(d):
            r = _leaving(table, scale, c, place, column_of, d, k)
            key = _mask(basis) ^ (1 << basis[r]) ^ (1 << others[c])
            if key not in seen:
                seen.add(key)
                stack.append((table, scale, basis, others, r, c, depth + 1))
    return found, "solved"


def _mask(labels: list[int]) -> int:
    return sum(1 << label for label in labels)


def _leaving(
    table: list[list[int]], scale: int, c: int, place: dict, column_of: dict, d: int, k: int
) -> int:
    """Return the row with the lexicographically smallest ratio of column c."""
    best = -1
    for r, row in enumerate(table):
        p = row[c]
        if p <= 0:
            continue
        if best < 0:
            best = r
            continue
        q, other = table[best][c], table[best]
        difference = row[d] * q - other[d] * p
        slack = d
        while difference == 0 and slack < d + k:
            at = column_of.get(slack)
            if at is not None:
                difference = row[at] * q - other[at] * p
            elif place[slack] == r:
                difference = scale * q
            elif place[slack] == best:
                difference = -scale * p
            slack += 1
        if difference < 0:
            best = r
    return best


def _exchange(table: list[list[int]], scale: int, r: int, c: int) -> tuple[list[list[int]], int]:
    """Swap a basic and a non-basic variable; entries are multiples of one over the new scale."""
    pivot_row = table[r]
    pivot = pivot_row[c]
    result = []
    for i, row in enumerate(table):
        if i == r:
            new = list(pivot_row)
            new[c] = scale
        else:
            factor = row[c]
            new = [(v * pivot - factor * w) // scale for v, w in zip(row, pivot_row, strict=True)]
            new[c] = -factor
        result.append(new)
    return result, pivot


def _components(pairs: list[tuple[int, int]], xs: int, ys: int) -> list[list[int]]:
    """Group equilibria that are connected through common strategies of a player."""
    if not pairs:
        return []
    from scipy.sparse import coo_array, csgraph

    first, second = np.array(pairs).T
    graph = coo_array((np.ones(len(pairs)), (first, second + xs)), shape=(xs + ys, xs + ys))
    names = csgraph.connected_components(graph, directed=False)[1][first]
    return [np.flatnonzero(names == name).tolist() for name in dict.fromkeys(names.tolist())]


def _subsets(pairs: list[tuple[int, int]], deadline: float) -> list[list[int]] | None:
    """List maximal sets of both players' strategies that are all equilibria with one another."""
    number = {pair: e for e, pair in enumerate(pairs)}
    replies: dict[int, frozenset[int]] = {}
    for k, j in pairs:
        replies[k] = replies.get(k, frozenset()) | {j}
    closed: set[frozenset[int]] = set()
    for own in replies.values():
        closed |= {own} | {own & other for other in closed}
        closed.discard(frozenset())
        if len(closed) > _SUBSETS or time.monotonic() > deadline:
            return None
    found = []
    for columns in closed:
        if time.monotonic() > deadline:
            return None
        rows = [k for k, own in replies.items() if columns <= own]
        found.append(sorted(number[k, j] for k in rows for j in columns))
    return sorted(found)
