"""Select the smallest interaction rank that fits a log, by held-out error."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.core.randomness import as_key
from equipoise.offline._aggregate import aggregate_note, fit_aggregate, name_of, scores_of
from equipoise.offline._coverage import count_moves, known_rows, over_known, sizes_of
from equipoise.offline._fit import neighbour_sets, too_large
from equipoise.offline._joint import KINDS, joint_kind, predict_joint
from equipoise.offline._least_squares import (
    bases_of,
    cells_of,
    evidence,
    held_out_errors,
)
from equipoise.offline._log import Log
from equipoise.offline._moments import Design, Moments, add_agent, columns_of
from equipoise.offline._pieces import Source
from equipoise.offline.parameters import TOO_LITTLE

#: A rank is not tried if its sums for one agent and all folds take more bytes than this.
LARGEST_SUMS = 4e9
#: Errors below this fraction of the variance are rounding errors and count as equal.
ROUNDING = 1e-9
#: Operations allowed for the largest design, and the fewest agents to average errors over.
WORK, FEWEST_JUDGES = 6e11, 4
#: Number of agents that determine the penalties; fewer for designs with more features than this.
EVIDENCE_AGENTS, EVIDENCE_COLUMNS = 8, 400


@dataclass(frozen=True)
class RankSelection:
    """Held-out errors of several ranks, and the chosen rank.

    An error is the mean squared error on rows that were not used for fitting, as a fraction of the
    variance of the rewards, averaged over agents. `chosen` is the smallest of `ranks` whose error
    is within one standard error (over folds) of the smallest error.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=3_000, key=1)
    >>> selection = eq.offline.select_rank(log)
    >>> selection.chosen, selection.ranks
    (2, (1, 2, 3, 'joint'))
    """

    ranks: tuple[int | str, ...]
    #: Mean error of each rank over folds; NaN if the rank was not tried.
    errors: np.ndarray
    #: Standard error of each mean error.
    standard_errors: np.ndarray
    chosen: int | str
    #: Reasons why ranks were not tried, by rank.
    notes: dict[int | str, str]
    #: Agents whose errors were averaged: all, unless the largest design would take too long.
    agents: np.ndarray
    #: Rows per coefficient of each rank in the median cell that was seen; infinite for ranks
    #: above the number of agents, which have no terms, and NaN for "joint".
    samples_per_parameter: np.ndarray
    #: Error of a constant per context minus the error of each rank.
    lead: np.ndarray
    #: Standard errors of `lead`, which is more precise than either error: the folds are the same.
    lead_errors: np.ndarray

    @property
    def nothing(self) -> str:
        """Sentence that says why nothing can be learned from the log; empty if something can.

        Rank `chosen` must predict better than a constant per context, by over one standard error.
        """
        ahead = self.lead > self.lead_errors  # false for NaN
        if ahead[self.ranks.index(self.chosen)]:
            return ""
        others = [str(rank) for rank, better in zip(self.ranks, ahead, strict=True) if better]
        if not others:
            return "no rank predicts rewards better than a constant"
        return (
            f"rank {self.chosen}, the smallest within a standard error of the best, predicts "
            f"rewards no better than a constant; set the rank to {' or '.join(others)} instead"
        )

    @property
    def doubt(self) -> str:
        """Sentence that says why the log does not support the choice; empty if it does.

        The log does not support the choice if the chosen rank explains little (its held-out error
        is within two standard errors of the error of a constant), while a larger rank was not tried
        or has fewer than `parameters.TOO_LITTLE` rows per coefficient and may have lost only for
        lack of data. If larger ranks were tried on enough data, a rank that explains little is a
        valid finding.
        """
        at = self.ranks.index(self.chosen)
        error, spread = float(self.errors[at]), float(self.standard_errors[at])
        if error + 2 * spread < 1.0:
            return ""
        first = at + 1 if isinstance(self.chosen, int) else 0
        names = {k: f"rank {k}" if isinstance(k, int) else name_of(k) for k in self.ranks}
        for rank, rows in list(zip(self.ranks, self.samples_per_parameter, strict=True))[first:]:
            if rows < TOO_LITTLE or (rank in self.notes and np.isfinite(rows)):
                reason = self.notes.get(rank, f"has only {rows:.2g} samples per parameter")
                less = "hardly less" if error < 1.0 else "no less"
                return (
                    f"{names[self.chosen]} leaves {error:.2g} +- {spread:.2g} of the variance of "
                    f"rewards on held-out rows, {less} than a constant, and {names[rank]} "
                    f"{reason.replace('not tried', 'was not tried')}"
                )
        return ""

    def __str__(self) -> str:
        lines = [f"rank   held-out error (fraction of reward variance, {len(self.agents)} agents)"]
        for rank, error, spread in zip(self.ranks, self.errors, self.standard_errors, strict=True):
            text = self.notes.get(rank, f"{error:.4f} +- {spread:.4f}")
            lines.append(f"{rank!s:5}  {text}{'  <- chosen' if rank == self.chosen else ''}")
        return "\n".join(lines)


@named_arguments
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
        log: The log, or pieces of a log (see `Log.read_chunks`). If there are more than 400,000
            rows, ranks are compared on a random selection of 200,000 to 400,000 of them.
        ranks: Ranks to try.
        joint: Whether to try a critic of all moves too: a table if it is small enough, otherwise
            kernel regression. Pass "table", "kernel" or "mlp" (a network, trained once on all folds
            but one) to choose its kind. Ignored for logs with local states.
        neighbours: As in `fit`. Screening tests pairs only, whatever ranks are tried.
        folds: Number of random parts into which rows are split.
        key: Random key of the split.
        largest: Largest number of features of one agent in one cell (a context and an own move).
            Ranks with more features are not tried, since time grows with the cube of this number;
            their notes state their number of features.

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


class Comparison:
    """Cross-validation of several classes, divided into steps. Each step returns a row of errors.

    A step predicts the rewards of one agent with one class of K-IR rewards, or the rewards of all
    agents with an aggregate or the joint critic. Steps do not depend on each other, so a run can
    stop after any step and resume later. The arguments are those of `select_rank` and these:
    `aggregates` lists aggregates to try. `sparse` adds classes with screened neighbours only (or
    with all neighbours, if `neighbours` asks for fewer). `judges` is the largest number of agents
    whose errors are averaged, and `copies` the number of copies of the sums once a class is chosen.
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
        #: (samples,): fold and situation of each row; (agents, samples): moves.
        self.fold = (rng.permutation(groups.max() + 1) % folds)[groups]
        self.situations, self.by_agent = log.situations, np.ascontiguousarray(log.moves.T)
        #: Neighbours of each agent: those requested, and those that screening finds.
        self.sets, self.screened = neighbour_sets(neighbours, log), None
        self._counts = count_moves(self.situations, self.by_agent, situations, moves)
        #: Classes of K-IR rewards to compare, as designs of all agents, by name; and why other
        #: classes are not tried.
        self.entries: dict[int | str, list[Design]] = {}
        self.notes: dict[int | str, str] = {}
        self.rows_per_parameter: dict[int | str, float] = {}
        self._ridges: dict[int | str, dict[int, float]] = {}
        #: Whether neighbours are all agents or those that a test finds, rather than given.
        self.tested = least = isinstance(neighbours, str)
        self._largest, self._copies = largest, copies
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
        self.aggregates = []
        for kind in aggregates:
            names.append(kind)
            if note := aggregate_note(log, kind):
                self.notes[kind] = note
            else:
                self.aggregates.append(kind)
        self.joint = joint if log.states is None else False
        self.names: tuple[int | str, ...] = (*names, *(["joint"] if self.joint else []))
        # Average over as many agents as the time for the largest design allows.
        columns = [d.columns(moves) for designs in self.entries.values() for d in designs]
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
    ) -> None:
        """Add a class of K-IR rewards, or a note that says why it is not tried."""
        log, (situations, moves) = self.log, self.size
        columns = max(columns_of(len(own), rank, moves) for own in sets)
        size = 8.0 * self.folds * situations * moves * (columns + 1) ** 2
        # A test on few rows may miss an agent that matters: a term involves K - 1 others.
        least = rank - 1 if tested else 0
        fewest = [columns_of(max(len(own), least), rank, moves) for own in sets]
        ratios = (self._counts / np.array(fewest)[:, None])[self._counts > 0]
        self.rows_per_parameter[name] = float(np.median(ratios))
        if rank > log.agents:
            self.notes[name] = f"not tried: more than the {log.agents} agents"
            self.rows_per_parameter[name] = np.inf
        elif columns > self._largest:
            self.notes[name] = f"not tried: {columns:,} features, more than {self._largest:,}"
        elif size > LARGEST_SUMS:
            self.notes[name] = (
                f"not tried: {size / 1e9:.0f} GB of sums, more than {LARGEST_SUMS / 1e9:g}"
            )
        elif too_large(log, sets, rank, copies=self._copies):
            self.notes[name] = "not tried: a fit of all agents would take too much memory"
        else:
            designs = [Design.of(own, rank) for own in sets]
            self.entries[name] = designs

    def sets_of(self, name: int | str) -> list[tuple[int, ...]]:
        """Neighbours of each agent in a class of K-IR rewards."""
        kinds = {"sparse": self.screened, "dense": neighbour_sets("all", self.log)}
        return kinds.get(str(name).split()[-1]) or self.sets

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.entries) * len(self.judges) + len(self.aggregates) + bool(self.joint)

    def errors(self, step: int) -> np.ndarray:
        """(folds,): held-out errors of a step; NaN for folds that were left out."""
        at, which = divmod(step, len(self.judges))
        if at >= len(self.entries):
            number = step - len(self.entries) * len(self.judges)
            if number == len(self.aggregates):
                return self._joint_errors()
            return self._aggregate_errors(self.aggregates[number])
        name = list(self.entries)[at]
        agent = int(self.judges[which])
        design = self.entries[name][agent]
        sums = self._sums(design, agent)
        left = held_out_errors(sums, design, self._bases, self._ridge(name))
        total = sums.sum((0, 1))
        mean, square = total[[0, -1], -1] / total[0, 0]
        return left / max(float(square - mean**2), 1e-300)

    def by_fold(self, errors: np.ndarray) -> dict[int | str, np.ndarray]:
        """Errors of each class that was tried, by fold, from the errors of all steps."""
        count = len(self.entries) * len(self.judges)
        shape = (len(self.entries), len(self.judges), self.folds)
        found = dict(zip(self.entries, errors[:count].reshape(shape).mean(1), strict=True))
        found |= dict(zip(self.aggregates, errors[count:], strict=False))
        if self.joint:
            found["joint"] = errors[-1][~np.isnan(errors[-1])]
        return found

    def choose(self, errors: np.ndarray, chosen: Any = None) -> RankSelection:
        """Choose a class from the errors (steps, folds) of all steps, or report on `chosen`."""
        found, missing, names = self.by_fold(errors), np.array([np.nan]), self.names
        own = [found.get(name, missing) for name in names]
        mean, spread = (np.array([f(e) for e in own]) for f in (np.mean, standard_error))
        best = int(np.nanargmin(mean))
        within = mean <= max(mean[best] + spread[best], ROUNDING)
        constant = self.constant_errors
        leads = [constant[: len(e)] - e for e in own]
        return RankSelection(
            names,
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

    def _sums(self, design: Design, agent: int) -> np.ndarray:
        """(folds, cells, columns + 1, columns + 1): moments of one agent, fold by fold."""
        reward, found = _centred(self.log, agent), []
        for rows in self._parts:
            part = Moments.empty([design], [agent], self.log.agents, *self.size)
            rows = rows[known_rows(reward[rows])]
            where, by_agent = self.situations[rows], self.by_agent[:, rows]
            add_agent(part, 0, where, by_agent, reward[rows], np.float64)
            found.append(part.sums[0])
        return np.stack(found)

    @cached_property
    def _bases(self) -> np.ndarray:
        """Bases computed from all rows. Folds share them, since they only define the penalty."""
        return bases_of(self._counts)

    def _ridge(self, name: int | str) -> dict[int, float]:
        """Penalties of a class, from all folds except the first; computed once."""
        if name not in self._ridges:
            designs, rank, cells = self.entries[name], int(str(name).split()[0]), []
            columns = max(design.columns(self.size[1]) for design in designs)
            for i in _evidence_agents(self.log.agents, columns) if rank > 1 else ():
                design, agent = designs[i], int(i)
                train = Moments.empty([design], [agent], self.log.agents, *self.size)
                train.sums[0][:] = self._sums(design, agent)[1:].sum(0)
                cells.append(cells_of(train, 0, self._bases))
            self._ridges[name] = evidence(cells, rank) if rank > 1 else {}
        return self._ridges[name]

    def _aggregate_errors(self, kind: str) -> np.ndarray:
        """(folds,): held-out errors of tables of own move by aggregate."""
        log, judges = self.log, self.judges
        scores, grid = scores_of(log, kind)
        where, moves, rewards = self.situations, log.moves, np.asarray(log.rewards, np.float64)
        variance = np.maximum(over_known(np.var, rewards)[judges], 1e-300)
        errors = np.empty(self.folds)
        for f, rows in enumerate(self._parts):
            train = np.flatnonzero(self.fold != f)
            given = (where[train], moves[train], rewards[train], self.size, scores, grid, kind)
            predicted = fit_aggregate(*given)[0].rewards(where[rows], moves[rows])
            left = over_known(np.mean, (rewards[rows] - predicted) ** 2)[judges] / variance
            errors[f] = left.mean()
        return errors

    def _joint_errors(self) -> np.ndarray:
        """(folds,): held-out errors of the joint critic; a network is tried on one fold only."""
        if self.joint not in (True, *KINDS):
            expected = f"a bool or one of {', '.join(KINDS)}"
            raise InputError("joint", expected, repr(self.joint))
        log, kind = self.log, joint_kind(self.log, "auto" if self.joint is True else self.joint)
        variance = np.maximum(over_known(np.var, log.rewards), 1e-300)
        errors, setting = np.full(self.folds, np.nan), list[Any]()
        for f in range(1 if kind == "mlp" else self.folds):
            held, train = log.take(self.fold == f), log.take(self.fold != f)
            predicted = predict_joint(train, held, kind, self.key, setting)
            left = over_known(np.mean, (held.rewards - predicted) ** 2) / variance
            errors[f] = left[self.judges].mean()
        return errors


def groups_of(log: Log) -> np.ndarray:
    """(samples,): group of each row, numbered from 0: its episode, or the row itself."""
    if log.episodes is None:
        return np.arange(log.samples)
    return np.unique(log.episodes, return_inverse=True)[1]


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _constant_errors(log: Log, fold: np.ndarray, folds: int, judges: np.ndarray) -> np.ndarray:
    """(folds,): held-out errors of the mean reward of each situation."""
    situations, errors = sizes_of(log)[0], np.zeros((len(judges), folds))
    for at, i in enumerate(judges):
        reward = _centred(log, int(i))
        known = known_rows(reward)
        reward, where, part = reward[known], log.situations[known], fold[known]
        place = part * situations + where
        rows, sums = (
            np.bincount(place, weights, minlength=folds * situations).reshape(folds, situations)
            for weights in (None, reward)
        )
        others, sums = rows.sum(0) - rows, sums.sum(0) - sums
        everywhere = sums.sum(1, keepdims=True) / np.maximum(others.sum(1, keepdims=True), 1)
        means = np.where(others > 0, sums / np.maximum(others, 1), everywhere)
        squares = np.bincount(part, (reward - means[part, where]) ** 2, minlength=folds)
        errors[at] = squares / np.maximum(rows.sum(1), 1) / max(float(reward.var()), 1e-300)
    return errors.mean(0)


def _centred(log: Log, i: int) -> np.ndarray:
    """Centre rewards: squares of values far from zero but close together lose digits."""
    reward = np.asarray(log.rewards[:, i], np.float64)
    known = reward[known_rows(reward)]
    return reward - (known.min() + np.ptp(known) / 2)


def _evidence_agents(agents: int, columns: int) -> np.ndarray:
    """Agents whose rows determine the penalties: fewer for large designs, but at least two."""
    count = round(EVIDENCE_AGENTS * min(1.0, (EVIDENCE_COLUMNS / columns) ** 2))
    return np.unique(np.linspace(0, agents - 1, max(2, count)).round().astype(int))
