"""The page that compares runs: what is in their folders is on it, and what differs stands out."""

import json
import re

import numpy as np
import pytest
from test_page import parse

import equipoise as eq
from equipoise.certificates import TableCertificate
from equipoise.report import (
    Curve,
    RunFolder,
    _pages,
    compare,
    curves_of,
    figures,
    find_runs,
    read_runs,
)
from equipoise.report._pictures import pictures_of
from equipoise.report._tables import certificate_rows
from equipoise.runs import Record, Run, Table

ROUNDS = [1, 10, 100, 1000]


def solution(gains, method="enumeration", concept="nash", exact=True, **stats):
    """The plain form of a solution, of which only the certificate matters."""
    gains = np.asarray(gains, float)
    upper = gains if exact else np.full_like(gains, np.inf)
    value = np.zeros_like(gains)
    certificate = TableCertificate(gains, upper, value, method, concept)
    return {"version": 1, "certificate": certificate.to_plain(), "stats": stats}


def make_run(folder, step=0.1, arrays=None, finish=True, **config):
    with Run.create(folder, {"step": step, "model": {"layers": 2}, **config}) as run:
        for t in ROUNDS:
            run.log(t, gap=[step / t, 3 * step / t], note="x")
        if finish:
            gap = {"rounds": ROUNDS, "gap": step / np.sqrt(ROUNDS), "gap_error": [1e-3] * 4}
            scalars = {"gap": step / 30, "learned": True, "status": "learned: well"}
            table = Table(("t", "gap"), [(t, step / t) for t in ROUNDS])
            run.finish(Record("play", run.config, scalars, gap | (arrays or {}), {"curve": table}))
    return folder


def page_of(*folders, **options):
    return compare(read_runs(list(folders)), **options)


def test_a_page_about_very_many_runs_compares_all_and_draws_some(tmp_path, monkeypatch):
    monkeypatch.setattr(_pages, "_CURVES", 2)
    monkeypatch.setattr(_pages, "_DETAILED", 1)
    runs = [make_run(tmp_path / name, step=0.1) for name in ("one", "two", "three")]
    page = parse(page_of(*runs).html())
    text = "".join(page.text)
    assert "The numbers of all 3 runs are compared" in text
    assert "one: curve." in text
    assert "two: curve." not in text
    assert "three" in text
    alts = [attrs["aria-label"] for tag, attrs in page.elements if tag == "svg"]
    assert any("two" in alt for alt in alts)
    assert not any("three" in alt for alt in alts)


def test_a_page_shows_numbers_curves_tables_and_commands_of_all_runs(tmp_path):
    one, two = make_run(tmp_path / "one"), make_run(tmp_path / "two", step=0.2)
    page = parse(page_of(one, two).html())
    text = "".join(page.text)
    for expected in ("2 runs compared", "one", "two", "0.003333", "0.006667", "learned"):
        assert expected in text
    alts = [attrs["aria-label"] for tag, attrs in page.elements if tag == "svg"]
    assert alts == [
        "Curves of NashConv: one from 0.1 at round 1 to 0.00316 at 1000; "
        "two from 0.2 at round 1 to 0.00632 at 1000."
    ]
    (command,) = [run.command for run in read_runs([one])]
    assert command in text


def test_settings_that_differ_are_marked_and_others_folded(tmp_path):
    runs = [make_run(tmp_path / str(step), step=step, games=8) for step in (0.1, 0.2)]
    page = page_of(*runs).html()
    marked = re.findall(r'<tr class="differs">.*?</tr>', page)
    assert len(marked) == 1
    assert "≠ step" in marked[0]
    assert "0.1" in marked[0]
    assert "0.2" in marked[0]
    assert "<summary>2 settings are the same</summary>" in page
    assert "model.layers" in page


