"""Every class of game, policy and family as a value: with JAX and without, and in files."""

import ast
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kind_samples import games, policies

import equipoise as eq
from equipoise.core.plain import dumps, loads
from equipoise.core.values import Value, static
from equipoise.games import families

#: Games with functions, which no file holds.
PROGRAMS = {"aggregative", "aggregative-markov", "oracle"}
SAMPLES = {f"game {k}": v for k, v in games().items()}
SAMPLES |= {f"policy {k}": v for k, v in policies().items()}
VALUES = pytest.mark.parametrize("name", SAMPLES)
FAMILIES = {
    "uniform": families.uniform(2),
    "gaussian": families.gaussian((2, 3), states=2),
    "mixture": families.mixture(3, fewest=2),
    "perturbed": families.perturbed(eq.MatrixGame([[0.0, 1.0], [1.0, 0.5]])),
    "perturbed Markov": families.perturbed(families.uniform(2, states=2).sample(key=0)),
    "listed": families.of(eq.MatrixGame(np.arange(12.0).reshape(3, 2, 2))),
}


def total(value):
    return sum(jnp.asarray(leaf).sum() for leaf in jax.tree.leaves(value))


class TestTransformations:
    @VALUES
    def test_jit(self, name):
        value = SAMPLES[name]
        assert np.isclose(jax.jit(total)(value), total(value), rtol=1e-5)
        back = jax.jit(lambda same: same)(value)
        assert type(back) is type(value)
        assert jax.tree.structure(back) == jax.tree.structure(value)

    @VALUES
    def test_vmap(self, name):
        value = SAMPLES[name]
        batch = jax.tree.map(lambda leaf: np.stack([leaf, 2 * leaf]), value)
        assert type(batch) is type(value)
        one, two = jax.vmap(total)(batch).tolist()
        assert np.isclose(two, 2 * one, rtol=1e-5)

    @VALUES
    def test_grad(self, name):
        value = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), SAMPLES[name])
        slope = jax.grad(lambda v: total(jax.tree.map(jnp.square, v)) / 2)(value)
        assert type(slope) is type(value)
        for own, leaf in zip(jax.tree.leaves(slope), jax.tree.leaves(value), strict=True):
            np.testing.assert_allclose(own, leaf, rtol=1e-6)

    @VALUES
    def test_leaves_have_the_names_of_fields(self, name):
        value = SAMPLES[name]
        for path, leaf in jax.tree_util.tree_leaves_with_path(value):
            assert isinstance(path[0], jax.tree_util.GetAttrKey)
            assert leaf is getattr(value, path[0].name) or len(path) > 1

    def test_rebuilding_checks_nothing(self):
        broken = jax.tree.map(lambda leaf: leaf * np.nan, SAMPLES["game matrix"])
        assert np.isnan(broken.payoff).all()


class TestPlainForms:
    @VALUES
    def test_json_keeps_all_of_it(self, name):
        value = SAMPLES[name]
        if value.kind in PROGRAMS and name.startswith("game"):
            with pytest.raises(ValueError, match="expected numbers, which can be written; found"):
                value.to_plain()
            return
        plain = loads(dumps(value.to_plain()))
        assert plain["kind"] == value.kind
        assert type(value).from_plain(plain) == value
        again = type(value).from_plain(value.to_plain())
        assert again == value
        assert hash(again) == hash(value)

    @pytest.mark.parametrize("name", FAMILIES)
    def test_families(self, name):
        family = FAMILIES[name]
        again = type(family).from_plain(loads(dumps(family.to_plain())))
        assert again == family
        with jax.numpy_rank_promotion("allow"):
            assert again.sample(3, key=1) == family.sample(3, key=1)

    @VALUES
    def test_wrong_names_and_kinds_are_refused(self, name):
        value = SAMPLES[name]
        with pytest.raises(ValueError, match=r"^(game|policy): expected .*[;,] found nothing"):
            type(value).from_plain({})
        with pytest.raises(ValueError, match=r"kind: expected '.*', found 'other'"):
            type(value).from_plain({"kind": "other"})

    @VALUES
    def test_replace_checks_like_the_constructor(self, name):
        value = SAMPLES[name]
        assert value.replace() == value
        with pytest.raises(ValueError, match="expected an argument among"):
            value.replace(colour="red")


