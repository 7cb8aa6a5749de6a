"""Critics that are Gaussian processes: sums of smooth functions of the actions of a few agents.

The similarity (covariance) of two rows is a sum over sets of at most `rank - 1` other agents, with
and without the own agent. A term is the product of its agents' similarities, squared exponentials
of the distance between their actions. Elementary symmetric polynomials compute the sum over all
sets of one size at once (Duvenaud, Nickisch and Rasmussen 2011). The hyperparameters maximise the
evidence, with a weak prior, on a random selection of rows. The rewards of all rows then determine
the function, as a combination of the similarities to some of the rows, the centres.

The posterior variance says how well the log determines the gain of a deviation. Terms without the
own action cancel there.
"""

from collections.abc import Callable
from math import sqrt
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.linalg import cho_solve, cholesky, get_lapack_funcs, solve_triangular
from scipy.optimize import minimize

from equipoise.core import InputError
from equipoise.core.precision import double_precision, single_precision
from equipoise.offline._log import Log
from equipoise.offline.deep._networks import RewardModel
from equipoise.offline.deep._rows import Rows, Sizes, tried_actions
from equipoise.offline.deep._spec import KernelCritic
from equipoise.runs import Run, resumable

#: Largest number of rows that determine the hyperparameters, and of centres.
EVIDENCE_ROWS, CENTRES = 512, 1024
#: Largest number of iterations of the search for hyperparameters.
_ITERATIONS = 60
#: Rows whose similarities are computed at a time.
_BLOCK = 4096
#: Variance added to similarities for numerical stability, in units of the rewards' variance.
_JITTER = 1e-8
#: Correlations of the effects of actions in the two halves of a log; one means no drift.
_KEPT = (1.0, 0.95, 0.9, 0.75, 0.5, 0.25, 0.0)
#: Largest number of rows over which gains from the log's own play are averaged.
OWN_ROWS = 1000
#: Number of draws from the posterior, and largest number of contexts for which there are any.
DRAWS, MOST_CONTEXTS = 2000, 100


class Kind(NamedTuple):
    """The form of similarities."""

    #: Whether terms of all agents are included; otherwise the rank is the length of `with_own`.
    joint: bool
    #: How smooth functions are: one of `FUNCTIONS`.
    functions: str

    @classmethod
    def of(cls, critic: KernelCritic) -> "Kind":
        """Form of a critic's similarities."""
        return cls(critic.rank == "joint", critic.functions)


class Shape(eqx.Module):
    """Hyperparameters of one agent's similarity: logarithms, except for the context.

    Variances are in units of the variance of the agent's rewards. Arrays are those of NumPy or JAX,
    and those of several agents have leading axes.
    """

    #: Distances over which rewards vary, in the own action and in the others' actions.
    own_length: Any
    other_length: Any
    #: Logit of the correlation of rewards in different contexts.
    context: Any
    #: (rank,): variance of the terms with the own agent and d = 0, 1, ... others.
    with_own: Any
    #: (rank,): variance of the terms with d = 0, 1, ... others and without the own agent.
    without: Any
    #: (others,): relevance of each other agent. A term has the product of its agents' as a factor.
    relevance: Any
    noise: Any


class Kernels(RewardModel):
    """A weighted sum of similarities to the centres; see `KernelCritic`."""

    shape: Shape
    #: Agents, the own agent first.
    order: Int[Array, "*axes agents"]
    #: Actions and contexts of the centres.
    centres: Float[Array, "*axes centres agents"]
    where: Int[Array, "*axes centres"]
    coefficients: Float[Array, "*axes centres"]
    kind: "Kind" = eqx.field(static=True)

    def __call__(self, rows: Rows) -> Float[Array, "B"]:
        """Weighted sum for each row."""
        given = (rows.actions[:, self.order], rows.contexts)
        centres = (self.centres[:, self.order], self.where)
        return similarity(self.shape, given, centres, self.kind) @ self.coefficients


