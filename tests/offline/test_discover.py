"""What a log can tell about its game, and when it must not be learned from."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.core import InputError
from equipoise.offline._aggregate import Aggregate, fit_aggregate, scores_of
from equipoise.offline._bounds import expansion

QUICK = {"iterations": 100}


def bar(seed, agents=20, room=12, samples=3000):
    """El Farol's bar: going pays while there is room."""
    rng = np.random.default_rng(seed)
    go = rng.integers(0, 2, (samples, agents))
    rewards = go * np.where(go.sum(1, keepdims=True) <= room, 1.0, -1.0)
    return eq.offline.Log(None, go, rewards + rng.normal(0, 0.15, rewards.shape))


def bar_gap(policy, agents=20, room=12):
    """The true gap, by the distribution of how many others go."""
    table = np.zeros((1, agents, 2, agents))
    table[..., 1, :] = np.where(np.arange(agents) < room, 1.0, -1.0)
    rewards = Aggregate(table, ((0,), (1,)), (agents,)).expected(policy.policies)
    value = (rewards * policy.policies).sum(-1).mean(0)
    return float((rewards.mean(0).max(-1) - value).max())


def test_the_bar_is_an_aggregate_and_is_learned():
    log = bar(700)
    advice = eq.advise(log, **QUICK)
    assert advice.status.ok
    assert advice.structure.chosen == "sum"
    assert isinstance(advice.policy, eq.Mixture)
    assert advice.policy.policies.shape[1:] == (1, 20, 2)
    gap = bar_gap(advice.policy)
    low, high = advice.interval
    assert low <= gap <= high < 0.1
    assert len(set(advice.structure.types)) == 1
    small = bar(715, agents=8, room=5, samples=800)
    refused = eq.advise(small, rank=2, **QUICK)
    assert refused.status.name == "refused"
    assert "pairs leaves" in refused.status.message


def test_the_bar_can_be_solved_as_an_aggregative_game():
    log = bar(701, agents=10, room=6, samples=1000)
    model = eq.offline.fit(log, "sum")
    crowd = model.to_aggregative()
    assert isinstance(crowd, eq.AggregativeGame)
    assert crowd.agents == 10
    # With six there and four away, nobody wants to change.
    assert eq.certify(crowd, np.repeat([1, 0], [6, 4])).max_gain < 0.05
    with pytest.raises(InputError, match="model: expected"):
        eq.offline.fit(log, 1).to_aggregative()


@pytest.mark.parametrize("options", [{"rank": 2}, {"neighbours": "screen", "rank": 2}])
def test_triples_are_found_and_a_rank_too_small_is_refused(options):
    family = eq.games.families.interaction_rank(5, 2, rank=3, scale=0.25, noise=0.15)
    game = family.sample(key=702)
    log = eq.offline.collect(game, "uniform", samples=2500, key=703)
    refused = eq.advise(log, **QUICK, **options)
    assert refused.status.name == "refused"
    assert "the class does not fit" in refused.status.message
    assert len(refused.policy) == 1
    if "neighbours" not in options:
        advice = eq.advise(log, **QUICK)
        assert advice.status.ok
        assert str(advice.structure.chosen).startswith("3")
        gap = eq.certify(game, advice.policy).max_gain
        low, high = advice.interval
        assert low <= gap <= high
        assert gap < 0.1


def test_a_hidden_cause_of_actions_and_rewards_is_refused():
    rng = np.random.default_rng(704)
    hidden = rng.integers(0, 2, (1500, 1))
    actions = (rng.random((1500, 5)) < 0.25 + 0.5 * hidden).astype(int)
    rewards = actions * 0.1 + hidden + rng.normal(0, 0.2, (1500, 5))
    found = eq.advise(eq.offline.Log(None, actions, rewards), **QUICK)
    assert found.status.name == "refused"
    assert "actions are correlated (10 pairs" in found.status.message
    assert found.structure.dependence[0]["strength"] > 0.1
    # As a context it is no longer hidden.
    told = eq.advise(eq.offline.Log(hidden[:, 0], actions, rewards), **QUICK)
    assert told.status.ok


