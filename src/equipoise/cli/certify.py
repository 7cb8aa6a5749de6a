"""`equipoise certify`: a game and a policy in, a certificate out."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

import equipoise as eq
from equipoise.cli._inputs import check_tolerance, find_game
from equipoise.cli._kinds import TERMS, kind_of
from equipoise.cli._output import print_json
from equipoise.cli._parsing import COMMON, CommonOptions, Game, Settings
from equipoise.core.errors import InputError

if TYPE_CHECKING:
    from equipoise.cli._verdict import Verdict


@dataclass(frozen=True)
class Certify:
    """Say how much each player could gain by leaving a given policy.

    The policy is JSON, {"policy": [[...], [...]]} with one list of probabilities per player
    (for Markov games one such list per state), or a .npz file with arrays policy_0, policy_1.
    What `equipoise solve` saves or prints is read too, and its run folder. Of continuous actions it
    is a number for each agent, {"policy": [1.0, -0.5, ...]}, or points and weights. Where the game
    is one of interactions, or has one payoff table, it can be the run folder of
    `equipoise offline`, whose policy is a mixture.

    Examples:
      equipoise solve colonel-blotto --out policy.json
      equipoise certify colonel-blotto policy.json
      equipoise certify colonel-blotto policy.json --tolerance 0.01 --json
      equipoise certify auction.npz runs/bids --concept ce
    """

    #: A file (.nfg, .npz, .csv or .toml), or a name that `equipoise games` lists.
    game: Game
    #: A .json or .npz file, or a run folder of `equipoise solve` or `equipoise offline`.
    policy: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="POLICY")]
    #: End with exit code 1 when the measure that `equipoise solve` goes by is larger than this: the
    #: NashConv of a matrix game, or the largest gain of any player in any other game.
    tolerance: float | None = None
    #: Which deviations: from a mixture cce, decided before anything is drawn, or ce, once the own
    #: part is known; from a product nash. "auto" is the first that fits.
    concept: Literal["auto", "nash", "cce", "ce"] = "auto"
    #: Set a parameter of a named game; may be repeated.
    set: Settings = ()
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Read, certify, show."""
        from equipoise.cli import _mixtures
        from equipoise.cli._verdict import judge

        check_tolerance(self.tolerance)
        game = find_game(self.game, self.set)
        kept = self.policy / "policy.json"  # by `equipoise solve --run`
        place = kept if kept.is_file() else self.policy
        if place.is_dir():
            game = _mixtures.as_terms(game)
        kind = kind_of(game)
        if place.is_dir() and kind not in (*TERMS, "continuous"):
            raise InputError(
                "policy",
                f"a file for a game of kind {kind}",
                f"the folder {self.policy}",
                "runs of `equipoise offline` hold policies of many agents for one step, or for "
                "states that only their own actions move",
            )
        read, document, show = _ways(kind)
        concept = None if self.concept == "auto" else self.concept
        certificate = eq.certify(game, read(place), concept=concept)
        verdict = None if self.tolerance is None else judge(kind, certificate, self.tolerance)
        if self.common.json:
            print_json({**document(certificate), **_as_document(verdict)})
        else:
            show(certificate, _as_pairs(verdict))
        return 0 if verdict is None or verdict.met else 1


def _ways(kind: str) -> tuple[Callable[..., Any], ...]:
    """How policies of such games are read, and certificates told to programs and to people."""
    from equipoise.cli import _continuous, _crowds, _documents, _mixtures, _policies

    if kind.startswith("aggregative"):
        return _crowds.read_policy, _crowds.certificate_document, _crowds.print_certificate
    document = _documents.certificate_document
    if kind == "continuous":
        return _continuous.read_policy, document, _continuous.print_certificate
    if kind in TERMS:
        return _mixtures.read_policy, document, _mixtures.print_certificate
    return _policies.read_policy, document, _documents.print_certificate


def _as_document(verdict: "Verdict | None") -> dict[str, Any]:
    return {} if verdict is None else {"verdict": verdict.document()}


def _as_pairs(verdict: "Verdict | None") -> list[tuple[str, Any]]:
    return [] if verdict is None else [("tolerance", str(verdict))]
