"""Bounds on the largest gain of a policy learned from a log, computed from the log alone.

The rows are split into parts. For each part a policy is learned from the *other* rows, and the
answer is the mixture of these policies, so that every component can be judged by rows that were not
used to learn it. The reward of an own move against a component is estimated as

    model's expectation + mean over held-out rows with that move of (ratio * residual),

where the ratio is the probability of the others' moves under the component divided by their
probability under the log's play. The full ratio is a product over agents, whose variance grows
exponentially. For rewards of interaction rank K only its expansion up to order K - 1 matters,

    1 + sum_j (rho_j - 1) + sum_{j<k} (rho_j - 1) (rho_k - 1) + ...,

and for an aggregate the ratio of the aggregate's distributions. Within its class of rewards the
estimate is unbiased for any model: a penalty or a missing term costs variance, not bias. Its error
is a mean over rows and therefore has a standard error. Student's t distribution, with as many
degrees of freedom as there are effective rows, gives the bounds.

An upper bound on the largest gain would need no correction for the number of deviations if the best
deviation did not depend on the noise. But it does: the folds that mislead one component judge
another. Both ends of the interval are therefore simultaneous over all agents and deviations.

A mixture needs a mediator who draws the component for all agents. A single product policy does not,
but it was learned from all rows, so none is left to judge it. It is judged by all rows through
product policies, one for each part, that were computed in the same way from the other rows. The
error of these policies comes from rows that were not used to learn them. The policy differs little
from them, and the error of the difference is bounded for all policies at once (Scheffe): the
standard error times the square root of a chi-squared quantile, with as many degrees of freedom as
the rewards have parameters. If the policy is the mean of those of the parts and rewards are sums of
pairs, the rewards of own moves are means too, and only the own policy differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from scipy.stats import chi2
from scipy.stats import t as student

from equipoise.offline._aggregate import Aggregate
from equipoise.offline._combinations import Shown
from equipoise.offline._coverage import SHOWN, available, count_moves, over_known, sizes_of
from equipoise.offline._log import Log
from equipoise.offline._model import Model
from equipoise.offline._play import averaged, best_reply, model_gains, occupancies, terms_of
from equipoise.offline._select import groups_of
from equipoise.solvers.no_regret import Dynamics

#: Largest number of values held at once: agents times rows times components.
_CHUNK = 4_000_000
#: Number of draws of the transitions from their posterior.
DRAWS = 20
#: Values of an aggregate with a lower frequency than this are merged with the next value, if the
#: judged rows show them fewer than `SHOWN` times. Merging more would hide errors of the model.
RARE = 0.03
#: Largest number of deviations in a single place that are tried.
PLACES = 100
#: Margin for rounding errors at the ends of intervals, relative to the rewards.
ROUNDING = 1e-12
#: A deviation is not counted if it leads to combinations that the log hardly shows with a larger
#: probability than this. With a smaller probability, it widens the interval by what they may earn.
HIDDEN = 0.25
#: Lower limit on degrees of freedom that are estimated from few rows.
FEWEST = 5.0


@dataclass(frozen=True)
class Part:
    """Rows for judging, the model of the other rows, and the policies learned in this model."""

    rows: np.ndarray
    model: Model
    #: (components, contexts, horizon, agents, states, actions).
    policies: np.ndarray


@dataclass(frozen=True)
class Bounds:
    """Bounds on gains by deviating from a policy, estimated from rows not used to learn it.

    Gains are maxima over deviations to moves that the log shows often enough; `unknown` lists the
    other moves as (context, step, agent, state, action). Deviations follow the policy in places
    where no move is known.
    """

    #: (agents,): estimate of each agent's largest gain, and the ends of its interval.
    gains: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    #: (agents,): expected reward of the policy, and its standard error.
    value: np.ndarray
    value_error: np.ndarray
    #: Difference, beyond noise, to a richer class of rewards; it widens the interval.
    misfit: float
    unknown: np.ndarray
    #: Deviations that are not counted, listed as in `unknown`, because the log hardly shows what
    #: they lead to while others follow the policy; and the largest gain if they are counted with
    #: the most that they could earn.
    hidden: np.ndarray
    cautious: float
    #: (agents,): probability that the policy itself leads to combinations the log hardly shows.
    guessed: np.ndarray
    #: (agents,): probability that it leads to more or fewer others playing the same action than the
    #: log shows, if the class of rewards determines their effect.
    farther: np.ndarray
    #: (3, agents, actions): gain of always playing an action, and the ends of its interval; NaN if
    #: the log does not show the action.
    deviations: np.ndarray
    #: Confidence level of the interval; the level of its upper end alone is `(1 + level) / 2`.
    level: float

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of the largest gain of any agent."""
        return float(self.lower.max()), float(self.upper.max())

    @property
    def bound(self) -> float:
        """Upper bound on any agent's gain by deviations that the log covers."""
        return float(self.upper.max())


