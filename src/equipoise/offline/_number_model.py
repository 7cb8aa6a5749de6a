"""Games fitted to logs whose contexts or local states are numbers: line 3 of Algorithm 1.

Rewards are fitted by least squares in a class of interaction rank 1 or 2 that is linear in
polynomials: for every step and agent i, a polynomial of the context and the own state for each own
action, and a polynomial of the context, the own state and the state of agent j for each pair of
actions of i and j. Transitions are those of `transitions.fit`.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize
from scipy.special import log_softmax

from equipoise.core import InputError, checks
from equipoise.games import Labels
from equipoise.offline import transitions as classes
from equipoise.offline._log import Log
from equipoise.offline._number_policy import Logits, beside
from equipoise.offline._numbers import Layout, Scaling, check_features, count_monomials, monomials
from equipoise.offline.deep._networks import ridge_regression
from equipoise.offline.transitions import Transitions

#: Every fifth row is held out to say how much of the rewards is explained.
EVERY = 5
#: Degree of the polynomials of the behaviour policy, and the penalty on their coefficients.
PLAY_DEGREE, PLAY_PENALTY = 2, 1.0


class NumericRewards(eqx.Module):
    """Fitted rewards: polynomials of scaled numbers for own actions and for pairs of actions."""

    #: (horizon, agents, actions, monomials).
    own: Float[np.ndarray | Array, "horizon agents actions monomials"]
    #: (horizon, agents, others, own actions, their actions, monomials); None for rank 1. The terms
    #: of an agent with itself are zero.
    pairs: Float[np.ndarray | Array, "horizon agents agents actions actions _"] | None
    degree: int = eqx.field(static=True)

    def __call__(
        self, h: Any, common: Array, own: tuple[Array, Array], others: tuple[Array, Array]
    ) -> Array:
        """(rows, agents): rewards of each agent where it has its `own` state and action.

        `own` and `others` are scaled local states (rows, agents, width) and actions (rows, agents).
        Every agent i is in `own[:, i]`, and the others that it meets are in `others`.
        """
        state, action = own
        agents = state.shape[1]
        values = monomials(beside(common, state), self.degree)
        everybody = jnp.arange(agents)
        weights = jnp.asarray(self.own, values.dtype)[h]
        total = (weights[everybody[None], action] * values).sum(-1)
        if self.pairs is None:
            return total
        met, played = others
        rows, width = len(state), state.shape[2]
        shape = (rows, agents, agents)
        both = jnp.concatenate(
            [
                jnp.broadcast_to(common[:, None, None], (*shape, common.shape[1])),
                jnp.broadcast_to(state[:, :, None], (*shape, width)),
                jnp.broadcast_to(met[:, None], (*shape, width)),
            ],
            -1,
        )
        table = jnp.asarray(self.pairs, values.dtype)[h]
        where = (everybody[None, :, None], everybody[None, None], action[:, :, None])
        chosen = table[(*where, played[:, None])]
        return total + (chosen * monomials(both, self.degree)).sum((-1, -2))


@dataclass(frozen=True, eq=False)
class NumericModel:
    """A game fitted to a log whose contexts or local states are numbers; pass it to `solve`.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> rng = np.random.default_rng(0)
    >>> heat, sell = rng.uniform(-1, 1, (2000, 1)), rng.integers(0, 2, (2000, 3))
    >>> earned = sell * (heat - 0.3 * (sell.sum(1, keepdims=True) - sell))
    >>> log = eq.offline.Log(None, sell, earned, covariates=heat)
    >>> model = eq.offline.fit(log, rank=2)
    >>> model.explained.round(6).tolist()
    [1.0, 1.0, 1.0]
    """

    #: Interaction rank of the rewards, 1 or 2.
    rank: int
    #: Fitted rewards of scaled numbers.
    rewards: NumericRewards
    #: Fitted transitions; None without local states.
    transitions: Transitions | None
    #: Behaviour policy, estimated by logistic regression.
    behaviour: Logits
    #: Centres, scales and ranges of the numbers.
    scaling: Scaling
    #: Numbers of agents, steps, contexts, states, actions and columns.
    layout: Layout
    #: (episodes, common): contexts of the log; rows are episodes if there is a single step.
    contexts: np.ndarray
    #: (episodes, horizon, agents, width): local states of the log.
    states: np.ndarray
    #: Number of rows.
    samples: int
    #: (agents,): fraction of the variance of held-out rewards that the fit explains.
    explained: np.ndarray
    #: Largest standard deviation of any agent's rewards.
    reward_scale: float
    #: Rows per coefficient of one agent's reward in one step.
    samples_per_parameter: float
    #: Number of actions of each agent.
    actions: tuple[int, ...]
    #: Names of agents and actions.
    labels: Labels

    def __repr__(self) -> str:
        kind = "none" if self.transitions is None else self.transitions.kind
        return f"NumericModel(rank={self.rank}, transitions={kind}, samples={self.samples})"


def fit_numbers(
    log: Log,
    rank: Any,
    *,
    degree: int = 2,
    transitions: str | Transitions = "auto",
    ridge: Any = "evidence",
    key: Any = 0,
) -> NumericModel:
    """Fit rewards, transitions and the behaviour policy; the arguments are those of `fit`."""
    if log.continuous:
        hint = "use deep.fit for critics of continuous actions"
        raise InputError("log", "discrete actions", "continuous actions", hint)
    if rank not in (1, 2):
        raise InputError("rank", f"1 or 2 for a log with {log.numeric}", repr(rank))
    if log.horizon > 1 and log.episodes is None:
        raise InputError("log", f"episodes, for {log.numeric} and several steps", "none")
    checks.check_count("degree", degree, 0)
    if isinstance(ridge, str) and ridge != "evidence":
        raise ValueError(f"ridge: expected 'evidence' or a number, found {ridge!r}")
    penalty = None
    if not isinstance(ridge, str):
        checks.check_range("ridge", ridge, 0.0, np.inf, high_open=True)
        penalty = float(ridge)
    layout = Layout.of(log)
    kernel = _kernel(log, layout, transitions, key)
    common, local, _ = layout.columns_of(log)
    scaling = Scaling.of(common, local)
    scaled = _scaled(scaling, common, local)
    steps = np.zeros(log.samples, int) if log.steps is None else log.steps
    terms, explained, columns = _fit_rewards(log, layout, scaled, steps, int(rank), degree, penalty)
    order = np.arange(log.samples)
    if log.episodes is not None:
        order = np.lexsort((steps, log.episodes))
    size = (log.samples // log.horizon, log.horizon)
    spread = np.nanstd(np.asarray(log.rewards, np.float64), 0)
    return NumericModel(
        rank=int(rank),
        rewards=terms,
        transitions=kernel,
        behaviour=_fit_behaviour(log, layout, scaled, steps),
        scaling=scaling,
        layout=layout,
        contexts=common[order].reshape(*size, layout.common)[:, 0],
        states=local[order].reshape(*size, layout.agents, layout.width),
        samples=log.samples,
        explained=explained,
        reward_scale=float(spread.max()),
        samples_per_parameter=log.samples / log.horizon / columns,
        actions=log.actions_per_agent,
        labels=log.labels,
    )


def _kernel(log: Log, layout: Layout, given: Any, key: Any) -> Transitions | None:
    if log.states is None:
        return None
    if isinstance(given, Transitions):
        classes.check_layout(given.layout, log)
        return given
    return classes.fit(log, given, key=key)


def _scaled(scaling: Scaling, common: np.ndarray, local: np.ndarray) -> tuple[np.ndarray, ...]:
    """Scaled contexts and local states, as NumPy arrays in double precision."""
    parts = zip((common, local), scaling.centres, scaling.scales, strict=True)
    return tuple((x - np.asarray(c)[None]) / np.asarray(s)[None] for x, c, s in parts)


def _fit_rewards(
    log: Log,
    layout: Layout,
    scaled: tuple[np.ndarray, ...],
    steps: np.ndarray,
    rank: int,
    degree: int,
    ridge: float | None,
) -> tuple[NumericRewards, np.ndarray, int]:
    """Fit every step and agent; also return the explained fractions and the number of columns."""
    agents, actions = layout.agents, layout.actions
    single, double = (count_monomials(layout.common + k * layout.width, degree) for k in (1, 2))
    columns = actions * single + (rank - 1) * (agents - 1) * actions**2 * double
    check_features("degree", degree, columns)
    own = np.zeros((layout.horizon, agents, actions, single))
    pairs = np.zeros((layout.horizon, agents, agents, actions, actions, double))
    left, total = np.zeros(agents), np.zeros(agents)
    for h in range(layout.horizon):
        here = np.flatnonzero(steps == h)
        for i in range(agents):
            rows = here if log.recorded is None else here[log.recorded[here, i]]
            x = _design(scaled, log.actions, rows, i, layout, rank, degree)
            y = np.asarray(log.rewards[rows, i], np.float64)
            held = np.arange(len(rows)) % EVERY == 0
            if (~held).sum() < 2 or not held.any():
                found = f"{len(rows)} for agent {log.labels.player(i)} in step {h}"
                raise InputError("log", "at least three recorded rewards of each agent", found)
            first = ridge_regression(x[~held], y[~held], ridge)
            left[i] += ((y[held] - x[held] @ first) ** 2).sum()
            total[i] += ((y[held] - y[~held].mean()) ** 2).sum()
            weights = ridge_regression(x, y, ridge)
            mine = weights[1 : 1 + actions * single].reshape(actions, single).copy()
            mine[:, 0] += weights[0]
            own[h, i] = mine
            others = [j for j in range(agents) if j != i] if rank == 2 else []
            rest = weights[1 + actions * single :].reshape(len(others), actions, actions, double)
            pairs[h, i, others] = rest
    explained = 1.0 - np.divide(left, total, out=np.ones(agents), where=total > 0.0)
    return NumericRewards(own, pairs if rank == 2 else None, degree), explained, columns


def _design(
    scaled: tuple[np.ndarray, ...],
    actions: np.ndarray,
    rows: np.ndarray,
    agent: int,
    layout: Layout,
    rank: int,
    degree: int,
) -> np.ndarray:
    """(rows, 1 + columns): a constant, own polynomials, and those of all pairs of actions."""
    common, local = (x[rows] for x in scaled)
    hot = (actions[rows][:, :, None] == np.arange(layout.actions)).astype(np.float64)
    own = monomials(np.concatenate([common, local[:, agent]], 1), degree)
    parts = [np.ones((len(rows), 1)), _product(hot[:, agent], own)]
    for j in range(layout.agents) if rank == 2 else ():
        if j != agent:
            numbers = np.concatenate([common, local[:, agent], local[:, j]], 1)
            both = _product(hot[:, agent], hot[:, j])
            parts.append(_product(both, monomials(numbers, degree)))
    return np.concatenate(parts, 1)


def _product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(rows, first * second): products of all columns."""
    return (first[:, :, None] * second[:, None]).reshape(len(first), -1)


