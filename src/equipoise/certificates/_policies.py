"""Policies as users give them, checked against the game they are for."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.core import checks


def as_profile(policy: Any, shapes: Sequence[tuple[int, ...]], names: Sequence[str]) -> list[Any]:
    """Check a profile of one array per player and return it as a list of float64 arrays.

    `shapes` are the trailing axes that each player's array must have; leading axes are batch
    axes, broadcast against the game's later. A profile with a player missing is refused: its
    gains would mean nothing.
    """
    expectation = f"policy: expected one array of probabilities per player, {len(shapes)} in all"
    if not isinstance(policy, list | tuple):
        raise ValueError(f"{expectation}, as a tuple or list; found {type(policy).__name__}")
    if len(policy) != len(shapes):
        raise ValueError(f"{expectation}; found {len(policy)}")
    profile = []
    for i, (part, shape, meaning) in enumerate(zip(policy, shapes, names, strict=True)):
        name = f"policy[{i}]"
        if part is None:
            raise ValueError(f"{name}: expected probabilities of shape {shape}, found None")
        array = checks.as_float_array(name, part, copy=False)
        if tuple(array.shape[-len(shape) :]) != shape:
            raise ValueError(
                f"{name}: expected probabilities of shape (..., {', '.join(map(str, shape))}), "
                f"{meaning}; found {tuple(array.shape)}"
            )
        profile.append(checks.check_probabilities(name, array))
    return profile


def joint_batch_shape(game_batch: tuple[int, ...], *policy_batches: tuple[int, ...]) -> tuple:
    """The batch shape of game and policies together; refuses what does not broadcast."""
    try:
        return np.broadcast_shapes(game_batch, *policy_batches)
    except ValueError:
        raise ValueError(
            f"policy: expected batch axes that broadcast with the game's {game_batch}; "
            f"found {policy_batches}"
        ) from None
