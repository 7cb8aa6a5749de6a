"""Where runs are kept: the folder that was named, or the next free one."""

import os

import pytest

from equipoise.cli import main
from equipoise.cli._inputs import check_folder, in_run_folder
from equipoise.core import InputError
from equipoise.runs import Run

PLAY = ["play", "--row", "omd", "--rounds", "50", "--games", "2"]


def start(config):
    return lambda folder: Run.start(folder, config).close()


def test_another_run_has_a_folder_of_its_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed in ("0", "1", "0"):
        assert main([*PLAY, "--seed", seed]) == 0
    shown = capsys.readouterr().out
    assert sorted(os.listdir("runs")) == ["play", "play-2"]
    assert "runs/play (finished earlier" in shown


def test_folders_of_others_are_passed_by(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "x").mkdir(parents=True)
    (tmp_path / "runs" / "x" / "notes.txt").touch()
    (tmp_path / "runs" / "x-2").touch()
    (tmp_path / "runs" / "x-4").mkdir()
    names = [str(in_run_folder(None, "x", start({"seed": i}))[0]) for i in (0, 1, 0)]
    assert names == ["runs/x-3", "runs/x-4", "runs/x-3"]
    with Run.open("runs/x-3"):  # somebody is writing it
        assert str(in_run_folder(None, "x", start({"seed": 0}))[0]) == "runs/x-5"


def test_a_folder_that_was_named_is_not_changed(tmp_path):
    folder = tmp_path / "run"
    assert in_run_folder(folder, "x", start({"seed": 0}))[0] == folder
    with pytest.raises(ValueError, match="seed"):
        in_run_folder(folder, "x", start({"seed": 1}))


@pytest.mark.parametrize("verb", ["play", "learn demand-response", "offline a.npz", "pretrain"])
def test_folders_that_are_refused_before_any_work(verb, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.npz").touch()
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "notes.txt").touch()
    for folder, message in (("busy", "other files in busy"), ("a.npz", "found the file a.npz")):
        assert main([*verb.split(), "--run", folder]) == 2
        err = capsys.readouterr().err
        assert f"--run: expected a {'new or empty ' * (folder == 'busy')}folder" in err
        assert message in err
        assert err.count("\n") == 1


def test_figures_are_not_put_among_other_files(tmp_path, capsys):
    command = ["reproduce", "aggregative", "--run", str(tmp_path)]
    for name in ("notes.txt", "config.json"):
        (tmp_path / name).touch()
        assert main(command) == 2
        err = capsys.readouterr().err
        assert "--run: expected a new or empty folder, or the folder of the same run" in err
        assert err.count("\n") == 1
        assert [path.name for path in tmp_path.iterdir()] == [name]
        (tmp_path / name).unlink()


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda place, how: False)
    with pytest.raises(InputError, match=f"permission to write, found {tmp_path}"):
        check_folder(tmp_path / "a" / "b")


def test_the_run_of_another_command_is_refused_in_few_words(tmp_path):
    folder = tmp_path / "run"
    in_run_folder(folder, "x", start({f"theirs {i}": i for i in range(30)}))
    with pytest.raises(ValueError, match=r"theirs 5 .5, now absent. and 25 more; choose another"):
        in_run_folder(folder, "x", start({"ours": 1}))
