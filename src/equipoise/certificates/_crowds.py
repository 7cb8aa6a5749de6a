"""Gains in aggregative games: every deviation is evaluated at the aggregate that it would cause.

An agent that switches from action a to a' moves the aggregate by `scale * (f(a') - f(a))`, and its
reward is taken there. Agents of one row of the game who play the same action have the same gains,
so the work grows with the number of classes, not of agents. In a Markov game an agent faces a
finite-horizon decision process while all others follow the policy; backward induction solves it.

Rewards and transitions are user-supplied functions. They are taken as computed, at aggregates that
rounding can move; `upper` adds the effect of that, bounded by the game's Lipschitz constants.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.results import AggregativeCertificate
from equipoise.core.rounding import EPS, WEIGHTS
from equipoise.games import AggregativeGame, AggregativeMarkovGame, AggregativePolicy

#: Loss from products that underflow, for each step and state: 5e-324 each.
_LOST = 1e-318
#: Number of transition probabilities held at once.
_CHUNK = 20_000_000


def certify_aggregative(game: AggregativeGame, policy: Any, concept: str) -> AggregativeCertificate:
    """Return the gains of all agents of a normal-form game."""
    given = as_given(game, policy, (), concept)
    policy = given.policy
    x, moved = aggregate_of(game.influence, game.scale, policy, policy.actions)
    own = own_points(game.influence, game.scale, x, policy.rows, policy.actions)
    rewards = game.own_rewards(own)
    if not is_plain(policy.rows, game.types):
        rewards = rewards[policy.actions, policy.rows]
    value = np.take_along_axis(rewards, policy.actions[:, None].astype(np.int64), 1)[:, 0]
    gains = np.max(rewards, 1) - value
    slack = 2.0 * game.lipschitz * moved + 4 * EPS * np.abs(rewards).max(1)
    return given.certificate(gains, slack, value, "each deviation at its own aggregate")


def certify_aggregative_markov(
    game: AggregativeMarkovGame, policy: Any, concept: str
) -> AggregativeCertificate:
    """Return the gains of all agents from every starting state, and from each agent's worst one."""
    given = as_given(game, policy, (game.horizon, game.states), concept)
    policy = given.policy
    value, best, slack = (np.zeros((policy.classes, game.states)) for _ in range(3))
    size = np.zeros(policy.classes)
    for h in reversed(range(game.horizon)):
        stages = [_step(game, policy, h, s, value, best) for s in range(game.states)]
        stay, reply, sizes, moved = (np.stack(part, -1) for part in zip(*stages, strict=True))
        # Errors of one step: the two rewards and the transition probabilities, at aggregates that
        # are `moved` off; the sums over states; and probabilities that do not quite sum to one.
        off = 2.0 * game.lipschitz * moved + 8 * EPS * sizes
        chances = 2.0 * game.transition_lipschitz * moved + EPS * 2 * (game.states + WEIGHTS)
        slack = slack.max(-1, keepdims=True) + off + 2.0 * chances * size[:, None]
        size = size + sizes.max(-1)
        value, best = stay, reply
    method = "best responses by backward induction, each deviation at its own aggregate"
    return given.certificate((best - value).T, slack.T, value.T, method)


