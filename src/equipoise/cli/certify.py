"""`equipoise certify`: a game and a policy in, a certificate out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import tyro

import equipoise as eq
from equipoise.cli._inputs import check_tolerance, find_game
from equipoise.cli._output import certificate_document, print_certificate, print_json
from equipoise.cli._parsing import COMMON, CommonOptions, Game, Settings
from equipoise.core.errors import InputError
from equipoise.runs import Record


@dataclass(frozen=True)
class Certify:
    """Say how much each player could gain by leaving a given policy.

    The policy is JSON, {"policy": [[...], [...]]} with one list of probabilities per player
    (for Markov games one such list per state), or a .npz file with arrays policy_0, policy_1.
    What `equipoise solve` saves or prints is read too, and the run folder of any command that
    finds a policy. Of continuous actions it is a number for each agent,
    {"policy": [1.0, -0.5, ...]}, or points and weights. Where the game is one of interactions, or
    has one payoff table, it can be a mixture, as `equipoise offline` finds.

    Examples:
      equipoise solve colonel-blotto --out policy.json
      equipoise certify colonel-blotto policy.json
      equipoise certify colonel-blotto policy.json --tolerance 0.01 --json
      equipoise certify auction.npz runs/bids --concept ce
      equipoise certify net.tntp trips.tntp flows.tntp --tolerance 1e-10
    """

    ARGUMENTS: ClassVar = dict.fromkeys(("path", "strategies", "policies", "points"), "POLICY")
    ARGUMENTS |= {"trips": "TRIPS"}

    #: A file (.nfg, .npz, .csv, .toml or .tntp), or a name that `equipoise games` lists.
    game: Game
    #: A .json or .npz file, or a run folder. Of a network in a .tntp file: its trips, and then the
    #: flows, in a .tntp, .json or .npz file or a run folder.
    policy: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="POLICY")]
    #: The flows, after the two files of a network.
    flows: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[FLOWS]")] = None
    #: End with exit code 1 unless it is proven that no player gains more than this; of a network,
    #: that the relative gap is no larger.
    tolerance: float | None = None
    #: Which deviations: from a mixture cce, decided before anything is drawn, or ce, once the own
    #: part is known; from a product nash; in a network optimum, at marginal costs. "auto" is the
    #: first that fits.
    concept: Literal["auto", "nash", "cce", "ce", "optimum"] = "auto"
    #: Set a parameter of a named game; may be repeated.
    set: Settings = ()
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Read, certify, show."""
        check_tolerance(self.tolerance)
        trips, file = (None, self.policy) if self.flows is None else (self.policy, self.flows)
        game = find_game(self.game, self.set, trips=trips)
        certificate = eq.certify(game, read_policy(file, game), concept=self.concept)
        measure, what = "max_upper", "the proven bound on the gains"
        if certificate.kind == "network":
            measure, what = "relative_gap_upper", "the proven bound on the relative gap"
        found, met = float(np.max(getattr(certificate, measure))), True
        document, told = certificate_document(certificate), []
        if self.tolerance is not None:
            met = found <= self.tolerance
            verdict = {"measure": measure, "found": found, "tolerance": self.tolerance}
            document["verdict"] = verdict | {"met": met}
            word, side = ("met", "at most") if met else ("missed", "above")
            said = f"{what}, {found:.4g}, is {side} {self.tolerance:g}"
            told.append(("tolerance", f"{word}: {said}"))
        if self.common.json:
            print_json(document)
        else:
            print_certificate(certificate, game.labels.to_plain(), told)
        return 0 if met else 1


def read_policy(path: Path, game: Any) -> Any:
    """The policy in a file, or in the record of a run folder."""
    if path.suffix.lower() == ".tntp":
        return eq.games.read_flows(path, game)
    if not path.is_dir() or path.suffix in (".json", ".npz"):
        return eq.read_policy(path, game)
    plain = (Record.load(path).solution or {}).get("policy")
    if plain is None:
        raise InputError("policy", "a run that found a policy", f"none in {path}")
    return eq.games.policy_from_plain(plain)
