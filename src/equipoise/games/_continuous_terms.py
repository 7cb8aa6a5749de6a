"""Rewards of continuous actions, as polynomial terms of a few agents each.

Each action has an *effect* x: the action itself, or a polynomial of it that depends on the agent's
local state. Agent i receives

    own_i(a_i) + sum_{p,q} x_i^p sum_j W^{pq}_ij x_j^q + sum_terms w x_i^p x_j^q x_k^r ...

so that pair terms are matrix products, and terms of more agents are listed one by one. No array
here is as large as the joint space. With the others' policies fixed, an agent's expected reward is
a polynomial of its own action.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.values import Value, frozen, is_jax, read_only, read_only_integers, static
from equipoise.games._interactions import as_scope

#: Largest number of products held in memory at once.
_CHUNK = 2_000_000
#: Highest power of an effect that is allowed.
MOST_POWER = 64


class Group(Value):
    """Terms of one order: (terms, order) scopes and powers, (contexts, terms) weights.

    The term belongs to the reward of the first agent of its scope.
    """

    scopes: np.ndarray
    powers: np.ndarray
    weights: Any

    def rewards(self, xp: Any, context: int, powers: list[Any], x: Any) -> Any:
        """(..., agents): sums of the terms at effects x (..., agents), given all powers of x."""
        table = xp.stack([xp.ones_like(x), *powers[1:]], -2)  # (..., powers, agents)
        agents = x.shape[-1]
        columns = self.powers * agents + self.scopes
        flat = table.reshape(*x.shape[:-1], -1)
        if xp is np:
            return self._rewards_numpy(context, flat, columns, agents)
        product = xp.prod(flat[..., columns], -1)
        product = product * xp.broadcast_to(self.weights[context], product.shape)
        return xp.zeros_like(x).at[..., self.scopes[:, 0]].add(product)

    def _rewards_numpy(
        self, context: int, flat: np.ndarray, columns: np.ndarray, agents: int
    ) -> np.ndarray:
        terms = len(columns)
        owners = (self.scopes[:, 0], np.arange(terms))
        weights = np.asarray(self.weights[context], flat.dtype)
        from scipy.sparse import csr_array  # takes as long to load as NumPy

        summed = csr_array((weights, owners), shape=(agents, terms))
        result = np.empty((len(flat), agents), flat.dtype)
        size = max(1, _CHUNK // terms)
        for start in range(0, len(flat), size):
            # Put samples last: each factor of a term is then one contiguous row.
            part = np.ascontiguousarray(flat[start : start + size].T)
            product = part[columns[:, 0]]
            for factor in range(1, columns.shape[1]):
                product *= part[columns[:, factor]]
            result[start : start + size] = (summed @ product).T
        return result

    def add_expected(self, by_effect: np.ndarray, moments: np.ndarray) -> None:
        """Add the expected weights of own powers to (contexts, agents, powers)."""
        met = np.array(self.weights, np.float64)
        for factor in range(1, self.scopes.shape[1]):
            met *= moments[:, self.scopes[:, factor], self.powers[:, factor]]
        for context in range(len(met)):
            np.add.at(by_effect[context], (self.scopes[:, 0], self.powers[:, 0]), met[context])


class PolynomialTerms(Value):
    """Rewards of N agents with actions in [-1, 1]: polynomial terms, which may depend on contexts.

    - `own`: coefficients of the powers of an agent's own action, lowest first: (powers,), (agents,
      powers), (contexts, agents, powers) or, with local states, (contexts, agents, states, powers).
    - `pairs`: {(p, q): weights}, with weights (agents, agents) or (contexts, agents, agents):
      agent i receives `x_i^p * sum_j weights[i, j] * x_j^q`, where j may equal i.
    - `groups`: terms of three or more different agents, {order: (scopes, powers, weights)}, with
      scopes and powers (terms, order) and weights (terms,) or (contexts, terms). Agent
      `scopes[t, 0]` receives `weights[t]` times the product of the effects of the agents in
      `scopes[t]`, each raised to its power.
    - `effects`: coefficients of the effect as a polynomial of the action, (states, powers) or
      (agents, states, powers). Default: the effect is the action itself.

    **Example**

    Three agents who like to agree; the second also has a favourite action, 0.5:

    >>> import numpy as np, equipoise as eq
    >>> own = np.zeros((3, 3))
    >>> own[1] = [0.0, 1.0, -1.0]
    >>> terms = eq.games.PolynomialTerms(3, own, {(1, 1): np.ones((3, 3)) - np.eye(3)})
    >>> terms.rank, terms.contexts
    (2, 1)
    >>> terms.rewards(np.array([[1.0, 0.5, 0.0]])).tolist()
    [[0.5, 0.75, 0.0]]
    """

    own: Any
    pairs: dict[tuple[int, int], Any]
    groups: dict[int, Group]
    effects: Any
    #: Number of agents.
    agents: int = static()
    #: Number of contexts.
    contexts: int = static()
    #: Largest number of agents in a non-zero term.
    rank: int = static()
    #: Highest power of an effect.
    highest: int = static()
    #: Highest power of an agent's own action in its reward, with the others' actions fixed.
    degree: int = static()

    def __init__(
        self,
        agents: int,
        own: Any = None,
        pairs: Mapping[Any, Any] | None = None,
        groups: Mapping[Any, Any] | None = None,
        effects: Any = None,
    ):
        agents = checks.check_count("agents", agents)
        if own is None and not pairs and not groups:
            raise InputError("own", "at least one of own, pairs and groups", "none")
        checks.check_memory("agents", (8, agents), "one number per agent", "use fewer agents")
        effects = _as_effects(effects, agents)
        own = _as_own(own, agents, effects.shape[1])
        weights = {power: _as_pair(power, w, agents) for power, w in (pairs or {}).items()}
        found = {k: _as_group(k, group, agents) for k, group in sorted((groups or {}).items())}
        counts = {len(own), *(len(w) for w in weights.values())}
        counts |= {len(w) for _, _, w in found.values()}
        if len(counts - {1}) > 1:
            raise InputError(
                "weights", "the same number of contexts in all terms, or one", sorted(counts)
            )
        contexts = max(counts)
        own = broadcast(own, (contexts, *own.shape[1:]))
        shape = (contexts, agents, agents)
        terms = {power: broadcast(w, shape) for power, w in sorted(weights.items())}
        larger = {
            order: Group(scopes, powers, broadcast(w, (contexts, len(scopes))))
            for order, (scopes, powers, w) in found.items()
        }
        self._set(agents=agents, own=own, pairs=terms, groups=larger, effects=effects)
        orders = [2 for w in terms.values() if _couples(w)]
        orders += [order for order, group in larger.items() if _counts(group.weights)]
        highest = [max(p, q) for p, q in terms]
        highest += [int(group.powers.max()) for group in larger.values()]
        first = [p + q for p, q in terms]
        first += [int(group.powers[:, 0].max()) for group in larger.values()]
        reach = (effects.shape[2] - 1) * max(first, default=0)
        self._set(contexts=contexts, rank=max(orders, default=1))
        self._set(highest=max(highest, default=0), degree=max(own.shape[-1] - 1, reach))

    @property
    def states(self) -> int:
        """Number of local states that effects and own terms distinguish; 1 without local states."""
        return self.effects.shape[1]

    def rewards(self, actions: Any, contexts: Any = None, states: Any = None) -> Any:
        """(..., agents): rewards at actions (..., agents), in JAX for JAX arrays, else in NumPy.

        `contexts` (...) and `states` (..., agents) are whole numbers. Leave them out if there is
        only one. This method checks nothing; `ContinuousGame.rewards` does.
        """
        weights = (group.weights for group in self.groups.values())
        arrays = (actions, self.own, self.effects, *self.pairs.values(), *weights)
        if any(map(is_jax, arrays)):
            return self._rewards_jax(actions, contexts, states)
        actions = np.asarray(actions)
        flat, batch = actions.reshape(-1, self.agents), actions.shape[:-1]
        result = np.empty(flat.shape, np.result_type(flat, np.float32))
        places = given = None
        if states is not None:
            places = np.broadcast_to(np.asarray(states), actions.shape).reshape(flat.shape)
        if contexts is not None and self.contexts > 1:
            given = np.broadcast_to(np.asarray(contexts), batch).ravel()
        for context in [0] if given is None else np.unique(given).tolist():
            rows = slice(None) if given is None else np.flatnonzero(given == context)
            own = None if places is None else places[rows]
            result[rows] = self._in_context(np, context, flat[rows], own)
        return result.reshape(actions.shape)

    def _rewards_jax(self, actions: Any, contexts: Any, states: Any) -> Any:
        import jax.numpy as jnp

        actions = jnp.asarray(actions)
        result = self._in_context(jnp, 0, actions, states)
        if contexts is None or self.contexts == 1:
            return result
        for context in range(1, self.contexts):
            here = self._in_context(jnp, context, actions, states)
            result = jnp.where(jnp.asarray(contexts)[..., None] == context, here, result)
        return result

    def _in_context(self, xp: Any, context: int, actions: Any, states: Any) -> Any:
        """Return the rewards of actions (..., agents) in one context."""
        kind = actions.dtype if xp is np else None
        x = _by_state(xp, self.effects, actions, states)
        rewards = _by_state(xp, self.own[context], actions, states)
        powers = [None, x]  # the first is never read
        for _ in range(2, self.highest + 1):
            powers.append(powers[-1] * x)
        for (p, q), weights in self.pairs.items():
            w = xp.asarray(weights[context], kind)
            met = powers[q] @ w.T if q else xp.broadcast_to(w.sum(1), x.shape)
            rewards = rewards + (powers[p] * met if p else met)
        for group in self.groups.values():
            rewards = rewards + group.rewards(xp, context, powers, x)
        return rewards

    def moments(self, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(contexts, agents, powers): moments of each agent's effect, from power 0 on.

        `points` and `weights` are (contexts, agents, states, support): an agent's state and action,
        with probabilities that sum to one over the last two axes.
        """
        x = _polynomial(np, self.effects[:, :, None, :], points)
        moments = np.empty((*x.shape[:2], self.highest + 1))
        product = weights
        for power in range(self.highest + 1):
            moments[:, :, power] = product.sum((2, 3))
            product = product * x
        return moments

    def own_polynomials(self, moments: np.ndarray) -> np.ndarray:
        """(contexts, agents, states, powers): expected rewards as polynomials of own actions.

        `moments` are those of all agents, who choose independently of each other.
        """
        width = 1 + max([0, *(p + q for p, q in self.pairs), self.highest])
        by_effect = np.zeros((self.contexts, self.agents, width))
        for (p, q), weights in self.pairs.items():
            self_weight = np.einsum("cii->ci", weights)
            met = np.matmul(weights, moments[:, :, q, None])[..., 0]
            by_effect[:, :, p] += met - self_weight * moments[:, :, q]
            by_effect[:, :, p + q] += self_weight
        for group in self.groups.values():
            group.add_expected(by_effect, moments)
        result = np.zeros((*self.own.shape[:3], max(self.own.shape[3], self.degree + 1)))
        result[..., : self.own.shape[3]] = self.own
        power = np.ones_like(self.effects[..., :1])  # powers of effects, as polynomials of actions
        for p in range(width):
            if by_effect[:, :, p].any():
                result[..., : power.shape[-1]] += by_effect[:, :, p, None, None] * power
            power = _product(power, self.effects)
        return result

    def changed(self, change: Callable[[Any], Any], effects: Any = None) -> "PolynomialTerms":
        """Return terms with changed weights, and with these effects, if any.

        >>> import numpy as np
        >>> PolynomialTerms(1, [[0.0, -2.0]]).changed(np.abs).own.tolist()
        [[[[0.0, 2.0]]]]
        """
        pairs = {powers: change(weights) for powers, weights in self.pairs.items()}
        groups = {k: (g.scopes, g.powers, change(g.weights)) for k, g in self.groups.items()}
        effects = self.effects if effects is None else effects
        return PolynomialTerms(self.agents, change(self.own), pairs, groups, effects)


