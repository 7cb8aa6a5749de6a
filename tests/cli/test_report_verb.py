"""`equipoise report` takes the folders of any command, and makes one page of them."""

import json
import re
import shlex

import pytest

import equipoise as eq
from equipoise.cli import main
from equipoise.runs import Run
from reproduction.aggregative_planning import Config


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    for row in ("omd", "exp3-ix"):
        words = ["--row", row, "--rounds", "300", "--games", "8"]
        assert main(["play", *words, "--run", str(place / row)]) == 0
    return place


def test_two_runs_are_compared_in_one_file(played, tmp_path, capsys):
    out = tmp_path / "new" / "page.html"
    runs = [str(played / row) for row in ("omd", "exp3-ix")]
    assert main(["report", *runs, "--out", str(out), "--title", "Learners"]) == 0
    assert f"Report: {out}" in capsys.readouterr().out
    html = out.read_text()
    assert "<h1>Learners</h1>" in html
    command = shlex.join(["equipoise", "report", *runs, "--out", str(out), "--title", "Learners"])
    assert f"{command}</code>" in html[html.index("To reproduce this page") :]
    assert "≠ row" in html
    assert html.count("<svg") == 6  # four curves, and a triangle for each
    assert "≠ rounds" not in html


def test_a_folder_of_runs_and_a_config_file_will_do(played, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [str(played / row) for row in ("omd", "exp3-ix")]
    (tmp_path / "page.toml").write_text(f'runs = {json.dumps(runs)}\nout = "page.html"\n')
    assert main(["report", "--config", "page.toml", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [run["state"] for run in document["runs"]] == ["finished"] * 2
    assert main(["report", str(played)]) == 0
    html = (tmp_path / "report.html").read_text()
    assert html.count("<svg") == (tmp_path / "page.html").read_text().count("<svg")


def test_what_was_learned_from_a_log_is_an_estimate(tmp_path):
    game = eq.games.families.polymatrix(3, 2, scale=0.25).sample(key=0)
    eq.offline.collect(game, "uniform", samples=300, key=1).write(tmp_path / "log.npz")
    words = ["--rank", "2", "--iterations", "20"]
    run, page = str(tmp_path / "run"), str(tmp_path / "page.html")
    assert main(["offline", str(tmp_path / "log.npz"), *words, "--run", run]) == 0
    assert main(["report", run, "--out", page]) == 0
    html = (tmp_path / "page.html").read_text()
    (row,) = re.findall(r"<tr><td>run</td><td>Nash, in the fitted model.*?</tr>", html)
    assert re.search(r"<td>90%: \S+ to \S+</td>", row)
    assert "<td>not exact: best response" in row
    assert row.count("–") == 3  # no proven bound, neither NashConv nor exploitability


def test_a_figure_of_a_paper_is_drawn_as_there(tmp_path):
    from reproduction import figures_of

    (planning,) = figures_of("aggregative", ["planning"])
    config = Config(games=("two-roads",), agents=(100, 200), seeds=1, horizon=2, states=2)
    with Run.create(
        tmp_path / "planning", {"figure": "planning", "key": 0, "config": config}
    ) as run:
        run.finish(planning.load().run(config, 0))
    out = tmp_path / "page.html"
    assert main(["report", str(tmp_path / "planning"), "--out", str(out)]) == 0
    assert planning.title.split(":")[0] in out.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "RUN: expected run folders, found none: nowhere"),
        (["."], "expected run folders or folders of runs, found none in ."),
        ([], "RUN: expected at least one run folder"),
        (["nowhere", "--out", "page.pdf"], "--out: expected a name that ends in .html"),
    ],
)
def test_wrong_input_is_told_in_a_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(["report", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
