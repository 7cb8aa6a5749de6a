"""Schedules give a number for every round, traced or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equipoise.core.precision import double_precision
from equipoise.core.schedules import Constant, Power, Rates, Schedule, paper


def test_constant_is_constant():
    schedule = Constant(0.25)
    assert [float(schedule(t)) for t in (1, 2, 1000)] == [0.25, 0.25, 0.25]


def test_power_falls_as_its_exponent_says():
    schedule = Power(2.0, 0.75)
    rounds = np.array([1.0, 16.0, 81.0])
    np.testing.assert_allclose(schedule(rounds), 2.0 * rounds**-0.75, rtol=1e-6)


@pytest.mark.parametrize("schedule", [Constant(0.5), Power(2.0, 0.5)])
def test_whole_rounds_under_a_transformation_give_floats(schedule):
    value = jax.jit(schedule)(jnp.int32(4))
    assert value.dtype == jnp.float32
    assert float(value) == pytest.approx(float(schedule(4)))


def test_double_precision_is_used_where_it_is_on():
    with double_precision():
        value = Power(1.0, 1.0)(3)
        assert value.dtype == jnp.float64
        assert float(value) == pytest.approx(1 / 3, abs=1e-16)


def test_a_schedule_is_a_pytree():
    doubled = jax.tree.map(lambda x: 2 * x, Power(2.0, 0.5, shift=1.0))
    assert isinstance(doubled, Schedule)
    assert float(doubled(2)) == 1.0  # 4 / (2 + 2)


def test_a_shift_delays_the_fall():
    assert float(Power(3.0, 1.0, shift=5.0)(1)) == 0.5


def test_rates_grow_with_the_number_of_actions_as_they_say():
    rates = Rates(eta=Constant(2.0), beta=Constant(0.5), eps=Constant(0.25), growth=0.5)
    assert float(rates.step(1, actions=4)) == 0.5  # (2 / 2) / sqrt(4)
    assert float(rates.strength(1, actions=4)) == 0.5
    assert float(Rates(Constant(2.0), Constant(0.5), Constant(0.25)).step(1, actions=4)) == 1.0


def test_the_floor_leaves_room_for_every_action():
    rates = Rates(Constant(1.0), Constant(1.0), Constant(1.0))
    floors = np.asarray(rates.floor(np.arange(1.0, 1000.0)))
    assert (floors < 1.0).all()
    assert (np.diff(floors) < 0).all()


def test_the_constants_of_the_paper():
    rates = paper(1000)
    assert float(rates.eta(1)) == pytest.approx(1e-5)
    assert float(rates.beta(500)) == pytest.approx(0.1)
    assert float(rates.eps(500)) == pytest.approx(0.1)
    assert float(rates.floor(1)) == pytest.approx(1e-6)
    with pytest.raises(ValueError, match="rounds: expected a whole number >= 1"):
        paper(0)


def test_the_abstract_schedule_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        Schedule()  # pyright: ignore[reportAbstractUsage]