def _step(
    game: AggregativeMarkovGame,
    policy: AggregativePolicy,
    h: int,
    s: int,
    value: np.ndarray,
    best: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Value of the policy and of the best response to each class in one step and state, the largest
    absolute reward, and how far rounding can move the aggregate."""
    played = policy.actions[:, h, s].astype(np.int64)
    influence = game.influences(h, s)
    x, moved = aggregate_of(influence, game.scale, policy, played)
    own = own_points(influence, game.scale, x, policy.rows, played)
    plain = is_plain(policy.rows, game.types)
    rewards = game.own_rewards(h, s, own)
    rewards = rewards if plain else rewards[played, policy.rows]
    sizes, off = np.abs(rewards).max(1), np.full(len(rewards), moved)
    stay = np.take_along_axis(rewards, played[:, None], 1)[:, 0]
    stay = stay + value @ game.transitions(h, s, x)
    if h == game.horizon - 1:
        return stay, rewards.max(1), sizes, off
    replies = np.empty_like(rewards)
    size = max(1, _CHUNK // (rewards.shape[1] * game.states))
    table = None if plain else game.transitions(h, s, own)
    for start in range(0, len(rewards), size):
        part = slice(start, start + size)
        if table is None:
            chances = game.transitions(h, s, own[part])
        else:
            chances = table[played[part], policy.rows[part]]
        ahead = np.einsum("cas,cs->ca", chances, best[part])
        replies[part] = rewards[part] + ahead
    # Following the policy now and deviating later is one of the deviations.
    return stay, replies.max(1), sizes, off


@dataclass(frozen=True)
class Given:
    """A policy by classes, and each agent's class if agents were listed one by one."""

    policy: AggregativePolicy
    class_of: np.ndarray | None = None

    def certificate(
        self, gains: np.ndarray, slack: np.ndarray, value: np.ndarray, method: str
    ) -> AggregativeCertificate:
        """Return the certificate of gains that rounding changes by at most `slack`."""
        slack = slack + np.where(slack > 0.0, _LOST, 0.0)
        return AggregativeCertificate(
            class_gains=gains,
            class_upper=gains + slack,
            class_value=value,
            class_counts=self.policy.counts,
            class_rows=self.policy.rows,
            method=method,
            class_of=self.class_of,
            rounding=2.0 * float(slack.max()),
        )


def as_given(
    game: AggregativeGame | AggregativeMarkovGame,
    policy: Any,
    stages: tuple[int, ...],
    concept: str,
) -> Given:
    """Convert a policy from user input.

    It is an `AggregativePolicy`, the actions of every agent, or in a one-shot game the number of
    agents of each type who play each action.
    """
    if concept not in ("auto", "nash"):
        raise InputError("concept", f'"nash" for a {type(game).__name__}', repr(concept))
    if isinstance(policy, AggregativePolicy):
        given = Given(policy)
    else:
        array = np.asarray(policy)
        if not stages and array.shape == (game.types, *game.actions):
            counted = AggregativePolicy.of_plays(array)
            _check_policy(game, counted, stages)
            return Given(counted)
        meaning = "one action for each agent" + (", step and state" if stages else "")
        meaning += "" if stages else f"; or numbers of agents, {(game.types, *game.actions)}"
        checks.check_shape("policy", array, (game.agents, *stages), meaning)
        if array.dtype.kind not in "iu":
            raise InputError("policy", "whole numbers", f"dtype {array.dtype}")
        given = _from_agents(game.counts, array)
    _check_policy(game, given.policy, stages)
    return given


def _check_policy(
    game: AggregativeGame | AggregativeMarkovGame,
    policy: AggregativePolicy,
    stages: tuple[int, ...],
) -> None:
    """Reject a policy whose agents, actions, steps or states differ from those of the game."""
    if policy.actions.shape[1:] != stages:
        expected = f"actions of shape {('classes', *stages)}"
        raise InputError("policy", expected, policy.actions.shape)
    if policy.rows.max() >= game.types:
        raise InputError("policy", f"rows below {game.types}", policy.rows.max())
    low, high = policy.actions.min(), policy.actions.max()
    if low < 0 or high >= game.actions[0]:
        raise InputError("policy", f"actions from 0 to {game.actions[0] - 1}", f"{low} to {high}")
    present = np.bincount(policy.rows, weights=policy.counts, minlength=game.types)
    if not np.array_equal(present, game.counts):
        row = int(np.argmax(present != game.counts))
        expected = f"{game.counts[row]} agents of row {row}"
        raise InputError("policy", expected, f"{present[row]:.0f}")


def _from_agents(counts: np.ndarray, actions: np.ndarray) -> Given:
    """Merge agents of one row who play the same actions into one class."""
    if np.all(counts == 1):
        return Given(AggregativePolicy(np.arange(len(counts)), counts, actions))
    rows = np.repeat(np.arange(len(counts)), counts)
    if actions.ndim == 1 and actions.min() >= 0:
        width = int(actions.max()) + 1
        keys, class_of, size = np.unique(
            rows * width + actions, return_inverse=True, return_counts=True
        )
        return Given(AggregativePolicy(keys // width, size, keys % width), class_of)
    table = np.concatenate([rows[:, None], actions.reshape(len(actions), -1)], 1)
    classes, class_of, size = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    shaped = classes[:, 1:].reshape(-1, *actions.shape[1:])
    return Given(AggregativePolicy(classes[:, 0], size, shaped), class_of.ravel())


def aggregate_of(
    influence: np.ndarray, scale: float, policy: AggregativePolicy, played: np.ndarray
) -> tuple[np.ndarray, float]:
    """(d,): the aggregate when each class plays `played`, and how far rounding can move it."""
    chosen, counts = influence[policy.rows, played], policy.counts.astype(np.float64)
    size = scale * (counts @ np.abs(chosen)).max() + scale * np.abs(influence).max()
    return scale * (counts @ chosen), EPS * (len(counts) + 4) * float(size)


def is_plain(rows: np.ndarray, types: int) -> bool:
    """Whether there is one class for each row of the game, in order."""
    return len(rows) == types and bool((rows == np.arange(types)).all())


def own_points(
    influence: np.ndarray, scale: float, x: np.ndarray, rows: np.ndarray, played: np.ndarray
) -> np.ndarray:
    """Return the aggregate that each deviation would cause.

    The shape is (types, actions, d) if there is one class for each row; otherwise a leading axis
    holds the action left, (actions, types, actions, d). Where no agent plays that action, the
    current aggregate is returned: the other point cannot be reached, and rewards need not exist
    there.
    """
    if is_plain(rows, len(influence)):
        left = influence[np.arange(len(influence)), played][:, None]
        return x + scale * (influence - left)
    own = x + scale * (influence - np.swapaxes(influence, 0, 1)[:, :, None])
    idle = np.ones(own.shape[:2], bool)
    idle[played, rows] = False
    own[idle] = x
    return own
