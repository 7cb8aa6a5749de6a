"""HTML fragments that reports and notebooks share: values, tables, key numbers, small curves.

All text is escaped. The fragments are self-contained: they use no script, and a style sheet is
optional.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from equipoise.core.errors import named_arguments

#: Maximum number of table rows, and of curve points, shown in a notebook.
ROWS, _POINTS = 20, 200
_NUMBER = int | float | np.integer | np.floating


@named_arguments
def format_value(value: Any, digits: int = 4) -> str:
    """Format a value as short text: numbers to some significant digits, booleans as yes and no.

    **Example**

    >>> from equipoise.report import format_value
    >>> [format_value(x) for x in (1 / 7, 100_000, 11_274.4, 1.6e-16, 0.0, True, None, "rps")]
    ['0.1429', '100,000', '11,274', '1.6e-16', '0', 'yes', '–', 'rps']
    """
    if value is None:
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    if isinstance(value, float | np.floating):
        number = float(value)
        if 10.0 ** (digits - 1) <= abs(number) < 1e15:
            return f"{number:,.0f}"
        if number != 0 and math.isfinite(number) and not 1e-4 <= abs(number) < 1e6:
            return f"{number:.2g}" if abs(number) < 1 else f"{number:.{digits - 1}e}"
        return f"{number:.{digits}g}" if number else "0"
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return "(" + ", ".join(format_value(item, digits) for item in value) + ")"
    return str(value)


def is_number(value: Any) -> bool:
    """Whether a value is right-aligned: a number, or nothing."""
    return value is None or (isinstance(value, _NUMBER) and not isinstance(value, bool))


def html_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    caption: str = "",
    digits: int = 4,
    mark: str = "",
) -> str:
    """Return a table; columns of numbers are right-aligned. `caption` must be HTML already.

    >>> html_table(("a", "b"), [("<i>", 0.5)]).split("<tbody>")[1]
    '<tr><td>&lt;i&gt;</td><td class="number">0.5</td></tr></tbody></table>'
    """
    kinds = [
        ' class="number"' if all(is_number(row[i]) for row in rows) else ""
        for i in range(len(columns))
    ]
    heads = zip(kinds, columns, strict=True)
    head = "".join(f'<th scope="col"{kind}>{escape(str(name))}</th>' for kind, name in heads)
    begin = f'<tr class="{escape(mark)}">' if mark else "<tr>"
    body = "".join(
        begin
        + "".join(
            f"<td{kind}>{escape(format_value(value, digits))}</td>"
            for kind, value in zip(kinds, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    told = f"<caption>{caption}</caption>" if caption else ""
    return f"<table>{told}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_facts(facts: Mapping[str, Any]) -> str:
    """Return key numbers with their names.

    >>> html_facts({"value": 0.5})
    '<dl class="facts"><div><dt>value</dt><dd>0.5</dd></div></dl>'
    """
    pairs = (
        f"<div><dt>{escape(str(name))}</dt><dd>{escape(format_value(value))}</dd></div>"
        for name, value in facts.items()
    )
    return f'<dl class="facts">{"".join(pairs)}</dl>'


def html_curve(x: Any, y: Any, label: str) -> str:
    """Return a small curve on logarithmic axes, with a caption; empty below two points.

    >>> html_curve([1, 10], [1.0, 0.1], "gap").startswith('<svg role="img"')
    True
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    used = np.flatnonzero((x > 0) & (y > 0) & np.isfinite(y))
    if used.size < 2:
        return ""
    used = used[np.unique(np.linspace(0, used.size - 1, _POINTS).round().astype(int))]
    logs = [np.log(values[used]) for values in (x, y)]
    across, up = ((v - v.min()) / (np.ptp(v) or 1.0) for v in logs)
    pairs = zip(4 + 292 * across, 76 - 72 * up, strict=True)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in pairs)
    ends = [format_value(float(values[k])) for k in (used[0], used[-1]) for values in (x, y)]
    told = f"{label}: {ends[1]} at {ends[0]}, {ends[3]} at {ends[2]}"
    return (
        f'<svg role="img" aria-label="{escape(told)}" width="300" height="80" '
        f'viewBox="0 0 300 80"><polyline points="{points}" fill="none" stroke="#2b8cc4" '
        f'stroke-width="2"/></svg><p>{escape(told)}</p>'
    )


#: Style of cards: key numbers appear in a row, as in reports.
_STYLE = (
    "<style>.equipoise .facts{display:flex;flex-wrap:wrap;gap:4px 28px;margin:6px 0}"
    ".equipoise dt{font-weight:normal;font-size:85%;opacity:.7}.equipoise dd{margin:0}"
    ".equipoise th,.equipoise td{padding:2px 8px 2px 0}.equipoise .number{text-align:right}"
    ".equipoise p{margin:4px 0}</style>"
)


def html_card(title: str, parts: Iterable[str]) -> str:
    """Return the HTML that a notebook shows for an object: its title, and fragments below it.

    >>> html_card("<x>", ["<p>y</p>"]).partition("</style>")[2]
    '<strong>&lt;x&gt;</strong><p>y</p></div>'
    """
    inside = "".join([_STYLE, f"<strong>{escape(title)}</strong>", *parts])
    return f'<div class="equipoise">{inside}</div>'
