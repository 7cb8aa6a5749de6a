"""Transitions of local states, fitted to a log by maximum likelihood: the paper's class P_i.

Line 3 of Algorithm 1 fits, for every agent i and step h, a conditional distribution
`P(s' | c, s_i, a_i)` of the agent's next local state given the public context, its local state and
its action. Three classes are available:

- "table": the frequencies of next states. Local states and contexts that are numbers are cut into
  cells of equal width, and the density is constant in a cell.
- "linear": a linear function of context, state and action plus Gaussian noise. Least squares and
  the covariance of its residuals are the maximum of the likelihood.
- "network": the linear function plus a network with one hidden layer, and Gaussian noise. The
  likelihood, with its best covariance, is maximised by Adam from the linear fit.

With `kind="auto"` the held-out likelihood chooses. Likelihoods of numbers are densities, so that
all classes are compared in the same unit.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.core.precision import single_precision
from equipoise.core.randomness import as_key
from equipoise.offline._log import Log
from equipoise.offline._numbers import Layout

__all__ = ["GaussianTransitions", "TableTransitions", "Transitions", "fit"]

KINDS = ("table", "linear", "network")
#: Fraction of the rows, or of the episodes, that are held out to choose a class.
HELD_OUT = 0.2
#: Number of cells of each number of a table.
CELLS = 10
#: Rows added to a table of numbers for every context, state and action, spread over all cells of
#: next states, so that no density is zero.
PRIOR = 1.0
#: Largest number of entries of a table.
MOST_ENTRIES = 20_000_000
#: Smallest variance, relative to that of the next states, and the penalty of the linear fit.
LEAST = 1e-12
#: Hidden units of a network, steps of Adam and their size, and most rows of a step.
WIDTH, STEPS, RATE, ROWS = 16, 500, 0.02, 4_000


class Transitions(eqx.Module):
    """Fitted transitions of all agents; the arrays of every class have a first axis of agents.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=3, actions=2, states=2, horizon=4).sample(key=0)
    >>> log = eq.offline.collect(game, samples=500, key=0)
    >>> fitted = eq.offline.transitions.fit(log)
    >>> isinstance(fitted, eq.offline.transitions.Transitions), fitted.kind
    (True, 'table')
    """

    #: Numbers of agents, steps, contexts, states, actions and columns.
    layout: eqx.AbstractVar[Layout]
    #: "table", "linear" or "network".
    kind: eqx.AbstractVar[str]
    #: Mean held-out log-likelihood of a joint transition for each class that was compared.
    held_out: eqx.AbstractVar[tuple[tuple[str, float], ...]]

    @abstractmethod
    def advance(self, h: Any, common: Array, local: Array, action: Array, key: jax.Array) -> Array:
        """Draw next states (rows, width) of one agent, whose arrays have no axis of agents.

        `common` (rows, numbers) and `local` (rows, width) are as in `_numbers`; `action` (rows,).
        """

    @abstractmethod
    def densities(self, log: Log) -> np.ndarray:
        """(rows, agents): logarithm of the density, or probability, of each transition of a log."""

    def log_likelihood(self, log: Log) -> np.ndarray:
        """(agents,): mean logarithm of the density of the transitions in a log.

        **Example**

        >>> import equipoise as eq
        >>> family = eq.games.families.polymatrix(agents=3, actions=2, states=2, horizon=4)
        >>> log = eq.offline.collect(family.sample(key=0), samples=500, key=0)
        >>> fitted = eq.offline.transitions.fit(log)
        >>> bool((fitted.log_likelihood(log) > -0.7).all())
        True
        """
        check_layout(self.layout, log)
        return self.densities(log).mean(0)

    def sample(self, log: Log, *, key: Any) -> np.ndarray:
        """Draw a next state for every row of a log, in the form of `log.next_states`.

        **Example**

        >>> import equipoise as eq
        >>> family = eq.games.families.polymatrix(agents=3, actions=2, states=2, horizon=4)
        >>> log = eq.offline.collect(family.sample(key=0), samples=500, key=0)
        >>> eq.offline.transitions.fit(log).sample(log, key=1).shape
        (2000, 3)
        """
        check_layout(self.layout, log)
        common, local, _ = self.layout.columns_of(log)
        found = np.zeros(local.shape)
        with single_precision():
            keys = jax.random.split(as_key(key), self.layout.horizon)
            for h, rows in _steps(log):
                c, s, a = (jnp.asarray(x[rows], jnp.float32) for x in (common, local, log.actions))
                found[rows] = np.asarray(_advance_all(self, h, c, s, a, keys[h]))
        return found.argmax(-1) if self.layout.states else found

    def everybody(
        self, h: Any, common: Array, local: Array, actions: Array, key: jax.Array
    ) -> Array:
        """Draw next states (rows, agents, width) of all agents."""

        def one(own: Any, local: Array, action: Array, key: jax.Array) -> Array:
            return own.advance(h, common, local, action, key)

        keys = jax.random.split(key, self.layout.agents)
        over: Any = jax.vmap(one, (0, 1, 1, 0), 1)
        return over(self, local, actions, keys)


@eqx.filter_jit
def _advance_all(
    fitted: Transitions, h: Any, common: Array, local: Array, actions: Array, key: jax.Array
) -> Array:
    return fitted.everybody(h, common, local, actions, key)


class TableTransitions(Transitions):
    """Frequencies of next states, for every context, step, local state and action.

    Numbers are cut into cells of equal width, and a draw is uniform within its cell. If states are
    numeric, one more row for each context, state and action is spread over all next states. Where
    a counted state and action never occur, all next states are equally likely.

    **Example**

    >>> import equipoise as eq
    >>> log = eq.offline.Log(
    ...     None, [[0], [0], [1], [0]], [[0.0]] * 4, [[0], [0], [0], [1]], [[1], [0], [1], [1]]
    ... )
    >>> fitted = eq.offline.transitions.fit(log, "table")
    >>> fitted.chances[0, 0].round(2).tolist()            # cells of (state, action)
    [[0.5, 0.5], [0.0, 1.0], [0.0, 1.0], [0.5, 0.5]]
    """

    #: (agents, steps, cells of context, state and action, cells of next states): probabilities.
    chances: Float[np.ndarray | Array, "... given next"]
    #: (agents, columns, 2): ends of the numbers that are cut into cells; local states come last.
    ends: Float[np.ndarray | Array, "... columns ends"]
    #: Numbers of agents, steps, contexts, states, actions and columns.
    layout: Layout = eqx.field(static=True)
    #: Number of cells of every number.
    cells: int = eqx.field(static=True)
    held_out: tuple[tuple[str, float], ...] = eqx.field(static=True)
    kind: str = eqx.field(static=True, default="table")

    def advance(self, h: Any, common: Array, local: Array, action: Array, key: jax.Array) -> Array:
        """Draw a cell, and a number uniformly within it."""
        first, second = jax.random.split(key)
        given = _given(self.layout, self.cells, common, local, action, self.ends)
        chances = jnp.asarray(self.chances, local.dtype)[
            jnp.minimum(h, len(self.chances) - 1), given
        ]
        drawn = jax.random.categorical(first, jnp.log(chances))
        if self.layout.states:
            return jax.nn.one_hot(drawn, self.layout.states, dtype=local.dtype)
        ends = jnp.asarray(self.ends, local.dtype)[-self.layout.width :]
        cell = jnp.stack(jnp.unravel_index(drawn, (self.cells,) * self.layout.width), -1)
        share = (cell + jax.random.uniform(second, cell.shape, local.dtype)) / self.cells
        return ends[None, :, 0] + share * (ends[:, 1] - ends[:, 0])[None]

    def densities(self, log: Log) -> np.ndarray:
        """Logarithms of probabilities, for numbers divided by the volume of a cell."""
        common, local, following = self.layout.columns_of(log)
        found = np.zeros(log.rewards.shape)
        every = len(self.chances[0]) > 1
        for i in range(log.agents):
            ends = np.asarray(self.ends[i])
            own = (common, local[:, i], log.actions[:, i], ends)
            given = _given(self.layout, self.cells, *own)
            led, inside = _led(self.layout, self.cells, following[:, i], ends)
            step = 0 if log.steps is None or not every else log.steps
            chances = np.asarray(self.chances[i])[step, given, led]
            width = self.layout.width
            volume = 1.0 if self.layout.states else np.prod(np.ptp(ends[-width:], 1) / self.cells)
            with np.errstate(divide="ignore"):
                found[:, i] = np.log(np.where(inside, chances, 0.0) / volume)
        return found


def _given(layout: Layout, cells: int, common: Any, local: Any, action: Any, ends: Any) -> Any:
    """(rows,): number of the cell of context, local state and action."""
    xp: Any = np if isinstance(local, np.ndarray) else jnp
    cell = xp.zeros(len(local), int)
    numbers = []
    if layout.contexts > 1:
        cell = common[:, : layout.contexts].argmax(-1)
    if layout.covariates:
        numbers.append(common[:, -layout.covariates :])
    if layout.states:
        cell = cell * layout.states + local.argmax(-1)
    else:
        numbers.append(local)
    for k, column in enumerate(xp.concatenate(numbers, 1).T if numbers else ()):
        cell = cell * cells + _cut(column, ends[k], cells)
    if layout.actions:
        return cell * layout.actions + action.astype(int)
    return cell * cells + _cut(action, (-1.0, 1.0), cells)


def _led(
    layout: Layout, cells: int, following: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(rows,): number of the cell of the next state, and whether it is within the ends."""
    if layout.states:
        return following.argmax(-1), np.ones(len(following), bool)
    cell, own = np.zeros(len(following), int), ends[-layout.width :]
    for column, (low, high) in zip(following.T, own, strict=True):
        cell = cell * cells + _cut(column, (low, high), cells)
    inside = (following >= own[:, 0]) & (following <= own[:, 1])
    return cell, np.asarray(inside.all(1))


