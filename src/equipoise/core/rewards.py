"""Rewards as learners receive them: scaled to [0, 1]."""

import math
from typing import Any

import numpy as np

from equipoise.core.errors import InputError


def check_reward_range(reward_range: Any) -> tuple[float, float]:
    """Return two finite numbers, the smaller one first; reject anything else.

    >>> check_reward_range((-1, 1))
    (-1.0, 1.0)
    """
    try:
        ends = np.asarray(reward_range, float)
    except (TypeError, ValueError):
        ends = np.zeros(0)
    low, high = ends.tolist() if ends.shape == (2,) else (0.0, 0.0)
    if not low < high or not math.isfinite(high - low):  # the difference may overflow
        expected = "(low, high), two finite numbers with low < high and a finite difference"
        raise InputError("reward_range", expected, repr(reward_range))
    return low, high


def scaled(rewards: np.ndarray, reward_range: tuple[float, float]) -> np.ndarray:
    """Scale rewards of `games` from `reward_range` to [0, 1]; reject rewards outside of it.

    >>> import numpy as np
    >>> scaled(np.array([1.0, 3.0]), (1, 5)).tolist()
    [0.0, 0.5]
    """
    low, high = check_reward_range(reward_range)
    if rewards.min() < low or rewards.max() > high:
        raise InputError(
            "games",
            f"rewards in [{low}, {high}]",
            f"[{rewards.min():.6g}, {rewards.max():.6g}]",
            "state their range with reward_range=(low, high)",
        )
    return (rewards - low) / (high - low)
