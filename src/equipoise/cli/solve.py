"""`equipoise solve`: a game in, a certified policy out."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equipoise as eq
from equipoise.cli._inputs import (
    check_folder,
    check_suffix,
    check_tolerance,
    find_game,
    make_folder_of,
)
from equipoise.cli._output import PAGE, print_json, print_pairs
from equipoise.cli._parsing import COMMON, CommonOptions, Game, Settings
from equipoise.core.errors import InputError


@dataclass(frozen=True)
class Solve:
    """Solve a game exactly, and certify the answer.

    Zero-sum matrix games and zero-sum Markov games, one or a batch, and pure near-equilibria of
    aggregative games. The exit code is 0 when every game met the tolerance, and 1 otherwise.

    Examples:
      equipoise solve colonel-blotto
      equipoise solve colonel-blotto --out policy.json --report report.html
      equipoise solve two-roads --set agents=1000 --option objective=welfare
      equipoise solve two-roads --option objective=welfare --option sense=min --option spacing=0.01
      equipoise solve public-good --run runs/public-good
      equipoise solve batch.npz --json > solution.json
    """

    #: A file (.nfg, .npz, .csv or .toml), or a name that `equipoise games` lists.
    game: Game
    #: What counts as solved: the largest NashConv of a matrix game, the largest gain of a player
    #: in any state of a Markov game (1e-8 if not given), or the largest gain of any agent of an
    #: aggregative game (what the theory promises if not given).
    tolerance: float | None = None
    #: Save the policy to this .json or .npz file.
    out: Path | None = None
    #: Write an HTML report to this file.
    report: Path | None = None
    #: Keep the record, the policy and a report in this run folder, for `equipoise report`.
    run: Path | None = None
    #: Set a parameter of a named game; may be repeated.
    set: Settings = ()
    #: Set an option of the solver of aggregative games; may be repeated. objective=regret (any
    #: equilibrium), welfare or loss; sense=max or min (with welfare: the best or the worst);
    #: spacing=NUMBER, the side of the cells, and with it how near to Nash; epsilon=NUMBER, seek
    #: among all epsilon-Nash profiles; welfare=ARRAY or loss=ARRAY, worth by type and action;
    #: method=backward or state-wise (Markov games); tolerance=NUMBER or printed, rounding=vertex
    #: or sample, key=NUMBER (to compare with the paper).
    option: Settings = ()
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Solve, save, show."""
        from equipoise.cli._solved import Showing, config_of, solve_in, solve_now

        check_tolerance(self.tolerance)
        check_suffix("report", self.report, ".html", ".htm")
        check_suffix("out", self.out, ".json", ".npz")
        if self.run is not None:
            check_folder(self.run)
        game = find_game(self.game, self.set)
        work = self._work(game)
        tolerance = 1e-8 if self.tolerance is None else self.tolerance
        showing = Showing(self.game, game, tolerance, self.set)
        if self.run is None:
            found = solve_now(work)
        else:
            asked = {"set": self.set, "option": self.option, "tolerance": self.tolerance}
            found = solve_in(self.run, config_of(self.game, **asked), showing, work)
        if self.out is not None:
            showing.write_policy(make_folder_of(self.out), found)
        if self.report is not None:
            showing.page(found).write(make_folder_of(self.report))
        self._show(showing, found)
        return 0 if found.solution.status.ok else 1

    def _work(self, game: Any) -> Callable[[], Any]:
        """What solves such a game with these options; refuses what cannot be solved."""
        from equipoise.cli import _crowds
        from equipoise.cli._kinds import TERMS, kind_of

        if kind_of(game) == "continuous":
            raise InputError(
                "game",
                "a game that can be solved exactly",
                f"{self.game}, whose actions are continuous",
                "`equipoise certify` judges a policy of it",
            )
        if kind_of(game) in TERMS:
            raise InputError(
                "game",
                "a game that can be solved exactly",
                f"{self.game}, of {game.agents:,} agents and their interactions",
                "`equipoise offline` learns from a log of it, and `equipoise certify` judges a "
                "policy",
            )
        if kind_of(game).startswith("aggregative"):
            options = _crowds.options_of(game, self.option)
            if self.tolerance is None:
                return lambda: eq.solve(game, **options)
            tolerance = self.tolerance
            return lambda: _crowds.judge(eq.solve(game, **options), tolerance)
        if self.option:
            raise InputError("option", "an aggregative game", self.game)
        return lambda: eq.solve(game, tolerance=1e-8 if self.tolerance is None else self.tolerance)

    def _show(self, showing: Any, found: Any) -> None:
        """Print the solution, and what was written where."""
        from equipoise.cli._solved import POLICY

        if self.common.json:
            where = {"folder": str(self.run), "read_from_disk": found.known} if self.run else {}
            print_json({**where, **showing.document(found)})
            return
        showing.show(found)
        read = " (finished earlier; read and certified, not solved again)" if found.known else ""
        files: list[tuple[str, Any]] = [("policy", self.out), ("report", self.report)]
        if self.run is not None:
            files += [("run folder", f"{self.run}{read}"), ("policy", self.run / POLICY)]
            files += [("report", self.run / PAGE)]
        print_pairs([(name, str(file)) for name, file in files if file is not None])
