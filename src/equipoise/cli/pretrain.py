"""`equipoise pretrain`: train players that learn an unseen game while they play it."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

import equipoise as eq
from equipoise.cli._inputs import (
    FAMILIES,
    check_counts,
    check_only_with_states,
    check_seed,
    find_family,
    find_game,
    in_run_folder,
)
from equipoise.cli._main import Interrupted
from equipoise.cli._objects import is_object
from equipoise.cli._output import print_json, print_pairs, print_table
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.core.errors import InputError
from equipoise.incontext import BEST, Config

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
      equipoise pretrain --data trajectories/ --rounds 64 --run runs/imitator
      equipoise pretrain --games my-games/ --rounds 256 --run runs/mine
    """

    ARGUMENTS: ClassVar = {"name": "--start"}

    # -- game

    #: Family of random games: independent rewards (uniform or gaussian), games near one game
    #: (perturbed), or games of many kinds (mixture). With --tokens adaptive, a mixture has games of
    #: all sizes up to --actions and --states. Or a family of your own, MODULE:OBJECT such as
    #: mine.py:family, whose code is run. Default: uniform, unless --data or --games is given.
    family: Annotated[str | None, tyro.conf.arg(metavar=f"{'|'.join(FAMILIES)}|MODULE:OBJECT")] = (
        None
    )
    #: Number of actions of the row player, and of the column player unless --columns is given.
    #: Default: 3.
    actions: int | None = None
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
    #: Move the rewards of --base into [0, 1] if they are not in it.
    scale_rewards: bool = False
    #: Games of your own in place of a family: a folder with .nfg, .csv and .npz files of games of
    #: one size, or one file with a batch of games. A fifth of them is held out for evaluation.
    #: Rewards are moved into [0, 1].
    games: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None

    # -- data

    #: Learn from fixed trajectories with an expert's answers instead of playing games: an .npz or
    #: .parquet file, or a folder of such files. Without --loss the loss is then "expert", and the
    #: divergence from the expert on validation data stops training (--stop-on kl --patience 5).
    #: With --family or --games besides, NashConv is measured on such games.
    data: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    #: Share of the trajectories that are not learned from. Default: 0.1.
    validation: float | None = None

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
        self._check_options()
        family, config = self._family(), self.training
        if self.data is not None:
            config = _imitating(config, self.preset, family)
        start = None if self.start is None else eq.incontext.load(self.start)

        def train(run: Path) -> Any:
            options = {"key": self.seed, "run": run, "start": start}
            options |= {"data": self.data, "validation": self.validation}
            return eq.incontext.pretrain(family, config, **options)

        folder, known, players = in_run_folder(self.run, "pretrain", train)
        finished = (folder / "record.json").exists()
        self._show(players, folder, known, finished)
        return 0

    def _check_options(self) -> None:
        """Refuse options that do not go together."""
        if self.validation is not None and self.data is None:
            raise InputError("validation", "this option only with --data", self.validation)
        if self.games is not None:
            if self.family is not None:
                raise InputError("games", "a folder or --family, not both", self.games)
            for name in ("actions", "columns", "states"):
                if (value := getattr(self, name)) is not None:
                    raise InputError(name, "no value with --games", value)
        elif self.data is not None and self.family is None:
            for name in ("actions", "columns", "states"):
                if (value := getattr(self, name)) is not None:
                    raise InputError(name, "no value with --data but no --family", value)
        name = self.family or "uniform"
        if self.base is not None and name != "perturbed":
            raise InputError("base", "this option only with --family perturbed", name)
        if self.scale_rewards and self.base is None:
            raise InputError("scale_rewards", "this option only with --base", "none")
        if self.scale is not None and name not in ("perturbed", "gaussian"):
            expected = "this option only with --family perturbed or gaussian"
            raise InputError("scale", expected, name)
        if self.concentration is not None and name == "mixture":
            raise InputError("concentration", "no value with --family mixture", self.concentration)

    def _family(self) -> Any:
        if self.games is not None:
            return eq.games.families.of(self.games)
        if self.data is not None and self.family is None:
            return None
        if self.family is not None and (is_object(self.family) or self.family not in FAMILIES):
            for name in ("actions", "columns"):
                if is_object(self.family) and (value := getattr(self, name)) is not None:
                    expected = f"no value with {self.family}, which decides it"
                    raise InputError(name, expected, value)
            names = ("scale", "base", "states", "discount", "concentration")
            return find_family(self.family, (3, 3), **{n: getattr(self, n) for n in names})
        given = {name: getattr(self, name) for name in ("states", "discount", "concentration")}
        more: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
        scale: dict[str, Any] = {} if self.scale is None else {"scale": self.scale}
        rows = 3 if self.actions is None else self.actions
        actions = (rows, rows if self.columns is None else self.columns)
        if self.family == "mixture":
            fewest = 2 if self.training.tokens == "adaptive" else None
            return eq.games.families.mixture(actions, fewest=fewest, **more)
        if self.family == "gaussian":
            return eq.games.families.gaussian(actions, **scale, **more)
        uniform = eq.games.families.uniform(actions, **more)
        if self.family in (None, "uniform"):
            return uniform
        base = uniform.sample(key=self.seed)
        if self.base is not None:
            base = find_game(self.base, argument="base")
            if base.kind not in ("matrix", "markov"):
                found = f"{self.base}, a game of kind {base.kind}"
                raise InputError("base", "a matrix game or a Markov game", found)
        try:
            return eq.games.families.perturbed(base, **scale, scale_rewards=self.scale_rewards)
        except InputError as error:
            if error.argument != "base" or not error.hint:
                raise
            hint = "--scale-rewards moves them into it"
            raise InputError("base", error.expected, error.found, hint) from error

    def _show(self, players: Any, folder: Path, known: bool, finished: bool) -> None:
        rows = eq.runs.read_metrics(folder) if (folder / "metrics.jsonl").exists() else []
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
            measured = {"loss": "loss"}
            names = {"gap": "held-out NashConv", "held_out_kl": "held-out divergence"}
            measured |= {key: name for key, name in names.items() if any(key in r for r in rows)}
            if self.data is None:
                measured = {"loss": "loss", "gap": names["gap"]}
            last = list(measured)[-1]
            shown = [(r["step"], *(_mean(r[key]) for key in measured)) for r in rows if last in r]
            unit = ""
            if players.states is not None and "gap" in measured:
                unit = f"; held-out NashConv: {MARKOV_UNIT}"
            print_table(eq.runs.Table(("step", *measured.values()), shown), f"Pre-training{unit}")
            how = " (finished earlier; read from disk)" if known else ""
            where = folder if finished else folder / BEST
            print_pairs(
                [
                    ("players", f"{where}{how}"),
                    ("parameters of a model", players.parameters),
                    *([] if self.data else [("to evaluate them", f"equipoise evaluate {where}")]),
                ]
            )
        if not finished:
            step = int(rows[-1]["step"]) if rows else 0
            raise Interrupted(
                f" after about {step:,} of {self.training.steps:,} steps; the best players so far "
                f"are in {folder / BEST}; to resume, run the same command again"
            )


def _imitating(config: Config, preset: str, family: Any) -> Config:
    """Return the config for data, where settings that are not those of the preset stay.

    >>> _imitating(Config(), "default", None).stop_on
    'kl'
    """
    plain = Config.preset(preset)
    if config.loss == plain.loss and plain.loss != "expert":
        config = replace(config, loss="expert")
    if config.stop_on == plain.stop_on == "gap" and family is None:
        config = replace(config, stop_on="kl")
    if config.patience is None and config.stop_on != "cross-entropy":
        config = replace(config, patience=5)
    return config


def _mean(values: Any) -> float:
    return float(sum(values) / len(values))
