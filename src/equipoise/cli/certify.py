"""`equipoise certify`: a game and a policy in, a certificate out."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from equipoise.cli._errors import refusing
from equipoise.cli._flags import COMMON, CommonOptions, Float, Game, Settings

if TYPE_CHECKING:
    from equipoise.cli._verdict import Verdict


@dataclass(frozen=True)
class Certify:
    """Say how much each player could gain by leaving a given policy.

    The policy is JSON, {"policy": [[...], [...]]} with one list of probabilities per player
    (for Markov games one such list per state), or a .npz file with arrays policy_0, policy_1.
    What `equipoise solve` saves or prints is read too. Of continuous actions it is a number for
    each agent, {"policy": [1.0, -0.5, ...]}, or points and weights.

    Examples:
      equipoise certify colonel-blotto policy.json
      equipoise certify game.nfg policy.json --tolerance 0.01 --json
    """

    #: A file (.nfg, .npz, .csv or .toml), or a name that `equipoise games` lists.
    game: Game
    #: A .json or .npz file.
    policy: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="POLICY")]
    #: End with exit code 1 when the measure that `equipoise solve` goes by is larger than this: the
    #: NashConv of a matrix game, or the largest gain of any player in any other game.
    tolerance: Float = None
    #: Set a parameter of a named game; may be repeated.
    set: Settings = ()
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Read, certify, show."""
        import equipoise as eq
        from equipoise.cli import _documents, _output, _policies
        from equipoise.cli._inputs import find_game, kind_of
        from equipoise.cli._verdict import check_tolerance

        check_tolerance(self.tolerance)
        game = find_game(self.game, self.set)
        if kind_of(game).startswith("aggregative"):
            return self._run_crowd(game)
        if kind_of(game) == "continuous":
            return self._run_continuous(game)
        with refusing():
            policy = _policies.read_policy(self.policy)
            certificate = eq.certify(game, policy)
        verdict = self._judge(game, certificate)
        if self.common.json:
            document = _documents.certificate_document(certificate)
            _output.print_json({**document, **_as_document(verdict)})
        else:
            _documents.print_certificate(certificate, _as_pairs(verdict))
        return 0 if verdict is None or verdict.met else 1

    def _judge(self, game: Any, certificate: Any) -> "Verdict | None":
        from equipoise.cli._inputs import kind_of
        from equipoise.cli._verdict import judge

        if self.tolerance is None:
            return None
        return judge(kind_of(game), certificate, self.tolerance)

    def _run_crowd(self, game: Any) -> int:
        import equipoise as eq
        from equipoise.cli import _crowds, _output

        with refusing():
            certificate: Any = eq.certify(game, _crowds.read_policy(self.policy))
        verdict = self._judge(game, certificate)
        if self.common.json:
            document = _crowds.certificate_document(certificate)
            _output.print_json({**document, **_as_document(verdict)})
        else:
            _crowds.print_certificate(certificate, _as_pairs(verdict))
        return 0 if verdict is None or verdict.met else 1

    def _run_continuous(self, game: Any) -> int:
        import equipoise as eq
        from equipoise.cli import _continuous, _documents, _output

        with refusing():
            certificate = eq.certify(game, _continuous.read_policy(self.policy))
        verdict = self._judge(game, certificate)
        if self.common.json:
            document = _documents.certificate_document(certificate)
            _output.print_json({**document, **_as_document(verdict)})
        else:
            _continuous.print_certificate(certificate, _as_pairs(verdict))
        return 0 if verdict is None or verdict.met else 1


def _as_document(verdict: "Verdict | None") -> dict[str, Any]:
    return {} if verdict is None else {"verdict": verdict.document()}


def _as_pairs(verdict: "Verdict | None") -> list[tuple[str, Any]]:
    return [] if verdict is None else [("tolerance", str(verdict))]