def bounds(
    log: Log,
    parts: Sequence[Part],
    model: Model,
    order: int | None,
    *,
    shown: Shown,
    policy: np.ndarray | None = None,
    level: float = 0.9,
) -> Bounds:
    """Bound the largest gain of the mixture of all parts' policies with equal weights.

    `model` is the model of all rows, whose transitions are used. `order` is the interaction rank of
    the rewards, or None for joint rewards and aggregates. `shown` says which combinations of moves
    the log shows. With `policy`, the bounds apply to this product policy, which is close to the
    policies of all parts.
    """
    judged = _Judge(log, model, order, parts, policy)
    for part in parts:
        judged.add(part)
    return judged.bounds(level, shown)


def known_moves(log: Log, parts: Sequence[np.ndarray]) -> np.ndarray:
    """(contexts, horizon, agents, states, actions): moves that the log shows often enough.

    Rows whose reward is not recorded do not count.
    `parts` are the rows of each part. An absent agent has no choice and needs no bound.
    """
    situations, moves = sizes_of(log)
    counts = [
        count_moves(log.situations[rows], log.moves[rows].T, situations, moves, _known(log, rows))
        for rows in parts
    ]
    known = (np.min(counts, 0) > 0) & (np.sum(counts, 0) >= SHOWN)
    shape = (log.contexts_count, log.horizon, log.agents, log.states_count)
    known = known.reshape(*shape, max(log.actions_per_agent)) & available(log)
    if log.absences:
        known[..., 1, :] = False
        known[..., 1, 0] = True
    return known


def _known(log: Log, rows: np.ndarray) -> np.ndarray | None:
    """(rows, agents): which rewards of some rows are recorded; None if all of the log are."""
    return None if log.recorded is None else log.recorded[rows]


