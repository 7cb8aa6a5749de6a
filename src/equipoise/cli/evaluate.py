"""`equipoise evaluate`: saved players on games they have never seen, beside everything else."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from equipoise.cli._errors import flags, refusing
from equipoise.cli._flags import COMMON, CommonOptions, Count, Folder, Int, check_counts, check_seed

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

#: Rounds of play, unless said otherwise, of players that were trained for more: a few minutes.
LONGEST = 256


@dataclass(frozen=True)
class Evaluate:
    """Compare pre-trained players with learners, static policies and opponents.

    PLAYERS is a folder that `equipoise pretrain` wrote, or the name of players that come with the
    package. Games are drawn anew from the family they were trained on. With --run, the record and
    a page with figures are kept in a folder.

    Examples:
      equipoise evaluate iid3 --games 1000
      equipoise evaluate runs/iid3 --rounds 1024 --run runs/iid3-evaluated
    """

    #: A run folder of `equipoise pretrain`, or a name.
    players: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PLAYERS")]
    #: How many games.
    games: Count = 1000
    #: How many rounds; those of training if not given, and 256 at most.
    rounds: Int = None
    #: Rounds that mirror descent may take to reach the players' final gap.
    search: Count = 1_000_000
    #: In how many of the games opponents are met.
    opponent_games: Count = 256
    #: What is seen of a reward.
    noise: Literal["exact", "bernoulli", "gaussian"] = "exact"
    #: Where randomness begins.
    seed: int = 1
    #: Keep the record and a report here.
    run: Folder = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Load, play, print, keep."""
        self._check()
        config, players, family = self._load()
        if self.run is None:
            with refusing(**flags("games", "rounds", "search", "opponent_games", "noise")):
                record = self._evaluate(config, players, family)
        else:
            record = self._kept(self.run, config, players, family)
        self._show(record)
        return 0

    def _check(self) -> None:
        check_seed(self.seed)
        check_counts(search=self.search, games=self.games, rounds=self.rounds)
        check_counts(opponent_games=self.opponent_games)

    def _load(self) -> tuple[dict[str, Any], Any, Any]:
        """The config, the players and their family."""
        import equipoise as eq

        with refusing("PLAYERS", name="PLAYERS", config="PLAYERS"):
            described = eq.incontext.description(self.players)
            players = eq.incontext.load(self.players)
            family = eq.incontext.family_of(self.players)
        trained = described["config"]["rounds"]
        config = {
            "players": self.players,
            "parameters": players.parameters,
            "seeds": players.seeds,
            "family": described["family"],
            "games": self.games,
            "rounds": min(trained, LONGEST) if self.rounds is None else self.rounds,
            "search": self.search,
            "opponent_games": self.opponent_games,
            "noise": self.noise,
            "seed": self.seed,
        }
        return config, players, family

    def _evaluate(self, config: dict[str, Any], players: Any, family: Any) -> Any:
        """The record."""
        import equipoise as eq
        from equipoise.runs import Record

        noises = {
            "exact": eq.dynamics.Exact,
            "bernoulli": eq.dynamics.Bernoulli,
            "gaussian": eq.dynamics.Gaussian,
        }
        games = family.sample(self.games, key=self.seed)
        found = eq.incontext.evaluate(
            players,
            games,
            config["rounds"],
            self.seed + 1,
            training=family,
            search=config["search"],
            opponent_games=self.opponent_games,
            noise=noises[self.noise](),
        )
        return Record(found.name, config, found.scalars, found.arrays, found.tables)

    def _kept(self, folder: Path, config: dict[str, Any], players: Any, family: Any) -> Any:
        """The record of the run folder; made now unless it is there."""
        from equipoise.cli._evaluation_page import evaluation_page
        from equipoise.cli._folders import check_folder
        from equipoise.runs import Run

        check_folder(folder)
        with refusing():
            run = Run.start(folder, config)
        with run:
            if run.finished:
                with refusing():
                    return run.record()
            with refusing():
                record = self._evaluate(config, players, family)
                evaluation_page(record, self._command()).write(folder / "report.html")
            return run.finish(record)

    def _command(self) -> str:
        """The command that makes the same record."""
        rounds = "" if self.rounds is None else f" --rounds {self.rounds}"
        return (
            f"equipoise evaluate {self.players} --games {self.games}{rounds} "
            f"--search {self.search} --opponent-games {self.opponent_games} "
            f"--noise {self.noise} --seed {self.seed} --run {self.run}"
        )

    def _show(self, record: Any) -> None:
        from equipoise.cli._output import print_json, print_pairs, print_table, record_document

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


def _rounded(table: Any) -> Any:
    """The same with four decimals."""
    return type(table)(
        table.columns,
        [tuple(round(v, 4) if isinstance(v, float) else v for v in row) for row in table.rows],
    )
