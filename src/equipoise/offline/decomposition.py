"""The standardised decomposition of Lemma 3, and a way to measure interaction rank.

For independent `y_j ~ p_j(. | x)`, a function `f(x, y_1, ..., y_W)` has exactly one decomposition
`f = sum_S g_S(x, y_S)` over the subsets S of {1..W} in which every `g_S` has mean zero over each
of its own `y_j`. This is the functional analysis of variance, `g_S = sum_{U <= S} (-1)^{|S| - |U|}
E[f | x, y_U]`. The terms are orthogonal, so their mean squares add up to the mean square of f. A
function has interaction rank K if all terms of K or more of the `y_j` vanish.

In a game, x is the context and an agent's own move, and `y_j` are the moves of the other agents.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments

__all__ = ["Decomposition", "decompose", "interaction_rank"]


@dataclass(frozen=True)
class Decomposition:
    """The terms of a table, one for each subset of its inputs, and the input distributions.

    **Example**

    >>> import numpy as np
    >>> from equipoise.offline import decomposition
    >>> parts = decomposition.decompose(np.array([[0.0, 1.0], [1.0, 4.0]]), ["uniform"] * 2)
    >>> parts.terms[0, 1].tolist(), parts.rank()
    ([[0.5, -0.5], [-0.5, 0.5]], 3)
    """

    #: Maps each subset of the inputs (ascending) to its term, of shape (*x, inputs of the subset).
    terms: dict[tuple[int, ...], np.ndarray]
    #: One array of shape (*x, size) for each input.
    distributions: tuple[np.ndarray, ...]

    @property
    def x_shape(self) -> tuple[int, ...]:
        """Shape of the axes that are not decomposed."""
        return self.terms[()].shape

    def mean_squares(self) -> dict[tuple[int, ...], np.ndarray]:
        """E[g_S^2 | x] for every subset; they add up to E[f^2 | x]."""
        means = {}
        for subset, term in self.terms.items():
            values = term**2
            for j in reversed(subset):
                values = _average(values, self.distributions[j], values.ndim - 1)
            means[subset] = values
        return means

    def rank(self, tolerance: float = 1e-9) -> int:
        """Interaction rank: one plus the size of the largest subset with a term above tolerance.

        The tolerance is relative to the largest entry of any term.
        """
        scale = max(float(np.abs(term).max()) for term in self.terms.values())
        alive = [len(s) for s, term in self.terms.items() if np.abs(term).max() > tolerance * scale]
        return 1 + max(alive, default=0)

    def reconstruct(self, rank: int | None = None) -> np.ndarray:
        """Sum all terms, or those of up to the given interaction rank."""
        sizes = tuple(d.shape[-1] for d in self.distributions)
        total, inputs = np.zeros(self.x_shape + sizes), range(len(sizes))
        for subset, term in self.terms.items():
            if rank is None or len(subset) < rank:
                missing = [len(self.x_shape) + j for j in inputs if j not in subset]
                total = total + np.expand_dims(term, missing)
        return total


@named_arguments
def decompose(
    function: Any | Callable[..., Any],
    distributions: Sequence[Any],
    *,
    x_shape: tuple[int, ...] | None = None,
) -> Decomposition:
    """Decompose a table, or a function of whole numbers, under a product distribution (Lemma 3).

    Args:
        function: A table of shape (*x, size_1, ..., size_W), or a function that takes one index
            array per axis and returns the values.
        distributions: A distribution of shape (size_j,) or (*x, size_j) for each input, or
            "uniform" if a table is given, which determines the size.
        x_shape: Shape of the axes x of a function. For a table they follow from its shape.

    **Example**

    >>> import numpy as np
    >>> from equipoise.offline import decomposition
    >>> half, skewed = np.array([0.5, 0.5]), np.array([0.2, 0.3, 0.5])
    >>> parts = decomposition.decompose(lambda y, z: y + z**2.0, [half, skewed])
    >>> parts.rank(), bool(np.allclose(parts.terms[(0,)], [-0.5, 0.5]))
    (2, True)
    """
    inputs = len(distributions)
    if callable(function):
        sizes = tuple(np.shape(d)[-1] for d in distributions)
        function = function(*np.indices((x_shape or ()) + sizes, sparse=False))
    table = checks.as_float_array("function", function)
    checks.check_finite("function", table)
    x_axes = table.ndim - inputs
    if x_axes < 0 or (x_shape is not None and table.shape[:x_axes] != tuple(x_shape)):
        raise InputError(
            "function",
            (
                f"axes (*x, one for each of {inputs} inputs), with x of shape "
                f"{('any' if x_shape is None else tuple(x_shape))}"
            ),
            table.shape,
        )
    measures = tuple(
        _distribution(j, given, table.shape[:x_axes], table.shape[x_axes + j])
        for j, given in enumerate(distributions)
    )
    terms: dict[tuple[int, ...], np.ndarray] = {(): table}
    for j, measure in enumerate(measures):
        split: dict[tuple[int, ...], np.ndarray] = {}
        for subset, rest in terms.items():
            # Axes: the inputs chosen so far, then input j, then the remaining inputs.
            axis = x_axes + len(subset)
            mean = _average(rest, measure, axis)
            split[subset] = mean
            split[(*subset, j)] = rest - np.expand_dims(mean, axis)
        terms = split
    ordered = sorted(terms.items(), key=lambda item: (len(item[0]), item[0]))
    return Decomposition(dict(ordered), measures)


@named_arguments
def interaction_rank(table: Any, *, x_axes: int = 0, tolerance: float = 1e-9) -> int:
    """Smallest K for which a table has interaction rank K (Definition 2).

    It is found by mixed differences from the first entry of every axis, which is the decomposition
    under point masses. No other distribution enters, so moves that are never played count too.

    **Example**

    >>> import numpy as np
    >>> from equipoise.offline import decomposition
    >>> y = np.arange(3.0)
    >>> decomposition.interaction_rank(y[:, None, None] + y[:, None] * y)
    3
    """
    table = checks.as_float_array("table", table)
    points = [np.eye(size)[0] for size in table.shape[x_axes:]]
    return decompose(table, points).rank(tolerance)


def _distribution(j: int, given: Any, x_shape: tuple[int, ...], size: int) -> np.ndarray:
    name, shape = f"distributions[{j}]", (*x_shape, size)
    if isinstance(given, str):
        if given != "uniform":
            raise InputError(name, "probabilities or 'uniform'", repr(given))
        return np.full(shape, 1.0 / size)
    array = checks.as_float_array(name, given)
    if array.shape not in ((size,), shape):
        raise InputError(name, f"shape {(size,)} or {shape}", array.shape)
    return np.broadcast_to(checks.check_probabilities(name, array), shape)


def _average(values: np.ndarray, measure: np.ndarray, axis: int) -> np.ndarray:
    """Mean over one axis, whose distribution may depend on x, the first axes."""
    x_axes = measure.ndim - 1
    shape = measure.shape[:x_axes] + (1,) * (axis - x_axes) + measure.shape[x_axes:]
    shape += (1,) * (values.ndim - axis - 1)
    return (values * measure.reshape(shape)).sum(axis)
