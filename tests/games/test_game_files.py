"""Reading and writing games: formats by suffix, exact round trips, refusals, atomic writes."""

import io
import random
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest

from equipoise.games import MarkovGame, MatrixGame, NormalFormGame, read, write


def markov_game(batch: tuple[int, ...] = ()) -> MarkovGame:
    rng = np.random.default_rng(0)
    reward = rng.normal(size=(*batch, 3, 2, 4))
    transition = rng.dirichlet(np.ones(3), size=reward.shape)
    return MarkovGame(reward, transition, 0.95)


class TestNpz:
    @pytest.mark.parametrize("shape", [(2, 3), (7, 2, 3), (2, 3, 4, 5)])
    def test_matrix_games_and_batches(self, shape, tmp_path):
        game = MatrixGame(np.random.default_rng(1).normal(size=shape))
        write(game, tmp_path / "g.npz")
        back = read(tmp_path / "g.npz")
        assert isinstance(back, MatrixGame)
        np.testing.assert_array_equal(back.payoff, game.payoff)

    @pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
    def test_markov_games_and_batches(self, batch, tmp_path):
        game = markov_game(batch)
        write(game, tmp_path / "g.npz")
        back = read(tmp_path / "g.npz")
        assert isinstance(back, MarkovGame)
        assert back.discount == 0.95
        np.testing.assert_array_equal(back.reward, game.reward)
        np.testing.assert_array_equal(back.transition, game.transition)

    def test_a_horizon_comes_back(self, tmp_path):
        endless = markov_game()
        for horizon in (1, 7):
            game = MarkovGame(endless.reward, endless.transition, 0.95, horizon=horizon)
            write(game, tmp_path / "g.npz")
            back = read(tmp_path / "g.npz")
            assert isinstance(back, MarkovGame)
            assert back.horizon == horizon

    def test_a_zero_sum_normal_form_stays_a_normal_form(self, tmp_path):
        game = NormalFormGame([[[1, -1]], [[-1, 1]]])
        write(game, tmp_path / "g.npz")
        assert isinstance(read(tmp_path / "g.npz"), NormalFormGame)

    def test_jax_arrays_are_written(self, tmp_path):
        write(MatrixGame(jnp.array([[0.5, 1.0]])), tmp_path / "g.npz")
        assert read(tmp_path / "g.npz").payoff.tolist() == [[0.5, 1.0]]

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"matrix": np.ones((2, 2))}, r"expected arrays named payoff, .* found \['matrix'\]"),
            ({"payoff": np.ones((2, 2)), "x": np.ones(1)}, r"found \['payoff', 'x'\]"),
            ({"reward": np.ones((1, 2, 2))}, r"found \['reward'\]"),
            ({"payoff": np.ones(2)}, "payoff: expected at least 2 axes"),
            ({"payoff": np.array([[1.0, np.nan]])}, r"found nan at \[0, 1\]"),
            ({"payoff": np.array([["a", "b"]])}, "expected real numbers"),
            ({"payoffs": np.ones((3, 2, 2))}, "one axis per player"),
        ],
    )
    def test_archives_without_a_game(self, arrays, message, tmp_path):
        np.savez(tmp_path / "g.npz", **arrays)
        with pytest.raises(ValueError, match=message) as caught:
            read(tmp_path / "g.npz")
        assert "g.npz" in str(caught.value)

    @pytest.mark.parametrize(
        "discount",
        [np.ones(2), np.array("a"), np.array(1.0), np.nextafter(1.0, 0.0), np.array(True)],
    )
    def test_discounts_that_are_not_a_number_below_one(self, discount, tmp_path):
        game = markov_game()
        arrays = {"reward": game.reward, "transition": game.transition, "discount": discount}
        np.savez(tmp_path / "g.npz", **arrays)
        with pytest.raises(ValueError, match="discount: expected"):
            read(tmp_path / "g.npz")

    def test_pickled_objects_are_never_loaded(self, tmp_path):
        np.savez(tmp_path / "g.npz", payoff=np.array([[{}, 1]], dtype=object))
        with pytest.raises(ValueError, match="not of numbers or text"):
            read(tmp_path / "g.npz")

    def test_a_header_that_promises_too_much_costs_no_memory(self, tmp_path):
        stream = io.BytesIO()
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**7, 10**7)}
        np.lib.format.write_array_header_1_0(stream, header)
        with zipfile.ZipFile(tmp_path / "g.npz", "w") as archive:
            archive.writestr("payoff.npy", stream.getvalue() + b"\0" * 64)
        with pytest.raises(ValueError, match="64 bytes for an array of float64"):
            read(tmp_path / "g.npz")

    def test_damaged_archives_give_a_game_or_a_value_error(self, tmp_path):
        write(markov_game(), tmp_path / "g.npz")
        data = (tmp_path / "g.npz").read_bytes()
        rng = random.Random(0)
        refused = 0
        for _ in range(500):
            at, length = rng.randrange(len(data)), rng.randrange(1, 30)
            junk = bytes(rng.randrange(256) for _ in range(length))
            damaged = rng.choice([data[:at], data[:at] + junk + data[at + length :], data[at:]])
            (tmp_path / "d.npz").write_bytes(damaged)
            try:
                read(tmp_path / "d.npz")
            except ValueError:
                refused += 1
        assert refused > 300


