"""Pictures of hand-built weights: a block as a sheet of what is read and written, and matrices."""

from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.incontext._model import Attention, Layer
from equipoise.incontext.construct._hand_built import HandBuilt

#: How a coordinate takes part in a layer: compared or multiplied by, added from, added to.
SCORED, ADDED, WRITTEN = 1, 2, 4
COLOURS = {SCORED: "#4c78a8", ADDED: "#72b7b2", SCORED | ADDED: "#2f5d8a"}


def picture(built: HandBuilt, layer: int | None = None) -> Any:
    """Draw a block layer by layer, or the weight matrices of one layer; a Matplotlib figure.

    In the sheet of a block every row is a layer and every column a named part of the residual
    stream: dark squares are read for a score, light ones for a value or a hidden unit, and a red
    frame is written. The matrices of a layer have the stream's coordinates on their axes.

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
        raise ValueError(f"layer: expected a number below {len(layers)}, found {layer}")
    matrices = _matrices(layers[layer])
    figure = Figure(figsize=(7.0, 0.8 + sum(0.5 + 0.16 * len(m) for m in matrices.values())))
    figure.set_layout_engine("constrained")
    for i, (name, matrix) in enumerate(matrices.items()):
        axes = figure.add_subplot(len(matrices), 1, i + 1)
        most = np.abs(matrix).max() or 1.0
        axes.imshow(matrix, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
        used = np.flatnonzero(np.abs(matrix).max(0))
        axes.set_xticks(used, [built.layout.label(c) for c in used], rotation=90, fontsize=5)
        axes.set_yticks([])
        axes.set_title(f"{name} (largest {most:.3g})", fontsize=7)
    figure.suptitle(f"layer {layer}: {built.purposes[layer]}", fontsize=8)
    return figure


def _matrices(layer: Layer) -> dict[str, np.ndarray]:
    """The weights that read the stream, and those that write to it, as (rows, width)."""
    if not isinstance(layer, Attention):
        return {"first": np.asarray(layer.first), "second, transposed": np.asarray(layer.second).T}
    found = {}
    for m in range(len(layer.query)):
        found[f"head {m}: query"] = np.asarray(layer.query[m])
        found[f"head {m}: key"] = np.asarray(layer.key[m])
        found[f"head {m}: value"] = np.asarray(layer.output[m]) @ np.asarray(layer.value[m])
    return found


def _use(layer: Layer) -> np.ndarray:
    """(width,): how each coordinate takes part, as a sum of the constants above."""

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
    kinds = [
        ("attention" if layer.scope == "causal" else "self-attention")
        if isinstance(layer, Attention)
        else "MLP"
        for layer in built.model.layers
    ]
    labels = [f"{what}   [{kind}]" for what, kind in zip(built.purposes, kinds, strict=True)]
    axes.set(xlim=(-0.6, len(names) - 0.4), ylim=(len(labels) - 0.4, -0.6))
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
