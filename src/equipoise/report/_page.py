"""Build a page of prose, tables, figures and code sections as one HTML file."""

import base64
import hashlib
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.files import write_text
from equipoise.core.html import format_value, html_facts, html_table
from equipoise.core.plain import dumps
from equipoise.report._stories import in_words
from equipoise.runs import Table


class Report:
    """A page built from top to bottom. Every method returns the page, so that calls can be chained.

    All text is escaped. In prose, `text in backticks` is set as code, and an empty line begins a
    new paragraph.

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
        self._head = {"title": title, "lead": lead, "commands": "", "environment": ""}
        self._blocks: list[dict[str, Any]] = []

    def _add(self, kind: str, **parts: Any) -> "Report":
        self._blocks.append({"kind": kind, **parts})
        return self

    def _all(self, kind: str) -> list[dict[str, Any]]:
        return [block for block in self._blocks if block["kind"] == kind]

    def section(self, heading: str) -> "Report":
        """Begin a section."""
        anchor = f"section-{len(self._all('section')) + 1}"
        return self._add("section", heading=heading, anchor=anchor)

    def text(self, prose: str) -> "Report":
        """Add paragraphs."""
        for paragraph in re.split(r"\n\s*\n", prose.strip()):
            self._add("text", prose=paragraph)
        return self

    def facts(self, facts: Mapping[str, Any]) -> "Report":
        """Add a row of key numbers with their names."""
        return self._add("facts", facts=facts)

    def table(
        self, table: Table, caption: str = "", digits: int = 4, *, mark: str = "", summary: str = ""
    ) -> "Report":
        """Add a table; columns of numbers are right-aligned.

        `mark` is the class of its rows in the style sheet. With a summary, the table is collapsed
        behind it.
        """
        more = {"caption": caption, "digits": digits, "mark": mark, "summary": summary}
        return self._add("table", table=table, **more)

    def figure(self, figure: Any, *, alt: str, caption: str = "", format: str = "svg") -> "Report":
        """Add a matplotlib figure, as "svg" or, for figures with very many points, as "png".

        `alt` describes the figure for readers who cannot see it. Consecutive figures are placed
        side by side if there is room.
        """
        from markupsafe import Markup

        if not alt.strip():
            raise InputError("alt", "a description of the figure", "nothing")
        if format not in ("svg", "png"):
            raise InputError("format", "'svg' or 'png'", repr(format))
        name = f"figure{len(self._all('figure')) + 1}"
        image = _svg(figure, name, alt) if format == "svg" else _png(figure, alt)
        return self._add("figure", image=Markup(image), caption=caption, wide=_width(image))

    def code(self, source: str, *, summary: str = "") -> "Report":
        """Add source code; with a summary, it is collapsed behind it."""
        return self._add("code", source=source.strip("\n"), summary=summary)

    def config(self, config: Any, *, summary: str = "Config") -> "Report":
        """Add a config (a dict or a dataclass), collapsed."""
        return self.code(dumps(config, "config", indent=2), summary=summary)

    def settings(self, names: Sequence[str], configs: Sequence[Mapping[str, Any]]) -> "Report":
        """Add the configs of several runs side by side: differences first, the rest collapsed.

        Nested names are joined by dots. Differences are marked by colour and by a sign.
        """
        rows = settings_rows(configs)
        differ = [("≠ " + key, *values) for key, values in rows if len(set(values)) > 1]
        alike = [(key, *values) for key, values in rows if len(set(values)) == 1]
        if differ:
            self.table(Table(("setting", *names), differ), "Settings that differ.", mark="differs")
        elif len(configs) > 1:
            self.text("All settings are the same.")
        if alike:
            one = len(configs) == 1
            heads = names if one else ("value in all runs",)
            same = Table(("setting", *heads), [row[: 1 + len(heads)] for row in alike])
            told = f"All settings of {names[0]}" if one else f"{len(alike)} settings are the same"
            self.table(same, mark="alike", summary=told)
        return self

    def reproduce(
        self, commands: str | Sequence[str], environment: Mapping[str, Any] | None = None
    ) -> "Report":
        """End the page with how to reproduce it: the commands, and the environment."""
        self._head["commands"] = commands if isinstance(commands, str) else "\n".join(commands)
        if environment is not None:
            self._head["environment"] = dumps(environment, "environment", indent=2)
        return self

    def html(self) -> str:
        """Return the page as HTML text."""
        import jinja2
        from markupsafe import Markup

        place = jinja2.FileSystemLoader(Path(__file__).parent)
        pages = jinja2.Environment(loader=place, autoescape=True, trim_blocks=True)
        pages.filters |= {"prose": _prose, "table": _table}
        pages.filters["facts"] = lambda facts: Markup(html_facts(facts))
        groups = groupby(self._blocks, lambda block: block["kind"] == "figure")
        listed = [(are_figures, list(blocks)) for are_figures, blocks in groups]
        page = pages.get_template("page.html")
        inside = {"script": Markup(_script()), "policy": content_policy(), **self._head}
        return page.render(groups=listed, sections=self._all("section"), **inside) + "\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page atomically."""
        write_text(path, self.html())


def content_policy() -> str:
    """Return the page's Content-Security-Policy: only its own script and styles may load and run.

    **Example**

    >>> from equipoise.report import content_policy
    >>> content_policy().split("; ")[0]
    "default-src 'none'"
    """
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    allowed = f"script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
    return f"default-src 'none'; {allowed}"


def _script() -> str:
    """Return the script that makes pages interactive."""
    return resources.files(__package__ or "").joinpath("touch.js").read_text("utf-8")


def _prose(text: str) -> Any:
    from markupsafe import Markup

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(str(text).strip())))