def _near(a: Any, b: Any, length: Any, kind: Kind) -> Any:
    """Similarities of actions of one agent."""
    apart = jnp.abs(a[:, None] - b[None]) * jnp.exp(-length)
    if kind.functions == "smooth":
        return jnp.exp(-0.5 * apart**2)
    if kind.functions == "continuous":
        return jnp.exp(-apart)
    return (1.0 + sqrt(3.0) * apart) * jnp.exp(-sqrt(3.0) * apart)


def similarity(shape: Shape, rows: Any, others: Any, kind: Kind) -> Float[Array, "B C"]:
    """Similarities of rows to other rows; both are (actions with the own agent first, contexts)."""
    (x, here), (z, there), joint = rows, others, kind.joint

    own = _near(x[:, 0], z[:, 0], shape.own_length, kind)
    rank = shape.with_own.shape[0]
    sums = (jnp.ones_like(own),) + (jnp.zeros_like(own),) * (0 if joint else rank - 1)

    def add(sums: Any, agent: Any) -> tuple[Any, None]:
        column, beside, relevance = agent
        each = jnp.exp(relevance) * _near(column, beside, shape.other_length, kind)
        if joint:
            return (sums[0] * (1.0 + each),), None
        return (sums[0], *(sums[d] + each * sums[d - 1] for d in range(1, rank))), None

    sums, _ = jax.lax.scan(add, sums, (x[:, 1:].T, z[:, 1:].T, shape.relevance))
    found = sum(
        (jnp.exp(shape.without[d]) + jnp.exp(shape.with_own[d]) * own) * part
        for d, part in enumerate(sums)
    )
    apart = jax.nn.sigmoid(shape.context)
    return found * jnp.where(here[:, None] == there[None], 1.0, apart)


_similarity = eqx.filter_jit(similarity)


@eqx.filter_jit
def _slopes(shape: Shape, rows: Any, kind: Kind, weights: Array) -> Shape:
    """Gradient of the sum of `weights` times the similarities of rows to each other."""
    return jax.vjp(lambda s: similarity(s, rows, rows, kind), shape)[1](weights)[0]


def fit_kernels(
    logs: list[Log], critic: KernelCritic, sizes: Sizes, words: list[int], run: Run | None
) -> tuple[Kernels, np.ndarray, bool]:
    """Return models with axes (trials, agents), their held-out errors, and whether all were fitted.

    Models and errors are those of standardised rewards. Agents that were not reached have the
    initial hyperparameters.
    """
    if sizes.states > 1 or sizes.horizon > 1:
        found = f"{sizes.states} states and {sizes.horizon} steps"
        raise InputError("critic", "a network for a log with local states or steps", found)
    kind = Kind.of(critic)
    orders = 1 if kind.joint else min(int(critic.rank), sizes.agents)
    first, unravel = _prior(orders, sizes.agents - 1)
    every = [(trial, agent) for trial in range(len(logs)) for agent in range(sizes.agents)]

    def advance(points: np.ndarray, step: int, until: int) -> tuple[np.ndarray, dict[str, Any]]:
        points = points.copy()
        for trial, agent in every[step:until]:
            rows, rewards = standardised(logs[trial], agent)
            chosen = np.random.default_rng([*words, trial]).permutation(len(rewards))
            chosen = np.sort(chosen[:EVIDENCE_ROWS])
            given = (rows[0][chosen], rows[1][chosen], rewards[chosen])
            points[trial, agent] = _most_evident(first, unravel, *given, kind)
        return points, {}

    start = np.tile(first[0], (len(logs), sizes.agents, 1))
    reached = resumable(run, start, advance, len(every), name="fitting critics")
    models, errors = [], []
    for trial, agent in every:
        shape = unravel(reached.state[trial, agent])
        found = Posterior(shape, kind, *standardised(logs[trial], agent))
        order = own_first(agent, sizes.agents)
        actions, contexts = found.centres
        parts = (shape, order, actions[:, np.argsort(order)], contexts, found.coefficients)
        models.append(parts)
        errors.append(float((found.residuals**2).mean()))
    axes = (len(logs), sizes.agents)
    with single_precision():
        stacked: Any = jax.tree.map(
            lambda *x: jnp.asarray(np.stack(x).reshape(*axes, *np.shape(x[0]))), *models
        )
        found = Kernels(*stacked, kind=kind)
    return found, np.array(errors).reshape(axes), not reached.stopped


