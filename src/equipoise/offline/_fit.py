"""Fit a model to a log: least squares in the K-IR class, transitions by maximum likelihood.

This is line 3 of the paper's Algorithm 1. The reward class contains all K-IR functions of the moves
(or those whose terms use only given or screened neighbours), and is fitted in closed form.

A dense design has a term for every pair of agents. In a sparse network most of these terms only fit
noise. Under a product behaviour policy, the mean reward of agent i given its own move and the move
of agent j depends on their joint term and on no other agent's terms, so screening can test each
pair on its own. Screening tests pairs only: it misses a neighbour that matters jointly with a third
agent but has no effect on average over that agent's moves.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
from scipy.stats import chi2, false_discovery_control, norm

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.games import ContextualGame, DecoupledMarkovGame, Interactions
from equipoise.offline._aggregate import KINDS, aggregate_note, fit_aggregate, scores_of
from equipoise.offline._coverage import (
    behaviour_of,
    count_actions,
    count_transitions,
    normalised,
    over_known,
    sizes_of,
)
from equipoise.offline._joint import fit_joint
from equipoise.offline._least_squares import (
    EVIDENCE_AGENTS,
    AgentFit,
    bases_of,
    cells_of,
    evidence,
    fit_agent,
)
from equipoise.offline._log import Log
from equipoise.offline._model import InteractionMap, Model
from equipoise.offline._moments import Design, Moments, columns_of, group_tables
from equipoise.offline._number_model import fit_numbers
from equipoise.offline._pieces import LogFiles, check_alike, joined, over
from equipoise.solvers.no_regret import Dynamics

#: Largest memory for the sums of all agents, in bytes.
LARGEST_SUMS = 8e9
#: Largest number of rows that screening uses.
SCREENING_ROWS = 50_000
_NEIGHBOURS = "'all', 'screen', a count, or a list for each agent"


@named_arguments
def fit(
    log: Log | Iterable[Log],
    rank: int | str = 2,
    *,
    neighbours: Any = None,
    ridge: Any = "evidence",
    intervals: bool = True,
    level: float = 0.95,
    **options: Any,
) -> Any:
    """Fit a game of the given interaction rank to a log.

    This is line 3 of DR-AC (Algorithm 1 of the interaction-rank paper): rewards by least squares
    in the class of rank K, transitions by maximum likelihood. `solve` is the rest.

    Args:
        log: A log, or an iterable of pieces of a log that is larger than memory (see
            `Log.read_chunks`). The pieces are read once.
        rank: The interaction rank K: the reward of agent i is a sum of terms that depend on its own
            move and the moves of up to K - 1 others. "sum", "mean" and "histogram" fit a table of
            the own move by an aggregate of the others' actions: their sum, their mean, or the
            number of agents that play each action. "joint" fits an unstructured function of all
            moves, for comparison.
        neighbours: Agents whose moves may enter an agent's terms: all agents (None or "all"), a
            list for each agent or a boolean matrix, the k strongest (a number), or those found by a
            test of every pair ("screen", false discovery rate 5%). Terms of three or more agents
            use these neighbours only. The last two rules test pairs only, and miss a neighbour that
            matters only jointly with a third agent.
        ridge: Penalty, in rows: one number, or a dictionary with a number for each order from 2
            on. "evidence" (the default) chooses the penalties by maximising the evidence.
        intervals: Whether to estimate a confidence interval for the strength of each term.
        level: Confidence level of those intervals.
        options: Options of the joint critic: `kind` ("table", "mlp" or "auto"), `width`, `epochs`,
            `patience`, `key`. Options for numeric contexts or local states: `degree` of the
            polynomials (default 2), the class of `transitions` ("table", "linear", "network",
            "auto" or the result of `transitions.fit`), `key`.

    Returns a `Model`. A log with numeric contexts or local states gives a `NumericModel`, whose
    rewards have rank 1 or 2 and are linear in polynomials of contexts and states. `ridge` is then
    one number for all orders, relative to the mean squared error, or chosen by generalised
    cross-validation.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=5, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=3_000, key=1)
    >>> model = eq.offline.fit(log, rank=2)
    >>> bool(eq.certify(model.game, game.uniform_policy()).max_gain > 0)
    True
    """
    rest = iter((log,) if isinstance(log, Log) else log)
    if isinstance(log, Log) and log.numeric:
        if neighbours is not None:
            raise InputError("neighbours", f"none for a log with {log.numeric}", repr(neighbours))
        return fit_numbers(log, rank, ridge=ridge, **options)
    first = check_alike(None, next(rest, None))
    if rank == "joint":
        return fit_joint(first if isinstance(log, Log) else [first, *rest], **options)
    if rank in KINDS:
        return _fit_aggregate(first if isinstance(log, Log) else None, str(rank))
    if options:
        raise ValueError(f"{sorted(options)[0]}: expected rank 'joint', found {rank!r}")
    rank = checks.check_count("rank", rank)
    if rank > first.agents:
        raise InputError("rank", f"at most {first.agents}, the number of agents", rank)
    checks.check_range("level", level, 0.0, 1.0, low_open=True, high_open=True)
    sets: list[tuple[int, ...]] = [()] * first.agents
    leading = [first]
    if rank > 1:
        if isinstance(neighbours, str | int | np.integer) and neighbours != "all":
            # Screening needs the same rows however the log is cut into pieces.
            while sum(piece.samples for piece in leading) < SCREENING_ROWS:
                if (piece := next(rest, None)) is None:
                    break
                check_alike(first, piece)
                leading.append(piece)
        sets = neighbour_sets(neighbours, joined(leading) if len(leading) > 1 else first)
    if refusal := too_large(first, sets, rank):
        raise ValueError(refusal)
    like = first.take(slice(1))

    def sums_of(numbered: Iterable[tuple[int, Log]]) -> Sums:
        sums = Sums.empty(like, sets, rank)
        for _, piece in numbered:
            check_alike(like, piece)
            sums.add(piece)
        return sums

    every = log if isinstance(log, LogFiles) else chain(leading, rest)
    sums = reduce(Sums.plus, over(every, sums_of))
    return model_of(first, sums, sets, rank, ridge, intervals=intervals, level=level)


@dataclass
class Sums:
    """Sums over the rows of a log that are sufficient for a fit. Sums of pieces add up."""

    moments: Moments
    #: (contexts, horizon, agents, states, actions, next states): counts, if there are states.
    transitions: np.ndarray
    #: (3, agents): sums of rewards and of their squares, and the number of those recorded.
    rewards: np.ndarray

    @classmethod
    def empty(cls, log: Log, sets: list[tuple[int, ...]], rank: int) -> "Sums":
        """Sums over no rows, for logs like this one and terms with these neighbours."""
        designs, agents = [Design.of(own, rank) for own in sets], log.agents
        moments = Moments.empty(designs, range(agents), agents, *sizes_of(log))
        return cls(moments, np.zeros(1), np.zeros((3, agents)))

    def add(self, piece: Log) -> None:
        """Add the rows of a piece."""
        self.moments.add(piece.situations, piece.moves, piece.rewards)
        rewards, known = piece.rewards, piece.recorded
        rewards = rewards if known is None else np.where(known, rewards, 0.0)
        self.rewards[0] += rewards.sum(0, dtype=np.float64)
        self.rewards[1] += np.einsum("mn,mn->n", rewards, rewards, dtype=np.float64)
        self.rewards[2] += piece.samples if known is None else known.sum(0)
        if piece.states is not None:
            self.transitions = self.transitions + count_transitions(piece)

    def plus(self, other: "Sums", sign: int = 1) -> "Sums":
        """Add the sums of `other`, or subtract them if the sign is -1."""
        moments = self.moments.plus(other.moments, sign)
        parts = ((self.transitions, other.transitions), (self.rewards, other.rewards))
        return Sums(moments, *(a + sign * b for a, b in parts))


def model_of(
    first: Log,
    sums: Sums,
    sets: list[tuple[int, ...]],
    rank: int,
    ridge: Any = "evidence",
    *,
    intervals: bool = True,
    level: float = 0.95,
) -> Model:
    """Fit a model to sums over rows. The arguments are those of `fit`."""
    moments, transitions, agents = sums.moments, sums.transitions, first.agents
    bases = bases_of(moments.counts)
    penalties = ridge_of(ridge, rank, moments, bases)
    fits = [
        fit_agent(cells_of(moments, k, bases), penalties, errors=intervals) for k in range(agents)
    ]
    terms = terms_of(fits, bases)
    rows = moments.counts[:, 0].sum(-1).reshape(first.contexts_count, -1).sum(1)
    samples, chances = int(rows.sum()), rows / rows.sum()
    if not sums.rewards[2].all():
        nobody = first.labels.player(int(sums.rewards[2].argmin()))
        raise InputError("log", "a recorded reward of every agent", f"none of agent {nobody}")
    mean, square = sums.rewards[:2] / sums.rewards[2]
    noise, unseen = np.array([own.noise for own in fits]), 0
    shared = {"noise": float(noise.mean()), "labels": first.labels}
    if first.states is None:
        game = ContextualGame(terms, chances, first.actions_per_agent, **shared)
    else:
        even = 1.0 / first.states_count
        kernel, never = normalised(transitions, even)
        initial, _ = normalised(transitions[:, 0].sum((-1, -2)), even)
        game = DecoupledMarkovGame(
            terms, kernel, initial, chances, actions=first.actions_per_agent, **shared
        )
        unseen = int(never.sum())
    return Model(
        game=game,
        rank=rank,
        interactions=interaction_map(terms, fits, level),
        behaviour=behaviour_of(first, moments.counts),
        samples=samples,
        samples_per_parameter=float(
            np.median(np.concatenate([f.rows[f.rows > 0] / f.coefficients.shape[1] for f in fits]))
        ),
        noise=noise,
        reward_scale=float(np.sqrt(np.maximum(square - mean**2, 0.0).max())),
        ridge=penalties,
        neighbours=tuple(sets),
        counts=moments.counts,
        context_probabilities=chances,
        unseen_transitions=unseen,
        dynamics=Dynamics.of(game),
        transition_counts=None if first.states is None else transitions,
    )


def _fit_aggregate(log: Log | None, kind: str) -> Model:
    """Fit a model whose rewards are a table of the own move by an aggregate of the others'."""
    if log is None:
        raise InputError("log", "a single Log for an aggregate", "pieces")
    if note := aggregate_note(log, kind):
        raise InputError("rank", "an aggregate that this log supports", note)
    size, counts = sizes_of(log), count_actions(log)
    scores, grid = scores_of(log, kind)
    terms, noise = fit_aggregate(log.situations, log.moves, log.rewards, size, scores, grid, kind)
    chances = np.bincount(log.contexts, minlength=log.contexts_count) / log.samples
    cells = terms.cells(log.moves)[:, 0].astype(np.int64)
    seen = len(np.unique((log.situations * size[1] + log.moves[:, 0]) * cells.max() + cells))
    shape = (log.contexts_count, log.horizon, log.agents, log.states_count, -1)
    placed = counts.reshape(shape)
    initial, _ = normalised(placed[:, 0].sum(-1), 1.0 / log.states_count)
    kernel = np.ones((*placed.shape, log.states_count)) / log.states_count
    everybody = range(log.agents)
    return Model(
        game=None,
        rank=kind,
        interactions=None,
        behaviour=behaviour_of(log, counts),
        samples=log.samples,
        samples_per_parameter=log.samples / max(seen, 1),
        noise=noise,
        reward_scale=float(over_known(np.std, log.rewards).max()),
        ridge={},
        neighbours=tuple(tuple(j for j in everybody if j != i) for i in everybody),
        counts=counts,
        context_probabilities=chances,
        rewards=terms,
        dynamics=Dynamics(initial, kernel),
    )


