"""What each table must become: the logs are written out by hand."""

from pathlib import Path

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli.offline import Columns
from equipoise.core import InputError
from equipoise.offline._discover import distinct

TABLES = Path(__file__).parent / "tables"
HIGH_LOW = (("high", "low"),)
TWO_DAYS = {"players": ("Ada",), "actions": [[1], [0]], "rewards": [[1], [2]]}
#: The same days if the first number is the month.
LATER = TWO_DAYS | {"actions": [[0], [1]], "rewards": [[2], [1]]}
#: One week of two shops, of which Bo charges more.
WEEK = {"players": ("Ada", "Bo"), "actions": [[1, 0]]}

#: The file, options, the log that it must give (rewards that are not recorded are None), and what
#: its notes must say.
READ = [
    (
        *("blank-reward", {}),
        {"actions": [[1, 0], [0, 1]], "rewards": [[2, None], [1, 3]]},
        "missing rewards: 1 of 4, whose actions still count",
    ),
    (
        *("blank-action", {}),
        {"actions": [[1, 0], [0, 1]], "rewards": [[2, 0], [1, 3]], "states": [[0, 1], [0, 0]]},
        "the agent counts as absent; rewards left out beside them: 1",
    ),
    (
        *("spellings", {"context": "season"}),
        {
            **{"contexts": [0, 1, 0], "actions": [[0, 0], [0, 1], [0, 1]]},
            **{"rewards": [[2, 1], [4, 3], [5, 6]], "context_names": ("dry", "wet")},
        },
        "spellings joined in price: HIGH as high, High as high; "
        "spellings joined in season: DRY as dry; spellings joined in shop: BO as Bo",
    ),
    (
        *("spellings", {"fold": False}),
        {
            **{"players": ("Ada", "BO", "Bo"), "rewards": [[2, 0, 1], [4, 0, 3], [5, 6, 0]]},
            **{"action_names": (("HIGH", "High", "high", "low"),)},
        },
        "actions: HIGH, High, high, low",
    ),
    ("decimal-commas", {}, WEEK | {"rewards": [[1234, 2345]]}, ""),
    ("whole-thousands", {}, WEEK | {"rewards": [[1234, 987]]}, ""),
    ("semicolons-and-points", {}, WEEK | {"rewards": [[1.234, 0.987]]}, ""),
    ("either-mark", {"decimal": ","}, WEEK | {"rewards": [[1234, 2987]]}, ""),
    ("either-mark", {"decimal": "."}, WEEK | {"rewards": [[1.234, 2.987]]}, ""),
    ("brackets", {}, WEEK | {"rewards": [[-0.12, -1200.5]]}, ""),
    ("day-first", {}, TWO_DAYS, "day is read with the day before the month"),
    ("month-first", {}, TWO_DAYS, "day is read with the month before the day"),
    ("points", {}, TWO_DAYS, "day is read with the day before the month"),
    ("months", {}, TWO_DAYS, ""),
    ("ambiguous-days", {"dayfirst": True}, TWO_DAYS, "with the day before"),
    ("ambiguous-days", {"dayfirst": False}, LATER, "with the month"),
    (
        *("called-na", {}),
        {
            **{"players": ("DE", "NA"), "actions": [[0, 1], [0, 0]]},
            **{"rewards": [[1, 2], [4, 3]]},
        },
        "'NA' in region is read as an agent",
    ),
    (
        *("rarely-na", {}),
        {"players": ("DE", "ZA"), "rewards": [[1, 2], [4, 3], [1, 1]]},
        "lines without region or week left out: 1",
    ),
    (
        *("line-of-totals", {}),
        {"players": ("Ada", "Bo"), "rewards": [[2, 1], [1, 3]], "states": None},
        "1 lines of Total left out, which never have an action (totals?)",
    ),
]


def read(name, **options):
    path = TABLES / f"{name}.csv"
    columns = path.read_text().splitlines()[0].replace(";", ",").split(",")
    roles = {"time": columns[0], "agent": columns[1], "action": "price", "reward": "profit"}
    return eq.offline.Log.read(path, **(roles | options))


@pytest.mark.parametrize(("name", "options", "expected", "note"), READ)
def test_a_table_is_the_log_that_a_reader_would_write_down(name, options, expected, note):
    log = read(name, **options)
    rewards = [[None if np.isnan(x) else x for x in row] for row in log.rewards.tolist()]
    assert rewards == expected["rewards"]
    assert log.labels.actions == expected.get("action_names", HIGH_LOW)
    assert log.labels.players == expected.get("players", ("Ada", "Bo"))
    assert log.labels.contexts == expected.get("context_names")
    for field in ("contexts", "actions", "states"):
        if field in expected:
            found = getattr(log, field)
            assert (None if found is None else found.tolist()) == expected[field]
    assert (log.recorded is None) == all(x is not None for row in rewards for x in row)
    assert note in "; ".join(log.notes)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("either-mark", {}, r"decimal: .* '1\.234' in column profit, which may be 1234 or a frac"),
        ("whole-thousands", {"decimal": ";"}, r"decimal: expected '\.' or ','"),
        ("ambiguous-days", {}, r"time: .* found '05/02/2023', where either may be the day; pass"),
        ("no-such-day", {}, r"time: expected dates in column day, found '31/02/2023' in row 0"),
    ],
)
def test_a_table_that_can_be_read_in_two_ways_is_asked_for(name, options, message):
    with pytest.raises(InputError, match=message):
        read(name, **options)


def test_the_command_line_has_the_options_of_reading():
    roles = {"agent": "shop", "action": "price", "reward": "profit"}
    for mark, rewards in ((",", [[1234, 2987]]), (".", [[1.234, 2.987]])):
        columns = Columns(time="week", decimal=mark, **roles)
        assert columns.read(str(TABLES / "either-mark.csv")).rewards.tolist() == rewards
    for order, rewards in (("day-first", [[1], [2]]), ("month-first", [[2], [1]])):
        columns = Columns(time="day", dates=order, **roles)
        assert columns.read(str(TABLES / "ambiguous-days.csv")).rewards.tolist() == rewards
    columns = Columns(time="week", fold=False, **roles)
    assert columns.read(str(TABLES / "spellings.csv")).labels.players == ("Ada", "BO", "Bo")


def test_rows_of_a_game_without_noise_are_data_and_copies_are_not():
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, (500, 2))
    dilemma = np.array([[3.0, 0.0], [5.0, 1.0]])
    exact = np.stack([dilemma[tuple(actions.T)], dilemma[tuple(actions.T[::-1])]], 1)
    log = eq.offline.Log(None, actions, exact)
    assert distinct(log)[1] == 0
    advice = eq.offline.learn(log, iterations=50)
    assert advice.status.name == "learned"
    assert advice.policy.policies.argmax(-1).tolist() == [[[1, 1]]]  # dominant
    coins = exact + rng.integers(0, 2, exact.shape)  # rewards that repeat although they are noisy
    assert distinct(eq.offline.Log(None, actions, coins))[1] == 0
    noisy = eq.offline.Log(None, actions, exact + rng.normal(size=exact.shape))
    rows = np.r_[np.arange(500), np.arange(200)]
    assert distinct(noisy.take(rows))[1] == 200
    wide = rng.integers(0, 4, (500, 9))  # joint actions that would never be played twice
    earned = wide @ rng.random((9, 9))
    assert distinct(eq.offline.Log(None, wide, earned).take(rows))[1] == 200
