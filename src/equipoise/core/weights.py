"""Trained parameters on disk: arrays in safetensors, with a JSON description next to them."""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.files import read_bytes, write_bytes, write_text
from equipoise.core.plain import dumps, read_json, revive


def named(tree: Any) -> dict[str, Any]:
    """Return the arrays of a tree, or their shapes, named by their position in the tree.

    >>> import numpy as np
    >>> named({"first": (np.zeros(2), None)})
    {"['first'][0]": array([0., 0.])}
    """
    import jax

    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {
        jax.tree_util.keystr(path): np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf
        for path, leaf in flat
    }


def fingerprint(arrays: Mapping[str, Any]) -> str:
    """Return a digest that identifies these arrays.

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
    """Write `stem.safetensors`, then `stem.json`, which marks the pair as complete."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_bytes(folder / f"{stem}.safetensors", save(plain))
    text = dumps({"format": 1, **described}, "description", indent=2)
    write_text(folder / f"{stem}.json", text + "\n")


def read_description(path: Path, parts: tuple[str, ...]) -> dict[str, Any]:
    """Return the JSON description of the arrays; reject a file that lacks one of the parts."""
    content = read_json(path)
    if content.get("format") != 1:
        raise ValueError(f"{path}: expected format 1, found {content.get('format')!r:.60}")
    missing = [part for part in parts if part not in content]
    if missing:
        raise InputError(str(path), f"the key {missing[0]!r}", sorted(content))
    return revive(content)


@contextmanager
def as_described(path: Path) -> Iterator[None]:
    """Turn errors about missing or mistyped entries of a description into a `ValueError`.

    The error names the description's file.

    >>> with as_described(Path("players.json")):
    ...     {}["actions"]
    Traceback (most recent call last):
    ...
    ValueError: players.json: expected a description with 'actions', found none
    """
    try:
        yield
    except KeyError as error:
        raise ValueError(
            f"{path}: expected a description with {error.args[0]!r:.60}, found none"
        ) from error
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        if str(path.parent) in str(error):  # the error names the file already
            raise
        raise ValueError(f"{path}: expected a valid description; {error}") from error


def read_arrays(path: Path, endless: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Return the arrays of a safetensors file; reject damaged files and non-finite weights.

    Arrays named in `endless` may contain NaN and infinities.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = read_bytes(path)
    try:
        arrays = load(data)
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            f"{path}: expected a safetensors file, found a damaged one ({error})"
        ) from error
    for name, array in arrays.items():
        if array.dtype.kind in "fV" and name not in endless and not np.isfinite(array).all():
            raise ValueError(f"{path}: {name}: expected finite numbers, found NaN or infinity")
    return arrays
