"""Self-play on a family of games, from a config to a record."""

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from equipoise.certificates import certify
from equipoise.core import InputError, Solution, Verdict, checks
from equipoise.core.errors import named_arguments
from equipoise.core.values import Value
from equipoise.dynamics._engine import context_batch
from equipoise.dynamics._learner import NOISES, ContextLearner, Learner, Pair
from equipoise.dynamics._named import make_learner
from equipoise.dynamics._play import check_learners, game_keys, play
from equipoise.dynamics._round import Tables
from equipoise.dynamics._trace import Trace, digest, repeat_games
from equipoise.games import MarkovGame, MatrixGame, Profile, families
from equipoise.runs import Format, Reached, Record, Run, Table, kept, resumable
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
    "gap": "NashConv",
    "gap_error": "±",
    "average_gap": "of average",
    "average_gap_error": "± average",
    "omd_gap": "of OMD",
    "row_regret": "row regret",
    "column_regret": "col. regret",
}


@named_arguments
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
    #: Name of the row player's learner: one of `equipoise.dynamics.LEARNERS`, or of the learners
    #: that are passed to `self_play`.
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
            raise InputError("family", f"one of {', '.join(sorted(make))}", repr(self.family))
        family = make[self.family](
            self.actions,
            states=self.states,
            discount=self.discount,
            concentration=self.concentration,
        )
        return family.sample(checks.check_count("games", self.games), key=self.seed)


@named_arguments
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


@named_arguments
def self_play(
    config: SelfPlay | None = None,
    run: str | os.PathLike[str] | None = None,
    *,
    learners: Mapping[str, Learner | Pair] | None = None,
    games: MatrixGame | MarkovGame | families.Family | None = None,
    name: str = "",
) -> Record:
    """Let two learners play random games, and return the record that `equipoise play` writes.

    At the rounds of `config.record_rounds`, the record holds the mean NashConv of the last and of
    the average policies (arrays `gap` and `average_gap`) and the regret of both players. It also
    holds the certificate of the last policies, and for games with three rows the path of one
    policy.

    `learners` gives names to further learners: your own, or players of `equipoise.incontext`. If a
    `ContextLearner` plays, the record also has the NashConv of mirror descent against itself in
    the same games (`omd_gap`).

    `games` replaces the family of the config, with a `name` for it in the record: another family,
    from which `config.games` games are drawn; one game, which is played `config.games` times with
    other random numbers; or a batch of games, each of which is played once. The learners see
    rewards outside [0, 1] scaled to that interval, from the smallest to the largest of `games`;
    NashConv and regret stay in units of reward.

    With `run`, everything is written to a run folder. Ctrl-C then stops the run within about a
    second, writes a checkpoint and returns the record so far, whose scalar `rounds` is less than
    the `rounds` of the config. The next call resumes the run and ends with the same record, bit
    for bit, as an uninterrupted run. If a `ContextLearner` plays, checkpoints hold only the games
    that were played to the end, because contexts are large: after Ctrl-C, the scalar `games` is
    less than the `games` of the config, and the next call plays the other games.

    **Example**

    >>> import equipoise as eq
    >>> record = eq.dynamics.self_play(eq.dynamics.SelfPlay(rounds=200, games=8))
    >>> record.arrays["rounds"].tolist()
    [100, 177, 200]
    >>> config = eq.dynamics.SelfPlay(row="mine", column="omd", rounds=16, games=4)
    >>> record = eq.dynamics.self_play(config, learners={"mine": eq.incontext.load("iid3")})
    >>> sorted(name for name in record.arrays if name.endswith("gap"))
    ['average_gap', 'gap', 'omd_gap']
    >>> pennies = eq.games.load("matching-pennies")
    >>> config = eq.dynamics.SelfPlay(rounds=200, games=8)
    >>> eq.dynamics.self_play(config, games=pennies).config["game"]
    'zero-sum matrix game, 2 x 2'
    """
    config = SelfPlay() if config is None else config
    if run is None:
        with tempfile.TemporaryDirectory() as folder:
            return self_play(config, folder, learners=learners, games=games, name=name)
    if checks.check_count("rounds", config.rounds) >= 2**31:
        raise InputError("rounds", "fewer than 2^31", f"{Decimal(config.rounds):.6g}")
    table = _Table(config.sample(), f"the family {config.family}")
    if games is not None:
        table = _table(games, config, name)
        config = replace(config, games=table.games.batch_shape[0])
    if config.noise not in NOISES:
        raise InputError("noise", f"one of {', '.join(NOISES)}", repr(config.noise))
    how: Any = {"markov": isinstance(table.games, MarkovGame), "rounds": config.rounds}
    names, given = {"row": config.row, "column": config.column}, learners or {}
    both = check_learners(
        table.games,
        *(
            given[name] if name in given else make_learner(name, argument=seat, **how)
            for seat, name in names.items()
        ),
    )
    settings: Any = config
    if own := [seat for seat, name in names.items() if name in given]:
        # A name does not say which learner it is: the folder of players may hold others tomorrow,
        # and so may a file of code.
        prints = {seat: _print(who) for seat, who in zip(names, both, strict=True)}
        settings = asdict(config) | {"fingerprints": {seat: prints[seat] for seat in own}}
    if games is not None:
        settings = settings if isinstance(settings, dict) else asdict(config)
        settings = {key: settings[key] for key in settings if key not in _OF_FAMILIES}
        prints = settings.get("fingerprints", {}) | {"games": _print(table.games)}
        sizes = {"actions": list(table.games.actions), "states": table.states}
        settings = {"game": table.name, **sizes, **settings, "fingerprints": prints}

    def play_on(folder: Any) -> tuple[Record, bool]:
        in_context = any(isinstance(who, ContextLearner) for who in both)
        played = (_by_games if in_context else _by_rounds)(config, table, *both)(folder)
        record = _record(config, settings, table, folder.metrics(), played)
        return record, played.last is not None

    return kept(run, settings, play_on, _PLAYED)[0]


