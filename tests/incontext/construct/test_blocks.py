"""The parts of hand-built networks, each against the formula it stands for."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from equipoise.core import simplex
from equipoise.core.precision import double_precision
from equipoise.incontext.construct import Logarithm, Reciprocal
from equipoise.incontext.construct._arithmetic import add_projection
from equipoise.incontext.construct._blocks import Blueprint, Layout
from equipoise.incontext.construct._omd import binary


def apply(plan, stream):
    with double_precision():
        h = jnp.asarray(stream)
        for step in plan.steps:
            h = step.layer(h)
        return np.asarray(h)


def test_the_width_is_a_square_whose_root_undoes_its_reciprocal():
    assert Layout({"one": 1, "x": 35}).width == 36
    assert Layout({"one": 1, "x": 36}).width == 64  # 7 does not, in single precision
    assert Layout({"one": 1, "x": 99}).width == 100


def test_coordinates_have_names():
    layout = Layout({"one": 1, "x": 2})
    assert [layout.label(c) for c in range(4)] == ["one", "x[0]", "x[1]", ""]
    assert layout.rows(["x", "one"]).argmax(1).tolist() == [1, 2, 0]


def test_heads_multiply_add_and_clear(rng):
    plan = Blueprint(Layout({"one": 1, "a": 1, "x": 2, "y": 2}), np.float64)
    with double_precision():
        plan.own("y += relu(a) x", plan.product("a", "x", "y"))
        plan.own(
            "x -= x, y += 3 a", plan.clear("x"), plan.linear(3 * plan.layout["a"].repeat(2, 0), "y")
        )
    stream = np.zeros((2, plan.layout.width))
    stream[:, 0], stream[:, 2:6] = 1.0, rng.normal(size=(2, 4))
    stream[:, 1] = (2.0, -1.0)
    after = apply(plan, stream)
    assert_allclose(after[0, 4:6], stream[0, 4:6] + 2.0 * stream[0, 2:4] + 6.0)
    assert_allclose(after[1, 4:6], stream[1, 4:6] - 3.0)
    assert (after[:, 2:4] == 0.0).all()


@pytest.mark.parametrize("actions", [2, 3, 4, 7])
def test_the_projection_is_exact(actions, rng):
    layout = Layout({"one": 1, "floor": 1, "v": actions, "w": actions, "policy": actions})
    plan = Blueprint(layout, np.float64)
    with double_precision():
        add_projection(plan, actions, "policy", offset=0.125)
    v = rng.normal(1 / actions, 0.7, size=(200, actions))
    v[:20] = np.round(v[:20], 1)  # ties
    floor = rng.uniform(0.0, 0.9 / actions, size=200)
    stream = np.zeros((200, layout.width))
    stream[:, layout.places["one"]] = 1.0
    stream[:, layout.places["floor"]] = floor[:, None]
    stream[:, layout.places["v"]] = v
    stream[:, layout.places["w"]] = v - floor[:, None]
    found = apply(plan, stream)[:, layout.places["policy"]] + 0.125
    with double_precision():
        expected = simplex.project(jnp.asarray(v), floor=jnp.asarray(floor))
    assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize(("units", "steps"), [(1, 8), (1, 2), (6, 0), (3, 2)])
def test_the_layers_of_a_reciprocal_compute_it(units, steps):
    layout = Layout({"one": 1, "beta": 1, "z": 1, "rho": 1, "scratch": 1})
    plan = Blueprint(layout, np.float64)
    reciprocal = Reciprocal(0.05, 1.5, units, steps)
    with double_precision():
        reciprocal.add_to(plan)
    z = np.linspace(0.0, 1.4, 57)
    stream = np.zeros((57, layout.width))
    stream[:, :3] = np.stack([np.ones(57), np.full(57, 0.05), z], 1)
    after = apply(plan, stream)
    assert_allclose(after[:, layout.places["rho"]][:, 0], reciprocal(z + 0.05), rtol=1e-12)
    assert_allclose(after[:, layout.places["z"]][:, 0], z + 0.05, rtol=1e-14)
    assert (after[:, layout.places["scratch"]] == 0.0).all()
    assert len(plan.steps) == 1 + 2 * steps


def test_the_layer_of_a_logarithm_computes_it():
    layout, logarithm = Layout({"one": 1, "x": 2, "log": 2}), Logarithm(9)
    plan = Blueprint(layout, np.float64)
    with double_precision():
        logarithm.add_to(plan, layout["x"], "log")
    x = np.stack([np.linspace(0.0, 1.0, 57), np.geomspace(1e-6, 1.0, 57)], 1)
    stream = np.zeros((57, layout.width))
    stream[:, 0], stream[:, 1:3] = 1.0, x
    after = apply(plan, stream)
    assert_allclose(after[:, layout.places["log"]], logarithm(x), atol=1e-12)
    assert (after[:, :3] == stream[:, :3]).all()
    fine = np.linspace(0.0, 1.0, 100_001)
    largest = np.abs(np.exp(logarithm(fine)) - fine).max()
    assert 0.999 * logarithm.residual < largest <= logarithm.residual + 1e-15


def test_binary_numbers_match_only_themselves():
    digits = binary(np.arange(200), 8)
    scores = digits.T @ digits - 7
    assert (np.diag(scores) == 1.0).all()
    assert (scores - 2.0 * np.eye(200)).max() <= -1.0
