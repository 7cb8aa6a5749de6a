"""The parts of the learner, each against a slow or independent computation of the same."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from aggregative.crowd_games import city

import equipoise as eq
from equipoise.aggregative._cells import stage_of
from equipoise.aggregative._classes import alone, policy_of
from equipoise.aggregative._subroutine import Options
from equipoise.aggregative.learning._learner import Errands, find_errands
from equipoise.aggregative.learning._planner import Planner, make_menu
from equipoise.aggregative.learning._samples import (
    Continuation,
    Radii,
    RewardBounds,
    Samples,
    centred,
    cover,
    grids_of,
)

RADII = Radii(log_transition=1.0, log_reward=1.0, states=3, noise=0.1, bonus=1.0)


@hypothesis.given(
    st.lists(st.floats(0.0, 3.0), min_size=1, max_size=3),
    st.floats(0.05, 1.0),
)
def test_cells_of_one_side_cover_the_box_with_centres_inside(widths, spacing):
    low, high = np.zeros(len(widths)), np.array(widths)
    grid = cover(low, high, spacing)
    assert grid.side <= spacing + 1e-12
    assert (grid.centres >= low - 1e-12).all()
    assert (grid.centres <= high + 1e-12).all()
    assert len(grid.centres) == np.prod(grid.shape)
    for x in np.random.default_rng(0).random((20, len(widths))) * high:
        centre = grid.centres[grid.nearest(x)]
        assert np.abs(x - centre).max() <= grid.side / 2 + 1e-9


def filled(spec, cells, seed=0, visits=60):
    """Samples that nobody planned."""
    rng = np.random.default_rng(seed)
    samples = Samples(spec, rewards=True)
    for _ in range(visits):
        h, s, c = rng.integers(spec.horizon), rng.integers(spec.states), rng.integers(cells)
        x = rng.random(spec.dimensions)
        plays = rng.multinomial(2, np.ones(spec.actions) / spec.actions, spec.types)
        where = (int(h), int(s), int(c))
        row = samples.add(where, x, int(rng.integers(spec.states)))
        samples.add_rewards(row, x, plays, plays * rng.random((spec.types, spec.actions)))
    return samples


def test_the_spread_of_samples_bounds_their_mean_distance():
    rng = np.random.default_rng(0)
    for d in (1, 2, 3):
        x = rng.random((50, d))
        middle, away = centred(np.array(50.0), x.sum(0), np.array((x**2).sum()))
        np.testing.assert_allclose(middle, x.mean(0))
        assert np.abs(x - x.mean(0)).max(1).mean() <= away
        assert away <= np.sqrt(d) * 0.5
    _, away = centred(np.array(1000.0), 1000 * x[:1].sum(0), np.array(1000 * (x[0] ** 2).sum()))
    assert away < 1e-7  # the same place again and again


@pytest.mark.parametrize("d", [1, 2])
def test_bounds_on_what_follows_are_those_of_all_cells(d):
    spec = eq.aggregative.Spec.of(city(3, 3, 2, d=d, counts=[5, 5, 5]))
    grid = grids_of(spec, 0.2)[0, 0]
    samples = filled(spec, len(grid.centres), visits=100)
    following = Continuation.of(samples, 0, 1, RADII, spec.transition_lipschitz)
    rng = np.random.default_rng(1)
    f = rng.random((3, 4))
    for x in rng.random((5, d)):
        naive = f.max(0)
        for c in samples.rows(0, 1):
            count = samples.visits[c]
            middle = samples.place[c] / count
            spread = samples.square[c] / count - middle @ middle
            away = RADII.transition(count) + spec.transition_lipschitz * (
                np.sqrt(max(spread, 0.0)) + np.abs(x - middle).max()
            )
            share = samples.following[c] / count
            naive = np.minimum(naive, share @ f + np.ptp(f, axis=0) * min(away, 1.0))
        np.testing.assert_allclose(following.upper(f, x), naive, atol=1e-7)
    direct = [following.upper(f[:, :1], x)[0] for x in grid.centres]
    np.testing.assert_allclose(following.upper_at(f[:, 0], grid.centres), direct, rtol=1e-14)


def test_without_samples_nothing_is_known():
    spec = eq.aggregative.Spec.of(city(2, 3, 2, counts=[5, 5])).unrewarded()
    samples = Samples(spec, rewards=True)
    following = Continuation.of(samples, 0, 0, RADII, 1.0)
    f = np.array([[0.0], [2.0], [1.0]])
    assert following.upper(f, np.zeros(1)) == [2.0]
    bounds = RewardBounds.of(spec, samples, 0, 0, RADII)
    assert (bounds.upper(np.zeros((1, 1))) == 1.0).all()
    assert (bounds.lower(np.zeros((1, 1))) == -1.0).all()
    assert (bounds.estimate(np.zeros((1, 1))) == 0.0).all()


@pytest.mark.parametrize("d", [1, 2])
def test_reward_envelopes_are_lipschitz_and_the_guess_lies_between(d):
    spec = eq.aggregative.Spec.of(city(3, 3, 2, d=d, counts=[5, 5, 5])).unrewarded()
    samples = filled(spec, 9)
    bounds = RewardBounds.of(spec, samples, 1, 2, RADII)
    points = np.random.default_rng(3).random((40, d))
    away = np.abs(points[:, None] - points).max(-1)
    for values in (bounds.upper(points), bounds.lower(points)):
        steps = np.abs(values[:, None] - values).max((-1, -2))
        assert (steps <= spec.lipschitz * away + 1e-9).all()
        assert (np.abs(values) <= 1.0).all()
    guess = bounds.estimate(points)
    assert (guess <= bounds.upper(points) + 1e-12).all()


def four_roads(agents=100):
    """One kind of agents and four roads, a coordinate each; delays are linear in the loads."""
    free, jam = np.array([0.1, 0.2, 0.15, 0.3]), np.array([0.8, 0.6, 0.7, 0.4])

    def reward(h, s, x):
        loads = np.broadcast_to(x, (*np.broadcast_shapes(x.shape[:-1], (1, 4)), 4))
        return -(free + jam * loads[..., range(4), range(4)])

    return eq.AggregativeMarkovGame(
        np.eye(4)[None],
        reward,
        lambda h, s, x: np.ones((*x.shape[:-1], 1)),
        1,
        1,
        [agents],
        lipschitz=0.8,
        transition_lipschitz=0,
        bounds=(-1.2, 0),
    )


def test_envelopes_at_each_entrys_own_aggregate_are_those_of_all():
    spec = eq.aggregative.Spec.of(city(3, 3, 2, d=2, counts=[5, 5, 5])).unrewarded()
    bounds = RewardBounds.of(spec, filled(spec, 9), 0, 1, RADII)
    points = np.random.default_rng(2).random((4, 3, 3, 2))
    own = bounds.own_upper(points)
    for where in np.ndindex(4, 3, 3):
        assert own[where] == bounds.upper(points[where][None])[0][where[1:]]


def test_plans_start_from_the_last_one_and_ask_little(monkeypatch):
    """Not even once all 160,000 cells, of which the simplex reaches a few thousand."""
    asked = []
    envelope = RewardBounds._envelope
    monkeypatch.setattr(
        RewardBounds,
        "_envelope",
        lambda self, x, sign: asked.append(len(x)) or envelope(self, x, sign),
    )
    game = four_roads()
    run = eq.learn(eq.aggregative.Simulator(game, noise=0.05), 60, rewards="unknown", noise=0.05)
    assert run.stats["cells"] == 20**4
    assert sum(asked) < 20_000
    assert run.stats["planning_bound"] <= game.lipschitz * 5 * game.delta + 1e-12  # Lemma A
    assert run.stats["sample_bytes"] < 20_000  # visited cells only
    assert eq.certify(game, run.policy).max_gain <= run.bound < 0.15


def test_only_cells_that_agents_reach_are_searched():
    """Brute force: every cell that holds a profile is among the reachable ones."""
    spec = eq.aggregative.Spec.of(four_roads(6))
    grid = grids_of(spec, 0.2)[0, 0]
    cells, centres = grid.reachable(stage_of(spec, (0, 0)))
    np.testing.assert_array_equal(centres, grid.centres[cells])
    profiles = [p for p in np.ndindex(7, 7, 7, 7) if sum(p) == 6]
    held = {grid.nearest(np.array(p) / 6) for p in profiles}
    assert held <= set(cells.tolist())
    assert len(cells) < grid.cells / 2


def test_the_menu_holds_what_planning_would_choose():
    """With what lies ahead added, the best entry is worth no less than `solve`'s stage."""
    game = city(4, 3, 1, seed=5, counts=[10] * 4)
    spec = eq.aggregative.Spec.of(game)
    planned = eq.solve(game, objective="welfare", spacing=0.05)
    grids = grids_of(spec, 0.05)
    options = Options(objective="welfare", spacing=0.05)
    for s in range(3):
        stage = stage_of(spec, (0, s))
        menu = make_menu(stage, options, grids[0, s], polish=False)
        assert menu.relaxed == 1
        assert menu.worth.max() >= planned.stats["welfare"][s] - 1e-3
        for plays, x in zip(menu.plays, menu.aggregate, strict=True):
            np.testing.assert_array_equal(plays.sum(1), spec.counts)
            own = spec.scale * np.einsum("ta,tad->d", plays, spec.influence)
            np.testing.assert_allclose(own, x)