#: Records, and whether all rounds were played.
_PLAYED: Format[tuple[Record, bool]] = Format(
    lambda run: (run.record(), True), lambda found, run: found[0] if found[1] else None
)


#: Settings of random families, without meaning for other games.
_OF_FAMILIES = ("family", "actions", "states", "discount", "concentration")


@dataclass(frozen=True)
class _Table:
    """The games that are played."""

    #: A batch of games.
    games: Any
    #: Their name in captions.
    name: str
    #: Interval of rewards that learners see as [0, 1].
    reward_range: tuple[float, float] = (0.0, 1.0)
    #: Labels of one game that is played many times.
    labels: Any = None

    @property
    def states(self) -> int | None:
        """Number of states of Markov games; None for matrix games."""
        return getattr(self.games, "states", None)


def _table(games: Any, config: SelfPlay, name: str) -> _Table:
    """Return the games to play: drawn from a family, one game many times, or a batch."""
    count = checks.check_count("games", config.games)
    if isinstance(games, families.Family):
        return _Table(games.sample(count, key=config.seed), name or f"the family {games.name}")
    if not isinstance(games, MatrixGame | MarkovGame) or len(games.batch_shape) > 1:
        found = games.describe() if hasattr(games, "describe") else type(games).__name__
        raise InputError("games", "a matrix game, a Markov game, a batch or a family", found)
    if isinstance(games, MarkovGame):
        games.check_stationary_zero_sum("games")
    rewards = np.asarray(games.payoff if isinstance(games, MatrixGame) else games.reward)
    low, high = float(rewards.min()), float(rewards.max())
    span = (0.0, 1.0) if low >= 0.0 and high <= 1.0 else (low, high if high > low else low + 1.0)
    labels = None if games.batch_shape else games.labels.to_plain()
    name = name or games.describe()
    return _Table(games if games.batch_shape else repeat_games(games, count), name, span, labels)


def _print(part: Any) -> str:
    """Return a digest of a learner or of games: values, and code outside this package."""
    return digest(part).tobytes().hex() + "".join(sorted(_code_of(part)))


def _code_of(part: Any) -> set[str]:
    """Return digests of the files that define the classes and functions of a learner."""
    module = sys.modules.get(type(part).__module__ if isinstance(part, eqx.Module | Value) else "")
    if callable(part) and module is None:
        module = sys.modules.get(getattr(part, "__module__", None) or "")
    found = set[str]()
    for value in vars(part).values() if isinstance(part, eqx.Module | Value) else ():
        found |= _code_of(value)
    file = getattr(module, "__file__", None)
    if module is None or file is None or module.__name__.partition(".")[0] in _STEADY:
        return found
    return found | {hashlib.blake2b(Path(file).read_bytes(), digest_size=16).hexdigest()}


