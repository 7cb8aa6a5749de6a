"""Atomic writes: all or nothing, no litter, ordinary permissions."""

import errno
import os
import stat

import numpy as np
import pytest

from equipoise.core.files import atomic_write, read_bytes, write_bytes, write_text


def test_the_target_appears_only_when_the_block_ends(tmp_path):
    target = tmp_path / "a.txt"
    with atomic_write(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
        assert temporary.parent == target.parent
        assert temporary.suffix == ".txt"
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_the_old_file_and_no_litter(tmp_path, error):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def interrupted():
        with atomic_write(target) as temporary:
            temporary.write_text("half of the n")
            raise error

    with pytest.raises(error):
        interrupted()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_numpy_writes_to_the_yielded_path_as_it_is(tmp_path):
    target = tmp_path / "a.npz"
    with atomic_write(target) as temporary:
        np.savez(temporary, x=np.arange(3))
    with np.load(target, allow_pickle=False) as data:
        assert data["x"].tolist() == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 1


def test_text_is_utf8_with_plain_line_ends(tmp_path):
    write_text(tmp_path / "a", "ε\n")
    assert (tmp_path / "a").read_bytes() == b"\xce\xb5\n"
    write_bytes(tmp_path / "a", b"\x00\x01")
    assert (tmp_path / "a").read_bytes() == b"\x00\x01"


def test_a_missing_folder_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_text(tmp_path / "nowhere" / "a", "")


def test_errors_name_the_target_and_not_the_temporary_file(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        write_text(tmp_path / "nowhere" / "a", "")
    assert missing.value.filename == str(tmp_path / "nowhere" / "a")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder") as taken:  # found out at the very end
        write_text(tmp_path / "folder", "")
    assert (taken.value.filename, taken.value.filename2) == (str(tmp_path / "folder"), None)
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_full_disk_is_an_error_that_names_the_target(tmp_path):
    target = tmp_path / "a"
    with pytest.raises(OSError, match="No space left") as full, atomic_write(target):
        raise OSError(errno.ENOSPC, "No space left on device")  # as `write` says it
    assert full.value.filename == str(target)


def test_errors_about_other_files_keep_their_names(tmp_path):
    with pytest.raises(FileNotFoundError) as other, atomic_write(tmp_path / "a"):
        (tmp_path / "source").read_text()
    assert str(other.value.filename) == str(tmp_path / "source")


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_permissions_follow_the_umask_and_links_stay_links(tmp_path):
    mask = os.umask(0o022)
    try:
        write_text(tmp_path / "a", "first")
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(mask)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    write_text(tmp_path / "link", "second")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_text() == "second"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_devices_are_written_to_and_read_with_a_limit():
    write_text("/dev/null", "gone")
    with pytest.raises(OSError, match="No space left on device") as full:
        write_text("/dev/full", "once")
    assert full.value.filename == "/dev/full"
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    with pytest.raises(ValueError, match="/dev/zero: expected a file, or at most 64 MB"):
        read_bytes("/dev/zero")
