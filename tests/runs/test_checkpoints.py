"""Pytrees survive a checkpoint bit for bit."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from equipoise.core.arrays import read_npz, write_npz
from equipoise.core.precision import double_precision
from equipoise.runs._checkpoint import check_checkpoint, load_checkpoint, save_checkpoint


class Pair(NamedTuple):
    left: object
    right: object


def bits(leaf):
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return str(leaf.dtype), bits(jax.random.key_data(leaf))
    if isinstance(leaf, jax.Array | np.ndarray | np.generic):
        weak = leaf.weak_type if isinstance(leaf, jax.Array) else None
        return type(leaf), str(leaf.dtype), leaf.shape, weak, np.asarray(leaf).tobytes()
    return type(leaf), repr(leaf)


def roundtrip(tmp_path, tree, like=None):
    save_checkpoint(tmp_path / "a.npz", tree)
    again = load_checkpoint(tmp_path / "a.npz", tree if like is None else like)
    assert jax.tree.structure(again) == jax.tree.structure(tree)
    for old, new in zip(jax.tree.leaves(tree), jax.tree.leaves(again), strict=True):
        assert bits(new) == bits(old)
    return again


def test_every_kind_of_leaf(tmp_path):
    with double_precision():
        wide = jnp.asarray([1 / 3, np.nan, -0.0, np.inf], jnp.float64)
        wide_weak = jnp.asarray(1 / 3)
    tree = {
        "wide": wide,
        "wide_weak": wide_weak,
        "brain": jnp.asarray([1.0, 2.5], jnp.bfloat16),
        "eight": jnp.asarray([1.0, 2.5], jnp.float8_e4m3fn),
        "key": jax.random.key(3),
        "keys": jax.random.split(jax.random.key(3, impl="rbg"), 4),
        "old_key": jax.random.PRNGKey(3),
        "weak": jnp.asarray(0.1),
        "weak_count": jnp.asarray(3),
        "strong": jnp.asarray(0.1, jnp.float32),
        "bool": jnp.asarray([True, False]),
        "empty": jnp.zeros((0, 3)),
        "numpy": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "big_endian": np.arange(3, dtype=">f4"),
        "scalar": np.float32(0.1),
        "text": np.array(["a", "bc"]),
        "python": [True, 2**200, 0.1, float("nan"), -0.0, "NaN", None],
        "pair": Pair(np.float64(1.0), (1,)),
    }
    again = roundtrip(tmp_path, tree)
    assert again["wide"].dtype == jnp.float64
    assert again["weak"].weak_type
    assert not again["strong"].weak_type


def test_weak_types_of_both_widths_survive_a_double_precision_session(tmp_path):
    tree = {"narrow": jnp.asarray(0.1), "several": jnp.broadcast_to(jnp.asarray(0.1), (3,))}
    assert tree["several"].weak_type
    with double_precision():
        roundtrip(tmp_path, tree)


def test_the_state_of_a_numpy_generator(tmp_path):
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state
    expected = rng.random(3)
    other = np.random.default_rng(1)
    other.bit_generator.state = roundtrip(tmp_path, state, like=other.bit_generator.state)
    assert np.array_equal(other.random(3), expected)


def test_a_network_and_its_optimiser(tmp_path):
    model = eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0))
    optimiser = optax.adam(1e-3)
    state = optimiser.init(eqx.filter(model, eqx.is_array))
    again, _ = roundtrip(tmp_path, (model, state))
    x = jnp.ones(2)
    assert np.array_equal(again(x), model(x))


def test_what_a_leaf_is_follows_the_checkpoint_not_the_tree_given(tmp_path):
    tree = {"mean": jnp.asarray([0.5], jnp.bfloat16), "count": jnp.asarray(3, jnp.int32)}
    roundtrip(tmp_path, tree, like={"mean": np.zeros(1), "count": 0})


def test_committed_arrays_go_back_to_their_device(tmp_path):
    device = jax.devices()[0]
    tree = jax.device_put(jnp.ones(3), device)
    again = roundtrip(tmp_path, tree)
    assert again.committed
    assert again.sharding == tree.sharding
    assert not roundtrip(tmp_path, jnp.ones(3)).committed


def test_facts_and_checksums_of_rows_are_kept(tmp_path):
    save_checkpoint(tmp_path / "a.npz", {"x": 1}, [7, 2**32 - 1], step=3, metrics_bytes=10)
    facts = check_checkpoint(tmp_path / "a.npz")
    assert facts.pop("rows").tolist() == [7, 2**32 - 1]
    assert facts == {"step": 3, "metrics_bytes": 10}


def test_equal_trees_make_equal_files(tmp_path):
    tree = {"x": np.arange(3), "key": jax.random.key(0)}
    save_checkpoint(tmp_path / "a.npz", tree)
    save_checkpoint(tmp_path / "b.npz", tree)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_an_array_that_grows_may_have_any_number_of_rows(tmp_path):
    rows = np.arange(12.0).reshape(4, 3)
    save_checkpoint(tmp_path / "x.npz", {"rows": rows})
    found = load_checkpoint(tmp_path / "x.npz", {"rows": np.zeros((0, 3))})
    np.testing.assert_array_equal(found["rows"], rows)
    with pytest.raises(ValueError, match=r"expected shape \(4, 3\).*found \(0, 2\)"):
        load_checkpoint(tmp_path / "x.npz", {"rows": np.zeros((0, 2))})


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({"a": np.zeros(2)}, r"no leaf \['b'\]"),
        ({"a": np.zeros(2), "b": 0, "c": 0}, r"a leaf \['c'\] that was not saved"),
        ({"a": np.zeros(3), "b": 0}, r"expected shape \(2,\).*\['a'\].*found \(3,\)"),
    ],
)
def test_another_structure_is_refused(tmp_path, like, message):
    save_checkpoint(tmp_path / "a.npz", {"a": np.zeros(2), "b": 1})
    with pytest.raises(ValueError, match=message):
        load_checkpoint(tmp_path / "a.npz", like)


@pytest.mark.parametrize(
    "leaf", [np.random.default_rng(0), np.array([object()]), {1, 2}], ids=["rng", "objects", "set"]
)
def test_what_cannot_be_kept_is_refused(tmp_path, leaf):
    with pytest.raises(ValueError, match=r"state\['a'\]: expected"):
        save_checkpoint(tmp_path / "a.npz", {"a": leaf})
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    save_checkpoint(path, {"a": np.arange(1000)})
    content = bytearray(path.read_bytes())
    content[2000] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"expected an \.npz file"):
        load_checkpoint(path, {"a": np.arange(1000)})
    path.write_bytes(b"not a zip file")
    with pytest.raises(ValueError, match=r"expected an \.npz file of arrays, found something else"):
        check_checkpoint(path)
    np.savez(path, x=np.ones(2))
    with pytest.raises(ValueError, match="expected a checkpoint, found no manifest"):
        check_checkpoint(path)


def test_content_that_was_put_together_from_two_checkpoints_is_refused(tmp_path):
    save_checkpoint(tmp_path / "a.npz", {"a": np.zeros(3)}, step=1)
    save_checkpoint(tmp_path / "b.npz", {"a": np.ones(3)}, step=2)
    mixed = read_npz(tmp_path / "a.npz") | {"000000": read_npz(tmp_path / "b.npz")["000000"]}
    write_npz(tmp_path / "c.npz", mixed)  # sound as a file
    for read in (check_checkpoint, lambda path: load_checkpoint(path, {"a": np.zeros(3)})):
        with pytest.raises(ValueError, match=r"c\.npz: .* found one whose content has changed"):
            read(tmp_path / "c.npz")
