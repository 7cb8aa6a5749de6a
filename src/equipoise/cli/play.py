"""`equipoise play`: two learners play random games; print NashConv by number of rounds."""

from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import equipoise as eq
from equipoise.cli._inputs import (
    check_counts,
    check_only_with_states,
    check_seed,
    in_run_folder,
)
from equipoise.cli._main import Interrupted
from equipoise.cli._output import (
    print_json,
    print_pairs,
    print_table,
    solution_document,
    write_run_page,
)
from equipoise.cli._parsing import COMMON, CommonOptions, one_of
from equipoise.core.errors import InputError
from equipoise.report import certificate_of, format_value, has_certificate
from equipoise.runs import Record

#: Default numbers of rounds and games, for players that were trained for short matches and for
#: everybody else.
SHORT, LONG = {"rounds": 1000, "games": 32}, {"rounds": 100_000, "games": 256}


def names() -> list[str]:
    """Return the names of all learners and of the players that come with the package.

    >>> {"omd", "any"} <= set(names())
    True
    """
    return [*eq.dynamics.LEARNERS, *eq.incontext.shipped()]


def _a_name() -> Any:
    """Return the type of a name: the known ones are listed in the help, and folders are allowed."""
    return tyro.extras.literal_type_from_choices(names()) | str | None


Name = Annotated[str | None, tyro.conf.arg(constructor_factory=_a_name)]


