"""Arrays on disk: any bytes are read or refused, and nothing is allocated before it is checked."""

import io
import os
import random
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from equipoise.core.arrays import open_npz, read_npz, write_npz

ARRAYS = {
    "floats": np.arange(6.0).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "words": np.array(["a", "bc"]),
    "flags": np.array([True, False]),
    "one": np.array(0.5),
    "none": np.zeros((0, 3), np.float32),
    "complex": np.array([1j]),
}


def npy(header, data=b""):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def archive(path, member, compression=zipfile.ZIP_STORED, name="x.npy"):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr(name, member)
    return path


def test_what_is_written_is_what_is_read(tmp_path):
    write_npz(tmp_path / "a.npz", ARRAYS)
    np.savez(tmp_path / "b.npz", **ARRAYS)
    np.savez_compressed(tmp_path / "c.npz", **ARRAYS)
    for name in ("a", "b", "c"):
        found = read_npz(tmp_path / f"{name}.npz")
        assert list(found) == list(ARRAYS)
        for key, array in ARRAYS.items():
            assert (found[key].dtype, found[key].shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(found[key], array)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as numpys:  # also as NumPy sees it
        np.testing.assert_array_equal(numpys["columns"], ARRAYS["columns"])
    assert list(read_npz(tmp_path / "a.npz", only="one")) == ["one"]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_rows_are_read_some_at_a_time(tmp_path, save):
    whole = np.arange(20.0).reshape(10, 2)
    save(tmp_path / "a.npz", x=whole, y=np.arange(10))
    with open_npz(tmp_path / "a.npz") as arrays:
        x, y = arrays["x"], arrays["y"]
        parts = [(x.read(4), y.read(4)) for _ in range(3)]
        assert x.left == y.left == 0
    np.testing.assert_array_equal(np.concatenate([part for part, _ in parts]), whole)
    assert [len(part) for _, part in parts] == [4, 4, 2]


@pytest.mark.parametrize(
    "header",
    [
        b"{ ",
        b"",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (True, 2), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }" % (b"9" * 400),
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 999999999999999999), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999999999,), }",
        b"{'descr': '<f3', 'fortran_order': False, 'shape': (2,), }",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
        b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }",
        b"{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (2,), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), 'more': True}",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }, 1",
        b"{'descr': '<f8', 'fortran_order': False, }",
        b"[" * 3000,
    ],
)
def test_headers_that_say_nonsense_are_refused(tmp_path, header):
    path = archive(tmp_path / "a.npz", npy(header, np.zeros(2).tobytes()))
    with pytest.raises(ValueError, match=r"a\.npz: expected an \.npz file of arrays, found"):
        read_npz(path)


def test_headers_of_other_writers_are_read(tmp_path):
    for header in (
        b'{"shape": (2L,), "descr": "<f8", "fortran_order": False}',
        b"{'descr':'<f8','shape':(2,),'fortran_order':True,}\n",
    ):
        path = archive(tmp_path / "a.npz", npy(header, np.ones(2).tobytes()))
        assert read_npz(path)["x"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", [np.float64, np.int8])
def test_bombs_are_refused_before_they_are_allocated(tmp_path, dtype):
    """Of eight-byte numbers, or of what becomes such when it is read."""
    whole = io.BytesIO()
    np.save(whole, np.zeros(9_000_000, dtype))
    path = archive(tmp_path / "a.npz", whole.getvalue(), zipfile.ZIP_DEFLATED)
    del whole
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="compressed too strongly"):
            read_npz(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_size_that_the_archive_lies_about_is_refused(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000,), }"
    path = archive(tmp_path / "a.npz", npy(header, bytes(8000)), zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    place = data.rfind(b"PK\x01\x02") + 24
    data[place : place + 4] = struct.pack("<I", 80)
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.npz: expected an \.npz file of arrays"):
        read_npz(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_other_archives_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as file:
        file.writestr("x.npy", npy(b""))
        file.writestr("x.npy", npy(b""))
    archive(tmp_path / "lzma.npz", npy(b""), zipfile.ZIP_LZMA)
    archive(tmp_path / "text.npz", b"hello")
    encrypted = bytearray(archive(tmp_path / "encrypted.npz", npy(b"")).read_bytes())
    encrypted[6] |= 1
    encrypted[encrypted.rfind(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "encrypted.npz").write_bytes(encrypted)
    for name in ("twice", "lzma", "text", "encrypted"):
        with pytest.raises(ValueError, match=rf"{name}\.npz: expected an \.npz file of arrays"):
            read_npz(tmp_path / f"{name}.npz")
    with pytest.raises(FileNotFoundError):
        read_npz(tmp_path / "missing.npz")


def test_any_bytes_are_read_or_refused(tmp_path):
    """Archives with a few bytes changed, cut or put in, a thousand times."""
    path, chance = tmp_path / "a.npz", random.Random(0)
    originals = []
    for save in (np.savez, np.savez_compressed):
        save(path, **ARRAYS)
        originals.append(path.read_bytes())
    complaints = []
    for _ in range(1000):
        data = bytearray(chance.choice(originals))
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(data))
            if chance.random() < 0.8:
                data[place] = chance.randrange(256)
            elif chance.random() < 0.5:
                del data[place : place + chance.randint(1, 40)]
            else:
                data[place:place] = chance.randbytes(chance.randint(1, 40))
        path.write_bytes(data)
        try:
            read_npz(path)
        except ValueError as error:
            complaints.append(str(error))
    assert len(complaints) > 500
    assert all(str(path) in complaint for complaint in complaints)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="devices of POSIX")
def test_devices_are_refused_before_they_are_read(tmp_path):
    (tmp_path / "zero.npz").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.npz")
    for name in ("zero.npz", "pipe.npz"):
        with pytest.raises(ValueError, match="expected a file, found a device or a pipe"):
            read_npz(tmp_path / name)
