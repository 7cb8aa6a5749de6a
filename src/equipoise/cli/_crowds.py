"""Games of very many agents on the command line: solving, files, tables and a page."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.cli._inputs import setting
from equipoise.cli._kinds import describe, kind_of
from equipoise.cli._output import print_pairs, print_table
from equipoise.cli._parsing import check_names
from equipoise.cli._policies import read_json
from equipoise.core.arrays import read_npz, write_npz
from equipoise.core.errors import InputError
from equipoise.core.files import write_text
from equipoise.core.plain import dumps
from equipoise.core.results import Status
from equipoise.runs import Record, Table

#: Longer tables are cut on the screen and on the page, never in files and JSON.
_ROWS = 24

_PARTS = ("rows", "counts", "actions")


def options_of(game: Any, settings: Sequence[str]) -> dict[str, Any]:
    """Options "objective=welfare" of the solver of that game."""
    solvers = {
        "aggregative": eq.aggregative.solve_aggregative,
        "aggregative-markov": eq.aggregative.solve_aggregative_markov,
    }
    options = dict(setting(text, "option") for text in settings)
    known = list(inspect.signature(solvers[kind_of(game)]).parameters)[1:]
    check_names("option", options, known, f"options of the solver of {kind_of(game)} games")
    _check_effect(options)
    return options


def _check_effect(options: Mapping[str, Any]) -> None:
    """Refuse options that would change nothing beside the others.

    >>> _check_effect({"sense": "min"})
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: --option sense: expected only with objective=welfare, found
    objective=regret; any equilibrium is sought, neither the best nor the worst
    """
    objective = options.get("objective", "regret")
    valued, printed = objective in ("welfare", "loss"), options.get("tolerance") == "printed"
    rounding, found = options.get("rounding", "vertex"), f"objective={objective}"
    any_one = "any equilibrium is sought, neither the best nor the worst"
    beside = f"{found}; {any_one}"
    needed = {
        "sense": (
            objective == "welfare",
            "objective=welfare",
            f"{found}; losses are made as small as can be" if objective == "loss" else beside,
        ),
        "epsilon": (
            valued and "tolerance" not in options,
            "objective=welfare or loss, and without tolerance",
            f"tolerance={options.get('tolerance')}, which replaces it" if valued else beside,
        ),
        "method": (
            valued or printed,
            "objective=welfare or loss, or with tolerance=printed",
            f"{found}; both methods then find the same",
        ),
        "key": (rounding == "sample", "rounding=sample", f"rounding={rounding}; nothing is random"),
    }
    for name, (has_effect, condition, instead) in needed.items():
        numeric = name in ("epsilon", "key")
        # What no solver would take is refused by the solver, which says why.
        if numeric and not isinstance(options.get(name, 0), int | float):
            continue
        if name in options and not has_effect and not (numeric and options[name] < 0):
            raise InputError(f"--option {name}", f"only with {condition}", instead)


def judge(solution: eq.Solution, tolerance: float) -> eq.Solution:
    """The solution with the verdict of a tolerance that the user gave."""
    gain = float(solution.certificate.max_gain)
    met = gain <= tolerance
    verdict = f"the largest gain is {gain:.3g}, {'at most' if met else 'above'} {tolerance:g}"
    message = f"{verdict}; {solution.status.message}"
    status = Status("solved" if met else "inexact", message, np.asarray(met))
    return replace(solution, status=status)


def solution_document(name: str, game: Any, solution: eq.Solution) -> dict[str, Any]:
    """A solution as plain data, by classes of agents; `equipoise certify` reads the policy."""
    certificate: Any = solution.certificate
    large = ("groups", "shares", "aggregate", "welfare", "bound")
    return {
        "game": name,
        "kind": kind_of(game),
        "agents": game.agents,
        "types": game.types,
        "actions": game.actions,
        "value": solution.value,
        "aggregate": solution.stats["aggregate"],
        "welfare": solution.stats["welfare"],
        "bound": solution.stats["bound"],
        "policy": {part: getattr(solution.policy, part) for part in _PARTS},
        "certificate": certificate_document(certificate),
        "status": {"name": solution.status.name, "message": solution.status.message},
        "stats": {key: v for key, v in solution.stats.items() if key not in large},
    }


def solution_record(game: Any, solution: eq.Solution, seconds: float) -> Record:
    """A solution as a record: what is played, the sums of the certificate, the map of others."""
    certificate: Any = solution.certificate
    summary = ("max_gain", "nash_conv", "exploitability", "method", "exact", "concept")
    scalars = {
        "kind": kind_of(game),
        "seconds": seconds,
        "agents": game.agents,
        "welfare": float(np.mean(solution.stats["welfare"])),
        "bound": solution.stats["bound"],
        "certified": {part: getattr(certificate, part) for part in summary},
    }
    arrays = {
        "value": solution.value,
        "solved": solution.status.solved,
        "aggregate": solution.stats["aggregate"],
        **{f"policy/{part}": getattr(solution.policy, part) for part in _PARTS},
    }
    tables = {"who_plays_what": plays_table(game, solution)}
    if kind_of(game) == "aggregative":
        arrays |= map_arrays(game, solution)
    else:
        tables["aggregate"] = aggregate_table(game, solution)
    tables["against_other_equilibria"] = others_table(game, solution)
    return Record("solution", {}, scalars, arrays, tables)


def policy_in(arrays: Mapping[str, Any]) -> Any:
    """The policy of very many agents in the arrays of such a record; None where there is none."""
    names = [f"policy/{part}" for part in _PARTS]
    if not all(name in arrays for name in names):
        return None
    return eq.games.AggregativePolicy(*(arrays[name] for name in names))


def map_arrays(game: Any, solution: eq.Solution) -> dict[str, Any]:
    """Where the equilibria lie over the aggregate, by the names that reports draw a map of."""
    found = eq.aggregative.equilibria(game)
    if not found:
        return {}
    return {
        "map/aggregate": np.stack([one.aggregate for one in found]),
        "map/welfare": np.array([one.welfare for one in found]),
        "map/gain": np.array([one.gain for one in found]),
        "map/region": np.stack([one.region for one in found]),
        "map/chosen": solution.stats["aggregate"],
        "map/chosen_welfare": mean_rewards(solution),
    }


def certificate_document(certificate: Any) -> dict[str, Any]:
    """A certificate as plain data, by classes of agents."""
    return {
        "max_gain": certificate.max_gain,
        "nash_conv": certificate.nash_conv,
        "exploitability": certificate.exploitability,
        "class_gains": certificate.class_gains,
        "class_value": certificate.class_value,
        "class_counts": certificate.class_counts,
        "method": certificate.method,
        "exact": certificate.exact,
        "concept": certificate.concept,
    }


def write_policy(path: Path, policy: Any, document: dict[str, Any]) -> None:
    """Write a policy, atomically; `.json` files hold the rest of the document too."""
    if path.suffix.lower() == ".json":
        write_text(path, dumps(document, "document") + "\n")
        return
    write_npz(path, {part: np.asarray(getattr(policy, part)) for part in _PARTS})


def read_policy(path: Path) -> Any:
    """Read a policy by classes, or the actions of every agent: `{"policy": [0, 1, ...]}`."""
    parts: Any = read_npz(path) if path.suffix.lower() == ".npz" else read_json(path)
    if isinstance(parts, list):
        try:
            return np.asarray(parts)
        except ValueError as error:
            raise ValueError(
                f"{path}: expected an action of every agent (by step and state, where there are "
                "any), found lists of several lengths"
            ) from error
    if not isinstance(parts, dict) or not set(_PARTS) <= set(parts):
        raise ValueError(
            f"{path}: expected a policy with {', '.join(_PARTS)}, or a list of actions"
        )
    return eq.games.AggregativePolicy(*(np.asarray(parts[part]) for part in _PARTS))


def others_table(game: Any, solution: eq.Solution) -> Table:
    """The solution beside the other equilibria found: aggregate, gain and welfare."""
    if kind_of(game) == "aggregative":
        found = eq.aggregative.equilibria(game)
        rows: list[tuple[Any, ...]] = [
            (f"equilibrium {k}", e.aggregate, e.gain, e.welfare) for k, e in enumerate(found)
        ]
        own = mean_rewards(solution)
        gain = float(solution.certificate.max_gain)
        rows.insert(0, ("this solution", solution.stats["aggregate"], gain, own))
        return _cut(("", "aggregate", "largest gain (ε)", "mean reward"), rows)
    rows = [("this solution", float(solution.certificate.max_gain), mean_rewards(solution))]
    for label, sense in (("best for society found", "max"), ("worst found", "min")):
        other = eq.solve(game, objective="welfare", sense=sense)
        rows.append((label, float(other.certificate.max_gain), mean_rewards(other)))
    return Table(("", "largest gain (ε)", "mean reward, over starting states"), rows)


def _cut(columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> Table:
    """A table of not too many rows, that says how many are left out."""
    if len(rows) <= _ROWS:
        return Table(columns, rows)
    rest = f"... {len(rows) - _ROWS} more (--json shows all)"
    return Table(columns, [*rows[:_ROWS], (rest, *[None] * (len(columns) - 1))])


def mean_rewards(solution: eq.Solution) -> float:
    """What the mean agent gets, over starting states."""
    return float(np.mean(solution.value))


def aggregate_table(game: Any, solution: eq.Solution) -> Table:
    """The aggregate in every step (rows) and state (columns)."""
    names = [f"state {s}" for s in range(game.states)]
    aggregate = solution.stats["aggregate"]
    rows = []
    for h in range(game.horizon):
        cells = [float(x[0]) if len(x) == 1 else x for x in aggregate[h]]
        rows.append((h, *cells))
    return _cut(("step", *names), rows)


def plays_table(game: Any, solution: eq.Solution) -> Table:
    """How many agents of each type play what; in a Markov game, shares of all agents."""
    (m,) = game.actions
    actions = tuple(f"action {a}" for a in range(m))
    if kind_of(game) == "aggregative":
        plays = solution.policy.plays(game.types, m)
        rows = [(t, int(game.counts[t]), *map(int, plays[t])) for t in range(game.types)]
        return _cut(("type", "agents", *actions), rows)
    rows = []
    for h in range(game.horizon):
        for s in range(game.states):
            share = solution.policy.plays(game.types, m, h, s).sum(0) / game.agents
            rows.append((h, s, *map(float, share)))
    return _cut(("step", "state", *actions), rows)


def print_solution(name: str, game: Any, solution: eq.Solution, seconds: float) -> None:
    """Print who plays what, the aggregates, and how the equilibrium compares."""
    print(f"{name}: {describe(game)}")
    print_table(plays_table(game, solution), title="Who plays what")
    if kind_of(game) == "aggregative-markov":
        print_table(aggregate_table(game, solution), title="Aggregate")
    print_table(others_table(game, solution), title="Against other ε-equilibria")
    print_pairs([*_facts(game, solution).items(), ("seconds", seconds)])
    print_pairs([("method", solution.certificate.method), ("status", str(solution.status))])


def print_certificate(certificate: Any, more: Sequence[tuple[str, Any]] = ()) -> None:
    """Print the gains of very many agents in a few lines, and more facts below."""
    print_pairs(
        [
            ("agents", certificate.players),
            ("largest gain", float(certificate.max_gain)),
            ("mean gain", float(certificate.exploitability)),
            ("agents who gain", int(certificate.class_counts[_gaining(certificate)].sum())),
            ("method", certificate.method),
            ("exact", certificate.exact),
            *more,
        ]
    )


def _gaining(certificate: Any) -> np.ndarray:
    gains = certificate.class_gains
    return (gains if gains.ndim == 1 else gains.max(0)) > 1e-12


def _facts(game: Any, solution: eq.Solution) -> dict[str, Any]:
    stats = solution.stats
    facts = {"agents": game.agents, "types": stats["types"]}
    if kind_of(game) == "aggregative":
        facts["aggregate"] = stats["aggregate"]
    return {
        **facts,
        "welfare": float(np.mean(stats["welfare"])),
        "largest gain": float(solution.certificate.max_gain),
        "largest gain promised": stats["bound"],
    }
