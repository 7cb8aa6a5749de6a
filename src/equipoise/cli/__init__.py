"""The command line: one file per verb, parsing only; the work is done by the public surface.

A verb is a file `equipoise/cli/<verb>.py` with a dataclass named like it (`solve.Solve`), whose
fields are the arguments and whose `execute()` returns the exit code, and one line in `VERBS`. Its
`ARGUMENTS`, if it has any, are arguments of the library and the flags that stand for them.
"""

from equipoise.cli._main import VERBS, main

__all__ = ["VERBS", "main"]
