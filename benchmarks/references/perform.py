"""Make the calls of rows, in processes of their own."""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from benchmarks.references.rows import Row
from benchmarks.references.store import Stored


def perform(row: Row) -> tuple[dict[str, Any], float]:
    """Make the call of a row; return its outputs and its processor seconds."""
    from benchmarks.references import api

    start = time.process_time()
    try:
        outputs = api.CALLS[row.call](row.inputs, row.options)
    except Exception as error:  # a row that fails is a row that moved
        outputs = {"error": f"{type(error).__name__}: {error}"}
    return outputs, time.process_time() - start


def perform_all(rows: list[Row], workers: int) -> Iterator[Stored]:
    """Make all calls in processes of their own, with progress on stderr."""
    start = time.perf_counter()
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        results = pool.map(perform, rows, chunksize=4)
        for done, (row, (outputs, seconds)) in enumerate(zip(rows, results, strict=True), 1):
            if done % 10 == 0 or done == len(rows):
                took = time.perf_counter() - start
                print(f"\r{done} of {len(rows)} rows, {took:.0f} s", end="", file=sys.stderr)
            yield Stored(row, outputs, seconds)
    print(file=sys.stderr)
