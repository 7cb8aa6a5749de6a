"""Trained numbers on disk: what is written is what is read, and damage is told."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from equipoise.core import weights

TREE = {"layers": (jnp.arange(6.0).reshape(2, 3), np.array([True, False])), "none": None}


@pytest.fixture
def folder(tmp_path):
    weights.write_weights(tmp_path / "new", "net", weights.named(TREE), {"kind": "a", "size": 3})
    return tmp_path / "new"


def test_what_is_written_is_what_is_read(folder):
    arrays, read = weights.named(TREE), weights.read_arrays(folder / "net.safetensors")
    assert set(read) == set(arrays) == {"['layers'][0]", "['layers'][1]"}
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
    described = weights.read_description(folder / "net.json", ("kind", "size"))
    assert described == {"format": 1, "kind": "a", "size": 3}
    assert sorted(path.name for path in folder.iterdir()) == ["net.json", "net.safetensors"]


def test_arrays_in_any_memory_order_come_back(tmp_path):
    transposed = np.arange(6.0).reshape(2, 3).T
    weights.write_weights(tmp_path, "net", {"w": transposed}, {})
    np.testing.assert_array_equal(
        weights.read_arrays(tmp_path / "net.safetensors")["w"], transposed
    )


def test_a_fingerprint_tells_names_and_numbers_apart_and_no_order():
    a, b = np.arange(2.0), np.ones(3)
    word = weights.fingerprint({"a": a, "b": b})
    assert word == weights.fingerprint({"b": b, "a": a.copy()})
    assert len({word, *map(weights.fingerprint, ({"a": b, "b": a}, {"a": a, "c": b}))}) == 3


@pytest.mark.parametrize("kept", [0, 4, 60, -1])
def test_damaged_arrays_are_refused_by_name(folder, kept):
    path = folder / "net.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"net\.safetensors: expected a safetensors file"):
        weights.read_arrays(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"format": 1', r"net\.json: expected JSON"),
        ("[1]", r"net\.json: expected a JSON object, found list"),
        (json.dumps({"format": 2, "kind": "a", "size": 3}), "expected format 1, found 2"),
        (json.dumps({"format": 1, "kind": "a"}), r"net\.json: expected the key 'size', found"),
    ],
)
def test_a_description_that_is_none_or_lacks_a_part_is_refused(folder, text, complaint):
    (folder / "net.json").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        weights.read_description(folder / "net.json", ("kind", "size"))
