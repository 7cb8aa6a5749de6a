"""`equipoise offline --method dr-ac`: Algorithm 1 of the interaction-rank paper, by name."""

import json

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main
from equipoise.offline import parameters
from equipoise.runs import Record


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log of three agents with two actions each, and its file."""
    game = eq.games.families.polymatrix(agents=3, actions=2).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=800, key=1)
    path = tmp_path_factory.mktemp("log") / "log.npz"
    log.write(path)
    return path


def dr_ac(path, folder, *arguments):
    fixed = ["--method", "dr-ac", "--rank", "2", "--run", str(folder)]
    return main(["offline", str(path), *fixed, *arguments])


def test_it_is_fit_and_solve(log, tmp_path, capsys):
    assert dr_ac(log, tmp_path / "run", "--iterations", "20", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    known = eq.offline.solve(eq.offline.fit(eq.offline.Log.read(log), 2), iterations=20)
    stats, certificate = document["stats"], document["certificate"]
    np.testing.assert_allclose(certificate["gains"], known.certificate.gains)
    np.testing.assert_allclose(document["policy"]["policies"], known.policy.policies)
    assert stats["iterations"] == len(known.policy) == 20
    assert document["status"]["name"] == "learned"
    assert "which proves nothing about the logged game" in document["status"]["message"]


def test_nothing_is_promised(log, tmp_path, capsys):
    assert dr_ac(log, tmp_path / "run", "--iterations", "5") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "unknown" in shown
    assert "which proves nothing about the logged game" in shown
    assert "Expected rewards are also those of the fitted model" in shown
    assert "confidence" not in shown
    assert "regulariser chi-squared, exact values of actions" in shown
    page = (tmp_path / "run" / "report.html").read_text()
    assert "which proves nothing about the logged game" in page
    record = Record.load(tmp_path / "run")
    upper = np.asarray((record.solution or {})["certificate"]["upper"], float)
    assert np.isinf(upper).all()
    assert (tmp_path / "run" / "policy.csv").read_text().startswith("draw,weight,agent")
    assert dr_ac(log, tmp_path / "run", "--iterations", "5") == 0
    assert "finished earlier" in capsys.readouterr().out
    assert dr_ac(log, tmp_path / "run", "--iterations", "6") == 2


def test_the_printed_parameters_are_those_of_the_theorem(log, tmp_path, capsys):
    given = ["--parameters", "printed", "--error", "1e-3", "--json"]
    assert dr_ac(log, tmp_path / "given", *given) == 0
    stats = json.loads(capsys.readouterr().out)["stats"]
    printed = parameters.paper(agents=3, rank=2, error=1e-3)
    assert stats["iterations"] == printed.iterations
    assert (stats["step"], stats["strength"]) == (printed.step, printed.strength)
    assert dr_ac(log, tmp_path / "estimated", "--parameters", "printed", "--json") == 0
    stats = json.loads(capsys.readouterr().out)["stats"]
    model = eq.offline.fit(eq.offline.Log.read(log), 2)
    error = model.noise.max() ** 2 / model.samples_per_parameter
    assert stats["error"] == pytest.approx(error)
    assert stats["strength"] == pytest.approx(parameters.paper(3, 2, error).strength)


@pytest.mark.parametrize("regulariser", ["kl", "l2"])
def test_regularisers_and_monte_carlo(log, tmp_path, capsys, regulariser):
    critic = ["--values", "monte-carlo", "--simulations", "16", "--iterations", "3", "--json"]
    assert dr_ac(log, tmp_path / "run", "--regulariser", regulariser, *critic) == 0
    stats = json.loads(capsys.readouterr().out)["stats"]
    assert (stats["regulariser"], stats["critic"]) == (regulariser, "monte-carlo")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--method", "dr-ac", "--level", "0.5"], "--level: expected this option only without"),
        (["--method", "dr-ac", "--rank", "sum"], "--rank: expected 'auto' or a whole number up"),
        (["--method", "dr-ac", "--rank", "9"], "--rank: expected 'auto' or a whole number up to 3"),
        (["--method", "dr-ac", "--error", "0.1"], "--error: expected no value without"),
        (["--method", "dr-ac", "--simulations", "9"], "--simulations: expected this option only"),
        (["--regulariser", "kl"], "--regulariser: expected this option only with --method dr-ac"),
        (["--method", "drac"], "--method: expected one of advice, dr-ac; found 'drac'"),
    ],
)
def test_options_without_effect_are_refused(log, tmp_path, capsys, arguments, told):
    assert main(["offline", str(log), "--run", str(tmp_path / "run"), *arguments]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_logs_that_the_algorithm_is_not_stated_for():
    rng = np.random.default_rng(0)
    log = eq.offline.Log(
        None, rng.uniform(-1, 1, (50, 2)), rng.normal(size=(50, 2)), continuous=True
    )
    with pytest.raises(ValueError, match="counted actions for DR-AC, found continuous"):
        eq.offline.dr_ac(log)
    family = eq.games.families.polymatrix(agents=2, actions=2, states=2, horizon=2)
    game = family.sample(key=0)
    episodes = eq.offline.collect(game, "uniform", samples=50, key=0)
    with pytest.raises(ValueError, match="error: expected the error of the model"):
        eq.offline.dr_ac(episodes, rank=2, parameters="printed")
