"""From a log to a model: least squares in the K-IR class, transitions by maximum likelihood.

Line 3 of the paper's Algorithm 1. The reward class is that of all K-IR functions of the moves
(or of those with terms among given or screened neighbours), fitted in closed form.

A dense design has a term for every pair; in a sparse network most of them only fit noise. Under
a product behaviour policy the mean reward of agent i given its own move and that of agent j alone
shows their term and nothing of anybody else's, so that screening tests every pair by itself. Pairs
are all that is tested: a neighbour who matters only jointly with a third agent, and on average
over what that agent does not at all, is screened out.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from scipy.stats import chi2

from equipoise.core import InputError, checks
from equipoise.games import ContextualGame, DecoupledMarkovGame, Interactions
from equipoise.offline._coverage import TransitionCounts, behaviour_of
from equipoise.offline._least_squares import (
    EVIDENCE_AGENTS,
    AgentFit,
    bases_of,
    cells_of,
    evidence,
    fit_agent,
)
from equipoise.offline._log import Log
from equipoise.offline._model import Model, interaction_map
from equipoise.offline._moments import Design, Moments, columns_of, group_tables

#: Bytes that the sums of all agents may take.
LARGEST_SUMS = 8e9
#: Rows that screening looks at, at most.
SCREENING_ROWS = 50_000
_NEIGHBOURS = "'all', 'screen', a count, or a list for each agent"


def fit(
    log: Log | Iterable[Log],
    rank: int | str = 2,
    *,
    neighbours: Any = None,
    ridge: Any = "evidence",
    intervals: bool = True,
    level: float = 0.95,
    **joint: Any,
) -> Model:
    """Fit a game of the given interaction rank to a log.

    Args:
        log: A log, or an iterable of pieces of one that is larger than memory (as
            `Log.read_chunks` gives), which is gone through once.
        rank: The interaction rank K: agent i's reward is a sum of terms of itself and up to
            K - 1 others. "joint" fits a function of all moves without structure, to compare
            with.
        neighbours: Whose moves may enter an agent's terms: everybody (None or "all"), a list
            for each agent or a boolean matrix, the k strongest (a number), or those that a test
            of every pair finds ("screen", 5% false discoveries). Terms of three or more agents
            are among the neighbours; both rules look at pairs alone, and miss a neighbour who
            matters only jointly with a third agent.
        ridge: "evidence", or the penalty in rows: one number, or one for each order from 2 on.
        intervals: Whether to estimate how sure each term is.
        level: Confidence level of those intervals.
        joint: Options of the joint critic: `kind` ("table", "mlp" or "auto"), `width`,
            `epochs`, `patience`, `key`.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=5, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=3_000, key=1)
    >>> model = eq.offline.fit(log, rank=2)
    >>> bool(eq.certify(model.game, game.uniform_policy()).max_gain > 0)
    True
    """
    first, pieces = _pieces(log)
    if rank == "joint":
        from equipoise.offline._joint import fit_joint

        return fit_joint(first if isinstance(log, Log) else list(pieces), **joint)
    if joint:
        raise ValueError(f"{sorted(joint)[0]}: expected no such option for rank {rank!r}")
    rank = checks.check_count("rank", rank)
    if rank > first.agents:
        raise InputError("rank", f"at most the {first.agents} agents", rank)
    checks.check_range("level", level, 0.0, 1.0, low_open=True, high_open=True)
    sets: list[tuple[int, ...]] = [()] * first.agents
    if rank > 1:
        sets = neighbour_sets(neighbours, first.agents, lambda: _rows(first))
    if refusal := too_large(first, sets, rank):
        raise ValueError(refusal)
    designs = [Design.of(own, rank) for own in sets]
    moments = Moments.empty(
        designs, range(first.agents), first.agents, situations_of(first), moves_of(first)
    )
    transitions = None if first.states is None else TransitionCounts(first)
    tally = _Tally(first)
    for piece in pieces:
        _check_alike(first, piece)
        moments.add(piece.situations, piece.moves, piece.rewards)
        tally.add(piece)
        if transitions is not None:
            transitions.add(piece)
    bases = bases_of(moments.counts)
    penalties = ridge_of(ridge, rank, moments, bases)
    fits = [
        fit_agent(cells_of(moments, k, bases), penalties, errors=intervals)
        for k in range(first.agents)
    ]
    terms = terms_of(fits, bases)
    game, unseen = _game(first, terms, fits, tally.context_probabilities(), transitions)
    return Model(
        game=game,
        rank=rank,
        interactions=interaction_map(terms, fits, level),
        behaviour=behaviour_of(first, moments.counts),
        samples=tally.rows,
        samples_per_parameter=samples_per_parameter(fits),
        noise=np.array([f.noise for f in fits]),
        reward_scale=tally.reward_scale(),
        ridge=penalties,
        neighbours=tuple(sets),
        counts=moments.counts,
        context_probabilities=tally.context_probabilities(),
        unseen_transitions=unseen,
    )


def too_large(log: Log, sets: list[tuple[int, ...]], rank: int) -> str:
    """Why a fit would take too much memory, and what to change; empty where it would not."""
    cells, moves = situations_of(log) * moves_of(log), moves_of(log)
    columns = [columns_of(len(own), rank, moves) for own in sets]
    size = 8.0 * cells * sum((count + 1.0) ** 2 for count in columns)
    if size <= LARGEST_SUMS:
        return ""
    change = "pass neighbours='screen' or a number of neighbours, or a lower rank"
    if max(columns) == 1:
        change = "group contexts, states or actions into fewer"
    return (
        f"rank: expected a fit of at most {LARGEST_SUMS / 1e9:g} GB, found {size / 1e9:.3g} GB for "
        f"rank {rank}: {max(columns):,} features in each of {cells:,} cells (situation and own "
        f"move) of {log.agents:,} agents; {change}"
    )


def situations_of(log: Log) -> int:
    """Number of contexts, or of contexts times steps."""
    return log.contexts_count * log.horizon


def check_discrete(log: Log) -> None:
    """Refuse a log of continuous actions, and say who takes it."""
    if log.continuous:
        raise ValueError(
            "log: expected actions that can be counted, found continuous ones; networks learn "
            "from those: equipoise.offline.deep.fit and deep.improve"
        )


def moves_of(log: Log) -> int:
    """Number of actions, or of states times actions."""
    check_discrete(log)
    return log.states_count * max(log.actions_per_agent)


def ridge_of(given: Any, rank: int, moments: Moments, bases: np.ndarray) -> dict[int, float]:
    """The penalty of each order from 2 on."""
    orders = range(2, rank + 1)
    if isinstance(given, str):
        if given != "evidence":
            raise ValueError(f"ridge: expected 'evidence' or a number, found {given!r}")
        spaced = np.linspace(0, len(moments.agents) - 1, EVIDENCE_AGENTS).round().astype(int)
        if rank == 1:
            return {}
        return evidence([cells_of(moments, int(k), bases) for k in np.unique(spaced)], rank)
    if isinstance(given, dict):
        if set(given) < set(orders):
            raise ValueError(f"ridge: expected orders {list(orders)}, found {sorted(given)}")
        values = {k: float(given[k]) for k in orders}
    else:
        values = {k: float(given) for k in orders}
    for value in values.values():
        checks.check_range("ridge", value, 0.0, np.inf, high_open=True)
    return values


def terms_of(fits: list[AgentFit], bases: np.ndarray) -> Interactions:
    """The fitted terms of all agents as `Interactions`, standardised under the log's play."""
    situations, agents, moves, _ = bases.shape
    found: dict[int, tuple[list[tuple[int, ...]], list[np.ndarray]]] = {}
    for i, own in enumerate(fits):
        weights = own.coefficients.reshape(situations, moves, -1)
        tables = [group_tables(own.design, weights[s], bases[s]) for s in range(situations)]
        for t, group in enumerate([(), *own.design.groups]):
            scopes, values = found.setdefault(1 + len(group), ([], []))
            scopes.append((i, *group))
            values.append(np.stack([tables[s][t] for s in range(situations)]))
    return Interactions(
        {k: np.array(scopes) for k, (scopes, _) in found.items()},
        {k: np.stack(values, 1) for k, (_, values) in found.items()},
        agents,
    )


