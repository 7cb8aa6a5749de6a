"""Bounds on the gap of a policy that was learned from a log, from the log alone.

The rows are split into parts. For each part a policy is learned from the *other* rows, and the
answer is the mixture of these policies, so that every component can be judged by rows it has never
seen. The reward of an own move against a component is estimated as

    model's expectation + mean over held-out rows with that move of (ratio * residual),

where the ratio is that of the component's play of the others to the log's. The full ratio is a
product over agents, whose variance grows exponentially. For rewards of interaction rank K only
its expansion up to order K - 1 matters,

    1 + sum_j (rho_j - 1) + sum_{j<k} (rho_j - 1) (rho_k - 1) + ...,

and for an aggregate the ratio of the aggregate's distributions. Within its class of rewards the
estimate is unbiased whatever the model: a penalty or a missing term costs variance, not bias. Its
error is a mean over rows, so that it has a standard error, and Student's t with as many degrees of
freedom as rows that matter gives the bounds.

An upper bound on the largest gain needs no allowance for the number of deviations, as long as the
best one does not depend on the noise. It does: folds that mislead one component are those that
judge another. Both ends are therefore simultaneous over all agents and deviations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from equipoise.offline._aggregate import Aggregate
from equipoise.offline._coverage import count_moves, sizes_of
from equipoise.offline._log import Log
from equipoise.offline._model import Model
from equipoise.offline._select import groups_of
from equipoise.solvers.no_regret import Dynamics

#: Numbers that are held at once: agents times rows times components.
_CHUNK = 4_000_000
#: Draws of the transitions from their posterior.
DRAWS = 20
#: Values of an aggregate that the log shows less often than this count as one with the next.
RARE = 0.03
#: Degrees of freedom that are estimated from few rows are at least these.
FEWEST = 5.0


@dataclass(frozen=True)
class Part:
    """Rows that judge, the model of the other rows, and the policies that were learned in it."""

    rows: np.ndarray
    model: Model
    #: (components, contexts, horizon, agents, states, actions).
    policies: np.ndarray


@dataclass(frozen=True)
class Bounds:
    """What a deviation can gain from a policy, estimated from rows that it was not learned from.

    Gains are the largest over the deviations that the log covers; `unknown` lists the others as
    (context, step, agent, state, action).
    """

    #: (agents,): the estimate, and the ends of the interval, of each agent's largest gain.
    gains: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    #: (agents,): what the policy earns, and its standard error.
    value: np.ndarray
    value_error: np.ndarray
    #: What a richer class of rewards says beyond its noise; the interval is wider by it.
    misfit: float
    unknown: np.ndarray
    #: (3, agents, actions): the gain of always playing an action, and the ends of its interval; NaN
    #: where the log does not show it.
    deviations: np.ndarray
    #: Confidence of the interval; that of its upper end alone is half-way to one.
    level: float

    @property
    def interval(self) -> tuple[float, float]:
        """Where the largest gain of any agent lies."""
        return float(self.lower.max()), float(self.upper.max())

    @property
    def bound(self) -> float:
        """Nobody gains more than this, by deviations that the log covers."""
        return float(self.upper.max())


def bounds(
    log: Log, parts: Sequence[Part], model: Model, order: int | None, *, level: float = 0.9
) -> Bounds:
    """Bounds on the gap of the mixture of all parts' policies, which count alike.

    `model` is that of all rows, whose transitions are used; `order` is the interaction rank of
    the rewards, None for that of the joint move or of an aggregate.
    """
    judged = _Judge(log, model, order, len(parts))
    for part in parts:
        judged.add(part)
    return judged.bounds(level)


class _Judge:
    """Sums over parts, and the rows that each of them adds to the error."""

    def __init__(self, log: Log, model: Model, order: int | None, parts: int):
        self.log, self.model, self.order, self.parts = log, model, order, parts
        self.dynamics: Dynamics = model.dynamics
        self.shape = (log.contexts_count, log.horizon, log.agents, log.states_count)
        self.shape += (max(log.actions_per_agent),)
        situations, moves = sizes_of(log)
        self.flat = (situations, log.agents, moves)
        self.counts = count_moves(log.situations, log.moves.T, situations, moves)
        rows = self.counts[:, :1].sum(-1, keepdims=True)
        self.played = self.counts / np.maximum(rows, 1)
        #: (situations,): the chance of their context.
        self.chances = np.repeat(model.context_probabilities, log.horizon)
        sets = np.zeros((log.agents, log.agents))
        for i, own in enumerate(model.neighbours):
            sets[i, list(own)] = 1.0
        self.dense = bool(sets.sum() == log.agents * (log.agents - 1))
        self.sets = sets
        self.rewards, self.value = np.zeros(self.flat), np.zeros(log.agents)
        #: For each part: its rows, and their estimates of deviation rewards and of the value,
        #: first under the chosen class of rewards and then under a richer one.
        self.said: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.policies: list[np.ndarray] = []

    def add(self, part: Part) -> None:
        """Judge the policies of a part by its rows."""
        log, rows = self.log, part.rows
        where, moves = log.situations[rows], log.moves[rows]
        count = len(part.policies)
        occupied = occupancies(self.dynamics, part.policies).reshape(count, *self.flat)
        terms = terms_of(part.model)
        model, value = np.zeros(self.flat), np.zeros(log.agents)
        size = max(1, _CHUNK // max(log.agents * len(rows), int(np.prod(self.flat))))
        ours, theirs = np.zeros((2, 2, len(rows), log.agents))
        for at in range(0, count, size):
            some = occupied[at : at + size]
            expected = terms.expected(some)
            model += expected.sum(0) / count
            value += np.einsum("s,tsnu,tsnu->n", self.chances, some, expected) / count
            ratios = np.divide(some, self.played, out=np.zeros_like(some), where=self.played > 0)
            everybody = np.arange(log.agents)
            own = ratios[:, where[:, None], everybody, moves].transpose(2, 1, 0)  # agents, rows, t
            for which, ratio in enumerate(self._others(terms, own, some, where, moves)):
                ours[which] += ratio.sum(-1).T / count
                theirs[which] += (own * ratio).sum(-1).T / count
        left = np.asarray(log.rewards[rows], np.float64) - terms.rewards(where, moves)
        mine = count_moves(where, moves.T, self.flat[0], self.flat[2])
        cell = (where[:, None], np.arange(log.agents), moves)
        many = mine[:, 0].sum(-1)
        share = (self.chances[where] / np.maximum(many, 1)[where])[:, None]
        ours, theirs = ours * left / mine[cell], theirs * left * share
        np.add.at(model, cell, ours[0])
        self.rewards += model / self.parts
        self.value += (value + theirs[0].sum(0)) / self.parts
        self.said.append((rows, ours / self.parts, theirs / self.parts))
        self.policies.append(part.policies)

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
            # Rare values of the aggregate count together: few rows would decide otherwise.
            usual = terms.chances(self.played)
            bins = _merged(usual.mean((0, 1)))
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

    def bounds(self, level: float) -> Bounds:
        """The bounds, once all parts were added."""
        log, weight = self.log, self.chances[:, None, None]
        known = self.counts > 0
        known = known.reshape(self.shape) & _available(log)
        seen = self.counts.reshape(self.shape).sum(-1, keepdims=True) > 0
        unseen = seen & _available(log) & ~known
        missing = np.argwhere(unseen[..., :1, :] if log.absences else unseen)
        rewards, spread = self.rewards.reshape(self.shape), self._spread().reshape(self.shape)
        devices = [best_reply(self.dynamics, rewards + c * spread, known)[0] for c in (0.0, 1.6)]
        for action in range(self.shape[-1]):
            constant = np.where(
                known[..., action, None], np.eye(self.shape[-1])[action], devices[0]
            )
            devices.append(constant)
        played = occupancies(self.dynamics, np.stack(devices)).reshape(-1, *self.flat)
        gains = (weight * played * self.rewards).sum((1, 3)) - self.value
        error, freedom, excess = self._errors(played)
        moving = self._transition_error() if log.horizon > 1 else 0.0
        error = np.sqrt(error**2 + moving**2)
        tail = (1.0 - level) / 2
        reach = student.ppf(1.0 - tail / gains.size, np.maximum(freedom, FEWEST)) * error + excess
        best = gains.argmax(0)
        everybody = np.arange(log.agents)
        always = np.stack([gains, gains - reach, gains + reach])[:, 2:].transpose(0, 2, 1)
        shown = (known | ~seen).all((0, 1, 3))
        own, own_error = self.value, self._errors(np.zeros((1, *self.flat)))[0][0]
        return Bounds(
            gains=gains[best, everybody],
            lower=(gains - reach).max(0),
            upper=(gains + reach).max(0),
            value=own,
            value_error=own_error,
            misfit=float(excess.max()),
            unknown=missing,
            deviations=np.where(shown, always, np.nan),
            level=level,
        )

    def _spread(self) -> np.ndarray:
        """(situations, agents, moves): standard errors of the rewards of own moves."""
        squares = np.zeros(self.flat)
        for rows, ours, _ in self.said:
            cell = (self.log.situations[rows][:, None], np.arange(self.log.agents))
            np.add.at(squares, (*cell, self.log.moves[rows]), ours[0] ** 2)
        return np.sqrt(squares)

    def _errors(self, played: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(deviations, agents): standard errors, degrees of freedom, and what a richer class adds.

        `played` (deviations, situations, agents, moves) are the occupancies of deviations.
        """
        log, everybody = self.log, np.arange(self.log.agents)
        squares, fourth, apart, apart_squares = np.zeros((4, len(played), log.agents))
        groups = None if log.episodes is None else groups_of(log)
        for rows, ours, theirs in self.said:
            where, moves = log.situations[rows], log.moves[rows]
            weight = self.chances[where][:, None]
            for d, own in enumerate(played):
                chance = weight * own[where[:, None], everybody, moves]
                each = chance * ours - theirs
                if groups is not None:
                    sums = np.zeros((2, groups.max() + 1, log.agents))
                    for which in range(2):
                        np.add.at(sums[which], groups[rows], each[which])
                    each = sums
                squares[d] += (each[0] ** 2).sum(0)
                fourth[d] += (each[0] ** 4).sum(0)
                apart[d] += (each[1] - each[0]).sum(0)
                apart_squares[d] += ((each[1] - each[0]) ** 2).sum(0)
        freedom = squares**2 / np.maximum(fourth, 1e-300) - 1.0
        cut = student.ppf(1.0 - 0.05 / max(squares.size, 1), np.maximum(freedom, FEWEST))
        excess = np.maximum(np.abs(apart) - cut * np.sqrt(apart_squares), 0.0)
        return np.sqrt(squares), freedom, excess

    def _transition_error(self) -> np.ndarray:
        """(agents,): standard errors of gains that come from estimated transitions."""
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

    `ahead` holds every agent's ratio less one; `sets` (agents, agents) who is whose neighbour,
    everybody where it is None. Elementary symmetric polynomials come from power sums by Newton's
    identities.

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


