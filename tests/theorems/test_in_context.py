"""The numbered statements of the in-context paper, one by one: its transformers and its bounds.

The learners' statements (signs, constants, Lemma B.2) are in test_in_context_learners.py. Not
tested, and why: Assumption 4.2 is one; the second sentence of Proposition C.1 and Lemma C.1 are
quoted from other papers, the lemma about a learner with another regulariser; Theorems 4.2 and 4.4
hide their constants, so that only their terms can be tested.
"""

from math import ceil, factorial, log2

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

import equipoise as eq
from equipoise.core import simplex
from equipoise.core.precision import double_precision
from equipoise.incontext import construct, theory
from equipoise.incontext._model import MLP, Attention, Transformer

UNIFORM = eq.games.families.uniform


def exact_step(x, g, eta, floor):
    with double_precision():
        return np.asarray(simplex.project(jnp.asarray(x - eta / 2 * g), floor=floor))


# ---- Section 3: the layers


@pytest.mark.parametrize("scope", ["own", "causal"])
def test_definition_3_1_the_attention_layers_are_the_papers(scope, rng):
    length, width, heads = 5, 4, 2
    q, k = (rng.normal(size=(heads, 3, width)) for _ in range(2))
    value, output = rng.normal(size=(heads, 2, width)), rng.normal(size=(heads, width, 2))
    h = rng.normal(size=(length, width))
    expected = h.copy()
    for i in range(length):
        for m in range(heads):
            for j in range(i + 1) if scope == "causal" else [i]:
                score = max(0.0, (k[m] @ h[j]) @ (q[m] @ h[i]) / np.sqrt(width))
                share = 1 / (i + 1) if scope == "causal" else 1.0
                expected[i] += share * score * (output[m] @ (value[m] @ h[j]))
    with double_precision():
        parts = map(jnp.asarray, (q, k, value, output))
        layer = Attention(*parts, None, width**-0.5, "relu", scope)
        found = layer(jnp.asarray(h))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_definition_3_1_attention_weights_of_whole_numbers_are_exact():
    """`i / i` is one, for every i: compiled to reciprocals it would not be, at 41 for instance."""
    one = jnp.ones((1, 1, 1))
    count = Attention(one, one, one, one, None, 1.0, "relu", "causal")
    exact = count._weigh(
        jnp.arange(1.0, 301.0)[None, None, :, None],
        jnp.ones((300, 1), bool),
        jnp.arange(1, 301)[:, None],
    )
    assert (exact == 1.0).all()


def test_section_3_the_q_value_lacks_the_discount():
    """One state, one action, reward 1: V = 2 at discount 1/2, and Q = r + E[V] would be 3."""
    value = sum(0.5 ** (t - 1) for t in range(1, 60))
    assert value == pytest.approx(2.0)
    assert 1.0 + 0.5 * value == pytest.approx(value) != 1.0 + value


# ---- Section 5


def test_section_5_the_entropy_of_equilibria_bounds_the_cross_entropy(rng):
    """Labels sampled from the equilibrium x of a game: -E log p(label) >= the mean entropy of x.

    A history can tell at most the game, so that predictions are functions of it or of less.
    """
    equilibria, weights = rng.dirichlet(np.ones(3), size=5), np.full(5, 0.2)
    entropy = -(weights[:, None] * equilibria * np.log(equilibria)).sum()
    for predictions in (rng.dirichlet(np.ones(3), size=5) for _ in range(200)):
        cross = -(weights[:, None] * equilibria * np.log(predictions)).sum()
        assert cross > entropy
    assert entropy > 0.01
    blind = weights @ equilibria  # what can be predicted without any history
    assert -(weights[:, None] * equilibria * np.log(blind)).sum() > entropy


