"""The page of one record, and the page that compares runs.

Both consist of the same sections: numbers, certificates, curves, pictures, tables, settings and
commands. The texts about a record come from the table in `_stories`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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

#: Longer tables are cut; the record holds all rows.
_ROWS = 30
#: Largest number of curves in one figure that readers can tell apart.
_TOGETHER = 7
#: Numbers that are shown elsewhere on the page.
_NOTED = ("key", "seconds", "first_seconds")
#: Shown at the top of the page, because it affects whether runs are comparable.
_OTHER_VERSIONS = "The runs were made with different versions: {names}."
#: Certificates with more players times states than this are summarised.
_CELLS = 120
#: Tables that hold the answer, and the name of its certified bound.
_ANSWERS = ("policy", "who_plays_what", "busiest_links", "resources")
_BOUND = "nobody gains more than"
_EXACT = {True: "exact", False: "not exact"}
_COLUMNS = (
    "run", "concept", "games", "max gain", "worst", "at most", "interval", "NashConv",
    "exploitability", "relative gap", "average excess", "how",
)  # fmt: skip
_MEANING = (
    "The max gain is the largest gain that was found by a player who deviates alone. The column "
    "“at most” is a proven upper bound on the gain of any deviation, rounding errors included: the "
    "policy is an ε-equilibrium of the given concept for this ε. For a batch of games, the table "
    "shows the mean and the worst."
)
#: Numbers of runs with curves, and with pictures and tables of their own. The limits keep a page
#: about a thousand runs small enough to open, and to be drawn within a minute.
_CURVES, _DETAILED = 96, 24
#: Explanations shown only if a row with this concept exists.
_MEANINGS = {
    "Nash": (
        "Nash: players choose independently. The NashConv is the sum of all gains; the "
        "exploitability is the NashConv divided by the number of players."
    ),
    "user equilibrium": (
        "User equilibrium: no traveller gains by taking another path. The relative gap is the "
        "share of the total cost that travellers would save on cheapest paths at the same link "
        "costs; the average excess is that saving per traveller."
    ),
    "coarse correlated": (
        "Coarse correlated: the policy is a mixture, drawn once for all players. A player who "
        "deviates decides to do so before the draw. Gains can then be negative."
    ),
    "correlated": (
        "Correlated: the policy is a mixture, drawn once for all players. A player who deviates "
        "has been told its own recommended action."
    ),
    IN_MODEL: (
        "In the fitted model: an estimate. The gains are computed in a model fitted to a log, not "
        "in the game itself, which is unknown. A policy looks better in the model it was learned "
        "in than it is. The interval, if there is one, is about the game itself."
    ),
}


def compare(
    runs: Sequence[RunFolder],
    *,
    title: str = "",
    drawings: Mapping[str, Sequence[tuple[Any, str]]] | None = None,
    command: str = "",
) -> Report:
    """Build one page about one or more runs from the contents of their folders.

    `drawings` maps labels of runs to additional figures, each with alternative text.
    `command` is the command that makes the page; it ends the list of commands to reproduce it.

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
        story.lead or "This self-contained page was built from the run folders.",
    )
    if one and runs[0].record is not None:
        story = _add_answer(page, runs[0].label, runs[0].record, story)
    page.section("Result" if one else "Results")
    page.table(_overview(runs))
    if len(runs) > _DETAILED:
        page.text(
            f"The numbers of all {len(runs):,} runs are compared. Curves are drawn for the first "
            f"{_CURVES} runs; pictures and tables are shown for the first {_DETAILED}."
        )
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
    _add_curves(page, runs[:_CURVES])
    _add_pictures(page, runs[:_DETAILED], drawings or {})
    _add_tables(page, runs[:_DETAILED], story)
    _add_settings(page, runs)
    commands = [*_commands(runs), *([command] if command else [])]
    environment = {run.label: run.sessions[-1] for run in runs if run.sessions}
    return page.reproduce(commands or ["(the runs do not record their commands)"], environment)


def _add_answer(page: Report, run: str, record: Record, story: Story) -> Story:
    """Begin the page with the answer; return the story, with the table that was shown."""
    tables = tables_of(record)
    found = [name for name in (story.first, *_ANSWERS) if name in tables and tables[name].rows]
    facts = {} if story.first else _key_numbers(record)
    if not found and not facts:
        return replace(story, first="")  # the text follows the result
    page.section(story.heading)
    if facts:
        page.facts(facts)
    if not found:
        return replace(story, first="")
    story = replace(story, first=found[0])
    _add_table(page, run, found[0], tables[found[0]], story)
    if story.text:
        page.text(story.text)
    return story


def _key_numbers(record: Record) -> dict[str, Any]:
    """Return status, value and certified bound of a record with a certificate."""
    if not has_certificate(record):
        return {}
    certificate, status = certificate_of(record), status_of(record).split(":")[0]
    facts: dict[str, Any] = {"status": status} if status else {}
    value = np.asarray((record.solution or {}).get("value", []))
    if value.shape == ():  # values that are zero up to rounding are shown as zero
        facts["value"] = float(value) if abs(value) > 1e-12 else 0.0
    upper = np.asarray(certificate.max_upper)
    if upper.ndim:
        facts[f"largest gain, mean of {upper.size:,} games"] = float(np.mean(certificate.max_gain))
    bound = float(upper.max())
    return facts | ({_BOUND: bound} if np.isfinite(bound) else {})


