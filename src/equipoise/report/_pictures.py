"""Pictures of what is no curve, found by the names of arrays in the record of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.report import figures
from equipoise.report._folders import RunFolder
from equipoise.report._tables import format_value

#: Policies of more actions than this, and maps of more steps or states, are not drawn.
_LARGEST = 40


@dataclass(frozen=True)
class Picture:
    """A figure, a text for who cannot see it, and what is written below."""

    figure: Any
    alt: str
    caption: str = ""


def pictures_of(run: RunFolder) -> list[Picture]:
    """Figures of what is no curve: found by the names of arrays in the record.

    `path`, (T, 3), is a policy over time, with `nash` where it should end; `nash/WHO`, (3,), are
    equilibrium policies of players; `policy_0`, `policy_1`, ..., (actions,), what they play;
    `strength_total` or `strength`, (agents, agents), is who matters to whom; `map/aggregate`,
    `map/welfare`, `map/gain` and `map/region` are equilibria, of which `map/chosen` is one;
    `aggregate`, (steps, states, coordinates), is one.

    >>> from pathlib import Path
    >>> pictures_of(RunFolder(Path("x"), "x", {}, None))
    []
    """
    arrays = {} if run.record is None else run.record.arrays
    scalars = {} if run.record is None else run.record.scalars
    found = [_path(arrays, scalars), _nash(arrays, scalars), _policies(arrays, scalars)]
    found += [_interactions(run), _equilibria(arrays), _aggregate(arrays)]
    return [picture for picture in found if picture is not None]


def strength_of(run: RunFolder) -> np.ndarray | None:
    """(agents, agents): how much the action of the second matters to the first, if it does."""
    arrays = {} if run.record is None else run.record.arrays
    strength = arrays.get("strength_total", arrays.get("strength"))
    return strength if strength is not None and strength.ndim == 2 and strength.any() else None


def _path(arrays: Mapping[str, np.ndarray], scalars: Mapping[str, Any]) -> Picture | None:
    path = arrays.get("path")
    if path is None or path.ndim != 2 or path.shape[1] != 3 or not len(path):
        return None
    drawn = scalars.get("drawn")
    what = gap = None
    if isinstance(drawn, Mapping):
        what, gap = drawn.get("what"), drawn.get("gap")
    alt = f"path of {'a policy' if what is None else what} in the triangle of three actions"
    rounds, nash = arrays.get("path_rounds"), arrays.get("nash")
    if rounds is not None and len(rounds) == len(path):
        alt += f", {len(path)} rounds from {rounds[0]:,} to {rounds[-1]:,}"
    alt += f", to {_numbers(path[-1])}"
    alt += "" if nash is None else f"; Nash is at {_numbers(nash)}"
    alt += "" if gap is None else f"; its gap (NashConv) at the end is {format_value(gap, 3)}"
    told = [] if what is None else [str(what)]
    told += [] if gap is None else [f"gap (NashConv) at the end {format_value(gap, 3)}"]
    return Picture(figures.simplex_plot(path, equilibrium=nash), alt, "; ".join(told))


def _nash(arrays: Mapping[str, np.ndarray], scalars: Mapping[str, Any]) -> Picture | None:
    """Equilibrium policies over three actions, each a star in one triangle."""
    points = {
        name.removeprefix("nash/"): array
        for name, array in arrays.items()
        if name.startswith("nash/") and array.shape == (3,)
    }
    if not points:
        return None
    places = "; ".join(f"{name} at {_numbers(point)}" for name, point in points.items())
    return Picture(
        figures.simplex_plot(equilibrium=points, title="equilibrium"),
        f"equilibrium in the triangle of three actions: {places}",
        _of_game(scalars, f"equilibrium: {places}"),
    )


def _policies(arrays: Mapping[str, np.ndarray], scalars: Mapping[str, Any]) -> Picture | None:
    names = [name for name in arrays if name.startswith("policy_")]
    policies = [arrays[f"policy_{i}"] for i in range(len(names)) if f"policy_{i}" in arrays]
    if not policies or any(p.ndim != 1 or not 0 < p.size <= _LARGEST for p in policies):
        return None
    who = ("row", "column") if len(policies) == 2 else [f"player {i}" for i in range(len(names))]
    shown = dict(zip(who, policies, strict=True))
    told = "; ".join(f"{name}: {_numbers(p)}" for name, p in shown.items())
    return Picture(
        figures.policy_bars(shown, title="policy"),
        f"bars of the probabilities of each action. {told}",
    )


def _interactions(run: RunFolder) -> Picture | None:
    strength = strength_of(run)
    if strength is None:
        return None
    i, j = np.unravel_index(int(strength.argmax()), strength.shape)
    return Picture(
        figures.interaction_map(strength),
        "heat map of interaction, agents counted from 0; strongest is how much the action of "
        f"agent {j} matters to the reward of agent {i}",
    )


def _equilibria(arrays: Mapping[str, np.ndarray]) -> Picture | None:
    if "map/aggregate" not in arrays or not len(arrays["map/aggregate"]):
        return None
    places, welfare = arrays["map/aggregate"], arrays["map/welfare"]
    chosen = None
    if "map/chosen" in arrays and "map/chosen_welfare" in arrays:
        chosen = (arrays["map/chosen"], float(arrays["map/chosen_welfare"]))
    figure = figures.equilibrium_map(
        places,
        welfare,
        gains=arrays.get("map/gain"),
        regions=arrays.get("map/region"),
        chosen=chosen,
    )
    many = f"{len(places)} equilibria" if len(places) > 1 else "the one equilibrium"
    best = places[int(np.argmax(welfare))]
    alt = f"map of {many} over the aggregate; the best for society is at {_numbers(best)}"
    alt += "" if chosen is None else f", the chosen one at {_numbers(chosen[0])}"
    caption = "Shaded are the cells each was found in." if "map/region" in arrays else ""
    return Picture(figure, alt, caption)


def _aggregate(arrays: Mapping[str, np.ndarray]) -> Picture | None:
    aggregate = arrays.get("aggregate")
    if aggregate is None or aggregate.ndim != 3 or max(aggregate.shape[:2]) > _LARGEST:
        return None
    figure = figures.heat_map(aggregate[..., 0].T, title="aggregate", xlabel="step", ylabel="state")
    return Picture(figure, "heat map of the aggregate by step and state")


def _of_game(scalars: Mapping[str, Any], text: str) -> str:
    game = scalars.get("game")
    return f"{game}; {text}" if isinstance(game, str) else text


def _numbers(values: Any) -> str:
    return ", ".join(format_value(float(x), 3) for x in np.ravel(values))
