"""The page: sections of prose, tables, figures and code, in one HTML file."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from equipoise.core.files import write_text
from equipoise.core.plain import dumps
from equipoise.report._style import STYLE
from equipoise.report._svg import to_png, to_svg
from equipoise.report._tables import format_value
from equipoise.report._words import in_words
from equipoise.runs import Table

#: The page may load nothing and run nothing; it has all it needs.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


_NUMBER = int | float | np.integer | np.floating


class Report:
    """A page built from top to bottom; every method returns the page, so that calls chain.

    All text is escaped. In prose, `text between backticks` is set as code, and an empty line
    begins a new paragraph.

    **Example**

    >>> from equipoise.report import Report
    >>> from equipoise.runs import Table
    >>> page = (
    ...     Report("Pennies")
    ...     .section("Answer")
    ...     .text("The value is `0`.")
    ...     .table(Table(("action", "probability"), [("heads", 0.5), ("tails", 0.5)]))
    ... )
    >>> "<h1>Pennies</h1>" in page.html()
    True
    """

    def __init__(self, title: str, lead: str = ""):
        self._title = title
        self._lead = lead
        self._sections: list[tuple[str, str]] = []
        self._blocks: list[tuple[str, str]] = []  # (kind, html)
        self._figures = 0
        self._footer = ""

    def section(self, heading: str) -> "Report":
        """Begin a section."""
        anchor = f"section-{len(self._sections) + 1}"
        self._sections.append((anchor, heading))
        return self._add("heading", f'<h2 id="{anchor}">{escape(heading)}</h2>')

    def text(self, prose: str) -> "Report":
        """Add paragraphs."""
        for paragraph in re.split(r"\n\s*\n", prose.strip()):
            self._add("text", f"<p>{_inline(paragraph)}</p>")
        return self

    def facts(self, facts: Mapping[str, Any]) -> "Report":
        """Add a row of key numbers with their names."""
        cards = "".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(format_value(value))}</dd></div>"
            for name, value in facts.items()
        )
        return self._add("facts", f'<dl class="facts">{cards}</dl>')

    def table(self, table: Table, caption: str = "", digits: int = 4) -> "Report":
        """Add a table; columns of numbers are aligned to the right."""
        return self._add("table", _table(table, caption, digits))

    def figure(self, figure: Any, *, alt: str, caption: str = "", format: str = "svg") -> "Report":
        """Add a matplotlib figure, as "svg" or, for figures of very many points, as "png".

        `alt` says what the figure shows to whoever cannot see it. Figures that follow one
        another stand side by side where there is room.
        """
        if not alt.strip():
            raise ValueError("alt: expected a description of the figure, found nothing")
        if format not in ("svg", "png"):
            raise ValueError(f"format: expected 'svg' or 'png', found {format!r}")
        self._figures += 1
        name = f"figure{self._figures}"
        image = to_svg(figure, name, alt) if format == "svg" else to_png(figure, alt)
        below = f"<figcaption>{_inline(caption)}</figcaption>" if caption else ""
        return self._add("figure", f"<figure>{image}{below}</figure>")

    def code(self, source: str, *, summary: str = "") -> "Report":
        """Add source code; with a summary it is folded away behind it."""
        block = f"<pre><code>{escape(source.strip(chr(10)))}</code></pre>"
        return self._add("code", _folded(summary, block) if summary else block)

    def config(self, config: Any, *, summary: str = "Config") -> "Report":
        """Add a config (a dict or a dataclass), folded away."""
        return self.code(dumps(config, "config", indent=2), summary=summary)

    def settings(self, names: Sequence[str], configs: Sequence[Mapping[str, Any]]) -> "Report":
        """Add the configs of several runs side by side: first what differs, then the rest, folded.

        Nested names are joined by dots. What differs is marked by colour and by a sign.
        """
        rows = settings_rows(configs)
        differ = [("≠ " + key, *values) for key, values in rows if len(set(values)) > 1]
        alike = [(key, *values) for key, values in rows if len(set(values)) == 1]
        if differ:
            table = Table(("setting", *names), differ)
            self._add("table", _table(table, "What differs.", 4, mark="differs"))
        elif len(configs) > 1:
            self.text("All settings are the same.")
        if alike:
            heads = names if len(configs) == 1 else ("in all of them",)
            same = Table(("setting", *heads), [row[: 1 + len(heads)] for row in alike])
            summary = f"{len(alike)} settings are the same"
            if len(configs) == 1:
                summary = f"All settings of {names[0]}"
            self._add("table", _folded(summary, _table(same, "", 4, mark="alike")))
        return self

    def reproduce(
        self, commands: str | Sequence[str], environment: Mapping[str, Any] | None = None
    ) -> "Report":
        """End the page with how to make it again: commands, and the environment it was made in."""
        lines = commands if isinstance(commands, str) else "\n".join(commands)
        block = f"<pre><code>{escape(lines)}</code></pre>"
        if environment is not None:
            content = (
                f"<pre><code>{escape(dumps(environment, 'environment', indent=2))}</code></pre>"
            )
            block += _folded("Versions and machine", content)
        self._footer = f"<footer><h2>To reproduce this page</h2>{block}</footer>"
        return self

    def html(self) -> str:
        """The page as text."""
        lead = f'<p class="lead">{_inline(self._lead)}</p>' if self._lead else ""
        parts = [
            f"<header><h1>{escape(self._title)}</h1>{lead}{self._contents()}</header>",
            "<main>",
        ]
        together: list[str] = []
        for kind, block in [*self._blocks, ("end", "")]:
            if kind == "figure":
                together.append(block)
                continue
            if together:
                parts.append(f'<div class="figures">{"".join(together)}</div>')
                together = []
            parts.append(block)
        return "\n".join([*self._head(), *parts, "</main>", self._footer, "</body>", "</html>", ""])

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page, atomically."""
        write_text(path, self.html())

    def _add(self, kind: str, block: str) -> "Report":
        self._blocks.append((kind, block))
        return self

    def _contents(self) -> str:
        if len(self._sections) < 2:
            return ""
        items = "".join(f'<li><a href="#{a}">{escape(h)}</a></li>' for a, h in self._sections)
        return f'<nav aria-label="Contents"><ol>{items}</ol></nav>'

    def _head(self) -> list[str]:
        return [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>{escape(self._title)}</title>",
            f"<style>{STYLE}</style>",
            "</head>",
            "<body>",
        ]