def own_first(agent: int, agents: int) -> np.ndarray:
    """Return the numbers of all agents, this one first.

    >>> own_first(1, 3).tolist()
    [1, 0, 2]
    """
    return np.array([agent, *(j for j in range(agents) if j != agent)], np.int32)


def standardised(log: Log, agent: int) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return the rows (actions with the own agent first, contexts), and standardised rewards."""
    rewards = np.asarray(log.rewards[:, agent], np.float64)
    actions = np.asarray(log.actions, np.float64)[:, own_first(agent, log.agents)]
    scaled = (rewards - rewards.mean()) / max(rewards.std(), 1e-12)
    return (actions, np.asarray(log.contexts, np.int32)), scaled


def _prior(
    orders: int, others: int
) -> tuple[tuple[np.ndarray, np.ndarray], Callable[[np.ndarray], Shape]]:
    """Means, where the search starts, and standard deviations of hyperparameters, as vectors.

    Also returns the function that makes hyperparameters of a vector.
    """

    def shape_of(length: Any, context: Any, terms: Any, relevance: Any, noise: Any) -> Shape:
        single = [np.float64(x) for x in (length, context, noise)]
        parts = [np.full(orders, float(x)) for x in terms]
        each = np.full(others, float(relevance))
        return Shape(single[0], single[0], single[1], parts[0], parts[1], each, single[2])

    each = np.log(2.0 / max(1, others))
    mean = shape_of(np.log(0.7), 0.0, np.log([0.3, 0.1]), each, np.log(0.1))
    leaves, tree = jax.tree.flatten(mean)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]

    def unravel(point: np.ndarray) -> Shape:
        parts = np.split(np.asarray(point, np.float64), ends)
        shaped = [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
        return jax.tree.unflatten(tree, shaped)

    return (_flat(mean), _flat(shape_of(1.0, 2.0, (3.0, 3.0), 3.0, 3.0))), unravel


def _flat(shape: Shape) -> np.ndarray:
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(shape)]).astype(np.float64)


def _most_evident(
    prior: tuple[np.ndarray, np.ndarray],
    unravel: Callable[[np.ndarray], Shape],
    actions: np.ndarray,
    contexts: np.ndarray,
    rewards: np.ndarray,
    kind: Kind,
) -> np.ndarray:
    """Return the hyperparameters with the largest posterior density."""
    mean, spread = prior
    count = len(rewards)
    # The noise has a floor, so that similarities in single precision are exact enough.
    bounds = list(zip(mean - 4.0 * spread, mean + 4.0 * spread, strict=True))
    bounds[-1] = (np.log(1e-4), np.log(3.0))

    (invert,) = get_lapack_funcs(("potri",), (rewards,))

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        shape = jax.tree.map(jnp.float32, unravel(point))
        matrix = np.array(_similarity(shape, rows, rows, kind), np.float64)
        matrix.flat[:: count + 1] += np.exp(point[-1]) + 1e-6 * matrix[0, 0]
        try:
            lower = cholesky(matrix, lower=True)
        except np.linalg.LinAlgError:  # not positive definite, by rounding
            return np.inf, np.zeros_like(point)
        solved = cho_solve((lower, True), rewards)
        half = np.tril(invert(lower, lower=1)[0])
        weights = (half + np.tril(half, -1).T - np.outer(solved, solved)) / 2.0
        slope = _flat(_slopes(shape, rows, kind, jnp.asarray(weights, jnp.float32)))
        slope[-1] = np.exp(point[-1]) * np.trace(weights)
        away = (point - mean) / spread
        value = rewards @ solved / 2.0 + np.log(np.diag(lower)).sum() + away @ away / 2.0
        return value, slope + away / spread

    with single_precision():
        rows = (jnp.asarray(actions, jnp.float32), jnp.asarray(contexts, jnp.int32))
        options = {"maxiter": _ITERATIONS, "ftol": 1e-4}
        return minimize(loss, mean, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x


def _similar(shape: Shape, kind: Kind, rows: Any, others: Any) -> np.ndarray:
    """Similarities in double precision."""
    with double_precision():
        given, one, other = jax.tree.map(jnp.asarray, (shape, rows, others))
        return np.array(_similarity(given, one, other, kind), np.float64)


class Posterior:
    """What rows say about one agent's standardised reward, in double precision.

    Rows are (actions with the own agent first, contexts).
    """

    def __init__(
        self, shape: Shape, kind: Kind, rows: tuple[np.ndarray, np.ndarray], rewards: np.ndarray
    ) -> None:
        self.shape, self.kind, self.noise = shape, kind, float(np.exp(shape.noise))
        chosen = np.linspace(0, len(rewards) - 1, min(len(rewards), CENTRES)).round().astype(int)
        self.centres = (rows[0][chosen], rows[1][chosen])
        among = _similar(self.shape, self.kind, self.centres, self.centres)
        among.flat[:: len(chosen) + 1] += _JITTER * among[0, 0]
        self.lower = cholesky(among, lower=True)
        gram, right = self.noise * np.eye(len(chosen)), np.zeros(len(chosen))
        blocks = [slice(k, k + _BLOCK) for k in range(0, len(rewards), _BLOCK)]
        for block in blocks:
            features = self.features((rows[0][block], rows[1][block]))
            gram += features @ features.T
            right += features @ rewards[block]
        self.factor = cholesky(gram, lower=True)
        self.weights = cho_solve((self.factor, True), right)
        self.coefficients = solve_triangular(self.lower, self.weights, trans=1, lower=True)
        #: Errors of rows predicted from all other rows, and their squares divided by the variances
        #: that they should have.
        self.residuals, self.surprise = np.empty((2, len(rewards)))
        for block in blocks:
            features = self.features((rows[0][block], rows[1][block]))
            seen = solve_triangular(self.factor, features, lower=True)
            left = np.maximum(1.0 - (seen**2).sum(0), 1e-6)
            wrong = rewards[block] - self.weights @ features
            self.residuals[block] = wrong / left
            self.surprise[block] = wrong**2 / (self.noise * left)

    def features(self, rows: Any) -> np.ndarray:
        """(centres, rows): features whose inner products approximate the similarities of rows."""
        return solve_triangular(
            self.lower, _similar(self.shape, self.kind, rows, self.centres).T, lower=True
        )

    def gains(self, deviations: Any, kept: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the rewards of deviations minus those of the rows kept."""
        both = tuple(np.concatenate(pair) for pair in zip(deviations, kept, strict=True))
        count = len(deviations[0])

        def change(array: np.ndarray) -> np.ndarray:
            return array[:count] - array[count:]

        features = change(self.features(both).T).T
        seen = solve_triangular(self.factor, features, lower=True)
        prior = change(change(_similar(self.shape, self.kind, both, both)).T)
        return self.weights @ features, prior - features.T @ features + self.noise * seen.T @ seen

    def own_play_gains(
        self, rows: tuple[np.ndarray, np.ndarray], deviations: np.ndarray, means: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the gains of constant own actions over those of the rows.

        `means` (contexts, rows) are the weights with which gains are averaged over rows. The
        results have an entry for each context and deviation. Terms without the own action cancel,
        and all others are products of the similarity of own actions and one of the others' actions.
        Averages therefore need no similarity of every pair of a row and a deviation.
        """
        alone = eqx.tree_at(
            lambda s: s.without, self.shape, np.full_like(self.shape.without, -np.inf)
        )

        def others(*pair: Any) -> np.ndarray:
            same = [(np.where(np.arange(x.shape[1]) > 0, x, 0.0), where) for x, where in pair]
            return _similar(alone, self.kind, *same)

        def near(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            with double_precision():
                given = (jnp.asarray(a), jnp.asarray(b), jnp.asarray(self.shape.own_length))
                return np.asarray(_near(*given, self.kind), np.float64)

        own, centre, beside = rows[0][:, 0], self.centres[0][:, 0], others(rows, self.centres)
        kept = means @ (near(own, centre) * beside)
        cross = (means @ beside)[:, None] * near(deviations, centre) - kept[:, None]
        features = solve_triangular(self.lower, cross.reshape(-1, len(centre)).T, lower=True)
        seen = solve_triangular(self.factor, features, lower=True)
        among = others(rows, rows)
        part, moved = means @ among, near(deviations, own)
        once = np.einsum("et,dt,ct->cde", means, moved, part, optimize=True)[..., None]
        prior = np.einsum("ce,df->cdef", part @ means.T, near(deviations, deviations))
        prior = prior - once - once.transpose(2, 3, 0, 1)
        prior = prior + (means @ (near(own, own) * among) @ means.T)[:, None, :, None]
        prior = prior.reshape(features.shape[1], -1)
        return self.weights @ features, prior - features.T @ features + self.noise * seen.T @ seen


def gain_draws(
    critics: Any, log: Log, points: np.ndarray, key: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws of every agent's largest gain from the posterior distribution of rewards.

    `points` are (points, contexts, agents). The draws are (points, agents, draws), in the unit of
    rewards and weighted by the frequency of contexts, for deviations that the log shows. They are
    infinite if there are more than `MOST_CONTEXTS` contexts. The second result are draws for the
    log's own play, (2, agents, draws): gains over the actions of its rows, averaged over rows, of
    the deviation with the largest mean and of the best one in each draw.

    Also returns (agents,) by how many standard errors held-out rows are predicted better than by a
    constant.
    """
    contexts = log.contexts_count
    words = np.asarray(jax.random.key_data(key)).ravel().tolist()
    found = np.full((len(points), log.agents, DRAWS), np.inf)
    own_play = np.full((log.agents, 2, DRAWS), np.inf)
    some = np.linspace(0, log.samples - 1, min(log.samples, OWN_ROWS)).round().astype(int)
    means = (np.arange(contexts)[:, None] == log.contexts[some]).astype(np.float64)
    means /= np.maximum(means.sum(1, keepdims=True), 1.0)
    better = np.zeros(log.agents)
    weights = np.bincount(log.contexts, minlength=contexts) / log.samples
    grid = max(9, min(65, 256 // contexts))
    for agent in range(log.agents):
        rows, rewards = standardised(log, agent)
        posterior = Posterior(*_of_agent(critics, agent), rows, rewards)
        less = rewards**2 - posterior.residuals**2
        better[agent] = less.mean() * log.samples**0.5 / max(float(less.std()), 1e-300)
        if contexts > MOST_CONTEXTS:
            continue
        # If rows surprise more than they should, the posterior is too sure of itself.
        doubt = max(1.0, float(posterior.surprise.mean())) ** 0.5
        order = own_first(agent, log.agents)
        where = np.repeat(np.arange(contexts, dtype=np.int32), grid)
        deviations = tried_actions(log, agent, grid)

        for k, point in enumerate(points):
            kept = point[where][:, order]
            tried = kept.copy()
            tried[:, 0] = np.tile(deviations, contexts)
            gains = posterior.gains((tried, where), (kept, where))
            found[k, agent] = _largest(*gains, doubt, weights, [*words, agent])[1]
        played = (rows[0][some], rows[1][some])
        gains = posterior.own_play_gains(played, deviations, means)
        own_play[agent] = _largest(*gains, doubt, weights, [*words, agent])
    unit = critics.scale[0][:, None]
    return found * unit, (own_play * unit[..., None]).swapaxes(0, 1), better


def _largest(
    mean: np.ndarray, covariance: np.ndarray, doubt: float, weights: np.ndarray, seed: list[int]
) -> np.ndarray:
    """(2, draws): gains of the deviation with the largest mean, and largest gains of the draw.

    They are weighted over contexts, and zero where staying is best. Noise raises the latter, so
    that only the former bounds the largest gain from below.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = np.random.default_rng(seed).standard_normal((DRAWS, len(mean)))
    gains = (mean + doubt * normal @ root.T).reshape(DRAWS, len(weights), -1)
    best = mean.reshape(len(weights), -1).argmax(1)
    both = np.stack([gains[:, np.arange(len(weights)), best], gains.max(2)])
    return np.maximum(both, 0.0) @ weights


def drift_of(critics: Any, log: Log) -> tuple[np.ndarray, np.ndarray]:
    """(agents,) each: correlation of the effect of actions in the two halves of the rows; evidence.

    The correlation is the one with the largest evidence, and the evidence is the logarithm of its
    likelihood relative to that of a correlation of one, which means no drift. A linear trend of
    rewards and terms without the own action are ignored: they do not change what deviations gain.
    """
    found, evidence = np.ones(log.agents), np.zeros(log.agents)
    chosen = _some_rows(log)
    late = chosen >= log.samples // 2
    across, time = late[:, None] != late[None], np.linspace(-1.0, 1.0, len(chosen))
    for agent in range(log.agents):
        rows, rewards = _selected(log, agent, chosen)
        rewards = rewards - time * (time @ rewards) / (time @ time)
        shape, kind = _of_agent(critics, agent)
        alone = eqx.tree_at(lambda s: s.without, shape, np.full_like(shape.without, -np.inf))
        whole, own = (_similar(each, kind, rows, rows) for each in (shape, alone))
        likely = [
            _likelihood(whole - (1.0 - kept) * across * own, shape, rewards) for kept in _KEPT
        ]
        found[agent] = _KEPT[int(np.argmax(likely))]
        evidence[agent] = max(likely) - likely[0]
    return found, evidence


def evidence_of(critics: Any, log: Log) -> np.ndarray:
    """(agents,): logarithm of the likelihood of some rows of the log, given the hyperparameters."""
    chosen, found = _some_rows(log), np.zeros(log.agents)
    for agent in range(log.agents):
        rows, rewards = _selected(log, agent, chosen)
        shape, kind = _of_agent(critics, agent)
        found[agent] = _likelihood(_similar(shape, kind, rows, rows), shape, rewards)
    return found


def _some_rows(log: Log) -> np.ndarray:
    return np.linspace(0, log.samples - 1, min(log.samples, EVIDENCE_ROWS)).round().astype(int)


def _selected(log: Log, agent: int, chosen: np.ndarray) -> tuple[Any, np.ndarray]:
    (actions, contexts), rewards = standardised(log, agent)
    return (actions[chosen], contexts[chosen]), rewards[chosen]


def _likelihood(similar: np.ndarray, shape: Shape, rewards: np.ndarray) -> float:
    """Logarithm of the density of rewards, up to a constant."""
    covariance = similar + (np.exp(shape.noise) + 1e-6 * similar[0, 0]) * np.eye(len(rewards))
    lower = cholesky(covariance, lower=True)
    solved = solve_triangular(lower, rewards, lower=True)
    return float(-solved @ solved / 2.0 - np.log(np.diag(lower)).sum())


def _of_agent(critics: Any, agent: int) -> tuple[Shape, Kind]:
    """Hyperparameters of an agent's critic, and the form of its similarities."""
    found = jax.tree.map(lambda x: np.asarray(x[0, agent]), critics.models.shape)
    return found, critics.models.kind
