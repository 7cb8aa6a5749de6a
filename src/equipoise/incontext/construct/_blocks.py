"""Build weight matrices from named coordinates of a residual stream.

A `Layout` assigns coordinates of the stream to every quantity that a block uses. The rows
`layout["x"]` are the linear forms that read the quantity `x`. A weight matrix is a sum of a few
such rows, so that a reader can check it against its formula. A `Blueprint` collects layers as
`Attention` and `MLP` modules of the same model class that learned players use.

All constructions rest on three facts:

- A head multiplies a scalar score by a vector value. Scores are positive parts, so a factor that
  may be negative goes into the value.
- A head with score one adds any linear map of the stream to the stream. It can also clear scratch.
- A factor `sqrt(d)` in the queries cancels the `1 / sqrt(d)` of the paper's scores. The width is
  padded to a square number, which makes this factor an integer, and to one whose root times its
  own rounded reciprocal is one (7 fails in single precision), so that integer scores are exact.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isqrt
from typing import Any

import jax.numpy as jnp
import numpy as np

from equipoise.incontext._model import MLP, Attention, Layer, Scope

Rows = np.ndarray


class Layout:
    """Named coordinates of a residual stream.

    >>> layout = Layout({"one": 1, "x": 2})
    >>> layout.width, layout.used, layout["x"].tolist()
    (4, 3, [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self.used = sum(self.sizes.values())
        root = isqrt(self.used - 1) + 1
        while not _undoes_its_reciprocal(root):
            root += 1
        #: The smallest suitable square number that holds all coordinates.
        self.width = root * root
        ends = np.cumsum(list(self.sizes.values()))
        starts = ends - list(self.sizes.values())
        self.places = {
            name: slice(int(start), int(end))
            for name, start, end in zip(self.sizes, starts, ends, strict=True)
        }

    def __getitem__(self, name: str) -> Rows:
        """Return the rows that read a quantity, (its size, width)."""
        return np.eye(self.width)[self.places[name]]

    def rows(self, names: Iterable[str]) -> Rows:
        """Return the rows that read several quantities, stacked."""
        return np.concatenate([self[name] for name in names])

    def label(self, coordinate: int) -> str:
        """Return the label of a coordinate in figures.

        >>> Layout({"one": 1, "x": 2}).label(2)
        'x[1]'
        """
        for name, place in self.places.items():
            if place.start <= coordinate < place.stop:
                alone = self.sizes[name] == 1
                return name if alone else f"{name}[{coordinate - place.start}]"
        return ""


def _undoes_its_reciprocal(root: int) -> bool:
    """Whether `(root m) (1 / root)` equals `m` for all integers m, in single precision."""
    numbers = np.arange(1, 4097, dtype=np.float32)
    return bool((np.float32(1.0 / root) * (np.float32(root) * numbers) == numbers).all())


@dataclass(frozen=True)
class Head:
    """An attention head, `target += relu(<query h_i, key h_j>) value h_j`; fields (rows, width)."""

    query: Rows
    key: Rows
    value: Rows
    target: Rows


@dataclass(frozen=True)
class Unit:
    """A hidden unit of an MLP, `target += relu(form h)`; both fields are (width,)."""

    form: Rows
    target: Rows


@dataclass(frozen=True)
class Step:
    """A layer and a description of what it does."""

    purpose: str
    layer: Layer


@dataclass
class Blueprint:
    """Layers under construction.

    **Example**

    >>> import jax.numpy as jnp
    >>> plan = Blueprint(Layout({"one": 1, "x": 1, "square": 1}))
    >>> plan.own("square", plan.product("x", "x", "square"))
    >>> plan.steps[0].layer(jnp.array([[1.0, 3.0, 0.0, 0.0]])).tolist()
    [[1.0, 3.0, 9.0, 0.0]]
    """

    layout: Layout
    dtype: Any = np.float32
    steps: list[Step] = field(default_factory=list)

    def own(self, purpose: str, *heads: Head) -> None:
        """Add a self-attention layer, in which every token attends to itself."""
        self._attend(purpose, heads, "own")

    def causal(self, purpose: str, *heads: Head) -> None:
        """Add a masked attention layer over all tokens so far, with weights divided by `i`."""
        self._attend(purpose, heads, "causal")

    def mlp(self, purpose: str, *units: Unit) -> None:
        """Add an MLP layer."""
        first = np.stack([unit.form for unit in units])
        second = np.stack([unit.target for unit in units], 1)
        layer = MLP(self._array(first), self._array(second), None, None, None)
        self.steps.append(Step(purpose, layer))

    def product(self, score: Rows | str, value: Rows | str, target: Rows | str) -> Head:
        """Return a head for `target += relu(score) value` with a scalar score."""
        return Head(*map(self._rows, (score, "one", value, target)))

    def linear(self, value: Rows, target: Rows | str) -> Head:
        """Return a head for `target += value`, whose score is one."""
        return self.product("one", value, target)

    def clear(self, *names: str) -> Head:
        """Return a head that sets quantities to zero."""
        rows = self.layout.rows(names)
        return self.linear(-rows, rows)

    def _rows(self, rows: Rows | str) -> Rows:
        return self.layout[rows] if isinstance(rows, str) else np.atleast_2d(rows)

    def _array(self, values: np.ndarray) -> Any:
        return jnp.asarray(values, self.dtype)

    def _attend(self, purpose: str, heads: tuple[Head, ...], scope: Scope) -> None:
        size = max(len(head.query) for head in heads)
        value_size = max(len(head.value) for head in heads)
        root = float(isqrt(self.layout.width))

        def stack(parts: list[Rows], length: int) -> np.ndarray:
            return np.stack([np.pad(rows, ((0, length - len(rows)), (0, 0))) for rows in parts])

        layer = Attention(
            query=self._array(root * stack([head.query for head in heads], size)),
            key=self._array(stack([head.key for head in heads], size)),
            value=self._array(stack([head.value for head in heads], value_size)),
            output=self._array(
                stack([head.target for head in heads], value_size).transpose(0, 2, 1)
            ),
            norm=None,
            scale=1.0 / root,
            weighing="relu",
            scope=scope,
        )
        self.steps.append(Step(purpose, layer))
