"""Tables of links and trips whose columns are called as in other software, misspelt or missing."""

import re
from pathlib import Path

import numpy as np
import pytest

import equipoise as eq
from equipoise.games._road_columns import LINK_COLUMNS, TRIP_COLUMNS

TRIPS = {"origin": [1], "destination": [2], "demand": [3000.0]}
COSTS = {
    "free_flow": [10.0, 12.0],
    "capacity": [2000.0, 1500.0],
    "b": [0.15, 0.3],
    "power": [4.0, 3.0],
}
LINKS = {"tail": [1, 1], "head": [2, 2], **COSTS}
EXPECTED = eq.NetworkGame([1, 1], [2, 2], [1], [2], [3000.0], **COSTS)
#: (our column, spelling, what the library must say: nothing, if it reads the table).
SPELLINGS = [
    ("tail", "init_node", ""),
    ("tail", "From", ""),
    ("tail", "A_NODE", ""),
    ("tail", "from_node_id", ""),
    ("tail", "u", ""),
    ("head", "term_node", ""),
    ("head", "To Node", ""),
    ("head", "edge_to", ""),
    ("head", "v", ""),
    ("head", "haed", "expected a column head"),
    ("free_flow", "freeflow", ""),
    ("free_flow", "Free Flow Time", ""),
    ("free_flow", "free flow time (min)", ""),
    ("free_flow", "fft", ""),
    ("free_flow", "fft_min", ""),
    ("free_flow", "FreeFlowTime [s]", ""),
    ("free_flow", "travel_time", ""),
    ("free_flow", "t0", ""),
    ("free_flow", "fre_flow", "did you mean free_flow"),
    ("free_flow", "free flow time (min/km)", "a time"),
    ("free_flow", "free_flow_speed", "expected a column free_flow"),
    ("free_flow", "cost", "found 'cost'"),
    ("capacity", "Capacity", ""),
    ("capacity", "capacity (veh/h)", ""),
    ("capacity", "capacity_vph", ""),
    ("capacity", "cap", ""),
    ("capacity", "Capacity [pcu/hour]", ""),
    ("capacity", "capactiy", "did you mean capacity"),
    ("capacity", "capacity (veh/h/lane)", "a flow"),
    ("capacity", "capacity_ab", "did you mean capacity"),
    ("b", "alpha", ""),
    ("b", "B", ""),
    ("b", "BPR alpha", ""),
    ("power", "beta", ""),
    ("power", "vdf_beta", ""),
    ("power", "powr", "did you mean power"),
    ("origin", "o", ""),
    ("origin", "orig", ""),
    ("destination", "d_zone_id", ""),
    ("destination", "destinaton", "expected a column destination"),
    ("demand", "trips", ""),
    ("demand", "Volume (veh/h)", ""),
    ("demand", "Demand [veh/day]", ""),
    ("demand", "trps", "expected a column demand"),
]


def renamed(table, ours, theirs):
    return {theirs if name == ours else name: column for name, column in table.items()}


@pytest.mark.parametrize(("ours", "theirs", "told"), SPELLINGS)
def test_a_spelling_is_read_or_refused(ours, theirs, told):
    tables = renamed(LINKS, ours, theirs), renamed(TRIPS, ours, theirs)
    if told:
        with pytest.raises(ValueError, match=re.escape(told)):
            eq.NetworkGame.from_tables(*tables)
    else:
        assert eq.NetworkGame.from_tables(*tables) == EXPECTED


class TestColumns:
    @pytest.mark.parametrize(
        "more",
        [
            {"link_id": [1, 2], "Name": ["Elm", ""], "geometry": ["LINESTRING", None]},
            {"~": [None] * 2, "length": [1.0, 2.0], "speed": [0, 0], "link_type": [1, 1], ";": ""},
            {"Unnamed: 0": [0, 1], "distance_km": [1, 2], "lanes": [1, 2], "modes": ["c", "ct"]},
            {"osmid": [1, 2], "oneway": [True, False], "highway": ["a", "b"], "Length (m)": [1, 2]},
            {
                "edge_priority": [1, 1],
                "edge_shape": ["", ""],
                "volume": [5, 6],
                "direction": [1] * 2,
            },
            {"from": ["Elm", "Oak"], "to": ["Ash", "Ash"], "time": [10.0, 12.0]},
            {"fft": [10.0, 12.0]},
        ],
    )
    def test_that_change_nothing(self, more):
        assert eq.NetworkGame.from_tables(LINKS | more, TRIPS) == EXPECTED

    @pytest.mark.parametrize(
        ("links", "trips", "told"),
        [
            ({"free_flow": None}, {}, "a column free_flow .* no column of costs"),
            ({"fft": [10.0, 13.0]}, {}, "one column free_flow, found free_flow and fft"),
            ({"time": [14.0, 13.0]}, {}, "one column free_flow, found free_flow and time"),
            ({"direction": [1, 0]}, {}, "one row for each direction"),
            ({"capacity": ["2000", "many"]}, {}, "'capacity', found 'many' in row 2"),
            ({"capacity": [2000, None]}, {}, "'capacity', found 'None' in row 2"),
            (
                {"capacity": None, "capacity (veh/h)": [1, 2]},
                {"demand": None, "trips per day": [3.0]},
                r"trips: expected the unit of 'capacity \(veh/h\)', found 'trips per day'",
            ),
            (
                {"free_flow": None, "free flow (min)": [1, 2], "fixed (s)": [3, 4]},
                {},
                r"the unit of 'free flow \(min\)', found 'fixed \(s\)'",
            ),
        ],
    )
    def test_that_cannot_be_right(self, links, trips, told):
        tables = [
            {name: column for name, column in (table | changes).items() if column is not None}
            for table, changes in ((LINKS, links), (TRIPS, trips))
        ]
        with pytest.raises(ValueError, match=told):
            eq.NetworkGame.from_tables(*tables)

    def test_costs_may_come_from_arguments(self):
        links = {"tail": [1, 1], "head": [2, 2]}
        assert eq.NetworkGame.from_tables(links, TRIPS, **COSTS) == EXPECTED
        with pytest.raises(ValueError, match="found no column of costs"):
            eq.NetworkGame.from_tables(links, TRIPS)

    def test_no_capacity_is_said(self):
        links = {name: LINKS[name] for name in ("tail", "head", "free_flow")}
        with pytest.warns(UserWarning, match="no column capacity"):
            eq.NetworkGame.from_tables(links, TRIPS)
        eq.NetworkGame.from_tables(links, TRIPS, b=0.0)

    def test_all_names_are_in_the_docs(self):
        page = Path(__file__).parents[2] / "docs" / "how-to" / "road-networks.md"
        words = set(re.findall(r"`([a-z0-9_]+)`", page.read_text()))
        for names in (*LINK_COLUMNS.values(), *TRIP_COLUMNS.values()):
            assert set(names) <= words


