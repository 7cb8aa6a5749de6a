"""Games of continuous actions on the command line."""

import json

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main

GAME = ["pairwise-continuous", "--set", "agents=4"]


def test_a_list_of_actions_is_certified(capsys, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"policy": [1.0, 1.0, 1.0, -1.0]}))
    assert main(["certify", *GAME[:1], str(path), *GAME[1:], "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["gains"] == pytest.approx([0.0, 0.0, 0.0, 3.0])
    assert document["upper"] == pytest.approx(document["gains"])
    assert document["exact"]
    assert main(["certify", *GAME[:1], str(path), *GAME[1:], "--tolerance", "0.1"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "player 3" in out
    assert "missed: the proven bound on the gains, 3, is above 0.1" in out


def test_points_and_weights_are_certified(capsys, tmp_path):
    points = np.tile([-1.0, 1.0], (4, 1))
    path = tmp_path / "coins.npz"
    np.savez(path, points=points, weights=np.full((4, 2), 0.5))
    assert main(["certify", *GAME[:1], str(path), *GAME[1:], "--json"]) == 0
    archive = json.loads(capsys.readouterr().out)
    path = tmp_path / "coins.json"
    policy = {"points": points.tolist(), "weights": np.full((4, 2), 0.5).tolist()}
    path.write_text(json.dumps({"policy": policy}))
    assert main(["certify", *GAME[:1], str(path), *GAME[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == archive
    assert archive["gains"] == pytest.approx([0.0] * 4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"policy": 3}', "expected a list or an object"),
        ('{"policy": {"point": [1]}}', "found 'point'"),
        ('{"policy": [1, 2, 3, 4]}', "points: expected numbers from -1 to 1, found 2"),
        ('{"policy": [1, 1, 1]}', "policy.json: policy: expected shape (1, 4)"),
        ('{"policy": [[1, 1], [1]]}', "policy: expected a rectangular array of numbers"),
        ("nothing", "expected JSON"),
        ("[" * 100_000, "nested more than 64 deep"),
    ],
)
def test_wrong_policies_are_told(capsys, tmp_path, content, message):
    path = tmp_path / "policy.json"
    path.write_text(content)
    assert main(["certify", *GAME[:1], str(path), *GAME[1:]]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_it_is_solved(capsys):
    assert main(["solve", *GAME, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["policy"]["kind"] == "continuous"
    assert document["status"]["name"] == "solved"


def test_parameters_are_set_and_scenarios_read(capsys, tmp_path):
    assert main(["games", *GAME, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["agents"], document["rank"], document["noise"]) == (4, 2, 1.0)
    path = tmp_path / "game.toml"
    path.write_text('kind = "triple-continuous"\nagents = 9\nnoise = 0.5\n')
    assert eq.games.read(path).agents == 9