def _cut(numbers: Any, ends: Any, cells: int) -> Any:
    """Cell of each number, from 0 to `cells - 1`; numbers beyond the ends are in the last cells."""
    low, high = ends
    share = (numbers - low) / (high - low)
    return (share * cells).clip(0, cells - 1).astype(int)


class GaussianTransitions(Transitions):
    """A linear function of context, state and action, with a network or without, and noise.

    Every action has an effect of its own on the next state if actions are counted; continuous
    actions enter as numbers.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> rng = np.random.default_rng(0)
    >>> states, actions = rng.normal(size=(500, 1, 1)), rng.integers(0, 2, (500, 1))
    >>> following = 0.5 * states + actions[:, :, None]
    >>> log = eq.offline.Log(None, actions, np.zeros((500, 1)), states, following)
    >>> fitted = eq.offline.transitions.fit(log, "linear")
    >>> fitted.weights[0, 0, :, 0].round(6).tolist()              # constant, state, action 1
    [0.0, 0.5, 1.0]
    """

    #: (agents, steps, inputs, width): linear function; the inputs are 1, context, state, action.
    weights: Float[np.ndarray | Array, "... inputs width"]
    #: (agents, steps, width, width): lower triangular root of the covariance of the noise.
    root: Float[np.ndarray | Array, "... width width"]
    #: Centres and scales (agents, steps, inputs) of the network's inputs, and its weights (agents,
    #: steps, inputs, units) and (agents, steps, units, width); None without a network.
    network: tuple[Any, Any, Any, Any] | None
    #: Numbers of agents, steps, contexts, states, actions and columns.
    layout: Layout = eqx.field(static=True)
    held_out: tuple[tuple[str, float], ...] = eqx.field(static=True)
    kind: str = eqx.field(static=True, default="linear")

    def advance(self, h: Any, common: Array, local: Array, action: Array, key: jax.Array) -> Array:
        """Draw from a Gaussian."""
        own = jax.tree.map(lambda x: jnp.asarray(x, local.dtype)[jnp.minimum(h, len(x) - 1)], self)
        noise = jax.random.normal(key, local.shape, local.dtype)
        return own.means(inputs_of(self.layout, common, local, action)) + noise @ own.root.T

    def means(self, inputs: Any) -> Any:
        """(rows, width): mean next states of one agent in one step, without these axes."""
        mean = inputs @ self.weights
        if self.network is None:
            return mean
        xp: Any = np if isinstance(inputs, np.ndarray) else jnp
        centre, scale, hidden, output = self.network
        return mean + xp.tanh((inputs - centre[None]) / scale[None] @ hidden) @ output

    def densities(self, log: Log) -> np.ndarray:
        """Logarithms of Gaussian densities."""
        common, local, following = self.layout.columns_of(log)
        found = np.zeros(log.rewards.shape)
        for h, rows in _steps(log):
            for i in range(log.agents):
                own = jax.tree.map(
                    lambda x, i=i, h=h: np.asarray(x[i, min(h, x.shape[1] - 1)]), self
                )
                x = inputs_of(self.layout, common[rows], local[rows, i], log.actions[rows, i])
                left = np.linalg.solve(own.root, (following[rows, i] - own.means(x)).T)
                volume = np.log(np.diag(own.root)).sum() + len(left) * np.log(2.0 * np.pi) / 2.0
                found[rows, i] = -0.5 * (left**2).sum(0) - volume
        return found


