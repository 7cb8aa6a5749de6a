"""Games given by an oracle that returns each population's cheapest action at given costs."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.values import frozen, read_only, static
from equipoise.games._callables import call
from equipoise.games._flow_policy import FlowPolicy
from equipoise.games._game import Labels, SingleGame


class OracleGame(SingleGame[FlowPolicy]):
    """Populations that use resources and have too many actions to list.

    An action is a vector of resources: the links of a path, the hours of a charging schedule, the
    edges of a spanning tree. A population's use of the resources is a mixture of its actions, times
    its size. The more a resource is used, the more it costs. Two functions define the game.

    - `cost`: maps the use of each resource, x of shape (resources,), to the cost of each. It must
      be monotone: (cost(x) - cost(y)) · (x - y) >= 0. A cost may depend on other resources' use.
    - `best`: maps costs, (resources,), to (populations, resources): the use of each population if
      all its agents take a cheapest action at these costs.
    - `sizes`: (populations,) number of agents in each. Default: 1. Gains are per agent.

    `NetworkGame` is the special case of paths in a network and has a faster solver.

    **Example**

    Two machines that take 1 + x and 2 + x, and two populations of size one. The second population
    can only use the second machine:

    >>> import numpy as np, equipoise as eq
    >>> def best(costs):
    ...     first = [1.0, 0.0] if costs[0] <= costs[1] else [0.0, 1.0]
    ...     return np.array([first, [0.0, 1.0]])
    >>> game = eq.games.OracleGame(lambda x: np.array([1.0, 2.0]) + x, best, resources=2)
    >>> eq.solve(game).policy.flows.round(6).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    kind: ClassVar[str] = "oracle"
    _who: ClassVar[str] = "agent"
    _measure: ClassVar[str] = "mean cost"
    sizes: np.ndarray
    cost: Callable[[Any], Any] = static()
    best: Callable[[Any], Any] = static()
    resources: int = static()
    labels: Labels = static()

    def __init__(self, cost: Any, best: Any, resources: int, sizes: Any = None, labels: Any = None):
        for name, function in (("cost", cost), ("best", best)):
            if not callable(function):
                raise InputError(name, "a function", type(function).__name__)
        self._set(cost=cost, best=best, resources=checks.check_count("resources", resources))
        first = np.asarray(call(best, self.costs(np.zeros(self.resources))), np.float64)
        if first.ndim != 2:
            expected = f"shape (populations, {self.resources})"
            raise InputError("best", expected, f"shape {first.shape}")
        sizes = frozen(np.ones(len(first))) if sizes is None else read_only("sizes", sizes)
        checks.check_shape("sizes", sizes, (len(first),), "one for each row of best")
        if not (np.isfinite(sizes) & (sizes > 0.0)).all():
            raise InputError("sizes", "positive numbers", sizes)
        self._set(sizes=sizes, labels=Labels.of(labels, players=len(first)))
        self.replies(self.costs(first.sum(0)))

    def costs(self, x: Any) -> np.ndarray:
        """(resources,): the checked cost of each resource at its use."""
        values = np.asarray(checks.as_float_array("cost", call(self.cost, np.asarray(x, float))))
        checks.check_shape("cost", values, (self.resources,), "one for each resource")
        checks.check_finite("cost", values)
        return values

    def replies(self, costs: Any) -> np.ndarray:
        """(populations, resources): each population's checked use if it takes cheapest actions."""
        values = np.asarray(checks.as_float_array("best", call(self.best, np.asarray(costs))))
        shape = (len(self.sizes), self.resources)
        checks.check_shape("best", values, shape, "populations and resources")
        checks.check_finite("best", values)
        return values

    @property
    def players(self) -> int:
        """Number of populations."""
        return len(self.sizes)

    @property
    def actions(self) -> tuple[int, ...]:
        """Always `()`, because the actions are not listed."""
        return ()

    def _by_names(self, policy: Mapping[str, Any]) -> np.ndarray:
        """Return the use of resources by each population."""
        entries = super()._by_names(policy)
        use = []
        for i, own in enumerate(entries):
            where = f"policy[{self.about.player(i)!r}]"
            use.append(checks.as_float_array(where, own))
            checks.check_shape(where, use[i], (self.resources,), "one for each resource")
        return np.stack(use)

    def _checked(self, policy: Any) -> FlowPolicy:
        policy = policy if isinstance(policy, FlowPolicy) else FlowPolicy(policy)
        shape = (self.players, self.resources)
        checks.check_shape("flows", policy.flows, shape, "populations and resources")
        return policy

    def describe(self) -> str:
        """Return a one-line description of the game."""
        return (
            f"game of {self.players} populations and {self.resources} resources, given by an oracle"
        )
