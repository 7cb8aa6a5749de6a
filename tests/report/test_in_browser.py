"""Pages in a real browser: nothing is complained about, and nothing is wider than the window."""

import contextlib
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
from test_compare import make_run

import equipoise as eq
from equipoise.cli import main
from equipoise.report import compare, read_runs

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BROWSER, reason="no Chromium is installed"),
]

#: A page of ours runs its own script alone; a copy of it may run another: the width of the page and
#: of the window, and the headings of tables that scroll, by the section that they are in.
MEASURE = """
const heading = (box) => {
  let place = box;
  while (place && place.tagName !== "H2") place = place.previousElementSibling;
  return place ? place.textContent : "";
};
const wide = [...document.querySelectorAll(".scroll")].filter((b) => b.scrollWidth > b.clientWidth);
document.title = JSON.stringify({
  page: document.documentElement.scrollWidth, window: innerWidth, scrolled: wide.map(heading),
});
"""
#: Every verb that keeps runs, at sizes that take seconds.
RUNS = {
    "matrix": "solve rock-paper-scissors",
    "crowd": "solve public-good --set agents=90 --option objective=welfare",
    "play": "play --row omd --rounds 200 --games 2",
    "learn": "learn demand-response --set agents=30 --set horizon=3 --episodes 12",
    "offline": "offline LOG --rank 2 --iterations 20",
}


def opened(file, *options):
    """What the browser makes of a page, and what it says while it does."""
    words = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    words += [f"--user-data-dir={file.parent / 'profile'}", "--dump-dom", *options]
    done = subprocess.run([*words, file.as_uri()], capture_output=True, text=True, timeout=300)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def measured(file, width=1280):
    """How wide the page is, and which tables scroll."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", file.read_text())
    copy = file.with_name("measured.html")
    copy.write_text(text.replace("</body>", f"<script>{MEASURE}</script></body>"))
    shown, _ = opened(copy, f"--window-size={width},800")
    return json.loads(re.search(r"<title>(.*?)</title>", shown, re.DOTALL)[1])


class Pictures(HTMLParser):
    """The texts of all pictures of a page."""

    def __init__(self, html):
        super().__init__()
        self.texts = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag in ("svg", "img"):
            found = dict(attrs)
            self.texts.append(found.get("aria-label" if tag == "svg" else "alt") or "")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    arrays = {"strength": np.arange(400.0).reshape(20, 20), "path": np.eye(3), "nash": [1 / 3] * 3}
    runs = [make_run(place / f"run-{k}", k / 10, arrays, sizes=[k] * 60) for k in range(1, 7)]
    file = place / "page.html"
    compare(read_runs(runs)).write(file)
    return file


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with the run of every verb, and a page that compares three of them."""
    place = tmp_path_factory.mktemp("kept")
    game = eq.games.families.polymatrix(3, 2, scale=0.25).sample(key=0)
    eq.offline.collect(game, "uniform", samples=300, key=1).write(place / "log.npz")
    with contextlib.redirect_stdout(io.StringIO()):
        for name, words in RUNS.items():
            command = words.replace("LOG", str(place / "log.npz")).split()
            assert main([*command, "--run", str(place / name)]) in (0, 1), name
        runs = [str(place / name) for name in ("play", "learn", "offline")]
        assert main(["report", *runs, "--out", str(place / "three.html")]) == 0
        for name in ("matrix", "crowd"):
            command = ["report", str(place / name), "--out", str(place / f"{name}.html")]
            assert main(command) == 0
    return place


def test_the_browser_shows_everything_without_complaint(page):
    shown, complaints = opened(page)
    assert complaints == []
    for heading in ("Results", "Curves", "Pictures", "Tables", "Settings"):
        assert f">{heading}</h2>" in shown
    assert shown.count("<svg") == page.read_text().count("<svg")


def test_nothing_is_wider_than_a_laptop(page):
    found = measured(page)
    assert found["window"] >= 1000
    assert found["page"] <= found["window"]


@pytest.mark.parametrize(
    "name",
    [*(f"{name}/report.html" for name in RUNS), "matrix.html", "crowd.html", "three.html"],
)
def test_pages_of_every_verb_are_shown_without_complaint(kept, name):
    file = kept / name
    shown, complaints = opened(file)
    assert complaints == []
    texts = Pictures(file.read_text()).texts
    assert texts
    assert all(len(text) > 20 for text in texts)
    assert shown.count("<svg") + shown.count("<img") == len(texts)
    found = measured(file)
    assert found["window"] >= 1000
    assert found["page"] <= found["window"]
    assert "Certificates" not in found["scrolled"]


def test_a_table_that_is_too_wide_would_be_found(kept):
    """The measure itself: on a narrow screen, the certificates do scroll, and the page does not."""
    found = measured(kept / "three.html", width=500)
    assert "Certificates" in found["scrolled"]