def _at(array: Any, agent: int, step: int) -> Any:
    """The part of an array for one agent and step; stationary arrays have a single step."""
    return array[agent, min(step, array.shape[1] - 1)]


def inputs_of(layout: Layout, common: Any, local: Any, action: Any) -> Any:
    """(rows, inputs): the constant 1, the context, the local state, and the action.

    Counted contexts and actions leave out their first column, which the constant replaces.
    """
    xp: Any = np if isinstance(local, np.ndarray) else jnp
    first = 1 if layout.contexts > 1 else 0
    parts = [xp.ones((len(local), 1), local.dtype), common[:, first:], local]
    if layout.actions:
        made = action[:, None] == xp.arange(1, layout.actions)[None]
        parts.append(made.astype(local.dtype))
    else:
        parts.append(action[:, None].astype(local.dtype))
    return xp.concatenate(parts, 1)


@named_arguments
def fit(
    log: Log, kind: str = "auto", *, stationary: bool = False, cells: int = CELLS, key: Any = 0
) -> Transitions:
    """Fit the transitions of all agents to a log by maximum likelihood.

    Args:
        log: A log with local states, counted or numeric.
        kind: "table", "linear" or "network"; "auto" compares all that apply on a fifth of the rows
            (or of the episodes) that is held out, and fits the best one to all rows. Counted states
            have tables.
        stationary: Whether all steps share one distribution. Default: one for every step, as in the
            paper.
        cells: Number of cells into which a table cuts every number.
        key: Random key of the network's first weights and of the rows that are held out.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> rng = np.random.default_rng(0)
    >>> states, actions = rng.normal(size=(900, 1, 1)), rng.integers(0, 2, (900, 1))
    >>> following = np.tanh(2.0 * states + actions[:, :, None]) + 0.1 * rng.normal(size=(900, 1, 1))
    >>> log = eq.offline.Log(None, actions, np.zeros((900, 1)), states, following)
    >>> fitted = eq.offline.transitions.fit(log)
    >>> fitted.kind, [name for name, _ in fitted.held_out]
    ('network', ['table', 'linear', 'network'])
    """
    if log.states is None:
        raise InputError("log", "a log with local states", "none")
    if kind not in (*KINDS, "auto"):
        raise InputError("kind", f"'auto', {', '.join(map(repr, KINDS))}", repr(kind))
    checks.check_count("cells", cells, 2)
    layout = Layout.of(log)
    if layout.states and kind not in ("table", "auto"):
        raise InputError("kind", "'table' for local states that are counted", repr(kind))
    options = {"stationary": stationary, "cells": cells, "key": as_key(key)}
    if kind != "auto":
        return _fit(log, kind, (), **options)
    if layout.states:
        return _fit(log, "table", (), **options)
    held, trained = _split(log, options["key"])
    known = KINDS if _entries(layout, stationary, cells) <= MOST_ENTRIES else KINDS[1:]
    scores = tuple(
        (name, float(_fit(trained, name, (), **options).log_likelihood(held).sum()))
        for name in known
    )
    return _fit(log, max(scores, key=lambda pair: pair[1])[0], scores, **options)


