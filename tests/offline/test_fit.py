"""Least squares in the K-IR class: exact where it can be, honest about what it is not sure of."""

import tracemalloc

import numpy as np
import pytest

import equipoise as eq
from equipoise.offline import decomposition
from equipoise.offline._least_squares import bases_of, cells_of, evidence
from equipoise.offline._moments import Design, Moments, orthonormal_basis


def noiseless(rank, agents=4, actions=3, contexts=2, samples=4000, key=0):
    family = eq.games.families.interaction_rank(
        agents, actions, contexts, rank=rank, scale=0.3, noise=0.0
    )
    game = family.sample(key=key)
    return game, eq.offline.collect(game, "uniform", samples=samples, key=key + 1)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("ridge", ["evidence", 0.0])
def test_covering_data_without_noise_gives_the_reward_back(rank, ridge):
    game, log = noiseless(rank)
    model = eq.offline.fit(log, rank, ridge=ridge)
    found, true = model.game.interactions.to_dense(), game.interactions.to_dense()
    assert np.abs(found - true).max() < 1e-8
    for i in range(4):
        own_first = np.moveaxis(found[:, i], i + 1, 1)
        measured = decomposition.interaction_rank(own_first, x_axes=2, tolerance=1e-6)
        assert measured == rank


@pytest.mark.parametrize("rank", [2, 3])
def test_terms_are_standardised_under_the_logs_play(rank):
    rng = np.random.default_rng(0)
    family = eq.games.families.interaction_rank(4, 3, rank=rank)
    game = family.sample(key=0)
    skewed = rng.dirichlet(np.ones(3) * 2, size=(1, 4))
    log = eq.offline.collect(game, skewed, samples=3000, key=1)
    model = eq.offline.fit(log, rank)
    chances = model.counts / model.counts.sum(-1, keepdims=True)
    terms = model.interactions.terms
    for order in range(2, rank + 1):
        for m, scope in enumerate(terms.scopes[order]):
            for place in range(1, order):
                moved = np.moveaxis(terms.tables[order][0, m], place, -1)
                assert np.abs(moved @ chances[0, scope[place]]).max() < 1e-9


def test_a_stream_of_pieces_is_the_log(tmp_path):
    _, log = noiseless(2, samples=1000)
    log.write(tmp_path / "log.npz")
    whole = eq.offline.fit(log, 2)
    pieces = eq.offline.fit(eq.offline.Log.read_chunks(tmp_path / "log.npz", rows=128), 2)
    assert pieces.samples == 1000
    for order in (1, 2):
        np.testing.assert_allclose(
            pieces.game.interactions.tables[order],
            whole.game.interactions.tables[order],
            atol=1e-10,
        )


def test_single_precision_sums_are_close(monkeypatch):
    _, log = noiseless(2, samples=2000)
    double = eq.offline.fit(log, 2, ridge=1.0).game.interactions.tables[2]
    monkeypatch.setattr("equipoise.offline._moments.SINGLE_PRECISION_WORK", 0.0)
    single = eq.offline.fit(log, 2, ridge=1.0).game.interactions.tables[2]
    np.testing.assert_allclose(single, double, atol=2e-5)
    assert np.abs(single - double).max() > 0


