"""`equipoise demo`: the library at work, in three acts, with a report at the end."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from equipoise.cli._errors import refusing
from equipoise.cli._flags import COMMON, CommonOptions, Count, check_counts, check_seed

if TYPE_CHECKING:
    from equipoise.demo import Act
    from equipoise.runs import Record


@dataclass(frozen=True)
class Demo:
    """Show the library at work in three acts, each with its certificate, and report.

    A player trained once meets games it has never seen; a log of many agents becomes a
    near-equilibrium; a city of a hundred thousand gets its best one. Every act is a run folder. A
    demo that was interrupted goes on where it stopped when the command is given again; one that
    is complete is played anew.

    Examples:
      equipoise demo
      equipoise demo --run runs/more --games 256
    """

    #: Where the runs and report.html go.
    run: Path = Path("runs/demo")
    #: How many unseen games the first act plays.
    games: Count = 64
    #: Where its randomness begins.
    seed: int = 0
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Play the acts, write the report; returns whether all was solved as an exit code."""
        from equipoise.cli._output import print_json, print_table
        from equipoise.demo import ACTS, Settings, Stage

        check_counts(games=self.games)
        check_seed(self.seed)
        with refusing(folder="--run"):
            stage = Stage(self.run, Settings(games=self.games, seed=self.seed))
        records = {}
        for act in ACTS:
            if not self.common.json:
                print(f"\n{act.heading}", flush=True)
            with refusing():
                run = stage.open(act)
            with run:
                records[act.name] = stage.play(act, run)
            if not self.common.json:
                _print_act(act, records[act.name])
        with refusing():
            report = str(stage.write_page(records))
        solved = all(bool(record.arrays["solved"].all()) for record in records.values())
        table = stage.summary(records)
        if self.common.json:
            acts = [
                {**dict(zip(table.columns, row, strict=True)), **_said(act, records[act.name])}
                for act, row in zip(ACTS, table.rows, strict=True)
            ]
            folder = str(self.run)
            print_json({"folder": folder, "report": report, "solved": solved, "acts": acts})
        else:
            print_table(table)
            print(f"Report: {report}")
        return 0 if solved else 1


def _print_act(act: "Act", record: "Record") -> None:
    """The game, what came of it, the certificate, and the lines that did it."""
    from equipoise.report import certificate_of, format_value

    certificate, said = certificate_of(record), _said(act, record)
    facts = [f"largest gain {format_value(float(certificate.max_gain.max()))}"]
    if certificate.nash_conv.size > 1:
        facts.insert(0, f"mean NashConv {format_value(float(certificate.nash_conv.mean()))}")
    facts.append("exact" if said["exact"] else "not exact")
    first = record.scalars.get("first_seconds")
    compiling = "" if first is None else f" ({format_value(first, 2)} s with compilation)"
    for text in (record.scalars["game"], said["outcome"]):
        print(fill(text, 96, initial_indent="   ", subsequent_indent="   "))
    print(f"   Certificate of a {said['concept']}: {', '.join(facts)}")
    print(f"   Found in {format_value(record.scalars['seconds'], 2)} s{compiling}, with")
    for line in act.code(record.config).splitlines():
        print(f"   >>> {line}")


def _said(act: "Act", record: "Record") -> dict[str, Any]:
    """What the table of all acts has no room for."""
    from equipoise.report import certificate_of, concept_of

    certificate = certificate_of(record)
    return {
        "outcome": act.outcome(record),
        "concept": concept_of(certificate),
        "exact": certificate.exact,
    }
