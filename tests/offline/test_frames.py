"""Logs as people have them: names, gaps, columns of their own."""

import csv

import numpy as np
import pytest
from support import peer

import equipoise as eq
from equipoise.core import InputError

LONG = {"agent": "shop", "time": "week", "action": "price", "reward": "profit"}


class Frame:
    """Columns that turn into arrays, as those of pandas and polars do."""

    def __init__(self, **columns):
        self.content = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        class Column:
            @staticmethod
            def to_numpy():
                return np.asarray(self.content[name])

        return Column


def frame(rng, weeks=60, shops=("Ann", "Bob", "Shop 10", "Shop 9")):
    """A long table whose rows are shuffled."""
    week, shop = (x.ravel() for x in np.indices((weeks, len(shops))))
    order = rng.permutation(len(week))
    price = rng.uniform(1, 5, len(week))
    return {
        "week": week[order],
        "shop": np.array(shops, object)[shop[order]],
        "price": price,
        "profit": 2 * price + rng.normal(size=len(week)),
        "season": np.array(["dry", "wet"], object)[week[order] % 2],
        "heat": 20.0 + week[order],
    }


def shop_of(columns, row):
    return ("Ann", "Bob", "Shop 9", "Shop 10").index(columns["shop"][row])


def test_long_tables_are_put_in_order_and_their_words_kept():
    columns = frame(np.random.default_rng(0))
    log = eq.offline.Log.read(Frame(**columns), **LONG, context="season", bins=4)
    assert log.labels.players == ("Ann", "Bob", "Shop 9", "Shop 10")
    assert log.labels.contexts == ("dry", "wet")
    assert log.contexts.tolist() == [0, 1] * 30
    assert log.actions_per_agent == (4,) * 4
    assert log.states is None
    at = np.flatnonzero((columns["week"] == 7) & (columns["shop"] == "Shop 9"))[0]
    assert log.rewards[7, 2] == columns["profit"][at]
    edges = np.quantile(columns["price"], [0, 0.25, 0.5, 0.75, 1])
    assert log.actions[7, 2] == np.searchsorted(edges[1:-1], columns["price"][at])
    assert log.labels.action(0, 0) == f"{edges[0]:.4g} to {edges[1]:.4g}"
    assert log.notes == (
        "data frame: 240 lines became 60 rows, one for each week, of 4 agents",
        f"actions in 4 bins (quantiles): {', '.join(log.labels.actions_of(0))}; "
        "context season: dry, wet",
        "missing actions or rewards: none; unused columns: heat",
    )
    given = eq.offline.Log.read(Frame(**columns), **LONG, bins=[2, 3])
    assert given.actions_per_agent == (3,) * 4


def test_continuous_actions_are_scaled():
    columns = frame(np.random.default_rng(0))
    log = eq.offline.Log.read(Frame(**columns), **LONG, continuous=True)
    assert log.continuous
    assert (log.actions.min(), log.actions.max()) == (-1.0, 1.0)


def test_missing_agents_are_masked_and_not_dropped_with_the_row(tmp_path):
    rng = np.random.default_rng(1)
    columns = frame(rng)
    columns["price"] = rng.choice(["low", "high"], 240)
    lines = ["week;shop;price;profit;note"]
    for k in range(240):
        if k == 17:
            continue  # no row at all
        profit = "NA" if k == 40 else f"{columns['profit'][k]:.3f}"
        lines.append(f"{columns['week'][k]};{columns['shop'][k]};{columns['price'][k]};{profit};")
    lines += ["", lines[5]]  # a repeated row
    (tmp_path / "sales.csv").write_text("\n".join(lines) + "\n")
    log = eq.offline.Log.read(tmp_path / "sales.csv", **LONG)
    assert log.name == "sales.csv"
    assert log.samples == 60
    assert log.absences
    assert int(log.states.sum()) == 1
    assert (log.rewards[log.states == 1] == 0).all()
    assert np.argwhere(~log.recorded).tolist() == [[columns["week"][40], shop_of(columns, 40)]]
    assert log.notes[0].endswith("; repeated lines left out: 1")
    assert log.notes[2].startswith(
        "missing actions: 1 of 240, where the agent counts as absent; "
        "missing rewards: 1 of 240, whose actions still count"
    )
    log.write(tmp_path / "log.npz")
    assert eq.offline.Log.read(tmp_path / "log.npz").absences


