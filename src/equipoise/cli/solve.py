"""`equipoise solve`: a game in, a certified policy out."""

import time
from dataclasses import dataclass
from typing import Any

from equipoise.cli._errors import CommandError, refusing
from equipoise.cli._flags import (
    COMMON,
    CommonOptions,
    File,
    Float,
    Game,
    Settings,
    check_page,
    make_folder_of,
)


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
      equipoise solve batch.npz --json > solution.json
    """

    #: A file (.nfg, .npz, .csv or .toml), or a name that `equipoise games` lists.
    game: Game
    #: What counts as solved: the largest NashConv of a matrix game, or the largest gain of a player
    #: in any state of a Markov game (1e-8); of an aggregative game, the largest gain of any agent
    #: (what the theory promises).
    tolerance: Float = None
    #: Save the policy to this .json or .npz file.
    out: File = None
    #: Write an HTML report to this file.
    report: File = None
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
        import equipoise as eq
        from equipoise.cli import _documents, _pages, _policies
        from equipoise.cli._inputs import TERMS, find_game, kind_of
        from equipoise.cli._verdict import check_tolerance

        check_tolerance(self.tolerance)
        check_page("--report", self.report)
        if self.out is not None:
            with refusing():
                _policies.check_suffix(self.out, "--out")
        game = find_game(self.game, self.set)
        if kind_of(game).startswith("aggregative"):
            return self._run_crowd(game)
        if kind_of(game) == "continuous":
            raise CommandError(
                f"GAME: expected a game that can be solved exactly, found {self.game}, whose "
                "actions are continuous; `equipoise certify` judges a policy of it"
            )
        if kind_of(game) in TERMS:
            raise CommandError(
                f"GAME: expected a game that can be solved exactly, found {self.game}, of "
                f"{game.agents:,} agents and their interactions; `equipoise offline` learns from a "
                "log of it, and `equipoise certify` judges a policy"
            )
        if self.option:
            raise CommandError(f"--option: expected an aggregative game, found {self.game}")
        tolerance = 1e-8 if self.tolerance is None else self.tolerance
        start = time.perf_counter()
        with refusing():
            solution = eq.solve(game, tolerance=tolerance)
        seconds = time.perf_counter() - start
        document = _documents.solution_document(self.game, game, solution, tolerance)
        with refusing():
            if self.out is not None:
                _policies.write_policy(make_folder_of(self.out), solution.policy, document)
            if self.report is not None:
                _pages.solution_page(self.game, game, solution, seconds).write(
                    make_folder_of(self.report)
                )
        self._show(document, game, solution, seconds)
        return 0 if solution.status.ok else 1

    def _run_crowd(self, game: Any) -> int:
        import equipoise as eq
        from equipoise.cli import _crowds, _output

        options = _crowds.options_of(game, self.option)
        start = time.perf_counter()
        with refusing():
            solution = eq.solve(game, **options)
        seconds = time.perf_counter() - start
        if self.tolerance is not None:
            solution = _crowds.judge(solution, self.tolerance)
        document = _crowds.solution_document(self.game, game, solution)
        with refusing():
            if self.out is not None:
                _crowds.write_policy(make_folder_of(self.out), solution.policy, document)
            if self.report is not None:
                _crowds.solution_page(self.game, game, solution, seconds).write(
                    make_folder_of(self.report)
                )
        if self.common.json:
            _output.print_json(document)
        else:
            _crowds.print_solution(self.game, game, solution, seconds)
            self._tell_files()
        return 0 if solution.status.ok else 1

    def _show(self, document: Any, game: Any, solution: Any, seconds: float) -> None:
        from equipoise.cli import _documents, _output

        if self.common.json:
            _output.print_json(document)
        else:
            _documents.print_solution(self.game, game, solution, seconds)
            self._tell_files()

    def _tell_files(self) -> None:
        """Say what was written, and where."""
        from equipoise.cli._output import print_pairs

        files = (("policy", self.out), ("report", self.report))
        print_pairs([(name, str(file)) for name, file in files if file is not None])
