"""Convert a solution to the record that is stored and shown: one row per kind of game."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np

from equipoise.core import Solution
from equipoise.core.results import status_from_plain
from equipoise.report._tables import (
    agents_of,
    labels_of,
    play_in_words,
    player_names,
)
from equipoise.runs import Record, Table

#: Networks with more nodes and without positions are not drawn.
_DRAWN = 1000
#: Longer tables of very many agents are cut; the solution holds all rows.
_ROWS = 24


@dataclass(frozen=True)
class Parts:
    """The parts of a record besides the solution itself."""

    scalars: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)


def record_of(game: Any, found: Any, *, name: str = "", config: Any = None) -> Record:
    """Make the record of a solution, with the game's name and labels, and tables to show.

    `found` is a `Solution`; an `aggregative.Study`, which also holds the other equilibria that an
    aggregative solution is compared with; or a `networks.Design`, with its tolls or capacities.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("matching-pennies")
    >>> record = eq.report.record_of(game, eq.solve(game), name="matching-pennies")
    >>> record.scalars["kind"], list(record.tables)
    ('matrix', ['policy'])
    >>> "matching-pennies" in eq.report.page_of(record).html()
    True
    """
    solution: Solution = getattr(found, "solution", found)
    parts = KINDS[game.kind](game, found)
    scalars = {
        "kind": game.kind,
        "game": name or game.describe(),
        "description": game.describe(),
        "labels": game.labels.to_plain(),
    }
    if np.ndim(solution.value) == 0:
        scalars["value"] = float(solution.value)
    scalars |= parts.scalars
    plain = solution.to_plain()
    return Record("solution", config or {}, scalars, parts.arrays, parts.tables, plain)


def _table_game(game: Any, solution: Solution) -> Parts:
    """Games given by tables: the policy, and the payoffs of a matrix game."""
    if game.batch_shape:
        solved = int(np.sum(solution.solved))
        return Parts({"games": prod(game.batch_shape), "games solved": solved})
    arrays = {"payoff": np.asarray(game.payoff)} if game.kind == "matrix" else {}
    names = player_names(game.players, game.labels.players)
    scalars = {}
    if game.kind == "normal-form":
        scalars = {f"value to {n}": float(v) for n, v in zip(names, solution.value, strict=True)}
    if solution.objective is not None:
        scalars["objective"] = solution.objective.lower
        if np.isfinite(solution.objective.upper):
            scalars["bound on the objective"] = solution.objective.upper
    if game.kind == "markov":
        return Parts(scalars, arrays, {"policy": _markov_table(game, solution, names)})
    if solution.policy.kind == "joint":
        return Parts(scalars, arrays, {"policy": _joint_table(game, solution.policy.joint, names)})
    policies = [np.asarray(strategy) for strategy in solution.policy]
    table = policy_table(policies, names, game.labels.actions)
    return Parts(scalars, arrays, {"policy": table})


def _joint_table(game: Any, joint: np.ndarray, names: Sequence[str]) -> Table:
    """Return the joint actions by probability, without those that are never played."""
    cells = np.argwhere(joint > 0)
    cells = cells[np.argsort(-joint[tuple(cells.T)], kind="stable")]
    rows = [
        (*(game.labels.action(i, a) for i, a in enumerate(cell)), float(joint[tuple(cell)]))
        for cell in cells.tolist()
    ]
    return _cut((*names, "probability"), rows)


def _markov_table(game: Any, solution: Solution, names: Sequence[str]) -> Table:
    """Return values and policies of all states, in the first step if policies depend on it."""
    values = np.asarray(solution.value).reshape(game.states, -1)
    heads = [f"value to {name}" for name in names] if values.shape[1] > 1 else ["value"]
    if solution.policy.kind == "joint":
        parts, what = [solution.policy.marginal(i) for i in range(game.players)], "marginal"
    else:
        parts, what = [np.asarray(own) for own in solution.policy], "policy"
    first = [own if own.ndim == 2 else own[0] for own in parts]
    if any(own.ndim == 3 for own in parts):
        what += " in the first step"
    rows = [
        (
            game.labels.state(s),
            *map(float, values[s]),
            *(play_in_words(p[s], game.labels.actions_of(i)) for i, p in enumerate(first)),
        )
        for s in range(game.states)
    ]
    return Table(("state", *heads, *(f"{name} {what}" for name in names)), rows)


def policy_table(
    policies: Sequence[np.ndarray], names: Sequence[str], labels: Sequence[Sequence[str]] | None
) -> Table:
    """Table of the probabilities of each player's actions; `labels` may be shared or per player.

    >>> policy_table([np.array([0.5, 0.5])] * 2, ("row", "column"), [("heads", "tails")]).rows
    [('heads', 0.5, 0.5), ('tails', 0.5, 0.5)]
    """
    most = max(len(policy) for policy in policies)
    probabilities = [
        [float(p) for p in policy] + [None] * (most - len(policy)) for policy in policies
    ]
    if labels is None or len(labels) == 1:
        actions = [str(a) for a in range(most)] if labels is None else labels[0]
        rows = list(zip(actions, *probabilities, strict=True))
        return Table(("action", *names), rows)
    columns: list[str] = []
    cells: list[list[Any]] = []
    for name, own, chances in zip(names, labels, probabilities, strict=True):
        columns += [f"action of {name}", name]
        cells += [[*own, *[None] * (most - len(own))], chances]
    return Table(columns, list(zip(*cells, strict=True)))


def _crowd(game: Any, found: Any) -> Parts:
    """One-step aggregative games: agents by type and action, and the other equilibria."""
    solution = getattr(found, "solution", found)
    plays = solution.policy.plays(game.types, game.actions[0])
    kinds = [game.labels.type(t) for t in range(game.types)]
    who = [(kinds[t], int(game.counts[t]), *map(int, plays[t])) for t in range(game.types)]
    arrays = {"aggregate": solution.stats["aggregate"]}
    if game.types <= 8:
        arrays |= {f"share/{kind}": plays[t] / game.counts[t] for t, kind in enumerate(kinds)}
    if equilibria := getattr(found, "equilibria", ()):
        arrays |= {
            f"map/{name}": np.array([getattr(one, name) for one in equilibria])
            for name in ("aggregate", "welfare", "gain", "region")
        }
        arrays["map/chosen"] = solution.stats["aggregate"]
        arrays["map/chosen_welfare"] = float(np.mean(solution.value))
    tables = {"who_plays_what": _cut(("type", "agents", *_actions(game)), who)}
    return Parts(_crowd_scalars(game, solution), arrays, tables | _others(found))


def _markov_crowd(game: Any, found: Any) -> Parts:
    """Aggregative Markov games: aggregates, agents by action, best and worst equilibrium."""
    solution = getattr(found, "solution", found)
    aggregate = solution.stats["aggregate"]
    word = "state " if game.labels.states is None else ""
    states = [word + game.labels.state(s) for s in range(game.states)]
    cells = [
        (h, *(float(x[0]) if len(x) == 1 else x for x in aggregate[h])) for h in range(game.horizon)
    ]
    who = []
    for h, s in np.ndindex(game.horizon, game.states):
        share = solution.policy.plays(game.types, game.actions[0], h, s).sum(0) / game.agents
        who.append((h, game.labels.state(s), *map(float, share)))
    tables = {
        "who_plays_what": _cut(("step", "state", *_actions(game)), who),
        "aggregate": _cut(("step", *states), cells),
    }
    arrays = {"aggregate": aggregate}
    return Parts(_crowd_scalars(game, solution), arrays, tables | _others(found))


def _others(found: Any) -> dict[str, Table]:
    """Compare the solution with the other equilibria of a study."""
    compared = getattr(found, "comparison", ())
    rows = [(one.name, one.aggregate, one.gain, one.value, one.note) for one in compared]
    columns = ("", "aggregate", "largest gain (ε)", "mean reward", "after a small perturbation")
    if all(row[1] is None for row in rows):  # a Markov game has one aggregate per state
        rows = [(row[0], *row[2:4]) for row in rows]
        columns = ("", columns[2], "mean reward, over starting states")
    return {"against_other_equilibria": _cut(columns, rows)} if rows else {}


def _crowd_scalars(game: Any, solution: Solution) -> dict[str, Any]:
    welfare, bound = float(np.mean(solution.stats["welfare"])), solution.stats["bound"]
    return {"agents": game.agents, "welfare": welfare, "bound": bound}


def _actions(game: Any) -> list[str]:
    (count,) = game.actions
    if game.labels.actions is None:
        return [f"action {a}" for a in range(count)]
    return [game.labels.action(0, a) for a in range(count)]


def _cut(columns: Sequence[str], rows: Sequence[tuple[Any, ...]], count: int = 0) -> Table:
    """Return a table with limited rows that says how many of `count` are left out."""
    count = count or len(rows)
    if count <= _ROWS:
        return Table(columns, rows)
    rest = f"... {count - _ROWS:,} more (--json shows all)"
    return Table(columns, [*rows[:_ROWS], (rest, *[None] * (len(columns) - 1))])


def _network(game: Any, found: Any) -> Parts:
    """Network flows: planners' measures, the busiest links, and the design if there is one."""
    solution: Solution = getattr(found, "solution", found)
    flows, certificate = solution.policy.total, solution.certificate
    scalars = {"links": game.links, "populations": len(game.demand)}
    scalars |= {"total cost": game.total_cost(flows)}
    if certificate.kind == "network":
        names = ("relative_gap", "average_excess", "largest_excess")
        scalars |= {name.replace("_", " "): float(getattr(certificate, name)) for name in names}
    else:
        scalars["drivers"] = game.players
    scalars |= {"potential": solution.stats["potential"]} if "potential" in solution.stats else {}
    part = np.where(game.capacity > 0.0, flows / np.where(game.capacity > 0, game.capacity, 1), 0.0)
    busiest = np.argsort(-part, kind="stable").tolist()
    cost = game.times(flows)
    rows = [
        (f"{game.tails[k]} to {game.heads[k]}", *(float(a[k]) for a in (flows, part, cost)))
        for k in busiest
    ]
    tables = {"busiest_links": _cut(("link", "flow", "flow / capacity", "cost"), rows)}
    if found is not solution:
        tables = _designed(game, found, flows, cost) | tables
        scalars |= found.facts
    arrays = {"network/tails": game.tails, "network/heads": game.heads, "network/load": part}
    arrays |= {"network/tolls": game.tolls} if game.tolls.any() else {}
    places = _places(game) if game.positions is None else game.positions
    arrays |= {} if places is None else {"network/positions": places}
    return Parts(scalars, arrays, tables)


