"""Run folders that version 0.1.0 wrote: their solutions are read, and their pages made."""

from pathlib import Path

import numpy as np
import pytest

import equipoise as eq
from equipoise.report import RunFolder, certificate_of, page_of
from equipoise.runs import Record

#: Written by `solve`, `offline` and `learn` of version 0.1.0: record, arrays and config.
FOLDERS = Path(__file__).parent / "version_0_1"
#: Folder -> kind of policy, of certificate, outcome, largest gain and its bound (nan: not kept).
EXPECTED = {
    "matrix": ("profile", "table", "solved", 0.0, 0.0),
    "batch": ("profile", "table", "solved", 0.0, 0.0),
    "markov": ("profile", "table", "solved", 0.0, 0.0),
    "crowd": ("aggregative", "aggregative", "solved", 0.0, 0.0),
    "markov-crowd": ("aggregative", "aggregative", "not solved", np.nan, 0.73663),
    "log": ("mixture", "table", "learned", 0.164289, np.inf),
    "continuous-log": ("continuous", "table", "learned", 8.6413e-5, np.inf),
    "learn": ("aggregative", "aggregative", "learned", np.nan, 0.013219),
}


def test_every_folder_is_expected():
    assert {folder.name for folder in FOLDERS.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_solutions_are_whole(name):
    policy, kind, outcome, gain, bound = EXPECTED[name]
    record = Record.load(FOLDERS / name)
    solution = eq.certificates.solution_from_plain(record.solution)
    assert (solution.policy.kind, solution.certificate.kind) == (policy, kind)
    assert (solution.status.name, solution.status.ok) == (outcome, outcome in ("solved", "learned"))
    assert np.isnan(solution.tolerance)
    found = np.max(solution.certificate.max_gain), np.max(solution.certificate.max_upper)
    np.testing.assert_allclose(found, (gain, bound), rtol=1e-4, atol=1e-12)
    assert certificate_of(record) == solution.certificate
    assert eq.certificates.solution_from_plain(solution.to_plain()) == solution


@pytest.mark.parametrize("name", EXPECTED)
def test_pages_are_made(name):
    html = page_of(RunFolder.read(FOLDERS / name)).html()
    assert "Certificates" in html
    assert EXPECTED[name][2] in html
    assert page_of(Record.load(FOLDERS / name)).html().count("<svg") == html.count("<svg")


def test_a_certificate_of_a_solved_game_is_that_of_today():
    game, solution = eq.games.load("hide-or-run"), Record.load(FOLDERS / "markov").solution
    old = eq.certificates.solution_from_plain(solution)
    new = eq.certify(game, old.policy)
    np.testing.assert_allclose(old.certificate.value, new.value, atol=1e-12)
    np.testing.assert_allclose(old.certificate.state_gains, new.state_gains, atol=1e-12)
    np.testing.assert_allclose(old.value, eq.solve(game).value, atol=1e-7)


def test_what_was_counted_and_said_of_a_log_is_kept():
    crowd = Record.load(FOLDERS / "crowd").solution["stats"]
    assert crowd["cells"] == 36
    np.testing.assert_allclose(crowd["aggregate"], [0.5])
    stats = Record.load(FOLDERS / "log").solution["stats"]
    assert (stats["samples"], stats["rank"]) == (400, 2)
    assert stats["gap"]["text"].startswith("[")
    low, high = stats["gap"]["interval"]
    assert 0.0 < low < high
    html = page_of(Record.load(FOLDERS / "log")).html()
    assert "400 samples of 3 agents" in html
    assert f"range: {low:.3g} to {high:.3g}" in html
