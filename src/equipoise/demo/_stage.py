"""The folder of a demo: plays the acts into run folders, and makes the page from their records."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.plain import differences, read_json
from equipoise.demo._acts import ACTS, Act, Settings
from equipoise.report import Report, certificate_of, concept_of
from equipoise.runs import Record, Run, Table, progress

_PAGE = "report.html"


class Stage:
    """A folder that acts are played in: a run folder for each, and the page about them.

    A new or empty folder, or that of an earlier demo. One that was interrupted goes on, if its
    settings are the same; one that is complete is played anew. Anything else is refused before
    an act is played, with a `ValueError` that says what to do.

    **Example**

    >>> import tempfile
    >>> from equipoise.demo import ACTS, Settings, Stage
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stage = Stage(folder, Settings())
    ...     with stage.open(ACTS[0]) as run:
    ...         record = stage.play(ACTS[0], run)
    >>> float(record.solution["value"].round(6)), record.scalars["as announced"]
    (1.555556, True)
    """

    def __init__(self, folder: str | Path, settings: Settings):
        self.folder, self.settings = Path(folder), settings
        self._check_files()
        if self._complete():
            # All at once: a demo that is interrupted now has the new settings everywhere.
            (self.folder / _PAGE).unlink()
            for act in ACTS:
                Run.restart(self.folder / act.name, act.config(settings)).close()
                # Its session begins when the act does.
                (self.folder / act.name / "environment.json").unlink()
        self._check_acts()
        self.folder.mkdir(parents=True, exist_ok=True)

    def open(self, act: Act) -> Run:
        """The run folder of an act, new or to go on with."""
        return Run.start(self.folder / act.name, act.config(self.settings))

    def play(self, act: Act, run: Run) -> Record:
        """Play an act, unless it was played, with a line on a terminal that tells how far it is."""
        if run.finished:
            return run.record()
        with progress(act.number, total=len(act.steps)) as bar:
            begun = 0

            def tell(step: str) -> None:
                nonlocal begun
                bar.advance(min(begun, 1), now=step)
                begun += 1

            record = act.play(run.config, run, tell)
            bar.advance(1, now="done")
        worst = float(np.max(certificate_of(record).max_gain))
        run.log(1, act=act.name, max_gain=worst)
        return run.finish(record)

    @staticmethod
    def summary(records: Mapping[str, Record]) -> Table:
        """What was certified and how long it took, act by act."""
        rows = []
        for act in ACTS:
            record = records[act.name]
            certificate = certificate_of(record)
            # What was done once was compiled and done in the first call.
            again = record.scalars["seconds"] if "first_seconds" in record.scalars else None
            seconds = (record.scalars.get("first_seconds", record.scalars["seconds"]), again)
            gains = (float(certificate.max_gain.mean()), float(certificate.max_gain.max()))
            rows.append((act.number, certificate.nash_conv.size, *gains, *seconds))
        columns = ("act", "games", "mean max gain", "max gain", "first call, s", "again, s")
        return Table(columns, rows)

    def write_page(self, records: Mapping[str, Record]) -> Path:
        """Write the page about the records of all acts, and return where it is."""
        sessions = read_json(self.folder / ACTS[0].name / "environment.json", "sessions")
        options = f"--games {self.settings.games} --seed {self.settings.seed}"
        page = _page(records).reproduce(
            f"equipoise demo --run {self.folder} {options}", sessions["sessions"][-1]
        )
        page.write(self.folder / _PAGE)
        return self.folder / _PAGE

    def _complete(self) -> bool:
        return (self.folder / _PAGE).exists() and all(
            (self.folder / act.name / "record.json").exists() for act in ACTS
        )

    def _check_files(self) -> None:
        """Refuse a folder that holds anything but a demo."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError("folder", "a folder", f"the file {self.folder}")
        if not self.folder.exists():
            return
        known = {_PAGE, *(act.name for act in ACTS)}
        other = sorted(entry.name for entry in self.folder.iterdir() if entry.name not in known)
        if other:
            more = f" and {len(other) - 3} more" if len(other) > 3 else ""
            raise InputError(
                "folder",
                "a new or empty one, or that of a demo of this version",
                f"{', '.join(other[:3])}{more} in {self.folder}",
                "choose another folder",
            )

    def _check_acts(self) -> None:
        """Refuse a folder with acts that cannot go on."""
        for act in ACTS:
            place = self.folder / act.name
            if not place.exists():
                continue
            if not (place / "config.json").exists():
                if any(place.iterdir()):
                    wanted = f"a run or nothing in {place}"
                    raise InputError("folder", wanted, "other files", "choose another folder")
                continue
            found = differences(read_json(place / "config.json"), act.config(self.settings))
            if found:
                raise InputError(
                    "folder",
                    "an unfinished demo of the same settings and version",
                    f"other values of {', '.join(found)} in {place}",
                    f"choose another folder, or remove {self.folder}",
                )
            if (place / "record.json").exists():
                Record.load(place)  # what is broken is found before anything is played


def _page(records: Mapping[str, Record]) -> Report:
    page = Report(
        "equipoise: a demonstration",
        "Games of many self-interested agents are hopeless in general, and tractable with "
        "structure. Three structures in three acts; each ends with a certificate, computed from "
        "the game alone, of how much any player could still gain by leaving the policy.",
    )
    page.table(Stage.summary(records), digits=3)
    for act in ACTS:
        record = records[act.name]
        page.section(act.heading)
        act.show(page, record)
        page.text(act.outcome(record))
        _add_certificate(page, record)
        page.text("The lines that did it:")
        page.code(act.code(record.config))
        page.config(record.config)
    return page


def _add_certificate(page: Report, record: Record) -> None:
    """What an act ends with."""
    certificate = certificate_of(record)
    games = certificate.nash_conv.size
    page.text("The certificate:")
    facts: dict[str, Any] = {
        "concept": concept_of(certificate),
        "largest gain of anybody": float(np.max(certificate.max_gain)),
    }
    if games > 1:
        facts["mean NashConv"] = float(np.mean(certificate.nash_conv))
    facts |= {"players": certificate.players, "games": games, "exact": certificate.exact}
    page.facts(facts)
    page.text(f"How it was found: {certificate.method}.")
