"""`equipoise pretrain`: flags, the run folder, Ctrl-C, and wrong input."""

import dataclasses
import json
import os
import signal
import tomllib
from types import SimpleNamespace

import pytest

from equipoise.cli import main
from equipoise.cli._parsing import parse
from equipoise.cli.pretrain import BEST, Pretrain
from equipoise.games import families
from equipoise.incontext import Config, dataset, description, family_of, load
from equipoise.runs import Run

TINY = [
    *("--rounds", "4", "--layers", "1", "--width", "8", "--hidden", "8"),
    *("--batch", "2", "--play-ahead", "2", "--held-out", "4", "--warmup", "0"),
]


def test_ctrl_c_keeps_the_best_so_far_and_the_command_goes_on(capsys, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    command = ["pretrain", "--actions", "2", "--run", str(folder), *TINY]
    command += ["--steps", "400", "--evaluate-every", "10"]
    log = Run.log

    def press(run, step, **row):
        log(run, step, **row)
        if step == 20:  # the second evaluation
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(Run, "log", press)
        assert main(command) == 130
    out, err = capsys.readouterr()
    assert "held-out NashConv" in out
    assert "the best players so far are in" in err
    assert load(folder / BEST).actions == (2, 2)
    assert not (folder / "record.json").exists()
    assert main(command) == 0
    assert "equipoise evaluate" in capsys.readouterr().out
    assert load(folder).actions == (2, 2)
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["finished"], document["read_from_disk"]) == (True, True)
    assert document["config"]["layers"] == 1
    assert [row["step"] for row in document["metrics"]] == list(range(2, 401, 2))
    evaluated = [row["step"] for row in document["metrics"] if "gap" in row]
    assert evaluated == list(range(10, 401, 10))


def test_the_table_has_evaluations_alone_and_tells_the_unit_of_markov_gaps(capsys, tmp_path):
    rows = [{"step": 2, "loss": [0.7]}, {"step": 4, "loss": [0.6], "gap": [0.5]}]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "metrics.jsonl").write_text(text)
    for states in (None, 3):
        players = SimpleNamespace(states=states, parameters=10)
        Pretrain()._show(players, tmp_path, False, True)
        out = " ".join(capsys.readouterr().out.split())
        assert "0.6" in out
        assert "0.7" not in out
        assert ("mean over states, times 1 - discount" in out) == (states is not None)


