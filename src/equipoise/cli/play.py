"""`equipoise play`: two learners play a family of games; the gap against the rounds."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from equipoise.cli._errors import CommandError, refusing

#: Every learner that `equipoise.papers.self_play` can make; named here, since that imports JAX.
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
    regret of both players; writes a run folder with the curve. Ctrl-C keeps what was played: the
    run goes on where it stopped when the command is given again.

    Examples:
      equipoise play --family uniform --actions 3 --row omd --column exp3-ix --rounds 1e5
      equipoise play --states 3 --concentration 0.1 --rounds 1e4 --games 64
    """

    family: Literal["uniform", "gaussian"] = "uniform"
    """Which random games."""
    actions: int = 3
    """Actions of each player."""
    states: int | None = None
    """States of a Markov game; without, matrix games are played."""
    discount: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None
    """Discount of a Markov game (0.9)."""
    concentration: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None
    """Of the Dirichlet distribution of transitions: 1 (if not given) is spread out, 0.1 nearly
    deterministic."""
    row: LearnerName = "omd"
    """Who plays rows."""
    column: LearnerName = "omd"
    """Who plays columns."""
    rounds: float = 1e5
    """How many rounds; 1e5 is 100,000."""
    games: int = 256
    """How many games."""
    noise: Literal["exact", "bernoulli", "gaussian"] = "exact"
    """What is seen of a reward."""
    seed: int = 0
    """Where randomness begins."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/play")
    """The run folder."""
    json: bool = False
    """Print the curve as JSON."""

    def run(self) -> int:
        """Play, print the table, write the run folder."""
        from equipoise.papers.self_play import Config, play_run

        self._check()
        config = Config(
            family=self.family,
            actions=self.actions,
            states=self.states,
            discount=0.9 if self.discount is None else self.discount,
            concentration=1.0 if self.concentration is None else self.concentration,
            row=self.row,
            column=self.column,
            rounds=int(self.rounds),
            games=self.games,
            noise=self.noise,
            seed=self.seed,
        )
        known = (self.out / "record.json").exists()
        with refusing():
            record = play_run(self.out, config)
        self._show(record, known)
        if record.scalars["rounds"] < config.rounds:
            print(
                f"equipoise: interrupted after {record.scalars['rounds']:,} of {config.rounds:,} "
                "rounds, which are kept; to go on, give the same command again",
                file=sys.stderr,
            )
            return 130
        return 0

    def _check(self) -> None:
        if not 1 <= self.rounds < 2**31 or self.rounds != int(self.rounds):
            raise CommandError(
                f"--rounds: expected a whole number in [1, 2^31), found {self.rounds:g}"
            )
        if not 0 <= self.seed < 2**32:
            raise CommandError(f"--seed: expected a number in [0, 2**32), found {self.seed}")
        for name in ("discount", "concentration"):
            value = getattr(self, name)
            if value is not None and self.states is None:
                raise CommandError(
                    f"--{name}: expected --states with it, since matrix games have none; "
                    f"found {value:g} alone"
                )

    def _show(self, record: Any, known: bool) -> None:
        from equipoise.cli._output import print_json, print_pairs, print_table

        finished = record.scalars["rounds"] == record.config["rounds"]
        if self.json:
            print_json(
                {
                    "config": record.config,
                    "folder": str(self.out),
                    "rounds": record.scalars["rounds"],
                    "finished": finished,
                    "read_from_disk": known,
                    "uniform": record.scalars["uniform"],
                    "curve": record.arrays,
                }
            )
            return
        print_table(record.tables["curve"], f"{self.row} against {self.column}")
        how = f"{self.out} (finished earlier; read, not played again)" if known else str(self.out)
        print_pairs([("run folder", how), ("uniform play", record.scalars["uniform"])])
