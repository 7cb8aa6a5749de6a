"""Write the references, or check them: see the package's docstring for the commands."""

import argparse
import fnmatch
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.references import compare, names, store
from benchmarks.references.perform import perform_all
from benchmarks.references.rows import Row, drawn

ROOT = Path(__file__).parents[2]


def write(pattern: str | None, workers: int) -> int:
    """Draw and store all rows, or compute again those that match a pattern."""
    if pattern is None:
        stored = list(perform_all(list(drawn()), workers))
    else:
        stored = store.read()
        place = {_name(s.row): k for k, s in enumerate(stored)}
        known = {_name(row): row for row in drawn()}
        chosen = [row for name, row in known.items() if fnmatch.fnmatch(name, pattern)]
        if not chosen:
            print(f"no row matches {pattern!r}")
            return 2
        for new in perform_all(chosen, workers):
            name = _name(new.row)
            if name in place:
                print(f"{name}: {compare.compare(stored[place[name]].outputs, new.outputs)}")
                stored[place[name]] = new
            else:
                print(f"{name}: new")
                stored.append(new)
    store.write(stored)
    names.write()
    failed = [_name(s.row) for s in stored if "error" in s.outputs]
    for s in stored:
        if "error" in s.outputs:
            print(f"{_name(s.row)}: {s.outputs['error']}")
    return 1 if failed else 0


def _name(row: Row) -> str:
    return f"{row.group}: {row.name}"


def check(pattern: str | None, workers: int, beside: str | None) -> int:
    """Compare today's answers with the stored ones; print what moved."""
    stored = [s for s in store.read() if fnmatch.fnmatch(_name(s.row), pattern or "*")]
    if not stored:
        print(f"no row matches {pattern!r}")
        return 2
    same = store.same_machine()
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    moved = []
    for before, now in zip(stored, perform_all([s.row for s in stored], workers), strict=True):
        kind = compare.compare(before.outputs, now.outputs)
        kinds[before.row.group][kind] += 1
        for k, took in enumerate((before.seconds, now.seconds)):
            seconds[before.row.group][k] += took
        if kind == compare.SAME or (kind == compare.CLOSE and not same):
            continue
        moved.append(kind)
        print(f"{_name(before.row)}: {kind}{_detail(before.outputs, now.outputs)}")
    old = old_seconds(beside, pattern) if beside else {}
    _table(kinds, seconds, old)
    gone = names.missing() if pattern is None else []
    for name in gone:
        print(f"{name}: gone, and no line of CHANGELOG.md says what took its place")
    where = "this machine and these versions" if same else "another machine or other versions"
    print(f"{len(stored)} rows on {where}: {len(moved)} moved, {len(gone)} names gone")
    return 1 if moved or gone else 0


def _detail(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The words or the bounds of a row that moved."""
    if "error" in now:
        return f": {now['error']}"
    parts = []
    for name in ("status", "upper"):
        if name in before and name in now:
            values = [_short(side[name]) for side in (before, now)]
            if values[0] != values[1]:
                parts.append(f"{name} {values[0]} -> {values[1]}")
    return f" ({'; '.join(parts)})" if parts else ""


def _short(value: Any) -> str:
    array = np.asarray(value)
    return str(array) if array.dtype.kind in "US" else f"{array.max(initial=-np.inf):.3g}"


def _table(kinds: Any, seconds: Any, old: dict[str, float]) -> None:
    """Rows by how they moved, and processor seconds: stored, now, and of an old version."""
    print(
        f"\n{'':14} {'rows':>5} {'same':>5} {'close':>5} {'moved':>5}   stored s    now s    old s"
    )
    for group, counted in kinds.items():
        same, close = counted[compare.SAME], counted[compare.CLOSE]
        rows = sum(counted.values())
        before, now = seconds[group]
        beside = f"{old[group]:8.1f}" if group in old else f"{'':>8}"
        cells = f"{rows:5} {same:5} {close:5} {rows - same - close:5}"
        print(f"{group:14} {cells}   {before:8.1f} {now:8.1f} {beside}")


def old_seconds(which: str, pattern: str | None) -> dict[str, float]:
    """Processor seconds by group of an old version that `make old` has built."""
    place = ROOT / ".cache" / "old" / which
    python = place / ".venv" / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"make old WHICH={which} builds what --beside {which} compares with")
    path = os.pathsep.join([str(place / "src"), str(place / "references")])
    words = [str(python), "-m", "benchmarks.references", "--seconds", *filter(None, [pattern])]
    run = subprocess.run(
        words,
        cwd=place / "references",
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    pairs: Iterable[list[str]] = (line.rsplit(" ", 1) for line in run.stdout.splitlines())
    return {group: float(took) for group, took in pairs}


def print_seconds(pattern: str | None, workers: int) -> int:
    """Print the processor seconds of each group: how another version is asked for them."""
    rows = [s.row for s in store.read() if fnmatch.fnmatch(_name(s.row), pattern or "*")]
    took: Counter[str] = Counter()
    for stored in perform_all(rows, workers):
        took[stored.row.group] += stored.seconds  # pyright: ignore[reportArgumentType]
    for group, seconds in took.items():
        print(group, round(seconds, 2))
    return 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.references")
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--write", action="store_true", help="compute rows and store them")
    asked.add_argument("--check", action="store_true", help="compare with what is stored")
    asked.add_argument("--seconds", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("pattern", nargs="?", help='rows such as "tables: *"; default: all')
    parser.add_argument("--beside", choices=("released", "mended"), help="seconds of this version")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    options = parser.parse_args()
    if options.write:
        return write(options.pattern, options.workers)
    if options.seconds:
        return print_seconds(options.pattern, options.workers)
    return check(options.pattern, options.workers, options.beside)


if __name__ == "__main__":
    sys.exit(main())
