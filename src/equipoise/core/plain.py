"""JSON that every reader accepts and that gives back the same numbers.

Numbers survive bit for bit, since Python writes the shortest text that reads back the same.
JSON has no NaN and no infinity: they are written as the strings "NaN", "Infinity" and
"-Infinity" (as protocol buffers do), and `loads` turns these back into numbers.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_plain(value: Any, where: str = "value") -> Any:
    """Return `value` as dicts, lists, strings, numbers, booleans and None.

    Takes nested dataclasses, mappings, sequences, enumerations, paths and arrays; refuses
    anything else, naming where it was found.

    >>> to_plain({"sizes": (1, 2), "scale": float("inf")})
    {'sizes': [1, 2], 'scale': 'Infinity'}
    """
    if value is None or (isinstance(value, bool | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return value.name
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
    if array.dtype.kind == "V":  # bfloat16 and its like, all of which float64 holds exactly
        array = array.astype(np.float64)
    plain = array.tolist()
    # Large arrays are lists of numbers already, unless some are not finite.
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


def loads(text: str) -> Any:
    """Read what `dumps` wrote.

    >>> loads('{"gap": 0.1, "bound": "Infinity"}')
    {'gap': 0.1, 'bound': inf}
    """
    return revive(json.loads(text))


def read_json(path: str | PathLike[str], *keys: str) -> dict[str, Any]:
    """Read a file that holds one JSON object with these keys; what is wrong names the file.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "a.json").write_text('{"steps": 3}')
    ...     read_json(folder + "/a.json", "steps")
    {'steps': 3}
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: expected JSON, found {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(content).__name__}")
    missing = [key for key in keys if key not in content]
    if missing:
        raise ValueError(f"{path}: expected an object with {', '.join(keys)}; no {missing[0]}")
    return content


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
