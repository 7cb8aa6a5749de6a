"""Faults in solvers and in the programs that they share."""

from soak.faults.planting import Fault

_TESTS, _CORE = "tests/solvers", "tests/core"
PART = "solvers"
FAULTS = [
    Fault(
        "early-optimum", PART,
        "Pivoting calls a game solved while a column still improves it by a thousand roundings.",
        r"t\.cost < -16\.0 \* precision",
        "t.cost < -16e3 * precision",
        (f"{_CORE}/test_zerosum.py::test_pivots_go_on_until_no_column_improves",),
    ),
    Fault(
        "refinement-residual", PART,
        "Refinement of a zero-sum game adds the residual of a row with the wrong sign.",
        r"row_residual = 1\.0 - \(payoff \* w\[None\]\)\.sum\(1\)",
        "row_residual = (payoff * w[None]).sum(1) - 1.0",
        (f"{_CORE}/test_zerosum.py::test_single_precision_pivots_are_refined_to_double",),
    ),
    Fault(
        "interval-of-a-zero", PART,
        "Bisection for a critical point of a polynomial keeps the half without the zero.",
        r"np\.where\(before, middle, left\), np\.where\(before, right, middle\)",
        "np.where(before, left, middle), np.where(before, middle, right)",
        (f"{_CORE}/test_polynomials.py::test_no_point_of_a_grid_is_higher",),
    ),
    Fault(
        "curvature-of-a-bound", PART,
        "The bound on a polynomial between two points leaves out its curvature.",
        r"np\.maximum\(low, high\) \+ bend\[which\] \* \(right - left\) \*\* 2",
        "np.maximum(low, high)",
        (f"{_CORE}/test_polynomials.py::test_bounds_hold_where_the_maximum_was_not_found",),
    ),
    Fault(
        "ratio-of-a-pivot", PART,
        "The exact search of all equilibria takes the row with the largest ratio.",
        r"row\[d\] \* q - other\[d\] \* p",
        "other[d] * p - row[d] * q",
        (f"{_TESTS}/test_bimatrix.py::test_duplicate_and_dominated_strategies",
         f"{_TESTS}/test_bimatrix.py::test_components_and_subsets_of_degenerate_games"),
    ),
    Fault(
        "labels-of-the-column-player", PART,
        "Labels of the column player's polytope are shifted by the other player's actions.",
        r"\(labels >> own\) \|",
        "(labels >> other) |",
        (f"{_TESTS}/test_bimatrix.py::test_duplicate_and_dominated_strategies",),
    ),
    Fault(
        "indifference", PART,
        "Newton's method for indifference equates expected payoffs and not their differences "
        "from each player's value.",
        r"\(worth - values\[owner\]\)\[used\]",
        "worth[used]",
        (f"{_TESTS}/test_nplayer.py::test_polish_ends_at_the_equilibrium_nearby",),
    ),
    Fault(
        "entropy-bound", PART,
        "The bound on the entropy of equilibria takes the multipliers with the wrong sign.",
        r"exponent = -\(found\.y @ rows\)",
        "exponent = found.y @ rows",
        (f"{_TESTS}/test_correlated.py::test_entropy_is_larger_than_that_of_other_equilibria",),
    ),
    Fault(
        "unit-of-rationality", PART,
        "Rationality is scaled like a payoff and not like one over a payoff.",
        r"np\.ldexp\(options\[.rationality.\], table\.exponent\)",
        'np.ldexp(options["rationality"], -table.exponent)',
        (f"{_TESTS}/test_units.py::test_rationality_is_in_units_of_one_over_payoff",),
    ),
    Fault(
        "one-step-ahead", PART,
        "The value of a step of a Markov game subtracts what follows.",
        r"now \+ self\.discount \* chain @ ahead",
        "now - self.discount * chain @ ahead",
        (f"{_TESTS}/test_markov_general.py::test_backward_induction",),
    ),
]  # fmt: skip