def _fit(
    log: Log,
    kind: str,
    scores: tuple[tuple[str, float], ...],
    *,
    stationary: bool,
    cells: int,
    key: jax.Array,
) -> Transitions:
    parts = [(0, np.arange(log.samples))] if stationary else list(_steps(log))
    for h in range(1 if stationary else log.horizon):
        if h not in {step for step, _ in parts}:
            raise InputError("log", "rows of every step", f"none of step {h}")
    if kind == "table":
        return _fit_table(log, parts, cells, scores)
    return _fit_gaussian(log, parts, kind, key, scores)


def _fit_table(
    log: Log, parts: list[tuple[int, np.ndarray]], cells: int, scores: Any
) -> TableTransitions:
    layout = Layout.of(log)
    if _entries(layout, len(parts) == 1, cells) > MOST_ENTRIES:
        found = f"more with {cells} cells of every number"
        raise InputError("cells", f"a table of at most {MOST_ENTRIES:,} entries", found)
    common, local, following = layout.columns_of(log)
    covariates = common[:, common.shape[1] - layout.covariates :]
    ends = np.zeros((layout.agents, layout.covariates, 2))
    ends[..., 0], ends[..., 1] = (f(covariates, 0, initial=w) for f, w in _ENDS)
    if not layout.states:
        both = np.concatenate([local, following])
        ends = np.concatenate([ends, np.stack([both.min(0), both.max(0)], -1)], 1)
    ends[..., 1] = np.where(ends[..., 1] > ends[..., 0], ends[..., 1], ends[..., 0] + 1.0)
    size = layout.states or cells**layout.width
    given = _given_cells(layout, cells)
    chances = np.zeros((layout.agents, len(parts), given, size))
    prior = 0.0 if layout.states else PRIOR / size
    for i in range(layout.agents):
        cell = _given(layout, cells, common, local[:, i], log.actions[:, i], ends[i])
        led, _ = _led(layout, cells, following[:, i], ends[i])
        for place, (_, rows) in enumerate(parts):
            counts = np.bincount(cell[rows] * size + led[rows], minlength=given * size)
            counts = counts.reshape(given, size) + prior
            total = counts.sum(1, keepdims=True)
            chances[i, place] = np.where(total > 0, counts / np.maximum(total, 1e-300), 1.0 / size)
    return TableTransitions(chances=chances, ends=ends, layout=layout, cells=cells, held_out=scores)


