"""The in-context paper's theory as functions: norm, covering number, bounds, realisability.

Each says what is proven, what is corrected and what is conjectural. `docs/theory/construction.md`
has the arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from equipoise.core import checks
from equipoise.incontext._distance import (
    Realisability,
    hellinger,
    realisability,
    total_variation,
)
from equipoise.incontext._model import Attention, Layer, Transformer

__all__ = [
    "Bound",
    "Realisability",
    "hellinger",
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
]


def norm(model: Transformer) -> float:
    """The norm of Appendix F: the largest of `layer_norms`.

    A definition, computed as stated. The paper's claim that the construction of Theorem 4.1 has
    norm 3 leaves out the `sqrt(d)` that undoes the scores' `1 / sqrt(d)`.

    **Example**

    >>> import equipoise as eq
    >>> built = eq.incontext.construct.omd(actions=3, rounds=50)
    >>> round(eq.incontext.theory.norm(built.model), 1) == round(built.norm, 1)
    True
    """
    return max(layer_norms(model))


def layer_norms(model: Transformer) -> tuple[float, ...]:
    """The norm of each layer of a block, as Appendix F defines it.

    For masked attention the largest operator norm of a query or key matrix, plus the sum of
    those of the value matrices; for self-attention one more, for its output matrix, which is the
    identity; for an MLP the sum of both. Queries count for scores over `sqrt(d)`, whatever scale
    the layer has. Embedding, read-out, biases and normalisation do not count.

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


def log_covering_number(
    model: Transformer, radius: float, *, norm_bound: float | None = None, clip: float = 1.0
) -> float:
    """An estimate of `log ncov(radius)` for the architecture of `model` (Definition 4.2).

    `P L log(1 + max(F, R, L) / radius)`: P free parameters (a block repeated has its own once), L
    layers in all, F the norm's bound (that of the model unless given), R the bound `clip` on the
    stream. The form is proven by Lin et al. (2024, Lemma 16) for transformers that clip their
    stream, up to a constant, taken as one here: compare architectures with it, do not take its
    value for a bound. That repeated blocks count once is our addition (their argument covers it:
    a perturbation of shared weights perturbs every block).

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
    """A bound as a sum of named terms, each without the constant that `O(.)` hides.

    **Example**

    >>> Bound({"start": 0.5, "variance": 0.25}).total
    0.75
    """

    terms: Mapping[str, float]

    @property
    def total(self) -> float:
        """The sum."""
        return float(sum(self.terms.values()))


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
    """Theorem 4.2 term by term, for the expected gap after `rounds` rounds.

    `distance` is `|z* - z_0|` from the first policies to the regularised equilibrium, `log_cover`
    is `log ncov(1 / n)`, `samples` is n, `confidence` is delta. Constants are left out, so that
    only the terms' dependence on their arguments means something.

    As printed, with `corrected=False`, the bound does not hold: the first policies' term comes
    from bounding `(1 - eta eps)^T` by `1 / T`, and it tends to one (`start_factor`). Corrected,
    that term is the true factor times the distance, and no longer vanishes: with the printed
    constants the learner does not move. The terms of imitation bound a squared Hellinger
    distance, of which a policy's error is the square root. What else the printed proof needs is
    granted: Lemmas 6 and 7 of Cai et al., made for an entropic regulariser, are conjectural here.

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
    """Theorem 4.4 term by term; `travel` is the L of Assumption 4.2, other names as above.

    The printed theorem has the errors of Theorem 4.2, corrected in the same way, and one more: its
    last term has `T^-1`, while Lemma C.1, from which it comes, has `(L ln(ST / delta) / T)^(1/3)`
    for the printed `alpha = T^-2/3`, and the power `k / (1 - alpha) = 1` of the middle factor.

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
    """Replace what the printed proofs get wrong."""
    learned = imitation_error(terms.pop("statistics"), terms.pop("realisability"))
    return terms | {"start": start_factor(t) ** 0.5 * distance, "imitation": learned}


def start_factor(rounds: float) -> float:
    """`(1 - eta eps)^T` with the printed `eta = T^-5/3` and `eps = T^-1/3`: about `1 - 1 / T`.

    Proven, by arithmetic. Lemma B.2 bounds it by `1 / T`.

    **Example**

    >>> from equipoise.incontext import theory
    >>> round(theory.start_factor(1000), 4)
    0.999
    """
    return float(np.exp(rounds * np.log1p(-(float(rounds) ** -2.0)))) if rounds > 1 else 0.0


def imitation_error(statistics: float, realisability: float) -> float:
    """The total variation to the expert that Lemma B.1 gives, from its two terms.

    The lemma bounds the expected *squared* Hellinger distance, by `statistics + realisability`
    up to a constant; total variation is at most the root of it. The proof of Theorem 4.2 takes
    the square itself. Proven for log-likelihood realisability; for that of Definition 4.1, in
    total variation, the lemma's step from one to the other does not hold (a ratio of
    probabilities can be large where their difference is small), so that it is conjectural.

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
    """A bound on the gap of players who are close to an expert: what Theorem 4.2 rests on.

    `gap(x, y) <= gap(x_E, y_E) + TV(x, x_E) + TV(y, y_E)` for payoffs in [0, 1]: proven (a payoff
    vector in [0, 1] changes by at most the total variation, for each player's best response). The
    paper has `|A|_2 (|x - x_E|_2 + |y - y_E|_2)`, which is weaker: the norm can be A.

    **Example**

    >>> from equipoise.incontext import theory
    >>> round(theory.transferred_gap(0.05, 0.01, 0.02), 6)
    0.08
    """
    return expert_gap + row_distance + column_distance
