"""`equipoise play`: two learners play random games; print NashConv by number of rounds."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

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
from equipoise.report import certificate_of, format_value, has_certificate
from equipoise.runs import Record

Learner = Annotated[str, one_of("equipoise.dynamics", "LEARNERS")]


@dataclass(frozen=True)
class Play:
    """Let two learners play random games, and measure NashConv and regret.

    Most learners see only their own actions and rewards; optimistic and regret-matching see the
    reward of every own action, and best-responder sees the game.

    Prints the mean NashConv of the last and of the average policies at selected rounds, and the
    regret of both players. Writes a run folder with the curves and a report. After Ctrl-C,
    run the same command again to resume.

    Examples:
      equipoise play --family uniform --actions 3 --row omd --column exp3-ix --rounds 1e5
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

    #: Learner that plays the rows.
    row: Learner = "omd"
    #: Learner that plays the columns.
    column: Learner = "omd"
    #: Number of rounds, which may be written as 1e6.
    rounds: int = 100_000
    #: Number of games.
    games: int = 256
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
        given = {k: v for k, v in asdict(self).items() if k not in ("run", "common")}
        config = eq.dynamics.SelfPlay(**{k: v for k, v in given.items() if v is not None})
        work = partial(eq.dynamics.self_play, config)
        folder, known, record = in_run_folder(self.run, "play", work)
        self._show(record, folder, known, write_run_page(folder, anew=not known))
        if record.scalars["rounds"] < config.rounds:
            raise Interrupted(
                f" after {record.scalars['rounds']:,} of {config.rounds:,} rounds, now saved; "
                "to resume, run the same command again"
            )
        return 0

    def _show(self, record: Record, folder: Path, known: bool, page: Path | None) -> None:
        if self.common.json:
            print_json(
                {
                    "config": record.config,
                    "folder": str(folder),
                    "rounds": record.scalars["rounds"],
                    "finished": record.scalars["rounds"] == record.config["rounds"],
                    "read_from_disk": known,
                    "uniform": record.scalars["uniform"],
                    "curve": record.arrays,
                    **solution_document(record),
                }
            )
            return
        print_table(record.tables["curve"], f"{self.row} against {self.column}")
        how = f"{folder} (finished earlier; read from disk)" if known else str(folder)
        pairs: list[Any] = [("run folder", how), ("uniform play", record.scalars["uniform"])]
        if has_certificate(record):
            gains = certificate_of(record).max_gain
            told = f"{format_value(gains.mean())} on average, {format_value(gains.max())} in"
            pairs.append(("largest gain, certified", f"{told} the worst game"))
        print_pairs([*pairs, ("report", page)])