class TestCsv:
    def test_round_trip_is_exact(self, tmp_path):
        payoff = np.random.default_rng(2).normal(size=(4, 3)) * 1e-5
        write(MatrixGame(payoff), tmp_path / "g.csv")
        np.testing.assert_array_equal(read(tmp_path / "g.csv").payoff, payoff)

    def test_comments_blank_lines_spaces_fractions(self, tmp_path):
        (tmp_path / "g.csv").write_bytes(b"\xef\xbb\xbf# costs\r\n\r\n 1/4 , -2e1\r\n3,.5\r\n")
        assert read(tmp_path / "g.csv").payoff.tolist() == [[0.25, -20.0], [3.0, 0.5]]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "expected rows of comma-separated numbers, found none"),
            ("# nothing\n", "found none"),
            ("1,2\n3\n", "line 2: expected 2 numbers, as in the first row, found 1"),
            ("1,2\n3,x\n", "line 2, value 2: expected a number, found 'x'"),
            ("1,2\n3,\n", "line 2, value 2: expected a number, found ''"),
            ("left,right\n1,2\n", "line 1, value 1: expected a number, found 'left'"),
            ("1,nan\n", "found 'nan'"),
            ("1,1e999\n", "that a float can hold, found '1e999'"),
            ("1,1/0\n", "non-zero denominator"),
            ("1;2\n", "found '1;2'"),
        ],
    )
    def test_errors_say_where(self, text, message, tmp_path):
        (tmp_path / "g.csv").write_text(text)
        with pytest.raises(ValueError, match="expected") as caught:
            read(tmp_path / "g.csv")
        assert message in str(caught.value)


class TestPaths:
    @pytest.mark.parametrize("name", ["game", "game.txt", "game.pkl"])
    def test_unknown_suffixes_are_refused(self, name, tmp_path):
        with pytest.raises(ValueError, match=r"path: expected a name that ends in \.nfg, \.npz"):
            read(tmp_path / name)
        with pytest.raises(ValueError, match="path: expected a name"):
            write(MatrixGame([[1.0]]), tmp_path / name)

    @pytest.mark.parametrize("suffix", ["nfg", "npz", "csv"])
    def test_a_missing_file_is_missing(self, suffix, tmp_path):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / f"none.{suffix}")

    def test_strings_do(self, tmp_path):
        write(MatrixGame([[1.0]]), str(tmp_path / "g.csv"))
        assert read(str(tmp_path / "g.csv")).actions == (1, 1)

    @pytest.mark.parametrize(
        ("game", "suffix", "message"),
        [
            (markov_game(), "nfg", "expected a MatrixGame or NormalFormGame for .nfg"),
            (markov_game(), "csv", "expected a MatrixGame for .csv, found MarkovGame"),
            (NormalFormGame([[[1]], [[1]]]), "csv", "found NormalFormGame"),
            (MatrixGame([[[1.0]]]), "nfg", "a .nfg file holds one; found a batch of shape (1,)"),
            (MatrixGame([[[1.0]]]), "csv", "use .npz for batches"),
        ],
    )
    def test_formats_refuse_what_they_cannot_hold(self, game, suffix, message, tmp_path):
        with pytest.raises(ValueError, match="game: expected") as caught:
            write(game, tmp_path / f"g.{suffix}")
        assert message in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    def test_a_failed_write_keeps_the_old_file(self, tmp_path, monkeypatch):
        write(MatrixGame([[1.0]]), tmp_path / "g.npz")

        def broken(*args, **kwargs):
            raise OSError("disk full")

        monkeypatch.setattr(np.lib.format, "write_array", broken)
        with pytest.raises(OSError, match="disk full"):
            write(MatrixGame([[2.0]]), tmp_path / "g.npz")
        assert read(tmp_path / "g.npz").payoff.tolist() == [[1.0]]
        assert [path.name for path in tmp_path.iterdir()] == ["g.npz"]