class TestFiles:
    @pytest.mark.parametrize(
        ("links", "trips"),
        [
            (
                "tail,head,free_flow,capacity,b,power\n1,2,10,2000,0.15,4\n1,2,12,1500,.3,3\n",
                "origin,destination,demand\n1,2,3000\n",
            ),
            (
                "\ufeffsep=;\nFrom;To;Name;Free flow time (min);capacity;alpha;beta\n"
                '1;2;"Elm; St";10,0;2.000;0,15;4\n'
                "1;2;;12,0;1.500;0,3;3\n\n",
                '"SEP=;"\r\no;d;trips\r\n1;2;3.000,0\r\n',
            ),
            (
                "a_node\tb_node\tfft\tcapacity\tb\tpower\n1\t2\t10.0\t2000\t0.15\t4\n"
                "1\t2\t12\t1500\t0.3\t3\n",
                "origin,destination,trips\n1,2,3e3\n",
            ),
        ],
    )
    def test_pairs(self, tmp_path, links, trips):
        paths = tmp_path / "links.csv", tmp_path / "trips.csv"
        for path, text in zip(paths, (links, trips), strict=True):
            path.write_text(text)
        assert eq.NetworkGame.from_tables(*paths) == EXPECTED
        assert eq.games.read(*paths) == EXPECTED

    @pytest.mark.parametrize(
        ("links", "told"),
        [
            (
                "tail,head,free_flow,capactiy\n1,2,3,4\n",
                "links.csv: links: .*mean capacity",
            ),
            ("tail,head,free_flow,capacity\n1,2,,4\n", "'free_flow', found '' in row 1"),
            (
                "tail,head,free_flow,capacity\n1,2,3\n",
                "expected 4 cells, .*, found 3",
            ),
            ("tail;head;free_flow;capacity\n1;2;3;1.500\n", "'1.500' in row 1; write it without"),
            ("tail,head,free_flow,free_flow\n1,2,3,4\n", "found 'free_flow' twice"),
            ("1,2,3,4\n1,2,3,4\n", "found '1' twice|expected a column tail"),
            ("tail,head\n", "expected a header and rows"),
        ],
    )
    def test_refused(self, tmp_path, links, told):
        paths = tmp_path / "links.csv", tmp_path / "trips.csv"
        paths[0].write_text(links)
        paths[1].write_text("origin,destination,demand\n1,2,3\n")
        with pytest.raises(ValueError, match=told):
            eq.games.read(*paths)

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("tail,head,free_flow\n1,2,3\n", "a road network has two files"),
            ("From;To;Time\n1;2;3\n", "a road network has two files"),
            ('"3,3","0,5"\n"5,0","1,1"\n', r"use `NormalFormGame\(A, B\)`"),
            ("1;2\n3;4\n", "separate numbers by commas"),
        ],
    )
    def test_one_file_that_is_no_matrix(self, tmp_path, text, told):
        path = tmp_path / "game.csv"
        path.write_text(text)
        with pytest.raises(ValueError, match=told):
            eq.games.read(path)

    def test_trips_of_another_game(self, tmp_path):
        with pytest.raises(ValueError, match="trips: expected no trips"):
            eq.games.read(tmp_path / "game.nfg", tmp_path / "trips.csv")


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    links = pandas.DataFrame(renamed(LINKS, "free_flow", "Free flow time (min)"))
    links["Name"] = ["Elm", None]
    assert eq.NetworkGame.from_tables(links, pandas.DataFrame(TRIPS)) == EXPECTED
    links["capacity"] = pandas.array([2000, None], dtype="Int64")
    with pytest.raises(ValueError, match="capacity: expected finite numbers >= 0, found nan"):
        eq.NetworkGame.from_tables(links, TRIPS)
    with pytest.raises(ValueError, match=r"links: expected a data frame, .*found list"):
        eq.NetworkGame.from_tables([1, 2], TRIPS)


def test_a_tntp_pair(tmp_path):
    net, trips = tmp_path / "net.tntp", tmp_path / "trips.tntp"
    net.write_text("<END OF METADATA>\n1 2 1 0 1 1 1 0 0 1 ;\n")
    trips.write_text("<END OF METADATA>\nOrigin 1\n 2 : 3;\n")
    game = eq.games.read(net, trips)
    assert game == eq.games.read_tntp(net, trips)
    assert np.array_equal(game.demand, [3.0])
