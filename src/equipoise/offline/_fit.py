"""From a log to a model: least squares in the K-IR class, transitions by maximum likelihood.

Line 3 of the paper's Algorithm 1. The reward class is that of all K-IR functions of the moves
(or of those with terms among given or screened neighbours), fitted in closed form.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.games import ContextualGame, DecoupledMarkovGame, Interactions
from equipoise.offline._design import Design, group_tables
from equipoise.offline._interactions_report import interaction_map
from equipoise.offline._least_squares import (
    EVIDENCE_AGENTS,
    AgentFit,
    bases_of,
    cells_of,
    evidence,
    fit_agent,
)
from equipoise.offline._log import Log
from equipoise.offline._model import Model
from equipoise.offline._moments import Moments
from equipoise.offline._screen import neighbour_sets
from equipoise.offline._transitions import TransitionCounts, behaviour_of


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
        raise ValueError(f"rank: expected at most the {first.agents} agents, found {rank}")
    checks.check_range("level", level, 0.0, 1.0, low_open=True, high_open=True)
    sets: list[tuple[int, ...]] = [()] * first.agents
    if rank > 1:
        sets = neighbour_sets(neighbours, first.agents, lambda: _rows(first))
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
        return ContextualGame(terms, chances, log.actions_per_agent, noise), 0
    kernel, unseen = transitions.transitions()
    return (
        DecoupledMarkovGame(
            terms, kernel, transitions.initial(), chances, None, log.actions_per_agent, noise
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
