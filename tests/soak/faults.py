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
_EXACTLY = "tests/certificates/test_certificates_exactly.py::test_no_gain_is_under_reported"
_IDLE = (
    "tests/certificates/test_certificates_exactly.py::"
    "test_the_rounding_of_a_deviation_counts_where_the_policy_earns_nothing"
)
#: Seconds that the tests of one fault may take.
_LIMIT = 900


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
    Fault(  # compiled answers are refined a thousand times too little
        "src/equipoise/core/kernels/_zerosum.py",
        "return _EPS * (4.0 + 0.125 * (m + n))",
        "return _EPS * (4e6 + 0.125 * (m + n))",
        "tests/core/kernels/test_zero_sum_kernels.py",
    ),
    Fault(  # a matrix game's certificate without rounding
        "src/equipoise/certificates/_tables.py",
        "slack = 2.0 * step * reach + table.tiny",
        "slack = 0.0 * reach",
        f"{_EXACTLY}[matrix]",
    ),
    Fault(  # a normal form's certificate without rounding
        "src/equipoise/certificates/_tables.py",
        "bound = np.maximum(largest(own + step * size) - value + slack, gain)",
        "bound = gain",
        f"{_EXACTLY}[normal-form]",
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
        f"{_IDLE}[contextual]",
    ),
    Fault(  # one step's residual instead of the sum over all steps
        "src/equipoise/core/mdp.py",
        "return worst / (1.0 - discount) * (1.0 + 8 * EPS)",
        "return worst * (1.0 + 8 * EPS)",
        f"{_EXACTLY}[markov]",
    ),
    Fault(  # the errors of computed advantages are left out
        "src/equipoise/core/mdp.py",
        "_discounted(np.maximum(best, 0.0) + error, reach[some], discount)",
        "_discounted(np.maximum(best, 0.0), reach[some], discount)",
        _IDLE,
    ),
    Fault(  # the bound of a correlated policy without rounding
        "src/equipoise/certificates/_tables.py",
        "bound = np.maximum(largest(swapped + step * size).sum(-1) - value + slack, gain)",
        "bound = gain",
        f"{_IDLE}[joint]",
    ),
    Fault(  # the compiled bound of a matrix game without rounding
        "src/equipoise/core/kernels/_gains.py",
        "results[1, g, i] = results[0, g, i] + results[3, g, i]",
        "results[1, g, i] = results[0, g, i]",
        f"{_IDLE}[matrix]",
    ),
    Fault(  # the compiled bound of a bimatrix game without rounding
        "src/equipoise/core/kernels/bimatrix.py",
        "results[1, g, player] = max(above - value + slack, best - value)",
        "results[1, g, player] = best - value",
        f"{_EXACTLY}[batch]",
    ),
    Fault(  # the compiled residual of one step instead of the sum over all
        "src/equipoise/core/kernels/_markov_gains.py",
        "error[s] *= (1.0 + 8 * _EPS) / (1.0 - discount)",
        "error[s] *= 1.0 + 8 * _EPS",
        f"{_EXACTLY}[batch]",
    ),
    Fault(  # backward induction without rounding
        "src/equipoise/core/deviations.py",
        "4 * operations * EPS * reach",
        "0.0 * reach",
        f"{_EXACTLY}[general-sum-markov]",
    ),
    Fault(  # a deviation of an agent among many at the aggregate that it left
        "src/equipoise/certificates/_crowds.py",
        "return x + scale * (influence - left)",
        "return x + 0.0 * (influence - left)",
        f"{_EXACTLY}[aggregative]",
    ),
    Fault(  # the bound of an agent among many without the rounding of the aggregate
        "src/equipoise/certificates/_crowds.py",
        "slack = 2.0 * game.lipschitz * moved + 4 * EPS * np.abs(rewards).max(1)",
        "slack = 0.0 * np.abs(rewards).max(1)",
        f"{_EXACTLY}[aggregative]",
    ),
    Fault(  # the bound of path flows without the rounding of their costs
        "src/equipoise/games/_network.py",
        "error = EPS * (error + 3.0",
        "error = 0.0 * (error + 3.0",
        f"{_EXACTLY}[network]",
    ),
    Fault(  # what the paths of link flows use beyond them is free
        "src/equipoise/certificates/_networks.py",
        "missed = math.fsum((over * crowded).ravel())",
        "missed = 0.0",
        "tests/networks/test_certified_flows.py",
    ),
    Fault(  # costs that do not depend on the flow count as unknown
        "src/equipoise/games/_network.py",
        "np.where((v > 0.0) & self._grows, lost, 0.0)",
        "np.where(v > 0.0, lost, 0.0)",
        f"{_EXACTLY}[network]",
    ),
    Fault(  # rewards met with a probability below 1e-308 are forgotten
        "src/equipoise/certificates/_markov.py",
        "np.maximum(np.abs(table.scaled), least)",
        "np.abs(table.scaled)",
        "tests/certificates/test_certificates_exactly.py",
    ),
    Fault(  # travellers who are missing are left out
        "src/equipoise/certificates/_networks.py",
        "return amounts * (game.demand / carried)[pairs]",
        "return amounts.astype(np.longdouble)",
        f"{_EXACTLY}[network]",
    ),
    Fault(  # links of a run folder are written through
        "src/equipoise/runs/_folder.py",
        "if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):",
        "if False:",
        "tests/runs/test_damaged_folders.py",
    ),
    Fault(  # a bound on a polynomial without its curvature
        "src/equipoise/core/polynomials.py",
        "top = np.maximum(low, high) + bend[which] * (right - left) ** 2",
        "top = np.maximum(low, high)",
        "tests/core/test_polynomials.py",
    ),
    Fault(  # the bound of a polynomial reward without rounding
        "src/equipoise/certificates/_continuous.py",
        "best[..., 0] - value, top + slack, 2.0 * slack",
        "best[..., 0] - value, top, 2.0 * slack",
        f"{_IDLE}[continuous]",
    ),
    Fault(  # a tenth of the stated slope of a function
        "src/equipoise/certificates/_continuous.py",
        "0.5 * (low + high + reward.lipschitz * length)",
        "0.5 * (low + high + 0.1 * reward.lipschitz * length)",
        "tests/certificates/test_continuous_certificates.py",
    ),
    Fault(  # arrays of any size are allocated
        "src/equipoise/core/arrays.py",
        "if size != rest or cells > 1 << 48:",
        "if False:",
        "tests/core/test_arrays.py",
    ),
    Fault(  # a checkpoint of another step or run is taken
        "src/equipoise/runs/_run.py",
        "        _check_belongs(path, facts, config)\n",
        "",
        "tests/runs/test_checkpoints.py tests/runs/test_damaged_folders.py",
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
        for part in ("pyproject.toml", "README.md", "Makefile"):
            shutil.copy(ROOT / part, tree / part)
        file = tree / fault.file
        source = file.read_text()
        if source.count(fault.text) < 1:
            return f"{fault.file} does not contain {fault.text!r}"
        file.write_text(source.replace(fault.text, fault.instead, 1))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        try:
            done = subprocess.run(
                [*command, *fault.tests.split()],
                cwd=tree, env=environment, capture_output=True, timeout=_LIMIT,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"pytest did not end within {_LIMIT} s"
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
