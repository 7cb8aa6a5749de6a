"""`equipoise pretrain`: players that learn an unseen game of a family while they play it."""

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

#: What the gaps of training are in Markov games.
MARKOV_UNIT = "mean over states, times 1 - discount"
_PRESETS = ("default", "paper", "large", "any")


@dataclass(frozen=True)
class Pretrain:
    """Train players that learn an unseen game of a family while they play it.

    Settings that are not given are those of the preset. Everything goes into a run folder:
    metrics as they come, checkpoints, and in the end the players and a model card. Ctrl-C keeps
    the best players so far in the folder best-so-far in it, and training goes on when the
    command is given again.

    Examples:
      equipoise pretrain --family uniform --actions 3 --rounds 256 --run runs/iid3
      equipoise pretrain --preset paper --family perturbed --scale 0.1 --run runs/paper
      equipoise pretrain --preset any --family mixture --actions 6 --run runs/any
    """

    ARGUMENTS: ClassVar = {"name": "--start"}

    #: Which random games: independent rewards, those near one game, or many kinds of matrix games
    #: ("mixture"), with tokens "adaptive" of all sizes up to --actions.
    family: Literal["uniform", "gaussian", "perturbed", "mixture"] = "uniform"
    #: Actions of the row player, and of the column player unless --columns is given.
    actions: int = 3
    #: Actions of the column player.
    columns: int | None = None
    #: States of Markov games; without, matrix games are played.
    states: int | None = None
    #: Discount of Markov games; 0.9 if not given.
    discount: float | None = None
    #: Concentration of the Dirichlet distribution of transitions; 1 if not given.
    concentration: float | None = None
    #: How far perturbed games are from their base (0.1 if not given), or the width of Gaussian
    #: rewards (0.2 if not given).
    scale: float | None = None
    #: The base of perturbed games: a file or a named game with rewards in [0, 1]; a random one if
    #: not given.
    base: Annotated[str | None, tyro.conf.arg(metavar="GAME")] = None
    #: Where settings begin: ours, the in-context paper's experiment, or those of the players that
    #: come with the package, specialists ("large") and "any", which want an accelerator.
    preset: Literal["default", "paper", "large", "any"] = "default"
    #: Begin with the weights of these players, a run folder or a name, instead of random ones.
    start: Annotated[str | None, tyro.conf.arg(metavar="PLAYERS")] = None
    #: Where randomness begins.
    seed: int = 0
    #: The run folder; runs/pretrain, or runs/pretrain-2 and so on, if not given.
    run: Path | None = None
    common: CommonOptions = COMMON
    training: tyro.conf.OmitArgPrefixes[Config] = field(default_factory=Config)

    @classmethod
    def starting(cls, preset: str) -> "Pretrain":
        """The command with the settings of a preset."""
        known: Any = preset if preset in _PRESETS else "default"  # tyro refuses the others
        return cls(training=Config.preset(known), preset=known)

    def execute(self) -> int:
        """Train, then say how it went."""
        check_seed(self.seed)
        check_counts(actions=self.actions, columns=self.columns, states=self.states)
        check_only_with_states(
            self.states, discount=self.discount, concentration=self.concentration
        )
        if self.base is not None and self.family != "perturbed":
            raise InputError("base", "--family perturbed with it", self.family)
        if self.scale is not None and self.family not in ("perturbed", "gaussian"):
            raise InputError("scale", "--family perturbed or gaussian with it", self.family)
        if self.states is not None and self.family == "mixture":
            raise InputError("states", "none with --family mixture", self.states)
        family = self._family()
        start = None if self.start is None else eq.incontext.load(self.start)

        def train(run: Path) -> tuple[bool, Any]:
            known = (run / "record.json").exists()
            options = {"key": self.seed, "run": run, "start": start}
            return known, eq.incontext.pretrain(family, self.training, **options)

        folder, (known, players) = in_run_folder(self.run, "pretrain", train)
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
            return families.mixture(actions, fewest=fewest)
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
            unit = "" if players.states is None else f"; held-out gap: {MARKOV_UNIT}"
            print_table(Table(("step", "loss", "held-out gap"), shown), f"Pre-training{unit}")
            how = " (finished earlier; read, not trained again)" if known else ""
            where = folder if finished else folder / BEST
            print_pairs(
                [
                    ("players", f"{where}{how}"),
                    ("weights of a model", players.parameters),
                    ("to see how good they are", f"equipoise evaluate {where}"),
                ]
            )
        if not finished:
            step = int(rows[-1]["step"]) if rows else 0
            raise Interrupted(
                f" after about {step:,} of {self.training.steps:,} steps; the best players so far "
                f"are in {folder / BEST}; to go on, give the same command again"
            )


def _mean(values: Any) -> float:
    return float(sum(values) / len(values))
