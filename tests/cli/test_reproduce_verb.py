"""`equipoise reproduce`: lists, makes, reads again, and refuses."""

import json
from dataclasses import replace

import jax
import pytest
from matplotlib.figure import Figure

from equipoise import runs
from equipoise.cli import main
from equipoise.runs import Record
from reproduction import (
    FIGURES,
    PAPERS,
    aggregative_dimensions,
    aggregative_learning,
    aggregative_planning,
    aggregative_regret,
)


@pytest.fixture
def small(monkeypatch):
    """All figures of the aggregative paper, in a second; drawings have tests of their own."""
    planning = aggregative_planning.Config(
        games=("el-farol",), agents=(50,), states=2, horizon=2, seeds=1
    )
    learning = aggregative_learning.Config(episodes=(3,), learners=("known",), seeds=1)
    regret = aggregative_regret.Config(
        agents=10, types=1, episodes=2, spacing=0.5, forms=("corrected",), checked_runs=0
    )
    dimensions = aggregative_dimensions.Config(
        dimensions=(1,),
        spacings=(0.5,),
        agents=(20,),
        learning_agents=(20,),
        most_unknown=(0,),
        states=2,
        horizon=2,
        episodes=2,
        seeds=1,
    )
    for module, config in (
        (aggregative_planning, planning),
        (aggregative_learning, learning),
        (aggregative_regret, regret),
        (aggregative_dimensions, dimensions),
    ):
        monkeypatch.setattr(module.Config, "quick", classmethod(lambda cls, config=config: config))
        monkeypatch.setattr(module, "plot", lambda record: Figure())


