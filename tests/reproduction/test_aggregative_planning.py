"""Planning, measured: bounds hold, and the printed tolerance costs what the page says."""

import pytest

from reproduction import aggregative_planning as paper


@pytest.fixture(scope="module")
def record():
    config = paper.Config(
        games=("el-farol", "cournot", "public-good"), agents=(100, 1000), states=3, horizon=3,
        seeds=2,
    )  # fmt: skip
    return paper.run(config)


def rows(table, **wanted):
    found = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return [row for row in found if all(row[key] == value for key, value in wanted.items())]


@pytest.mark.parametrize("name", ["normal", "markov"])
@pytest.mark.parametrize("form", ["welfare", "regret"])
def test_no_gap_is_above_its_bound(record, name, form):
    found = rows(record.tables[name], form=form)
    assert len(found) == (6 if name == "normal" else 2)
    for row in found:
        assert -1e-12 <= row["gap"] <= row["bound"] + 1e-9


def test_the_printed_form_leaves_larger_gaps(record):
    printed = rows(record.tables["normal"], form="printed", game="el-farol", agents=100)[0]
    ours = rows(record.tables["normal"], form="regret", game="el-farol", agents=100)[0]
    assert printed["gap"] > 0.1
    assert ours["gap"] < 0.01
    assert printed["bound"] > 4 * ours["bound"]
    markov = {row["form"]: row for row in rows(record.tables["markov"], agents=100)}
    assert markov["printed"]["gap"] > 5 * markov["regret"]["gap"]
    assert markov["printed"]["bound"] > markov["printed, state-wise"]["bound"]


def test_equilibria_are_ordered_and_society_could_do_better(record):
    for row in rows(record.tables["welfare"]):
        worst, best, optimum = row[paper.WORST], row[paper.BEST], row["optimum"]
        assert worst <= best + 1e-9 <= optimum + 2e-9
        assert all(0 <= row[f"ε of the {which}"] < 0.5 for which in ("best", "worst"))
    good = rows(record.tables["welfare"], game="public-good")[0]
    el_farol = rows(record.tables["welfare"], game="el-farol")[0]
    assert el_farol["ε of the worst"] > 0.01  # not an equilibrium, and said not to be
    assert good["price of stability"] == pytest.approx(1.0)
    assert good[paper.BEST] == pytest.approx(0.6)


def test_prices_are_of_rewards_or_of_costs():
    assert paper._price(2.0, 1.0) == 2.0
    assert paper._price(-1.0, -2.0) == 2.0
    assert paper._price(1.0, -1.0) is None


def test_no_price_where_the_grid_is_as_large_as_the_welfare(record):
    assert paper._price(2.0, 1.0, 0.1) == 2.0
    assert paper._price(2.0, 1.0, 0.11) is None
    assert paper._price(-1.0, -2.0, 0.21) is None
    market = rows(record.tables["welfare"], game="cournot")[0]
    assert market["ε of the best"] > 0.1 * market[paper.BEST]
    assert market["price of stability"] is None


def test_all_panels_are_drawn(record):
    figure = paper.plot(record)
    assert [len(axes.get_lines()) for axes in figure.axes[:3]] == [6, 8, 5]
