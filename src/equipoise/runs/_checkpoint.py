"""Checkpoints: the leaves of a pytree in one `.npz` file, restored bit for bit.

The tree structure is not stored. The reader passes a tree of the same structure, which a program
that resumes has anyway (its initial state). The checkpoint determines the type of each leaf: a JAX
array, a typed JAX key, a NumPy array, a Python number or a string. It also determines the dtype,
including bfloat16 and float64, and whether an array is weakly typed, since that decides later
promotions. Functions are not data: they are taken from the given tree. Other objects are refused.
"""

import hashlib
import json
import os
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.core.arrays import pack, read_npz, unpack, write_npz

#: Entries of the `.npz` file that describe the others (JSON as bytes), and the checksums of rows.
_MANIFEST, _ROWS = "manifest", "rows"


class DamagedCheckpoint(UserWarning):
    """Warning: a checkpoint cannot be read, and the run resumes from an earlier one.

    **Example**

    >>> import pathlib, tempfile, warnings
    >>> from equipoise.runs import DamagedCheckpoint, Run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Run.create(folder + "/run", {}) as run:
    ...         run.checkpoint(1, "first")
    ...         run.checkpoint(2, "second")
    ...     _ = pathlib.Path(folder, "run", "checkpoints", "000000000002.npz").write_bytes(b"")
    ...     with warnings.catch_warnings(action="ignore", category=DamagedCheckpoint):
    ...         with Run.open(folder + "/run") as run:
    ...             run.step, run.restore("")
    (1, 'first')
    """


def save_checkpoint(
    path: str | os.PathLike[str], tree: Any, rows: Any = (), **facts: int | float | str | None
) -> None:
    """Write the leaves of `tree` to `path` atomically, with checksums of rows and some facts.

    The file contains a digest of all its content.

    **Example**

    >>> import tempfile, numpy as np
    >>> state = {"mean": np.float32(0.1), "rounds": 7}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_checkpoint(folder + "/a.npz", state, step=7)
    ...     load_checkpoint(folder + "/a.npz", like={"mean": 0.0, "rounds": 0})
    {'mean': np.float32(0.1), 'rounds': 7}
    """
    import jax

    entries: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {_ROWS: np.asarray(rows, np.uint32)}
    for index, (key_path, leaf) in enumerate(jax.tree_util.tree_flatten_with_path(tree)[0]):
        where = jax.tree_util.keystr(key_path)
        entry, array = _describe(f"state{where}", leaf)
        entries.append({"path": where, **entry})
        if array is not None:
            arrays[f"{index:06d}"] = array
    manifest = {"leaves": entries, **facts}
    manifest["digest"] = _digest(manifest, arrays)
    arrays[_MANIFEST] = np.frombuffer(json.dumps(manifest, allow_nan=False).encode(), np.uint8)
    write_npz(path, arrays)


def load_checkpoint(path: str | os.PathLike[str], like: Any) -> Any:
    """Read a checkpoint of `save_checkpoint` into a tree with the structure of `like`.

    Refuses a tree with other leaves or shapes, and names the first difference. An array whose
    first axis has length zero in `like` may have any number of rows in the checkpoint.
    """
    import jax

    facts, arrays = _read(path)
    entries = facts["leaves"]
    flat, treedef = jax.tree_util.tree_flatten_with_path(like)
    _check_paths(
        path, [entry["path"] for entry in entries], [jax.tree_util.keystr(p) for p, _ in flat]
    )
    leaves = []
    for index, (entry, (_, leaf)) in enumerate(zip(entries, flat, strict=True)):
        array = arrays.get(f"{index:06d}")
        leaves.append(_rebuild(f"{path}: state{entry['path']}", entry, array, leaf))
    return jax.tree_util.tree_unflatten(treedef, leaves)


def check_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a whole checkpoint and return its facts and `rows`; refuse it if it is damaged."""
    facts, arrays = _read(path)
    return {name: fact for name, fact in facts.items() if name not in ("leaves", "digest")} | {
        "rows": arrays[_ROWS]
    }


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the manifest and the arrays, and check their digest."""
    arrays = read_npz(path)
    if not {_MANIFEST, _ROWS} <= set(arrays):
        raise ValueError(f"{path}: expected a checkpoint, found no {_MANIFEST}")
    text = arrays.pop(_MANIFEST).tobytes()
    try:
        manifest = json.loads(text)
        told = manifest.pop("digest")
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: expected a checkpoint, found {error}") from error
    if told != _digest(manifest, arrays):
        raise ValueError(f"{path}: expected a checkpoint, found one whose content has changed")
    return manifest, arrays


