"""Files of a run that were damaged: an earlier checkpoint serves; the rest is named."""

import errno
import json
import os

import pytest

from equipoise.runs import DamagedCheckpoint, FolderInUse, Record, Run, _folder, read_metrics

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
    return sorted(p.name for p in folder.glob("checkpoints/*"))


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
    with pytest.warns(DamagedCheckpoint, match=r"000000000004\.npz: .*resumes from step 3"):
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


def test_a_finished_run_has_no_checkpoints(folder):
    kept = checkpoint(folder, 4).read_bytes()
    with Run.open(folder) as run:
        run.finish(Record("test", scalars={"x": 1}))
    assert not (folder / "checkpoints").exists()
    (folder / "checkpoints").mkdir()
    checkpoint(folder, 4).write_bytes(kept)  # as if it had been killed before removing them
    with Run.open(folder) as run:
        assert run.record().scalars == {"x": 1}
    assert not (folder / "checkpoints").exists()


@pytest.mark.parametrize("last", [5, 4])
def test_a_renamed_checkpoint_is_refused(folder, last):
    """An older one over the newest, or the newest under a later name."""
    checkpoint(folder, last).write_bytes(checkpoint(folder, last - 1).read_bytes())
    with pytest.raises(ValueError, match=rf"expected the checkpoint of step {last}, found one of"):
        Run.open(folder, {"steps": 6})
    checkpoint(folder, last).unlink()
    with Run.open(folder) as run:  # as the message says
        assert run.restore(STATE) == state(last - 1)


def test_a_checkpoint_of_another_run_is_refused(folder, tmp_path):
    with Run.create(tmp_path / "other", {"steps": 7}) as run:
        run.checkpoint(4, state(9))
    checkpoint(folder, 4).write_bytes(checkpoint(tmp_path / "other", 4).read_bytes())
    with pytest.raises(ValueError, match=r"0004\.npz: .* found one of a run with another config"):
        Run.open(folder, {"steps": 6})


@pytest.mark.parametrize(
    ("old", "new", "row"),
    [(b'"x": 2', b'"x": 7', 2), (b'"x": 3}', b'"x": 3 ', 3), (b'1}\n{"', b'1}, {"', 1)],
)
def test_a_damaged_row_of_metrics_is_named(folder, old, new, row):
    file = folder / "metrics.jsonl"
    content = file.read_bytes()
    assert old in content
    file.write_bytes(content.replace(old, new))
    with pytest.raises(ValueError, match=rf"metrics\.jsonl: line {row}: expected the same row"):
        Run.open(folder)


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_the_lock_does_not_follow_links(tmp_path, link):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "run").mkdir()
    link(victim, tmp_path / "run" / "lock")
    with pytest.raises(ValueError, match=r"run/lock: expected a file of its own, found a link"):
        Run.start(tmp_path / "run", {})
    assert victim.read_text() == "mine"


def test_a_folder_that_holds_only_a_lock_can_be_started(tmp_path):
    folder = tmp_path / "run"
    assert Run.can_start(folder)
    folder.mkdir()
    (folder / "lock").write_text("process 1 on nowhere")
    assert Run.can_start(folder)
    with Run.start(folder, {"a": 1}):
        assert Run.can_start(folder)
    (tmp_path / "thesis.tex").touch()
    assert not Run.can_start(tmp_path)
    assert not Run.can_start(tmp_path / "thesis.tex")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
@pytest.mark.parametrize("name", ["config.json", "environment.json"])
def test_a_broken_file_is_named_on_resuming(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"run/{name}: expected"):
        Run.open(folder)
    with pytest.raises(ValueError, match=rf"run/{name}: expected"):  # the lock was released
        Run.open(folder)


@pytest.mark.parametrize(
    "content", ['{"sessions": 3}', '{"sessions": [3]}', '{"sessions": [{"seconds": "x"}]}']
)
def test_sessions_that_make_no_sense_are_named(folder, content):
    (folder / "environment.json").write_text(content)
    with pytest.raises(ValueError, match=r"environment\.json: sessions.*: expected"):
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

    monkeypatch.setattr(_folder, "_try_lock", refuse)
    with pytest.raises(OSError, match="lock") as refused:
        Run.create(tmp_path / "run", {})
    assert not isinstance(refused.value, FolderInUse)
    assert refused.value.filename == str(tmp_path / "run" / "lock")


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_metrics_are_never_written_through_a_link(tmp_path, link):
    victim = tmp_path / "victim"
    victim.write_text("dear\n")
    Run.create(tmp_path / "run", {}).close()
    (tmp_path / "run" / "metrics.jsonl").unlink()
    link(victim, tmp_path / "run" / "metrics.jsonl")
    with pytest.raises(ValueError, match=r"metrics\.jsonl: expected a file of its own"):
        Run.open(tmp_path / "run")
    assert victim.read_text() == "dear\n"


