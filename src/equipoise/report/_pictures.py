"""Pictures other than curves, found by the names of arrays in the record of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.report import figures
from equipoise.report._tables import agents_of, format_value, labels_of, player_names
from equipoise.runs import Record

#: Policies with more actions than this, and maps of more steps or states, are not drawn.
_LARGEST = 40


@dataclass(frozen=True)
class Picture:
    """A figure, its alternative text, and its caption."""

    figure: Any
    alt: str
    caption: str = ""


def pictures_of(record: Record | None) -> list[Picture]:
    """Draw figures other than curves: of the solution, and of arrays by their names in the record.

    `payoff`, (rows, columns), is a matrix game. `path`, (T, 3), is a policy over time, with the
    equilibrium in `nash`. `share/WHO`, (actions,), is the share of a type that plays each action.
    `strength_total` or `strength`, (agents, agents), is the strength of interactions.
    `map/aggregate`, `map/welfare`, `map/gain` and `map/region` describe equilibria, `map/chosen`
    the chosen one. `aggregate`, (steps, states, coordinates), is the aggregate of a Markov game.
    `design/outcome` is the outcome at each value of `design/PARAMETER`. `network/load` and
    `network/tolls` belong to the links from `network/tails` to `network/heads`.

    >>> [picture.alt for picture in pictures_of(Record("x", arrays={"payoff": [[1, -1]]}))]
    ['heat map of the 1 by 2 payoff matrix']
    """
    if record is None:
        return []
    drawers = (_payoff, _path, _policies, _values, _shares, _structure, _interactions)
    drawers += (_equilibria, _aggregate, _design, _network)
    return [picture for draw in drawers for picture in draw(record)]


def strength_of(record: Record | None) -> np.ndarray | None:
    """(agents, agents): how much the second agent's action affects the first's reward, if known."""
    if record is None:
        return None
    known = {**record.arrays, **(record.solution or {}).get("stats", {})}
    strength = known.get("strength_total", known.get("strength"))
    drawn = strength is not None and np.ndim(strength) == 2 and np.any(strength)
    return np.asarray(strength) if drawn else None


def _payoff(record: Record) -> list[Picture]:
    payoff = record.arrays.get("payoff")
    if payoff is None or payoff.ndim != 2 or max(payoff.shape) > _LARGEST:
        return []
    row, column = player_names(2, labels_of(record, "players"))
    figure = figures.heat_map(
        payoff,
        rows=labels_of(record, "actions", 0),
        columns=labels_of(record, "actions", 1),
        title=f"payoff to {row}",
        xlabel=column,
        ylabel=row,
    )
    height, width = payoff.shape
    return [Picture(figure, f"heat map of the {height} by {width} payoff matrix")]


def _path(record: Record) -> list[Picture]:
    arrays, scalars = record.arrays, record.scalars
    path = arrays.get("path")
    if path is None or path.ndim != 2 or path.shape[1] != 3 or not len(path):
        return []
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
    alt += "" if gap is None else f"; its NashConv at the end is {format_value(gap, 3)}"
    told = [] if what is None else [str(what)]
    told += [] if gap is None else [f"NashConv at the end {format_value(gap, 3)}"]
    return [Picture(figures.simplex_plot(path, equilibrium=nash), alt, "; ".join(told))]


def _policies(record: Record) -> list[Picture]:
    """Draw the players' policies in one game: bars and a simplex, or heat maps over states."""
    found = (record.solution or {}).get("policy") or {}
    if found.get("kind") != "profile":
        return []
    policies = [np.asarray(found["strategies"][str(i)]) for i in range(len(found["strategies"]))]
    if any(p.size == 0 or max(p.shape) > _LARGEST for p in policies):
        return []
    names = player_names(len(policies), labels_of(record, "players"))
    shown = dict(zip(names, policies, strict=True))
    if all(policy.ndim == 1 for policy in policies):
        told = "; ".join(f"{name}: {_numbers(p)}" for name, p in shown.items())
        alt = f"bars of the probabilities of each action. {told}"
        actions = labels_of(record, "actions")
        same = len({p.size for p in policies}) == 1 and len(actions or ()) == policies[0].size
        bars = figures.policy_bars(shown, actions=actions if same else None, title="policy")
        return [Picture(bars, alt), *_triangle(record, shown)]
    if record.scalars.get("kind") != "markov" or any(policy.ndim != 2 for policy in policies):
        return []  # policies of a batch of games
    return [
        Picture(
            figures.heat_map(
                policy,
                rows=labels_of(record, "states"),
                columns=labels_of(record, "actions", player),
                title=name,
                xlabel="action",
                ylabel="state",
            ),
            f"heat map of the probabilities of the {name} player's actions in every state",
        )
        for player, (name, policy) in enumerate(shown.items())
    ]


def _triangle(record: Record, shown: Mapping[str, np.ndarray]) -> list[Picture]:
    """Draw equilibrium policies over three actions as stars in one simplex."""
    points = {name: policy for name, policy in shown.items() if policy.shape == (3,)}
    if not points:
        return []
    places = "; ".join(f"{name} at {_numbers(point)}" for name, point in points.items())
    game, actions = record.scalars.get("game"), labels_of(record, "actions")
    names = {"actions": actions} if actions is not None and len(actions) == 3 else {}
    return [
        Picture(
            figures.simplex_plot(equilibrium=points, title="equilibrium", **names),
            f"equilibrium in the triangle of three actions: {places}",
            f"{game}; equilibrium: {places}" if isinstance(game, str) else places,
        )
    ]


