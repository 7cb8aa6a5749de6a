"""Reports: one self-contained HTML file, built from records alone.

A report can be rebuilt from the run folder, elsewhere and later. Only `record_of` depends on games:
it makes the record of a solution. Matplotlib is imported when the first figure is drawn.
"""

from equipoise.report import figures
from equipoise.report._folders import RunFolder, find_runs, read_runs
from equipoise.report._page import Report, content_policy
from equipoise.report._pages import compare, page_of
from equipoise.report._records import KINDS, record_of, tables_of
from equipoise.report._run_curves import Curve, curves_of
from equipoise.report._stories import status_of
from equipoise.report._tables import (
    CONCEPTS,
    FEW,
    agents_of,
    certificate_of,
    certificate_table,
    concept_in_words,
    concept_of,
    format_value,
    has_certificate,
    labels_of,
    play_in_words,
    player_names,
    rounding_note,
    state_table,
)

__all__ = [
    "CONCEPTS",
    "FEW",
    "KINDS",
    "Curve",
    "Report",
    "RunFolder",
    "agents_of",
    "certificate_of",
    "certificate_table",
    "compare",
    "concept_in_words",
    "concept_of",
    "content_policy",
    "curves_of",
    "figures",
    "find_runs",
    "format_value",
    "has_certificate",
    "labels_of",
    "page_of",
    "play_in_words",
    "player_names",
    "read_runs",
    "record_of",
    "rounding_note",
    "state_table",
    "status_of",
    "tables_of",
]
