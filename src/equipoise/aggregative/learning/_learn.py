"""Learn a near-equilibrium of very many agents from a simulator: the public call and its result."""

import os
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from equipoise.aggregative._subroutine import Options, as_worth
from equipoise.aggregative.learning._learner import LONGEST, PARTS, Learner, Settings
from equipoise.aggregative.learning._planner import Bounds, Planner
from equipoise.aggregative.learning._printed import PrintedPlanner, printed_grids
from equipoise.aggregative.learning._samples import Radii, grids_of
from equipoise.aggregative.learning._spec import Spec, as_spec
from equipoise.core import InputError
from equipoise.core.results import AggregativeCertificate, Outcome, Status
from equipoise.games import AggregativePolicy
from equipoise.runs import Record, Run, resumable

#: What of a result a record keeps as it is: numbers, and arrays beside those of the policy.
_SCALARS, _ARRAYS = ("width", "bound", "confidence"), ("lower", "upper", "welfare")
_POLICY = ("rows", "counts", "actions")
#: What earlier versions called outcomes.
_EARLIER = {"finished": "learned", "stopped": "interrupted", "inconsistent": "inexact"}


@dataclass(frozen=True)
class Learned:
    """A policy learnt from samples, and what the samples prove of it.

    Everything here is the learner's own account, from samples alone. Who knows the game can ask
    `equipoise.certify` instead.

    **Example**

    >>> import equipoise as eq
    >>> city = eq.games.load("demand-response", agents=100)
    >>> run = eq.aggregative.learn(eq.aggregative.Simulator(city, key=0), episodes=50)
    >>> bool(eq.certify(city, run.policy).max_gain <= run.bound)
    True
    >>> run.curve["width"].shape, bool((run.lower <= run.upper).all())
    ((50,), True)
    """

    policy: AggregativePolicy
    #: The largest upper minus lower value of any agent, over states that begin episodes.
    width: float
    #: Upper bound on any agent's gain from leaving the policy, over those states.
    bound: float
    #: Probability with which `lower`, `upper` and `bound` hold at least; 0 if nothing is proven.
    confidence: float
    #: (classes, states): bounds on the value of the policy, by class of its agents.
    lower: np.ndarray
    upper: np.ndarray
    #: (2, states): lower and upper bound on its mean welfare.
    welfare: np.ndarray
    #: By episode: "width" and "bound", the smallest so far of any policy played; "regret",
    #: a bound on the gains of the policy of the episode; "planned", whether it was a new one.
    curve: dict[str, np.ndarray]
    status: Status
    stats: dict[str, Any] = field(default_factory=dict)
    #: Policies played, with the episodes they began in; kept when asked for.
    history: tuple[tuple[int, AggregativePolicy, Bounds], ...] = ()

    @property
    def certificate(self) -> AggregativeCertificate:
        """What the samples prove of the gains: `upper` with probability `confidence`.

        No deviation was tried alone, so that no gain counts as attained; values are the middles of
        their bounds. Without a proof `upper` is infinite. `equipoise.certify` is exact, for those
        who know the game.

        **Example**

        >>> import equipoise as eq
        >>> city = eq.games.load("demand-response", agents=100)
        >>> run = eq.aggregative.learn(eq.aggregative.Simulator(city, key=0), episodes=50)
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
        """Episodes played."""
        return len(self.curve["regret"])

    @property
    def regret(self) -> np.ndarray:
        """(episodes,): a bound on the sum of the largest gains of the policies played so far.

        Scouts play what is not in the policy, and what that costs them is not counted.
        """
        return np.cumsum(self.curve["regret"])


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
) -> Learned:
    """Play episodes, and return a pure near-Nash policy with what the samples prove of it.

    Algorithm 3 of the paper (known rewards), and Algorithm 4 (unknown rewards), which it leaves
    undone; docs/theory/aggregative-learning.md has the guarantees and what differs from print.
    The learner uses `env.reset()`, `env.step(actions)` and the declared `spec` (that of the
    environment unless given), nothing else. An environment with `seek(episode)` lets a run that
    was stopped go on as if it had not been; one with a `config` has it in that of the run.

    - `rewards`: "known" takes `spec.reward`; "unknown" learns them from what agents get.
    - `objective`, `welfare`, `loss`: as for `equipoise.solve`; "regret" is any equilibrium.
    - `spacing`: side of the cells in which samples are counted; a twentieth of the widest side of
      the reachable aggregates unless given.
    - `noise`: of rewards as seen, a standard deviation (sub-Gaussian); 0 if they are exact.
    - `pool`: whether agents of a type share what they saw. `scouts`: how many agents at once try
      what their type does not play, when rewards are unknown; by default as many as hardly move
      the aggregate, 0 for none.
    - `failure`: with probability 1 - `failure` or more all bounds hold together. `bonus`
      multiplies the confidence radii; below 1 nothing is proven.
    - `form="printed"`: Algorithm 3 as printed, to compare with.
    - `run`: a folder to keep the run in; the same call again resumes it, or reads what is
      finished. Ctrl-C returns the best policy so far. `history` keeps every policy played.

    **Example**

    >>> import equipoise as eq
    >>> city = eq.games.load("demand-response", agents=200)
    >>> env = eq.aggregative.Simulator(city, key=0)
    >>> run = eq.aggregative.learn(env, episodes=100, rewards="unknown")
    >>> bool(eq.certify(city, run.policy).max_gain < 0.05), run.status.name
    (True, <Outcome.LEARNED: 'learned'>)
    """
    spec = as_spec(env, spec)
    worth = as_worth(spec, objective, welfare, loss)
    settings = Settings(
        episodes, rewards, objective, spacing, noise, pool, scouts, bonus, failure, form, key
    ).checked(spec)
    if history and run is not None:
        raise InputError("history", "no run folder with it", "one")
    learner = _make_learner(env, spec, settings, worth, history)
    confidence = 1.0 - failure if bonus >= 1 and form == "corrected" else 0.0
    if run is None:
        return _go(learner, confidence, None)
    told = ("types", "agents", "actions", "dimensions", "horizon", "states")
    told += ("lipschitz", "transition_lipschitz")
    facts = {name: getattr(spec, name) for name in told}
    facts |= {"bounds": list(spec.bounds), "starts": list(spec.starts)}
    sums = {"influence": spec.influence, "welfare": welfare, "loss": loss}
    facts |= {name: float(np.sum(value)) for name, value in sums.items() if value is not None}
    # What tells one game from another, as far as it is declared.
    config = {**asdict(settings), "game": facts, "env": getattr(env, "config", {})}
    with Run.start(run, config) as folder:
        if folder.finished:
            return from_record(folder.record())
        learned = _go(learner, confidence, folder)
        if learned.episodes == settings.episodes:
            folder.finish(as_record(learned, config))
        return learned


def _make_learner(
    env: Any, spec: Spec, settings: Settings, worth: np.ndarray | None, history: bool
) -> Learner:
    known, printed = settings.rewards == "known", settings.form == "printed"
    if worth is not None and settings.objective == "loss":
        worth = -worth
    spec, origin = spec if known else spec.unrewarded(), None
    if printed or not settings.pool:
        origin = np.repeat(np.arange(spec.types), spec.counts)
        worth = None if worth is None else np.repeat(worth, spec.counts, axis=-2)
        spec = spec.one_by_one()
    selects = settings.objective != "regret"
    options = Options("welfare" if selects else "regret", spacing=settings.spacing or 1.0)
    if printed:
        grids = printed_grids(spec, options.side)
        options = replace(options, slack="printed", rounding="sample")
        planner = PrintedPlanner(spec, grids, options, worth, settings)
    else:
        grids = grids_of(spec, options.side)
        cells = max(len(grid.centres) for grid in grids.values())
        noise, bonus, failure = 0.0 if known else settings.noise, settings.bonus, settings.failure
        radii = Radii.of(spec, cells, settings.episodes, noise=noise, bonus=bonus, failure=failure)
        planner = Planner(spec, grids, options, radii, worth, known=known)
    return Learner(env, spec, grids, planner, settings, origin, [] if history else None)


def _go(learner: Learner, confidence: float, folder: Run | None) -> Learned:
    """Play the episodes that are missing; what is kept on disk is kept between parts."""
    started = time.perf_counter()
    part = min(-(-learner.settings.episodes // PARTS), LONGEST)
    if folder is not None and folder.step:
        learner.restore(folder.restore(learner.state()))
    seek = getattr(learner.env, "seek", None)
    if seek is not None:
        seek(learner.episode)

    def play(_: Any, step: int, until: int) -> tuple[Any, dict[str, Any]]:
        if step % part == 0:
            # From here on all is a function of the samples: this is a place to resume from.
            learner.replan(all_menus=True)
        learner.play()
        metrics = {name: learner.curves[name][step] for name in ("width", "bound")}
        return learner.state(), {**metrics, "plans": learner.plans}

    options: dict[str, Any] = {"name": "learning", "marks": part, "anywhere": False}
    resumable(folder, learner.state(), play, learner.settings.episodes, **options)
    return _conclude(learner, confidence, started)


def _conclude(learner: Learner, confidence: float, started: float) -> Learned:
    """The result of a learner, now."""
    bounds = learner.conclude()
    spec, best, done = learner.spec, learner.best, learner.episode
    grid = next(iter(learner.grids.values()))
    pairs = spec.horizon * (spec.horizon - 1) / 2
    # What moving the transitions can bring, in lemma B.
    moving = spec.delta * spec.transition_lipschitz * spec.spread * pairs
    stats = {
        "plans": learner.plans,
        "cells": len(grid.centres),
        "spacing": grid.side,
        "planning_bound": float(learner.planner.stage_bound + moving),
        "relaxed": learner.planner.relaxed,
        "aggregate": best.aggregate,
        "sample_bytes": learner.samples.nbytes,
        "visited_cells": int((learner.samples.visits > 0).sum()),
        "types": spec.types,
        "seconds": time.perf_counter() - started,
    }

    def policy(found: Bounds) -> AggregativePolicy:
        """The policy by rows of the game, even if agents learnt apart."""
        own, origin = found.policy, learner.origin
        rows = own.rows if origin is None else origin[own.rows]
        return AggregativePolicy(rows, own.counts, own.actions)

    return Learned(
        policy=policy(bounds),
        width=best.width,
        bound=best.bound,
        confidence=confidence,
        lower=bounds.lower,
        upper=bounds.upper,
        welfare=bounds.welfare,
        curve={name: values[:done] for name, values in learner.curves.items()},
        status=make_status(learner),
        stats=stats,
        history=tuple((k, policy(found), found) for k, _, found in learner.history or ()),
    )


def make_status(learner: Learner) -> Status:
    """How learning ended: no tolerance was asked for, so nothing counts as solved."""
    done, episodes, relaxed = learner.episode, learner.settings.episodes, learner.planner.relaxed
    name, message = Outcome.LEARNED, f"{done:,} episodes were played"
    if done < episodes:
        name = Outcome.INTERRUPTED
        message = f"{done:,} of {episodes:,} episodes were played; the best so far is returned"
    if not learner.consistent:
        name = Outcome.INEXACT
        message += (
            "; what was seen contradicts the Lipschitz constants or the noise that were given, or "
            "a bonus below 1: nothing is proven"
        )
    elif relaxed > 1:
        name = Outcome.INEXACT if done == episodes else name
        message += (
            f"; no cell was feasible until its slack was multiplied by {relaxed:g}: the Lipschitz "
            "constant given is too small"
        )
    return Status(name, message, np.asarray(False))


def as_record(learned: Learned, config: dict[str, Any]) -> Record:
    """What is kept of a finished run; seconds are not: they differ from run to run."""
    status, stats = learned.status, dict(learned.stats)
    del stats["seconds"]
    arrays = {"aggregate": stats.pop("aggregate")}
    arrays |= {name: getattr(learned.policy, name) for name in _POLICY}
    arrays |= {name: getattr(learned, name) for name in _ARRAYS}
    arrays |= {f"curve/{name}": values for name, values in learned.curve.items()}
    said = {"name": str(status.name), "message": status.message}
    scalars = {name: getattr(learned, name) for name in _SCALARS}
    scalars |= {"status": said, "stats": stats}
    return Record("aggregative-learning", config, scalars, arrays)


def from_record(record: Record) -> Learned:
    """What `as_record` kept."""
    scalars, arrays = record.scalars, record.arrays
    said = scalars["status"]
    name = _EARLIER.get(str(said["name"]), str(said["name"]))
    return Learned(
        policy=AggregativePolicy(*(arrays[name] for name in _POLICY)),
        **{name: scalars[name] for name in _SCALARS},
        **{name: arrays[name] for name in _ARRAYS},
        curve={k.removeprefix("curve/"): v for k, v in arrays.items() if k.startswith("curve/")},
        status=Status(name, said["message"], np.asarray(False)),
        stats={**scalars["stats"], "aggregate": arrays["aggregate"], "seconds": 0.0},
    )
