"""Faults in learners and in players that learn in context."""

from soak.faults.planting import Fault

_BY_HAND = "tests/dynamics/test_steps_by_hand.py"
_CONTEXT = "tests/incontext"
PART = "players"
FAULTS = [
    Fault(
        "anchor-one-round-late", PART,
        "The anchor of mirror descent follows the policy before the step.",
        r"self\.anchor\.update\(state\.anchor, policy, t\)",
        "self.anchor.update(state.anchor, state.policy, t)",
        (f"{_BY_HAND}::test_mirror_descent_follows_its_anchor",),
    ),
    Fault(
        "implicit-exploration", PART,
        "Implicit exploration is left out of the estimate of losses.",
        r"once\(loss / \(steps\.pick\(policy, action\) \+ beta\)\)",
        "once(loss / steps.pick(policy, action))",
        (f"{_BY_HAND}::test_mirror_descent_follows_its_anchor",),
    ),
    Fault(
        "sign-of-the-pull", PART,
        "The regulariser pushes the policy away from its anchor.",
        r"losses \+ rates\.strength\(t, actions\) \* pull",
        "losses - rates.strength(t, actions) * pull",
        (f"{_BY_HAND}::test_mirror_descent_follows_its_anchor",),
    ),
    Fault(
        "exp3-rate", PART,
        "EXP3-IX computes the next policy with the rate of the round that has passed.",
        r"-self\._rate\(state, feedback\.round \+ 1\) \* losses",
        "-self._rate(state, feedback.round) * losses",
        (f"{_BY_HAND}::test_exp3_ix_weighs_its_losses",),
    ),
    Fault(
        "regret-of-the-column-player", PART,
        "The regret of the column player is measured against its worst fixed action.",
        r"np\.einsum\(.abg,ag->bg., tables\.reward, x\)\.min\(0\)",
        'np.einsum("abg,ag->bg", tables.reward, x).max(0)',
        ("tests/dynamics/test_play.py::test_averages_and_regrets_are_those_of_the_history",),
    ),
    Fault(
        "opponent-of-a-guarantee", PART,
        "The guarantee of an output policy is its value against the most helpful opponent.",
        r"mixed\.min\(\) if player == 0 else mixed\.max\(\)",
        "mixed.max() if player == 0 else mixed.min()",
        ("tests/dynamics/test_certified_output.py::"
         "test_no_stationary_opponent_breaks_a_guarantee",),
    ),
    Fault(
        "token-of-the-future", PART,
        "Attention in chunks lets a token see the one after it.",
        r"jnp\.arange\(last\)\[None\] <= jnp\.arange\(first, last\)\[:, None\]",
        "jnp.arange(last)[None] <= jnp.arange(first, last)[:, None] + 1",
        (f"{_CONTEXT}/test_transformer.py::test_a_token_sees_the_past_alone",),
    ),
    Fault(
        "axes-of-matrices", PART,
        "The optimiser takes the rows and columns of attention's query for one another's heads.",
        r"reduction_axis=\(3,\), output_axis=\(1, 2\)",
        "reduction_axis=(2,), output_axis=(1, 3)",
        (f"{_CONTEXT}/test_optimiser.py::test_muon_moves_matrices_alike_in_all_directions",),
    ),
    Fault(
        "level-of-a-reward", PART,
        "Tokens round the level of a reward up and not down.",
        r"jnp\.floor\(jnp\.asarray\(reward\) \* self\.bins\)",
        "jnp.ceil(jnp.asarray(reward) * self.bins)",
        (f"{_CONTEXT}/test_round_tokens.py::test_the_vocabulary_keeps_the_level_of_a_reward",),
    ),
    Fault(
        "steps-to-a-state", PART,
        "Expected times to reach a state leave out the steps of states that were eliminated.",
        r"cost\[:k\] \+= share \* cost\[k\]",
        "cost[:k] += 0.0 * share",
        (f"{_CONTEXT}/test_travel_time.py::"
         "test_a_state_that_is_left_with_probability_p_takes_one_over_p_steps",
         f"{_CONTEXT}/test_travel_time.py::test_a_walk_on_a_line_takes_the_square_of_its_length"),
    ),
]  # fmt: skip
