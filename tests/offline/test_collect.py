"""Logs of known games, and what is summed up of them."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.games import Interactions, Mixture
from equipoise.offline import Log, _collect, collect, coverage, estimate_behaviour

FAMILIES = eq.games.families


def contextual(noise=0.0, **sizes) -> eq.ContextualGame:
    return FAMILIES.polymatrix(
        **{"agents": 4, "actions": 3, "contexts": 2, **sizes}, noise=noise
    ).sample(key=0)


def markov(noise=0.0) -> eq.DecoupledMarkovGame:
    family = FAMILIES.polymatrix(3, 2, 2, states=3, horizon=4, noise=noise)
    return family.sample(key=0)


def random_policy(rng, game):
    return rng.dirichlet(np.ones(game.policy_shape[-1]), game.policy_shape[:-1])


def test_frequencies_are_those_of_the_behaviour(rng):
    game = contextual()
    policy = random_policy(rng, game)
    log = collect(game, policy, samples=20_000, key=0)
    np.testing.assert_array_equal(log.behaviour, policy)
    assert abs(np.mean(log.contexts) - 0.5) < 0.02
    np.testing.assert_allclose(estimate_behaviour(log), policy, atol=0.025)
    # Agents choose independently of each other.
    centred = log.actions - log.actions.mean(0)
    same = centred[log.contexts == 0]
    correlation = np.corrcoef(same.T) - np.eye(4)
    assert np.abs(correlation).max() < 0.05


def test_rewards_are_those_of_the_game():
    game = contextual()
    log = collect(game, samples=500, key=0)
    exact = game.interactions.rewards(log.contexts, log.actions)
    np.testing.assert_array_equal(log.rewards, exact)
    noisy = collect(contextual(noise=0.3), samples=500, key=0)
    np.testing.assert_array_equal(noisy.actions, log.actions)
    noise = noisy.rewards - exact
    assert abs(noise.std() - 0.3) < 0.03
    assert abs(noise.mean()) < 0.03


@pytest.mark.parametrize("make", [contextual, markov])
def test_a_longer_log_begins_with_the_shorter_one(make, monkeypatch):
    monkeypatch.setattr(_collect, "_BLOCK", 16)
    game = make(noise=0.1)
    short, long = (collect(game, samples=n, key=3) for n in (20, 50))
    for name in ("contexts", "actions", "rewards", "states"):
        if getattr(short, name) is not None:
            np.testing.assert_array_equal(
                getattr(short, name), getattr(long, name)[: short.samples], name
            )
    assert (collect(game, samples=20, key=4).actions != short.actions).any()


def test_large_logs_are_kept_in_single_precision(monkeypatch):
    game = contextual(noise=0.1)
    small = collect(game, samples=100, key=0)
    monkeypatch.setattr(_collect, "LARGE", 100)
    large = collect(game, samples=100, key=0)
    assert (small.rewards.dtype, large.rewards.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(large.rewards, small.rewards, atol=1e-6)


def test_episodes_follow_the_occupancies_and_the_values(rng):
    game = markov()
    policy = random_policy(rng, game)
    log = collect(game, policy, samples=20_000, key=0)
    assert (log.samples, log.horizon, log.states_count) == (80_000, 4, 3)
    counts = coverage(log).counts
    frequencies = counts / counts.sum((-1, -2), keepdims=True)
    np.testing.assert_allclose(frequencies, game.occupancies(policy), atol=0.025)
    value = log.rewards.reshape(-1, 4, 3).sum(1).mean(0)
    np.testing.assert_allclose(value, eq.certify(game, policy).value, atol=0.02)


def test_a_mixture_is_drawn_for_all_agents_together():
    game = contextual(contexts=1, actions=2)
    same = np.zeros((2, 1, 4, 2))
    same[0, ..., 0] = same[1, ..., 1] = 1.0
    log = collect(game, Mixture(same, [0.25, 0.75]), samples=4000, key=0)
    assert log.behaviour is None
    assert (log.actions == log.actions[:, :1]).all()
    assert abs(log.actions.mean() - 0.75) < 0.03


def test_actions_without_a_chance_are_never_played():
    """Also where rounding makes a sum fall short of one."""
    policy = np.zeros((1, 2, 4))
    policy[0, 0] = [0.0, 0.3, 0.0, 0.7]
    policy[0, 1] = [0.1, 0.2, 0.7 - 1e-9, 0.0]
    policy /= policy.sum(-1, keepdims=True)
    terms = Interactions({1: [[0], [1]]}, {1: np.zeros((1, 2, 4))}, 2)
    log = collect(eq.ContextualGame(terms), policy, samples=50_000, key=0)
    assert set(np.unique(log.actions[:, 0])) == {1, 3}
    assert set(np.unique(log.actions[:, 1])) == {0, 1, 2}
    thresholds = _collect._thresholds(np.array([0.1, 0.2, 0.7 - 1e-9, 0.0]))
    assert thresholds[-1] == 2**31 - 1


def test_a_game_that_logs_itself():
    class Consensus:
        def simulate(self, behaviour, samples, key):
            rng = np.random.default_rng(key)
            actions = rng.uniform(-1, 1, (samples, 3))
            rewards = actions * actions.sum(1, keepdims=True)
            return Log(np.zeros(samples, int), actions, rewards, continuous=True)

    assert isinstance(Consensus(), eq.offline.Simulator)
    log = collect(Consensus(), "uniform", samples=10, key=0)
    assert log.continuous
    assert log.actions_per_agent == ()
    with pytest.raises(ValueError, match="found continuous actions"):
        coverage(log)

    class Wrong:
        def simulate(self, behaviour, samples, key):
            return behaviour

    with pytest.raises(ValueError, match="expected simulate to return a Log, found str"):
        collect(Wrong(), samples=10, key=0)


@pytest.mark.parametrize(
    ("game", "behaviour", "complaint"),
    [
        (eq.MatrixGame([[0.0]]), "uniform", "found MatrixGame"),
        (contextual(), "greedy", 'expected "uniform", .* found .greedy.'),
        (contextual(), np.full((4, 3), 1 / 3), "expected a product policy of shape"),
        (contextual(), np.full((2, 4, 3), 0.3), "sum to 1"),
    ],
)
def test_wrong_arguments_are_refused(game, behaviour, complaint):
    with pytest.raises(ValueError, match=complaint):
        collect(game, behaviour, samples=10, key=0)


def test_actions_an_agent_lacks_are_refused():
    terms = Interactions({1: [[0], [1]]}, {1: np.zeros((1, 2, 3))}, 2)
    game = eq.ContextualGame(terms, actions=(3, 2))
    assert collect(game, samples=200, key=0).actions.max(0).tolist() == [2, 1]
    with pytest.raises(
        ValueError, match=r"no probability on missing actions, found some at \[0, 1, 2\]"
    ):
        collect(game, np.full((1, 2, 3), 1 / 3), samples=10, key=0)


def test_counts_of_many_rows(rng):
    """More rows than fit into a byte, in parts, in several contexts."""
    contexts, actions = rng.integers(0, 3, 2000), rng.integers(0, 3, (2000, 2))
    counts = coverage(Log(contexts, actions, np.zeros((2000, 2)))).counts
    direct = np.zeros((3, 2, 3), int)
    for c, row in zip(contexts, actions, strict=True):
        for i, a in enumerate(row):
            direct[c, i, a] += 1
    np.testing.assert_array_equal(counts, direct)


def test_what_was_not_tried_is_said():
    actions = [[0, 0], [1, 0], [0, 1], [0, 0]]
    log = Log([0, 0, 0, 1], actions, np.zeros((4, 2)), actions_per_agent=(2, 2), contexts_count=3)
    summary = coverage(log)
    np.testing.assert_allclose(summary.covered, [3 / 4, 3 / 4])
    np.testing.assert_allclose(summary.seen, [2 / 3, 2 / 3])
    assert summary.fewest.tolist() == [0, 0]
    assert np.isinf(summary.concentrability).all()
    estimated = estimate_behaviour(log)
    np.testing.assert_allclose(estimated[:, 0], [[2 / 3, 1 / 3], [1, 0], [0.5, 0.5]])
    smoothed = estimate_behaviour(log, smoothing=1.0)
    np.testing.assert_allclose(smoothed[:, 0], [[3 / 5, 2 / 5], [2 / 3, 1 / 3], [0.5, 0.5]])
    with pytest.raises(ValueError, match="smoothing"):
        estimate_behaviour(log, smoothing=-1.0)


def test_concentrability_of_a_known_behaviour():
    policy = np.array([[[0.2, 0.8], [0.5, 0.5]]])
    game = contextual(agents=2, actions=2, contexts=1)
    summary = coverage(collect(game, policy, samples=1000, key=0))
    np.testing.assert_allclose(summary.concentrability, [5.0, 2.0])
    assert "concentrability, estimated: 5 (agent 0)" in str(summary)