def test_least_squares_agrees_with_scipy():
    """On one cell, with indicator features and no penalty: the same predictions."""
    game = eq.games.families.polymatrix(4, 3).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=600, key=1)
    model = eq.offline.fit(log, 2, ridge=0.0)
    rows = np.flatnonzero(log.actions[:, 0] == 1)
    features = np.concatenate([np.eye(3)[log.actions[rows, j]] for j in (1, 2, 3)], 1)
    expected = features @ np.linalg.lstsq(features, log.rewards[rows, 0], rcond=None)[0]
    found = model.game.interactions.rewards(np.zeros(len(rows), int), log.actions[rows])[:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_moves_that_nobody_made_are_worth_the_mean():
    game = eq.games.families.polymatrix(3, 3, noise=0.0).sample(key=0)
    never = np.tile([0.5, 0.5, 0.0], (1, 3, 1))
    log = eq.offline.collect(game, never, samples=2000, key=1)
    log = eq.offline.Log(log.contexts, log.actions, log.rewards, actions_per_agent=(3, 3, 3))
    model = eq.offline.fit(log, 2)
    assert np.all(model.behaviour[..., 2] == 0)
    unseen = model.game.interactions.expected(model.behaviour)[0, :, 2]
    np.testing.assert_allclose(unseen, log.rewards.mean(0), atol=1e-3)
    solution = eq.offline.solve(model, iterations=20)
    assert np.all(solution.policy.policies[..., 2] == 0)


def test_intervals_cover_and_p_values_are_level():
    """Strengths known from the game itself, over a few logs; pairs without a term as well."""
    ring = np.roll(np.eye(6), 1, 1) + np.roll(np.eye(6), -1, 1)
    game = eq.games.families.network(6, 3, graph=ring, scale=0.1).sample(key=0)
    exact = eq.offline.fit(
        eq.offline.collect(eq.ContextualGame(game.interactions), "uniform", samples=40_000, key=99),
        2,
    ).interactions.strength
    inside, found, silent = [], [], []
    for key in range(6):
        log = eq.offline.collect(game, "uniform", samples=2000, key=key)
        report = eq.offline.fit(log, 2).interactions
        pairs = ring > 0
        inside.append((report.lower <= exact + 0.003) & (exact - 0.003 <= report.upper))
        p = np.ones((6, 6))
        p[report.owners, [group[0] for group in report.groups]] = report.p_values
        found.append((p < 0.01)[pairs].mean())
        silent.append((p < 0.05)[~pairs & ~np.eye(6, dtype=bool)].mean())
    assert np.mean([i[ring > 0].mean() for i in inside]) > 0.85
    assert np.mean(found) > 0.95
    assert np.mean(silent) < 0.12
    assert "agent" in str(report)
    assert np.all(report.total >= report.strength - 1e-12)


@pytest.mark.parametrize("noise", [0.15, 0.5])
def test_intervals_cover_in_short_logs(noise):
    """Penalties, which draw terms to zero, would leave 57% to 89% of the truth inside."""
    inside = []
    for key in range(8):
        game = eq.games.families.polymatrix(8, 3, scale=0.25, noise=noise).sample(key=key)
        exact = np.zeros((8, 8))
        for scope, table in zip(
            game.interactions.scopes[2], np.asarray(game.interactions.tables[2])[0], strict=True
        ):
            exact[*scope] = (table - table.mean(1, keepdims=True)).std()
        log = eq.offline.collect(game, "uniform", samples=500, key=100 + key)
        found = eq.offline.fit(log, 2).interactions
        covered = (found.lower <= exact) & (exact <= found.upper)
        inside.append(covered[~np.eye(8, dtype=bool)].mean())
    assert 0.92 < np.mean(inside) < 0.99


def test_a_fit_that_leaves_nothing_has_no_intervals():
    _, log = noiseless(2)
    found = eq.offline.fit(log, 2).interactions
    assert found.strengths.max() > 0
    assert np.isnan(found.lowers).all()
    assert np.isnan(found.uppers).all()
    assert "nan" not in str(found)
    noisy = eq.offline.Log(
        log.contexts, log.actions,
        log.rewards + np.random.default_rng(0).normal(scale=1e-3, size=log.rewards.shape),
    )  # fmt: skip
    found = eq.offline.fit(noisy, 2).interactions
    assert (found.lowers < found.uppers).all()


def test_screening_finds_the_network():
    game = eq.games.families.network(30, 3, degree=3, scale=0.2).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=6000, key=1)
    true = np.zeros((30, 30), bool)
    true[tuple(game.interactions.scopes[2].T)] = True
    model = eq.offline.fit(log, 2, neighbours="screen")
    screened = np.zeros_like(true)
    for i, own in enumerate(model.neighbours):
        screened[i, list(own)] = True
    assert (screened & true).sum() >= 0.95 * true.sum()
    assert (screened & ~true).sum() <= 0.2 * true.sum()
    strongest = eq.offline.fit(log, 2, neighbours=3)
    assert [len(own) for own in strongest.neighbours] == [3] * 30
    dense = eq.offline.fit(log, 2)
    errors = [
        np.abs(m.game.interactions.expected(game.uniform_policy())
               - game.interactions.expected(game.uniform_policy())).mean()
        for m in (model, dense)
    ]  # fmt: skip
    assert errors[0] < errors[1] * 1.2