def _designed(game: Any, design: Any, flows: np.ndarray, cost: np.ndarray) -> dict[str, Table]:
    """Table of the links that a design changed: their tolls, or their capacities."""
    what, chosen = {"tolls": ("toll", game.tolls), "capacities": ("capacity", game.capacity)}[
        design.what
    ]
    rows = [
        (f"{game.tails[k]} to {game.heads[k]}", *(float(a[k]) for a in (chosen, flows, cost)))
        for k in design.links
    ]
    return {design.what: Table(("link", what, "flow", "cost"), rows)}


def _places(game: Any) -> np.ndarray | None:
    """Layout for nodes without positions: the slowest modes of the network (Hall 1970)."""
    known = np.union1d(game.tails, game.heads)
    if len(known) > _DRAWN:
        return None
    ends = np.searchsorted(known, game.tails), np.searchsorted(known, game.heads)
    weights = np.zeros((len(known), len(known)))
    weights[ends] = 1.0
    weights = np.maximum(weights, weights.T)
    np.fill_diagonal(weights, 0.0)
    scale = 1.0 / np.sqrt(np.maximum(weights.sum(1), 1.0))
    _, waves = np.linalg.eigh(np.eye(len(known)) - scale[:, None] * weights * scale)
    places = np.zeros((game.nodes, 2))
    places[known] = (scale[:, None] * waves[:, 1:3])[:, : min(2, len(known) - 1)]
    return places


