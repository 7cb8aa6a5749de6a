"""Numbers in the prose of the pages are those of the setting that a sentence names.

Their records have so many numbers that a wrong one would be found in another setting.
"""

from pathlib import Path

from equipoise.runs import Record
from reproduction import rows_of
from reproduction._page_tables import significant, thousandths

FOLDER = Path(__file__).parents[2] / "docs" / "reproduction"


def prose(name):
    return " ".join((FOLDER / f"{name}.md").read_text().split())


def rows(record, name, **wanted):
    found = rows_of(Record.load(FOLDER / record).tables[name])
    return [row for row in found if wanted.items() <= row.items()]


def gap(record="in-context/1", **wanted):
    (row,) = rows(record, "gaps", **wanted)
    return thousandths(row["gap"])


def test_lengths_and_numbers_of_training_games():
    near = {"family": "rho=0.1", "player": "paper"}
    short, middle = (gap(panel="lengths", x=x, **near) for x in (16, 64))
    long = gap(panel="A=3", x=256, **near)
    few, _, many = (gap(panel="games", family="iid", player="paper", x=x) for x in (5, 50, 500))
    text = prose("in-context")
    assert f"({short} at 16 rounds, {middle} at 64, {long} at 256; 3 actions, rho = 0.1)" in text
    assert f"on independent games ({many} against {few})" in text
    own = [gap(panel="games", family="iid", player="ours", x=x) for x in (5, 50, 500, 0)]
    sentence = "preset ends at {}, {} and {}; with new games in every step it ends at {} (3 actions"
    assert sentence.format(*own) in text


def test_sizes_of_models():
    models = ("1 x 32", "2 x 64", "4 x 128")
    early, late = ([gap(panel="sizes", player=m, x=x) for m in models] for x in (16, 256))
    sentence = (
        "of 1 x 32, 2 x 64 and 4 x 128 are {}, {} and {}; after 256 rounds they are {}, {} and {}."
    )
    assert sentence.format(*early, *late) in prose("in-context")
    ends = [gap("in-context/1-cpu", panel="sizes", player=model, x=32) for model in models[:2]]
    sentence = "Models of 1 x 32 and 2 x 64 (layers x width) end at {} and {}."
    assert sentence.format(*ends) in prose("in-context")


def test_learners_against_mirror_descent():
    ends = {
        (family, panel, player): gap(panel=panel, family=family, player=player, x=x)
        for family in ("rho=1", "iid")
        for panel, x in (
            ("A=2", 256),
            ("A=3", 256),
            ("A=5", 256),
            ("S=2", 128),
            ("S=3", 128),
            ("S=5", 128),
        )
        for player in ("ours", "omd")
    }
    ahead = {
        family: [
            panel
            for f, panel, p in ends
            if f == family and p == "omd" and ends[f, panel, "omd"] < ends[f, panel, "ours"]
        ]
        for family in ("rho=1", "iid")
    }
    assert ahead == {"rho=1": ["A=5", "S=3", "S=5"], "iid": ["S=3", "S=5"]}
    text = "ahead with 5 actions ({} against {}) and with S = 3 and 5"
    both = (ends["rho=1", "A=5", player] for player in ("omd", "ours"))
    assert text.format(*both) in prose("in-context")


def test_the_papers_preset_does_not_learn_in_context():
    own = rows("in-context/1", "gaps", player="paper")
    curves = {}
    for row in own:
        if "=" in row["panel"]:
            curves.setdefault((row["panel"], row["family"]), []).append((row["x"], row["gap"]))
    assert len(curves) == 24
    rising = 0
    for (panel, family), curve in curves.items():
        points = [value for _, value in sorted(curve)]
        assert points[-1] > 0.9 * points[0], (panel, family)
        rising += points[-1] > points[0]
        last = max(x for x, _ in curve)
        (best,) = rows(
            "in-context/1", "gaps", panel=panel, family=family, player="best static", x=last
        )
        assert points[-1] > best["gap"], (panel, family)
    assert rising > len(curves) / 2


def test_median_agents_and_explained_variance():
    table = {
        (row["critic"], row["recipe"], row["rows per agent"]): row
        for row in rows("interaction-rank/2", "summary")
    }
    critics = ("2-IR-64", "joint-2x512", "1-IR-128")
    medians = [f"{table[critic, 'printed', 10]['median gap']:.1f}" for critic in critics]
    text = prose("interaction-rank-deep")
    assert "agent is {}; for joint and 1-IR critics it is {} and {})".format(*medians) in text
    assert table["2-IR-64", "printed", 20]["median gap"] < 1e-5
    largest = significant(table["2-IR-64", "printed", 20]["max gap"])
    assert f"has no gap at all, but the largest gap is still {largest}." in text
    ours, printed = (100 * table["2-IR-64", r, 10]["explained"] for r in ("ours", "printed"))
    assert f"explains {ours:.0f}% of the variance of held-out rewards with our training" in text
    assert f"and none ({printed:.1f}%) with the printed training" in text


def test_widths_under_the_printed_recipe():
    table = {row["critic"]: row for row in rows("interaction-rank/3", "summary", recipe="printed")}
    widths = [table[f"2-IR-{width}"] for width in (64, 128, 256)]
    gaps = [significant(row["max gap"]) for row in widths]
    first, _, last = (f"{row['validation']:.3f}" for row in widths)
    text = prose("interaction-rank-deep")
    assert "the gap of rank 2 falls from {} to {} to {} as the width".format(*gaps) in text
    assert f"the held-out error falls from {first} to {last}, close to ours" in text
    others = [row["max gap"] for name, row in table.items() if not name.startswith("2-IR")]
    assert f"has a gap below {int(min(others))}." in text


def test_games_of_one_step():
    found = {
        (row["game"], row["form"]): row["gap"]
        for row in rows("aggregative/planning", "normal", agents=100)
    }
    games = ("el-farol", "cournot")
    printed = [significant(found[game, "printed"]) for game in games]
    none, some = (found[game, "regret"] for game in games)
    sentence = "leaves a gain of {} in El Farol and {} in Cournot's market, where the search"
    text = prose("aggregative")
    assert sentence.format(*printed) in text
    assert none == 0
    assert f"for any equilibrium leaves 0 and {significant(some, 1)}." in text


def test_networks_built_by_hand():
    table = {
        (row["actions"], row["units"], row["newton steps"]): row
        for row in rows("in-context/construction", "sizes")
    }
    text = " ".join((FOLDER.parent / "theory" / "construction.md").read_text().split())
    crude, two = (table[actions, 1, 0] for actions in (3, 2))
    cells = [thousandths(x) for x in (crude["gap"], two["gap"], two["learner's gap"])]
    assert "({}, and {} against {} for two actions)".format(*cells) in text
    for actions in (2, 3):
        assert table[actions, 1, 0]["gap"] < table[actions, 1, 0]["learner's gap"]
        four = table[actions, 4, 0]
        assert abs(four["gap"] / four["learner's gap"] - 1) < 0.01
    assert "with 4 pieces the gap is within 1% of the learner's" in text
    fitted = [row["mean_error"] for row in rows("in-context/construction", "fitted", units=2048)]
    sentence = "mean error of one step is {}, {} and ".format(
        *(f"{x:.0e}".replace("e-0", "e-") for x in fitted)
    )
    assert sentence in text