def interaction_map(terms: Interactions, fits: list[AgentFit], level: float) -> InteractionMap:
    """Collect strengths and their intervals from the fits of all agents."""
    squares, errors, p_values = (
        np.concatenate([getattr(fit, name) for fit in fits])
        for name in ("squares", "errors", "p_values")
    )
    reach = norm.ppf(0.5 + level / 2) * errors
    strengths, lowers, uppers = (
        np.sqrt(np.maximum(x, 0.0)) for x in (squares, squares - reach, squares + reach)
    )
    return InteractionMap(
        terms,
        np.repeat(np.arange(len(fits)), [len(fit.design.groups) for fit in fits]),
        tuple(group for fit in fits for group in fit.design.groups),
        *(strengths, lowers, uppers, p_values, level),
    )


def too_large(log: Log, sets: list[tuple[int, ...]], rank: int, copies: int = 1) -> str:
    """Say why a fit would take too much memory and what to change; empty if it would not.

    `copies` is the number of copies of the sums held in memory.
    """
    situations, moves = sizes_of(log)
    cells = situations * moves
    columns = [columns_of(len(own), rank, moves) for own in sets]
    size = 8.0 * copies * cells * sum((count + 1.0) ** 2 for count in columns)
    if size <= LARGEST_SUMS:
        return ""
    change = "pass neighbours='screen' or a number of neighbours, or a lower rank"
    if max(columns) == 1:
        change = "merge contexts, states or actions"
    return (
        f"rank: expected a fit of at most {LARGEST_SUMS / 1e9:g} GB, found {size / 1e9:.3g} GB for "
        f"rank {rank}: {max(columns):,} features in each of {cells:,} cells (situation and own "
        f"move) of {log.agents:,} agents; {change}"
    )