#: How the ends of covariates are found, with a start for logs without any.
_ENDS = ((np.min, np.inf), (np.max, -np.inf))


def _given_cells(layout: Layout, cells: int) -> int:
    """Number of cells of context, state and action."""
    numbers = layout.covariates + (0 if layout.states else layout.width)
    numbers += 0 if layout.actions else 1
    return layout.contexts * max(layout.states, 1) * max(layout.actions, 1) * cells**numbers


def _entries(layout: Layout, stationary: bool, cells: int) -> int:
    following = layout.states or cells**layout.width
    steps = 1 if stationary else layout.horizon
    return layout.agents * steps * _given_cells(layout, cells) * following


def _fit_gaussian(
    log: Log, parts: list[tuple[int, np.ndarray]], kind: str, key: jax.Array, scores: Any
) -> GaussianTransitions:
    layout = Layout.of(log)
    common, local, following = layout.columns_of(log)
    axes = (layout.agents, len(parts))
    found: dict[str, list[np.ndarray]] = {}
    for i in range(layout.agents):
        for place, (_, rows) in enumerate(parts):
            x = inputs_of(layout, common[rows], local[rows, i], log.actions[rows, i])
            y = following[rows, i]
            weights = np.linalg.lstsq(x, y, rcond=None)[0]
            made: dict[str, np.ndarray] = {"weights": weights}
            residuals = y - x @ weights
            if kind == "network":
                own = jax.random.fold_in(key, i * len(parts) + place)
                made |= (trained := _train(x, residuals, own))
                centre, scale, hidden, output = trained.values()
                residuals = residuals - np.tanh((x - centre) / scale @ hidden) @ output
            made["root"] = _root(residuals, y)
            for name, array in made.items():
                found.setdefault(name, []).append(array)
    arrays = {name: np.stack(x).reshape(*axes, *x[0].shape) for name, x in found.items()}
    weights, root = arrays.pop("weights"), arrays.pop("root")
    network: Any = tuple(arrays[name] for name in _NETWORK) if arrays else None
    return GaussianTransitions(
        weights=weights, root=root, network=network, layout=layout, held_out=scores, kind=kind
    )


