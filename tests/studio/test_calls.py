"""What rooms answer, and that the Python lines they show do the same."""

import asyncio
import shlex
import sys

import numpy as np
import pytest

import equipoise as eq
from equipoise.report import RunFolder
from equipoise.runs import Run
from equipoise.studio import Studio, _city, _duel, _log, _matrix, _runs
from equipoise.studio._jobs import MOST, Jobs


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Studio(tmp_path, port=1)


def run(lines):
    """The names that lines of Python leave."""
    names = {}
    exec(lines, names)
    return names


TYPED = {
    "zero-sum": {"cells": [["3", "−1"], ["-2", "1/2"]], "actions": [["up", "down"], ["l", "r"]]},
    "general": {"cells": [["3, 1", "0 0"], ["0;0", "1 3"]], "players": ["Rose", "Colin"]},
    "named": {"name": "battle-of-the-sexes"},
}


@pytest.mark.parametrize("game", TYPED.values(), ids=TYPED)
@pytest.mark.parametrize("concept", ["nash", "ce", "cce"])
def test_the_lines_of_a_matrix_find_the_same(place, game, concept):
    found = _matrix.CALLS["solve"](place, {"game": game, "concept": concept, "objective": [1, 0]})
    names = run(found["python"])
    solution = names["solution"]
    np.testing.assert_allclose(found["value"], solution.certificate.value, atol=1e-12)
    assert found["solved"]
    assert eq.certify(names["game"], solution.policy, concept=concept).max_upper <= 1e-6


def test_a_typed_game_is_saved_for_the_command(place):
    game = TYPED["zero-sum"]
    file = _matrix.CALLS["save"](place, {"game": game, "file": "game.nfg"})["file"]
    assert file == "uploads/game.nfg"
    read = _matrix.CALLS["open"](place, {"game": {"file": file}})
    assert read["payoffs"][0].tolist() == [[3.0, -1.0], [-2.0, 0.5]]
    assert read["actions"] == game["actions"]


def test_regions_are_best_replies(place):
    found = _matrix.CALLS["replies"](place, {"game": {"name": "rock-paper-scissors"}})["regions"]
    game = eq.games.load("rock-paper-scissors")
    middles = _matrix._grid(3)
    np.testing.assert_array_equal(found[0]["best"], (-game.payoff.T @ middles.T).argmax(0))
    np.testing.assert_array_equal(found[1]["best"], (game.payoff @ middles.T).argmax(0))


def test_the_lines_of_a_city_find_the_same(place):
    asked = {"game": {"name": "braess-network"}, "demand": 1.5, "tolls": {"4": 3.0}}
    asked["capacities"] = {"0": 1.25}
    found = _city.CALLS["solve"](place, asked)
    names = run(found["python"])
    np.testing.assert_allclose(found["flows"], names["solution"].policy.total, atol=1e-6)
    assert found["solved"]
    assert found["total_cost"] == pytest.approx(names["solution"].stats["total_cost"])


def test_a_city_is_followed_within_a_tenth_of_a_second(place):
    """In processor time: 76 links are those of Sioux Falls, grid-city has 360."""
    import time

    asked = {"game": {"name": "grid-city"}}
    _city.CALLS["solve"](place, {**asked, "demand": 1.0})
    _city.CALLS["solve"](place, {**asked, "demand": 1.1})  # whatever is compiled once
    begun = time.process_time()
    for demand in (1.12, 1.14, 1.16):
        assert _city.CALLS["solve"](place, {**asked, "demand": demand})["solved"]
    assert time.process_time() - begun < 3 * 0.1


def test_the_lines_of_a_crowd_find_the_same(place):
    asked = {"name": "public-good", "parameters": {"agents": 90}}
    found = _city.CALLS["crowd"](place, asked)
    assert [one["welfare"] for one in found["equilibria"]] == [
        one.welfare for one in run(found["python"])["found"]
    ]


