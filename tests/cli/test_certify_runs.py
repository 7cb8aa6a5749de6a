"""`equipoise certify` of games of interaction terms, and of what `equipoise offline` learned."""

import json

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main
from equipoise.offline import _discrete
from equipoise.runs import Record


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A game in a file, and the folder of a run on a log of it that ended in a mixture."""
    place = tmp_path_factory.mktemp("learned")
    game = eq.games.families.polymatrix(4, 2, scale=0.25).sample(key=0)
    eq.games.write(game, place / "game.npz")
    eq.offline.collect(game, "uniform", samples=600, key=1).write(place / "log.npz")
    command = ["offline", str(place / "log.npz"), "--rank", "2", "--iterations", "50"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_discrete, "products", lambda *given: iter(()))
        assert main([*command, "--run", str(place / "run")]) == 0
    record = Record.load(place / "run")
    return game, place, eq.games.policy_from_plain(record.solution["policy"])


def certified(capsys, *arguments):
    capsys.readouterr()
    assert main(["certify", *(str(a) for a in arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


@pytest.mark.parametrize("concept", [None, "cce", "ce"])
def test_a_run_is_certified_in_the_game_itself(learned, capsys, concept):
    game, place, mixture = learned
    more = [] if concept is None else ["--concept", concept]
    found = certified(capsys, place / "game.npz", place / "run", *more)
    expected = eq.certify(game, mixture, concept=concept or "auto")
    assert found["gains"] == expected.gains.tolist()
    assert found["concept"] == (concept or "cce")
    assert found["nash_conv"] is found["exploitability"] is None  # words about Nash equilibria
    assert found["exact"]


def test_people_are_told_the_concept_and_the_verdict(learned, capsys):
    _, place, _ = learned
    command = ["certify", str(place / "game.npz"), str(place / "run")]
    assert main([*command, "--tolerance", "1e-6"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    for expected in ("player 3", "coarse correlated", "missed: the proven bound"):
        assert expected in out


def test_files_hold_products_and_mixtures(learned, tmp_path, capsys):
    game, place, mixture = learned
    run = certified(capsys, place / "game.npz", place / "run")
    path = tmp_path / "mixture.json"
    parts = {"policies": mixture.policies.tolist(), "weights": mixture.weights.tolist()}
    path.write_text(json.dumps({"policy": parts}))
    assert certified(capsys, place / "game.npz", path)["gains"] == pytest.approx(run["gains"])
    path.write_text(json.dumps({"policy": game.uniform_policy().tolist()}))
    product = certified(capsys, place / "game.npz", path)
    assert product["gains"] == eq.certify(game, game.uniform_policy()).gains.tolist()


def test_games_of_one_payoff_table_have_mixtures_too(tmp_path, capsys):
    """Of two drivers at a crossing who take turns, nobody wants to leave; nor in a larger game."""
    path = tmp_path / "light.npz"
    turns = np.array([[[[0, 1], [1, 0]]], [[[1, 0], [0, 1]]]], float)
    np.savez(path, policies=turns)
    folder = tmp_path / "run"
    folder.mkdir()
    plain = {"version": 1, "policy": eq.Mixture(turns[:, 0]).to_plain()}
    Record("light", solution=plain).save(folder)
    found = certified(capsys, "chicken", folder, "--concept", "ce")
    assert max(found["gains"]) <= 1e-12
    uneven = np.zeros((1, 2, 16))
    uneven[..., 0, :8], uneven[..., 1, :] = 1 / 8, 1 / 16
    Record("uniform", solution=plain | {"policy": eq.Mixture(uneven).to_plain()}).save(folder)
    found = certified(capsys, "hide-and-seek", folder, "--set", "size=4")
    game = eq.games.load("hide-and-seek", size=4)
    assert game.actions == (8, 16)
    expected = eq.certify(game, [np.full(8, 1 / 8), np.full(16, 1 / 16)])
    assert found["gains"] == pytest.approx(expected.gains.tolist())


def test_what_does_not_fit_is_refused_in_a_line(learned, tmp_path, capsys):
    _, place, _ = learned
    larger = eq.games.families.polymatrix(5, 3).sample(key=0)
    eq.games.write(larger, tmp_path / "larger.npz")
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "other.npz").write_bytes((place / "game.npz").read_bytes())
    for arguments, message in (
        ([tmp_path / "larger.npz", place / "run"], "shape (1, 5, 3), (contexts, agents, actions)"),
        (["chicken", place / "run"], "expected"),
        (["big-match", place / "run"], "expected"),
        (["two-roads", place / "run"], "expected"),
        ([place / "game.npz", empty], "expected a finished run"),
        ([place / "game.npz", tmp_path / "other.npz"], "expected arrays policy_0, policy_1"),
        ([place / "game.npz", place / "run", "--concept", "nash"], 'expected "cce" or "ce"'),
        (["chicken", place / "policy.json", "--concept", "ce"], "No such file"),
    ):
        assert main(["certify", *map(str, arguments)]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
