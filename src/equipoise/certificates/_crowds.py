"""Gains in aggregative games: every deviation is evaluated at the aggregate that it would cause.

An agent that switches from action a to a' moves the aggregate by `scale * (f(a') - f(a))`, and its
reward is taken there. Agents of one row of the game who play the same action have the same gains,
so the work grows with the number of classes, not of agents. In a Markov game an agent faces a
finite-horizon decision process while all others follow the policy; backward induction solves it.

Rewards and transitions are user-supplied functions. They are taken as computed, at aggregates that
rounding can move; `upper` adds the effect of that, bounded by the game's Lipschitz constants.
"""

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.results import AggregativeCertificate
from equipoise.core.rounding import EPS, WEIGHTS
from equipoise.games import AggregativeGame, AggregativeMarkovGame, AggregativePolicy

#: Loss from products that underflow, for each step and state: 5e-324 each.
_LOST = 1e-318
#: Number of transition probabilities held at once.
_CHUNK = 20_000_000


def certify_aggregative(
    game: AggregativeGame, policy: AggregativePolicy, concept: str
) -> AggregativeCertificate:
    """Return the gains of all agents of a normal-form game."""
    _check_concept(game, concept)
    x, moved = aggregate_of(game.influence, game.scale, policy, policy.actions)
    own = own_points(game.influence, game.scale, x, policy.rows, policy.actions)
    rewards = game.own_rewards(own)
    if not is_plain(policy.rows, game.types):
        rewards = rewards[policy.actions, policy.rows]
    value = np.take_along_axis(rewards, policy.actions[:, None].astype(np.int64), 1)[:, 0]
    gains = np.max(rewards, 1) - value
    slack = 2.0 * game.lipschitz * moved + 4 * EPS * np.abs(rewards).max(1)
    return _certificate(policy, gains, slack, value, "each deviation at its own aggregate")


def certify_aggregative_markov(
    game: AggregativeMarkovGame, policy: AggregativePolicy, concept: str
) -> AggregativeCertificate:
    """Return the gains of all agents from every starting state, and from each agent's worst one."""
    _check_concept(game, concept)
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
    return _certificate(policy, (best - value).T, slack.T, value.T, method)


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


def _certificate(
    policy: AggregativePolicy, gains: np.ndarray, slack: np.ndarray, value: np.ndarray, method: str
) -> AggregativeCertificate:
    """Return the certificate of gains that rounding changes by at most `slack`."""
    slack = slack + np.where(slack > 0.0, _LOST, 0.0)
    return AggregativeCertificate(
        class_gains=gains,
        class_upper=gains + slack,
        class_value=value,
        class_counts=policy.counts,
        class_rows=policy.rows,
        method=method,
        class_of=policy.class_of,
        rounding=2.0 * float(slack.max()),
    )


def _check_concept(game: AggregativeGame | AggregativeMarkovGame, concept: str) -> None:
    if concept not in ("auto", "nash"):
        raise InputError("concept", f'"nash" for a {type(game).__name__}', repr(concept))


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
