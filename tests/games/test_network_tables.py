"""Tables and files of links, trips and flows, as other tools write them."""

import tracemalloc

import numpy as np
import pytest

import equipoise as eq

LINKS = {"a_node": ["x", "x", "y"], "b_node": ["y", "z", "z"], "free_flow": [1.0, 3.0, 1.0]}
TRIPS = {"origin": ["x"], "destination": ["z"], "demand": [4.0]}


def named():
    return eq.NetworkGame.from_tables(LINKS, TRIPS, b=0.0)


class TestNames:
    def test_words(self):
        game = named()
        assert game.labels.states == ("x", "y", "z")
        assert game.tails.tolist() == [0, 0, 1]
        table = {"A_Node": ["y", "x"], "B_Node": ["z", "y"], "PCE_tot": [4.0, 4.0]}
        with pytest.warns(UserWarning, match="1 of 3 links are not in the table and carry no flow"):
            policy = eq.games.flows_of_table(game, table)
        assert policy.flows.tolist() == [4.0, 0.0, 4.0]
        assert eq.certify(game, policy).relative_gap == 0.0

    def test_data_frames(self):
        pandas = pytest.importorskip("pandas")
        links, trips = pandas.DataFrame(LINKS), pandas.DataFrame(TRIPS)
        assert eq.NetworkGame.from_tables(links, trips, b=0.0) == named()
        flows = pandas.DataFrame(
            {"from": ["x", "x", "y"], "to": ["y", "z", "z"], "flow": [4, 0, 4]}
        )
        assert eq.certify(named(), flows).relative_gap == 0.0

    def test_large_numbers_take_no_memory(self):
        tracemalloc.start()
        far = {"tail": [5, 10**9], "head": [10**9, 7], "free_flow": [1.0, 1.0]}
        trips = {"origin": [5], "destination": [7], "demand": [1.0]}
        game = eq.NetworkGame.from_tables(far, trips, first_through=8, capacity=1.0)
        solution = eq.solve(game)
        assert tracemalloc.get_traced_memory()[1] < 50e6
        tracemalloc.stop()
        assert game.labels.states == ("5", "7", "1000000000")
        assert game.first_through == 2
        assert solution.policy.flows.tolist() == [1.0, 1.0]
        table = {"from": [5, 10**9], "to": [10**9, 7], "volume": [1.0, 1.0]}
        assert eq.certify(game, table).relative_gap == 0.0
        with pytest.raises(ValueError, match="tails: expected nodes with numbers below 100,020"):
            eq.NetworkGame([5, 10**9], [10**9, 7], [5], [7], [1.0])

    def test_words_have_no_first_node(self):
        with pytest.raises(ValueError, match="first_through: expected no value if nodes"):
            eq.NetworkGame.from_tables(LINKS, TRIPS, first_through=2)