def test_transitions_by_maximum_likelihood():
    family = eq.games.families.polymatrix(3, 2, 2, states=2, horizon=3)
    game = family.sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=20_000, key=1)
    model = eq.offline.fit(log, 2)
    assert model.markov
    assert model.unseen_transitions == 6 * 2  # in the first step everybody is in state 0
    seen = game.occupancies(game.uniform_policy()) > 0
    assert np.abs(model.game.transitions - game.transitions)[seen].max() < 0.06
    np.testing.assert_allclose(model.game.initial, game.initial)


def test_orthonormal_basis_with_unseen_moves():
    p = np.array([0.5, 0.0, 0.3, 0.2])
    basis = orthonormal_basis(p)
    gram = basis.T @ (p[:, None] * basis)
    assert np.linalg.matrix_rank(gram) == 2
    np.testing.assert_allclose(np.linalg.eigvalsh(gram), [0, 1, 1], atol=1e-12)
    assert np.abs(p @ basis).max() < 1e-12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 9}, "rank: expected at most 4, the number of agents"),
        ({"rank": 0}, "rank: expected a whole number >= 1"),
        ({"neighbours": "some"}, "neighbours: expected 'all'"),
        ({"neighbours": 7}, "neighbours: expected a count from 1 to 3"),
        ({"neighbours": 0}, "neighbours: expected a count from 1 to 3, found 0; .* rank 1"),
        ({"neighbours": [[1], [1], [0], [0]]}, r"neighbours\[1\]: expected other agents"),
        ({"ridge": -1.0}, "ridge: expected a number"),
        ({"ridge": "much"}, "ridge: expected 'evidence'"),
        ({"width": 3}, "width: expected rank 'joint', found"),
        ({"rank": "joint", "kind": "forest"}, "kind: expected"),
    ],
)
def test_wrong_options_are_named(options, message):
    _, log = noiseless(1, samples=50)
    with pytest.raises(ValueError, match=message):
        eq.offline.fit(log, **options)


def test_pieces_must_be_alike():
    _, log = noiseless(1, samples=50)
    other = eq.offline.Log(log.contexts, log.actions[:, :3], log.rewards[:, :3])
    with pytest.raises(ValueError, match="same agents"):
        eq.offline.fit([log, other], 1)
    with pytest.raises(ValueError, match="log: expected a Log"):
        eq.offline.fit([], 1)


def test_designs_hold_all_groups():
    design = Design.of((3, 1, 2), 4)
    assert design.groups[-1] == (1, 2, 3)
    assert design.columns(3) == 1 + 3 * 2 + 3 * 4 + 8


def penalty_of(log: eq.offline.Log, rows: float) -> float:
    """The penalty of pairs by evidence, as if every row of the log had been seen so many times."""
    everybody = range(log.agents)
    designs = [Design.of([j for j in everybody if j != i], 2) for i in everybody]
    moves = max(log.actions_per_agent)
    moments = Moments.empty(designs, everybody, log.agents, 1, moves)
    moments.add(log.situations, log.moves, log.rewards)
    bases = bases_of(moments.counts)
    for sums in moments.sums:
        sums *= rows
    return evidence([cells_of(moments, k, bases) for k in everybody], 2)[2]


@pytest.mark.parametrize("rows", [1.0, 2.0**44])
def test_actions_that_nobody_plays_are_no_free_parameters(rows):
    """Two agents always agree, so that in very long logs their terms need more than the penalty.

    What is then added for unplayed actions must not make them count as fitted.
    """
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, (400, 3))
    actions[:, 2] = actions[:, 1]
    rewards = actions[:, :1] * (1 + actions[:, 1:2]) + 0.1 * rng.normal(size=(400, 3))
    played, declared = (
        penalty_of(eq.offline.Log(None, actions * last, rewards), rows) for last in (1, 5)
    )
    assert 1e-3 < played < 1.0
    assert declared == pytest.approx(played, rel=0.1)  # counted, they would be 5 for each


def test_a_fit_that_is_too_large_is_refused_before_anything_is_allocated():
    rng = np.random.default_rng(0)
    log = eq.offline.Log(None, rng.integers(0, 5, (50, 300)), rng.normal(size=(50, 300)))
    fit = eq.offline.fit  # imported before allocations are traced
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"at most 8 GB, found 17.2 GB .* neighbours='screen'"):
            fit(log, 2)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
