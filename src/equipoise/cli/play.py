"""`equipoise play`: two learners play a family of games; the gap against the rounds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from equipoise.cli._errors import CommandError, refusing

LearnerName = Literal[
    "omd",
    "omd-vanishing",
    "omd-printed-constants",
    "omd-printed-signs",
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
    regret of both players; writes a run folder with the curve. A run that was interrupted goes
    on where it stopped when the command is given again.

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
    discount: float = 0.9
    """Discount of a Markov game."""
    concentration: float = 1.0
    """Of the Dirichlet distribution of transitions: 1 spread out, 0.1 nearly deterministic."""
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

    def run(self) -> int:
        """Play, print the table, write the run folder."""
        from equipoise.cli._output import print_pairs, print_table
        from equipoise.papers.self_play import Config, play_run

        if self.rounds < 1 or self.rounds != int(self.rounds):
            raise CommandError(f"--rounds: expected a whole number >= 1, found {self.rounds}")
        if not 0 <= self.seed < 2**32:
            raise CommandError(f"--seed: expected a number in [0, 2**32), found {self.seed}")
        config = Config(
            family=self.family,
            actions=self.actions,
            states=self.states,
            discount=self.discount,
            concentration=self.concentration,
            row=self.row,
            column=self.column,
            rounds=int(self.rounds),
            games=self.games,
            noise=self.noise,
            seed=self.seed,
        )
        with refusing():
            record = play_run(self.out, config)
        print_table(record.tables["curve"], f"{self.row} against {self.column}")
        print_pairs([("run folder", str(self.out)), ("uniform play", record.scalars["uniform"])])
        return 0
