"""Incentives: the toll, price or subsidy whose equilibrium is the best for an objective.

The search covers a box of a few parameters: a grid first, then finer grids around the best points.
At each point the game of those parameters is solved and certified. Outcomes jump where agents
switch from one equilibrium to another, so the search does not assume that they are smooth.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from equipoise.aggregative._solve import solve_aggregative
from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.results import Solution, Status
from equipoise.core.text import wrapped
from equipoise.games import AggregativeGame
from equipoise.runs import Record, Table, interruptible

#: Largest number of parameters, and points along each in the first grid by that number.
MOST, _ACROSS = 3, {1: 17, 2: 7, 3: 5}
#: Default number of times that the grid around the best point is refined, and the factor.
_ROUNDS, _FINER = 5, 0.35


@dataclass(frozen=True)
class Design:
    """The best parameters found, the equilibrium they lead to, and every point tried.

    **Example**

    >>> import equipoise as eq
    >>> town = eq.games.load("two-roads", agents=1000)
    >>> toll = eq.aggregative.design(town, {"motorway": (0.0, 0.4)})
    >>> [name for name in toll.parameters], len(toll.tried) > 17, toll.status.ok
    (['motorway'], True, True)
    """

    #: The best parameters found, by name.
    parameters: dict[str, float]
    #: Value of the objective at the best parameters.
    outcome: float
    #: The certified equilibrium at the best parameters.
    solution: Solution
    #: "solved" if that equilibrium meets its tolerance; "interrupted" if Ctrl-C ended the search.
    status: Status
    #: Every point tried: parameters, outcome, largest gain, and whether it met the tolerance.
    tried: tuple[tuple[dict[str, float], float, float, bool], ...]

    def __str__(self) -> str:
        best = (f"best {name}: {value:.6g}" for name, value in self.parameters.items())
        tried = f"outcome: {self.outcome:.6g}, the best of {len(self.tried):,} points tried"
        return "\n".join((*wrapped(self.status), *best, tried, str(self.solution)))

    def record(self) -> Record:
        """Record for `equipoise.report.page_of`, which plots the outcome against each parameter.

        **Example**

        >>> import equipoise as eq
        >>> town = eq.games.load("two-roads", agents=100)
        >>> record = eq.aggregative.design(town, {"motorway": (0.0, 0.4)}).record()
        >>> "outcome" in eq.report.page_of(record).html()
        True
        """
        met = [one for one in self.tried if one[3]]
        arrays = {"design/outcome": np.array([one[1] for one in met])}
        for name in self.parameters:
            arrays[f"design/{name}"] = np.array([one[0][name] for one in met])
        columns = (*self.parameters, "outcome", "largest gain")
        rows = [(*one[0].values(), one[1], one[2]) for one in sorted(met, key=lambda one: -one[1])]
        scalars = {"outcome": self.outcome, "status": str(self.status)}
        scalars |= {f"best {name}": value for name, value in self.parameters.items()}
        return Record("design", {}, scalars, arrays, {"tried": Table(columns, rows[:24])})


@named_arguments
def design(
    game: Any,
    parameters: Mapping[Any, tuple[float, float]],
    objective: str | Callable[[Solution], float] = "welfare",
    *,
    rounds: int = _ROUNDS,
    **options: Any,
) -> Design:
    """Choose a toll, price or subsidy whose equilibrium is the best for an objective.

    - `game`: an `AggregativeGame`, or a function from the parameters, by keyword, to a game. For a
      game, `parameters` are charges (negative: subsidies) on actions, by label or number, each with
      its box (low, high), in units of reward.
    - `objective`: "welfare" is the mean reward without the charges; "egalitarian" is the reward of
      the worst-off agent, charges included; or a function of the `Solution`. Default: "welfare".
    - `rounds`: how often the grid around the best point is refined. `options` are passed to
      `solve`; by default any equilibrium of each game is taken.

    Only equilibria that meet their tolerance count. There are at most three parameters.

    **Example**

    >>> import equipoise as eq
    >>> town = eq.games.load("two-roads", agents=1000)
    >>> toll = eq.aggregative.design(town, {"motorway": (0.0, 0.4)})
    >>> optimum = eq.solve(town, concept="optimum").objective
    >>> round(toll.outcome, 4) == round(optimum.lower, 4)
    True
    """
    names, low, high = _boxes(parameters)
    make, charges = _maker(game, parameters)
    if not callable(objective) and objective not in ("welfare", "egalitarian"):
        raise InputError("objective", "'welfare', 'egalitarian' or a function", repr(objective))
    checks.check_count("rounds", rounds, at_least=0)
    tried: dict[tuple[float, ...], tuple[float, Solution]] = {}

    def outcome(point: tuple[float, ...]) -> tuple[float, Solution]:
        if point not in tried:
            values = dict(zip(names, point, strict=True))
            made = make(values)
            solution = solve_aggregative(made, **options)
            tried[point] = _worth(made, solution, objective, charges(values)), solution
        return tried[point]

    def score(point: tuple[float, ...]) -> tuple[bool, float]:
        worth, solution = outcome(point)
        return solution.status.ok, worth

    across = _ACROSS[len(names)]
    best, centre, width = (), (low + high) / 2, (high - low) / 2
    with interruptible() as stop:
        for step in range(rounds + 1):
            axes = np.linspace(-1.0, 1.0, across if step == 0 else 5)
            shifts = product(axes, repeat=len(names))
            for shift in shifts:
                outcome(tuple(map(float, np.clip(centre + width * np.array(shift), low, high))))
                if stop:
                    break
            best = max(tried, key=score)
            if stop:
                break
            centre, width = np.array(best), width * (2.0 / across if step == 0 else _FINER)
    worth, solution = tried[best]
    ok = solution.status.ok
    message = f"{len(tried)} games were solved; at the best point, {solution.status.message}"
    name = "interrupted" if stop else "solved" if ok else "not solved"
    status = Status(name, message, np.asarray(ok))
    told = tuple(
        (
            dict(zip(names, point, strict=True)),
            found,
            float(one.certificate.max_gain),
            one.status.ok,
        )
        for point, (found, one) in tried.items()
    )
    return Design(dict(zip(names, best, strict=True)), worth, solution, status, told)


def _boxes(parameters: Mapping[Any, Any]) -> tuple[list[str], np.ndarray, np.ndarray]:
    if not 1 <= len(parameters) <= MOST:
        raise InputError("parameters", f"one to {MOST} parameters", len(parameters))
    for name, box in parameters.items():
        if np.shape(box) != (2,) or not np.isfinite(box).all() or not box[0] < box[1]:
            raise InputError(f"parameters[{name!r}]", "(low, high) with low < high", box)
    low, high = np.array([list(box) for box in parameters.values()], np.float64).T
    return [str(name) for name in parameters], low, high


def _maker(
    game: Any, parameters: Mapping[Any, Any]
) -> tuple[Callable[[dict[str, float]], Any], Callable[[dict[str, float]], np.ndarray | None]]:
    """Functions that return the game of given parameters, and the charges on its actions."""
    if callable(game) and not isinstance(game, AggregativeGame):
        return lambda values: game(**values), lambda values: None
    if not isinstance(game, AggregativeGame):
        expected = "an AggregativeGame, or a function from the parameters to a game"
        raise InputError("game", expected, type(game).__name__)
    labels = [game.labels.action(0, a) for a in range(game.actions[0])]
    places = {}
    for name in parameters:
        if name not in labels and not (isinstance(name, int) and 0 <= name < len(labels)):
            raise InputError("parameters", f"actions among {labels}, or their numbers", repr(name))
        places[str(name)] = labels.index(name) if name in labels else int(name)

    def charges(values: dict[str, float]) -> np.ndarray:
        charge = np.zeros(len(labels))
        for name, value in values.items():
            charge[places[name]] = value
        return charge

    def make(values: dict[str, float]) -> AggregativeGame:
        charge, reward = charges(values), game.field.function
        room = float(np.abs(charge).max())
        bounds = (game.bounds[0] - room, game.bounds[1] + room)
        given = None if game.lipschitz_estimated else game.slopes or game.lipschitz
        return AggregativeGame(
            game.influence,
            lambda x: reward(x) - charge,
            given,
            counts=game.counts,
            scale=game.scale,
            bounds=bounds,
            elementwise=game.field.elementwise,
            labels=game.labels,
        )

    return make, charges


def _worth(
    game: Any,
    solution: Solution,
    objective: str | Callable[[Solution], float],
    charge: np.ndarray | None,
) -> float:
    if not isinstance(objective, str):
        return float(objective(solution))
    if objective == "egalitarian":
        return float(np.min(solution.certificate.value))
    paid = 0.0
    if charge is not None:
        policy: Any = solution.policy
        paid = float(policy.counts @ charge[policy.actions] / game.agents)
    return float(np.mean(solution.value)) + paid
