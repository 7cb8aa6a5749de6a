"""Pre-training: it works on unseen games, every setting runs, and a kill changes nothing."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy.special import xlogy
from support import files_of

import equipoise as eq
from equipoise import dynamics, incontext
from equipoise.games import MatrixGame, families
from equipoise.incontext import _train, static_policies
from equipoise.incontext._step import Trainer, held_out_divergence
from equipoise.incontext._train import prepare
from equipoise.report import curves_of
from equipoise.runs import Record, read_metrics
from equipoise.solvers import solve

TINY = {
    **{"rounds": 4, "layers": 1, "width": 8, "hidden": 8, "steps": 4, "batch": 2},
    **{"play_ahead": 2, "warmup": 0, "held_out": 4, "evaluate_every": 2, "learners": ("omd",)},
}


SMALL = {"steps": 120, "batch": 16, "hidden": 64}
FULL = {"steps": 160, "batch": 32, "hidden": 128}


@pytest.mark.parametrize("size", [SMALL, pytest.param(FULL, marks=pytest.mark.soak)], ids=str)
def test_a_trained_player_beats_memory_and_mirror_descent(size):
    """On unseen iid games, at every round from 16 on; the longer training beats averages too."""
    family = families.uniform(3)
    config = incontext.Config(rounds=32, **size, warmup=20, learning_rate=2e-3, held_out=32)
    players = incontext.pretrain(family, config, key=0)
    games = family.sample(128 if size is SMALL else 256, key=99)
    episode = incontext.play(games, players, rounds=32, key=3, record=(16, 32))
    own = episode.mean_curve
    for name, pair in static_policies(family.sample(500, key=98)).items():
        assert own.value[0] < 0.6 * eq.certify(games, pair).nash_conv.mean(), name
    for learner in (dynamics.OMD(), dynamics.LogBarrierOMD(), dynamics.EXP3IX()):
        trace = dynamics.play(games, learner, learner, rounds=32, key=3, record=(16, 32))
        for curve in (trace.curve, trace.average_curve)[: 1 if size is SMALL else 2]:
            other = curve.mean(1)
            assert (own.value < other - 3 * own.error).all(), type(learner).__name__
    assert own.value[1] < own.value[0] - own.error[0]
    assert own.value[1] < 0.13
    assert (np.abs(episode.history.held[0][:, 0] - 1 / 3) < 0.3).all()  # nothing is known at first


def settings():
    contexts = ("on-policy", "learners", "mixed")
    kinds = itertools.cycle(itertools.product(("round", "vocabulary"), ("softmax", "relu")))
    experts = ("nash", "nash-samples", "omd", "omd-vanishing")
    wanted = [("exploitability", "nash", c) for c in contexts]
    wanted += [("expert", e, c) for e, c in itertools.product(experts, contexts)]
    for (loss, expert, context), (tokens, attention) in zip(wanted, kinds, strict=False):
        yield {
            "loss": loss,
            "expert": expert,
            "contexts": context,
            "tokens": tokens,
            "attention": attention,
        }


@pytest.mark.parametrize("setting", list(settings()), ids=lambda s: "-".join(s.values()))
def test_every_setting_can_be_trained(setting):
    """Traced, shapes and types checked on the way, but not compiled."""
    config = incontext.Config(**{**TINY, **setting})
    trainer, _ = prepare(families.uniform((2, 3)), config, jax.random.key(0))
    learned, metrics = eqx.filter_eval_shape(Trainer.cycle, trainer, trainer.start(), key())
    assert metrics["loss"].shape == (1, 2)
    shapes = [
        [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(part) if hasattr(leaf, "shape")]
        for part in (learned, trainer.start())
    ]
    assert shapes[0] == shapes[1]
    assert ("kl" in metrics) == (setting["loss"] == "expert")


def key():
    return jax.random.key(1)


def test_the_divergence_that_decides_is_held_out(tmp_path):
    """Training games are five; what is kept is best on others, whose equilibria are known."""
    family = families.uniform(3)
    changes = {"loss": "expert", "expert": "nash-samples", "contexts": "learners"}
    config = incontext.Config(**{**TINY, **changes, "stop_on": "kl", "training_games": 5})
    trainer, held_out = prepare(family, config, jax.random.key(0))
    models = trainer.players.models  # uniform policies
    found = held_out_divergence(trainer, models, held_out.games, held_out.key)
    policies = np.stack(
        solve(
            MatrixGame(np.moveaxis(np.asarray(held_out.games.tables.reward, float), -1, 0))
        ).policy
    )
    expected = np.log(3) + xlogy(policies, policies).sum(-1).mean()
    np.testing.assert_allclose(found, [expected], atol=1e-4)
    incontext.pretrain(family, config, key=0, run=tmp_path)
    rows = read_metrics(tmp_path)
    best = min(row["held_out_kl"][0] for row in rows)
    scalars = Record.load(tmp_path).scalars
    assert scalars["best held-out value"] == pytest.approx(best, abs=1e-5)
    # The gap is told on games that had no say in which weights were kept.
    score = incontext.description(tmp_path)["results"]["held_out"]
    assert score == [pytest.approx(scalars["gap on fresh games"], abs=1e-5)]
    assert score[0] not in [row["gap"][0] for row in rows]
    assert all(row["held_out_kl"] != row["kl"] for row in rows)


SCRIPT = """
import sys, time
import equipoise as eq
from equipoise import incontext
from equipoise.games import families
from equipoise.runs import _loop
_loop.CHECKPOINT_SHARE = float("inf")
log = eq.runs.Run.log
eq.runs.Run.log = lambda *a, **k: time.sleep(float(sys.argv[3])) or log(*a, **k)
config = incontext.Config(
    rounds=4, layers=1, width=8, hidden=8, steps=int(sys.argv[2]), batch=2,
    play_ahead=2, warmup=0, held_out=4, evaluate_every=10,
)
incontext.pretrain(families.uniform(2), config, key=3, run=sys.argv[1])
"""
STEPS = 400  # and the sizes as in the tests of `equipoise pretrain`: one program for both


def train(folder, pause=0.0):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(STEPS), str(pause)], env=environment
    )


@pytest.mark.slow
def test_killed_and_resumed_training_ends_with_the_same_weights(tmp_path):
    """A real kill -9, at a moment nobody chose exactly."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    process = train(broken, pause=0.1)  # seconds pass between the kill and the end
    while len(list((broken / "checkpoints").glob("*.npz"))) < 3:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=300) == -signal.SIGKILL
    assert not (broken / "players.safetensors").exists()
    assert not (broken / "record.json").exists()
    assert len(read_metrics(broken)) < STEPS // 2
    again, never = train(broken), train(whole)
    assert (again.wait(timeout=300), never.wait(timeout=300)) == (0, 0)
    assert files_of(broken) == files_of(whole)
    assert {"players.safetensors", "players.json", "record.npz"} <= set(files_of(whole))


