"""Plant faults in kernels and certificates; each must make some test fail.

Every fault is one replaced piece of source text in a copy of the tree. A fault that no test notices
is a gap in the tests, and so is one whose text is no longer there.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Fault(NamedTuple):
    """What is replaced, by what, and which tests should notice."""

    file: str
    text: str
    instead: str
    tests: str


#: To be extended whenever a kernel or a certificate is written.
FAULTS: list[Fault] = [
    Fault(  # the anchor follows the policy before the step
        "src/equipoise/dynamics/_omd.py",
        "self.anchor.update(state.anchor, policy, t)",
        "self.anchor.update(state.anchor, state.policy, t)",
        "tests/dynamics/test_steps_by_hand.py",
    ),
    Fault(  # implicit exploration is left out of the estimate
        "src/equipoise/dynamics/_parts.py",
        "weighted = once(loss / (steps.pick(policy, action) + beta))",
        "weighted = once(loss / steps.pick(policy, action))",
        "tests/dynamics/test_steps_by_hand.py",
    ),
    Fault(  # the pull has the wrong sign
        "src/equipoise/dynamics/_omd.py",
        "losses + rates.strength(t, actions) * pull",
        "losses - rates.strength(t, actions) * pull",
        "tests/dynamics/test_steps_by_hand.py",
    ),
    Fault(  # moves that were never made count as determined by the log
        "src/equipoise/offline/_least_squares.py",
        "    determined *= np.diagonal(cells.gram, axis1=1, axis2=2) > 0\n",
        "",
        "tests/offline/test_fit.py",
    ),
    Fault(  # pivots stop a thousand times too early
        "src/equipoise/core/zerosum/_pivot.py",
        "t.cost < -16.0 * precision",
        "t.cost < -16e3 * precision",
        "tests/core/test_zerosum.py",
    ),
    Fault(  # a matrix game's certificate without rounding
        "src/equipoise/certificates/_tables.py",
        "slack = 2.0 * step * reach + table.tiny",
        "slack = 0.0 * reach",
        "tests/certificates/test_certificates_exactly.py",
    ),
    Fault(  # a normal form's certificate without rounding
        "src/equipoise/certificates/_tables.py",
        "bound = max((own + step * size).max() - value + slack, own.max() - value)",
        "bound = own.max() - value",
        "tests/certificates/test_certificates_exactly.py",
    ),
    Fault(  # the worst reply instead of the best
        "src/equipoise/certificates/_tables.py",
        "best, worst = largest(row_values), smallest(column_values)",
        "best, worst = smallest(row_values), smallest(column_values)",
        "tests/certificates/test_certify.py",
    ),
    Fault(  # the worst reply of an agent among many
        "src/equipoise/certificates/_crowds.py",
        "gains = np.max(rewards, 1) - value",
        "gains = np.min(rewards, 1) - value",
        "tests/certificates/test_certify_crowds.py",
    ),
    Fault(  # a contextual game's certificate without the rounding of replies
        "src/equipoise/certificates/_interactions.py",
        "swapped + step * swapped_size, -np.inf",
        "swapped, -np.inf",
        "tests/certificates/test_certificates_exactly.py",
    ),
    Fault(  # one step's residual instead of the sum over all steps
        "src/equipoise/core/mdp.py",
        "return worst / (1.0 - discount) * (1.0 + 8 * EPS)",
        "return worst * (1.0 + 8 * EPS)",
        "tests/certificates/test_certificates_exactly.py",
    ),
    Fault(  # the errors of computed advantages are left out
        "src/equipoise/core/mdp.py",
        "_discounted(np.maximum(best, 0.0) + error, reach[some], discount)",
        "_discounted(np.maximum(best, 0.0), reach[some], discount)",
        "tests/certificates/test_certificates_exactly.py",
    ),
    Fault(  # a damaged checkpoint is read
        "src/equipoise/runs/_checkpoint.py",
        "if told != _digest(manifest, arrays):",
        "if False:",
        "tests/runs/test_checkpoints.py",
    ),
    Fault(  # labels are lost when a batch is indexed
        "src/equipoise/games/_matrix.py",
        "self._take(self.payoff, index), labels=self.labels)",
        "self._take(self.payoff, index))",
        "tests/conformance/test_games_and_policies.py",
    ),
]


def survives(fault: Fault) -> str | None:
    """Why a fault was not noticed; None when a test failed."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name)
        for part in ("src", "tests", "docs", "benchmarks", "examples"):
            shutil.copytree(ROOT / part, tree / part)
        for part in ("pyproject.toml", "README.md", "mkdocs.yml", "Makefile"):
            shutil.copy(ROOT / part, tree / part)
        file = tree / fault.file
        source = file.read_text()
        if source.count(fault.text) < 1:
            return f"{fault.file} does not contain {fault.text!r}"
        file.write_text(source.replace(fault.text, fault.instead, 1))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        done = subprocess.run(
            [*command, *fault.tests.split()], cwd=tree, env=environment, capture_output=True
        )
        # 1: some test failed. Anything else (no test, a broken import) proves nothing.
        return None if done.returncode == 1 else f"pytest ended with {done.returncode}"


def main(cases: int, seed: int) -> dict[str, object]:
    """Plant every fault once."""
    failures = 0
    for fault in FAULTS:
        why = survives(fault)
        failures += why is not None
        print(
            json.dumps({"fault": fault._asdict(), "noticed": why is None, "why": why}), flush=True
        )
    return {"failures": failures + (not FAULTS), "faults": len(FAULTS)}
