"""Two named learners on one family of games, from a config to a record: `self_play`."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.dynamics._named import make_learner
from equipoise.dynamics._noise import NOISES
from equipoise.dynamics._play import play
from equipoise.dynamics._trace import Trace
from equipoise.games import MarkovGame, MatrixGame, families
from equipoise.runs import Record, Run, Table, resumable
from equipoise.solvers import solve

#: How long a piece of play takes, and with it the answer to Ctrl-C.
PIECE_SECONDS = 0.5
#: Name in the metrics of the row player's policy in the drawn game, where it has three actions.
_PATH = "path"
#: The game of which the path is drawn.
_DRAWN = 0
#: Name in the metrics -> heading of the table.
_COLUMNS = {
    "step": "rounds",
    "gap": "gap",
    "gap_error": "± gap",
    "average_gap": "average",
    "average_gap_error": "± average",
    "row_regret": "row regret",
    "column_regret": "col. regret",
}


@dataclass(frozen=True)
class SelfPlay:
    """What `self_play` plays: random games, two learners by name, rounds.

    **Example**

    >>> import equipoise as eq
    >>> eq.dynamics.SelfPlay(rounds=1000).record_rounds
    (100, 177, 316, 562, 1000)
    """

    #: Family of random games: "uniform" or "gaussian".
    family: str = "uniform"
    #: Number of actions of each player.
    actions: int = 3
    #: Number of states of a Markov game; None for matrix games.
    states: int | None = None
    #: Discount of a Markov game.
    discount: float = 0.9
    #: Concentration of the Dirichlet distribution of transitions: 1 is spread out, 0.1 nearly
    #: deterministic.
    concentration: float = 1.0
    #: Name of the learner that plays rows: one of `equipoise.dynamics.LEARNERS`.
    row: str = "omd"
    #: Name of the learner that plays columns.
    column: str = "omd"
    #: Number of rounds.
    rounds: int = 100_000
    #: Number of games.
    games: int = 256
    #: What players see of a reward: "exact", "bernoulli" or "gaussian".
    noise: str = "exact"
    #: Seed of all random numbers.
    seed: int = 0

    @property
    def record_rounds(self) -> tuple[int, ...]:
        """Four rounds in every decade from 100 on, and the last."""
        return record_rounds(self.rounds)

    def sample(self) -> MatrixGame | MarkovGame:
        """The games."""
        make = {"uniform": families.uniform, "gaussian": families.gaussian}
        if self.family not in make:
            raise ValueError(f"family: expected one of {sorted(make)}, found {self.family!r}")
        family = make[self.family](
            self.actions,
            states=self.states,
            discount=self.discount,
            concentration=self.concentration,
        )
        return family.sample(checks.check_count("games", self.games), key=self.seed)


def record_rounds(rounds: int, first: int = 100) -> tuple[int, ...]:
    """Rounds at equal steps of their logarithm, four a decade, up to `rounds`.

    >>> record_rounds(50)
    (50,)
    """
    powers = np.arange(0, 40) / 4
    chosen = {int(first * 10**power) for power in powers}
    return tuple(sorted({r for r in chosen if r < rounds} | {rounds}))


def _path_rounds(first: int) -> tuple[int, ...]:
    """Rounds before `first` at about equal steps of their logarithm, for the drawn path.

    Most of the way of a learner is behind it when its gap is first recorded.

    >>> _path_rounds(100)
    (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 63, 79)
    """
    steps = np.geomspace(1, 10_000, 41).round().astype(int)
    return tuple(int(r) for r in np.unique(steps) if r < first)


def _check_rounds(rounds: Any) -> None:
    if checks.check_count("rounds", rounds) >= 2**31:
        raise ValueError(f"rounds: expected fewer than 2^31, found {rounds}")


def self_play(config: SelfPlay | None = None, run: str | os.PathLike[str] | None = None) -> Record:
    """Let two learners play random games; returns the record that `equipoise play` writes.

    It holds, at the rounds of `config.record_rounds`, the mean exact gap of the last and of the
    average policies, and the regret of both players; the certificate of the last policies; and for
    games with three rows the path of one policy.

    With `run`, everything goes into a run folder. Ctrl-C then ends it within about a second: what
    was played is kept in a checkpoint, and the record so far is returned, whose scalar `rounds` is
    less than the `rounds` of the config. The next call goes on from there, to the same final
    record, bit for bit.

    **Example**

    >>> import equipoise as eq
    >>> record = eq.dynamics.self_play(eq.dynamics.SelfPlay(rounds=200, games=8))
    >>> record.arrays["rounds"].tolist()
    [100, 177, 200]
    """
    config = SelfPlay() if config is None else config
    if run is None:
        with tempfile.TemporaryDirectory() as folder:
            return play_run(folder, config)
    return play_run(run, config)


def play_run(folder: str | os.PathLike[str], config: SelfPlay) -> Record:
    """Play into a run folder, going on from its last checkpoint; returns the final record."""
    _check_rounds(config.rounds)
    games = config.sample()
    markov = isinstance(games, MarkovGame)
    if config.noise not in NOISES:
        raise ValueError(f"noise: expected one of {sorted(NOISES)}, found {config.noise!r}")
    row, column = (
        make_learner(name, markov=markov, rounds=config.rounds, argument=seat)
        for seat, name in (("row", config.row), ("column", config.column))
    )

    def play_on(rounds: int, state: Any, record: tuple[int, ...] = ()) -> Trace:
        return play(
            games,
            row,
            column,
            rounds=rounds,
            key=config.seed + 1 if state is None else None,
            record=record or None,
            noise=NOISES[config.noise],
            state=state,
        )

    known = Path(folder, "record.json").exists()
    early = _path_rounds(config.record_rounds[0]) or (1,)
    # Also refuses, before there is a folder, whatever cannot be played.
    first = None if known else play_on(early[-1], None, early)
    with Run.start(folder, config) as run:
        if run.finished or first is None:
            return run.record()
        done, last = _play_on(run, config.record_rounds, play_on, first.state)
        record = _record(config, games, run.metrics(), done)
        record = _with_path(record, games, first)
        return record if last is None else run.finish(_certified(record, games, last))


def _play_on(
    run: Run, record: tuple[int, ...], play: Callable[[int, Any], Trace], first: Any
) -> tuple[int, Trace | None]:
    """Play until the last of `record`, or until told to stop; `first` is a state of such play.

    Returns the rounds played and, unless told to stop, how play ended. Going on changes no bit,
    so that play may be cut into pieces anywhere. The last round is played alone, for its trace.
    """

    def advance(state: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
        trace = play(until - step, state if step else None)
        return trace.state, _row(trace) if until in record else {}

    reached = resumable(
        run,
        first,
        advance,
        record[-1] - 1,
        name="playing",
        stride=16,
        marks=record[:-1],
        look=PIECE_SECONDS,
    )
    if reached.stopped:
        return reached.step, None
    trace = play(1, reached.state if reached.step else None)
    run.log(trace.rounds, **_row(trace))
    return trace.rounds, trace


def _row(trace: Trace) -> dict[str, Any]:
    gaps, averages = trace.curve[-1].ravel(), trace.average_curve[-1].ravel()
    row: dict[str, Any] = {
        "gap": float(gaps.mean()),
        "gap_error": float(gaps.std() / np.sqrt(gaps.size)),
        "average_gap": float(averages.mean()),
        "average_gap_error": float(averages.std() / np.sqrt(averages.size)),
    }
    if trace.regret is not None:
        regret = trace.regret[-1].reshape(-1, 2).mean(0)
        row |= {"row_regret": float(regret[0]), "column_regret": float(regret[1])}
    policy = np.asarray(trace.last[0])
    if policy.shape[1:] == (3,):  # of a matrix game, and can be drawn in a triangle
        row[_PATH] = policy[_DRAWN].tolist()
    return row


def _record(config: SelfPlay, games: Any, metrics: list[dict[str, Any]], done: int) -> Record:
    """What is known after `done` rounds."""
    players = (np.full(actions, 1.0 / actions) for actions in games.actions)
    if config.states is not None:
        players = (np.tile(player, (config.states, 1)) for player in players)
    uniform = certify(games, tuple(players)).nash_conv.mean()
    table = Table(tuple(_COLUMNS.values()), [])
    if metrics:
        rows = [{_COLUMNS[name]: row[name] for name in row if name != _PATH} for row in metrics]
        table = Table.from_dicts(rows)
    arrays = {name: np.array([row[name] for row in metrics]) for name in (metrics or [{}])[0]}
    arrays["rounds"] = arrays.pop("step", np.zeros(0, int))
    gap = metrics[-1]["gap"] if metrics else None
    scalars = {"uniform": float(uniform), "gap": gap, "rounds": done}
    return Record("self-play", config, scalars, arrays, {"curve": table})


def _with_path(record: Record, games: Any, first: Trace) -> Record:
    """The record with the path of one policy from round 1 on, and where it should end."""
    if _PATH not in record.arrays:
        return record
    config, later = record.config, record.arrays["rounds"]
    early = first.recorded.rounds < later[0]
    path = np.concatenate([first.recorded.last[0][early, _DRAWN], record.arrays[_PATH]])
    rounds = np.concatenate([first.recorded.rounds[early], later])
    nash = solve(games[_DRAWN]).policy[0]
    what = (
        f"row ({config['row']}) against {config['column']} in game {_DRAWN} of "
        f"{config['games']:,}, of the family {config['family']}"
    )
    return replace(
        record,
        scalars={**record.scalars, "drawn": {"what": what}},
        arrays={**record.arrays, _PATH: path, f"{_PATH}_rounds": rounds, "nash": nash},
    )


def _certified(record: Record, games: Any, trace: Trace) -> Record:
    """The record with the certificate of the last policies, game by game."""
    certificate = certify(games, trace.last)
    scalars: dict[str, Any] = {
        "method": certificate.method,
        "exact": certificate.exact,
        "concept": certificate.concept,
    }
    if "drawn" in record.scalars:
        gap = float(np.asarray(certificate.nash_conv)[_DRAWN])
        scalars["drawn"] = {**record.scalars["drawn"], "gap": gap}
    arrays = {"gains": certificate.gains, "certified_value": certificate.value}
    return replace(
        record, scalars={**record.scalars, **scalars}, arrays={**record.arrays, **arrays}
    )
