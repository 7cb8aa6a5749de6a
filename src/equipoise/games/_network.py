"""Road networks: travellers choose paths, and links take longer the more of them use it."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.routes import Graph
from equipoise.core.values import frozen, read_only, read_only_integers
from equipoise.games._game import Labels, SingleGame
from equipoise.games._link_costs import check_function, integral, values_of

#: The largest number of a node, and of links and pairs.
_MOST = 2**31 - 2
#: What columns of tables are called, first ours and then what others say.
_LINK_COLUMNS = {
    "tails": ("tail", "init_node", "from", "from_node", "a_node"),
    "heads": ("head", "term_node", "to", "to_node", "b_node"),
    "free_flow": ("free_flow", "free_flow_time", "fft"),
    "capacity": ("capacity",),
    "b": ("b",),
    "rise": ("rise",),
    "power": ("power",),
    "fixed": ("fixed",),
    "tolls": ("toll", "tolls"),
}
_TRIP_COLUMNS = {
    "origins": ("origin", "from"),
    "destinations": ("destination", "to"),
    "demand": ("demand", "trips", "volume"),
    "classes": ("class",),
}
FLOW_COLUMNS = ("flow", "volume", "flows", "volumes")


class NetworkGame(SingleGame):
    """Travellers from origins to destinations, who each take a cheapest path of a road network.

    The cost of link l at flow v is `free_flow[l] + rise[l] (v / capacity[l])^power[l] + fixed[l]`,
    or `cost(v)[l] + fixed[l]`. The formula of the Bureau of Public Roads is that with a rise of
    `b[l] free_flow[l]`. Travellers also pay `tolls`, in money: a class whose value of time is w
    feels a toll t as a cost of t / w.

    A population of travellers is one class with one origin and destination. By default it is
    divided at will, and nobody alone matters (Wardrop 1952). With `atomic=True` the demands are
    whole numbers of drivers, and each counts the effect of its own car.

    Args:
        tails: (links,) the node where each link begins: whole numbers from 0, as you like.
        heads: (links,) the node where each link ends.
        origins: (pairs,) where each population starts. Leave it out to give `demand` as a matrix.
        destinations: (pairs,) where it goes.
        demand: (pairs,) how many travel; or a matrix from origins to destinations, or one for
            each class. Trips within a node, and pairs without trips, are dropped.
        free_flow: (links,) cost of the empty link; like all that follows, or one number for all.
        b: (links,) by which part of `free_flow` the cost has grown when the flow is the capacity.
        rise: (links,) by how much it has grown then; replaces `b`.
        capacity: (links,) positive wherever the cost grows.
        power: (links,) of the flow over the capacity.
        fixed: (links,) a cost that all bear, whatever the flow.
        tolls: (links,) in money; negative ones are subsidies.
        cost: A function from flows (links,) to costs (links,), in NumPy or JAX, each increasing in
            its own flow alone; replaces `free_flow`, `rise`, `capacity` and `power`.
        derivative: Its derivative, likewise; found by JAX where `cost` is written in it.
        classes: (pairs,) the class of each population, from 0.
        values_of_time: (classes,) money for a unit of cost; 1 by default.
        first_through: Nodes below this number are zones that no path passes through.
        positions: (nodes, 2) where the nodes lie, for maps.
        atomic: Whether travellers are whole drivers.
        labels: Names of the populations (`players`) and of the classes (`types`).

    **Example**

    Braess's paradox: a new road makes everybody slower.

    >>> import equipoise as eq
    >>> without = eq.games.load("braess-network", shortcut=False)
    >>> game = eq.games.load("braess-network")
    >>> [round(float(eq.solve(one).value), 6) for one in (without, game)]
    [83.0, 92.0]
    >>> eq.solve(game).policy.flows.round(6).tolist()
    [4.0, 2.0, 2.0, 4.0, 2.0]
    """

    kind: ClassVar[str] = "network"
    tails: np.ndarray
    heads: np.ndarray
    origins: np.ndarray
    destinations: np.ndarray
    demand: np.ndarray
    free_flow: np.ndarray
    rise: np.ndarray
    capacity: np.ndarray
    power: np.ndarray
    fixed: np.ndarray
    tolls: np.ndarray
    classes: np.ndarray
    values_of_time: np.ndarray
    positions: np.ndarray | None
    cost: Callable[[Any], Any] | None = eqx.field(static=True)
    derivative: Callable[[Any], Any] | None = eqx.field(static=True)
    first_through: int = eqx.field(static=True)
    atomic: bool = eqx.field(static=True)
    labels: Labels = eqx.field(static=True)

    def __init__(
        self,
        tails: Any,
        heads: Any,
        origins: Any = None,
        destinations: Any = None,
        demand: Any = None,
        *,
        free_flow: Any = 0.0,
        b: Any = 0.15,
        rise: Any = None,
        capacity: Any = 1.0,
        power: Any = 4.0,
        fixed: Any = 0.0,
        tolls: Any = 0.0,
        cost: Any = None,
        derivative: Any = None,
        classes: Any = None,
        values_of_time: Any = None,
        first_through: int = 0,
        positions: Any = None,
        atomic: bool = False,
        labels: Any = None,
    ):
        self.tails, self.heads = _nodes("tails", tails), _nodes("heads", heads)
        checks.check_shape("heads", self.heads, self.tails.shape, "one for each link, as tails")
        if origins is None:
            origins, destinations, demand, classes = _from_matrix(demand)
        self.origins, self.destinations, self.demand, self.classes = _populations(
            origins, destinations, demand, classes
        )
        self.free_flow = self._by_link("free_flow", free_flow)
        if rise is None:
            rise = self.free_flow * self._by_link("b", b)
        self.rise, self.power = self._by_link("rise", rise), self._by_link("power", power)
        self.capacity, self.fixed = (
            self._by_link("capacity", capacity),
            self._by_link("fixed", fixed),
        )
        self.tolls = self._by_link("tolls", tolls, least=-np.inf)
        empty = self._grows & ~(self.capacity > 0.0)
        if empty.any() and cost is None:
            found = f"{self.capacity[empty][0]:g} on {self._link(empty)}"
            raise InputError("capacity", "positive numbers on links whose cost grows", found)
        count = int(self.classes.max()) + 1
        values = np.ones(count) if values_of_time is None else values_of_time
        self.values_of_time = read_only("values_of_time", values)
        if self.values_of_time.ndim != 1 or len(self.values_of_time) < count:
            found = f"shape {self.values_of_time.shape}"
            raise InputError("values_of_time", f"one for each of {count} classes", found)
        if not (np.isfinite(self.values_of_time) & (self.values_of_time > 0)).all():
            raise InputError("values_of_time", "positive numbers", values)
        self.first_through = checks.check_count("first_through", first_through, 0)
        self.positions = None if positions is None else read_only("positions", positions)
        if self.positions is not None:
            checks.check_shape("positions", self.positions, (self.nodes, 2), "one for each node")
            checks.check_finite("positions", self.positions)
        self.cost, self.derivative, self.atomic = cost, derivative, bool(atomic)
        if cost is not None:
            check_function(cost, derivative, self.links, float(self.demand.sum()))
        low = self.costs(np.zeros(self.links))
        if low.min() < 0.0:
            m, link = np.unravel_index(int(low.argmin()), low.shape)
            found = f"{low[m, link]:g} on {self._link(np.arange(self.links) == link)}"
            raise InputError("tolls", "costs of empty links that are not negative", found)
        self._check_whole()
        self._check_connected()
        self.labels = Labels.of(labels, players=len(self.demand), types=len(self.values_of_time))

    def _by_link(self, name: str, value: Any, least: float = 0.0) -> np.ndarray:
        array = checks.as_float_array(name, value)
        array = np.full(self.links, float(array)) if array.ndim == 0 else array
        checks.check_shape(name, array, (self.links,), "one for each link")
        bad = ~((array >= least) & np.isfinite(array))
        if bad.any():
            found = f"{array[bad][0]:g} on {self._link(bad)}"
            expected = "finite numbers" if np.isinf(least) else "finite numbers >= 0"
            raise InputError(name, expected, found)
        return frozen(array)

    def _link(self, mask: np.ndarray) -> str:
        link = int(np.argmax(mask))
        return f"link {link}, from {self.tails[link]} to {self.heads[link]}"

    def _check_whole(self) -> None:
        broken = self.demand != np.floor(self.demand)
        if self.atomic and broken.any():
            k = int(np.argmax(broken))
            found = f"{self.demand[k]:g} from {self.origins[k]} to {self.destinations[k]}"
            hint = "`networks.whole_drivers` rounds demands"
            raise InputError("demand", "whole numbers of drivers", found, hint)

    def _check_connected(self) -> None:
        starts, where = np.unique(self.origins, return_inverse=True)
        lost = np.zeros(len(self.demand), bool)
        for part in self.graph.chunks(starts):
            distance, _ = self.graph.trees(np.ones(self.links), starts[part])
            mine = np.flatnonzero((where >= part.start) & (where < part.stop))
            lost[mine] = ~np.isfinite(distance[where[mine] - part.start, self.destinations[mine]])
        if lost.any():
            k, more = int(np.argmax(lost)), int(lost.sum()) - 1
            found = f"none from {self.origins[k]} to {self.destinations[k]}"
            found += f" and for {more} more pairs" if more else ""
            raise InputError("demand", "a path for every pair that travels", found)

    @classmethod
    def from_tables(cls, links: Any, trips: Any, **options: Any) -> "NetworkGame":
        """A game from two tables: data frames, or mappings of columns by their names.

        `links` has columns tail, head, free_flow, capacity, b, power, fixed and toll, the first
        two at least; `trips` has origin, destination, demand and class. Columns may have the names
        that TNTP files give them. `options` are other arguments of the game.

        **Example**

        >>> import equipoise as eq
        >>> links = {"tail": [0, 0], "head": [1, 1], "free_flow": [1, 2], "capacity": [5, 9]}
        >>> trips = {"origin": [0], "destination": [1], "demand": [10.5]}
        >>> eq.NetworkGame.from_tables(links, trips).describe()
        'road network of 2 links between 2 nodes; 10.5 travellers in 1 population'
        """
        found = table_columns("links", links, _LINK_COLUMNS, ("tails", "heads"))
        needed = ("origins", "destinations", "demand")
        found |= table_columns("trips", trips, _TRIP_COLUMNS, needed)
        return cls(**found | options)

    @property
    def links(self) -> int:
        """Number of links."""
        return len(self.tails)

    @property
    def nodes(self) -> int:
        """One more than the largest number of a node."""
        ends = (self.tails, self.heads, self.origins, self.destinations)
        return max(int(array.max()) for array in ends) + 1

    @property
    def players(self) -> int:
        """Number of populations, or of drivers in an atomic game."""
        return int(self.demand.sum()) if self.atomic else len(self.demand)

    @property
    def actions(self) -> tuple[int, ...]:
        """Empty: the actions are paths, which nobody lists."""
        return ()

    @cached_property
    def graph(self) -> Graph:
        """The links as the oracle of shortest paths takes them."""
        return Graph(self.tails, self.heads, self.nodes, self.first_through)

    def describe(self) -> str:
        """The game in a few words."""
        nodes = len(np.union1d(self.tails, self.heads))
        many, total = len(self.demand), float(self.demand.sum())
        number = f"{total:,.0f}" if total >= 1000 else f"{total:g}"
        who = f"{self.players} drivers" if self.atomic else f"{number} travellers"
        where = f"{many} population{'s' * (many > 1)}"
        count = len(self.values_of_time)
        kinds = f" of {count} classes" if count > 1 else ""
        return f"road network of {self.links} links between {nodes} nodes; {who} in {where}{kinds}"

    def times(self, flows: Any) -> np.ndarray:
        """(links,): cost of each link at its flow, without tolls."""
        flows = self._flows(flows)
        if self.cost is not None:
            return values_of(self.cost, flows) + self.fixed
        return self.free_flow + self.rise * self._part(flows) ** self.power + self.fixed

    def slopes(self, flows: Any) -> np.ndarray:
        """(links,): derivative of each cost."""
        flows = self._flows(flows)
        if self.cost is not None:
            return values_of(self.cost, flows, self.derivative, 1)
        with np.errstate(divide="ignore"):
            below = self._part(flows) ** np.where(self._grows, self.power - 1.0, 1.0)
        capacity = np.where(self._grows, self.capacity, 1.0)
        return np.where(self._grows, self.rise * self.power * below / capacity, 0.0)

    def costs(self, flows: Any) -> np.ndarray:
        """(classes, links): what each class feels: the cost, and the toll by its value of time.

        **Example**

        >>> import equipoise as eq
        >>> eq.games.load("braess-network").costs([6, 0, 0, 6, 6]).tolist()
        [[60.0, 50.0, 50.0, 60.0, 16.0]]
        """
        return self.times(flows) + self.tolls / self.values_of_time[:, None]

    def marginal_costs(self, flows: Any) -> np.ndarray:
        """(classes, links): what one more traveller costs all of them together, without tolls."""
        exact = self.cost is None or self.derivative is not None
        if not exact and not _is_jax(self.cost, self.links):
            hint = "give `derivative`, or write `cost` in JAX"
            raise InputError("derivative", "a function, for marginal costs", "none", hint)
        marginal = self.times(flows) + self._flows(flows) * self.slopes(flows)
        return np.tile(marginal, (len(self.values_of_time), 1))

    def check_convex(self) -> None:
        """Refuse costs given as functions whose marginal costs fall, at 129 flows of each link.

        The total cost is then not convex: flows at which no traveller lowers it need not be
        those of least total cost.
        """
        if self.cost is None:
            return
        flows = np.linspace(0.0, float(self.demand.sum()), 129)
        marginal = np.stack([self.marginal_costs(np.full(self.links, v))[0] for v in flows])
        falls = np.diff(marginal, axis=0) < -1e-9 * np.abs(marginal).max(0)
        if falls.any():
            step, link = (int(k[0]) for k in np.nonzero(falls))
            where = f"the link from {self.tails[link]} to {self.heads[link]}"
            found = f"some that fall on {where}, near a flow of {flows[step]:g}"
            raise InputError("cost", "marginal costs that increase, for an optimum", found)

    def total_cost(self, flows: Any) -> float:
        """What all travellers need together, without tolls, which somebody receives."""
        return float(self._flows(flows) @ self.times(flows))

    def potential(self, flows: Any) -> float:
        """Beckmann's potential, whose least value is at the equilibrium; flows by class or in all.

        Functions are integrated by Gauss's rule with 32 points.
        """
        by_class = np.atleast_2d(np.asarray(flows, np.float64))
        v = self._flows(by_class.sum(0))
        paid = self.tolls / self.values_of_time[:, None]
        if len(by_class) != len(paid):
            if self.tolls.any():
                raise InputError("flows", f"those of {len(paid)} classes", f"{len(by_class)}")
            paid = paid[:1]
        if self.cost is not None:
            area = integral(self.cost, v)
        else:
            part = self.rise * self._part(v) ** self.power / (self.power + 1.0)
            area = v * (self.free_flow + part)
        return float((area + v * self.fixed).sum() + (paid * by_class).sum())

    def best(self, costs: Any) -> np.ndarray:
        """(classes, links): flows if everybody took a cheapest path at `costs`, (classes, links).

        The oracle: with `costs` it is all that a certificate needs to know of a game.

        **Example**

        >>> import equipoise as eq
        >>> game = eq.games.load("braess-network")
        >>> game.best(game.costs([0, 0, 0, 0, 0])).tolist()
        [[6.0, 0.0, 0.0, 6.0, 6.0]]
        """
        costs = np.atleast_2d(np.asarray(costs, np.float64))
        flows = np.zeros((len(self.values_of_time), self.links))
        for m, origin, pairs in self.groups():
            _, (last,) = self.graph.trees(costs[m if len(costs) > 1 else 0], [origin])
            # All walk back together, one link at a time: links may cost nothing.
            node, amount = self.destinations[pairs], self.demand[pairs]
            while len(node):
                np.add.at(flows[m], last[node], amount)
                node = self.tails[last[node]]
                node, amount = node[node != origin], amount[node != origin]
        return flows

    def groups(self) -> list[tuple[int, int, np.ndarray]]:
        """Class, origin and the numbers of the pairs that share both."""
        order = np.lexsort((self.origins, self.classes))
        key = self.classes[order] * (self.nodes + 1) + self.origins[order]
        cuts = np.flatnonzero(np.diff(key)) + 1
        parts = np.split(order, cuts)
        return [(int(self.classes[p[0]]), int(self.origins[p[0]]), p) for p in parts]

    def replace(self, **changes: Any) -> "NetworkGame":
        """The same game with some arguments changed.

        **Example**

        >>> import equipoise as eq
        >>> game = eq.games.load("braess-network").replace(tolls=[0, 0, 0, 0, 9])
        >>> game.costs([0, 0, 0, 0, 0]).tolist()
        [[0.0, 50.0, 50.0, 0.0, 19.0]]
        """
        return NetworkGame(**{f.name: getattr(self, f.name) for f in fields(self)} | changes)

    @property
    def _grows(self) -> np.ndarray:
        return (self.rise > 0.0) & (self.power > 0.0)

    def _part(self, flows: np.ndarray) -> np.ndarray:
        """Flows over capacities, zero on links whose cost does not grow."""
        return np.where(self._grows, flows, 0.0) / np.where(self._grows, self.capacity, 1.0)

    def _flows(self, flows: Any) -> np.ndarray:
        """Flows of all classes together, not negative: rounding leaves some below zero."""
        flows = np.asarray(flows, np.float64)
        return np.maximum(flows.sum(0) if flows.ndim == 2 else flows, 0.0)


def _nodes(name: str, value: Any) -> np.ndarray:
    array = read_only_integers(name, _whole(name, value))
    if array.ndim != 1 or not len(array):
        raise InputError(name, "a list of nodes", f"shape {array.shape}")
    if array.min() < 0 or array.max() > _MOST:
        bad = array[(array < 0) | (array > _MOST)][0]
        raise InputError(name, "nodes from 0 to 2^31 - 2", bad)
    return array


def _whole(name: str, value: Any) -> Any:
    """Whole numbers that a table holds as floats."""
    array = np.asarray(value)
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.floor(array)).all():
        return array.astype(np.int64)
    return value


def _from_matrix(demand: Any) -> tuple[Any, Any, Any, Any]:
    """Pairs of a matrix of trips, or of one for each class."""
    array = checks.as_float_array("demand", [] if demand is None else demand)
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[1] != array.shape[2]:
        expected = "a square matrix of trips, or `origins` and `destinations` with it"
        raise InputError("demand", expected, f"shape {array.shape}")
    checks.check_finite("demand", array)
    classes, origins, destinations = np.nonzero(array)
    return origins, destinations, array[classes, origins, destinations], classes


def _populations(origins: Any, destinations: Any, demand: Any, classes: Any) -> tuple[Any, ...]:
    origins, destinations = _nodes("origins", origins), _nodes("destinations", destinations)
    demand = np.asarray(checks.as_float_array("demand", demand))
    classes = np.zeros(len(origins), np.int64) if classes is None else classes
    classes = read_only_integers("classes", _whole("classes", classes))
    for name, array in (("destinations", destinations), ("demand", demand), ("classes", classes)):
        checks.check_shape(name, array, origins.shape, "one for each pair, as origins")
    bad = ~((demand >= 0.0) & np.isfinite(demand))
    if bad.any():
        k = int(np.argmax(bad))
        found = f"{demand[k]:g} from {origins[k]} to {destinations[k]}"
        raise InputError("demand", "finite numbers >= 0", found)
    if len(classes) and not 0 <= classes.min() <= classes.max() < len(classes):
        raise InputError("classes", "whole numbers from 0, fewer than pairs", classes.max())
    kept = (demand > 0.0) & (origins != destinations)
    if not kept.any():
        raise InputError("demand", "somebody who travels", "nobody")
    return tuple(frozen(a[kept]) for a in (origins, destinations, demand, classes))


def table_columns(
    argument: str, table: Any, known: Mapping[str, tuple[str, ...]], needed: tuple[str, ...]
) -> dict[str, Any]:
    """The columns of a table by our names of them; others are left alone."""
    there = {str(name).strip().lower(): name for name in getattr(table, "columns", table)}
    found = {
        ours: np.asarray(table[there[name]])
        for ours, names in known.items()
        for name in [next((n for n in names if n in there), None)]
        if name is not None
    }
    for name in needed:
        if name not in found:
            expected = f"a column {known[name][0]}"
            raise InputError(argument, expected, ", ".join(there) or "none")
    return found


def _is_jax(function: Any, links: int) -> bool:
    import jax

    return isinstance(function(np.zeros(links)), jax.Array)
