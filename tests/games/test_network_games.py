"""Networks from arrays, tables and files; input that is wrong is named."""

import numpy as np
import pytest

import equipoise as eq

LINKS = {"tails": [1, 1, 2], "heads": [2, 3, 3]}
TRIPS = {"origins": [1, 1], "destinations": [2, 3], "demand": [1.5, 2.0]}
NET = """<NUMBER OF ZONES> 2
<NUMBER OF NODES> 3
<FIRST THRU NODE> 3
<NUMBER OF LINKS> 4
<END OF METADATA>

~ \tinit\tterm\tcapacity\tlength\tfft\tb\tpower\tspeed\ttoll\ttype\t;
\t1\t3\t10\t2\t1\t0.15\t4\t0\t5\t1\t;
\t3\t2\t20\t2\t1\t0.15\t4\t0\t0\t1\t;
\t1\t2\t30\t9\t4\t0\t0\t0\t0\t1\t;
\t2\t1\t30\t9\t4\t0.5\t1\t0\t0\t1\t;
"""
ROWS = "<END OF METADATA>\n\nOrigin 1\n 1 : 7.0;  2 : 12.5;\nOrigin  2\n\n 1 : 3;\n"


@pytest.fixture
def files(tmp_path):
    net, trips = tmp_path / "net.tntp", tmp_path / "trips.tntp"
    net.write_text(NET)
    trips.write_text(ROWS)
    return net, trips


def game(**changes):
    return eq.NetworkGame(**{**LINKS, **TRIPS, "free_flow": 1.0, **changes})


class TestMaking:
    def test_tables_of_columns(self):
        links = {"init_node": [1.0, 1.0, 2.0], "TERM_NODE": [2, 3, 3], "free_flow_time": [1, 1, 1]}
        trips = {"origin": [1, 1], "destination": [2, 3], "trips": [1.5, 2.0]}
        assert eq.NetworkGame.from_tables(links, trips, capacity=1.0) == game()
        with pytest.raises(ValueError, match=r"links: expected a column head \(or"):
            eq.NetworkGame.from_tables({"init_node": [1]}, trips)

    def test_data_frames(self):
        pandas = pytest.importorskip("pandas")
        links = pandas.DataFrame({"tail": LINKS["tails"], "head": LINKS["heads"], "free_flow": 1.0})
        trips = {"origin": [1, 1], "destination": [2, 3], "demand": [1.5, 2.0]}
        assert eq.NetworkGame.from_tables(links, pandas.DataFrame(trips), capacity=1.0) == game()

    def test_a_matrix_of_trips_without_those_that_do_not_travel(self):
        matrix = np.zeros((4, 4))
        matrix[1, 2:], matrix[1, 1] = (1.5, 2.0), 9.0
        assert game(origins=None, destinations=None, demand=matrix) == game()
        both = game(origins=None, destinations=None, demand=np.stack([matrix, matrix]))
        assert both.classes.tolist() == [0, 0, 1, 1]

    def test_costs_and_slopes(self):
        one = game(free_flow=[1, 2, 0], b=[0.15, 0.5, 1], capacity=[1, 2, 0], power=[4, 1, 4])
        flows = np.array([2.0, 4.0, 1.0])
        np.testing.assert_allclose(one.times(flows), [1 + 0.15 * 16, 2 + 2, 0])
        np.testing.assert_allclose(one.slopes(flows), [0.15 * 4 * 8, 0.5, 0])
        np.testing.assert_allclose(one.potential(flows), 2 + 0.15 * 32 / 5 + 8 + 4)
        step = 1e-6
        rise = (one.potential(flows + step) - one.potential(flows - step)) / (2 * step)
        np.testing.assert_allclose(rise, one.times(flows).sum(), rtol=1e-8)

    def test_best_puts_everybody_on_cheapest_paths(self):
        assert game().best([[1.0, 3.0, 1.0]]).tolist() == [[3.5, 0.0, 2.0]]
        assert game().best([[1.0, 1.5, 1.0]]).tolist() == [[1.5, 2.0, 0.0]]

    def test_files_of_arrays(self, tmp_path):
        path = tmp_path / "net.npz"
        one = game(tolls=[0, 0.1, 0], positions=np.arange(8.0).reshape(4, 2), first_through=1)
        eq.games.write(one, path)
        assert eq.games.read(path) == one
        with pytest.raises(ValueError, match="found a function"):
            eq.games.write(game(cost=lambda v: v), path)