def test_a_duel_depends_on_the_moves_alone(place):
    asked = {"game": {"name": "matching-pennies"}, "player": "omd", "seed": 3}
    step = _duel.CALLS["play"](place, {**asked, "moves": [0, 1]})
    step = _duel.CALLS["play"](place, {**asked, "moves": [0, 1, 1]})
    anew = _duel.CALLS["play"](Studio(place.folder.root, port=2), {**asked, "moves": [0, 1, 1]})
    assert step["turns"] == anew["turns"]
    other = _duel.CALLS["play"](place, {**asked, "moves": [1]})
    assert len(other["turns"]) == 1
    duel = run(step["python"])["duel"]
    assert duel.score == step["score"]
    np.testing.assert_array_equal(duel.opponent_policy, step["policy"])
    assert step["held"][0][0] == pytest.approx(0.0, abs=1e-12)  # uniform play, at first
    assert all(gap >= -1e-12 for gap in step["held"][0])


def test_a_log_is_read_with_the_columns_that_are_named(place):
    example = _log.CALLS["example"](place, {})
    found = _log.CALLS["open"](place, example)
    assert found["log"]["agents"] == ["Ada", "Bo", "Cy", "Di"]
    assert found["columns"] == ["week", "seller", "price", "profit"]
    found = _log.CALLS["open"](place, {"file": example["file"], "columns": {"agent": "who"}})
    assert found["log"] is None
    assert "agent" in found["problem"]


def session(folder, *words):
    """A run that a command began, as its folder tells."""
    with Run.create(folder, {"rounds": 9}) as made:
        made.log(1, gap=0.5)
    read = RunFolder.read(folder)
    read.sessions[0].update(command=["equipoise", *words], folder=str(folder.parent))
    return read


def test_a_run_is_resumed_by_its_own_command_alone(tmp_path):
    good = session(tmp_path / "a", "play", "--rounds", "9", "--run", "a")
    arguments, place = _runs._command(good)
    assert shlex.join(arguments) == "play --rounds 9 --run a"
    assert place == tmp_path
    for k, words in enumerate(
        (
            ["play", "--run", "elsewhere"],
            ["play", "--run", "b3", "--run", "elsewhere"],
            ["play"],
            ["solve", "x.nfg", "--run", "b3", "--out", "/tmp/x.json"],
            ["games", "--write", "x.nfg"],
            ["studio"],
        )
    ):
        with pytest.raises(ValueError, match="give its command again"):
            _runs._command(session(tmp_path / f"b{k}", *words))
    other = session(tmp_path / "c", "play", "--run", "c")
    other.sessions[0]["command"] = ["rm", "play", "--run", "c"]
    with pytest.raises(ValueError, match="give its command again"):
        _runs._command(other)


def test_jobs_report_stop_and_fail():
    async def live():
        jobs = Jobs()
        queue = jobs.listen()

        def work(tell):
            for k in range(10_000):
                tell(iteration=k)
                import time

                time.sleep(0.01)

        def fail(tell):
            raise ValueError("links: expected 1")

        endless = jobs.call("city", "endless", work)
        failing = jobs.call("city", "failing", fail)
        while not (endless.progress and failing.state == "failed"):
            await queue.get()
        for _ in range(MOST - 1):
            jobs.call("city", "more", work)
        with pytest.raises(ValueError, match="stop one of them first"):
            jobs.call("city", "too many", work)
        await jobs.close()
        assert endless.state == "stopped"
        assert failing.error == "links: expected 1"
        assert len(jobs.listen()._queue) == len(jobs.jobs)

    asyncio.run(live())


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_command_is_stopped_and_keeps_its_run(tmp_path):
    async def live():
        jobs = Jobs()
        words = ["play", "--rounds", "1e9", "--games", "2", "--run", "long"]
        job = await jobs.command("runs", "play", words, tmp_path, "long")
        while not (tmp_path / "long" / "config.json").exists():
            assert job.state == "running", job.error
            await asyncio.sleep(0.1)
        await jobs.close()
        return job

    job = asyncio.run(live())
    assert job.state == "stopped"
    assert RunFolder.read(tmp_path / "long").record is None
