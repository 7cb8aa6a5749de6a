"""What rooms answer, and that the Python lines they show do the same."""

import asyncio
import contextlib
import io
import json
import shlex
import subprocess
from functools import partial

import jax
import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main
from equipoise.core.plain import dumps
from equipoise.report import RunFolder
from equipoise.runs import Run
from equipoise.studio import Studio, _city, _duel, _games, _log, _matrix, _runs
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


def paste(command):
    """Run a command as it is shown: its files by the shell, and the verb here."""
    *before, verb = command.split(" &&\n")
    for line in before:
        subprocess.run(["sh", "-c", line], check=True)
    program, *arguments = shlex.split(verb)
    assert program == "equipoise"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main([*arguments, "--json"]) == 0
    return json.loads(printed.getvalue())


def test_the_command_of_a_typed_game_can_be_pasted(place):
    bad = 'it\'s "50 %" $HOME \\n `id`'
    game = {**TYPED["general"], "actions": [[bad, "b"], ["c", "d"]]}
    found = _matrix.CALLS["solve"](place, {"game": game, "concept": "ce", "objective": [0, 1]})
    assert paste(found["command"])["status"]["name"] == "solved"
    read = eq.games.read("game.nfg")
    assert read.payoffs.tolist() == [[[3, 0], [0, 1]], [[1, 0], [0, 3]]]
    assert read.labels.actions[0][0] == bad
    assert found["file"] + "\n" == (place.folder.root / "game.nfg").read_text()
    every = _matrix.CALLS["equilibria"](place, {"game": game})
    assert every["command"].endswith("equipoise solve game.nfg --all")
    assert len(run(every["python"])["found"]) == every["count"] == 3


def test_without_a_verb_the_command_runs_the_lines(place):
    game = TYPED["zero-sum"]
    policy = [[1, 0], [0.5, 0.5]]
    found = _matrix.CALLS["certify"](place, {"game": game, "policy": policy})
    assert shlex.split(found["command"]) == ["python", "-c", found["python"]]
    np.testing.assert_allclose(run(found["python"])["certificate"].gains, found["gains"])
    asked = {"game": game, "row": "omd", "column": "regret-matching", "rounds": 64}
    watched = _duel.JOBS["watch"](place, asked, print)
    np.testing.assert_allclose(run(watched["python"])["trace"].curve[-1], watched["curve"][-1])
    city = {"game": {"name": "braess-network"}, "capacities": {"0": 2.0}}
    anarchy = _city.CALLS["anarchy"](place, city)
    found = run(anarchy["python"])["prices"].anarchy
    assert (found.lower, found.upper) == (anarchy["lower"], anarchy["upper"])


def test_files_are_named_as_a_terminal_finds_them(place, monkeypatch):
    eq.games.write(eq.games.load("matching-pennies"), place.folder.root / "my game.nfg")
    asked = {"game": {"file": "my game.nfg"}}
    assert _matrix.CALLS["solve"](place, asked)["command"] == "equipoise solve 'my game.nfg'"
    monkeypatch.chdir("/")
    found = _matrix.CALLS["solve"](place, asked)
    assert shlex.split(found["command"])[2] == str(place.folder.root / "my game.nfg")
    assert run(found["python"])["solution"].certificate.max_upper <= 1e-9