#: Arrays of a network, in the order of `GaussianTransitions.network`.
_NETWORK = ("centre", "scale", "hidden", "output")


def _root(residuals: np.ndarray, following: np.ndarray) -> np.ndarray:
    """Root of the covariance of residuals, with a floor so that it can be inverted."""
    covariance = residuals.T @ residuals / len(residuals)
    floor = LEAST * np.maximum(following.var(0), 1e-300)
    return np.linalg.cholesky(covariance + np.diag(np.maximum(floor, 1e-30)))


def _train(x: np.ndarray, residuals: np.ndarray, key: jax.Array) -> dict[str, np.ndarray]:
    """Maximise the likelihood of a network that predicts what the linear function leaves over.

    Given the network, the best covariance is that of the residuals, so the logarithm of its
    determinant is what is minimised. Of all steps, the one with the largest likelihood is kept;
    the first is the linear function alone.
    """
    pick = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())
    rows = pick.permutation(len(x))[:ROWS]
    centre, scale = x.mean(0), x.std(0)
    # The constant input stays 1.
    centre, scale = np.where(scale > 0, centre, 0.0), np.where(scale > 0, scale, 1.0)
    unit = np.maximum(residuals.std(0), 1e-150)
    with single_precision():
        inputs = jnp.asarray((x[rows] - centre) / scale, jnp.float32)
        goals = jnp.asarray(residuals[rows] / unit, jnp.float32)
        hidden = jax.random.normal(key, (x.shape[1], WIDTH), jnp.float32) / x.shape[1] ** 0.5
        start = (hidden, jnp.zeros((WIDTH, residuals.shape[1]), jnp.float32))
        hidden, output = _ascend(start, inputs, goals)
    output = np.asarray(output, np.float64) * unit
    found = (centre, scale, np.asarray(hidden, np.float64), output)
    return dict(zip(_NETWORK, found, strict=True))


@jax.jit
def _ascend(start: Any, inputs: Array, goals: Array) -> Any:
    """Weights with the largest likelihood among all steps of Adam."""
    optimiser = optax.adam(optax.cosine_decay_schedule(RATE, STEPS))

    def loss(weights: Any) -> Array:
        hidden, output = weights
        left = goals - jnp.tanh(inputs @ hidden) @ output
        covariance = left.T @ left / len(left) + 1e-6 * jnp.eye(left.shape[1])
        return jnp.linalg.slogdet(covariance)[1]

    def one(carry: Any, _: Any) -> Any:
        weights, state, best, least = carry
        value, slope = jax.value_and_grad(loss)(weights)
        better = value < least
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), weights, best)
        updates, state = optimiser.update(slope, state)
        weights = optax.apply_updates(weights, updates)
        return (weights, state, best, jnp.minimum(value, least)), None

    begin = (start, optimiser.init(start), start, jnp.float32(jnp.inf))
    return jax.lax.scan(one, begin, None, STEPS)[0][2]


def _steps(log: Log) -> list[tuple[int, np.ndarray]]:
    """Every step that occurs, with its rows."""
    if log.steps is None or log.horizon == 1:
        return [(0, np.arange(log.samples))]
    found = [(h, np.flatnonzero(log.steps == h)) for h in range(log.horizon)]
    return [(h, rows) for h, rows in found if len(rows)]


def _split(log: Log, key: jax.Array) -> tuple[Log, Log]:
    """Hold out a fifth of the rows of every step, or of the episodes."""
    rng = np.random.default_rng([*np.asarray(jax.random.key_data(key)).tolist(), 1])
    if log.episodes is not None:
        names, number = np.unique(log.episodes, return_inverse=True)
        chosen = rng.random(len(names)).argsort().argsort() < HELD_OUT * len(names)
        held = chosen[number]
    else:
        held = np.zeros(log.samples, bool)
        for _, rows in _steps(log):
            held[rng.permutation(rows)[: int(np.ceil(HELD_OUT * len(rows)))]] = True
    if held.all() or not held.any():
        raise InputError("log", "at least two rows of every step", f"{log.samples} rows")
    return log.take(held), log.take(~held)


def check_layout(layout: Layout, log: Log) -> None:
    """Refuse a log of another shape."""
    if Layout.of(log) != layout:
        raise InputError("log", f"a log with {layout}", Layout.of(log))