def _counts(weights: Any) -> bool:
    """Return whether any weight is non-zero, as far as can be known under tracing."""
    return checks.is_traced(weights) or bool(weights.any())


def _couples(weights: Any) -> bool:
    """Return whether weights (contexts, agents, agents) couple two different agents."""
    if checks.is_traced(weights):
        return True
    alone = np.count_nonzero(np.einsum("cii->ci", weights))
    return bool(np.count_nonzero(weights) > alone)


def _polynomial(xp: Any, coefficients: Any, points: Any) -> Any:
    """Evaluate polynomials by Horner's rule; coefficients (..., powers) broadcast to points."""
    *lower, value = (
        xp.broadcast_to(coefficients[..., power], points.shape)
        for power in range(coefficients.shape[-1])
    )
    for coefficient in reversed(lower):
        value = value * points + coefficient
    return value


def _by_state(xp: Any, coefficients: Any, actions: Any, states: Any) -> Any:
    """(..., agents): polynomials (agents, states, powers) of the agents' states, at actions."""
    table = xp.asarray(coefficients, actions.dtype if xp is np else None)
    value = _polynomial(xp, table[:, 0], actions)
    for state in range(1, table.shape[1]):
        value = xp.where(states == state, _polynomial(xp, table[:, state], actions), value)
    return value


