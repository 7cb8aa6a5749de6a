"""Strict JSON that every parser accepts and that restores the same numbers.

Numbers survive bit for bit, since Python writes the shortest text that reads back the same.
JSON has no NaN and no infinity: they are written as the strings "NaN", "Infinity" and
"-Infinity" (as in protocol buffers), and `loads` turns these back into numbers.

This module reads JSON and TOML for the whole library. Any bytes give a value or a `ValueError`.
"""

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from os import PathLike, fspath
from typing import Any

import numpy as np

from equipoise.core.files import read_bytes

#: Deepest nesting of lists and tables, and the largest whole number.
_DEEPEST, _LARGEST = 64, 10**308
_TOO_DEEP = f"lists or tables nested more than {_DEEPEST} deep"
#: A JSON or TOML string on one line, and the brackets that are counted outside of strings.
_STRING = re.compile(r"""(?:"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')""")
_OPENING, _CLOSING = np.frombuffer(b"[{", np.uint8), np.frombuffer(b"]}", np.uint8)
#: The longest TOML text accepted, one part of a key, and a dotted key with too many parts.
_LONGEST_TOML = 150_000
_KEY = r"""(?:"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'|[\w-]++)"""
_DOTTED = re.compile(rf"(?<![\w\\-])(?:{_KEY}[ \t]*+\.[ \t]*+){{{_DEEPEST}}}")
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_plain(value: Any, where: str = "value") -> Any:
    """Return `value` as dicts, lists, strings, numbers, booleans and None.

    Accepts nested dataclasses, mappings, sequences, enumerations, paths and arrays. Any other
    value raises an error that names its position.

    >>> to_plain({"sizes": (1, 2), "scale": float("inf")})
    {'sizes': [1, 2], 'scale': 'Infinity'}
    """
    if value is None or (isinstance(value, bool | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return str(value) if isinstance(value, str) else value.name
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _plain_float(float(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: to_plain(getattr(value, f.name), f"{where}.{f.name}") for f in fields(value)
        }
    if isinstance(value, Mapping):
        return {_plain_key(k, where): to_plain(v, f"{where}.{k}") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, PathLike):
        return str(fspath(value))
    if hasattr(value, "__array__"):
        return _plain_array(value, where)
    raise ValueError(
        f"{where}: expected numbers, strings, lists, dicts or dataclasses, "
        f"found {type(value).__name__}"
    )


def _plain_float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _plain_key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise ValueError(f"{where}: expected keys that are strings, found {key!r}")
    return key


def _plain_array(value: Any, where: str) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "fiubUV" or array.dtype.names is not None:
        raise ValueError(f"{where}: expected real numbers, found dtype {array.dtype}")
    if array.dtype.kind == "V":  # bfloat16 and similar types, which float64 represents exactly
        array = array.astype(np.float64)
    plain = array.tolist()
    # Large arrays are lists of numbers already, unless some entries are not finite.
    return plain if array.dtype.kind in "iub" or _all_finite(array) else to_plain(plain, where)


def _all_finite(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and bool(np.isfinite(array).all())


def revive(value: Any) -> Any:
    """Turn "NaN", "Infinity" and "-Infinity" in a plain value back into numbers.

    >>> revive(["Infinity", 1, "one"])
    [inf, 1, 'one']
    """
    if isinstance(value, dict):
        return {key: revive(item) for key, item in value.items()}
    if isinstance(value, list):
        return [revive(item) for item in value]
    if isinstance(value, str):
        return _NON_FINITE.get(value, value)
    return value


def dumps(value: Any, where: str = "value", indent: int | None = None) -> str:
    """Return `value` as strict JSON.

    >>> dumps({"gap": 0.1, "bound": float("nan")})
    '{"gap": 0.1, "bound": "NaN"}'
    """
    return json.dumps(to_plain(value, where), allow_nan=False, ensure_ascii=False, indent=indent)


def loads(text: str | bytes, where: str = "text") -> Any:
    """Read text written by `dumps`.

    >>> loads('{"gap": 0.1, "bound": "Infinity"}')
    {'gap': 0.1, 'bound': inf}
    """
    return revive(parse_json(text, where))


def parse_json(text: str | bytes, where: str = "text") -> Any:
    """Parse JSON text; a `ValueError` that begins with `where` says what is wrong.

    Rejects duplicate keys, NaN and infinities, numbers beyond float64 and lists that are nested
    more than 64 deep.

    >>> parse_json('{"a": 1, "a": 2}', "a.json")
    Traceback (most recent call last):
    ...
    ValueError: a.json: expected JSON, found the key 'a' twice
    """
    with _complaints(where, "JSON"):
        decoded = _decoded(text)
        _check_depth(decoded)
        value = json.loads(
            decoded,
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
        )
        _check_sizes(value)
    return value


def parse_toml(text: str | bytes, where: str = "text") -> dict[str, Any]:
    """Parse TOML text under the rules of `parse_json`; TOML allows `nan` and `inf`.

    >>> parse_toml("agents = 3")
    {'agents': 3}
    """
    with _complaints(where, "TOML"):
        # Tables take up to 470 times the memory of their text, dotted keys its length squared.
        if len(text) > _LONGEST_TOML:
            raise ValueError(
                f"a text of {len(text):,} characters; at most {_LONGEST_TOML:,} are accepted"
            )
        decoded = _decoded(text)
        if _DOTTED.search(decoded):
            raise ValueError(_TOO_DEEP)
        _check_depth(decoded)
        value = tomllib.loads(decoded)
        _check_sizes(value)
    return value


def _check_depth(text: str) -> None:
    """Reject brackets that are nested too deeply for a parser, whatever Python's limit is."""
    bare = np.frombuffer(_STRING.sub("", text).encode(errors="replace"), np.uint8)
    steps = np.isin(bare, _OPENING).astype(np.int32) - np.isin(bare, _CLOSING)
    if np.cumsum(steps).max(initial=0) > _DEEPEST:
        raise ValueError(_TOO_DEEP)


def to_toml(table: Mapping[str, Any]) -> str:
    """Return a table of plain values and lists of them as TOML.

    >>> print(to_toml({"game": "oneill", "set": ["a=1"], "tolerance": 1e-6}), end="")
    game = "oneill"
    set = ["a=1"]
    tolerance = 1e-06
    """
    return "".join(f"{key} = {_toml_value(value)}\n" for key, value in table.items())


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml_value, value))}]"
    # A JSON string is a TOML string, except for one control character that JSON does not escape.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def read_json(path: str | PathLike[str], *keys: str) -> dict[str, Any]:
    """Read a file that holds one JSON object with these keys; errors name the file.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "a.json").write_text('{"steps": 3}')
    ...     read_json(folder + "/a.json", "steps")
    {'steps': 3}
    """
    content = read_json_value(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(content).__name__}")
    missing = [key for key in keys if key not in content]
    if missing:
        raise ValueError(f"{path}: expected an object with {', '.join(keys)}; no {missing[0]}")
    return content