@pytest.mark.parametrize(("actions", "chance"), [(2, 2 / 3), (3, 0.3), (5, 10 / 252)])
def test_section_5_how_many_base_games_have_a_pure_equilibrium(actions, chance):
    """`(A!)^2 / (2 A - 1)!`: an entry is the largest of a row and the smallest of a column."""
    exact = factorial(actions) ** 2 / factorial(2 * actions - 1)
    assert exact == pytest.approx(chance)
    payoff = np.asarray(UNIFORM(actions).sample(4000, key=3).payoff)
    pure = (payoff.min(2).max(1) == payoff.max(1).min(1)).mean()
    assert abs(pure - exact) < 4 * np.sqrt(exact / 4000)


# ---- Theorem 4.1


@pytest.mark.parametrize(
    ("actions", "dtype", "bound"),
    [(2, "float64", 1e-9), (3, "float64", 1e-9), (3, "float32", 1e-4)],
)
def test_theorem_4_1_a_transformer_runs_mirror_descent(actions, dtype, bound):
    games = UNIFORM(actions).sample(2, key=7)
    built = construct.omd(actions, rounds=200, dtype=dtype)
    errors = built.errors(games, key=8)
    assert errors.shape == (2, 2, 201)  # both seats, and every token of them
    assert errors.max() < bound


def test_theorem_4_1_holds_for_more_actions_and_constant_schedules():
    from equipoise.core.schedules import Constant, Rates

    rates = Rates(*(Constant(value) for value in (0.1, 0.05, 0.2)), floor=Constant(0.01))
    learner = eq.dynamics.OMD(
        rates=rates, loss=eq.dynamics.PlainLoss(), anchor=eq.dynamics.UniformAnchor()
    )
    built = construct.omd(5, rounds=30, learner=learner)
    assert built.error(UNIFORM(5).sample(2, key=0), key=1) < 1e-9


def test_theorem_4_1_width_does_not_grow_with_the_rounds():
    """`O(A)` at every T, with two integers to tell the previous token from all others."""

    def used(actions, rounds, **options):
        return construct.omd(actions, rounds, **options).size.coordinates

    for actions in (2, 3, 5):
        for rounds in (7, 1000):
            assert used(actions, rounds, positions="integers") == 5 * actions + 14
    assert used(2, 63, positions="binary") - used(2, 7, positions="binary") == 2 * 3


@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-9), ("float32", 1e-4)])
def test_theorem_4_1_holds_at_the_printed_width(dtype, bound):
    built = construct.omd(3, rounds=60, positions="integers", dtype=dtype)
    assert built.error(UNIFORM(3).sample(2, key=7), key=8) < bound


def test_theorem_4_1_integers_tell_all_tokens_apart_in_single_precision():
    """At the largest number of rounds that is allowed, and with every score computed exactly."""
    largest = 1672  # the integer square root of 2^23 / 3, for a width of 6^2
    with pytest.raises(ValueError, match="rounds: expected at most 1672 with positions"):
        construct.omd(3, rounds=largest + 1, positions="integers", dtype="float32")
    with pytest.raises(ValueError, match="found 1673; use positions='binary'"):
        _ = construct.omd(3, rounds=largest + 1, positions="integers").players
    built = construct.omd(3, rounds=largest, positions="integers", dtype="float32")
    assert built.layout.width == 36
    first = built.model.layers[0]
    stream = jnp.zeros((largest + 1, built.layout.width), jnp.float32)
    t = jnp.arange(largest + 1.0, dtype=jnp.float32)
    for name, values in {"one": 1.0, "t": t, "t^2": t * t}.items():
        stream = stream.at[:, built.layout.places[name].start].set(values)
    late = jnp.arange(largest - 40, largest + 1)
    query, key = stream[late] @ first.query[0].T, stream @ first.key[0].T
    scores = np.maximum(np.asarray(query @ key.T) * np.float32(first.scale), 0.0)
    assert (scores == (np.arange(largest + 1)[None] == np.asarray(late)[:, None] - 1)).all()


