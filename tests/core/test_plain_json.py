"""The strict JSON of run folders."""

import json
import math
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.core.plain import differences, dumps, loads, parse_toml, read_json, to_plain


class Kind(Enum):
    FAST = 1


@dataclass
class Inner:
    step: float = 0.1


@dataclass
class Outer:
    inner: Inner = field(default_factory=Inner)
    sizes: tuple[int, ...] = (1, 2)
    kind: Kind = Kind.FAST
    path: Path = Path("a/b")


def test_nested_dataclasses_become_dicts():
    assert to_plain(Outer()) == {
        "inner": {"step": 0.1},
        "sizes": [1, 2],
        "kind": "FAST",
        "path": "a/b",
    }


def test_arrays_of_numpy_and_jax_become_lists():
    plain = to_plain({"a": np.arange(2), "b": jnp.ones(2, jnp.bfloat16), "c": np.float32(0.5)})
    assert plain == {"a": [0, 1], "b": [1.0, 1.0], "c": 0.5}
    assert type(plain["c"]) is float


@given(st.floats())
def test_floats_survive(x):
    text = dumps({"x": x})
    json.loads(text, parse_constant=pytest.fail)  # strict: no bare NaN
    again = loads(text)["x"]
    assert np.float64(again).tobytes() == np.float64(x).tobytes() or (
        math.isnan(x) and math.isnan(again)
    )


@pytest.mark.parametrize("value", [{1: 2}, {"a": object()}, {"a": [1j]}, {"a": np.array([1j])}])
def test_what_is_not_plain_is_refused_with_its_place(value):
    with pytest.raises(ValueError, match=r"config.*expected"):
        to_plain(value, "config")


def test_differences_name_every_key():
    old = {"a": 1, "b": {"c": 2, "d": [1]}, "gone": 0, "flag": True}
    new = {"a": 1, "b": {"c": 3, "d": [2]}, "new": 0, "flag": 1}
    assert differences(old, new) == [
        "b.c (2, now 3)",
        "b.d ([1], now [2])",
        "gone (0, now absent)",
        "flag (True, now 1)",
        "new (absent, now 0)",
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        ("[" * 3000, "or tables nested more than 64 deep"),
        ("[" * 100 + "]" * 100, "or tables nested more than 64 deep"),
        ("[" + "9" * 400 + "]", "a whole number beyond float64"),
        ("[" + "9" * 5000 + "]", "digits"),
        ("[1e400]", "1e400, a number beyond float64"),
        ("[NaN]", "NaN, which is not a number in JSON"),
        ("[-Infinity]", "-Infinity, which is not a number in JSON"),
        (b"\xff", "can't decode"),
        ("", "Expecting value"),
    ],
)
def test_what_is_wrong_with_json_is_told(tmp_path, text, complaint):
    (tmp_path / "a.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=rf"a\.json: expected JSON, found .*{complaint}"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a = 1\na = 2", "overwrite"),
        ("a = " + "[" * 3000, "or tables nested more than 64 deep"),
        ("a" + ".a" * 3000 + " = 1", "or tables nested more than 64 deep"),
        ("a" + " . 'b c'" * 70 + " = 1", "or tables nested more than 64 deep"),
        ('"a' + '"."\\"' * 20_000 + '" = 1', "or tables nested more than 64 deep"),
        ("# a\n" * 200_000, "a text of 800,000 characters; at most 150,000 are accepted"),
        ("a = " + "9" * 400, "a whole number beyond float64"),
        ("a = " + "9" * 5000, "digits"),
        (b"a = '\xff'", "can't decode"),
    ],
)
def test_what_is_wrong_with_toml_is_told(text, complaint):
    with pytest.raises(ValueError, match=rf"a\.toml: expected TOML, found .*{complaint}"):
        parse_toml(text, "a.toml")


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    (tmp_path / "a").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(tmp_path / "a", "a") == {"a": 1}
    with pytest.raises(ValueError, match=r"a: expected an object with b; no b"):
        read_json(tmp_path / "a", "b")


def test_long_arrays_of_toml_are_read():
    text = f"a = {[0.5] * 10_000}\nb = '{'x.' * 60}'\n[c.d]"
    assert parse_toml(text)["a"] == [0.5] * 10_000
