"""Logs in pieces: what adds up is that of all rows, and the rest of a random selection."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.core import InputError
from equipoise.offline import _pieces
from equipoise.offline._pieces import Source, part_of

QUICK = {"iterations": 40, "key": 3}


@pytest.fixture(scope="module")
def game():
    return eq.games.families.polymatrix(4, 2, scale=0.25, noise=0.15).sample(key=0)


@pytest.fixture(scope="module")
def file(game, tmp_path_factory):
    path = tmp_path_factory.mktemp("pieces") / "log.npz"
    eq.offline.collect(game, "uniform", samples=3_000, key=1).write(path)
    return path


def test_pieces_are_the_log_they_are_of(file):
    log, pieces = eq.offline.Log.read(file), eq.offline.Log.read_chunks(file, rows=700)
    whole, some = (eq.offline.select_rank(x, joint=False) for x in (log, pieces))
    np.testing.assert_array_equal(whole.errors, some.errors)
    assert eq.offline.discover(log) == eq.offline.discover(pieces)
    one, other = (eq.advise(x, **QUICK) for x in (log, pieces))
    assert one.status == other.status
    np.testing.assert_allclose(one.policy.policies, other.policy.policies, atol=1e-9)
    assert one.interval == pytest.approx(other.interval)


def test_long_logs_are_fitted_whole_and_judged_by_a_selection(game, file, monkeypatch):
    monkeypatch.setattr(_pieces, "ROWS", 500)
    log, pieces = eq.offline.Log.read(file), eq.offline.Log.read_chunks(file, rows=700)
    found = [eq.advise(x, **QUICK) for x in (log, pieces)]
    np.testing.assert_allclose(*(a.policy.policies for a in found), atol=1e-9)
    advice = found[0]
    assert advice.status.ok
    assert advice.stats["samples"] == 3_000
    assert any("of 3,000 rows, selected at random" in note for note in advice.stats["notes"])
    low, high = advice.interval
    assert low <= eq.certify(game, advice.policy).max_gain <= high
    whole = eq.offline.fit(log, 2).interactions
    np.testing.assert_allclose(advice.stats["strength_total"], whole.total, rtol=1e-6)


def test_the_selection_is_a_random_part_of_the_rows(monkeypatch):
    """Every other row is of another kind: a regular selection would see one kind alone."""
    monkeypatch.setattr(_pieces, "ROWS", 1_000)
    actions = np.arange(20_000)[:, None] % 2
    log = eq.offline.Log(None, actions, np.arange(20_000.0)[:, None])
    for given in (log, [log.take(slice(k, k + 6_000)) for k in range(0, 20_000, 6_000)]):
        source = Source.of(given)
        assert 1_000 <= source.log.samples <= 2_000
        assert source.rows == 20_000
        np.testing.assert_array_equal(source.log.rewards[:, 0], source.numbers)
        assert abs(source.log.actions.mean() - 0.5) < 0.05
        parts = np.bincount(part_of(source.numbers, 5), minlength=5)
        assert parts.min() > 0.8 * source.log.samples / 5


def test_what_are_no_pieces_is_refused(file, game):
    once = iter(eq.offline.Log.read_chunks(file))
    with pytest.raises(InputError, match="pieces that can be read more than once"):
        eq.advise(once)
    with pytest.raises(InputError, match="a Log or pieces of a log, found nothing"):
        eq.advise([])
    other = eq.games.families.polymatrix(3, 2).sample(key=0)
    logs = [eq.offline.collect(g, "uniform", samples=50, key=0) for g in (game, other)]
    with pytest.raises(InputError, match="pieces with the same agents, found 4 and 3"):
        eq.offline.discover(logs)
