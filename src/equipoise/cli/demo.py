"""`equipoise demo`: the library at work, in acts, with a report at the end."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from equipoise.cli._errors import CommandError, refusing


@dataclass(frozen=True)
class Demo:
    """Solve, learn and certify games of several kinds, and write a report about it.

    Every act is a run folder. A demo that was interrupted goes on where it stopped when the
    command is given again; one that is complete is played anew.

    Examples:
      equipoise demo
      equipoise demo --out runs/small --games 1000
    """

    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/demo")
    """Where the runs and report.html go."""
    games: int = 100_000
    """How many random games the second act solves."""
    seed: int = 0
    """Where its randomness begins."""

    def run(self) -> int:
        """Play the acts, write the report."""
        from equipoise.cli._acts import Settings
        from equipoise.cli._stage import perform

        if self.games < 1:
            raise CommandError(f"--games: expected a whole number >= 1, found {self.games}")
        if not 0 <= self.seed < 2**32:
            raise CommandError(f"--seed: expected a number in [0, 2**32), found {self.seed}")
        with refusing():
            if (self.out / "config.json").exists():  # the demo's own are one level below
                raise CommandError(
                    f"--out: expected a new folder or that of a demo, "
                    f"found the run of another command in {self.out}; choose another folder"
                )
            self.out.mkdir(parents=True, exist_ok=True)
        return perform(self.out, Settings(games=self.games, seed=self.seed))
