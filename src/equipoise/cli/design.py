"""`equipoise design`: find the charges that lead a crowd to the best equilibrium."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

import equipoise as eq
from equipoise.cli._inputs import (
    check_counts,
    check_suffix,
    check_tolerance,
    find_game,
    make_folder_of,
    setting,
)
from equipoise.cli._main import Interrupted
from equipoise.cli._output import cut, print_certificate, print_json, print_pairs, print_table
from equipoise.cli._parsing import COMMON, CommonOptions, Game, Settings
from equipoise.core.errors import InputError

Charges = Annotated[
    tuple[str, ...], tyro.conf.arg(metavar="ACTION=[LOW,HIGH]"), tyro.conf.UseAppendAction
]


@dataclass(frozen=True)
class Design:
    """Find tolls or subsidies on actions that lead to the best equilibrium of a crowd.

    Each --charge names an action, by its label or number, and the lowest and highest charge in
    units of reward. Negative charges are subsidies. At most three actions can be charged. The exit
    code is 0 if the equilibrium under the best charges meets its tolerance, and 1 otherwise.

    Examples:
      equipoise design two-roads --charge motorway=[0,0.4]
      equipoise design two-roads --set agents=1000 --charge 0=[-0.2,0.4] --report design.html
    """

    ARGUMENTS: ClassVar = {"parameters": "--charge"}

    #: The crowd (an aggregative game): a name that `equipoise games` lists, a file, or
    #: MODULE:OBJECT such as mine.py:crowd, whose code is run.
    game: Game

    # -- search

    #: An action with its lowest and highest charge, in units of reward. Repeat the flag for more.
    charge: Charges = ()
    #: Objective of the search: welfare (the mean reward before charges) or egalitarian (the
    #: smallest reward of any agent, after charges).
    objective: Literal["welfare", "egalitarian"] = "welfare"
    #: Number of times the grid of charges is refined around the best ones.
    rounds: int = 5
    #: Largest gain allowed for any agent, in units of reward. Default: as in `equipoise solve`.
    tolerance: float | None = None

    # -- output

    #: Write an HTML report with the outcome as a function of the charges to this file. Default:
    #: no report.
    report: Path | None = None

    # -- game

    #: Set a parameter of a named game, or of the function of MODULE:OBJECT, such as size=10.
    #: Repeat the flag for more.
    set: Settings = ()
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Search, show."""
        check_tolerance(self.tolerance)
        check_counts(0, rounds=self.rounds)
        check_suffix("report", self.report, ".html", ".htm")
        game = find_game(self.game, self.set)
        if game.kind != "aggregative":
            raise InputError("game", "a crowd without states", f"a {game.describe()}")
        boxes = dict(_box(text) for text in self.charge)
        if not boxes:
            raise InputError("charge", "at least one action, such as --charge 0=[0,1]", "none")
        options: dict[str, Any] = {"rounds": self.rounds}
        options |= {} if self.tolerance is None else {"tolerance": self.tolerance}
        design = eq.aggregative.design(game, boxes, self.objective, **options)
        record = design.record()
        if self.report is not None:
            eq.report.page_of(record).write(make_folder_of(self.report))
        if self.common.json:
            document = {"game": self.game, "charges": design.parameters, "outcome": design.outcome}
            names = ("outcome", "gain", "met")
            tried = [one[0] | dict(zip(names, one[1:], strict=True)) for one in design.tried]
            print_json({**document, "tried": tried, "solution": design.solution.to_plain()})
        else:
            print_table(cut(record.tables["tried"]), "Charges tried, the best first")
            facts: list[tuple[str, Any]] = [
                *((f"best charge, {name}", value) for name, value in design.parameters.items()),
                (f"outcome, {self.objective}", design.outcome),
                ("status", str(design.status)),
            ]
            print_certificate(design.solution.certificate, game.labels.to_plain(), facts)
            print_pairs([("report", self.report)])
        if design.status.name == "interrupted":
            raise Interrupted("; the charges above are the best so far")
        return 0 if design.status.ok else 1


def _box(text: str) -> tuple[Any, tuple[float, float]]:
    """Read the action and the interval in "motorway=[0,0.4]". An action may be a number.

    >>> _box("motorway=[0,0.4]"), _box("1=[-1,1]")
    (('motorway', (0, 0.4)), (1, (-1, 1)))
    """
    name, box = setting(text, "charge")
    if not isinstance(box, list) or len(box) != 2:
        raise InputError("charge", "ACTION=[LOW,HIGH]", repr(text))
    return int(name) if name.isdigit() else name, (box[0], box[1])