#: Packages whose code does not change between two calls of a user.
_STEADY = ("equipoise", "jax", "jaxlib", "jaxtyping", "equinox", "numpy", "builtins")


class _Played(NamedTuple):
    """How far a run came."""

    #: Number of rounds, and number of games that were played as long.
    rounds: int
    games: int
    #: Policies of the row player in the plotted game, and their rounds, before the first recorded
    #: round and later.
    path: np.ndarray
    path_rounds: np.ndarray
    #: Policies after the last round of all games; None if the run was interrupted.
    last: tuple[np.ndarray, np.ndarray] | None


def _by_rounds(
    config: SelfPlay, table: _Table, row: Learner, column: Learner
) -> Callable[[Run], _Played]:
    """Return the function that plays all games in pieces of rounds, or resumes to do so.

    Resuming does not change a bit, so that play can be cut into pieces anywhere. The last round is
    played separately to obtain its trace.
    """
    record, noise = config.record_rounds, NOISES[config.noise]
    early = _path_rounds(record[0]) or (1,)

    def play_on(rounds: int, state: Any, **more: Any) -> Trace:
        more |= {"key": config.seed + 1} if state is None else {"state": state}
        more |= {"noise": noise, "reward_range": table.reward_range}
        return play(table.games, row, column, rounds=rounds, **more)

    first = play_on(early[-1], None, record=early)

    def advance(state: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
        trace = play_on(until - step, state if step else None)
        return trace.state, _row(trace) if until in record else {}

    def proceed(run: Run) -> _Played:
        pieces: Any = {"stride": 16, "marks": record[:-1], "look": PIECE_SECONDS}
        reached = resumable(run, first.state, advance, record[-1] - 1, name="playing", **pieces)
        path = first.recorded.last[0][:, _DRAWN], first.recorded.rounds
        if reached.stopped:
            return _Played(reached.step, config.games, *path, None)
        trace = play_on(1, reached.state if reached.step else None)
        run.log(trace.rounds, **_row(trace))
        return _Played(trace.rounds, config.games, *path, trace.last)

    return proceed


def _by_games(
    config: SelfPlay, table: _Table, row: Learner, column: Learner
) -> Callable[[Run], _Played]:
    """Return the function that plays some games to the end, then others, or resumes to do so.

    The result of a game does not depend on the other games. Checkpoints hold the results of the
    games that were played, and no contexts.
    """
    games = table.games
    for who, spec in zip((row, column), Tables.of(games).specs(), strict=True):
        jax.eval_shape(lambda who=who, spec=spec: who.init(spec))
    record = config.record_rounds
    stops = np.array(sorted({*_path_rounds(record[0]), *record}))
    late = np.isin(stops, record)
    omd = make_learner("omd", markov=isinstance(games, MarkovGame), rounds=config.rounds)
    keys = game_keys(config.seed + 1, games.batch_shape)
    shape = (len(record), config.games)
    states = () if table.states is None else (table.states,)
    nothing: dict[str, Any] = {
        "gaps": np.zeros((3, *shape)),
        "regret": np.zeros((*shape, 2)),
        "last": tuple(np.zeros((config.games, *states, count)) for count in games.actions),
        "path": np.zeros((len(stops), *states, games.actions[0])),
    }

    def advance(state: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
        some, how = slice(step, until), {"rounds": config.rounds, "noise": NOISES[config.noise]}
        how |= {"reward_range": table.reward_range}
        trace = play(games[some], row, column, key=keys[some], record=stops.tolist(), **how)
        other = play(games[some], omd, omd, key=keys[some], record=record, **how)
        curves = trace.curve[late], trace.average_curve[late], other.curve
        for gaps, curve in zip(state["gaps"], curves, strict=True):
            gaps[:, some] = curve
        for last, policy in zip(state["last"], trace.last, strict=True):
            last[some] = policy
        if trace.regret is not None:
            state["regret"][:, some] = trace.regret[late]
        if step <= _DRAWN < until:
            state["path"][:] = trace.recorded.last[0][:, _DRAWN - step]
        return state, {}

    def proceed(run: Run) -> _Played:
        some: Any = {"name": "playing games", "stride": context_batch()}
        try:
            reached = resumable(run, nothing, advance, config.games, **some)
        except KeyboardInterrupt:
            reached = Reached(run.restore(nothing), run.step, True)
        done, state = reached.step, reached.state
        for i, after in enumerate(record if done else ()):
            regret = state["regret"][i, :done] if table.states is None else None
            policy = state["path"][late][i]
            run.log(after, **_measured(state["gaps"][:, i, :done], regret, policy))
        last = state["last"] if done == config.games else None
        return _Played(config.rounds, done, state["path"], stops, last)

    return proceed


def _row(trace: Trace) -> dict[str, Any]:
    gaps = trace.curve[-1].ravel(), trace.average_curve[-1].ravel()
    regret = None if trace.regret is None else trace.regret[-1].reshape(-1, 2)
    return _measured(gaps, regret, np.asarray(trace.last[0])[_DRAWN])


def _measured(gaps: Any, regret: np.ndarray | None, policy: np.ndarray) -> dict[str, Any]:
    """Return a row of the metrics from the gaps and regrets of games, and one policy."""
    row: dict[str, Any] = {}
    for name, values in zip(("gap", "average_gap", "omd_gap"), gaps, strict=False):
        error = float(values.std() / np.sqrt(values.size))
        row |= {name: float(values.mean()), f"{name}_error": error}
    if regret is not None:
        mean = regret.mean(0)
        row |= {"row_regret": float(mean[0]), "column_regret": float(mean[1])}
    if policy.shape == (3,):  # a policy of a matrix game that can be drawn in a triangle
        row[_PATH] = policy.tolist()
    return row


def _record(
    config: SelfPlay, settings: Any, table: _Table, metrics: list[dict[str, Any]], played: _Played
) -> Record:
    """Return the record of a run, with a certificate if the run is complete."""
    games, states = table.games, () if table.states is None else (table.states,)
    uniform = tuple(np.full((*states, count), 1.0 / count) for count in games.actions)
    scalars: dict[str, Any] = {
        "uniform": float(certify(games, uniform).nash_conv.mean()),
        "gap": metrics[-1]["gap"] if metrics else None,
        "rounds": played.rounds,
        "games": played.games,
    }
    if table.labels is not None:
        scalars["labels"] = table.labels
    # With mirror descent's column, the table fits on a narrow screen without this one.
    left_out = {"average_gap_error"} if metrics and "omd_gap" in metrics[0] else set()
    shown = {name: title for name, title in _COLUMNS.items() if name not in left_out}
    rows = [{shown[name]: row[name] for name in row if name in shown} for row in metrics]
    curve = Table.from_dicts(rows) if rows else Table(tuple(_COLUMNS.values()), [])
    arrays = {name: np.array([row[name] for row in metrics]) for name in (metrics or [{}])[0]}
    later = arrays["rounds"] = arrays.pop("step", np.zeros(0, int))
    solution = None
    if played.last is not None:
        certificate = certify(games, played.last)
        message = f"{played.rounds:,} rounds were played"
        status = Verdict("learned", message)
        value = certificate.value[..., 0]
        solution = Solution(Profile(played.last), value, certificate, status)
    if _PATH in arrays:  # the path from round 1 on, and the equilibrium
        early = played.path_rounds < later[0]
        arrays[_PATH] = np.concatenate([played.path[early], arrays[_PATH]])
        arrays[f"{_PATH}_rounds"] = np.concatenate([played.path_rounds[early], later])
        arrays["nash"] = solve(games[_DRAWN]).policy[0]
        what = (
            f"row ({config.row}) against {config.column} in game {_DRAWN} of "
            f"{config.games:,}, of {table.name}"
        )
        scalars["drawn"] = {"what": what}
        if solution is not None:
            gap = np.asarray(solution.certificate.nash_conv)[_DRAWN]
            scalars["drawn"] |= {"gap": float(gap)}
    plain = None if solution is None else solution.to_plain()
    return Record("self-play", settings, scalars, arrays, {"curve": curve}, solution=plain)
