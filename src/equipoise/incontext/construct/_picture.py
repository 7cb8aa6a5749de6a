"""Figures of hand-built weights: what each layer of a block reads and writes, and its matrices."""

from typing import Any

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.incontext._model import Attention, Layer
from equipoise.incontext.construct._hand_built import HandBuilt

#: Uses of a coordinate in a layer: read for a score, read for a value, written.
SCORED, ADDED, WRITTEN = 1, 2, 4
COLOURS = {SCORED: "#4c78a8", ADDED: "#72b7b2", SCORED | ADDED: "#2f5d8a"}


@named_arguments
def picture(built: HandBuilt, layer: int | None = None) -> Any:
    """Draw a block layer by layer, or the weight matrices of one layer, as a Matplotlib figure.

    In the chart of a block, every row is a layer and every column is a named part of the residual
    stream. A dark square is read for a score, a light square is read for a value or a hidden unit,
    and a square with a red frame is written. The matrices of a layer have the coordinates of the
    stream on their axes.

    **Example**

    >>> import equipoise as eq
    >>> built = eq.incontext.construct.omd(actions=2, rounds=3)
    >>> len(eq.incontext.construct.picture(built).axes)
    1
    >>> len(eq.incontext.construct.picture(built, layer=0).axes)  # query, key, value of one head
    3
    """
    from matplotlib.figure import Figure

    if layer is None:
        names, rows = list(built.layout.sizes), len(built.purposes)
        figure = Figure(figsize=(5.5 + 0.24 * len(names), 1.4 + 0.2 * rows), layout="constrained")
        _sheet(figure.add_subplot(), built, names)
        return figure
    layers = built.model.layers
    if not 0 <= checks.check_count("layer", layer, at_least=0) < len(layers):
        raise InputError("layer", f"a number below {len(layers)}", layer)
    pictures = _matrices(layers[layer])
    rows = -(-len(pictures) // 3)
    height = sum(
        0.75 + 0.2 * max(len(_used(matrix)[0]) for _, matrix in pictures[3 * i : 3 * i + 3])
        for i in range(rows)
    )
    figure = Figure(figsize=(7.5, 0.4 + height), layout="constrained")
    for i, (name, matrix) in enumerate(pictures):
        _matrix(figure.add_subplot(rows, 3, i + 1), built, name, matrix)
    figure.suptitle(f"layer {layer}: {built.purposes[layer]}", fontsize=8)
    return figure


def _matrices(layer: Layer) -> list[tuple[str, np.ndarray]]:
    """Return weights by name; value and second matrices as maps of the stream to itself."""
    if not isinstance(layer, Attention):
        return [("first", np.asarray(layer.first)), ("second", np.asarray(layer.second))]
    found = []
    for m in range(len(layer.query)):
        found.append((f"head {m}: query", np.asarray(layer.query[m])))
        found.append((f"head {m}: key", np.asarray(layer.key[m])))
        value = np.asarray(layer.output[m]) @ np.asarray(layer.value[m])
        found.append((f"head {m}: value", value))
    return found


def _used(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of nonzero rows and columns."""
    return np.flatnonzero(np.abs(matrix).max(1)), np.flatnonzero(np.abs(matrix).max(0))


def _matrix(axes: Any, built: HandBuilt, name: str, matrix: np.ndarray) -> None:
    """Draw one matrix without its zero rows and columns, with its entries and labels."""
    rows, columns = _used(matrix)
    part = matrix[np.ix_(rows, columns)]
    most = np.abs(part).max() if part.size else 1.0
    axes.imshow(part, cmap="RdBu_r", vmin=-2 * most, vmax=2 * most, aspect="auto")
    for (i, j), weight in np.ndenumerate(part):
        if weight:
            axes.text(j, i, f"{weight:.3g}", ha="center", va="center", fontsize=5)
    width = built.layout.width
    across, down = matrix.shape[1] == width, matrix.shape[0] == width
    label = built.layout.label
    axes.set_xticks(
        range(len(columns)), [label(int(c)) if across else f"unit {c}" for c in columns]
    )
    axes.set_yticks(range(len(rows)), [label(int(r)) if down else "" for r in rows])
    axes.tick_params(labelsize=5, length=0)
    axes.tick_params(axis="x", rotation=90)
    axes.set_title(name, fontsize=7)


def _use(layer: Layer) -> np.ndarray:
    """(width,): uses of each coordinate, as a sum of the constants above."""

    def touched(array: Any, axis: int) -> np.ndarray:
        moved = np.moveaxis(np.asarray(array), axis, -1)
        return (moved.reshape(-1, moved.shape[-1]) != 0).any(0)

    if not isinstance(layer, Attention):
        return ADDED * touched(layer.first, 1) + WRITTEN * touched(layer.second, 0)
    scored = touched(layer.query, 2) | touched(layer.key, 2)
    return SCORED * scored + ADDED * touched(layer.value, 2) + WRITTEN * touched(layer.output, 1)


def _sheet(axes: Any, built: HandBuilt, names: list[str]) -> None:
    from matplotlib.patches import Rectangle

    for row, layer in enumerate(built.model.layers):
        use = _use(layer)
        for column, name in enumerate(names):
            part = int(np.bitwise_or.reduce(use[built.layout.places[name]]))
            read, place = part & (SCORED | ADDED), (column - 0.42, row - 0.42)
            if read:
                axes.add_patch(Rectangle(place, 0.84, 0.84, color=COLOURS[read], lw=0))
            if part & WRITTEN:
                axes.add_patch(Rectangle(place, 0.84, 0.84, fill=False, ec="#e45756", lw=1.6))
    names_of = {"causal": "attention", "own": "self-attention"}
    kinds = [names_of.get(getattr(layer, "scope", ""), "MLP") for layer in built.model.layers]
    labels = [f"{what}   [{kind}]" for what, kind in zip(built.purposes, kinds, strict=True)]
    axes.set(xlim=(-0.6, len(names) - 0.4), ylim=(len(labels) - 0.4, -0.6))
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
