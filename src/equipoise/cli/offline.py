"""`equipoise offline`: a log of what many agents did and earned in, a policy for them out."""

import hashlib
import math
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from equipoise.cli._inputs import check_counts, check_seed, check_suffix, in_run_folder
from equipoise.cli._output import (
    PAGE,
    print_json,
    print_pairs,
    print_table,
    record_document,
    write_run_page,
)
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.core.errors import InputError


@dataclass(frozen=True)
class Offline:
    """Learn a near-equilibrium of many agents from a log, and say what it supports.

    Chooses the interaction rank by held-out error, fits rewards (and transitions, where there are
    states), learns a policy for every agent that stays near what the log covers, and writes a run
    folder: the policies, who matters to whom, and an HTML report. The exit code is 1 where there
    is too little data, for the rank or to tell which rank it is, or where rewards are predicted no
    better than by a constant; the policy is then that of the log.

    Where actions are numbers from -1 to 1, networks learn: --critic says which, or "linear" for
    polynomials. Ctrl-C keeps what was done; the run goes on when the command is given again.
    `equipoise demo` leaves a log to try.

    Examples:
      equipoise offline runs/demo/log/log.npz --rank 2 --bootstrap 0
      equipoise offline bids.parquet --rank 2 --neighbours screen --bootstrap 50 --run runs/bids
      equipoise offline continuous.npz --critic 2-IR-64
    """

    #: A .parquet or .npz file with contexts, actions and rewards of all agents.
    log: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="LOG")]
    #: The interaction rank; "auto" chooses among 1, 2 and 3.
    rank: Annotated[str, tyro.conf.arg(metavar="auto|INT")] = "auto"
    #: Whose actions may matter to an agent: everybody's, those that a test finds, or the strongest
    #: few.
    neighbours: Annotated[str, tyro.conf.arg(metavar="all|screen|INT")] = "all"
    #: How much staying near the log counts (by the spread of rewards and the size of the log).
    strength: float | None = None
    #: How far one iteration goes (by the spread of rewards).
    step: float | None = None
    #: Learn from continuous actions, by this critic: linear, or an architecture of the paper, such
    #: as 1-IR-128, 2-IR-64 or joint-2x512.
    critic: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    #: How many iterations (300, or 200 where there are states; of continuous actions 3000 steps).
    iterations: int | None = None
    #: How many resampled logs the interval of the gap comes from (20 and more have a confidence
    #: level, fewer a range); 0 for none.
    bootstrap: int = 20
    #: Learn even from too little data, or where no rank beats a constant.
    force: bool = False
    #: Where randomness begins.
    seed: int = 0
    #: The run folder (runs/offline, or runs/offline-2 and so on where another run has it).
    run: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Read, select, fit, learn, write, show."""
        self._check()
        if self.critic is not None:
            return self._run_continuous(self.critic)
        config = {k: v for k, v in asdict(self).items() if k not in ("common", "run", "critic")}
        # Another log of the same name is not the log that a record is about.
        config["log_sha256"] = _digest(self.log)
        folder, (record, known) = in_run_folder(
            self.run, "offline", lambda run: self._learn(config, run)
        )
        self._show(record, folder, known)
        return 0 if record.scalars["learned"] else 1

    def _run_continuous(self, critic: str) -> int:
        """The same by networks, from actions that are numbers."""
        from equipoise.cli import _offline_continuous as continuous

        config = {"log": self.log, "critic": critic, "iterations": self.iterations}
        config |= {"seed": self.seed, "log_sha256": _digest(self.log)}
        folder, (record, known) = in_run_folder(
            self.run, "offline", lambda run: continuous.learn(config, run)
        )
        if self.common.json:
            print_json({**_where(folder, known), **record_document(record)})
        else:
            continuous.show(record, f"{folder}{_READ if known else ''}", folder / PAGE)
        return 0 if record.scalars["learned"] else 1

    def _learn(self, config: dict[str, Any], folder: Path) -> tuple[Any, bool]:
        """The record, and whether it was there."""
        from equipoise.runs import Run

        if (folder / "config.json").exists():
            with Run.open(folder, config) as run:  # refuses another run before any work
                if run.finished:
                    return run.record(), True
        # A log that cannot be read leaves no folder behind.
        record = self._record(config)
        with Run.start(folder, config) as run:
            run.finish(record, seconds_before=record.scalars["seconds"])
        write_run_page(folder)
        return record, False

    def _check(self) -> None:
        check_suffix("log", Path(self.log), ".parquet", ".npz")
        if self.rank != "auto" and not (self.rank.isdigit() and int(self.rank) >= 1):
            raise InputError("rank", "auto or a whole number of at least 1", repr(self.rank))
        if self.neighbours not in ("all", "screen") and not self.neighbours.isdigit():
            wanted = "all, screen or a whole number"
            raise InputError("neighbours", wanted, repr(self.neighbours))
        kept = {"rank": "auto", "neighbours": "all", "strength": None, "step": None}
        for name, usual in (kept | {"bootstrap": 20, "force": False}).items():
            if self.critic is not None and getattr(self, name) != usual:
                found = f"--critic {self.critic}, which learns from numbers"
                raise InputError(name, "a log of actions that can be counted with it", found)
        check_seed(self.seed)
        check_counts(at_least=0, bootstrap=self.bootstrap)
        check_counts(iterations=self.iterations)

    def _record(self, config: dict[str, Any]) -> Any:
        """Everything that was found out, as plain data."""
        from equipoise import offline
        from equipoise.runs import Record, progress

        start = time.perf_counter()
        log = offline.Log.read(self.log)
        if log.continuous:
            raise InputError(
                "log",
                "actions that can be counted",
                f"numbers in {self.log}",
                "networks learn from those: give --critic 2-IR-64, or --critic linear for "
                "polynomials",
            )
        alone = _alone(log, self.log)
        neighbours: Any = int(self.neighbours) if self.neighbours.isdigit() else self.neighbours
        if self.rank == "auto":
            ranks = tuple(k for k in (1, 2, 3) if k <= log.agents)
            with progress("choosing the interaction rank"):
                chosen = self._selection(log, ranks, neighbours)
            with progress("fitting rewards"):
                model = offline.fit(log, chosen.chosen, neighbours=neighbours)
            tables = {"ranks": _ranks(chosen)}
        else:
            with progress("fitting rewards"):
                model = offline.fit(log, int(self.rank), neighbours=neighbours)
            with progress("comparing with a constant"):
                chosen = self._judged(log, neighbours)
            tables = {}
        with progress("learning, also from resampled logs" if self.bootstrap else "learning"):
            solution = offline.solve(
                model,
                log,
                selection=chosen,
                strength=self.strength,
                step=self.step,
                iterations=self.iterations,
                bootstrap=self.bootstrap,
                force=self.force,
                key=self.seed,
            )
        return Record(
            Path(self.log).name,
            config,
            _scalars(log, model, solution, time.perf_counter() - start) | {_ALONE: alone},
            _arrays(model, solution),
            tables | {"interactions": _interactions(model), "agents": _agents(model, solution)},
        )

    def _selection(self, log: Any, ranks: tuple[int, ...], neighbours: Any) -> Any:
        from equipoise import offline

        folds = min(10, max(2, log.samples // 2))
        return offline.select_rank(
            log, ranks=ranks, joint=False, neighbours=neighbours, folds=folds, key=self.seed
        )

    def _judged(self, log: Any, neighbours: Any) -> Any:
        """How the rank that was asked for does on held-out rows; None, with a warning, if unknown.

        Of few rows, or of very many features, it is not to be had.
        """
        try:
            return self._selection(log, (int(self.rank),), neighbours)
        except ValueError as error:
            message = f"--rank {self.rank} is not compared with a constant on held-out rows"
            warnings.warn(f"{message}: {error}", stacklevel=2)
            return None

    def _show(self, record: Any, folder: Path, known: bool) -> None:
        from equipoise.cli._mixtures import CONCEPTS

        scalars = record.scalars
        if self.common.json:
            print_json({**_where(folder, known), **record_document(record)})
            return
        if "ranks" in record.tables:
            print_table(record.tables["ranks"], "interaction rank")
        if record.tables["interactions"].rows:
            print_table(record.tables["interactions"], "who matters most to whom")
        where = f"{folder}{_READ if known else ''}"
        print_pairs(
            [
                ("agents", scalars["agents"]),
                ("samples", scalars["samples"]),
                # Folders of earlier versions do not have these.
                *([("actions of an agent", scalars["actions"])] if "actions" in scalars else []),
                *([(_ALONE, scalars[_ALONE])] if scalars.get(_ALONE) else []),
                ("interaction rank", scalars["rank"]),
                *([] if record.tables["interactions"].rows else [_NOBODY]),
                ("samples per parameter", scalars["samples per parameter"]),
                ("gap", scalars["gap, in words"]),
                ("gap of the log's own play", f"{scalars[_OWN]:.4g} in the fitted model"),
                ("concept", CONCEPTS[scalars["concept"]]),
                ("status", scalars["status"]),
                ("run folder", where),
                ("report", str(folder / PAGE)),
            ]
        )


def _where(folder: Path, known: bool) -> dict[str, Any]:
    return {"folder": str(folder), "report": str(folder / PAGE), "read_from_disk": known}


#: What is said instead of a table without rows.
_NOBODY = (
    "who matters to whom",
    "nobody to anybody else: in the fitted model, rewards have rank 1",
)
_READ = " (finished earlier; read, not done again)"
#: The scalar that says how far from an equilibrium the log's own play is.
_OWN = "gap of the log's own play in the fitted model"

#: The scalar that names agents of whom the log shows one action.
_ALONE = "agents with a single action"


def _alone(log: Any, path: str) -> str:
    """The agents of whom a log shows one action alone, which is warned of; refused of all."""
    alone = (log.actions == log.actions[:1]).all(0).nonzero()[0]
    if len(alone) == log.agents:
        raise InputError(
            "log",
            "several actions of some agent",
            f"a single action of every agent in {path}",
            "nothing can be learned about the others; log some variation first",
        )
    names = ", ".join(map(str, alone[:10])) + (", ..." if len(alone) > 10 else "")
    if len(alone):
        several = f"agents {names} play" if len(alone) > 1 else f"agent {names} plays"
        warnings.warn(
            f"LOG: {several} a single action throughout; nothing is known of what others would "
            "earn, and gaps count no deviation to them. The number of actions is the largest one "
            "found plus one, unless `actions_per_agent` declares it: an array of that name in "
            "an .npz, or Log.read(path, actions_per_agent=...).write(path)",
            stacklevel=2,
        )
    return names


def _digest(path: str) -> str:
    """What a log is known by: the hash of its bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _scalars(log: Any, model: Any, solution: Any, seconds: float) -> dict[str, Any]:
    from equipoise import offline

    estimate = solution.stats["estimated_gap"]
    own = offline.estimate_gap(model, model.behaviour)
    low, high = estimate.interval or (None, None)
    few, many = min(log.actions_per_agent), max(log.actions_per_agent)
    return {
        "kind": "offline",
        "agents": log.agents,
        "samples": log.samples,
        "contexts": log.contexts_count,
        "actions": f"{few} to {many}" if few < many else str(many),
        "rank": model.rank,
        "samples per parameter": model.samples_per_parameter,
        "iterations": solution.stats["iterations"],
        "step": solution.stats["step"],
        "strength": solution.stats["strength"],
        "gap over resampled logs, lower": low,
        "gap over resampled logs, upper": high,
        "gap over resampled logs, level": estimate.level,
        "resampled logs": 0 if estimate.resampled is None else len(estimate.resampled),
        "gap in the fitted model": estimate.gap,
        "gap in the fitted model, on support": estimate.on_support,
        "gap in the fitted model, off support": estimate.off_support,
        "gap, in words": str(estimate),
        _OWN: own.gap,
        "largest chi-squared": float(solution.stats["chi_squared"].max()),
        "status": str(solution.status),
        "learned": bool(solution.status.ok),
        "method": solution.certificate.method,
        "exact": bool(solution.certificate.exact),
        "concept": solution.certificate.concept,
        "seconds": seconds,
    }


