"""`python -m reproduction FIGURE`: make one figure with changed settings of its `Config`.

`equipoise reproduce` makes all figures at two scales. Here, every field of the config of one figure
is a flag, and a figure that consists of parts resumes after an interruption:

    python -m reproduction in_context --scale full --only matrix-3 --run runs/figure1
    python -m reproduction interaction_rank_deep --figures 2 --run runs/deep

`pages` is no figure: it writes the tables of the documentation from the records, or checks them:

    python -m reproduction pages --write
    python -m reproduction pages --check
"""

import sys
import time
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from reproduction import FIGURES, _pages

_USAGE = "usage: python -m reproduction FIGURE --run FOLDER [--help]\n\nFIGURE is one of {}"


def main() -> int:
    """Run one figure into a folder, draw it, and print its running time."""
    if sys.argv[1:2] == ["pages"]:
        return _pages.main(sys.argv[2:])
    known = {figure.module: figure for figure in FIGURES}
    if len(sys.argv) < 2 or sys.argv[1] not in known:
        print(_USAGE.format(", ".join(known)), file=sys.stderr)
        return 2
    name, *words = sys.argv[1:]
    figure = known[name]
    module = figure.load()
    base = module.Config() if "full" in words else module.Config.quick()
    command: Any = make_dataclass(
        "Command",
        [
            ("run", Path),
            ("scale", Literal["quick", "full"], "quick"),
            ("key", int, 0),
            ("config", tyro.conf.OmitArgPrefixes[module.Config], field(default=base)),
        ],
    )
    given = tyro.cli(command, prog=f"python -m reproduction {name}", args=words)
    begun = time.perf_counter()
    parts = {"folder": given.run / "parts"} if figure.in_parts else {}
    record = module.run(given.config, given.key, **parts)
    given.run.mkdir(parents=True, exist_ok=True)
    record.save(given.run)
    module.plot(record).savefig(given.run / f"{name}.png", dpi=110)
    print(f"{given.run}: {time.perf_counter() - begun:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
