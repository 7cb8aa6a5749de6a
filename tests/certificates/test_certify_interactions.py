"""Gains in games of interaction terms against brute force over deterministic deviations."""

import itertools

import numpy as np
import pytest

import equipoise as eq
from equipoise.certificates import _interactions
from equipoise.games import Interactions, Mixture

FAMILIES = eq.games.families


def random_policies(rng, *shape):
    return rng.dirichlet(np.ones(shape[-1]), shape[:-1])


def contextual_game(rng, actions=(3, 2, 3)) -> eq.ContextualGame:
    """Three agents with different numbers of actions, two contexts, rank 3."""
    dense = rng.normal(size=(2, 3, 3, 3, 3))
    return eq.ContextualGame(Interactions.from_dense(dense), [0.3, 0.7], actions)


def padded(rng, game, *lead):
    """Random policies without chances for what an agent lacks."""
    policies = rng.random((*lead, *game.policy_shape)) + 0.1
    mask = game.action_mask if len(game.policy_shape) == 3 else game.action_mask[:, None]
    policies = policies * mask
    return policies / policies.sum(-1, keepdims=True)


def joint(game, policies, weights):
    """(contexts, actions...): the joint distribution of a mixture."""
    return np.einsum("t,tca,tcb,tcd->cabd", weights, *np.moveaxis(policies, 2, 0))


def brute_contextual(game, policies, weights, swaps):
    """Best value over all maps from (context, recommendation or not) to actions."""
    dense, chances = game.interactions.to_dense(), joint(game, policies, weights)
    gains = np.zeros(3)
    for i in range(3):
        reward = np.moveaxis(dense[:, i], i + 1, 1).reshape(2, 3, -1)
        p = np.moveaxis(chances, i + 1, 1).reshape(2, 3, -1)
        value = np.einsum("c,cao,cao->", game.context_probabilities, p, reward)
        best = 0.0
        for c in range(2):
            maps = itertools.product(range(game.actions[i]), repeat=3 if swaps else 1)
            best += game.context_probabilities[c] * max(
                sum(p[c, a] @ reward[c, to[a if swaps else 0]] for a in range(3)) for to in maps
            )
        gains[i] = best - value
    return gains


@pytest.mark.parametrize("components", [1, 4])
@pytest.mark.parametrize("concept", ["cce", "ce"])
def test_contextual_gains_equal_brute_force(rng, components, concept):
    game = contextual_game(rng)
    policies = padded(rng, game, components)
    weights = random_policies(rng, components)
    found = eq.certify(game, Mixture(policies, weights), concept=concept)
    brute = brute_contextual(game, policies, weights, concept == "ce")
    np.testing.assert_allclose(found.gains, brute, rtol=0, atol=1e-10)
    assert found.exact
    assert found.concept == concept


