"""The in-context paper's theory as functions: norm, covering number, bounds, realisability.

Each docstring says what is proven, what is corrected and what is conjectural. The proofs are in
`docs/theory/construction.md`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.core.precision import single_precision
from equipoise.core.randomness import as_key
from equipoise.core.streams import game_words
from equipoise.dynamics import OMD, Bandit, Learner, MarkovBandit, MarkovOMD, Nothing, Spec, Trace
from equipoise.dynamics.loop import Tables, remember, seat
from equipoise.games import MarkovGame, MatrixGame
from equipoise.incontext import _contexts
from equipoise.incontext._contexts import Context, visited
from equipoise.incontext._model import Attention, Layer, Transformer
from equipoise.incontext._players import Players, check_players, pick
from equipoise.incontext._travel import hitting_times, travel_time

__all__ = [
    "Bound",
    "Realisability",
    "distance",
    "hellinger",
    "hitting_times",
    "imitation_error",
    "layer_norms",
    "log_covering_number",
    "markov_bound",
    "matrix_bound",
    "norm",
    "realisability",
    "start_factor",
    "total_variation",
    "transferred_gap",
    "travel_time",
]


def norm(model: Transformer) -> float:
    """Return the norm of Appendix F, the largest of `layer_norms`.

    The norm is computed as the paper defines it. The paper's claim that the construction of
    Theorem 4.1 has norm 3 omits the factor `sqrt(d)` that cancels the `1 / sqrt(d)` of the scores.

    **Example**

    >>> import equipoise as eq
    >>> built = eq.incontext.construct.omd(actions=3, rounds=50)
    >>> round(eq.incontext.theory.norm(built.model), 1) == round(built.norm, 1)
    True
    """
    return max(layer_norms(model))


def layer_norms(model: Transformer) -> tuple[float, ...]:
    """Return the norm of each layer of a block, as Appendix F defines it.

    For masked attention the norm is the largest operator norm of a query or key matrix, plus the
    sum of the operator norms of the value matrices. For self-attention it is larger by one, for
    the output matrix, which is the identity. For an MLP it is the sum of the norms of both
    matrices. Queries are rescaled to scores divided by `sqrt(d)`, whatever scale the layer has.
    Embedding, read-out, biases and normalisation do not count.

    **Example**

    >>> import equipoise as eq
    >>> built = eq.incontext.construct.omd(actions=2, rounds=3)
    >>> len(eq.incontext.theory.layer_norms(built.model)) == built.size.layers
    True
    """
    return tuple(_layer_norm(layer, model.width) for layer in model.layers)


def _layer_norm(layer: Layer, width: int) -> float:
    if not isinstance(layer, Attention):
        return _operator_norm(layer.first) + _operator_norm(layer.second)
    rescale = layer.scale * width**0.5
    looks = [rescale * _operator_norm(query) for query in layer.query]
    looks += [_operator_norm(key) for key in layer.key]
    shared = len(layer.query) // len(layer.value)  # heads may share keys and values
    values = [
        _operator_norm(np.asarray(output, float) @ np.asarray(layer.value[m // shared], float))
        for m, output in enumerate(layer.output)
    ]
    return max(looks) + sum(values) + (1.0 if layer.scope == "own" else 0.0)


def _operator_norm(matrix: object) -> float:
    return float(np.linalg.norm(np.asarray(matrix, float), 2))


@named_arguments
def log_covering_number(
    model: Transformer, radius: float, *, norm_bound: float | None = None, clip: float = 1.0
) -> float:
    """Estimate `log ncov(radius)` for the architecture of `model` (Definition 4.2).

    The estimate is `P L log(1 + max(F, R, L) / radius)` with P free parameters (those of a repeated
    block count once), L layers in total, the bound F on the norm (that of the model unless given)
    and the bound R (`clip`) on the residual stream. Lin et al. (2024, Lemma 16) prove this form
    for transformers that clip their stream, up to a constant, which is taken as one here. Use the
    estimate to compare architectures; its value is not a bound. Counting repeated blocks once is
    our addition. Their argument covers it: a perturbation of shared weights perturbs every block.

    **Example**

    >>> import equipoise as eq
    >>> small, large = (eq.incontext.construct.omd(actions=a, rounds=8).model for a in (2, 5))
    >>> cover = eq.incontext.theory.log_covering_number
    >>> cover(small, 0.1) < cover(large, 0.1) and cover(small, 0.01) > cover(small, 0.1)
    True
    """
    checks.check_range("radius", radius, 0.0, float("inf"), low_open=True)
    bound = norm(model) if norm_bound is None else norm_bound
    layers = len(model.layers) * model.repeats
    return model.parameters * layers * float(np.log1p(max(bound, clip, layers) / radius))


@dataclass(frozen=True)
class Bound:
    """A bound as a sum of named terms, each without the constant hidden in `O(.)`.

    **Example**

    >>> Bound({"start": 0.5, "variance": 0.25}).total
    0.75
    """

    #: Value of each term, by name.
    terms: Mapping[str, float]

    @property
    def total(self) -> float:
        """Sum of all terms."""
        return float(sum(self.terms.values()))


@named_arguments
def matrix_bound(
    rounds: float,
    actions: int,
    *,
    distance: float,
    realisability: float,
    log_cover: float,
    samples: float,
    confidence: float = 0.05,
    corrected: bool = True,
) -> Bound:
    """Return the terms of Theorem 4.2, a bound on the expected gap after `rounds` rounds.

    `distance` is `|z* - z_0|` from the first policies to the regularised equilibrium, `log_cover`
    is `log ncov(1 / n)`, `samples` is n and `confidence` is delta. Constants are omitted, so only
    the dependence of the terms on their arguments is meaningful.

    As printed (`corrected=False`) the bound does not hold: the term of the first policies comes
    from bounding `(1 - eta eps)^T` by `1 / T`, although this power tends to one (`start_factor`).
    The corrected term is the true factor times the distance. It does not vanish: with the printed
    constants the learner does not move. The imitation terms bound a squared Hellinger distance,
    and the error of a policy is its square root. Everything else that the printed proof needs is
    assumed: Lemmas 6 and 7 of Cai et al. are for an entropic regulariser and conjectural here.

    **Example**

    >>> from equipoise.incontext import theory
    >>> known = dict(distance=1.0, realisability=1e-6, log_cover=100.0, samples=1e6)
    >>> printed = theory.matrix_bound(10_000, 3, **known, corrected=False)
    >>> corrected = theory.matrix_bound(10_000, 3, **known)
    >>> round(printed.terms["start"], 3), round(corrected.terms["start"], 3)
    (0.01, 1.0)
    """
    t, statistics = _common(rounds, actions, log_cover, samples, confidence)
    terms = {
        "start": t**-0.5 * distance**2,
        "variance": actions * t ** (-1 / 6),
        "confidence": float(np.sqrt(np.log(actions * t / confidence))) * t ** (-7 / 12),
        "approximation": float(np.sqrt(realisability * t)),
        "statistics": statistics,
        "realisability": realisability,
    }
    return Bound(_correct(terms, t, distance) if corrected else terms)


@named_arguments
def markov_bound(
    rounds: float,
    actions: int,
    states: int,
    *,
    discount: float,
    travel: float,
    distance: float,
    realisability: float,
    log_cover: float,
    samples: float,
    confidence: float = 0.05,
    corrected: bool = True,
) -> Bound:
    """Return the terms of Theorem 4.4, the bound for Markov games.

    `travel` is the L of Assumption 4.2, which `travel_time` computes; the other arguments are those
    of `matrix_bound`. The printed theorem has the errors of Theorem 4.2, corrected in the same way,
    and one more: its last term has `T^-1`, while Lemma C.1, from which it comes, has
    `(L ln(ST / delta) / T)^(1/3)` for the printed `alpha = T^-2/3`, and the power
    `k / (1 - alpha) = 1` of the middle factor.

    **Example**

    >>> from equipoise.incontext import theory
    >>> known = dict(discount=0.5, travel=2.0, distance=1.0, realisability=1e-6,
    ...     log_cover=100.0, samples=1e6)
    >>> printed = theory.markov_bound(1e6, 3, 2, **known, corrected=False)
    >>> printed.terms["value"] < theory.markov_bound(1e6, 3, 2, **known).terms["value"]
    True
    """
    checks.check_range("discount", discount, 0.0, 1.0, high_open=True)
    checks.check_count("states", states)
    t, statistics = _common(rounds, actions, log_cover, samples, confidence)
    horizon = 1.0 / (1.0 - discount)
    visits = travel * np.log(states * t / confidence)
    middle = visits * np.log(t * horizon) * horizon
    scale = actions * np.log(states * actions * t / confidence) ** 3 * horizon**3
    rate = (visits / t) ** (1 / 3) if corrected else travel * (visits / travel) ** (1 / 3) / t
    terms = {
        "start": float(np.sqrt(travel)) * t**-0.25 * distance,
        "variance": actions * travel * t ** (-1 / 6),
        "approximation": float(np.sqrt(realisability * t)),
        "statistics": statistics,
        "realisability": realisability,
        "value": float(scale * middle * rate),
    }
    return Bound(_correct(terms, t, distance) if corrected else terms)


def _common(
    rounds: float, actions: int, log_cover: float, samples: float, confidence: float
) -> tuple[float, float]:
    checks.check_range("rounds", rounds, 1.0, float("inf"))
    checks.check_count("actions", actions, at_least=2)
    checks.check_range("samples", samples, 0.0, float("inf"), low_open=True)
    checks.check_range("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    return float(rounds), (log_cover - float(np.log(confidence))) / samples


def _correct(terms: dict[str, float], t: float, distance: float) -> dict[str, float]:
    """Replace the terms that are wrong in the printed proofs."""
    learned = imitation_error(terms.pop("statistics"), terms.pop("realisability"))
    return terms | {"start": start_factor(t) ** 0.5 * distance, "imitation": learned}


def start_factor(rounds: float) -> float:
    """Return `(1 - eta eps)^T` for the printed `eta = T^-5/3`, `eps = T^-1/3`: about `1 - 1 / T`.

    This follows by arithmetic. Lemma B.2 claims the bound `1 / T`.

    **Example**

    >>> from equipoise.incontext import theory
    >>> round(theory.start_factor(1000), 4)
    0.999
    """
    return float(np.exp(rounds * np.log1p(-(float(rounds) ** -2.0)))) if rounds > 1 else 0.0


def imitation_error(statistics: float, realisability: float) -> float:
    """Bound the total-variation distance to the expert by the two terms of Lemma B.1.

    The lemma bounds the expected *squared* Hellinger distance by `statistics + realisability`, up
    to a constant; the total variation is at most its square root. The proof of Theorem 4.2 uses
    the square itself. The bound is proven for log-likelihood realisability. It does not follow from
    Definition 4.1, which measures total variation: a ratio of probabilities can be large where
    their difference is small, and for a class of two policies the lemma is false. For the
    transformers of Theorem 4.1 it is open.

    **Example**

    >>> from equipoise.incontext import theory
    >>> round(theory.imitation_error(0.0003, 0.0001), 3)
    0.02
    """
    return float(np.sqrt(statistics + realisability))


def transferred_gap(
    expert_gap: float | np.ndarray,
    row_distance: float | np.ndarray,
    column_distance: float | np.ndarray,
) -> float | np.ndarray:
    """Upper bound on the gap of players that are close to an expert, as used by Theorem 4.2.

    `gap(x, y) <= gap(x_E, y_E) + TV(x, x_E) + TV(y, y_E)` for payoffs in [0, 1]. This is proven: a
    payoff vector in [0, 1] changes by at most the total variation, for each player's best response.
    The paper has `|A|_2 (|x - x_E|_2 + |y - y_E|_2)`, which is weaker: the norm can be A.

    **Example**

    >>> from equipoise.incontext import theory
    >>> round(theory.transferred_gap(0.05, 0.01, 0.02), 6)
    0.08
    """
    return expert_gap + row_distance + column_distance


@named_arguments
def distance(trace: Trace, learner: Learner | None = None) -> np.ndarray:
    """(..., rounds, 2): total-variation distance to a learner on the same history, in each round.

    The learner is updated with the actions, rewards (and states) that a player saw before a round.
    Its policy is then compared with the player's policy before exploration, for the row and the
    column player, and in Markov games at the state of the round. The default learner is mirror
    descent, `OMD()` or `MarkovOMD()`. The seat of an opponent is compared like any other.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(8, key=0)
    >>> trace = eq.play(games, eq.incontext.load("iid3"), rounds=64, key=1)
    >>> eq.incontext.distance(trace).shape
    (8, 64, 2)
    >>> itself = eq.play(games, eq.incontext.load("iid3"), eq.dynamics.OMD(), rounds=64, key=1)
    >>> bool(eq.incontext.distance(itself)[..., 1].max() < 1e-5)
    True
    """
    games, history = trace.games, trace.history
    if history is None:
        raise InputError("trace", "a trace of play(..., history=True)", "a trace without history")
    matrix = isinstance(games, MatrixGame)
    if learner is None:
        learner = OMD() if matrix else MarkovOMD()
    sees = Bandit if matrix else MarkovBandit
    if not isinstance(learner, Learner) or learner.sees is not sees:
        kind = "matrix" if matrix else "Markov"
        expected = f"a learner of {kind} games that sees {sees.__name__}"
        raise InputError("learner", expected, type(learner).__name__)
    more = (None, 0.0) if matrix else (games.states, games.discount)
    specs = Spec(games.actions[0], *more), Spec(games.actions[1], *more)
    with single_precision():
        context = Context.of_history(replace(history, policies=history.held))
        followed = _contexts.compiled_follow(learner, context, specs)
        theirs = np.asarray(visited(followed[:, :, :-1], context.states))
    apart = np.moveaxis(total_variation(theirs, np.asarray(context.policies)), 0, -1)
    return apart.astype(np.float64).reshape(*history.rewards.shape, 2)


def total_variation(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the total-variation distance `sum |p - q| / 2` over the last axis.

    **Example**

    >>> import numpy as np
    >>> from equipoise.incontext import theory
    >>> float(theory.total_variation(np.array([0.5, 0.5]), np.array([1.0, 0.0])))
    0.5
    """
    return np.abs(np.asarray(p) - np.asarray(q)).sum(-1) / 2.0


