"""Reports: one HTML file that holds everything, made from records alone.

Nothing here knows a game, a solver or a learner: a report can be made again, elsewhere and
later, from the run folder. Matplotlib is imported when the first figure is drawn.
"""

from equipoise.report import figures
from equipoise.report._certified import certificate_of, concept_of
from equipoise.report._folders import RunFolder, find_runs, read_runs
from equipoise.report._page import Report
from equipoise.report._pages import compare, page_of
from equipoise.report._run_curves import Curve, curves_of
from equipoise.report._tables import (
    certificate_table,
    format_value,
    player_names,
    rounding_note,
    state_table,
)

__all__ = [
    "Curve",
    "Report",
    "RunFolder",
    "certificate_of",
    "certificate_table",
    "compare",
    "concept_of",
    "curves_of",
    "figures",
    "find_runs",
    "format_value",
    "page_of",
    "player_names",
    "read_runs",
    "rounding_note",
    "state_table",
]
