"""Policies: what agents play. Each kind has one plain form.

`to_plain` returns a dictionary of strings and arrays, and `policy_from_plain` rebuilds the policy
through a single table of kinds. Functions that take a policy also take plain tuples and arrays.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, final

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.html import format_value
from equipoise.core.reductions import total
from equipoise.core.text import About, play_in_words
from equipoise.core.values import blank, frozen, read_only, read_only_integers, static
from equipoise.games._flow_policy import FlowPolicy
from equipoise.games._policy import Policy

#: Points this far beyond -1 or 1 are treated as rounding errors and clipped.
_TOLERANCE = 1e-6


@final
class Profile(Policy):
    """A profile of mixed strategies, one distribution over actions per player, drawn independently.

    Each strategy is an array (..., actions), or (..., states, actions) in a Markov game. Leading
    axes are batch axes. A profile unpacks, iterates and indexes like a tuple of its strategies.
    `numpy.asarray` stacks the strategies if they all have the same shape.

    **Example**

    >>> import equipoise as eq
    >>> profile = eq.solve(eq.games.load("odd-or-even")).policy
    >>> x, y = eq.Profile(profile)
    >>> x.round(4).tolist(), len(eq.Profile([x, y]))
    ([0.5833, 0.4167], 2)
    >>> profile
    Profile([0.5833, 0.4167], [0.5833, 0.4167])
    """

    kind: ClassVar[str] = "profile"
    #: One array for each player.
    strategies: tuple[Any, ...]

    def __init__(self, strategies: Any, *more: Any):
        if more:
            found = f"{1 + len(more)} arguments"
            raise InputError(
                "strategies", "one tuple or list of arrays", found, "use Profile([x, y])"
            )
        if isinstance(strategies, np.ndarray) and strategies.ndim:
            strategies = tuple(strategies)
        if not isinstance(strategies, list | tuple | Profile) or not len(strategies):
            raise InputError(
                "strategies",
                "one array of probabilities for each player, as a tuple or list",
                type(strategies).__name__,
            )
        parts = (_strategy(f"strategies[{i}]", s) for i, s in enumerate(strategies))
        self._set(strategies=tuple(parts))

    @classmethod
    def computed(cls, *strategies: Any) -> "Profile":
        """Build a profile from a solver's arrays: make them read-only, but do not check them.

        `certify` checks the policies that it is given.
        """
        for array in strategies:
            if isinstance(array, np.ndarray):  # JAX arrays are read-only already
                array.setflags(write=False)
        profile = blank(cls)
        profile._set(strategies=strategies)
        return profile

    def in_words(self, about: About) -> tuple[int, Iterator[tuple[str, ...]]]:
        """Return the strategy of each player, in every state (and step) if there are several."""
        parts = [np.asarray(strategy) for strategy in self.strategies]
        names = ("step", "state")[-(parts[0].ndim - 1) :]
        rows = (
            (
                about.player(i),
                *(about.named(n, k) for n, k in zip(names, place, strict=False)),
                play_in_words(part[place], about.actions(i)),
            )
            for i, part in enumerate(parts)
            for place in np.ndindex(part.shape[:-1])
        )
        return sum(part[..., 0].size for part in parts), rows

    def __len__(self) -> int:
        return len(self.strategies)

    def __getitem__(self, index: Any) -> Any:
        """Return the strategy of one player, or a tuple of several."""
        return self.strategies[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.strategies)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        shapes = {np.shape(strategy) for strategy in self.strategies}
        if len(shapes) > 1:
            raise InputError("strategies", "one shape for an array", sorted(shapes))
        return np.stack(self.strategies).astype(dtype or np.float64, copy=False)


def _strategy(name: str, value: Any) -> Any:
    array = read_only(name, value, booleans=False)
    checks.check_ndim(name, array, 1, "(..., actions)")
    if checks.is_traced(array):
        return array
    # Test the common case first: this takes a fraction of the time of all checks.
    if array.min() >= 0.0 and not (abs(total(array) - 1.0) > 1e-14).any():
        return array
    return frozen(checks.check_probabilities(name, array))


@final
class JointPolicy(Policy):
    """A joint distribution over profiles: a mediator draws one and tells each player its action.

    `joint[a_1, ..., a_N]` is the probability of that action profile. The last `players` axes belong
    to the players (by default, all axes). Leading axes are batch axes, or (steps, states) in a
    Markov game. `certify` tests whether it is a correlated or coarse correlated equilibrium.

    **Example**

    Two drivers at a crossing with a traffic light:

    >>> import equipoise as eq
    >>> light = eq.JointPolicy([[0.0, 0.5], [0.5, 0.0]])
    >>> light.players, light.marginal(0).tolist()
    (2, [0.5, 0.5])
    >>> crossing = eq.NormalFormGame([[[-10, 2], [0, 1]], [[-10, 0], [2, 1]]])
    >>> eq.certify(crossing, light, concept="ce").gains.tolist()
    [0.0, 0.0]
    """

    kind: ClassVar[str] = "joint"
    #: Probability of each action profile.
    joint: np.ndarray
    players: int = static()

    def __init__(self, joint: Any, players: Any = None):
        joint = read_only("joint", joint)
        checks.check_ndim("joint", joint, 1, "(..., actions of each player...)")
        players = joint.ndim if players is None else np.asarray(players).item()  # from files
        players = checks.check_count("players", players)
        if players > joint.ndim:
            raise InputError("joint", f"an axis for each of {players} players", joint.shape)
        flat = joint.reshape(*joint.shape[: joint.ndim - players], -1)
        joint = frozen(checks.check_probabilities("joint", flat).reshape(joint.shape))
        self._set(joint=joint, players=players)

    @property
    def actions(self) -> tuple[int, ...]:
        """Number of actions of each player."""
        return tuple(self.joint.shape[self.joint.ndim - self.players :])

    def in_words(self, about: About) -> tuple[int, Iterator[tuple[str, ...]]]:
        """Return the joint actions that are played, the most likely first, by state."""
        shape = self.joint.shape[: self.joint.ndim - self.players]
        cells = np.argwhere(self.joint > 5e-4)
        likely = self.joint[tuple(cells.T)]
        order = np.lexsort((-likely, *cells.T[: len(shape)][::-1]))
        names = ("step", "state")[-len(shape) :] if shape else ()
        return len(cells), (
            (
                *(about.named(n, k) for n, k in zip(names, cells[c], strict=False)),
                *(about.action(i, a) for i, a in enumerate(cells[c][len(shape) :].tolist())),
                format_value(float(likely[c]), 3),
            )
            for c in order
        )

    def marginal(self, player: int) -> np.ndarray:
        """(..., actions): the marginal distribution of one player's action."""
        first = self.joint.ndim - self.players
        others = tuple(first + i for i in range(self.players) if i != player)
        return self.joint.sum(others)

    @classmethod
    def of(cls, profile: Any) -> "JointPolicy":
        """Return the joint distribution of players who choose independently.

        **Example**

        >>> import equipoise as eq
        >>> eq.JointPolicy.of(([0.5, 0.5], [1.0, 0.0])).joint.tolist()
        [[0.5, 0.0], [0.5, 0.0]]
        """
        strategies = [np.asarray(s, np.float64) for s in Profile(profile)]
        joint = strategies[0]
        for k, own in enumerate(strategies[1:], 1):
            joint = joint[..., None] * own.reshape(*own.shape[:-1], *[1] * k, own.shape[-1])
        return cls(joint, len(strategies))


