"""`equipoise solve --run`: what is kept, read again and refused, and what a report shows of it."""

import json
import re

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main
from equipoise.report import certificate_of, compare, read_runs
from equipoise.runs import Record


def solve(capsys, folder, *arguments, code=0):
    assert main(["solve", *arguments, "--run", str(folder), "--json"]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out, parse_constant=pytest.fail)


def alts_of(folder):
    html = compare(read_runs([folder])).html()
    return re.findall(r'aria-label="([^"]+)"', html.partition("<main>")[2]), html


@pytest.mark.parametrize(
    "game",
    [
        "rock-paper-scissors",
        "big-match",
        "public-good --set agents=90",
        "demand-response --set agents=30 --tolerance 1",
    ],
)
def test_what_is_kept_is_read_again(capsys, tmp_path, game):
    folder = tmp_path / "run"
    solved = solve(capsys, folder, *game.split())
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {"config.json", "record.json", "policy.json", "report.html"} <= set(written)
    again = solve(capsys, folder, *game.split())
    assert (solved.pop("read_from_disk"), again.pop("read_from_disk")) == (False, True)
    assert again == solved
    for name in ("record.json", "policy.json", "report.html"):
        assert (folder / name).read_bytes() == written[name]
    for policy in (folder, folder / "policy.json"):
        assert main(["certify", *game.split(), str(policy), "--json"]) == 0
        gain = json.loads(capsys.readouterr().out)["max_gain"]
        assert gain == solved["certificate"]["max_gain"]
    assert main(["solve", *game.split(), "--run", str(folder)]) == 0
    assert "finished earlier" in capsys.readouterr().out


def test_a_batch_is_kept_with_all_policies(capsys, tmp_path):
    games = eq.games.families.uniform(actions=3).sample(5, key=0)
    eq.games.write(games, tmp_path / "batch.npz")
    solved = solve(capsys, tmp_path / "run", str(tmp_path / "batch.npz"))
    again = solve(capsys, tmp_path / "run", str(tmp_path / "batch.npz"))
    assert again["policy"] == solved["policy"]
    assert np.shape(again["policy"]["strategies"]["1"]) == (5, 3)
    # Another file of that name is another game.
    eq.games.write(games[:4], tmp_path / "batch.npz")
    assert main(["solve", str(tmp_path / "batch.npz"), "--run", str(tmp_path / "run")]) == 2
    assert "game_sha256" in capsys.readouterr().err


def test_other_runs_and_folders_of_others_are_refused(capsys, tmp_path):
    solve(capsys, tmp_path / "run", "matching-pennies")
    assert main(["solve", "rock-paper-scissors", "--run", str(tmp_path / "run")]) == 2
    assert "matching-pennies" in capsys.readouterr().err
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "notes.txt").touch()
    assert main(["solve", "matching-pennies", "--run", str(tmp_path / "busy")]) == 2
    assert "--run: expected a new or empty folder" in capsys.readouterr().err


def test_the_report_shows_certificate_value_and_triangle(capsys, tmp_path):
    solve(capsys, tmp_path / "run", "rock-paper-scissors")
    alts, html = alts_of(tmp_path / "run")
    assert any("triangle of three actions: row at 0.333, 0.333, 0.333; column" in a for a in alts)
    for expected in (
        ">Nash<",
        "best pure response",
        ">rock-paper-scissors<",
        ">value",
    ):
        assert expected in html


def test_the_report_shows_the_map_with_the_one_that_was_chosen(capsys, tmp_path):
    best = ["--option", "objective=welfare"]
    solve(capsys, tmp_path / "run", "public-good", "--set", "agents=900", *best)
    alts, html = alts_of(tmp_path / "run")
    expected = "map of 2 equilibria over the aggregate; the best for society is at 1, the chosen"
    assert any(f"{expected} one at 1" in alt for alt in alts)
    assert ">public-good, agents=900<" in html
    record = Record.load(tmp_path / "run")
    assert record.arrays["map/chosen_welfare"] == pytest.approx(0.6)
    assert certificate_of(record).concept == "nash"