class TestOwnClasses:
    def test_fields_of_a_subclass(self):
        class Powers(families.Draw):
            power: float
            words: tuple = static(default=())

            def __call__(self, key, shape):
                return jax.random.uniform(key, shape) ** self.power

        one = Powers(4.0, words=("a",))
        assert one == Powers(4.0, words=("a",)) != Powers(3.0, words=("a",))
        assert jax.tree.leaves(one) == [4.0]
        assert one.replace(power=2.0).power == 2.0
        with pytest.raises(AttributeError):
            one.power = 1.0  # type: ignore[misc]
        with pytest.raises(ValueError, match="did you mean power"):
            Powers(powr=1.0)

    def test_an_inherited_constructor_still_checks(self):
        class Own(eq.MatrixGame):
            pass

        with pytest.raises(ValueError, match="payoff"):
            Own([[np.nan]])
        assert Own([[1.0]]) != eq.MatrixGame([[1.0]])

    def test_abstract_classes_cannot_be_made(self):
        with pytest.raises(TypeError, match="abstract"):
            families.Draw()
        with pytest.raises(TypeError, match="abstract"):
            eq.games.Game()
        assert issubclass(eq.games.Game, Value)


def test_games_and_values_load_no_jax():
    """All but the draws of mixed families, which are imported when games are drawn."""
    source = Path(eq.__file__).parent
    files = [source / "core/values.py", *source.glob("games/**/*.py")]
    assert len(files) > 30
    for file in files:
        imports = [node for node in ast.parse(file.read_text()).body if hasattr(node, "names")]
        names = {name.name for node in imports for name in node.names}
        names |= {getattr(node, "module", None) or "" for node in imports}
        found = {name.split(".")[0] for name in names} & {"jax", "equinox", "jaxtyping"}
        assert not found or file.name == "_mixed_draws.py", file


BEFORE = """
import copy, sys
from multiprocessing.reduction import ForkingPickler
import numpy as np
import equipoise as eq

values = [
    eq.MatrixGame([[1.0, -1], [-1, 1]], labels={"players": ["Rose", "Colin"]}),
    eq.games.load("battle-of-the-sexes"),
    eq.games.load("two-roads", agents=10),
    eq.games.load("braess-network"),
    eq.Profile([[0.5, 0.5], [1.0, 0.0]]),
    eq.JointPolicy([[0.0, 0.5], [0.5, 0.0]]),
    eq.Mixture([[[[1, 0], [0, 1]]]]),
    eq.AggregativePolicy([0], [10], [1]),
    eq.FlowPolicy([1.0, 2.0]),
]
for value in values:
    assert copy.deepcopy(value) is value
    if value.kind != "aggregative":
        again = ForkingPickler.loads(ForkingPickler.dumps(value))
        assert again == value and hash(again) == hash(value)
        assert type(value).from_plain(value.to_plain()) == value
assert not values[0].payoff.flags.writeable
"""
NEVER = "assert 'jax' not in sys.modules and 'equinox' not in sys.modules"
AFTER = """
import jax
import equipoise.pure
for value in values:
    assert jax.tree.leaves(value) and jax.tree.map(lambda leaf: leaf, value) == value
assert float(jax.jit(lambda game: game.payoff.sum())(values[0])) == 0.0
assert float(jax.jit(lambda game: game.payoff.sum())(eq.MatrixGame([[2.0]]))) == 2.0
"""


@pytest.mark.parametrize(
    "script",
    [f"{BEFORE}\n{NEVER}\n{AFTER}", f"import jax\n{BEFORE}\n{AFTER.replace('import equip', '#')}"],
    ids=["JAX later", "JAX first"],
)
def test_jax_is_loaded_in_any_order(script):
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-2000:]
