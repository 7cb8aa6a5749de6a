"""The figure of last iterates: what it plays, keeps and draws."""

import numpy as np
import pytest

from equipoise import dynamics
from equipoise.runs import Record
from reproduction import last_iterate

SMALL = last_iterate.Config(
    actions=(2,),
    states=(2,),
    concentrations=(0.1,),
    learners=("omd", "exp3-ix", "exp3-ix (average)", "omd-printed-constants"),
    markov_learners=("omd", "v-learning (average)"),
    games=6,
    seeds=2,
    rounds=400,
    markov_rounds=200,
)


@pytest.fixture(scope="module")
def record():
    return last_iterate.run(SMALL)


def test_every_panel_and_learner_is_recorded(record):
    assert record.tables["slopes"].column("panel") == ["A=2"] * 4 + ["S=2, Dirichlet 0.1"] * 2
    for panel, name, size in (("A=2", "omd", 4), ("S=2, Dirichlet 0.1", "v-learning (average)", 3)):
        assert record.arrays[f"{panel}/{name}/mean"].shape == (size,)
        assert (record.arrays[f"{panel}/{name}/error"] > 0).all()


def test_the_numbers_are_those_of_play(record):
    trace = dynamics.play(
        last_iterate.families.uniform(2).sample(6, key=0),
        dynamics.make_learner("omd", markov=False, rounds=400),
        dynamics.make_learner("omd", markov=False, rounds=400),
        rounds=400,
        key=1,
        seeds=2,
    )
    assert record.arrays["A=2/omd/mean"][-1] == trace.curve[-1].mean()


def test_printed_constants_stay_at_uniform(record):
    uniform = record.arrays["A=2/uniform"]
    np.testing.assert_allclose(record.arrays["A=2/omd-printed-constants/mean"], uniform, atol=0.01)


def test_averages_are_not_last_policies(record):
    last, average = (record.arrays[f"A=2/{name}/mean"] for name in ("exp3-ix", "exp3-ix (average)"))
    assert (last != average).all()


def test_a_figure_is_drawn_from_saved_records(record, tmp_path):
    record.save(tmp_path)
    figure = last_iterate.plot(Record.load(tmp_path))
    assert [axes.get_title() for axes in figure.axes] == ["A=2", "S=2, Dirichlet 0.1"]
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels[:2] == ["uniform", "t^-1/4"]
    assert set(SMALL.learners) < set(labels)
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_every_named_learner_can_be_made():
    for name, named in dynamics.LEARNERS.items():
        for markov, maker in ((False, named.matrix), (True, named.markov)):
            if maker is not None:
                assert dynamics.make_learner(name, markov=markov, rounds=100).sees is not None
    with pytest.raises(ValueError, match="learner: expected for matrix games one of"):
        dynamics.make_learner("v-learning", markov=False, rounds=100)
