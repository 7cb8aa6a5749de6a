"""Reports: one HTML file that holds everything, made from records alone.

Nothing here knows a game, a solver or a learner: a report can be made again, elsewhere and
later, from the run folder. Matplotlib is imported when the first figure is drawn.
"""

from equipoise.report import figures
from equipoise.report._page import Report
from equipoise.report._tables import certificate_table, format_value, rounding_note, state_table

__all__ = [
    "Report",
    "certificate_table",
    "figures",
    "format_value",
    "rounding_note",
    "state_table",
]
