"""What the library answers, frozen: inputs and outputs as plain arrays, and every public name.

    python -m benchmarks.references --check              compare with what is stored
    python -m benchmarks.references --check --beside mended   and print seconds of an old version
    python -m benchmarks.references --write [PATTERN]    compute rows anew and store them

A row is a call of `api`, arrays that go in and arrays that come out. Rows are stored, so a check
draws nothing: `rows` is read only when rows are written. `api` alone knows the library's names.
"""

import os

# Before NumPy or JAX is imported: the last bits depend on the number of threads.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
