"""The loop of all long computations, which can be stopped at any time and resumed exactly."""

import copy
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np

from equipoise.core.deadline import Deadline, Interrupt
from equipoise.core.errors import named_arguments
from equipoise.runs._run import Run

T = TypeVar("T")

#: Largest share of the running time for checkpoints, except for the first and the last one.
CHECKPOINT_SHARE = 0.02


class Reached(NamedTuple):
    """The state and step that `resumable` reached.

    **Example**

    >>> from equipoise.runs import resumable
    >>> resumable(None, 1.0, lambda x, step, until: (x / 2, {}), 3, name="halving")
    Reached(state=0.125, step=3, stopped=False)
    """

    #: The state after `step` steps.
    state: Any
    #: Number of steps.
    step: int
    #: Whether Ctrl-C stopped the loop, so that steps may be missing.
    stopped: bool


class Unfinished(KeyboardInterrupt):
    """Ctrl-C ended a computation; `found` is what it had found by then.

    **Example**

    >>> from equipoise.runs import Unfinished
    >>> try:
    ...     raise Unfinished([1, 2])
    ... except KeyboardInterrupt as end:
    ...     print(end.found)
    [1, 2]
    """

    def __init__(self, found: Any):
        super().__init__()
        self.found = found


@named_arguments
def resumable(
    run: Run | None,
    state: Any,
    advance: Callable[[Any, int, int], tuple[Any, Mapping[str, Any]]],
    total: int,
    *,
    name: str,
    stride: int = 1,
    marks: int | Sequence[int] | None = None,
    look: float | None = None,
    anywhere: bool = True,
    ended: Callable[[Any], bool] | None = None,
    deadline: Deadline | None = None,
) -> Reached:
    """Advance a state by `total` steps, resuming from the last checkpoint of the run.

    `advance(state, step, until)` receives the state after `step` steps. It returns the state after
    `until` steps, and metrics for the progress line. If the state after a step depends only on the
    state before it, a run that is killed and resumed ends with the same bits as an uninterrupted
    run. Ctrl-C ends the loop after the current piece and saves a state from which the run can
    resume; a second Ctrl-C raises `KeyboardInterrupt`.

    - `state`: a pytree of arrays, keys, numbers and strings, whose structure does not change.
    - `name`: label of the progress line.
    - `stride`: number of steps in a piece; with `look`, in the first piece.
    - `look`: seconds between two checks for Ctrl-C; pieces are made about as long.
    - `marks`: steps at which a piece ends and metrics are logged to the run: a list of steps, or
      a number for its multiples. By default, the end of every piece; with `look`, the last step.
      The last step is always a mark.
    - `anywhere`: whether a run can resume from the end of every piece, or only from marks. With
      marks only, the state of the last mark is copied, so that Ctrl-C loses only the steps after
      it.
    - `ended`: function of the state that ends the loop at a mark before the last step.
    - `deadline`: ends the loop after the current piece, as Ctrl-C does. Default: no time limit.

    Without a run, nothing is saved, and the loop is otherwise the same.

    **Example**

    >>> import tempfile
    >>> from equipoise.runs import Run, resumable
    >>> def add(total, step, until):
    ...     return total + sum(range(step, until)), {"total": total}
    >>> with tempfile.TemporaryDirectory() as folder, Run.start(folder, {}) as run:
    ...     first = resumable(run, 0, add, 50, name="adding")
    ...     resumable(run, 0, add, 100, name="adding").state  # resumes from step 50
    4950
    """
    step, shown = 0, dict[str, Any]()
    if run is not None and run.step:
        state, step = run.restore(state), run.step
    if together := _processes_together():
        state, step = together((state, step))
    pace = None if look is None else _Pace(look, stride)
    piece = stride if pace is None else total  # if no marks are given

    def over() -> bool:
        # Evaluated only at marks, so that the last row does not depend on the length of pieces.
        at_mark = step in (0, total) or _next_mark(step - 1, total, marks or 1, 1) == step
        return step >= total or (ended is not None and at_mark and ended(state))

    saved, cost = time.monotonic(), 0.0
    unsaved: tuple[int, Any] | None = None  # the last mark, if runs can resume only from marks
    with deadline or Deadline() as end, progress(name, total) as bar:
        bar.advance(step)
        while not over() and not end.over():
            mark = _next_mark(step, total, marks, piece)
            length = min(stride if pace is None else pace.steps, mark - step)
            before, until = time.monotonic(), step + length
            state, row = advance(state, step, until)
            spent = time.monotonic() - before
            if together:
                spent = together(spent)
            if pace is not None:
                pace.learn(length, spent)
            # The latest value of each metric stays on the line until it is updated.
            shown.update(row)
            bar.advance(length, **shown)
            step = until
            if run is None:
                continue
            if step == mark and row:
                run.log(step, **row)
            due = over() or end.over() or time.monotonic() - saved >= cost / CHECKPOINT_SHARE
            if due and (anywhere or step == mark):
                before = time.monotonic()
                run.checkpoint(step, state)
                saved = time.monotonic()
                cost, unsaved = saved - before, None
            elif step == mark and not anywhere:
                unsaved = step, copy.deepcopy(state)
        if run is not None and unsaved is not None:
            run.checkpoint(*unsaved)
    return Reached(state, step, bool(end.stop))


