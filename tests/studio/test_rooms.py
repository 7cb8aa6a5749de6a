"""Each room in a real browser: its main path, an error, a reload, dark and narrow windows."""

import itertools
import json
import shutil
import signal
import subprocess
import sys
import time

import pytest

from equipoise.report import RunFolder
from equipoise.runs import Record, Run
from equipoise.studio import _city

pytestmark = pytest.mark.slow


def state(page):
    """What the link of the page restores."""
    return page.evaluate("() => JSON.parse(decodeURIComponent(location.hash).split(/:(.*)/s)[1])")


def fact(page, name):
    """A key number of the page, by its name."""
    return page.locator(f".facts div:has(dt:text-is({json.dumps(name)})) dd").first


def code(page, section):
    """The Python and the command of a section, which are folded."""
    box = page.locator("details.snippet", has_text="The same").filter(has=page.locator("pre"))
    found = page.locator(section).locator(box).first
    return found.locator("pre").all_text_contents()


def test_matrix(visit, shoot):
    page = visit("matrix")
    page.get_by_role("heading", name="All equilibria (1)").wait_for()
    assert code(page, "section:has-text('All equilibria')")[1] == (
        "equipoise solve rock-paper-scissors --all"
    )
    shoot(page, "matrix")
    page.get_by_label("Payoff in row 1, column 1", exact=True).fill("2")
    page.keyboard.press("Tab")
    fact(page, "Value to row").filter(has_text="0.2222").wait_for()  # 2 / 9 by hand
    python, command = page.locator("section.snippet pre").all_inner_texts()
    assert "eq.MatrixGame([[2, -1, 1]" in python
    assert command.endswith("> game.nfg &&\nequipoise solve game.nfg")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download game.nfg").click()
    assert download.value.path().read_text().rstrip() in command
    page.get_by_label("rock", exact=True).first.fill("1")  # the slider of the first player
    fact(page, "column could gain").filter(has_text="1.222").wait_for()  # 11 / 9
    page.reload()
    page.get_by_role("heading", name="All equilibria (1)").wait_for()
    assert page.get_by_label("Payoff in row 1, column 1", exact=True).input_value() == "2"
    assert state(page)["policy"][0] == [1, 0, 0]


def test_matrix_correlated_equilibria_and_errors(visit):
    page = visit("matrix", scheme="dark", allow="400")
    page.get_by_label("Game", exact=True).select_option("battle-of-the-sexes")
    page.get_by_role("heading", name="All equilibria (3)").wait_for()
    page.get_by_label("Solution concept").select_option("ce")
    page.get_by_label("Weight of the first player").fill("1")
    fact(page, "Value to he").filter(has_text="2").wait_for()
    page.get_by_label("Weight of the first player").fill("0")
    fact(page, "Value to he").filter(has_text="1").wait_for()
    page.get_by_label("Payoff in row 1, column 1", exact=True).fill("two")
    page.keyboard.press("Tab")
    page.get_by_role("alert").filter(has_text="row 1, column 1: expected numbers").wait_for()
    colours = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert colours == "rgb(21, 23, 26)"


def test_policies_are_dragged_next_to_a_correlated_equilibrium(visit):
    page = visit("matrix:" + json.dumps({"game": {"name": "chicken"}, "concept": "ce"}))
    fact(page, "NashConv").wait_for()  # of uniform policies
    assert state(page)["policy"] == [[0.5, 0.5], [0.5, 0.5]]
    box = page.locator("svg.dragged").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 30 / 360, box["y"] + box["height"] * 60 / 105)
    page.wait_for_function("() => location.hash.includes('%5B%5B1%2C0%5D%2C%5B0.5%2C0.5%5D%5D')")


def test_cells_are_typed_one_after_another(visit):
    """Answers that arrive meanwhile neither move the focus nor replace what is being typed."""
    page = visit("matrix")
    page.get_by_role("heading", name="All equilibria (1)").wait_for()
    page.get_by_label("Payoff in row 1, column 1", exact=True).focus()
    for text in ("7", "12", "-3"):
        page.keyboard.press("Control+a")
        page.keyboard.type(text, delay=40)
        page.keyboard.press("Tab")
    fact(page, "Value to row").filter(has_text="-0.2727").wait_for()  # -3 / 11
    assert page.evaluate("() => document.activeElement.ariaLabel") == "Name of row 2"
    cells = page.locator(".cells td input").evaluate_all("(all) => all.map((one) => one.value)")
    assert cells == ["7", "12", "-3", "1", "0", "-1", "-1", "1", "0"]