class TestTNTP:
    def test_reading(self, files):
        found = eq.games.read_tntp(*files, toll_factor=0.1, distance_factor=0.5)
        assert found.tails.tolist() == [1, 3, 1, 2]
        assert found.first_through == 3
        assert found.demand.tolist() == [12.5, 3.0]
        np.testing.assert_allclose(found.tolls, [0.5, 0, 0, 0])
        np.testing.assert_allclose(found.fixed, [1, 1, 4.5, 4.5])
        np.testing.assert_allclose(found.times([10, 0, 0, 30]), [2.15, 2, 8.5, 10.5])

    def test_flows_both_ways(self, files, tmp_path):
        found = eq.games.read_tntp(*files)
        solution = eq.solve(found)
        path = tmp_path / "flow.tntp"
        eq.games.write_flows(path, found, solution.policy)
        again = eq.games.read_flows(path, found)
        assert (again.flows == solution.policy.flows).all()
        assert eq.certify(found, again).relative_gap_upper < 1e-9

    @pytest.mark.parametrize(
        "text",
        [
            "From\tTo\tVolume\tCost\n2 1 3 4\n1 2 1 2\n3 2 5 6\n1 3 7 8\n",
            "~ comment\nTo : From : Volume ;\n1 : 2 : 3 ;\n2:1:1;\n2:3:5;\n3:1:7;\n",
            "2 1 3 4;\n1 2 1 2;\n3 2 5 6;\n1 3 7 8;\n",
        ],
    )
    def test_flow_files_as_they_come(self, files, tmp_path, text):
        path = tmp_path / "flow.tntp"
        path.write_text(text)
        assert eq.games.read_flows(path, eq.games.read_tntp(*files)).flows.tolist() == [7, 5, 1, 3]

    @pytest.mark.parametrize(
        ("net", "rows", "complaint"),
        [
            (NET.replace("LINKS> 4", "LINKS> 5"), ROWS, "the 5 links that the metadata declare"),
            (NET.replace("\t10\t", "\tten\t"), ROWS, "line 8: expected a number, found 'ten'"),
            (NET.replace("\t10\t2\t", "\t"), ROWS, "line 8: expected ten numbers"),
            (
                NET.replace("\t10\t", "\t0\t"),
                ROWS,
                "capacity: expected positive .* 0 on link 0, fr",
            ),
            (NET.replace("0.15", "-0.15"), ROWS, "b: expected finite numbers >= 0, found -0.15"),
            (NET, "2 : 3;", "line 1: expected `Origin 1`"),
            (NET, "Origin 1\n 2 = 3;", "line 2: expected `Origin 1`"),
            (NET, "Origin 1\n 2 : x;", "line 2: expected a number"),
            (NET, "", "expected trips, found none"),
            (NET, "Origin 3\n 1 : 1; 2 : 1;", "none from 3 to 1"),
            ("", ROWS, "expected links, found none"),
        ],
    )
    def test_broken_files(self, files, net, rows, complaint):
        files[0].write_text(net)
        files[1].write_text(rows)
        with pytest.raises(ValueError, match=complaint):
            eq.games.read_tntp(*files)

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("1 3 1\n3 2 1\n1 2 1\n1 1 1\n", "the links of the game, found one from 1 to 1"),
            ("From To\n1 3\n", "expected a column flow"),
            ("1 3 x\n", "line 1: expected a number"),
            ("", "expected a table of links, found nothing"),
            ("From To Volume\n", "expected a table of links, found a header only"),
        ],
    )
    def test_broken_flows(self, files, tmp_path, text, complaint):
        path = tmp_path / "flow.tntp"
        path.write_text(text)
        with pytest.raises(ValueError, match=complaint):
            eq.games.read_flows(path, eq.games.read_tntp(*files))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"tails": [1, 1]}, r"heads: expected shape \(2,\)"),
        ({"tails": [1, -1, 2]}, "tails: expected nodes from 0 to 2.31 - 2, found -1"),
        ({"tails": [1.5, 1, 2]}, "tails: expected whole numbers"),
        ({"tails": [], "heads": []}, "tails: expected"),
        ({"demand": [1.0, -1.0]}, "demand: expected finite numbers >= 0, found -1 from 1 to 3"),
        ({"demand": [1.0, np.nan]}, "demand: expected finite numbers >= 0, found nan"),
        ({"demand": [0.0, 0.0]}, "demand: expected at least one positive demand"),
        ({"destinations": [2, 1]}, None),
        ({"origins": [3, 1]}, "a path for every pair with demand, found none from 3 to 2"),
        ({"capacity": [0.0, 1, 1]}, "capacity: expected .* found 0 on link 0, from 1 to 2"),
        ({"capacity": [0.0, 1, 1], "b": [0, 1, 1]}, None),
        ({"free_flow": [1, -1, 1]}, "free_flow: expected finite numbers >= 0, found -1 on link 1"),
        ({"fixed": [1, np.inf, 1]}, "fixed: expected finite numbers >= 0, found inf on link 1"),
        ({"tolls": [0, 0, -2]}, "tolls: expected costs of empty links .* found -1 on link 2"),
        ({"tolls": [0, 0, -1]}, None),
        ({"tolls": [0, 1]}, r"tolls: expected shape \(3,\)"),
        ({"values_of_time": [0.0]}, "values_of_time: expected positive numbers"),
        (
            {"classes": [0, 5]},
            "classes: expected whole numbers from 0, fewer than pairs .* found 5",
        ),
        (
            {"classes": [0, -1]},
            "classes: expected whole numbers from 0, fewer than pairs .* found -1",
        ),
        ({"classes": [2, 2], "values_of_time": [1.0, 2.0, 3.0]}, None),
        (
            {"classes": [0, 1], "values_of_time": [1.0]},
            "values_of_time: expected one for each of 2",
        ),
        ({"positions": [[0, 0]]}, r"positions: expected shape \(4, 2\)"),
        ({"atomic": True}, "demand: expected whole numbers of drivers, found 1.5 from 1 to 2"),
        ({"origins": None}, "demand: expected a square matrix"),
        ({"labels": {"players": ["a"]}}, "labels.players: expected 2 names"),
    ],
)
def test_wrong_networks_are_named(changes, complaint):
    if complaint is None:
        game(**changes)
    else:
        with pytest.raises(ValueError, match=complaint):
            game(**changes)
