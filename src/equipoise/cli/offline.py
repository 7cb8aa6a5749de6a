"""`equipoise offline`: learn a policy for many agents from a log of actions and rewards."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

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


@dataclass(frozen=True)
class Columns:
    """Options for reading a .csv or .parquet file."""

    # -- log format

    #: Column that names the agent of a row, in a long table. Default: the table is wide.
    agent: Annotated[str | None, tyro.conf.arg(metavar="COLUMN")] = None
    #: Column that contains the time of a row, in a long table. Default: the table is
    #: wide.
    time: Annotated[str | None, tyro.conf.arg(metavar="COLUMN")] = None
    #: Column of the actions in a long table, or prefix of such columns in a wide table. Default:
    #: action, in a wide table.
    action: Annotated[str | None, tyro.conf.arg(metavar="COLUMN")] = None
    #: Column of the rewards in a long table, or prefix of such columns in a wide table. Default:
    #: reward, in a wide table.
    reward: Annotated[str | None, tyro.conf.arg(metavar="COLUMN")] = None
    #: Column with a context that all agents see before they act. Repeat the flag for more. Default:
    #: none.
    context: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="COLUMN"), tyro.conf.UseAppendAction
    ] = ()
    #: Bin numeric actions into this number of quantiles, or at edges such as 1,2.5,4. Default: no
    #: bins. Required for more than 12 distinct numbers, unless --continuous is given.
    bins: Annotated[str | None, tyro.conf.arg(metavar="INT|LIST")] = None
    #: Bin numeric contexts into this number of quantiles, or at edges. Default: remove their linear
    #: effect from the rewards, or bin them if a test finds that they change what actions earn.
    context_bins: Annotated[str | None, tyro.conf.arg(metavar="INT|LIST")] = None
    #: Word that marks a missing entry. Repeat the flag for more. Default: NA, null, none and so on.
    missing: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="WORD"), tyro.conf.UseAppendAction
    ] = ()
    #: Read spellings that differ only in case or white space as one.
    fold: bool = True
    #: Decimal mark of numbers. Default: a comma if semicolons separate entries, and else a point.
    decimal: Literal[".", ","] | None = None
    #: Which number comes first in dates such as 05/01/2023. Default: found from the dates.
    dates: Literal["day-first", "month-first"] | None = None
    #: Keep numeric actions as continuous numbers.
    continuous: bool = False
    #: Engine that reads many files, given as a pattern such as 'logs/*.parquet': this process
    #: (local) or Ray.
    on: Literal["local", "ray"] = "local"
    #: Address of a Ray cluster. Default: start Ray on this machine.
    address: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None

    def read(self, path: str, *, continuous: bool = False) -> Any:
        """Read a log from one file, or from many files."""
        check_suffix("log", Path(path), ".csv", ".parquet", ".npz")
        if any(letter in path for letter in "*?["):
            return self._read_many(path, continuous)
        for name in ("on", "address"):
            if getattr(self, name) not in (None, "local"):
                expected = "a pattern of files, such as 'logs/*.parquet'"
                raise InputError(name, expected, repr(path))
        names = ("agent", "time", "action", "reward", "decimal")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        given["context"] = list(self.context) or None
        given["missing"] = list(self.missing) or None
        given["fold"] = None if self.fold else False
        given["dayfirst"] = None if self.dates is None else self.dates == "day-first"
        for name in ("bins", "context_bins"):
            if (text := getattr(self, name)) is not None:
                try:
                    edges = [float(edge) for edge in text.split(",")]
                except ValueError:
                    raise InputError(name, "a whole number or edges", repr(text)) from None
                given[name] = edges[0] if "," not in text else edges
        given = {name: value for name, value in given.items() if value is not None}
        return eq.offline.Log.read(
            path, **given, **({"continuous": True} if self.continuous or continuous else {})
        )

    def _read_many(self, pattern: str, continuous: bool) -> Any:
        """Read a log from many files, all in the format of `Log.write`."""
        given = replace(self, on="local", address=None)
        if given != COLUMNS or continuous:
            found = "a pattern of files"
            raise InputError("log", "one file with options for its columns", found)
        if self.address is not None and self.on != "ray":
            raise InputError("address", "this option only with --on ray", f"--on {self.on}")
        engine = None if self.on == "local" else eq.runs.engines.Ray(self.address)
        return eq.offline.LogFiles(pattern, on=engine)


@dataclass(frozen=True)
class DrAc:
    """Options of --method dr-ac, the algorithm of the interaction-rank paper."""

    # -- DR-AC (--method dr-ac)

    #: Regulariser that keeps policies near the log's play. Default: chi-squared, as in the paper.
    regulariser: Literal["chi-squared", "kl", "l2"] | None = None
    #: How the values of actions are computed in the fitted model: exact, or monte-carlo (the
    #: paper's Algorithm 2). Default: exact.
    values: Literal["exact", "monte-carlo"] | None = None
    #: Number of simulations in each iteration. Only with --values monte-carlo. Default: 256.
    simulations: int | None = None
    #: Where the number of iterations, the step size and the strength come from: practical values
    #: (corrected), or Theorems 3 and 4 (printed), which are for rewards in [0, 1].
    #: --iterations, --step and --strength replace single ones. Default: corrected.
    parameters: Literal["corrected", "printed"] | None = None
    #: Mean squared error of the fitted rewards, on which the printed parameters depend. Default:
    #: estimated. Required for games with states.
    error: float | None = None

    def options(self) -> dict[str, Any]:
        """Return the options that were set, by the names of `offline.dr_ac`.

        >>> DrAc(values="monte-carlo").options()
        {'critic': 'monte-carlo'}
        """
        check_counts(simulations=self.simulations)
        if self.simulations is not None and self.values != "monte-carlo":
            expected = "this option only with --values monte-carlo"
            raise InputError("simulations", expected, self.simulations)
        given = {"critic" if k == "values" else k: v for k, v in vars(self).items()}
        return {name: value for name, value in given.items() if value is not None}


DrAcOptions = tyro.conf.OmitArgPrefixes[DrAc]
DR_AC = DrAc()

ColumnOptions = tyro.conf.OmitArgPrefixes[Columns]
COLUMNS = Columns()


@dataclass(frozen=True)
class Offline:
    """Learn a near-equilibrium from a log and bound what any agent could gain.

    The command chooses a reward model (see `equipoise discover`), fits it, learns a policy for
    every agent that stays close to the actions the log covers, and evaluates it on held-out rows.
    It first prints the advice: what each agent should play, what the agent earned, and what it can
    expect. The run folder contains policy.csv (the advice) and an HTML report.

    A log is a .csv or .parquet file. A long table has the columns that --agent, --time, --action,
    --reward and --context name. A wide table has columns action_NAME and reward_NAME. Agents,
    actions and contexts may be words, and agents may be absent at times. An .npz file holds the
    arrays of a Log.

    The exit code is 0 if the status is "learned". It is 1 if the status is "learned, with caution"
    (the advice uses combinations of actions that are rare in the log), "refused" (no reward model
    fits, rewards drift, actions are correlated or were never tried, or there are too few rows) or
    "nothing learned". In the last two cases there is no policy.csv. The run folder then contains
    own-play.csv, which says how often each agent played each action and is not advice.

    With --method dr-ac, the command runs Algorithm 1 of the interaction-rank paper instead: one fit
    to all rows, and a mixture of all iterates. All numbers are then those of the fitted model, and
    nothing bounds the gains in the logged game.

    For continuous actions, give --continuous, or --critic with the name of a critic. After Ctrl-C,
    run the same command again to resume. `equipoise demo` writes a log to try.

    Examples:
      equipoise offline runs/demo/log/log.npz
      equipoise offline sales.csv --agent seller --time week --action price --reward profit
      equipoise offline bids.parquet --rank 2 --neighbours screen --run runs/bids
      equipoise offline continuous.npz --critic kernel
      equipoise offline log.npz --method dr-ac --rank 2 --parameters printed
      equipoise offline 'logs/*.parquet' --on ray
    """

    #: The log: a .csv, .parquet or .npz file with the actions and rewards of all agents, or a
    #: pattern of .parquet files that hold parts of one log.
    log: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="LOG")]
    columns: ColumnOptions = COLUMNS

    # -- learning

    #: Method: advice with a bound on gains in the logged game (advice), or the algorithm of the
    #: interaction-rank paper (dr-ac).
    method: Literal["advice", "dr-ac"] = "advice"
    #: Class of reward models: an interaction rank (a whole number), or the own action together with
    #: the sum, mean or histogram of the others' actions. "auto" chooses by held-out error.
    rank: Annotated[str, tyro.conf.arg(metavar="auto|INT|sum|mean|histogram")] = "auto"
    #: Agents whose actions may affect an agent's reward: all; screen (those found
    #: by a statistical test); or a number (the strongest ones). "auto" chooses by held-out error.
    neighbours: Annotated[str, tyro.conf.arg(metavar="auto|all|screen|INT")] = "auto"
    #: Weight of the regularisation towards the behaviour policy of the log. Default: set from the
    #: spread of rewards and the size of the log.
    strength: float | None = None
    #: Step size of an iteration. Default: set from the spread of rewards.
    step: float | None = None
    #: Treat actions as continuous and use this critic: kernel (Gaussian processes, the default for
    #: continuous actions and the only one with a bound), linear, or a network of the paper, such as
    #: 1-IR-128, 2-IR-64 or joint-2x512.
    critic: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    #: Number of iterations. Default: 300; 200 for games with states; 3000 for networks.
    iterations: int | None = None
    #: Confidence level of the two-sided interval for the largest gain, between 0 and 1. Its upper
    #: end is the one-sided bound: level 0.9 gives a 95% bound.
    level: float = 0.9
    #: Learn a policy even if the log is refused. The exit code stays 1.
    force: bool = False
    #: Random seed, a whole number in [0, 2^32).
    seed: int = 0
    dr_ac: DrAcOptions = DR_AC

    # -- output

    #: Run folder. Default: runs/offline, or runs/offline-2 and so on if another run is there.
    run: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Learn, save and print."""
        check_suffix("log", Path(self.log), ".csv", ".parquet", ".npz")
        check_seed(self.seed)
        check_counts(iterations=self.iterations)
        work = self._work()
        if self.run is not None:
            check_folder(self.run)
        log = self.columns.read(self.log, continuous=self.critic is not None)

        def learn(run: Path) -> Any:
            return work(log, key=self.seed, run=run)

        folder, known, solution = in_run_folder(self.run, "offline", learn)
        for warning in solution.stats["warnings"]:
            warnings.warn(warning, stacklevel=2)
        page = write_run_page(folder)
        if page is None:
            told = f"; progress is saved in {folder}; to resume, run the same command again"
            raise Interrupted(f": {solution.status.message}{told}")
        self._show(eq.runs.Record.load(folder), folder, known)
        return 0 if solution.status.ok else 1

    def _work(self) -> Callable[..., Any]:
        """Return the function that learns, with its options; refuse those of the other method."""
        options: dict[str, Any] = {
            "rank": _number("rank", self.rank, "auto", "sum", "mean", "histogram"),
            "neighbours": _number("neighbours", self.neighbours, "auto", "all", "screen"),
            "strength": self.strength,
            "step": self.step,
            "iterations": self.iterations,
            "force": self.force,
        }
        own = self.dr_ac.options()
        if self.method == "advice":
            for name, value in vars(self.dr_ac).items():
                if value is not None:
                    raise InputError(name, "this option only with --method dr-ac", value)
            return partial(eq.advise, critic=self.critic, level=self.level, **options)
        for name, usual in (("critic", None), ("level", 0.9)):
            if getattr(self, name) != usual:
                found = getattr(self, name)
                raise InputError(name, "this option only without --method dr-ac", found)
        options["neighbours"] = None if self.neighbours == "auto" else options["neighbours"]
        return partial(eq.offline.dr_ac, **options, **own)

    def _show(self, record: "eq.runs.Record", folder: Path, known: bool) -> None:
        if self.common.json:
            where = {"folder": str(folder), "report": str(folder / PAGE)}
            print_json({**where, "read_from_disk": known, **record_document(record)})
            return
        tables, stats = eq.report.tables_of(record), (record.solution or {})["stats"]
        titles = {"advice": "advice", "own play": "the log's own play; this is not advice"}
        first = next((name for name in (*titles, "agents") if name in tables), None)
        if first is not None:
            print_table(cut(tables[first]), titles.get(first, first))
        counts = sorted(set(stats["actions"]))
        alone, interval = stats.get("single_action", []), stats.get("own_interval")
        facts = {
            "status": eq.report.status_of(record),
            "largest gain": stats["gap"]["text"] if "gap" in stats else None,
            "largest gain, log's own play": interval and _interval(interval),
            "agents with a single action": ", ".join(eq.report.agents_of(record, alone[:10]))
            or None,
        }
        print_pairs(list(facts.items()))
        advice, own = folder / "policy.csv", folder / "own-play.csv"
        titles = {"classes": "structure", "interactions": "strongest interactions"}
        for name, title in titles.items():
            if name in tables:
                print_table(cut(tables[name]), title)
        facts = {
            "log": "\n".join(stats.get("notes", ())) or None,
            "agents": stats["agents"],
            "samples": stats["samples"],
            "actions of an agent": " to ".join(str(n) for n in {*counts[:1], *counts[-1:]}) or None,
            "samples per parameter": stats.get("samples_per_parameter"),
            "parameters": _parameters(stats),
            "concept": eq.report.CONCEPTS[eq.report.certificate_of(record).concept],
            "run folder": f"{folder} (finished earlier; read from disk)" if known else folder,
            "policy": advice if advice.exists() else None,
            "log's own play": own if own.exists() else None,
            "report": folder / PAGE,
        }
        print_pairs(list(facts.items()))


def _number(argument: str, text: str, *words: str) -> int | str:
    """Read one of the given words, or a whole number."""
    if text in words:
        return text
    if not text.isdigit():
        raise InputError(argument, f"{' or '.join(words)} or a whole number", repr(text))
    return int(text)


def _interval(ends: Any) -> str:
    """Format an interval; without an upper end, the gain is unknown."""
    return f"[{ends[0]:.4g}, {ends[1]:.4g}]" if isfinite(ends[1]) else "unknown"


def _parameters(stats: Any) -> str | None:
    """Describe the parameters of DR-AC; None for other methods."""
    if "regulariser" not in stats:
        return None
    told = f"{stats['iterations']} iterations, step {stats['step']:.3g}, strength "
    told += f"{stats['strength']:.3g} ({stats['parameters']})"
    told += f", from an error of {stats['error']:.3g}" if "error" in stats else ""
    return f"{told}; regulariser {stats['regulariser']}, {stats['critic']} values of actions"
