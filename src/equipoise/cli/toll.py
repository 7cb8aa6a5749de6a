"""`equipoise toll`: find tolls on a road network and certify the resulting equilibrium."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

import equipoise as eq
from equipoise.cli._inputs import (
    check_counts,
    check_suffix,
    check_tolerance,
    find_game,
    make_folder_of,
)
from equipoise.cli._main import Interrupted
from equipoise.cli._output import print_json, print_pairs, print_solution
from equipoise.cli._parsing import COMMON, CommonOptions, Game, Settings, Trips, read_whole
from equipoise.core.errors import InputError


@dataclass(frozen=True)
class Toll:
    """Find tolls on a few links of a road network and certify the resulting flows.

    The tolls minimise the total cost of all travellers, not counting the tolls themselves. The
    result is a local optimum; the lower bound holds for all tolls. With --first-best, every link
    has a toll, and the equilibrium is the system optimum. With --tolls, nothing is searched: the
    equilibrium under your own tolls is certified. The exit code is 0 if the equilibrium meets the
    tolerance, and 1 otherwise.

    Tables of links are .csv or .tntp files with a header: columns from and to, or link.

    Examples:
      equipoise toll braess-network --links 1
      equipoise toll net.tntp trips.tntp --links 5 --out tolls.tntp --report tolls.html
      equipoise toll net.tntp trips.tntp --links bridges.csv
      equipoise toll net.tntp trips.tntp --tolls tolls.csv
      equipoise toll net.tntp trips.tntp --first-best
    """

    #: The road network: a .tntp, .csv or .npz file, a name that `equipoise games` lists, or
    #: MODULE:OBJECT such as mine.py:city, whose code is run.
    game: Game
    #: The file with the trips. Required if the network is a .tntp file or a .csv table of links.
    trips: Trips = None

    # -- search

    #: Largest number of links with a toll, or a table of the links that may have one. Default: 5.
    links: Annotated[str | None, tyro.conf.arg(metavar="INT|FILE")] = None
    #: Put a toll on every link: the marginal cost that a traveller imposes on the others.
    first_best: bool = False
    #: Use the tolls in this table, which has a column toll as well. Links without a row have no
    #: toll. Default: search for tolls.
    tolls: Path | None = None
    #: A table with columns link, from and to. Required if another table has names of links and not
    #: their end nodes. Default: none.
    ends: Path | None = None
    #: Largest toll, in the units of travel cost. Default: three times the largest first-best toll.
    most: float | None = None
    #: Largest excess cost of a used path in an equilibrium, as a fraction of the mean cost of a
    #: trip.
    tolerance: float = 1e-9
    #: Stop the search after this many seconds.
    time_limit: float = 120.0

    # -- output

    #: Save tolls and flows to this .tntp file, one link per line. Default: nothing is saved.
    out: Path | None = None
    #: Write an HTML report with maps to this file. Default: no report.
    report: Path | None = None

    # -- game

    #: Set a parameter of a named network, or toll_factor or distance_factor of a .tntp file. Repeat
    #: the flag for more.
    set: Settings = ()
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Search, save and print."""
        from equipoise.core.results import Interval

        check_tolerance(self.tolerance)
        self._check_one_task()
        check_suffix("report", self.report, ".html", ".htm")
        check_suffix("out", self.out, ".tntp")
        game = find_game(self.game, self.set, trips=self.trips)
        if game.kind != "network" or game.atomic:
            raise InputError("game", "a road network of travellers", f"a {game.describe()}")
        limits: dict[str, Any] = {"tolerance": self.tolerance, "time_limit": self.time_limit}
        if self.first_best:
            design = eq.networks.first_best_tolls(game, **limits)
        elif self.tolls is not None:
            tolls = eq.games.read_tolls(self.tolls, game, links=self.ends)
            design = eq.networks.given_tolls(game, tolls, **limits)
        else:
            design = eq.networks.best_tolls(game, self._links(game), most=self.most, **limits)
        solution, facts = design.solution, design.facts
        ended = design.status.name
        cut_short = [] if design.status.ok else [("search", f"{ended}: better tolls may exist")]
        record = eq.report.record_of(design.game, design, name=f"{self.game} with tolls")
        if self.out is not None:
            design.write(make_folder_of(self.out))
        if self.report is not None:
            eq.report.page_of(record).write(make_folder_of(self.report))
        if self.common.json:
            tolls = design.game.tolls
            document = {"game": self.game, "tolls": tolls, "links": design.links}
            document |= {n: vars(x) if isinstance(x, Interval) else x for n, x in facts.items()}
            print_json({**document, "search": str(ended), "solution": solution.to_plain()})
        else:
            shown = [(n, str(x) if isinstance(x, Interval) else x) for n, x in facts.items()]
            paid = ("costs", "the mean cost includes the tolls paid; total costs do not")
            print_solution(record, [*shown, paid, *cut_short])
            print_pairs([("tolls", self.out), ("report", self.report)])
        if ended == "interrupted":
            raise Interrupted("; the tolls above are the best so far")
        return 0 if solution.status.ok else 1

    def _check_one_task(self) -> None:
        """Refuse options of a search if there is none, and --ends without a table."""
        task = "first-best" if self.first_best else None if self.tolls is None else "tolls"
        for name in ("links", "most", "tolls"):
            value = getattr(self, name)
            if task not in (None, name) and value is not None:
                raise InputError(name, f"no such option with --{task}", value)
        if self.ends is not None and self.tolls is None and not _is_file(self.links):
            raise InputError("ends", "this option only with a table of links", self.ends)

    def _links(self, game: Any) -> Any:
        """Return the number of links, or the numbers of those in the table."""
        if _is_file(self.links):
            return eq.games.read_links(str(self.links), game, links=self.ends)
        try:
            count = 5 if self.links is None else read_whole(self.links)
        except ValueError:
            expected = "a whole number, or a name that ends in .csv or .tntp"
            raise InputError("links", expected, self.links) from None
        check_counts(links=count)
        return count


def _is_file(links: str | None) -> bool:
    return links is not None and links.lower().endswith((".csv", ".tntp"))
