"""Games of many agents with interaction terms: pure and coarse correlated equilibria.

No array here is as large as the joint action space. Contexts are public, so that each context is a
separate game.

1. *Best-reply dynamics*: some of the agents who gain move to their best response, until no agent
   gains. In potential games this ends in a pure equilibrium (Monderer and Shapley, 1996).
2. *One linear program* for games of pairs: the strategies that minimise the sum of best-response
   values are a Nash equilibrium if all rewards sum to a constant (Cai, Candogan, Daskalakis and
   Papadimitriou, 2016).
3. *No regret*: multiplicative weights of all agents (`no_regret`). Each iterate is a product
   policy, and their mixture is an approximate coarse correlated equilibrium.
4. *A linear program* chooses the weights of the iterates that minimise the largest gain. Its duals
   are a distribution over deviations. Consider the product policy in which every agent plays its
   own part of this distribution: on average, the deviations gain nothing from it (Papadimitriou
   and Roughgarden, 2008). It therefore enters the program and lowers the gain, until none is left.

With local states a deviation is a whole policy of one agent. Only the deviations that matter are
generated: the best response to the current mixture, by dynamic programming.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise.games import ContextualGame, DecoupledMarkovGame

#: Number of iterations of multiplicative weights before the first linear program, number between
#: two checks of the clock, and step size relative to the spread of an agent's Q-function.
_ITERATIONS, _AT_ONCE, _STEP = 100, 25, 0.4
#: Maximum number of rounds of best-reply dynamics.
_REPLIES = 200
#: Seconds that a linear program may take even if the time limit is over.
_LEAST_SECONDS = 0.1
#: HiGHS accepts no smaller tolerances.
_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True)
class Structured:
    """A mixture of product policies."""

    #: (components, *policy_shape of the game): the product policies.
    policies: np.ndarray
    #: (components,): their weights.
    weights: np.ndarray
    #: Largest gain of any agent in any context, as the solver computes it.
    gain: float
    #: "best replies", "zero-sum program" or "no regret and linear programs".
    method: str
    #: "solved", "out of time", "interrupted" or "stuck".
    ended: str
    #: Number of linear programs solved.
    rounds: int


def solve_structured(
    game: ContextualGame | DecoupledMarkovGame,
    *,
    concept: str = "cce",
    tolerance: float = 1e-8,
    time_limit: float = np.inf,
    seed: int = 0,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Structured:
    """Return a pure Nash equilibrium, or a coarse correlated one, for the game's true rewards.

    `tolerance` is in units of reward. With `concept` "nash" no mixtures are tried.
    """
    deadline = time.monotonic() + time_limit
    parts, ended, rounds, learned = [], "solved", 0, None
    for context in range(game.contexts):
        one = _Context(game, context)
        share = (deadline - time.monotonic()) / (game.contexts - context)
        found = one.best_replies(np.random.default_rng(seed), time.monotonic() + share)
        if found.gain > tolerance and found.ended != "interrupted":
            try:
                left = one.zero_sum(time.monotonic() + max(share, _LEAST_SECONDS))
                found = min(found, left, key=lambda answer: answer.gain)
            except KeyboardInterrupt:
                found = replace(found, ended="interrupted")
        if found.gain > tolerance and concept == "cce" and found.ended != "interrupted":
            try:
                learned = _no_regret(game, deadline) if learned is None else learned
                until = time.monotonic() + share
                found = one.mixture(learned[:, context], tolerance, until, progress)
            except KeyboardInterrupt:
                found = replace(found, ended="interrupted")
        if found.ended == "interrupted":
            deadline = time.monotonic()  # the other contexts use only methods that need no time
        ended = found.ended if ended == "solved" else ended
        rounds += found.rounds
        parts.append(found)
    policies, weights = _couple([(p.policies, p.weights) for p in parts])
    if isinstance(game, ContextualGame):
        policies = policies[:, :, 0, :, 0]
    method = " and ".join(dict.fromkeys(p.method for p in parts))
    return Structured(policies, weights, max(p.gain for p in parts), method, ended, rounds)


def _no_regret(game: ContextualGame | DecoupledMarkovGame, deadline: float) -> np.ndarray:
    """(iterations, *policy): multiplicative weights of all agents, in all contexts at once."""
    from equipoise.solvers.no_regret import ExactCritic, iterate  # the only use of JAX here

    uniform = game.uniform_policy()
    if isinstance(game, ContextualGame):
        uniform = uniform[:, None, :, None, :]
    rewards = np.stack([_Context(game, c).rewards(p)[0] for c, p in enumerate(uniform)])
    own = np.where(uniform > 0, rewards, rewards.mean((-2, -1), keepdims=True))
    spread = np.ptp(own, axis=(-2, -1)).sum(1).max(0)
    step = _STEP / np.maximum(spread, 1e-300)[None, None, :, None, None]
    critic, policies = ExactCritic.of(game), uniform[None]
    for _ in range(_ITERATIONS // _AT_ONCE):
        start = policies[-1]
        found, _, _ = iterate(critic, uniform, step=step, iterations=_AT_ONCE + 1, start=start)
        policies = np.concatenate([policies, found[1:]])
        if time.monotonic() > deadline:
            break
    return policies


def _couple(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Combine one mixture per context into one mixture over all contexts, with few components.

    One number from 0 to 1 draws the component of every context at once. Contexts exclude one
    another, so the coupling of their components does not matter.
    """
    ends = [np.cumsum(weights) / weights.sum() for _, weights in parts]
    cuts = np.unique(np.round(np.concatenate([[0.0], *ends]), 15))
    middle = (cuts[1:] + cuts[:-1]) / 2
    chosen = [
        policies[np.minimum(np.searchsorted(end, middle), len(end) - 1)]
        for (policies, _), end in zip(parts, ends, strict=True)
    ]
    return np.stack(chosen, 1), np.diff(cuts) / np.diff(cuts).sum()


