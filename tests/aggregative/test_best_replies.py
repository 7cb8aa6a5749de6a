"""Best replies, potentials and projections: exact equilibria in any dimension."""

import numpy as np
import pytest
from aggregative.crowd_games import crowd, roads

import equipoise as eq
from equipoise.aggregative._cells import stage_of
from equipoise.aggregative._replies import Replies
from equipoise.aggregative._structure import has_potential, project_rows, whole_agents


def steps(counts=(1000,), agents=1):
    """Going pays while no more than six in ten go: no Lipschitz constant holds."""
    bonus = 1e-9 * np.arange(agents)[:, None]
    worth = np.array([[0.0, 1.0]])
    return eq.AggregativeGame(
        [[[0.0], [1.0]]] * agents,
        lambda x: worth * (np.where(x[..., 0] <= 0.6, 0.5, -0.5) + bonus),
        1.0,
        counts=counts,
    )


class TestExactness:
    def test_a_thousand_firms(self):
        solution = eq.solve(eq.games.load("cournot", agents=1000))
        assert solution.certificate.max_gain <= solution.certificate.rounding
        assert solution.status.ok
        assert "best replies" in solution.stats["method"]

    def test_four_roads_and_drivers_who_all_differ(self):
        solution = eq.solve(roads(1000, 4))
        assert solution.certificate.max_gain <= solution.certificate.rounding
        assert solution.stats["method"] == "best replies"
        assert solution.stats["cells"] == 0

    @pytest.mark.parametrize(("counts", "agents"), [((1000,), 1), (None, 1000)])
    def test_rewards_that_jump(self, counts, agents):
        solution = eq.solve(steps(counts, agents))
        assert solution.certificate.max_gain <= solution.certificate.rounding
        assert solution.status.ok
        assert solution.stats["aggregate"] == pytest.approx(0.6)
        assert "larger `lipschitz`" not in solution.status.message

    @pytest.mark.parametrize("d", [8, 12, 20])
    def test_many_coordinates(self, d):
        game = eq.games.load("parallel-roads", agents=1000, roads=d)
        solution = eq.solve(game)
        assert solution.certificate.max_upper < 1e-6
        assert solution.stats["cells"] == 0
        with pytest.raises(ValueError, match="spacing: expected None for an aggregate of more"):
            eq.solve(game, spacing=0.1)

    def test_many_drivers(self):
        """Tangents and a sample come near; the largest gain is below one driver's influence."""
        game = roads(30_000, 3, seed=4)
        solution = eq.solve(game)
        assert solution.certificate.max_upper < 0.1 * game.lipschitz * game.delta
        assert solution.stats["method"] == "best replies"

    def test_a_monotone_game_without_a_potential(self):
        """Cyclic preferences: best replies go round, projections do not."""
        rng = np.random.default_rng(1)
        cyclic = rng.normal(size=(9, 9))
        table = cyclic - cyclic.T - 0.05 * np.eye(9)
        game = eq.AggregativeGame(
            np.eye(9)[None], lambda x: (table * x[..., None, :]).sum(-1)[..., None, :]
            if np.ndim(x) == 1 else (table * x).sum(-1),
            counts=[5000], bounds=(-100, 100),
        )  # fmt: skip
        assert not has_potential(stage_of(game))
        solution = eq.solve(game)
        assert solution.status.ok
        assert solution.stats["method"] == "projection"


class TestTime:
    def test_the_best_so_far_is_returned_when_time_is_up(self):
        game = crowd(40, 3, seed=3)
        solution = eq.solve(game, time_limit=0.0, tolerance=0.0)
        assert solution.policy.counts.sum() == 40
        assert solution.status.name in ("out of time", "solved")
        assert solution.status.ok == (solution.certificate.max_upper <= 0)

    def test_progress_is_told(self):
        told = []
        city = eq.games.load("demand-response", agents=100, horizon=2)
        eq.solve(city, progress=told.append)
        assert [one["stages"] for one in told] == [1, 2, 3, 4, 5, 6]


class TestParts:
    @pytest.mark.parametrize("counts", [None, [7, 5, 4]])
    @pytest.mark.parametrize("seed", range(4))
    def test_gains_are_those_of_the_certificate_and_never_grow(self, counts, seed, rng):
        game = crowd(3 if counts else 16, 2, seed=seed, counts=counts)
        stage = stage_of(game)
        plays = rng.multinomial(stage.counts, np.ones(3) / 3)
        replies = Replies(stage)
        first, after = replies.profile(plays), replies.improve(plays)
        for one in (first, after):
            actions = np.concatenate([np.repeat(np.arange(3), row) for row in one.plays])
            exact = eq.certify(game, actions).max_gain
            assert one.gain == pytest.approx(exact, abs=1e-14)
        assert after.gain <= first.gain
        assert (after.plays.sum(1) == stage.counts).all()

    def test_potentials_are_recognised(self):
        for name in ("two-roads", "parallel-roads", "cournot", "braess", "el-farol"):
            assert has_potential(stage_of(eq.games.load(name, agents=60)))
        assert has_potential(stage_of(roads(50, 4)))  # hurry weighs it
        assert not has_potential(stage_of(crowd(30, 2)))

    def test_a_declared_potential_is_taken_at_its_word(self):
        game = eq.games.load("parallel-roads", agents=200)
        for potential in (True, False):
            certificate = eq.solve(game, potential=potential).certificate
            assert certificate.max_gain <= certificate.rounding

    def test_projections_and_whole_agents(self, rng):
        points = rng.normal(size=(50, 4))
        shares = project_rows(points)
        np.testing.assert_allclose(shares.sum(1), 1.0)
        other = rng.dirichlet(np.ones(4), 50)
        # The nearest point makes an obtuse angle with every other.
        assert ((points - shares) * (other - shares)).sum(1).max() <= 1e-12
        plays = whole_agents(shares, np.ones(50, int))
        assert (plays.sum(1) == 1).all()
        assert np.abs(plays.sum(0) - shares.sum(0)).max() < 1.0


@pytest.mark.parametrize("potential", [True, None])
def test_best_replies_that_recur_end_without_a_time_limit(potential):
    """One population would meet the other, which would not be met: best replies go round."""
    influence = np.array([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
    sign = np.array([-1.0, 1.0])

    def reward(x):
        return np.stack([(2 * x[..., 1, None] - 1) * sign, (1 - 2 * x[..., 0, None]) * sign], -2)

    game = eq.AggregativeGame(influence, reward, 2.0, counts=[1, 1], scale=1.0, elementwise=False)
    solution = eq.solve(game, potential=potential, time_limit=np.inf)
    assert not solution.status.ok
    large = eq.AggregativeGame(
        influence, reward, 2.0, counts=[2001, 2001], scale=1 / 2001, elementwise=False
    )
    stage = stage_of(large)
    replies = Replies(stage, potential=potential)
    found = replies.reply(np.array([[2001, 0], [2001, 0]]), block=500)
    assert replies.evaluations < 2_000
    assert found.gain == replies.profile(found.plays).gain > 0.0
