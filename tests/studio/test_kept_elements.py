"""Elements that a user may be clicking or typing in stay the same while answers arrive."""

import json

import pytest

from equipoise.runs import Record, Run

pytestmark = pytest.mark.slow


def is_there(element):
    return element.evaluate("(one) => one.isConnected")


def is_focused(page, element):
    return page.evaluate("(one) => document.activeElement === one", element)


def test_runs_keep_what_can_be_clicked(studio, visit):
    with Run.start(studio.folder.root / "growing", {"rounds": 9}) as run:
        run.log(1, gap=0.5)
        run.log(2, gap=0.4)
        page = visit("runs:" + json.dumps({"runs": ["growing"]}))
        page.locator("figure path.line").wait_for(state="attached")
        copy = page.get_by_role("button", name="Copy Command").element_handle()
        name = page.get_by_role("button", name="growing", exact=True).element_handle()
        copy.focus()
        run.log(50, gap=0.25)
        page.get_by_text("unfinished, at step 50").wait_for()
        with page.expect_response("**/call/runs/curves"):
            pass
        with page.expect_response("**/call/runs/list"):  # the curves before have been shown
            pass
        assert is_there(copy)
        assert is_there(name)
        assert is_focused(page, copy)
        run.finish(Record("play", run.config, {"gap": 0.25}, {}))


def test_moves_keep_the_focus_and_the_rounds_stay_open(visit):
    page = visit("duel:" + json.dumps({"player": "omd"}))
    rock = page.get_by_role("button", name="rock")
    rock.focus()
    button = rock.element_handle()
    for count in (1, 2, 3):
        page.keyboard.press("Enter")
        page.get_by_text(f"All rounds ({count})").wait_for()
        if count == 1:
            page.get_by_text("All rounds (1)").click()
            rock.focus()
    assert is_focused(page, button)
    assert page.get_by_role("columnheader", name="player sees").is_visible()


def test_a_search_leaves_the_controls_and_earlier_results_alone(visit):
    page = visit("city:" + json.dumps({"game": {"name": "braess-network"}, "links": 1}))
    search = page.get_by_role("button", name="Find the best tolls")
    page.get_by_text("Mean cost of a trip").wait_for()
    search.focus()
    button = search.element_handle()
    page.keyboard.press("Enter")
    found = page.get_by_role("button", name="braess-network, 1 link: total cost 498")
    page.get_by_role("heading", name="Tolls found", exact=True).wait_for()
    assert is_focused(page, button)
    first = found.first.element_handle()
    page.keyboard.press("Enter")
    found.nth(1).wait_for()
    assert is_there(first)


def test_a_search_does_not_undo_what_the_user_changed_meanwhile(visit):
    page = visit("city:" + json.dumps({"game": {"name": "braess-network"}, "links": 2}))
    page.get_by_text("Mean cost of a trip").wait_for()
    held = []
    page.route("**/job/city/tolls", lambda route: held.append(route))
    page.get_by_role("button", name="Find the best tolls").click()
    while not held:
        page.wait_for_timeout(20)
    page.get_by_label("Demand").fill("1.5")
    with page.expect_response("**/job/city/tolls"):
        held[0].continue_()
    page.get_by_role("button", name="braess-network, 2 links: total cost 498").wait_for()
    page.get_by_label("Demand").press("ArrowRight")  # answers come after all that came before
    page.locator("pre", has_text="demand=1.52 *").first.wait_for()
    assert page.get_by_role("heading", name="Tolls found", exact=True).count() == 0


def test_columns_of_a_log_keep_their_lists(visit):
    page = visit("log", allow="400")
    page.get_by_role("button", name="Try an example").click()
    reward = page.get_by_label("Reward column")
    reward.wait_for()
    chosen = reward.element_handle()
    reward.select_option("")
    page.get_by_text("reward: expected the name of a column").wait_for()
    assert is_there(chosen)
    reward.select_option("profit")
    page.get_by_role("columnheader", name="concentrability").wait_for()
    assert is_there(chosen)
    page.get_by_role("button", name="Try an example").click()
    page.get_by_role("columnheader", name="concentrability").wait_for()
    assert reward.input_value() == "profit"


def test_a_report_of_a_run_that_is_not_there_is_a_page(studio, visit):
    page = visit("runs", allow="400")
    page.goto(f"{studio.link.partition('?')[0]}report?run=<b>nothing</b>")
    page.get_by_role("heading", name="This report cannot be shown").wait_for()
    page.get_by_role("alert").filter(has_text="<b>nothing</b>").wait_for()
    page.get_by_role("link", name="Go to the runs").click()
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
