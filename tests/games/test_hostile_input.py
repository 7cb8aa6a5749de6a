"""Files and parameters made to break their reader: refused by name, and without the memory."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

import equipoise as eq
from equipoise.core.checks import check_memory
from equipoise.games import load, read

MILLION = 1_000_000


def archive(path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("g.toml", "a = " + "[" * 3000 + "]" * 3000),
            ("g.toml", 'kind = "two-roads"\nagents = ' + "9" * 400),
            ("g.toml", 'kind = "big-match"\ndiscount = "0.9"'),
            ("g.toml", 'kind = "two-roads"\nkind = "two-roads"'),
            ("g.toml", 'kind = "two-roads"\njam = true'),
            ("g.toml", 'kind = "two-roads"\nlabels = 3'),
            ("g.toml", 'kind = "two-roads"\nlabels.actions = [["a"]]'),
            ("g.toml", "kind = 1979-05-27"),
            ("g.toml", ".".join("a" * 40_000) + " = 1"),
            ("g.csv", "1," + "9" * 4001),
            ("g.csv", '"' + "a" * 200_000),
            ("g.csv", "\\,a\n"),
            ("g.csv", "\\,a,b\nx,1\n"),
            ("g.csv", "\\,a,\nx,1,2\n"),
            ("g.nfg", 'NFG 1 R "t" { "A" } { 2 } 1 ' + "9" * 400),
            (
                "g.nfg",
                'NFG 1 R "t" {' + ' "p"' * 26 + " } {" + " 2" * 26 + ' } { { "o"' + " 1" * 26,
            ),
        ],
    )
    def test_text(self, name, content, tmp_path):
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(ValueError, match="expected") as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: ")

    @pytest.mark.parametrize(
        "header",
        [
            "{ ",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (True, 2), }",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 10000000000), }",
            "{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), }",
        ],
    )
    def test_headers_of_arrays(self, header, tmp_path):
        archive(tmp_path / "g.npz", payoff=npy(header, bytes(16)))
        with pytest.raises(ValueError, match=r"g\.npz: expected an \.npz file of arrays"):
            read(tmp_path / "g.npz")

    @pytest.mark.parametrize("agents", [1e9, -1.0, 0.5, np.nan])
    def test_a_number_of_agents_that_the_file_does_not_hold(self, agents, tmp_path):
        arrays = {"scopes_1": np.array([[0]]), "tables_1": np.zeros((1, 1, 2))}
        np.savez(tmp_path / "g.npz", agents=np.array(agents), **arrays)
        with pytest.raises(ValueError, match=r"g\.npz: agents: expected"):
            read(tmp_path / "g.npz")

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("g.csv", "1,\n" * 10_000),
            ("g.csv", "0," * 20_000 + "0"),
            ("g.nfg", 'NFG 1 R "t" { "A" "B" } { 100 100 }' + " 1" * 20_000),
            (
                "g.nfg",
                'NFG 1 R "t" {' + ' "p"' * 31 + "} {" + " 1" * 30 + " 9999} { }" + " 0" * 9999,
            ),
            ("g.toml", ".".join("a" * 30_000) + " = 1"),
        ],
        ids=["short rows", "one row", "payoffs", "outcomes", "tables"],
    )
    def test_memory_is_bounded_by_the_length_of_the_file(self, name, content, tmp_path):
        path = tmp_path / name
        path.write_text(content)
        tracemalloc.start()
        try:
            read(path)
        except ValueError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak <= 64 * len(content) + 64 * MILLION


class TestSizes:
    @pytest.mark.parametrize(
        ("name", "parameter", "value"),
        [
            ("hide-and-seek", "size", 100_000),
            ("morra", "fingers", 3000),
            ("two-roads", "agents", 1e19),
            ("demand-response", "horizon", 1e308),
            ("stamina-continuous", "horizon", 1e308),
            ("pairwise-continuous", "agents", 1e19),
            ("square-continuous", "agents", 10**300),
            ("el-farol", "types", 1e13),
            ("parallel-roads", "roads", 1e8),
            ("cournot", "levels", 1e13),
            ("colonel-blotto", "fields", 1e6),
            ("soccer", "rows", 1e6),
            ("constant", "rows", 1e15),
            ("travellers-dilemma", "high", 1e12),
            ("inspection", "periods", 1e9),
            ("mendelsohn", "numbers", 10**300),
            ("silverman", "largest", 1e9),
        ],
    )
    def test_a_game_that_is_too_large_is_refused_by_name(self, name, parameter, value):
        with pytest.raises(ValueError, match=rf"^{parameter}: expected .* found .*;"):
            load(name, **{parameter: value})

    @pytest.mark.parametrize("name", eq.games.names())
    def test_no_number_is_too_large_to_be_refused(self, name):
        """Every number of every game: a size that no memory holds, or a value out of range."""
        for parameter, default in eq.games.describe(name).parameters.items():
            if isinstance(default, int) and not isinstance(default, bool) and parameter != "bonus":
                with pytest.raises(ValueError, match="expected"):
                    load(name, **{parameter: 10**18})

    @pytest.mark.parametrize("name", eq.games.names())
    def test_parameters_of_another_type_are_refused_by_name(self, name):
        for parameter, default in eq.games.describe(name).parameters.items():
            for wrong in (None, "much", [], {}, 10**400, True):
                if type(wrong) is not type(default):
                    with pytest.raises(ValueError, match=f"^{parameter}: expected"):
                        load(name, **{parameter: wrong})

    def test_families(self):
        families = eq.games.families
        with pytest.raises(ValueError, match=r"games: expected .* memory, found .*; draw fewer"):
            families.uniform(actions=MILLION).sample(100, key=0)
        with pytest.raises(ValueError, match=r"agents: expected .* memory"):
            families.polymatrix(agents=MILLION).sample(key=0)
        with pytest.raises(ValueError, match="rank: expected at most 30"):
            families.interaction_rank(agents=MILLION, rank=1000)

    def test_the_estimate_is_told(self):
        check_memory("size", (8, 10), "the table", "reduce size")
        with pytest.raises(ValueError, match="found inf bytes for the table; reduce size"):
            check_memory("size", (8, 10**400), "the table", "reduce size")


def test_an_archive_in_memory_is_what_the_tests_think(tmp_path):
    """The header that these tests write is NumPy's."""
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }"
    assert np.load(io.BytesIO(npy(header, bytes(16)))).shape == (1, 2)
    archive(tmp_path / "g.npz", payoff=npy(header, bytes(16)))
    assert read(tmp_path / "g.npz").actions == (1, 2)