def _inline(prose: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(prose.strip()))


def _folded(summary: str, block: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{block}</details>"


def settings_rows(configs: Sequence[Mapping[str, Any]]) -> list[tuple[str, tuple[str, ...]]]:
    """Every setting of any of the configs, with its value in each, as text.

    >>> settings_rows([{"a": 1, "b": {"c": 2}}, {"a": 1.5}])
    [('a', ('1', '1.5')), ('b.c', ('2', '–'))]
    """
    flat = [dict(_flatten(config)) for config in configs]
    keys = dict.fromkeys(key for one in flat for key in one)
    missing = format_value(None)
    return [(in_words(key), tuple(one.get(key, missing) for one in flat)) for key in keys]


def _flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, format_value(value, 12)


def _table(table: Table, caption: str, digits: int, mark: str = "") -> str:
    numeric = [all(_is_number(row[i]) for row in table.rows) for i in range(len(table.columns))]
    marks = [' class="number"' if number else "" for number in numeric]
    head = "".join(
        f'<th scope="col"{m}>{_inline(c)}</th>' for m, c in zip(marks, table.columns, strict=True)
    )
    row_class = f' class="{mark}"' if mark else ""
    body = "".join(
        f"<tr{row_class}>"
        + "".join(
            f"<td{m}>{escape(format_value(v, digits))}</td>"
            for m, v in zip(marks, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    above = f"<caption>{_inline(caption)}</caption>" if caption else ""
    table_element = f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0">{table_element}</div>'


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, _NUMBER) and not isinstance(value, bool))
