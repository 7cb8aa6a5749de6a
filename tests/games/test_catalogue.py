"""The catalogue: every stated value and equilibrium holds, sources, parameters, light imports."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.optimize import linprog
from support import peer

from equipoise.games import (
    AggregativeGame,
    AggregativeMarkovGame,
    ContinuousGame,
    MarkovGame,
    MatrixGame,
    NetworkGame,
    NormalFormGame,
    OracleGame,
    describe,
    load,
    names,
)

ENTRIES = [describe(name) for name in names()]
MATRIX = [entry.name for entry in ENTRIES if entry.kind == "matrix"]
NORMAL = [entry.name for entry in ENTRIES if entry.kind == "normal-form"]
MARKOV = [entry.name for entry in ENTRIES if entry.kind == "markov"]


def lp_value(payoff: np.ndarray) -> float:
    """The value of a matrix game: the row player's linear program, written out here."""
    rows, columns = payoff.shape
    result = linprog(
        c=[*np.zeros(rows), -1.0],
        A_ub=np.hstack([-payoff.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=[[*np.ones(rows), 0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
        method="highs",
    )
    return -result.fun


def shapley_value(game: MarkovGame, sweeps: int = 400) -> np.ndarray:
    """The value of a Markov game by Shapley's iteration with the program above."""
    value = np.zeros(game.states)
    for _ in range(sweeps):
        stage = game.reward + game.discount * game.transition @ value
        new = np.array([lp_value(stage[state]) for state in range(game.states)])
        if np.abs(new - value).max() < 1e-11:
            break
        value = new
    return value


def gains(payoffs: np.ndarray, strategies: list[np.ndarray]) -> list[float]:
    """What each player of a normal-form game could gain by deviating."""
    found = []
    for player in range(len(strategies)):
        table = payoffs[player]
        for other in reversed(range(len(strategies))):
            if other != player:
                table = np.tensordot(table, strategies[other], axes=(other, 0))
        found.append(table.max() - table @ strategies[player])
    return found


def floats(strategy: tuple) -> np.ndarray:
    return np.array([float(p) for p in strategy])


def test_there_are_many_games():
    assert len(names()) >= 54
    assert len(MATRIX) >= 20
    assert len(MARKOV) >= 5


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_entry_is_complete(entry):
    game = load(entry.name)
    kinds = {
        "matrix": MatrixGame,
        "normal-form": NormalFormGame,
        "markov": MarkovGame,
        "aggregative": AggregativeGame,
        "aggregative-markov": AggregativeMarkovGame,
        "continuous": ContinuousGame,
        "network": NetworkGame,
        "oracle": OracleGame,
    }
    assert type(game) is kinds[entry.kind]
    assert game.batch_shape == ()
    assert entry.title
    assert entry.source
    assert entry.name == entry.name.lower()
    for text in (entry.title, entry.source, entry.notes):
        assert "  " not in text
    if entry.kind == "matrix":
        assert isinstance(entry.value, Fraction)
    for parameter in entry.parameters:
        assert parameter.isidentifier()
    assert set(entry.ranges) <= set(entry.parameters)
    assert bool(entry.game) != bool(entry.build)


@pytest.mark.parametrize("name", MATRIX)
def test_values_of_matrix_games_are_those_of_a_linear_program(name):
    value = describe(name).value
    assert lp_value(load(name).payoff) == pytest.approx(float(value), abs=1e-9)


@pytest.mark.parametrize("name", MATRIX)
def test_equilibria_of_matrix_games_hold_exactly(name):
    """In rationals: the payoffs are the nearest fractions with a small denominator."""
    entry = describe(name)
    payoff = load(name).payoff
    exact = [[Fraction(x).limit_denominator(200_000) for x in row] for row in payoff.tolist()]
    np.testing.assert_allclose(np.array(exact, float), payoff, rtol=1e-15)
    row, column = entry.equilibrium
    assert sum(row) == sum(column) == 1
    assert min(row) >= 0
    assert min(column) >= 0
    to_row = [sum(x * q for x, q in zip(line, column, strict=True)) for line in exact]
    to_column = [sum(p * exact[i][j] for i, p in enumerate(row) if p) for j in range(len(column))]
    assert max(to_row) == entry.value == min(to_column)


@pytest.mark.parametrize("name", [n for n in MATRIX if n not in ("kuhn-poker", "le-her")])
def test_values_of_matrix_games_are_those_of_gambit(name):
    gambit = peer("pygambit")
    payoff = load(name).payoff.tolist()
    exact = [[Fraction(x).limit_denominator(200_000) for x in row] for row in payoff]
    game = gambit.StrategicGame.from_arrays(exact, [[-x for x in row] for row in exact])
    profile = gambit.nash.lp_solve(game, rational=True).equilibrium
    value = profile.payoffs["1"]
    assert Fraction(value.numerator, value.denominator) == describe(name).value


@pytest.mark.parametrize("name", NORMAL)
def test_equilibria_of_general_sum_games_hold(name):
    entry = describe(name)
    assert entry.value is None
    strategies = [floats(strategy) for strategy in entry.equilibrium]
    assert all(s.sum() == pytest.approx(1) for s in strategies)
    assert max(gains(load(name).payoffs, strategies)) < 1e-12


@pytest.mark.parametrize("name", [name for name in MARKOV if name != "soccer"])
def test_values_and_equilibria_of_markov_games_hold(name):
    entry, game = describe(name), load(name)
    value = floats(entry.value)
    np.testing.assert_allclose(shapley_value(game), value, atol=1e-8)
    stage = game.reward + game.discount * game.transition @ value
    for state in range(game.states):
        row, column = (floats(strategy[state]) for strategy in entry.equilibrium)
        assert (stage[state] @ column).max() == pytest.approx(value[state], abs=1e-12)
        assert (row @ stage[state]).min() == pytest.approx(value[state], abs=1e-12)


class TestParameters:
    @pytest.mark.parametrize("size", [1, 2, 5])
    def test_hide_and_seek(self, size):
        assert lp_value(load("hide-and-seek", size=size).payoff) == pytest.approx(1 / size)

    @pytest.mark.parametrize(("periods", "inspections"), [(2, 1), (5, 1), (6, 3), (7, 6)])
    def test_inspection_is_what_the_recursion_says(self, periods, inspections):
        def value(n: int, m: int) -> float:
            if m >= n:
                return 0.0
            if m == 0:
                return 1.0
            return lp_value(np.array([[value(n - 1, m - 1), value(n - 1, m)], [-1.0, 1.0]]))

        game = load("inspection", periods=periods, inspections=inspections)
        assert lp_value(game.payoff) == pytest.approx(value(periods, inspections))
        reach = sum(comb(periods, i) for i in range(inspections + 1))
        assert lp_value(game.payoff) == pytest.approx(comb(periods - 1, inspections) / reach)

    def test_blotto_counts_allocations_and_fields(self):
        game = load("colonel-blotto", first=5, second=4, fields=3, scoring="fields")
        assert game.actions == (comb(7, 2), comb(6, 2))
        assert load("colonel-blotto").payoff[0].tolist() == [4, 2, 1, 0]
        symmetric = load("colonel-blotto", first=6, second=6, fields=3, scoring="fields").payoff
        np.testing.assert_array_equal(symmetric, -symmetric.T)

    def test_diagonal(self):
        assert lp_value(load("diagonal", entries=(2.0, 2.0)).payoff) == pytest.approx(1.0)

    def test_morra_of_four_fingers_is_fair(self):
        payoff = load("morra", fingers=4).payoff
        np.testing.assert_array_equal(payoff, -payoff.T)
        assert payoff.shape == (16, 16)

    def test_two_finger_morra_is_that_of_the_book(self):
        expected = [[0, 2, -3, 0], [-2, 0, 0, 3], [3, 0, 0, -4], [0, -3, 4, 0]]
        assert load("morra").payoff.tolist() == expected

    @pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
    def test_values_of_the_markov_games_for_other_discounts(self, discount):
        def first(name: str) -> float:
            game = load(name, discount=discount)
            return shapley_value(game, sweeps=4000)[0]

        assert first("repeated-odd-or-even") == pytest.approx(1 / 12 / (1 - discount), rel=1e-6)
        assert first("big-match") == pytest.approx(0.5 / (1 - discount), rel=1e-6)
        assert first("hide-or-run") == pytest.approx(1 / (1 + np.sqrt(1 - discount)), rel=1e-6)

    @pytest.mark.parametrize(
        ("name", "parameters", "message"),
        [
            ("hide-and-seek", {"size": 0}, "size: expected a whole number >= 1"),
            ("morra", {"fingers": -1}, "fingers: expected a whole number"),
            ("inspection", {"inspections": 4}, "inspections: expected fewer than the 4 periods"),
            ("colonel-blotto", {"scoring": "points"}, "scoring: expected 'regiments' or 'fields'"),
            ("silverman", {"threshold": 1.0}, "threshold: expected a number above 1"),
            ("silverman", {"penalty": -1.0}, "penalty: expected a positive number"),
            ("poker-endgame", {"win_probability": 1.5}, "win_probability: expected a number in"),
            ("poker-endgame", {"bet": 0.0}, "bet: expected a positive number"),
            ("diagonal", {"entries": (1.0, 0.0)}, "entries: expected one or more positive"),
            ("biased-rock-paper-scissors", {"rock": -1.0}, "rock: expected a positive win"),
            ("travellers-dilemma", {"high": 2}, "high: expected more than low, which is 2"),
            ("big-match", {"discount": 1.0}, "discount: expected a number in"),
            ("soccer", {"columns": 1}, "columns: expected a whole number >= 2"),
        ],
    )
    def test_parameters_are_checked(self, name, parameters, message):
        with pytest.raises(ValueError, match=message):
            load(name, **parameters)


class TestAgainstTheirSource:
    def test_le_her_has_montmorts_numbers(self):
        """The four cases that Bernoulli, Montmort and Waldegrave wrote about, times 5525."""
        chances = load("le-her").payoff * 5525
        switch, hold = 7, 6  # Paul holds from eight, or from seven
        draw, keep = 8, 7  # Pierre holds from nine, or from eight
        found = [chances[switch, draw], chances[hold, draw]]
        found += [chances[switch, keep], chances[hold, keep]]
        np.testing.assert_allclose(found, [2828, 2834, 2838, 2828], rtol=1e-12)

    def test_penalty_kicks_give_the_published_frequencies(self):
        kicker, goalkeeper = describe("penalty-kicks").equilibrium
        assert float(kicker[0]) == pytest.approx(0.3854, abs=5e-5)
        assert float(goalkeeper[0]) == pytest.approx(0.4199, abs=5e-5)

    def test_newtons_method_cycles_on_van_der_wals_game(self):
        game = load("van-der-wal")
        visited = [0.0]
        for _ in range(4):
            stage = game.reward[0] + game.discount * game.transition[0] @ [visited[-1], 0.0]
            # Every stage game met on the way has one pure saddle point.
            saddle = (stage == stage.max(0)) & (stage == stage.min(1, keepdims=True))
            ((row, column),) = np.argwhere(saddle)
            stay = game.transition[0, row, column, 0]
            visited.append(game.reward[0, row, column] / (1 - game.discount * stay))
        assert visited == [0, 12, 4, 12, 4]

    def test_kuhn_poker_is_that_of_openspiel(self):
        pyspiel = peer("pyspiel")
        theirs = pyspiel.extensive_to_matrix_game(pyspiel.load_game("kuhn_poker"))
        # They list every plan, also those that differ only where their own moves never lead.
        ours, theirs = (
            np.unique(np.unique(np.round(payoff, 9), axis=0), axis=1)
            for payoff in (load("kuhn-poker").payoff, theirs.row_utilities())
        )
        assert ours.shape == theirs.shape == (27, 64)
        np.testing.assert_array_equal(np.sort(ours, axis=None), np.sort(theirs, axis=None))
        assert lp_value(theirs) == pytest.approx(-1 / 18, abs=1e-8)

    @pytest.mark.parametrize(
        ("name", "theirs"),
        [
            ("rock-paper-scissors", "matrix_rps"),
            ("matching-pennies", "matrix_mp"),
            ("biased-rock-paper-scissors", "matrix_brps"),
            ("rock-paper-scissors-water", "matrix_rpsw"),
            ("stag-hunt", "matrix_sh"),
            ("shapley-cycle", "matrix_shapleys_game"),
        ],
    )
    def test_games_that_openspiel_has_too(self, name, theirs):
        other = peer("pyspiel").load_matrix_game(theirs)
        game = load(name)
        payoffs = game.payoffs if game.__class__ is NormalFormGame else (game.payoff, -game.payoff)
        np.testing.assert_array_equal(other.row_utilities(), payoffs[0])
        np.testing.assert_array_equal(other.col_utilities(), payoffs[1])


class TestSoccer:
    def test_littmans_field_has_760_states(self):
        game = load("soccer", rows=4, columns=5)
        assert game.states == 760
        assert game.actions == (5, 5)

    def test_turning_the_field_around_changes_the_sign(self):
        game = load("soccer", rows=1, columns=3)
        cells = range(3)
        order = [(a, b, ball) for a in cells for b in cells if a != b for ball in (0, 1)]
        turn = [order.index((2 - b, 2 - a, 1 - ball)) for a, b, ball in order]
        moves = [1, 0, 3, 2, 4]  # north and south, east and west change places
        turned = game.reward[turn][:, moves][:, :, moves].transpose(0, 2, 1)
        np.testing.assert_array_equal(turned, -game.reward)
        value = shapley_value(game)
        np.testing.assert_allclose(value[turn], -value, atol=1e-8)
        assert value.max() > 0.5

    def test_a_player_at_the_goal_with_the_ball_scores(self):
        game = load("soccer", rows=1, columns=3)
        order = [(a, b, ball) for a in range(3) for b in range(3) if a != b for ball in (0, 1)]
        state = order.index((2, 0, 0))
        east, stand = 2, 4
        assert game.reward[state, east, stand] == 1.0
        kickoffs = [order.index((0, 2, ball)) for ball in (0, 1)]
        assert game.transition[state, east, stand, kickoffs].tolist() == [0.5, 0.5]
        assert game.reward[order.index((2, 0, 1)), east, stand] == 0.0

    def test_running_into_the_other_gives_it_the_ball(self):
        game = load("soccer", rows=1, columns=3)
        order = [(a, b, ball) for a in range(3) for b in range(3) if a != b for ball in (0, 1)]
        state, after = order.index((0, 1, 0)), order.index((0, 1, 1))
        east, stand = 2, 4
        assert game.transition[state, east, stand, after] == 1.0


class TestNames:
    def test_an_unknown_name_gets_close_matches(self):
        with pytest.raises(ValueError, match=r"'rock-paper-scisors'; did you mean rock-paper-sc"):
            load("rock-paper-scisors")
        with pytest.raises(ValueError, match=r"found 'zzzz'; see games.names\(\)"):
            describe("zzzz")

    def test_an_unknown_parameter_gets_the_allowed_ones(self):
        with pytest.raises(ValueError, match="expected first, second, fields, scoring for colonel"):
            load("colonel-blotto", battlefields=3)
        with pytest.raises(ValueError, match="expected no parameters for lieberman, found x, y"):
            load("lieberman", y=1, x=2)
