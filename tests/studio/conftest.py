"""A studio that is served for the tests of a file, and a browser that looks at it."""

import contextlib
import os
import shutil
import threading
from importlib import import_module
from pathlib import Path

import pytest
from support import peer

import equipoise as eq
from equipoise.studio import serve
from equipoise.studio._server import ROOMS

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
#: Where pictures for the docs go, if `make screenshots` asks for them.
PICTURES = Path(asked).resolve() if (asked := os.environ.get("EQUIPOISE_SCREENSHOTS")) else None
#: What a browser needs in a container, and what it should not do on its own.
OPTIONS = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]


def import_everything():
    """Import what rooms use, and run it once, before there are threads.

    The hook that checks annotations compiles what it imports, which Python 3.11 cannot do in two
    threads at once.
    """
    for module in (*ROOMS.values(), "matplotlib.figure", "jinja2"):
        import_module(module)
    eq.solve(eq.games.load("matching-pennies"))
    eq.incontext.Duel(eq.dynamics.OMD(), eq.games.load("matching-pennies"))
    eq.solve(eq.games.load("braess-network"))
    eq.aggregative.equilibria(eq.games.load("public-good", agents=9))
    eq.offline.collect(
        eq.games.families.polymatrix(2, 2).sample(key=0), "uniform", samples=9, key=0
    )


@contextlib.contextmanager
def serving(folder, port):
    """A studio that is served in a thread."""
    peer("uvicorn")
    import_everything()
    started, found = threading.Event(), {}

    def ready(studio, end):
        found.update(studio=studio, end=end)
        started.set()

    options = {"port": port, "browser": False, "ready": ready}
    thread = threading.Thread(target=serve, args=(folder,), kwargs=options, daemon=True)
    thread.start()
    assert started.wait(300)
    yield found["studio"]
    found["end"]()
    thread.join(300)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """A running studio for an empty folder."""
    folder = tmp_path_factory.mktemp("studio")
    # Commands then name files as most users see them.
    with contextlib.chdir(folder), serving(folder, 0) as found:
        yield found


@pytest.fixture
def again():
    """Serve another studio, which ends before the test does."""
    return serving


@pytest.fixture(scope="module")
def browser():
    """Chromium; where there is none, its tests are skipped."""
    if not CHROMIUM:
        pytest.skip("no Chromium is installed")
    playwright = peer("playwright.sync_api")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(studio, browser):
    """Open a room, in a window of its own; complaints of the browser fail the test."""
    opened, complaints = [], []

    def visit(room="", *, width=1200, scheme="light", allow=""):
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=scheme)
        context.set_default_timeout(120_000)
        opened.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))

        def hear(message):
            if message.type in ("error", "warning") and not (allow and allow in message.text):
                complaints.append(message.text)

        page.on("console", hear)
        page.goto(studio.link)
        if room:
            page.evaluate("(room) => { location.hash = room; }", room)
        return page

    yield visit
    for context in opened:
        context.close()
    assert complaints == []


@pytest.fixture
def shoot():
    """Keep a picture for the docs, where `make screenshots` asks for it."""

    def shoot(page, name):
        if PICTURES:
            page.evaluate(
                """() => { scrollTo({ top: 0, behavior: "instant" });
                document.activeElement?.blur();
                document.getElementById("jobs").style.visibility = "hidden"; }"""
            )
            page.mouse.move(0, 0)
            path = PICTURES / f"studio-{name}.png"
            page.screenshot(path=path, clip={"x": 0, "y": 0, "width": 1200, "height": 900})
            assert path.stat().st_size < 200_000

    return shoot
