"""Aggregative games: the program of one cell against HiGHS, and whole plans of many agents.

The programs have n agents of three actions, random weights and influences, and a band that
binds. Every contender starts from NumPy arrays and ends with every agent's shares; what it takes
to build the matrices that a general solver wants is counted, as a user of it would pay for it.
Accuracy is the relative shortfall from the optimum, or how far the band is missed.

Plans have no contender that could take part: n agents with a common state. There the accuracy is
how far the largest certified gain of any agent exceeds what was promised.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from benchmarks.harness import Answer, Arrays, Case, Contender

ACTIONS = 3
AGENTS, QUICK_AGENTS = 10_000, 300


def draw(agents: int, d: int) -> Arrays:
    """A program whose band is far enough from the best weights to bind."""
    rng = np.random.default_rng(agents + d)
    middle = np.full(d, 0.6) * agents
    return {
        "weights": rng.random((agents, ACTIONS)),
        "influence": rng.random((agents, ACTIONS, d)),
        "low": middle - 0.01 * agents,
        "high": middle + 0.01 * agents,
    }


def ours(data: Arrays) -> Callable[[int], Answer]:
    """The structured program, and the shares of every agent."""
    from equipoise.aggregative._knapsack import solve_knapsack
    from equipoise.aggregative._program import Program, solve_dual
    from equipoise.core import kernels

    kernels.load("solve_program")  # NumPy would stand in for it until it is worth loading
    weights, influence, low, high = (data[k] for k in ("weights", "influence", "low", "high"))
    counts, allowed = np.ones(len(weights)), np.ones(weights.shape, bool)

    def run(count: int) -> Answer:
        if len(low) == 1:
            vertex = solve_knapsack(
                weights, influence[..., 0], counts, allowed, float(low[0]), float(high[0])
            )
        else:
            vertex = solve_dual(Program(weights, influence, counts, allowed, low, high))
        if vertex is None:
            raise RuntimeError("the program was found to be infeasible")
        return {"shares": vertex.mass(counts, ACTIONS)[None]}

    return run


def scipy_linprog(method: str) -> Callable[[Arrays], Callable[[int], Answer]]:
    """SciPy's interface to HiGHS, with sparse matrices."""

    def prepare(data: Arrays) -> Callable[[int], Answer]:
        return lambda count: {"shares": solve_by_scipy(data, method)[None]}

    return prepare


def solve_by_scipy(data: Arrays, method: str) -> np.ndarray:
    """(agents, actions): the optimal shares."""
    from scipy import sparse
    from scipy.optimize import linprog

    weights, influence = data["weights"], data["influence"]
    agents = len(weights)
    rows = sparse.csr_array(influence.reshape(agents * ACTIONS, -1).T)
    own = sparse.kron(sparse.eye_array(agents), np.ones((1, ACTIONS)), format="csr")
    result = linprog(
        -weights.ravel(),
        A_ub=sparse.vstack([rows, -rows]),
        b_ub=np.concatenate([data["high"], -data["low"]]),
        A_eq=own,
        b_eq=np.ones(agents),
        bounds=(0, 1),
        method=method,
    )
    return result.x.reshape(agents, ACTIONS)


@cache
def optimum(agents: int, d: int) -> float:
    """The value of a program, by the interior-point method."""
    data = draw(agents, d)
    return float((data["weights"] * solve_by_scipy(data, "highs-ipm")).sum())


def measure_program(data: Arrays, answer: Answer) -> float:
    """Relative shortfall from the optimum, or relative violation of a constraint."""
    shares = np.asarray(answer["shares"])[0]
    agents, _, d = data["influence"].shape
    total = np.einsum("na,nad->d", shares, data["influence"])
    missed = np.maximum(data["low"] - total, total - data["high"]).max() / agents
    uneven = max(float(np.abs(shares.sum(1) - 1).max()), float(-shares.min()))
    value = float((data["weights"] * shares).sum())
    short = (optimum(agents, d) - value) / abs(value)
    return max(0.0, float(missed), uneven, short)


