"""`equipoise pretrain`: train players that learn an unseen game while they play it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

import equipoise as eq
from equipoise.cli._inputs import (
    check_counts,
    check_only_with_states,
    check_seed,
    find_game,
    in_run_folder,
)
from equipoise.cli._main import Interrupted
from equipoise.cli._output import print_json, print_pairs, print_table
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.core.errors import InputError
from equipoise.games import families
from equipoise.incontext import BEST, Config
from equipoise.runs import Table, read_metrics

#: Unit of the gaps in training on Markov games.
MARKOV_UNIT = "mean over states, times 1 - discount"
_PRESETS = ("default", "paper", "large", "any")


@dataclass(frozen=True)
class Pretrain:
    """Train players that learn an unseen game of a family while they play it.

    The preset gives the defaults of all settings. The run folder receives metrics and checkpoints
    during training, and the players and a model card at the end. After Ctrl-C, the subfolder
    best-so-far holds the best players; run the same command again to resume training.

    Examples:
      equipoise pretrain --family uniform --actions 3 --rounds 256 --run runs/iid3
      equipoise pretrain --preset paper --family perturbed --scale 0.1 --run runs/paper
      equipoise pretrain --preset any --family mixture --actions 6 --run runs/any
    """

    ARGUMENTS: ClassVar = {"name": "--start"}

    # -- game

    #: Family of random games: independent rewards (uniform or gaussian), games near one game
    #: (perturbed), or games of many kinds (mixture). With --tokens adaptive, a mixture has games of
    #: all sizes up to --actions and --states.
    family: Literal["uniform", "gaussian", "perturbed", "mixture"] = "uniform"
    #: Number of actions of the row player, and of the column player unless --columns is given.
    actions: int = 3
    #: Number of actions of the column player. Default: the same as for the row player.
    columns: int | None = None
    #: Number of states of Markov games. Default: matrix games, which have no states.
    states: int | None = None
    #: Discount factor of Markov games. Default: 0.9.
    discount: float | None = None
    #: Concentration of the Dirichlet distribution of transitions. Default: 1.
    concentration: float | None = None
    #: Size of the perturbation of perturbed games, or standard deviation of Gaussian rewards, in
    #: units of reward. Default: 0.1 for perturbed games, 0.2 for Gaussian rewards.
    scale: float | None = None
    #: Base of perturbed games: a file or a named game, with rewards in [0, 1]. Default: a random
    #: game.
    base: Annotated[str | None, tyro.conf.arg(metavar="GAME")] = None

    # -- run

    #: Default settings: our own (default), those of the in-context paper's experiment (paper), or
    #: those of the players that come with the package: specialists (large) and players for games
    #: of any size (any). Train the last two on an accelerator.
    preset: Literal["default", "paper", "large", "any"] = "default"
    #: Start from the weights of these players, a run folder or a name. Default: random weights.
    start: Annotated[str | None, tyro.conf.arg(metavar="PLAYERS")] = None
    #: Random seed, a whole number in [0, 2^32).
    seed: int = 0

    # -- output

    #: Run folder. Default: runs/pretrain, or runs/pretrain-2 and so on if another run is there.
    run: Path | None = None
    common: CommonOptions = COMMON
    training: tyro.conf.OmitArgPrefixes[Config] = field(default_factory=Config)

    @classmethod
    def starting(cls, preset: str) -> "Pretrain":
        """Return the command with the settings of a preset."""
        known: Any = preset if preset in _PRESETS else "default"  # tyro refuses other names
        return cls(training=Config.preset(known), preset=known)

    def execute(self) -> int:
        """Train the players and print the progress."""
        check_seed(self.seed)
        check_counts(actions=self.actions, columns=self.columns, states=self.states)
        check_only_with_states(
            self.states, discount=self.discount, concentration=self.concentration
        )
        if self.base is not None and self.family != "perturbed":
            raise InputError("base", "this option only with --family perturbed", self.family)
        if self.scale is not None and self.family not in ("perturbed", "gaussian"):
            raise InputError(
                "scale", "this option only with --family perturbed or gaussian", self.family
            )
        if self.concentration is not None and self.family == "mixture":
            raise InputError("concentration", "no value with --family mixture", self.concentration)
        family = self._family()
        start = None if self.start is None else eq.incontext.load(self.start)

        def train(run: Path) -> Any:
            options = {"key": self.seed, "run": run, "start": start}
            return eq.incontext.pretrain(family, self.training, **options)

        folder, known, players = in_run_folder(self.run, "pretrain", train)
        finished = (folder / "record.json").exists()
        self._show(players, folder, known, finished)
        return 0

    def _family(self) -> Any:
        given = {name: getattr(self, name) for name in ("states", "discount", "concentration")}
        more: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
        scale: dict[str, Any] = {} if self.scale is None else {"scale": self.scale}
        actions = (self.actions, self.actions if self.columns is None else self.columns)
        if self.family == "mixture":
            fewest = 2 if self.training.tokens == "adaptive" else None
            return families.mixture(actions, fewest=fewest, **more)
        if self.family == "gaussian":
            return families.gaussian(actions, **scale, **more)
        uniform = families.uniform(actions, **more)
        if self.family == "uniform":
            return uniform
        base = uniform.sample(key=self.seed)
        if self.base is not None:
            base = find_game(self.base, argument="base")
            if base.kind not in ("matrix", "markov"):
                found = f"{self.base}, a game of kind {base.kind}"
                raise InputError("base", "a matrix game or a Markov game", found)
        return families.perturbed(base, **scale)

    def _show(self, players: Any, folder: Path, known: bool, finished: bool) -> None:
        rows = read_metrics(folder) if (folder / "metrics.jsonl").exists() else []
        if self.common.json:
            print_json(
                {
                    "folder": str(folder),
                    "finished": finished,
                    "read_from_disk": known,
                    "parameters": players.parameters,
                    "config": self.training,
                    "metrics": rows,
                }
            )
        else:
            shown = [(r["step"], _mean(r["loss"]), _mean(r["gap"])) for r in rows if "gap" in r]
            unit = "" if players.states is None else f"; held-out NashConv: {MARKOV_UNIT}"
            print_table(Table(("step", "loss", "held-out NashConv"), shown), f"Pre-training{unit}")
            how = " (finished earlier; read from disk)" if known else ""
            where = folder if finished else folder / BEST
            print_pairs(
                [
                    ("players", f"{where}{how}"),
                    ("parameters of a model", players.parameters),
                    ("to evaluate them", f"equipoise evaluate {where}"),
                ]
            )
        if not finished:
            step = int(rows[-1]["step"]) if rows else 0
            raise Interrupted(
                f" after about {step:,} of {self.training.steps:,} steps; the best players so far "
                f"are in {folder / BEST}; to resume, run the same command again"
            )


def _mean(values: Any) -> float:
    return float(sum(values) / len(values))