def test_evaluation_with_endless_samples_is_exact():
    """Counts as large as one likes, in proportion to the true chances: values of the game."""
    game = city(3, 3, 3, seed=2, counts=[10, 20, 20])
    spec = eq.aggregative.Spec.of(game)
    grids = grids_of(spec, 0.05)
    cells = len(grids[0, 0].centres)
    radii = Radii.of(spec, cells, 10, noise=0.0, bonus=0.0, failure=0.1)
    planner = Planner(spec, grids, Options(), radii, None, known=True)
    samples = Samples(spec, rewards=False)
    joint, _ = planner.plan(samples)
    many = 10**9
    for h in range(3):
        for s in range(3):
            x = joint.aggregate[h, s]
            row = samples.row((h, s, int(joint.cell[h, s])))
            counts = np.round(many * game.transitions(h, s, x)).astype(np.int64)
            samples.following[row] = counts
            samples.visits[row] = counts.sum()
            samples.place[row] = counts.sum() * x
            samples.square[row] = counts.sum() * (x @ x)
    _, evaluation = planner.plan(samples)
    bounds = evaluation.bounds(joint)
    exact = eq.certify(game, policy_of(alone(spec.counts), joint.plays))
    np.testing.assert_allclose(bounds.upper, exact.class_value.T, atol=1e-6)
    np.testing.assert_allclose(bounds.lower, exact.class_value.T, atol=1e-6)
    np.testing.assert_allclose(bounds.welfare[0], exact.mean_value, atol=1e-6)
    assert (bounds.gain >= exact.class_gains.T - 1e-9).all()
    assert bounds.consistent


