"""Road networks on the command line: solve, certify and toll."""

import json
from functools import partial

import pytest

import equipoise as eq
from equipoise.cli import main

NET = """<FIRST THRU NODE> 1
<END OF METADATA>
~ init term capacity length fft b power speed toll type ;
1 2 1 0 1 1 1 0 0 1 ;
1 2 1 0 2 0.5 1 0 0 1 ;
"""


@pytest.fixture
def files(tmp_path):
    net, trips = tmp_path / "net.tntp", tmp_path / "trips.tntp"
    net.write_text(NET)
    trips.write_text("<END OF METADATA>\nOrigin 1\n 2 : 3;\n")
    return str(net), str(trips)


def test_solve_and_certify(files, tmp_path, capsys):
    flows, page = tmp_path / "flows.tntp", tmp_path / "map.html"
    assert main(["solve", *files, "--out", str(flows), "--report", str(page)]) == 0
    assert "relative gap" in capsys.readouterr().out
    assert page.read_text().count("<svg") == 1
    assert "flow / capacity" in page.read_text()
    assert main(["certify", *files, str(flows), "--tolerance", "1e-9", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["relative_gap"] < 1e-9
    assert found["verdict"]["measure"] == "relative_gap_upper"
    assert eq.games.read_flows(flows, eq.games.read_tntp(*files)).flows.sum() == pytest.approx(3)


def test_certificates_use_the_words_of_transport_planning(files, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["solve", *files, "--report", str(page)]) == 0
    for text in (capsys.readouterr().out, page.read_text()):
        assert "largest gain of a traveller" in text
        assert "average excess cost" in text
        assert "relative gap" in text
        assert "NashConv" not in text
        assert "exploitability" not in text
    assert "user equilibrium" in page.read_text()
    found = run_json(["solve", *files], capsys)["certificate"]
    assert {"nash_conv", "exploitability", "max_gain", "relative_gap_upper"} <= set(found)


def test_flows_that_are_no_equilibrium_miss_the_tolerance(files, tmp_path, capsys):
    flows = tmp_path / "flows.tntp"
    flows.write_text("From To Volume\n1 2 3\n1 2 0\n")
    assert main(["certify", *files, str(flows), "--tolerance", "0.01"]) == 1
    shown = capsys.readouterr().out
    assert "missed" in shown
    assert "better path" in shown


def test_run_folders_know_their_trips(files, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["solve", *files, "--run", str(run)]) == 0
    assert main(["certify", *files, str(run)]) == 0
    capsys.readouterr()
    assert main(["solve", *files, "--run", str(run)]) == 0
    assert "finished earlier; read from disk" in capsys.readouterr().out


def test_optimum_and_tolls(files, tmp_path, capsys):
    assert main(["solve", *files, "--concept", "optimum", "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["stats"]["total_cost"]
    page, out = tmp_path / "toll.html", tmp_path / "tolls.tntp"
    words = ["toll", *files, "--links", "1", "--report", str(page), "--out", str(out), "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    cost = found["total cost with tolls"]
    assert cost["lower"] == pytest.approx(best, rel=1e-4)
    assert cost["upper"] == pytest.approx(best, rel=1e-4)
    assert found["lower bound for any tolls"] <= cost["lower"]
    assert page.read_text().count("<svg") == 2
    assert out.read_text().startswith("From\tTo\tToll\tVolume\tCost\n")
    assert main(["toll", *files, "--first-best"]) == 0
    shown = capsys.readouterr().out
    assert "part of the possible saving" in shown
    assert "the mean cost includes the tolls paid; total costs do not" in " ".join(shown.split())
    assert "better path" not in shown  # nobody gains


def test_a_table_with_an_unknown_header_is_refused_with_the_header_that_is_needed(tmp_path, capsys):
    table = tmp_path / "bad.csv"
    table.write_text("a,b\n1,2\n")
    assert main(["toll", "braess-network", "--links", str(table)]) == 2
    expected = "expected a header with the columns from and to, or link; found 'a,b'"
    assert f"{table}: {expected}" in " ".join(capsys.readouterr().err.split())


def test_nothing_is_shown_of_a_saving_that_is_impossible(tmp_path, capsys):
    net, trips = tmp_path / "net.tntp", tmp_path / "trips.tntp"
    net.write_text(
        "<NUMBER OF NODES> 2\n<NUMBER OF LINKS> 1\n<FIRST THRU NODE> 1\n<END OF METADATA>\n"
        "~ init term capacity length free_flow b power speed toll type ;\n1 2 1 1 1 1 1 0 0 1 ;\n"
    )
    trips.write_text(
        "<NUMBER OF ZONES> 2\n<TOTAL OD FLOW> 3\n<END OF METADATA>\nOrigin 1\n2 : 3.0;\n"
    )
    assert main(["toll", str(net), str(trips), "--links", "1"]) == 0
    shown = capsys.readouterr().out
    assert "lower bound for any tolls" in shown
    assert "possible saving" not in shown
    assert "path, by nodes" not in shown


def run_json(words, capsys):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_tolls_on_the_links_of_a_table_and_tolls_from_a_table(tmp_path, capsys):
    """A toll on 1 to 2, the shortcut, makes the optimum; one on 0 to 1 alone does not."""
    table, named, ends = (tmp_path / name for name in ("table.csv", "named.csv", "ends.csv"))
    table.write_text("from,to\n0,1\n")
    named.write_text("link,toll\nshortcut,13.5\n")
    ends.write_text("link_id,from,to\nmotorway,0,1\nshortcut,1,2\n")
    toll = ["toll", "braess-network"]
    first = run_json([*toll, "--links", str(table)], capsys)
    assert first["links"] == [0]
    assert 498.5 < first["total cost with tolls"]["lower"] < 551.0
    best = run_json([*toll, "--links", str(named), "--ends", str(ends)], capsys)
    assert best["links"] == [4]
    assert best["total cost with tolls"]["upper"] == pytest.approx(498)
    own = run_json([*toll, "--tolls", str(named), "--ends", str(ends)], capsys)
    assert own["tolls"] == [0, 0, 0, 0, 13.5]
    assert own["total cost with tolls"]["upper"] == pytest.approx(498)
    out = tmp_path / "tolls.tntp"
    assert main([*toll, "--tolls", str(named), "--ends", str(ends), "--out", str(out)]) == 0
    capsys.readouterr()
    assert run_json([*toll, "--tolls", str(out)], capsys)["tolls"] == own["tolls"]


def test_certify_flows_of_named_links(files, tmp_path, capsys):
    flows, ends = tmp_path / "flows.csv", tmp_path / "ends.csv"
    flows.write_text("edge_id,volume\nb,2\na,1\n")
    ends.write_text("edge_id,from,to\na,1,2\nb,1,2\n")
    words = ["certify", *files, str(flows)]
    assert run_json([*words, "--ends", str(ends)], capsys)["kind"] == "network"
    assert main(words) == 2
    assert "--ends" in capsys.readouterr().err
    ends.write_text("edge_id,from,to\na,1,2\n")
    assert main([*words, "--ends", str(ends)]) == 2
    assert "ends.csv: links: expected all links of the table" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["solve", "{net}"], "TRIPS: expected the file with the trips of"),
        (["solve", "braess", "{trips}"], "TRIPS: expected no trips with a named game"),
        (["solve", "{net}", "{trips}", "--set", "toll=1"], "factors of a network, found 'toll'"),
        (["solve", "{net}", "{trips}", "--concept", "ce"], "concept"),
        (["solve", "braess", "--out", "flows.tntp"], "--out: expected a name that ends in .json"),
        (["certify", "{net}", "{trips}"], "TRIPS: expected the file with the trips of"),
        (["certify", "{net}", "{trips}", "{net}"], "expected"),
        (["toll", "oneill"], "GAME: expected a road network"),
        (["toll", "{net}", "{trips}", "--links", "0"], "--links: expected a whole number"),
        (["toll", "{net}", "{trips}", "--links", "x"], "--links: expected a whole number, or a"),
        (["toll", "{net}", "{trips}", "--links", "1", "--first-best"], "--links: expected no such"),
        (["toll", "{net}", "{trips}", "--ends", "x.csv"], "--ends: expected this option only with"),
        (["toll", "{net}", "{trips}", "--tolls", "{net}"], "expected"),
    ],
)
def test_wrong_words(files, capsys, words, complaint):
    net, trips = files
    assert main([word.format(net=net, trips=trips) for word in words]) == 2
    assert complaint in capsys.readouterr().err


def stopping(function, at):
    """The function, with Ctrl-C at a call of `progress`."""

    def stop(told):
        if told["iteration"] == at:
            raise KeyboardInterrupt

    return partial(function, progress=stop)


def test_ctrl_c_on_toll_prints_the_tolls_found(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(eq.networks, "best_tolls", stopping(eq.networks.best_tolls, 5))
    tolls = tmp_path / "tolls.tntp"
    assert main(["toll", "braess-network", "--links", "1", "--out", str(tolls)]) == 130
    out, err = capsys.readouterr()
    assert "interrupted: better tolls may exist" in out
    assert "the tolls above are the best so far" in err
    assert tolls.exists()


def test_ctrl_c_on_solve_keeps_the_policy_and_does_not_finish_the_run(
    capsys, monkeypatch, tmp_path
):
    command = ["solve", "grid-city", "--run", str(tmp_path / "run")]
    with monkeypatch.context() as patched:
        patched.setattr(eq, "solve", stopping(eq.solve, 2))
        assert main(command) == 130
    out, err = capsys.readouterr()
    assert "the policy above is the best so far" in err
    assert "report" not in out
    game = eq.games.load("grid-city")
    kept = eq.certify(game, eq.read_policy(tmp_path / "run" / "policy.json"))
    assert kept.relative_gap > 1e-10
    assert main(command) == 0  # solves again, and finishes
    assert "read from disk" not in capsys.readouterr().out
    solved = eq.certify(game, eq.read_policy(tmp_path / "run" / "policy.json"))
    assert solved.relative_gap < 1e-10