def _table(block: Mapping[str, Any]) -> Any:
    from markupsafe import Markup

    caption = str(_prose(block["caption"])) if block["caption"] else ""
    looks = {"caption": caption, "digits": block["digits"], "mark": block["mark"]}
    return Markup(html_table(block["table"].columns, block["table"].rows, **looks))


def settings_rows(configs: Sequence[Mapping[str, Any]]) -> list[tuple[str, tuple[str, ...]]]:
    """Return every setting of any config, with its value in each config, as text.

    >>> settings_rows([{"a": 1, "b": {"c": 2}}, {"a": 1.5}])
    [('a', ('1', '1.5')), ('b.c', ('2', '–'))]
    """
    found = [{key: format_value(value, 12) for key, value in flat(config)} for config in configs]
    keys = dict.fromkeys(key for one in found for key in one)
    missing = format_value(None)
    return [(in_words(key), tuple(one.get(key, missing) for one in found)) for key in keys]


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested values under names joined by dots.

    >>> dict(flat({"a": 1, "b": {"c": 2}}))
    {'a': 1, 'b.c': 2}
    """
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _svg(figure: Any, name: str, alt: str) -> str:
    """Convert a matplotlib figure to an `<svg>` element: self-contained and reproducible.

    Black becomes the colour of the page's text, so that figures are readable on dark pages.
    Identifiers get a prefix, so that several figures can share a page. Text stays text.
    """
    import matplotlib

    curves = _name_curves(figure, name)
    buffer = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # independent of the user's settings
        # Curves keep every point, so that the page's script can recover their values.
        matplotlib.rcParams.update(
            {"path.simplify": False, "svg.fonttype": "none", "svg.hashsalt": name}
        )
        options: dict[str, Any] = {"transparent": True, "bbox_inches": "tight"}
        figure.savefig(buffer, format="svg", metadata=nothing, **options)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].strip()
    for pattern, replacement in (
        (r"(?s)<metadata>.*?</metadata>\s*", ""),
        (r'\bid="([^"]+)"', rf'id="{name}-\1"'),
        (r'(url\(|href=")#', rf"\1#{name}-"),
        (r"(stroke|fill): #000000", r"\1: currentColor"),
        # Use the fonts of the page, at the size for which the layout was computed.
        (r"font: (\d[\d.]*px) [^;\"]*", r"font-size: \1; font-family: inherit"),
    ):
        svg = re.sub(pattern, replacement, svg)
    for group, texts in getattr(figure, "told", {}).items():
        svg = _with_titles(svg, f'<g id="{name}-{group}">', texts)
    data = f' data-curves="{escape(dumps(curves, "curves"))}"' if curves else ""
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}"{data} ', 1)


def _with_titles(svg: str, group: str, texts: Sequence[str]) -> str:
    """Give each path of a group a title, which browsers show when one points at it.

    >>> _with_titles('<g id="a"><path d="M"/></g>', '<g id="a">', ["1 < 2"])
    '<g id="a"><path d="M"><title>1 &lt; 2</title></path></g>'
    """
    start = svg.find(group)
    end = svg.find("</g>", start)
    first, *paths = svg[start:end].split("/>")
    if start < 0 or len(paths) != len(texts):
        return svg
    parts = [
        f"><title>{escape(text)}</title></path>{rest}"
        for text, rest in zip(texts, paths, strict=True)
    ]
    return svg[:start] + first + "".join(parts) + svg[end:]


def _width(image: str) -> int:
    """Return the width of a picture in pixels.

    >>> _width('<svg width="300pt" height="9pt">'), _width('<img width="365" alt="x">')
    (400, 365)
    """
    size, unit = re.findall(r'\swidth="([\d.]+)(pt)?"', image)[0]
    return round(float(size) * (4 / 3 if unit else 1))


def _name_curves(figure: Any, name: str) -> list[dict[str, Any]]:
    """Give every named curve an identifier, and return the numbers from which it is drawn.

    A curve's band and slope share its colour, and are hidden together with it.
    """
    from matplotlib.colors import to_hex

    found = []
    for k, axes in enumerate(figure.axes):
        curves = [line for line in axes.lines if not line.get_label().startswith("_")]
        others = [line for line in axes.lines if line not in curves]
        colours = [(other, to_hex(other.get_color())) for other in others]
        bands = [band for band in axes.collections if len(band.get_facecolor())]
        colours += [(band, to_hex(band.get_facecolor()[0])) for band in bands]
        for i, line in enumerate(curves):
            x, y = (np.asarray(data, float) for data in line.get_data())
            if x.size < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
                continue
            line.set_gid(f"curve-{k}-{i}")
            also = []
            for j, (other, colour) in enumerate(colours):
                if colour == to_hex(line.get_color()):
                    other.set_gid(f"with-{k}-{i}-{j}")
                    also.append(f"{name}-with-{k}-{i}-{j}")
            numbers = {"x": _short(x), "y": _short(y)}
            label = line.get_label().replace(r"\$", "$")
            found.append({"id": f"{name}-curve-{k}-{i}", "name": label, **numbers, "also": also})
    return found


def _short(values: np.ndarray) -> list[float]:
    """Round to five digits; pages do not show more."""
    return [float(f"{value:.5g}") for value in values]


def _png(figure: Any, alt: str, resolution: int = 160) -> str:
    """Convert a figure to an `<img>` with embedded data; for figures with many points."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=resolution, facecolor="white", bbox_inches="tight")
    data = base64.b64encode(buffer.getvalue()).decode()
    width = round(figure.get_figwidth() * 96)
    return f'<img width="{width}" alt="{escape(alt)}" src="data:image/png;base64,{data}">'