def _values(record: Record) -> list[Picture]:
    """Draw histograms of values and gaps of a batch of games, or of values of many states."""
    found = record.solution
    if found is None or record.scalars.get("kind") not in ("matrix", "normal-form", "markov"):
        return []
    value, gains = (np.asarray(x) for x in (found["value"], found["certificate"]["gains"]))
    batch = gains.ndim > 1
    if value.ndim == 0 or (not batch and value.size <= _LARGEST):
        return []  # a table shows these
    what = "games" if batch else "states"
    figure = figures.histogram(value, title="values", xlabel="value to the row player", ylabel=what)
    pictures = [Picture(figure, f"histogram of the values of the {what} to the row player")]
    if batch:
        gaps = gains.sum(-1)
        figure = figures.histogram(gaps, title="NashConv", xlabel="NashConv", log=True)
        alt = f"histogram of the certified NashConv; the largest is {gaps.max():.2g}"
        pictures.append(Picture(figure, alt))
    return pictures


def _shares(record: Record) -> list[Picture]:
    shares = {
        f"type {name.removeprefix('share/')}": array
        for name, array in record.arrays.items()
        if name.startswith("share/")
    }
    if not shares:
        return []
    told = "; ".join(f"{name}: {_numbers(p)}" for name, p in shares.items())
    actions = labels_of(record, "actions")
    figure = figures.policy_bars(
        shares, actions=actions, title="share of each type that plays the action"
    )
    return [Picture(figure, f"bars of the shares of each type that play each action. {told}")]


def _structure(record: Record) -> list[Picture]:
    stats = (record.solution or {}).get("stats", {})
    found = stats.get("structure", record.scalars.get("structure"))
    if found is None:
        return []
    tried = [one for one in found["classes"] if one["explained"] is not None]
    told = "; ".join(f"{one['name']}: {one['explained']:.0%}" for one in tried)
    bars = {"share of the explainable variance": np.array([one["explained"] for one in tried])}
    names = [one["name"] for one in tried]
    figure = figures.policy_bars(
        bars, actions=names, title="variance explained by each class of rewards", ylabel="share"
    )
    return [Picture(figure, f"bars of the variance that each class explains. {told}", told)]


def _interactions(record: Record) -> list[Picture]:
    strength = strength_of(record)
    if strength is None:
        return []
    strongest = np.unravel_index(int(strength.argmax()), strength.shape)
    i, j = agents_of(record, [int(at) for at in strongest])
    counted = "" if labels_of(record, "players") else ", agents numbered from 0"
    note = f" Only the {_LARGEST} agents with the strongest interactions are shown." * (
        len(strength) > _LARGEST
    )
    return [
        Picture(
            figures.interaction_map(strength, names=labels_of(record, "players"), most=_LARGEST),
            f"heat map of interactions{counted}; the strongest is the effect of agent {j}'s action "
            f"on agent {i}'s reward",
            f"Standard deviation of the effect of an agent's action on another's reward.{note}",
        )
    ]


def _equilibria(record: Record) -> list[Picture]:
    arrays = record.arrays
    if "map/aggregate" not in arrays or not len(arrays["map/aggregate"]):
        return []
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
    caption = (
        "The cells in which each equilibrium was found are shaded."
        if "map/region" in arrays
        else ""
    )
    return [Picture(figure, alt, caption)]


def _aggregate(record: Record) -> list[Picture]:
    aggregate = record.arrays.get("aggregate")
    if aggregate is None or aggregate.ndim != 3 or max(aggregate.shape[:2]) > _LARGEST:
        return []
    found = []
    for k in range(min(aggregate.shape[2], 3)):
        which = f", coordinate {k}" if aggregate.shape[2] > 1 else ""
        options = {"title": f"aggregate{which}", "xlabel": "step", "ylabel": "state"}
        figure = figures.heat_map(aggregate[..., k].T, **options)
        found.append(Picture(figure, f"heat map of the aggregate by step and state{which}"))
    return found


def _network(record: Record) -> list[Picture]:
    """Draw maps of a road network, coloured by flow over capacity and by toll."""
    names = ("positions", "tails", "heads")
    if any(f"network/{name}" not in record.arrays for name in names):
        return []
    arrays = {name: record.arrays[f"network/{name}"] for name in names}
    found = []
    for name, what in (("load", "flow / capacity"), ("tolls", "toll")):
        values = record.arrays.get(f"network/{name}")
        if values is not None:
            busiest = int(np.argmax(values))
            ends = f"{arrays['tails'][busiest]} to {arrays['heads'][busiest]}"
            figure = figures.network_map(**arrays, values=values, title=what, what=what)
            alt = (
                f"map of the network by {what}; the largest is {format_value(values[busiest], 3)} "
            )
            found.append(Picture(figure, f"{alt}from {ends}", f"Links coloured by {what}."))
    return found


def _design(record: Record) -> list[Picture]:
    outcome = record.arrays.get("design/outcome")
    if outcome is None or not len(outcome):
        return []
    found, best = [], int(np.argmax(outcome))
    for key, values in record.arrays.items():
        name = key.removeprefix("design/")
        if name in (key, "outcome"):
            continue
        alt = f"outcome against {name}; the best is {format_value(float(outcome[best]), 4)} at "
        alt += format_value(float(values[best]), 4)
        caption = "Each point is one game, solved and certified."
        found.append(Picture(figures.outcomes(values, outcome, name=name), alt, caption))
    return found


def _numbers(values: Any) -> str:
    return ", ".join(format_value(float(x), 3) for x in np.ravel(values))
