"""`equipoise demo`: the library at work, in three acts, with a report at the end."""

from dataclasses import dataclass
from pathlib import Path

from equipoise.cli._errors import CommandError, refusing
from equipoise.cli._flags import COMMON, CommonOptions, Count, check_counts, check_seed


@dataclass(frozen=True)
class Demo:
    """Show the library at work in three acts, each with its certificate, and report.

    A player trained once meets games it has never seen; a log of many agents becomes a
    near-equilibrium; a city of a hundred thousand gets its best one. Every act is a run folder. A
    demo that was interrupted goes on where it stopped when the command is given again; one that
    is complete is played anew.

    Examples:
      equipoise demo
      equipoise demo --run runs/more --games 256
    """

    #: Where the runs and report.html go.
    run: Path = Path("runs/demo")
    #: How many unseen games the first act plays.
    games: Count = 64
    #: Where its randomness begins.
    seed: int = 0
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Play the acts, write the report."""
        from equipoise.cli._acts import Settings
        from equipoise.cli._stage import perform

        check_counts(games=self.games)
        check_seed(self.seed)
        with refusing():
            if self.run.exists() and not self.run.is_dir():
                raise CommandError(f"--run: expected a folder, found the file {self.run}")
            if (self.run / "config.json").exists():  # the demo's own are one level below
                raise CommandError(
                    f"--run: expected a new folder or that of a demo, "
                    f"found the run of another command in {self.run}; choose another folder"
                )
            self.run.mkdir(parents=True, exist_ok=True)
        settings = Settings(games=self.games, seed=self.seed)
        return perform(self.run, settings, json=self.common.json)
