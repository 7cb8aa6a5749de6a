"""Training on fixed trajectories: what is read, what is refused and where, and what is learned."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from support import files_of

import equipoise as eq
from equipoise import incontext
from equipoise.core.arrays import write_npz
from equipoise.core.errors import InputError
from equipoise.games import families
from equipoise.incontext import Config, Trajectories, _imitation, _sources
from equipoise.incontext._imitation import _book
from equipoise.incontext._step import recorded_divergence
from equipoise.incontext._trajectories import Order
from equipoise.runs import Record, read_metrics

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TINY = {
    **{"layers": 1, "width": 8, "heads": 2, "hidden": 8, "steps": 8, "batch": 4, "warmup": 0},
    **{"loss": "expert", "contexts": "learners", "stop_on": "kl", "play_ahead": 2},
    **{"evaluate_every": 4, "held_out": 4, "rounds": 6},
}


@pytest.fixture(scope="module")
def batches():
    """Play of mirror descent in 24 games, with its own policies as labels."""
    how = Config.paper(rounds=6, expert="omd", batch=8, training_games=None)
    return incontext.dataset(families.uniform(3), how, games=24, key=0)


@pytest.fixture(scope="module")
def arrays(batches):
    names = ("actions", "rewards", "labels")
    whole = list(batches)
    return {n: np.concatenate([getattr(b, n) for b in whole]) for n in names}


def rows(arrays, **changes):
    """The arrays as columns of a table."""
    actions = arrays["actions"]
    _, player, t = np.indices(actions.shape)
    columns = {"player": player, "round": t + 1, "action": actions, "reward": arrays["rewards"]}
    for a in range(3):
        columns[f"label_{a}"] = arrays["labels"][:, :, :-1, a]
    return {name: np.ravel(column).copy() for name, column in columns.items()} | changes


def write(path, columns):
    parquet.write_table(pyarrow.table(columns), path)
    return path


def test_every_source_holds_the_same_data(batches, arrays, tmp_path):
    batches.export(tmp_path / "a.parquet")
    batches.export(tmp_path / "b.npz")
    folder = tmp_path / "pieces"
    folder.mkdir()
    for i in range(3):
        part = {name: array[8 * i : 8 * i + 8] for name, array in arrays.items()}
        write(folder / f"{i}.parquet", rows(part))
    one = [Trajectories(s) for s in (tmp_path / "a.parquet", str(tmp_path / "b.npz"), arrays)]
    assert {len(data) for data in one} == {24}
    assert len({data.digest for data in one}) == 1
    more = [Trajectories(s) for s in (folder, batches, list(batches), lambda: iter(batches))]
    assert {(len(data), data.pieces, data.rounds) for data in more} == {(24, 3, 6)}
    assert len({data.digest for data in more}) == 1
    everything = np.arange(24)
    first, second = (next(d.lots(everything, 24, 6)) for d in (one[0], more[0]))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_markov_games_are_read_with_their_states(tmp_path):
    family = families.uniform(2, states=3)
    data = incontext.dataset(family, Config.paper(rounds=5, batch=4, expert="omd"), games=8, key=1)
    data.export(tmp_path / "a.parquet")
    data.export(tmp_path / "b.npz")
    both = [
        Trajectories(tmp_path / name, states=3, actions=(2, 2)) for name in ("a.parquet", "b.npz")
    ]
    assert both[0].digest == both[1].digest
    assert both[0].states == 3
    batch, lot = data[0], next(both[0].lots(np.arange(4), 4, 5))
    assert batch.states is not None
    here = batch.states[2, 3]
    np.testing.assert_allclose(lot.labels[1, 2, 3], batch.labels[2, 1, 3, here], atol=1e-7)
    config = replace(Config(**TINY), rounds=5, steps=2)
    assert incontext.pretrain(config=config, data=both[0], key=0).states == 3


def test_actions_of_the_expert_are_labels_too(arrays, tmp_path):
    drawn = arrays["labels"].argmax(-1)
    columns = rows(arrays)
    for a in range(3):
        del columns[f"label_{a}"]
    columns["label"] = drawn[:, :, :-1].ravel()
    data = [
        Trajectories(write(tmp_path / "a.parquet", columns)),
        Trajectories(arrays | {"labels": drawn}),
    ]
    assert data[0].digest == data[1].digest
    lot = next(data[0].lots(np.arange(24), 24, 6))
    np.testing.assert_array_equal(lot.labels.argmax(-1), np.swapaxes(drawn, 0, 1)[:, :, :-1])
    assert (lot.labels.sum(-1) == 1).all()


def test_shorter_trajectories_count_by_their_rounds(arrays, tmp_path):
    columns = rows(arrays)
    keep = ~((np.arange(len(columns["round"])) < 12) & (columns["round"] > 4))
    short = {name: column[keep] for name, column in columns.items()}
    data = Trajectories(write(tmp_path / "a.parquet", short))
    lot = Order(data, np.zeros(0, int), [0], 6).lot(0, 24)
    assert lot.weights.mean() == pytest.approx(1.0)
    assert sorted(np.unique((lot.weights > 0).sum(-1), return_counts=True)[1].tolist()) == [2, 46]
    keep = ~((np.arange(len(columns["round"])) < 6) & (columns["round"] > 4))
    path = write(tmp_path / "b.parquet", {n: c[keep] for n, c in columns.items()})
    with pytest.raises(InputError, match=r"^data: expected as many rounds of player 1 .* 6 in rou"):
        Trajectories(path)


BAD = {
    "an action that does not exist": ("action", 17, -1, r"actions that are whole .* -1 in action"),
    "a reward outside the range": ("reward", 17, 1.5, r"rewards in \[0, 1\].* 1.5 in reward"),
    "a reward that is missing": ("reward", 17, np.nan, r"rewards in .* nan in reward"),
    "labels that do not sum to one": (
        "label_1",
        17,
        2.0,
        r"labels label_0 to label_2 that sum to 1",
    ),
    "a negative label": ("label_1", 17, -1.0, r"labels that are probabilities"),
    "a round that is left out": ("round", 17, 7, r"rounds 1, 2, .* 7 in round"),
    "a player that does not exist": ("player", 17, 2, r"players that are whole .* 2 in player"),
    "a player that changes": ("player", 17, 1, r"rounds 1, 2, "),
}


@pytest.mark.parametrize("bad", list(BAD))
def test_a_bad_row_is_refused_with_its_number_and_its_file(bad, arrays, tmp_path):
    column, row, value, expected = BAD[bad]
    columns = rows(arrays)
    if isinstance(value, float):
        columns[column] = columns[column].astype(float)
    columns[column][row] = value
    path = write(tmp_path / "bad.parquet", columns)
    with pytest.raises(
        InputError, match=rf"^data: expected {expected}.*, row 18 of .*bad\.parquet$"
    ):
        incontext.pretrain(config=Config(**TINY), data=path, key=0, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rows_are_counted_over_blocks_of_a_file(arrays, tmp_path, monkeypatch):
    monkeypatch.setattr(_sources, "ROWS", 100)
    columns = rows(arrays)
    table = pyarrow.table(columns)
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=36)
    data = Trajectories(tmp_path / "a.parquet")
    assert data.pieces == 3  # of three groups each: 108 rows, which are nine trajectories
    assert len(data) == 24
    columns["reward"][200] = 3.0
    parquet.write_table(pyarrow.table(columns), tmp_path / "b.parquet", row_group_size=36)
    with pytest.raises(InputError, match=r"3\.0 in reward, row 201 of .*b\.parquet$"):
        Trajectories(tmp_path / "b.parquet")


def test_arrays_name_the_entry(arrays, tmp_path):
    rewards = arrays["rewards"].copy()
    rewards[3, 1, 5] = 2.0
    write_npz(tmp_path / "a.npz", arrays | {"rewards": rewards})
    with pytest.raises(InputError, match=r"found 2\.0 in rewards\[3, 1, 5\] of .*a\.npz$"):
        Trajectories(tmp_path / "a.npz")
    data = Trajectories(tmp_path / "a.npz", reward_range=(0.0, 2.0))
    lot = next(data.lots(np.arange(24), 24, 6))
    np.testing.assert_allclose(lot.rewards[1, 3, 5], 1.0)
    np.testing.assert_allclose(lot.rewards[0, 3], rewards[3, 0] / 2.0, rtol=1e-6)


WRONG = {
    "nothing there": ("nowhere", r"a file or a folder, found nothing at nowhere"),
    "an iterator": (iter([]), r"found list_iterator; an iterator can be read only once"),
    "other arrays": ({"rewards": 1}, r"arrays actions, rewards and labels; found rewards in data"),
    "nothing in it": ([], r"at least one piece, found none"),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_other_data_are_refused(wrong):
    data, expected = WRONG[wrong]
    with pytest.raises(InputError, match=rf"^data: expected .*{expected}"):
        Trajectories(data)


def test_data_must_fit_the_games(arrays):
    with pytest.raises(InputError, match=r"actions of the column player from 0 to 1, found 2 in "):
        incontext.pretrain(families.uniform((3, 2)), Config(**TINY), data=arrays, key=0)
    with pytest.raises(InputError, match=r"^data: expected states"):
        incontext.pretrain(families.uniform(3, states=2), Config(**TINY), data=arrays, key=0)


SETTINGS = {
    "loss": ({"loss": "exploitability", "stop_on": "gap"}, {}, "expected 'expert' with data"),
    "stop_on": ({"stop_on": "gap"}, {}, "expected 'kl' or 'cross-entropy' with data"),
    "validation": ({}, {"validation": 0.0}, "a share above 0"),
    "stages": ({"stages": ("steps=2",)}, {}, "none with data"),
    "noise": ({"noise": ("bernoulli",)}, {}, "'exact' with data"),
}


@pytest.mark.parametrize("setting", list(SETTINGS))
def test_settings_that_do_not_go_with_data(setting, arrays):
    changes, options, expected = SETTINGS[setting]
    with pytest.raises(InputError, match=rf"^{setting}: .*{expected}"):
        incontext.pretrain(config=Config(**{**TINY, **changes}), data=arrays, key=0, **options)


def test_without_data_there_must_be_a_family(arrays):
    with pytest.raises(InputError, match=r"^family: expected a Family of games, .* or pass data"):
        incontext.pretrain(key=0)
    with pytest.raises(InputError, match=r"^validation: expected None without data"):
        incontext.pretrain(families.uniform(2), key=0, validation=0.5)


def test_validation_data_are_never_learned_from(arrays):
    data = Trajectories([{n: a[i : i + 8] for n, a in arrays.items()} for i in (0, 8, 16)])
    apart = data.split(0.25, [1, 2])
    assert len(apart) == 6
    whole = np.concatenate(
        [arrays["actions"].reshape(24, -1), arrays["rewards"].reshape(24, -1)], 1
    )
    codes = {row.tobytes() for row in whole.astype(np.float32)[apart]}
    order, taken = Order(data, apart, [1, 2], 6), list[bytes]()
    for start in range(0, 36, 4):
        lot = order.lot(start, 4)
        both = [np.swapaxes(array, 0, 1).reshape(4, -1) for array in (lot.actions, lot.rewards)]
        taken += [row.tobytes() for row in np.concatenate(both, 1).astype(np.float32)]
    assert len(codes) == 6
    assert not codes & set(taken)
    assert len(set(taken[:18])) == 18  # every pass takes each trajectory once
    assert set(taken[:18]) == set(taken[18:])
    assert taken[:18] != taken[18:]


def test_players_learn_to_imitate(arrays):
    """On data that they did not learn from, at a fraction of the divergence of uniform play."""
    how = Config.paper(rounds=6, expert="omd", batch=64, training_games=None)
    data = incontext.dataset(families.uniform(3), how, games=512, key=5)
    config = replace(
        Config(**TINY),
        width=32,
        hidden=32,
        steps=160,
        batch=32,
        learning_rate=3e-3,
        evaluate_every=40,
    )
    players = incontext.pretrain(config=config, data=data, key=0)
    task = _imitation.Imitation.prepare(arrays, None, config, 0.1, jax.random.key(0))
    book = _book(next(task.data.lots(np.arange(24), 24, 6)))
    before, after = (
        float(recorded_divergence(task.trainer, models, *book)[0, 1])
        for models in (task.trainer.players.models, players.models)
    )
    assert after < before / 3


def test_early_stopping_keeps_the_weights_of_the_best_look(arrays, tmp_path):
    """Labels of six trajectories can be memorised, so that the divergence rises in the end."""
    few = {name: array[:8] for name, array in arrays.items()}
    few["labels"] = few["labels"].argmax(-1)
    changes = {"steps": 400, "learning_rate": 3e-2, "evaluate_every": 8, "patience": 3, "width": 16}
    incontext.pretrain(
        config=Config(**{**TINY, **changes}), data=few, key=0, run=tmp_path, validation=0.25
    )
    looks = [row["held_out_kl"][0] for row in read_metrics(tmp_path) if "held_out_kl" in row]
    record = Record.load(tmp_path)
    assert record.scalars["steps"] < 400
    assert record.scalars["best held-out value"] == pytest.approx(min(looks), abs=1e-5)
    assert looks.index(min(looks)) == len(looks) - 4
    results = incontext.description(tmp_path)["results"]
    assert results["held_out"] == [pytest.approx(min(looks), abs=1e-5)]
    assert "2 trajectories that selected the weights" in results["measure"]
    assert "8 fixed trajectories" in (tmp_path / "MODEL_CARD.md").read_text()
    with pytest.raises(InputError, match=r"^family: expected a family of this library"):
        incontext.family_of(tmp_path)


def test_a_family_besides_the_data_measures_nash_conv(arrays, tmp_path):
    family = families.uniform(3)
    config = Config(**{**TINY, "stop_on": "gap"})
    incontext.pretrain(family, config, data=arrays, key=0, run=tmp_path)
    record = Record.load(tmp_path)
    assert {"gap", "held_out_kl", "loss"} <= set(record.arrays)
    assert 0.0 < record.scalars["gap on fresh games"] < 1.0
    assert incontext.load(tmp_path).seats == 1  # the family is symmetric


class Killed(BaseException):
    """Ends a run as a kill does: nothing after it is executed."""


@pytest.mark.parametrize("kind", ["folder", "function"])
def test_a_run_that_was_killed_ends_with_the_same_weights(kind, arrays, tmp_path, monkeypatch):
    """Checkpoints are written in every cycle, and the place in the data is part of them."""
    from equipoise.runs import _loop

    monkeypatch.setattr(_loop, "CHECKPOINT_SHARE", float("inf"))
    folder = tmp_path / "pieces"
    folder.mkdir()
    parts = [{n: a[i : i + 8] for n, a in arrays.items()} for i in (0, 8, 16)]
    for i, part in enumerate(parts):
        write_npz(folder / f"{i}.npz", part)
    data = folder if kind == "folder" else lambda: iter(parts)
    config = Config(**{**TINY, "steps": 24, "seeds": 2})

    def train(place):
        return incontext.pretrain(config=config, data=data, key=3, run=place)

    cycle, done = _imitation.run_recorded, []

    def killed(*arguments):
        done.append(None)
        if len(done) > 7:  # in the second pass over 22 trajectories, in the middle of a piece
            raise Killed
        return cycle(*arguments)

    monkeypatch.setattr(_imitation, "run_recorded", killed)
    with pytest.raises(Killed):
        train(tmp_path / "broken")
    monkeypatch.setattr(_imitation, "run_recorded", cycle)
    assert 0 < len(read_metrics(tmp_path / "broken")) < 12
    for place in ("broken", "whole"):
        train(tmp_path / place)
    assert files_of(tmp_path / "broken") == files_of(tmp_path / "whole")
    assert {"players.safetensors", "record.npz"} <= set(files_of(tmp_path / "whole"))


def test_other_data_are_another_run(arrays, tmp_path):
    config = Config(**{**TINY, "steps": 2})
    incontext.pretrain(config=config, data=arrays, key=0, run=tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["family"]["name"] == "data"
    others = arrays | {"rewards": 1.0 - arrays["rewards"]}
    with pytest.raises(ValueError, match=r"found other values of: family\.rewards\.digest"):
        incontext.pretrain(config=config, data=others, key=0, run=tmp_path)


def test_a_function_must_yield_the_same_pieces_each_time(arrays):
    calls = []

    def pieces():
        calls.append(None)
        return iter([arrays] if len(calls) == 1 else [{n: a[:4] for n, a in arrays.items()}])

    data = Trajectories(pieces)
    data._source._kept.clear()
    with pytest.raises(InputError, match=r"the same pieces in every pass, found 4 instead of 24"):
        Order(data, np.zeros(0, int), [0], 6).lot(0, 4)


def test_play_after_training_needs_no_more_than_the_weights(arrays):
    players = incontext.pretrain(config=Config(**{**TINY, "steps": 2}), data=arrays, key=0)
    games = eq.games.families.uniform(3).sample(4, key=0)
    trace = incontext.play(games, players, rounds=4, key=0)
    assert trace.last[0].shape == (4, 3)
