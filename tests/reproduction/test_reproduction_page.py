"""What the page about reproduction refers to is there, and its numbers are those of the records."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import equipoise as eq
from equipoise.core.plain import read_json
from equipoise.incontext.theory import travel_time
from equipoise.offline import parameters, theory
from equipoise.runs import Record

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reproduction"
PAGE = (FOLDER / "index.md").read_text()


def table(name, which, **wanted):
    found = Record.load(FOLDER / name).tables[which]
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def test_every_test_that_is_named_exists():
    folders = ("theorems", "aggregative", "incontext", "offline")
    files = [file for name in folders for file in (ROOT / "tests").glob(f"{name}/*.py")]
    known = set(re.findall(r"^def (test_\w+)", "\n".join(f.read_text() for f in files), re.M))
    named = re.findall(r"`(test_\w+)(\.\.\.)?`", PAGE)
    assert len(named) > 40
    for name, more in named:
        assert any(test.startswith(name) if more else test == name for test in known), name


def test_every_theorem_of_a_paper_has_a_row():
    """As they are numbered in print; Theorem 4 of the second paper is the formal second."""
    first, second, third = PAGE.split("\n## ")[1:4]
    for name in ("Figure 1", *(f"Theorem 4.{i}" for i in (1, 2, 3, 4)), "Lemma A.1", "Lemma B.1"):
        assert name in first
    for name in (
        "Definition 1",
        "Definition 2",
        *(f"Theorem {i}" for i in (1, 3)),
        "Theorems 2 and 4",
        *("Lemmas 1 and 4", "Lemma 2", "Lemma 3", "Lemmas 5, 6, 8 to 12", "Lemma 7"),
        *("Lemmas 13 and 14", "Assumptions 1 to 3", "Eq. (2) and (4)", "Eq. (12)"),
        *("Algorithm 1", "Algorithm 2", "Remark 1", "Remark 2", "Remark 3"),
        *("Table 1", "Table 2", "Figure 1", "Figure 2", "Figures 3 and 4"),
    ):
        assert name in second, name
    for name in ("3.1", "4.1", "4.2", "5.1", "5.2", "C.1", "D.1"):
        assert f"Theorem {name}" in third
    for name in (
        *("Definition 2.1", "Definition 6.1", "Assumptions 2.1 to 2.3", "Section 4.1.1"),
        *(f"Algorithm {i}" for i in (1, 2, 3, 4)),
        *(f"Lemma D.{i}" for i in (1, 2, 3)),
    ):
        assert name in third, name


WORDS = (
    "reproduced",
    "reproduced with a change",
    "proof incomplete",
    "constant or sign wrong:",
    "vacuous at the size tested",
    "refuted",
    "quoted",
)


def rows_of_claims():
    """The cells of all rows of the three tables."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]
    return [row for row in rows if row[0] != "claim"]


def test_every_outcome_begins_with_a_word_that_the_page_defines():
    rows = rows_of_claims()
    assert len(rows) > 60
    for row in rows:
        assert len(row) == 5, row[0]
        assert row[1].startswith(WORDS), row[:2]
        # A change has to be named.
        assert not row[1].startswith("reproduced with a change") or row[1][24] == ":", row[:2]
    for word in WORDS:
        assert f"*{word.removesuffix(':')}*" in PAGE


def test_every_file_that_is_named_exists():
    """The tables name the file of every claim about code."""
    rows = rows_of_claims()
    assert len(rows) > 60
    for row in rows:
        names = re.findall(r"`([^`]+)`", row[3])
        for name in names:
            place = ROOT if name.startswith("reproduction/") else ROOT / "src" / "equipoise"
            assert (place / name).exists(), row[0]
        # What is quoted or refuted needs no code.
        assert names or row[1].startswith(("quoted", "refuted")), row[0]


def test_a_claim_is_refuted_on_a_page_only_if_it_is_in_the_table():
    refuted = any(row[1].startswith("refuted") for row in rows_of_claims())
    assert refuted
    for name in ("interaction-rank", "interaction-rank-deep", "aggregative"):
        assert "refuted" not in (FOLDER / f"{name}.md").read_text()