def test_names_with_script_in_them_stay_text(visit):
    bad = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    game = {"cells": [["1", "-1"], ["-1", "1"]], "actions": [[bad, "b"], ["a", bad]]}
    page = visit("matrix:" + json.dumps({"game": {**game, "players": [bad, "<b>column</b>"]}}))
    page.get_by_role("heading", name="All equilibria (1)").wait_for()
    assert page.get_by_label("Name of row 1").input_value() == bad
    assert page.title() == "Matrix · equipoise studio"
    assert page.locator("main img, main script, main b").count() == 0


#: What is pasted, and the cells row by row: those of numpy, of Python, of a spreadsheet, of a book.
PASTED = {
    "[[ 1234.5 -1]\n [-1  1e-7]]": [["1234.5", "-1"], ["-1", "1e-7"]],
    "[[[3, 0], [0, 1]], [[1, 0], [0, 3]]]": [["3, 1", "0, 0"], ["0, 0", "1, 3"]],
    "\tL\tR\nT\t1500\t0\nB\t-2000\t1/3": [["L", "R"], ["T", "1500", "0"], ["B", "-2000", "1/3"]],
    "x y\nup (3, 1) (0, 0)": [["x", "y"], ["up", "3, 1", "0, 0"]],
}


def test_what_is_pasted_stays_as_it_is(visit):
    page = visit("matrix")
    page.get_by_role("heading", name="All equilibria (1)").wait_for()
    page.get_by_text("Paste a table").click()
    for text, expected in PASTED.items():
        page.get_by_label("Payoffs to paste").fill(text)
        page.get_by_role("button", name="Use this table").click()
        page.get_by_label("Name of column 3").wait_for(state="detached")
        page.get_by_role("button", name="Add column").click()  # reads all cells again
        page.get_by_label("Name of column 3").wait_for()
        cells = page.locator(".cells tr").evaluate_all(
            "(rows) => rows.map((row) => [...row.querySelectorAll('input')].map((i) => i.value))"
        )
        named = expected[0] == cells[0][:2]
        shown = [row[:-1] for row in cells] if named else [row[1:-1] for row in cells[1:]]
        assert shown == expected
        assert page.get_by_role("alert").filter(visible=True).count() == 0


def test_a_late_answer_about_an_earlier_game_is_dropped(visit):
    page = visit("matrix")
    page.get_by_role("heading", name="All equilibria (1)").wait_for()
    held = []
    page.route(
        "**/call/matrix/solve", lambda route: route.continue_() if held else held.append(route)
    )
    page.get_by_role("button", name="Add column").click()
    page.get_by_label("Name of column 4").wait_for()
    page.get_by_role("button", name="Delete column").click()
    page.get_by_label("Name of column 4").wait_for(state="detached")
    while not held:
        page.wait_for_timeout(20)
    with page.expect_response("**/call/matrix/certify") as answered:
        held[0].continue_()  # the equilibrium of the game with four columns
    assert answered.value.ok
    assert page.get_by_role("alert").filter(visible=True).count() == 0


def test_learners_are_drawn(visit):
    page = visit("matrix", width=400)
    page.get_by_role("heading", name="All equilibria (1)").wait_for()
    page.get_by_label("Rounds").fill("200")
    page.get_by_role("button", name="Play").click()
    page.locator("figure:has-text('NashConv of the learners') path.line").first.wait_for()
    assert "eq.dynamics.play(" in code(page, "section:has-text('Watch two learners')")[1]
    page.get_by_role("button", name="average policies").click()
    curves = page.locator("figure:has-text('NashConv of the learners') path.line")
    page.wait_for_function("() => document.querySelectorAll('.picture path.line').length === 1")
    assert curves.count() == 1
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 400


