"""Tables of the pages about interaction rank, each a function of records."""

from collections.abc import Sequence
from typing import Any

from equipoise.runs import Record
from reproduction import rows_of
from reproduction._page_tables import Grid, general, grid, pick, significant


def _short(number: float) -> str:
    """Return a count with two significant digits.

    >>> _short(17_664.0)
    '18,000'
    """
    return f"{float(f'{number:.1e}'):,.0f}"


def _mean(rows: Sequence[dict[str, Any]], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows)


def _time(seconds: float) -> str:
    """Return a short time.

    >>> _time(4.04e-5), _time(0.00153)
    ('40 us', '1.5 ms')
    """
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def discrete(record: Record, panel: str) -> Grid:
    """Mean gaps in games with few actions: a row for each critic, a column for each size."""
    rows = [row for row in rows_of(record.tables["gaps"]) if row["panel"] == panel]
    sizes = sorted({row["at"] for row in rows})
    heads = {f"{at:,.0f}" if at >= 1 else f"{at:g}": at for at in sizes}
    if panel == "markov":
        first, *others = heads.items()
        heads = {f"{first[0]} episodes": first[1], **dict(others)}
    names = ["2-IR", "joint", "1-IR"] + ["behaviour"] * (panel != "strength")
    sides = {"uniform play" if name == "behaviour" else name: name for name in names}
    if panel == "markov":
        del sides["joint"]
    if panel == "agents":
        sides["CPU time per iteration, 2-IR"] = "time"

    def cell(critic: str, at: float) -> str:
        name = "2-IR" if critic == "time" else critic
        own = [row for row in rows if row["critic"] == name and row["at"] == at]
        if not own:
            return ""
        if critic == "time":
            return _time(_mean(own, "seconds per iteration"))
        return f"{_mean(own, 'gap'):.3f}"

    table = grid("", heads, sides, cell)
    return [row for row in table if any(row[1:])]


def coverage(record: Record, panel: str) -> Grid:
    """Rows that critics need: a column for each C, the slope, and the power of Table 1."""
    needs = [row for row in rows_of(record.tables["needs"]) if row["panel"] == panel]
    name = {"skew": "C", "actions": "actions"}[panel]
    sizes = sorted({row[name] for row in needs})
    first = f"C = {sizes[0]:g}" if panel == "skew" else f"{sizes[0]} actions"
    table = [["agents", "critic", first, *(f"{at:g}" for at in sizes[1:]), "slope", "Table 1"]]
    for slope in rows_of(record.tables["slopes"]):
        if slope["panel"] != panel:
            continue
        cell = {"agents": slope["agents"], "critic": slope["critic"]}
        rows = [pick(needs, **cell, **{name: at}) for at in sizes]
        counts = [None if row is None else row["rows"] for row in rows]
        power = "K = 2" if slope["critic"] == "2-IR" else f"N = {slope['agents']}"
        shown = ["not reached" if count is None else _short(count) for count in counts]
        table.append([*map(str, cell.values()), *shown, f"{slope['slope']:.1f}", power])
    return table


def _small(number: float) -> str:
    return f"{number:.1e}".replace("e-0", "e-") if number < 1e-3 else general(number)


def estimated(record: Record) -> Grid:
    """Mean gaps with estimated rewards, for the smallest and largest logs."""
    rows = rows_of(record.tables["gaps"])
    most = max(row["samples"] for row in rows)
    head = ["agents", "noise", "rows", r"$\eps$", "gap", "gap, Theorem 4", "bound", "uniform play"]
    table = [head]
    for agents, noise in dict.fromkeys((row["agents"], row["noise"]) for row in rows):
        for samples in (300, most):
            cell = {"agents": agents, "noise": noise, "samples": samples}
            own = [row for row in rows if cell.items() <= row.items()]
            names = ("error", "gap", "gap, printed", "bound", "uniform")
            means = [_small(_mean(own, name)) for name in names]
            table.append([str(agents), f"{noise:g}", f"{samples:,}", *means])
    return table


def _critic(name: str) -> str:
    """Return the name of an architecture as pages write it.

    >>> _critic("joint-2x512"), _critic("2-IR-64")
    ('joint, 2 x 512', '2-IR, 64')
    """
    return name.replace("-IR-", "-IR, ").replace("joint-", "joint, ").replace("x", " x ")


def _figure(number: float) -> str:
    return significant(number).removeprefix("0") or "0"


def _with_error(row: dict[str, Any] | None) -> str:
    """Return the largest gap with its standard error."""
    return "" if row is None else f"{_figure(row['max gap'])} ± {_figure(row['error'])}"


def sizes_of_logs(record: Record) -> Grid:
    """Largest gaps of deep critics against rows per agent: a row for each recipe and critic."""
    rows = rows_of(record.tables["summary"])
    sizes = sorted({row["rows per agent"] for row in rows})
    heads = {f"{n} (the paper's rule)" if n == 10 else f"{n}": n for n in sizes}
    kinds = {
        "2-IR": "2-IR-64",
        "joint": "joint-2x512",
        "1-IR": "1-IR-128",
        "2-IR, linear in polynomials": "2-IR-linear",
    }
    known = {(row["recipe"], row["critic"]) for row in rows}
    sides = {
        f"{recipe}: {label}": (recipe, critic)
        for recipe in ("ours", "printed")
        for label, critic in kinds.items()
        if (recipe, critic) in known
    }

    def cell(side: tuple[str, str], at: int) -> str:
        recipe, critic = side
        wanted = {"recipe": recipe, "critic": critic, "rows per agent": at}
        return _with_error(pick(rows, **wanted))

    return grid("rows per agent", heads, sides, cell)


