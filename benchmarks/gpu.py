"""Zero-sum matrix games per second on the default JAX device, in float64.

    python -m benchmarks.gpu                 every size, plain text
    python -m benchmarks.gpu --quick         the smallest, to see that it runs
    python -m benchmarks.gpu --json out.json

Run by itself it needs equipoise, JAX, Equinox, NumPy and SciPy alone, and stays in this process,
which keeps the device. As one of the workloads of `python -m benchmarks` it is like any other.

Four ways to the same answer: the compiled kernel on payoffs that are on the device already, the
same from NumPy and back, and the whole public call with its certificate, for payoffs on the device,
where everything stays, and for payoffs in NumPy.
"""

import argparse
import json
import platform
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Answer, Arrays, Case, Contender, Skip
from benchmarks.harness.measures import as_policy, matrix_nash_conv
from benchmarks.harness.worker import Passes, as_arrays

#: Run unasked only where there is one.
ACCELERATOR = True
ACTIONS = (3, 10)
GAMES = (100_000, 1_000_000, 10_000_000)
QUICK_GAMES = (2_000,)

#: Without an accelerator, batches beyond this are not run.
MOST_GAMES_ON_CPU = 100_000
#: Games that pivot in lockstep; the batch is worked off in pieces of this size.
LOCKSTEP = 250_000
#: Accuracy is measured on this many games.
MEASURED_GAMES = 100_000


def accelerated() -> bool:
    """Whether JAX's default device is something else than the CPU."""
    import jax

    return jax.default_backend() != "cpu"


def check_size(games: int) -> None:
    """Refuse a batch that would take minutes without an accelerator."""
    if games > MOST_GAMES_ON_CPU and not accelerated():
        raise Skip("no accelerator")


def kernel() -> Callable[[Any], Any]:
    """The compiled kernel, from (games, rows, columns) on the device to policies on the device."""
    import jax
    import jax.numpy as jnp

    from equipoise.core.zerosum import pivot_to_optimum

    def piece(payoff: Any) -> tuple[Any, Any]:
        optimum = pivot_to_optimum(jnp.moveaxis(payoff, 0, -1))
        return optimum.x.T, optimum.y.T

    @jax.jit
    def solve(payoff: Any) -> tuple[Any, Any]:
        games, rows, columns = payoff.shape
        pieces = payoff.reshape(-1, min(games, LOCKSTEP), rows, columns)
        x, y = jax.lax.map(piece, pieces)
        return x.reshape(games, rows), y.reshape(games, columns)

    return solve


def sample(payoff: Any, x: Any, y: Any) -> Answer:
    """The games that are measured, to be fetched once the clock has stopped."""
    from equipoise.core.precision import double_precision

    def fetch(array: Any) -> np.ndarray:
        with double_precision():
            return np.asarray(array[:MEASURED_GAMES])

    return {"payoff": partial(fetch, payoff), "x": partial(fetch, x), "y": partial(fetch, y)}


def on_device(data: Arrays) -> Callable[[int], Answer]:
    """The kernel alone: payoffs are drawn on the device and policies stay there."""
    import jax

    from equipoise.core.precision import double_precision

    shape = tuple(data["shape"].tolist())
    check_size(shape[0])
    solve = kernel()
    with double_precision():
        payoff = jax.random.uniform(jax.random.key(0), shape, dtype="float64")

    def run(count: int) -> Answer:
        with double_precision():
            x, y = jax.block_until_ready(solve(payoff))
        return sample(payoff, x, y)

    return run


def with_transfers(data: Arrays) -> Callable[[int], Answer]:
    """The kernel between two NumPy arrays."""
    import jax

    from equipoise.core.precision import double_precision

    check_size(int(data["shape"][0]))
    payoff = np.random.default_rng(0).random(data["shape"])
    solve = kernel()

    def run(count: int) -> Answer:
        with double_precision():
            x, y = jax.device_get(solve(jax.device_put(payoff)))
        return sample(payoff, x, y)

    return run


def whole_call_there(data: Arrays) -> Callable[[int], Answer]:
    """`equipoise.solve` of payoffs on the device: checks, policies, certificate and status."""
    import jax

    import equipoise as eq
    from equipoise.core.precision import double_precision

    shape = tuple(data["shape"].tolist())
    check_size(shape[0])
    with double_precision():
        payoff = jax.random.uniform(jax.random.key(0), shape, dtype="float64")

    def run(count: int) -> Answer:
        solution = eq.solve(eq.MatrixGame(payoff))
        assert solution.status.ok, solution.status
        certificate = solution.certificate
        jax.block_until_ready((*solution.policy, solution.value, certificate.gains))
        return sample(payoff, *solution.policy)

    return run


