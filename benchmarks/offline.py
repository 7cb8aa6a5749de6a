"""From a log to a policy: fits and iterations of DR-AC, for more and more agents.

Dense polymatrix games of 5 to 200 agents with four actions (time per iteration, certificate and
gap estimate included), and a network of 1,000 agents with ten neighbours each, fitted from a
million rows that come in pieces. No contender could take part. Accuracy is the policy's largest
CCE gap in the true game, as a part of the gap of the play that made the log.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness import Answer, Arrays, Case, Contender

ACTIONS, ITERATIONS, DEGREE = 4, 200, 10


def polymatrix(agents: int) -> Any:
    """A dense game."""
    from equipoise.games import families

    return families.polymatrix(agents, ACTIONS, scale=0.25).sample(key=0)


def network(agents: int) -> Any:
    """A sparse game."""
    from equipoise.games import families

    return families.network(agents, ACTIONS, degree=DEGREE, scale=0.25).sample(key=0)


def neighbours_of(game: Any) -> list[list[int]]:
    """Whom each agent meets."""
    sets: list[list[int]] = [[] for _ in range(game.agents)]
    for i, j in game.interactions.scopes[2]:
        sets[i].append(int(j))
    return sets


def solve_dense(data: Arrays) -> Callable[[int], Answer]:
    """Learn from a fitted model; fitting is not part of the time."""
    from equipoise import offline

    game = polymatrix(int(data["agents"][0]))
    log = offline.collect(game, "uniform", samples=int(data["samples"][0]), key=1)
    model = offline.fit(log, 2, intervals=False)

    def run(count: int) -> Answer:
        solution = offline.solve(model, iterations=ITERATIONS, force=True)
        # One component of the mixture for each iteration.
        return {"policies": solution.policy.policies}

    return run


def fit_and_solve(data: Arrays) -> Callable[[int], Answer]:
    """The whole way from pieces of a log to a policy; the pieces are drawn beforehand."""
    from equipoise import offline

    game = network(int(data["agents"][0]))
    rows, pieces = int(data["samples"][0]), int(data["pieces"][0])

    def drawn() -> Iterator[Any]:
        for k in range(pieces):
            yield offline.collect(game, "uniform", samples=rows // pieces, key=k)

    logs = list(drawn())

    def run(count: int) -> Answer:
        model = offline.fit(iter(logs), 2, neighbours=neighbours_of(game))
        solution = offline.solve(model, iterations=500)
        return {"policies": solution.policy.policies[None]}

    return run


def measure(make: Callable[[int], Any]) -> Callable[[Arrays, Answer], float]:
    """The gap of the first policy, as a part of that of uniform play."""

    def measured(data: Arrays, answer: Answer) -> float:
        from equipoise.certificates import certify
        from equipoise.games import Mixture

        game = make(int(data["agents"][0]))
        policies = np.asarray(answer["policies"])
        mixture = Mixture(policies.reshape(-1, *game.policy_shape))
        before = float(certify(game, game.uniform_policy()).max_gain)
        return float(certify(game, mixture).max_gain) / before

    return measured


def dense_case(agents: int) -> Case:
    """Iterations in a dense game."""
    samples = 6 * ACTIONS * (1 + (agents - 1) * (ACTIONS - 1))
    return Case(
        name=f"{agents} agents, all pairs, {ITERATIONS} iterations",
        unit="iteration",
        items=ITERATIONS,
        data=lambda: {"agents": np.array([agents]), "samples": np.array([samples])},
        contenders=(
            Contender(
                "ours",
                solve_dense,
                ours=True,
                batched=True,
                how="one call",
                compiles=True,
                timeout=600.0,
            ),
        ),
        measure=measure(polymatrix),
        measured="gap / gap of the log's play",
    )


def sparse_case(agents: int, rows: int, pieces: int) -> Case:
    """Fit and learn in a sparse game."""
    sizes = {"agents": agents, "samples": rows, "pieces": pieces}
    return Case(
        name=f"{agents:,} agents, {DEGREE} neighbours, {rows:,} rows: fit and 500 iterations",
        unit="policy",
        items=1,
        data=lambda: {name: np.array([size]) for name, size in sizes.items()},
        contenders=(
            Contender(
                "ours",
                fit_and_solve,
                ours=True,
                cores=None,
                how="one call",
                compiles=True,
                timeout=1200.0,
            ),
        ),
        measure=measure(network),
        measured="gap / gap of the log's play",
    )


def cases(quick: bool) -> list[Case]:
    """Dense games that grow, and the sparse one."""
    if quick:
        return [dense_case(5), dense_case(20), sparse_case(50, 20_000, 2)]
    return [
        *(dense_case(agents) for agents in (5, 10, 20, 50, 100, 200)),
        sparse_case(1_000, 1_000_000, 10),
    ]
