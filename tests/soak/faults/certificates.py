"""Faults in certificates: gains that are wrong, and bounds that are too low."""

from soak.faults.planting import Fault

_TESTS = "tests/certificates"
_EXACTLY = f"{_TESTS}/test_certificates_exactly.py"
_UNDER = f"{_EXACTLY}::test_no_gain_is_under_reported"
_IDLE = f"{_EXACTLY}::test_the_rounding_of_a_deviation_counts_where_the_policy_earns_nothing"
PART = "certificates"
FAULTS = [
    Fault(
        "worst-reply", PART,
        "The row player's gain is that of the worst pure reply and not of the best.",
        r"largest\(row_values\), smallest\(column_values\)",
        "smallest(row_values), smallest(column_values)",
        (f"{_TESTS}/test_certify.py::test_measures_have_one_meaning_each",),
    ),
    Fault(
        "matrix-rounding", PART,
        "The bound of a matrix game has no room for rounding.",
        r"2\.0 \* step \* reach \+ table\.tiny",
        "0.0 * reach",
        (f"{_UNDER}[matrix]",),
    ),
    Fault(
        "compiled-rounding", PART,
        "The bound that the compiled kernel gives for a matrix game has no room for rounding.",
        r"results\[0, g, i\] \+ results\[3, g, i\]",
        "results[0, g, i]",
        (f"{_IDLE}[matrix]",),
    ),
    Fault(
        "recommendation-axes", PART,
        "The actions that are recommended and those that are played instead are swapped.",
        r"np\.matmul\(chances, np\.swapaxes\(own, -1, -2\)\)",
        "np.matmul(own, np.swapaxes(chances, -1, -2))",
        (f"{_UNDER}[joint]",),
    ),
    Fault(
        "swap-rounding", PART,
        "The bound of a contextual game has no room for the rounding of deviations.",
        r"swapped \+ step \* swapped_size",
        "swapped",
        (f"{_IDLE}[contextual]",),
    ),
    Fault(
        "residual-of-one-step", PART,
        "The residual of one step of a discounted game is not summed over all later steps.",
        r"worst / \(1\.0 - discount\) \* \(1\.0 \+ 8 \* EPS\)",
        "worst * (1.0 + 8 * EPS)",
        (f"{_UNDER}[markov]",),
    ),
    Fault(
        "induction-rounding", PART,
        "Backward induction adds nothing for the rounding of its steps.",
        r"(?<!\d)4 \* operations \* EPS \* reach",
        "0.0 * reach",
        (f"{_UNDER}[general-sum-markov]",),
    ),
    Fault(
        "vanishing-products", PART,
        "Rewards that are met with a probability below 1e-308 are forgotten.",
        r"np\.maximum\(np\.abs\(table\.scaled\), least\)",
        "np.abs(table.scaled)",
        (f"{_EXACTLY}::test_rewards_that_are_almost_never_met_count",),
    ),
    Fault(
        "rounded-down", PART,
        "Bounds that are scaled back to very small units are rounded down and not up.",
        r"np\.nextafter\(result, np\.inf\)",
        "np.nextafter(result, -np.inf)",
        (f"{_EXACTLY}::test_bounds_in_very_small_units_are_rounded_up",),
    ),
    Fault(
        "broken-promise", PART,
        "A declared Lipschitz constant or curvature that rewards break is not refused.",
        r"stated is not None and found > stated \+ slack",
        "False",
        (f"{_TESTS}/test_continuous_certificates.py::TestFunctions::"
         "test_a_stated_bound_that_rewards_break_is_refused",),
    ),
]  # fmt: skip
