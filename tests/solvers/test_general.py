"""`solve` and `equilibria` of general-sum games, as users call them."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
from soak.general_sum import main
from support import peer

import equipoise as eq
from equipoise.solvers import _bimatrix, _general

RNG = np.random.default_rng(0)
DILEMMA = eq.NormalFormGame([[[3, 0], [5, 1]], [[3, 5], [0, 1]]])
SEVENTHS = [[3, -1], [-2, 1]]  # no equilibrium in binary fractions
UNEVEN = 1e6 * RNG.normal(size=(2, 20, 20))


class TestNormalForms:
    @pytest.mark.parametrize(
        "name", [n for n in eq.games.names() if eq.games.describe(n).kind == "normal-form"]
    )
    @pytest.mark.parametrize("concept", ["nash", "ce", "cce"])
    def test_the_catalogue(self, name, concept):
        parameters = {"high": 14} if name == "travellers-dilemma" else {}
        game = eq.games.load(name, **parameters)
        solution = eq.solve(game, concept=concept)
        assert solution.status.ok
        assert solution.certificate.concept == concept
        assert solution.value.shape == (game.players,)
        kind = eq.Profile if concept == "nash" else eq.JointPolicy
        assert isinstance(solution.policy, kind)

    def test_constant_sum_games_are_recognised(self):
        payoff = RNG.random((4, 3))
        solution = eq.solve(eq.NormalFormGame([payoff, 5 - 2 * payoff]))
        assert solution.status.ok
        assert solution.stats["method"] == "zero-sum program"
        value = float(eq.solve(eq.MatrixGame(payoff)).value)
        assert solution.value == pytest.approx([value, 5 - 2 * value])

    def test_objectives_select_among_nash_equilibria(self):
        stag = eq.games.load("stag-hunt")
        best = eq.solve(stag, objective="welfare")
        values = [s.value.sum() for s in eq.equilibria(stag)]
        assert best.value.sum() == pytest.approx(max(values))
        assert best.stats["bound"] >= best.stats["objective"] - 1e-9

    def test_a_batch_is_its_games_one_by_one(self):
        game = eq.NormalFormGame(RNG.normal(size=(2, 5, 2, 3, 4)), players=2)
        solution = eq.solve(game, start=2)
        assert solution.status.ok
        assert solution.value.shape == (2, 5, 2)
        one = eq.solve(game[1, 3], start=2)
        for ours, theirs in zip(solution.policy, one.policy, strict=True):
            assert ours[1, 3] == pytest.approx(theirs)
        assert solution.certificate[1, 3].gains == pytest.approx(one.certificate.gains)

    def test_large_batches_are_certified_alike(self):
        game = eq.NormalFormGame(RNG.normal(size=(3000, 2, 3, 3)), players=2)
        solution = eq.solve(game)
        assert solution.status.ok
        for k in (0, 1234, 2999):
            one = eq.certify(game[k], [own[k] for own in solution.policy])
            for name in ("gains", "upper", "value"):
                ours, theirs = (getattr(c, name) for c in (solution.certificate[k], one))
                assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-14)

    @pytest.mark.parametrize("concept", ["nash", "ce", "cce"])
    def test_batches_of_more_players_and_other_concepts(self, concept):
        game = eq.NormalFormGame(RNG.normal(size=(2, 2, 3, 2, 3, 2)), players=3)
        objective = None if concept == "nash" else "welfare"
        solution = eq.solve(game, concept=concept, objective=objective)
        assert solution.status.ok
        assert solution.value.shape == (2, 2, 3)
        assert solution.tolerance.shape == (2, 2)
        assert solution.stats["tolerances"].shape == (2, 2, 3)
        one = eq.solve(game[1, 0], concept=concept, objective=objective)
        assert solution.value[1, 0] == pytest.approx(one.value)
        assert solution.certificate[1, 0].concept == concept
        assert solution.certificate.exact
        if objective:
            assert solution.stats["bound"][1, 0] == pytest.approx(one.stats["bound"])

    def test_batches_of_other_kinds(self):
        pairs = eq.NormalFormGame(RNG.normal(size=(3, 2, 3, 2)), players=2)
        noisy = eq.solve(pairs, concept="logit", rationality=2.0)
        assert noisy.status.solved.tolist() == [True] * 3
        assert eq.solve(pairs, objective="welfare").status.ok
        zero_sum = eq.MatrixGame(RNG.normal(size=(3, 2, 4)))
        joint = eq.solve(zero_sum, concept="cce")
        assert joint.value == pytest.approx(eq.solve(zero_sum).value)

    def test_a_batch_keeps_to_its_time(self):
        game = eq.NormalFormGame(RNG.normal(size=(4, 3, 9, 9, 9)), players=3)
        for concept in ("nash", "ce"):
            solution = eq.solve(game, concept=concept, time_limit=0.0)
            assert solution.value.shape == (4, 3)
            assert solution.status.solved.all() or solution.status.name == "out of time"

    def test_quantal_responses(self):
        solution = eq.solve(DILEMMA, concept="logit", rationality=0.5)
        assert solution.status.ok
        assert 0.5 < solution.policy[0][1] < 1.0
        assert solution.stats["path"].shape == (len(solution.stats["path_rationality"]), 4)

    def test_time_runs_out(self):
        game = eq.NormalFormGame(RNG.random((3, 15, 15, 15)))
        solution = eq.solve(game, method="logit", time_limit=0.0)
        assert solution.status.name == "out of time"
        assert "time_limit" in solution.status.message

    @pytest.mark.parametrize("concept", ["nash", "ce"])
    def test_an_objective_is_never_bought_with_a_gain(self, concept):
        game = eq.NormalFormGame(np.random.default_rng(1).random((3, 12, 12, 12)))
        solution = eq.solve(game, concept=concept, objective="welfare", time_limit=0.5)
        assert solution.stats["bound"] >= solution.stats["objective"] - 1e-9
        assert solution.status.ok or solution.status.name == "out of time"

    @pytest.mark.parametrize("shape", [(1, 1, 1), (1, 6), (4, 1)])
    @pytest.mark.parametrize("objective", [None, "welfare", "egalitarian", "entropy"])
    def test_players_without_a_choice(self, shape, objective):
        game = eq.NormalFormGame(np.random.default_rng(2).random((len(shape), *shape)))
        for concept in ("nash", "ce", "cce"):
            assert eq.solve(game, concept=concept, objective=objective).status.ok

    def test_entropy_keeps_to_its_time(self):
        game = eq.NormalFormGame(RNG.random((2, 12, 12)))
        solution = eq.solve(game, concept="ce", objective="entropy", time_limit=0.0)
        assert solution.status.name == "out of time"

    def test_large_games_follow_the_logit_path(self):
        game = eq.NormalFormGame(np.random.default_rng(0).normal(size=(2, 150, 150)))
        assert eq.solve(game, method="logit", time_limit=1.0).policy[0].sum() == pytest.approx(1.0)

    def test_interrupting_returns_the_best_so_far(self):
        def interrupt(state):
            raise KeyboardInterrupt

        game = eq.NormalFormGame(RNG.random((3, 6, 6, 6)))
        solution = eq.solve(game, method="logit", progress=interrupt)
        assert solution.status.name == "interrupted"

    def test_matrix_games_have_correlated_equilibria_too(self):
        game = eq.games.load("rock-paper-scissors")
        solution = eq.solve(game, concept="ce", objective="entropy")
        assert solution.status.ok
        assert solution.policy.joint == pytest.approx(np.full((3, 3), 1 / 9), abs=1e-5)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"concept": "best"}, "concept: expected one of nash, ce, cce, logit"),
            ({"concept": "logit"}, "rationality: expected a number"),
            ({"rationality": 1.0}, "rationality: expected a number"),
            ({"start": 4}, "start: expected a label from 0 to 3, found 4"),
            ({"method": "magic"}, "method: expected auto or logit"),
            ({"concept": "ce", "objective": [1, 2, 3]}, "objective: expected one weight"),
            ({"colour": 1}, "solve.NormalFormGame.: expected an option among concept"),
        ],
    )
    def test_wrong_options(self, options, message):
        with pytest.raises(ValueError, match=message):
            eq.solve(DILEMMA, **options)


class TestEquilibria:
    def test_each_is_certified(self):
        found = eq.equilibria(eq.NormalFormGame(RNG.integers(0, 4, (2, 4, 4))))
        assert found.status.ok
        assert all(s.status.ok for s in found)
        assert sorted(k for part in found.components for k in part) == list(range(len(found)))
        assert found[0] is next(iter(found))
        assert len(found[:1]) == 1

    def test_zero_sum_games(self):
        found = eq.equilibria(eq.games.load("matching-pennies"))
        assert len(found) == 1
        assert float(found[0].value) == pytest.approx(0.0)

    def test_three_players_have_pure_ones(self):
        payoffs = np.zeros((3, 2, 2, 2))
        payoffs[:, 1, 1, 1] = 1.0
        found = eq.equilibria(eq.NormalFormGame(payoffs))
        assert len(found) == 5
        assert (found.status.ok, found.status.name) == (False, "not solved")
        assert "mixed equilibria of more than two players are not listed" in found.status.message

    def test_players_with_a_single_action_do_not_count(self):
        alone = eq.equilibria(eq.NormalFormGame([[1.0, 1.0, 0.0]]))
        assert [one.policy[0].tolist() for one in alone] == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
        assert (alone.components, alone.subsets) == (((0, 1),), ((0, 1),))
        assert str(alone.status) == "solved: 2 extreme equilibria in 1 component"
        battle = np.asarray(eq.games.load("battle-of-the-sexes").payoffs)
        more = np.zeros((3, 2, 1, 2))
        more[[0, 2], :, 0] = battle
        found = eq.equilibria(eq.NormalFormGame(more))
        assert found.status.ok
        two = eq.equilibria(eq.NormalFormGame(battle))
        for one, same in zip(found, two, strict=True):
            assert [own.tolist() for own in one.policy] == [
                same.policy[0].tolist(), [1.0], same.policy[1].tolist()
            ]  # fmt: skip
        assert len(eq.equilibria(eq.NormalFormGame(np.ones((2, 1, 1))))) == 1

    def test_memory_that_runs_out_is_not_called_time(self, monkeypatch):
        monkeypatch.setattr(_bimatrix, "_WAITING", 3)
        found = eq.equilibria(eq.games.load("battle-of-the-sexes"))
        assert (found.status.ok, found.status.name) == (False, "not solved")
        assert found.status.message == "2 equilibria; memory ran out, and more may exist"

    def test_three_players_without_a_pure_one_get_a_mixed_one(self):
        payoffs = np.zeros((3, 2, 2, 2))
        for i in range(3):  # everybody but the last wants to match the next player
            own, other = np.indices((2, 2, 2))[[i, (i + 1) % 3]]
            payoffs[i] = (own == other) if i < 2 else (own != other)
        found = eq.equilibria(eq.NormalFormGame(payoffs))
        assert [s.status.ok for s in found] == [True]
        assert found.components == ()
        assert not found.status.ok
        assert "no pure equilibrium" in found.status.message

    def test_a_game_too_large_for_all_still_gets_some(self, monkeypatch):
        still = SimpleNamespace(monotonic=lambda: 0.0, perf_counter=time.perf_counter)
        monkeypatch.setattr(_general, "time", still)  # all that are found are certified
        game = eq.NormalFormGame(np.random.default_rng(3).integers(0, 3, (2, 40, 40)))
        found = eq.equilibria(game, time_limit=1.0)
        assert found.status.name == "out of time"
        assert len(found) > 1
        assert all(s.status.ok for s in found)

    def test_constant_games_keep_to_their_time(self):
        found = eq.equilibria(eq.NormalFormGame(np.ones((3, 25, 25, 25))), time_limit=0.2)
        assert 0 < len(found) < 25**3
        assert found.status.name == "out of time"

    def test_time_runs_out(self):
        found = eq.equilibria(eq.NormalFormGame(RNG.random((2, 12, 12))), time_limit=0.05)
        assert found.status.name == "out of time"

    def test_other_games_are_refused(self):
        with pytest.raises(
            ValueError, match="game: expected a single NormalFormGame or MatrixGame, found a batch"
        ):
            eq.equilibria(eq.NormalFormGame(RNG.random((3, 2, 2, 2)), players=2))


class TestJointPolicies:
    LIGHT = eq.JointPolicy([[0.0, 0.5], [0.5, 0.0]])
    CROSSING = eq.NormalFormGame([[[-10, 2], [0, 1]], [[-10, 0], [2, 1]]])

    def test_concepts(self):
        auto = eq.certify(self.CROSSING, self.LIGHT)
        assert auto.concept == "ce"
        assert auto.max_gain == pytest.approx(0.0, abs=1e-12)
        assert eq.certify(self.CROSSING, self.LIGHT, concept="cce").max_gain < 0.0
        with pytest.raises(ValueError, match=r"0\.25 from the product of its marginals"):
            eq.certify(self.CROSSING, self.LIGHT, concept="nash")

    def test_products_are_profiles(self):
        profile = [RNG.dirichlet(np.ones(a)) for a in (2, 3, 4)]
        game = eq.NormalFormGame(RNG.random((3, 2, 3, 4)))
        joint = eq.JointPolicy.of(profile)
        expected = eq.certify(game, profile)
        for concept in ("nash", "cce", "ce"):
            found = eq.certify(game, joint, concept=concept)
            assert found.gains == pytest.approx(expected.gains)
            assert found.value == pytest.approx(expected.value)
            assert (found.upper >= found.gains).all()
            assert found.exact

    def test_gains_are_those_of_a_mixture(self):
        game = eq.NormalFormGame(RNG.random((2, 3, 3)))
        strategies = RNG.dirichlet(np.ones(3), (4, 2))
        weights = RNG.dirichlet(np.ones(4))
        joint = np.einsum("k,ka,kb->ab", weights, strategies[:, 0], strategies[:, 1])
        mixture = eq.Mixture(strategies[:, None], weights)
        for concept in ("cce",):
            ours = eq.certify(game, eq.JointPolicy(joint), concept=concept)
            assert ours.gains == pytest.approx(eq.certify(game, mixture, concept=concept).gains)

    def test_wrong_shapes(self):
        with pytest.raises(ValueError, match="policy: expected a joint distribution over"):
            eq.certify(self.CROSSING, eq.JointPolicy(np.full((2, 3), 1 / 6)))
        with pytest.raises(ValueError, match="joint"):
            eq.JointPolicy([[0.5, 0.6], [0.0, 0.0]])
        with pytest.raises(ValueError, match="joint: expected an axis for each of 3 players"):
            eq.JointPolicy([[1.0]], players=3)


class TestMarkovGames:
    REWARD, MOVES = RNG.random((3, 2, 2, 2, 2)), RNG.dirichlet(np.ones(2), (2, 2, 2, 2))

    @pytest.mark.parametrize("concept", ["nash", "ce", "cce"])
    @pytest.mark.parametrize("time", [{"horizon": 3}, {"discount": 0.6}])
    def test_three_players(self, concept, time):
        game = eq.MarkovGame(self.REWARD, self.MOVES, **time)
        solution = eq.solve(game, concept=concept)
        assert solution.status.ok
        assert solution.value.shape == (2, 3)
        assert solution.certificate.exact
        assert solution.certificate.state_gains.shape == (2, 3)

    def test_a_zero_sum_game_that_ends(self):
        reward, moves = RNG.random((2, 2, 2)), RNG.dirichlet(np.ones(2), (2, 2, 2))
        finite = eq.solve(eq.MarkovGame(reward, moves, horizon=60, discount=0.5))
        for_ever = eq.solve(eq.MarkovGame(reward, moves, 0.5))
        assert finite.value[:, 0] == pytest.approx(for_ever.value, abs=1e-7)
        assert finite.policy[0].shape == (60, 2, 2)

    def test_two_ways_to_say_the_same_certificate(self):
        reward, moves = RNG.random((3, 2, 2)), RNG.dirichlet(np.ones(3), (3, 2, 2))
        x, y = RNG.dirichlet(np.ones(2), (2, 3))
        zero_sum = eq.certify(eq.MarkovGame(reward, moves, 0.9), (x, y))
        general = eq.certify(eq.MarkovGame([reward, -reward], moves, 0.9), (x, y))
        steps = eq.certify(eq.MarkovGame(reward, moves, 0.9), eq.Profile([[x] * 4, [y] * 4]))
        for other in (general, steps):
            assert other.state_gains == pytest.approx(zero_sum.state_gains, abs=1e-10)
            assert other.value == pytest.approx(zero_sum.value)

    def test_wrong_tables(self):
        with pytest.raises(ValueError, match="reward: expected one table for each of the 3"):
            eq.MarkovGame(self.REWARD[:2], self.MOVES, 0.9)
        with pytest.raises(ValueError, match="discount: expected a number"):
            eq.MarkovGame(self.REWARD, self.MOVES)
        game = eq.MarkovGame(self.REWARD, self.MOVES, horizon=3)
        policy = eq.JointPolicy(np.full((2, 2, 2, 2, 2), 1 / 8), 3)
        with pytest.raises(ValueError, match="policy: expected 3 steps, or one for all; found 2"):
            eq.certify(game, policy)

    def test_files(self, tmp_path):
        for game in (
            eq.MarkovGame(self.REWARD, self.MOVES, horizon=3),
            eq.NormalFormGame(RNG.random((4, 2, 2, 3)), players=2),
        ):
            eq.games.write(game, tmp_path / "game.npz")
            assert eq.games.read(tmp_path / "game.npz") == game

    def test_learners_refuse_it(self):
        game = eq.MarkovGame(self.REWARD, self.MOVES, 0.9)
        with pytest.raises(ValueError, match="games: expected a zero-sum game without horizon"):
            eq.dynamics.play(game, eq.dynamics.MarkovOMD(), eq.dynamics.MarkovOMD(), rounds=1)


class TestOthers:
    def test_many_agents(self):
        game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=1)
        solution = eq.solve(game)
        assert solution.status.ok
        assert isinstance(solution.policy, eq.Mixture)

    def test_continuous_actions(self):
        assert eq.solve(eq.games.load("signed-continuous")).status.ok

    def test_profiles_of_gambit(self):
        gambit = peer("pygambit")
        game = eq.games.load("chicken")
        theirs = eq.games.adapters.to_gambit(game)
        for profile in gambit.nash.enummixed_solve(theirs, rational=True).equilibria:
            ours = eq.games.adapters.from_gambit_profile(profile)
            assert float(eq.certify(game, ours).max_gain) < 1e-12
            back = eq.games.adapters.to_gambit_profile(ours, theirs)
            assert float(back.max_regret()) < 1e-12
        with pytest.raises(ValueError, match="policy: expected strategies of"):
            eq.games.adapters.to_gambit_profile(([1.0], [1.0]), theirs)
        with pytest.raises(ValueError, match="profile: expected a mixed strategy profile"):
            eq.games.adapters.from_gambit_profile([1.0])


def test_random_games_of_every_family():
    assert main(6, seed=7)["failures"] == []


# A 4 x 3 game of nashpy's documentation, whose players have ranges of 163 and 4.
NASHPY = [
    [[160, 205, 44], [175, 180, 45], [201, 204, 50], [120, 207, 49]],
    [[2, 2, 2], [1, 0, 0], [3, 4, 1], [4, 1, 2]],
]


@pytest.mark.parametrize("tolerance", [None, 1e-6])
@pytest.mark.parametrize("batch", [False, True])
def test_tolerances_have_one_shape_whatever_the_payoffs(batch, tolerance):
    alike = [np.eye(4, 3), 1 - np.eye(4, 3)]
    for options in ({}, {"concept": "ce"}, {"objective": "welfare"}):
        for payoffs in (NASHPY, alike):
            table = np.stack([payoffs] * 2) if batch else np.array(payoffs, float)
            game = eq.NormalFormGame(table, players=2)
            solution = eq.solve(game, tolerance=tolerance, **options)
            assert solution.tolerance.shape == ((2,) if batch else ())
            assert solution.stats["tolerances"].shape == ((2, 2) if batch else (2,))
            assert np.all(solution.certificate.max_upper <= solution.tolerance)
            assert np.array_equal(solution.solved, [True, True] if batch else True)
    for listed in eq.equilibria(eq.NormalFormGame(NASHPY)):
        assert listed.tolerance.shape == ()
        assert listed.certificate.max_upper <= listed.tolerance


def test_a_game_keeps_its_tolerance_in_a_batch():
    payoffs = np.stack([NASHPY, [np.eye(4, 3), 1 - 0.5 * np.eye(4, 3)]])
    many = eq.solve(eq.NormalFormGame(payoffs, players=2))
    for k, table in enumerate(payoffs):
        one = eq.solve(eq.NormalFormGame(table))
        assert many.tolerance[k] == one.tolerance == one.stats["tolerances"].min()
        assert many.stats["tolerances"][k].tolist() == one.stats["tolerances"].tolist()


@pytest.mark.parametrize("tolerance", [None, 1e-6])
@pytest.mark.parametrize("unit", [1.0, 1e-200])
def test_tolerances_of_markov_games_have_one_shape(unit, tolerance):
    stay, reward = np.full((2, 2, 2, 2), 0.5), unit * RNG.random((2, 2, 2))
    options = {} if tolerance is None else {"tolerance": tolerance * unit}
    for horizon, discount in ((None, 0.5), (3, 1.0)):
        zero_sum = eq.MarkovGame(reward, stay, discount, horizon=horizon)
        general = eq.MarkovGame(np.stack([reward, 0.01 * reward]), stay, discount, horizon=horizon)
        assert eq.solve(general, **options).tolerance.shape == ()
        for concept in ("nash", "cce"):
            solution = eq.solve(zero_sum, concept=concept, **options)
            assert solution.tolerance.shape == ()
            assert solution.solved is True
    joint = eq.solve(eq.MatrixGame(reward), concept="ce", **options)
    assert joint.tolerance.shape == (2,)  # one for each game of the batch
    assert joint.solved.tolist() == [True, True]


def pulled(**known):
    """Three agents who each match three tenths of the mean action, from a reward function."""
    return eq.ContinuousGame.from_function(lambda a: -((a - 0.3 * a.mean()) ** 2), 3, **known)


@pytest.mark.parametrize(
    ("game", "options", "name", "advice"),
    [
        (pulled(), {}, "not solved", "declare the `curvature`"),
        (pulled(lipschitz=10.0), {}, "not solved", "declare the `curvature`"),
        (pulled(curvature=3.0), {"tolerance": 1e-300}, "not solved", "includes rounding"),
        (DILEMMA, {"tolerance": 1e-18}, "not solved", "includes rounding"),
        (eq.MatrixGame(SEVENTHS), {"tolerance": 1e-15}, "not solved", "includes rounding"),
        (eq.MatrixGame(UNEVEN), {"tolerance": 1e-15}, "not solved", "too few digits"),
        (DILEMMA, {"tolerance": 1e-18, "concept": "ce"}, "not solved", "includes rounding"),
        (
            eq.NormalFormGame(1e200 * RNG.random((3, 3, 3, 3))),
            {"method": "logit", "time_limit": 0.0},
            "out of time",
            "raise `time_limit`",
        ),
    ],
)
def test_what_may_help_is_said(game, options, name, advice):
    status = eq.solve(game, **options).status
    assert (status.name, status.ok) == (name, False)
    assert advice in status.message.partition(": ")[2]