def shown(number, digits=2):
    """A number as the index writes it: to so many digits, without the zero before the point."""
    if number < 1e-3 and digits > 1:
        mantissa, exponent = f"{number:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    places = digits - 1 - math.floor(math.log10(float(f"{number:.{digits - 1}e}")))
    return f"{number:.{max(0, places)}f}".removeprefix("0")


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [
        (74.3, 2, "74"),
        (9.96, 2, "10"),
        (4.43, 2, "4.4"),
        (0.0501, 2, ".050"),
        (0.000477, 1, ".0005"),
        (1.18e-6, 2, "1.2e-6"),
        (0.99999, 4, "1.000"),
    ],
)
def test_how_numbers_are_shown(number, digits, text):
    assert shown(number, digits) == text


def planning(form, agents):
    (row,) = table("aggregative/planning", "markov", form=form, agents=agents)
    return shown(row["gap"]), shown(row["bound"])


def test_numbers_of_planning():
    (gap, bound), (own, proven) = (
        planning("printed, state-wise", 10_000),
        planning("regret", 10_000),
    )
    text = f"at 10,000 agents gap {gap} and bound {bound} as printed; ours {own} and {proven} |"
    assert text in PAGE
    (gap, bound), (own, proven) = planning("printed", 10_000), planning("welfare", 10_000)
    text = (
        f"gap {gap} and bound {bound} as printed; ours, for the best welfare, {own} and {proven} |"
    )
    assert text in PAGE
    few, many = planning("regret", 100)[0], planning("regret", 1_000_000)[0]
    assert f"from {few} at 100 agents to {many} at a million |" in PAGE


def test_numbers_of_algorithm_3():
    rows = {(row["form"], row["episodes"]): row for row in table("aggregative/regret", "results")}
    checked = [
        "{policies with values outside} of {policies}".format(**row)
        for row in table("aggregative/regret", "violations")
    ]
    middle, end = rows["printed-rescaled", 1000], rows["printed-rescaled", 10_000]
    for text in (
        f"agents {checked[0]} policies have values outside the printed bounds, and {checked[1]} ",
        f"with 10,000 agents and 10,000 episodes the gap is {shown(end['gap'])} |",
        f"the mean gap is {shown(middle['mean gap'])} after 1,000 episodes, with a bound of "
        f"{shown(middle['bound of Theorem 5.1'])}, and {shown(end['mean gap'])} after 10,000, with "
        f"a bound of {shown(end['bound of Theorem 5.1'])} and a certificate of "
        f"{shown(end['certificate'])};",
    ):
        assert text in PAGE


def test_numbers_of_several_coordinates():
    page = (FOLDER / "aggregative.md").read_text()
    plans = {
        form: table("aggregative/dimensions", "planning", form=form, agents=1000)
        for form in ("printed", "welfare", "regret")
    }

    def three(form, name):
        return "{}, {} and {}".format(*(shown(row[name]) for row in plans[form]))

    text = f"1,000 agents: gap {three('printed', 'gap')} as printed, with bounds of "
    assert f"{text}{three('printed', 'bound')}; our bounds {three('regret', 'bound')} |" in PAGE

    slow, fast = (
        table("aggregative/dimensions", "learning", learner=name, agents=50, dimensions=3)[0]
        for name in ("unknown, scouts", "known")
    )
    assert f"took {slow['seconds']:.2g} processor seconds for d = 3, where known" in page
    assert f"rewards took {fast['seconds']:.2g}." in page


def learners(panel, *names):
    arrays = Record.load(FOLDER / "in-context/last-iterate").arrays
    return [shown(arrays[f"{panel}/{name}/mean"][-1]) for name in names]


def slopes(panel, *names):
    rows = table("in-context/last-iterate", "slopes", panel=panel)
    found = {row["learner"]: f"{row['slope']:.2f}".replace("-0.", "-.") for row in rows}
    return [found[name] for name in names]


