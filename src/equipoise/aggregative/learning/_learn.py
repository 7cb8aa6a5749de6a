"""Learn a near-equilibrium of very many agents from a simulator: the public call and its result."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.aggregative._subroutine import Options, as_worth
from equipoise.aggregative.learning._learner import LONGEST, PARTS, Learner, Settings
from equipoise.aggregative.learning._planner import Bounds, Planner
from equipoise.aggregative.learning._printed import FORMS, PrintedPlanner, printed_grids
from equipoise.aggregative.learning._samples import Radii, grids_of
from equipoise.aggregative.learning._spec import Spec, as_spec
from equipoise.certificates import certify
from equipoise.core import InputError, checks
from equipoise.core.deadline import Deadline
from equipoise.core.errors import named_arguments
from equipoise.core.results import (
    AggregativeCertificate,
    Interval,
    Solution,
    Status,
    Verdict,
    status_from_plain,
)
from equipoise.core.text import wrapped
from equipoise.games import AggregativePolicy
from equipoise.runs import FolderInUse, Format, Record, Run, kept, resumable
from equipoise.runs.engines import engine_of

#: Fields of a result that a record stores unchanged: numbers, and arrays besides the policy's.
_SCALARS, _ARRAYS = ("width", "bound", "confidence"), ("lower", "upper", "welfare")
_POLICY = ("rows", "counts", "actions")


@dataclass(frozen=True)
class Learned:
    """A policy learned from samples, and the bounds that the samples prove for it.

    All bounds here come from samples alone. If you know the game, `judged` returns the exact
    certificate.

    **Example**

    >>> import equipoise as eq
    >>> city = eq.games.load("demand-response", agents=100)
    >>> run = eq.learn(eq.aggregative.Simulator(city, key=0), episodes=10)
    >>> bool(eq.certify(city, run.policy).max_gain <= run.bound)
    True
    >>> run.curve["width"].shape, bool((run.lower <= run.upper).all())
    ((10,), True)
    """

    #: The policy with the best guarantee.
    policy: AggregativePolicy
    #: Largest difference between an agent's upper and lower value, over states that begin episodes.
    width: float
    #: Upper bound on any agent's gain from leaving the policy, over those states.
    bound: float
    #: Probability with which `lower`, `upper` and `bound` hold, at least; 0 if nothing is proven.
    confidence: float
    #: (classes, states): lower bound on the value of the policy, by class of its agents.
    lower: np.ndarray
    #: (classes, states): upper bound on the value of the policy, by class of its agents.
    upper: np.ndarray
    #: (2, states): lower and upper bound on the mean welfare of the policy.
    welfare: np.ndarray
    #: Arrays by episode: "width" and "bound", the smallest so far of any policy played; "regret", a
    #: bound on the gains of the episode's policy; "planned", whether that policy was new.
    curve: dict[str, np.ndarray]
    #: What was learned, or what ended the run early.
    status: Status | Verdict
    #: Everything else that the learner reports, by name.
    stats: dict[str, Any] = field(default_factory=dict)
    #: Policies played, with the episodes they began in; empty unless `history=True`.
    history: tuple[tuple[int, AggregativePolicy, Bounds], ...] = ()

    def __str__(self) -> str:
        low, high = self.welfare
        return "\n".join(
            (
                *wrapped(self.status),
                f"{self.episodes:,} episodes; largest width of values: {self.width:.4g}",
                f"mean welfare: {Interval(float(low.mean()), float(high.mean())):.4g}",
            )
        )

    @property
    def certificate(self) -> AggregativeCertificate:
        """Bounds on the gains that the samples prove: `upper`, with probability `confidence`.

        No deviation was tried alone, so no gain counts as attained. Values are the midpoints of
        their bounds. Without a proof `upper` is infinite. If you know the game, `equipoise.certify`
        is exact.

        **Example**

        >>> import equipoise as eq
        >>> city = eq.games.load("demand-response", agents=100)
        >>> run = eq.learn(eq.aggregative.Simulator(city, key=0), episodes=10)
        >>> bool(run.certificate.max_upper == run.bound), run.certificate.method
        (True, 'bounds from samples, with probability 0.95')
        """
        values = ((self.lower + self.upper) / 2).T
        bound = self.bound if self.confidence > 0 else np.inf
        return AggregativeCertificate(
            class_gains=np.zeros_like(values),
            class_upper=np.full_like(values, bound),
            class_value=values,
            class_counts=self.policy.counts,
            class_rows=self.policy.rows,
            method=f"bounds from samples, with probability {self.confidence:g}",
        )

    @property
    def episodes(self) -> int:
        """Number of episodes played."""
        return len(self.curve["regret"])

    @property
    def regret(self) -> np.ndarray:
        """(episodes,): bound on the cumulative sum of the largest gains of the policies played.

        The cost to scouts, who play actions outside the policy, is not counted.
        """
        return np.cumsum(self.curve["regret"])

    def judged(
        self, game: Any = None, run: str | os.PathLike[str] | None = None, *, name: str = ""
    ) -> Solution[AggregativePolicy]:
        """Return the policy with its exact certificate, computed from the game.

        Without a game, as for a simulator of your own, the certificate is the one that the samples
        prove. If `run` is the folder in which `learn` kept the run, the finished record also
        receives this solution, the labels of the game, and its `name`.

        **Example**

        >>> import equipoise as eq
        >>> city = eq.games.load("demand-response", agents=100)
        >>> run = eq.learn(eq.aggregative.Simulator(city, key=0), episodes=10)
        >>> bool(run.judged(city).certificate.max_gain <= run.bound)
        True
        """
        certificate: Any = self.certificate if game is None else certify(game, self.policy)
        value, stats = certificate.mean_value, self.stats
        solution = Solution(self.policy, value, certificate, self.status, stats=stats)
        if run is not None and (Path(run) / "record.json").exists():
            # Another process that holds the folder has the same task and adds the same.
            with suppress(FolderInUse), Run.open(run) as folder:
                if folder.record().solution is None:
                    about: dict[str, Any] = {"game": name}
                    if game is not None:
                        about = {"game": name or game.describe(), "labels": game.labels.to_plain()}
                    folder.add_to_record(about, solution=solution.to_plain())
        return solution


@named_arguments
def learn(
    env: Any,
    episodes: int,
    *,
    spec: Any = None,
    rewards: str = "known",
    objective: str = "regret",
    welfare: Any = None,
    loss: Any = None,
    spacing: float | None = None,
    noise: float = 0.0,
    pool: bool = True,
    scouts: int | None = None,
    bonus: float = 1.0,
    failure: float = 0.05,
    form: str = "corrected",
    run: str | os.PathLike[str] | None = None,
    history: bool = False,
    key: int = 0,
    workers: Any = None,
    time_limit: float = np.inf,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Learned:
    """Play episodes and return a pure near-Nash policy with the bounds that the samples prove.

    This is Aggre-VI, Algorithm 3 of the paper (known rewards), and Algorithm 4 (unknown rewards),
    which the paper leaves open; docs/theory/aggregative-learning.md states the guarantees and the
    differences from the paper. `env` is a simulator; for a game, pass
    `equipoise.aggregative.Simulator(game)`. The learner uses only `env.reset()`,
    `env.step(actions)` and the declared `spec` (default: the environment's). If the environment
    has `seek(episode)`, an interrupted run resumes exactly where it stopped; if it has a `config`,
    the run's config includes it.

    - `rewards`: "known" uses `spec.reward`; "unknown" learns the rewards from what agents receive.
    - `objective`, `welfare`, `loss`: as for `equipoise.solve`; "regret" accepts any equilibrium.
    - `spacing`: side of the cells in which samples are counted. Default: a twentieth of the widest
      side of the reachable aggregates.
    - `noise`: standard deviation (sub-Gaussian) of the noise in rewards; 0 if they are exact.
    - `pool`: whether agents of a type share their observations. `scouts`: how many agents at once
      try actions that their type does not play, when rewards are unknown. Default: as many as
      hardly move the aggregate; 0 for none.
    - `failure`: all bounds hold together with probability at least 1 - `failure`. `bonus`
      multiplies the confidence radii; below 1 nothing is proven. Nor is anything proven if the
      game's Lipschitz constants were sampled instead of declared: `confidence` is then 0, and the
      status says so.
    - `form`: "printed" is Algorithm 3 as printed, for comparison, and "printed-rescaled" the same
      with rewards moved into [0, 1], which makes its bounds on values valid; all results are scaled
      back. Default: "corrected".
    - `run`: folder to keep the run in. The same call again resumes it, or reads the finished
      result. `history` keeps every policy played.
    - `time_limit`: seconds after which the best policy so far is returned, as it is after Ctrl-C,
      once the present episode is over. A run that is resumed afterwards ends as if it had never
      stopped.
    - `progress`: called about once a second, and after the last episode, with the numbers of
      "episodes" played, "of" how many, "plans", and the smallest "width" and "bound" so far.
    - `workers`: "ray", or an engine of `runs.engines` with a `pool`. Each worker has a copy of the
      environment, which needs `seek`, and plays episodes of the current plan ahead of time.
      Episodes played for a plan that is replaced before their turn are dropped. The result is
      therefore the same for any number of workers, and all guarantees hold. Scouts take turns by
      episode instead of by visit.

    **Example**

    >>> import equipoise as eq
    >>> city = eq.games.load("demand-response", agents=200)
    >>> env = eq.aggregative.Simulator(city, key=0)
    >>> run = eq.learn(env, episodes=100, rewards="unknown")
    >>> bool(eq.certify(city, run.policy).max_gain < 0.05), run.status.name
    (True, 'learned')
    """
    spec = as_spec(env, spec)
    worth = as_worth(spec, objective, welfare, loss)
    settings = Settings(
        episodes, rewards, objective, spacing, noise, pool, scouts, bonus, failure, form, key
    ).checked(spec)
    if history and run is not None:
        raise InputError("history", "no run folder with history=True", "one")
    checks.check_range("time_limit", time_limit, 0.0, np.inf)
    learner = _make_learner(env, spec, settings, worth, history)
    work = _Work(learner, Deadline(float(time_limit)), progress)
    engine = None if workers is None else _engine(workers, env)

    def settle() -> dict[str, Any]:
        return _call(settings, spec, env, welfare, loss, engine)

    def write(learned: Learned, folder: Run) -> Record | None:
        return None if work.stopped else as_record(learned, folder.config)

    kind = Format(lambda folder: from_record(folder.record()), write)
    return kept(run, settle, lambda folder: work.go(folder, engine), kind)


def _call(
    settings: Settings, spec: Spec, env: Any, welfare: Any, loss: Any, engine: Any
) -> dict[str, Any]:
    """Return the config of a run, which distinguishes games as far as they are declared."""
    told = ("types", "agents", "actions", "dimensions", "horizon", "states")
    told += ("lipschitz", "transition_lipschitz")
    facts = {name: getattr(spec, name) for name in told}
    facts |= {"bounds": list(spec.bounds), "starts": list(spec.starts)}
    sums = {"influence": spec.influence, "welfare": welfare, "loss": loss}
    facts |= {name: float(np.sum(value)) for name, value in sums.items() if value is not None}
    config = {**asdict(settings), "game": facts, "env": getattr(env, "config", {})}
    if engine is not None:
        config["turns"] = "episodes"
    return config


def _engine(workers: Any, env: Any) -> Any:
    """Return the engine whose workers play."""
    engine = engine_of(workers)
    if not hasattr(engine, "pool"):
        raise InputError("workers", "an engine with a pool: Local or Ray", type(engine).__name__)
    if not callable(getattr(env, "seek", None)):
        raise InputError("env", "a method seek(episode), which workers need", "none")
    return engine


def _make_learner(
    env: Any, spec: Spec, settings: Settings, worth: np.ndarray | None, history: bool
) -> Learner:
    known, printed = settings.rewards == "known", settings.form in FORMS
    if worth is not None and settings.objective == "loss":
        worth = -worth
    spec, origin = spec if known else spec.unrewarded(), None
    if not (printed or settings.pool):
        origin = np.repeat(np.arange(spec.types), spec.counts)
        worth = None if worth is None else np.repeat(worth, spec.counts, axis=-2)
        spec = spec.one_by_one()
    selects = settings.objective != "regret"
    options = Options("welfare" if selects else "regret", spacing=settings.spacing or 1.0)
    if printed:
        grids = printed_grids(spec, options.side)
        options = replace(options, slack="printed", rounding="sample")
        planner = PrintedPlanner(spec, grids, options, worth, settings)
        spec = spec.one_by_one()  # plans name agents, and the planner says their classes
    else:
        grids = grids_of(spec, options.side)
        # No more cells of a step and state can be visited than there are episodes.
        cells = min(max(grid.cells for grid in grids.values()), settings.episodes)
        noise, bonus, failure = 0.0 if known else settings.noise, settings.bonus, settings.failure
        radii = Radii.of(spec, cells, settings.episodes, noise=noise, bonus=bonus, failure=failure)
        planner = Planner(spec, grids, options, radii, worth, known=known)
    return Learner(env, spec, grids, planner, settings, origin, [] if history else None)


class _Work:
    """A learner at work, until its last episode, a time or Ctrl-C."""

    def __init__(self, learner: Learner, deadline: Deadline, progress: Any):
        self.learner, self.deadline, self.progress = learner, deadline, progress
        self.started = self.told = time.perf_counter()
        #: Why the work ended early, if it did.
        self.stopped: str | None = None

    def go(self, folder: Run | None, engine: Any) -> Learned:
        """Play the remaining episodes; state is written to disk between parts."""
        learner = self.learner
        if engine is not None and learner.pool is None:
            shared = (learner.env, learner.spec.unrewarded(), learner.learns_rewards)
            with engine.pool(shared) as learner.pool:
                return self.go(folder, engine)
        episodes = learner.settings.episodes
        part = min(-(-episodes // PARTS), LONGEST)
        if folder is not None and folder.step:
            learner.restore(folder.restore(learner.state()))
        seek = getattr(learner.env, "seek", None)
        if seek is not None:
            seek(learner.episode)

        def play(_: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
            if step % part == 0:
                # From here on everything is a function of the samples and of the last plan, so a
                # run can resume here.
                learner.replan(all_menus=True)
            learner.until = min(step - step % part + part, episodes)
            learner.play()
            metrics = {name: learner.curves[name][step] for name in ("width", "bound")}
            self.tell(metrics)
            return learner.state(), {**metrics, "plans": learner.plans}

        options: dict[str, Any] = {"name": "learning", "marks": part, "anywhere": False}
        with self.deadline as deadline:
            reached = resumable(
                folder, learner.state(), play, episodes, deadline=deadline, **options
            )
            if learner.episode < episodes:
                self.stopped = "interrupted" if reached.stopped else "out of time"
            # After the last episode the clock no longer counts: a run has one result.
            bounds = learner.conclude(deadline if self.stopped else deadline.untimed())
            if deadline.stop:
                self.stopped = "interrupted"
        return _conclude(learner, bounds, self.started, self.stopped)

    def tell(self, metrics: dict[str, float]) -> None:
        """Report the episodes played, about once a second."""
        learner, now = self.learner, time.perf_counter()
        last = learner.episode == learner.settings.episodes
        if self.progress is not None and (last or now - self.told >= 1.0):
            self.told = now
            done = {"episodes": learner.episode, "of": learner.settings.episodes}
            self.progress(done | {"plans": learner.plans, **metrics})


def _conclude(learner: Learner, bounds: Bounds, started: float, stopped: str | None) -> Learned:
    """Return the result of a learner at this point."""
    spec, best, done = learner.spec, learner.best, learner.episode
    grid = next(iter(learner.grids.values()))
    pairs = spec.horizon * (spec.horizon - 1) / 2
    # Effect of moving the transitions, in Lemma B.
    moving = spec.delta * spec.transition_lipschitz * spec.spread * pairs
    stats = {
        "plans": learner.plans,
        "cells": grid.cells,
        "spacing": grid.side,
        "planning_bound": float(learner.planner.stage_bound + moving),
        "relaxed": learner.planner.relaxed,
        "sample_bytes": learner.samples.nbytes,
        "visited_cells": len(learner.samples.visits),
        "types": spec.types,
        "aggregate": best.aggregate,
        "seconds": time.perf_counter() - started,
    }

    def policy(found: Bounds) -> AggregativePolicy:
        """The policy by rows of the game, even if agents learned separately."""
        own, origin = found.policy, learner.origin
        rows = own.rows if origin is None else origin[own.rows]
        actions = own.actions[:, 0, 0] if spec.one_shot else own.actions
        return AggregativePolicy(rows, own.counts, actions)

    return Learned(
        policy=policy(bounds),
        width=best.width,
        bound=best.bound,
        confidence=0.0 if unproven(learner) else 1.0 - learner.settings.failure,
        lower=bounds.lower,
        upper=bounds.upper,
        welfare=bounds.welfare,
        curve={name: values[:done] for name, values in learner.curves.items()},
        status=make_status(learner, stopped),
        stats=stats,
        history=tuple((k, policy(found), found) for k, found in learner.history or ()),
    )


def unproven(learner: Learner) -> str:
    """Why the bounds of a run are not proven; empty if they are."""
    settings = learner.settings
    if not learner.consistent:
        return (
            "the samples contradict the given Lipschitz constants, the noise, or a bonus below 1: "
            "nothing is proven"
        )
    if settings.form == "printed":
        return "the bounds of the printed form do not hold"
    if settings.form in FORMS:
        return "the paper does not state the constants of its bound on gains"
    if settings.bonus < 1:
        return "a bonus below 1 proves nothing"
    if not learner.spec.declared:
        return (
            "the game's Lipschitz constants were sampled, so that nothing is proven: declare "
            + ("`lipschitz`" if learner.spec.one_shot else "`lipschitz` and `transition_lipschitz`")
        )
    return ""


def make_status(learner: Learner, stopped: str | None) -> Status | Verdict:
    """Say how learning ended, and what holds of it with a reservation."""
    done, episodes, relaxed = learner.episode, learner.settings.episodes, learner.planner.relaxed
    message = f"{done:,} episodes were played"
    if done < episodes:
        message = f"{done:,} of {episodes:,} episodes were played; the best so far is returned"
    elif stopped:
        message += "; the last plan was cut short"
    if why := unproven(learner):
        message += f"; {why}"
    if learner.consistent and relaxed > 1:
        message += (
            f"; no cell was feasible until its slack was multiplied by {relaxed:g}: give a larger "
            "`lipschitz`"
        )
    if stopped:
        return Status(stopped, message, np.asarray(False))
    return Verdict("learned", message, caution=relaxed > 1 or not learner.consistent)


def as_record(learned: Learned, config: dict[str, Any]) -> Record:
    """Convert a finished run to a record, without its times, which differ from run to run."""
    status, stats = learned.status, dict(learned.stats)
    del stats["seconds"]
    arrays = {"aggregate": stats.pop("aggregate")}
    arrays |= {name: getattr(learned.policy, name) for name in _POLICY}
    arrays |= {name: getattr(learned, name) for name in _ARRAYS}
    arrays |= {f"curve/{name}": values for name, values in learned.curve.items()}
    scalars = {name: getattr(learned, name) for name in _SCALARS}
    scalars |= {"status": status.to_plain(), "stats": stats}
    return Record("aggregative-learning", config, scalars, arrays)


def from_record(record: Record) -> Learned:
    """Restore the result that `as_record` stored."""
    scalars, arrays = record.scalars, record.arrays
    return Learned(
        policy=AggregativePolicy(*(arrays[name] for name in _POLICY)),
        **{name: scalars[name] for name in _SCALARS},
        **{name: arrays[name] for name in _ARRAYS},
        curve={k.removeprefix("curve/"): v for k, v in arrays.items() if k.startswith("curve/")},
        status=status_from_plain(scalars["status"]),
        stats={**scalars["stats"], "aggregate": arrays["aggregate"], "seconds": 0.0},
    )
