"""`equipoise toll`: a road network in, tolls and their certified equilibrium out."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equipoise as eq
from equipoise.cli._inputs import (
    check_counts,
    check_suffix,
    check_tolerance,
    find_game,
    make_folder_of,
)
from equipoise.cli._output import cut, print_json, print_pairs, print_solution, print_table
from equipoise.cli._parsing import COMMON, CommonOptions, Game, Settings, Trips
from equipoise.core.errors import InputError
from equipoise.core.files import write_text
from equipoise.report import page_of, record_of
from equipoise.runs import Table


@dataclass(frozen=True)
class Toll:
    """Find tolls on a few links of a road network, and certify the flows they lead to.

    Tolls are sought that lower the total cost of all travellers, which leaves out the tolls
    themselves. What is found is a local optimum; the lower bound holds for all tolls. With
    --first-best there is a toll on every link, and the optimum itself is the equilibrium. The exit
    code is 0 when the equilibrium met the tolerance, and 1 otherwise.

    Examples:
      equipoise toll braess-network --links 1
      equipoise toll net.tntp trips.tntp --links 5 --out tolls.tntp --report tolls.html
      equipoise toll net.tntp trips.tntp --first-best
    """

    #: A network in a .tntp or .npz file, or a name that `equipoise games` lists.
    game: Game
    #: The trips of a network in a .tntp file.
    trips: Trips = None
    #: At most how many links have a toll.
    links: int = 5
    #: Tolls on all links, as the marginal cost of a traveller to others.
    first_best: bool = False
    #: The largest toll; three times the largest first-best one if not given.
    most: float | None = None
    #: Relative gap of the equilibria.
    tolerance: float = 1e-9
    #: Seconds for the search.
    time_limit: float = 120.0
    #: Save tolls and flows, one link a line, to this .tntp file.
    out: Path | None = None
    #: Write an HTML report with maps to this file.
    report: Path | None = None
    #: Set a parameter of a named network, or toll_factor or distance_factor of a file.
    set: Settings = ()
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Search, save, show."""
        check_tolerance(self.tolerance)
        check_counts(links=self.links)
        check_suffix("report", self.report, ".html", ".htm")
        check_suffix("out", self.out, ".tntp")
        game = find_game(self.game, self.set, trips=self.trips)
        if game.kind != "network" or game.atomic:
            raise InputError("game", "a road network of travellers", f"a {game.describe()}")
        limits: dict[str, Any] = {"tolerance": self.tolerance, "time_limit": self.time_limit}
        if self.first_best:
            design = eq.networks.first_best_tolls(game, **limits)
        else:
            design = eq.networks.best_tolls(game, self.links, most=self.most, **limits)
        charged, solution = design.game, design.solution
        record = record_of(charged, solution, name=f"{self.game} with tolls")
        flows = solution.policy.total
        ends = [f"{charged.tails[k]} to {charged.heads[k]}" for k in design.links]
        values = (charged.tolls, flows, charged.times(flows))
        rows = [
            (e, *(float(a[k]) for a in values)) for e, k in zip(ends, design.links, strict=True)
        ]
        table = Table(("link", "toll", "flow", "cost"), rows)
        facts = {
            "total cost without tolls": design.before,
            "total cost with tolls": design.total_cost,
            "lower bound for any tolls": design.lower_bound,
            "part of the possible saving": design.saved,
        }
        shown = replace(
            record,
            scalars={**record.scalars, **facts},
            tables={"tolls": table, **record.tables},
        )
        if self.out is not None:
            write_text(make_folder_of(self.out), _lines(design))
        if self.report is not None:
            page_of(shown).write(make_folder_of(self.report))
        if self.common.json:
            document = {"game": self.game, "tolls": charged.tolls, "links": design.links, **facts}
            print_json({**document, "solution": solution.to_plain()})
        else:
            print_table(cut(table), "Tolls")
            print_solution(record, list(facts.items()))
            files = [("tolls", self.out), ("report", self.report)]
            print_pairs([(name, str(file)) for name, file in files if file is not None])
        return 0 if solution.status.ok else 1


def _lines(design: "eq.networks.Design") -> str:
    game, flows = design.game, design.solution.policy.total
    parts = (game.tails, game.heads, game.tolls, flows, game.times(flows))
    rows = zip(*(part.tolist() for part in parts), strict=True)
    return "From\tTo\tToll\tVolume\tCost\n" + "".join(
        "\t".join(map(repr, row)) + "\n" for row in rows
    )
