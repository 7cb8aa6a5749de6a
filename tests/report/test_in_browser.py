"""A page in a real browser: nothing is complained about, and nothing is wider than the window."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from test_compare import make_run

from equipoise.report import compare, read_runs

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BROWSER, reason="no Chromium is installed"),
]


def opened(file, *options):
    """What the browser makes of a page, and what it says while it does."""
    words = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    words += [f"--user-data-dir={file.parent / 'profile'}", "--dump-dom", *options]
    done = subprocess.run([*words, file.as_uri()], capture_output=True, text=True, timeout=120)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    arrays = {"strength": np.arange(400.0).reshape(20, 20), "path": np.eye(3), "nash": [1 / 3] * 3}
    runs = [make_run(place / f"run-{k}", k / 10, arrays, sizes=[k] * 60) for k in range(1, 7)]
    file = place / "page.html"
    compare(read_runs(runs)).write(file)
    return file


def test_the_browser_shows_everything_without_complaint(page):
    shown, complaints = opened(page)
    assert complaints == []
    for heading in ("Results", "Curves", "Pictures", "Tables", "Settings"):
        assert f">{heading}</h2>" in shown
    assert shown.count("<svg") == page.read_text().count("<svg")


def test_nothing_is_wider_than_a_laptop(page):
    # A page of ours runs no scripts; a copy of it may, to be measured.
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    measure = "document.title = document.documentElement.scrollWidth + ' of ' + innerWidth"
    copy = page.with_name("measured.html")
    copy.write_text(text.replace("</body>", f"<script>{measure}</script></body>"))
    shown, _ = opened(copy, "--window-size=1280,800")
    width, window = map(int, re.search(r"<title>(\d+) of (\d+)</title>", shown).groups())
    assert window >= 1000
    assert width <= window