def _arrays(model: Any, solution: Any) -> dict[str, Any]:
    found = model.interactions
    return {
        "policies": solution.policy.policies,
        "weights": solution.policy.weights,
        "behaviour": model.behaviour,
        "gains": solution.certificate.gains,
        "value": solution.certificate.value,
        "chi_squared": solution.stats["chi_squared"],
        "strength": found.strength,
        "strength_lower": found.lower,
        "strength_upper": found.upper,
        "strength_total": found.total,
    }


def _ranks(selection: Any) -> Any:
    from equipoise.runs import Table

    return Table(
        ("rank", "held-out error", "standard error", "samples per parameter", "note"),
        [
            (str(rank), *map(float, numbers), selection.notes.get(rank, ""))
            for rank, *numbers in zip(
                selection.ranks,
                selection.errors,
                selection.standard_errors,
                selection.samples_per_parameter,
                strict=True,
            )
        ],
    )


def _interactions(model: Any) -> Any:
    from equipoise.runs import Table

    rows = [
        (
            *(str(owner), ", ".join(map(str, group)), strength),
            *(None if math.isnan(end) else end for end in interval),
        )
        for owner, group, strength, *interval in model.interactions.strongest(20)
    ]
    return Table(("reward of", "with", "strength", "lower", "upper"), rows)


def _agents(model: Any, solution: Any) -> Any:
    from equipoise.runs import Table

    gains, value = solution.certificate.gains, solution.certificate.value
    on = solution.stats["estimated_gap"].on_support_gains
    chi = solution.stats["chi_squared"]
    return Table(
        ("agent", "value", "gain in the model", "on support", "largest chi-squared", "noise"),
        [
            (str(i), *(float(column[i]) for column in (value, gains, on, chi, model.noise)))
            for i in range(len(gains))
        ],
    )
