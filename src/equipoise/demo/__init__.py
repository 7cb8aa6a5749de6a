"""A demonstration of the library: a prologue and three acts, one for each tractable structure.

An act runs a computation into the record of a run folder, summarises the outcome in a sentence, and
ends with a certificate and the lines of Python that produced it. A `Stage` is the folder of a whole
demo: it plays the acts and writes the page from their records.
"""

from equipoise.demo._acts import Act, Settings
from equipoise.demo._stage import ACTS, Stage

__all__ = ["ACTS", "Act", "Settings", "Stage"]
