"""One module per figure or table of a paper: `Config`, `run(config) -> Record`, `plot(record)`."""

from equipoise.papers import (
    aggregative_learning,
    construction,
    in_context,
    interaction_rank,
    last_iterate,
    self_play,
)

__all__ = [
    "aggregative_learning",
    "construction",
    "in_context",
    "interaction_rank",
    "last_iterate",
    "self_play",
]
