"""What tests/runs/test_ray.py runs in a process of its own, whose functions Ray can send.

(Tests check types by wrapping all functions, and wrapped closures cannot be sent.)

    python ray_work.py ADDRESS FOLDER
"""

import sys
from pathlib import Path

import numpy as np

import equipoise as eq
from equipoise.runs.engines import Ray


def check_fits(engine: Ray, folder: Path) -> None:
    """A log in six files, fitted by workers and by this process."""
    game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=3_000, key=1)
    for i in range(6):
        log.take(slice(500 * i, 500 * (i + 1))).write(folder / f"part-{i}.parquet")
    files = eq.offline.LogFiles(folder / "part-*.parquet", rows=200, on=engine)
    whole, spread = eq.offline.fit(log, rank=2), eq.offline.fit(files, rank=2)
    assert spread.samples == whole.samples
    for order, tables in whole.game.interactions.tables.items():
        np.testing.assert_allclose(spread.game.interactions.tables[order], tables, atol=1e-12)


def check_simulators(engine: Ray) -> None:
    """Episodes from actors, and from this process."""
    city = eq.games.load("demand-response", agents=50)
    one, many = (
        eq.learn(eq.aggregative.Simulator(city, key=0), 60, rewards="unknown", workers=workers)
        for workers in ("local", engine)
    )
    assert one.bound == many.bound
    assert (one.policy.counts == many.policy.counts).all()
    for name, values in one.curve.items():
        np.testing.assert_array_equal(values, many.curve[name])


if __name__ == "__main__":
    check_fits(Ray(sys.argv[1]), Path(sys.argv[2]))
    check_simulators(Ray(sys.argv[1]))
