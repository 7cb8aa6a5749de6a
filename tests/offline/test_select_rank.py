"""The rank that a log supports."""

import numpy as np
import pytest

import equipoise as eq


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_right_rank_is_chosen(rank):
    family = eq.games.families.interaction_rank(6, 3, rank=rank, scale=0.1, noise=0.15)
    for key in range(2):
        log = eq.offline.collect(family.sample(key=key), "uniform", samples=4000, key=key + 50)
        selection = eq.offline.select_rank(log)
        assert selection.chosen == rank
        assert "<- chosen" in str(selection)


def test_held_out_errors_are_those_of_refitted_models():
    """From moments alone, and by fitting anew and predicting: the same numbers."""
    game = eq.games.families.polymatrix(3, 3, 2).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=600, key=1)
    selection = eq.offline.select_rank(log, ranks=(1,), joint=False, folds=3, key=5)
    import jax

    rng = np.random.default_rng(np.asarray(jax.random.key_data(jax.random.key(5))))
    fold = rng.permutation(600) % 3
    errors = []
    for f in range(3):
        model = eq.offline.fit(log.take(fold != f), 1)
        held = log.take(fold == f)
        left = held.rewards - model.game.interactions.rewards(held.contexts, held.actions)
        errors.append((left**2).mean(0) / log.rewards.var(0))
    assert selection.errors[0] == pytest.approx(np.mean(errors), rel=1e-6)


def test_a_network_stands_in_where_the_table_is_too_large():
    game = eq.games.families.polymatrix(8, 3).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=1500, key=1)
    selection = eq.offline.select_rank(log, ranks=(1, 2), folds=5)
    assert selection.ranks == (1, 2, "joint")
    assert selection.chosen == 2


def test_what_cannot_be_tried_is_said():
    game = eq.games.families.polymatrix(2, 2).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=400, key=1)
    selection = eq.offline.select_rank(log)
    assert "more than the 2 agents" in selection.notes[3]
    assert np.isnan(selection.errors[2])
    with pytest.raises(ValueError, match="folds: expected"):
        eq.offline.select_rank(log, folds=1)
    with pytest.raises(ValueError, match="log: expected at least"):
        eq.offline.select_rank(log.take(slice(0, 5)))
    with pytest.raises(ValueError, match="joint: expected"):
        eq.offline.select_rank(log, joint="forest")


def test_local_states_have_no_joint_critic():
    game = eq.games.families.polymatrix(3, 2, states=2, horizon=2, scale=0.3).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=2000, key=1)
    selection = eq.offline.select_rank(log, ranks=(1, 2))
    assert selection.ranks == (1, 2)
    assert selection.chosen == 2


def test_agents_with_a_single_action_have_rank_one():
    rewards = np.random.default_rng(0).random((60, 3))
    log = eq.offline.Log(np.zeros(60, int), np.zeros((60, 3), int), rewards)
    assert eq.offline.select_rank(log, joint=False).chosen == 1
    model = eq.offline.fit(log, rank=2)
    assert eq.certify(model.game, model.behaviour).max_gain == pytest.approx(0.0, abs=1e-12)


def test_the_level_of_rewards_does_not_matter():
    game = eq.games.families.polymatrix(3, 3).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=600, key=1)
    far = eq.offline.Log(log.contexts, log.actions, log.rewards.astype(float) + 2.0**20)
    near, moved = (eq.offline.select_rank(own, joint=False) for own in (log, far))
    assert moved.chosen == near.chosen == 2
    assert moved.errors == pytest.approx(near.errors, rel=1e-4, abs=1e-6)
    constant = eq.offline.Log(log.contexts, log.actions, np.full(log.rewards.shape, 1e6 + 0.1))
    assert eq.offline.select_rank(constant, joint=False).errors.tolist() == [0.0, 0.0, 0.0]


def test_a_rank_that_does_not_fit_into_memory_is_not_tried():
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 30, (100, 20))
    log = eq.offline.Log(rng.integers(0, 7, 100), actions, rng.random((100, 20)))
    with pytest.raises(ValueError, match=r"can be tried; \{2: 'not tried: 5 GB of sums"):
        eq.offline.select_rank(log, ranks=(2,), joint=False)


@pytest.mark.parametrize("level", [0.0, 1e4])
def test_rewards_without_noise_have_the_smallest_rank_that_is_exact(level):
    actions = np.random.default_rng(1).integers(0, 3, (400, 3))
    rewards = level + (actions == np.roll(actions, 1, 1))
    selection = eq.offline.select_rank(eq.offline.Log(np.zeros(400, int), actions, rewards))
    assert selection.chosen == 2
    assert (selection.errors >= 0).all()


def test_a_rank_with_too_many_features_is_tried_when_asked_for():
    game = eq.games.families.polymatrix(4, 3).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=600, key=1)
    few = eq.offline.select_rank(log, ranks=(1, 2), joint=False, largest=6)
    assert few.notes == {2: "not tried: 7 features, more than 6"}
    assert few.chosen == 1
    assert eq.offline.select_rank(log, ranks=(1, 2), joint=False, largest=7).chosen == 2
    with pytest.raises(ValueError, match="largest: expected a whole number >= 1, found 0"):
        eq.offline.select_rank(log, largest=0)
    with pytest.raises(ValueError, match="ranks: expected one that can be tried"):
        eq.offline.select_rank(log, ranks=(2,), joint=False, largest=6)


