"""Trained imitators of mirror descent: a tiny run, its folder, and what the kept record shows."""

import math
from dataclasses import replace

import numpy as np
import pytest

from equipoise.incontext import theory
from reproduction import in_context_imitator, rows_of
from reproduction.in_context_imitator import Cell, Config

TINY = Config.quick(
    actions=(),
    states=(2,),
    rounds=(4,),
    default=(4, 1, 8),
    attention=("relu",),
    steps=4,
    batch=2,
    test_games=4,
    built_games=2,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("imitator")


@pytest.fixture(scope="module")
def record(folder):
    return in_context_imitator.run(TINY, 0, folder)


def test_networks_stand_beside_the_learner_and_the_bounds(record):
    (network,) = rows_of(record.tables["networks"])
    (reference,) = rows_of(record.tables["references"])
    (mean,) = rows_of(record.tables["means"])
    assert 0 < network["total variation"] <= network["realisability"] <= 1
    assert 0 <= network["last"] <= network["realisability"]
    assert network["samples"] == 2 * 4 * 2
    assert reference["hand-built realisability"] < 1e-5
    assert abs(reference["hand-built"] - reference["expert, the same games"]) < 1e-4
    assert 0 < reference["expert"] < 1
    assert 0 <= reference["distance"] <= math.sqrt(2 * (1 - 1 / 3))
    assert mean["gap"] == mean["largest gap"] == network["gap"]
    known = dict(rounds=4, actions=3, states=2, discount=0.9, travel=1.0)
    known |= dict(distance=reference["distance"], realisability=network["realisability"])
    data = dict(log_cover=network["log covering number"], samples=network["samples"])
    bound = theory.markov_bound(**known, **data, corrected=False)
    assert mean["printed bound"] == pytest.approx(bound.total)
    without = bound.total - bound.terms["statistics"]
    assert mean["printed bound, unlimited samples"] == pytest.approx(without)
    assert mean["corrected bound"] > mean["corrected bound, unlimited samples"]
    assert len(in_context_imitator.plot(record).axes) == 3


def test_a_larger_grid_uses_the_networks_of_a_smaller_one(folder, record, monkeypatch):
    trained = []

    def refuse(config, part, attention, cell, key):
        trained.append((part, attention, cell))
        raise KeyboardInterrupt

    monkeypatch.setattr(in_context_imitator, "_train", refuse)
    again = in_context_imitator.run(TINY, 0, folder)
    assert again.tables == record.tables
    wider = replace(TINY, sized=("markov-2",), layers=(2,), widths=(8,))
    with pytest.raises(KeyboardInterrupt):
        in_context_imitator.run(wider, 0, folder)
    assert trained == [("markov-2", "relu", Cell(4, 2, 8))]
    with pytest.raises(ValueError, match=r"config: expected the config of .*steps"):
        in_context_imitator.run(replace(TINY, steps=8), 0, folder)


def test_one_thing_differs_from_the_default_at_a_time():
    config = Config()
    assert config.cells("matrix-2") == [Cell(rounds, 2, 64) for rounds in config.rounds]
    others = set(config.cells("matrix-3")) - set(config.cells("matrix-2"))
    assert others == {Cell(32, 1, 64), Cell(32, 4, 64), Cell(32, 2, 16), Cell(32, 2, 32)}
    with pytest.raises(ValueError, match=r"only: expected some of .*found \['matrix-9'\]"):
        Config(only=("matrix-9",))
    with pytest.raises(ValueError, match="attention: expected some of"):
        Config(attention=("linear",))


def test_in_matrix_games_a_gap_carries_over_by_both_total_variations():
    network = {"panel": "A=3", "rounds": 8, "realisability": 0.2, "last": 0.1, "samples": 10}
    network["log covering number"] = 5.0
    reference = {"expert": 0.25, "distance": 0.5}
    bounds = in_context_imitator._bounds(network, reference, Config())
    assert bounds["transferred"] == pytest.approx(0.45)
    difference = bounds["printed bound"] - bounds["printed bound, unlimited samples"]
    assert difference == pytest.approx((5.0 - np.log(0.05)) / 10)
