"""Road networks: travellers choose paths, and links take longer the more travellers use them."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.results import SMALLEST
from equipoise.core.rounding import EPS, TINY
from equipoise.core.routes import CONSERVED, Graph
from equipoise.core.text import About
from equipoise.core.values import frozen, is_jax, read_only, static
from equipoise.games._callables import check_function, integral, values_of
from equipoise.games._flow_policy import FlowPolicy
from equipoise.games._game import Labels, SingleGame
from equipoise.games._network_tables import SPARSE, from_matrix, nodes_of, numbered, populations
from equipoise.games._road_columns import LINK_COLUMNS, column_in_words, game_columns

#: Ratios of flow to capacity below this may have lost digits.
_FINE = 1e-290


class NetworkGame(SingleGame[FlowPolicy]):
    """A road network whose travellers each take a cheapest path from origin to destination.

    The cost of link l at flow v is `free_flow[l] + rise[l] (v / capacity[l])^power[l] + fixed[l]`,
    or `cost(v)[l] + fixed[l]`. With a rise of `b[l] free_flow[l]` this is the formula of the Bureau
    of Public Roads. Travellers also pay `tolls`, in money: a class with value of time w perceives a
    toll t as a cost of t / w.

    A population consists of the travellers of one class with one origin and destination. By default
    it is infinitely divisible, and a single traveller has no effect (Wardrop 1952). With
    `atomic=True`, demands are whole numbers of drivers, and each driver accounts for the effect of
    its own car.

    Args:
        tails: (links,) the node where each link begins. Nodes are whole numbers from 0.
        heads: (links,) the node where each link ends.
        origins: (pairs,) where each population starts. Leave it out to give `demand` as a matrix.
        destinations: (pairs,) where each population goes.
        demand: (pairs,) number of travellers; or a matrix from origins to destinations, or one
            matrix per class. Trips within a node, and pairs without trips, are dropped.
        free_flow: (links,) cost of the empty link. This and the next six may be one number for all.
        b: (links,) increase of the cost relative to `free_flow` when the flow is the capacity.
        rise: (links,) absolute increase of the cost at that flow; replaces `b`.
        capacity: (links,) positive wherever the cost increases with the flow.
        power: (links,) exponent of the ratio of flow to capacity.
        fixed: (links,) a cost that does not depend on the flow.
        tolls: (links,) in money; negative tolls are subsidies.
        cost: A function from flows (links,) to costs (links,), in NumPy or JAX. Each cost increases
            with its own flow alone. Replaces `free_flow`, `rise`, `capacity` and `power`.
        derivative: The derivative of `cost`, also a function; computed by JAX if `cost` uses JAX.
        classes: (pairs,) the class of each population, from 0.
        values_of_time: (classes,) money per unit of cost. Default: 1.
        first_through: Nodes below this number are zones, which no path passes through.
        positions: (nodes, 2) coordinates of the nodes, for maps.
        atomic: Whether travellers are whole drivers.
        labels: Names of the populations (`players`), classes (`types`) and nodes (`states`).

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
    _who: ClassVar[str] = "traveller"
    _measure: ClassVar[str] = "mean cost"
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
    cost: Callable[[Any], Any] | None = static()
    derivative: Callable[[Any], Any] | None = static()
    first_through: int = static()
    atomic: bool = static()
    labels: Labels = static()

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
        numbers = (demand, free_flow, b, rise, capacity, power, fixed, tolls, values_of_time)
        checks.check_known("demand and costs", numbers)
        tails, heads = nodes_of("tails", tails), nodes_of("heads", heads)
        checks.check_shape("heads", heads, tails.shape, "one for each link, like tails")
        if origins is None:
            origins, destinations, demand, classes = from_matrix(demand)
        origins, destinations, demand, classes = populations(
            origins, destinations, demand, classes, np.size(values_of_time)
        )
        self._set(tails=tails, heads=heads, origins=origins, destinations=destinations)
        self._set(demand=demand, classes=classes, atomic=bool(atomic))
        most = SPARSE + 10 * self.links
        if self.nodes > most:
            expected = f"nodes with numbers below {most:,} for {self.links:,} links"
            hint = "use `NetworkGame.from_tables` for other numbers or names"
            raise InputError("tails", expected, self.nodes - 1, hint)
        count = int(self.classes.max()) + 1
        types = count if values_of_time is None else np.size(values_of_time)
        counts = {"players": len(self.demand), "types": types}
        self._set(labels=Labels.of(labels, **counts, states=self.nodes))  # errors name nodes
        free_flow = self._by_link("free_flow", free_flow)
        if rise is None:
            rise = free_flow * self._by_link("b", b)
        self._set(free_flow=free_flow, rise=self._by_link("rise", rise))
        self._set(power=self._by_link("power", power), capacity=self._by_link("capacity", capacity))
        self._set(fixed=self._by_link("fixed", fixed))
        self._set(tolls=self._by_link("tolls", tolls, least=-np.inf))
        empty = self._grows & ~(self.capacity > 0.0)
        if empty.any() and cost is None:
            found = f"{self.capacity[empty][0]:g} on {self._link(empty)}"
            raise InputError("capacity", "positive numbers on links whose cost increases", found)
        values = np.ones(count) if values_of_time is None else values_of_time
        self._set(values_of_time=read_only("values_of_time", values))
        if self.values_of_time.ndim != 1 or len(self.values_of_time) < count:
            found = f"shape {self.values_of_time.shape}"
            raise InputError("values_of_time", f"one for each of {count} classes", found)
        if not (np.isfinite(self.values_of_time) & (self.values_of_time > 0)).all():
            raise InputError("values_of_time", "positive numbers", values)
        positions = None if positions is None else read_only("positions", positions)
        if positions is not None:
            checks.check_shape("positions", positions, (self.nodes, 2), "one for each node")
            checks.check_finite("positions", positions)
        first_through = checks.check_count("first_through", first_through, 0)
        self._set(positions=positions, first_through=first_through)
        self._set(cost=cost, derivative=derivative)
        if cost is not None:
            check_function(cost, derivative, self.links, float(self.demand.sum()))
        low = self.costs(np.zeros(self.links))
        if low.min() < 0.0:
            m, link = np.unravel_index(int(low.argmin()), low.shape)
            found = f"{low[m, link]:g} on {self._link(np.arange(self.links) == link)}"
            raise InputError("tolls", "costs of empty links that are not negative", found)
        self._check_whole()
        self._check_connected()

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
        return f"link {link}, {self._between(self.tails[link], self.heads[link])}"

    def _between(self, start: Any, end: Any) -> str:
        return f"from {self.labels.state(int(start))} to {self.labels.state(int(end))}"

    def _check_whole(self) -> None:
        broken = self.demand != np.floor(self.demand)
        if self.atomic and broken.any():
            k = int(np.argmax(broken))
            found = f"{self.demand[k]:g} {self._between(self.origins[k], self.destinations[k])}"
            hint = "use `networks.whole_drivers` to round demands"
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
            found = f"none {self._between(self.origins[k], self.destinations[k])}"
            found += f" and for {more} more pairs" if more else ""
            raise InputError("demand", "a path for every pair with demand", found)

    @classmethod
    @named_arguments
    def from_tables(cls, links: Any, trips: Any, **options: Any) -> "NetworkGame":
        """Build a game from two tables: data frames, mappings from names to columns, or CSV files.

        `links` has the columns tail, head, free_flow, capacity, b, power, rise, fixed and toll, of
        which tail, head and one cost are required; `trips` has origin, destination, demand and
        class. Columns may have the names that other software uses, followed by a unit, as in
        `Free flow time (min)` or `capacity_vph`; the how-to on road networks lists them. A
        column that is not known is refused. `options` are further arguments of the game. Nodes with
        names, or with numbers far above the number of links, are numbered from 0 in their order;
        `labels.states` keeps their original names.

        **Example**

        >>> import equipoise as eq
        >>> links = {"tail": [0, 0], "head": [1, 1], "free_flow": [1, 2], "capacity": [5, 9]}
        >>> trips = {"origin": [0], "destination": [1], "demand": [10.5]}
        >>> eq.NetworkGame.from_tables(links, trips).describe()
        'road network of 2 links between 2 nodes; 10.5 travellers in 1 population'
        >>> links = {"a_node": ["home", "work"], "b_node": ["work", "home"], "free_flow": [1, 1]}
        >>> trips = {"origin": ["home"], "destination": ["work"], "demand": [3]}
        >>> game = eq.NetworkGame.from_tables(links, trips, b=0)  # costs that do not rise
        >>> game.tails.tolist(), game.labels.states
        ([0, 1], ('home', 'work'))
        """
        found = game_columns(links, trips)
        given = found.keys() | {name for name, value in options.items() if value is not None}
        if not given & {"free_flow", "rise", "fixed", "tolls", "cost"}:
            hint = "compute it from lengths and speeds if the table has these"
            expected = column_in_words(LINK_COLUMNS["free_flow"])
            raise InputError("links", expected, "no column of costs", hint)
        game = cls(**numbered(found, options))
        if not given & {"capacity", "rise", "cost"} and game._grows.any():
            told = "links: there is no column capacity, so the capacity of each link is 1"
            warnings.warn(f"{told}; b=0 makes costs constant", stacklevel=2)
        return game

    @property
    def links(self) -> int:
        """Number of links."""
        return len(self.tails)

    @property
    def nodes(self) -> int:
        """One more than the largest node number."""
        ends = (self.tails, self.heads, self.origins, self.destinations)
        return max(int(array.max()) for array in ends) + 1

    @property
    def players(self) -> int:
        """Number of populations, or of drivers in an atomic game."""
        return int(self.demand.sum()) if self.atomic else len(self.demand)

    @property
    def actions(self) -> tuple[int, ...]:
        """Always `()`, because the actions are paths, which are not listed."""
        return ()

    @cached_property
    def graph(self) -> Graph:
        """The links in the form that the shortest-path oracle takes."""
        return Graph(self.tails, self.heads, self.nodes, self.first_through)

    def _by_names(self, policy: Any) -> FlowPolicy:
        """Return the flows of a table, whose columns name the ends of links."""
        return import_module("equipoise.games.files").flows_of_table(self, policy)

    def _checked(self, policy: Any) -> FlowPolicy:
        """Return the flows of a policy, an array or a table; check them."""
        policy = self._by_names(policy) if hasattr(policy, "columns") else policy
        policy = policy if isinstance(policy, FlowPolicy) else FlowPolicy(policy)
        flows, classes, links = policy.flows, len(self.values_of_time), self.links
        if flows.shape[-1] != links:
            raise InputError("flows", f"flows of {links} links", f"shape {flows.shape}")
        if flows.ndim == 2 and len(flows) != classes:
            raise InputError("flows", f"flows of {classes} classes", f"{len(flows)} rows")
        if flows.min() < -CONSERVED * float(self.demand.sum()):
            link = int(np.argmin(flows)) % links
            where = f"{flows.min():g} on the link from {self.tails[link]} to {self.heads[link]}"
            raise InputError("flows", "flows >= 0", where)
        return policy

    def describe(self) -> str:
        """Return a one-line description of the game."""
        nodes = len(np.union1d(self.tails, self.heads))
        many, total = len(self.demand), float(self.demand.sum())
        number = f"{total:,.0f}" if total >= 1000 else f"{total:g}"
        who = f"{self.players} drivers" if self.atomic else f"{number} travellers"
        where = f"{many} population{'s' * (many > 1)}"
        count = len(self.values_of_time)
        kinds = f" of {count} classes" if count > 1 else ""
        return f"road network of {self.links} links between {nodes} nodes; {who} in {where}{kinds}"

    @property
    def about(self) -> About:
        """Description and names, with the ends of the links."""
        links, trips = (self.tails, self.heads), (self.origins, self.destinations)
        if self.atomic:  # the drivers have no names
            labels = Labels(states=self.labels.states)
            return replace(super().about, labels=labels, who="driver", links=links)
        return replace(super().about, links=links, trips=trips)

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
            return values_of(self.cost, flows, self.derivative, 1, float(self.demand.mean()))
        with np.errstate(divide="ignore"):
            below = self._part(flows) ** np.where(self._grows, self.power - 1.0, 1.0)
        capacity = np.where(self._grows, self.capacity, 1.0)
        return np.where(self._grows, self.rise * self.power * below / capacity, 0.0)

    def costs(self, flows: Any) -> np.ndarray:
        """(classes, links): perceived costs of each class: time, plus toll over value of time.

        **Example**

        >>> import equipoise as eq
        >>> eq.games.load("braess-network").costs([6, 0, 0, 6, 6]).tolist()
        [[60.0, 50.0, 50.0, 60.0, 16.0]]
        """
        return self.times(flows) + self.tolls / self.values_of_time[:, None]

    def marginal_costs(self, flows: Any) -> np.ndarray:
        """(classes, links): cost of one more traveller to everybody together, without tolls."""
        if self.cost is None:  # works where an empty link's slope is infinite
            risen = self.rise * self._part(self._flows(flows)) ** self.power
            marginal = self.free_flow + (1.0 + self.power) * risen + self.fixed
        elif self.derivative is None and not _is_jax(self.cost, self.links):
            hint = "give `derivative`, or write `cost` in JAX"
            raise InputError("derivative", "a function, for marginal costs", "none", hint)
        else:
            marginal = self.times(flows) + self.external_costs(flows)
        return np.tile(marginal, (len(self.values_of_time), 1))

    def cost_errors(self, flows: Any, summed: float, *, marginal: bool = False) -> np.ndarray:
        """(classes, links): bound on the rounding error of `costs`, or of `marginal_costs`.

        Flows are assumed to be off by `summed` roundings. The values of `cost` functions are taken
        as they are computed.
        """
        if self.cost is not None:
            return np.zeros((len(self.values_of_time), self.links))
        paid = (not marginal) * np.abs(self.tolls) / self.values_of_time[:, None]
        v = self._flows(flows)
        part, most = self._part(v), self.rise * (1.0 + self.power * marginal)
        risen = most * part**self.power
        error = (self.power * (summed + 1.0) + 8.0) * risen
        error = EPS * (error + 3.0 * (self.free_flow + self.fixed + risen + paid))
        # Values below the smallest float are lost; account for them as well.
        lost = most * np.where(part < _FINE, _FINE**self.power, TINY)
        error = error + np.where((v > 0.0) & self._grows, lost, 0.0)
        return np.where(error > 0.0, error + SMALLEST, 0.0)

    def external_costs(self, flows: Any) -> np.ndarray:
        """(links,): cost of one more traveller to all others together: flow times slope.

        **Example**

        >>> import equipoise as eq
        >>> eq.games.load("braess-network").external_costs([3, 3, 3, 3, 0]).tolist()
        [30.0, 3.0, 3.0, 30.0, 0.0]
        """
        flows = self._flows(flows)
        if self.cost is None:  # finite even where the slope at zero is not
            return np.where(
                self._grows, self.power * self.rise * self._part(flows) ** self.power, 0
            )
        return np.where(flows > 0.0, flows * np.where(flows > 0.0, self.slopes(flows), 0.0), 0.0)

    def check_convex(self) -> None:
        """Refuse cost functions whose marginal costs decrease, tested at 129 flows of each link.

        The total cost is then not convex: flows at which no traveller lowers it need not minimise
        it. Marginal costs that are not the derivative of the total cost are refused too: at jumps
        of a cost, and if `derivative` is wrong.
        """
        if self.cost is None:
            return
        flows = np.linspace(0.0, float(self.demand.sum()), 129)
        marginal = np.stack([self.marginal_costs(np.full(self.links, v))[0] for v in flows])
        size = np.abs(marginal).max(0)
        falls = np.diff(marginal, axis=0) < -1e-9 * size
        if falls.any():
            found = f"decreasing ones on {self._where(falls, flows)}"
            raise InputError("cost", "increasing marginal costs, for an optimum", found)
        total = flows[:, None] * np.stack([self.times(np.full(self.links, v)) for v in flows])
        slope = np.diff(total, axis=0) / flows[1]
        wrong = (slope > marginal[1:] + 1e-5 * size) | (slope < marginal[:-1] - 1e-5 * size)
        if wrong.any():
            expected = "the derivative of `cost`, without jumps, for an optimum"
            found = f"a different slope on {self._where(wrong, flows)}"
            raise InputError("derivative", expected, found)

    def _where(self, mask: np.ndarray, flows: np.ndarray) -> str:
        """Name the first link and flow of a mask (flows, links)."""
        step, link = checks.first_index(mask)
        where = f"the link from {self.tails[link]} to {self.heads[link]}"
        return f"{where}, near a flow of {flows[step]:g}"

    def total_cost(self, flows: Any) -> float:
        """Total cost of all travellers, without tolls (tolls are transfers)."""
        return float(self._flows(flows) @ self.times(flows))

    def potential(self, flows: Any) -> float:
        """Beckmann's potential, minimal at the equilibrium; takes flows by class or in total.

        Cost functions are integrated by Gauss-Legendre quadrature with 32 points.
        """
        by_class = np.atleast_2d(np.asarray(flows, np.float64))
        v = self._flows(by_class.sum(0))
        paid = self.tolls / self.values_of_time[:, None]
        if len(by_class) != len(paid):
            if self.tolls.any():
                raise InputError("flows", f"flows of {len(paid)} classes", f"{len(by_class)}")
            paid = paid[:1]
        if self.cost is not None:
            area = integral(self.cost, v)
        else:
            part = self.rise * self._part(v) ** self.power / (self.power + 1.0)
            area = v * (self.free_flow + part)
        return float((area + v * self.fixed).sum() + (paid * by_class).sum())

    def best(self, costs: Any) -> np.ndarray:
        """(classes, links): flows if everybody took a cheapest path at `costs`, (classes, links).

        This is the oracle. Together with `costs` it is all that a certificate needs.

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
            # All paths are traced back together, link by link: links may have zero cost.
            node, amount = self.destinations[pairs], self.demand[pairs]
            while len(node):
                np.add.at(flows[m], last[node], amount)
                node = self.tails[last[node]]
                node, amount = node[node != origin], amount[node != origin]
        return flows

    def groups(self) -> list[tuple[int, int, np.ndarray]]:
        """Class, origin and the indices of the pairs that share both."""
        order = np.lexsort((self.origins, self.classes))
        key = self.classes[order] * (self.nodes + 1) + self.origins[order]
        cuts = np.flatnonzero(np.diff(key)) + 1
        parts = np.split(order, cuts)
        return [(int(self.classes[p[0]]), int(self.origins[p[0]]), p) for p in parts]

    @property
    def _grows(self) -> np.ndarray:
        return (self.rise > 0.0) & (self.power > 0.0)

    def _part(self, flows: np.ndarray) -> np.ndarray:
        """Ratio of flow to capacity; zero on links with constant cost."""
        return np.where(self._grows, flows, 0.0) / np.where(self._grows, self.capacity, 1.0)

    def _flows(self, flows: Any) -> np.ndarray:
        """Flows summed over classes, with negative rounding errors set to zero."""
        flows = np.asarray(flows, np.float64)
        return np.maximum(flows.sum(0) if flows.ndim == 2 else flows, 0.0)


def _is_jax(function: Any, links: int) -> bool:
    return is_jax(function(np.zeros(links)))
