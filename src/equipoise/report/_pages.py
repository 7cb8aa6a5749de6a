"""The page of a record, and the page that compares runs.

Both are made of the same sections: numbers, certificates, curves, pictures, tables, settings and
commands. What is said of a record comes from the table of `_stories`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.report import figures
from equipoise.report._folders import RunFolder
from equipoise.report._page import Report, flat
from equipoise.report._pictures import Picture, pictures_of, strength_of
from equipoise.report._records import tables_of
from equipoise.report._run_curves import Curve, curves_of
from equipoise.report._stories import Story, in_words, status_of, story_of
from equipoise.report._tables import (
    IN_MODEL,
    certificate_of,
    certificate_rows,
    certificate_table,
    has_certificate,
    labels_of,
    player_names,
    rounding_note,
    state_table,
)
from equipoise.runs import Record, Table

#: Longer tables are cut; the record holds all.
_ROWS = 30
#: More curves than this in one figure cannot be told apart.
_CURVES = 7
#: Numbers that are shown elsewhere.
_NOTED = ("key", "seconds", "first_seconds")
#: Why something may not be comparable is more useful on top than at the end of the page.
_OTHER_VERSIONS = "The runs were made with different versions: {names}."
#: Certificates with more players times states than this are summarised.
_CELLS = 120
_EXACT = {True: "exact", False: "not exact"}
_COLUMNS = (
    "run", "concept", "games", "max gain", "worst", "at most", "interval", "NashConv",
    "exploitability", "how",
)  # fmt: skip
_MEANING = (
    "How much any player could still gain by leaving the policy alone: the max gain is the ε of "
    "an ε-equilibrium of the concept that is named; of a batch of games, the mean and the worst. "
    "It is the gain of a deviation that was found; no deviation gains more than what stands under "
    "“at most”, which is proven, rounding included."
)
#: What is said only where there is such a row.
_MEANINGS = {
    "Nash": (
        "Nash: everybody plays independently. The NashConv is the sum of all gains, the "
        "exploitability that sum by the number of players."
    ),
    "coarse correlated": (
        "Coarse correlated: the policy is a mixture, drawn for all players at once, and whoever "
        "leaves it decides so before anything is drawn. A gain can then be negative."
    ),
    "correlated": (
        "Correlated: the policy is a mixture, drawn for all players at once, and whoever leaves "
        "it has been told its own part."
    ),
    IN_MODEL: (
        "In the fitted model: an estimate. The gains are those in a model fitted to a log, not in "
        "the game itself, which is not known. A policy looks better in the model that it was "
        "learned in than it is: the interval is about the game, from rows it was not learned from."
    ),
}


def compare(
    runs: Sequence[RunFolder],
    *,
    title: str = "",
    drawings: Mapping[str, Sequence[tuple[Any, str]]] | None = None,
    command: str = "",
) -> Report:
    """One page about one or more runs, from what their folders hold.

    `drawings` are more figures for a run, by its label, each with alternative text.
    `command` is the one that makes the page, and ends the list of those to reproduce it.

    **Example**

    >>> import tempfile
    >>> from equipoise.report import RunFolder, compare
    >>> from equipoise.runs import Record, Run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     for step in (0.1, 0.2):
    ...         with Run.create(f"{place}/{step}", {"step": step, "games": 8}) as run:
    ...             arrays = {"rounds": [1, 10, 100], "gap": [1.0, step, step / 10]}
    ...             _ = run.finish(Record("play", run.config, {"gap": step / 10}, arrays))
    ...     page = compare([RunFolder.read(f"{place}/{step}") for step in (0.1, 0.2)])
    >>> html = page.html()
    >>> html.count("<svg"), "≠ step" in html, "≠ games" in html
    (1, True, False)
    """
    if not runs:
        raise InputError("runs", "at least one", "none")
    one = len(runs) == 1
    story = story_of(runs[0].record) if one and runs[0].record is not None else Story()
    page = Report(
        title or story.title or (f"Run: {runs[0].label}" if one else f"{len(runs)} runs compared"),
        story.lead or "Made from the run folders alone; everything is in this file.",
    )
    if one and runs[0].record is not None and story.first:
        page.section("Advice")
        _add_table(page, runs[0].label, story.first, tables_of(runs[0].record)[story.first], story)
        page.text(story.text)
    page.section("Result" if one else "Results")
    page.table(_overview(runs))
    _warn_of_versions(page, runs)
    if story.text and not story.first:
        page.text(story.text)
    if not one:
        _add_scalars(page, runs)
    _add_certificates(page, runs)
    if one and runs[0].record is not None:
        _add_certificate(page, runs[0].record)
    if one:
        _add_scalars(page, runs)
    _add_curves(page, runs)
    _add_pictures(page, runs, drawings or {})
    _add_tables(page, runs, story)
    _add_settings(page, runs)
    commands = [*_commands(runs), *([command] if command else [])]
    environment = {run.label: run.sessions[-1] for run in runs if run.sessions}
    return page.reproduce(commands or ["(the runs do not tell)"], environment)


def page_of(record: Record | RunFolder, *, title: str = "") -> Report:
    """The page of one record, whoever made it, or of the folder of one run.

    **Example**

    >>> from equipoise.report import page_of
    >>> from equipoise.runs import Record
    >>> arrays = {"rounds": [1, 10, 100], "gap": [1.0, 0.3, 0.1]}
    >>> page_of(Record("play", {"games": 8}, {"gap": 0.1}, arrays)).html().count("<svg")
    1
    """
    if isinstance(record, Record):
        record = RunFolder(Path(record.name), record.name, record.config, record)
    if not isinstance(record, RunFolder):
        hint = "read a run folder by RunFolder.read(path)"
        raise InputError("record", "a Record or a RunFolder", type(record).__name__, hint)
    return compare([record], title=title)


def _commands(runs: Sequence[RunFolder]) -> list[str]:
    """What made the runs, in the order of time: what made a folder is before what read it."""
    made = sorted((run for run in runs if run.command), key=lambda run: run.sessions[0]["started"])
    return list(dict.fromkeys(run.command for run in made))


def _overview(runs: Sequence[RunFolder]) -> Table:
    rows = []
    for run in runs:
        started = _minute(run.sessions[0]["started"]) if run.sessions else None
        kind = run.record.name if run.record is not None else None
        version = run.versions.get("equipoise")
        what = (run.label, kind, _game(run), run.state, _status(run))
        rows.append((*what, _seconds(run), started, version))
    columns = ("run", "record", "game", "state", "status", "seconds", "started", "version")
    if not any(row[2] for row in rows):
        return Table((*columns[:2], *columns[3:]), [(*row[:2], *row[3:]) for row in rows])
    return Table(columns, rows)


def _minute(moment: str) -> str:
    """A moment to the minute.

    >>> _minute("2026-01-31T09:30:15+00:00")
    '2026-01-31 09:30 UTC'
    """
    text = moment[:16].replace("T", " ")
    return f"{text} UTC" if moment.endswith(("+00:00", "Z")) else text


def _game(run: RunFolder) -> str | None:
    """The game, where the record names it."""
    game = None if run.record is None else run.record.scalars.get("game")
    return game if isinstance(game, str) else None


def _status(run: RunFolder) -> str | None:
    """What a solver or learner says of its answer, in a word."""
    return None if run.record is None else status_of(run.record).split(":")[0] or None


def _seconds(run: RunFolder) -> float:
    """The time in the folder, or that in the record where the folder was made after the work."""
    noted = 0.0 if run.record is None else run.record.scalars.get("seconds", 0.0)
    return max(run.seconds, float(noted))


def _warn_of_versions(page: Report, runs: Sequence[RunFolder]) -> None:
    names = dict.fromkeys(name for run in runs for name in run.versions)
    apart = [n for n in names if len({r.versions.get(n) for r in runs if r.versions}) > 1]
    if apart:
        page.text(_OTHER_VERSIONS.format(names=", ".join(apart)))


def _add_scalars(page: Report, runs: Sequence[RunFolder]) -> None:
    """Numbers, one column for each run: first those that all runs have, then the rest, folded.

    The rest is grouped by which numbers there are. All numbers of a single run are folded.
    """
    every = [_scalars(run) for run in runs]
    common = [name for name in every[0] if all(name in one for one in every)]
    if len(runs) > 1 and common:
        _add_numbers(page, runs, common, "")
    else:
        common = []
    for group in _alike(runs, lambda run: tuple(_scalars(run))):
        others = [name for name in _scalars(group[0]) if name not in common]
        many = f"{len(others)} {'other ' if common else ''}numbers"
        whose = "" if len(group) == len(runs) else f" of {', '.join(run.label for run in group)}"
        if others:
            _add_numbers(page, group, others, many + whose)


def _add_numbers(page: Report, runs: Sequence[RunFolder], names: list[str], summary: str) -> None:
    rows = [(name, *(_scalars(run)[name] for run in runs)) for name in names]
    page.table(Table(("number", *(run.label for run in runs)), rows), summary=summary)


def _scalars(run: RunFolder) -> dict[str, Any]:
    """The numbers of the record, by what they are called on the page."""
    if run.record is None:
        return {}
    known = {"stats": (run.record.solution or {}).get("stats", {}), **run.record.scalars}
    return {
        in_words(name, run.record.name): value
        for name, value in flat(known)
        if isinstance(value, int | float) and not isinstance(value, bool)
        if name not in _NOTED and not name.startswith(("certified.", "drawn."))
        if not _is_repeated(name, run.record.scalars)
    }


def _is_repeated(name: str, scalars: Mapping[str, Any]) -> bool:
    """Whether a solver's statistic is a number of the record already."""
    return name.startswith("stats.") and name.removeprefix("stats.") in scalars


