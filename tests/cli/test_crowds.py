"""Very many agents on the command line: scenarios, options, policies, reports."""

import json
import subprocess
import sys

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main
from equipoise.runs import Progress


@pytest.fixture
def town(tmp_path):
    path = tmp_path / "town.toml"
    path.write_text('kind = "public-good"\nagents = 500\n')
    return path


def test_a_scenario_is_solved_and_its_policy_certified(capsys, tmp_path, town):
    for suffix in (".json", ".npz"):
        out = tmp_path / "new" / f"policy{suffix}"
        assert main(["solve", str(town), "--option", "objective=welfare", "--out", str(out)]) == 0
        shown = capsys.readouterr().out
        for expected in (
            "500 agents",
            "Who plays what",
            "this solution",
            "equilibrium 1",
            "solved",
        ):
            assert expected in shown
        assert main(["certify", str(town), str(out), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["max_gain"] < 1e-12
        assert document["class_counts"] == [500]
        assert main(["certify", str(town), str(out)]) == 0
        assert "largest, agent 0" in capsys.readouterr().out


def test_a_markov_scenario_has_a_report(capsys, tmp_path):
    report = tmp_path / "report.html"
    command = ["solve", "demand-response", "--set", "agents=300", "--set", "horizon=3"]
    assert main([*command, "--report", str(report), "--json"]) in (0, 1)
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert np.shape(document["stats"]["aggregate"]) == (3, 3, 1)
    game = eq.games.load("demand-response", agents=300, horizon=3)
    policy = eq.games.policy_from_plain(document["policy"])
    assert eq.certify(game, policy).max_gain == pytest.approx(document["certificate"]["max_gain"])
    page = report.read_text()
    for expected in (
        "Agents by type and action",
        "best for society",
        "Aggregate in each step",
        "300 agents",
    ):
        assert expected in page


def test_a_normal_form_has_a_report(capsys, tmp_path, town):
    report = tmp_path / "report.html"
    assert main(["solve", str(town), "--report", str(report)]) == 0
    page = report.read_text()
    assert "<svg" in page
    assert "equilibrium 1" in page
    assert "Every equilibrium lies in a feasible cell" in page


def test_the_exit_code_follows_the_tolerance(capsys, town):
    worst = ["--objective", "welfare", "--option", "sense=min", "--option", "slack=lemma"]
    command = ["solve", "cournot", "--set", "agents=50", *worst, "--tolerance"]
    assert main([*command, "1e-9"]) == 1
    assert "not solved: no agent gains more than" in capsys.readouterr().out
    assert main([*command, "0.1"]) == 0
    assert "solved: no agent gains more than" in capsys.readouterr().out


def test_the_worst_equilibrium_is_an_equilibrium(capsys):
    command = ["solve", "two-roads", "--set", "agents=300", "--objective", "welfare", "--json"]
    assert main([*command, "--option", "sense=min"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["certificate"]["max_gain"] < 1e-12
    assert document["objective"]["upper"] == pytest.approx(-0.4, rel=1e-3)


@pytest.mark.parametrize(
    ("game", "stages"),
    [(["two-roads", "--set", "agents=50"], 1), (["demand-response", "--set", "agents=20"], None)],
)
def test_the_progress_line_counts_stages(monkeypatch, capsys, game, stages):
    class Line(Progress):
        def advance(self, steps=1, **metrics):
            lines[-1] += steps
            shown.append(metrics.get("stage"))

    def begin(description, total):
        totals.append(total)
        lines.append(0)
        return Line(description, total, None)

    lines, totals, shown = [], [], []
    monkeypatch.setattr("equipoise.runs.progress", begin)
    main(["solve", *game])
    assert totals == [stages]
    if stages is None:  # whole passes over all stages, and nobody knows how many
        count = int(shown[-1].partition(" of ")[2])
        assert lines[0] >= count > 3
        assert lines[0] % count == 0
        assert shown[-1] == f"{count} of {count}"
    else:
        assert lines == totals


def test_the_social_optimum_is_no_equilibrium(capsys):
    assert main(["solve", "two-roads", "--set", "agents=300", "--concept", "optimum"]) == 0
    assert "the optimum found is -0.3875" in " ".join(capsys.readouterr().out.split())


def test_a_large_gain_is_within_the_bound_and_not_called_solved(capsys):
    worst = ["--objective", "welfare", "--option", "sense=min", "--json"]
    command = ["solve", "two-roads", "--set", "agents=1000", *worst, "--option", "slack=lemma"]
    assert main(command) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["status"]["name"] == "not solved"
    assert 0.02 < document["certificate"]["max_gain"] <= document["stats"]["bound"]
    assert main([*command, "--tolerance", "0.1"]) == 0
    assert json.loads(capsys.readouterr().out)["status"]["name"] == "solved"


def test_actions_of_every_agent_are_a_policy(capsys, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"policy": [0, 1, 1, 0]}))
    assert main(["certify", "two-roads", str(path), "--set", "agents=4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["max_gain"] < 1e-12


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("agents = 5", 'expected kind = "the name of a game", found nothing'),
        ('kind = "two-rods"', "did you mean two-roads"),
        ('kind = "two-roads"\nlanes = 3', "expected agents, motorway"),
        ('kind = "two-roads"\nagents = -3', "agents: expected a whole number"),
        ("kind = ", "expected TOML"),
    ],
)
def test_wrong_scenarios_are_refused_in_a_line(capsys, tmp_path, content, message):
    path = tmp_path / "town.toml"
    path.write_text(content)
    assert main(["solve", str(path)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_wrong_options_are_refused_in_a_line(capsys, tmp_path, town):
    for arguments, message in (
        (["--option", "goal=fun"], "found 'goal'; there are concept"),
        (["--option", "objective=fun"], "objective: expected one of"),
        (["--option", "spacing"], "--option: expected NAME=VALUE"),
    ):
        assert main(["solve", str(town), *arguments]) == 2
        assert message in capsys.readouterr().err
    assert main(["solve", "colonel-blotto", "--option", "spacing=1"]) == 2
    assert "--option: expected options of the solver of matrix games" in capsys.readouterr().err
    wrong = tmp_path / "policy.json"
    for content in ('{"policy": {"rows": [0]}}', "{", '{"policy": [0.5]}'):
        wrong.write_text(content)
        assert main(["certify", str(town), str(wrong)]) == 2
        assert "expected" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("game", "options", "message"),
    [
        (
            "el-farol",
            "sense=min",
            "--option sense: expected only with objective=welfare or egalitarian, found obj",
        ),
        ("el-farol", "objective=loss sense=max", "found objective=loss"),
        (
            "el-farol",
            "epsilon=0.1",
            "--option epsilon: expected only with objective=welfare or los",
        ),
        (
            "el-farol",
            "objective=welfare epsilon=0.1 slack=0.2",
            "and slack=lemma; found slack=0.2",
        ),
        ("el-farol", "key=3", "--option key: expected only with rounding=sample, found rounding=v"),
        ("demand-response", "method=state-wise", "--option method: expected only with objective="),
    ],
)
def test_options_without_effect_are_refused(capsys, game, options, message):
    words = [word for option in options.split() for word in ("--option", option)]
    assert main(["solve", game, "--set", "agents=20", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("options", ["sense=min objective=welfare", "rounding=sample key=3"])
def test_the_same_options_are_taken_where_they_have_an_effect(capsys, options):
    words = [word for option in options.split() for word in ("--option", option)]
    assert main(["solve", "el-farol", "--set", "agents=20", *words, "--json"]) in (0, 1)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verb", ["solve el-farol", "learn demand-response"])
def test_a_policy_in_no_known_format_is_refused_by_the_name_of_the_flag(capsys, verb):
    assert main([*verb.split(), "--out", "p.txt"]) == 2
    told = capsys.readouterr().err
    assert "--out: expected a name that ends in .json or .npz" in told
    assert "found p.txt" in told


#: Types of arguments are checked in tests, and not where the library is used: so, in a process.
WRONG = {
    "spacing=nan": "spacing: expected a number in (0.0, inf), found 'nan'",
    "spacing=inf": "spacing: expected a number in (0.0, inf), found 'inf'",
    "spacing=NaN": "spacing: expected a number in (0.0, inf), found 'NaN'",
    "spacing=[1]": "spacing: expected a number in (0.0, inf), found [1]",
    "spacing=true": "spacing: expected a number in (0.0, inf), found True",
    "spacing=1e-9": "spacing: expected at most 4,000,000 cells, found 1e-09",
    "spacing=5e-324": "spacing: expected at most 4,000,000 cells",
    "epsilon=nan": "epsilon: expected a number in [0.0, inf), found 'nan'",
    "slack=[1]": "slack: expected a number in [0.0, inf], found [1]",
    "key=abc": "key: expected a whole number >= 0, found 'abc'",
    "key=-1": "key: expected a whole number >= 0, found -1",
    'objective=["welfare"]': "objective: expected",
}
SCRIPT = """
import sys
from equipoise.cli import main
from equipoise.runs import Progress
game, *options = sys.argv[1:]
for option in options:
    for more in ([], ["--json"]):
        assert main(["solve", game, "--set", "agents=20", "--option", option, *more]) == 2
"""


@pytest.mark.parametrize("game", ["two-roads", "demand-response"])
def test_wrong_values_of_options_are_refused_in_a_line(game):
    command = [sys.executable, "-c", SCRIPT, game, *WRONG]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2 * len(WRONG)
    for message, told, as_json in zip(WRONG.values(), lines[::2], lines[1::2], strict=True):
        assert message in told
        assert message in json.loads(as_json)["error"]


def test_crowds_are_judged_by_the_proven_bound(capsys, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text('{"policy": [0, 0, 0, 0]}')
    command = ["certify", "two-roads", str(path), "--set", "agents=4"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["max_gain"] <= found["max_upper"] < found["nash_conv"]
    assert main([*command, "--tolerance", str(2 * found["max_gain"]), "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)["verdict"]
    assert (verdict["measure"], verdict["found"]) == ("max_upper", found["max_upper"])
    assert main([*command, "--tolerance", str(found["max_gain"] / 2)]) == 1
    assert "missed: the proven bound" in " ".join(capsys.readouterr().out.split())


def test_a_crowd_is_solved_and_mapped_once(capsys, monkeypatch, tmp_path):
    calls = []
    for name in ("solve_aggregative", "equilibria"):
        original = getattr(eq.aggregative._map, name)
        monkeypatch.setattr(
            f"equipoise.aggregative._map.{name}",
            lambda *a, o=original, n=name, **k: (calls.append(n), o(*a, **k))[1],
        )
    command = ["solve", "public-good", "--set", "agents=90", "--run", str(tmp_path / "run")]
    assert main(command) == 0
    assert calls == ["solve_aggregative", "equilibria"]
    assert main(command) == 0
    assert len(calls) == 2


class TestDesign:
    def test_charges_are_chosen_and_drawn(self, tmp_path, capsys):
        page = tmp_path / "design.html"
        words = ["design", "two-roads", "--set", "agents=200", "--charge", "motorway=[0,0.4]"]
        assert main([*words, "--rounds", "2", "--json", "--report", str(page)]) == 0
        found = json.loads(capsys.readouterr().out)
        town = eq.games.load("two-roads", agents=200)
        expected = eq.aggregative.design(town, {"motorway": (0.0, 0.4)}, rounds=2)
        assert found["charges"] == expected.parameters
        assert found["outcome"] == expected.outcome
        assert len(found["tried"]) == len(expected.tried)
        assert "outcome" in page.read_text()
        assert main([*words, "--rounds", "0"]) == 0
        shown = capsys.readouterr().out
        assert "best charge, motorway" in shown
        assert "Charges tried" in shown

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["two-roads"], "--charge: expected at least one action"),
            (["two-roads", "--charge", "motorway=3"], "--charge: expected ACTION=[LOW,HIGH]"),
            (["two-roads", "--charge", "sea=[0,1]"], "--charge: expected actions among"),
            (["two-roads", "--charge", "0=[1,0]"], "with low < high"),
            (["oneill", "--charge", "0=[0,1]"], "GAME: expected a crowd without states"),
            (["demand-response", "--charge", "0=[0,1]"], "GAME: expected a crowd without states"),
        ],
    )
    def test_wrong_input(self, words, told, capsys):
        assert main(["design", *words]) == 2
        assert told in capsys.readouterr().err
