"""`equipoise offline`: a log of what many agents did and earned in, a policy for them out."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

import equipoise as eq
from equipoise.cli._inputs import check_counts, check_seed, check_suffix, in_run_folder
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
    #: How many resampled logs the interval of the gap comes from (20 and more have a confidence
    #: level, fewer a range); 0 for none, 20 if not given.
    bootstrap: int | None = None
    #: Learn even from too little data, or where no rank beats a constant.
    force: bool = False
    #: Where randomness begins.
    seed: int = 0
    #: The run folder; runs/offline, or runs/offline-2 and so on, if not given.
    run: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Learn, write, show."""
        check_suffix("log", Path(self.log), ".parquet", ".npz")
        check_seed(self.seed)
        check_counts(at_least=0, bootstrap=self.bootstrap)
        check_counts(iterations=self.iterations)
        options = {
            "rank": _number("rank", self.rank, "auto"),
            "neighbours": _number("neighbours", self.neighbours, "all", "screen"),
            "strength": self.strength,
            "step": self.step,
            "critic": self.critic,
            "iterations": self.iterations,
            "bootstrap": self.bootstrap,
            "force": self.force,
        }

        def learn(run: Path) -> tuple[bool, Any]:
            known = (run / "record.json").exists()
            return known, eq.offline.learn(self.log, **options, key=self.seed, run=run)

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
        tables = tables_of(record)
        titles = {"ranks": "interaction rank", "interactions": "who matters most to whom"}
        titles |= {"agents": "agents"} if "interactions" not in tables else {}
        for name, title in titles.items():
            if name in tables:
                print_table(cut(tables[name]), title)
        stats = (record.solution or {})["stats"]
        counts = sorted(set(stats["actions"]))
        alone, own = stats.get("single_action", []), stats.get("own_gap")
        facts = {
            "agents": stats["agents"],
            "samples": stats["samples"],
            "actions of an agent": " to ".join(str(n) for n in {*counts[:1], *counts[-1:]}) or None,
            "agents with a single action": ", ".join(agents_of(record, alone[:10])) or None,
            "interaction rank": stats.get("rank"),
            "who matters to whom": None
            if stats.get("interactions") or "rank" not in stats
            else "nobody to anybody else: in the fitted model, rewards have rank 1",
            "samples per parameter": stats.get("samples_per_parameter"),
            "gap": stats["gap"]["text"] if "gap" in stats else None,
            "gap of the log's own play": own and f"{own:.4g} in the fitted model",
            "concept": CONCEPTS[certificate_of(record).concept],
            "status": status_of(record),
            "run folder": f"{folder} (finished earlier; read, not done again)" if known else folder,
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
