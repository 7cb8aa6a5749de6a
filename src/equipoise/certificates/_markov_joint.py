"""Gains in Markov games of n players, of policies that may depend on the step or be correlated."""

from typing import Any

import numpy as np

from equipoise.certificates._tables import as_profile, independent
from equipoise.core import InputError
from equipoise.core.deviations import joint_markov_values
from equipoise.core.results import TableCertificate
from equipoise.games import JointPolicy, MarkovGame


def certify_joint_markov(game: MarkovGame, policy: Any, concept: str) -> TableCertificate:
    """Gains of every player in every state of the first step, and of the worst state for each."""
    if game.batch_shape:
        raise InputError(
            "policy",
            "one strategy (..., states, actions) a player without steps for a batch of games",
            "a policy that depends on the step or is correlated",
        )
    if concept not in ("auto", "nash", "cce", "ce"):
        raise ValueError(f"concept: expected auto, nash, cce or ce, found {concept!r}")
    correlated = isinstance(policy, JointPolicy)
    if concept == "nash" and correlated:
        policy = independent(policy)
    if concept == "auto":
        concept = "ce" if correlated else "nash"
    joint = _as_joint(game, policy)
    finite = game.horizon is not None
    value, state_gains, slack, rounding = joint_markov_values(
        game.rewards(),
        np.asarray(game.transition, np.float64),
        joint,
        discount=game.discount,
        finite=finite,
        concept=concept,
    )
    state_upper = state_gains + slack
    worst = state_upper.argmax(0)[None]
    how = "backward induction" if finite else "policy iteration"
    return TableCertificate(
        gains=state_gains.max(0),
        upper=state_upper.max(0),
        value=value,
        method=f"best responses by {how}, worst state",
        concept=concept,
        state_gains=state_gains,
        state_upper=state_upper,
        rounding=np.take_along_axis(rounding, worst, 0)[0],
    )


def _as_joint(game: MarkovGame, policy: Any) -> np.ndarray:
    """(steps, states, A_1, ..., A_n), checked; a stationary policy is one step, or all of them."""
    states, players = game.states, game.players
    if not isinstance(policy, JointPolicy):
        shapes = [(states, actions) for actions in game.actions]
        names = [f"([steps,] states, actions) of player {i}" for i in range(players)]
        profile = as_profile(policy, shapes, names)
        policy = JointPolicy.of(np.broadcast_arrays(*profile) if players == 1 else tuple(profile))
    joint = np.asarray(policy.joint)
    joint = joint[None] if joint.ndim == 1 + players else joint
    if joint.ndim != 2 + players or joint.shape[1:] != (states, *game.actions):
        raise InputError(
            "policy",
            f"shape (steps, states, actions...) = (..., {states}, "
            f"{', '.join(map(str, game.actions))}), or without steps",
            joint.shape,
        )
    if game.horizon is None:
        return joint
    if len(joint) not in (1, game.horizon):
        raise InputError("policy", f"{game.horizon} steps, or one for all", len(joint))
    return np.broadcast_to(joint, (game.horizon, *joint.shape[1:]))
