"""`read` knows every kind of file by its suffix and content, and returns what `save` was given."""

from inspect import unwrap  # a call without the type checks of the tests
from pathlib import Path

import numpy as np
import pytest
from support import refuses

import equipoise as eq
from equipoise.core import InputError


def a_log() -> eq.Log:
    game = eq.games.families.polymatrix(agents=3, actions=2).sample(key=0)
    return eq.offline.collect(game, "uniform", samples=50, key=1)


SAVED = {
    "matrix.csv": lambda: eq.MatrixGame([[1, -1], [0.5, 0]]),
    "labels.csv": lambda: eq.MatrixGame(
        [[1, -1]], labels={"players": ["Rose", "Colin"], "actions": [["up"], ["left", "right"]]}
    ),
    "matrix.json": lambda: eq.MatrixGame([[1, -1], [0.5, 0]], labels={"players": ["a", "b"]}),
    "polynomial.json": lambda: eq.games.load("square-continuous"),
    "roads.json": lambda: eq.games.load("braess-network"),
    "three.json": lambda: eq.games.load("three-player-pennies"),
    "commas.csv": lambda: eq.MatrixGame(
        [[1, -1]], labels={"players": ["x,y", "z"], "actions": [["up"], ["left", "right"]]}
    ),
    "bimatrix.nfg": lambda: eq.games.load("chicken"),
    "batch.npz": lambda: eq.games.families.uniform(3).sample(4, key=0),
    "markov.npz": lambda: eq.games.families.uniform(2, states=3).sample(key=0),
    "network.npz": lambda: eq.games.load("braess-network"),
    "profile.json": lambda: eq.Profile([[0.5, 0.5], [0.25, 0.75]]),
    "profile.npz": lambda: eq.Profile([[0.5, 0.5], [0.25, 0.75]]),
    "joint.npz": lambda: eq.JointPolicy([[0.0, 0.5], [0.5, 0.0]]),
    "flows.json": lambda: eq.solve(eq.games.load("braess-network")).policy,
    "solution.json": lambda: eq.solve(eq.games.load("chicken")),
    "crowd.json": lambda: eq.solve(eq.games.load("two-roads")),
}


@pytest.mark.parametrize("name", SAVED)
def test_what_is_saved_is_read(name, tmp_path):
    value = SAVED[name]()
    eq.save(value, tmp_path / name)
    again = eq.read(tmp_path / name)
    assert type(again) is type(value)
    assert again == value


def test_infinite_bounds_come_back(tmp_path):
    unbounded = eq.ContinuousGame.from_function(lambda a: -((a - a[::-1] / 2) ** 2), 2)
    solution = eq.solve(unbounded)
    assert np.isinf(solution.upper)
    eq.save(solution, tmp_path / "solution.json")
    assert eq.read(tmp_path / "solution.json") == solution


@pytest.mark.parametrize("name", ["log.npz", "log.parquet"])
def test_logs_are_saved_and_read(name, tmp_path):
    log = a_log()
    eq.save(log, tmp_path / name)
    again = eq.read(tmp_path / name)
    assert again.fingerprint() == log.fingerprint()


def test_a_table_of_words_is_a_log_and_two_tables_are_roads(tmp_path):
    sales, links, trips = (tmp_path / name for name in ("sales.csv", "links.csv", "trips.csv"))
    sales.write_text("week,shop,price,profit\n1,Ada,low,2\n1,Bo,high,3\n2,Ada,low,1\n2,Bo,low,4\n")
    columns = {"agent": "shop", "time": "week", "action": "price", "reward": "profit"}
    assert eq.read(sales, **columns).labels.players == ("Ada", "Bo")
    links.write_text("from,to,free_flow,capacity\na,b,1,10\n")
    trips.write_text("origin,destination,demand\na,b,5\n")
    assert eq.read(links, trips).kind == "network"
    wide = tmp_path / "wide.csv"
    wide.write_text("action_Ada,reward_Ada,action_Bo,reward_Bo\n0,1.5,1,2\n1,0.5,0,3\n")
    assert eq.read(wide).agents == 2