def test_scouts_try_what_may_pay_and_leave_the_rest_alone():
    spec = eq.aggregative.Spec(
        np.random.default_rng(0).random((2, 3, 1)),
        horizon=1,
        states=1,
        lipschitz=0.1,
        transition_lipschitz=0.0,
        counts=[10, 1],
    )
    plays = np.array([[10, 0, 0], [1, 0, 0]])
    low, high = np.array([[0.5, 0.0, 0.0]] * 2), np.array([[0.6, 0.9, 0.4]] * 2)
    errands = find_errands(spec, plays, low, high, most=None, shift=0.5)
    # The third action cannot pay; who is alone stays.
    assert errands.rows.tolist() == [0]
    assert errands.actions.tolist() == [1]
    np.testing.assert_array_equal(errands.send(plays, 0), [[9, 1, 0], [1, 0, 0]])
    both = Errands(np.array([0, 0]), np.array([1, 2]), 1)
    assert both.send(plays, 0).tolist()[0] == [9, 1, 0]
    assert both.send(plays, 1).tolist()[0] == [9, 0, 1]
    assert find_errands(spec, plays, low, high, most=0, shift=0.5).at_once == 0


def test_joint_policies_become_classes_by_rank():
    spec = eq.aggregative.Spec.of(city(1, 2, 2, counts=[10]))
    plays = np.zeros((2, 2, 1, 3), int)
    plays[..., 0] = 10
    plays[1, 1, 0] = [4, 0, 6]
    policy = policy_of(alone(spec.counts), plays)
    assert policy.counts.tolist() == [4, 6]
    assert policy.actions[:, 1, 1].tolist() == [0, 2]