def whole_call(data: Arrays) -> Callable[[int], Answer]:
    """`equipoise.solve`, as a user calls it."""
    import equipoise as eq

    check_size(int(data["shape"][0]))
    payoff = np.random.default_rng(0).random(data["shape"])

    def run(count: int) -> Answer:
        x, y = eq.solve(eq.MatrixGame(payoff)).policy
        return sample(payoff, x, y)

    return run


def measure(data: Arrays, answer: Answer) -> float:
    """Largest NashConv over the first games."""
    payoff = np.asarray(answer["payoff"])
    x = as_policy("x", answer["x"], payoff.shape[:2])
    y = as_policy("y", answer["y"], (len(payoff), payoff.shape[2]))
    return float(matrix_nash_conv(payoff, x, y).max())


def contenders() -> tuple[Contender, ...]:
    """Ours alone; general batched solvers in JAX (qpax, MPAX) are not compared with here."""
    options: dict[str, Any] = {
        "ours": True,
        "batched": True,
        "cores": None,
        "compiles": True,
        "timeout": 300.0,
        "how": "one batched call",
    }
    return (
        Contender("ours, kernel on the device", on_device, **options),
        Contender("ours, kernel with transfers", with_transfers, **options),
        Contender(
            "ours, equipoise.solve on the device",
            whole_call_there,
            notes="with certificate",
            **options,
        ),
        Contender(
            "ours, equipoise.solve from NumPy", whole_call, notes="with certificate", **options
        ),
    )


def cases(quick: bool) -> list[Case]:
    """One case per shape and batch size."""

    def case(actions: int, games: int) -> Case:
        return Case(
            name=f"{actions}x{actions}, {games:,} games on the default device",
            unit="game",
            items=games,
            # The shape alone: at ten million games every process need not hold the payoffs.
            data=lambda: {"shape": np.array([games, actions, actions])},
            contenders=contenders(),
            measure=measure,
        )

    sizes = QUICK_GAMES if quick else GAMES
    return [case(actions, games) for actions in ACTIONS for games in sizes]


def run_here(case: Case, contender: Contender, quick: bool, passes: int) -> dict[str, Any]:
    """One contender in this process; a dict that says how fast, how exact, or why not."""
    import jax

    row: dict[str, Any] = {"case": case.name, "contender": contender.name}
    row |= {"items": case.items, "unit": case.unit, "measured": case.measured}
    data = case.data()
    try:
        timed = Passes(case, contender, 0.05 if quick else 1.0)
        seconds = [timed.one()["seconds"] for _ in range(passes)]
        accuracy = case.measure(data, as_arrays(timed.answer))
    except Skip as reason:
        return row | {"status": "not run", "detail": str(reason)}
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return row | {"status": "out of memory", "detail": str(error).splitlines()[0][:200]}
    return row | {
        "status": "ok",
        "passes": seconds,
        "seconds": statistics.median(seconds),
        "compile_seconds": max(0.0, timed.first_call - timed.steady_call),
        "accuracy": accuracy,
    }


def show(row: dict[str, Any]) -> str:
    """A row as one line of text."""
    left = f"{row['case']:48}{row['contender']:38}"
    if row["status"] != "ok":
        return f"{left}{row['status']}: {row['detail']}"
    return (
        f"{left}{1.0 / row['seconds']:14,.0f} {row['unit']}s/s"
        f"   {row['measured']} {row['accuracy']:.1e}   compile {row['compile_seconds']:.1f} s"
    )


def main() -> int:
    """Print games per second; optionally write them as JSON."""
    import jax

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--passes", type=int, default=5, help="timed passes, at least 3")
    arguments = parser.parse_args()
    if arguments.passes < 3:
        parser.error(f"--passes: expected at least 3, found {arguments.passes}")
    device = jax.devices()[0]
    print(f"{device.device_kind} ({device.platform}), jax {jax.__version__}, float64", flush=True)
    rows = []
    for case in cases(arguments.quick):
        for contender in case.contenders:
            rows.append(run_here(case, contender, arguments.quick, arguments.passes))
            print(show(rows[-1]), flush=True)
    if arguments.json:
        head = {"device": device.device_kind, "jax": jax.__version__}
        head |= {"python": platform.python_version(), "quick": arguments.quick}
        arguments.json.write_text(json.dumps(head | {"rows": rows}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