def test_a_run_folder_holds_everything(tmp_path):
    family, config = families.uniform(2), incontext.Config(**TINY)
    players = incontext.pretrain(family, config, key=0, run=tmp_path / "run")
    record = Record.load(tmp_path / "run")
    assert record.arrays["step"].tolist() == [2, 4]
    assert record.scalars["steps"] == 4
    card = (tmp_path / "run" / "MODEL_CARD.md").read_text()
    assert "uniform, 2 x 2 actions" in card
    loaded = incontext.load(tmp_path / "run")
    for a, b in zip(jax.tree.leaves(players.models), jax.tree.leaves(loaded.models), strict=True):
        np.testing.assert_array_equal(a, b)
    again = incontext.pretrain(family, config, key=0, run=tmp_path / "run")
    np.testing.assert_array_equal(again.models.embed, players.models.embed)
    with pytest.raises(ValueError, match=r"found other values of: config\.steps"):
        incontext.pretrain(
            family, incontext.Config(**{**TINY, "steps": 6}), key=0, run=tmp_path / "run"
        )


class Line:
    """A progress line that remembers what it showed."""

    def __init__(self):
        self.shown = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def advance(self, steps=1, **metrics):
        self.shown.append(metrics)


def test_the_gap_stays_in_the_line_and_every_cycle_in_the_metrics(monkeypatch, tmp_path):
    line = Line()
    monkeypatch.setattr("equipoise.runs._loop.progress", lambda *_, **__: line)
    config = incontext.Config(**{**TINY, "steps": 8, "evaluate_every": 4})
    incontext.pretrain(families.uniform(2), config, key=0, run=tmp_path)
    opening, *cycles = line.shown
    assert opening == {}
    assert ["gap" in shown for shown in cycles] == [False, True, True, True]
    assert cycles[1]["gap"] == cycles[2]["gap"]
    assert cycles[1]["loss"] != cycles[2]["loss"]
    rows = read_metrics(tmp_path)
    assert [row["step"] for row in rows] == [2, 4, 6, 8]
    assert ["gap" in row for row in rows] == [False, True, False, True]
    losses = [float(shown["loss"][0]) for shown in cycles]
    assert [row["loss"][0] for row in rows] == pytest.approx(losses)
    assert Record.load(tmp_path).arrays["step"].tolist() == [4, 8]
    curves = curves_of(None, rows)  # of a run that has not finished
    assert curves["loss"][""].at.tolist() == [2, 4, 6, 8]
    assert curves["gap"][""].at.tolist() == [4, 8]


