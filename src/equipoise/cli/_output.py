"""Write to the standard output: strict JSON for programs, tables for people."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equipoise as eq

if TYPE_CHECKING:
    from rich.console import Console


#: Name of the HTML report in a run folder.
PAGE = "report.html"


def print_json(document: Any) -> None:
    """Print one JSON document, and nothing else."""
    from equipoise.core.plain import dumps

    sys.stdout.write(dumps(document, "document") + "\n")


def record_document(record: "eq.runs.Record") -> dict[str, Any]:
    """Return a record as plain data: its config, its scalars, and its tables as lists of dicts.

    >>> table = eq.runs.Table(("a",), [(1,)])
    >>> record_document(eq.runs.Record("x", {}, {"gap": 0.5}, {}, {"t": table}))
    {'config': {}, 'scalars': {'gap': 0.5}, 'tables': {'t': [{'a': 1}]}}
    """
    tables = {
        name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        for name, table in eq.report.tables_of(record).items()
    }
    document = {"config": record.config, "scalars": record.scalars, "tables": tables}
    return document | ({} if record.solution is None else solution_document(record))


def solution_document(record: "eq.runs.Record") -> dict[str, Any]:
    """Return the solution of a record as plain data, from which `equipoise certify` can read."""
    solution = dict(record.solution or {})
    if "certificate" in solution:
        solution["certificate"] = certificate_document(eq.report.certificate_of(record))
    return solution


def write_run_page(folder: Path, *, anew: bool = False) -> Path | None:
    """Write the report of a finished run into its folder unless it exists, and return its path.

    Return None for an unfinished run; `equipoise report` can show it.

    >>> write_run_page(Path("no-run"))
    """
    page = folder / PAGE
    if not (folder / "record.json").exists():
        return None
    if anew or not page.exists():
        eq.report.page_of(eq.report.RunFolder.read(folder)).write(page)
    return page


#: Number of rows after which a table is cut on the screen. Files and JSON hold all rows. A table
#: that `record_of` has cut is not cut again: its last row counts all rows that are missing.
_ROWS = 25
#: Beginning of a row that counts rows that are missing.
_REST = "... "


def certificate_document(certificate: Any) -> dict[str, Any]:
    """Return a certificate as plain data, with the measures that derive from its gains.

    `nash_conv` and `exploitability` are defined for Nash equilibria, and null for other concepts.
    """
    names = ("max_gain", "max_upper", "nash_conv", "exploitability", "exact")
    if certificate.kind == "network":
        names += ("relative_gap", "relative_gap_upper", "average_excess")
    measures = {name: getattr(certificate, name) for name in names}
    if certificate.concept != "nash":
        measures |= {"nash_conv": None, "exploitability": None}
    return {**certificate.to_plain(), **measures}


def print_certificate(
    certificate: Any, labels: Mapping[str, Any], more: Sequence[tuple[str, Any]] = ()
) -> None:
    """Print a certificate: gains and their bounds, the method, and the facts in `more`."""
    import numpy as np

    pairs: list[tuple[str, Any]] = [("concept", eq.report.concept_in_words(certificate))]
    title = ""
    if certificate.gains.ndim > 1:
        gaps = certificate.nash_conv
        worst = np.unravel_index(int(gaps.argmax()), gaps.shape)
        pairs.insert(0, ("worst game", ", ".join(str(int(i)) for i in worst)))
        title = f"Gains in {gaps.size:,} games"
    names = labels.get("players")
    if certificate.kind != "network":
        names = eq.report.player_names(certificate.players, names)
    elif len(certificate.worst_path):
        called = labels.get("states")
        ways = [
            " ".join(str(node) if called is None else called[node] for node in way)
            for way in (certificate.worst_path, certificate.better_path)
        ]
        if certificate.max_gain > 0.0:  # by parallel links, both ways may pass the same nodes
            pairs += [("worst path, by nodes", ways[0]), ("better path", ways[1])]
        if count := int(certificate.split):
            told = f"into {count:,} paths; the worst path and its excess depend on this split"
            pairs.append(("link flows split", told))
    print_table(eq.report.certificate_table(certificate, names), title)
    exact = "yes" if certificate.exact else "no: between the gain found and the proven bound"
    pairs += [("method", certificate.method), ("exact", exact)]
    if (
        certificate.gains.ndim == 1
        and certificate.players > eq.report.FEW
        and certificate.kind != "network"
    ):
        pairs.append(("mean value", float(np.mean(certificate.value))))
    print_pairs([*pairs, ("note", eq.report.rounding_note(certificate) or None), *more])


def print_solution(record: "eq.runs.Record", more: Sequence[tuple[str, Any]] = ()) -> None:
    """Print the record of a solution: its tables, its certificate and its numbers."""
    import numpy as np

    print(f"{record.scalars['game']}: {record.scalars['description']}")
    for name, table in record.tables.items():
        print_table(cut(table), name.replace("_", " ").capitalize())
    known = ("agents", "games", "games solved", "value", "welfare", "bound")
    known += ("objective", "bound on the objective")
    words = {"bound": "a priori bound on the largest gain"}
    certificate = eq.report.certificate_of(record)
    if certificate.kind == "network":
        words["value"] = "mean cost"
    facts = [(words.get(n, n), record.scalars[n]) for n in known if n in record.scalars]
    solution: Any = record.solution
    tolerance = np.asarray(solution["tolerance"])
    if np.isfinite(tolerance).all():
        facts.append(("tolerance", float(tolerance.max())))
    facts += [("status", eq.report.status_of(record)), *more]
    print_certificate(certificate, record.scalars["labels"], facts)


def cut(table: "eq.runs.Table", rows: int = _ROWS) -> "eq.runs.Table":
    """Return the first rows of a table, and a last row that counts the others."""
    if len(table.rows) <= rows:
        return table
    rest = f"{_REST}{len(table.rows) - rows} more (--json shows all)"
    last = (rest, *[None] * (len(table.columns) - 1))
    return eq.runs.Table(table.columns, [*table.rows[:rows], last])


def print_table(table: "eq.runs.Table", title: str = "") -> None:
    """Print a table; columns of numbers are aligned to the right."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, title=title or None)
    shown.title_justify = shown.caption_justify = "left"
    rows = list(table.rows)
    if rows and str(rows[-1][0]).startswith(_REST):
        shown.caption = str(rows.pop()[0])  # as wide as the table, not as its first column
    for i, name in enumerate(table.columns):
        numeric = all(isinstance(row[i], int | float | None) for row in rows)
        shown.add_column(
            Text(name),
            justify="right" if numeric else "left",
            no_wrap=i == 0,
            overflow="fold",
            min_width=max(map(len, name.split()), default=0),
        )
    for row in rows:
        shown.add_row(*(Text(eq.report.format_value(value)) for value in row))
    console = _console()
    console.print()
    console.print(shown)
    console.print()


def print_pairs(pairs: Sequence[tuple[str, Any]]) -> None:
    """Print names and values, one pair per line. Pairs whose value is None are left out."""
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")  # paths are never truncated
    for name, value in pairs:
        if value is not None:
            grid.add_row(Text(name), Text(eq.report.format_value(value)))
    _console().print(grid)


def _console() -> "Console":
    """Return the standard output. A closed pipe raises BrokenPipeError, as it does with `print`."""
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            # Rich would end the process itself, with an exit code that has another meaning here.
            raise BrokenPipeError

    return PlainConsole(highlight=False)