def test_what_makes_a_folder_is_told_before_what_reads_it_and_the_page_last(tmp_path):
    for name, command, hour in (("a", "evaluate b", 10), ("b", "pretrain", 9)):
        make_run(tmp_path / name)
        file = tmp_path / name / "environment.json"
        environment = json.loads(file.read_text())
        environment["sessions"][0] |= {
            "command": ["equipoise", *command.split()],
            "started": f"2026-01-01T{hour:02}:00:00+00:00",
        }
        file.write_text(json.dumps(environment))
    html = page_of(tmp_path / "a", tmp_path / "b", command="equipoise report a b").html()
    lines = html[html.index("To reproduce this page") :]
    assert "<code>equipoise pretrain\nequipoise evaluate b\nequipoise report a b</code>" in lines


def test_runs_of_other_kinds_are_not_held_against_each_other(tmp_path):
    make_run(tmp_path / "a"), make_run(tmp_path / "b", actions=3)
    page = page_of(tmp_path / "a", tmp_path / "b").html()
    assert "≠" not in page


def test_an_unfinished_run_is_shown_as_far_as_it_is(tmp_path):
    folder = make_run(tmp_path / "slow", finish=False)
    (run,) = read_runs([folder])
    assert run.state == "unfinished, at step 1,000"
    curve = curves_of(run.record, run.metrics)["gap"][""]
    assert np.allclose(curve.mean, 0.2 / np.array(ROUNDS))
    assert np.allclose(curve.error, 0.1 / np.array(ROUNDS))  # half the difference of two seeds
    html = compare([run]).html()
    assert "unfinished, at step 1,000" in html
    assert html.count("<svg") == 1


def test_an_unfinished_run_is_drawn_like_a_finished_one(tmp_path):
    with Run.create(tmp_path / "slow", {"rounds": 1000}) as run:
        for t in ROUNDS:
            row = {"average_gap": 1 / t, "average_gap_error": 0.1 / t, "path": [0.2, 0.3, 0.5]}
            run.log(t, **row)
    (run,) = read_runs([tmp_path / "slow"])
    curves = curves_of(run.record, run.metrics, run.config)
    assert set(curves) == {"average_gap"}  # a path of probabilities is none
    assert np.allclose(curves["average_gap"][""].error, 0.1 / np.array(ROUNDS))
    page = parse(compare([run]).html())
    (alt,) = [attrs["aria-label"] for tag, attrs in page.elements if tag == "svg"]
    what = "NashConv of the average policies"
    assert alt == f"Curves of {what}: {what} from 1 at round 1 to 0.001 at 1000."


def test_certificates_are_summarised_and_bounds_of_samples_told_apart(tmp_path):
    gains = np.array([[0.0, 0.5], [0.1, 0.1]])
    with Run.create(tmp_path / "solved", {}) as run:
        run.finish(Record("batch", solution=solution(gains)))
    with Run.create(tmp_path / "learnt", {}) as run:
        run.finish(Record("learning", {}, {"bound": 0.25, "confidence": 0.95}))
    text = "".join(parse(page_of(tmp_path / "solved", tmp_path / "learnt").html()).text)
    assert "enumeration" in text
    assert "solvedNash20.30.50.50.350.175exact: enumeration" in text
    assert "learntNash1––0.25––not exact: proven by samples, with probability 0.95" in text
    assert "mixture" not in text
    assert "interval" not in text


def test_an_estimate_in_a_fitted_model_is_no_exact_certificate(tmp_path):
    method = "best fixed deviation in every context from the mixture, in the fitted model"
    gap = {"gap": 0.2, "interval": [0.1, 0.4], "level": 0.9}
    with Run.create(tmp_path / "log", {}) as run:
        found = solution([0.1, 0.2], method, "cce", exact=False, gap=gap)
        run.finish(Record("log", solution=found))
    text = "".join(parse(page_of(tmp_path / "log").html()).text)
    row = "logcoarse correlated, in the fitted model0.2–90%: 0.1 to 0.4––not exact: best"
    assert row in text
    assert "not in the game itself" in text
    assert "Nash:" not in text


