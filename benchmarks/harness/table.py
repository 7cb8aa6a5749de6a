"""One table per case, for people."""

from rich.table import Table

from benchmarks.harness.model import Case
from benchmarks.harness.runner import Row

#: Below this share of its one core a contender was disturbed, and the table shows it in colour.
DISTURBED = 0.85


def duration(seconds: float) -> str:
    """Seconds in three digits and the unit that suits them.

    >>> duration(6.54e-7), duration(0.0123)
    ('654 ns', '12.3 ms')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds / size < 1000 else f"{seconds:.0f} s"
    return f"{seconds / 1e-9:.3g} ns"


def _remarks(row: Row, case: Case) -> str:
    parts = [f"{row.cores} core{'s' if row.cores > 1 else ''}", row.how]
    if row.status == "ok" and row.items < case.items:
        first = f"{row.items:,} {case.unit}s" if row.items > 1 else case.unit
        parts.append(f"first {first}")
    if row.notes:
        parts.append(row.notes)
    return "; ".join(part for part in parts if part)


def _accuracy(row: Row) -> str:
    if row.status == "wrong":
        return f"[red]wrong: {row.detail}[/red]"
    return "-" if row.accuracy is None else f"{row.accuracy:.1e}"


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return "-"
    return f"{row.ratio:,.0f}" if row.ratio >= 100 else f"{row.ratio:.3g}"


def _load(row: Row) -> str:
    if row.load is None:
        return ""
    text = f"{row.load:.0%}"
    return f"[yellow]{text}[/yellow]" if row.cores == 1 and row.load < DISTURBED else text


def case_table(case: Case, rows: list[Row], title: str) -> Table:
    """The table of a case; contenders that gave nothing stay in it, with the reason."""
    table = Table(title=f"{title}: {case.name}", title_justify="left")
    table.add_column("contender")
    table.add_column(f"per {case.unit}", justify="right")
    table.add_column("ratio", justify="right")
    table.add_column(case.measured, justify="right")
    table.add_column("compile", justify="right")
    table.add_column("load", justify="right")
    table.add_column("notes")
    for row in rows:
        style = "bold" if row.ours else None
        if row.seconds is None:
            reason = f"{row.status}: {row.detail}" if row.detail else row.status
            table.add_row(row.contender, "-", "-", "-", "-", "", reason, style=style)
            continue
        table.add_row(
            row.contender,
            duration(row.seconds),
            _ratio(row),
            _accuracy(row),
            "" if row.compile_seconds is None else duration(row.compile_seconds),
            _load(row),
            _remarks(row, case),
            style=style,
        )
    return table