class _Judge:
    """Sums over parts, and the contribution of each row to the error."""

    def __init__(
        self,
        log: Log,
        model: Model,
        order: int | None,
        parts: Sequence[Part],
        policy: np.ndarray | None,
    ):
        self.log, self.model, self.order, self.parts = log, model, order, len(parts)
        self.dynamics: Dynamics = model.dynamics
        self.policy = policy
        #: Whether the product policy is the mean of the parts' and rewards are linear in it.
        self.linear = policy is not None and order is not None and order <= 2
        if policy is not None and self.linear:
            every = np.concatenate([policy[None], *(part.policies for part in parts)])
            chances = occupancies(self.dynamics, every)
            self.linear = np.allclose(chances[0], chances[1:].mean(0), rtol=0.0, atol=1e-9)
        self.known = known_moves(log, [part.rows for part in parts])
        self.shape = self.known.shape
        situations, moves = sizes_of(log)
        self.flat = (situations, log.agents, moves)
        self.counts = count_moves(log.situations, log.moves.T, situations, moves)
        rows = self.counts[:, :1].sum(-1, keepdims=True)
        self.played = self.counts / np.maximum(rows, 1)
        #: (situations,): probability of their context.
        self.chances = np.repeat(model.context_probabilities, log.horizon)
        sets = np.zeros((log.agents, log.agents))
        for i, own in enumerate(model.neighbours):
            sets[i, list(own)] = 1.0
        self.dense = bool(sets.sum() == log.agents * (log.agents - 1))
        self.sets = sets
        self.rewards, self.value = np.zeros(self.flat), np.zeros(log.agents)
        #: For each part: its rows, and their estimates of deviation rewards and of the value, first
        #: under the chosen class of rewards and then under a richer class. With a product policy,
        #: also the estimates of the part's own policies.
        self.said: list[tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]] = []
        self.policies: list[np.ndarray] = []

    def add(self, part: Part) -> None:
        """Judge the policies of a part by its rows, or the product policy."""
        judged = part.policies if self.policy is None else self.policy[None]
        others = part.policies if self.linear else judged
        rewards, value, *said = self._estimate(part, others, judged)
        self.rewards += rewards / self.parts
        self.value += value / self.parts
        both = [(said[0] / self.parts, said[1] / self.parts)]
        if self.policy is not None:
            _, _, *own = self._estimate(part, part.policies, part.policies)
            both.append((own[0] / self.parts, own[1] / self.parts))
        self.said.append((part.rows, both))
        self.policies.append(judged)

    def _estimate(
        self, part: Part, policies: np.ndarray, playing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rewards of own moves against `policies`, the value of `playing`, and the contribution of
        each row to both."""
        log, rows = self.log, part.rows
        where, moves = log.situations[rows], log.moves[rows]
        count = len(policies)
        occupied, mine = (
            occupancies(self.dynamics, given).reshape(-1, *self.flat)
            for given in (policies, playing)
        )
        mine = np.broadcast_to(mine, occupied.shape)
        terms = terms_of(part.model)
        model, value = np.zeros(self.flat), np.zeros(log.agents)
        size = max(1, _CHUNK // max(log.agents * len(rows), int(np.prod(self.flat))))
        ours, theirs = np.zeros((2, 2, len(rows), log.agents))
        cell = (where[:, None], np.arange(log.agents), moves)
        for at in range(0, count, size):
            some, own = occupied[at : at + size], mine[at : at + size]
            expected = terms.expected(some)
            model += expected.sum(0) / count
            value += np.einsum("s,tsnu,tsnu->n", self.chances, own, expected) / count
            play = own[:, *cell].transpose(2, 1, 0)  # agents, rows, components
            ratios = (some[:, *cell] / self.played[cell]).transpose(2, 1, 0)
            for which, ratio in enumerate(self._others(terms, ratios, some, where, moves)):
                ours[which] += ratio.sum(-1).T / count
                theirs[which] += (play * ratio).sum(-1).T / count
        left = np.asarray(log.rewards[rows], np.float64) - terms.rewards(where, moves)
        known = _known(log, rows)  # rows that say nothing have no residual, and do not count
        left = left if known is None else np.where(known, left, 0.0)
        count = count_moves(where, moves.T, self.flat[0], self.flat[2], known)[cell]
        left = left / np.maximum(count, 1)
        ours, theirs = ours * left, theirs * left * self.chances[where][:, None]
        np.add.at(model, cell, ours[0])
        return model, value + theirs[0].sum(0), ours, theirs

    def _others(
        self,
        terms: Any,
        own: np.ndarray,
        occupied: np.ndarray,
        where: np.ndarray,
        moves: np.ndarray,
    ) -> list[np.ndarray]:
        """(agents, rows, components): ratios of the others' play, in the class and a richer one."""
        if isinstance(terms, Aggregate):
            # Merge rare values of the aggregate: otherwise a few rows would dominate.
            usual = terms.chances(self.played)
            bins = _merged(usual.mean((0, 1)), min(RARE, SHOWN / len(where)))
            index = (where[:, None], np.arange(len(own)), bins[terms.cells(moves)])
            merge = np.eye(bins[-1] + 1)[bins]
            usual = (usual @ merge)[index]
            found = (terms.chances(occupied) @ merge)[:, *index]
            ratio = (found / np.maximum(usual, 1e-12)).transpose(2, 1, 0)
            return [ratio, ratio]
        if self.order is None:
            before = np.cumprod(np.concatenate([np.ones_like(own[:1]), own[:-1]]), 0)
            after = np.cumprod(np.concatenate([np.ones_like(own[:1]), own[:0:-1]]), 0)[::-1]
            return [before * after] * 2
        ahead = own - 1.0
        order = min(self.order, len(own))
        richer = expansion(ahead, None, min(order + 1, len(own)))
        return [expansion(ahead, None if self.dense else self.sets, order), richer]

    def bounds(self, level: float, shown: Shown) -> Bounds:
        """Compute the bounds after all parts have been added."""
        log, known = self.log, self.known
        seen = self.counts.reshape(self.shape).sum(-1, keepdims=True) > 0
        choices = slice(0, 1) if log.absences else slice(None)  # absent agents have none
        occupied = occupancies(self.dynamics, np.concatenate(self.policies))
        occupied = occupied.reshape(-1, *self.flat)
        missing = shown.missing(occupied, self.played)
        span = over_known(np.ptp, log.rewards)
        weighed = self.chances[:, None, None] * occupied.mean(0)
        guessed = (weighed * missing).sum((0, 2))
        farther = (weighed * shown.farther(occupied, self.played)).sum((0, 2))
        hidden = known & (missing > HIDDEN).reshape(self.shape)
        hidden = hidden if not log.absences else hidden & (np.arange(2)[:, None] == 0)
        # If an agent has no deviation left, count all with the most that they may earn.
        some = ((known & ~hidden).sum(-1) > 1).any((0, 1, 3))
        hidden = hidden & some[:, None, None]
        gains, reach = self._gains(level, known, missing, span)
        cautious = float((gains + reach).max(initial=-np.inf))
        if hidden.any():
            known = known & ~hidden
            gains, reach = self._gains(level, known, missing, span)
        best, everybody = gains.argmax(0), np.arange(log.agents)
        always = np.stack([gains, gains - reach, gains + reach])[:, : self.shape[-1]]
        told = (known.sum(-1) > 1).any()  # whether any deviation is known
        usable = (known | ~seen)[..., choices, :].all((0, 1, 3))
        own, own_error = self.value, self._errors(np.zeros((1, *self.flat)))[0][0]
        return Bounds(
            gains=gains[best, everybody],
            lower=(gains - reach).max(0),
            upper=np.where(told, (gains + reach).max(0), np.inf),
            value=own,
            value_error=own_error,
            misfit=self.misfit,
            unknown=np.argwhere((seen & available(log) & ~self.known)[..., choices, :]),
            hidden=np.argwhere(hidden[..., choices, :]),
            cautious=cautious if told else np.inf,
            guessed=guessed,
            farther=farther,
            deviations=np.where(usable, always.transpose(0, 2, 1), np.nan),
            level=level,
        )

    def _gains(
        self, level: float, known: np.ndarray, missing: np.ndarray, span: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(deviations, agents): gains of deviations to known moves, and their margins of error.

        `missing` is the probability of combinations the log hardly shows, by own move, and `span`
        (agents,) is how much more or less they may earn.
        """
        log, weight = self.log, self.chances[:, None, None]
        rewards, spread = self.rewards.reshape(self.shape), self._spread().reshape(self.shape)
        stay = averaged(self.dynamics, np.concatenate(self.policies))
        devices = self._deviations(rewards, spread, stay, known)
        played = occupancies(self.dynamics, np.stack(devices)).reshape(-1, *self.flat)
        gains = (weight * played * self.rewards).sum((1, 3)) - self.value
        error, freedom, excess, moved = self._errors(played)
        self.misfit = float(excess.max())
        moving = self._transition_error() if log.horizon > 1 else 0.0
        error = np.sqrt(error**2 + moving**2)
        tail = (1.0 - level) / 2 / gains.size
        reach = student.ppf(1.0 - tail, np.maximum(freedom, FEWEST)) * error + excess
        reach = reach + np.sqrt(chi2.ppf(1.0 - tail, self._parameters())) * moved
        reach = reach + ROUNDING * (self.model.reward_scale + np.abs(self.value))
        stayed = occupancies(self.dynamics, stay[None]).reshape(1, *self.flat)
        apart = np.abs(played - stayed)  # common play does not affect a gain
        return gains, reach + span * (weight * apart * missing).sum((1, 3))

    def _deviations(
        self, rewards: np.ndarray, spread: np.ndarray, stay: np.ndarray, allowed: np.ndarray
    ) -> list[np.ndarray]:
        """Deviations to try: first every constant action, then best responses.

        A best response to the estimates is not enough if there are several places: it follows the
        policy in places where noise hides a gain. Rewards are therefore also raised by some
        standard errors, and every action is tried in a single place, in the most promising places
        if there are very many.
        """
        one = np.eye(self.shape[-1])
        replies = [
            best_reply(self.dynamics, rewards + c * spread, allowed, stay)[0]
            for c in (0.0, 1.6, 3.2)
        ]
        found = [
            np.where(allowed[..., action, None], one[action], replies[0])
            for action in range(self.shape[-1])
        ]
        ahead = rewards + 3.2 * spread - (stay * rewards).sum(-1, keepdims=True)
        ahead = np.where(allowed, ahead, -np.inf).max(2)  # of any agent
        ahead = ahead * np.maximum(self.model.context_probabilities, 1e-300)[:, None, None, None]
        places = [] if ahead[..., 0].size == 1 else np.argsort(-ahead.ravel(), kind="stable")
        for place in places[:PLACES]:
            c, h, s, action = np.unravel_index(place, ahead.shape)
            alone = stay.copy()
            known = allowed[c, h, :, s, action, None]
            alone[c, h, :, s] = np.where(known, one[action], stay[c, h, :, s])
            found.append(alone)
        return [*found, *replies]

    def _parameters(self) -> np.ndarray:
        """(agents,): number of parameters of the product policy's difference to the parts'."""
        situations, agents, moves = self.flat
        if self.linear:
            return np.full(agents, min(situations * (moves - 1), self.log.samples))
        if self.order is None:
            terms = terms_of(self.model)
            joint = float(moves) ** (agents - 1)
            cells = terms.table.shape[-1] if isinstance(terms, Aggregate) else joint
            return np.full(agents, min(situations * moves * cells, self.log.samples))
        found = [
            sum(comb(len(own), k) * (moves - 1.0) ** k for k in range(self.order))
            for own in self.model.neighbours
        ]
        return np.minimum(np.array(found) * situations * moves, self.log.samples)

    def _spread(self) -> np.ndarray:
        """(situations, agents, moves): standard errors of the rewards of own moves."""
        squares = np.zeros(self.flat)
        for rows, said in self.said:
            cell = (self.log.situations[rows][:, None], np.arange(self.log.agents))
            np.add.at(squares, (*cell, self.log.moves[rows]), said[-1][0][0] ** 2)
        return np.sqrt(squares)

    def _errors(self, played: np.ndarray) -> tuple[np.ndarray, ...]:
        """(deviations, agents): standard errors, their degrees of freedom, the difference to a
        richer class, and standard errors of the difference to the policies of the parts.

        `played` (deviations, situations, agents, moves) are the occupancies of deviations.
        """
        log, everybody = self.log, np.arange(self.log.agents)
        squares, fourth, apart, apart_squares, moved = np.zeros((5, len(played), log.agents))
        groups = None if log.episodes is None else groups_of(log)
        for rows, said in self.said:
            where, moves = log.situations[rows], log.moves[rows]
            weight = self.chances[where][:, None]
            for d, own in enumerate(played):
                chance = weight * own[where[:, None], everybody, moves]
                each = np.stack([chance * ours - theirs for ours, theirs in said])
                if groups is not None:
                    sums = np.zeros((*each.shape[:2], groups.max() + 1, log.agents))
                    for which in np.ndindex(each.shape[:2]):
                        np.add.at(sums[which], groups[rows], each[which])
                    each = sums
                squares[d] += (each[-1, 0] ** 2).sum(0)
                fourth[d] += (each[-1, 0] ** 4).sum(0)
                apart[d] += (each[0, 1] - each[0, 0]).sum(0)
                apart_squares[d] += ((each[0, 1] - each[0, 0]) ** 2).sum(0)
                moved[d] += ((each[0, 0] - each[-1, 0]) ** 2).sum(0)
        freedom = squares**2 / np.maximum(fourth, 1e-300) - 1.0
        cut = student.ppf(1.0 - 0.05 / max(squares.size, 1), np.maximum(freedom, FEWEST))
        excess = np.maximum(np.abs(apart) - cut * np.sqrt(apart_squares), 0.0)
        return np.sqrt(squares), freedom, excess, np.sqrt(moved)

    def _transition_error(self) -> np.ndarray:
        """(agents,): standard errors of gains due to estimated transitions."""
        rng = np.random.default_rng(0)
        counts, found = np.asarray(self.model.transition_counts, np.float64), []
        for _ in range(DRAWS):
            drawn = rng.standard_gamma(np.maximum(counts, 1e-9))
            total = drawn.sum(-1, keepdims=True)
            usual = self.dynamics.transitions
            kernel = np.where(total > 1e-6, drawn / np.maximum(total, 1e-300), usual)
            dynamics = Dynamics(self.dynamics.initial, kernel)
            found.append(model_gains(self.model, np.concatenate(self.policies), dynamics)[0])
        return np.std(found, 0, ddof=1)


def expansion(ahead: np.ndarray, sets: np.ndarray | None, order: int) -> np.ndarray:
    """(agents, rows, components): sums of products of fewer than `order` neighbours' terms.

    `ahead` is every agent's ratio minus one. `sets` (agents, agents) says who is whose neighbour;
    None means all agents. Newton's identities give elementary symmetric polynomials from power
    sums.

    >>> ahead = np.array([1.0, 2.0, 3.0]).reshape(3, 1, 1)
    >>> expansion(ahead, None, 3).ravel().tolist()  # 1 + 2 + 3 + 2 * 3, ...
    [12.0, 8.0, 6.0]
    """
    powers = []
    for k in range(1, order):
        own = ahead**k
        if sets is None:
            powers.append(own.sum(0) - own)
        else:
            powers.append(np.tensordot(sets, own, 1))
    terms = [np.ones_like(ahead)]
    for k in range(1, order):
        signed = [(-1) ** (j - 1) * terms[k - j] * powers[j - 1] for j in range(1, k + 1)]
        terms.append(np.sum(signed, 0) / k)
    return np.sum(terms, 0)


def _merged(chances: np.ndarray, least: float) -> np.ndarray:
    """(cells,): bins of neighbouring cells; each bin has a probability of at least `least`.

    >>> _merged(np.array([0.01, 0.01, 0.5, 0.47, 0.01]), 0.03).tolist()
    [0, 0, 0, 1, 1]
    """
    bins, number, mass, left = np.zeros(len(chances), int), 0, 0.0, float(chances.sum())
    for cell, chance in enumerate(chances):
        bins[cell] = number
        mass, left = mass + chance, left - chance
        if mass >= least and left >= least:
            number, mass = number + 1, 0.0
    return bins
