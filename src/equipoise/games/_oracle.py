"""Games given by an oracle: costs of resources, and the cheapest action of everybody at them."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.values import frozen, read_only
from equipoise.games._callables import call
from equipoise.games._game import Labels, SingleGame


class OracleGame(SingleGame):
    """Populations that use resources, whose actions are too many to list.

    An action is a vector of resources: the links of a path, the hours of a charging schedule, the
    edges of a spanning tree. What a population does in all is a mixture of its actions times its
    size. Resources cost more the more they are used; two functions say all that there is to know.

    - `cost`: from the use of each resource, x of shape (resources,), to the cost of each,
      increasing: (cost(x) - cost(y)) · (x - y) >= 0. A resource may depend on others.
    - `best`: from costs, (resources,), to (populations, resources): what each population uses if
      all of it takes an action that is cheapest at them.
    - `sizes`: (populations,) how many agents each has; 1 unless given. Gains are by agent.

    `NetworkGame` is the case of paths in a network, with a faster solver.

    **Example**

    Two machines that take 1 + x and 2 + x, and two populations of one, of which the second can
    only use the second machine:

    >>> import numpy as np, equipoise as eq
    >>> def best(costs):
    ...     first = [1.0, 0.0] if costs[0] <= costs[1] else [0.0, 1.0]
    ...     return np.array([first, [0.0, 1.0]])
    >>> game = eq.games.OracleGame(lambda x: np.array([1.0, 2.0]) + x, best, resources=2)
    >>> eq.solve(game).policy.flows.round(6).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    kind: ClassVar[str] = "oracle"
    sizes: np.ndarray
    cost: Callable[[Any], Any] = eqx.field(static=True)
    best: Callable[[Any], Any] = eqx.field(static=True)
    resources: int = eqx.field(static=True)
    labels: Labels = eqx.field(static=True)

    def __init__(self, cost: Any, best: Any, resources: int, sizes: Any = None, labels: Any = None):
        for name, function in (("cost", cost), ("best", best)):
            if not callable(function):
                raise InputError(name, "a function", type(function).__name__)
        self.cost, self.best = cost, best
        self.resources = checks.check_count("resources", resources)
        first = np.asarray(call(best, self.costs(np.zeros(self.resources))), np.float64)
        if first.ndim != 2:
            expected = f"shape (populations, {self.resources})"
            raise InputError("best", expected, f"shape {first.shape}")
        self.sizes = frozen(np.ones(len(first))) if sizes is None else read_only("sizes", sizes)
        checks.check_shape("sizes", self.sizes, (len(first),), "one for each row of best")
        if not (np.isfinite(self.sizes) & (self.sizes > 0.0)).all():
            raise InputError("sizes", "positive numbers", self.sizes)
        self.replies(self.costs(first.sum(0)))
        self.labels = Labels.of(labels, players=len(first))

    def costs(self, x: Any) -> np.ndarray:
        """(resources,): the cost of each resource at its use, checked."""
        values = np.asarray(checks.as_float_array("cost", call(self.cost, np.asarray(x, float))))
        checks.check_shape("cost", values, (self.resources,), "one for each resource")
        checks.check_finite("cost", values)
        return values

    def replies(self, costs: Any) -> np.ndarray:
        """(populations, resources): what each uses on cheapest actions, checked."""
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
        """Empty: nobody lists the actions."""
        return ()

    def describe(self) -> str:
        """The game in a few words."""
        return f"game of {self.players} populations and {self.resources} resources, by an oracle"