def test_duel(visit, shoot):
    page = visit("duel:" + json.dumps({"player": "omd"}))
    page.get_by_role("button", name="rock").click()
    page.locator("strong", has_text="rock against").wait_for()
    page.get_by_role("button", name="paper").click()
    page.locator("strong", has_text="paper against").wait_for()
    before = page.locator(".facts").first.inner_text()
    page.reload()
    page.locator("strong", has_text="paper against").wait_for()
    assert page.locator(".facts").first.inner_text() == before
    assert state(page)["moves"] == [0, 1]
    for _ in range(4):
        for name in ("rock", "rock", "paper"):
            before = len(state(page)["moves"])
            page.get_by_role("button", name=name).click()
            page.get_by_text(f"All rounds ({before + 1})").wait_for()
    shoot(page, "duel")
    page.get_by_label("Row", exact=True).select_option("omd")
    page.get_by_label("Column", exact=True).select_option("regret-matching")
    page.get_by_label("Rounds").fill("64")
    page.get_by_role("button", name="Play").click()
    fact(page, "NashConv at the end").wait_for()
    assert 'make_learner("regret-matching"' in code(page, ".work")[0]
    page.reload()  # what was played is not lost
    fact(page, "NashConv at the end").wait_for()


def test_city(visit, shoot):
    page = visit("city")
    fact(page, "Total travel cost").wait_for()
    page.get_by_label("Network", exact=True).select_option("braess-network")
    fact(page, "Total travel cost").filter(has_text="552").wait_for()
    page.get_by_label("Most links with a toll").fill("1")
    page.get_by_role("button", name="Find the best tolls").click()
    fact(page, "Total cost with these tolls").filter(has_text="498").wait_for()
    fact(page, "Total travel cost").filter(has_text="498").wait_for()
    assert list(state(page)["tolls"]) == ["4"]
    assert code(page, ".work")[1] == "equipoise toll braess-network --links 1"
    link = page.url
    page.reload()
    fact(page, "Total travel cost").filter(has_text="498").wait_for()
    fact(page, "Total cost with these tolls").filter(has_text="498").wait_for()
    # A page that knows nothing of the search finds what it found.
    other = visit("city")
    other.get_by_role("button", name="braess-network, 1 link: total cost 498").click()
    fact(other, "Total travel cost").filter(has_text="498").wait_for()
    assert state(other)["tolls"] == state(page)["tolls"]
    # And a link restores it in a studio that never searched.
    anew = visit(link.partition("#")[2])
    fact(anew, "Total cost with these tolls").filter(has_text="498").wait_for()
    page.get_by_role("button", name="Compare with the optimum").click()
    fact(page, "Price of anarchy").filter(has_text="1.108").wait_for()
    assert "eq.prices" in code(page, ".work")[0]
    page.get_by_label("Link number").fill("4")
    page.keyboard.press("Enter")
    page.get_by_label("Toll", exact=True).fill("0")
    fact(page, "Total travel cost").filter(has_text="552").wait_for()


def test_a_search_survives_a_reload_and_its_notice_goes(visit, monkeypatch):
    def endless(studio, request, tell):
        for k in itertools.count():
            tell(iteration=k)
            time.sleep(0.05)

    monkeypatch.setitem(_city.JOBS, "tolls", endless)  # it cannot end before it is stopped
    page = visit("city")
    fact(page, "Total travel cost").wait_for()
    page.get_by_role("button", name="Find the best tolls").click()
    notice = page.locator("#jobs .job", has_text="running")
    notice.wait_for()
    page.reload()
    notice.wait_for()
    button = page.locator("#jobs").get_by_role("button", name="Stop")
    same, before = button.element_handle(), notice.inner_text()
    while notice.inner_text() == before:  # a new text arrives
        page.wait_for_timeout(50)
    assert same.evaluate("button => button.isConnected")
    button.click()
    page.locator("main").get_by_text("Best tolls: stopped.").wait_for()
    page.locator("#jobs .job.stopped").wait_for()
    page.clock.install()
    page.clock.fast_forward(30_000)
    page.locator("#jobs").wait_for(state="hidden")


DAMAGED = {
    'matrix:{"game"': "it is damaged or incomplete",
    "matrix:%E0%A4": "it is damaged or incomplete",
    'matrix:{"game":{"name":"nothing"}}': "name: expected the name of a game",
    'matrix:{"policy":[[1],[1]]}': "policy: expected one probability",
    'duel:{"moves":"x"}': 'moves: expected a list, found "x"',
    'duel:{"player":"omd","moves":[99]}': "action: expected a number below 3",
    'log:{"file":5}': "file: expected a string, found 5",
    'city:{"game":{"name":"nothing"}}': "name: expected the name of a game",
    'city:{"tolls":null}': "tolls: expected an object, found null",
    "runs:[]": "expected an object, found []",
}


