"""`equipoise evaluate`: saved players on games they have never seen, beside everything else."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

import equipoise as eq
from equipoise.cli._inputs import check_counts, check_folder, check_seed
from equipoise.cli._main import Interrupted
from equipoise.cli._output import (
    print_json,
    print_pairs,
    print_table,
    record_document,
    write_run_page,
)
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.runs import Record, Table

#: What is printed, in this order: name of the table in the record -> its title.
TITLES = {
    "gap": "Mean gap (NashConv) of the last policies, after so many rounds",
    "gap_error": "Standard errors over games",
    "rounds_to_gap": "Rounds that mirror descent needs for the players' final gap",
    "opponents": "Reward per round, and what of it is beyond the value of the game, with standard "
    "errors; late: in the last quarter of the rounds",
    "distance": "Total-variation distance from mirror descent on the same history",
}
#: What is added to the title of the gaps of Markov games.
MARKOV_UNIT = "; of discounted sums, each player's gain in its worst state"


#: Every name of `equipoise.games.families.mixture`; named here, since that imports JAX.
Kind = Literal[
    "uniform",
    "normal",
    "sparse",
    "binary",
    "narrow",
    "symmetric",
    "cyclic",
    "dominated",
    "known",
    "low-rank",
]


@dataclass(frozen=True)
class Evaluate:
    """Compare pre-trained players with learners, static policies and opponents.

    PLAYERS is a folder that `equipoise pretrain` wrote, or the name of players that come with the
    package. Games are drawn anew from the family they were trained on. With --run, the record and
    a page with figures are kept in a folder.

    Examples:
      equipoise evaluate iid3 --games 1000
      equipoise evaluate runs/iid3 --rounds 1024 --run runs/iid3-evaluated
      equipoise evaluate any --kind binary --actions 2 --columns 5 --noise bernoulli
    """

    ARGUMENTS: ClassVar = {"name": "PLAYERS"}

    #: A run folder of `equipoise pretrain`, or a name.
    players: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PLAYERS")]
    #: Number of games.
    games: int = 1000
    #: Number of rounds. Default: that of training, at most 256.
    rounds: int | None = None
    #: Most rounds in which mirror descent may reach the players' final gap.
    search: int = 1_000_000
    #: Number of games in which the players meet opponents.
    opponent_games: int = 256
    #: How rewards are observed: exact, or with Bernoulli or Gaussian noise.
    noise: Literal["exact", "bernoulli", "gaussian"] = "exact"
    #: Kind of games for players of any size. Default: uniform.
    kind: Kind | None = None
    #: Number of actions of the row player, for players of any size. Default: 3.
    actions: int | None = None
    #: Number of actions of the column player, for players of any size. Default: that of the row
    #: player.
    columns: int | None = None
    #: Random seed.
    seed: int = 1
    #: Folder for the record and a report.
    run: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Load, play, print, keep."""
        check_seed(self.seed)
        check_counts(search=self.search, games=self.games, rounds=self.rounds)
        check_counts(opponent_games=self.opponent_games)
        check_counts(actions=self.actions, columns=self.columns, at_least=2)
        names = ("games", "rounds", "search", "opponent_games", "noise", "kind", "seed")
        asked: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.actions is not None or self.columns is not None:
            rows = 3 if self.actions is None else self.actions
            asked["actions"] = (rows, rows if self.columns is None else self.columns)
        if self.run is not None:
            check_folder(self.run)
        try:
            record = eq.incontext.evaluate_saved(self.players, **asked, run=self.run)
        except KeyboardInterrupt as end:
            if self.run is None:
                raise
            more = f"; what was done is kept in {self.run}; to go on, give the same command again"
            raise Interrupted(more) from end
        if self.run is not None:
            write_run_page(self.run)
        self._show(record)
        return 0

    def _show(self, record: Record) -> None:
        if self.common.json:
            folder = None if self.run is None else str(self.run)
            print_json({"folder": folder, **record_document(record)})
            return
        markov = record.config["family"]["states"] is not None
        titles = TITLES | ({"gap": TITLES["gap"] + MARKOV_UNIT} if markov else {})
        for name, title in titles.items():
            # Rewards are around a half: four decimals, and the table fits on a narrow screen.
            table = record.tables[name]
            print_table(_rounded(table) if name == "opponents" else table, title)
        beaten = record.scalars["beaten_at_every_round"]
        pairs = [
            ("final gap", f"{record.scalars['gap']:.4f} ± {record.scalars['error']:.4f}"),
            ("above it at every round", "; ".join(beaten) or "none"),
        ]
        if record.config["seeds"] > 1:
            pairs.append(("± over seeds", f"{record.scalars['seed_error']:.4f}"))
        if self.run is not None:
            pairs.append(("report", str(self.run / "report.html")))
        print_pairs(pairs)


def _rounded(table: Table) -> Table:
    """The same with four decimals."""
    rows = [tuple(round(v, 4) if isinstance(v, float) else v for v in row) for row in table.rows]
    return Table(table.columns, rows)