def samples_per_parameter(fits: list[AgentFit]) -> float:
    """Rows per coefficient in the median cell that was seen."""
    ratios = [own.rows[own.rows > 0] / own.coefficients.shape[1] for own in fits]
    return float(np.median(np.concatenate(ratios)))


def _game(
    log: Log,
    terms: Interactions,
    fits: list[AgentFit],
    chances: np.ndarray,
    transitions: TransitionCounts | None,
) -> tuple[ContextualGame | DecoupledMarkovGame, int]:
    noise = float(np.mean([own.noise for own in fits]))
    if transitions is None:
        return ContextualGame(terms, chances, log.actions_per_agent, noise, labels=log.labels), 0
    kernel, unseen = transitions.transitions()
    return (
        DecoupledMarkovGame(
            *(terms, kernel, transitions.initial(), chances, None, log.actions_per_agent, noise),
            labels=log.labels,
        ),
        unseen,
    )


class _Tally:
    """Rows, contexts, and the spread of rewards."""

    def __init__(self, log: Log):
        self.rows = 0
        self.contexts = np.zeros(log.contexts_count, np.int64)
        self.sums = np.zeros((2, log.agents))

    def add(self, log: Log) -> None:
        self.rows += log.samples
        self.contexts += np.bincount(log.contexts, minlength=len(self.contexts))
        self.sums[0] += log.rewards.sum(0, dtype=np.float64)
        self.sums[1] += np.einsum("mn,mn->n", log.rewards, log.rewards, dtype=np.float64)

    def context_probabilities(self) -> np.ndarray:
        return self.contexts / self.rows

    def reward_scale(self) -> float:
        mean, square = self.sums / self.rows
        return float(np.sqrt(np.maximum(square - mean**2, 0.0).max()))