def test_copied_rows_are_left_out():
    rng = np.random.default_rng(705)
    actions, rewards = rng.integers(0, 2, (30, 3)), rng.normal(size=(30, 3))
    log = eq.offline.Log(None, np.repeat(actions, 50, 0), np.repeat(rewards, 50, 0))
    found = eq.advise(log, **QUICK)
    assert not found.status.ok
    assert found.structure.copies == 1470
    assert "1,470 rows are copies of others and were left out" in found.stats["warnings"]
    # Few possible rewards repeat by nature.
    coins = eq.offline.Log(None, rng.integers(0, 2, (800, 3)), rng.integers(0, 2, (800, 3)))
    assert eq.offline.discover(coins, ranks=(1,)).copies == 0


def test_rewards_that_turn_over_half_way_are_refused():
    game = eq.games.families.polymatrix(4, 2, scale=0.25).sample(key=706)
    log = eq.offline.collect(game, "uniform", samples=1600, key=707)
    sign = np.where(np.arange(1600) < 800, 1.0, -1.0)[:, None]
    turned = eq.offline.Log(None, log.actions, (log.rewards - 0.5) * sign)
    found = eq.advise(turned, **QUICK)
    assert found.status.name == "refused"
    assert "rewards drift" in found.status.message
    assert found.structure.drift > 0.3
    assert eq.offline.discover(log).drift < 0.01


def test_actions_that_were_never_tried_are_refused_and_listed():
    game = eq.games.families.polymatrix(4, 3, scale=0.25).sample(key=708)
    play = np.full((1, 4, 3), 1 / 3)
    play[0, :2] = [0.5, 0.5, 0.0]
    log = eq.offline.collect(game, play, samples=1500, key=709)
    log = eq.offline.Log(None, log.actions, log.rewards, actions_per_agent=3)
    found = eq.advise(log, **QUICK)
    assert found.status.name == "refused"
    assert found.structure.untried == [[0, 2], [1, 2]]
    assert found.stats["unknown"] == ["0: 2", "1: 2"]
    assert any("unknown for 2 deviations" in warning for warning in found.stats["warnings"])


def test_what_no_class_explains_is_refused():
    rng = np.random.default_rng(710)
    actions = rng.integers(0, 2, (3000, 11))
    parity = (actions.sum(1, keepdims=True) % 2) * np.ones((1, 11))
    parity = np.where(actions[:, :7].sum(1, keepdims=True) % 2, 1.0, 0.0) * parity
    log = eq.offline.Log(None, actions, parity + rng.normal(0, 0.1, parity.shape))
    structure = eq.offline.discover(log, ranks=(1, 2))
    assert "none of these classes fits" in structure.refusal
    assert structure.floor_from == "repeated joint actions"
    assert structure.floor < 0.1


def test_small_joint_spaces_are_learned_whole():
    rng = np.random.default_rng(711)
    actions = rng.integers(0, 2, (2000, 5))
    rewards = rng.normal(size=(32, 5))[actions @ 2 ** np.arange(5)]
    log = eq.offline.Log(None, actions, rewards + rng.normal(0, 0.1, rewards.shape))
    advice = eq.advise(log, **QUICK)
    assert advice.structure.chosen == "joint"
    assert advice.status.ok
    assert advice.bound < 0.5


@pytest.mark.parametrize("kind", ["sum", "mean", "histogram"])
def test_expected_rewards_of_an_aggregate_equal_brute_force(kind):
    rng = np.random.default_rng(712)
    log = eq.offline.Log(None, rng.integers(0, 3, (300, 4)), rng.normal(size=(300, 4)))
    scores, grid = scores_of(log, kind)
    given = (log.situations, log.moves, log.rewards, (1, 3), scores, grid, kind)
    terms = fit_aggregate(*given)[0]
    play = rng.dirichlet(np.ones(3), (2, 1, 4))
    found = terms.expected(play)
    joint = np.stack(np.meshgrid(*[np.arange(3)] * 4, indexing="ij"), -1).reshape(-1, 4)
    rewards = terms.rewards(np.zeros(81, int), joint)
    for b in range(2):
        for i in range(4):
            others = [j for j in range(4) if j != i]
            chance = np.prod([play[b, 0, j, joint[:, j]] for j in others], 0)
            for a in range(3):
                at = joint[:, i] == a
                assert found[b, 0, i, a] == pytest.approx(chance[at] @ rewards[at, i], abs=1e-12)


