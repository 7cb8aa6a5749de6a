"""What goes to the standard output: strict JSON for programs, tables for people."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.core.plain import dumps
from equipoise.report import RunFolder, format_value, page_of
from equipoise.runs import Record, Table

if TYPE_CHECKING:
    from rich.console import Console

#: The page in a run folder.
PAGE = "report.html"


def print_json(document: Any) -> None:
    """Print one JSON document, and nothing else."""
    sys.stdout.write(dumps(document, "document") + "\n")


def record_document(record: Record) -> dict[str, Any]:
    """A record as plain data: its config, scalars, and tables as lists of rows with names.

    >>> record_document(Record("x", {}, {"gap": 0.5}, {}, {"t": Table(("a",), [(1,)])}))
    {'config': {}, 'scalars': {'gap': 0.5}, 'tables': {'t': [{'a': 1}]}}
    """
    tables = {
        name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        for name, table in record.tables.items()
    }
    return {"config": record.config, "scalars": record.scalars, "tables": tables}


def write_run_page(folder: Path, *, anew: bool = False) -> Path | None:
    """Write the page about a finished run into its folder, unless it is there; where it is.

    An unfinished run has none: `equipoise report` shows it as far as it is.

    >>> write_run_page(Path("no-run"))
    """
    page = folder / PAGE
    if not (folder / "record.json").exists():
        return None
    if anew or not page.exists():
        page_of(RunFolder.read(folder)).write(page)
    return page


def print_table(table: Table, title: str = "") -> None:
    """Print a table; columns of numbers are aligned to the right."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, title=title or None)
    shown.title_justify = "left"
    for i, name in enumerate(table.columns):
        numeric = all(isinstance(row[i], int | float | None) for row in table.rows)
        shown.add_column(
            Text(name), justify="right" if numeric else "left", no_wrap=i == 0, overflow="fold"
        )
    for row in table.rows:
        shown.add_row(*(Text(format_value(value)) for value in row))
    console = _console()
    console.print()
    console.print(shown)
    console.print()


def print_pairs(pairs: Sequence[tuple[str, Any]]) -> None:
    """Print names and values, one pair a line."""
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")  # a path is never cut short
    for name, value in pairs:
        grid.add_row(Text(name), Text(format_value(value)))
    _console().print(grid)


def _console() -> "Console":
    """The standard output; a reader that leaves is an error here too, as it is of `print`."""
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            # Rich would end the process itself, with an exit code that means something else.
            raise BrokenPipeError

    return PlainConsole(highlight=False)