def model_gains(
    model: Model, policies: np.ndarray, dynamics: Dynamics | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(agents,): the largest gains, and values, of a mixture of policies in a fitted model.

    `policies` are (components, contexts, horizon, agents, states, actions), and count alike;
    `dynamics` are the model's when not given.
    """
    dynamics, terms = dynamics or model.dynamics, terms_of(model)
    assert dynamics is not None  # only networks have none
    count, shape = len(policies), policies.shape[1:]
    flat = (shape[0] * shape[1], shape[2], shape[3] * shape[4])
    chances = np.repeat(model.context_probabilities, shape[1])
    rewards, value = np.zeros(flat), np.zeros(shape[2])
    size = max(1, _CHUNK // int(np.prod(flat)))
    for at in range(0, count, size):
        some = occupancies(dynamics, policies[at : at + size]).reshape(-1, *flat)
        expected = terms.expected(some)
        rewards += expected.sum(0) / count
        value += np.einsum("s,tsnu,tsnu->n", chances, some, expected) / count
    allowed = model.behaviour.reshape(shape) > 0
    best = best_reply(dynamics, rewards.reshape(shape), allowed)[1]
    return model.context_probabilities @ best - value, value


def _merged(chances: np.ndarray) -> np.ndarray:
    """(cells,): bins of neighbouring cells, each of which has a chance of `RARE` or more.

    >>> _merged(np.array([0.01, 0.01, 0.5, 0.47, 0.01])).tolist()
    [0, 0, 0, 1, 1]
    """
    bins, number, mass, left = np.zeros(len(chances), int), 0, 0.0, float(chances.sum())
    for cell, chance in enumerate(chances):
        bins[cell] = number
        mass, left = mass + chance, left - chance
        if mass >= RARE and left >= RARE:
            number, mass = number + 1, 0.0
    return bins


def terms_of(model: Model) -> Any:
    """The rewards of a model: `Interactions` or an `Aggregate`."""
    return model.rewards if model.game is None else model.game.interactions


def occupancies(dynamics: Dynamics, policies: np.ndarray) -> np.ndarray:
    """Chances of state and action of each agent, for policies with any leading axes."""
    here, found = np.asarray(dynamics.initial), []
    for h in range(policies.shape[-4]):
        joint = here[..., None] * policies[..., h, :, :, :]
        found.append(joint)
        if h + 1 < policies.shape[-4]:
            here = np.einsum("...cnsa,cnsat->...cnt", joint, dynamics.transitions[:, h])
    return np.stack(found, -4)


def best_reply(
    dynamics: Dynamics, rewards: np.ndarray, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The best deterministic policy of each agent for expected rewards, and its value.

    Both arrays are (contexts, horizon, agents, states, actions); places where nothing is allowed
    play all actions alike. The value is (contexts, agents).
    """
    actions = rewards.shape[-1]
    ahead = np.zeros(rewards[:, 0, ..., 0].shape)
    chosen = np.empty_like(rewards)
    for h in reversed(range(rewards.shape[1])):
        q = rewards[:, h] + np.einsum("cnsat,cnt->cnsa", dynamics.transitions[:, h], ahead)
        masked = np.where(allowed[:, h], q, -np.inf)
        anything: np.ndarray = np.asarray(allowed[:, h].any(-1))
        pure: np.ndarray = np.eye(actions)[masked.argmax(-1)]
        chosen[:, h] = np.where(anything[..., None], pure, 1.0 / actions)
        ahead = (chosen[:, h] * q).sum(-1)
    return chosen, (np.asarray(dynamics.initial) * ahead).sum(-1)


def _available(log: Log) -> np.ndarray:
    """(agents, 1, actions): which actions each agent has."""
    return np.arange(max(log.actions_per_agent)) < np.array(log.actions_per_agent)[:, None, None]
