"""The in-context paper's figure: a tiny one, its folder, and what is drawn from it."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.runs import Record
from reproduction import in_context
from reproduction.in_context import family_names, make_panel, training

TINY = in_context.Config.quick(
    actions=(2,),
    states=(),
    seeds=1,
    steps=4,
    batch=2,
    paper_batch=2,
    rounds=4,
    test_games=4,
    memory_games=20,
    only=("matrix-2", "baselines"),
)


def test_parts_are_run_once_and_kept(tmp_path, monkeypatch):
    first = in_context.run(TINY, 0, tmp_path)
    for name in ("paper", "ours", "uniform", "best static", "omd", "exp3-ix (average)"):
        for family in ("rho=0.1", "iid"):
            gaps = first.arrays[f"A=2|{family}|{name}"]
            assert gaps.shape == (1, 3)
            assert ((gaps >= 0) & (gaps <= 1)).all()
    assert "A=2|iid|base Nash" not in first.arrays  # there is no base
    monkeypatch.setattr(in_context, "run_part", lambda *_: pytest.fail("run again"))
    again = in_context.run(TINY, 0, tmp_path)
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(array, again.arrays[name])
    assert first.tables == again.tables
    with pytest.raises(ValueError, match=r"config: expected the config of .*key"):
        in_context.run(TINY, 1, tmp_path)


def test_all_families_of_a_panel_are_of_one_kind_and_iid_is_uniform():
    for part in ("matrix-3", "markov-2"):
        panel = make_panel(in_context.Config(), part)
        made = [panel.family(name, 0, 0) for name in family_names(in_context.Config())]
        assert {type(family.rewards).__name__ for family in made} == {"PerturbedRewards"}
        games = made[-1].sample(2000, key=1)
        rewards = np.sort(np.asarray(games.payoff if part == "matrix-3" else games.reward).ravel())
        np.testing.assert_allclose(rewards, np.linspace(0, 1, rewards.size), atol=0.02)
    moves = np.asarray(games.transition)[..., 0]  # Dirichlet(1) of two states: uniform
    np.testing.assert_allclose(np.quantile(moves, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.02)


def test_seeds_have_base_games_of_their_own_and_near_games_stay_near():
    panel = make_panel(in_context.Config(), "matrix-3")
    bases = [np.asarray(panel.family("rho=0.1", seed, 0).base.payoff) for seed in range(2)]
    assert np.abs(bases[0] - bases[1]).max() > 0.01
    near = panel.test_games("rho=0.1", 1, 50, 0)
    assert np.abs(np.asarray(near.payoff) - bases[1]).max() <= 0.1 + 1e-9


def test_presets_are_those_of_the_library():
    paper = training(in_context.Config(), "paper", 64)
    printed = eq.incontext.Config.paper(rounds=64)
    for name in ("tokens", "loss", "expert", "contexts", "training_games", "width", "layers"):
        assert getattr(paper, name) == getattr(printed, name)
    ours = training(in_context.Config(), "ours", 64)
    assert (ours.loss, ours.contexts, ours.training_games) == ("exploitability", "on-policy", None)


def test_everything_in_a_record_is_drawn():
    x, curve = [1, 2, 4], [[0.3, 0.2, 0.1], [0.2, 0.2, 0.2]]
    arrays = {f"{panel}|x": x for panel in ("A=2", "S=3", "lengths", "sizes")}
    arrays |= {"games|x": [5, 50, 0], "games|iid|ours": curve, "sizes|iid|2 x 64": curve}
    arrays |= {f"{p}|{f}|ours": curve for p in ("A=2", "S=3") for f in ("rho=0.1", "iid")}
    arrays |= {"A=2|iid|omd": curve, "lengths|iid|paper": curve}
    figure = in_context.plot(Record("in-context", arrays=arrays))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [
        *("A=2, rho=0.1", "S=3, rho=0.1", "A=2, iid", "S=3, iid"),
        *("A=3: lengths", "A=3: sizes", "A=3: games"),
    ]
    main = figure.axes[:4]
    assert {axes.get_ylim() for axes in main} == {main[0].get_ylim()}  # the same axes
    assert len(figure.axes[2].lines) == 2
    assert [t.get_text() for t in figure.axes[6].get_xticklabels()] == ["5", "50", "fresh"]


def test_unknown_parts_are_refused():
    with pytest.raises(ValueError, match="only: expected parts among"):
        in_context.Config(only=("matrix-4",))