def test_theorem_4_1_a_softmax_of_logarithms_reads_a_policy(rng):
    """The paper's read-out, after one more layer: exact up to `1 / N^2` with N pieces an action."""
    for units in (16, 64):
        logarithm = construct.Logarithm(units)
        assert logarithm.residual == pytest.approx(0.507 / units**2, rel=1e-2)
        for actions in (2, 3, 5):
            policies = rng.dirichlet(np.full(actions, 0.5), size=20_000)
            read = np.exp(logarithm(policies))
            off = np.linalg.norm(read / read.sum(1, keepdims=True) - policies, axis=1).max()
            assert 0.1 * logarithm.bound(actions) < off < logarithm.bound(actions)
            assert logarithm.bound(actions) < 0.73 * actions / units**2


def test_theorem_4_1_lies_in_the_papers_class():
    """Softmax read-out and width `O(A)` at once; one layer more than with a linear read-out."""
    built = construct.omd(2, rounds=8, positions="integers", log_units=32)
    linear = construct.omd(2, rounds=8, positions="integers")
    assert built.size.layers == linear.size.layers + 1
    assert built.size.coordinates == linear.size.coordinates + 2
    assert built.error(UNIFORM(2).sample(2, key=7), key=8) < built.logarithm.bound(2) < 2e-3
    assert built.players.reading == "softmax"
    assert built.norm == pytest.approx(4 * 32, rel=0.1)  # the logarithm is steep near zero


def test_theorem_4_1_the_norm_of_this_construction_is_not_three():
    """The proof's matrices have norm 1, and then scores lack the factor `sqrt(d)`."""
    for positions in ("binary", "integers"):
        for actions in (2, 3, 5):
            built = construct.omd(actions, rounds=200, positions=positions)
            assert built.norm > np.sqrt(built.size.width) > 3.0
            assert 16.0 < built.norm < 28.0


def test_theorem_4_1_no_softmax_of_a_linear_map_reads_a_policy():
    """Two actions: softmax is a sigmoid of an affine function of p, by symmetry `a (p - 1/2)`."""
    p = np.linspace(0.0, 1.0, 201)
    worst = [
        np.sqrt(2) * np.abs(1 / (1 + np.exp(-a * (p - 0.5))) - p).max()
        for a in np.linspace(0.0, 20.0, 401)
    ]
    assert min(worst) > 0.07


def test_assumption_4_1_exact_division_can_be_done():
    z = np.linspace(0.05, 1.5, 1001)
    exact = construct.Reciprocal(0.05, 1.5, units=1, newton_steps=8)
    assert np.abs(z * exact(z) - 1).max() < 1e-14
    for units, steps in ((1, 0), (4, 0), (16, 0), (1, 3), (4, 2)):
        rough = construct.Reciprocal(0.05, 1.5, units, steps)
        assert 0.9 * rough.residual < np.abs(z * rough(z) - 1).max() < rough.residual + 1e-12


def test_remark_4_2_size_buys_accuracy():
    games = UNIFORM(2).sample(2, key=0)
    errors = [
        construct.omd(2, rounds=20, reciprocal_units=units).error(games, key=1) for units in (2, 8)
    ]
    assert errors[0] > 4 * errors[1] > 0


# ---- Definitions 4.1 and 4.2, Theorem 4.2


def test_definition_4_1_is_measured_between_any_two_players():
    games = UNIFORM(2).sample(4, key=0)
    omd, uniform = eq.dynamics.OMD.vanishing(), eq.dynamics.Uniform()
    built = construct.omd(2, rounds=12).players
    same = theory.realisability(omd, built, games, rounds=12, key=1)
    apart = theory.realisability(omd, uniform, games, rounds=12, key=1)
    assert same.total_variation.shape == (4, 2, 13)
    assert same.epsilon < 1e-6 < 1e-2 < apart.epsilon
    tv, h = apart.total_variation, apart.hellinger
    assert (h**2 <= tv + 1e-6).all()
    assert (tv <= np.sqrt(2) * h + 1e-6).all()