@pytest.mark.parametrize(
    ("concept", "words"),
    [("nash", "Nash"), ("cce", "coarse correlated"), ("ce", "correlated")],
)
def test_the_concept_of_a_certificate_is_named(concept, words, tmp_path):
    record = Record("x", solution=solution([0.1, 0.3], concept=concept))
    (row,) = certificate_rows(RunFolder(tmp_path, "x", {}, record))
    assert row["concept"] == words
    assert row["exact"]
    # Sums of gains are distances from Nash equilibria alone.
    assert ("NashConv" in row) == ("exploitability" in row) == (concept == "nash")


def test_arrays_become_pictures_by_their_names(tmp_path):
    arrays = {
        "path": np.full((4, 3), 1 / 3),
        "nash": [0.2, 0.3, 0.5],
        "strength": [[0.0, 2.0], [1.0, 0.0]],
        "map/aggregate": [[0.0], [1.0]],
        "map/welfare": [0.0, 0.6],
        "map/gain": [0.0, 0.0],
        "map/region": [[[0.0], [0.1]], [[0.9], [1.0]]],
        "aggregate": np.zeros((8, 3, 1)),
    }
    (run,) = read_runs([make_run(tmp_path / "run", arrays=arrays)])
    alts = [picture.alt for picture in pictures_of(run.record)]
    assert len(alts) == 4
    assert "the effect of agent 1's action on agent 0's reward" in alts[1]
    assert "2 equilibria over the aggregate; the best for society is at 1" in alts[2]
    assert set(curves_of(run.record, [])) == {"gap"}  # a path is none
    page = parse(compare([run], drawings={"run": [(figures.heat_map([[1]]), "more")]}).html())
    assert "".join(page.text).count("Agents are numbered from 0") == 1
    shown = [attrs["aria-label"] for tag, attrs in page.elements if tag == "svg"]
    assert len(shown) == 6
    assert shown[-1] == "run: more"


def test_long_tables_are_cut_and_say_so(tmp_path):
    with Run.create(tmp_path / "run", {}) as run:
        run.finish(Record("x", {}, {}, {}, {"rows": Table(("i",), [(i,) for i in range(100)])}))
    html = page_of(tmp_path / "run").html()
    assert "the first 30 of 100 rows" in html
    assert html.count("<tr>") < 40


def test_other_versions_are_told(tmp_path):
    for name in ("a", "b"):
        make_run(tmp_path / name)
    file = tmp_path / "b" / "environment.json"
    file.write_text(re.sub(r'"numpy": "[^"]*"', '"numpy": "0.1"', file.read_text()))
    assert "different versions: numpy." in page_of(tmp_path / "a", tmp_path / "b").html()


