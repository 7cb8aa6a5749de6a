"""`equipoise play`: two learners play games; print NashConv by number of rounds."""

from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

import equipoise as eq
from equipoise.cli._inputs import (
    FAMILIES,
    LEARNERS,
    Noise,
    check_counts,
    check_only_with_states,
    check_seed,
    find_family,
    find_game,
    in_run_folder,
)
from equipoise.cli._main import Interrupted
from equipoise.cli._objects import is_object, load_object
from equipoise.cli._output import (
    print_json,
    print_pairs,
    print_table,
    solution_document,
    write_run_page,
)
from equipoise.cli._parsing import COMMON, CommonOptions, Settings
from equipoise.core.errors import InputError
from equipoise.incontext import shipped

#: Default numbers of rounds and games, for players that were trained for short matches and for
#: everybody else.
SHORT, LONG = {"rounds": 1000, "games": 32}, {"rounds": 100_000, "games": 256}


def names() -> list[str]:
    """Return the names of all learners and of the players that come with the package.

    >>> {"omd", "any"} <= set(names())
    True
    """
    return [*LEARNERS, *shipped()]


def _a_name() -> Any:
    """Return the type of a name: the known ones are listed in the help, and folders are allowed."""
    return tyro.extras.literal_type_from_choices(names()) | str | None


Name = Annotated[str | None, tyro.conf.arg(constructor_factory=_a_name)]