def test_what_is_missing_at_random_hardly_changes_what_is_learned():
    game = eq.games.families.polymatrix(4, 2, scale=0.3).sample(key=20)
    full = eq.offline.collect(game, "uniform", samples=1500, key=21)
    away = np.random.default_rng(22).random((1500, 4)) < 0.05
    rows = {"time": np.repeat(np.arange(1500), 4), "agent": np.tile(list("abcd"), 1500)}
    rows |= {"action": full.actions.ravel(), "reward": full.rewards.ravel()}
    kept = ~away.ravel()
    rows = {name: column[kept] for name, column in rows.items()}
    names = {name: name for name in ("agent", "time", "action", "reward")}
    log = eq.offline.Log.read(Frame(**rows), **names)
    advice = eq.advise(log, iterations=100)
    assert advice.status.ok, advice.status.message
    policy = eq.Mixture(advice.policy.policies[:, :, 0, :, 0])
    own = eq.certify(game, game.uniform_policy()).max_gain
    assert eq.certify(game, policy).max_gain < 0.2 * own
    for aggregate in ("sum",):
        model = eq.offline.fit(log, aggregate)
        assert model.behaviour.shape == (1, 1, 4, 2, 2)


def test_wide_tables_have_columns_for_every_agent(tmp_path):
    text = "context,action_Ada,reward_Ada,action_Bo,reward_Bo\nx,low,1,1,2\ny,high,2,0,\n"
    (tmp_path / "wide.csv").write_text(text)
    log = eq.offline.Log.read(tmp_path / "wide.csv")
    assert log.labels.players == ("Ada", "Bo")
    assert log.labels.contexts == ("x", "y")
    assert log.states is None
    assert log.recorded.tolist() == [[True, True], [True, False]]


def test_wide_parquet_may_have_names_words_and_gaps(tmp_path):
    pyarrow, parquet = peer("pyarrow"), peer("pyarrow.parquet")
    path = tmp_path / "wide.parquet"

    def read(**columns):
        parquet.write_table(pyarrow.table(columns), path)
        return eq.offline.Log.read(path)

    rewards = {"reward_0": [1.0, 2.0, 3.0], "reward_1": [1.0, None, 0.5]}
    log = read(action_0=[0, 1, None], action_1=[1, 0, 1], **rewards)
    assert log.states.tolist() == [[0, 0], [0, 0], [1, 0]]
    assert log.recorded.tolist() == [[True, True], [True, False], [True, True]]
    assert log.notes[2].startswith(
        "missing actions: 1 of 6, where the agent counts as absent; rewards left out beside them: "
        "1; missing rewards: 1 of 6, whose actions still count"
    )
    full = {"reward_0": [1.0, 2.0, 3.0], "reward_1": [0.0, 0.0, 0.5]}
    log = read(action_0=["low", "high", "low"], action_1=["low", "low", "high"], **full)
    assert log.labels.actions == (("high", "low"),)
    assert log.states is None
    log = read(action_Ada=[0, 1, 1], reward_Ada=[0.5, 1.0, 2.0], context=["x", "y", None])
    assert log.labels.players == ("Ada",)
    assert read(action_0=[0, 1], reward_0=[0.5, 1.0]).notes == ()  # as `Log.write` makes it


def test_numeric_contexts_enter_as_features():
    rng = np.random.default_rng(2)
    columns = frame(rng, weeks=400)
    columns["price"] = rng.integers(0, 2, 1600)
    columns["profit"] = columns["price"] + 0.5 * columns["heat"]
    log = eq.offline.Log.read(Frame(**columns), **LONG, context=["season", "heat"])
    assert log.contexts_count == 2
    assert "heat is a numeric context" in log.notes[1]
    np.testing.assert_allclose(log.rewards - log.rewards.mean(), log.actions - log.actions.mean())


