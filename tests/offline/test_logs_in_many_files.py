"""Logs in many files: the same sums, the same selection of rows, the same advice."""

import itertools

import numpy as np
import pytest

import equipoise as eq
from equipoise.core import InputError
from equipoise.offline import LogFiles, _pieces
from equipoise.runs.engines import Local


@pytest.fixture(scope="module")
def game():
    return eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)


@pytest.fixture(scope="module")
def log(game):
    return eq.offline.collect(game, "uniform", samples=2_000, key=1)


@pytest.fixture(scope="module")
def pattern(log, tmp_path_factory):
    """The log in five files of different lengths."""
    folder = tmp_path_factory.mktemp("logs")
    ends = [0, 100, 700, 701, 1_500, 2_000]
    for i, (first, last) in enumerate(itertools.pairwise(ends)):
        log.take(slice(first, last)).write(folder / f"part-{i}.parquet")
    return str(folder / "part-*.parquet")


@pytest.mark.parametrize("engine", [None, "local", Local(workers=2)])
def test_a_fit_of_many_files_is_that_of_one_log(log, pattern, engine):
    files = LogFiles(pattern, rows=300, on=engine)
    assert files.samples == log.samples
    assert files.agents == 4
    found, whole = eq.offline.fit(files, rank=2), eq.offline.fit(log, rank=2)
    assert found.samples == whole.samples
    for order, tables in whole.game.interactions.tables.items():
        np.testing.assert_allclose(found.game.interactions.tables[order], tables, atol=1e-12)
    np.testing.assert_allclose(found.noise, whole.noise, rtol=1e-12)


@pytest.mark.parametrize("rule", ["screen", 1])
def test_neighbours_are_found_in_the_rows_of_many_files(log, pattern, rule):
    """The first file has 100 rows of 2,000, too few to find them."""
    found, whole = (eq.offline.fit(x, rank=2, neighbours=rule) for x in (LogFiles(pattern), log))
    assert found.neighbours == whole.neighbours
    for order, tables in whole.game.interactions.tables.items():
        np.testing.assert_allclose(found.game.interactions.tables[order], tables, atol=1e-12)
    once = (piece for piece in LogFiles(pattern, rows=300))
    assert eq.offline.fit(once, rank=2, neighbours=rule).neighbours == whole.neighbours


@pytest.mark.parametrize("engine", [None, Local(workers=2)])
def test_the_same_rows_are_selected_everywhere(log, pattern, monkeypatch, engine):
    monkeypatch.setattr(_pieces, "ROWS", 150)
    one = _pieces.Source.of(log)
    many = _pieces.Source.of(LogFiles(pattern, rows=300, on=engine))
    assert 150 < len(one.numbers) <= 300
    assert (one.numbers == many.numbers).all()
    assert one.rows == many.rows == 2_000
    for name in ("actions", "rewards", "contexts"):
        assert (getattr(one.log, name) == getattr(many.log, name)).all()


def test_advice_from_many_files_is_that_from_one_log(log, pattern, monkeypatch):
    """Bounds, the class of rewards and the policy, where not all rows are in memory."""
    monkeypatch.setattr(_pieces, "ROWS", 900)
    one = eq.advise(log, key=0)
    many = eq.advise(LogFiles(pattern, rows=300, on=Local(workers=2)), key=0)
    assert one.structure.chosen == many.structure.chosen
    np.testing.assert_allclose(one.interval, many.interval, rtol=1e-6, atol=1e-9)
    for own, other in zip(one.policy.policies, many.policy.policies, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-6)
    chosen = eq.offline.select_rank(LogFiles(pattern, on=Local(workers=2)), key=0)
    assert chosen.chosen == eq.offline.select_rank(log, key=0).chosen


def test_counts_that_no_file_declares_are_those_of_all(tmp_path):
    """Files of others, without metadata: the largest action of an agent may be in the last."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for i, highest in enumerate((1, 3)):
        actions = np.arange(40) % (highest + 1)
        columns = {"action_0": actions, "action_1": actions[::-1]}
        columns |= {"reward_0": actions * 1.0, "reward_1": actions * 2.0}
        parquet.write_table(arrow.table(columns), tmp_path / f"{i}.parquet")
    files = LogFiles(tmp_path / "*.parquet")
    assert [tuple(piece.actions_per_agent) for piece in files] == [(4, 4), (4, 4)]
    assert eq.offline.fit(files, rank=1).samples == 80


def test_wrong_files_are_refused(tmp_path, log):
    with pytest.raises(InputError, match="a pattern that matches files"):
        LogFiles(tmp_path / "*.parquet")
    log.write(tmp_path / "log.npz")
    with pytest.raises(InputError, match=r"names that end in \.parquet"):
        LogFiles([tmp_path / "log.npz"])
    log.take(slice(10)).write(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="one of local, ray, slurm"):
        LogFiles([tmp_path / "a.parquet"], on="cloud")


def test_a_file_that_cannot_be_read_is_named(tmp_path, log):
    for i in range(3):
        log.take(slice(100)).write(tmp_path / f"{i}.parquet")
    whole = (tmp_path / "1.parquet").read_bytes()
    for content in (b"", b"garbage", b"PAR1" + bytes(40) + b"PAR1", whole[: len(whole) // 2]):
        (tmp_path / "1.parquet").write_bytes(content)
        with pytest.raises(ValueError, match=r"1\.parquet: expected a Parquet file") as refused:
            LogFiles(tmp_path / "*.parquet")
        assert "\n" not in str(refused.value)


def test_a_file_with_other_agents_is_named(tmp_path, log):
    more = eq.games.families.polymatrix(agents=5, actions=3).sample(key=0)
    log.write(tmp_path / "0.parquet")
    eq.offline.collect(more, "uniform", samples=50, key=0).write(tmp_path / "1.parquet")
    files = LogFiles(tmp_path / "*.parquet")
    with pytest.raises(InputError, match=r"same number of agents, found .*1\.parquet"):
        eq.offline.fit(files, rank=2)