def test_remark_4_1_small_total_variation_allows_another_policy_in_some_situations():
    """Definition 4.1 takes an expectation: one game in a thousand can be played otherwise.

    Log-likelihood bounds it (Pinsker's inequality), but a bound on it does not bound likelihoods.
    """
    expert = np.tile([0.0, 1.0], (1000, 1))
    other = expert.copy()
    other[0] = [1.0, 0.0]
    apart = theory.total_variation(expert, other)
    assert apart.mean() == pytest.approx(1e-3)
    assert apart.max() == 1.0
    p, q = np.array([1e-3, 1 - 1e-3]), np.array([1e-300, 1.0])
    divergence = float((p * np.log(p / q)).sum())
    assert theory.total_variation(p, q) == pytest.approx(1e-3)
    assert divergence > 0.6
    assert theory.total_variation(p, q) <= np.sqrt(divergence / 2)


def test_definition_4_2_smaller_weights_and_larger_radii_need_fewer_centres():
    model = construct.omd(2, rounds=4).model
    cover = theory.log_covering_number
    assert cover(model, 1.0) < cover(model, 0.1)
    assert cover(model, 0.1, norm_bound=1e6) > cover(model, 0.1)
    more = construct.omd(2, rounds=4, newton_steps=9).model
    assert cover(more, 0.1) > cover(model, 0.1)


KNOWN = {"distance": 1.0, "realisability": 1e-8, "log_cover": 50.0, "samples": 1e8}


def test_theorem_4_2_terms():
    printed = theory.matrix_bound(1e4, 3, **KNOWN, corrected=False)
    later = theory.matrix_bound(1e6, 3, **KNOWN, corrected=False)
    assert later.terms["start"] == pytest.approx(printed.terms["start"] / 10)
    assert later.terms["variance"] == pytest.approx(printed.terms["variance"] * 100 ** (-1 / 6))
    assert later.terms["approximation"] == pytest.approx(10 * printed.terms["approximation"])
    corrected = theory.matrix_bound(1e6, 3, **KNOWN)
    assert corrected.terms["start"] > 0.99  # with the printed constants nothing moves
    assert corrected.terms["imitation"] == pytest.approx(
        np.sqrt(later.terms["statistics"] + later.terms["realisability"])
    )


def test_theorem_4_2_gaps_carry_over_from_close_policies(rng):
    games = eq.MatrixGame(rng.uniform(size=(200, 4, 4)))
    x, y = rng.dirichlet(np.ones(4), size=(2, 200))
    other_x, other_y = rng.dirichlet(np.ones(4), size=(2, 200))
    share = rng.uniform(size=(200, 1))
    near_x, near_y = x + share * (other_x - x), y + share * (other_y - y)
    bound = theory.transferred_gap(
        eq.certify(games, (x, y)).nash_conv,
        theory.total_variation(x, near_x),
        theory.total_variation(y, near_y),
    )
    assert (eq.certify(games, (near_x, near_y)).nash_conv <= bound + 1e-12).all()


def test_remark_4_3_longer_contexts_help_only_while_the_network_is_accurate():
    t = np.array([1e2, 1e4, 1e6])
    loose = [theory.matrix_bound(n, 3, **KNOWN | {"realisability": 1e-2}).total for n in t]
    assert loose[2] > loose[0]
    exact = [
        theory.matrix_bound(n, 3, **KNOWN | {"realisability": 0.0}, corrected=False).total
        for n in t
    ]
    assert exact[0] > exact[1] > exact[2]


# ---- Theorems 4.3 and 4.4


@pytest.mark.parametrize("states", [2, 3])
def test_theorem_4_3_a_transformer_runs_mirror_descent_in_markov_games(states):
    games = UNIFORM(3, states=states, concentration=0.1).sample(2, key=5)
    built = construct.omd_markov(states, actions=3, rounds=200)
    assert built.errors(games, key=6).max() < 1e-9