def owners():
    """Read-only arrays of memory that somebody else can write to, and what writes to it."""
    numbers = np.array([[1.0, 2.0], [3.0, 4.0]])
    owned = bytearray(numbers.tobytes())
    yield np.frombuffer(memoryview(owned).toreadonly()).reshape(2, 2), owned
    base = np.array(numbers)
    yield memoryview(base), memoryview(base).cast("B")
    view = np.frombuffer(second := bytearray(numbers.tobytes())).reshape(2, 2)
    view.setflags(write=False)
    yield view, second


@pytest.mark.parametrize("number", range(3))
def test_nobody_changes_a_game_through_the_memory_it_was_made_of(number):
    given, owned = list(owners())[number]
    game = eq.MatrixGame(given)
    owned[:8] = np.float64(9.0).tobytes()
    assert game.payoff[0, 0] == 1.0


def test_nobody_changes_a_game_through_a_file_in_memory(tmp_path):
    np.save(tmp_path / "payoff.npy", np.ones((2, 2)))
    game = eq.MatrixGame(np.load(tmp_path / "payoff.npy", mmap_mode="r"))
    writable = np.load(tmp_path / "payoff.npy", mmap_mode="r+")
    writable[0, 0] = 9.0
    writable.flush()
    assert game.payoff[0, 0] == 1.0


@pytest.mark.parametrize("number", [np.inf, np.nan, 0.5, -1.0])
def test_whole_numbers_of_a_network_file(tmp_path, number):
    game = load("braess-network")
    eq.games.write(game, tmp_path / "sound.npz")
    with np.load(tmp_path / "sound.npz") as arrays:
        np.savez(tmp_path / "game.npz", **{**arrays, "first_through": np.array(number)})
    with pytest.raises(ValueError, match=r"game\.npz: first_through: expected a whole number"):
        read(tmp_path / "game.npz")
