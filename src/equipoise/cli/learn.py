"""`equipoise learn`: learn an equilibrium of very many agents from simulated episodes."""

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import equipoise as eq
from equipoise.cli._inputs import (
    check_counts,
    check_seed,
    check_suffix,
    find_game,
    in_run_folder,
    make_folder_of,
    setting,
)
from equipoise.cli._main import Interrupted
from equipoise.cli._objects import is_object, load_object, source_digest
from equipoise.cli._output import (
    certificate_document,
    print_certificate,
    print_json,
    print_table,
    write_run_page,
)
from equipoise.cli._parsing import COMMON, CommonOptions, Game, Settings
from equipoise.core.errors import InputError


@dataclass(frozen=True)
class Learn:
    """Learn an equilibrium of very many agents from simulated episodes.

    The learner sees the states and all actions and rewards. The game itself is used only to
    simulate, and at the end to certify the policy exactly. The command writes a run folder. After
    Ctrl-C, the folder keeps the best policy so far; run the same command again to resume.

    GAME may also be a simulator of your own, MODULE:OBJECT: an object with reset() and
    step(actions), or a class or function that returns one, in a file such as town.py or a module.
    This runs the code of the module. The certificate is then what the samples prove.

    Examples:
      equipoise learn demand-response --set agents=1000 --episodes 500
      equipoise learn epidemic --set agents=100 --rewards unknown --objective welfare
      equipoise learn town.py:Roads --spec town.py:spec --rewards unknown --set drivers=300
    """

    #: The game, a game with an aggregate: a scenario (.toml), a name that `equipoise games`
    #: lists, or MODULE:OBJECT, a game or a simulator of your own.
    game: Game

    # -- learning

    #: Number of episodes.
    episodes: int = 1000
    #: Whether the reward functions are known to the learner or must be learned as well.
    rewards: Literal["known", "unknown"] = "known"
    #: Which equilibrium to learn: any one ("regret"), or the one with the largest welfare.
    objective: Literal["regret", "welfare"] = "regret"
    #: Side length of the cells in which samples are counted, in units of the aggregate. Default: a
    #: twentieth of the reachable range.
    spacing: float | None = None
    #: Standard deviation of the noise in observed rewards, in units of reward. Only with --rewards
    #: unknown.
    noise: float = 0.0
    #: Number of agents at a time that try actions their type does not play. Only with --rewards
    #: unknown. Default: few enough to hardly change the aggregate.
    scouts: int | None = None
    #: Let every agent learn rewards from its own samples, instead of sharing samples within its
    #: type. Only with --rewards unknown.
    alone: bool = False
    #: Form of the algorithm: corrected, or for comparison Algorithm 3 of the paper as printed, with
    #: its rewards (printed) or with rewards moved into [0, 1] (printed-rescaled). The last two only
    #: with --rewards known.
    form: Literal["corrected", "printed", "printed-rescaled"] = "corrected"
    #: Random seed, a whole number in [0, 2^32).
    seed: int = 0
    #: Seconds after which the best policy so far is returned. Default: none. The same command
    #: resumes the run.
    time_limit: float | None = None

    # -- game

    #: The `Spec` of a simulator of your own, MODULE:OBJECT. Default: the simulator's attribute
    #: spec.
    spec: Annotated[str | None, tyro.conf.arg(metavar="MODULE:OBJECT")] = None
    #: Set a parameter of a named game, or of the function or class of MODULE:OBJECT, such as
    #: size=10. Repeat the flag for more.
    set: Settings = ()

    # -- output

    #: Run folder. Default: runs/learn, or runs/learn-2 and so on if another run is there.
    run: Path | None = None
    #: Save the policy to this .json or .npz file. Default: only in the run folder.
    out: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Simulate, learn, certify and print."""
        check_seed(self.seed)
        check_counts(episodes=self.episodes)
        check_counts(at_least=0, scouts=self.scouts)
        self._check_learning()
        check_suffix("out", self.out, ".json", ".npz")
        game, env, spec = self._simulator()
        work = partial(self._learn, env, spec)
        folder, known, learned = in_run_folder(self.run, "learn", work)
        solution = learned.judged(game, folder, name=", ".join([self.game, *self.set]))
        page = write_run_page(folder, anew=not known)
        if self.out is not None:
            eq.write_policy(make_folder_of(self.out), solution.policy)
        agents = int(learned.policy.counts.sum())
        self._show(game, agents, learned, solution.certificate, folder, page)
        if learned.status.name == "interrupted":
            with eq.runs.Run.open(folder) as run:
                kept = run.step
            raise Interrupted(
                f" after {learned.episodes:,} of {self.episodes:,} episodes; the policy above is "
                f"the best so far; the run folder keeps {kept:,} episodes; to resume, run the "
                "same command again"
            )
        return 0 if learned.status.ok else 1

    def _simulator(self) -> tuple[Any, Any, Any]:
        """Return the game, or None if only its simulator is known; the simulator; and its spec."""
        game = None
        if is_object(self.game):
            pairs = [setting(text) for text in self.set]
            wanted = "a game with an aggregate, or a simulator with reset() and step(actions)"
            options: Any = {"argument": "game", "settings": pairs}
            found = load_object(self.game, _is_simulated, wanted, **options)
            if not isinstance(found, eq.AggregativeGame | eq.AggregativeMarkovGame):
                return None, with_code(found, self.game), self._spec()
            game = found
        if self.spec is not None:
            raise InputError("spec", "this option only with a simulator of your own", self.spec)
        game = find_game(self.game, self.set) if game is None else game
        if not game.kind.startswith("aggregative"):
            raise InputError(
                "game",
                "a game with an aggregate, such as demand-response",
                f"{self.game}, a game of kind {game.kind}",
            )
        return game, eq.aggregative.Simulator(game, self.seed, noise=self.noise), None

    def _spec(self) -> Any:
        """Return the spec that --spec names."""
        if self.spec is None:
            return None
        return load_object(
            self.spec,
            lambda found: isinstance(found, eq.aggregative.Spec),
            "an equipoise.aggregative.Spec",
            argument="spec",
        )

    def _check_learning(self) -> None:
        """Refuse options without effect; most of them need --rewards unknown."""
        if self.alone and self.scouts:
            raise InputError("scouts", "no value together with --alone", self.scouts)
        given = {
            "noise": self.noise if self.noise > 0 else None,
            "scouts": self.scouts,
            "alone": "--rewards known" if self.alone else None,
        }
        for name, found in given.items():
            if found is not None and self.rewards == "known":
                raise InputError(name, "only with --rewards unknown", found)
        if self.form != "corrected" and self.rewards == "unknown":
            raise InputError("form", "corrected with --rewards unknown", self.form)

    def _learn(self, env: Any, spec: Any, folder: Path) -> Any:
        own = {} if isinstance(env, eq.aggregative.Simulator) else {"spec": spec, "key": self.seed}
        return eq.learn(
            env,
            self.episodes,
            **own,
            rewards=self.rewards,
            objective=self.objective,
            spacing=self.spacing,
            noise=self.noise,
            pool=not self.alone,
            form=self.form,
            scouts=0 if self.alone else self.scouts,
            run=folder,
            time_limit=math.inf if self.time_limit is None else self.time_limit,
        )

    def _show(
        self,
        game: Any,
        agents: int,
        learned: Any,
        certificate: Any,
        folder: Path,
        page: Path | None,
    ) -> None:
        if self.common.json:
            told = ("width", "bound", "confidence", "welfare")
            learner = {name: getattr(learned, name) for name in told}
            learner["regret"] = float(learned.regret[-1]) if learned.episodes else 0.0
            print_json(
                {
                    "folder": str(folder),
                    "game": self.game,
                    "kind": "simulator" if game is None else game.kind,
                    "agents": agents,
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
        what = f"simulator of {agents:,} agents" if game is None else game.describe()
        print(f"{self.game}: {what}")
        import numpy as np

        done = learned.episodes
        stops = np.unique(np.geomspace(1, max(done, 1), 8).round().astype(int))
        rows = [
            (f"{k:,}", learned.curve["width"][k - 1], learned.curve["bound"][k - 1])
            for k in stops[:done]
        ]
        # The returned policy is chosen and bounded once more, with all samples.
        rows.append(("returned", learned.width, learned.bound))
        table = eq.runs.Table(("episode", "upper minus lower value", "bound on the gain"), rows)
        print_table(table, title="Proven bounds by episode, and for the result")
        low, high = learned.welfare
        facts = {
            "upper minus lower value": learned.width,
            "bound on the largest gain": learned.bound,
            "confidence": learned.confidence,
            "mean welfare, between": f"{np.mean(low):.4g} and {np.mean(high):.4g}",
            "mean reward, exactly": (
                None if game is None else float(np.mean(certificate.mean_value))
            ),
            "run folder": folder,
            "report": page,
            "policy": self.out,
            "status": learned.status,
        }
        labels = {} if game is None else game.labels.to_plain()
        print_certificate(certificate, labels, list(facts.items()))


def _is_simulated(found: Any) -> bool:
    """Return whether an object is a game or a simulator."""
    if isinstance(found, eq.AggregativeGame | eq.AggregativeMarkovGame):
        return True
    return all(callable(getattr(found, name, None)) for name in ("reset", "step"))


def with_code(env: Any, text: str) -> Any:
    """Give a simulator without a `config` the digest of its code.

    A run folder keeps it, so that a run of changed code is not taken for a run of the old code.

    >>> class Town:
    ...     pass
    >>> with_code(Town(), "town.npz").config
    {'code': None}
    """
    if not hasattr(env, "config"):
        with suppress(AttributeError):  # a class with slots
            env.config = {"code": source_digest(text)}
    return env