@final
class Mixture(Policy):
    """A mixture of product policies: one component is drawn for all agents, and then played.

    Within a component the agents choose independently; across components their choices are
    correlated. The first axis of `policies` indexes the components. The other axes are those of a
    product policy of the game: (components, contexts, agents, actions) in a contextual game,
    (components, contexts, horizon, agents, states, actions) in a Markov game with decoupled
    transitions. `weights` are the probabilities of the components. Default: uniform.

    **Example**

    Two drivers take turns at a crossing with a traffic light:

    >>> import equipoise as eq
    >>> light = eq.Mixture([[[[1, 0], [0, 1]]], [[[0, 1], [1, 0]]]])
    >>> light.weights.tolist(), light.marginal().tolist()
    ([0.5, 0.5], [[[0.5, 0.5], [0.5, 0.5]]])
    """

    kind: ClassVar[str] = "mixture"
    policies: np.ndarray
    weights: np.ndarray

    def __init__(self, policies: Any, weights: Any = None):
        policies = read_only("policies", policies)
        checks.check_ndim("policies", policies, 3, "(components, ..., agents, actions)")
        policies = frozen(checks.check_probabilities("policies", policies))
        if weights is None:
            weights = np.full(len(policies), 1.0 / len(policies))
        weights = read_only("weights", weights)
        checks.check_shape("weights", weights, (len(policies),), "one for each component")
        weights = frozen(checks.check_probabilities("weights", weights))
        self._set(policies=policies, weights=weights)

    def in_words(self, about: About) -> tuple[int, Iterator[tuple[str, ...]]]:
        """Return what each agent plays on average over the components."""
        return _by_agent(about, self.marginal(), lambda i, p: play_in_words(p, about.actions(i)))

    @property
    def policy_shape(self) -> tuple[int, ...]:
        """Shape of one component."""
        return tuple(self.policies.shape[1:])

    def marginal(self) -> np.ndarray:
        """Return the marginal policy of each agent: the product policy without the correlation.

        In a contextual game this is each agent's exact behaviour when observed alone. In a Markov
        game it averages the action probabilities in each state with the component weights. It does
        not account for how often each component reaches the state.
        """
        return np.tensordot(self.weights, self.policies, 1)

    def __len__(self) -> int:
        return len(self.policies)

    def __getitem__(self, index: int) -> np.ndarray:
        """Return one component, a product policy."""
        return self.policies[index]

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.policies)


