"""The .nfg reader and writer: every variant, exact round trips, Gambit, OpenSpiel, damage."""

import random
from pathlib import Path

import numpy as np
import pytest
from support import peer

from equipoise.games import MatrixGame, NormalFormGame, load, read, write
from equipoise.games.files._text import parse_nfg

PAYOFF_FORM = 'NFG 1 R "a title" { "Rose" "Colin" } { 2 3 }\n\n1 10 2 20 3 30 4 40 5 50 6 60\n'
NAMED = (
    'NFG 1 D "t" { "Rose" "Colin" }\n{ { "Up" "Down" }\n{ "Left" "Middle" "Right" }\n}\n"why"\n'
    "1 10 2 20 3 30 4 40 5 50 6 60"
)
OUTCOME_FORM = (
    'NFG 1 R "t" { "Rose" "Colin" }\n\n{ { "Up" "Down" }\n{ "Left" "Middle" "Right" }\n}\n""\n\n'
    '{\n{ "" 1, 10 }\n{ "b" 2, 20 }\n{ "c" 3, 30 }\n{ "d" 4 40 }\n{ "e" 5, 50, }\n}\n1 2 3 4 5 0\n'
)
THREE_PLAYERS = 'NFG 1 R "t" { "A" "B" "C" } { 2 2 2 }\n' + " ".join(str(i) for i in range(24))
NUMBERS = 'NFG 1 D "numbers" { "A" "B" } { 2 2 } 1/3 -2/6 .5 -5e-1 +1e2 -100.0, 2.5E+1,-25.'
ESCAPED = r'NFG 1 R "say \"hi\" \\" { "A \" { 3" "" } { 1 1 } "two' + '\nlines" 1 2'
VARIANTS = [PAYOFF_FORM, NAMED, OUTCOME_FORM, THREE_PLAYERS, NUMBERS, ESCAPED]


def parse(text: str) -> MatrixGame | NormalFormGame:
    return parse_nfg(text, "f.nfg")


def random_payoffs(actions: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-12, 12, size=(len(actions), *actions))
    return rng.normal(size=(len(actions), *actions)) * scale


class TestVariants:
    @pytest.mark.parametrize("text", [PAYOFF_FORM, NAMED, PAYOFF_FORM.replace("1 R", "1 D")])
    def test_payoffs_list_the_first_players_strategy_fastest(self, text):
        game = parse(text)
        assert isinstance(game, NormalFormGame)
        assert game.payoffs[0].tolist() == [[1, 3, 5], [2, 4, 6]]
        assert game.payoffs[1].tolist() == [[10, 30, 50], [20, 40, 60]]

    def test_outcome_zero_pays_nobody(self):
        game = parse(OUTCOME_FORM)
        assert game.payoffs[0].tolist() == [[1, 3, 5], [2, 4, 0]]
        assert game.payoffs[1].tolist() == [[10, 30, 50], [20, 40, 0]]

    def test_three_players(self):
        payoffs = parse(THREE_PLAYERS).payoffs
        for a in range(2):
            for b in range(2):
                for c in range(2):
                    profile = a + 2 * b + 4 * c
                    assert payoffs[:, a, b, c].tolist() == [3 * profile + i for i in range(3)]

    def test_numbers_of_every_shape(self):
        game = parse(NUMBERS)
        assert isinstance(game, MatrixGame)  # 1/3 and -2/6 round to the same float
        assert game.payoff.tolist() == [[1 / 3, 100.0], [0.5, 25.0]]

    def test_quotes_and_braces_inside_names(self):
        assert parse(ESCAPED).payoffs.ravel().tolist() == [1, 2]

    def test_exactly_zero_sum_games_become_matrix_games(self):
        text = 'NFG 1 R "t" { "A" "B" } { 1 2 } 0.1 -0.1 %s 0.3'
        assert isinstance(parse(text % "-0.3"), MatrixGame)
        assert isinstance(parse(text % "-0.30000000000000004"), NormalFormGame)

    def test_one_player_and_many(self):
        assert parse('NFG 1 R "t" { "A" } { 3 } 1 2 3').actions == (3,)
        names = " ".join(['"p"'] * 31)
        game = parse(f'NFG 1 R "t" {{ {names} }} {{ {"1 " * 31} }} {"5 " * 31}')
        assert game.players == 31

    def test_latin_names_and_a_byte_order_mark(self, tmp_path):
        path = tmp_path / "game.NFG"
        path.write_bytes(b"\xef\xbb\xbf" + PAYOFF_FORM.replace("Rose", "Ros").encode() + b"\n")
        assert read(path).actions == (2, 3)
        path.write_bytes(PAYOFF_FORM.encode().replace(b"Rose", b"Ros\xe9\xff"))
        assert read(path).actions == (2, 3)

    def test_long_numbers_are_rounded_correctly(self):
        text = 'NFG 1 R "t" { "A" } { 2 } %s %s'
        third = "0." + "3" * 3000
        fraction = "1" + "0" * 1500 + "/3" + "0" * 1500
        assert parse(text % (third, fraction)).payoffs.ravel().tolist() == [1 / 3, 1 / 3]


