"""Interaction terms: rewards and expectations against the joint table."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.games import Interactions, Mixture
from equipoise.games import _interactions as lookups


def random_terms(rng, agents=4, moves=3, situations=2, rank=3) -> Interactions:
    """Terms of all orders, with random scopes, unsorted and with others in any order."""
    scopes, tables = {}, {}
    for order in range(1, rank + 1):
        rows = [rng.permutation(agents)[:order] for _ in range(2 * agents)]
        scopes[order] = np.array(rows)
        tables[order] = rng.normal(size=(situations, len(rows), *[moves] * order))
    return Interactions(scopes, tables, agents)


def random_policy(rng, *shape):
    return rng.dirichlet(np.ones(shape[-1]), shape[:-1])


def direct_reward(scopes, tables, agents, situation, moves):
    rewards = np.zeros(agents)
    for order, rows in scopes.items():
        for m, scope in enumerate(rows):
            rewards[scope[0]] += tables[order][(situation, m, *(moves[j] for j in scope))]
    return rewards


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_expected_rewards_equal_brute_force(rng, rank):
    terms = random_terms(rng, rank=rank)
    chances = random_policy(rng, 2, 4, 3)
    found = terms.expected(chances)
    direct = np.zeros_like(found)
    for c, u in itertools.product(range(2), itertools.product(range(3), repeat=4)):
        rewards = direct_reward(terms.scopes, terms.tables, 4, c, u)
        each = np.array([chances[c, j, u[j]] for j in range(4)])
        for i in range(4):
            direct[c, i, u[i]] += rewards[i] * np.prod(np.delete(each, i))
    np.testing.assert_allclose(found, direct, rtol=0, atol=1e-12)


def test_expected_rewards_take_batches_and_jax(rng):
    terms = random_terms(rng)
    chances = random_policy(rng, 5, 2, 4, 3)
    one_by_one = np.stack([terms.expected(each) for each in chances])
    np.testing.assert_allclose(terms.expected(chances), one_by_one, atol=1e-13)
    with jax.enable_x64(True):
        compiled = jax.jit(lambda given: terms.expected(given))(jnp.asarray(chances))
    np.testing.assert_allclose(compiled, one_by_one, atol=1e-12)


def test_expected_rewards_in_small_chunks(rng, monkeypatch):
    terms, chances = random_terms(rng), random_policy(rng, 5, 2, 4, 3)
    whole = terms.expected(chances)
    monkeypatch.setattr("equipoise.games._interactions._CHUNK", 1)
    np.testing.assert_allclose(terms.expected(chances), whole, atol=1e-13)


@pytest.mark.parametrize("merged", [1, 30, 4096])
def test_rewards_of_joint_moves(rng, merged, monkeypatch):
    monkeypatch.setattr(lookups, "_MERGED", merged)
    monkeypatch.setattr(lookups, "_BLOCK", 7)
    monkeypatch.setattr(lookups, "_HELD", 2000)
    terms = random_terms(rng, agents=5)
    situations, moves = rng.integers(0, 2, 50), rng.integers(0, 3, (50, 5))
    direct = [
        direct_reward(terms.scopes, terms.tables, 5, c, u)
        for c, u in zip(situations, moves, strict=True)
    ]
    np.testing.assert_allclose(terms.rewards(situations, moves), direct, atol=1e-13)
    single = terms.rewards(situations.astype(np.int8), moves.astype(np.int8), dtype=np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, direct, atol=1e-5)


def test_tables_too_large_for_short_indices(rng):
    terms = Interactions({2: [[1, 0]]}, {2: rng.normal(size=(1, 1, 300, 300))}, 2)
    moves = rng.integers(0, 300, (40, 2))
    rewards = terms.rewards(np.zeros(40, int), moves)
    np.testing.assert_array_equal(rewards[:, 1], terms.tables[2][0, 0, moves[:, 1], moves[:, 0]])
    np.testing.assert_array_equal(rewards[:, 0], 0.0)


def test_dense_and_back(rng):
    terms = random_terms(rng)
    dense = terms.to_dense()
    for c, u in itertools.product(range(2), itertools.product(range(3), repeat=4)):
        direct = direct_reward(terms.scopes, terms.tables, 4, c, u)
        np.testing.assert_allclose(dense[(c, slice(None), *u)], direct, atol=1e-12)
    again = Interactions.from_dense(dense)
    assert again.rank == 4
    np.testing.assert_allclose(again.to_dense(), dense, atol=1e-12)
    chances = random_policy(rng, 2, 4, 3)
    np.testing.assert_allclose(again.expected(chances), terms.expected(chances), atol=1e-12)


def test_a_joint_table_of_many_agents_is_refused():
    game = eq.games.families.polymatrix(agents=40, actions=3).sample(key=0)
    with pytest.raises(ValueError, match="at most 50000000 entries"):
        game.interactions.to_dense()
    with pytest.raises(ValueError, match="3 x 3"):
        game.to_normal_form()


def test_rank_ignores_terms_that_are_zero():
    terms = Interactions(
        {1: [[0]], 2: [[0, 1]]}, {1: np.ones((1, 1, 2)), 2: np.zeros((1, 1, 2, 2))}, 2
    )
    assert terms.rank == 1


@pytest.mark.parametrize(
    ("scopes", "tables", "complaint"),
    [
        ({}, {}, "at least one"),
        ({1: [[0]]}, {2: np.zeros((1, 1, 2, 2))}, "same orders"),
        (
            {2: [[0, 0]]},
            {2: np.zeros((1, 1, 2, 2))},
            r"different agents.*\[0, 0\] at \[0\]",
        ),
        ({2: [[0, 5]]}, {2: np.zeros((1, 1, 2, 2))}, "agents from 0 to 1"),
        ({2: [[0, 1]]}, {2: np.zeros((1, 2, 2, 2))}, "expected 1 terms"),
        ({2: [[0, 1]]}, {2: np.zeros((1, 1, 2, 3))}, "equal axes of moves"),
        ({2: [[0, 1]]}, {2: np.full((1, 1, 2, 2), np.nan)}, "finite numbers"),
        ({1: [[0.5]]}, {1: np.zeros((1, 1, 2))}, "whole numbers"),
        (
            {1: [[0]], 2: [[0, 1]]},
            {1: np.zeros((1, 1, 3)), 2: np.zeros((1, 1, 2, 2))},
            "same .situations, moves.",
        ),
    ],
)
def test_wrong_terms_are_refused(scopes, tables, complaint):
    with pytest.raises(ValueError, match=complaint):
        Interactions(scopes, tables, 2)


@pytest.mark.parametrize(
    ("situations", "moves", "complaint"),
    [
        ([2], [[0, 0, 0, 0]], "situations: expected numbers from 0 to 1"),
        ([0], [[0, 0, 0, 3]], "moves: expected numbers from 0 to 2"),
        ([0], [[0, 0, 0]], "moves: expected shape"),
        ([0.0], [[0, 0, 0, 0]], "situations: expected whole numbers"),
    ],
)
def test_wrong_moves_are_refused(rng, situations, moves, complaint):
    with pytest.raises(ValueError, match=complaint):
        random_terms(rng).rewards(situations, moves)


def test_a_mixture_is_checked():
    with pytest.raises(ValueError, match="sum to 1"):
        Mixture([[[0.5, 0.4]]])
    with pytest.raises(ValueError, match="weights: expected shape"):
        Mixture([[[0.5, 0.5]]], weights=[0.5, 0.5])
    mixture = Mixture([[[1.0, 0.0]], [[0.0, 1.0]]], weights=[0.25, 0.75])
    assert len(mixture) == len(list(mixture)) == 2
    np.testing.assert_array_equal(mixture.marginal(), [[0.25, 0.75]])
    np.testing.assert_array_equal(mixture[1], [[0.0, 1.0]])


def test_a_thousand_agents_with_all_pairs_fit():
    game = eq.games.families.polymatrix(agents=1000, actions=4).sample(key=0)
    tables = sum(table.nbytes for table in game.interactions.tables.values())
    assert game.interactions.terms == 1_000_000
    assert tables < 200e6