def _many_agents(game: Any, solution: Solution) -> Parts:
    """Games of many agents: what each plays, in every context, step and state."""
    policy, labels = solution.policy, game.labels
    shape = policy.policy_shape
    if policy.kind == "continuous":
        play, what = policy.mean(), "action" if policy.weights is None else "mean action"
    else:
        play, shape = policy.marginal(), shape[:-1]
        what = "plays" if len(policy) == 1 else "plays on average (one draw for all agents)"
    name = {"agent": labels.player, "context": labels.context, "step": str, "state": labels.state}
    axes = ["context", "agent"] if len(shape) == 2 else ["context", "step", "agent", "state"]
    size = dict(zip(axes, shape, strict=True))
    order = sorted(axes, key=list(name).index)
    heads = [axis for axis in order if axis == "agent" or size[axis] > 1]
    rows = []
    for place in islice(product(*(range(size[axis]) for axis in order)), _ROWS):
        at = dict(zip(order, place, strict=True))
        cell = play[tuple(at[axis] for axis in axes)]
        if policy.kind != "continuous":
            cell = play_in_words(cell, labels.actions_of(at["agent"]))
        rows.append((*(name[axis](at[axis]) for axis in heads), cell))
    table = _cut((*heads, what), rows, prod(shape))
    return Parts({"agents": game.players}, {}, {"policy": table})