def test_a_product_policy_has_one_gain_in_all_concepts(rng):
    game = contextual_game(rng)
    policy = padded(rng, game)
    gains = [eq.certify(game, policy, concept=c).gains for c in ("auto", "nash", "cce", "ce")]
    np.testing.assert_allclose(gains, [gains[0]] * 4, atol=1e-13)
    profile = [np.ones(1)] * 3
    for i in range(3):  # the pure strategies of the normal form: an action for each context
        count = game.actions[i]
        number = np.arange(count**2)
        profile[i] = policy[0, i, number % count] * policy[1, i, number // count]
    table = eq.certify(game.to_normal_form(), profile)
    np.testing.assert_allclose(gains[0], table.gains, atol=1e-12)
    np.testing.assert_allclose(eq.certify(game, policy).value, table.value, atol=1e-12)


def test_the_traffic_light(rng):
    """Chicken: a light that lets one pass is a CE, with negative gains over fixed deviations."""
    chicken = np.array([[[0.0, 7.0], [2.0, 6.0]], [[0.0, 2.0], [7.0, 6.0]]])
    game = eq.ContextualGame(Interactions.from_dense(chicken[None]))
    light = Mixture([[[[1, 0], [0, 1]]], [[[0, 1], [1, 0]]]])
    coarse = eq.certify(game, light)
    np.testing.assert_allclose(coarse.gains, [4.0 - 4.5, 4.0 - 4.5])
    np.testing.assert_allclose(eq.certify(game, light, concept="ce").gains, [0.0, 0.0])
    np.testing.assert_allclose(coarse.value, [4.5, 4.5])


def markov_game(key=0, contexts=2) -> eq.DecoupledMarkovGame:
    family = FAMILIES.interaction_rank(
        agents=3, actions=2, contexts=contexts, rank=3, states=2, horizon=2, scale=1.0
    )
    return family.sample(key=key)


def brute_value(game, agent, deviation, policies, weights):
    """Play out everything: `deviation(context, history of (state, recommendation)) -> action`."""
    total = 0.0
    dense = game.interactions.to_dense()
    for c, (weight, policy) in itertools.product(
        range(game.contexts), zip(weights, policies, strict=True)
    ):
        # (joint states, own history) -> chance
        level = {
            (tuple(s), ()): game.context_probabilities[c]
            * weight
            * np.prod([game.initial[c, j, s[j]] for j in range(game.agents)])
            for s in itertools.product(range(2), repeat=game.agents)
        }
        for h in range(game.horizon):
            following: dict = {}
            for (s, history), chance in level.items():
                if not chance:
                    continue
                for a in itertools.product(range(2), repeat=game.agents):
                    p = chance * np.prod([policy[c, h, j, s[j], a[j]] for j in range(game.agents)])
                    heard = (*history, (s[agent], a[agent]))
                    played = [*a]
                    played[agent] = deviation(c, heard)
                    moves = [s[j] * 2 + played[j] for j in range(game.agents)]
                    total += p * dense[(c * game.horizon + h, agent, *moves)]
                    for z in itertools.product(range(2), repeat=game.agents):
                        step = [
                            game.transitions[c, h, j, s[j], played[j], z[j]]
                            for j in range(game.agents)
                        ]
                        key = (z, heard)
                        following[key] = following.get(key, 0.0) + p * np.prod(step)
            level = following
    return total


def test_markov_gains_equal_brute_force_over_deterministic_policies(rng):
    game = markov_game(contexts=1)
    policies, weights = random_policies(rng, 2, *game.policy_shape), np.array([0.4, 0.6])
    found = eq.certify(game, Mixture(policies, weights))
    for agent in range(2):
        value = brute_value(game, agent, lambda c, heard: heard[-1][1], policies, weights)
        np.testing.assert_allclose(found.value[agent], value, atol=1e-11)
        best = max(
            brute_value(
                game,
                agent,
                lambda c, heard, to=to: to[2 * len(heard) - 2 + heard[-1][0]],
                policies,
                weights,
            )
            for to in itertools.product(range(2), repeat=4)
            if to[1] == 0  # the first state is always 0
        )
        np.testing.assert_allclose(found.gains[agent], best - value, rtol=0, atol=1e-10)


def test_markov_swap_gains_equal_brute_force_over_histories(rng):
    game = markov_game(contexts=1)
    game = eq.DecoupledMarkovGame(
        Interactions(game.interactions.scopes, game.interactions.tables, 3),
        game.transitions,
        game.initial,
    )
    policies, weights = random_policies(rng, 2, *game.policy_shape), np.array([0.4, 0.6])
    certificate = eq.certify(game, Mixture(policies, weights), concept="ce")
    value = brute_value(game, 0, lambda c, heard: heard[-1][1], policies, weights)
    # By linearity the best reply to later histories can be chosen one by one for each first map.
    histories = [((0, a), (s, b)) for a in (0, 1) for s in (0, 1) for b in (0, 1)]
    best = -np.inf
    for first in itertools.product(range(2), repeat=2):
        chosen = dict.fromkeys(histories, 0)

        def play(c, heard, first=first, chosen=chosen):
            return first[heard[0][1]] if len(heard) == 1 else chosen[heard]

        worth = brute_value(game, 0, play, policies, weights)
        for history in histories:
            chosen[history] = 1
            changed = brute_value(game, 0, play, policies, weights)
            if changed > worth:
                worth = changed
            else:
                chosen[history] = 0
        best = max(best, worth)
    assert certificate.exact
    np.testing.assert_allclose(certificate.gains[0], best - value, rtol=0, atol=1e-10)


def test_concepts_are_ordered(rng, monkeypatch):
    """Ignoring recommendations <= replying to them <= being told the component."""
    game = markov_game()
    mixture = Mixture(random_policies(rng, 3, *game.policy_shape))
    coarse = eq.certify(game, mixture, concept="cce").gains
    swaps = eq.certify(game, mixture, concept="ce")
    monkeypatch.setattr(_interactions, "TREE_LIMIT", 0)
    told = eq.certify(game, mixture, concept="ce")
    assert swaps.exact
    assert not told.exact
    assert "told the component" in told.method
    assert (coarse <= swaps.upper).all()
    np.testing.assert_array_equal(told.gains, coarse)
    assert (swaps.gains <= told.upper).all()
    assert told.upper.min() > coarse.min()
    # With one component there is nothing to be told.
    product = mixture[0]
    gains = [eq.certify(game, product, concept=c).gains for c in ("nash", "cce", "ce")]
    np.testing.assert_allclose(gains, [gains[0]] * 3, atol=1e-13)


def test_the_concept_is_that_of_the_policy_unless_one_is_asked_for(rng):
    for game in (contextual_game(rng), markov_game()):
        product = game.uniform_policy()
        mixture = Mixture(np.stack([product, product]))
        assert eq.certify(game, product).concept == "nash"
        assert eq.certify(game, mixture).concept == "cce"
        for concept in ("cce", "ce"):
            assert eq.certify(game, product, concept=concept).concept == concept
            assert eq.certify(game, mixture, concept=concept).concept == concept


def test_a_markov_game_as_a_normal_form(rng):
    family = FAMILIES.polymatrix(agents=2, actions=2, states=2, horizon=2, contexts=1, scale=1.0)
    game = family.sample(key=3)
    policy = random_policies(rng, *game.policy_shape)
    number = np.arange(16)
    chosen = (number[:, None] // 2 ** np.arange(4)) % 2
    profile = []
    for i in range(2):
        flat = policy[0, :, i].reshape(4, 2)
        profile.append(np.prod(np.take_along_axis(flat[None], chosen[..., None], 2)[..., 0], 1))
    table = eq.certify(game.to_normal_form(), profile)
    found = eq.certify(game, policy)
    np.testing.assert_allclose(found.value, table.value, atol=1e-12)
    np.testing.assert_allclose(found.gains, table.gains, atol=1e-12)


def test_agents_with_fewer_states_and_actions(rng):
    """Padding changes nothing: a small agent beside a large one."""
    dense = rng.normal(size=(2, 2, 4, 4))  # horizon 2, two agents, moves 2 x 2
    transitions = random_policies(rng, 2, 2, 2, 2, 2)
    initial = np.array([[0.5, 0.5], [1.0, 0.0]])
    transitions[:, 1] = np.nan  # never read, but for state 0 and action 0 of the second agent
    transitions[:, 1, 0, 0] = [1.0, 0.0]
    game = eq.DecoupledMarkovGame(
        Interactions.from_dense(dense), transitions, initial, states=(2, 1), actions=(2, 1)
    )
    policy = game.uniform_policy()
    found = eq.certify(game, policy)
    assert found.gains[1] == pytest.approx(0.0, abs=1e-13)
    alone = eq.DecoupledMarkovGame(
        Interactions({1: [[0]]}, {1: dense[:, 0, :, 0][:, None]}, 1),
        transitions[:, :1],
        initial[:1],
    )
    np.testing.assert_allclose(
        found.gains[:1], eq.certify(alone, policy[:, :, :1]).gains, atol=1e-12
    )
    with pytest.raises(ValueError, match="actions an agent lacks"):
        eq.certify(game, np.full(game.policy_shape, 0.5))
    with pytest.raises(ValueError, match="initial: expected probability 0 of state 1 for agent 1"):
        eq.DecoupledMarkovGame(
            game.interactions, transitions, initial[[0, 0]], states=(2, 1), actions=(2, 1)
        )


def test_marginals_of_a_coarse_equilibrium_of_a_zero_sum_polymatrix_game():
    """Cai and others (2016): the Nash gains of the marginals are at most the sum of CCE gains."""
    game = FAMILIES.zero_sum_polymatrix(agents=4, actions=3, scale=1.0).sample(key=0)
    policy, played = game.uniform_policy(), []
    for _ in range(400):  # multiplicative weights: no regret
        played.append(policy)
        policy = policy * np.exp(0.1 * game.interactions.expected(policy))
        policy /= policy.sum(-1, keepdims=True)
    mixture = Mixture(np.stack(played))
    coarse, nash = eq.certify(game, mixture), eq.certify(game, mixture.marginal())
    assert coarse.max_gain < 0.05
    assert nash.nash_conv <= coarse.nash_conv + 1e-10
    assert nash.nash_conv < eq.certify(game, game.uniform_policy()).nash_conv / 5


def test_many_components_in_parts(rng, monkeypatch):
    game = contextual_game(rng)
    mixture = Mixture(padded(rng, game, 7), random_policies(rng, 7))
    whole = eq.certify(game, mixture, concept="ce").gains
    monkeypatch.setattr("equipoise.certificates._interactions._CHUNK", 1)
    np.testing.assert_allclose(eq.certify(game, mixture, concept="ce").gains, whole, atol=1e-13)


def test_wrong_policies_and_concepts_are_refused(rng):
    game = contextual_game(rng)
    policy = padded(rng, game)
    mixture = Mixture(padded(rng, game, 2))
    with pytest.raises(ValueError, match=r"expected a product policy of shape \(2, 3, 3\)"):
        eq.certify(game, policy[0])
    with pytest.raises(ValueError, match="applies to product policies"):
        eq.certify(game, mixture, concept="nash")
    with pytest.raises(
        ValueError, match=r"expected one of \('auto', 'nash', 'cce', 'ce'\), found 'exact'"
    ):
        eq.certify(game, policy, concept="exact")
    with pytest.raises(ValueError, match="concept: expected auto, nash, cce or ce"):
        eq.certify(eq.MarkovGame([[[0.0]]], [[[[1.0]]]], 0.5), ([[1.0]], [[1.0]]), concept="best")
    with pytest.raises(ValueError, match="expected a single game for a mixture"):
        eq.certify(eq.MatrixGame(np.zeros((2, 1, 1))), Mixture(np.ones((2, 2, 1))))
    with pytest.raises(ValueError, match="sum to 1"):
        eq.certify(game, policy * 0.5)


@pytest.mark.parametrize("concept", ["auto", "cce", "ce"])
def test_mixtures_on_tables_are_those_on_terms(rng, concept):
    chicken = eq.games.load("chicken")
    mixture = Mixture(random_policies(rng, 3, 2, 2), random_policies(rng, 3))
    terms = eq.ContextualGame(eq.games.Interactions.from_dense(np.asarray(chicken.payoffs)[None]))
    found = eq.certify(chicken, mixture, concept=concept)
    expected = eq.certify(terms, mixture, concept=concept)
    assert found.concept == ("ce" if concept == "ce" else "cce")
    np.testing.assert_allclose(found.gains, expected.gains, atol=1e-12)
    wide = eq.MatrixGame([[0.0, 1.0, -1.0], [2.0, 0.0, 1.0]])
    light = Mixture([[[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1]]])
    # Row player: earns 1 and 1; always its first action earns (1 - 1) / 2, its second (0 + 1) / 2.
    np.testing.assert_allclose(eq.certify(wide, light).gains[0], 0.5 - 1.0)