def program_case(agents: int, d: int) -> Case:
    """One program."""
    return Case(
        name=f"one program, {agents:,} agents, d={d}",
        unit="program",
        items=1,
        data=lambda: draw(agents, d),
        contenders=(
            Contender("ours", ours, ours=True, how="one call"),
            Contender("SciPy linprog (highs)", scipy_linprog("highs"), how="one call"),
            Contender("SciPy linprog (highs-ipm)", scipy_linprog("highs-ipm"), how="one call"),
        ),
        measure=measure_program,
        measured="relative error",
        goal={1: 500.0, 2: 20.0}[d] if agents == AGENTS else 1.0,
    )


def draw_city(types: int, states: int, steps: int, d: int, agents: int) -> Arrays:
    """Rewards and transitions, linear in the aggregate."""
    rng = np.random.default_rng(types)
    shape = (steps, states, types, ACTIONS)
    calm, busy = rng.dirichlet(np.ones(states), (2, steps, states))
    counts = np.full(types, agents // types)
    counts[0] += agents - counts.sum()
    return {
        "influence": rng.random((types, ACTIONS, d)),
        "base": rng.uniform(-0.5, 0.5, shape),
        "slopes": rng.uniform(-0.5, 0.5, (*shape, d)) / d,
        "calm": calm,
        "busy": busy,
        "counts": counts,
    }


def plan(objective: str, spacing: float) -> Callable[[Arrays], Callable[[int], Answer]]:
    """The whole public call: plan, and certify all agents."""

    def prepare(data: Arrays) -> Callable[[int], Answer]:
        import equipoise as eq

        base, slopes, calm, busy = (data[k] for k in ("base", "slopes", "calm", "busy"))
        steps, states = base.shape[:2]
        city = eq.AggregativeMarkovGame(
            data["influence"],
            lambda h, s, x: base[h, s] + (slopes[h, s] * x).sum(-1),
            lambda h, s, x: calm[h, s] + x[..., :1] * (busy[h, s] - calm[h, s]),
            steps,
            states,
            data["counts"],
            lipschitz=0.5,
            transition_lipschitz=1.0,
        )

        def run(count: int) -> Answer:
            paper = {} if objective == "regret" else {"slack": "lemma"}
            solution = eq.solve(city, objective=objective, spacing=spacing, **paper)
            return {
                "gain": [float(solution.certificate.max_gain)],
                "bound": [float(solution.stats["bound"])],
            }

        return run

    return prepare


def measure_plan(data: Arrays, answer: Answer) -> float:
    """How far the largest gain of any agent exceeds the bound."""
    return max(0.0, float(answer["gain"][0]) - float(answer["bound"][0]))


def plan_case(agents: int, types: int, states: int, steps: int, d: int, spacing: float) -> Case:
    """Plan and certify, for any equilibrium and for the best."""
    kinds = "distinct" if types == agents else f"of {types} types"
    return Case(
        name=f"plan, {agents:,} agents {kinds}, S={states}, H={steps}, d={d}",
        unit="plan",
        items=1,
        data=lambda: draw_city(types, states, steps, d, agents),
        contenders=(
            Contender("ours, any equilibrium", plan("regret", spacing), ours=True, how="one call"),
            Contender("ours, best welfare", plan("welfare", spacing), ours=True, how="one call"),
        ),
        measure=measure_plan,
        measured="gain beyond bound",
    )


def cases(quick: bool) -> list[Case]:
    """Programs beside HiGHS; plans of many agents, and how they grow with their number."""
    if quick:
        return [
            program_case(QUICK_AGENTS, 1),
            program_case(QUICK_AGENTS, 2),
            plan_case(10_000, 5, 3, 3, 1, 0.05),
            plan_case(300, 300, 2, 2, 1, 0.05),
        ]
    return [
        program_case(AGENTS, 1),
        program_case(AGENTS, 2),
        plan_case(1_000_000, 30, 20, 10, 1, 0.02),
        *(plan_case(n, n, 5, 5, 1, 0.05) for n in (1_000, 10_000, 100_000)),
        plan_case(10_000, 10_000, 5, 5, 2, 0.05),
    ]