class TestFlows:
    @pytest.mark.parametrize(
        ("table", "told"),
        [
            ({"from": [0, 0], "to": [1, 9], "flow": [1, 1]}, "found one from 0 to 9"),
            ({"from": [0, 0, 0], "to": [1, 1, 1], "flow": [1, 1, 1]}, "one too many from 0 to 1"),
            ({"from": [0], "to": [1], "flow": [2]}, "a row for each of the 2 links from 0 to 1"),
            ({"from": ["a"], "to": [1], "flow": [2]}, "numbers of nodes, found 'a'"),
            ({"from": [0], "to": [1]}, "a column flow"),
            ({"from": [0, 0], "to": [1], "flow": [2]}, "columns of one length"),
        ],
    )
    def test_refused(self, table, told):
        game = eq.NetworkGame([0, 0], [1, 1], [0], [1], [2.0], free_flow=[1, 1], b=0.0)
        with pytest.raises(ValueError, match=told):
            eq.games.flows_of_table(game, table)

    def test_files_of_other_tools(self, tmp_path):
        file = tmp_path / "flows.csv"
        file.write_text(
            "link_id,a_node,b_node,name,PCE_tot,Congested Time\n"
            '1,x,y,"Elm St, 1",4,1\n2,y,z,,4.0,1\n'
        )
        with pytest.warns(UserWarning, match="from x to z"):
            assert eq.games.read_flows(file, named()).flows.tolist() == [4.0, 0.0, 4.0]
        file.write_text("a_node,b_node,flow\nx,y\n")
        with pytest.raises(ValueError, match="line 2: expected a_node, b_node, flow; found"):
            eq.games.read_flows(file, named())
        file.write_text("a_node,b_node,flow\nx,y,many\n")
        with pytest.raises(ValueError, match="line 2: expected a number, found 'many'"):
            eq.games.read_flows(file, named())
        file.write_text("id,flow\n1,2\n")
        with pytest.raises(ValueError, match="expected"):
            eq.games.read_flows(file, named())

    @pytest.mark.parametrize(
        "text",
        [
            "sep=;\nfrom;to;name;flow;cost\nx;y;;4;7\nx;z;Elm St;0;8\ny;z;;4;9\n",
            "from\tto\tname\tflow\tcost\nx\ty\t\t4\t7\nx\tz\tElm St\t0\t8\ny\tz\t\t4\t\n",
            "\tfrom\tto\tflow\n7\tx\ty\t4\n8\tx\tz\t0\n9\ty\tz\t4\n",
            "name,from,to,flow\n,x,y,4\n,x,z,0\n,y,z,4\n",
        ],
    )
    def test_empty_cells_are_cells(self, tmp_path, text):
        file = tmp_path / "flows.csv"
        file.write_text(text)
        assert eq.games.read_flows(file, named()).flows.tolist() == [4.0, 0.0, 4.0]

    def test_between_blanks_nothing_tells_which_cell_is_empty(self, tmp_path):
        file = tmp_path / "flows.txt"
        file.write_text("from to name flow cost\nx y Elm 4 7\nx z 0 8\n")
        told = "line 3: expected from, to, name, flow, cost; found 'x z 0 8'"
        with pytest.raises(ValueError, match=told):
            eq.games.read_flows(file, named())

    def test_another_networks_start(self):
        one = eq.solve(eq.games.load("braess-network"))
        city = eq.games.load("grid-city", rows=3, columns=3, zones=3)
        with pytest.raises(ValueError, match="start: expected flows on paths of this network"):
            eq.solve(city, start=one)
        with pytest.raises(ValueError, match="start: expected a solution, or a FlowPolicy with"):
            eq.solve(city, start=eq.FlowPolicy(np.zeros(city.links)))
        shifted = eq.FlowPolicy(np.ones(5), [6.0], [0], [4], [0, 1])
        with pytest.raises(ValueError, match="start: expected flows on paths of this network"):
            eq.solve(eq.games.load("braess-network"), start=shifted)