def test_numbers_of_learners():
    ours, vanishing, printed = learners("A=3", "omd", "omd-vanishing", "omd-printed-signs")
    plain, slow, fast = slopes("A=3", "omd-plain", "omd-vanishing", "omd")
    text = (
        f"| slope {plain}; {vanishing} after a million rounds with a baseline besides "
        f"(slope {slow}), {ours} by default (slope {fast}) |"
    )
    assert text in PAGE
    assert f"| gap {printed} after a million rounds with 3 actions; uniform play has .29 |" in PAGE
    names = ("omd-printed-regulariser", "omd-plain")
    (two, right), (three, also) = learners("A=2", *names), learners("A=3", *names)
    flat, falls = slopes("A=2", *names)
    text = (
        f"the gap is {two} with 2 actions (slope {flat}) and {three} with 3, with the corrected "
        f"sign {right} (slope {falls}) and {also}; uniform play has .23 and .29 |"
    )
    assert text in PAGE
    constants, signs = learners("S=3, Dirichlet 0.1", "omd-printed-constants", names[0])
    vanishing, ours, plain = learners("S=3, Dirichlet 0.1", "omd-vanishing", "omd", names[1])
    text = (
        f"3 states: gap {vanishing} after 1e5 rounds, {ours} by default, {constants} with printed "
        f"constants and for uniform play; without a baseline {plain}, and {signs} with the printed"
    )
    assert text in PAGE


def test_numbers_of_the_readings_of_the_signs():
    """The table of the errata, and those of the page about last policies."""
    errata = (ROOT / "docs" / "theory" / "errata-in-context.md").read_text()
    page = (FOLDER / "last-iterate.md").read_text()
    arrays = Record.load(FOLDER / "in-context/last-iterate").arrays
    uniform = [shown(float(arrays[f"A={a}/uniform"])) for a in (2, 3, 5, 10)]
    assert f"| uniform play | | | {', '.join(uniform)} |" in errata
    for name, call in (
        ("omd-printed-signs", "printed_signs()` | the reward | $-$"),
        ("omd-printed-regulariser", "printed_regulariser()` | the cost | $-$"),
        ("omd-plain", "plain()` | the cost | $+$"),
        ("omd-vanishing", "vanishing()` | the cost, less a baseline | $+$"),
    ):
        gaps = [learners(f"A={a}", name)[0] for a in (2, 3, 5, 10)]
        assert f"{call} | {', '.join(gaps)} |" in errata
        rows = {
            a: table("in-context/last-iterate", "slopes", panel=f"A={a}") for a in (2, 3, 5, 10)
        }
        cells = [
            f"{row['gap']:.2g} ± {row['error']:.1g}"
            for a in rows
            for row in rows[a]
            if row["learner"] == name
        ]
        assert f"| {name} | {' | '.join(cells)} | " in page


def test_numbers_of_the_papers_protocol():
    def cell(number):
        return f"{number:.3f}".removeprefix("0")

    ends = {}
    for panel in ("A=3", "A=5"):
        own = table("in-context/lengths", "gaps", panel=panel, player="a model for each length")
        (base,) = table("in-context/lengths", "gaps", panel=panel, player="base Nash", length=8)
        ends[panel] = [cell(own[0]["gap"]), cell(own[-1]["gap"]), cell(base["gap"])]
    (short, long, base), (other, longer, far) = ends["A=3"], ends["A=5"]
    text = (
        f"{short} after 8 rounds and {long} after 256 with 3 actions, {other} and {longer} with 5;"
    )
    assert text in PAGE
    assert f"the base game's equilibrium has {base} and {far}." in PAGE


