"""The folder of a demo: plays the acts into run folders and writes the page from their records."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.plain import differences, read_json
from equipoise.demo._acts import Act, LogAct, Prologue, Settings
from equipoise.demo._crowd import Crowd
from equipoise.demo._in_context import InContext
from equipoise.report import Report, certificate_of, concept_of
from equipoise.runs import Record, Run, Table, progress

#: The demo in order: a prologue and three acts, one for each structure.
ACTS: tuple[Act, ...] = (Prologue(), InContext(), LogAct(), Crowd())
_PAGE = "report.html"


class Stage:
    """The folder of a demo: a run folder for each act, and the page about them.

    The folder must be new, empty, or that of an earlier demo. An interrupted demo continues if its
    settings are the same; a complete one is played again. Any other folder is refused before an act
    is played, with a `ValueError` that says what to do.

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
        records = (self.folder / act.name / "record.json" for act in ACTS)
        if (self.folder / _PAGE).exists() and all(record.exists() for record in records):
            # All at once, so that a demo interrupted now has the new settings everywhere.
            (self.folder / _PAGE).unlink()
            for act in ACTS:
                Run.restart(self.folder / act.name, act.config(settings)).close()
                # The act's session begins when the act does.
                (self.folder / act.name / "environment.json").unlink()
        self._check_acts()
        self.folder.mkdir(parents=True, exist_ok=True)

    def open(self, act: Act) -> Run:
        """Open the run folder of an act, new or to be continued."""
        return Run.start(self.folder / act.name, act.config(self.settings))

    def play(self, act: Act, run: Run) -> Record:
        """Play an act unless it was played, and show its progress in a line on a terminal."""
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

    def summary(self, records: Mapping[str, Record]) -> Table:
        """Table of the certified gains and the seconds of each act."""
        rows = []
        for act in ACTS:
            record = records[act.name]
            certificate = certificate_of(record)
            # An act that ran once includes compilation in its only call.
            again = record.scalars["seconds"] if "first_seconds" in record.scalars else None
            seconds = (record.scalars.get("first_seconds", record.scalars["seconds"]), again)
            gains = (float(certificate.max_gain.mean()), float(certificate.max_gain.max()))
            rows.append((act.number, certificate.nash_conv.size, *gains, *seconds))
        columns = ("act", "games", "mean max gain", "max gain", "first call, s", "again, s")
        return Table(columns, rows)

    def write_page(self, records: Mapping[str, Record]) -> Path:
        """Write the page about the records of all acts, and return its path."""
        sessions = read_json(self.folder / ACTS[0].name / "environment.json", "sessions")
        options = f"--games {self.settings.games} --seed {self.settings.seed}"
        page = Report(
            "equipoise: a demonstration",
            "Games of many self-interested agents are intractable in general and tractable with "
            "structure. Three acts show three structures. Each ends with a certificate, computed "
            "from the game alone, of how much any player could still gain by deviating.",
        )
        page.table(self.summary(records), digits=3)
        for act in ACTS:
            _add_act(page, act, records[act.name])
        command = f"equipoise demo --run {self.folder} {options}"
        page.reproduce(command, sessions["sessions"][-1]).write(self.folder / _PAGE)
        return self.folder / _PAGE

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
            wanted = "a new or empty folder, or that of a demo of this version"
            found = f"{', '.join(other[:3])}{more} in {self.folder}"
            raise InputError("folder", wanted, found, "choose another folder")

    def _check_acts(self) -> None:
        """Refuse a folder with acts that cannot be continued."""
        for act in ACTS:
            place = self.folder / act.name
            if not place.exists():
                continue
            if not (place / "config.json").exists():
                if any(place.iterdir()):
                    wanted = f"a run folder, or no files, in {place}"
                    raise InputError("folder", wanted, "other files", "choose another folder")
                continue
            found = differences(read_json(place / "config.json"), act.config(self.settings))
            if found:
                wanted = "an unfinished demo of the same settings and version"
                values = f"other values of {', '.join(found)} in {place}"
                advice = f"choose another folder, or remove {self.folder}"
                raise InputError("folder", wanted, values, advice)
            if (place / "record.json").exists():
                Record.load(place)  # finds a broken record before anything is played


def _add_act(page: Report, act: Act, record: Record) -> None:
    """Add an act to the page, ending with its certificate and its lines of Python."""
    certificate = certificate_of(record)
    page.section(act.heading)
    page.text(act.text("lead", record))
    act.show(page, record)
    page.text(act.outcome(record))
    page.text("The certificate:")
    games = certificate.nash_conv.size
    facts: dict[str, Any] = {
        "concept": concept_of(certificate),
        "largest gain of any player": float(np.max(certificate.max_gain)),
    }
    if games > 1:
        facts["mean NashConv"] = float(np.mean(certificate.nash_conv))
    facts |= {"players": certificate.players, "games": games, "exact": certificate.exact}
    page.facts(facts)
    page.text(f"Method of the certificate: {certificate.method}.")
    page.text("The lines of Python that computed it:")
    page.code(act.code(record.config))
    page.config(record.config)
