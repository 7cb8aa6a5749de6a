"""`equipoise pretrain`: players that learn an unseen game of a family while they play it."""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from equipoise.cli._errors import CommandError, flags, refusing, tell_interrupted
from equipoise.cli._flags import (
    COMMON,
    CommonOptions,
    Count,
    Float,
    Folder,
    Int,
    check_counts,
    check_only_with_states,
    check_seed,
    optional,
)
from equipoise.cli._folders import in_run_folder
from equipoise.cli._pretraining_flags import Data, Model, Training, given, written_out

#: Where the best players so far go when training is interrupted.
BEST = "best-so-far"

#: What the gaps of training are in Markov games.
MARKOV_UNIT = "mean over states, times 1 - discount"


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
    """

    #: Which random games: independent rewards, or those near one game.
    family: Literal["uniform", "gaussian", "perturbed"] = "uniform"
    #: Actions of the row player, and of the column player unless --columns is given.
    actions: Count = 3
    #: Actions of the column player.
    columns: Int = None
    #: States of Markov games; without, matrix games are played.
    states: Int = None
    #: Discount of Markov games (0.9).
    discount: Float = None
    #: Of the Dirichlet distribution of transitions (1).
    concentration: Float = None
    #: How far perturbed games are from their base (0.1), or the width of Gaussian rewards (0.2).
    scale: Float = None
    #: The base of perturbed games: a file or a named game with rewards in [0, 1]; without, a random
    #: one.
    base: Annotated[str | None, optional("GAME")] = None
    #: Where settings begin: ours, the in-context paper's experiment, or those of the players that
    #: come with the package, which want an accelerator.
    preset: Literal["default", "paper", "large"] = "default"
    #: Begin with the weights of these players, a run folder or a name, instead of random ones.
    start: Annotated[str | None, optional("PLAYERS")] = None
    #: Where randomness begins.
    seed: int = 0
    #: The run folder (runs/pretrain, or runs/pretrain-2 and so on where another run has it).
    run: Folder = None
    common: CommonOptions = COMMON
    model: tyro.conf.OmitArgPrefixes[Model] = field(default_factory=Model)
    data: tyro.conf.OmitArgPrefixes[Data] = field(default_factory=Data)
    training: tyro.conf.OmitArgPrefixes[Training] = field(default_factory=Training)

    def execute(self) -> int:
        """Train, then say how it went."""
        import equipoise as eq

        self._check()
        settings = (f.name for group in (Model, Data, Training) for f in fields(group))
        with refusing(**flags("actions", "scale", "discount", "concentration", *settings)):
            family, config = self._family(), self._config()
        with refusing("--start", name="--start", config="--start"):
            start = None if self.start is None else eq.incontext.load(self.start)

        with refusing(**flags("learners")):

            def train(run: Path) -> tuple[bool, Any]:
                known = (run / "record.json").exists()
                options = {"key": self.seed, "run": run, "start": start}
                return known, eq.incontext.pretrain(family, config, **options)

            folder, (known, players) = in_run_folder(self.run, "pretrain", train)
        finished = (folder / "record.json").exists()
        if not finished:
            eq.incontext.save(players, folder / BEST, config, family)
        self._show(players, config, folder, known, finished)
        return 0 if finished else 130

    def _check(self) -> None:
        check_seed(self.seed)
        check_counts(actions=self.actions, columns=self.columns, states=self.states)
        check_only_with_states(
            self.states, discount=self.discount, concentration=self.concentration
        )
        if self.base is not None and self.family != "perturbed":
            raise CommandError(f"--base: expected --family perturbed with it, found {self.family}")
        if self.scale is not None and self.family == "uniform":
            raise CommandError(
                "--scale: expected --family perturbed or gaussian with it, found uniform"
            )

    def _family(self) -> Any:
        from equipoise.cli._inputs import find_game
        from equipoise.games import families

        more = {}
        if self.states is not None:
            more["states"] = self.states
            more |= {
                name: getattr(self, name)
                for name in ("discount", "concentration")
                if getattr(self, name) is not None
            }
        actions = (self.actions, self.actions if self.columns is None else self.columns)
        scale = {} if self.scale is None else {"scale": self.scale}
        if self.family == "gaussian":
            return families.gaussian(actions, **scale, **more)
        uniform = families.uniform(actions, **more)
        if self.family == "uniform":
            return uniform
        base = (
            uniform.sample(key=self.seed)
            if self.base is None
            else find_game(self.base, argument="--base")
        )
        return families.perturbed(base, **scale)

    def resolved(self) -> "Pretrain":
        """The same command with every setting written out, those of the preset included."""
        with refusing(**flags(*(f.name for g in (Model, Data, Training) for f in fields(g)))):
            config = self._config()
        groups = {"model": Model, "data": Data, "training": Training}
        return replace(self, **{name: written_out(kind, config) for name, kind in groups.items()})

    def _config(self) -> Any:
        from equipoise.incontext import Config

        presets = {"default": Config, "paper": Config.paper, "large": Config.large}
        changes = given(self.model, self.data, self.training)
        return replace(presets[self.preset](), **changes)

    def _show(self, players: Any, config: Any, folder: Path, known: bool, finished: bool) -> None:
        from equipoise.cli._output import print_json, print_pairs, print_table
        from equipoise.runs import Table, read_metrics

        rows = read_metrics(folder) if (folder / "metrics.jsonl").exists() else []
        step = int(rows[-1]["step"]) if rows else 0
        if self.common.json:
            print_json(
                {
                    "folder": str(folder),
                    "finished": finished,
                    "read_from_disk": known,
                    "parameters": players.parameters,
                    "config": config,
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
            more = (
                f" after about {step:,} of {config.steps:,} steps; the best players so far are in "
                f"{folder / BEST}; to go on, give the same command again"
            )
            tell_interrupted(more, self.common.json)


def _mean(values: Any) -> float:
    return float(sum(values) / len(values))