def test_the_papers_protocol_on_a_cpu_agrees_with_more_steps():
    own, more = (
        Record.load(FOLDER / "in-context" / name).arrays for name in ("lengths-cpu", "lengths")
    )
    near = []
    for panel in ("A=2", "A=3", "A=5", "S=2", "S=3", "S=5"):
        few, many = (arrays[f"{panel}|a model for each length"] for arrays in (own, more))
        apart = (few.mean(0) - many.mean(0)) / many.std(0, ddof=1)
        near += list(np.abs(apart) <= 1.0)
        assert apart.max() <= 1.0
        assert panel == "S=5" or (apart >= -1.0).all()
    page = (FOLDER / "in-context.md").read_text()
    assert f"In {sum(near)} of {len(near)} cells the mean is within one" in page


def test_numbers_of_stopping():
    rows = table("in-context/stopping", "stops")
    assert all(row["stops"] == row["stops, nearly pure"] for row in rows)
    for data in ("fresh", "fixed"):
        own = [row for row in rows if row["data"] == data]
        stops, pure = (
            "{}, {} and {}".format(*[r[k] for r in own]) for k in ("stops", "nearly pure")
        )
        text = (
            f"it stops for {stops} of 12 base games with 2, 3 and 5 actions, all among the {pure} "
        )
        assert text in PAGE


def test_trained_imitators_are_as_good_as_the_learner_and_the_bounds_say_nothing():
    rows = table("in-context/imitator", "means")
    matrix = [row for row in rows if row["panel"].startswith("A")]
    bounds = [f"{name} bound" for name in ("printed", "corrected")]
    bounds += [f"{name}, unlimited samples" for name in bounds]
    assert min(row[name] for row in matrix for name in bounds) > 2
    assert min(row[name] for row in rows if row not in matrix for name in bounds) > 1e7
    for row in rows:
        assert row["hand-built realisability"] < 1e-6
        assert row["gap"] < row["uniform"] + 0.005
        assert abs(row["gap"] - row["expert"]) < 0.025
    assert all(row["gap"] < row["transferred"] for row in matrix)
    assert min(row["hand-built layers"] for row in rows) == 176


def test_numbers_of_fixed_trajectories():
    page = (FOLDER / "in-context.md").read_text()
    both = [table("in-context/data", "errors", labels=kind) for kind in ("policies", "actions")]
    arrays = Record.load(FOLDER / "in-context/data").arrays
    expert, uniform = (f"{arrays[name][0]:.3f}".lstrip("0") for name in ("expert", "uniform"))
    assert f"The expert has {expert} and uniform play {uniform}" in page
    for rows, n in zip(both, (256, 1024), strict=True):
        assert all((row["NashConv"] < arrays["expert"][0]) == (row["n"] >= n) for row in rows)
    assert all(row["steps"] == 400 for row in both[0] if row["n"] >= 256)
    assert [f"{row['slope']:.2f}".replace("0.", ".") for row in both[0][1:3]] == ["-.28", "-.36"]
    ends = [f"{both[0][k]['total variation']:.3f}".lstrip("0") for k in (0, -1)]
    assert "total variation {} with 16 trajectories and {} with 4,096".format(*ends) in PAGE


def test_with_fresh_data_no_cross_entropy_is_far_below_the_entropy_of_the_equilibria():
    """The mean over a cycle is that of a sample: it scatters about its expectation."""
    arrays = Record.load(FOLDER / "in-context/stopping").arrays
    for actions in (2, 3, 5):
        curves, entropy = arrays[f"A={actions}|fresh"], arrays[f"A={actions}|entropy"]
        assert (curves[:, -10:].mean(1) > 0.9 * entropy).all()
        fixed, floor = arrays[f"A={actions}|fixed"], arrays[f"A={actions}|floor"][:, :1]
        assert (fixed.reshape(12, -1, 10).mean(2) >= floor).all()
        assert ((fixed < 0.01).any(1) == (floor[:, 0] < 0.01)).all()


def test_numbers_of_travel_times():
    found = {"worst": [], "uniform": []}
    for states in (2, 3, 5):
        games = eq.games.families.uniform(3, states=states).sample(40, key=0)
        for play, medians in found.items():
            medians.append(float(np.median(travel_time(games, play=play))))
    text = (
        "3 actions and 2, 3 and 5 states: {:.0f}, {:.0f} and {:.0f} steps; "
        "under uniform play {:.1f}, {:.1f} and {:.1f} |"
    )
    assert text.format(*found["worst"], *found["uniform"]) in PAGE


