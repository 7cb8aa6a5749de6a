"""`equipoise evaluate`: compare saved players with other methods on unseen games."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

import equipoise as eq
from equipoise.cli._inputs import (
    MixedKind,
    Noise,
    check_counts,
    check_folder,
    check_seed,
    load_family,
)
from equipoise.cli._main import Interrupted
from equipoise.cli._output import (
    print_json,
    print_pairs,
    print_table,
    record_document,
    write_run_page,
)
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.core.errors import InputError

#: Tables to print, in this order: name in the record -> title.
TITLES = {
    "gap": "Mean NashConv of the last policies, by number of rounds",
    "gap_error": "Standard errors over games",
    "rounds_to_gap": "Rounds that mirror descent needs to reach the players' final NashConv",
    "opponents": "Reward per round, and its excess over the value of the game, with standard "
    "errors; late: in the last quarter of the rounds",
    "distance": "Total-variation distance from mirror descent on the same history",
}
#: Addition to the title of NashConv in Markov games.
MARKOV_UNIT = "; gains are discounted sums, each player's from its worst state"


@dataclass(frozen=True)
class Evaluate:
    """Compare pre-trained players with learners, static policies and opponents.

    PLAYERS is a folder that `equipoise pretrain` wrote, or the name of players that come with the
    package. New games are drawn from the family that the players were trained on, or from one of
    your own. With --run, a folder keeps the record and a report with figures. Ctrl-C prints the
    tables of what is finished.

    Examples:
      equipoise evaluate iid3 --games 1000
      equipoise evaluate runs/iid3 --rounds 1024 --run runs/iid3-evaluated
      equipoise evaluate runs/mine --family mine.py:family
      equipoise evaluate any --kind binary --actions 2 --columns 5 --noise bernoulli
    """

    ARGUMENTS: ClassVar = {"name": "PLAYERS"}

    #: The players: a run folder of `equipoise pretrain`, or the name of players in the package.
    players: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[PLAYERS]")] = "any"

    # -- evaluation

    #: Number of games.
    games: int = 1000
    #: Number of rounds. Default: as in training, but at most 256.
    rounds: int | None = None
    #: Largest number of rounds in which mirror descent may reach the players' final NashConv.
    search: int = 1_000_000
    #: Number of games that are played against each opponent.
    opponent_games: int = 256
    #: How rewards are observed: exact, or with Bernoulli or Gaussian noise.
    noise: Noise = "exact"

    # -- game

    #: Draw games from this family of your own instead, MODULE:OBJECT such as mine.py:family, whose
    #: code is run. Players that were trained on a family of your own need it.
    family: Annotated[str | None, tyro.conf.arg(metavar="MODULE:OBJECT")] = None
    #: Kind of games to draw. Only for players for games of any size. Default: uniform.
    kind: MixedKind | None = None
    #: Number of actions of the row player, for players of any size. Default: 3.
    actions: int | None = None
    #: Number of actions of the column player, for players of any size. Default: the same as for the
    #: row player.
    columns: int | None = None
    #: Number of states, for players of Markov games of any size. Default: 3.
    states: int | None = None

    # -- evaluation

    #: Random seed, a whole number in [0, 2^32).
    seed: int = 1

    # -- output

    #: Run folder for the record and a report. Default: nothing is saved.
    run: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Load the players, play, print and save."""
        check_seed(self.seed)
        check_counts(search=self.search, games=self.games, rounds=self.rounds)
        check_counts(opponent_games=self.opponent_games, states=self.states)
        check_counts(actions=self.actions, columns=self.columns, at_least=2)
        names = ("games", "rounds", "search", "opponent_games", "noise", "kind", "states", "seed")
        asked: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.actions is not None or self.columns is not None:
            rows = 3 if self.actions is None else self.actions
            asked["actions"] = (rows, rows if self.columns is None else self.columns)
        if self.family is not None:
            for name in ("kind", "actions", "columns", "states"):
                if (value := getattr(self, name)) is not None:
                    raise InputError(name, f"no value with {self.family}, which decides it", value)
            asked["family"] = load_family(self.family)
        if self.run is not None:
            check_folder(self.run)
        try:
            record = eq.incontext.evaluate_saved(self.players, **asked, run=self.run)
        except KeyboardInterrupt as end:
            more = ""
            if isinstance(end, eq.runs.Unfinished) and not self.common.json:
                self._show(end.found)
                more = f"; the tables show what was finished, {end.found.config['games']:,} games"
            if self.run is not None:
                more += f"; progress is saved in {self.run}; to resume, run the same command again"
            raise Interrupted(more) from end
        if self.run is not None:
            write_run_page(self.run)
        self._show(record)
        return 0

    def _show(self, record: "eq.runs.Record") -> None:
        if self.common.json:
            folder = None if self.run is None else str(self.run)
            print_json({"folder": folder, **record_document(record)})
            return
        markov = record.config["family"]["states"] is not None
        titles = TITLES | ({"gap": TITLES["gap"] + MARKOV_UNIT} if markov else {})
        for name, title in titles.items():
            table = record.tables[name]
            if not table.rows:  # Ctrl-C came first
                continue
            # Rewards are near 0.5: with four decimals the table fits on a narrow screen.
            print_table(_rounded(table) if name == "opponents" else table, title)
        beaten = "; ".join(record.scalars["beaten_at_every_round"]) or "none"
        compared = len(record.tables["gap"].rows) > 1  # not if Ctrl-C came first
        pairs = [
            ("final NashConv", f"{record.scalars['gap']:.4f} ± {record.scalars['error']:.4f}"),
            ("larger NashConv at every round", beaten if compared else None),
        ]
        if record.config["seeds"] > 1:
            pairs.append(("± over seeds", f"{record.scalars['seed_error']:.4f}"))
        print_pairs([*pairs, ("report", self.run and self.run / "report.html")])


def _rounded(table: "eq.runs.Table") -> "eq.runs.Table":
    """Round the numbers of a table to four decimals."""
    rows = [tuple(round(v, 4) if isinstance(v, float) else v for v in row) for row in table.rows]
    return eq.runs.Table(table.columns, rows)
