"""Figures as text inside the page."""

import base64
import io
import re
from html import escape
from typing import Any


def to_svg(figure: Any, name: str, alt: str) -> str:
    """A matplotlib figure as an `<svg>` element: no outer files, same bytes every time.

    Black becomes the colour of the page's text, so that figures are readable on dark pages;
    identifiers get a prefix, so that several figures can share a page; text stays text.
    """
    import matplotlib

    buffer = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the same page whatever the user's settings
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": name})
        options: dict[str, Any] = {"transparent": True, "bbox_inches": "tight"}
        figure.savefig(buffer, format="svg", metadata=nothing, **options)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(url\(|href=")#', rf"\1#{name}-", svg)
    svg = re.sub(r"(stroke|fill): #000000", r"\1: currentColor", svg)
    # The fonts of the page, at the size the layout was made for.
    svg = re.sub(r"font: (\d[\d.]*px) [^;\"]*", r"font-size: \1; font-family: inherit", svg)
    label = f'role="img" aria-label="{escape(alt)}"'
    return re.sub(r"<svg ", f"<svg {label} ", svg, count=1)


def to_png(figure: Any, alt: str, resolution: int = 160) -> str:
    """A matplotlib figure as an `<img>` that holds its own data; for figures of many points."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=resolution, facecolor="white", bbox_inches="tight")
    data = base64.b64encode(buffer.getvalue()).decode()
    width = round(figure.get_figwidth() * 96)
    return f'<img width="{width}" alt="{escape(alt)}" src="data:image/png;base64,{data}">'
