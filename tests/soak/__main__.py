"""Everything that takes too long for `make test`; run it with `make soak`.

    python -m soak                      all parts, in full
    python -m soak files kills          some parts
    python -m soak --share 0.01         a hundredth of the cases, to try it out

Each part prints its seed and its figures as one line of JSON, and the command fails when a part
does. docs/reliability.md keeps the figures of the last full run.
"""

import argparse
import importlib
import json
import sys
import time

#: Part -> cases in a full run.
PARTS = {
    **{"files": 10_000, "kills": 20, "faults": 1, "certificates": 10_000, "general_sum": 1_000},
    **{"crowds": 472, "marked": 1, "engines": 200},
}


def main() -> int:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random cases (0)")
    parser.add_argument("--share", type=float, default=1.0, help="share of the cases to run (1)")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"PART: expected some of {', '.join(PARTS)}, found {', '.join(unknown)}")
    failed = []
    for part in options.parts or PARTS:
        cases = max(1, round(PARTS[part] * options.share))
        start = time.perf_counter()
        figures = importlib.import_module(f"soak.{part}").main(cases, options.seed)
        figures |= {"seed": options.seed, "seconds": round(time.perf_counter() - start)}
        print(json.dumps({"part": part, **figures}), flush=True)
        if figures["failures"]:
            failed.append(part)
    print(f"failed: {', '.join(failed)}" if failed else "all parts passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
