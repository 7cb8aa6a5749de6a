"""Logs as files: what is written is read, and what is damaged is refused."""

import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from mutations import bytes_of, garble, small_logs, tables_of
from support import damage, peer

import equipoise as eq
from equipoise.offline import Log

SUFFIXES = ("npz", "parquet")


@pytest.fixture(autouse=True)
def _needs_pyarrow(request):
    if "parquet" in request.node.name:
        peer("pyarrow")


def assert_same(found: Log, expected: Log, without: tuple[str, ...] = ()) -> None:
    for name, value in vars(expected).items():
        if name == "name":  # that of the file
            continue
        other = getattr(found, name)
        if name in without:
            continue
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(other, value)
            assert other.dtype == value.dtype, name
        else:
            assert other == value, name


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_is_read(tmp_path, suffix, which):
    log = small_logs()[which]
    log.write(tmp_path / f"log.{suffix}")
    assert_same(Log.read(tmp_path / f"log.{suffix}"), log)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_precision_ranges_and_continuous_actions_are_kept(tmp_path, suffix, rng):
    actions = rng.uniform(-1, 1, (10, 3)).astype(np.float32)
    rewards = rng.random((10, 3)).astype(np.float32)
    log = Log(np.zeros(10, int), actions, rewards, continuous=True, reward_range=(0, 1))
    log.write(tmp_path / f"log.{suffix}")
    again = Log.read(tmp_path / f"log.{suffix}")
    assert_same(again, log)
    assert again.rewards.dtype == np.float32


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_parts_are_the_whole(tmp_path, suffix, which):
    log, path = small_logs()[which], tmp_path / f"log.{suffix}"
    log.write(path)
    parts = list(Log.read_chunks(path, rows=5))
    assert [part.samples for part in parts] == [5, 5, 2]
    for name in ("contexts", "actions", "rewards", "states", "next_states", "steps"):
        if getattr(log, name) is not None:
            whole = np.concatenate([getattr(part, name) for part in parts])
            np.testing.assert_array_equal(whole, getattr(log, name))
    assert {part.actions_per_agent for part in parts} == {log.actions_per_agent}
    assert {part.policy_shape for part in parts} == {log.policy_shape}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_counts_that_nobody_declares_are_found_in_all_parts(tmp_path, suffix):
    path = tmp_path / f"log.{suffix}"
    actions = np.array([[0, 0], [0, 1], [2, 0], [0, 3]])
    contexts = np.array([0, 0, 4, 0])
    rewards = np.ones((4, 2))
    if suffix == "npz":
        np.savez(path, contexts=contexts, actions=actions, rewards=rewards)
    else:
        write_columns(
            path, context=contexts, **columns("action", actions), **columns("reward", rewards)
        )
    parts = list(Log.read_chunks(path, rows=1))
    assert {part.actions_per_agent for part in parts} == {(3, 4)}
    assert {part.contexts_count for part in parts} == {5}
    declared = list(Log.read_chunks(path, rows=3, actions_per_agent=5, contexts_count=6))
    assert declared[1].actions_per_agent == (5, 5)
    with pytest.raises(ValueError, match=r"found 2 in row 0 .in the part that begins at row 2"):
        list(Log.read_chunks(path, rows=2, actions_per_agent=2, contexts_count=5))


