"""One record of how good players are: against equilibrium, learners, memory and opponents."""

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
from equipoise.core import InputError, checks
from equipoise.core.randomness import as_key
from equipoise.dynamics import LEARNERS, NOISES, Learner, Mean, Noise, Trace, game_keys
from equipoise.games import MarkovGame, MatrixGame
from equipoise.games.families import Family, mixture
from equipoise.incontext import _files as files
from equipoise.incontext._files import description, family_of, load
from equipoise.incontext._players import SEATS, Players, check_games, check_players, play
from equipoise.incontext._static import Games, static_names, static_policies
from equipoise.incontext.theory import distance
from equipoise.runs import Record, Run, Table, interruptible, resumable
from equipoise.solvers import solve

__all__ = ["evaluate", "evaluate_saved"]

#: What has been measured, by name; NaN where it has not been yet.
Found = dict[str, np.ndarray]

#: The row of the players in tables.
PLAYERS = "in-context players"
#: Suffix of a learner's name in the row of its averaged policies.
AVERAGE = ", average"
#: Rounds of play, unless said otherwise, of players that were trained for more.
LONGEST = 256
#: Purpose of the key with which games for static policies are drawn.
_STATIC = 90
#: Learners that players are compared with: those that see what a player sees.
COMPARED = ("omd", "omd-vanishing", "log-barrier", "entropic", "exp3-ix", "v-learning")
VANISHING = LEARNERS["omd-vanishing"].title
#: Learners whose distance from the players is measured, and whose rounds to their gap.
REFERENCES = (LEARNERS["omd"].title, VANISHING)
#: Rounds at which a learner is compared with a target, in every decade.
PER_DECADE = 16
#: Games that the players play in one part of the measurements, which Ctrl-C waits for.
TOGETHER = 250


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
    - `run`: an open run folder, in which every part of the measurements is kept when it is done;
      parts that the folder holds are not measured again. Ctrl-C raises `KeyboardInterrupt` after
      the current part: at most 250 games of the players, for instance.

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
    reached = resumable(run, work.nothing(), work.advance, len(work.parts), name="evaluating")
    if reached.step < len(work.parts):
        raise KeyboardInterrupt
    return work.record(reached.state)


@dataclass
class _Evaluation:
    """The parts of an evaluation, each of which fills in its share of one dict of arrays."""

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

    def nothing(self) -> Found:
        """All arrays before any part is done."""
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
        """Do one part."""
        part, number = self.parts[step]
        part(found, number)
        return found, {}

    def _play(self, found: Found, i: int) -> None:
        """Play some games with the players of one seed; the distances are those of the first."""
        seed, batch = divmod(i, self.batches)
        some, seeds = slice(batch * TOGETHER, (batch + 1) * TOGETHER), len(self.players)
        keys = game_keys(self.key, (len(self.games),), None if seeds == 1 else seeds)
        own = keys[some] if seeds == 1 else keys[some, seed]
        options: Any = {"key": own, "record": self.stops.tolist(), **self.settings}
        trace = play(self.players[seed], self.games[some], rounds=self.rounds, **options)
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
        options: Any = {"key": self.key, "opponent": opponent, "seat": seat, **self.settings}
        trace = play(self.players[0], self.few, rounds=self.rounds, **options)
        sign = 1.0 - 2.0 * SEATS.index(seat)
        found["met"][i] = sign * np.stack(beyond_value(trace, self.value))

    @cached_property
    def value(self) -> np.ndarray:
        """The values of the games in which opponents are met."""
        return np.asarray(solve(self.few).value)

    def record(self, found: Found) -> Record:
        """The record, once every part is done."""
        curves, needed = {PLAYERS: found["players"]}, {}
        for name, (last, average) in zip(self.learners, found["learners"], strict=True):
            curves[name] = last[None]
            if not np.isnan(average).any():
                curves[name + AVERAGE] = average[None]
        for name, padded in zip(REFERENCES, found["search"], strict=True):
            looks = padded[~np.isnan(padded[:, 0])]
            reached = looks[-1, 1] <= _final_gap(found)
            needed[name] = int(looks[-1, 0]) if reached else None, looks
        config = {"rounds": self.rounds, "games": len(self.games), "seeds": len(self.players)}
        config["search"] = self.search
        statics = dict(zip(static_names(self.family), found["static"], strict=True))
        apart = dict(zip(REFERENCES, found["distance"], strict=True))
        met = dict(zip(self.opponents, found["met"], strict=True))
        return _record(config, self.stops, curves, statics, needed, apart, met)