ODD = [None, True, -1, 1e30, 10**40, "x", [], ["x"], [[1]], [None, 1], {}, {"a": 1}]
ODD += [{"name": []}, {"file": 1}, {"cells": 5}, {"cells": [[5]], "actions": 5}]
ODD += [{"cells": [["1"]], "players": [1, 2]}, {"0": None}, {"-1": 1}, {"²": 1}]
PENNIES, BRAESS = {"name": "matching-pennies"}, {"name": "braess-network"}
ASKED = {
    (_matrix, "solve"): {"game": PENNIES, "concept": "ce", "objective": [1, 0]},
    (_matrix, "certify"): {"game": PENNIES, "policy": [[1, 0], [1, 0]]},
    (_matrix, "paths"): {"game": PENNIES, "learner": "omd", "rounds": 4, "seed": 0},
    (_duel, "play"): {"game": PENNIES, "player": "omd", "seat": "row", "seed": 0, "moves": [0]},
    (_duel, "watch"): {"game": PENNIES, "row": "omd", "column": "omd", "rounds": 4, "seed": 0},
    (_city, "solve"): {"game": BRAESS, "demand": 1, "tolls": {}, "capacities": {}},
    (_city, "toll_code"): {"game": BRAESS, "links": 1},
    (_city, "crowd"): {"name": "public-good", "parameters": {"agents": 9}},
    (_log, "open"): {"file": "x.csv", "columns": {}},
    (_log, "advice"): {"run": "x"},
    (_runs, "curves"): {"runs": ["x"]},
    (_runs, "resume"): {"run": "x"},
}


@pytest.mark.parametrize(("room", "name"), ASKED)
def test_odd_values_are_refused_or_answered(place, room, name):
    """Every answer can be sent, and every refusal is one of the user's input."""
    (place.folder.root / "x.csv").write_text("a,b\n1,2\n")
    refused = []
    job = name in room.JOBS
    ask = partial(room.JOBS[name], tell=lambda **told: None) if job else room.CALLS[name]
    for key in ASKED[room, name]:
        for value in ODD:
            try:
                dumps(ask(place, {**ASKED[room, name], key: value}), "answer")
            except ValueError as error:
                refused.append(str(error))
    assert len(refused) >= len(ODD) // 2
    assert all("expected" in told for told in refused)


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
    seconds = []
    for demand in (1.12, 1.14, 1.16):
        begun = time.process_time()
        assert _city.CALLS["solve"](place, {**asked, "demand": demand})["solved"]
        seconds.append(time.process_time() - begun)
    assert min(seconds) < 0.1


def test_a_network_of_files_without_a_map_is_drawn(place):
    (place.folder.root / "net.tntp").write_text(
        "<FIRST THRU NODE> 1\n<END OF METADATA>\n~ init term ;\n"
        "1 2 25 6 6 0.15 4 0 0 1 ;\n2 3 50 9 8 0.15 4 0 0 1 ;\n1 3 9 9 9 0.15 4 0 0 1 ;\n"
    )
    (place.folder.root / "trips.tntp").write_text("<END OF METADATA>\nOrigin 1\n  3 : 40.5;\n")
    game = {"file": "net.tntp", "trips": "trips.tntp"}
    opened = _city.CALLS["open"](place, {"game": game})
    used = opened["positions"][1:]
    assert len(np.unique(used.round(6), axis=0)) == 3
    found = _city.CALLS["solve"](place, {"game": game})
    np.testing.assert_allclose(found["flows"], run(found["python"])["solution"].policy.total)
    assert found["command"].startswith("equipoise solve net.tntp trips.tntp")
    with pytest.raises(ValueError, match="trips: expected a second"):
        _city.CALLS["open"](place, {"game": {"file": "net.tntp"}})


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


def test_every_opponent_can_be_played(place):
    found = _duel.CALLS["catalogue"](place, {})
    opponents = [name for name, _ in found["opponents"] if name != "any"]
    assert {"omd", "exp3-ix", "uniform"} <= set(opponents)
    assert len(opponents) < len(found["players"]) - 1
    for name in opponents:
        asked = {"game": {"name": "matching-pennies"}, "player": name, "moves": [0, 1]}
        assert len(_duel.CALLS["play"](place, asked)["turns"]) == 2


@pytest.mark.slow
def test_the_player_meets_learners_round_by_round(place):
    told = []
    asked = {"game": TYPED["zero-sum"], "row": "any", "column": "regret-matching", "rounds": 32}
    with jax.numpy_rank_promotion("allow"):  # networks broadcast
        watched = _duel.JOBS["watch"](place, asked, lambda **one: told.append(one["text"]))
        names = run(watched["python"])
    assert told == ["round 16 of 32", "round 32 of 32"]
    held = names["row"].policy, names["column"].policy
    assert watched["curve"][-1] == eq.certify(names["game"], held).nash_conv
    assert watched["rounds"][-1] == 32


