"""Theorem 4.1 as weights: online mirror descent in a ReLU transformer."""

from dataclasses import dataclass
from math import ceil, log2
from typing import Any, Literal, get_args

import jax.numpy as jnp
import numpy as np

from equipoise import dynamics
from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.core.precision import double_precision
from equipoise.core.schedules import Rates, Schedule
from equipoise.dynamics import OMD, MarkovOMD
from equipoise.incontext._model import Transformer
from equipoise.incontext.construct._arithmetic import Logarithm, Reciprocal, add_projection
from equipoise.incontext.construct._blocks import Blueprint, Head, Layout
from equipoise.incontext.construct._hand_built import HandBuilt, PositionTokens

Precision = Literal["float32", "float64"]
Positions = Literal["binary", "integers"]


@named_arguments
def omd(
    actions: int,
    rounds: int,
    *,
    learner: OMD | None = None,
    positions: Positions = "binary",
    log_units: int | None = None,
    reciprocal_units: int | None = None,
    newton_steps: int | None = None,
    dtype: Precision = "float64",
) -> HandBuilt:
    """Build a transformer that plays `learner` for `rounds` rounds from its actions and rewards.

    This is Theorem 4.1 of the in-context paper with explicit weights. The network consists only of
    ReLU attention with the paper's causal `1 / i`, self-attention and MLPs, and repeats the same
    block once per round. The default learner is `OMD.vanishing()`: the paper's update, corrected,
    with any schedules.

    Differences from the paper: the printed proof takes the policy `x_t` from the embedding. Here a
    head copies it from the previous token, which it finds by its round number. The score of a head
    is one number that multiplies a one-hot value, whereas the paper lets a single head form A
    products. Division is not assumed but computed, by linear pieces and Newton steps. The
    projection is exact, not a sum of ReLUs that approximates a surrogate.

    With `positions="integers"` tokens hold `t` and `t^2`, and the width is the paper's `O(A)` at
    every T. Products of integers up to `T^2` must then be exact, which single precision allows up
    to T of 1,000 or more. With "binary" they hold the digits of `t`: the width is `O(A + log T)`,
    and precision does not limit T.

    The paper reads policies by a softmax of a linear map, and no such map of `x` gives `x`. By
    default the read-out is linear. With `log_units`, one more layer in each block computes so many
    linear pieces of `log x` for every action, and the read-out is the paper's softmax; its error is
    at most `logarithm.bound(actions)`.

    With `reciprocal_units` pieces and no `newton_steps` the network shows the theorem's trade-off
    of size against accuracy. By default there is one linear piece and as many Newton steps as
    double precision can resolve; if `reciprocal_units` is given, there are none.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(2, key=0)
    >>> tf = eq.incontext.construct.omd(actions=3, rounds=20)
    >>> tf.error(games, key=1) < 1e-12
    True
    >>> cheap = eq.incontext.construct.omd(actions=3, rounds=20, reciprocal_units=32)
    >>> tf.size.layers, cheap.size.layers, cheap.reciprocal.residual < 0.01
    (25, 13, True)
    >>> printed = eq.incontext.construct.omd(3, rounds=20, positions="integers", log_units=64)
    >>> printed.error(games, key=1) < printed.logarithm.bound(actions=3) < 6e-4
    True
    """
    actions = checks.check_count("actions", actions, at_least=2)
    rounds = checks.check_count("rounds", rounds)
    logarithm = check_knobs(reciprocal_units, newton_steps, dtype, log_units)
    if positions not in get_args(Positions):
        raise InputError("positions", f"one of {get_args(Positions)}", repr(positions))
    learner = OMD.vanishing() if learner is None else learner
    follow, start = _baseline(learner)
    rates = tabulate(learner.rates, follow, rounds, actions)
    reciprocal = rates.reciprocal(reciprocal_units, newton_steps)
    bits = max(1, ceil(log2(rounds + 1))) if positions == "binary" else None
    layout = _layout(actions, bits, logarithm is not None)
    tokens = PositionTokens(actions=actions, rounds=rounds)
    with double_precision():
        plan = Blueprint(layout, dtype)
        _add_block(plan, actions, bits, reciprocal)
        readout = add_readout(plan, layout["policy"], logarithm)
        embed = _embedding(layout, tokens, rates, bits, start)
        built = assemble(plan, embed, readout, tokens, learner, reciprocal, logarithm=logarithm)
    if dtype == "float32":
        built.check_single_precision()
    return built


