"""Devices: how work is split over them, and arrays that live on an accelerator.

Work that consists of independent parts (games to play, agents whose critics are fitted) is split
over all devices of all processes. Each device runs the same program on its parts, so that the
results equal those of a single device. Training shares its batches over a mesh of the same devices
and sums the gradients. Processes are those of `jax.distributed`; a single process needs no setup.

A JAX array on a CPU is read as a NumPy array, without a copy, since compiled kernels are faster
there than XLA. An array on a GPU or a TPU is never copied to the host: ten million 3 x 3 games are
0.7 GB, which takes longer to transfer than to solve.

Importing this module does not import JAX: an array can be JAX's only if JAX has been loaded.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.precision import double_precision

if TYPE_CHECKING:
    import jax

#: Platforms whose arrays NumPy reads in place.
_HOSTS = {"cpu"}
#: Slices processed by one program: starting a program takes as long as thousands of small games.
_TOGETHER = 16
#: Name of the single axis of a mesh.
AXIS = "devices"

_most: ContextVar[int | None] = ContextVar("most", default=None)


@contextmanager
def using(devices: int) -> Iterator[None]:
    """Use at most this many devices of each process within the block. Default: all devices.

    **Example**

    >>> from equipoise.core.devices import chosen, using
    >>> with using(1):
    ...     len(chosen())
    1
    """
    import jax

    if not isinstance(devices, int) or not 1 <= devices <= len(jax.local_devices()):
        expected = f"a whole number from 1 to {len(jax.local_devices())}, the number of devices"
        raise InputError("devices", expected, repr(devices))
    token = _most.set(devices)
    try:
        yield
    finally:
        _most.reset(token)


def chosen() -> list[Any]:
    """Return the devices of this process that work is split over.

    >>> import jax
    >>> len(chosen()) == jax.local_device_count()
    True
    """
    import jax

    return jax.local_devices()[: _most.get()]


def on(device: Any) -> AbstractContextManager[Any]:
    """Return a context in which new arrays are created on a device and programs run there."""
    import jax

    return nullcontext() if device is None else jax.default_device(device)


def from_all_processes(tree: Any) -> list[Any]:
    """Gather the trees of NumPy arrays that all processes pass, one per process, bit for bit.

    >>> from_all_processes({"gap": np.float64(0.1)})
    [{'gap': np.float64(0.1)}]
    """
    import jax

    if jax.process_count() == 1:
        return [tree]
    from jax.experimental import multihost_utils

    leaves, structure = jax.tree.flatten(tree)
    arrays = [np.asarray(leaf) for leaf in leaves]
    # As bytes: JAX would convert 64-bit numbers to 32 bits.
    flat = [np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8) for array in arrays]
    gathered = np.asarray(multihost_utils.process_allgather(np.concatenate([*flat, flat[0][:0]])))
    found = []
    for own in gathered:
        parts = np.split(own, np.cumsum([part.size for part in flat])[:-1])
        values = [
            np.frombuffer(part.tobytes(), array.dtype).reshape(array.shape)
            for part, array in zip(parts, arrays, strict=True)
        ]
        found.append(jax.tree.unflatten(structure, values))
    return found


def from_first_process(tree: Any) -> Any:
    """Broadcast the arrays and numbers of the first process to every process.

    >>> from_first_process({"step": 3, "name": "x"})
    {'step': 3, 'name': 'x'}
    """
    import jax

    if jax.process_count() == 1:
        return tree
    leaves, structure = jax.tree.flatten(tree)
    known = [isinstance(leaf, jax.Array | np.ndarray | np.generic | int | float) for leaf in leaves]
    mine = [np.asarray(leaf) for leaf, k in zip(leaves, known, strict=True) if k]
    told = iter(from_all_processes(mine)[0])

    def rebuilt(leaf: Any) -> Any:
        array = next(told)
        if isinstance(leaf, jax.Array):
            with double_precision():  # otherwise JAX would convert 64-bit numbers to 32 bits
                return jax.numpy.asarray(array)
        return array if isinstance(leaf, np.ndarray | np.generic) else type(leaf)(array)

    pairs = zip(leaves, known, strict=True)
    return jax.tree.unflatten(structure, [rebuilt(leaf) if k else leaf for leaf, k in pairs])


def mesh_for(count: int) -> "jax.sharding.Mesh | None":
    """Return a mesh of chosen devices that divides `count` evenly; None if one device suffices.

    With several processes each contributes the same number of devices; if the devices do not
    divide `count`, every process does all of the work.

    >>> mesh_for(1) is None
    True
    """
    import jax

    processes = jax.process_count()
    most = len(chosen())
    own = next((n for n in range(most, 0, -1) if count % (n * processes) == 0), 0)
    if own * processes <= 1:
        return None
    every = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
    used = [
        device
        for process in range(processes)
        for device in [d for d in every if d.process_index == process][:own]
    ]
    return jax.sharding.Mesh(np.array(used), (AXIS,))


def replicate(tree: Any, mesh: "jax.sharding.Mesh") -> Any:
    """Copy arrays to every device of a mesh; all processes must pass the same arrays."""
    import jax

    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    local = list(mesh.local_mesh.devices.ravel())

    def one(leaf: Any) -> Any:
        copies = [jax.device_put(leaf, device) for device in local]
        return jax.make_array_from_single_device_arrays(np.shape(leaf), sharding, copies)

    return jax.tree.map(one, tree)


def everywhere(function: Callable[..., Any], mesh: "jax.sharding.Mesh") -> Callable[..., Any]:
    """Return a function that every device of a mesh runs on the same input, to the same result."""
    import jax

    same = jax.sharding.PartitionSpec()
    if hasattr(jax, "shard_map"):
        options: Any = {"in_specs": same, "out_specs": same, "check_vma": False}
        return jax.shard_map(function, mesh=mesh, **options)
    from jax.experimental.shard_map import shard_map  # before JAX 0.7

    return shard_map(function, mesh=mesh, in_specs=same, out_specs=same, check_rep=False)


def first_copy(tree: Any) -> Any:
    """Return single-device arrays from arrays that are equal on all devices of a mesh."""
    import jax

    here = jax.local_devices()[0]
    return jax.tree.map(lambda leaf: jax.device_put(leaf.addressable_data(0), here), tree)


def is_jax(value: Any) -> bool:
    """Whether a value is a JAX array or a tracer.

    >>> is_jax(np.zeros(3))
    False
    """
    # JAX may be loading in another thread, in which case it has no such class yet.
    return isinstance(value, getattr(sys.modules.get("jax"), "Array", ()))


def is_traced(value: Any) -> bool:
    """Whether a value is one inside a JAX transformation, whose entries cannot be read.

    >>> is_traced(np.zeros(3))
    False
    """
    return isinstance(value, getattr(sys.modules.get("jax.core"), "Tracer", ()))


def on_accelerator(array: Any) -> bool:
    """Whether an array is a concrete JAX array that is not on a CPU.

    >>> on_accelerator(np.zeros(3))
    False
    """
    if type(array) is np.ndarray or not is_jax(array) or is_traced(array):
        return False
    return next(iter(array.devices())).platform not in _HOSTS


def doubles(array: Any) -> AbstractContextManager[None]:
    """Return a context for float64 arithmetic on an array; NumPy arrays need none."""
    return nullcontext() if type(array) is np.ndarray else double_precision()


def in_pieces(
    function: Callable[..., Any], most: int, arrays: Sequence[Any], *numbers: float, **options: Any
) -> Any:
    """Apply `function(*slices, *numbers, **options)` to slices of the first axis; join the results.

    The function is compiled, and its options are static. All slices have the same length: the
    largest power of two that is at most `most` and the length of the arrays. The last slice starts
    early enough to be full. At most two programs are therefore compiled for each size: one for a
    single slice and one for many.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> twice = jax.jit(lambda x: {"twice": 2 * x})
    >>> in_pieces(twice, 2, [jnp.arange(5.0)])["twice"].tolist()
    [0.0, 2.0, 4.0, 6.0, 8.0]

    Arrays whose first axis is split over devices are processed in place, and so are the results.
    """
    if type(arrays[0]) is not np.ndarray and _is_split(arrays[0]):
        return _on_each_device(function, most, arrays, *numbers, **options)
    import jax

    length, first, parts = len(arrays[0]), 0, []
    size = 1 << (min(most, length).bit_length() - 1)
    static = tuple(options.items())
    while first < length:
        count = _TOGETHER if length - first >= _TOGETHER * size else 1
        start = min(first, length - size)
        slices = [
            a if size == length else jax.lax.dynamic_slice_in_dim(a, start, count * size)
            for a in arrays
        ]
        part = _one_by_one()(function, count, static, slices, numbers)
        parts.append(jax.tree.map(lambda a, skip=first - start: a[skip:] if skip else a, part))
        first = start + count * size
    return jax.tree.map(lambda *a: jax.numpy.concatenate(a), *parts) if parts[1:] else parts[0]


def _is_split(array: Any) -> bool:
    """Whether the first axis of an array, and no other, is split over several devices."""
    if not is_jax(array) or is_traced(array):
        return False
    return len(array.sharding.device_set) > 1 and (
        array.sharding.shard_shape(array.shape)[0] < array.shape[0]
    )


def _on_each_device(
    function: Callable[..., Any], most: int, arrays: Sequence[Any], *numbers: float, **options: Any
) -> Any:
    """Run `in_pieces` on each device's part of arrays that are split alike."""
    import jax

    shards = [sorted(a.addressable_shards, key=lambda s: s.index[0].start or 0) for a in arrays]
    found = [
        in_pieces(function, most, [part.data for part in parts], *numbers, **options)
        for parts in zip(*shards, strict=True)
    ]
    mesh = jax.sharding.Mesh(_devices_in_order(arrays[0]), (AXIS,))
    length = len(arrays[0])

    def join(*leaves: Any) -> Any:
        split = jax.sharding.PartitionSpec(AXIS)
        sharding = jax.sharding.NamedSharding(mesh, split)
        shape = (length, *leaves[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, sharding, list(leaves))

    return jax.tree.map(join, *found)


def _devices_in_order(array: Any) -> np.ndarray:
    """Return the devices of an array, in the order of the parts that they hold."""
    places = array.sharding.devices_indices_map(array.shape)
    return np.array(sorted(places, key=lambda device: places[device][0].start or 0))


@cache
def _one_by_one() -> Callable[..., Any]:
    """Return a compiled function that applies another one to this many slices in one program."""
    import jax

    def run(
        function: Callable[..., Any], count: int, options: Any, arrays: Any, numbers: Any
    ) -> Any:
        if count == 1:
            return function(*arrays, *numbers, **dict(options))
        arrays = [a.reshape(count, -1, *a.shape[1:]) for a in arrays]
        found = jax.lax.map(lambda part: function(*part, *numbers, **dict(options)), arrays)
        return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), found)

    return jax.jit(run, static_argnums=(0, 1, 2))