def read_json_value(path: str | PathLike[str]) -> Any:
    """Read a file that holds any JSON value."""
    return parse_json(read_bytes(path), str(path))


def expect(where: str, value: Any, kind: Any, meaning: str) -> Any:
    """Return `value` if it is of this kind; otherwise raise an error. True is not a number.

    >>> expect("record.json: scalars", [1], dict, "an object")
    Traceback (most recent call last):
    ...
    ValueError: record.json: scalars: expected an object, found list
    """
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where}: expected {meaning}, found {type(value).__name__}")
    return value


@contextmanager
def _complaints(where: str, language: str) -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise ValueError(f"{where}: expected {language}, found {_TOO_DEEP}") from error
    except ValueError as error:
        raise ValueError(f"{where}: expected {language}, found {error}") from error


def _decoded(text: str | bytes) -> str:
    return text.decode("utf-8-sig") if isinstance(text, bytes) else text


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice!r:.60} twice")
    return found


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name}, which is not a number in JSON")


def _finite_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text:.30}, a number beyond float64")
    return value


def _check_sizes(value: Any, left: int = _DEEPEST) -> None:
    """Reject values that would break a reader: deep nesting, whole numbers beyond float64."""
    if isinstance(value, dict | list):
        if not left:
            raise ValueError(_TOO_DEEP)
        for item in value.values() if isinstance(value, dict) else value:
            if not isinstance(item, float | str):
                _check_sizes(item, left - 1)
    elif isinstance(value, int) and abs(value) > _LARGEST:
        raise ValueError("a whole number beyond float64")


def differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Name the keys at which two plain values differ, with both values.

    >>> differences({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}})
    ['b.c (2, now 3)']
    """
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in [*old, *(k for k in new if k not in old)]:
            name = f"{where}.{key}" if where else key
            if key not in new:
                found.append(f"{name} ({old[key]!r}, now absent)")
            elif key not in old:
                found.append(f"{name} (absent, now {new[key]!r})")
            else:
                found.extend(differences(old[key], new[key], name))
        return found
    # True == 1 and 1 == 1.0 in Python, but not in a config.
    if dumps(old) == dumps(new):
        return []
    return [f"{where or 'config'} ({old!r}, now {new!r})"]
