"""Going on from a state: it must be of the same games, learners, noise and precision.

A state holds arrays only, and arrays of another run may well have the same shapes. So it also
keeps a digest of each thing that the run was made of, and `play` refuses to go on with another.
"""

import hashlib
import re
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks
from equipoise.dynamics._engine import as_arrays, precision
from equipoise.dynamics._learner import Learner
from equipoise.dynamics._noise import Noise
from equipoise.dynamics._round import Tables
from equipoise.dynamics._seats import seat
from equipoise.dynamics.loop import LoopState, begin

#: What a state keeps digests of, as the arguments of `play` are called.
PARTS = ("games", "row", "column", "noise")


class PlayState(eqx.Module):
    """Everything `play` needs to go on, as NumPy arrays with the flattened batch last."""

    loop: LoopState
    #: (2, games): the words of the games' keys.
    keys: np.ndarray
    #: (4, 16): a digest of the games, of each learner and of the noise.
    digests: np.ndarray


def digests(tables: Tables, learners: tuple[Learner, Learner], noise: Noise) -> np.ndarray:
    """A digest of each of `PARTS`, as rows of bytes."""
    contents = (tables.reward, tables.transition, tables.discount)
    return np.stack([digest(part) for part in (contents, *learners, noise)])


def digest(tree: Any) -> np.ndarray:
    """(16,): bytes that say what a learner, a noise or a table is, in any process.

    >>> (digest((1.0, "a")) == digest((1.0, "a"))).all()
    np.True_
    """
    leaves, structure = jax.tree.flatten(tree)
    # Addresses of functions differ from process to process.
    hashed = hashlib.blake2b(re.sub(r" at 0x\w+", "", str(structure)).encode(), digest_size=16)
    for leaf in leaves:
        if isinstance(leaf, bool | int | float | np.ndarray | np.generic | jax.Array):
            array = np.ascontiguousarray(leaf, np.float64)
            hashed.update(str(array.shape).encode())
            hashed.update(array.data)
        else:
            name = getattr(leaf, "__qualname__", repr(leaf))
            hashed.update(re.sub(r" at 0x\w+", "", name).encode())
    return np.frombuffer(hashed.digest(), np.uint8)


def check_state(
    state: Any, tables: Tables, learners: tuple[Learner, Learner], noise: Noise, double: bool
) -> PlayState:
    """The state, if a run of these games, learners, noise and precision can go on from it."""
    if not isinstance(state, PlayState):
        raise ValueError(
            "state: expected the `state` of a trace that `play` returned, "
            f"found {type(state).__name__}"
        )
    checks.check_shape("state.keys", state.keys, (2, tables.games), "two words for each game")
    expected = digests(tables, learners, noise)
    checks.check_shape("state.digests", state.digests, expected.shape, "one row for each part")
    same = (np.asarray(state.digests) == expected).all(-1)
    for name, agrees in zip(PARTS, same, strict=True):
        if not agrees:
            hint = " (and the same reward_range)" if name == "games" else ""
            raise ValueError(
                f"state: expected one of a run with the same {name}{hint}, found one of a run "
                f"with another; begin anew with `key`, or pass the same {name}"
            )
    _check_arrays(state.loop, tables, learners, noise, double)
    return state


def _check_arrays(
    loop: LoopState, tables: Tables, learners: tuple[Learner, Learner], noise: Noise, double: bool
) -> None:
    """Compare with the state before a first round: structure, dtypes and shapes."""
    with precision(double):
        seats, sounds = as_arrays((seat(*learners), noise))
        one, keys = tables.on_device(np.zeros(1, int)), jnp.zeros((2, 1), jnp.uint32)
        fresh = jax.eval_shape(lambda: begin(one, seats, sounds, keys))
    if jax.tree.structure(loop) != jax.tree.structure(fresh):
        raise ValueError(
            "state.loop: expected the structure that these games and learners make, "
            f"{jax.tree.structure(fresh)}; found {jax.tree.structure(loop)}"
        )
    found = jax.tree_util.tree_leaves_with_path(loop)
    for (path, leaf), like in zip(found, jax.tree.leaves(fresh), strict=True):
        name = f"state.loop{jax.tree_util.keystr(path)}"
        if leaf.dtype != like.dtype:
            raise ValueError(
                f"{name}: expected {like.dtype}, since double={double}, found {leaf.dtype}"
            )
        shape = (*like.shape[:-1], tables.games) if like.ndim else ()
        checks.check_shape(name, leaf, shape, "the batch last")
