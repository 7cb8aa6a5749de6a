"""The library at work: a prologue and three acts, one for each structure it knows.

An act plays something into the record of a run folder, says in a sentence what came of it, and
ends with a certificate and the lines of Python that did it. A `Stage` is the folder of a whole
demo: it plays the acts and makes the page from their records.
"""

from equipoise.demo._acts import Act, Settings
from equipoise.demo._stage import ACTS, Stage

__all__ = ["ACTS", "Act", "Settings", "Stage"]
