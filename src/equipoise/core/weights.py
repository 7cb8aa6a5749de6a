"""Trained numbers on disk: arrays in safetensors, and what they are in JSON beside them."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equipoise.core.files import atomic_write, write_text


def named(tree: Any) -> dict[str, Any]:
    """The arrays of a tree, or their shapes, under the names of their places.

    >>> import numpy as np
    >>> named({"first": (np.zeros(2), None)})
    {"['first'][0]": array([0., 0.])}
    """
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {
        jax.tree_util.keystr(path): np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf
        for path, leaf in flat
    }


def fingerprint(arrays: Mapping[str, Any]) -> str:
    """A word that says which arrays these are.

    >>> import numpy as np
    >>> fingerprint({"a": np.zeros(2)}) == fingerprint({"a": np.ones(2)})
    False
    """
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def write_weights(
    folder: Path, stem: str, arrays: Mapping[str, Any], described: Mapping[str, Any]
) -> None:
    """Write `stem.safetensors`, then `stem.json`, which completes it."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with atomic_write(folder / f"{stem}.safetensors") as temporary:
        temporary.write_bytes(save(plain))
    write_text(folder / f"{stem}.json", json.dumps({"format": 1, **described}, indent=2) + "\n")


def read_description(path: Path, parts: tuple[str, ...]) -> dict[str, Any]:
    """What is written beside the arrays; refuses a file without one of the parts."""
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: expected JSON, found something else ({error})") from error
    form = content.get("format") if isinstance(content, dict) else None
    if form != 1:
        raise ValueError(f"{path}: expected format 1, found {form}")
    missing = [part for part in parts if part not in content]
    if missing:
        raise ValueError(f"{path}: expected {missing[0]!r} in it, found {sorted(content)}")
    return content


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file; refuses a damaged one."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(
            f"{path}: expected a safetensors file, found a damaged one ({error})"
        ) from error
