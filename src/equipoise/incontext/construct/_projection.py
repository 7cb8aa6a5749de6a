"""The projection onto the truncated simplex as layers: exact, for it is piecewise linear.

With `w = v - floor` the projection is `floor + relu(w - theta)`, and `theta` is the largest of
`(sum of the k largest w - (1 - A floor)) / k` over k: each is the threshold that fits k actions,
and too many or too few make it smaller. So a network sorts (a comparator is one ReLU), forms A
linear combinations, and takes their maximum. The paper replaces this by a smooth surrogate; see
`equipoise.incontext.construct.surrogate_step`.
"""

import numpy as np

from equipoise.incontext.construct._blocks import Blueprint, Unit


def add_projection(plan: Blueprint, actions: int, target: str, offset: float = 0.0) -> None:
    """Layers for `target += projection of v - offset`; reads `v`, `w = v - floor`, `floor`, `one`.

    Leaves the threshold in `w[0]`, and the rest of `w` in disorder.
    """
    layout = plan.layout
    w, v = layout["w"], layout["v"]
    one, floor = layout["one"][0], layout["floor"][0]
    for stage in range(actions if actions > 2 else 1):  # odd-even transposition sort
        first = stage % 2
        exchanges = [_exchange(w[i], w[i + 1]) for i in range(first, actions - 1, 2)]
        plan.mlp(f"sort w: neighbours {first}-{first + 1}, ...", *exchanges)
    sums = np.tril(np.ones((actions, actions))) / np.arange(1, actions + 1)[:, None]
    mass = (one - actions * floor)[None] / np.arange(1, actions + 1)[:, None]
    plan.own(
        "w[k] = (sum of the k largest - mass) / k",
        plan.linear((sums - np.eye(actions)) @ w - mass, w),
    )
    gap = 1
    while gap < actions:
        pairs = range(0, actions - gap, 2 * gap)
        plan.mlp("maximum of pairs", *(Unit(w[i + gap] - w[i], w[i]) for i in pairs))
        gap *= 2
    rows = layout[target]
    plan.mlp(
        f"{target} = floor + relu(v - floor - w[0])",
        *(Unit(v[a] - floor - w[0], rows[a]) for a in range(actions)),
        Unit(floor, rows.sum(0)),
        *([Unit(one, -offset * rows.sum(0))] if offset else []),
    )


def _exchange(upper: np.ndarray, lower: np.ndarray) -> Unit:
    """A comparator: the larger of two goes up."""
    return Unit(lower - upper, upper - lower)
