"""Reports: one self-contained HTML file, built from records alone.

A report can be rebuilt from the run folder, elsewhere and later. Only `record_of` depends on games:
it makes the record of a solution. Matplotlib is imported when the first figure is drawn.
"""

from typing import TYPE_CHECKING

from equipoise._lazy import load_on_first_use

if TYPE_CHECKING:
    from equipoise.report import figures as figures
    from equipoise.report._folders import RunFolder as RunFolder
    from equipoise.report._folders import find_runs as find_runs
    from equipoise.report._folders import read_runs as read_runs
    from equipoise.report._page import Report as Report
    from equipoise.report._page import content_policy as content_policy
    from equipoise.report._pages import compare as compare
    from equipoise.report._pages import page_of as page_of
    from equipoise.report._records import KINDS as KINDS
    from equipoise.report._records import record_of as record_of
    from equipoise.report._records import tables_of as tables_of
    from equipoise.report._run_curves import Curve as Curve
    from equipoise.report._run_curves import curves_of as curves_of
    from equipoise.report._stories import status_of as status_of
    from equipoise.report._tables import CONCEPTS as CONCEPTS
    from equipoise.report._tables import FEW as FEW
    from equipoise.report._tables import agents_of as agents_of
    from equipoise.report._tables import certificate_of as certificate_of
    from equipoise.report._tables import certificate_table as certificate_table
    from equipoise.report._tables import concept_in_words as concept_in_words
    from equipoise.report._tables import concept_of as concept_of
    from equipoise.report._tables import format_value as format_value
    from equipoise.report._tables import has_certificate as has_certificate
    from equipoise.report._tables import labels_of as labels_of
    from equipoise.report._tables import play_in_words as play_in_words
    from equipoise.report._tables import player_names as player_names
    from equipoise.report._tables import rounding_note as rounding_note
    from equipoise.report._tables import state_table as state_table

_HOMES = {
    "_folders": "RunFolder find_runs read_runs",
    "_page": "Report content_policy",
    "_pages": "compare page_of",
    "_records": "KINDS record_of tables_of",
    "_run_curves": "Curve curves_of",
    "_stories": "status_of",
    "_tables": (
        "CONCEPTS FEW agents_of certificate_of certificate_table concept_in_words concept_of "
        "format_value has_certificate labels_of play_in_words player_names rounding_note "
        "state_table"
    ),
}
_PUBLIC: dict[str, str | None] = {"figures": None} | {
    name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names.split()
}

__all__ = sorted(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = load_on_first_use(__name__, _PUBLIC)
