"""Faults in games of many agents and in road networks."""

from soak.faults.planting import Fault

_EXACTLY = "tests/certificates/test_certificates_exactly.py::test_no_gain_is_under_reported"
PART = "crowds"
FAULTS = [
    Fault(
        "worst-action-of-an-agent", PART,
        "The gain of an agent among many is that of its worst action.",
        r"np\.max\(rewards, 1\) - value",
        "np.min(rewards, 1) - value",
        ("tests/certificates/test_certify_crowds.py::test_gains_are_those_of_a_loop",),
    ),
    Fault(
        "aggregate-of-a-deviation", PART,
        "A deviation is rewarded at the aggregate that it leaves and not at the one it causes.",
        r"x \+ scale \* \(influence - left\)",
        "x + 0.0 * (influence - left)",
        (f"{_EXACTLY}[aggregative]",),
    ),
    Fault(
        "rounding-of-an-aggregate", PART,
        "The bound of an agent among many leaves out the rounding of the aggregate.",
        r"2\.0 \* game\.lipschitz \* moved \+ 4 \* EPS \* np\.abs\(rewards\)\.max\(1\)",
        "0.0 * np.abs(rewards).max(1)",
        (f"{_EXACTLY}[aggregative]",),
    ),
    Fault(
        "largest-remainders", PART,
        "Numbers of agents are rounded up where remainders are smallest.",
        r"np\.argsort\(-\(exact - plays\)",
        "np.argsort((exact - plays)",
        ("tests/aggregative/test_map_and_mean_field.py::TestMeanField::"
         "test_no_numbers_of_agents_are_nearer_to_a_mix",),
    ),
    Fault(
        "moving-transitions", PART,
        "The bound on gains in a Markov game of many agents counts moved transitions once a step "
        "and not for every later step.",
        r"steps \* \(steps - 1\) / 2",
        "(steps - 1) / 2",
        ("tests/aggregative/test_solve_markov_crowds.py::test_the_bound_where_only_transitions_move",),
    ),
    Fault(
        "missing-travellers", PART,
        "Path flows that fall short of the demand are certified without the missing travellers.",
        r"amounts \* \(game\.demand / carried\)\[pairs\]",
        "amounts.astype(np.longdouble)",
        (f"{_EXACTLY}[network]",),
    ),
    Fault(
        "use-beyond-link-flows", PART,
        "What the paths of link flows use beyond these flows is free.",
        r"math\.fsum\(\(over \* np\.maximum\(crowded, high\)\)\.ravel\(\)\)",
        "0.0",
        ("tests/networks/test_certified_flows.py::TestLinkFlows::"
         "test_flows_that_lose_travellers_on_balanced_trips",
         f"{_EXACTLY}[network, link flows]"),
    ),
    Fault(
        "rounding-of-link-costs", PART,
        "The bound of path flows leaves out the rounding of link costs.",
        r"error = EPS \* \(error \+ 3\.0",
        "error = 0.0 * (error + 3.0",
        (f"{_EXACTLY}[network]",),
    ),
    Fault(
        "marginal-cost", PART,
        "The marginal cost of a link leaves out the cost of the traveller who is added.",
        r"\(1\.0 \+ self\.power\) \* risen",
        "self.power * risen",
        (f"{_EXACTLY}[network]",),
    ),
    Fault(
        "derivative-by-demand", PART,
        "The derivative of link flows by demand leaves out how costs rise on the main paths.",
        r"right \+ self\.paths @ \(self\.slopes \* base\)",
        "right",
        ("tests/networks/test_designs.py::TestSensitivity::"
         "test_against_central_differences[demand]",),
    ),
]  # fmt: skip
