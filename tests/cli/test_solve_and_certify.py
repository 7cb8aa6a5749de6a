"""`solve` and `certify`, on files and named games, for people and for programs."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import _output, main


@pytest.fixture
def pennies(tmp_path):
    path = tmp_path / "pennies.nfg"
    eq.games.write(eq.MatrixGame([[3, -1], [-2, 1]]), path)
    return str(path)


@pytest.fixture
def batch(tmp_path):
    path = tmp_path / "batch.npz"
    eq.games.write(eq.games.families.uniform(actions=3).sample(50, key=0), path)
    return str(path)


def strict_json(text):
    return json.loads(text, parse_constant=pytest.fail)


def run_json(capsys, *arguments, code=0):
    assert main([*arguments, "--json"]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return strict_json(out)


def test_solve_prints_a_solution_as_json(capsys, pennies):
    document = run_json(capsys, "solve", pennies)
    assert document["value"] == pytest.approx(1 / 7)
    assert document["policy"]["strategies"]["0"] == pytest.approx([3 / 7, 4 / 7])
    assert document["certificate"]["nash_conv"] < 1e-12
    assert document["certificate"]["exact"] is True
    assert document["certificate"]["concept"] == "nash"
    assert document["status"]["name"] == "solved"
    assert document["kind"] == "matrix"


def test_solve_shows_people_value_policies_and_certificate(capsys, pennies):
    assert main(["solve", pennies]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for expected in ("2 x 2", "0.1429", "0.4286", "0.5714", "NashConv", "solved"):
        assert expected in out


def first_words(out):
    return [line.split()[0] for line in out.splitlines() if line.strip()]


def test_what_has_labels_is_called_by_them_and_the_rest_is_counted_from_0(capsys, pennies):
    assert main(["solve", pennies]) == 0
    assert first_words(capsys.readouterr().out)[4:6] == ["0", "1"]  # actions
    assert main(["solve", "big-match"]) == 0
    assert first_words(capsys.readouterr().out)[4:7] == ["live", "won", "lost"]  # states
    assert main(["solve", "two-roads", "--set", "agents=20"]) == 0
    out = capsys.readouterr().out
    assert "equilibrium 0" in out


def test_what_solve_writes_certify_reads(capsys, pennies, tmp_path):
    for suffix in (".json", ".npz"):
        saved = tmp_path / "new" / f"policy{suffix}"
        page = tmp_path / "pages" / suffix / "page.html"
        assert main(["solve", pennies, "--out", str(saved), "--report", str(page)]) == 0
        told = "".join(capsys.readouterr().out.split())  # lines may be broken anywhere
        assert f"policy{saved}" in told
        assert f"report{page}" in told
        assert page.exists()
        document = run_json(capsys, "certify", pennies, str(saved))
        assert document["max_gain"] < 1e-12
    assert main(["solve", pennies, "--json"]) == 0
    printed = tmp_path / "printed.json"
    printed.write_text(capsys.readouterr().out)
    assert run_json(capsys, "certify", pennies, str(printed))["max_gain"] < 1e-12


def test_certify_finds_what_a_player_could_gain(capsys, tmp_path):
    policy = tmp_path / "rock.json"
    policy.write_text('{"policy": [[1, 0, 0], [0.25, 0.5, 0.25]]}')
    document = run_json(capsys, "certify", "rock-paper-scissors", str(policy))
    # Rock gets -1/4 where scissors get 1/4; against rock, paper would get 1 instead of 1/4.
    assert document["gains"] == pytest.approx([0.5, 0.75])
    assert document["nash_conv"] == pytest.approx(1.25)
    assert document["exploitability"] == pytest.approx(0.625)
    assert main(["certify", "rock-paper-scissors", str(policy)]) == 0
    assert "0.75" in capsys.readouterr().out


def test_certify_with_a_tolerance_decides_by_its_exit_code(capsys, tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text("[[0.5, 0.5], [0.6, 0.4]]")  # row could gain 0.2
    assert main(["certify", "matching-pennies", str(policy), "--tolerance", "0.3"]) == 0
    assert main(["certify", "matching-pennies", str(policy), "--tolerance", "0.1"]) == 1


def test_policies_are_judged_by_the_proven_bound_as_solve_judges_them(capsys, tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text("[[0.6, 0.4], [0.6, 0.4]]")  # each could gain: 0.16 and 0.24
    arguments = ["certify", "matching-pennies", str(policy), "--tolerance", "0.2"]
    found = run_json(capsys, *arguments, code=1)
    assert found["verdict"] == {
        "measure": "max_upper",
        "found": pytest.approx(0.24),
        "tolerance": 0.2,
        "met": False,
    }
    assert found["max_gain"] <= found["max_upper"] == found["verdict"]["found"]
    assert main(arguments) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "missed: the proven bound on the gains, 0.24, is above 0.2" in out
    assert main([*arguments[:-1], "0.3"]) == 0


def test_help_says_what_is_compared(capsys):
    assert main(["certify", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "unless it is proven that no player gains more than this" in shown


def test_certify_takes_general_sum_games(capsys, tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text('{"policy": [[1, 0], [1, 0]]}')
    assert run_json(capsys, "certify", "prisoners-dilemma", str(policy))["max_gain"] > 0
    policy.write_text('{"policy": [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]}')
    document = run_json(capsys, "certify", "three-player-pennies", str(policy))
    assert document["gains"] == pytest.approx([0, 0, 0])
    assert main(["certify", "three-player-pennies", str(policy)]) == 0
    out = capsys.readouterr().out
    assert "player 0" in out  # counted as in JSON
    assert "player 3" not in out


def test_batches_are_summarised(capsys, batch, tmp_path):
    assert main(["solve", batch]) == 0
    out = capsys.readouterr().out
    for expected in ("50 zero-sum matrix games", "median", "worst", "games per second", "50 of 50"):
        assert expected in out
    saved = tmp_path / "policies.npz"
    document = run_json(capsys, "solve", batch, "--out", str(saved))
    assert np.shape(document["policy"]["strategies"]["0"]) == (50, 3)
    assert np.shape(document["certificate"]["gains"]) == (50, 2)
    document = run_json(capsys, "certify", batch, str(saved))
    assert max(document["nash_conv"]) < 1e-12
    assert main(["certify", batch, str(saved)]) == 0
    assert "worst game" in capsys.readouterr().out


def test_markov_games(capsys, tmp_path):
    saved = tmp_path / "policy.json"
    document = run_json(capsys, "solve", "big-match", "--out", str(saved))
    assert document["value"] == pytest.approx([5, 10, 0], abs=1e-7)
    assert np.shape(document["policy"]["strategies"]["0"]) == (3, 2)
    assert np.shape(document["certificate"]["state_gains"]) == (3, 2)
    assert run_json(capsys, "certify", "big-match", str(saved))["max_gain"] < 1e-7
    assert main(["solve", "big-match"]) == 0
    assert "gain (worst state)" in capsys.readouterr().out


def test_long_policies_are_cut_for_people_only(capsys):
    assert main(["solve", "kuhn-poker"]) == 0
    assert "39 more (--json shows all)" in capsys.readouterr().out


def test_parameters_of_named_games(capsys):
    document = run_json(capsys, "solve", "hide-and-seek", "--set", "size=4")
    assert document["value"] == pytest.approx(1 / 4)


def test_a_missed_tolerance_is_exit_code_1(capsys, pennies):
    game = eq.MatrixGame(np.random.default_rng(0).normal(size=(12, 12)))
    eq.games.write(game, pennies.replace(".nfg", ".npz"))
    document = run_json(
        capsys, "solve", pennies.replace(".nfg", ".npz"), "--tolerance", "1e-300", code=1
    )
    assert document["status"]["name"] == "not solved"


@pytest.mark.parametrize("game", ["colonel-blotto", "big-match", "batch"])
def test_the_report_is_a_page(capsys, tmp_path, game, batch):
    page = tmp_path / "report.html"
    name = batch if game == "batch" else game
    assert main(["solve", name, "--report", str(page)]) == 0
    html = page.read_text()
    assert "NashConv" in html
    assert html.count("<svg") >= 2
    assert "To reproduce this page" in html


def test_a_real_process_prints_json_and_nothing_else(pennies, tmp_path):
    command = [sys.executable, "-m", "equipoise"]
    done = subprocess.run(
        [*command, "solve", pennies, "--json"], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    saved = tmp_path / "solution.json"
    saved.write_text(done.stdout)
    done = subprocess.run(
        [*command, "certify", pennies, str(saved), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert strict_json(done.stdout)["nash_conv"] < 1e-12


def test_a_largest_gain_above_the_nash_conv_is_explained(capsys):
    note = "gain is negative by rounding"
    game = eq.MatrixGame(np.ones((2, 1, 1)))
    for gains, expected in (([8.9e-16, -1.1e-16], True), ([8.9e-16, 0.0], False)):
        sides = np.array([gains] * 2)
        certificate = eq.certificates.TableCertificate(sides, sides, np.zeros((2, 2)), "m")
        solution = replace(eq.solve(game), certificate=certificate)
        record = eq.report.record_of(game, solution, name="games")
        assert (note in eq.report.page_of(record).html()) == expected
        _output.print_certificate(certificate, {})
        assert (note in " ".join(capsys.readouterr().out.split())) == expected


class TestGeneralSum:
    def test_concepts_and_objectives(self, capsys):
        options = ("--concept", "ce", "--objective", "egalitarian")
        document = run_json(capsys, "solve", "battle-of-the-sexes", *options)
        assert document["policy"]["kind"] == "joint"
        assert document["value"] == pytest.approx([1.5, 1.5])
        assert document["certificate"]["concept"] == "ce"
        assert main(["solve", "battle-of-the-sexes", *options]) == 0
        out, _ = capsys.readouterr()
        for expected in ("probability", "ballet", "bound on the objective", "correlated"):
            assert expected in out

    def test_weights_and_files(self, capsys, tmp_path):
        policy = tmp_path / "policy.json"
        options = ("--concept", "cce", "--objective", "[1, 3]", "--out", str(policy))
        run_json(capsys, "solve", "chicken", *options)
        assert isinstance(eq.read_policy(policy), eq.JointPolicy)
        found = run_json(capsys, "certify", "chicken", str(policy))
        assert found["concept"] == "ce"

    def test_all(self, capsys):
        document = run_json(capsys, "solve", "battle-of-the-sexes", "--all")
        assert len(document["equilibria"]) == 3
        assert main(["solve", "battle-of-the-sexes", "--all"]) == 0
        out, _ = capsys.readouterr()
        assert "3 extreme equilibria in 3 components" in out

    def test_wrong_flags(self, capsys):
        assert main(["solve", "chicken", "--concept", "best"]) == 2
        assert "--concept: expected one of nash, ce, cce, logit" in capsys.readouterr().err
        assert main(["solve", "chicken", "--all", "--concept", "ce"]) == 2
        assert "--concept: expected no value together with --all" in capsys.readouterr().err
