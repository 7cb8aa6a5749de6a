"""The command: choose workloads, run them, print tables, write JSON."""

import argparse
import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

import benchmarks
from benchmarks.harness import record
from benchmarks.harness.model import Case, Contender
from benchmarks.harness.runner import Row, run_case
from benchmarks.harness.summary import Line, skipped, summarise, summary_table
from benchmarks.harness.table import case_table

#: What `--json` without a name means.
STDOUT = "-"
#: What may not happen to a row of ours.
FAILURES = ("failed", "wrong", "timed out")


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
    parser.add_argument(
        "names", nargs="*", metavar="workload", help="default: all but those against PyTorch"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, short passes")
    parser.add_argument("--details", action="store_true", help="all contenders of every case")
    parser.add_argument(
        "--json", nargs="?", const=STDOUT, metavar="OUT",
        help="also write the results here; without a name, print them instead of tables",
    )  # fmt: skip
    parser.add_argument("--only", metavar="TEXT", help="contenders with TEXT in their name")
    parser.add_argument("--case", metavar="TEXT", help="cases with TEXT in their name")
    parser.add_argument("--passes", type=int, help="timed passes, at least 3 (5, or 3 if quick)")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(known))
    if unknown:
        parser.error(f"workload: expected some of {sorted(known)}, found {unknown}")
    if arguments.passes is None:
        arguments.passes = 3 if arguments.quick else 5
    if arguments.passes < 3:
        parser.error(f"--passes: expected at least 3, found {arguments.passes}")
    return arguments


def main() -> int:
    """Run what was asked for; 1 if a row of ours gave no right answer."""
    known = workloads()
    arguments = _arguments(known)
    as_data = arguments.json == STDOUT
    console = Console(width=None if sys.stdout.isatty() else 160, quiet=as_data)
    log = Console(stderr=True)
    result = record.header() | {"quick": arguments.quick, "cases": [], "summary": []}
    lines: list[Line] = []
    failed = False
    for name, case in _chosen(known, arguments):
        rows = _run(name, case, arguments, log)
        failed = failed or any(row.ours and row.status in FAILURES for row in rows)
        lines.append(summarise(name, case, rows))
        if arguments.details:
            console.print(case_table(case, rows, name))
        result["cases"].append(_as_data(name, case, rows))
        result["summary"].append(lines[-1].as_dict())
        if arguments.json and not as_data:  # after every case: a long run may be stopped
            record.write(Path(arguments.json), result)
    if as_data:
        sys.stdout.write(json.dumps(result, indent=2, allow_nan=False) + "\n")
    console.print(summary_table(lines, "Time of ours and of the best of the others"))
    console.print("The ratio is theirs over ours, on as many cores; above 1 ours is faster.")
    unasked = [] if arguments.names else [name for name in known if name not in _here(known)]
    for name in unasked:
        deep = getattr(known[name], "DEEP", False)
        why = "compared with PyTorch by `make bench-deep`" if deep else "no accelerator here"
        console.print(f"Left out: {name}: {why}")
    for text in skipped(lines):
        console.print(f"Left out: {text}", highlight=False, markup=False)
    return int(failed)


def _chosen(
    known: dict[str, ModuleType], arguments: argparse.Namespace
) -> Iterator[tuple[str, Case]]:
    """The cases that were asked for, with the name of their workload."""
    for name in arguments.names or _here(known):
        for case in known[name].cases(arguments.quick):
            if not arguments.case or arguments.case.lower() in case.name.lower():
                yield name, case


def _here(known: dict[str, ModuleType]) -> list[str]:
    """Workloads that are run unasked: some need an accelerator, and some PyTorch beside them."""
    names = [name for name, module in known.items() if not getattr(module, "DEEP", False)]
    if any(getattr(known[name], "ACCELERATOR", False) for name in names):
        import jax

        if jax.default_backend() == "cpu":
            return [name for name in names if not getattr(known[name], "ACCELERATOR", False)]
    return names


def _run(name: str, case: Case, arguments: argparse.Namespace, log: Console) -> list[Row]:
    def wanted(contender: Contender) -> bool:
        return not arguments.only or arguments.only.lower() in contender.name.lower()

    with log.status("") as status:
        return run_case(
            f"benchmarks.{name}",
            case,
            quick=arguments.quick,
            passes=arguments.passes,
            only=wanted,
            progress=status.update,
        )


def _as_data(name: str, case: Case, rows: list[Row]) -> dict[str, Any]:
    return {
        "workload": name,
        "case": case.name,
        "unit": case.unit,
        "items": case.items,
        "measured": case.measured,
        "rows": [row.as_dict() for row in rows],
    }


if __name__ == "__main__":
    sys.exit(main())
