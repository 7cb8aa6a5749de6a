"""The former place of `equipoise.dynamics.self_play`, for the command line."""

import os

from equipoise.dynamics import SelfPlay as Config
from equipoise.dynamics import make_learner, record_rounds, self_play
from equipoise.runs import Record

__all__ = ["Config", "make_learner", "play_run", "record_rounds"]


def play_run(folder: str | os.PathLike[str], config: Config) -> Record:
    """`self_play` into a run folder."""
    return self_play(config, folder)