def test_a_folder_of_runs_stands_for_them_and_names_stay_apart(tmp_path):
    for place in ("x/act", "y/act", "y/other"):
        make_run(tmp_path / place)
    found = [*find_runs(tmp_path / "x" / "act"), *find_runs(tmp_path / "y")]
    assert [run.label for run in read_runs(found)] == ["x/act", "y/act", "y/other"]
    assert len(read_runs([*found, found[0]])) == 3  # the same folder twice is one run
    make_run(tmp_path / "y" / "other" / "part")  # is of that run
    make_run(tmp_path / ".trash" / "act")
    (tmp_path / "z" / "tool").mkdir(parents=True)
    (tmp_path / "z" / "tool" / "config.json").write_text("{}")  # is of another program
    assert find_runs(tmp_path) == [tmp_path / place for place in ("x/act", "y/act", "y/other")]
    with pytest.raises(ValueError, match="runs: expected run folders or folders of runs"):
        find_runs(tmp_path / "z")
    with pytest.raises(ValueError, match="runs: expected run folders, found none: "):
        find_runs(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no config\.json"):
        RunFolder.read(tmp_path)


@pytest.mark.parametrize(
    ("shape", "games"), [((4,), 1), ((4, 6), 6), ((2, 4, 6), 12)], ids=["T", "T,G", "S,T,G"]
)
def test_curves_of_games_and_seeds_are_averaged(shape, games, rng):
    values = rng.uniform(size=shape)
    record = Record("evaluate", arrays={"rounds": ROUNDS, "gap/players": values})
    curve = curves_of(record, [])["gap"]["players"]
    over = tuple(k for k, n in enumerate(shape) if n != 4)
    assert np.allclose(curve.mean, values.mean(over))
    if games == 1:
        assert curve.error is None
    else:
        assert np.allclose(curve.error, values.std(over, ddof=1) / np.sqrt(games))


def test_values_that_are_not_positive_get_plain_axes():
    t = np.arange(1, 20)
    figure = figures.compared_curves({"a": Curve(t, np.cos(t)), "b": Curve(t, 1.0 * t)})
    assert figure.axes[0].get_yscale() == "linear"
    assert [x.get_text() for x in figure.axes[0].get_legend().get_texts()] == ["a", "b"]
    with pytest.raises(ValueError, match="curves: expected at least one"):
        figures.compared_curves({})
    with pytest.raises(ValueError, match="values: expected 3 in every row"):
        Curve.of([1, 2, 3], [1, 2])


def test_long_legends_are_below_the_curves():
    t = np.arange(1.0, 9.0)
    short = figures.compared_curves({"a": Curve(t, t)})
    long = figures.compared_curves(
        {f"a curve with a long name, {k}": Curve(t, k * t) for k in (1, 2)}
    )
    for figure in (short, long):
        figure.draw_without_rendering()
    bottom = [f.axes[0].get_legend().get_window_extent().y1 for f in (short, long)]
    edge = [f.axes[0].get_window_extent().y0 for f in (short, long)]
    assert bottom[0] > edge[0]
    assert bottom[1] < edge[1]


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["logarithmic", "linear"])
def test_very_long_curves_make_small_pages(sign):
    t = np.arange(1.0, 1e6)
    (axes,) = figures.compared_curves({"a": Curve(t, sign / t, 0 * t)}).axes
    drawn = axes.lines[-1].get_xydata()
    assert len(drawn) <= 600
    assert drawn[[0, -1]].tolist() == [[1.0, sign], [t[-1], sign / t[-1]]]


def test_bands_are_two_standard_errors_wide():
    curve = Curve(np.array([1.0, 2.0]), np.array([1.0, -1.0]), np.array([0.1, 0.2]))
    (axes,) = figures.compared_curves({"a": curve}).axes
    (band,) = axes.collections
    ends = band.get_paths()[0].vertices[:, 1]
    assert np.allclose([ends.max(), ends.min()], [1.2, -1.4])


def test_the_strongest_of_many_agents_are_drawn(rng):
    strength = rng.uniform(0, 0.1, (60, 60))
    strength[[5, 50], [50, 5]] = 10.0
    figure = figures.interaction_map(strength, most=2, names=[f"agent {i}" for i in range(60)])
    (axes,) = figure.axes
    assert [t.get_text() for t in axes.get_yticklabels()] == ["agent 5", "agent 50"]
    assert axes.get_title().endswith("2 of 60 agents")
    with pytest.raises(ValueError, match=r"strength: expected shape \(agents, agents\)"):
        figures.interaction_map(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="names: expected 60"):
        figures.interaction_map(strength, names=["a"])


def test_the_best_equilibrium_is_the_star():
    regions = [[[0.0], [0.1]], [[0.3], [0.4]], [[0.9], [1.0]]]
    figure = figures.equilibrium_map([[0.0], [0.3], [1.0]], [0.0, 0.1, 0.6], regions=regions)
    (axes,) = figure.axes
    star = next(line for line in axes.lines if line.get_label() == "best for society")
    assert star.get_xydata().tolist() == [[1.0, 0.6]]
    assert len(axes.patches) == 3
    plane = figures.equilibrium_map([[0.1, 0.2], [0.3, 0.4]], [2.0, 1.0], gains=[0.0, 0.5])
    star = next(line for line in plane.axes[0].lines if line.get_label() == "best for society")
    assert star.get_xydata().tolist() == [[0.1, 0.2]]
    with pytest.raises(ValueError, match="aggregates: expected shape"):
        figures.equilibrium_map([0.1], [0.2])


