"""How far what players do is from what an explicit learner would have done in their place."""

from dataclasses import replace

import numpy as np

from equipoise.core.precision import single_precision
from equipoise.dynamics import OMD, Bandit, Learner, MarkovBandit, MarkovOMD
from equipoise.games import MatrixGame
from equipoise.incontext._boards import in_blocks
from equipoise.incontext._contexts import Context, blank_board, compiled_follow, take, visited
from equipoise.incontext._outcome import Episode
from equipoise.incontext._realisability import total_variation


def distance(episode: Episode, learner: Learner | None = None) -> np.ndarray:
    """(..., rounds, 2): total-variation distance to a learner on the same history, in each round.

    The learner is shown the actions, rewards (and states) that a player saw up to a round; the
    policy it would then hold is compared with the player's (before exploration), of the row and
    of the column player; in Markov games at the state of the round. By default the learner is
    mirror descent, `OMD()` or `MarkovOMD()`. An opponent's seat is compared like any other.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(8, key=0)
    >>> episode = eq.incontext.play(eq.incontext.load("iid3"), games, rounds=64, key=1)
    >>> eq.incontext.distance(episode).shape
    (8, 64, 2)
    >>> itself = eq.incontext.play(
    ...     eq.incontext.load("iid3"), games, rounds=64, key=1, opponent=eq.dynamics.OMD()
    ... )
    >>> bool(eq.incontext.distance(itself)[..., 1].max() < 1e-5)
    True
    """
    games = episode.games
    matrix = isinstance(games, MatrixGame)
    if learner is None:
        learner = OMD() if matrix else MarkovOMD()
    sees = Bandit if matrix else MarkovBandit
    if not isinstance(learner, Learner) or learner.sees is not sees:
        kind = "matrix" if matrix else "Markov"
        raise ValueError(
            f"learner: expected a learner of {kind} games that sees {sees.__name__}, "
            f"found {type(learner).__name__}"
        )
    with single_precision():
        context = Context.of_history(replace(episode.history, policies=episode.held))
    states, discount = (games.states, games.discount) if not matrix else (None, 0.0)

    def block(index: np.ndarray) -> np.ndarray:
        with single_precision():
            part = take(context, index)
            board = blank_board(len(index), games.actions, states, discount)
            followed = compiled_follow(learner, part, board)
            theirs = np.asarray(visited(followed[:, :, :-1], part.states))
        return np.moveaxis(total_variation(theirs, np.asarray(part.policies)), 0, -1)

    parts = in_blocks(block, context.actions.shape[1])
    return np.concatenate(parts).astype(np.float64).reshape(*games.batch_shape, -1, 2)
