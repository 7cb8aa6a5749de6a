"""One record of how good players are: against equilibrium, learners, memory and opponents."""

from typing import Any

import jax
import numpy as np

from equipoise.core import checks
from equipoise.core.randomness import as_key
from equipoise.dynamics import Noise, game_keys
from equipoise.games import MarkovGame, MatrixGame
from equipoise.games.families import Family
from equipoise.incontext._curves import Games, gap
from equipoise.incontext._distance import distance
from equipoise.incontext._measures import (
    VANISHING,
    bandit_learners,
    beyond_value,
    game_values,
    learner_curves,
    make_opponents,
    rounds_to_gap,
)
from equipoise.incontext._outcome import Episode
from equipoise.incontext._play import SEATS, check_games, play
from equipoise.incontext._players import Players, check_players
from equipoise.incontext._static import static_policies
from equipoise.incontext._summary import PLAYERS, Measured
from equipoise.runs import Progress, Record, progress

__all__ = ["evaluate"]

#: Purpose of the key with which games for static policies are drawn.
_STATIC = 90

#: Learners whose distance from the players is measured, and whose rounds to their gap.
REFERENCES = ("OMD", VANISHING)


def evaluate(
    players: Players,
    games: Games,
    rounds: int = 256,
    key: Any = 0,
    *,
    training: Family | Games | None = None,
    training_games: int = 1000,
    search: int = 1_000_000,
    opponent_games: int = 256,
    noise: Noise | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Record:
    """Play games that the players have never seen, and compare them with everything else.

    All gaps are exact (`nash_conv` by `certify`), of last policies unless a row says "average". In
    Markov games that is what each player gains in its worst state, of discounted sums; the gap of
    `pretrain` is another: a mean over states, times `1 - discount`.
    The record holds, as arrays and as tables:

    - `gap`: at 16, 32, ... rounds, of the players, of every learner that sees what they see, and
      of policies that do not adapt, with standard errors in `gap_error`;
    - `rounds_to_gap`: how many rounds mirror descent needs for the final gap of the players, or
      that `search` rounds are not enough;
    - `opponents`: what one player earns beyond the value of the game, per round, against a best
      responder (who knows the game and the policy), against the learners, and against weak
      opponents; in the first `opponent_games` games, in both seats;
    - `distance`: in total variation, from what mirror descent would have played after the same
      history.

    Players of a run that has not finished can be evaluated too: `pretrain` with the same `run`
    goes on with it and returns the best so far at Ctrl-C. `load` takes finished runs only.

    Players of several seeds are all played; standard errors over seeds are in `seed_error`, and
    opponents and distances are those of the first seed.

    **Arguments**

    - `training`: what policies that do not adapt are made from: a family, of which
      `training_games` games are drawn, or games. None takes the very games that are evaluated:
      the best such policies in hindsight.

    **Example**

    >>> import equipoise as eq
    >>> family = eq.games.families.uniform(actions=3)
    >>> tiny = eq.incontext.Config(rounds=8, layers=1, width=16, hidden=16)
    >>> players = eq.incontext.initial_players(family, tiny, key=0)  # untrained
    >>> games = family.sample(8, key=0)
    >>> record = eq.incontext.evaluate(players, games, rounds=20, key=1, search=40)
    >>> record.tables["gap"].columns, record.arrays["gap/OMD"].shape
    (('who', '16', '20'), (2, 8))
    """
    check_games(games)
    check_players(players[0] if isinstance(players, Players) else players, games)
    _check_training(games, training)
    checks.check_count("training_games", training_games)
    checks.check_count("search", search)
    rounds, key = checks.check_count("rounds", rounds), as_key(key)
    count = int(np.prod(games.batch_shape, dtype=int))
    flat = _flat(games, count)
    few = flat[: min(count, checks.check_count("opponent_games", opponent_games))]
    settings = {"noise": noise, "reward_range": reward_range}
    stops = np.array(sorted({*(2**k for k in range(4, 31) if 2**k < rounds), rounds}))
    learners = bandit_learners(flat)
    meetings = 2 * len(make_opponents(few, 0))
    parts = len(players) + len(learners) + 2 * len(REFERENCES) + 2 + meetings
    with progress("evaluating", total=parts) as bar:
        episodes = _play_seeds(players, flat, stops, key, settings, bar)
        curves = {PLAYERS: np.stack([episode.curve for episode in episodes])}
        for name, learner in learners.items():
            found = learner_curves(flat, name, learner, stops, key, settings)
            curves |= {name: curve[None] for name, curve in found.items()}
            bar.advance(part=name)
        statics = _static_gaps(flat, training, training_games, key)
        bar.advance(2, part="static policies")
        target = float(curves[PLAYERS][:, -1].mean())
        needed = {}
        for name in REFERENCES:
            needed[name] = rounds_to_gap(
                flat, learners[name], target, key, most=search, settings=settings
            )
            bar.advance(part=f"rounds of {name}")
        apart = {}
        for name in REFERENCES:
            apart[name] = distance(episodes[0], learners[name]).mean(-1)
            bar.advance(part=f"distance from {name}")
        met = _opponents(players[0], few, rounds, key, settings, bar)
    config = {"rounds": rounds, "games": count, "seeds": len(players), "search": search}
    return Measured(stops, curves, statics, needed, search, apart, met).record(config)


def _flat(games: Games, count: int) -> Games:
    """The games along one batch axis."""

    def one_axis(array: Any) -> np.ndarray:
        array = np.asarray(array)
        return array.reshape(count, *array.shape[len(games.batch_shape) :])

    if isinstance(games, MatrixGame):
        return MatrixGame(one_axis(games.payoff))
    return MarkovGame(one_axis(games.reward), one_axis(games.transition), games.discount)


def _play_seeds(
    players: Players, games: Games, stops: np.ndarray, key: Any, settings: Any, bar: Progress
) -> list[Episode]:
    keys = game_keys(key, games.batch_shape, len(players))
    episodes = []
    for seed in range(len(players)):
        drawn = keys[..., seed] if len(players) > 1 else key
        episode = play(
            players[seed],
            games,
            rounds=int(stops[-1]),
            key=drawn,
            record=stops.tolist(),
            **settings,
        )
        episodes.append(episode)
        bar.advance(part="play", gap=float(episode.curve[-1].mean()))
    return episodes


def _check_training(games: Games, training: Any) -> None:
    """Refuse, before anything is played, what makes no policies for these games."""
    if training is None:
        return
    if not isinstance(training, Family):
        check_games(training, "training", "a Family, ")
    found = (training.actions, getattr(training, "states", None))
    batch = None if isinstance(training, Family) else training.batch_shape
    if found != (games.actions, getattr(games, "states", None)) or batch == ():
        raise ValueError(
            f"training: expected a family or a batch of games with {games.actions} actions "
            f"and {getattr(games, 'states', None) or 'no'} states, found {found[0]}, "
            f"{found[1] or 'no'} states" + ("" if batch is None else f" and batch shape {batch}")
        )


def _static_gaps(games: Games, training: Any, count: int, key: jax.Array) -> dict[str, np.ndarray]:
    """(games,) gaps of every pair of policies that does not adapt."""
    family, sample = None, games if training is None else training
    if isinstance(training, Family):
        family, sample = training, training.sample(count, key=jax.random.fold_in(key, _STATIC))
    flat = _flat(sample, int(np.prod(sample.batch_shape, dtype=int)))
    return {name: gap(games, pair) for name, pair in static_policies(flat, family).items()}


def _opponents(
    players: Players, games: Games, rounds: int, key: Any, settings: Any, bar: Progress
) -> dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]:
    """(games, rounds) earned by the players, and that beyond the value, by opponent and seat."""
    value, found = game_values(games), {}
    for own, seat in enumerate(SEATS):
        for name, opponent in make_opponents(games, 1 - own).items():
            episode = play(
                players, games, rounds=rounds, key=key, opponent=opponent, seat=seat, **settings
            )
            sign = 1.0 if own == 0 else -1.0
            beyond = beyond_value(episode, value)
            found[name, seat] = (sign * episode.expected, sign * beyond)
            bar.advance(part=f"{name}, {seat}")
    return found
