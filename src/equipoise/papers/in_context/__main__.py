"""The command: run parts of the figure into a folder; needs neither tyro nor Matplotlib."""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from equipoise.papers.in_context import Config, plot, run


def main() -> int:
    """Run what was asked for, and say how long each part took."""
    parser = argparse.ArgumentParser(prog="python -m equipoise.papers.in_context")
    parser.add_argument("--scale", choices=("quick", "full"), default="quick")
    parser.add_argument(
        "--part", action="append", choices=Config().all_parts, help="default: all; may be repeated"
    )
    parser.add_argument("--run", type=Path, required=True, help="folder; finished parts are kept")
    parser.add_argument("--precision", choices=("auto", "float32", "bfloat16"))
    parser.add_argument("--key", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="also draw the figure into this file")
    arguments = parser.parse_args()
    config = Config.quick() if arguments.scale == "quick" else Config()
    if arguments.precision:
        config = replace(config, precision=arguments.precision)
    parts = tuple(arguments.part or config.all_parts)
    for part in parts:
        begun = time.perf_counter()
        run(replace(config, only=(part,)), arguments.key, arguments.run)
        print(f"{part}: {time.perf_counter() - begun:.1f} s", flush=True)
    if arguments.plot:
        record = run(replace(config, only=parts), arguments.key, arguments.run)
        plot(record).savefig(arguments.plot, dpi=110)
    return 0


if __name__ == "__main__":
    sys.exit(main())
