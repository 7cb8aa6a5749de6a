"""`equipoise duel`: moves come through the standard input."""

import io
import json

import pytest

import equipoise as eq
from equipoise.cli import main
from equipoise.cli.duel import find_action

RPS = [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
NAMES = ("rock", "paper", "scissors")


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    path = tmp_path_factory.mktemp("games") / "rps.nfg"
    labels = {"players": ("you", "it"), "actions": (NAMES, NAMES)}
    eq.games.write(eq.MatrixGame(RPS, labels=labels), path)
    return str(path)


@pytest.fixture(scope="module")
def players(tmp_path_factory):
    """Small ones of any size, untrained."""
    folder, family = tmp_path_factory.mktemp("players"), eq.games.families.mixture(6, fewest=2)
    config = eq.incontext.Config(tokens="adaptive", rounds=8, layers=1, width=16, hidden=16)
    made = eq.incontext.initial_players(family, config, key=0)
    eq.incontext.save(made, folder, config, family, half=True)
    return str(folder)


@pytest.fixture
def duel(players, monkeypatch, capsys):
    def play(moves, *words):
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(moves) + "\n"))
        return main(["duel", players, *words]), *capsys.readouterr()

    return play


def test_a_duel_in_words(game, duel):
    moves = ["rock", "paper", "lizard", "3", "sc", "q", "rock"]
    code, out, _ = duel(moves, game)
    assert code == 0
    assert "Your actions: rock, paper, scissors" in out
    assert "expected one of rock, paper, scissors, or q to end" in out
    assert out.count(", opponent: ") == 4
    assert out.count("You: scissors, ") == 2
    assert "Total" in out
    assert "expected total of a best response" in out
    assert "your score" in out


def test_a_duel_as_data(game, duel):
    code, out, _ = duel(["rock"] * 9, game, "--json", "--rounds", "6", "--seat", "column")
    told = json.loads(out)
    assert code == 0
    assert told["rounds"] == len(told["turns"]) == 6
    assert told["value"] == pytest.approx(0.0, abs=1e-9)
    for turn in told["turns"]:  # the column player's rock earns what the row player loses
        assert turn["earned"] == -RPS[turn["theirs"]][turn["yours"]]
    assert told["score"] == sum(turn["earned"] for turn in told["turns"])
    against = [sum(-RPS[t["theirs"]][a] for t in told["turns"]) for a in range(3)]
    assert told["best_action_score"] == max(against)
    assert told["best_response"] >= 0.0  # nobody's policy holds a best response below the value


def test_games_that_nobody_can_duel_in_are_refused(duel):
    code, _, err = duel(["1"], "prisoners-dilemma")
    assert code == 2
    assert "GAME: expected one zero-sum game of two players, found a normal-form game" in err
    assert "Labels" not in err
    code, _, err = duel(["1"], "hide-and-seek", "--set", "size=4")
    assert code == 2
    assert "2 to 6 actions" in err


def test_a_missing_argument_is_named_with_what_it_may_be(capsys):
    for words, begins in {
        "duel any": "GAME: expected a file (.nfg, .npz, .csv or .toml), a name that",
        "duel": "PLAYERS: expected a run folder of `equipoise pretrain`, or the name of players",
        "sweep": "SWEEP: expected the .toml file with a verb and its settings, found none",
    }.items():
        assert main(words.split()) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"equipoise: error: {begins}")
        assert f"found none; see equipoise {words.split()[0]} --help\n" in err


def test_names_beginnings_and_numbers():
    assert [find_action(word, list(NAMES)) for word in ("Rock", "p", "3", "0", "")] == [
        0, 1, 2, None, None,
    ]  # fmt: skip
    assert find_action("1", ["0", "1"]) == 1