def _resources(game: Any, solution: Solution) -> Parts:
    """Games given by an oracle: the use and the cost of each resource."""
    used = solution.policy.total
    rows = [
        (k, *map(float, pair)) for k, pair in enumerate(zip(used, game.costs(used), strict=True))
    ]
    table = _cut(("resource", "use", "cost"), rows)
    return Parts({"populations": game.players}, {}, {"resources": table})


#: Kind of game -> function that returns the parts of its record besides the solution.
KINDS: dict[str, Callable[[Any, Any], Parts]] = {
    "matrix": _table_game,
    "normal-form": _table_game,
    "markov": _table_game,
    "aggregative": _crowd,
    "aggregative-markov": _markov_crowd,
    "contextual": _many_agents,
    "decoupled-markov": _many_agents,
    "continuous": _many_agents,
    "network": _network,
    "oracle": _resources,
}


def tables_of(record: Record) -> dict[str, Table]:
    """Return the tables of a record, including those that its solution holds about a log.

    >>> tables_of(Record("x", tables={"t": Table(("a",), [(1,)])}))["t"].rows
    [(1,)]
    """
    stats = (record.solution or {}).get("stats", {})
    found = dict(record.tables)
    if "earned" in stats and record.solution is not None:
        learned = status_from_plain(record.solution["status"]).name == "learned"
        name = "advice" if learned else "own play"  # if nothing was learned, the log's play
        found = {name: _advice(record, record.solution), **found}
    if structure := stats.get("structure", record.scalars.get("structure")):
        found["classes"] = _classes(structure)
        if "tried" in structure:
            found["coverage"] = _coverage(record, structure)
    numbers = ("strength", "lower", "upper")
    terms = stats.get("interactions")
    if terms is None and structure:
        numbers, terms = ("strength", "p_value"), structure.get("interactions")
    if terms:
        rows = [
            (
                *agents_of(record, [one["reward_of"]]),
                ", ".join(agents_of(record, one["with"])),
                *(one[name] for name in numbers),
            )
            for one in terms
        ]
        found["interactions"] = Table(("reward of", "with", *numbers), rows)
    if "own_gap" in stats and record.solution is not None:
        found["agents"] = _agents(record, record.solution)
    return found


def _agents(record: Record, solution: Any) -> Table:
    """Table of each agent's value and of its gain in the fitted model, from a log."""
    certificate, stats = solution["certificate"], solution["stats"]
    columns = {"value": certificate["value"], "gain in the model": certificate["gains"]}
    more = {"on support": stats.get("gap", {}).get("on_support_gains")}
    more |= {"largest chi-squared": stats.get("chi_squared"), "noise": stats.get("noise")}
    more |= {"explained": stats.get("explained")}
    if solution["policy"]["kind"] == "continuous":
        points = np.asarray(solution["policy"]["points"])
        more["action"] = points[0] if points.shape[:1] == (1,) and points.ndim == 2 else None
    columns |= {name: np.asarray(x) for name, x in more.items() if x is not None}
    count = len(certificate["gains"])
    kept = {name: np.asarray(x) for name, x in columns.items() if np.shape(x) == (count,)}
    names = agents_of(record, range(count))
    rows = [(names[i], *(float(x[i]) for x in kept.values())) for i in range(count)]
    return Table(("agent", *kept), rows)