def _final_gap(found: Found) -> float:
    """The mean gap of the players after the last round."""
    return float(found["players"][:, -1].mean())


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
    seed: int = 1,
    run: str | os.PathLike[str] | None = None,
) -> Record:
    """Evaluate saved players on new games of the family that they were trained on.

    This is what `equipoise evaluate` calls. `name` is a folder that `pretrain` wrote, or the name
    of players that come with the package. The config of the record says all that was asked for.

    **Arguments**

    - `games`: how many games are drawn.
    - `rounds`: rounds of play; by default those of training, and 256 at most.
    - `noise`: what is seen of a reward: one of `equipoise.dynamics.NOISES`.
    - `kind`, `actions`: for players of any size, which games: one of the kinds of
      `games.families.mixture` ("uniform" unless given), and both numbers of actions ((3, 3)).
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
    described, players, family = description(name), load(name), family_of(name)
    if players.any_size:
        family = mixture(actions or (3, 3), kinds=kind or "uniform")
    elif kind or actions:
        raise InputError("kind" if kind else "actions", "None for these players", kind or actions)
    if noise not in NOISES:
        raise InputError("noise", f"one of {sorted(NOISES)}", repr(noise))
    config = {
        "players": os.fspath(name),
        "parameters": players.parameters,
        "seeds": players.seeds,
        "family": files.describe_family(family),
        "games": checks.check_count("games", games),
        "rounds": min(described["config"]["rounds"], LONGEST) if rounds is None else rounds,
        "search": search,
        "opponent_games": opponent_games,
        "noise": noise,
        "seed": seed,
    }
    sizes = {name: config[name] for name in ("rounds", "search", "opponent_games")}

    def measure(folder: Run | None) -> Record:
        drawn, law = family.sample(games, key=seed), NOISES[noise]
        options: Any = {"training": family, "noise": law, "run": folder, **sizes}
        return replace(evaluate(players, drawn, key=seed + 1, **options), config=config)

    if run is None:
        return measure(None)
    with Run.start(run, {**config, "weights": files.fingerprint(players)}) as folder:
        return folder.record() if folder.finished else folder.finish(measure(folder))


def _flat(games: Games, count: int) -> Games:
    """The games along one batch axis."""

    def one_axis(array: Any) -> np.ndarray:
        array = np.asarray(array)
        return array.reshape(count, *array.shape[len(games.batch_shape) :])

    if isinstance(games, MatrixGame):
        return MatrixGame(one_axis(games.payoff))
    return MarkovGame(one_axis(games.reward), one_axis(games.transition), games.discount)


def _check_training(games: Games, training: Any) -> None:
    """Refuse, before anything is played, what makes no policies for these games."""
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
    """Every learner that sees what a player sees, by the name it has in tables.

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
    """The gaps of a learner against itself: those of its last policies, and of its averages.

    The latter are NaN unless the learner's guarantee is about averages (EXP3-IX and V-learning).
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
    """How many rounds a learner needs until the mean gap of its last policies is at the target.

    Looked at 16 times a decade; None when `most` rounds are not enough. Also (rounds, mean gap)
    of every look. Ctrl-C raises `KeyboardInterrupt` after the current look.
    """
    state, looks, before = None, [], 0
    with interruptible() as stopped:
        for stop in _looks(most):
            if stopped:  # a search may take minutes, and is begun anew
                raise KeyboardInterrupt
            more = {"key": key} if state is None else {"state": state}
            trace = dynamics.play(games, learner, learner, rounds=stop - before, **more, **settings)
            state, before = trace.state, stop
            looks.append((stop, float(trace.curve[-1].mean())))
            if looks[-1][1] <= target:
                return stop, np.array(looks)
    return None, np.array(looks)


def _looks(most: int) -> list[int]:
    """The rounds, at most `most`, after which a learner is compared with a target.

    >>> _looks(15)
    [10, 12, 13, 15]
    """
    powers = np.arange(PER_DECADE, 10 * PER_DECADE) / PER_DECADE
    return sorted({min(round(10**power), most) for power in powers})


def make_opponents(games: Games, seat: int) -> dict[str, Learner]:
    """Strong opponents, the learners, and weak ones who sit in a seat, by their name in tables.

    Mirror descent with vanishing rates is left out: every meeting compiles a program of its own.

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
    """(games, rounds) each: the row player's mean reward, and that beyond the value of the game.

    In a Markov game, `r + discount V(s') - V(s)` with the value `V` of the game: what a round
    added to what either player could have secured. Both policies' mean reward stands for `r`.
    """
    games, history = trace.games, trace.history
    if history is None:
        raise InputError("trace", "one of play(..., history=True)", "no history in it")
    expected = history.expected.reshape(-1, history.expected.shape[-1])
    if history.states is None or isinstance(games, MatrixGame):
        return expected, expected - value.reshape(-1, 1)
    states = history.states.reshape(len(expected), -1)
    values = np.take_along_axis(value.reshape(len(expected), -1), states, 1)
    return expected, expected + games.discount * values[:, 1:] - values[:, :-1]


