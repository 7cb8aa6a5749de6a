"""Tables of the page about aggregative games, each a function of records."""

from typing import Any

from equipoise.runs import Record
from reproduction import rows_of
from reproduction._page_tables import Grid, general, grid, pick, significant


def plans(record: Record) -> Grid:
    """Gaps, bounds and seconds of plans in Markov games, against the number of agents."""
    rows = rows_of(record.tables["markov"])
    agents = sorted({row["agents"] for row in rows})
    heads = {f"n={n}" if n == agents[0] else f"{n:,}": n for n in agents}
    sides = {
        "Algorithm 2 as printed": ("printed", "gap"),
        "its bound (Theorem 4.1)": ("printed", "bound"),
        "Algorithm 1 as printed": ("printed, state-wise", "gap"),
        "its bound (Theorem 3.1)": ("printed, state-wise", "bound"),
        "ours, best welfare": ("welfare", "gap"),
        "our bound (Lemma B)": ("welfare", "bound"),
        "ours, any equilibrium": ("regret", "gap"),
        "our bound": ("regret", "bound"),
        "seconds, printed Algorithm 2": ("printed", "seconds"),
        "seconds, ours, any equilibrium": ("regret", "seconds"),
    }

    def cell(side: tuple[str, str], at: int) -> str:
        row = pick(rows, form=side[0], agents=at)
        return "" if row is None else significant(row[side[1]])

    return grid("", heads, sides, cell)


_GAMES = {
    "two roads": "two-roads",
    "El Farol": "el-farol",
    "Cournot": "cournot",
    "public good": "public-good",
    "beauty contest": "beauty-contest",
}


def cost_of_equilibrium(record: Record) -> Grid:
    """Rewards at the optimum and at the best and worst equilibria, and their ratios."""
    rows = rows_of(record.tables["welfare"])
    heads = {
        "optimum": "optimum",
        "best ε-equilibrium found": "best ε-equilibrium found",
        "its ε": "ε of the best",
        "worst ε-equilibrium found": "worst ε-equilibrium found",
        "its ε (worst)": "ε of the worst",
        "price of stability": "price of stability",
        "price of anarchy": "price of anarchy",
    }

    def cell(game: str, name: str) -> str:
        row: Any = pick(rows, game=game)
        return "–" if row[name] is None else general(row[name], 3)

    table = grid("", heads, _GAMES, cell)
    return [[head.removesuffix(" (worst)") for head in table[0]], *table[1:]]


_LEARNERS = {
    "known rewards, any equilibrium": "known",
    "known rewards, best welfare": "known, welfare",
    "Algorithm 3 as printed": "printed",
    "unknown rewards, pooled, scouts": "unknown, scouts",
    "unknown rewards, pooled": "unknown, pooled",
    "unknown rewards, each agent alone": "unknown, each alone",
    "unknown rewards, best welfare": "unknown, welfare",
    "unknown rewards, scouts, noise 0.3": "unknown, noise 0.3",
}


def learners(record: Record) -> Grid:
    """Gaps, bounds and widths of learners after some numbers of episodes."""
    rows = rows_of(record.tables["results"])
    heads: dict[str, tuple[str, int]] = {
        "gap, K=10": ("gap", 10),
        "K=100": ("gap", 100),
        "K=1000": ("gap", 1000),
        "bound, K=100": ("bound", 100),
        "K=1000 ": ("bound", 1000),
        "width, K=100": ("certificate", 100),
        "K=1000  ": ("certificate", 1000),
    }

    def cell(learner: str, at: tuple[str, int]) -> str:
        row = pick(rows, learner=learner, episodes=at[1])
        return "" if row is None else significant(row[at[0]])

    table = grid("learner", heads, _LEARNERS, cell)
    return [[head.rstrip() for head in table[0]], *table[1:]]


def regret(record: Record) -> Grid:
    """Mean gaps of the policies played by Algorithm 3, and claims about them that are wrong."""
    rows = rows_of(record.tables["results"])
    marks = (100, 1000, 10_000)
    head = ["", "mean gap, K=100", "K=1,000", "K=10,000", "gap returned", "certificate"]
    table = [[*head, "values outside"]]
    forms = {
        "as printed": "printed",
        "with rewards in [0, 1]": "printed-rescaled",
        "corrected": "corrected",
    }
    bounds: list[str] = []
    for label, form in forms.items():
        own = [row for n in marks if (row := pick(rows, form=form, episodes=n)) is not None]
        cells = [general(row["mean gap"]) for row in own]
        cells += [general(own[-1][name]) for name in ("gap", "certificate")]
        outside = "{policies outside:,} of {policies:,}".format(**own[-1])
        table.append([label, *cells, outside])
        bounds = [general(row["bound of Theorem 5.1"]) for row in own]
    return [*table, ["bound of Theorem 5.1", *bounds, bounds[-1], "", ""]]


def _exact(row: dict[str, Any]) -> str:
    """Return a gap and its bound; gaps below 1e-12 are rounding errors."""
    return f"{general(row['gap'] if row['gap'] > 1e-12 else 0.0)} / {general(row['bound'])}"


def coordinates(record: Record, what: str) -> Grid:
    """Gaps and bounds of plans or learners, and seconds or widths, for one to three coordinates."""
    rows = rows_of(record.tables[what])
    plans = {"Algorithm 2 as printed": "printed", "ours, best welfare": "welfare"}
    sides: dict[str, dict[str, Any]]
    if what == "planning":
        plans["ours, any equilibrium"] = "regret"
        sides = {label: {"form": form, "agents": 1000} for label, form in plans.items()}
        last, more = "seconds", "seconds"
    else:
        sides = {
            "known rewards, 50 agents": {"learner": "known", "agents": 50},
            "known rewards, 500 agents": {"learner": "known", "agents": 500},
            "unknown rewards, 50 agents": {"learner": "unknown, scouts", "agents": 50},
        }
        last, more = "certificate", "width"
    table = [["", "d=1", "d=2", "d=3", f"{more}, d=1", "d=2", "d=3"]]
    for label, wanted in sides.items():
        own = [row for d in (1, 2, 3) if (row := pick(rows, **wanted, dimensions=d)) is not None]
        table.append([label, *map(_exact, own), *(general(row[last]) for row in own)])
    return table


TABLES = (plans, cost_of_equilibrium, learners, regret, coordinates)
