"""Plays the acts of the demo into run folders, and makes the page from their records."""

from pathlib import Path
from typing import Any

import numpy as np

from equipoise.cli._acts import ACTS, Act, Settings
from equipoise.cli._errors import refusing
from equipoise.cli._output import print_json, print_table
from equipoise.cli._pages import certificate_of
from equipoise.report import Report, format_value
from equipoise.runs import Record, Run, Table, progress
from equipoise.runs.plain import read_json


def perform(folder: Path, settings: Settings, *, json: bool = False) -> int:
    """Play all acts, write `report.html`, print what was found; returns the exit code."""
    complete = (folder / "report.html").exists() and all(
        (folder / act.name / "record.json").exists() for act in ACTS
    )
    records: dict[str, Record] = {}
    with progress("demo", total=len(ACTS)) as bar:
        for act in ACTS:
            records[act.name] = _play(act, folder / act.name, settings, anew=complete)
            if not json:
                _print_act(act, records[act.name])
            bar.advance(act=act.name)
    summary = _summary(records)
    with refusing():
        environment = read_json(folder / ACTS[0].name / "environment.json", "sessions")
        _page(folder, settings, records, summary, environment["sessions"][-1]).write(
            folder / "report.html"
        )
    solved = all(bool(np.all(record.arrays["solved"])) for record in records.values())
    report = str(folder / "report.html")
    if json:
        acts = [dict(zip(summary.columns, row, strict=True)) for row in summary.rows]
        print_json({"folder": str(folder), "report": report, "solved": solved, "acts": acts})
    else:
        print_table(summary)
        print(f"Report: {report}")
    return 0 if solved else 1


def _play(act: Act, folder: Path, settings: Settings, *, anew: bool) -> Record:
    config = act.config(settings)
    begin = Run.restart if anew else Run.start
    with refusing():
        run = begin(folder, config)
    with run:
        if run.finished:
            with refusing():
                return run.record()
        record = act.play(config, run)
        run.log(1, act=act.name, max_gain=_worst(record), seconds=record.scalars["seconds"])
        return run.finish(record)


def _page(
    folder: Path,
    settings: Settings,
    records: dict[str, Record],
    summary: Table,
    environment: dict[str, Any],
) -> Report:
    page = Report(
        "equipoise: a demonstration",
        "Games of many self-interested agents are hopeless in general, and tractable with "
        "structure. Three structures in three acts; each ends with a certificate, computed from "
        "the game alone, of how much any player could still gain by leaving the policy.",
    )
    page.table(summary, digits=3)
    for act in ACTS:
        record = records[act.name]
        page.section(act.heading)
        act.show(page, record)
        _add_certificate(page, record)
        page.text("The lines that did it:")
        page.code(act.code(record.config))
        page.config(record.config)
    options = f"--games {settings.games} --seed {settings.seed}"
    return page.reproduce(f"equipoise demo --run {folder} {options}", environment)


def _add_certificate(page: Report, record: Record) -> None:
    """What an act ends with."""
    certificate = certificate_of(record)
    games = certificate.nash_conv.size
    page.text("The certificate:")
    facts: dict[str, Any] = {"largest gain of anybody": _worst(record)}
    if games > 1:
        facts["mean NashConv"] = float(np.mean(certificate.nash_conv))
    facts |= {"players": certificate.players, "games": games, "exact": certificate.exact}
    page.facts(facts)
    page.text(f"How it was found: {certificate.method}.")


def _summary(records: dict[str, Record]) -> Table:
    rows = []
    for act in ACTS:
        record = records[act.name]
        certificate = certificate_of(record)
        games = certificate.nash_conv.size
        # What was done once was compiled and done in the first call.
        again = record.scalars["seconds"] if "first_seconds" in record.scalars else None
        seconds = (record.scalars.get("first_seconds", record.scalars["seconds"]), again)
        gains = (float(certificate.max_gain.mean()), _worst(record))
        rows.append((act.heading.split(":")[0], games, *gains, *seconds))
    columns = ("act", "games", "mean max gain", "max gain", "first call, s", "again, s")
    return Table(columns, rows)


def _worst(record: Record) -> float:
    return float(np.max(certificate_of(record).max_gain))


def _print_act(act: Act, record: Record) -> None:
    print(f"\n{act.heading}\n   {record.scalars['game']}")
    seconds, first = record.scalars["seconds"], record.scalars.get("first_seconds")
    compilation = "" if first is None else f" ({format_value(first, 2)} s with compilation)"
    certificate = certificate_of(record)
    mean = float(certificate.nash_conv.mean())
    over = f"mean NashConv {format_value(mean)}, " if certificate.nash_conv.size > 1 else ""
    print(
        f"   {over}largest gain {format_value(_worst(record))}, "
        f"found in {format_value(seconds, 2)} s{compilation}"
    )
    for line in act.code(record.config).splitlines():
        print(f"   >>> {line}")
