"""The command line: one module per verb, which parses arguments and calls the public functions.

A verb is a module `equipoise/cli/<verb>.py` with a dataclass of the same name (`solve.Solve`), and
one line in `VERBS`. The fields of the dataclass are the arguments, and its `execute()` returns the
exit code. An optional `ARGUMENTS` maps arguments of the library to the flags that set them, so that
errors name the flag.
"""

from equipoise.cli._main import VERBS, main

__all__ = ["VERBS", "main"]