def test_theorem_4_3_a_softmax_reads_the_policies_of_all_states():
    games = UNIFORM(2, states=2).sample(2, key=5)
    built = construct.omd_markov(2, 2, rounds=15, log_units=32)
    assert built.error(games, key=6) < built.logarithm.bound(2) < 2e-3


def test_theorem_4_3_width_for_one_answer_and_for_all():
    def used(states, actions, answer, rounds=50):
        return construct.omd_markov(states, actions, rounds, answer=answer).size.coordinates

    assert used(4, 3, "current") - used(3, 3, "current") == 3  # state, next state, visits
    assert used(3, 4, "current") - used(3, 3, "current") == 6
    assert used(4, 3, "all") - used(3, 3, "all") == 3 + 2 + 3
    assert used(3, 3, "all", rounds=100) == used(3, 3, "all")


def test_theorem_4_3_the_norm_does_not_grow_with_the_rounds():
    norms = [construct.omd_markov(2, 2, t, newton_steps=6).norm for t in (10, 300)]
    assert norms[1] < 1.2 * norms[0]


def test_theorem_4_4_terms():
    known = KNOWN | {"discount": 0.5, "travel": 2.0}
    printed = theory.markov_bound(1e6, 3, 2, **known, corrected=False)
    corrected = theory.markov_bound(1e6, 3, 2, **known)
    assert printed.terms["start"] == pytest.approx(np.sqrt(2) * 1e6**-0.25)
    assert corrected.terms["value"] > 100 * printed.terms["value"]
    assert corrected.terms["start"] > 0.99


# ---- Appendix A


def test_proposition_a_1_more_relus_fit_better():
    fits = [construct.fitted_step(3, units, samples=2048) for units in (16, 64, 256)]
    means = [fit.mean_error for fit in fits]
    assert means[0] > 2 * means[1] > 2 * means[2]
    assert all(fit.largest_error > fit.mean_error for fit in fits)


def test_lemma_a_1_as_printed_has_a_counterexample():
    """The rare action is played: the sum's multiplier is about 4, the slope of its penalty 1."""
    rounds = 1000
    x, g = np.array([0.02, 0.98]), np.array([1 / (0.02 + rounds ** (-1 / 3)), 0.0])
    eta, floor = 1 / rounds, 0.5 / rounds**2
    for sharpness in (1e3, 1e5):
        found = construct.printed_surrogate_step(x, g, eta=eta, floor=floor, sharpness=sharpness)
        distance = np.linalg.norm(found - exact_step(x, g, eta, floor))
        assert distance > 1.5 * np.sqrt(2) * eta


def test_lemma_a_1_corrected_holds_and_falls_with_sharpness(rng):
    worst = []
    for sharpness in (1e2, 1e3, 1e4, 1e5):
        distances = []
        for actions in (2, 3, 5) * 4:
            floor, eta = 1e-3, 0.3
            x = floor + (1 - actions * floor) * rng.dirichlet(np.ones(actions))
            g = 0.1 * x
            played = rng.integers(actions)
            g[played] += rng.uniform(-1, 1) / (x[played] + 0.1)
            near = construct.surrogate_step(x, g, eta=eta, floor=floor, sharpness=sharpness)
            distances.append(np.linalg.norm(near - exact_step(x, g, eta, floor)))
            bound = construct.surrogate_bound(g, eta=eta, sharpness=sharpness)
            assert distances[-1] <= bound
        worst.append(max(distances))
    assert worst[0] > 20 * worst[2]
    assert worst[1] > 20 * worst[3]


# ---- Appendices B, C, E and F


