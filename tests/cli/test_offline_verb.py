"""`equipoise offline`: from a log to a run folder with policies, map and report."""

import json

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main
from equipoise.runs import Record


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    game = eq.games.families.polymatrix(4, 2, scale=0.25).sample(key=0)
    eq.offline.collect(game, "uniform", samples=1500, key=1).write(folder / "bids.npz")
    eq.offline.collect(game, "uniform", samples=8, key=1).write(folder / "few.npz")
    return game, folder


def test_a_run_folder_with_policies_map_and_report(logs, tmp_path, capsys):
    game, folder = logs
    arguments = ["offline", str(folder / "bids.npz"), "--run", str(tmp_path / "run")]
    arguments += ["--bootstrap", "3", "--iterations", "100"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "who matters most to whom" in out
    assert str(tmp_path / "run" / "report.html") in "".join(out.split())
    record = Record.load(tmp_path / "run")
    assert record.scalars["rank"] == 2
    mixture = eq.games.Mixture(record.arrays["policies"], record.arrays["weights"])
    before = eq.certify(game, game.uniform_policy()).max_gain
    assert eq.certify(game, mixture).max_gain < before / 2
    assert record.arrays["strength"].shape == (4, 4)
    low, high = (record.scalars[f"gap over resampled logs, {end}"] for end in ("lower", "upper"))
    assert low <= high
    assert f"[{low:.4g}, {high:.4g}] range of 3 resampled logs;" in " ".join(out.split())
    assert record.scalars["gap over resampled logs, level"] is None
    assert "coarse correlated: whoever leaves" in out
    # What is exact in the model is an estimate of the game.
    assert f"{record.scalars['gap in the fitted model']:.4g} in the fitted model" in out
    assert record.scalars["exact"] is False
    assert record.scalars["concept"] == "cce"
    assert record.scalars["method"].endswith("in the fitted model")
    assert not {"estimated gap", "gap"} & set(record.scalars)
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["seconds"] >= record.scalars["seconds"]  # the work, not the writing
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Who matters to whom" in page
    assert "Interaction rank" in page
    assert page.index("range over 3 resampled logs") < page.index("gap in the fitted model")
    assert "90%" not in page
    assert "with 95% intervals" in page
    # Given again, it is read and not done again.
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["read_from_disk"] is True
    assert document["report"] == str(tmp_path / "run" / "report.html")
    assert json.loads((tmp_path / "run" / "environment.json").read_text()) == environment
    assert len(document["tables"]["agents"]) == document["scalars"]["agents"] == 4


def test_another_log_of_the_same_name_is_not_taken_for_the_first(logs, tmp_path, capsys):
    game, _ = logs
    path = tmp_path / "bids.npz"
    arguments = ["offline", str(path), "--run", str(tmp_path / "run"), "--rank", "1"]
    arguments += ["--bootstrap", "0", "--iterations", "10"]
    for key in (1, 2):
        eq.offline.collect(game, "uniform", samples=100, key=key).write(path)
        assert main(arguments) == (0 if key == 1 else 2)
    assert "found other values of: log_sha256" in capsys.readouterr().err


def test_too_little_data_is_the_exit_code(logs, tmp_path, capsys):
    _, folder = logs
    arguments = ["offline", str(folder / "few.npz"), "--rank", "2", "--bootstrap", "0"]
    assert main([*arguments, "--run", str(tmp_path / "run")]) == 1
    assert "behaviour policy" in " ".join(capsys.readouterr().out.split())
    assert len(Record.load(tmp_path / "run").arrays["policies"]) == 1


@pytest.mark.parametrize("rank", ["auto", "1"])
def test_noise_is_the_exit_code(rank, tmp_path, capsys):
    rng = np.random.default_rng(0)
    log = eq.offline.Log(None, rng.integers(0, 2, (400, 3)), rng.normal(size=(400, 3)))
    log.write(tmp_path / "noise.npz")
    arguments = ["offline", str(tmp_path / "noise.npz"), "--rank", rank, "--bootstrap", "0"]
    assert main([*arguments, "--run", str(tmp_path / "run")]) == 1
    assert "nothing learned: no rank predicts" in " ".join(capsys.readouterr().out.split())
    record = Record.load(tmp_path / "run")
    assert record.scalars["learned"] is False
    assert len(record.arrays["policies"]) == 1


def test_agents_with_a_single_action_are_named_and_if_all_are_so_refused(tmp_path, capsys):
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, (200, 3))
    actions[:, 1] = 1
    rewards = actions + rng.normal(size=(200, 3))
    path = tmp_path / "log.npz"
    arguments = ["offline", str(path), "--rank", "1", "--bootstrap", "0", "--iterations", "5"]
    eq.offline.Log(None, actions, rewards).write(path)
    with pytest.warns(UserWarning, match=r"agent 1 plays a single action.* `actions_per_agent`"):
        assert main([*arguments, "--run", str(tmp_path / "some")]) == 0
    assert "agents with a single action" in capsys.readouterr().out
    actions[:] = 0
    eq.offline.Log(None, actions, rewards, actions_per_agent=2).write(path)
    assert main([*arguments, "--run", str(tmp_path / "all")]) == 2
    assert "found a single action of every agent" in capsys.readouterr().err
    assert not (tmp_path / "all").exists()


