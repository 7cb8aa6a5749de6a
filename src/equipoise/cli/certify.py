"""`equipoise certify`: certify a policy of a game."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

import equipoise as eq
from equipoise.cli._inputs import check_tolerance, find_game
from equipoise.cli._output import certificate_document, print_certificate, print_json
from equipoise.cli._parsing import COMMON, CommonOptions, Game, Settings
from equipoise.core.errors import InputError


@dataclass(frozen=True)
class Certify:
    """Compute how much each player could gain by deviating from a given policy.

    The policy is a JSON file, {"policy": [[...], [...]]}, with one list of probabilities per player
    (in a Markov game one list per state), or a .npz file with arrays policy_0, policy_1. Files that
    `equipoise solve` saves or prints are accepted, and so is the run folder of any command that
    finds a policy.

    In a game with continuous actions, the policy has one number for each agent, {"policy": [1.0,
    -0.5, ...]}, or points and weights. In a game with interaction terms, or with a single payoff
    table, the policy can be a mixture, such as the one that `equipoise offline` finds.

    Examples:
      equipoise solve colonel-blotto --out policy.json
      equipoise certify colonel-blotto policy.json
      equipoise certify colonel-blotto policy.json --tolerance 0.01 --json
      equipoise certify auction.npz runs/bids --concept ce
      equipoise certify net.tntp trips.tntp flows.csv --tolerance 1e-10
    """

    ARGUMENTS: ClassVar = dict.fromkeys(("path", "strategies", "policies", "points"), "POLICY")
    ARGUMENTS |= {"trips": "TRIPS"}

    #: The game: a file (.nfg, .npz, .csv, .toml or .tntp), a name that `equipoise games` lists, or
    #: MODULE:OBJECT such as mine.py:game, whose code is run.
    game: Game
    #: The policy: a .json or .npz file, or a run folder. For a network in a .tntp or .csv
    #: file, give the file of its trips here, and the flows as the next argument.
    policy: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="POLICY")]
    #: The flows of a network: a .tntp, .csv, .json or .npz file, or a run folder.
    flows: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[FLOWS]")] = None

    # -- certificate

    #: Exit with code 1 unless it is proven that no player gains more than this, in units of reward.
    #: For a network, the limit applies to the relative gap. Default: no limit.
    tolerance: float | None = None
    #: Which deviations to test. For a mixture: cce (a player commits before the draw) or ce (a
    #: player knows its own part of the draw). For a product policy: nash. For a network: nash or
    #: optimum (deviations at marginal costs). "auto" is cce for a mixture, ce for a joint policy,
    #: and nash otherwise.
    concept: Literal["auto", "nash", "cce", "ce", "optimum"] = "auto"
    #: A table (.csv or .tntp) with columns link, from and to. Required if the table of flows has
    #: names of links and not their end nodes. Default: none.
    ends: Path | None = None

    # -- game

    #: Set a parameter of a named game, or of the function of MODULE:OBJECT, such as size=10.
    #: Repeat the flag for more.
    set: Settings = ()
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Read, certify, show."""
        check_tolerance(self.tolerance)
        trips, file = (None, self.policy) if self.flows is None else (self.policy, self.flows)
        game = find_game(self.game, self.set, trips=trips)
        certificate = eq.certify(game, read_policy(file, game, self.ends), concept=self.concept)
        measure, what = "max_upper", "the proven bound on the gains"
        if certificate.kind == "network":
            measure, what = "relative_gap_upper", "the proven bound on the relative gap"
        most = getattr(certificate, measure)
        found, met = most if isinstance(most, float) else float(most.max()), True
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


def read_policy(path: Path, game: Any, ends: Path | None) -> Any:
    """Read the policy in a file, or in the record of a run folder."""
    if path.suffix.lower() in (".tntp", ".csv") and game.kind == "network":
        return eq.games.read_flows(path, game, links=ends)
    if ends is not None:
        raise InputError("ends", "this option only with a table of flows", ends)
    if not path.is_dir() or path.suffix in (".json", ".npz"):
        return eq.read_policy(path, game)
    plain = (eq.runs.Record.load(path).solution or {}).get("policy")
    if plain is None:
        raise InputError("policy", "a run folder with a policy", f"no policy in {path}")
    return eq.games.policy_from_plain(plain)