def test_the_numbers_of_a_log_are_never_taken_for_payoffs(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("time,agent,action,reward\n0,0,1,0.5\n0,1,0,0.25\n")
    with pytest.raises(InputError, match="name the columns of a long table"):
        eq.read(path)


def test_the_folder_of_a_run_gives_its_result(tmp_path):
    log = a_log()
    advice = eq.advise(log, run=tmp_path / "run")
    again = eq.read(tmp_path / "run")
    np.testing.assert_array_equal(again.policy.policies[0], advice.policy.policies[0])
    assert again.status == advice.status


REFUSED = {
    "three files": (lambda place: eq.read(place / "a.csv", "b", "c"), "path"),
    "an unknown suffix": (lambda place: eq.read(place / "a.xlsx"), "path"),
    "a second file beside JSON": (lambda place: eq.read(place / "a.json", "b.csv"), "path"),
    "an option of logs with a game": (lambda place: eq.read(place / "a.nfg", agent="x"), "agent"),
    "a folder without a run": (lambda place: eq.read(place), "path"),
    "the path first": (lambda place: unwrap(eq.save)("a.json", eq.Profile([[1.0]])), "path"),
    "a value that is none of ours": (lambda place: eq.save(3, place / "a.json"), "value"),
    "a game of functions as JSON": (
        lambda place: eq.save(eq.games.load("two-roads"), place / "a.json"),
        "AggregativeGame.reward",
    ),
    "a matrix with players' names alone as .csv": (
        lambda place: eq.save(
            eq.MatrixGame([[1, 2]], labels={"players": ["a", "b"]}), place / "a.csv"
        ),
        "game",
    ),
    "a solution as arrays": (
        lambda place: eq.save(eq.solve(eq.MatrixGame([[1.0]])), place / "a.npz"),
        "path",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case, tmp_path):
    call, argument = REFUSED[case]
    refuses(lambda: call(tmp_path), argument)
    assert list(tmp_path.iterdir()) == []


SOLUTION_WITHOUT_CERTIFICATE = (
    '{"version": 1, "policy": null, "value": 0, "tolerance": 1, "status": {}, "certificate": '
)
DAMAGED = {
    "a kind that is a list": '{"kind": ["matrix"], "payoff": [[1]]}',
    "a certificate that is null": SOLUTION_WITHOUT_CERTIFICATE + "null}",
    "a certificate whose kind is a list": SOLUTION_WITHOUT_CERTIFICATE + '{"kind": ["table"]}}',
    "a solution": '{"certificate": {}, "status": {}, "version": 1}',
    "a game without payoffs": '{"kind": "matrix"}',
    "a game with more": '{"kind": "matrix", "payoff": [[1]], "more": 1}',
    "a game of words": '{"kind": "normal-form", "payoffs": "pickle"}',
    "a game of another shape": '{"kind": "markov", "reward": [1], "transition": [], "discount": 1}',
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_named(case, tmp_path):
    path = tmp_path / "damaged.json"
    path.write_text(DAMAGED[case])
    with pytest.raises(ValueError, match=r"damaged\.json: .*expected"):
        eq.read(path)


def test_a_name_of_version_0_2_says_the_present_one():
    with pytest.raises(AttributeError, match=r"equipoise\.offline\.learn is now equipoise\.advise"):
        getattr(eq.offline, "learn")  # noqa: B009


def test_columns_are_read_by_the_call_that_advises(tmp_path):
    path = tmp_path / "sales.csv"
    rows = [f"{t},{shop},{'low' if (t + k) % 3 else 'high'},{t % 5 + k}" for t in range(60)
            for k, shop in enumerate(("Ada", "Bo"))]  # fmt: skip
    path.write_text("\n".join(["week,shop,price,profit", *rows]) + "\n")
    columns = {"agent": "shop", "time": "week", "action": "price", "reward": "profit"}
    direct = eq.advise(path, **columns)
    read = eq.advise(eq.Log.read(path, **columns))
    assert direct.status == read.status
    refuses(lambda: eq.advise(path, agnt="shop"), "advise")
    refuses(lambda: eq.advise(eq.Log.read(path, **columns), agent="shop"), "agent")
    with pytest.raises(InputError, match=r"type advise\('.*sales\.csv', agent="):
        eq.advise(path)


def test_the_names_of_the_folder_are_never_run(tmp_path: Path):
    """A file with a hostile name is a path, and nothing more."""
    path = tmp_path / "mine.py:game.json"
    eq.save(eq.Profile([[1.0], [1.0]]), path)
    assert len(eq.read(path)) == 2
