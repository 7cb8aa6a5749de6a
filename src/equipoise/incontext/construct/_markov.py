"""Theorem 4.3 as weights: mirror descent for Markov games in a ReLU transformer.

The paper states a width of `O(A)` and does not say where the policies of S states are stored. They
need not be in the stream of every token: each policy is in the token of the last visit of its
state, and can be looked up there. Attention counts the visits. The last visit of state `s` before
token `i` is the only token with state `s` and count `n - 1`, where `n` is the current count. The
rates of the `n`-th visit are in the embedding of round `n`. All three look-ups have scores
`1 - (difference of integers)^2`, which are 1 for one token and not positive for all others.

Hence the width is `O(A + S)`, with four heads, to output the policy of the current state, and
`O(S A)`, with `O(S)` heads, to output the policies of all states at once, as the players here do.
Neither grows with T. The price is that integers up to `T^2` must be exact, which limits T to about
a thousand in single precision. The norm does not grow with T either (the paper has `O(T^3)`).
"""

from typing import Literal

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.core.precision import double_precision
from equipoise.dynamics import Advantage, MarkovOMD
from equipoise.incontext.construct._arithmetic import Reciprocal, add_projection
from equipoise.incontext.construct._blocks import Blueprint, Head, Layout, Rows
from equipoise.incontext.construct._hand_built import HandBuilt, PositionTokens
from equipoise.incontext.construct._omd import (
    Precision,
    RoundRates,
    add_readout,
    add_step,
    assemble,
    check_knobs,
    check_parts,
    logs,
    tabulate,
)

Answer = Literal["all", "current"]
RATES = ("step", "beta", "pull", "floor", "follow")


@named_arguments
def omd_markov(
    states: int,
    actions: int,
    rounds: int,
    *,
    discount: float = 0.9,
    learner: MarkovOMD | None = None,
    answer: Answer = "all",
    log_units: int | None = None,
    reciprocal_units: int | None = None,
    newton_steps: int | None = None,
    dtype: Precision = "float64",
) -> HandBuilt:
    """Build a transformer that plays `learner` in Markov games from a player's feedback.

    This is Theorem 4.3 of the in-context paper with explicit weights. The default learner is
    `MarkovOMD.vanishing()`, the corrected Algorithm 1. Visit counts, values and the policies of all
    states are computed inside the network: a token stores the policy and the value of the state it
    updated, and later tokens look up the last visit of the state they need. With
    `answer="current"` the network outputs the policy of the current state, and with "all" (required
    for play) the policies of all states. The other options are those of `omd`.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=2, states=2).sample(2, key=0)
    >>> tf = eq.incontext.construct.omd_markov(states=2, actions=2, rounds=20)
    >>> tf.error(games, key=1) < 1e-12
    True
    """
    states = checks.check_count("states", states)
    actions = checks.check_count("actions", actions, at_least=2)
    rounds = checks.check_count("rounds", rounds)
    checks.check_range("discount", discount, 0.0, 1.0, high_open=True)
    logarithm = check_knobs(reciprocal_units, newton_steps, dtype, log_units)
    if answer not in ("all", "current"):
        raise InputError("answer", "'all' or 'current'", repr(answer))
    learner = MarkovOMD.vanishing() if learner is None else learner
    check_parts(learner, loss=Advantage)
    rates = tabulate(learner.rates, learner.value_step, rounds, actions)
    reciprocal = rates.reciprocal(reciprocal_units, newton_steps)
    asked = states if answer == "all" else 1
    layout = _layout(states, actions, asked, logarithm is not None)
    tokens = PositionTokens(actions=actions, rounds=rounds, states=states)
    with double_precision():
        plan = Blueprint(layout, dtype)
        _add_block(plan, actions, asked, discount, reciprocal)
        policies = layout["answer"] + layout["one"] / actions
        readout = add_readout(plan, policies, logarithm)
        embed = _embedding(layout, tokens, rates)
        more = {"discount": discount, "current": answer == "current", "logarithm": logarithm}
        return assemble(plan, embed, readout, tokens, learner, reciprocal, **more)


def _layout(states: int, actions: int, asked: int, logs: bool) -> Layout:
    """Return the layout of a token; policies and values are stored relative to their start."""
    return Layout(
        # input: the events of the round, its number, the rates of the visit with that number
        {"one": 1, "action": actions, "reward": 1, "state": states, "next": states}
        | {"t": 1, "t^2": 1, "count": 1}
        | {f"{name}(t)": 1 for name in RATES}
        # output: policy and value of the updated state; the answer
        | {"policy": actions, "value": 1, "answer": asked * actions}
        | ({"log": asked * actions} if logs else {})
        # scratch: counts and their squares, looked-up values, the step
        | {"visits": states, "asked": asked, "asked^2": asked}
        | {"n": 1, "n^2": 1, "ahead": 1, "ahead^2": 1}
        | {"x": actions, "V": 1, "V'": 1}
        | dict.fromkeys(RATES, 1)
        | {"z": 1, "rho": 1, "scratch": 1, "v": actions, "w": actions}
    )


SCRATCH = (
    *("visits", "asked", "asked^2", "n", "n^2", "ahead", "ahead^2"),
    *("x", "V", "V'", *RATES, "z", "rho", "scratch", "v", "w"),
)


