"""How long the studio keeps one waiting, in a real browser.

    python -m benchmarks.studio

Prints seconds from opening the link to the first certificate and to the whole first page, and how
long the flows of Sioux Falls follow a drag of the demand, from the event to the new numbers on the
page. Processor seconds of the server are printed beside them: on a busy machine, they are the
steadier measure. It needs Chromium, Playwright, and the files of Sioux Falls beside the project
(`../shared/data/tntp`); without those, grid-city, which has 360 links, takes their place.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.networks import TNTP

#: Demand factors that are dragged through, one after another.
DRAGGED = np.round(np.concatenate([1 + 0.02 * np.arange(1, 16), 1.3 - 0.02 * np.arange(1, 16)]), 2)
#: Sets a slider, and waits for the numbers that answer.
DRAG = """async (value) => {
  const slider = document.querySelector("input[type=range]");
  const place = document.querySelector(".work > div");
  const begun = performance.now();
  const answered = new Promise((done) => new MutationObserver((_, seen) => {
    seen.disconnect(); done();
  }).observe(place, { childList: true }));
  slider.value = value;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  await answered;
  return performance.now() - begun;
}"""


def main() -> None:
    """Start a studio, open it, and measure."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        game = {"name": "grid-city"}
        if TNTP.exists():
            for part in ("net", "trips"):
                shutil.copy(TNTP / f"SiouxFalls_{part}.tntp", place)
            game = {"file": "SiouxFalls_net.tntp", "trips": "SiouxFalls_trips.tntp"}
        words = [sys.executable, "-m", "equipoise", "studio", place, "--no-browser", "--json"]
        begun = time.perf_counter()
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            link = json.loads(server.stdout.readline())["link"]
            print(f"command to link        {time.perf_counter() - begun:6.2f} s")
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            begun = time.perf_counter()
            page.goto(link)
            page.locator(".facts").first.wait_for()
            page.locator("svg .edge").first.wait_for()
            spent = _processor_seconds(server.pid)
            print(f"link to first picture  {time.perf_counter() - begun:6.2f} s", end="; ")
            print(f"the server's processor {spent:.2f} s since it was started")
            page.get_by_role("heading", name="All equilibria").wait_for()
            print(f"link to whole page     {time.perf_counter() - begun:6.2f} s")
            page.goto(f"{link.partition('?')[0]}#city:{json.dumps({'game': game})}")
            page.reload()
            page.locator(".facts").first.wait_for()
            page.evaluate(DRAG, 1.01)  # what is compiled once
            before = _processor_seconds(server.pid)
            seconds = np.array([page.evaluate(DRAG, float(x)) for x in DRAGGED]) / 1000
            spent = (_processor_seconds(server.pid) - before) / len(seconds)
            low, middle, high = np.quantile(seconds, [0, 0.5, 1])
            print(f"drag to new flows      {middle:6.3f} s (median of {len(seconds)};", end=" ")
            print(f"{low:.3f} to {high:.3f}), {spent:.3f} s of the server's processor")
        finally:
            server.terminate()
            server.wait()
            browser.close()


def _processor_seconds(process: int) -> float:
    """What a process has used so far, on Linux."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