def test_sparse_numbers_of_contexts_are_renumbered():
    rng = np.random.default_rng(3)
    contexts = rng.choice([5, 70, 900_000], 600)
    log = eq.offline.Log(contexts, rng.integers(0, 2, (600, 2)), rng.random((600, 2)))
    assert log.contexts_count == 3
    assert log.labels.contexts == ("5", "70", "900000")
    assert "renumbered" in log.notes[0]
    declared = eq.offline.Log([0, 5000], [[0], [1]], [[0.0], [1.0]], contexts_count=9000)
    assert declared.contexts_count == 9000


def heated(kind, seed, rows=1000, agents=3):
    """A wide table with a temperature that matters in one way or another."""
    rng = np.random.default_rng(seed)
    heat, season = rng.normal(size=rows), rng.integers(0, 2, rows)
    warm, far = np.sign(heat)[:, None], np.where(np.abs(heat) > 0.67, 1.0, -1.0)[:, None]
    act = rng.integers(0, 2, (rows, agents))
    if kind == "play":
        act = (rng.random(act.shape) < 0.5 + 0.2 * warm).astype(int)
    if kind == "season":  # warm and wet go together, and agents look at the season alone
        act = (rng.random(act.shape) < 0.35 + 0.3 * season[:, None]).astype(int)
        heat = heat + 2 * season
    signs = 2 * act - 1
    pay = 0.3 * (act != np.roll(act, 1, 1)) + heat[:, None]
    pay = pay + {
        "own": 0.5 * act * warm,
        "others": 0.3 * signs * np.roll(signs, 1, 1) * warm,
        "far": 0.5 * act * far,
        "square": heat[:, None] ** 2,
    }.get(kind, 0.0)
    pay = pay + rng.normal(0, 0.3, act.shape)
    columns = {"heat": heat, "season": np.array(["dry", "wet"], object)[season]}
    columns |= {f"action_{i}": act[:, i] for i in range(agents)}
    return columns | {f"reward_{i}": pay[:, i] for i in range(agents)}


@pytest.mark.parametrize("seed", [821, 822, 823])
@pytest.mark.parametrize(
    ("kind", "contexts"),
    [
        ("added", 1),
        ("square", 1),
        ("season", 2),
        ("own", 2),
        ("others", 2),
        ("far", 4),
        ("play", 2),
    ],
)
def test_numeric_contexts_are_cut_where_they_change_what_actions_do(kind, contexts, seed):
    names = ["season", "heat"] if kind == "season" else ["heat"]
    log = eq.offline.Log.read(Frame(**heated(kind, seed)), context=names)
    assert log.contexts_count == contexts
    cut = kind in ("own", "others", "far", "play")
    assert log.numeric_contexts == (("heat within a range",) if cut else ("heat",))
    told = (
        "heat was cut into ranges, since it changes what actions earn or how often they are played"
    )
    assert (told in log.notes[1]) == cut
    if cut:  # ranges in the order of their numbers, which begin below zero
        edges = [float(name.split(" to ")[0]) for name in log.labels.contexts]
        assert edges == sorted(edges)
        assert edges[0] < 0
    assert log.notes[0].startswith("data frame: 1,000 rows of ")


def test_numeric_contexts_can_be_cut_by_hand():
    columns = heated("added", 824)
    columns["heat"][:7] = np.nan
    log = eq.offline.Log.read(Frame(**columns), context="heat", context_bins=3)
    assert log.contexts_count == 4
    assert log.labels.contexts[-1] == "missing"
    assert np.bincount(log.contexts).tolist() == [331, 331, 331, 7]
    log = eq.offline.Log.read(Frame(**columns), context="heat", context_bins=[-1.0, 1.0])
    lowest, highest = np.nanmin(columns["heat"]), np.nanmax(columns["heat"])
    ends = (f"{lowest:.4g} to -1", "-1 to 1", f"1 to {highest:.4g}", "missing")
    assert set(log.labels.contexts) == set(ends)
    with pytest.raises(InputError, match="ascending") as caught:
        eq.offline.Log.read(Frame(**columns), context="heat", context_bins=[2, 1])
    assert caught.value.argument == "context_bins"