def _embedding(layout: Layout, tokens: PositionTokens, rates: RoundRates) -> np.ndarray:
    """(width, features): embedding that copies the events and has a column for every round."""
    t = np.arange(tokens.rounds + 1.0)
    columns = {"one": np.ones(len(t)), "t": t, "t^2": t * t, "count": t + 1.0}
    columns |= {f"{name}(t)": values for name, values in rates.columns().items()}
    embed = np.zeros((layout.width, tokens.features))
    told = layout.rows(["action", "reward", "state", "next"])
    embed[:, : len(told)] = told.T
    for name, values in columns.items():
        embed[layout.places[name], len(told) :] = values
    return embed


def _add_block(
    plan: Blueprint, actions: int, asked: int, discount: float, reciprocal: Reciprocal
) -> None:
    """Add one round of mirror descent; tokens that are already correct do not change."""
    layout = plan.layout
    one, uniform, middle = layout["one"], 1.0 / actions, 0.5 / (1.0 - discount)
    _count(plan, asked)
    _look_up(plan, uniform, middle)
    plan.own(
        "z = <action, x>; clear policy; value = V",
        Head(layout["action"], layout["x"], one, layout["z"]),
        plan.clear("policy", "value"),
        plan.linear(layout["V"] - middle * one, "value"),
    )
    reciprocal.add_to(plan)
    goal = layout["reward"] + discount * layout["V'"]
    add_step(plan, loss=layout["V"] - goal, follow=("value", goal, "V"))
    add_projection(plan, actions, "policy", offset=uniform)
    _answer(plan, actions, asked)


def _count(plan: Blueprint, asked: int) -> None:
    """Count visits of every state so far, of this token's state, and of the next state before."""
    layout = plan.layout
    one, visits = layout["one"], layout["visits"]
    plan.causal(
        "visits of every state so far",
        Head(layout["count"], one, layout["state"], visits),
    )
    wanted = plan.linear(visits, "asked")
    if asked == 1 < len(visits):
        wanted = Head(layout["next"], visits, one, layout["asked"])
    plan.own(
        "n, ahead = visits of state, of next before this round; clear answer",
        Head(layout["state"], visits, one, layout["n"]),
        Head(layout["next"], visits, one, layout["ahead"]),
        Head(layout["state"], layout["next"], -one, layout["ahead"]),
        plan.clear("answer"),
        wanted,
    )
    plan.own(
        "squares of counts",
        plan.product("n", "n", "n^2"),
        plan.product("ahead", "ahead", "ahead^2"),
        *(
            plan.product(row, row, square)
            for row, square in zip(layout["asked"], layout["asked^2"], strict=True)
        ),
    )


def _visit(
    layout: Layout, square: Rows, number: Rows, state: Rows, value: Rows, target: Rows
) -> Head:
    """Return a head that reads the token of one visit; `square` is the square of its `number`."""
    query = np.concatenate([-square, 2.0 * number, -layout["one"], state])
    return Head(query, layout.rows(["one", "n", "n^2", "state"]), value, target)


def _look_up(plan: Blueprint, uniform: float, middle: float) -> None:
    """Look up the policy and value of the state, the value of the next state, and the rates."""
    layout = plan.layout
    one, n, square = layout["one"], layout["n"], layout["n^2"]
    found = layout.rows(["x", "V", "V'", *RATES])
    own, passed = layout.rows(["x", "V"]), layout.rows(["policy", "value"])
    ahead = layout["ahead^2"], layout["ahead"], layout["next"]
    plan.causal(
        "x, V from the last visit of state; V' from that of next; rates from round n",
        _visit(layout, square - 2.0 * n + one, n - one, layout["state"], passed, own),
        _visit(layout, *ahead, layout["value"], layout["V'"]),
        Head(
            np.concatenate([one - square, 2.0 * n, -one]),
            layout.rows(["one", "t", "t^2"]),
            layout.rows([f"{name}(t)" for name in RATES]),
            layout.rows(RATES),
        ),
    )
    start = np.concatenate([uniform * one] * len(layout["x"]) + [middle * one] * 2)
    plan.own(
        "undo the 1 / i; add what policies and values start from",
        plan.product(layout["count"] - one, found, found),
        plan.linear(start, layout.rows(["x", "V", "V'"])),
    )


def _answer(plan: Blueprint, actions: int, asked: int) -> None:
    """Look up the policies of the requested states at their last visits, including this round."""
    layout = plan.layout
    one, state, answer = layout["one"], layout["state"], layout["answer"]
    heads = []
    for s in range(asked):
        pick = np.zeros_like(state)
        pick[s] = one[0]
        which = pick if asked == len(state) else layout["next"]
        number, square = layout["asked"][s : s + 1], layout["asked^2"][s : s + 1]
        part = answer[s * actions : (s + 1) * actions]
        heads.append(_visit(layout, square, number, which, layout["policy"], part))
    plan.causal("answer: policies from the last visits", *heads)
    plan.own(
        "answer: undo the 1 / i; clear scratch",
        plan.product(layout["count"] - one, answer, answer),
        plan.clear(*SCRATCH, *logs(layout)),
    )
