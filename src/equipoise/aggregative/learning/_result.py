"""What `learn` returns, and how it is kept on disk."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise.aggregative.learning._learner import Learner
from equipoise.aggregative.learning._planner import Bounds
from equipoise.core.results import Outcome, Status
from equipoise.games import AggregativePolicy
from equipoise.runs import Record

#: Names of the curves, in the order of the columns of a record.
_CURVES = ("width", "bound", "regret", "planned")

#: What earlier versions called outcomes.
_EARLIER: dict[str, str] = {
    "finished": Outcome.LEARNED,
    "stopped": Outcome.INTERRUPTED,
    "inconsistent": Outcome.INEXACT,
}


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
    #: What no agent can gain more than by leaving the policy, over those states.
    bound: float
    #: With what probability (or more) `lower`, `upper` and `bound` hold; 0 if nothing is proven.
    confidence: float
    #: (classes, states): what the value of the policy lies between, by class of its agents.
    lower: np.ndarray
    upper: np.ndarray
    #: (2, states): what its mean welfare lies between.
    welfare: np.ndarray
    #: By episode: "width" and "bound", the smallest so far of any policy played; "regret",
    #: a bound on the gains of the policy of the episode; "planned", whether it was a new one.
    curve: dict[str, np.ndarray]
    status: Status
    stats: dict[str, Any] = field(default_factory=dict)
    #: Policies played, with the episodes they began in; kept when asked for.
    history: tuple[tuple[int, AggregativePolicy, Bounds], ...] = ()

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


def conclude(learner: Learner, episodes: int, confidence: float, seconds: float) -> Learned:
    """The result of a learner, now."""
    bounds = learner.conclude()
    spec, best, done = learner.spec, learner.best, learner.episode
    curve = {name: getattr(learner.curves, name)[:done] for name in _CURVES}
    grid = next(iter(learner.grids.values()))
    stats = {
        "plans": learner.plans,
        "cells": len(grid.centres),
        "spacing": grid.side,
        "planning_bound": float(learner.planner.stage_bound + _moving(learner)),
        "relaxed": learner.planner.relaxed,
        "aggregate": best.aggregate,
        "sample_bytes": learner.samples.nbytes,
        "visited_cells": int((learner.samples.visits > 0).sum()),
        "types": spec.types,
        "seconds": seconds,
    }
    history = tuple((k, _policy(learner, found), found) for k, _, found in learner.history or ())
    return Learned(
        policy=_policy(learner, bounds),
        width=best.width,
        bound=best.bound,
        confidence=confidence,
        lower=bounds.lower,
        upper=bounds.upper,
        welfare=bounds.welfare,
        curve=curve,
        status=make_status(done, episodes, learner),
        stats=stats,
        history=history,
    )


def _policy(learner: Learner, bounds: Bounds) -> AggregativePolicy:
    """The policy with the rows of the game, also where agents learnt apart."""
    policy, origin = bounds.policy, learner.origin
    if origin is None:
        return policy
    return AggregativePolicy(origin[policy.rows], policy.counts, policy.actions)


def _moving(learner: Learner) -> float:
    """What moving the transitions can bring, in lemma B."""
    spec = learner.spec
    pairs = spec.horizon * (spec.horizon - 1) / 2
    return spec.delta * spec.transition_lipschitz * spec.spread * pairs


def make_status(done: int, episodes: int, learner: Learner) -> Status:
    """Whether all episodes were played and nothing contradicts what was declared."""
    name, message, fine = Outcome.LEARNED, f"{done:,} episodes were played", True
    if done < episodes:
        name, fine = Outcome.INTERRUPTED, False
        message = f"{done:,} of {episodes:,} episodes were played; the best so far is returned"
    if not learner.consistent:
        name, fine = Outcome.INEXACT, False
        message += (
            "; what was seen contradicts the Lipschitz constants or the noise that were given, or "
            "a bonus below 1: nothing is proven"
        )
    elif learner.planner.relaxed > 1:
        message += (
            f"; no cell was feasible until its slack was multiplied by "
            f"{learner.planner.relaxed:g}: the Lipschitz constant given is too small"
        )
        fine = False
    return Status(name, message, np.asarray(fine))


def as_record(learned: Learned, config: dict[str, Any]) -> Record:
    """What is kept of a finished run; seconds are not: they differ from run to run."""
    stats = {k: v for k, v in learned.stats.items() if k not in ("seconds", "aggregate")}
    scalars = {
        "width": learned.width,
        "bound": learned.bound,
        "confidence": learned.confidence,
        "status": {
            "name": str(learned.status.name),
            "message": learned.status.message,
            "ok": learned.status.ok,
        },
        "stats": stats,
    }
    arrays = {
        "rows": learned.policy.rows,
        "counts": learned.policy.counts,
        "actions": learned.policy.actions,
        "lower": learned.lower,
        "upper": learned.upper,
        "welfare": learned.welfare,
        "aggregate": learned.stats["aggregate"],
    }
    arrays |= {f"curve/{name}": values for name, values in learned.curve.items()}
    return Record("aggregative-learning", config, scalars, arrays)


def from_record(record: Record) -> Learned:
    """What `as_record` kept."""
    scalars, arrays = record.scalars, record.arrays
    status = scalars["status"]
    return Learned(
        policy=AggregativePolicy(*(arrays[name] for name in ("rows", "counts", "actions"))),
        width=scalars["width"],
        bound=scalars["bound"],
        confidence=scalars["confidence"],
        lower=arrays["lower"],
        upper=arrays["upper"],
        welfare=arrays["welfare"],
        curve={name: arrays[f"curve/{name}"] for name in _CURVES},
        status=Status(
            _EARLIER.get(str(status["name"]), str(status["name"])),
            status["message"],
            np.asarray(status["ok"]),
        ),
        stats={**scalars["stats"], "aggregate": arrays["aggregate"], "seconds": 0.0},
    )
