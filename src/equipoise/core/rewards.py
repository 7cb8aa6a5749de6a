"""Rewards as learners see them: within [0, 1]."""

import numpy as np


def scaled(rewards: np.ndarray, reward_range: tuple[float, float]) -> np.ndarray:
    """Rewards of `games` scaled from `reward_range` to [0, 1]; refuses those outside of it.

    >>> import numpy as np
    >>> scaled(np.array([1.0, 3.0]), (1, 5)).tolist()
    [0.0, 0.5]
    """
    low, high = (float(end) for end in reward_range)
    if not low < high:
        raise ValueError(
            f"reward_range: expected (low, high) with low < high, found {reward_range}"
        )
    if rewards.min() < low or rewards.max() > high:
        raise ValueError(
            f"games: expected rewards in [{low}, {high}], found [{rewards.min():.6g}, "
            f"{rewards.max():.6g}]; say which range they have with reward_range=(low, high)"
        )
    return (rewards - low) / (high - low)