def columns(prefix: str, table: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{prefix}_{i}": table[:, i] for i in range(table.shape[1])}


def write_columns(path: Path, **given) -> None:
    pyarrow, parquet = peer("pyarrow"), peer("pyarrow.parquet")
    parquet.write_table(pyarrow.table(given), path)


def test_a_plain_parquet_file_of_another_tool(tmp_path):
    write_columns(
        tmp_path / "bids.parquet",
        action_0=[0, 1, 1],
        action_1=[2, 0, 1],
        reward_0=[0.5, 1.0, 0.0],
        reward_1=[1, 2, 3],
        bidder=["a", "b", "c"],  # what is not of a log is left alone
    )
    log = Log.read(tmp_path / "bids.parquet")
    assert (log.samples, log.agents, log.contexts_count) == (3, 2, 1)
    assert log.actions_per_agent == (2, 3)
    assert log.rewards[:, 1].tolist() == [1.0, 2.0, 3.0]


PLAIN = {
    "context": [0, 0, 1],
    "action_0": [0, 1, 1],
    "action_1": [0, 0, 1],
    "reward_0": [0.5, 1.0, 0.0],
    "reward_1": [0.5, 1.0, 0.0],
}


@pytest.mark.parametrize(
    ("change", "declared", "complaint"),
    [
        ({"action_1": None}, {}, "a column action_i for every agent i from 0 to 1, .*agent 1"),
        ({"reward_0": None}, {}, "a column reward_i .* agent 0"),
        ({"action_7": [0, 0, 0]}, {}, "from 0 to 7, found none for agent 2"),
        (
            {"step": [0, None, 1], "state_0": [0, 0, 0], "state_1": [0, 0, 0]},
            {},
            "step: expected a number, found none in row 1",
        ),
        ({"action_1": [0.0, 0.5, 1.0]}, {}, "whole numbers for agent 1, found 0.5 in row 1"),
        ({"action_1": [0, 3, 0]}, {"actions_per_agent": 2}, "0 to 1 for agent 1, found 3 in row 1"),
        ({"action_1": [0, -1, 0]}, {}, "for agent 1, found -1 in row 1"),
        ({"reward_1": [0.0, 1.0, np.nan]}, {}, "finite numbers for agent 1, found nan in row 2"),
        (
            {"reward_1": [0.0, 2.0, 0.0]},
            {"reward_range": (0, 1)},
            "0.0 to 1.0 for agent 1, found 2.0",
        ),
        ({"step": [0, 1, 2]}, {}, "steps: expected states to be given as well"),
        ({"state_0": [0, 0, 0]}, {}, "column state_i for every agent"),
    ],
)
def test_what_is_wrong_in_a_parquet_file(tmp_path, change, declared, complaint):
    given = {k: v for k, v in {**PLAIN, **change}.items() if v is not None}
    write_columns(tmp_path / "log.parquet", **given)
    with pytest.raises(ValueError, match=complaint):
        Log.read(tmp_path / "log.parquet", **declared)


def test_what_is_wrong_with_the_metadata_of_a_parquet_file(tmp_path):
    pyarrow, parquet = peer("pyarrow"), peer("pyarrow.parquet")
    path = tmp_path / "log.parquet"
    for text, complaint in [
        (b"{", "metadata: expected JSON"),
        (b"[1]", "expected metadata about"),
        (b'{"horizon": "x"}', "horizon: expected numbers"),
        (b'{"contexts_count": [1]}', "contexts_count: expected one number"),
        (b'{"actions_per_agent": [2]}', "actions_per_agent: expected one count for each of 2"),
        (b'{"behaviour": [[0.5]]}', "behaviour: expected shape"),
        (b'{"labels": [1]}', "labels: expected names by field"),
        (b'{"labels": {"players": ["Ada"]}}', "labels.players: expected 2 names, found 1"),
    ]:
        table = pyarrow.table(PLAIN).replace_schema_metadata({b"equipoise": text})
        parquet.write_table(table, path)
        with pytest.raises(ValueError, match=complaint):
            Log.read(path)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        Log.read(tmp_path / "none.npz")
    with pytest.raises(FileNotFoundError):
        Log.read(tmp_path / "none.parquet")
    with pytest.raises(ValueError, match=r"ends in .parquet or .npz"):
        Log.read(tmp_path / "log.txt")
    with pytest.raises(ValueError, match=r"declared: expected .* found colour"):
        Log.read(tmp_path / "log.npz", colour=1)
    for suffix in SUFFIXES:
        path = tmp_path / f"text.{suffix}"
        path.write_text("not a log")
        with pytest.raises(ValueError, match=rf"text.{suffix}: expected an? "):
            Log.read(path)
        with pytest.raises(ValueError, match=rf"text.{suffix}: expected an? "):
            list(Log.read_chunks(path))
    np.savez(tmp_path / "other.npz", payoff=np.ones(3))
    with pytest.raises(ValueError, match=r"named actions and rewards .* found payoff"):
        Log.read(tmp_path / "other.npz")
    np.savez(tmp_path / "half.npz", actions=np.zeros((2, 2), int))
    with pytest.raises(ValueError, match="expected rewards, found none"):
        Log.read(tmp_path / "half.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_stored_column_by_column_or_compressed(tmp_path, save):
    log = small_logs()[0]
    actions = np.asfortranarray(log.actions)
    path = tmp_path / "log.npz"
    save(path, contexts=log.contexts, actions=actions, rewards=log.rewards)
    np.testing.assert_array_equal(Log.read(path).actions, log.actions)
    with pytest.raises(ValueError, match="only be read whole"):
        list(Log.read_chunks(path, rows=3))
    save(path, actions=log.actions, rewards=log.rewards)
    parts = [part.actions for part in Log.read_chunks(path, rows=3)]
    np.testing.assert_array_equal(np.concatenate(parts), log.actions)


def peak_of(work) -> int:
    """Bytes that NumPy and Python allocate at most while working."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_column_of_a_far_agent_costs_nothing(tmp_path):
    """`action_9999999` once took a gigabyte, for the list of the agents that are missing."""
    path = tmp_path / "log.parquet"
    write_columns(path, **PLAIN, action_9999999=[0, 0, 0])

    def refused():
        with pytest.raises(ValueError, match="from 0 to 9999999, found none for agent 2"):
            Log.read(path)

    assert peak_of(refused) < 4 << 20


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_small_file_does_not_take_much_memory(tmp_path, suffix):
    """Twenty million equal entries fit into few bytes of a compressed file."""
    path, rows = tmp_path / f"log.{suffix}", 10_000_000
    if suffix == "npz":
        zeros = np.zeros((rows, 2))
        np.savez_compressed(path, actions=zeros.astype(np.int8), rewards=zeros)
        del zeros
    else:
        pyarrow = peer("pyarrow")
        flat = np.zeros(rows)
        given = {"action_0": flat.astype(np.int64), "reward_0": flat}
        peer("pyarrow.parquet").write_table(pyarrow.table(given), path, compression="zstd")
    length = path.stat().st_size
    assert length < 1 << 20

    def refused():
        with pytest.raises(ValueError, match=f"log.{suffix}: expected"):
            Log.read(path)

    assert peak_of(refused) <= 64 * length + (64 << 20)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_well_compressed_log_is_read(tmp_path, suffix, rng):
    """Two actions and rewards of 0 or 1 take a bit each in a file, and bytes in memory."""
    path = tmp_path / f"log.{suffix}"
    actions = rng.integers(0, 2, (200_000, 4))
    if suffix == "npz":
        np.savez_compressed(path, actions=actions, rewards=1.0 * actions)
    else:
        write_columns(path, **columns("action", actions), **columns("reward", 1.0 * actions))
    log = Log.read(path)
    assert (log.samples, log.actions.dtype) == (200_000, np.int8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tables", *SUFFIXES])
def test_three_thousand_mutated_logs(tmp_path, kind, rng):
    """A log or a ValueError, nothing else: a thousand garbled tables, and files of each kind."""
    logs = small_logs()
    path = tmp_path / f"log.{'npz' if kind == 'tables' else kind}"
    intact = [bytes_of(log, path) for log in logs] if kind != "tables" else []
    tables = [tables_of(log) for log in logs]
    read = refused = 0
    for number in range(1000):
        if kind == "tables":
            np.savez(path, allow_pickle=False, **quietly_garbled(rng, tables[number % 2]))
        else:
            path.write_bytes(damage(rng, intact[number % 2]))
        try:
            assert isinstance(Log.read(path), eq.offline.Log)
            read += 1
        except ValueError:
            refused += 1
    assert read > 15
    assert refused > 300


def quietly_garbled(rng, tables):
    """Nonsense that NumPy itself cannot make is made again."""
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return garble(rng, tables)
        except (ValueError, TypeError):
            continue


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_log_that_is_declared_discrete_is_not_read_as_numbers(suffix, tmp_path):
    path = tmp_path / f"log.{suffix}"
    Log(None, [[0, 1], [1, 0]], [[1.0, 0.0], [0.0, 1.0]]).write(path)
    with pytest.raises(ValueError, match="declared as discrete; read it as a log of discrete"):
        Log.read(path, continuous=True)
    assert not Log.read(path).continuous


def test_an_archive_that_declares_nothing_may_be_read_as_numbers(tmp_path):
    np.savez(tmp_path / "log.npz", actions=[[0, 1], [1, 0]], rewards=[[1.0, 0.0], [0.0, 1.0]])
    assert Log.read(tmp_path / "log.npz", continuous=True).continuous


def test_what_is_said_of_a_damaged_parquet_file_is_one_line(tmp_path):
    pytest.importorskip("pyarrow")
    file = tmp_path / "log.parquet"
    file.write_bytes(b"PAR1" + bytes(40) + b"PAR1")
    with pytest.raises(ValueError, match="cannot be read") as caught:
        Log.read(file)
    assert "\n" not in str(caught.value)