def test_a_discrete_log_needs_no_critic(logs, tmp_path, capsys):
    _, folder = logs
    arguments = ["offline", str(folder / "bids.npz"), "--critic", "linear"]
    assert main([*arguments, "--run", str(tmp_path / "run")]) == 2
    assert "declared discrete; drop --critic" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("samples", [8, 30])
def test_too_little_data_to_tell_the_rank_is_the_exit_code(samples, tmp_path, capsys):
    game = eq.games.families.polymatrix(4, 3).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=samples, key=1)
    log.write(tmp_path / "few.npz")
    arguments = ["offline", str(tmp_path / "few.npz"), "--bootstrap", "0"]
    assert main([*arguments, "--run", str(tmp_path / "run")]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "hardly less than a constant" in shown
    assert "reward of" not in shown  # no table without rows
    assert "who matters to whom nobody to anybody else" in shown
    assert "reward of" not in (tmp_path / "run" / "report.html").read_text()
    record = Record.load(tmp_path / "run")
    assert len(record.arrays["policies"]) == 1
    assert record.scalars["learned"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.npz"], "No such file"),
        (["none.csv"], "LOG: expected a .parquet or .npz file, found none.csv"),
        (["none.npz", "--rank", "two"], "--rank: expected auto"),
        (["none.npz", "--rank", "0"], "whole number of at least 1, found '0'"),
        (["none.npz", "--neighbours", "few"], "--neighbours: expected"),
        (["none.npz", "--bootstrap", "-1"], "--bootstrap: expected"),
        (["none.npz", "--seed", "-1"], "--seed: expected"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(arguments, message, tmp_path, capsys):
    folder = tmp_path / "run"
    assert main(["offline", *arguments, "--run", str(folder)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not folder.exists()


def test_a_rank_beyond_the_agents_is_refused(logs, tmp_path, capsys):
    _, folder = logs
    arguments = ["offline", str(folder / "bids.npz"), "--rank", "9", "--run", str(tmp_path / "r")]
    assert main(arguments) == 2
    assert "rank: expected at most the 4 agents" in capsys.readouterr().err


def test_rewards_without_noise_have_no_intervals(tmp_path, capsys):
    """Three bidders, a parameter for every joint bid: nothing is left to tell noise by."""
    rng = np.random.default_rng(0)
    bids = rng.integers(0, 4, (1000, 3))
    won = (bids == bids.max(1, keepdims=True)) * (4 - bids) / 4
    eq.offline.Log(rng.integers(0, 2, 1000), bids, won).write(tmp_path / "bids.npz")
    arguments = ["offline", str(tmp_path / "bids.npz"), "--run", str(tmp_path / "run")]
    assert main([*arguments, "--bootstrap", "0", "--iterations", "20"]) == 0
    record = Record.load(tmp_path / "run")
    assert record.scalars["rank"] == 3
    assert all(
        row[2] > 0 and row[3] is row[4] is None for row in record.tables["interactions"].rows
    )
    page = (tmp_path / "run" / "report.html").read_text()
    assert "there is no interval" in page
    assert "95%" not in page
    assert "over resampled logs (" not in page
    assert "nan" not in capsys.readouterr().out


def test_a_log_of_continuous_actions_is_sent_on(tmp_path, capsys):
    game = eq.games.load("square-continuous", agents=2)
    eq.offline.collect(game, samples=50, key=0).write(tmp_path / "c.npz")
    assert main(["offline", str(tmp_path / "c.npz"), "--run", str(tmp_path / "r")]) == 2
    assert "give --critic 2-IR-64, or --critic linear" in capsys.readouterr().err


def test_maps_of_many_agents_are_cut_to_those_who_matter():
    from equipoise.report import page_of

    rng = np.random.default_rng(0)
    record = Record("x", {}, {}, {"strength_total": rng.random((60, 60))})
    assert "The 40 agents who matter most" in page_of(record).html()
