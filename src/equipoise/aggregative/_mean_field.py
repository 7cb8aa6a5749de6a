"""Mean-field limits: mixed policies of types with infinitely many agents, and the way back.

In the limit a single agent does not move the aggregate. An equilibrium is then a mix of actions for
each type such that, at the aggregate of the mix, every action played is a best response. Such a
policy, from any library, can be converted to the game with n agents: agents are assigned to actions
by rank, as evenly as whole agents allow, and the result is certified.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise.aggregative._cells import MOST_CELLS, Stage, stage_of
from equipoise.aggregative._classes import alone, places_of, policy_of
from equipoise.aggregative._replies import Replies
from equipoise.aggregative._structure import project, whole_agents
from equipoise.aggregative._subroutine import Options, seek
from equipoise.core import InputError, checks
from equipoise.core.deadline import Deadline
from equipoise.core.errors import named_arguments
from equipoise.games import AggregativeGame, AggregativeMarkovGame, AggregativePolicy

#: Coordinates up to which cells are halved, and the largest number of evaluations by replies.
_FEW, _REPLIES = 1, 5000


@dataclass(frozen=True)
class MeanField:
    """An equilibrium with infinitely many agents: a mixed policy for each type.

    **Example**

    >>> import equipoise as eq
    >>> limit = eq.aggregative.mean_field(eq.games.load("demand-response"))
    >>> limit.policy.shape, limit.aggregate.shape
    ((8, 3, 3, 3), (8, 3, 1))
    """

    #: Probabilities, (types, actions) or (horizon, states, types, actions).
    policy: np.ndarray
    #: The aggregate, (d,) or (horizon, states, d).
    aggregate: np.ndarray
    #: Largest gain in one step of an agent who does not move the aggregate.
    gain: float


@named_arguments
def mean_field(
    game: AggregativeGame | AggregativeMarkovGame, *, precision: float = 1e-6
) -> MeanField:
    """Return an equilibrium of the limit in which the number of agents of each type grows.

    Cells are halved until their side is `precision` times the width of the reachable aggregates,
    and the mix of the cell's program is returned without rounding. With several coordinates there
    are many cells: very many agents play best replies instead, and cells are halved only if that
    does not end at an equilibrium. By Lemma B the steps of a Markov game can be solved one
    by one.

    **Example**

    >>> import equipoise as eq
    >>> limit = eq.aggregative.mean_field(eq.games.load("el-farol", agents=10))
    >>> limit.policy.round(4).tolist(), bool(limit.gain < 1e-5)
    ([[0.4, 0.6]], True)
    """
    checks.check_range("precision", precision, 0.0, 1.0, low_open=True)
    limits = [_limit(stage_of(game, place), precision) for place in places_of(game)]
    policy, aggregate, gains = (np.stack(values) for values in zip(*limits, strict=True))
    if isinstance(game, AggregativeGame):
        return MeanField(policy[0], aggregate[0], float(gains[0]))
    shape = (game.horizon, game.states)
    policy = policy.reshape(*shape, *policy.shape[1:])
    return MeanField(policy, aggregate.reshape(*shape, -1), float(gains.max()))


def _limit(stage: Stage, precision: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares of actions, their aggregate, and the largest gain of an agent who moves nothing."""
    width = float((stage.high - stage.low).max())
    spacing = 0.05 * width or 1.0
    if stage.dimensions > _FEW:
        limit = _by_replies(stage, precision * width)
        # Cells of this size could leave twice this gain.
        if limit[2] <= 2.0 * stage.lipschitz * precision * width:
            return limit
        if np.prod(np.maximum((stage.high - stage.low) / spacing, 1.0)) > MOST_CELLS:
            expected = f"a precision that best replies reach in {stage.dimensions} coordinates"
            found = f"{precision:g}; they end with gains of {limit[2]:.2g}"
            raise InputError("precision", expected, found)
    # With this influence of one agent, `seek` halves cells down to the precision.
    small = replace(stage, delta=4.0 * precision * width)
    return _with_gain(stage, seek(small, Options(spacing=spacing)).shares)


