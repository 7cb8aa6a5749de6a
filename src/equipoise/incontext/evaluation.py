"""One record of how good players are: against equilibrium, learners, memory and opponents."""

import os
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from equipoise import dynamics
from equipoise.certificates import certify
from equipoise.core import InputError, checks
from equipoise.core.randomness import as_key
from equipoise.dynamics import LEARNERS, NOISES, Learner, Mean, Noise, Trace, game_keys
from equipoise.games import MarkovGame, MatrixGame
from equipoise.games.families import Family
from equipoise.incontext._files import description, family_of, load
from equipoise.incontext._players import SEATS, Players, check_games, check_players, play
from equipoise.incontext._static import Games, static_policies
from equipoise.incontext.theory import distance
from equipoise.runs import Record, Table, progress
from equipoise.solvers import solve

__all__ = ["evaluate", "evaluate_saved"]

#: The row of the players in tables.
PLAYERS = "in-context players"
#: What is added to the name of a learner for the mean of its policies.
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
    learners = bandit_learners(flat, rounds)
    meetings = 2 * len(make_opponents(few, 0))
    parts = len(players) + len(learners) + 2 * len(REFERENCES) + 2 + meetings
    keys = game_keys(key, flat.batch_shape, len(players)) if len(players) > 1 else None
    with progress("evaluating", total=parts) as bar:
        traces = []
        for seed in range(len(players)):
            drawn = key if keys is None else keys[..., seed]
            options: Any = {"key": drawn, "record": stops.tolist(), **settings}
            traces.append(play(players[seed], flat, rounds=rounds, **options))
            bar.advance(part="play", gap=float(traces[-1].curve[-1].mean()))
        curves = {PLAYERS: np.stack([trace.curve for trace in traces])}
        for name, learner in learners.items():
            curves |= learner_curves(flat, name, learner, stops, key, settings)
            bar.advance(part=name)
        statics = _static_gaps(flat, training, training_games, key)
        bar.advance(2, part="static policies")
        target, needed, apart = float(curves[PLAYERS][:, -1].mean()), {}, {}
        for name in REFERENCES:
            needed[name] = rounds_to_gap(
                flat, learners[name], target, key, most=search, settings=settings
            )
            bar.advance(part=f"rounds of {name}")
            apart[name] = distance(traces[0], learners[name]).mean(-1)
            bar.advance(part=f"distance from {name}")
        value, met = np.asarray(solve(few).value), {}
        for own, seat in enumerate(SEATS):
            for name, opponent in make_opponents(few, 1 - own).items():
                who: Any = {"key": key, "opponent": opponent, "seat": seat, **settings}
                found = beyond_value(play(players[0], few, rounds=rounds, **who), value)
                met[name, seat] = [(1.0 - 2.0 * own) * each for each in found]
                bar.advance(part=f"{name}, {seat}")
    config = {"rounds": rounds, "games": count, "seeds": len(players), "search": search}
    return _record(config, stops, curves, statics, needed, apart, met)


def evaluate_saved(
    name: str | os.PathLike[str],
    *,
    games: int = 1000,
    rounds: int | None = None,
    search: int = 1_000_000,
    opponent_games: int = 256,
    noise: str = "exact",
    seed: int = 1,
) -> Record:
    """Evaluate saved players on new games of the family that they were trained on.

    This is what `equipoise evaluate` calls. `name` is a folder that `pretrain` wrote, or the name
    of players that come with the package. The config of the record says all that was asked for.

    **Arguments**

    - `games`: how many games are drawn.
    - `rounds`: rounds of play; by default those of training, and 256 at most.
    - `noise`: what is seen of a reward: one of `equipoise.dynamics.NOISES`.
    - `search`, `opponent_games`: as in `evaluate`.

    **Example**

    >>> import equipoise as eq
    >>> record = eq.incontext.evaluate_saved("iid3", games=4, rounds=16, search=20)
    >>> record.config["rounds"], record.config["family"]["name"]
    (16, 'uniform')
    """
    described, players, family = description(name), load(name), family_of(name)
    if noise not in NOISES:
        raise InputError("noise", f"one of {sorted(NOISES)}", repr(noise))
    config = {
        "players": os.fspath(name),
        "parameters": players.parameters,
        "seeds": players.seeds,
        "family": described["family"],
        "games": checks.check_count("games", games),
        "rounds": min(described["config"]["rounds"], LONGEST) if rounds is None else rounds,
        "search": search,
        "opponent_games": opponent_games,
        "noise": noise,
        "seed": seed,
    }
    sizes = {name: config[name] for name in ("rounds", "search", "opponent_games")}
    drawn, law = family.sample(games, key=seed), NOISES[noise]
    found = evaluate(players, drawn, key=seed + 1, training=family, noise=law, **sizes)
    return replace(found, config=config)


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


def _static_gaps(games: Games, training: Any, count: int, key: jax.Array) -> dict[str, np.ndarray]:
    """(games,) gaps of every pair of policies that does not adapt."""
    family, sample = None, games if training is None else training
    if isinstance(training, Family):
        family, sample = training, training.sample(count, key=jax.random.fold_in(key, _STATIC))
    flat = _flat(sample, int(np.prod(sample.batch_shape, dtype=int)))
    pairs = static_policies(flat, family).items()
    return {name: np.asarray(certify(games, pair).nash_conv) for name, pair in pairs}


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
    games: Games, name: str, learner: Learner, rounds: np.ndarray, key: Any, settings: Any
) -> dict[str, np.ndarray]:
    """(1, records, games) gaps of a learner against itself; of its averages, too, if made for that.

    The guarantees of EXP3-IX and of V-learning are about averages.
    """
    stops = rounds.tolist()
    trace = dynamics.play(
        games, learner, learner, rounds=stops[-1], key=key, record=stops, **settings
    )
    curves = {name: trace.curve[None]}
    if isinstance(learner, dynamics.EXP3IX | dynamics.VLearning):
        curves[name + AVERAGE] = trace.average_curve[None]
    return curves


def rounds_to_gap(
    games: Games, learner: Learner, target: float, key: Any, *, most: int, settings: Any
) -> tuple[int | None, np.ndarray]:
    """How many rounds a learner needs until the mean gap of its last policies is at the target.

    Looked at 16 times a decade; None when `most` rounds are not enough. Also (rounds, mean gap)
    of every look.
    """
    powers = np.arange(PER_DECADE, 10 * PER_DECADE) / PER_DECADE
    stops = sorted({min(round(10**power), most) for power in powers})
    state, looks, before = None, [], 0
    for stop in stops:
        more = {"key": key} if state is None else {"state": state}
        trace = dynamics.play(games, learner, learner, rounds=stop - before, **more, **settings)
        state, before = trace.state, stop
        looks.append((stop, float(trace.curve[-1].mean())))
        if looks[-1][1] <= target:
            return stop, np.array(looks)
    return None, np.array(looks)


def make_opponents(games: Games, seat: int) -> dict[str, Learner]:
    """Strong opponents, the learners, and weak ones who sit in a seat, by their name in tables.

    Of the learners that are compared, all but mirror descent with vanishing rates, which is another
    one with other rates: every meeting takes a program of its own.

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
        raise ValueError("trace: expected one of play(..., history=True), found no history in it")
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
    met: dict[tuple[str, str], list[np.ndarray]],
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
