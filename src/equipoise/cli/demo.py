"""`equipoise demo`: show the library in three acts and write a report."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, ClassVar

import equipoise as eq
from equipoise.cli._inputs import check_counts, check_seed
from equipoise.cli._output import print_json, print_table
from equipoise.cli._parsing import COMMON, CommonOptions

if TYPE_CHECKING:
    from equipoise.demo import Act


@dataclass(frozen=True)
class Demo:
    """Show the library in three acts, each with a certificate, and write a report.

    First, a pre-trained player plays games that it has never seen. Second, a near-equilibrium is
    learned from a log of many agents. Third, the best equilibrium of a city of a hundred thousand
    agents is computed. Every act writes a run folder. Run the command again to resume an
    interrupted demo; a finished demo starts again from the beginning.

    Examples:
      equipoise demo
      equipoise demo --run runs/more --games 256
    """

    ARGUMENTS: ClassVar = {"folder": "--run"}

    # -- output

    #: Folder for the run folders and report.html.
    run: Path = Path("runs/demo")

    # -- play

    #: Number of unseen games that the first act plays.
    games: int = 64
    #: Random seed, a whole number in [0, 2^32).
    seed: int = 0
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Play the acts and write the report; exit code 0 means that every act met its aim."""
        from equipoise.demo import ACTS, Settings, Stage

        check_counts(games=self.games)
        check_seed(self.seed)
        stage = Stage(self.run, Settings(games=self.games, seed=self.seed))
        records = {}
        for act in ACTS:
            if not self.common.json:
                print(f"\n{act.heading}", flush=True)
            with stage.open(act) as run:
                records[act.name] = stage.play(act, run)
            if not self.common.json:
                _print_act(act, records[act.name])
        report, table = str(stage.write_page(records)), stage.summary(records)
        solved = all(record.scalars["as announced"] for record in records.values())
        if self.common.json:
            rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
            said = [_said(act, records[act.name]) for act in ACTS]
            acts = [row | more for row, more in zip(rows, said, strict=True)]
            folder = str(self.run)
            print_json({"folder": folder, "report": report, "solved": solved, "acts": acts})
        else:
            print_table(table)
            print(f"Report: {report}")
        return 0 if solved else 1


def _print_act(act: "Act", record: "eq.runs.Record") -> None:
    """Print the game, the outcome, the certificate, and the code of an act."""
    certificate, said = eq.report.certificate_of(record), _said(act, record)
    facts = [f"largest gain {eq.report.format_value(float(certificate.max_gain.max()))}"]
    if certificate.nash_conv.size > 1:
        facts.insert(
            0, f"mean NashConv {eq.report.format_value(float(certificate.nash_conv.mean()))}"
        )
    facts.append("exact" if said["exact"] else "not exact")
    first = record.scalars.get("first_seconds")
    compiling = "" if first is None else f" ({eq.report.format_value(first, 2)} s with compilation)"
    for text in (record.scalars["game"], said["outcome"]):
        print(fill(text, 96, initial_indent="   ", subsequent_indent="   "))
    print(f"   Certificate of a {said['concept']}: {', '.join(facts)}")
    print(f"   Found in {eq.report.format_value(record.scalars['seconds'], 2)} s{compiling}, with")
    for line in act.code(record.config).splitlines():
        print(f"   >>> {line}")


def _said(act: "Act", record: "eq.runs.Record") -> dict[str, Any]:
    """Return the facts about an act that do not fit into the table of all acts."""
    certificate = eq.report.certificate_of(record)
    concept = eq.report.concept_of(certificate)
    return {"outcome": act.outcome(record), "concept": concept, "exact": certificate.exact}
