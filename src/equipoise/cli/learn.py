"""`equipoise learn`: a game of very many agents is simulated, and an equilibrium learnt from it."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

import equipoise as eq
from equipoise.cli._inputs import (
    check_counts,
    check_seed,
    check_suffix,
    find_game,
    in_run_folder,
    make_folder_of,
)
from equipoise.cli._main import Interrupted
from equipoise.cli._output import (
    certificate_document,
    print_certificate,
    print_json,
    print_table,
    write_run_page,
)
from equipoise.cli._parsing import COMMON, CommonOptions, Game, Settings
from equipoise.core.errors import InputError
from equipoise.runs import FolderInUse, Run, Table


@dataclass(frozen=True)
class Learn:
    """Learn an equilibrium of very many agents from simulated episodes.

    The learner sees the states, what everybody played and what they got; the game itself is used
    only to simulate, and at the end to certify the policy exactly. Writes a run folder. Ctrl-C
    keeps the best policy so far, and the run goes on when the command is given again.

    Examples:
      equipoise learn demand-response --set agents=1000 --episodes 500
      equipoise learn epidemic --set agents=100 --rewards unknown --objective welfare
    """

    #: A scenario (.toml), or a name that `equipoise games` lists, of a Markov game with an
    #: aggregate.
    game: Game
    #: How many episodes.
    episodes: int = 1000
    #: Whether the learner is told the rewards.
    rewards: Literal["known", "unknown"] = "known"
    #: Any equilibrium, or the best for society.
    objective: Literal["regret", "welfare"] = "regret"
    #: Side of the cells in which samples are counted (a twentieth of what can be reached).
    spacing: float | None = None
    #: Standard deviation of noise in the rewards that are seen (with --rewards unknown).
    noise: float = 0.0
    #: How many agents at once try what their type does not play (few enough to hardly matter),
    #: with --rewards unknown.
    scouts: int | None = None
    #: Let every agent learn rewards alone, instead of sharing them within its type (with
    #: --rewards unknown).
    alone: bool = False
    #: Where randomness begins.
    seed: int = 0
    #: Set a parameter of a named game; may be repeated.
    set: Settings = ()
    #: The run folder (runs/learn, or runs/learn-2 and so on where another run has it).
    run: Path | None = None
    #: Save the policy to this .json or .npz file.
    out: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Simulate, learn, certify, show."""
        check_seed(self.seed)
        check_counts(episodes=self.episodes)
        check_counts(at_least=0, scouts=self.scouts)
        self._check_learning()
        check_suffix("out", self.out, ".json", ".npz")
        game = find_game(self.game, self.set)
        if game.kind != "aggregative-markov":
            raise InputError(
                "game",
                "a Markov game with an aggregate, such as demand-response",
                f"{self.game}, a game of kind {game.kind}",
            )
        folder, learned = in_run_folder(self.run, "learn", lambda run: self._learn(game, run))
        certificate = eq.certify(game, learned.policy)
        policy, value = learned.policy, certificate.mean_value
        solution = eq.Solution(policy, value, certificate, learned.status, stats=learned.stats)
        page = write_run_page(folder, anew=self._keep(folder, game, solution))
        if self.out is not None:
            eq.write_policy(make_folder_of(self.out), policy)
        self._show(game, learned, certificate, folder, page)
        if learned.episodes < self.episodes:
            with Run.open(folder) as run:
                kept = run.step
            raise Interrupted(
                f" after {learned.episodes:,} of {self.episodes:,} episodes; the policy above is "
                f"the best so far; the same command goes on after the {kept:,} episodes that "
                "the run folder keeps"
            )
        return 0 if learned.status.name == eq.Outcome.LEARNED else 1

    def _check_learning(self) -> None:
        """Refuse what would change nothing: most matters only where rewards have to be learnt."""
        if self.alone and self.scouts:
            raise InputError("scouts", "no --alone with them", self.scouts)
        given = {
            "noise": self.noise if self.noise > 0 else None,
            "scouts": self.scouts,
            "alone": "it" if self.alone else None,
        }
        for name, found in given.items():
            if found is not None and self.rewards == "known":
                raise InputError(name, "only with --rewards unknown", found)

    def _learn(self, game: Any, folder: Path) -> Any:
        return eq.aggregative.learn(
            eq.aggregative.Simulator(game, self.seed, noise=self.noise),
            self.episodes,
            rewards=self.rewards,
            objective=self.objective,
            spacing=self.spacing,
            noise=self.noise,
            pool=not self.alone,
            scouts=0 if self.alone else self.scouts,
            run=folder,
        )

    def _keep(self, folder: Path, game: Any, solution: Any) -> bool:
        """Add to the record what the learner cannot know: the game, and the exact gains.

        Returns whether that was new.
        """
        if not (folder / "record.json").exists():
            return False
        # Whoever holds the folder now was given the same command, and adds the same.
        with suppress(FolderInUse), Run.open(folder) as run:
            if run.record().solution is not None:
                return False
            about = {"game": ", ".join([self.game, *self.set]), "labels": game.labels.to_plain()}
            run.add_to_record(about, solution=solution.to_plain())
            return True
        return False

    def _show(
        self, game: Any, learned: Any, certificate: Any, folder: Path, page: Path | None
    ) -> None:
        if self.common.json:
            told = ("width", "bound", "confidence", "welfare")
            learner = {name: getattr(learned, name) for name in told}
            learner["regret"] = float(learned.regret[-1]) if learned.episodes else 0.0
            print_json(
                {
                    "folder": str(folder),
                    "game": self.game,
                    "kind": game.kind,
                    "agents": game.agents,
                    "episodes": learned.episodes,
                    "rewards": self.rewards,
                    "learner": learner | {"plans": learned.stats["plans"]},
                    "policy": learned.policy.to_plain(),
                    "certificate": certificate_document(certificate),
                    "curve": learned.curve,
                    "status": learned.status.to_plain(),
                }
            )
            return
        print(f"{self.game}: {game.describe()}")
        done = learned.episodes
        stops = np.unique(np.geomspace(1, max(done, 1), 8).round().astype(int))
        rows = [
            (f"{k:,}", learned.curve["width"][k - 1], learned.curve["bound"][k - 1])
            for k in stops[:done]
        ]
        # What is returned is chosen and bounded once more, with all samples in.
        rows.append(("returned", learned.width, learned.bound))
        table = Table(("episode", "upper minus lower value", "gain at most"), rows)
        print_table(table, title="Proven so far, of any policy played, and of the one returned")
        low, high = learned.welfare
        facts = {
            "upper minus lower value": learned.width,
            "largest gain, at most": learned.bound,
            "with probability": learned.confidence,
            "mean welfare, between": f"{np.mean(low):.4g} and {np.mean(high):.4g}",
            "mean reward, exactly": float(np.mean(certificate.mean_value)),
            "run folder": folder,
            "report": page,
            "policy": self.out,
            "status": learned.status,
        }
        pairs = [(name, value) for name, value in facts.items() if value is not None]
        print_certificate(certificate, game.labels.to_plain(), pairs)
