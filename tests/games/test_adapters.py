"""Games to and from other libraries: no axis may be swapped, no digit lost."""

import sys

import numpy as np
import pytest
from support import peer

from equipoise.certificates import certify
from equipoise.games import MarkovGame, MatrixGame, NormalFormGame, adapters, load

SHAPES = [(2, 3), (1, 4), (3, 2), (2, 3, 4), (4, 1, 2), (2, 3, 2, 3)]
LIBRARIES = {"openspiel": "pyspiel", "gambit": "pygambit", "quantecon": "quantecon"}


def random_game(actions: tuple[int, ...]) -> NormalFormGame:
    return NormalFormGame(np.random.default_rng(7).normal(size=(len(actions), *actions)))


@pytest.mark.parametrize("library", LIBRARIES)
class TestEveryLibrary:
    @pytest.fixture(autouse=True)
    def functions(self, library):
        peer(LIBRARIES[library])
        self.to = getattr(adapters, f"to_{library}")
        self.back = getattr(adapters, f"from_{library}")

    @pytest.mark.parametrize("actions", SHAPES)
    def test_there_and_back_is_exact(self, actions):
        game = random_game(actions)
        back = self.back(self.to(game))
        assert isinstance(back, NormalFormGame)
        np.testing.assert_array_equal(back.payoffs, game.payoffs)

    def test_zero_sum_games_stay_matrix_games(self):
        game = MatrixGame(np.random.default_rng(8).normal(size=(3, 5)))
        back = self.back(self.to(game))
        assert isinstance(back, MatrixGame)
        np.testing.assert_array_equal(back.payoff, game.payoff)

    def test_other_games_are_refused(self):
        markov = MarkovGame(np.ones((1, 1, 1)), np.ones((1, 1, 1, 1)), 0.5)
        with pytest.raises(ValueError, match="expected a single game, found a batch of"):
            self.to(MatrixGame(np.ones((4, 2, 2))))
        # Under the type checker of the tests, the annotation refuses it first.
        with pytest.raises((ValueError, TypeError), match="MatrixGame"):
            self.to(markov)
        with pytest.raises(ValueError, match=r"game: expected a .* found int"):
            self.back(3)


class TestOpenSpiel:
    @pytest.fixture(autouse=True)
    def library(self):
        self.pyspiel = peer("pyspiel")

    def test_every_profile_pays_every_player_what_it_should(self):
        game = random_game((2, 3, 4))
        theirs = adapters.to_openspiel(game)
        for profile in np.ndindex(2, 3, 4):
            state = theirs.new_initial_state()
            state.apply_actions(list(profile))
            assert state.returns() == pytest.approx(game.payoffs[(slice(None), *profile)])

    def test_rows_and_columns(self):
        theirs = adapters.to_openspiel(MatrixGame([[1, 2, 3], [4, 5, 6]]))
        assert (theirs.num_rows(), theirs.num_cols()) == (2, 3)
        assert theirs.row_utility(1, 0) == 4
        assert theirs.col_utility(1, 0) == -4

    def test_sequential_games(self):
        game = adapters.from_openspiel(self.pyspiel.load_game("kuhn_poker"))
        assert isinstance(game, MatrixGame)
        ours = load("kuhn-poker").payoff
        np.testing.assert_allclose(
            np.unique(game.payoff.round(12)), np.unique(ours.round(12)), atol=1e-12
        )

    def test_simultaneous_games_of_one_and_of_several_moves(self):
        blotto = adapters.from_openspiel(self.pyspiel.load_game("blotto(coins=4,fields=2)"))
        assert blotto.actions == (5, 5)
        three = adapters.from_openspiel(
            self.pyspiel.load_game("blotto(coins=2,fields=2,players=3)")
        )
        assert three.actions == (3, 3, 3)
        assert adapters.from_openspiel(self.pyspiel.load_game("goofspiel(num_cards=2)")).actions

    def test_general_sum_games(self):
        game = adapters.from_openspiel(self.pyspiel.load_game("matrix_pd"))
        assert isinstance(game, NormalFormGame)

    @pytest.mark.parametrize(
        "name", ["leduc_poker", "kuhn_poker(players=3)", "goofspiel(num_cards=4)"]
    )
    def test_games_with_too_many_strategies_are_refused(self, name):
        with pytest.raises(ValueError, match="game: expected at most 1000000 strategy profiles"):
            adapters.from_openspiel(self.pyspiel.load_game(name))

    def test_games_without_information_states_are_refused(self):
        with pytest.raises(ValueError, match="expected a game with information states, found mfg"):
            adapters.from_openspiel(self.pyspiel.load_game("mfg_crowd_modelling"))

    def test_games_with_too_large_a_tree_are_refused(self):
        with pytest.raises(ValueError, match="game: expected a tree of at most 200000 nodes"):
            adapters.from_openspiel(self.pyspiel.load_game("tic_tac_toe"))


class TestGambit:
    @pytest.fixture(autouse=True)
    def library(self):
        self.gambit = peer("pygambit")

    def test_every_profile_pays_every_player_what_it_should(self):
        game = random_game((2, 3, 4))
        theirs = adapters.to_gambit(game, title="three")
        assert theirs.title == "three"
        for a, b, c in np.ndindex(2, 3, 4):
            contingency = {"1": str(a + 1), "2": str(b + 1), "3": str(c + 1)}
            paid = theirs.get_payoffs(contingency)
            found = [float(paid[player]) for player in ("1", "2", "3")]
            assert found == game.payoffs[:, a, b, c].tolist()

    def test_extensive_games(self):
        names = [name for name in self.gambit.catalog.games()["Game"] if "bagwell" in name]
        theirs = self.gambit.catalog.load(names[0])
        assert adapters.from_gambit(theirs).actions == (2, 4)


class TestQuantEcon:
    @pytest.fixture(autouse=True)
    def library(self):
        self.quantecon = peer("quantecon.game_theory")

    def test_every_profile_pays_every_player_what_it_should(self):
        game = random_game((2, 3, 4))
        theirs = adapters.to_quantecon(game)
        assert theirs.nums_actions == (2, 3, 4)
        for profile in np.ndindex(2, 3, 4):
            assert theirs[profile].tolist() == game.payoffs[(slice(None), *profile)].tolist()

    def test_its_solver_finds_the_equilibrium(self):
        theirs = adapters.to_quantecon(load("odd-or-even"))
        row, column = self.quantecon.lemke_howson(theirs)
        np.testing.assert_allclose([row[0], column[0]], 7 / 12)

    def test_its_solver_takes_general_sum_games(self):
        game = random_game((3, 3))
        strategies = self.quantecon.lemke_howson(adapters.to_quantecon(game))
        assert certify(game, strategies).max_gain < 1e-12


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_missing_library_names_the_extra(library, monkeypatch):
    name = LIBRARIES[library]
    for module in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, name, None)
    message = rf"is not installed; in the clone of equipoise, run: pip install '\.\[{library}\]'"
    with pytest.raises(ImportError, match=message):
        getattr(adapters, f"to_{library}")(MatrixGame([[1.0]]))
    with pytest.raises(ImportError, match=message):
        getattr(adapters, f"from_{library}")(None)