def test_numbers_and_settings_are_named_in_words(tmp_path):
    config = {"env": {"game fingerprint": 46.9}, "width": 64, "own": {"thing": 1}}
    with Run.create(tmp_path / "run", config) as run:
        scalars = {"width": 0.85, "stats": {"relaxed": 1.0, "width": 0.85}, "own": 2.0}
        arrays = {"curve/width": [3.0, 2.0, 1.0]}
        run.finish(Record("aggregative-learning", config, scalars, arrays))
    html = page_of(tmp_path / "run").html()
    for expected in ("factor by which the tolerance", "fingerprint of the game", ">own.thing<"):
        assert expected in html
    # The curve has a title and a name; the number, also among the statistics, is said once.
    assert html.count("<td>upper minus lower value</td>") == 1
    assert "Curves of upper minus lower value: " in html
    assert ">width<" in html  # a setting of that name is another thing
    for raw in ("stats.", "env."):
        assert f">{raw}" not in html


def test_columns_of_certificates_that_say_nothing_are_left_out(tmp_path):
    def table(gains, **options):
        record = Record("x", solution=solution(gains, **options))
        page = compare([RunFolder(tmp_path, "x", {}, record)]).html()
        page = page[page.index(">Certificates</h2>") :]
        return re.findall(r"<th[^>]*>([^<]*)</th>", page[: page.index("</table>")])

    one = ["run", "concept", "max gain", "at most", "NashConv", "exploitability", "how"]
    assert table([0.0, 0.5]) == one
    assert table([[0.0, 0.5], [0.1, 0.1]]) == [*one[:2], "games", "max gain", "worst", *one[3:]]
    gap = {"gap": 0.5, "interval": [0.5, 0.5], "level": None, "resampled": [0.5, 0.5]}
    assert "interval" in table([0.0, 0.5], method="m, in the fitted model", gap=gap)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("matching-pennies", "heads0.50.5"),
        ("braess-network", "2 to 34"),
        ("public-good", "stay outjoin"),
    ],
)
def test_the_page_of_a_solution_begins_with_the_answer(name, answer):
    game = eq.games.load(name)
    html = eq.report.page_of(eq.report.record_of(game, eq.solve(game))).html()
    first, *others = re.findall(r"<h2[^>]*>(.*?)</h2>(.*?)(?=<h2)", html, re.DOTALL)
    assert first[0] == "Answer"
    assert [heading for heading, _ in others][:2] == ["Result", "Certificates"]
    text = re.sub(r"<[^>]*>|\n", "", first[1])
    assert "statussolved" in text
    assert "nobody gains more than" in text
    assert answer in text


def test_the_page_of_a_batch_begins_with_its_gains():
    record = Record("self-play", {}, {"status": "learned: well"}, solution=solution(np.eye(3, 2)))
    html = eq.report.page_of(record).html()
    first = re.findall(r"<h2[^>]*>(.*?)</h2>(.*?)(?=<h2)", html, re.DOTALL)[0]
    assert first[0] == "Answer"
    text = re.sub(r"<[^>]*>|\n", "", first[1])
    assert text == "statuslearnedlargest gain, mean of 3 games0.6667nobody gains more than1"


def test_a_figure_has_as_many_curves_as_readers_can_tell_apart(tmp_path):
    folders = [make_run(tmp_path / f"run{k}", step=0.1 + k) for k in range(9)]
    page = parse(page_of(*folders).html())
    assert sum(tag == "svg" for tag, _ in page.elements) == 2


def test_links_of_a_map_tell_their_values(tmp_path):
    game = eq.games.load("braess-network")
    html = eq.report.page_of(eq.report.record_of(game, eq.solve(game))).html()
    assert sorted(re.findall(r"<title>(.* to .*): .*</title>", html)) == [
        "0 to 1", "0 to 2", "1 to 2", "1 to 3", "2 to 3",
    ]  # fmt: skip
