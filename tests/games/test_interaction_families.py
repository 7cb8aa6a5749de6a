"""Families of games with interaction terms."""

import itertools

import numpy as np
import pytest

import equipoise as eq
from equipoise.games import Interactions

FAMILIES = eq.games.families


def spread(game) -> np.ndarray:
    """(agents,): standard deviation of rewards over uniform joint moves."""
    return (
        game.interactions.to_dense()
        .reshape(-1, game.agents, game.interactions.moves**game.agents)
        .std(-1)
    )


@pytest.mark.parametrize("agents", [3, 6])
@pytest.mark.parametrize(
    "make",
    [
        FAMILIES.polymatrix,
        FAMILIES.interaction_rank,
        FAMILIES.zero_sum_polymatrix,
        FAMILIES.network,
    ],
)
def test_rewards_spread_as_said_whatever_the_number_of_agents(make, agents):
    options = {"degree": 2} if make is FAMILIES.network else {}
    games = make(agents=agents, actions=3, contexts=2, scale=0.2, **options).sample(8, key=0)
    squares = np.mean([spread(game) ** 2 for game in games])
    assert np.sqrt(squares) == pytest.approx(0.2, rel=0.15)
    assert all(game.noise == 0.15 for game in games)


def test_a_game_does_not_depend_on_how_many_are_drawn():
    family = FAMILIES.polymatrix(agents=4, actions=2)
    one, (first, second) = family.sample(key=5), family.sample(2, key=5)
    np.testing.assert_array_equal(one.interactions.tables[2], first.interactions.tables[2])
    assert (first.interactions.tables[2] != second.interactions.tables[2]).all()


def test_a_polymatrix_game_has_rank_two():
    """Mixed differences over two others vanish."""
    dense = FAMILIES.polymatrix(agents=4, actions=2).sample(key=0).interactions.to_dense()[0]
    for i in range(4):
        for j, k in itertools.combinations([x for x in range(4) if x != i], 2):
            assert np.abs(np.diff(np.diff(dense[i], axis=j), axis=k)).max() < 1e-12


def test_a_random_game_has_its_rank_and_no_less():
    game = FAMILIES.interaction_rank(agents=5, actions=2, rank=3, terms=3).sample(key=1)
    assert {k: len(s) for k, s in game.interactions.scopes.items()} == {1: 5, 2: 15, 3: 15}
    for scopes in game.interactions.scopes.values():
        assert len({tuple(s) for s in scopes}) == len(scopes)
    dense = game.interactions.to_dense()[0]
    three = [
        np.abs(np.diff(np.diff(np.diff(dense[i], axis=j), axis=k), axis=m)).max()
        for i in range(5)
        for j, k, m in itertools.combinations([x for x in range(5) if x != i], 3)
    ]
    two = [
        np.abs(np.diff(np.diff(dense[i], axis=j), axis=k)).max()
        for i in range(5)
        for j, k in itertools.combinations([x for x in range(5) if x != i], 2)
    ]
    assert max(three) < 1e-12
    assert max(two) > 1e-3


def test_networks_given_and_drawn():
    line = np.zeros((4, 4))
    line[[0, 1, 1, 2, 2], [1, 0, 2, 1, 3]] = 1  # agent 3 listens to nobody
    game = FAMILIES.network(4, 2, graph=line, rank=3).sample(key=0)
    assert game.interactions.scopes[3].tolist() == [[1, 0, 2], [2, 1, 3]]
    assert game.interactions.scopes[2].tolist() == [[0, 1]]
    drawn = FAMILIES.network(30, 2, degree=5).sample(key=0).interactions.scopes[2]
    assert (np.bincount(drawn[:, 0]) == 5).all()
    assert len({tuple(pair) for pair in drawn}) == 150
    joint = FAMILIES.network(10, 2, degree=3, rank=4).sample(key=0).interactions
    assert joint.rank == 4
    assert len(joint.scopes[4]) == 10


def test_what_one_pays_the_other_receives():
    game = FAMILIES.zero_sum_polymatrix(agents=4, actions=3, contexts=2).sample(key=0)
    assert np.abs(game.interactions.to_dense().sum(1)).max() < 1e-12
    markov = FAMILIES.zero_sum_polymatrix(3, 2, states=2, horizon=2).sample(key=0)
    assert np.abs(markov.interactions.to_dense().sum(1)).max() < 1e-12


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_congestion_costs_are_polynomials_of_the_load(degree):
    game = FAMILIES.congestion(agents=5, resources=2, degree=degree).sample(key=0)
    assert game.interactions.rank == degree + 1
    dense = game.interactions.to_dense()[0]
    assert dense.min() >= 0.0
    assert dense.max() <= 1.0
    for resource in range(2):
        rewards = {}
        for moves in itertools.product(range(2), repeat=5):
            for i in range(5):
                if moves[i] == resource:
                    rewards.setdefault(moves.count(resource), []).append(dense[(i, *moves)])
        means = np.array([np.mean(rewards[x]) for x in range(1, 6)])
        assert max(np.ptp(found) for found in rewards.values()) < 1e-12
        assert (np.diff(means) < 0).all()
        fitted = np.polynomial.Polynomial.fit(np.arange(1, 6), means, degree)
        np.testing.assert_allclose(fitted(np.arange(1, 6)), means, atol=1e-12)