def _fit_behaviour(
    log: Log, layout: Layout, scaled: tuple[np.ndarray, ...], steps: np.ndarray
) -> Logits:
    """Logistic regression of every agent's actions in every step on polynomials."""
    counts = np.array(log.actions_per_agent)
    available = np.arange(layout.actions) < counts[:, None]
    common, local = scaled
    columns = count_monomials(layout.common + layout.width, PLAY_DEGREE)
    weights = np.zeros((layout.horizon, layout.agents, layout.actions, columns))
    for h in range(layout.horizon):
        rows = np.flatnonzero(steps == h)
        for i in range(layout.agents):
            x = monomials(np.concatenate([common[rows], local[rows, i]], 1), PLAY_DEGREE)
            found = _logistic(x, log.actions[rows, i].astype(int), int(counts[i]))
            weights[h, i, : counts[i]] = found
    return Logits(weights, available, PLAY_DEGREE)


def _logistic(x: np.ndarray, actions: np.ndarray, count: int) -> np.ndarray:
    """(actions, columns): penalised maximum likelihood."""
    hot = np.eye(count)[actions]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(count, -1)
        logs = log_softmax(x @ weights.T, axis=1)
        slope = (np.exp(logs) - hot).T @ x + PLAY_PENALTY * weights
        value = -(logs * hot).sum() + PLAY_PENALTY / 2 * (weights**2).sum()
        return value / len(x), slope.ravel() / len(x)

    start = np.zeros(count * x.shape[1])
    return minimize(loss, start, jac=True, method="L-BFGS-B").x.reshape(count, -1)
