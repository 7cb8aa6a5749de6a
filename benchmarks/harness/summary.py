"""One line for every case: ours, the best of the others, the ratio, and the goal."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from benchmarks.harness.model import Case
from benchmarks.harness.runner import Row
from benchmarks.harness.table import duration


@dataclass(frozen=True)
class Line:
    """What a case comes down to."""

    workload: str
    case: str
    unit: str
    #: Seconds per item of our first row that ran, and how accurate it was.
    ours: float | None
    accuracy: float | None
    measured: str
    #: The fastest right answer of another library on as many cores.
    peer: str | None
    peer_seconds: float | None
    #: The peer's time over ours, and what it should be at least; None where there is no peer.
    ratio: float | None
    goal: float | None
    #: Contenders that gave nothing, with the reason.
    skipped: dict[str, str]

    @property
    def met(self) -> bool | None:
        """Whether the ratio is what it should be; None where there is none."""
        return None if self.ratio is None or self.goal is None else self.ratio >= self.goal

    def as_dict(self) -> dict[str, Any]:
        """The line as plain data."""
        return asdict(self) | {"met": self.met}


def summarise(workload: str, case: Case, rows: list[Row]) -> Line:
    """The line of a case; peers are compared core for core where one ran on as many as ours."""
    ran = [row for row in rows if row.status == "ok" and row.seconds is not None]
    ours = next((row for row in ran if row.ours), None)
    peers = [row for row in ran if not row.ours and not row.limit]
    if ours is not None:
        peers = [row for row in peers if row.cores == ours.cores] or peers
    best = min(peers, key=lambda row: row.seconds or 0.0, default=None)
    seconds = None if ours is None else ours.seconds
    other = None if best is None else best.seconds
    return Line(
        workload,
        case.name,
        case.unit,
        seconds,
        None if ours is None else ours.accuracy,
        case.measured,
        None if best is None else best.contender,
        other,
        other / seconds if seconds and other else None,
        case.goal if best is not None else None,
        {
            row.contender: f"{row.status}: {row.detail}" if row.detail else row.status
            for row in rows
            if row.status != "ok"
        },
    )


def summary_table(lines: Iterable[Line], title: str = "") -> Table:
    """All lines; a ratio above one means that ours is faster."""
    table = Table(title=title or None, title_justify="left")
    for name in ("workload", "case"):
        table.add_column(name)
    table.add_column("ours", justify="right")
    table.add_column("accuracy", justify="right")
    table.add_column("best of the others")
    for name in ("theirs", "ratio", "goal"):
        table.add_column(name, justify="right")
    for line in lines:
        table.add_row(
            line.workload,
            line.case,
            _time(line.ours, line.unit),
            "-" if line.accuracy is None else f"{line.accuracy:.0e}",
            line.peer or "none",
            _time(line.peer_seconds, ""),
            _ratio(line),
            "-" if line.goal is None else f"{line.goal:g}",
        )
    return table


def skipped(lines: Iterable[Line]) -> list[str]:
    """Who was left out, and why, each once.

    A contender that ran in some case and not in another is named with the cases it missed.
    """
    reasons: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        for name, reason in line.skipped.items():
            reasons.setdefault((name, reason), []).append(line.case)
    return [f"{name}: {reason} ({'; '.join(cases)})" for (name, reason), cases in reasons.items()]


def _time(seconds: float | None, unit: str) -> str:
    if seconds is None:
        return "-"
    return f"{duration(seconds)} per {unit}" if unit else duration(seconds)


def _ratio(line: Line) -> str:
    if line.ratio is None:
        return "-"
    text = f"{line.ratio:,.0f}" if line.ratio >= 100 else f"{line.ratio:.3g}"
    return f"[green]{text}[/green]" if line.met else f"[red]{text}[/red]"