def test_congestion_is_a_potential_game():
    """Best replies in turn end in a pure equilibrium (Rosenthal, 1973)."""
    game = FAMILIES.congestion(agents=8, resources=3).sample(key=2)
    actions = np.zeros(8, int)
    for _ in range(10):
        for i in range(8):
            rewards = game.interactions.expected(np.eye(3)[actions][None])
            actions[i] = rewards[0, i].argmax()
    assert eq.certify(game, np.eye(3)[actions]).max_gain < 1e-12


def test_markov_games_of_a_family():
    game = FAMILIES.network(6, 3, 2, degree=2, states=2, horizon=3).sample(key=0)
    assert game.policy_shape == (2, 3, 6, 2, 3)
    assert game.interactions.situations == 6
    assert (game.initial[..., 0] == 1).all()


@pytest.mark.parametrize(
    ("make", "options", "complaint"),
    [
        (FAMILIES.polymatrix, {"agents": 1}, "agents: expected a whole number >= 2"),
        (FAMILIES.polymatrix, {"horizon": 3}, "horizon: expected 1 for a game without states"),
        (FAMILIES.polymatrix, {"scale": 0.0}, "scale: "),
        (FAMILIES.polymatrix, {"noise": -1.0}, "noise: "),
        (FAMILIES.network, {"agents": 4, "degree": 4}, "degree: expected at most 3 neighbours"),
        (FAMILIES.network, {"agents": 2, "graph": np.eye(2)}, "its own neighbour"),
        (FAMILIES.network, {"agents": 2, "graph": np.eye(3)}, "graph: expected shape"),
        (FAMILIES.interaction_rank, {"agents": 2, "rank": 3}, "rank: expected at most"),
        (FAMILIES.congestion, {"agents": 3, "degree": 3}, "degree: expected at most agents - 1"),
    ],
)
def test_wrong_families_are_refused(make, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        make(**options)


def test_games_too_large_to_hold_are_refused():
    family = FAMILIES.interaction_rank(agents=1000, actions=10, rank=6)
    with pytest.raises(ValueError, match=r"half of this machine's memory, found .* order 3"):
        family.sample(key=0)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"context_probabilities": [0.5, 0.6]}, "sum to 1"),
        ({"context_probabilities": [1.0]}, r"expected shape \(2,\)"),
        ({"actions": (3, 2)}, "expected counts of at most 2"),
        ({"actions": (2,)}, "a count >= 1 for each of 2 agents"),
        ({"noise": np.inf}, "noise"),
    ],
)
def test_wrong_contextual_games_are_refused(arguments, complaint):
    terms = Interactions({1: [[0], [1]]}, {1: np.zeros((2, 2, 2))}, 2)
    with pytest.raises(ValueError, match=complaint):
        eq.ContextualGame(terms, **arguments)
    with pytest.raises(ValueError, match="expected Interactions, found ndarray"):
        eq.ContextualGame(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("transitions", "initial", "complaint"),
    [
        (
            np.full((3, 2, 2, 2, 2), 0.5),
            np.full((2, 2), 0.5),
            "situation for each context and step",
        ),
        (np.full((2, 3, 2, 2, 2), 0.5), np.full((2, 2), 0.5), "with 2 agents and states"),
        (np.full((4, 2, 2, 2), 0.5), np.full((2, 2), 0.5), "contexts optional; found"),
        (np.full((2, 2, 2, 2, 2), 0.4), np.full((2, 2), 0.5), "transitions: .*sum to 1"),
        (np.full((2, 2, 2, 2, 2), 0.5), np.full((2, 3), 1 / 3), "initial: expected shape"),
    ],
)
def test_wrong_markov_games_are_refused(transitions, initial, complaint):
    terms = Interactions({1: [[0], [1]]}, {1: np.zeros((4, 2, 4))}, 2)
    with pytest.raises(ValueError, match=complaint):
        eq.DecoupledMarkovGame(terms, transitions, initial)
