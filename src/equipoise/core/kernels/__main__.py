"""Compile all kernels, for instance for a machine image: `python -m equipoise.core.kernels`."""

import time

from equipoise.core.kernels import _compile, compile_all

if __name__ == "__main__":
    started = time.perf_counter()
    compile_all()
    print(f"kernels are ready in {_compile.code_folder()} ({time.perf_counter() - started:.1f} s)")
