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
    arguments += ["--iterations", "100"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert out.split()[0] == "advice"
    assert " ".join(out.split()).index("no agent gains") < " ".join(out.split()).index("structure")
    assert "strongest interactions" in out
    assert str(tmp_path / "run" / "report.html") in "".join(out.split())
    solution = Record.load(tmp_path / "run").solution
    stats = solution["stats"]
    assert stats["rank"] == 2
    mixture = eq.games.policy_from_plain(solution["policy"])
    before = eq.certify(game, game.uniform_policy()).max_gain
    low, high = stats["interval"]
    assert low <= eq.certify(game, mixture).max_gain <= min(high, before / 2)
    assert stats["strength_total"].shape == (4, 4)
    assert f"[0, {high:.4g}] (90%);" in " ".join(out.split())  # without its rounding error
    assert "Nash: players choose independently" in out
    # What is exact in the model is an estimate of the game.
    assert f"{stats['gap']['gap']:.4g} in the fitted model" in " ".join(out.split())
    assert solution["certificate"]["concept"] == "nash"
    assert len(mixture) == 1
    assert solution["certificate"]["method"].endswith("in the fitted model")
    assert np.isinf(solution["certificate"]["upper"]).all()
    rows = (tmp_path / "run" / "policy.csv").read_text().splitlines()
    assert rows[0] == "agent,context,step,state,action,probability"
    chances = np.array([float(row.split(",")[-1]) for row in rows[1:]]).reshape(4, 2)
    np.testing.assert_allclose(chances, mixture.policies[0, 0], atol=1e-6)
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    page = (tmp_path / "run" / "report.html").read_text()
    assert (
        page.index("Recommended actions")
        < page.index("no agent gains more")
        < page.index("Structure:")
    )
    assert "Interactions between agents" in page
    assert "with 95% intervals" in page
    # Given again, it is read and not done again.
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["read_from_disk"] is True
    assert document["report"] == str(tmp_path / "run" / "report.html")
    assert json.loads((tmp_path / "run" / "environment.json").read_text()) == environment
    assert len(document["tables"]["agents"]) == document["stats"]["agents"] == 4


def test_a_long_table_of_words_becomes_advice_in_words(tmp_path, capsys):
    game = eq.games.families.polymatrix(3, 2, scale=0.3).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=400, key=1)
    lines = ["week,shop,price,profit,season,note"]
    for week, (actions, rewards) in enumerate(zip(log.actions, log.rewards, strict=True)):
        season = ("dry", "wet")[week % 2]
        for i in np.random.default_rng(week).permutation(3):
            shop, price = ("Ann", "Bob", "Cyd")[i], ("low", "high")[actions[i]]
            price, profit = ("", "") if (week, i) == (7, 1) else (price, f"{rewards[i]:.4f}")
            lines.append(f"{week},{shop},{price},{profit},{season},x")
    (tmp_path / "sales.csv").write_text("\n".join(lines) + "\n")
    words = [str(tmp_path / "sales.csv"), "--agent", "shop", "--time", "week", "--action", "price"]
    words += ["--reward", "profit"]
    run = tmp_path / "run"
    assert main(["offline", *words, "--iterations", "50", "--run", str(run)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Ann" in out
    assert "absent; unused columns: season, note" in out
    table = (run / "policy.csv").read_text()
    assert "Bob,0,0,present,low," in table
    assert "absent" not in table
    page = str(tmp_path / "page.html")
    assert main(["discover", *words, "--context", "season", "--report", page]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "pairs" in out
    assert "chosen" in out
    assert "variance explained by each class of rewards" in (tmp_path / "page.html").read_text()
    assert main(["discover", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["structure"]["chosen"] == 2
    assert main(["offline", words[0], "--agent", "shop"]) == 2
    assert "--time: expected the name of a column" in capsys.readouterr().err
    assert main(["offline", *words, "--context", "weather"]) == 2
    assert "--context: expected one of the columns week" in capsys.readouterr().err


def test_another_log_of_the_same_name_is_not_taken_for_the_first(logs, tmp_path, capsys):
    game, _ = logs
    path = tmp_path / "bids.npz"
    arguments = ["offline", str(path), "--run", str(tmp_path / "run"), "--rank", "1"]
    arguments += ["--iterations", "10"]
    for key in (1, 2):
        eq.offline.collect(game, "uniform", samples=100, key=key).write(path)
        assert main(arguments) == key
    assert "found other values of: fingerprint" in capsys.readouterr().err


def test_too_little_data_is_the_exit_code(logs, tmp_path, capsys):
    _, folder = logs
    arguments = ["offline", str(folder / "few.npz"), "--rank", "2"]
    with pytest.warns(UserWarning, match="unknown for"):
        assert main([*arguments, "--run", str(tmp_path / "run")]) == 1
    assert "is the log's own play, not advice" in " ".join(capsys.readouterr().out.split())
    assert len(Record.load(tmp_path / "run").solution["policy"]["policies"]) == 1


@pytest.mark.parametrize("rank", ["auto", "1"])
def test_noise_is_the_exit_code(rank, tmp_path, capsys):
    rng = np.random.default_rng(0)
    log = eq.offline.Log(None, rng.integers(0, 2, (400, 3)), rng.normal(size=(400, 3)))
    log.write(tmp_path / "noise.npz")
    arguments = ["offline", str(tmp_path / "noise.npz"), "--rank", rank]
    assert main([*arguments, "--run", str(tmp_path / "run")]) == 1
    assert "nothing learned: " in " ".join(capsys.readouterr().out.split())
    solution = Record.load(tmp_path / "run").solution
    assert solution["status"]["name"] == "nothing learned"
    assert len(solution["policy"]["policies"]) == 1


def test_agents_with_a_single_action_are_named_and_if_all_are_so_refused(tmp_path, capsys):
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, (200, 3))
    actions[:, 1] = 1
    rewards = actions + rng.normal(size=(200, 3))
    path = tmp_path / "log.npz"
    arguments = ["offline", str(path), "--rank", "1", "--iterations", "5"]
    eq.offline.Log(None, actions, rewards).write(path)
    with pytest.warns(UserWarning, match="single action|unknown for") as caught:
        assert main([*arguments, "--run", str(tmp_path / "some")]) == 1
    said = [str(warning.message) for warning in caught]
    assert said[0].startswith("agent 1 plays a single action")
    unknown = "gains are unknown for 1 deviation that the log shows fewer than 10 times: 1: 0"
    assert said[1] == unknown
    out = " ".join(capsys.readouterr().out.split())
    assert "agents with a single action" in out
    assert "refused: the log never shows some actions (1: 0)" in out
    actions[:] = 0
    eq.offline.Log(None, actions, rewards, actions_per_agent=2).write(path)
    assert main([*arguments, "--run", str(tmp_path / "all")]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "refused: every agent plays a single action throughout this log" in out


def test_a_discrete_log_needs_no_critic(logs, tmp_path, capsys):
    _, folder = logs
    arguments = ["offline", str(folder / "bids.npz"), "--critic", "linear"]
    assert main([*arguments, "--run", str(tmp_path / "run")]) == 2
    assert "declared as discrete" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("samples", "reason"),
    [(8, "refused: 8 different rows are too few"), (30, "hardly less than a constant")],
)
def test_too_little_data_to_tell_the_rank_is_the_exit_code(samples, reason, tmp_path, capsys):
    game = eq.games.families.polymatrix(4, 3).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=samples, key=1)
    log.write(tmp_path / "few.npz")
    arguments = ["offline", str(tmp_path / "few.npz")]
    with pytest.warns(UserWarning, match="unknown for"):
        assert main([*arguments, "--run", str(tmp_path / "run")]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert reason in shown
    assert "reward of" not in shown  # no table without rows
    assert "reward of" not in (tmp_path / "run" / "report.html").read_text()
    solution = Record.load(tmp_path / "run").solution
    assert len(solution["policy"]["policies"]) == 1
    assert solution["status"]["name"] != "learned"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.npz"], "No such file"),
        (
            ["none.txt"],
            "LOG: expected a name that ends in .csv or .parquet or .npz, found none.txt",
        ),
        (["none.npz", "--rank", "two"], "--rank: expected auto"),
        (["none.npz", "--neighbours", "few"], "--neighbours: expected"),
        (["none.npz", "--bins", "few"], "--bins: expected"),
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
    assert "rank: expected at most 4, the number of agents" in capsys.readouterr().err


def test_rewards_without_noise_have_no_intervals(tmp_path, capsys):
    """Three bidders, a parameter for every joint bid: nothing is left to tell noise by."""
    rng = np.random.default_rng(0)
    bids = rng.integers(0, 4, (4000, 3))
    won = (bids == bids.max(1, keepdims=True)) * (4 - bids) / 4
    eq.offline.Log(rng.integers(0, 2, 4000), bids, won).write(tmp_path / "bids.npz")
    arguments = ["offline", str(tmp_path / "bids.npz"), "--run", str(tmp_path / "run")]
    assert main([*arguments, "--iterations", "20", "--rank", "3"]) == 0
    stats = Record.load(tmp_path / "run").solution["stats"]
    assert stats["rank"] == 3
    assert all(
        one["strength"] > 0 and one["lower"] is one["upper"] is None
        for one in stats["interactions"]
    )
    page = (tmp_path / "run" / "report.html").read_text()
    assert "none is shown" in page
    assert "nan" not in capsys.readouterr().out


def test_maps_of_many_agents_are_cut_to_those_who_matter():
    from equipoise.report import page_of

    rng = np.random.default_rng(0)
    record = Record("x", {}, {}, {"strength_total": rng.random((60, 60))})
    assert "Only the 40 agents with the strongest interactions" in page_of(record).html()


def test_agents_are_called_by_the_names_in_the_log(capsys, tmp_path):
    game = eq.games.families.polymatrix(agents=3, actions=2).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=500, key=1)
    names = {"players": ["Ann", "Bob", "Cyd"]}
    named = eq.offline.Log(log.contexts, log.actions, log.rewards, labels=names)
    named.write(tmp_path / "log.npz")
    run = tmp_path / "run"
    words = ["offline", str(tmp_path / "log.npz"), "--rank", "2"]
    assert main([*words, "--run", str(run)]) == 0
    assert "Ann" in capsys.readouterr().out
    assert "Ann" in (run / "report.html").read_text(encoding="utf-8")
    record = eq.runs.Record.load(run)
    rows = eq.report.tables_of(record)["agents"].rows
    assert [row[0] for row in rows] == ["Ann", "Bob", "Cyd"]
    assert eq.read_policy(run / "policy.json") == eq.read_policy(run / "policy.json", game)


def test_the_play_of_a_refused_log_is_not_called_advice(tmp_path, capsys):
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 2, (600, 1))
    actions = (rng.random((600, 3)) < 0.25 + 0.5 * hidden).astype(int)
    log = eq.offline.Log(None, actions, actions + hidden + rng.normal(0, 0.2, (600, 3)))
    log.write(tmp_path / "log.npz")
    assert main(["offline", str(tmp_path / "log.npz"), "--run", str(tmp_path / "run")]) == 1
    out = capsys.readouterr().out.strip()
    assert out.startswith("the log's own play; this is not advice")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "what each agent did (this is not advice)" in page
    assert "should do" not in page
    assert ">Advice<" not in page
    # Neither is the file: a program that looks for advice finds none.
    files = {path.name for path in (tmp_path / "run").glob("*.csv")}
    assert files == {"own-play.csv"}
    assert not (tmp_path / "run" / "policy.json").exists()
    assert str(tmp_path / "run" / "own-play.csv") in "".join(out.split())
    head, row, *_ = (tmp_path / "run" / "own-play.csv").read_text().splitlines()
    assert head == "agent,context,step,state,action,frequency"
    assert float(row.split(",")[-1]) == pytest.approx((actions[:, 0] == 0).mean(), abs=1e-6)
    own = eq.read_policy(tmp_path / "run" / "own-play.json")
    assert own.policies[0, 0, 0, 1] == pytest.approx(actions[:, 0].mean())


def test_a_bound_of_zero_is_told_without_its_rounding(tmp_path, capsys):
    rng = np.random.default_rng(1)
    actions = rng.integers(0, 2, (400, 3))
    log = eq.offline.Log(None, actions, actions + rng.normal(0, 0.1, (400, 3)))
    log.write(tmp_path / "log.npz")
    assert main(["offline", str(tmp_path / "log.npz"), "--run", str(tmp_path / "run")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "with 95% confidence, no agent gains anything by deviating from the advice." in out
    assert "1 100%" in out
    assert "e-" not in out.split("status")[0]
    record = eq.runs.Record.load(tmp_path / "run")
    assert all(row[-1] == 0.0 for row in eq.report.tables_of(record)["advice"].rows)


def test_a_bound_that_is_unknown_is_not_told_as_zero(tmp_path, capsys):
    rng = np.random.default_rng(3)
    actions = rng.integers(0, 3, (20, 3))
    rewards = 0.5 * actions + rng.normal(1.0, 0.3, (20, 3))
    eq.offline.Log(None, actions, rewards).write(tmp_path / "log.npz")
    with pytest.warns(UserWarning, match="unknown for"):
        assert main(["offline", str(tmp_path / "log.npz"), "--run", str(tmp_path / "run")]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "largest gain unknown;" in out
    assert "largest gain, log's own play unknown" in out
    table = eq.report.tables_of(eq.runs.Record.load(tmp_path / "run"))["own play"]
    assert table.columns[-3:] == ("earned", "expected", "gains at most")
    for row, mean in zip(table.rows, rewards.mean(0), strict=True):
        assert row[-3] == pytest.approx(mean)
        assert row[-1] == "unknown"