def mixture_of(policy: Any, shape: tuple[int, ...], mask: np.ndarray) -> Mixture:
    """Return a product policy as a mixture of one component, or a mixture; check its shape.

    The first axis of `shape` is that of contexts; it may be left out where there is one. `mask`
    has the actions of each agent; all others have probability 0.
    """
    name, weights = "policy", None
    if isinstance(policy, Mixture):
        policies, weights, name = policy.policies, policy.weights, "policy.policies"
    else:
        policies = checks.as_float_array(name, policy, copy=False, booleans=False)[None]
    whole = policies.shape[1:] == shape
    if shape[0] == 1 and policies.shape[1:] == shape[1:]:
        policies = policies[:, None]
    if policies.shape[1:] != shape:
        states = "(contexts, horizon, agents, states, actions)"
        axes = states if len(shape) > 3 else "(contexts, agents, actions)"
        expected = f"a product policy of shape {shape}, {axes}"
        raise InputError(name, expected, tuple(policies.shape[1:]))
    policies = checks.check_probabilities(name, policies)
    extra = policies * ~(mask if len(shape) == 3 else mask[:, None])
    if extra.any():
        where = list(checks.first_index(extra > 0))
        raise InputError(name, "probability 0 for actions an agent lacks", f"more at {where}")
    return policy if whole and weights is not None else Mixture(policies, weights)