@pytest.fixture
def scripted(monkeypatch):
    """Training whose weights count the cycles, and whose held-out gaps are told beforehand."""

    def script(gaps, losses=(0.5,)):
        gaps, losses = iter(gaps), itertools.cycle(losses)

        def cycle(trainer, learned, key):
            after = eqx.tree_at(
                lambda state: state.models.embed, learned, learned.models.embed + 1.0
            )
            return after, {"loss": np.full((1, 2), next(losses))}

        monkeypatch.setattr(_train, "run_cycle", cycle)
        monkeypatch.setattr(_train, "held_out_gaps", lambda *_: np.full((1, 4), next(gaps)))

    return script


@pytest.mark.parametrize(
    ("gaps", "rules", "cycles", "kept"),
    [
        ([0.5, 0.4, 0.45, 0.4, 0.3, 0.2], {"patience": 2}, 4, 2),
        ([0.5, 0.4, 0.45, 0.3, 0.31, 0.32], {"patience": 2}, 6, 4),
        ([0.5, 0.4, 0.3, 0.2, 0.1, 0.0], {"stop_below": 0.35}, 3, 3),
        ([0.5, 0.4, 0.3, 0.35, 0.36, 0.37], {"stop_below": 0.3}, 6, 3),
        ([0.5, 0.4, 0.45, 0.41, 0.3, 0.2], {}, 6, 6),
    ],
)
def test_training_ends_when_it_should_and_keeps_the_best(scripted, gaps, rules, cycles, kept):
    scripted(gaps)
    config = incontext.Config(**{**TINY, "steps": 12, **rules})
    family, line = families.uniform(2), Line()
    before = prepare(family, config, jax.random.key(0))[0].players.models.embed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("equipoise.runs._loop.progress", lambda *_, **__: line)
        players = incontext.pretrain(family, config, key=0)
    assert len(line.shown) == 1 + cycles
    np.testing.assert_allclose(players.models.embed, before + kept, atol=1e-5)


@pytest.mark.parametrize(("below", "cycles"), [(0.7, 1), (0.01, 3)])
def test_a_cross_entropy_below_the_papers_threshold_ends_training(below, cycles, tmp_path):
    """A base with a dominant action: its label is certain, and the loss starts at log 2 = .693."""
    base = eq.MatrixGame([[0.9, 0.8], [0.2, 0.1]])
    rule = {"stop_on": "cross-entropy", "stop_below": below, "patience": None}
    small = {"layers": 1, "width": 8, "hidden": 8, "tokens": "round", "held_out": 2, "batch": 2}
    config = incontext.Config.paper(rounds=2, steps=12, **small, **rule)
    incontext.pretrain(families.perturbed(base, 0.05), config, key=0, run=tmp_path)
    losses = [float(np.mean(row["loss"])) for row in read_metrics(tmp_path)]
    assert len(losses) == cycles
    assert (losses[-1] < below) == (cycles == 1)


