"""Guarded players: a bound on the regret against any opponent, and learning that does not stop.

A frozen player may meet a game, a noise or an opponent that it was not trained for, and it stops
improving after the number of rounds it was trained on. `Guarded` adds two things to it.

**A safety net.** The policy played is a mixture of the active part's policy (the player or the
fallback) and of every single action, with the weights of EXP4-IX (Neu, 2015, Section 4):
exponential in the losses estimated by importance weighting. The actions start with a small share,
and gain weight only if they would have earned more. This bounds the regret against any opponent;
see `Guarded.regret_bound`.

**A relay.** The player is active for as many rounds as it was trained on, then the fallback takes
over. It starts from the player's mean policy over the last quarter of its rounds, with the step
sizes of a much later round until that round: large steps would undo what the player reached. If
the net outweighs the player in a game, the fallback takes over earlier, from scratch. After the
last of its rounds the player needs no context any more, and `equipoise.dynamics.play` drops it.

Differences from the paper: weights have a prior, the rates fall with the round so that the horizon
need not be known, and both start again when the fallback takes over.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from equipoise.core import InputError, checks
from equipoise.core.steps import collecting
from equipoise.dynamics import (
    OMD,
    Bandit,
    ContextLearner,
    Learner,
    Pair,
    PolicyLearner,
    Spec,
    explored_share,
)
from equipoise.incontext._players import Player, Players, check_one_pair

#: A fallback that receives a policy uses the step sizes of a round this many times the round of the
#: relay, until that round. Larger steps would undo what the player reached, and smaller steps would
#: learn too slowly. Found by search on games other than those of docs/theory/guarded-play.md.
HEAD_START = 48


class GuardState(eqx.Module):
    """State of a guarded player."""

    player: Any
    fallback: Any
    #: Number of rounds played, and the number played when the fallback took over.
    round: Int[Array, ""]
    since: Int[Array, ""]
    #: Whether the fallback is active, and whether it started from scratch.
    relieved: Array
    fresh: Array
    #: Estimated losses of the active part and of every action since the part became active.
    losses: Float[Array, " experts"]
    #: Sum of the player's policies over the last quarter of its rounds.
    late: Float[Array, " actions"]


class GuardedPlayer(ContextLearner):
    """One seat of `Guarded`. Its policy includes exploration.

    **Example**

    >>> import equipoise as eq
    >>> row, _ = eq.incontext.Guarded(eq.incontext.load("iid3")).learners()
    >>> row.rounds, row.sees.__name__
    (1024, 'Bandit')
    """

    #: The frozen player; None once it has played all its rounds.
    player: Player | None
    #: The learner that takes over.
    fallback: Learner
    #: Number of rounds for which the player is active.
    rounds: int = eqx.field(static=True)
    #: Initial share of the single actions in the weights.
    net: float = eqx.field(static=True)
    exploration: None = None
    fading: bool = eqx.field(static=True, default=False)

    def init(self, spec: Spec) -> GuardState:
        """Return the first state: the player is active and there are no losses."""
        room = min(spec.rounds, self.rounds) or self.rounds
        none, zero = jnp.zeros((), bool), jnp.int32(0)
        return GuardState(
            player=None if self.player is None else self.player.init(replace(spec, rounds=room)),
            fallback=self.fallback.init(spec),
            round=zero,
            since=zero,
            relieved=none,
            fresh=none,
            losses=jnp.zeros(spec.actions + 1),
            late=jnp.zeros(spec.actions),
        )

    def policy(self, state: GuardState) -> Array:
        """Return the policy of the next round, including exploration and the net."""
        advice, weights = self._advice(state), self._weights(state)
        return weights[0] * advice + weights[1:]

    def update(self, state: GuardState, feedback: Bandit) -> GuardState:
        """Estimate the losses, update the active part, and let the fallback take over if due."""
        with collecting(active=False):  # steps are mapped over games and cannot leave the loop
            return self._updated(state, feedback)

    def _updated(self, state: GuardState, feedback: Bandit) -> GuardState:
        t, action = feedback.round, feedback.action
        advice, policy = self._advice(state), self.policy(state)
        here = jax.nn.one_hot(action, policy.shape[0])
        rate = net_rate(t - state.since, policy.shape[0])
        loss = (1.0 - feedback.reward) / (policy[action] + rate / 2.0)
        losses = state.losses + loss * jnp.concatenate([advice[action][None], here])
        active, player, late = self.player, state.player, state.late
        if active is not None:
            # All games are in the same round, so after its last round the player is not evaluated.
            player = jax.lax.cond(
                t <= self.rounds,
                lambda: active.update(state.player, feedback),
                lambda: state.player,
            )
            quarter = (t > 0.75 * self.rounds) & (t <= self.rounds)
            late = late + jnp.where(quarter, active.policy(state.player), 0.0)
        # The fallback is updated from the first round on, so that it knows the scale of rewards.
        ahead = HEAD_START if isinstance(self.fallback, PolicyLearner) else 1
        small_steps = jnp.maximum(t, ahead * self.rounds)
        clock = jnp.where(state.fresh, t - state.since, jnp.where(state.relieved, small_steps, t))
        fallback = self.fallback.update(state.fallback, Bandit(clock, action, feedback.reward))
        after = GuardState(
            player, fallback, t, state.since, state.relieved, state.fresh, losses, late
        )
        failed = self._weights(after)[0] < 0.5
        due = ~state.relieved & (failed | (t >= self.rounds))
        fallback = _where(due & ~failed, self._continued(fallback, late), fallback)
        fallback = _where(due & failed, self.fallback.init(Spec(policy.shape[0])), fallback)
        return GuardState(
            player=player,
            fallback=fallback,
            round=t,
            since=jnp.where(due, t, state.since),
            relieved=state.relieved | due,
            fresh=state.fresh | (due & failed),
            losses=jnp.where(due, 0.0, losses),
            late=late,
        )

    def within(self, rounds: int) -> "GuardedPlayer":
        """Return this player with attention limited to `rounds` rounds of the inner player."""
        if self.player is None:
            return self
        return replace(self, player=self.player.within(min(rounds, self.rounds)))

    @property
    def context_rounds(self) -> int | None:
        """Number of rounds of the inner player: the fallback needs no context."""
        return None if self.player is None else self.rounds

    def without_context(self, state: GuardState) -> tuple["GuardedPlayer", GuardState]:
        """Return the fallback and the net alone, which cost little per round."""
        return replace(self, player=None), eqx.tree_at(lambda s: s.player, state, None)

    def grow(self, state: GuardState, rounds: int) -> GuardState:
        """Return the state with room for `rounds` rounds, at most those that the player plays."""
        if self.player is None:
            return state
        player = self.player.grow(state.player, min(rounds, self.rounds))
        return eqx.tree_at(lambda s: s.player, state, player)

    def fitted(self, actions: int, states: int | None = None) -> "GuardedPlayer":
        """Return this player for games of another size."""
        return self if self.player is None else replace(self, player=self.player.fitted(actions))

    def _advice(self, state: GuardState) -> Array:
        """Return the policy of the active part."""
        if self.player is None:
            return self.fallback.policy(state.fallback)
        own = self.player.policy(state.player)
        share = 0.0
        if self.player.exploration is not None:
            share = explored_share(self.player.exploration, state.round + 1)
        own = (1.0 - share) * own + share / own.shape[0]
        return jnp.where(state.relieved, self.fallback.policy(state.fallback), own)

    def _weights(self, state: GuardState) -> Array:
        """Return the weights of the active part (first) and of each single action."""
        actions = state.late.shape[0]
        rate = net_rate(state.round + 1 - state.since, actions)
        prior = jnp.full(actions + 1, self.net / actions).at[0].set(1.0 - self.net)
        return jax.nn.softmax(jnp.log(prior) - rate * state.losses)

    def _continued(self, state: Any, late: Array) -> Any:
        """Return the fallback's state with the player's policy in it, if its state has a policy."""
        if not isinstance(self.fallback, PolicyLearner):
            return state
        policy = late / jnp.maximum(late.sum(), 1e-9)
        held = eqx.tree_at(lambda s: s.policy, state, policy)
        if isinstance(self.fallback, OMD):
            held = eqx.tree_at(lambda s: s.anchor, held, self.fallback.anchor.init(policy))
        return held


class Guarded(Pair):
    """Players with a regret bound in any game, and a fallback learner that takes over from them.

    For `rounds` rounds the players play, mixed with a safety net of single actions; then the
    fallback continues from the policy they reached. In a game in which the net outweighs the
    player, the fallback takes over at once. Whatever the opponent does, the regret of a seat is at
    most `regret_bound`. `equipoise.dynamics.play` and `equipoise.Online` accept guarded players
    wherever they accept players. The bound needs rewards in a known range: pass `reward_range` to
    `Online`, which otherwise scales rewards by the range seen so far.

    **Arguments**

    - `players`: players of matrix games.
    - `fallback`: a learner of matrix games under bandit feedback.
    - `rounds`: number of rounds that the players play. Default: 1,024.
    - `net`: initial share of the safety net.

    **Example**

    >>> import equipoise as eq
    >>> guarded = eq.incontext.Guarded(eq.incontext.load("iid3"), rounds=16)
    >>> games = eq.games.families.uniform(actions=3).sample(16, key=1)
    >>> trace = eq.dynamics.play(games, guarded, guarded, rounds=64, key=2)
    >>> trace.last[0].shape, bool((trace.regret[-1] < guarded.regret_bound(64, 3)).all())
    ((16, 3), True)
    """

    players: Players
    fallback: Learner
    rounds: int = eqx.field(static=True)
    net: float = eqx.field(static=True)

    def __init__(
        self,
        players: Players,
        fallback: Learner | None = None,
        *,
        rounds: int = 1024,
        net: float = 0.001,
    ):
        check_one_pair(players)
        fallback = OMD() if fallback is None else fallback
        if players.states is not None:
            raise InputError("players", "players of matrix games", "players of Markov games")
        if not isinstance(fallback, Learner) or fallback.sees is not Bandit:
            expected = "a learner of matrix games under bandit feedback"
            raise InputError("fallback", expected, type(fallback).__name__)
        checks.check_range("net", net, 0.0, 1.0, low_open=True, high_open=True)
        self.players, self.fallback = players, fallback
        self.rounds = checks.check_count("rounds", rounds)
        self.net = float(net)

    def learners(self) -> tuple[GuardedPlayer, GuardedPlayer]:
        """Return the row player and the column player."""
        row, column = (
            GuardedPlayer(player=player, fallback=self.fallback, rounds=self.rounds, net=self.net)
            for player in self.players.learners()
        )
        return row, column

    def regret_bound(self, rounds: int, actions: int, confidence: float = 0.99) -> float:
        """Upper bound on the regret of a seat against any opponent, at this confidence.

        The external regret is the reward of the best single action over all `rounds` rounds, minus
        the reward earned, with rewards in [0, 1]. See docs/theory/guarded-play.md for the proof.
        """
        checks.check_count("rounds", rounds)
        checks.check_count("actions", actions, at_least=2)
        checks.check_range("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
        # Two phases, each with half of the failure probability; equal lengths are the worst case.
        sure, prior = np.log(2.0 * (actions + 1) / (1.0 - confidence)), np.log(actions / self.net)
        whole, scale = float(actions * rounds), np.log(actions + 1.0)
        phase = prior * np.sqrt(2.0 * whole / scale) + sure * np.sqrt(4.0 * whole / scale)
        return float(2.0 * (phase + np.sqrt(whole * scale / 2.0) + sure))


def net_rate(t: Any, actions: int) -> Array:
    """Return the learning rate of the weights in the `t`-th round of a phase.

    >>> round(float(net_rate(1, 3)), 3)
    0.34
    """
    count = jnp.maximum(jnp.asarray(t, jnp.float32), 1.0)
    return 0.5 * jnp.sqrt(jnp.log(actions + 1.0) / (actions * count))


def _where(condition: Any, one: Any, other: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)
