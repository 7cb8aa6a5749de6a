"""`equipoise sweep`: run many settings of one verb on this machine, a Ray cluster or Slurm."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

import equipoise as eq
from equipoise.cli._inputs import check_folder
from equipoise.cli._main import VERBS, Interrupted
from equipoise.cli._output import cut, print_json, print_pairs, print_table
from equipoise.cli._parsing import COMMON, CommonOptions, check_names, command_kind, options
from equipoise.core.errors import InputError


@dataclass(frozen=True)
class Sweep:
    """Run many settings of one verb and compare the runs on one page.

    The file names a verb that accepts --run, and a grid or a list of its options. Keys are flags
    without their dashes. Every setting gets a run folder:

      verb = "play"
      [options]            # the same for all
      rounds = 10_000
      [grid]               # every combination; or one [[list]] table for each setting
      row = ["omd", "exp3-ix"]
      seed = [0, 1, 2, 3]

    The file may have tables [local], [ray] and [slurm] with arguments of these engines. A run that
    is killed, or whose machine fails, is started again and resumes from its last checkpoint. After
    Ctrl-C, run the same command again to resume. Records are the same on every engine.

    The exit code is 0 if every run finished and met its tolerance, and 1 otherwise.

    Examples:
      equipoise sweep sweep.toml
      equipoise sweep sweep.toml --on ray --address 10.0.0.1:6379 --run runs/large
      equipoise sweep sweep.toml --on slurm --workers 64
    """

    ARGUMENTS: ClassVar = {"settings": "SWEEP", "options": "SWEEP", "folder": "--run"}

    #: The .toml file with a verb and its settings.
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SWEEP")]

    # -- engine

    #: Engine that runs the settings: processes on this machine (local), Ray, or Slurm through
    #: submitit.
    on: Literal["local", "ray", "slurm"] = "local"
    #: Number of simultaneous runs. Default: one per core; 256 with Slurm.
    workers: int | None = None
    #: Address of a Ray cluster. Default: start Ray on this machine.
    address: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None

    # -- output

    #: Folder for all run folders. Default: runs/ followed by the name of the file.
    run: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Check the settings, run them, and print the state of each run."""
        found = eq.runs.read_sweep(self.file)
        engine = dict(found.pop("engines")[self.on])
        if self.workers is not None:
            engine["workers"] = self.workers
        if self.address is not None:
            if self.on != "ray":
                raise InputError("address", "this option only with --on ray", f"--on {self.on}")
            engine["address"] = self.address
        _check_options(self.file, found)
        folder = Path("runs", self.file.stem) if self.run is None else self.run
        check_folder(
            folder, lambda place: (place / "settings").is_dir() or not any(place.iterdir())
        )
        done = eq.runs.sweep(folder, **found, on=self.on, **engine)
        if self.common.json:
            page = None if done.page is None else str(done.page)
            print_json({"folder": str(folder), "report": page, "runs": dict(done.states)})
        else:
            print_table(cut(eq.runs.Table(("run", "state"), list(done.states.items()))))
            print_pairs([("folder", folder), ("report", done.page or "none")])
        if "stopped" in done.states.values():
            left = sum(state == "stopped" for state in done.states.values())
            raise Interrupted(f": {left} runs are left; to resume, run the same command again")
        return 0 if set(done.states.values()) == {"finished"} else 1


def _check_options(file: Path, found: dict[str, Any]) -> None:
    """Refuse an unknown verb or unknown options before any run starts."""
    check_names(f"{file}: verb", [found["verb"]], VERBS, "a verb")
    known = {option.key for option in options(command_kind(found["verb"]))}
    if "run" not in known or found["verb"] == "sweep":
        raise InputError(f"{file}: verb", "a verb that accepts --run", found["verb"])
    rows = [found["settings"]] if isinstance(found["settings"], dict) else found["settings"]
    for row in (found["options"], *rows):
        check_names(str(file), row, known, f"options of {found['verb']}")