def small_log(samples, key=1, **options):
    game = eq.games.families.polymatrix(4, 3).sample(key=0)
    return game, eq.offline.collect(game, "uniform", samples=samples, key=key, **options)


def test_too_few_rows_to_tell_the_rank_leave_it_in_doubt():
    """Rank 1 has rows enough for itself; what it lost to nobody for want of rows is no finding."""
    game, log = small_log(30)
    selection = eq.offline.select_rank(log, joint=False)
    model = eq.offline.fit(log, selection.chosen)
    assert selection.chosen == 1
    assert model.samples_per_parameter > 4
    assert "rank 3 has only 0.55 samples per parameter" in selection.doubt
    solution = eq.offline.solve(model, selection=selection)
    assert solution.status.name == "refused"
    assert selection.doubt in str(solution.status)
    np.testing.assert_allclose(solution.policy[0], model.behaviour)
    # Followed all the same, it is worse than the log's own play.
    forced = eq.offline.solve(model, selection=selection, force=True)
    assert forced.status.ok
    gains = [eq.certify(game, own).max_gain for own in (forced.policy, model.behaviour)]
    assert gains[0] > gains[1]


def test_screening_on_few_rows_is_no_proof_that_nobody_matters():
    _, log = small_log(30)
    selection = eq.offline.select_rank(log, joint=False, neighbours="screen")
    assert selection.chosen == 1
    assert selection.doubt


def test_a_rank_that_was_not_tried_leaves_doubt_unless_much_is_explained():
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 3, (2000, 4))
    noise = rng.normal(size=(2000, 4))
    for own, doubtful in ((0.0, True), (2.0, False)):
        log = eq.offline.Log(None, actions, own * actions + noise)
        selection = eq.offline.select_rank(log, ranks=(1, 2), joint=False, largest=6)
        assert bool(selection.doubt) == doubtful
    assert eq.offline.select_rank(log, ranks=(1, 5), joint=False).doubt == ""


@pytest.mark.parametrize(
    ("own", "spread", "found"), [(0.2, 0.0, 1), (0.2, 1.0, 1), (0.0, 0.0, 0), (0.0, 1.0, 0)]
)
def test_little_is_learned_from_enough_data_and_nothing_from_noise(own, spread, found):
    """Little is explained, but larger ranks were tried on enough data: that is a finding."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 3, (600, 3))
    log = eq.offline.Log(None, actions, own * actions + spread * rng.normal(size=(600, 3)))
    selection = eq.offline.select_rank(log, joint=False)
    assert selection.chosen == 1
    assert selection.doubt == ""
    model = eq.offline.fit(log, 1)
    solution = eq.offline.solve(model, selection=selection, iterations=20)
    assert solution.status.name == ("learned" if found else "nothing learned")
    if not found:
        assert "no rank predicts rewards better than a constant" in str(solution.status)
        np.testing.assert_allclose(solution.policy[0], model.behaviour)


def test_noise_is_not_learned_from():
    """Rewards that nobody's action moves: every policy has a gap of zero."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        log = eq.offline.Log(None, rng.integers(0, 2, (400, 3)), rng.normal(size=(400, 3)))
        advice = eq.advise(log, iterations=30)
        assert advice.status.name == "nothing learned"
        low, high = advice.interval
        assert low <= 0.0 <= high < 0.4


def test_a_larger_rank_that_beats_a_constant_is_named():
    selection = eq.offline.RankSelection(
        (1, 2), np.array([1.0, 0.99]), np.array([0.02, 0.02]), 1, {}, np.arange(2),
        np.array([90.0, 30.0]), np.array([-0.001, 0.01]), np.array([0.002, 0.003]),
    )  # fmt: skip
    assert selection.nothing.endswith("set the rank to 2 instead")


def test_contexts_that_differ_are_no_reason_to_learn():
    """A constant of each context predicts all there is: actions move nothing."""
    rng = np.random.default_rng(2)
    contexts = rng.integers(0, 2, 800)
    rewards = 5.0 * contexts[:, None] + rng.normal(size=(800, 2))
    log = eq.offline.Log(contexts, rng.integers(0, 2, (800, 2)), rewards)
    selection = eq.offline.select_rank(log, ranks=(1, 2), joint=False)
    assert selection.errors.min() < 0.3
    assert selection.nothing


def test_a_selection_of_another_rank_is_refused():
    game, log = small_log(400)
    selection = eq.offline.select_rank(log, joint=False)
    with pytest.raises(
        ValueError, match="selection: expected a selection that chose the model's rank"
    ):
        eq.offline.solve(eq.offline.fit(log, 1), selection=selection)
    with pytest.raises(ValueError, match="selection: expected"):
        eq.offline.solve(game, selection=selection, behaviour="uniform")