def _pieces(log: Log | Iterable[Log]) -> tuple[Log, Iterator[Log]]:
    """The first piece, and all of them."""
    if isinstance(log, Log):
        first, rest = log, iter(())
    else:
        rest = iter(log)
        first = next(rest, None)
    if not isinstance(first, Log):
        raise ValueError(f"log: expected a Log or pieces of one, found {type(first).__name__}")
    check_discrete(first)
    return first, chain([first], rest)


def _rows(log: Log) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[int, int]]:
    return log.situations, log.moves, log.rewards, (situations_of(log), moves_of(log))


def _check_alike(first: Log, piece: Log) -> None:
    for name in ("agents", "actions_per_agent", "contexts_count", "states_count", "horizon"):
        if getattr(first, name) != getattr(piece, name):
            raise ValueError(
                f"log: expected pieces with the same {name}, found {getattr(first, name)} "
                f"and {getattr(piece, name)}"
            )


def neighbour_sets(given: Any, agents: int, pieces: Any) -> list[tuple[int, ...]]:
    """Neighbours of each agent: everybody (None), given, the k strongest, or screened.

    `pieces` is a function that returns (situations, moves, rewards, sizes) of some rows.
    """
    if given is None or (isinstance(given, str) and given == "all"):
        return [tuple(j for j in range(agents) if j != i) for i in range(agents)]
    if isinstance(given, str):
        if given != "screen":
            raise InputError("neighbours", _NEIGHBOURS, repr(given))
        return _significant(pair_statistics(*pieces())[0])
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        if not 1 <= given < agents:
            hint = "for terms without neighbours, ask for rank 1"
            raise InputError("neighbours", f"a count from 1 to {agents - 1}", given, hint)
        statistics = pair_statistics(*pieces())[1]
        order = np.argsort(-statistics, axis=1, kind="stable")[:, :given]
        return [tuple(sorted(int(j) for j in row)) for row in order]
    return _given(given, agents)


