"""The numbers a learner uses in every round, for the columns of an embedding."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from equipoise.core.precision import double_precision
from equipoise.core.schedules import Rates, Schedule
from equipoise.dynamics import (
    OMD,
    Advantage,
    Baseline,
    Euclidean,
    Gain,
    ImplicitExploration,
    MarkovOMD,
    PlainLoss,
    UniformAnchor,
)
from equipoise.incontext.construct._arithmetic import Reciprocal


@dataclass(frozen=True)
class RoundRates:
    """Schedules at rounds (or visits) 0, 1, ..., T; in round 0 nothing moves."""

    #: Length of a gradient step, `eta / 2`.
    step: np.ndarray
    beta: np.ndarray
    #: `eta eps / 2`: how far the regulariser pulls in a step.
    pull: np.ndarray
    #: Least probability of an action.
    floor: np.ndarray
    #: Step of the baseline, or of the value of a state.
    follow: np.ndarray

    def columns(self) -> dict[str, np.ndarray]:
        """By the names of the coordinates that hold them."""
        return dict(vars(self))

    def reciprocal(self, units: int | None, newton_steps: int | None) -> Reciprocal:
        """The approximation of `1 / (x_a + beta)` for these rates; see `omd` for the knobs."""
        low = float((self.floor + self.beta)[1:].min())
        start = Reciprocal(low, 1.0 + float(self.beta[1:].max()), units or 1)
        if newton_steps is None:
            newton_steps = start.exact_steps() if units is None else 0
        return Reciprocal(start.low, start.high, start.units, newton_steps)


def check_learner(learner: OMD) -> tuple[Schedule | None, float]:
    """Refuse a learner that is not built; returns the baseline's schedule and its start."""
    _check_parts(learner, {"estimate": ImplicitExploration})
    if isinstance(learner.loss, Baseline):
        return learner.loss.step, float(learner.loss.start)
    for form, start in ((PlainLoss, 1.0), (Gain, 0.0)):
        if isinstance(learner.loss, form):
            return None, start
    raise ValueError(
        "learner: expected the loss Baseline, PlainLoss or Gain, "
        f"found {type(learner.loss).__name__}; OMD.vanishing() has the first"
    )


def check_markov_learner(learner: MarkovOMD) -> None:
    """Refuse a learner that is not built."""
    _check_parts(learner, {"loss": Advantage})


def _check_parts(learner: OMD | MarkovOMD, more: dict[str, type]) -> None:
    for part, kind in {"mirror": Euclidean, "anchor": UniformAnchor, **more}.items():
        if not isinstance(getattr(learner, part), kind):
            raise ValueError(
                f"learner: expected {part} {kind.__name__}, "
                f"found {type(getattr(learner, part)).__name__}; vanishing() has all that is built"
            )


def tabulate(rates: Rates, follow: Schedule | None, rounds: int, actions: int) -> RoundRates:
    """Evaluate schedules at rounds 1 to T in double precision."""
    with double_precision():
        t = jnp.arange(1, rounds + 1)

        def table(values: object, first: float) -> np.ndarray:
            return np.append(first, np.broadcast_to(np.asarray(values, float), rounds))

        step = table(rates.step(t, actions), 0.0)
        found = RoundRates(
            step=step,
            beta=table(rates.beta(t), float(rates.beta(1))),
            pull=step * table(rates.strength(t, actions), 0.0),
            floor=table(rates.floor(t) / actions, 0.0),
            follow=table(0.0 if follow is None else follow(t), 0.0),
        )
    for name, values in found.columns().items():
        if not np.isfinite(values).all() or values.min() < 0.0:
            raise ValueError(
                f"learner: expected rates that are never negative, found {name} {values.min():.6g}"
            )
    if (found.floor + found.beta)[1:].min() <= 0.0:
        raise ValueError("learner: expected beta or the floor above 0 in every round, found both 0")
    return found