def player(**wanted):
    (row,) = table("in-context/1", "gaps", x=256, **wanted)
    return shown(row["gap"])


def test_numbers_of_players():
    paper = player(panel="A=3", family="rho=0.1", player="paper")
    near = player(panel="A=3", family="rho=0.1", player="ours")
    independent = player(panel="A=3", family="iid", player="ours")
    page = (FOLDER / "in-context.md").read_text()
    assert f"{paper} at 256; 3 actions, rho = 0.1)" in page
    assert f"With the change, {near} after 256 rounds with 3 actions; the best static" in PAGE
    assert f"| {independent} on independent games with 3 actions, where mirror descent has" in PAGE


def test_numbers_of_training_games():
    arrays = Record.load(FOLDER / "in-context/1-cpu").arrays
    page = " ".join((FOLDER / "in-context.md").read_text().split())

    def ends(family, preset):
        return [
            f"{gap:.3f}".removeprefix("0") for gap in arrays[f"games|{family}|{preset}"].mean(0)
        ]

    few, more, fresh = ends("iid", "ours")
    near = "{}, {} and {}".format(*ends("rho=0.1", "ours"))
    assert f"preset ends at {few} and {more} (3 actions, iid), and with new games" in page
    assert (
        f"in every step at {fresh}; within rho = 0.1, where the paper uses five, at {near}." in page
    )
    far, near = ("{}, {} and {}".format(*ends(family, "paper")) for family in ("iid", "rho=0.1"))
    assert f"paper's preset ends at {far}, and within rho = 0.1 at {near}." in page


def test_numbers_of_hand_built_networks():
    rows = table("in-context/construction", "sizes", actions=3)
    error = {(row["units"], row["newton steps"]): shown(row["error"]) for row in rows}
    text = (
        f"learner {error[1, 0]} with one linear piece, {error[32, 0]} with 32, and {error[1, 4]} "
        "with one piece and four Newton steps"
    )
    assert text in PAGE


def test_numbers_of_sizes():
    gaps = [player(panel="sizes", player=size) for size in ("1 x 32", "2 x 64", "4 x 128")]
    assert "1, 2 and 4 layers end at {}, {} and {} |".format(*gaps) in PAGE


def test_numbers_of_deep_critics():
    rows = table("interaction-rank/2", "summary", figure="2")
    gaps = {(row["critic"], row["recipe"], row["rows per agent"]): row["max gap"] for row in rows}

    def three(recipe, size):
        critics = ("2-IR-64", "joint-2x512", "1-IR-128")
        two, joint, one = (shown(gaps[critic, recipe, size]) for critic in critics)
        return f"{two}, {joint} and {one}"

    text = f"printed recipe: {three('printed', 10)}; ours: {three('ours', 10)}."
    assert f"(10 rows for each agent), {text}" in PAGE
    text = f"Ours with 20 rows: {three('ours', 20)}; with 50 rows: {three('ours', 50)}."
    assert text in PAGE
    (linear,) = {
        shown(gap, 1) for (critic, recipe, _), gap in gaps.items() if critic == "2-IR-linear"
    }
    assert f"A 2-IR critic that is linear in polynomials: {linear} at every size |" in PAGE


