"""Every figure of the documentation is drawn by its script, and shown in the gallery."""

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = runpy.run_path(str(DOCS / "figures" / "__main__.py"), run_name="figures")


#: Figures whose code takes long; the tutorial runs the same calls with fewer games.
LONG = {"in_context"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.soak] * (name in LONG)) for name in FIGURES["names"]()],
)
def test_the_script_draws_the_figure(name, tmp_path):
    path = FIGURES["draw"](name, tmp_path)
    assert path.stat().st_size > 10_000
    gallery = (DOCS / "gallery.md").read_text()
    assert f"figures/{name}.py" in gallery
    assert f"images/{name}.png" in gallery
    assert (DOCS / "images" / f"{name}.png").exists()
