"""What each table must become: the logs are written out by hand."""

from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

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
    ("separator", {}, WEEK | {"rewards": [[1.5, 2.25]]}, ""),
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
    columns = path.read_text().removeprefix("sep=;\n").splitlines()[0].replace(";", ",").split(",")
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
    advice = eq.advise(log, iterations=50)
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


class Frame(dict):
    """Columns that turn into arrays, as those of data frames do."""

    columns = property(list)

    def __getitem__(self, name):
        values = np.asarray(super().__getitem__(name))
        return SimpleNamespace(to_numpy=lambda: values)


def codes(*names, times=(1, 2, 3, 4), agents=("A", "B"), **more):
    """A table in which agents play the names in turn."""
    pairs = [(time, agent) for time in times for agent in agents]
    turns = [names[(k + k // 4) % len(names)] for k in range(len(pairs))]
    week, shop = zip(*pairs, strict=True)
    return Frame(week=week, shop=shop, price=turns, profit=np.arange(len(pairs)), **more)


def read_codes(frame, **options):
    roles = {"time": "week", "agent": "shop", "action": "price", "reward": "profit"}
    return eq.offline.Log.read(frame, **(roles | options))


@pytest.mark.parametrize(
    ("names", "labels", "noted"),
    [
        (("007", "7", "8"), ("007", "7", "8"), True),
        (("1E2", "100"), ("100", "1E2"), True),
        (("23851234567890110", "23851234567890111"), ..., True),
        ((2**60, 2**60 + 1), ("1152921504606846976", "1152921504606846977"), True),
        (("1234567890123456", "1234567890123459"), ..., False),
        (("9.90", "9.9", "8"), ("8", "9.9"), False),
        (("1e-05", "0.1"), ("1e-05", "0.1"), False),
    ],
)
def test_names_of_digits_stay_apart_and_as_they_are_written(names, labels, noted):
    labels = tuple(map(str, names)) if labels is ... else labels
    log = read_codes(codes(*names))
    assert log.labels.actions == (labels,)
    assert any("price is read as names, not as numbers" in note for note in log.notes) == noted
    if noted:
        agents = read_codes(codes("a", "b", agents=names[:2]))
        assert agents.labels.players == tuple(sorted(map(str, names[:2]), key=labels.index))


def test_names_of_digits_in_contexts_wide_tables_and_times_stay_apart():
    log = read_codes(codes("a", "b", place=["007"] * 4 + ["7"] * 4), context="place")
    assert log.labels.contexts == ("007", "7")
    wide = {"action_A": ["7", "8"], "action_B": ["007", "7.0"]}
    wide |= {f"reward_{i}": [1, 2] for i in "AB"}
    assert eq.offline.Log.read(Frame(wide)).labels.actions == (("007", "7", "7.0", "8"),)
    start = 1_700_000_000_000_000_000
    log = read_codes(codes("a", "b", times=range(start, start + 4)))
    assert log.samples == 4
    assert log.rewards[:, 0].tolist() == [0, 2, 4, 6]
    hours = codes("a", "b", times=range(24), hour=[f"{k // 2:02}" for k in range(48)])
    assert "hour is a numeric context" in "; ".join(read_codes(hours, context="hour").notes)


_DAYS = [datetime(2022, 12, 30, 9) + timedelta(days=step) for step in range(60)]


@pytest.mark.parametrize(
    "style",
    [
        *("{0:%Y-%m-%d}", "{0.day}-{0:%b-%y}", "{0:%a, %d %b %Y}", "{0:%A, %B} {0.day}, {0.year}"),
        *("{0:%a %d.%m.%y}", "{0:%d%m%Y}", "{0:%m%d%Y}", "{0:%d %b %Y %H:%M:%S GMT}", "{0:%d%b%Y}"),
        *("{0:%y%m%d}", "{0:%d%m%y}", "{0:%m%d%y}"),
        *("{0:%Y-%b-%d}", "{0:%d/%m/%Y %H:%M:%S}.250", "{0:%Y-%m-%dT%H:%M:%S%z}Z"),
    ],
)
def test_days_are_in_the_order_of_time_in_every_style(style):
    frame = codes("a", "b", times=[style.format(day) for day in _DAYS])
    log = read_codes(frame)
    assert log.rewards.tolist() == [[2 * k, 2 * k + 1] for k in range(60)]


@pytest.mark.parametrize(
    "times",
    [
        ["Nov-22", "Dec-22", "Jan-23", "Feb-23"],
        ["11/2022", "12/2022", "01/2023", "02/2023"],
        ["Q3 2022", "Q4 2022", "Q1 2023", "Q2 2023"],
        ["3Q2022", "4Q2022", "1Q2023", "2Q2023"],
        ["W51/2022", "W52/2022", "W01/2023", "W02/2023"],
        ["52-2022", "1-2023", "2-2023", "10-2023"],
        ["2022 December", "2023 January", "2023 February", "2023 March"],
        [11.2022, 12.2022, 1.2023, 2.2023],
        [112022, 122022, 12023, 22023],
        [991230, 991231, 101, 102],
        [10150, 10151, 10250, 10251],
        ["9:30 AM", "11:00 AM", "12:30 PM", "1:00 PM"],
        ["2023-01-05 10:00", "2023-01-05T11:00", "2023-01-05 1:00 PM", "2023-01-05 13:00:00.5"],
        [
            "2023-10-29T02:30+02:00",
            "2023-10-29T02:10+01:00",
            "2023-10-29T02:00Z",
            "2023-10-29T04:00Z",
        ],
        ["13/05/2023 10:00:00.100", "13/05/2023 10:00:00.5", "13/05/2023 10:00:01", "14/05/2023"],
        ["round 8", "round 9", "round 10", "round 11"],
        [2, 3, 12010, 22000],
    ],
)
def test_times_are_in_the_order_of_time(times):
    log = read_codes(codes("a", "b", times=times))
    assert log.rewards.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert not any("sorted as words" in note for note in log.notes)


@pytest.mark.parametrize(
    ("times", "told"),
    [
        (["January", "February", "March", "April"], "dates in a known format, or numbers, in"),
        (["23-Jan", "24-Jan", "1-Feb", "2-Feb"], "dates in a known format"),
        (["W1-22", "W2-22", "W1-23", "W2-23"], "dates in a known format"),
        (["5 janv. 2023", "6 janv. 2023", "7 févr. 2023", "8 févr. 2023"], "dates in"),
        (["2023-01-05", "2023-01-06", "later", "2023-01-07"], "dates in column week"),
        ([10123, 20123, 10223, 20223], "found '010123', whose year may come first or last"),
        (["2023-01-05 10:00Z", "2023-01-05 11:00", "2023-01-05 12:00Z"], "all have a time zone"),
        ([f"Jan {day:02}" for day in range(1, 20)], "dates with a year in column week"),
        ([5012023, 6022023, 7032023], "show which number is the day"),
    ],
)
def test_times_that_look_like_dates_are_not_sorted_as_words(times, told):
    with pytest.raises(InputError, match=f"time: expected .*{told}"):
        read_codes(codes("a", "b", times=times))


def test_words_that_are_no_dates_are_sorted_and_named():
    notes = read_codes(codes("a", "b", times=["low tide", "high tide", "ebb"])).notes
    assert "week is sorted as words: ebb, high tide, ..., low tide" in "; ".join(notes)


@pytest.mark.parametrize("mark", [",", "\t", "|"])
@pytest.mark.parametrize(
    ("profits", "rewards"),
    [
        (("1,250", "2,375"), "may be 1250 or a fraction; pass decimal=','"),
        (("1,250", "0,125"), "found '0,125' in row 1; pass decimal=','"),
        (("1,250", "1500"), "may be 1250 or a fraction"),
        (("1,250", "987"), [1250, 987]),
        (("1,250.5", "2,375"), [1250.5, 2375]),
        (("1,250", "0.5"), [1250, 0.5]),
        (("$1,234,567", "$2,345"), [1234567, 2345]),
    ],
)
def test_commas_are_read_as_thousands_only_where_that_shows(tmp_path, mark, profits, rewards):
    path = tmp_path / "table.csv"
    rows = [["week", "shop", "price", "profit"]]
    rows += [["1", shop, "low", f'"{x}"'] for shop, x in zip("AB", profits, strict=True)]
    path.write_text("\n".join(mark.join(row) for row in rows))
    if isinstance(rewards, list):
        assert read_codes(path).rewards.tolist() == [rewards]
        return
    with pytest.raises(InputError, match=rewards):
        read_codes(path)
    fractions = [float(x.replace(",", ".")) for x in profits]
    assert read_codes(path, decimal=",").rewards.tolist() == [fractions]


@pytest.mark.parametrize(
    ("profits", "read"),
    [
        (("12%", "0.12"), False),
        (("$12", "€12"), False),
        (("$12", "12"), True),
        (("1%", "2%"), True),
    ],
)
def test_rewards_of_different_units_are_refused(profits, read):
    frame = codes("low", times=[1])
    frame["profit"] = list(profits)
    if read:
        assert read_codes(frame).rewards[0, 0] in (1, 12)
        return
    with pytest.raises(InputError, match="reward: expected numbers of one unit in column profit"):
        read_codes(frame)


def test_spellings_that_look_alike_are_one():
    names = ("caf\u00e9", "cafe\u0301", "CAF\u00c9\u200b", "tea")
    log = read_codes(codes(*names))
    assert len(log.labels.actions[0]) == 2
    assert "spellings joined in price" in "; ".join(log.notes)