def _advice(record: Record, solution: Any) -> Table:
    """Table of each agent's recommended actions, its reward in the log, and its expected reward."""
    stats, mixture = solution["stats"], solution["policy"]
    if mixture["kind"] == "continuous":
        return _points(record, stats, np.asarray(mixture["points"]))
    policies = np.asarray(mixture["policies"])
    weights = np.asarray(mixture.get("weights", np.full(len(policies), 1.0 / len(policies))))
    play = np.tensordot(weights, policies, 1)
    steps = play.ndim == 5 and play.shape[1] > 1
    play = play[:, 0, :, 0] if play.ndim == 5 else play  # agents present, in the first step
    contexts, names = labels_of(record, "contexts"), agents_of(record, range(play.shape[1]))
    # An upper bound of zero exceeds it by a rounding error.
    rounding = 1e-9 * float(np.abs(stats["earned"]).max())
    rows, absent = [], [list(map(int, pair)) for pair in stats.get("never_present", ())]
    for i, name in enumerate(names):
        actions = labels_of(record, "actions", i)
        actions = [str(a) for a in range(play.shape[-1])] if actions is None else actions
        numbers = _earnings(stats, i, rounding)
        for c, own in enumerate(play[:, i]):
            context = str(c) if contexts is None else contexts[c]
            place = (name, context) if len(play) > 1 else (name,)
            words = play_in_words(own, actions, ".0%", 0.005)
            words = "never present" if [c, i] in absent else words
            rows.append((*place, words, *(numbers if c == 0 else ("", "", ""))))
    first = ("agent", "context") if len(play) > 1 else ("agent",)
    what = "play" if len(policies) == 1 else "plays on average (one draw for all agents)"
    what += " (first step and state)" if steps else ""
    return Table((*first, what, "earned", "expected", "gains at most"), rows)


def _earnings(stats: Any, agent: int, rounding: float) -> tuple[Any, Any, Any]:
    """What an agent earned in the log and can expect, and its largest gain."""
    most = float(stats["gains_at_most"][agent])
    most = max(most, 0.0) * (most > rounding) if np.isfinite(most) else "unknown"
    return float(stats["earned"][agent]), float(stats["expected"][agent]), most


def _points(record: Record, stats: Any, points: np.ndarray) -> Table:
    """Table of each agent's recommended number, in the unit of the data, as in `_advice`."""
    low, high = stats.get("action_range", (-1.0, 1.0))
    contexts, names = labels_of(record, "contexts"), agents_of(record, range(points.shape[1]))
    rows = []
    for i, name in enumerate(names):
        numbers = _earnings(stats, i, 0.0)
        for c, point in enumerate(points[:, i]):
            context = str(c) if contexts is None else contexts[c]
            place = (name, context) if len(points) > 1 else (name,)
            action = low + (high - low) * (float(point) + 1.0) / 2.0
            rows.append((*place, action, *(numbers if c == 0 else ("", "", ""))))
    first = ("agent", "context") if len(points) > 1 else ("agent",)
    return Table((*first, "play", "earned", "expected", "gains at most"), rows)


def _coverage(record: Record, structure: Any) -> Table:
    """Table of how often each agent played each of its actions."""
    rows = []
    names = agents_of(record, range(len(structure["tried"])))
    for i, (name, own) in enumerate(zip(names, structure["tried"], strict=True)):
        actions = labels_of(record, "actions", i)
        words = (f"{a if actions is None else actions[a]} {n:,}" for a, n in enumerate(own))
        rows.append((name, int(min(own)), ", ".join(words)))
    return Table(("agent", "fewest", "rows of each action"), rows)


def _classes(structure: Any) -> Table:
    """Table of reward classes and the share of explainable variance that each explains."""
    heads = ("class of rewards", "held-out error", "standard error", "explained", "note")
    rows = []
    for one in structure["classes"]:
        tried = one["error"] is not None
        numbers = (
            one[name] if tried else None for name in ("error", "standard_error", "explained")
        )
        note = one["note"] or ("" if tried else "not tried")
        note = "chosen" if one["class"] == structure["chosen"] else note
        rows.append((one["name"], *numbers, note))
    return Table(heads, rows)
