"""Evaluate players: distance from equilibrium, learners, static policies and opponents."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from equipoise import dynamics
from equipoise.certificates import certify
from equipoise.core import InputError, checks, weights
from equipoise.core.errors import named_arguments
from equipoise.core.randomness import as_key
from equipoise.dynamics import LEARNERS, NOISES, Learner, Noise, Trace, game_keys
from equipoise.games import MarkovGame, MatrixGame
from equipoise.games.families import Family, mixture
from equipoise.incontext import _files as files
from equipoise.incontext._evaluated import PLAYERS, record_of
from equipoise.incontext._files import description, family_of, load
from equipoise.incontext._named import play
from equipoise.incontext._players import SEATS, Players, check_players
from equipoise.incontext._sizes import check_games, check_size
from equipoise.incontext._static import Games, static_names, static_policies
from equipoise.incontext.theory import distance
from equipoise.runs import Record, Run, Unfinished, interruptible, kept, resumable
from equipoise.solvers import solve

__all__ = ["evaluate", "evaluate_saved"]

#: Measurements by name, NaN where a part has not been measured yet.
Found = dict[str, np.ndarray]

#: Suffix of a learner's name in the row of its averaged policies.
AVERAGE = ", average"
#: Default number of rounds for players that were trained on more rounds.
LONGEST = 256
#: Number folded into the key with which games for static policies are drawn.
_STATIC = 90
#: Learners that players are compared with. They receive the same feedback as a player.
COMPARED = ("omd", "omd-vanishing", "log-barrier", "entropic", "exp3-ix", "v-learning")
VANISHING = LEARNERS["omd-vanishing"].title
#: Learners for which the distance from the players and the rounds to their gap are measured.
REFERENCES = (LEARNERS["omd"].title, VANISHING)
#: Number of rounds per decade at which a learner is compared with a target.
PER_DECADE = 16
#: Number of games that the players play in one part of the measurements. Ctrl-C waits for a part.
TOGETHER = 250


@named_arguments
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
    run: Run | None = None,
) -> Record:
    """Play unseen games and compare the players with learners, static policies and opponents.

    NashConv is exact (`nash_conv` by `certify`) and is that of the last policies unless a row says
    "average". In Markov games it is the sum of the players' gains in discounted reward, each in its
    worst state. The NashConv of `pretrain` is scaled: a mean over states, times `1 - discount`. The
    record holds, as arrays and as tables:

    - `gap`: mean NashConv after 16, 32, ... rounds of the players, of every learner with the same
      feedback, and of static policies, with standard errors in `gap_error`;
    - `rounds_to_gap`: number of rounds that mirror descent needs to reach the players' final
      NashConv, or the statement that `search` rounds are not enough;
    - `opponents`: reward of one player beyond the value of the game, per round, against a best
      responder (which knows the game and the policy), against the learners, and against weak
      opponents; measured in the first `opponent_games` games, in both seats;
    - `distance`: total-variation distance from the policy that mirror descent would have played
      after the same history.

    To evaluate the players of an unfinished run, call `pretrain` with the same `run`, which resumes
    it, and press Ctrl-C, which returns the best players so far. `load` only takes finished runs.

    The players of all seeds play, and `seed_error` has the standard errors over seeds. Opponents
    and distances are measured for the first seed.

    **Arguments**

    - `training`: source of the policies that do not adapt: games, or a family from which
      `training_games` games are drawn. None takes the games that are evaluated, which gives the
      best such policies in hindsight.
    - `run`: an open run folder that stores every finished part of the measurements; stored parts
      are not measured again.

    Ctrl-C raises `runs.Unfinished`, a `KeyboardInterrupt`, after the current part, for example
    after at most 250 games of the players. Its `found` is the record of the finished parts. If
    there are none, it raises `KeyboardInterrupt`.

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
    check_players(players[0] if isinstance(players, Players) else players, games)
    _check_training(games, training)
    checks.check_count("training_games", training_games)
    checks.check_count("search", search)
    rounds, key = checks.check_count("rounds", rounds), as_key(key)
    count = int(np.prod(games.batch_shape, dtype=int))
    few = min(count, checks.check_count("opponent_games", opponent_games))
    settings = {"noise": noise, "reward_range": reward_range}
    asked = (training, training_games, search, few, settings)
    work = _Evaluation(players, _flat(games, count), rounds, key, *asked)
    parts = len(work.parts)
    try:
        reached = resumable(run, work.found, work.advance, parts, name="evaluating")
    except KeyboardInterrupt as end:  # within a part
        raise work.interrupted() from end
    if reached.step < parts:
        raise work.interrupted()
    return work.record(reached.state)