def _add_certificates(page: Report, runs: Sequence[RunFolder]) -> None:
    """Add the section of certificates, if any of the runs has one."""
    rows = [row for run in runs for row in certificate_rows(run)]
    if not rows:
        return
    said = ", ".join(row["concept"] for row in rows).split(", ")
    page.section("Certificates")
    page.text(" ".join([_MEANING, *(text for name, text in _MEANINGS.items() if name in said)]))
    columns = _columns(rows)
    told = [row | {"how": f"{_EXACT[row['exact']]}: {row['how']}"} for row in rows]
    page.table(Table(columns, [tuple(row.get(c) for c in columns) for row in told]), digits=3)


#: Players whose values and gains fit abreast into a table.
_ABREAST = 4


def _add_certificate(page: Report, record: Record) -> None:
    """Add the certificate of one record in full."""
    if not has_certificate(record):
        return
    certificate = certificate_of(record)
    names = player_names(certificate.players, labels_of(record, "players"))
    states = certificate.state_gains
    small = states is not None and states.size <= _CELLS and certificate.players <= _ABREAST
    if certificate.gains.ndim == 1 and small:
        table = state_table(certificate, names, labels_of(record, "states"))
        page.table(table, caption="Value and gain in every state.")
    page.table(certificate_table(certificate, names))
    if note := rounding_note(certificate):
        page.text(note)


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns that say something: a table of all of them is wider than many a screen.

    >>> _columns([{"games": 1, "interval": None}])
    ['run', 'concept', 'max gain', 'at most', 'NashConv', 'exploitability', 'how']
    """
    left_out = []
    if not any(row.get("interval") for row in rows):
        left_out.append("interval")
    if all(row["games"] == 1 for row in rows):
        left_out += ["games", "worst"]
    return [name for name in _COLUMNS if name not in left_out]


def _add_curves(page: Report, runs: Sequence[RunFolder]) -> None:
    """One figure for each quantity, with the curves of all runs that have it."""
    together: dict[tuple[str, str], dict[str, Curve]] = {}
    for run in runs:
        for quantity, by_whom in curves_of(run.record, run.metrics, run.config).items():
            for who, curve in by_whom.items():
                parts = [run.label] if len(runs) > 1 else []
                what = _quantity(quantity, run)
                name = ": ".join([*parts, who] if who else parts) or what
                together.setdefault((what, curve.axis), {})[name] = curve
    drawn = [(key, curves) for key, curves in together.items() if _worth_drawing(curves)]
    if not drawn:
        return
    page.section("Curves")
    page.text(
        "Means, with bands of two standard errors where several games or seeds were averaged. "
        "Axes are logarithmic where all values are positive; slopes are fitted to the last "
        "decade of curves that change there."
    )
    for (quantity, _), curves in drawn:
        for names in _chunks(list(curves), _CURVES):
            part = {name: curves[name] for name in names}
            figure = figures.compared_curves(part, title=quantity)
            page.figure(figure, alt=_describe(quantity, part))


def _worth_drawing(curves: Mapping[str, Curve]) -> bool:
    return any(np.isfinite(curve.mean).sum() > 1 for curve in curves.values())


def _describe(quantity: str, curves: Mapping[str, Curve]) -> str:
    ends = "; ".join(
        f"{name} from {curve.mean[0]:.3g} at {curve.axis} {curve.at[0]:g} "
        f"to {curve.mean[-1]:.3g} at {curve.at[-1]:g}"
        for name, curve in curves.items()
    )
    return f"Curves of {quantity}: {ends}."


def _quantity(name: str, run: RunFolder) -> str:
    """What a curve is of, in words."""
    record = "" if run.record is None else run.record.name
    return in_words(name, record).replace("_", " ")


def _chunks(names: list[str], size: int) -> Iterator[list[str]]:
    count = math.ceil(len(names) / size)
    for k in range(count):
        yield names[k::count]


def _add_pictures(
    page: Report, runs: Sequence[RunFolder], drawings: Mapping[str, Sequence[tuple[Any, str]]]
) -> None:
    found = [
        (picture, run.label)
        for run in runs
        for picture in [
            *pictures_of(run.record),
            *(Picture(figure, alt) for figure, alt in drawings.get(run.label, ())),
        ]
    ]
    if not found:
        return
    page.section("Pictures")
    drawn = [run.record for run in runs if run.record and strength_of(run.record) is not None]
    if any(labels_of(record, "players") is None for record in drawn):
        page.text("Agents are counted from 0, here and in the tables, as the rows of arrays are.")
    for picture, name in found:
        caption = f"{name}: {picture.caption}" if picture.caption else name
        page.figure(picture.figure, alt=f"{name}: {picture.alt}", caption=caption)


def _add_tables(page: Report, runs: Sequence[RunFolder], story: Story) -> None:
    found = [
        (run.label, name, table)
        for run in runs
        if run.record is not None
        for name, table in tables_of(run.record).items()
        if table.rows and name != story.first
    ]
    if not found:
        return
    page.section("Tables")
    for run, name, table in found:
        _add_table(page, run, name, table, story)


def _add_table(page: Report, run: str, name: str, table: Table, story: Story) -> None:
    """Add a table, its rows sorted and cut as the story of its record says."""
    rows, note = table.rows, ""
    if name in story.sorted_by:
        place = list(table.columns).index(story.sorted_by[name])
        rows = sorted(rows, key=lambda row: -row[place])
    if len(rows) > _ROWS:
        note = f" The first {_ROWS} of {len(rows):,} rows; the record holds all."
    caption = story.captions.get(name, f"{run}: {name.replace('_', ' ')}.")
    page.table(Table(table.columns, rows[:_ROWS]), caption=caption + note)


def _add_settings(page: Report, runs: Sequence[RunFolder]) -> None:
    page.section("Settings")
    for group in _alike(runs, lambda run: tuple(sorted(run.config))):
        page.settings([run.label for run in group], [run.config for run in group])


def _alike(runs: Sequence[RunFolder], key: Any) -> list[list[RunFolder]]:
    groups: dict[Any, list[RunFolder]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return list(groups.values())