def _record(
    config: Any,
    rounds: np.ndarray,
    curves: dict[str, np.ndarray],
    statics: dict[str, np.ndarray],
    needed: dict[str, tuple[int | None, np.ndarray]],
    apart: dict[str, np.ndarray],
    met: dict[tuple[str, str], Any],
) -> Record:
    """The record of what `evaluate` found.

    By name, `curves` are (seeds, records, games), `statics` (games,), `needed` the rounds until the
    players' gap with the (looks, 2) of rounds and mean gap, and `apart` (games, rounds). By
    opponent and seat, `met` is (games, rounds) of what was earned, and that beyond the value.
    """
    means = {name: Mean.of(curve, seeds=True) for name, curve in curves.items()}
    own, flat = means[PLAYERS], {name: Mean.of(gaps) for name, gaps in statics.items()}

    def gaps(part: str) -> Table:
        whole = {name: getattr(mean, part) for name, mean in (means | flat).items()}
        rows = [(name, *np.broadcast_to(v, len(rounds)).tolist()) for name, v in whole.items()]
        return Table(("who", *map(str, rounds)), rows)

    arrays = {"rounds": rounds, "gap/players": curves[PLAYERS]}
    arrays |= {f"gap/{name}": curve[0] for name, curve in curves.items() if name != PLAYERS}
    arrays |= {f"static/{name}": each for name, each in statics.items()}
    searched, meetings, distances = [], [], []
    for name, (count, looks) in needed.items():
        arrays[f"search/{name}"] = looks
        text = f"more than {config['search']:,}" if count is None else f"{count:,}"
        searched.append((name, float(own.value[-1]), text, float(looks[-1, 1])))
    for name, far in apart.items():
        mean = Mean.of(far.T)
        arrays |= {f"distance/{name}": mean.value, f"distance/{name}/error": mean.error}
        distances.append((name, *mean.value[rounds - 1].tolist()))
    for (name, seat), (earned, beyond) in met.items():
        mean, where = Mean.of(beyond.T), f"opponents/{name}/{seat}"
        arrays |= {f"{where}/reward": earned.mean(0)}
        arrays |= {f"{where}/beyond": mean.value, f"{where}/error": mean.error}
        # Per round: all rounds, and the last quarter of them.
        late = beyond[:, -max(1, beyond.shape[1] // 4) :]
        whole, end = Mean.of(beyond.mean(1)), Mean.of(late.mean(1))
        numbers = (earned.mean(), whole.value, whole.error, end.value, end.error)
        meetings.append((name, seat, *map(float, numbers)))
    others = {name: mean.value for name, mean in (means | flat).items() if name != PLAYERS}
    scalars = {
        "gap": float(own.value[-1]),
        "error": float(own.error[-1]),
        "seed_error": float(own.seed_error[-1]),
        "rounds_to_gap": {name: count for name, (count, _) in needed.items()},
        "search": config["search"],
        "beaten_at_every_round": [n for n, gap in others.items() if np.all(gap > own.value)],
    }
    heads = ("reward", "beyond value", "±", "late", "± late")
    tables = {
        "gap": gaps("value"),
        "gap_error": gaps("error"),
        "rounds_to_gap": Table(
            ("learner", "gap to reach", "rounds needed", "its gap then"), searched
        ),
        "opponents": Table(("opponent", "seat", *heads), meetings),
        "distance": Table(("learner", *map(str, rounds)), distances),
    }
    return Record("evaluate", config, scalars, arrays, tables)