class TestOtherTools:
    """Tables that name links, or hold both directions of a street in one row."""

    def game(self):
        links = {"a_node": [1, 2, 2, 3], "b_node": [2, 1, 3, 2], "free_flow": [1.0] * 4}
        trips = {"origin": [1, 3], "destination": [3, 1], "demand": [5.0, 2.0]}
        return eq.NetworkGame.from_tables(links, trips, b=0.0)

    def test_both_directions_of_aequilibrae(self):
        pandas = pytest.importorskip("pandas")
        streets = pandas.DataFrame(
            {"link_id": [10, 20], "a_node": [1, 2], "b_node": [2, 3], "direction": [0, 0]}
        )
        found = pandas.DataFrame(
            {"car_ab": [5.0, 5.0], "car_ba": [2.0, 2.0], "PCE_AB": [5.0, 5.0], "PCE_BA": [2.0, 2.0]}
            | {"PCE_tot": [7.0, 7.0]},
            index=pandas.Index([10, 20], name="link_id"),
        )
        expected = [5.0, 2.0, 5.0, 2.0]
        for flow in (None, "car", "PCE"):
            policy = eq.games.flows_of_table(self.game(), found, flow=flow, links=streets)
            assert policy.flows.tolist() == expected
        joined = found.join(streets.set_index("link_id"))
        certificate = eq.certify(self.game(), joined)
        assert certificate.relative_gap_upper < 1e-12
        with pytest.raises(ValueError, match="only names of links"):
            eq.certify(self.game(), found)

    def test_one_way_links_of_aequilibrae(self):
        """Streets whose directions are links of their own; one points the other way."""
        table = {
            "a_node": [1, 1, 2, 3],
            "b_node": [2, 2, 3, 2],
            "pce_ab": [5.0, 0.0, 5.0, 2.0],
            "pce_ba": [0.0, 2.0, np.nan, np.nan],
        }
        # The second row is the way back from 2 to 1.
        with pytest.raises(ValueError, match="one too many from 1 to 2"):
            eq.games.flows_of_table(self.game(), table)
        table = {name: column[1:] for name, column in table.items()}
        table["pce_ab"][0] = 5.0
        assert eq.games.flows_of_table(self.game(), table).flows.tolist() == [5.0, 2.0, 5.0, 2.0]

    def test_edges_of_sumo(self, tmp_path):
        edges, data = tmp_path / "edges.csv", tmp_path / "edgedata.csv"
        edges.write_text(
            "edge_from;edge_id;edge_name;edge_to\n1;E1;;2\n2;-E1;;1\n2;E2;Elm St;3\n3;-E2;;2\n"
        )
        data.write_text(
            "interval_begin;edge_id;edge_density;edge_entered;edge_name\n"
            "0.00;-E2;;2;\n0.00;E2;1.5;5;\n0.00;-E1;;2;\n0.00;E1;;5;\n"
        )
        game = self.game()
        policy = eq.games.read_flows(data, game, flow="edge_entered", links=edges)
        assert policy.flows.tolist() == [5.0, 2.0, 5.0, 2.0]
        assert eq.certify(game, policy).relative_gap_upper < 1e-12
        edges.write_text("edge_from;edge_id;edge_to\n1;E1;2\n")
        with pytest.raises(ValueError, match="no link named -E2"):
            eq.games.read_flows(data, game, flow="edge_entered", links=edges)
        with pytest.raises(ValueError, match="expected a column edge_left"):
            eq.games.read_flows(data, game, flow="edge_left", links=edges)


def test_a_node_that_is_not_in_the_network_is_no_other_link():
    game = eq.games.load("braess-network")  # the last link of node 1 ends at node 3
    table = {"tail": [0, 2], "head": [1, 9], "flow": [3.0, 3.0]}
    with pytest.raises(ValueError, match="found one from 2 to 9"):
        eq.games.flows_of_table(game, table)


def test_tables_of_tolls_and_links(tmp_path):
    roads = {"tail": [0, 0, 1], "head": [1, 1, 2], "free_flow": [1, 2, 1]}
    trips = {"origin": [0], "destination": [2], "demand": [1]}
    game = eq.NetworkGame.from_tables(roads, trips, b=0.0)
    path = tmp_path / "table.csv"
    path.write_text("from;to;toll\n1;2;3\n0;1;1\n0;1;2\n")
    assert eq.games.read_tolls(path, game).tolist() == [1, 2, 3]
    assert eq.games.read_links(path, game).tolist() == [2, 0, 1]
    path.write_text("from,to,toll\n1,2,3\n")
    assert eq.games.read_tolls(path, game).tolist() == [0, 0, 3]
    path.write_text("from,to,toll\n0,1,3\n")
    with pytest.raises(ValueError, match="a row for each of the 2 links from 0 to 1, found fewer"):
        eq.games.read_links(path, game)
    path.write_text("from,to,toll\n1,2,three\n")
    with pytest.raises(ValueError, match="line 2: expected a number, found 'three'"):
        eq.games.read_tolls(path, game)


