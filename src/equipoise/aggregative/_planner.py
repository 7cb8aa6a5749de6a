"""Plans of whole games: backward over the steps, one stage for each state."""

from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.aggregative._cells import Stage, stage_of
from equipoise.aggregative._classes import Roster, alone, group_agents, places_of
from equipoise.aggregative._stages import solve_stage
from equipoise.aggregative._subroutine import Options, Plan, reward_range

#: Default tolerance, as a fraction of the range of rewards.
TOLERANCE = 1e-4

#: Largest number of shares before rounding, over types, actions, steps and states, that is kept.
_SHARES = 10_000_000

#: Largest number of profiles that are enumerated in a game of one stage.
PROFILES = 20_000

#: Limits for a stage of a Markov game: programs, and evaluations of gains to polish it.
_STAGE, _POLISH = 40, 60


class Planner:
    """Plans backward over the steps, one stage for each state; a normal form is one stage.

    This is Algorithm 2 of the paper (Aggre-BI) or, with `backward=False`, Algorithm 1 (state-wise).

    With `weights`, one for each group of agents, welfare is the weighted sum of the groups' mean
    values, and `by_group` contains these values by starting state. Stages of a Markov game may
    leave the gains that Lemma A allows for the number of agents or, with `strict`, only their share
    of the tolerance.
    """

    def __init__(
        self,
        game: Any,
        worth: np.ndarray | None,
        options: Options,
        backward: bool,
        tolerance: float | None,
        weights: np.ndarray | None = None,
        *,
        strict: bool = False,
    ):
        self.game, self.worth, self.backward = game, worth, backward
        # A user's function receives the numbers of agents by row of the game.
        custom = callable(options.objective)
        self.groups = groups = alone(game.counts) if custom else group_agents(game, worth)
        self.importance = None if weights is None else weights * groups.counts.sum() / groups.counts
        places, actions = places_of(game), game.actions[0]
        shape = horizon, states = (game.horizon, game.states) if places[0] else (1, 1)
        self.roster = Roster(groups, horizon, states, actions)
        self.aggregate = np.zeros((*shape, game.dimensions))
        #: (horizon + 1, states): value to the mean agent, and mean welfare, from each step on.
        self.value, self.welfare = np.zeros((2, horizon + 1, states))
        #: (horizon + 1, states): upper bound on the welfare of equilibria from each step on.
        self.possible = np.zeros((horizon + 1, states))
        #: (horizon, states): bounds on gains, and ranges of rewards at some reachable aggregates.
        self.bounds, self.ranges = np.zeros((2, *shape))
        for h, s in np.ndindex(*shape):
            stage = stage_of(game, (h, s) if places[0] else (), groups)
            self.ranges[h, s] = reward_range(stage)
        if tolerance is None:
            tolerance = TOLERANCE * float(self.ranges.max(1).sum())
        self.tolerance = float(tolerance)
        own = tolerance if places == [()] else stage_tolerance(game, tolerance, strict=strict)
        programs = options.programs if len(places) == 1 else min(options.programs, _STAGE)
        self.options = replace(options, tolerance=own, programs=programs)
        more = {"profiles": PROFILES} if len(places) == 1 else {"polish": _POLISH}
        self.options = replace(self.options, **more)
        sizes = (*shape, len(groups.first), actions)
        #: (horizon, states, types, actions): shares before rounding; None for very many types.
        self.shares = np.zeros(sizes) if len(places) == 1 or np.prod(sizes) <= _SHARES else None
        self.plans: list[Plan] = []
        #: (states, groups): mean values of the groups from the last planned step on.
        self.by_group = np.zeros((states, 0 if weights is None else len(groups.first)))
        for h in reversed(range(horizon)):
            self._now = np.zeros_like(self.by_group)
            for s in range(states):
                self._plan(h, s, (h, s) if places[0] else ())
                if options.progress is not None:
                    done = {"stages": len(self.plans), "of": horizon * states}
                    options.progress(done | {"gain": self.plans[-1].gain})
            self.by_group = self._now

    def _plan(self, h: int, s: int, place: tuple[int, ...]) -> None:
        game, options, changes = self.game, self.options, {"importance": self.importance}
        if self.backward:
            later = self.welfare[h + 1]
            changes["ahead"] = lambda x: game.transitions(h, s, x) @ later
            changes["ahead_lipschitz"] = game.transition_lipschitz * float(np.ptp(later))
            if options.slack == "printed":
                left = game.horizon - 1 - h
                changes["lipschitz"] = game.lipschitz + game.transition_lipschitz * left
        self.stage = stage = stage_of(game, place, self.groups, self.worth, **changes)
        plan = solve_stage(stage, options)
        self.roster.assign(h, s, plan.plays)
        self.aggregate[h, s], self.bounds[h, s] = plan.aggregate, plan.bound
        if place and not np.isfinite(plan.bound):  # no bound from a cell: use the exact gain
            self.bounds[h, s] = plan.gain
        if self.shares is not None:
            self.shares[h, s] = plan.shares
        rewards = stage.rewards(plan.aggregate[None])[0]
        self.value[h, s] = (plan.plays * rewards).sum() / stage.agents
        plain = self.worth is None and self.importance is None
        self.welfare[h, s] = self.value[h, s] if plain else mean_worth(stage, plan.plays)
        if place:
            chances = game.transitions(h, s, plan.aggregate)
            # The stage's bound uses the welfare found for later steps, which may fall short.
            short = self.possible[h + 1] - self.welfare[h + 1]
            most = short.max() if options.maximise else short.min()
            self.possible[h, s] = plan.promise + most
            self.value[h, s] += chances @ self.value[h + 1]
            self.welfare[h, s] += chances @ self.welfare[h + 1]
            if self.importance is not None:
                self._now[s] = (plan.plays * rewards).sum(1) / stage.counts
                self._now[s] += chances @ self.by_group
        nothing = np.zeros((0, 0))  # saves memory: a million agents are stored once
        self.plans.append(replace(plan, plays=nothing, shares=nothing))

    def bound(self) -> float:
        """Lemma B: the sum of the stages' bounds, plus the effect of moving the transitions."""
        game, steps = self.game, len(self.bounds)
        moving = 0.0
        if steps > 1:
            spread = game.bounds[1] - game.bounds[0]
            moving = game.delta * game.transition_lipschitz * spread * steps * (steps - 1) / 2
        return float(self.bounds.max(1).sum() + moving)


def mean_worth(stage: Stage, plays: np.ndarray) -> float:
    """The mean welfare of a profile in its own stage."""
    x = stage.aggregate(plays)
    worth = stage.rewards(x[None])[0] if stage.welfare is None else stage.welfare
    return float((plays * stage.weighted(worth)).sum() / stage.agents)


def stage_tolerance(game: Any, tolerance: float, *, strict: bool = False) -> float:
    """The tolerance of one stage of a Markov game.

    Half is left for gains from moving the transitions. Unless `strict`, a stage may leave what
    Lemma A guarantees for this number of agents.
    """
    share = 0.5 * tolerance / game.horizon
    return share if strict else max(share, game.lipschitz * (game.dimensions + 1) * game.delta)
