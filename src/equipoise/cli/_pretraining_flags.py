"""The settings of pre-training as flags, in groups; a flag that is not given is the preset's.

Defaults are those of `equipoise.incontext.Config`, which is not imported here, since JAX would
come with it; in parentheses in the help, and a test compares.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from equipoise.cli._flags import Float, Int, one_of, optional, read_by, read_number, read_whole

#: For settings that can be switched off, whatever the preset says.
Off = Literal["none"]
_OFF = "none"


def _or_off(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Read a number, or "none"."""

    def read_or_off(text: str) -> Any:
        if text == _OFF:
            return text
        try:
            return read(text)
        except ValueError as error:
            raise ValueError(str(error).replace(", found", " or none, found", 1)) from error

    return read_or_off


IntOrOff = Annotated[
    int | Off | None, read_by(_or_off(read_whole), "INT|none"), optional("INT|none")
]
FloatOrOff = Annotated[
    float | Off | None, read_by(_or_off(read_number), "FLOAT|none"), optional("FLOAT|none")
]
_TRUTH = {"True": True, "False": False}
Bool = Annotated[bool | None, one_of(_TRUTH), optional("True|False")]
BoolOrOff = Annotated[
    bool | Off | None, one_of({**_TRUTH, _OFF: _OFF}), optional("True|False|none")
]


@dataclass(frozen=True)
class Model:
    """The transformer, and what it reads."""

    tokens: Annotated[
        Literal["round", "vocabulary"] | None,
        one_of(["round", "vocabulary"]),
        optional("{round,vocabulary}"),
    ] = None
    """One token a round, or the paper's vocabulary (round)."""
    reward_bins: Int = None
    """Levels of the rewards of the vocabulary (20)."""
    layers: Int = None
    """Layers, each attention and an MLP (2)."""
    heads: Int = None
    """Heads of attention (4)."""
    head_groups: IntOrOff = None
    """Groups of heads that share keys and values (none: each has its own)."""
    width: Int = None
    """Size of the residual stream (64)."""
    hidden: Int = None
    """Hidden units of the MLPs (256)."""
    attention: Annotated[
        Literal["softmax", "relu"] | None,
        one_of(["softmax", "relu"]),
        optional("{softmax,relu}"),
    ] = None
    """How attention weighs (softmax)."""
    layer_norm: Bool = None
    """Whether layers are normalised (True)."""
    shared: BoolOrOff = None
    """One model for both seats (none: where the family allows it)."""


@dataclass(frozen=True)
class Data:
    """Who plays the training games, and what is learnt from them."""

    loss: Annotated[
        Literal["exploitability", "expert"] | None,
        one_of(["exploitability", "expert"]),
        optional("{exploitability,expert}"),
    ] = None
    """Minimise the gap of the players' policies, or imitate an expert (exploitability)."""
    expert: Annotated[
        Literal["nash", "nash-samples", "omd"] | None,
        one_of(["nash", "nash-samples", "omd"]),
        optional("{nash,nash-samples,omd}"),
    ] = None
    """Whom to imitate (nash)."""
    contexts: Annotated[
        Literal["on-policy", "learners", "mixed"] | None,
        one_of(["on-policy", "learners", "mixed"]),
        optional("{on-policy,learners,mixed}"),
    ] = None
    """Who plays: the players as they are, learners, or half each (on-policy)."""
    learners: Annotated[tuple[str, ...] | None, optional("NAME")] = None
    """Learners that play (omd exp3-ix uniform)."""
    exploration: Float = None
    """Share of uniform play in the first rounds (0.2)."""
    training_games: IntOrOff = None
    """Size of the training set (none: new games in every step)."""


@dataclass(frozen=True)
class Training:
    """The optimiser, and when to stop."""

    rounds: Int = None
    """Rounds of every game (256)."""
    steps: Int = None
    """Updates of the weights, rounded up to a multiple of --play-ahead (2000)."""
    batch: Int = None
    """Games in a step (64)."""
    play_ahead: Int = None
    """Batches that are played at once, before as many updates (4)."""
    micro_batch: IntOrOff = None
    """Sequences in memory at once (none: all, or few on a CPU)."""
    optimiser: Annotated[
        Literal["adam", "muon"] | None,
        one_of(["adam", "muon"]),
        optional("{adam,muon}"),
    ] = None
    """Adam, or Muon for the matrices of the layers (adam)."""
    learning_rate: Float = None
    """The optimiser's rate (0.001)."""
    schedule: Annotated[
        Literal["cosine", "constant"] | None,
        one_of(["cosine", "constant"]),
        optional("{cosine,constant}"),
    ] = None
    """Of the rate (cosine)."""
    warmup: Int = None
    """Steps until the full rate (100)."""
    clip: Float = None
    """Largest norm of a gradient (1.0)."""
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"] | None,
        one_of(["auto", "float32", "bfloat16"]),
        optional("{auto,float32,bfloat16}"),
    ] = None
    """Of the products of matrices (auto)."""
    seeds: Int = None
    """Independent players, trained in one program (1)."""
    evaluate_every: Int = None
    """Steps between evaluations on held-out games (200)."""
    held_out: Int = None
    """Held-out games (256)."""
    patience: IntOrOff = None
    """Evaluations without a better result before training stops (none)."""
    stop_on: Annotated[
        Literal["gap", "kl"] | None,
        one_of(["gap", "kl"]),
        optional("{gap,kl}"),
    ] = None
    """What counts as better: the held-out gap, or the divergence from the expert (gap)."""
    stop_below: FloatOrOff = None
    """Stop when it is below this (none)."""


def given(*groups: Any) -> dict[str, Any]:
    """Settings that were given, by name.

    >>> given(Model(layers=3, head_groups="none"), Training(steps=10))
    {'layers': 3, 'head_groups': None, 'steps': 10}
    """
    values = {field.name: getattr(g, field.name) for g in groups for field in fields(g)}
    return {
        name: None if value == "none" else value
        for name, value in values.items()
        if value is not None
    }


def written_out(group: type, config: Any) -> Any:
    """A group of settings with the values of a config, those that are switched off as "none".

    >>> from equipoise.incontext import Config
    >>> written = written_out(Model, Config.large())
    >>> written.layers, written.shared
    (6, 'none')
    """
    values = {field.name: getattr(config, field.name) for field in fields(group)}
    return group(**{name: _OFF if value is None else value for name, value in values.items()})