def assemble(
    plan: Blueprint,
    embed: np.ndarray,
    readout: np.ndarray,
    tokens: PositionTokens,
    learner: OMD | MarkovOMD,
    reciprocal: Reciprocal,
    **more: Any,
) -> HandBuilt:
    """Assemble a network from a block that is repeated once per round."""
    model = Transformer(
        embed=jnp.asarray(embed, plan.dtype),
        embed_bias=None,
        layers=tuple(step.layer for step in plan.steps),
        norm=None,
        readout=jnp.asarray(readout, plan.dtype),
        readout_bias=None,
        repeats=tokens.rounds,
    )
    purposes = tuple(step.purpose for step in plan.steps)
    return HandBuilt(model, tokens, learner, plan.layout, purposes, reciprocal, **more)


def add_readout(plan: Blueprint, policies: np.ndarray, logarithm: Logarithm | None) -> np.ndarray:
    """Return the rows to read: the policies, or their logarithms, for which a layer is added.

    An earlier layer of the block must have cleared the logarithms of the previous block.
    """
    if logarithm is None:
        return policies
    logarithm.add_to(plan, policies, "log")
    return plan.layout["log"]


def check_knobs(
    units: int | None, newton_steps: int | None, dtype: str, log_units: int | None
) -> Logarithm | None:
    """Raise for invalid options; return the logarithm of the read-out."""
    if units is not None:
        checks.check_count("reciprocal_units", units)
    if newton_steps is not None:
        checks.check_count("newton_steps", newton_steps, at_least=0)
    if dtype not in ("float32", "float64"):
        raise InputError("dtype", "'float32' or 'float64'", repr(dtype))
    if log_units is None:
        return None
    return Logarithm(checks.check_count("log_units", log_units, at_least=2))


@dataclass(frozen=True)
class RoundRates:
    """Schedules at rounds (or visits) 0, 1, ..., T. In round 0 nothing changes."""

    #: Length of a gradient step, `eta / 2`.
    step: np.ndarray
    beta: np.ndarray
    #: Strength of the regulariser in a step, `eta eps / 2`.
    pull: np.ndarray
    #: Smallest probability of an action.
    floor: np.ndarray
    #: Step size of the baseline, or of the value of a state.
    follow: np.ndarray

    def columns(self) -> dict[str, np.ndarray]:
        """Return the schedules by the names of the coordinates that hold them."""
        return dict(vars(self))

    def reciprocal(self, units: int | None, newton_steps: int | None) -> Reciprocal:
        """Return the approximation of `1 / (x_a + beta)` for these rates; options as in `omd`."""
        low = float((self.floor + self.beta)[1:].min())
        start = Reciprocal(low, 1.0 + float(self.beta[1:].max()), units or 1)
        if newton_steps is None:
            newton_steps = start.exact_steps() if units is None else 0
        return Reciprocal(start.low, start.high, start.units, newton_steps)


def check_parts(learner: OMD | MarkovOMD, **more: type) -> None:
    """Raise unless the parts of the learner can be built."""
    known = {"mirror": dynamics.Euclidean, "anchor": dynamics.UniformAnchor, **more}
    for part, kind in known.items():
        found = getattr(learner, part)
        if not isinstance(found, kind):
            hint = "use the learner of vanishing(), all of whose parts can be built"
            raise InputError("learner", f"{part} {kind.__name__}", type(found).__name__, hint)


def _baseline(learner: OMD) -> tuple[Schedule | None, float]:
    """Return the schedule of a learner's baseline and its first value."""
    check_parts(learner, estimate=dynamics.ImplicitExploration)
    if isinstance(learner.loss, dynamics.Baseline):
        return learner.loss.step, float(learner.loss.start)
    for form, start in ((dynamics.PlainLoss, 1.0), (dynamics.Gain, 0.0)):
        if isinstance(learner.loss, form):
            return None, start
    expected, hint = "the loss Baseline, PlainLoss or Gain", "OMD.vanishing() has a Baseline"
    raise InputError("learner", expected, type(learner.loss).__name__, hint)


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
            lowest = f"{name} {values.min():.6g}"
            raise InputError("learner", "nonnegative rates", lowest)
    if (found.floor + found.beta)[1:].min() <= 0.0:
        raise InputError("learner", "beta or the floor above 0 in every round", "both 0")
    return found


def _layout(actions: int, bits: int | None, logs: bool) -> Layout:
    """Return the layout of a token: its input, its output, and scratch that blocks clear.

    Without `bits`, the number of a token is given by integers.
    """
    number = {"t": 1, "t^2": 1} if bits is None else {"here": bits, "previous": bits, "count": 1}
    return Layout(
        # input: constants, the events of the round, its rates, its number
        {"one": 1, "action": actions, "reward": 1}
        | {"step": 1, "beta": 1, "pull": 1, "floor": 1, "follow": 1}
        | number
        # output: the policy and the baseline of the next round, and the logarithms of the policy
        | {"policy": actions, "baseline": 1}
        | ({"log": actions} if logs else {})
        # scratch
        | {"x": actions, "b": 1, "z": 1, "rho": 1, "scratch": 1, "v": actions, "w": actions}
    )