@pytest.mark.parametrize("name", ["metrics.jsonl", "record.json"])
def test_what_was_edited_after_the_end_is_refused(tmp_path, name):
    with Run.create(tmp_path / "run", {}) as run:
        run.log(1, gap=0.5)
        run.finish(Record("coins", {}, {"gap": 0.5}))
    assert Record.load(tmp_path / "run").scalars == {"gap": 0.5}
    file = tmp_path / "run" / name
    file.write_text(file.read_text().replace("0.5", "0.25"))
    with pytest.raises(ValueError, match=f"{name}: expected .* damaged or edited"):
        Run.open(tmp_path / "run")
    with pytest.raises(ValueError, match=f"{name}: expected .* damaged or edited"):
        read_metrics(tmp_path / "run")


def test_records_without_digests_are_still_read(tmp_path):
    with Run.create(tmp_path / "run", {}) as run:
        run.log(1, gap=0.5)
        run.finish(Record("coins", {}, {"gap": 0.5}))
    file = tmp_path / "run" / "record.json"
    content = json.loads(file.read_text())
    del content["sha256"], content["metrics_sha256"]
    file.write_text(json.dumps(content))
    assert Record.load(tmp_path / "run").scalars == {"gap": 0.5}
    assert read_metrics(tmp_path / "run") == [{"step": 1, "gap": 0.5}]


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
@pytest.mark.parametrize(
    "name", ["config.json", "record.json", "environment.json", "policy.json", "checkpoints/9.npz"]
)
@pytest.mark.parametrize("make", [os.symlink, None])
def test_nothing_of_a_run_is_a_link_or_a_pipe(folder, tmp_path, name, make):
    """A link would be written through, and a pipe waited for."""
    victim = tmp_path / "victim"
    source = folder / name
    victim.write_bytes(source.read_bytes() if source.exists() else b"mine")
    kept = victim.read_bytes()
    source.unlink(missing_ok=True)
    if make is None:
        os.mkfifo(source)
    else:
        make(victim, source)
    for enter in (Run.open, lambda path: Run.restart(path, {})):
        with pytest.raises(ValueError, match=rf"run/{name}: expected a file of its own"):
            enter(folder)
    assert victim.read_bytes() == kept


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_checkpoints_behind_a_link_are_left_alone(folder, tmp_path):
    data = tmp_path / "data"
    (folder / "checkpoints").rename(data)
    (data / "42.npz").write_bytes(b"mine")
    kept = sorted(data.iterdir())
    os.symlink(data, folder / "checkpoints")
    with pytest.raises(ValueError, match=r"run/checkpoints: expected a file of its own"):
        Run.open(folder)
    assert sorted(data.iterdir()) == kept


@pytest.mark.parametrize("step", [-1, True])
def test_steps_are_whole_numbers(tmp_path, step):
    """A checkpoint of step -1 would not be found again."""
    with Run.create(tmp_path / "run", {}) as run:
        with pytest.raises(ValueError, match="step: expected a whole number >= 0"):
            run.checkpoint(step, 0)
        with pytest.raises(ValueError, match="step: expected a whole number >= 0"):
            run.log(step)


def test_names_that_are_no_steps_are_no_checkpoints(folder):
    (folder / "checkpoints" / "\u00b2.npz").write_bytes(b"")
    with Run.open(folder) as run:
        assert run.step > 0


def test_a_config_that_holds_itself_is_refused(tmp_path):
    config: dict = {}
    config["config"] = config
    with pytest.raises(ValueError, match="config: expected plain data, found a container"):
        Run.create(tmp_path / "run", config)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="devices of POSIX")
def test_metrics_and_records_behind_a_device_are_refused(tmp_path):
    """They would take all memory, or never end."""
    with Run.create(tmp_path / "run", {}) as run:
        run.log(1, gap=0.5)
        run.finish(Record("sums", {}, {"gap": 0.5}))
    for name, read in (("metrics.jsonl", read_metrics), ("record.npz", Record.load)):
        kept = (tmp_path / "run" / name).read_bytes()
        (tmp_path / "run" / name).unlink()
        (tmp_path / "run" / name).symlink_to("/dev/zero")
        with pytest.raises(ValueError, match=rf"{name}: expected a file"):
            read(tmp_path / "run")
        (tmp_path / "run" / name).unlink()
        (tmp_path / "run" / name).write_bytes(kept)