def ridge_of(given: Any, rank: int, moments: Moments, bases: np.ndarray) -> dict[int, float]:
    """Return the penalty of each order from 2 on."""
    orders = range(2, rank + 1)
    if isinstance(given, str):
        if given != "evidence":
            raise ValueError(f"ridge: expected 'evidence' or a number, found {given!r}")
        spaced = np.linspace(0, len(moments.agents) - 1, EVIDENCE_AGENTS).round().astype(int)
        if rank == 1:
            return {}
        return evidence([cells_of(moments, int(k), bases) for k in np.unique(spaced)], rank)
    values: Any = given if isinstance(given, dict) else dict.fromkeys(orders, given)
    if not set(values) >= set(orders):
        raise ValueError(f"ridge: expected orders {list(orders)}, found {sorted(values)}")
    for k in orders:
        checks.check_range("ridge", values[k], 0.0, np.inf, high_open=True)
    return {k: float(values[k]) for k in orders}


def terms_of(fits: list[AgentFit], bases: np.ndarray) -> Interactions:
    """Fitted terms of all agents as `Interactions`, standardised under the log's play."""
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


def neighbour_sets(given: Any, log: Log) -> list[tuple[int, ...]]:
    """Return the neighbours of each agent: all (None), as given, the k strongest, or screened."""
    agents = log.agents
    if given is None or (isinstance(given, str) and given == "all"):
        return [tuple(j for j in range(agents) if j != i) for i in range(agents)]
    if isinstance(given, str):
        if given != "screen":
            raise InputError("neighbours", _NEIGHBOURS, repr(given))
        return _significant(pair_statistics(log)[0])
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        if not 1 <= given < agents:
            hint = "use rank 1 for terms without neighbours"
            raise InputError("neighbours", f"a count from 1 to {agents - 1}", given, hint)
        statistics = pair_statistics(log)[1]
        order = np.argsort(-statistics, axis=1, kind="stable")[:, :given]
        return [tuple(sorted(row.tolist())) for row in order]
    return _given(given, agents)