@pytest.mark.parametrize("preset", ["default", "large"])
def test_the_help_names_every_setting_with_its_default(capsys, preset):
    assert main(["pretrain", "--preset", preset, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    config = Config() if preset == "default" else Config.large()
    for field in dataclasses.fields(Config):
        assert f"--{field.name.replace('_', '-')}" in shown
        value = getattr(config, field.name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            assert f"(default: {value})" in shown, field.name


@pytest.mark.parametrize("preset", ["default", "paper", "large"])
def test_the_printed_options_are_all_settings(preset, capsys, tmp_path):
    given = ["pretrain", "--preset", preset, "--width", "32"]
    assert main([*given, "--print-config"]) == 0
    printed = capsys.readouterr().out
    found = tomllib.loads(printed)
    assert {field.name.replace("_", "-") for field in dataclasses.fields(Config)} <= set(found)
    path = tmp_path / "a.toml"
    path.write_text(printed)
    same = parse("pretrain", ["--config", str(path)])
    assert same.training == parse("pretrain", given[1:]).training
    assert same.training.width == 32


def test_flags_change_the_preset():
    words = [
        "--preset",
        "paper",
        "--width",
        "32",
        "--training-games",
        "None",
        "--patience",
        "None",
        "--steps",
        "7",
    ]
    config = parse("pretrain", words).training
    assert (config.width, config.training_games, config.patience, config.steps) == (
        *(32, None),
        *(None, 7),
    )
    assert config.loss == "expert"


@pytest.mark.parametrize(
    ("arguments", "family"),
    [
        ({"actions": 2, "columns": 4}, ("uniform", (2, 4), None)),
        ({"family": "gaussian", "states": 2, "discount": 0.5}, ("gaussian", (3, 3), 2)),
        ({"family": "perturbed", "scale": 0.3}, ("perturbed", (3, 3), None)),
    ],
    ids=lambda part: "" if isinstance(part, tuple) else str(part),
)
def test_families_are_what_the_flags_say(arguments, family):
    made = Pretrain(**arguments)._family()
    assert (made.name, made.actions, made.states) == family
    if made.states:
        assert made.discount == 0.5


def test_rewards_of_a_base_are_scaled_if_asked_for(capsys, tmp_path):
    base = tmp_path / "base.csv"
    base.write_text("0,3\n2,-1\n")
    words = ["--family", "perturbed", "--base", str(base), "--run", str(tmp_path / "run"), *TINY]
    assert main(["pretrain", *words, "--steps", "2"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "--base: expected rewards in [0, 1], found [-1, 3]; --scale-rewards moves" in message
    assert main(["pretrain", *words, "--steps", "2", "--scale-rewards"]) == 0
    assert family_of(tmp_path / "run").reward_range == (-1.0, 3.0)


def test_games_of_a_folder_are_trained_on(capsys, tmp_path):
    folder, run = tmp_path / "games", tmp_path / "run"
    folder.mkdir()
    for i in range(4):
        (folder / f"{i}.csv").write_text(f"0,{i + 1}\n{i},2\n")
    command = ["pretrain", "--games", str(folder), "--run", str(run), *TINY, "--steps", "2"]
    assert main(command) == 0
    assert "equipoise evaluate" in capsys.readouterr().out
    assert description(run)["family"]["rewards"]["games"] == [3, 1]


def test_data_are_learned_from(capsys, tmp_path):
    config = Config.paper(rounds=4, expert="omd", batch=8)
    data = tmp_path / "data.npz"
    dataset(families.uniform(2), config, games=16, key=0).export(data)
    run = tmp_path / "run"
    command = ["pretrain", "--data", str(data), "--run", str(run), *TINY, "--steps", "2"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "held-out divergence" in out
    assert "equipoise evaluate" not in out
    found = description(run)["config"]
    assert (found["loss"], found["stop_on"], found["patience"]) == ("expert", "kl", 5)
    assert load(run).actions == (2, 2)
    assert main([*command[:4], str(tmp_path / "other"), *command[5:], "--family", "uniform"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "--data: expected labels for 3 actions, found labels for 2" in message


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--discount", "0.5"], "--discount: expected this option only with --states"),
        (["--scale", "0.5"], "--scale: expected this option only with --family"),
        (["--base", "pennies"], "--base: expected this option only with --family"),
        (["--layers", "0"], "layers: expected a whole number"),
        (["--width", "30"], "width: expected a multiple of heads"),
        (["--validation", "0.2"], "--validation: expected this option only with --data"),
        (["--scale-rewards"], "--scale-rewards: expected this option only with --base"),
        (["--games", "mine", "--family", "uniform"], "--games: expected a folder or --family"),
        (["--games", "mine", "--actions", "3"], "--actions: expected no value with --games"),
        (["--data", "mine", "--actions", "3"], "--actions: expected no value with --data"),
        (["--data", "mine"], "--data: expected a file or a folder, found nothing at mine"),
        (["--games", "mine"], "--games: expected a folder or a file with games, found nothing"),
        (["--columns", "2", "--shared", "True"], "shared: expected a symmetric family"),
        (["--seed", "-1"], "--seed: expected a number"),
    ],
)
def test_wrong_input_is_told_in_a_line(capsys, tmp_path, arguments, complaint):
    assert main(["pretrain", "--run", str(tmp_path / "run"), *arguments]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert complaint in message
    assert not (tmp_path / "run").exists()
