"""`equipoise discover`: choose the reward model that explains a log, and test the log."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

import equipoise as eq
from equipoise.cli._inputs import check_seed, check_suffix, make_folder_of
from equipoise.cli._main import Interrupted
from equipoise.cli._output import cut, print_json, print_pairs, print_table
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.cli.offline import COLUMNS, ColumnOptions


@dataclass(frozen=True)
class Discover:
    """Choose the reward model that explains a log, and test whether the log suffices.

    Compares classes of reward models by their error on held-out rows: the agent's own action; pairs
    and triples of actions (dense and screened); the own action with the sum, mean or counts of the
    others' actions; and the joint action. Tests the log for drift, correlated actions, actions that
    were never tried, copied rows, and agents that are alike. Lists the pairs and triples of agents
    that interact. The exit code is 1 if nothing should be learned from the log. Ctrl-C shows the
    classes that were compared so far.

    Examples:
      equipoise discover runs/demo/log/log.npz
      equipoise discover sales.csv --agent seller --time week --action price --reward profit
    """

    #: The log: a .csv, .parquet or .npz file with the actions and rewards of all agents.
    log: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="LOG")]
    columns: ColumnOptions = COLUMNS

    # -- output

    #: Write an HTML report with the tables and a figure to this file. Default: no report.
    report: Path | None = None

    # -- comparison

    #: Random seed, a whole number in [0, 2^32).
    seed: int = 0
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Compare, and show."""
        check_seed(self.seed)
        check_suffix("report", self.report, ".html", ".htm")
        log = self.columns.read(self.log)
        try:
            structure = eq.offline.discover(log, key=self.seed)
        except eq.runs.Unfinished as end:
            done = sum(one["error"] is not None for one in end.found["classes"])
            if done and not self.common.json:
                table = eq.report.tables_of(
                    eq.runs.Record(log.name, scalars={"structure": end.found})
                )["classes"]
                print_table(table, "compared so far")
            raise Interrupted(f" after {done} of {len(end.found['classes'])} classes") from end
        found = {"structure": structure.to_plain(), "notes": list(log.notes)}
        record = eq.runs.Record(log.name, scalars={"labels": log.labels.to_plain(), **found})
        if self.report is not None:
            page = eq.report.page_of(record, title=f"Structure of the game in {log.name}")
            page.write(make_folder_of(self.report))
        if self.common.json:
            print_json({"samples": log.samples, "agents": log.agents, **found})
            return int(bool(structure.refusal))
        tables, size = (
            eq.report.tables_of(record),
            f"{log.samples:,} samples of {log.agents:,} agents",
        )
        titles = {"classes": size, "interactions": "who interacts", "coverage": "coverage"}
        for name, title in titles.items():
            if name in tables:
                print_table(cut(tables[name]), title)
        facts = {
            "log": "\n".join(log.notes) or None,
            "refused": structure.refusal or None,
            "warnings": "\n".join(structure.warnings) or None,
            "noise": f"{structure.floor:.1%} of the variance of rewards, by {structure.floor_from}",
            "types of agents": max(structure.types, default=0) + 1,
            "report": self.report,
        }
        print_pairs(list(facts.items()))
        return int(bool(structure.refusal))
