"""Games, families, learners and simulators of the user's own code, given as MODULE:OBJECT."""

import json
import sys
from textwrap import dedent

import pytest

from equipoise.cli import main
from equipoise.cli._objects import LOADED
from equipoise.runs import Record

CODE = """
    import jax
    import numpy as np
    import jax.numpy as jnp
    import equipoise as eq
    from equipoise.dynamics import Learner, Nothing

    game = eq.MatrixGame([[0, 5, 1], [2, -3, 4]])
    family = eq.games.families.uniform(actions=4)
    number = 3

    class Narrow(eq.games.families.Draw):
        width: float

        def __call__(self, key, shape):
            return jax.random.uniform(key, shape) * self.width

    narrow = eq.games.families.Family("narrow", (2, 2), Narrow(0.1))

    def square(size=2):
        return eq.MatrixGame(np.eye(size))

    def needs(size):
        return square(size)

    def nothing():
        return None

    def crash():
        return {}["no such key"]

    def city(agents=20):
        return eq.games.load("demand-response", agents=agents, horizon=2)

    class First(Learner):
        sees = Nothing
        share: float = 0.75

        def init(self, spec):
            return jnp.full((spec.actions,), (1 - self.share) / (spec.actions - 1))

        def policy(self, state):
            return state.at[0].set(self.share)

        def update(self, state, feedback):
            return state

    class Roads:
        def __init__(self, drivers=50):
            self.drivers, self.rng = drivers, np.random.default_rng(0)
            self.spec = eq.aggregative.Spec(
                influence=[[[1.0], [0.0]]], counts=[drivers], horizon=2, states=2,
                lipschitz=0.6, transition_lipschitz=0.5, starts=[0],
            )

        def reset(self):
            self.rain = 0
            return self.rain

        def step(self, actions):
            x = np.mean(actions == 0)
            times = np.where(actions == 0, 0.1 + 0.6 * x, 0.4) + 0.2 * self.rain
            self.rain = int(self.rng.random() < 0.5 * x)
            return self.rain, -times
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory with mine.py; what the command line changes is restored."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    (tmp_path / "mine.py").write_text(dedent(CODE))
    yield tmp_path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and file.startswith(str(tmp_path)):
            del sys.modules[name]
    LOADED.difference_update({file for file in LOADED if tmp_path in file.parents})


def refused(capsys, *arguments):
    code = main(list(arguments))
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1), (out, err)
    return err


def test_a_game_in_a_file_or_a_module(place, capsys):
    assert main(["solve", "mine.py:game", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(1.0)
    assert main(["solve", "mine:square", "--set", "size=4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(0.25)
    assert main(["games", "mine.py:game", "--write", "mine.npz"]) == 0
    assert main(["solve", "mine.npz", "--out", "policy.json"]) == 0
    assert main(["certify", "mine.py:game", "policy.json", "--tolerance", "1e-6"]) == 0
    assert main(["games", "mine:game"]) == 0
    assert "zero-sum matrix game, 2 x 3" in capsys.readouterr().out


def test_a_module_in_a_package_and_a_file_of_a_used_name(place, capsys):
    (place / "pack").mkdir()
    (place / "pack" / "__init__.py").touch()
    (place / "pack" / "games.py").write_text(dedent(CODE))
    (place / "json.py").write_text("import mine\ngame = mine.game\n")
    for name in ("pack.games:game", "pack/games.py:game", "json.py:game"):
        assert main(["solve", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mine.py:gme", "GAME: expected an object of mine.py, found 'gme'; did you mean game?"),
        (
            "mine.py:zzz",
            "GAME: expected an object of mine.py, found 'zzz'; there are Narrow, square, needs",
        ),
        ("mine.py:number", "found mine.py:number, of type int"),
        ("mine.py:nothing", "GAME: expected a game, found mine.py:nothing, which returns None"),
        ("mine.py:family", "found mine.py:family, of type Family"),
        ("mine.py:needs", "found mine.py:needs, which needs size"),
        (
            "mime.py:game",
            "GAME: expected a Python file, found no file mime.py; did you mean mine.py?",
        ),
        ("mime:game", "found no module 'mime' for 'mime:game'; did you mean mine?"),
        ("mine.sub:game", "GAME: expected a module on Python's path, found no module"),
        ("mine.py:crash", "mine.py, line 30: KeyError: 'no such key'; --traceback shows the calls"),
    ],
)
def test_wrong_names_are_told_in_one_line(place, capsys, name, told):
    assert told in refused(capsys, "solve", name)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import nothing_of_the_kind\n", "found ModuleNotFoundError: No module named 'nothing_of"),
        ("game = (\n", "found SyntaxError: '(' was never closed (bad.py, line 1)"),
        ("x = 1\ny = x / 0\n", "found ZeroDivisionError: division by zero (bad.py, line 2)"),
        ("import equipoise as eq\ngame = eq.MatrixGame([[1, float('nan')]])\n", "finite numbers"),
    ],
)
def test_code_that_fails_is_told_in_one_line(place, capsys, code, told):
    (place / "bad.py").write_text(code)
    for name in ("bad.py:game", "bad:game"):
        error = refused(capsys, "solve", name)
        assert told in error
        assert error.startswith("equipoise: error: GAME: expected code that can be imported from")


def test_settings_of_functions(place, capsys):
    error = refused(capsys, "solve", "mine:square", "--set", "sze=4")
    assert "--set: expected parameters of mine:square, found 'sze'; did you mean size?" in error
    error = refused(capsys, "solve", "mine:game", "--set", "size=4")
    assert "--set: expected a function that returns a game" in error
    error = refused(capsys, "solve", "mine:square", "trips.tntp")
    assert "TRIPS: expected no trips with mine:square" in error


def test_a_run_of_changed_code_is_another_run(place, capsys):
    command = ["solve", "mine.py:game", "--run", "runs/mine"]
    assert main(command) == 0
    assert main(command) == 0
    assert "finished earlier" in capsys.readouterr().out
    (place / "mine.py").write_text(dedent(CODE) + "\nchanged = True\n")
    assert "game_sha256" in refused(capsys, *command)


def test_learners_and_families_play(place, capsys):
    small = ["play", "--rounds", "120", "--games", "3"]
    own = [*small, "--row", "mine.py:First", "--column", "omd", "--family", "mine.py:family"]
    assert main([*own, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["config"]["row"] == "mine.py:First"
    assert document["config"]["actions"] == [4, 4]
    assert set(document["config"]["fingerprints"]) == {"row", "games"}
    assert len(document["policy"]["strategies"]) == 2
    assert main([*own, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["read_from_disk"]


def test_runs_of_a_changed_learner_are_played_again(place, capsys):
    own = ["play", "--rounds", "20", "--games", "2", "--row", "mine.py:First", "--json"]
    assert main(own) == 0
    assert not json.loads(capsys.readouterr().out)["read_from_disk"]
    (place / "mine.py").write_text(dedent(CODE).replace("share)", "share + 0)"))
    assert main(own) == 0
    document = json.loads(capsys.readouterr().out)
    assert not document["read_from_disk"]
    assert document["folder"] == "runs/play-2"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--row", "mine.py:number"], "--row: expected a learner or a pair of them, or a function"),
        (
            ["--row", "mine.py:first"],
            "--row: expected an object of mine.py, found 'first'; did you",
        ),
        (["--family", "mine.py:game"], "--family: expected a family, or a function that returns"),
        (["--family", "mine.py:family", "--actions", "3"], "--actions: expected no value with"),
        (["--family", "mine.py:family", "--scale", "3"], "--scale: expected no value with mine"),
        (["--game", "mine.py:city"], "--game: expected a zero-sum matrix game or Markov game"),
        (["--set", "size=3"], "--set: expected this option only with --game or MODULE:OBJECT"),
    ],
)
def test_wrong_options_of_play(place, capsys, arguments, told):
    assert told in refused(capsys, "play", *arguments)


def test_a_network_built_by_hand_plays(place, capsys):
    code = "network = eq.incontext.construct.omd(actions=2, rounds=4)\n"
    (place / "built.py").write_text("import equipoise as eq\n\n" + code)
    (place / "pennies.csv").write_text("1,-1\n-1,1\n")
    match = ["--game", "pennies.csv", "--rounds", "4", "--games", "1", "--json"]
    last = []
    for learner in ("built.py:network", "omd-vanishing"):
        assert main(["play", "--row", learner, "--column", "omd-vanishing", *match]) == 0
        last.append(json.loads(capsys.readouterr().out)["curve"]["gap"][-1])
    assert last[0] == pytest.approx(last[1], abs=1e-4)


def test_known_rewards_need_a_function(place, capsys):
    told = refused(capsys, "learn", "mine.py:Roads", "--rewards", "known")
    assert "--rewards: expected 'unknown', found 'known'; the spec has no reward(h, s, x)" in told


def test_a_simulator_is_learnt_from(place, capsys):
    command = ["learn", "mine.py:Roads", "--set", "drivers=40", "--rewards", "unknown"]
    assert main([*command, "--episodes", "20", "--out", "policy.json", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["agents"]) == ("simulator", 40)
    certificate = document["certificate"]
    assert certificate["max_upper"] == document["learner"]["bound"] > certificate["max_gain"]
    assert "bounds from samples" in certificate["method"]
    record = Record.load(place / document["folder"])
    assert record.solution is not None
    assert record.config["env"]["code"]
    assert (place / "policy.json").exists()
    assert main([*command, "--episodes", "20"]) == 0
    out = capsys.readouterr().out
    assert "mine.py:Roads: simulator of 40 agents" in out
    assert "mean reward, exactly" not in out


def test_games_with_an_aggregate_are_learnt_and_solved(place, capsys):
    assert main(["learn", "mine.py:city", "--set", "agents=15", "--episodes", "3"]) in (0, 1)
    assert "mean reward, exactly" in capsys.readouterr().out
    assert "expected this option only with a simulator" in refused(
        capsys, "learn", "mine.py:city", "--spec", "mine.py:Roads"
    )
    assert "--spec: expected an equipoise.aggregative.Spec" in refused(
        capsys, "learn", "mine.py:Roads", "--spec", "mine.py:number"
    )
    assert "a simulator with reset() and step(actions)" in refused(
        capsys, "learn", "mine.py:number"
    )


def test_the_help_says_that_code_is_run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for words in (
        [],
        ["solve"],
        ["play"],
        ["evaluate"],
        ["learn"],
        ["certify"],
        ["design"],
        ["toll"],
    ):
        assert main([*words, "--help"]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert "MODULE:OBJECT" in told
        assert "code is run" in told or "runs the code" in told or "runs this code" in told


def test_families_to_train_on_are_checked(place, capsys):
    own = ["pretrain", "--family", "mine.py:family"]
    assert "--actions: expected no value with mine.py:family" in refused(
        capsys, *own, "--actions", "4"
    )
    assert "did you mean uniform?" in refused(capsys, "pretrain", "--family", "unifrm")
    assert "--family: expected a family" in refused(capsys, "pretrain", "--family", "mine.py:game")


def test_players_are_evaluated_on_a_family(place, capsys):
    sizes = "--rounds 4 --layers 1 --width 8 --hidden 8 --steps 4 --batch 2 --warmup 0 --held-out 2"
    train = ["pretrain", "--family", "mine.py:narrow", *sizes.split(), "--run", "runs/narrow"]
    assert main(train) == 0
    capsys.readouterr()
    command = ["evaluate", "runs/narrow", "--games", "2", "--search", "16", "--opponent-games", "2"]
    assert "pass it to evaluate_saved as `family` (--family MODULE" in refused(capsys, *command)
    own = [*command, "--family", "mine.py:narrow", "--run", "runs/evaluated", "--json"]
    assert main(own) == 0
    # No more than 0.1 can be gained in these games, by either player.
    assert 0.0 < json.loads(capsys.readouterr().out)["scalars"]["gap"] < 0.2
    for name, told in (
        ("mine.py:family", "--family: expected 2 x 2 actions, found 4 x 4 actions"),
        ("uniform", "--family: expected MODULE:OBJECT, such as"),
    ):
        assert told in refused(capsys, *command, "--family", name)
    kind = ["evaluate", "--family", "mine.py:family", "--kind", "binary"]
    assert "--kind: expected no value with mine.py:family" in refused(capsys, *kind)
    (place / "mine.py").write_text(dedent(CODE).replace("shape) *", "shape) ** 2 *"))
    del sys.modules["mine"]
    assert "drawn" in refused(capsys, *own)