class _Context:
    """One context of a game: policies are (horizon, agents, states, actions)."""

    def __init__(self, game: ContextualGame | DecoupledMarkovGame, context: int):
        self.game, self.context = game, context
        markov = isinstance(game, DecoupledMarkovGame)
        self.agents, self.actions = game.agents, max(game.actions)
        self.states = max(game.states) if markov else 1
        self.horizon = game.horizon if markov else 1
        self.initial = np.asarray(game.initial[context]) if markov else np.ones((self.agents, 1))
        self.moves = np.asarray(game.transitions[context]) if markov else None
        self.mask = game.action_mask
        self.shape = (self.horizon, self.agents, self.states, self.actions)
        terms = game.interactions
        first = context * self.horizon
        self.terms = type(terms)(
            terms.scopes,
            {k: np.asarray(t)[first : first + self.horizon] for k, t in terms.tables.items()},
            terms.agents,
        )

    def occupancies(self, policy: np.ndarray) -> np.ndarray:
        """Return each agent's probabilities of state and action in each step."""
        result = np.empty(self.shape)
        here = self.initial
        for h in range(self.horizon):
            result[h] = here[..., None] * policy[h]
            if self.moves is not None:
                here = np.einsum("nsa,nsat->nt", result[h], self.moves[h])
        return result

    def rewards(self, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Expected rewards of own states and actions, and the value (agents,)."""
        chances = self.occupancies(policy)
        flat = chances.reshape(self.horizon, self.agents, -1)
        rewards = self.terms.expected(flat).reshape(self.shape)
        return rewards, np.einsum("hnsa,hnsa->n", chances, rewards)

    def best(self, rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each agent's best response to the rewards of own moves, and its value."""
        reply = np.empty(self.shape)
        ahead = np.zeros((self.agents, self.states))
        for h in reversed(range(self.horizon)):
            q = rewards[h]
            if self.moves is not None:
                q = q + np.einsum("nsat,nt->nsa", self.moves[h], ahead)
            q = np.where(self.mask[:, None], q, -np.inf)
            reply[h], ahead = np.eye(self.actions)[q.argmax(-1)], q.max(-1)
        return reply, (self.initial * ahead).sum(-1)

    def uniform(self) -> np.ndarray:
        """Return the policy that is uniform over own actions."""
        chances = self.mask / self.mask.sum(1, keepdims=True)
        return np.broadcast_to(chances[:, None], self.shape).copy()

    def best_replies(self, chooser: np.random.Generator, deadline: float) -> Structured:
        """Move some of the agents who gain; fewer of them the longer it takes."""
        rewards, value = self.rewards(self.uniform())
        policy = self.best(rewards)[0]
        kept, smallest, ended = policy, np.inf, "stuck"
        try:
            for step in range(_REPLIES + 2 * self.agents):
                rewards, value = self.rewards(policy)
                reply, best = self.best(rewards)
                gains = best - value
                if gains.max() < smallest:
                    kept, smallest = policy, float(gains.max())
                size = max(float(np.abs(rewards).max()), 1e-300)
                gaining = np.flatnonzero(gains > 1e-13 * size * self.horizon)
                if not len(gaining):
                    ended = "solved"
                    break
                if time.monotonic() > deadline:
                    ended = "out of time"
                    break
                share = max(1.0 / len(gaining), 0.5 * 0.97**step)
                movers = gaining[chooser.random(len(gaining)) < share]
                movers = movers if len(movers) else gaining[gains[gaining].argmax()][None]
                policy = policy.copy()
                policy[:, movers] = reply[:, movers]
        except KeyboardInterrupt:
            ended = "interrupted"
        return Structured(kept[None], np.ones(1), max(smallest, 0.0), "best replies", ended, 0)

    def zero_sum(self, deadline: float) -> Structured:
        """Return the product policy that minimises the sum of best-response values (pair games).

        If the linear program does not end by the deadline, the policy is uniform.
        """
        uniform = self.uniform()
        if max(self.terms.scopes) > 2 or self.horizon * self.states > 1:
            return Structured(uniform[None], np.ones(1), np.inf, "", "stuck", 0)
        from scipy.optimize import linprog

        size = self.agents * self.actions
        slopes = np.zeros((self.agents, self.actions, self.agents, self.actions))
        for (i, j), table in zip(
            self.terms.scopes.get(2, ()), self.terms.tables.get(2, [()])[0], strict=True
        ):
            slopes[i, :, j] += table
        alone = self.terms.expected(np.zeros((1, self.agents, self.actions)))[0]
        owner = np.repeat(np.eye(self.agents), self.actions, 0)
        has = self.mask.reshape(-1)
        # Unknowns: strategies and each agent's best-response value.
        result = linprog(
            np.append(np.zeros(size), np.ones(self.agents)),
            A_ub=np.hstack([slopes.reshape(size, size), -owner])[has],
            b_ub=-alone.reshape(-1)[has],
            A_eq=np.hstack([owner.T, np.zeros((self.agents, self.agents))]),
            b_eq=np.ones(self.agents),
            bounds=[(0.0, None if h else 0.0) for h in has] + [(None, None)] * self.agents,
            method="highs",
            options=_TIGHT | {"time_limit": max(deadline - time.monotonic(), _LEAST_SECONDS)},
        )
        if result.x is None or result.status != 0:
            return Structured(uniform[None], np.ones(1), np.inf, "", "stuck", 1)
        policy = np.maximum(result.x[:size].reshape(self.agents, self.actions), 0.0)
        policy = (policy / policy.sum(1, keepdims=True))[None, :, None]
        rewards, value = self.rewards(policy)
        gain = max(float((self.best(rewards)[1] - value).max()), 0.0)
        return Structured(policy[None], np.ones(1), gain, "zero-sum program", "solved", 1)

    def mixture(
        self,
        learned: np.ndarray,
        tolerance: float,
        deadline: float,
        progress: Callable[[dict[str, Any]], None] | None,
    ) -> Structured:
        """Run no-regret iterates and column generation until no deviation gains."""
        program = _Mixing(self)
        ended = "solved"
        try:
            for policy in learned:
                program.add(policy)
            while True:
                program.solve()
                if progress is not None:
                    progress({"round": program.rounds, "gain": program.gain})
                if program.gain <= tolerance:
                    break
                if time.monotonic() > deadline:
                    ended = "out of time"
                    break
                program.add(program.reply_to_duals())
        except KeyboardInterrupt:
            if not np.isfinite(program.gain):
                raise
            ended = "interrupted"
        used = program.best_weights > 0
        policies = np.stack(program.policies[: len(used)])[used]
        method = "no regret and linear programs"
        gain = program.gain
        return Structured(policies, program.best_weights[used], gain, method, ended, program.rounds)


class _Mixing:
    """The linear program over weights of product policies, with its deviations."""

    def __init__(self, one: _Context):
        self.one = one
        self.policies: list[np.ndarray] = []
        self.rewards: list[np.ndarray] = []
        self.values: list[np.ndarray] = []
        #: Deviations as (agent, occupancies), and their rewards against each policy.
        self.deviations: list[tuple[int, np.ndarray]] = []
        self.rounds, self.gain = 0, np.inf
        self.best_weights = np.zeros(0)
        if one.horizon == 1 and one.states == 1:
            for i, a in zip(*np.nonzero(one.mask), strict=True):
                played = np.zeros((1, 1, one.actions))
                played[..., a] = 1.0
                self.deviations.append((int(i), played))

    def add(self, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Add a policy to the program."""
        rewards, value = self.one.rewards(policy)
        self.policies.append(policy)
        self.rewards.append(rewards)
        self.values.append(value)
        return rewards, value

    def _rows(self) -> np.ndarray:
        """(deviations, policies): gain of each deviation against each policy."""
        rewards = np.stack(self.rewards)
        found = np.empty((len(self.deviations), len(rewards)))
        for k, (i, played) in enumerate(self.deviations):
            found[k] = np.tensordot(rewards[:, :, i], played, 3)
        owners = [i for i, _ in self.deviations]
        return found - np.stack(self.values)[:, owners].T

    def solve(self) -> None:
        """Optimise the weights, adding best responses as deviations until none is better."""
        count = len(self.policies)
        self.weights = np.full(count, 1.0 / count)
        while True:
            self.rounds += 1
            if self.deviations:
                self._program()
            mean = np.tensordot(self.weights, np.stack(self.rewards), 1)
            value = self.weights @ np.stack(self.values)
            reply, best = self.one.best(mean)
            gains = best - value
            largest = float(gains.max())
            if largest < self.gain:
                self.gain, self.best_weights = largest, self.weights
            level = self.level if self.deviations else -np.inf
            size = max(float(np.abs(mean).max()), 1e-300)
            new = np.flatnonzero(gains > level + 1e-9 * size)
            if not len(new) or self.one.horizon * self.one.states == 1:
                return
            chances = self.one.occupancies(reply)
            self.deviations += [(int(i), chances[:, i]) for i in new]

    def _program(self) -> None:
        from scipy.optimize import linprog

        rows = self._rows()
        size = max(float(np.abs(rows).max()), 1e-300)
        count, columns = rows.shape
        result = linprog(
            np.append(np.zeros(columns), 1.0),
            A_ub=np.hstack([rows / size, -np.ones((count, 1))]),
            b_ub=np.zeros(count),
            A_eq=np.append(np.ones(columns), 0.0)[None],
            b_eq=[1.0],
            bounds=[(0.0, None)] * columns + [(None, None)],
            method="highs",
            options=_TIGHT,
        )
        if result.x is None:
            raise RuntimeError(f"the linear program of {columns} policies failed: {result.message}")
        weights = np.maximum(result.x[:-1], 0.0)
        self.weights = weights / weights.sum()
        self.level = float(result.x[-1]) * size
        self.duals = np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)

    def reply_to_duals(self) -> np.ndarray:
        """Return the product policy in which each agent mixes its deviations by their duals."""
        one = self.one
        policy = np.tensordot(self.weights, np.stack(self.policies), 1)
        for i in range(one.agents):
            own = [(w, d) for w, (j, d) in zip(self.duals, self.deviations, strict=True) if j == i]
            total = sum(w for w, _ in own)
            if total <= 1e-12:
                continue
            played = np.sum([w * d for w, d in own], 0) / total
            here = played.sum(-1, keepdims=True)
            policy[:, i] = np.where(here > 1e-14, played / np.maximum(here, 1e-14), policy[:, i])
        return policy