def test_the_paper_stops_by_its_divergence_whatever_the_gap(scripted, monkeypatch):
    scripted(itertools.count(1.0, -0.01))
    found = iter([0.5, 0.3, *(9 * [0.4])])
    monkeypatch.setattr(_train, "held_out_divergence", lambda *_: np.full(1, next(found)))
    line = Line()
    monkeypatch.setattr("equipoise.runs._loop.progress", lambda *_, **__: line)
    sizes = {"layers": 1, "width": 8, "hidden": 8, "play_ahead": 50, "batch": 2}
    config = incontext.Config.paper(rounds=4, **sizes)
    assert (config.held_out, config.patience) == (64, 5)
    before = prepare(families.uniform(2), config, jax.random.key(0))[0].players.models.embed
    players = incontext.pretrain(families.uniform(2), config, key=0)
    assert len(line.shown) == 1 + 7  # of twenty: five evaluations after the best
    np.testing.assert_allclose(players.models.embed, before + 2, atol=1e-5)


@pytest.mark.parametrize(
    ("gaps", "losses", "told"), [([0.5], [0.1, np.nan], "loss"), ([np.nan], [0.1], "gap")]
)
def test_weights_that_are_not_finite_are_never_kept(scripted, tmp_path, gaps, losses, told):
    scripted(gaps, losses)
    complaint = f"learning_rate: expected a rate .* found 50: {told} of seed 0 is nan after"
    config = incontext.Config(**{**TINY, "learning_rate": 50.0})
    with pytest.raises(ValueError, match=complaint):
        incontext.pretrain(families.uniform(2), config, key=0, run=tmp_path)
    assert not (tmp_path / "players.safetensors").exists()
    assert not (tmp_path / "record.json").exists()
    assert "nan" not in (tmp_path / "metrics.jsonl").read_text().lower()


def test_a_rate_that_is_too_high_is_told():
    config = incontext.Config(**{**TINY, "learning_rate": 3e38})
    with pytest.raises(ValueError, match="learning_rate: expected a rate at which training stays"):
        incontext.pretrain(families.uniform(2), config, key=0)
    with pytest.warns(UserWarning, match=r"families\[0\]: training did not stay finite"):
        incontext.sweep([families.uniform(2)], config, key=0)


WRONG = [
    ("Config(layer_norm='no')", "layer_norm: expected True or False, found 'no'"),
    ("Config(shared='yes')", "shared: expected True, False or None; found 'yes'"),
    ("Config(stop_below='x')", "stop_below: expected a number in (-inf, inf), found 'x'"),
    ("Config(stop_below=float('nan'))", "stop_below: expected a number in (-inf, inf), found nan"),
    ("Config(learners='omd')", "learners: expected a tuple of names such as ('omd',), found"),
    ("Config(learners=(1,))", "learners: expected a tuple of names"),
    ("Config(learning_rate='big')", "learning_rate: expected a number in (0.0, inf), found 'big'"),
    (
        "Config(learning_rate=float('inf'))",
        "learning_rate: expected a number in (0.0, inf), found inf",
    ),
    ("Config(exploration=True)", "exploration: expected a number in [0.0, 1.0], found True"),
    ("pretrain(family, {'rounds': 4}, key=0)", "config: expected a Config such as"),
    ("initial_players(family, {}, key=0)", "config: expected a Config such as"),
    ("sweep([family], {}, key=0)", "config: expected a Config such as"),
    ("dataset(family, {}, games=1, key=0)", "config: expected a Config such as"),
    (
        "evaluate(load('iid3'), families.uniform(3).sample(2, key=0), training=5)",
        "training: expected a Family, a MatrixGame or MarkovGame; found int",
    ),
]
ASK = """
import json, sys
from equipoise.games import families
from equipoise.incontext import *
family, found = families.uniform(2), []
for expression in json.load(sys.stdin):
    try:
        found.append(repr(eval(expression)))
    except ValueError as error:
        found.append(str(error))
config = Config(rounds=8.0, learners=["omd"])
print(json.dumps([found, config.rounds, config.learners]))
"""