def test_numbers_of_architectures():
    def gaps(figure, recipe, kind):
        rows = table(f"interaction-rank/{figure}", "summary", recipe=recipe)
        found = {r["critic"]: r["max gap"] for r in rows if r["critic"].startswith(kind)}
        found.pop("2-IR-linear", None)
        assert len(found) == (6 if kind == "joint" else 3)
        return list(found.values())

    def ends(recipe, kind):
        found = gaps("3", recipe, kind)
        return f"{shown(min(found))} to {shown(max(found))}"

    ours, printed = (list(map(shown, gaps("3", recipe, "2-IR"))) for recipe in ("ours", "printed"))
    assert (
        "2-IR critics of three widths {}, {} and {} (printed recipe: {}, {} and {}), ".format(
            *ours, *printed
        )
        + f"joint critics of six sizes {ends('ours', 'joint')} ({ends('printed', 'joint')}), "
        + f"1-IR critics {ends('ours', '1-IR')} ({ends('printed', '1-IR')})."
    ) in PAGE

    few, joint = [], []
    for recipe in ("ours", "printed"):
        few.append(shown(max(gaps("4", recipe, "1-IR") + gaps("4", recipe, "2-IR"))))
        (gap,) = {f"{gap:.3f}" for gap in gaps("4", recipe, "joint")}
        joint.append(gap)
    text = f"rank 1 and 2 at most {few[0]} ({few[1]}), joint critics {joint[0]} ({joint[1]}) |"
    assert text in PAGE


def with_error(gap, error):
    return f"{shown(gap)} ± {shown(error)}"


def test_numbers_at_the_papers_size():
    for recipe, text in (
        ("ours", "2-IR {} (256 units; {} with 128 and {} with 64), 1-IR {}, joint {}. "),
        ("printed", "With Table 2's recipe {}, {} and {}: the order is reversed."),
    ):
        rows = table("interaction-rank/3-at-10", "summary", recipe=recipe)
        gaps = {
            r["critic"]: (r["max gap"], r["error"]) for r in rows if "linear" not in r["critic"]
        }
        best = {
            kind: with_error(*min(gap for critic, gap in gaps.items() if critic.startswith(kind)))
            for kind in ("2-IR", "1-IR", "joint")
        }
        two, one, joint = best.values()
        own = [with_error(*gaps[f"2-IR-{width}"]) for width in (256, 128, 64)]
        cells = [*own, one, joint] if recipe == "ours" else [two, one, joint]
        assert own[0] == two
        assert text.format(*cells) in PAGE
        plain = [shown(float(cell.split(" ± ")[0])) for cell in (two, joint, one)]
        errata = (ROOT / "docs" / "theory" / "interaction-rank.md").read_text()
        printed = "the best architectures are {} (2-IR), {} (joint) and {} (1-IR)"
        ours = "with our training settings: {}, {} and {}"
        assert (ours if recipe == "ours" else printed).format(*plain) in errata


def test_ranges_at_the_papers_size():
    """The row of the index about Figures 3 and 4."""

    def gaps(figure, recipe, kinds):
        rows = table(f"interaction-rank/{figure}", "summary", recipe=recipe)
        rows = [row for row in rows if "linear" not in row["critic"]]
        return [row["max gap"] for row in rows if row["critic"].startswith(kinds)]

    two, joint, one, most, last = [], [], [], [], []
    for recipe in ("ours", "printed"):
        widths = map(shown, gaps("3-at-10", recipe, "2-IR"))
        two.append("{}, {} and {}".format(*widths))
        for cells, kind in ((joint, "joint"), (one, "1-IR")):
            found = gaps("3-at-10", recipe, kind)
            cells.append(f"{shown(min(found))} to {shown(max(found))}")
        most.append(shown(max(gaps("4-at-10", recipe, ("1-IR", "2-IR")))))
        (gap,) = {shown(gap) for gap in gaps("4-at-10", recipe, "joint")}
        last.append(gap)
    assert (
        f"2-IR critics of three widths {two[0]} ({two[1]}), joint critics {joint[0]} ({joint[1]}), "
        f"1-IR critics {one[0]} ({one[1]}). Rewards of the own action: rank 1 and 2 at most "
        f"{most[0]} ({most[1]}), joint critics {last[0]} ({last[1]}) |"
    ) in PAGE


