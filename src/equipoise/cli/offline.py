"""`equipoise offline`: a log of what many agents did and earned in, a policy for them out."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

import equipoise as eq
from equipoise.cli._inputs import (
    check_counts,
    check_folder,
    check_seed,
    check_suffix,
    in_run_folder,
)
from equipoise.cli._main import Interrupted
from equipoise.cli._output import (
    PAGE,
    cut,
    print_json,
    print_pairs,
    print_table,
    record_document,
    write_run_page,
)
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.core.errors import InputError
from equipoise.report import CONCEPTS, agents_of, certificate_of, status_of, tables_of
from equipoise.runs import Record


@dataclass(frozen=True)
class Columns:
    """How to read a table of your own: a .csv or .parquet file with columns of any name."""

    #: Long tables: the column that says whose row it is.
    agent: Annotated[str | None, tyro.conf.arg(metavar="COLUMN")] = None
    #: Long tables: the column that says which rows happened together.
    time: Annotated[str | None, tyro.conf.arg(metavar="COLUMN")] = None
    #: The column of actions, or in a wide table how the names of such columns begin.
    action: Annotated[str | None, tyro.conf.arg(metavar="COLUMN")] = None
    #: The column of rewards, or in a wide table how the names of such columns begin.
    reward: Annotated[str | None, tyro.conf.arg(metavar="COLUMN")] = None
    #: A column that all agents see before they choose; give it again for more.
    context: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="COLUMN"), tyro.conf.UseAppendAction
    ] = ()
    #: Put numeric actions into so many quantiles, or between edges such as 1,2.5,4.
    bins: Annotated[str | None, tyro.conf.arg(metavar="INT|LIST")] = None
    #: Keep numeric actions as numbers.
    continuous: bool = False

    def read(self, path: str, *, continuous: bool = False) -> Any:
        """The log of a file."""
        check_suffix("log", Path(path), ".csv", ".parquet", ".npz")
        names = ("agent", "time", "action", "reward")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        given["context"] = list(self.context) or None
        if self.bins is not None:
            try:
                edges = [float(edge) for edge in self.bins.split(",")]
            except ValueError:
                raise InputError("bins", "a whole number or edges", repr(self.bins)) from None
            given["bins"] = edges[0] if "," not in self.bins else edges
        given = {name: value for name, value in given.items() if value is not None}
        return eq.offline.Log.read(
            path, **given, **({"continuous": True} if self.continuous or continuous else {})
        )


ColumnOptions = tyro.conf.OmitArgPrefixes[Columns]
COLUMNS = Columns()


@dataclass(frozen=True)
class Offline:
    """Learn a near-equilibrium from a log, and bound what anybody could gain.

    Finds out what kind of game the log comes from (see `equipoise discover`), fits it, learns a
    policy for every agent that stays near what the log covers, and judges it by rows that it was
    not learned from. The advice comes first: what each agent should play, what it earned, and what
    it can expect. A run folder keeps it, with policy.csv and an HTML report.

    A log is a .csv or .parquet file: long, with the columns that --agent, --time, --action,
    --reward and --context name, or wide, with columns action_NAME and reward_NAME. Agents, actions
    and contexts may be words, and agents may be missing at times. An .npz has the arrays of a Log.

    The exit code is 1 where the log cannot tell: no class of rewards fits, rewards drift, actions
    go together or were never tried, or there are too few rows. The policy is then that of the log.

    Where actions are numbers, networks learn: --critic says which, or "linear" for
    polynomials. Ctrl-C keeps what was done; the run goes on when the command is given again.
    `equipoise demo` leaves a log to try.

    Examples:
      equipoise offline runs/demo/log/log.npz
      equipoise offline sales.csv --agent seller --time week --action price --reward profit
      equipoise offline bids.parquet --rank 2 --neighbours screen --run runs/bids
      equipoise offline continuous.npz --critic 2-IR-64
    """

    #: A .csv, .parquet or .npz file with actions and rewards of all agents.
    log: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="LOG")]
    columns: ColumnOptions = COLUMNS
    #: The class of rewards: an interaction rank, or the own action by an aggregate of the others';
    #: "auto" chooses by held-out error.
    rank: Annotated[str, tyro.conf.arg(metavar="auto|INT|sum|histogram")] = "auto"
    #: Whose actions may matter to an agent: everybody's, those that a test finds, or the strongest
    #: few; "auto" decides by held-out error.
    neighbours: Annotated[str, tyro.conf.arg(metavar="auto|all|screen|INT")] = "auto"
    #: How much staying near the log counts; by the spread of rewards and the size of the log if not
    #: given.
    strength: float | None = None
    #: How far one iteration goes; by the spread of rewards if not given.
    step: float | None = None
    #: Learn from continuous actions, by this critic: linear, or an architecture of the paper, such
    #: as 1-IR-128, 2-IR-64 or joint-2x512.
    critic: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    #: How many iterations; 300, or 200 where there are states, if not given, and of continuous
    #: actions 3000 steps.
    iterations: int | None = None
    #: Confidence of the interval of the gap.
    level: float = 0.9
    #: Learn even where that is refused; the exit code stays 1.
    force: bool = False
    #: Where randomness begins.
    seed: int = 0
    #: The run folder; runs/offline, or runs/offline-2 and so on, if not given.
    run: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Learn, write, show."""
        check_suffix("log", Path(self.log), ".csv", ".parquet", ".npz")
        check_seed(self.seed)
        check_counts(iterations=self.iterations)
        options = {
            "rank": _number("rank", self.rank, "auto", "sum", "histogram"),
            "neighbours": _number("neighbours", self.neighbours, "auto", "all", "screen"),
            "strength": self.strength,
            "step": self.step,
            "critic": self.critic,
            "iterations": self.iterations,
            "level": self.level,
            "force": self.force,
        }
        if self.run is not None:
            check_folder(self.run)
        log = self.columns.read(self.log, continuous=self.critic is not None)

        def learn(run: Path) -> tuple[bool, Any]:
            known = (run / "record.json").exists()
            return known, eq.offline.learn(log, **options, key=self.seed, run=run)

        folder, (known, solution) = in_run_folder(self.run, "offline", learn)
        for warning in solution.stats["warnings"]:
            warnings.warn(warning, stacklevel=2)
        page = write_run_page(folder)
        if page is None:
            told = f"; what was done is kept in {folder}; to go on, give the same command again"
            raise Interrupted(f": {solution.status.message}{told}")
        self._show(Record.load(folder), folder, known)
        return 0 if solution.status.name == eq.Outcome.LEARNED else 1

    def _show(self, record: Record, folder: Path, known: bool) -> None:
        if self.common.json:
            where = {"folder": str(folder), "report": str(folder / PAGE)}
            print_json({**where, "read_from_disk": known, **record_document(record)})
            return
        tables, stats = tables_of(record), (record.solution or {})["stats"]
        first = next((name for name in ("advice", "agents") if name in tables), None)
        if first is not None:
            print_table(cut(tables[first]), first)
        counts = sorted(set(stats["actions"]))
        alone, interval = stats.get("single_action", []), stats.get("own_interval")
        facts = {
            "status": status_of(record),
            "gap": stats["gap"]["text"] if "gap" in stats else None,
            "gap of the log's own play": interval and f"[{interval[0]:.4g}, {interval[1]:.4g}]",
            "agents with a single action": ", ".join(agents_of(record, alone[:10])) or None,
        }
        print_pairs([(name, value) for name, value in facts.items() if value is not None])
        titles = {"classes": "structure", "interactions": "who matters most to whom"}
        for name, title in titles.items():
            if name in tables:
                print_table(cut(tables[name]), title)
        facts = {
            "log": "\n".join(stats.get("notes", ())) or None,
            "agents": stats["agents"],
            "samples": stats["samples"],
            "actions of an agent": " to ".join(str(n) for n in {*counts[:1], *counts[-1:]}) or None,
            "samples per parameter": stats.get("samples_per_parameter"),
            "concept": CONCEPTS[certificate_of(record).concept],
            "run folder": f"{folder} (finished earlier; read, not done again)" if known else folder,
            "policy": folder / "policy.csv" if (folder / "policy.csv").exists() else None,
            "report": folder / PAGE,
        }
        print_pairs([(name, value) for name, value in facts.items() if value is not None])


def _number(argument: str, text: str, *words: str) -> int | str:
    """One of some words, or a whole number."""
    if text in words:
        return text
    if not text.isdigit():
        raise InputError(argument, f"{' or '.join(words)} or a whole number", repr(text))
    return int(text)