@dataclass(frozen=True)
class Play:
    """Let two learners play random games, and measure NashConv and regret.

    Without options, the pre-trained players "any" play 1,000 rounds of 3 x 3 games, and the table
    compares them with mirror descent (of OMD). A learner is named, or pre-trained: "any",
    "markov" for Markov games, and the others that `equipoise evaluate` accepts, or a folder that
    `equipoise pretrain` wrote. Pre-trained players play as many rounds as they were trained for,
    about 1,000. As guarded:any, they play longer: mirror descent continues from their policies.

    Most learners, and all pre-trained ones, see only their own actions and rewards; optimistic and
    regret-matching see the reward of every own action, and best-responder sees the game.

    Prints the mean NashConv of the last and of the average policies at selected rounds, and the
    regret of both players. Writes a run folder with the curves and a report. After Ctrl-C,
    run the same command again to resume.

    Examples:
      equipoise play
      equipoise play --row any --column omd --actions 5
      equipoise play --row guarded:any --rounds 1e5
      equipoise play --row omd --column exp3-ix --rounds 1e5
      equipoise play --states 3 --concentration 0.1 --rounds 1e4 --games 64
    """

    # -- game

    #: Distribution of the rewards of the random games.
    family: Literal["uniform", "gaussian"] = "uniform"
    #: Number of actions of each player.
    actions: int = 3
    #: Number of states of a Markov game. Default: matrix games, which have no states.
    states: int | None = None
    #: Discount factor of a Markov game. Default: 0.9.
    discount: float | None = None
    #: Concentration of the Dirichlet distribution of transitions. With 1, transitions are spread
    #: out; with 0.1, they are nearly deterministic. Default: 1.
    concentration: float | None = None

    # -- play

    #: Learner that plays the rows: a name, a folder of players, or guarded: and players. Default:
    #: any, or markov with --states, in games of a size and length that it can play, otherwise omd.
    row: Name = None
    #: Learner that plays the columns. Default: the same as for the rows.
    column: Name = None
    #: Number of rounds, which may be written as 1e6. Default: 100,000; if a pre-trained player
    #: without a guard plays, 1,000, or the length of its training games if they are shorter.
    rounds: int | None = None
    #: Number of games. Default: 32 if a pre-trained player plays, otherwise 256.
    games: int | None = None
    #: How rewards are observed: exact, or with Bernoulli or Gaussian noise.
    noise: Annotated[str, one_of("equipoise.dynamics", "NOISES")] = "exact"
    #: Random seed, a whole number in [0, 2^32).
    seed: int = 0

    # -- output

    #: Run folder. Default: runs/play, or runs/play-2 and so on if another run is there.
    run: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Play, print the table and write the run folder."""
        check_counts(actions=self.actions, rounds=self.rounds, games=self.games)
        check_counts(states=self.states)
        check_seed(self.seed)
        check_only_with_states(
            self.states, discount=self.discount, concentration=self.concentration
        )
        config, players = self._seated()
        work = partial(eq.dynamics.self_play, config, learners=players)
        folder, known, record = in_run_folder(self.run, "play", work)
        self._show(record, folder, known, write_run_page(folder, anew=not known))
        for what in ("rounds", "games"):
            done, whole = record.scalars.get(what, config.games), getattr(config, what)
            if done < whole:
                told = f"after {done:,} of {whole:,} {what}, now saved"
                told = told if done else f"before any of the {whole:,} {what} was finished"
                raise Interrupted(f" {told}; to resume, run the same command again")
        return 0

    def _seated(self) -> tuple[Any, dict[str, Any]]:
        """Return the settings, and the players by name; refuse players that cannot play."""
        given = {k: v for k, v in asdict(self).items() if k not in ("run", "common")}
        config = eq.dynamics.SelfPlay(**{k: v for k, v in given.items() if v is not None})
        row = self.row
        if row is None:
            row = "any" if self.states is None else "markov"
            try:
                _players(row, "row", replace(config, rounds=self.rounds or SHORT["rounds"]))
            except InputError:
                row = "omd"
        seats = {"row": row, "column": self.column or row}
        players = [name for name in seats.values() if name not in eq.dynamics.LEARNERS]
        if self.games is None:
            config = replace(config, games=(SHORT if players else LONG)["games"])
        found: dict[str, Any] = {}
        for seat, name in seats.items():
            if name in players and name not in found:
                found[name] = _players(name, seat, replace(config, rounds=self.rounds or 1))
        if self.rounds is None:
            lengths = [_trained_rounds(name) for name in found if not name.startswith("guarded:")]
            rounds = min(SHORT["rounds"], *lengths) if lengths else LONG["rounds"]
            config = replace(config, rounds=rounds)
        return replace(config, **seats), found

    def _show(self, record: Record, folder: Path, known: bool, page: Path | None) -> None:
        if self.common.json:
            print_json(
                {
                    "config": record.config,
                    "folder": str(folder),
                    "rounds": record.scalars["rounds"],
                    "games": record.scalars.get("games", record.config["games"]),
                    "finished": record.solution is not None,
                    "read_from_disk": known,
                    "uniform": record.scalars["uniform"],
                    "curve": record.arrays,
                    **solution_document(record),
                }
            )
            return
        curve, seats = record.tables["curve"], [record.config[seat] for seat in ("row", "column")]
        if curve.rows:  # none if Ctrl-C came first
            print_table(curve, " against ".join(seats))
        how = f"{folder} (finished earlier; read from disk)" if known else str(folder)
        pairs: list[Any] = [("run folder", how), ("uniform play", record.scalars["uniform"])]
        if has_certificate(record):
            gains = certificate_of(record).max_gain
            told = f"{format_value(gains.mean())} on average, {format_value(gains.max())} in"
            pairs.append(("largest gain, certified", f"{told} the worst game"))
        print_pairs([*pairs, ("report", page)])


def _trained_rounds(name: str) -> int:
    """Return the length of the longest games that players were trained on."""
    config = eq.incontext.Config.from_plain(eq.incontext.description(name)["config"])
    return max(stage.rounds for stage in config.staged())


def _players(name: str, seat: str, config: Any) -> Any:
    """Return the players of a name; refuse an unknown name, and players that cannot play."""
    plain = name.removeprefix("guarded:")
    if plain not in names() and not Path(plain).exists():
        close = get_close_matches(plain, names(), n=1)
        hint = f"did you mean {close[0]}?" if close else ""
        wanted = f"one of {', '.join(names())}, or a folder of players"
        raise InputError(seat, wanted, repr(name), hint)
    match: Any = {"actions": config.actions, "states": config.states, "rounds": config.rounds}
    return eq.incontext.make_players(name, **match, argument=seat)
