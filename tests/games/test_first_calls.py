"""What is typed first: constructors take it, or say in one line what to type instead."""

import numpy as np
import pytest

import equipoise as eq

A, B = [[3, 0], [5, 1]], [[3, 5], [0, 1]]
ROADS, REWARD = [[1.0], [0.0]], np.array([-0.2, -0.5])


def one_type(x):
    return np.array([-0.2 - 0.6 * x[0], -0.5])


REFUSED = {
    "two tables as a list": (lambda: eq.MatrixGame([A, B]), "NormalFormGame(A, B)"),
    "two tables": (lambda: eq.MatrixGame(A, B), "NormalFormGame(A, B)"),
    "unequal tables": (lambda: eq.NormalFormGame(A, [[1, 2, 3]] * 2), "payoffs[1]: expected shape"),
    "players of two tables": (lambda: eq.NormalFormGame(A, B, players=3), "players: expected 2"),
    "a batch of games of two players": (
        lambda: eq.NormalFormGame(np.ones((3, 2, 3, 3))),
        "players=2 for 3 games of 2 players, or players=3 for one game with 2 x 3 x 3 actions",
    ),
    "gamma": (lambda: eq.MarkovGame(A, B, gamma=0.9), "found 'gamma'; did you mean discount?"),
    "tolerence": (
        lambda: eq.solve(eq.MatrixGame(A), tolerence=1e-9),
        "found 'tolerence'; did you mean tolerance?",
    ),
    "names": (lambda: eq.MatrixGame(A, names="AB"), "did you mean labels?"),
    "agents": (lambda: eq.AggregativeGame(ROADS, one_type, agents=9), "did you mean counts?"),
    "a policy's argument": (lambda: eq.JointPolicy(A, player=2), "did you mean players?"),
    "a learner's argument": (lambda: eq.dynamics.OMD(rate=1), "did you mean rates?"),
    "two actions of one name": (
        lambda: eq.MatrixGame(A, labels={"actions": [["x", "x"], ["l", "r"]]}),
        "labels.actions[0]: expected names that differ, found 'x' twice",
    ),
    "two players of one name": (
        lambda: eq.MatrixGame(A, labels={"players": ["Ann", " Ann"]}),
        "labels.players: expected names that differ, found 'Ann' twice",
    ),
    "too many": (lambda: eq.ContinuousPolicy([0.5], None, 3), "2 arguments by position"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_answered_in_one_line(name):
    call, words = REFUSED[name]
    with pytest.raises(eq.core.InputError) as raised:
        call()
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_argument_and_errors_inside_of_constructors_stay_as_they_are():
    with pytest.raises(TypeError, match=r"missing.*payoff"):
        eq.MatrixGame()  # pyright: ignore[reportCallIssue]

    def broken(x):
        raise TypeError("a mistake of the user's own")

    with pytest.raises(TypeError, match="a mistake of the user's own"):
        eq.AggregativeGame(ROADS, broken, counts=3)


def test_a_table_for_each_player_is_a_normal_form_game():
    assert eq.NormalFormGame(A, B) == eq.NormalFormGame([A, B])
    tables = np.random.default_rng(0).random((3, 5, 2, 3, 4))
    assert eq.NormalFormGame(*tables[:, 0], labels={"players": list("abc")}).actions == (2, 3, 4)
    batch = eq.NormalFormGame(*tables)
    assert batch.batch_shape == (5,)
    np.testing.assert_array_equal(batch.payoffs[4, 2], tables[2, 4])


@pytest.mark.parametrize(
    "shape", [(3, 2, 2, 2), (3, 2, 3, 4), (4, 3, 3, 3, 3), (2, 2, 5), (3, 4, 3, 3)]
)
def test_shapes_that_only_one_game_has_need_no_number_of_players(shape):
    assert eq.NormalFormGame(np.zeros(shape)).actions == shape[1:]


def test_an_array_of_three_axes_is_a_batch():
    assert eq.MatrixGame(np.array([A, B])).batch_shape == (2,)
    assert eq.MatrixGame([A, B, A]).batch_shape == (3,)


def test_crowds_of_one_type_need_no_axis_of_types():
    full = eq.AggregativeGame(
        [ROADS], lambda x: one_type(x)[None], 0.6, counts=[1000], elementwise=False
    )
    short = eq.AggregativeGame(ROADS, one_type, 0.6, counts=1000)
    np.testing.assert_array_equal(short.influence, full.influence)
    np.testing.assert_array_equal(short.rewards([0.3]), full.rewards([0.3]))
    elementwise = eq.AggregativeGame(
        ROADS, lambda x: REWARD + np.array([-0.6, 0.0]) * x[..., 0], 0.6, counts=1000
    )
    assert elementwise.field.elementwise
    agents = [0] * 600 + [1] * 400
    for game in (full, short, elementwise):
        gains = eq.certify(game, [[600, 400]]).gains
        np.testing.assert_array_equal(gains, eq.certify(game, agents).gains)
        # 600 of 1,000 on the first road pay .56; one who leaves pays .5
        assert gains.max() == pytest.approx(0.06, abs=1e-12)


@pytest.mark.parametrize(
    ("plays", "words"),
    [
        ([[600, 401]], "expected 1000 agents of row 0, found 1001"),
        ([[1100, -100]], "numbers of agents >= 0"),
        ([[0.6, 0.4]], "whole numbers"),
        ([600, 400], "or numbers of agents, (1, 2)"),
    ],
)
def test_numbers_of_agents_that_do_not_fit_are_refused(plays, words):
    game = eq.AggregativeGame(ROADS, one_type, 0.6, counts=1000)
    with pytest.raises(eq.core.InputError) as raised:
        eq.certify(game, plays)
    assert words in str(raised.value)


def test_repeated_names_of_a_file_are_numbered(tmp_path):
    names = '{ "Ann" "Bob" } { { "x" "x" } { "l" "r" } }'
    (tmp_path / "g.nfg").write_text(f'NFG 1 R "" {names}\n\n1 2 3 4 5 6 7 8\n')
    game = eq.games.read(tmp_path / "g.nfg")
    assert game.labels.actions == (("x", "x (2)"), ("l", "r"))