def test_the_list(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["reproduce", "--list"]) == 0
    shown = capsys.readouterr().out
    for figure in FIGURES:
        assert figure.name in shown
        assert figure.printed in shown
        assert figure.takes["full"] in shown
    assert main(["reproduce", "aggregative", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed] == ["planning", "learning", "regret", "dimensions"]


def test_figures_are_made_once(small, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "figures"
    command = ["reproduce", "aggregative", "--run", str(folder)]
    assert main([*command, "--figure", "planning"]) == 0
    assert (folder / "planning" / "planning.svg").read_text().count("<svg") == 1
    assert (folder / "planning" / "planning.png").read_bytes().startswith(b"\x89PNG")
    assert not (folder / "learning").exists()
    capsys.readouterr()
    learn = aggregative_learning.run

    def talk(config, key):
        print("a figure that says how far it is")
        return learn(config, key)

    monkeypatch.setattr(aggregative_learning, "run", talk)
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [f["read_from_disk"] for f in document["figures"]] == [True, False, False, False]
    assert document["figures"][0]["tables"]["normal"][0]["form"] == "printed"
    assert all(figure["seconds"] > 0 for figure in document["figures"])
    page = (folder / "report.html").read_text()
    assert page.count("<svg") == 4
    assert f"equipoise reproduce aggregative --scale quick --seed 0 --run {folder}" in page
    environment = json.loads((folder / "planning" / "environment.json").read_text())
    assert {"command", "machine", "seconds"} <= set(environment["sessions"][0])
    assert Record.load(folder / "learning").tables["results"].column("learner") == ["known"]


def test_all_papers_quickly(small, tmp_path, capsys, monkeypatch):
    """The figures of every paper, here those that take a second, each paper in its own folder."""
    (networks,) = (figure for figure in FIGURES if figure.module == "interaction_networks")
    crowds = [figure for figure in FIGURES if figure.paper == "aggregative"]
    fast = (replace(networks, paper="in-context"), networks, *crowds)
    monkeypatch.setattr("reproduction.FIGURES", fast)
    command = ["reproduce", "--quick", "--run", str(tmp_path / "all")]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert all(paper in shown for paper in PAPERS)
    for figure in fast:
        assert (tmp_path / "all" / figure.paper / figure.name / "record.json").exists()
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [part["paper"] for part in found["papers"]] == list(PAPERS)
    assert all(figure["read_from_disk"] for part in found["papers"] for figure in part["figures"])
    (tmp_path / "all" / "note.txt").touch()
    assert main(command) == 2
    assert "other files in" in capsys.readouterr().err


def test_compiled_programs_of_a_figure_are_given_back(small, tmp_path):
    """Those of all figures together are more memory maps than Linux gives to a process."""
    traced = []
    twice = jax.jit(lambda x: (traced.append(x), 2 * x)[1])
    assert (twice(1.0), twice(2.0), len(traced)) == (2.0, 4.0, 1)
    assert main(["reproduce", "interaction-rank", "--figure", "1", "--run", str(tmp_path)]) == 0
    assert (twice(3.0), len(traced)) == (6.0, 2)


def test_what_was_done_before_an_interruption_is_kept(small, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "figures"
    command = ["reproduce", "aggregative", "--run", str(folder)]

    def interrupt(config, key):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(aggregative_learning, "run", interrupt)
        assert main(command) == 130
    assert f"saved in {folder}; to resume" in capsys.readouterr().err
    assert (folder / "planning" / "record.json").exists()
    assert main([*command, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert [figure["read_from_disk"] for figure in figures] == [True, False, False, False]


def test_the_progress_line_counts_the_figures(small, tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(
        "reproduction.progress",
        lambda *told, **options: lines.append((told, options)) or runs.progress(*told, **options),
    )
    assert main(["reproduce", "aggregative", "--run", str(tmp_path / "figures")]) == 0
    assert lines == [(("figures of aggregative",), {"total": 4})]


def test_another_seed_or_scale_is_not_taken_for_the_first(small, tmp_path, capsys):
    command = ["reproduce", "aggregative", "--figure", "planning", "--run", str(tmp_path / "a")]
    assert main(command) == 0
    assert main([*command, "--seed", "1"]) == 2
    assert "key (0, now 1)" in capsys.readouterr().err
    assert main([*command, "--scale", "full"]) == 2
    assert "config" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "PAPER: expected one of in-context, interaction-rank, aggregative; found none"),
        (["aggregative", "--figure", "planing"], "did you mean planning?"),
        (["incontext"], "found 'incontext'"),
        (["aggregative", "--run", __file__], "--run: expected a folder, found the file"),
        (["--list", "--figure", "1"], "PAPER: expected one of in-context"),
        (["aggregative", "--seed", "-1"], "--seed: expected"),
        (["--quick", "--scale", "full"], "--quick: expected this option only without"),
        (["--quick", "--figure", "planning"], "PAPER: expected one of in-context"),
    ],
)
def test_wrong_input_is_told_in_one_line(arguments, message, capsys):
    assert main(["reproduce", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_help_names_the_papers(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["reproduce", "--help"]) == 0
    assert "in-context,interaction-rank,aggregative}]" in capsys.readouterr().out


def test_the_paper_in_a_file(tmp_path, capsys):
    path = tmp_path / "options.toml"
    assert main(["reproduce", "aggregative", "--seed", "3", "--print-config"]) == 0
    path.write_text(capsys.readouterr().out)
    assert 'paper = "aggregative"' in path.read_text()
    listed = ["reproduce", "--config", str(path), "--list", "--json"]
    assert main(listed) == 0
    assert {figure["paper"] for figure in json.loads(capsys.readouterr().out)} == {"aggregative"}
    assert main([*listed[:1], "in-context", *listed[1:]]) == 0  # the command line goes before it
    assert {figure["paper"] for figure in json.loads(capsys.readouterr().out)} == {"in-context"}
    path.write_text('paper = "aggregatve"\n')
    assert main(["reproduce", "--config", str(path)]) == 2
    assert "found 'aggregatve'" in capsys.readouterr().err
    assert main(["reproduce", "--print-config"]) == 0
    assert "paper" not in capsys.readouterr().out