def test_names_of_digits_are_kept_as_they_are_written(tmp_path):
    links, trips = tmp_path / "links.csv", tmp_path / "trips.csv"
    for near, far in ((2**53 + 1, 2**53), (2**60 + 1, 2**60), ("007", "7"), ("1E2", "100")):
        links.write_text(f"from,to,time,capacity\n{near},2,10,2000\n{far},2,12,1500\n")
        trips.write_text(f"origin,destination,trips\n{near},2,3000\n")
        game = eq.NetworkGame.from_tables(links, trips)
        assert eq.solve(game).policy.flows.tolist() == [3000, 0]
        assert {str(near), str(far)} < set(game.labels.states)
    large = np.array([2**63 + 1, 2**63], np.uint64)
    roads = {"tail": large, "head": np.array([2, 2], np.uint64), "free_flow": [1, 2]}
    demand = {"origin": large[:1], "destination": [2], "demand": [3]}
    assert len(eq.NetworkGame.from_tables(roads, demand, b=0.0).labels.states) == 3
    roads["tail"] = large.astype(float)
    with pytest.raises(ValueError, match=r"tails: .* 2\^53 as floats, .*; write nodes as int64"):
        eq.NetworkGame.from_tables(roads, demand, b=0.0)


def test_errors_about_named_nodes_name_them():
    roads = {"tail": ["Home"], "head": ["Work"], "free_flow": [1]}
    trips = {"origin": ["Work"], "destination": ["Home"], "demand": [2.5]}
    with pytest.raises(ValueError, match=r"a path for every pair .* found none from Work to Home"):
        eq.NetworkGame.from_tables(roads, trips, b=0.0)
    with pytest.raises(ValueError, match=r"free_flow: .* -1 on link 0, from Home to Work"):
        eq.NetworkGame.from_tables(roads | {"free_flow": [-1]}, trips, b=0.0)


def test_flows_are_read_like_other_tables_of_roads(tmp_path):
    roads = {"tail": [0, 0], "head": [1, 1], "free_flow": [1, 2]}
    trips = {"origin": [0], "destination": [1], "demand": [3]}
    game = eq.NetworkGame.from_tables(roads, trips, b=0.0)
    path = tmp_path / "flows.csv"
    path.write_text("from;to;flow\n0;1;1,5\n0;1;1.001,5\n")
    assert eq.games.read_flows(path, game).flows.tolist() == [1.5, 1001.5]
    path.write_text("from;to;flow\n0;1;2.000\n0;1;1\n")
    with pytest.raises(ValueError, match=r"line 2: .* 'flow', found '2\.000'; write it without"):
        eq.games.read_flows(path, game)
    path.write_text("from,to,flow,volume\n0,1,1,2\n0,1,2,1\n")
    with pytest.raises(ValueError, match="one column of flows, found flow and volume; name the"):
        eq.games.read_flows(path, game)
    assert eq.games.read_flows(path, game, flow="volume").flows.tolist() == [2, 1]
    path.write_text("from,to,flow\n0,1,1\n0,1,2\n", encoding="utf-16")
    assert eq.games.read_flows(path, game).flows.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ("toll (s)", "the unit of 'time"),
        ("toll_sec", "the unit of 'time"),
        ("toll (km)", "tolls in units of a time, such as min, or of money"),
        ("toll (EUR)", ""),
        ("toll (min)", ""),
        ("alpha (%)", "b without a unit"),
        ("power (veh)", "power without a unit"),
        ("capacity (%)", "capacity in units of a flow"),
    ],
)
def test_units_that_do_not_fit_are_refused(column, told):
    roads = {"tail": [0], "head": [1], "time (min)": [1.0], column: [1.0]}
    trips = {"origin": [0], "destination": [1], "demand": [3]}
    roads = roads if "capacity" in column else roads | {"capacity": [9.0]}
    if not told:
        assert eq.NetworkGame.from_tables(roads, trips).links == 1
        return
    with pytest.raises(ValueError, match=f"links: expected {told}") as error:
        eq.NetworkGame.from_tables(roads, trips)
    assert repr(column) in str(error.value)
