"""The run behind `equipoise play`: pieces, checkpoints and interruptions leave no trace."""

import os
import signal

import numpy as np
import pytest

import equipoise as eq
from equipoise.dynamics import SelfPlay as Config
from equipoise.dynamics import _engine as engine
from equipoise.dynamics import _self_play as self_play
from equipoise.runs import Record

SMALL = Config(rounds=600, games=4, noise="bernoulli")
MARKOV = Config(rounds=150, games=4, states=2, actions=2, column="v-learning")


def fix_pieces(monkeypatch, rounds):
    class Steady:
        def __init__(self, *_):
            self.steps = rounds

        def learn(self, *_):
            pass

    monkeypatch.setattr("equipoise.runs._loop._Pace", Steady)


def press_ctrl_c_in(monkeypatch, piece):
    """Press Ctrl-C while this piece is being played; play begins with one call before them."""
    play, calls = self_play.play, []

    def pressed(*arguments, **options):
        if len(calls) == piece:
            os.kill(os.getpid(), signal.SIGINT)
        calls.append(0)
        return play(*arguments, **options)

    monkeypatch.setattr(self_play, "play", pressed)


def assert_same(first, second):
    assert first.scalars == second.scalars
    assert first.tables == second.tables
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(array, second.arrays[name])


@pytest.mark.parametrize("config", [SMALL, MARKOV])
def test_pieces_and_checkpoints_do_not_show(monkeypatch, tmp_path, config):
    whole = self_play.self_play(config, tmp_path / "whole")
    fix_pieces(monkeypatch, 37)
    monkeypatch.setattr("equipoise.runs._loop.CHECKPOINT_SHARE", float("inf"))
    assert_same(whole, self_play.self_play(config, tmp_path / "pieces"))
    names = ("record.json", "record.npz")
    for name in names:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "pieces" / name).read_bytes()


def test_an_interrupted_run_is_kept_and_goes_on(monkeypatch, tmp_path):
    whole = self_play.self_play(SMALL, tmp_path / "whole")
    fix_pieces(monkeypatch, 50)
    rounds = []
    for pieces in (1, 3, 4):
        with monkeypatch.context() as patch:
            press_ctrl_c_in(patch, pieces)
            record = self_play.self_play(SMALL, tmp_path / "cut")
        rounds.append(record.scalars["rounds"])
        assert record.arrays["rounds"].tolist() == [
            r for r in SMALL.record_rounds if r <= rounds[-1]
        ]
        assert not (tmp_path / "cut" / "record.json").exists()
    # Pieces end at recorded rounds, too: 100, 150, 177, 227, 277, 316, ...
    assert rounds == [50, 177, 366]
    assert_same(whole, self_play.self_play(SMALL, tmp_path / "cut"))
    assert_same(whole, Record.load(tmp_path / "cut"))


@pytest.mark.parametrize("rounds", [0, 2**31, float("nan"), float("inf"), None])
def test_rounds_that_cannot_be_played_leave_no_folder(tmp_path, rounds):
    config = Config(games=2)
    object.__setattr__(config, "rounds", rounds)
    with pytest.raises(ValueError, match="rounds: expected"):
        self_play.self_play(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def learners():
    """Players of 2 x 2 games, plain and with a guard that takes over after eight rounds."""
    config = eq.incontext.Config(rounds=16, layers=1, width=8, hidden=8)
    players = eq.incontext.initial_players(eq.games.families.uniform(actions=2), config, key=0)
    return {"plain": players, "guarded": eq.incontext.Guarded(players, rounds=8)}


def test_players_are_saved_game_by_game(monkeypatch, tmp_path, learners):
    """Ctrl-C while a batch of games is played keeps the batches before it, without contexts."""
    config = Config(actions=2, games=70, rounds=40, row="guarded", column="plain")
    monkeypatch.setattr(self_play, "context_batch", lambda: 32)
    monkeypatch.setattr(engine, "CONTEXT_PIECE", 8)
    whole = self_play.self_play(config, tmp_path / "whole", learners=learners)
    assert (whole.scalars["rounds"], whole.scalars["games"]) == (40, 70)
    play, advance, calls = self_play.play, engine._advance, []

    def counted(*arguments, **options):
        calls.append(0)
        return play(*arguments, **options)

    def pressed(*arguments, **options):
        if len(calls) == 3:  # every batch is played twice, by the players and by mirror descent
            os.kill(os.getpid(), signal.SIGINT)
        return advance(*arguments, **options)

    for expected in (32, 64):
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(self_play, "play", counted)
            patch.setattr(engine, "_advance", pressed)
            record = self_play.self_play(config, tmp_path / "cut", learners=learners)
        assert record.scalars["games"] == expected
        assert len(calls) == 3
        assert not (tmp_path / "cut" / "record.json").exists()
    assert record.arrays["rounds"].tolist() == [40]
    (kept,) = (tmp_path / "cut" / "checkpoints").glob("*64.npz")
    assert kept.stat().st_size < 50_000
    assert_same(whole, self_play.self_play(config, tmp_path / "cut", learners=learners))
    for name in ("record.json", "record.npz", "metrics.jsonl"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()


def test_players_of_other_games_leave_no_folder(tmp_path, learners):
    config = Config(games=2, rounds=4, row="plain")
    with pytest.raises(ValueError, match="expected 2 actions and no states"):
        self_play.self_play(config, tmp_path / "run", learners=learners)
    assert not (tmp_path / "run").exists()


def test_a_learner_of_ones_own_has_a_name(learners):
    named = {"mine": eq.dynamics.OMD()}
    mine = self_play.self_play(Config(games=4, rounds=30, row="mine"), learners=named)
    same = self_play.self_play(Config(games=4, rounds=30))
    np.testing.assert_array_equal(mine.arrays["gap"], same.arrays["gap"])
    assert "omd_gap" not in mine.arrays