@pytest.mark.parametrize(("jump", "least"), [(False, 2.0), (True, 0.9)])
def test_aggregates_borrow_from_neighbouring_sums_unless_rewards_jump(jump, least):
    rng = np.random.default_rng(713)
    actions = rng.integers(0, 4, (1200, 16))
    others = actions.sum(1, keepdims=True) - actions
    rise = np.where(others > 22, 1.0, -1.0) if jump else np.tanh((others - 22.5) / 8)
    rewards = rise + rng.normal(0, 0.3, rise.shape)
    log = eq.offline.Log(None, actions, rewards)
    scores, grid = scores_of(log, "sum")
    given = (log.situations, log.moves, log.rewards, (1, 4), scores, grid)
    errors = (fit_aggregate(*given)[0].rewards(log.situations, log.moves) - rise) ** 2
    cells = np.zeros((16, 4, 46, 2))
    at = (np.arange(16), actions, others)
    np.add.at(cells, at, np.stack([np.ones_like(rise), rewards], -1))
    means = (cells[..., 1] / np.maximum(cells[..., 0], 1))[at]
    assert ((means - rise) ** 2).mean() > least * errors.mean()


def test_a_mean_is_told_from_a_sum_where_agents_are_absent():
    """Half of the agents are away at any time; what counts is the mean of those who are there."""
    rng = np.random.default_rng(835)
    agents, rows = 6, 3000
    away, price = rng.random((2, rows, agents)) < 0.5
    there = ~away
    others = there.sum(1, keepdims=True) - there
    mean = ((there & price).sum(1, keepdims=True) - (there & price)) / np.maximum(others, 1)
    pay = np.where(price, 1.0 - 2.0 * mean, 0.0) + rng.normal(0, 0.1, price.shape)
    labels = {"states": ("present", "absent")}
    log = eq.offline.Log(
        None, price & there, np.where(there, pay, 0.0), states=away, labels=labels,
        next_states=np.zeros_like(away), states_count=2,
    )  # fmt: skip
    structure = eq.offline.discover(log, ranks=(1, 2))
    errors = {one["class"]: one["error"] for one in structure.classes}
    assert structure.chosen == "mean"
    assert errors["mean"] < 0.7 * errors["sum"]
    advice = eq.advise(log, rank="mean", **QUICK)
    assert advice.status.ok, advice.status.message
    assert advice.policy.policies[0].shape == (1, 1, agents, 2, 2)


def test_the_expansion_is_the_product_where_it_is_whole():
    ratios = np.random.default_rng(713).uniform(0, 2, (4, 3, 2))
    found = expansion(ratios - 1.0, None, 4)
    for i in range(4):
        np.testing.assert_allclose(found[i], np.delete(ratios, i, 0).prod(0))
    sets = np.zeros((4, 4))
    sets[0, [1, 3]] = 1.0
    np.testing.assert_allclose(expansion(ratios - 1.0, sets, 3)[0], ratios[1] * ratios[3])


def test_a_structure_is_plain_and_reads_back():
    log = bar(714, agents=6, room=3, samples=400)
    structure = eq.offline.discover(log, ranks=(1, 2))
    again = eq.offline.Structure.from_plain(structure.to_plain())
    assert again == structure
    text = str(structure)
    assert "own action by the sum of others'" in text
    assert "not tried: same as the sum" in text


def test_a_triple_is_listed_though_none_of_its_pairs_matters():
    rng = np.random.default_rng(830)
    actions = rng.integers(0, 2, (1500, 6))
    signs = 2 * actions - 1
    both = signs * np.roll(signs, -1, 1) * np.roll(signs, -2, 1)
    log = eq.offline.Log(None, actions, 0.5 * both + rng.normal(0, 0.5, both.shape))
    structure = eq.offline.discover(log)
    found = {(one["reward_of"], *one["with"]) for one in structure.interactions}
    assert found == {(i, *sorted(((i + 1) % 6, (i + 2) % 6))) for i in range(6)}
    assert all(abs(one["strength"] - 0.5) < 0.1 for one in structure.interactions)
    assert "triples that interact: 6" in str(structure)
    assert structure.tried == [np.bincount(own, minlength=2).tolist() for own in actions.T]
    noise = eq.offline.Log(None, actions, rng.standard_t(3, actions.shape))
    assert eq.offline.discover(noise, ranks=(1,)).interactions == []