def test_lemma_b_1_bounds_a_square(rng):
    """Total variation is not bounded by the squared Hellinger distance, but by its root."""
    p = rng.dirichlet(np.ones(3), size=1000)
    q = 0.99 * p + 0.01 * rng.dirichlet(np.ones(3), size=1000)
    tv, squared = theory.total_variation(p, q), 2 * theory.hellinger(p, q) ** 2
    assert (tv > squared).mean() > 0.9
    assert (tv <= np.sqrt(squared)).all()
    assert theory.imitation_error(3e-4, 1e-4) == pytest.approx(0.02)


def test_lemma_b_1_fails_for_a_class_of_two_policies():
    """Realisability in total variation says nothing of likelihoods, by which Eq. (1) chooses.

    The expert plays its first action with probability 1e-3. One policy gives it almost none, and is
    as close in total variation; the other is uniform. With a million labels either is chosen in
    about half of the draws, although the likelihood of the close one is larger on average.
    """
    rare, samples, confidence = 1e-3, 1_000_000, 0.05
    log_chance = -np.log(2.0) / (rare * (1 + 1e-3))  # of the first action, in the close policy
    expected = {"close": rare * log_chance, "uniform": -np.log(2.0)}
    assert expected["close"] > expected["uniform"]
    # The uniform policy wins if n log 2 < N |log chance|, with N rare labels.
    needed = samples * np.log(2.0) / -log_chance
    wins = binom.sf(np.floor(needed), samples, rare)
    assert wins > 0.4 > confidence
    expert, uniform = np.array([rare, 1 - rare]), np.full(2, 0.5)
    close = np.array([np.exp(log_chance), 1.0])
    assert theory.total_variation(expert, close) == pytest.approx(rare)
    squared = 2 * theory.hellinger(expert, uniform) ** 2
    bound = (1 + 2 * np.sqrt(2) + 2 * np.log(2 / confidence)) / samples + rare
    assert squared > max(100 * bound, 0.5)


def test_lemma_e_1_partial_sums_stay_below_their_bound(rng):
    """Gaussian steps: `log E exp X = mean + variance / 2`; at all times at once."""
    confidence = 0.1
    steps = rng.normal(-0.1, 0.5, size=(4000, 100))
    above = steps.cumsum(1) - (np.arange(1, 101) * (-0.1 + 0.125) + np.log(1 / confidence))
    assert (above > 0).any(1).mean() <= confidence
    assert (above > 0).any(1).mean() > 0.01  # and it is not empty


@pytest.mark.parametrize("key", [0, 1, 2])
def test_proposition_c_1_every_state_is_visited(key):
    """Exactly, for the worst non-stationary policies: within `2 L log2(S / delta)` steps."""
    states, confidence = 4, 0.1
    game = UNIFORM(2, states=states, concentration=1.0).sample(1, key=key)[0]
    moves = np.asarray(game.transition).reshape(states, 4, states)
    missed, travel = 0.0, theory.travel_time(game)
    for goal in range(states):
        onward, avoided = np.where(np.arange(states) == goal, 0.0, moves), np.ones(states)
        for _ in range(ceil(2 * travel * log2(states / confidence))):
            avoided = (onward @ avoided).max(1)
        missed += avoided.max()
    assert 0.0 < missed <= confidence


def test_appendix_f_the_norm_by_hand():
    eye = jnp.eye(4)[None]
    own = Attention(2.0 * eye, 3.0 * eye, 5.0 * eye, eye, None, 0.5, "relu", "own")
    causal = Attention(2.0 * eye, 3.0 * eye, 5.0 * eye, eye, None, 0.5, "relu", "causal")
    double_scale = Attention(2.0 * eye, 3.0 * eye, 5.0 * eye, eye, None, 1.0, "relu", "causal")
    mlp = MLP(7.0 * jnp.eye(4), 2.0 * jnp.eye(4), None, None, None)
    model = Transformer(jnp.eye(4), None, (own, causal, double_scale, mlp), None, jnp.eye(4), None)
    assert theory.layer_norms(model) == pytest.approx((9.0, 8.0, 9.0, 9.0))
    assert theory.norm(model) == pytest.approx(9.0)