def _with_gain(stage: Stage, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares of actions with their aggregate and largest gain in the limit."""
    x = stage.scale * np.einsum("t,ta,tad->d", stage.counts, shares, stage.influence)
    rewards = stage.rewards(x[None])[0]
    return shares, x, (rewards.max(1) - (shares * rewards).sum(1)).max()


def _by_replies(stage: Stage, distance: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best shares that best replies reach when no agent moves the aggregate by much.

    Agents start from the best responses to the uniform policy and, if they cycle from there, from
    the equilibrium of a monotone game.
    """
    one = distance / (stage.dimensions + 1)  # rounding d agents moves the aggregate no further
    # Numbers of agents must stay exact in float64.
    more = int(min(max(np.ceil(stage.delta / one), 1), 2**53 // stage.counts.max()))
    many = replace(
        stage, counts=stage.counts * more, scale=stage.scale / more, delta=stage.delta / more
    )
    target = stage.lipschitz * distance
    replies = Replies(many)
    replies.allow(_REPLIES)
    best = _with_gain(stage, replies.improve(replies.middle(), target).plays / many.counts[:, None])
    if best[2] > 2.0 * target:
        shares = project(stage, Deadline(), 0.1 * target, rounds=_REPLIES)
        replies.allow(_REPLIES)
        plays = replies.improve(whole_agents(shares, many.counts), target).plays
        others = (_with_gain(stage, one) for one in (shares, plays / many.counts[:, None]))
        best = min((best, *others), key=lambda limit: limit[2])
    return best


def from_mean_field(
    game: AggregativeGame | AggregativeMarkovGame, policy: Any
) -> AggregativePolicy:
    """Convert a mixed policy to the pure policy of n agents that is nearest to it.

    `policy` is an array of probabilities as mean-field libraries return it: (actions,) or
    (types, actions) for a normal form, (horizon, states, actions) or (horizon, states, types,
    actions) for a Markov game. Without types, all agents play the same mix. Within each type agents
    are assigned to actions by rank, so that the number of agents on each action is off by less than
    one. `certify` then computes the exact gains in the game of n agents.

    **Example**

    >>> import equipoise as eq
    >>> bar = eq.games.load("el-farol", agents=11)
    >>> pure = eq.aggregative.from_mean_field(bar, [0.4, 0.6])
    >>> pure.plays(1, 2).tolist(), round(float(eq.certify(bar, pure).max_gain), 4)
    ([[4, 7]], 0.0327)
    """
    mixed = _as_mixed(game, policy)
    if np.all(game.counts == 1):
        mixed = _round_alike(mixed)
    return policy_of(alone(game.counts), whole_numbers(mixed, game.counts))


def _as_mixed(game: AggregativeGame | AggregativeMarkovGame, policy: Any) -> np.ndarray:
    """Probabilities by (step, state,) type and action; without types, all play the same mix."""
    stages = () if isinstance(game, AggregativeGame) else (game.horizon, game.states)
    mixed = np.asarray(checks.as_float_array("policy", policy), np.float64)
    full = (*stages, game.types, game.actions[0])
    if mixed.shape == (*stages, full[-1]) and mixed.shape != full:
        mixed = np.broadcast_to(mixed[..., None, :], full)
    checks.check_shape("policy", mixed, full, "probabilities by (step, state,) type and action")
    checks.check_probabilities("policy", mixed)
    return mixed


def _round_alike(mixed: np.ndarray) -> np.ndarray:
    """Spread each mix over the agents who share it, for agents given one by one.

    A single agent cannot mix. A group of agents with the same mix can, as a type would.
    """
    flat = mixed.reshape(-1, *mixed.shape[-2:])
    out = np.zeros_like(flat)
    for stage, shares in enumerate(flat):
        _, group, size = np.unique(shares, axis=0, return_inverse=True, return_counts=True)
        group = group.ravel()
        rows = np.argsort(group, kind="stable")
        first = rows[np.concatenate([[0], np.cumsum(size)[:-1]])]
        plays = whole_numbers(shares[first], size)
        actions = np.repeat(np.tile(np.arange(plays.shape[1]), len(plays)), plays.ravel())
        out[stage, rows, actions] = 1.0
    return out.reshape(mixed.shape)


def whole_numbers(shares: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(..., types, actions): numbers of agents, rounded by the largest remainders.

    >>> whole_numbers(np.array([[0.4, 0.6]]), np.array([11])).tolist()
    [[4, 7]]
    """
    exact = shares * counts[:, None]
    plays = np.floor(exact + 1e-9).astype(np.int64)
    missing = counts - plays.sum(-1)
    rank = np.argsort(np.argsort(-(exact - plays), axis=-1, kind="stable"), axis=-1)
    return plays + (rank < missing[..., None])


@named_arguments
def sampled_gain(
    game: AggregativeGame, policy: Any, *, draws: int = 200, key: int = 0
) -> tuple[float, float]:
    """Estimate the largest gain when every agent draws its action independently.

    Returns the estimate and its standard error. The aggregate is then random, and the gain of a
    deviation is a mean over `draws` simulations: an estimate, not a certificate.

    **Example**

    >>> import equipoise as eq
    >>> bar = eq.games.load("el-farol", agents=1000)
    >>> gain, error = eq.aggregative.sampled_gain(bar, [0.4, 0.6])
    >>> gain < 0.01, error < 0.01
    (True, True)
    """
    draws = checks.check_count("draws", draws, 2)
    mixed = _as_mixed(game, policy)
    rng = np.random.default_rng(key)
    rows = np.arange(game.types)
    short = np.zeros((draws, game.types, game.actions[0]))
    for k in range(draws):
        plays = rng.multinomial(game.counts, mixed)
        x = game.scale * np.einsum("ta,tad->d", plays, game.influence)
        # Take one agent of each type: apart from its own draw, the others follow the mix.
        drawn = (rng.random((game.types, 1)) * game.counts[:, None] >= plays.cumsum(1)).sum(1)
        own = x + game.scale * (game.influence - game.influence[rows, drawn][:, None])
        rewards = game.own_rewards(own)
        short[k] = rewards - (mixed * rewards).sum(1, keepdims=True)
    mean = short.mean(0)
    best = np.unravel_index(int(mean.argmax()), mean.shape)
    spread = short[(slice(None), *best)].std(ddof=1)
    return float(mean[best]), float(spread / np.sqrt(draws))