def critics_of_ranks(record: Record) -> Grid:
    """Largest gaps of all architectures under each recipe, and of the median agent under ours."""
    rows = rows_of(record.tables["summary"])
    labels = {"ours": "ours", "printed": "printed", "epochs": "printed, patience in epochs"}
    known = {row["recipe"] for row in rows}
    heads = {label: recipe for recipe, label in labels.items() if recipe in known}

    def cell(critic: str, at: str) -> str:
        if at == "median":
            row = pick(rows, critic=critic, recipe="ours")
            return "" if row is None else _figure(row["median gap"])
        return _with_error(pick(rows, critic=critic, recipe=at))

    sides = {_critic(row["critic"]): row["critic"] for row in rows}
    return grid("", {**heads, "median agent, ours": "median"}, sides, cell)


def noise_of_rewards(record: Record) -> Grid:
    """Largest gaps against the noise: a row for each recipe and critic."""
    rows = rows_of(record.tables["summary"])
    heads: dict[str, float] = {}
    for row in rows:
        first = not heads or row["noise"] == min(heads.values())
        name = f"$\\sigma$ = {row['noise']:g}" if first else f"{row['noise']:g}"
        count = row["rows per agent"]
        heads[f"{name}, {count} rows{' per agent' if first else ''}"] = row["noise"]
    pairs = dict.fromkeys((row["critic"], row["recipe"]) for row in rows)
    sides = {f"{recipe}: {_critic(critic)}": (critic, recipe) for critic, recipe in pairs}

    def cell(side: tuple[str, str], at: float) -> str:
        return _with_error(pick(rows, critic=side[0], recipe=side[1], noise=at))

    return grid("largest gap", heads, sides, cell)


_CHANGES = {
    "ours": "ours",
    "critics as printed": "critics: printed",
    "10 rows per agent": "rows: 10 per agent",
    "critics use the others' logged actions": "others: data",
    "patience of 20 steps": "patience: 20 steps",
    r"normaliser: \|Q\| at the current policies": "normaliser: policy",
    "actors as printed": "actors: printed",
    "critics' learning rate 1e-4": "critic rate: 1e-4",
    "rewards not standardised": "rewards: as they are",
    "alpha 1": "alpha: 1",
    "alpha 2.5": "alpha: 2.5",
    "a shared start": "start: shared",
}


def ablations(record: Record) -> Grid:
    """Largest gaps after a single change of the recipe."""
    rows = rows_of(record.tables["summary"])
    heads = {_critic(name): name for name in ("2-IR-64", "joint-2x512", "1-IR-128")}
    return grid(
        "largest gap",
        heads,
        _CHANGES,
        lambda change, critic: _with_error(pick(rows, change=change, critic=critic)),
    )


def architectures(pairs: Record, own: Record) -> Grid:
    """Largest gaps and held-out errors of all architectures, in two games."""
    games = {
        "Figure 3": rows_of(pairs.tables["summary"]),
        "Figure 4": rows_of(own.tables["summary"]),
    }
    heads: dict[str, tuple[str, str]] = {}
    table: Grid = [[""]]
    for name in games:
        table[0] += [f"{name}, ours", "printed", "errors"]
        heads |= {f"{name} {kind}": (name, kind) for kind in ("ours", "printed", "errors")}

    def cell(critic: str, at: tuple[str, str]) -> str:
        found = {
            recipe: pick(games[at[0]], critic=critic, recipe=recipe)
            for recipe in ("ours", "printed")
        }
        if at[1] != "errors":
            return _with_error(found[at[1]])
        return ", ".join(f"{row['validation']:.3f}" for row in found.values() if row is not None)

    sides = {_critic(row["critic"]): row["critic"] for row in games["Figure 3"]}
    return table + grid("", heads, sides, cell)[1:]


def continuous_states(record: Record) -> Grid:
    """Gains of policies learned from numbers and from cells, by dynamics and size of the log."""
    rows = rows_of(record.tables["gaps"])
    heads = {"numbers": "numbers", "3 cells": "3 cells", "9 cells": "9 cells"}
    sides = {
        f"{dynamics}, {episodes:,} episodes": (dynamics, episodes)
        for dynamics in dict.fromkeys(row["dynamics"] for row in rows)
        for episodes in sorted({row["episodes"] for row in rows})
    }

    def cell(side: tuple[str, int], method: str) -> str:
        dynamics, episodes = side
        name = method if episodes else method.replace(" cells", " true cells")
        name = "own play" if not episodes and method == "numbers" else name
        gains = [
            row["gap"]
            for row in rows
            if (row["dynamics"], row["episodes"], row["method"]) == (dynamics, episodes, name)
        ]
        return significant(sum(gains) / len(gains)) + (" (own play)" if name == "own play" else "")

    return grid("dynamics", heads, sides, cell)


TABLES = (
    *(discrete, coverage, estimated, sizes_of_logs, critics_of_ranks, noise_of_rewards),
    *(ablations, architectures, continuous_states),
)
