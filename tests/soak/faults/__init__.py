"""Plant faults in formulas of every package; each must make some quick test fail.

    python -m soak.faults                   all faults
    python -m soak.faults logs exp3-rate    the faults of a part, and one fault

A fault is one replaced formula in a copy of the tree: a sign, an index, a bound rounded the wrong
way, a missing term, a swapped axis, a skipped refusal. A fault that no test notices is a gap in the
tests. Before any fault is planted, all of these tests must pass. benchmarks/references/faults.json
keeps which test noticed each fault when it was last planted, and in how many seconds.
"""

import json
from collections.abc import Sequence
from typing import Any

from soak.faults import certificates, crowds, logs, players, runs, solvers
from soak.faults.planting import (
    LIMIT,
    PACKAGES,
    ROOT,
    SOUND,
    Fault,
    copied_tree,
    plant,
    run_tests,
)

Row = dict[str, Any]
#: Which test noticed each fault when it was last planted, and in how many seconds.
TABLE = ROOT / "benchmarks/references/faults.json"
#: To be extended whenever a formula is written that no fault covers yet.
FAULTS: list[Fault] = [
    fault
    for module in (certificates, solvers, crowds, logs, players, runs)
    for fault in module.FAULTS
]


def chosen(words: Sequence[str]) -> list[Fault]:
    """Return the faults with these names or of these parts; all without words."""
    if unknown := set(words) - set(PACKAGES) - {fault.name for fault in FAULTS}:
        raise ValueError(f"expected names of faults or parts, found {', '.join(sorted(unknown))}")
    return [f for f in FAULTS if not words or f.name in words or f.part in words]


def plant_all(faults: Sequence[Fault]) -> list[str]:
    """Plant each fault once and keep what became of it; return what failed."""
    failures: list[str] = []
    with copied_tree() as tree:
        # A test that fails anyway notices nothing.
        tests = sorted({test for fault in faults for test in fault.tests})
        sound = run_tests(tree, tests, len(tests) * LIMIT)
        if sound.why != SOUND:
            return [f"without a fault: {sound.failed or sound.why}"]
        for fault in faults:
            test, why, seconds = plant(fault, tree)
            row: Row = {
                "part": fault.part,
                "package": test.split("/")[1] if test else None,
                "test": test,
                "seconds": seconds,
            }
            print(json.dumps({"fault": fault.name, **row, "why": why}), flush=True)
            keep(fault.name, row if test else None)
            failures += [] if test else [f"{fault.name}: {why}"]
    return failures


def keep(name: str, row: Row | None) -> None:
    """Put a fault that was noticed into the table, or take one out that was not."""
    rows = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    rows[name] = row
    kept = {fault.name: rows.get(fault.name) for fault in FAULTS}
    lines = [f"  {json.dumps(key)}: {json.dumps(found)}" for key, found in kept.items() if found]
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main(cases: int, seed: int) -> dict[str, object]:
    """Plant every fault once."""
    return {"failures": plant_all(FAULTS), "faults": len(FAULTS)}