@dataclass(frozen=True)
class Play:
    """Let two learners play random games or your own, and measure NashConv and regret.

    Without options, the pre-trained players "any" play 1,000 rounds of 3 x 3 games, and the table
    compares them with mirror descent (of OMD). A learner is named, or pre-trained: "any",
    "markov" for Markov games, and the others that `equipoise evaluate` accepts, or a folder that
    `equipoise pretrain` wrote. Pre-trained players play as many rounds as they were trained for,
    about 1,000. As guarded:any, they play longer: mirror descent continues from their policies.

    Most learners, and all pre-trained ones, see only their own actions and rewards; optimistic and
    regret-matching see the reward of every own action, and best-responder sees the game.

    --game plays one game many times, or each game of a file once. Learners see rewards outside
    [0, 1] scaled to that interval. Games, families and learners of your own are given as
    MODULE:OBJECT, such as mine.py:Greedy: an object in a file or module, or a function that returns
    one. This runs the code of the module.

    Prints the mean NashConv of the last and of the average policies at selected rounds, and the
    regret of both players. Writes a run folder with the curves and a report. After Ctrl-C,
    run the same command again to resume.

    Examples:
      equipoise play
      equipoise play --row any --column omd --actions 5
      equipoise play --row guarded:any --rounds 1e5
      equipoise play --row omd --column exp3-ix --rounds 1e5
      equipoise play --states 3 --concentration 0.1 --rounds 1e4 --games 64
      equipoise play --family perturbed --scale 0.1 --base hide-and-seek
      equipoise play --game payoffs.csv --row omd --rounds 1e4
      equipoise play --row mine.py:Greedy --column omd --family mine.py:family
    """

    # -- game

    #: Family of random games: independent rewards (uniform or gaussian), games near one game
    #: (perturbed), games of many kinds (mixture), or a family of your own (MODULE:OBJECT).
    family: Annotated[str, tyro.conf.arg(metavar=f"{'|'.join(FAMILIES)}|MODULE:OBJECT")] = "uniform"
    #: Play this game instead of random games: a file (.nfg, .npz or .csv), a name that `equipoise
    #: games` lists, or MODULE:OBJECT. Default: random games.
    game: Annotated[str | None, tyro.conf.arg(metavar="GAME")] = None
    #: Number of actions of each player. Default: 3, or as in the game or family.
    actions: int | None = None
    #: Number of states of a Markov game. Default: matrix games, which have no states.
    states: int | None = None
    #: Discount factor of a Markov game. Default: 0.9.
    discount: float | None = None
    #: Concentration of the Dirichlet distribution of transitions. With 1, transitions are spread
    #: out; with 0.1, they are nearly deterministic. Default: 1.
    concentration: float | None = None
    #: Size of the perturbation of perturbed games, or standard deviation of Gaussian rewards, in
    #: units of reward. Default: 0.1 for perturbed games, 0.2 for Gaussian rewards.
    scale: float | None = None
    #: Base of perturbed games: a file, a named game or MODULE:OBJECT, with rewards in [0, 1].
    #: Default: a random game.
    base: Annotated[str | None, tyro.conf.arg(metavar="GAME")] = None
    #: Set a parameter of a named game, or of a function that returns the game or family, such as
    #: size=10. Repeat the flag for more.
    set: Settings = ()

    # -- play

    #: Learner that plays the rows: a name, a folder of players, guarded: and players, or
    #: MODULE:OBJECT. Default: any, or markov in Markov games, if it can play games of this size and
    #: length, otherwise omd.
    row: Name = None
    #: Learner that plays the columns. Default: the same as for the rows.
    column: Name = None
    #: Number of rounds, which may be written as 1e6. Default: 100,000; if a pre-trained player
    #: without a guard plays, 1,000, or the length of its training games if they are shorter.
    rounds: int | None = None
    #: Number of games, or how often one game is played. Default: 32 if a pre-trained player plays,
    #: otherwise 256; all games of a file with many.
    games: int | None = None
    #: How rewards are observed: exact, or with Bernoulli or Gaussian noise.
    noise: Noise = "exact"
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
        games, name = self._games()
        config, players = self._seated(games)
        options = {"learners": players, "games": games, "name": name}
        work = partial(eq.dynamics.self_play, config, **options)
        folder, known, record = in_run_folder(self.run, "play", work)
        self._show(record, folder, known, write_run_page(folder, anew=not known))
        for what in ("rounds", "games"):
            whole = record.config[what]
            done = record.scalars.get(what, whole)
            if done < whole:
                told = f"after {done:,} of {whole:,} {what}, now saved"
                told = told if done else f"before any of the {whole:,} {what} was finished"
                raise Interrupted(f" {told}; to resume, run the same command again")
        return 0

    def _games(self) -> tuple[Any, str]:
        """Return a game or family and its name; None for families that `SelfPlay` draws."""
        own = is_object(self.family)
        if self.game is not None:
            self._refuse("with --game", "actions", "states", "discount", "concentration")
            self._refuse("with --game", "scale", "base", family=self.family != "uniform")
            game = find_game(self.game, self.set)
            if game.kind not in ("matrix", "markov"):
                found = f"{self.game}, a game of kind {game.kind}"
                raise InputError("game", "a zero-sum matrix game or Markov game", found)
            if game.kind == "markov":
                game.check_stationary_zero_sum("game")
            return game, ", ".join([self.game, *self.set])
        if self.set and not own:
            raise InputError("set", "this option only with --game or MODULE:OBJECT", self.set[0])
        if own:
            self._refuse(f"with --family {self.family}", "actions")
        if self.base is not None:
            self._refuse("with --base", "actions", "states", "discount", "concentration")
        sizes = {"states": self.states, "discount": self.discount}
        more = {"scale": self.scale, "base": self.base, "seed": self.seed, "settings": self.set}
        actions = 3 if self.actions is None else self.actions
        markov = {**sizes, "concentration": self.concentration}
        family = find_family(self.family, (actions, actions), **more, **markov)
        if self.family in ("uniform", "gaussian") and self.scale is None:
            return None, ""
        about = {"of": self.base, "scale": self.scale}
        facts = ", ".join(f"{key} {value}" for key, value in about.items() if value is not None)
        return family, f"the family {self.family}" + (f" ({facts})" if facts else "")

    def _refuse(self, where: str, *names: str, **wrong: bool) -> None:
        """Refuse options that would have no effect."""
        given = {name: getattr(self, name) is not None for name in names} | wrong
        for name, wrong_here in given.items():
            if wrong_here:
                raise InputError(name, f"no value {where}, which decides it", getattr(self, name))

    def _seated(self, games: Any = None) -> tuple[Any, dict[str, Any]]:
        """Return the settings, and the players by name; refuse players that cannot play."""
        known = {field.name for field in fields(eq.dynamics.SelfPlay)}
        given = {name: value for name, value in vars(self).items() if name in known}
        config = eq.dynamics.SelfPlay(**{k: v for k, v in given.items() if v is not None})
        sizes = config if games is None else games
        match = {"actions": sizes.actions, "states": getattr(sizes, "states", None)}
        if games is not None:  # `SelfPlay` knows its own families only
            config = replace(config, family="uniform")
        row = self.row
        if row is None:
            row = "any" if match["states"] is None else "markov"
            try:
                _players(row, "row", **match, rounds=self.rounds or SHORT["rounds"])
            except InputError:
                row = "omd"
        seats = {"row": row, "column": self.column or row}
        players = [name for name in seats.values() if name not in eq.dynamics.LEARNERS]
        trained = [name for name in players if not is_object(name)]
        if self.games is None:
            config = replace(config, games=(SHORT if trained else LONG)["games"])
        found: dict[str, Any] = {}
        for seat, name in seats.items():
            if name in players and name not in found:
                found[name] = _players(name, seat, **match, rounds=self.rounds or 1)
        if self.rounds is None:
            lengths = [_trained_rounds(name) for name in trained if not name.startswith("guarded:")]
            rounds = min(SHORT["rounds"], *lengths) if lengths else LONG["rounds"]
            config = replace(config, rounds=rounds)
        return replace(config, **seats), found

    def _show(self, record: "eq.runs.Record", folder: Path, known: bool, page: Path | None) -> None:
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
        if eq.report.has_certificate(record):
            gains = eq.report.certificate_of(record).max_gain
            mean, largest = map(eq.report.format_value, (gains.mean(), gains.max()))
            told = f"{mean} on average, {largest} in the worst game"
            pairs.append(("largest gain, certified", told))
        print_pairs([*pairs, ("report", page)])


def _trained_rounds(name: str) -> int:
    """Return the length of the longest games that players were trained on."""
    config = eq.incontext.Config.from_plain(eq.incontext.description(name)["config"])
    return max(stage.rounds for stage in config.staged())


def _players(name: str, seat: str, **match: Any) -> Any:
    """Return the players of a name, or a learner of the user's code, for a match of this size.

    Refuses an unknown name, and players that cannot play.
    """
    if is_object(name):
        found = load_object(name, _is_learner, "a learner or a pair of them", argument=seat)
        return found.players if isinstance(found, eq.incontext.construct.HandBuilt) else found
    plain = name.removeprefix("guarded:")
    if plain not in names() and not Path(plain).exists():
        close = get_close_matches(plain, names(), n=1)
        hint = f"did you mean {close[0]}?" if close else ""
        wanted = f"one of {', '.join(names())}, a folder of players, or MODULE:OBJECT"
        raise InputError(seat, wanted, repr(name), hint)
    return eq.incontext.make_players(name, **match, argument=seat)


def _is_learner(found: Any) -> bool:
    kinds = eq.dynamics.Learner | eq.dynamics.Pair | eq.incontext.construct.HandBuilt
    return isinstance(found, kinds)