@final
class ContinuousPolicy(Policy):
    """A policy of independent agents, each of whom plays a point of [-1, 1] or mixes over several.

    - `points`: (contexts, agents), or (agents,) if there is one context. In a game with local
      states: (contexts, horizon, agents, states), where the first axis may be left out.
    - `weights`: for mixed policies only. `points` then has one more axis, the last, for the
      support points, and `weights`, of the same shape, holds their probabilities.

    **Example**

    Two agents: the first always plays 1, the second plays -1 or 1 with equal probability.

    >>> import equipoise as eq
    >>> policy = eq.ContinuousPolicy([[1.0, 1.0], [-1.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]])
    >>> policy.points.shape, policy.mean().tolist()
    ((1, 2, 2), [[1.0, 0.0]])
    >>> eq.ContinuousPolicy([1.0, -1.0]).points.tolist()
    [[1.0, -1.0]]
    """

    kind: ClassVar[str] = "continuous"
    points: np.ndarray
    weights: np.ndarray | None

    def __init__(self, points: Any, weights: Any = None):
        points = read_only("points", points)
        support = 0 if weights is None else 1
        axes = "(contexts, agents) or (contexts, horizon, agents, states)"
        axes += ", each with an axis of support points" if support else ""
        if not 1 <= points.ndim - support <= 4 or 0 in points.shape:
            raise InputError("points", f"shape {axes}", points.shape)
        outside = ~(np.abs(points) <= 1.0 + _TOLERANCE)
        if outside.any():
            where = checks.first_index(outside)
            raise InputError(
                "points", "numbers from -1 to 1", f"{points[where]:.6g} at {list(where)}"
            )
        # One context, whose axis was left out: add it.
        missing = (points.ndim - support) % 2 == 1
        points = points[None] if missing else points
        points = frozen(points if np.abs(points).max() <= 1.0 else np.clip(points, -1.0, 1.0))
        if weights is not None:
            array = read_only("weights", weights)
            array = array[None] if missing else array
            checks.check_shape("weights", array, points.shape, "the shape of points")
            weights = frozen(checks.check_probabilities("weights", array))
        self._set(points=points, weights=weights)

    @property
    def policy_shape(self) -> tuple[int, ...]:
        """(contexts, agents) or (contexts, horizon, agents, states)."""
        return self.points.shape if self.weights is None else self.points.shape[:-1]

    def in_words(self, about: About) -> tuple[int, Iterator[tuple[str, ...]]]:
        """Return the mean action of each agent."""
        return _by_agent(about, self.mean()[..., None], lambda _, x: format_value(float(x[0])))

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Return support points and their probabilities, always with an axis of support points.

        **Example**

        >>> import equipoise as eq
        >>> points, chances = eq.ContinuousPolicy([0.5, -0.5]).support()
        >>> points.shape, chances.tolist()
        ((1, 2, 1), [[[1.0], [1.0]]])
        """
        if self.weights is None:
            return self.points[..., None], np.ones((*self.points.shape, 1))
        return self.points, self.weights

    def mean(self) -> np.ndarray:
        """Return the mean action of each agent in every context (and step and state)."""
        points, chances = self.support()
        return (points * chances).sum(-1)


@final
class AggregativePolicy(Policy):
    """The actions of all agents, with one row for each class of agents that play alike.

    Class c consists of `counts[c]` agents of row (type or agent) `rows[c]` of the game. They play
    `actions[c]`: one action in a normal-form game, an array (horizon, states) in a Markov game.
    A million agents of a few types fall into a few hundred classes.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> policy = eq.AggregativePolicy(rows=[0, 0, 1], counts=[2, 1, 3], actions=[0, 1, 1])
    >>> policy.agents, policy.per_agent().tolist()
    (6, [0, 0, 1, 1, 1, 1])
    >>> policy.plays(types=2, actions=2).tolist()
    [[2, 1], [0, 3]]
    """

    kind: ClassVar[str] = "aggregative"
    #: (classes,): the row of the game that each class belongs to.
    rows: np.ndarray
    #: (classes,): the number of agents in each class.
    counts: np.ndarray
    #: (classes,) or (classes, horizon, states): the action played.
    actions: np.ndarray
    #: (agents,): each agent's class, if `of_agents` was told their order. It is no part of a
    #: policy's content: it is neither compared nor written.
    class_of: ClassVar[np.ndarray | None] = None

    def __init__(self, rows: Any, counts: Any, actions: Any):
        self._set(
            rows=read_only_integers("rows", rows),
            counts=read_only_integers("counts", counts),
            actions=read_only_integers("actions", actions),
        )
        if self.rows.ndim != 1 or self.counts.shape != self.rows.shape:
            raise InputError(
                "counts",
                "one for each class, like rows",
                f"shapes {self.counts.shape} and {self.rows.shape}",
            )
        if self.actions.shape[:1] != self.rows.shape or self.actions.ndim not in (1, 3):
            raise InputError(
                "actions",
                f"(classes,) or (classes, horizon, states) with {len(self.rows)} classes",
                self.actions.shape,
            )
        if len(self.rows) and (self.counts.min() < 1 or self.rows.min() < 0):
            raise ValueError("counts, rows: expected counts >= 1 and rows >= 0")

    @classmethod
    def of_agents(cls, actions: Any, counts: Any) -> "AggregativePolicy":
        """Build the policy in which agent i plays `actions[i]`, agents ordered by row of the game.

        `counts` is the game's: the number of agents that each of its rows stands for.

        **Example**

        >>> import equipoise as eq
        >>> policy = eq.AggregativePolicy.of_agents([0, 1, 0, 1], counts=[3, 1])
        >>> policy.rows.tolist(), policy.counts.tolist(), policy.actions.tolist()
        ([0, 0, 1], [2, 1, 1], [0, 1, 1])
        """
        actions = read_only_integers("actions", actions)
        counts = np.asarray(counts)
        rows = np.repeat(np.arange(len(counts)), counts)
        if actions.shape[:1] != rows.shape:
            raise InputError("actions", f"actions of {len(rows)} agents", f"shape {actions.shape}")
        if np.all(counts == 1):
            return cls(rows, counts, actions)
        if actions.ndim == 1 and actions.min(initial=0) >= 0:  # faster than rows of a table
            width = int(actions.max(initial=0)) + 1
            keys, class_of, size = np.unique(
                rows * width + actions, return_inverse=True, return_counts=True
            )
            policy = cls(keys // width, size, keys % width)
        else:
            table = np.concatenate([rows[:, None], actions.reshape(len(rows), -1)], 1)
            classes, class_of, size = np.unique(
                table, axis=0, return_inverse=True, return_counts=True
            )
            policy = cls(classes[:, 0], size, classes[:, 1:].reshape(-1, *actions.shape[1:]))
        policy._set(class_of=class_of.ravel())
        return policy

    @classmethod
    def of_plays(cls, plays: Any) -> "AggregativePolicy":
        """Build the policy of a one-shot game in which `plays[t, a]` agents of type t play a.

        **Example**

        >>> import equipoise as eq
        >>> eq.AggregativePolicy.of_plays([[600, 400]]).counts.tolist()
        [600, 400]
        """
        plays = read_only_integers("policy", plays)
        if plays.ndim != 2 or plays.min(initial=0) < 0 or not plays.any():
            raise InputError("policy", "numbers of agents >= 0, (types, actions)", plays.tolist())
        rows, actions = np.nonzero(plays)
        return cls(rows, plays[rows, actions], actions)

    @property
    def agents(self) -> int:
        """Number of agents."""
        return int(self.counts.sum())

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.rows)

    def in_words(self, about: About) -> tuple[int, Iterator[tuple[str, ...]]]:
        """Return the number of agents of each type by action, in the first step and state."""
        first = self.actions.reshape(self.classes, -1)[:, 0]
        keys, where = np.unique(np.stack([self.rows, first], 1), axis=0, return_inverse=True)
        agents = np.bincount(where.ravel(), self.counts).tolist()
        place = "" if self.actions.ndim == 1 else " (first step and state)"
        return len(keys), (
            (about.named("type", row), f"{count:,.0f}", f"{about.action(0, action)}{place}")
            for (row, action), count in zip(keys.tolist(), agents, strict=True)
        )

    def per_agent(self) -> np.ndarray:
        """Return every agent's actions, ordered by row of the game: one entry per agent."""
        order = np.argsort(self.rows, kind="stable")
        return np.repeat(self.actions[order], self.counts[order], axis=0)

    def plays(self, types: int, actions: int, *stage: int) -> np.ndarray:
        """(types, actions): number of agents of each row per action, in `stage` (step, state)."""
        played = self.actions[(slice(None), *stage)]
        index = self.rows.astype(np.int64) * actions + played
        counts = np.bincount(index, weights=self.counts, minlength=types * actions)
        return counts.reshape(types, actions).astype(np.int64)