def _digest(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def _describe(where: str, leaf: Any) -> tuple[dict[str, Any], np.ndarray | None]:
    """Return the description of a leaf for the manifest, and its array if it needs one."""
    import jax
    import jax.numpy as jnp

    if type(leaf) in (bool, int, str):
        return {"kind": "plain", "value": leaf}, None
    if type(leaf) is float:
        return {"kind": "float", "value": leaf.hex()}, None
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        data = np.asarray(jax.random.key_data(leaf))
        return {"kind": "key", "implementation": str(jax.random.key_impl(leaf))}, data
    if isinstance(leaf, jax.Array | np.ndarray | np.generic):
        array, dtype = pack(where, leaf)
        entry: dict[str, Any] = {"kind": "numpy", "dtype": dtype}
        if isinstance(leaf, np.generic):
            entry["kind"] = "numpy scalar"
        elif isinstance(leaf, jax.Array):
            entry |= {"kind": "jax", "weak": bool(leaf.weak_type)}
        return entry, array
    if callable(leaf):
        return {"kind": "function"}, None
    raise ValueError(
        f"{where}: expected an array, a JAX key, a number or a string, found {type(leaf).__name__}"
    )


def _rebuild(where: str, entry: dict[str, Any], array: np.ndarray | None, like: Any) -> Any:
    kind = entry["kind"]
    if kind == "function":
        return like
    if array is None:
        return float.fromhex(entry["value"]) if kind == "float" else entry["value"]
    if kind == "key":
        return _rebuild_key(where, entry, array, like)
    value = unpack(array, entry["dtype"])
    _check_shape(where, value.shape, np.shape(like))
    if kind == "jax":
        return _rebuild_jax(value, entry["weak"], like)
    return value[()] if kind == "numpy scalar" else value


def _rebuild_key(where: str, entry: dict[str, Any], data: np.ndarray, like: Any) -> Any:
    import jax
    import jax.numpy as jnp

    key = jax.random.wrap_key_data(jnp.asarray(data), impl=entry["implementation"])
    _check_shape(where, key.shape, np.shape(like))
    return key


def _rebuild_jax(value: np.ndarray, weak: bool, like: Any) -> Any:
    import jax
    import jax.numpy as jnp

    from equipoise.core.precision import double_precision

    array = _weak_array(value) if weak else None
    with double_precision():  # otherwise JAX would narrow 64-bit values
        array = jnp.asarray(value) if array is None else array
        if isinstance(like, jax.Array) and like.committed:
            array = jax.device_put(array, like.sharding)
    return array


def _weak_array(value: np.ndarray) -> Any:
    """Return a weakly typed array, which only computations with a Python number create."""
    import jax.numpy as jnp

    from equipoise.core.precision import double_precision, single_precision

    kinds = {"float": 0.0, "int": 0, "complex": 0j}
    kind = value.dtype.name.rstrip("0123456789")
    wide = value.dtype.name in ("float64", "int64", "complex128")
    with double_precision() if wide else single_precision():
        return jnp.broadcast_to(jnp.asarray(kinds[kind]), value.shape).at[...].set(value)


def _check_paths(path: Any, saved: list[str], given: list[str]) -> None:
    if saved == given:
        return
    missing = [f"no leaf {p}" for p in saved if p not in set(given)]
    unknown = [f"a leaf {p} that was not saved" for p in given if p not in set(saved)]
    found = "; ".join(missing[:3] + unknown[:3])
    raise ValueError(
        f"like: expected the structure of {path}, {len(saved)} leaves, "
        f"found {len(given)}: {found or 'the same leaves in another order'}"
    )


def _check_shape(where: str, saved: tuple[int, ...], given: tuple[int, ...]) -> None:
    """Refuse another shape; a first axis of length zero, of an array that grows, is any length."""
    grown = len(saved) == len(given) > 0 and given[0] == 0 and saved[1:] == given[1:]
    if tuple(saved) != tuple(given) and not grown:
        raise InputError("like", f"shape {tuple(saved)}, as in {where}", tuple(given))
