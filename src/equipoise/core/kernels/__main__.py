"""Compile all kernels: `python -m equipoise.core.kernels`, as when an image is built."""

import time

from equipoise.core.kernels import _compile, compile_all

if __name__ == "__main__":
    started = time.perf_counter()
    compile_all()
    print(f"kernels are in {_compile.code_folder()} after {time.perf_counter() - started:.1f} s")