ERRORS = [
    ("", "line 1, column 1: expected the word NFG, found the end of the file"),
    ("EFG 2 R", "line 1, column 1: expected the word NFG, found 'EFG'"),
    ("NFG 2 R", "line 1, column 5: expected version 1 of the format, found '2'"),
    ("NFG 1 X", "line 1, column 7: expected the letter R or D, found 'X'"),
    ("NFG 1 R title", "expected the title"),
    ('NFG 1 R "open', "line 1, column 9: expected a closing quote for the one that opens here"),
    ('NFG 1 R "t" { }', "expected the names of 1 to 31 players, found 0"),
    ('NFG 1 R "t" { ' + '"p" ' * 32 + "}", "found 32"),
    ('NFG 1 R "t" { "A" B }', "expected a player's name in quotes, or } after the last"),
    ('NFG 1 R "t" { "A" "B" } { 2 0 }', "strategies of player 2, a whole number from 1"),
    ('NFG 1 R "t" { "A" "B" } { 2 -2 }', "found '-2'"),
    ('NFG 1 R "t" { "A" "B" } { 2 2 2 }', "expected } after the strategies of 2 players"),
    ('NFG 1 R "t" { "A" "B" } { 2 }', "number of strategies of player 2"),
    ('NFG 1 R "t" { "A" "B" } { 2 2.5 }', "found '2.5'"),
    ('NFG 1 R "t" { "A" "B" } { { "a" } }', "expected { before the strategies of player 2"),
    ('NFG 1 R "t" { "A" } { { } }', "expected the name of a strategy of player 1"),
    ('NFG 1 R "t" { "A" } { 99999999 } 1', "a whole number from 1 to 1000000"),
    ('NFG 1 R "t" { "A" } { ' + "9" * 5000 + " } 1", "a whole number from 1 to 1000000"),
    ('NFG 1 R "t" { "A" "B" } { 999999 999999 } 1', "at most 100000000 strategy profiles"),
    ('NFG 1 R "t" { "A" "B" } { 9999 9999 } 1 2 3', "found the end of the file after 3"),
    (PAYOFF_FORM + "7", "line 4, column 1: expected the end of the file, found '7'"),
    (PAYOFF_FORM.replace(" 60", ""), "found the end of the file after 11"),
    (PAYOFF_FORM.replace("60", "sixty"), "line 3, column 28: expected 12 payoffs"),
    (PAYOFF_FORM.replace("60", "nan"), "found 'nan' after 11"),
    (PAYOFF_FORM.replace("60", "inf"), "found 'inf' after 11"),
    (PAYOFF_FORM.replace("60", "6_0"), "found '6_0' after 11"),
    (PAYOFF_FORM.replace("60", "1.2.3"), "found '1.2.3' after 11"),
    (PAYOFF_FORM.replace("60", "٣"), "expected 12 payoffs"),
    (PAYOFF_FORM.replace("60", "1/0"), "line 3, column 28: expected a fraction"),
    (PAYOFF_FORM.replace("60", "1.5/2"), "expected a fraction of whole numbers"),
    (PAYOFF_FORM.replace("60", "1e999999999"), "that a float can hold, found '1e999999999'"),
    (PAYOFF_FORM.replace("60", "9" * 400 + "/3"), "that a float can hold"),
    (PAYOFF_FORM.replace("60", "9" * 5000), "a number of at most 4000 characters"),
    (OUTCOME_FORM.replace("5 0\n", "5 6\n"), "the outcome of profile 6 of 6, a whole number"),
    (OUTCOME_FORM.replace("5 0\n", "5 -1\n"), "found '-1'"),
    (OUTCOME_FORM.replace("5 0\n", "5\n"), "the outcome of profile 6 of 6"),
    (OUTCOME_FORM.replace("3, 30", "3"), "expected 2 payoffs of outcome 3, found '}'"),
    (OUTCOME_FORM.replace("3, 30", "3, 30, 3"), "expected } after 2 payoffs of outcome 3"),
    (OUTCOME_FORM.replace('"c"', "c"), "the name of outcome 3 in quotes"),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors_say_where_and_what(text, message):
    with pytest.raises(ValueError, match=r"^f\.nfg: line \d+, column \d+: expected") as caught:
        parse(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


class TestRoundTrip:
    @pytest.mark.parametrize("actions", [(1, 1), (2, 3), (5, 1), (4,), (2, 3, 4), (2, 1, 3, 2)])
    def test_normal_form_games_come_back_exactly(self, actions, tmp_path):
        game = NormalFormGame(random_payoffs(actions, seed=sum(actions)))
        write(game, tmp_path / "g.nfg")
        back = read(tmp_path / "g.nfg")
        assert isinstance(back, NormalFormGame)
        np.testing.assert_array_equal(back.payoffs, game.payoffs)

    def test_matrix_games_come_back_exactly(self, tmp_path):
        payoff = random_payoffs((3, 4), seed=1)[0]
        payoff[0] = [0.0, -0.0, 5e-324, 1.7976931348623157e308]
        write(MatrixGame(payoff), tmp_path / "g.nfg")
        back = read(tmp_path / "g.nfg")
        assert isinstance(back, MatrixGame)
        np.testing.assert_array_equal(back.payoff, payoff)

    def test_titles_are_plain_text(self, tmp_path):
        path = tmp_path / 'a "b" \\ é.nfg'
        write(MatrixGame([[1.0]]), path)
        assert path.read_text().startswith('NFG 1 R "a _b_ _ _" {')


class TestGambit:
    gambit = peer("pygambit")

    @pytest.mark.parametrize("actions", [(2, 3), (3, 1, 2), (2, 2, 2, 3)])
    def test_reads_what_gambit_writes_and_back(self, actions, tmp_path):
        payoffs = np.random.default_rng(3).integers(-99, 99, size=(len(actions), *actions))
        theirs = self.gambit.StrategicGame.from_arrays(*payoffs, title='a "quoted" title')
        path = tmp_path / "g.nfg"
        theirs.to_nfg(str(path))
        assert "{ {" in path.read_text()  # the outcome form, with names
        np.testing.assert_array_equal(read(path).payoffs, payoffs)

        write(NormalFormGame(payoffs), path)
        assert "{ {" not in path.read_text()
        back = self.gambit.read_nfg(str(path)).to_arrays(dtype=float)
        np.testing.assert_array_equal(np.array(back, float), payoffs)

    def test_gambit_reads_our_floats_to_the_last_digit(self, tmp_path):
        payoffs = random_payoffs((4, 5), seed=5)
        write(NormalFormGame(payoffs), tmp_path / "g.nfg")
        back = self.gambit.read_nfg(str(tmp_path / "g.nfg")).to_arrays(dtype=float)
        np.testing.assert_allclose(np.array(back, float), payoffs, rtol=1e-15)

    def test_null_outcomes_and_fractions_of_gambit(self, tmp_path):
        theirs = self.gambit.StrategicGame.from_arrays([[1, 2]], [[3, 4]])
        theirs.make_outcome_null({"1": "1", "2": "2"})
        theirs.set_outcome_payoffs("1", {"1": "1/3", "2": "0.25"})
        theirs.to_nfg(str(tmp_path / "g.nfg"))
        assert read(tmp_path / "g.nfg").payoffs.tolist() == [[[1 / 3, 0]], [[0.25, 0]]]

    def test_reads_the_games_gambit_ships(self):
        folder = Path(self.gambit.__file__).parent
        paths = sorted(folder.rglob("*.nfg"))
        assert len(paths) >= 5
        for path in paths:
            ours = read(path)
            ours = (
                np.stack([ours.payoff, -ours.payoff]) if hasattr(ours, "payoff") else ours.payoffs
            )
            theirs = self.gambit.read_nfg(str(path)).to_arrays(dtype=float)
            np.testing.assert_array_equal(ours, np.array(theirs, float), err_msg=path.name)


class TestOpenSpiel:
    pyspiel = peer("pyspiel")

    def test_reads_two_player_games(self, tmp_path):
        payoffs = random_payoffs((3, 4), seed=2)
        write(NormalFormGame(payoffs), tmp_path / "g.nfg")
        game = self.pyspiel.load_game(f"nfg_game(filename={tmp_path / 'g.nfg'})")
        np.testing.assert_allclose(game.row_utilities(), payoffs[0], rtol=1e-15)
        np.testing.assert_allclose(game.col_utilities(), payoffs[1], rtol=1e-15)

    def test_reads_three_player_games(self, tmp_path):
        payoffs = random_payoffs((2, 3, 4), seed=2)
        write(NormalFormGame(payoffs), tmp_path / "g.nfg")
        game = self.pyspiel.load_game(f"nfg_game(filename={tmp_path / 'g.nfg'})")
        for player in range(3):
            np.testing.assert_allclose(game.player_utilities(player), payoffs[player], rtol=1e-15)


def mutate(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """One random change: flipped, deleted or inserted bytes, a cut, swapped or spliced tokens."""
    kind = rng.randrange(8)
    at = rng.randrange(len(data) + 1)
    to = min(len(data), at + rng.randrange(1, 12))
    if kind == 0:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + data[to:]
    if kind == 2:
        bits = [b"{", b"}", b'"', b"\\", b",", b"/0", b"e9", b"99999999", b"nan", b"-", b"\0", b"."]
        return data[:at] + rng.choice(bits) * rng.choice([1, 1, 1, 50]) + data[at:]
    if kind == 3:
        return data[:at]
    if kind == 4:
        return data[:at] + data[at:to] * rng.randrange(2, 200) + data[to:]
    tokens = data.split(b" ")
    i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    if kind == 5:
        tokens[i], tokens[j] = tokens[j], tokens[i]
    elif kind == 6:
        others = other.split(b" ")
        tokens[i] = rng.choice(others)
    else:
        return data[:at] + other[rng.randrange(len(other)) :]
    return b" ".join(tokens)


def test_damaged_files_give_a_game_or_a_value_error(tmp_path):
    rng = random.Random(20240501)
    sources = [text.encode() for text in VARIANTS]
    path = tmp_path / "damaged.nfg"
    games: list[MatrixGame | NormalFormGame] = []
    messages: list[str] = []
    for _ in range(2_000):
        data = rng.choice(sources)
        for _ in range(rng.choice([1, 1, 2, 4])):
            data = mutate(data, rng.choice(sources), rng)
        path.write_bytes(data)
        try:
            games.append(read(path))
        except ValueError as error:
            messages.append(str(error))
    assert all(" line " in message for message in messages)
    assert len(games) > 100  # some damage only touches names
    assert len(messages) > 1000


@pytest.mark.parametrize(
    "text",
    [
        '"' + "\\" * 1_000_001,
        "1" * 1_000_000 + "x",
        '"' + "\\x" * 500_000,
        "{" * 1_000_000,
        ", " * 1_000_000 + "?",
        'NFG 1 R "t" {' + ' "A"' * 300_000,
        'NFG 1 R "t" { "A" "B" } {' + " 1" * 300_000,
        'NFG 1 R "t" { "A" "B" } { 2 2 } { ' + '{ "" 1 1 }' * 50_000,
    ],
    ids=range(8),
)
def test_long_damaged_texts_are_refused_in_linear_time(text):
    # A second or two each; quadratic time takes hours, and the limit of every test ends it.
    with pytest.raises(ValueError, match="expected"):
        parse(text)


EXAMPLES = Path(__file__).parents[2] / "examples" / "games"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.nfg")), ids=lambda path: path.stem)
def test_the_examples_are_the_games_of_the_catalogue(path):
    ours, named = read(path), load(path.stem)
    assert type(ours) is type(named)
    if isinstance(ours, MatrixGame):
        scale = 100 if path.stem == "penalty-kicks" else 1  # in percent
        np.testing.assert_allclose(ours.payoff, scale * named.payoff, rtol=1e-15)
    else:
        np.testing.assert_array_equal(ours.payoffs, named.payoffs)


def test_there_are_examples():
    assert len(list(EXAMPLES.glob("*.nfg"))) >= 4
