"""`equipoise solve`: a game in, a certified policy out."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from equipoise.cli._errors import refusing


@dataclass(frozen=True)
class Solve:
    """Solve a game exactly, and certify the answer.

    Zero-sum matrix games and zero-sum Markov games, one or a batch. The exit code is 0 when
    every game met the tolerance, and 1 otherwise.

    Examples:
      equipoise solve colonel-blotto
      equipoise solve game.nfg --out policy.json --report report.html
      equipoise solve batch.npz --json > solution.json
    """

    game: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME")]
    """A file (.nfg, .npz or .csv), or a name that `equipoise games` lists."""
    tolerance: float = 1e-8
    """What counts as solved: the largest NashConv of a matrix game, or the largest gain of a
    player in any state of a Markov game."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Save the policy to this .json or .npz file."""
    report: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write an HTML report to this file."""
    parameters: Annotated[
        tuple[str, ...],
        tyro.conf.arg(name="set", metavar="NAME=VALUE"),
        tyro.conf.UseAppendAction,
    ] = ()
    """Set a parameter of a named game; may be repeated."""
    json: bool = False
    """Print the solution as JSON."""

    def run(self) -> int:
        """Solve, save, show."""
        import equipoise as eq
        from equipoise.cli import _documents, _pages, _policies
        from equipoise.cli._inputs import find_game

        if self.out is not None:
            with refusing():
                _policies.check_suffix(self.out)
        game = find_game(self.game, self.parameters)
        start = time.perf_counter()
        with refusing():
            solution = eq.solve(game, tolerance=self.tolerance)
        seconds = time.perf_counter() - start
        document = _documents.solution_document(self.game, game, solution, self.tolerance)
        with refusing():
            if self.out is not None:
                _policies.write_policy(self.out, solution.policy, document)
            if self.report is not None:
                _pages.solution_page(self.game, game, solution, seconds).write(self.report)
        self._show(document, game, solution, seconds)
        return 0 if solution.status.ok else 1

    def _show(self, document: Any, game: Any, solution: Any, seconds: float) -> None:
        from equipoise.cli import _documents, _output

        if self.json:
            _output.print_json(document)
        else:
            _documents.print_solution(self.game, game, solution, seconds)