def test_a_damaged_link_is_explained(visit):
    page = visit("runs", allow="400")
    for link, told in DAMAGED.items():
        page.evaluate("(link) => { location.hash = link; }", link)
        alert = page.locator("main > :only-child > [role=alert]:only-child")
        alert.filter(has_text=f"This link cannot be opened: {told}").wait_for()
    page.get_by_role("button", name="Reset this page").click()
    page.get_by_role("heading", name="Runs", exact=True).wait_for()


def test_the_address_belongs_to_the_room_that_the_user_chose_last(visit):
    page = visit("matrix")
    fact(page, "NashConv").wait_for()
    # The room saves its state after the click on another room, and before that one is shown.
    page.evaluate(
        """() => { location.hash = "runs"; const slider = document.querySelector(".work input");
        slider.value = 1; slider.dispatchEvent(new Event("input", { bubbles: true })); }"""
    )
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    page.get_by_role("link", name="Skip to the content").press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "main"
    assert page.title() == "Runs · equipoise studio"


def test_a_page_outlives_its_server(tmp_path, browser, again):
    context = browser.new_context()
    context.set_default_timeout(120_000)
    page = context.new_page()
    with again(tmp_path, 0) as studio:
        port = studio.port
        page.goto(studio.link)
        page.get_by_role("heading", name="All equilibria (1)").wait_for()
    page.get_by_text("The studio has stopped").wait_for()
    page.get_by_role("link", name="City", exact=True).click()
    page.get_by_role("alert").filter(has_text="The studio does not respond").wait_for()
    with again(tmp_path, port) as studio:
        page.get_by_text("The studio was started anew").wait_for()
        page.get_by_role("button", name="Try again").click()
        page.get_by_role("alert").filter(has_text="was started anew").wait_for()
        context.new_page().goto(studio.link)
        page.locator("#jobs").wait_for(state="hidden")
        page.get_by_role("button", name="Try again").click()
        fact(page, "Total travel cost").wait_for()
        context.close()


def test_links_on_pages_of_other_sites_open_the_studio(studio, browser, tmp_path):
    plain = studio.link.partition("?")[0]
    page = tmp_path / "mail.html"
    page.write_text(f'<a href="{studio.link}">first</a> <a href="{plain}#runs">again</a>')
    context = browser.new_context()
    context.set_default_timeout(120_000)
    mail = context.new_page()
    for name, title in (("first", "Matrix"), ("again", "Runs")):
        mail.goto(page.as_uri())
        mail.get_by_role("link", name=name).click()
        mail.get_by_role("heading", name=title, exact=True).wait_for()
    context.close()


def test_a_slider_of_a_city_is_followed_at_once(visit, shoot):
    page = visit("city", width=1200)
    fact(page, "Total travel cost").wait_for()
    page.locator(".link").nth(100).click(force=True)
    page.get_by_label("Demand").fill("1.2")
    page.get_by_label("Demand").fill("1.3")
    page.locator("pre", has_text="demand=1.3 *").first.wait_for()
    shoot(page, "city")


def test_crowds(visit):
    page = visit("city:" + json.dumps({"kind": "crowd", "crowd": "public-good"}), width=400)
    fact(page, "Equilibria found").filter(has_text="3").wait_for()
    assert page.locator("figure circle").count() == 2
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 400


def test_log(studio, visit, shoot):
    page = visit("log", allow="400")
    page.get_by_text("equipoise offline log.csv").wait_for()
    page.get_by_role("button", name="Try an example").click()
    page.get_by_role("columnheader", name="concentrability").wait_for()
    command = page.locator("section.snippet pre").nth(1).inner_text()
    assert command.endswith("sellers.csv --agent seller --time week --action price --reward profit")
    page.get_by_label("Reward column").select_option("")
    page.get_by_text("reward: expected the name of a column").wait_for()
    page.get_by_label("Reward column").select_option("profit")
    page.get_by_role("button", name="Learn from this log").click()
    page.get_by_text("running").first.wait_for()
    page.reload()  # closing the page loses nothing that runs
    page.get_by_role("heading", name="What if one agent").wait_for()
    assert (studio.folder.root / state(page)["run"] / "record.json").exists()
    page.get_by_label("Agent", exact=True).select_option("Cy")
    page.locator("figure svg line.line").nth(2).wait_for(state="attached")
    assert page.get_by_role("row").filter(has_text="Cy").count() >= 1
    page.wait_for_timeout(300)
    shoot(page, "log")


