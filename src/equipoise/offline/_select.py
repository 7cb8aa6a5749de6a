"""Which interaction rank a log supports: held-out error of each, and the smallest that fits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks
from equipoise.core.randomness import as_key
from equipoise.offline._coverage import count_moves, sizes_of
from equipoise.offline._fit import neighbour_sets, too_large
from equipoise.offline._joint import fit_joint, joint_code, joint_kind, joint_table
from equipoise.offline._least_squares import bases_of, cells_of, coefficients, evidence
from equipoise.offline._log import Log
from equipoise.offline._moments import Design, Moments, add_agent, columns_of
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
        for rank, rows in list(zip(self.ranks, self.samples_per_parameter, strict=True))[at + 1 :]:
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
    log: Log,
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
        log: The log.
        ranks: What is tried.
        joint: Whether a critic of all moves is tried too: a table where it is small enough,
            otherwise a network, trained once on all folds but one. "table" or "mlp" say which.
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
    plan = Comparison(log, ranks, joint, neighbours, folds, key, largest)
    if not plan.steps:
        raise ValueError(f"ranks: expected one that can be tried; {plan.notes}")
    return plan.choose(np.array([plan.errors(step) for step in range(plan.steps)]))


class Comparison:
    """What cross-validation computes, cut into steps of which each has a row of errors.

    A step is a rank and an agent whose rewards are predicted, or the joint critic. Steps do not
    depend on each other, so that a run can stop after any of them and go on later. The arguments
    are those of `select_rank`.
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
    ):
        situations, moves = self.size = sizes_of(log)
        self.log, self.folds = log, checks.check_count("folds", folds, 2)
        largest = checks.check_count("largest", largest)
        if log.samples < 2 * folds:
            raise ValueError(f"log: expected at least {2 * folds} rows, found {log.samples}")
        tried = sorted({checks.check_count("ranks", k) for k in ranks})
        if not tried:
            raise ValueError("ranks: expected at least one, found none")
        self.key = as_key(key)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(self.key)))
        #: (samples,): the fold of each row and its situation; (agents, samples): its moves.
        self.fold = rng.permutation(log.samples) % folds
        self.situations, self.by_agent = log.situations, np.ascontiguousarray(log.moves.T)
        #: The neighbours of each agent.
        self.sets = neighbour_sets(neighbours, log)
        counts = count_moves(self.situations, self.by_agent, situations, moves)
        #: Designs of all agents, for every rank that is tried; and why others are not.
        self.designs: dict[int, list[Design]] = {}
        self.notes: dict[int | str, str] = {}
        self.rows_per_parameter: dict[int | str, float] = {}
        self._ridges: dict[int, dict[int, float]] = {}
        for rank in tried:
            columns = max(columns_of(len(own), rank, moves) for own in self.sets)
            size = 8.0 * folds * situations * moves * (columns + 1) ** 2
            # Who is not found by a test on few rows may matter still: a term takes K - 1 others.
            least = rank - 1 if isinstance(neighbours, str) else 0
            fewest = [columns_of(max(len(own), least), rank, moves) for own in self.sets]
            ratios = (counts / np.array(fewest)[:, None])[counts > 0]
            self.rows_per_parameter[rank] = float(np.median(ratios))
            if rank > log.agents:
                self.notes[rank] = f"not tried: more than the {log.agents} agents"
                self.rows_per_parameter[rank] = np.inf
            elif columns > largest:
                self.notes[rank] = f"not tried: {columns} features, more than largest={largest}"
            elif size > LARGEST_SUMS:
                self.notes[rank] = (
                    f"not tried: {size / 1e9:.0f} GB of sums, more than {LARGEST_SUMS / 1e9:g}"
                )
            elif too_large(log, self.sets, rank):
                self.notes[rank] = "not tried: a fit of all agents would take too much memory"
            else:
                self.designs[rank] = [Design.of(own, rank) for own in self.sets]
        self.joint = joint if log.states is None else False
        self.names: tuple[int | str, ...] = (*tried, *(["joint"] if self.joint else []))
        # As many agents are judged by as the time for the largest design allows.
        columns = [d.columns(moves) for designs in self.designs.values() for d in designs]
        most = max(columns, default=1)
        work = folds * situations * moves * most**3 / 3 + log.samples * most**2
        count = min(log.agents, max(FEWEST_JUDGES, int(WORK // work)))
        self.judges = np.linspace(0, log.agents - 1, count).round().astype(int)

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return len(self.designs) * len(self.judges) + bool(self.joint)

    def errors(self, step: int) -> np.ndarray:
        """(folds,): the held-out errors of a step; NaN for folds that were left out."""
        at, which = divmod(step, len(self.judges))
        if at == len(self.designs):
            return self._joint_errors()
        rank = list(self.designs)[at]
        agent = int(self.judges[which])
        folded = self._moments(self.designs[rank], agent)
        total = _sum(folded)
        left = [_held_out(total.minus(held), held, self._ridge(rank)) for held in folded]
        sums = total.sums[0].sum(0)
        mean, square = sums[[0, -1], -1] / sums[0, 0]
        return np.array(left) / max(float(square - mean**2), 1e-300)

    def choose(self, errors: np.ndarray) -> RankSelection:
        """The choice, from the errors (steps, folds) of all steps."""
        count = len(self.designs) * len(self.judges)
        by_rank = errors[:count].reshape(len(self.designs), len(self.judges), self.folds).mean(1)
        found: dict[int | str, np.ndarray] = dict(zip(self.designs, by_rank, strict=True))
        if self.joint:
            found["joint"] = errors[-1][~np.isnan(errors[-1])]
        missing = np.array([np.nan])
        own = [found.get(name, missing) for name in self.names]
        mean, spread = (np.array([f(e) for e in own]) for f in (np.mean, _standard_error))
        best = int(np.nanargmin(mean))
        within = mean <= max(mean[best] + spread[best], ROUNDING)
        constant = _constant_errors(self.log, self.fold, self.folds, self.judges)
        leads = [constant[: len(e)] - e for e in own]
        return RankSelection(
            self.names,
            *(mean, spread, self.names[int(np.argmax(within))], self.notes, self.judges),
            np.array([self.rows_per_parameter.get(name, np.nan) for name in self.names]),
            *(np.array([f(lead) for lead in leads]) for f in (np.mean, _standard_error)),
        )

    @cached_property
    def _parts(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The rows of each fold, and how often each move was made in them."""
        parts = [np.flatnonzero(self.fold == f) for f in range(self.folds)]
        where, by_agent = self.situations, self.by_agent
        return [(r, count_moves(where[r], by_agent[:, r], *self.size)) for r in parts]

    def _moments(self, designs: list[Design], agent: int) -> list[Moments]:
        """Those of one agent, fold by fold."""
        reward, found = _centred(self.log, agent), []
        for rows, count in self._parts:
            part = Moments.empty([designs[agent]], [agent], self.log.agents, *self.size)
            part.counts[:] = count
            moves = self.by_agent[:, rows]
            add_agent(part, 0, self.situations[rows], moves, reward[rows], np.float64)
            found.append(part)
        return found

    def _ridge(self, rank: int) -> dict[int, float]:
        """The penalties of a rank, from all folds but the first; computed once."""
        if rank not in self._ridges:
            designs = self.designs[rank]
            columns = max(design.columns(self.size[1]) for design in designs)
            cells = []
            for i in _evidence_agents(self.log.agents, columns) if rank > 1 else ():
                train = _sum(self._moments(designs, int(i))[1:])
                cells.append(cells_of(train, 0, bases_of(train.counts)))
            self._ridges[rank] = evidence(cells, rank) if rank > 1 else {}
        return self._ridges[rank]

    def _joint_errors(self) -> np.ndarray:
        """(folds,): those of the joint critic; of a network, of the first fold alone."""
        if self.joint not in (True, "table", "mlp"):
            raise ValueError(f"joint: expected a bool, 'table' or 'mlp', found {self.joint!r}")
        log, kind = self.log, joint_kind(self.log, "auto" if self.joint is True else self.joint)
        variance = np.maximum(log.rewards.var(0, dtype=np.float64), 1e-300)
        errors = np.full(self.folds, np.nan)
        for f in range(self.folds if kind == "table" else 1):
            held, train = log.take(self.fold == f), log.take(self.fold != f)
            if kind == "table":
                predicted = joint_table(train)[held.contexts, joint_code(held)]
            else:
                network = fit_joint(train, kind="mlp", key=self.key).rewards
                inputs = jnp.asarray(held.contexts, jnp.int32), jnp.asarray(held.actions, jnp.int32)
                predicted = np.asarray(network(*inputs))
            left = ((held.rewards - predicted) ** 2).mean(0) / variance
            errors[f] = left[self.judges].mean()
        return errors


def _standard_error(values: np.ndarray) -> float:
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
    """Agents whose logs decide the penalties: fewer where each takes long, but two at least.

    >>> _evidence_agents(20, 100).tolist(), _evidence_agents(20, 2000).tolist()
    ([0, 3, 5, 8, 11, 14, 16, 19], [0, 19])
    """
    count = round(EVIDENCE_AGENTS * min(1.0, (EVIDENCE_COLUMNS / columns) ** 2))
    return np.unique(np.linspace(0, agents - 1, max(2, count)).round().astype(int))


def _held_out(train: Moments, held: Moments, ridge: dict[int, float]) -> float:
    """Mean squared error on the rows of `held` of the fit to `train`, from their moments."""
    cells = cells_of(train, 0, bases_of(train.counts))
    fitted = coefficients(cells, ridge)
    moves, sums = held.moves, held.sums[0]
    squares = 0.0
    for at, own in enumerate(fitted):
        weights = np.append(cells.to_raw[at // moves] @ own, -1.0)
        squares += float(weights @ sums[at] @ weights)
    return max(squares, 0.0) / max(float(sums[:, 0, 0].sum()), 1.0)


def _sum(parts: list[Moments]) -> Moments:
    """One after the other, so that no more than the total is held beside them."""
    total = parts[0]
    sums, counts = total.sums[0].copy(), total.counts.copy()
    for part in parts[1:]:
        sums += part.sums[0]
        counts += part.counts
    return replace(total, sums=[sums], counts=counts)
