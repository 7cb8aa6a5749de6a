"""What all figures share: colours, an empty drawing, labels and ticks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

#: Colours that colour-blind readers tell apart, on light and on dark pages (after Okabe and Ito).
COLOURS = ("#2b8cc4", "#e08a00", "#00a878", "#c65d9c", "#d55e00", "#8a7fd1", "#7f8790")

FONT = 10.0


@contextmanager
def canvas(width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """A figure of its own, untouched by the user's settings and by pyplot."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {"font.size": FONT, "axes.titlesize": FONT + 1, "axes.spines.top": False}
        )
        matplotlib.rcParams["axes.spines.right"] = False
        figure = Figure(figsize=(width, height), layout="tight")
        yield figure, figure.subplots()


def cycle() -> Iterator[str]:
    """The colours, over and over."""
    while True:
        yield from COLOURS


def label(text: str) -> str:
    """Text as it is: a dollar sign would otherwise begin a formula."""
    return str(text).replace("$", r"\$")


def name_ticks(axis: Any, count: int, names: Sequence[str] | None, argument: str) -> None:
    """Name rows, columns or actions, unless there are too many to read."""
    if names is not None and len(names) != count:
        raise ValueError(f"{argument}: expected {count} names, found {len(names)}")
    if names is None:
        names = [str(i) for i in range(count)]
    if count > 30:  # names would overlap
        return
    axis.set_ticks(np.arange(count), [label(name) for name in names])