def test_a_file_that_is_no_log_is_explained(visit):
    page = visit("log")
    content = b"a,b\n1,2\n"
    page.locator("input[type=file]").set_input_files(
        {"name": "odd name;.csv", "mimeType": "text/csv", "buffer": content}
    )
    page.get_by_role("heading", name="uploads/odd name_.csv").wait_for()
    page.locator(".error").filter(has_text="expected").first.wait_for()
    assert page.get_by_role("button", name="Learn from this log").is_disabled()


@pytest.fixture
def runs(studio):
    for step in (0.1, 0.2):
        with Run.start(studio.folder.root / f"kept/step-{step}", {"step": step}) as run:
            if not run.finished:
                arrays = {"rounds": [1, 10, 100], "gap": [1.0, step, step / 10]}
                run.finish(Record("play", run.config, {"gap": step / 10}, arrays))
    with Run.start(studio.folder.root / "kept/live", {"rounds": 100}) as run:
        if not run.metrics():
            run.log(1, gap=0.5)
        yield run


def test_runs(runs, visit, shoot):
    page = visit("runs")
    for name in ("kept/step-0.1", "kept/step-0.2", "kept/live"):
        page.get_by_label(f"Show {name}").check()
    page.get_by_role("button", name="step-0.2", exact=True).wait_for()
    runs.log(50, gap=0.25)  # of a run that goes on
    page.get_by_text("unfinished, at step 50").wait_for()
    page.locator("figure svg").first.hover()
    page.locator(".readout").filter(has_text="live: ").wait_for()
    shoot(page, "runs")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Open the full report").click()
    report = opened.value
    report.get_by_role("heading", name="3 runs compared").wait_for()
    page.reload()
    page.get_by_role("button", name="step-0.2", exact=True).wait_for()
    assert len(state(page)["runs"]) >= 3


def test_a_damaged_run_does_not_hide_the_others(runs, studio, visit):
    damaged = studio.folder.root / "kept/damaged"
    with Run.start(damaged, {}):
        pass
    (damaged / "record.json").write_text("{")
    page = visit("runs:" + json.dumps({"runs": ["kept/damaged", "kept/step-0.1"]}))
    page.get_by_role("button", name="step-0.1", exact=True).wait_for()
    page.get_by_role("cell", name="cannot be read").wait_for()
    shutil.rmtree(damaged)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_run_is_stopped_and_resumed(studio, visit):
    """A command that would take days: stopped in its terminal, resumed and stopped by the page."""
    place, folder = studio.folder.root, studio.folder.root / "kept/long"

    def wait_for_sessions(count):
        while not (folder / "environment.json").exists() or len(sessions()) < count:
            time.sleep(0.05)

    def sessions():
        return RunFolder.read(folder).sessions

    words = [sys.executable, "-m", "equipoise", "play", "--rounds", "1e9", "--games", "2"]
    begun = subprocess.Popen([*words, "--run", "kept/long"], cwd=place, stderr=subprocess.DEVNULL)
    wait_for_sessions(1)
    begun.send_signal(signal.SIGINT)
    assert begun.wait(300) == 130
    page = visit("runs")
    page.get_by_role("button", name="Resume kept/long").click()
    page.get_by_role("button", name="Stop kept/long").wait_for()
    wait_for_sessions(2)
    page.reload()  # the page may go; the run does not
    page.get_by_role("button", name="Stop kept/long").click()
    page.locator("#jobs .job.stopped", has_text="Resume kept/long").wait_for()
    page.get_by_role("button", name="Resume kept/long").wait_for()
    assert len(sessions()) == 2
    assert RunFolder.read(folder).record is None


def test_a_run_of_a_program_is_not_resumed(runs, studio, visit):
    page = visit("runs", allow="400")
    error = page.evaluate(
        """async () => (await (await fetch("/call/runs/resume", {method: "POST",
        headers: {"Content-Type": "application/json"},
        body: JSON.stringify({run: "kept/live"})})).json()).error"""
    )
    assert "run its command again" in error


def test_rooms_fit_narrow_and_wide_windows(visit):
    for width in (400, 2000):
        page = visit("", width=width, scheme="dark")
        for name in ("Log", "City", "Runs", "Matrix"):
            page.get_by_role("link", name=name, exact=True).click()
            page.get_by_role("heading", name=name, exact=True).wait_for()
            page.wait_for_timeout(150)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
