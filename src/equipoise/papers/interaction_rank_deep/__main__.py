"""The command: `python -m equipoise.papers.interaction_rank_deep`."""

import argparse
import os
import sys
import time
from pathlib import Path

from equipoise.papers.interaction_rank_deep import FIGURES, Config, run
from equipoise.runs import Record, Table


def main() -> int:
    """Run figures, write one record for all of them, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m equipoise.papers.interaction_rank_deep",
        description="Figures 2, 3 and 4 of the interaction-rank paper, and ablations.",
    )
    parser.add_argument("--figure", choices=(*FIGURES, "all"), default="2")
    parser.add_argument("--scale", choices=("quick", "full"), default="quick")
    parser.add_argument("--run", metavar="DIR", help="a folder for records; goes on where it ended")
    parser.add_argument("--key", type=int, default=0)
    parser.add_argument("--critic", action="append", help="only these, by name; may be repeated")
    parser.add_argument("--recipe", choices=("ours", "printed"), help="only this one")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--plot", action="store_true", help="also draw the figures (matplotlib)")
    arguments = parser.parse_args()
    config = _config(arguments)
    began = time.perf_counter()
    record = run(config, arguments.key, arguments.run)
    print(format_table(record.tables["summary"]))
    print(f"{time.perf_counter() - began:.1f} seconds in all")
    if arguments.run:
        _save(record, Path(arguments.run) / f"all-{arguments.figure}", arguments.plot)
    return 0


def _config(arguments: argparse.Namespace) -> Config:
    changes: dict = {}
    if arguments.figure != "all":
        changes["figures"] = (arguments.figure,)
    if arguments.critic:
        changes |= {"critics": tuple(arguments.critic), "architectures": tuple(arguments.critic)}
    if arguments.recipe:
        changes["recipes"] = (arguments.recipe,)
    if arguments.trials:
        changes["trials"] = arguments.trials
    return Config(**changes) if arguments.scale == "full" else Config.quick(**changes)


def _save(record: Record, folder: Path, plotted: bool) -> None:
    os.makedirs(folder, exist_ok=True)
    record.save(folder)
    if plotted:
        from equipoise.papers.interaction_rank_deep import plot

        plot(record).savefig(folder / "figure.png", dpi=110)
    print(f"written to {folder}")


def format_table(table: Table) -> str:
    """Columns of plain text."""
    cells = [list(table.columns)]
    cells += [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in row] for row in table.rows]
    widths = [max(len(row[k]) for row in cells) for k in range(len(table.columns))]
    lines = [[c.ljust(w) for c, w in zip(row, widths, strict=True)] for row in cells]
    return "\n".join("  ".join(line) for line in lines)


if __name__ == "__main__":
    sys.exit(main())