def test_arguments_of_the_wrong_kind_are_refused_in_words():
    """In a process of its own: in this one, types are checked before anything else is."""
    expressions = json.dumps([expression for expression, _ in WRONG])
    out = subprocess.run(
        [sys.executable, "-c", ASK], input=expressions, capture_output=True, text=True, check=True
    )
    found, rounds, learners = json.loads(out.stdout)
    for answer, (expression, complaint) in zip(found, WRONG, strict=True):
        assert answer.startswith(complaint), expression
    assert (rounds, learners) == (8, ["omd"])


def test_gaps_of_markov_games_are_told_with_their_unit(scripted, tmp_path):
    scripted(itertools.repeat(0.5))
    for states, told in ((None, False), (2, True)):
        run = tmp_path / str(states)
        incontext.pretrain(
            families.uniform(2, states=states), incontext.Config(**TINY), key=0, run=run
        )
        unit = "per round (mean over states, times 1 - discount)"
        assert (unit in incontext.description(run)["results"]["measure"]) == told
        assert (unit in (run / "MODEL_CARD.md").read_text()) == told


def test_training_can_begin_with_other_players():
    family, config = families.uniform(2), incontext.Config(**TINY)
    start = incontext.initial_players(family, config, key=7)
    trained = incontext.pretrain(family, config, key=0, start=start)
    moved = np.abs(np.asarray(trained.models.embed - start.models.embed)).max()
    assert 1e-5 < moved < 0.02  # four steps of Adam at 1e-3
    other = eqx.tree_at(lambda p: p.models.embed, start, start.models.embed[:, :, :4])
    with pytest.raises(ValueError, match="start: expected players with the sizes"):
        incontext.pretrain(family, config, key=0, start=other)


def test_what_cannot_be_trained_is_refused():
    markov = families.uniform(2, states=2)
    for family, changes, complaint in (
        (markov, {"loss": "expert"}, "training_games: expected a number"),
        (families.uniform((2, 3)), {"shared": True}, "shared: expected a symmetric family"),
        (
            markov,
            {"contexts": "learners", "learners": ("exp3-ix",)},
            "learners: expected for Markov games",
        ),
        (markov, {"learners": ("foo",)}, "learners: expected for Markov games"),
    ):
        with pytest.raises(ValueError, match=complaint):
            incontext.pretrain(family, incontext.Config(**{**TINY, **changes}), key=0)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"expert": "omd"}, r"expert: expected 'nash' \(the default\) unless loss is 'expert'"),
        ({"reward_bins": 10}, "reward_bins: expected 20 .* unless tokens is 'vocabulary'"),
        (
            {"exploration": 0.5, "contexts": "learners"},
            "exploration: expected 0.2 .* unless contexts is 'on-policy' or 'mixed', found 0.5",
        ),
    ],
)
def test_settings_without_a_meaning_are_refused_but_read_from_old_runs(setting, complaint):
    with pytest.raises(ValueError, match=complaint):
        incontext.Config(**setting)
    stored = {**vars(incontext.Config()), **setting}
    others = {k: v for k, v in setting.items() if k == "contexts"}
    assert incontext.Config.from_plain(stored) == incontext.Config(**others)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch", 10**9),
        ("layers", 10**15),
        ("rounds", 10**8),
        ("width", 4 * 10**8),
        ("seeds", 10**400),
    ],
)
def test_sizes_beyond_memory_are_refused_before_anything_is_built(name, value):
    config = eq.incontext.Config(**{name: value})
    with pytest.raises(ValueError, match=f"{name}: expected arrays of at most half"):
        eq.incontext.pretrain(eq.games.families.uniform(actions=2), config, key=0)
