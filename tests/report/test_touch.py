"""Reports one can touch: sorted tables, values under the cursor, hidden curves, larger figures."""

import shutil

import numpy as np
import pytest
from support import peer

from equipoise.report import Report, figures
from equipoise.runs import Table

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed"),
]


@pytest.fixture(scope="module")
def browser():
    playwright = peer("playwright.sync_api")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    t = np.array([1, 10, 100, 1000])
    runs = np.array([1.0, 0.5, 0.25, 0.125]) * np.array([[1.0], [1.1]])
    figure = figures.learning_curves(t, {"slow": runs, "<b>fast</b>": 1 / t})
    rows = [("b", 2.0, None), ("a", 1e-7, 3), ("c", 10_000.0, 1)]
    page = Report("Touch").section("All")
    page.table(Table(("name", "gap", "count"), rows)).figure(figure, alt="two curves")
    path = tmp_path_factory.mktemp("touch") / "page.html"
    page.write(path)
    return path


def column(page, k):
    return page.locator(f"tbody tr td:nth-child({k})").all_inner_texts()


@pytest.mark.parametrize("width", [400, 1200])
def test_a_report_can_be_touched(browser, file, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(file.as_uri())
    page.get_by_role("button", name="gap").click()
    assert column(page, 1) == ["a", "b", "c"]
    page.get_by_role("button", name="gap").click()
    assert column(page, 1) == ["c", "b", "a"]
    page.get_by_role("button", name="count").click()
    assert column(page, 3) == ["1", "3", "–"]  # nothing comes last
    page.locator("svg").hover()
    readout = page.locator(".readout").inner_text()
    assert "slow" in readout
    assert "<b>fast</b>" in readout
    assert any(f"{value:.4g}" in readout for value in (0.525, 0.2625))  # medians as drawn
    page.locator("svg").focus()
    for _ in range(45):
        page.keyboard.press("ArrowRight")
    assert "slow: 0.1313 at 1,000" in page.locator(".readout").inner_text()  # the last point
    drawn = page.locator("[id$=curve-0-0]")
    assert drawn.is_visible()
    band = page.locator("[id*=with-0-0-]")
    assert band.count() >= 1
    page.get_by_role("button", name="slow").click()
    assert not drawn.is_visible()
    assert not band.first.is_visible()
    before = page.locator("svg").bounding_box()["width"]
    page.get_by_role("button", name="Enlarge").click()
    assert page.locator("svg").bounding_box()["width"] >= before
    whole = page.locator("svg").get_attribute("viewBox")
    page.keyboard.press("+")
    assert page.locator("svg").get_attribute("viewBox") != whole
    page.keyboard.press("-")
    assert page.locator("svg").get_attribute("viewBox") == whole
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert complaints == []
    page.close()


def test_a_report_reads_the_same_without_script(browser, file):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert column(page, 1) == ["b", "a", "c"]
    assert page.locator("svg").is_visible()
    assert page.locator("button").count() == 0
    context.close()