def test_a_class_that_does_not_fit_is_told_once():
    game = eq.games.families.interaction_rank(agents=5, actions=2, rank=3, scale=0.25)
    log = eq.offline.collect(game.sample(key=831), "uniform", samples=2500, key=832)
    told = eq.advise(log, rank=1, **QUICK).status.message
    assert "the class does not fit" in told
    assert "none of these classes fits" not in told
    # Nothing fits noise, and no class is said to fit it better.
    rng = np.random.default_rng(833)
    noise = eq.offline.Log(None, rng.integers(0, 3, (30, 6)), rng.normal(size=(30, 6)))
    assert "does not fit" not in eq.offline.discover(noise).refusal


def test_contexts_that_are_seen_once_are_refused_at_once(monkeypatch):
    rng = np.random.default_rng(834)
    actions = rng.integers(0, 3, (600, 6))
    rewards = actions + rng.normal(0, 0.3, actions.shape)
    log = eq.offline.Log(rng.integers(0, 900_000, 600), actions, rewards)
    structure = eq.offline.discover(log, ranks=(1, 2))
    assert structure.chosen == 1  # of all contexts together
    assert "contexts are too many for 600 rows" in structure.refusal
    monkeypatch.setattr("equipoise.offline._discrete.comparison", None)
    found = eq.advise(log)
    assert found.status.name == "refused"
    assert "merge contexts or leave them out" in found.status.message
    assert found.interval is None
    assert found.bound == np.inf
    monkeypatch.undo()
    assert eq.advise(log.pooled(), **QUICK).status.ok


@pytest.mark.parametrize("rank", ["auto", 3])
def test_all_neighbours_are_used_where_a_test_of_pairs_misses_some(rank):
    family = eq.games.families.interaction_rank(6, 2, rank=3, scale=0.45)
    game = family.sample(key=7002)
    log = eq.offline.collect(game, "uniform", samples=3000, key=7003)
    advice = eq.advise(log, rank=rank, neighbours="screen", **QUICK)
    assert advice.status.ok, advice.status.message
    assert advice.structure.chosen == "3 dense"
    assert advice.structure.neighbours[0] == [1, 2, 3, 4, 5]
    assert eq.certify(game, advice.policy).max_gain < min(0.1, advice.bound)
    # Neighbours that the caller lists are kept, and refused if they are too few.
    few = [[(i + 1) % 6] for i in range(6)]
    refused = eq.advise(log, neighbours=few, **QUICK)
    assert refused.status.name == "refused"


def test_independent_actions_are_not_correlated_where_a_context_has_few_rows():
    """Few cells of a table are frequent enough to be compared, in a row or alone."""
    rng = np.random.default_rng(900)
    actions = rng.integers(0, 3, (300, 6))
    log = eq.offline.Log(np.arange(300) % 8, actions, rng.normal(size=actions.shape))
    found = eq.offline.discover(log)
    assert not found.dependence
    assert "correlated" not in found.refusal


def test_agents_who_are_absent_in_turn_are_told_apart_from_correlated_actions():
    game = eq.games.families.polymatrix(4, 2, scale=0.3).sample(key=20)
    log = eq.offline.collect(game, "uniform", samples=1200, key=21)
    away = np.zeros((1200, 4), bool)
    away[:500, 3] = away[800:, 0] = True  # one opens late, another closes early
    given = {"states": away, "next_states": np.zeros_like(away), "states_count": 2}
    names = {"states": ("present", "absent"), "players": ("Ann", "Bob", "Cyd", "Dee")}
    rewards, actions = np.where(away, 0.0, log.rewards), np.where(away, 0, log.actions)
    found = eq.offline.discover(eq.offline.Log(None, actions, rewards, labels=names, **given))
    assert "absent together, or one instead of the other (Ann and Dee)" in found.refusal
    assert "actions are correlated" not in found.refusal
    assert not found.dependence
    # The same absences, but actions of two agents go together while both are present.
    actions = np.where(away, 0, np.where(np.arange(4) == 2, log.actions[:, 1:2], log.actions))
    found = eq.offline.discover(eq.offline.Log(None, actions, rewards, labels=names, **given))
    assert "actions are correlated (Bob and Cyd)" in found.refusal