def pair_statistics(log: Log) -> tuple[np.ndarray, np.ndarray]:
    """(agents, agents): p-values and test statistics of the term of every pair."""
    log = log.take(slice(SCREENING_ROWS))
    situations, moves, rewards = log.situations, log.moves, log.rewards
    many, count = sizes_of(log)
    agents = log.agents
    statistics, degrees = np.zeros((2, agents, agents))
    variance = np.zeros(agents)
    for s in range(many):
        rows = situations == s
        if not rows.any():
            continue
        hot = (moves[rows][:, :, None] == np.arange(count)).astype(np.float32)
        hot = hot.reshape(len(hot), -1)
        reward, mine = np.asarray(rewards[rows], np.float32), hot
        if log.recorded is not None:
            known = log.recorded[rows]
            reward, mine = np.where(known, reward, 0.0), hot * np.repeat(known, count, 1)
        owns = mine.sum(0).reshape(agents, count)
        own_sums = (hot * np.repeat(reward, count, 1)).sum(0).reshape(agents, count)
        means = own_sums / np.maximum(owns, 1)
        left = reward - np.take_along_axis(means, moves[rows].T.astype(np.intp), 1).T
        left = left if log.recorded is None else left * log.recorded[rows]
        variance += (left**2).sum(0)
        # Rows: (own agent, own move). Columns: (other agent, its move).
        weighted = (hot * np.repeat(left, count, 1)).T
        both = (mine.T @ hot).reshape(agents, count, agents, count)
        sums = (weighted @ hot).reshape(agents, count, agents, count)
        statistics += np.where(both > 0, sums**2 / np.maximum(both, 1), 0.0).sum((1, 3))
        met = (both > 0).sum(3)
        degrees += np.maximum(met - 1, 0).sum(1)
    variance /= max(len(moves), 1) if log.recorded is None else np.maximum(log.recorded.sum(0), 1)
    statistics /= np.maximum(variance, 1e-30)[:, None]
    np.fill_diagonal(statistics, 0.0)
    p_values = chi2.sf(statistics, np.maximum(degrees, 1))
    np.fill_diagonal(p_values, 1.0)
    return p_values, statistics