def hellinger(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the Hellinger distance `sqrt(sum (sqrt p - sqrt q)^2 / 2)` over the last axis.

    It lies in [0, 1] and is at most sqrt(TV). The paper's `D_H` in Lemma B.1 is twice its square.

    **Example**

    >>> import numpy as np
    >>> from equipoise.incontext import theory
    >>> float(theory.hellinger(np.array([0.0, 1.0]), np.array([1.0, 0.0])))
    1.0
    """
    roots = np.sqrt(np.maximum(p, 0.0)) - np.sqrt(np.maximum(q, 0.0))
    return np.sqrt((roots**2).sum(-1) / 2.0)


@dataclass(frozen=True)
class Realisability:
    """Distances between two players before every round and after the last: (games, 2, records).

    **Example**

    >>> import numpy as np
    >>> Realisability(np.full((4, 2, 9), 0.25), np.full((4, 2, 9), 0.5)).epsilon
    0.25
    """

    #: Total-variation distances.
    total_variation: np.ndarray
    #: Hellinger distances.
    hellinger: np.ndarray

    @property
    def epsilon(self) -> float:
        """Epsilon of Definition 4.1: the maximum over rounds of the mean over games."""
        return float(self.total_variation.mean((0, 1)).max())


@named_arguments
def realisability(
    expert: Learner | Players,
    model: Learner | Players,
    games: MatrixGame | MarkovGame,
    *,
    rounds: int,
    key: Any,
    contexts: Learner | Players | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Realisability:
    """Measure Definition 4.1 between any two players: learned, hand-built, or learners.

    Both players see the same histories, and the policies they would then play are compared; in
    Markov games, at the current state. The histories come from self-play of `contexts` (the expert
    unless given). Rewards are first scaled from `reward_range` to [0, 1]. The computation uses
    single precision. The result is a measurement with the sampling error of a mean over games; the
    definition asks for its expectation.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=2).sample(4, key=0)
    >>> built = eq.incontext.construct.omd(actions=2, rounds=10).players
    >>> omd = eq.dynamics.OMD.vanishing()
    >>> eq.incontext.theory.realisability(omd, built, games, rounds=10, key=1).epsilon < 1e-5
    True
    """
    rounds, written_by = checks.check_count("rounds", rounds), contexts or expert
    for name, who in (("expert", expert), ("model", model), ("contexts", written_by)):
        if isinstance(who, Players):
            check_players(who, games)
        elif not isinstance(who, Learner) or who.sees not in (Bandit, MarkovBandit, Nothing):
            expected = "Players or a Learner that sees only its own rewards"
            raise InputError(name, expected, type(who).__name__)
    count = int(np.prod(games.batch_shape, dtype=int))
    words = game_words(jax.random.split(as_key(key), count))
    with single_precision():
        tables = Tables.of(games, reward_range).on_device(np.arange(count))
        context = _write(written_by, tables, jnp.asarray(words), rounds)
        p, q = (np.asarray(_read(who, tables, context), float) for who in (expert, model))
    return Realisability(
        np.moveaxis(total_variation(p, q), 0, 1), np.moveaxis(hellinger(p, q), 0, 1)
    )


@eqx.filter_jit
def _write(who: Learner | Players, tables: Tables, words: jax.Array, rounds: int) -> Context:
    """Return histories of a player in self-play."""
    if isinstance(who, Players):
        seats = seat(*who.learners(exploration=0.0, precision="float32"))
    else:
        seats = seat(who, who)
    with jax.numpy_rank_promotion("allow"):  # learners broadcast over the batch
        return Context.of(remember(tables, seats, words, rounds=rounds))


@eqx.filter_jit
def _read(who: Learner | Players, tables: Tables, context: Context) -> jax.Array:
    """(2, batch, records, actions): policies before every round and after the last."""
    if not isinstance(who, Players):
        return visited(_contexts.follow(who, context, tables.specs()), context.states)
    found = _contexts.policies_after(who, pick(who.models, 0), context)
    return visited(jnp.stack(found), context.states)