def _processes_together() -> Callable[[Any], Any] | None:
    """Return the function that sends values of the first process of `jax.distributed` to all.

    All processes then run the same pieces from the same state, as collective operations require.
    Return None if there is only one process.
    """
    jax = sys.modules.get("jax")
    if jax is None or not jax.distributed.is_initialized():
        return None
    from equipoise.core.devices import from_first_process

    return from_first_process


def _next_mark(step: int, total: int, marks: int | Sequence[int] | None, stride: int) -> int:
    """Return the first mark after a step.

    >>> _next_mark(3, 10, 4, 1), _next_mark(8, 10, 4, 1), _next_mark(3, 10, [2, 7], 1)
    (4, 10, 7)
    """
    if marks is None:
        return min(step + stride, total)
    if isinstance(marks, int):
        return min((step // marks + 1) * marks, total)
    return min([mark for mark in marks if mark > step], default=total)


class _Pace:
    """Choose the length of pieces so that each takes about the given number of seconds.

    The first piece is mostly compilation and is not used. The length of the next pieces follows
    from the speed of the last one, but grows at most eightfold at a time.
    """

    def __init__(self, seconds: float, first: int):
        self.seconds, self.steps = seconds, first
        self._compiled = False

    def learn(self, steps: int, spent: float) -> None:
        """Update the length from the time that a piece took."""
        spent = max(spent, 1e-6)
        # A shortened piece is not used, unless it took too long nevertheless.
        if self._compiled and (steps == self.steps or spent > self.seconds):
            self.steps = max(1, int(steps * min(8.0, self.seconds / spent)))
        self._compiled = True


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Within this block the first Ctrl-C sets a flag, and the second raises `KeyboardInterrupt`.

    The previous behaviour is restored at the end of the block. Blocks may be nested: a Ctrl-C in an
    inner block also sets the flags of the outer blocks. Outside the main thread, where Python
    delivers no signals, the flag stays false.

    **Example**

    >>> from equipoise.runs import interruptible
    >>> best = 0
    >>> with interruptible() as stop:
    ...     for step in range(1000):
    ...         if stop:
    ...             break
    ...         best = max(best, step % 7)
    >>> best, bool(stop)
    (6, False)
    """
    with Deadline() as deadline:
        yield deadline.stop


@named_arguments
def progress(description: str, total: float | None = None, *, console: Any = None) -> "Progress":
    """Return a progress line on the standard error stream, which is silent unless on a terminal.

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
    """A progress line, which is a context manager; see `progress`."""

    def __init__(self, description: str, total: float | None, console: Any):
        self._description = description
        self._total = total
        self._console = console
        self._bar: Any = None
        self._task: Any = None

    def advance(self, steps: float = 1, **metrics: Any) -> None:
        """Advance by a number of steps, and show the latest metrics."""
        if self._bar is None:
            return
        shown = {"metrics": format_metrics(metrics)} if metrics else {}
        self._bar.update(self._task, advance=steps, **shown)

    def track(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items and advance by one after each. The default total is their number."""
        if self._total is None and isinstance(items, Sized):
            self._total = len(items)
        with self:
            for item in items:
                yield item
                self.advance()

    def __enter__(self) -> "Progress":
        # Silent progress is cheap: rich is not imported.
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
    """Format a rate with three digits and a unit letter.

    >>> format_rate(0.5), format_rate(12345.0), format_rate(2.5e6)
    ('0.5', '12.3k', '2.5M')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rate >= size:
            return f"{rate / size:.3g}{letter}"
    return f"{rate:.3g}"


def format_metrics(metrics: Mapping[str, Any]) -> str:
    """Format metrics on one line; several numbers are shown by their mean.

    >>> format_metrics({"gap": [0.123456, 0.2], "phase": "warm"})
    'gap 0.1617  phase warm'
    """
    return "  ".join(
        f"{name} {value}" if isinstance(value, str) else f"{name} {float(np.mean(value)):.4g}"
        for name, value in metrics.items()
    )
