"""Score tests, agent by agent: does anything matter that a fitted class of rewards leaves out?

Held-out errors are averages over agents, in which one odd agent of many disappears. Here every
agent is tested by itself. Functions of each agent's move are made orthonormal under the log's play.
Agents play independently, so a product of an own function with functions of others' moves has mean
zero given everything that the class contains, and so has its product with the residual of the
reward, unless the class lacks this term. The level is shared by all agents and products.

Many weak terms, none of which shows by itself, are tested together. Rows are split into blocks, of
which every second one belongs to the first half; if terms are missing, their estimates in the two
halves agree. Noise that carries over from row to row does not make them agree.

The same products times slow waves over the rows show drift. Residuals of an agent's next state
show whether it depends on what others do.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from equipoise.offline._combinations import EXACT
from equipoise.offline._coverage import count_moves, over_known, sizes_of
from equipoise.offline._log import Log
from equipoise.offline._moments import orthonormal_basis
from equipoise.offline._select import groups_of

#: Probability of finding something, for each kind of test, where there is nothing.
LEVEL = 0.002
#: Moves with fewer rows than this in a situation are not compared with others.
FEWEST = 20
#: Number of cosines over the rows, for own actions and for pairs.
WAVES, PAIR_WAVES = 6, 3
#: Rows of a block, and the farthest rows whose noise may go together.
BLOCK, LAGS = 20, 30
#: Largest number of rows that are tested, and of multiplications for products of each size.
ROWS, WORK = 50_000, 3e11
#: Number of the strongest products of an agent whose errors are computed in full.
STRONGEST = 5


class Missing(NamedTuple):
    """Something that matters for an agent and that the class leaves out."""

    #: The agent, or None for many weak terms of all agents.
    agent: int | None
    #: Others whose moves enter the term; empty for many weak terms.
    others: tuple[int, ...]
    #: Number of others in the term.
    size: int
    #: Standard errors by which it differs from zero.
    score: float
    #: Fraction of the variance of the agent's reward that it explains.
    share: float


class Residuals:
    """Residuals of a fitted model, and functions of moves, for the tests of a log."""

    def __init__(self, log: Log, terms: Any = None):
        if log.samples > ROWS:
            log = log.take(np.arange(0, log.samples, -(-log.samples // ROWS)))
        self.log = log
        groups = groups_of(log)
        self.groups = None if log.episodes is None else groups
        number = np.unique(groups, return_index=True)[1][groups]  # rows of an episode are in order
        self.order = np.argsort(number, kind="stable")
        place = np.empty(log.samples, np.int64)
        place[self.order] = np.arange(log.samples)
        size = max(1, min(BLOCK, log.samples // 20))
        self.first = (groups if self.groups is not None else place // size) % 2 == 0
        self.time = (place + 0.5) / log.samples
        cycles = np.pi * np.arange(1, 2 * WAVES + 1)
        self.waves = np.sqrt(2.0) * np.cos(cycles * self.time[:, None])
        self.wide, self.owner = functions_of(log)
        rewards = np.asarray(log.rewards, np.float64)
        self.spread = over_known(np.std, rewards)
        self.left = np.zeros(rewards.shape)
        if terms is not None:
            left = rewards - terms.rewards(log.situations, log.moves)
            # Residuals of rewards without noise are rounding, which tells nothing, and rewards that
            # are not recorded have none.
            noisy = over_known(np.std, left) > EXACT * self.spread
            self.left = np.where(noisy & ~np.isnan(left), left, 0.0)

    def of(self, agent: int) -> np.ndarray:
        """(rows, functions) of an agent's own move."""
        return self.wide[:, self.owner == agent]

    def z(self, scores: np.ndarray) -> tuple[float, float]:
        """Standard errors by which the sum of the rows' scores differs from zero, and its p-value.

        Scores of neighbouring rows, or of one episode, may depend on each other.
        """
        # What changes slowly is what drift is, and not noise.
        noise = scores - scores.mean() - self.waves @ (scores @ self.waves / len(scores))
        squares = float((noise**2).sum())
        freedom = squares**2 / max(float((noise**4).sum()), 1e-300) - 1.0
        if self.groups is not None:
            variance = float((np.bincount(self.groups, noise) ** 2).sum())
        else:
            variance, ordered = squares, noise[self.order]
            for lag in range(1, min(LAGS, len(ordered) // 4) + 1):
                both = float(ordered[lag:] @ ordered[:-lag])
                variance += 2.0 * (1.0 - lag / (LAGS + 1.0)) * both
        z = float(scores.sum()) / np.sqrt(max(variance, squares, 1e-300))
        return z, 2.0 * float(student.sf(abs(z), max(freedom, 1.0)))

    def products(
        self, weight: np.ndarray, agent: int, size: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield products of functions of `size` other agents: their columns, scores, variances.

        Columns are (products, size); scores and variances are (2, products), for both halves.
        """
        others = np.flatnonzero(self.owner != agent)
        halves = [np.flatnonzero(self.first == half) for half in (True, False)]
        wide = [self.wide[rows][:, others] for rows in halves]
        squares, whose = [part**2 for part in wide], self.owner[others]
        weights = [weight[rows].astype(np.float32) for rows in halves]
        if size == 1:
            scores = np.stack([w @ z for w, z in zip(weights, wide, strict=True)])
            variances = np.stack([w**2 @ z for w, z in zip(weights, squares, strict=True)])
            yield others[:, None], scores, variances
            return
        for lead in range(len(others)) if size == 3 else (None,):
            after = whose > (-1 if lead is None else whose[lead])
            at = np.flatnonzero(after)
            first, second = np.nonzero(np.less.outer(whose[at], whose[at]))
            if not len(first):
                continue
            found = []
            for w, z, q in zip(weights, wide, squares, strict=True):
                own = w if lead is None else w * z[:, lead]
                z, q = z[:, at], q[:, at]
                both = (z.T @ (own[:, None] * z), q.T @ (own[:, None] ** 2 * q))
                found.append([table[first, second] for table in both])
            columns = [others[at[first]], others[at[second]]]
            columns += [] if lead is None else [np.full(len(first), others[lead])]
            yield np.stack(columns, 1), *np.stack(found, 1)

    def work(self, size: int, weights: int) -> float:
        """Number of multiplications for all products of a size."""
        return 4.0 * weights * len(self.left) * float(len(self.owner)) ** size


def functions_of(log: Log) -> tuple[np.ndarray, np.ndarray]:
    """(rows, functions) of all agents' moves, orthonormal under play, and (functions,) owners."""
    situations, moves = sizes_of(log)
    counts = count_moves(log.situations, log.moves.T, situations, moves)
    often = np.where(counts >= FEWEST, counts, 0).astype(np.float64)
    bases = orthonormal_basis(often / np.maximum(often.sum(-1, keepdims=True), 1.0))
    wide = bases[log.situations[:, None], np.arange(log.agents), log.moves]
    wide = wide.reshape(log.samples, -1).astype(np.float32)
    owner = np.repeat(np.arange(log.agents), moves - 1)
    used = wide.any(0)
    return wide[:, used], owner[used]


def missing_terms(
    data: Residuals, inside: Sequence[set[int]] | None, order: int, sizes: Sequence[int] = (1, 2, 3)
) -> list[Missing]:
    """Terms of an own move and up to three others that the class leaves out, the largest first.

    `inside` are the neighbours of each agent whose terms of fewer than `order` others the class
    contains; None if it contains none of them.
    """
    agents = [i for i in range(data.log.agents) if data.left[:, i].any()]
    found, tried = list[tuple[float, Missing]](), 0
    together = list[tuple[int, float, float, float]]()
    for size in sizes:
        if size >= data.log.agents or data.work(size, len(data.owner)) > WORK:
            continue
        pooled = np.zeros(3)
        for i in agents:
            own, noise = data.of(i), data.spread[i]
            inner = () if inside is None or size >= order else sorted(inside[i])
            for u in range(own.shape[1]):
                weight = data.left[:, i] * own[:, u]
                for columns, scores, variances in data.products(weight, i, size):
                    outside = ~np.isin(data.owner[columns], inner).all(1)
                    columns, scores = columns[outside], scores[:, outside]
                    variances = np.maximum(variances[:, outside], 1e-30)
                    if not len(columns):
                        continue
                    tried += len(columns)
                    agreed = (scores / np.sqrt(variances)).prod(0)
                    pooled += agreed.sum(), (agreed**2).sum(), 0.0
                    pooled[2] += scores.prod(0).sum() / max(noise**2, 1e-300)
                    z = scores.sum(0) / np.sqrt(variances.sum(0))
                    for k in np.argsort(-np.abs(z))[:STRONGEST]:
                        if abs(z[k]) < 3.0:
                            break
                        score, chance = data.z(weight * data.wide[:, columns[k]].prod(1))
                        others = sorted(data.owner[columns[k]].tolist())
                        share = (z[k] / len(weight)) ** 2 * variances[:, k].sum() / noise**2
                        one = Missing(i, tuple(others), size, abs(score), float(share))
                        found.append((chance, one))
        if pooled[1] > 0.0:
            halves = data.first.sum() * (~data.first).sum()
            # A product enters the rewards of all its agents, who may share their noise.
            together.append((size, pooled[0] / np.sqrt((size + 1) * pooled[1]), pooled[2], halves))
    kept = sorted((one for chance, one in found if chance * tried < LEVEL), key=lambda m: -m.score)
    for size, score, share, halves in together:
        if norm.sf(score) * len(together) < LEVEL:
            kept.append(Missing(None, (), size, float(score), float(share / halves / len(agents))))
    return kept


class Drift(NamedTuple):
    """A change over the rows in what an agent earns by its action."""

    agent: int
    #: Another agent with whose action the effect of the own action changes; None if there is none.
    other: int | None
    score: float
    #: Fraction of the variance of the agent's reward that the change explains.
    share: float


def drifts(data: Residuals) -> list[Drift]:
    """Changes over time in what agents earn by their actions, the largest first.

    A level of rewards that changes over the rows counts only if the agent's play changes with it,
    since both together look like an effect of the action.
    """
    waves = data.waves[:, :WAVES]
    found, tried = list[tuple[float, Drift]](), 0
    agents = [i for i in range(data.log.agents) if data.left[:, i].any()]
    for i in agents:
        own, left = data.of(i), data.left[:, i]
        tried += own.shape[1] * (2 * WAVES + int((data.owner != i).sum()) * PAIR_WAVES)
        candidates = list[tuple[np.ndarray, int | None]]()
        for u in range(own.shape[1]):
            weight = left * own[:, u]
            candidates += [(weight * wave, None) for wave in waves.T]
            for wave in waves.T[:PAIR_WAVES]:
                scores = (weight * wave).astype(np.float32)
                z = scores @ data.wide / np.sqrt(np.maximum(scores**2 @ data.wide**2, 1e-30))
                z[data.owner == i] = 0.0
                best = int(np.abs(z).argmax()) if len(z) else 0
                if len(z) and abs(z[best]) > 3.0:
                    candidates.append((scores * data.wide[:, best], int(data.owner[best])))
        for scores, other in candidates:
            z, chance = data.z(scores)
            share = scores.mean() ** 2 / data.spread[i] ** 2
            found.append((chance, Drift(i, other, abs(z), float(share))))
        found += _moving_levels(data, i, waves)
    return sorted((one for chance, one in found if chance * tried < LEVEL), key=lambda d: -d.share)


def _moving_levels(data: Residuals, i: int, waves: np.ndarray) -> Iterator[tuple[float, Drift]]:
    """Yield p-values of the reward and the own action of an agent both following a wave."""
    left, own = data.left[:, i], data.of(i)
    for wave in waves.T:
        level, rises = left * wave, data.z(left * wave)
        for u in range(own.shape[1]):
            play = data.z(own[:, u] * wave)
            # What the level adds to the effect of the action.
            effect = level.mean() * (own[:, u] * wave).mean()
            share = abs(effect) * abs(level.mean()) / data.spread[i] ** 2
            z = min(abs(rises[0]), abs(play[0]))
            yield max(rises[1], play[1]), Drift(i, None, z, float(share))


def lasting(data: Residuals) -> list[Drift]:
    """Agents whose action follows what their last reward had by chance, while that lasts.

    Then something unrecorded drives both, and the action seems to earn what it brings.
    """
    if data.groups is not None or len(data.left) < 2 * FEWEST:
        return []
    agents, tried = [i for i in range(data.log.agents) if data.left[:, i].any()], 0
    found = list[tuple[float, Drift]]()
    for i in agents:
        left, own, last = data.left[:, i], data.of(i), np.zeros(len(data.left))
        last[data.order[1:]] = left[data.order[:-1]]
        kept, chance = data.z(left * last)
        if chance * len(agents) >= LEVEL:
            continue
        part = (left * last).mean() / (left**2).mean()
        for u in range(own.shape[1]):
            follows = data.z(own[:, u] * last)
            tried += 1
            share = abs(part * (own[:, u] * last).mean()) / data.spread[i]
            found.append((follows[1], Drift(i, None, min(kept, abs(follows[0])), float(share))))
    return sorted((one for chance, one in found if chance * tried < LEVEL), key=lambda d: -d.share)


def coupled(log: Log) -> Missing | None:
    """The agent whose next state depends most on what others do; None if no state does."""
    if log.states is None or log.absences or log.agents < 2 or log.states_count < 2:
        return None
    data = Residuals(log)
    log, (situations, moves) = data.log, sizes_of(data.log)
    best, tried = list[tuple[float, Missing]](), 0
    for i in range(log.agents):
        cell = log.situations * moves + log.moves[:, i]
        rows = np.maximum(np.bincount(cell, minlength=situations * moves), 1)
        own = np.concatenate([np.ones((log.samples, 1), np.float32), data.of(i)], 1)
        for state in range(1, log.states_count):
            there = (np.asarray(log.next_states)[:, i] == state).astype(np.float64)
            left = there - (np.bincount(cell, there, len(rows)) / rows)[cell]
            for weight in (left[:, None] * own).T if left.any() else ():
                for size in (1, 2):
                    if data.work(size, len(data.owner) * log.states_count) > WORK:
                        continue
                    for columns, scores, variances in data.products(weight, i, size):
                        tried += len(columns)
                        z = scores.sum(0) / np.sqrt(np.maximum(variances.sum(0), 1e-30))
                        for k in np.argsort(-np.abs(z))[:1]:
                            score, chance = data.z(weight * data.wide[:, columns[k]].prod(1))
                            others = tuple(sorted(data.owner[columns[k]].tolist()))
                            share = (weight * data.wide[:, columns[k]].prod(1)).mean() ** 2
                            one = Missing(i, others, size, abs(score), float(share / there.var()))
                            best.append((chance, one))
    best = [(chance, one) for chance, one in best if chance * tried < LEVEL]
    return min(best, key=lambda pair: pair[0])[1] if best else None
