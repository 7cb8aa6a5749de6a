"""Learners by name, and self-play on a family of games from a config to a record."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equipoise.certificates import certify
from equipoise.core import InputError, Outcome, Solution, Status, checks
from equipoise.dynamics import _references as references
from equipoise.dynamics._learner import NOISES, Learner
from equipoise.dynamics._markov import MarkovEntropicOMD, MarkovOMD, VLearning
from equipoise.dynamics._omd import EXP3IX, OMD, EntropicOMD, LogBarrierOMD
from equipoise.dynamics._play import play
from equipoise.dynamics._trace import Trace
from equipoise.games import MarkovGame, MatrixGame, Profile, families
from equipoise.runs import Record, Run, Table, resumable
from equipoise.solvers import solve

#: Duration of a piece of play in seconds. Ctrl-C takes effect after the current piece.
PIECE_SECONDS = 0.5
#: Name in the metrics of the row player's policy in the plotted game, if it has three actions.
_PATH = "path"
#: Index of the game whose path is plotted.
_DRAWN = 0
#: Column headings of the table by their names in the metrics.
_COLUMNS = {
    "step": "rounds",
    "gap": "gap",
    "gap_error": "± gap",
    "average_gap": "average",
    "average_gap_error": "± average",
    "row_regret": "row regret",
    "column_regret": "col. regret",
}


#: A function that makes a learner from the number of rounds, on which printed constants depend.
Maker = Callable[[int], Learner]


class Named(NamedTuple):
    """A named learner: its title in tables, and a function to make it for each kind of game.

    **Example**

    >>> import equipoise as eq
    >>> named = eq.dynamics.LEARNERS["v-learning"]
    >>> named.title, named.matrix is None
    ('V-learning', True)
    """

    #: Title in tables.
    title: str
    #: Function that makes the learner for matrix games; None if it does not play them.
    matrix: Maker | None = None
    #: Function that makes the learner for Markov games; None if it does not play them.
    markov: Maker | None = None


#: Learners by name.
LEARNERS: dict[str, Named] = {
    "omd": Named("OMD", lambda _: OMD(), lambda _: MarkovOMD()),
    "omd-vanishing": Named(
        "OMD, vanishing", lambda _: OMD.vanishing(), lambda _: MarkovOMD.vanishing()
    ),
    "omd-printed-constants": Named(
        "OMD, printed constants", OMD.printed_constants, MarkovOMD.printed_constants
    ),
    "omd-printed-signs": Named(
        "OMD, printed signs", lambda _: OMD.printed_signs(), lambda _: MarkovOMD.printed_signs()
    ),
    "cai-euclidean": Named("OMD, exponents of Cai et al.", lambda _: OMD.cai_exponents()),
    "log-barrier": Named("log-barrier OMD", lambda _: LogBarrierOMD()),
    "entropic": Named("entropic OMD", lambda _: EntropicOMD(), lambda _: MarkovEntropicOMD()),
    "exp3-ix": Named("EXP3-IX", lambda _: EXP3IX()),
    "v-learning": Named("V-learning", None, lambda _: VLearning()),
    "optimistic": Named("optimistic OMD", lambda _: references.OptimisticOMD()),
    "regret-matching": Named("regret matching+", lambda _: references.RegretMatchingPlus()),
    "uniform": Named("uniform", lambda _: references.Uniform(), lambda _: references.Uniform()),
    "best-responder": Named(
        "best responder", lambda _: references.BestResponder(), lambda _: references.BestResponder()
    ),
}


def make_learner(name: str, *, markov: bool, rounds: int, argument: str = "learner") -> Learner:
    """Return a learner by its name; errors call the argument `argument`.

    **Example**

    >>> import equipoise as eq
    >>> type(eq.dynamics.make_learner("exp3-ix", markov=False, rounds=10)).__name__
    'EXP3IX'
    """
    known = {
        key: found
        for key, named in LEARNERS.items()
        if (found := named.markov if markov else named.matrix) is not None
    }
    if name not in known:
        kind = "Markov" if markov else "matrix"
        raise InputError(argument, f"for {kind} games one of {sorted(known)}", repr(name))
    return known[name](rounds)


@dataclass(frozen=True)
class SelfPlay:
    """Settings of `self_play`: random games, two learners by name, and the number of rounds.

    **Example**

    >>> import equipoise as eq
    >>> eq.dynamics.SelfPlay(rounds=1000).record_rounds
    (100, 177, 316, 562, 1000)
    """

    #: Family of random games: "uniform" or "gaussian".
    family: str = "uniform"
    #: Number of actions of each player.
    actions: int = 3
    #: Number of states of the Markov games. None plays matrix games.
    states: int | None = None
    #: Discount of the Markov games.
    discount: float = 0.9
    #: Concentration of the Dirichlet distribution of transitions: with 1 they are spread out, with
    #: 0.1 nearly deterministic.
    concentration: float = 1.0
    #: Name of the row player's learner: one of `equipoise.dynamics.LEARNERS`.
    row: str = "omd"
    #: Name of the column player's learner.
    column: str = "omd"
    #: Number of rounds.
    rounds: int = 100_000
    #: Number of games.
    games: int = 256
    #: Noise in the rewards that players see: "exact", "bernoulli" or "gaussian".
    noise: str = "exact"
    #: Seed of all random numbers.
    seed: int = 0

    @property
    def record_rounds(self) -> tuple[int, ...]:
        """Rounds at which metrics are recorded: four per decade from 100 on, and the last."""
        return record_rounds(self.rounds)

    def sample(self) -> MatrixGame | MarkovGame:
        """Draw the games."""
        make = {"uniform": families.uniform, "gaussian": families.gaussian}
        if self.family not in make:
            raise InputError("family", f"one of {sorted(make)}", repr(self.family))
        family = make[self.family](
            self.actions,
            states=self.states,
            discount=self.discount,
            concentration=self.concentration,
        )
        return family.sample(checks.check_count("games", self.games), key=self.seed)


def record_rounds(rounds: int, first: int = 100) -> tuple[int, ...]:
    """Return logarithmically spaced rounds, four per decade, up to `rounds`.

    >>> record_rounds(50)
    (50,)
    """
    powers = np.arange(0, 40) / 4
    chosen = {int(first * 10**power) for power in powers}
    return tuple(sorted({r for r in chosen if r < rounds} | {rounds}))


def _path_rounds(first: int) -> tuple[int, ...]:
    """Return approximately logarithmically spaced rounds before `first`, for the plotted path.

    A learner has covered most of its path before its NashConv is first recorded.

    >>> _path_rounds(100)
    (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 63, 79)
    """
    steps = np.geomspace(1, 10_000, 41).round().astype(int)
    return tuple(int(r) for r in np.unique(steps) if r < first)


def self_play(config: SelfPlay | None = None, run: str | os.PathLike[str] | None = None) -> Record:
    """Let two learners play random games, and return the record that `equipoise play` writes.

    At the rounds of `config.record_rounds`, the record holds the mean NashConv of the last and of
    the average policies (arrays `gap/...`) and the regret of both players. It also holds the
    certificate of the last policies, and for games with three rows the path of one policy.

    With `run`, everything is written to a run folder. Ctrl-C then stops the run within about a
    second, writes a checkpoint and returns the record so far, whose scalar `rounds` is less than
    the `rounds` of the config. The next call resumes the run and ends with the same record, bit
    for bit, as an uninterrupted run.

    **Example**

    >>> import equipoise as eq
    >>> record = eq.dynamics.self_play(eq.dynamics.SelfPlay(rounds=200, games=8))
    >>> record.arrays["rounds"].tolist()
    [100, 177, 200]
    """
    config = SelfPlay() if config is None else config
    if run is None:
        with tempfile.TemporaryDirectory() as folder:
            return self_play(config, folder)
    if checks.check_count("rounds", config.rounds) >= 2**31:
        raise InputError("rounds", "fewer than 2^31", f"{Decimal(config.rounds):.6g}")
    games = config.sample()
    markov = isinstance(games, MarkovGame)
    if config.noise not in NOISES:
        raise InputError("noise", f"one of {sorted(NOISES)}", repr(config.noise))
    row, column = (
        make_learner(name, markov=markov, rounds=config.rounds, argument=seat)
        for seat, name in (("row", config.row), ("column", config.column))
    )

    def play_on(rounds: int, state: Any, record: tuple[int, ...] = ()) -> Trace:
        more: Any = (
            {"key": config.seed + 1, "record": record} if state is None else {"state": state}
        )
        return play(games, row, column, rounds=rounds, noise=NOISES[config.noise], **more)

    known = Path(run, "record.json").exists()
    early = _path_rounds(config.record_rounds[0]) or (1,)
    # This also raises for invalid settings before a folder is created.
    first = None if known else play_on(early[-1], None, early)
    with Run.start(run, config) as folder:
        if folder.finished or first is None:
            return folder.record()
        done, last = _play_on(folder, config.record_rounds, play_on, first.state)
        record = _record(config, games, folder.metrics(), done, first, last)
        return record if last is None else folder.finish(record)


def _play_on(
    run: Run, record: tuple[int, ...], play: Callable[[int, Any], Trace], first: Any
) -> tuple[int, Trace | None]:
    """Play until the last of `record` or until interrupted, starting from the state `first`.

    Return the number of rounds played and, unless interrupted, the final trace. Resuming does not
    change a bit, so that play can be cut into pieces anywhere. The last round is played separately
    to obtain its trace.
    """

    def advance(state: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
        trace = play(until - step, state if step else None)
        return trace.state, _row(trace) if until in record else {}

    pieces: Any = {"stride": 16, "marks": record[:-1], "look": PIECE_SECONDS}
    reached = resumable(run, first, advance, record[-1] - 1, name="playing", **pieces)
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
    if policy.shape[1:] == (3,):  # a policy of a matrix game that can be drawn in a triangle
        row[_PATH] = policy[_DRAWN].tolist()
    return row


def _record(
    config: SelfPlay,
    games: Any,
    metrics: list[dict[str, Any]],
    done: int,
    first: Trace,
    last: Trace | None,
) -> Record:
    """Return the record after `done` rounds, with a certificate if the run is complete."""
    states = () if config.states is None else (config.states,)
    uniform = tuple(np.full((*states, count), 1.0 / count) for count in games.actions)
    scalars: dict[str, Any] = {
        "uniform": float(certify(games, uniform).nash_conv.mean()),
        "gap": metrics[-1]["gap"] if metrics else None,
        "rounds": done,
    }
    rows = [{_COLUMNS[name]: row[name] for name in row if name != _PATH} for row in metrics]
    table = Table.from_dicts(rows) if rows else Table(tuple(_COLUMNS.values()), [])
    arrays = {name: np.array([row[name] for row in metrics]) for name in (metrics or [{}])[0]}
    later = arrays["rounds"] = arrays.pop("step", np.zeros(0, int))
    solution = None
    if last is not None:
        certificate = certify(games, last.last)
        message = f"{last.rounds:,} rounds were played"
        status = Status(Outcome.LEARNED, message, np.zeros(games.batch_shape, bool))
        value = certificate.value[..., 0]
        solution = Solution(Profile(last.last), value, certificate, status)
    if _PATH in arrays:  # the path from round 1 on, and the equilibrium
        early = first.recorded.rounds < later[0]
        arrays[_PATH] = np.concatenate([first.recorded.last[0][early, _DRAWN], arrays[_PATH]])
        arrays[f"{_PATH}_rounds"] = np.concatenate([first.recorded.rounds[early], later])
        arrays["nash"] = solve(games[_DRAWN]).policy[0]
        what = (
            f"row ({config.row}) against {config.column} in game {_DRAWN} of "
            f"{config.games:,}, of the family {config.family}"
        )
        scalars["drawn"] = {"what": what}
        if solution is not None:
            gap = np.asarray(solution.certificate.nash_conv)[_DRAWN]
            scalars["drawn"] |= {"gap": float(gap)}
    plain = None if solution is None else solution.to_plain()
    return Record("self-play", config, scalars, arrays, {"curve": table}, solution=plain)
