"""A line that shows how a long loop is doing: share done, rate, time left, latest metrics."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, TypeVar

T = TypeVar("T")


def progress(description: str, total: float | None = None, *, console: Any = None) -> "Progress":
    """A progress line on the standard error stream; silent when that is not a terminal.

    **Example**

    >>> from equipoise.runs import progress
    >>> with progress("solving", total=3) as bar:
    ...     for game in range(3):
    ...         bar.advance(gap=0.5**game)
    >>> [2 * x for x in progress("doubling").track([1, 2])]
    [2, 4]
    """
    return Progress(description, total, console)


class Progress:
    """The line itself: a context manager; see `progress`."""

    def __init__(self, description: str, total: float | None, console: Any):
        self._description = description
        self._total = total
        self._console = console
        self._bar: Any = None
        self._task: Any = None

    def advance(self, steps: float = 1, **metrics: Any) -> None:
        """Say that so many steps are done, and what the latest metrics are."""
        if self._bar is None:
            return
        shown = {"metrics": format_metrics(metrics)} if metrics else {}
        self._bar.update(self._task, advance=steps, **shown)

    def track(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, advancing by one after each; a total not given is their number."""
        if self._total is None and isinstance(items, Sized):
            self._total = len(items)
        with self:
            for item in items:
                yield item
                self.advance()

    def __enter__(self) -> "Progress":
        # Cheap when silent: rich is not even imported.
        if self._console is not None or sys.stderr.isatty():
            self._bar = _rich_bar(self._console)
            self._task = self._bar.add_task(self._description, total=self._total, metrics="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _rich_bar(console: Any) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class RateColumn(ProgressColumn):
        def render(self, task: Any) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{format_rate(speed)}/s", style="cyan")

    console = console or Console(stderr=True)
    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        RateColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[metrics]}"),
        console=console,
        disable=not console.is_terminal,
        refresh_per_second=8,
    )


def format_rate(rate: float) -> str:
    """A rate in three digits and a letter.

    >>> format_rate(0.5), format_rate(12345.0), format_rate(2.5e6)
    ('0.5', '12.3k', '2.5M')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rate >= size:
            return f"{rate / size:.3g}{letter}"
    return f"{rate:.3g}"


def format_metrics(metrics: Mapping[str, Any]) -> str:
    """Metrics in one line.

    >>> format_metrics({"gap": 0.123456, "phase": "warm"})
    'gap 0.1235  phase warm'
    """
    return "  ".join(
        f"{name} {value:.4g}" if hasattr(value, "__float__") else f"{name} {value}"
        for name, value in metrics.items()
    )
