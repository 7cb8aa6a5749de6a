"""Players with a guard: a bound on their regret against any opponent, and no end to their learning.

A frozen player may meet a game, a noise or an opponent that it was not trained for, and it stops
improving where its training ended. `Guarded` puts two things around it.

**A safety net.** The policy played is a mixture of what the part on duty proposes and of every
single action, with the weights of EXP4-IX (Neu, 2015, Section 4): exponential in the losses
estimated by importance weighting. The actions begin with a small share, and gain weight only
where they would have earned more. This bounds the regret against any opponent; see
`Guarded.regret_bound`.

**A relay.** The player is on duty for as long as it was trained, then the fallback takes over. It
begins with the player's mean policy of the last quarter of its rounds, and with the steps of a much
later round: large steps would undo what the player reached. In a game in which the net has more
weight than the player it takes over earlier, from scratch.

What differs from print: weights have a prior, the rates fall with the round so that the horizon
need not be known, and both begin anew when the fallback takes over.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from equipoise.core import InputError, checks
from equipoise.core.fusion import collecting
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

#: A fallback that is given a policy goes on with the steps of a round that is so many times that of
#: the relay: mirror descent needs about as many rounds for a policy as good.
HEAD_START = 16


class GuardState(eqx.Module):
    """What a guarded player remembers."""

    player: Any
    fallback: Any
    #: Rounds played, and those played when the fallback took over.
    round: Int[Array, ""]
    since: Int[Array, ""]
    #: Whether the fallback is on duty, and whether it began from scratch.
    relieved: Array
    fresh: Array
    #: Estimated losses of the part on duty and of every action, since it is on duty.
    losses: Float[Array, " experts"]
    #: The sum of the player's policies over the last quarter of its rounds.
    late: Float[Array, " actions"]


class GuardedPlayer(ContextLearner):
    """One seat of `Guarded`; exploration is part of its policy.

    **Example**

    >>> import equipoise as eq
    >>> row, _ = eq.incontext.Guarded(eq.incontext.load("iid3")).learners()
    >>> row.rounds, row.sees.__name__
    (1024, 'Bandit')
    """

    player: Player
    fallback: Learner
    #: Rounds for which the player is on duty.
    rounds: int = eqx.field(static=True)
    #: First share of the actions in the weights.
    net: float = eqx.field(static=True)
    exploration: None = None
    fading: bool = eqx.field(static=True, default=False)

    def init(self, spec: Spec) -> GuardState:
        """The player on duty, no losses."""
        room = min(spec.rounds, self.rounds) or self.rounds
        none, zero = jnp.zeros((), bool), jnp.int32(0)
        return GuardState(
            player=self.player.init(replace(spec, rounds=room)),
            fallback=self.fallback.init(spec),
            round=zero,
            since=zero,
            relieved=none,
            fresh=none,
            losses=jnp.zeros(spec.actions + 1),
            late=jnp.zeros(spec.actions),
        )

    def policy(self, state: GuardState) -> Array:
        """What is played in the next round, exploration and net included."""
        advice, weights = self._advice(state), self._weights(state)
        return weights[0] * advice + weights[1:]

    def update(self, state: GuardState, feedback: Bandit) -> GuardState:
        """Estimate the losses, inform the part on duty, and relieve the player if it is time."""
        with collecting(active=False):  # steps are mapped over games, and cannot leave the loop
            return self._updated(state, feedback)

    def _updated(self, state: GuardState, feedback: Bandit) -> GuardState:
        t, action = feedback.round, feedback.action
        advice, policy = self._advice(state), self.policy(state)
        here = jax.nn.one_hot(action, policy.shape[0])
        rate = net_rate(t - state.since, policy.shape[0])
        loss = (1.0 - feedback.reward) / (policy[action] + rate / 2.0)
        losses = state.losses + loss * jnp.concatenate([advice[action][None], here])
        # All games are in the same round: beyond its training the player costs nothing.
        player = jax.lax.cond(
            t <= self.rounds,
            lambda: self.player.update(state.player, feedback),
            lambda: state.player,
        )
        quarter = (t > 0.75 * self.rounds) & (t <= self.rounds)
        late = state.late + jnp.where(quarter, self.player.policy(state.player), 0.0)
        # The fallback watches from the first round on, and so knows the scale of the rewards.
        ahead = HEAD_START if isinstance(self.fallback, PolicyLearner) else 1
        late_steps = t + (ahead - 1) * self.rounds
        clock = jnp.where(state.fresh, t - state.since, jnp.where(state.relieved, late_steps, t))
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
        """The same: the player looks back on its own rounds alone."""
        return replace(self, player=self.player.within(min(rounds, self.rounds)))

    def grow(self, state: GuardState, rounds: int) -> GuardState:
        """Room for so many rounds of the player, and no more than it plays."""
        player = self.player.grow(state.player, min(rounds, self.rounds))
        return eqx.tree_at(lambda s: s.player, state, player)

    def fitted(self, actions: int) -> "GuardedPlayer":
        """The same in a game of another size."""
        return replace(self, player=self.player.fitted(actions))

    def _advice(self, state: GuardState) -> Array:
        """What the part on duty proposes."""
        own = self.player.policy(state.player)
        share = 0.0
        if self.player.exploration is not None:
            share = explored_share(self.player.exploration, state.round + 1)
        own = (1.0 - share) * own + share / own.shape[0]
        return jnp.where(state.relieved, self.fallback.policy(state.fallback), own)

    def _weights(self, state: GuardState) -> Array:
        """Weights of the part on duty (first) and of each fixed action."""
        actions = state.late.shape[0]
        rate = net_rate(state.round + 1 - state.since, actions)
        prior = jnp.full(actions + 1, self.net / actions).at[0].set(1.0 - self.net)
        return jax.nn.softmax(jnp.log(prior) - rate * state.losses)

    def _continued(self, state: Any, late: Array) -> Any:
        """The fallback's state with the player's policy in it, if it holds one."""
        if not isinstance(self.fallback, PolicyLearner):
            return state
        policy = late / jnp.maximum(late.sum(), 1e-9)
        held = eqx.tree_at(lambda s: s.policy, state, policy)
        if isinstance(self.fallback, OMD):
            held = eqx.tree_at(lambda s: s.anchor, held, self.fallback.anchor.init(policy))
        return held


class Guarded(Pair):
    """Players that are safe in any game: a bound on their regret, and a learner to go on with.

    For `rounds` rounds the players play, mixed with a safety net of single actions; then the
    fallback goes on from the policy they reached. In a game in which the net outweighs the player,
    the fallback takes over at once. Whatever the opponent does, the regret of a seat is at most
    `regret_bound`. Guarded players can be given to `equipoise.dynamics.play` and `equipoise.Online`
    wherever players can.

    **Arguments**

    - `players`: players of matrix games.
    - `fallback`: a learner of matrix games under bandit feedback.
    - `rounds`: for how many rounds the players play; by default 1,024.
    - `net`: the share of the safety net at first.

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
        """The row player and the column player."""
        row, column = (
            GuardedPlayer(player=player, fallback=self.fallback, rounds=self.rounds, net=self.net)
            for player in self.players.learners()
        )
        return row, column

    def regret_bound(self, rounds: int, actions: int, confidence: float = 0.99) -> float:
        """Regret of a seat against any opponent: its bound, with this probability.

        External regret: what the best single action would have earned more over all `rounds`
        rounds, rewards in [0, 1]. See docs/theory/guarded-play.md for the proof.
        """
        checks.check_count("rounds", rounds)
        checks.check_count("actions", actions, at_least=2)
        checks.check_range("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
        # Two phases, each with half of what may fail; equal lengths are the worst case.
        sure, prior = np.log(2.0 * (actions + 1) / (1.0 - confidence)), np.log(actions / self.net)
        whole, scale = float(actions * rounds), np.log(actions + 1.0)
        phase = prior * np.sqrt(2.0 * whole / scale) + sure * np.sqrt(4.0 * whole / scale)
        return float(2.0 * (phase + np.sqrt(whole * scale / 2.0) + sure))


def net_rate(t: Any, actions: int) -> Array:
    """The rate of the weights in the `t`-th round of a phase.

    >>> round(float(net_rate(1, 3)), 3)
    0.34
    """
    count = jnp.maximum(jnp.asarray(t, jnp.float32), 1.0)
    return 0.5 * jnp.sqrt(jnp.log(actions + 1.0) / (actions * count))


def _where(condition: Any, one: Any, other: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)
