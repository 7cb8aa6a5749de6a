"""The command: choose workloads, run them, print tables, write JSON."""

import argparse
import importlib
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

from rich.console import Console

import benchmarks
from benchmarks.harness import record
from benchmarks.harness.model import Contender
from benchmarks.harness.runner import Row, run_case
from benchmarks.harness.table import case_table


def workloads() -> dict[str, ModuleType]:
    """Every module of this package that has a function `cases`, by name."""
    found = {}
    for info in pkgutil.iter_modules(benchmarks.__path__):
        if info.ispkg or info.name.startswith("_"):
            continue
        module = importlib.import_module(f"benchmarks.{info.name}")
        if hasattr(module, "cases"):
            found[info.name] = module
    return found


def summary(module: ModuleType) -> str:
    """The first line of a workload's description."""
    return (module.__doc__ or module.__name__).strip().splitlines()[0].rstrip(".")


def _arguments(known: dict[str, ModuleType]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=benchmarks.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name:14}{summary(module)}" for name, module in known.items()),
    )
    parser.add_argument("names", nargs="*", metavar="workload", help="default: all of them")
    parser.add_argument("--quick", action="store_true", help="small sizes, short passes")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write the results here")
    parser.add_argument("--only", metavar="TEXT", help="contenders with TEXT in their name")
    parser.add_argument("--case", metavar="TEXT", help="cases with TEXT in their name")
    parser.add_argument("--passes", type=int, default=5, help="timed passes, at least 3")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(known))
    if unknown:
        parser.error(f"workload: expected some of {sorted(known)}, found {unknown}")
    if arguments.passes < 3:
        parser.error(f"--passes: expected at least 3, found {arguments.passes}")
    return arguments


def main() -> int:
    """Run what was asked for; 1 if a row of ours gave no right answer."""
    known = workloads()
    arguments = _arguments(known)
    width = None if sys.stdout.isatty() else 160
    console, log = Console(width=width), Console(stderr=True)
    result = record.header()
    result |= {"quick": arguments.quick, "cases": []}
    all_rows: list[Row] = []

    def wanted(contender: Contender) -> bool:
        return not arguments.only or arguments.only.lower() in contender.name.lower()

    for name in arguments.names or known:
        for case in known[name].cases(arguments.quick):
            if arguments.case and arguments.case.lower() not in case.name.lower():
                continue
            with log.status("") as status:
                rows = run_case(
                    f"benchmarks.{name}",
                    case,
                    quick=arguments.quick,
                    passes=arguments.passes,
                    only=wanted,
                    progress=status.update,
                )
            console.print(case_table(case, rows, name))
            all_rows += rows
            result["cases"].append(
                {
                    "workload": name,
                    "case": case.name,
                    "unit": case.unit,
                    "items": case.items,
                    "measured": case.measured,
                    "rows": [row.as_dict() for row in rows],
                }
            )
            if arguments.json:
                record.write(arguments.json, result)
    return int(any(row.ours and row.status in ("failed", "wrong", "timed out") for row in all_rows))


if __name__ == "__main__":
    sys.exit(main())
