"""Files of a run that were damaged: an earlier checkpoint serves; the rest is named."""

import errno
import os

import pytest

from equipoise.runs import DamagedCheckpoint, FolderInUse, Record, Run, _lock

STATE = {"x": [0.0] * 4}


def state(step):
    return {"x": [float(step)] * 4}


@pytest.fixture
def folder(tmp_path):
    """A run stopped after step 5, with checkpoints after steps 2, 3 and 4."""
    with Run.create(tmp_path / "run", {"steps": 6}) as run:
        for step in range(1, 6):
            run.log(step, x=step)
            if step < 5:
                run.checkpoint(step, state(step))
    return tmp_path / "run"


def checkpoint(folder, step):
    return folder / "checkpoints" / f"{step:012d}.npz"


def names(folder):
    return sorted(p.name for p in (folder / "checkpoints").iterdir())


def empty(path):
    path.write_bytes(b"")


def tear(path):
    path.write_bytes(path.read_bytes()[:-30])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1  # within the data, where only a checksum sees it
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [empty, tear, flip])
def test_the_checkpoint_before_a_damaged_one_serves(folder, damage):
    damage(checkpoint(folder, 4))
    with pytest.warns(DamagedCheckpoint, match=r"000000000004\.npz: .*goes on from step 3"):
        run = Run.open(folder, {"steps": 6})
    with run:
        assert run.step == 3
        assert run.restore(STATE) == state(3)
        assert [row["step"] for row in run.metrics()] == [1, 2, 3]
        run.log(4, x=4)
        run.checkpoint(4, state(4))
    with Run.open(folder) as run:  # no second warning
        assert run.step == 4
        assert run.restore(STATE) == state(4)


def test_a_damaged_checkpoint_does_not_count_among_those_kept(folder):
    empty(checkpoint(folder, 4))
    with pytest.warns(DamagedCheckpoint), Run.open(folder, keep=1) as run:
        run.checkpoint(3, state(3))
    assert names(folder) == ["000000000003.npz", "000000000004.npz.damaged"]
    with Run.restart(folder, {"steps": 6}):
        assert names(folder) == []


def test_every_damaged_checkpoint_is_named(folder):
    empty(checkpoint(folder, 4))
    tear(checkpoint(folder, 3))
    with pytest.warns(DamagedCheckpoint) as warned, Run.open(folder) as run:
        assert run.step == 2
    for warning, step in zip(warned, (4, 3), strict=True):
        assert str(checkpoint(folder, step)) in str(warning.message)


def test_nothing_but_damaged_checkpoints_is_refused(folder):
    for step in (2, 3, 4):
        empty(checkpoint(folder, step))
    with pytest.raises(ValueError, match=r"found 3, all damaged: .*000000000004\.npz"):
        Run.open(folder)
    assert len(names(folder)) == 3  # none was set aside


def test_a_state_of_another_structure_is_no_damage(folder):
    with Run.open(folder) as run, pytest.raises(ValueError, match="like: expected the structure"):
        run.restore({"y": 0.0})


def test_a_finished_run_does_not_need_its_checkpoints(folder):
    with Run.open(folder) as run:
        run.finish(Record("test", scalars={"x": 1}))
    empty(checkpoint(folder, 4))
    with Run.open(folder) as run:
        assert run.record().scalars == {"x": 1}


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
@pytest.mark.parametrize("name", ["config.json", "environment.json"])
def test_a_broken_file_is_named_on_resuming(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"run/{name}: expected"):
        Run.open(folder)
    with pytest.raises(ValueError, match=rf"run/{name}: expected"):  # the lock was released
        Run.open(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b'{"name": "test"}'])
def test_a_broken_record_is_named(tmp_path, content):
    Record("test").save(tmp_path)
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"record\.json: expected"):
        Record.load(tmp_path)


def test_a_disk_without_locks_is_not_a_folder_in_use(tmp_path, monkeypatch):
    def refuse(file):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(_lock, "_try_lock", refuse)
    with pytest.raises(OSError, match="lock") as refused:
        Run.create(tmp_path / "run", {})
    assert not isinstance(refused.value, FolderInUse)
    assert refused.value.filename == str(tmp_path / "run" / "lock")
