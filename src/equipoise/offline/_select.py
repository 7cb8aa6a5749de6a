"""Which interaction rank a log supports: held-out error of each, and the smallest that fits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.randomness import as_key
from equipoise.offline._aggregate import aggregate_note, fit_aggregate, scores_of
from equipoise.offline._coverage import count_moves, sizes_of
from equipoise.offline._fit import neighbour_sets, too_large
from equipoise.offline._joint import KINDS, joint_kind, predict_joint
from equipoise.offline._least_squares import (
    bases_of,
    cells_of,
    evidence,
    orders_of,
    penalties_of,
)
from equipoise.offline._log import Log
from equipoise.offline._moments import Design, Moments, add_agent, columns_of, to_orthonormal
from equipoise.offline._pieces import Source
from equipoise.offline.parameters import TOO_LITTLE

#: Ranks whose sums, of one agent and all folds, take more bytes than this are not tried.
LARGEST_SUMS = 4e9
#: Errors below this part of the variance are rounding, and alike.
ROUNDING = 1e-9
#: Operations that the errors of the largest design may take; then fewer agents are judged by.
WORK, FEWEST_JUDGES = 6e11, 4
#: Penalties are chosen on so many agents, up to so many features; beyond them, on fewer.
EVIDENCE_AGENTS = 8
EVIDENCE_COLUMNS = 400


@dataclass(frozen=True)
class RankSelection:
    """Held-out errors of several ranks, and the one chosen.

    An error is the mean square of what a fold's model leaves of the rows that it has not seen,
    as a part of the variance of the rewards, averaged over agents. Chosen is the smallest rank
    whose error is within one standard error (over folds) of the smallest.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=3_000, key=1)
    >>> selection = eq.offline.select_rank(log)
    >>> selection.chosen, selection.ranks
    (2, (1, 2, 3, 'joint'))
    """

    ranks: tuple[int | str, ...]
    #: For each rank the mean error over folds, NaN where it was not tried, and its standard error.
    errors: np.ndarray
    standard_errors: np.ndarray
    chosen: int | str
    #: Why a rank was not tried.
    notes: dict[int | str, str]
    #: The agents whose errors were averaged: all, unless the largest design takes too long.
    agents: np.ndarray
    #: Rows per coefficient of each rank, in the median cell that was seen; infinite for ranks
    #: beyond the agents, which there are no terms of, and NaN for "joint".
    samples_per_parameter: np.ndarray
    #: How much less each rank leaves than a constant of each context does, and the standard error
    #: of that: both are of the same folds, so that this is told better than the errors are.
    lead: np.ndarray
    lead_errors: np.ndarray

    @property
    def nothing(self) -> str:
        """Why there is nothing to learn from the log, in words; empty where there is.

        There is nothing where the chosen rank does not predict rewards better than a constant of
        each context, by more than one standard error over folds.
        """
        ahead = self.lead > self.lead_errors  # NaN is not
        if ahead[self.ranks.index(self.chosen)]:
            return ""
        others = [str(rank) for rank, better in zip(self.ranks, ahead, strict=True) if better]
        if not others:
            return "no rank predicts rewards better than a constant"
        return (
            f"rank {self.chosen}, the smallest within a standard error of the best, predicts "
            f"rewards no better than a constant; to learn from rank {' or '.join(others)}, say so"
        )

    @property
    def doubt(self) -> str:
        """Why the log does not support the choice, in words; empty where it does.

        It does not where the chosen rank explains little (two standard errors from its held-out
        error lies what a constant leaves), while a larger one was not tried or has fewer than
        `parameters.TOO_LITTLE` rows per coefficient, so that it lost for want of data alone.
        A rank that explains little, with larger ones tried on enough data, is a finding.
        """
        at = self.ranks.index(self.chosen)
        error, spread = float(self.errors[at]), float(self.standard_errors[at])
        if error + 2 * spread < 1.0:
            return ""
        first = at + 1 if isinstance(self.chosen, int) else 0
        for rank, rows in list(zip(self.ranks, self.samples_per_parameter, strict=True))[first:]:
            if rows < TOO_LITTLE or (rank in self.notes and np.isfinite(rows)):
                reason = self.notes.get(rank, f"has {rows:.2g} samples per parameter")
                return (
                    f"rank {self.chosen} leaves {error:.2g} +- {spread:.2g} of the variance of "
                    f"rewards on held-out rows, hardly less than a constant, and rank {rank} "
                    f"{reason.replace('not tried', 'was not tried')}"
                )
        return ""

    def __str__(self) -> str:
        lines = [f"rank   held-out error (of the variance of rewards, {len(self.agents)} agents)"]
        for rank, error, spread in zip(self.ranks, self.errors, self.standard_errors, strict=True):
            text = self.notes.get(rank, f"{error:.4f} +- {spread:.4f}")
            lines.append(f"{rank!s:5}  {text}{'  <- chosen' if rank == self.chosen else ''}")
        return "\n".join(lines)


def select_rank(
    log: Log | Iterable[Log],
    *,
    ranks: Sequence[int] = (1, 2, 3),
    joint: bool | str = True,
    neighbours: Any = None,
    folds: int = 10,
    key: Any = 0,
    largest: int = 800,
) -> RankSelection:
    """Choose the interaction rank by cross-validation and the one-standard-error rule.

    Args:
        log: The log, or pieces of one, as `Log.read_chunks` gives them. Of more than 400,000 rows
            a random selection of 200,000 to 400,000 is compared on.
        ranks: What is tried.
        joint: Whether a critic of all moves is tried too: a table where it is small enough,
            otherwise kernel regression. "table", "kernel" or "mlp" (a network, trained once on
            all folds but one) say which.
            There is none for logs with local states.
        neighbours: As for `fit`; screening tests pairs alone, whatever ranks are tried.
        folds: Number of parts that rows are split into at random.
        key: Randomness of that split.
        largest: Ranks with more features than this, for one cell (a context and an own move) of
            one agent, are not tried: time grows with the cube of it. The note of a rank that
            was not tried says how many it has.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=3_000, key=1)
    >>> eq.offline.select_rank(log, ranks=(1, 2), joint=False).chosen
    2
    """
    plan = Comparison(Source.of(log).log, ranks, joint, neighbours, folds, key, largest)
    if not plan.steps:
        raise ValueError(f"ranks: expected one that can be tried; {plan.notes}")
    return plan.choose(np.array([plan.errors(step) for step in range(plan.steps)]))


@dataclass(frozen=True)
class Entry:
    """A class of K-IR rewards that is compared: designs of all agents, and situations of rows."""

    designs: list[Design]
    #: (samples,): the situation of each row, and how many there are.
    where: np.ndarray
    situations: int


class Comparison:
    """What cross-validation computes, cut into steps of which each has a row of errors.

    A step is a class of K-IR rewards and an agent whose rewards are predicted, or an aggregate or
    the joint critic for all of them. Steps do not depend on each other, so that a run can stop
    after any of them and go on later. The arguments are those of `select_rank`; in addition,
    `aggregates` are tried, with `sparse` the terms of screened neighbours alone (or of everybody,
    where fewer were asked for), and with `halves` terms that differ between the first and the
    second half of the rows. `judges` is the largest number of agents whose errors are averaged, and
    `copies` how many times the sums of a class are held once it is chosen.
    """

    def __init__(
        self,
        log: Log,
        ranks: Sequence[int],
        joint: bool | str,
        neighbours: Any,
        folds: int,
        key: Any,
        largest: int = 800,
        *,
        aggregates: Sequence[str] = (),
        sparse: bool = False,
        halves: bool = False,
        judges: int | None = None,
        copies: int = 1,
    ):
        situations, moves = self.size = sizes_of(log)
        self.log, self.folds = log, checks.check_count("folds", folds, 2)
        largest = checks.check_count("largest", largest)
        groups = groups_of(log)
        if groups.max() + 1 < 2 * folds:
            found = f"{groups.max() + 1} {'rows' if log.episodes is None else 'episodes'}"
            raise InputError("log", f"at least {2 * folds} rows", found)
        tried = sorted({checks.check_count("ranks", k) for k in ranks})
        if not tried:
            raise InputError("ranks", "at least one", "none")
        self.key = as_key(key)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(self.key)))
        #: (samples,): the fold of each row and its situation; (agents, samples): its moves.
        self.fold = (rng.permutation(groups.max() + 1) % folds)[groups]
        self.situations, self.by_agent = log.situations, np.ascontiguousarray(log.moves.T)
        #: The neighbours of each agent: those that were asked for, and those that a test finds.
        self.sets, self.screened = neighbour_sets(neighbours, log), None
        self._counts = count_moves(self.situations, self.by_agent, situations, moves)
        #: What is compared of K-IR rewards, by name, and why others are not.
        self.entries: dict[int | str, Entry] = {}
        self.notes: dict[int | str, str] = {}
        self.rows_per_parameter: dict[int | str, float] = {}
        self._ridges: dict[int | str, dict[int, float]] = {}
        self._known: dict[int, np.ndarray] = {}
        self._largest, least, self._copies = largest, isinstance(neighbours, str), copies
        for rank in tried:
            self._add(rank, rank, self.sets, least)
        names: list[int | str] = list(tried)
        everybody, word, others = neighbour_sets("all", log), "", self.sets
        if sparse and self.sets == everybody and log.agents > 3:
            self.screened, word = neighbour_sets("screen", log), "sparse"
            others = self.screened
        elif sparse:
            word, others = "dense", everybody
        for rank in tried if others != self.sets else ():
            few = columns_of(max(map(len, others)), rank, moves) <= largest or word == "sparse"
            if 1 < rank <= log.agents and few and max(map(len, others)) >= rank - 1:
                names.append(f"{rank} {word}")
                self._add(names[-1], rank, others, word == "sparse")
        if halves and log.samples > 1:
            number = np.unique(groups, return_index=True)[1][groups]
            late = (number >= np.median(number)).astype(np.int64)
            for rank in tried[:2]:
                if rank in self.entries:
                    names.append(f"{rank} by halves")
                    self._add(names[-1], rank, self.sets, least, self.situations * 2 + late)
        self.aggregates = []
        for kind in aggregates:
            names.append(kind)
            if note := aggregate_note(log, kind):
                self.notes[kind] = note
            else:
                self.aggregates.append(kind)
        self.joint = joint if log.states is None else False
        self.names: tuple[int | str, ...] = (*names, *(["joint"] if self.joint else []))
        # As many agents are judged by as the time for the largest design allows.
        columns = [d.columns(moves) for entry in self.entries.values() for d in entry.designs]
        most = max(columns, default=1)
        work = folds * situations * moves * most**3 / 3 + log.samples * most**2
        count = min(log.agents, max(FEWEST_JUDGES, int(WORK // work)))
        count = count if judges is None else min(count, judges)
        self.judges = np.linspace(0, log.agents - 1, count).round().astype(int)

    def _add(
        self,
        name: int | str,
        rank: int,
        sets: list[tuple[int, ...]],
        tested: bool,
        where: np.ndarray | None = None,
    ) -> None:
        """Add a class of K-IR rewards, or the reason why it is not tried."""
        log, (situations, moves) = self.log, self.size
        situations *= 1 if where is None else 2
        columns = max(columns_of(len(own), rank, moves) for own in sets)
        size = 8.0 * self.folds * situations * moves * (columns + 1) ** 2
        # A test on few rows may miss an agent that matters: a term takes K - 1 others.
        least = rank - 1 if tested else 0
        fewest = [columns_of(max(len(own), least), rank, moves) for own in sets]
        ratios = (self._counts / np.array(fewest)[:, None])[self._counts > 0]
        self.rows_per_parameter[name] = float(np.median(ratios))
        if rank > log.agents:
            self.notes[name] = f"not tried: more than the {log.agents} agents"
            self.rows_per_parameter[name] = np.inf
        elif columns > self._largest:
            self.notes[name] = f"not tried: {columns} features, more than largest={self._largest}"
        elif size > LARGEST_SUMS:
            self.notes[name] = (
                f"not tried: {size / 1e9:.0f} GB of sums, more than {LARGEST_SUMS / 1e9:g}"
            )
        elif too_large(log, sets, rank, copies=self._copies):
            self.notes[name] = "not tried: a fit of all agents would take too much memory"
        else:
            designs = [Design.of(own, rank) for own in sets]
            self.entries[name] = Entry(
                designs, self.situations if where is None else where, situations
            )

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return len(self.entries) * len(self.judges) + len(self.aggregates) + bool(self.joint)

    def errors(self, step: int) -> np.ndarray:
        """(folds,): the held-out errors of a step; NaN for folds that were left out."""
        at, which = divmod(step, len(self.judges))
        if at >= len(self.entries):
            number = step - len(self.entries) * len(self.judges)
            if number == len(self.aggregates):
                return self._joint_errors()
            return self._aggregate_errors(self.aggregates[number])
        name = list(self.entries)[at]
        entry, agent = self.entries[name], int(self.judges[which])
        sums = self._sums(entry, agent)
        left = _held_out(sums, entry.designs[agent], self._bases(entry), self._ridge(name))
        total = sums.sum((0, 1))
        mean, square = total[[0, -1], -1] / total[0, 0]
        return left / max(float(square - mean**2), 1e-300)

    def by_fold(self, errors: np.ndarray) -> dict[int | str, np.ndarray]:
        """The errors of each class that was tried, fold by fold, from those of all steps."""
        count = len(self.entries) * len(self.judges)
        shape = (len(self.entries), len(self.judges), self.folds)
        found = dict(zip(self.entries, errors[:count].reshape(shape).mean(1), strict=True))
        found |= dict(zip(self.aggregates, errors[count:], strict=False))
        if self.joint:
            found["joint"] = errors[-1][~np.isnan(errors[-1])]
        return found

    def choose(
        self, errors: np.ndarray, names: Sequence[int | str] | None = None, chosen: Any = None
    ) -> RankSelection:
        """The choice, from the errors (steps, folds) of all steps; of some classes alone."""
        found, missing = self.by_fold(errors), np.array([np.nan])
        names = self.names if names is None else tuple(names)
        own = [found.get(name, missing) for name in names]
        mean, spread = (np.array([f(e) for e in own]) for f in (np.mean, standard_error))
        best = int(np.nanargmin(mean))
        within = mean <= max(mean[best] + spread[best], ROUNDING)
        constant = self.constant_errors
        leads = [constant[: len(e)] - e for e in own]
        return RankSelection(
            tuple(names),
            *(mean, spread, names[int(np.argmax(within))] if chosen is None else chosen),
            *({k: v for k, v in self.notes.items() if k in names}, self.judges),
            np.array([self.rows_per_parameter.get(name, np.nan) for name in names]),
            *(np.array([f(lead) for lead in leads]) for f in (np.mean, standard_error)),
        )

    @cached_property
    def constant_errors(self) -> np.ndarray:
        """(folds,): held-out errors of the mean reward of each situation."""
        return _constant_errors(self.log, self.fold, self.folds, self.judges)

    @cached_property
    def _parts(self) -> list[np.ndarray]:
        """The rows of each fold."""
        return [np.flatnonzero(self.fold == f) for f in range(self.folds)]

    def _sums(self, entry: Entry, agent: int) -> np.ndarray:
        """(folds, cells, columns + 1, columns + 1): moments of one agent, fold by fold."""
        reward, size = _centred(self.log, agent), (entry.situations, self.size[1])
        found = []
        for rows in self._parts:
            part = Moments.empty([entry.designs[agent]], [agent], self.log.agents, *size)
            where, by_agent = entry.where[rows], self.by_agent[:, rows]
            add_agent(part, 0, where, by_agent, reward[rows], np.float64)
            found.append(part.sums[0])
        return np.stack(found)

    def _bases(self, entry: Entry) -> np.ndarray:
        """Bases computed from all rows. All folds share them: they only define the penalty."""
        if entry.situations not in self._known:
            counts = count_moves(entry.where, self.by_agent, entry.situations, self.size[1])
            self._known[entry.situations] = bases_of(counts)
        return self._known[entry.situations]

    def _ridge(self, name: int | str) -> dict[int, float]:
        """The penalties of a class, from all folds but the first; computed once."""
        if name not in self._ridges:
            entry, rank = self.entries[name], int(str(name).split()[0])
            columns = max(design.columns(self.size[1]) for design in entry.designs)
            cells, size = [], (entry.situations, self.size[1])
            for i in _evidence_agents(self.log.agents, columns) if rank > 1 else ():
                design, agent = entry.designs[i], int(i)
                train = Moments.empty([design], [agent], self.log.agents, *size)
                train.sums[0][:] = self._sums(entry, agent)[1:].sum(0)
                cells.append(cells_of(train, 0, self._bases(entry)))
            self._ridges[name] = evidence(cells, rank) if rank > 1 else {}
        return self._ridges[name]

    def _aggregate_errors(self, kind: str) -> np.ndarray:
        """(folds,): those of tables of own move by aggregate."""
        log, judges = self.log, self.judges
        scores, grid = scores_of(log, kind)
        where, moves, rewards = self.situations, log.moves, np.asarray(log.rewards, np.float64)
        variance, errors = np.maximum(rewards.var(0)[judges], 1e-300), np.empty(self.folds)
        for f, rows in enumerate(self._parts):
            train = np.flatnonzero(self.fold != f)
            given = (where[train], moves[train], rewards[train], self.size, scores, grid)
            predicted = fit_aggregate(*given)[0].rewards(where[rows], moves[rows])
            left = ((rewards[rows] - predicted) ** 2).mean(0)[judges] / variance
            errors[f] = left.mean()
        return errors

    def _joint_errors(self) -> np.ndarray:
        """(folds,): those of the joint critic; of a network, of the first fold alone."""
        if self.joint not in (True, *KINDS):
            expected = f"a bool or one of {', '.join(KINDS)}"
            raise InputError("joint", expected, repr(self.joint))
        log, kind = self.log, joint_kind(self.log, "auto" if self.joint is True else self.joint)
        variance = np.maximum(log.rewards.var(0, dtype=np.float64), 1e-300)
        errors, setting = np.full(self.folds, np.nan), list[Any]()
        for f in range(1 if kind == "mlp" else self.folds):
            held, train = log.take(self.fold == f), log.take(self.fold != f)
            predicted = predict_joint(train, held, kind, self.key, setting)
            left = ((held.rewards - predicted) ** 2).mean(0) / variance
            errors[f] = left[self.judges].mean()
        return errors


def groups_of(log: Log) -> np.ndarray:
    """(samples,): rows of an episode, or every row, are a group, numbered from 0."""
    if log.episodes is None:
        return np.arange(log.samples)
    return np.unique(log.episodes, return_inverse=True)[1]


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _constant_errors(log: Log, fold: np.ndarray, folds: int, judges: np.ndarray) -> np.ndarray:
    """(folds,): held-out errors of the mean reward of each situation."""
    situations, where = sizes_of(log)[0], log.situations
    rows = np.bincount(fold * situations + where, minlength=folds * situations)
    rows = rows.reshape(folds, situations)
    others = rows.sum(0) - rows
    errors = np.zeros((len(judges), folds))
    for at, i in enumerate(judges):
        reward = _centred(log, int(i))
        sums = np.bincount(fold * situations + where, reward, minlength=rows.size)
        sums = sums.reshape(rows.shape)
        sums = sums.sum(0) - sums
        everywhere = sums.sum(1, keepdims=True) / others.sum(1, keepdims=True)
        means = np.where(others > 0, sums / np.maximum(others, 1), everywhere)
        squares = np.bincount(fold, (reward - means[fold, where]) ** 2, minlength=folds)
        errors[at] = squares / rows.sum(1) / max(float(reward.var()), 1e-300)
    return errors.mean(0)


def _centred(log: Log, i: int) -> np.ndarray:
    """Rewards about zero: squares lose the digits of those far from it, close together."""
    reward = np.asarray(log.rewards[:, i], np.float64)
    return reward - (reward.min() + np.ptp(reward) / 2)


def _evidence_agents(agents: int, columns: int) -> np.ndarray:
    """Agents whose logs decide the penalties: fewer where each takes long, but two at least."""
    count = round(EVIDENCE_AGENTS * min(1.0, (EVIDENCE_COLUMNS / columns) ** 2))
    return np.unique(np.linspace(0, agents - 1, max(2, count)).round().astype(int))


def _held_out(
    sums: np.ndarray, design: Design, bases: np.ndarray, ridge: dict[int, float]
) -> np.ndarray:
    """(folds,): mean squared errors of the fits to all folds but one, from their moments."""
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
    """Solutions after one step of refinement: columns may nearly agree."""
    try:
        weights = np.linalg.solve(gram, target[..., None])
        rest = target[..., None] - gram @ weights
        return (weights + np.linalg.solve(gram, rest))[..., 0]
    except np.linalg.LinAlgError:
        return (np.linalg.pinv(gram, hermitian=True) @ target[..., None])[..., 0]
