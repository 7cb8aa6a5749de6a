"""Going on from a state: what is refused, and what is not."""

import inspect

import equinox as eqx
import jax
import numpy as np
import pytest

from equipoise import dynamics, games
from equipoise.core.schedules import Constant
from equipoise.dynamics import OMD, Bernoulli, Fixed, Gaussian, MarkovOMD
from equipoise.runs import Record, Run

MATRIX = games.families.uniform(actions=3).sample(4, key=0)
MARKOV = games.families.uniform(actions=3, states=2, discount=0.9).sample(4, key=0)
OTHER = games.families.uniform(actions=3).sample(4, key=1)
#: As a user calls it: without the checks of annotations, which come first in tests.
play = inspect.unwrap(dynamics.play)


@pytest.fixture(scope="module")
def half():
    return play(MATRIX, OMD(), Fixed([0.2, 0.3, 0.5]), rounds=20, key=1)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"games": OTHER}, "state: expected the state of a run with the same games"),
        ({"games": MATRIX[:3]}, "state.keys: expected shape"),
        ({"games": MATRIX[::-1]}, "state: expected the state of a run with the same games"),
        ({"reward_range": (-1.0, 1.0)}, "with the same games .and the same reward_range"),
        ({"row": OMD.vanishing()}, "state: expected the state of a run with the same row"),
        ({"row": dynamics.EXP3IX()}, "state: expected the state of a run with the same row"),
        (
            {"column": Fixed([0.3, 0.2, 0.5])},
            "state: expected the state of a run with the same column",
        ),
        ({"noise": Bernoulli()}, "state: expected the state of a run with the same noise"),
        ({"double": True}, "expected float64, since double=True, found float32"),
        ({"key": 1}, "key: expected None together with `state`"),
    ],
)
def test_another_run_is_not_gone_on_with(half, changes, complaint):
    options = {"games": MATRIX, "row": OMD(), "column": Fixed([0.2, 0.3, 0.5])} | changes
    batch, row, column = (options.pop(name) for name in ("games", "row", "column"))
    with pytest.raises(ValueError, match=complaint):
        play(batch, row, column, rounds=5, state=half.state, **options)


def test_a_trace_is_not_its_state(half):
    with pytest.raises(ValueError, match="state: expected the `state` of a trace"):
        play(MATRIX, OMD(), Fixed([0.2, 0.3, 0.5]), rounds=5, state=half)


def test_numbers_and_discounts_count():
    """Learners and games that differ by one number are others."""
    learner = MarkovOMD()
    half = play(MARKOV, learner, learner, rounds=5, key=1, noise=Gaussian(0.1), start=1)
    other = games.MarkovGame(MARKOV.reward, MARKOV.transition, 0.8)
    for changes, complaint in (
        ({"games": other}, "same games"),
        ({"column": MarkovOMD(value_step=Constant(0.5))}, "same column"),
        ({"noise": Gaussian(0.2)}, "same noise"),
        ({"start": 1}, "start: expected 0 together with `state`"),
    ):
        options = {"games": MARKOV, "column": learner, "noise": Gaussian(0.1)} | changes
        batch, column = options.pop("games"), options.pop("column")
        with pytest.raises(ValueError, match=complaint):
            play(batch, learner, column, rounds=5, state=half.state, **options)


def test_damaged_arrays_are_refused(half):
    fewer = eqx.tree_at(lambda state: state.loop.sums.partial, half.state, ())
    with pytest.raises(ValueError, match=r"state\.loop: expected the structure"):
        play(MATRIX, OMD(), Fixed([0.2, 0.3, 0.5]), rounds=5, state=fewer)


def test_equal_parts_go_on(half):
    """What is compared is what things are, not which objects they are."""
    again = games.MatrixGame(np.array(MATRIX.payoff))
    state = jax.tree.map(np.array, half.state)
    rest = play(again, OMD(), Fixed((0.2, 0.3, 0.5)), rounds=20, state=state)
    whole = play(MATRIX, OMD(), Fixed([0.2, 0.3, 0.5]), rounds=40, key=1)
    np.testing.assert_array_equal(rest.last[0], whole.last[0])


def test_a_state_survives_a_checkpoint(half, tmp_path):
    """The digests travel with the arrays, so that a checkpoint of another run is refused."""
    fixed = Fixed([0.2, 0.3, 0.5])
    with Run.start(tmp_path / "run", {}) as run:
        run.checkpoint(20, half.state)
        state = run.restore(play(OTHER, OMD(), fixed, rounds=1, key=3).state)
        with pytest.raises(ValueError, match="same games"):
            play(OTHER, OMD(), fixed, rounds=5, state=state)
        rest = play(MATRIX, OMD(), fixed, rounds=5, state=state)
        run.finish(Record("resumed"))
    assert rest.rounds == 25