@dataclass
class _Evaluation:
    """The parts of an evaluation. Each part fills in some arrays of one dict."""

    players: Players
    games: Games
    rounds: int
    key: jax.Array
    training: Any
    training_games: int
    search: int
    opponent_games: int
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        powers = (2**k for k in range(4, 31) if 2**k < self.rounds)
        self.stops = np.array(sorted({*powers, self.rounds}))
        self.learners = bandit_learners(self.games, self.rounds)
        self.family = self.training if isinstance(self.training, Family) else None
        self.few = self.games[: self.opponent_games]
        self.batches = -(-len(self.games) // TOGETHER)
        self.opponents = {
            (name, seat): opponent
            for own, seat in enumerate(SEATS)
            for name, opponent in make_opponents(self.few, 1 - own).items()
        }
        self.parts: list[tuple[Callable[[Found, int], None], int]] = [
            *((self._play, i) for i in range(len(self.players) * self.batches)),
            *((self._learn, i) for i in range(len(self.learners))),
            (self._certify_static, 0),
            *((self._search, i) for i in range(len(REFERENCES))),
            *((self._meet, i) for i in range(len(self.opponents))),
        ]
        self.found = self.nothing()

    def nothing(self) -> Found:
        """Return all arrays before any part is done."""
        games, stops, references = len(self.games), len(self.stops), len(REFERENCES)
        shapes = {
            "players": (len(self.players), stops, games),
            "learners": (len(self.learners), 2, stops, games),
            "static": (len(static_names(self.family)), games),
            "search": (references, len(_looks(self.search)), 2),
            "distance": (references, games, self.rounds),
            "met": (len(self.opponents), 2, len(self.few), self.rounds),
        }
        return {name: np.full(shape, np.nan) for name, shape in shapes.items()}

    def advance(self, found: Found, step: int, until: int) -> tuple[Found, dict[str, Any]]:
        """Measure one part."""
        self.found = found
        part, number = self.parts[step]
        part(found, number)
        return found, {}

    def _untied(self, seed: int) -> Players:
        """Return the players of one seed, which are measured in longer matches, too."""
        return replace(self.players[seed], rounds=None)

    def _play(self, found: Found, i: int) -> None:
        """Play some games with the players of one seed; measure distances for the first seed."""
        seed, batch = divmod(i, self.batches)
        some, seeds = slice(batch * TOGETHER, (batch + 1) * TOGETHER), len(self.players)
        keys = game_keys(self.key, (len(self.games),), None if seeds == 1 else seeds)
        own = keys[some] if seeds == 1 else keys[some, seed]
        options: Any = {"key": own, "record": self.stops.tolist(), **self.settings}
        trace = play(self.games[some], self._untied(seed), rounds=self.rounds, **options)
        found["players"][seed, :, some] = trace.curve
        for k, name in enumerate(REFERENCES if seed == 0 else ()):
            found["distance"][k, some] = distance(trace, self.learners[name]).mean(-1)

    def _learn(self, found: Found, i: int) -> None:
        learner, more = [*self.learners.values()][i], (self.key, self.settings)
        found["learners"][i] = learner_curves(self.games, learner, self.stops, *more)

    def _certify_static(self, found: Found, _: int) -> None:
        sample = self.games if self.training is None else self.training
        if self.family is not None:
            key = jax.random.fold_in(self.key, _STATIC)
            sample = self.family.sample(self.training_games, key=key)
        flat = _flat(sample, int(np.prod(sample.batch_shape, dtype=int)))
        pairs = static_policies(flat, self.family)
        for i, name in enumerate(static_names(self.family)):
            found["static"][i] = certify(self.games, pairs[name]).nash_conv

    def _search(self, found: Found, i: int) -> None:
        options: Any = {"most": self.search, "settings": self.settings}
        learner, target = self.learners[REFERENCES[i]], _final_gap(found)
        _, looks = rounds_to_gap(self.games, learner, target, self.key, **options)
        found["search"][i, : len(looks)] = looks

    def _meet(self, found: Found, i: int) -> None:
        (_, seat), opponent = [*self.opponents.items()][i]
        both = (self._untied(0), opponent) if seat == "row" else (opponent, self._untied(0))
        trace = play(self.few, *both, rounds=self.rounds, key=self.key, **self.settings)
        sign = 1.0 - 2.0 * SEATS.index(seat)
        found["met"][i] = sign * np.stack(beyond_value(trace, self.value))

    @cached_property
    def value(self) -> np.ndarray:
        """Values of the games that are played against opponents."""
        return np.asarray(solve(self.few).value)

    def interrupted(self) -> KeyboardInterrupt:
        """Return the exception after Ctrl-C, with a record if all seeds have played a game."""
        nothing = np.isnan(self.found["players"]).any((0, 1)).all()
        return KeyboardInterrupt() if nothing else Unfinished(self.record(self.found))

    def record(self, found: Found) -> Record:
        """Return the record of the parts that are finished."""
        done = np.flatnonzero(~np.isnan(found["players"]).any((0, 1)))
        curves, needed = {PLAYERS: found["players"][:, :, done]}, {}
        for name, (last, average) in zip(self.learners, found["learners"], strict=True):
            curves |= _measured({name: last[None], name + AVERAGE: average[None]})
        for name, padded in zip(REFERENCES, found["search"], strict=True):
            if len(looks := padded[~np.isnan(padded[:, 0])]):
                reached = looks[-1, 1] <= _final_gap(found)
                needed[name] = int(looks[-1, 0]) if reached else None, looks
        config = {"rounds": self.rounds, "games": len(done), "seeds": len(self.players)}
        config["search"] = self.search
        statics = _measured(dict(zip(static_names(self.family), found["static"], strict=True)))
        apart = dict(zip(REFERENCES, found["distance"][:, done], strict=True))
        met = _measured(dict(zip(self.opponents, found["met"], strict=True)))
        return record_of(config, self.stops, curves, statics, needed, apart, met)


def _measured(arrays: dict[Any, np.ndarray]) -> dict[Any, np.ndarray]:
    """Return the arrays that have been measured."""
    return {name: array for name, array in arrays.items() if not np.isnan(array).any()}


def _final_gap(found: Found) -> float:
    """Mean NashConv of the players after the last round."""
    return float(found["players"][:, -1].mean())


@named_arguments
def evaluate_saved(
    name: str | os.PathLike[str],
    *,
    games: int = 1000,
    rounds: int | None = None,
    search: int = 1_000_000,
    opponent_games: int = 256,
    noise: str = "exact",
    kind: str | None = None,
    actions: tuple[int, int] | None = None,
    states: int | None = None,
    family: Family | None = None,
    seed: int = 1,
    run: str | os.PathLike[str] | None = None,
) -> Record:
    """Evaluate saved players on new games from the family that they were trained on.

    The command `equipoise evaluate` calls this function. `name` is a folder that `pretrain` wrote,
    or the name of shipped players. The config of the record holds all arguments.

    **Arguments**

    - `games`: number of games to draw.
    - `rounds`: number of rounds. Default: as many as in training, but at most 256.
    - `noise`: noise in the observed rewards, a key of `equipoise.dynamics.NOISES`.
    - `kind`, `actions`, `states`: for players of any size, the games to draw: one of the kinds of
      `games.families.mixture` (default "uniform"), both numbers of actions (default (3, 3)), and
      for players of Markov games the number of states (default 3).
    - `family`: family to draw games from instead. Players of a family of your own need it: their
      folder does not contain its code.
    - `search`, `opponent_games`: as in `evaluate`.
    - `run`: a folder that keeps finished parts and the record; the same call resumes from it.

    **Example**

    >>> import equipoise as eq
    >>> family, tiny = eq.games.families.uniform(actions=3), eq.incontext.Config(
    ...     rounds=8, layers=1, width=16, hidden=16)
    >>> eq.incontext.save(eq.incontext.initial_players(family, tiny, key=0), "tiny", tiny, family)
    >>> eq.incontext.evaluate_saved("tiny", games=8, rounds=20, search=40).config["rounds"]
    20
    """
    described, players = description(name), load(name)
    source = family_of(name) if family is None else family
    check_size(players, source.actions, source.states, "family")
    for argument, value in {"kind": kind, "actions": actions, "states": states}.items():
        fits = players.any_size and (argument != "states" or players.states is not None)
        if value is not None and not (fits and family is None):
            raise InputError(argument, "None for these players or this family", value)
    if players.any_size and family is None:
        places = None if players.states is None else states or 3
        source = mixture(actions or (3, 3), kinds=kind or "uniform", states=places)
    if noise not in NOISES:
        raise InputError("noise", f"one of {', '.join(NOISES)}", repr(noise))
    config = {
        "players": os.fspath(name),
        "parameters": players.parameters,
        "seeds": players.seeds,
        "family": files.describe_family(source),
        "games": checks.check_count("games", games),
        "rounds": min(described["config"]["rounds"], LONGEST) if rounds is None else rounds,
        **{"search": search, "opponent_games": opponent_games, "noise": noise, "seed": seed},
    }
    sizes = {name: config[name] for name in ("rounds", "search", "opponent_games")}
    drawn, law = source.held_out.sample(games, key=seed), NOISES[noise]

    def measure(folder: Run | None) -> Record:
        options: Any = {"training": source, "noise": law, "run": folder, **sizes}
        try:
            return replace(evaluate(players, drawn, key=seed + 1, **options), config=config)
        except Unfinished as end:
            played = {"games": end.found.config["games"]}
            end.found = replace(end.found, config=config | played)
            raise

    def settings() -> dict[str, Any]:
        # The description of a family does not say what its code draws.
        drawings = {} if family is None else {"drawn": weights.fingerprint(weights.named(drawn))}
        return {**config, "weights": files.fingerprint(players), **drawings}

    return kept(run, settings, measure)


def _flat(games: Games, count: int) -> Games:
    """Return the games with a single batch axis."""

    def one_axis(array: Any) -> np.ndarray:
        array = np.asarray(array)
        return array.reshape(count, *array.shape[len(games.batch_shape) :])

    if isinstance(games, MatrixGame):
        return MatrixGame(one_axis(games.payoff))
    return MarkovGame(one_axis(games.reward), one_axis(games.transition), games.discount)


def _check_training(games: Games, training: Any) -> None:
    """Raise, before any play, unless `training` yields policies for these games."""
    if training is None:
        return
    if not isinstance(training, Family):
        check_games(training, "training", "a Family, ")
    shapes = [(g.actions, getattr(g, "states", None) or "no") for g in (games, training)]
    batch = "" if isinstance(training, Family) else f" and batch shape {training.batch_shape}"
    if shapes[0] != shapes[1] or batch.endswith("()"):
        expected = "a family or a batch of games with {} actions and {} states".format(*shapes[0])
        raise InputError("training", expected, "{}, {} states".format(*shapes[1]) + batch)


def bandit_learners(games: Games, rounds: int) -> dict[str, Learner]:
    """Return every learner with the feedback of a player, by its name in tables.

    >>> list(bandit_learners(MatrixGame([[0.0]]), 10))[:2]
    ['OMD', 'OMD, vanishing']
    """
    found = {}
    for named in (LEARNERS[name] for name in COMPARED):
        maker = named.matrix if isinstance(games, MatrixGame) else named.markov
        if maker is not None:
            found[named.title] = maker(rounds)
    return found


def learner_curves(
    games: Games, learner: Learner, rounds: np.ndarray, key: Any, settings: Any
) -> Float[np.ndarray, "2 records games"]:
    """Gaps of a learner in self-play, of its last policies and of its average policies.

    Gaps of averages are NaN unless the learner's guarantee is about them (EXP3-IX, V-learning).
    """
    stops = rounds.tolist()
    trace = dynamics.play(
        games, learner, learner, rounds=stops[-1], key=key, record=stops, **settings
    )
    averaged = isinstance(learner, dynamics.EXP3IX | dynamics.VLearning)
    return np.stack([trace.curve, trace.average_curve if averaged else trace.curve * np.nan])


def rounds_to_gap(
    games: Games, learner: Learner, target: float, key: Any, *, most: int, settings: Any
) -> tuple[int | None, np.ndarray]:
    """Number of rounds after which the mean NashConv of a learner's last policies meets a target.

    Measured 16 times per decade of rounds; None if `most` rounds are not enough. Also returns the
    (rounds, mean gap) of each look. Ctrl-C raises `KeyboardInterrupt` after the current look.
    """
    state, looks, before = None, [], 0
    with interruptible() as stopped:
        for stop in _looks(most):
            if stopped:  # a search can take minutes; it starts again from the first round
                raise KeyboardInterrupt
            more = {"key": key} if state is None else {"state": state}
            trace = dynamics.play(games, learner, learner, rounds=stop - before, **more, **settings)
            state, before = trace.state, stop
            looks.append((stop, float(trace.curve[-1].mean())))
            if looks[-1][1] <= target:
                return stop, np.array(looks)
    return None, np.array(looks)


def _looks(most: int) -> list[int]:
    """Rounds, up to `most`, after which a learner is compared with a target.

    >>> _looks(15)
    [10, 12, 13, 15]
    """
    powers = np.arange(PER_DECADE, 10 * PER_DECADE) / PER_DECADE
    return sorted({min(round(10**power), most) for power in powers})


def make_opponents(games: Games, seat: int) -> dict[str, Learner]:
    """Return strong opponents, learners and weak opponents for a seat, by their name in tables.

    Mirror descent with vanishing rates is left out: every opponent compiles a program of its own.

    >>> list(make_opponents(MatrixGame([[0.0]]), 1))[:3]
    ['best responder', 'OMD', 'log-barrier OMD']
    """
    matrix = isinstance(games, MatrixGame)
    first = np.eye(games.actions[seat])[0]
    learners = {n: learner for n, learner in bandit_learners(games, 1).items() if n != VANISHING}
    return {
        "best responder": dynamics.BestResponder(),
        **learners,
        "uniform": dynamics.Uniform(),
        "the first action": dynamics.Fixed(first if matrix else np.tile(first, (games.states, 1))),
    }


def beyond_value(trace: Trace, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The row player's mean reward and its excess over the value of the game, (games, rounds) each.

    In a Markov game the excess is `r + discount V(s') - V(s)` with the value `V` of the game: the
    gain of a round over what either player could secure. `r` is the mean reward of both policies.
    """
    games, history = trace.games, trace.history
    if history is None:
        raise InputError("trace", "a trace of play(..., history=True)", "a trace without history")
    expected = history.expected.reshape(-1, history.expected.shape[-1])
    if history.states is None or isinstance(games, MatrixGame):
        return expected, expected - value.reshape(-1, 1)
    states = history.states.reshape(len(expected), -1)
    values = np.take_along_axis(value.reshape(len(expected), -1), states, 1)
    return expected, expected + games.discount * values[:, 1:] - values[:, :-1]