def test_duels_of_other_games_with_the_same_numbers_stay_apart(place):
    cells = [["1", "-1", "2"], ["-1", "1", "0"]]
    across = {"cells": [["1", "-1"], ["2", "-1"], ["1", "0"]]}
    named = {"cells": cells, "actions": [["a", "b"], ["c", "d", "e"]]}
    for game, yours in (({"cells": cells}, 2), (across, 3), (named, 2)):
        found = _duel.CALLS["play"](place, {"game": game, "player": "omd", "moves": [1]})
        assert len(found["yours"]) == yours
    assert found["yours"] == ["a", "b"]


def test_numbers_become_actions_by_bins(place):
    rows = [
        f"{t},{who},{(7 * t + 3 * k) % 20},{t % 3}" for t in range(60) for k, who in enumerate("ab")
    ]
    (place.folder.root / "x.csv").write_text("\n".join(["t,who,price,won", *rows]) + "\n")
    columns = {"agent": "who", "time": "t", "action": "price", "reward": "won"}
    found = _log.CALLS["open"](place, {"file": "x.csv", "columns": columns})
    assert "pass bins" in found["problem"]
    found = _log.CALLS["open"](place, {"file": "x.csv", "columns": {**columns, "bins": 3}})
    assert found["log"]["actions"] == [3, 3]
    assert found["command"].endswith("--reward won --bins 3")
    assert "bins=3)" in found["python"]


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
            ["solve", "x.nfg", "--run", "b5", "--tyro-write-completion", "bash", "/tmp/x"],
            ["offline", "*.parquet", "--run", "b6", "--on=ray", "--address=elsewhere:1"],
            ["studio"],
        )
    ):
        with pytest.raises(ValueError, match="run its command again"):
            _runs._command(session(tmp_path / f"b{k}", *words))
    other = session(tmp_path / "c", "play", "--run", "c")
    other.sessions[0]["command"] = ["rm", "play", "--run", "c"]
    with pytest.raises(ValueError, match="run its command again"):
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


def test_a_log_with_an_endless_header_is_explained(place):
    (place.folder.root / "x.csv").write_text("x" * 200_000)
    found = _log.CALLS["open"](place, {"file": "x.csv"})
    assert "x.csv: expected a header with names of columns" in found["problem"]


def test_a_log_that_is_refused_is_explained(place):
    """The command ends with a record, and the page shows why it contains no advice."""
    rows = "".join(f"{t},{who},0,1\n" for t in range(50) for who in "xy")
    (place.folder.root / "x.csv").write_text("t,who,a,r\n" + rows)
    words = shlex.split("offline x.csv --agent who --time t --action a --reward r --run runs/one")
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(words) == 1
    found = _log.CALLS["advice"](place, {"run": "runs/one"})
    assert "every agent plays a single action" in found["status"]
    assert not found["learned"]
    assert found["agents"] == ["x", "y"]
    dumps(found, "answer")


def test_a_damaged_table_is_explained(place):
    (place.folder.root / "x.parquet").write_bytes(b"PAR1 and nothing else")
    found = _log.CALLS["open"](place, {"file": "x.parquet"})
    assert "x.parquet" in found["problem"]
    assert found["log"] is None


@pytest.mark.parametrize(
    ("names", "moves"), [(["heads", "tails"], "heads tails"), (["q", "Q"], "1 2")]
)
def test_the_command_of_a_duel_repeats_its_moves(place, names, moves):
    given = {"cells": [["1", "-1"], ["-1", "1"]], "actions": [names, ["l", "r"]]}
    played = _duel._Played(_games.game_of(place, given), "omd", "row", 3)
    played.play(0)
    played.play(1)
    found = _duel._code(place, played.own, given, played, "any", "row", 3)["command"]
    *_, last = found.split(" &&\n")
    line = "equipoise duel any game.nfg --seat row --seed 3 --rounds 2"
    assert last == f"printf '%s\\n' {moves} | {line}"
