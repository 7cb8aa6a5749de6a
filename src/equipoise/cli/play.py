"""`equipoise play`: two learners play a family of games; the gap against the rounds."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

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
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.report import certificate_of, format_value, has_certificate
from equipoise.runs import Record

#: Every name of `equipoise.dynamics.LEARNERS`; named here, since that imports JAX.
LearnerName = Literal[
    "omd",
    "omd-vanishing",
    "omd-printed-constants",
    "omd-printed-signs",
    "cai-euclidean",
    "entropic",
    "log-barrier",
    "exp3-ix",
    "optimistic",
    "regret-matching",
    "v-learning",
    "uniform",
    "best-responder",
]


@dataclass(frozen=True)
class Play:
    """Let two learners play random games, each seeing only its own actions and rewards.

    Prints the mean exact gap of the last and of the average policies at chosen rounds, and the
    regret of both players; writes a run folder with the curve, and a page about it. Ctrl-C keeps
    what was played: the run goes on where it stopped when the command is given again.

    Examples:
      equipoise play --family uniform --actions 3 --row omd --column exp3-ix --rounds 1e5
      equipoise play --states 3 --concentration 0.1 --rounds 1e4 --games 64
    """

    #: Which random games.
    family: Literal["uniform", "gaussian"] = "uniform"
    #: Actions of each player.
    actions: int = 3
    #: States of a Markov game; matrix games are played if not given.
    states: int | None = None
    #: Discount of a Markov game; 0.9 if not given.
    discount: float | None = None
    #: Concentration of the Dirichlet distribution of transitions: 1 (if not given) is spread out,
    #: 0.1 nearly deterministic.
    concentration: float | None = None
    #: The learner that plays rows.
    row: LearnerName = "omd"
    #: The learner that plays columns.
    column: LearnerName = "omd"
    #: How many rounds; 1e6 is a million.
    rounds: int = 100_000
    #: How many games.
    games: int = 256
    #: How rewards are observed: exact, or with Bernoulli or Gaussian noise.
    noise: Literal["exact", "bernoulli", "gaussian"] = "exact"
    #: Where randomness begins.
    seed: int = 0
    #: The run folder; runs/play, or runs/play-2 and so on, if not given.
    run: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Play, print the table, write the run folder."""
        check_counts(actions=self.actions, rounds=self.rounds, games=self.games)
        check_counts(states=self.states)
        check_seed(self.seed)
        check_only_with_states(
            self.states, discount=self.discount, concentration=self.concentration
        )
        given = {k: v for k, v in asdict(self).items() if k not in ("run", "common")}
        config = eq.dynamics.SelfPlay(**{k: v for k, v in given.items() if v is not None})

        def play(run: Path) -> tuple[bool, Record]:
            return (run / "record.json").exists(), eq.dynamics.self_play(config, run)

        folder, (known, record) = in_run_folder(self.run, "play", play)
        self._show(record, folder, known, write_run_page(folder, anew=not known))
        if record.scalars["rounds"] < config.rounds:
            raise Interrupted(
                f" after {record.scalars['rounds']:,} of {config.rounds:,} rounds, which are kept; "
                "to go on, give the same command again"
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
        how = f"{folder} (finished earlier; read, not played again)" if known else str(folder)
        pairs = [("run folder", how), ("uniform play", record.scalars["uniform"])]
        if has_certificate(record):
            gains = certificate_of(record).max_gain
            told = f"{format_value(gains.mean())} in the mean game, {format_value(gains.max())} in"
            pairs.append(("largest gain, certified", f"{told} the worst"))
        print_pairs([*pairs, *([] if page is None else [("report", str(page))])])