def page_of(record: Record | RunFolder, *, title: str = "") -> Report:
    """Build the page of one record, from any source, or of one run folder.

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
        hint = "read a run folder with RunFolder.read(path)"
        raise InputError("record", "a Record or a RunFolder", type(record).__name__, hint)
    return compare([record], title=title)


def _commands(runs: Sequence[RunFolder]) -> list[str]:
    """Return the commands that made the runs, in chronological order."""
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
    """Format a time stamp to the minute.

    >>> _minute("2026-01-31T09:30:15+00:00")
    '2026-01-31 09:30 UTC'
    """
    text = moment[:16].replace("T", " ")
    return f"{text} UTC" if moment.endswith(("+00:00", "Z")) else text


def _game(run: RunFolder) -> str | None:
    """Return the name of the game, if the record has it."""
    game = None if run.record is None else run.record.scalars.get("game")
    return game if isinstance(game, str) else None


def _status(run: RunFolder) -> str | None:
    """Return the status of a solver's or learner's answer, in one word."""
    return None if run.record is None else status_of(run.record).split(":")[0] or None


def _seconds(run: RunFolder) -> float:
    """Return the run time in seconds: the folder's, or the record's if the folder is newer."""
    noted = 0.0 if run.record is None else run.record.scalars.get("seconds", 0.0)
    return max(run.seconds, float(noted))


def _warn_of_versions(page: Report, runs: Sequence[RunFolder]) -> None:
    names = dict.fromkeys(name for run in runs for name in run.versions)
    apart = [n for n in names if len({r.versions.get(n) for r in runs if r.versions}) > 1]
    if apart:
        page.text(_OTHER_VERSIONS.format(names=", ".join(apart)))


def _add_scalars(page: Report, runs: Sequence[RunFolder]) -> None:
    """Add a table of numbers, one column per run: first the common ones, then the rest, folded.

    The rest is grouped by the set of numbers present. All numbers of a single run are folded.
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
        whose = "" if len(group) == len(runs) else f" for {', '.join(run.label for run in group)}"
        if others:
            _add_numbers(page, group, others, many + whose)


def _add_numbers(page: Report, runs: Sequence[RunFolder], names: list[str], summary: str) -> None:
    rows = [(name, *(_scalars(run)[name] for run in runs)) for name in names]
    page.table(Table(("number", *(run.label for run in runs)), rows), summary=summary)


def _scalars(run: RunFolder) -> dict[str, Any]:
    """Return the numbers of the record under the names shown on the page."""
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
    """Return whether a solver's statistic repeats a number of the record."""
    return name.startswith("stats.") and name.removeprefix("stats.") in scalars


def _add_certificates(page: Report, runs: Sequence[RunFolder]) -> None:
    """Add the certificates section if any of the runs has a certificate."""
    rows = [row for run in runs for row in certificate_rows(run)]
    if not rows:
        return
    said = ", ".join(row["concept"] for row in rows).split(", ")
    page.section("Certificates")
    page.text(" ".join([_MEANING, *(text for name, text in _MEANINGS.items() if name in said)]))
    columns = _columns(rows)
    told = [row | {"how": f"{_EXACT[row['exact']]}: {row['how']}"} for row in rows]
    page.table(Table(columns, [tuple(row.get(c) for c in columns) for row in told]), digits=3)


#: Largest number of players whose values and gains fit side by side in a table.
_ABREAST = 4


def _add_certificate(page: Report, record: Record) -> None:
    """Add the full certificate of one record."""
    if not has_certificate(record):
        return
    certificate = certificate_of(record)
    names = labels_of(record, "players")
    if certificate.kind != "network":
        names = player_names(certificate.players, names)
    states = certificate.state_gains
    small = states is not None and states.size <= _CELLS and certificate.players <= _ABREAST
    if certificate.gains.ndim == 1 and small:
        table = state_table(certificate, names, labels_of(record, "states"))
        page.table(table, caption="Value and gain in each state.")
    page.table(certificate_table(certificate, names))
    if note := rounding_note(certificate):
        page.text(note)


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns that carry information: all of them would be too wide.

    >>> _columns([{"games": 1, "interval": None}])
    ['run', 'concept', 'max gain', 'at most', 'NashConv', 'exploitability', 'how']
    """
    on_roads = [row.get("relative gap") is not None for row in rows]
    left_out = [] if any(on_roads) else ["relative gap", "average excess"]
    if all(on_roads):
        left_out += ["NashConv", "exploitability"]
    if not any(row.get("interval") for row in rows):
        left_out.append("interval")
    if all(row["games"] == 1 for row in rows):
        left_out += ["games", "worst"]
    return [name for name in _COLUMNS if name not in left_out]


def _add_curves(page: Report, runs: Sequence[RunFolder]) -> None:
    """Add one figure per quantity, with the curves of all runs that have it."""
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
        "Curves show means, with bands of two standard errors if several games or seeds were "
        "averaged. Axes are logarithmic if all values are positive. Slopes are fitted to the last "
        "decade of curves that change there."
    )
    for (quantity, _), curves in drawn:
        for names in _chunks(list(curves), _TOGETHER):
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
    """Return the name of the quantity that a curve shows."""
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
        page.text("Agents are numbered from 0, here and in the tables, like the rows of arrays.")
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
    """Add a table; its rows are sorted and cut as the record's story says."""
    rows, note = table.rows, ""
    if name in story.sorted_by:
        place = list(table.columns).index(story.sorted_by[name])
        rows = sorted(rows, key=lambda row: -row[place])
    if len(rows) > _ROWS:
        note = f" Only the first {_ROWS} of {len(rows):,} rows are shown; the record holds all."
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
