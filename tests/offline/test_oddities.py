"""What a table shows beside its log: cells out of scale, totals, columns left out, states."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.core import InputError
from equipoise.offline._dependence import told_moved_contexts
from equipoise.offline._oddities import huge_rewards


class Frame:
    """Columns that turn into arrays, as those of pandas and polars do."""

    def __init__(self, **columns):
        self.content, self.columns = columns, list(columns)

    def __getitem__(self, name):
        values = np.asarray(self.content[name])
        return type("Column", (), {"to_numpy": lambda self: values})()


def shops(seed=0, weeks=400, *, effect=60.0, moved=0.0, kept=0.0, seasons="drawn"):
    """A wide table of four shops; the season costs `effect` times the price, and moves prices."""
    rng = np.random.default_rng(seed)
    kinds = {"drawn": rng.integers(0, 2, weeks), "alternating": np.arange(weeks) % 2}
    wet = (kinds | {"long": np.arange(weeks) // 26 % 2})[seasons]
    price = rng.integers(0, 3, (weeks, 4))
    price = np.where(rng.random(price.shape) < moved * wet[:, None], 2, price)
    for week in range(1, weeks if kept else 0):
        price[week] = np.where(rng.random(4) < kept, price[week - 1], price[week])
    profit = 100.0 * price + 20.0 * np.roll(price, 1, 1) - effect * wet[:, None] * (1 + price)
    profit += rng.normal(0, 60, price.shape)
    columns = {"season": np.array(["dry", "wet"], object)[wet], "week": np.arange(weeks)}
    for i, shop in enumerate("ABCD"):
        columns |= {f"action_{shop}": price[:, i], f"reward_{shop}": profit[:, i]}
    return columns


@pytest.mark.parametrize("seasons", ["drawn", "alternating", "long"])
def test_a_forgotten_column_is_named_if_it_explains_rewards(seasons):
    log = eq.offline.Log.read(Frame(**shops(seasons=seasons)))
    assert log.notes[3].startswith("look at this: season explains ")
    assert log.notes[3].endswith("rewards and is not used; pass context='season' (--context)")
    assert log.confounders == ()
    few = eq.advise(log.take(slice(19)))
    assert few.stats["warnings"][0] == log.notes[3]
    season = eq.offline.Log.read(Frame(**shops(seasons=seasons)), context="season")
    assert len(season.notes) == 3


def test_a_forgotten_column_that_goes_with_actions_too_is_refused(tmp_path):
    log = eq.offline.Log.read(Frame(**shops(moved=0.4)))
    (told,) = log.confounders
    assert "goes with the actions of" in told
    assert told.endswith("or remove the column if it is a result of what agents do")
    for name in ("log.npz", "log.parquet"):
        log.write(tmp_path / name)
        assert eq.offline.Log.read(tmp_path / name).confounders == log.confounders
    advice = eq.advise(log, iterations=10)
    assert advice.status.name == "refused"
    assert told in advice.status.message
    assert eq.advise(log, iterations=10, force=True).status.caution


@pytest.mark.parametrize("seasons", ["drawn", "alternating", "long"])
def test_a_column_without_an_effect_is_not_named(seasons):
    """Also if prices stay for weeks, and seasons for months."""
    for seed in range(12):
        table = shops(seed, effect=0.0, kept=0.9 * (seed % 2), seasons=seasons)
        assert len(eq.offline.Log.read(Frame(**table)).notes) == 3


def test_a_cell_a_thousand_times_the_others_is_named_and_kept():
    table = shops(effect=0.0)
    table["reward_B"][7] = 1e6
    log = eq.offline.Log.read(Frame(**table))
    assert log.rewards[7, 1] == 1e6
    assert "the reward 1e+06 of B at row 7 is " in log.notes[3]
    advice = eq.advise(eq.offline.Log(None, log.actions, log.rewards), iterations=10)
    assert "the reward 1e+06 of 1 in row 7 is " in advice.stats["warnings"][0]
    rng = np.random.default_rng(0)  # rare prizes, and tails as heavy as they come, are no errors
    prizes = np.where(rng.random((2000, 2)) < 0.01, 1000.0, rng.random((2000, 2)))
    for rewards in (prizes, rng.standard_cauchy((2000, 2))):
        assert huge_rewards(rewards, "AB") == []


def test_an_agent_whose_rewards_are_the_sum_of_the_others_is_named_and_kept():
    table = shops(effect=0.0)
    table["action_All"] = table["action_A"]
    table["reward_All"] = sum(table[f"reward_{shop}"] for shop in "ABCD")
    log = eq.offline.Log.read(Frame(**table))
    assert log.labels.players == ("A", "B", "C", "D", "All")
    assert log.notes[3] == (
        "look at this: the rewards of All are the sum of the others': a line of totals?"
    )


def shared_state(seed=0, rows=2000, *, moves=True):
    """States (rows,), actions, rewards, next states: play is independent given the state."""
    rng = np.random.default_rng(seed)
    worth, often = rng.random((3, 2, 2, 2, 2)), rng.uniform(0.3, 0.7, (2, 3))
    state, out = 0, []
    for _ in range(rows):
        action = (rng.random(3) < often[state]).astype(int)
        following = int(rng.random() < (0.1 + 0.8 * action[0] if moves else 0.3 + 0.4 * state))
        earned = [worth[(i, state, *action)] + 0.1 * rng.normal() for i in range(3)]
        out.append((state, action, earned, following))
        state = following
    return [np.array(column) for column in zip(*out, strict=True)]


def test_a_state_that_all_see_is_called_so():
    states, actions, rewards, following = shared_state()
    local = [np.repeat(column[:, None], 3, 1) for column in (states, following)]
    message = eq.advise(eq.offline.Log(None, actions, rewards, *local)).status.message
    assert message.startswith(
        "all agents are in the same state in every row, so it is a state that"
    )
    assert "correlated" not in message
    local[0] = local[0].copy()  # one of them sees it late
    local[0][1:, 2] = local[0][:-1, 2]
    message = eq.advise(eq.offline.Log(None, actions, rewards, *local)).status.message
    assert "local states of agents go together (" in message
    assert "correlated" not in message


def test_a_context_that_actions_move_is_named_with_what_to_do():
    states, actions, rewards, _ = shared_state()
    advice = eq.advise(eq.offline.Log(states, actions, rewards), iterations=50)
    assert advice.status.caution
    assert advice.status.message.startswith("the actions of 0 move the context of the next row, so")
    assert "model the context as the state of a MarkovGame. Within a row, with" in (
        advice.status.message
    )
    for seed in range(10):
        states, actions, rewards, _ = shared_state(seed, moves=False)
        assert told_moved_contexts(eq.offline.Log(states, actions, rewards)) == ""
    states, actions, rewards, _ = shared_state(moves=False)
    advice = eq.advise(eq.offline.Log(states, actions, rewards), iterations=50)
    assert "actions do not move the next context" in advice.status.message


def test_frames_and_files_are_learned_from_or_the_answer_says_what_to_type(tmp_path):
    table = shops(effect=0.0)
    advice = eq.advise(Frame(**table), iterations=20)
    assert advice.status.ok
    head = "week,shop,price,profit\n"
    (tmp_path / "log.csv").write_text(f"{head}1,Ada,low,2\n1,Bo,high,1\n")
    long = {name: ["x", "y"] for name in ("week", "shop", "price", "profit")}
    for source, name in ((Frame(**long), "frame"), (str(tmp_path / "log.csv"), "log.csv'")):
        with pytest.raises(InputError, match=r"found week, shop, price, profit; for a long") as e:
            eq.advise(source)
        assert f"{name}, agent=..., time=..., action=..., reward=...)" in str(e.value)