def test_advice_may_depend_on_a_number_that_matters():
    """Playing 1 pays in the warm half of the days and costs in the cold one."""
    log = eq.offline.Log.read(Frame(**heated("own", 825)), context="heat")
    advice = eq.advise(log, iterations=60)
    assert advice.status.ok
    begins = [float(label.split(" to ")[0]) for label in log.labels.contexts]
    cold, warm = advice.policy.policies[0][np.argsort(begins)]
    assert (warm[:, 1] > 0.9).sum() > (cold[:, 1] > 0.9).sum()
    assert "depend on heat within a range" in advice.status.message


def test_numeric_contexts_are_named_where_the_bound_is_told(tmp_path):
    log = eq.offline.Log.read(Frame(**heated("added", 820)), context="heat")
    assert log.numeric_contexts == ("heat",)
    for suffix in ("npz", "parquet"):
        log.write(tmp_path / f"log.{suffix}")
        assert eq.offline.Log.read(tmp_path / f"log.{suffix}").numeric_contexts == ("heat",)
    advice = eq.advise(log, iterations=30)
    assert advice.status.ok
    told = "Not counted: deviations that depend on heat"
    assert told in advice.status.message
    plain = eq.offline.Log(None, log.actions, log.rewards)
    assert "Not counted" not in eq.advise(plain, iterations=30).status.message