def _by_agent(
    about: About, play: np.ndarray, words: Callable[[int, np.ndarray], str]
) -> tuple[int, Iterator[tuple[str, ...]]]:
    """Return the play of each agent in every context, and step and state if there are some."""
    names = ("context", "agent") if play.ndim == 3 else ("context", "step", "agent", "state")
    agent = names.index("agent")
    varies = [axis for axis, size in enumerate(play.shape[:-1]) if axis != agent and size > 1]
    count = play[..., 0].size

    def row(place: tuple[int, ...]) -> tuple[str, ...]:
        where = (about.named(names[axis], place[axis]) for axis in varies)
        return about.player(place[agent]), *where, words(place[agent], play[place])

    return count, map(row, np.ndindex(play.shape[:-1]))


#: Kinds of policies, by their name in the plain form.
POLICIES: dict[str, type[Policy]] = {
    cls.kind: cls
    for cls in (Profile, JointPolicy, Mixture, ContinuousPolicy, AggregativePolicy, FlowPolicy)
}
#: First part of each kind, which identifies a plain form without `kind`.
_MARKS = {
    "strategies": Profile,
    "joint": JointPolicy,
    "policies": Mixture,
    "points": ContinuousPolicy,
    "flows": FlowPolicy,
}
#: Names that show that a mapping is a plain form; other mappings have the names of players.
PARTS = frozenset({"kind", "rows", *_MARKS})


def policy_from_plain(plain: Mapping[str, Any]) -> Policy:
    """Rebuild a policy from the plain form that `to_plain` returns or that was read from JSON.

    **Example**

    >>> import equipoise as eq
    >>> eq.games.policy_from_plain({"kind": "continuous", "points": [[1.0, -1.0]]}).policy_shape
    (1, 2)
    """
    if not isinstance(plain, Mapping):
        raise InputError("policy", "a dictionary", type(plain).__name__)
    if "kind" in plain:
        if not isinstance(plain["kind"], str) or plain["kind"] not in POLICIES:
            raise InputError("kind", f"one of {', '.join(POLICIES)}", repr(str(plain["kind"])[:40]))
        return POLICIES[plain["kind"]].from_plain(plain)
    kind = next((cls for mark, cls in _MARKS.items() if mark in plain), AggregativePolicy)
    return kind.from_plain(plain)
