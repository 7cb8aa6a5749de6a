"""`equipoise discover`: what kind of game a log comes from, and whether the log can tell."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

import equipoise as eq
from equipoise.cli._inputs import check_seed, check_suffix
from equipoise.cli._output import print_json, print_pairs, print_table
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.cli.offline import COLUMNS, ColumnOptions
from equipoise.report import page_of, tables_of
from equipoise.runs import Record


@dataclass(frozen=True)
class Discover:
    """Find out what kind of game a log comes from, and whether the log can tell.

    Classes of rewards compete on held-out rows: own action, pairs and triples (dense and screened),
    own action by the sum or the counts of the others' actions, and the joint action. Also looks for
    drift, actions that go together or were never tried, copied rows, and agents who are alike. The
    exit code is 1 where nothing should be learned from the log.

    Examples:
      equipoise discover runs/demo/log/log.npz
      equipoise discover sales.csv --agent seller --time week --action price --reward profit
    """

    #: A .csv, .parquet or .npz file with actions and rewards of all agents.
    log: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="LOG")]
    columns: ColumnOptions = COLUMNS
    #: Write an HTML page with the table and its figure.
    report: Path | None = None
    #: Where randomness begins.
    seed: int = 0
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Compare, and show."""
        check_seed(self.seed)
        check_suffix("report", self.report, ".html")
        log = self.columns.read(self.log)
        structure = eq.offline.discover(log, key=self.seed)
        found = {"structure": structure.to_plain(), "notes": list(log.notes)}
        record = Record(log.name, scalars={"labels": log.labels.to_plain(), **found})
        if self.report is not None:
            page_of(record, title=f"What kind of game is {log.name}?").write(self.report)
        if self.common.json:
            print_json({"samples": log.samples, "agents": log.agents, **found})
            return int(bool(structure.refusal))
        print_table(
            tables_of(record)["classes"], f"{log.samples:,} samples of {log.agents:,} agents"
        )
        facts = {
            "log": "\n".join(log.notes) or None,
            "refused": structure.refusal or None,
            "warnings": "\n".join(structure.warnings) or None,
            "noise": f"{structure.floor:.1%} of the variance of rewards, by {structure.floor_from}",
            "types of agents": max(structure.types, default=0) + 1,
            "report": self.report,
        }
        print_pairs([(name, value) for name, value in facts.items() if value is not None])
        return int(bool(structure.refusal))