def pair_statistics(
    situations: np.ndarray, moves: np.ndarray, rewards: np.ndarray, sizes: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """(agents, agents) p-values, and the statistics they come from, of every pair's term."""
    situations, moves, rewards = (x[:SCREENING_ROWS] for x in (situations, moves, rewards))
    count, agents = sizes[1], moves.shape[1]
    statistics, degrees = np.zeros((2, agents, agents))
    variance = np.zeros(agents)
    for s in range(sizes[0]):
        rows = situations == s
        if not rows.any():
            continue
        hot = (moves[rows][:, :, None] == np.arange(count)).astype(np.float32)
        hot = hot.reshape(len(hot), -1)
        reward = np.asarray(rewards[rows], np.float32)
        owns = hot.sum(0).reshape(agents, count)
        own_sums = (hot * np.repeat(reward, count, 1)).sum(0).reshape(agents, count)
        means = own_sums / np.maximum(owns, 1)
        left = reward - np.take_along_axis(means, moves[rows].T.astype(np.intp), 1).T
        variance += (left**2).sum(0)
        # Rows (own agent, own move), columns (other agent, its move).
        weighted = (hot * np.repeat(left, count, 1)).T
        both = (hot.T @ hot).reshape(agents, count, agents, count)
        sums = (weighted @ hot).reshape(agents, count, agents, count)
        statistics += np.where(both > 0, sums**2 / np.maximum(both, 1), 0.0).sum((1, 3))
        met = (both > 0).sum(3)
        degrees += np.maximum(met - 1, 0).sum(1)
    variance /= max(len(moves), 1)
    statistics /= np.maximum(variance, 1e-30)[:, None]
    np.fill_diagonal(statistics, 0.0)
    p_values = chi2.sf(statistics, np.maximum(degrees, 1))
    np.fill_diagonal(p_values, 1.0)
    return p_values, statistics


def _significant(p_values: np.ndarray, rate: float = 0.05) -> list[tuple[int, ...]]:
    """Pairs found at a false discovery rate of 5% (Benjamini and Hochberg)."""
    agents = len(p_values)
    pairs = ~np.eye(agents, dtype=bool)
    ordered = np.sort(p_values[pairs])
    below = ordered <= rate * np.arange(1, len(ordered) + 1) / max(len(ordered), 1)
    threshold = ordered[np.flatnonzero(below)[-1]] if below.any() else -1.0
    return [
        tuple(int(j) for j in np.flatnonzero(pairs[i] & (p_values[i] <= threshold)))
        for i in range(agents)
    ]


def _given(given: Any, agents: int) -> list[tuple[int, ...]]:
    if isinstance(given, np.ndarray) and given.dtype == bool:
        if given.shape != (agents, agents):
            raise InputError("neighbours", f"a matrix of shape {(agents, agents)}", given.shape)
        return [tuple(int(j) for j in np.flatnonzero(row) if j != i) for i, row in enumerate(given)]
    if not isinstance(given, Sequence | np.ndarray) or len(given) != agents:
        raise InputError("neighbours", f"{_NEIGHBOURS} of {agents}", repr(given))
    sets = [tuple(sorted({int(j) for j in own})) for own in given]
    for i, own in enumerate(sets):
        wrong = [j for j in own if j == i or not 0 <= j < agents]
        if wrong:
            expected = f"other agents from 0 to {agents - 1}"
            raise InputError(f"neighbours[{i}]", expected, wrong[0])
    return sets