def _product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Multiply polynomials whose coefficients are on the last axis."""
    result = np.zeros((*first.shape[:-1], first.shape[-1] + second.shape[-1] - 1))
    for power in range(second.shape[-1]):
        result[..., power : power + first.shape[-1]] += first * second[..., power, None]
    return result


def _as_effects(effects: Any, agents: int) -> Any:
    """Return the effects as (agents, states, powers)."""
    if effects is None:
        return np.broadcast_to(frozen(np.array([0.0, 1.0])), (agents, 1, 2))
    array = read_only("effects", effects)
    if array.ndim not in (2, 3) or 0 in array.shape or (array.ndim == 3 and len(array) != agents):
        raise InputError(
            "effects", f"shape (states, powers) or ({agents}, states, powers)", array.shape
        )
    checks.check_finite("effects", array)
    return broadcast(array, (agents, *array.shape[-2:]))


def _as_own(own: Any, agents: int, states: int) -> Any:
    """Return the own terms as (contexts, agents, states, powers)."""
    if own is None:
        return np.broadcast_to(frozen(np.zeros(1)), (1, agents, states, 1))
    array = read_only("own", own)
    views = {1: np.s_[None, None, None], 2: np.s_[None, :, None], 3: np.s_[:, :, None]}
    shaped = array[views.get(array.ndim, ...)]
    fits = shaped.ndim == 4 and 0 not in shaped.shape
    fits = fits and (array.ndim == 1 or shaped.shape[1] == agents)
    if not fits or shaped.shape[2] not in (1, states):
        raise InputError(
            "own",
            f"shape (powers,), ({agents}, powers), (contexts, {agents}, powers) or "
            f"(contexts, {agents}, {states}, powers), with as many states as `effects`",
            array.shape,
        )
    checks.check_finite("own", array)
    return broadcast(shaped, (len(shaped), agents, states, shaped.shape[3]))


def _as_pair(power: Any, weights: Any, agents: int) -> Any:
    """Return the weights of pairs as (contexts, agents, agents)."""
    whole = isinstance(power, tuple) and len(power) == 2
    if not whole or not all(isinstance(p, int) and 0 <= p <= MOST_POWER for p in power):
        raise InputError(
            "pairs", f"pairs of powers from 0 to {MOST_POWER}, such as (1, 1)", repr(power)
        )
    array = read_only(f"pairs[{power}]", weights)
    shaped = array[None] if array.ndim == 2 else array
    if shaped.ndim != 3 or shaped.shape[1:] != (agents, agents) or not len(shaped):
        raise InputError(
            f"pairs[{power}]",
            f"shape ({agents}, {agents}) or (contexts, {agents}, {agents})",
            array.shape,
        )
    checks.check_finite(f"pairs[{power}]", array)
    return shaped


def broadcast(array: Any, shape: tuple[int, ...]) -> Any:
    """Broadcast an array to a shape: a view for NumPy arrays; traced arrays stay traced."""
    if not checks.is_traced(array):
        return np.broadcast_to(array, shape)
    import jax.numpy as jnp

    return jnp.broadcast_to(array, shape)


def _as_group(order: Any, given: Any, agents: int) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return scopes, powers and weights (contexts, terms)."""
    name = f"groups[{order}]"
    if not isinstance(order, int) or order < 3:
        raise InputError("groups", "orders >= 3", repr(order), "use pairs for order 2")
    if isinstance(given, Mapping):
        given = Group.from_plain(given)
    if isinstance(given, Group):
        given = (given.scopes, given.powers, given.weights)
    if not isinstance(given, tuple | list) or len(given) != 3:
        raise InputError(name, "(scopes, powers, weights)", type(given))
    scopes = as_scope(name, order, given[0], agents)
    powers = read_only_integers(name, given[1])
    checks.check_shape(name, powers, scopes.shape, "powers, one for each scope entry")
    wrong = (powers < 0) | (powers > MOST_POWER)
    if wrong.any():
        where = checks.first_index(wrong)
        raise InputError(
            name, f"powers from 0 to {MOST_POWER}", f"{powers[where]} at {list(where)}"
        )
    weights = read_only(name, given[2])
    shaped = weights[None] if weights.ndim == 1 else weights
    if shaped.ndim != 2 or shaped.shape[1] != len(scopes):
        raise InputError(
            name, f"weights of shape ({len(scopes)},) or (contexts, {len(scopes)})", weights.shape
        )
    checks.check_finite(name, shaped)
    return scopes, powers, shaped