def _significant(p_values: np.ndarray, rate: float = 0.05) -> list[tuple[int, ...]]:
    """Select pairs at a false discovery rate of 5% (Benjamini and Hochberg)."""
    pairs = ~np.eye(len(p_values), dtype=bool)
    adjusted = np.ones(p_values.shape)
    if pairs.any():
        adjusted[pairs] = false_discovery_control(p_values[pairs])
    return [tuple(np.flatnonzero(row <= rate).tolist()) for row in adjusted]


def _given(given: Any, agents: int) -> list[tuple[int, ...]]:
    if isinstance(given, np.ndarray) and given.dtype == bool:
        if given.shape != (agents, agents):
            raise InputError("neighbours", f"a matrix of shape {(agents, agents)}", given.shape)
        others = given & ~np.eye(agents, dtype=bool)
        return [tuple(np.flatnonzero(row).tolist()) for row in others]
    if not isinstance(given, Sequence | np.ndarray) or len(given) != agents:
        raise InputError("neighbours", f"{_NEIGHBOURS} of {agents}", repr(given))
    sets = [tuple(sorted({int(j) for j in own})) for own in given]
    for i, own in enumerate(sets):
        wrong = [j for j in own if j == i or not 0 <= j < agents]
        if wrong:
            expected = f"other agents from 0 to {agents - 1}"
            raise InputError(f"neighbours[{i}]", expected, wrong[0])
    return sets