def discounts(rng, words, rows=240):
    columns = frame(rng, weeks=rows // 4)
    return columns | {"price": np.array(words, object)[rng.integers(0, len(words), rows)]}


def test_a_frequent_none_is_a_word_and_a_rare_one_is_missing():
    rng = np.random.default_rng(821)
    columns = discounts(rng, ["none", "10%", "20%"])
    log = eq.offline.Log.read(Frame(**columns), **LONG)
    assert log.labels.actions == (("10%", "20%", "none"),)
    assert "the frequent word 'none' in price is read as a value" in log.notes[1]
    log = eq.offline.Log.read(Frame(**columns), **LONG, missing=["None"])
    assert log.labels.actions == (("10%", "20%"),)
    assert log.notes[2].startswith(f"missing actions: {(columns['price'] == 'none').sum()} of 240,")
    rare = discounts(rng, ["10%", "20%"])
    rare["price"][:3] = ["none", "NA", "null"]
    log = eq.offline.Log.read(Frame(**rare), **LONG)
    assert log.notes[2].startswith("missing actions: 3 of 240, where")
    log = eq.offline.Log.read(Frame(**rare), **LONG, missing=[""])
    assert {"NA", "none", "null"} <= set(log.labels.actions[0])


@pytest.mark.parametrize(
    ("mark", "written"),
    [(",", "${:,.2f}"), ("|", "{:.2f}"), ("\t", "{:,.2f} €"), (",", "{:.2f}%"), (";", "{:.2f} €")],
)
def test_rewards_may_be_written_as_money(tmp_path, mark, written):
    rng = np.random.default_rng(826)
    columns = discounts(rng, ["none", "10%", "20%"])
    columns["profit"] = np.round(columns["profit"] * 1e4, 2)
    table = [list(columns)]
    for row in zip(*columns.values(), strict=True):
        week, shop, price, profit, season, heat = row
        text = written.format(profit)
        text = text.replace(".", ",") if mark == ";" else text
        table.append([week, shop, price, text, season, heat])
    with open(tmp_path / "sales.csv", "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, delimiter=mark).writerows(table)
    log = eq.offline.Log.read(tmp_path / "sales.csv", **LONG)
    expected = eq.offline.Log.read(Frame(**columns), **LONG)
    np.testing.assert_allclose(log.rewards, expected.rewards)
    assert log.labels == expected.labels
    columns["profit"] = np.array(["1,23,4"] * 240)
    with pytest.raises(InputError, match="found '1,23,4' in row 0"):
        eq.offline.Log.read(Frame(**columns), **LONG)


def test_words_without_a_reward_are_no_actions():
    columns = discounts(np.random.default_rng(822), ["none", "10%", "20%"])
    columns["profit"] = np.where(columns["price"] == "none", np.nan, columns["profit"])
    log = eq.offline.Log.read(Frame(**columns), **LONG)
    assert log.labels.actions == (("10%", "20%"),)


def test_missing_entries_of_pandas_are_missing():
    pandas = peer("pandas")
    table = pandas.DataFrame(discounts(np.random.default_rng(823), ["low", "high"]))
    table["price"] = table.price.astype("string")
    table.loc[4, "price"] = pandas.NA
    table["week"] = pandas.to_datetime("2020-01-01") + pandas.to_timedelta(table.week * 7, "D")
    table.loc[9, "week"] = pandas.NaT
    log = eq.offline.Log.read(table, **LONG)
    assert log.labels.actions == (("high", "low"),)
    assert log.samples == 60
    assert log.notes[0].endswith("; lines without shop or week left out: 1")
    assert log.notes[2].startswith("missing actions: 2 of 240, where")


def test_names_that_differ_in_little_keep_one_order():
    columns = frame(np.random.default_rng(824), shops=("ada", "Ada", "a1", "a01"))
    log = eq.offline.Log.read(Frame(**columns), **LONG, bins=2)
    assert log.labels.players == ("a01", "a1", "Ada", "ada")


@pytest.mark.parametrize("name", ["sales.csv", "sales.parquet"])
def test_long_tables_are_not_read_in_parts(name):
    with pytest.raises(InputError, match=r"read it with Log.read, then convert it"):
        eq.offline.Log.read_chunks(name, **LONG)


@pytest.mark.parametrize(
    ("encoding", "note"),
    [("utf-8", ""), ("utf-8-sig", ""), ("cp1252", "read as Windows-1252"), ("utf-16", "UTF-16")],
)
def test_tables_are_read_in_the_encodings_of_spreadsheets(tmp_path, encoding, note):
    lines = (
        "week;shop;price;profit",
        "1;Caf\u00e9 No\u00ebl;low;1,5 \u20ac",
        "1;Bo;high;2,5 \u20ac",
    )
    text = "".join(f"{line};;\n" for line in lines)
    (tmp_path / "sales.csv").write_bytes(text.encode(encoding))
    log = eq.offline.Log.read(tmp_path / "sales.csv", **LONG)
    assert log.labels.players == ("Bo", "Caf\u00e9 No\u00ebl")
    assert log.rewards.tolist() == [[2.5, 1.5]]
    assert note in log.notes[0]
    assert log.notes[2].endswith("unused columns: none")
    (tmp_path / "sales.csv").write_bytes(b"PK\x03\x04\0\0" + text.encode())
    with pytest.raises(InputError, match="found a binary file; save it as CSV"):
        eq.offline.Log.read(tmp_path / "sales.csv", **LONG)


def test_a_row_of_totals_is_left_out_with_its_time():
    columns = frame(np.random.default_rng(5))
    columns["price"] = np.array(["low", "high"])[np.arange(240) % 2]
    more = {"week": "Total", "shop": "", "price": "", "profit": "99999"}
    columns = {n: np.array([*map(str, columns[n]), more[n]], object) for n in more}
    log = eq.offline.Log.read(Frame(**columns), **LONG)
    assert log.samples == 60
    assert "; lines without shop or week left out: 1" in log.notes[0]


def test_frames_without_arrays_are_refused_by_name():
    class LazyFrame(Frame):
        def __getitem__(self, name):
            raise TypeError("not subscriptable")

    with pytest.raises(InputError, match="found LazyFrame; collect or compute it first"):
        eq.offline.Log.read(LazyFrame(**frame(np.random.default_rng(6))), **LONG)


def test_rewards_whose_squares_overflow_are_refused():
    with pytest.raises(ValueError, match=r"rewards: expected numbers up to 1e\+100 for agent 1"):
        eq.offline.Log(None, [[0, 1], [1, 0]], [[1.0, 1e200], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("change", "options", "argument", "message"),
    [
        ({}, {}, "action", "pass bins"),
        ({}, {"bins": 1}, "bins", "from 2 to 100"),
        ({}, {"bins": [3, 2]}, "bins", "ascending"),
        ({"profit": np.array(["$1,234"] * 9 + ["much"] * 231)}, {}, "reward", "'much' in row 9"),
        ({"profit": np.array([1.0] * 7 + [np.inf] * 233)}, {}, "reward", "inf in row 7"),
        ({}, {"agent": "store"}, "agent", "week, shop"),
        ({}, {"reward": None}, "reward", "name of a column"),
        ({"week": np.zeros(240)}, {"bins": 2}, "time", "different rows of"),
        ({"heat": np.arange(240.0)}, {"bins": 2, "context": "heat"}, "context", "the same for all"),
        ({"price": np.array(["a"] * 240)}, {"bins": 2}, "action", "numbers, for bins"),
        ({}, {"bins": 2, "continuous": True}, "bins", "none for continuous"),
        ({}, {"bins": 2, "action": "profit"}, "reward", "other than the one of action"),
        ({}, {"bins": 2, "context": "week"}, "context", "other than the one of time"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(change, options, argument, message):
    columns = frame(np.random.default_rng(4)) | change
    with pytest.raises(InputError, match=message) as caught:
        eq.offline.Log.read(Frame(**columns), **(LONG | options))
    assert caught.value.argument == argument


def test_numbers_of_contexts_are_removed_from_what_continuous_actions_earn():
    rng = np.random.default_rng(5)
    act, heat = rng.uniform(1, 5, (300, 2)), rng.normal(size=300)
    act[:, 0] = np.clip(act[:, 0] + heat, 1, 5)  # hot days go with high prices
    earned = -((act - 3) ** 2) + 4.0 * heat[:, None]
    columns = {"heat": heat}
    for i, name in enumerate(("Ada", "Bo")):
        columns |= {f"action_{name}": act[:, i], f"reward_{name}": earned[:, i]}
    log = eq.offline.Log.read(Frame(**columns), context="heat", continuous=True)
    assert log.numeric_contexts == ("heat",)
    constant = log.rewards + (act - 3) ** 2
    assert np.ptp(constant, 0).max() < 1e-6  # before: about 4 times the range of the heat


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c["price"].__setitem__(5, np.nan),
            r"continuous: expected an action and a reward of every agent at all times, found "
            r"1 missing, such as [\w ]+ at week \d+; leave these times or agents out, or bin",
        ),
        (
            lambda c: c.update(price=np.where(np.arange(240) == 9, "cheap", "2.5").astype(object)),
            r"action: expected numbers, for bins or continuous actions; found 'cheap'; name words",
        ),
        (
            lambda c: c.update(week=c["week"] % 6),
            r"time: expected one row for each agent and time, found different rows of [\w ]+ at "
            r"week \d: \d+, \d+; if times repeat, in every episode say, number them",
        ),
    ],
)
def test_continuous_tables_with_gaps_words_and_repeated_times_are_refused_by_name(change, message):
    columns = frame(np.random.default_rng(0))
    change(columns)
    with pytest.raises(ValueError, match=message) as refused:
        eq.offline.Log.read(Frame(**columns), **LONG, continuous=True)
    assert "\n" not in str(refused.value)


def test_local_states_in_a_csv_file_are_refused_rather_than_ignored(tmp_path):
    path = tmp_path / "log.csv"
    head = "action_0,reward_0,state_0,next_state_0,step,episode"
    path.write_text(f"{head}\n1,2.0,0,1,0,0\n0,1.0,1,0,1,0\n1,2.0,0,1,0,1\n")
    with pytest.raises(ValueError, match=r"without local states, found columns state_0, next_sta"):
        eq.offline.Log.read(path)


def test_episodes_of_different_lengths_are_refused_with_what_to_do():
    states = np.zeros((5, 1), int)
    steps, episodes = [0, 1, 2, 0, 1], [0, 0, 0, 1, 1]
    given = (None, states, states + 0.5, states, states, steps)
    with pytest.raises(ValueError, match=r"episode 1, found 0, 1 \(row 4\); pad shorter episodes"):
        eq.offline.Log(*given, episodes)
    assert eq.offline.Log(*given).horizon == 3  # as independent rows