def test_trials_at_the_papers_size():
    """In how many of ten trials nobody dissents."""
    page = " ".join((FOLDER / "interaction-rank-deep.md").read_text().split())
    kept = []
    for width in (64, 128, 256):
        wanted = {"critic": f"2-IR-{width}", "recipe": "ours"}
        rows = table("interaction-rank/3-at-10", "gaps", **wanted)
        kept.append(sum(row["max gap"] < 0.01 for row in rows))
    text = "nobody dissents (a gap below .01) in {} of ten trials with 64 units, in {} with 128"
    assert text.format(*kept[:2]) + f" and in {kept[2]} with 256" in page
    others = table("interaction-rank/3-at-10", "gaps")
    others = [row for row in others if not row["critic"].startswith("2-IR")]
    assert min(row["max gap"] for row in others) > 0.01


def test_machines_and_seconds_at_the_papers_size():
    """The parts were computed one by one, and the record only reads them."""
    page = " ".join((FOLDER / "interaction-rank-deep.md").read_text().split())
    for figure in ("3-at-10", "4-at-10"):
        seconds = {}
        for file in FOLDER.glob(f"interaction-rank/{figure}/parts/*/environment.json"):
            environment = read_json(file, "sessions")
            (cores,) = {session["machine"]["cores"] for session in environment["sessions"]}
            seconds[cores] = seconds.get(cores, 0.0) + environment["seconds"]
        text = f"{seconds[16]:,.0f} seconds on one H200 and {seconds[2]:.0f} on a CPU"
        assert text in page


def test_numbers_of_noise():
    page = (FOLDER / "interaction-rank-deep.md").read_text()
    rows = table("interaction-rank/noise", "summary")
    linear = [shown(row["max gap"]) for row in rows if "linear" in row["critic"]]
    others = [row["max gap"] for row in rows if "linear" not in row["critic"]]
    ends = f"{shown(min(others))} to {shown(max(others))}"
    text = f"Linear 2-IR critic {', '.join(linear[:3])} and {linear[3]}; networks of all kinds and "
    assert text + f"recipes {ends} |" in PAGE
    ours = [row for row in rows if row["recipe"] == "ours" and "linear" not in row["critic"]]
    two = [shown(r["median gap"]) for r in ours if r["critic"] == "2-IR-64"]
    others = [row["median gap"] for row in ours if row["critic"] != "2-IR-64"]
    text = f"({', '.join(two[:3])} and {two[3]}; networks of other kinds "
    assert f"{text}{shown(min(others))} to {shown(max(others))})" in " ".join(page.split())
    record = Record.load(FOLDER / "interaction-rank" / "noise")
    assert record.tables["summary"].column("rows per agent")[::7] == [2, 5, 10, 20]
    seconds, cores = 0.0, set()
    for file in FOLDER.glob("interaction-rank/noise/parts/*/*/environment.json"):
        environment = read_json(file, "sessions")
        seconds += environment["seconds"]
        cores |= {session["machine"]["cores"] for session in environment["sessions"]}
    assert cores == {2}
    assert f"The parts took {seconds:,.0f} seconds" in " ".join(page.split())


def test_errors_from_which_the_parameters_make_sense():
    """(2 N^2 eps)^(1/5) is lambda and the bound over C, and T = 1 / lambda^2."""
    errors = [1.0 / 800, 2.0**-5 / 800, 10.0**-2.5 / 800]
    text = (
        "is below 1 for errors below {} with C = 1, and below {} with C = 2, which covers all "
        "policies of three actions under uniform play; T is 10 at {} |"
    )
    assert text.format(shown(errors[0], 3), *map(shown, errors[1:])) in PAGE
    for error, divergence in zip(errors[:2], (1.0, 2.0), strict=True):
        bound = theory.printed_gap(20, 2, error, divergence=divergence)
        assert bound == pytest.approx(1.0)
    assert parameters.paper(20, 2, 1.001 * errors[2]).iterations == 10


def test_numbers_of_logs():
    rows = table("interaction-rank/discrete", "gaps", panel="samples", critic="2-IR", at=3000.0)
    mean = sum(row["gap"] for row in rows) / len(rows)
    assert f"20 agents, 3,000 samples: 2-IR {shown(mean)}, joint" in PAGE