def binary(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Return integers in binary as columns of signs, (bits, numbers).

    >>> binary(np.array([0, 1, 2]), 2).tolist()
    [[-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]
    """
    return 2.0 * ((numbers[None] >> np.arange(bits)[:, None]) & 1) - 1.0


def _embedding(
    layout: Layout, tokens: PositionTokens, rates: RoundRates, bits: int | None, start: float
) -> np.ndarray:
    """(width, features): embedding that copies action and reward; a column for every round."""
    actions, t = tokens.actions, np.arange(tokens.rounds + 1)
    first = (t == 0).astype(float)
    columns: dict[str, np.ndarray] = {
        "one": np.ones(len(t)),
        **rates.columns(),
        "policy": np.broadcast_to(first / actions, (actions, len(t))),
        "baseline": start * first,
        # The block sets the first baseline: in round 0 it moves from 0 to this "reward" in full.
        "reward": start * first,
    }
    if bits is None:
        columns |= {"t": t, "t^2": t * t}
    else:
        columns |= {
            "here": binary(t, bits),
            # Scaled by the number of tokens, by which attention divides. The first token has no
            # predecessor.
            "previous": (t > 0) * (t + 1.0) * binary(np.maximum(t - 1, 0), bits),
            "count": t + 1.0,
        }
    columns["follow"] = np.where(t == 0, 1.0, columns["follow"])
    embed = np.zeros((layout.width, tokens.features))
    embed[layout.places["action"], :actions] = np.eye(actions)
    embed[layout.places["reward"], actions] = 1.0
    for name, values in columns.items():
        embed[layout.places[name], actions + 1 :] = values
    return embed


def _add_block(plan: Blueprint, actions: int, bits: int | None, reciprocal: Reciprocal) -> None:
    """Add one round of mirror descent; tokens that are already correct do not change."""
    layout = plan.layout
    purpose = "x, b = policy, baseline of the previous token"
    if bits is None:
        found = layout.rows(["x", "b"])
        plan.causal(purpose, previous_head(layout))
        plan.own("undo the 1 / i", plan.product("t", found, found))
    else:
        plan.causal(purpose, shift_head(layout, bits))
    plan.own(
        "z = <action, x>; clear policy; baseline = b",
        Head(layout["action"], layout["x"], layout["one"], layout["z"]),
        plan.clear("policy", "baseline"),
        plan.linear(layout["b"], "baseline"),
    )
    reciprocal.add_to(plan)
    add_step(plan, loss=layout["b"] - layout["reward"], follow=("baseline", layout["reward"], "b"))
    add_projection(plan, actions, "policy")
    scratch = ("x", "b", "z", "rho", "scratch", "v", "w")
    plan.own("clear scratch", plan.clear(*scratch, *logs(layout)))


def logs(layout: Layout) -> tuple[str, ...]:
    """Return the name of the logarithms of the policies, if a layout has them."""
    return tuple(name for name in layout.sizes if name == "log")


def shift_head(layout: Layout, bits: int) -> Head:
    """Return a head that finds the previous token: the score is > 0 only if all signs agree."""
    one, here = layout["one"], layout["here"]
    return Head(
        query=layout.rows(["previous", "count"]),
        key=np.concatenate([here, (1.0 - bits) * one]),
        value=layout.rows(["policy", "baseline"]),
        target=layout.rows(["x", "b"]),
    )


def previous_head(layout: Layout) -> Head:
    """Return a head that finds the previous token: `1 - (t - 1 - t')^2` is > 0 only for it."""
    one, t, square = layout["one"], layout["t"], layout["t^2"]
    return Head(
        query=np.concatenate([2.0 * t - square, 2.0 * (t - one), -one]),
        key=layout.rows(["one", "t", "t^2"]),
        value=layout.rows(["policy", "baseline"]),
        target=layout.rows(["x", "b"]),
    )


def add_step(plan: Blueprint, *, loss: np.ndarray, follow: tuple[str, np.ndarray, str]) -> None:
    """Add layers for `v = x - step (loss rho action) - pull x` and `w = v - floor`.

    `follow` describes a quantity that moves towards a goal: (coordinate, goal, its old value).
    """
    layout = plan.layout
    name, goal, old = follow
    plan.own(
        f"scratch = loss rho; {name} += follow (goal - {old})",
        plan.product("rho", loss, "scratch"),
        plan.product("follow", goal - layout[old], name),
    )
    both = layout["v"] + layout["w"]  # written to both v and w
    step, scratch, action = layout["step"], layout["scratch"], layout["action"]
    plan.own(
        "v = x - step loss rho action - pull x; w = v - floor",
        Head(step, scratch, -action, both),
        Head(step, -scratch, action, both),
        plan.product("pull", -layout["x"], both),
        plan.linear(layout["x"], both),
        plan.linear(-np.repeat(layout["floor"], len(layout["w"]), 0), "w"),
    )
